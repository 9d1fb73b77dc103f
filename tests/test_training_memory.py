"""Leaves that are made or written, and results that share memory or are written: as in eager."""

import pytest
import torch

from trained import CASES, T, case, check_as_in_eager


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


def written_after(f):
    """The gradient through `f` of an input that is written before the backward."""
    x = T(3)
    z = x * 1
    y = f(z)
    z.add_(1)
    y.sum().backward()
    return x.grad


@case
def input_modified_exp(c):
    return written_after(c(lambda x: x.exp()))


@case
def input_modified_sinexp(c):
    return written_after(c(lambda x: x.sin().exp()))


@case
def input_modified_relu(c):
    return written_after(c(lambda x: x.relu()))


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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, program in CASES.items() if program.__module__ == __name__])
def test_as_in_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_as_in_eager(name, monkeypatch)
