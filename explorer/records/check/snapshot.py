"""Saves the contents of objects and restores them in place: each stays the same object, with the same memory."""

from __future__ import annotations

import _abc
import abc
import array
import contextvars
import datetime
import decimal
import functools
import inspect
import io
import operator
import random
import re
import struct
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy
import torch
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from explorer.core.libraries import is_written_in_c
from explorer.ir.description import has_no_sizes
from explorer.records.check import isolate
from explorer.records.check.float64 import Float64Run
from explorer.records.check.leaves import MARKS, leaves

STATELESS: tuple[type, ...] = (
    types.ModuleType, types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, types.MappingProxyType, types.SimpleNamespace, slice,
    type({}.keys()), type({}.values()), type({}.items()), property, staticmethod, classmethod,
    super, functools.partial, operator.itemgetter, operator.attrgetter, operator.methodcaller, re.Match,
    struct.Struct, weakref.ProxyType, weakref.CallableProxyType, type(NotImplemented),
    type(datetime.datetime_CAPI), type(inspect.ArgInfo.args), torch.jit.ScriptFunction, torch._C._NodeBase,
    torch._C._DispatchModule,
)  # fmt: skip
"""Classes written in C whose objects hold nothing that changes, or only what is reached through them, besides those
whose objects have a hash by value: these cannot change, as keys of dictionaries."""


class SavedBinding(Protocol):
    """One thing that an object held. `path` is how it is reached, `owner` the object."""

    owner: Any
    path: str

    def changed(self) -> bool: ...

    def put(self) -> None:
        """Make the object hold it again."""

    def written(self) -> Mapping[str, Any]:
        """What it holds now in place of what it held, by path; nothing where that is not for Python to compare."""
        return {}


def alike(one: object, other: object) -> bool:
    """Whether it makes no difference which of two values something holds."""
    if one is other:
        return True
    return type(one) is type(other) and isinstance(one, (int, float, complex, str, bytes)) and repr(one) == repr(other)


def _all_alike(some: Any, others: Any) -> bool:
    return len(some) == len(others) and all(map(alike, some, others))


@dataclass(eq=False)
class Items(SavedBinding):
    """The items of a dictionary, in their order; also the attributes of an object or a class."""

    owner: object
    path: str
    contents: dict[Any, Any]

    def __post_init__(self) -> None:
        self._kind: Any = OrderedDict if isinstance(self.contents, OrderedDict) else dict
        self._keys, self._values = self._now()

    def _now(self) -> tuple[list[Any], list[Any]]:
        return list(self._kind.keys(self.contents)), list(self._kind.values(self.contents))

    def changed(self) -> bool:
        keys, values = self._now()
        return not (_all_alike(keys, self._keys) and _all_alike(values, self._values))

    def put(self) -> None:
        keys, _ = self._now()
        if not _all_alike(keys, self._keys):
            self._kind.clear(self.contents)
        for key, value in zip(self._keys, self._values, strict=True):
            if self._kind.get(self.contents, key, isolate.ABSENT) is not value:
                self._kind.__setitem__(self.contents, key, value)

    def written(self) -> Mapping[str, object]:
        if any(not isinstance(key, isolate.PLAIN) for key in self._now()[0]) or self.contents is self.owner:
            return {self.path: self.contents}
        before = dict(zip(self._keys, self._values, strict=True))
        now = dict(zip(*self._now(), strict=True))
        absent = isolate.ABSENT
        names = [name for name in {**before, **now} if not alike(now.get(name, absent), before.get(name, absent))]
        if isinstance(self.owner, torch.Tensor):
            names = [name for name in names if not name.startswith(MARKS)]
        return {f"{self.path}.{name}": now.get(name, isolate.ABSENT) for name in names}


@dataclass(eq=False)
class Elements(SavedBinding):
    """The elements of a list, a deque or an array of numbers."""

    owner: Any
    path: str

    def __post_init__(self) -> None:
        self._elements = list(self.owner)

    def changed(self) -> bool:
        return not _all_alike(list(self.owner), self._elements)

    def put(self) -> None:
        if isinstance(self.owner, deque):
            deque.clear(self.owner)
            deque.extend(self.owner, self._elements)
        elif isinstance(self.owner, array.array):
            self.owner[:] = array.array(self.owner.typecode, self._elements)
        elif isinstance(self.owner, bytearray):
            self.owner[:] = bytes(self._elements)
        else:
            list.__setitem__(self.owner, slice(None), self._elements)

    def written(self) -> Mapping[str, object]:
        return {self.path: self.owner}


