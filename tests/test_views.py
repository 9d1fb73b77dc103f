"""Results that are views: which call made them, of whom they are views, what autograd lets be written, and whose writes
are counted, against eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import explorer
from reference_backend import compiled, symbolic

MADE: dict[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "unbind": lambda x: [x.unbind(0)[0], x.unbind(0)[1]],
    "one call": lambda x: (lambda parts: [parts[1], parts[0]])(x.unbind(0)),
    "one of several": lambda x: [x.unbind(1)[2]],
    "chunk": lambda x: [x.chunk(2)[1]],
    "split": lambda x: [x.split([1, 2], 1)[1], x.split(1)[0]],
    "of parts": lambda x: [x.unbind(0)[1][:1], x.chunk(2)[1].view(-1)],
    "of a view": lambda x: [x.t().unbind(0)[1], x.view(-1).split(4)[0]],
    "expanded": lambda x: [x.expand(2, 2, 3).unbind(0)[1]],
    "tensor_split": lambda x: [x.tensor_split(2)[1], x.hsplit(3)[0]],
    "alone": lambda x: [x.view(-1)],
    "part alone": lambda x: [x[1]],
    "twice": lambda x: [x.view(-1), x.view(-1)],
    "data": lambda x: [x.data],
    "parts of data": lambda x: [x.data.unbind(0)[1], x.data.view(-1)],
    "data of a part": lambda x: [x.unbind(0)[1].data],
    "detached parts": lambda x: [x.detach().unbind(0)[1], x.unbind(0)[0].detach()],
}
OF: dict[str, Callable[[Tensor], Tensor]] = {
    "an input": lambda x: x,
    "a view of an input": lambda x: x.view(2, 3),
    "what is computed": lambda x: x * 2,
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("of", OF)
@pytest.mark.parametrize("name", MADE)
def test_views_are_eagers(name: str, of: str, requires_grad: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return *MADE[name](OF[of](x)), x.sum()

    def given() -> Tensor:
        return torch.arange(6.0).reshape(2, 3).requires_grad_(requires_grad)

    call = compiled(symbolic(function, given())).call
    assert call is not None
    assert told(call, given()) == told(function, given())


def told(function: Callable[..., Any], given: Tensor) -> list[Any]:
    found: list[Any] = []
    *views, _ = function(given)
    for view in views:
        made_by = type(view.grad_fn).__name__ if view.grad_fn is not None and view.grad_fn.next_functions else ""
        is_part = view._is_view() and str(torch._C._autograd._get_creation_meta(view))
        if is_part and "MULTI" in is_part:
            found.append((made_by, view.output_nr))
        found.append((is_part, view.requires_grad))
    for view in views:
        before = given._version
        try:
            with torch.enable_grad():
                view.mul_(2)
            found.append((given._version != before, view.tolist()))
        except RuntimeError as error:
            found.append(str(error).split(".")[0])
        try:
            found.append(view.detach_().tolist())
        except RuntimeError as error:
            found.append(str(error).split(".")[0])
    return found


def test_the_gradient_of_a_view_is_that_of_its_views() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.view(-1)
        return flat[1:], flat

    for run in (function, explorer.compile(function, fullgraph=True)):
        part, flat = run(torch.ones(2, 3, requires_grad=True))
        flat.retain_grad()
        (part * 2).sum().backward()
        assert flat.grad is not None and flat.grad.tolist() == [0, 2, 2, 2, 2, 2]


def test_parts_that_live_on_after_a_break_are_parts() -> None:
    def function(x: Tensor) -> str:
        *_, last = x.unbind(0)
        torch._dynamo.graph_break()
        try:
            last.t_()
        except RuntimeError as error:
            return str(error)
        return ""

    x = torch.ones(2, 3, requires_grad=True)
    wanted = function(x)
    assert "Output 1 of Unbind" in wanted and explorer.compile(function)(x) == wanted


def test_a_view_that_lives_on_after_a_break_is_one() -> None:
    def function(x: Tensor) -> str:
        made = (x + 1)[0]
        torch._dynamo.graph_break()
        try:
            made.detach_()
        except RuntimeError as error:
            return str(error)
        return ""

    wanted = function(torch.ones(2, 3))
    assert "Can't detach views" in wanted and explorer.compile(function)(torch.ones(2, 3)) == wanted


def test_a_view_made_without_grad_mode_is_not_written_in_it() -> None:
    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            return (x + 1)[0]

    for run in (function, explorer.compile(function, fullgraph=True)):
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
            run(torch.ones(2, 3)).mul_(torch.ones(3, requires_grad=True))


def test_writes_of_data_that_lives_on_after_a_break_are_not_counted() -> None:
    def function(x: Tensor) -> Tensor:
        row, loss = x.data[0], (x * x).sum()
        torch._dynamo.graph_break()
        row.add_(1)
        loss.backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        return x.grad

    given = [torch.ones(2, 3, requires_grad=True) for _ in range(2)]
    assert function(given[0]).tolist() == explorer.compile(function)(given[1]).tolist()


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "program",
    [
        lambda x: x @ x.mT,
        lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: torch.nn.functional.max_pool1d(x, 2),
        lambda x: torch.nn.functional.avg_pool1d(x, 2),
    ],
    ids=["batches", "attention", "max_pool1d", "avg_pool1d"],
)
def test_what_an_operator_makes_is_a_view_where_eagers_is(program: Any, dynamic: bool, requires_grad: bool) -> None:
    """Some operators end in a view of what they computed, and others only with fake tensors."""
    x = torch.randn(2, 6, 8, requires_grad=requires_grad)
    found = explorer.compile(lambda x: (program(x), program(x)._is_view()), dynamic=dynamic)(x)
    expected = program(x)
    assert (found[0]._is_view(), found[1]) == (expected._is_view(),) * 2
    assert found[0].stride() == expected.stride()


COPIED = {
    "a product with one": lambda x: x * 1,
    "a clone": lambda x: x.clone(),
    "a cast": lambda x: x.double().float(),
    "a sum": lambda x: x + 1,
}
PLACES = [((2,), (1,)), ((2,), (1,), 0), ((2,), (3,), 1), ((2,), (5,)), ((2,), (1,), 5), ((2,), (1,), 7)]


@pytest.mark.parametrize("name", ["as_strided", "as_strided_copy", "as_strided_scatter", "as_strided_"])
@pytest.mark.parametrize("copied", COPIED)
def test_places_are_counted_in_the_memory_of_the_copy(copied, name):
    for place in PLACES:

        def fn(x, place=place):
            rows = COPIED[copied](x[1:])
            value = (torch.zeros(2),) if name == "as_strided_scatter" else ()
            return getattr(torch, name)(rows, *value, *place) + 1

        results = []
        for each in (explorer.compile(fn), fn):
            try:
                results.append(each(torch.arange(9.0).reshape(3, 3)).tolist())
            except RuntimeError as error:
                results.append(str(error))
        assert results[0] == results[1], place


OUTS = {
    "dense": lambda: torch.zeros(2, 2),
    "empty": lambda: torch.zeros(0),
    "turned": lambda: torch.zeros(2, 2).T,
    "with gaps": lambda: torch.zeros(2, 2, 2)[..., 0],
}


@pytest.mark.parametrize("out", OUTS.values(), ids=OUTS)
def test_a_copy_of_places_into_a_given_tensor(out):
    def fn(x, out):
        return torch.as_strided_copy(x, size=(2, 2), stride=(1, 2), storage_offset=1, out=out) + 1, out

    found = [
        [(value.tolist(), value.stride()) for value in each(torch.arange(9.0), out())]
        for each in (explorer.compile(fn, fullgraph=True), fn)
    ]
    assert found[0] == found[1]


def test_a_copy_of_places_outside_is_refused_though_it_is_not_used():
    def fn(x):
        torch.as_strided_copy(x[2], (2,), (3,))
        return x * 2

    for each in (explorer.compile(fn), fn):
        with pytest.raises(RuntimeError, match="out of bounds"):
            each(torch.ones(3, 3))


WRITTEN = {
    "a row": lambda x: x[0].add_(1),
    "a row from itself": lambda x: x[0][1:].copy_(x[0][:1].clone()),
    "all": lambda x: x.mul_(2),
}
OF_BITS = {
    "in place": lambda x: x.view(torch.int32).bitwise_and_(-2),
    "a part in place": lambda x: x.view(torch.int32)[-1].add_(1),
    "read": lambda x: x.view(torch.int32) + 1,
    "narrower": lambda x: x.view(torch.int16) + 1,
    "parts of complex numbers": lambda x: torch.view_as_real(x.to(torch.complex64) * 1j)[..., 0].add_(1),
}
PLACED = {
    "a column of each": lambda x: x.view(2, 3, 4)[:, :, 1],
    "every second row": lambda x: x.view(4, 6)[::2],
    "turned": lambda x: x.view(4, 6).t(),
    "turned, with gaps": lambda x: x.view(4, 3, 2)[:, :, 0].t(),
    "in the middle": lambda x: x[2:].view(2, 11)[:, 1:9],
    "of one row": lambda x: x.view(2, 12)[:, ::2][:1],
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("view", OF_BITS)
@pytest.mark.parametrize("write", WRITTEN)
def test_the_bits_of_what_was_written(write: str, view: str, dynamic: bool) -> None:
    """lie as eager's, also where sizes are symbols: the library takes their view of the value as it is in memory."""

    def call(x: Tensor) -> Tensor:
        WRITTEN[write](x)
        return OF_BITS[view](x)

    fast = explorer.compile(call, dynamic=dynamic)
    for place in PLACED.values():
        inputs = [place(torch.arange(24.0) - 5) for _ in range(2)]
        found = []
        for run, x in zip((call, fast), inputs, strict=True):
            try:
                made = run(x)
                found.append((x.tolist(), made.tolist(), made.stride(), made.dtype))
            except RuntimeError as error:
                found.append((x.tolist(), str(error)))
        assert found[0] == found[1]


