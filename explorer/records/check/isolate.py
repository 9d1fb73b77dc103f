"""Copies of all that a call may change, so that it can be repeated without changing what the user has.

What a call may change is what its arguments reach, and what the code that it may run reads of the user's own
namespaces: globals, closures and attributes of classes. All of it is copied at once, so that what is one object stays
one, and the namespaces hold the copies while the call is repeated. Code is read, not run, to find what it reads. Where
that finds something that cannot be copied, or a call into a library that may change what cannot, there is no copy.
"""

from __future__ import annotations

import contextvars
import copy
import dis
import enum
import functools
import gc
import logging
import os
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from explorer.core import libraries
from explorer.core.files import OWN_FILES, STANDARD, folder_of_packages
from explorer.core.libraries import is_in, is_written_in_c

MOST_OBJECTS = 200_000
"""Objects that are looked at before a call counts as too large to repeat."""

BY_REFERENCE = (
    types.NoneType, bool, int, float, complex, str, bytes, types.EllipsisType, range, types.ModuleType,
    types.CodeType, torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format, torch.qscheme,
    torch._ops.OpOverload, torch._ops.OpOverloadPacket, enum.Enum, logging.Logger,
)  # fmt: skip
"""What needs no copy: constants, modules, and loggers, whose output a repeat discards."""

CODE = (types.FunctionType, type)
BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType, types.MethodDescriptorType)
SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)

CONTAINERS = (dict, list, set, frozenset, tuple, deque, bytearray)
"""What is put back alike whoever holds it: a library's own is data like the program's."""

UNNAMED = frozenset(("forward", "backward", "setup_context"))
"""Methods that torch calls, and the program need not mention."""

BY_ANY_NAME = frozenset(("getattr", "hasattr", "attrgetter", "methodcaller"))
"""Functions by which code reads attributes that it does not mention."""

NAMING = frozenset(("getattr", "hasattr", "setattr", "delattr"))
"""Builtins whose second argument is the name of an attribute."""

MAKING = frozenset(("__init__", "__new__", "__post_init__"))
"""Methods that run where a class is called, and not where an instance is used."""

SETTING = frozenset(("setattr", "delattr", "vars", "__dict__", "__setattr__", "__delattr__"))
"""Names by which code sets attributes that it does not mention."""

WATCHING = frozenset(("__getattribute__", "__class__", "__dict__"))
"""Names of what a class of the program's may define that runs where the interpreter looks at an object."""

DESCRIPTORS = (
    types.FunctionType, property, staticmethod, classmethod, types.MemberDescriptorType, types.GetSetDescriptorType,
    types.ClassMethodDescriptorType,
)  # fmt: skip
"""What a class holds to give its instances methods and attributes, and no data."""

WEAK = (weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)

CLASS_OF = frozenset(("type", "__class__"))
"""Names by which code finds the class of an object."""

ABSENT = object()
"""What a place holds that has nothing in it."""


class NotIsolated(Exception):
    """A call cannot be repeated on copies; the message says why."""


class TracedInto(NotIsolated):
    """It uses something that stock traces into, so that a call compiled by it is not like one in eager: it fills no
    cache, runs a coroutine where it is made, writes an array of another class than NumPy's twice, asks objects for
    attributes, and makes objects of the program's classes of its own, which end, while weak containers are given
    these."""


@contextmanager
def undone(undo: Callable[[], None]) -> Iterator[None]:
    """`undo` is called in the end; once more where an interrupt came in the middle of it."""
    try:
        yield
    finally:
        try:
            undo()
        except BaseException:
            undo()
            raise


# ------------------------------------------------------------------------------------------------- what data reaches


