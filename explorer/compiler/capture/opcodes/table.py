"""The table of instruction rules."""

from __future__ import annotations

from collections.abc import Callable

from explorer.compiler.bytecode.ops import OPS
from explorer.compiler.capture.values.base import Frame, Tracer
from explorer.core.rules import RuleTable
from explorer.ir.bytecode import Instruction

Step = Callable[["Tracer", Frame, Instruction], str | None]

OPCODES: RuleTable[str, Step] = RuleTable("opcode", known=lambda op: op in OPS)
"""rule(tracer, frame, instruction) -> the id of the instruction to jump to, or None to go on to the next."""
