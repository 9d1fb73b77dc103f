"""Dependencies, fusion and order: what becomes one kernel, why, and that it means the same."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import sympy
import torch

from explained import CHAIN, explain
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY, SEPARATE, reasons
from explorer.compiler.schedule.fuse import CROWD, Fusion
from explorer.compiler.schedule.order import buffers_of
from explorer.core.reasons import CATALOGUE
from explorer.core.recorder import Recorder, recording
from explorer.ir.loops import Axis, Buffer, Layout, Load, Loop, Loops, View, apply, storages
from explorer.ir.schedule import Fused, FusedKernel, FusionTried
from fusion_pairs import FUSED, REFUSED, Case
from lowering import lowered
from schedule_reference import run_schedule

I0, I1 = (sympy.Symbol(f"i{n}", integer=True, nonnegative=True) for n in range(2))


def fused(fn, *inputs, **options) -> Fused:
    return FUSE(DEPENDENCIES(lowered(fn, *inputs, **options)[0]))


def kernels(made: Fused) -> list[FusedKernel]:
    return [item for item in made.items if isinstance(item, FusedKernel)]


def asked(case: Case) -> tuple[Fused, str, str]:
    made = fused(case.fn, *case.inputs())
    operations = made.dependencies.loops.operations
    first, second = (operations[at].id for at in case.pair)
    return made, first, second


def layout(*size: int, device: str = "cpu", dtype=torch.float32) -> Layout:
    strides = [sympy.Integer(int(torch.Size(size[at + 1 :]).numel())) for at in range(len(size))]
    return Layout(dtype, torch.device(device), tuple(map(sympy.Integer, size)), tuple(strides))


def pointwise(name: str, source: str, size: int, *, shift: int = 0, op: str = "exp", **where) -> Loop:
    load = Load(torch.float32, (source,), source, I0 + shift)
    buffer = Buffer(name, layout(size, **where), "loop")
    return Loop(buffer, (Axis(I0, sympy.Integer(size)),), apply(op, load), I0, origins=(f"aten.{name}",))


@pytest.mark.parametrize("pair", REFUSED, ids=lambda pair: pair.code)
def test_each_reason_against_fusion_and_what_removing_its_obstacle_does(pair):
    made, first, second = asked(pair.blocked)
    verdict = explain(made, first, second)
    assert (verdict.ok, verdict.why.code) == (False, pair.code)
    assert CATALOGUE[pair.code].hint, "a refusal says how to remove the obstacle"
    made, first, second = asked(pair.free)
    assert explain(made, first, second).ok, explain(made, first, second).why


@pytest.mark.parametrize(("code", "case"), FUSED, ids=[code for code, _ in FUSED])
def test_each_reason_to_fuse(code, case):
    made, first, second = asked(case)
    verdict = explain(made, first, second)
    assert (verdict.ok, verdict.why.code) == (True, code)
    assert any({first, second} <= set(kernel.ids) for kernel in kernels(made))


def test_every_fusion_reason_has_a_case():
    shown = {pair.code for pair in REFUSED} | {code for code, _ in FUSED}
    here = {"refuse.device", "refuse.disabled", "refuse.forbidden"}  # below
    declared = {value for name, value in vars(reasons).items() if name.isupper()}
    assert {code for code in declared if code.startswith(("fuse.", "refuse."))} == shown - {CHAIN} | here


def test_devices_are_kept_separate():
    loops = Loops(
        "f",
        (Buffer("x", layout(8), "input"),),
        (pointwise("a", "x", 8), pointwise("b", "x", 8, device="meta")),
        (View("a", layout(8)), View("b", layout(8, device="meta"))),
    )
    assert explain(FUSE(DEPENDENCIES(loops)), "a", "b").why.code == reasons.DEVICE


def test_fusion_can_be_switched_off():
    made = SEPARATE(DEPENDENCIES(lowered(lambda x: (x + 1, x * 2), torch.randn(4))[0]))
    assert len(made.items) == 2
    assert explain(made, *(op.id for op in made.dependencies.loops.operations)).why.code == reasons.DISABLED


def test_a_pair_can_be_kept_separate_whatever_else_is_fused():
    dependencies = DEPENDENCIES(lowered(lambda x: (y := x.exp(), z := y.sum(1), z + 1), torch.randn(4, 8))[0])
    ids = [op.id for op in dependencies.loops.operations]
    assert [kernel.ids for kernel in kernels(FUSE(dependencies))] == [tuple(ids)]
    for first, second in itertools.combinations(ids, 2):
        made = FUSE(replace(dependencies, forbidden=frozenset({frozenset({first, second})})))
        assert not any({first, second} <= set(kernel.ids) for kernel in kernels(made))
        assert explain(made, first, second).why.code in (reasons.FORBIDDEN, reasons.NOTHING_SHARED)


def test_explain_is_symmetric_and_knows_every_pair():
    def model(x, w, b):
        h = torch.relu(x @ w + b)
        return h / h.sum(1, keepdim=True), h.sum(0), (h @ w.t()).exp().flip(0)

    made = fused(model, torch.randn(4, 6), torch.randn(6, 6), torch.randn(6))
    ids = [op.id for op in made.dependencies.loops.operations]
    together = {frozenset((a, b)) for kernel in kernels(made) for a in kernel.ids for b in kernel.ids}
    for first in ids:
        for second in ids:
            if first != second:
                verdict = explain(made, first, second)
                assert verdict.ok == (frozenset((first, second)) in together)
                assert verdict.why.code == explain(made, second, first).why.code
    with pytest.raises(KeyError):
        explain(made, ids[0], "nothing")


def network(x, w, b):
    h = torch.relu(x @ w + b)
    return h / h.sum(1, keepdim=True), h.sum(0), (h @ w.t()).exp().flip(0), torch.softmax(h.t(), -1), w.sin()


def crowd(x):
    return [(x[n : n + 3] * n).cumsum(0) for n in range(CROWD + 4)]


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        *((case.fn, case.shapes) for pair in REFUSED for case in (pair.blocked, pair.free)),
        (network, [(4, 6), (6, 6), (6,)]),
        (crowd, [(40, 3)]),
    ],
)
def test_every_two_kernels_have_one_reason_not_to_be_fused(fn, shapes):
    """Listed; or it is for all kernels between which none is listed, which then share nothing."""
    made = fused(fn, *(torch.randn(shape) for shape in shapes))
    home = {id: item.id for item in made.items for id in (item.ids if isinstance(item, FusedKernel) else (item.id,))}
    listed = {frozenset((home[f.first], home[f.second])) for f in made.verdicts if not f.verdict.ok}
    assert all(len(pair) == 2 for pair in listed)
    assert set(made.excluded) == {item.id for item in made.items if not isinstance(item, FusedKernel)}
    owner = storages(made.dependencies.loops.buffers)
    used = {kernel.id: {owner[buffer] for id in kernel.ids for buffer in buffers_of(made.dependencies, id)}
            for kernel in kernels(made)}  # fmt: skip
    unlisted = [pair for pair in itertools.combinations(used, 2) if frozenset(pair) not in listed]
    crowded = any(used[a] & used[b] for a, b in unlisted)
    assert made.otherwise.code == (reasons.FAR_APART if crowded else reasons.NOTHING_SHARED)


@pytest.mark.parametrize("pair", REFUSED, ids=lambda pair: pair.code)
def test_a_recorded_reason_is_the_pair_s_own(pair):
    """What the two could not be even alone; of their kernels, where those are what forbids it."""
    made, *_ = asked(pair.blocked)
    for each in made.verdicts:
        if not each.verdict.ok:
            alone = Fusion(made.dependencies).alone(each.first, each.second)
            of_kernels = each.verdict.why.code in (reasons.KERNELS, reasons.TOO_LARGE)
            assert of_kernels if alone.ok else each.verdict == alone, alone.why


def test_attempts_are_events():
    loops, _ = lowered(lambda x: (x + 1, x.flip(0) * 2), torch.randn(4))
    recorder = Recorder()
    with recording(recorder):
        FUSE(DEPENDENCIES(loops))
    tried = [event for event in recorder.compiles[0].events if isinstance(event, FusionTried)]
    assert [event.verdict.why.code for event in tried] == ["fuse.same_space", "fuse.same_space"]
    assert [event.later for event in tried] == [True, False], "put off, then done"


def test_dependencies_through_memory():
    def write_back(name: str, source: str) -> Loop:
        loop = pointwise(name, source, 8)
        return Loop(Buffer(name, layout(8), "loop", alias_of="x"), loop.axes, loop.value, loop.index)

    loops = Loops(
        "f",
        (Buffer("x", layout(8), "input"), Buffer("y", layout(8), "input")),
        (pointwise("a", "x", 8), write_back("b", "y"), pointwise("c", "x", 8), write_back("d", "c")),
        (View("a", layout(8)), View("x", layout(8))),
    )
    after = DEPENDENCIES(loops).after
    assert after == {"a": {}, "b": {"a": "b"}, "c": {"b": "x"}, "d": {"c": "c", "b": "d"}}


def test_random_calls_keep_their_order():
    def model(x):
        return torch.bernoulli(x), torch.bernoulli(x * 0.5)

    loops, _ = lowered(model, torch.rand(8))
    dependencies = DEPENDENCIES(loops)
    first, second = (op.id for op in loops.operations if getattr(op, "random", False))
    assert first in dependencies.after[second]


def softmax(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def layer_norm(x, w, b):
    mean = x.sum(-1, keepdim=True) / x.shape[-1]
    d = x - mean
    return d * torch.rsqrt((d * d).sum(-1, keepdim=True) / x.shape[-1] + 1e-5) * w + b


def layer_norm_backward(x, w, g):
    mean = x.sum(-1, keepdim=True) / x.shape[-1]
    d = x - mean
    scale = torch.rsqrt((d * d).sum(-1, keepdim=True) / x.shape[-1] + 1e-5)
    normal, gw = d * scale, g * w
    n = x.shape[-1]
    inner = gw - gw.sum(-1, keepdim=True) / n - normal * (gw * normal).sum(-1, keepdim=True) / n
    return scale * inner


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (softmax, [(4, 8, 16)]),
        (layer_norm, [(4, 8, 16), (16,), (16,)]),
        (layer_norm_backward, [(32, 16), (16,), (32, 16)]),
    ],
    ids=["softmax", "layer_norm", "layer_norm_backward"],
)
def test_norms_are_one_kernel(fn, shapes, dynamic):
    made = fused(fn, *(torch.randn(shape) for shape in shapes), dynamic=dynamic)
    assert len(made.items) == 1
    (kernel,) = kernels(made)
    assert kernel.inner and len(kernel.inner) == 1
    assert set(kernel.ids) - kernel.internal == {kernel.ids[-1]}


def test_axes_are_few_and_the_innermost_is_contiguous():
    made = fused(lambda x: (x + 1, x.permute(2, 0, 1).contiguous() * 2), torch.randn(3, 1, 5, 7)[:, 0])
    (kernel,) = kernels(made)
    assert [axis.size for axis in kernel.outer] == [15, 7]
    assert kernel.steps[0].loop.index == 7 * kernel.outer[0].symbol + kernel.outer[1].symbol


def test_divided_axes_are_split():
    """A flattened transpose divides its axis; over split axes its indices are sums again, and fuse."""
    made = fused(lambda x: (y := x.exp(), y.t().reshape(-1) + 1), torch.randn(4, 8))
    (kernel,) = kernels(made)
    assert "FloorDiv" not in str(made.text()) and "//" not in str(kernel.steps[1].loop.index)


def test_equal_numbers_of_points_in_unlike_shapes_go_through_the_linear_position():
    made = fused(lambda x: (y := x.exp(), y.view(3, 8) + torch.arange(8)), torch.randn(4, 6))
    assert len(made.items) == 1


def test_internal_buffers_have_no_readers_outside():
    made = fused(lambda x: (x.exp().sum(1, keepdim=True) + x).relu(), torch.randn(4, 8))
    (kernel,) = kernels(made)
    assert len(kernel.internal) == len(kernel.ids) - 1


def test_order_lowers_the_peak():
    """Two wide branches, each reduced to little: one after the other needs half the memory."""

    def branches(x, w):
        wide = [x @ w, (x + 1) @ w, (x + 2) @ w]
        return [part @ w.t() for part in wide]

    loops, _ = lowered(branches, torch.randn(4, 8), torch.randn(8, 512))
    schedule = ORDER(SEPARATE(DEPENDENCIES(loops)))
    plan = PLAN_MEMORY(schedule)
    wide = 4 * 512 * 4
    assert plan.peak_before < plan.peak_after < 2 * wide


def test_every_operation_once_and_text_reads():
    made = fused(lambda x: (softmax(x), x.sum(0)), torch.randn(4, 8))
    schedule = ORDER(made)
    text = str(schedule.text())
    assert text.startswith("schedule") and "never in memory" in text
    for artifact in (made.dependencies, made, schedule, PLAN_MEMORY(schedule)):
        assert str(artifact.text()) and "Why(" not in str(artifact.text())


def test_sizes_without_example_values():
    count = sympy.Symbol("u0", integer=True, nonnegative=True)
    size = Layout(torch.float32, torch.device("cpu"), (count,), (sympy.S.One,))

    def doubled(name: str, source: str) -> Loop:
        loop = pointwise(name, source, 1)
        return Loop(Buffer(name, size, "loop"), (Axis(I0, count),), loop.value, I0, origins=loop.origins)

    loops = Loops("f", (count, Buffer("x", size, "input")), (doubled("a", "x"), doubled("b", "a")), (View("b", size),))
    schedule = ORDER(FUSE(DEPENDENCIES(loops)))
    assert len(schedule.items) == 1 and PLAN_MEMORY(schedule).pool_bytes == 0


def test_what_nobody_reads_is_still_written():
    loops = Loops("f", (Buffer("x", layout(8), "input"),), (pointwise("a", "x", 8), pointwise("b", "x", 8)), ())
    (kernel,) = kernels(FUSE(DEPENDENCIES(loops)))
    assert not kernel.internal


def test_kernels_keep_the_origins_of_their_loops():
    made = fused(softmax, torch.randn(4, 8))
    for kernel in kernels(made):
        assert set(kernel.origins) == {origin for step in kernel.steps for origin in step.loop.origins}
        assert kernel.origins


PROGRAMS = {
    "softmax": (softmax, [(4, 8)]),
    "layer_norm": (layer_norm, [(4, 8), (8,), (8,)]),
    "layer_norm_backward": (layer_norm_backward, [(4, 8), (8,), (4, 8)]),
    "transposes": (lambda x: (y := x.exp(), y.t() + 1, (y.t() + 1).reshape(-1) * 2), [(4, 8)]),
    "both sums": (lambda x: (y := x.exp(), y.sum(0), y.sum(1), y.sum()), [(4, 8)]),
    "linear position": (lambda x: (y := x.exp(), y.view(3, 8) + 1), [(4, 6)]),
    "broadcast": (lambda r, x: (r.exp() + x).relu() * r.exp(), [(8, 1), (8, 16)]),
    "column": (lambda x: x - x.sum(0), [(8, 16)]),
    "product": (lambda x, w: torch.relu(x @ w).sum(1) + 1, [(4, 8), (8, 16)]),
    "in place": (lambda x, y: (x.add_(y), x.sum(1), x.flip(0) + y), [(4, 8), (4, 8)]),
    "shift": (lambda x: (y := x.exp(), y[1:] - y[:-1]), [(8, 4)]),
    "full": (lambda x: x / x.sum(), [(8, 16)]),
    "scalar": (lambda x, s: (x * s, (s + 1) * x.sum()), [(8, 16), ()]),
    "empty": (lambda x: (x.exp().sum(1), x + 1), [(4, 0)]),
    "bits": (lambda x: (x.view(torch.int32) ^ 5, x.fmod(0.3), x.view(torch.int16) + 1, x.exp()), [(4, 8)]),
}


@pytest.mark.parametrize("planned", [False, True], ids=["apart", "planned"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_schedules_mean_what_eager_means(name, planned):
    fn, shapes = PROGRAMS[name]
    inputs = [torch.randn(shape) for shape in shapes]
    loops, _ = lowered(fn, *inputs)
    schedule = ORDER(FUSE(DEPENDENCIES(loops)))
    ours, theirs = ([value.clone() for value in inputs] for _ in range(2))
    want = fn(*theirs)
    made = run_schedule(schedule, ours, PLAN_MEMORY(schedule) if planned else None)
    for got, expected in zip(made, want if isinstance(want, tuple) else (want,), strict=False):
        torch.testing.assert_close(got, expected)
    for got, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, expected)
