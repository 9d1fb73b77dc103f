"""Operators beside eager: values, dtypes, strides, memory and gradients; a part of torch's list, another each day."""

import datetime
import itertools
import random
import time
from dataclasses import replace

import pytest
import torch
from torch import nn

import explorer
from benchmarks.operator_samples import Sample
from benchmarks.operators import BAD, FLAGS, jobs
from benchmarks.operators_child import (
    Matters,
    contradicts_itself,
    differs,
    is_repeatable,
    observe,
    rows,
    trial,
)
from benchmarks.report import Selection
from explorer.api import counters
from torch_release import BEFORE_2_13

SECONDS = 10
MOST = 0.02
"""The part of random samples that may be wrong yet: docs/operators.md tells which."""


def right(target, *args, differentiable=False, **kwargs):
    row = trial(Sample(target, args, kwargs, differentiable=differentiable))
    assert row.outcome in ("right", "fallback", "eager raises"), row
    return row


@pytest.mark.slow
def test_a_part_of_the_list():
    seed = datetime.date.today().toordinal()
    print(f"python -m benchmarks operators --seed {seed}")
    listed, taken = jobs(seed, Selection()), []
    ends = time.monotonic() + SECONDS
    for job in listed:
        if time.monotonic() > ends:
            break
        for row in rows({**vars(job), "samples": 1, "variants": 1, "flags": FLAGS}):
            taken.append((job.op, row))
    bad = [each for each in taken if each[1].outcome in BAD]
    assert taken and len(bad) <= 1 + MOST * len(taken), bad


class Permute(nn.Module):
    def __init__(self, *order):
        super().__init__()
        self.order = order

    def forward(self, x):
        return x.permute(self.order)


NORMS = {
    "layer": lambda: nn.LayerNorm(8),
    "rms": lambda: nn.RMSNorm(8),
    "linear": lambda: nn.Linear(8, 8),
}
POOLS = {
    "average": lambda: nn.AdaptiveAvgPool2d(1),
    "average 2": lambda: nn.AdaptiveAvgPool2d(2),
    "largest": lambda: nn.AdaptiveMaxPool2d(1),
    "window": lambda: nn.AvgPool2d(2),
}


@pytest.mark.parametrize("norm", NORMS)
def test_gradients_of_a_norm_before_a_pool(norm):
    chance = random.Random(f"{datetime.date.today()} {norm}")
    for pool, size in itertools.product(POOLS, [(1, 2, 2), (2, 3, 2)]):
        layers = [NORMS[norm](), Permute(0, 3, 1, 2), POOLS[pool](), nn.Flatten(1), nn.LazyLinear(3)]
        if chance.random() < 0.5:
            layers.insert(2, nn.BatchNorm2d(8) if size[0] > 1 else nn.GroupNorm(2, 8))
        model = nn.Sequential(*layers).double()
        x = torch.randn(*size, 8, dtype=torch.float64)
        model(x)
        expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        ours = torch.autograd.grad(explorer.compile(model)(x).square().sum(), list(model.parameters()))
        for parameter, a, b in zip(model.named_parameters(), ours, expected, strict=True):
            assert torch.allclose(a, b), (pool, size, layers, parameter[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_strided_parts_of_intermediates(dtype):
    def replaced(x):
        return torch.as_strided_scatter(x * 2, x[0] + 1, (3,), (4,), 1)

    def differentiated(x):
        return (x.sin().as_strided((2, 3), (1, 4), 2) * x[0, :1]).sum()

    x = torch.randn(3, 4, dtype=dtype)
    for function in (lambda x: replaced(x[:, :3].contiguous().view(3, 3)[:, :3] if x.shape[1] == 3 else x[:, :3]),):
        right(function, torch.randn(4, 3, dtype=dtype))
    right(differentiated, x, differentiable=True)
    right(lambda x: x.as_strided((2,), (1,), 1) * 2, torch.randn(8, dtype=dtype)[3:6])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, out: torch.add(x, 1, out=out),
        lambda x, out: torch.add(x, 1, out=out).mul_(2) + x,
        lambda x, out: torch.sum(x, 0, out=out),
        lambda x, out: torch.mm(x, x.mT, out=out),
        lambda x, out: torch.sort(x, out=(out, torch.empty(0, dtype=torch.int64))).values,
        lambda x, out: torch.cat([x, x], out=out).exp(),
    ],
)
def test_out_of_another_shape_stride_and_dtype(function):
    for x in (torch.randn(3, 4), torch.randn(4, 3).mT):
        wanted = function(x, torch.empty(0))
        for out in (torch.empty(0), torch.empty(7), torch.zeros(wanted.shape), torch.zeros(*wanted.shape, 2)[..., 0]):
            right(function, x, out)
        right(function, x, torch.zeros(wanted.shape, dtype=torch.float64))


