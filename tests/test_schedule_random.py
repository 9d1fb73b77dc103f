"""Random loop programs mean the same before and after dependencies, fusion, order and memory planning."""

from __future__ import annotations

import sympy
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from explained import explain
from explorer.compiler.codegen import GENERATE
from explorer.compiler.runtime import BUILD
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY, SEPARATE
from explorer.ir.loops import Axis, Buffer, Expr, IndexValue, Layout, Load, Loop, Loops, View, apply, walk
from explorer.ir.program import CPU, Generation
from explorer.ir.schedule import FusedKernel
from loops_reference import run_loops
from schedule_reference import run_schedule

F32 = torch.float32
SHAPES = [(12,), (4, 3), (3, 4), (2, 6), (2, 2, 3), (4,), (3,), (2,), (), (6, 2), (4, 3, 2)]


def axis(at: int, size: int) -> Axis:
    return Axis(sympy.Symbol(f"i{at}", integer=True, nonnegative=True), sympy.Integer(size))


def layout(shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> Layout:
    strides = [0] * len(shape)
    step = 1
    for dim in reversed(order or range(len(shape))):
        strides[dim] = step
        step *= shape[dim]
    return Layout(F32, torch.device("cpu"), tuple(map(sympy.Integer, shape)), tuple(map(sympy.Integer, strides)))


@st.composite
def programs(draw) -> Loops:
    """Inputs, then loops that read earlier buffers straight, transposed, shifted, flattened, broadcast or by rows, some
    of which reduce and some of which update an input in place."""
    inputs = [Buffer(f"x{n}", layout(draw(st.sampled_from(SHAPES))), "input") for n in range(draw(st.integers(1, 3)))]
    buffers = list(inputs)
    updated: set[str] = set()
    loops: list[Loop] = []
    for n in range(draw(st.integers(1, 7))):
        shape = draw(st.sampled_from(SHAPES))
        axes = tuple(axis(at, size) for at, size in enumerate(shape))
        count = draw(st.integers(0, len(shape))) if draw(st.booleans()) else 0
        reduced = draw(st.permutations(axes))[:count]
        outer = tuple(a for a in axes if a not in reduced)
        values = [
            draw(reads(axes, buffer)) for buffer in draw(st.lists(st.sampled_from(buffers), min_size=1, max_size=3))
        ]
        value: Expr = values[0]
        for other in values[1:]:
            value = apply(draw(st.sampled_from(["add", "sub", "maximum"])), value, other)
        if draw(st.booleans()) and axes:
            value = apply("add", value, IndexValue(F32, (), sympy.Add(*(a.symbol for a in axes))))
        name = f"b{n}"
        size = tuple(int(a.size) for a in outer)
        made = layout(size, tuple(draw(st.permutations(range(len(size))))))
        alias = None
        if not reduced:
            targets = [x for x in inputs if tuple(map(int, x.layout.size)) == size]
            if targets and draw(st.integers(0, 3)) == 0:
                target = draw(st.sampled_from(targets))
                if only_own_point(value, target, target.layout.index(tuple(a.symbol for a in outer))):
                    alias, made = target.name, target.layout
                    updated.add(alias)
        buffer = Buffer(name, made, "loop", alias_of=alias)
        combine = draw(st.sampled_from(["sum", "max", "argmax"])) if reduced else None
        if combine == "argmax":
            value = apply("add", value, IndexValue(F32, (), sympy.Add(*(a.symbol for a in reduced))))
            buffer = Buffer(
                name, Layout(torch.int64, *(getattr(made, f) for f in ("device", "size", "stride"))), "loop"
            )
        index = made.index(tuple(a.symbol for a in outer))
        loops.append(Loop(buffer, outer, value, index, tuple(reduced), combine, origins=(name,)))
        if alias is None and combine != "argmax":
            buffers.append(buffer)
    made_here = [loop.buffer for loop in loops if loop.buffer.alias_of is None]
    returned = [b for b in made_here if draw(st.integers(0, 3)) == 0 or b is loops[-1].buffer]
    return Loops("random", tuple(inputs), tuple(loops), tuple(View(b.name, b.layout) for b in returned))


@st.composite
def reads(draw, axes: tuple[Axis, ...], buffer: Buffer) -> Expr:
    """A load of `buffer` at each point of `axes`, in bounds."""
    numel = int(buffer.layout.numel)
    points = 1
    for a in axes:
        points *= int(a.size)
    linear = sympy.Integer(0)
    for a in draw(st.permutations(axes)) if draw(st.integers(0, 2)) == 0 else axes:
        linear = linear * a.size + a.symbol
    ways = ["wrapped"]
    ways += ["linear"] * 4 * (points == numel) + ["part"] * 3 + ["flipped"] * (points == numel)
    way = draw(st.sampled_from(ways))
    index = sympy.expand(linear)
    if way == "wrapped":
        index = ModularIndexing(index, 1, numel)
    elif way == "flipped":
        index = numel - 1 - index
    elif way == "part":
        index, step = sympy.Integer(0), 1
        for a in draw(st.permutations(axes)):
            if step * int(a.size) <= numel:
                index, step = index + step * a.symbol, step * int(a.size)
    elif draw(st.integers(0, 3)) == 0 and numel % 4 == 0:
        index = ModularIndexing(index, 1, 4) * (numel // 4) + FloorDiv(index, 4)
    return apply("sin", Load(F32, (), buffer.name, sympy.expand(index)))


def only_own_point(value: Expr, target: Buffer, own: sympy.Expr) -> bool:
    loads = [expr for expr in walk(value) if isinstance(expr, Load) and expr.buffer == target.name]
    return all(load.index == own for load in loads)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs(), st.booleans())
def test_random_programs_keep_their_meaning(loops: Loops, fuse: bool):
    torch.manual_seed(0)
    inputs = [torch.randn([int(n) for n in entry.layout.size]) for entry in loops.inputs]
    expected_inputs = [value.clone() for value in inputs]
    expected = run_loops(loops, expected_inputs)
    dependencies = DEPENDENCIES(loops)
    schedule = ORDER(FUSE(dependencies) if fuse else SEPARATE(dependencies))
    for plan in (None, PLAN_MEMORY(schedule)):
        ours = [value.clone() for value in inputs]
        made = run_schedule(schedule, ours, plan)
        for got, want in zip((*made, *ours), (*expected, *expected_inputs), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_in_cpp(loops: Loops):
    torch.manual_seed(0)
    inputs = [torch.randn([int(n) for n in entry.layout.size]) for entry in loops.inputs]
    expected_inputs = [value.clone() for value in inputs]
    expected = run_loops(loops, expected_inputs)
    schedule = ORDER(FUSE(DEPENDENCIES(loops)))
    built = BUILD(GENERATE(Generation(schedule, PLAN_MEMORY(schedule), CPU)))
    for got, want in zip((*built.call(inputs), *inputs), (*expected, *expected_inputs), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_pairs_are_explained(loops: Loops):
    fused = FUSE(DEPENDENCIES(loops))
    home = {id: item for item in fused.items if isinstance(item, FusedKernel) for id in item.ids}
    for first in loops.operations:
        for second in loops.operations:
            if first.id < second.id:
                assert explain(fused, first.id, second.id).ok == (home[first.id] is home[second.id])
