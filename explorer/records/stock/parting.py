"""Where a call compiled by stock torch.compile first parts from eager: the node, with the pass or kernel at fault.

The call is compiled once more, and looked into from the top: each captured graph beside what the lines of the program
compute in eager, each graph after a pass beside the one before it, and at last each kernel beside eager operators on
the inputs that the kernel really gets. The referee is float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from msgspec.structs import replace as changed
from torch._inductor import config as inductor_config

from explorer.ir.record import PartingData
from explorer.records.check.accuracy import Comparison, compare, exact_values
from explorer.records.check.trial import Outcome, Trial
from explorer.records.stock.held import drawing
from explorer.records.stock.looking import StockSearch
from explorer.records.stock.run import StockRun, stock_run, unwrapped

ROUNDING = 10
"""How many times further from float64 than eager's a result may be, for rounding alone to explain it."""

SAME_NUMBERS = "torch._inductor.config.fallback_random, where stock draws random numbers as eager does"


def first_parting(trial: Trial, settings: Mapping[str, Any]) -> PartingData | None:
    """The first node that parts from eager, or None where results agree. Where they differ and no node is at fault, the
    finding names none and says what is known. TF32 is off meanwhile: which operators of a card use it differs between
    layouts. Raises what the call raises."""
    search = StockSearch()
    with without_tf32():
        found = _searched(trial, settings, search)
        if found is None or found.node or not search.drew:
            return found
        with inductor_config.patch(fallback_random=True):
            again = _searched(trial, settings, StockSearch())
    if again is None:
        return _no_node(f"results differ only by random numbers: with {SAME_NUMBERS}, they agree")
    return changed(again, detail=f"with {SAME_NUMBERS}: {again.detail}")


@contextmanager
def without_tf32() -> Iterator[None]:
    """Set below torch.backends, whose own attributes refuse to be set once a program has frozen them."""
    before = torch._C._get_cudnn_allow_tf32(), torch._C._get_cublas_allow_tf32()
    try:
        torch._C._set_cudnn_allow_tf32(False)
        torch._C._set_cublas_allow_tf32(False)
        yield
    finally:
        torch._C._set_cudnn_allow_tf32(before[0])
        torch._C._set_cublas_allow_tf32(before[1])


def unasked(run: StockRun, settings: Mapping[str, Any]) -> PartingData | None:
    """For a run whose results differ: the same, but where random numbers explain that, which takes compiles to tell."""
    graphs = (graph for compile in run.observation.compiles for _, _, graph in compile.graphs)
    if any(name.startswith("inductor_") for graph in graphs for name in drawing(graph)):
        return _no_node(
            "stock draws random numbers in a way of its own, so that results differ; bisect_accuracy() compares them "
            f"with {SAME_NUMBERS}"
        )
    found = first_parting(run.given, settings)
    if found is None:
        return _no_node("results differ, and did not when the call was compiled and run once more, without TF32")
    return found


def _searched(trial: Trial, settings: Mapping[str, Any], search: StockSearch) -> PartingData | None:
    under, _ = unwrapped(trial)
    with search.lines:
        eager = under.contestant().observe()
    with stock_run(trial, settings, search=search) as run:
        if search.found is not None:
            return search.found
        if run.outcome is None:
            why = " ".join(run.failure.partition("\n\n")[0].split())
            return _no_node(f"stock's compile fails, so that nothing can be compared: {why}")
        compared = compare(run.outcome.values(), eager.values())
        if compared.ok:
            return None
        again = compare(under.contestant().observe().values(), eager.values())
        if not again.ok:
            return _no_node(f"eager differs from itself when it is called again, first in {again.parted}")
        return search.suspect or _no_fault(under, run.outcome, eager, compared, search)


def _no_fault(
    trial: Trial, ours: Outcome, eager: Outcome, compared: Comparison, search: StockSearch
) -> PartingData | None:
    """Results differ, and nothing that was looked into is at fault."""
    said = f"results differ, first in {compared.parted}, and no graph and no kernel that was compared is at fault"
    if search.unfollowed:
        return _no_node(f"{said}; not compared: {'; '.join(dict.fromkeys(search.unfollowed))}")
    exact = exact_values(trial.contestant, eager.values())
    judged = compare(ours.values(), eager.values(), exact)
    mine, theirs = judged.own_error, judged.eager_error
    if mine is None:
        return _no_node(f"{said}; there is no run in float64 to tell whether it is rounding")
    if theirs is not None and (judged.ok or mine <= ROUNDING * theirs):
        why = "each gives what eager operators give on the inputs that it really gets, so that rounding adds up"
        return _no_node(f"{said}: {why}", mine, theirs)
    return _no_node(f"{said}; what Python and AOTAutograd do around the graphs was not compared", mine, theirs)


def _no_node(detail: str, error: float | None = None, eager_error: float | None = None) -> PartingData:
    return PartingData("", "", "", "", error, eager_error, detail=detail, engine="stock")
