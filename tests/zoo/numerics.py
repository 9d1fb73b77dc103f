"""Where values go wrong: dtypes, promotion, integer semantics, overflow, NaN and infinity, ties."""

import torch
import torch.nn.functional as F

from zoo.program import call, program

NAN, INF = float("nan"), float("inf")


def awkward_floats():
    return torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 1e-38, 3e38])


@program("pointwise reduction float64", inputs=lambda: call(torch.randn(4, 6, dtype=torch.float64)), grad=True)
def double_precision(x):
    return (x * 1e-9 + 1.0 - 1.0).sum(1) + torch.exp(x).mean()


@program(
    "pointwise reduction bfloat16",
    inputs=lambda: call(torch.randn(4, 8, dtype=torch.bfloat16), torch.randn(8, dtype=torch.bfloat16)),
    grad=True,
    rtol=3e-2,
    atol=3e-2,
)
def bfloat16_chain(x, y):
    return torch.tanh(x * y + x).softmax(-1)


@program(
    "pointwise reduction float16",
    inputs=lambda: call(torch.randn(4, 8, dtype=torch.float16), torch.randn(8, dtype=torch.float16)),
    grad=True,
    rtol=5e-3,
    atol=5e-3,
)
def float16_chain(x, y):
    return (torch.sigmoid(x) * y).sum(-1)


@program("pointwise complex multi_output", inputs=lambda: call(torch.randn(3, 4, dtype=torch.complex64)), grad=True)
def complex_numbers(z):
    return z * z.conj() + 1j, z.abs(), z.real + z.imag


@program(
    "pointwise promotion multi_output",
    inputs=lambda: call(torch.arange(6), torch.randn(6), torch.tensor(1.5, dtype=torch.float64), torch.rand(6) > 0.5),
)
def type_promotion(i, f, scalar, b):
    return i + 1, i + 1.5, i / 2, i * f, f + scalar, b + 1, b * f, b + b, i.to(torch.int8) + 200, scalar + 1


@program("pointwise promotion bfloat16 multi_output", inputs=lambda: call(torch.randn(4).bfloat16(), torch.randn(4)))
def half_with_float(h, f):
    return h + f, h + 1.0, (h * f.sum()).dtype == torch.float32, h.float() * 2


@program(
    "pointwise int multi_output",
    inputs=lambda: call(torch.tensor([7, -7, 7, -7, 0, 1]), torch.tensor([3, 3, -3, -3, 5, -1])),
)
def signed_division(a, b):
    return (
        a // b,
        a % b,
        torch.fmod(a, b),
        torch.div(a, b, rounding_mode="trunc"),
        torch.div(a, b, rounding_mode="floor"),
        a / b,
        a // 2,
        -a % 4,
    )


@program(
    "pointwise multi_output",
    inputs=lambda: call(
        torch.tensor([7.5, -7.5, 7.5, -7.5, 0.0, 1.0]), torch.tensor([2.0, 2.0, -2.0, -2.0, 5.0, -0.3])
    ),
)
def float_division(a, b):
    return a // b, a % b, torch.fmod(a, b), torch.div(a, b, rounding_mode="trunc"), a % 3


@program(
    "pointwise int multi_output",
    inputs=lambda: call(torch.tensor([127, -128, 100, 1], dtype=torch.int8), torch.tensor([2**31 - 1, -(2**31)]).int()),
)
def integer_overflow(small, wide):
    return small + 1, small * 2, -small, small.abs(), wide + 1, wide * 2, small.sum(), wide.sum().dtype == torch.int64


@program(
    "pointwise int multi_output",
    inputs=lambda: call(torch.tensor([5, -6, 12, 255]), torch.tensor([1, 3, 2, 0])),
)
def bits(a, n):
    return a & 6, a | n, a ^ n, ~a, a << n, a >> n


@program("pointwise int multi_output", inputs=lambda: call(torch.tensor([2.9, -2.9, 0.0, 127.6, -0.4])))
def casts(x):
    return x.int(), x.to(torch.int8), x.bool(), x.to(torch.uint8).float(), x.long().double()


@program("pointwise bool int multi_output", inputs=lambda: call(torch.rand(3, 4) > 0.5, torch.randint(-3, 4, (3, 4))))
def bools_and_ints(mask, i):
    return (
        mask.sum(),
        mask.any(1),
        mask.all(0),
        (~mask).float().mean(),
        mask * i,
        i.sum(0),
        i.prod(1),
        i.amax(),
        i.clamp(0),
    )


@program("pointwise nan multi_output", inputs=lambda: call(awkward_floats(), awkward_floats().flip(0)))
def nan_in_min_max(x, y):
    return torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y), torch.fmin(x, y), x.clamp(-1, 1), x.clamp_min(0)


@program("pointwise nan multi_output", inputs=lambda: call(awkward_floats()))
def nan_in_activations(x):
    return F.relu(x), F.leaky_relu(x), torch.sigmoid(x), torch.tanh(x), F.hardtanh(x), F.softplus(x)


@program("pointwise nan bool multi_output", inputs=lambda: call(awkward_floats()))
def nan_predicates(x):
    return x.sign(), x.isnan(), x.isinf(), x.isfinite(), x == x, x > 0, x.signbit(), torch.nan_to_num(x), x.bool()


@program(
    "reduction nan multi_output",
    inputs=lambda: call(torch.tensor([[NAN, 1.0, 2.0], [INF, -INF, 0.0], [-INF, -INF, -INF], [3.0, 3.0, 1.0]])),
)
def nan_in_reductions(x):
    return (
        x.amax(1),
        x.amin(1),
        x.sum(1),
        x.mean(1),
        x.max(1),
        x.argmax(1),
        x.argmin(1),
        x.nansum(1),
        x.prod(1),
        x.any(1),
    )


@program(
    "softmax nan multi_output",
    inputs=lambda: call(torch.tensor([[0.0, -INF, 1.0], [-INF, -INF, -INF], [1e30, 0.0, -1e30], [NAN, 0.0, 1.0]])),
)
def softmax_extremes(x):
    return x.softmax(-1), x.log_softmax(-1), x.logsumexp(-1)


@program(
    "reduction int multi_output",
    inputs=lambda: call(torch.tensor([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [-1.0, -2.0, -1.0, -1.0]])),
)
def argmax_ties(x):
    return x.argmax(1), x.argmin(1), x.argmax(), x.max(1).indices, x.min(0).indices


@program(
    "pointwise nan multi_output",
    inputs=lambda: call(awkward_floats(), torch.tensor([0.0, 2.0, -1.0, 0.5]).repeat(3)[:9]),
)
def division_by_zero(x, y):
    return x / y, 1.0 / x, x % y, torch.log(x), torch.sqrt(x), x**y, torch.rsqrt(x)


@program("pointwise", inputs=lambda: call(torch.tensor([1e-3, 5.0, 50.0, 88.0, -88.0, -104.0, 1e4, -1e4])))
def large_exponents(x):
    return torch.stack([x.exp(), x.expm1(), x.sigmoid(), x.tanh(), F.softplus(x), F.silu(x), x.cosh(), x.erf()])


@program("pointwise int multi_output", inputs=lambda: call(torch.arange(-4, 4), torch.tensor(3)))
def integers_stay_integers(i, n):
    return i * n, i**2, i - n, torch.where(i > 0, i, 0), i.clamp(-1, n), torch.minimum(i, n), i.float().mean(), i.sign()
