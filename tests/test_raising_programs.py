"""Programs that raise, explored, watched and run as scripts: told as raising, with the program's line."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer.show.cli import script
from explorer.show.record import Record
from explorer.show.watch import Watch

HEAD = """
import torch
from torch import nn
class Odd(Exception):
    def __init__(self, code, text): super().__init__(text); self.code = code
class Mute(Exception):
    def __str__(self): raise TypeError("no text")
"""

PROGRAMS = {
    "before any graph": "def f(x):\n    if x.shape[0] == 3: raise Odd(3, 'too many rows')  # HERE\n    return x.sin()",
    "after a graph": "def f(x):\n    y = x.sin() + 1\n    raise Odd(3, 'after the sine')  # HERE",
    "by the data": "def f(x):\n    y = x.cos()\n    if y.sum().item() > -9: raise Odd(5, 'of the data')  # HERE",
    "in a nested function": """
def deep(y): return {}['missing']  # HERE
def middle(y): return deep(y) + 1
def f(x): return middle(x.cos())
""",
    "chained": """
def f(x):
    try: [][1]
    except IndexError as error:
        raise Odd(1, 'no element') from error  # HERE
""",
    "while another is handled": """
def f(x):
    try: raise Odd(6, 'first')
    except Odd: x.sin() + {}['second']  # HERE
""",
    "a group": "def f(x):\n    raise ExceptionGroup('several', [ValueError('a'), Odd(1, 'b')])  # HERE",
    "an assertion": "def f(x):\n    y = x.cos()\n    assert y.shape[0] == 4, f'rows: {y.shape[0]}'  # HERE",
    "an interrupt": "def f(x):\n    y = x.cos()\n    raise KeyboardInterrupt('by hand')  # HERE",
    "an end": "def f(x):\n    y = x.cos()\n    raise SystemExit(3)  # HERE",
    "out of a generator": """
def made(y):
    yield y
    raise StopIteration('in here')  # HERE
def f(x): return sum(made(x.cos()))
""",
    "in a hook": """
lin = nn.Linear(3, 3)
def hook(m, i, o): raise Odd(2, 'in the hook')  # HERE
lin.register_forward_hook(hook)
def f(x): return lin(x) + 1
""",
    "in a backward": """
class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a): return a * 2
    @staticmethod
    def backward(ctx, g): raise Odd(4, 'in the backward')  # HERE
w = nn.Parameter(torch.ones(3))
def f(x): Bad.apply(w * x).sum().backward()
""",
    "out of an operator": "def f(x):\n    i = torch.tensor([9])\n    return x[i] + 1  # HERE",
    "with finally": """
def f(x):
    y = x.cos()
    try: raise Odd(6, 'inside')  # HERE
    finally: y.add_(1)
""",
    "without a text": "def f(x): raise Mute  # HERE",
}


def made(name: str, file: Path, last: str = "") -> tuple[dict[str, Any], str]:
    """The program's names, and its line that raises, "FILE:LINE"."""
    text = f"{HEAD}{PROGRAMS[name]}\n{last}"
    file.write_text(text)
    linecache.checkcache(str(file))
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "# HERE" in line)
    space: dict[str, Any] = {"__name__": "raising"}
    if not last:
        exec(compile(text, str(file), "exec"), space)
    return space, f"{file.name}:{line}"


def told(record: Record, raised: BaseException, place: str) -> None:
    shown = repr(record)
    assert type(raised).__name__ in shown and place in shown, shown
    error = record.errors[-1]
    assert error.raises and error.kind == type(raised).__name__
    assert f"{error.span.place()}".endswith(place) or place in error.message or error.kind == "RuntimeError"
    assert "! the program raises" in next(line for line in shown.splitlines() if "!" in line), shown


def explored(f: Callable[[torch.Tensor], Any], x: torch.Tensor, log: Watch) -> None:
    explorer.explore(f, time=False)(x)


def watched(f: Callable[[torch.Tensor], Any], x: torch.Tensor, log: Watch) -> None:
    with log:
        torch.compile(f, backend="eager")(x)


def outside(f: Callable[[torch.Tensor], Any], x: torch.Tensor, log: Watch) -> None:
    """A part of the watched program that nobody compiles."""
    with log:
        f(x)


@pytest.mark.parametrize("way", (explored, watched, outside))
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_program_raises_is_reported_with_its_line(name: str, way: Callable[..., None], tmp_path: Path) -> None:
    space, place = made(name, tmp_path / "program.py")
    log = explorer.watch(live=False)
    with pytest.raises(BaseException) as caught:
        way(space["f"], torch.ones(3, 3), log)
    record = caught.value.explored if way is explored else log.record
    told(record, caught.value, place)


@pytest.mark.parametrize("name", ("in a nested function", "an end", "an interrupt", "in a backward", "without a text"))
def test_what_a_script_raises_is_reported_with_its_line(name: str, tmp_path: Path) -> None:
    last = "torch.compile(lambda x: x.sin(), backend='eager')(torch.ones(3)); f(torch.ones(3, 3))"
    space, _ = made(name, tmp_path / "program.py")
    with pytest.raises(BaseException) as caught:
        space["f"](torch.ones(3, 3))
    _, place = made(name, tmp_path / "program.py", last)
    log = explorer.watch(live=False)
    assert script.run(str(tmp_path / "program.py"), [], log) != 0
    told(log.record, caught.value, place)
    assert log.record.graphs


@pytest.mark.parametrize("code", ("", "0"))
def test_a_script_that_ends_well_has_no_error(code: str, tmp_path: Path) -> None:
    file = tmp_path / "ends.py"
    file.write_text(f"import sys\nsys.exit({code})\n")
    log = explorer.watch(live=False)
    assert script.run(str(file), [], log) == 0
    assert not log.record.errors and not log.record.data.notes[:-1]


def test_causes_are_reported_with_their_lines(tmp_path: Path) -> None:
    space, _ = made("chained", tmp_path / "program.py")
    log = explorer.watch(live=False)
    with pytest.raises(Exception, match="no element"), log:
        space["f"](torch.ones(3))
    [error] = log.record.errors
    assert "caused by IndexError: list index out of range" in error.message and "program.py:" in error.message