def test_in_place_on_a_tensor_that_is_too_small():
    for name in ("add_", "gcd_", "remainder_", "copysign_", "bitwise_and_"):
        x = torch.ones(3, 1, dtype=torch.float32 if name == "copysign_" else torch.int64)
        assert right(lambda a, b, name=name: getattr(a, name)(b), x, x.expand(3, 3)).outcome == "eager raises"


LAZY = {
    "negative": lambda: torch.randn(4, 6, dtype=torch.complex64).conj().imag,
    "conjugate": lambda: torch.randn(4, 6, dtype=torch.complex64).conj(),
    "plain": lambda: torch.randn(4, 6, dtype=torch.complex64),
}


@pytest.mark.parametrize("kind", LAZY)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: (x[1:], x * 2),
        lambda x: x.conj().imag + 1 if x.is_complex() else x,
        lambda x: (x * 2).conj().imag if x.is_complex() else x.sum(0),
        lambda x: (x * 2).mH[1:] @ x,
        lambda x: (x.real + x.imag, x.conj(), x.mH) if x.is_complex() else x.exp(),
        lambda x: torch.view_as_real(x.resolve_conj()) + 1 if x.is_complex() else x.resolve_neg(),
    ],
)
def test_conjugate_and_negative_bits(kind, function):
    right(function, LAZY[kind]())


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, 2.0, 0.5])
def test_dtypes_of_powers(exponent):
    for dtype in (torch.bool, torch.uint8, torch.int8, torch.int64, torch.float16, torch.complex64):
        x = torch.tensor([0, 1, 3, 7]).to(dtype)
        right(lambda x: x**exponent, x)
    right(torch.square, torch.tensor([True, False]))


@pytest.mark.parametrize("dtype", [torch.qint8, torch.quint8])
def test_quantized_intermediates(dtype):
    x = torch.randn(8)
    right(lambda x: torch.quantize_per_tensor(x, 0.1, 0, dtype).dequantize() + 1, x)
    right(lambda x: torch.quantize_per_tensor(x, 0.1, 0, dtype).int_repr().float() * 2, x)


def test_operators_that_run_in_kernels():
    before = counters().get("calls: fallback", 0)
    assert right(lambda x, out: torch.add(x, 1, out=out), torch.randn(3), torch.empty(0)).how == "generated"
    assert counters().get("calls: fallback", 0) == before


STRIDES = {
    "gaps": lambda x: torch.empty_strided(x.shape, (16, 1)).copy_(x),
    "gaps and their views": lambda x: (lambda y: (y, y.t(), y[1:]))(torch.empty_strided(x.shape, (16, 2)).copy_(x)),
    "views of gaps": lambda x: (lambda y: (y.t(), y[1:]))(torch.empty_strided(x.shape, (16, 1)).copy_(x)),
    "steps of sizes 1": lambda x: (x.sum(0, keepdim=True), x.mean(1, keepdim=True), (x * 2)[None].transpose(0, 2)),
    "written": lambda x: (
        x.t().scatter(0, torch.zeros(8, 4, dtype=torch.int64), x.t()),
        x.t().index_fill(0, torch.tensor([1]), 2.0),
    ),
    "likes": lambda x: (torch.empty_like(x.t()).copy_(x.t()), torch.zeros_like(x[:, :1].expand(4, 3)), x.t().clone()),
    "channels last": lambda x: torch.relu(x.view(2, 4, 2, 2).to(memory_format=torch.channels_last)).view_as(
        x[None, :, :, None].view(2, 4, 2, 2)
    ),
}


@pytest.mark.parametrize("name", STRIDES)
def test_strides_of_results(name):
    right(STRIDES[name], torch.randn(4, 8))


