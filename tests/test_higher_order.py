"""Higher-order operators and TorchFunctionModes in compiled functions: one graph, and eager's results."""

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch._ops import HigherOrderOperator
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils._pytree import tree_leaves

import explorer
from explorer.core.recorder import Recorder, recording
from explorer.ir.capture import CompilerBug, GraphRaised

LINEAR = nn.Linear(4, 4)


def closing_over(x):
    y = x * 2
    return torch.cond(x.sum() > 0, lambda a: a.sin() + y, lambda a: a.cos() - y, (x,))


def nested(x):
    def inner(a):
        return torch.cond(a.sum() > 1, lambda b: b + x, lambda b: b * 2, (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: a.cos(), (x,))


def written_inside(x):
    def branch(a):
        found = []
        for count in range(3):
            found.append(a.clone().mul_(count))
        return torch.stack(found)

    return torch.cond(x.sum() > 0, branch, lambda a: torch.stack([a, a, a]), (x,))


def counted(x):
    step = x.detach().sin()
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + step), (torch.tensor(0), x.detach()))


def scanned(x):
    return scan(lambda carry, row: (carry + row, {"product": carry * row}), torch.zeros(4), x)


def attended(x):
    q, bias = x.reshape(1, 2, 6, 1).expand(1, 2, 6, 8), torch.arange(2.0)
    return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score * bias[h] + (i - j))


def masked(x):
    q = x.reshape(1, 1, 12, 1).expand(1, 1, 12, 8)
    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 12, 12, device="cpu")
    return flex_attention(q, q, q, block_mask=mask)


class Multiplied(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return (torch.mul if func is torch.add else func)(*args, **(kwargs or {}))


class Logging(torch.overrides.TorchFunctionMode):
    def __init__(self, log, about=None):
        super().__init__()
        self.log, self.about = log, about

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.log.append((self.about, func.__name__, len(args)))
        return func(*args, **(kwargs or {}))


def raising(x):
    try:
        return x @ torch.ones(7)
    except RuntimeError:
        return x + 1


@torch.jit.script
def scripted(x):
    return x + 1


LOGGED = {
    "operators": lambda x: (x + 1, 2 - x, -x, x > 0, x @ x.T, x[0], x[:, 1:] * 2, abs(x)),
    "methods": lambda x: (x.sin(), x.sum(0), x.reshape(-1), x.clone().add_(1), x.max(1).values, len(x)),
    "functions": lambda x: (torch.sin(x), torch.where(x > 0, x, 0), torch.cat([x, x]), torch.ones(3), torch.tensor(2)),
    "functionals": lambda x: (nn.functional.relu(x), nn.functional.layer_norm(x, (4,)), x.softmax(1)),
    "properties": lambda x: (x.shape, x.dtype, x.T, x.requires_grad, x.device, x.ndim),
    "an error": raising,
    "sums": lambda x: sum(row.sum() for row in (x, x * 2)),
}
UNTOLD = {
    "rows": lambda x: (list(x), [row + 1 for row in x]),
    "grad modes": lambda x: torch.no_grad()(torch.sin)(x),
    "transforms": lambda x: torch.vmap(torch.sin)(x),
    "arrays": lambda x: torch.from_numpy(x.detach().numpy() + 1),
    "branches": lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
    "parameters": lambda x: nn.Parameter(x.detach() * 2),
    "the larger one": lambda x: max(x[0, 0], x[0, 1]) + max(x[0, 0], 1.0),
    "scripted": lambda x: scripted(x),
    "asserted": lambda x: (torch._assert(x.ndim == 2, "wrong"), x + 1)[1],
    "one of two functions": lambda x: nn.functional.max_pool1d(x[None], 2),
}


@pytest.mark.parametrize("name", [*LOGGED, *UNTOLD])
def test_a_mode_with_effects_is_told_of_what_eager_tells(name):
    program = (LOGGED | UNTOLD)[name]

    def logged(x, log):
        with Logging(log), Logging(log, "inner"):
            found = program(x)
        return found, len(log)

    results = []
    for call in (logged, explorer.compile(logged, fullgraph=name in LOGGED, backend="aot_eager")):
        log = ["before"]
        results.append((call(torch.arange(12.0).reshape(3, 4), log), log))
    assert results[0][1] == results[1][1]
    assert str(results[0][0]) == str(results[1][0])


def under_a_mode(x):
    with Multiplied():
        y = torch.add(x, 3)
    return torch.add(y, 1), (x + 1)[0].T


PROGRAMS = {
    "cond": lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
    "two results": lambda x: torch.cond(x.sum() > 0, lambda a: (-a, a.sum()), lambda a: (a + 1, a.mean()), (x.sin(),)),
    "known": lambda x: torch.cond(x.shape[0] > 2, torch.sin, torch.cos, (x,)),
    "module": lambda x: torch.cond(x.sum() > 0, LINEAR, torch.cos, (x,)),
    "closing over": closing_over,
    "nested": nested,
    "writes inside": written_inside,
    "while_loop": counted,
    "scan": scanned,
    "associative_scan": lambda x: associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic"),
    "mode": under_a_mode,
}
ATTENTION = {"scores": attended, "block mask": masked}


class Told(Recorder):
    """What the compiler did wrong, which the program does not notice."""

    def __init__(self):
        super().__init__()
        self.bugs = []

    def event(self, event):
        if isinstance(event, CompilerBug | GraphRaised):
            self.bugs.append(event)


def run(function, x):
    torch.manual_seed(0)
    found = tree_leaves(function(x))
    x.grad = None
    if out := [t for t in found if t.requires_grad]:
        sum(t.square().sum() for t in out).backward()
    return found, x.grad


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_like_eager(name, training, sign):
    x, handed = (torch.linspace(0.1, 1, 12).reshape(3, 4) * sign).requires_grad_(training), []
    eager = run(PROGRAMS[name], x)
    torch.testing.assert_close(run(explorer.compile(PROGRAMS[name], fullgraph=True), x), eager)
    compiled = explorer.compile(PROGRAMS[name], backend=lambda graph, _: handed.append(graph) or graph.forward)
    with recording(Told()) as told:
        torch.testing.assert_close(run(compiled, x), eager)
    (graph,) = handed
    operators = [node for node in graph.graph.nodes if isinstance(node.target, HigherOrderOperator)]
    assert bool(operators) == (name not in ("known", "mode", "associative_scan")) and not told.bugs


NUMBERS = {
    "integer": lambda x: (x, 3),
    "float": lambda x: (x, 2.5),
    "bool": lambda x: (x, True),
    "size": lambda x: (x, x.shape[0]),
    "nested": lambda x: (x, [{"n": 2}, ()]),
}


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("operands", NUMBERS.values(), ids=NUMBERS)
def test_numbers_as_operands(operands, fullgraph):
    """Eager refuses them; torch.compile takes them, whole or not."""

    def branch(x, n):
        return x * (n[0]["n"] if isinstance(n, list) else n)

    def function(x):
        return torch.cond(x.sum() > 0, branch, lambda x, n: x - 1, operands(x))

    made = explorer.compile(function, fullgraph=fullgraph)
    for x in (torch.ones(3), -torch.ones(3)):
        assert torch.equal(made(x), branch(*operands(x)) if x[0] > 0 else x - 1)


@pytest.mark.parametrize("shared", [lambda x: (x, x[0]), lambda x: (x[:1], x[:2])])
def test_operands_that_share_memory_are_refused_as_in_eager(shared):
    def function(x):
        return torch.cond(x.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, shared(x))

    for call in (function, explorer.compile(function)):
        with pytest.raises(Exception, match="aliasing"):
            call(torch.ones(2, 3))


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name):
    x, graphs = torch.linspace(0.1, 1, 12), CompileCounter()
    compiled = explorer.compile(ATTENTION[name], backend=graphs, fullgraph=True)
    torch.testing.assert_close(compiled(x), ATTENTION[name](x))
    assert graphs.frame_count == 1


