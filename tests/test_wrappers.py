"""Tensor subclasses that wrap tensors (__tensor_flatten__), jagged ones too: one graph, as eager."""

import numpy as np
import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import explorer
from overriding import Scaled, inside, two

WRAPPERS = {
    "operators": (lambda x: (x + 1, x.a * 2, x, (x * x.b).sum()), two),
    "in place": (lambda x: (x.mul_(2), x.a.sum(), x.view(3, 1).expand(3, 2).sum()), two),
    "several": (lambda x: torch.stack([x, x * 2])[0], two),
    "asked": (lambda x: (isinstance(x, TwoTensor), type(x + 1).__name__, x.shape, x.requires_grad), two),
    "made": (lambda x: (TwoTensor(x, b=x * 2) + x, TwoTensor(TwoTensor(x, x), TwoTensor(x, x + 1)).b.b), torch.ones),
    "with grad": (lambda x: x * 2, lambda: TwoTensor(*(torch.ones(3, requires_grad=True) for _ in "ab"))),
    "context": (lambda x: (x * 2 + 1, x.data_ * x.scale), lambda: Scaled(torch.arange(3.0), 3)),
}


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_like_eager(name, backend):
    function, make = WRAPPERS[name]
    make = (lambda: torch.ones(3)) if make is torch.ones else make
    call = explorer.compile(function, backend=backend, fullgraph=name != "with grad")
    for _ in range(2):
        x, y = make(), make()
        assert inside((call(x), x)) == inside((function(y), y))


class PlainClass(torch.Tensor):
    """Its operators' results are of its class."""


READ_BY_NUMPY = {
    "numpy": lambda x: x.numpy(),
    "numpy of a detached one": lambda x: x.detach().numpy(),
    "numpy of a row": lambda x: x[:2].numpy(),
    "numpy by force": lambda x: x.numpy(force=True),
    "asarray": lambda x: np.asarray(x),
    "a function of NumPy": lambda x: np.sin(x),
    "an operand of NumPy": lambda x: np.ones(3) + x,
}


@pytest.mark.parametrize("make", [lambda x: TwoTensor(x, x * 2), lambda x: x.as_subclass(PlainClass)])
@pytest.mark.parametrize("read", READ_BY_NUMPY.values(), ids=READ_BY_NUMPY)
def test_numpy_takes_tensors_of_classes_as_in_eager(read, make):
    def program(x):
        made = make(x)
        x.add_(1)
        try:
            return x * 2, read(made)
        except (RuntimeError, TypeError) as error:
            return x * 3, str(error)

    def outcome(call):
        x = torch.arange(3.0)
        y, found = call(x)
        return y.tolist(), x.tolist(), type(found), str(found)

    assert outcome(explorer.compile(program)) == outcome(program)


@pytest.mark.parametrize("through", ["operator", "method", "function", "as_subclass"])
def test_a_wrapper_that_may_not_become_of_another_class_raises_after_what_the_program_did_before(through):
    calls = {
        "operator": lambda x, y: x * y,
        "method": lambda x, y: x.add(y),
        "function": lambda x, y: torch.stack([x, y]),
        "as_subclass": lambda x, y: y.as_subclass(PlainClass),
    }

    def program(x, y, seen):
        seen.append("before")
        calls[through](x, y)
        seen.append("after")

    for function in (program, explorer.compile(program)):
        seen = []
        with pytest.raises(RuntimeError, match="not a subclass of the requested type"):
            function(torch.ones(3).as_subclass(PlainClass), two(), seen)
        assert seen == ["before"]


OF_OTHERS = {
    "type_as": lambda x, y: (y.type_as(x), x.type_as(y)),
    "linear": lambda x, y: torch.nn.functional.linear(x, y),
    "flatten": lambda x, y: x.flatten(),
    "chunk": lambda x, y: x.chunk(2)[1],
}


