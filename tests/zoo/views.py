"""The same values elsewhere: views, slices, joins, padding, and the layouts they leave."""

import torch
import torch.nn.functional as F

from zoo.program import call, program


@program(
    "view",
    inputs=lambda: call(torch.randn(2, 3, 4)),
    other_inputs=(lambda: call(torch.randn(5, 2, 6)),),
    grad=True,
)
def reshape_and_transpose(x):
    b, s, d = x.shape
    return (x.view(b, s, 2, d // 2).transpose(1, 2).reshape(b * 2, s, d // 2) * 2.0).contiguous()


@program("view alias multi_output", inputs=lambda: call(torch.randn(3, 4)), grad=True)
def only_views(x):
    return x.t(), x.view(-1), x[1:], x.unsqueeze(0), x.expand(2, 3, 4), x.diagonal()


@program("view pointwise multi_output", inputs=lambda: call(torch.randn(2, 6)), grad=True)
def chunk_split_unbind(x):
    a, b = x.chunk(2, dim=1)
    c, d, e = x.split([1, 2, 3], dim=1)
    first, second = x.unbind(0)
    return a * b, c + d.sum(), e.relu(), first - second


@program("view pointwise", inputs=lambda: call(torch.randn(4, 6)), grad=True)
def slices(x):
    return x[1:, ::2] * 2.0 + x[:-1, 1::2] + x[-3:, :3] + x[None, :3, 3:][0] + x[..., 0:1][:3]


@program("view pointwise", inputs=lambda: call(torch.randn(3, 4)), grad=True)
def expand_and_repeat(x):
    wide = x.unsqueeze(1).expand(3, 2, 4)
    tiled = x.repeat(2, 3)
    return wide.sum() + tiled * 2.0 + x.repeat_interleave(2, dim=0).repeat(1, 3)


@program(
    "cat pointwise",
    inputs=lambda: call(torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 1)),
    large=lambda: call(torch.randn(1024, 512), torch.randn(1024, 512), torch.randn(1024, 512)),
    grad=True,
)
def cat_columns(a, b, c):
    return torch.cat([a.relu(), b * 2.0, c], dim=1).tanh()


@program("cat pointwise", inputs=lambda: call(torch.randn(2, 3), torch.randn(2, 3)), grad=True)
def stack_and_cat(a, b):
    return torch.stack([a, b, a + b], dim=1) * torch.cat([a, b, b]).view(2, 3, 3)


@program("cat promotion", inputs=lambda: call(torch.arange(3), torch.randn(2), torch.randn(2, dtype=torch.float64)))
def cat_of_dtypes(i, f, d):
    return torch.cat([i, f]), torch.cat([f, d]), torch.stack([i.float(), i.float() * 0.5])


@program("pad multi_output", inputs=lambda: call(torch.randn(2, 3, 5)), grad=True)
def pads(x):
    return (
        F.pad(x, (1, 2)),
        F.pad(x, (1, 0, 2, 1), value=3.0) * 2.0,
        F.pad(x, (2, 1), mode="reflect"),
        F.pad(x, (1, 1), mode="replicate"),
        F.pad(x, (2, 2), mode="circular"),
        F.pad(x, (-1, -2)),
    )


@program("view multi_output", inputs=lambda: call(torch.randn(3, 4)), grad=True)
def roll_and_flip(x):
    return x.roll(1, 0) + x.flip(1), torch.roll(x, (1, -1), (0, 1)), torch.rot90(x), x.roll(2)


@program("view", inputs=lambda: call(torch.randn(4, 4)), grad=True)
def triangles(x):
    mask = torch.tril(torch.ones(4, 4, dtype=torch.bool))
    return x.tril() + x.triu(1) * 2.0 + x.tril(-1).masked_fill(mask, 0.5)


@program("view multi_output", inputs=lambda: call(torch.randn(2, 10)), grad=True)
def sliding_windows(x):
    return x.unfold(1, 4, 2).mean(-1), F.unfold(x.view(1, 1, 4, 5), (2, 2)).sum(1)


@program("view", inputs=lambda: call(torch.randn(20)), grad=True)
def as_strided_windows(x):
    return x.as_strided((4, 5), (3, 2), 1) * 2.0


@program("view pointwise channels_last", inputs=lambda: call(torch.randn(2, 3, 4, 5)), grad=True)
def to_channels_last(x):
    y = x.contiguous(memory_format=torch.channels_last)
    return y * 2.0, x.permute(0, 2, 3, 1).reshape(2, -1).relu()


@program("view zero_dim", inputs=lambda: call(torch.randn(3), torch.randn(())), grad=True)
def squeeze_to_scalar(x, s):
    return x[0] + s, s.view(1, 1).expand(2, 2) * x[1], x[2].unsqueeze(0).squeeze()


@program(
    "view einsum matmul multi_output",
    inputs=lambda: call(torch.randn(2, 3, 4), torch.randn(4, 5)),
    grad=True,
    rtol=1e-4,
)
def einsums(x, w):
    return torch.einsum("bsd,de->bse", x, w), torch.einsum("bsd->bd", x), torch.einsum("bsd,btd->bst", x, x)


@program("view pointwise", inputs=lambda: call(torch.randn(2, 8)), grad=True)
def movedim_and_flatten(x):
    grid = x.unflatten(1, (2, 4)).movedim(2, 0)
    return grid.flatten(1).cos() + torch.atleast_2d(grid[:, 0, 0]).t()


@program("view complex", inputs=lambda: call(torch.randn(3, 4, 2)), grad=True)
def real_as_complex(x):
    return torch.view_as_real(torch.view_as_complex(x) * torch.polar(torch.ones(4), torch.arange(4.0)))


@program("view int multi_output", inputs=lambda: call(torch.randn(4), torch.arange(8, dtype=torch.int16)))
def reinterpreted_bits(x, i):
    return x.view(torch.int32) & 0x7FFFFFFF, i.view(torch.int8), x.view(torch.int32).view(torch.float32) + 1


@program("view pointwise", inputs=lambda: call(torch.randn(2, 3), torch.randn(4)), grad=True)
def meshgrid_outer(x, y):
    a, b = torch.meshgrid(x.view(-1), y, indexing="ij")
    return a * b + torch.outer(x.view(-1), y) + torch.kron(x, y[None]).view(6, 4)
