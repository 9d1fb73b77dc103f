"""A file that reproduces one of our C++ kernels: its source, inputs, and what eager computes for the same nodes."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import dropwhile
from typing import Any

import torch

from explorer.ir.graph import is_random
from explorer.ir.record import BufferData, CompileData, HalfData, KernelData, RecordData
from explorer.records.repro.graph import TENSOR, header, hints_of
from explorer.records.repro.program import (
    CannotReproduce,
    GraphLine,
    Printed,
    function,
    number,
    printed,
    size_of,
    tensor_type,
)

_FLAG = re.compile(
    r"-O[0-3]|-march=[\w.-]+|-mprefer-vector-width=\d+|-fPIC|-f[a-z-]+|-ffp-contract=\w+|-std=c\+\+\d+|-pipe"
)
"""Of a recorded command; no other word of it is written: a compiler takes flags that run programs."""

MAIN = """
def build():
    folder = tempfile.mkdtemp()
    library = os.path.join(folder, "kernel.so")
    named = os.environ.get("CXX") or next(filter(shutil.which, ("g++", "c++", "clang++")), "")
    compiler = shlex.split(named) or [sys.executable, "-m", "ziglang", "cc"]
    command = [*compiler, *FLAGS, "-shared", "-x", "c++", "-", "-o", library, "-lm"]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    return getattr(ctypes.CDLL(library), FUNCTION)


if __name__ == "__main__":
    kernel = build()
    buffers = made()
    expected = reference(*(buffers[name].clone() for name in READ))
    passed = [ctypes.c_void_p(buffers[each].data_ptr()) if isinstance(each, str) else ctypes.c_long(each)
              for each in ARGUMENTS]
    kernel(*passed, ctypes.c_int(torch.get_num_threads()))
    wrong = 0
    for name, value in zip(WRITTEN, expected, strict=True):
        close = torch.allclose(buffers[name].double(), value.double(), rtol=1e-3, atol=1e-4, equal_nan=True)
        far = (buffers[name].double() - value.double()).abs().nan_to_num(0.0)
        print(name, tuple(value.shape), value.dtype, "largest difference from eager:",
              far.max().item() if far.numel() else 0.0, "" if close else "NOT CLOSE")
        wrong += not close
    runs = 100
    started = time.perf_counter()
    for _ in range(runs):
        kernel(*passed, ctypes.c_int(torch.get_num_threads()))
    print(f"one launch takes {(time.perf_counter() - started) / runs * 1e6:.2f} us, the call from Python included")
    sys.exit(1 if wrong else 0)
"""


def repro_kernel(record: RecordData, compile: CompileData, half: HalfData, kernel: KernelData) -> str:
    """The file's text. Raises CannotReproduce with what cannot be written, and why."""
    if compile.engine != "explorer" or kernel.language != "cpp":
        raise CannotReproduce(f"{kernel.id} is not a C++ kernel of this compiler; only these and graphs can be written")
    if not kernel.arguments:
        raise CannotReproduce(f"the record does not say what {kernel.id} is called with: it is from an earlier version")
    hints, buffers = hints_of(compile), {each.name: each for each in half.buffers}
    written = [each.buffer for each in kernel.arguments if each.buffer and each.written]
    read = [each.buffer for each in kernel.arguments if each.buffer and not each.written]
    graph = _graph(compile, half)
    names = {call.id: call.name for call in graph.calls}
    reads = {_node(buffers, names, each, kernel): each for each in read}
    targets = [_node(buffers, names, each, kernel) for each in written]
    calls = needed(graph, targets, reads)
    sizes = {each.name: size for each in graph.calls if (size := size_of(each.type, hints)) is not None}
    _refuse_unsteady(half, kernel, calls, targets)
    arguments = [repr(each.buffer) if each.buffer else str(number(each.size, hints)) for each in kernel.arguments]
    return "\n".join(
        [
            *header(record, f"the kernel {kernel.id} ({kernel.function})", ()),
            "import ctypes\nimport math\nimport operator\nimport os\nimport shlex\nimport shutil",
            "import subprocess\nimport sys\nimport tempfile\nimport time\n\nimport torch",
            TENSOR,
            f"FUNCTION = {kernel.function!r}",
            f"FLAGS = {_flags(half)!r}",
            f"ARGUMENTS = [{', '.join(arguments)}]",
            f"READ = {list(reads.values())!r}",
            f"WRITTEN = {written!r}",
            "SOURCE = (",
            *(f"    {line!r}" for line in _source(compile, half, kernel)),
            ")",
            "",
            "",
            "def made():",
            "    return {",
            *(f"        {each!r}: {_made(buffers[each], hints)}," for each in dict.fromkeys([*read, *written])),
            "    }",
            "",
            "",
            function("reference", calls, list(reads), targets, sizes),
            "",
            MAIN,
        ]
    )


