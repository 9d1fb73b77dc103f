"""What is alive at the planned peak, and what the backward keeps, by line."""

from __future__ import annotations

import random
import re
import shutil

import msgspec
import pytest
import torch
import torch.nn.functional as F

import explorer
from explorer.ir.graph import info
from explorer.ir.record import BufferData, HalfData, RecordData
from explorer.records.check import profile
from explorer.show.view import memory
from explorer.show.view.answers import answers
from records import sample


@pytest.mark.parametrize("seed", range(80))
def test_the_peak_is_that_of_each_step(seed: int) -> None:
    chosen = random.Random(seed)
    buffers: list[BufferData] = []
    owners: dict[str, str] = {}
    for number in range(chosen.randrange(1, 9)):
        first = chosen.randrange(8)
        name, last = f"buf{number}", first + chosen.randrange(4)
        where = chosen.choice(["own", "pool", "library", "none", "reuse" if buffers else "own"])
        of = chosen.choice(buffers).name if where == "reuse" else ""
        owners[name] = owners[of] if of else name if where != "none" else ""
        size = chosen.randrange(1, 50)
        buffers.append(BufferData(name, "f32[1]", "loop", (), where=where, of=of, bytes=size, first=first, last=last))
    sizes = {each.name: each.bytes for each in buffers}
    spans: dict[str, list[int]] = {}
    for each in buffers:
        if owner := owners[each.name]:
            spans.setdefault(owner, []).extend((each.first, each.last))
    alive = {step: {name for name, span in spans.items() if min(span) <= step <= max(span)} for step in range(16)}
    most = max(sum(sizes[name] for name in names) for names in alive.values())
    found = memory.peak(HalfData("f0", "cpu", tuple(buffers)))
    if not most:
        assert found is None
        return
    assert found is not None and found.bytes == most
    assert {owners[each.name] for each in found.buffers} == alive[found.step]


def block(x, w):
    y = F.gelu(x @ w) * 2
    return (y.softmax(-1) + x[..., :1]).sum(0)


def test_a_pane_is_reported_of_files_by_name_and_of_files_of_one_name_by_path() -> None:
    record = explorer.explore(block, time=0.05)(torch.randn(64, 16), torch.randn(16, 16, requires_grad=True)).data

    def told(record: RecordData) -> str:
        return "\n".join(line for each in answers(record) if each.pane == "memory" for line in each.lines)

    [file] = {each.file for each in record.sources if each.file.endswith("test_memory_answers.py")}
    assert "(test_memory_answers.py:" in told(record) and file not in told(record)
    twin = msgspec.structs.replace(record.sources[0], file="/other/test_memory_answers.py")
    assert f"({file}:" in told(msgspec.structs.replace(record, sources=(*record.sources, twin)))


def test_it_agrees_with_the_plan_and_names_lines() -> None:
    given = torch.randn(64, 16), torch.randn(16, 16, requires_grad=True)
    record = explorer.explore(block, time=0.05)(*given)
    for compile in record.data.compiles:
        for half in compile.halves:
            found = memory.peak(half)
            assert found is not None and half.memory is not None
            slack = 64 * len(half.buffers)  # the plan counts what an allocator gives
            assert found.bytes <= half.memory.peak_after <= found.bytes + slack
    said = str(record.memory)
    assert said.startswith("measured peak memory of a call, without inputs, backward included: eager ")
    kept = sum(each.bytes for each in record.data.compiles[0].saved if each.kind == "saved")
    assert kept and "saved for the backward" in said
    assert "test_memory_answers.py:" in said and "planned peak, without inputs: " in said


def loops_alone(x):
    y = x.softmax(-1)
    z = (y * 2).softmax(0) + y
    return z.softmax(-1).sum(0)


@pytest.mark.parametrize("values", [False, True])
def test_one_run_holds_what_was_planned_step_by_step(values: bool) -> None:
    """With `values` the kernels ran one by one before, and their pool is made anew for the measured run."""
    record = explorer.explore(loops_alone, time=0.05, values=values)(torch.randn(64, 16, requires_grad=True))
    (compile,) = record.data.compiles
    halves = compile.halves
    assert len(halves) == 2 and any(half.memory is not None and half.memory.pool for half in halves)
    for half in halves:
        assert half.memory is not None and half.schedule is not None
        measured = half.memory.measured
        assert len(measured) == len(half.schedule.items) + 1
        assert half.memory.peak_after <= max(measured) + 64 <= half.memory.peak_after + 64 * (len(half.buffers) + 2)
        assert f"{compile.half_title(half.name)}: measured peak of one run, without inputs: " in str(record.memory)


def test_without_a_profiler_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.autograd, "_enable_profiler_legacy")
    record = explorer.explore(loops_alone, time=0.05)(torch.randn(8, 4))
    assert [half.memory.measured for half in record.data.compiles[0].halves if half.memory] == [()]


def test_buffers_in_a_circle_end() -> None:
    compile = sample().compiles[0]
    ring = [BufferData(f"b{n}", "f32[1]", "loop", (), where="reuse", of=f"b{(n + 1) % 3}", bytes=4) for n in range(3)]
    assert memory.peak(msgspec.structs.replace(compile.halves[0], buffers=tuple(ring))) is None


def kept_and_returned(x, w):
    """The forward keeps what it returns beside it; an index is an input of the backward."""
    y = torch.tanh(x @ w)
    return y[torch.arange(4)].softmax(-1) * 2


