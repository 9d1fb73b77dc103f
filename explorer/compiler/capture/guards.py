"""What a compile assumes of the values of a frame: a class for each kind of guard, and the C++ checks made of them.

Stock counterpart: torch/_dynamo/guards.py.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from explorer.compiler.capture import hook
from explorer.compiler.capture.resume import progress
from explorer.core.text import count
from explorer.ir.capture import (
    AsTensor,
    Attr,
    Computed,
    Condition,
    Global,
    Guard,
    InputFrame,
    Inside,
    Item,
    Known,
    Listed,
    Local,
    Returned,
    Size,
    Source,
    Stride,
    TypeOf,
    Wording,
    as_tensor,
    item_of,
    key_text,
    own_attribute,
    read,
    share_no_memory,
    short,
)
from explorer.ir.description import constant, dtype_name, global_state, is_plain, tensor_facts, type_name
from explorer.ir.graph import DTYPE_NAMES
from explorer.ir.record import ConstantData, ExpressionData, GlobalStateData, TensorFactsData
from explorer.ir.wrappers import part_of

MOST = 100
"""Characters of a value that a message shows."""

UNSET = object()
"""The default to read a context variable without a value."""


class Installed(Condition):
    """A condition that C++ checks in the tree of guards, where the value is."""

    def install(self, checks: Checks, source: Source, text: str) -> None:
        """Adds the check to the tree that C++ walks at each call."""
        checks.build.check(checks.manager(source), lambda value: not self.difference(value), text)


# -------------------------------------------------------------------------------------------------- of one value


@dataclass(frozen=True)
class TensorMatch(Installed):
    """What a graph assumes of a tensor input. `size` and `stride` hold None where any value will do (dynamic)."""

    dtype: torch.dtype
    device: torch.device
    size: tuple[int | None, ...]
    stride: tuple[int | None, ...] | None
    requires_grad: bool
    type: type = torch.Tensor
    keys: object = field(default=None, compare=False)
    """The dispatch key set, for the C++ guard."""
    kind: ClassVar[str] = "tensor"

    def text(self) -> str:
        sizes = ", ".join("*" if s is None else str(s) for s in self.size)
        grad = " requires_grad" if self.requires_grad else ""
        steps = ", ".join("*" if s is None else str(s) for s in self.stride or ())
        strides = "" if self.stride is None else f" strides ({steps})"
        kind = "" if self.type is torch.Tensor else f" {self.type.__name__}"
        return f"{DTYPE_NAMES.get(self.dtype, str(self.dtype))}[{sizes}]{strides} on {self.device}{grad}{kind}"

    @property
    def facts(self) -> TensorFactsData:
        return TensorFactsData(
            dtype_name(self.dtype), str(self.device), self.size, self.stride, self.requires_grad, type_name(self.type)
        )

    def shown(self, name: str) -> Wording:
        facts = self.facts
        size, strides = (", ".join(map(str, of or ())).replace("None", "any") for of in (facts.sizes, facts.strides))
        layout = f", strides [{strides}]" if strides else ""
        kind = "tensor" if facts.type == "torch.Tensor" else facts.type.rpartition(".")[2]
        grad = f" that {'requires' if facts.requires_grad else 'does not require'} grad"
        noun = f"{'an' if facts.dtype.startswith('int') else 'a'} {facts.dtype} {kind}"
        words = f"{name} is {noun} of size [{size}]{layout} on {facts.device}{grad}"
        return Wording(f"{name}: {self.text()}", "matches", self.text(), words, data={"tensor": facts})

    def sizes(self) -> tuple[int | None, ...]:
        return self.size

    def difference(self, value: object) -> str:
        if not isinstance(value, torch.Tensor):
            return f"is a {type(value).__name__}, expected a tensor"
        return ", ".join(self.facts.differences(tensor_facts(value)))

    def install(self, checks: Checks, source: Source, text: str) -> None:
        checks.build.tensor(checks.manager(source), checks.value(source), self, source.name, text)


@dataclass(frozen=True)
class TypeIs(Installed):
    type: type
    kind: ClassVar[str] = "type"

    def shown(self, name: str) -> Wording:
        named = type_name(self.type)
        words = f"the type of {name} is {named}"
        return Wording(f"type({name}) is {named}", "is", named, words, data={"type": named})

    def sizes(self) -> tuple[None] | None:
        return (None,) if self.type is float else None

    def difference(self, value: object) -> str:
        same = type(value) is self.type
        return "" if same else f"is of type {type_name(type(value))}, expected {type_name(self.type)}"

    def install(self, checks: Checks, source: Source, text: str) -> None:
        checks.kept.append(self.type)
        checks.build.type(checks.manager(source), self.type, text)


@dataclass(frozen=True, eq=False)
class IsObject(Installed):
    """The value is this object."""

    target: object
    kind: ClassVar[str] = "id"

    def shown(self, name: str) -> Wording:
        found, plain = short(self.target), constant(self.target) if is_plain(self.target) else None
        words = f"{name} is {'the same object' if plain is None else plain.text}"
        return Wording(f"{name} is {found}", "is", found, words, data={"constant": plain})

    def difference(self, value: object) -> str:
        found, expected = shortened(value), shortened(self.target)
        different = f"is another {found}" if found == expected else f"is {found}, expected {expected}"
        return "" if value is self.target else different

    def install(self, checks: Checks, source: Source, text: str) -> None:
        checks.kept.append(self.target)
        checks.build.identity(checks.manager(source), self.target, text)


@dataclass(frozen=True)
class CodeIs(Installed):
    """The value is a function with this code object, which all functions made by one `def` share."""

    code: types.CodeType
    kind: ClassVar[str] = "code"
    described = False

    def shown(self, name: str) -> Wording:
        return Wording(f"{name}.__code__ is {short(self.code)}", "is", short(self.code), f"{name} is the same function")

    def difference(self, value: Any) -> str:
        return "" if value.__code__ is self.code else f"is {short(value)}, expected {short(self.code)}"

    def install(self, checks: Checks, source: Source, text: str) -> None:
        checks.kept.append(self.code)
        code = checks.build.attribute(checks.manager(source), "__code__", f"{source.name}.__code__")
        checks.build.identity(code, self.code, text)


@dataclass(frozen=True, eq=False)
class Equals(Installed):
    """The value equals this plain value and has the same type."""

    expected: Any
    kind: ClassVar[str] = "constant"

    def shown(self, name: str) -> Wording:
        plain = constant(self.expected)
        text = f"{name} == {self.expected!r}"
        return Wording(text, "==", repr(self.expected), f"{name} is {plain.text}", data={"constant": plain})

    def sizes(self) -> tuple[int | float] | None:
        return (self.expected,) if type(self.expected) in (int, float) else None

    def difference(self, value: object) -> str:
        alike = type(value) is type(self.expected)  # a tensor has no one truth value
        same = alike and (value == self.expected or value != value and self.expected != self.expected)
        same &= not has_zero(self.expected) or repr(value) == repr(self.expected)
        return "" if same else f"is {shortened(value)}, expected {self.expected!r}"

    def install(self, checks: Checks, source: Source, text: str) -> None:
        checks.build.equals(checks.manager(source), self.expected, text)
        if has_zero(self.expected):
            checks.build.check(checks.manager(source), lambda value: repr(value) == repr(self.expected), text)


@dataclass(frozen=True)
class LengthIs(Installed):
    length: int
    kind: ClassVar[str] = "length"

    def shown(self, name: str) -> Wording:
        words = f"{name} has {count(self.length, 'element')}"
        return Wording(f"len({name}) == {self.length}", "==", str(self.length), words, data={"length": self.length})

    def difference(self, value: Any) -> str:
        return "" if len(value) == self.length else f"length is {len(value)}, expected {self.length}"

    def install(self, checks: Checks, source: Source, text: str) -> None:
        checks.build.length(checks.manager(source), self.length, text)


@dataclass(frozen=True)
class IsEmpty(Installed):
    kind: ClassVar[str] = "empty"
    described = False

    def shown(self, name: str) -> Wording:
        return Wording(f"not {name}", "is", "empty", f"{name} is empty", data={"length": 0})

    def difference(self, value: object) -> str:
        return "is not empty" if value else ""

    def install(self, checks: Checks, source: Source, text: str) -> None:
        if isinstance(checks.value(source), dict):
            checks.build.dict_length(checks.manager(source), 0, text)
        else:
            super().install(checks, source, text)


@dataclass(frozen=True, eq=False)
class KeysAre(Installed):
    """These are the keys of the dictionary, in order."""

    keys: tuple[object, ...]
    kind: ClassVar[str] = "keys"

    def shown(self, name: str) -> Wording:
        plain = tuple(map(constant, self.keys)) if all(map(is_plain, self.keys)) else None
        keys = _listed(self.keys)
        words = f"the keys of {name} are {keys}"
        return Wording(f"tuple({name}) == {key_text(self.keys)}", "==", keys, words, data={"keys": plain})

    def difference(self, value: object) -> str:
        found = tuple(keys_of(value))
        alike = len(found) == len(self.keys) and all(map(is_same_key, found, self.keys))
        if alike and all(type(key) is type(other) for key, other in zip(found, self.keys, strict=True)):
            return ""
        return f"keys are {_listed(found) if isinstance(value, dict) else short(value)}, expected {key_text(self.keys)}"

    def install(self, checks: Checks, source: Source, text: str) -> None:
        checks.build.check(checks.manager(source), self._holds, text)

    def _holds(self, value: object) -> bool:
        """Keys are compared by identity first, which needs no call: most often they are the same objects."""
        same = type(value) is dict and len(value) == len(self.keys) and all(map(operator.is_, value, self.keys))
        return same or not self.difference(value)

    def imply(self, other: Condition) -> bool:
        """Whether a dictionary of these keys meets another condition, too. No code of the program's own keys runs."""
        match other:
            case Has(name=name, present=present, where="key") if all(map(is_plain, (name, *self.keys))):
                return present == any(is_same_key(name, key) for key in self.keys)
            case LengthIs(length=length):
                return length == len(self.keys)
        return isinstance(other, IsEmpty) and not self.keys


