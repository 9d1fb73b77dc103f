"""What logs of many programs tell is in their records: as many compiles, recompiles, breaks, guards, errors and cache
events as a count of the log's own lines, and as torch's counters."""

import gzip
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from explorer.ir.record import CompileData, RecordData
from explorer.records.logs.read import LogError, read
from logged_programs import PROGRAMS

LINE = re.compile(r"[VIWE]\d{4} \S+ \d+ \S+:\d+\] (\{.*)")
LOGS = Path(__file__).parent / "logs"


@pytest.fixture(scope="module")
def logs(tmp_path_factory, stock_builds) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    script = Path(__file__).parent / "logged_programs.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, str(script), str(folder)], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return folder


def lines(log: Path) -> list[tuple[str, str, tuple]]:
    """The entries of a log by a reading of its own: what each is, its payload, and the compile."""
    found: list[tuple[dict, list[str]]] = []
    for line in log.read_text().split("\n"):
        if head := LINE.fullmatch(line):
            found.append((json.loads(head[1]), []))
        elif line.startswith("\t"):
            found[-1][1].append(line[1:])
    return [
        (
            fields.get("artifact", {}).get("name") or next(iter(fields)),
            "\n".join(payload),
            (fields.get("frame_id"), fields.get("frame_compile_id"), fields.get("compiled_autograd_id")),
        )
        for fields, payload in found
    ]


def reasons(payload: str) -> int:
    return len(json.loads(payload)) if payload.startswith("[\n") else 1


def told(log: Path) -> Counter[str]:
    """What the lines of a log count up to."""
    found: Counter[str] = Counter()
    broken: set[tuple] = set()
    for kind, payload, compile in lines(log):
        match kind:
            case "dynamo_start":
                found["compiles"] += 1
                broken -= {each for each in broken if each[0] == compile}
            case "recompile_reasons":
                found["recompiles"] += reasons(payload)
            case "dynamo_graph_break_reason":
                one = compile, *re.findall(r"^ *Graph break in user code at .+|/gb/gb\d+", payload, re.M)
                found["breaks"] += one not in broken  # one that leads to a skipped frame is told twice
                broken.add(one)
            case "dynamo_cpp_guards_str":
                found["guards"] += len(re.findall(r"^[| ]*\+- [A-Z][A-Z_0-9]*(?:: |$)", payload, re.M))
            case "dynamo_error":
                found["errors"] += 1
            case "dynamo_output_graph" | "aot_forward_graph" | "aot_backward_graph" | "compiled_autograd_graph":
                found[kind] += 1
            case "bwd_compilation_metrics":
                found["backwards"] += 1
            case _ if "_cache_" in kind:
                found["cache events"] += 1
    return found


def is_compile(each: CompileData) -> bool:
    """Whether a compile is of a frame, and was not given up at the limit before it began."""
    kinds = {stage.name for stage in each.stages}
    return "dynamo" in kinds and "compile_attempt_0" in kinds


def recorded(record: RecordData) -> Counter[str]:
    found: Counter[str] = Counter()
    names = {
        "dynamo": "dynamo_output_graph", "forward": "aot_forward_graph", "backward": "aot_backward_graph",
        "compiled autograd: the backward's graph": "compiled_autograd_graph",
        "bwd_compilation_metrics": "backwards", "entire_backward_compile": "spans of backwards",
    }  # fmt: skip
    for each in record.compiles:
        found["compiles"] += is_compile(each)
        found["recompiles"] += len(each.recompiles)
        found["breaks"] += len(each.breaks)
        found["guards"] += len(each.guards)
        found["errors"] += any(stage.name == "error" for stage in each.stages)
        found["cache events"] += sum(event.kind == "Cache" for event in each.events)
        for stage in each.stages:
            if stage.name in names and (stage.graph is not None or "graph" not in names[stage.name]):
                found[names[stage.name]] += 1
    assert found.pop("spans of backwards", 0) == found["backwards"]
    return found


def of(logs: Path, name: str) -> tuple[Path, RecordData]:
    (log,) = (logs / name).iterdir()
    (record,) = read(log)
    return log, record


