"""The trace for Perfetto: what it shows is in the record, in order, and nothing overlaps that ran one after another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner

import explorer
from explorer.records.session import Record
from explorer.show.cli import main
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


def test_each_kernel_and_library_call_is_there_with_its_lines(record: Record) -> None:
    calling = slices(record, CALL)
    launched = [each for each in calling if "half" in each["args"]]
    (compile,) = record.data.compiles
    scheduled = [item.id for half in compile.halves if half.schedule for item in half.schedule.items]
    assert [each["args"]["id"] for each in launched] == scheduled
    ends = 0.0
    for each in launched:
        assert each["ts"] == pytest.approx(ends)
        ends += each["dur"]
        assert each["args"]["lines"] and all("test_trace.py:" in line for line in each["args"]["lines"])
    whole = {each["name"]: each["dur"] for each in calling if "half" not in each["args"]}
    medians = {f"a call of {each.name} (median)": each.median * 1e6 for each in record.timing.contestants}
    assert whole == pytest.approx(medians)


def test_the_command_writes_it(record: Record, tmp_path: Path) -> None:
    saved = record.save(tmp_path / "a.explore.json.gz")
    result = CliRunner().invoke(main, ["trace", str(saved)])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "a.trace.json").read_text()) == json.loads(chrome_trace(record.data))
    refused = CliRunner().invoke(main, ["trace", str(saved), "-o", str(tmp_path / "absent" / "a.json")])
    assert refused.exit_code == 1 and "choose another path" in refused.output


def test_records_without_times_have_a_trace_too() -> None:
    assert slices(Record(empty()), CALL) == []
    assert slices(Record(sample()), COMPILE)
