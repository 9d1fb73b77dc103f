"""What may change for a program that was captured once: other inputs, each with one thing changed that a capture may
have baked in, and plain values that it reads and that are not arguments.
"""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_map_only

from explorer.ir import graph
from explorer.ir.graph import DTYPE_NAMES
from explorer.records.check.trial import duplicate
from explorer.records.data.methods import TriedInputData

Plain = (bool, int, float)


@dataclass(frozen=True)
class FreeVariable:
    """Another value for a free variable. `kind` is "global", "closure" or "attribute"; `was` is the original."""

    kind: str
    name: str
    value: Any
    was: Any

    @contextmanager
    def on(self, fn: Callable[..., object]) -> Iterator[None]:
        """`fn` reads the other value inside the block."""
        if self.kind == "attribute":
            setattr(fn, self.name, self.value)
        elif self.kind == "global":
            function(fn).__globals__[self.name] = self.value
        else:
            _cell(fn, self.name).cell_contents = self.value
        try:
            yield
        finally:
            if self.kind == "attribute":
                setattr(fn, self.name, self.was)
            elif self.kind == "global":
                function(fn).__globals__[self.name] = self.was
            else:
                _cell(fn, self.name).cell_contents = self.was


def free_variables(fn: Callable[..., object]) -> Iterator[FreeVariable]:
    """Each plain free variable that `fn` itself reads, with another value."""
    if isinstance(fn, torch.nn.Module):
        names = [name for name in vars(fn) if not name.startswith("_") and name != "training"]
        plain = ((name, getattr(fn, name)) for name in names if _is_plain(getattr(fn, name)))
        yield from (_changed_variable("attribute", *each) for each in plain)
        return
    if not isinstance(fn, types.FunctionType):
        return
    for name in fn.__code__.co_names:
        if _is_plain(value := fn.__globals__.get(name)):
            yield _changed_variable("global", name, value)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        if _is_plain(value := cell.cell_contents):
            yield _changed_variable("closure", name, value)


@contextmanager
def containers(fn: Callable[..., object]) -> Iterator[dict[str, Any]]:
    """The lists, dicts and sets among the globals and closures that `fn` itself names; their items are put back at the
    end of the block."""
    found: dict[str, Any] = {}
    if isinstance(fn, types.FunctionType):
        found.update((name, fn.__globals__.get(name)) for name in fn.__code__.co_names)
        found.update(inspect.getclosurevars(fn).nonlocals)
    found = {name: value for name, value in found.items() if type(value) in (list, dict, set)}
    before = {name: copy.copy(value) for name, value in found.items()}
    try:
        yield found
    finally:
        for name, value in found.items():
            value.clear()
            (value.extend if isinstance(value, list) else value.update)(before[name])


def _is_plain(value: object) -> bool:
    return isinstance(value, Plain)


def _changed_variable(kind: str, name: str, value: Any) -> FreeVariable:
    return FreeVariable(kind, name, (not value) if isinstance(value, bool) else value + 1, value)


def function(fn: Callable[..., object]) -> types.FunctionType:
    """The Python function under `fn`. Raises TypeError where there is none."""
    if isinstance(fn, torch.nn.Module):
        fn = type(fn).forward
    found = getattr(fn, "__func__", fn)
    if not isinstance(found, types.FunctionType):
        raise TypeError(f"{fn!r} is not a Python function")
    return found


def _cell(fn: Callable[..., object], name: str) -> types.CellType:
    found = function(fn)
    assert found.__closure__ is not None
    return found.__closure__[found.__code__.co_freevars.index(name)]


Call = tuple[tuple[Any, ...], dict[str, Any]]

LARGER = {torch.float32: torch.float64, torch.float16: torch.float32, torch.bfloat16: torch.float32,
          torch.int32: torch.int64, torch.float64: torch.float32, torch.int64: torch.int32}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """`fact` is what differs from the captured call: "values", "shape", "dtype", or the name of an argument or a free
    variable; "" for the call itself. `variable` is the changed free variable, if any."""

    name: str
    change: str
    fact: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    variable: FreeVariable | None = None

    def with_free_variable(self, fn: Callable[..., object]) -> AbstractContextManager[None]:
        """`fn` reads the changed free variable inside the block."""
        return nullcontext() if self.variable is None else self.variable.on(fn)

    def copy(self) -> Call:
        """Arguments for one call, so that no other call sees what it mutates."""
        args, kwargs = duplicate((self.args, dict(self.kwargs)))
        return args, kwargs

    def data(self, expected: str) -> TriedInputData:
        return TriedInputData(self.name, self.change, self.text(), expected)

    def text(self) -> str:
        named = [*map(describe, self.args), *(f"{name}={describe(value)}" for name, value in self.kwargs.items())]
        return ", ".join(named)