def kept_outside(x):
    kept = []

    def branch(a):
        kept.append(a.sin())
        return a.sin()

    return torch.cond(x.sum() > 0, branch, torch.cos, (x,)) + kept[0]


def returned_as_it_is(x):
    return torch.cond(x.sum() > 0, lambda a: a, torch.cos, (x,))


@pytest.mark.parametrize("function", [kept_outside, returned_as_it_is])
def test_what_an_operator_does_not_take_ends_as_in_eager(function):
    with pytest.raises(Exception) as eager:
        function(torch.ones(2))
    with pytest.raises(eager.type):
        explorer.compile(function)(torch.ones(2))


@pytest.mark.parametrize("pred", [None, "", [1], {}, 1j, True, 0, 2.5, np.bool_(True), torch.ones(1), torch.ones(2)])
def test_what_torch_cond_takes_as_a_condition(pred):
    def call(x, pred):
        return torch.cond(pred, torch.neg, torch.square, (x,))

    found = []
    for run in (call, explorer.compile(call)):
        try:
            found.append(run(torch.arange(3.0), pred).tolist())
        except (RuntimeError, TypeError) as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]


@pytest.mark.parametrize("one", ["(a + 1, a + 2)", "[a + 1, a + 2]", "{'a': a + 1}", "((a + 1,), a + 2)", "(a + 1,)"])
@pytest.mark.parametrize("other", ["(a * 2, a + 1)", "[a * 2, a + 1]", "{'b': a * 2}", "(a * 2, (a + 3,))"])
def test_branches_return_the_same_containers(one, other):
    one, other = eval(f"lambda a: {one}"), eval(f"lambda a: {other}")

    def call(x):
        return torch.cond(x.sum() > 0, one, other, (x,))

    found = []
    for run in (call, explorer.compile(call)):
        try:
            found.append(str(run(torch.arange(3.0))))
        except Exception as error:
            found.append(type(error))
    assert found[0] == found[1]
