"""What a compile and a call let go of, at once and without the garbage collector: inputs, parameters, optimizers."""

import gc
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.hooks import RemovableHandle

import explorer
from explorer.ir.wrappers import part_of

Weak = list[weakref.ref[Any]]
Compile = Callable[[Any], Any]
CASES: dict[str, Callable[[Callable[[Any], Any]], Weak]] = {}


def case(program: Callable[[Any], Weak]) -> Callable[[Any], Weak]:
    CASES[program.__name__] = program
    return program


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def weak(*values: Any) -> Weak:
    return [weakref.ref(value) for value in values]


@case
def module(c):
    m = nn.Linear(3, 3)
    x = torch.randn(2, 3)
    c(m)(x).sum().backward()
    return weak(m, m.weight, m.weight.grad, x)


@case
def parameter_given_and_owned(c):
    m = nn.Linear(3, 3)
    c(lambda p, x: m(x) * p.sum())(m.weight, torch.randn(2, 3)).sum().backward()
    return weak(m.weight)


@case
def input_of_a_function(c):
    x = torch.randn(3)
    y = c(lambda x: x.sin())(x)
    return weak(x, y)


@case
def no_graph(c):
    x = torch.randn(3)
    assert c(lambda x: x)(x) is x
    return weak(x)


@case
def training_input(c):
    x = torch.randn(3, requires_grad=True)
    z = x * 1
    y = c(lambda z: z.sin() * 2)(z)
    y.sum().backward()
    return weak(x, z, y)


@case
def graph_break(c):
    def f(p, x, table):
        print(end="")
        return x * p + table["a"][0]

    p, x, a = nn.Parameter(torch.randn(3)), torch.randn(2, 3), torch.randn(3)
    c(f)(p, x, {"a": [a]}).sum().backward()
    return weak(p, x, a)


@case
def optimizer(c):
    m = nn.Linear(3, 3)
    o = torch.optim.Adam(m.parameters())
    step = c(lambda: o.step())
    for _ in range(2):
        m(torch.randn(2, 3)).sum().backward()
        step()
    return weak(m.weight, m.weight.grad, o.state[m.weight]["exp_avg"])


@case
def saved_for_a_backward_that_is_done(c):
    x = torch.randn(3, requires_grad=True)
    z = x * 1
    y = c(lambda z: z.sin().exp())(z)
    y.sum().backward()
    made = weak(z)
    del z
    assert made[0]() is None  # though y, and so the backward's node, is alive
    return made


@pytest.mark.parametrize("backend", ["explorer", "aot_eager", "eager"])
def test_nobody_refers_to_a_tensor_even_weakly(backend: str) -> None:
    """torch.utils.swap_tensors refuses it otherwise, and with it what moves a module to another dtype or device."""
    m, w, given = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), nn.Parameter(torch.ones(4)), {"a": torch.ones(4)}
    x = torch.randn(4, 4, requires_grad=True)

    def f(x: torch.Tensor, given: dict[str, torch.Tensor]) -> torch.Tensor:
        y = m(x) * w + given["a"]
        return (y.sin() if y.sum() > 0 else y).sum()

    compiled = explorer.compile(f, backend=backend)
    compiled(x, given).backward()
    held = (*m.parameters(), *m.buffers(), w, given["a"], x)
    assert [weakref.getweakrefcount(each) for each in held] == [0] * len(held)
    torch.utils.swap_tensors(w, nn.Parameter(torch.zeros(4)))
    assert torch.allclose(compiled(x, given), f(x, given))


def test_a_watch_refers_to_no_tensor_of_what_stock_compiles(fresh_dynamo: None) -> None:
    w, counts = nn.Parameter(torch.ones(4)), []

    @torch.compiler.disable
    def between() -> None:
        counts.append(weakref.getweakrefcount(w))

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * w
        between()
        return (y + w).sum()

    with explorer.watch(live=False) as log:
        torch.compile(f, backend="aot_eager")(torch.ones(4)).backward()
    assert counts == [0] and log.record.guards and log.record.graphs


def test_compiling_takes_no_numbers_of_hooks() -> None:
    w = nn.Parameter(torch.ones(3))

    def f(x: torch.Tensor) -> torch.Tensor:
        return (w * x).softmax(0).prod()

    before = RemovableHandle.next_id
    explorer.compile(f)(torch.randn(3)).backward()
    assert RemovableHandle.next_id == before