def with_implied(guards: Iterable[Guard]) -> tuple[Guard, ...]:
    """The guards; of one that the guard on all keys of its dictionary implies, `why` says so."""
    guards = tuple(guards)
    keys = {each.source: each.condition for each in guards if isinstance(each.condition, KeysAre)}
    return tuple(
        replace(guard, why=f"{guard.why}; the guard on all its keys implies it")
        if guard.source in keys and keys[guard.source].imply(guard.condition)
        else guard
        for guard in guards
    )


@dataclass(frozen=True)
class Has(Installed):
    """Whether it has this key or attribute. A "slot" is an attribute that may be anywhere but in the object's own
    dictionary."""

    name: Any
    present: bool
    where: Literal["attribute", "slot", "key"]
    kind: ClassVar[str] = "has"

    @property
    def key(self) -> object:
        return self.kind, self.name, self.present, self.where

    def shown(self, name: str) -> Wording:
        owner = {"attribute": f"vars({name})", "slot": f"dir({name})"}.get(self.where, name)
        relation, key = f"{'has' if self.present else 'lacks'} {self.where}", shortened(self.name)
        text = f"{key_text(self.name)} {'in' if self.present else 'not in'} {owner}"
        # A module's parameter is an attribute of it, but is not in its own dictionary.
        subject = f"{name}.__dict__ {relation.split()[0]} key" if self.where == "attribute" else f"{name} {relation}"
        return Wording(
            text, relation, key, f"{subject} {key}",
            "there" if self.present else "not there", {"keys": (constant(self.name),) if is_plain(self.name) else None},
        )  # fmt: skip

    def difference(self, value: Any) -> str:
        held = value if self.where == "key" else instance_dict(value)
        found = self.name in held if held is not None and self.where != "slot" else hasattr(value, self.name)
        return "" if found == self.present else f"{'has' if found else 'lacks'} {key_text(self.name)}"

    def install(self, checks: Checks, source: Source, text: str) -> None:
        manager, value = checks.manager(source), checks.value(source)
        held = None if self.where == "slot" else instance_dict(value)
        if self.where == "key" and (type(value) is not types.MappingProxyType or _is_members(source, value)):
            checks.build.dict_contains(manager, self.present, self.name, text)
        elif self.where == "key" or held is None:
            super().install(checks, source, text)
        else:
            table = checks.build.instance_dict(manager, f"vars({source.name})")
            checks.build.dict_contains(table, self.present, self.name, text)


