"""Pooling in loops equals eager's: borders, ceilings, overlaps, ties, NaN, layouts, gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lowering import check, externs

aten = torch.ops.aten
inf, nan = float("inf"), float("nan")

WINDOWS: list[dict[str, Any]] = [
    dict(kernel_size=2),
    dict(kernel_size=3, stride=2, padding=1),
    dict(kernel_size=(2, 3), stride=(1, 2), padding=(1, 0)),
    dict(kernel_size=3, stride=2, padding=1, ceil_mode=True),
    dict(kernel_size=2, stride=3, ceil_mode=True),
    dict(kernel_size=(1, 5), stride=(2, 1), padding=(0, 2)),
]


def image(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers of which many are equal, so that ties have to be decided as eager decides them."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).mul(2).round().to(dtype)


def largest(x: Tensor, **window: Any) -> Any:
    return F.max_pool2d(x, **window, return_indices=True)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_largest_and_mean(window: dict[str, Any], form: torch.memory_format) -> None:
    x = image(2, 3, 9, 11).contiguous(memory_format=form)
    loops = check(lambda x: (*largest(x.sin(), **window), *largest(x, **window)), x)
    assert externs(loops) == []
    for counted in (True, False):
        assert externs(check(lambda x, c=counted: F.avg_pool2d(x, **window, count_include_pad=c), x)) == []
    assert externs(check(lambda x: F.avg_pool2d(x, **window, divisor_override=3), x)) == []


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_gradients_of_the_mean(window: dict[str, Any]) -> None:
    full = {"stride": window["kernel_size"], "padding": 0, "ceil_mode": False, **window}
    kernel, stride, padding = (
        [n, n] if isinstance(n := full[name], int) else list(n) for name in ("kernel_size", "stride", "padding")
    )
    x = image(2, 3, 9, 11)
    gradient = torch.randn_like(F.avg_pool2d(x, **window))

    def gradients(g: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        rest = kernel, stride, padding, full["ceil_mode"]
        return tuple(aten.avg_pool2d_backward(g, x, *rest, *how) for how in ((True, None), (False, None), (True, 5)))

    assert externs(check(gradients, gradient, x)) == []


@pytest.mark.parametrize("padding", [0, 1])
def test_what_is_largest_among_equals_infinities_and_nan(padding: int) -> None:
    special = torch.tensor([-inf, nan, 1.0, inf, -inf, -inf])
    x = special[torch.randint(0, 6, (3, 12, 12), generator=torch.Generator().manual_seed(7))]
    x[0, :6] = -inf
    check(lambda x: largest(x, kernel_size=3, stride=2, padding=padding), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes(dtype: torch.dtype) -> None:
    x = image(1, 4, 8, 8, dtype=dtype)
    check(lambda x: (*largest(x, kernel_size=3, padding=1), F.avg_pool2d(x, 2)), x)


def test_sizes_that_are_symbols() -> None:
    for window in WINDOWS:
        check(lambda x: largest(x, **window), image(2, 3, 9, 11), dynamic=True)  # noqa: B023
        check(lambda x: F.avg_pool2d(x, **window, count_include_pad=False), image(3, 9, 11), dynamic=True)  # noqa: B023


def test_what_is_left_to_the_library() -> None:
    for call in (
        lambda x: F.max_pool2d(x, 6),
        lambda x: F.max_pool2d(x, 3, dilation=2, padding=1),
        lambda x: F.max_pool2d(x.long(), 2),
    ):
        assert len(externs(check(call, image(1, 2, 12, 12)))) == 1
    assert externs(check(lambda x: largest(x, kernel_size=3, dilation=2), image(1, 2, 12, 12))) == []
