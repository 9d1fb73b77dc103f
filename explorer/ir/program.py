"""Generated and built programs: kernels, the wrapper that calls them, and the machine that they are made for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import sympy
import torch

from explorer.core.origin import Origins
from explorer.core.reasons import Why
from explorer.core.text import Line, Text
from explorer.ir.loops import Axis, Size
from explorer.ir.schedule import MemoryPlan, Schedule


@dataclass(frozen=True, slots=True)
class Target:
    """`kind` "cpu", "cuda" or "hip"; `arch` the compute capability as a number ("90") or the AMD architecture."""

    kind: Literal["cpu", "cuda", "hip"]
    arch: str = ""

    def __str__(self) -> str:
        if self.kind == "cpu":
            return "cpu"
        return f"{self.kind}:{'sm_' if self.kind == 'cuda' else ''}{self.arch}"

    @classmethod
    def parse(cls, text: str) -> Target:
        """From "cpu", "cuda:sm_90" or "hip:gfx942". Raises ValueError that says what is accepted."""
        if text == "cpu":
            return CPU
        if match := re.fullmatch(r"cuda:sm_(\d{2,3})", text):
            return cls("cuda", match[1])
        if match := re.fullmatch(r"hip:(gfx[0-9a-f]{3,5})", text):
            return cls("hip", match[1])
        raise ValueError(f'no target {text!r}; expected "cpu", "cuda:sm_90" (or another sm_NN) or "hip:gfx942"')

    @property
    def is_here(self) -> bool:
        """Whether this machine runs what is compiled for it."""
        if self.kind == "cpu":
            return True
        if not torch.cuda.is_available():
            return False
        if self.kind == "hip":
            name = str(getattr(torch.cuda.get_device_properties(0), "gcnArchName", ""))
            return torch.version.hip is not None and name.partition(":")[0] == self.arch
        major, minor = torch.cuda.get_device_capability()
        return torch.version.hip is None and self.arch == f"{major}{minor}"


CPU = Target("cpu")


Language = Literal["cpp", "triton"]


@dataclass(frozen=True)
class BuildOptions:
    """How generated code is built and run. `cpp_flags`: optimization flags of the compiler. `cache_dir`: the folder of
    built kernels (None: the user's cache folder); `cache_bytes`: its maximum size. `threads`: of CPU code (None:
    torch.get_num_threads() at call time)."""

    cpp_flags: tuple[str, ...] = ("-O3", "-march=native")
    cache_dir: Path | None = None
    cache_bytes: int = 2**30
    threads: int | None = None


@dataclass(frozen=True)
class Generation:
    """What code generation takes: what runs, where it lives, for which machine."""

    schedule: Schedule
    plan: MemoryPlan
    target: Target = CPU
    options: BuildOptions = BuildOptions()


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a kernel: the pointer to `buffer` (its storage start), or the value of a size symbol.

    For C++ `base` names the tensor (or "pool") that the buffer lies in, `offset` bytes after its start.
    """

    name: str
    buffer: str | None = None
    size: Size | None = None
    written: bool = False
    base: str | None = None
    offset: int = 0


LoopKind = Literal["serial", "parallel", "vector", "parallel vector"]

LoopRole = Literal["row", "column", "reduced", "split"]
"""What a direction of a Triton tile is: its rows; its columns, where no row is reduced; what each row is reduced over;
and the programs that share a row."""


