"""What the first exploration of a process pays once, paid ahead while nobody runs a cell."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import torch

from explorer.api import explore
from explorer.compiler.runtime.machine import peaks
from explorer.records.check.repeat import unnoticed

WAIT = 1.0
"""Seconds after a cell before a step is taken: cells that are run one after another are not held up."""

Step = Callable[[], object]


def compiled() -> None:
    """A small program goes the whole way, so that what is imported and looked up on the way is there."""
    with unnoticed():
        small = torch.ones(2, 2, device="cpu", dtype=torch.float32)
        explore(lambda x: torch.relu(x * 2).sum(-1), time=False, name="ahead")(small)


class Ahead:
    """Takes its steps one by one, in the kernel's event loop; where there is none, never."""

    def __init__(self, steps: Iterable[Step] = (compiled, peaks), wait: float = WAIT) -> None:
        self._steps = deque(steps)
        self._wait = wait
        self._timer: asyncio.TimerHandle | None = None

    def starts(self, info: Any = None) -> None:
        """IPython's event before a cell."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ended(self, result: Any = None) -> None:
        """IPython's event at the end of a cell."""
        self.starts()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a shell without a kernel
            return
        if self._steps:
            self._timer = loop.call_later(self._wait, self._step)

    def drop(self) -> None:
        """An exploration has paid it all."""
        self.starts()
        self._steps.clear()

    def _step(self) -> None:
        self._steps.popleft()()
        self.ended()
