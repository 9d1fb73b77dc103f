"""Public models, tiny and with random weights: captured as whole as by Dynamo, and equal to eager? Figure 3."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from benchmarks.report import Aim, Report, Selection

SECONDS = 900
"""By the clock for one model, on a busy machine; the child bounds its processor time."""


def run(selection: Selection) -> Report:
    number, of = selection.shard
    chosen = [name for name in names()[number - 1 :: of] if selection.part in name]
    found: dict[str, list[dict[str, Any]]] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        waited = {pool.submit(rows, name): name for name in chosen}
        for each in as_completed(waited):
            found[waited[each]] = each.result()
            selection.tell(f"{len(found)} of {len(chosen)}")
    lines, aims = [], []
    for mode in ("inference", "training"):
        told = {name: row for name, all in sorted(found.items()) for row in all if row.get("mode") == mode}
        whole = {engine: sum(row["whole"][engine] for row in told.values()) for engine in ("ours", "Dynamo")}
        shallower = [name for name, row in told.items() if is_shallower(row)]
        for name, row in told.items():
            if name in shallower or row["wrong"]:
                ours, stock = (f"{row['graphs'][e]}, {row['operators'][e]}" for e in ("ours", "Dynamo"))
                wrong = "; ".join(f"{engine}: {how}" for engine, how in row["wrong"].items())
                lines.append((f"{name}, {mode}", ours, stock, wrong, row["why"].get("ours", "")))
        bad = [name for name, row in told.items() if row["wrong"] and "Dynamo" not in row["wrong"]]
        ran = f"{whole['ours']} of {len(told)} in one graph, Dynamo {whole['Dynamo']}"
        named = f"; not as whole: {', '.join(shallower)}" if shallower else ""
        aims.append(Aim(f"{mode}: as whole as Dynamo's", ran + named, not shallower))
        aims.append(Aim(f"{mode}: equal to eager where Dynamo is", ", ".join(bad) or "so", not bad))
    ended = [name for name, all in found.items() if any("ended" in row for row in all)]
    dropped = sum(1 for all in found.values() if not any("mode" in row for row in all)) - len(ended)
    notes = (f"{dropped} of {len(found)} models are not run by eager with the inputs made here",)
    if ended:
        notes += (f"ended by a signal or the time limit: {', '.join(ended)}",)
    head = ("model", "graphs, operators in them", "Dynamo's", "unlike eager", "why ours is not whole")
    return Report("Public models, tiny, with random weights", head, tuple(lines), tuple(aims), notes)


def is_shallower(row: dict[str, Any]) -> bool:
    """Whether Dynamo takes more of the model: whole, or more operators, or as many in fewer graphs."""
    ours, stock = ((row["whole"][e], row["operators"][e], -row["graphs"][e]) for e in ("ours", "Dynamo"))
    return ours < stock and not ours[0]


def names() -> list[str]:
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    found = sorted(MODEL_MAPPING_NAMES)
    if importlib.util.find_spec("torchvision"):
        from torchvision.models import list_models

        found += [f"torchvision.{each}" for each in list_models() if not each.startswith("quantized")][::3]
    return found


def rows(name: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.models_child", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return [{"ended": "time limit"}]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode < 0:
        return [*found, {"ended": done.returncode}]
    return found
