"""The assembly of each kernel function, every line linked to the C++ line it came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from explorer.compiler.runtime.compiler import LISTING_BYTES, Compiler
from explorer.core.origin import origin, synthetic
from explorer.core.text import LineWriter, Text
from explorer.ir.program import Generated

_LABEL = re.compile(r"^([A-Za-z_]\w*)(?:[.\w]*):")
_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_LOCAL = re.compile(r"^\.L\w+:")
_OPERATION = re.compile(r"^\s+[a-z]\w*")
_NOISE = re.compile(r"^\.(LV|LB|LF|LC|Letext|Ldebug|LASF|LLRL|LVUS|LLST)\w*:")

TO_ASSEMBLY = ("-g1", "-S", "-x", "c++", "-", "-o", "-")


def listing(
    generated: Generated, units: Sequence[Text], compiler: Compiler, flags: tuple[str, ...]
) -> Callable[[], Mapping[str, Mapping[str, Text]]]:
    """A function that compiles the units once more to text, when somebody wants to read it: {function: {"asm": Text}}.

    Lines that no C++ line accounts for are synthetic."""
    found: dict[str, Mapping[str, Text]] = {}

    def lowered() -> Mapping[str, Mapping[str, Text]]:
        if not found:
            functions = {kernel.function for kernel in generated.kernels}
            for text in units:
                run = compiler.run(*flags, *TO_ASSEMBLY, text=f"{text}\n", output_bytes=LISTING_BYTES)
                found.update(_functions(run.finish(len(text.lines)), text, functions))
        return found

    return lowered


def _functions(assembly: str, source: Text, functions: set[str]) -> dict[str, Mapping[str, Text]]:
    """Cut the compiler's output into the kernels' functions (OpenMP bodies, named after them, included)."""
    writers: dict[str, LineWriter] = {}
    current: LineWriter | None = None
    cause: tuple[str, ...] = ()
    for line in assembly.splitlines():
        if (label := _LABEL.match(line)) is not None:
            name = label[1]
            current = None
            if name in functions:
                current = writers.setdefault(name, LineWriter(f"{name}:asm", "gas"))
            cause = ()
        elif (where := _LOC.match(line)) is not None:
            number = int(where[1])
            known = source.lines[number - 1] if 0 < number <= len(source.lines) else None
            cause = (known.id,) if known is not None and known.id else ()
            continue
        if current is None or _NOISE.match(line):
            continue
        if label is not None or _LOCAL.match(line) or _OPERATION.match(line):
            with origin(*(cause or (synthetic("function prologue"),))):
                current.line(line.replace("\t", "    ").rstrip())
    return {name: {"asm": writer.finish()} for name, writer in writers.items()}
