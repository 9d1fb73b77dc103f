"""Real objects to symbolic values, with the guards that make the translation right. Stock: variables/builder.py."""

from __future__ import annotations

import collections
import datetime
import enum
import functools
import itertools
import operator
import types
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nested._internal.nested_tensor import NestedTensor

from explorer.compiler.capture import guards, hook, reasons
from explorer.compiler.capture.operator_checks import lies
from explorer.compiler.capture.resume import STACK, progress
from explorer.compiler.capture.values import functions, iterators
from explorer.compiler.capture.values.arrays import is_numpys, wrap_array
from explorer.compiler.capture.values.base import Cell, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue, PyModuleValue
from explorer.compiler.capture.values.constant import Constant, FloatValue, SizeValue, from_sym, is_plain
from explorer.compiler.capture.values.derived import DerivedValue, base_of
from explorer.compiler.capture.values.mappings import DictValue, ProxyValue, SetValue
from explorer.compiler.capture.values.modules import AUTOCASTS, AutocastValue, ModuleValue
from explorer.compiler.capture.values.objects import ExceptionValue, Lazy, ObjectValue
from explorer.compiler.capture.values.overrides import PLAIN, dispatches, is_wrapper
from explorer.compiler.capture.values.sequences import ListValue, SliceValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorValue, graph_call, recorded
from explorer.core.libraries import FIXED, is_in
from explorer.core.reasons import unsupported
from explorer.ir import capture as ir
from explorer.ir.description import is_of
from explorer.ir.wrappers import differentiable, joined, part_of, unflattened

BUILTIN_CALLABLES = (
    types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType, types.MethodWrapperType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator, functools._lru_cache_wrapper,
)  # fmt: skip
_UNORDERED: tuple[Any, ...] = ({}, {}.items(), {}.values(), set())
_ITERATORS = tuple(type(iter(each)) for each in ([], (), *_UNORDERED, "", range(0))) + (
    enumerate, zip, map, filter, reversed, types.GeneratorType,
)  # fmt: skip

_TAKEN = tuple(type(iter(each)) for each in _UNORDERED)

UNROLLED = 8
"""Turns left of a loop that are unrolled after a break in it. Guards on its place make each a compile of its own."""

ORIGINAL = "__explorer_original__"
"""The attribute by which a compiled function names what it compiles: calls of it inside traced code inline that."""


def wrap(t: Tracer, source: ir.Source, given: object) -> Value:
    """The value of a real object that the frame reads at `source`."""
    if type(given) in (torch.SymInt, torch.SymFloat, torch.SymBool):
        return t.from_python(given)
    if is_plain(given) and not issubclass(type(given), np.generic):
        return _plain_number(t, source, given)
    if is_of(given, type):
        named = ClassValue(given, source)
        named.guard(t)
        return named
    found = t.objects.values.get(id(given))
    if found is not None:
        if found.source is not None and found.source != source:
            _second_name(t, found.source, source, given)
        return found
    made = _identity(t, source, given)
    t.objects.values[id(given)] = made
    t.objects.kept.append(given)
    return made


def _second_name(t: Tracer, first: ir.Source, second: ir.Source, given: object) -> None:
    """Guard that one object is at two places: later calls have to find one object there too."""
    if isinstance(second, ir.Known):
        first, second = second, first
    if isinstance(first, ir.Known):
        t.guards.on(second, guards.IsObject(given), "two names of one object, of which the other is a constant")
    else:
        t.guards.on(second, guards.SameObject(first), "two names of one object: a change is seen through both")


def _plain_number(t: Tracer, source: ir.Source, given: object) -> Value:
    if type(given) is int and t.numbers.is_dynamic(source, given):
        t.guards.on(source, guards.TypeIs(int), "it is an integer of any value in the graph")
        return SizeValue(t.tape.size_input(source, given), source)
    if type(given) is float and t.numbers.is_dynamic(source, given):
        t.guards.on(source, guards.TypeIs(float), "it is a float of any value in the graph")
        return FloatValue(given, source, t)
    made = Constant(given, source)
    if isinstance(made.condition(), guards.Equals):
        return _guarded_once_read(t, made)
    made.guard(t)
    return made


def _guarded_once_read(t: Tracer, value: Value) -> Value:
    value.unread = t
    t.objects.unread.append(value)
    return value