@dataclass(eq=False)
class Members(SavedBinding):
    """What is in a set."""

    owner: set[object]
    path: str

    def __post_init__(self) -> None:
        self._members = list(set.__iter__(self.owner))

    def changed(self) -> bool:
        return set.__ne__(self.owner, set(self._members))

    def put(self) -> None:
        set.clear(self.owner)
        set.update(self.owner, self._members)

    def written(self) -> Mapping[str, object]:
        return {self.path: self.owner}


@dataclass(eq=False)
class Attribute(SavedBinding):
    """What one attribute holds that has no dictionary: of a slot, a class, or a tensor."""

    owner: object
    path: str
    get: Callable[[], object]
    set: Callable[[Any], None]

    def __post_init__(self) -> None:
        self._value = self.get()

    def changed(self) -> bool:
        return not alike(self.get(), self._value)

    def put(self) -> None:
        self.set(self._value)

    def written(self) -> Mapping[str, object]:
        return {self.path: self.get()}


@dataclass(eq=False)
class Attributes(SavedBinding):
    """What an object holds by these names."""

    owner: object
    path: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        self._values = self._now()

    def _now(self) -> list[object]:
        return [getattr(self.owner, name) for name in self.names]

    def changed(self) -> bool:
        return not _all_alike(self._now(), self._values)

    def put(self) -> None:
        for name, value in zip(self.names, self._values, strict=True):
            setattr(self.owner, name, value)


@dataclass(eq=False)
class Registered(SavedBinding):
    """The classes that are registered as subclasses of an abstract one."""

    owner: abc.ABCMeta
    path: str

    def __post_init__(self) -> None:
        self._registered = self._now()

    def _now(self) -> set[Any]:
        return {each for reference in _abc._get_dump(self.owner)[0] if (each := reference()) is not None}

    def changed(self) -> bool:
        return self._now() != self._registered

    def put(self) -> None:
        _abc._reset_registry(self.owner)
        _abc._reset_caches(self.owner)
        for each in self._registered:
            abc.ABCMeta.register(self.owner, each)


class Unseen(Attribute):
    """What is put back and not compared."""

    def written(self) -> Mapping[str, object]:
        return {}


class Position(Unseen):
    """The state of something that tells it, and takes it back: a random generator, or a file in memory. Raises
    NotIsolated where it refuses to tell."""

    def __post_init__(self) -> None:
        try:
            super().__post_init__()
        except Exception as error:
            raise isolate.NotIsolated(f"the state of {self.path} cannot be read: {type(error).__name__}") from error

    def changed(self) -> bool:
        return not _same_state(self.get(), self._value)


