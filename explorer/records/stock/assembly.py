"""The assembly of stock's C++ kernels, disassembled from the libraries that Inductor built, by objdump where that is
installed. It leads to no lines: the libraries hold none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from explorer.compiler.runtime.child import Child
from explorer.ir import record as data

TOOL = "objdump"
SECONDS, OUTPUT_BYTES = 10.0, 16 * 2**20

LINES = 20_000
"""Of one kernel that are kept."""

_FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
_INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\s+(\S.*)$")
_TARGET = re.compile(r"^(j\w+ +)([0-9a-f]+) <")
KERNEL = "kernel"
"""What Inductor calls the function of each library; what OpenMP runs of it begins so."""


def with_assembly(compiles: Sequence[data.CompileData]) -> tuple[data.CompileData, ...]:
    if shutil.which(TOOL) is None:
        return tuple(compiles)
    return tuple(replace(each, halves=tuple(map(_half, each.halves))) for each in compiles)


def _half(half: data.HalfData) -> data.HalfData:
    sources = {build.output: _source(build.output) for build in half.builds}

    def kernel(each: data.KernelData) -> data.KernelData:
        own = str(each.source).strip()
        library = next((path for path, text in sources.items() if own and own in text), None)
        lines = _disassembled(library) if library is not None and each.language == "cpp" else ()
        found = tuple(data.LineData(line) for line in lines[:LINES])
        return replace(each, lowered={**each.lowered, "asm": data.TextData(found, "gas")}) if found else each

    return replace(half, kernels=tuple(map(kernel, half.kernels)))


def _source(library: str) -> str:
    """What a library was built from: Inductor keeps it beside it. "" for one that is not there."""
    try:
        return Path(library).with_suffix(".cpp").read_text(errors="replace")
    except OSError:
        return ""


@lru_cache(64)
def _disassembled(library: str) -> tuple[str, ...]:
    ended = Child((TOOL, "-d", "-w", "--no-show-raw-insn", library), output_bytes=OUTPUT_BYTES).wait(SECONDS)
    return tuple(labelled(ended.output.splitlines())) if ended.ok else ()


def labelled(listing: Sequence[str]) -> Iterator[str]:
    """The kernel's functions as a compiler writes them: names and labels in the place of addresses."""
    functions: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] | None = None
    for line in listing:
        if (begins := _FUNCTION.match(line)) is not None:
            name = begins[1]
            current = functions.setdefault(name, []) if name.startswith(KERNEL) and "@" not in name else None
        elif current is not None and (found := _INSTRUCTION.match(line)) is not None:
            current.append((found[1], found[2].strip()))
    for name, instructions in sorted(functions.items(), key=lambda each: ".cold" in each[0]):
        here = {address for address, _ in instructions}
        jumps = {address: target for address, text in instructions if (target := _TARGET.match(text)) is not None}
        labels = {target[2] for target in jumps.values()} & here
        yield f"{name}:"
        for address, text in instructions:
            if address in labels:
                yield f".L{address}:"
            jump = jumps.get(address)
            yield f"\t{jump[1]}.L{jump[2]}" if jump is not None and jump[2] in labels else f"\t{text}"
