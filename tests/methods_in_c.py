"""Whether objects that are taken to hold nothing that changes stay as they are when each of their methods is called.

Prints each class and exits with 1 where one changed. Some methods write files in the current folder.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import types
import warnings
from typing import Any

from explorer.core.libraries import is_written_in_c
from explorer.records.check.snapshot import _is_known

GIVEN: tuple[tuple[Any, ...], ...] = ((), (1,), ("a",), (b"ab",), (2020, 1, 1), ([1, 2],), ({"a": 1},), (int, 1))


def classes_in_c() -> list[type]:
    """Those of Python and NumPy that are there, apart from errors."""
    found: dict[type, None] = {}
    waiting: list[type] = [object]
    while waiting:
        kind = waiting.pop()
        waiting += [each for each in type.__subclasses__(kind) if each not in found]
        found.update(dict.fromkeys(type.__subclasses__(kind)))
    roots = {*sys.stdlib_module_names, "numpy"} - {"_ctypes", "ctypes"}
    in_c = (kind for kind in found if is_written_in_c(kind) and not issubclass(kind, BaseException))
    return [kind for kind in in_c if str(kind.__module__).partition(".")[0] in roots]


def main() -> None:
    warnings.simplefilter("ignore")
    for kind in classes_in_c():
        if not _is_known(kind) or issubclass(kind, (type, types.ModuleType, types.TracebackType)):
            continue
        for arguments in GIVEN:
            try:
                value = kind(*copy.deepcopy(arguments))
                before = repr(value), hash(value)
            except Exception:  # not how one is made
                continue
            print(kind, arguments, flush=True)
            for name in dir(value):
                method = None if name in ("__class__", "__init__", "__new__") else getattr(value, name, None)
                for passed in GIVEN if callable(method) else ():
                    with contextlib.suppress(Exception):
                        method(*passed)
            if (repr(value), hash(value)) != before:
                sys.exit(f"{kind} was changed")


if __name__ == "__main__":
    main()
