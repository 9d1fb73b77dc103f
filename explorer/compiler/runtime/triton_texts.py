"""What the Triton compiler made of a kernel, each line with the generated lines that caused it.

Every level carries source positions in its own notation: MLIR `loc(...)`, LLVM `!DILocation`, `.loc` in PTX and AMD
assembly, `//## File` in SASS. A position inside a helper function counts as the place that called it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.core.text import Line, Text, count

# What a compiled kernel takes of a GPU: registers, spills, shared memory, and how many warps fit on at once.


@dataclass(frozen=True)
class Used:
    """By one thread: registers, and bytes that did not fit into them."""

    registers: int
    spilled: int


@dataclass(frozen=True)
class ThreadBlock:
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


def of_ptxas(output: str) -> Used | None:
    """From what `ptxas -v` says of one kernel and the functions that it calls."""
    found = list(_PTXAS.finditer(output))
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


def facts(used: Used, block: ThreadBlock, arch: object) -> tuple[str, ...]:
    """A sentence for each; occupancy where the GPU's numbers are known."""
    spilled = f"{used.spilled} bytes spilled to memory" if used.spilled else "nothing spilled"
    lines = [
        f"{count(used.registers, 'register')} a thread, {spilled}",
        f"{block.shared} bytes of shared memory for a block of {count(block.warps, 'warp')}",
    ]
    gpu = MULTIPROCESSORS.get(arch) if isinstance(arch, int) else None
    if gpu is not None:
        blocks, by = fitting(used, block, gpu, arch)
        share = 100 * blocks * block.warps / gpu.warps
        lines.append(f"occupancy {share:.0f} %: {blocks * block.warps} of {gpu.warps} warps at once, limited by {by}")
    return tuple(lines)