@dataclass(frozen=True, slots=True)
class TiledLoop:
    """A loop of a generated kernel: over the points of `axis`; with `tile`, over the starts of tiles of so many points;
    with `within`, over the points of one tile of so many. Threads or programs share a parallel loop, vector lanes a
    vector loop. `shared`: over the part of the axis that falls to one turn of a parallel loop around it. `role` is
    that of a direction of a Triton tile.

    `body` is in the order of the code. While that is written, it has what writes the statements between the loops.
    """

    axis: Axis
    kind: LoopKind = "serial"
    tile: int = 0
    within: int = 0
    shared: bool = False
    role: LoopRole | None = None
    body: tuple[TiledLoop | Callable[[], None], ...] = ()

    @property
    def size(self) -> Size:
        return sympy.Integer(self.within) if self.within else self.axis.size

    def around(self, *parts: TiledLoop | Callable[[], None]) -> TiledLoop:
        return replace(self, body=parts)

    def __str__(self) -> str:
        return f"{self.kind} {self.axis.symbol} < {self.size}{f', {self.tile} at a time' if self.tile > 1 else ''}"


def nested(loops: Iterable[TiledLoop | Callable[[], None]], depth: int = 0) -> Iterator[tuple[TiledLoop, int]]:
    """The loops in the order in which they begin, each with how many are around it."""
    for each in loops:
        if isinstance(each, TiledLoop):
            yield each, depth
            yield from nested(each.body, depth + 1)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One generated kernel. `function` is the symbol, equal for kernels with equal bodies; `id` is "k1".

    `bytes` and `flops` are what one call moves and computes at least, as size expressions. `loops` are the
    outermost ones, and `tiled` says why these and their tiles.
    """

    language: ClassVar[Language]

    id: str
    function: str
    source: Text
    arguments: tuple[Argument, ...]
    bytes: Size
    flops: Size
    origins: Origins
    loops: tuple[TiledLoop, ...]
    tiled: str


@dataclass(frozen=True, slots=True)
class CppKernel(Kernel):
    """`errors` is how many messages its checks can raise; with any, the function returns an int."""

    language = "cpp"

    errors: int


@dataclass(frozen=True, slots=True)
class BlockSize:
    """A constexpr parameter: the size of a tile in one direction, or how many programs share a row."""

    parameter: str
    size: int
    role: LoopRole


@dataclass(frozen=True, slots=True)
class TritonKernel(Kernel):
    """`types` is the signature, in order of the arguments; `blocks` are the constexpr parameters; `programs`, of
    `warps` each, is the size of the one-dimensional grid. `unaligned` names the pointers that may start anywhere."""

    language = "triton"

    types: tuple[str, ...]
    blocks: tuple[BlockSize, ...]
    programs: Size
    warps: int
    asserts: bool
    unaligned: tuple[str, ...]

    @property
    def constants(self) -> dict[str, int]:
        """What `blocks` are by the names of the parameters."""
        return {each.parameter: each.size for each in self.blocks}

    @property
    def pointers(self) -> list[Argument]:
        """The arguments that are addresses; the others are numbers."""
        return [each for each, type in zip(self.arguments, self.types, strict=True) if type.startswith("*")]


K = TypeVar("K", bound=Kernel)


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A C function that runs consecutive kernels in one call from Python: `long function(void** p, const long* n, int
    threads)`, with the pointers `buffers` in `p` and the sizes `sizes` in `n`. It returns 0, or 1 + the position in
    `errors` of the message that a failed check raises, with the exception's class."""

    function: str
    source: Text
    kernels: tuple[str, ...]
    buffers: tuple[str, ...]
    sizes: tuple[Size, ...]
    errors: tuple[tuple[type[Exception], str], ...] = ()