def _same_state(one: Any, other: Any) -> bool:
    """Whether two states are the same. The text of an array depends on how the program prints arrays."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, numpy.ndarray):
        return bool(numpy.array_equal(one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(_same_state, one.values(), other.values()))
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_same_state, one, other))
    return repr(one) == repr(other)


@dataclass(eq=False)
class Array(SavedBinding):
    """The elements of a NumPy array, and how it is laid over them."""

    owner: numpy.ndarray[Any, Any]
    path: str

    def __post_init__(self) -> None:
        self._shape = self.owner.shape
        self._dtype = self.owner.dtype
        self._writeable = self.owner.flags.writeable
        self._elements = self.owner.copy()

    def changed(self) -> bool:
        now = self.owner.shape, self.owner.dtype, self.owner.flags.writeable
        if now != (self._shape, self._dtype, self._writeable):
            return True
        if self.owner.dtype == object:
            return not _all_alike(list(self.owner.flat), list(self._elements.flat))
        return self.owner.tobytes() != self._elements.tobytes()

    def put(self) -> None:
        if self.owner.dtype != self._dtype:
            setattr(self.owner, "dtype", self._dtype)  # noqa: B010 - numpy's stubs call it read-only
        if self.owner.shape != self._shape:
            self.owner.resize(self._shape, refcheck=False)
        if self._writeable:
            if not self.owner.flags.writeable:  # one of a tensor's memory refuses to be made what it is
                self.owner.flags.writeable = True
            numpy.copyto(self.owner, self._elements)
        else:
            self.owner.flags.writeable = False

    def written(self) -> Mapping[str, object]:
        return {self.path: self.owner}


HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
"""Attributes of tensors that hold hooks of their gradients."""


def _sizes(tensor: torch.Tensor) -> object:
    return tensor._nested_tensor_size().tolist() if has_no_sizes(tensor) else tensor.shape


def _strides(tensor: torch.Tensor) -> object:
    return tensor._nested_tensor_strides().tolist() if has_no_sizes(tensor) else tensor.stride()


@dataclass(eq=False)
class Description(SavedBinding):
    """All of a tensor but its memory: which memory it looks at and how, its version, its gradient, its hooks."""

    owner: torch.Tensor
    path: str

    def __post_init__(self) -> None:
        with torch.no_grad():
            self._alias = self.owner.detach()
        self._version = _version(self.owner)
        self._needed = self.owner.requires_grad
        self._made_by = self.owner.grad_fn
        self._grad = gradient(self.owner)
        self._retains = self.owner.retains_grad
        self._hooks = {name: getattr(self.owner, name) for name in HOOKS}
        self._hooked = self._hooked_now()

    def _hooked_now(self) -> list[list[object]]:
        return [list((getattr(self.owner, name) or {}).items()) for name in HOOKS]

    def _moved(self) -> bool:
        now, before = self.owner, self._alias
        if (now.dtype, now.layout, _sizes(now)) != (before.dtype, before.layout, _sizes(before)):
            return True
        if now.layout is not torch.strided:
            return True  # its parts are tensors of their own
        return (
            _strides(now) != _strides(before)
            or now.storage_offset() != before.storage_offset()
            or now.untyped_storage()._cdata != before.untyped_storage()._cdata
        )

    def changed(self) -> bool:
        return (
            (self._moved() and self.owner.layout is torch.strided)
            or _version(self.owner) != self._version
            or self.owner.requires_grad != self._needed
            or self.owner.grad_fn is not self._made_by
            or gradient(self.owner) is not self._grad
            or self.owner.retains_grad != self._retains
            or self._hooked_now() != self._hooked
        )

    @property
    def can_be_put(self) -> bool:
        """A tensor's gradient function is not for anyone to set, nor may it retain its gradient no longer."""
        return self.owner.grad_fn is self._made_by and self.owner.retains_grad == self._retains

    def same_but_written(self) -> bool:
        """Whether nothing but the tensor's elements has changed."""
        written, self._version = self._version, _version(self.owner)
        try:
            return not self.changed()
        finally:
            self._version = written

    def put(self) -> None:
        if self.owner.grad_fn is not self._made_by and self._made_by is None and not self.owner._is_view():
            self.owner.detach_()
        if self._moved():
            self.owner.data = self._alias
        if self.owner.requires_grad != self._needed:
            self.owner.requires_grad_(self._needed)
        if gradient(self.owner) is not self._grad:
            self.owner.grad = self._grad
        for (name, hooks), hooked in zip(self._hooks.items(), self._hooked, strict=True):
            if getattr(self.owner, name) is not hooks:
                setattr(self.owner, name, hooks)
            if hooks is not None and list(hooks.items()) != hooked:
                hooks.clear()
                hooks.update(hooked)
        if _version(self.owner) != self._version:
            torch._C._autograd._unsafe_set_version_counter((self.owner,), (self._version,))


def gradient(tensor: torch.Tensor) -> torch.Tensor | None:
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


@dataclass(eq=False)
class Memory(SavedBinding):
    """The memory of tensors."""

    owner: torch.UntypedStorage
    path: str

    def __post_init__(self) -> None:
        self._size = self.owner.nbytes()
        self._bytes = self._now().clone()

    def _now(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.uint8, device=self.owner.device).set_(self.owner)

    def changed(self) -> bool:
        return self.owner.nbytes() != self._size or not torch.equal(self._now(), self._bytes)

    def put(self) -> None:
        if self.owner.nbytes() != self._size:
            self.owner.resize_(self._size)
        self._now().copy_(self._bytes)


# ------------------------------------------------------------------------------------------------- what is kept of what


