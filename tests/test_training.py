"""Training as eager does it: each way to run a backward through a compiled function, beside the function itself."""

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import explorer
from explorer.compiler import pipeline
from trained import CASES, T, case, check_as_in_eager

aten = torch.ops.aten


@case
def modes(c):
    f = c(lambda x: (x * x).sum())
    x = T(3)
    out = []
    with torch.no_grad():
        y = f(x)
        out.append(y.requires_grad)
    with torch.inference_mode():
        y = f(x)
        out += [y.requires_grad, y.is_inference()]
    y = f(x)
    y.backward()
    return out, x.grad


@case
def modes_inside(c):
    def f(x):
        with torch.no_grad():
            a = x * 2
        with torch.inference_mode():
            x * 3
        with torch.enable_grad():
            d = x * 4
        return a, d * a

    x = T(3)
    a, d = c(f)(x)
    d.sum().backward()
    return a.requires_grad, x.grad


@case
def infer_out(c):
    def f(x):
        with torch.inference_mode():
            b = x * 3
        return b

    b = c(f)(T(3))
    return b.is_inference(), b


@case
def sparse_emb(c):
    torch.manual_seed(0)
    m = nn.Embedding(10, 3, sparse=True)
    cm = c(m)
    cm(torch.tensor([1, 2, 1])).sum().backward()
    return m.weight.grad.is_sparse, m.weight.grad.to_dense()


@case
def complex_grad(c):
    f = c(lambda x: (x * x.conj()).real.sum() + x.abs().sum() + (x**2).imag.sum())
    x = T(3, dtype=torch.complex128)
    f(x).backward()
    return x.grad


@case
def complex_dbl(c):
    f = c(lambda x: (x * x.conj() * x).real.sum())
    x = T(3, dtype=torch.complex128)
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    (g * g.conj()).real.sum().backward()
    return x.grad, g


@case
def ckpt(c):
    def blk(x, w):
        return F.dropout((x @ w).sin(), 0.5)

    f = c(lambda x, w: checkpoint(blk, x, w, use_reentrant=False).sum())
    x, w = T(3, 3), T(3, 3, seed=1)
    torch.manual_seed(1)
    f(x, w).backward()
    return x.grad, w.grad, torch.rand(1)


@case
def ckpt_that_changes_what_is_outside(c):
    m = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.ReLU()).double()
    seen = []

    def logged(x):
        seen.append(1)
        return x * len(seen)

    x = T(4, 3)
    found = []
    for r in (True, False):
        for blk in (m, logged):
            c(lambda x, blk=blk, r=r: checkpoint(blk, x, use_reentrant=r).sum())(x).backward()
            found += [x.grad.clone(), m[1].running_mean.clone(), m[1].num_batches_tracked.clone(), len(seen)]
    return found


@case
def ckpt_outside(c):
    blk = c(lambda x, w: F.dropout((x @ w).sin(), 0.5))
    out = []
    for r in (True, False):
        x, w = T(3, 3), T(3, 3, seed=1)
        torch.manual_seed(1)
        checkpoint(blk, x, w, use_reentrant=r).sum().backward()
        out += [x.grad, w.grad, torch.rand(1)]
    return out


@case
def autocast_scaler(c):
    torch.manual_seed(0)
    m = nn.Linear(4, 4)
    cm = c(m)
    o = torch.optim.SGD(m.parameters(), 0.1)
    s = torch.amp.GradScaler("cpu")
    for _i in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            l = cm(torch.ones(2, 4)).float().square().mean()
        s.scale(l).backward()
        s.unscale_(o)
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        s.step(o)
        s.update()
        o.zero_grad()
    return [p.detach() for p in m.parameters()]


@case
def accumulate(c):
    torch.manual_seed(0)
    m = nn.Linear(4, 4).double()
    cm = c(m)
    for i in range(4):
        (cm(T(2, 4, g=False, seed=i)).square().mean() / 4).backward()
    return [p.grad for p in m.parameters()]


@case
def partial_backward(c):
    f = c(lambda x, w: (x * w, (x * w).sin()))
    x, w = T(3), T(3, seed=1)
    a, b = f(x, w)
    g = torch.autograd.grad(b.sum(), a, allow_unused=True)
    return g


