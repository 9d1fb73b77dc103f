"""Capture: a Python frame to a graph, by symbolic evaluation of its bytecode. Stock counterpart: torch/_dynamo."""

from explorer.bytecode.decode import decode
from explorer.capture.adopt import adopt
from explorer.capture.capture import FullGraphError, capture
from explorer.capture.entry import BackendFailed, optimize
from explorer.capture.link import link
from explorer.core.stage import Stage
from explorer.ir.bytecode import Code
from explorer.ir.capture import Capture, CaptureInput, Frame, GuardedCode, Linking


def _decode(frame: Frame) -> Code:
    """Instructions keep their ids over recompiles: "f0@14" in "f0.1" too."""
    return frame.history.body or decode(frame.code, frame.id.partition(".")[0])


DECODE: Stage[Frame, Code] = Stage("decode", _decode)
CAPTURE: Stage[CaptureInput, Capture] = Stage("capture", capture)
LINK: Stage[Linking, GuardedCode] = Stage("link", link)

__all__ = ["CAPTURE", "DECODE", "LINK", "BackendFailed", "FullGraphError", "adopt", "optimize"]
