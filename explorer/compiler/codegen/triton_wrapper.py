"""The Python function that runs one half on a card: as the CPU's wrapper, but kernels are launched on a stream.

The runtime supplies each kernel function (programs, stream, *arguments), `current_stream`, `empty_strided`, `device`
where the program does not say it, and `UNALIGNED` and `unaligned`, for inputs that do not start at a multiple of 16
bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from explorer.compiler.codegen.storage import POOL
from explorer.compiler.codegen.triton_kernel import Workspace
from explorer.compiler.codegen.wrapper import Wrapper, variable
from explorer.core.origin import origin
from explorer.ir.loops import Buffer
from explorer.ir.program import Argument, Kernel


@dataclass
class TritonWrapper(Wrapper):
    """Writes `call(inputs) -> tuple`."""

    pools: tuple[str, str] = ("POOLS[current_stream()]", "defaultdict(list)")
    pointers: dict[str, str] = field(default_factory=dict)
    """The variable that holds the address of an input."""

    def prepare(self, kernels: Iterable[Kernel]) -> None:
        """The stream, and the addresses of the inputs that kernels touch."""
        self.constants["defaultdict"] = defaultdict
        kernels = list(kernels)
        if not kernels:
            return
        touched = {a.buffer for kernel in kernels for a in pointers(kernel)}
        roots = {self.storage.root(name) for name in touched if name in self.buffers}
        inputs = [e.name for e in self.loops.inputs if isinstance(e, Buffer) and e.name in roots]
        with origin(*(inputs or [a.buffer for a in kernels[0].arguments if a.buffer])):
            self.body.line("stream = current_stream()")
        for name in inputs:
            with origin(name):
                self.pointers[name] = f"{variable(name)}_at"
                self.body.line(f"{self.pointers[name]} = {variable(name)}.data_ptr()")
        if inputs:
            with origin(*inputs), self.body.indented(f"if ({' | '.join(self.pointers.values())}) & UNALIGNED:"):
                self.body.line("return unaligned(inputs)")

    def workspace(self, workspace: Workspace, ids: tuple[str, ...]) -> None:
        """Memory for the partial results of the next launches."""
        with origin(*ids):
            self.body.line(
                f"{workspace.name} = empty_strided(({self._text(workspace.numel)},), (1,), {workspace.dtype})"
            )

    def start(self, kernel: Kernel, ids: tuple[str, ...]) -> None:
        """Launch one kernel."""
        given = [self._text(kernel.constants["programs"]), "stream"]
        by_address = pointers(kernel)
        for argument in kernel.arguments:
            if argument.buffer is None:
                given.append(self._text(argument.size))
            elif argument in by_address:
                given.append(self._address(argument.buffer))
            else:
                given.append(f"{variable(self.storage.tensor(argument.buffer))}.item()")
        with origin(*ids):
            self.body.line(f"{kernel.function}({', '.join(given)})")

    def _address(self, buffer: str) -> str:
        if buffer not in self.buffers:
            return f"{buffer}.data_ptr()"
        base = self.storage.base(buffer)
        if base == POOL:
            offset = self.storage.offset(buffer)
            return f"pool + {offset}" if offset else "pool"
        self._allocate(base)
        return self.pointers.get(base, f"{variable(base)}.data_ptr()")


def pointers(kernel: Kernel) -> list[Argument]:
    """The arguments that are addresses; the others are numbers."""
    types = kernel.constants["types"]
    return [argument for argument, type in zip(kernel.arguments, types, strict=True) if type.startswith("*")]