@case
def aliased_outs(c):
    def f(x):
        y = x * 2
        return y, y.view(-1), y[1:]

    x = T(4)
    a, b, d = c(f)(x)
    (a.sum() + (b * 2).sum() + (d * 3).sum()).backward()
    return x.grad, b._base is a, d._base is a


@case
def aliased_outs_write(c):
    def f(x):
        y = x * 2
        return y, y.view(-1)

    x = T(4)
    a, b = c(f)(x)
    b.mul_(3)
    a.sum().backward()
    return x.grad, a, b


@case
def same_out(c):
    def f(x):
        y = x * 2
        return y, y

    x = T(4)
    a, b = c(f)(x)
    (a + b).sum().backward()
    return x.grad, a is b


@case
def grad_inside(c):
    def f(x):
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return (g**2).sum() + y

    x = T(3)
    c(f)(x).backward()
    return x.grad


@case
def backward_inside(c):
    def f(x):
        y = (x**3).sum()
        y.backward()
        return y.detach()

    x = T(3)
    y = c(f)(x)
    return y, x.grad


@case
def requires_grad_in(c):
    def f(x):
        x.requires_grad_()
        return x * 2

    x = T(3, g=False)
    c(f)(x).sum().backward()
    return x.grad, x.requires_grad


@case
def set_rg(c):
    def f(x):
        x.requires_grad = True
        return x * 2

    x = T(3, g=False)
    c(f)(x).sum().backward()
    return x.grad, x.requires_grad


@case
def detach_(c):
    def f(x):
        y = x * 2
        y.detach_()
        return y * x

    x = T(3)
    c(f)(x).sum().backward()
    return x.grad


@case
def input_detach_(c):
    def f(x):
        x.detach_()
        return x * 2

    x = T(3) * 1
    y = c(f)(x)
    return x.requires_grad, y.requires_grad


@case
def write_param_nograd(c):
    def f(w, x):
        with torch.no_grad():
            w.mul_(2)
        return (w * x).sum()

    w, x = T(3), T(3, seed=1)
    c(f)(w, x).backward()
    return w.grad, w, x.grad


@case
def inplace_leaf_error(c):
    def f(w):
        w.mul_(2)
        return w.sum()

    w = T(3)
    return c(f)(w)


@case
def grad_mode_toggle(c):
    def f(x):
        torch.set_grad_enabled(False)
        y = x * 2
        torch.set_grad_enabled(True)
        return y, x * 3

    x = T(3)
    a, b = c(f)(x)
    return a.requires_grad, b.requires_grad, torch.is_grad_enabled()


@case
def layernorm_swin(c):
    torch.manual_seed(0)

    class P(nn.Module):
        def forward(self, x):
            return x.permute(0, 3, 1, 2)

    m = nn.Sequential(nn.LayerNorm(32), P(), nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(32, 5))
    c(m)(T(2, 2, 2, 32, dtype=torch.float32)).square().sum().backward()
    return m[0].weight.grad, m[0].bias.grad


@case
def output_written_that_eager_saves(c):
    x = T(4)
    y = c(lambda x: x.exp())(x)
    y.mul_(2)
    y.sum().backward()


@case
def output_written_under_no_grad(c):
    x = T(4)
    y, z = c(lambda x: (x.tanh(), x.sin()))(x)
    with torch.no_grad():
        z.zero_()
    z.sum().backward()
    with torch.no_grad():
        y.zero_()
    y.sum().backward()


@case
def output_by_output_of_a_loss(c):
    x, w = T(3), T(3, seed=1)
    a, b, d = c(lambda x, w: (x * w, (x * w).sin(), w + 1))(x, w)
    d.sum().backward()
    d.sum().backward()
    b.sum().backward()
    first = w.grad.clone()
    a.sum().backward()
    return first, w.grad, x.grad


@case
def hessian_vectorized(c):
    f = c(lambda x: (x.sin() * x.exp()).sum())
    return torch.autograd.functional.hessian(f, T(3), vectorize=True)