def fitting(used: Used, block: ThreadBlock, gpu: Multiprocessor, arch: object) -> tuple[int, str]:
    """How many blocks fit on a multiprocessor at once, and what keeps another from it."""
    each = -(-used.registers * block.threads // PIECE) * PIECE
    shared = block.shared + (RESERVED if isinstance(arch, int) and arch >= 80 else 0)
    limits = [(gpu.warps // block.warps, "the number of warps"), (gpu.blocks, "the number of blocks")]
    if each:
        limits.append((REGISTERS // each // block.warps, "registers"))
    if shared:
        limits.append((gpu.shared * 1024 // shared, "shared memory"))
    return min(limits, key=lambda limit: limit[0])


Cause = Callable[[str, int], str | None]
"""(file, line) -> the id of a generated line, or None for a place outside the kernel."""


def texts(asm: Mapping[str, Any], cause: Cause) -> dict[str, Text]:
    """The printable levels of `asm` (Triton's dict of compiler outputs by kind)."""
    readers = {"ttir": mlir, "ttgir": mlir, "llir": llvm, "ptx": assembly, "amdgcn": assembly, "sass": sass}
    return {kind: read(asm[kind], kind, cause) for kind, read in readers.items() if kind in asm}


def mlir(text: str, kind: str, cause: Cause) -> Text:
    """TTIR and TTGIR: a reference `loc(#loc12)` at the end of each operation, defined anywhere in the file."""
    named = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.M))
    known: dict[str, tuple[str, ...]] = {}

    def places(body: str) -> tuple[str, ...]:
        found = [id for file, line in re.findall(r'"([^"]+)":(\d+):\d+', body) if (id := cause(file, int(line)))]
        for reference in re.findall(r"#loc\d*", body):
            found += of(reference)
        return tuple(dict.fromkeys(found))

    def of(reference: str) -> tuple[str, ...]:
        if reference not in known:
            known[reference] = ()
            known[reference] = places(named.get(reference, ""))
        return known[reference]

    lines = []
    for line in text.splitlines():
        if not line.startswith("#loc"):
            body = re.search(r"loc\(([^()]*(?:\([^()]*\))?[^()]*)\)\s*$", line)
            shown = line[: body.start()].rstrip() if body else re.sub(r" loc\([^()]*(?:\([^()]*\))?[^()]*\)", "", line)
            lines.append(Line(shown, origins=places(body[1]) if body else ()))
    return Text(tuple(lines), "llvm")


def llvm(text: str, kind: str, cause: Cause) -> Text:
    """LLVM IR: `!dbg !12`, where !12 is a DILocation that may be inlined at another."""
    locations = {
        number: (int(line), scope, inlined)
        for number, line, scope, inlined in re.findall(
            r"^!(\d+) = !DILocation\(line: (\d+), column: \d+, scope: !(\d+)(?:, inlinedAt: !(\d+))?\)", text, re.M
        )
    }
    scopes = dict(re.findall(r"^!(\d+) = (?:distinct )?!DI(?:Subprogram|LexicalBlock\w*)\(.*?file: !(\d+)", text, re.M))
    files = {
        number: f"{folder}/{name}"
        for number, name, folder in re.findall(
            r'^!(\d+) = !DIFile\(filename: "([^"]+)", directory: "([^"]+)"\)', text, re.M
        )
    }

    def place(number: str) -> str | None:
        while number in locations:
            line, scope, inlined = locations[number]
            if found := cause(files.get(scopes.get(scope, ""), ""), line):
                return found
            number = inlined
        return None

    lines = []
    for line in text.splitlines():
        found = re.search(r"!dbg !(\d+)", line)
        id = place(found[1]) if found and "define" not in line else None
        lines.append(Line(line, origins=(id,) if id else ()))
    return Text(tuple(lines), "llvm")


def assembly(text: str, kind: str, cause: Cause) -> Text:
    """PTX and AMD assembly: `.loc file line column` holds until the next one."""
    files = _files(text)
    current: tuple[str, ...] = ()
    lines = []
    for line in steady_locations(text).splitlines():
        if found := re.match(r"\s*\.loc\s+(\d+) (\d+) \d+(.*)", line):
            places = [(found[1], found[2]), *re.findall(r"inlined_at (\d+) (\d+)", found[3])]
            if inlined := re.search(r"@\[ (\S+?):(\d+):\d+", found[3]):
                places.append((_file_number(files, inlined[1]), inlined[2]))
            causes = [id for number, at in places if (id := cause(files.get(number, ""), int(at)))]
            current = tuple(causes[-1:])
        elif line.rstrip().endswith(":") and line.startswith("$L__func_end"):
            current = ()
        else:
            is_code = bool(re.match(r"\s*[@a-z{]", line)) and not line.strip().startswith(".")
            lines.append(Line(line, origins=current if is_code else ()))
    return Text(tuple(lines), "ptx" if kind == "ptx" else "gas")


def _files(text: str) -> dict[str, str]:
    """The files that assembly numbers."""
    return {
        number: (f"{folder}/{name}" if folder else name).rstrip("/")
        for number, folder, name in re.findall(r'^[ \t]*\.file\s+(\d+)\s+"([^"]*)"(?: "([^"]*)")?', text, re.M)
    }


_CALLED_AT = re.compile(r"(?<![^\s\[])([^\s\[:]{1,400}):(\d{1,9}):(\d{1,9})")


def at_calls(ptx: str) -> str:
    """PTX with what was inlined at the place of the call, where Triton tells that place in a comment alone, as 3.7
    does: the assembler reads no comments, so that SASS would name the library's lines."""
    files, lines = _files(ptx), []
    for line in ptx.splitlines():
        found = re.match(r"\s*\.loc\s+\d+ \d+ \d+\s*//.*@\[(.*)", line)
        if found and (called := _CALLED_AT.findall(found[1])):
            file, at, column = called[-1]
            line = f"\t.loc\t{number} {at} {column}" if (number := _file_number(files, file)) else line
        lines.append(line)
    return "\n".join(lines) + "\n"


def _file_number(files: Mapping[str, str], name: str) -> str:
    return next((number for number, path in files.items() if path.endswith(name)), "")


def steady_locations(ptx: str) -> str:
    """PTX without the positions that the assembler makes up inside inline assembly, where each line of the asm string
    counts as one line further in the source."""
    kept, inside, seen = [], False, False
    for line in ptx.splitlines():
        if "begin inline asm" in line:
            inside, seen = True, False
        elif "end inline asm" in line:
            inside = False
        elif inside and re.match(r"\s*\.loc\s", line):
            if seen:
                continue
            seen = True
        kept.append(line)
    return "\n".join(kept) + "\n"


def sass(text: str, kind: str, cause: Cause) -> Text:
    """SASS as nvdisasm -gi prints it: before the instructions of a place `//## File "f", line n`, for an inlined
    function followed by the places that called it, innermost first."""
    current: tuple[str, ...] = ()
    inside_places = False
    lines = []
    for line in text.splitlines():
        if found := re.search(r'//## File "([^"]+)", line (\d+)', line):
            id = cause(found[1], int(found[2]))
            known = current if inside_places else ()
            current = known or ((id,) if id else ())
            inside_places = True
        elif re.match(r"\s*/\*[0-9a-f]+\*/", line):
            lines.append(Line("    " + line.strip(), origins=current))
            inside_places = False
        elif line.startswith(".L_") or re.match(r"[\w$]+:", line):
            lines.append(Line(line))
    return Text(tuple(lines), "sass")