FILLS: dict[str, Callable[[Tensor], object]] = {
    "fill_": lambda x: x.fill_(3),
    "zero_": lambda x: x.zero_().add_(2),
    "one by one": lambda x: x.copy_(torch.full_like(x, 5)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64])
@pytest.mark.parametrize("fill", FILLS)
def test_bits_of_a_fill_are_read(fill: str, dtype: torch.dtype) -> None:
    """A view that reads the same bytes as other numbers is no fill of the same number."""

    def negated(x: Tensor) -> Tensor:
        FILLS[fill](x)
        torch._neg_view(x).add_(1)
        return torch._neg_view(x.view(-1)) * 2 + 1

    def conjugate(x: Tensor) -> Tensor:
        FILLS[fill](x)
        x.conj().mul_(2)
        return x.conj() + 1

    for call in (negated, conjugate):
        inputs = [torch.zeros(2, 3, dtype=dtype) for _ in range(2)]
        made = [run(x) for run, x in zip((call, explorer.compile(call)), inputs, strict=True)]
        assert torch.equal(made[0], made[1]) and torch.equal(inputs[0], inputs[1])


GIVEN_VIEWS = {
    "leaf": lambda: torch.ones(2, 3).requires_grad_(),
    "leaf that is a view": lambda: torch.ones(6).view(2, 3).requires_grad_(),
    "view of a leaf": lambda: torch.ones(6).requires_grad_().view(2, 3),
    "view without grad": lambda: torch.no_grad()(torch.ones(6).requires_grad_().view)(2, 3),
    "result": lambda: torch.ones(2, 3).requires_grad_() * 2,
    "view of a result": lambda: (torch.ones(2, 3).requires_grad_() * 2)[:],
    "without grad": lambda: torch.ones(6).view(2, 3),
}
TAKEN = {
    "row": lambda x: x.select(0, 0),
    "flat": lambda x: x.view(-1),
    "view of a view": lambda x: x.view(-1)[1:],
    "rows": lambda x: x.unbind(0)[1],
    "turned": lambda x: x.mT,
}


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("taken", TAKEN)
def test_a_view_taken_without_grad_requires_grad_as_its_base_does(taken, dynamic, backend):
    def f(x):
        with torch.no_grad():
            y = TAKEN[taken](x)
        return x * (2 if y.requires_grad else 3), y, y * 2, x.mT

    compiled = explorer.compile(f, dynamic=dynamic, backend=backend)
    for make in [*GIVEN_VIEWS.values()] * 2:
        found = []
        for call in (f, compiled):
            results = call(make())
            found.append([(y.requires_grad, y.is_leaf, y._is_view(), y.tolist()) for y in results])
        assert found[0] == found[1]


