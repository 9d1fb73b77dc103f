"""Training on several processes: the collectives that a graph calls, and where DDPOptimizer splits a graph so that the
gradients of one part are sent while the backward of the next still runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import distributed, fx

from explorer.records.data.dynamo import collective, names
from explorer.records.stock.breaks import place
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Observation


def around_backend(seen: Observation, call: Call) -> Iterator[None]:
    """Dynamo passes its graph to the backend. A process group may be gone when somebody reads the record."""
    for node in call.args[1].graph.nodes:
        operator = _overload(node.target)
        if operator is not None and collective(str(operator)):
            seen.compile().event("Collective", node=f"fx.{node.name}", at=place([node]), **_facts(node, operator))
    yield


def _overload(target: object) -> torch._ops.OpOverload | None:
    if isinstance(target, torch._ops.OpOverloadPacket):
        target = getattr(target, target.overloads()[0])
    return target if isinstance(target, torch._ops.OpOverload) else None


def _facts(node: fx.Node, operator: torch._ops.OpOverload) -> dict[str, str]:
    """How values are combined, and among which processes, as the operator's schema names its arguments."""
    parameters = (argument.name for argument in operator._schema.arguments)
    given = {**dict(zip(parameters, node.args, strict=False)), **node.kwargs}
    facts = {"reduce": str(given["reduce_op"])} if "reduce_op" in given else {}
    group: Any = given.get("group_name")
    if not (distributed.is_available() and distributed.is_initialized()):
        return facts
    if isinstance(group, str):
        groups: Any = distributed.distributed_c10d
        try:
            group = groups._resolve_process_group(group)
        except (RuntimeError, ValueError):
            return facts
    if not isinstance(group, distributed.ProcessGroup):
        return facts
    ranks = distributed.get_process_group_ranks(group)
    return facts | {"backend": distributed.get_backend(group), "ranks": ", ".join(map(str, ranks))}


def around_split(seen: Observation, call: Call) -> Iterator[None]:
    """DDPOptimizer puts what Dynamo captured into buckets, from the end, and compiles each for itself."""
    yield
    optimizer, module = call.args[:2]
    buckets = getattr(optimizer, "buckets", None)
    if not buckets:
        return
    compile = seen.compile()
    sources = {str(node.target): node for node in module.graph.nodes if node.op == "placeholder"}
    compile.event(
        "DDPSplit", buckets=len(buckets), cap=optimizer.bucket_bytes_cap, first_cap=optimizer.first_bucket_cap
    )
    for number, bucket in enumerate(buckets):
        nodes = list(reversed(bucket.nodes))  # they are collected backwards
        extended = bucket.opcount_increased_to_capture_external_output
        compile.event(
            "DDPBucket",
            number=number,
            bytes=bucket.size,
            parameters=", ".join(_name(sources.get(name), name) for name in reversed(bucket.params)),
            sizes=", ".join(_bytes(sources.get(name)) for name in reversed(bucket.params)),
            operations=len(nodes),
            first=place(nodes),
            last=place(nodes[::-1]),
            extended=extended or "",
        )


def _name(node: fx.Node | None, written: str) -> str:
    source = getattr(node, "_dynamo_source", None)
    if source is None:
        return written
    name = source.name
    called = names(str(name() if callable(name) else name))
    return called.partition(".")[2] or called  # without the module itself


def _bytes(node: fx.Node | None) -> str:
    value = node.meta.get("example_value") if node is not None else None
    return str(value.untyped_storage().nbytes()) if isinstance(value, torch.Tensor) else ""


HOOK = Hook(
    "distributed",
    shows="the collectives of a graph with their process groups, and the buckets that DDPOptimizer splits it into",
    missing="process groups of collectives, and why DDP splits a graph",
    checked=(),
    patches=(
        Patch("torch._dynamo.output_graph:OutputGraph.call_user_compiler", around_backend),
        Patch("torch._dynamo.backends.distributed:DDPOptimizer.compile_fn", around_split),
    ),
)
