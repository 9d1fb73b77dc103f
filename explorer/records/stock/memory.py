"""Stock's memory plan: where each buffer lives and how long, read from the wrapper that it wrote.

Inductor decides while it writes the wrapper (codegen/wrapper.py, memory_plan_reuse), so that its statements are the
plan: an allocation, another name for memory that is not needed any more, a place in a pool, a library call's result.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import sympy
import torch

from explorer.compiler.schedule import reasons
from explorer.compiler.schedule.memory import peak
from explorer.core.reasons import Why, reason
from explorer.ir.schedule import Allocation, MemoryPlan
from explorer.records.stock.observation import Half

ALLOCATED = reason(
    "stock.allocated",
    "stock allocates it",
    "No buffer of the same size and dtype was free when it was created, so it has its own allocation, which is "
    "freed after its last reader.",
)
PLACE_IN_POOL = reason(
    "stock.pool",
    "stock puts it in a memory pool",
    "With torch._inductor.config.memory_planning buffers that are never alive at the same time share one allocation.",
)
_POOLED = "alloc_from_pool"
_VIEW = "reinterpret_tensor"


@dataclass(frozen=True)
class Statement:
    """What gives a buffer its name in the wrapper, and whether the memory stays that of another buffer."""

    target: str
    value: ast.expr
    is_part: bool

    @property
    def call(self) -> str:
        """The function that is called, "" where the right side is another name, "[]" for an element of a tuple."""
        if isinstance(self.value, ast.Call):
            return ast.unparse(self.value.func)
        return "" if isinstance(self.value, ast.Name) else "[]"

    @property
    def source(self) -> str:
        """The buffer whose memory it is, for another name or a view."""
        return _names(self.argument(0) if self.call else self.value)[-1]

    def argument(self, place: int) -> ast.expr:
        assert isinstance(self.value, ast.Call)
        return self.value.args[place]


def planned(half: Half) -> MemoryPlan | None:
    """None where the wrapper is no Python (or holds C++ that allocates), or has a pool whose size changes from call to
    call."""
    text = str(half.wrapper)
    try:
        tree = ast.parse(text)
        statements = {found.target: found for found in _statements(tree, text.splitlines())}
        pools = _pools(statements)
    except (SyntaxError, ValueError):
        return None
    returned = {name for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value for name in _names(node)}
    lives = _lives(half, statements)
    made = {
        buffer.name.removeprefix(half.prefix): buffer
        for buffer in half.buffers
        if buffer.kind in ("loop", "extern") and buffer.name in lives
    }
    internal = {name for item in half.items for name in item.internal}
    if made.keys() - statements.keys() - half.updates.keys() - {name.removeprefix(half.prefix) for name in internal}:
        return None
    plan: dict[str, Allocation] = {}
    for name in dict.fromkeys((*(name for name in statements if name in made), *made)):
        buffer = made[name]
        first, last = lives[buffer.name]
        last = len(half.items) if name in returned else last
        place = Allocation(buffer.name, "own", sympy.Integer(buffer.bytes), first, last, Why(ALLOCATED))
        if name in statements:
            plan[buffer.name] = _placed(half, place, statements[name], name in returned, lives, pools)
        elif name in half.updates:
            into = half.buffer(half.updates[name])
            plan[buffer.name] = replace(place, where="reuse", why=Why(reasons.ALIAS, into), of=into)
        elif buffer.name in internal:
            plan[buffer.name] = replace(place, where="none", why=Why(reasons.NEVER))
    apart = {
        name: replace(each, where="own") if each.where == "reuse" and each.why.code != reasons.ALIAS else each
        for name, each in plan.items()
    }
    pool = sum(size for _, size in pools.values())
    before = peak(apart, ("own", "library", "pool"), {})
    return MemoryPlan(half.name, tuple(plan.values()), pool, before, pool + peak(plan, ("own", "library"), {}))


def _placed(
    half: Half,
    place: Allocation,
    statement: Statement,
    returned: bool,
    lives: dict[str, tuple[int, int]],
    pools: dict[str, tuple[int, int]],
) -> Allocation:
    if statement.call == _POOLED:
        pool = ast.unparse(statement.argument(0))
        offset = pools[pool][0] + int(ast.literal_eval(statement.argument(1)))
        return replace(place, where="pool", why=Why(PLACE_IN_POOL, pool), offset=offset)
    if statement.call in ("", _VIEW):
        other = half.buffer(statement.source)
        if statement.is_part:
            return replace(place, where="reuse", why=Why(reasons.ALIAS, other), of=other)
        read = lives.get(other, (0, -1))[1]
        return replace(
            place,
            where="reuse",
            why=Why(reasons.IN_PLACE if read == place.first else reasons.TAKEN_OVER, other),
            of=other,
        )
    if not statement.call.startswith("empty_strided"):
        return replace(place, where="library", why=Why(reasons.LIBRARY))
    return replace(place, why=Why(reasons.RETURNED)) if returned else place


def _statements(tree: ast.Module, lines: list[str]) -> Iterator[Statement]:
    """The first that gives each name a value, in order."""
    seen: set[str] = set()
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                target = node.targets[0].id
                if target not in seen:
                    seen.add(target)
                    yield Statement(target, node.value, lines[node.lineno - 1].rstrip().endswith("# alias"))


def _names(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _lives(half: Half, statements: dict[str, Statement]) -> dict[str, tuple[int, int]]:
    """The positions in the schedule at which each buffer is first written and last used, by itself or in its parts."""
    operations = {operation.id: operation for operation in half.operations}
    found: dict[str, tuple[int, int]] = {}
    for at, item in enumerate(half.items):
        for operation in (operations[id] for id in item.operations if id in operations):
            for name in (*operation.writes, *operation.reads):
                found[name] = found.get(name, (at, at))[0], at
    for each in statements.values():
        part, whole = half.buffer(each.target), half.buffer(each.source) if each.is_part else ""
        if part in found and whole:
            (first, last), (begin, end) = found[part], found.get(whole, found[part])
            found[whole] = min(first, begin), max(last, end)
    return found


def _pools(statements: dict[str, Statement]) -> dict[str, tuple[int, int]]:
    """(where it begins if one lies behind the other, bytes) of each pool that buffers have places in."""
    found: dict[str, tuple[int, int]] = {}
    begin = 0
    for name in dict.fromkeys(ast.unparse(each.argument(0)) for each in statements.values() if each.call == _POOLED):
        size = prod(ast.literal_eval(statements[name].argument(0)))  # ValueError for a symbol
        dtype = getattr(torch, ast.unparse(statements[name].argument(2)).removeprefix("torch."))
        found[name] = begin, size * dtype.itemsize
        begin += size * dtype.itemsize
    return found
