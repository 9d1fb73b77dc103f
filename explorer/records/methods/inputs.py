"""Other inputs for a program that was captured on one: each changes one thing that a capture may have baked in."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_map_only

from explorer.ir import graph
from explorer.ir.graph import DTYPE_NAMES
from explorer.ir.methods import TriedInputData
from explorer.records.check.trial import duplicate
from explorer.records.methods.free_variables import FreeVariable, free_variables

Call = tuple[tuple[Any, ...], dict[str, Any]]

LARGER = {torch.float32: torch.float64, torch.float16: torch.float32, torch.bfloat16: torch.float32,
          torch.int32: torch.int64, torch.float64: torch.float32, torch.int64: torch.int32}  # fmt: skip


@dataclass(frozen=True)
class Input:
    """`fact` is what differs from the captured call: "values", "shape", "dtype", or the name of an argument or a free
    variable; "" for the call itself. `variable` is the changed free variable, if any."""

    name: str
    change: str
    fact: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    variable: FreeVariable | None = None

    def with_free_variable(self, fn: Callable[..., Any]) -> AbstractContextManager[None]:
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


def inputs(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Input, ...]:
    """The call itself, and others that its arguments allow: floating-point tensors negated (so that branches on values
    go the other way), one more along a size that eager allows to change, another dtype, and each plain argument and
    free variable changed by itself."""
    given = Input("as captured", "the call that was captured", "", args, kwargs)
    return (given, *(other for other in _others(fn, args, kwargs) if other is not None))


def _others(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Input | None]:
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
        yield Input(f"other {name}", f"{variable.value!r} instead of {variable.was!r}", name, args, kwargs, variable)


def _changed(name: str, change: str, fact: str, call: Call) -> Input:
    return Input(name, change, fact, call[0], call[1])


def _longer(fn: Callable[..., Any], call: Call) -> Input | None:
    """One more along the first size that can change: everywhere it occurs, or for the first tensor that has it alone.

    Eager is asked, on copies, which sizes can.
    """
    sizes = dict.fromkeys(size for leaf in tree_leaves(call) if isinstance(leaf, torch.Tensor) for size in leaf.shape)
    for size in (size for size in sizes if size > 1):
        made = _mapped(call, partial(_extended, size=size))
        if _runs(fn, made):
            return _changed("other shape", f"each size {size} becomes {size + 1}", "shape", made)
    return None


def _runs(fn: Callable[..., Any], call: Call) -> bool:
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


def _signed(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype in LARGER and leaf.is_floating_point()


def _replaced(call: Call, path: Any, value: Any) -> Call:
    found, spec = tree_flatten_with_path(call)
    leaves = [value if each == path else leaf for each, leaf in found]
    args, kwargs = torch.utils._pytree.tree_unflatten(leaves, spec)
    return args, kwargs


def _argument(path: Any) -> str:
    """ "argument 2" or a keyword's name, with what leads into it."""
    top, first, *rest = path
    name = f"argument {first.idx}" if top.idx == 0 else str(first.key)
    return name + "".join(map(str, rest))


def describe(value: Any) -> str:
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
