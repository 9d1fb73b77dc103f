"""What is done with a record or a log of a stranger's: all that commands and pages do with one. What it must not do:
raise anything but the errors that say what is wrong with the file, take long, take much memory."""

from __future__ import annotations

import resource
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.fuzz.program import at_most
from benchmarks.hostile.mutate import mutated, mutated_log
from explorer import Ranks
from explorer.core.untrusted import visible
from explorer.records.comparison import Compared
from explorer.records.logs.read import LogError, read
from explorer.records.session import Record, RecordError
from explorer.show.view import html

SECONDS = 10
MEGABYTES = 500


@dataclass(frozen=True)
class Outcome:
    """`wrong` is "" where all is well; `refused` what the error said where the file was refused."""

    seed: str
    seconds: float
    megabytes: float
    wrong: str = ""
    refused: str = ""


def record(seed: str, bases: list[bytes], folder: Path) -> Outcome:
    chosen = Random(seed)
    base = chosen.choice(bases)
    file, plain = folder / "hostile.explore.json", folder / "plain.explore.json"
    file.write_bytes(mutated(base, chosen))
    plain.write_bytes(base)

    def use() -> None:
        Compared.is_in(file)
        found = Record.load(file)
        _shown(found, folder)
        found.diff(Record.load(plain)).text()
        Ranks.load(plain, file).text()

    return _tried(seed, use)


def log(seed: str, bases: list[str], folder: Path) -> Outcome:
    chosen = Random(seed)
    file = folder / "hostile.log"
    file.write_bytes(mutated_log(chosen.choice(bases), chosen))

    def use() -> None:
        made = [Record(each) for each in read(file)]
        for each in made:
            _shown(each, folder)
        Ranks.of(made).text()

    return _tried(seed, use)


def _shown(found: Record, folder: Path) -> None:
    assert visible(repr(found)) == repr(found), "a control character"
    for each in (found.stages, found.graphs, found.guards, found.breaks, found.schedule, found.kernels):
        repr(each)
    found.text()
    html.page(found.data)
    found._repr_mimebundle_()
    found.to_html(folder / "page.html")
    again = Record.load(found.save(folder / "again.explore.json.gz"))
    assert again.data == found.data, "another record after saving and loading"


def _tried(seed: str, use: Callable[[], None]) -> Outcome:
    before, started = _megabytes(), time.perf_counter()
    wrong = refused = ""
    try:
        with at_most(SECONDS):
            use()
    except (RecordError, LogError) as error:
        refused = str(error)
        wrong = "a refusal of many lines" if "\n" in refused or len(refused) > 3000 else ""
    except BaseException as error:  # whatever it is, it is a finding
        last = traceback.extract_tb(error.__traceback__)[-1]
        wrong = f"{type(error).__name__}: {str(error)[:200]} ({last.filename.rpartition('/')[2]}:{last.lineno})"
    grown = _megabytes() - before
    if grown > MEGABYTES and not wrong:
        wrong = f"it took {grown:.0f} MB"
    return Outcome(seed, time.perf_counter() - started, grown, wrong, refused)


def _megabytes() -> float:
    """The most that this process had at a time, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
