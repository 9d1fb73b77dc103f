"""A debugger goes through recorded steps by the messages of the Debug Adapter Protocol, as an editor sends them."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from click.testing import CliRunner

import explorer
from explorer.show.cli import main
from explorer.show.view.dap import Adapter, Message

HERE = str(Path(__file__))


def scaled(a: torch.Tensor, factor: int) -> torch.Tensor:
    b = a * factor
    return b + 1


def looped(x: torch.Tensor) -> torch.Tensor:
    total = x
    for factor in range(3):
        total = scaled(total, factor)
    print("now")
    return total.relu()


def line(function: Callable[..., Any], offset: int) -> int:
    return function.__code__.co_firstlineno + offset


@pytest.fixture(scope="module")
def record() -> explorer.Record:
    return explorer.explore(looped, time=False)(torch.ones(4))


class Client:
    """What an editor does: sends requests in order, and keeps where the debugger stopped."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.seq = 0
        self.stops: list[Message] = []

    def ask(self, command: str, **arguments: Any) -> Message:
        self.seq += 1
        answer, *events = self.adapter.handle({"seq": self.seq, "command": command, "arguments": arguments})
        assert (answer["type"], answer["request_seq"], answer["command"]) == ("response", self.seq, command)
        self.stops += [each["body"] for each in events if each["event"] == "stopped"]
        return json.loads(json.dumps(answer))

    def body(self, command: str, **arguments: Any) -> Any:
        answer = self.ask(command, **arguments)
        assert answer["success"], answer
        return answer["body"]

    def begin(self, *lines: int, **more: Any) -> None:
        assert self.body("initialize", clientID="test", adapterID="explorer")["supportsStepBack"]
        self.body("launch")
        wanted = [{"line": each, **more} for each in lines]
        answer = self.body("setBreakpoints", source={"path": HERE}, breakpoints=wanted)
        assert all(each["verified"] for each in answer["breakpoints"]), answer
        self.body("configurationDone")
        assert self.stops[-1]["reason"] == "entry"

    def move(self, command: str, **arguments: Any) -> tuple[str, int]:
        """The function and the line that a move leads to."""
        before = len(self.stops)
        self.body(command, threadId=self.stops[-1]["threadId"], **arguments)
        assert len(self.stops) == before + 1, "one move is one stop"
        top = self.frames()[0]
        return top["name"], top["line"]

    def frames(self) -> list[Message]:
        return self.body("stackTrace", threadId=self.stops[-1]["threadId"])["stackFrames"]

    def scopes(self, frame: int = 0) -> dict[str, dict[str, str]]:
        found = self.body("scopes", frameId=self.frames()[frame]["id"])["scopes"]
        asked = {each["name"]: each["variablesReference"] for each in found}
        return {
            name: {each["name"]: each["value"] for each in self.body("variables", variablesReference=ref)["variables"]}
            for name, ref in asked.items()
        }


def test_moves_lead_back_to_where_they_came_from(record: explorer.Record) -> None:
    client = Client(Adapter(record.data))
    client.begin()
    client.body("setExceptionBreakpoints", filters=[])
    name, start = client.frames()[0]["name"], client.frames()[0]["line"]
    assert name == "looped"
    forth = [client.move("next") for _ in range(6)]
    assert {each for each, _ in forth} == {"looped"}, "next goes over calls"
    assert forth[:3] == [("looped", line(looped, each)) for each in (2, 3, 2)]
    back = [client.move("stepBack") for _ in range(6)]
    assert back == [*reversed(forth[:-1]), ("looped", start)]
    assert client.move("stepBack") == ("looped", start)
    assert client.stops[-1]["description"] == "The first step"


def test_calls_are_entered_and_left_and_shown_with_their_callers(record: explorer.Record) -> None:
    client = Client(Adapter(record.data))
    client.begin(line(scaled, 1))
    assert client.move("continue") == ("scaled", line(scaled, 1))
    assert [(each["name"], each["line"]) for each in client.frames()] == [
        ("scaled", line(scaled, 1)), ("looped", line(looped, 3)),
    ]  # fmt: skip
    assert client.scopes()["Locals"].keys() == {"a", "factor"}
    assert client.scopes(frame=1)["Locals"].keys() >= {"x", "total"}, "a caller's frame has its own locals"
    assert "Graph so far" not in client.scopes(frame=1)
    assert client.move("stepIn") == ("scaled", line(scaled, 2))
    assert any("mul" in each for each in client.scopes()["Graph so far"].values())
    assert client.move("stepOut")[0] == "looped"
    assert client.move("stepIn", granularity="instruction")[0] == "looped"


