"""Lesson 8: passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import fx

import explorer
from explorer.compiler.autograd import TRACE
from explorer.course import compared
from explorer.course.puzzle import Answer, Puzzle, Score, Show, Wrong, explained
from explorer.ir.graph import Graph
from explorer.show.record import Record

aten = torch.ops.aten


def calls(graph: fx.Graph) -> int:
    return sum(node.op == "call_function" for node in graph.nodes)


# passes-1: common subexpressions


def programs() -> Iterator[tuple[str, Callable[..., Any], int]]:
    """(name, function, the fewest nodes that are right)"""
    yield "the same product twice", lambda x, y: x * 2 + x * 2, 2
    yield "two different products", lambda x, y: x * 2 + x * 3, 3
    yield "operands the other way round", lambda x, y: (x + y) - (y + x), 3
    yield "a repeated chain", lambda x, y: (x * y).exp() + (x * y).exp(), 3
    yield "sums over other dimensions", lambda x, y: x.sum(0) + x.sum(1), 3
    yield "sums with and without keepdim", lambda x, y: x.sum(0, keepdim=True) * x.sum(0), 3
    yield "two draws", lambda x, y: torch.rand_like(x) - torch.rand_like(x), 3
    yield "a chain in a chain", lambda x, y: ((x + 1) * (x + 1)) - ((x + 1) * (x + 1)), 3


def dropped(whole: fx.Graph, left: fx.Graph, record: Record) -> str:
    """Where a record's trace has the first node of `whole` that is not in `left`."""
    names = {node.name for node in left.nodes}
    return compared.noded(record, next((node.name for node in whole.nodes if node.name not in names), ""), "trace")


def check_cse(answer: Answer) -> tuple[Score, ...]:
    x, y = torch.arange(9.0).view(3, 3) / 4, torch.ones(3, 3) * 1.5
    least = sum(fewest for _, _, fewest in programs())
    cases: list[tuple[str, Graph, fx.Graph, Show]] = []
    for name, function, _ in programs():
        graph = TRACE(compared.captured(function, x, y)).forward
        copy = graph.copy()
        show = compared.showing(function, (x, y), partial(dropped, graph.graph, copy))
        cases.append((name, graph, copy, show))
        with answer.at("compiles", name, show):
            answer["cse"](copy)
    for name, graph, copy, show in cases:
        with answer.at("verified", name, show):
            copy.lint()
            before = {node.name for node in graph.graph.nodes}
            if new := [node.name for node in copy.nodes if node.name not in before]:
                answer.fail(f"{name}: the pass added {new[0]}; it only drops nodes")
    for name, graph, copy, show in cases:
        with answer.at("right", name, show):
            torch.manual_seed(3)
            right = fx.GraphModule(dict(graph.constants), graph.graph)(*inputs(graph, x, y))
            torch.manual_seed(3)
            found = fx.GraphModule(dict(graph.constants), copy)(*inputs(graph, x, y))
            if differs := compared.position(tuple(found), tuple(right)):
                answer.fail(f"{name}: {differs}")
    left = sum(calls(copy) for _, _, copy, _ in cases)
    with answer.at("score"):
        if left > least + 1:
            answer.fail(f"{left} nodes are left of the eight programs; {least} are possible")
    return (Score("nodes left", left, least),)


