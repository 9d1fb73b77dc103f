"""The first node at which a call compiled by stock torch.compile differs from eager, with the pass or kernel at fault.

The call is compiled once more. Each captured graph is compared with what the program's lines compute in eager, each
graph after a pass with the one before it, and each kernel with eager operators on the kernel's real inputs. The
reference is float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from msgspec.structs import replace as changed
from torch._inductor import config as inductor_config

from explorer.ir.record import DivergenceData
from explorer.records.check.accuracy import Comparison, NotRepeatable, compare, exact_values, no_node
from explorer.records.check.search import drawing
from explorer.records.check.trial import Outcome, Trial
from explorer.records.stock.bisection import StockSearch
from explorer.records.stock.run import StockRun, stock_run, unwrapped

_no_node = partial(no_node, engine="stock")

ROUNDING = 10
"""A result at most this many times as far from float64 as eager's may be explained by rounding alone."""

SAME_NUMBERS = "torch._inductor.config.fallback_random = True (Inductor then draws eager's random numbers)"


def stock_divergence(trial: Trial, settings: Mapping[str, Any]) -> DivergenceData | None:
    """The first node that differs from eager, or None if results agree. If they differ and no node is at fault, the
    result names no node and says what is known. TF32 is off meanwhile, since the operators that use it depend on the
    layout. Raises what the call raises."""
    search = StockSearch()
    with without_tf32():
        found = _searched(trial, settings, search)
        if found is None or found.node or not search.drew:
            return found
        with inductor_config.patch(fallback_random=True):
            again = _searched(trial, settings, StockSearch())
    if again is None:
        return _no_node(f"results differ only by random numbers; they agree with {SAME_NUMBERS}")
    return changed(again, detail=f"with {SAME_NUMBERS}: {again.detail}")


@contextmanager
def without_tf32() -> Iterator[None]:
    """Bypasses torch.backends, whose attributes cannot be set once a program has frozen them."""
    before = torch._C._get_cudnn_allow_tf32(), torch._C._get_cublas_allow_tf32()
    try:
        torch._C._set_cudnn_allow_tf32(False)
        torch._C._set_cublas_allow_tf32(False)
        yield
    finally:
        torch._C._set_cudnn_allow_tf32(before[0])
        torch._C._set_cublas_allow_tf32(before[1])


def unasked(run: StockRun, settings: Mapping[str, Any], *, repeatable: bool) -> DivergenceData | None:
    """The first divergence of a run that differs. Compiles nothing again if random numbers may explain it; without
    them, a call that must not be repeated is not searched."""
    graphs = (graph for compile in run.observation.compiles for _, _, graph in compile.graphs)
    if any(name.startswith("inductor_") for graph in graphs for name in drawing(graph)):
        how = "bisect_accuracy() compares them with" if repeatable else "to compare them, set"
        return _no_node(f"results differ because Inductor draws other random numbers than eager; {how} {SAME_NUMBERS}")
    if not repeatable:
        return None
    found = stock_divergence(run.given, settings)
    if found is None:
        return _no_node("results differ in the recorded run, but agree in another compile without TF32")
    return found


def _searched(trial: Trial, settings: Mapping[str, Any], search: StockSearch) -> DivergenceData | None:
    under, _ = unwrapped(trial)
    with search.lines:
        eager = under.contestant().observe()
    with stock_run(trial, settings, search=search) as run:
        if search.found is not None:
            return search.found
        if run.outcome is None:
            why = " ".join(run.failure.partition("\n\n")[0].split())
            return _no_node(f"nothing to compare: stock's compile fails: {why}")
        compared = compare(run.outcome.values(), eager.values())
        if compared.ok:
            return None
        again = compare(under.contestant().observe().values(), eager.values())
        if not again.ok:
            return _no_node(str(NotRepeatable(again.first_mismatch)))
        return search.suspect or _no_fault(under, run.outcome, eager, compared, search)


def _no_fault(
    trial: Trial, ours: Outcome, eager: Outcome, compared: Comparison, search: StockSearch
) -> DivergenceData | None:
    """Results differ, but every graph and kernel that was compared is right."""
    unpaired = compared.mismatch == "unpaired"
    first = f"{':' if unpaired else ', first in'} {compared.first_mismatch}"
    known = f"results differ{first}, but every graph and kernel that was compared is right"
    if search.not_compared:
        return _no_node(f"{known}; not compared: {'; '.join(dict.fromkeys(search.not_compared))}")
    if unpaired:
        return _no_node(f"{known}; what Python and AOTAutograd do around the graphs was not compared")
    try:
        exact = exact_values(trial.contestant, eager.values())
    except NotRepeatable as refusal:
        return _no_node(str(refusal))
    judged = compare(ours.values(), eager.values(), exact)
    mine, theirs = judged.own_error, judged.eager_error
    if mine is None:
        return _no_node(f"{known}; without a float64 run, rounding cannot be ruled out")
    if theirs is not None and (judged.ok or mine <= ROUNDING * theirs):
        why = "each gives what eager operators give on the same inputs, so the differences are accumulated rounding"
        return _no_node(f"{known}: {why}", mine, theirs)
    return _no_node(f"{known}; what Python and AOTAutograd do around the graphs was not compared", mine, theirs)
