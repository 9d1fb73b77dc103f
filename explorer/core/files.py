"""Files and their names: this package's, the standard library's and installed packages', a notebook's cells, and what
others wrote, of which only regular files are read, and a terminal gets no control characters.
"""

from __future__ import annotations

import csv
import errno
import io
import os
import site
import stat
import sys
import sysconfig
import traceback
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

PACKAGE = Path(__file__).parent.parent
OWN_FILES = f"{PACKAGE}{os.sep}"
"""How the names of its files begin."""


def _folders(*names: str) -> tuple[str, ...]:
    return tuple({f"{name.rstrip(os.sep)}{os.sep}": None for name in names})


_PATHS = sysconfig.get_paths()
STANDARD = _folders(_PATHS["stdlib"], _PATHS["platstdlib"])
PACKAGES = _folders(_PATHS["purelib"], _PATHS["platlib"], *site.getsitepackages(), site.getusersitepackages())
"""Where the standard library is, and where packages are installed: often in a folder of it."""


def is_standard(file: str) -> bool:
    """Whether a file is the standard library's."""
    return file.startswith(STANDARD) and not file.startswith(PACKAGES)


def folder_of_packages(file: str) -> str:
    """The folder of packages that holds a file; "" where it is of none. That a file is a library's is known where
    Python installs packages, and in any other folder that modules come from, as one of PYTHONPATH, by an installer's
    RECORD. One that is only a copy of a library has none, as the program itself, and counts as the program's."""
    return next((each for each in PACKAGES if file.startswith(each)), None) or _folder_by_record(file)


@cache
def _folder_by_record(file: str) -> str:
    imported_from = _folders(*(each for each in sys.path if isinstance(each, str) and each))
    folder = max((each for each in imported_from if file.startswith(each)), key=len, default="")
    return folder if folder and file[len(folder) :] in _recorded(folder) else ""


@cache
def _recorded(folder: str) -> frozenset[str]:
    """The files in a folder that installers' records name: none of a package whose author works on it there."""
    found: set[str] = set()
    for record in Path(folder).glob("*.dist-info/RECORD"):
        with suppress(OSError, UnicodeDecodeError, csv.Error), regular(record) as lines:
            found.update(row[0].replace("/", os.sep) for row in csv.reader(io.TextIOWrapper(lines, "utf-8")) if row)
    return frozenset(found)


def raised_at(error: BaseException) -> str:
    """The innermost line that is neither torch's nor this package's which an exception passed, as Python writes it; ""
    where there is none."""
    passed = traceback.extract_tb(error.__traceback__)
    own = [each for each in passed if not each.filename.startswith((OWN_FILES, "<"))]
    found = [each for each in own if f"{os.sep}torch{os.sep}" not in each.filename][-1:]
    return "".join(f'\n  File "{each.filename}", line {each.lineno}, in {each.name}' for each in found)


def cell_name(file: str) -> str:
    """ "In[3]" for the file name that IPython gave to that cell; "" for other files."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    known = None if shell is None else shell.compile.format_code_name(file)
    return "" if known is None else str(known[1])


def in_cell(place: str) -> str:
    """A place that begins with "file:line", with a cell's name in the place of its file."""
    file, _, rest = place.partition(":")
    return f"{cell_name(file) or file}:{rest}"


def regular(path: Path) -> BinaryIO:
    """The file, opened for reading. Raises OSError naming the path, also where it is no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise OSError(f"{path} is a socket, not a file") if error.errno == errno.ENXIO else error from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, a socket or a device"
            raise OSError(f"{path} is {what}, not a file")
        if not found.st_size and not _gives_at_once(handle):
            raise OSError(f"{path} is a file of the system, which gives nothing now")
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def _gives_at_once(handle: int) -> bool:
    """Whether nobody has to wait for what an open file holds, as for a log of the kernel's."""
    try:
        os.read(handle, 1)
        os.lseek(handle, 0, os.SEEK_SET)
    except (BlockingIOError, PermissionError):
        return False
    return True


_TURNING = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_UNSEEN = [*range(0x20), *range(0x7F, 0xA0), *_TURNING, *range(0xD800, 0xE000)]
_SHOWN = {code: repr(chr(code))[1:-1] for code in _UNSEEN if chr(code) not in "\n\t"}


def visible(text: str) -> str:
    """The text with each control character written out ("\\x1b"): a terminal would obey it, and move, clear or rename
    what is there. So too what turns the direction of writing, and halves of characters, which no output can hold."""
    return text.translate(_SHOWN)


def writable(text: str) -> str:
    """The text with halves of characters written out ("\\ud800"): a Python string may hold them, UTF-8 cannot."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