@pytest.mark.parametrize("name", OF_OTHERS)
def test_an_operator_that_is_calls_of_others_is_asked_of_a_wrapper_as_in_eager(name):
    """In inference mode, as what it is; otherwise as those others, so that the results are of other classes."""
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            given = [(TwoTensor(torch.ones(3, 3), torch.ones(3, 3) * 2), torch.ones(3, 3)) for _ in range(2)]
            call = explorer.compile(OF_OTHERS[name])
            assert inside(call(*given[0])) == inside(OF_OTHERS[name](*given[1]))


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_are_explored(name):
    function, make = WRAPPERS[name]
    make = (lambda: torch.ones(3)) if make is torch.ones else make
    given, once = make(), make()
    record = explorer.explore(function, time=False)(given)
    function(once)
    assert "against eager" in str(record) and "differs" not in str(record)
    assert ("a tensor that holds others" in str(record)) == isinstance(given, (TwoTensor, Scaled))
    assert inside(given) == inside(once)


@pytest.mark.parametrize("how", ["given", "made", "made of what is given", "made of a wrapper's part"])
def test_a_tensor_of_a_class_keeps_it_inside_of_a_wrapper(how):
    class Named(torch.Tensor):
        pass

    def wrapper(x):
        return TwoTensor(x.as_subclass(Named), x)

    x = torch.arange(3.0)
    program, given = {
        "given": (lambda x: x * 2, wrapper(x)),
        "made": (lambda x: wrapper(x) * 2, x),
        "made of what is given": (lambda x: TwoTensor(x * 2, x), x.as_subclass(Named)),
        "made of a wrapper's part": (lambda x: TwoTensor(x.a, x.b) + 1, wrapper(x)),
    }[how]
    expected, got = program(given), explorer.compile(program, backend="eager")(given)
    assert [type(each) for each in (got, got.a, got.b)] == [type(each) for each in (expected, expected.a, expected.b)]


def test_another_wrapper_compiles_again():
    call = explorer.compile(lambda x: x.data_ * x.scale, backend="aot_eager")
    assert [call(Scaled(torch.ones(n), n)).sum().item() for n in (3, 4, 5)] == [9, 16, 25]


class Told(TwoTensor):
    """One that says no more of itself than `context`, and is made again by `make`."""

    def __init__(self, a, b, label="none", context=None):
        super().__init__(a, b)
        self.label, self.context = label, context

    def __new__(cls, a, b, label="none", context=None):
        return TwoTensor.__new__(cls, a, b)

    def __tensor_flatten__(self):
        return ["a", "b"], self.context

    def times(self, n):
        return type(self)(self.a * n, self.b * n, self.label, self.context)


def remade(make):
    made = type("Again", (Told,), {})
    made.__tensor_unflatten__ = staticmethod(lambda inside, context, *_: make(made, inside["a"], inside["b"], context))
    return made


REMADE = {
    "itself": lambda cls, a, b, context: cls(a, b, context=context),
    "another class": lambda cls, a, b, context: Told(a, b),
    "its parent": lambda cls, a, b, context: TwoTensor(a, b),
    "one of its subclasses": lambda cls, a, b, context: type("Sub", (cls,), {})(a, b),
    "no wrapper": lambda cls, a, b, context: a * 2,
    "other order": lambda cls, a, b, context: cls(b, a),
    "other values": lambda cls, a, b, context: cls(a * 2, b),
    "other memory": lambda cls, a, b, context: cls(a.clone(), b),
    "other dtype": lambda cls, a, b, context: cls(a.double(), b.double()),
    "other sizes": lambda cls, a, b, context: cls(a[:1], b[:1]),
    "another attribute": lambda cls, a, b, context: cls(a, b, "again", context),
    "an attribute more": lambda cls, a, b, context: setattr(made := cls(a, b), "more", 1) or made,
    "another context": lambda cls, a, b, context: cls(a, b, context=7),
    "an error": lambda cls, a, b, context: 1 / 0,
}

OF_WRAPPERS = {
    "type": lambda x: type(x).__name__,
    "made": lambda x: x.times(2),
    "attributes": lambda x: (x.label, vars(x).get("more"), x.a + 1),
    "part": lambda x: x.a * 2 + x.b,
    "written": lambda x: (x.a.add_(1), x.times(3)),
}


