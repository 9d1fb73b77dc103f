"""A code object in one normalized instruction set, the same for Python 3.11 to 3.13.

Imports no torch, so that it can be used and tested on any Python.

The stack keeps CPython's null slot: a call pops its arguments and then two values, of which at most one is the null.
3.11 and 3.12 push (null, callable) and 3.13 pushes (callable, null); a method load pushes (method, self) or a null and
the attribute. Whoever reads a call therefore needs no version: the one that is not the null is the callable, and when
neither is, the second is the first argument.
"""

from __future__ import annotations

import inspect
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
    """One normalized instruction. Compared by identity, so that `target` can point at another instruction.

    `op` is a name of OPS in compiler/bytecode/normal.py; `arg` is its semantic argument: a name, a constant, a count,
    an operator symbol ("+", "+=", "<", "is not"), a tuple of keyword names. Jumps name the id of the instruction that
    they go to in `target`. `id` is "f0@14": the frame and the offset in units of instructions of the normalized code.
    """

    op: str
    arg: Any = None
    target: str | None = None
    id: str = ""
    span: Span | None = None
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Handler:
    """An exception-table entry.

    What instructions `start` to `end` (ids, inclusive) raise goes to `target`: the stack is cut to `depth` values, then
    the offset of the instruction that raised is pushed where `push_offset`, and then the exception. Where ranges nest,
    the shortest counts.
    """

    start: str
    end: str
    target: str
    depth: int
    push_offset: bool


@dataclass(frozen=True, slots=True)
class Code:
    """A decoded function body. `original` is the code object it was decoded from, if any. `owned` are the free
    variables of a continuation that are cells of the function that it continues."""

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
    owned: frozenset[str] = frozenset()

    @property
    def index(self) -> dict[str, int]:
        """Position of each instruction by id."""
        return {instruction.id: position for position, instruction in enumerate(self.instructions)}

    def text(self) -> Text:
        """Line of source, `>>` before what is jumped to, number, instruction; then the exception table."""
        targets = {i.target for i in self.instructions} | {h.target for h in self.handlers}
        lines = [Line(f"# {self.qualname}({', '.join(parameters(self))})")]
        for kind, names in (("cells", self.cells), ("free", self.frees)):
            if names:
                lines.append(Line(f"# {kind}: {', '.join(names)}"))
        last: int | None = None
        for i in self.instructions:
            here = i.span.line if i.span else None
            mark = "" if here is None or here == last else str(here)
            last = last if here is None else here
            arrow = ">>" if i.id in targets else ""
            row = f"{mark:>5} {arrow:2} {_position(i.id):>4}  {i.op:<22} {_operand(i)}"
            lines.append(Line(row.rstrip(), i.id, i.origins))
        for h in self.handlers:
            offset = " with offset" if h.push_offset else ""
            covered = f"{_position(h.start)} to {_position(h.end)}"
            lines.append(Line(f"# exceptions of {covered} go to {_position(h.target)}, stack depth {h.depth}{offset}"))
        return Text(tuple(lines), "text")


_LONGEST_CONSTANT = 70


def parameters(code: Code) -> list[str]:
    """As a `def` lists them; the locals hold *args and **kwargs last."""
    rest = list(code.locals[code.arg_count + code.keyword_only :])
    star = ["*" + rest.pop(0)] if code.flags & inspect.CO_VARARGS else ["*"] if code.keyword_only else []
    double = ["**" + rest.pop(0)] if code.flags & inspect.CO_VARKEYWORDS else []
    slash = ["/"] if code.positional_only else []
    return [
        *code.locals[: code.positional_only],
        *slash,
        *code.locals[code.positional_only : code.arg_count],
        *star,
        *code.locals[code.arg_count : code.arg_count + code.keyword_only],
        *double,
    ]


def _position(id: str) -> str:
    return id.rpartition("@")[2]


def _operand(instruction: Instruction) -> str:
    arg = instruction.arg
    if instruction.op == "LOAD_CONST":
        shown = _constant(arg)
        return shown if len(shown) <= _LONGEST_CONSTANT else shown[: _LONGEST_CONSTANT - 3] + "..."
    parts = arg if isinstance(arg, tuple) else () if arg is None else (arg,)
    words = [", ".join(map(str, part)) if isinstance(part, tuple) else str(part) for part in parts]
    if instruction.target is not None:
        words.append(f"-> {_position(instruction.target)}")
    return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A constant of compiled bytecode that LINK replaces by an object, such as the compiled graph."""

    name: str


def _constant(value: object) -> str:
    """A body that a compiler wrote holds live objects, whose own repr may be long, costly or raise."""
    if isinstance(value, (int, float, complex, str, bytes, type(None), type(...))):
        return repr(value)
    if isinstance(value, tuple) and type(value) is tuple:
        return f"({', '.join(map(_constant, value))}{',' * (len(value) == 1)})"
    if isinstance(value, Placeholder):
        return f"<{value.name}>"
    name = value.co_qualname if isinstance(value, types.CodeType) else getattr(value, "__qualname__", None)
    return f"<{type(value).__name__} {name}>" if isinstance(name, str) else f"<{type(value).__name__}>"