def test_breakpoints_stop_once_for_each_time_and_take_queries_as_conditions(record: explorer.Record) -> None:
    (compile, *_) = record.steps
    client = Client(Adapter(record.data))
    client.begin(line(scaled, 1), condition="attempt=1 local:factor")
    client.body("setExceptionBreakpoints", filters=[])
    factors = []
    for _ in range(3):
        assert client.move("continue") == ("scaled", line(scaled, 1))
        factors.append(client.scopes()["Locals"]["factor"].split()[0])
    assert factors == ["0", "1", "2"]
    assert client.move("reverseContinue") == ("scaled", line(scaled, 1))
    assert client.scopes()["Locals"]["factor"].startswith("1")
    wanted = [{"line": line(scaled, 1), "condition": "color:red"}, {"line": 1},
              {"line": line(scaled, 2), "condition": "node:"}]  # fmt: skip
    answer = client.body("setBreakpoints", source={"path": HERE}, breakpoints=wanted)["breakpoints"]
    assert [each["verified"] for each in answer] == [False, False, True]
    assert "no instruction has 'color'" in answer[0]["message"]
    assert answer[2]["message"] == f"{len(compile.find(f'node: line:{line(scaled, 2)}'))} hits"


def test_a_run_stops_at_graph_breaks_and_goes_on_in_what_was_compiled_after_them(record: explorer.Record) -> None:
    client = Client(Adapter(record.data))
    client.begin()
    while client.stops[-1]["reason"] != "exception":
        assert client.move("continue") and len(client.stops) < 9
    assert "print" in client.stops[-1]["text"]
    assert client.frames()[0]["line"] == line(looped, 4)
    assert "continues in f1" in client.body("exceptionInfo", threadId=1)["description"]
    client.move("continue")
    assert client.stops[-1]["threadId"] == len(record.steps) and "No breakpoint after" in client.stops[-1]["text"]
    client.move("reverseContinue")
    assert client.stops[-1]["reason"] == "exception"


def test_the_prompt_takes_the_commands_of_a_walk(record: explorer.Record) -> None:
    client = Client(Adapter(record.data))
    client.begin()
    listed = client.body("evaluate", expression="/node:", context="repl")["result"]
    assert f"{len(record.steps[0].find('node:'))} steps of" in listed and len(client.stops) == 1
    client.body("evaluate", expression="n", context="repl")
    assert client.adapter.step == record.steps[0].move(0, "node:") and len(client.stops) == 2
    frame = client.frames()[0]["id"]
    value = client.body("evaluate", expression="a", frameId=frame, context="hover")["result"]
    assert value.startswith("tensor")
    answer = client.ask("evaluate", expression="n", frameId=frame, context="hover")
    assert "is not a local variable at this step" in answer["message"]


@pytest.mark.parametrize("command, arguments, said", [
    ("restartFrame", {}, "cannot answer"),
    ("setBreakpoints", {}, "malformed"),
    ("setBreakpoints", {"source": {"path": HERE}, "breakpoints": [{}]}, "malformed"),
    ("stackTrace", {"threadId": "many"}, "many"),
    ("scopes", {"frameId": [1]}, "malformed"),
    ("variables", {"variablesReference": 10**9}, "of an earlier step"),
    ("source", {"source": {"path": "/etc/passwd"}}, "does not hold"),
    ("exceptionInfo", {}, "does not break"),
])  # fmt: skip
def test_what_cannot_be_answered_is_refused(record: explorer.Record, command: str, arguments: Any, said: str) -> None:
    answer = Client(Adapter(record.data)).ask(command, **arguments)
    assert not answer["success"] and said in answer["message"]


def test_a_file_that_is_not_here_is_read_from_the_record(tmp_path: Path) -> None:
    gone = tmp_path / "gone.py"
    gone.write_text("# one\n# two\n\ndef f(x):\n    return x + 1\n")
    names: dict[str, Any] = {}
    exec(compile(gone.read_text(), gone, "exec"), names)
    record = explorer.explore(names["f"], time=False)(torch.ones(2))
    gone.unlink()
    client = Client(Adapter(record.data))
    client.begin()
    source = client.frames()[0]["source"]
    assert source["sourceReference"] > 0
    text = client.body("source", source=source, sourceReference=source["sourceReference"])["content"]
    assert text.split("\n")[client.frames()[0]["line"] - 1] in ("def f(x):", "    return x + 1")


