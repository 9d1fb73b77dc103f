"""A code object in one normalised instruction set, the same for Python 3.11 to 3.13.

Imports no torch, so that it can be used and tested on any Python.

The stack keeps CPython's null slot: a call pops its arguments and then two values, of which at most one is the null.
3.11 and 3.12 push (null, callable) and 3.13 pushes (callable, null); a method load pushes (method, self) or a null and
the attribute. Whoever reads a call therefore needs no version: the one that is not the null is the callable, and when
neither is, the second is the first argument.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

from explorer.core.text import Line, Text


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source: 1-based lines, 0-based columns in UTF-8 bytes; column -1 where unknown."""

    file: str
    line: int
    end_line: int
    column: int = -1
    end_column: int = -1

    @property
    def id(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One normalised instruction. Compared by identity, so that `target` can point at another instruction.

    `op` is a name of `explorer.bytecode.normal.OPS`; `arg` is its semantic argument: a name, a constant, a count, an
    operator symbol ("+", "+=", "<", "is not"), a tuple of keyword names. Jumps name the id of the instruction they go to
    in `target`. `id` is "f0@14": the frame and the offset in units of instructions of the normalised code.
    """

    op: str
    arg: Any = None
    target: str | None = None
    id: str = ""
    span: Span | None = None
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Handler:
    """An exception-table entry: instructions `start` to `end` (ids, inclusive) go to `target` with `depth` values kept."""

    start: str
    end: str
    target: str
    depth: int
    push_offset: bool


@dataclass(frozen=True, slots=True)
class Code:
    """A decoded function body. `original` is the code object it was decoded from, if any."""

    name: str
    qualname: str
    filename: str
    first_line: int
    arg_count: int
    positional_only: int
    keyword_only: int
    flags: int
    locals: tuple[str, ...]
    cells: tuple[str, ...]
    frees: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    handlers: tuple[Handler, ...] = ()
    original: types.CodeType | None = field(default=None, compare=False)

    @property
    def index(self) -> dict[str, int]:
        """Position of each instruction by id."""
        return {instruction.id: position for position, instruction in enumerate(self.instructions)}

    def text(self) -> Text:
        targets = {i.target for i in self.instructions} | {h.target for h in self.handlers}
        lines = [Line(f"# {self.qualname}({', '.join(self.locals[: self.arg_count + self.keyword_only])})")]
        last: int | None = None
        for i in self.instructions:
            here = i.span.line if i.span else None
            mark = f"{here:>5}" if here is not None and here != last else " " * 5
            last = here if here is not None else last
            arrow = ">>" if i.id in targets else "  "
            argument = "" if i.arg is None and i.target is None else f" {i.target or ''}" if i.arg is None else f" {i.arg!r}"
            cause = i.origins or ((i.span.id,) if i.span else ())
            lines.append(Line(f"{mark} {arrow} {i.id.rpartition('@')[2]:>4}  {i.op:<24}{argument}".rstrip(), i.id, cause))
        for h in self.handlers:
            lines.append(Line(f"      except {h.start}..{h.end} -> {h.target} depth {h.depth}"))
        return Text(tuple(lines), "text")