class Objects:
    """All objects that some data reaches, each by the first path that led to it. Functions and classes are collected
    in `code` and not entered. `holds_classes`: a class is among the data, which the program may call or derive from; an
    object's own class alone is none of it."""

    def __init__(self, strongly: bool = False) -> None:
        self.strongly = strongly
        self.found: dict[int, tuple[object, str]] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self.weak: list[weakref.ref[object]] = []
        self.code: list[tuple[object, str]] = []
        self.holds_classes = False
        self.tables: dict[int, tuple[object, str]] = {}
        """Containers of libraries that functions of theirs name, such as registries and global hooks."""
        self.rebound: list[Binding] = []
        """What functions of libraries rebind in their modules."""
        self.doubts: list[tuple[type[NotIsolated], str]] = []
        """Why code may change what cannot be copied, if it runs. No exceptions: these hold the frames that hold them,
        and so what the program lets go of."""
        self.tells_ends = False
        """The ends of objects of some class are noticed, by `__del__` or a weak container."""

    def add(self, value: object, path: str) -> None:
        waiting = [(value, path)]
        while waiting:
            value, path = waiting.pop()
            not_watched(value, path)
            self.holds_classes |= isinstance(value, type)
            if by_reference(value) or id(value) in self.found:
                continue
            if of_the_process(value):
                continue
            self._met(value, path)
            if isinstance(value, torch.Tensor):
                self.tensors[unused(path, self.tensors)] = value
            if isinstance(value, weakref.ref):
                self.weak.append(value)
                if self.strongly:
                    continue
            if not isinstance(value, CODE):
                with torch._C.DisableTorchFunction():  # a subclass of the program's would see that it is looked at
                    waiting += reversed(list(_parts(value, path)))
                if not isinstance(value, BUILTIN):
                    self.add_class(type(value), f"the class of {path}")

    def add_class(self, kind: type, path: str) -> None:
        """The class of an object, or a base of it."""
        if id(kind) not in self.found:
            self._met(kind, path)

    def _met(self, value: object, path: str) -> None:
        self.found[id(value)] = value, path
        if len(self.found) > MOST_OBJECTS:
            raise NotIsolated(f"it can reach more than {MOST_OBJECTS} objects (the last is {path})")
        if isinstance(value, CODE):
            self.code.append((value, path))

    def changeable(self) -> dict[int, str]:
        """Paths by id of the objects that may change in place."""
        kinds = (torch.Tensor, dict, list, set, deque, bytearray)
        named = self.found.items()
        return {id: path for id, (value, path) in named if isinstance(value, kinds) or _attributes(value)}

    @property
    def bytes(self) -> int:
        """Of the tensors, each storage once."""
        strided = (tensor for tensor in self.tensors.values() if tensor.layout is torch.strided)
        storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in strided}
        return sum(storages.values())


def not_watched(value: object, path: str) -> None:
    """Raises TracedInto for an object that sees it where somebody looks at it: `isinstance` asks for its class."""
    for kind in type(value).__mro__:
        if kind is object or is_written_in_c(kind):
            return
        for name in WATCHING & vars(kind).keys():
            if any(is_users(each.__code__) for each in _functions(vars(kind)[name])):
                raise TracedInto(f"the class of {path} defines {name}, so that inspecting it runs code of the program")


