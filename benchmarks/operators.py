"""Every operator of torch's own list beside eager, in every dtype: values, strides, memory, gradients.

Workers in processes of their own take an operator in a dtype at a time; one that crashes or hangs is a row.
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

from benchmarks.operator_samples import operators, supported
from benchmarks.operators_child import Row
from benchmarks.report import Aim, Report, Selection, percent

SAMPLES, VARIANTS = 3, 3
SILENCE = 180
"""Seconds without a word after which a worker is ended."""
JOBS_OF_A_WORKER = 60
"""After which another takes its place: what was compiled is never unloaded."""
COUNTED = ("right", "fallback", "wrong", "error", "no error", "too slow", "crash")
WANTED = 0.995
TABLE = Path(__file__).parent.parent / "docs" / "operators.md"


@dataclass(frozen=True)
class Job:
    op: str
    dtype: str
    seed: int

    def line(self, samples: int, variants: int) -> str:
        return json.dumps({**vars(self), "samples": samples, "variants": variants})


@dataclass(frozen=True)
class Done:
    job: Job
    row: Row

    def told(self) -> tuple[str, ...]:
        return self.job.op, self.job.dtype, self.row.variant, f"{self.row.outcome} {self.row.detail}"


def run(selection: Selection) -> Report:
    seed = selection.seed if selection.seed is not None else datetime.date.today().toordinal()
    chosen = jobs(seed, selection)
    ends = time.monotonic() + 60 * selection.minutes if selection.minutes else None
    found = list(beside_eager(chosen, ends, selection))
    report = table(found, seed, len(chosen))
    if not (selection.ops or selection.dtypes or selection.part):
        TABLE.write_text(page(found, report))
    return report


def jobs(seed: int, selection: Selection) -> list[Job]:
    """Operators in dtypes, in an order drawn by `seed`."""
    made = [
        Job(name, str(dtype).removeprefix("torch."), seed)
        for name, op in operators().items()
        for dtype in supported(op)
        if selection.part in name and (not selection.ops or name in selection.ops)
    ]
    made = [job for job in made if not selection.dtypes or job.dtype in selection.dtypes]
    random.Random(seed).shuffle(made)
    return made


def beside_eager(chosen: Sequence[Job], ends: float | None, selection: Selection) -> Iterator[Done]:
    """What came of each job, as it comes; jobs not begun when the time `ends` are left out."""
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in chosen:
        waiting.put(job)
    found: queue.SimpleQueue[Done | None] = queue.SimpleQueue()
    workers = [threading.Thread(target=work, args=(waiting, found, ends), daemon=True) for _ in range(processes())]
    for worker in workers:
        worker.start()
    left, seen = len(workers), Counter[str]()
    while left:
        done = found.get()
        if done is None:
            left -= 1
            continue
        seen[done.row.outcome] += 1
        if done.row.outcome in COUNTED[2:]:
            print(*done.told(), flush=True)
        selection.tell(", ".join(f"{outcome} {count}" for outcome, count in seen.most_common()))
        yield done


def processes() -> int:
    return max(1, (os.cpu_count() or 1) // 2)


def work(waiting: queue.SimpleQueue[Job], found: queue.SimpleQueue[Done | None], ends: float | None) -> None:
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
            for row in one(child, job):
                found.put(Done(job, row))
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


def one(child: subprocess.Popen[str], job: Job) -> Iterator[Row]:
    """The rows of a job; the last is that of a crash, where the worker ends or falls silent."""
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(job.line(SAMPLES, VARIANTS) + "\n")
    child.stdin.flush()
    while True:
        watch = threading.Timer(SILENCE, child.kill)
        watch.start()
        line = child.stdout.readline()
        watch.cancel()
        if not line:
            yield Row("", "crash", detail=f"the process ended with {child.wait()}")
            return
        if line == "\n":
            return
        yield Row(**json.loads(line))


# What is told.


def table(found: Sequence[Done], seed: int, planned: int) -> Report:
    rows = []
    for dtype in dict.fromkeys(done.job.dtype for done in found):
        rows.append((dtype, *line([done.row for done in found if done.job.dtype == dtype])))
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
    tried = len({done.job for done in found})
    notes = (
        f"seed {seed}: {tried} of {planned} pairs of an operator and a dtype",
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
        "Written by `python -m benchmarks operators`: the operators of torch's own list "
        "(`torch.testing._internal.common_methods_invocations.op_db`), in every dtype that eager takes on a CPU, "
        "with torch's samples and variants of them (empty, 0-d, other strides, storage offsets, conjugate and negative "
        "bits, borders of the dtype, in place, `out=`), compared with eager in values, dtypes, strides, shared memory, "
        "inputs after the call and gradients.",
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
    bad = sorted({done.told() for done in found if done.row.outcome in COUNTED[2:]})
    lines += markdown(("operator", "dtype", "variant", "what"), bad) if bad else ["Nothing."]
    lines += ["", "## By operator", "", "Those that are right, and where their ATen calls run.", ""]
    by_op = {name: [d.row for d in found if d.job.op == name] for name in sorted({d.job.op for d in found})}
    each = [(name, *line(rows)) for name, rows in by_op.items()]
    lines += markdown(("operator", *report.head[1:]), each)
    return "\n".join(lines) + "\n"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, *rows)]
    return [cells[0], "|" + " --- |" * len(head), *cells[1:]]
