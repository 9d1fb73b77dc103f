"""Every operator of torch's own list beside eager, in every dtype: values, strides, memory, gradients.

Workers in processes of their own take an operator at a time; one that crashes or hangs is a row. What they
find goes to a file, line by line: what is in it is not run again, and the table is made from all of it. So a run can be
broken off and gone on with, and shards of it can run on several machines, their files put one after the other.
"""

from __future__ import annotations

import datetime
import json
import os
import queue
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.operator_samples import DTYPES, operators, supported
from benchmarks.operators_child import Row
from benchmarks.report import Aim, Report, Selection, percent
from explorer.compiler.runtime.cache import default_folder, private

SILENCE = 600
"""Seconds without a word after which a worker is ended."""
JOBS_OF_A_WORKER = 60
"""After which another takes its place: what was compiled is never unloaded."""
BAD = ("wrong", "error", "no error", "too slow", "crash")
COUNTED = ("right", "fallback", *BAD)
FLAGS = ("-O0", "-march=native")
"""Of the C++ compiler, whose optimizations take longer than all else here."""
WANTED = 0.995
TABLE = Path(__file__).parent.parent / "docs" / "operators.md"


@dataclass(frozen=True)
class Job:
    """An operator in dtypes; of each so many `samples` of torch's and `variants` of them, drawn by `seed`."""

    op: str
    dtypes: tuple[str, ...]
    seed: int
    samples: int
    variants: int


@dataclass(frozen=True)
class Done:
    job: Job
    row: Row

    def told(self) -> tuple[str, ...]:
        return self.job.op, self.row.dtype, self.row.variant, f"{self.row.outcome} {self.row.detail}"


def run(selection: Selection) -> Report:
    seed = selection.seed if selection.seed is not None else datetime.date.today().toordinal()
    file = selection.results or private(default_folder()) / f"operators-{seed}.jsonl"
    ends = time.monotonic() + 60 * selection.minutes if selection.minutes is not None else None
    known = read(file)
    bad = {job for job, rows in known.items() if any(row.outcome in BAD for row in rows)}
    chosen = [job for job in jobs(seed, selection) if job not in known or selection.again and job in bad]
    with file.open("a") as kept:
        for job, rows in beside_eager(chosen, ends, selection):
            kept.write(json.dumps({**vars(job), "rows": [vars(row) for row in rows]}) + "\n")
            kept.flush()
    found = [Done(job, row) for job, rows in read(file).items() if wanted(job.op, selection) for row in rows]
    report = table(found)
    if not (selection.ops or selection.dtypes or selection.part):
        TABLE.write_text(page(found, report))
    return report


def read(file: Path) -> dict[Job, list[Row]]:
    """What a file holds: of a job that was run twice, what came last. A last line that is not whole is left out."""
    found = {}
    for line in file.read_text().splitlines(keepends=True) if file.exists() else ():
        if line.endswith("\n"):
            facts = json.loads(line)
            rows = [Row(**row) for row in facts.pop("rows")]
            found[Job(**{**facts, "dtypes": tuple(facts["dtypes"])})] = rows
    return found


def jobs(seed: int, selection: Selection) -> list[Job]:
    """The operators of the shard, in an order drawn by `seed`."""
    names = list(operators())
    random.Random(seed).shuffle(names)
    number, of = selection.shard
    made = [
        Job(name, dtypes_of(name, selection), seed, selection.samples, selection.variants)
        for name in names[number - 1 :: of]
        if wanted(name, selection)
    ]
    return [job for job in made if job.dtypes]


def wanted(name: str, selection: Selection) -> bool:
    return selection.part in name and (not selection.ops or name in selection.ops)


def dtypes_of(name: str, selection: Selection) -> tuple[str, ...]:
    names = map(name_of, supported(operators()[name]))
    return tuple(dtype for dtype in names if not selection.dtypes or dtype in selection.dtypes)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def beside_eager(
    chosen: Sequence[Job], ends: float | None, selection: Selection
) -> Iterator[tuple[Job, Sequence[Row]]]:
    """What came of each job, as it comes; jobs not begun when the time `ends` are left out."""
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in chosen:
        waiting.put(job)
    found: queue.SimpleQueue[tuple[Job, Sequence[Row]] | None] = queue.SimpleQueue()
    workers = [threading.Thread(target=work, args=(waiting, found, ends), daemon=True) for _ in range(processes())]
    for worker in workers:
        worker.start()
    left, seen = len(workers), Counter[str]()
    while left:
        done = found.get()
        if done is None:
            left -= 1
            continue
        job, rows = done
        for row in rows:
            seen[row.outcome] += 1
            if row.outcome in BAD:
                print(*Done(job, row).told(), flush=True)
        counted = ", ".join(f"{outcome} {count}" for outcome, count in seen.most_common())
        selection.tell(f"{waiting.qsize()} to go: {counted}")
        yield job, rows


def processes() -> int:
    return max(1, (os.cpu_count() or 1) // 2)


def work(
    waiting: queue.SimpleQueue[Job], found: queue.SimpleQueue[tuple[Job, Sequence[Row]] | None], ends: float | None
) -> None:
    child: subprocess.Popen[str] | None = None
    taken = 0
    try:
        while ends is None or time.monotonic() < ends:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            if child is None or child.poll() is not None or taken % JOBS_OF_A_WORKER == 0:
                stop(child)
                child = start()
            taken += 1
            found.put((job, tuple(one(child, job))))
    finally:
        stop(child)
        found.put(None)


def start() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.operators_child"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
    )


