"""Inductor's generated code: each kernel with the node behind each line, the wrapper, and the order of calls."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import sympy
from torch._inductor.dependencies import MemoryDep, StarDep
from torch._inductor.virtualized import V

from explorer.ir import record as data
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.lowering import Causes, hint_of
from explorer.records.stock.memory import planned
from explorer.records.stock.observation import Compile, Half, Observation

EQUAL_LINES = "lines of the kernel that read alike"
BOILERPLATE = "synthetic:stock's frame of a kernel"
WRAPPER = "synthetic:stock's wrapper"
_NAME = re.compile(r"[A-Za-z_]\w*")
_SOURCE_NODES = re.compile(r"Source Nodes: \[([^]]*)\]")
_LIBRARY = re.compile(r"extern_kernels\.|torch\.ops\.|\baten\.|_ops\.")
_QUOTED = re.compile(r"(r?'''|r?\"\"\")(?P<code>.*?)\1\)?", re.DOTALL)


class Generating:
    """What code generation has written: the calls in order, sources by name, causes by line."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        """(function, its operations), or ("", the library call)."""
        self.sources: dict[str, str] = {}
        self.lines: defaultdict[str, dict[tuple[str, str], None]] = defaultdict(dict)
        """By a line's text: the operation and the node that were being written."""


CODEGEN = "torch._inductor.graph:GraphLowering.codegen"


def around_codegen(seen: Observation, call: Call) -> Iterator[None]:
    compile = seen.compile()
    half, lowering = compile.half, call.args[0]
    if half is None or half.generating is not None or type(lowering).__name__ != "GraphLowering":
        yield
        return
    half.generating = Generating()
    yield
    if call.error is None:
        ended, written = perf_counter(), call.result[0]
        code = written.value if hasattr(written, "value") else str(written)
        calls = tuple(_calls(half, lowering))
        compile.stage(CODEGEN, "generate", lambda: _texts(compile, half, calls, code), ended=ended, half=half.name)


def around_kernel(seen: Observation, call: Call) -> Iterator[None]:
    yield
    half = seen.compile().half
    if half is not None and half.generating is not None and isinstance(call.result, str):
        named = [each for node in call.args[2] if hasattr(node, "get_nodes") for each in node.get_nodes()]
        operations = dict.fromkeys(half.named(each.get_name()) for each in named)
        half.generating.calls.append((call.result, tuple(operations)))


def around_source(seen: Observation, call: Call) -> Iterator[None]:
    half = seen.compile().half
    if half is not None and half.generating is not None:
        name, body = call.args[1:3] if len(call.args) > 2 else (call.kwargs["kernel_name"], call.kwargs["kernel_body"])
        half.generating.sources[name] = body
    yield


def around_library_call(seen: Observation, call: Call) -> Iterator[None]:
    half = seen.compile().half
    if half is not None and half.generating is not None:
        half.generating.calls.append(("", (half.named(call.args[1].get_name()),)))
    yield


def in_loops() -> bool:
    """Whether a line that is written now is one of a kernel's loops. Most are not."""
    return getattr(V.kernel, "current_node", None) is not None


def before_line(seen: Observation, args: tuple[object, ...]) -> None:
    node: Any = V.kernel.current_node
    half = seen.compile().half
    if half is None or half.generating is None or len(node.get_nodes()) != 1:
        return
    line = args[1]
    text = (line if isinstance(line, str) else getattr(line, "line", "")).strip()
    if text:
        causes: Causes | None = half.causes
        body = getattr(V.interpreter, "current_node", None)
        id = causes.of.get(body, "") if causes is not None and body is not None else ""
        half.generating.lines[text][half.named(node.get_name()), id] = None


@dataclass(frozen=True)
class OperationGroup:
    """Operations that share loops: the buffers between them alone, and the bytes and arithmetic of a run."""

    operations: tuple[str, ...]
    internal: tuple[str, ...]
    bytes: int
    flops: int


CallOf = tuple[str, tuple[str, ...], tuple[OperationGroup, ...]]
"""(function, its operations, the same by their loops); a library call has neither a function nor loops."""


def _calls(half: Half, lowering: object) -> Iterator[CallOf]:
    facts = _Facts(half, lowering)
    for function, ids in half.generating.calls:
        groups = facts.groups(ids) if function else []
        yield function, ids, tuple(OperationGroup(g, facts.internal(g), facts.bytes(g), facts.flops(g)) for g in groups)


