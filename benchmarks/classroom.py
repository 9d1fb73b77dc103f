"""A class at work on this machine: its memory, how long people wait, and whether any check is lost or wrong.

Ten kernels, and then thirty, run the workshop's first cells at once, as after "now run it". Then all of them check a
puzzle at once: two thirds of the answers are right, the others wrong. Memory is what these processes hold of their own,
and their share of what they have in common; where there is none for more kernels, there are fewer. The last row is
thirty checks at once without kernels, which takes less. `-k 10` is ten people alone, `-k checks` the last row.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from jupyter_client.manager import KernelManager

from benchmarks.report import Aim, Report, Selection
from explorer.course import PUZZLES
from explorer.course.build import SOURCES, notebook
from explorer.course.check import CheckResult
from explorer.course.process import Server, check
from explorer.ir.record import MIME

T = TypeVar("T")
PEOPLE = (10, 30)
CHECKS = 30
RESERVED = 4 << 30
"""Bytes of memory that must stay free for others: no more kernels are started then."""
LATER = 200 << 20
"""Bytes that a kernel takes later on: pages that it and the process that checks no longer share (50 MB each), a check
(50 MB), and the C++ compiler that this starts (30 MB)."""
ASKED = ("breaks-2", "guards-2", "decompose-1")
STARTUP = Path(__file__).parent.parent / "binder" / "startup.py"
LOADED = "from explorer.course import check\ncheck('breaks-3', '')"
PATIENCE = 600.0


@dataclass
class Learner:
    """One kernel, and what it was asked: seconds of each cell, and the lines of each."""

    number: int
    process: int
    client: Any
    seconds: dict[str, float] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    records: int = 0

    def run(self, name: str, code: str) -> None:
        started = time.perf_counter()
        lines: list[str] = []

        def heard(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                lines.append(content["text"])
            elif message["msg_type"] == "error":
                lines.append(f"{content['ename']}: {content['evalue']}")
            elif message["msg_type"] in ("display_data", "execute_result"):
                self.records += MIME in content["data"]

        try:
            self.client.execute_interactive(code, timeout=PATIENCE, output_hook=heard)
        except (TimeoutError, RuntimeError) as error:
            lines.append(f"lost: {error}")
        self.seconds[name] = time.perf_counter() - started
        self.said[name] = "\n".join(lines)


@contextmanager
def learner(number: int, folder: str) -> Iterator[Learner]:
    place = Path(folder) / str(number)
    place.mkdir()
    manager = KernelManager(kernel_name="python3")
    # As where the package is installed, its modules are compiled once.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    manager.start_kernel(cwd=str(place), env=environment | {"IPYTHONDIR": str(Path(folder) / "ipython")})
    client = manager.client()
    client.start_channels()
    try:
        yield Learner(number, manager.provisioner.pid, client)  # type: ignore[union-attr]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def answer_of(number: int) -> tuple[str, str, str]:
    """The puzzle of a learner, an answer to it, and the words of the verdict that is right."""
    puzzle = PUZZLES[ASKED[number % len(ASKED)]]
    if number % 3:
        return puzzle.id, puzzle.solution, f"✓ {puzzle.id}: right"
    wrong = puzzle.wrong[number % len(puzzle.wrong)]
    if "while True" in wrong.code:
        wrong = puzzle.wrong[0]
    return puzzle.id, wrong.code, wrong.says


def together(all: Iterable[T], act: Callable[[T], None]) -> None:
    threads = [threading.Thread(target=act, args=(each,)) for each in all]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def checked(learner: Learner) -> None:
    puzzle, code, _ = answer_of(learner.number)
    learner.run("check", f"%%puzzle {puzzle}\n{code}")


def as_expected(learner: Learner) -> bool:
    return answer_of(learner.number)[2] in learner.said["check"]


def available() -> int:
    """Bytes that this machine could still give."""
    found = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(found.split()[1]) << 10


def family(processes: list[int]) -> list[int]:
    """These and all their children."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = list(processes)
    for process in found:
        found += children.get(process, [])
    return found


def used(processes: list[int]) -> int:
    """Bytes that these and all their children hold."""
    total = 0
    for process in family(processes):
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += int(next(line for line in lines if line.startswith("Pss:")).split()[1]) << 10
    return total


