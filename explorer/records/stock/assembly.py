"""What compilers below made of stock's kernels: the assembly of C++ kernels, disassembled by objdump (where that is
installed) from the libraries that Inductor built, with the line tables that it builds into them, and which loops
Inductor made of vectors; the levels of Triton kernels, and what they take of a GPU, from what Triton compiled."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from explorer.compiler.runtime.child import Child
from explorer.compiler.runtime.triton_texts import ThreadBlock, Used, facts, texts
from explorer.core.origin import synthetic
from explorer.ir import record as data

TOOL = "objdump"
SECONDS, OUTPUT_BYTES = 10.0, 64 * 2**20

LINES = 20_000
"""Of one kernel that are kept."""

_FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
_INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\s+(\S.*)$")
_TARGET = re.compile(r"^(j\w+ +)([0-9a-f]+) <")
_PLACE = re.compile(r"^(inlined by )?(/.*):(\d+)(?: \(.*\))?$")
KERNEL = "kernel"
"""What Inductor calls the function of each library; what OpenMP runs of it begins so."""

NO_LINE = synthetic("the library's line table names no line of the kernel")

_LOOP = re.compile(r"\s*for ?\(")
_STEP = re.compile(r"\+=static_cast<int64_t>\((\d+)L\)\)$")
VECTORS = "at::vec::"
SCALAR = (
    "not vectorized: Inductor wrote it for one element at a time, and has the C++ compiler make no vectors of loops"
)


def with_assembly(
    compiles: Sequence[data.CompileData], modules: Mapping[tuple[str, str], object] | None = None
) -> tuple[data.CompileData, ...]:
    """`modules` are what Inductor wrote of each half, loaded, by compile and half."""
    return tuple(
        replace(each, halves=tuple(_half(half, (modules or {}).get((each.id, half.name))) for half in each.halves))
        for each in compiles
    )


def _half(half: data.HalfData, module: object) -> data.HalfData:
    libraries = [build.output for build in half.builds] if shutil.which(TOOL) is not None else []
    sources = {library: _source(library) for library in libraries}

    def kernel(each: data.KernelData) -> data.KernelData:
        if each.language != "cpp":
            return of_triton(each, getattr(module, each.function, None))
        remarks, vectorized = loops(each.source)
        each = replace(each, remarks=remarks, vectorized=vectorized)
        own = str(each.source).strip()
        library = next((path for path, text in sources.items() if own and own in text), None)
        if library is None:
            return each
        above = sources[library].partition(own)[0].count("\n") + 1
        ids = {number: line.id for number, line in enumerate(each.source.lines, above)}
        found = tuple(
            data.LineData(text, f"{each.id}:asm:{n}", (ids.get(at) or NO_LINE,))
            for n, (text, at) in enumerate(_disassembled(library)[:LINES], 1)
        )
        return replace(each, lowered={**each.lowered, "asm": data.TextData(found, "gas")}) if found else each

    return replace(half, kernels=tuple(map(kernel, half.kernels)))


def _source(library: str) -> str:
    """What a library was built from: Inductor keeps it beside it. "" for one that is not there."""
    try:
        return _file(library).read_text(errors="replace")
    except OSError:
        return ""


def _file(library: str) -> Path:
    return Path(library).with_suffix(".cpp")


@lru_cache(64)
def _disassembled(library: str) -> tuple[tuple[str, int], ...]:
    asked = (TOOL, "-d", "-w", "-l", "--inlines", "--no-show-raw-insn", library)
    ended = Child(asked, output_bytes=OUTPUT_BYTES).wait(SECONDS)
    return tuple(labeled(ended.output.splitlines(), str(_file(library)))) if ended.ok else ()


def labeled(listing: Sequence[str], file: str = "") -> Iterator[tuple[str, int]]:
    """The kernel's functions as a compiler writes them: names and labels in the place of addresses. Each line with the
    line of `file` that it was made of, the innermost where that calls something inlined; 0 for none."""
    functions: dict[str, list[tuple[str, str, int]]] = {}
    current: list[tuple[str, str, int]] | None = None
    at, placed = 0, False
    for line in listing:
        if (begins := _FUNCTION.match(line)) is not None:
            name = begins[1]
            current = functions.setdefault(name, []) if name.startswith(KERNEL) and "@" not in name else None
            at, placed = 0, False
        elif current is None:
            continue
        elif (found := _INSTRUCTION.match(line)) is not None:
            current.append((found[1], found[2].strip(), at))
            placed = False
        elif (place := _PLACE.match(line)) is not None:
            if not placed or place[1] is None:
                at = 0
            placed = True
            if place[2] == file and not at:
                at = int(place[3])
    for name, instructions in sorted(functions.items(), key=lambda each: ".cold" in each[0]):
        here = {address for address, _, _ in instructions}
        jumps = {address: target for address, text, _ in instructions if (target := _TARGET.match(text)) is not None}
        labels = {target[2] for target in jumps.values()} & here
        yield f"{name}:", instructions[0][2] if instructions else 0
        for address, text, at in instructions:
            if address in labels:
                yield f".L{address}:", at
            jump = jumps.get(address)
            yield f"\t{jump[1]}.L{jump[2]}" if jump is not None and jump[2] in labels else f"\t{text}", at


def loops(source: data.TextData) -> tuple[dict[str, str], tuple[str, ...]]:
    """By the ids of the lines where innermost loops begin, whether Inductor wrote them with vectors, and those ids for
    which it did. It has the C++
    compiler leave loops as they are, so that nothing else makes vectors of them."""
    open_loops: list[tuple[int, int]] = []
    inner: dict[int, bool] = {}
    depth = 0
    widths: dict[int, str] = {}
    for number, line in enumerate(source.lines):
        while open_loops and depth <= open_loops[-1][1] and line.text.strip() not in ("{", ""):
            open_loops.pop()
        if _LOOP.match(line.text):
            for outer, _ in open_loops:
                inner.pop(outer, None)
            open_loops.append((number, depth))
            inner[number] = False
            widths[number] = step[1] if (step := _STEP.search(line.text)) is not None else "1"
        elif VECTORS in line.text and open_loops and open_loops[-1][0] in inner:
            inner[open_loops[-1][0]] = True
        depth += line.text.count("{") - line.text.count("}")
    known = {source.lines[at].id: (vectors, widths[at]) for at, vectors in inner.items() if source.lines[at].id}
    remarks = {id: _remark(vectors, width) for id, (vectors, width) in known.items()}
    return remarks, tuple(id for id, (vectors, _) in known.items() if vectors)


def _remark(vectors: bool, width: str) -> str:
    return f"vectorized by Inductor{f': {width} elements at a time' * (width != '1')}" if vectors else SCALAR


def of_triton(kernel: data.KernelData, autotuner: object) -> data.KernelData:
    """The kernel with what Triton made of it, as far as what runs it still holds that: the levels of its code, and
    registers, spills, shared memory and occupancy."""
    launcher = next(iter(getattr(autotuner, "launchers", ())), None)
    results = getattr(autotuner, "compile_results", ())
    made = next((each.kernel for each in results if launcher is None or each.config == launcher.config), None)
    if made is None:
        return kernel
    asm = _levels(made)
    own = str(kernel.source).strip()
    files = {file: _lines_above(file, own) for file in set(re.findall(r'"([^"\n]+\.py)"', asm.get("ttir", "")))}
    ids = {number: line.id for number, line in enumerate(kernel.source.lines, 1)}

    def cause(file: str, line: int) -> str | None:
        above = files.get(file)
        return None if above is None else ids.get(line - above)

    lowered = {
        kind: data.TextData(
            tuple(data.LineData(each.text, each.id, each.origins) for each in text.lines), text.language
        )
        for kind, text in texts(asm, cause).items()
    }
    return replace(kernel, lowered={**kernel.lowered, **lowered}, facts=(*kernel.facts, *_facts(launcher, autotuner)))


def _levels(made: object) -> dict[str, str]:
    """A compiled kernel's levels; of one that is launched without Triton they are beside its code in Triton's cache."""
    if (asm := getattr(made, "asm", None)) is not None:
        return {kind: text for kind, text in asm.items() if isinstance(text, str)}
    binary = getattr(made, "cubin_path", None)
    beside = Path(binary).parent.glob(f"{Path(binary).stem}.*") if binary else ()
    return {each.suffix[1:]: each.read_text() for each in beside if each.suffix in (".ttir", ".ttgir", ".llir", ".ptx")}


def _lines_above(file: str, own: str) -> int | None:
    """How many lines of a file are above the kernel; None for a file that does not hold it."""
    try:
        text = Path(file).read_text(errors="replace")
    except OSError:
        return None
    return text.partition(own)[0].count("\n") if own and own in text else None


def _facts(launcher: Any, autotuner: Any) -> tuple[str, ...]:
    if (registers := getattr(launcher, "n_regs", None)) is None:
        return ()
    device = autotuner.device_props
    block = ThreadBlock(launcher.config.num_warps, device.warp_size or 32, launcher.shared or 0)
    return facts(Used(registers, 4 * (launcher.n_spills or 0)), block, device.cc)