def _parts(value: object, path: str) -> Iterator[tuple[object, str]]:
    """What an object holds, and how it is reached. Raises NotIsolated for what cannot be copied."""
    if isinstance(value, SUSPENDED):
        raise NotIsolated(f"{path} is a {type(value).__name__}, whose position cannot be copied")
    if isinstance(value, dict):
        for number, (key, item) in enumerate(dict.items(value)):
            yield key, f"a key of {path}"
            yield item, f"{path}[{key_text(key) or f'key {number}'}]"
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        for number, item in enumerate(value):
            yield item, f"{path}[{number}]"
    elif isinstance(value, types.MethodType):
        yield value.__self__, f"{path}.__self__"
        yield value.__func__, path
    elif isinstance(value, functools.partial):
        yield value.func, path
        yield value.args, f"{path}.args"
        yield value.keywords, f"{path}.keywords"
    elif isinstance(value, weakref.ref):
        yield value(), path
    elif isinstance(value, contextvars.ContextVar):
        for item in (value.get(None), *gc.get_referents(value)):  # its default
            yield item, f"the value of {path}"
    elif isinstance(value, numpy.ndarray):  # which tells the collector of nothing
        yield value.base, f"{path}.base"
        yield from ((item, f"an element of {path}") for item in objects_in(value))
    elif isinstance(value, BUILTIN):
        yield getattr(value, "__self__", None), f"{path}.__self__"
    elif isinstance(value, types.ModuleType):
        for name, item in list(vars(value).items()):
            if not name.startswith("__"):
                yield item, f"{path}.{name}"
    elif isinstance(value, torch.Tensor):
        if is_traceable_wrapper_subclass(value):
            raise NotIsolated(f"{path} is a {type(value).__name__}, a tensor that holds others")
        if value.is_leaf or value.retains_grad:
            yield value.grad, f"{path}.grad"
        yield value._backward_hooks, f"the hooks of {path}"
        yield value._post_accumulate_grad_hooks, f"the hooks of {path}"
    elif is_written_in_c(type(value)) and not isinstance(value, (bytearray, memoryview)):
        for item in gc.get_referents(value):  # a view of a dictionary, an exception: what it holds, by the collector
            yield item, f"what {path} holds"
    if isinstance(value, torch.nn.Module):
        for held in ("_parameters", "_buffers", "_modules"):
            for name, item in vars(value).get(held, {}).items():
                yield item, f"{path}.{name}"
    for name, item in _attributes(value).items():
        yield item, f"{path}.{name}"


def objects_in(array: NDArray[numpy.void]) -> Iterator[object]:
    """The objects that an array holds, those in its fields included."""
    for name in array.dtype.names or ():
        yield from objects_in(array[name])
    if array.dtype == object:
        yield from array.flat


PLAIN = (types.NoneType, bool, int, float, str, bytes)
LONGEST_KEY = 60


def key_text(key: object) -> str:
    """A dictionary's key as text; "" for one whose text the program's code would write, or that is long."""
    if type(key) is tuple:
        texts = [key_text(each) for each in key]
        return f"({', '.join(texts)})" if all(texts) else ""
    text = repr(key) if type(key) in PLAIN else ""
    return text if len(text) <= LONGEST_KEY else ""


def unused(path: str, among: Collection[str]) -> str:
    """The path, with a number where something else has it already."""
    number = 2
    found = path
    while found in among:
        found, number = f"{path} ({number})", number + 1
    return found


def of_the_process(value: object) -> bool:
    """Whether `process` sees to a value: what a repeat writes to the streams is discarded, and the environment is put
    back as settings are."""
    return value is sys.stdout or value is sys.stderr or isinstance(value, type(os.environ))


def by_reference(value: object) -> bool:
    """Whether a copy may share a value. A program may give a member of its own enumeration attributes, and a number or
    text of its own class."""
    if isinstance(value, enum.Enum):
        return not is_users_module(type(value).__module__)
    if isinstance(value, (int, float, complex, str, bytes)) and hasattr(value, "__dict__"):
        return False
    return isinstance(value, BY_REFERENCE) and not _is_users_own_module(value) or _is_plain_record(value)


def _attributes(value: object) -> dict[str, object]:
    """The instance's own attributes, those in slots included."""
    if isinstance(value, enum.Enum):
        return {name: item for name, item in vars(value).items() if name == "_value_" or not name.startswith("_")}
    if isinstance(value, (*CODE, *BUILTIN, types.MethodType, types.ModuleType)):
        return {}
    found = dict(getattr(value, "__dict__", {}))
    found |= {name: getattr(value, name) for name, _ in slots(type(value)) if hasattr(value, name)}
    return found


def slots(cls: type) -> Iterator[tuple[str, types.MemberDescriptorType]]:
    """What keeps attributes of objects of a class written in Python: its `__slots__`, and members of a base in C."""
    for kind in () if is_written_in_c(cls) else cls.__mro__:
        for name, member in vars(kind).items():
            if isinstance(member, types.MemberDescriptorType) and name != "__dict__":
                yield name, member


# ------------------------------------------------------------------------------------------------- what code reaches


