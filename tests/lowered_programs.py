"""What the tests of lowering share."""

from __future__ import annotations

from zlib import crc32

import torch

aten = torch.ops.aten


def made(shape: tuple[int, ...], dtype: torch.dtype, low: float = -3, high: float = 3) -> torch.Tensor:
    g = torch.Generator().manual_seed(crc32(repr((shape, dtype)).encode()))
    if dtype == torch.bool:
        return torch.rand(shape, generator=g) < 0.5
    value = torch.rand(shape, generator=g, dtype=torch.float64) * (high - low) + low
    return value.round().abs().to(dtype) if dtype == torch.uint8 else value.to(dtype)
