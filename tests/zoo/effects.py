"""What a call leaves behind: mutated inputs, aliased outputs, changed objects, counters and globals."""

import torch

from zoo.program import call, program

COUNTER = 0
CACHE: dict[str, torch.Tensor] = {}


@program("mutation inplace", inputs=lambda: call(torch.randn(3, 4)))
def mutates_input(x):
    x.mul_(2.0)
    x += 1
    return x.sum()


@program("mutation inplace view", inputs=lambda: call(torch.randn(4, 4)))
def mutates_views_of_input(x):
    x[0] = 1.0
    x[:, 1].add_(10.0)
    x.t()[2].zero_()
    x.view(-1)[5:7].copy_(torch.tensor([7.0, 8.0]))
    x.diagonal().mul_(-1)
    return x[1:].clone()


@program("mutation inplace", inputs=lambda: call(torch.randn(3)), grad=True)
def inplace_on_intermediate(x):
    y = x.clone()
    y[0] = 0.0
    y.add_(x).sin_()
    y.mul_(y.detach() + 1)
    z = y.view(3, 1)
    z[1:].add_(1.0)
    return y


@program("mutation", inputs=lambda: call(torch.randn(3), torch.randn(3)), frozen=(0,), grad=True)
def copies_into_input(state, x):
    old = state.clone()
    state.copy_(state * 0.9 + x.detach() * 0.1)
    return x * old + state


@program("mutation", inputs=lambda: call(torch.randn(3), torch.empty(3)))
def out_argument(x, out):
    torch.add(x, 1.0, out=out)
    return out * 2


@program("mutation alias", inputs=lambda: call(torch.randn(3)))
def mutates_and_returns_input(x):
    x.add_(1.0)
    return x, x[1:], x * 2


@program("alias", inputs=lambda: call(torch.randn(3), torch.randn(3)), grad=True)
def returns_inputs(x, y):
    return y, x, x


@program("alias multi_output", inputs=lambda: call(torch.randn(3, 4)), grad=True)
def outputs_alias_each_other(x):
    y = x * 2.0
    return y, y, y.t(), y[1:], y.view(-1)


@program("alias view", inputs=lambda: call(torch.randn(3, 4)), grad=True)
def outputs_alias_inputs(x):
    return x.view(-1), x.detach(), x[0] * 1.0


def overlapping():
    base = torch.randn(6)
    return call(base[:4], base[2:])


@program("alias mutation", inputs=overlapping, other_inputs=(lambda: call(torch.randn(4), torch.randn(4)),))
def overlapping_inputs(a, b):
    a.add_(1.0)
    return b * 2.0


def same_twice():
    x = torch.randn(3)
    return call(x, x)


@program("alias mutation control_flow", inputs=same_twice, other_inputs=(lambda: call(torch.randn(3), torch.randn(3)),))
def same_input_twice(a, b):
    a.mul_(3.0)
    if a is b:
        return a + 1
    return a + b


@program("mutation noncontiguous", inputs=lambda: call(torch.randn(4, 6)[:, ::2], torch.randn(3, 4).t()))
def mutates_strided_inputs(x, y):
    x.add_(y)
    y.copy_(x * 2)
    return x.sum(0)


@program(
    "effects container mutation",
    inputs=lambda: call(torch.randn(3), [torch.zeros(3)], {"old": torch.ones(3), "gone": 1}),
    frozen=(1, 2),
    grad=True,
)
def mutates_containers(x, items, table):
    y = x + 1
    items.append(y)
    items[0] = x * 2
    table["new"] = y.sum()
    del table["gone"]
    table["old"].add_(1.0)
    return y, len(items)


class Holder:
    def __init__(self, value):
        self.value = value
        self.count = 0
        self.stale = True


@program("effects class", inputs=lambda: call(torch.randn(3), Holder(torch.ones(3))), frozen=(1,), grad=True)
def sets_attributes(x, holder):
    holder.count += 1
    holder.value = holder.value + x * holder.count
    holder.extra = [x, "seen"]
    del holder.stale
    setattr(holder, f"dim{x.dim()}", x.shape[0])
    return holder.value * 2


@program(
    "effects global", inputs=lambda: call(torch.randn(3)), factory=True, state=lambda fn: (COUNTER, CACHE), grad=True
)
def mutates_globals():
    global COUNTER
    COUNTER = 0
    CACHE.clear()

    def counted(x):
        global COUNTER
        COUNTER += 1
        y = x * COUNTER
        CACHE["last"] = y.detach()
        return y

    return counted


@program("effects closure", inputs=lambda: call(torch.randn(3)), factory=True, state=lambda fn: fn.total(), grad=True)
def mutates_closure():
    count, history = 0, []

    def step(x):
        nonlocal count
        count += 1
        history.append(x.detach() * count)
        return x + count

    step.total = lambda: (count, history)
    return step


@program("effects mutation no_grad", inputs=lambda: call(torch.randn(3), [torch.ones(3), torch.full((3,), 2.0)]))
@torch.no_grad()
def sgd_step(grad, parameters):
    for parameter in parameters:
        parameter -= 0.1 * grad
        parameter.clamp_(-1.0, 1.5)


@program("mutation effects alias", inputs=lambda: call(torch.randn(2, 3), torch.tensor(1)))
def kv_cache_write(new, position):
    cache = torch.zeros(4, 3)
    cache[position] = new[0]
    cache.index_copy_(0, position + torch.arange(1, 2), new[1:])
    view = cache[1:3]
    view *= 2
    return cache, view
