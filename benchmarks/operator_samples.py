"""Samples of the operators that torch's own tests list, and variants of them: other strides, bits, sizes and values."""

from __future__ import annotations

import functools
import itertools
import random
import sys
import types
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool,
)  # fmt: skip
LARGEST = 1 << 20
"""Elements of the largest tensor in a sample that is tried."""


@dataclass(frozen=True)
class Sample:
    """A call: `target(*args, **kwargs)`; `variant` says what was made of torch's sample."""

    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    variant: str = "as given"
    differentiable: bool = False
    dtype: str = ""

    def again(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with memory of their own, laid out alike."""
        made: dict[int, Tensor] = {}

        def copied(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            if id(value) not in made:
                made[id(value)] = copy_of(value, self.differentiable)
            return made[id(value)]

        args, kwargs = tree_map(copied, (self.args, self.kwargs))
        return args, kwargs


def copy_of(value: Tensor, differentiable: bool) -> Tensor:
    """A leaf with the values, strides, offset and bits of `value`, in a storage of its own."""
    value = value.detach()
    conjugate, negative = value.is_conj(), value.is_neg()
    plain = torch._neg_view(value) if negative else value
    plain = plain.conj() if conjugate else plain
    storage = plain.untyped_storage().clone()
    made = torch.empty(0, dtype=value.dtype).set_(storage, plain.storage_offset(), plain.shape, plain.stride())  # type: ignore[call-overload]
    made = made.conj() if conjugate else made
    made = (torch._neg_view(made) if negative else made).detach()
    return made.requires_grad_(differentiable and (made.is_floating_point() or made.is_complex()))


AS_GIVEN = frozenset(
    """_unsafe_masked_index _unsafe_masked_index_put_accumulate _segment_reduce.lengths _segment_reduce.offsets
    linalg.ldl_solve linalg.lu_solve lu_solve""".split()
)
"""Operators that do not check what they are given: other values would be none that eager answers."""
OVERRUN = frozenset({"tril", "triu"})
"""Those that write past an `out=` with strides of its own."""


@functools.cache
def operators() -> dict[str, Any]:
    """torch's list by name. It imports expecttest, for nothing but the base class of torch's own tests."""
    if "expecttest" not in sys.modules:
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]
    from torch.testing._internal.common_methods_invocations import op_db

    setattr(torch.backends, "__allow_nonbracketed_mutation_flag", True)  # as before the import
    return {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}


def supported(op: Any) -> list[torch.dtype]:
    found = op.supported_dtypes("cpu")
    return [dtype for dtype in DTYPES if dtype in found]


def samples(name: str, dtype: torch.dtype, chance: random.Random, most: int, variants: int) -> Iterator[Sample]:
    """At most `most` of torch's samples and `variants` of ours, those of them drawn by `chance`."""
    op = operators()[name]
    torch.manual_seed(chance.randrange(1 << 30))
    differentiable = bool(op.supports_autograd) and dtype in op.supported_backward_dtypes("cpu")
    given = [
        Sample(op.op, (sample.input, *sample.args), dict(sample.kwargs), differentiable=differentiable)
        for sample in op.sample_inputs("cpu", dtype, requires_grad=False)
    ]
    given = [sample for sample in given if is_plain(sample)]
    chosen = given if len(given) <= most else chance.sample(given, most)
    yield from chosen
    if not chosen or name in AS_GIVEN:
        return
    made = [functools.partial(other_inputs, how) for how in INPUTS] + [inference]
    if op.inplace_variant is not None:
        made.append(functools.partial(in_place, op.inplace_variant))
    if op.supports_out and name not in OVERRUN:
        made += [functools.partial(with_out, how) for how in OUTS]
    chance.shuffle(made)
    varied = (make(chance.choice(chosen)) for make in made)
    yield from itertools.islice(filter(None, varied), variants)


def is_plain(sample: Sample) -> bool:
    tensors = [leaf for leaf in tree_leaves((sample.args, sample.kwargs)) if isinstance(leaf, Tensor)]
    return all(type(t) is Tensor and t.layout is torch.strided and t.numel() <= LARGEST for t in tensors)


# Other inputs: each tensor of the sample through one of these, None where it does not apply.


def gaps(x: Tensor) -> Tensor | None:
    made = torch.empty((*x.shape, 2), dtype=x.dtype)[..., 0]
    return made.copy_(x) if x.dim() else None


def transposed(x: Tensor) -> Tensor | None:
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else None


def turned(x: Tensor) -> Tensor | None:
    return x.movedim(0, -1).contiguous().movedim(-1, 0) if x.dim() > 2 else None


def channels_last(x: Tensor) -> Tensor | None:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else None


def offset(x: Tensor) -> Tensor | None:
    made = torch.empty(x.numel() + 3, dtype=x.dtype)[3:].view(x.shape)
    return made.copy_(x)


def expanded(x: Tensor) -> Tensor | None:
    return x[:1].expand_as(x) if x.dim() and x.shape[0] > 1 else None


def empty(x: Tensor) -> Tensor | None:
    return x[:0].clone() if x.dim() else None


def last_empty(x: Tensor) -> Tensor | None:
    return x[..., :0].clone() if x.dim() else None


def no_dimensions(x: Tensor) -> Tensor | None:
    return x.flatten()[0].clone() if x.dim() and x.numel() else None


def one(x: Tensor) -> Tensor | None:
    return x[:1].clone() if x.dim() and x.shape[0] > 1 else None


def negative(x: Tensor) -> Tensor | None:
    if x.dtype not in (torch.float32, torch.float64):
        return None
    return torch.complex(torch.zeros_like(x), -x).conj().imag


def conjugated(x: Tensor) -> Tensor | None:
    return x.conj().resolve_conj().conj() if x.is_complex() else None


def special(x: Tensor) -> Tensor | None:
    """Borders of the dtype, ties, infinities, NaN and both zeros."""
    if x.dtype is torch.bool:
        return None
    if x.is_complex():
        part = torch.view_as_real(x.resolve_conj()).clone()
        found = special(part)
        return None if found is None else torch.view_as_complex(found)
    if x.is_floating_point():
        facts = torch.finfo(x.dtype)
        values = [0.0, -0.0, 1.0, -1.0, torch.nan, torch.inf, -torch.inf, facts.max, facts.tiny, 0.5, 2.5, 1.0, -1.5]
    else:
        limits = torch.iinfo(x.dtype)
        values = [0, limits.min, limits.max, 1, limits.max, 2, 1] + ([-1, -2] if limits.min < 0 else [])
    many = torch.tensor(values, dtype=x.dtype)
    return many[torch.randint(len(values), x.shape)]


INPUTS: dict[str, Callable[[Tensor], Tensor | None]] = {
    "gaps": gaps, "transposed": transposed, "dimensions turned": turned, "channels last": channels_last,
    "storage offset": offset, "expanded": expanded, "empty": empty, "last dimension empty": last_empty,
    "0-d": no_dimensions, "size 1": one, "negative bit": negative, "conjugated": conjugated, "special values": special,
}  # fmt: skip


def other_inputs(how: str, sample: Sample) -> Sample | None:
    change, changed = INPUTS[how], []

    def varied(value: Any) -> Any:
        made = change(value.detach()) if isinstance(value, Tensor) else None
        if made is None:
            return value
        changed.append(made)
        return made

    args, kwargs = tree_map(varied, (sample.args, sample.kwargs))
    differentiable = sample.differentiable and how != "special values"
    return Sample(sample.target, args, kwargs, how, differentiable) if changed else None


def inference(sample: Sample) -> Sample | None:
    return Sample(sample.target, sample.args, sample.kwargs, "inference") if sample.differentiable else None


def in_place(target: Callable[..., Any], sample: Sample) -> Sample:
    return Sample(target, sample.args, sample.kwargs, "in place")


# With `out=`: tensors of the result's dtype that need resizing, that have other strides, and of another dtype.


def resized(x: Tensor) -> Tensor:
    return torch.empty(0, dtype=x.dtype)


def dense(x: Tensor) -> Tensor:
    return torch.zeros(x.shape, dtype=x.dtype)


def with_gaps(x: Tensor) -> Tensor:
    return torch.zeros((*x.shape, 2), dtype=x.dtype)[..., 0]


def backwards(x: Tensor) -> Tensor:
    return torch.zeros(x.shape[::-1], dtype=x.dtype).permute(tuple(range(x.dim()))[::-1])


def wider(x: Tensor) -> Tensor:
    return torch.zeros(x.shape, dtype=torch.complex128 if x.is_complex() else torch.float64)


OUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "out= resized": resized, "out= dense": dense, "out= gaps": with_gaps, "out= backwards": backwards,
    "out= dtype": wider,
}  # fmt: skip


def with_out(how: str, sample: Sample) -> Sample | None:
    args, kwargs = Sample(sample.target, sample.args, sample.kwargs).again()
    try:
        result = sample.target(*args, **kwargs)
    except Exception:  # as it does below, where it is counted
        return None
    if not isinstance(result, (Tensor, tuple)) or not all(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):
        return None
    out = OUTS[how](result) if isinstance(result, Tensor) else tuple(OUTS[how](part) for part in result)
    return Sample(sample.target, sample.args, {**sample.kwargs, "out": out}, how)
