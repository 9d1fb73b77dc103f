"""How many cycles one iteration of each loop of a kernel takes, as llvm-mca predicts for this machine's processor."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator

from explorer.compiler.runtime.child import Child
from explorer.core.text import count
from explorer.ir.record import KernelData, LineData
from explorer.records.data.instructions import mnemonic

TOOL = "llvm-mca"
BOTTLENECKS = "-bottleneck-analysis"
SECONDS, OUTPUT_BYTES = 20.0, 4 * 2**20

ABSENT = f"no throughput: {TOOL}, which predicts it, is not installed; it is part of LLVM (apt install llvm)"
MODEL = f"by {TOOL} for {{}}, assuming that all data is in the L1 cache and that no loop ends early"
PROCESSORS = {
    "native": "the processor of this machine",
    "icelake-server": "an Intel Ice Lake server, since it does not know this machine's processor",
}
"""Asked in turn: what a tool takes a processor for that is newer than the tool may lack its instructions."""

_LABEL = re.compile(r"(\.?L\w+):")
_JUMP = re.compile(r"\s+j\w+\s+(\.?L\w+)\s*")
_REGION = re.compile(r"^\[\d+\] Code Region - (\d+)$", re.M)
_COUNTED = re.compile(r"^(Iterations|Instructions|Total Cycles):\s+(\d+)$", re.M)
_PRESSURE = re.compile(r"(Resource Pressure|Data Dependencies):?\s+\[ ([\d.]+)% \]")


def lines(kernel: KernelData) -> Iterator[str]:
    """A sentence for each innermost loop of a kernel's assembly, and one that says what is missing."""
    asm = kernel.lowered.get("asm")
    if asm is None:
        yield f"{kernel.id}: no throughput: the record has no assembly for a CPU"
        return
    found = innermost(asm.lines)
    if not found:
        yield f"{kernel.id} {kernel.function}: no throughput: no loop is left in its assembly"
        return
    if (path := shutil.which(TOOL)) is None:
        yield ABSENT
        return
    regions = [[each.text for each in asm.lines[first : last + 1] if mnemonic(each.text)] for first, last in found]
    marked = (f"# LLVM-MCA-BEGIN {n}\n" + "\n".join(region) + "\n# LLVM-MCA-END" for n, region in enumerate(regions))
    given = "\n".join(marked) + "\n"
    for processor in PROCESSORS:
        asked = (path, f"-mcpu={processor}", "-instruction-info=false", "-resource-pressure=false", BOTTLENECKS)
        ended = Child(asked, text=given, output_bytes=OUTPUT_BYTES).wait(SECONDS)
        if ended.ok:
            break
    else:
        yield f"{kernel.id}: no throughput: {TOOL} {' '.join(str(ended).split())}"
        return
    yield f"{kernel.id} {kernel.function}: throughput {MODEL.format(PROCESSORS[processor])}:"
    parts = _REGION.split(ended.output)
    text = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    for number, (first, last) in enumerate(found):
        place = _place_of(asm.lines[first : last + 1], kernel)
        yield f"  {_summary(text.get(number, ''), len(regions[number]))}: {place}"


def innermost(asm: tuple[LineData, ...]) -> list[tuple[int, int]]:
    """First and last line of each loop that has no other in it: from a label to the jump back to it."""
    labels: dict[str, int] = {}
    loops: dict[int, int] = {}
    for at, line in enumerate(asm):
        if (label := _LABEL.match(line.text)) is not None:
            labels[label[1]] = at
        elif (jump := _JUMP.match(line.text)) is not None and jump[1] in labels:
            loops[labels[jump[1]]] = at
    chosen: list[tuple[int, int]] = []
    for first, last in sorted(loops.items(), key=lambda loop: loop[1] - loop[0]):
        apart = all(last < other or first > end for other, end in chosen)
        if apart and not any(mnemonic(line.text) in ("ret", "retq") for line in asm[first : last + 1]):
            chosen.append((first, last))
    return sorted(chosen)


def _summary(output: str, instructions: int) -> str:
    known = {name: int(number) for name, number in _COUNTED.findall(output)}
    if not known.get("Iterations") or not known.get("Total Cycles"):
        return f"{count(instructions, 'instruction')}, not predicted"
    cycles = known["Total Cycles"] / known["Iterations"]
    share = dict(_PRESSURE.findall(output))
    waits = {"for results": "Data Dependencies", "for execution units": "Resource Pressure"}
    most = max(waits, key=lambda each: float(share.get(waits[each], 0)))
    held = f", waiting most {most}" if float(share.get(waits[most], 0)) else ""
    each = known["Instructions"] / known["Total Cycles"]
    return f"{cycles:.3g} cycles per iteration, {count(instructions, 'instruction')}, {each:.2g} a cycle{held}"


def _place_of(lines: tuple[LineData, ...], kernel: KernelData) -> str:
    """The loop of the kernel that most lines are of, and where it begins."""
    rows = {line.id: at for at, line in enumerate(kernel.source.lines) if line.id}
    named = Counter(rows[id] for line in lines for id in line.origins if id in rows)
    if not named:
        return "no line of the kernel"
    most = named.most_common(1)[0][0]
    texts = [line.text for line in kernel.source.lines]
    depth = len(texts[most]) - len(texts[most].lstrip())
    pragma = texts[most].lstrip().startswith("#")
    above = range(most + 1, most + 2) if pragma else range(most, -1, -1)
    loop = next((n for n in above if _opens(texts[n], depth + 1 if n == most or pragma else depth)), most)
    return f"line {loop + 1}: {texts[loop].strip()}"


def _opens(text: str, below: int) -> bool:
    """Whether it is the head of a loop whose depth is smaller than that."""
    bare = text.lstrip()
    return bare.startswith(("for (", "for(")) and len(text) - len(bare) < below
