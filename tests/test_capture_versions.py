"""What each Python version compiles in a way of its own, captured and run: the same as eager on all of them."""

# ruff: noqa: B023  (closures over loop variables are what is tested)
from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_leaves

import capturing
import explorer


def noted(x: torch.Tensor) -> torch.Tensor:
    print("sum", round(float(x.sum()), 3))
    return x


def range_with_step(x):
    for i in range(1, 8, 3):
        x = x * i
        print("at", i)
    return x


def range_backwards(x):
    for i in range(3, 0, -1):
        print("at", i)
        x = x + i
    else:
        x = x * 2
    return x


def list_and_tuple(x):
    for scale in [1.0, 2.0, 3.0]:
        for shift in (1, 2):
            x = noted(x * scale) + shift
    return x


def list_that_grows(x):
    items = [1, 2]
    for item in items:
        print("item", item)
        if item < 3:
            items.append(item + 2)
        x = x + item
    return x, items


def leaves_the_loop(x):
    for i in range(6):
        x = x + i
        print("at", i)
        if i == 2:
            break
    return x, i


def while_left(x):
    left = iter(range(5))
    first = next(left)
    print("first", first)
    for i in left:
        x = x + i
    return x


def comprehension_shadows_a_cell(x):
    i = x + 1

    def outer():
        return i

    inner = [lambda: i for i in range(3)]
    return outer(), [each() for each in inner], i


def comprehension_shadows_a_local(x):
    i = x + 1
    squares = [i * i for i in range(3)]
    return i, squares


def comprehension_over_a_cell_by_value(x):
    scale = 2

    def get():
        return scale

    return [x * scale for scale in (3, 4)], get()


def comprehension_runs_twice(x):
    made = []
    for k in (1, 2):
        made += [lambda: x * n for n in (k,)]
    return [each() for each in made]


def comprehension_with_a_break(x):
    return [noted(x + i) for i in range(3)]


def comprehension_with_a_break_over_a_cell(x):
    i = x * 2

    def outer():
        return i

    found = [(noted(x + i), lambda: i) for i in range(2)]
    return [value for value, _ in found], [get() for _, get in found], outer()


def nested_comprehensions(x):
    j = x
    return {i: [j + k for j in range(i)] for i, k in enumerate((1, 2, 3))}, j


def comprehension_raises(x):
    i = x
    try:
        return [1 // (1 - i) for i in range(3)]
    except ZeroDivisionError:
        return i + 1


def in_an_inlined_function(x):
    return comprehension_shadows_a_cell(x), comprehension_runs_twice(x)


class Base(torch.nn.Module):
    def forward(self, x):
        return x + 1

    def scaled(self, x, by=2):
        return x * by


class Derived(Base):
    def forward(self, x):
        x = super().forward(x)
        print("between", __class__.__name__)
        x = super().scaled(x, by=3)
        return self.scaled(x), super().scaled(x)

    def scaled(self, x):
        return super().scaled(x, 5)


def uses_super(x):
    return Derived()(x)


def in_with(x):
    with torch.no_grad():
        y = x * 2
        print("inside", torch.is_grad_enabled())
        for i in range(2):
            y = noted(y + i)
    return y * x


def cells_after_a_break(x):
    count = 0

    def step():
        nonlocal count
        count += 1
        return x * count

    first = step()
    print("count", count)
    second = step()
    return first, second, count


def slices_and_strings(x):
    print(f"{tuple(x.shape)!r:>8}")
    return x[1:] * int(f"{x.dim():>3}"), x[..., :-1] * len("-".join([f"{n}" for n in range(2)]))


PROGRAMS = [value for value in list(vars().values()) if getattr(value, "__code__", None) and value is not noted]
BREAKS = {
    "range_with_step", "range_backwards", "list_and_tuple", "list_that_grows", "leaves_the_loop", "while_left",
    "comprehension_with_a_break", "comprehension_with_a_break_over_a_cell", "uses_super", "in_with",
    "cells_after_a_break", "slices_and_strings",
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_like_eager(program, capsys):
    breaks = program.__name__ in BREAKS
    compiled = explorer.compile(program, backend="eager", fullgraph=not breaks)
    for numbers in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [1.0, 2.0, 3.0, 4.0]):
        x = torch.tensor(numbers, requires_grad=True)
        expected = program(x)
        printed = capsys.readouterr().out
        found = compiled(x)
        assert capsys.readouterr().out == printed
        torch.testing.assert_close(tree_leaves(found), tree_leaves(expected))
    refused = [history.gave_up for history in capturing.histories(compiled) if history.gave_up]
    assert "frame.compiler_bug" not in {why.code for why in refused}, refused
    assert not refused or breaks, refused
