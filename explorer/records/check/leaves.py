"""What a value holds that can be compared: tensors, numbers and texts by name, in containers, objects and closures."""

from __future__ import annotations

import array
import datetime
import decimal
import enum
import fractions
import functools
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from explorer.core.libraries import is_written_in_c
from explorer.records.check.isolate import ABSENT, PLAIN, compiled_from, key_text, slots

MOST = 100_000
"""Leaves of one value that are compared."""

CONSTANTS = (
    *PLAIN, complex, types.EllipsisType, range, slice, torch.dtype, torch.device, torch.Size, torch.layout,
    torch.memory_format, numpy.generic, numpy.dtype, datetime.date, datetime.time, datetime.timedelta,
    datetime.tzinfo, decimal.Decimal, fractions.Fraction,
)  # fmt: skip
"""What is compared by its own equality."""

BASES: Mapping[type, Callable[[Any], Any]] = {
    int: int.__int__, float: float.__float__, complex: complex.__complex__, str: str.__str__, bytes: bytes.__bytes__,
}  # fmt: skip
"""Classes that programs derive from, by what gives their own value, whatever methods the derived class has."""

NUMERIC = "biufc"
"""The kinds of NumPy's dtypes that torch has too."""


@dataclass(frozen=True)
class Opaque:
    """Something that is not looked into: any two of one class compare as equal."""

    kind: str

    def __repr__(self) -> str:
        return f"a {self.kind}"


@dataclass(frozen=True)
class Same:
    """An object that was met before, under the name `path`."""

    path: str

    def __repr__(self) -> str:
        return f"the object {self.path}"


class Leaves(dict[str, Any]):
    """What one or more values hold, by name."""


def leaves(value: object, path: str) -> Leaves:
    """The leaves of a value by name: tensors (of arrays too), constants, the class of each container and object, and
    `Opaque` for what is not looked into. Nothing of the user's runs."""
    found = Leaves()
    seen: dict[int, str] = {}
    waiting: list[tuple[str, Any]] = [(path, value)]
    while waiting:
        name, value = waiting.pop()
        if len(found) >= MOST:
            found[f"the rest of {path}"] = Opaque(f"value of more than {MOST:,} parts")
            break
        if isinstance(value, torch.Tensor):
            waiting += reversed([*_attributes(name, value)])
        if isinstance(value, torch.Tensor) or _is_constant(value):
            found[name] = value
            continue
        if not isinstance(value, tuple):
            if id(value) in seen:
                found[name] = Same(seen[id(value)])
                continue
            seen[id(value)] = name
        parts = list(_parts(name, value))
        if len(parts) == 1 and parts[0][0] == name:
            found[name] = parts[0][1]
        else:
            found[f"class of {name}"] = _class_name(type(value))
            waiting += reversed(parts)
    return found


def _is_constant(value: object) -> bool:
    """Whether it is a leaf. Of a class that is written in Python no equality is asked: that may be the program's."""
    if isinstance(value, (Opaque, Same)) or type(value) in CONSTANTS:
        return True
    return isinstance(value, CONSTANTS) and is_written_in_c(type(value))


def _class_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _parts(path: str, value: object) -> Iterator[tuple[str, Any]]:
    """What a value holds. What is a leaf itself has one part, of its own name."""
    if isinstance(value, numpy.ndarray):
        taken = value.dtype.kind in NUMERIC and value.dtype.isnative and value.dtype.itemsize <= 16
        yield path, torch.from_numpy(value.copy(order="C")) if taken else Opaque(f"array of {value.dtype}")
    elif value is ABSENT:
        yield path, Opaque("deleted attribute")
    elif isinstance(value, enum.Enum):
        yield path, f"{_class_name(type(value))}.{value._name_}"
    elif (base := next((base for base in BASES if isinstance(value, base)), None)) is not None:
        yield f"value of {path}", BASES[base](value)
        yield from _attributes(path, value)
    elif isinstance(value, (bytearray, array.array)):
        yield path, bytes(value)
    elif isinstance(value, dict):
        yield from _of_dict(path, value)
        yield from _attributes(path, value)
    elif isinstance(value, (list, tuple, deque)):
        names = getattr(type(value), "_fields", None) if isinstance(value, tuple) else None
        for number, each in enumerate(value):
            yield (f"{path}.{names[number]}" if names else f"{path}[{number}]"), each
        yield from _attributes(path, value)
    elif isinstance(value, (set, frozenset)):
        yield from _of_set(path, value)
    elif isinstance(value, types.FunctionType):
        yield from _of_function(path, compiled_from(value))
    elif isinstance(value, types.MethodType):
        yield f"{path}.__func__", value.__func__
        yield f"{path}.__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield f"{path}.func", value.func
        yield f"{path}.args", value.args
        yield f"{path}.keywords", value.keywords
    elif isinstance(value, (type, types.ModuleType)):
        yield path, f"{type(value).__name__} {value.__name__}"
    elif isinstance(value, BaseException):
        yield f"{path}.args", value.args
        yield from _attributes(path, value)
    else:
        yield from _attributes(path, value)
        base = next(kind for kind in type(value).__mro__ if is_written_in_c(kind))
        if base is not object:
            yield (path if base is type(value) else f"contents of {path}"), Opaque(base.__name__)


def _of_dict(path: str, value: dict[object, object]) -> Iterator[tuple[str, Any]]:
    texts = []
    items = OrderedDict.items(value) if isinstance(value, OrderedDict) else dict.items(value)  # its order is its own
    for number, (key, each) in enumerate(items):
        known = key_text(key)
        texts.append(text := known or f"key {number}")
        yield f"{path}[{text}]", each
        if not known:
            yield f"key {number} of {path}", key
    yield f"keys of {path}", ", ".join(texts)


def _of_set(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    members = list(set.__iter__(value) if isinstance(value, set) else frozenset.__iter__(value))
    if not all(map(key_text, members)) and len(members) > 1:
        yield f"length of {path}", len(members)
        yield f"members of {path}", Opaque("set of objects")
        return
    numbers = all(type(each) in (bool, int, float) for each in members)
    for number, each in enumerate(sorted(members, key=None if numbers else key_text)):
        yield f"{path}, member {number}", each


def _of_function(path: str, value: object) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, types.FunctionType):
        yield f"{path}.__wrapped__", value
        return
    yield f"{path}.__code__", value.__code__.co_qualname
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        if cell != types.CellType():
            yield f"{name} of {path}", cell.cell_contents
    yield f"{path}.__defaults__", value.__defaults__
    yield f"{path}.__kwdefaults__", value.__kwdefaults__
    yield from _attributes(path, value)


MODULE = frozenset(vars(torch.nn.Module()))
"""Attributes that every module has."""


MARKS = "_dynamo_"
"""How the attributes begin that Dynamo itself leaves on tensors."""


def _attributes(path: str, value: object) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, of its dictionary and its slots; of a module its parameters, buffers and modules
    under their own names."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        held = {}
    if isinstance(value, torch.nn.Module):
        for kind in ("_parameters", "_buffers", "_modules"):
            yield from ((f"{path}.{name}", each) for name, each in held.get(kind, {}).items())
        yield f"{path}.training", held.get("training")
        held = {name: each for name, each in held.items() if name not in MODULE}
    if isinstance(value, torch.Tensor):
        held = {name: each for name, each in held.items() if not name.startswith(MARKS)}
    yield from ((f"{path}.{name}", each) for name, each in held.items())
    for name, slot in slots(type(value)):
        try:
            yield f"{path}.{name}", slot.__get__(value, type(value))
        except AttributeError:
            continue  # the slot is empty
