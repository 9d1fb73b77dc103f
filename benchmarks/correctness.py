"""Figure 3: networks in inference and training against eager, their breaks, and where their ATen calls run."""

from __future__ import annotations

from benchmarks.programs import models
from benchmarks.report import Aim, Report, Selection, percent
from explorer.api import configure
from explorer.records.exploration import Asked, explored
from explorer.show.record import Record

BREAKS_OF_TRANSFORMERS = 2


def run(selection: Selection) -> Report:
    rows, wrong, broken, fallback, notes = [], [], [], 0, []
    for named in models():
        if not selection.of(named.name):
            continue
        done = explored(named.trial, Asked(configure(), named.name))
        record = Record(done.record())
        cover, accuracy = record.coverage, done.accuracy
        calls = cover.kernel + cover.extern + cover.fallback
        fallback += cover.fallback
        if accuracy.first_mismatch:
            wrong.append(f"{named.name} ({accuracy.first_mismatch})")
        if len(record.breaks) > (0 if named.own else BREAKS_OF_TRANSFORMERS):
            broken.append(named.name)
        notes += [f"{named.name}: {said}" for said in reasons(record)]
        rows.append(
            (
                named.name,
                f"{accuracy.largest_absolute:.1e}",
                f"{accuracy.largest_relative:.1e}",
                "differs" if accuracy.first_mismatch else "equal",
                str(sum(1 for compile in record.data.compiles if compile.halves)),
                str(len(record.breaks)),
                percent(cover.kernel, calls),
                percent(cover.extern, calls),
                percent(cover.fallback, calls),
                str(cover.view),
            )
        )
    head = ("model", "absolute", "relative", "", "graphs", "breaks", "kernels", "library", "fallback", "views")
    aims = (
        Aim("equal to eager within tolerance", ", ".join(wrong) or f"all {len(rows)}", not wrong),
        Aim("breaks: 0 in the zoo's, at most 2 in transformers'", ", ".join(broken) or "so", not broken),
        Aim("no eager fallback", f"{fallback} calls", not fallback),
    )
    return Report("Correctness against eager", head, tuple(rows), aims, tuple(notes))


def reasons(record: Record) -> list[str]:
    """Each break and each eager run with place and reason."""
    found = [
        f"breaks at {b.span.file.rpartition('/')[2]}:{b.span.line}: {b.why.title} {b.why.detail}"
        if b.span
        else f"breaks at {b.instruction}: {b.why.title} {b.why.detail}"
        for b in record.breaks
    ]
    eager = [compile for compile in record.data.compiles if compile.fallback or compile.error]
    return found + [
        f"{compile.id} {compile.title} runs eagerly: "
        + (f"{compile.fallback.title} {compile.fallback.detail}" if compile.fallback else compile.error)
        for compile in eager
    ]
