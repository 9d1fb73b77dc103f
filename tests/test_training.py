"""Training as eager does it: each way to run a backward through a compiled function, beside the function itself."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import explorer
from explorer.compiler import pipeline
from reference_backend import interpreted

CASES: dict[str, Callable[[Any], Any]] = {}
"""Each takes what compiles, and gives all that a caller can see."""


def case(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES[program.__name__] = program
    return program


def T(*shape: int, g: bool = True, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return made.requires_grad_(g)


@case
def dbl_basic(c):
    f = c(lambda x: (x.sin() * x.exp()).sum())
    x = T(4)
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    return g, h


@case
def dbl_triple(c):
    f = c(lambda x: (x**4).sum())
    x = T(4)
    out = []
    y = f(x)
    for _ in range(4):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        out.append(y)
    return out


@case
def grad_penalty(c):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    cm = c(m)
    x = T(5, 3)
    y = cm(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    loss = y.mean() + ((g.norm(2, 1) - 1) ** 2).mean()
    loss.backward()
    return [p.grad for p in m.parameters()], x.grad


@case
def grad_penalty_relu_bn_dropout(c):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 1)).double()
    cm = c(m)
    x = T(5, 3)
    torch.manual_seed(3)
    y = cm(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    loss = y.mean() + ((g.norm(2, 1) - 1) ** 2).mean()
    loss.backward()
    return [p.grad for p in m.parameters()], x.grad, [b for b in m.buffers()], torch.rand(2)


@case
def func_hessian(c):
    f = c(lambda x: (x.sin() * x.exp()).sum())
    return torch.autograd.functional.hessian(f, T(3))


@case
def func_jacobian(c):
    f = c(lambda x: x.sin() * x.exp())
    return torch.autograd.functional.jacobian(f, T(3)), torch.autograd.functional.jacobian(f, T(3), create_graph=True)


@case
def func_hvp(c):
    f = c(lambda x: (x.sin() * x.exp()).sum())
    return torch.autograd.functional.hvp(f, T(3), T(3, seed=1)), torch.autograd.functional.vhp(f, T(3), T(3, seed=1))


@case
def dbl_tangent(c):
    f = c(lambda x: x.sin())
    x = T(4)
    v = T(4, seed=1)
    (g,) = torch.autograd.grad(f(x), x, v, create_graph=True)
    return torch.autograd.grad(g.sum(), (x, v))


@case
def gradcheck2(c):
    f = c(lambda x, w: (x @ w).tanh())
    return torch.autograd.gradgradcheck(f, (T(3, 2), T(2, 2)))


@case
def dbl_mutated_input(c):
    def f(x, b):
        y = x * b
        b.mul_(2)
        return (y * b).sin().sum()

    g = c(f)
    x = T(3)
    b = torch.ones(3, dtype=torch.float64)
    (d,) = torch.autograd.grad(g(x, b), x, create_graph=True)
    d.sum().backward()
    return x.grad, d, b


@case
def dbl_mutated_grad_input(c):
    def f(x):
        y = x.clone()
        z = y.sin()
        y.mul_(z)
        return (y * z).sum()

    g = c(f)
    x = T(3)
    (d,) = torch.autograd.grad(g(x), x, create_graph=True)
    d.sum().backward()
    return x.grad, d


@case
def dbl_written_nonleaf(c):
    def f(y):
        y.mul_(y.detach() + 1)
        return (y * y).sum()

    g = c(f)
    x = T(3)
    y = x * 2
    (d,) = torch.autograd.grad(g(y), x, create_graph=True)
    d.sum().backward()
    return x.grad, d


@case
def dbl_dropout(c):
    f = c(lambda x: (F.dropout(x, 0.5) ** 3).sum())
    x = T(20)
    torch.manual_seed(0)
    (d,) = torch.autograd.grad(f(x), x, create_graph=True)
    d.sum().backward()
    return x.grad, d, torch.rand(1)


@case
def dbl_rand(c):
    f = c(lambda x: (torch.rand_like(x) * x**3).sum())
    x = T(20)
    torch.manual_seed(0)
    y = f(x)
    torch.rand(3)
    (d,) = torch.autograd.grad(y, x, create_graph=True)
    r = torch.rand(1)
    d.sum().backward()
    return x.grad, d, r


@case
def create_graph_unused(c):
    f = c(lambda x, w: (x * w).sum())
    x = T(3)
    w = T(3, seed=2)
    f(x, w).backward(create_graph=True)
    r = x.grad.requires_grad, x.grad.detach().clone(), w.grad.detach().clone()
    x.grad = w.grad = None
    return r


@case
def none_unused_output(c):
    m = nn.Linear(3, 3).double()
    torch.manual_seed(0)
    nn.init.ones_(m.weight)
    n = nn.Linear(3, 3).double()
    nn.init.ones_(n.weight)
    nn.init.zeros_(n.bias)
    nn.init.zeros_(m.bias)
    f = c(lambda x: (m(x), n(x)))
    a, b = f(T(2, 3))
    a.sum().backward()
    return m.weight.grad, n.weight.grad, n.bias.grad


@case
def none_shared(c):
    f = c(lambda x, w, v: (x * w, x * v))
    x, w, v = T(3), T(3, seed=1), T(3, seed=2)
    a, b = f(x, w, v)
    b.sum().backward()
    return x.grad, w.grad, v.grad


@case
def nan_shared(c):
    f = c(lambda x: (x.log(), x * 2))
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    a, b = f(x)
    b.sum().backward()
    return x.grad


@case
def none_adamw(c):
    torch.manual_seed(0)
    m = nn.ModuleDict(dict(a=nn.Linear(3, 3), b=nn.Linear(3, 3)))
    f = c(lambda x: (m["a"](x), m["b"](x)))
    o = torch.optim.AdamW(m.parameters(), lr=0.1, weight_decay=0.5)
    for _i in range(3):
        o.zero_grad()
        f(torch.ones(2, 3))[0].square().sum().backward()
        o.step()
    return [p.detach() for p in m.parameters()]


@case
def grad_allow_unused(c):
    f = c(lambda x, w, v: (x * w, x * v))
    x, w, v = T(3), T(3, seed=1), T(3, seed=2)
    a, b = f(x, w, v)
    return torch.autograd.grad(b.sum(), (x, w, v), allow_unused=True)


@case
def grad_unused_error(c):
    f = c(lambda x, w, v: (x * w, x * v))
    x, w, v = T(3), T(3, seed=1), T(3, seed=2)
    a, b = f(x, w, v)
    return torch.autograd.grad(b.sum(), (x, w, v))


@case
def grad_materialize(c):
    f = c(lambda x, w, v: (x * w, x * v))
    x, w, v = T(3), T(3, seed=1), T(3, seed=2)
    a, b = f(x, w, v)
    return torch.autograd.grad(b.sum(), (x, w, v), materialize_grads=True)


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
def leaf_inside(c):
    def f():
        l = torch.ones(2, requires_grad=True)
        return l, l * 2

    l, y = c(f)()
    y.sum().backward()
    return l.grad, l.requires_grad, l.is_leaf, y.requires_grad


@case
def leaf_inside2(c):
    def f(x):
        l = torch.ones(2, dtype=torch.float64).requires_grad_()
        return l, l * x

    x = T(2)
    l, y = c(f)(x)
    y.sum().backward()
    return l.grad, l.requires_grad, l.is_leaf, y.requires_grad, x.grad


@case
def leaf_inside3(c):
    def f(x):
        l = x.detach().clone().requires_grad_()
        y = (l * x).sum()
        return l, y

    x = T(2)
    l, y = c(f)(x)
    y.backward()
    return l.grad, l.is_leaf, x.grad


@case
def leaf_detach(c):
    def f(x):
        l = x.detach().requires_grad_()
        y = (l * x).sum()
        return l, y

    x = T(2)
    l, y = c(f)(x)
    y.backward()
    return l.grad, l.is_leaf, x.grad, l.data_ptr() == x.data_ptr()


@case
def ret_x(c):
    f = c(lambda x: x)
    x = T(2)
    return f(x) is x


@case
def ret_detach(c):
    f = c(lambda x: (x.detach(), x * 2))
    x = T(2)
    d, y = f(x)
    y.sum().backward()
    return d.requires_grad, d.data_ptr() == x.data_ptr(), x.grad


@case
def ret_view(c):
    f = c(lambda x: (x, x.view(2, 2), x.view(-1)[1:]))
    x = T(4)
    a, b, e = f(x)
    (b.sum() + (e * 2).sum()).backward()
    return a is x, b._base is x, e._base is x, x.grad, b.grad_fn.name(), e.requires_grad


@case
def ret_view_write(c):
    f = c(lambda x: x.view(2, 2))
    x = T(4)
    y = x * 1
    v = f(y)
    v.mul_(3)
    y.sum().backward()
    return x.grad, y


@case
def out_inplace(c):
    f = c(lambda x: x.sin())
    x = T(4)
    y = f(x)
    y.mul_(2)
    y.sum().backward()
    return x.grad


@case
def input_modified(c):
    f = c(lambda x, w: x * w)
    x, w = T(3), torch.ones(3, dtype=torch.float64)
    y = f(x, w)
    w.add_(1)
    y.sum().backward()
    return x.grad


@case
def input_modified_ok(c):
    f = c(lambda x, w: x + w)
    x, w = T(3), torch.ones(3, dtype=torch.float64)
    y = f(x, w)
    w.add_(1)
    y.sum().backward()
    return x.grad


@case
def input_modified_exp(c):
    f = c(lambda x: x.exp())
    x = T(3)
    z = x * 1
    y = f(z)
    z.add_(1)
    y.sum().backward()
    return x.grad


@case
def input_modified_sinexp(c):
    f = c(lambda x: x.sin().exp())
    x = T(3)
    z = x * 1
    y = f(z)
    z.add_(1)
    y.sum().backward()
    return x.grad


@case
def input_modified_relu(c):
    f = c(lambda x: x.relu())
    x = T(3)
    z = x * 1
    y = f(z)
    z.add_(1)
    y.sum().backward()
    return x.grad


@case
def out_modified_cos(c):
    f = c(lambda x: (x.sin(), x.sin().cos()))
    x = T(3)
    a, b = f(x)
    with torch.no_grad():
        a.zero_()
    b.sum().backward()
    return x.grad


@case
def flips(c):
    f = c(lambda x, w: (x * w).sum())
    out = []
    for gx, gw in ((1, 1), (0, 1), (1, 0), (0, 0), (1, 1)):
        x, w = T(3, g=bool(gx)), T(3, g=bool(gw), seed=1)
        y = f(x, w)
        out.append(y.requires_grad)
        if y.requires_grad:
            y.backward()
        out += [x.grad, w.grad]
    return out


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


def flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [len(value), *(part for each in value for part in flat(each))]
    return [value]


def outcome(program: Callable[[Any], Any], compile: Callable[[Any], Any]) -> tuple[list[Any], str]:
    torch.manual_seed(0)
    try:
        return flat(program(compile)), ""
    except RuntimeError as error:
        return [], str(error)[:60]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_as_in_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "compile_half", lambda graph, config: interpreted(graph))
    expected, error = outcome(CASES[name], lambda f: f)
    found, raised = outcome(CASES[name], explorer.compile)
    assert raised == error
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert type(mine) is type(theirs)
        if isinstance(theirs, torch.Tensor):
            assert mine.requires_grad == theirs.requires_grad
            torch.testing.assert_close(mine, theirs, equal_nan=True)
        else:
            assert mine == theirs


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
    (compile,) = record.data.compiles
    assert len(compile.halves) == 2 and compile.fallback is None
    assert "equal to eager" in repr(record)


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
