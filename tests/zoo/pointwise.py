"""Element by element: arithmetic, functions, activations, comparisons, broadcasting, layouts."""

import math

import torch
import torch.nn.functional as F

from zoo.program import call, program


@program(
    "pointwise",
    inputs=lambda: call(torch.randn(4, 8), torch.randn(4, 8)),
    other_inputs=(lambda: call(torch.randn(3, 5), torch.randn(3, 5)),),
    large=lambda: call(torch.randn(1024, 1024), torch.randn(1024, 1024)),
    grad=True,
)
def add_mul(x, y):
    return x * y + 2.0


@program(
    "pointwise activation",
    inputs=lambda: call(torch.randn(6, 8), torch.randn(8)),
    large=lambda: call(torch.randn(2048, 1024), torch.randn(1024)),
    grad=True,
)
def gelu_by_hand(x, bias):
    x = x + bias
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1.0 + torch.tanh(inner))


@program(
    "pointwise",
    inputs=lambda: call(torch.randn(4, 8)),
    large=lambda: call(torch.randn(4096, 1024)),
    grad=True,
)
def long_chain(x):
    y = torch.sin(x)
    y = y * torch.cos(x)
    y = y + torch.tanh(y)
    y = torch.exp(-y * y)
    return torch.sqrt(y + 1.0)


@program("pointwise activation", inputs=lambda: call(torch.randn(4, 9)), grad=True)
def gelus(x):
    return F.gelu(x) + F.gelu(x, approximate="tanh")


@program("pointwise activation", inputs=lambda: call(torch.randn(4, 9)), grad=True)
def silu_mish(x):
    return F.silu(x) * F.mish(x)


@program("pointwise activation multi_output", inputs=lambda: call(3 * torch.randn(4, 9)), grad=True)
def elu_family(x):
    return F.elu(x), F.selu(x), F.celu(x, alpha=0.7)


@program("pointwise activation", inputs=lambda: call(30 * torch.randn(4, 9)), grad=True)
def softplus(x):
    return F.softplus(x, beta=1.5, threshold=10.0)


@program("pointwise activation", inputs=lambda: call(4 * torch.randn(4, 9)), grad=True)
def hard_activations(x):
    return F.hardswish(x) + F.hardsigmoid(x) * F.hardtanh(x) - F.relu6(x)


@program("pointwise activation", inputs=lambda: call(torch.randn(2, 3, 4), torch.full((3,), 0.25)), grad=True)
def leaky_prelu(x, weight):
    return F.leaky_relu(x, 0.1) + F.prelu(x, weight) + F.threshold(x, 0.2, -1.0)


@program("pointwise activation", inputs=lambda: call(torch.randn(4, 8)), grad=True)
def glu_variants(x):
    gate, value = x.chunk(2, dim=-1)
    return F.glu(x, dim=-1) + F.silu(gate) * value + F.gelu(gate) * value


@program("pointwise", inputs=lambda: call(torch.rand(4, 8) + 0.1), grad=True)
def powers(x):
    return x**2 + x**-1.5 + x**0.5 + 2.0**x + x**x + torch.rsqrt(x) + torch.reciprocal(x)


@program("pointwise", inputs=lambda: call(torch.rand(4, 8) * 0.8 + 0.1), grad=True)
def special_functions(x):
    return torch.erf(x) + torch.expm1(x) + torch.log1p(x) + torch.logit(x) + F.logsigmoid(x) + torch.lgamma(x)


@program("pointwise", inputs=lambda: call(torch.rand(3, 7) + 0.5, torch.randn(3, 7)), grad=True)
def two_argument_functions(x, y):
    return torch.atan2(x, y) + torch.hypot(x, y) + torch.xlogy(x, x) + torch.logaddexp(x, y)


@program("pointwise", inputs=lambda: call(torch.rand(3, 7) * 0.9), grad=True)
def trigonometry(x):
    return torch.asin(x) + torch.acos(x) + torch.atan(x) + torch.sinh(x) + torch.cosh(x) + torch.tan(x)


