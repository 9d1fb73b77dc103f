"""Where the supported versions of Triton (3.6 and later) differ."""

from __future__ import annotations

from triton.backends.nvidia.compiler import get_ptxas


def assembler(arch: int) -> str:
    """The path of the ptxas that Triton uses for a compute capability."""
    return str(get_ptxas(arch).path)
