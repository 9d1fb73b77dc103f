"""Copies and casts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from explorer.autograd.decomps.table import DECOMPOSITIONS
from explorer.autograd.layouts import in_layout_of, to

aten = torch.ops.aten


@DECOMPOSITIONS.rule(aten.lift_fresh.default)
def lift_fresh(x: Tensor) -> Tensor:
    """lift_fresh(x) -> lift_fresh_copy(x): x is a constant of the graph, and each call makes a tensor of its own"""
    return aten.lift_fresh_copy.default(x)


@DECOMPOSITIONS.rule(aten.copy.default)
def copy(target: Tensor, source: Tensor, non_blocking: bool = False) -> Any:
    """copy(target, source) -> source, cast and expanded to target's dtype and shape, in target's layout"""
    if target.device != source.device:
        return NotImplemented
    cast = to(source, target.dtype)
    return in_layout_of(target, cast if list(cast.shape) == list(target.shape) else cast.expand(target.shape))