@case
def second_derivative_under_autocast(c):
    x, w = T(3, 3, dtype=torch.float32), T(3, 3, seed=1, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y = c(lambda x, w: (x @ w).sin().float())(x, w)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    g.square().sum().backward()
    return g, x.grad, w.grad


@case
def second_derivative_of_a_checkpoint(c):
    f = c(lambda x: (F.dropout(x, 0.5) ** 3).sin())
    x = T(20)
    torch.manual_seed(1)
    y = checkpoint(f, x, use_reentrant=False)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    return g, x.grad, torch.rand(1)


@case
def second_derivative_in_two_parts(c):
    x, w = T(3), T(3, seed=1)
    a, b = c(lambda x, w: ((x * w).sin(), (x * w).exp()))(x, w)
    (g,) = torch.autograd.grad(a.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(b.sum(), x, create_graph=True)
    (g * h).sum().backward()
    return g, h, x.grad, w.grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, program in CASES.items() if program.__module__ == __name__])
def test_as_in_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_as_in_eager(name, monkeypatch)


def _enabled(x):
    with torch.enable_grad():
        y = x.t()
        return y, (x * 2).t(), y[0]


def _disabled(x):
    with torch.no_grad():
        y = x.t()
    return y, x.t(), y[0]


@pytest.mark.parametrize("program", [_enabled, _disabled])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_views_belong_to_the_grad_mode_they_were_taken_in(program, mode):
    def facts(function):
        x = torch.ones(2, 2, requires_grad=True)
        with mode():
            found = function(x)
        return [(each.requires_grad, each.is_leaf) for each in found]

    assert facts(explorer.compile(program)) == facts(program)


@pytest.mark.parametrize(
    "leaf", ["x.clone().requires_grad_()", "nn.Parameter(x.clone())", "torch.ones(2, requires_grad=True)"]
)
@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize(
    "way",
    [
        "leaf * 2",
        "leaf[0]",
        "leaf.unbind()[0]",
        "torch.split(leaf, 1)[1] + x",
        "x.clone().add_(leaf)",
        "x.mul_(leaf)",
        "torch.stack([x, leaf])[0]",
        "torch.vmap(torch.sum)(leaf[None])",
        "torch.func.vjp(torch.square, leaf)[1](leaf)[0]",
        "(leaf * x).detach()",
    ],
)
def test_what_a_leaf_made_inside_gives_requires_grad(leaf, way, backend):
    namespace = {"torch": torch, "nn": torch.nn}
    exec(f"def program(x):\n    leaf = {leaf}\n    return {way}", namespace)
    program = namespace["program"]
    given = torch.ones(2), torch.ones(2)
    found = [program(given[0]), explorer.compile(program, backend=backend)(given[1])]
    assert found[0].requires_grad == found[1].requires_grad == ("detach" not in way)
    assert given[0].requires_grad == given[1].requires_grad == ("mul_" in way)
    assert torch.equal(*found)


