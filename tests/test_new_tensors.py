"""Tensors that a function makes of numbers are new ones in each call, whatever the caller does with them."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import explorer

MADE = {
    "scalar": lambda x: torch.tensor(1.0),
    "list": lambda x: torch.tensor([1.0, 2.0]),
    "view": lambda x: torch.tensor([[1.0, 2.0]]).t(),
    "twice": lambda x: (torch.tensor([1.0, 2.0]),) * 2,
    "with a view": lambda x: (lambda made: (made, made[0]))(torch.tensor([1.0, 2.0])),
    "as_tensor": lambda x: torch.as_tensor([1, 2]),
    "of sizes": lambda x: torch.tensor(x.shape),
    "new_tensor": lambda x: x.new_tensor([1.0]),
    "Tensor": lambda x: torch.Tensor([1.0, 2.0]),
    "product": lambda x: torch.tensor([2.0]) * torch.tensor([3.0]),
    "changed": lambda x: torch.tensor([1.0, 2.0]).add_(1),
    "detached": lambda x: torch.tensor([1.0]).detach(),
    "data": lambda x: torch.tensor([1.0]).data,
    "chosen": lambda x: torch.tensor([1.0]) if x.size(0) > 1 else x,
}


def tensors(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("backend", ("explorer", "aot_eager", "eager"))
@pytest.mark.parametrize("name", MADE)
def test_what_the_caller_writes_is_not_seen_by_the_next_call(name, backend):
    compiled = explorer.compile(MADE[name], backend=backend)
    expected = tensors(MADE[name](torch.ones(2)))
    for _ in range(3):
        found = tensors(compiled(torch.ones(2)))
        for each, wanted in zip(found, expected, strict=True):
            assert torch.equal(each, wanted)
        found[0].fill_(77)


@pytest.mark.parametrize("name", MADE)
def test_made_in_inference_mode(name):
    with torch.inference_mode():
        found = tensors(explorer.compile(MADE[name])(torch.ones(2)))
        expected = tensors(MADE[name](torch.ones(2)))
    assert [each.is_inference() for each in found] == [each.is_inference() for each in expected]


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize(
    "function", (lambda x: x.data, lambda x: x.real.data, lambda x: {"a": x.data}, lambda x: (x, x.data))
)
def test_data_is_another_tensor_over_the_same_memory(function, dynamic):
    def data(result):
        return (list(result.values()) if isinstance(result, dict) else tensors(result))[-1]

    x = torch.ones(3)
    found = data(explorer.compile(function, dynamic=dynamic)(x))
    assert found is not x
    assert found.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("p, training", ((0.0, True), (0.5, False)))
def test_dropout_of_nothing_is_the_input(p, training, dynamic):
    x = torch.ones(3, 2)
    assert explorer.compile(lambda x: torch.nn.functional.dropout(x, p, training), dynamic=dynamic)(x) is x


LAYOUTS = {
    "contiguous": lambda base: base[:12].view(3, 4),
    "transposed": lambda base: base[:12].view(3, 4).t(),
    "permuted": lambda base: base[:24].view(2, 3, 4).permute(2, 0, 1),
    "with gaps": lambda base: base[:24].view(4, 6).t()[1:4],
    "expanded": lambda base: base[:3].expand(4, 3),
    "channels last": lambda base: base[:36].view(1, 3, 3, 4).contiguous(memory_format=torch.channels_last),
}
DRAWS = {
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5),
    "dropout in place": lambda x: torch.nn.functional.dropout(x.clone(), 0.5, inplace=True),
    "alpha_dropout": lambda x: torch.nn.functional.alpha_dropout(x, 0.5, True),
    "bernoulli": lambda x: torch.bernoulli(x, 0.5),
    "bernoulli_": lambda x: x.clone().bernoulli_(0.5),
    "bernoulli_ of a view": lambda x: torch.zeros(8, 8).t()[2:5].bernoulli_(0.5),
    "uniform_": lambda x: x.clone().uniform_(),
    "rand_like": lambda x: torch.rand_like(x),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_drawn_in_the_order_of_memory(name, layout):
    x = LAYOUTS[layout](torch.arange(1.0, 50.0) / 64)
    results = []
    for function in (DRAWS[name], explorer.compile(DRAWS[name])):
        torch.manual_seed(0)
        results.append(function(copy.copy(x)))
    assert results[0].stride() == results[1].stride()
    torch.testing.assert_close(*reversed(results))


def test_temporaries_of_a_break_are_not_among_the_locals():
    def program(x):
        seen = []
        a = x * 2
        for i in range(2):
            try:
                a = a + i
                print()
                seen += sorted(locals())
            except ValueError:
                pass
        return seen

    assert set(explorer.compile(program)(torch.ones(2))) == {"a", "i", "seen", "x"}


FIRST = """
import explorer, torch
x = torch.ones(3)
with {}:
    made = explorer.compile(lambda x: x * 2)(x)