@dataclass(frozen=True, eq=False)
class Binding:
    """Where code finds what it reads that is no argument. `holder` is a namespace, a cell, a class or a function. What
    the library that owns a `private` one holds there is no result: it is put back and not compared. So is a stream,
    which each call writes to through one of its own."""

    holder: object
    name: str
    private: bool = False

    def get(self) -> object:
        if isinstance(self.holder, dict):
            return self.holder.get(self.name, ABSENT)
        if isinstance(self.holder, types.CellType):
            return self.holder.cell_contents
        return vars(self.holder)[self.name] if isinstance(self.holder, type) else getattr(self.holder, self.name)

    def set(self, value: object) -> None:
        if not isinstance(self.holder, dict):
            name = "cell_contents" if isinstance(self.holder, types.CellType) else self.name
            setattr(self.holder, name, value)
        elif value is not ABSENT:
            self.holder[self.name] = value
        else:
            self.holder.pop(self.name, None)


class CodeReader:
    """Reads the user's functions that a call may run, and finds the places that they read or write. What they use of
    libraries and may change more is a doubt, since the call need not reach it.

    A method counts as one that may run when an object of its class is reached and its name is mentioned.
    """

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.places: dict[tuple[int, str], Binding] = {}
        self._scanned: dict[int, object] = {}
        self._classes: dict[type, str] = {}
        self._modules: dict[str, str] = {}
        """Libraries' modules that code uses as values, and their paths."""
        self._stored: set[str] = set()
        """Names of attributes that code sets."""
        self.mentioned: set[str] = set()

    def read(self, function: object) -> None:
        """Whatever a call of `function` may run."""
        self.objects.add(function, called(function))
        position = 0
        while True:
            for value, path in self.objects.code[position:]:
                position += 1
                self._callable(value, path, "", held=True)
            if not self._methods() and position == len(self.objects.code):
                break
        for module, path in self._modules.items():
            if not self.mentioned.isdisjoint(SETTING):
                raise NotIsolated(f"it may set any attribute of {path}, which is a module")
            for name in self._stored:
                namespace = vars(sys.modules[module])
                self.places.setdefault((id(namespace), name), Binding(namespace, name))

    def _methods(self) -> bool:
        """Reads the methods that have come into reach; whether there were any."""
        before = len(self._scanned)
        for kind, path in list(self._classes.items()):
            for name, member in list(vars(kind).items()):
                special = name.startswith("__") and name.endswith("__") and name not in MAKING
                if not special and not self._mentions(name) and name not in UNNAMED:
                    continue
                self.objects.holds_classes |= isinstance(member, classmethod)
                for function in _functions(member):
                    if is_users(function.__code__):
                        self._function(function, f"{kind.__qualname__}.{name}")
                if self._mentions(name) and not isinstance(member, (*DESCRIPTORS, *BUILTIN)):
                    self._data(kind, name, member, f"{path}.{name}")
        return len(self._scanned) > before

    def _mentions(self, name: str) -> bool:
        if name in MAKING and (self.objects.holds_classes or not self.mentioned.isdisjoint(CLASS_OF)):
            return True
        return name in self.mentioned or not self.mentioned.isdisjoint(BY_ANY_NAME)

    def _callable(self, value: object, path: str, module: str, *, held: bool) -> None:
        """Something that may be called. `module` is the library module that it was read from, if it was."""
        if isinstance(value, types.FunctionType):
            original = compiled_from(value)
            if original is not value:
                self.objects.add(original, path)
            elif is_users(value.__code__):
                self._function(value, path)
            elif value.__closure__ and not module:
                self._closure(value, path)
            elif module:
                self._library(value.__code__, value.__globals__)
            if is_users(original.__code__ if isinstance(original, types.FunctionType) else None):
                return
        elif isinstance(value, type):
            end = getattr(getattr(value, "__del__", None), "__code__", None)
            self.objects.tells_ends |= issubclass(value, WEAK) or is_users(end)
            for kind in (*value.__mro__, *type.mro(type(value))):
                own = is_users_module(str(kind.__module__))
                if own or any(is_users(f.__code__) for member in vars(kind).values() for f in _functions(member)):
                    self._classes.setdefault(kind, path)
                    self.objects.add_class(kind, path)
            if issubclass(value, (torch.nn.Module, BaseException)):
                return
        self._use(value, path, module, held=held)

    def _use(self, value: object, path: str, module: str = "", *, held: bool = False) -> None:
        """Code loads something of a library, or a builtin; or it is only `held` where code may find it."""
        it = f"it {'reaches' if held else 'uses'} {path}"
        if id(value) in libraries.EFFECT_OF:
            self.objects.doubts.append((NotIsolated, f"{it}, which may read or change state that cannot be copied"))
        elif module and not _is_repeatable(value, module):
            kind = TracedInto if _home(value, module).partition(".")[0] == "asyncio" else NotIsolated
            self.objects.doubts.append((kind, f"{it}, which may change state that cannot be copied"))

    def _library(self, code: types.CodeType, namespace: dict[str, object]) -> None:
        """What a function of a library changes of its module by itself. What it calls may fill caches."""
        for each in code.co_consts:
            if isinstance(each, types.CodeType):
                self._library(each, namespace)
        for instruction in dis.get_instructions(code):
            name, op = instruction.argval, instruction.opname
            if op in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                self.objects.rebound.append(Binding(namespace, name))
            elif op == "LOAD_GLOBAL" and isinstance(held := namespace.get(name), (dict, list, set, deque)):
                self.objects.tables[id(held)] = held, f"{namespace.get('__name__')}.{name}"

    def _function(self, function: types.FunctionType, path: str) -> None:
        if id(function) in self._scanned:
            return
        self._scanned[id(function)] = function
        self.objects.add(function, path)
        self._closure(function, path)
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(function, name):
                self._data(function, name, getattr(function, name), f"{path}.{name}")
        for name, value in vars(function).items():
            self._data(vars(function), name, value, f"{path}.{name}")
        self._code(function.__code__, function.__globals__, _contents(function))

    def _closure(self, function: types.FunctionType, path: str) -> None:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for name, content in _contents(function).items():
            if name in _rebound(function.__code__):
                private = not is_users(function.__code__)
                self.places.setdefault((id(cells[name]), name), Binding(cells[name], name, private))
            self._data(cells[name], name, content, f"{name} of {path}")

    def _data(self, holder: object, name: str, value: object, path: str) -> None:
        """What a place holds: to be copied, unless it is code or a constant."""
        not_watched(value, path)
        self._use(value, path, held=True)
        if by_reference(value) or of_the_process(value):
            return
        if not isinstance(value, (*CODE, types.ModuleType)):
            self.places.setdefault((id(holder), name), Binding(holder, name))
        self.objects.add(value, path)

    def _code(self, code: types.CodeType, namespace: dict[str, object], cells: Mapping[str, object]) -> None:
        instructions = list(dis.get_instructions(code))
        names = {i.argval for i in instructions if i.opname.endswith(("_ATTR", "_METHOD")) or i.opname == "IMPORT_FROM"}
        self._stored |= {i.argval for i in instructions if i.opname in ("STORE_ATTR", "DELETE_ATTR")}
        named = _named_in_calls(instructions, namespace)
        names |= set(named.values())
        self._stored |= {name for number, name in named.items() if instructions[number].argval in SETTING}
        self.mentioned |= names
        for number, instruction in enumerate(instructions):
            name, op = instruction.argval, instruction.opname
            if number in named:
                continue
            if isinstance(name, types.CodeType):
                self._code(name, namespace, cells)
            elif op in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                self.places.setdefault((id(namespace), name), Binding(namespace, name))
                self.objects.add(namespace.get(name), name)
            elif op == "IMPORT_NAME" and name:
                self._module(sys.modules.get(name), name, name, names)
            elif op in ("LOAD_GLOBAL", "LOAD_NAME"):
                self.mentioned.add(name)
                self._global(name, namespace, instructions[number + 1 :], names)
            elif op == "LOAD_DEREF" and isinstance(cells.get(name), types.ModuleType):
                self._reached(cells, name, cells[name], name, instructions[number + 1 :], names)

    def _module(self, module: object, name: str, path: str, names: set[str], *, held: bool = False) -> None:
        """A module that code uses as a value: it may use of it whatever it names."""
        if is_users_module(name):
            return self.objects.add(module, path)
        self._use(None, path, name, held=held)
        if name not in self._modules and module is not None:
            self._modules[name] = path
        for each in names & vars(module).keys() if module is not None else ():
            value = vars(module)[each]
            self._reached(vars(module), each, value, f"{path}.{each}", (), names - {each}, name, held=True)

    def _global(
        self, name: str, namespace: dict[str, object], following: Sequence[dis.Instruction], names: set[str]
    ) -> None:
        value = namespace.get(name, ABSENT)
        if value is ABSENT:
            found = namespace.get("__builtins__", {})
            value = (found if isinstance(found, dict) else vars(found)).get(name)
        self._reached(namespace, name, value, name, following, names)

    def _reached(
        self, holder: object, name: str, value: object, path: str, following: Sequence[dis.Instruction],
        names: set[str], module: str = "", *, held: bool = False,
    ) -> None:  # fmt: skip
        """What a namespace holds, or what the attributes read next lead to, through modules. `module` is the library
        module that it was read from, if it was; `names` are those that the code mentions; `held`: it does not load it
        from there, as far as is known."""
        not_watched(value, path)
        for instruction in following:
            if not isinstance(value, types.ModuleType) or not instruction.opname.endswith(("_ATTR", "_METHOD")):
                break
            module = "" if is_users_module(value.__name__) else value.__name__
            holder, name, path = vars(value), instruction.argval, f"{path}.{instruction.argval}"
            value = getattr(value, name, None)
            if instruction.opname.startswith(("STORE", "DELETE")):
                self.places.setdefault((id(holder), name), Binding(holder, name, of_the_process(value)))
        if isinstance(value, type):
            self.objects.holds_classes = True
        if isinstance(value, types.ModuleType):
            self._module(value, value.__name__, path, names, held=held)
        elif isinstance(value, CODE) or isinstance(value, BUILTIN) and _is_free(value):
            self._callable(value, path, module or _library(value), held=held)
        else:
            self._use(value, path, "" if by_reference(value) else module, held=held)
            if not module or by_reference(value) or not callable(value):
                self._data(holder, name, value, path)


