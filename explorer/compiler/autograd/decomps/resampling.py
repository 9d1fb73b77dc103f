"""Images resampled with weights: torch's decompositions, but for pixels in bytes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions

from explorer.compiler.autograd.decomps.table import DECOMPOSITIONS, Decomposition

aten = torch.ops.aten


def of_floats(decomposition: Decomposition) -> Decomposition:
    def resampled(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        """upsample(x) -> sum of weight * x at the neighbours; eager resamples bytes with integer weights"""
        return decomposition(x, *args, **kwargs) if x.is_floating_point() else NotImplemented

    return resampled


for _overload, _decomposition in get_decompositions([aten.upsample_bilinear2d, aten.upsample_bicubic2d]).items():
    DECOMPOSITIONS.rule(_overload)(of_floats(_decomposition))  # type: ignore[arg-type]
