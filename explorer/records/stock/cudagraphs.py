"""CUDA graphs, where the program asked for them (mode="reduce-overhead", say): why Inductor runs a graph or a part of
it without one, and each recording of a watched program, with why it was recorded again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch._inductor import config
from torch._inductor.cudagraph_utils import check_for_mutation

from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Compile, Observation


def around_post_compile(seen: Observation, call: Call) -> Iterator[None]:
    yield
    graph: Any = call.args[0]
    settings = call.kwargs.get("graph_kwargs") or (call.args[3] if len(call.args) > 3 else {})
    if not config.triton.cudagraphs or seen.absent is not None:
        return
    if settings.get("cudagraphs"):
        seen.compile().event("CudagraphUsed")
        return
    info = graph.cudagraph_info
    found = [graph.disabled_cudagraphs_reason, *(info.cudagraph_fail_reasons if info is not None else ())]
    why = "; ".join(dict.fromkeys(_skip_reason(str(each)) for each in found if each))
    if "cuda" not in graph.device_types:
        devices = ", ".join(sorted(graph.device_types))
        why = f"it runs on {devices}, not on a GPU"
    seen.compile().event("CudagraphSkipped", why=why)


def _skip_reason(reason: str) -> str:
    return " ".join(reason.removeprefix("skipping cudagraphs due to ").split())


def around_partition(seen: Observation, call: Call) -> Iterator[None]:
    """Inductor splits the schedule into parts that can be recorded and parts that cannot."""
    yield
    if call.error is not None or not config.triton.cudagraphs:
        return
    scheduler, (partitions, signatures) = call.args[0], call.result
    if not any(node.is_gpu() for partition in partitions for node in partition):
        return
    for number, (partition, signature) in enumerate(zip(partitions, signatures, strict=True)):
        reasons: dict[str, list[str]] = {}
        for node in partition if signature.skip_cudagraph else ():
            reasons.setdefault(scheduler.should_partition(node) or "too few kernels", []).append(node.get_name())
        seen.compile().event(
            "CudagraphPart",
            number=number,
            of=len(partitions),
            operations=", ".join(node.get_name() for node in partition),
            why="; ".join(f"{why}: {', '.join(operations)}" for why, operations in reasons.items()),
        )


def before_record(seen: Observation, args: tuple[Any, ...]) -> None:
    """A graph is recorded: for the first time, or as no recording fits this call."""
    manager, inputs, function = args
    compile = _compile(seen, manager.id_to_compile_id.get(function))
    if compile is None:
        return
    node = manager.current_node
    known = (manager.roots if node is None else node.children)[function]
    reasons = []
    for recorded in known:
        status, why = recorded.check_invariants(inputs)
        if status.name != "SUCCESS":
            reasons.append(_skip_reason(why()))
    sizes = "; ".join(str(tuple(each.shape)) for each in inputs if hasattr(each, "shape"))
    compile.event(
        "CudagraphRecorded", function=function.id, mode=manager.id_to_mode[function].name.lower(), inputs=sizes,
        after="" if node is None else node.id.id, again="; ".join(dict.fromkeys(reasons)),
    )  # fmt: skip


def around_mutation(seen: Observation, call: Call) -> Iterator[None]:
    """Whether a graph writes to inputs that are neither parameters nor the memory of another CUDA graph."""
    yield
    manager, function, inputs = call.args
    compile = _compile(seen, manager.id_to_compile_id.get(function))
    if compile is None or not manager.non_cudagraph_managed_mutation_hint[manager._get_node_id()][function]:
        return
    why = check_for_mutation(manager.ids_to_funcs[function], inputs, manager._get_cuda_graph_recorded_tensor_checker())
    compile.event("CudagraphSkipped", why=_skip_reason(str(why)))


def before_skip(seen: Observation, args: tuple[Any, ...]) -> None:
    """Messages while a program runs; torch does not name the compile there."""
    if "re-recording limit" in args[0]:
        seen.compile().event("CudagraphSkipped", why=_skip_reason(args[0]))


def _compile(seen: Observation, id: Any) -> Compile | None:
    """None for one from before anybody watched."""
    try:
        return seen.compile_of(id)
    except KeyError:
        return None


HOOK = Hook(
    "cudagraphs",
    shows="why a graph, or a part of it, runs without CUDA graphs although the program asked for them, and each "
    "recording of a watched program with why it was recorded again",
    missing="whether CUDA graphs are used",
    checked=("2.13 CPU",),
    patches=(
        Patch("torch._inductor.output_code:CompiledFxGraph.post_compile", around_post_compile),
        Patch("torch._inductor.scheduler:Scheduler.graph_partition", around_partition),
        Patch("torch._inductor.cudagraph_trees:CUDAGraphTreeManager.record_function", before=before_record),
        Patch(
            "torch._inductor.cudagraph_trees:CUDAGraphTreeManager._update_non_cudagraph_managed_mutation",
            around_mutation,
        ),
        Patch("torch._inductor.cudagraph_trees:log_cudagraph_skip_and_bump_counter", before=before_skip),
    ),
)