def kept(value: object, path: str) -> Iterator[SavedBinding]:
    """Everything that changes in an object itself. Raises NotIsolated for one that cannot be put back."""
    if isinstance(value, isolate.CODE):
        if isinstance(value, types.FunctionType) and isolate.is_users(value.__code__):
            yield from _of_function(value, path)
        elif isinstance(value, type) and (isolate.is_users_module(str(value.__module__)) or _is_made_later(value)):
            yield from _of_class(value, path)
        return
    if isinstance(value, (dict, list, deque, bytearray, array.array, set)):
        yield _contents(value, path)
    elif isinstance(value, torch.Tensor):
        yield Description(value, path)
    elif isinstance(value, numpy.memmap):
        raise isolate.TracedInto(f"{path} is a numpy.memmap, and what else sees its file is not known")
    elif isinstance(value, numpy.ndarray):
        yield Array(value, path)
    elif isinstance(value, torch.UntypedStorage):
        yield Memory(value, path)
    elif (position := _position(value, path)) is not None:
        yield position
    else:
        _hidden(value, path)
    yield from _own_attributes(value, path)


def _is_made_later(kind: type) -> bool:
    """Whether a function of a library made the class, as one for each GraphModule, whose methods it sets."""
    return "<locals>" in kind.__qualname__ and not is_written_in_c(kind)


def _contents(value: object, path: str) -> SavedBinding:
    """What is in a container, and not what these things hold."""
    if isinstance(value, dict):
        return Items(value, path, value)
    return Members(value, path) if isinstance(value, set) else Elements(value, path)


def _own_attributes(value: object, path: str) -> Iterator[SavedBinding]:
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        yield Items(value, path, attributes)
    if not is_written_in_c(type(value)):
        yield Attribute(value, f"the class of {path}", functools.partial(type, value), functools.partial(_turn, value))
    for name, slot in isolate.slots(type(value)):
        yield Attribute(value, f"{path}.{name}", *_of_slot(slot, value))


def _turn(value: object, kind: type) -> None:
    """Make an object one of another class, whatever its class says of attributes that are set."""
    object.__setattr__(value, "__class__", kind)


def _of_slot(slot: types.MemberDescriptorType, value: object) -> tuple[Callable[[], object], Callable[[object], None]]:
    def get() -> object:
        try:
            return slot.__get__(value, type(value))
        except AttributeError:
            return isolate.ABSENT

    def put(content: object) -> None:
        if get() is content:  # some can only be read
            return
        if content is not isolate.ABSENT:
            slot.__set__(value, content)
        else:
            slot.__delete__(value)

    return get, put


def _of_function(function: types.FunctionType, path: str) -> Iterator[SavedBinding]:
    yield Items(function, path, vars(function))
    for name in ("__defaults__", "__kwdefaults__", "__code__"):
        yield Attribute(
            function, f"{path}.{name}", functools.partial(getattr, function, name),
            functools.partial(setattr, function, name),
        )  # fmt: skip
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield Attribute(cell, f"{name} of {path}", *_of_cell(cell))


def _of_cell(cell: types.CellType) -> tuple[Callable[[], object], Callable[[object], None]]:
    def get() -> object:
        try:
            return cell.cell_contents
        except ValueError:
            return isolate.ABSENT

    def put(content: object) -> None:
        if content is not isolate.ABSENT:
            cell.cell_contents = content
        elif get() is not isolate.ABSENT:
            del cell.cell_contents

    return get, put


@dataclass(eq=False)
class ClassAttributes(SavedBinding):
    """The attributes of a class."""

    owner: type
    path: str

    def __post_init__(self) -> None:
        self._held = dict(vars(self.owner))
        self._subclasses = weakref.WeakSet[type](type.__subclasses__(self.owner))

    def has_more_subclasses(self) -> bool:
        return not self._subclasses.issuperset(type.__subclasses__(self.owner))

    def changed(self) -> bool:
        now = dict(vars(self.owner))
        return not (_all_alike(list(now), list(self._held)) and _all_alike(list(now.values()), [*self._held.values()]))

    def put(self) -> None:
        now = vars(self.owner)
        for name in [name for name in now if name not in self._held]:
            type.__delattr__(self.owner, name)
        for name, value in self._held.items():
            if now.get(name, isolate.ABSENT) is not value:
                type.__setattr__(self.owner, name, value)


def _of_class(kind: type, path: str) -> Iterator[SavedBinding]:
    yield ClassAttributes(kind, path)
    if isinstance(kind, abc.ABCMeta):
        yield Registered(kind, f"the registry of {path}")