def _contents(function: types.FunctionType) -> dict[str, object]:
    """What the variables of functions around it hold, apart from those that hold nothing yet."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def _rebound(code: types.CodeType) -> set[str]:
    """The variables of functions around it that code assigns to, itself or in functions inside of it."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_DEREF", "DELETE_DEREF")}
    inner = (_rebound(each) for each in code.co_consts if isinstance(each, types.CodeType))
    return found.union(*inner) & set(code.co_freevars + code.co_cellvars)


def _named_in_calls(instructions: Sequence[dis.Instruction], namespace: dict[str, object]) -> dict[int, str]:
    """Attributes that code names by constants, as in `getattr(x, "name", 0)`, by the position of the instruction that
    loads the builtin of `NAMING`."""
    found = {}
    for number, each in enumerate(instructions):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME") and each.argval in NAMING and each.argval not in namespace:
            name = _second_argument(instructions[number + 1 :])
            if name is not None:
                found[number] = name
    return found


def _second_argument(instructions: Sequence[dis.Instruction]) -> str | None:
    """The second argument of the call whose function was loaded just before, where it is a constant text and the
    arguments are computed in a straight line. `depth` counts the values above the function."""
    depth, constant = 0, None
    for number, each in enumerate(instructions):
        if each.opname in ("PRECALL", "KW_NAMES", "EXTENDED_ARG") or number == 0 and each.opname == "PUSH_NULL":
            continue
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs or depth < 0:
            return None
        called = each.arg if each.opname == "CALL" else None
        if called == depth:
            return constant if isinstance(constant, str) else None
        second = depth == 1 and each.opname == "LOAD_CONST"
        depth += dis.stack_effect(each.opcode, each.arg) if called is None else -(called + 1)
        constant = each.argval if second else constant if depth > 2 else None
    return None