def test_stock_holds_what_its_wrapper_allocates_step_by_step() -> None:
    given = torch.randn(64, 16), torch.randn(16, 16, requires_grad=True)
    record = explorer.explore(kept_and_returned, engine="stock", time=0.05)(*given)
    (compile,) = record.data.compiles
    assert not [event for event in compile.events if event.kind == "NotMeasured"]
    forward, backward = compile.halves
    for half in compile.halves:
        assert half.memory is not None and half.schedule is not None
        measured = half.memory.measured
        assert len(measured) == len(half.schedule.items) + 1
        found = memory.peak(half)
        assert found is not None and found.bytes <= max(measured), "a plan does not count what a call takes itself"
        assert f"{compile.half_title(half.name)}: measured peak of one run, without inputs: " in str(record.memory)
    items = [item.id for half in compile.halves for item in half.schedule.items if not item.id.startswith("bw.op")]
    launched = [id for each in record.launches for id in each.ids.split(", ")]
    assert set(items) <= set(launched) and "stock: one call took " in record.launches.text()
    if shutil.which("objdump") is not None:
        kernel = next(each for half in compile.halves for each in half.kernels if each.lowered)
        assert record.assembly(kernel.id).startswith("kernel") and re.search(r"\t(ret|jmp)", record.assembly(kernel.id))
        assert "no assembly" not in record.throughput(kernel.id)
    returned = 4 * 16 * 4
    kept = sum(each.bytes for each in compile.saved if each.kind == "saved")
    slack = 64 * len(forward.buffers)
    assert forward.memory is not None and backward.memory is not None
    assert returned + kept <= forward.memory.measured[-1] <= returned + kept + slack
    assert 16 * 16 * 4 <= backward.memory.measured[-1] <= 16 * 16 * 4 + slack, "the gradient alone is left"


def test_a_module_is_called_as_the_program_calls_it() -> None:
    """Whatever the first parameter of its forward is called."""

    class Outer(torch.nn.Module):
        def __init__(me):
            super().__init__()
            me.inner = torch.nn.Linear(4, 4)

        def forward(me, x):
            return me.inner(x).relu()

    record = explorer.explore(Outer(), engine="stock", stock={"backend": "eager"}, time=False)(torch.randn(2, 4))
    graph = next(stage.graph for stage in record.data.compiles[0].stages if stage.graph is not None)
    assert "me.inner" in {node.module for node in graph.nodes}


class TwoLinear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 64), torch.nn.Linear(64, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(x))).sum()


def test_what_eager_keeps_is_reported_by_line_and_module_beside_what_is_compiled() -> None:
    record = explorer.explore(TwoLinear(), time=0.05)(torch.randn(16, 8))
    (eager,) = (each for each in record.timing.contestants if each.name == "eager")
    place = f"{__file__}:{TwoLinear.forward.__code__.co_firstlineno + 1}"
    assert eager.kept == {place: 16 * 64 * 4}, "relu's result, which down reads too; x is an input"
    said = record.memory.text().splitlines()[1:3]
    assert said[0].startswith("saved for the backward, without inputs and parameters: eager 4.1 kB, explorer ")
    assert said[1].split() == ["4.1", "kB", place]
    twice = explorer.explore(torch.nn.Sequential(TwoLinear().up, torch.nn.GELU()), time=0.05)(torch.randn(16, 8))
    (eager,) = (each for each in twice.timing.contestants if each.name == "eager")
    assert sum(eager.kept.values()) == 16 * 64 * 4


def test_a_program_that_keeps_nothing_or_refuses_hooks_is_explored() -> None:
    record = explorer.explore(TwoLinear(), grad=False, time=0.05)(torch.randn(16, 8))
    assert "kept for the backward" not in record.memory.text()

    def gradient(x):
        return torch.func.grad(lambda x: (x.sin() * 2).sum())(x)

    record = explorer.explore(gradient, time=0.05)(torch.randn(4))
    assert record.timing is not None and all(each.kept == {} for each in record.timing.contestants)


def dropped(x, w):
    y = F.gelu(x @ w)
    return (F.dropout(y.softmax(-1), 0.5) @ w.t()).sum(0)


def test_what_is_saved_says_what_computing_it_again_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part gives the saved value, from inputs and what else is saved. Random numbers would be others."""
    again, tried = profile._again, []

    def compared(graph, node, values):
        run = again(graph, node, values)
        if run is not None:
            torch.testing.assert_close(run(), values[node])
        tried.append((info(node).id, run is not None))
        return run

    monkeypatch.setattr(profile, "_again", compared)
    given = torch.randn(64, 16), torch.randn(16, 32, requires_grad=True)
    record = explorer.explore(dropped, time=0.05)(*given)
    (compile,) = record.data.compiles
    assert record.data.timing is not None and "no times of" not in record.data.timing.method
    kept = {each.id: each for each in compile.saved if each.kind == "saved"}
    assert dict(tried).keys() == kept.keys() and len(kept) > 2
    assert {id for id, timed in tried if not timed} == {id for id in kept if "bernoulli" in id} != set()
    for id, timed in tried:
        assert (kept[id].seconds is not None) == timed
    assert not any(each.seconds for each in compile.saved if each.kind != "saved")
    assert "1 value not measured" in str(record.memory) and "what\ncomputing it again takes" in str(record.memory)


def test_what_was_not_timed_says_so() -> None:
    record = explorer.explore(dropped, time=False)(torch.randn(64, 16), torch.randn(16, 32, requires_grad=True))
    assert {each.seconds for each in record.data.compiles[0].saved} == {None}
    assert "values not measured" in str(record.memory)