def test_the_command_answers_an_editor_on_standard_input(record: explorer.Record, tmp_path: Path) -> None:
    file = record.save(tmp_path / "looped.explore.json.gz")
    requests = [
        {"command": "initialize", "arguments": {"adapterID": "explorer"}}, {"command": "launch", "arguments": {}},
        {"command": "configurationDone"}, {"command": "stepIn", "arguments": {"threadId": 1}},
        {"command": "stepBack", "arguments": {"threadId": 1}}, {"command": "disconnect"}, {"command": "threads"},
    ]  # fmt: skip
    given = b""
    for seq, each in enumerate(requests, 1):
        text = json.dumps({"type": "request", "seq": seq, **each}).encode()
        given += b"Content-Length: %d\r\n\r\n%b" % (len(text), text)
    result = CliRunner().invoke(main, ["dap", str(file)], input=given)
    assert result.exit_code == 0, result.output
    answers, rest = [], io.BytesIO(result.stdout_bytes)
    while header := rest.readline():
        assert rest.readline() == b"\r\n"
        answers.append(json.loads(rest.read(int(header.removeprefix(b"Content-Length:")))))
    assert [each["seq"] for each in answers] == list(range(1, len(answers) + 1))
    told = [each.get("event") or each["command"] for each in answers]
    assert told == [
        "initialize", "initialized", "launch", "configurationDone", "stopped", "stepIn", "stopped", "stepBack",
        "stopped", "disconnect",
    ]  # fmt: skip


class Editor:
    """Speaks to a debug adapter in a process of its own as VS Code does: what it sends, and in which order."""

    def __init__(self, file: Path) -> None:
        command = [sys.executable, "-m", "explorer", "dap", str(file)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.seq = 0
        self.events: list[Message] = []

    def send(self, command: str, **arguments: Any) -> int:
        self.seq += 1
        sent = {"command": command, "arguments": arguments, "type": "request", "seq": self.seq}
        text = json.dumps(sent).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))
        self.process.stdin.flush()
        return self.seq

    def heard(self) -> Message:
        assert self.process.stdout is not None
        length = int(self.process.stdout.readline().removeprefix(b"Content-Length:"))
        assert self.process.stdout.readline() == b"\r\n"
        return json.loads(self.process.stdout.read(length))

    def answer(self, seq: int) -> Message:
        while (message := self.heard())["type"] == "event":
            self.events.append(message)
        assert message["request_seq"] == seq
        return message

    def ask(self, command: str, **arguments: Any) -> Any:
        answer = self.answer(self.send(command, **arguments))
        assert answer["success"], answer
        return answer["body"]

    def event(self, name: str) -> Any:
        while not self.events:
            self.events.append(self.heard())
        found = self.events.pop(0)
        assert found["event"] == name
        return found["body"]

    def stop(self) -> tuple[str, list[Message]]:
        """After each stop: threads, the top frame, then the others; the scopes of the top one, and the variables of
        those that are not expensive."""
        stopped = self.event("stopped")
        thread = stopped["threadId"]
        assert thread in {each["id"] for each in self.ask("threads")["threads"]}
        top = self.ask("stackTrace", threadId=thread, startFrame=0, levels=1)
        rest = self.ask("stackTrace", threadId=thread, startFrame=1, levels=19)
        assert len(top["stackFrames"]) == 1 and top["totalFrames"] == 1 + len(rest["stackFrames"])
        for scope in self.ask("scopes", frameId=top["stackFrames"][0]["id"])["scopes"]:
            if not scope["expensive"]:
                self.ask("variables", variablesReference=scope["variablesReference"])
        return stopped["reason"], [*top["stackFrames"], *rest["stackFrames"]]


