"""Library calls: products, convolutions, attention, sorts, and every operator that has no rule.

Inductor: ir.py (ExternKernelOut, ExternKernelAlloc, FallbackKernel) and kernel/mm.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch

from explorer.compiler.lower import reasons
from explorer.compiler.lower.builder import Lowering, shape
from explorer.compiler.lower.indexing import strides
from explorer.compiler.lower.tensors import Tensor
from explorer.core.origin import origins
from explorer.core.reasons import Unsupported, Why
from explorer.ir.graph import is_random
from explorer.ir.index import ZERO, integer, integers
from explorer.ir.loops import Buffer, Layout

aten = torch.ops.aten

PRODUCTS = frozenset({aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default})
"""Products take operands with any strides and write into a given buffer."""

LIBRARY: dict[str, str] = {
    **dict.fromkeys("mm addmm bmm baddbmm addbmm addmv mv dot vdot addr ger _int_mm".split(), reasons.LIBRARY_MATMUL),
    **dict.fromkeys(
        "convolution convolution_backward convolution_overrideable _convolution mkldnn_convolution".split(),
        reasons.LIBRARY_CONVOLUTION,
    ),
    **dict.fromkeys(
        "sort topk cumsum cumprod logcumsumexp cummax cummin kthvalue median nanmedian mode searchsorted bucketize "
        "histc bincount unique_dim _unique2".split(),
        reasons.LIBRARY_SORT,
    ),
    "cat": reasons.LIBRARY_CAT,
}
"""Why an operator is a library call, by its name in ATen. It decides what the record says, not what is called."""

FAMILIES = (
    (("_scaled_dot_product", "_flash_attention", "_efficient_attention"), reasons.LIBRARY_ATTENTION),
    (("max_pool", "avg_pool", "adaptive_", "_adaptive_", "fractional_max", "upsample", "_upsample", "grid_sampler"),
     reasons.LIBRARY_POOLING),
    (("linalg_", "_linalg_", "_fft_", "cholesky", "triangular_solve"), reasons.LIBRARY_ALGEBRA),
)  # fmt: skip
"""The same by how the name begins."""


def why_library(target: torch._ops.OpOverload) -> str:
    if is_random(target):
        return reasons.RANDOM
    namespace, _, name = target._schema.name.partition("::")
    if namespace != "aten":
        return reasons.NO_RULE
    of_family = (why for beginnings, why in FAMILIES if name.startswith(beginnings))
    return LIBRARY.get(name) or next(of_family, reasons.NO_RULE)


def library(
    lower: Lowering, target: Any, out: Any, args: Sequence[object], kwargs: Mapping[str, object], why: Why
) -> Tensor | tuple[Any, ...] | Any:
    """Call `target` as it is. The arguments have eager's strides, but for products, which take any."""
    on_device = isinstance(out, torch.Tensor) and out.device == lower.device
    into = on_device and (target in PRODUCTS or target == aten.cat.default)
    if any(parameter.name == "storage_offset" for parameter in target._schema.arguments):
        args, kwargs = _in_own_storage(lower, target, args, kwargs)
    exact = target not in PRODUCTS
    is_view = any(each.alias_info is not None and not each.alias_info.is_write for each in target._schema.returns)
    why_there = reasons.LIBRARY_VIEW if is_view else reasons.LIBRARY_ARGUMENT
    given = tuple(_argument(lower, arg, exact, why_there) for arg in args)
    named = tuple((name, _argument(lower, arg, exact, why_there)) for name, arg in kwargs.items())
    many = isinstance(out, (tuple, list))
    results = list(out) if many else [out]
    buffers = tuple(_buffer(lower, target, value, place, args, why) for place, value in enumerate(results))
    lower.extern(
        target, given, named, buffers, why, returns_tuple=many, out=into,
        mutates=tuple(mutated(target, args, kwargs)),
        random=is_random(target),
    )  # fmt: skip
    made = tuple(
        value if buffer is None else lower.stored(buffer) for buffer, value in zip(buffers, results, strict=True)
    )
    return made if many else made[0]


def _in_own_storage(
    lower: Lowering, target: Any, args: Sequence[object], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of an operator that counts positions from the start of the storage. A tensor of the caller is
    unchanged; any other, which may lie anywhere in a pool, is copied into a storage of its own. Raises Unsupported if
    the operator may access elements outside the tensor."""
    named = {parameter.name: value for parameter, value in zip(target._schema.arguments, args, strict=False)}
    given = {**named, **kwargs}
    x = given["self"]
    view = lower.memory(x, reasons.LIBRARY_ARGUMENT, exact=True)
    if lower.is_given(view.buffer):
        return list(args), dict(kwargs)
    offset = ZERO if given.get("storage_offset") is None else integer(given["storage_offset"]) - view.layout.offset
    layout = Layout(x.dtype, x.device, x.size, view.layout.stride)
    reached = replace(layout, size=integers(given["size"]), stride=integers(given["stride"]), offset=offset)
    inside = lower.sizes.proven(offset >= 0) and lower.sizes.proven(x.numel >= reached.extent)
    if not inside or lower.dense(x.size, layout.stride) != layout.stride:
        raise Unsupported(Why(reasons.PAST_ELEMENTS, f"{target} from element {offset} of {x.numel}"))
    why = Why(reasons.LIBRARY_ARGUMENT, "a storage of its own")
    made = lower.made(layout, why, aten.clone.default, (view,))
    given |= {"self": lower.stored(made), "storage_offset": offset}
    return [given[name] for name in named], {name: value for name, value in given.items() if name not in named}


def _argument(lower: Lowering, value: object, exact: bool, why: str) -> Any:
    if isinstance(value, Tensor):
        return lower.memory(value, why, exact=exact)
    if isinstance(value, (list, tuple)):
        return tuple(_argument(lower, item, exact, why) for item in value)
    return value


def _buffer(
    lower: Lowering, target: object, value: object, place: int, args: Sequence[object], why: Why
) -> Buffer | None:
    if isinstance(value, (list, tuple)):
        raise Unsupported(Why(reasons.UNKNOWN_CALL, f"{target} returns tensors in nested lists"))
    if not isinstance(value, torch.Tensor):
        return None
    layout = Layout(value.dtype, value.device, shape(value), strides(value))
    return Buffer(lower.name("buf"), layout, "extern", origins(), _aliased(target, place, args), why)


def _aliased(target: Any, place: int, args: Sequence[object]) -> str | None:
    """The buffer whose storage result `place` shares, by the operator's schema."""
    returns = target._schema.returns
    alias = returns[place].alias_info if place < len(returns) else None
    if alias is None:
        return None
    for parameter, arg in zip(target._schema.arguments, args, strict=False):
        if parameter.alias_info is not None and parameter.alias_info.before_set & alias.before_set:
            if isinstance(arg, Tensor) and arg.place is not None:
                return arg.place.buffer
    return None


def mutated(target: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> Iterator[str]:
    """The buffers that the call updates, by the operator's schema."""
    for place, parameter in enumerate(target._schema.arguments):
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(parameter.name)
            for item in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(item, Tensor) and item.place is not None:
                    yield item.place.buffer


def symbols_of(value: object) -> set[sympy.Symbol]:
    """The size symbols in numbers, in the shapes of fake tensors, and in lists of both."""
    if isinstance(value, (tuple, list)):
        return set().union(*map(symbols_of, value))
    if isinstance(value, torch.Tensor):
        return {symbol for n in shape(value) for symbol in n.free_symbols}
    return value.free_symbols if isinstance(value, sympy.Basic) else set()
