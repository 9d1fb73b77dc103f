"""A custom operator's fake implementation beside the real one: each kind of disagreement is told, agreement too, and
the program is left as one call of it leaves it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import explorer

X = torch.arange(12.0).reshape(3, 4)


def defined(name: str, real: Callable[..., Any], fake: Callable[..., Any] | None, **options: Any) -> Callable[..., Any]:
    made = torch.library.custom_op(f"explored::{name}", real, mutates_args=options.pop("mutates_args", ()), **options)
    if fake is not None:
        made.register_fake(fake)
    return made


def doubled(x: Tensor) -> Tensor:
    return x * 2


def turned(x: Tensor) -> Tensor:
    return (x * 2).t().contiguous().t()


def wrote(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


def added(x: Tensor) -> None:
    x.add_(1)


CASES = {
    "right": (doubled, torch.empty_like, {}, ""),
    "shape": (doubled, lambda x: x.new_empty(4, 3), {}, r"the shape of the output is \(3, 4\), .* \(4, 3\)"),
    "dtype": (doubled, lambda x: x.new_empty(3, 4).half(), {}, "the dtype of the output is torch.float32"),
    "strides": (turned, torch.empty_like, {}, r"the strides of the output are \(1, 3\), the fake .* \(4, 1\)"),
    "alias": (doubled, lambda x: x, {}, "has memory of its own, the fake implementation says that it shares memory"),
    "writes": (wrote, torch.empty_like, {}, "writes to x, and mutates_args does not name it"),
    "mutates": (added, lambda x: None, {"mutates_args": ("x",)}, ""),
    "raises": (doubled, lambda x: x.missing, {}, "the fake implementation raises AttributeError"),
    "absent": (doubled, None, {}, "the fake implementation raises "),
}
OPERATORS = {name: defined(name, real, fake, **options) for name, (real, fake, options, _) in CASES.items()}


def test_what_torch_notes_of_an_operator_is_no_result_of_the_program() -> None:
    operator = defined("noted", doubled, torch.empty_like)
    record = explorer.explore(lambda x: operator(x + 1), time=False)(X)
    (said,) = (part.text for part in record.data.glance if part.what == "accuracy")
    assert said == "equal to eager"


@pytest.mark.parametrize("name", CASES)
def test_each_way_to_differ_is_reported(name: str) -> None:
    operator, said = OPERATORS[name], CASES[name][3]
    given = X.clone()

    def program(x: Tensor) -> Tensor:
        y = x + 1
        z = operator(y)
        return y if z is None else z

    stock = {"backend": "eager"}
    record = explorer.explore(program, engine="stock", stock=stock, time=False)(given)
    (found,) = record.operators
    assert found.operator == f"explored.{name}.default" and found.calls == 1
    printed = str(record.operators)
    at_a_glance = [part.text for part in record.data.glance if part.what == "operator"]
    more = f" ({len(found.differs) - 1} more)" if len(found.differs) > 1 else ""
    assert at_a_glance == ([f"{found.operator}: {found.differs[0]}{more}"] if said else [])
    assert torch.equal(given, X)
    if said:
        assert re.search(said, printed), printed
        assert re.search(said, str(record))
    else:
        assert not found.differs and "agrees with the real one (1 call)" in printed


def test_ours_tells_it_too_and_calls_are_counted() -> None:
    def program(x: Tensor) -> Tensor:
        for _ in range(3):
            x = OPERATORS["right"](x)
        return x

    (found,) = explorer.explore(program, time=False)(X).operators
    assert found.calls == 3 and not found.differs


def test_a_program_without_one_is_not_called_for_it() -> None:
    calls = []

    def program(x: Tensor) -> Tensor:
        calls.append(1)
        return x * 2

    record = explorer.explore(program, time=False)(X)
    assert not record.operators and "fake" not in str(record)


def test_a_dtype_that_the_fake_gets_wrong_is_no_rounding_error() -> None:
    record = explorer.explore(lambda x: OPERATORS["dtype"](x) + 1, time=False)(X)
    (accuracy,) = (part for part in record.data.glance if part.what == "accuracy")
    assert accuracy.state == "wrong" and "no better" not in accuracy.text