def _identity(t: Tracer, source: ir.Source, given: object) -> Value:
    """An object whose identity matters. Made once per object. What its class says in Python of its class is not asked:
    that would run code of the program while it is compiled."""
    kind = next(each for each in _KINDS if each.test(given))
    if kind.condition is not None:
        t.guards.on(source, kind.condition(given), kind.why)
    return kind.make(t, source, given)


def _compiled(t: Tracer, source: ir.Source, given: object) -> Value:
    """Inline what a compiled function or module was made from, not the compiled one."""
    t.torch_state.unreported = t.torch_state.unreported or issubclass(type(given), torch.jit.ScriptFunction)
    original = _original(given)
    return t.wrap(t.objects.known(original), original)


def _bound_method(t: Tracer, source: ir.Source, given: types.MethodType) -> Value:
    function = t.wrap(ir.Attr(source, "__func__"), given.__func__)
    return functions.BoundMethod(function, t.wrap(ir.Attr(source, "__self__"), given.__self__), source)


def _is_builtin_method(given: object) -> bool:
    """Whether it is a method written in C of an object that is a value of its own."""
    if not is_of(given, types.BuiltinFunctionType):
        return issubclass(type(given), types.MethodWrapperType)
    owner = given.__self__
    if isinstance(owner, (types.ModuleType, type, type(None))) or type(owner) is _CAPSULE:
        return False
    of_python = type(owner).__module__ in ("builtins", "collections")
    return of_python or is_plain(owner) or isinstance(owner, torch.Tensor)


_CAPSULE = type(datetime.datetime_CAPI)  # types.CapsuleType, from Python 3.13 on


def _is_builtin(given: object) -> bool:
    of_torch = issubclass(type(given), BUILTIN_CALLABLES) or type(given).__module__.startswith("torch._C")
    return of_torch or callable(given) and is_numpys(given)


def _builtin(t: Tracer, source: ir.Source, given: Callable[..., object]) -> Value:
    is_function = callable(given) or issubclass(type(given), BUILTIN_CALLABLES)
    return functions.BuiltinValue(given, source) if is_function else ObjectValue(type(given), source, given)


def _enum_member(t: Tracer, source: ir.Source, given: enum.Enum) -> Value:
    return _derived(t, source, given) if base_of(type(given)) else ObjectValue(type(given), source, given)


def _derived(t: Tracer, source: ir.Source, given: object) -> Value:
    base = base_of(type(given))
    assert base is not None
    return DerivedValue.given_by_frame(t, source, given, base)


def _object(t: Tracer, source: ir.Source, given: object) -> Value:
    made = ObjectValue(type(given), source, given)
    made.asked = t
    return made


def _partial(t: Tracer, source: ir.Source, given: functools.partial[object]) -> Value:
    args = [t.wrap(ir.Item(ir.Attr(source, "args"), i), a) for i, a in enumerate(given.args)]
    why = "the arguments that a partial adds to a call are read from it"
    t.guards.on(ir.Attr(source, "args"), guards.LengthIs(len(args)), why)
    keywords = t.wrap(ir.Attr(source, "keywords"), given.keywords)
    assert isinstance(keywords, DictValue)
    return functions.PartialValue(t.wrap(ir.Attr(source, "func"), given.func), args, keywords, source, given)


def _slice(t: Tracer, source: ir.Source, given: slice) -> Value:
    return SliceValue(*(t.wrap(ir.Attr(source, name), getattr(given, name)) for name in ("start", "stop", "step")))


def _exception(t: Tracer, source: ir.Source, given: BaseException) -> Value:
    args = [t.wrap(ir.Item(ir.Attr(source, "args"), i), a) for i, a in enumerate(given.args)]
    return ExceptionValue(type(given), args, source, given)


def _weak_reference(t: Tracer, source: ir.Source, given: weakref.ref[object]) -> Value:
    return functions.WeakReference(t.wrap(ir.Returned(source, "__call__"), given()), source, given)


def _getter(t: Tracer, source: ir.Source, given: Any) -> Value:
    """What operator.itemgetter and its like make: the call that makes it again."""
    maker, args = given.__reduce__()
    t.guards.on(ir.Returned(source, "__reduce__"), guards.same_value((maker, args)), "what it reads of its argument")
    return t.from_python(maker).call(t, [t.from_python(arg) for arg in args], {})


