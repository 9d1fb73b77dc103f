"""What compilers below say of the kernels: loops vectorised or not, registers, shared memory; and their assembly."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.core.text import count
from explorer.ir.record import KernelData, MnemonicData, RecordData
from explorer.show.view.instructions import intel, mnemonic

HELP = 44
"""Column from which on the help stands."""


def lines(record: RecordData) -> Iterator[str]:
    for compile in record.compiles:
        for half in compile.halves:
            for kernel in half.kernels:
                yield from (f"{compile.id} {kernel.id}: {said}" for said in of_kernel(kernel))


def of_kernel(kernel: KernelData) -> Iterator[str]:
    yield from kernel.facts
    if not kernel.remarks:
        return
    yield f"{len(kernel.vectorised)} of {count(len(kernel.remarks), 'innermost loop')} vectorised"
    known = {line.id: (number, line.text.strip()) for number, line in enumerate(kernel.source.lines, 1)}
    for id, said in kernel.remarks.items():
        number, text = known.get(id, (0, id))
        yield f"  line {number}: {text}  {said}"


def assembly(kernel: KernelData, known: dict[str, MnemonicData], *, syntax: str, explain: bool) -> Iterator[str]:
    """The lines of a kernel's assembly; each, if asked for, with what its instruction does."""
    for line in kernel.lowered["asm"].lines:
        shown = intel(line.text) if syntax == "intel" else line.text
        name = mnemonic(line.text)
        said = known[name].means if explain and name in known else ""
        yield f"{shown:<{HELP}}  ; {said}" if said else shown
