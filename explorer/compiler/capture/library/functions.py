"""functools, operator, copy, types and contextlib; attributes and identity: type, isinstance, getattr, super ..."""

from __future__ import annotations

import _abc
import builtins
import contextlib
import copy
import functools
import operator
import os
import threading
import types
import typing
import weakref
from collections.abc import Callable, Iterator

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false

from explorer.compiler.capture import reasons
from explorer.compiler.capture.calls import new_instance
from explorer.compiler.capture.guards import IsObject, KeysAre
from explorer.compiler.capture.model import BINARY, COMPARE, INPLACE, UNARY, binary, compare, get_item, is_same, unary
from explorer.compiler.capture.rules import breaks, positional, table
from explorer.compiler.capture.values.base import HostValue, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue, SuperValue, unmade_class
from explorer.compiler.capture.values.constant import Constant, SizeValue
from explorer.compiler.capture.values.functions import (
    NOTICED,
    BoundMethod,
    BuiltinValue,
    FunctionValue,
    PartialValue,
    RuntimeNumber,
    WeakReference,
)
from explorer.compiler.capture.values.mappings import DictValue, ProxyValue, SetValue
from explorer.compiler.capture.values.modules import ModuleValue
from explorer.compiler.capture.values.objects import MISSING, ObjectValue, look_up
from explorer.compiler.capture.values.sequences import ListValue, TupleValue
from explorer.compiler.capture.values.tensor import StorageValue, TensorValue, graph_call
from explorer.core.libraries import FIXED, is_in, is_written_in_c, name_in_messages
from explorer.core.reasons import unsupported
from explorer.ir.capture import Attr

NONE = Constant(None)


@positional(functools.reduce)
def _reduce(t: Tracer, function: Value, items: Value, start: Value | None = None) -> Value:
    """The function of the total so far and the next item."""
    rest = items.unpack(t)
    if start is None:
        if not rest:
            t.raise_(TypeError, "reduce() of empty iterable with no initial value")
        start, *rest = rest
    for item in rest:
        start = function.call(t, [start, item], {})
    return start


@positional(builtins.__build_class__)
def _build_class(t: Tracer, *args: Value, **kwargs: Value) -> Value:
    """A class statement. In the root frame, the class may be left unmade as long as no break asks for it."""
    made = unmade_class(t, list(args), kwargs)
    if len(t.stack.frames) == 1:
        if not t.attempt.may_leave_classes:
            unsupported(reasons.OPCODE, "LOAD_BUILD_CLASS")
        t.left_class = True
    return made


@positional(functools.wraps)
def _wraps(t: Tracer, wrapped: Value, *args: Value, **kwargs: Value) -> Value:
    """A decorator that gives a function another's name."""

    def decorate(given: list[Value], named: dict[str, Value]) -> Value:
        function = given[0]
        if isinstance(function, FunctionValue) and function.given is None:
            for name in ("__module__", "__name__", "__qualname__", "__doc__"):
                found = t.attr_or_none(wrapped, name)
                if found is not None:
                    function.set_attr(t, name, found)
            function.set_attr(t, "__wrapped__", wrapped)
        return function

    return HostValue(decorate)


@positional(operator.itemgetter)
def _itemgetter(t: Tracer, *keys: Value) -> Value:
    """A function that takes items."""

    def get(given: list[Value], named: dict[str, Value]) -> Value:
        found = [get_item(t, given[0], key) for key in keys]
        return found[0] if len(found) == 1 else TupleValue(found)

    return HostValue(get, (operator.itemgetter, list(keys), {}))


@positional(operator.methodcaller)
def _methodcaller(t: Tracer, name: Value, /, *args: Value, **kwargs: Value) -> Value:
    """A function that calls a method."""

    def call(given: list[Value], named: dict[str, Value]) -> Value:
        return t.call_method(given[0], name.known(t), list(args), kwargs)

    return HostValue(call, (operator.methodcaller, [name, *args], kwargs))