def inputs(graph: Graph, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [x if "x" in node.name else y for node in graph.inputs]


CSE = Puzzle(
    id="passes-1",
    title="The same thing twice",
    task=(
        "Write common subexpression elimination: a pass that changes the graph in place, so that equal nodes "
        "are computed once. At most one node more than possible may be left over the eight programs of the "
        "check."
    ),
    minutes=20,
    names=("cse",),
    given='''import torch

aten = torch.ops.aten

# graph.nodes are in order. A node has .op ("placeholder", "call_function", "output", ...), .target, .args and .kwargs;
# node.replace_all_uses_with(other) and graph.erase_node(node) change the graph. Operators that draw random numbers have
# torch.Tag.nondeterministic_seeded in node.target.tags.
''',
    starter='''def cse(graph):
    """Compute nothing twice."""
    ...
''',
    solution='''def cse(graph):
    def key(value):
        return tuple(key(each) for each in value) if isinstance(value, (list, tuple)) else (type(value), value)
    seen = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or torch.Tag.nondeterministic_seeded in node.target.tags:
            continue
        what = node.target, key(node.args), key(list(node.kwargs.items()))
        if what in seen:
            node.replace_all_uses_with(seen[what])
            graph.erase_node(node)
        else:
            seen[what] = node
''',
    wrong=(
        Wrong('''def cse(graph):
    seen = {}
    for node in list(graph.nodes):
        if node.op == "call_function":
            if node.target in seen:
                node.replace_all_uses_with(seen[node.target])
                graph.erase_node(node)
            else:
                seen[node.target] = node
''', "right", "two different products"),
        Wrong('''def cse(graph):
    seen = {}
    for node in list(graph.nodes):
        if node.op == "call_function":
            what = node.target, str(node.args), str(node.kwargs)
            if what in seen:
                node.replace_all_uses_with(seen[what])
                graph.erase_node(node)
            else:
                seen[what] = node
''', "right", "two draws"),
        Wrong('''def cse(graph):
    seen = {}
    for node in list(graph.nodes):
        if node.op == "call_function" and "rand" not in str(node.target):
            what = node.target, str([each for each in node.args if hasattr(each, "name")])
            if what in seen:
                node.replace_all_uses_with(seen[what])
                graph.erase_node(node)
            else:
                seen[what] = node
''', "right", "two different products"),
        Wrong("def cse(graph):\n    pass\n", "score", "are possible"),
        Wrong('''def cse(graph):
    for node in list(graph.nodes):
        if node.op == "call_function":
            graph.erase_node(node)
''', "compiles", "RuntimeError"),
    ),
    hints=(
        "Two nodes are the same if target and arguments are. Once a node is replaced, its users' arguments change too.",
        "A dict from (target, args, kwargs) to the first node. Arguments may be lists, which have no hash.",
        "Skip what draws random numbers: torch.Tag.nondeterministic_seeded in node.target.tags.",
    ),
    check=check_cse,
)  # fmt: skip

# passes-2: a pattern


def check_silu(answer: Answer) -> tuple[Score, ...]:
    def gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y) * torch.sigmoid(x + y)

    def turned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * x - y

    def other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(y)

    def shared(x: torch.Tensor, y: torch.Tensor) -> Any:
        gate = torch.sigmoid(x)
        return x * gate, gate + y

    def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * 2 + y

    x, y = torch.linspace(-3, 3, 7), torch.linspace(2, -1, 7)
    rules: dict[str, Any] = {"passes": [answer["to_silu"]]}
    records = []
    for function in (gated, turned, other, shared, scaled):
        with answer.at("compiles", function.__name__), explorer.workbench(**rules):
            records.append((function, record := compared.explored(function, x, y)))
            answer.shown(record, "graphs")
            if why := compared.why_not_compiled(record):
                answer.fail(f"{function.__name__}: {why}")
    nodes = 0
    for function, record in records[:2]:
        answer.shown(record, "graphs")
        with answer.at("used", function.__name__):
            if not compared.uses(record):
                answer.fail(f"{function.__name__}: the record shows nothing that your rule made")
            last = record.graphs[-1].graph
            if not any("silu" in node.target for node in last.nodes):
                answer.fail(f"{function.__name__}: no silu in the graph after your pass")
        nodes += sum(node.op == "call_function" for node in last.nodes)
    for function, record in records:
        answer.shown(record, compared.ruled(record))
        with explorer.workbench(**rules):
            compared.agree(answer, explorer.compile(function), function, [(function.__name__, (x, y))])
    with answer.at("score"):
        if nodes > 4:
            answer.fail(f"{nodes} nodes are left in the two; 4 are enough: erase what nobody reads")
    return (Score("nodes", nodes, 4),)


