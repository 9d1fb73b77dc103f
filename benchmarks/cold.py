"""Figure 2: from a call to compiled code, in a new process with empty caches, after imports."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from benchmarks.report import Aim, Report, Selection
from explorer.core.text import duration

ROOT = Path(__file__).parent.parent
REPEATS = 3


def run(selection: Selection) -> Report:
    torch_alone = [seconds_to_import("torch") for _ in range(REPEATS)]
    with_explorer = [seconds_to_import("explorer") for _ in range(REPEATS)]
    selection.tell("explorer, cold")
    ours = [child("explorer") for _ in range(REPEATS)]
    selection.tell("stock, cold")
    stock = child("stock")["seconds"]
    eager = child("eager")["seconds"]
    whole = statistics.median(each["seconds"] for each in ours)
    before = statistics.median(each["before_codegen"] for each in ours)
    importing, torch_import = statistics.median(with_explorer), statistics.median(torch_alone)
    rows = (
        ("call to complete record with compiled code", duration(whole), duration(stock), duration(eager)),
        ("call to the stages before code generation", duration(before), "", ""),
        ("import", duration(importing), duration(torch_import) + " (torch)", ""),
    )
    aims = (
        Aim("at most 3 s", duration(whole), whole <= 3),
        Aim("at least 8 times quicker than stock", f"{stock / whole:.1f} times", stock >= 8 * whole),
        Aim("stages before code generation 0.3 s after the call", duration(before), before <= 0.3),
        Aim(
            "import at most torch's own and 3 s",
            f"{duration(importing)} beside torch's {duration(torch_import)}",
            importing <= torch_import + 3,
        ),
    )
    note = f"ours: median of {REPEATS} new processes; stock: one; a pointwise and reduction function on 1024 x 1024"
    return Report("Cold compile", ("", "explorer", "stock", "eager"), rows, aims, (note,))


def child(who: str) -> dict[str, float]:
    return in_new_process("benchmarks.cold_child", who)


def in_new_process(module: str, *arguments: str, caches: str = "") -> dict[str, float]:
    """What a module's `main` measured and printed, in a new process with empty caches or those in a folder."""
    with nullcontext(caches) if caches else tempfile.TemporaryDirectory() as caches:
        environment = os.environ | {
            "XDG_CACHE_HOME": caches,
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
            "TRITON_CACHE_DIR": f"{caches}/triton",
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process compiles the package's sources again
        command = [sys.executable, "-m", module, *arguments]
        printed = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(printed.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def seconds_to_import(module: str) -> float:
    command = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    printed = subprocess.run([sys.executable, "-c", command], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return float(printed.stdout)
