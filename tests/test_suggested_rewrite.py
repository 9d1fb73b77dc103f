"""A branch on a tensor that breaks a graph comes with what could be written instead, and that is right."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import explorer
from explorer.records.stock.rewrite import NotRewritable, Suggestion, rewritten, suggested
from explorer.show.view import html


def assigns(x: Tensor) -> Tensor:
    y = torch.tanh(x)
    if y.sum() > 0:
        y = torch.relu(y)
    return y * 2


def returns(x: Tensor) -> Tensor:
    if x.mean() > 0:
        return x.sin()
    else:
        return x.cos()


def chooses(x: Tensor) -> Tensor:
    return x * (2 if x.sum() > 0 else 3)


def calls(x: Tensor) -> Tensor:
    return assigns(x) + 1


class Chosen(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def choose(self, x: Tensor) -> Tensor:
        if x.mean() > 0:
            x = x * 2
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.choose(self.linear(x))


MODEL = Chosen()


def with_a_model(x: Tensor) -> Tensor:
    return MODEL(x).sum()


def loops(x: Tensor) -> Tensor:
    while x.sum() < 3:
        x = x + 1
    return x


def prints(x: Tensor) -> Tensor:
    if x.sum() > 0:
        print("positive")
    return x + 1


def rewrites(fn: Callable[..., Any]) -> list[tuple[str, ...]]:
    record = explorer.explore(fn, time=False)(torch.ones(2, 4))
    assert record.breaks
    return [each.rewrite for each in record.breaks]


@pytest.mark.parametrize("engine", ["stock", "both"])
def test_of_stock_the_same_is_suggested(engine: str) -> None:
    stock = {"backend": "eager"}
    record = explorer.explore(assigns, engine=engine, stock=stock, time=False, fixes=False)(torch.ones(2, 4))
    assert {each.rewrite for each in record.breaks} == set(rewrites(assigns))
    assert len(record.breaks) == 1 + (engine == "both")


@pytest.mark.parametrize(
    ("fn", "inside"),
    [
        (assigns, assigns), (returns, returns), (chooses, chooses), (calls, assigns), (MODEL, Chosen.choose),
        (with_a_model, Chosen.choose), (MODEL.forward, Chosen.choose),
    ],
)  # fmt: skip
def test_what_is_written_instead_does_the_same_in_one_graph(fn: Callable[..., Any], inside: Callable[..., Any]) -> None:
    (rewrite,) = set(rewrites(fn))
    was, instead = ("\n".join(line[1:] for line in rewrite if line[0] == sign) for sign in "-+")
    source = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(inside))))
    assert was in source
    names: dict[str, Any] = {"torch": torch, "Tensor": Tensor}
    made = textwrap.dedent(source.replace(was, instead))
    file = f"<{inside.__name__}, rewritten>"
    exec(compile(made, file, "exec"), names)
    given = (MODEL,) if inside is Chosen.choose else ()
    for x in (torch.ones(2, 4), -torch.ones(2, 4)):
        torch.testing.assert_close(names[inside.__name__](*given, x), inside(*given, x))
    explorer.compile(names[inside.__name__], backend="eager", fullgraph=True)(*given, torch.ones(2, 4))


class Plain:
    def choose(self, x: Tensor) -> Tensor:
        if x.mean() > 0:
            x = x * 2
        return x


@pytest.mark.parametrize("of", [MODEL, Plain(), [MODEL]])
def test_what_is_given_is_searched_too(of: Any) -> None:
    def cell(of: Any, x: Tensor) -> Tensor:
        return (of[0] if isinstance(of, list) else of).choose(x)  # type: ignore[no-any-return]

    record = explorer.explore(cell, time=False)(of, torch.ones(2, 4))
    assert {each.rewrite[-1] for each in record.breaks} == {"+    x = torch.where(x.mean() > 0, x * 2, x)"}


@pytest.mark.parametrize("fn", [loops, prints])
def test_nothing_is_suggested_where_both_sides_cannot_be_computed(fn: Callable[..., Any]) -> None:
    assert set(rewrites(fn)) == {()}


def test_it_is_printed_and_on_the_page_and_reported_as_not_run() -> None:
    record = explorer.explore(assigns, time=False)(torch.ones(2, 4))
    for text in (str(record.breaks), html.page(record.data)):
        assert "rite instead (computes both sides; not tried: fixes=True does)" in text
        assert "y = torch.where(y.sum() &gt; 0, torch.relu(y), y)" in text.replace("> 0", "&gt; 0")


def test_a_function_out_of_reach_has_none() -> None:
    assert suggested(len, __file__, 1) == Suggestion()
    assert suggested(assigns, "elsewhere.py", 1) == Suggestion()


def commented(x: Tensor) -> Tensor:
    y = torch.tanh(x)  # stays

    # this too
    if y.sum() > 0:  # goes
        y = torch.relu(y)
    elif y.sum() < -9:
        y = y + 1
    return y * 2


def test_the_rest_of_the_source_stays_as_it_is() -> None:
    line = commented.__code__.co_firstlineno + 4
    made = rewritten(assigns, {assigns.__code__.co_firstlineno + 2})
    assert made.text == textwrap.dedent(inspect.getsource(assigns)).replace(
        "    if y.sum() > 0:\n        y = torch.relu(y)\n", "    y = torch.where(y.sum() > 0, torch.relu(y), y)\n"
    )
    with pytest.raises(NotRewritable, match="a side does more than assign"):
        rewritten(commented, {line})
    inner = rewritten(commented, {line + 2})  # an elif shares its line with the branch that it belongs to
    names: dict[str, Any] = {"torch": torch, "Tensor": Tensor}
    exec(inner.text, names)
    for x in (torch.ones(2, 4), -torch.ones(2, 4), -9 * torch.ones(2, 4)):
        torch.testing.assert_close(names["commented"](x), commented(x))


@pytest.mark.parametrize("engine", ["explorer", "both"])
@pytest.mark.parametrize(
    "fn", [assigns, returns, calls, MODEL, with_a_model], ids=["assigns", "returns", "calls", "a model", "with a model"]
)
def test_a_rewrite_of_ours_is_tried_and_the_program_stays_as_it_is(fn: Callable[..., Any], engine: str) -> None:
    codes = {each: each.__code__ for each in (assigns, returns, Chosen.choose)}
    stock = {"backend": "eager"} if engine == "both" else None
    record = explorer.explore(fn, engine=engine, stock=stock, fixes=True, time=False)(torch.ones(2, 4))
    ours = [each for compile in record.data.compiles if compile.engine == "explorer" for each in compile.breaks]
    assert ours
    for each in ours:
        assert each.tried.startswith("it helps: the graph no longer breaks here (see fix")
        assert each.tried.endswith("also on an input that takes the other side")
    mended = [each for each in record.attempts if each.engine == "explorer"]
    assert [len(each.breaks) for each in mended] == [0]
    assert f"tried: {ours[0].tried}" in str(record.breaks)
    assert {each: each.__code__ for each in codes} == codes


def unequal(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x.double()
    return x


def test_a_rewrite_that_changes_results_says_so() -> None:
    record = explorer.explore(unequal, fixes=True, time=False)(-torch.ones(4))
    assert "results differ from eager's" in record.breaks[0].tried


def test_a_call_that_has_effects_is_put_back_after_a_rewrite_was_tried() -> None:
    model, x = Chosen(), torch.ones(2, 4)
    before = [each.clone() for each in model.parameters()]
    record = explorer.explore(model, fixes=True, time=False)(x)
    assert record.breaks[0].tried and torch.equal(x, torch.ones(2, 4))
    assert all(map(torch.equal, model.parameters(), before))
