"""How far Python's own loop iterators are: over lists, tuples, ranges and strings. Imports no torch."""

from __future__ import annotations

from typing import Any

KINDS = ("list_iterator", "tuple_iterator", "range_iterator", "str_iterator", "str_ascii_iterator", "bytes_iterator")


def progress(iterator: Any) -> tuple[Any, int] | None:
    """What the iterator goes over, and its position in that; None for one that has ended or is of another kind.

    Since 3.12 an iterator over a range goes over the rest alone, and its position, not told, is always 0. In both ways
    `iterator.__setstate__(n)` puts it at position n of what this function says that it goes over.
    """
    if type(iterator).__name__ not in KINDS:
        return None
    parts = iterator.__reduce__()
    if len(parts) != 3:
        return None
    return parts[1][0], parts[2] or 0
