"""Programs by the thousand: each batch in a forked process, so that a crash or a hang is a finding and no end."""

from __future__ import annotations

import gc
import json
import os
import resource
import selectors
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

import explorer
from benchmarks.fuzz.program import Program, TooLong, grow, quiet
from benchmarks.fuzz.shrink import shrunk
from benchmarks.fuzz.trial import Difference, compared, meaningful

BATCH = 25
SILENCE = 240.0
"""Seconds after which a process that says nothing has hung."""
IN_EAGER = 20.0
"""The same, of one that runs eager alone."""
SHRINK_SECONDS = 90.0
ALIKE = 1
"""Findings of one kind that are shrunk."""

Say = Callable[..., None]
Made = Callable[[str, int], Program]
Outcome = tuple[str, str, str]
"""What came of a program: "same", "dropped", "differs" or another word, the kind and the text."""
Judge = Callable[[Program, str], Outcome]


@dataclass(eq=False)
class Child:
    """A forked process and what it said last."""

    pid: int
    pipe: int
    last: float
    at: int = -1
    buffer: bytes = b""
    stop: int = 0


def fork(work: Callable[[Say], None]) -> Child:
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading, time.monotonic())
    status = 1
    TooLong.in_torch = False
    try:
        os.close(reading)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 2)

        def say(**message: Any) -> None:
            os.write(writing, json.dumps(message).encode() + b"\n")

        warnings.simplefilter("ignore")
        most = resource.getrlimit(resource.RLIMIT_STACK)[1]
        resource.setrlimit(resource.RLIMIT_STACK, (most, most))  # torch frees a chain of autograd nodes recursively
        work(say)
        status = 0
    finally:
        os._exit(status)


def listen(child: Child) -> Iterator[dict[str, Any]] | None:
    """What it said since; None at its end."""
    read = os.read(child.pipe, 1 << 16)
    if not read:
        return None
    child.last = time.monotonic()
    *lines, child.buffer = (child.buffer + read).split(b"\n")
    return iter([json.loads(line) for line in lines])


def ended(child: Child) -> str:
    """How it came to its end; empty where it did what it was to do."""
    os.close(child.pipe)
    _, status = os.waitpid(child.pid, 0)
    if os.WIFSIGNALED(status):
        return f"the process dies by {signal.Signals(os.WTERMSIG(status)).name}"
    return "" if status == 0 else "the process ends"


def verdict(program: Program, backend: str) -> Outcome:
    expected = meaningful(program)
    if expected is None:
        return "dropped", "", ""
    differs: Difference | None = compared(program, expected, backend)
    return ("same", "", "") if differs is None else ("differs", differs.kind, differs.text)


def judged(judge: Judge, program: Program, backend: str) -> Outcome:
    try:
        return judge(program, backend)
    except Exception:
        return broken()


def broken() -> Outcome:
    """What is told where the fuzz itself raises."""
    return "broken", "the generator", traceback.format_exc()


def isolated(program: Program, backend: str, seconds: float = SILENCE, judge: Judge = verdict) -> tuple[str, str]:
    """The kind and text of the difference, each empty where there is none."""

    def work(say: Say) -> None:
        _, kind, text = judged(judge, program, backend)
        say(kind=kind, text=text)

    child = fork(work)
    said: list[dict[str, Any]] = []
    with selectors.DefaultSelector() as waiting:
        waiting.register(child.pipe, selectors.EVENT_READ)
        while True:
            if not waiting.select(seconds):
                os.kill(child.pid, signal.SIGKILL)
                ended(child)
                return "hangs", "hangs"
            messages = listen(child)
            if messages is None:
                break
            said += messages
    how = ended(child)
    return (said[-1]["kind"], said[-1]["text"]) if said and not how else (how, how)


def ends_eager(made: Made, seed: str, number: int) -> bool:
    """Whether a program ends eager's process too, or already the one that makes it, for that runs it: then it means
    nothing."""

    def alone(program: Program, backend: str) -> Outcome:
        meaningful(made(seed, number))
        return "same", "", ""

    return bool(isolated(Program("", "", ()), "", IN_EAGER, alone)[0])


