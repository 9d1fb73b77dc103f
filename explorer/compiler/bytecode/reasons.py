"""Why a code object cannot be decoded, or a normalised body cannot be written for this Python."""

from explorer.core.reasons import reason

OPCODE = reason(
    "bytecode.opcode",
    "unknown opcode",
    "The code object holds an opcode, or an argument of one, that the table of normalised instructions does not name.",
    "Only CPython 3.11 to 3.13 are supported; code rewritten by another tool may hold opcodes no compiler emits.",
)
SHAPE = reason(
    "bytecode.shape",
    "unusual instruction order",
    "A jump enters the middle of instructions that only mean something together, such as a call and its keyword names.",
    "CPython's compiler never emits this; look for a tool that rewrites bytecode.",
)
VERSION = reason(
    "bytecode.version",
    "no form in this Python version",
    "This Python version has no instruction for the normalised one, and no sequence of its own that does the same.",
)
