"""What the arguments of a call, and the tensors that it reaches, are called: by parameter, and by where the program
keeps them, so that copies of one tensor, and the same tensor before and after a compile, have one name."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from explorer.records.check.isolate import compiled_from, is_users, is_users_module, key_text, unused

MOST = 100_000
"""Objects that are looked at; tensors that lie beyond have no name."""

CONSTANTS = (
    types.NoneType, bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, set, frozenset,
)  # fmt: skip
"""What holds no tensor, or none in an order that copies share."""


def tensors_reached(fn: Callable[..., object], given: Mapping[str, object]) -> dict[str, torch.Tensor]:
    """Tensors by the path that leads to them, each by the first: from the values `given` by name, then from what `fn`
    reads by its own names: attributes, closures, globals, defaults, and what the user's functions that it names read.
    Parameters and buffers of a module have the names that `named_parameters` gives them. Nothing of the user's runs."""
    found: dict[str, torch.Tensor] = {}
    seen: dict[int, tuple[str, Any]] = {}
    waiting: list[tuple[str, Any]] = [*given.items(), ("", fn)]
    for path, value in waiting:  # grows while it is read: what is near has the first name
        if isinstance(value, CONSTANTS) or id(value) in seen or len(seen) > MOST:
            continue
        seen[id(value)] = path, value
        if isinstance(value, torch.Tensor):
            found[unused(path, found)] = value
        else:
            waiting += _parts(path, value, seen)
    return found


def named_arguments(
    fn: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object], taken: Iterable[str] = ()
) -> dict[str, Any]:
    """Arguments by the parameters that take them, or by their position. Nothing of the user's runs."""
    names = _parameters(fn)
    found: dict[str, Any] = {}
    given = [(names[n] if n < len(names) else f"arguments[{n}]", value) for n, value in enumerate(args)]
    for name, value in (*given, *kwargs.items()):
        found[unused(name, {*taken, *found})] = value
    return found


def _parameters(fn: object) -> tuple[str, ...]:
    """The names of the parameters that take positional arguments."""
    if isinstance(fn, functools.partial):
        return _parameters(fn.func)[len(fn.args) :]
    if isinstance(fn, torch.nn.Module):
        return _parameters(type(fn).forward)[1:]
    if isinstance(fn, types.MethodType):
        return _parameters(fn.__func__)[1:]
    if isinstance(fn, types.FunctionType):
        original = compiled_from(fn)
        code = fn.__code__
        return code.co_varnames[: code.co_argcount] if original is fn else _parameters(original)
    return ()


def _parts(path: str, value: object, seen: Mapping[int, tuple[str, object]]) -> Iterator[tuple[str, Any]]:
    """`seen` has the paths of what was met before, by id: a key that is an object is called by its own."""
    dot = f"{path}." if path else ""
    if isinstance(value, types.ModuleType):
        return
    if isinstance(value, torch.nn.Module):
        for kind in ("_parameters", "_buffers", "_modules"):
            yield from ((f"{dot}{name}", each) for name, each in vars(value).get(kind, {}).items())
    if isinstance(value, dict):
        for number, (key, item) in enumerate(dict.items(value)):
            known, _ = seen.get(id(key), ("", None))
            yield f"{path}[{key_text(key) or known or f'key {number}'}]", item
    elif isinstance(value, (list, tuple)):
        yield from ((f"{path}[{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from ((path, value.func), (f"{dot}args", value.args), (f"{dot}keywords", value.keywords))
    elif isinstance(value, types.MethodType):
        yield from ((path, value.__self__), (path, value.__func__))
    elif isinstance(value, types.FunctionType):
        original = compiled_from(value)
        yield from _of_function(original) if isinstance(original, types.FunctionType) else ((path, original),)
        return
    elif isinstance(value, type):
        return
    yield from ((f"{dot}{name}", each) for name, each in getattr(value, "__dict__", {}).items())
    for base in type(value).__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.FunctionType) and is_users(member.__code__):
                yield "", member
            elif isinstance(member, types.MemberDescriptorType) and hasattr(value, name):
                yield f"{dot}{name}", getattr(value, name)


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function reads, under its own names for it."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if cell != types.CellType():
            yield name, cell.cell_contents
    defaults = function.__defaults__ or ()
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    yield from zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
    if is_users(function.__code__):
        yield from _globals(function.__code__, function.__globals__)


def _globals(code: types.CodeType, namespace: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    for name in code.co_names:
        value = namespace.get(name)
        if isinstance(value, types.ModuleType):
            if is_users_module(value.__name__):
                held = vars(value)
                yield from ((f"{name}.{each}", held[each]) for each in code.co_names if each in held)
        else:
            yield name, value
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant, namespace)
