"""What the tests of watched programs share."""

import torch
import torch._dynamo

X = torch.ones(4, 8)


class Holder:
    def __init__(self) -> None:
        self.step = 0
        self.items = {"a": 1}
        self.function = torch.sin


HOLDER = Holder()


def attribute(x, n):
    return x * HOLDER.step


def argument(x, n):
    return x * n


def break_inside(x, n):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() * n


def branch(x, n):
    return x.sin() if x.sum() > 0 else x.cos()


def kind(x, n):
    return x + 1 if n is None else x + 2


def of_wrong_shape(x):
    return x @ x