def _position(value: Any, path: str) -> SavedBinding | None:
    if isinstance(value, random.Random):
        own = random.Random  # that of a subclass may be refused, or the program's
        return Position(value, path, functools.partial(own.getstate, value), functools.partial(own.setstate, value))
    if isinstance(value, torch.Generator):
        return Position(value, path, value.get_state, cast(Callable[[Any], None], value.set_state))
    if isinstance(value, numpy.random.RandomState):
        return Position(value, path, value.get_state, value.set_state)
    if isinstance(value, (numpy.random.Generator, numpy.random.BitGenerator)):
        bits: object = value.bit_generator if isinstance(value, numpy.random.Generator) else value
        return Position(
            value, path, functools.partial(getattr, bits, "state"), functools.partial(setattr, bits, "state")
        )
    if isinstance(value, decimal.Context):
        return Position(value, path, value.copy, functools.partial(put_decimal, value))
    if isinstance(value, (type(threading.Lock()), type(threading.RLock()))):
        return Position(value, path, functools.partial(_times_locked, value), functools.partial(_hold, value))
    if isinstance(value, BaseException):
        names = ("args", "__cause__", "__context__", "__suppress_context__", "__traceback__")
        return Attributes(value, path, names)
    if isinstance(value, types.TracebackType):
        return Attributes(value, path, ("tb_next",))
    if isinstance(value, types.CellType):
        return Attribute(value, path, *_of_cell(value))
    if isinstance(value, (io.StringIO, io.BytesIO)) and not value.closed:
        return Position(value, path, *_of_file(value, io.StringIO if isinstance(value, io.StringIO) else io.BytesIO))
    if isinstance(value, contextvars.ContextVar):
        if _unset(value):
            why = f"{path} is a context variable that is not set, and setting it cannot be put back"
            raise isolate.NotIsolated(why)
        return Attribute(value, path, value.get, lambda content: (value.set(content), None)[1])
    reduces: object = (base := _base(value)).__reduce__  # object's own makes one of the base, which may abort
    tells = reduces is not object.__reduce__ and hasattr(base, "__setstate__") and not hasattr(base, "__next__")
    if tells and not _is_known(base):
        return Position(value, path, lambda: value.__reduce__()[2], value.__setstate__)
    return None


def put_decimal(context: decimal.Context, before: decimal.Context) -> None:
    for name in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp"):
        setattr(context, name, getattr(before, name))
    for name in ("flags", "traps"):
        getattr(context, name).update(getattr(before, name))


def _times_locked(lock: Any) -> int:
    """How often a lock is held: once at most, unless it is one that this thread may take again."""
    if isinstance(lock, type(threading.Lock())):
        return int(lock.locked())
    return int(repr(lock).partition("count=")[2].split()[0]) if lock._is_owned() else 0


def _hold(lock: Any, times: int) -> None:
    for _ in range(_times_locked(lock), times):
        lock.acquire()
    for _ in range(times, _times_locked(lock)):
        lock.release()


def _unset(variable: contextvars.ContextVar[object]) -> bool:
    try:
        variable.get()
    except LookupError:
        return True
    return False


def _of_file(file: object, kind: Any) -> tuple[Callable[[], object], Callable[[tuple[str | bytes, int]], None]]:
    """By the methods of `kind`: the program's class may have others of the same names."""

    def put(content: tuple[str | bytes, int]) -> None:
        text, place = content
        same_size = len(kind.getvalue(file)) == len(text)
        if same_size and isinstance(file, io.BytesIO) and isinstance(text, bytes):  # others may look at its memory
            io.BytesIO.getbuffer(file)[:] = text
        else:
            kind.seek(file, 0)
            kind.truncate(file)
            kind.write(file, text)
        kind.seek(file, place)

    return lambda: (kind.getvalue(file), kind.tell(file)), put


def _hidden(value: object, path: str) -> None:
    """Raises NotIsolated for an object that is written in C and holds what nobody can put back."""
    if isinstance(value, functools._lru_cache_wrapper):
        if isolate.is_users(getattr(value.__wrapped__, "__code__", None)):
            raise isolate.TracedInto(f"{path} is a functools cache, whose content cannot be put back")
        return
    if isinstance(value, torch.jit.ScriptModule):
        raise isolate.NotIsolated(f"{path} is a ScriptModule, whose attributes are not seen from Python")
    base = _base(value)
    if _is_known(base) and not _gives_memory(value):
        return
    what = "position cannot be put back" if hasattr(base, "__next__") else "state is not seen from Python"
    raise isolate.NotIsolated(f"{path} is a {type(value).__name__}, whose {what}")


