"""Files that others wrote: regular ones alone, since a pipe or a device may never end, or never answer."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


def regular(path: Path) -> BinaryIO:
    """The file, opened for reading. Raises OSError naming the path, also where it is no regular file."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise OSError(f"{path} is {what}, and no file")
    return os.fdopen(handle, "rb")
