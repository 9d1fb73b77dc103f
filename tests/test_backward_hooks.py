"""Hooks, saved tensors, and what a backward may be asked again: as in eager."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import explorer
from trained import CASES, T, case, check_as_in_eager


@case
def hooks_tensor_outside(c):
    log = []
    f = c(lambda x: (x * 2).sin())
    x = T(3)
    x.register_hook(lambda g: log.append("x") or g * 2)
    y = f(x)
    y.register_hook(lambda g: log.append("y") or g * 3)
    y.sum().backward()
    return x.grad, log


@case
def hooks_unused_output(c):
    log = []
    f = c(lambda x, w: (x * 2, w * 3))
    x = T(3)
    w = T(3, seed=1)
    x.register_hook(lambda g: log.append("x"))
    w.register_hook(lambda g: log.append("w"))
    y, z = f(x, w)
    y.sum().backward()
    return log, w.grad


@case
def leaf_turned_without_grad(c):
    def f(x):
        with torch.no_grad():
            x.t_()
        return x.norm()

    x = T(3)
    c(f)(x).backward()
    return x.grad


@case
def hooks_inside(c):

    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 5)
        return y.sin()

    g = c(f)
    x = T(3)
    g(x).sum().backward()
    return x.grad


@case
def hooks_inside_log(c):
    log = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: log.append(g.clone()))
        return y.sin()

    g = c(f)
    x = T(3)
    g(x).sum().backward()
    return x.grad, log


@case
def hooks_post_acc(c):
    log = []
    f = c(lambda x: (x * 2).sin())
    x = T(3)
    x.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.clone()))
    f(x).sum().backward()
    f(x).sum().backward()
    return x.grad, log


@case
def hooks_post_acc_opt(c):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    cm = c(m)
    o = {p: torch.optim.SGD([p], lr=0.1) for p in m.parameters()}

    def h(p):
        o[p].step()
        o[p].zero_grad()

    for p in m.parameters():
        p.register_post_accumulate_grad_hook(h)
    for _i in range(3):
        cm(torch.ones(2, 3)).sum().backward()
    return [p.detach() for p in m.parameters()]


@case
def hooks_full_backward(c):
    log = []
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    m[0].register_full_backward_hook(lambda mod, gi, go: log.append((type(mod).__name__, gi, go)))
    m.register_full_backward_hook(lambda mod, gi, go: log.append((type(mod).__name__, gi, go)))
    m[2].register_full_backward_pre_hook(lambda mod, go: log.append(go))
    x = T(2, 3)
    c(m)(x).sum().backward()
    return log, x.grad


@case
def hooks_save_on_cpu(c):
    f = c(lambda x, w: (x * w).sin())
    x, w = T(3), T(3, seed=1)
    with torch.autograd.graph.save_on_cpu():
        y = f(x, w)
    y.sum().backward()
    return x.grad, w.grad


@case
def hooks_save_on_cpu_and_a_write(c):
    def f(a, b):
        x = a * 1
        with torch.autograd.graph.save_on_cpu():
            t = x.sin() * b
        return t, x.mul_(3)

    a, b = T(3), T(3, seed=1)
    c(f)(a, b)[0].sum().backward()
    return a.grad, b.grad


@case
def hooks_disable_saved(c):
    f = c(lambda x, w: (x * w).sin())
    x, w = T(3), T(3, seed=1)
    with torch.autograd.graph.disable_saved_tensors_hooks("no"):
        y = f(x, w)
    y.sum().backward()
    return x.grad


@case
def hooks_gradfn(c):
    log = []
    f = c(lambda x: (x * 2).sin())
    x = T(3)
    y = f(x)
    y.grad_fn.register_hook(lambda gi, go: log.append((len(gi), len(go))))
    y.grad_fn.register_prehook(lambda go: log.append(len(go)))
    y.sum().backward()
    return log, x.grad


@case
def retain_grad_out(c):
    f = c(lambda x: ((x * 2), (x * 2).sin()))
    x = T(3)
    a, b = f(x)
    a.retain_grad()
    b.retain_grad()
    (a * b).sum().backward()
    return a.grad, b.grad, x.grad


@case
def retain_grad_inside(c):
    def f(x):
        y = x * 2
        y.retain_grad()
        return y, y.sin()

    x = T(3)
    a, b = c(f)(x)
    b.sum().backward()
    return a.grad, x.grad, a.retains_grad


@case
def retain_grad_input(c):
    def f(x):
        x.retain_grad()
        return x.sin()

    x = T(3) * 1
    c(f)(x).sum().backward()
    return x.grad


@case
def once_diff(c):
    class Fn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos()

    f = c(lambda x: Fn.apply(x) * 2)
    x = T(3)
    y = f(x)
    y.sum().backward()
    r = x.grad.clone()
    y = f(x)
    (d,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    try:
        d.sum().backward()
        e = None
    except RuntimeError as err:
        e = "once_differentiable" in str(err)
    return r, d, e


@case
def fn_dbl(c):
    class Fn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos() * 3

    f = c(lambda x: Fn.apply(x) * 2)
    x = T(3)
    y = f(x)
    (d,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    d.sum().backward()
    return d, x.grad


@case
def anomaly(c):
    f = c(lambda x: x.sqrt().sum())
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    with torch.autograd.detect_anomaly(False):
        f(x).backward()
    with torch.autograd.detect_anomaly():
        (f(x) * 0).backward()
    return x.grad


@case
def retain_graph(c):
    f = c(lambda x: (x * x).sin().sum())
    x = T(3)
    y = f(x)
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@case
def backward_twice_error(c):
    f = c(lambda x: (x * x).sin().sum())
    x = T(3)
    y = f(x)
    y.backward()
    y.backward()
    return x.grad


@case
def backward_twice_add(c):
    f = c(lambda x: x + 1)
    x = T(3)
    y = f(x)
    y.sum().backward()
    y.sum().backward()
    return x.grad


@case
def outputs_two_calls(c):
    f = c(lambda x: (x.sin(), x.exp()))
    x = T(3)
    a, b = f(x)
    a.sum().backward()
    b.sum().backward()
    return x.grad


@case
def outputs_two_calls_indep(c):
    f = c(lambda x, w: (x.sin(), w.exp()))
    x, w = T(3), T(3)
    a, b = f(x, w)
    a.sum().backward()
    b.sum().backward()
    return x.grad, w.grad


@case
def backward_inputs(c):
    f = c(lambda x, w: (x * w).sum())
    x, w = T(3), T(3, seed=1)
    f(x, w).backward(inputs=[x])
    return x.grad, w.grad


@case
def grads_twice(c):
    f = c(lambda x, w: (x * w).sin().sum())
    x, w = T(3), T(3, seed=1)
    y = f(x, w)
    a = torch.autograd.grad(y, x, retain_graph=True)
    b = torch.autograd.grad(y, w)
    return a, b


@case
def batched_grad(c):
    f = c(lambda x: (x * x).sin())
    x = T(3)
    y = f(x)
    return torch.autograd.grad(y, x, torch.eye(3, dtype=torch.float64), is_grads_batched=True)


@case
def vec_jacobian(c):
    f = c(lambda x: (x * x).sin())
    return torch.autograd.functional.jacobian(f, T(3), vectorize=True)


@case
def outputs_one_at_a_time_after_a_break(c):
    log = []

    def f(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return x * 2, y * 1, y

    x = T(3)
    a, b, y = c(f)(x)
    y.grad_fn.register_hook(lambda made, given: log.append(len(given)))
    y.grad_fn.register_prehook(lambda given: log.append(given[0] is None))
    a.sum().backward()
    log.append("then")
    b.sum().backward()
    return x.grad, log


@case
def written_after_a_break(c):
    def f(x):
        y = x.relu_()
        torch._dynamo.graph_break()
        x.clamp_(0, 1)
        return y * 2

    x = T(2, 3)
    c(f)((x * 1)[:1]).sum().backward()
    return x.grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, program in CASES.items() if program.__module__ == __name__])
def test_as_in_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_as_in_eager(name, monkeypatch)


class Told(torch.autograd.Function):
    log: list[str] = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        Told.log.append("backward")
        return g


def with_hook(y):
    v = y * 2
    v.register_hook(lambda g: Told.log.append(g is None))
    return v * 2


def with_hook_of_its_function(y):
    v = y * 2
    v.grad_fn.register_hook(lambda made, given: Told.log.append("node"))
    return v * 2


def with_hook_of_a_leaf(y):
    y.register_post_accumulate_grad_hook(lambda x: Told.log.append("leaf"))
    return y


BEFORE = {
    "saves": torch.exp,
    "has no derivative": torch.unique,
    "of the program": Told.apply,
    "hook": with_hook,
    "hook of a function": with_hook_of_its_function,
    "hook of a leaf": with_hook_of_a_leaf,
}
FRAMES = {
    "two results": lambda u, x: (u * 2, x * 3),
    "one of both": lambda u, x: (x * u, x * 3),
    "one after the other": lambda u, x: ((y := x * 2), y * u),
    "written unseen": lambda u, x: (torch.no_grad()(u.mul_)(2), x * 3, x * 4)[1:],
}


@pytest.mark.parametrize("compiled_before", [False, True])
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("before", BEFORE)
def test_what_computed_an_input_is_reached_from_the_results_that_come_from_it(before, frame, compiled_before):
    """Its functions run, raise and free what they saved for these alone."""

    def outcome(c, order):
        Told.log.clear()
        x, y = T(3), T(3, seed=1)
        u = BEFORE[before](y)
        if compiled_before:
            u = c(torch.cos)(u)
        if frame == "written unseen" and u is y:
            u = y.detach()
        results = c(FRAMES[frame])(u, x)
        said = []
        for k in order:
            try:
                results[k].sum().backward()
            except RuntimeError as error:
                said.append(str(error))
        return said, [each if each is None else each.tolist() for each in (x.grad, y.grad)], list(Told.log)

    for order in ((0,), (1,), (0, 1), (1, 0)):
        expected, got = (outcome(each, order) for each in (lambda f: f, explorer.compile))
        assert got[0] == expected[0] and got[2] == expected[2], order
        for one, other in zip(expected[1], got[1], strict=True):
            assert one is other is None or one == pytest.approx(other), order


ONE_OF_SEVERAL = {
    "sum": lambda x: (x * 2, x.sum()),
    "sum of rows": lambda x: (x * 2, x.sum(0), x.mean(1)),
    "sum of several": lambda x: (x.exp(), -x.sum(0), x.sum(1, keepdim=True)),
    "transposed": lambda x: (x * 2, x.t() * 3),
    "views": lambda x: (x * 2, x.unsqueeze(0) * 3, x.reshape(-1) * 2),
    "a copy": lambda x: ((y := x * 1).exp(), y.sum()),
    "part": lambda x: (x.exp(), x[:, 0], x.diagonal()),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", ONE_OF_SEVERAL)
def test_a_gradient_lies_as_in_eager_where_others_that_it_is_added_to_do_not_come(name, dynamic):
    program = ONE_OF_SEVERAL[name]
    compiled = explorer.compile(program, dynamic=dynamic)
    for shape in ((2, 3), (3, 3)):
        for k in range(len(program(T(*shape)))):
            found = []
            for call in (program, compiled):
                x = T(*shape)
                result = call(x)[k]
                found += torch.autograd.grad(result, x, torch.full_like(result, 1.5))
            assert found[0].stride() == found[1].stride(), (shape, k)
            torch.testing.assert_close(found[0], found[1])


def apart(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    return x.sin(), w.exp()


def through_one_value(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    t = w.exp()
    return t.sin(), t * x


def through_an_output(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    t = w.exp()
    return t, t * x.cos()


def alone(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    return (x.exp().sin() + w.cos(),)


ASKED = [None, "x", "w", "xw"]
"""The inputs of torch.autograd.grad; None: a backward to all leaves."""


@pytest.mark.parametrize("f", [apart, through_one_value, through_an_output, alone])
def test_two_backwards_run_the_hooks_and_free_the_values_that_eager_does(f: Callable[..., tuple[Tensor, ...]]) -> None:
    """Each pair of backwards: from which outputs, to which inputs."""

    def outcome(run: Callable[..., tuple[Tensor, ...]], plan: tuple[tuple[int, str | None], ...], keep: bool) -> str:
        leaves = {name: torch.full((2,), value, requires_grad=True) for name, value in (("x", 0.5), ("w", 0.25))}
        outputs = run(*leaves.values())
        found: list[object] = []
        seen: list[tuple[int, float]] = []
        for k, output in enumerate(outputs):
            output.register_hook(lambda g, k=k: seen.append((k, round(g[0].item(), 4))))
        for of, asked in plan:
            heads = [each.sum() for k, each in enumerate(outputs) if of >> k & 1]
            seen.clear()
            try:
                if asked is None:
                    torch.autograd.backward(heads, retain_graph=keep)
                    made = [x.grad for x in leaves.values()]
                else:
                    to = [leaves[name] for name in asked]
                    made = list(torch.autograd.grad(heads, to, allow_unused=True, retain_graph=keep))
            except RuntimeError as error:  # of such a backward, how far it came is not compared
                return f"{found} {str(error)[:30]}"
            found += [*sorted(seen), *(None if g is None else round(g[0].item(), 4) for g in made)]
        return str(found)

    compiled = explorer.compile(f)
    count = len(f(torch.ones(2), torch.ones(2)))
    steps = list(itertools.product(range(1, 1 << count), ASKED))
    for keep, *plan in itertools.product([False, True], steps, steps):
        assert outcome(compiled, tuple(plan), keep) == outcome(f, tuple(plan), keep), (plan, keep)


def test_a_backward_that_ends_at_a_result_frees_what_lies_above() -> None:
    for run in (through_an_output, explorer.compile(through_an_output)):
        first, second = run(torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True))
        torch.autograd.grad(second.sum(), first)
        with pytest.raises(RuntimeError, match="second time"):
            second.sum().backward()
        first.sum().backward()
