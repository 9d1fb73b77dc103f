"""What autotuning measured and took: stock's, live and in a log; and why our tiles for a card are what they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
import torch
from torch import Tensor
from torch._inductor import config
from torch._inductor.select_algorithm import AlgorithmSelectorCache

import explorer
from explorer.ir.record import CompileData, EventData
from explorer.records.logs.read import read
from explorer.show.record import Record
from stock_compiling import nothing_built
from test_logs import line


def product(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(x @ w)


@contextmanager
def measured(time: float = 0.25) -> Iterator[None]:
    """Candidates are not built, and their times are made up: the C++ template takes `time` ms, a library call 0.5."""

    def benchmark(self: Any, choices: list[Any], *args: Any, **more: Any) -> dict[Any, float]:
        return {each: time if each.name.startswith("cpp") else 0.5 for each in choices}

    patches = {"max_autotune_gemm_backends": "CPP,ATEN", "freezing": True, "autotune_local_cache": False}
    with (
        nothing_built(),
        config.patch(patches),
        mock.patch.object(AlgorithmSelectorCache, "benchmark", benchmark),
        mock.patch.object(AlgorithmSelectorCache, "make_precompile_fn", lambda *args, **more: lambda: {}),
        torch.no_grad(),
    ):
        yield
    torch._dynamo.reset()


def watched() -> Record:
    weight = torch.nn.Parameter(torch.randn(32, 32))
    compiled = torch.compile(lambda x: product(x, weight), mode="max-autotune-no-cudagraphs")
    with explorer.watch() as log, suppress(RuntimeError):  # constants are folded into what was not built
        compiled(torch.randn(8, 32))
    assert log.record is not None
    return log.record


@pytest.mark.parametrize("time", [0.25, float("inf")], ids=["the template is faster", "the template fails"])
def test_candidates_times_and_the_winner_are_reported_with_the_line(time: float) -> None:
    with measured(time):
        record = watched()
    assert not [e for c in record.data.compiles for e in c.events if e.kind.startswith("Hook")]
    head, *candidates = record.autotuning.text().splitlines()
    place = f"test_autotuning.py:{product.__code__.co_firstlineno + 1}"
    assert head.startswith("s0 ") and "float32[8, 32]" in head and place in head and "2 candidates" in head
    (winner,) = (each for each in candidates if "<- taken" in each)
    (event,) = record.autotuning
    if time == 0.25:
        assert winner.split()[:3] == ["250", "us", "1.00x"] and "cpp_" in winner
        assert any(each.split()[:3] == ["500", "us", "2.00x"] for each in candidates)
    else:
        assert "cpp_" not in winner and any("failed" in each and "cpp_" in each for each in candidates)
    assert event.fields["chosen"] in winner
    assert any(each.title == "What did autotuning measure and choose?" for each in record.data.answers)


@pytest.mark.slow
def test_a_real_measurement_takes_the_fastest() -> None:
    with torch.no_grad(), config.patch({"freezing": True, "max_autotune_gemm_backends": "CPP,ATEN"}):
        (event,) = watched().autotuning
    first = event.fields["candidates"].splitlines()[0]
    assert event.fields["chosen"] == first.split()[1] and int(event.fields["count"]) == 2
    assert 0 < float(first.split()[0]) < 1


def test_a_log_has_the_number_of_candidates_and_the_fastest(tmp_path: Path) -> None:
    stats = {"num_choices": 19, "num_triton_choices": 18, "best_kernel": "mm", "best_time": 0.5, "best_triton_pos": 1}
    stats |= {"best_triton_kernel": "triton_mm_7", "best_triton_time": 1.0, "best_triton_kernel_desc": "BLOCK_M=64"}
    told = {"autotune_dtypes": "torch.float16, torch.float16", "autotune_shape": "64x32, 32x8"}
    about = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0, "chromium_event": {}}
    name = "mm_template_autotuning"
    ends = {"name": name, "ts": 3e6, "ph": "E", "args": {**told, "autotune_choices_stats": json.dumps(stats)}}
    file = tmp_path / "made.log"
    begins = {"name": name, "ts": 1e6, "ph": "B", "args": told}
    file.write_text("".join(line(about, json.dumps(each)) for each in (begins, ends)))
    (found,) = read(file)
    head, best, triton, rest = Record(found).autotuning.text().splitlines()
    assert head == "s0 mm of float16[64x32], float16[32x8]: 19 candidates, measured in 2 s:"
    assert best.split() == ["500", "us", "1.00x", "mm"]
    assert triton.split() == ["1", "ms", "2.00x", "triton_mm_7", "BLOCK_M=64"]
    assert rest == "  the log names only the fastest"
    file.write_text("".join(line(about, json.dumps(each)) for each in (begins, ends)).replace("num_choices", "n"))
    assert read(file)[0].error, "what is not of that form is told as damage"


def test_what_a_strangers_record_says_is_not_trusted() -> None:
    base = explorer.explore(torch.sin, time=False)(torch.ones(2)).data
    fields: list[dict[str, str]] = [{}, {"candidates": "1e999 a\n. b\nnan c\n\n9 ", "count": "9" * 5000, "at": ":"}]
    events = tuple(EventData("Autotuned", each) for each in fields)
    compile = CompileData("s0", "f", 0.0, 0.0, events=events, engine="stock")
    assert Record(msgspec.structs.replace(base, compiles=(compile,))).autotuning.text().count("failed") == 3


def tiles(fn: Any, *inputs: Tensor) -> list[str]:
    record = explorer.explore(fn, time=False, target="cuda:sm_90")(*inputs)
    return [fact.partition(": ")[2] for kernel in record.kernels for fact in kernel.facts if fact.startswith("tiling")]


def test_why_a_kernel_for_a_card_has_its_tiles() -> None:
    (points,) = tiles(lambda x: x + 1, torch.empty(1000))
    assert points.startswith("1000 points in blocks of 128: 1024, or down to 128 where 132 processors")
    (rows,) = tiles(lambda x: x.softmax(-1), torch.empty(4, 512))
    assert rows == "a program holds 1 whole row of 512 in registers, and reads each once"
    shared = tiles(lambda x: x.sum(-1), torch.empty(2, 1 << 20))
    assert "programs share it, as 2 are fewer than two for each of 132 processors" in shared[0]
    (turned,) = tiles(lambda x, y: x + y.t(), torch.empty(64, 64), torch.empty(64, 64))
    assert turned.startswith("tiles of 32 by 32")
