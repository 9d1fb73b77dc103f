"""Numbers that a program gets, and those that its graph computes: one graph, with what eager returns."""

import math

import pytest
import torch

import explorer
from capturing import Captures
from explorer.compiler.capture import FullGraphError, optimize
from explorer.compiler.config import Config
from whole import same

MIXED = {
    "max": lambda x, n: x * max(n, 3) + min(2, n),
    "both": lambda x, n: x - max(0.0, min(n, 1)),
    "three": lambda x, n: max(3, n, 5) * x / float(max(n, 2)),
    "of ints": lambda x, n: x / max(x.long().abs().sum().item(), 2.5),
    "double": lambda x, n: x.double() / max(3, n),
    "half": lambda x, n: x.half() + min(3, n),
    "a size": lambda x, n: x * max(n, len(x)),
    "returned": lambda x, n: (x, max(n, 3), min(5, n, max(2.5, n)), max(True, n)),
    "root": lambda x, n: (x * math.sqrt(abs(n)), math.sqrt(n * n), math.sqrt(max(n, 3))),
}

REFUSED = {
    "its type": lambda x, n: x + 1 if type(max(n, 3)) is int else x,
    "of ints": lambda x, n: x.long() * max(n, 3),
    "filled": lambda x, n: torch.full((2,), max(n, 3)) + x[0],
    "further": lambda x, n: torch.full((2,), max(n, 3) + 1) + x[0],
    "printed": lambda x, n: f"{max(n, 3)}",
    "listed": lambda x, n: torch.tensor([max(3, n)]) + x[0],
}


@pytest.mark.parametrize("backend", ("explorer", "aot_eager"))
@pytest.mark.parametrize("name", MIXED)
def test_an_int_or_a_float_beside_floating_point(name, backend):
    """Which of the two it is, an int or a float, only the values tell; arithmetic with floats is the same with both."""
    f = lambda x: MIXED[name](x, x.sum().item())  # noqa: E731
    compiled = explorer.compile(f, fullgraph=True, backend=backend, options={"capture_scalar_outputs": True})
    nan = [] if backend == "aot_eager" else [[math.nan, 1.0]]  # torch's AOTAutograd sorts what max() is given
    for x in ([1.0], [1.0, 5.0], [-4.0, 1.0], [3.0], *nan, [math.inf]):
        torch.testing.assert_close(compiled(torch.tensor(x)), f(torch.tensor(x)), equal_nan=True)


def test_a_root_of_what_is_negative_is_the_programs_error():
    def f(x):
        x.add_(1)
        try:
            return math.sqrt(x.sum().item()), x + 1
        except ValueError as error:
            return x.mul_(2), str(error)

    compiled = explorer.compile(f, fullgraph=True, options={"capture_scalar_outputs": True})
    for number in (1.0, -4.0, math.nan, 4.0):
        x, y = torch.tensor([number]), torch.tensor([number])
        assert str((compiled(y), y)) == str((f(x), x))


@pytest.mark.parametrize("name", REFUSED)
def test_an_int_or_a_float_where_it_matters(name):
    f = lambda x: REFUSED[name](x, x.sum().item())  # noqa: E731
    compiled = explorer.compile(f, options={"capture_scalar_outputs": True})
    for x in ([1.0], [1.0, 5.0], [-4.0, 1.0]):
        same(compiled(torch.tensor(x)), f(torch.tensor(x)))
    with pytest.raises(FullGraphError, match="is an int or a float"):
        explorer.compile(f, fullgraph=True, options={"capture_scalar_outputs": True})(torch.ones(2))


def test_new_tensors_of_numbers_in_one_graph():
    """They take the tensor's dtype; other floats are no other program."""
    f = lambda x, k: (x.new_tensor([[k], [x.sum().item()]]), x.new_tensor(k))  # noqa: E731
    captures = Captures()
    compiled = optimize(f, Config(fullgraph=True, capture_scalar_outputs=True), captures)
    for k in (2.5, 3.5, 4.5, 5.5):
        same(compiled(torch.ones(3), k), f(torch.ones(3), k))
    assert len(captures.made) <= 2


