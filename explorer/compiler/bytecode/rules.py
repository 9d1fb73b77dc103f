"""The two rule tables between opcodes and normalized instructions, the rules for opcodes that are the same in all
versions (normal.py has those that differ), and why a code object has no rule.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from explorer.compiler.bytecode.ops import OPS
from explorer.core.reasons import reason
from explorer.core.rules import RuleTable
from explorer.ir.bytecode import Instruction, Span

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


class Draft(NamedTuple):
    """A normalized instruction before it has an id; `target` is an offset in bytes."""

    op: str
    arg: Any = None
    target: int | None = None


class Emit(NamedTuple):
    """One opcode to write; `target` is the id of a normalized instruction, or NEXT."""

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


class WritingContext(Protocol):
    """What a writing rule may ask about the run that it writes, and the tables that it adds to."""

    def const(self, value: object) -> int: ...

    def name(self, name: str) -> int: ...

    def slot(self, name: str) -> int: ...

    def backward(self, target: str | None) -> bool:
        """Whether the target lies before the run."""

    def bound(self, load: Instruction) -> bool:
        """Whether the local that `load` names is bound for certain before it."""

    def nesting(self) -> int:
        """How many exception handlers enclose the run."""


ReadingRule = Callable[[Sequence[Raw], Tables], list[Draft]]
WritingRule = Callable[[Sequence[Instruction], WritingContext], list[Emit] | None]

READING: RuleTable[tuple[str, ...], ReadingRule] = RuleTable("reading", lambda key: all(n in dis.opmap for n in key))
WRITING: RuleTable[tuple[str, ...], WritingRule] = RuleTable("writing", lambda key: all(n in OPS for n in key))


Lengths = Mapping[str, Sequence[int]]


def lengths(keys: Iterable[tuple[str, ...]]) -> Lengths:
    """How long the keys are that begin with a name, longest first."""
    found: dict[str, list[int]] = {}
    for key in sorted(keys, key=len, reverse=True):
        known = found.setdefault(key[0], [])
        if len(key) not in known:
            known.append(len(key))
    return found


def runs(names: Sequence[str], position: int, lengths: Lengths) -> Iterator[tuple[str, ...]]:
    """The keys that may fit at `position`, longest first."""
    for length in lengths.get(names[position], ()):
        if position + length <= len(names):
            yield tuple(names[position : position + length])


def plain(name: str) -> None:
    """The opcode is the normalized instruction of the same name, without argument."""
    READING.rule((name,))(lambda raws, tables: [Draft(name)])
    WRITING.rule((name,))(lambda run, place: [Emit(name)])


def counted(name: str) -> None:
    """As `plain`, but the argument is a number that means the same."""
    READING.rule((name,))(lambda raws, tables: [Draft(name, raws[0].arg)])
    WRITING.rule((name,))(lambda run, place: [Emit(name, run[0].arg)])


def named(name: str) -> None:
    """As `plain`, but the argument counts into the names."""
    READING.rule((name,))(lambda raws, tables: [Draft(name, tables.names[raws[0].arg])])
    WRITING.rule((name,))(lambda run, place: [Emit(name, place.name(run[0].arg))])


def slotted(name: str) -> None:
    """As `plain`, but the argument is a local, a cell or a free variable."""
    READING.rule((name,))(lambda raws, tables: [Draft(name, tables.slots[raws[0].arg])])
    WRITING.rule((name,))(lambda run, place: [Emit(name, place.slot(run[0].arg))])


def targeted(name: str) -> None:
    """As `plain`, but the opcode jumps."""
    READING.rule((name,))(lambda raws, tables: [Draft(name, None, raws[0].target)])
    WRITING.rule((name,))(lambda run, place: [Emit(name, target=run[0].target)])


def listed(name: str, values: Sequence[str]) -> None:
    """As `plain`, but the argument counts into `values`."""
    READING.rule((name,))(lambda raws, tables: [Draft(name, values[raws[0].arg])])
    WRITING.rule((name,))(lambda run, place: [Emit(name, values.index(run[0].arg))])


def alias(name: str, op: str, arg: str) -> None:
    """The opcode is the normalized `op` with `arg`."""
    READING.rule((name,))(lambda raws, tables: [Draft(op, arg, raws[0].target)])


for _name in (
    "NOP POP_TOP PUSH_NULL BINARY_SUBSCR STORE_SUBSCR DELETE_SUBSCR GET_LEN MATCH_MAPPING MATCH_SEQUENCE MATCH_KEYS "
    "PUSH_EXC_INFO CHECK_EXC_MATCH CHECK_EG_MATCH WITH_EXCEPT_START GET_AITER GET_ANEXT BEFORE_ASYNC_WITH BEFORE_WITH "
    "END_ASYNC_FOR GET_ITER GET_YIELD_FROM_ITER LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR SETUP_ANNOTATIONS POP_EXCEPT "
    "RETURN_VALUE"
).split():
    plain(_name)
for _name in (
    "COPY SWAP BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_CONST_KEY_MAP BUILD_STRING BUILD_SLICE UNPACK_SEQUENCE "
    "LIST_APPEND SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE DICT_MERGE DICT_UPDATE RAISE_VARARGS RERAISE GET_AWAITABLE "
    "MATCH_CLASS"
).split():
    counted(_name)
for _name in "STORE_ATTR DELETE_ATTR STORE_GLOBAL DELETE_GLOBAL LOAD_NAME STORE_NAME DELETE_NAME".split():
    named(_name)
for _name in "IMPORT_NAME IMPORT_FROM".split():
    named(_name)
for _name in "STORE_FAST DELETE_FAST LOAD_DEREF STORE_DEREF DELETE_DEREF MAKE_CELL".split():
    slotted(_name)
for _name in "FOR_ITER SEND".split():
    targeted(_name)
listed("BINARY_OP", "+ & // << @ * % | ** >> - / ^ += &= //= <<= @= *= %= |= **= >>= -= /= ^=".split())
listed("IS_OP", ("is", "is not"))
listed("CONTAINS_OP", ("in", "not in"))


READING.rule(("LOAD_CONST",))(lambda raws, tables: [Draft("LOAD_CONST", tables.consts[raws[0].arg])])
WRITING.rule(("LOAD_CONST",))(lambda run, place: [Emit("LOAD_CONST", place.const(run[0].arg))])
READING.rule(("UNPACK_EX",))(lambda raws, tables: [Draft("UNPACK_EX", (raws[0].arg & 0xFF, raws[0].arg >> 8))])


@WRITING.rule(("UNPACK_EX",))
def write_unpack_ex(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
    before, after = run[0].arg
    return [Emit("UNPACK_EX", before | after << 8)]


READING.rule(("CALL_FUNCTION_EX",))(lambda raws, tables: [Draft("CALL_FUNCTION_EX", bool(raws[0].arg & 1))])
WRITING.rule(("CALL_FUNCTION_EX",))(lambda run, place: [Emit("CALL_FUNCTION_EX", int(run[0].arg))])


OPCODE = reason(
    "bytecode.opcode",
    "unknown opcode",
    "The code object holds an opcode, or an argument of one, that the table of normalized instructions does not name.",
    "Only CPython 3.11 to 3.13 are supported; code rewritten by another tool may hold opcodes no compiler emits.",
)
SHAPE = reason(
    "bytecode.shape",
    "unusual instruction order",
    "A jump enters the middle of instructions that only mean something together, such as a call and its keyword names.",
    "CPython's compiler never emits this; look for a tool that rewrites bytecode.",
)
VERSION = reason(
    "bytecode.version",
    "no form in this Python version",
    "This Python version has no instruction for the normalized one, and no sequence of its own that does the same.",
)