def _refuse_unsteady(half: HalfData, kernel: KernelData, calls: Sequence[GraphLine], targets: Sequence[str]) -> None:
    """Raises CannotReproduce where eager could not write what the kernel writes."""
    items = half.schedule.items if half.schedule is not None else ()
    own = {id for item in items if item.id == kernel.id for id in item.operations}
    if any(each.id in own and each.target == "scatter" for each in half.operations):
        raise CannotReproduce(f"{kernel.id} writes into existing memory, whose contents a record does not hold")
    holders = Counter(each.origins[0] for each in half.buffers if each.origins)
    for call in calls:
        if call.name in targets and holders[call.id] > 1:
            raise CannotReproduce(f"{call.name} is written in several steps, of which {kernel.id} is one")
        if call.name in targets and call.type.startswith("("):
            raise CannotReproduce(f"{call.name} has several values")
        name = ast.unparse(call.call.func).split(".") if isinstance(call.call, ast.Call) else []
        found: Any = torch.ops
        for part in name if len(name) == 3 else ():
            found = getattr(found, part, None)
        if is_random(found) or name[1:2] in (["empty"], ["new_empty"]):
            raise CannotReproduce(f"{call.name} is random, or never written: eager has other values")


def _graph(compile: CompileData, half: HalfData) -> Printed:
    """The ATen graph that the half was made from, as the last stage that printed it has it."""
    for stage in reversed(compile.stages):
        heads = (f"graph {half.name}(",) if stage.body is not None else ()
        if stage.body is None or not any(line.text.startswith(heads) for line in stage.body.lines):
            continue
        found = printed(stage.body, half.name)
        if any(call.id.startswith("aten.") for call in found.calls):
            return found
    raise CannotReproduce(f"the record holds no text of the graph of {half.name}")


def _node(buffers: Mapping[str, BufferData], names: Mapping[str, str], buffer: str, kernel: KernelData) -> str:
    """The node whose value a buffer holds."""
    origins = buffers[buffer].origins if buffer in buffers else ()
    if not origins or origins[0] not in names:
        raise CannotReproduce(f"{kernel.id} uses {buffer[:60]!r}, which holds no value of the graph")
    return names[origins[0]]


def needed(graph: Printed, targets: Sequence[str], given: Iterable[str]) -> tuple[GraphLine, ...]:
    """The calls that compute the targets from what is given and from sizes, in order. Raises CannotReproduce where more
    is needed."""
    known, wanted, waiting = {call.name: call for call in graph.calls}, set[str](), list(targets)
    stop = set(given)
    while waiting:
        name = waiting.pop()
        if name in wanted or name in stop or name not in known:
            continue
        if known[name].type.startswith("size "):
            continue
        if known[name].call is None:
            raise CannotReproduce(f"{targets[0]} is computed from {name}, which the kernel does not read")
        wanted.add(name)
        waiting += known[name].reads()
    return tuple(call for call in graph.calls if call.name in wanted)


def _made(buffer: BufferData, hints: Mapping[str, int]) -> str:
    tensor = tensor_type(buffer.type, hints)
    if tensor is None or tensor.device != "cpu":
        raise CannotReproduce(f"{buffer.name} is {buffer.type[:60]!r}: only tensors on the CPU can be made")
    return tensor.made()


def _source(compile: CompileData, half: HalfData, kernel: KernelData) -> list[str]:
    """The lines of the kernel and of what is written before all kernels, which ends where the first begins."""
    first = half.kernels[0].source.lines[0].text
    for stage in reversed(compile.stages):
        if stage.name == "generate" and stage.half == half.name and stage.body is not None:
            lines = [line.text for line in stage.body.lines]
            if first in lines:
                before = dropwhile(lambda line: line.startswith("//"), lines[: lines.index(first)])  # of all kernels
                return [f"{line}\n" for line in (*before, *(line.text for line in kernel.source.lines))]
    raise CannotReproduce(f"the record does not hold what {kernel.id} needs besides its own source")


def _flags(half: HalfData) -> list[str]:
    command = half.builds[0].command if half.builds else ()
    return [word for word in command if _FLAG.fullmatch(word) and not word.startswith("-fplugin")]
