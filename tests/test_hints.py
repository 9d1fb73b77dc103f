"""What torch's log artifact perf_hints says is in the record, in plain words, and the program's log is as it was."""

from __future__ import annotations

import logging

import msgspec
import pytest
import torch
from torch._guards import CompileId
from torch._inductor import graph

import explorer
from explorer.ir.record import EventData
from explorer.records.stock import hints
from explorer.records.stock.hook import watching
from explorer.records.stock.observation import Observation
from explorer.show.record import Record
from explorer.show.view.inductor import PLAIN
from records import sample


def without_code(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.solve(x, x.sin())


def test_an_operator_without_generated_code_is_reported_with_its_line() -> None:
    record = explorer.explore(without_code, engine="stock", time=False)(torch.eye(3))
    (told,) = [line for line in record.hints.text().splitlines() if "solve" in line]
    line = without_code.__code__.co_firstlineno + 1
    assert (
        "runs as PyTorch's own operator: Inductor generates no code for it" in told and f"test_hints.py:{line}" in told
    )
    (answer,) = [each for each in record.data.answers if each.title.startswith("What could be faster")]
    assert answer.pane == "schedule" and told.replace(__file__, "test_hints.py") in answer.lines
    assert not any("padding" in each for each in answer.lines), "what is said of each compile is left out"


@pytest.mark.parametrize("level", [logging.WARNING, logging.DEBUG])
def test_the_programs_log_shows_what_it_would_without_a_watcher(level: int, logged: list[logging.LogRecord]) -> None:
    logger = logging.getLogger("a log of hints")
    logger.setLevel(level)
    seen = Observation()
    with watching(seen, (hints.HOOK,)):
        assert isinstance(graph.perf_hint_log, hints.ReportingLogger)
        seen.begin(CompileId(frame_id=0, frame_compile_id=0), "f", (lambda: None).__code__)
        told = hints.ReportingLogger(logger)
        assert told.isEnabledFor(logging.DEBUG) and told.name == logger.name
        told.info("Using FallbackKernel: %s", "aten.x")
        told.warning(("Grad tensors %s will be copied ", "during cudagraphs execution."), ["p"])
    assert not isinstance(graph.perf_hint_log, hints.ReportingLogger)
    shown = [(record.getMessage(), record.filename) for record in logged if record.name == logger.name]
    expected = [("Using FallbackKernel: aten.x", "test_hints.py")]
    assert shown[:1] == (expected if level == logging.DEBUG else [])
    said = [event.fields["said"] for each in seen.compiles for event in each.frozen({}).events]
    assert said[0] == "Using FallbackKernel: aten.x" and said[1].startswith("Grad tensors ['p'] will be copied")


SAID = (
    "Using FallbackKernel: aten.linalg_solve", "Skip comprehensive padding on CPU", "possibly bad tiling: [a]",
    "Found optimal tiling with 3 tiles but torch._inductor.config.triton.max_tiles set to 2. Consider increasing",
    "Reduction over non-contiguous dims. Consider setting config.triton.tile_reductions to True.",
    "Grad tensors ['p'] will be copied during cudagraphs execution.If using cudagraphs", "something new",
)  # fmt: skip


def test_each_hint_is_reported_in_plain_words_and_an_unknown_one_as_it_is() -> None:
    base = sample()
    events = tuple(EventData("PerformanceHint", {"said": said, "at": "/a/step.py:7"}) for said in (*SAID, *SAID[-1:]))
    compile = msgspec.structs.replace(base.compiles[0], events=events)
    text = Record(msgspec.structs.replace(base, compiles=(compile,))).hints.text()
    assert len(text.splitlines()) == len(PLAIN)
    assert all(said not in text for said in SAID[:-1]) and "max_tiles is 2; raise it (" in text
    assert text.splitlines()[-1].endswith("something new (/a/step.py:7), 2 times")
