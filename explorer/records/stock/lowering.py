"""Inductor's lowering: from a graph of ATen operators to buffers and loops, why a value is in memory, and which node
caused which line of a loop body.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import fx
from torch._inductor.virtualized import V

from explorer.compiler.lower import reasons
from explorer.core.reasons import CATALOGUE, reason
from explorer.core.text import count
from explorer.ir import record as data
from explorer.ir.graph import DTYPE_NAMES
from explorer.records.check.process import interpreter_put_back
from explorer.records.stock.fxgraphs import ID, saved_traced, signature, traced
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Half, Observation

REALIZED = reason(
    "stock.realized",
    "Inductor materializes it",
    "Inductor's lowering realizes the value at the named place; torch records no further reason.",
)
RESULT = reason(
    "stock.result",
    "a library call returns it",
    "A library operator returns the tensor or writes into it.",
)
NO_TENSOR = reason(
    "stock.no_data",
    "it holds no data",
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


HALF = "torch._inductor.compile_fx:fx_codegen_and_compile"
RUN = "torch._inductor.graph:GraphLowering.run"


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
    graph = saved_traced(compile, module.graph, name)
    compile.stage(
        HALF, "inductor's input", lambda: {"shown": traced(compile, graph, half.name, name)}, ended=ended,
        half=half.name,
    )  # fmt: skip
    half.signature = signature(module.graph)
    if seen.calls is not None:
        seen.calls.begins_to_compile()
        yield
    else:
        with interpreter_put_back():
            yield
    if not compile.running:  # the backward is compiled when it is first run
        compile.seconds += call.seconds
        if seen.calls is not None:
            seen.calls.compiled(call.seconds, compile.id)
    if call.error is not None:
        message = f"{type(call.error).__name__}: {call.error}"
        compile.stage(HALF, "inductor", half=half.name, error=message)
        if not compile.running:  # nobody runs a backward in its place
            compile.error, compile.raises = message, True
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
    graph = saved_traced(compile, lowering.module.graph, half.part)
    nodes = [node for node in graph.graph.nodes if node.op != "output"]
    half.ids = {node.name: node.meta[ID] for node in nodes}
    half.computed = tuple(node.meta[ID] for node in nodes if node.op.startswith("call"))
    compile.stage(
        RUN, "post-grad graph", lambda: {"shown": traced(compile, graph, half.name, half.part)}, ended=ended,
        half=half.name,
    )  # fmt: skip
    yield
    if call.error is not None:
        return
    ended = perf_counter()
    half.target = " and ".join(sorted({str(device) for device in lowering.device_types})) or "cpu"
    _buffers(half, lowering)
    body = data.TextData(tuple(_lines(half, lowering)), "python")
    compile.stage(RUN, "lower", lambda: {"body": body}, ended=ended, half=half.name)


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
        code, detail = (RESULT, "") if hasattr(getattr(buffer, "layout", None), "size") else (NO_TENSOR, "")
    elif getattr(loops, "reduction_type", None):
        code, detail = reasons.REDUCTION, str(loops.reduction_type)
    elif asked in _ASKED_BY:
        code, detail = _ASKED_BY[asked], ""
    else:
        code, detail = REALIZED, asked
    return data.WhyData(code, CATALOGUE[code].title, detail)


def layout(value: object) -> str:
    """The type of a buffer as one reads it: f32[4, 8] strides (8, 1)."""
    found: Any = getattr(value, "maybe_get_layout", lambda: None)() if not isinstance(value, torch.Tensor) else value
    if found is None or not hasattr(found, "size") or not hasattr(found, "dtype"):
        return type(getattr(value, "layout", value)).__name__
    sizes = ", ".join(map(str, found.size))
    strides = f" strides ({', '.join(map(str, found.stride))})" if getattr(found, "stride", None) is not None else ""
    kind = DTYPE_NAMES.get(found.dtype, str(found.dtype))
    return f"{kind}[{sizes}]{strides}"


def _bytes(buffer: object) -> int:
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
    yield data.LineData(f"lowered {half.name}: {count(len(lowering.operations), 'operation')}")
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


def called(operation: object) -> str:
    """The library operator that an operation calls, or what else it is."""
    name = getattr(operation, "python_kernel_name", None) or getattr(operation, "op_overload", None)
    return str(name) if name else type(operation).__name__


HOOK = Hook(
    "lowering",
    shows="buffers with why they are in memory, and the loop-level IR of each operation",
    missing="generated code without buffers and operations",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch(HALF, around_half),
        Patch(RUN, around_run),
        Patch("torch._inductor.ir:StorageBox.realize", around_realize),
    ),
)


class Causes:
    """The nodes that are being traced into a loop body now, innermost last, and what each body's operations are for."""

    def __init__(self) -> None:
        self.now: list[str] = []
        self.of: WeakKeyDictionary[fx.Node, str] = WeakKeyDictionary()


