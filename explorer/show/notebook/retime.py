"""Timing an explored call again with tensors of other sizes, without running its cell."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from explorer.compiler.capture import optimize
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_frame
from explorer.core.recorder import Progress, Recorder, recording
from explorer.ir import record as data
from explorer.records.check.accuracy import against_eager
from explorer.records.check.outside import kept_inside
from explorer.records.check.repeat import Repetition, unnoticed
from explorer.records.exploration import SECONDS_OF_TIMING, Entrant, measure

MOST_BYTES = 1 << 32
"""Of one tensor that is made anew."""


@dataclass
class Retiming:
    """A call whose tensor arguments can be made again. `compiled` serves all runs, so that a second size is met as a
    program would meet it: by guards that fail, and sizes that become dynamic. `grad_mode` is the notebook's."""

    trial: Repetition
    config: Config
    grad_mode: bool
    compiled: Any = None

    def arguments(self) -> dict[str, torch.Tensor]:
        """By name: arguments that are dense tensors, and those in lists, tuples and dictionaries."""
        found: dict[str, torch.Tensor] = {}
        for name, value in self.trial.state.args.items():
            _collect(value, name, found)
        return found

    def resized(self, shapes: Mapping[str, tuple[int, ...]]) -> Repetition:
        """The call with new tensors of these sizes. Raises ValueError naming what cannot be made."""
        known = self.arguments()
        made: dict[str, torch.Tensor] = {}
        for name, sizes in shapes.items():
            if name not in known:
                raise ValueError(f"there is no tensor {name!r} to resize; there are: {', '.join(known) or 'none'}")
            made[name] = resized(known[name], sizes, name)
        state = self.trial.state.copied({id(known[name]): tensor for name, tensor in made.items()})
        return replace(self.trial, state=state)

    def time(self, shapes: Mapping[str, tuple[int, ...]], progress: Progress) -> data.TimingData:
        """Eager and ours with these sizes, compiled anew where need be. Raises ValueError for sizes that cannot be, and
        what the call raises for them."""
        recorder = Recorder(progress)
        with torch.set_grad_enabled(self.grad_mode), unnoticed(), kept_inside():
            trial = self.resized(shapes)
            if self.compiled is None:
                self.compiled = optimize(trial.fn, self.config, compile_frame)
            ours, eager = trial.contestant(lambda fn: self.compiled), trial.contestant()
            progress.on_phase("running eager")
            expected = eager.observe()
            with recording(recorder):
                started = time.perf_counter()
                outcome = ours.observe()
                spent = time.perf_counter() - started - recorder.told
            accuracy = against_eager(trial.again, outcome.values(), expected.values())
            entrants = [Entrant("eager", eager), Entrant("explorer", ours, spent if recorder.compiles else None)]
            return measure(entrants, {"explorer": accuracy}, recorder, SECONDS_OF_TIMING, progress).timing


def _collect(value: Any, path: str, into: dict[str, torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided and value.dim() > 0:
            into[path] = value
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            _collect(item, f"{path}[{number}]", into)
    elif isinstance(value, dict):
        for key, item in value.items():
            _collect(item, f"{path}[{key!r}]", into)


def resized(tensor: torch.Tensor, sizes: tuple[int, ...], name: str) -> torch.Tensor:
    """A tensor of these sizes: dtype, device, requires_grad and the order of strides as in `tensor`, its elements drawn
    from those of `tensor`, so that indices stay valid and masks masks. Raises ValueError naming the tensor."""
    if len(sizes) != tensor.dim():
        raise ValueError(f"{name} has {tensor.dim()} dimensions, but {len(sizes)} sizes were given")
    if any(size < 0 for size in sizes):
        raise ValueError(f"{name}: sizes must be at least 0, not {list(sizes)}")
    count = math.prod(sizes)
    if count * tensor.element_size() > MOST_BYTES:
        raise ValueError(f"{name} of sizes {list(sizes)} would take more than {MOST_BYTES >> 30} GiB")
    pool = tensor.detach().reshape(-1)
    if pool.numel():
        values = pool[torch.randint(pool.numel(), (count,), device=tensor.device)]
    else:
        values = torch.zeros(count, dtype=tensor.dtype, device=tensor.device)
    order = sorted(range(tensor.dim()), key=lambda dim: -tensor.stride()[dim])
    back = [order.index(dim) for dim in range(tensor.dim())]
    made = values.reshape([sizes[dim] for dim in order]).permute(back)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)
