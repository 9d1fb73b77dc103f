"""Which ATen operators are broken into simpler ones while tracing, and which stay whole.

What stays whole is either a scalar operation or a reduction that loops express directly, or a library call (mm, addmm,
bmm, baddbmm, convolution and its backward, attention and its backward, pooling, sort, scan). Random operators stay
whole so that they draw from torch's generator in eager's order. Everything is dispatched below autograd.

Inductor: decomposition.py. Most decompositions are torch's own (torch._decomp); ours replace or add to them.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch._decomp import get_decompositions
from torch._decomp.decompositions import (
    _compute_scale,
    _compute_source_index,
    pw_cast_for_opmath,
    upsample_compute_output_size,
)
from torch._prims_common import make_contiguous_strides_for, suggest_memory_format
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

from explorer.compiler.autograd.layouts import computing_dtype, in_layout_of, inverse, stride_order, to
from explorer.core.rules import RuleTable

Decomposition = Callable[..., Any]
Dims = Sequence[int] | None
Sizes = Sequence[Any]
aten = torch.ops.aten

TORCHS: tuple[str, ...] = tuple(
    # activations, with their backwards
    "celu elu gelu gelu_backward glu glu_backward hardshrink hardsigmoid hardswish "
    "hardtanh leaky_relu leaky_relu_backward log_sigmoid_forward "
    "log_sigmoid_backward mish mish_backward _prelu_kernel _prelu_kernel_backward sigmoid_backward silu silu_backward "
    "softplus softplus_backward softshrink tanh_backward threshold threshold_backward rrelu_with_noise_backward "
    # softmax and norms
    "_softmax _softmax_backward_data _log_softmax _log_softmax_backward_data _safe_softmax logsumexp "
    "native_layer_norm_backward native_group_norm_backward "
    "native_batch_norm_backward batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward "
    "_fused_rms_norm _fused_rms_norm_backward linalg_vector_norm norm renorm "
    # losses
    "binary_cross_entropy_with_logits huber_loss huber_loss_backward l1_loss mse_loss mse_loss_backward "
    "nll_loss_forward nll_loss2d_forward smooth_l1_loss soft_margin_loss "
    # scalar functions
    "addcdiv addcmul addr clamp_max clamp_min deg2rad rad2deg floor_divide frac heaviside lerp logaddexp logaddexp2 "
    "logit logit_backward mvlgamma nan_to_num rsub sgn sinc special_entr special_log_ndtr special_xlog1py xlogy "
    "isneginf isposinf dist "
    # small products and reductions
    "addmv mv dot vdot aminmax count_nonzero nansum trace _euclidean_dist "
    # indexing and scattering
    "embedding_dense_backward isin masked_fill take unfold_backward "
    "diagonal_backward select_backward slice_backward diag_embed "
    "reflection_pad1d reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward reflection_pad3d "
    "reflection_pad3d_backward replication_pad1d replication_pad2d replication_pad3d im2col col2im "
    # views, copies and factories
    "_reshape_alias t transpose stack block_diag channel_shuffle pixel_shuffle pixel_unshuffle roll rot90 "
    "narrow narrow_copy tril triu tril_indices triu_indices eye fill affine_grid_generator "
    "alias_copy diagonal_copy expand_copy permute_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy "
    "unbind_copy unfold_copy unsqueeze_copy view_copy native_dropout_backward".split()
)
"""ATen names whose decompositions are taken from torch as they are, all overloads."""


def _always(given: Sequence[object]) -> bool:
    return True


def _of_bytes(given: Sequence[object]) -> bool:
    return any(isinstance(value, Tensor) and value.dtype is torch.uint8 for value in given)


NEAREST = tuple(f"{how}{dims}d" for how in ("upsample_nearest", "_upsample_nearest_exact") for dims in (1, 2, 3))
LINEAR = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")


def _upsampling_differs(given: Sequence[object]) -> bool:
    """Whether torch's decomposition of an upsampling differs from eager: for bytes and some scales."""
    return _of_bytes(given) or any(isinstance(x, Tensor) and leaves_a_size(x, *given) for x in given)


_nn = torch._C._nn
INEXACT: dict[object, Callable[[Sequence[object]], bool]] = {
    **dict.fromkeys((F.interpolate, F.upsample, F.upsample_bilinear), _upsampling_differs),
    **{place: _upsampling_differs for n in NEAREST + LINEAR for place in (getattr(_nn, n), getattr(aten, n))},
    **dict.fromkeys((_nn.upsample_bicubic2d, aten.upsample_bicubic2d), _of_bytes),
    **dict.fromkeys((F.multilabel_margin_loss, _nn.multilabel_margin_loss), _always),
    **dict.fromkeys((torch.hardshrink, aten.hardshrink), _always),
    **dict.fromkeys((aten.multilabel_margin_loss, aten.multilabel_margin_loss_forward), _always),
    **dict.fromkeys((F.multi_margin_loss, _nn.multi_margin_loss, aten.multi_margin_loss), _always),
}
"""What a graph may call whose decomposition by torch computes other values than eager, and for which inputs: eager
resamples an image of bytes with integer weights, and takes the sizes for some scales; it ignores the labels after the
first -1, and NaNs in a margin, and passes no gradient to a NaN that is shrunk."""


