"""`python -m benchmarks hostile`."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

import click
import msgspec

from benchmarks.hostile.attempt import Outcome, log, record, used
from benchmarks.hostile.mutate import grown, lists, mutated
from explorer.ir.record import VERSION, RecordData
from explorer.records.logs.read import read
from explorer.show.record import RecordError, decode
from explorer.show.view import report

CHECKOUT = Path(__file__).parent.parent.parent
LOGS = CHECKOUT / "tests" / "logs"
FIXTURES = CHECKOUT / "extension" / "test" / "fixtures"


def records() -> list[bytes]:
    """What records are made of: hand-made ones with every structure, and those of real logs."""
    made = [file.read_bytes() for file in sorted(FIXTURES.glob("*.explore.json"))]
    return [*made * 3, msgspec.json.encode(read(LOGS)[0])]


def logs() -> list[str]:
    return [gzip.decompress(each.read_bytes()).decode() for each in sorted(LOGS.glob("*.gz"))]


@click.command("hostile")
@click.option("--records", "wanted_records", default=200, help="Mutated records, loaded and shown in every way.")
@click.option("--logs", "wanted_logs", default=40, help="Mutated logs, imported and shown.")
@click.option("--grow", default=0, help="Bytes of a record with one long list, for each list; its page too.")
@click.option("--pages", default=0, help="Mutated records opened in a browser, every pane of them.")
@click.option("--seed", default="", help="By default the date.")
def hostile(wanted_records: int, wanted_logs: int, grow: int, pages: int, seed: str) -> None:
    """Make records and logs as a stranger might, and tell what raises, hangs, grows or runs; exits with 1 then."""
    seed = seed or time.strftime("%Y-%m-%d")
    click.echo(f"seed {seed}")
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own, theirs = records(), logs()
        if grow:
            kinds = [(*kind, chained) for kind in lists(json.loads(own[0])).items() for chained in (False, True)]
            long = (used(f"{name} {chained}", grown(own[0], path, grow, chained), own[0], folder)
                    for name, path, chained in kinds)  # fmt: skip
            bad += tell("records with one long list", long)
            if pages:
                made = {f"{name} {chained}": _page(grown(own[0], path, grow, chained)) for name, path, chained in kinds}
                shown = {name: page for name, page in made.items() if page is not None}
                bad += tell("pages with one long list", opened(shown, folder))
        bad += tell("records", (record(f"{seed} {n}", own, folder) for n in range(wanted_records)))
        bad += tell("logs", (log(f"{seed} {n}", theirs, folder) for n in range(wanted_logs)))
        if pages:
            bad += tell("pages", browsed(seed, pages, own, folder))
    raise SystemExit(1 if bad else 0)


def tell(what: str, outcomes: Iterable[Outcome]) -> int:
    """Prints the figures of all, and each kind of finding with the seeds that make it. Gives the number of findings."""
    found = list(outcomes)
    if not found:
        return 0
    wrong = [each for each in found if each.wrong]
    slowest, largest = max(found, key=lambda each: each.seconds), max(found, key=lambda each: each.megabytes)
    click.echo(
        f"{len(found)} {what}: {sum(bool(each.refused) for each in found)} refused, {len(wrong)} wrong; slowest "
        f"{slowest.seconds:.1f} s ({slowest.seed}), most memory {largest.megabytes:.0f} MB ({largest.seed})"
    )
    kinds: dict[str, list[str]] = {}
    for each in wrong:
        kinds.setdefault(each.wrong, []).append(each.seed)
    for kind, seeds in sorted(kinds.items(), key=lambda each: -len(each[1])):
        click.echo(f"{len(seeds):5} {kind}  ({', '.join(seeds[:4])})")
    return len(wrong)


def browsed(seed: str, count: int, bases: list[bytes], folder: Path) -> list[Outcome]:
    """Pages of mutated records, opened in a browser by extension/bench/hostile.test.ts. Half of them are of data that
    the kernel would have refused: a page's record may have been changed since."""
    if report.template() is None:
        raise RuntimeError("the viewer is not built: make extension")
    pages: dict[str, str] = {}
    n = 0
    while len(pages) < count:
        chosen = Random(f"{seed} page {n}")
        if (page := _page(mutated(chosen.choice(bases), chosen))) is not None:
            pages[f"{seed} page {n}"] = page
        n += 1
    return opened(pages, folder)


def opened(pages: Mapping[str, str], folder: Path) -> list[Outcome]:
    """What each page did in the browser."""
    names = list(pages)
    for stale in folder.glob("*.html"):
        stale.unlink()
    for n, page in enumerate(pages.values()):
        (folder / f"{n}.html").write_text(page, encoding="utf-8")
    results = folder / "pages.json"
    command = ["node", "test/run.mjs", "bench", "hostile"]
    environment = {**os.environ, "HOSTILE_PAGES": str(folder), "HOSTILE_RESULTS": str(results)}
    ran = subprocess.run(command, cwd=CHECKOUT / "extension", env=environment, capture_output=True, text=True)
    if not results.exists():
        raise RuntimeError(f"{' '.join(command)} failed:\n{ran.stdout}{ran.stderr}")
    return [
        Outcome(names[int(each["page"])], each["seconds"], each["megabytes"], each["wrong"], each["refused"])
        for each in json.loads(results.read_text())
    ]


def _page(encoded: bytes) -> str | None:
    """The page of a record, also of one that is not of the right form; None where it is no JSON."""
    try:
        return report.page(decode(encoded, "made"))
    except RecordError:
        pass
    try:
        tree = json.loads(encoded)
    except (ValueError, RecursionError):
        return None
    empty = msgspec.convert(
        {"version": VERSION, "title": "t", "engine": "", "target": "", "created": "", "environment": {}, "config": {},
         "sources": [], "compiles": [], "coverage": {}}, RecordData,
    )  # fmt: skip
    return report.page(empty).replace(_packed(msgspec.json.encode(empty)), _packed(json.dumps(tree).encode()))


def _packed(encoded: bytes) -> str:
    """As a page holds its record."""
    return base64.b64encode(gzip.compress(encoded, mtime=0)).decode()
