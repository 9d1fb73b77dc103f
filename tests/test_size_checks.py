"""Sizes and positions that eager refuses: also refused under fake tensors, of any size, and by compiled code."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import explorer
from explorer.compiler.capture.fakes import LaidOut

Call = Callable[[Tensor, Tensor, Tensor], Any]


def _put(x: Tensor, index: Any, values: Tensor) -> Tensor:
    x = x.clone()
    x[index] = values
    return x


CALLS: dict[str, Call] = {
    "setitem": _put,
    "setitem list": lambda x, index, v: _put(x, [0] * index.numel(), v),
    "index_put": lambda x, index, v: x.index_put((index,), v),
    "index_put_ accumulate": lambda x, index, v: x.clone().index_put_((index,), v, accumulate=True),
    "index_select": lambda x, index, v: x.index_select(0, index),
    "index_copy": lambda x, index, v: x.index_copy(0, index, v),
    "index_fill": lambda x, index, v: x.index_fill(0, index, 1.0),
    "select": lambda x, index, v: x.select(0, v.shape[0]),
    "select from the end": lambda x, index, v: x.select(0, -v.shape[0]),
    "select_scatter": lambda x, index, v: x.select_scatter(v[0], 0, 1),
    "slice_scatter": lambda x, index, v: x.slice_scatter(v, 0, 0, index.shape[0]),
    "diagonal_scatter": lambda x, index, v: x.diagonal_scatter(v[0]),
    "soft_margin_loss": lambda x, index, v: F.soft_margin_loss(x, v, reduction="none"),
    "group_norm": lambda x, index, v: torch.native_group_norm(x, v, None, *x.shape, 1, 1, 1e-5)[0],
    "batch_norm": lambda x, index, v: F.batch_norm(x, v, torch.ones(x.shape[1])),
}
N = 70


def given(big: bool) -> list[tuple[Tensor, Tensor, Tensor]]:
    """A matrix, positions in it, and values of the right and of other sizes."""
    n = N if big else 3
    x = torch.randn(n, n)
    indices = [torch.zeros(size, dtype=torch.long) for size in ((2,), (n,), (2, 2))]
    values = [torch.randn(size) for size in ((2, n), (n, n), (n + 1, n), (2, n - 1), (1, n), (n,), (2, 2, n))]
    return [(x, index, value) for index, value in itertools.product(indices, values)]


def _raises(call: Call, args: Any) -> bool:
    try:
        call(*args)
    except (RuntimeError, IndexError):
        return True
    return False


@pytest.mark.parametrize("big", [False, True], ids=["small", "big"])
@pytest.mark.parametrize("name", CALLS)
def test_fake_tensors_refuse_the_sizes_that_real_ones_do(name: str, big: bool) -> None:
    found = set()
    for args in given(big):
        refused = _raises(CALLS[name], args)
        mode = LaidOut()
        with mode:
            fakes = [mode.from_tensor(each) for each in args]
            assert _raises(CALLS[name], fakes) is refused, args[1:]
        found.add(refused)
    assert found == {True, False}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ["setitem list", "select_scatter", "index_select", "index_copy"])
def test_compiled_code_refuses_them_and_after_a_right_call_too(name: str, dynamic: bool) -> None:
    def f(x: Tensor, index: Tensor, v: Tensor) -> Any:
        return CALLS[name](x.sin(), index, v) + 1

    compiled = explorer.compile(f, dynamic=dynamic)
    x, index = torch.randn(N, N), torch.zeros(2, dtype=torch.long)
    for i, v in ((index, x[:2]), (index, x[:2, 1:]), (index.reshape(1, 2), x[:3]), (index, x[:2])):
        if _raises(f, (x, i, v)):
            with pytest.raises((RuntimeError, IndexError)):
                compiled(x, i, v)
        else:
            torch.testing.assert_close(compiled(x, i, v), f(x, i, v))


def test_a_position_that_only_the_graph_knows() -> None:
    def f(x: Tensor, i: Tensor) -> Tensor:
        x.sin().select(0, int(i.sum()))
        return x.cos()

    compiled = explorer.compile(f)
    x = torch.randn(2, 3)
    torch.testing.assert_close(compiled(x, torch.tensor(1)), x.cos())
    with pytest.raises(IndexError):
        compiled(x, torch.tensor(7))
