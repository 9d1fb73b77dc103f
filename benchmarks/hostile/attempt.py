"""What is done with a record or a log of a stranger's: all that commands and pages do with one. What it must not do:
raise anything but the errors that say what is wrong with the file, take long, take much memory."""

from __future__ import annotations

import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.fuzz.program import TooLong, at_most
from benchmarks.hostile.mutate import mutated, mutated_log
from explorer import Ranks
from explorer.core.files import visible
from explorer.records.logs.read import LogError, read
from explorer.show.comparison import Compared
from explorer.show.record import Record, RecordError
from explorer.show.view import html
from explorer.show.view.queries import WAYS, Queried
from explorer.show.view.steps import Steps

SECONDS = 10
MEGABYTES = 500


@dataclass(frozen=True)
class Outcome:
    """`wrong` is "" where all is well; `refused` what the error said where the file was refused. `seconds` are of the
    processor, for a file in this process."""

    seed: str
    seconds: float
    megabytes: float
    wrong: str = ""
    refused: str = ""


def record(seed: str, bases: list[bytes], folder: Path) -> Outcome:
    chosen = Random(seed)
    base = chosen.choice(bases)
    return used(seed, mutated(base, chosen), base, folder)


def used(seed: str, made: bytes, base: bytes, folder: Path) -> Outcome:
    """All that is done with a record; `base` is one to compare it with."""
    file, plain = folder / "hostile.explore.json", folder / "plain.explore.json"
    file.write_bytes(made)
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
    for name, each in vars(Record).items():
        if isinstance(each, property):
            repr(getattr(found, name))
    for way in WAYS:
        for each in getattr(found, way):
            _walked(each)
    found.text()
    html.page(found.data)
    found._repr_mimebundle_()
    found.to_html(folder / "page.html")
    again = Record.load(found.save(folder / "again.explore.json.gz"))
    assert again.data == found.data, "another record after saving and loading"


def _walked(walk: Queried[Any, Any]) -> None:
    """Every query and every move, and what stands at the ends and in the middle."""
    places = sorted({0, len(walk) // 2, len(walk) - 1})
    for key in walk.keys:
        walk.find(f"{key}:")
        walk.find(f"{key}{'>' if key in walk.numbers else '='}1")
    for at in places:
        walk.line(at), walk.text(at)
        for to, _ in walk.letters.values():
            for back in (False, True):
                walk.move(at, to, back)
    if isinstance(walk, Steps):
        walk.diff(walk)


def _tried(seed: str, use: Callable[[], None]) -> Outcome:
    before, started = _megabytes(), time.process_time()
    wrong = refused = ""
    try:
        with bounded():
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
    return Outcome(seed, time.process_time() - started, grown, wrong, refused)


@contextmanager
def bounded() -> Iterator[None]:
    """Ends what takes SECONDS of processor time (ten times as long by the clock, for what waits), or asks for far more
    than MEGABYTES. Raises TooLong or MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 4_000_000 * MEGABYTES, hard))
    try:
        with at_most(10 * SECONDS):
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _too_long(number: int, frame: Any) -> None:
    raise TooLong(f"more than {SECONDS} s of processor time")


def _megabytes() -> float:
    """The most that this process had at a time, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
