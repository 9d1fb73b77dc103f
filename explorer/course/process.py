"""Checks in a process of their own: one that has torch loaded waits, and forks a child with limits for each check."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import torch

from explorer import api
from explorer.course.check import CheckResult, checked
from explorer.course.lessons import PUZZLES
from explorer.course.puzzle import Failure
from explorer.records.stock.compile_time import probe_vector_instructions

SECONDS = 8.0
"""Of processor time that a check may take."""
WAITS = 6
"""Times that in wall time: a machine that many share is slow."""
MEMORY = 3 << 30
"""Bytes that a check may add to what torch takes."""
OUTPUT = 20_000
"""Characters of what an answer prints that are shown."""
SEED = "EXPLORER_COURSE_SEED"


def check(
    id: str, source: str, seed: int | None = None, *, seconds: float = SECONDS, memory: int = MEMORY,
    server: Server | None = None,
) -> CheckResult:  # fmt: skip
    """The verdict on `source`, the code of an answer to the puzzle `id`. Nothing that the answer does reaches this
    process. `seed` is that of the random inputs: by default what the variable EXPLORER_COURSE_SEED says, or 0.
    `server` is the waiting process to ask: by default the one of this process.

    Raises KeyError for a puzzle that does not exist.
    """
    if id not in PUZZLES:
        raise KeyError(f"there is no puzzle {id!r}; there are: {', '.join(PUZZLES)}")
    seed = int(os.environ.get(SEED, "0")) if seed is None else seed
    folder = tempfile.mkdtemp(prefix="check-", dir=_root().name)
    asked = {"id": id, "source": source, "seed": seed, "seconds": seconds, "memory": memory, "folder": folder}
    place, server = Path(folder), server or _server()
    verdict = _verdict(id, place, server.ask(asked), seconds, memory)
    made = place / "verdict.json"
    if not made.exists() and verdict.step != "defined":  # once more, up to where it ended: for the record that shows it
        server.ask({**asked, "until": _read(place / "step"), "said": verdict.message})
        if made.exists():
            return msgspec.structs.replace(_verdict(id, place, 0, seconds, memory), printed=verdict.printed)
    return verdict


@cache
def _root() -> tempfile.TemporaryDirectory[str]:
    """What checks leave until this process ends: the record that a verdict names."""
    return tempfile.TemporaryDirectory(prefix="explorer-course-")


def _verdict(id: str, folder: Path, status: int, seconds: float, memory: int) -> CheckResult:
    """What the child wrote, or why it wrote nothing."""
    printed = _read(folder / "printed")[:OUTPUT]
    if (folder / "verdict.json").exists():
        made = msgspec.json.decode((folder / "verdict.json").read_bytes(), type=CheckResult)
        return msgspec.structs.replace(made, printed=printed)
    step, _, at = (_read(folder / "step") or "defined").partition("\n")
    where = f" while it was checked on {at}" if at else ""
    if status == TIMEOUT:
        message = f"not done after {WAITS * seconds:g} s{where}: does it wait for something?"
    elif status == -signal.SIGXCPU:
        message = f"used {seconds:g} s of processor time{where}: is there a loop that does not end?"
    elif "MemoryError" in printed or "can't allocate" in printed:
        message = f"needs more than {memory >> 20} MiB{where}"
    elif status < 0:
        name = signal.Signals(-status).name
        message = f"the process ended with {name}{where}{ENDED.get(signal.Signals(-status), '')}"
    else:
        message = f"the check ended by itself with status {status}{where}"
    return CheckResult(id, False, message, step, printed=printed)


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


TIMEOUT = 1 << 16
ENDED = {
    signal.SIGSEGV: ": something accessed memory that is not its own",
    signal.SIGILL: ": something ran an illegal instruction",
    signal.SIGFPE: ": something divided an integer by zero",
    signal.SIGABRT: ": something called abort",
}


class Server:
    """The waiting process. One check at a time; a notebook has one learner. It is started anew, or `forked`: then it
    shares the memory of this process, and what code of a person's changed here by now."""

    def __init__(self, forked: bool = False) -> None:
        asks, asking = os.pipe()
        answering, answers = os.pipe()
        self._asks, self._answers = os.fdopen(asking, "w"), os.fdopen(answering)
        self._started = None if forked else _started(asks, answers)
        self.process = self._started.pid if self._started is not None else _forked(asks, answers)
        os.close(asks)
        os.close(answers)
        self._lock = threading.Lock()

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        while self.alive:
            time.sleep(0.01)
        with contextlib.suppress(BrokenPipeError):
            self._asks.close()
        self._answers.close()

    @property
    def alive(self) -> bool:
        if self._started is not None:
            return self._started.poll() is None
        try:
            return os.waitpid(self.process, os.WNOHANG)[0] == 0
        except ChildProcessError:  # it was seen to end
            return False

    def ask(self, asked: dict[str, object]) -> int:
        with self._lock:
            self._asks.write(json.dumps(asked) + "\n")
            self._asks.flush()
            return int(self._answers.readline() or "1")