@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_are_those_of_the_log_and_of_torch(logs, name):
    log, record = of(logs, name)
    assert not record.error
    assert +recorded(record) == +told(log)
    counters = json.loads((logs / "counters.json").read_text())[name]
    if "unique_graphs" in counters.get("stats", {}):
        assert recorded(record)["dynamo_output_graph"] == counters["stats"]["unique_graphs"]
    assert len({each.id for each in record.compiles}) == len(record.compiles)


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_recompile_names_an_earlier_compile_of_its_frame(logs, name):
    record = of(logs, name)[1]
    before: dict[str, CompileData] = {}
    for each in record.compiles:
        for reason in each.recompiles:
            assert reason.of in before and before[reason.of].title == each.title, (each.id, reason)
            assert reason.of.partition(".")[0] == each.id.partition(".")[0]
        before[each.id] = each


def test_a_compile_after_a_reset_is_another_one(logs):
    record = of(logs, "resets_with_breaks_and_recompiles")[1]
    ids = [each.id for each in record.compiles if each.id != "process"]
    assert ids == ["s0", "s1", "s2", "s2.1", "s2.2", "s0#2", "s1#2", "s2#2", "s2#2.1", "s2#2.2", "s0#3", "s1#3"]
    assert [each.of for each in record.compiles[-3].recompiles] == ["s2#2.1", "s2#2"]


def test_a_backward_after_a_reset_is_of_the_compile_before_it(logs):
    by_id = {each.id: each for each in of(logs, "a_backward_after_a_reset")[1].compiles}
    kinds = {id: [stage.name for stage in each.stages] for id, each in by_id.items()}
    assert "entire_backward_compile" in kinds["s0"] and "bwd_compilation_metrics" in kinds["s0"]
    assert "entire_backward_compile" not in kinds["s0#2"]
    assert [half.name for half in by_id["s0"].halves] == ["forward", "backward"]
    assert [half.name for half in by_id["s0#2"].halves] == ["inference"]


def test_logs_of_several_processes_joined_are_distinguished(logs, tmp_path):
    names = ["recompiles", "resets", "branches_and_breaks"]
    joined = tmp_path / "joined.log"
    texts = [of(logs, name)[0].read_text() for name in names]
    numbered = [re.sub(r"^(\S+ \S+) \d+ ", rf"\1 {7 + n} ", each, flags=re.M) for n, each in enumerate(texts)]
    joined.write_text("".join(numbered))
    records = read(joined)
    assert [record.title for record in records] == [f"joined.log, process {7 + n}" for n in range(3)]
    for record, name in zip(records, names, strict=True):
        assert record.compiles == of(logs, name)[1].compiles


def test_a_log_of_more_processes_than_there_can_be_is_cut(tmp_path):
    log = tmp_path / "many.log"
    log.write_text("".join(f'V1121 18:29:14.686000 {n + 1} a.py:1] {{"note": {{}}}}\n' for n in range(3000)))
    records = read(log)
    assert len(records) == 1000 and "line 1001: the log is cut here" in records[0].error


def test_what_torch_logs_prints_is_refused_in_one_sentence(tmp_path):
    file = tmp_path / "run.log"
    file.write_text(
        "[rank0]:V1125 20:46:50.854000 3164 torch/_dynamo/guards.py:2] [0/1] [__recompiles] Recompiling f\n"
    )
    with pytest.raises(LogError, match="TORCH_LOGS printed.*TORCH_TRACE=FOLDER"):
        read(file)


def test_ranks_of_the_same_number_joined_are_distinguished(tmp_path):
    ranks = sorted(LOGS.iterdir())
    texts = [gzip.decompress(each.read_bytes()).decode() for each in ranks]
    joined = tmp_path / "joined.log"
    joined.write_text("".join(re.sub(r"^(\S+ \S+) \d+ ", r"\1 1 ", each, flags=re.M) for each in texts))
    records = read(joined)
    assert [record.environment["rank"] for record in records] == ["0", "1"]
    for record, log in zip(records, ranks, strict=True):
        (alone,) = read(log)
        assert [(each.id, each.title, each.guards, each.recompiles) for each in record.compiles] == [
            (each.id, each.title, each.guards, each.recompiles) for each in alone.compiles
        ]
