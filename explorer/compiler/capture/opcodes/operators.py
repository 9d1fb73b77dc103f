"""Operators and items."""

from __future__ import annotations

from explorer.compiler.capture.opcodes.table import OPCODES
from explorer.compiler.capture.values.base import Frame, Tracer
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.size import SizeValue
from explorer.ir.bytecode import Instruction


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