def causes_of(half: Half) -> Causes:
    if half.causes is None:
        half.causes = Causes()
    found: Causes = half.causes
    return found


def node_of(half: Half, value: Any) -> str:
    """The id of the node that a value of the IR was lowered for: the first of its origins."""
    first = next((each for each in value.origins if hasattr(each, "name")), None)
    return half.ids.get(first.name, "") if first is not None else ""


def around_body(seen: Observation, call: Call) -> Iterator[None]:
    half = seen.compile().half
    if half is None or not half.lowered:
        yield
        return
    buffer = call.args[0]
    now = causes_of(half).now
    now.append(node_of(half, getattr(buffer, "data", buffer)))
    yield
    now.pop()


def around_loader(seen: Observation, call: Call) -> Iterator[None]:
    yield
    half = seen.compile().half
    if half is not None and half.lowered and callable(call.result) and (id := node_of(half, call.args[0])):
        call.result = _entering(call.result, id, causes_of(half).now)


def _entering(loader: Callable[..., object], id: str, now: list[str]) -> Callable[..., Any]:
    def load(*args: object, **kwargs: object) -> Any:
        now.append(id)
        try:
            return loader(*args, **kwargs)
        finally:
            now.pop()

    return load


def around_operation(seen: Observation, call: Call) -> Iterator[None]:
    yield
    half = seen.compile().half
    if half is None or half.causes is None:
        return
    causes: Causes = half.causes
    copied = getattr(V.interpreter, "current_node", None)  # a body made from another body
    id = causes.of.get(copied, "") if copied is not None else ""
    id = id or (causes.now[-1] if causes.now else "")
    results = call.result if isinstance(call.result, (tuple, list)) else (call.result,)
    for result in results:
        made = getattr(result, "node", None)
        if id and isinstance(made, fx.Node):
            causes.of.setdefault(made, id)


CAUSES_HOOK = Hook(
    "causes",
    shows="the node behind each operation of a loop body, and so behind each line of a kernel",
    missing="a line of a kernel leads to the kernel's operation and from there to all its nodes",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._inductor.ir:ComputedBuffer.get_default_sizes_body", around_body),
        Patch("torch._inductor.ir:Pointwise.make_loader", around_loader),
        Patch("torch._inductor.loop_body:CountOps._default", around_operation),
    ),
)


STORES = ("store", "store_reduction", "partial_accumulate", "device_assert_async")
"""Operations whose value nobody uses."""


class Bodies:
    """What bodies read like; one that fusion left as it was is not written out again."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, list[data.LineData]]] = {}

    def lines(self, half: Half, operation: str, body: object) -> list[data.LineData]:
        if id(body) not in self.known:
            self.known[id(body)] = body, list(_body_lines(half, operation, body))
        return self.known[id(body)][1]


def _body_lines(half: Half, operation: str, body: Any) -> Iterator[data.LineData]:
    loops = ", ".join(f"{name} in {size}" for name, size in body.var_ranges.items())
    yield data.LineData(f"      for {loops}:" if loops else "      once:", "", (operation,))
    yield from _statements(half, operation, body, body.root_block.graph, "          ")
    for name, block in body.subblocks.items():
        yield data.LineData(f"      {name}:", "", (operation,))
        yield from _statements(half, operation, body, block.graph, "          ")


def _statements(half: Half, operation: str, body: Any, graph: fx.Graph, indent: str) -> Iterator[data.LineData]:
    """Indices and constants stand where they are used. A line's cause is the operation where no node of it is known."""
    written: dict[fx.Node, str] = {}
    buffers = half.shown_buffers()
    count = 0

    def read(value: object) -> str:
        if isinstance(value, fx.Node):
            return written.get(value, value.name)
        if isinstance(value, (tuple, list)):
            return f"({', '.join(map(read, value))})"
        return buffers.get(value, value) if isinstance(value, str) else repr(value)

    for node in graph.nodes:
        if node.op == "call_module" and node.target == "get_index":
            written[node] = str(body.indexing_exprs[node.args[0]])
        elif node.op == "call_method" and node.target == "constant":
            written[node] = read(node.args[1])
        elif node.op in ("call_method", "call_module"):
            given = node.args[1:] if node.op == "call_method" else node.args
            arguments = ", ".join(read(each) for each in given if each is not None)
            cause = half.causes.of.get(node, "") if half.causes is not None else ""
            result = ""
            if node.target not in STORES:
                written[node], count = f"tmp{count}", count + 1
                result = f"{written[node]} = "
            yield data.LineData(f"{indent}{result}{node.target}({arguments})", "", (cause or operation,))
