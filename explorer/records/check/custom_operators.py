"""Whether the fake implementation of a custom operator says what the real one does, on the inputs of one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from explorer.ir.record import OperatorCheckData, RecordData

BUILT_IN = frozenset(
    "aten prims prim inductor quantized profiler c10d _c10d_functional c10d_functional debugprims higher_order mkldnn "
    "mkl onednn sparse torchvision _quantized rngprims static_runtime symm_mem streams fsdp bundled_autograd".split()
)
"""Namespaces of operators that came with torch."""

MOST_CALLS = 100
"""Of one operator that are looked at."""


def is_custom(target: str) -> bool:
    """Whether a graph node's target, such as "docs.doubled.default", is an operator that somebody defined."""
    parts = target.split(".")
    return len(parts) == 3 and parts[0] not in BUILT_IN | {"torch", "math", "operator"} and hasattr(torch.ops, parts[0])


def custom_operators(record: RecordData) -> bool:
    """Whether a compile has one in its graph, or failed under fake tensors, perhaps because of one."""
    for compile in record.compiles:
        graph = next((stage.graph for stage in compile.stages if stage.graph is not None), None)
        if graph is not None and any(is_custom(node.target) for node in graph.nodes if node.op == "call_function"):
            return True
    failed = (record.error, *(compile.error for compile in record.compiles), *(each.message for each in record.errors))
    return any("fake" in each for each in failed)


class OperatorChecks(TorchDispatchMode):
    """Inside it, each call of a custom operator is made as it is, and by its fake implementation."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: dict[str, int] = {}
        self.found: dict[str, dict[str, None]] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = str(func)
        if not is_custom(name) or self.calls.get(name, 0) >= MOST_CALLS:
            return func(*args, **kwargs)
        self.calls[name] = self.calls.get(name, 0) + 1
        found = self.found.setdefault(name, {})
        given, _ = tree_flatten((args, kwargs))
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        before = [each.detach().clone() for each in tensors]
        fake, problem = _by_fake(func, args, kwargs)
        real = func(*args, **kwargs)
        found.update(dict.fromkeys(_writes(func, tensors, before, args, kwargs)))
        if problem:
            found[problem] = None
        else:
            found.update(dict.fromkeys(_differences(real, fake[0], tensors, fake[1])))
        return real

    def results(self) -> tuple[OperatorCheckData, ...]:
        return tuple(OperatorCheckData(name, calls, tuple(self.found[name])) for name, calls in self.calls.items())


def _by_fake(
    func: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[tuple[Any, list[Any]], str]:
    """What the fake implementation returns, with its inputs; or how it fails."""
    mode = FakeTensorMode()
    known: dict[int, Any] = {}

    def faked(value: object) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in known:
            known[id(value)] = mode.from_tensor(value)
        return known[id(value)]

    try:
        fake_args, fake_kwargs = tree_map(faked, (args, kwargs))
        with mode:
            made = func(*fake_args, **fake_kwargs)
    except Exception as error:  # the person's own code, or torch because there is none
        return (None, []), f"the fake implementation raises {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    given, _ = tree_flatten((fake_args, fake_kwargs))
    return (made, [each for each in given if isinstance(each, torch.Tensor)]), ""


def _writes(
    func: Any,
    tensors: list[torch.Tensor],
    before: list[torch.Tensor],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> Iterator[str]:
    """Inputs that the real one wrote to, although the schema does not say so."""
    named: dict[int, tuple[str, bool]] = {}
    for place, argument in enumerate(func._schema.arguments):
        value = args[place] if place < len(args) else kwargs.get(argument.name)
        writes = argument.alias_info is not None and argument.alias_info.is_write
        for leaf in tree_flatten(value)[0]:
            if isinstance(leaf, torch.Tensor):
                named[id(leaf)] = argument.name, writes
    for tensor, was in zip(tensors, before, strict=True):
        name, writes = named.get(id(tensor), ("an input", False))
        if not writes and not torch.equal(torch.nan_to_num(tensor.detach()), torch.nan_to_num(was)):
            yield f"the real implementation writes to {name}, and mutates_args does not name it"


def _differences(real: object, fake: object, tensors: list[torch.Tensor], fakes: list[torch.Tensor]) -> Iterator[str]:
    ours, theirs = (tree_flatten(each)[0] for each in (real, fake))
    if len(ours) != len(theirs):
        yield f"the real implementation returns {len(ours)} values, the fake one {len(theirs)}"
        return
    for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        where = "the output" if len(ours) == 1 else f"output {place}"
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            if type(one) is not type(other):
                yield f"{where} is a {type(one).__name__}, that of the fake implementation a {type(other).__name__}"
            continue
        for what, of in FACTS.items():
            with suppress(RuntimeError, NotImplementedError):  # sparse ones have no strides, say
                if of(one) != of(other):
                    are = "are" if what.endswith("s") else "is"
                    yield f"{what} of {where} {are} {of(one)}, the fake implementation says {of(other)}"
        a, b = _alias(one, tensors), _alias(other, fakes)
        if a != b:
            aliases = [f"shares memory with input {n}" if n is not None else "has memory of its own" for n in (a, b)]
            yield f"{where} {aliases[0]}, the fake implementation says that it {aliases[1]}"


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Of the dimensions that they matter in."""
    return tuple(stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)


FACTS: Mapping[str, Callable[[torch.Tensor], object]] = {
    "the shape": lambda each: tuple(map(_size_text, each.shape)),
    "the dtype": lambda each: str(each.dtype),
    "the device": lambda each: each.device.type,
    "the strides": lambda each: tuple(map(_size_text, _strides(each))) if each.numel() else (),
}


def _size_text(size: int | torch.SymInt) -> int | str:
    return size if isinstance(size, int) else str(size)


def _alias(tensor: torch.Tensor, inputs: list[torch.Tensor]) -> int | None:
    """The first of the inputs that it lies in the memory of."""
    storage = tensor.untyped_storage()._cdata
    return next((n for n, each in enumerate(inputs) if each.untyped_storage()._cdata == storage), None)