@dataclass(frozen=True, eq=False)
class PythonCheck(Installed):
    """Any other check of a value: a function of it, and what it asks, in words after the value's name."""

    relation: str
    value: str
    function: Callable[[Any], bool] = field(repr=False)
    constant: ConstantData | None = None
    seen: Callable[[object], str] | None = field(default=None, repr=False)
    """Describes a value that fails, if its own text does not."""
    kind: ClassVar[str] = "value"

    @property
    def key(self) -> object:
        return self.kind, self.relation

    def shown(self, name: str) -> Wording:
        text = f"{name} {self.relation} {self.value}"
        return Wording(text, self.relation, self.value, text, data={"constant": self.constant})

    def difference(self, value: object) -> str:
        return "" if self.function(value) else f"is {(self.seen or shortened)(value)}"


def is_nan() -> PythonCheck:
    return PythonCheck("is", "nan", lambda value: isinstance(value, float) and math.isnan(value), constant(math.nan))


def is_unset() -> PythonCheck:
    return PythonCheck("is", "unset", lambda value: value.get(UNSET) is UNSET)


def iterator_at(position: int, length: int) -> PythonCheck:
    def at(iterator: object) -> tuple[int, int] | None:
        found = progress(iterator)
        return None if found is None else (found[1], len(found[0]))

    def seen(iterator: object) -> str:
        found = at(iterator)
        if found is None:
            return shortened(iterator)
        return f"at position {found[0]} of {found[1]}, expected at position {position} of {length}"

    return PythonCheck("is at", f"position {position} of {length}", lambda it: at(it) == (position, length), seen=seen)


