"""Random programs of writes through `out=` and in place, into inputs, views and operands: the values, strides, memory
and identity of all that is left equal eager's."""

from __future__ import annotations

import linecache
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import explorer

Shape = tuple[int, ...]
Given = list[torch.Tensor]


def whole(*shape: int) -> torch.Tensor:
    return torch.randint(-8, 9, shape) / 4


LAYOUTS: dict[str, Callable[[], Given]] = {
    "dense": lambda: [whole(2, 3), whole(2, 3), whole(3), whole(), whole(3, 3)],
    "turned": lambda: [whole(3, 2).t(), whole(2, 3), whole(3), whole(), whole(3, 3).t()],
    "with gaps": lambda: [whole(2, 6)[:, ::2], whole(2, 3), whole(6)[::2], whole(2)[1], whole(3, 3)],
    "of one base": lambda: [*whole(4, 3).split(2), whole(3), whole(), whole(3, 3)],
}
IN_PLACE = (
    "{x}.add_(1)", "{x}.sin_()", "{x}.copy_({y})", "{x}.add_({y})", "{x} += {y}", "{x}.zero_()", "{x}.copy_({y} * 2)",
    "{x}.sub_({y}.sum())", "{x}.masked_fill_({y} > 0, 2)",
)  # fmt: skip


