"""Figure 4: the generated lines that no source line caused, by the reason given, over the zoo."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout

from benchmarks.programs import ZOO, of_program
from benchmarks.report import Aim, Report, Selection, percent
from explorer.api import configure
from explorer.core.origin import synthetic_reason
from explorer.ir.record import CompileData, LineData
from explorer.records.data.provenance import is_source_line, provenance
from explorer.records.exploration import Asked, explored

SHARE = 0.15


def run(selection: Selection) -> Report:
    total, reasons = 0, Counter[str]()
    programs = 0
    for program in ZOO:
        if not selection.of(program.name):
            continue
        programs += 1
        with redirect_stdout(io.StringIO()):  # some programs print
            record = explored(of_program(program), Asked(configure(), program.name)).record()
        for compile in record.compiles:
            lines, found = unsourced(compile)
            total += lines
            reasons.update(found)
    without = sum(reasons.values())
    unknown = reasons["no cause"]
    rows = [(reason, str(count), percent(count, total)) for reason, count in reasons.most_common() if count]
    rows.append(("all without a source line", str(without), percent(without, total)))
    rows.append(("generated lines", str(total), ""))
    aims = (
        Aim("every line reaches a source line or says why not", f"{unknown} of {total} do not", not unknown),
        Aim("at most 15 % without a source line", percent(without, total), 0 < total and without <= SHARE * total),
    )
    return Report(f"Provenance over {programs} zoo programs", ("reason", "lines", "share"), tuple(rows), aims)


def generated_lines(compile: CompileData) -> Iterator[LineData]:
    """The lines of generated code: kernels, each function once, and wrappers."""
    for half in compile.halves:
        printed: set[str] = set()
        for kernel in half.kernels:
            if kernel.function not in printed:
                printed.add(kernel.function)
                yield from (line for line in kernel.source.lines if line.text.strip())
        if half.wrapper is not None:
            yield from (line for line in half.wrapper.lines if line.text.strip())


def unsourced(compile: CompileData) -> tuple[int, Counter[str]]:
    """The number of generated lines, and those that no source line caused, counted by the reason given.

    A line that reaches neither is counted under "no cause": a defect.
    """
    links = provenance(compile)
    total, reasons = 0, Counter[str]()
    for line in generated_lines(compile):
        total += 1
        causes = frozenset(line.origins).union(*(links.causes(origin) for origin in line.origins))
        if any(is_source_line(cause) for cause in causes):
            continue
        said = sorted(reason for cause in causes if (reason := synthetic_reason(cause)))
        reasons[said[0] if said else "no cause"] += 1
    return total, reasons
