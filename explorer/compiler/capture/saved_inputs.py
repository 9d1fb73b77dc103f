"""Inputs and random generators as they were before a graph that changes them: where the graph raises, the program can
be run again."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from explorer.compiler.capture.hook import unwatched
from explorer.ir.graph import is_refused, set_versions, version
from explorer.ir.settings import generators, set_generators

_autograd: Any = torch._C._autograd


class Before:
    """The tensors, what each was a view of, and its memory: where that is more than `most` bytes, only the version
    counters. `draws`: and torch's random generators. `counted`: each write changes a version."""

    __slots__ = ("counted", "kept", "random", "tensors", "versions")

    most_kept: ClassVar = 1 << 18
    """Bytes, except where the program has to be run again: it handles the error, or did something else before."""

    @unwatched  # on the path of each call, where each of torch's frames would be asked about
    def __init__(self, most: int, draws: bool, counted: bool, *tensors: Tensor) -> None:
        self.counted = counted
        storages = [each.untyped_storage() for each in tensors]
        self.kept: list[Any] | None = None
        self.tensors, self.versions = tensors, list(map(version, tensors))
        if sum(each.nbytes() for each in storages) <= most:
            with torch.no_grad():
                self.kept = [
                    (tensor, tensor.detach(), storage.clone(), recorded(tensor))
                    for tensor, storage in zip(tensors, storages, strict=True)
                ]
        self.random = generators(torch.cuda.is_initialized()) if draws else None

    def put_back(self) -> bool:
        """Whether all are again what they were; where one cannot be, the generators stay as the graph left them."""
        if self.kept is None:
            if not self.counted or self.versions != list(map(version, self.tensors)):
                return False
        elif any(recorded(tensor) is not made_by for tensor, _, _, made_by in self.kept):
            return False
        for tensor, alias, storage, _ in self.kept or ():
            with torch.no_grad():
                if _memory_key(tensor) != _memory_key(alias):
                    tensor.data = alias
                _bytes(alias.untyped_storage())[: storage.nbytes()].copy_(_bytes(storage))
        set_versions(zip(self.tensors, self.versions, strict=True))
        if self.random is not None:
            set_generators(self.random)
        return True


class Drawn:
    """The states of the generators that draws of Python's and NumPy's random numbers move, from before these."""

    __slots__ = ("restores",)

    @unwatched
    def __init__(self, *draws: Any) -> None:
        of = {id(each.moves): each for each in draws}
        self.restores = [each.keep() for each in of.values()]

    def put_back(self) -> None:
        for restore in self.restores:
            restore()


class AfterDraws(Before):
    """For a graph that draws random numbers, again if it raises; `before` is None if it writes nothing."""

    __slots__ = ("before", "drawn")

    def __init__(self, drawn: Drawn, before: Before | None) -> None:
        self.drawn = drawn
        self.before = before

    def put_back(self) -> bool:
        if self.before is not None and not self.before.put_back():
            return False
        self.drawn.put_back()
        return True


def refuses_writes(tensor: Tensor) -> bool:
    """Whether autograd refuses to record a write in place of a tensor: check_inplace, VariableTypeUtils.h."""
    if tensor.is_inference() or not tensor._is_view():
        return tensor.is_leaf and tensor.requires_grad
    base = tensor._base
    of_a_leaf = tensor.requires_grad and base is not None and base.is_leaf
    return of_a_leaf or _autograd._get_creation_meta(tensor) != _autograd.CreationMeta.DEFAULT


def recorded(tensor: Tensor) -> Any:
    """What autograd has recorded of a tensor; None where it records no write, and may refuse to say after one."""
    return None if refuses_writes(tensor) else tensor.grad_fn


def outdated(written: int, *tensors: Tensor) -> tuple[bool, ...]:
    """Which of the tensors autograd refuses to use, now or once it has recorded a write of one of the first `written`:
    views of the same base that no single operator made under autograd."""
    bases = [each._base if each._is_view() else each for each in tensors[:written]]
    return tuple(
        each._is_view()
        and _autograd._get_creation_meta(each) != _autograd.CreationMeta.DEFAULT
        and (any(each._base is base for base in bases) or is_refused(each))
        for each in tensors
    )


def _memory_key(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride()


def _bytes(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
