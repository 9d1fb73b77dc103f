"""Normalized instructions as a code object of the Python that runs."""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.compiler.bytecode.decode import Entry, write_exceptions, write_locations, written_name
from explorer.compiler.bytecode.flow import bound, depths, flow, stack_size
from explorer.compiler.bytecode.normal import CHECKED_LOADS, HEADROOM, LANDINGS, LONGEST, WRITE_LENGTHS, caches
from explorer.compiler.bytecode.ops import OPS
from explorer.compiler.bytecode.rules import NEXT, VERSION, WRITING, Emit, runs
from explorer.core.reasons import Unsupported, Why
from explorer.ir.bytecode import Code, Handler, Instruction, Span

_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_FORWARD_ONLY = frozenset({"FOR_ITER", "SEND"})
_BY_VALUE = (int, str, bytes, bool, type(None), type(...))


def encode(code: Code) -> types.CodeType:
    """The code object that does what `code` says. Instructions that cannot be reached are left out.

    Raises ValueError for a body that makes no sense (a jump to nowhere, unequal stack depths, a local that is not in
    `code.locals`), and Unsupported for an op for which this Python version has no form.
    """
    writer = _Writer(code)
    writer.prologue()
    writer.body()
    packed, offsets = _assemble(writer.items, writer.labels)
    units = [(end - start) // 2 for start, end in zip(offsets, offsets[1:], strict=False)]
    return types.CodeType(
        code.arg_count,
        code.positional_only,
        code.keyword_only,
        len(code.locals),
        stack_size(writer.edges, writer.depths) + HEADROOM,
        code.flags,
        packed,
        tuple(writer.consts),
        tuple(writer.names),
        tuple(written_name(name) for name in code.locals),
        code.filename,
        code.name,
        code.qualname,
        code.first_line,
        write_locations(zip((item.span for item in writer.items), units, strict=True), code.first_line),
        write_exceptions(_entries(writer.items, writer.labels, offsets)),
        code.frees,
        tuple(written_name(name) for name in code.cells),
    )


@dataclass(frozen=True, slots=True)
class _Item:
    """An opcode to assemble; `target` is a key of the labels."""

    name: str
    arg: int
    target: str | None
    span: Span | None
    handler: Handler | None


class _Writer:
    """Applies the writing rules to the reachable instructions, and answers what the rules ask (`rules.Place`)."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.items: list[_Item] = []
        self.labels: dict[str, int] = {}
        # A function's docstring is its first constant.
        self.consts: list[Any] = list(code.original.co_consts[:1]) if code.original else [None]
        self.names: list[str] = []
        cells = tuple(name for name in code.cells if name not in code.locals)
        self._slots = {name: slot for slot, name in enumerate((*code.locals, *cells, *code.frees))}
        cleared = {i.arg for i in code.instructions if i.op == "LOAD_FAST_AND_CLEAR"}
        self._only_cells = {*code.cells, *code.frees} - cleared
        self._const_index = {_const_key(value): i for i, value in enumerate(self.consts)}
        self._name_index: dict[str, int] = {}
        self._index = code.index
        self.edges = flow(code)
        self.depths = depths(self.edges)
        self._handlers = self.edges.handler
        self._order = sorted(self.depths)
        self._targets = {code.instructions[p].target for p in self._order}
        self._targets |= {handler.target for p in self._order if (handler := self._handlers[p])}
        self._bound = bound(code) if CHECKED_LOADS else {}
        self._rules = WRITING.now()
        self._at = 0

    def prologue(self) -> None:
        """What the variables and flags ask for. A generator's own handler covers it from where it first resumes."""
        code = self.code
        start = Span(code.filename, code.first_line, code.first_line, 0, 0)
        if code.frees:
            self._add("COPY_FREE_VARS", len(code.frees))
        for slot in sorted(self._slots[name] for name in code.cells):
            self._add("MAKE_CELL", slot)
        outermost = None
        if code.flags & _SUSPENDS:
            self._add("RETURN_GENERATOR", span=start)
            enclosing = list(self._enclosing(0))
            if enclosing and code.instructions[self._index[enclosing[-1].target]].arg == "STOPITERATION_ERROR":
                outermost = enclosing[-1]
            self._add("POP_TOP", span=start, handler=outermost)
        self._add("RESUME", span=start, handler=outermost)

    def body(self) -> None:
        """The reachable instructions in order, then the ways back for jumps that can only go forward."""
        landings: dict[str, int] = {}  # target -> position of a jump there
        backward: dict[str, int] = {}
        for position in self._order:
            jump = self.code.instructions[position]
            if jump.op in _FORWARD_ONLY and jump.target is not None:
                ways = backward if self._index[jump.target] <= position else landings
                ways[jump.target] = position
        above_falls = False
        done = 0
        while done < len(self._order):
            self._at = self._order[done]
            instruction = self.code.instructions[self._at]
            if instruction.id in landings:
                self._land(landings[instruction.id], instruction.id, above_falls)
            self.labels[instruction.id] = len(self.items)
            count, emits = self._written(done)
            run = [self.code.instructions[position] for position in self._order[done : done + count]]
            done += count
            handler = self._handlers[self._at]
            for back, emit in enumerate(emits, count - len(emits)):  # the last opcode is what the last instruction does
                # Where a frame resumes it is past the suspension, whose handler is for what is thrown into it.
                resumed = emit.name == "RESUME" and done < len(self._order)
                here = self._handlers[self._order[done]] if resumed else handler
                self._add(emit.name, emit.arg, self._label(emit, run[-1].id), run[max(0, back)].span, here)
            self.labels[f"after {run[-1].id}"] = len(self.items)
            above_falls = OPS[run[-1].op].falls
        for target, position in backward.items():
            self.labels[f"way back {target}"] = len(self.items)
            for name in LANDINGS.get(self.code.instructions[position].op, ()):
                self._add(name)
            self._add("JUMP_BACKWARD", target=target)

    def const(self, value: object) -> int:
        key = _const_key(value)
        if key not in self._const_index:
            self._const_index[key] = len(self.consts)
            self.consts.append(value)
        return self._const_index[key]

    def name(self, name: str) -> int:
        if name not in self._name_index:
            self._name_index[name] = len(self.names)
            self.names.append(name)
        return self._name_index[name]

    def slot(self, name: str) -> int:
        if name not in self._slots:
            raise ValueError(f"{self.code.qualname}: no local, cell or free variable {name!r}")
        return self._slots[name]

    def backward(self, target: str | None) -> bool:
        return target is not None and self._index[target] <= self._at

    def bound(self, load: Instruction) -> bool:
        return load.arg in self._bound[load.id][0]

    def nesting(self) -> int:
        return sum(1 for _ in self._enclosing(self._at))

    def _enclosing(self, position: int) -> Iterator[Handler]:
        """The handlers that an exception at `position` would meet, each re-raising, innermost first."""
        seen: set[int] = set()
        while (handler := self._handlers[position]) and position not in seen:
            seen.add(position)
            yield handler
            position = self._index[handler.target]

    def _written(self, done: int) -> tuple[int, list[Emit]]:
        """The longest run from `done` on that a rule takes: nothing jumps into it, and one handler covers it."""
        positions = self._order[done : done + LONGEST]
        instructions = [self.code.instructions[position] for position in positions]
        first = instructions[0]
        if first.op == "LOAD_FAST" and first.arg in self._only_cells:
            raise ValueError(f"{self.code.qualname}: LOAD_FAST of {first.arg!r}, which is a cell")
        whole = 1
        while whole < len(positions) and not (
            instructions[whole].id in self._targets or self._handlers[positions[whole]] is not self._handlers[self._at]
        ):
            whole += 1
        for run in runs([i.op for i in instructions[:whole]], 0, WRITE_LENGTHS):
            rule = self._rules.get(run)
            emits = rule(instructions[: len(run)], self) if rule is not None else None
            if emits is not None:
                return len(run), emits
        raise Unsupported(Why(VERSION, first.op))

    def _label(self, emit: Emit, last: str) -> str | None:
        if emit.target is None:
            return None
        if emit.target == NEXT:
            return f"after {last}"
        if emit.name not in _FORWARD_ONLY:
            return emit.target
        if self.backward(emit.target):
            return f"way back {emit.target}"
        return f"landing {emit.target}"

    def _land(self, jump: int, target: str, above_falls: bool) -> None:
        """What must lie before `target`, which is about to be written; what comes from above passes it by."""
        names = LANDINGS.get(self.code.instructions[jump].op, ())
        if names and above_falls:
            self._add("JUMP_FORWARD", target=target, handler=self._handlers[jump])
        self.labels[f"landing {target}"] = len(self.items)
        for name in names:
            self._add(name, handler=self._handlers[jump])

    def _add(
        self,
        name: str,
        arg: int = 0,
        target: str | None = None,
        span: Span | None = None,
        handler: Handler | None = None,
    ) -> None:
        self.items.append(_Item(name, arg, target, span, handler))


def _const_key(value: object) -> object:
    """Equal for constants that may share an entry; `is` matters for all but plain values."""
    return (type(value), value) if type(value) in _BY_VALUE else id(value)


def _assemble(items: Sequence[_Item], labels: dict[str, int]) -> tuple[bytes, list[int]]:
    """The packed opcodes, and the offset in bytes where each item starts, and where the last ends.

    Whether a jump needs EXTENDED_ARG depends on the distance and so on other jumps: grow until nothing changes.
    """
    args = [item.arg for item in items]
    words = [_words(arg) for arg in args]
    tails = [2 * caches(item.name) for item in items]
    settled = False
    while not settled:
        offsets = [0]
        for count, tail in zip(words, tails, strict=True):
            offsets.append(offsets[-1] + 2 * count + tail)
        settled = True
        for i, item in enumerate(items):
            if item.target is None:
                continue
            distance = offsets[labels[item.target]] - offsets[i + 1]
            args[i] = (-distance if "BACKWARD" in item.name else distance) // 2
            if args[i] < 0:
                raise ValueError(f"{item.name} cannot reach {item.target}")
            if _words(args[i]) > words[i]:
                words[i] = _words(args[i])
                settled = False
    out = bytearray()
    for item, arg, count, tail in zip(items, args, words, tails, strict=True):
        for shift in range(8 * (count - 1), 0, -8):
            out += bytes((dis.EXTENDED_ARG, arg >> shift & 0xFF))
        out += bytes((dis.opmap[item.name], arg & 0xFF))
        out += bytes(tail)
    return bytes(out), offsets


def _words(arg: int) -> int:
    """Code units for an opcode with `arg`, with its EXTENDED_ARGs."""
    return max(1, (arg.bit_length() + 7) // 8)


def _entries(items: Sequence[_Item], labels: dict[str, int], offsets: Sequence[int]) -> Iterator[Entry]:
    start = 0
    for i, item in enumerate(items):
        if i + 1 < len(items) and _way(items[i + 1].handler) == _way(item.handler):
            continue
        if item.handler is not None:
            target, depth, push_offset = _way(item.handler) or ("", 0, False)
            yield Entry(offsets[start] // 2, offsets[i + 1] // 2, offsets[labels[target]] // 2, depth, push_offset)
        start = i + 1


def _way(handler: Handler | None) -> tuple[str, int, bool] | None:
    return (handler.target, handler.depth, handler.push_offset) if handler else None
