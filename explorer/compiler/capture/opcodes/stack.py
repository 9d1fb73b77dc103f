"""The stack itself, and constants."""

from __future__ import annotations

from explorer.compiler.capture.frame import NULL
from explorer.compiler.capture.opcodes.table import OPCODES
from explorer.compiler.capture.values.base import Frame, Tracer
from explorer.ir.bytecode import Instruction


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
