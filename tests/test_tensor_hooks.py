"""Hooks of tensors that compiled code registers: one graph, and gradients as in eager."""

import contextlib
import copy
import itertools

import pytest
import torch

import explorer

WEIGHT = torch.tensor([1.0, 2.0, 3.0])


def tripled(grad):
    return grad * 3


def double(leaf):
    leaf.grad.mul_(2)


def of_intermediate(x):
    y = x * 2
    y.register_hook(tripled)
    return y.sum(), y


def of_input(x):
    x.register_hook(tripled)
    return (x * 2).sum(), None


def removed(x):
    handle = x.register_hook(tripled)
    y = (x * 2).sum()
    handle.remove()
    return y, None


def several(x):
    y, k = x * 2, 4.0
    y.register_hook(lambda grad: grad * WEIGHT * k)
    y.register_hook(lambda grad: None)
    z = y * 2
    y.register_hook(lambda grad: grad.clamp(max=5))
    return z.sum() + y.exp().sum(), y


def with_effect(x):
    seen = []
    x.register_hook(lambda grad: seen.append(grad.sum().item()))
    return (x * x).sum(), seen


def kept(x):
    return (x * 2).sum(), x.register_hook(tripled)


def accumulated(x):
    x.register_post_accumulate_grad_hook(double)
    return (x * 2).sum(), None


def refused(x):
    return (x.detach() * 2).register_hook(tripled)


CASES = [of_intermediate, of_input, removed, several, with_effect, kept, accumulated]


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_gradients_as_in_eager(function):
    found = []
    for call in (function, explorer.compile(function, fullgraph=True)):
        for _ in range(2):
            x = torch.tensor([0.5, 1.5, 2.5], requires_grad=True)
            y, more = call(x)
            y.backward()
            kind = more if isinstance(more, list) else type(more)
            found.append((y.item(), x.grad.tolist(), kind, len(x._backward_hooks or ())))
    for ours, theirs in zip(found[2:], found[:2], strict=True):
        torch.testing.assert_close(ours[:2], theirs[:2])
        assert ours[2:] == theirs[2:]


def test_a_hook_of_what_needs_no_gradient_is_refused():
    for call in (refused, explorer.compile(refused)):
        with pytest.raises(RuntimeError, match="doesn't require gradient"):
            call(torch.ones(3, requires_grad=True))


WRITES = (
    lambda a: a.mul_(2),
    lambda a: a[0].mul_(2),
    lambda a: a.unsqueeze_(0),
    lambda a: a.copy_(a * 3),
)


@pytest.mark.parametrize("order", ["hook write", "write hook", "hook write hook", "write hook write"])
def test_hooks_of_inputs_that_are_written(order):
    for write in WRITES:

        def function(a, write=write):
            for step in order.split():
                if step == "write":
                    write(a)
                else:
                    a.register_hook(tripled)
            return a * a

        found = []
        for call in (function, explorer.compile(function)):
            x = torch.tensor([0.5, 1.5, 2.5], requires_grad=True)
            given = x * 1
            (call(given) * given).sum().backward()
            found.append(x.grad)
        torch.testing.assert_close(*found)


def test_a_leaf_with_a_hook_is_detached():
    def function(x):
        x.register_hook(tripled)
        x.detach_()

    for call in (function, explorer.compile(function)):
        x = torch.ones(3, requires_grad=True)
        call(x)
        assert not x.requires_grad and len(x._backward_hooks) == 1


@pytest.mark.parametrize("writes", [False, True])
def test_a_hook_where_nothing_counts_writes(writes):
    def program(x):
        x.register_hook(lambda gradient: gradient)
        if writes:
            x.fill_(3.0)
        return x * 2

    def outcomes(function):
        x = torch.ones(2, requires_grad=True) * 1
        with torch.no_grad():
            first = function(x)
        with torch.inference_mode():
            return first, function(x), x.detach()

    for one, other in zip(outcomes(explorer.compile(program)), outcomes(program), strict=True):
        assert torch.equal(one, other)


REACHED = {
    "by a product that nobody uses": lambda a, b: (a * b, b * 2)[1:],
    "detached": lambda a, b: (a.detach() * b,),
    "compared": lambda a, b: (b * 2, a > 0),
    "without gradients": lambda a, b: (b * torch.no_grad()(torch.sin)(a),),
    "apart": lambda a, b: (b * 3, a * 2),
}
GIVEN = {
    "itself": lambda x: x,
    "view": lambda x: x.view(-1),
    "row": lambda x: x.t()[0],
}