@program(
    "pointwise",
    inputs=lambda: call(torch.tensor([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 3.49999, 1e9, -7.7])),
)
def rounding(x):
    return torch.stack([x.round(), x.floor(), x.ceil(), x.trunc(), x.frac(), torch.round(x, decimals=1)])


@program(
    "pointwise",
    inputs=lambda: call(torch.randn(4, 6), torch.randn(4, 6), torch.rand(4, 6) > 0.5),
    grad=True,
)
def where_and_masked_fill(x, y, mask):
    return torch.where(mask, x, y) + torch.where(x > 0, x, 0.0) + y.masked_fill(~mask, -1.5)


@program("pointwise", inputs=lambda: call(torch.randn(4, 6), torch.randn(6) - 1, torch.randn(6) + 1), grad=True)
def clamps(x, low, high):
    return x.clamp(-0.5, 0.5) + x.clamp(min=0.1) + torch.clamp(x, low, high) + x.clamp_max(0.9)


@program("pointwise", inputs=lambda: call(torch.randn(4, 6), torch.randn(4, 6), torch.rand(4, 6) + 0.5), grad=True)
def lerp_and_addc(x, y, z):
    return torch.lerp(x, y, 0.3) + torch.addcmul(x, y, z, value=0.5) + torch.addcdiv(x, y, z, value=-2.0)


@program("pointwise bool multi_output", inputs=lambda: call(torch.randn(4, 6), torch.randn(4, 6)))
def comparisons(x, y):
    either = (x > y) | (x <= -1.0)
    return either, either & ~(y == 0), torch.logical_xor(x > 0, y > 0), (x != y).float()


@program(
    "pointwise broadcast",
    inputs=lambda: call(torch.randn(4, 1), torch.randn(8), torch.randn(2, 1, 1)),
    other_inputs=(lambda: call(torch.randn(1, 5), torch.randn(5), torch.randn(1, 1, 1)),),
    grad=True,
)
def broadcast_everything(rows, columns, planes):
    return rows * columns + planes


@program(
    "pointwise broadcast zero_dim",
    inputs=lambda: call(torch.randn(3, 4), torch.tensor(2.5), torch.randn(())),
    grad=True,
)
def scalar_tensors(x, scale, shift):
    return x * scale + shift, scale * shift


@program(
    "pointwise reduction zero_size cat multi_output",
    inputs=lambda: call(torch.randn(0, 4), torch.randn(3, 4)),
    grad=True,
)
def empty_tensors(empty, x):
    return empty * 2.0 + 1.0, empty.sum(0), torch.cat([empty, x]).relu(), empty.sum()


@program("pointwise noncontiguous", inputs=lambda: call(torch.randn(6, 4).t(), torch.randn(4, 6)), grad=True)
def transposed_input(x, y):
    return (x * y).relu()


@program("pointwise noncontiguous", inputs=lambda: call(torch.randn(8, 10)[::2, 1::3]), grad=True)
def strided_input(x):
    return x.exp() - 1.0


@program("pointwise noncontiguous broadcast", inputs=lambda: call(torch.randn(1, 5).expand(4, 5), torch.randn(4, 5)))
def expanded_input(x, y):
    return x + y, x * 2.0


@program(
    "pointwise channels_last",
    inputs=lambda: call(torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last), torch.randn(3, 1, 1)),
    grad=True,
)
def channels_last_input(image, gain):
    return (image * gain).sigmoid()


@program("pointwise noncontiguous", inputs=lambda: call(torch.randn(2, 3, 4).permute(2, 0, 1)), grad=True)
def permuted_input_keeps_strides(x):
    return torch.tanh(x) * 2.0


@program("pointwise factory", inputs=lambda: call(torch.randn(3, 4)), grad=True)
def factories(x):
    ramp = torch.arange(4, dtype=x.dtype, device=x.device)
    grid = torch.linspace(0.0, 1.0, 3).unsqueeze(1)
    return x + ramp * grid + torch.ones_like(x) - torch.full((3, 1), 0.5) + torch.eye(3, 4) + x.new_zeros(4)
