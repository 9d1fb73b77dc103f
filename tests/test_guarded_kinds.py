"""What a program reads of the world is guarded: by kind of value, property, and way to reach it; and guards fail when
what they say is made untrue."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import explorer
from capturing import compiled
from explorer.capture.guards import instance_dict
from explorer.ir.capture import Attr, Frame, Global, Guard, Item, Local, Source, read
from guarded_kinds import KINDS, WAYS, Row, rows, run
from programs import ZOO


def _sample() -> list[Row]:
    """Each property of each kind once, by ways that take turns."""
    turns = itertools.cycle(WAYS)
    return [Row(name, read, next(turns)) for name, each in KINDS.items() for read in each.reads]


@pytest.mark.parametrize("row", _sample(), ids=str)
def test_what_was_read_is_guarded(row: Row) -> None:
    assert run(row, lambda f: compiled(f)[0]) == run(row, lambda f: f)


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
def test_back_ends_see_changes(backend: str) -> None:
    chosen = random.Random(backend).sample([row for row in rows() if row.kind in ("tensor", "int", "nn module")], 6)
    for row in chosen:
        assert run(row, lambda f: explorer.compile(f, backend=backend)) == run(row, lambda f: f), str(row)


class Other:
    """Nothing that a program was captured for."""


Locals = dict[str, Any]


@contextmanager
def replaced(source: Source, value: Any, frame: Frame, locals: Locals) -> Iterator[bool]:
    """`value` at `source`, in `locals` or for real; False where that cannot be."""
    undo: Callable[[], Any] | None = None
    match source:
        case Local(variable):
            locals[variable], old = value, locals.get(variable)
            undo = lambda: locals.__setitem__(variable, old)  # noqa: E731
        case Global(variable, ""):
            frame.globals[variable], old = value, frame.globals[variable]
            undo = lambda: frame.globals.__setitem__(variable, old)  # noqa: E731
        case Attr(base, attribute):
            held = instance_dict(read(base, locals, frame.globals))
            if held is not None and attribute in held:
                held[attribute], old = value, held[attribute]
                undo = lambda: held.__setitem__(attribute, old)  # noqa: E731
        case Item(base, key):
            owner = read(base, locals, frame.globals)
            if isinstance(owner, (dict, list)):
                owner[key], old = value, owner[key]
                undo = lambda: owner.__setitem__(key, old)  # noqa: E731
            elif type(owner) is tuple:
                with replaced(base, (*owner[:key], value, *owner[key + 1 :]), frame, locals) as done:
                    yield done
                return
    yield undo is not None
    if undo is not None:
        undo()


def violations(guard: Guard, frame: Frame, locals: Locals) -> Iterator[bool]:
    """With the guard made untrue in turn by each means that there is; False for a means that is not open."""
    assert guard.source is not None
    if guard.property == "has":
        key, present, where = guard.value
        owner = read(guard.source, locals, frame.globals)
        held = owner if where == "key" else instance_dict(owner)
        if isinstance(held, dict):
            old = held.pop(key) if present else None
            if not present:
                held[key] = Other()
            yield True
            if present:
                held[key] = old
            else:
                del held[key]
        return
    if guard.property == "alias" and guard.relation == "are distinct":
        with replaced(guard.value[1], read(guard.value[0], locals, frame.globals), frame, locals) as done:
            yield done
        return
    with replaced(guard.source, Other(), frame, locals) as done:
        yield done


PROGRAMS = [p for p in ZOO if {"module", "class", "container", "closure", "global"} & p.tags][::3]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_a_guard_that_is_made_untrue_fails(program: Any) -> None:
    fn, captures = compiled(program.build())
    args, kwargs = program.inputs()
    with torch.no_grad():
        fn(*args, **kwargs)
        for capture, linked in zip(captures.made, captures.linked, strict=True):
            if capture.frame is None or linked.manager is None:
                continue
            locals = dict(capture.frame.locals)
            if not linked.manager.check(locals):
                continue  # what the call itself changed
            seen: set[tuple[str, str]] = set()
            for guard in linked.guards:
                if guard.source is None or guard.property == "shape" or (guard.property, guard.relation) in seen:
                    continue
                for done in violations(guard, capture.frame, locals):
                    if done:
                        assert not linked.manager.check(locals), guard.text
                        seen.add((guard.property, guard.relation))
                assert linked.manager.check(locals), guard.text
