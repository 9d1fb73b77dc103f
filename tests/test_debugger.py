"""`%%explore` in a kernel whose debugger is on, as JupyterLab's is: it stops at breakpoints and compiles as without."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from jupyter_client.manager import start_new_kernel

import explorer

pytest.importorskip("debugpy")

ROOT = str(Path(__file__).parent.parent)
SECONDS = 120
CELL = """%%explore --no-time -o record
def scaled(v):
    w = v * 2
    return torch.relu(w) + 1

y = scaled(x)"""
ANSWER = """
compiled = record.data.compiles[0]
print(y.sum().item(), len(record.data.compiles), len(record.kernels), len(record.breaks),
      [n.target for n in compiled.stages[1].graph.nodes][1:], len(compiled.steps) > 10,
      compiled.error or compiled.fallback or "compiled", len(record.rewrites[0]) > 1)"""
EXPECTED = "20.0 1 1 0 ['operator.mul', 'torch.relu', 'operator.add'] True compiled True\n"


class Debugged:
    """A kernel with its debugger attached, as JupyterLab attaches it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.numbers = count(1)
        self.stops: list[int] = []

    def attach(self) -> None:
        started = self.request("initialize", clientID="test", adapterID="", pathFormat="path", linesStartAt1=True)
        assert started["success"], started
        assert self.request("attach")["success"]

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        content = {"type": "request", "seq": next(self.numbers), "command": command, "arguments": arguments}
        message = self.client.session.msg("debug_request", content)
        self.client.control_channel.send(message)
        while True:
            reply: dict[str, Any] = self.client.get_control_msg(timeout=SECONDS)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return reply["content"]

    def breakpoints(self, code: str, *lines: int) -> None:
        path = self.request("dumpCell", code=code)["body"]["sourcePath"]
        places = [{"line": line} for line in lines]
        answer = self.request("setBreakpoints", source={"path": path}, breakpoints=places, sourceModified=False)
        assert [each["verified"] for each in answer["body"]["breakpoints"]] == [True] * len(lines)
        assert self.request("configurationDone")["success"]

    def stopped(self) -> dict[str, Any]:
        """The next event that says where the debugger stopped."""
        while True:
            message = self.client.get_iopub_msg(timeout=SECONDS)
            if message["msg_type"] == "error":
                raise AssertionError("\n".join(message["content"]["traceback"]))
            if message["msg_type"] == "debug_event" and message["content"]["event"] == "stopped":
                return dict(message["content"]["body"])

    def run(self, code: str) -> str:
        """What a cell prints; where it stops, the line is noted and it goes on."""
        printed, ended = "", False
        sent = self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=SECONDS)
            kind, content = message["msg_type"], message["content"]
            if kind == "debug_event" and content.get("event") == "stopped":
                thread = content["body"]["threadId"]
                frames = self.request("stackTrace", threadId=thread)["body"]["stackFrames"]
                self.stops.append(frames[0]["line"])
                assert self.request("continue", threadId=thread)["success"]
            if message["parent_header"].get("msg_id") != sent:
                continue
            assert kind != "error", "\n".join(content["traceback"])
            printed += content["text"] if kind == "stream" and content["name"] == "stdout" else ""
            ended |= kind == "status" and content["execution_state"] == "idle"
            if ended:
                return printed


@pytest.fixture(scope="module")
def kernel() -> Iterator[Debugged]:
    manager, client = start_new_kernel(env={**os.environ, "PYTHONPATH": ROOT}, startup_timeout=SECONDS)
    found = Debugged(client)
    try:
        found.run("%load_ext explorer\nimport torch\nx = torch.full((4,), 2.0)")
        found.attach()
        yield found
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.slow
def test_a_cell_is_explored_while_the_debugger_is_on_and_stops_at_its_breakpoints(kernel: Debugged) -> None:
    kernel.breakpoints(CELL, 3, 4)
    kernel.run(CELL)
    assert kernel.stops[:2] == [3, 4]
    assert kernel.run(ANSWER) == EXPECTED


@pytest.mark.slow
def test_the_debugger_goes_through_recorded_steps_and_is_the_users_again(kernel: Debugged) -> None:
    kernel.run(CELL.replace("* 2", "* 3"))
    kernel.stops.clear()
    kernel.client.execute("%step --debugger")
    stop = kernel.stopped()
    frames = kernel.request("stackTrace", threadId=stop["threadId"])["body"]["stackFrames"]
    first = kernel.request("dumpCell", code=CELL.replace("* 2", "* 3"))["body"]["sourcePath"]
    assert frames[0]["source"]["path"] == first, "the frame is in the cell, as JupyterLab knows it"
    assert frames[0]["line"] == 6
    for command, line in (("stepIn", 3), ("next", 4), ("stepBack", 3), ("stepOut", 6)):
        assert kernel.request(command, threadId=stop["threadId"])["success"]
        stop = kernel.stopped()
        frames = kernel.request("stackTrace", threadId=stop["threadId"])["body"]["stackFrames"]
        assert frames[0]["line"] == line
    scopes = kernel.request("scopes", frameId=frames[0]["id"])["body"]["scopes"]
    assert [each["name"] for each in scopes][:3] == ["Locals", "Stack, top first", "This step"]
    assert kernel.request("debugInfo")["body"]["stoppedThreads"] == [stop["threadId"]]
    kernel.breakpoints("z = 1\nz += 1", 2)
    kernel.run("z = 1\nz += 1")
    assert kernel.stops == [2], "where the user's own cell stops, the debugger is the user's"
    ends = time.monotonic() + SECONDS  # the kernel hears of threads that go on a while after the cell
    while stopped := kernel.request("debugInfo")["body"]["stoppedThreads"]:
        assert time.monotonic() < ends, f"threads {stopped} are still stopped"


def test_what_a_debugger_runs_beside_the_program_is_not_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pydevd.py").write_text(
        "def trace(frame, event, arg):\n    seen(frame.f_code.co_name, frame.f_locals)\n\n"
        "def seen(name, values):\n    return [name, *values]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pydevd", raising=False)
    debugger = importlib.import_module("pydevd")
    before = sys.gettrace()
    sys.settrace(debugger.trace)
    try:
        record = explorer.explore(lambda x: halved(x) + 1, time=False)(torch.ones(3))
    finally:
        sys.settrace(before)
        sys.modules.pop("pydevd")
    assert [compile.title.rpartition(".")[2] for compile in record.data.compiles] == ["<lambda>"]


def halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2