def test_a_graph_with_a_backward_is_compiled_where_anomaly_mode_is_on() -> None:
    weight = torch.randn(3, 3, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        record = explorer.explore(lambda x: (x @ weight).tanh().sum(), time=False)(torch.randn(2, 3))
    (compile,) = (each for each in record.data.compiles if each.halves)
    assert len(compile.halves) == 2 and compile.fallback is None
    assert "equal to eager" in repr(record) and "anomaly mode is on" in repr(record)


def root_of(x: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(x)


ROOTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "function": lambda x: (root_of(x - 1) * 0).sum(),
    "method": lambda x: ((x - 1).sqrt() * 0).sum(),
}


def backward_in_anomaly_mode(x: torch.Tensor) -> None:
    with torch.autograd.set_detect_anomaly(True):
        (root_of(x - 1) * 0).sum().backward()


@pytest.mark.parametrize("name", [*ROOTS, "inside"])
def test_anomaly_mode_tells_the_line_of_the_forward(name: str) -> None:
    told = []
    for compiled in (lambda call: call, explorer.compile):
        x = torch.ones(3, requires_grad=True)
        with (
            pytest.warns(UserWarning, match="forward call that caused") as noted,
            pytest.raises(RuntimeError) as raised,
        ):
            if name == "inside":
                compiled(backward_in_anomaly_mode)(x)
            else:
                with torch.autograd.set_detect_anomaly(True):
                    compiled(ROOTS[name])(x).backward()
        (text,) = (str(each.message) for each in noted if "forward call" in str(each.message))
        told.append((str(raised.value), re.findall(rf'"{re.escape(__file__)}", line (\d+)', text)[-1]))
    assert told[0] == told[1]


@pytest.mark.parametrize("view", ["expand(2, 3)", "view(-1)", "t()", "unsqueeze(0)", "narrow(-1, 0, 2)", "detach()"])
def test_a_view_of_a_parameter_without_grad_stays_in_the_graph(view: str) -> None:
    """Such a view is a leaf that requires grad; that it shares the parameter's memory makes the parameter no result."""
    module = torch.nn.ParameterList([torch.randn(1, 3)])
    call = eval(f"lambda module, x: (module[0].{view} * x).sum()")
    with torch.no_grad():
        record = explorer.explore(call, time=False)(module, torch.tensor(2.0))
    assert not [compile.fallback for compile in record.data.compiles if compile.fallback]
    assert record.coverage.fallback == 0


@pytest.mark.parametrize("tangent", [1.5, 0.0, -0.0, math.inf, math.nan])
@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian"])
def test_gradients_that_are_no_numbers_reach_the_chosen_elements_alone(name: str, tangent: float) -> None:
    """On a CPU, where eager fills in what it shares among equal elements: zero times infinity is none of it."""
    nan = math.nan
    given = [torch.tensor(x) for x in ([1.0, 3.0, 3.0, 1.0], [nan, 1.0, nan, 2.0], 2.0, [[1.0, 2.0], [2.0, 0.0]])]
    for x in (*given, torch.rand(3, 4).bfloat16(), torch.rand(4, 3, dtype=torch.float64).t()):
        found = []
        for call in (getattr(torch, name), explorer.compile(lambda x: getattr(torch, name)(x), fullgraph=True)):
            leaf = x.clone().requires_grad_()
            result = call(leaf * 1)
            result.backward(torch.full_like(result, tangent))
            found.append((result.tolist(), leaf.grad.tolist(), leaf.grad.stride()))
        assert str(found[0]) == str(found[1])


def test_the_second_run_for_a_graph_of_gradients_is_not_captured(monkeypatch):
    begun = []
    compiling = pipeline.compile_graph
    monkeypatch.setattr(pipeline, "compile_graph", lambda graph, *rest: begun.append(graph) or compiling(graph, *rest))

    def penalty(x):
        (found,) = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
        return (found**2).sum()

    x = T(4)
    explorer.compile(penalty)(x).backward()
    assert len(begun) == 2
    (expected,) = torch.autograd.grad(penalty(x), x)
    torch.testing.assert_close(x.grad, expected)


NAN_GRADIENTS = {
    "relu6": F.relu6,
    "elu": F.elu,
    "elu of a result": lambda x: F.elu(x.clone(), 1.5, True),
    "selu": F.selu,
    "celu": F.celu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "logit": lambda x: torch.logit(x.nan_to_num(0.25), 1e-3) * 0.01,
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none"),
    "smooth_l1_loss, mean": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), beta=0.5),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", NAN_GRADIENTS)
def test_gradients_of_nan_and_at_the_edges(name, dtype):
    """64 elements: eager's loop over vectors sees them all, and treats a NaN as what no comparison holds for."""
    found = []
    for call in (NAN_GRADIENTS[name], explorer.compile(NAN_GRADIENTS[name])):
        edges = [float("nan"), 3, -3, 6, 0, 0.5, -0.5, 1, -1, -0.0, 20, -20, float("inf"), -float("inf"), 1e-5, 2]
        x = torch.tensor(edges * 4, dtype=dtype).requires_grad_()
        call(x).sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(*found, equal_nan=True)


