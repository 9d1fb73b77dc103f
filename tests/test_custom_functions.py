"""What the methods of a torch.autograd.Function read, and change, is as in eager when it changes between calls."""

import pytest
import torch

import explorer

STATE = {"scale": 2.0}
LOG = []
SCALE = 2.0
COUNT = 0


def helper(x):
    return x * SCALE


def function(forward, backward=lambda ctx, grad: grad * 2, **members):
    return type("Custom", (torch.autograd.Function,),
                {"forward": staticmethod(forward), "backward": staticmethod(backward), **members})  # fmt: skip


def logged(ctx, x):
    LOG.append(1)
    return x * len(LOG)


def counted(ctx, x):
    global COUNT
    COUNT += 1
    return x * COUNT


def printed(ctx, grad):
    print("backward")
    return grad


class Attribute(torch.autograd.Function):
    scale = 2.0

    @staticmethod
    def forward(ctx, x):
        return x * Attribute.scale

    @staticmethod
    def backward(ctx, grad):
        return grad * Attribute.scale


def set_context(ctx, inputs, output):
    ctx.scale = SCALE


CASES = {
    "global": function(lambda ctx, x: x * SCALE),
    "helper": function(lambda ctx, x: helper(x)),
    "backward": function(lambda ctx, x: x * 1, lambda ctx, grad: grad * SCALE),
    "dict": function(lambda ctx, x: x * STATE["scale"]),
    "attribute": Attribute,
    "list": function(logged),
    "counter": function(counted),
    "print": function(lambda ctx, x: x * 1, printed),
    "context": function(lambda x: x * 1, lambda ctx, g: g * ctx.scale, setup_context=staticmethod(set_context)),
    "nested": function(lambda ctx, x: Attribute.apply(x), lambda ctx, grad: Attribute.apply(grad)),
}


def outcome(call, custom, capsys):
    global SCALE, COUNT
    COUNT, found = 0, []
    LOG.clear()
    for scale in (2.0, 3.0, 2.0, 5.0):
        SCALE = STATE["scale"] = Attribute.scale = scale
        x = torch.arange(1.0, 4.0, requires_grad=True)
        y = call(x)
        y.sum().backward()
        found += [y.tolist(), x.grad.tolist(), len(LOG), COUNT]
    return found, capsys.readouterr().out


@pytest.mark.parametrize("name", CASES)
def test_state_as_in_eager(name, capsys):
    custom = CASES[name]

    def f(x):
        return custom.apply(x * 1) + 1

    assert outcome(explorer.compile(f), custom, capsys) == outcome(f, custom, capsys)


def test_numbers_that_are_read_break_no_graph():
    def f(x):
        return CASES["global"].apply(x) + 1

    x = torch.ones(3, requires_grad=True)
    assert torch.equal(explorer.compile(f, fullgraph=True)(x), f(x))


class Settings:
    def __init__(self):
        self.scale, self.weight = 2.0, torch.tensor([1.0, 2.0, 3.0])


class OfObject(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, settings):
        y = x.sin()
        ctx.settings, ctx.parts = settings, [y * 2]
        ctx.save_for_backward(x, y)
        return y * settings.scale * settings.weight

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * ctx.settings.scale * ctx.settings.weight * x.cos() + y * ctx.parts[0], None


class Several(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given, y):
        ctx.given, ctx.shape = given, y.shape
        return given["x"] * y, y.sum(), given["n"]

    @staticmethod
    def backward(ctx, first, second, third):
        assert third is None
        return None, first * ctx.given["x"] + second.expand(ctx.shape)


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(x, given):
        return x * given["k"], x > 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]["k"]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, _):
        return grad * ctx.k, None


def several(x):
    first, second, n = Several.apply({"x": torch.full((3,), 3.0), "n": 5}, x * 2)
    return first.sum() * n + second


def made(x):
    found, mask = Marked().apply(x * 1.5, {"k": 3.0})
    return (found * mask).sum()


