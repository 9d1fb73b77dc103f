"""Calls, returns and generators."""

from __future__ import annotations

from explorer.compiler.capture import reasons
from explorer.compiler.capture.frame import NULL
from explorer.compiler.capture.opcodes.operators import OPCODES
from explorer.compiler.capture.values.base import Frame, Raised, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue, SuperValue
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.iterators import GeneratorValue, IteratorValue
from explorer.compiler.capture.values.objects import MISSING
from explorer.compiler.capture.values.sequences import ListValue, TupleValue
from explorer.core.classes import name_in_messages
from explorer.core.reasons import unsupported
from explorer.ir.bytecode import Instruction


def callee(f: Frame) -> tuple[Value, list[Value]]:
    """The callable and, where it is a method, the object: the two values below the arguments."""
    second = f.pop()
    first = f.pop()
    if first is NULL:
        return second, []
    if second is NULL:
        return first, []
    return first, [second]


@OPCODES.rule("CALL")
def call(t: Tracer, f: Frame, i: Instruction) -> None:
    """Call with positional and keyword arguments."""
    count, names = i.arg
    given = f.pop_many(count)
    function, bound = callee(f)
    positional, named = given[: count - len(names)], given[count - len(names) :]
    kwargs = dict(zip(names, named, strict=True))
    args = [*bound, *positional]
    if isinstance(function, ClassValue) and function.cls is super and not args:
        f.push(_super_of_frame(t, f))
        return
    f.push(t.call(function, args, kwargs))


def _super_of_frame(t: Tracer, f: Frame) -> Value:
    """super() without arguments: the class of the body, and the first argument."""
    start = f.cells["__class__"].load(t) if "__class__" in f.cells else None
    first = f.code.locals[0] if f.code.arg_count else next(iter(f.code.cells), None)
    if not isinstance(start, ClassValue) or first is None:
        t.raise_(RuntimeError, "super(): no arguments")
    bound = f.cells[first].load(t) if first in f.cells else t.load_local(f, first)
    assert bound is not None
    return SuperValue(start.cls, bound)


@OPCODES.rule("CALL_FUNCTION_EX")
def call_function_ex(t: Tracer, f: Frame, i: Instruction) -> None:
    """f(*args, **kwargs)."""
    named = f.pop() if i.arg else None
    if named is not None and not is_mapping(t, named):
        raise_not_unpacked(t, f.stack[-2], "** must be a mapping", named)
    kwargs = {t.constant_of(k): v for k, v in t.mapping_pairs(named)} if named is not None else {}
    if not all(isinstance(name, str) for name in kwargs):
        t.raise_(TypeError, "keywords must be strings")
    given = f.pop()
    if not is_iterable(t, given):
        raise_not_unpacked(t, f.stack[-1], "* must be an iterable", given)
    args = t.items(given)
    function, bound = callee(f)
    f.push(t.call(function, [*bound, *args], kwargs))


def is_mapping(t: Tracer, value: Value) -> bool:
    return t.look_up(value.python_type(), "keys") is not MISSING


def is_iterable(t: Tracer, value: Value) -> bool:
    found = (t.look_up(value.python_type(), name) for name in ("__iter__", "__getitem__"))
    return any(each not in (MISSING, None) for each in found)


def name_of_call(t: Tracer, function: Value) -> str:
    """As in Python's errors about the arguments of a call."""
    names = [t.constant_of(t.get_attr(function, name)) for name in ("__module__", "__qualname__")]
    return ".".join(name for name in names if name not in (None, "builtins")) + "()"


def raise_not_unpacked(t: Tracer, function: Value, wanted: str, given: Value) -> None:
    what = f"{name_of_call(t, function)} argument after {wanted}"
    t.raise_(TypeError, f"{what}, not {name_in_messages(given.python_type())}")


@OPCODES.rule("RETURN_VALUE")
def return_value(t: Tracer, f: Frame, i: Instruction) -> None:
    """Leave the frame."""
    f.result = f.pop()


@OPCODES.rule("YIELD_VALUE")
def yield_value(t: Tracer, f: Frame, i: Instruction) -> None:
    """Suspend the frame; what is sent takes the value's place."""
    if f is t.frames[0]:
        unsupported(reasons.FRAME_KIND, "a generator")
    f.yielded = f.pop()


@OPCODES.rule("GET_ITER")
def get_iter(t: Tracer, f: Frame, i: Instruction) -> None:
    """iter(value)."""
    f.push(t.iterate(f.pop()))


@OPCODES.rule("GET_YIELD_FROM_ITER")
def get_yield_from_iter(t: Tracer, f: Frame, i: Instruction) -> None:
    """iter(value), for yield from."""
    value = f.pop()
    f.push(value if isinstance(value, GeneratorValue) else t.iterate(value))


@OPCODES.rule("SEND")
def send(t: Tracer, f: Frame, i: Instruction) -> str | None:
    """One turn of yield from: the receiver's next item, or its return value."""
    sent = f.pop()
    receiver = f.stack[-1]
    if isinstance(receiver, GeneratorValue):
        found = receiver.send(t, sent)
        finished: Value = receiver.returned
    elif isinstance(receiver, IteratorValue):
        found = receiver.next(t)
        finished = Constant(None)
    else:
        found, finished = _next_of_object(t, receiver)
    f.push(found if found is not None else finished)
    return None if found is not None else i.target


def _next_of_object(t: Tracer, receiver: Value) -> tuple[Value | None, Value]:
    try:
        return t.call_method(receiver, "__next__", []), Constant(None)
    except Raised as raised:
        if not issubclass(raised.value.python_type(), StopIteration):
            raise
        return None, t.get_attr(raised.value, "value")


@OPCODES.rule("END_SEND")
def end_send(t: Tracer, f: Frame, i: Instruction) -> None:
    """Drop the receiver below the result."""
    result = f.pop()
    f.pop()
    f.push(result)


@OPCODES.rule("CALL_INTRINSIC_1")
def call_intrinsic_1(t: Tracer, f: Frame, i: Instruction) -> None:
    """An interpreter helper of one value."""
    value = f.pop()
    match i.arg:
        case "LIST_TO_TUPLE":
            assert isinstance(value, ListValue)
            f.push(TupleValue(value.items))
        case "UNARY_POSITIVE":
            f.push(t.unary("+", value))
        case "STOPITERATION_ERROR":
            if issubclass(value.python_type(), StopIteration):
                f.push(t.exception(RuntimeError, [Constant("generator raised StopIteration")]))
            else:
                f.push(value)
        case _:
            unsupported(reasons.OPCODE, f"CALL_INTRINSIC_1 {i.arg}")