def _is_free(function: object) -> bool:
    """Whether a builtin is bound to no object of its own."""
    return isinstance(getattr(function, "__self__", None), (types.NoneType, types.ModuleType, type))


def _library(value: object) -> str:
    """The module of a function or class that is not the user's; "" for the user's."""
    module = str(getattr(value, "__module__", "") or "builtins")
    return "" if is_users_module(module) else module


def _is_repeatable(value: object, module: str) -> bool:
    """Whether a function or object of a library may be used again, by what is known of the library."""
    if of_the_process(value) or type(value) in CONTAINERS:
        return True
    both = (module, _home(value, module))
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)) and libraries.ASKING.issuperset(both):
        if libraries.ASKS.match(value.__name__):
            return True
    return all(map(_is_harmless, both)) and not any(is_in(name, libraries.NOT_REPEATABLE) for name in both)


def _home(value: object, module: str) -> str:
    return str(getattr(value, "__module__", None) or module)


def _is_harmless(module: str) -> bool:
    root = module.partition(".")[0]
    known = libraries.REPEATABLE
    return root in known or root in sys.stdlib_module_names and root.removeprefix("_") in known


def _is_plain_record(value: Any) -> bool:
    """Whether a value is a record that the interpreter made, as `sys.version_info`, and holds constants alone."""
    return hasattr(type(value), "n_sequence_fields") and all(map(by_reference, value))