def by_layers(call: Decomposition, *given: Any) -> object:
    """A recurrent network layer by layer, with the dropout between them that torch's decomposition leaves out.

    `given` are input, hx, params, has_biases, num_layers, dropout, train, bidirectional and batch_first; of a packed
    sequence its data and batch sizes come first, and batch_first is not among them."""
    first = 1 if isinstance(given[3], bool) else 2
    sizes, (hidden, params, biases, layers, dropout, train, both) = given[1:first], given[first : first + 7]
    if not train or not dropout or layers == 1:
        return call(*given)
    batch_first = given[first + 7 :] == (True,)
    x = given[0].transpose(0, 1) if batch_first else given[0]
    last = []
    for layer in range(layers):
        place = 0, layer * (1 + both), 1 + both
        before = hidden.narrow(*place) if isinstance(hidden, Tensor) else [each.narrow(*place) for each in hidden]
        count = len(params) // layers
        of_layer = before, params[layer * count : (layer + 1) * count], biases, 1, 0.0, train, both
        x, *after = call(x, *sizes, *of_layer, *(False for _ in given[first + 7 :]))
        last.append(after)
        x = torch.dropout(x, dropout, True) if layer < layers - 1 else x
    states = (torch.cat(states) for states in zip(*last, strict=True))
    return x.transpose(0, 1) if batch_first else x, *states