def iterates_over(expected: object) -> PythonCheck:
    def check(iterator: object) -> bool:
        found = progress(iterator)
        return found is not None and bool(found[0] == expected)

    return PythonCheck("goes over", repr(expected), check)


def same_value(
    expected: object, relation: str = "==", of: Callable[[Any], object] = lambda value: value
) -> PythonCheck:
    """The value has the same type and is equal in Python, with all that it contains now. `of` says what of the value is
    compared."""
    before = _copied(expected)
    return PythonCheck(relation, shortened(expected), lambda v: is_same_value(of(v), before))


def is_same_value(value: Any, expected: object) -> bool:
    kinds = {type(value), type(expected)}
    if len(kinds) > 1:
        return False
    if isinstance(expected, (tuple, list)):
        return len(value) == len(expected) and all(map(is_same_value, value, expected))
    if isinstance(expected, dict):
        return is_same_value([*value.items()], [*expected.items()])
    if isinstance(expected, float):
        return repr(value) == repr(expected)
    return value is expected or not isinstance(expected, torch.Tensor) and bool(value == expected)


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    kind = type(value)
    return kind(map(_copied, value)) if isinstance(value, (list, tuple, set)) and kind in (list, tuple, set) else value


def same_members(expected: object) -> PythonCheck:
    """A set of this class with these members, by set's own methods; members that code of the program hashes and
    compares are the same objects."""
    kind = type(expected)
    base: Any = set if isinstance(expected, set) else frozenset
    held = [*base.__iter__(expected)]

    def members(given: Iterable[object]) -> frozenset[object]:
        return frozenset(
            (type(each), id(each) if isinstance(type(each).__hash__, types.FunctionType) else each) for each in given
        )

    before = members(held)
    return PythonCheck("==", shortened(expected), lambda v: type(v) is kind and members(base.__iter__(v)) == before)


def same_number(expected: np.generic) -> PythonCheck:
    """Bit for bit."""
    check = lambda v: type(v) is type(expected) and v.tobytes() == expected.tobytes()  # noqa: E731
    return PythonCheck("is number", repr(expected), check)


# -------------------------------------------------------------------------------------------- of several, of none


