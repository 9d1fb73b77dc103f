"""What the compile time goes to: the functions of the program that capture went through, and layers that are compiled
alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from explorer.core.text import count, duration
from explorer.ir.record import CompileData, NodeData

SHOWN = 8
"""Functions that are named."""

ALIKE, LEAST = 3, 3
"""So many calls of a function make its graph a repeated one, if each left so many nodes."""

REGIONAL = (
    "known to help: compile the layer instead of the model (regional compilation), as in "
    "`for layer in model.layers: layer.compile()`; equal layers then share one compile. Not tried here"
)


def lines(compile: CompileData) -> Iterator[str]:
    if not compile.functions:
        return
    capture = sum(each.seconds for each in compile.functions)
    scope = ", of the steps that were kept" if compile.left_out.get("EvaluatorStep") else ""
    later = max(0.0, compile.seconds - capture)
    yield f"{compile.id} {compile.name}: capture took {duration(capture)}, by function (recording included{scope}):"
    for each in compile.functions[:SHOWN]:
        times = f", evaluated {each.calls} times" if each.calls > 1 else ""
        called = compile.name if each.function == compile.title else each.function
        alone = f", {duration(each.seconds)} without what it calls" if each.seconds < each.whole else ""
        yield f"  {duration(each.whole):>8}  {called}{times}{alone}"
    if len(compile.functions) > SHOWN:
        yield f"  and {count(len(compile.functions) - SHOWN, 'more function')}"
    whole = f", for all {count(compile.operations, 'operation')} together" if compile.operations > 1 else ""
    yield f"  everything after capture: {duration(later)}{whole}"
    for function, calls, nodes in repeated(compile):
        share = 100 * calls * nodes / max(1, compile.operations)
        each_time = f"{function} is captured {calls} times alike, {count(nodes, 'operation')} each time"
        yield f"  {each_time} ({share:.0f} % of the graph); {REGIONAL}"


def repeated(compile: CompileData) -> list[tuple[str, int, int]]:
    """Functions whose calls all leave the same operations on values of the same types: how many calls, and operations
    of one. Of those inside one another the outermost."""
    graph = next((stage.graph for stage in compile.stages if stage.graph is not None), None)
    if graph is None or not compile.steps:
        return []
    made: dict[int, list[NodeData]] = defaultdict(list)
    for node in graph.calls:
        step = compile.made.get(node.id, -1)
        if 0 <= step < len(compile.steps):
            made[compile.steps[step].activation].append(node)
    known: dict[object, int] = {}  # what a call left, and what the calls in it left, by a number of its own
    shapes: dict[int, int] = {}
    nodes: dict[int, int] = {}
    activations = compile.activations
    under: dict[int, list[int]] = defaultdict(list)
    for number, each in enumerate(activations):
        if 0 <= each.caller < number:
            under[each.caller].append(number)
    for number in range(len(activations) - 1, -1, -1):
        own = tuple((node.target, node.type) for node in made[number])
        shape = own, tuple(shapes[below] for below in under[number])
        shapes[number] = known.setdefault(shape, len(known))
        nodes[number] = len(own) + sum(nodes[below] for below in under[number])
    calls: dict[str, list[int]] = defaultdict(list)
    for number, each in enumerate(activations):
        if each.depth and nodes[number] >= LEAST:
            calls[each.function].append(number)
    alike = {
        name: numbers
        for name, numbers in calls.items()
        if len(numbers) >= ALIKE and len({shapes[n] for n in numbers}) == 1
    }
    inside = {name for name, numbers in alike.items() if any(_within(compile, n, set(alike) - {name}) for n in numbers)}
    return [(name, len(ns), nodes[ns[0]]) for name, ns in alike.items() if name not in inside]


def _within(compile: CompileData, number: int, functions: set[str]) -> bool:
    caller = compile.activations[number].caller
    for _ in compile.activations:  # a stranger's record may have callers in a circle
        if not 0 <= caller < len(compile.activations):
            return False
        if compile.activations[caller].function in functions:
            return True
        caller = compile.activations[caller].caller
    return False
