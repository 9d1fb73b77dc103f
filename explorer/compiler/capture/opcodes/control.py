"""Calls, returns and generators; jumps and loops; raising, handling, with blocks, and the pattern matching that asks
about types."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence

from explorer.compiler.capture import reasons
from explorer.compiler.capture.messages import asserted, is_assertion, is_checked_later
from explorer.compiler.capture.model import unary
from explorer.compiler.capture.opcodes.operators import (
    OPCODES,
    called,
    is_iterable,
    is_mapping,
    raise_not_unpacked,
    short,
)
from explorer.compiler.capture.values.base import Frame, Handled, Raised, Tracer, Unread, Value
from explorer.compiler.capture.values.classes import ClassValue, SuperValue
from explorer.compiler.capture.values.constant import NULL, Constant, NumberValue
from explorer.compiler.capture.values.functions import FunctionValue
from explorer.compiler.capture.values.iterators import GeneratorValue, IteratorValue, stopped_inside
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.objects import ExceptionValue, TracebackValue, mapping_pairs
from explorer.compiler.capture.values.sequences import ListValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.libraries import FIXED, is_in
from explorer.core.reasons import unsupported
from explorer.ir.bytecode import Instruction


def callee(f: Frame) -> tuple[Value, list[Value]]:
    """The callable and, where it is a method, the object: the two values below the arguments."""
    pair = f.pop_many(2)
    return called(pair), [] if NULL in pair else pair[1:]


@OPCODES.rule("CALL")
def call(t: Tracer, f: Frame, i: Instruction) -> None:
    """Call with positional and keyword arguments."""
    count, names = i.arg
    given = f.pop_many(count)
    function, bound = callee(f)
    if not _starts_later(function):
        given = [t.wrap(each.source, each.given) if isinstance(each, Unread) else each for each in given]
    positional, named = given[: count - len(names)], given[count - len(names) :]
    kwargs = dict(zip(names, named, strict=True))
    args = [*bound, *positional]
    if isinstance(function, ClassValue) and function.cls is super and not args:
        f.push(_super_of_frame(t, f))
        return
    f.push(function.call(t, args, kwargs))


def _starts_later(function: Value) -> bool:
    """Whether a call of it only binds arguments to locals, as that of a generator function of the program does."""
    if not isinstance(function, FunctionValue) or is_in(function.globals.get("__name__"), FIXED):
        return False
    if function.given is not None and vars(function.given):  # an attribute of it may decide what its call does
        return False
    kinds = function.code.co_flags & (inspect.CO_GENERATOR | inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return kinds == inspect.CO_GENERATOR and not function.code.co_cellvars


def _super_of_frame(t: Tracer, f: Frame) -> Value:
    """super() without arguments: the class of the body, and the first argument."""
    start = f.cells["__class__"].load(t) if "__class__" in f.cells else None
    first = f.code.locals[0] if f.code.arg_count else next(iter(f.code.cells), None)
    if not isinstance(start, ClassValue) or first is None:
        t.raise_(RuntimeError, "super(): no arguments")
    bound = f.cells[first].load(t) if first in f.cells else f.load_local(t, first)
    assert bound is not None
    return SuperValue(start.cls, bound)


@OPCODES.rule("CALL_FUNCTION_EX")
def call_function_ex(t: Tracer, f: Frame, i: Instruction) -> None:
    """f(*args, **kwargs)."""
    named = f.pop() if i.arg else None
    if named is not None and not is_mapping(t, named):
        raise_not_unpacked(t, called(f.stack[-3:-1]), "** must be a mapping", named)
    kwargs = {k.known(t): v for k, v in mapping_pairs(t, named)} if named is not None else {}
    if not all(isinstance(name, str) for name in kwargs):
        t.raise_(TypeError, "keywords must be strings")
    given = f.pop()
    if not is_iterable(t, given):
        raise_not_unpacked(t, called(f.stack[-2:]), "* must be an iterable", given)
    args = given.unpack(t)
    function, bound = callee(f)
    f.push(function.call(t, [*bound, *args], kwargs))


@OPCODES.rule("RETURN_VALUE")
def return_value(t: Tracer, f: Frame, i: Instruction) -> None:
    """Leave the frame."""
    f.result = f.pop()


@OPCODES.rule("YIELD_VALUE")
def yield_value(t: Tracer, f: Frame, i: Instruction) -> None:
    """Suspend the frame; what is sent takes the value's place."""
    if f is t.stack.frames[0]:
        unsupported(reasons.FRAME_KIND, "a generator")
    f.yielded = f.pop()


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
            f.push(unary(t, "+", value))
        case "STOPITERATION_ERROR":
            f.push(stopped_inside(t, value) if issubclass(value.python_type(), StopIteration) else value)
        case _:
            unsupported(reasons.OPCODE, f"CALL_INTRINSIC_1 {i.arg}")


