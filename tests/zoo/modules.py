"""Modules and modes: containers of layers, hooks, buffers, tied weights, context managers, autocast."""

import contextlib

import torch
import torch.nn.functional as F
from torch import nn

from zoo.program import call, program

WEIGHTY = {"grad": True, "rtol": 1e-4, "atol": 1e-5}


@program("module container", inputs=lambda: call(torch.randn(2, 4)), **WEIGHTY)
class LayerContainers(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(2)])

    def forward(self, x):
        x = self.stem(x)
        for block, scale in zip(self.blocks, self.scales, strict=True):
            x = x + block(x) * scale
        return {name: head(x) for name, head in self.heads.items()}


@program("module tied_weights embedding", inputs=lambda: call(torch.randint(0, 7, (2, 3))), **WEIGHTY)
class TiedProjection(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.unembed = nn.Linear(4, 7, bias=False)
        self.unembed.weight = self.embed.weight

    def forward(self, tokens):
        return self.unembed(torch.tanh(self.embed(tokens)))


@program("module hooks", inputs=lambda: call(torch.randn(2, 3)), factory=True, **WEIGHTY)
def forward_hooks():
    layer = nn.Linear(3, 3)
    layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    layer.register_forward_hook(lambda module, args, output: output + args[0])
    return nn.Sequential(layer, nn.Tanh())


@program("module buffers mutation effects", inputs=lambda: call(torch.randn(5, 3)), frozen=(0,), **WEIGHTY)
class RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.steps += 1
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return (x - self.mean) * self.weight / self.steps


@program(
    "module effects class", inputs=lambda: call(torch.randn(3)), state=lambda m: (m.calls, m.last, m.log), **WEIGHTY
)
class AttributeSideEffects(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.calls = 0
        self.last = None
        self.log = []

    def forward(self, x):
        self.calls += 1
        y = x * self.weight + self.calls
        self.last = y.detach()
        self.log.append(y.shape[0])
        return y


@program("module control_flow training", inputs=lambda: call(torch.randn(3, 4)), factory=True, **WEIGHTY)
def branch_on_training_flag():
    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(x) if self.training else self.layer(x).detach() * 0

    return Branch()


@program("context_manager no_grad", inputs=lambda: call(torch.randn(3, 4)), grad=True)
def no_grad_region(x):
    with torch.no_grad():
        center = x.mean(0)
    with torch.enable_grad():
        y = x - center
    was_on = torch.is_grad_enabled()
    return y.tanh(), center, was_on


@torch.no_grad()
def frozen_scale(x):
    return x.abs().amax()


@program("context_manager no_grad nested_function", inputs=lambda: call(torch.randn(3, 4)), grad=True)
def no_grad_decorator(x):
    return x / frozen_scale(x), x.detach() + 1


@contextlib.contextmanager
def counting(log, name):
    log.append(f"enter {name}")
    try:
        yield len(log)
    finally:
        log.append(f"exit {name}")


@program("context_manager generator effects", inputs=lambda: call(torch.randn(3), []), grad=True)
def user_context_manager(x, log):
    with counting(log, "outer") as depth, contextlib.nullcontext(3) as three:
        x = x * depth * three
        with counting(log, "inner"):
            x = x.sin()
    return x + len(log)


class Doubling:
    def __init__(self):
        self.events = []

    def __enter__(self):
        self.events.append("enter")
        return 2.0

    def __exit__(self, kind, value, trace):
        self.events.append("exit" if kind is None else kind.__name__)
        return kind is ZeroDivisionError


@program("context_manager class exception", inputs=lambda: call(torch.randn(3)), grad=True)
def context_manager_class(x):
    manager = Doubling()
    with manager as factor:
        x = x * factor
    with manager:
        x = x + 1
        raise ZeroDivisionError
    return x, manager.events


@program("context_manager factory zero_dim", inputs=lambda: call(torch.randn(3, 4), torch.tensor(0.5)), grad=True)
def device_block(x, rate):
    with torch.device("cpu"):
        scale = torch.full((), 2.0)
    return x * scale * rate, torch.get_default_device().type


@program(
    "autocast matmul bfloat16",
    inputs=lambda: call(torch.randn(3, 4), torch.randn(4, 5)),
    grad=True,
    rtol=3e-2,
    atol=3e-2,
)
def autocast_region(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = x @ w
        kept = F.softmax(low, dim=-1)
    return low, kept, low.float() @ w.t()


@program("autocast module matmul bfloat16", inputs=lambda: call(torch.randn(3, 4)), grad=True, rtol=3e-2, atol=3e-2)
class AutocastMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2))

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x):
        return self.layers(x)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2 + 0.5


@program("autograd_function", inputs=lambda: call(torch.randn(4)), grad=True)
def custom_backward(x):
    """Its backward adds 0.5, so that a compiler that ignored it would be found out."""
    return Cube.apply(x).sin()


@program("training pointwise multi_output", inputs=lambda: call(torch.randn(3), torch.randn(3)), grad=True)
def some_outputs_detached(x, y):
    a = x * y
    return a, a.detach() + 1, (x + 1).requires_grad, torch.zeros(2)


@program("module training conv norm pool", inputs=lambda: call(torch.randn(2, 3, 8, 8)), **WEIGHTY)
class ConvNormPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.head(x.mean((2, 3)))


@program("module loss training", inputs=lambda: call(torch.randn(4, 3), torch.randint(0, 2, (4,))), **WEIGHTY)
class LossInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, x, target):
        logits = self.layer(x)
        return self.criterion(logits, target), logits
