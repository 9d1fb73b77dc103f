"""What each normalized instruction does to a frame: OPCODES, a rule for each op."""

from explorer.compiler.capture.opcodes import control, operators
from explorer.compiler.capture.opcodes.operators import OPCODES

__all__ = ["OPCODES", "control", "operators"]
