"""What Python reads of tensors: in the graph where that is allowed, else a break, and always eager's answer."""

from __future__ import annotations

import collections
import copy
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import explorer
from asserting import assert_between_effects, assert_function, assert_message, assert_plain, assert_then, handled
from test_capture_numpy import Counting, check_same

X = torch.arange(6.0).reshape(2, 3)
Z = torch.tensor([0.0, 1.0, 0.0, 2.0])
COUNT = torch.tensor(2)
HALF = torch.tensor(1.5)
PLACES = torch.tensor([2, 0, 1])


def checked(x: Any, k: Any) -> Any:
    n = k.sum().item()
    torch._check(n >= 0)
    torch._check(n < 6)
    return x.view(-1)[:n] + 1


def assigned(x: Any, k: Any) -> Any:
    x[0, k] = 9.0
    return x


def masked(x: Any) -> Any:
    x[x > 0] = x[x > 0] * 2
    return x


WHOLE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "item": (lambda x: (x * x.sum().item(), x.sum().item()), (X,)),
    "conversions": (lambda x: (int(x.sum()), float(x.sum()) * 2, bool(x.any())), (X,)),
    "arithmetic": (lambda k: (k.sum().item() + 1, k.sum().item() // 2, -k.sum().item(), k.sum().item() > 2), (PLACES,)),
    "an input's number": (lambda k: (k.item() / 4, k.item() == 2, k.item() ** 2, {k.item(): 1}, f"{k}"), (COUNT,)),
    "sizes": (lambda k: (torch.zeros(k.item()), torch.arange(k.item()), torch.full((3,), k.item())), (COUNT,)),
    "slices": (lambda x, k: (x.view(-1)[: k.item()], x.view(-1)[:k], x[:, k], x.narrow(1, 0, k.item())), (X, COUNT)),
    "written": (assigned, (X, COUNT)),
    "an index of a list": (lambda x, k: [x, x + 1, x + 2][k], (X, COUNT)),
    "a loop's bound": (lambda x, k: [x + i for i in range(k)], (X, COUNT)),
    "lists": (lambda x, i: (i.tolist(), torch.split(x.view(-1), (i + 1).tolist())), (X, PLACES)),
    "extremes": (lambda x: (max(x[0]) + 1, min(x[1]) * 2), (X,)),
    "checks": (checked, (X, PLACES)),
    "a constant": (lambda x: x + torch.tensor(3).item(), (X,)),
    "nonzero": (lambda x: (x.nonzero(), x.nonzero(as_tuple=True), torch.where(x > 0), x.nonzero().shape[0]), (Z,)),
    "masks": (lambda x: (x[x > 0] * 2 + 1, x[x > 0].sum(), torch.masked_select(x, x > 0).softmax(0)), (Z,)),
    "no element": (lambda x: (x[x > 0] + 1, x.nonzero()), (Z * 0,)),
    "written by a mask": (masked, (Z,)),
    "unique": (lambda x: (torch.unique(x, return_inverse=True, return_counts=True), torch.unique_consecutive(x)), (Z,)),
    "counts": (lambda i: (torch.bincount(i), torch.repeat_interleave(i, i)), (PLACES,)),
    "joined": (lambda x: torch.cat([x[x > 0], x[x <= 0]]), (Z,)),
    "rows": (lambda x: functional.linear(x[x.sum(1) > 3], torch.ones(4, 3)) @ torch.ones(4), (X,)),
    "masked operators": (lambda x: (torch.masked.sum(x, 1, mask=x > 1), torch.masked.softmax(x, 1, mask=x > 1)), (X,)),
}


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    given = copy.deepcopy(arguments)
    try:
        return function(*given), given
    except Exception as error:
        return (type(error), str(error)), given


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("name", WHOLE)
def test_values_stay_in_one_graph(name: str, backend: str) -> None:
    function, arguments = WHOLE[name]
    eager = outcome(function, arguments)
    check_same(outcome(explorer.compile(function, backend=backend, fullgraph=True), arguments), eager)
    check_same(outcome(explorer.compile(function, backend=backend), arguments), eager)


def test_the_settings_of_torch_and_of_the_configuration_are_honored() -> None:
    def function(x: Any) -> Any:
        return x[x > 0] * x.sum().item()

    def graphs(**options: Any) -> int:
        backend = Counting()
        explorer.compile(function, backend=backend, options=options)(Z)
        return backend.graphs

    whole = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    assert graphs(**whole) == 1 < graphs()
    with torch._dynamo.config.patch(**whole):
        assert graphs() == 1


def test_a_number_that_is_an_input_is_a_symbol() -> None:
    backend = Counting()
    compiled = explorer.compile(lambda x, k: x[:, k] * 2, backend=backend)
    for place in (0, 1, 2, -1):
        assert torch.equal(compiled(X, torch.tensor(place)), X[:, place] * 2)
    assert backend.graphs <= 4


@pytest.mark.parametrize("function", [assert_plain, assert_message, assert_function])
def test_an_assertion_is_checked_after_one_graph(function: Callable[..., Any]) -> None:
    backend = Counting()
    compiled = explorer.compile(function, backend=backend, fullgraph=True)
    for x in (X, -X):
        check_same(outcome(compiled, (x,)), outcome(function, (x,)))
    assert backend.graphs == 1


def test_an_assertion_between_effects_is_made_in_its_place() -> None:
    compiled = explorer.compile(assert_between_effects)
    for x in (X, -X):
        check_same(outcome(compiled, (x, [])), outcome(assert_between_effects, (x, [])))


def test_an_assertion_that_is_handled_breaks() -> None:
    compiled = explorer.compile(handled)
    for x in (X, -X):
        check_same(outcome(compiled, (x,)), outcome(handled, (x,)))


ITERATORS: dict[str, Callable[[Any], Any]] = {
    "zip": lambda x: zip(x, x + 1, strict=True),
    "enumerate": enumerate,
    "map": lambda x: map(torch.sin, x),
    "reversed": lambda x: reversed(list(x)),
    "generator": lambda x: (row * 2 for row in x),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_what_cannot_be_traced_takes_nothing_from_an_iterator(name: str) -> None:
    def function(x: Any) -> Any:
        return [str(item) for item in ITERATORS[name](x)]

    check_same(outcome(explorer.compile(function), (X,)), outcome(function, (X,)))


def test_a_frame_that_raises_since_it_hears_that_it_is_compiled_does_not_hear_it() -> None:
    def function(x: Any, mask: Any = None) -> Any:
        if mask is None and not torch.compiler.is_compiling():
            mask = torch.ones(3)
        return x * 2 + mask.shape[0]

    backend = Counting()
    assert torch.equal(explorer.compile(function, backend=backend)(X), function(X))
    assert backend.graphs == 1


FLOATS: dict[str, Callable[[Any, float], Any]] = {
    "operators": lambda x, n: (x * n, n - x, x / n, x > n, x**n, n),
    "python": lambda x, n: x * (math.sqrt(abs(n)) + n**2 - n // 2) + min(n, 100.0),
    "integers": lambda x, n: (x.long() * n, x[:1] * int(n), torch.tensor(n) + x),
    "in place": lambda x, n: (x.add_(n), x.mul_(n / 2)),
    "containers": lambda x, n: {"n": [n, -n], "x": x * n},
    "not exact in half precision": lambda x, n: x.half() * n,
    "a size made a float": lambda x, n: x * (round(n) / 4) + math.log(round(n) + 3),
}


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("name", FLOATS)
def test_a_float_that_changes_is_not_compiled_for_each_value(name: str, backend: str) -> None:
    function = FLOATS[name]
    counting = Counting()
    counted, compiled = explorer.compile(function, backend=counting), explorer.compile(function, backend=backend)
    for number in (1.5, 2.5, 7.25, 1e6, 3.0):
        for each in (counted, compiled):
            check_same(outcome(each, (X, number)), outcome(function, (X, number)))
    assert counting.graphs <= (8 if name == "not exact in half precision" else 4)


def test_what_python_does_with_a_changing_float_it_does_at_each_call() -> None:
    def divides(x: Any, n: float) -> Any:
        return x * (3 / n)

    def handles(x: Any, n: float) -> Any:
        try:
            return x * (1 / n)
        except ZeroDivisionError:
            return x

    def branches(x: Any, n: Any) -> Any:
        return x + n if n > 2 else x - n

    for function in (divides, handles, branches):
        compiled = explorer.compile(function)
        for number in (1.0, 2.5, 3.5, 0.0, -4.0, 2, math.nan, math.inf):
            check_same(outcome(compiled, (X, number)), outcome(function, (X, number)))


def test_gradients_with_a_changing_float() -> None:
    def function(x: Any, n: float) -> Any:
        return (x * n + n / 2).sin() * n**2

    compiled = explorer.compile(function)
    for number in (1.5, 2.5, -3.5):
        ours, eager = X.clone().requires_grad_(), X.clone().requires_grad_()
        compiled(ours, number).sum().backward()
        function(eager, number).sum().backward()
        torch.testing.assert_close(ours.grad, eager.grad)


def other_size(x: Any) -> Any:
    x.data = torch.zeros([0])
    return x + 1


def written_after(x: Any) -> Any:
    whole = x.view(-1)
    x.data = torch.ones(5)
    whole.add_(1)
    x.add_(1)
    return whole, x


def other_strides(x: Any) -> Any:
    x.data = x.data.t()
    return x * 2


def of_a_result(x: Any) -> Any:
    y = x * 2
    y.data = torch.zeros(0)
    return y


@pytest.mark.parametrize("backend", ["explorer", "aot_eager", "eager"])
@pytest.mark.parametrize("function", [other_size, written_after, other_strides, of_a_result])
def test_memory_given_to_a_tensor_is_its_own_with_every_backend(function: Any, backend: str) -> None:
    given = (torch.arange(6.0).reshape(2, 3),)
    check_same(outcome(explorer.compile(function, backend=backend), given), outcome(function, given))


TURNS = {
    "squeeze_": lambda x: x.squeeze_(),
    "transpose_": lambda x: x.transpose_(0, -1),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
}
ORDERS = {
    "written first": (lambda x: x.add_(x), None),
    "turned first": (None, lambda x: x.mul_(2)),
    "only turned": (None, None),
}


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("turn", TURNS)
def test_an_input_that_is_turned_in_place_keeps_its_place_in_memory(turn: str, order: str, backend: str) -> None:
    first, last = ORDERS[order]

    def function(x: Any) -> None:
        for step in (first, TURNS[turn], last):
            if step is not None:
                step(x)

    compiled = explorer.compile(function, backend=backend)
    for given in (lambda w: w[::2], lambda w: w[:, 1:][:1], lambda w: w.t()[1:]):
        found = []
        for each in (function, compiled):
            whole = torch.arange(12.0).reshape(4, 3)
            x = given(whole)
            each(x)
            found.append((whole.tolist(), x.shape, x.stride(), x.storage_offset()))
        assert found[0] == found[1]


def resized_while_iterated(x: Any) -> Any:
    for row in x:
        torch.sin(row, out=x)
    return x


def resized_under_a_view(x: Any) -> Any:
    y = x.clone()
    part = y[1:]
    torch.cos(x[0], out=y)
    return part + 1, y


def resized_after_it_was_turned(x: Any) -> Any:
    y = x.clone().unsqueeze_(0)
    return torch.sin(torch.rot90(y), out=y)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("function", [resized_while_iterated, resized_under_a_view, resized_after_it_was_turned])
def test_what_resizes_a_tensor_leaves_its_views(function: Any, backend: str) -> None:
    given = (torch.arange(6.0).reshape(2, 3),)
    check_same(outcome(explorer.compile(function, backend=backend), given), outcome(function, given))


def test_a_view_cannot_be_detached_in_place() -> None:
    def function(x: Any) -> Any:
        return x.detach_()

    compiled = explorer.compile(function)
    for made in (lambda w: w, lambda w: w[0], lambda w: w * 1, lambda w: (w * 1)[0], lambda w: w.view(-1)):
        found = []
        for each in (function, compiled):
            try:
                found.append(each(made(torch.ones(2, 2, requires_grad=True))))
            except RuntimeError as error:
                found.append(str(error))
        check_same(*found)


ITERATED: dict[str, Callable[[Any], Any]] = {
    "list": lambda x: [x, x + 1],
    "tuple": lambda x: (x, x + 1),
    "text": lambda x: "ab",
    "bytes": lambda x: b"ab",
    "range": lambda x: range(len(x)),
    "dict": lambda x: {"a": x, "b": 2},
    "set": lambda x: {1, 2},
}


@pytest.mark.parametrize("taken", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ITERATED)
def test_an_iterator_that_is_returned_is_of_its_type(name: str, taken: int) -> None:
    def function(x: Any) -> Any:
        iterators = [iter(ITERATED[name](x))]
        if name not in ("set",):
            iterators.append(reversed(ITERATED[name](x)))
        for each in iterators:
            for _ in range(taken):
                next(each, None)
        return iterators

    found = [[(type(each), list(each)) for each in f(X)] for f in (function, explorer.compile(function))]
    check_same(*found)


BOUNDS = [-1, 0.1, True, torch.tensor(2), torch.tensor(1.7), torch.tensor(0.1, dtype=torch.float64), torch.ones(1)]


@pytest.mark.parametrize("x", [torch.arange(-4, 4), torch.linspace(-2, 2, 5), torch.tensor(3)], ids=str)
def test_clamp_between_a_number_and_a_tensor(x: torch.Tensor) -> None:
    def clamp(x: torch.Tensor, low: Any, high: Any) -> Any:
        try:
            return x.clamp(low, high)
        except TypeError:
            return "refused"

    for low, high in itertools.product(BOUNDS, BOUNDS):
        got, expected = explorer.compile(clamp, backend="eager")(x, low, high), clamp(x, low, high)
        assert repr(got) == repr(expected) and getattr(got, "dtype", 0) == getattr(expected, "dtype", 0), (low, high)


WITHOUT_ATTRIBUTES = {
    "keys": lambda: {1: 2}.keys(),
    "values": lambda: {1: 2}.values(),
    "items": lambda: {1: 2}.items(),
    "ordered keys": lambda: collections.OrderedDict({1: 2}).keys(),
    "ordered items": lambda: collections.OrderedDict({1: 2}).items(),
    "of an ordered dict": lambda: iter(collections.OrderedDict({1: 2}).values()),
    "list": lambda: iter([1]),
    "tuple": lambda: iter((1,)),
    "size": lambda: iter(torch.Size([1])),
    "range": lambda: iter(range(3)),
    "text": lambda: iter("ab"),
    "text beyond ASCII": lambda: iter("a\xe9"),
    "bytes": lambda: iter(b"ab"),
    "reversed list": lambda: reversed([1]),
    "reversed tuple": lambda: reversed((1,)),
    "reversed range": lambda: reversed(range(3)),
    "of a dict": lambda: iter({1: 2}.items()),
    "chain": lambda: itertools.chain([1]),
    "zip": lambda: zip([1]),
    "generator": lambda: (each for each in [1]),
    "tensor": lambda: iter(torch.ones(2)),
}


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("name", WITHOUT_ATTRIBUTES)
def test_an_attribute_that_is_not_there(name: str, fullgraph: bool) -> None:
    """It raises what Python raises, and only where it is read."""
    make = WITHOUT_ATTRIBUTES[name]

    def program(x):
        made = make()
        found = [type(made).__name__, getattr(made, "absent", 5), hasattr(made, "absent"), hasattr(made, "__iter__")]
        for read in (lambda: made.absent, lambda: made.absent(1), lambda: made.send_(x)):
            try:
                read()
            except AttributeError as error:
                found.append(str(error))
        return x * 2, found

    assert str(explorer.compile(program, backend="eager", fullgraph=fullgraph)(X)) == str(program(X))


def _yields():
    yield 1
    yield 2


ITERATORS = {
    "generator": _yields, "list": lambda: iter([1, 2]), "map": lambda: map(abs, [1]), "zip": lambda: zip([1]),
    "enumerate": lambda: enumerate([1]), "reversed": lambda: reversed([1, 2]), "dict": lambda: iter({1: 2}),
    "filter": lambda: filter(None, [1]), "chain": lambda: itertools.chain([1]), "count": itertools.count,
    "islice": lambda: itertools.islice([1, 2], 1), "repeat": lambda: itertools.repeat(1, 2),
    "callable": lambda: iter(lambda: 1, 2), "accumulate": lambda: itertools.accumulate([1, 2]),
}  # fmt: skip
IT_HAS = "close send throw gi_frame gi_code __length_hint__ __reduce__ __setstate__ __doc__ __self__ nope".split()


@pytest.mark.parametrize("kind", ITERATORS)
def test_iterators_have_what_pythons_have(kind):
    def kind_of(it, name):
        try:
            return type(getattr(it, name)).__name__
        except AttributeError as error:
            return str(error)

    def inside(name):
        return kind_of(ITERATORS[kind](), name)

    for name in IT_HAS:
        assert explorer.compile(inside, backend="eager")(name) == inside(name)
        given = explorer.compile(kind_of, backend="eager")(ITERATORS[kind](), name)
        assert given == kind_of(ITERATORS[kind](), name)


def test_a_generator_that_is_given_can_be_closed():
    def closed(it):
        it.close()
        return list(it)

    assert explorer.compile(closed, backend="eager")(_yields()) == []


AFTER_ASSERTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "a write": lambda x, w: w.add_(1),
    "a write through a view": lambda x, w: w.view(-1).zero_(),
    "a write without version": lambda x, w: w.data.mul_(2),
    "an item": lambda x, w: w.__setitem__(0, 5),
    "out=": lambda x, w: torch.add(x, 1, out=w),
    "a global": lambda x, w: X.mul_(1),
    "random numbers": lambda x, w: torch.rand(3) + w,
    "dropout": lambda x, w: functional.dropout(w),
    "random numbers again": lambda x, w: assert_then(torch.rand(3) + x, lambda: torch.rand(3) + w),
    "numbers of Python": lambda x, w: w * random.random(),
    "numbers of NumPy": lambda x, w: w + torch.from_numpy(np.random.rand(3)),
    "running statistics": lambda x, w: functional.batch_norm(torch.stack([x, x]), w, w.abs(), training=True),
}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", AFTER_ASSERTIONS)
def test_what_a_failed_assertion_rules_out_is_not_done(name: str, whole: bool) -> None:
    def function(x: Any, w: Any) -> Any:
        return assert_then(x, lambda: AFTER_ASSERTIONS[name](x, w)), w * 2

    seen = []
    for fn in (explorer.compile(function, fullgraph=whole), function):
        for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
            torch.manual_seed(0)
            random.seed(0)
            np.random.seed(0)
            w, version = torch.ones(3), X._version
            result = outcome(fn, (x, w))
            seen.append(str((result, X._version - version, torch.rand(1), random.random(), np.random.rand())))
    assert seen[:3] == seen[3:]