def inputs(fn: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[Variant, ...]:
    """The call itself, and others that its arguments allow: floating-point tensors negated (so that branches on values
    go the other way), one more along a size that eager allows to change, another dtype, and each plain argument and
    free variable changed by itself."""
    given = Variant("as captured", "the call that was captured", "", args, kwargs)
    return (given, *(other for other in _others(fn, args, kwargs) if other is not None))


def _others(
    fn: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Iterator[Variant | None]:
    whole = (args, dict(kwargs))
    if any(_signed(leaf) for leaf in tree_leaves(whole)):
        yield _changed("other values", "every floating-point tensor negated", "values", _mapped(whole, _negated))
    yield _longer(fn, whole)
    if any(_signed(leaf) for leaf in tree_leaves(whole)) and not isinstance(fn, torch.nn.Module):
        changed = _mapped(whole, _retyped)
        kinds = dict.fromkeys(DTYPE_NAMES[leaf.dtype] for leaf in tree_leaves(changed) if _signed(leaf))
        yield _changed("other dtype", f"floating-point tensors as {', '.join(kinds)}", "dtype", changed)
    for path, leaf in tree_flatten_with_path(whole)[0]:
        if isinstance(leaf, (bool, int, float)):
            name = _argument(path)
            other = (not leaf) if isinstance(leaf, bool) else leaf + 1
            yield _changed(
                f"other {name}", f"{name}: {other!r} instead of {leaf!r}", name, _replaced(whole, path, other)
            )
    for variable in free_variables(fn):
        name = f"{variable.kind} {variable.name}"
        yield Variant(f"other {name}", f"{variable.value!r} instead of {variable.was!r}", name, args, kwargs, variable)


def _changed(name: str, change: str, fact: str, call: Call) -> Variant:
    return Variant(name, change, fact, call[0], call[1])


def _longer(fn: Callable[..., object], call: Call) -> Variant | None:
    """One more along the first size that can change: everywhere it occurs, or for the first tensor that has it alone.

    Eager is asked, on copies, which sizes can.
    """
    sizes = dict.fromkeys(size for leaf in tree_leaves(call) if isinstance(leaf, torch.Tensor) for size in leaf.shape)
    for size in (size for size in sizes if size > 1):
        made = _mapped(call, partial(_extended, size=size))
        if _runs(fn, made):
            return _changed("other shape", f"each size {size} becomes {size + 1}", "shape", made)
    return None


def _runs(fn: Callable[..., object], call: Call) -> bool:
    args, kwargs = duplicate(call)
    called = copy.deepcopy(fn) if isinstance(fn, torch.nn.Module) else fn
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            called(*args, **kwargs)
        except Exception:  # eager refuses this size in whatever way the program refuses
            return False
    return True


def _extended(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """`tensor` with its last slice repeated along each dimension of `size`."""
    made = tensor.detach()
    for dim, length in enumerate(tensor.shape):
        if length == size:
            made = torch.cat([made, made.narrow(dim, length - 1, 1)], dim)
    return made.requires_grad_(tensor.requires_grad)


def _mapped(call: Call, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    args, kwargs = tree_map_only(torch.Tensor, change, call)
    return args, kwargs


def _negated(tensor: torch.Tensor) -> torch.Tensor:
    return (-tensor.detach()).requires_grad_(tensor.requires_grad) if _signed(tensor) else tensor


def _retyped(tensor: torch.Tensor) -> torch.Tensor:
    if not _signed(tensor):
        return tensor
    return tensor.detach().to(LARGER[tensor.dtype]).requires_grad_(tensor.requires_grad)


def _signed(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype in LARGER and leaf.is_floating_point()


def _replaced(call: Call, path: object, value: object) -> Call:
    found, spec = tree_flatten_with_path(call)
    leaves = [value if each == path else leaf for each, leaf in found]
    args, kwargs = torch.utils._pytree.tree_unflatten(leaves, spec)
    return args, kwargs


def _argument(path: Any) -> str:
    """ "argument 2" or a keyword's name, with what leads into it."""
    top, first, *rest = path
    name = f"argument {first.idx}" if top.idx == 0 else str(first.key)
    return name + "".join(map(str, rest))


def describe(value: object) -> str:
    """A value in a few words: "f32[4, 8]", "2", "[f32[3], True]"."""
    if isinstance(value, torch.Tensor):
        return graph.describe(value)
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(describe, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {describe(each)}" for key, each in value.items()) + "}"
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value)
    return type(value).__name__
