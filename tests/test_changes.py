"""What `explorer diff` says before the stages: where two records were made, what was asked, what came of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch

import explorer
from explorer import Ranks
from explorer.ir.record import RecordData
from explorer.show.record import Record
from explorer.show.view.changes import LONGEST, lines
from records import sample


def changed(**fields: object) -> list[str]:
    before = sample()
    return lines(before, msgspec.structs.replace(before, **fields))


def test_equal_records_differ_in_nothing_but_perhaps_in_time() -> None:
    assert [line for line in changed() if not line.startswith(("a call of", "(the two"))] == []


@pytest.mark.parametrize("name", list(sample().environment))
def test_each_fact_of_the_environment_is_compared(name: str) -> None:
    environment = sample().environment
    assert f"{name}: {environment[name]} -> 0.0 (other)" in changed(environment={**environment, name: "0.0 (other)"})
    left = {key: value for key, value in environment.items() if key != name}
    assert f"{name}: {environment[name]} -> absent" in changed(environment=left)


def test_settings_of_either_side_are_reported() -> None:
    before = sample()
    added = msgspec.structs.replace(before, config={**before.config, "torch inductor max_autotune": "True"})
    assert "setting torch inductor max_autotune: default -> True" in lines(before, added)
    assert "setting torch inductor max_autotune: True -> default" in lines(added, before)


def test_what_strangers_wrote_is_cut() -> None:
    assert max(map(len, changed(config={"a": "x" * 10**6}))) < 2 * LONGEST
    many = changed(environment={f"gpu {n}": "x" for n in range(10_000)})
    assert len(many) < 100 and "more differences" in "".join(many)


def test_two_programs_differ_in_graph_kernels_and_time() -> None:
    x = torch.ones(8)
    first = explorer.explore(lambda x: torch.relu(x) * 2, time=0.05)(x)
    other = explorer.explore(lambda x: torch.sigmoid(x) * 2, time=0.05)(x)
    found = first.diff(other).summary
    graph = next(line for line in found if line.startswith("graph of"))
    assert "1 torch.relu -> " in graph and graph.endswith("1 torch.sigmoid")
    assert any(line.startswith("kernels only before: k0_") for line in found)
    times = [line for line in found if line.startswith("a call of ")]
    assert [line.split()[3].rstrip(":") for line in times] == ["eager", "explorer"]
    assert "at two moments" in found[-1]
    moved = msgspec.structs.replace(other.data, environment={**other.data.environment, "torch": "9.9"})
    assert "machines or versions that differ" in first.diff(Record(moved)).summary[-1]


def test_the_terminal_and_the_text_begin_with_it() -> None:
    before = sample()
    after: RecordData = msgspec.structs.replace(before, environment={**before.environment, "torch": "9.9"})
    assert "torch: " in Record(before).diff(Record(after)).text().splitlines()[1]


def test_two_environments_of_one_program_differ_in_no_graph_for_where_it_lies() -> None:
    (record, _) = (each.data for each in Ranks.load(Path(__file__).parent / "logs"))
    text = msgspec.json.encode(record).decode()
    assert "/tmp/w/train.py" in text
    elsewhere = text.replace("/tmp/w/train.py", "/home/someone/jobs/train.py")
    below = msgspec.json.decode(elsewhere.replace("_at_13", "_at_14"), type=RecordData)
    assert [line for line in lines(record, below) if line.startswith("graph of")] == []
    moved = msgspec.json.decode(elsewhere, type=RecordData)
    graphs = {stage.name for stage in record.compiles[0].stages if stage.graph is not None}
    parted = {name.split()[1] for name in Record(record).diff(Record(moved)).changed}
    assert graphs & {"joint", "forward", "backward"} and not graphs & parted
    other = msgspec.json.decode(elsewhere.replace("torch.sin", "torch.cos"), type=RecordData)
    told = [line for line in lines(record, other) if line.startswith("graph of s0 step:")]
    assert "joint" in {name.split()[1] for name in Record(record).diff(Record(other)).changed}
    rest = "1 operator.gt, 1 operator.mul, 1 torch.{}, 1 z.sum"
    assert told == [f"graph of s0 step: {rest.format('sin')} -> {rest.format('cos')}"]


def test_two_compilers_are_compared_by_what_they_made() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(x) * torch.nn.functional.linear(x, w)
        return torch.nn.functional.layer_norm(y, (8,)).sum(-1)

    given = torch.randn(4, 8), torch.randn(8, 8)
    ours = explorer.explore(fn, time=False)(*given)
    stock = explorer.explore(fn, engine="stock", time=False)(*given)
    lines = ours.diff(stock).text().splitlines()
    assert lines[0].endswith(": explorer -> stock") and not ours.diff(stock).stages
    (captured,) = (line for line in lines if "operations captured" in line)
    assert captured.endswith("operations captured: 5, the same")
    (aten,) = (line for line in lines if "ATen operations" in line)
    assert "only here: var_mean" in aten and "only here: mul, mul, sum" in aten
    assert any(line.strip().startswith("guards: ") for line in lines) and "setting" not in "".join(lines)
    (kernels,) = (line for line in lines if ": kernels: " in line)
    assert "sigmoid" in kernels and "stages differ" not in "".join(lines)
