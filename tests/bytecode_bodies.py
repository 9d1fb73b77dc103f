"""Bodies written with compiler/bytecode/build.py, and what they must do; without pytest, to run on any Python."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Sequence
from typing import Any

from explorer.compiler.bytecode import build
from explorer.compiler.bytecode.encode import encode
from explorer.ir.bytecode import Code, Handler, Instruction


def function(
    frame: str,
    name: str,
    arguments: Sequence[str],
    instructions: Iterable[Instruction],
    *,
    filename: str,
    first_line: int,
    cells: Sequence[str] = (),
    frees: Sequence[str] = (),
    handlers: Iterable[Handler] = (),
) -> Code:
    """The body of a plain function: positional arguments only, no defaults; other locals are those that it names."""
    numbered = build.number(frame, instructions)
    captured = {*cells, *frees}
    named = [i.arg for i in numbered if i.op.endswith(("_FAST", "_FAST_AND_CLEAR")) and i.arg not in captured]
    return Code(
        name=name,
        qualname=name,
        filename=filename,
        first_line=first_line,
        arg_count=len(arguments),
        positional_only=0,
        keyword_only=0,
        flags=inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS | (inspect.CO_NESTED if frees else 0),
        locals=tuple(dict.fromkeys((*arguments, *named))),
        cells=tuple(cells),
        frees=tuple(frees),
        instructions=numbered,
        handlers=tuple(handlers),
    )


def made(
    name: str,
    arguments: list[str],
    instructions: list[Instruction],
    scope: dict[str, Any] | None = None,
    **more: Any,
) -> types.FunctionType:
    """The function with that body."""
    body = function("r0", name, arguments, instructions, filename="<made>", first_line=1, **more)
    return types.FunctionType(encode(body), {} if scope is None else scope)


def calls() -> None:
    out: list[Any] = []
    scope = {"say": lambda *a, **k: out.append((a, k)) or len(out)}
    f = made(
        "f",
        ["x"],
        [
            *build.call([build.load_global("say")], [[build.load_fast("x")], [build.load_const(2)]], ("k",)),
            build.pop_top(),
            *build.call([build.load_const(scope["say"])]),
            build.pop_top(),
            build.load_global("say"),
            build.load_const("a"),
            build.load_const("b"),
            *build.call_stacked(2, ("z",)),
            build.pop_top(),
            build.load_global("say"),
            *build.call_stacked(0),
            build.pop_top(),
            *build.call_method([build.load_const("a-b")], "split", [[build.load_const("-")]]),
            build.return_value(),
        ],
        scope,
    )
    assert f(1) == ["a", "b"]
    assert out == [((1,), {"k": 2}), ((), {}), (("a",), {"z": "b"}), ((), {})]


def stack_moves() -> None:
    values = [build.load_const(n) for n in range(4)]
    copied = [build.instruction("COPY", 2), *build.bury(5)]
    shapes = {"bury": build.bury(3), "swap": [build.swap(2)], "copy": copied}
    found = {
        name: made(name, [], [*values, *moves, build.build_tuple(4 + (name == "copy")), build.return_value()])()
        for name, moves in shapes.items()
    }
    assert found == {"bury": (0, 3, 1, 2), "swap": (0, 1, 3, 2), "copy": (2, 0, 1, 2, 3)}


def closures_and_cells() -> None:
    inner = function(
        "r1",
        "inner",
        ["y"],
        [build.load_deref("x"), build.load_fast("y"), build.instruction("BINARY_OP", "+"), build.return_value()],
        filename="<made>",
        first_line=1,
        frees=["x"],
    )
    outer = made(
        "outer",
        ["x"],
        [
            *build.make_function(
                encode(inner),
                [("defaults", [build.load_const((5,))]), ("closure", build.closure(["x"]))],
            ),
            build.load_const(10),
            build.instruction("STORE_DEREF", "x"),
            build.return_value(),
        ],
        cells=["x"],
    )
    assert outer(1)() == 15 and outer(1)(1) == 11


def loop_whose_end_is_reached_from_above_and_loop_that_ends_backward() -> None:
    """Where the iterator runs out a version may need opcodes of its own, which other ways must not run."""
    end, top = build.label("end"), build.label("top")
    f = made(
        "f",
        ["items", "stop"],
        [
            build.instruction("BUILD_LIST", 0),
            build.jump("start"),
            top,
            build.return_value(),
            build.label("start"),
            build.load_fast("items"),
            build.instruction("GET_ITER"),
            build.label("loop"),
            build.instruction("FOR_ITER", None, "end"),
            build.instruction("COPY", 1),
            build.instruction("LIST_APPEND", 3),
            build.load_fast("stop"),
            build.instruction("COMPARE_OP", "=="),
            build.instruction("POP_JUMP_IF", "false", "loop"),
            build.pop_top(),
            end,
            build.load_fast("items"),
            build.instruction("GET_ITER"),
            build.label("again"),
            build.instruction("FOR_ITER", None, "top"),
            build.instruction("LIST_APPEND", 2),
            build.jump("again"),
        ],
    )
    for items in ([1, 2, 3], (1, 2, 3)):
        assert f(items, 2) == [1, 2, 1, 2, 3] and f(items, 9) == [1, 2, 3, 1, 2, 3]
    assert f(range(2), 9) == [0, 1, 0, 1]


def conditional_jump_backward() -> None:
    for condition in ("true", "false", "none", "not none"):
        _jump_backward(condition)


def _jump_backward(condition: Any) -> None:
    f = made(
        "f",
        ["values"],
        [
            build.load_const(0),
            build.label("top"),
            build.load_const(1),
            build.instruction("BINARY_OP", "+"),
            *build.call_method([build.load_fast("values")], "pop"),
            build.instruction("POP_JUMP_IF", condition, "top"),
            build.return_value(),
        ],
    )
    test = {"true": bool, "false": lambda v: not v, "none": lambda v: v is None, "not none": lambda v: v is not None}
    values = [0, None, "x", 0, [], 3, None, 1, False]
    popped = list(reversed(values))
    expected = next((n for n, v in enumerate(popped, 1) if not test[condition](v)), 0)
    assert f(list(values)) == expected


def long_jumps_and_many_constants() -> None:
    for count in (10, 200, 300, 40_000):
        _long_jump(count)


def _long_jump(count: int) -> None:
    steps = [s for n in range(count) for s in (build.load_const(n), build.instruction("BINARY_OP", "+"))]
    f = made(
        "f",
        ["x"],
        [
            build.load_const(0),
            build.label("top"),
            build.load_fast("x"),
            build.instruction("POP_JUMP_IF", "false", "end"),
            *steps,
            build.load_const(0),
            build.store_fast("x"),
            build.jump("top"),
            build.label("end"),
            build.return_value(),
        ],
    )
    assert f(0) == 0 and f(1) == sum(range(count))


def many_locals_and_names() -> None:
    names = [f"v{n}" for n in range(300)]
    stores = [s for n, name in enumerate(names) for s in (build.load_global(name), build.store_fast(name))]
    loads = [build.load_fast(name) for name in names]
    f = made("f", [], [*stores, *loads, build.build_tuple(300), build.return_value()], {n: n + "!" for n in names})
    assert f() == tuple(n + "!" for n in names)


def handler_of_shortest_range_counts() -> None:
    handled = [build.label("inner"), build.pop_top(), build.load_const("inner"), build.return_value()]
    handled += [build.label("outer"), build.pop_top(), build.load_const("outer"), build.return_value()]
    f = made(
        "f",
        ["x"],
        [
            build.label("a"),
            build.load_fast("x"),
            build.label("b"),
            *build.call([build.load_const(int)], [[build.load_fast("x")]]),
            build.label("c"),
            *build.call([build.load_const(len)], [[build.load_fast("x")]]),
            build.label("d"),
            build.pop_top(),
            build.return_value(),
            *handled,
        ],
        handlers=[Handler("b", "c", "inner", 0, False), Handler("a", "d", "outer", 0, False)],
    )
    assert (f("x"), f(1)) == ("inner", "outer")


def constants_keep_their_identity() -> None:
    one, other = [1], [1]
    steps = [build.load_const(v) for v in (one, other, 1, 1.0, True, 0.0, -0.0, (1,), (1.0,))]
    found = made("f", [], [*steps, build.build_tuple(len(steps)), build.return_value()])()
    assert found[0] is one and found[1] is other
    assert repr(found) == "([1], [1], 1, 1.0, True, 0.0, -0.0, (1,), (1.0,))"


CHECKS = [
    calls,
    stack_moves,
    closures_and_cells,
    loop_whose_end_is_reached_from_above_and_loop_that_ends_backward,
    conditional_jump_backward,
    long_jumps_and_many_constants,
    many_locals_and_names,
    handler_of_shortest_range_counts,
    constants_keep_their_identity,
]