def _texts(compile: Compile, half: Half, calls: tuple[CallOf, ...], code: str) -> dict[str, data.TextData]:
    """The half's kernels, wrapper and memory plan; gives all its code as the body of a stage."""
    generating: Generating = half.generating
    count = sum(len({kernel.id.partition(".")[0] for kernel in each.kernels}) for each in compile.halves.values())
    for function, ids, groups in calls:
        if not function:
            half.items.append(data.ItemData(ids[0], "extern", ids))
            continue
        id, count = f"k{count}", count + 1
        language, source = source_of(generating.sources.get(function, ""))
        own = id if len(groups) == 1 else f"{id}.1"
        text = _kernel_text(compile, generating, own, ids, language, source)
        for number, group in enumerate(groups, 1):
            each = id if len(groups) == 1 else f"{id}.{number}"
            half.items.append(data.ItemData(each, "kernel", group.operations, internal=group.internal))
            shown = text if number == 1 else _elsewhere(own, function, each, text.language)
            half.kernels.append(
                data.KernelData(each, function, language, shown, group.operations, group.bytes, group.flops)
            )
    half.wrapper = _wrapper_text(compile, half, code)
    half.memory = planned(half)
    lines = tuple(line for text in (*(kernel.source for kernel in half.kernels), half.wrapper) for line in text.lines)
    return {"body": data.TextData(lines, half.kernels[0].source.language if half.kernels else "python")}


def _elsewhere(first: str, function: str, id: str, language: str) -> data.TextData:
    """stock's C++ backend puts several groups of loops into one function where nothing has to run between them."""
    note = f"loops of their own in the function {function}, shown under {first}"
    mark = "//" if language == "cpp" else "#"
    return data.TextData((data.LineData(f"{mark} {note}", f"{id}:1", (BOILERPLATE,)),), language)


