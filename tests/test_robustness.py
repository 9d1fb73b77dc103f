"""A machine or an input that is not as it should be gets one clear word, and the program still runs."""

import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import explorer
from explorer.compiler.capture import hook
from explorer.core.recorder import TOTALS
from explorer.ir.capture import CompilerBug
from explorer.show.view import html

ROOT = Path(__file__).parent.parent
PACKAGE = os.path.dirname(explorer.__file__) + os.sep

PROGRAM = """
import resource, signal, sys, warnings
import torch
import explorer

def f(x):
    return torch.relu(x).sin().sum(-1)

x = torch.linspace(-2, 2, 64).reshape(4, 16)
LIMIT
record = explorer.explore(f, time=False)(x)
torch.testing.assert_close(explorer.compile(f)(x), f(x))
for compile in record.data.compiles:
    if compile.fallback:
        print("fallback", compile.fallback.code, compile.fallback.title, compile.fallback.detail)
    for event in compile.events:
        if event.kind == "CacheMoved":
            print("moved", event.fields["wanted"], event.fields["why"])
    for half in compile.halves:
        print("kernels", len(half.kernels), half.runs)
"""

FULL_DISK = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # Python does not notice that it was cut
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
"""


def run(tmp_path: Path, limit: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.replace("LIMIT", limit))
    settings = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")} | environment
    ran = subprocess.run(
        [sys.executable, str(script)], env=settings, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran


def test_all_is_well(tmp_path: Path) -> None:
    ran = run(tmp_path)
    assert "fallback" not in ran.stdout and "moved" not in ran.stdout
    assert "kernels 1 True" in ran.stdout


def test_without_a_compiler_on_the_path_the_wheels_is_used_or_the_program_runs_eagerly(tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    ran = run(tmp_path, PATH=str(empty), CXX="")
    if find_spec("ziglang") is not None:
        assert "fallback" not in ran.stdout and "kernels 1 True" in ran.stdout
    else:
        assert "fallback" in ran.stdout and "g++" in ran.stdout


def test_a_cache_folder_that_cannot_be_written_is_replaced(tmp_path: Path) -> None:
    """A file in its place stands for a folder without permission, which root would have all the same."""
    (tmp_path / "cache").write_text("")
    ran = run(tmp_path)
    assert "kernels 1 True" in ran.stdout and "fallback" not in ran.stdout
    assert f"moved {tmp_path / 'cache'}" in ran.stdout


def test_on_a_full_disk_the_program_runs_eagerly(tmp_path: Path) -> None:
    ran = run(tmp_path, FULL_DISK)
    assert "fallback" in ran.stdout


@pytest.mark.parametrize("target", ["tpu", "cuda:sm_1", "cuda:", "cpu:x", ""])
def test_a_target_that_does_not_exist_is_refused_by_name(target: str) -> None:
    with pytest.raises(ValueError, match="cpu") as refused:
        explorer.explore(torch.relu, target=target)
    assert repr(target) in str(refused.value) or target in str(refused.value)


def test_an_option_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="speed.*fullgraph"):
        explorer.compile(torch.relu, options={"speed": 11})


def test_a_function_without_source() -> None:
    names: dict[str, object] = {"torch": torch}
    exec("def f(x):\n    return torch.relu(x) + 1", names)
    x = torch.randn(8)
    record = explorer.explore(names["f"], time=False)(x)  # type: ignore[arg-type]
    assert record.kernels and not record.data.sources
    assert "relu" in html.page(record.data)


def test_an_engine_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="explorer"):
        explorer.explore(torch.relu, engine="turbo")


def test_what_the_program_raises_comes_through() -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3)

    with pytest.raises(RuntimeError, match="size of tensor"):
        explorer.explore(wrong)(torch.ones(4))


def raising(place: object, fault: type[Exception], reached: Counter[object]) -> None:
    """Raise in the function of the package at `place`, the first time that it starts; count those that start."""

    def trace(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE):
            at = (code.co_filename[len(PACKAGE) :], code.co_firstlineno, code.co_qualname)
            reached[at] += 1
            if at == place and reached[at] == 1:
                raise fault("made for this test")

    sys.settrace(trace)


def answers(compile: Any, place: object = None, fault: type[Exception] = RuntimeError) -> tuple[list[object], Any]:
    """What calls of a function give, with prints, a break and a recompile, and which functions they reached."""
    said: list[object] = []
    reached: Counter[object] = Counter()

    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        y = torch.relu(x) * by
        said.append(by)
        if y.sum() > 0:
            y = y.sin()
        return y

    called = compile(scaled)
    raising(place, fault, reached)
    try:
        said += [called(torch.ones(size), by).tolist() for size, by in ((3, 1.0), (3, 1.0), (4, 0.0))]
    finally:
        sys.settrace(None)
    return said, reached


OWN_FRAMES = ("run", "Engine.__call__", "run_continuations")
"""Frames of the package in which nothing of ours has begun yet: Python itself raises there where its stack ends. After
a break, where a function goes on in its continuations, the part before it has run, so that eager is no way out."""


@pytest.fixture(scope="module")
def places() -> list[Any]:
    return [at for at in sorted(answers(explorer.compile)[1]) if not at[2].endswith(OWN_FRAMES)]


@pytest.mark.parametrize("number", range(24))
def test_an_error_of_ours_anywhere_does_not_reach_the_program(places: list[Any], number: int) -> None:
    fault = (RuntimeError, MemoryError, RecursionError, AssertionError)[number % 4]
    eager, _ = answers(lambda function: function)
    assert answers(explorer.compile, places[number * len(places) // 24], fault)[0] == eager


@pytest.mark.parametrize("name", ["modes", "stance", "rules_in_force"])
def test_an_error_before_a_frame_is_seen_does_not_reach_the_program(name: str, monkeypatch: Any) -> None:
    compiled = explorer.compile(torch.sin)
    x = torch.ones(3)

    def broken() -> None:
        raise MemoryError("made for this test")

    before = TOTALS[CompilerBug.TOTAL]
    with monkeypatch.context() as patched:
        patched.setattr(hook, name, broken)
        assert torch.equal(compiled(x), torch.sin(x))
    assert TOTALS[CompilerBug.TOTAL] == before + 1
    torch.testing.assert_close(compiled(x), torch.sin(x))