SILU = Puzzle(
    id="passes-2",
    title="A pattern",
    task="Write a pass that replaces `x * sigmoid(x)` by one `silu` node, and only that.",
    minutes=20,
    names=("to_silu",),
    given='''import torch

aten = torch.ops.aten

# x * sigmoid(x) is aten.silu.default(x). The nodes are aten.mul.Tensor and aten.sigmoid.default.
# with graph.inserting_before(node): new = graph.call_function(aten.silu.default, (x,))
''',
    starter='''def to_silu(graph):
    ...
''',
    solution='''def to_silu(graph):
    for node in list(graph.nodes):
        if node.target is aten.mul.Tensor:
            for x, gate in (node.args, node.args[::-1]):
                if getattr(gate, "target", None) is aten.sigmoid.default and gate.args[0] is x:
                    with graph.inserting_before(node):
                        made = graph.call_function(aten.silu.default, (x,))
                    node.replace_all_uses_with(made)
                    graph.erase_node(node)
                    if not gate.users:
                        graph.erase_node(gate)
                    break
''',
    wrong=(
        Wrong('''def to_silu(graph):
    for node in list(graph.nodes):
        if node.target is aten.mul.Tensor:
            for gate in node.args:
                if getattr(gate, "target", None) is aten.sigmoid.default:
                    with graph.inserting_before(node):
                        made = graph.call_function(aten.silu.default, (gate.args[0],))
                    node.replace_all_uses_with(made)
                    graph.erase_node(node)
                    if not gate.users:
                        graph.erase_node(gate)
                    break
''', "right", "other"),
        Wrong('''def to_silu(graph):
    for node in list(graph.nodes):
        if node.target is aten.mul.Tensor:
            x, gate = node.args
            if getattr(gate, "target", None) is aten.sigmoid.default and gate.args[0] is x:
                with graph.inserting_before(node):
                    made = graph.call_function(aten.silu.default, (x,))
                node.replace_all_uses_with(made)
                graph.erase_node(node)
                if not gate.users:
                    graph.erase_node(gate)
''', "used", ""),
        Wrong('''def to_silu(graph):
    for node in list(graph.nodes):
        if node.target is aten.mul.Tensor:
            for x, gate in (node.args, node.args[::-1]):
                if getattr(gate, "target", None) is aten.sigmoid.default and gate.args[0] is x:
                    with graph.inserting_before(node):
                        made = graph.call_function(aten.silu.default, (x,))
                    node.replace_all_uses_with(made)
                    graph.erase_node(node)
                    graph.erase_node(gate)
                    break
''', "compiles", "shared: "),
        Wrong("def to_silu(graph):\n    pass\n", "used", "nothing that your rule made"),
    ),
    hints=(
        "Look at each product: is one factor the sigmoid of the other?",
        "The order of factors is not fixed, and a factor may be a number. The sigmoid may have other readers.",
        "for x, gate in (node.args, node.args[::-1]): ask gate.target and gate.args[0] is x.",
    ),
    check=check_silu,
)  # fmt: skip

# passes-3: two passes that are wrong

WRONG_PASSES = '''import torch

aten = torch.ops.aten

def sum_once(graph):
    """Sums of the same tensor are computed once."""
    sums = {}
    for node in list(graph.nodes):
        if node.target is aten.sum.dim_IntList:
            first = sums.setdefault(node.args[0], node)
            if first is not node:
                node.replace_all_uses_with(first)
                graph.erase_node(node)

def times_zero(graph):
    """x * 0 is 0."""
    for node in list(graph.nodes):
        if node.target is aten.mul.Tensor and node.args[1] == 0:
            with graph.inserting_before(node):
                zeros = graph.call_function(aten.zeros_like.default, (node.args[0],))
            node.replace_all_uses_with(zeros)
            graph.erase_node(node)
'''


def traced(record: Record) -> str:
    """Where a record has the graph that passes are given."""
    return compared.noded(record, "", "trace")


