"""Jumps and loops; raising, handling, with blocks, and the pattern matching that asks about types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.compiler.capture.asserts import asserted, is_checked_later
from explorer.compiler.capture.opcodes.operators import OPCODES
from explorer.compiler.capture.values.base import Frame, Handled, Raised, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.exceptions import ExceptionValue, TracebackValue
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.sequences import TupleValue
from explorer.compiler.capture.values.size import NumberValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.ir.bytecode import Instruction


@OPCODES.rule("JUMP")
def jump(t: Tracer, f: Frame, i: Instruction) -> str | None:
    """Go to the target."""
    return i.target


@OPCODES.rule("POP_JUMP_IF")
def pop_jump_if(t: Tracer, f: Frame, i: Instruction) -> str | None:
    """Go to the target when the value's truth, or its being None, is as asked."""
    value = f.pop()
    if i.arg in ("none", "not none"):
        taken = t.is_none(value) == (i.arg == "none")
    elif (
        i.arg == "true"
        and isinstance(value, (TensorValue, NumberValue))
        and (error := asserted(t, f)) is not None
        and is_checked_later(t, value, error)
    ):
        taken = True
    else:
        taken = t.truth(value) == (i.arg == "true")
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
    wanted = t.constant_of(f.pop())
    classes = wanted if isinstance(wanted, tuple) else (wanted,)
    if not all(isinstance(cls, type) and issubclass(cls, BaseException) for cls in classes):
        t.raise_(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    f.push(Constant(issubclass(f.stack[-1].python_type(), wanted)))


@OPCODES.rule("RAISE_VARARGS")
def raise_varargs(t: Tracer, f: Frame, i: Instruction) -> None:
    """raise, raise error, raise error from cause."""
    cause = f.pop() if i.arg == 2 else None
    if i.arg == 0:
        handled = t.handled()
        if handled is None:
            t.raise_(RuntimeError, "No active exception to reraise")
        raise Raised(handled)
    error = t.as_exception(f.pop())
    if not isinstance(error, ExceptionValue):
        t.raise_(TypeError, "exceptions must derive from BaseException")
    if cause is not None:
        error.overlay["__cause__"] = cause if t.is_none(cause) else t.as_exception(cause)
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
    f.push(t.call(leave, [ClassValue(error.python_type()), error, TracebackValue(error)], {}))


@OPCODES.rule("CLEANUP_THROW")
def cleanup_throw(t: Tracer, f: Frame, i: Instruction) -> None:
    """After yield from was thrown into: go on where the receiver stopped."""
    error = f.pop()
    f.pop_many(2)
    if not issubclass(error.python_type(), StopIteration):
        raise Raised(error)
    f.push(Constant(None))
    f.push(t.get_attr(error, "value"))


@OPCODES.rule("GET_LEN")
def get_len(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push len of the top."""
    f.push(t.length(f.stack[-1]))


@OPCODES.rule("MATCH_SEQUENCE")
def match_sequence(t: Tracer, f: Frame, i: Instruction) -> None:
    """Whether the top matches a sequence pattern."""
    kind = f.stack[-1].python_type()
    f.push(Constant(issubclass(kind, Sequence) and not issubclass(kind, (str, bytes, bytearray))))


@OPCODES.rule("MATCH_MAPPING")
def match_mapping(t: Tracer, f: Frame, i: Instruction) -> None:
    """Whether the top matches a mapping pattern."""
    f.push(Constant(issubclass(f.stack[-1].python_type(), Mapping)))


@OPCODES.rule("MATCH_KEYS")
def match_keys(t: Tracer, f: Frame, i: Instruction) -> None:
    """The values of a mapping's keys, None where one is missing."""
    keys, mapping = t.items(f.stack[-1]), f.stack[-2]
    if not isinstance(mapping, DictValue) or not all(mapping.has(t, key.key()) for key in keys):
        f.push(Constant(None))
    else:
        f.push(TupleValue([mapping.at(t, key.key()) for key in keys]))


@OPCODES.rule("MATCH_CLASS")
def match_class(t: Tracer, f: Frame, i: Instruction) -> None:
    """The attributes that a class pattern names, None where the value does not match."""
    names = t.constant_of(f.pop())
    wanted = t.constant_of(f.pop())
    value = f.pop()
    if not issubclass(value.python_type(), wanted):
        f.push(Constant(None))
        return
    found: list[Value] = []
    if i.arg:
        known = t.attr_or_none(t.from_python(wanted), "__match_args__")
        fields = None if known is None else t.constant_of(known)
        if fields is None and wanted in _SELF_MATCHING and i.arg == 1:
            found.append(value)
        else:
            if len(fields or ()) < i.arg:
                count = len(fields or ())
                said = f"accepts {count} positional sub-pattern{'s' * (count != 1)} ({i.arg} given)"
                t.raise_(TypeError, f"{wanted.__name__}() {said}")
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