def _builtin_method(t: Tracer, source: ir.Source, given: Any) -> Value:
    """A method written in C: which one it is, and of what, is guarded."""
    t.guards.on(ir.Attr(source, "__name__"), guards.Equals(given.__name__), _WHICH_METHOD)
    bound = t.wrap(ir.Attr(source, "__self__"), given.__self__)
    return functions.BuiltinMethod(bound, given.__name__, getattr(type(given.__self__), given.__name__, None))


def _original(given: Any) -> object:
    """The function or module that a compiled one was made from, if we, stock or TorchScript compiled it; else None."""
    if issubclass(type(given), torch.jit.ScriptFunction):
        return getattr(given, "_torchdynamo_inline", None)
    if not issubclass(type(given), (types.FunctionType, torch.nn.Module)):
        return None
    marks = object.__getattribute__(given, "__dict__")  # getattr() might run code of the program
    if marks.get("_torchdynamo_disable"):
        return None
    if issubclass(type(given), types.FunctionType):
        return marks.get(ORIGINAL) or marks.get("_torchdynamo_orig_callable")
    stocks = type(given).__module__ == "torch._dynamo.eval_frame"
    return given._orig_mod if stocks else marks.get(ORIGINAL)


def _function(t: Tracer, source: ir.Source, given: types.FunctionType) -> Value:
    if not (isinstance(source, ir.Known) and is_in(given.__globals__.get("__name__"), FIXED)):
        t.guards.on(source, guards.CodeIs(given.__code__), "its body was inlined, so its code has to stay the same")
    code = t.config.edit.source.code_of(given)
    return functions.FunctionValue(code, given.__globals__, name=given.__qualname__, given=given, source=source)


def wrap_tensor(t: Tracer, source: ir.Source, given: torch.Tensor) -> Value:
    t.objects.kept.append(given)
    kind, place, real = type(given), source, given
    if kind not in PLAIN:
        if dispatches(kind):
            return wrap_wrapper(t, source, given)
        if issubclass(kind, torch.nn.parameter.UninitializedTensorMixin):  # type: ignore[attr-defined]
            unsupported(reasons.TENSOR_SUBCLASS, f"{source.name} is a {kind.__name__}")
        t.guards.on(source, guards.TypeIs(kind), "its class decides what operations on it do")
        source = ir.AsTensor(source)
        given = ir.as_tensor(given)  # type: ignore[assignment]
    if given.layout is not torch.strided or given.is_quantized or given.is_nested:
        unsupported(reasons.SPARSE, f"{source.name} is {given.layout}")
    if given._is_zerotensor():
        unsupported(reasons.SPARSE, f"{source.name} is a zero tensor, which has no memory")
    if torch.is_inference(given) and not torch.is_inference_mode_enabled():
        unsupported(reasons.SPARSE, f"{source.name} is an inference tensor")
    return _guarded_once_read(t, TensorValue(source=place, given=real))


def _size(t: Tracer, source: ir.Source, given: torch.Size) -> Value:
    t.guards.on(source, guards.Equals(given), "its sizes are used while tracing")
    return TupleValue(map(Constant, given), torch.Size, source, given)


def _sequence(t: Tracer, source: ir.Source, given: Any) -> Value:
    base: Any = next(each for each in (tuple, list, collections.deque) if issubclass(type(given), each))
    items = [Lazy(ir.Item(source, i), item) for i, item in enumerate(base.__iter__(given))]
    if hasattr(type(given).__getitem__, "__code__"):
        t.objects.raw_items.update(item.source for item in items)
    made = (TupleValue if base is tuple else ListValue)(items, type(given), source, given)
    made.asked = made.unread = t
    if base is collections.deque and isinstance(made, ListValue):
        why = "what goes in at one end may push out another"
        t.guards.on(ir.Attr(source, "maxlen"), guards.same_value(given.maxlen), why)
        made.maxlen = given.maxlen
    return made


def _set(t: Tracer, source: ir.Source, given: Any) -> Value:
    base = set if issubclass(type(given), set) else frozenset
    members = [*base.__iter__(given)]
    if not all(map(is_hashable_known, members)):
        unsupported(reasons.OPERATION, f"{source.name} is a set of objects")
    t.guards.on(source, guards.same_members(given), "membership and iteration were decided while tracing")
    made = SetValue(type(given), source, given)
    made.entries = {member.key(): member for member in map(t.from_python, members)}
    return made


