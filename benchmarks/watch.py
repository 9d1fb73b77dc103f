"""A training script of stock, watched: what that costs over the whole and at each call, and that what torch's counters
and logs tell of it is in the record."""

from __future__ import annotations

from benchmarks.cold import in_new_process
from benchmarks.report import Aim, Report, Selection
from explorer.view.text import duration

REPEATS = 3
SHARE = 0.05
A_CALL = 1e-6


def run(selection: Selection) -> Report:
    found: dict[str, list[dict[str, float]]] = {"plain": [], "watched": []}
    for number in range(REPEATS):  # in turn, so that both meet the same machine
        for how, each in found.items():
            selection.tell(f"{how} {number + 1}")
            each.append(in_new_process("benchmarks.watch_child", how))
    plain, watched = (min(each, key=lambda one: one["processor"]) for each in found.values())
    added = watched["processor"] / plain["processor"] - 1
    again = watched["again"] / plain["again"] - 1
    selection.tell("steady")
    stock, ours = (in_new_process("benchmarks.watch_child", "steady", engine) for engine in ("stock", "explorer"))
    rows = (
        ("50 steps, from empty caches", duration(plain["processor"]), duration(watched["processor"])),
        ("50 steps, from full caches", duration(plain["again"]), duration(watched["again"])),
        ("of it in hooks", "", duration(watched["hooks"])),
        ("a call, stock", duration(stock["plain"]), duration(stock["watched"])),
        ("a call, explorer", duration(ours["plain"]), duration(ours["watched"])),
        ("graphs, by torch's counter and in the record", f"{watched['graphs']:.0f}", f"{watched['recorded']:.0f}"),
        ("recompiles, by torch's log and in the record", f"{watched['logged']:.0f}", f"{watched['recompiles']:.0f}"),
    )
    aims = [
        Aim("watching adds at most 5 % from empty caches", f"{100 * added:+.1f} %", added <= SHARE),
        Aim("watching adds at most 5 % from full caches", f"{100 * again:+.1f} %", again <= SHARE),
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
        more = each["watched"] - each["plain"]
        aims.append(Aim(f"a call of {name} takes at most 1 us more", duration(max(more, 0.0)), more <= A_CALL))
    note = f"processor time, the quickest of {REPEATS} new processes each; a call: the quickest of many short loops"
    return Report("A program watched", ("", "alone", "watched"), rows, tuple(aims), (note,))