@dataclass(frozen=True, eq=False)
class ShapeHolds(Condition):
    """A relation between sizes: its text over source names, the sources, a pure function of their values, and the same
    as a tree."""

    expression: str
    sources: tuple[Source, ...]
    function: Callable[..., bool] = field(repr=False)
    tree: ExpressionData = field(repr=False)
    kind: ClassVar[str] = "shape"
    about = "sizes"
    described = False

    def shown(self, name: str) -> Wording:
        return Wording(self.expression, "holds", self.expression, data={"shape": self.tree})

    def failure(self, source: Source | None, frame: InputFrame) -> str:
        values = [read(each, frame.locals, frame.globals) for each in self.sources]
        now = ", ".join(f"{s.name} = {v}" for s, v in zip(self.sources, values, strict=True))
        return "" if self.function(*values) else f"with {now}"


@dataclass(frozen=True)
class SameObject(Installed):
    other: Source
    kind: ClassVar[str] = "alias"
    about = "identity"
    described = False

    @property
    def key(self) -> object:
        return self.kind, self.other

    def shown(self, name: str) -> Wording:
        other = self.other.name
        words, data = f"{name} and {other} are the same object", {"others": (other,)}
        return Wording(f"{name} is {other}", "is", other, words, "the same object", data)

    def failure(self, source: Source | None, frame: InputFrame) -> str:
        assert source is not None
        same = read(source, frame.locals, frame.globals) is read(self.other, frame.locals, frame.globals)
        return "" if same else f"is not {self.other.name}"

    def install(self, checks: Checks, source: Source, text: str) -> None:
        checks.build.same_object(checks.manager(source), checks.manager(self.other), text)


@dataclass(frozen=True)
class NoTwo(Installed):
    """A relation that holds for no two of these."""

    sources: tuple[Source, ...]
    kind: ClassVar[str] = "alias"
    about = "identity"
    described = False
    relation: ClassVar[str]
    op: ClassVar[str]
    words: ClassVar[str]
    short: ClassVar[str]

    def shown(self, name: str) -> Wording:
        named = tuple(source.name for source in self.sources)
        all = ", ".join(named)
        text = f"no two of these {self.relation}: {all}"
        return Wording(text, self.op, all, f"{all} {self.words}", self.short, {"others": named})


class AllDistinct(NoTwo):
    relation, op, words, short = "are the same object", "are distinct", "are different objects", "all different"

    def failure(self, source: Source | None, frame: InputFrame) -> str:
        first: dict[int, Source] = {}
        pairs = [(s, first.setdefault(id(read(s, frame.locals, frame.globals)), s)) for s in self.sources]
        return ", ".join(f"{s.name} is {other.name}" for s, other in pairs if s is not other)

    def install(self, checks: Checks, source: Source, text: str) -> None:
        managers = [checks.manager(each) for each in self.sources]
        checks.build.different_objects(managers, [each.name for each in self.sources], text)


class ShareNoMemory(NoTwo):
    """No two of these arrays and tensors share memory."""

    relation, op, words, short = "share memory", "share no memory", "share no memory", "no overlap"

    def failure(self, source: Source | None, frame: InputFrame) -> str:
        return "" if self._holds(frame.locals, frame.globals) else "two of them share memory"

    def install(self, checks: Checks, source: Source, text: str) -> None:
        namespace = checks.frame.globals
        checks.build.last(lambda locals: self._holds(locals, namespace), text)

    def _holds(self, locals: Mapping[str, object], globals: Mapping[str, object]) -> bool:
        return share_no_memory(read(source, locals, globals) for source in self.sources)


@dataclass(frozen=True)
class GlobalStateIs(Condition):
    state: GlobalStateData
    kind: ClassVar[str] = "global_state"
    about = "state"
    described = False

    def shown(self, name: str) -> Wording:
        state = state_text(self.state)
        return Wording(f"global state: {state}", "==", state, data={"state": self.state})

    def failure(self, source: Source | None, frame: InputFrame) -> str:
        return ", ".join(self.state.differences(global_state(frame.devices)))