def test_an_empty_dimension_is_indexed():
    place = torch.zeros(2, dtype=torch.int64)
    for function in (
        lambda x, i: x[i],
        lambda x, i: x.gather(0, i[:, None].expand(2, 3)),
        lambda x, i: x.index_select(0, i),
        lambda x, i: nn.functional.embedding(i, x),
        lambda x, i: x.index_put((i,), torch.ones(2, 3)),
        lambda x, i: x.scatter_add(0, i[:, None].expand(2, 3), torch.ones(2, 3)),
    ):
        assert right(function, torch.ones(0, 3), place).outcome == "eager raises"


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_of_bytes_are_resampled_with_integer_weights(mode):
    x = torch.randint(0, 256, (2, 3, 9, 11), dtype=torch.uint8)
    for image in (x, x.to(memory_format=torch.channels_last)):
        for how in ({"size": (7, 5)}, {"size": (12, 9), "align_corners": True}, {"size": (3, 4), "antialias": True}):
            right(lambda x, how=how: nn.functional.interpolate(x, mode=mode, **how), image)


EDGES = [0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), -float("inf"), 2.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_zeros_infinities_and_nan(dtype):
    x = torch.tensor(EDGES, dtype=dtype)
    a, b = (each.contiguous() for each in torch.broadcast_tensors(x[:, None], x))

    def edges(a, b):
        powers = [a**exponent for exponent in (0.5, -0.5, 2, 3, -1)]
        bounds = [a.clamp(0, 1), a.clamp(max=0.0), a.clamp(2.0, 1.0), nn.functional.relu6(a)]
        if not BEFORE_2_13:  # there eager passes over a bound that is no number
            bounds.append(a.clamp(float("nan")))
        return *powers, *bounds, torch.fmax(a, b), torch.fmin(a, b), torch.nextafter(a, b)

    for ours, eager in zip(explorer.compile(edges)(a, b), edges(a, b), strict=True):
        assert torch.equal(ours.nan_to_num(9.25), eager.nan_to_num(9.25))
        assert torch.equal(ours[eager == 0].signbit(), eager[eager == 0].signbit())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64])
def test_shifts_past_the_width(dtype):
    x = torch.tensor([1, 100, 127, 0]).to(dtype)
    right(lambda x: (x >> 40, x >> 70, ~x >> 40, x << 40, x << 70), x)


def test_integers_are_not_updated_with_floats():
    for name in ("logit_", "sin_", "sigmoid_", "true_divide_"):
        others = (2,) if name == "true_divide_" else ()
        row = right(lambda x, name=name, others=others: getattr(x, name)(*others), torch.tensor([1, 2]))
        assert row.outcome == "eager raises"


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_the_conjugate_of_a_view_with_gaps(dtype):
    x = torch.randn(2, 1, 2, 2, dtype=dtype).mT
    right(lambda x: x[..., :1, :].mH.matmul(x[..., :1, :]), x)
    right(lambda x: (x[..., :1].mH * 2, x[:, :, ::2].conj() + 1), x)