@positional(operator.attrgetter)
def _attrgetter(t: Tracer, *names: Value) -> Value:
    """A function that takes attributes."""

    def get(given: list[Value], named: dict[str, Value]) -> Value:
        found = []
        for name in names:
            value = given[0]
            for part in name.known(t).split("."):
                value = t.get_attr(value, part)
            found.append(value)
        return found[0] if len(found) == 1 else TupleValue(found)

    return HostValue(get, (operator.attrgetter, list(names), {}))


def _of_one(how: Callable[..., Value], symbol: str, t: Tracer, value: Value) -> Value:
    return how(t, symbol, value)


def _of_two(how: Callable[..., Value], symbol: str, t: Tracer, left: Value, right: Value) -> Value:
    return how(t, symbol, left, right)


for _symbol, (_function, _, _) in BINARY.items():
    positional(_function)(functools.partial(_of_two, binary, _symbol))
for _symbol, _function in INPLACE.items():
    positional(_function)(functools.partial(_of_two, binary, _symbol))
for _symbol, (_function, _, _) in COMPARE.items():
    positional(_function)(functools.partial(_of_two, compare, _symbol))
for _symbol, (_unary, _) in UNARY.items():
    positional(_unary)(functools.partial(_of_one, unary, _symbol))
positional(operator.inv)(functools.partial(_of_one, unary, "~"))  # not the same object as operator.invert


Copies = Callable[[Value], Value]


@positional(copy.copy)
def _copy(t: Tracer, x: Value) -> Value:
    """A shallow copy."""
    if x.overrides(t, "__copy__"):
        return x.special(t, "__copy__", [])
    return _copied(t, x, lambda item: item, lambda made: None, "copy")


@positional(copy.deepcopy)
def _deepcopy(t: Tracer, x: Value, memo: Value = NONE, _nil: Value = NONE) -> Value:
    """A copy of all that is in it, where each object is copied once."""
    done: dict[int, Value] = {}
    memories: set[int] = set()

    def copied(value: Value) -> Value:
        if id(value) not in done:
            done[id(value)] = fresh(value)
        return done[id(value)]

    def fresh(value: Value) -> Value:
        if isinstance(value, TensorValue):
            return _copied_tensor(t, value, memories)
        if value.overrides(t, "__deepcopy__"):
            return value.special(t, "__deepcopy__", [t.from_python({})])
        if isinstance(value, TupleValue):
            items = [copied(item) for item in value.unpack(t)]
            same = all(new is old for new, old in zip(items, value.unpack(t), strict=True))
            return value if same else TupleValue(items, value.cls)

        def keep(made: Value) -> None:
            done[id(value)] = made

        return _copied(t, value, copied, keep, "deepcopy")

    return copied(x)


def _copied(t: Tracer, value: Value, item: Copies, keep: Callable[[Value], None], how: str) -> Value:
    """A copy of a value, from copies of its parts by `item`. `keep` gets the copy while it is still empty."""
    if isinstance(value, (Constant, ClassValue, FunctionValue, TupleValue, BuiltinValue, HostValue, PartialValue)):
        return value
    own_state = ("__reduce__", "__reduce_ex__", *(() if isinstance(value, ModuleValue) else ("__getstate__",)))
    if not isinstance(value, ObjectValue) or value.overrides(t, *own_state):
        unsupported(reasons.UNTRACEABLE_CALL, f"{how} of {value.describe()}")
    if isinstance(value, WeakReference):
        return value
    made = new_instance(t, [ClassValue(value.cls)], {})
    keep(made)
    if isinstance(value, DictValue) and isinstance(made, DictValue):
        made.factory = value.factory
        for key, held in value.pairs(t):
            made.put(item(key), item(held))
    elif isinstance(value, ListValue) and isinstance(made, ListValue):
        made.maxlen = value.maxlen
        made.items = [item(held) for held in value.unpack(t)]
    elif isinstance(value, SetValue):
        made.method(t, "update", [t.from_python([item(held) for held in value.ordered()])], {})
    assert isinstance(made, ObjectValue)
    attributes: dict[str, Value | None] = {name: value.own(t, name) for name in value.own_names(t)}
    for base in value.cls.__mro__:
        slots = [name for name, found in vars(base).items() if isinstance(found, types.MemberDescriptorType)]
        attributes |= {name: t.attr_or_none(value, name) for name in slots if not is_written_in_c(base)}
    for name, attribute in attributes.items():
        if attribute is not None:
            t.effects.set_attr(made, name, item(attribute))
    return made


