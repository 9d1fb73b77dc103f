"""A code object as normalized instructions, and CPython's two packed tables of it: where exceptions go, and which
source each opcode stands for.
"""

from __future__ import annotations

import dis
import types
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from explorer.compiler.bytecode.normal import MARKS, OPS, PROLOGUE, READ_LENGTHS, caches
from explorer.compiler.bytecode.rules import OPCODE, READING, SHAPE, Draft, Raw, Tables, runs
from explorer.core.reasons import Unsupported, Why
from explorer.ir.bytecode import Code, Handler, Instruction, Span

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
        for number in (entry.start, entry.end - entry.start, entry.target, entry.depth << 1 | entry.push_offset):
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


_RELATIVE = frozenset(dis.hasjrel)
OWN = "@local"


def decode(code: types.CodeType, frame: str = "f0") -> Code:
    """The body of `code`; instruction n has the id "frame@n".

    Specialized opcodes, caches and what follows from the code's variables and flags are left out. A local that shares
    its name with a free variable (a comprehension inlined by 3.12) is called "name@local". Raises Unsupported for
    an opcode that the rules of `explorer.compiler.bytecode.normal` do not name. Dynamo's continuations jump over the
    prologue of the function that they are of, which is left out too.
    """
    body = _without_prologue(_read(code))
    tables = _tables(code, body)
    marks = {raw.target: MARKS[raw.name] for raw in body if raw.name in MARKS}
    jumped_to = {raw.target for raw in body}
    steps: list[tuple[Draft, Raw]] = []
    starts: list[int] = []  # offset of the run that each step comes from
    positions: dict[int, int] = {}  # of the step where the opcode at an offset begins
    marked: dict[int, int] = {}  # of the step that marks an offset
    names = [raw.name for raw in body]
    rules = READING.now()
    at = 0
    while at < len(body):
        raw = body[at]
        if raw.start in marks:
            if steps and OPS[steps[-1][0].op].falls:
                raise Unsupported(Why(SHAPE, f"{raw.name} at {raw.start} is reached by a jump and from above"))
            marked[raw.start] = len(steps)
            steps.append((Draft(marks[raw.start]), raw))
            starts.append(raw.start)
        positions[raw.start] = len(steps)
        run = next((run for run in runs(names, at, READ_LENGTHS) if run in rules), None)
        if raw.name in PROLOGUE and raw.start not in jumped_to and steps and not OPS[steps[-1][0].op].falls:
            at += 1
            continue
        if run is None:
            raise Unsupported(Why(OPCODE, raw.name))
        group = body[at : at + len(run)]
        read = rules[run](group, tables)
        starts.extend(raw.start for _ in read)
        # The last step is what the last opcode does, and so on upward.
        steps.extend((step, group[max(0, i - len(read))]) for i, step in enumerate(read, len(group)))
        if run[0] == "TO_BOOL":  # the jump tests the truth itself
            positions[group[-1].start] = positions[raw.start]
        at += len(run)

    def goal(offset: int | None, jump: str) -> str | None:
        if offset is None:
            return None
        position = (marked if jump in MARKS else positions).get(offset)
        if position is None or position == len(steps):
            raise Unsupported(Why(SHAPE, f"{jump} to offset {offset}"))
        return f"{frame}@{position}"

    instructions = tuple(
        Instruction(
            step.op,
            step.arg,
            goal(step.target, step.op),
            f"{frame}@{position}",
            raw.span,
            (raw.span.id,) if raw.span else (),
        )
        for position, (step, raw) in enumerate(steps)
    )
    return Code(
        name=code.co_name,
        qualname=code.co_qualname,
        filename=code.co_filename,
        first_line=code.co_firstlineno,
        arg_count=code.co_argcount,
        positional_only=code.co_posonlyargcount,
        keyword_only=code.co_kwonlyargcount,
        flags=code.co_flags,
        locals=tables.slots[: code.co_nlocals],
        cells=tuple(own_name(name, code.co_freevars) for name in code.co_cellvars),
        frees=code.co_freevars,
        instructions=instructions,
        handlers=_handlers(code, starts, positions, frame),
        original=code,
    )


def own_name(name: str, frees: tuple[str, ...]) -> str:
    """The normalized name of a local or cell."""
    return name + OWN if name in frees else name


def written_name(name: str) -> str:
    """The name in the code object of a normalized local or cell."""
    return name.removesuffix(OWN)


def _tables(code: types.CodeType, body: list[Raw]) -> Tables:
    """Slots are the locals, the cells that are not locals too, and the free variables."""
    frees = code.co_freevars
    variables = dict.fromkeys(own_name(name, frees) for name in code.co_varnames + code.co_cellvars)
    captured = {own_name(name, frees) for name in code.co_cellvars} | set(frees)
    slots = (*variables, *frees)
    cleared = {slots[raw.arg] for raw in body if raw.name == "LOAD_FAST_AND_CLEAR"}
    return Tables(code.co_consts, code.co_names, slots, frozenset(captured), frozenset(cleared))


def _read(code: types.CodeType) -> list[Raw]:
    """The instructions of `code` with their EXTENDED_ARGs and caches gathered."""
    packed = code.co_code
    spans = [*code.co_positions(), *[(None,) * 4] * (len(packed) // 2)]  # a table may stop short
    raws: list[Raw] = []
    offset = start = high = 0
    while offset < len(packed):
        number, arg = packed[offset], high << 8 | packed[offset + 1]
        if number == dis.EXTENDED_ARG:
            high = arg
            offset += 2
            continue
        name = dis.opname[number]
        end = offset + 2 + 2 * caches(name)
        distance = -2 * arg if "BACKWARD" in name else 2 * arg
        line, end_line, column, end_column = spans[offset // 2]
        span = None
        if line is not None:
            columns = (-1, -1) if column is None or end_column is None else (column, end_column)
            span = Span(code.co_filename, line, line if end_line is None else end_line, *columns)
        raws.append(Raw(name, arg, start, end, end + distance if number in _RELATIVE else None, span))
        offset = start = end
        high = 0
    return raws


def _without_prologue(raws: list[Raw]) -> list[Raw]:
    first = 0
    while first < len(raws) and (
        raws[first].name in PROLOGUE or (first and raws[first - 1].name == "RETURN_GENERATOR")
    ):
        first += 1
    return raws[first:]


def _handlers(code: types.CodeType, starts: list[int], positions: dict[int, int], frame: str) -> tuple[Handler, ...]:
    """Entries by id; those that covered nothing but dropped opcodes are gone."""
    handlers = []
    for entry in read_exceptions(code.co_exceptiontable):
        first, last = bisect_left(starts, 2 * entry.start), bisect_left(starts, 2 * entry.end) - 1
        if first > last:
            continue
        target = positions[2 * entry.target]
        handlers.append(
            Handler(f"{frame}@{first}", f"{frame}@{last}", f"{frame}@{target}", entry.depth, entry.push_offset)
        )
    return tuple(handlers)