@pytest.mark.parametrize("name", ["object", "several", "marked"])
def test_methods_are_part_of_the_graph(name):
    settings = Settings()
    function = {"object": lambda x: OfObject.apply(x, settings).sum(), "several": several, "marked": made}[name]
    compiled = explorer.compile(function, fullgraph=True)
    for scale in (2.0, 3.0):
        settings.scale, settings.weight, found = scale, torch.full((3,), scale), []
        for call in (function, compiled):
            x = torch.tensor([0.5, 1.5, 2.5], requires_grad=True)
            y = call(x)
            y.backward()
            found += [(y.detach(), x.grad), (call(x.detach()), x)]
        for ours, theirs in zip(found[:2], found[2:], strict=True):
            torch.testing.assert_close(ours, theirs)


def exported(g, x):
    import math

    return g.op("Mul", x, math.tau)


def test_what_only_an_exporter_calls_is_not_read():
    Scaled = function(lambda ctx, x: x * 3, symbolic=staticmethod(exported))
    x = torch.randn(3, requires_grad=True)
    y = explorer.compile(lambda x: Scaled.apply(x) + 1, backend="eager", fullgraph=True)(x)
    y.sum().backward()
    assert torch.equal(y, x * 3 + 1) and torch.equal(x.grad, torch.full((3,), 2.0))


def written(ctx, x, mask):
    y = torch.softmax(x.masked_fill(mask, -1e9 * STATE["scale"]), -1)
    y.masked_fill_(mask, 0)
    ctx.save_for_backward(y)
    return y


def softmax_backward(ctx, grad):
    (y,) = ctx.saved_tensors
    return torch._softmax_backward_data(grad, y, -1, y.dtype), None


def test_a_function_may_write_what_it_makes_and_saves():
    Softmax = function(written, softmax_backward)
    x, mask = torch.randn(3, 4, requires_grad=True), torch.arange(4) > 2
    found = [f(lambda x: Softmax.apply(x * 2, mask) * 3) for f in (lambda f: f, compiled)]
    grads = [torch.autograd.grad(f(x).square().sum(), x)[0] for f in found]
    torch.testing.assert_close(found[1](x), found[0](x))
    torch.testing.assert_close(grads[1], grads[0])


def compiled(f):
    return explorer.compile(f, backend="eager", fullgraph=True)


class Heard(torch.Tensor):
    """Hears of each call of torch on it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        LOG.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})


class Named(torch.Tensor):
    """Answers nothing itself."""


class Typed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.save_for_backward(x)
        return x * x * (by if type(x) is torch.Tensor else by + 1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * len(type(x).__name__), None


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", [Heard, Named, torch.Tensor])
def test_methods_see_the_class_of_what_they_are_given(kind, training):
    def inside(x):
        return Typed.apply(2 - x.as_subclass(kind), 3)

    def given(x):
        return Typed.apply(x, 3)

    for function in (inside, given):
        found = []
        for run in (function, explorer.compile(function)):
            LOG.clear()
            x = torch.tensor([0.5, 1.5], requires_grad=training).as_subclass(
                kind if function is given else torch.Tensor
            )
            y = run(x)
            found.append(str((type(y), y.tolist(), LOG)))
            if training:
                found[-1] += str(torch.autograd.grad(y.sum(), x))
        assert found[0] == found[1]


def asks_isinstance(w):
    return 2 if isinstance(w, torch.nn.Parameter) else 1


def asks_type(w):
    return 3 if type(w) is torch.nn.Parameter else 1


def asks_grad(w):
    return 1 if w.grad is None else 5


@pytest.mark.parametrize("asked", [asks_isinstance, asks_type, asks_grad])
def test_methods_see_parameters_and_their_gradients(asked):
    class Asking(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w * asked(w)

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad * w * asked(w), grad * x

    found = []
    for run in (Asking.apply, explorer.compile(lambda x, w: Asking.apply(x, w))):
        p, q = torch.nn.Parameter(torch.ones(3)), torch.ones(3, requires_grad=True)
        for x, w in ((q, p), (p, q), (q, p), (p, p)):
            y = run(x, w)
            y.sum().backward()
            found.append([y.tolist(), p.grad.tolist(), q.grad.tolist()])
    assert found[:4] == found[4:]