@dataclass(frozen=True)
class Generated:
    """The sources of one half: kernels, and the Python wrapper `call(inputs) -> tuple` that allocates and launches."""

    name: str
    target: str
    kernels: tuple[Kernel, ...]
    wrapper: Text
    inputs: int
    """How many values `call` takes; `outputs`: how many it gives."""
    outputs: int
    constants: Mapping[str, object]
    """Objects the wrapper names and does not create: operators, captured tensors."""
    prelude: Text = Text(())
    """What the kernels name besides the language, written before them in each translation unit."""
    entries: tuple[EntryPoint, ...] = ()
    externs: tuple[tuple[str, str], ...] = ()
    """The calls of library operators in the order in which `call` makes them: id, and name in `constants`."""
    options: BuildOptions = BuildOptions()

    def of(self, kind: type[K]) -> tuple[K, ...]:
        """The kernels that are of one language, which all are."""
        return tuple(kernel for kernel in self.kernels if isinstance(kernel, kind))

    def text(self) -> Text:
        """The loops of each function as comments, with why they are so, and then the sources."""
        kernels: dict[str, Kernel] = {}
        for kernel in self.kernels:
            kernels.setdefault(kernel.function, kernel)
        mark = "//" if self.target == "cpu" else "#"
        lines: list[Line] = []
        for kernel in kernels.values():
            head = f"{kernel.function}: {kernel.tiled}"
            loops = [f"{'  ' * depth}{loop}" for loop, depth in nested(kernel.loops, 1)]
            lines += [Line(f"{mark} {text}", "", kernel.origins) for text in (head, *loops)]
        lines += self.prelude.lines
        for kernel in kernels.values():
            lines += [*kernel.source.lines, Line("")]
        for entry in self.entries:
            lines += [*entry.source.lines, Line("")]
        return Text((*lines, *self.wrapper.lines), "cpp" if self.target == "cpu" else "python")


@dataclass(frozen=True, slots=True)
class BuildStep:
    """One tool invocation: its full command, where the result went, seconds, and whether a cache held it already."""

    tool: str
    command: tuple[str, ...]
    version: str
    output: str
    seconds: float
    cached: bool


@dataclass(frozen=True, slots=True)
class BuildFailed:
    """No kernel of a graph could be built; it runs eagerly."""

    TOTAL: ClassVar[str] = "builds failed"

    graph: str
    why: Why


class KernelObserver(Protocol):
    """Through whom a program's kernels and library calls are run one by one. `run` runs it and gives its result."""

    def kernel(self, id: str, run: Callable[[], int], written: Mapping[str, int]) -> int:
        """`written`: where the storage of each buffer that the kernel writes begins, by name."""

    def call(self, id: str, run: Callable[[], object]) -> Any: ...


@dataclass(frozen=True)
class Lowered:
    """What the compilers below made of a kernel function: the machine's texts by kind ("asm", or "ttir", "ttgir",
    "llir", "ptx", "sass"), what they remark on loops of its source, by the ids of lines; which of these are
    vectorized; and what they say of all of it."""

    texts: Mapping[str, Text]
    remarks: Mapping[str, str] = field(default_factory=dict)
    vectorized: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


Around = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class Program:
    """A half that is built. `call` takes the flat inputs and returns the flat outputs; None where the target is absent.
    A backward's holds each input no longer than it needs it: given an iterator, it frees them as it runs.

    `lowered` says what became of each kernel function.
    """

    generated: Generated
    call: Callable[[Iterable[Any]], tuple[Any, ...]] | None
    steps: tuple[BuildStep, ...]
    lowered: Callable[[], Mapping[str, Lowered]]
    profile: Callable[[Sequence[Any]], Mapping[str, float]] | None = None
    """Runs once and returns seconds by id of kernel or extern call."""
    stepwise: Callable[[Sequence[Any], KernelObserver], tuple[Any, ...]] | None = None
    """Runs once, kernel by kernel, by way of a `KernelObserver`; None where kernels run on a GPU."""
    marked: Callable[[Sequence[Any], Around], tuple[Any, ...]] | None = None
    """Runs once, each kernel and library call inside a context of its id."""
    release: Callable[[], object] = bool
    """Frees the memory pool that is kept between calls."""

    def text(self) -> Text:
        lines = []
        for step in self.steps:
            cached = " (cached)" if step.cached else ""
            lines.append(Line(f"{step.tool} {step.version}  {step.seconds:.3f} s{cached}  -> {step.output}"))
            lines.append(Line(f"  $ {' '.join(step.command)}"))
        if self.call is None:
            lines.append(Line(f"not run: target {self.generated.target} is not on this machine"))
        return Text(tuple(lines), "text")
