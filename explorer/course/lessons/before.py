"""Lesson 0: before bytecode was captured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from operator import add, mul, sub
from typing import Any

import torch

from explorer.course.compared import noded, showing
from explorer.course.puzzle import Answer, Puzzle, Score, Wrong, run
from explorer.show.record import Record

# before-1: define, then run

NODES = '''class Operation:
    """A node that is defined and not run: `function` of the values of `inputs`. A placeholder has no function."""

    def __init__(self, name, function=None, *inputs):
        self.name, self.function, self.inputs = name, function, inputs

    def __repr__(self):
        return f"{self.name}({', '.join(map(repr, self.inputs))})" if self.inputs else self.name
'''

Ran = tuple[float, list[str]]


def graphs(node: type[Any]) -> Iterator[tuple[str, Any, dict[Any, float], Ran]]:
    """What a graph is called, what is asked of it, what is fed, and what is right."""
    a, b = node("a"), node("b")
    total, product = node("total", add, a, b), node("product", mul, a, b)
    square = node("square", mul, total, total)
    both = node("both", add, square, node("less", sub, total, product))
    yield "a placeholder", a, {a: 2.0}, (2.0, [])
    yield "a sum beside a product that nobody asks for", total, {a: 2.0, b: 3.0}, (5.0, ["total"])
    yield "a square of the sum", square, {a: 2.0, b: 3.0}, (25.0, ["total", "square"])
    yield "three that read the sum", both, {a: 2.0, b: 3.0}, (24.0, ["total", "square", "product", "less", "both"])
    yield "a sum that is fed", square, {total: 4.0}, (16.0, ["square"])
    named = node("mul", mul, node("add", add, a, b), node("add", add, a, a))
    yield "two sums of one name", named, {a: 2.0, b: 3.0}, (20.0, ["add", "add", "mul"])
    zero = node("zero", sub, a, a)
    yield "a value of 0", node("sum", add, zero, zero), {a: 2.0}, (0.0, ["zero", "sum"])
    yield "a sum that is fed as 0", square, {total: 0.0}, (0.0, ["square"])


def evaluated(asked: object, feed: dict[object, float]) -> Callable[..., Any]:
    """The value of a node as a function of what is fed."""

    def program(*fed: object) -> Any:
        values = dict(zip(feed, fed, strict=True))

        def value(node: Any) -> Any:
            if node not in values:
                values[node] = node.function(*[value(each) for each in node.inputs])
            return values[node]

        return value(asked)

    return program


def operation(number: int, record: Record) -> str:
    """Where a captured graph has its operation of this number, or its last."""
    names = [node.name for node in record.graphs[0].graph.nodes if node.op.startswith("call")] if record.graphs else []
    return noded(record, names[min(number, len(names) - 1)]) if names else "graphs"


def check_run(answer: Answer) -> tuple[Score, ...]:
    for name, asked, feed, right in graphs(answer["Operation"]):
        what = f"{name}, {asked} with {feed}"
        tensors = tuple(torch.tensor(each) for each in feed.values())
        with answer.at("right", what, showing(evaluated(asked, feed), tensors, partial(operation, 0))):
            given = dict(feed)
            found = answer["evaluate"](asked, given)
            if not isinstance(found, tuple | list) or len(found) != 2:
                answer.fail(f"{what}: return a pair, the value and the list of names; yours returns {found!r}")
            if (found[0], list(found[1])) != right:
                yours = f"yours gives {found[0]} and ran {list(found[1])}"
                answer.fail(f"{what}: {yours}, right is {right[0]} and {right[1]}")
            if given != feed:
                answer.fail(f"{what}: `evaluate` changed `feed`; the next run would find values of this one in it")
    return ()


def _run(found: str = "node not in values", values: str = "dict(feed)", after: str = "ran.append(node.name)") -> str:
    return f"""def evaluate(node, feed):
    values, ran = {values}, []
    def value(node):
        if {found}:
            values[node] = node.function(*[value(each) for each in node.inputs])
            {after}
        return values[node]
    return value(node), ran
