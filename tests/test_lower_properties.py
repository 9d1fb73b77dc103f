"""Generated chains of operators, lowered and interpreted, equal eager; index arithmetic equals Python's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress, product
from typing import Any

import numpy as np
import pytest
import sympy
import torch
import torch.nn.functional as F
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

import explorer
from explorer.compiler.lower.indexing import Indexing, split_axes
from explorer.compiler.lower.reasons import UNBOUND_SIZE, UNPROVEN
from explorer.compiler.lower.view import matching_groups
from explorer.core.reasons import Unsupported
from explorer.ir.index import (
    Affine,
    affine,
    below,
    contiguous,
    cuts,
    divide,
    ends,
    parts,
    quotient,
    row_major,
    simplify,
    substitute,
)
from explorer.ir.loops import Axis, Load, Loop, walk
from loops_reference import run_loops
from lowering import lowered

Tensor = torch.Tensor
Step = Callable[[Tensor, Tensor, int], Tensor]
"""From the current value, an earlier one of perhaps another shape, and a small number."""


def last(x: Tensor) -> int:
    return x.dim() - 1


def together(x: Tensor, y: Tensor) -> Tensor:
    """An earlier value brought to the current one's shape, by sums and a broadcast."""
    while y.dim() > x.dim():
        y = y.sum(0)
    for d in range(1, y.dim() + 1):
        if y.shape[-d] not in (1, x.shape[-d]):
            y = y.sum(-d, keepdim=True)
    return y


STEPS: list[Step] = [
    lambda x, y, n: x + together(x, y),
    lambda x, y, n: x * together(x, y) - n,
    lambda x, y, n: torch.where(together(x, y) > n, x, -x),
    lambda x, y, n: torch.maximum(x, together(x, y)),
    lambda x, y, n: (x / 4).sin(),
    lambda x, y, n: x.abs().sqrt().round(),
    lambda x, y, n: x.clamp(-n, n),
    lambda x, y, n: x.flatten(),
    lambda x, y, n: x.t() if x.dim() == 2 else x.movedim(0, -1) if x.dim() else x,
    lambda x, y, n: x.reshape(-1, x.shape[0]) if x.dim() else x.reshape(1),
    lambda x, y, n: x.reshape(2, -1) if x.numel() % 2 == 0 else x.reshape(-1),
    lambda x, y, n: x[1:] if x.dim() and x.shape[0] > 1 else x,
    lambda x, y, n: x[..., ::2] if x.dim() else x,
    lambda x, y, n: x.unsqueeze(n % (x.dim() + 1)) if x.dim() < 4 else x,
    lambda x, y, n: x.expand(2, *x.shape) if x.dim() < 3 and x.numel() < 100 else x,
    lambda x, y, n: x.flip(0) if x.dim() else x,
    lambda x, y, n: x.roll(n, last(x)) if x.dim() else x,
    lambda x, y, n: F.pad(x, (1, n)) if x.dim() and x.numel() < 200 else x,
    lambda x, y, n: torch.cat([x, x * 2]) if x.dim() and x.numel() < 200 else x,
    lambda x, y, n: torch.cat([x.exp().clamp(max=9), x], last(x)) if x.dim() and x.numel() < 200 else x,
    lambda x, y, n: x.sum(n % x.dim()) if x.dim() else x.sum(),
    lambda x, y, n: x.amax(-1, keepdim=True) if x.dim() else x,
    lambda x, y, n: x - x.mean(-1, keepdim=True) if x.dim() else x,
    lambda x, y, n: x.softmax(-1) if x.dim() else x,
    lambda x, y, n: x.argmax(-1).to(x.dtype) if x.dim() else x,
    lambda x, y, n: x[torch.arange(x.shape[0]) % 2] if x.dim() else x,
    lambda x, y, n: x.index_select(0, torch.tensor([0, 0])) if x.dim() else x,
    lambda x, y, n: x.diagonal() if x.dim() > 1 else x,
    lambda x, y, n: x.unfold(0, 2, 1) if x.dim() and x.shape[0] > 1 and x.dim() < 4 else x,
    lambda x, y, n: x.triu(n - 2) if x.dim() > 1 else x,
    lambda x, y, n: x.cumsum(0) if x.dim() else x,
    lambda x, y, n: x.contiguous().view(-1)[: n + 1] if x.numel() else x,
    lambda x, y, n: x.to(torch.float64).to(x.dtype),
    lambda x, y, n: x @ x.t() / 9 if x.dim() == 2 and x.shape[0] < 12 else x,
    lambda x, y, n: x.index_put((torch.tensor([0]),), x[-1:], accumulate=True) if x.dim() else x,
    lambda x, y, n: x.slice_scatter(x[:1] * 3, 0, 0, 1) if x.dim() else x,
    lambda x, y, n: x.select_scatter(x.select(-1, 0) + 1, -1, 0) if x.dim() else x,
]

SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=0, max_size=3)
PROGRAMS = st.lists(
    st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 5), st.integers(1, 3)), min_size=1, max_size=7
)


def program(choices: list[tuple[int, int, int]]) -> Callable[..., Any]:
    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        values = [y, x]
        for step, earlier, number in choices:
            values.append(STEPS[step](values[-1], values[earlier % len(values)], number))
        return values[-1], values[len(values) // 2]

    return fn


@settings(max_examples=120, deadline=None, derandomize=True)
@given(choices=PROGRAMS, shape=SHAPES, other=SHAPES, transposed=st.booleans())
def test_generated_programs(choices: list[Any], shape: list[int], other: list[int], transposed: bool) -> None:
    generator = torch.Generator().manual_seed(len(choices))
    x = torch.randint(-6, 7, shape, generator=generator) / 2.0
    y = torch.randint(-6, 7, other, generator=generator) / 2.0
    x = x.permute(tuple(reversed(range(x.dim())))) if transposed else x
    fn = program(choices)
    loops, _ = lowered(fn, x, y)
    for mine, theirs in zip(run_loops(loops, (x, y)), fn(x, y), strict=True):
        torch.testing.assert_close(mine, theirs, equal_nan=True, rtol=1e-4, atol=1e-4)
        assert mine.dtype == theirs.dtype
        if theirs.numel():
            sizes = [n != 1 for n in theirs.shape]
            assert list(compress(mine.stride(), sizes)) == list(compress(theirs.stride(), sizes))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(choices=PROGRAMS, sizes=st.lists(st.integers(3, 6), min_size=2, max_size=2))
def test_generated_programs_with_symbolic_sizes(choices: list[Any], sizes: list[int]) -> None:
    fn = program(choices)
    x = torch.arange(float(sizes[0] * sizes[1])).reshape(sizes) / 7 - 1
    try:
        loops, _ = lowered(fn, x, x[:1] + 1, dynamic=True)
    except Unsupported as refused:  # the graph runs eagerly
        assert refused.why.code in (UNPROVEN, UNBOUND_SIZE)
        reject()
    for mine, theirs in zip(run_loops(loops, (x, x[:1] + 1)), fn(x, x[:1] + 1), strict=True):
        torch.testing.assert_close(mine, theirs, equal_nan=True, rtol=1e-4, atol=1e-4)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    factors=st.lists(st.integers(0, 8), min_size=4, max_size=4),
    start=st.integers(0, 5),
    divisor=st.integers(1, 12),
    then=st.integers(1, 6),
)
def test_division_and_remainder_of_indices(
    sizes: list[int], factors: list[int], start: int, divisor: int, then: int
) -> None:
    indexing = Indexing()
    axes = [indexing.axis("i", d, sympy.Integer(n)) for d, n in enumerate(sizes)]
    index = indexing.linear(
        tuple(axis.symbol for axis in axes), tuple(map(sympy.Integer, factors[: len(axes)])), sympy.Integer(start)
    )
    b, c = sympy.Integer(divisor), sympy.Integer(then)
    made = {
        "//": indexing.floordiv(index, b),
        "%": indexing.modulo(index, b),
        "// //": indexing.floordiv(indexing.floordiv(index, b), c),
        "// %": indexing.modulo(indexing.floordiv(index, b), c),
        "% //": indexing.floordiv(indexing.modulo(index, b), c),
        "% %": indexing.modulo(indexing.modulo(index, b), c),
    }
    for point in torch.cartesian_prod(*map(torch.arange, sizes)).reshape(-1, len(sizes)).tolist():
        value = start + sum(f * i for f, i in zip(factors, point, strict=False))
        expected = {
            "//": value // divisor,
            "%": value % divisor,
            "// //": value // divisor // then,
            "// %": value // divisor % then,
            "% //": value % divisor // then,
            "% %": value % divisor % then,
        }
        at = {axis.symbol: i for axis, i in zip(axes, point, strict=True)}
        for name, expression in made.items():
            assert int(expression.subs(at)) == expected[name], (name, expression, point)
            assert all(end <= expected[name] for end in ends(expression, indexing.ranges, True))
            assert all(end >= expected[name] for end in ends(expression, indexing.ranges, False))


