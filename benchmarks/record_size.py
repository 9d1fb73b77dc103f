"""Figure 6: the size of a record of GPT-2's training step, and how fast it loads."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.report import Aim, Report, Selection
from explorer.core.text import amount, duration
from explorer.show.demo import CNN, GPT2, cases, explore_case
from explorer.show.record import Record

REPEATS = 5


def run(selection: Selection) -> Report:
    case = GPT2[-1] if GPT2[-1] in cases() else CNN[-1]
    selection.of(case.slug)
    record = Record(explore_case(case, selection.tell).record())
    with tempfile.TemporaryDirectory() as folder:
        packed = record.save(Path(folder) / "r.explore.json.gz")
        plain = record.save(Path(folder) / "r.explore.json").stat().st_size
        page = record.to_html(Path(folder) / "r.html").stat().st_size
        size = packed.stat().st_size
        loading = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            loaded = Record.load(packed)
            loading.append(time.perf_counter() - started)
        assert loaded.data == record.data
    seconds = statistics.median(loading)
    rows = (
        ("compressed", amount(size, "B")),
        ("as JSON", amount(plain, "B")),
        ("its page", amount(page, "B")),
        ("loads in", duration(seconds)),
    )
    aims = (
        Aim("under 5 MB compressed", amount(size, "B"), size < 5e6),
        Aim("loads in under a second", duration(seconds), seconds < 1),
        Aim("its page under 6 MB", amount(page, "B"), page < 6e6),
    )
    return Report(f"Record of {case.title}", ("", ""), rows, aims)
