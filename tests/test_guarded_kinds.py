"""What a program reads of the world is guarded: by kind of value, property, and way to reach it; and guards fail when
what they say is made untrue."""

from __future__ import annotations

import contextlib
import datetime
import io
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import explorer
from capturing import compiled
from explorer.compiler.capture.tracer import Evaluator
from explorer.compiler.capture.values.base import Value
from guard_violations import TENSOR_CHANGES, violations
from guarded_kinds import KINDS, MADE_HERE, WAYS, WITHIN, Row, plain, rows, run
from programs import ZOO, Program


def _sample() -> list[Row]:
    """Each property of each kind once, by ways that take turns."""
    turns = itertools.cycle(WAYS)
    return [Row(name, read, next(turns)) for name, each in KINDS.items() for read in each.reads]


@pytest.mark.parametrize("row", _sample(), ids=str)
def test_what_was_read_is_guarded(row: Row) -> None:
    assert run(row, lambda f: compiled(f)[0]) == run(row, lambda f: f)


def classes_of(base: type, all_of: bool = False) -> Iterator[type]:
    """Those that derive from it and that no other one derives from; or all, itself too."""
    below = base.__subclasses__()
    if all_of or not below:
        yield base
    for each in below:
        yield from classes_of(each, all_of)


def test_each_class_of_values_has_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    wrap = Evaluator.wrap
    found: set[str] = set()

    def noted(self: Any, *args: Any) -> Any:
        made = wrap(self, *args)
        found.add(type(made).__name__)
        return made

    monkeypatch.setattr(Evaluator, "wrap", noted)
    for name, each in KINDS.items():
        run(Row(name, each.reads[0], "argument"), lambda f: compiled(f)[0], 3)
    values = {each.__name__ for each in classes_of(Value) if each.__module__.startswith("explorer.")}
    assert set(WITHIN.values()) <= KINDS.keys()
    without = values - found - WITHIN.keys() - MADE_HERE.keys()
    assert not without, "add a kind to guarded_kinds.py"
    every = {each.__name__ for each in classes_of(Value, all_of=True)}
    assert not (WITHIN.keys() | MADE_HERE.keys()) - every, "there are no such values"
    assert not found & MADE_HERE.keys()


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
def test_backends_see_changes(backend: str) -> None:
    chosen = random.Random(backend).sample([row for row in rows() if row.kind in ("tensor", "int", "nn module")], 6)
    for row in chosen:
        assert run(row, lambda f: explorer.compile(f, backend=backend)) == run(row, lambda f: f), str(row)


def walked(program: Program) -> Counter[str]:
    """Each guard of the program made untrue by each means for its kind; the guards, by kind, and those that held."""
    fn, captures = compiled(program.build())
    args, kwargs = program.inputs()
    found: Counter[str] = Counter()
    with torch.no_grad():
        fn(*args, **kwargs)
        for capture, linked in zip(captures.made, captures.linked, strict=True):
            if capture.frame is None or linked.manager is None:
                continue
            locals = dict(capture.frame.locals)
            if not linked.manager.check(locals):
                continue  # what the call itself changed
            for guard in linked.guards:
                means = [linked.manager.check(locals) for done in violations(guard, capture.frame, locals) if done]
                assert linked.manager.check(locals), f"not undone: {guard.text}"
                assert not any(means), f"holds though it is untrue: {guard.text}"
                found[guard.kind if means else f"{guard.kind}, with no means"] += 1
    return found


@pytest.mark.parametrize("program", ZOO, ids=lambda p: p.name)
def test_a_guard_that_is_made_untrue_fails(program: Program) -> None:
    walked(program)


def test_nearly_all_guards_can_be_made_untrue() -> None:
    found = sum(map(walked, ZOO[::8]), Counter[str]())
    assert {"tensor", "type", "id", "has", "global_state", "alias"} <= found.keys()
    assert sum(n for kind, n in found.items() if "no means" in kind) < 0.2 * found.total(), found


# the counter of mutates_globals is one for both
ALONE = [p for p in ZOO if "training" not in p.tags and p.name != "mutates_globals"]
TODAYS = random.Random(datetime.date.today().isoformat()).sample(ALONE, 12)


@pytest.mark.parametrize("program", TODAYS, ids=lambda p: p.name)
def test_a_changed_property_of_an_input_is_guarded_or_irrelevant(program: Program) -> None:
    fn, eager = compiled(program.build(), recompile_limit=1000)[0], program.build()
    assert outcome(fn, *program.inputs()) == outcome(eager, *program.inputs())
    for place, name in itertools.product(range(len(program.inputs()[0])), TENSOR_CHANGES):
        changed = with_changed(program, place, name)
        if changed is not None:
            expected = outcome(eager, *with_changed(program, place, name))
            assert outcome(fn, *changed) == expected, f"input {place} with other {name}"


def with_changed(program: Program, place: int, name: str) -> Any:
    """The inputs with another tensor at one place, which differs in the property named. Attention has no other sizes:
    torch's kernel for a CPU reads past a key that is shorter than its value."""
    if "attention" in program.tags and "size" in name:
        return None
    args, kwargs = program.inputs()
    made = TENSOR_CHANGES[name](args[place]) if isinstance(args[place], torch.Tensor) else None
    return None if made is None else ((*args[:place], made, *args[place + 1 :]), kwargs)


def outcome(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a call gives, or the kind of error that it raises, and what it prints."""
    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            result = plain(fn(*args, **kwargs))
        except Exception as error:
            result = type(error).__name__
    return result, printed.getvalue()