def _started(asks: int, answers: int) -> subprocess.Popen[bytes]:
    """A new process that serves, and answers there what is asked here."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from explorer.course.process import serve; serve()"]
    return subprocess.Popen(command, stdin=asks, stdout=answers, env=environment, start_new_session=True)


def _forked(asks: int, answers: int) -> int:
    """A fork of this process that serves. Of a notebook's kernel it keeps no socket and no thread."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: they write to sockets that are closed below
        child = os.fork()
    if child:
        return child
    try:
        gc.freeze()  # or what is collected would close what is closed here
        os.setsid()
        os.dup2(asks, 0)
        os.dup2(answers, 1)
        signal.set_wakeup_fd(-1)
        faulthandler.disable()
        os.closerange(3, 1 << 20)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()) is not None:
            type(shell).clear_instance()  # what an answer displays is printed
        os.environ["OMP_NUM_THREADS"] = "1"
        serve()
    finally:
        os._exit(0)


_SERVERS: list[Server] = []


def _server() -> Server:
    if not _SERVERS or not _SERVERS[0].alive:
        _SERVERS[:] = [Server()]
    return _SERVERS[0]


def warm() -> None:
    """Start the waiting process, so that the first check finds torch loaded."""
    _server()


def warm_by_fork() -> None:
    """Start the waiting process as a fork, while nothing but imports ran here: for kernels of a class, as it takes a
    quarter of the memory of one that is started anew."""
    if not _SERVERS:
        _SERVERS.append(Server(forked=True))


# In the waiting process, and its children.


def serve() -> None:
    """Answer what comes on standard input, a line a check, with the status of the child that made it."""
    _load()
    _prepare_stock()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(f"{_run(json.loads(line))}\n")
        answers.flush()


def _load() -> None:
    """What every check needs, and what the first compile of a process costs, without a thread: a fork has none. So no
    backward runs here either, as where `explorer.explore` is first asked for: in a build of torch for GPUs that starts
    autograd's threads, and a fork after that may run none."""
    import torch

    import explorer

    torch.set_num_threads(1)
    vars(explorer).update(explore=api.explore, compile=api.compile)
    explorer.explore(lambda x: torch.softmax(x, -1) + 1, time=False)(torch.ones(2, 2))
    _ = explorer.workbench


def _prepare_stock() -> int:
    """Have `probe_vector_instructions` run in a child of low priority while a person reads; its process id. 0 on a
    machine that is busy, as in a class, where nothing is done."""
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        return 0
    if child := os.fork():
        return child
    try:
        os.nice(19)
        probe_vector_instructions()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _run(asked: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        try:
            _child(asked)
        finally:
            os._exit(1)
    until = time.monotonic() + WAITS * asked["seconds"]
    pause = 0.002
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            _end(child)
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    _end(child)
    os.waitpid(child, 0)
    return TIMEOUT


def _end(child: int) -> None:
    """The child, and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def _child(asked: dict[str, Any]) -> None:
    os.setsid()
    sys.dont_write_bytecode = True  # of a module that is imported here first: a check writes in its folder alone
    folder = Path(asked["folder"])
    with open(folder / "printed", "wb") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    sys.stdin.close()
    _limit(resource.RLIMIT_CPU, math.ceil(asked["seconds"]))
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    if pages:
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + asked["memory"])

    def reached(step: str, at: str) -> None:
        if asked.get("until") == f"{step}\n{at}":
            raise Failure(step, asked["said"])
        (folder / "step").write_text(f"{step}\n{at}")

    random.seed(asked["seed"])
    torch.manual_seed(asked["seed"])
    try:
        verdict = checked(PUZZLES[asked["id"]], asked["source"], asked["seed"], reached, str(folder))
        (folder / "verdict.tmp").write_bytes(msgspec.json.encode(verdict))
        (folder / "verdict.tmp").rename(folder / "verdict.json")
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