def failures(guards: Iterable[Guard], frame: InputFrame, message: str = "") -> list[tuple[Guard, str]]:
    """Every guard that the values of `frame` break, and how, with what they are.

    The C++ check stops at the first, of which it `said` something and which comes first here, too; this asks Python
    about each, which takes long and so is for telling people alone.
    """
    found, unreadable = [], []
    other: set[Source] = set()
    for guard in guards:
        if guard.source is not None and not other.isdisjoint(_bases(guard.source)):
            continue  # the check means nothing for an object of another type
        try:
            how = guard.condition.failure(guard.source, frame)
        except Exception as error:  # the program's own code may run, as it does in the C++ check
            about = key_text(error.args[0]) if isinstance(error, KeyError) and error.args else error
            unreadable.append((guard, f"cannot be read: {type(error).__name__}: {about}"))
            continue
        if how:
            found.append((guard, how))
            if isinstance(guard.condition, (TypeIs, TensorMatch, IsObject)) and guard.source is not None:
                other.add(guard.source)
    found.sort(key=lambda failed: not _is_reported(message, failed[0]))
    return found or unreadable  # for example an item of a dictionary with other keys


def _is_reported(message: str, guard: Guard) -> bool:
    """Whether torch's message is about this guard; for a tensor it names the tensor and what differs."""
    name = guard.source.name if guard.source is not None else ""
    return message == guard.text or isinstance(guard.condition, TensorMatch) and message.startswith(f"tensor '{name}' ")


def _bases(source: Source) -> Iterator[Source]:
    """The source and all that it is read from."""
    yield source
    while not isinstance(source, (Local, Global, Known)):
        source = source.base
        yield source


# ------------------------------------------------------------------------------------------------------ C++ checks


class Checks:
    """Guard managers by source; a source's value at capture decides which C++ accessor reads it."""

    def __init__(self, frame: InputFrame) -> None:
        self.frame = frame
        self.build = hook.Guards(frame.code)
        self.kept: list[object] = []
        self._managers: dict[Source, hook.GuardManager] = {}
        self._values: dict[Source, object] = {}
        self._scope: dict[str, object] = {f"padding {n}": None for n in range(3)}

    def value(self, source: Source) -> object:
        if source not in self._values:
            self._values[source] = read(source, self.frame.locals, self.frame.globals)
        return self._values[source]

    def manager(self, source: Source) -> hook.GuardManager:
        if source not in self._managers:
            self._managers[source] = self._make(source)
        return self._managers[source]

    def _make(self, source: Source) -> hook.GuardManager:
        build, name = self.build, source.name
        match source:
            case Local(variable):
                return build.local(variable)
            case Global(variable, ""):
                return build.dict_item(build.namespace("G", self.frame.globals), variable, name)
            case Global(variable, module):
                spaces = build.dict_item(
                    build.namespace("S", self._scope), self._hold(module, vars(sys.modules[module])), module
                )
                return build.dict_item(spaces, variable, name)
            case Known(label, held, _):
                return build.dict_item(build.namespace("S", self._scope), self._hold(f"K {label}", held), name)
            case Attr(base, attribute, plain):
                return self._attribute(base, attribute, plain, name)
            case Item(base, key):
                return self._item(base, key, name)
            case TypeOf(base):
                return build.type_of(self.manager(base), name)
            case Returned(base, method):
                return build.computed(self.manager(base), lambda value: getattr(value, method)(), name)
            case Listed(base, part):
                return build.computed(self.manager(base), _lister(part), name)
            case AsTensor(base):
                return build.computed(self.manager(base), as_tensor, name)
            case Inside(base, part):
                return build.computed(self.manager(base), lambda wrapper: part_of(wrapper, part), name)
            case Computed(function, args):
                return build.computed(self.manager(source.base), _computer(function, args), name)
            case Size() | Stride():
                return build.computed(self.manager(source.base), _measure(source), name)
        raise AssertionError(source)

    def _hold(self, key: str, value: object) -> str:
        self._scope[key] = value
        return key

    def _attribute(self, base: Source, attribute: str, plain: bool, name: str) -> hook.GuardManager:
        if issubclass(type(self.value(base)), type) and attribute == "__dict__":
            return self.build.members(self.manager(base), name)
        held = self._dict_with(base, attribute)
        if held is not None:
            return self.build.dict_item(self._table(base), attribute, name)
        if plain:
            return self.build.computed(self.manager(base), lambda value: own_attribute(value, attribute), name)
        return self.build.attribute(self.manager(base), attribute, name)

    def _dict_with(self, base: Source, attribute: str) -> dict[str, object] | None:
        """The object's own dictionary, where it is there that C++ looks for the attribute."""
        owner = self.value(base)
        held = None if issubclass(type(owner), (type, types.ModuleType)) else instance_dict(owner)
        return held if held is not None and attribute in held else None

    def _table(self, base: Source) -> hook.GuardManager:
        return self.build.instance_dict(self.manager(base), f"vars({base.name})")

    def _item(self, base: Source, key: Any, name: str) -> hook.GuardManager:
        owner, kind = self.value(base), type(self.value(base))
        if issubclass(kind, dict) or _is_members(base, owner):
            return self.build.dict_item(self.manager(base), key, name)
        if kind is list:
            return self.build.list_item(self.manager(base), key, name)
        if issubclass(kind, tuple):
            return self.build.tuple_item(self.manager(base), key, name)
        if issubclass(kind, list):
            return self.build.computed(self.manager(base), lambda value: item_of(value, key), name)
        return self.build.item(self.manager(base), key, name)

    def add(self, guard: Guard) -> None:
        source, condition = guard.source, guard.condition
        assert source is not None
        if isinstance(source, Computed):
            self.build.last(_answers(source, condition, self.frame.globals), guard.text)
        else:
            assert isinstance(condition, Installed)
            condition.install(self, source, guard.text)

    def group_of(self, guard: Guard) -> object:
        """What guards of one check share: the object whose attributes are to be empty, as a module's kinds of hooks."""
        match guard.source, guard.condition:
            case Attr(base, attribute), IsEmpty() if self._dict_with(base, attribute) is not None:
                return base
        return id(guard)

    def add_empty(self, *guards: Guard) -> None:
        """Check several attributes of one object with one function of its dictionary, instead of a guard manager for
        each."""
        attributes = [guard.source for guard in guards if isinstance(guard.source, Attr)]
        owner = attributes[0].base
        held = instance_dict(self.value(owner))
        assert held is not None
        names = tuple(each.attribute for each in attributes)
        self.build.check(self._table(owner), _all_empty(names), " and ".join(guard.text for guard in guards))