VIEWS = {
    "transposed": lambda y: y[:, :2].transpose(0, 2),
    "steps": lambda y: y[::2, :, ::3].permute(2, 0, 1),
    "expanded": lambda y: y[:1].expand(3, 8, 10).transpose(1, 2),
    "conjugated": lambda y: y[:, ::3].conj().mT,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("view", VIEWS)
def test_views_with_gaps_in_the_library(view, dtype):
    x = torch.randn(6, 8, 10, dtype=dtype)
    for function in (torch.clone, lambda z: torch.cumsum(z, 1), lambda z: z.flip(0), lambda z: torch.fft.fft(z, dim=0)):
        right(lambda x, function=function: function(VIEWS[view](x * 2)), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_gradients_of_products_with_other_strides(dtype):
    matrix, vector = torch.randn(5, 4, 2, dtype=dtype)[..., 0], torch.randn(4, 2, dtype=dtype)[..., 0]
    for x, y in ((matrix, vector), (matrix[:1].expand(5, 4), vector), (matrix, vector[:1].expand(4))):
        right(torch.mv, x, y, differentiable=True)


def test_complex_arithmetic_at_its_borders():
    parts = torch.tensor(EDGES + [torch.finfo(torch.float64).max], dtype=torch.float64)
    x = torch.complex(*torch.broadcast_tensors(parts, parts[:, None])).contiguous()
    for function in (torch.addcmul, torch.addcdiv, torch.lerp, lambda a, b, c: torch.rsub(a, b, alpha=2).sgn() / c):
        right(function, x, x.flip(0), x.t().contiguous())


@pytest.mark.parametrize("name", ["select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter"])
def test_strides_of_what_is_scattered_into(name):
    others = {
        "select_scatter": (torch.ones(6), 0, 1),
        "slice_scatter": (torch.ones(2, 6), 0, 1, 3),
        "diagonal_scatter": (torch.ones(6),),
        "as_strided_scatter": (torch.ones(2), (2,), (2,), 0),
    }[name]
    gaps = torch.randn(6, 6, 2)[..., 0]
    for x in (gaps, gaps.t(), torch.randn(6).expand(6, 6), torch.randn(6, 6).t()):
        right(lambda x: getattr(torch, name)(x, *others), x)


def test_memory_that_is_resized():
    right(lambda x: torch.resize_as_(x.clone(), x), torch.randn(4, 3).t())


@pytest.mark.parametrize("name", ["eigh", "eig", "svd"])
def test_gradients_that_are_refused_for_their_values(name):
    x = torch.randn(3, 3, dtype=torch.complex64)
    row = right(lambda x: getattr(torch.linalg, name)(x + x.mH if name == "eigh" else x), x, differentiable=True)
    assert row.outcome in ("eager raises", "fallback")


LAID_OUT = {
    "triangular solves": lambda a: torch.linalg.solve_triangular(a.mT, a, upper=True).view(6, 4, 4) @ a[0, 0],
    "factors of batches": lambda a: torch.linalg.lu_factor_ex(a)[0].view(6, 4, 4) * 2,
    "conjugated lazily": lambda a: torch.fft.ifft(a.real).view(6, 16).sum(1),
    "inverse": lambda a: torch.linalg.inv(a).view(6, 4, 4).transpose(1, 2) + 1,
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("name", LAID_OUT)
def test_results_that_a_library_call_lays_out_in_its_own_way(name, dtype):
    a = torch.randn(2, 3, 4, 4, dtype=dtype) + 4 * torch.eye(4)
    right(LAID_OUT[name], a, differentiable=True)


@pytest.mark.parametrize(
    ("function", "size"),
    [
        (lambda x, out: torch.linalg.matrix_rank(x, out=out), ()),
        (lambda x, out: torch.count_nonzero(x).to(torch.int64) + torch.argmax(x, 0, out=out), (4,)),
        (lambda x, out: torch.max(x, 1, out=(torch.empty(0), out)).indices + out, (4,)),
        (lambda x, out: torch.bucketize(x, torch.arange(4.0), out=out), (4, 4)),
    ],
)
def test_out_of_integers_is_written(function, size):
    for out in (torch.zeros(size, dtype=torch.int64), torch.zeros((*size, 2), dtype=torch.int64)[..., 0]):
        assert right(function, torch.randn(4, 4), out).outcome == "right"


@pytest.mark.parametrize(
    "function",
    [
        lambda out: torch.empty(2, 3, out=out).fill_(1.0),
        lambda out: torch._native_batch_norm_legit(
            torch.ones(2, 1), None, None, True, 0.5, 1e-5, out=(out, torch.empty(0), torch.empty(0))
        ),
    ],
)
def test_out_whose_rule_for_fake_tensors_does_not_resize(function):
    right(function, torch.empty(0))


def test_indices_that_are_negative_or_of_another_rank():
    x = torch.randn(5, 5)
    for index in (torch.tensor([2, -1, -5]), torch.tensor(-3), torch.zeros(0, dtype=torch.int64), torch.tensor([5])):
        right(lambda x, i: x.index_fill(0, i, 3), x, index)
        right(lambda x, i: x.mT.index_fill_(1, i, torch.tensor(2.0)), x, index)
    for size in ((2, 0), (0,), (0, 3, 2)):
        index = torch.zeros(size, dtype=torch.int64)
        for function in (lambda x, i: x.gather(0, i), lambda x, i: x.scatter(0, i, 2.0)):
            right(function, x, index)
            right(function, x[0], index)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float32])
def test_ranges_between_fractions(dtype):
    for start, end, step in ((-0.9, 2.1, 2.0), (0.5, 5, 1.5), (-2.9, 2, 1.0), (1.9, 9, 2.5)):
        right(lambda start=start, end=end, step=step: torch.arange(start, end, step, dtype=dtype))


@pytest.mark.parametrize("mode", ["linear", "bilinear", "bicubic", "trilinear", "nearest"])
def test_images_without_elements(mode):
    x = torch.zeros(2, 3, *(4,) * {"linear": 0, "trilinear": 2}.get(mode, 1), 0)
    given = {} if mode == "nearest" else {"align_corners": False}
    for scale in (0.5, 1.7):
        row = right(nn.functional.interpolate, x, scale_factor=scale, mode=mode, **given)
        assert row.outcome == "eager raises"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_sixth_of_a_hard_sigmoid(dtype):
    right(nn.functional.hardsigmoid, torch.tensor([-4.0, -3.0, -1.0, 0.5, 3.0], dtype=dtype), differentiable=True)


def test_chances_beyond_one():
    for x in (torch.tensor([0.5, 1.0]), torch.tensor([0.5, 1.5]), torch.tensor([0.5, torch.nan])):
        row = right(lambda x: nn.functional.binary_cross_entropy(x, torch.ones(2)) * 2, x)
        assert (row.outcome == "right") == bool((x <= 1).all())


@pytest.mark.parametrize("correction", [-1, 0, 1, 2])
def test_moments_of_nothing(correction):
    for dim in (None, 0, 1):
        right(lambda x, dim=dim: torch.var_mean(x, dim, correction=correction), torch.zeros(0, 3))


def memory_as_it_is(x, out=None):
    return torch.empty_like(x) if out is None else out


def outs_apart(x, out=None):
    return x + 1 if out is None else out.copy_(x)


def test_samples_that_eager_does_not_determine():
    """Rounding that a run in float64 explains is right; where eager contradicts itself, that is told apart."""
    x, out = torch.randn(8), torch.zeros(8)
    told = Sample(outs_apart, (x,), {"out": out}, "out= dense")
    wrong = observe(lambda x, out: x * 2, told)
    eager = observe(outs_apart, told)
    assert differs(told, wrong, eager, Matters()) and not contradicts_itself(told, wrong, eager, Matters())
    assert contradicts_itself(told, observe(lambda x, out: x + 1, told), eager, Matters())
    sample = Sample(lambda x: nn.functional.layer_norm(x, (1,)), (torch.randn(3, 1),), differentiable=True)
    eager = observe(sample.target, sample)
    zero = replace(eager, values={**eager.values, "gradient 0": torch.zeros(3, 1)})
    assert not differs(sample, zero, eager, Matters())
    one = replace(eager, values={**eager.values, "gradient 0": torch.ones(3, 1)})
    assert differs(sample, one, eager, Matters())
    unwritten = Sample(memory_as_it_is, (x,))
    assert not is_repeatable(unwritten, observe(memory_as_it_is, unwritten), Matters())


def test_another_formula_may_not_make_an_infinity_of_a_number():
    sample = Sample(lambda x: x.std(1), (torch.tensor([[1.0, 2.0], [torch.inf, 1.0], [3.0, 9.0]]),))
    eager = observe(sample.target, sample)
    for place, other, is_wrong in ((0, torch.inf, True), (0, torch.nan, True), (1, torch.inf, False), (2, 5.0, True)):
        value = eager.values["result 0"].clone()
        value[place] = other
        ours = replace(eager, values={**eager.values, "result 0": value})
        assert bool(differs(sample, ours, eager, Matters(kinds=False))) is is_wrong


def test_integers_between_two_numbers():
    for steps in (7, 50, 101):
        right(lambda steps=steps: torch.linspace(0, 7, steps, dtype=torch.int64))
        right(lambda steps=steps: torch.logspace(0, 3, steps, dtype=torch.int32))
        right(lambda steps=steps: torch.linspace(0, 7, steps))


def test_the_gradient_of_a_value_that_fills_places_named_twice():
    index = torch.tensor([2, 1, 4, 2, 2])
    for function in (lambda x, v: x.index_fill(0, index, v), lambda x, v: torch.index_fill(x * 2, 1, index, v * 2)):
        right(function, torch.randn(5, 5), torch.tensor(2.0), differentiable=True)


def test_shapes_that_fake_tensors_tell_otherwise():
    for function, x in (
        (lambda x: torch.pixel_unshuffle(x, 3), torch.zeros(0, 1, 6, 6)),
        (lambda x: torch.addmv(torch.tensor(-8), x, x[0], beta=2), torch.zeros(5, 0, dtype=torch.int64)),
    ):
        right(function, x)
