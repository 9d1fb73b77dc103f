"""The table of capture methods: each of twelve programs captured in every way and run on other inputs."""

from __future__ import annotations

from pathlib import Path

from benchmarks.capture_programs import PROGRAMS
from benchmarks.report import Aim, Report, Selection
from explorer.records.data.methods import MethodData
from explorer.records.methods.compare import METHODS
from explorer.show.comparison import compare
from explorer.show.view.methods import SIGNS

DOCUMENT = Path(__file__).parent.parent / "docs" / "methods.md"

HEAD = f"""# Ways to capture a graph, compared by running them

Made by `python -m benchmarks methods`. Each program of `benchmarks/capture_programs.py` was captured on one
call and then run on others and compared with eager: {SIGNS["right"]} the same values, dtypes, mutations (of
arguments, and of lists, dicts and sets outside) or exception; {SIGNS["wrong"]} another result and no error;
{SIGNS["refused"]} an error, while capturing or when run. "recompiled" where a method noticed that its
program does not hold for the input.
`explorer.compare(fn)(*args)` makes such a table of your own program.
"""


def run(selection: Selection) -> Report:
    names = [method.name for method in METHODS]
    rows, unlike, sections = [], [], []
    for program in PROGRAMS:
        if not selection.of(program.name):
            continue
        fn, args = program.make()
        done = compare(fn, others=program.others(), name=program.name)(*args)
        cells = {method.name: _cell(method) for method in done.data.methods}
        rows.append((program.name, *(cells[name] for name in names)))
        sections.append(f"## {program.name}: {program.about}\n\n{done.markdown()}\n")
        for name in ("explorer.compile", "eager"):
            if cells[name].strip(SIGNS["right"]):
                unlike.append(f"{program.name} ({name}: {cells[name]})")
    if len(rows) == len(PROGRAMS):
        table = ["| program | " + " | ".join(names) + " |", "|" + " --- |" * (len(names) + 1)]
        table += ["| " + " | ".join(row) + " |" for row in rows]
        note = "One sign for each input, in the order of the program's own table below.\n"
        DOCUMENT.write_text("\n".join([HEAD, note, *table, "", *sections]))
    aims = (Aim("ours is right on every input", ", ".join(unlike) or f"all {len(rows)} programs", not unlike),)
    return Report("Capture methods on other inputs", ("program", *names), tuple(rows), aims)


def _cell(method: MethodData) -> str:
    if method.missing:
        return "not installed"
    return "".join(SIGNS[verdict.answer] for verdict in method.verdicts) or f"{SIGNS['refused']} capture"