def shown(value):
    if isinstance(value, (tuple, list)):
        return [*map(shown, value)]
    if not isinstance(value, TwoTensor):
        return (value.tolist(), value.dtype) if isinstance(value, torch.Tensor) else value
    others = {name: held for name, held in vars(value).items() if name not in "ab"}
    return type(value).__name__, shown([value.a, value.b]), others


@pytest.mark.parametrize("program", OF_WRAPPERS)
@pytest.mark.parametrize("how", REMADE)
def test_a_wrapper_is_what_its_class_makes_again_or_runs_eagerly(how, program):
    cls, function = remade(REMADE[how]), OF_WRAPPERS[program]
    call = explorer.compile(function, backend="aot_eager", fullgraph=(how, program) == ("itself", "part"))
    for grad in (False, True):
        found = []
        for each in (function, call):
            x = cls(*(torch.arange(3.0).requires_grad_(grad) * n for n in (1, 2)))
            found.append(shown([each(x), x]))
        assert found[0] == found[1]


def test_what_a_wrapper_says_of_itself_is_guarded_with_all_that_it_holds():
    def scaled(x):
        return x.a * x.context["scale"][0], x.label

    cls = remade(lambda cls, a, b, context: cls(a, b, label, context))
    call, context = explorer.compile(scaled, backend="aot_eager"), {"scale": [2]}
    for label in ("none", "one"):
        for scale in (2, 2.0, True, 1, -0.0, 0.0):
            context["scale"][0] = scale
            x = cls(*(torch.ones(3, dtype=torch.int32) for _ in "ab"), label, context)
            assert str(call(x)) == str(scaled(x))


