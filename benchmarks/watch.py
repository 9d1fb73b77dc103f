"""A training script of stock, watched: what that costs over the whole and at each call, and that what torch's counters
and logs tell of it is in the record."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from statistics import median, quantiles

from benchmarks.cold import in_new_process
from benchmarks.report import Aim, Report, Selection
from explorer.core.text import duration

COLD, WARM = 4, 8
"""New processes of each kind, without compiled graphs in the caches and with full ones."""
GRAPHS = ("fxgraph", "aotautograd")
"""Folders of torch's caches that hold compiled graphs. Kernels are not among them: building them takes minutes, alike
for both, in which what watching adds would not be seen."""
SHARE = 0.05
A_CALL = 1e-6

Measured = dict[str, list[dict[str, float]]]


def run(selection: Selection) -> Report:
    empty: Measured = {"plain": [], "watched": []}
    full: Measured = {"plain": [], "watched": []}
    with tempfile.TemporaryDirectory() as caches:
        selection.tell("building the kernels")
        in_new_process("benchmarks.watch_child", "plain", caches=caches)
        for number in range(COLD):  # in turn, so that both meet the same machine
            for how, each in empty.items():
                selection.tell(f"{how}, no graphs cached {number + 1}")
                with tempfile.TemporaryDirectory() as folder:
                    kernels = Path(folder) / "caches"
                    shutil.copytree(caches, kernels, ignore=shutil.ignore_patterns(*GRAPHS))
                    each.append(in_new_process("benchmarks.watch_child", how, caches=str(kernels)))
        for number in range(WARM):
            for how, each in full.items():
                selection.tell(f"{how}, full caches {number + 1}")
                each.append(in_new_process("benchmarks.watch_child", how, caches=caches))
    selection.tell("steady")
    stock, ours = (in_new_process("benchmarks.watch_child", "steady", engine) for engine in ("stock", "explorer"))
    watched = empty["watched"][-1]
    rows = (
        *(
            (f"50 steps, {state}, {word}", *(duration(how([e[clock] for e in each])) for each in found.values()))
            for state, found in (("no graphs cached", empty), ("full caches", full))
            for clock in ("processor", "seconds")
            for how, word in ((lower_quartile, f"lower quartile of {clock}"), (median, f"median {clock}"))
        ),
        ("of it in hooks, full caches", "", duration(min(each["hooks"] for each in full["watched"]))),
        ("reading the record afterwards", "", duration(min(each["reading"] for each in full["watched"]))),
        ("a call, stock", duration(stock["plain"]), duration(stock["plain"] + stock["more"])),
        ("a call, explorer", duration(ours["plain"]), duration(ours["plain"] + ours["more"])),
        ("graphs, by torch's counter and in the record", f"{watched['graphs']:.0f}", f"{watched['recorded']:.0f}"),
        ("recompiles, by torch's log and in the record", f"{watched['logged']:.0f}", f"{watched['recompiles']:.0f}"),
    )
    aims = [
        *(
            Aim(f"watching adds at most 5 %, {state}", f"{100 * share(found):+.1f} %", share(found) <= SHARE)
            for state, found in (("no graphs cached", empty), ("full caches", full))
        ),
        Aim(
            "every compile and recompile that torch tells is in the record, each with its reason and values",
            f"{watched['recorded']:.0f} of {watched['graphs']:.0f}, {watched['recompiles']:.0f} of "
            f"{watched['logged']:.0f}, {watched['unexplained']:.0f} without",
            watched["recorded"] == watched["graphs"]
            and watched["recompiles"] == watched["logged"] > 0
            and not watched["unexplained"],
        ),
    ]
    for name, each in (("stock", stock), ("explorer", ours)):
        more = each["more"]
        aims.append(Aim(f"a call of {name} takes at most 1 us more", duration(max(more, 0.0)), more <= A_CALL))
    note = (
        f"new processes in turn, {COLD} of each kind without compiled graphs in the caches and {WARM} with full ones; "
        "shares are of the lower quartile of the processor time, without imports and without reading the record; a "
        "call: the median of the differences between short loops in turn"
    )
    return Report("A program watched", ("", "alone", "watched"), rows, tuple(aims), (note,))


def lower_quartile(values: list[float]) -> float:
    """The least of a few runs is a matter of chance, and other work of the machine slows the upper half."""
    return quantiles(values, method="inclusive")[0]


def share(found: Measured) -> float:
    plain, watched = (lower_quartile([one["processor"] for one in each]) for each in found.values())
    return watched / plain - 1
