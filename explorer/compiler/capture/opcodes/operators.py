"""The table of instruction rules; the stack itself, constants, operators and items."""

from __future__ import annotations

from collections.abc import Callable

from explorer.compiler.bytecode.ops import OPS
from explorer.compiler.capture.frame import NULL
from explorer.compiler.capture.values.base import Frame, Tracer
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.size import SizeValue
from explorer.core.rules import RuleTable
from explorer.ir.bytecode import Instruction

Step = Callable[["Tracer", Frame, Instruction], str | None]

OPCODES: RuleTable[str, Step] = RuleTable("opcode", known=lambda op: op in OPS)
"""rule(tracer, frame, instruction) -> the id of the instruction to jump to, or None to go on to the next."""


@OPCODES.rule("NOP")
def nop(t: Tracer, f: Frame, i: Instruction) -> None:
    """Nothing."""


@OPCODES.rule("POP_TOP")
def pop_top(t: Tracer, f: Frame, i: Instruction) -> None:
    """Drop the top."""
    f.pop()


@OPCODES.rule("PUSH_NULL")
def push_null(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push the null beside a callable."""
    f.push(NULL)


@OPCODES.rule("COPY")
def copy(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push a value of the stack once more."""
    f.push(f.stack[-i.arg])


@OPCODES.rule("SWAP")
def swap(t: Tracer, f: Frame, i: Instruction) -> None:
    """Exchange the top with a value below."""
    f.stack[-1], f.stack[-i.arg] = f.stack[-i.arg], f.stack[-1]


@OPCODES.rule("LOAD_CONST")
def load_const(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push a constant."""
    f.push(t.from_python(i.arg))


@OPCODES.rule("UNARY_OP")
def unary_op(t: Tracer, f: Frame, i: Instruction) -> None:
    """operator value."""
    value = f.pop()
    if i.arg == "not" and isinstance(value, SizeValue) and value.python_type() is bool:
        f.push(Constant(not t.truth(value)))
    else:
        f.push(t.unary(i.arg, value))


@OPCODES.rule("BINARY_OP")
def binary_op(t: Tracer, f: Frame, i: Instruction) -> None:
    """left operator right."""
    right = f.pop()
    f.push(t.binary(i.arg, f.pop(), right))


@OPCODES.rule("COMPARE_OP")
def compare_op(t: Tracer, f: Frame, i: Instruction) -> None:
    """left comparison right."""
    right = f.pop()
    f.push(t.compare(i.arg, f.pop(), right))


@OPCODES.rule("IS_OP")
def is_op(t: Tracer, f: Frame, i: Instruction) -> None:
    """left is right."""
    right = f.pop()
    f.push(Constant(t.is_same(f.pop(), right) == (i.arg == "is")))


@OPCODES.rule("CONTAINS_OP")
def contains_op(t: Tracer, f: Frame, i: Instruction) -> None:
    """item in container."""
    container = f.pop()
    f.push(Constant(t.contains(container, f.pop()) == (i.arg == "in")))


@OPCODES.rule("TO_BOOL")
def to_bool(t: Tracer, f: Frame, i: Instruction) -> None:
    """bool(value)."""
    f.push(Constant(t.truth(f.pop())))


@OPCODES.rule("BINARY_SUBSCR")
def binary_subscr(t: Tracer, f: Frame, i: Instruction) -> None:
    """container[key]."""
    key = f.pop()
    f.push(t.get_item(f.pop(), key))


@OPCODES.rule("STORE_SUBSCR")
def store_subscr(t: Tracer, f: Frame, i: Instruction) -> None:
    """container[key] = value."""
    key = f.pop()
    base = f.pop()
    t.set_item(base, key, f.pop())


@OPCODES.rule("DELETE_SUBSCR")
def delete_subscr(t: Tracer, f: Frame, i: Instruction) -> None:
    """del container[key]."""
    key = f.pop()
    t.set_item(f.pop(), key, None)