# ------------------------------------------------------------------- jumps, exceptions, with blocks, pattern matching


@OPCODES.rule("POP_JUMP_IF")
def pop_jump_if(t: Tracer, f: Frame, i: Instruction) -> str | None:
    """Go to the target when the value's truth, or its being None, is as asked."""
    value = f.pop()
    if i.arg in ("none", "not none"):
        taken = value.is_none() == (i.arg == "none")
    elif (
        i.arg == "true"
        and isinstance(value, (TensorValue, NumberValue))
        and is_assertion(f)
        and is_checked_later(t, value, AssertionError, asserted(f))
    ):
        taken = True
    else:
        taken = value.truth(t) == (i.arg == "true")
    return i.target if taken else None


@OPCODES.rule("FOR_ITER")
def for_iter(t: Tracer, f: Frame, i: Instruction) -> str | None:
    """Push the next item, or leave the loop."""
    item = f.stack[-1].next(t)
    if item is None:
        f.pop()
        return i.target
    f.push(item)
    return None


@OPCODES.rule("PUSH_EXC_INFO")
def push_exc_info(t: Tracer, f: Frame, i: Instruction) -> None:
    """Put the exception handled so far below the new one."""
    error = f.pop()
    below = f.handled[-1].error if f.handled else Constant(None)
    f.handled.append(Handled(error, len(f.stack), below))
    f.push(below)
    f.push(error)


@OPCODES.rule("POP_EXCEPT")
def pop_except(t: Tracer, f: Frame, i: Instruction) -> None:
    """Handle again what was handled before."""
    f.pop()
    if f.handled:
        f.handled.pop()