@pytest.mark.parametrize("reached", REACHED)
def test_hooks_of_inputs_that_the_backward_does_not_reach_are_not_called(reached):
    found = {}
    for call in (REACHED[reached], explorer.compile(REACHED[reached])):
        for given, place in itertools.product(GIVEN, (0, -1)):
            seen = []
            x, w = torch.ones(3, 1, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
            x.register_hook(lambda grad, seen=seen: seen.append(None if grad is None else grad.tolist()))
            results = [y for y in call(GIVEN[given](x), w) if y.requires_grad]
            results[place].sum().backward()
            found.setdefault((given, place), []).append(str((seen, x.grad, w.grad)))
    assert all(ours == eager for eager, ours in found.values())


SAVING = {
    "exp": lambda x: x.exp().sum(),
    "product": lambda x: x * x,
    "chain": lambda x: ((x + 1).sin() * 2).cos(),
    "matrices": lambda x: (x @ x.mT).sum(),
    "softmax": lambda x: torch.softmax(x, -1) * torch.log_softmax(x, -1),
    "relu": lambda x: torch.relu(x).tanh(),
    "norm": lambda x: torch.nn.functional.layer_norm(x, (3,)),
    "loss": lambda x: torch.nn.functional.cross_entropy(x, torch.tensor([0, 1])),
    "statistics": lambda x: x.var() + x.std() + x.prod() + x.max(),
    "choice": lambda x: torch.where(x > 0, x, x * 2),
    "indices": lambda x: x[torch.tensor([0])],
    "several": lambda x: (x.exp(), x.sin()),
    "not used": lambda x: (x.exp(), x.sin(), x + 1)[2],
    "in place": lambda x: (x * 1).exp_().sum(),
    "without gradients": lambda x: x.detach().exp() * 2,
}


@pytest.mark.parametrize("change", [lambda tensor: tensor, lambda tensor: tensor * 2], ids=["same", "changed"])
@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("name", SAVING)
def test_hooks_of_saved_tensors_see_what_eager_saves(name, backend, change):
    compiled = explorer.compile(SAVING[name], backend=backend)
    for is_hooked in (True, False, True):
        found = []
        for call in (SAVING[name], compiled):
            seen = []

            def pack(tensor, seen=seen):
                seen.append(tensor.tolist())
                return change(tensor) if tensor.is_floating_point() else tensor

            def unpack(tensor, seen=seen):
                seen.append("unpacked")
                return tensor

            x = torch.linspace(-1.0, 2.0, 6).view(2, 3).requires_grad_()
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack) if is_hooked else contextlib.nullcontext():
                result = call(x)
            first = result if isinstance(result, torch.Tensor) else result[0]
            if first.requires_grad:
                first.sum().backward()
            found.append((seen, x.grad))
        assert found[0][0] == found[1][0]
        torch.testing.assert_close(found[0][1], found[1][1])


VIEWS = {
    "expanded": lambda x: x.expand(2, 2, 3),
    "viewed": lambda x: x.view(-1),
    "turned": lambda x: x.t(),
    "a row": lambda x: x[0],
    "one of several": lambda x: x.unbind()[1],
    "itself": lambda x: x.view_as(x),
    "computed": lambda x: (x * 2).view(-1),
}
RETURNED = {
    "alone": lambda x, y: (y,),
    "summed": lambda x, y: (y.sum(),),
    "used too": lambda x, y: (y, y * 3),
    "with its base": lambda x, y: (y, y.view(-1) if y.is_contiguous() else y.sum()),
    "another view": lambda x, y: (x.view(-1), y.exp()),
}


@pytest.mark.parametrize("returned", RETURNED)
@pytest.mark.parametrize("view", VIEWS)
def test_hooks_of_views(view, returned):
    """A view of an input that is returned is made outside of the compiled forward: its hook was lost."""

    def function(x):
        y = VIEWS[view](x)
        y.register_hook(lambda grad: grad * 2)
        return RETURNED[returned](x, y)

    found = []
    for call in (function, explorer.compile(function)):
        x = torch.linspace(-1, 1, 6).view(2, 3).requires_grad_()
        sum(each.sum() for each in call(x)).backward()
        found.append(x.grad)
    torch.testing.assert_close(*found)


def outcome(call, make):
    x = make()
    y, said = call(x)
    return y.tolist(), said, None if not x.is_leaf or x.grad is None else x.grad.tolist(), x.requires_grad


LEAVES_AND_OTHERS = (
    lambda: torch.ones(2, 3, requires_grad=True),
    lambda: torch.ones(2, 3, requires_grad=True) * 1,
    lambda: torch.ones(6, requires_grad=True).view(2, 3),
    lambda: torch.ones(2, 3),
    lambda: torch.ones(2, 3, dtype=torch.int64),
    lambda: torch.ones(3, 3),
)
REFUSED = {
    "a hook": lambda x: x.register_hook(tripled) and None,
    "a hook of an accumulated gradient": lambda x: x.register_post_accumulate_grad_hook(double) and None,
    "a gradient of other sizes": lambda x: setattr(x, "grad", torch.ones(2, 3)),
    "a gradient of unknown sizes": lambda x: setattr(x, "grad", torch.ones(6)[torch.nonzero(torch.ones(6))].view(-1)),
    "a gradient of another type": lambda x: setattr(x, "grad", x.double()),
    "itself as gradient": lambda x: setattr(x, "grad", x),
    "no tensor as gradient": lambda x: setattr(x, "grad", "x"),
}


@pytest.mark.parametrize("act", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("first", range(3))
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_what_torch_refuses_is_raised_in_the_programs_own_try(act, first):
    def program(x):
        try:
            act(x)
            said = "done"
        except (RuntimeError, TypeError) as error:
            said = str(error)
        return x * 2, said

    compiled = explorer.compile(program)
    for make in (*LEAVES_AND_OTHERS[first:], *LEAVES_AND_OTHERS[:first]):
        assert outcome(compiled, make) == outcome(program, make)


ASKED = {
    "clears its gradient": lambda v: setattr(v, "grad", None),
    "reads its gradient": lambda v: v.grad is None,
    "copies it": lambda v: v.requires_grad or copy.deepcopy(v).sum().item(),
    "asks for its leaf": lambda v: v.is_leaf,
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_a_view_that_autograd_cannot_make_again_is_asked_as_in_eager(ask):
    def program(x):
        with torch.enable_grad():
            view = x.narrow(0, 1, 1)
        with torch.no_grad():
            x += x
        return x**2, ask(view)

    compiled = explorer.compile(program, dynamic=True)
    for make in (lambda: torch.ones(4).reshape(2, 2)[:, 0].requires_grad_(), *LEAVES_AND_OTHERS[:4]):
        assert outcome(compiled, make) == outcome(program, make)  # the first is a leaf, its base has no gradient
