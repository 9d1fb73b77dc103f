"""Where a compiled thing starts: at the program's own code, where it has some, and never at ours."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explorer
from capturing import compiled


class Gained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor, gain: float = 2.0) -> Tensor:
        return self.linear(x) * gain


class Derived(Gained):
    def forward(self, x: Tensor, gain: float = 3.0) -> Tensor:
        return super().forward(x, gain).relu()


class Caller:
    def __init__(self) -> None:
        self.shift = 1.0

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.shift


OWN = Path(explorer.__file__).parent


@pytest.mark.parametrize(
    ("target", "title"),
    [
        (Gained(), "Gained.forward"), (Derived(), "Derived.forward"), (nn.Linear(3, 3), "Linear.forward"),
        (Caller(), "Caller.__call__"), (Caller().__call__, "Caller.__call__"), (torch.relu, "relu"),
        (nn.Sequential(nn.Linear(3, 3), nn.ReLU()), "Sequential.forward"),
    ],
    ids=["module", "derived", "library", "object", "method", "builtin", "sequential"],
)  # fmt: skip
def test_the_record_shows_the_programs_own_source(target: Any, title: str) -> None:
    record = explorer.explore(target, time=False)(torch.ones(2, 3))
    compile = record.data.compiles[-1]
    assert compile.title == title
    assert not any(Path(source.file).is_relative_to(OWN) for source in record.data.sources)
    spans = [node.span for stage in compile.stages if stage.graph for node in stage.graph.nodes if node.span]
    assert not any(Path(span.file).is_relative_to(OWN) for span in spans)
    tensor = next(each for each in compile.inputs if each.kind == "tensor")
    if target is not torch.relu:
        assert tensor.role == "argument" and record.data.sources


def test_a_module_without_hooks_starts_at_its_forward_and_one_with_hooks_at_its_call() -> None:
    module = Gained()
    fn, captures = compiled(module)
    x = torch.randn(2, 3)

    def check(root: str) -> None:
        assert torch.equal(fn(x), module(x))
        assert torch.equal(fn(x, gain=4.0), module(x, gain=4.0))
        assert captures.made[-1].code.qualname == root
        assert captures.breaks == []

    check("Gained.forward")
    handle = module.register_forward_hook(lambda module, args, out: out + len(args))
    check("Gained")
    handle.remove()
    before = len(captures.made)
    check("Gained")
    assert len(captures.made) == before, "what was compiled without hooks is good again"


def test_a_replaced_forward_is_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Gained()
    fn, captures = compiled(module)
    x = torch.randn(2, 3)
    fn(x)
    monkeypatch.setattr(Gained, "forward", lambda self, x: self.linear(x) - 5)
    torch.testing.assert_close(fn(x), module.linear(x) - 5)
    monkeypatch.undo()
    module.forward = lambda x: module.linear(x) + 5  # type: ignore[method-assign]
    torch.testing.assert_close(fn(x), module.linear(x) + 5)
    del module.forward
    torch.testing.assert_close(fn(x), module.linear(x) * 2)


def test_an_error_in_the_graph_names_a_line() -> None:
    def fails(x: Tensor, at: Tensor) -> Tensor:
        return x[at]

    with pytest.raises(IndexError, match="out of range|out of bounds") as raised:
        explorer.compile(fails, backend="eager")(torch.ones(2), torch.tensor([7]))
    lines = [each.lineno for each in traceback.extract_tb(raised.value.__traceback__) if each.name == "fails"]
    assert lines[-1] == fails.__code__.co_firstlineno + 1


def test_what_a_graph_raises_and_the_program_does_not_is_made_good_by_eager() -> None:
    def broken(module: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            raise ZeroDivisionError("in the graph")

        return run

    assert torch.equal(explorer.compile(lambda x: x + 1, backend=broken)(torch.ones(2)), torch.full((2,), 2.0))


def test_wrong_arguments_are_the_modules_error() -> None:
    with pytest.raises(TypeError, match=r"forward\(\) got an unexpected keyword argument 'loss'"):
        explorer.compile(Gained())(torch.ones(2, 3), loss=1.0)


def test_continuations_say_whose_they_are() -> None:
    class Printing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x + 1
            print("first")
            y = y * 2
            print("second")
            return y - 1

    record = explorer.explore(Printing(), time=False)(torch.ones(2))
    first, second, third = (compile for compile in record.data.compiles if compile.codes)
    assert (first.continues, second.continues, third.continues) == ("", first.id, second.id)
    for before, after in ((first, second), (second, third)):
        (broken,) = before.breaks
        assert broken.continuation == after.title == after.codes[0].name
        assert broken.continuation in [code.name for code in before.codes if code.role == "continuation"]