@OPCODES.rule("CHECK_EXC_MATCH")
def check_exc_match(t: Tracer, f: Frame, i: Instruction) -> None:
    """Whether the exception is of a type, or of one of a tuple of types."""
    wanted = f.pop().known(t)
    classes = wanted if isinstance(wanted, tuple) else (wanted,)
    if not all(isinstance(cls, type) and issubclass(cls, BaseException) for cls in classes):
        t.raise_(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    f.push(Constant(issubclass(f.stack[-1].python_type(), wanted)))


@OPCODES.rule("RAISE_VARARGS")
def raise_varargs(t: Tracer, f: Frame, i: Instruction) -> None:
    """raise, raise error, raise error from cause."""
    cause = f.pop() if i.arg == 2 else None
    if i.arg == 0:
        handled = t.stack.handled()
        if handled is None:
            t.raise_(RuntimeError, "No active exception to reraise")
        raise Raised(handled)
    error = f.pop().as_exception(t)
    if not isinstance(error, ExceptionValue):
        t.raise_(TypeError, "exceptions must derive from BaseException")
    if cause is not None:
        error.set_attr(t, "__cause__", cause if cause.is_none() else cause.as_exception(t))
    raise Raised(error)


@OPCODES.rule("RERAISE")
def reraise(t: Tracer, f: Frame, i: Instruction) -> None:
    """Raise the top again."""
    raise Raised(f.pop())


@OPCODES.rule("BEFORE_WITH")
def before_with(t: Tracer, f: Frame, i: Instruction) -> None:
    """Enter a context manager: its __exit__ and what __enter__ returned."""
    manager = f.pop()
    leave = t.get_attr(manager, "__exit__")
    entered = t.call_method(manager, "__enter__", [])
    f.push(leave)
    f.push(entered)


@OPCODES.rule("WITH_EXCEPT_START")
def with_except_start(t: Tracer, f: Frame, i: Instruction) -> None:
    """Tell __exit__ of the exception."""
    error, leave = f.stack[-1], f.stack[-4]
    f.push(leave.call(t, [ClassValue(error.python_type()), error, TracebackValue(error)], {}))


@OPCODES.rule("CLEANUP_THROW")
def cleanup_throw(t: Tracer, f: Frame, i: Instruction) -> None:
    """After yield from was thrown into: go on where the receiver stopped."""
    error = f.pop()
    f.pop_many(2)
    if not issubclass(error.python_type(), StopIteration):
        raise Raised(error)
    f.push(Constant(None))
    f.push(t.get_attr(error, "value"))


@OPCODES.rule("MATCH_SEQUENCE")
def match_sequence(t: Tracer, f: Frame, i: Instruction) -> None:
    """Whether the top matches a sequence pattern."""
    kind = f.stack[-1].python_type()
    f.push(Constant(issubclass(kind, Sequence) and not issubclass(kind, (str, bytes, bytearray))))


@OPCODES.rule("MATCH_KEYS")
def match_keys(t: Tracer, f: Frame, i: Instruction) -> None:
    """The values of a mapping's keys, None where one is missing."""
    keys, mapping = f.stack[-1].unpack(t), f.stack[-2]
    if not isinstance(mapping, DictValue) or not all(mapping.has(t, key.key()) for key in keys):
        f.push(Constant(None))
    else:
        f.push(TupleValue([mapping.at(t, key.key()) for key in keys]))


@OPCODES.rule("MATCH_CLASS")
def match_class(t: Tracer, f: Frame, i: Instruction) -> None:
    """The attributes that a class pattern names, None where the value does not match."""
    names = f.pop().known(t)
    wanted = f.pop().known(t)
    value = f.pop()
    if not isinstance(wanted, type):
        t.raise_(TypeError, "called match pattern must be a type")
    if not t.from_python(isinstance).call(t, [value, t.from_python(wanted)], {}).truth(t):
        f.push(Constant(None))
        return
    found: list[Value] = []
    if i.arg:
        known = t.attr_or_none(t.from_python(wanted), "__match_args__")
        fields = None if known is None else known.known(t)
        if fields is None and wanted in _SELF_MATCHING and i.arg == 1:
            found.append(value)
        else:
            if len(fields or ()) < i.arg:
                count = len(fields or ())
                message = f"accepts {count} positional sub-pattern{'s' * (count != 1)} ({i.arg} given)"
                t.raise_(TypeError, f"{wanted.__name__}() {message}")
            names = (*(fields or ())[: i.arg], *names)
    for place, name in enumerate(names):
        if name in names[:place]:
            t.raise_(TypeError, f"{wanted.__name__}() got multiple sub-patterns for attribute {name!r}")
        attribute = t.attr_or_none(value, name)
        if attribute is None:
            f.push(Constant(None))
            return
        found.append(attribute)
    f.push(TupleValue(found))


_SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


short({
    "GET_ITER": lambda t, f, i: f.push(t.iterate(f.pop())),
    "JUMP": lambda t, f, i: i.target,
    "GET_LEN": lambda t, f, i: f.push(t.length(f.stack[-1])),
    "MATCH_MAPPING": lambda t, f, i: f.push(Constant(issubclass(f.stack[-1].python_type(), Mapping))),
})  # fmt: skip