def _mapping(t: Tracer, source: ir.Source, given: Any) -> Value:
    kind = type(given)
    table = DictValue(kind, source, given)
    raw = given if issubclass(kind, dict) else dict(given)
    keys = dict.keys(raw)
    if any(issubclass(type(key), torch.Tensor) for key in keys) and all(map(is_hashable_known, keys)):
        _by_position(t, table, raw, source)
    else:
        entries = {}
        for key, item in dict.items(raw):  # nothing is looked up: that would run the __hash__ of a key's class
            if not is_hashable_known(key):
                unsupported(reasons.OPERATION, f"{source.name} has a key of type {type(key).__name__}")
            k = t.from_python(key)
            entries[id(key)] = k.key(), [k, Lazy(ir.Item(source, key), item)]
            if hasattr(kind.__getitem__, "__code__"):
                t.objects.raw_items.add(ir.Item(source, key))
        table.entries = dict(entries[id(key)] for key in guards.keys_of(raw))
        table.unread = t
    if issubclass(kind, collections.defaultdict):
        table.factory = t.wrap(ir.Attr(source, "default_factory"), given.default_factory)
    return ProxyValue(table, source, given) if issubclass(kind, types.MappingProxyType) else table


def _by_position(t: Tracer, table: DictValue, raw: dict[object, object], source: ir.Source) -> None:
    """The entries of a dictionary with tensors as keys, guarded by position, so that no guard keeps a key alive."""
    keys, values = ir.Listed(source, "keys"), ir.Listed(source, "values")
    t.guards.on(keys, guards.LengthIs(len(raw)), "its keys are tensors, and are read by position")
    for position, (key, item) in enumerate(dict.items(raw)):
        k = t.wrap(ir.Item(keys, position), key)
        table.entries[k.key()] = [k, Lazy(ir.Item(values, position), item)]


def is_hashable_known(key: object) -> bool:
    """Whether a dictionary key compares by plain value or by identity."""
    if isinstance(key, (tuple, frozenset)):
        return all(map(is_hashable_known, key))
    hashes: object = type(key).__hash__
    return (
        is_plain(key)
        or type(key) in PLAIN
        or type(key) is weakref.ref
        and key() is not None
        and is_hashable_known(key())
        or hashes is object.__hash__
        or isinstance(hashes, types.FunctionType)
        and not isinstance(key, (torch.Tensor, tuple, frozenset, str, int, float))
        or isinstance(key, (type, types.FunctionType, types.BuiltinFunctionType))
    )


def _iterator(t: Tracer, source: ir.Source, given: object) -> Value:
    """The iterator of a loop that a continuation or a comprehension continues: what it iterates over, and its position.
    Other iterators stay Python's, also that of a loop with many iterations left, since each is likely to break."""
    is_loop = isinstance(source, ir.Local) and source.variable.startswith(STACK)
    parts = ir.Item(ir.Returned(source, "__reduce__"), 1)
    if type(given) in (zip, map, filter, enumerate) and not is_loop:
        return _over_others(t, source, given, parts)
    if isinstance(given, _TAKEN) and not is_loop:
        rest = t.wrap(ir.Item(parts, 0), given.__reduce__()[1][0])
        return iterators.TakenIterator(rest.unpack(t), type(given), None, source)
    found = progress(given)
    if found is None or (is_loop and len(found[0]) - found[1] > UNROLLED):
        return iterators.GivenIterator(given, source, reasons.LOOP_TURN if is_loop else reasons.GENERATOR)
    base, position = found
    t.guards.on(source, guards.iterator_at(position, len(base)), "the turns that the loop has left were unrolled")
    if isinstance(base, (range, str, bytes)):
        t.guards.on(source, guards.iterates_over(base), "the loop's numbers were used while tracing")
        return iterators.SequenceIterator(Constant(base), position, source)
    return iterators.SequenceIterator(
        t.wrap(ir.Item(ir.Item(ir.Returned(source, "__reduce__"), 1), 0), base), position, source
    )


def _count(t: Tracer, source: ir.Source, given: object) -> Value:
    """itertools.count continues from its number, which is guarded, or made symbolic, as any other number is."""
    parts, numbers = ir.Item(ir.Returned(source, "__reduce__"), 1), given.__reduce__()[1]
    t.guards.on(parts, guards.LengthIs(len(numbers)), "whether it has a step")
    current, *by = (t.wrap(ir.Item(parts, place), number) for place, number in enumerate(numbers))
    return iterators.CountIterator(current, by[0] if by else Constant(1), source)


