"""A parameter server in small: this process holds the weights, two others compute gradients, each on its own data.

`python parameter_server.py SEED SECONDS` is a worker. It imports only NumPy, to start at once. It reads weights as a
line of JSON, and answers with a gradient.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from selectors import EVENT_READ, DefaultSelector
from typing import Literal

import numpy as np

TRUE = np.array([1.0, -2.0, 3.0, 0.5])
"""The weights that training must find."""
AHEAD = 8
"""Updates after which a gradient that is still missing is awaited, so that none is older."""
Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Update:
    """One change of the weights. `late` is how many updates came between sending the weights and applying their
    gradient; `distance` is from the weights to the right ones afterwards."""

    worker: int
    late: int
    distance: float


def train(mode: Literal["synchronous", "asynchronous"], updates: int, rate: float, slow: float = 0.0) -> list[Update]:
    """Train with two workers, the second of which waits `slow` seconds before each answer. Synchronous: both gradients
    are awaited, and their mean is applied. Asynchronous: each is applied when it comes, although the weights may have
    changed since, unless the other worker is AHEAD updates late."""
    weights, made = np.zeros(4), 0
    found: list[Update] = []
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(seed, seconds)) for seed, seconds in ((0, 0.0), (1, slow))]
        for each in workers:
            _line(each)  # it is ready
        sent = [0, 0]
        for each in workers:
            _send(each, weights)
        while len(found) < updates:
            if mode == "synchronous":
                gradients = [_receive(each) for each in workers]
                weights = weights - rate * np.mean(gradients, axis=0)
                found.append(Update(-1, 0, float(np.linalg.norm(weights - TRUE))))
                for each in workers:
                    _send(each, weights)
                continue
            late = [number for number in (0, 1) if made - sent[number] >= AHEAD]
            for worker in late or _ready(workers):
                weights = weights - rate * _receive(workers[worker])
                found.append(Update(worker, made - sent[worker], float(np.linalg.norm(weights - TRUE))))
                made += 1
                sent[worker] = made
                _send(workers[worker], weights)
    return found[:updates]


Process = subprocess.Popen[str]


@contextmanager
def _worker(seed: int, seconds: float) -> Iterator[Process]:
    command = [sys.executable, __file__, str(seed), str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _send(worker: Process, weights: Array) -> None:
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(weights.tolist()) + "\n")
    worker.stdin.flush()


def _receive(worker: Process) -> Array:
    return np.array(json.loads(_line(worker)))


def _line(worker: Process) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline()


def _ready(workers: list[Process]) -> list[int]:
    """The workers that have answered. Each has one line at a time, so that no answer waits in a buffer unseen."""
    with DefaultSelector() as selector:
        for number, worker in enumerate(workers):
            assert worker.stdout is not None
            selector.register(worker.stdout, EVENT_READ, number)
        return [key.data for key, _ in selector.select()]


def work(seed: int, seconds: float) -> None:
    """Answer weights with gradients of the mean square error on 64 rows of data."""
    x = np.random.default_rng(seed).normal(size=(64, 4))
    target = x @ TRUE
    print("ready", flush=True)
    for line in sys.stdin:
        error = x @ np.array(json.loads(line)) - target
        time.sleep(seconds)
        print(json.dumps((2 * x.T @ error / len(x)).tolist()), flush=True)


if __name__ == "__main__":
    work(int(sys.argv[1]), float(sys.argv[2]))
