"""What holds before each instruction of a body: stack depth, reached or not, which names are bound, which live."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from explorer.compiler.bytecode.ops import OPS
from explorer.ir.bytecode import Code, Handler, Instruction

T = TypeVar("T")

_CELL_OPS = frozenset(
    {"LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLOSURE", "LOAD_FROM_DICT_OR_DEREF", "MAKE_CELL"}
)
_READS = frozenset({"LOAD_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"}) | _CELL_OPS
_OF_THE_FRAME = frozenset({"locals", "vars", "dir", "eval", "exec"})
"""Builtins that read the frame that calls them."""
_BINDS = frozenset({"STORE_FAST", "MAKE_CELL", "LOAD_FAST"})  # past a load the name is bound, or the load has raised
_UNBINDS = frozenset({"DELETE_FAST", "LOAD_FAST_AND_CLEAR"})
_NULLS = frozenset({"PUSH_NULL", "LOAD_FAST_AND_CLEAR"})


@dataclass(frozen=True, slots=True)
class Flow:
    """The edges of a body, by position. `after[i]` holds (successor, whether by the jump)."""

    code: Code
    after: tuple[tuple[tuple[int, bool], ...], ...]
    handler: tuple[Handler | None, ...]
    handler_at: tuple[int | None, ...]


def flow(code: Code) -> Flow:
    """Raises ValueError for a jump to an id that is not there, and for running off the end."""
    index = code.index
    if len(index) != len(code.instructions):
        raise ValueError(f"{code.qualname}: two instructions share an id")
    after = []
    for position, instruction in enumerate(code.instructions):
        op = OPS[instruction.op]
        edges = []
        if op.falls and position + 1 < len(code.instructions):
            edges.append((position + 1, False))
        if op.jumps:
            if instruction.target not in index:
                raise ValueError(f"{code.qualname}: {instruction.op} to {instruction.target}, which is not there")
            edges.append((index[instruction.target], True))
        after.append(tuple(edges))
    handlers = handlers_by_position(code)
    return Flow(code, tuple(after), handlers, tuple(None if h is None else index[h.target] for h in handlers))


def handlers_by_position(code: Code) -> tuple[Handler | None, ...]:
    """The handler that takes each instruction's exceptions: of those that cover it the one with the shortest range."""
    index = code.index
    found: list[Handler | None] = [None] * len(code.instructions)
    ranges = [(index[h.start], index[h.end] + 1, h) for h in code.handlers]
    for start, end, handler in sorted(ranges, key=lambda r: r[0] - r[1]):
        found[start:end] = [handler] * (end - start)
    return tuple(found)


def stack_depths(code: Code) -> dict[str, int]:
    """Values on the stack before each instruction that can be reached.

    Raises ValueError where two ways lead to an instruction with different depths, or a value popped is not there.
    """
    return {code.instructions[position].id: depth for position, depth in depths(flow(code)).items()}


def reachable(code: Code) -> frozenset[str]:
    """Ids of the instructions that can run."""
    return frozenset(stack_depths(code))


def comes_back(code: Code, position: int) -> bool:
    """Whether instruction `position` can run again after a handler took what it raised."""
    edges = flow(code)
    seen: set[int] = set()
    work = [edges.handler_at[position]]
    while work:
        at = work.pop()
        if at is not None and at not in seen:
            seen.add(at)
            work += [edges.handler_at[at], *(successor for successor, _ in edges.after[at])]
    return position in seen


def stack_size(edges: Flow, depths: dict[int, int]) -> int:
    """The most values that the stack holds at any time."""
    size = 0
    for position, depth in depths.items():
        instruction = edges.code.instructions[position]
        size = max(size, depth, depth + _effect(instruction, False))
        handler = edges.handler[position]
        if handler is not None:
            size = max(size, handler.depth + handler.push_offset + 1)
    return size


def depths(edges: Flow) -> dict[int, int]:
    """As `stack_depths`, by position."""
    depths: dict[int, int] = {}
    work = [(0, 0)] if edges.code.instructions else []
    while work:
        position, depth = work.pop()
        if position in depths:
            if depths[position] != depth:
                where = edges.code.instructions[position].id
                raise ValueError(f"{edges.code.qualname}: stack depth {depths[position]} and {depth} before {where}")
            continue
        depths[position] = depth
        instruction = edges.code.instructions[position]
        if OPS[instruction.op].falls and position + 1 == len(edges.code.instructions):
            raise ValueError(f"{edges.code.qualname}: runs off the end after {instruction.id}")
        for successor, jumps in edges.after[position]:
            after = depth + _effect(instruction, jumps)
            if after < 0:
                raise ValueError(f"{edges.code.qualname}: {instruction.op} at {instruction.id} empties the stack")
            work.append((successor, after))
        handler, at = edges.handler[position], edges.handler_at[position]
        if handler is not None and at is not None:
            work.append((at, handler.depth + handler.push_offset + 1))
    return depths


def _effect(instruction: Instruction, jumps: bool) -> int:
    return OPS[instruction.op].effect(instruction.arg, jumps)


def bound(code: Code) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """The names that are certainly bound, and those that may be, before each instruction that can be reached.

    Cells and free variables count as bound always: what is bound is the cell.
    """
    certain, possible = _bound(flow(code))
    return {code.instructions[position].id: (names, possible[position]) for position, names in certain.items()}