def check_counterexamples(answer: Answer) -> tuple[Score, ...]:
    x = answer["x"]
    with answer.at("defined"):
        if not isinstance(x, torch.Tensor):
            answer.fail("`x` is a tensor")
    cases = [(name, answer[name], answer[wrong]) for name, wrong in (("sums", "sum_once"), ("zeros", "times_zero"))]
    rights, records = {}, {}
    for name, function, _ in cases:
        with answer.at("defined", name):
            try:
                right = rights[name] = function(*compared.copies((x,)))
            except Exception as error:
                answer.fail(f"`{name}`: eager raises {type(error).__name__}: {explained(error, answer.names)}")
            results = right if isinstance(right, tuple | list) else (right,)
            if other := [type(each).__name__ for each in results if not isinstance(each, torch.Tensor)]:
                answer.fail(f"`{name}` returns a {other[0]}; return a tensor, or a tuple of tensors")
    for name, function, wrong in cases:
        with answer.at("compiles", name, compared.showing(function, (x,), traced)), explorer.workbench(passes=[wrong]):
            record = records[name] = compared.explored(function, *compared.copies((x,)))
            answer.shown(record, compared.ruled(record))
            if why := compared.why_not_compiled(record):
                message = f"with {wrong.__name__} there is no compiled code to compare (did it change a shape?)"
                answer.fail(f"`{name}`: {message}: {why}")
    for name, _, wrong in cases:
        record = records[name]
        with answer.at("used", name):
            ran = [s for each in record.data.compiles for s in each.stages if s.name == f"pass {wrong.__name__}"]
            if all(stage.same_as for stage in ran):
                answer.fail(f"`{name}`: {wrong.__name__} changes nothing in its graph", record, traced(record))
    for name, function, _ in cases:
        with answer.at("verified", name, compared.showing(function, (x,), traced)):
            if compared.position(function(*compared.copies((x,))), rights[name]):
                answer.fail(f"`{name}`: two eager calls differ, so they cannot show that a pass is wrong")
            if differs := compared.position(explorer.compile(function)(*compared.copies((x,))), rights[name]):
                answer.fail(f"`{name}`: compiled without the pass it differs from eager too: {differs}")
    for name, function, wrong in cases:
        answer.shown(records[name], compared.ruled(records[name]))
        with answer.at("right", name), explorer.workbench(passes=[wrong]):
            if not compared.position(found := explorer.compile(function)(*compared.copies((x,))), rights[name]):
                message = f"with {wrong.__name__} the result is still right"
                answer.fail(f"`{name}`: {message}\neager: {rights[name]}\ncompiled: {found}")
    return ()


def _counter(
    sums: str = "x.sum(0) - x.sum(1)", zeros: str = "x * 0", x: str = 'torch.tensor([[1.0, 2.0], [3.0, float("inf")]])'
) -> str:
    return f"x = {x}\n\ndef sums(x):\n    return {sums}\n\ndef zeros(x):\n    return {zeros}\n"


COUNTER = Puzzle(
    id="passes-3",
    title="Show that they are wrong",
    task=(
        "Two passes are wrong. Write a function for each, and one tensor for both, on which the compiled function "
        "gives another result than eager."
    ),
    minutes=12,
    names=("x", "sums", "zeros"),
    given=WRONG_PASSES,
    starter=_counter("...  # wrong with sum_once", "...  # wrong with times_zero", "..."),
    solution=_counter(),
    wrong=(
        Wrong(_counter(sums="x.sum(0)"), "used", "`sums`: sum_once changes nothing"),
        Wrong(_counter(sums="x.sum(0).sum() + x.sum(1).sum()"), "right",
              "`sums`: with sum_once the result is still right"),
        Wrong(_counter(zeros="x * 2"), "used", "`zeros`: times_zero changes nothing"),
        Wrong(_counter(x="torch.ones(2, 2) * torch.tensor([1.0, 2.0])"), "right",
              "`zeros`: with times_zero the result is still right"),
        Wrong(_counter(sums="torch.rand_like(x).sum(0) - x.sum(1) + x.sum(0)"), "verified", "two eager calls differ"),
        Wrong(_counter(x="[1.0, 2.0]"), "defined", "`x` is a tensor"),
        Wrong(_counter(zeros='{"y": x * 0}'), "defined", "`zeros` returns a dict; return a tensor"),
        Wrong(_counter(sums="x.sum(2)"), "defined", "`sums`: eager raises IndexError"),
        Wrong(_counter(sums="x.sum((0, 1)) - x.sum(0)[0]"), "compiles", "did it change a shape?"),
    ),
    hints=(
        "sum_once compares the tensor that is summed. What else does a sum have? times_zero: which x is not 0 then?",
        "Sums over other dimensions of a square tensor have the same shape, so no check of shapes finds it.",
        "x.sum(0) - x.sum(1), and x * 0 where x holds an infinity or a nan.",
    ),
    check=check_counterexamples,
)  # fmt: skip

PUZZLES = (CSE, SILU, COUNTER)