def _gives_memory(value: Any) -> bool:
    """Whether others may write to an object's memory, as to a view's, or that of a structure of C."""
    try:
        with memoryview(value) as memory:
            return not memory.readonly
    except (TypeError, ValueError):  # it gives none, or has been closed
        return False


def _base(value: object) -> type:
    """What C code declares of an object's class."""
    return next(kind for kind in type(value).__mro__ if not _made_in_python(kind))


def _is_known(base: type) -> bool:
    """Whether an object holds nothing unseen by this class, which is written in C."""
    hashed: object = base.__hash__
    by_value = hashed is not None and hashed is not object.__hash__
    holding = base is memoryview or hasattr(base, "__next__")  # a view may be released, for good
    return base is object or issubclass(base, STATELESS) or by_value and not holding


def _made_in_python(kind: type) -> bool:
    if is_written_in_c(kind):
        return False
    own = vars(kind)
    return any(n in own for n in ("__dict__", "__weakref__", "__slots__")) or any(map(_made_in_python, kind.__bases__))


# --------------------------------------------------------------------------------------------------------- a snapshot


@contextmanager
def plainly() -> Iterator[None]:
    """Inside, operations on tensors are those on memory alone: no gradient is recorded, and no mode sees them but a
    float64 run, whose values are those of memory."""
    with ExitStack() as stack:
        following = [each for each in _get_current_dispatch_mode_stack() if isinstance(each, Float64Run)]
        stack.enter_context(torch._C.DisableTorchFunction())
        stack.enter_context(_disable_current_modes())
        stack.enter_context(torch.no_grad())
        for each in following:
            stack.enter_context(each)
        yield


class Snapshot:
    """What everything that a call reaches holds now."""

    def __init__(self, state: isolate.State) -> None:
        """Raises NotIsolated where something could not be put back."""
        self.state = state
        self.kept: list[SavedBinding] = [_of_place(place) for place in (*state.places, *state.objects.rebound)]
        with plainly():
            for table, path in state.objects.tables.values():
                self.kept.append(_contents(table, path))
            for value, path in list(state.objects.found.values()):
                self.kept += kept(value, path)
            self.memory = list(_memory(state))
        self.kept += self.memory

    def changed(self) -> list[SavedBinding]:
        """What has changed since."""
        with plainly():
            return [each for each in self.kept if each.changed()]

    def written(self) -> dict[str, object]:
        """The leaves of what Python objects hold now in place of what they held. What tensors hold is not among it."""
        found: dict[str, object] = {}
        for each in self.kept:
            if not isinstance(each, (Memory, Description)) and each.changed():
                for path, value in each.written().items():
                    found |= leaves(value, path)
        return found

    def put(self, among: list[SavedBinding] | None = None) -> None:
        """Put back all of it, or only what is named."""
        with plainly():
            for each in self.kept if among is None else among:
                if each.changed():
                    each.put()


@contextmanager
def untouched(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """After the block the elements of these tensors are as before it."""
    state = isolate.State({str(number): tensor for number, tensor in enumerate(tensors)}, (), (), isolate.Objects())
    before = Snapshot(state.now())
    with isolate.undone(before.put):
        yield


def _of_place(place: isolate.Binding) -> SavedBinding:
    return (Unseen if place.private else Attribute)(place, place.name, place.get, place.set)


def _memory(state: isolate.State) -> Iterator[Memory]:
    seen: set[int] = set()
    for path, tensor in state.tensors.items():
        if tensor.is_meta or tensor._is_zerotensor():
            continue
        if tensor.layout is not torch.strided:
            raise isolate.NotIsolated(f"{path} is a tensor of layout {tensor.layout}, whose memory is not one piece")
        try:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in seen or not storage.nbytes():
                continue
            seen.add(key)
            yield Memory(storage, path)
        except (NotImplementedError, RuntimeError) as error:
            raise isolate.NotIsolated(f"the memory of {path} cannot be read: {error}") from error
