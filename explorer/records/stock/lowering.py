"""Inductor's lowering: from a graph of ATen operators to buffers and loops, and why a value is in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from time import perf_counter
from types import FrameType
from typing import Any

import torch
from torch import fx
from torch._inductor.virtualized import V

from explorer.compiler.lower import reasons
from explorer.core.reasons import CATALOGUE, reason
from explorer.ir import record as data
from explorer.ir.graph import DTYPE_NAMES
from explorer.records.stock.fxgraphs import signature, traced
from explorer.records.stock.graphs import sources_of
from explorer.records.stock.half import Half
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Observation

REALIZED = reason(
    "stock.realized",
    "Inductor materializes it",
    "Inductor's lowering realizes the value at the named place; torch records no further reason.",
)
RESULT = reason(
    "stock.result",
    "A library call returns it",
    "A library operator returns the tensor or writes into it.",
)
NO_TENSOR = reason(
    "stock.no_data",
    "It holds no data",
    "The buffer represents a tuple of results, a token or an effect.",
)
_ASKED_BY = {
    "realize_hint": reasons.MANY_READERS, "mark_reuse": reasons.HEAVY_AND_REUSED, "run_node": reasons.LARGE,
    "realize_input": reasons.LIBRARY_ARGUMENT, "require_strides": reasons.LAYOUT,
    "require_contiguous": reasons.LAYOUT, "output": reasons.OUTPUT, "copy_input": reasons.LIBRARY_ARGUMENT,
    "mutate_to": reasons.MUTATION, "index_put_": reasons.SCATTER, "scatter_reduce_": reasons.SCATTER,
    "index_impl_helper": reasons.GATHERED, "index_put_impl_": reasons.SCATTER,
    "mark_buffer_mutated": reasons.MUTATION,  "concat_linear": reasons.PART, "realize_into": reasons.PART,
}  # fmt: skip
"""Why a value is put in memory, by the function of Inductor that asks for it."""


def around_half(seen: Observation, call: Call) -> Iterator[None]:
    """Inductor compiles one graph: the forward, the backward, or all of an inference."""
    compile = seen.compile()
    module: fx.GraphModule = call.args[0]
    backward, inference = call.kwargs.get("is_backward"), call.kwargs.get("is_inference")
    name = "backward" if backward else "inference" if inference else "forward"
    taken = sum(known.partition("#")[0] == name for known in compile.halves)
    name = f"{name}#{taken + 1}" if taken else name
    half = compile.halves[name] = compile.half = Half(f"{compile.id}_{name}", name, "bw." if backward else "")
    ended = perf_counter()
    made = traced(compile, sources_of(compile), module.graph, half.name, name)
    compile.stage("inductor's input", ended=ended, half=half.name, shown=made)
    half.signature = signature(module.graph)
    yield
    if not compile.running:  # the backward is compiled when it is first run
        compile.seconds += call.seconds
        if seen.calls is not None:
            seen.calls.compiled(call.seconds, compile.id)
    if call.error is not None:
        said = f"{type(call.error).__name__}: {call.error}"
        compile.stage("inductor", half=half.name, error=said)
        if not compile.running:  # nobody runs a backward in its place
            compile.error, compile.raises = said, True
            seen.raised = call.error if seen.calls is None else None
    compile.half = None


def around_run(seen: Observation, call: Call) -> Iterator[None]:
    compile = seen.compile()
    lowering = call.args[0]
    half = compile.half
    if half is None or type(lowering).__name__ != "GraphLowering" or half.lowered:
        yield
        return
    half.lowered = True
    ended = perf_counter()
    made = traced(compile, sources_of(compile), lowering.module.graph, half.name, half.part)
    compile.stage("post-grad graph", ended=ended, half=half.name, shown=made)
    half.ids = {node.name: node.id for node in made.graph.nodes}
    half.computed = tuple(node.id for node in made.graph.nodes if node.op.startswith("call"))
    yield
    if call.error is not None:
        return
    ended = perf_counter()
    half.target = " and ".join(sorted({str(device) for device in lowering.device_types})) or "cpu"
    _buffers(half, lowering)
    body = data.TextData(tuple(_lines(half, lowering)), "python")
    compile.stage("lower", ended=ended, half=half.name, body=body)


def around_realize(seen: Observation, call: Call) -> Iterator[None]:
    frame: FrameType | None = sys._getframe(3)
    while frame is not None and frame.f_code.co_name in ("realize", "wrapper"):
        frame = frame.f_back
    yield
    half = seen.compile().half
    if half is not None and frame is not None and isinstance(call.result, str):
        half.realized.setdefault(call.result, frame.f_code.co_name)


def _buffers(half: Half, lowering: Any) -> None:
    names = set(lowering.get_output_names())
    for name, value in lowering.graph_inputs.items():
        id = half.ids.get(name)
        half.buffers.append(data.BufferData(name, layout(value), "input", (id,) if id else (), bytes=_bytes(value)))
    for name, value in lowering.constants.items():
        half.buffers.append(data.BufferData(name, str(value.dtype), "constant", (), bytes=value.nbytes))
    for buffer in lowering.buffers:
        operation = getattr(buffer, "get_defining_op", lambda: None)()
        loops = getattr(buffer, "data", None)
        kind = "loop" if loops is not None and type(buffer).__name__ == "ComputedBuffer" else "extern"
        why = _why(half, buffer, loops, names, kind)
        origins = half.origins(buffer if operation is None else operation)
        name = half.named(buffer.get_name())
        node = getattr(buffer, "get_origin_node", lambda: None)()
        if node is not None and node.name in half.ids:
            half.holds[buffer.get_name()] = half.ids[node.name]
        for changed in getattr(buffer, "get_mutation_names", tuple)():
            half.updates[buffer.get_name()] = changed
        half.buffers.append(data.BufferData(name, layout(buffer), kind, origins, why, bytes=_bytes(buffer)))


def _why(half: Half, buffer: Any, loops: Any, outputs: set[str], kind: str) -> data.WhyData:
    name = buffer.get_name()
    asked = half.realized.get(name, "")
    if name in outputs:
        code, detail = reasons.OUTPUT, ""
    elif kind == "extern":
        code, detail = (RESULT, "") if _has_data(buffer) else (NO_TENSOR, "")
    elif getattr(loops, "reduction_type", None):
        code, detail = reasons.REDUCTION, str(loops.reduction_type)
    elif asked in _ASKED_BY:
        code, detail = _ASKED_BY[asked], ""
    else:
        code, detail = REALIZED, asked
    return data.WhyData(code, CATALOGUE[code].title, detail)


def _has_data(buffer: Any) -> bool:
    return hasattr(getattr(buffer, "layout", None), "size")


def layout(value: Any) -> str:
    """The type of a buffer as one reads it: f32[4, 8] strides (8, 1)."""
    found: Any = getattr(value, "maybe_get_layout", lambda: None)() if not isinstance(value, torch.Tensor) else value
    if found is None or not hasattr(found, "size") or not hasattr(found, "dtype"):
        return type(getattr(value, "layout", value)).__name__
    sizes = ", ".join(map(str, found.size))
    strides = f" strides ({', '.join(map(str, found.stride))})" if getattr(found, "stride", None) is not None else ""
    kind = DTYPE_NAMES.get(found.dtype, str(found.dtype))
    return f"{kind}[{sizes}]{strides}"


def _bytes(buffer: Any) -> int:
    found = getattr(buffer, "maybe_get_layout", lambda: None)()
    if found is None or not hasattr(found, "size"):
        return 0
    count = 1
    for size in found.size:
        hint = hint_of(size)
        if hint is None:
            return 0
        count *= hint
    return count * int(found.dtype.itemsize)


def hint_of(size: Any) -> int | None:
    """A size as a number, by what the example had where it is symbolic."""
    try:
        return int(size)
    except TypeError:
        found = int(V.graph.sizevars.optimization_hint(size, fallback=-1))
        return found if found >= 0 else None


def _lines(half: Half, lowering: Any) -> Iterator[data.LineData]:
    """Each operation as the loop-level IR has it before anything is fused."""
    yield data.LineData(f"lowered {half.name}: {len(lowering.operations)} operations")
    for operation in lowering.operations:
        id, origins = half.named(operation.get_operation_name()), half.origins(operation)
        writes = ", ".join(half.named(each.get_name()) for each in operation.get_outputs())
        loops: Any = getattr(operation, "data", None)
        if hasattr(loops, "inner_fn_str"):
            over = " x ".join(map(str, operation.data.get_size()))
            reduced = getattr(loops, "reduction_ranges", ())
            what = f"{loops.reduction_type} over {' x '.join(map(str, reduced))}" if reduced else "pointwise"
            yield data.LineData(f"  {id}: {writes} = {what}, for each of {over or 1}", id, origins)
            for line in loops.inner_fn_str().splitlines():
                yield data.LineData(f"      {line}", "", (id,))
        else:
            yield data.LineData(f"  {id}: {writes} = {called(operation)}", id, origins)


def called(operation: Any) -> str:
    """The library operator that an operation calls, or what else it is."""
    name = getattr(operation, "python_kernel_name", None) or getattr(operation, "op_overload", None)
    return str(name) if name else type(operation).__name__


HOOK = Hook(
    "lowering",
    shows="buffers with why they are in memory, and the loop-level IR of each operation",
    missing="generated code without buffers and operations",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._inductor.compile_fx:fx_codegen_and_compile", around_half),
        Patch("torch._inductor.graph:GraphLowering.run", around_run),
        Patch("torch._inductor.ir:StorageBox.realize", around_realize),
    ),
)
