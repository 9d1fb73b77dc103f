"""The line of the user's program that is running."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import torch

_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent), os.path.dirname(os.__file__))


def user_line() -> str:
    """ "FILE:LINE" of the innermost frame outside torch, this package and the standard library; "" where all are."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_LIBRARIES) or "site-packages" in file and not file.startswith(_LIBRARIES[:2]):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
