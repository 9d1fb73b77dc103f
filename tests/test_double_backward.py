"""Gradients of gradients, and of what has none: as in eager."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from trained import CASES, T, case, check_as_in_eager


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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, program in CASES.items() if program.__module__ == __name__])
def test_as_in_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_as_in_eager(name, monkeypatch)