"""


RUN = Puzzle(
    id="before-1",
    title="Define, then run",
    task=(
        "Write `evaluate(node, feed)`. It returns a pair: the value of `node`, and the list of the names of the nodes "
        "that ran, in order. Only what `node` needs runs, each node once, its inputs before it from left to right. "
        "`feed` has values of nodes, which then do not run; leave `feed` as it is. Two nodes may have the same name."
    ),
    minutes=8,
    names=("evaluate",),
    given=NODES,
    starter="def evaluate(node, feed):\n    return ...\n",
    solution=_run(),
    wrong=(
        Wrong(_run(found="node not in feed"), "right", "yours gives 25.0 and ran ['total', 'total'"),
        Wrong(_run(values="feed"), "right", "`evaluate` changed `feed`"),
        Wrong(_run(after="ran.insert(0, node.name)"), "right", "yours gives 25.0 and ran ['square'"),
        Wrong(_run().replace("return value(node), ran", "return value(node)"), "right",
              "a pair, the value and the list of names; yours returns 2.0"),
        Wrong(_run(found="not values.get(node)"), "right", "and ran ['zero', 'zero', 'sum']"),
        Wrong(_run(values="{each.name: number for each, number in feed.items()}").replace("[node]", "[node.name]")
              .replace("node not in", "node.name not in"), "right", "yours gives 25.0 and ran ['add', 'mul']"),
        Wrong("def evaluate(node, feed):\n    return node.function(*map(feed.get, node.inputs)), [node.name]\n",
              "right", "TypeError on a placeholder"),
    ),
    hints=(
        "The value of a node is its function of the values of its inputs: a function that calls itself.",
        "A node with two readers is asked for twice. Keep what was computed, in a dict of this run.",
        "values = dict(feed); compute a node only if it is not in values, and then append its name.",
    ),
    check=check_run,
    lines=16,
)  # fmt: skip

# before-2: what is sent

PLACED = """# A placed graph is a list of (name, device, inputs), each after its inputs:
placed = [
    ("x", "worker", []),
    ("w", "ps", []),
    ("product", "worker", ["x", "w"]),
    ("loss", "worker", ["product", "w"]),
    ("step", "ps", ["w", "loss"]),
]
"""


PLACED_FILE = "<placed graph>"


def written(graph: list[tuple[str, str, list[str]]]) -> Callable[..., Any]:
    """A placed graph as a function: each node adds its inputs."""
    lines = (f"    {name} = {' + '.join(['start', *inputs])}  # on {device}\n" for name, device, inputs in graph)
    names: dict[str, Any] = {}
    run(f"def placed(start):\n{''.join(lines)}    return {graph[-1][0]}\n", PLACED_FILE, names)
    made: Callable[..., Any] = names["placed"]
    return made


def line(number: int, record: Record) -> str:
    return record.link("source", "f0", element=f"{PLACED_FILE}:{number}")


def check_sends(answer: Answer) -> tuple[Score, ...]:
    source = answer.random
    cases: dict[str, list[tuple[str, str, list[str]]]] = {
        "one node": [("x", "ps", [])],
        "two on one device": [("x", "ps", []), ("y", "ps", ["x"])],
        "one sent to another device": [("x", "ps", []), ("y", "worker", ["x"])],
        "two readers on another device": [("x", "ps", []), ("y", "worker", ["x"]), ("z", "worker", ["x", "y"])],
        "the graph above": answer["placed"],
    }
    for number in range(8):
        made: list[tuple[str, str, list[str]]] = []
        for at in range(3 + number):
            inputs = source.sample([name for name, _, _ in made], source.randrange(min(at, 3) + 1))
            made.append((f"n{at}", source.choice(("ps", "worker", "worker2")), inputs))
        cases[f"random graph {number}"] = made
    for what, graph in cases.items():
        with answer.at("right", what, showing(written(graph), (torch.ones(2),), partial(line, 1))):
            place = {name: device for name, device, _ in graph}
            right = sorted({(each, on) for _, on, inputs in graph for each in inputs if place[each] != on})
            found = sorted(answer["sends"](graph))
            if found != right:
                yours, theirs = Counter(map(repr, found)), Counter(map(repr, right))
                value = next(iter([*(yours - theirs), *(theirs - yours)]), "")
                at = next((number for number, node in enumerate(graph, 2) if repr(node[0]) in value), 1)
                answer.show = showing(written(graph), (torch.ones(2),), partial(line, at))
                answer.fail(f"{what}: yours sends {found}, right is {right}\n{graph}")
    return ()


def _sends(value: str = "(each, device)", when: str = "place[each] != device", kind: str = "{}") -> str:
    return f"""def sends(graph):
    place = {{name: device for name, device, _ in graph}}
    return {kind[0]}{value} for name, device, inputs in graph for each in inputs if {when}{kind[1]}