def _functions(member: object) -> Iterator[types.FunctionType]:
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    for function in (member.fget, member.fset) if isinstance(member, property) else (member,):
        if isinstance(function, types.FunctionType):
            yield function


COMPILED_FROM = ("__explorer_original__", "_torchdynamo_orig_callable")


def compiled_from(function: object) -> object:
    """What a function or module compiles, where it is one that a compiler made; itself otherwise."""
    for name in COMPILED_FROM:
        function = getattr(function, name, function)
    return function


OTHERS = (*STANDARD, OWN_FILES, "<frozen")
"""How the names of the standard library's files begin, and of this package's."""
BESIDE_TORCH = f"{Path(torch.__file__).parent.parent}{os.sep}"


def _folder_of_packages(file: str) -> str:
    return BESIDE_TORCH if file.startswith(BESIDE_TORCH) else folder_of_packages(file)


def _is_users_file(file: str) -> bool:
    """Whether a file is read like the user's own: of the program, or of a package that nothing is known of."""
    folder = _folder_of_packages(file)
    if not folder:
        return not file.startswith(OTHERS)
    return file[len(folder) :].partition(os.sep)[0].removesuffix(".py") not in libraries.REPEATABLE


def is_users(code: types.CodeType | None) -> bool:
    """Whether code is the user's own, and not of a library, the standard library or this package."""
    return code is not None and _is_users_file(code.co_filename)


def is_programs(code: types.CodeType) -> bool:
    """Whether code is the program's, and not of any package: those act for whoever calls them."""
    return not (code.co_filename.startswith(OTHERS) or _folder_of_packages(code.co_filename))


def is_users_module(name: str) -> bool:
    module = sys.modules.get(name)
    if module is None:  # a namespace that somebody executed code in
        root = name.partition(".")[0]
        return root not in libraries.REPEATABLE and root not in sys.stdlib_module_names
    if name == "__main__":
        return True
    file = getattr(module, "__file__", None)
    return file is not None and file.endswith(".py") and _is_users_file(file)


def _is_users_own_module(value: object) -> bool:
    """Whether a value is one of the program's modules, by which everything in it can be reached."""
    return isinstance(value, types.ModuleType) and is_users_module(value.__name__)


# --------------------------------------------------------------------------------------------------------- the state


def called(function: object) -> str:
    """What a function, or an object that is called like one, is called in paths."""
    return str(getattr(function, "__name__", type(function).__name__))