@contextmanager
def peak(processes: list[int]) -> Iterator[list[int]]:
    """What `used` gives every second while the block runs."""
    found, over = [used(processes)], threading.Event()

    def look() -> None:
        while not over.wait(1):
            found.append(used(processes))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield found
    finally:
        over.set()
        looking.join()


def told(checks: int, of: str, lost: int, wrong: int, whole: bool) -> Aim:
    measured = f"{checks} checks: {lost} lost, {wrong} wrong"
    return Aim(f"{of} at once: no check lost, none wrong", measured, whole and not lost + wrong)


def at_once(servers: list[Server]) -> tuple[list[float], int, int, int]:
    """A check in each waiting process at once: seconds of each, how many were lost and wrong, and bytes at the most."""
    verdicts: dict[int, tuple[float, CheckResult]] = {}

    def ask(number: int) -> None:
        puzzle, code, _ = answer_of(number)
        started = time.perf_counter()
        made = check(puzzle, code, server=servers[number])
        verdicts[number] = time.perf_counter() - started, made

    try:
        for each in servers:
            check("breaks-3", "", server=each)  # it is loaded
        with peak([each.process for each in servers]) as found:
            together(range(len(servers)), ask)
    finally:
        for each in servers:
            each.end()
    wrong = sum(answer_of(number)[2] not in str(made) for number, (_, made) in verdicts.items())
    return [seconds for seconds, _ in verdicts.values()], len(servers) - len(verdicts), wrong, max(found)


def run(selection: Selection) -> Report:
    rows, aims = [], []
    cells = [each["source"] for each in notebook(SOURCES / "90_workshop.md", "solved")["cells"]
             if each["cell_type"] == "code"]  # fmt: skip
    for people in PEOPLE:
        if not selection.of(f"{people} people"):
            continue
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            startup = Path(folder) / "ipython" / "profile_default" / "startup"
            startup.mkdir(parents=True)
            (startup / "10-explorer.py").write_text(STARTUP.read_text())
            learners: list[Learner] = []
            while len(learners) < people and available() > RESERVED + len(learners) * LATER:
                learners.append(stack.enter_context(learner(len(learners), folder)))
                if len(learners) % 5 == 0:  # people do not arrive in the same second
                    learners[-1].client.wait_for_ready(timeout=PATIENCE)
            together(learners, lambda each: each.client.wait_for_ready(timeout=PATIENCE))
            together(learners, lambda each: each.run("first cell", cells[0]))
            together(learners, lambda each: each.run("first record", cells[1]))
            # What checks is loaded while people read; an empty answer waits for it.
            together(learners, lambda each: each.run("loaded", LOADED))
            processes = [each.process for each in learners]
            waiting = used(processes)
            with peak(processes) as found:
                together(learners, checked)
        lost = sum(not ("✓" in each.said["check"] or "✗" in each.said["check"]) for each in learners)
        wrong = sum(not as_expected(each) for each in learners) - lost
        unseen = sum(not each.records for each in learners)
        waits = [[each.seconds[name] for each in learners] for name in ("first cell", "first record", "check")]
        rows.append((
            str(people) if len(learners) == people else f"{len(learners)} of {people}: no memory for more",
            *(f"{statistics.median(each):.1f} s, {max(each):.1f} s" for each in waits),
            f"{waiting / len(learners) / 1e6:.0f} MB", f"{waiting / 1e9:.1f} GB", f"{max(found) / 1e9:.1f} GB",
        ))  # fmt: skip
        aims.append(told(len(learners), f"{people} people", lost, wrong, len(learners) == people and not unseen))
    if selection.of("checks"):
        servers = [Server() for _ in range(CHECKS)]
        seconds, lost, wrong, most = at_once(servers)
        row = f"{statistics.median(seconds):.1f} s, {max(seconds):.1f} s"
        rows.append((f"{CHECKS} checks", "", "", row, f"{most / CHECKS / 1e6:.0f} MB", "", f"{most / 1e9:.1f} GB"))
        aims.append(told(CHECKS, f"{CHECKS} checks", lost, wrong, True))
    timed = "first cell: median, slowest", "first record", "a check"
    head = ("people", *timed, "memory of one", "of all", "while checking")
    load = f"{os.cpu_count()} cores; load of the last minute at the end: {os.getloadavg()[0]:.1f}"
    return Report("A class at work", head, tuple(rows), tuple(aims), (load,))