"""


SENDS = Puzzle(
    id="before-2",
    title="What is sent",
    task=(
        "A graph is cut by placement, and a value that another device reads is sent there: once to each device, "
        "however many nodes read it there. Return the set of pairs (name of the value, device that it is sent to)."
    ),
    minutes=6,
    names=("sends",),
    given=PLACED,
    starter="def sends(graph):\n    return ...\n",
    solution=_sends(),
    wrong=(
        Wrong(_sends(kind="[]"), "right", "two readers on another device"),
        Wrong(_sends(when="True"), "right", "two on one device"),
        Wrong(_sends(value="(each, place[each])"), "right", "one sent to another device"),
        Wrong(_sends(value="(name, device)"), "right", "one sent to another device: yours sends [('y', 'worker')]"),
    ),
    hints=(
        "Look at each input of each node: where is it, and where is the node?",
        "A dict from names to devices answers the first. A set keeps one of equal pairs.",
        "{(each, device) for name, device, inputs in graph for each in inputs if place[each] != device}",
    ),
    check=check_sends,
    lines=12,
)

# before-3: a gradient that is late

GIVEN = """# A worker computes `gradient(w)` at the weights that it was sent. When its answer comes, the weights have
# changed `delay` times since. `late` runs `steps` updates of w with gradients that are each `delay` updates old, and
# returns the list of w after each update. While there are no weights so old, the first ones take their place.
"""


def _late(weights: str, start: str = "[w]", step: str = "ws[-1] - rate * gradient(old)") -> str:
    return f"""def late(gradient, w, rate, delay, steps):
    ws = {start}
    for step in range(steps):
        old = {weights}
        ws.append({step})
    return ws[1:]
"""


RIGHT = "ws[max(step - delay, 0)]"


def reference(gradient: Callable[[float], float], w: float, rate: float, delay: int, steps: int) -> list[float]:
    seen = [w]
    for step in range(steps):
        seen.append(seen[-1] - rate * gradient(seen[max(step - delay, 0)]))
    return seen[1:]


def check_late(answer: Answer) -> tuple[Score, ...]:
    random = answer.random
    cases = [(2.0, 0.5, delay, 6) for delay in (0, 1, 2, 5, 9)]
    cases += [(random.uniform(-3, 3), random.uniform(0.1, 1.2), random.randrange(4), 7) for _ in range(8)]
    for slope in (1.0, -0.5):
        gradient = partial(mul, slope)
        for w, rate, delay, steps in cases:
            what = f"gradient {slope:g} * w, w = {w:.3g}, rate {rate:.3g}, delay {delay}, {steps} steps"
            right = reference(gradient, w, rate, delay, steps)

            args = (gradient, torch.tensor(w), rate, delay, steps)
            with answer.at("right", what, showing(reference, args, partial(operation, 0))):
                yours = [float(each) for each in answer["late"](gradient, w, rate, delay, steps)]
                if len(yours) != steps:
                    answer.fail(f"{what}: {len(yours)} weights, {steps} are expected: one after each update")
                for number, (found, expected) in enumerate(zip(yours, right, strict=True), 1):
                    if abs(found - expected) > 1e-9 * max(1.0, abs(expected)):
                        answer.show = showing(reference, args, partial(operation, 3 * number - 1))
                        answer.fail(f"{what}: after update {number} yours is {found:.6g}, right is {expected:.6g}")
    return ()


LATE = Puzzle(
    id="before-3",
    title="A gradient that is late",
    task=(
        "An asynchronous worker computes its gradient from weights that are `delay` updates old. Write the updates, "
        "and return the weights after each. The first `delay` updates use the weights at the start."
    ),
    minutes=8,
    names=("late",),
    given=GIVEN,
    starter=_late("...", step="..."),
    solution=_late(RIGHT),
    wrong=(
        Wrong(_late("ws[-1]"), "right", "delay 1, 6 steps: after update 2"),
        Wrong(_late("ws[max(step - delay - 1, 0)]"), "right", "delay 0, 6 steps: after update 2"),
        Wrong(_late("ws[step - delay]"), "right", "IndexError on gradient 1 * w, w = 2, rate 0.5, delay 2"),
        Wrong(_late(RIGHT, step="ws[-1] + rate * gradient(old)"), "right", "delay 0, 6 steps: after update 1"),
        Wrong(_late(RIGHT, step="old - rate * gradient(old)"), "right", "delay 1, 6 steps: after update 2"),
        Wrong(_late(RIGHT, start="[w, w]"), "right", "7 weights, 6 are expected"),
    ),
    hints=(
        "Keep all weights in a list, the first ones included. Which of them did the worker see?",
        "In update number `step`, counted from 0, the newest weights are `ws[step]`. Those that are `delay` updates "
        "old are `delay` places before.",
        "`old = ws[max(step - delay, 0)]`, and the new weights are `ws[-1] - rate * gradient(old)`.",
    ),
    check=check_late,
    lines=12,
)

PUZZLES = (RUN, SENDS, LATE)