def _over_others(t: Tracer, source: ir.Source, given: object, parts: ir.Source) -> Value:
    """An iterator that takes its items from other iterators, which are moved on for themselves."""
    held = given.__reduce__()
    inner = [t.wrap(ir.Item(parts, i), part) for i, part in enumerate(held[1])]
    if isinstance(given, enumerate):
        if not isinstance(inner[0], (iterators.SequenceIterator, iterators.TakenIterator)):
            return iterators.GivenIterator(given, source, reasons.GENERATOR)
        inner[0].source = None
        return iterators.EnumerateIterator(inner[0], inner[1].as_index(t), source)
    if isinstance(given, zip):
        is_strict = len(held) > 2
        t.guards.on(ir.Returned(source, "__reduce__"), guards.LengthIs(len(held)), "whether it is strict")
        return iterators.ZipIterator(inner, is_strict, source)
    first, *rest = inner
    return (
        iterators.MapIterator(first, rest, source)
        if isinstance(given, map)
        else iterators.FilterIterator(first, rest[0], source)
    )


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda given: issubclass(type(given), kinds)


def _is_just(*kinds: type) -> Callable[[object], bool]:
    """Whether it is of one of these types: what derives from it may do otherwise."""
    return lambda given: type(given) in kinds


@dataclass(frozen=True)
class Kind:
    """Objects of one kind: a test of which they are, how their value is made, and what is guarded of each first."""

    test: Callable[[object], bool]
    make: Callable[[Tracer, ir.Source, Any], Value]
    condition: Callable[[object], ir.Condition] | None = lambda given: guards.TypeIs(type(given))
    why: str = "its class decides what operations on it do"


_WHICH_METHOD = "which method it is decides what its call does"
_KINDS = (
    Kind(_is(torch.Tensor), wrap_tensor, None),
    Kind(_is(np.ndarray, np.generic), wrap_array, None),
    Kind(lambda given: _original(given) is not None, _compiled, guards.IsObject, "what it compiles was inlined"),
    Kind(_is(types.FunctionType), _function, None),
    Kind(_is(types.MethodType), _bound_method, why="its function and the object it is bound to are read from it"),
    Kind(
        _is(types.ModuleType), lambda t, source, given: PyModuleValue(given, source),
        guards.IsObject, "names were looked up in this module",
    ),
    Kind(_is_builtin_method, _builtin_method, why=_WHICH_METHOD),
    Kind(_is_builtin, _builtin, guards.IsObject, "it is called during capture, or is a node of the graph"),
    Kind(_is(enum.Enum), _enum_member, guards.IsObject, "it is a member of an enumeration"),
    Kind(_is(torch.nn.Module), lambda t, source, given: ModuleValue(type(given), source, given)),
    Kind(_is_just(*AUTOCASTS), AutocastValue.given_by_frame),
    Kind(_is_just(functools.partial), _partial),
    Kind(_is(torch.Size), _size),
    Kind(_is(tuple, list, collections.deque), _sequence),
    Kind(_is(set, frozenset), _set),
    Kind(_is(dict, types.MappingProxyType), _mapping),
    Kind(_is(slice), _slice),
    Kind(_is(types.CellType), lambda t, source, given: Cell(given=given, source=source)),
    Kind(_is(BaseException), _exception),
    Kind(_is_just(operator.itemgetter, operator.attrgetter, operator.methodcaller), _getter),
    Kind(_is_just(weakref.ref), _weak_reference),
    Kind(_is_just(itertools.count), _count),
    Kind(_is_just(*_ITERATORS), _iterator),
    Kind(lambda given: base_of(type(given)) is not None, _derived),
    Kind(_is(object), _object),
)  # fmt: skip
"""The first that an object is of makes its value."""


def from_python(t: Tracer, value: Any) -> Value:
    """The value of an object computed while tracing, or reached through something known: no guards on itself."""
    if isinstance(value, Value):
        return value
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return from_sym(t, value)
    if is_plain(value):
        return Constant(value)
    if isinstance(value, type):
        return ClassValue(value)
    kind = type(value)
    if kind in (tuple, torch.Size) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return TupleValue([t.from_python(item) for item in value], kind)
    if kind is list:
        return ListValue([t.from_python(item) for item in value])
    if kind in (dict, collections.OrderedDict):
        return DictValue.of(((t.from_python(key), t.from_python(item)) for key, item in value.items()), kind)
    if kind in (set, frozenset):
        return SetValue.of([t.from_python(item) for item in value], kind)
    if kind is slice:
        return SliceValue(*(t.from_python(part) for part in (value.start, value.stop, value.step)))
    return wrap(t, t.objects.known(value), value)