@pytest.mark.parametrize("backend", ["explorer", "aot_eager", "eager"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_kept(name: str, backend: str) -> None:
    made = CASES[name](lambda f: explorer.compile(f, backend=backend))
    assert [ref() is None for ref in made] == [True] * len(made)


def fresh_module(c: Compile) -> None:
    m = c(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
    m(torch.randn(2, 3)).sum().backward()


def fresh_function(c: Compile) -> None:
    scale = torch.randn(3)
    c(lambda x: (x * scale).relu())(torch.randn(2, 3))


def fresh_break(c: Compile) -> None:
    w = nn.Parameter(torch.randn(3))

    def f(x):
        y = x * w
        print(end="")
        return y.sin() + w

    c(f)(torch.randn(2, 3)).sum().backward()


def fresh_recompiles(c: Compile) -> None:
    f = c(lambda x, n: x * n)
    for size in (2, 3, 4):
        f(torch.randn(size), size)


def fresh_optimizer(c: Compile) -> None:
    m = nn.Linear(3, 3)
    o = torch.optim.AdamW(m.parameters())

    def step(x):
        o.zero_grad()
        m(x).square().mean().backward()
        o.step()

    c(step)(torch.randn(2, 3))


def fresh_refusal(c: Compile) -> None:
    w = nn.Parameter(torch.randn(3))
    c(lambda x: [each for each in map(print, [])] or x * w)(torch.randn(3))


FRESH = [fresh_module, fresh_function, fresh_break, fresh_recompiles, fresh_optimizer, fresh_refusal]


@pytest.mark.parametrize("program", FRESH, ids=lambda program: program.__name__)
def test_many_made_and_dropped_hold_what_one_does(program: Callable[[Compile], None]) -> None:
    def objects() -> Counter[str]:
        for method in vars(ShapeEnv).values():
            getattr(method, "cache_clear", int)()  # torch keeps the last 256 answers of each
        gc.collect()
        gc.collect()  # what C++ let go of in the first round
        found: Counter[str] = Counter()
        for each in gc.get_objects():
            kind = each if type(each) is types.FunctionType else type(each)
            if str(kind.__module__).startswith(("explorer", "torch")) and not isinstance(each, str):  # logs keep names
                found[f"{kind.__module__}.{kind.__qualname__}"] += 1
        return found

    rounds = 3
    for _ in range(2):  # what is made once
        program(explorer.compile)
    before = objects()
    for _ in range(rounds):
        program(explorer.compile)
    grown = {kind: count - before[kind] for kind, count in objects().items() if count - before[kind] >= rounds}
    assert not grown, grown


class Node:
    pass


def dropped(x):
    node, held = Node(), Node()
    node.x = x
    held.node = node
    seen = weakref.ref(node)
    y = seen().x * 2
    del node
    z = seen().x + y
    del held.node
    return z, seen() is None


def dropped_tensor(x):
    y = x * 2
    seen = weakref.ref(y)
    z = seen() + 1
    del y
    return z, seen() is None


def to_its_parent(x):
    parent, child = Node(), Node()
    parent.x, child.parent = x, weakref.ref(parent)
    return child.parent().x + 1, child.parent() is parent


@pytest.mark.parametrize("function", [dropped, dropped_tensor, to_its_parent])
def test_a_weak_reference_tells_what_the_program_has_dropped(function):
    found, expected = explorer.compile(function)(torch.ones(2)), function(torch.ones(2))
    assert torch.equal(found[0], expected[0]) and found[1] is expected[1]


ENDS: list[str] = []


class Ending:
    def __init__(self, x):
        self.x = x

    def __del__(self):
        ENDS.append("end")


def ends_where_it_is_dropped(x):
    ending = Ending(x)
    y = ending.x * 2
    del ending
    ENDS.append("after")
    return y


def ends_with_what_is_inlined(x):
    y = ends_where_it_is_dropped(x) + Ending(x).x
    ENDS.append("outside")
    return y


def finalized(x):
    node = Node()
    ending = weakref.finalize(node, ENDS.append, "finalized")
    y = x + ending.alive
    node = None
    return y, ending.alive


def called_back(x):
    node = Node()
    seen = weakref.ref(node, lambda reference: ENDS.append("called back"))
    del node
    ENDS.append("after")
    return x * 2, seen() is None


def forgotten_key(x):
    table, node, other = weakref.WeakKeyDictionary(), Node(), Node()
    table[node] = table[other] = 1
    y = x + len(table)
    del node
    return y, len(table)


def forgotten_value(x):
    table, node = weakref.WeakValueDictionary(), Node()
    table["a"] = node
    y = x + len(table)
    del node
    return y, len(table)


def forgotten_member(x):
    members, node = weakref.WeakSet(), Node()
    members.add(node)
    y = x + len(members)
    del node
    return y, len(members)


def through_a_proxy(x):
    node = Node()
    node.x = x
    proxy = weakref.proxy(node)
    y = proxy.x + 1
    del node
    return y, hasattr(type(proxy), "x") or str(pytest.raises(ReferenceError, lambda: proxy.x).value)


@pytest.mark.parametrize(
    "function",
    [
        ends_where_it_is_dropped, ends_with_what_is_inlined, finalized, called_back, forgotten_key, forgotten_value,
        forgotten_member, through_a_proxy,
    ],
)  # fmt: skip
def test_the_end_of_an_object_is_noticed_where_eager_notices_it(function):
    told = []
    for each in (function, explorer.compile(function, backend="eager")):
        ENDS.clear()
        result = each(torch.ones(2))
        told.append((str(result), list(ENDS)))
        del result
    assert told[0] == told[1]


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_tensor_inside_of_a_wrapper_is_freed_with_its_graph(name: str) -> None:
    both = (torch.ones(3, requires_grad=True) for _ in range(2))
    part = part_of(TwoTensor(*both), name)
    known = weak(part, part.grad_fn)
    del part
    assert [each() for each in known] == [None, None]