def _copied_tensor(t: Tracer, value: TensorValue, memories: set[int]) -> Value:
    """A parameter is cloned. Of another tensor eager copies the memory, once for all that are in it, and its
    attributes: a clone is that where there is no more in the memory than the tensor, and where it has none.
    `memories` are those that were copied."""
    if not value.attribute("is_leaf"):
        t.raise_(
            RuntimeError,
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001",
        )
    is_parameter = value.python_type() is torch.nn.Parameter
    if value.overlay or (value.fake.requires_grad and not is_parameter):
        unsupported(reasons.UNTRACEABLE_CALL, "deepcopy of a tensor with a gradient")
    if not is_parameter:
        memory = value.fake.untyped_storage()._cdata
        size = binary(t, "*", t.call_method(value, "numel", []), Constant(value.fake.element_size()))
        fills = compare(t, "==", StorageValue(value).length(t), size).truth(t)
        if not fills or memory in memories or not is_non_overlapping_and_dense_or_false(value.fake):
            unsupported(reasons.UNTRACEABLE_CALL, "deepcopy of a tensor that shares its memory, or does not fill it")
        if value.given is not None and value.source is not None:
            if vars(value.given):
                unsupported(reasons.UNTRACEABLE_CALL, "deepcopy of a tensor with attributes")
            t.guards.on(Attr(value.source, "__dict__"), KeysAre(()), "a deep copy has copies of its attributes")
        memories.add(memory)
    made = graph_call(t, "call_method", "clone", [graph_call(t, "call_method", "detach", [value], {})], {})
    if not is_parameter:
        return made
    return t.from_python(torch.nn.Parameter).call(t, [made, Constant(value.fake.requires_grad)], {})


@positional(types.MappingProxyType)
def _proxy(t: Tracer, mapping: Value) -> Value:
    """A view of a mapping."""
    if not isinstance(mapping, DictValue):
        unsupported(reasons.UNTRACEABLE_CALL, f"types.MappingProxyType of {mapping.describe()}")
    return ProxyValue(mapping)


@positional(types.SimpleNamespace)
def _namespace(t: Tracer, **kwargs: Value) -> Value:
    """An object with these attributes."""
    made = ObjectValue(types.SimpleNamespace)
    made.overlay.update(kwargs)
    return made


@positional(weakref.ref)
def _weak_reference(t: Tracer, target: Value, callback: Value = NONE) -> Value:
    """A weak reference. A callback waits for the death of something that was there before, or is the library's own,
    which forgets what died here with the trace."""
    known = callback.defaults(t) if isinstance(callback, FunctionValue) else []
    is_own = isinstance(callback, FunctionValue) and callback.globals is vars(weakref) and bool(known)
    if not callback.is_none() and not is_own and target.source is None:
        t.tape.refuse_frame(NOTICED)
    if not target.python_type().__weakrefoffset__ and not isinstance(target, BoundMethod):
        t.raise_(TypeError, f"cannot create weak reference to '{name_in_messages(target.python_type())}' object")
    return WeakReference(target, callback=callback)


@positional(weakref.proxy, weakref.getweakrefcount, weakref.getweakrefs)
def _watched(t: Tracer, target: Value, callback: Value = NONE) -> Value:
    """What only Python knows of an object; nor can a continuation end what its caller holds."""
    if target.source is None:
        t.tape.whole = NOTICED
    unsupported(reasons.UNTRACEABLE_CALL, "weakref.proxy or a question for weak references")


@positional(weakref.WeakKeyDictionary.__len__, weakref.WeakSet.__len__)
def _length_of_weak(t: Tracer, given: Value) -> Value:
    """How many still live."""
    data = given.get_attr(t, "data")
    for reference in data.unpack(t):
        reference.call(t, [], {})
    pending = given.get_attr(t, "_pending_removals")
    return Constant(data.length(t).as_index(t) - pending.length(t).as_index(t))