def instance_of_class(t: Tracer, cls: type) -> ObjectValue:
    """A fresh, empty instance of a class whose __new__ is a builtin type's."""
    if issubclass(cls, BaseException):
        return ExceptionValue(cls, [])
    if issubclass(cls, dict):
        return DictValue(cls)
    if issubclass(cls, (list, collections.deque)):
        return ListValue([], cls)
    if issubclass(cls, (set, frozenset)):
        return SetValue(cls)
    made = ModuleValue(cls) if issubclass(cls, torch.nn.Module) else ObjectValue(cls)
    made.asked = t
    return made


# ----------------------------------------------------------------------------------- tensors around other tensors
#
# Traced code takes them apart: the graph is given what is inside, and makes them. Operators on one are its class's, and
# become those on what is inside when the graph is traced to ATen. What leaves the graph is what is inside again. Stock
# counterpart: torch/_functorch/_aot_autograd/subclass_utils.py.

_WHY = "a tensor like this is made of what is inside, and taken for the same kind of wrapper"


def wrap_wrapper(t: Tracer, source: ir.Source, given: torch.Tensor) -> TensorValue:
    """The wrapper that a frame was given, made again by a node."""
    if not is_wrapper(given):
        unsupported(reasons.TENSOR_SUBCLASS, f"{source.name} is a {type(given).__name__}")
    try:
        names, context = taken = given.__tensor_flatten__()  # type: ignore[attr-defined]
    except Exception as error:  # the program's
        t.tape.refuse_frame(f"{source.name}: its __tensor_flatten__ raises {error!r}", reasons.TENSOR_SUBCLASS)
    if lost := [name for name in names if not hasattr(given, name)]:  # its constructor has not ended
        why = f"{source.name} has no {lost[0]}, which its __tensor_flatten__ names"
        t.tape.refuse_frame(why, reasons.TENSOR_SUBCLASS)
    t.guards.on(source, guards.TypeIs(type(given)), _WHY)
    t.guards.on(ir.Returned(source, "__tensor_flatten__"), guards.same_value(taken), _WHY)
    t.guards.on(ir.Attr(source, "requires_grad"), guards.Equals(given.requires_grad), _WHY)
    parts = [_part(t, source, given, name) for name in names]
    _refuse_classes_inside(parts)
    if not isinstance(parts[0], TensorValue) or not given.is_nested and parts[0].fake.shape != given.shape:
        unsupported(reasons.TENSOR_SUBCLASS, f"{source.name}: what is first inside has other sizes")
    made = recorded(t, "call_function", unflattening(type(given), names, context, given.requires_grad), parts, {})
    assert isinstance(made, TensorValue)
    fakes = [part.fake for part in parts if isinstance(part, TensorValue)]
    if not _has_same_parts(made.fake, given, dict(zip(names, fakes, strict=True))):
        unsupported(reasons.TENSOR_SUBCLASS, f"{source.name}: {_NOT_AGAIN}")
    others = guards.same_value(_attributes(given, names), "attributes are", lambda value: _attributes(value, names))
    t.guards.on(source, others, _WHY)
    made.source, made.given = source, given
    return made


def _refuse_classes_inside(parts: Iterable[Value]) -> None:
    """The graph has tensors of a class that leaves operators alone as plain ones; what is inside of a wrapper would
    lose the class."""
    for part in parts:
        if isinstance(part, TensorValue) and part.cls not in PLAIN and not is_wrapper(part.fake):
            unsupported(reasons.TENSOR_SUBCLASS, f"a wrapper around {part.describe()}, a {part.cls.__name__}")


_NOT_AGAIN = "its class makes another tensor of what is inside"


def _has_same_parts(made: Any, wrapper: Any, parts: Mapping[str, torch.Tensor]) -> bool:
    """Whether what a class made of these parts is like the wrapper that they are of: its kind, what it says of itself,
    all of its attributes; and whether what is inside are the parts."""
    if type(made) is not type(wrapper):
        return False
    taken, again = wrapper.__tensor_flatten__(), made.__tensor_flatten__()
    if not wrapper.is_nested and _axes(made) != _axes(wrapper):  # what is inside got others since
        return False
    if not guards.is_same_value((again, _attributes(made, again[0])), (taken, _attributes(wrapper, taken[0]))):
        return False
    return all(_is_part(getattr(made, name), part) for name, part in parts.items())