@given(
    size=st.sampled_from([6, 8, 12, 24, 64]),
    other=st.integers(2, 5),
    factors=st.tuples(st.integers(0, 6), st.integers(-3, 6)),
    divisors=st.tuples(st.integers(2, 12), st.integers(2, 6)),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_algebra_of_indices_keeps_their_values(
    size: int, other: int, factors: tuple[int, int], divisors: tuple[int, int]
) -> None:
    indexing = Indexing()
    i, j = indexing.axis("i", 0, sympy.Integer(size)), indexing.axis("i", 1, sympy.Integer(other))
    sizes = {i.symbol: i.size, j.symbol: j.size}
    divisor, modulus = map(sympy.Integer, divisors)
    index = factors[0] * i.symbol + factors[1] * j.symbol + abs(factors[1]) * other
    divided = FloorDiv(index, divisor) * 3 + ModularIndexing(index, divisor, modulus)
    whole, rest = divide(index, divisor)
    cut = parts(size, {low for axis, low in cuts(divided, sizes) if axis == i.symbol})
    pieces = [
        Axis(sympy.Symbol(f"p{n}", integer=True, nonnegative=True), sympy.Integer(each)) for n, each in enumerate(cut)
    ]
    images = {i.symbol: row_major(pieces), j.symbol: Affine({j.symbol: 1})}
    split = substitute(
        affine(divided, sizes), images, {j.symbol: j.size, **{each.symbol: each.size for each in pieces}}
    )
    simple, taken_apart = simplify(divided, sizes), split.expr()
    limits = [n for n in range(1, 40) if below(index, sympy.Integer(n), sizes)]
    for at_i, at_j in product(range(size), range(other)):
        at = {i.symbol: at_i, j.symbol: at_j}
        value = int(index.subs(at))
        expected = value // divisors[0] * 3 + value // divisors[0] % divisors[1]
        assert int(simple.subs(at)) == expected
        assert int((whole * divisor + rest).subs(at)) == value
        assert all(0 <= value < limit for limit in limits)
        digits = map(int, np.unravel_index(at_i, cut))
        at |= {piece.symbol: digit for piece, digit in zip(pieces, digits, strict=True)}
        assert int(taken_apart.subs(at)) == expected


@given(sizes=st.lists(st.integers(1, 4), min_size=0, max_size=4), seed=st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_shapes_with_equal_element_counts_match_in_groups(sizes: list[int], seed: Any) -> None:
    factors = [f for n in sizes for f in ({4: [2, 2]}.get(n, [n]))]
    other: list[int] = []
    for factor in factors:
        if other and seed.random() < 0.5:
            other[-1] *= factor
        else:
            other.append(factor)
    old, new = (tuple(map(sympy.Integer, each)) for each in (sizes, other))
    groups = matching_groups(old, new)
    for before, after in groups:
        assert sympy.Mul(*old[before]) == sympy.Mul(*new[after])
    assert sum((list(range(*before.indices(len(old)))) for before, _ in groups), []) == list(range(len(old)))
    assert contiguous(old) == tuple(torch.empty(sizes).stride())


@pytest.mark.parametrize("cuts", [[64], [8, 64], [8, 12]])
def test_an_axis_is_split_where_a_view_splits_it(cuts: list[int]) -> None:
    x = torch.randn(3, 768 // cuts[-1] if len(cuts) == 1 else 12, cuts[-1])

    def fn(x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(3, -1) * 2

    loops, _ = lowered(fn, x)
    (loop,) = (operation for operation in loops.operations if isinstance(operation, Loop))
    assert len(loop.axes) == 3
    indices = [str(expr.index) for expr in walk(loop.value) if isinstance(expr, Load)]
    assert not [index for index in indices if "//" in index or "Mod" in index]
    assert split_axes(loop.axes, loop.value, Indexing()) == {}


def over_nothing() -> dict[str, Any]:
    """Reductions over no element, whose value is at one place for all of them."""
    nothing = torch.ones(1, 0)
    return {
        "an element of an empty tensor": lambda x: (x[:, :1].expand(0, 4) * 2).sum(0),
        "the logarithm of a softmax": lambda x: -x.log_softmax(1)[:, 0].sum(),
        "any": lambda x: (x[:, :1].expand(0, 5) > 0).any(0),
        "product": lambda x: x[:, :1].expand(0, 3).prod(0),
        "mean of all": lambda x: (x[:, :1] + nothing.sum()).mean(),
        "cross entropy": lambda x: torch.nn.functional.cross_entropy(x, torch.zeros(0, dtype=torch.int64)),
        "norm": lambda x: torch.linalg.vector_norm(x[:, :1].expand(0, 2), dim=0),
    }


@pytest.mark.parametrize("name", over_nothing())
def test_nothing_is_read_where_a_reduction_has_no_element(name: str) -> None:
    function = over_nothing()[name]
    x = torch.empty(0, 3)
    torch.testing.assert_close(explorer.compile(function)(x), function(x), equal_nan=True)


def test_a_quotient_times_its_divisor_is_what_was_divided() -> None:
    n, m = sympy.symbols("n m", integer=True, nonnegative=True)
    sizes = [sympy.sympify(each) for each in (0, 1, 4, n, 2 * n, n * m, n + 1, 2 * n + 2)]
    for a, b in product(sizes, sizes):
        found = quotient(a, b)
        assert found is None or b != 0 and sympy.expand(found * b - a) == 0


def test_a_size_of_no_elements_beside_one_that_may_change() -> None:
    compiled = explorer.compile(lambda x: x.softmax(-1, dtype=torch.float64), dynamic=True)
    bugs = explorer.counters().get("compiler bugs", 0)
    for size in ((5, 0, 0), (5, 0), (3, 0, 2)):
        x = torch.ones(size, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad is not None and x.grad.shape == size
    assert explorer.counters().get("compiler bugs", 0) == bugs


@pytest.mark.parametrize("use", [
    "squeeze()", "squeeze(0).sum(0)", "squeeze((0, 1)) * 2", "expand(5, 3) + 1", "broadcast_to(4, 3).cumsum(0)",
    "add(Y)", "reshape(-1) * 2", "unsqueeze(0).squeeze()",
])  # fmt: skip
def test_a_size_that_a_guard_says_is_1(use: str) -> None:
    """`s0 - (s0 + 1)//2` is 1 for 2 and 3."""
    space: dict[str, Any] = {"Y": torch.arange(15.0).view(5, 3)}
    exec(f"def fn(x):\n    return x.chunk(2)[1].{use} + 1", space)
    compiled = explorer.compile(space["fn"], dynamic=True)
    before = explorer.counters().get("compiler bugs", 0)
    for rows in (2, 3):
        x = torch.arange(3.0 * rows).view(rows, 3)
        assert torch.equal(compiled(x), space["fn"](x))
    assert explorer.counters().get("compiler bugs", 0) == before
