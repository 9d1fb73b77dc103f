"""What a compiled kernel takes of a GPU: registers, spills, shared memory, and how many warps fit on at once."""

from __future__ import annotations

import re
from dataclasses import dataclass

from explorer.core.text import count


@dataclass(frozen=True)
class Used:
    """By one thread: registers, and bytes that did not fit into them."""

    registers: int
    spilled: int


@dataclass(frozen=True)
class Block:
    """What runs together: warps of so many threads, with bytes of shared memory between them."""

    warps: int
    threads: int
    shared: int


@dataclass(frozen=True)
class Multiprocessor:
    """What there is at once: of warps, blocks and shared memory (KiB). CUDA C++ Programming Guide, technical
    specifications per compute capability."""

    warps: int
    blocks: int
    shared: int


MULTIPROCESSORS = {
    70: Multiprocessor(64, 32, 96),
    75: Multiprocessor(32, 16, 64),
    80: Multiprocessor(64, 32, 164),
    86: Multiprocessor(48, 16, 100),
    87: Multiprocessor(48, 16, 164),
    89: Multiprocessor(48, 24, 100),
    90: Multiprocessor(64, 32, 228),
    100: Multiprocessor(64, 32, 228),
    120: Multiprocessor(48, 24, 100),
}

REGISTERS = 65536
"""Of each multiprocessor; a warp takes them in pieces of `PIECE`."""

PIECE = 256
RESERVED = 1024
"""Bytes of shared memory that the driver takes of each block, from compute capability 8.0 on."""

_PTXAS = re.compile(r"(?<!\d)(\d+) bytes spill stores, (\d+) bytes spill loads|Used (\d+) registers")


def of_ptxas(said: str) -> Used | None:
    """From what `ptxas -v` says of one kernel and the functions that it calls."""
    found = list(_PTXAS.finditer(said))
    registers = [int(each[3]) for each in found if each[3]]
    if not registers:
        return None
    return Used(max(registers), sum(int(each[1]) for each in found if each[1]))


def of_amdgcn(text: str) -> Used | None:
    """From the metadata at the end of AMD's assembly."""
    known = dict(re.findall(r"\.(vgpr_count|vgpr_spill_count):\s+(\d+)", text))
    if "vgpr_count" not in known:
        return None
    return Used(int(known["vgpr_count"]), 4 * int(known.get("vgpr_spill_count", 0)))


def facts(used: Used, block: Block, arch: object) -> tuple[str, ...]:
    """A sentence for each; occupancy where the GPU's numbers are known."""
    spilled = f"{used.spilled} bytes spilled to memory" if used.spilled else "nothing spilled"
    said = [
        f"{count(used.registers, 'register')} a thread, {spilled}",
        f"{block.shared} bytes of shared memory for a block of {count(block.warps, 'warp')}",
    ]
    gpu = MULTIPROCESSORS.get(arch) if isinstance(arch, int) else None
    if gpu is not None:
        blocks, by = fitting(used, block, gpu, arch)
        share = 100 * blocks * block.warps / gpu.warps
        said.append(f"occupancy {share:.0f} %: {blocks * block.warps} of {gpu.warps} warps at once, limited by {by}")
    return tuple(said)


def fitting(used: Used, block: Block, gpu: Multiprocessor, arch: object) -> tuple[int, str]:
    """How many blocks fit on a multiprocessor at once, and what keeps another from it."""
    each = -(-used.registers * block.threads // PIECE) * PIECE
    shared = block.shared + (RESERVED if isinstance(arch, int) and arch >= 80 else 0)
    limits = [(gpu.warps // block.warps, "the number of warps"), (gpu.blocks, "the number of blocks")]
    if each:
        limits.append((REGISTERS // each // block.warps, "registers"))
    if shared:
        limits.append((gpu.shared * 1024 // shared, "shared memory"))
    return min(limits, key=lambda limit: limit[0])