FILLED = {
    "fill_": lambda x: x.fill_(3),
    "zero_": lambda x: x.zero_(),
    "an item": lambda x: x.__setitem__(slice(None), 5),
    "copy_": lambda x: x.copy_(torch.tensor(7.0)),
}
FOLDED = {
    "windows": lambda: torch.arange(6.0).unfold(0, 3, 1),
    "one row": lambda: torch.arange(3.0).expand(4, 3),
    "diagonals": lambda: torch.arange(9.0).as_strided((3, 3), (2, 1)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("place", FOLDED)
@pytest.mark.parametrize("fill", FILLED)
def test_what_is_read_before_elements_that_share_memory_are_filled(fill, place, dynamic):
    """In one loop a point would read what another has filled already."""

    def fn(x):
        before = x - 1
        FILLED[fill](x)
        return before, x * 2

    found = []
    for each in (explorer.compile(fn, dynamic=dynamic), fn):
        x = FOLDED[place]()
        try:
            found.append([value.tolist() for value in (*each(x), x)])
        except RuntimeError as error:  # of copy_ into repeated rows
            found.append(str(error))
    assert found[0] == found[1]


def test_what_takes_a_result_out_of_a_tuple_is_no_operation() -> None:
    record = explorer.explore(lambda x: (x.max(0).values + x[0]).exp(), time=False)(torch.randn(3, 4))
    (compile,) = record.data.compiles
    assert compile.operations == 4
    assert "4 operations became 1 kernel" in repr(record)


def without_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x[0]


@pytest.mark.parametrize(
    "use", [lambda v, x: v * 2, lambda v, x: v * x, lambda v, x: (v.sin(), x.cos()), lambda v, x: v]
)
@pytest.mark.parametrize("given", [lambda x: x, lambda x: x * 1, lambda x: torch.nn.Parameter(x.detach())])
def test_gradients_of_views_made_without_grad_arrive_where_eagers_do(use: Any, given: Any) -> None:
    found = []
    for run in (lambda x: use(without_grad(x), x), explorer.compile(lambda x: use(without_grad(x), x))):
        x = torch.ones(3, 4, requires_grad=True)
        held = given(x)
        results = tree_leaves(run(held))
        sum(each.sum() for each in results).backward()
        found.append([(each.requires_grad, each.tolist()) for each in results] + [x.grad, held.is_leaf and held.grad])
    assert str(found[0]) == str(found[1])
