"""Tensors without data that lie in memory as the kernels lay them out: torch's own rules differ for some operators."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch._dispatch.python import no_python_dispatcher
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._ops import HigherOrderOperator, OpOverload
from torch._prims_common import (
    compute_elementwise_output_strides,
    is_non_overlapping_and_dense_or_false,
    suggest_memory_format,
)
from torch._prims_common import make_contiguous_strides_for as contiguous
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.meta_utils import MetaTensorDesc, MetaTensorDescriber
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch

from explorer.compiler.capture.operator_checks import tensors_in
from explorer.core.rules import RuleTable
from explorer.ir.graph import is_random

aten = torch.ops.aten

CONTIGUOUS = frozenset(
    {
        aten.pow.Scalar, aten.poisson.default, aten.rrelu_with_noise.default, aten.log_sigmoid_forward.default,
        aten.normal.Tensor_Tensor, aten.normal.float_Tensor, aten.masked_fill.Scalar,
        aten.nll_loss2d_forward.default, aten.native_layer_norm.default, aten.isin.Tensor_Tensor,
        aten.grid_sampler_2d.default,
    }
)  # fmt: skip
"""Operators whose results are contiguous, whatever their inputs are."""

SUGGESTED = frozenset(
    {
        aten.max_unpool2d.default, aten.channel_shuffle.default, aten.native_batch_norm.default,
        aten._native_batch_norm_legit.default, aten._native_batch_norm_legit.no_stats,
        aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit_no_training.default,
        aten._batch_norm_with_update.default, aten._batch_norm_with_update_functional.default,
        aten._batch_norm_no_update.default,
    }
)  # fmt: skip
"""Operators whose results are contiguous, or channels last if their first input is,"""
SUGGESTED_ON_CPU = frozenset(
    {
        aten.replication_pad2d.default, aten.replication_pad3d.default, aten.reflection_pad2d.default,
        aten.reflection_pad3d.default, aten.max_pool3d_with_indices.default,
    }
)  # fmt: skip
"""and those that do so on a CPU."""
PER_ELEMENT = frozenset(
    {
        aten.floor_divide.default, aten._to_copy.default, aten.zeros_like.default, aten.ones_like.default,
        aten.binary_cross_entropy.default,
    }
)  # fmt: skip
"""Elementwise operators that torch does not tag as such."""
IN_PARTS = frozenset(
    {
        aten.floor_divide.default, aten.div.Tensor_mode, aten.copysign.Tensor, aten.special_xlog1py.default,
        aten.binary_cross_entropy.default, aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default,
        aten.logaddexp.default, aten.logaddexp2.default, aten.heaviside.default, aten.xlogy.Tensor, aten.ldexp.Tensor,
        aten.logit_backward.default, aten.native_dropout_backward.default,
    }
)  # fmt: skip
"""Elementwise operators that torch composes from others if sizes are symbols; the last of these sees another order of
strides."""
BATCH_NORMS = frozenset(
    {
        aten.native_batch_norm.default, aten.cudnn_batch_norm.default, aten.miopen_batch_norm.default,
        aten.batch_norm_gather_stats.default, aten.batch_norm_gather_stats_with_counts.default,
        aten.batch_norm_update_stats.default,
    }
)  # fmt: skip
"""Operators that write the running statistics in training, though their schemas do not say so."""


MAKE_THEIR_OWN = frozenset("matmul __matmul__ __rmatmul__ linear scaled_dot_product_attention max_pool1d".split())
"""Functions whose result on a CPU is no view, though what they do with fake tensors ends in one."""


PACKED = frozenset("one_hot max_pool1d".split())
"""Functions whose result on a CPU is contiguous, though their composition on fake tensors keeps the order of the axes.
"""


def as_of_real(name: str, result: object) -> Any:
    """The result of a function on fake tensors, with the layout of the real result, and no view if the real result is
    none."""
    if not isinstance(result, FakeTensor) or result.device.type != "cpu":
        return result
    if name == "max_pool1d" and result.requires_grad:
        return result
    if name in PACKED and not result.is_contiguous():
        return result.contiguous()
    if name in MAKE_THEIR_OWN and result._is_view():
        return aten._unsafe_view.default(result, result.shape)
    return result


class WithoutGradients(MetaTensorDescriber):
    """Leaves out what a tensor has as `.grad`: an input of its own where the program asks for it, whose sizes no other
    input would give."""

    def describe_tensor(self, t: Tensor, **how: bool) -> MetaTensorDesc[Any]:
        found = super().describe_tensor(t, **how)
        return found if found.grad is None else replace(found, grad=None)


def forget_real_tensors(mode: FakeTensorMode) -> None:
    """Let go of what a mode made fake tensors of: it lives as long as a graph of them, and torch.utils.swap_tensors
    refuses tensors that anybody refers to, weakly too."""
    describer = mode.fake_tensor_converter.meta_converter.describer
    describer.lookup_tensor.clear()
    describer.lookup_storage.clear()


class LaidOut(FakeTensorMode):
    """Fake tensors with the strides of real ones, that refuse the sizes that real ones do. `written` counts the writes
    by storage: inference tensors have no version, and `x.data` has another than `x`. `drew`: how often
    operators have drawn random numbers."""

    supports_higher_order_operators = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.fake_tensor_converter.meta_converter.describer = WithoutGradients()
        self.written = Counter[int]()
        self.log: list[torch.UntypedStorage] = []
        """What was written, in order. This keeps each storage, so that no other gets its address."""
        self.drew = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Any = None
    ) -> object:
        inference = torch.is_inference_mode_enabled() and all(issubclass(each, FakeTensor) for each in types)
        if inference and _is_composite(func):  # a view counts writes with its base
            with self, torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.ADInplaceOrView, False):
                return func.decompose(*args, **kwargs or {})
        is_higher_order = isinstance(func, HigherOrderOperator)
        if not is_higher_order:
            return super().__torch_dispatch__(func, types, args, kwargs)
        if func in registered_hop_fake_fns:
            return super().dispatch(func, types, args, kwargs or {})
        return func.python_key_table[FakeTensorMode](self, *args, **kwargs or {})  # found by the mode's exact class

    def dispatch(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        traits = _traits(func)
        if traits.may_write:
            for each in written_arguments(func, args, kwargs or {}):
                self.count_write(each)
        self.drew += traits.draws
        if traits.check is not None:
            with self:
                traits.check(*args, **(kwargs or {}))
        result = super().dispatch(func, types, args, kwargs)
        tensors = tensors_in(result)
        if any(isinstance(each, FakeTensor) and each.constant is not None for each in tensors):
            return result  # a real kernel computed it: another tensor would hold another number
        if traits.lays_out is not None and (placed := traits.lays_out(func, args, result)) is not None:
            return placed
        return self._strided(func, traits, args, kwargs or {}, result) if isinstance(result, Tensor) else result

    def _strided(
        self, func: OpOverload, traits: Traits, args: Sequence[object], kwargs: Mapping[str, object], result: Tensor
    ) -> Tensor:
        """The result with the strides that the kernel gives it, where the rule on tensors without data differs."""
        given = _mixed(func, args) if traits.goes_through_elements else []
        if given or _is_unruled(func, args, result):
            stride = _stride_of_kernel(func, args, kwargs, result) or _stride_of_sum(given, result)
            if stride and stride != result.stride():
                with self:
                    return torch.empty_strided(result.shape, stride, dtype=result.dtype, device=result.device)
        elif traits.in_parts and result.dim() and len(tensors := _operands(func, args)) > 1:
            with self:
                stride = compute_elementwise_output_strides(*torch.broadcast_tensors(*tensors))
                return torch.empty_strided(result.shape, stride, dtype=result.dtype, device=result.device)
        return result

    def writes(self, tensor: Tensor) -> int:
        return self.written[tensor.untyped_storage()._cdata] if tensor.layout is torch.strided else 0

    def count_write(self, tensor: Tensor) -> None:
        if tensor.layout is torch.strided:
            self.log.append(tensor.untyped_storage())
            self.written[self.log[-1]._cdata] += 1

    def forget_writes(self, since: int) -> None:
        """Those of the log from this place on."""
        self.written.subtract(storage._cdata for storage in self.log[since:])
        del self.log[since:]


Arguments = Sequence[Any]
Layout = Callable[[OpOverload, Arguments, Any], object]
"""The result of an operator with the strides that its kernel gives it, or None to leave them."""
LAYOUTS: RuleTable[OpOverload, Layout] = RuleTable("layout")


def _in_format(result: object, wanted: torch.memory_format) -> object:
    tensors = tensors_in(result)
    placed = [
        each if each.shape != tensors[0].shape else torch.empty_like(each, memory_format=wanted) for each in tensors
    ]
    return tuple(placed) if isinstance(result, tuple) else placed[0]


@LAYOUTS.rule(*CONTIGUOUS)
def _contiguous(func: OpOverload, args: Arguments, result: object) -> object:
    return _in_format(result, torch.contiguous_format)


@LAYOUTS.rule(*SUGGESTED)
def _suggested(func: OpOverload, args: Arguments, result: object) -> object:
    return _in_format(result, suggest_memory_format(args[0]))


@LAYOUTS.rule(*SUGGESTED_ON_CPU)
def _suggested_on_cpu(func: OpOverload, args: Arguments, result: object) -> object:
    return _suggested(func, args, result) if args[0].device.type == "cpu" else None


@LAYOUTS.rule(aten.angle.default)
def _angle(func: OpOverload, args: Arguments, result: object) -> object:
    return _contiguous(func, args, result) if args[0].is_complex() else None


@LAYOUTS.rule(aten.frexp.Tensor)
def _frexp(func: OpOverload, args: Arguments, result: object) -> object:
    return tuple(torch.empty_like(args[0], dtype=each.dtype) for each in tensors_in(result))


@LAYOUTS.rule(aten._scaled_dot_product_flash_attention_for_cpu.default)
def _attention(func: OpOverload, args: Arguments, result: object) -> object:
    query = args[0]
    if not is_non_overlapping_and_dense_or_false(query):
        return None
    return query.new_empty_strided(query.shape, query.stride()), *tensors_in(result)[1:]


@LAYOUTS.rule(aten.view.default)
def _view(func: OpOverload, args: Arguments, result: Tensor) -> object:
    stride = _stride_of_view(*args)
    return args[0].as_strided(result.shape, stride) if stride and stride != result.stride() else None


@LAYOUTS.rule(aten.pow.Tensor_Scalar)
def _power(func: OpOverload, args: Arguments, result: Tensor) -> object:
    of_bools = args[0].dtype is torch.bool and type(args[1]) is bool
    return torch.empty_like(result, dtype=torch.bool) if of_bools else None


@LAYOUTS.rule(aten.diagonal_scatter.default, aten.select_scatter.default, aten.slice_scatter.default)
def _copy(func: OpOverload, args: Arguments, result: Tensor) -> object:
    """It writes into a copy of its first input, with memory for each element."""
    return torch.empty_like(result) if any(type(s) is int and s == 0 for s in result.stride()) else None


@LAYOUTS.rule(
    aten.uniform.default, aten.normal_functional.default, aten.exponential.default, aten.geometric.default,
    aten.log_normal.default, aten.cauchy.default, aten.random.default, aten.random.to, getattr(aten.random, "from"),
    aten.bernoulli.p,
)  # fmt: skip
def _random(func: OpOverload, args: Arguments, result: Tensor) -> object:
    """It fills such a copy with random numbers, so that it has no gaps either."""
    return torch.empty_like(result)


@LAYOUTS.rule(aten._fft_c2c.default, aten._fft_r2c.default, aten._fft_c2r.default)
def _transform(func: OpOverload, args: Arguments, result: Tensor) -> object:
    """The library on this machine chooses its layout."""
    stride = _stride_of_transform(func, args, result)
    return result.new_empty_strided(result.shape, stride) if stride else None


@dataclass(frozen=True, slots=True)
class Traits:
    """What the tables and torch's schema say of an operator, whatever it is given."""

    may_write: bool
    draws: bool
    check: Callable[..., None] | None
    lays_out: Layout | None
    goes_through_elements: bool
    in_parts: bool


