"""Does the one-time work of a process's first exploration in advance, while no cell runs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import torch

from explorer.api import explore
from explorer.compiler.runtime.timing import peaks
from explorer.records.check.trial import unnoticed

WAIT = 1.0
"""Seconds after a cell before a task runs, so that consecutive cells are not delayed."""

Task = Callable[[], object]


def compiled() -> None:
    """Explores a small program, to import what an exploration needs."""
    with unnoticed():
        small = torch.ones(2, 2, device="cpu", dtype=torch.float32)
        explore(lambda x: torch.relu(x * 2).sum(-1), time=False, name="ahead")(small)


class Ahead:
    """Runs its tasks one by one in the kernel's event loop, if there is one."""

    def __init__(self, tasks: Iterable[Task] = (compiled, peaks), wait: float = WAIT) -> None:
        self._tasks = deque(tasks)
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
        if self._tasks:
            self._timer = loop.call_later(self._wait, self._run_next)

    def drop(self) -> None:
        """Called when an exploration has done the work itself."""
        self.starts()
        self._tasks.clear()

    def _run_next(self) -> None:
        self._tasks.popleft()()
        self.ended()