@positional(contextlib.nullcontext)
def _nullcontext(t: Tracer, enter_result: Value = NONE) -> Value:
    """A context manager that does nothing."""
    made = ObjectValue(contextlib.nullcontext)
    made.overlay["enter_result"] = enter_result
    return made


# ---------------------------------------------------------------------------------------------- attributes and identity


@positional(type)
def _type(t: Tracer, value: Value, *rest: Value) -> Value:
    """type(value); making a class breaks."""
    if rest:
        unsupported(reasons.UNTRACEABLE_CALL, "making a class")
    return t.from_python(value.python_type())


def _classes(t: Tracer, value: Value) -> Iterator[object]:
    """The classes of an argument of isinstance or issubclass, one by one, as Python tries them."""
    if isinstance(value, TupleValue):
        for part in value.unpack(t):
            yield from _classes(t, part)
    else:
        wanted = value.live(t)
        yield from wanted.__args__ if isinstance(wanted, types.UnionType) else (wanted,)


@positional(isinstance)
def _isinstance(t: Tracer, value: Value, classes: Value) -> Value:
    """Decided by the value's type, or by the class's own __instancecheck__ in Python."""
    return Constant(any(_is_instance(t, value, wanted) for wanted in _classes(t, classes)))


def _is_instance(t: Tracer, value: Value, wanted: object) -> bool:
    if value.python_type() is wanted:
        return True
    if (answer := _own_answer(t, wanted, "__instancecheck__", value)) is not None:
        return answer
    if isinstance(value, ObjectValue):
        return any(t.python(issubclass, kind, wanted) for kind in _kinds(t, value))
    if isinstance(value, TensorValue) and value.given is not None:
        return bool(t.python(isinstance, value.given, wanted))
    if isinstance(value, TensorValue):
        like = torch.empty(0, dtype=value.fake.dtype, device="cpu" if value.fake.device.type == "cpu" else "meta")
        if "_is_buffer" in value.overlay:
            like._is_buffer = True  # type: ignore[attr-defined]
        like = like if value.cls is torch.Tensor else like.as_subclass(value.cls)
        return bool(t.python(isinstance, like, wanted))
    if isinstance(value, (Constant, ClassValue)):
        return bool(t.python(isinstance, value.constant(), wanted))
    return bool(t.python(issubclass, value.python_type(), wanted))


def _kinds(t: Tracer, value: Value) -> Iterator[type]:
    """Its type, and the class that it says it has, which is asked where the type does not do."""
    yield value.python_type()
    shown = t.get_attr(value, "__class__") if isinstance(value, ObjectValue) else None
    if isinstance(shown, ClassValue):
        yield shown.cls


@positional(issubclass)
def _issubclass(t: Tracer, value: Value, classes: Value) -> Value:
    """Decided by the two classes, or by the second's own __subclasscheck__ in Python."""
    return Constant(any(_is_subclass(t, value, wanted) for wanted in _classes(t, classes)))


def _is_subclass(t: Tracer, value: Value, wanted: object) -> bool:
    answer = _own_answer(t, wanted, "__subclasscheck__", value)
    return bool(t.python(issubclass, value.known(t), wanted)) if answer is None else answer


def _own_answer(t: Tracer, wanted: object, question: str, value: Value) -> bool | None:
    """The answer of a class of the program about its instances and subclasses; None if Python or torch answers."""
    ask = look_up(t, type(wanted), question)
    is_protocol = isinstance(value, ObjectValue) and getattr(ask, "__module__", "") == "typing"
    if not isinstance(ask, types.FunctionType) or is_in(ask.__module__, FIXED) and not is_protocol:
        return None
    return t.from_python(ask).call(t, [t.from_python(wanted), value], {}).truth(t)


@positional(callable)
def _callable(t: Tracer, value: Value) -> Value:
    """Whether the type has __call__."""
    if isinstance(value, (Constant,)):
        return Constant(callable(value.value))
    return Constant(look_up(t, value.python_type(), "__call__") is not MISSING)


@positional(getattr)
def _getattr(t: Tracer, value: Value, name: Value, default: Value | None = None) -> Value:
    """The attribute, or the default where reading raises AttributeError."""
    if not isinstance(known := name.known(t), str):
        unsupported(reasons.UNTRACEABLE_CALL, f"getattr: the name is a {type(known).__name__}")
    if default is None:
        return t.get_attr(value, known)
    found = t.attr_or_none(value, known)
    return found if found is not None else default


