"""Edit and see: from a changed constant to the record of the changed program, with machine code and nothing run."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.report import Aim, Report, Selection
from explorer.api import explore
from explorer.core.text import duration

REPEATS = 5


def pointwise(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.gelu(x * weight) * torch.sigmoid(x) + 1.25


class Block(torch.nn.Module):
    """As in GPT-2, with fewer heads."""

    def __init__(self, width: int = 256, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.project = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.project(mixed.transpose(1, 2).flatten(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")) * 1.25


def changed(fn: Callable[..., Any], name: str, *args: torch.Tensor) -> tuple[float, float]:
    """Median seconds of an edit, and of processors, the C++ compiler's too. Each constant is new, so none is cached."""
    record = explore(fn, time=False)(*args)
    assert record.explored is not None
    text = next(each.text for each in record.explored.functions() if each.name == name)
    whole, spent = [], []
    for n in range(REPEATS + 1):
        source = text.replace("1.25", repr(time.time() % 1 + n + 2))
        before = os.times()
        record.edit(source, function=name)
        *used, elapsed = (after - then for after, then in zip(os.times(), before, strict=True))
        whole.append(elapsed)
        spent.append(sum(used))
    return statistics.median(whole[1:]), statistics.median(spent[1:])


def run(selection: Selection) -> Report:
    selection.tell("pointwise")
    x, weight = torch.randn(64, 128), torch.randn(128)
    small = changed(pointwise, "pointwise", x, weight)
    selection.tell("GPT-2 block")
    block = changed(Block(), "Block.forward", torch.randn(2, 64, 256))
    rows = (("pointwise function", *map(duration, small)), ("GPT-2 block, forward and backward", *map(duration, block)))
    aims = (
        Aim("a pointwise function 0.5 s after the edit", duration(small[0]), small[0] <= 0.5),
        Aim("a GPT-2 block 2 s after the edit", duration(block[0]), block[0] <= 2),
    )
    note = f"medians of {REPEATS}; the machine code of each edit is built anew"
    return Report("Edit and see", ("", "edit to record", "processor time"), rows, aims, (note,))
