"""Branches on tensors rewritten with torch.where: what is rewritten computes the same, all else is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explorer
from explorer.ir.record import BreakData, CompileData
from explorer.records.stock.rewrite import NotRewritable, rewritten

FACTOR = 3.0


def line_of(fn: Callable[..., Any], text: str = "# here") -> int:
    lines, first = inspect.getsourcelines(fn)
    return first + next(number for number, line in enumerate(lines) if text in line)


def name_of(value: Any) -> str:
    return "" if isinstance(value, str) else str(getattr(value, "__name__", type(value).__name__))


def assigns(x: Tensor) -> Tensor:
    y = x.sum()
    if y > 0:  # here
        y = y.sin() * FACTOR
    else:
        y = torch.cos(y)
    return y + x


def assigns_on_one_side(x: Tensor, scale: float = 2.0) -> Tensor:
    if not (x.mean() > 0).any():  # here
        x = x * scale
    return x.exp()


def returns_early(x: Tensor) -> tuple[Tensor, Tensor]:
    if x.relu().sum():  # here
        return x + 1, x.amax()
    return x - 1, F.relu(x).sum()


def chooses(x: Tensor) -> Tensor:
    y = x + (x.sin() if x.max() > 1 else x.cos()) * 2  # here
    return y.relu()


def closing(bound: float) -> Callable[[Tensor], Tensor]:
    def over(x: Tensor) -> Tensor:
        if x.sum() > bound:  # here
            return x / bound
        return x * bound

    return over


def assigns_several(x: Tensor) -> Tensor:
    a = b = x
    if x.sum() > 0:  # here
        c = a * 2
        d = b.sin()
    else:
        d = b.cos()
        c = a
    return c + d


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # here
            x = self.up(x)
        else:
            x = self.down(x)
        return x.sin()


@pytest.mark.parametrize(
    "fn", [assigns, assigns_on_one_side, returns_early, chooses, closing(2.0), assigns_several, Gate()], ids=name_of
)
def test_what_is_rewritten_computes_the_same(fn: Any) -> None:
    torch.manual_seed(0)
    function, owner = (type(fn).forward, fn) if isinstance(fn, torch.nn.Module) else (fn, None)
    made = rewritten(function, {line_of(function)}, owner)
    whole = torch.compile(fn, backend="eager", fullgraph=True)
    for x in (torch.rand(4) + 1, -torch.rand(4) - 1):
        expected = fn(x)
        with made.instead(made.code):
            torch.testing.assert_close(fn(x), expected)
            torch.testing.assert_close(whole(x), expected)
        with made.instead(made.probed):
            torch.testing.assert_close(fn(x), expected)
    assert function.__code__ not in (made.code, made.probed)
    assert {taken for _, taken in made.taken} == {True, False}
    assert any(line.startswith("+") and "torch.where(" in line for line in made.diff)
    torch._dynamo.reset()


def prints(x: Tensor) -> Tensor:
    if x.sum() > 0:  # here
        print(x)
    return x


def mutates(x: Tensor) -> Tensor:
    if x.sum() > 0:  # here
        x = x.add_(1)
    return x


def adds_in_place(x: Tensor) -> Tensor:
    if x.sum() > 0:  # here
        x += 1
    return x


def draws(x: Tensor) -> Tensor:
    if x.sum() > 0:  # here
        x = F.dropout(x)
    return x


def in_place_by_name(x: Tensor) -> Tensor:
    if x.sum() > 0:  # here
        y = F.relu(x, inplace=True)
    else:
        y = x
    return y + x


def in_place_by_position(x: Tensor) -> Tensor:
    return F.relu(x, True) if x.sum() > 0 else x  # here


def sets_something(x: Tensor) -> Tensor:
    return torch.set_num_threads(2) if x.sum() > 0 else x  # here


def shadows(x: Tensor, F: Any) -> Tensor:
    return F.add_(x) if x.sum() > 0 else x  # here


def appends(x: Tensor, into: list[Tensor]) -> Tensor:
    if x.sum() > 0:  # here
        into.append(x)
    return x


def loops(x: Tensor) -> Tensor:
    while x.sum() > 0:  # here
        x = x - 1
    return x


def new_name(x: Tensor) -> Tensor:
    if x.sum() > 0:  # here
        y = x
    return y


def calls(x: Tensor) -> Tensor:
    if x.sum() > 0:  # here
        x = assigns(x)
    return x


def goes_on(x: Tensor) -> Tensor:
    if x.sum() > 0:  # here
        return x
    x = x * 2
    return x.sin()


@pytest.mark.parametrize(
    ("fn", "why"),
    [
        (prints, "does more than assign names: print"),
        (mutates, "calls x.add_()"),
        (adds_in_place, "does more than assign names: x += 1"),
        (draws, "calls F.dropout()"),
        (appends, "does more than assign names: into.append"),
        (in_place_by_name, "calls F.relu()"),
        (in_place_by_position, "calls F.relu()"),
        (sets_something, "calls torch.set_num_threads()"),
        (shadows, "calls F.add_()"),
        (loops, "no if statement or conditional expression"),
        (new_name, "only one side assigns y"),
        (calls, "calls assigns()"),
        (goes_on, "continues with more than a return"),
    ],
    ids=name_of,
)
def test_what_may_not_be_the_same_is_refused(fn: Any, why: str) -> None:
    with pytest.raises(NotRewritable) as refused:
        rewritten(fn, {line_of(fn)})
    assert why in str(refused.value)


@pytest.mark.parametrize("call", ["F.rrelu(x, training=True)", "F.gumbel_softmax(x)", "torch.binomial(x, x)",
    "F.fractional_max_pool2d(x, 2, 1)", "F.alpha_dropout(x)", "torch.rrelu(x)", "x.geometric(0.5)"])  # fmt: skip
def test_a_call_that_draws_random_numbers_is_not_run_on_both_sides(call: str, tmp_path: Any) -> None:
    file = tmp_path / "drawing.py"
    file.write_text(f"def f(x):\n    if x.sum() > 0:\n        x = {call}\n    return x\n")
    space: dict[str, Any] = {"F": F, "torch": torch}
    exec(compile(file.read_text(), str(file), "exec"), space)
    with pytest.raises(NotRewritable, match="calls"):
        rewritten(space["f"], {2})


LAYERS_THAT_DRAW = (
    nn.Dropout(), nn.AlphaDropout(), nn.RReLU(), nn.Sequential(nn.ReLU(), nn.RReLU()), nn.FractionalMaxPool2d(2, 2),
    nn.LSTM(4, 4, 2, dropout=0.5), nn.MultiheadAttention(4, 2, dropout=0.5), nn.TransformerEncoderLayer(4, 2),
)  # fmt: skip


@pytest.mark.parametrize("layer", [*LAYERS_THAT_DRAW, nn.LSTM(4, 4), nn.MultiheadAttention(4, 2)], ids=name_of)
def test_a_layer_that_draws_random_numbers_is_not_run_on_both_sides(layer: nn.Module) -> None:
    gate = Gate()
    gate.up = layer
    refuses = pytest.raises(NotRewritable, match=r"calls self.up\(\)") if layer in LAYERS_THAT_DRAW else nullcontext()
    with refuses:
        rewritten(Gate.forward, {line_of(Gate.forward)}, gate)


def explored(fn: Any, *args: Any) -> tuple[list[BreakData], list[CompileData]]:
    settings = {"backend": "eager"}
    record = explorer.explore(fn, engine="stock", stock=settings, fixes=True, time=False)(*args)
    return list(record.breaks), list(record.attempts)


def test_a_module_with_gradients_is_tried_on_both_sides() -> None:
    torch.manual_seed(0)
    (only,), (whole,) = explored(Gate(), torch.randn(3, 4))
    assert only.hints[0].startswith("Fix (tried): ") and whole.id in only.hints[0]
    assert "also on an input that takes the other side" in only.hints[0]
    assert "zero gradients where eager has none: " in only.hints[0]
    assert not whole.breaks


def two_branches(x: Tensor) -> Tensor:
    if x.sum() > 0:
        x = x * 2
    if x.amax() > 3:
        print("large")
    return x.sin()


def test_branches_that_are_refused_stay_untried_with_the_reason() -> None:
    breaks, compiles = explored(two_branches, torch.ones(4))
    first, second = breaks[:2]
    assert first.hints[0].startswith("Fix (tried): ") and "no longer breaks here" in first.hints[0]
    assert second.hints[0].startswith("Fix (not tried): ")
    assert "not tried automatically: a side does more" in second.hints[0]
    assert compiles and compiles[0].breaks


def unequal(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x.double()
    return x


def test_a_fix_that_changes_results_says_so() -> None:
    (only,), _ = explored(unequal, -torch.ones(4))
    assert "but results differ from eager's" in only.hints[0]