@functools.cache
def _traits(func: OpOverload) -> Traits:
    writes = func._schema.is_mutable
    return Traits(
        may_write=writes or func in BATCH_NORMS,
        draws=is_random(func),
        check=CHECKS.get(func),
        lays_out=LAYOUTS.get(func),
        goes_through_elements=not writes and (torch.Tag.pointwise in func.tags or func in PER_ELEMENT),
        in_parts=func in IN_PARTS,
    )


@functools.cache
def _is_composite(func: object) -> bool:
    """Whether the operator is composed of calls of other operators."""
    if not isinstance(func, OpOverload) or func.namespace == "prim":  # it reads a property of a tensor
        return False
    has = functools.partial(torch._C._dispatch_has_kernel_for_dispatch_key, func.name())
    return has("CompositeImplicitAutograd") and not has("ADInplaceOrView")


def written_arguments(func: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> list[Tensor]:
    """The tensors that an operator writes, by its schema; those of batch norms leave out the running statistics."""
    arguments = func._schema.arguments
    given = {argument.name: value for argument, value in zip(arguments, args, strict=False)} | dict(kwargs)
    trains = func in BATCH_NORMS and given.get("training", True)
    written = [each.name for each in arguments if each.is_write or trains and each.name.startswith("running_")]
    return tensors_in(tuple(given.get(name) for name in written))


Place = tuple[tuple[int, ...], tuple[int, ...]]
"""Sizes and strides."""


def _operands(func: object, args: Sequence[object]) -> list[Tensor]:
    """The tensors whose elements the kernel goes through."""
    tensors = tensors_in(args)
    if func is aten.ldexp.Tensor and tensors[-1].dim():  # it is a product with a power of two, and that is contiguous
        tensors[-1] = torch.empty_like(tensors[-1], memory_format=torch.contiguous_format)
    return tensors


def _mixed(func: Any, args: Sequence[object]) -> list[Place]:
    """Where the inputs are, if the operator goes through several at once that lie in memory in different ways, a number
    in a tensor among them, or through one with an axis of size 1 that has a stride of its own."""
    tensors = _operands(func, args)
    given = [(tuple(each.shape), each.stride()) for each in tensors if each.dim()]
    if len(given) not in SUMS or not all(type(n) is int for each in given for n in (*each[0], *each[1])):
        return []
    if func is aten.threshold_backward.default:  # its kernel takes them in reverse order
        given.reverse()
    apart = len({stride for _, stride in given}) > 1 or len(given) < len(tensors)
    apart = apart or any(1 in size and (0 in size or stride != contiguous(size)) for size, stride in given)
    return given if apart or func is aten.native_dropout_backward.default else []


def _is_unruled(func: Any, args: Sequence[object], result: Tensor) -> bool:
    """Whether the rule on tensors without data says nothing of where the kernel writes: results without elements, whose
    other sizes are fixed where their inputs have gaps, or indices give their places, and those whose indices lie in
    another way."""
    tensors = tensors_in(args)
    if any(each.layout is not torch.strided for each in (result, *tensors)):
        return False
    if func is aten.index.Tensor:
        known = all(type(n) is int for each in (result, *tensors) for n in (*each.shape, *each.stride()))
        return known and (0 in result.shape or any(not each.is_contiguous() for each in tensors[1:]))
    if not any(type(n) is int and n == 0 for n in result.shape) or result._is_view() or func._schema.is_mutable:
        return False
    return not all(_is_packed(each) for each in tensors)


def _is_packed(tensor: Tensor) -> bool:
    """Whether it surely has the strides of a new tensor."""
    new = contiguous(tuple(tensor.shape))
    return all(statically_known_true(n == m) for n, m in zip(tensor.stride(), new, strict=True))


def _stride_of_view(x: Tensor, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The strides that the real operator finds, which raises where there are none: the rule on tensors without data
    takes some of other strides for a view. None where it is not known."""
    known = tuple(x.shape), x.stride(), tuple(shape)
    return _viewed(*known) if all(type(n) is int for part in known for n in part) else None


@functools.lru_cache(maxsize=4096)
def _viewed(size: tuple[int, ...], stride: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    with no_python_dispatcher(), no_dispatch():
        found: tuple[int, ...] = torch.empty_strided(size, stride, device="meta").view(shape).stride()
    return found


def _stride_of_transform(func: Any, args: Sequence[Any], result: Tensor) -> tuple[int, ...]:
    """Where the library writes what it makes of numbers that lie as these do, which it is given few of."""
    x, dims, normalization, last = args
    known = all(type(n) is int for n in (*x.shape, *x.stride(), *result.shape))
    if x.device.type != "cpu" or not known or not x.numel():
        return ()
    size = [min(n, FEW) for n in x.shape]
    if func is aten._fft_c2r.default:
        last = min(last, max(1, 2 * size[dims[-1]] - 2))
    with no_dispatch():
        given = torch.empty_strided(size, x.stride(), dtype=x.dtype)
        return _packed(result, func(given, dims, normalization, last).stride())


def _stride_of_kernel(
    func: Any, args: Sequence[object], kwargs: Mapping[str, object], result: Tensor
) -> tuple[int, ...]:
    """Where the kernel writes what it makes of tensors that lie as these do, of few elements where these have many. It
    compares strides in bytes and casts first, which the rule on tensors without data does not."""
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    tensors = [each for each in leaves if isinstance(each, Tensor)]
    known = all(isinstance(each, (*CONSTANTS, Tensor)) for each in leaves)
    if result.device.type != "cpu" or not known or is_random(func):
        return ()
    is_small = max(each.numel() for each in (result, *tensors)) <= SMALL
    if not is_small and not result.numel():
        return ()
    filled = func is not aten.index.Tensor  # 1 divides, 0 is in every axis
    with no_dispatch():
        given = [
            torch.empty_strided(
                [int(n) if is_small else min(n, FEW) for n in x.shape], [*map(int, x.stride())], dtype=x.dtype
            ).fill_(filled)
            if isinstance(x, Tensor)
            else x
            for x in leaves
        ]
        small_args, small_kwargs = pytree.tree_unflatten(given, spec)
        made: tuple[int, ...] = func(*small_args, **small_kwargs).stride()
        return made if is_small else _packed(result, made)


def _packed(result: Tensor, like: Sequence[int]) -> tuple[int, ...]:
    """The strides of a result without gaps whose axes are in the order of these. Of axes with equal strides, those of
    size 1 are the inner ones."""
    places = sorted(range(len(like)), key=lambda d: (like[d], result.shape[d] > 1))
    return tuple(math.prod(result.shape[d] for d in places[: places.index(d)]) for d in range(len(like)))


FEW, SMALL = 4, 4096
CONSTANTS = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)

SUMS: dict[int, Callable[..., Tensor]] = {1: torch.neg, 2: torch.add, 3: torch.addcmul}


def _stride_of_sum(given: Sequence[Place], result: Tensor) -> tuple[int, ...]:
    """The strides of a sum of tensors that lie as these do: its rule is the one of most operators of this kind."""
    if not given:
        return ()
    with no_dispatch():
        like = SUMS[len(given)](*(torch.empty_strided(*each, device="meta") for each in given))
    return like.stride() if like.shape == result.shape else ()


# --------------------------------------------------------------------------------------- sizes that only kernels refuse
#
# Sizes and positions that a kernel refuses and that its rule for fake tensors takes, of any size: some rules check
# nothing, and the kernel runs too late, or not at all.


def _put(x: Tensor, index: Sequence[Tensor | None], values: Tensor, *_: object) -> None:
    if any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in index):
        return  # how many elements a mask has, only the graph knows
    place = aten.index.Tensor(x, index)
    if not _known_late(values, place):
        values.expand(place.shape)


def _scatters(view: Callable[..., Tensor]) -> Callable[..., None]:
    """The check of an operator that writes its second argument into a view of the first."""

    def check(x: Tensor, src: Tensor, *place: object, **named: object) -> None:
        wanted = view(x, *place, **named)
        if not _known_late(src, wanted):
            _equal("src", src.shape, wanted.shape)

    return check


def _like_first(x: Tensor, other: Tensor, *_: object) -> None:
    if not _known_late(x, other):
        other.expand(x.shape)


def _among(x: Tensor, few: Tensor, *_: object) -> None:
    """The kernel that compares with each of a few takes these for a vector."""
    size = x.numel() if isinstance(x, Tensor) else 1
    if few.device.type == "cpu" and not _is_packed(few) and few.numel() < int(10 * size**0.145):
        few.view(-1)


def _vectors(x: Tensor, *given: object) -> None:
    """Weights, biases and statistics, of a number for each channel."""
    for each in given:
        if isinstance(each, Tensor) and each.dim() > 1:
            raise RuntimeError(f"expected a vector in place of {list(each.shape)}")


def _select(x: Tensor, dim: int, index: object) -> None:
    """Of a position that only the graph knows, TRACE finds out."""
    if type(index) is int and x.dim() and not _known_late(x) and not -x.shape[dim] <= index < x.shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension {dim}")


def _vector(x: Tensor, dim: int, index: Tensor, *_: object) -> None:
    if index.dim() > 1:
        raise IndexError(f"an index of {index.dim()} dimensions where one is meant")


def _copied(x: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    _vector(x, dim, index)
    if x.dim() and source.dim() and index.dim() and not _known_late(x, index, source):
        places = [*x.shape]
        places[dim] = index.shape[0]
        _equal("source", source.shape, places)


def _equal(what: str, size: Sequence[object], wanted: Sequence[object]) -> None:
    if len(size) != len(wanted) or any(n != m for n, m in zip(size, wanted, strict=True)):
        raise RuntimeError(f"{what} has the size {list(size)} in place of {list(wanted)}")


def _known_late(*tensors: Tensor) -> bool:
    """Whether a size is one that only the graph knows."""
    return any(free_unbacked_symbols(each) for each in tensors)


CHECKS: dict[object, Callable[..., None]] = {
    aten.index_put.default: _put,
    aten.index_put_.default: _put,
    aten._index_put_impl_.default: _put,
    aten._unsafe_index_put.default: _put,
    aten.select_scatter.default: _scatters(aten.select.int),
    aten.slice_scatter.default: _scatters(aten.slice.Tensor),
    aten.diagonal_scatter.default: _scatters(aten.diagonal.default),
    aten.select.int: _select,
    aten.index_select.default: _vector,
    aten.index_fill.int_Scalar: _vector,
    aten.index_fill.int_Tensor: _vector,
    aten.index_copy.default: _copied,
    aten.index_copy_.default: _copied,
    aten.isin.Tensor_Tensor: _among,
    aten.isin.Scalar_Tensor: _among,
    aten.soft_margin_loss.default: _like_first,
    aten.native_group_norm.default: _vectors,
    aten.native_batch_norm.default: _vectors,
    aten._native_batch_norm_legit.default: _vectors,
    aten._batch_norm_with_update.default: _vectors,
    aten._native_batch_norm_legit_no_training.default: _vectors,
}