def test_an_editor_gets_through_a_session(record: explorer.Record, tmp_path: Path) -> None:
    editor = Editor(record.save(tmp_path / "looped.explore.json.gz"))
    about = {"clientID": "vscode", "clientName": "Visual Studio Code", "adapterID": "explorer", "pathFormat": "path",
             "linesStartAt1": True, "columnsStartAt1": True, "supportsVariableType": True,
             "supportsVariablePaging": True, "supportsRunInTerminalRequest": True, "locale": "en",
             "supportsProgressReporting": True, "supportsInvalidatedEvent": True, "supportsMemoryReferences": True,
             "supportsArgsCanBeInterpretedByShell": True, "supportsMemoryEvent": True,
             "supportsStartDebuggingRequest": True, "supportsANSIStyling": True}  # fmt: skip
    able = editor.ask("initialize", **about)
    launched = editor.send("launch", name="looped", type="explorer", request="launch", __sessionId="1")
    assert editor.answer(launched)["success"]
    editor.event("initialized")
    source = {"name": "test_dap.py", "path": HERE}
    wanted = {"lines": [line(scaled, 1)], "breakpoints": [{"line": line(scaled, 1)}], "sourceModified": False}
    (point,) = editor.ask("setBreakpoints", source=source, **wanted)["breakpoints"]
    assert point["verified"] and point["line"] == line(scaled, 1)
    filters = [each["filter"] for each in able["exceptionBreakpointFilters"] if each["default"]]
    editor.ask("setExceptionBreakpoints", filters=filters, filterOptions=[])
    editor.ask("configurationDone")
    assert editor.stop()[0] == "entry"
    assert editor.ask("continue", threadId=1)["allThreadsContinued"]
    reason, frames = editor.stop()
    assert (reason, [each["name"] for each in frames]) == ("breakpoint", ["scaled", "looped"])
    shown = {"frameId": frames[0]["id"], "line": frames[0]["line"], "column": 9, "source": frames[0]["source"]}
    assert editor.ask("evaluate", expression="factor", context="hover", **shown)["result"].startswith("0")
    (locals,) = (each for each in editor.ask("scopes", frameId=frames[0]["id"])["scopes"] if each["name"] == "Locals")
    assert locals["presentationHint"] == "locals"
    of = locals["variablesReference"]
    whole = editor.ask("variables", variablesReference=of)["variables"]
    assert editor.ask("variables", variablesReference=of, start=1, count=1)["variables"] == whole[1:2]
    for each in whole:
        watched = editor.ask("evaluate", expression=each["evaluateName"], context="watch", frameId=frames[0]["id"])
        assert watched["result"] == each["value"]
    editor.ask("next", threadId=1)
    assert editor.stop()[1][0]["line"] == line(scaled, 2)
    editor.ask("stepBack", threadId=1)
    assert editor.stop()[1][0]["line"] == line(scaled, 1)
    stale = editor.answer(editor.send("evaluate", expression="factor", context="watch", frameId=frames[0]["id"]))
    assert not stale["success"] and "an earlier step" in stale["message"]
    while reason != "exception":
        editor.ask("continue", threadId=1)
        reason, _ = editor.stop()
    assert "print" in editor.ask("exceptionInfo", threadId=1)["description"]
    editor.ask("terminate", restart=False)
    editor.event("terminated")
    editor.ask("disconnect", restart=False)
    assert editor.process.wait(60) == 0


def held(x: torch.Tensor, sizes: dict[str, list[int]]) -> torch.Tensor:
    pair = (x * sizes["first"][0], sizes)
    return pair[0] + 1


def test_what_a_local_was_is_evaluated_by_its_path() -> None:
    record = explorer.explore(held, time=False)(torch.ones(4), {"first": [2, 3]})
    client = Client(Adapter(record.data))
    client.begin(line(held, 2))
    client.move("continue")
    frame = client.frames()[0]["id"]

    def shown(reference: int) -> dict[str, Message]:
        return {each["name"]: each for each in client.body("variables", variablesReference=reference)["variables"]}

    pending = list(shown(client.body("scopes", frameId=frame)["scopes"][0]["variablesReference"]).values())
    seen = {}
    while pending:
        each = pending.pop()
        seen[each["evaluateName"]] = each["type"]
        hovered = client.body("evaluate", expression=each["evaluateName"], frameId=frame, context="hover")
        assert hovered["result"] == each["value"]
        pending += shown(each["variablesReference"]).values() if each["variablesReference"] else ()
    assert seen["pair[0]"] == "tensor" and any("first" in each for each in seen)
    assert not client.ask("evaluate", expression="pair[7]", frameId=frame, context="hover")["success"]


def test_the_command_refuses_what_is_no_request_and_a_record_without_steps(
    record: explorer.Record, tmp_path: Path
) -> None:
    file = record.save(tmp_path / "looped.explore.json.gz")
    for given in (b"hello\r\n\r\n", b"Content-Length: 2\r\n\r\n[]", b"Content-Length: -1\r\n\r\n"):
        result = CliRunner().invoke(main, ["dap", str(file)], input=given)
        assert result.exit_code == 2 and "expected" in result.stderr, (given, result.output)
    with pytest.raises(ValueError, match="has no steps"):
        Adapter(msgspec.structs.replace(record.data, compiles=()))