def batch(seed: str, numbers: range, backend: str, made: Made, judge: Judge) -> Callable[[Say], None]:
    def work(say: Say) -> None:
        for number in numbers:
            say(at=number)
            try:
                program = made(seed, number)
            except Exception:
                program = Program("", "", ())
                outcome, kind, text = broken()
            else:
                outcome, kind, text = ("dropped", "", "") if TooLong.in_torch else judged(judge, program, backend)
            say(done=number, outcome=outcome, kind=kind, text=text, calls=len(program.steps))
            if TooLong.in_torch:
                return

    return work


@dataclass
class Finding:
    number: int
    kind: str
    text: str


@dataclass
class Tally:
    outcomes: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    kinds: dict[str, list[Finding]] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        self.kinds.setdefault(finding.kind, []).append(finding)


def warm(backend: str) -> None:
    """What the first compile of a process loads, once for all."""
    torch.set_num_threads(1)
    x = torch.ones(3, requires_grad=True)
    with quiet():
        explorer.compile(lambda x: (x.sin() * 2).sum(), backend=backend)(x).backward()
    gc.collect()
    gc.freeze()  # what is loaded stays: the children's collections neither walk it nor copy its pages


def stream(
    seed: str,
    backend: str,
    processes: int,
    start: int,
    enough: Callable[[int], bool],
    heard: Callable[[Tally], None],
    made: Made = grow,
    judge: Judge = verdict,
) -> Tally:
    """Programs from number `start` on, until `enough` says of how many were begun that it is."""
    warm(backend)
    tally = Tally()
    running: list[Child] = []
    following = start
    with selectors.DefaultSelector() as waiting:
        pending: list[range] = []
        while True:
            while len(running) < processes and (pending or not enough(following - start)):
                if pending:
                    numbers = pending.pop()
                else:
                    numbers, following = range(following, following + BATCH), following + BATCH
                child = fork(batch(seed, numbers, backend, made, judge))
                child.stop = numbers.stop
                running.append(child)
                waiting.register(child.pipe, selectors.EVENT_READ, child)
            if not running:
                return tally
            for key, _ in waiting.select(1.0):
                child = key.data
                messages = listen(child)
                for message in messages or ():
                    _take(tally, child, message)
                if messages is None:
                    waiting.unregister(child.pipe)
                    running.remove(child)
                    if how := ended(child):
                        dropped = ends_eager(made, seed, child.at)
                        for each in running:
                            each.last = time.monotonic()  # nobody listened
                        if dropped:
                            tally.outcomes["dropped"] += 1
                        else:
                            tally.outcomes["differs"] += 1
                            tally.add(Finding(child.at, how, how))
                    if child.at + 1 < child.stop:
                        pending.append(range(child.at + 1, child.stop))
            for child in running:
                if time.monotonic() - child.last > SILENCE:
                    os.kill(child.pid, signal.SIGKILL)
            heard(tally)


def _take(tally: Tally, child: Child, message: dict[str, Any]) -> None:
    if "at" in message:
        child.at = message["at"]
        return
    tally.outcomes[message["outcome"]] += 1
    tally.calls += message["calls"]
    if message["kind"]:
        tally.add(Finding(message["done"], message["kind"], message["text"]))


def explain(seed: str, findings: list[Finding], backend: str, seconds: float, processes: int) -> Iterator[str]:
    """Each finding as a small program with what differs."""
    left, running = list(findings), []
    with selectors.DefaultSelector() as waiting:
        while left or running:
            while left and len(running) < processes:
                finding = left.pop(0)
                child = fork(lambda say, each=finding: say(text=explained(seed, each, backend, seconds)))
                running.append(child)
                waiting.register(child.pipe, selectors.EVENT_READ, child)
            for key, _ in waiting.select():
                messages = listen(key.data)
                yield from (message["text"] for message in messages or ())
                if messages is None:
                    waiting.unregister(key.data.pipe)
                    running.remove(key.data)
                    ended(key.data)


def explained(seed: str, finding: Finding, backend: str, seconds: float) -> str:
    """The finding as a small program, ours against eager, and what torch.compile makes of it."""
    program = grow(seed, finding.number)
    kind, text = isolated(program, backend)
    if kind:
        program = shrunk(program, lambda smaller: isolated(smaller, backend, 30.0)[0] == kind, seconds)
        _, text = isolated(program, backend)
    stock, _ = isolated(program, "stock:eager")
    said = f"differs too: {stock}" if stock else "as eager"
    if not kind:
        kind, text = "not seen again", finding.text
    return f"{program.name}: {kind}\n{program.text}\n{text}\n  torch.compile {said}\n"
