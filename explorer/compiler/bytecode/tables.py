"""CPython's two packed tables of a code object: where exceptions go, and which source each opcode stands for.

Formats: CPython, Objects/exception_handling_notes.txt and Objects/locations.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from explorer.ir.bytecode import Span

_NO_COLUMNS, _LONG, _NONE = 13, 14, 15
_MOST_UNITS = 8


class Entry(NamedTuple):
    """Exceptions raised by units `start` up to, not including, `end` go to unit `target`; a unit is two bytes."""

    start: int
    end: int
    target: int
    depth: int
    push_offset: bool


def read_exceptions(table: bytes) -> Iterator[Entry]:
    """Each number is in big-endian groups of 6 bits; bit 6 says that more follow, bit 7 begins an entry."""
    numbers: list[int] = []
    value = 0
    for byte in table:
        value = value << 6 | byte & 0x3F
        if not byte & 0x40:
            numbers.append(value)
            value = 0
    for i in range(0, len(numbers), 4):
        start, length, target, depth = numbers[i : i + 4]
        yield Entry(start, start + length, target, depth >> 1, bool(depth & 1))


def write_exceptions(entries: Iterable[Entry]) -> bytes:
    out = bytearray()
    for entry in entries:
        first = len(out)
        for number in (
            entry.start,
            entry.end - entry.start,
            entry.target,
            entry.depth << 1 | entry.push_offset,
        ):
            groups = [number & 0x3F]
            while number := number >> 6:
                groups.append(number & 0x3F | 0x40)
            out += bytes(reversed(groups))
        out[first] |= 0x80
    return bytes(out)


def write_locations(spans: Iterable[tuple[Span | None, int]], first_line: int) -> bytes:
    """`spans` gives for each opcode its source and its length in units."""
    out = bytearray()
    line = first_line
    for span, units in spans:
        while units > 0:
            length = min(units, _MOST_UNITS)
            units -= length
            kind = _NONE if span is None else _NO_COLUMNS if span.column < 0 else _LONG
            out.append(0x80 | kind << 3 | length - 1)
            if span is None:
                continue
            out += _signed(span.line - line)
            line = span.line
            if kind == _LONG:
                out += _unsigned(span.end_line - line) + _unsigned(span.column + 1) + _unsigned(span.end_column + 1)
    return bytes(out)


def _unsigned(number: int) -> bytes:
    """Little-endian groups of 6 bits; bit 6 says that more follow."""
    out = bytearray()
    while number >= 0x40:
        out.append(number & 0x3F | 0x40)
        number >>= 6
    out.append(number)
    return bytes(out)


def _signed(number: int) -> bytes:
    """The sign in the lowest bit."""
    return _unsigned(-number << 1 | 1 if number < 0 else number << 1)