def then_written(x):
    total = x.sum()
    best = max(total, 1.0)
    total.add_(10)
    return x * best, best


def divided_in_place(x):
    x /= max(x.norm(), 1.5)
    return x


CHOSEN = {
    "divided": lambda x: x / max(x.norm(), 1.5),
    "of several": lambda x: (x + max(0.5, x[0], 1.0, x[1]), x * min([x[0], 2])),
    "in place": divided_in_place,
    "returned": lambda x: (x - min(x.sum(), 1), max(x.sum(), 1.0)),
    "of no dimension": lambda x: (torch.mul(x[0], max(x.sum(), 1)), x.add(max(x[1], True))),
}

CHOSEN_AND_ASKED = {
    "written": then_written,
    "its type": lambda x: (x + 1, isinstance(max(x.sum(), 1.0), torch.Tensor)),
    "identity": lambda x: [(each is max(each, 1.0), x + 1) for each in (x.sum(),)],
    "another dtype": lambda x: (x.double() * max(x.sum(), 0.3), x.int() + max(x.sum(), 1)),
    "alone": lambda x: (-max(x.sum(), 1), 2 * max(x.sum(), 1), f"{min(x.sum(), 1)}"),
}


@pytest.mark.parametrize("name", [*CHOSEN, *CHOSEN_AND_ASKED])
def test_a_tensor_or_a_number(name):
    """Which of the two max() gives, only the values tell; arithmetic with a tensor of the same dtype does not."""
    f = (CHOSEN | CHOSEN_AND_ASKED)[name]
    compiled = explorer.compile(f, fullgraph=name in CHOSEN, backend="aot_eager")
    for given in ([2.0, 3.0], [0.1, 0.2], [-1.0, 5.0], [1.0, 0.0]):
        same(compiled(torch.tensor(given)), f(torch.tensor(given)))


def test_a_tensor_with_a_gradient_or_a_number():
    f = lambda x, w: x / max(w.sum(), 1.0)  # noqa: E731
    for value in (0.5, 2.0):
        found = []
        for call in (f, explorer.compile(f, backend="aot_eager")):
            x, w = torch.ones(2, requires_grad=True), torch.full((1,), value, requires_grad=True)
            call(x, w).sum().backward()
            found.append((x.grad, w.grad))
        same(*found)


ROUNDED = {
    "of a float": lambda n: (round(n, 1), round(n * 3, 3), round(n + 0.05, -1), round(n), round(n, None)),
    "shown": lambda n: f"{round(n, 2)}",
}


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_numbers_that_the_graph_computes(name):
    f = lambda x: (ROUNDED[name](x[0].item()), x * round(x[1].item(), 2))  # noqa: E731
    for backend in ("explorer", "aot_eager"):
        compiled = explorer.compile(f, fullgraph=True, backend=backend, options={"capture_scalar_outputs": True})
        for x in ([2.675, 0.125], [-1.5, 2.25], [0.5, 1e20]):
            same(compiled(torch.tensor(x)), f(torch.tensor(x)))


def shown_sums(x):
    number, count = x.sum().item(), x.long().sum().item()
    return x + 1, f"{number:.2f} of {x.shape[0]}", "%d" % count, str(number), repr(count), {"a": f"{count:>4d}"}  # noqa: UP031


def raised_sum(x):
    raise ValueError(f"sum {x.sum().item():.1f}")


@pytest.mark.parametrize("backend", ("explorer", "aot_eager"))
def test_texts_of_numbers_that_the_graph_computes(backend):
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = explorer.compile(shown_sums, fullgraph=True, backend=backend)
        raising = explorer.compile(raised_sum, fullgraph=True, backend=backend)
        for size in (4, 5, 7):
            x = torch.arange(float(size))
            same(compiled(x), shown_sums(x))
            with pytest.raises(ValueError, match=f"sum {x.sum().item():.1f}"):
                raising(x)