def build(guards: Iterable[Guard], frame: InputFrame) -> hook.Manager:
    """A guard manager that checks all of `guards`, and the global state as it is now.

    Cheap and telling guards come first: types and identities before tensors, relations between inputs last.
    """
    given = list(guards)
    checks = Checks(frame)
    state = "global state: grad mode, autocast, default dtype, deterministic mode, threads"
    checks.build.global_state(state, frame.devices)
    shapes = [guard.condition for guard in given if isinstance(guard.condition, ShapeHolds)]
    of_values = _in_order(guard for guard in given if guard.condition.about == "value")
    for _, together in itertools.groupby(of_values, checks.group_of):
        first, *others = together
        if others:
            checks.add_empty(first, *others)
        else:
            checks.add(first)
    for guard in given:
        if guard.condition.about == "identity":
            checks.add(guard)
    if shapes:
        text = " and ".join(each.expression for each in shapes)
        checks.build.last(_shape_check(shapes, frame), text)
    return hook.Manager(checks.build.root, frame.globals, checks.kept)


def _in_order(guards: Iterable[Guard]) -> list[Guard]:
    """In the order in which C++ checks them: an object before its parts. Guards made in this order lie next to each
    other in memory, which matters for deep models, whose guards exceed the processor's caches."""
    paths: dict[Source, tuple[int, ...]] = {}

    def path(source: Source) -> tuple[int, ...]:
        if source not in paths:
            base = () if isinstance(source, (Local, Global, Known)) else path(source.base)
            paths[source] = (*base, len(paths))
        return paths[source]

    return sorted(guards, key=lambda guard: path(guard.source) if guard.source is not None else ())


