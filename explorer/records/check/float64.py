"""Runs a call eagerly with a float64 shadow of every value, and estimates how far rounding alone may change each
value: a tolerance is then relative to the terms of a sum, not to what is left of them after cancellation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from explorer.compiler.capture.fakes import written_arguments
from explorer.ir.graph import draws
from explorer.records.check.custom_operators import is_custom

NARROW = {
    torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}  # fmt: skip
"""The dtype of the shadow of each dtype."""

RUNS = 4
"""Shadows of each tensor: the first is exact, the others are perturbed by as much as rounding may."""

MOST_BYTES = 1 << 31
"""Limit for all shadows together."""


class TooLarge(RuntimeError):
    """The shadows would take more than MOST_BYTES."""


@dataclass
class ShadowValues:
    """The shadows of one storage: its elements in float64, once per run, in the storage's layout."""

    alive: StorageWeakRef
    dtype: torch.dtype
    runs: list[Tensor]


@dataclass
class Float64Run(TorchDispatchMode):
    """A mode in which each operator also runs in float64: once on exact values, and on randomly perturbed values, each
    by `disturbance` of its dtype relative to itself. Pointwise operators have their results perturbed, all others
    their inputs, since they may sum these. Control flow and random numbers are those of the run itself."""

    disturbance: Mapping[torch.dtype, float]
    complete: bool = True
    """Whether every operator has a float64 form."""
    drew: bool = False
    """Whether random numbers were drawn."""
    _known: dict[int, ShadowValues] = field(default_factory=dict)
    _draw: dict[torch.device, torch.Generator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket is torch.ops.aten.set_:
            return func(*args, **kwargs)  # memory stays as it is
        flat = tree_flatten((args, kwargs))[0]
        leaves = [leaf for leaf in flat if isinstance(leaf, Tensor)]
        random = draws(func, args, kwargs)  # the shadows then take the numbers of the run itself
        self.drew = self.drew or random
        followable = all(_is_plain(leaf) or leaf._is_zerotensor() for leaf in leaves)
        once = is_custom(str(func))  # what it does besides, as counting its calls, is not to be done for each shadow
        self.complete = self.complete and not once
        follows = followable and any(map(_is_inexact, leaves)) and not random and not once
        if follows:
            for leaf in leaves:
                if _is_inexact(leaf) and _is_plain(leaf):
                    self._shadow(leaf)  # before the operator writes
        written = [leaf for leaf in written_arguments(func, args, kwargs) if _is_plain(leaf)]
        before = [leaf.clone() if not _is_inexact(leaf) else leaf for leaf in written] if follows else []
        result = func(*args, **kwargs)
        if not follows:
            self._forget([*written, *_tensors(result)] if once else written)
            return result
        if _is_view(func):
            return result  # shares the storage, and its shadows
        exact_inputs = {id(leaf): copy for leaf, copy in zip(written, before, strict=True)}
        try:
            for run in range(RUNS):
                self._follow(run, func, args, kwargs, result, written, exact_inputs)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, TooLarge):
                raise
            self.complete = False
            self._forget([*written, *_tensors(result)])  # taken from the run itself when they are next read
        return result

    def _follow(
        self, run: int, func: Any, args: Sequence[object], kwargs: Mapping[str, object], result: object,
        written: Sequence[Tensor], before: Mapping[int, Tensor],
    ) -> None:  # fmt: skip
        pointwise = torch.Tag.pointwise in func.tags
        changed = {id(leaf) for leaf in written}

        def given(value: object) -> Any:
            if isinstance(value, torch.dtype):
                return NARROW.get(value, value)
            if not isinstance(value, Tensor):
                return value
            if value._is_zerotensor():
                return value.to(NARROW.get(value.dtype, value.dtype))
            if not _is_inexact(value):
                return before[id(value)].clone() if id(value) in before else value
            found = self._view(value, run)
            return found if not run or pointwise or id(value) in changed else self._disturbed(found, value.dtype)

        followed = func(*tree_map(given, args), **tree_map(given, kwargs))
        known = {leaf.untyped_storage()._cdata for leaf in written}
        for real, other in zip(_tensors(result), _tensors(followed), strict=True):
            if _is_inexact(real) and _is_plain(real) and real.untyped_storage()._cdata not in known:
                if run == 0:
                    self._begin(real)
                self._view(real, run).copy_(other)
        if run and pointwise:
            for real in {id(each): each for each in (*_tensors(result), *written)}.values():
                if _is_inexact(real) and _is_plain(real):
                    found = self._view(real, run)
                    found.copy_(self._disturbed(found, real.dtype))

    def _disturbed(self, value: Tensor, dtype: torch.dtype) -> Tensor:
        draw = self._draw.get(value.device)
        if draw is None:
            draw = self._draw[value.device] = torch.Generator(value.device).manual_seed(0)
        factor = torch.rand(value.shape, dtype=torch.float64, device=value.device, generator=draw)
        return value * (1 + (2 * factor - 1) * self.disturbance.get(dtype, 0.0))

    def _begin(self, tensor: Tensor) -> ShadowValues:
        """New shadows of the whole storage of a tensor, from its current values."""
        self._known = {key: each for key, each in self._known.items() if not each.alive.expired()}
        storage = tensor.untyped_storage()
        real = _real(tensor.dtype)
        flat = torch.empty(0, dtype=real, device=tensor.device).set_(storage)
        taken = sum(run.nbytes for each in self._known.values() for run in each.runs)
        if taken + RUNS * 8 * flat.numel() > MOST_BYTES:
            raise TooLarge(f"a float64 comparison would take more than {MOST_BYTES >> 30} GiB")
        made = ShadowValues(StorageWeakRef(storage), real, [flat.to(torch.float64, copy=True) for _ in range(RUNS)])
        self._known[storage._cdata] = made
        return made

    def _shadow(self, tensor: Tensor) -> ShadowValues:
        storage = tensor.untyped_storage()
        known = self._known.get(storage._cdata)
        if known is None or known.alive.expired() or known.dtype != _real(tensor.dtype) or (
            known.runs[0].numel() * known.dtype.itemsize < storage.nbytes()
        ):  # fmt: skip
            return self._begin(tensor)
        return known

    def _view(self, tensor: Tensor, run: int) -> Tensor:
        """A tensor's shadow in one run, in the tensor's layout."""
        flat = self._shadow(tensor).runs[run]
        if not tensor.is_complex():
            found = flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            return torch._neg_view(found) if tensor.is_neg() else found
        strides = [2 * step for step in tensor.stride()]
        pairs = flat.as_strided([*tensor.shape, 2], [*strides, 1], 2 * tensor.storage_offset())
        found = torch.view_as_complex(pairs)
        return found.conj() if tensor.is_conj() else found

    def _forget(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            if _is_plain(tensor):
                self._known.pop(tensor.untyped_storage()._cdata, None)

    def followed(self, tensor: Tensor) -> bool:
        """Whether an operator read or wrote its memory: it has shadows then, which are other than its own value."""
        known = self._known.get(tensor.untyped_storage()._cdata) if _is_plain(tensor) else None
        return known is not None and not known.alive.expired() and known.dtype == _real(tensor.dtype)

    def exact(self, tensor: Tensor) -> Tensor:
        """The float64 value of a tensor."""
        return self._view(tensor.detach(), 0).clone()

    def rounding(self, tensor: Tensor) -> float:
        """The largest change of an element by the perturbations."""
        if not tensor.numel():
            return 0.0
        exact, *others = (self._view(tensor.detach(), run) for run in range(RUNS))
        found = torch.stack([(other - exact).abs() for other in others])
        found = found[torch.isfinite(found)]
        return found.max().item() if found.numel() else 0.0


def _tensors(value: object) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]


def _is_inexact(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _is_plain(tensor: Tensor) -> bool:
    plain = type(tensor) in (Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    return plain and not tensor.is_meta and not tensor.is_quantized and not tensor._is_zerotensor()


def _real(dtype: torch.dtype) -> torch.dtype:
    return {torch.complex64: torch.float32, torch.complex128: torch.float64, torch.complex32: torch.float16}.get(
        dtype, dtype
    )


def _is_view(func: Any) -> bool:
    """Whether its results share storage with its inputs, and it writes nothing."""
    aliases = [each.alias_info for each in func._schema.returns]
    return bool(aliases) and all(each is not None and not each.is_write for each in aliases)