class Grower:
    """Grows a function of tensors a and b (2, 3), c (3), s () and m (3, 3)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.shapes: dict[str, Shape] = {"a": (2, 3), "b": (2, 3), "c": (3,), "s": (), "m": (3, 3)}
        self.lines: list[str] = []

    def text(self) -> str:
        for _ in range(self.random.randint(2, 6)):
            self.random.choice((self.computed, self.computed, self.written, self.viewed))()
        results = [name for name in self.shapes if name[0] == "t" or self.random.random() < 0.3]
        self.random.shuffle(results)
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def f(a, b, c, s, m):\n{body}    return {', '.join(results[:4] or 'a')},\n"

    def any(self, shape: Shape | None = None) -> str:
        return self.random.choice([name for name, each in self.shapes.items() if shape in (None, each)])

    def assign(self, text: str, shape: Shape) -> None:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.shapes[name] = shape

    def computed(self) -> None:
        x = self.any()
        shape = self.shapes[x]
        y = self.any(shape)
        calls = [(f"sin({x}", shape), (f"mul({x}, {y}", shape), (f"atan2({x}, {y}", shape)]
        calls += [(f"stack([{x}, {y}]", (2, *shape)), (f"where({x} > 0, {x}, {y}", shape)]
        if shape:
            calls += [(f"cat([{x}, {y}]", (shape[0] * 2, *shape[1:])), (f"sum({x}, 0", shape[1:])]
            calls += [(f"cumsum({x}, 0", shape), (f"amax({x}, -1", shape[:-1])]
        calls += [(f"matmul({self.any((2, 3))}, m.new_ones(3, 3)", (2, 3))] if (2, 3) in self.shapes.values() else []
        call, made = self.random.choice(calls)
        if self.random.random() < 0.35:
            return self.assign(f"torch.{call})", made)
        if made not in self.shapes.values() or self.random.random() < 0.15:
            self.assign(f"torch.zeros({made})", made)
        out = self.any(made)
        if self.random.random() < 0.1 and self.shapes[out] == made:  # resized; an operand would be read unwritten
            out = self.random.choice([name for name in self.shapes if not re.search(rf"\b{name}\b", call)])
            self.shapes[out] = made
        written = f"torch.{call}, out={out})"
        self.assign(written, made) if self.random.random() < 0.5 else self.lines.append(written)

    def written(self) -> None:
        x = self.any()
        y = self.any(self.shapes[x])
        text = self.random.choice(IN_PLACE).format(x=x, y=y) if self.random.random() < 0.8 else ""
        if not text and self.shapes[x]:
            text = f"{x}[0] = {self.random.choice(('1.5', f'{self.any()}.sum()'))}"
        if text.startswith(f"{x}.") and self.random.random() < 0.3:
            self.assign(text, self.shapes[x])
        elif text:
            self.lines.append(text)

    def viewed(self) -> None:
        x = self.any()
        shape = self.shapes[x]
        views: list[tuple[str, Shape]] = [("unsqueeze(0)", (1, *shape)), ("detach()", shape)]
        if shape:
            views += [("select(0, 0)", shape[1:]), ("narrow(0, 1, 1)", (1, *shape[1:]))] if shape[0] > 1 else []
        if len(shape) == 2:
            views += [("t()", shape[::-1]), ("reshape(-1)", (shape[0] * shape[1],)), ("rot90()", shape[::-1])]
        text, made = self.random.choice(views)
        self.assign(f"{x}.{text}", made)


def function(text: str, name: str) -> Any:
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(text, name, "exec"), namespace)
    return namespace["f"]


def left(function: Any, layout: str) -> list[Any]:
    """What a call leaves: its error, and of each tensor its identity, strides, place in shared memory and values."""
    torch.manual_seed(0)
    given = LAYOUTS[layout]()
    bases = [each._base for each in given if each._base is not None]
    try:
        results = function(*given)
    except (RuntimeError, IndexError) as error:
        results = ()
        found: list[Any] = [type(error), str(error)]
    else:
        found = [[each._version > 0 for each in given]]
    first: dict[int, int] = {}
    memory: dict[int, tuple[int, int]] = {}
    for number, each in enumerate([*given, *results, *bases]):
        strides = [step for step, size in zip(each.stride(), each.shape, strict=True) if size > 1]
        at = each.data_ptr()
        number, start = memory.setdefault(each.untyped_storage().data_ptr(), (number, at))
        values = [round(value, 3) + 0.0 for value in each.flatten().tolist()]
        found.append((first.setdefault(id(each), number), each.shape, strides, number, at - start, values))
    return found


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("backend", "seeds"), [("eager", 20), ("aot_eager", 15), ("explorer", 6)])
def test_what_writes_leave(backend: str, seeds: int, layout: str) -> None:
    for seed in range(seeds):
        text = Grower(seed).text()
        plain, compiled = (function(text, f"<writes {seed} {backend} {layout} {each}>") for each in (0, 1))
        expected = left(plain, layout)
        assert left(explorer.compile(compiled, backend=backend), layout) == expected, text


VALUES = ("a + 1", "(a + 1)[:1]", "(a * b).t().contiguous().t()", "torch.outer(a[0], b[0])[:2]")


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("then", ["b.copy_(v)", "b.add_(v)", "b.copy_(w)"])
def test_a_value_is_computed_before_what_it_reads_is_overwritten(value: str, then: str) -> None:
    text = f"def f(a, b, c, s, m):\n    v = {value}\n    w = v * 2\n    a.copy_(v)\n    {then}\n    return v, w\n"
    for layout in ("dense", "turned"):
        compiled = explorer.compile(function(text, f"<written {value} {then} {layout}>"))
        assert left(compiled, layout) == left(function(text, "<plain>"), layout)


VIEWS_WRITTEN: dict[str, Callable[[torch.Tensor], object]] = {
    "expand to its shape": lambda x: x.expand_as(x).mul_(2),
    "expand to a new dimension": lambda x: x.expand(1, *x.shape).add_(1e-3),
    "a row of an expanded": lambda x: x.expand(2, *x.shape)[0].mul_(2),
    "a slice of an expanded": lambda x: x.expand(2, *x.shape)[:1].add_(1e-3),
    "a column of an expanded": lambda x: x[:, :1].expand(2, 4)[:, 1].mul_(2),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, torch.zeros(2, 5))[0].mul_(2),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[0][:, 0].mul_(2),
    "unfold": lambda x: x.unfold(1, 2, 2).mul_(2),
    "unfold with gaps": lambda x: x.unfold(1, 1, 2)[:, 1:].mul_(2),
    "unfold as out=": lambda x: torch.add(x[:, :4].reshape(2, 2, 2), 1, out=x.unfold(1, 2, 2)),
    "expand as out=": lambda x: torch.add(x, 1, out=x.expand_as(x)),
    "unfold in a list": lambda x: torch._foreach_mul_([x.unfold(1, 2, 3)], 2),
    "as_strided": lambda x: x.as_strided((2, 2), (5, 2)).mul_(2),
    "diagonal": lambda x: x.diagonal().mul_(2),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", VIEWS_WRITTEN)
def test_a_write_through_a_view_changes_its_elements_and_no_other(name, dynamic):
    def function(x):
        VIEWS_WRITTEN[name](x)
        return x * 1

    inf = float("inf")
    given = torch.tensor([[1.0, inf, -inf, float("nan"), 1e8], [3.0, 0.1, 0.7, 1e-3, 5.0]])
    ours, eager = given.clone(), given.clone()
    found, wanted = explorer.compile(function, dynamic=dynamic)(ours), function(eager)
    assert str((found, ours)) == str((wanted, eager))


SAME_SHAPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "unfold that transposes": lambda x: x.unfold(0, 2, 1),
    "unfold that keeps": lambda x: x[0].unfold(0, 2, 1),
    "arguments by keyword": lambda x: torch.broadcast_to(input=x, size=(2, 2)),
    "expand of a turned": lambda x: x.t().expand(1, 2, 2),
    "a number": lambda x: x[0, 0].expand(1),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("name", SAME_SHAPES)
def test_a_view_that_has_the_shape_of_its_source(name, written, dynamic):
    def function(x):
        view = SAME_SHAPES[name](x)
        if written:
            view.mul_(torch.arange(1.0, 1 + view.numel()).reshape(view.shape))
        return view * 1

    bugs = explorer.counters().get("compiler bugs", 0)
    ours, eager = torch.arange(1.0, 5.0).reshape(2, 2), torch.arange(1.0, 5.0).reshape(2, 2)
    assert str((explorer.compile(function, dynamic=dynamic)(ours), ours)) == str((function(eager), eager))
    assert explorer.counters().get("compiler bugs", 0) == bugs


def test_a_graph_without_inputs_that_writes_a_view():
    def function(n):
        x = torch.ones(2, 3)
        x.expand_as(x).mul_(n)
        return x

    bugs = explorer.counters().get("compiler bugs", 0)
    assert explorer.compile(function)(2).tolist() == function(2).tolist()
    assert explorer.counters().get("compiler bugs", 0) == bugs


LAZY = {
    "negative": torch._neg_view,
    "conjugate": torch.conj,
    "imaginary part of the conjugate": lambda z: z.conj().imag,
    "real part": lambda z: z.real,
    "row": lambda z: z[1:],
}


@pytest.mark.parametrize("other", LAZY)
@pytest.mark.parametrize("written", LAZY)
def test_writes_through_lazy_views(written, other):
    """The base would get the bit, and views of that one would lose it: 3 where eager has -3."""

    def function(z):
        first, second = LAZY[written](z), LAZY[other](z)
        first.add_(1)
        second.mul_(2)
        first.neg_()
        return first * 1, second * 1, z * 1

    found = []
    for call in (function, explorer.compile(function)):
        z = torch.tensor([1 + 2j, -3 - 1j, 2 - 3j])
        found.append(str((call(z), z)))
    assert found[0] == found[1]
