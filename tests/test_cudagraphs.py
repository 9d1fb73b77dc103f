"""What a record says of CUDA graphs, on a machine without a card: torch's own managers stand in for recordings. What a
card does is tests/gpu/test_gpu_cudagraphs.py."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from torch._guards import CompileId
from torch._inductor import config
from torch._inductor.cudagraph_trees import FunctionID
from torch._inductor.cudagraph_utils import CheckInvariantStatus, PlaceholderInfo, log_data_ptr_mismatch

import explorer
from explorer.ir.record import CompileData, EventData, RecordData
from explorer.records.logs.read import read
from explorer.records.stock import cudagraphs
from explorer.records.stock.hook import Call, watching
from explorer.records.stock.observation import Observation
from explorer.show.record import Record
from stock_compiling import nothing_built
from test_logs import line

COMPILE, FUNCTION = CompileId(frame_id=0, frame_compile_id=0), FunctionID(0)


def watched() -> Observation:
    seen = Observation()
    with watching(seen, ()):  # after which the compile of this number is another's
        seen.begin(COMPILE, "f", (lambda: None).__code__)
    return seen


def manager(recorded: list[Any]) -> Any:
    return SimpleNamespace(
        id_to_compile_id={FUNCTION: COMPILE}, id_to_mode={FUNCTION: SimpleNamespace(name="INFERENCE")},
        current_node=None, roots=defaultdict(list, {FUNCTION: recorded}),
    )  # fmt: skip


def recording(x: torch.Tensor, status: CheckInvariantStatus) -> Any:
    """One whose reason is told by torch's own function."""
    about = PlaceholderInfo("primals_1", "train.py:7", [], None)

    def check_invariants(inputs: list[Any]) -> Any:
        return status, partial(log_data_ptr_mismatch, (about,), inputs, (x.data_ptr(),), (0,), status)

    return SimpleNamespace(check_invariants=check_invariants)


def shown(seen: Observation) -> str:
    return Record(record_of(seen.frozen({}))).cudagraphs.text()


def record_of(compiles: tuple[CompileData, ...]) -> RecordData:
    empty = explorer.explore(torch.sin, time=False)(torch.ones(2)).data
    return msgspec.structs.replace(empty, compiles=compiles)


def test_a_recording_is_reported_with_why_no_earlier_one_fitted() -> None:
    seen, x = watched(), torch.ones(4)
    cudagraphs.before_record(seen, (manager([]), [x], FUNCTION))
    old = recording(torch.ones(4), CheckInvariantStatus.StaticInputIdxMismatch)
    fits = recording(x, CheckInvariantStatus.SUCCESS)
    cudagraphs.before_record(seen, (manager([old, fits]), [x], FUNCTION))
    head, first, again, helps = shown(seen).splitlines()
    assert head == "s0 f: recorded 2 CUDA graphs, 1 of them because no earlier recording fitted:"
    assert first == "  inference of inputs (4,): the first recording"
    assert "recorded again, since static input data pointer changed. input name: primals_1" in again
    assert "train.py:7" in again
    assert "mark_static_address" in helps


def test_one_compiled_before_anybody_watched_is_left_out() -> None:
    seen = Observation()
    cudagraphs.before_record(seen, (manager([]), [], FUNCTION))
    assert seen.compiles == []


def test_parts_of_a_schedule_that_cannot_be_recorded_are_reported_with_their_operations() -> None:
    seen = watched()
    nodes = [SimpleNamespace(get_name=lambda n=n: f"op{n}", is_gpu=lambda n=n: n != 1) for n in range(3)]
    scheduler = SimpleNamespace(should_partition=lambda node: None if node.is_gpu() else "cpu ops")
    call = Call((scheduler,), {})
    call.result = [[nodes[0]], [nodes[1]], [nodes[2]]], [SimpleNamespace(skip_cudagraph=n == 1) for n in range(3)]
    seen.compile = lambda: seen.compiles[0]  # type: ignore[method-assign]
    with config.patch({"triton.cudagraphs": True}):
        list(cudagraphs.around_partition(seen, call))
    text = shown(seen)
    assert "of 3 parts of its schedule 1 cannot be recorded:\n  part 1: cpu ops: op1" in text


@pytest.mark.parametrize("mode", ["reduce-overhead", None])
def test_stock_on_a_cpu_says_why(mode: str | None) -> None:
    with nothing_built():
        explored = explorer.explore(lambda x: x.sin() + 1, engine="stock", stock={"mode": mode}, time=False)
        record = explored(torch.ones(4))
    said = "no CUDA graph: it runs on cpu, not on a GPU\n  to avoid this: create its tensors on a GPU"
    assert (said in record.cudagraphs.text()) == (mode is not None)
    assert any(each.title == "Is it replayed as a CUDA graph?" for each in record.data.answers) == (mode is not None)
    assert not [e for c in record.data.compiles for e in c.events if e.kind.startswith("Hook")]


def test_an_imported_log_says_why_and_what_helps(tmp_path: Path) -> None:
    why = "skipping cudagraphs due to mutated inputs (1 instances). Found from : \n   File train.py, line 3"
    about = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    file = tmp_path / "made.log"
    file.write_text(line({"compilation_metrics": {"cudagraph_skip_reason": why}, **about}))
    (found,) = read(file)
    text = Record(found).cudagraphs.text()
    assert "no CUDA graph: skipping cudagraphs due to mutated inputs (1 instances)" in text
    assert "to avoid this: write to a new tensor" in text


def test_ours_on_a_card_says_that_it_records_none() -> None:
    record = explorer.explore(torch.sin, time=False, target="cuda:sm_90")(torch.ones(2))
    (compile,) = record.data.compiles
    ran = tuple(msgspec.structs.replace(half, runs=True) for half in compile.halves)
    assert "this compiler records no CUDA graphs" not in record.cudagraphs.text(), "it did not run"
    contents = msgspec.structs.replace(record.data, compiles=(msgspec.structs.replace(compile, halves=ran),))
    assert "this compiler records no CUDA graphs" in Record(contents).cudagraphs.text()


def test_an_event_without_its_fields_is_shown() -> None:
    kinds = ("CudagraphSkipped", "CudagraphPart", "CudagraphRecorded", "CudagraphUsed")
    events = tuple(EventData(kind, {}) for kind in kinds)
    text = Record(record_of((CompileData("s0", "f", 0, 0, events=events, engine="stock"),))).cudagraphs.text()
    assert "torch gives no reason" in text
