"""Autotuning, where the program asked for it (mode="max-autotune", say): the candidates for each operation, their times
and the one that was taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch._inductor.ir import MultiTemplateBuffer
from torch._inductor.virtualized import V

from explorer.records.stock.breaks import place
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Observation

MOST = 200
"""Candidates of one operation that are kept, fastest first."""


def around_selection(seen: Observation, call: Call) -> Iterator[None]:
    """Inductor selects an implementation for the node that it lowers. With a Triton template it measures later, once
    it knows what could be fused."""
    choices = call.kwargs["choices"] if "choices" in call.kwargs else call.args[2]
    node = V.graph.current_node
    at = {"node": node.name, "at": place([node])} if node is not None else {}
    seen.tuned_for |= {id(choice): at for choice in choices}
    outer, seen.tuned = seen.tuned, []
    yield
    found, seen.tuned = seen.tuned or [], outer
    for fields in found:
        chosen = _chosen(call, fields["candidates"])
        seen.compile().event("Autotuned", **fields, **({"chosen": chosen} if chosen else {}))


def _chosen(call: Call, candidates: str) -> str:
    """The name of the candidate that was taken, "" where that is not decided yet."""
    if call.error is not None:
        return ""
    if isinstance(call.result, tuple):
        return "" if call.result[1] is None else call.result[1].name
    # torch 2.11 returns the node alone: that of the fastest candidate, or one that keeps the choice open.
    return "" if isinstance(call.result.data.data, MultiTemplateBuffer) else candidates.split(maxsplit=2)[1]


def before_benchmark(seen: Observation, args: tuple[object, ...]) -> None:
    """Not for candidates whose times are in a cache."""
    seen.benchmarks += 1


def around_measuring(seen: Observation, call: Call) -> Iterator[None]:
    before = seen.benchmarks
    yield
    timings: Mapping[Any, float] | None = call.result
    if call.error is not None or not timings:
        return
    name, inputs = call.args[1:3]
    fastest = sorted(timings, key=lambda choice: timings[choice])
    lines = (f"{timings[each] / 1e3:.3e} {each.name} {_about(each)}".rstrip() for each in fastest[:MOST])
    fields = {
        **seen.tuned_for.get(id(fastest[0]), {}),
        "operation": name,
        "inputs": ", ".join(f"{each.get_dtype()}{list(each.get_size())}".removeprefix("torch.") for each in inputs),
        "candidates": "\n".join(lines),
        "count": str(len(timings)),
        "seconds": f"{call.seconds:.6f}" if seen.benchmarks > before else "",
    }
    if seen.tuned is not None:
        seen.tuned.append(fields)
    else:
        seen.compile().event("Autotuned", **fields)


def _about(choice: object) -> str:
    return " ".join(str(getattr(choice, "description", "") or "").split())


HOOK = Hook(
    "autotuning",
    shows="the candidates for each operation that was autotuned, their times, and the one that was taken",
    missing="candidates and times of autotuning",
    checked=(),
    patches=(
        Patch("torch._inductor.select_algorithm:AlgorithmSelectorCache.__call__", around_selection),
        Patch("torch._inductor.select_algorithm:AlgorithmSelectorCache.do_autotuning", around_measuring),
        Patch("torch._inductor.select_algorithm:AlgorithmSelectorCache.autotune", before=before_benchmark),
    ),
)
