"""Reads and writes at computed places: gather, scatter, index, embedding, interpolation."""

import torch
import torch.nn.functional as F

from zoo.program import call, program


@program(
    "index gather",
    inputs=lambda: call(torch.randn(5, 4), torch.tensor([3, 0, 3, -1])),
    large=lambda: call(torch.randn(4096, 512), torch.randint(0, 4096, (4096,))),
    grad=True,
)
def index_rows(x, rows):
    return x[rows] * 2.0


@program(
    "index gather",
    inputs=lambda: call(torch.randn(5, 4, 3), torch.tensor([[0, 4], [2, 2]]), torch.tensor([1, -2])),
    grad=True,
)
def advanced_indexing(x, i, j):
    return x[i, j] + x[i[0], :, 1].sum() + x[:, j].mean() + x[1, j] + x[i[:, None, 0], 0]


@program("index gather multi_output", inputs=lambda: call(torch.randn(4, 5), torch.randint(0, 5, (4, 3))), grad=True)
def gathers(x, index):
    return x.gather(1, index), torch.take_along_dim(x, index, 1), x.index_select(1, index[0]), x.take(index)


@program("index scatter multi_output", inputs=lambda: call(torch.randn(4, 3), torch.randint(0, 5, (4, 3))), grad=True)
def scatter_adds(source, index):
    zeros = torch.zeros(4, 5)
    return zeros.scatter_add(1, index, source), torch.zeros(5, 3).index_add(0, index[:, 0], source)


@program(
    "index scatter multi_output",
    inputs=lambda: call(torch.randn(3, 5), torch.tensor([[0, 4, 2], [1, 0, 3], [2, 3, 4]]), torch.randn(3, 3)),
    grad=True,
)
def scatter_overwrites(x, index, source):
    return (
        x.scatter(1, index, source),
        x.scatter(1, index, 2.0),
        x.index_copy(1, index[0], source),
        x.index_fill(0, index[0][:1], 7.0),
    )


@program(
    "index scatter reduction multi_output",
    inputs=lambda: call(torch.randn(4, 3), torch.randint(0, 4, (4, 3)), torch.randn(4, 3)),
)
def scatter_reduces(x, index, source):
    return tuple(
        x.scatter_reduce(0, index, source, reduce, include_self=include)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    )


@program(
    "index scatter mutation",
    inputs=lambda: call(torch.randn(6, 3), torch.tensor([0, 2, 0, 5]), torch.randn(4, 3)),
)
def index_put_accumulates(x, rows, source):
    y = x.clone()
    y.index_put_((rows,), source, accumulate=True)
    x[rows[1:3]] = 0.5
    return y


@program(
    "index scatter mutation pointwise",
    inputs=lambda: call(torch.randn(4, 5), torch.rand(4, 5) > 0.5),
)
def masked_writes(x, mask):
    y = x * 2.0
    y[mask] = -1.0
    y.masked_fill_(x > 1, 9.0)
    x[:, 2] = y[:, 0]
    return y.masked_scatter(mask, x)


@program("embedding gather", inputs=lambda: call(torch.randn(10, 4), torch.randint(0, 10, (2, 3))), grad=True)
def embedding_lookup(table, tokens):
    return F.embedding(tokens, table) * 2.0 + F.embedding(tokens, table, padding_idx=1)


@program(
    "embedding reduction",
    inputs=lambda: call(torch.randn(10, 4), torch.randint(0, 10, (6,)), torch.tensor([0, 2, 3])),
    grad=True,
)
def embedding_bags(table, tokens, offsets):
    return F.embedding_bag(tokens, table, offsets, mode="mean") + F.embedding_bag(tokens, table, offsets, mode="sum")


@program("interpolate multi_output", inputs=lambda: call(torch.randn(1, 2, 4, 4)), grad=True)
def interpolations(image):
    return (
        F.interpolate(image, scale_factor=2, mode="nearest"),
        F.interpolate(image, size=(6, 3), mode="bilinear", align_corners=False),
        F.interpolate(image, size=(7, 7), mode="bilinear", align_corners=True),
        F.pixel_shuffle(image.repeat(1, 2, 1, 1), 2),
    )


@program("index int multi_output", inputs=lambda: call(torch.randint(0, 4, (6,)), torch.randn(8)))
def one_hot_and_buckets(labels, values):
    edges = torch.tensor([-1.0, 0.0, 1.0])
    return F.one_hot(labels, 4), torch.bucketize(values, edges), torch.searchsorted(edges, values)


@program("index gather pointwise", inputs=lambda: call(torch.randn(6, 8), torch.randint(0, 6, (6,))), grad=True)
def gather_of_computed(x, order):
    y = torch.exp(x)
    return y[order] + y


@program("index scatter pointwise", inputs=lambda: call(torch.randn(3, 4), torch.randn(2, 4)), grad=True)
def slice_scatters(x, rows):
    y = x.slice_scatter(rows, 0, 1, 3)
    return y.select_scatter(rows[0] * 2.0, 0, 0) + torch.diagonal_scatter(x, rows[1][:3])


@program("interpolate gather", inputs=lambda: call(torch.randn(1, 2, 4, 4), torch.rand(1, 3, 3, 2) * 2 - 1), grad=True)
def grid_samples(image, grid):
    return F.grid_sample(image, grid, align_corners=False)