def _axes(wrapper: torch.Tensor) -> list[object]:
    """Its sizes, strides and offset, as numbers."""
    found = [*wrapper.shape, *wrapper.stride(), wrapper.storage_offset()]
    return [each.node.hint if isinstance(each, torch.SymInt) else each for each in found]


def _is_part(inside: Any, part: Any) -> bool:
    """Whether it is this tensor, or is it without its gradient."""
    if inside is part or not is_wrapper(part):
        return inside is part or lies(inside) == lies(part)
    return _has_same_parts(inside, part, {name: getattr(part, name) for name in part.__tensor_flatten__()[0]})


def _attributes(wrapper: torch.Tensor, names: Sequence[str]) -> dict[str, object]:
    """The attributes of a wrapper beside the tensors inside."""
    if type(wrapper) is NestedTensor:  # torch's own: its __tensor_flatten__ is complete
        return {}
    return {name: held for name, held in vars(wrapper).items() if name not in names and not name.startswith(_TORCHS)}


_TORCHS = ("_dynamo_", "_is_param")


def _part(t: Tracer, source: ir.Source, given: torch.Tensor, name: str) -> Value:
    """The inner tensor, as gradients reach it."""
    if not given.requires_grad or name not in differentiable(given):
        return t.wrap(ir.Attr(source, name), getattr(given, name))
    return t.wrap_tensor(ir.Inside(source, name), part_of(given, name))


def unflattening(cls: type, names: Sequence[str], context: object, differentiable: bool) -> Callable[..., torch.Tensor]:
    """A function of the tensors inside that makes the wrapper; with gradients from it to them, if that is wanted."""
    make = joined if differentiable else unflattened

    def unflatten(*parts: torch.Tensor) -> torch.Tensor:
        return make(cls, names, context, parts)

    return _named(unflatten, cls.__name__)


@functools.cache
def inside(name: str) -> Callable[[object], torch.Tensor]:
    """A function of a wrapper that takes out a tensor, as gradients reach it."""

    def part(wrapper: object) -> torch.Tensor:
        return part_of(wrapper, name)

    return _named(part, name)


def rewrapped(t: Tracer, wrapper: Value) -> tuple[Callable[..., torch.Tensor], list[Value]]:
    """What makes a wrapper for the program, and what is inside of it, as the graph returns it. No mode
    of the program is asked: eager calls nothing here."""
    assert isinstance(wrapper, TensorValue)
    fake: Any = wrapper.fake
    names, context = fake.__tensor_flatten__()
    parts = [
        recorded(t, "call_function", inside(name), [wrapper], {})
        if fake.requires_grad and name in differentiable(fake)
        else recorded(t, "call_function", getattr, [wrapper, Constant(name)], {})
        for name in names
    ]  # fmt: skip
    make = unflattening(wrapper.cls, names, context, fake.requires_grad)
    fakes = [part.fake for part in parts if isinstance(part, TensorValue)]
    made = t.tape.call("call_function", make, (*fakes,), {})
    if not _has_same_parts(made, fake, dict(zip(names, fakes, strict=True))):
        unsupported(reasons.TENSOR_SUBCLASS, f"{wrapper.describe()}: {_NOT_AGAIN}")
    return make, parts


@functools.cache
def making(cls: type) -> Callable[..., torch.Tensor]:
    """A function that calls the class: FX cannot write one."""

    def make(args: Sequence[object], kwargs: dict[str, object]) -> torch.Tensor:
        made: torch.Tensor = cls(*args, **kwargs)
        return made

    return _named(make, cls.__name__)


def _named(function: Callable[..., object], name: str) -> Callable[..., torch.Tensor]:
    """The function as a node's target, of this module: FX writes what is of torch's as an attribute of torch. What it
    calls of the class is not compiled: that would call it again."""
    made: Any = hook.unwatched(function)
    made.__module__ = __name__
    made.__name__ = made.__qualname__ = f"{function.__name__}_{name}"
    return made  # type: ignore[no-any-return]


def make_wrapper(t: Tracer, cls: object, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _refuse_classes_inside([*args, *kwargs.values()])
    return graph_call(t, "call_function", making(cls), [t.from_python(tuple(args)), t.from_python(kwargs)], {})
