"""Depths, liveness and fresh bodies: what compiled bytecode and continuations are written with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import bytecode_roundtrip as roundtrip
from bytecode_bodies import CHECKS, function, made
from explorer.compiler.bytecode import build
from explorer.compiler.bytecode.decode import decode
from explorer.compiler.bytecode.encode import encode
from explorer.compiler.bytecode.flow import liveness, reachable, stack_depths
from explorer.core.origin import origin, synthetic
from explorer.ir.bytecode import Instruction, Span


@pytest.fixture(scope="module")
def poisoned_corpus() -> dict[str, tuple[Any, Any]]:
    return {name: (before, after) for name, before, after in roundtrip.corpus(roundtrip.poisoned)}


@pytest.mark.parametrize("name", [name for name, *_ in roundtrip.corpus() if name not in roundtrip.SEES_LOCALS])
def test_dead_names_are_dead(name: str, poisoned_corpus: dict[str, tuple[Any, Any]]) -> None:
    before, after = poisoned_corpus[name]
    assert roundtrip.outcome(before, traced=False) == roundtrip.outcome(after, traced=False)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_bodies(check: Callable[[], None]) -> None:
    check()


def test_liveness_is_not_everything() -> None:
    def f(a, b, c):
        d = a + b
        e = d * c
        del d
        for a in e:
            print(a)
        return b

    body = decode(f.__code__)
    live = liveness(body)

    def before(op: str, arg: Any) -> frozenset[str]:
        return live[next(i.id for i in body.instructions if (i.op, i.arg) == (op, arg))]

    assert before("LOAD_FAST", "a") == {"a", "b", "c"}
    assert before("STORE_FAST", "d") == {"b", "c"}
    assert before("STORE_FAST", "e") == {"b", "d"}
    assert before("DELETE_FAST", "d") == {"b", "d", "e"}
    assert before("STORE_FAST", "a") == {"b"}


def test_liveness_through_handlers_and_cells() -> None:
    def f(a, b, c):
        try:
            a = b.x
        except AttributeError:
            return a
        return lambda: c

    body = decode(f.__code__)
    live = liveness(body)
    load = next(i for i in body.instructions if (i.op, i.arg) == ("LOAD_FAST", "b"))
    assert live[load.id] == {"a", "b", "c"}
    closure = next(i for i in body.instructions if i.op == "LOAD_CLOSURE")
    assert live[closure.id] == {"c"}


def test_depths() -> None:
    def f(x):
        for i in x:
            print(i, x[i : i + 1])
        return [x]

    body = decode(f.__code__)
    depths = stack_depths(body)
    at = {(i.op, i.arg): depths[i.id] for i in body.instructions if i.id in depths}
    assert at["FOR_ITER", None] == 1 and at["STORE_FAST", "i"] == 2 and at["BUILD_LIST", 1] == 1
    assert at["BUILD_SLICE", 2] == 1 + 2 + 1 + 3
    assert at["RETURN_VALUE", None] == 1


def test_unequal_depths_are_refused() -> None:
    done = build.label("done")
    body = function(
        "r0",
        "f",
        ["x"],
        [
            build.load_fast("x"),
            build.instruction("POP_JUMP_IF", "true", "done"),
            build.load_const(1),
            done,
            build.load_const(2),
            build.return_value(),
        ],
        filename="<made>",
        first_line=1,
    )
    with pytest.raises(ValueError, match="stack depth"):
        stack_depths(body)


@pytest.mark.parametrize(
    "instructions, message",
    [
        ([build.load_fast("missing"), build.jump("nowhere")], "nowhere"),
        ([build.load_const(1)], "runs off the end"),
        ([build.pop_top(), build.load_const(1), build.return_value()], "empties the stack"),
        ([build.load_deref("missing"), build.return_value()], "no local, cell or free variable"),
        ([build.load_fast("c"), build.return_value()], "which is a cell"),
        ([replace(build.load_const(1), id="r0@1"), replace(build.return_value(), id="r0@1")], "two instructions"),
    ],
)
def test_senseless_bodies_are_refused(instructions: list[Instruction], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made("f", ["c"], instructions, cells=["c"])


def test_spans_show_in_tracebacks() -> None:
    span = Span("<made>", 42, 43, 3, 9)
    f = made("f", [], build.at(span, [build.load_const(ValueError("x")), build.raise_top()]))
    with pytest.raises(ValueError) as caught:
        f()
    trace = caught.tb
    assert trace.tb_next is not None and trace.tb_next.tb_lineno == 42
    assert list(f.__code__.co_positions())[trace.tb_next.tb_lasti // 2] == (42, 43, 3, 9)


def test_ids_and_origins() -> None:
    with origin(synthetic("continuation prologue")):
        steps = [build.load_const(1), build.label("here"), build.return_value()]
    numbered = build.number("r0", [replace(steps[0], id="r0@0"), *steps[1:], build.pop_top()])
    assert [i.id for i in numbered] == ["r0@0", "here", "r0@1", "r0@2"]
    assert all(i.origins == ("synthetic:continuation prologue",) for i in numbered[:3])
    with pytest.raises(ValueError, match="two instructions with the id"):
        build.number("r0", [steps[1], steps[1]])
    with pytest.raises(ValueError, match="no instruction"):
        build.instruction("LOAD_NOTHING")


def test_unreachable_code_is_left_out() -> None:
    body = function(
        "r0",
        "f",
        [],
        [build.load_const(1), build.return_value(), build.load_const("never"), build.return_value()],
        filename="<made>",
        first_line=1,
    )
    assert reachable(body) == {"r0@0", "r0@1"}
    assert "never" not in encode(body).co_consts
