"""How fast the viewer is in a browser: from Run to the first stage, highlighting, a graph of 10,000 nodes; and what it
weighs. Needs Node.js and Chromium, and the viewer built."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks.report import Aim, Report, Selection
from explorer.core.text import amount
from explorer.ir.record import VERSION, CompileData, CoverageData, GraphData, NodeData, RecordData, StageData
from explorer.records.environment import describe
from explorer.show.demo import CNN, GPT2, cases, explore_case
from explorer.show.view import report

CHECKOUT = Path(__file__).parent.parent
NODES = 10_000
LIMIT_S = 300


def many(nodes: int) -> RecordData:
    """A record of one graph: a chain with connections over short and long ways, in modules of uneven sizes."""
    chance = random.Random(0)
    made: list[NodeData] = []
    block = part = 0
    for n in range(nodes):
        if chance.random() < 0.002:
            block, part = block + 1, 0
        elif chance.random() < 0.02:
            part += 1
        near = f"aten.node_{max(0, n - chance.randint(2, 40))}"
        far = f"aten.node_{chance.randrange(n)}" if n and chance.random() < 0.01 else near
        inputs = tuple(dict.fromkeys((f"aten.node_{n - 1}", near, far))) if n else ()
        target = chance.choice(("aten.mul", "aten.add", "aten.mm", "aten.sum", "aten.view", "aten.exp"))
        module = f"blocks.{block}.part{part}"
        id, type = f"aten.node_{n}", "f32[64, 64]"
        made.append(NodeData(id, f"node_{n}", "call", target, type, inputs, (), module, bytes=16384))
    graph = GraphData("many", tuple(made), (made[-1].id,))
    stage = StageData("f0/0", "trace", 0.0, 1.0, 0, graph=graph)
    compile = CompileData("f0", "many", 0.0, 1.0, (stage,))
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return RecordData(VERSION, "many", "explorer", "cpu", created, describe(), {}, (), (compile,), CoverageData())


def run(selection: Selection) -> Report:
    built = report.template()
    if built is None:
        raise RuntimeError("the viewer is not built: make extension")
    case = GPT2[-1] if GPT2[-1] in cases() else CNN[-1]
    selection.of(case.slug)
    records = {"training": explore_case(case, selection.tell).record(), "many": many(NODES)}
    with tempfile.TemporaryDirectory() as folder:
        for name, record in records.items():
            Path(folder, f"{name}.html").write_text(report.page(record), encoding="utf-8")
            Path(folder, f"{name}.explore.json").write_bytes(msgspec.json.encode(record))
        files = {name: Path(folder, f"{name.lower()}.json") for name in ("FIGURES", "LAB_FIGURES", "STREAM_FIGURES")}
        environment = {**os.environ, "PAGES": folder, **{name: str(file) for name, file in files.items()}}
        command = ["node", "test/run.mjs", "bench"]
        ran = subprocess.run(
            command, cwd=CHECKOUT / "extension", env=environment, timeout=LIMIT_S, capture_output=True, text=True
        )
        if ran.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{ran.stdout}{ran.stderr}")
        found = {name: value for file in files.values() for name, value in json.loads(file.read_text()).items()}
    # remoteEntry is module federation's own; the viewer is the largest of the others, and comes with the first record.
    sizes = [file.stat().st_size for file in built.parent.glob("*.js") if not file.name.startswith("remoteEntry")]
    own, start = sum(sizes), sum(sizes) - max(sizes)
    page = built.stat().st_size

    def ms(name: str) -> str:
        return f"{found[name]:.0f} ms"

    rows = (
        ("from Run to the first stage shown (pointwise, cold)", ms("first_stage")),
        ("from Run to all stages and timing", ms("all_stages")),
        (f"hover on {case.title}: chain lit after", f"{ms('hover_median')}, at worst {ms('hover_worst')}"),
        (f"graph of {NODES:,} nodes opens in", ms("graph_opens")),
        ("a frame of a scripted pan over it", f"{ms('pan_median')}, at worst {ms('pan_worst')}"),
        ("search opens the path to one of its nodes in", ms("search")),
        (f"the longest frame while {case.title} streams in", ms("stream_worst")),
        ("the longest frame when its whole record comes", ms("stream_whole")),
        ("the extension's own code", amount(own, "B")),
        ("what of it JupyterLab loads when it starts", amount(start, "B")),
        ("a report beside its record", amount(page, "B")),
    )
    aims = (
        Aim("first stage within 1 s", ms("first_stage"), found["first_stage"] < 1000),
        Aim("all stages and timing within 6 s", ms("all_stages"), found["all_stages"] < 6000),
        Aim("hover under 50 ms", ms("hover_median"), found["hover_median"] < 50),
        Aim(f"{NODES:,} nodes open in under 2 s", ms("graph_opens"), found["graph_opens"] < 2000),
        Aim("no frame of the pan over 50 ms", ms("pan_worst"), found["pan_worst"] <= 50),
        Aim("no frame over 50 ms while stages stream in", ms("stream_worst"), found["stream_worst"] <= 50.5),
        Aim("the extension's own code at most 364 kB", amount(own, "B"), own <= 364e3),
        Aim("a report under 1 MB beside its record", amount(page, "B"), page < 1e6),
    )
    return Report("The viewer in a browser", ("", ""), rows, aims)