class _Facts:
    """What Inductor knows of the operations of a half once it has generated code."""

    def __init__(self, half: Half, lowering: Any) -> None:
        self._operations = {operation.id: operation for operation in half.operations}
        self._half = half
        removed = {*lowering.removed_buffers, *lowering.inplaced_to_remove}  # of the second, another takes the memory
        self._removed = {half.named(name) for name in removed}
        self._uses: dict[str, Any] = {}
        self._bodies: dict[str, Any] = {}
        self._group: dict[str, int] = {}
        for number, group in enumerate(lowering.scheduler.nodes):
            for node in group.get_nodes():
                self._group[half.named(node.get_name())] = number
                self._bodies[half.named(node.get_name())] = getattr(node, "_body", None)
                self._uses[half.named(node.get_name())] = node.read_writes

    def groups(self, ids: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Operations of one generated function by the loops that they share."""
        found: dict[int, tuple[str, ...]] = {}
        for id in ids:
            group = self._group.get(id, -1)
            found[group] = (*found.get(group, ()), id)
        return list(found.values())

    def internal(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """The buffers that never go through memory."""
        found: dict[str, None] = {}
        for id in ids:
            if (operation := self._operations.get(id)) is not None:
                found.update(dict.fromkeys((*operation.reads, *operation.writes)))
        return tuple(name for name in found if name in self._removed)

    def bytes(self, ids: tuple[str, ...]) -> int:
        """What goes through memory at least: each place that a loop reads or writes, once."""
        found: dict[tuple[str, str], int] = {}
        for uses in (self._uses[id] for id in ids if id in self._uses):
            for use in (*uses.reads, *uses.writes):
                if isinstance(use, (MemoryDep, StarDep)) and self._half.named(use.name) not in self._removed:
                    place = use.name, str(use.index) if isinstance(use, MemoryDep) else "all"
                    found[place] = max(found.get(place, 0), _moved(use))
        return sum(found.values())

    def flops(self, ids: tuple[str, ...]) -> int:
        """Arithmetic of the loop bodies, each operation at every point."""
        total = 0
        for body in (self._bodies.get(id) for id in ids):
            if body is not None:
                points = 1
                for size in (size for sizes in body.sizes for size in sizes):
                    points *= int(V.graph.sizevars.optimization_hint(size, fallback=1))
                total += points * sum(count for name, count in body.op_counts.items() if name not in _FREE)
        return total


def _moved(use: MemoryDep | StarDep) -> int:
    """The bytes of one access of a loop. Where the index is itself read, each point may be elsewhere in the buffer."""
    points = use.get_numel()
    if isinstance(use, MemoryDep) and use.is_indirect():
        points = sympy.Min(points, sympy.Mul(*use.size))
    return (hint_of(points) or 0) * int(V.graph.get_dtype(use.name).itemsize)


def source_of(body: str) -> tuple[str, str]:
    """(language, source) of a kernel from its definition in the wrapper."""
    found = _QUOTED.search(body)
    language = "cpp" if "cpp_pybinding" in body or "#include" in body else "triton"
    return language, (found["code"] if found else body).strip("\n")


def _kernel_text(
    compile: Compile, generating: Generating, id: str, operations: tuple[str, ...], language: str, source: str
) -> data.TextData:
    """The kernel's lines with their causes. Of a line that stands in it several times for different causes, those of
    the operation whose lines are around it count."""
    own = set(operations)
    causes = [
        [cause for cause in generating.lines.get(text.strip(), ()) if cause[0] in own and _NAME.search(text)]
        for text in source.splitlines()
    ]
    alone = {
        n: message[0][0] for n, message in enumerate(causes, 1) if len({operation for operation, _ in message}) == 1
    }
    lines = []
    for number, text in enumerate(source.splitlines(), 1):
        message = causes[number - 1]
        around = [cause for cause in message if cause[0] == _nearest(alone, number)]
        origins = _causes(message)
        if len(origins) > 1 and around:
            origins = _causes(around)
            compile.infer(EQUAL_LINES, f"{id}:{number}")
        if not origins and text.strip():
            origins = (BOILERPLATE,) if text.lstrip().startswith(_FRAME) else operations
        lines.append(data.LineData(text, f"{id}:{number}", origins))
    return data.TextData(tuple(lines), "cpp" if language == "cpp" else "python")


def _nearest(alone: dict[int, str], number: int) -> str:
    """The operation of the nearest line that is one operation's alone."""
    nearest = min(alone, key=lambda line: abs(line - number), default=0)
    return alone.get(nearest, "")


def _causes(causes: list[tuple[str, str]]) -> tuple[str, ...]:
    """The nodes behind a line, or where these are not known its operations."""
    return tuple(dict.fromkeys(node or operation for operation, node in causes))


_FRAME = (
    "#include",
    "import ",
    "from ",
    "//",
    "@triton",
    "triton_helpers.",
    "inductor_cpu_",
    "std::atomic<int> inductor",
)
"""How lines begin that every kernel of stock has."""


def _wrapper_text(compile: Compile, half: Half, text: str) -> data.TextData:
    """The wrapper without the kernels' sources; a line's causes are the kernels, calls, buffers and inputs it names."""
    generating: Generating = half.generating
    kernels: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for kernel in half.kernels:
        if not kernels[kernel.function]:
            text = text.replace(generating.sources[kernel.function].strip(), f"...  # {kernel.id}, shown by itself")
        kernels[kernel.function] += (kernel.id,)
    buffers = {buffer.name.removeprefix(half.prefix): buffer.name for buffer in half.buffers}
    calls = {name: each.id for each in half.operations if each.kind == "extern" for name in each.writes}
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        names = _NAME.findall(line)
        touched = tuple(dict.fromkeys(buffers[name] for name in names if name in buffers))
        called = tuple(dict.fromkeys(calls[name] for name in touched if name in calls))
        if line.lstrip().startswith("#"):
            found = _SOURCE_NODES.search(line)
            origins = tuple(f"fx.{name}" for name in found[1].split(", ") if name in compile.fx) if found else ()
        elif launched := tuple(dict.fromkeys(id for name in names if name in kernels for id in kernels[name])):
            origins = launched
        else:
            origins = called if called and _LIBRARY.search(line) else touched
        lines.append(data.LineData(line, f"{half.part}:{number}", origins or ((WRAPPER,) if line.strip() else ())))
    return data.TextData(tuple(lines), "python")


_FREE = frozenset(
    "load store get_index constant index_expr to_dtype store_reduction output indirect_indexing masked ops".split()
)
"""Operations of a loop body that compute nothing."""


HOOK = Hook(
    "kernels",
    shows="generated code, the node behind each line of a kernel, the wrapper, the order of calls, the memory plan",
    missing="no generated code",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch(CODEGEN, around_codegen),
        Patch("torch._inductor.codegen.cpp:CppScheduling.define_kernel", around_kernel),
        Patch("torch._inductor.codegen.triton:TritonScheduling.define_kernel", around_kernel),
        Patch("torch._inductor.codegen.wrapper:PythonWrapperCodegen.define_kernel", around_source),
        Patch("torch._inductor.scheduler:Scheduler.codegen_extern_call", around_library_call),
        Patch("torch._inductor.utils:IndentedBuffer.writeline", before=before_line, when=in_loops),
    ),
)
