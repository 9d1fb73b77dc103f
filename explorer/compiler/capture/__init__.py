"""Capture: a Python frame to a graph, by symbolic evaluation of its bytecode. Stock counterpart: torch/_dynamo."""

from explorer.compiler.bytecode.decode import decode
from explorer.compiler.capture.capture import (
    CaptureInput,
    FullGraphError,
    capture,
    verify_capture,
    verify_code,
    verify_linked,
)
from explorer.compiler.capture.compiled_bytecode import link
from explorer.compiler.capture.entry import BackendFailed, optimize
from explorer.compiler.capture.import_fx_graph import import_fx_graph
from explorer.core.stage import Stage
from explorer.ir.bytecode import Code
from explorer.ir.capture import Capture, GuardedCode, InputFrame, Linking


def _decode(frame: InputFrame) -> Code:
    """Instructions keep their ids over recompiles: "f0@14" in "f0.1" too."""
    return frame.history.body or decode(frame.code, frame.id.partition(".")[0])


def _totals(given: Linking, made: GuardedCode) -> tuple[str, ...]:
    is_compile = made.code is not None and not made.is_idle
    return ("breaks",) * len(made.breaks) + ("compiles",) * is_compile


DECODE: Stage[InputFrame, Code] = Stage("decode", _decode, verify_code)
CAPTURE: Stage[CaptureInput, Capture] = Stage("capture", capture, verify_capture)
LINK: Stage[Linking, GuardedCode] = Stage("link", link, verify_linked, _totals)

__all__ = [
    "CAPTURE", "DECODE", "LINK", "BackendFailed", "CaptureInput", "FullGraphError", "import_fx_graph", "optimize",
]  # fmt: skip