class Into(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return TwoTensor(x.detach(), x.detach() + 1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.a + gradient.b


class Out(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.a * x.b

    @staticmethod
    def backward(ctx, gradient):
        return TwoTensor(gradient, gradient * 2)


def without_grad(x):
    with torch.no_grad():
        y = x * 2
    return x * y


def scaled_before(x):
    y = x * 2
    y.add_(1)
    return y * x


DIFFERENTIABLE = {
    "operators": (lambda x: (x.sin() * 2, x + 1), True),
    "sum": (lambda x: (x * x).sum(), True),
    "views": (lambda x: (x.view(-1, 1)[1:], torch.stack([x, x * 2])[0], x), True),
    "without grad": (without_grad, True),
    "detached": (lambda x: x.detach() * x, True),
    "in place": (scaled_before, True),
    "asked": (lambda x: (x * (2 if x.is_leaf else 3), x.requires_grad, type(x * 2).__name__), True),
    "inside": (lambda x: (x.a * 2, x * 3), True),
    "functions": (lambda x: (Out.apply(x) * 2, Into.apply(Out.apply(x)).cos()), True),
    "written": (lambda x: x.add_(1) * 2, False),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_reach_wrappers_like_in_eager(name):
    function, is_whole = DIFFERENTIABLE[name]
    call = explorer.compile(function, backend="aot_eager", fullgraph=is_whole)
    for size, grad, made in ((3, True, False), (4, True, False), (5, True, True), (5, False, False), (6, True, True)):
        found = []
        for each in (call, function):
            x = TwoTensor(torch.arange(1.0, size + 1), torch.arange(size) + 0.5).requires_grad_(grad)
            given = x * 2 if made or not is_whole else x
            result = each(given)
            parts = [part for part in torch.utils._pytree.tree_leaves(result) if isinstance(part, torch.Tensor)]
            if grad:
                torch.autograd.backward([weighted(part) for part in parts if part.grad_fn is not None])
            found.append(inside((result, given, x.grad, [part.requires_grad for part in parts])))
        assert found[0] == found[1]


def weighted(part):
    return (part * torch.arange(1.0, part.numel() + 1).view(part.shape)).sum()


def test_a_parameter_around_tensors_is_trained():
    linear = torch.nn.Linear(3, 2)
    linear.weight = torch.nn.Parameter(TwoTensor(torch.ones(2, 3), torch.ones(2, 3)))
    found = []
    for call in (linear, explorer.compile(linear, fullgraph=True, backend="aot_eager")):
        linear.zero_grad()
        call(torch.arange(6.0).view(2, 3)).sum().backward()
        found.append(inside((linear.weight.grad, linear.bias.grad)))
    assert found[0] == found[1]


LINEAR, NORM = torch.nn.Linear(4, 6), torch.nn.LayerNorm(4)

JAGGED = {
    "operators": lambda x: x.sin() * 2 + x,
    "modules": lambda x: LINEAR(NORM(x)).relu(),
    "values": lambda x: x.values() * 2 + x.offsets()[-1],
    "padded": lambda x: torch.nested.to_padded_tensor(x, 0.0),
    "reduced": lambda x: x.sum(1),
    "sizes": lambda x: x.view(x.size(0), -1, 2, 2) * x.shape[-1] + x.dim(),
    "made": lambda x: torch.nested.nested_tensor_from_jagged(x.values() * 2, x.offsets()),
    "written": lambda x: x.clone().mul_(2).add_(x),
    "written by another kernel": lambda x: torch.nn.functional.relu((x - 3).clone(), inplace=True),
}


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("name", JAGGED)
def test_jagged_tensors_like_eager(name, backend):
    function = JAGGED[name]
    call = explorer.compile(function, backend=backend, fullgraph=True)
    for lengths, grad in (((2, 4), False), ((3, 4), False), ((1, 2, 2), False), ((2, 4), True), ((0, 5), True)):
        rows = [torch.arange(4.0 * n).view(n, 4) + 1 for n in lengths]
        x = torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=grad)
        got, expected = call(x), function(x)
        assert (got.shape, got.is_nested) == (expected.shape, expected.is_nested)
        assert got.requires_grad == expected.requires_grad
        found = [each.values() if each.is_nested else each for each in (got, expected)]
        assert torch.equal(*found)
        if grad and name not in ("padded", "reduced"):  # which eager has no gradients of
            grads = [torch.autograd.grad((each * each).sum(), x)[0].values() for each in found]
            assert torch.equal(*grads)


def test_jagged_tensors_of_other_offsets_do_not_go_together():
    x, y = (torch.nested.nested_tensor([torch.ones(n), torch.ones(2)], layout=torch.jagged) for n in (1, 1))
    z = torch.nested.nested_tensor_from_jagged(torch.ones(3), x.offsets())
    call = explorer.compile(torch.add, backend="aot_eager")
    assert torch.equal(call(x, z).values(), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError):
        call(x, y)
    record = explorer.explore(torch.add, time=False)(x, z)
    assert "against eager" in str(record) and "differs" not in str(record)


CHANGING = {
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "t_": lambda x: x.unsqueeze(1).t_(),
    "squeeze_": lambda x: x.squeeze_(),
    "expanded": lambda x: x.expand(2, 3).add_(1),
    "expanded rows": lambda x: x.view(3, 1).expand(3, 2).mul_(2),
}


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("name", CHANGING)
def test_a_wrapper_that_changes_in_place(name, made):
    """What is inside got other axes and the wrapper kept its own; an error that the write raises is the program's."""

    def change(x):
        x = TwoTensor(x, x * 1) if made else x
        try:
            CHANGING[name](x)
        except RuntimeError as error:
            return x, str(error)
        return x, x * 2

    found = []
    for call in (change, explorer.compile(change)):
        x = torch.arange(3.0) if made else two()
        result, other = call(x)
        found.append((result.shape, result.stride(), result.a.tolist(), result.a.shape, x.shape, str(other)))
    assert found[0] == found[1]


@pytest.mark.parametrize("change", [lambda x: x.unsqueeze_(0), lambda x: x.t_(), lambda x: x.squeeze_(0)])
def test_a_wrapper_keeps_its_axes_where_a_tensor_that_it_is_made_of_gets_others(change):
    def wrapped(x):
        made = Scaled(x, 3)
        change(x)
        return made, x

    def called(x):
        return x * 2, x.shape, x.stride()

    found = []
    for each in (lambda f: f, explorer.compile):
        made, x = each(wrapped)(torch.arange(3.0).reshape(1, 3))
        later = each(called)(made)
        found.append((made.shape, made.stride(), made.data_.stride(), x.shape, inside(later)))
    assert found[0] == found[1]