def _bound(edges: Flow) -> tuple[dict[int, frozenset[str]], dict[int, frozenset[str]]]:
    code = edges.code
    start = frozenset(code.locals[: argument_count(code)] + code.cells + code.frees)
    restores = _null_stores(edges)

    def certain(position: int, names: frozenset[str]) -> frozenset[str]:
        instruction = code.instructions[position]
        if instruction.op in _UNBINDS or position in restores:
            return names - {instruction.arg}
        return names | {instruction.arg} if instruction.op in _BINDS else names

    def possible(position: int, names: frozenset[str]) -> frozenset[str]:
        instruction = code.instructions[position]
        if instruction.op in _UNBINDS:
            return names - {instruction.arg}
        return names | {instruction.arg} if instruction.op in _BINDS else names

    return _forward(edges, start, certain, frozenset.intersection), _forward(edges, start, possible, frozenset.union)


def _null_stores(edges: Flow) -> frozenset[int]:
    """Positions of the STORE_FASTs that may unbind: they put back what a LOAD_FAST_AND_CLEAR took away. A continuation
    finds it on its stack, where a PUSH_NULL put it."""
    instructions = edges.code.instructions
    if all(i.op not in _NULLS for i in instructions):
        return frozenset()
    depth_before = depths(edges)

    def across(position: int, nulls: frozenset[int]) -> frozenset[int]:
        """`nulls` are the places on the stack, from the bottom, that may hold a null so taken."""
        instruction, depth = instructions[position], depth_before[position]
        if instruction.op in _NULLS:
            return nulls | {depth}
        if instruction.op == "SWAP":
            swapped = {depth - 1: depth - instruction.arg, depth - instruction.arg: depth - 1}
            return frozenset(swapped.get(place, place) for place in nulls)
        result = instruction.op in ("CALL", "CALL_FUNCTION_EX")
        return frozenset(place for place in nulls if place < depth + _effect(instruction, False) - result)

    none: frozenset[int] = frozenset()
    before = _forward(edges, none, across, frozenset.union)
    return frozenset(
        position
        for position, nulls in before.items()
        if instructions[position].op == "STORE_FAST" and depth_before[position] - 1 in nulls
    )


def _forward(
    edges: Flow,
    start: frozenset[T],
    across: Callable[[int, frozenset[T]], frozenset[T]],
    merge: Callable[[frozenset[T], frozenset[T]], frozenset[T]],
) -> dict[int, frozenset[T]]:
    """A handler is entered with what held before any instruction it covers: none changes a name and then raises."""
    before: dict[int, frozenset[T]] = {}
    work = [(0, start)] if edges.code.instructions else []
    while work:
        position, facts = work.pop()
        merged = merge(before[position], facts) if position in before else facts
        if before.get(position) == merged:
            continue
        before[position] = merged
        after = across(position, merged)
        work.extend((successor, after) for successor, _ in edges.after[position])
        at = edges.handler_at[position]
        if at is not None:
            work.append((at, merged))
    return before


def liveness(code: Code) -> dict[str, frozenset[str]]:
    """The locals, cells and free variables that something from this instruction on may read, and that may be bound.

    Given for each instruction that can be reached. A cell is live while anything names it: storing into it does not
    end its life, as closures share it. Calling `super()` reads the first argument and `__class__` of the frame unnamed,
    `locals()` and its like all that it has.
    """
    edges = flow(code)
    asks_for_locals = any(each.op == "LOAD_GLOBAL" and each.arg in _OF_THE_FRAME for each in code.instructions)
    _, possible = _bound(edges)
    positions = sorted(possible, reverse=True)
    before: dict[int, frozenset[str]] = dict.fromkeys(positions, frozenset())
    changed = True
    while changed:
        changed = False
        for position in positions:
            live: frozenset[str] = frozenset()
            live = live.union(*(before[successor] for successor, _ in edges.after[position]))
            instruction = code.instructions[position]
            if instruction.op in ("STORE_FAST", "LOAD_FAST_AND_CLEAR"):
                live -= {instruction.arg}
            live = live.union(_read(code, instruction, asks_for_locals))
            at = edges.handler_at[position]
            if at is not None:
                live |= before[at]
            if live != before[position]:
                before[position] = live
                changed = True
    return {code.instructions[position].id: before[position] & possible[position] for position in positions}


def _read(code: Code, instruction: Instruction, asks_for_locals: bool) -> Iterable[str]:
    if instruction.op in _READS:
        return (instruction.arg,)
    no_arguments = (instruction.op, instruction.arg) == ("CALL", (0, ()))
    implicit = instruction.op in ("LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD") and not instruction.arg[1]
    if (no_arguments or implicit) and "__class__" in code.frees:
        return ("__class__", *code.locals[: min(1, code.arg_count)])
    if asks_for_locals and instruction.op in ("LOAD_GLOBAL", "CALL", "CALL_FUNCTION_EX"):
        return (*code.locals, *code.cells, *code.frees)
    return ()


def argument_count(code: Code) -> int:
    """How many of the locals are arguments, with *args and **kwargs."""
    starred = bool(code.flags & inspect.CO_VARARGS) + bool(code.flags & inspect.CO_VARKEYWORDS)
    return code.arg_count + code.keyword_only + starred