assert made.tolist() == [2, 2, 2]
"""


@pytest.mark.parametrize("where", ("torch.inference_mode()", "torch.device('meta')", "torch.autocast('cpu')"))
def test_the_first_compile_of_a_program_may_stand_anywhere(where):
    subprocess.run([sys.executable, "-c", FIRST.format(where)], check=True, timeout=500)


WITHOUT_GRAD = {
    "padded": lambda x: F.pad(x, (1, 0)),
    "padded by a constant": lambda x: torch.constant_pad_nd(x, (0, 1), 2),
    "reflected": lambda x: F.pad(x[None], (1, 1), mode="reflect"),
    "rolled": lambda x: x.roll(1, 0),
    "of no rows": lambda x: x[:0].roll(1, 0),
    "the same": lambda x: x.contiguous(),
    "a view": lambda x: x.view(-1),
    "wanted": lambda x: torch.ones_like(x, requires_grad=True),
    "a parameter": lambda x: torch.nn.Parameter(x * 2),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("make", WITHOUT_GRAD.values(), ids=WITHOUT_GRAD)
def test_what_is_made_without_grad_needs_none(make, dynamic):
    def function(x):
        made = make(x)
        before = made.requires_grad, made.is_leaf
        return before, (made * 2).requires_grad, made.requires_grad_() is made, made

    found = []
    for each in (function, explorer.compile(function, backend="eager", dynamic=dynamic)):
        with torch.no_grad():
            *told, made = each(torch.ones(3, 4, requires_grad=True))
        found.append((told, made.requires_grad, made.is_leaf))
    assert found[0] == found[1]


OVER = {
    "detached": lambda y: nn.Parameter(y.detach()),
    "itself": nn.Parameter,
    "a part": lambda y: nn.Parameter(y[1:].detach()),
    "its data": lambda y: nn.Parameter(y.data),
    "without grad": lambda y: nn.Parameter(y.detach(), requires_grad=False),
    "a buffer": nn.Buffer,
    "a buffer without grad": lambda y: nn.Buffer(y.detach()),
}
THEN = {
    "nothing": lambda made, y: None,
    "is written": lambda made, y: y.data.add_(1),
    "the other is written": lambda made, y: made.data.add_(1),
}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("of", [lambda x: x * 2, lambda x: x], ids=["what is computed", "an input"])
@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("make", OVER)
def test_a_parameter_lies_in_the_memory_that_it_is_given(make, then, of, grad):
    def call(x):
        y = of(x)
        made = OVER[make](y)
        THEN[then](made, y)
        return made, y

    found = []
    for run in (call, explorer.compile(call)):
        x = torch.arange(3.0, requires_grad=grad)
        made = (*run(x), x)
        kinds = [(type(each), each.requires_grad, each.is_leaf, each.tolist()) for each in made]
        found.append((kinds, [a.untyped_storage()._cdata == b.untyped_storage()._cdata for a in made for b in made]))
    assert found[0] == found[1]


@pytest.mark.parametrize("make", ["torch.zeros(3)", "torch.empty(2, 3).normal_()", "torch.randn(3).float()", "x * 2"])
def test_a_parameter_of_a_new_tensor_is_in_the_graph(make):
    program = eval(f"lambda x: (nn.Parameter({make}) * x.sum()).sum()", {"torch": torch, "nn": nn})
    explorer.compile(program, fullgraph=True)(torch.ones(3)).backward()