ASKED = {
    "hook": (lambda x: x * 2, lambda seen, y: y.grad_fn.register_hook(lambda *both: seen.append([*map(len, both)]))),
    "name": (lambda x: (x * 2).sin(), lambda seen, y: seen.append(y.grad_fn.name())),
    "next": (lambda x: (x * 2).exp(), lambda seen, y: seen.append(type(y.grad_fn.next_functions[0][0]).__name__)),
    "of a view": (lambda x: (x * 2).view(-1), lambda seen, y: seen.append(type(y.grad_fn).__name__)),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_grad_fn_that_the_program_asks_for_is_eagers(name):
    made, ask = ASKED[name]
    found = []
    for wrap in (lambda function: function, explorer.compile):
        seen, x = [], torch.ones(2, 2, requires_grad=True)

        def function(x, seen=seen):
            y = made(x)
            ask(seen, y)
            return y

        wrap(function)(x).sum().backward()
        found.append((seen, x.grad.tolist()))
    assert found[0] == found[1]


BATCH_NORMS = {
    "training": lambda x, w, b, *s: F.batch_norm(x, *s, w, b, training=True),
    "inference": lambda x, w, b, *s: F.batch_norm(x, *s, w, b),
    "of instances": lambda x, w, b, *s: F.instance_norm(x, *s, w, b),
    "without statistics": lambda x, w, b, *s: F.batch_norm(x, None, None, w, b, training=True),
    "native": lambda x, *given: aten.native_batch_norm(x, *given, True, 0.1, 1e-5),
    "native, without statistics": lambda x, w, b, *s: aten.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5),
    "legit": lambda x, *given: aten._native_batch_norm_legit(x, *given, True, 0.1, 1e-5),
    "legit, without statistics": lambda x, w, b, *s: aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5),
    "functional": lambda x, *given: aten._native_batch_norm_legit_functional(x, *given, True, 0.1, 1e-5),
    "functional, inference": lambda x, *given: aten._native_batch_norm_legit_functional(x, *given, False, 0.1, 1e-5),
    "no training": lambda x, *given: aten._native_batch_norm_legit_no_training(x, *given, 0.1, 1e-5),
    "with update": lambda x, *given: aten._batch_norm_with_update(x, *given, 0.1, 1e-5),
    "with update, functional": lambda x, *given: aten._batch_norm_with_update_functional(x, *given, 0.1, 1e-5),
    "no update": lambda x, *given: aten._batch_norm_no_update(x, *given, 0.1, 1e-5),
}
OF_BATCHES = {
    "images": lambda: torch.randn(4, 3, 5, 5),
    "channels last": lambda: torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last),
    "transposed": lambda: torch.randn(3, 4, 5).transpose(0, 1),
    "rows": lambda: torch.randn(6, 3),
    "one element": lambda: torch.randn(1, 3, 1),
    "large numbers": lambda: torch.rand(64, 3, 5) * 1e37,
    "rows of large numbers": lambda: torch.rand(400, 3) * 1e37,
    "double": lambda: torch.randn(4, 3, 5, dtype=torch.float64),
    "bfloat16": lambda: torch.randn(4, 3, 5, dtype=torch.bfloat16),
    "half": lambda: torch.randn(4, 3, 5, dtype=torch.half),
}


@pytest.mark.parametrize(
    ("name", "of"),
    [
        (name, of)
        for name, of in itertools.product(BATCH_NORMS, OF_BATCHES)
        if "large" not in of or not re.search("inference|^no ", name)  # these sum no elements
    ],
)
def test_batch_norms_are_eagers(name, of):
    """Results, saved statistics, running ones and gradients, with parameters of the same and of a wider dtype."""
    call = BATCH_NORMS[name]
    torch.manual_seed(0)
    x, given = OF_BATCHES[of](), (torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3))
    for dtype in {x.dtype, torch.promote_types(x.dtype, torch.float32)}:
        found = []
        for made in (call, explorer.compile(call)):
            moved = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x).requires_grad_()
            weight, bias, *statistics = (each.to(dtype, copy=True) for each in given)
            inputs = moved, weight.requires_grad_(), bias.requires_grad_()
            try:
                result = made(*inputs, *statistics)
            except ValueError as error:  # one element
                found.append(str(error))
                continue
            results = (result,) if isinstance(result, torch.Tensor) else result
            flow = torch.linspace(-1, 1, x.numel()).view(x.shape).to(x.dtype)
            found.append([*results, *torch.autograd.grad(results[0], inputs, flow), *statistics])
        expected, got = found
        if isinstance(expected, str):
            assert got == expected
            continue
        for one, other in zip(expected, got, strict=True):
            exact = {torch.float32: 1e-4, torch.float64: 1e-9}.get(one.dtype, 2e-2)
            torch.testing.assert_close(other, one, rtol=exact, atol=exact, equal_nan=True, check_stride=True)