@dataclass(frozen=True, eq=False)
class State:
    """What a call may change: its arguments by name, what each place holds, and `function`, which may be a module.
    `tensors` are all that these reach, by path; `bytes` is what they take."""

    args: Mapping[str, object]
    places: Sequence[Binding]
    values: Sequence[object]
    objects: Objects = field(repr=False)
    function: object = None
    names: frozenset[str] = frozenset()
    """Attributes and globals that the code mentions."""

    @property
    def tensors(self) -> Mapping[str, torch.Tensor]:
        return self.objects.tensors

    @property
    def bytes(self) -> int:
        return self.objects.bytes

    def copied(self, instead: Mapping[int, torch.Tensor] = MappingProxyType({})) -> State:
        """Copies of all of it that share nothing which may change. A tensor that was computed comes as a leaf, since
        only its value matters to the call; `instead` has tensors, by id, to be taken in place of others. Raises
        NotIsolated."""
        memo: dict[int, object] = dict(instead)
        try:
            for tensor in self.tensors.values():
                if not tensor.is_leaf and id(tensor) not in instead:
                    memo[id(tensor)] = copy.deepcopy(tensor.detach(), memo).requires_grad_(tensor.requires_grad)
            for reference in self.objects.weak:
                if reference() is not None:
                    memo[id(reference)] = weakref.ref(copy.deepcopy(reference(), memo))
            args, values = copy.deepcopy(dict(self.args), memo), [copy.deepcopy(v, memo) for v in self.values]
        except Exception as error:
            raise NotIsolated(f"copying the state that it reaches failed: {type(error).__name__}: {error}") from error
        made = State(args, self.places, values, Objects(), self.function)
        made._follow()
        shared = self.objects.changeable().keys() & made.objects.changeable().keys()
        if shared:
            named = sorted(made.objects.found[each][1] for each in shared)
            raise NotIsolated(f"a copy of {named[0]} is still the same object")
        return made

    def now(self, *, strongly: bool = False) -> State:
        """The same places, with what they hold and reach by now; `strongly`: not what only a weak reference leads to.
        Raises NotIsolated."""
        objects = Objects(strongly)
        made = State(self.args, self.places, [place.get() for place in self.places], objects, self.function)
        made.objects.tables, made.objects.rebound = self.objects.tables, self.objects.rebound
        for value, path in self.objects.code:
            made.objects.add(value, path)
        made._follow()
        return made

    def _follow(self) -> None:
        """Modules first: a parameter is called after its module, and not after the optimizer that updates it."""
        self.objects.add(self.function, called(self.function))
        named = ((place.name, value) for place, value in zip(self.places, self.values, strict=True))
        roots = [(name, value) for name, value in (*self.args.items(), *named) if value is not ABSENT]
        for name, value in sorted(roots, key=lambda root: not isinstance(root[1], torch.nn.Module)):
            self.objects.add(value, name)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the places hold this state's values; then what they held before."""
        before = [place.get() for place in self.places]
        with undone(lambda: self._fill(before)):
            self._fill(self.values)
            yield

    def _fill(self, values: Sequence[object]) -> None:
        for place, value in zip(self.places, values, strict=True):
            place.set(value)


def reached(
    function: Callable[..., object], args: Mapping[str, object], is_known: Callable[[State], bool] = lambda state: False
) -> State:
    """What a call of `function` with these arguments (by name) may change. Changes nothing. `is_known` is asked, where
    its code uses what may change more, whether it is known that the call does not. Raises NotIsolated for what no copy
    can be made of."""
    objects = Objects()
    for name, value in args.items():
        objects.add(value, name)
    code = CodeReader(objects)
    try:
        code.read(function)
    except NotIsolated as refusal:
        raise _why_not_isolated(objects, refusal) from None
    places = list(code.places.values())
    values = [place.get() for place in places]
    state = State(dict(args), places, values, objects, function, frozenset(code.mentioned))
    if objects.doubts and not is_known(state):
        raise _why_not_isolated(objects)
    return state


def _why_not_isolated(objects: Objects, last: NotIsolated | None = None) -> NotIsolated:
    """The first doubt, or the `last` where there is none."""
    kind, why = objects.doubts[0] if objects.doubts or last is None else (type(last), str(last))
    return (TracedInto if objects.tells_ends else kind)(why)
