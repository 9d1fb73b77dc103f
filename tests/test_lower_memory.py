"""Lowered views, indices and writes equal eager: values, strides, aliasing, mutation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import explorer
from loops_reference import run_loops
from lowered_programs import aten, made
from lowering import check, externs, kernels, lowered


def test_views_of_inputs_are_views() -> None:
    def fn(x: torch.Tensor) -> Any:
        return (
            x.t(),
            x.view(2, -1),
            x[1:, ::2],
            x[0],
            x.unsqueeze(1),
            x[None].expand(3, -1, -1),
            x.permute(1, 0),
            x.diagonal(),
            x.unfold(1, 2, 2),
            x.narrow(0, 1, 2),
            *x.split(1),
            *x.unbind(1),
            x.squeeze(),
            x.flatten(),
            x.view_as(x),
            x.movedim(0, 1),
        )

    x = torch.randn(4, 6)
    loops = check(fn, x)
    assert not loops.operations
    for mine in run_loops(loops, (x,)):
        assert mine.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


VIEWED: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x.t().reshape(-1),
    lambda x: x.reshape(2, 12).t().reshape(8, 3),
    lambda x: x[:, 1:4].reshape(-1),
    lambda x: x.view(2, 2, 3, 2).permute(0, 2, 1, 3).reshape(4, 6),
    lambda x: x[-1],
    lambda x: x[..., -2:],
    lambda x: x.view(4, 3, 2).transpose(0, 1).flatten(1),
    lambda x: x.unfold(1, 3, 1),
    lambda x: x.diagonal(1),
    lambda x: x.flip(0),
    lambda x: x.flip(0, 1),
    lambda x: x.roll(1),
    lambda x: x.roll((1, 2), (0, 1)),
    lambda x: x.repeat(2, 3),
    lambda x: x.tile(2),
    lambda x: x[::2, ::3],
    lambda x: x.expand(2, 4, 6).reshape(8, 6),
    lambda x: x.repeat_interleave(2, 0),
    lambda x: torch.stack([x, x + 1], 1),
    lambda x: torch.cat([x, x[:1]], 0),
    lambda x: x.triu(),
    lambda x: x.tril(-1),
    lambda x: F.pad(x, (1, 2, 0, 1), value=0.5),
    lambda x: F.pad(x, (-1, 1)),
    lambda x: x.reshape(1, 24).squeeze(0),
    lambda x: x.rot90(),
    lambda x: x.view(2, 2, 6).movedim(0, 2),
    lambda x: torch.cat([x] * 6, 1),
    lambda x: x.unflatten(1, (2, 3)).swapaxes(0, 1),
    lambda x: x.T.contiguous(),
    lambda x: F.pixel_shuffle(x.view(1, 4, 2, 3), 2),
    lambda x: torch.hstack([x, x]),
    lambda x: x.t().view(2, 3, 4),
]


@pytest.mark.parametrize("place", range(len(VIEWED)))
def test_views_of_inputs_and_of_values(place: int) -> None:
    fn = VIEWED[place]
    x = made((4, 6), [torch.float32, torch.bfloat16, torch.int32][place % 3])
    check(fn, x)
    check(lambda x: fn(x * 2) + 1, x)
    check(lambda x: (fn(x * 2), fn(x * 2).sum()), x)
    check(lambda x: fn(x + 1), x.t().contiguous().t())
    y = x * 1
    check(lambda x, y: fn(x * 2 + y).sum(0), x, y)


def test_outputs_that_are_views_of_one_value_share_memory() -> None:
    loops = check(lambda x: (y := x.exp(), y.t(), y[1:], y.view(-1)), torch.randn(3, 4))
    results = run_loops(loops, (torch.randn(3, 4),))
    assert len({r.untyped_storage().data_ptr() for r in results}) == 1


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_convolution_keeps_the_layout(form: torch.memory_format) -> None:
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=form)
    w, b = torch.randn(4, 3, 3, 3).contiguous(memory_format=form), torch.randn(4)
    check(lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(), x, w, b)
    check(lambda x, w, b: F.conv2d(x * 2, w, b, stride=2), x, w, b)
    check(lambda x, w, b: (F.avg_pool2d(x, 2), F.max_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)), x, w, b)
    check(lambda x, w, b: F.interpolate(x, scale_factor=2), x, w, b)


INDEXED: list[Callable[..., Any]] = [
    lambda x, i: x[i],
    lambda x, i: x[:, i],
    lambda x, i: x[i, i],
    lambda x, i: x[i[:, None], i],
    lambda x, i: x.index_select(1, i),
    lambda x, i: x.gather(1, i.expand(4, 3)),
    lambda x, i: (x * 2)[i - 4],
    lambda x, i: x.index_put((i,), x[:3]),
    lambda x, i: x.index_put((i,), x[:3], accumulate=True),
    lambda x, i: x.index_add(0, i, x[:3]),
    lambda x, i: F.embedding(i, x),
    lambda x, i: x.scatter(1, i.expand(4, 3), 2),
    lambda x, i: x.scatter(0, i[None].expand(2, 3), x[:2] + 1),
    lambda x, i: x.scatter_add(1, i.expand(4, 3), x[:, :3]),
    lambda x, i: x.index_copy(0, i[:2], x[:2]),
    lambda x, i: x.index_fill(0, i, 2),
    lambda x, i: x.select_scatter(x[0] + 1, 0, 2),
    lambda x, i: x.slice_scatter(x[:2] + 1, 0, 1, 3),
    lambda x, i: x.take(i),
    lambda x, i: x.scatter_reduce(1, i.expand(4, 3), x[:, :3], "amax"),
    lambda x, i: x[:, None, i],
    lambda x, i: x[i][..., 1:3].relu(),
    lambda x, i: x.scatter_reduce(1, i.expand(4, 3), x[:, :3], "prod"),
    lambda x, i: x.t()[i].sum(0),
    lambda x, i: x.view(2, 2, 4)[:, :, i],
    lambda x, i: x.view(2, 2, 4)[i % 2, :, i],
    lambda x, i: x.scatter_reduce(1, i.expand(4, 3), x[:, :3], "mean"),
    lambda x, i: x[:, i.flip(0)],
    lambda x, i: torch.take_along_dim(x, i.expand(4, 3), 1),
    lambda x, i: F.one_hot(i, 4),
    lambda x, i: x.diagonal_scatter(x[0]),
    lambda x, i: x.diagonal_scatter(x[0, :3], 1),
    lambda x, i: x.diagonal_scatter(x[0, :2] * 2, -2),
    lambda x, i: x.scatter_reduce(1, i.expand(4, 3), x[:, :3], "sum", include_self=False),
    lambda x, i: x.scatter_reduce(1, i.expand(4, 3), x[:, :3], "amax", include_self=False),
    lambda x, i: x.index_put((i, i), x[0, :3]),
    lambda x, i: x.masked_scatter(x > 9, x),
    lambda x, i: (x > 0)[i],
    lambda x, i: x[(i + 1) % 3].exp().t(),
    lambda x, i: x.scatter_reduce(1, i.expand(4, 3), x[:, :3], "amin", include_self=False),
    lambda x, i: x.as_strided_scatter(x[0, :2] + 1, (2,), (2,)),
]


@pytest.mark.parametrize("place", range(len(INDEXED)))
def test_indexing(place: int) -> None:
    fn, dtype = INDEXED[place], [torch.float32, torch.bfloat16, torch.int64][place % 3]
    check(fn, made((4, 4), dtype, 1, 5), torch.tensor([0, 2, 1]))
    check(
        lambda x, i: fn(x + 1, i) * 2 if fn(x, i).dtype != torch.bool else fn(x, i),
        made((4, 4), dtype, 1, 5),
        torch.tensor([0, 2, 1]),
    )


def test_negative_and_wrong_indices() -> None:
    x = torch.randn(4, 3)
    check(lambda x, i: x[i], x, torch.tensor([-1, -4, 3]))
    loops, _ = lowered(lambda x, i: (x * 2)[i], x, torch.tensor([0]))
    for wrong in (4, -5):
        with pytest.raises(IndexError):
            run_loops(loops, (x, torch.tensor([wrong])))
    for fn in (lambda x, i: F.embedding(i, x), lambda x, i: x.gather(0, i[:, None])):
        loops, _ = lowered(fn, x, torch.tensor([0]))
        for wrong in (4, -1):
            with pytest.raises(IndexError):
                run_loops(loops, (x, torch.tensor([wrong])))


PADDED: list[Callable[..., Any]] = [
    lambda x: F.pad(x, (2, 1, 1, 2), mode="reflect"),
    lambda x: F.pad(x, (2, 1, 0, 1), mode="replicate"),
    lambda x: F.interpolate(x, size=(5, 7)),
    lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    lambda x: F.unfold(x, 2),
    lambda x: F.fold(F.unfold(x, 2), (4, 6), 2),
    lambda x: F.pad(x, (1, -1, 2, 0), value=3),
    lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    lambda x: F.pad(x, (1, 1, 2, 0), mode="circular"),
    lambda x: torch.cat([x.exp(), x.sin(), x * 2], 1),
    lambda x: torch.cat([x.exp()] * 3 + [x] * 3, -1),
    lambda x: torch.cat([x.exp().transpose(1, 2), x.transpose(1, 2)], 2).sum(2),
    lambda x: torch.cat([x, x + 1], 0)[1:],
    lambda x: torch.stack([x.exp(), x.cos()], -1),
    lambda x: torch.cat([x.tanh(), x], 1)[:, 1:2] * 2,
]


@pytest.mark.parametrize("place", range(len(PADDED)))
def test_padding_resampling_and_joining(place: int) -> None:
    check(PADDED[place], torch.randn(2, 2, 4, 6))
    check(lambda x: PADDED[place](x * 2).relu(), torch.randn(2, 2, 4, 6))


def test_values_added_where_a_mask_holds() -> None:
    def fn(x: torch.Tensor, m: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> Any:
        return aten._unsafe_masked_index_put_accumulate(x, m, [None, i], v), aten._unsafe_masked_index(
            x, m, [None, i], 7
        )

    x, v, index = torch.randn(2, 4), torch.randn(2, 5), torch.tensor([0, 3, 9, 3, -8])
    loops, _ = lowered(fn, x, index.abs() < 4, index, v, decompose=False)
    assert not externs(loops)
    expected = x.clone()
    expected[:, 0] += v[:, 0]
    expected[:, 3] += v[:, 1] + v[:, 3]
    mine, taken = run_loops(loops, (x, index.abs() < 4, index, v))
    torch.testing.assert_close(mine, expected)
    torch.testing.assert_close(
        taken, torch.stack([x[:, 0], x[:, 3], torch.full((2,), 7.0), x[:, 3], torch.full((2,), 7.0)], 1)
    )


def test_joined_heavy_parts_are_each_written_in_place() -> None:
    loops = check(lambda x: torch.cat([x.exp(), x.sin()], 1), torch.randn(4, 4))
    assert [loop.buffer.alias_of for loop in kernels(loops)] == [None, kernels(loops)[0].id]


MUTATIONS: list[Callable[..., Any]] = [
    lambda x: x.add_(1),
    lambda x: x[1:].mul_(2).sum(),
    lambda x: (x.t().add_(1), x.sum())[1],
    lambda x: x[1:].copy_(x[:-1].clone()),
    lambda x: (y := x.exp(), x.zero_(), y + 1)[2],
    lambda x: (x.copy_(x.flip(0)), x * 2)[1],
    lambda x: x.fill_(3),
    lambda x: x.relu_(),
    lambda x: (y := x * 2, x.add_(y), y.add_(x), y)[3],
    lambda x: (v := x.reshape(2, 2, 4), v.mul_(3), x + v.reshape(4, 4))[2],
    lambda x: (x.copy_(x.t() * 1), x.sum())[1],
    lambda x: x.clamp_(0, 1),
    lambda x: x.index_put_((torch.tensor([0, 1]),), x[2:].clone()),
    lambda x: x.masked_fill_(x > 0, 0),
    lambda x: x.diagonal().add_(1),
    lambda x: (x[0], x.add_(1), x[0] * 1)[2],
    lambda x: (y := x.sin(), x.add_(y.cos()), y)[2],
]


@pytest.mark.parametrize("place", range(len(MUTATIONS)))
def test_mutation(place: int) -> None:
    def fn(x: torch.Tensor) -> Any:
        result = MUTATIONS[place](x)
        return result * 1 if isinstance(result, torch.Tensor) else result

    check(fn, torch.randn(4, 4))
    check(fn, torch.randn(4, 4).t(), strides=False)


def test_two_inputs_exchanged() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)
        return x + 1

    check(fn, torch.randn(5), torch.randn(5))


SIZE_ONE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "repeat": lambda x: x.repeat(1, 2), "shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 1, -1), 2),
    "view": lambda x: (x + 1).view(1, -1, 1), "cut": lambda x: (x + 1)[:, :1], "mean": lambda x: x.mean(0, True),
    "layout": lambda x: x.reshape(1, 1, 2, -1).clone(memory_format=torch.channels_last),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZE_ONE)
@pytest.mark.parametrize("size", ((1, 12), (12, 1), (3, 4)))
def test_dimensions_of_size_one_have_eagers_strides(name: str, size: tuple[int, int]) -> None:
    x = torch.randn(size)
    assert explorer.compile(SIZE_ONE[name])(x).stride() == SIZE_ONE[name](x).stride()