def weighted(
    call: Decomposition, x: Tensor, size: Sizes | int | None = None, scale_factor: Sizes | float | None = None,
    mode: str = "nearest", align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> object:  # fmt: skip
    """An image resampled by weights: torch's decomposition adds a part of a difference, NaN between infinities."""
    if antialias or mode not in ("linear", "bilinear", "trilinear"):
        return call(x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    size, scales = (
        each if isinstance(each, (tuple, list, type(None))) else [each] * (x.dim() - 2) for each in (size, scale_factor)
    )
    wanted = upsample_compute_output_size(x.size(), size, scales)
    return resampled(x, wanted, bool(align_corners), *(() if recompute_scale_factor or not scales else scales))


def running(call: Decomposition, x: Tensor, *given: object, **named: object) -> object:
    """Eager's mean beside a spread runs along the elements: it is NaN after an infinity, but for one that is last."""
    spread, average = call(x, *given, **named)
    if average.is_complex() or x.numel() == 0:
        return spread, average
    dim = named.get("dim", given[0] if given and not isinstance(given[0], bool) else None)
    dims = reduced_dims(x, [dim] if isinstance(dim, int) else cast("Sequence[int] | None", dim))
    last = functools.reduce(lambda part, d: part.narrow(d, x.shape[d] - 1, 1), dims, x).reshape(average.shape)
    ends = last.isinf() & (x.isinf().sum(dims).view(average.shape) == 1)
    lost = average.isinf() & spread.isnan() & ~ends
    return spread, average + torch.zeros_like(average).masked_fill(lost, math.nan)


EXACTLY: dict[object, Decomposition] = {
    **dict.fromkeys((torch.var_mean, torch.std_mean), running),
    F.interpolate: weighted,
    **{
        call: by_layers
        for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
        for call in (getattr(torch, name), getattr(aten, name), getattr(aten, name).input, getattr(aten, name).data)
    },
}
"""What computes what eager does of calls that torch decomposes otherwise, given the call and its arguments."""

DECOMPOSITIONS: RuleTable[torch._ops.OpOverload, Decomposition] = RuleTable("decomposition")
"""Our own. A rule may return NotImplemented to leave the call whole, which those here do by `unless`."""


def unless(calls: str, leaves: Callable[..., bool]) -> Callable[[Decomposition], Decomposition]:
    """The rule, but for the calls with arguments that `leaves` names: these stay whole, and the library computes them.
    `calls` says which they are."""

    def restricted(rule: Decomposition) -> Decomposition:
        @functools.wraps(rule)
        def decomposed(*args: object, **kwargs: object) -> object:
            return NotImplemented if leaves(*args, **kwargs) else rule(*args, **kwargs)

        decomposed.unless = ", ".join(filter(None, (getattr(rule, "unless", ""), calls)))  # type: ignore[attr-defined]
        return decomposed

    return restricted


def _is_complex(x: Tensor, *_: object, **__: object) -> bool:
    return x.is_complex()


@functools.cache
def torchs() -> dict[Any, Decomposition]:
    """torch's decompositions named above."""
    return get_decompositions([getattr(aten, name) for name in TORCHS if hasattr(aten, name)])


def decompositions() -> dict[torch._ops.OpOverload, Decomposition]:
    """What TRACE applies: torch's decompositions, overridden by ours."""
    return {**torchs(), **DECOMPOSITIONS}


def reference_of_prim(operator: torch._ops.OpOverload) -> Decomposition | None:
    """The ATen body of a `prims` operator: torch's decompositions may call prims, a traced graph holds none."""
    packet = operator._overloadpacket
    body: Decomposition | None = getattr(packet, "impl_aten", None) if operator.namespace == "prims" else None
    return body


@DECOMPOSITIONS.rule(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(
    grad: Tensor, scores: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore: int, total: Tensor
) -> Tensor:
    """nll_loss_backward(g, x, t) -> where(arange(classes) == t, -g, 0)"""
    axis = 0 if scores.dim() < 2 else 1
    shape = [1] * scores.dim()
    shape[axis] = -1
    classes = torch.arange(scores.shape[axis], device=scores.device).view(shape)
    wanted = target.unsqueeze(axis) if scores.dim() else target
    flow = grad / total if reduction == 1 else grad
    if reduction == 0 and scores.dim() > 1:
        flow = flow.unsqueeze(axis)
    scaled = -flow if weight is None else -flow * weight.view(shape)
    hit = (classes == wanted) & (wanted != ignore)
    return torch.where(hit, scaled, 0.0).to(scores.dtype).expand(scores.shape)


@DECOMPOSITIONS.rule(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(grad: Tensor, x: Tensor) -> Tensor:
    """hardsigmoid_backward(g, x) -> where(-3 < x < 3, g / 6, 0), with the sixth that eager has for every dtype"""
    compute = computing_dtype(x.dtype)
    flow = to(to(grad, compute) * SIXTH, x.dtype)
    return torch.where((x > -3.0) & (x < 3.0), flow, 0.0)


SIXTH = 0.1666666716337204
"""In float32."""


# Of a NaN, eager's vectors take the branch that is left where no comparison holds.


@DECOMPOSITIONS.rule(aten.hardtanh_backward.default)
@pw_cast_for_opmath
def hardtanh_backward(grad: Tensor, x: Tensor, low: float, high: float) -> Tensor:
    """hardtanh_backward(g, x) -> where(low < x < high, g, 0)"""
    return torch.where((x > low) & (x < high), grad, 0.0)


@DECOMPOSITIONS.rule(aten.hardshrink_backward.default, aten.softshrink_backward.default)
@pw_cast_for_opmath
def shrink_backward(grad: Tensor, x: Tensor, width: float) -> Tensor:
    """shrink_backward(g, x) -> where(x < -width or x > width, g, 0)"""
    return torch.where((x < -width) | (x > width), grad, 0.0)


@DECOMPOSITIONS.rule(aten.hardswish_backward.default)
@pw_cast_for_opmath
def hardswish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """hardswish_backward(g, x) -> where(x <= -3, 0, where(x >= 3, g, g * (x / 3 + 0.5)))"""
    return torch.where(x <= -3, 0.0, torch.where(x >= 3, grad, grad * (x / 3 + 0.5)))


@DECOMPOSITIONS.rule(aten.soft_margin_loss_backward.default)
@pw_cast_for_opmath
def soft_margin_loss_backward(grad: Tensor, x: Tensor, y: Tensor, reduction: int) -> Tensor:
    """soft_margin_loss_backward(g, x, y) -> -y * z * g / (1 + z) with z = exp(-x * y), NaN where z is an infinity"""
    z = torch.exp(-y * x)
    return y * z * (-1.0 / x.numel() if reduction == 1 else -1.0) / (z + 1) * grad


EPSILON = 9.999999960041972e-13
"""1e-12 in float32."""


@DECOMPOSITIONS.rule(aten.binary_cross_entropy_backward.default)
def binary_cross_entropy_backward(
    grad: Tensor, x: Tensor, y: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> object:
    """binary_cross_entropy_backward(g, x, y) -> g * (x - y) / max(x * (1 - x), epsilon), 0 being no epsilon for -0"""
    least = 0.0 if x.dtype is torch.float16 else EPSILON

    @pw_cast_for_opmath
    def flow(grad: Tensor, x: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        slope = (1 - x) * x
        found = grad * (x - y) / slope.masked_fill(slope < least, least)
        found = found if weight is None else found * weight
        return found / x.numel() if reduction == 1 else found

    return flow(grad, x, y, weight)


@DECOMPOSITIONS.rule(aten.celu.default)
@unless("an alpha of 0, which eager refuses", lambda x, alpha=1.0: alpha == 0)
def celu(x: Tensor, alpha: float = 1.0) -> object:
    """celu(x, a) -> where(x > 0, x, a * expm1(x / a))"""
    return torchs()[aten.celu.default](x, alpha)


@DECOMPOSITIONS.rule(aten.elu_backward.default)
@pw_cast_for_opmath
def elu_backward(grad: Tensor, alpha: float, scale: float, inner: float, of_result: bool, x: Tensor) -> Tensor:
    """elu_backward(g, x) -> where(x > 0, g, g * exp(x)), or of the result: g * (x + 1)"""
    below = x + alpha * scale if of_result else alpha * scale * torch.exp(x * inner)
    return torch.where(x > 0, grad * scale, grad * inner * below)


@DECOMPOSITIONS.rule(aten.logit.default)
def logit(x: Tensor, eps: float | None = None) -> object:
    """logit(x, eps) -> logit(clamp(x, eps, 1 - eps)), with bounds of the dtype of x"""
    return torchs()[aten.logit.default](x if eps is None else x.clamp(*logit_bounds(eps, x.dtype)))


@DECOMPOSITIONS.rule(aten.logit_backward.default)
def logit_backward(grad: Tensor, x: Tensor, eps: float | None = None) -> object:
    """logit_backward(g, x) -> g / (x * (1 - x)), and 0 outside of these bounds"""
    bounds, outside = ((0.0, 1.0), math.nan) if eps is None else (logit_bounds(eps, x.dtype), 0.0)

    @pw_cast_for_opmath
    def flow(grad: Tensor, x: Tensor) -> Tensor:
        return torch.where((x >= bounds[0]) & (x <= bounds[1]), grad / (x * (1.0 - x)), outside)

    return flow(grad, x)


def logit_bounds(eps: float, dtype: torch.dtype) -> tuple[float, float]:
    """What eager clamps to, in the precision of the tensor."""
    with _disable_current_modes():
        low = torch.tensor(eps, dtype=dtype if dtype.is_floating_point else torch.float32)
        return low.item(), (1 - low).item()


@DECOMPOSITIONS.rule(aten.smooth_l1_loss_backward.default)
@pw_cast_for_opmath
def smooth_l1_loss_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int, width: float) -> Tensor:
    """smooth_l1_loss_backward(g, x, y) -> clamp((x - y) / width, -1, 1) * g"""
    flow, apart = grad / x.numel() if reduction == 1 else grad, x - target
    return torch.where(apart <= -width, -flow, torch.where(apart >= width, flow, flow * apart / width))


@DECOMPOSITIONS.rule(aten.native_dropout.default)
@unless("a GPU, evaluation, and p of 0 or 1", lambda x, p, train: x.device.type != "cpu" or not train or not 0 < p < 1)
def native_dropout(x: Tensor, p: float, train: bool | None) -> object:
    """native_dropout(x, p) -> (x * (mask / (1 - p)), mask) with mask = bernoulli(1 - p), as eager does on a CPU

    On a GPU eager draws inside its own kernel, in an order that only that kernel gives.
    """
    mask = aten.bernoulli.p(torch.empty_like(x, dtype=torch.bool), 1 - p)
    return x * (to(mask, x.dtype) / (1 - p)), mask


@DECOMPOSITIONS.rule(aten.bernoulli.p)
@unless("what lies in memory in the order of its axes", lambda x, *_, **__: (o := stride_order(x)) == sorted(o))
def bernoulli(x: torch.Tensor, p: float, generator: object = None) -> object:
    """bernoulli(x, p) -> bernoulli(y, p) permuted, with y contiguous in the order in which x lies in memory.

    Functionalisation writes it for x.bernoulli_(p), which draws in that order; the operator draws in that of the axes.
    """
    order = stride_order(x)
    memory = aten.empty.memory_format([x.shape[d] for d in order], dtype=x.dtype, device=x.device)
    return aten.bernoulli.p(memory, p, generator=generator).permute(inverse(order))


CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)


def fill_in_layout(
    x: Tensor,
    value: object,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    memory_format: torch.memory_format | None = None,
    **strided: object,
) -> object:
    """A tensor of x's shape, strided as eager's `*_like` strides it; `value` None leaves it uninitialized."""
    order = list(range(x.dim()))
    if memory_format in (None, torch.preserve_format):
        order = stride_order(x)
    elif memory_format in CHANNELS_LAST:
        order = [0, *order[2:], 1]
    return filled(x.shape, order, value, dtype or x.dtype, device or x.device)


def filled(
    shape: Sequence[object], order: list[int], value: object, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Allocate `shape` with its dimensions laid out in `order`, slowest first."""
    ordered = [shape[d] for d in order]
    if value is None:
        made = aten.empty.memory_format(ordered, dtype=dtype, device=device)
    else:
        typed = value if isinstance(value, (torch.SymInt, torch.SymFloat)) else number_of(value, dtype)
        made = aten.full.default(ordered, typed, dtype=dtype, device=device, pin_memory=False)
    return made if order == sorted(order) else made.permute(inverse(order))


def number_of(value: Any, dtype: torch.dtype) -> object:
    """`value` as a Python number of the kind that `dtype` holds."""
    if dtype is torch.bool:
        return bool(value)
    if dtype.is_floating_point:
        return float(value)
    return complex(value) if dtype.is_complex else int(value)


def contiguous_fill(size: Sequence[object], value: object, **facts: Any) -> object:
    return filled(size, list(range(len(size))), value, *plain_facts(**facts))


def strided_empty(size: Sizes, stride: Sizes, **facts: Any) -> object:
    return filled(size, slowest_first(size, stride), None, *plain_facts(**facts))


def slowest_first(size: Sizes, stride: Sizes) -> list[int]:
    return sorted(range(len(size)), key=lambda d: (-stride[d], -size[d]))


def has_gaps(size: Sizes, stride: Sizes) -> bool:
    """Whether these are the strides of no tensor that was contiguous before its dimensions were permuted."""
    order = slowest_first(size, stride)
    dense = dict(zip(order, make_contiguous_strides_for([size[d] for d in order]), strict=True))
    return not all(n == 1 or s == dense[d] for d, (n, s) in enumerate(zip(size, stride, strict=True)))


def is_special(*_: object, layout: object = None, pin_memory: object = None, **__: object) -> bool:
    """Whether a tensor with these options is sparse, say, or pinned."""
    return layout not in (None, torch.strided) or bool(pin_memory)


def plain_facts(
    *,
    like: Tensor | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **strided: object,
) -> tuple[torch.dtype, torch.device]:
    """(dtype, device) of a tensor with these options."""
    if like is not None:
        return dtype or like.dtype, device or like.device
    return dtype or torch.get_default_dtype(), device or torch.device("cpu")


def documented(decomposition: Decomposition, about: str) -> Decomposition:
    """One of torch's as ours."""

    def rule(*args: object, **kwargs: object) -> object:
        return decomposition(*args, **kwargs)

    rule.__name__, rule.__doc__ = decomposition.__name__, about
    return rule


def leaves_a_size(x: Tensor, *given: object) -> bool:
    """Whether a scale that an image is resampled by gives a size as it is, or doubled, and is not that of the sizes:
    eager then takes the sizes, in some of its kernels."""
    scales = [s for each in given for s in (each if isinstance(each, (list, tuple)) else (each,))]
    for scale in (each for each in scales if isinstance(each, float) and each > 0):
        sizes = [n for n in x.shape[2:] if isinstance(n, int)]
        if any(n * scale != int(n * scale) and int(n * scale) in (n, 2 * n) for n in sizes):
            return True
    return False


def is_whole(x: Tensor, *_: object, **__: object) -> bool:
    return not x.is_floating_point()


def is_rounded(start: object, end: object, *_: object, dtype: torch.dtype | None = None, **__: object) -> bool:
    is_complex = any(isinstance(v, complex) or isinstance(v, Tensor) and v.is_complex() for v in (start, end))
    return is_complex or dtype is not None and not dtype.is_floating_point


@DECOMPOSITIONS.rule(
    aten.linspace.default, aten.linspace.Tensor_Tensor, aten.linspace.Tensor_Scalar, aten.linspace.Scalar_Tensor
)
@unless("integers and complex numbers", is_rounded)
def linspace(
    start: Tensor | float, end: Tensor | float, steps: int, *, dtype: torch.dtype | None = None,
    device: torch.device | None = None, **kind: object,
) -> object:  # fmt: skip
    """linspace(a, b, n) -> where(k < n // 2, a + step * k, b - step * (n - 1 - k)); how eager rounds to integers
    depends on the processor's vectors"""
    result = dtype or torch.get_default_dtype()
    compute = computing_dtype(result)
    first, last = (
        to(v, compute) if isinstance(v, Tensor) else filled([], [], v, compute, device or torch.device("cpu"))
        for v in (start, end)
    )
    if steps == 1:
        return to(first.expand(1).clone(), result)
    place = torch.arange(steps, device=device)
    step = (last - first) / (steps - 1)
    beyond = last - step * to((steps - 1) - place, compute)
    return to(torch.where(place < steps // 2, first + step * to(place, compute), beyond), result)


SPACED = "logspace(a, b, n) -> pow(base, linspace(a, b, n))"
RESAMPLED = "upsample(x) -> sum of weight * x at the neighbors; eager resamples bytes with integer weights"
SAMPLED = "upsample(x) -> x at the nearest places"


@DECOMPOSITIONS.rule(*(getattr(aten, name).default for name in LINEAR))
@unless("bytes", is_whole)
@unless("a size that the scale of a call leaves as it is, or doubles", leaves_a_size)
@pw_cast_for_opmath
def resampled(x: Tensor, size: Sizes, align_corners: bool, *scales: float | None) -> Tensor:
    """upsample(x) -> sum of weight * x at the neighbors, one dimension after the other"""
    places, weights = [], []
    for dim, (n, wanted) in enumerate(zip(x.shape[2:], size, strict=True)):
        step = _compute_scale(n, wanted, align_corners, scales[dim] if scales else None)
        at = torch.arange(wanted, device=x.device).to(x.dtype)
        at = _compute_source_index(step, at, align_corners).clamp(min=0.0).view(-1, *[1] * (len(size) - 1 - dim))
        below = at.to(torch.int64)
        places.append((below, (below + 1).clamp(max=n - 1)))
        weights.append((at - below).clamp(0.0, 1.0))
    parts = [aten._unsafe_index(x, [None, None, *corner]) for corner in itertools.product(*places)]
    for weight in reversed(weights):
        parts = [low * (1 - weight) + high * weight for low, high in zip(parts[::2], parts[1::2], strict=True)]
    scattered = x.device.type == "cuda" and x.shape[1] < 16  # eager has no kernel for these
    return parts[0].contiguous(memory_format=torch.contiguous_format if scattered else suggest_memory_format(x))


_scaled = unless("a size that the scale of a call leaves as it is, or doubles", leaves_a_size)
for _about, _whole, _packets in (
    (SPACED, unless("integers and complex numbers", is_rounded), [aten.logspace]),
    (RESAMPLED, unless("bytes", is_whole), [aten.upsample_bicubic2d]),
    (SAMPLED, _scaled, [getattr(aten, name) for name in NEAREST]),
):
    for _overload, _rule in get_decompositions(_packets).items():
        DECOMPOSITIONS.rule(_overload)(_whole(documented(_rule, _about)))  # type: ignore[arg-type]


@DECOMPOSITIONS.rule(aten.mean.default, aten.mean.dim)
@unless("complex numbers", _is_complex)
def mean(x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> object:
    """mean(x) -> sum(x) / count"""
    result = dtype or x.dtype
    compute = computing_dtype(result)
    dims = reduced_dims(x, dim)
    total = aten.sum.dim_IntList(to(x, compute), dims, keepdim)
    return to(total / count_of(x, dims), result)


@DECOMPOSITIONS.rule(aten.var_mean.correction)
@unless("complex numbers", _is_complex)
def var_mean(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> object:
    """var_mean(x) -> (sum((x - mean)^2) / (count - correction), mean), in two passes, on a CPU in float64 as eager"""
    return [to(each, x.dtype) for each in _spread(x, dim, correction, keepdim)]


def _spread(x: Tensor, dim: Dims, correction: float | None, keepdim: bool) -> list[Tensor]:
    """(variance, mean), before they are rounded."""
    dims = reduced_dims(x, dim)
    compute = torch.float64 if x.device.type == "cpu" else computing_dtype(x.dtype)
    squares, average = moments(to(x, compute), dims)
    count = count_of(x, dims)
    degrees = count - (1 if correction is None else correction) if count else 0
    found = squares / at_least_zero(degrees), average
    return [each if keepdim else aten.squeeze.dims(each, dims) for each in found]


def _lone_spread(x: Tensor, dim: Dims, correction: float | None, keepdim: bool) -> Tensor:
    """The variance where nobody asks for the mean: for a single one eager takes the mean in the precision of x."""
    spread, average = _spread(x, dim, correction, keepdim)
    if x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and spread.numel() == 1:
        total = to(average * count_of(x, reduced_dims(x, dim)), x.dtype)
        spread = spread + torch.where(total.isinf(), math.inf, 0.0)
    return spread


@DECOMPOSITIONS.rule(aten.std_mean.correction)
@unless("complex numbers", _is_complex)
def std_mean(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> object:
    """std_mean(x) -> (sqrt(var), mean), rounded after the root"""
    spread, average = _spread(x, dim, correction, keepdim)
    return to(spread.sqrt(), x.dtype), to(average, x.dtype)


LONG = 1 << 18
"""Elements from which the moments over several dimensions are taken in steps."""


SMALL = 2.0**-32
"""What keeps a sum of large elements finite, and rounds none but the smallest."""


def moments(x: Tensor, dims: list[int], scale: float = SMALL) -> tuple[Tensor, Tensor]:
    """(sum((x - mean)^2), mean), with the dimensions kept. The elements are summed for the mean times `scale`.

    Both passes over many elements would read them from memory. Row by row the second finds them at hand: then the sum
    is that of the rows' own sums, and of the squared deviations of their means, times the length of a row.
    """
    last = x.dim() - 1
    count = count_of(x, dims)
    if len(dims) > 1 and last in dims and type(count) is int and count >= LONG and x.shape[last] >= 256:
        rest = [dim for dim in dims if dim != last]
        of_rows, means = moments(x, [last], scale)
        between, average = moments(means, rest, scale)
        return aten.sum.dim_IntList(of_rows, rest, True) + between * x.shape[last], average
    average = aten.sum.dim_IntList(x if scale == 1 else x * scale, dims, True) / (count * scale)
    deviation = x - average
    return aten.sum.dim_IntList(deviation * deviation, dims, True), average


@DECOMPOSITIONS.rule(aten.var.correction)
@unless("complex numbers", _is_complex)
def var(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> object:
    """var(x) -> var_mean(x)[0]"""
    return to(_lone_spread(x, dim, correction, keepdim), x.dtype)


@DECOMPOSITIONS.rule(aten.std.correction)
@unless("complex numbers", _is_complex)
def std(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> object:
    """std(x) -> sqrt(var(x)), rounded after the root"""
    return to(_lone_spread(x, dim, correction, keepdim).sqrt(), x.dtype)


def normalized(x: Tensor, dims: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """((x - mean) / sqrt(variance + eps), mean, 1 / sqrt(variance + eps)), with the dimensions kept."""
    squares, average = moments(x, dims)
    rstd = torch.rsqrt(squares / count_of(x, dims) + eps)
    return (x - average) * rstd, average, rstd


@DECOMPOSITIONS.rule(aten.native_layer_norm.default)
@unless("inputs without elements", lambda x, *_: x.numel() == 0)
def native_layer_norm(x: Tensor, shape: Sizes, weight: Tensor | None, bias: Tensor | None, eps: float) -> object:
    """native_layer_norm(x, w, b) -> ((x - mean) * rsqrt(var + eps) * w + b, mean, rstd)"""
    compute = computing_dtype(x.dtype)
    made, average, rstd = normalized(to(x, compute), list(range(x.dim() - len(shape), x.dim())), eps)
    made = made if weight is None else made * weight
    made = made if bias is None else made + bias
    kept = x.dtype if x.device.type == "cpu" else compute
    return to(made, x.dtype), to(average, kept), to(rstd, kept)


def batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, var: Tensor | None, training: bool,
    momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """(x, normalized by channel; mean and 1 / sqrt(variance + eps), kept for the backward; the running statistics)"""
    compute = computing_dtype(x.dtype)
    channels = [-1] + [1] * (x.dim() - 2)
    given = [each.dtype for each in (weight, bias, mean, var) if each is not None]
    on_cpu = x.device.type == "cpu"
    kept = compute if not on_cpu or any(each != x.dtype for each in given) else x.dtype
    if training:
        dims = [0, *range(2, x.dim())]
        count = count_of(x, dims)
        # Eager's own sums overflow for other inputs on a CPU.
        is_wide = not on_cpu or x.is_contiguous() and any(size != 1 for size in x.shape[2:])
        squares, average = moments(to(x, compute), dims, SMALL if is_wide else 1)
        rstd = torch.rsqrt(squares / count + eps)
        made = (x - average) * rstd
        squares, average, rstd = (aten.squeeze.dims(each, dims) for each in (squares, average, rstd))
        if mean is not None:
            mean = to(momentum * average + (1 - momentum) * mean, mean.dtype)
        if var is not None:
            var = to(momentum * (squares / (count - 1)) + (1 - momentum) * var, var.dtype)
    else:
        assert mean is not None and var is not None
        average, rstd = to(mean, compute), 1 / torch.sqrt(to(var, compute) + eps)
        made = (x - average.view(channels)) * rstd.view(channels)
        average, rstd = (x.new_zeros([0]), x.new_zeros([0])) if on_cpu else (average.clone(), rstd)
    made = made if weight is None else made * weight.view(channels)
    made = made if bias is None else made + bias.view(channels)
    return to(made, x.dtype), to(average, kept), to(rstd, kept), mean, var


@DECOMPOSITIONS.rule(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, train: bool, *given: float
) -> object:
    """batch_norm(x, w, b, m, v) -> ((x - mean) * rsqrt(var + eps) * w + b, mean, rstd, new m, new v)"""
    return batch_norm(x, weight, bias, mean, var, train, *given)


@DECOMPOSITIONS.rule(aten._native_batch_norm_legit.no_stats)
def batch_norm_without_statistics(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, train: bool, *given: float
) -> object:
    """batch_norm(x, w, b) -> ((x - mean) * rsqrt(var + eps) * w + b, mean, rstd)"""
    return batch_norm(x, weight, bias, None, None, train, *given)[:3]


@DECOMPOSITIONS.rule(aten._native_batch_norm_legit_no_training.default)
def batch_norm_in_inference(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, *given: float
) -> object:
    """batch_norm(x, w, b, m, v) -> ((x - m) / sqrt(v + eps) * w + b, [], [])"""
    return batch_norm(x, weight, bias, mean, var, False, *given)[:3]


def _on_gpu(x: Tensor, *_: object) -> bool:
    return x.device.type != "cpu"


@DECOMPOSITIONS.rule(aten._batch_norm_with_update_functional.default)
@unless("batch norms on a GPU, with cuDNN's reserve", _on_gpu)
def batch_norm_with_update(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, *given: float
) -> object:
    """batch_norm(x, w, b, m, v) -> ((x - mean) * rsqrt(var + eps) * w + b, mean, rstd, [], new m, new v)"""
    *made, mean_out, var_out = batch_norm(x, weight, bias, mean, var, True, *given)
    return *made, x.new_zeros([0], dtype=torch.uint8), mean_out, var_out


@DECOMPOSITIONS.rule(aten._batch_norm_no_update.default)
@unless("batch norms on a GPU, with cuDNN's reserve", _on_gpu)
def batch_norm_no_update(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, *given: float
) -> object:
    """batch_norm(x, w, b, m, v) -> ((x - m) / sqrt(v + eps) * w + b, [], [], [])"""
    made = batch_norm(x, weight, bias, mean, var, False, *given)[:3]
    return *made, x.new_zeros([0], dtype=torch.uint8)


def is_scattered(x: Tensor, *_: object) -> bool:
    """Whether it is empty, or laid out as eager's group norm refuses it."""
    return x.numel() == 0 or not (x.is_contiguous() or x.is_contiguous(memory_format=suggest_memory_format(x)))


@DECOMPOSITIONS.rule(aten.native_group_norm.default)
@unless("inputs without elements, or that are not contiguous", is_scattered)
def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, batch: Any, channels: Any, area: Any, groups: int, eps: float
) -> object:
    """native_group_norm(x, w, b) -> ((x - mean) * rsqrt(var + eps) * w + b, mean, rstd), group by group"""
    compute = computing_dtype(x.dtype)
    made, average, rstd = normalized(to(x, compute).reshape(batch, groups, -1), [2], eps)
    made = made.view(x.shape)
    per_channel = [1, channels] + [1] * (x.dim() - 2)
    if weight is not None:
        made = made * to(weight, compute).view(per_channel)
    if bias is not None:
        made = made + to(bias, compute).view(per_channel)
    kept = x.dtype if weight is None else weight.dtype
    return in_layout_of(x, to(made, x.dtype)), to(average.squeeze(2), kept), to(rstd.squeeze(2), kept)


def extreme(value: Any, position: Any, x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x.clone(), aten.full.default([], 0, dtype=torch.int64, device=x.device, pin_memory=False)
    return value(x, [dim], keepdim), position(comparable(x), dim, keepdim)


def comparable(x: Tensor) -> Tensor:
    """argmax and argmin take no booleans."""
    return to(x, torch.uint8) if x.dtype is torch.bool else x


def reduced_dims(x: Tensor, dim: Dims) -> list[int]:
    """The dimensions that `dim` means, non-negative: none given means all."""
    if not dim:
        return list(range(x.dim()))
    return sorted(d % max(x.dim(), 1) for d in dim) if x.dim() else []


def count_of(x: Tensor, dims: Sequence[int]) -> Any:
    return math.prod(x.shape[d] for d in dims)


def at_least_zero(count: Any) -> Any:
    """max(count, 0): a correction above the count divides by zero, as in eager."""
    if isinstance(count, (torch.SymInt, torch.SymFloat)):
        return torch.sym_max(count, 0)
    return max(count, 0)


@DECOMPOSITIONS.rule(aten.split.Tensor)
def split(x: Tensor, size: Any, dim: int = 0) -> list[Tensor]:
    """split(x, n) -> [slice(x, 0, n), slice(x, n, 2n), ...]"""
    extent = x.shape[dim]
    count = 1 if extent == 0 or size == 0 else int((extent + size - 1) // size)
    ends = [*(n * size for n in range(1, count)), extent]
    return [aten.slice.Tensor(x, dim, n * size, end) for n, end in enumerate(ends)]


@DECOMPOSITIONS.rule(aten.split_with_sizes.default)
def split_with_sizes(x: Tensor, sizes: Sequence[Any], dim: int = 0) -> list[Tensor]:
    """split(x, sizes) -> [slice(x, 0, sizes[0]), ...]"""
    parts, at = [], 0
    for size in sizes:
        parts.append(aten.slice.Tensor(x, dim, at, at + size))
        at = at + size
    return parts


@DECOMPOSITIONS.rule(aten.repeat.default)
def repeat(x: Tensor, repeats: Sequence[Any]) -> Tensor:
    """repeat(x, [2, 3]) -> view(clone(expand(view(x, [1, a, 1, b]), [2, a, 3, b])), [2a, 3b])"""
    shape = [1] * (len(repeats) - x.dim()) + list(x.shape)
    apart = [part for n in shape for part in (1, n)]
    spread = [part for times, n in zip(repeats, shape, strict=True) for part in (times, n)]
    joined = [times * n for times, n in zip(repeats, shape, strict=True)]
    return x.reshape(apart).expand(spread).reshape(joined)


@DECOMPOSITIONS.rule(aten.copy.default)
@unless("another device", lambda target, source, *_: target.device != source.device)
def copy(target: Tensor, source: Tensor, non_blocking: bool = False) -> object:
    """copy(target, source) -> source, cast and expanded to target's dtype and shape, in target's layout"""
    cast = to(source, target.dtype)
    return in_layout_of(target, cast if list(cast.shape) == list(target.shape) else cast.expand(target.shape))


def _all_dims(x: Tensor) -> list[int]:
    return list(range(x.dim()))


_FILLS: dict[torch._ops.OpOverload, tuple[str, Any]] = {
    aten.full_like.default: (
        "full_like(x, v) -> full(x.shape, v), in x's layout",
        lambda x, value, **facts: fill_in_layout(x, value, **facts)),
    aten.zeros_like.default: (
        "zeros_like(x) -> full(x.shape, 0), in x's layout", lambda x, **facts: fill_in_layout(x, 0, **facts)),
    aten.ones_like.default: (
        "ones_like(x) -> full(x.shape, 1), in x's layout", lambda x, **facts: fill_in_layout(x, 1, **facts)),
    aten.empty_like.default: (
        "empty_like(x) -> empty(x.shape), in x's layout", lambda x, **facts: fill_in_layout(x, None, **facts)),
    aten.zeros.default: ("zeros(size) -> full(size, 0)", lambda size, **facts: contiguous_fill(size, 0, **facts)),
    aten.ones.default: ("ones(size) -> full(size, 1)", lambda size, **facts: contiguous_fill(size, 1, **facts)),
    aten.scalar_tensor.default: (
        "scalar_tensor(v) -> full([], v)", lambda value, **facts: contiguous_fill([], value, **facts)),
    aten.new_zeros.default: (
        "x.new_zeros(size) -> full(size, 0)", lambda x, size, **facts: contiguous_fill(size, 0, like=x, **facts)),
    aten.new_ones.default: (
        "x.new_ones(size) -> full(size, 1)", lambda x, size, **facts: contiguous_fill(size, 1, like=x, **facts)),
    aten.new_full.default: (
        "x.new_full(size, v) -> full(size, v)",
        lambda x, size, value, **facts: contiguous_fill(size, value, like=x, **facts)),
    aten.new_empty.default: (
        "x.new_empty(size) -> empty(size)", lambda x, size, **facts: contiguous_fill(size, None, like=x, **facts)),
    aten.new_empty_strided.default: (
        "x.new_empty_strided(size, stride) -> empty(size), permuted",
        lambda x, size, stride, **facts: strided_empty(size, stride, like=x, **facts)),
    aten.empty_strided.default: (
        "empty_strided(size, stride) -> empty(size), permuted",
        lambda size, stride, **facts: strided_empty(size, stride, **facts)),
}  # fmt: skip
"""Operators that make tensors, each with what it says of itself."""

_REWRITES: dict[torch._ops.OpOverload, tuple[str, Any]] = {
    aten.zero.default: ("zero(x) -> full(x.shape, 0), in x's layout", lambda x: fill_in_layout(x, 0)),
    aten.arange.default: (
        "arange(end) -> arange(0, end, 1)", lambda end, **facts: aten.arange.start_step(0, end, 1, **facts)),
    aten.arange.start: (
        "arange(start, end) -> arange(start, end, 1)",
        lambda start, end, **facts: aten.arange.start_step(start, end, 1, **facts)),
    aten.sum.default: (
        "sum(x) -> sum(x, all dimensions)",
        lambda x, dtype=None: aten.sum.dim_IntList(x, _all_dims(x), False, dtype=dtype)),
    aten.max.default: ("max(x) -> amax(x, all dimensions)", lambda x: aten.amax.default(x, _all_dims(x))),
    aten.min.default: ("min(x) -> amin(x, all dimensions)", lambda x: aten.amin.default(x, _all_dims(x))),
    aten.max.dim: (
        "max(x, dim) -> (amax(x, dim), argmax(x, dim))",
        lambda x, dim, keepdim=False: extreme(aten.amax.default, aten.argmax.default, x, dim, keepdim)),
    aten.min.dim: (
        "min(x, dim) -> (amin(x, dim), argmin(x, dim))",
        lambda x, dim, keepdim=False: extreme(aten.amin.default, aten.argmin.default, x, dim, keepdim)),
    aten.unsafe_split.Tensor: ("unsafe_split(x, n) -> split(x, n)", lambda x, size, dim=0: split(x, size, dim)),
    aten.unsafe_split_with_sizes.default: (
        "unsafe_split_with_sizes(x, sizes) -> split(x, sizes)",
        lambda x, sizes, dim=0: split_with_sizes(x, sizes, dim)),
    aten.unbind.int: (
        "unbind(x) -> [select(x, 0), select(x, 1), ...]",
        lambda x, dim=0: [aten.select.int(x, dim, position) for position in range(int(x.shape[dim]))]),
    aten.squeeze.default: (
        "squeeze(x) -> squeeze(x, dimensions of size 1)",
        lambda x: aten.squeeze.dims(x, [d for d in range(x.dim()) if x.shape[d] == 1])),
    aten.squeeze.dim: ("squeeze(x, dim) -> squeeze(x, [dim])", lambda x, dim: aten.squeeze.dims(x, [dim])),
    aten._unsafe_view.default: ("_unsafe_view(x, size) -> view(x, size)", lambda x, size: aten.view.default(x, size)),
    aten.lift_fresh.default: (
        "lift_fresh(x) -> lift_fresh_copy(x): x is a constant of the graph, and each call makes a tensor of its own",
        lambda x: aten.lift_fresh_copy.default(x)),
}  # fmt: skip
"""Operators that are others with fixed arguments, each with what it says of itself."""

for _overload, (_about, _rule) in (_FILLS | _REWRITES).items():
    _rule.__name__, _rule.__doc__ = _overload._schema.name.partition("::")[2], _about
    if _overload in (aten.empty_strided.default, aten.new_empty_strided.default):
        _rule = unless("strides with gaps", lambda *given, **_: has_gaps(*given[-2:]))(_rule)
    _rule = unless("sparse or pinned memory", is_special)(_rule) if _overload in _FILLS else _rule
    DECOMPOSITIONS.rule(_overload)(_rule)
