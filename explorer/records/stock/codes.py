"""Code objects as CPython has them: stock's evaluator works on these, not on a normalised instruction set."""

from __future__ import annotations

import dis
import types
from collections.abc import Sequence
from typing import Any

from explorer.ir import record as data

_ENTRY = ("COPY_FREE_VARS", "MAKE_CELL")
"""What a call does before its first line: CPython gives these no place."""


def code_data(code: types.CodeType, id: str, role: str) -> data.CodeData:
    """The instructions of a code object; the one at offset 14 has the id "ID@14"."""
    instructions = []
    origins: tuple[str, ...]
    for each in dis.get_instructions(code):
        span = span_of(code.co_filename, each.positions)
        target = f"{id}@{each.argval}" if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs else ""
        if span:
            origins = (f"{span.file}:{span.line}",)
        elif each.opname in _ENTRY:
            origins = (f"{code.co_filename}:{code.co_firstlineno}",)
        else:
            origins = ()
        shown = "" if target else each.argrepr
        instructions.append(data.InstructionData(f"{id}@{each.offset}", each.opname, shown, target, origins, span))
    return data.CodeData(code.co_name, role, code.co_filename, code.co_firstlineno, tuple(instructions))


def offsets(code: types.CodeType, instructions: Sequence[Any]) -> tuple[int, ...]:
    """For each of Dynamo's instructions of `code` the offset of the one that it stands for.

    Dynamo takes some out, puts some in and numbers them anew, so that only operation, place and order tell.
    """
    own = [each for each in dis.get_instructions(code) if each.opname not in ("EXTENDED_ARG", "CACHE")]
    found, at, last = [], 0, 0
    for each in instructions:
        for ahead in range(at, min(at + LOOK_AHEAD, len(own))):
            if own[ahead].opname == each.opname and own[ahead].positions == each.positions:
                at, last = ahead + 1, own[ahead].offset
                break
        found.append(last)
    return tuple(found)


LOOK_AHEAD = 8
"""How many instructions in a row Dynamo may have taken out."""


def span_of(file: str, positions: dis.Positions | None) -> data.SpanData | None:
    if positions is None or not positions.lineno:
        return None
    end, column, end_column = positions.end_lineno, positions.col_offset, positions.end_col_offset
    return data.SpanData(
        file, positions.lineno, end or positions.lineno,
        -1 if column is None else column, -1 if end_column is None else end_column,
    )  # fmt: skip


def listing(code: data.CodeData) -> data.TextData:
    """A code object as one reads it: line number where it changes, offset, operation, argument."""
    lines = [data.LineData(f"# {code.name}, {code.role} ({code.file}:{code.line})")]
    at = 0
    for each in code.instructions:
        new = each.span is not None and each.span.line != at
        at = each.span.line if each.span else at
        shown = each.target.rpartition("@")[2] if each.target else each.arg
        text = f"{at if new else '':>5} {each.id.rpartition('@')[2]:>5}  {each.op:<26} {shown}".rstrip()
        lines.append(data.LineData(text, each.id, each.origins))
    return data.TextData(tuple(lines))
