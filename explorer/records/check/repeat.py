"""Repeats a call on copies of its state, without visible effects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

from explorer.records.check.isolate import NotIsolated, State
from explorer.records.check.output import hushed
from explorer.records.check.process import put_back
from explorer.records.check.trial import Contestant, Outcome, Trial


@dataclass(frozen=True, kw_only=True)
class Repetition(Trial):
    """The call of `fn` with what `state` has under the names of its arguments. `own_backward`: the call runs a backward
    itself, so that none is added."""

    state: State
    own_backward: bool = False

    def contestant(self, prepare: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None) -> Repeated:
        """Raises NotIsolated where no copy can be made."""
        run = prepare(self.fn) if prepare else self.fn
        return Repeated(run, self.fn, self.state.copied(), self.grad, self.own_backward)


class Repeated(Contestant):
    """Made on its own copies of arguments and of the places that the code reads. Its tensors have the names by which
    the code reaches them; a number that comes out was a tensor's, and is compared as one."""

    def __init__(
        self, run: Callable[..., Any], fn: Callable[..., Any], state: State, grad: bool | None, own_backward: bool
    ) -> None:
        super().__init__(run, fn, tuple(state.args.values()), {}, grad)
        self.state = state
        self.own_backward = own_backward
        self._named = dict(state.tensors)

    def observe(self) -> Outcome:
        with self.state.in_place(), put_back():
            outcome = super().observe()
        output = tree_map(lambda leaf: torch.tensor(leaf) if type(leaf) is float else leaf, outcome.output)
        if not self.own_backward:
            return Outcome(output, outcome.gradients, outcome.state)
        gradients = {name: tensor.grad for name, tensor in self._named.items() if tensor.is_leaf}
        return Outcome(output, {n: g for n, g in gradients.items() if g is not None}, outcome.state)

    def _step(self) -> tuple[Any, dict[str, torch.Tensor | None]]:
        return (self.run(*self.args), {}) if self.own_backward else super()._step()


@contextmanager
def unnoticed() -> Iterator[None]:
    """Inside, in this thread, nothing is printed or logged; after it, random generators and torch's switches are as
    they were."""
    with put_back(), hushed():
        yield


COPIES = 4
"""Of the state that a repetition makes at a time: one as it was found, one for each contestant."""


def check_memory(state: State, copies: int = COPIES) -> None:
    """Raises NotIsolated where the copies of a state would not fit."""
    needed = copies * state.bytes
    for device in {tensor.device for tensor in state.tensors.values()}:
        free = _free(device)
        if free is not None and needed > free:
            said = f"{needed >> 20} MiB are needed, and {free >> 20} MiB are free on {device}"
            raise NotIsolated(f"there is no memory for {copies} copies of the state that it reaches: {said}")


def _free(device: torch.device) -> int | None:
    """Bytes that are free, where that can be told."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    meminfo = Path("/proc/meminfo")
    if device.type != "cpu" or not meminfo.exists():
        return None
    found = re.search(r"^MemAvailable:\s*(\d+) kB", meminfo.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else None