@functools.cache
def _all_empty(names: tuple[str, ...]) -> Callable[[dict[str, object]], bool]:
    """Whether these attributes of an object with this dictionary are empty. One function for all objects that are asked
    the same, and no loop: it runs for each module at each call."""
    return eval(f"lambda held: not ({' or '.join(f'held[{name!r}]' for name in names)})")  # type: ignore[no-any-return]


def _shape_check(relations: list[ShapeHolds], frame: InputFrame) -> Callable[[dict[str, object]], bool]:
    """A single function of the locals that checks all relations between sizes; it reads each source once."""
    sources = list(dict.fromkeys(source for each in relations for source in each.sources))
    position = {source: n for n, source in enumerate(sources)}
    functions = [(each.function, [position[s] for s in each.sources]) for each in relations]
    namespace = frame.globals

    def check(locals: dict[str, object]) -> bool:
        try:
            values = [read(source, locals, namespace) for source in sources]
        except Exception:  # the program's own code may run here: where there is nothing to read, the guard fails
            return False
        return all(holds(*(values[n] for n in at)) for holds, at in functions)

    return check


def _answers(source: Source, condition: Condition, namespace: dict[str, object]) -> Callable[[dict[str, object]], bool]:
    def check(locals: dict[str, object]) -> bool:
        try:
            return not condition.difference(read(source, locals, namespace))
        except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
            return False  # the program would raise this too

    return check


def instance_dict(value: object) -> dict[str, object] | None:
    """What object.__dict__ is, without asking a class's own __getattribute__."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return None
    return held if isinstance(held, dict) else None


def _is_members(source: Source, value: object) -> bool:
    """Whether the value is the dictionary of a class, which Python shows only through a proxy."""
    return isinstance(source, Attr) and source.attribute == "__dict__" and type(value) is types.MappingProxyType


def _lister(part: str) -> Callable[[object], object]:
    take = getattr(dict, part)
    return lambda value: list(take(value))


def _computer(function: Callable[..., object], args: tuple[object, ...]) -> Callable[[object], object]:
    """The function of its only argument that is a source; the others are constants."""
    assert sum(isinstance(arg, Source) for arg in args) == 1
    return lambda value: function(*(value if isinstance(arg, Source) else arg for arg in args))


def _measure(source: Size | Stride) -> Callable[[Any], Any]:
    dim = source.dim
    return (lambda value: value.size(dim)) if isinstance(source, Size) else (lambda value: value.stride(dim))


def keys_of(value: Any) -> Iterable[object]:
    """The keys of a mapping in order, without calling what a subclass of dict overrides."""
    if issubclass(type(value), collections.OrderedDict):
        return collections.OrderedDict.keys(value)
    return dict.keys(value) if issubclass(type(value), dict) else value


def is_same_key(key: object, other: object) -> bool:
    """Whether a dictionary treats two keys as one: a tensor equals only itself."""
    return key is other or (hash(key) == hash(other) and not isinstance(other, torch.Tensor) and key == other)


def has_zero(value: object) -> bool:
    """Whether there is a zero in a plain value whose sign a comparison does not see."""
    if isinstance(value, (tuple, list, frozenset, set)):
        return any(map(has_zero, value))
    return type(value) is float and value == 0 or type(value) is complex and 0 in (value.real, value.imag)


def state_text(state: GlobalStateData) -> str:
    """Describes what a capture assumes besides its inputs."""
    autocast = ", ".join(state.autocast) or "off"
    devices = f", default device {state.devices[-1]}" if state.devices else ""
    return (
        f"grad mode {'on' if state.grad_enabled else 'off'}, autocast {autocast}, default dtype {state.default_dtype}, "
        f"deterministic mode {'on' if state.deterministic else 'off'}, {count(state.threads, 'thread')}{devices}"
    )


def shortened(value: object) -> str:
    """A plain value as Python writes it, another object in a word."""
    return repr(value)[:MOST] if is_plain(value) or isinstance(value, np.generic) else short(value)


def _listed(keys: Iterable[object]) -> str:
    texts = [shortened(key) for key in keys]
    return f"({', '.join(texts)}{',' * (len(texts) == 1)})"
