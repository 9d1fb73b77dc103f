"""Lowered programs, run by the reference interpreter, equal eager: values, dtypes, strides, aliasing, mutation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from explorer.compiler.lower import LOWER
from explorer.core.reasons import Unsupported
from explorer.ir.loops import Extern, Load, walk
from loops_reference import run_loops
from lowered_programs import aten, made
from lowering import check, externs, flat, kernels, lowered

inf, nan = float("inf"), float("nan")

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]

INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]

SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, inf, -inf, nan, 1e-30, 1e30, 3.7, -3.7])

UNARY = [
    torch.neg,
    torch.abs,
    torch.relu,
    torch.sign,
    torch.sgn,
    torch.floor,
    torch.ceil,
    torch.trunc,
    torch.round,
    torch.reciprocal,
    torch.sqrt,
    torch.rsqrt,
    torch.exp,
    torch.exp2,
    torch.expm1,
    torch.log,
    torch.log2,
    torch.log10,
    torch.log1p,
    torch.sin,
    torch.cos,
    torch.tan,
    torch.asin,
    torch.acos,
    torch.atan,
    torch.sinh,
    torch.cosh,
    torch.tanh,
    torch.asinh,
    torch.acosh,
    torch.atanh,
    torch.erf,
    torch.erfc,
    torch.erfinv,
    torch.lgamma,
    torch.digamma,
    torch.sigmoid,
    torch.isnan,
    torch.isinf,
    torch.signbit,
    torch.logical_not,
    torch.square,
    torch.frac,
    torch.isfinite,
    torch.nan_to_num,
    F.gelu,
    F.silu,
    F.mish,
    F.softplus,
    F.elu,
    F.leaky_relu,
    F.hardswish,
    F.hardsigmoid,
    F.hardtanh,
    F.relu6,
    F.logsigmoid,
    F.softsign,
    F.tanhshrink,
    F.softshrink,
    F.hardshrink,
    F.celu,
    F.selu,
    torch.deg2rad,
    torch.special.i0e,
    torch.angle,
]


@pytest.mark.parametrize("fn", UNARY, ids=lambda fn: fn.__name__)
def test_unary_operators_on_special_values(fn: Callable[..., Any]) -> None:
    # oneDNN's gelu(inf) is nan, and on some processors its gelu(1e30).
    with torch.backends.mkldnn.flags(enabled=fn is not F.gelu):
        check(fn, SPECIAL)
        for dtype in (torch.bfloat16, torch.float16):
            check(fn, SPECIAL.to(dtype))


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool], ids=str)
def test_unary_operators_on_integers(dtype: torch.dtype) -> None:
    x = made((17,), dtype)
    fns = [torch.exp, torch.sqrt, torch.sigmoid, torch.isnan, torch.isinf, torch.logical_not, torch.bitwise_not]
    if dtype != torch.bool:
        fns += [torch.abs, torch.neg, torch.sign, torch.floor, torch.ceil, torch.round, torch.relu, torch.square]
    for fn in fns:
        check(fn, x)


BINARY = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.div,
    torch.floor_divide,
    torch.remainder,
    torch.fmod,
    torch.pow,
    torch.maximum,
    torch.minimum,
    torch.fmax,
    torch.fmin,
    torch.eq,
    torch.ne,
    torch.lt,
    torch.le,
    torch.gt,
    torch.ge,
    torch.atan2,
    torch.logical_and,
    torch.logical_or,
    torch.logical_xor,
    torch.copysign,
    torch.true_divide,
    torch.hypot,
    torch.nextafter,
    torch.xlogy,
]


@pytest.mark.parametrize("fn", BINARY, ids=lambda fn: fn.__name__)
def test_binary_operators_on_special_values(fn: Callable[..., Any]) -> None:
    check(fn, SPECIAL[:, None], SPECIAL[SPECIAL != 1e-30])
    if fn not in (torch.hypot, torch.nextafter):
        check(fn, SPECIAL.to(torch.bfloat16)[:, None], SPECIAL[SPECIAL != 1e-30].to(torch.bfloat16))


PAIRS = [
    (torch.float32, torch.float64),
    (torch.int32, torch.float32),
    (torch.int64, torch.int32),
    (torch.bool, torch.int8),
    (torch.bfloat16, torch.float16),
    (torch.uint8, torch.int8),
    (torch.bool, torch.bool),
    (torch.int64, torch.bfloat16),
]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_binary_operators_promote(pair: tuple[torch.dtype, torch.dtype]) -> None:
    x, y = made((5, 1), pair[0]), made((7,), pair[1])
    for fn in (torch.add, torch.mul, torch.true_divide, torch.maximum, torch.lt, torch.eq, torch.logical_and):
        check(fn, x, y)
    check(torch.add, x, made((), pair[1]))
    check(torch.where, made((7,), torch.bool), x, y)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_arithmetic(dtype: torch.dtype) -> None:
    x = torch.tensor([7, -7, 6, 0, 5, -1], dtype=torch.int64).to(dtype)
    y = torch.tensor([3, 3, 2, 5, 3, 4], dtype=torch.int64).to(dtype)
    for fn in (
        torch.floor_divide,
        torch.remainder,
        torch.fmod,
        torch.bitwise_and,
        torch.bitwise_or,
        torch.bitwise_xor,
        torch.bitwise_left_shift,
        torch.bitwise_right_shift,
        torch.true_divide,
    ):
        check(fn, x, y)
    check(lambda x, y: torch.div(x, y, rounding_mode="trunc"), x, y)
    check(lambda x, y: torch.div(x, y, rounding_mode="floor"), x, y)
    check(lambda x: (x + 2, x * 3, x - 1, 2 - x, x // 2, x % 3, x**2, x**3, x / 2, x + 0.5, x == 2, x > 0.5), x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numbers_as_operands(dtype: torch.dtype) -> None:
    x = made((33,), dtype)
    check(lambda x: (x + 2, x * 0.1, x - 1.3, 2 - x, x / 3, x // 0.7, x % 0.7, 1 / x, x > 0.1, x == 1), x)
    check(lambda x: (x.abs() ** 0.5, x**2, x**3, x**-1, x**-2, x**4, 2.0**x, x.abs() ** 1.7, x**0, x**1), x)
    check(lambda x: (torch.add(x, x, alpha=0.3), torch.sub(x, 1.5, alpha=2), torch.rsub(x, 2, alpha=3)), x)
    check(lambda x: (x.clamp(-1, 1), x.clamp(min=0.1), x.clamp(max=0.1), x.clamp_min(0), x.clamp_max(0)), x)
    check(lambda x: (torch.where(x > 0, x, 0.25), x.masked_fill(x < 0, -inf), x.addcmul(x, x, value=0.5)), x)
    check(
        lambda x: (
            torch.div(x, 0.3, rounding_mode="floor"),
            torch.div(x, 0.3, rounding_mode="trunc"),
            x.round(decimals=2),
        ),
        x,
    )


def test_clamp_with_tensors_and_nan() -> None:
    check(
        lambda x, a: (x.clamp(a, a + 1), x.clamp(min=a), x.clamp(max=a), torch.clamp(x, 1, -1)),
        SPECIAL,
        SPECIAL.flip(0),
    )


def test_casts() -> None:
    x = torch.tensor([0.0, 1.9, -1.9, 3.5, 200.0, 1e-3])
    for to in [*FLOATS, torch.int64, torch.int32, torch.int16, torch.bool]:
        check(lambda x, to=to: x.to(to), x)
        check(lambda x, to=to: x.to(to), x.to(torch.bfloat16))
        check(lambda x, to=to: x.to(to).float() + 1, x)
    check(
        lambda x: (x.to(torch.int8), x.to(torch.uint8), x.to(torch.bool), x.to(torch.bfloat16)), torch.arange(-300, 300)
    )


def test_sixteen_bit_results_are_rounded_as_in_eager() -> None:
    x, y = made((64,), torch.bfloat16), made((64,), torch.bfloat16, 0, 1)
    check(lambda x, y: ((x + y) * y - x, (x * y).sum() + x), x, y, tolerance=0)


def test_the_same_value_and_inputs_and_numbers_returned() -> None:
    loops = check(lambda x: (x, y := x + 1, y, 3, x.shape[0]), torch.randn(3))
    x = torch.randn(3)
    mine = run_loops(loops, (x,))
    assert mine[0] is x and mine[1].data_ptr() == mine[2].data_ptr()


REDUCTIONS: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x.sum(),
    lambda x: x.sum(0),
    lambda x: x.sum((0, 2), keepdim=True),
    lambda x: x.sum(-1, dtype=torch.float64),
    lambda x: x.amax(1),
    lambda x: x.amin((0, 1)),
    lambda x: x.max(),
    lambda x: x.min(),
    lambda x: tuple(x.max(1)),
    lambda x: tuple(x.min(-1, keepdim=True)),
    lambda x: x.argmax(),
    lambda x: x.argmin(1),
    lambda x: x.argmax(0, keepdim=True),
    lambda x: (x > 0).any(),
    lambda x: (x > 0).all(1),
    lambda x: x.any(0),
    lambda x: x.all(),
    lambda x: x.prod(),
    lambda x: x.prod(1),
    lambda x: torch.aminmax(x, dim=1),
    lambda x: x.count_nonzero(),
    lambda x: x.sum(()),
]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("first", range(0, len(REDUCTIONS), 6))
def test_reductions(first: int, dtype: torch.dtype) -> None:
    x = made((3, 4, 5), dtype)
    fns = [fn for fn in REDUCTIONS[first : first + 6] if dtype != torch.bool or fn not in WITHOUT_BOOL]
    together = lambda x: tuple(result for fn in fns for result in flat(fn(x)))  # noqa: E731
    tolerance = {torch.bfloat16: 2e-2, torch.float16: 4e-3}.get(dtype)
    assert not externs(check(together, x, tolerance=tolerance))
    check(together, x.permute(2, 0, 1), tolerance=tolerance)


WITHOUT_BOOL = [REDUCTIONS[place] for place in (8, 9, 10, 11, 12, 19)]

FLOAT_REDUCTIONS: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x.mean(),
    lambda x: x.mean(1),
    lambda x: x.mean((0, 2), keepdim=True),
    lambda x: x.var(),
    lambda x: x.var(1),
    lambda x: x.std(0, correction=0),
    lambda x: x.var((1, 2), correction=2),
    lambda x: torch.var_mean(x, 1, keepdim=True),
    lambda x: x.softmax(-1),
    lambda x: x.softmax(0),
    lambda x: x.log_softmax(1),
    lambda x: x.logsumexp(1),
    lambda x: x.norm(),
    lambda x: x.norm(dim=1),
    lambda x: torch.std_mean(x, 2),
    lambda x: x.nansum(1),
    lambda x: F.layer_norm(x, (5,)),
    lambda x: F.layer_norm(x, (4, 5)),
    lambda x: F.normalize(x, dim=1),
    lambda x: F.rms_norm(x, (5,)),
    lambda x: F.group_norm(x, 2),
    lambda x: x.softmax(1).sum(0),
    lambda x: x.norm(1, 0),
    lambda x: F.instance_norm(x),
    lambda x: x.logsumexp((0, 1)),
    lambda x: torch.linalg.vector_norm(x, inf, 1),
]


@pytest.mark.parametrize("first", range(0, len(FLOAT_REDUCTIONS), 6))
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("decompose", [True, False])
def test_float_reductions(first: int, dtype: torch.dtype, decompose: bool) -> None:
    fns = FLOAT_REDUCTIONS[first : first + 6]
    # Decompositions round 16-bit intermediates that eager's kernels keep in float32.
    tolerance = {torch.bfloat16: 4e-2, torch.float16: 1e-2}.get(dtype) if decompose else None
    together = lambda x: tuple(result for fn in fns for result in flat(fn(x)))  # noqa: E731
    check(together, made((4, 4, 5), dtype), decompose=decompose, tolerance=tolerance)


def test_reductions_of_nothing_and_of_one_number() -> None:
    check(lambda x: (x.sum(), x.sum(1), x.sum(0), x.prod(), x.any(0), x.mean(1)), torch.randn(0, 3))
    check(
        lambda x: (x.sum(), x.amax(), x.argmax(), x.mean(), x.var(correction=0), x.softmax(0), x.max()),
        torch.tensor(2.5),
    )
    check(lambda x: (x.sum(0), x.argmax(0), tuple(x.max(0))[0], x.mean(0), x.argmin()), torch.randn(1, 3))
    check(lambda x: (x.exp(), x + 1, x.sum(1)), torch.randn(3, 0))


def test_extremes_and_nan() -> None:
    x = torch.tensor([[1.0, nan, 3.0], [5.0, 5.0, 2.0], [-inf, -inf, -inf], [inf, 1.0, nan]])
    check(lambda x: (x.amax(1), x.amin(1), x.argmax(1), x.argmin(1), x.argmax(), *x.max(1), *x.min(1), x.sum(1)), x)


def test_gelu_is_one_loop_and_softmax_and_layer_norm_are_few() -> None:
    x = torch.randn(8, 32)
    assert len(kernels(check(lambda x: F.gelu(x), x))) == 1
    assert len(kernels(check(lambda x: F.gelu(x, approximate="tanh"), x))) <= 2
    assert len(kernels(check(lambda x: x.softmax(-1), x))) <= 4
    assert len(kernels(check(lambda x, w, b: F.layer_norm(x, (32,), w, b), x, torch.randn(32), torch.randn(32)))) <= 4


def test_equal_values_of_a_loop_are_one_and_name_all_their_causes() -> None:
    loops, _ = lowered(lambda x: (x + 1) * (x + 1).sin() * x, torch.randn(3))
    (loop,) = kernels(loops)
    (load,) = (expr for expr in walk(loop.value) if isinstance(expr, Load))
    assert load.origins == ("aten.add", "aten.add_1", "aten.mul_1")


def test_every_stored_value_says_why() -> None:
    loops = check(lambda x, w: ((x.exp() @ w).relu().sum(0), x.softmax(0)), torch.randn(4, 5), torch.randn(5, 3))
    for operation in loops.operations:
        for buffer in operation.writes:
            assert buffer.why is not None and str(buffer.why)
    assert "lower.library_argument" in {b.why.code for op in loops.operations for b in op.writes if b.why}


def test_each_node_is_accounted_for_and_names_its_operations() -> None:
    loops, graph = lowered(lambda x, w: (x @ w).relu().t().sum(0), torch.randn(4, 5), torch.randn(5, 3))
    kinds = {id.removeprefix("aten."): kind for id, (kind, _) in loops.nodes.items()}
    assert kinds == {"mm": "extern", "relu": "kernel", "permute": "view", "sum_1": "kernel"}
    assert loops.nodes["aten.relu"][1] == ("buf1",)


def test_a_view_of_a_broadcast_heavy_value_is_computed_once() -> None:
    loops = check(lambda x, b: x + b.exp(), torch.randn(64, 8), torch.randn(8))
    assert [loop.buffer.why.code for loop in kernels(loops)] == ["lower.heavy_and_reused", "lower.output"]


def test_products() -> None:
    a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    check(lambda a, b: torch.bmm(a, b).relu(), a, b)
    check(lambda a, b: (a + 1).transpose(1, 2).matmul(a), a, b)
    check(lambda x, w, c: F.linear(x.exp(), w, c), torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5))
    check(lambda x, w: (x.t() @ w, x.t().mv(w[:, 0])), torch.randn(3, 2), torch.randn(3, 4))
    loops = check(lambda x, w: x @ w, torch.randn(3, 2), torch.randn(2, 4))
    (call,) = loops.operations
    assert isinstance(call, Extern) and call.out and call.why.code == "lower.library_matmul"


def test_batch_norm_updates_its_buffers() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, m, v, w, b, training=True)

    def update(x: Any, w: Any, b: Any, m: Any, v: Any) -> Any:
        y, _, _, m2, v2 = aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.1, 1e-5)
        m.copy_(m2)
        v.copy_(v2)
        return y

    args = (torch.randn(4, 3, 5, 5), torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3))
    check(fn, *args)
    for decompose in (True, False):
        check(update, *args, decompose=decompose)


def test_operators_without_a_rule_are_called() -> None:
    x = torch.randn(4, 4)
    assert externs(check(lambda x: torch.linalg.inv(x * 2 + 9).relu(), x)) != []
    check(lambda x: torch.fft.fft(x).abs(), x)
    check(lambda x: torch.complex(x, x + 1).real.sum(), x)
    check(lambda x: (x.sort(1)[0], x.sort(1)[1], *x.topk(2), x.cumsum(1), (x + 1).cumprod(0)), x)
    check(lambda x: (x.median(), x.kthvalue(2).values, torch.cummax(x, 1).values), x)
    check(lambda x: torch.view_as_complex(x.view(4, 2, 2) * 2).abs(), x)


def test_numbers_captured_as_tensors_are_spelled_out() -> None:
    half, table = torch.tensor(0.5), torch.tensor([1.0, 2.0])
    loops = check(lambda x: (x * half, x + table, half.sqrt()), torch.randn(3, 2))
    assert len(loops.constants) == 1


def test_random_operators_are_called_in_order() -> None:
    def fn(x: torch.Tensor) -> Any:
        a = torch.rand(5)
        b = torch.randn(5)
        return (
            b + x,
            a + x,
            torch.bernoulli(x.abs().clamp(0, 1)),
            F.dropout(x, 0.5),
            torch.randperm(5),
            torch.rand_like(x),
        )

    x = torch.rand(5)
    loops, _ = lowered(fn, x)
    torch.manual_seed(0)
    mine = run_loops(loops, (x,))
    torch.manual_seed(0)
    for ours, theirs in zip(mine, fn(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert all(op.random for op in loops.operations if isinstance(op, Extern))


def test_attention() -> None:
    q, k, v = (torch.randn(2, 2, 4, 8) for _ in range(3))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v, strides=False)
    check(
        lambda q, k, v: F.scaled_dot_product_attention(q * 2, k.transpose(1, 2).contiguous().transpose(1, 2), v),
        q,
        k,
        v,
        strides=False,
    )


def test_creation() -> None:
    def fn(x: torch.Tensor) -> Any:
        return (
            torch.arange(5) + 1,
            torch.arange(1, 9, 3),
            torch.full((2, 3), 1.5),
            torch.zeros(3, dtype=torch.int32),
            torch.ones_like(x),
            torch.full_like(x, 2),
            torch.eye(3),
            torch.linspace(0, 1, 5),
            x.new_zeros(2),
            torch.tensor(3.5),
            torch.scalar_tensor(2),
            torch.arange(0, 1, 0.25),
            torch.arange(4, dtype=torch.float32),
            torch.tensor([1, 2, 3]) * 2,
            torch.zeros(0),
            torch.ones(2, dtype=torch.bool),
            x.new_full((2,), 7),
        )

    check(fn, torch.randn(2, 3))


DYNAMIC: list[Callable[..., Any]] = [
    lambda x, y: x + y,
    lambda x, y: x.sum(0),
    lambda x, y: x.view(-1) * 2,
    lambda x, y: x.t().reshape(-1),
    lambda x, y: x.softmax(-1),
    lambda x, y: x @ y.t(),
    lambda x, y: x[:, 1:] + y[:, :-1],
    lambda x, y: x.mean(1),
    lambda x, y: torch.cat([x, y], 0),
    lambda x, y: F.layer_norm(x, x.shape[-1:]),
    lambda x, y: x[1:] * x.shape[0],
    lambda x, y: x / x.shape[1],
    lambda x, y: torch.arange(x.shape[0]) + 1,
    lambda x, y: x.view(x.shape[0], 2, -1).transpose(0, 1).reshape(2, -1),
    lambda x, y: x.expand(3, *x.shape).sum(0),
    lambda x, y: torch.full_like(x, 1.5),
    lambda x, y: x.new_zeros(x.shape[0] * 2),
    lambda x, y: x * x.shape[0] ** 0.5,
    lambda x, y: x.flip(0),
    lambda x, y: x[-1],
    lambda x, y: (x.shape[0] + 1, x * 2),
    lambda x, y: F.pad(x, (1, 1)),
    lambda x, y: x.tril(),
    lambda x, y: x.unsqueeze(0).repeat(2, 1, 1) + 1,
    lambda x, y: x.var(0),
]


@pytest.mark.parametrize("place", range(len(DYNAMIC)))
def test_dynamic_shapes(place: int) -> None:
    fn = DYNAMIC[place]
    loops = check(fn, torch.randn(4, 6), torch.randn(4, 6), dynamic=True)
    x, y = torch.randn(7, 8), torch.randn(7, 8)
    for mine, theirs in zip(run_loops(loops, (x, y)), flat(fn(x, y)), strict=True):
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(mine, theirs)
            assert mine.stride() == theirs.stride()
        else:
            assert mine == theirs


def test_a_call_that_is_no_operator_is_refused() -> None:
    _, graph = lowered(lambda x: x + 1, torch.randn(3))
    (call,) = (node for node in graph.graph.nodes if node.op == "call_function")
    call.target = print
    with pytest.raises(Unsupported, match="lower.unknown_call"):
        LOWER(graph)
