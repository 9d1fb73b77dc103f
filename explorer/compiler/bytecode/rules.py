"""The two rule tables between opcodes and normalised instructions, and the types their rules take and give.

A rule's key is a run of names. The longest run that fits at a position is taken; a writing rule may decline by None,
and then the next shorter one is tried. `explorer.compiler.bytecode.normal` fills both tables.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from explorer.compiler.bytecode.ops import OPS
from explorer.core.rules import RuleTable
from explorer.ir.bytecode import Instruction, Span

LONGEST = 5
"""Names in the longest key."""

NEXT = "next"
"""As the target of an `Emit`: whatever follows the run being written."""


class Raw(NamedTuple):
    """One instruction of a code object. `start` includes its EXTENDED_ARGs, `end` its caches; offsets in bytes."""

    name: str
    arg: int
    start: int
    end: int
    target: int | None
    span: Span | None


class Step(NamedTuple):
    """A normalised instruction before it has an id; `target` is an offset in bytes."""

    op: str
    arg: Any = None
    target: int | None = None


class Emit(NamedTuple):
    """One opcode to write; `target` is the id of a normalised instruction, or NEXT."""

    name: str
    arg: int = 0
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Tables:
    """What the arguments of a code object's opcodes index.

    `captured` names the slots that hold cells, `cleared` those that inlined comprehensions take over.
    """

    consts: tuple[Any, ...]
    names: tuple[str, ...]
    slots: tuple[str, ...]
    captured: frozenset[str]
    cleared: frozenset[str]


class Place(Protocol):
    """What a writing rule may ask about the run that it writes, and the tables that it adds to."""

    def const(self, value: Any) -> int: ...

    def name(self, name: str) -> int: ...

    def slot(self, name: str) -> int: ...

    def backward(self, target: str | None) -> bool:
        """Whether the target lies before the run."""

    def bound(self, load: Instruction) -> bool:
        """Whether the local that `load` names is bound for certain before it."""

    def nesting(self) -> int:
        """How many exception handlers enclose the run."""


ReadingRule = Callable[[Sequence[Raw], Tables], list[Step]]
WritingRule = Callable[[Sequence[Instruction], Place], list[Emit] | None]

READING: RuleTable[tuple[str, ...], ReadingRule] = RuleTable("reading", lambda key: all(n in dis.opmap for n in key))
WRITING: RuleTable[tuple[str, ...], WritingRule] = RuleTable("writing", lambda key: all(n in OPS for n in key))


def runs(names: Sequence[str], position: int) -> Iterator[tuple[str, ...]]:
    """The keys that may fit at `position`, longest first."""
    for end in range(min(position + LONGEST, len(names)), position, -1):
        yield tuple(names[position:end])


def plain(name: str) -> None:
    """The opcode is the normalised instruction of the same name, without argument."""
    READING.rule((name,))(lambda raws, tables: [Step(name)])
    WRITING.rule((name,))(lambda run, place: [Emit(name)])


def counted(name: str) -> None:
    """As `plain`, but the argument is a number that means the same."""
    READING.rule((name,))(lambda raws, tables: [Step(name, raws[0].arg)])
    WRITING.rule((name,))(lambda run, place: [Emit(name, run[0].arg)])


def named(name: str) -> None:
    """As `plain`, but the argument counts into the names."""
    READING.rule((name,))(lambda raws, tables: [Step(name, tables.names[raws[0].arg])])
    WRITING.rule((name,))(lambda run, place: [Emit(name, place.name(run[0].arg))])


def slotted(name: str) -> None:
    """As `plain`, but the argument is a local, a cell or a free variable."""
    READING.rule((name,))(lambda raws, tables: [Step(name, tables.slots[raws[0].arg])])
    WRITING.rule((name,))(lambda run, place: [Emit(name, place.slot(run[0].arg))])


def targeted(name: str) -> None:
    """As `plain`, but the opcode jumps."""
    READING.rule((name,))(lambda raws, tables: [Step(name, None, raws[0].target)])
    WRITING.rule((name,))(lambda run, place: [Emit(name, target=run[0].target)])


def listed(name: str, values: Sequence[str]) -> None:
    """As `plain`, but the argument counts into `values`."""
    READING.rule((name,))(lambda raws, tables: [Step(name, values[raws[0].arg])])
    WRITING.rule((name,))(lambda run, place: [Emit(name, values.index(run[0].arg))])


def alias(name: str, op: str, arg: str) -> None:
    """The opcode is the normalised `op` with `arg`."""
    READING.rule((name,))(lambda raws, tables: [Step(op, arg, raws[0].target)])