def stop(child: subprocess.Popen[str] | None) -> None:
    if child is not None:
        child.kill()
        child.wait()


def one(child: subprocess.Popen[str], job: Job, only_eager: bool = False) -> Iterator[Row]:
    """The rows of a job; the last is that of a crash, where the worker ends or falls silent."""
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(json.dumps({**vars(job), "flags": FLAGS, "only_eager": only_eager}) + "\n")
    child.stdin.flush()
    while True:
        watch = threading.Timer(SILENCE, child.kill)
        watch.start()
        line = child.stdout.readline()
        watch.cancel()
        if not line:
            outcome = "crash" if only_eager or not eager_crashes(job) else "eager crashes"
            yield Row("", "", outcome, detail=f"the process ended with {child.wait()}")
            return
        if line == "\n":
            return
        yield Row(**json.loads(line))


def eager_crashes(job: Job) -> bool:
    """Whether a worker that only runs eager ends as well."""
    child = start()
    try:
        return any(row.outcome == "crash" for row in one(child, job, only_eager=True))
    finally:
        stop(child)


# What is told.


def table(found: Sequence[Done]) -> Report:
    rows = []
    for dtype in (name for name in map(name_of, DTYPES) if any(done.row.dtype == name for done in found)):
        rows.append((dtype, *line([done.row for done in found if done.row.dtype == dtype])))
    every = [done.row for done in found]
    rows.append(("all", *line(every)))
    counts = Counter(row.outcome for row in every)
    counted = sum(counts[outcome] for outcome in COUNTED)
    right = counts["right"] + counts["fallback"]
    wrong = counts["wrong"] + counts["no error"] + counts["crash"]
    aims = (
        Aim(f"right on {WANTED:.1%} of what eager answers", percent(right, counted), right >= WANTED * counted),
        Aim("nothing wrong, no crash", str(wrong), not wrong),
    )
    tried = len({(done.job.op, done.row.dtype) for done in found if done.row.dtype})
    there = sum(len(supported(op)) for op in operators().values())
    draws = Counter((job.seed, job.samples, job.variants) for job in {done.job for done in found})
    notes = (
        f"{tried} of {there} pairs of an operator and a dtype, torch {torch.__version__}",
        *(f"{count} operators with --seed {s} --samples {n} --variants {v}" for (s, n, v), count in draws.items()),
        "not counted: " + ", ".join(f"{count} {what}" for what, count in counts.items() if what not in COUNTED),
    )
    head = ("dtype", "samples", "right", "run eagerly", "wrong", "error", "generated", "library", "mixed", "views")
    return Report("Operators", head, tuple(rows), aims, notes)


def line(rows: Sequence[Row]) -> tuple[str, ...]:
    counts = Counter(row.outcome for row in rows)
    how = Counter(row.how for row in rows if row.outcome == "right")
    return tuple(
        str(count)
        for count in (
            sum(counts[outcome] for outcome in COUNTED),
            counts["right"] + counts["fallback"],
            counts["fallback"],
            counts["wrong"] + counts["no error"] + counts["crash"],
            counts["error"] + counts["too slow"],
            *(how[kind] for kind in ("generated", "library", "mixed", "neither")),
        )
    )


def page(found: Sequence[Done], report: Report) -> str:
    """The table as a page of the docs: by dtype, and what is not right or not compiled by operator."""
    lines = [
        "# Operators",
        "",
        "Written by `python -m benchmarks operators`, with the version of torch below, and not again for each change "
        "of the compiler: the operators of torch's own list "
        "(`torch.testing._internal.common_methods_invocations.op_db`), in every dtype that eager takes on a CPU, "
        "with torch's samples and variants of them (empty, 0-d, other strides, storage offsets, conjugate and negative "
        "bits, borders of the dtype, in place, `out=`), compared with eager in values, dtypes, strides, shared memory, "
        "inputs after the call and gradients. Samples are compiled up to twelve at a time, and alone where that is not "
        "right, so that the columns on the right may tell of a group; C++ is built without optimization here. A run "
        "can be made in several stretches, the compiler changing in between; `--again` runs once more what was not "
        "right.",
        "",
        *(f"{note}." for note in report.notes),
        "",
        *markdown(report.head, report.rows),
        "",
        *(f"- {aim.what}: {aim.measured}" for aim in report.aims),
        "",
        "## Not right",
        "",
    ]
    bad = sorted({done.told() for done in found if done.row.outcome in BAD})
    lines += markdown(("operator", "dtype", "variant", "what"), bad) if bad else ["Nothing."]
    lines += ["", "## By operator", "", "Those that are right, and where their ATen calls run.", ""]
    by_op = {name: [d.row for d in found if d.job.op == name] for name in sorted({d.job.op for d in found})}
    each = [(name, *line(rows)) for name, rows in by_op.items()]
    lines += markdown(("operator", *report.head[1:]), each)
    return "\n".join(lines) + "\n"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, *rows)]
    return [cells[0], "|" + " --- |" * len(head), *cells[1:]]
