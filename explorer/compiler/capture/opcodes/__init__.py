"""What each normalised instruction does to a frame: OPCODES, a rule for each op."""

from explorer.compiler.capture.opcodes import build, calls, exceptions, jumps, names, operators, stack
from explorer.compiler.capture.opcodes.table import OPCODES

__all__ = ["OPCODES", "build", "calls", "exceptions", "jumps", "names", "operators", "stack"]