@positional(hasattr)
def _hasattr(t: Tracer, value: Value, name: Value) -> Value:
    """Whether reading raises AttributeError."""
    wanted = name.known(t)
    if not isinstance(wanted, str):
        t.raise_(TypeError, f"attribute name must be string, not '{name_in_messages(type(wanted))}'")
    return Constant(t.attr_or_none(value, wanted) is not None)


@positional(setattr)
def _setattr(t: Tracer, value: Value, name: Value, given: Value) -> Value:
    """value.name = given."""
    value.set_attr(t, name.known(t), given)
    return NONE


@positional(delattr)
def _delattr(t: Tracer, value: Value, name: Value) -> Value:
    """del value.name."""
    value.set_attr(t, name.known(t), None)
    return NONE


@positional(dir)
def _dir(t: Tracer, value: Value | None = None) -> Value:
    """Names of an object's attributes and its class's, or of the locals."""
    if value is None:
        return t.from_python(sorted(t.stack.frames[-1].bound_locals(t)))
    if isinstance(value, ObjectValue) and not value.overrides(t, "__dir__", "__getattribute__"):
        if value.given is not MISSING:
            t.get_attr(t.get_attr(value, "__dict__"), "keys").call(t, [], {}).length(t)
        return t.from_python(sorted({*dir(value.cls), *value.own_names(t)}))
    return t.from_python(t.python(dir, value.constant()))


@positional(id)
def _id(t: Tracer, value: Value) -> Value:
    """The ids of objects from outside, which are guarded; breaks the graph for others."""
    given = getattr(value, "given", MISSING)
    if given is MISSING or given is None:
        return RuntimeNumber(id, [value])
    source = value.source
    if source is not None:
        t.guards.on(source, IsObject(given), "its id() was used")
    return Constant(id(given))


def _index(t: Tracer, value: Value) -> Value:
    is_integer = isinstance(value, SizeValue) and issubclass(value.python_type(), int)
    return value if is_integer else Constant(value.as_index(t))


breaks(reasons.UNTRACEABLE_CALL, "making a descriptor", property, staticmethod, classmethod)


table({
    operator.truth: lambda t, value: Constant(value.truth(t)),
    operator.not_: lambda t, value: Constant(not value.truth(t)),
    operator.index: _index,
    os.fspath: lambda t, path: path.special(t, "__fspath__", []) if isinstance(path, ObjectValue)
        and look_up(t, path.cls, "__fspath__") is not MISSING else t.from_python(t.python(os.fspath, path.known(t))),
    operator.getitem: lambda t, base, key: get_item(t, base, key),
    operator.contains: lambda t, base, item: Constant(t.contains(base, item)),
    operator.is_: lambda t, left, right: Constant(is_same(t, left, right)),
    operator.is_not: lambda t, left, right: Constant(not is_same(t, left, right)),
    types.MethodType: lambda t, function, bound: BoundMethod(function, bound),
    typing.cast: lambda t, kind, value: value,
    functools.partial: lambda t, function, *args, **kwargs: PartialValue.of(t, function, list(args), kwargs),
    # The instance's dictionary, or the locals.
    vars: lambda t, value=None: t.from_python(locals).call(t, [], {}) if value is None
        else t.attr_or_none(value, "__dict__") or t.raise_(TypeError, "vars() argument must have __dict__ attribute"),
    type.__instancecheck__: lambda t, cls, value: Constant(any(cls.cls in kind.__mro__ for kind in _kinds(t, value))),
    type.__subclasscheck__: lambda t, cls, value: Constant(cls.cls in value.cls.__mro__),
    _abc._abc_instancecheck: lambda t, cls, value: Constant(
        any(_is_subclass(t, t.from_python(kind), cls.cls) for kind in _kinds(t, value))
    ),
    threading.get_ident: lambda t: RuntimeNumber(threading.get_ident, []),  # the thread that runs the program
    super: lambda t, start, bound: SuperValue(start.known(t), bound),
})  # fmt: skip
