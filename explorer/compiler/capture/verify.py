"""What must hold of what DECODE, CAPTURE and LINK make; a violation is a bug in this package."""

from __future__ import annotations

from explorer.compiler.bytecode.flow import stack_depths
from explorer.compiler.capture.compiled_bytecode import COMPILED, FRAME
from explorer.ir.bytecode import Code
from explorer.ir.capture import Capture, GuardedCode, Hole


def verify_code(code: Code) -> None:
    """Raise ValueError where two ways lead to an instruction with different stack depths, or an empty stack is popped;
    AssertionError unless each instruction has an id of its own and each jump a target."""
    ids = {instruction.id for instruction in code.instructions}
    assert len(ids) == len(code.instructions), f"{code.qualname}: two instructions share an id"
    targets = {instruction.target for instruction in code.instructions} - {None}
    assert targets <= ids, f"{code.qualname}: jumps to {targets - ids}, which is nowhere"
    stack_depths(code)


def verify_capture(capture: Capture) -> None:
    """Raise AssertionError unless each input of the graph has a source, each guard a cause and an id of its own, and
    the compiled bytecode is sound and names only what LINK can fill in."""
    if capture.graph is not None:
        wanted = [node.name for node in capture.graph.inputs]
        assert wanted == [given.name for given in capture.inputs], f"{capture.name}: inputs without a source"
    assert len({guard.id for guard in capture.guards}) == len(capture.guards), f"{capture.name}: two guards share an id"
    assert all(guard.cause for guard in capture.guards), f"{capture.name}: a guard without a cause"
    for code in (*capture.continuations, *([] if capture.compiled_bytecode is None else [capture.compiled_bytecode])):
        verify_code(code)
    if capture.compiled_bytecode is not None:
        known = {COMPILED, FRAME, *(code.name for code in capture.continuations)}
        named = {i.arg.name for i in capture.compiled_bytecode.instructions if isinstance(i.arg, Hole)}
        assert named <= known, f"{capture.name}: nothing fills {named - known}"


def verify_linked(made: GuardedCode) -> None:
    """Raise AssertionError unless there is code with its guards' checks, or a reason why there is none."""
    assert (made.code is None) == (made.fallback is not None), f"{made.name}: neither code nor a reason"
    assert (made.code is None) == (made.manager is None), f"{made.name}: code without the checks of its guards"
