"""What users of torch.compile ask is answered by the record of a small program: docs/situations.md is made of these.
Torch's own counters and metrics of the program, compiled without the explorer, say the same."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch._dynamo.utils import clear_compilation_metrics, counters, get_compilation_metrics

import situations
from explorer.show.record import Record
from situations import SITUATIONS, Situation
from stock_compiling import nothing_built
from torch_release import BEFORE_2_13

BRANCH = "stock.GB0170"


@dataclass(frozen=True)
class Told:
    """What torch tells of its compiles: the first reason of each recompile, and how often the graph broke for what.
    Of a break that leaves the whole frame to Python its counters may tell nothing, and nothing of a branch."""

    frames: int
    graphs: int
    reasons: tuple[str, ...]
    breaks: Counter[str]


def forget() -> None:
    torch._dynamo.reset()
    counters.clear()
    clear_compilation_metrics()


def told() -> Told:
    metrics = {each.compile_id: each for each in reversed(get_compilation_metrics())}
    reasons = tuple(each.recompile_reason for each in reversed(metrics.values()) if each.recompile_reason)
    breaks = Counter({why.partition("\n")[0]: times for why, times in counters["graph_break"].items()})
    return Told(len(metrics), counters["stats"]["unique_graphs"], reasons, breaks)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Told]:
    """What torch tells of each program that is explored, when it is compiled without the explorer afterwards."""
    found: list[Told] = []
    explored, built = situations.explored, situations.built

    def plainly(fn: Callable[..., Any], args: tuple[Any, ...], **stock: Any) -> None:
        forget()
        with contextlib.suppress(Exception):
            torch.compile(fn, **stock)(*args)
        found.append(told())

    def also_plainly(fn: Callable[..., Any], *args: Any, fixes: bool = False, **settings: Any) -> Record:
        record = explored(fn, *args, fixes=fixes, **settings)
        settings.pop("grad", None)
        plainly(fn, args, **{"backend": "eager", **settings})
        return record

    def built_plainly(fn: Callable[..., Any], *args: Any) -> Record:
        record = built(fn, *args)
        with nothing_built():
            plainly(fn, args)
        return record

    monkeypatch.setattr(situations, "explored", also_plainly)
    monkeypatch.setattr(situations, "built", built_plainly)
    return found


@pytest.fixture
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)
    torch._dynamo.reset()


def test_there_are_enough() -> None:
    assert len(SITUATIONS) >= 143


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_the_record_answers(situation: Situation, compiled: list[Told]) -> None:
    if situation.words_of_2_13 and BEFORE_2_13:
        pytest.skip("the sentence is that of torch 2.13")
    torch.manual_seed(0)
    forget()
    record = situation.record()
    agrees(record, compiled[0] if compiled else told())
    text = situation.text(record)
    for said in situation.says:
        assert said in text


def agrees(record: Record, told: Told) -> None:
    """The compiles, recompiles and breaks of a record are those of which torch tells."""
    compiles = [each for each in record.data.compiles if each.engine == "stock"]
    if not compiles:
        return
    assert len(compiles) == told.frames
    again = [each for each in compiles if each.recompiles]
    assert len(again) == len(told.reasons)
    for each, reason in zip(again, told.reasons, strict=True):
        expression = reason.partition(": ")[2].partition("  # ")[0]
        assert any(" ".join(expression.split()) in said.why for said in each.recompiles), (expression, each.recompiles)
    broke = [broke for each in compiles for broke in each.breaks]
    unsure = any(each.error for each in compiles) or any(broke.why.code == BRANCH for broke in broke)
    assert told.breaks.total() == len(broke) or unsure and told.breaks.total() <= len(broke)
    graphs = [stage for each in compiles for stage in each.stages if stage.name == "backend"]
    assert len(graphs) == told.graphs or any(each.error or each.halves for each in compiles)
