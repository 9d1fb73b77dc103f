"""The trace for Perfetto: what it shows is in the record, in order, and nothing overlaps that ran one after another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner

import explorer
from explorer.ir.record import CallData, LaunchData
from explorer.show.cli import main
from explorer.show.record import Record
from explorer.show.view.trace import CALL, COMPILE, chrome_trace
from records import empty, sample


def attention(x, w):
    y = F.gelu(x @ w)
    return (y.softmax(-1) @ x.t()).sum()


@pytest.fixture(scope="module")
def record() -> Record:
    given = torch.randn(32, 16), torch.randn(16, 16, requires_grad=True)
    return explorer.explore(attention, time=0.05)(*given)


def slices(record: Record, group: int) -> list[dict[str, Any]]:
    found = json.loads(chrome_trace(record.data))["traceEvents"]
    return [each for each in found if each["ph"] == "X" and each["pid"] == group]


def test_each_stage_is_there_as_it_was_measured(record: Record) -> None:
    compiling = slices(record, COMPILE)
    (compile,) = record.data.compiles
    assert [each["args"]["id"] for each in compiling[1:]] == [stage.id for stage in compile.stages]
    assert compiling[0]["ts"] == 0 and compiling[0]["dur"] == pytest.approx(compile.seconds * 1e6)
    for each, stage in zip(compiling[1:], compile.stages, strict=True):
        assert each["dur"] == pytest.approx(stage.seconds * 1e6)
        assert 0 <= each["ts"] and each["ts"] + each["dur"] <= compiling[0]["dur"] * 1.01


def scheduled(record: Record) -> list[str]:
    (compile,) = record.data.compiles
    return [item.id for half in compile.halves if half.schedule for item in half.schedule.items]


def test_the_call_is_there_as_it_ran_with_gaps_and_lines(record: Record) -> None:
    calling = slices(record, CALL)
    launched = [each for each in calling if "half" in each["args"]]
    assert [id for each in launched for id in each["args"]["id"].split(", ")] == scheduled(record)
    (call,) = (each.call for each in record.timing.contestants if each.call is not None)
    whole = {each["name"]: each["dur"] for each in calling if "half" not in each["args"]}
    assert whole["a call of explorer (one, measured)"] == pytest.approx(call.seconds * 1e6)
    ends = 0.0
    for each, launch in zip(launched, record.launches, strict=True):
        assert each["ts"] == pytest.approx(launch.start * 1e6) and each["dur"] == pytest.approx(launch.seconds * 1e6)
        assert launch.start >= ends, "one after another"
        ends = launch.start + launch.seconds
        assert each["args"]["lines"] and all("test_trace.py:" in line for line in each["args"]["lines"])
    assert 0 < ends <= call.seconds
    assert record.launches.text().startswith("explorer: one call took ")
    assert any(each.title == "Where does the time of one call go?" for each in record.data.answers)


def test_where_a_call_is_not_measured_kernels_stand_end_to_end(record: Record) -> None:
    """On a GPU, say."""
    times = record.timing
    contestants = tuple(msgspec.structs.replace(each, call=None) for each in times.contestants)
    changed = msgspec.structs.replace(times, contestants=contestants)
    without = Record(msgspec.structs.replace(record.data, timing=changed))
    calling = slices(without, CALL)
    launched = [each for each in calling if "half" in each["args"]]
    assert [each["args"]["id"] for each in launched] == scheduled(record)
    ends = 0.0
    for each in launched:
        assert each["ts"] == pytest.approx(ends)
        ends += each["dur"]
    whole = {each["name"]: each["dur"] for each in calling if "half" not in each["args"]}
    medians = {f"a call of {each.name} (median)": each.median * 1e6 for each in times.contestants}
    assert whole == pytest.approx(medians) and without.launches.text() == ""


def test_gaps_are_reported_longest_first(record: Record) -> None:
    launches = (LaunchData("f0", "fw", "k0", 5e-6, 2e-6), LaunchData("f0", "fw", "call0, k1", 17e-6, 3e-6))
    one = msgspec.structs.replace(record.timing.contestants[1], call=CallData(21e-6, launches))
    times = msgspec.structs.replace(record.timing, contestants=(one,))
    lines = Record(msgspec.structs.replace(record.data, timing=times)).launches.text().splitlines()
    assert lines[0].startswith("explorer: one call took 21 us: 5 us (24 %) in 2 kernels and library calls")
    assert [line.split(maxsplit=2) for line in lines[1:]] == [
        ["10", "us", "between fw k0 and fw call0, k1"],
        ["5", "us", "before the first, fw k0"],
        ["1", "us", "after the last, fw call0, k1"],
    ]


def test_a_graph_that_runs_twice_in_a_call_is_noted_twice() -> None:
    def part(x):
        torch._dynamo.graph_break()
        return x @ x + 1

    record = explorer.explore(lambda x: part(part(x)), time=0.05)(torch.randn(4, 4))
    ids = [(each.compile, each.ids) for each in record.launches]
    assert len(ids) >= 4 and all(id for _, id in ids)


def test_the_command_writes_it(record: Record, tmp_path: Path) -> None:
    saved = record.save(tmp_path / "a.explore.json.gz")
    result = CliRunner().invoke(main, ["trace", str(saved)])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "a.trace.json").read_text()) == json.loads(chrome_trace(record.data))
    refused = CliRunner().invoke(main, ["trace", str(saved), "-o", str(tmp_path / "absent" / "a.json")])
    assert refused.exit_code == 1 and "choose another" in refused.output


def test_records_without_times_have_a_trace_too() -> None:
    assert slices(Record(empty()), CALL) == []
    assert slices(Record(sample()), COMPILE)
