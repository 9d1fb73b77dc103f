"""Random numbers: the same draws as eager under `manual_seed`, in training and out of it."""

import torch
import torch.nn.functional as F
from torch import nn

from zoo.program import call, program


@program("random training", inputs=lambda: call(torch.randn(4, 6)), grad=True)
def dropout(x):
    return F.dropout(x.tanh(), 0.5, training=True)


@program("random module training", inputs=lambda: call(torch.randn(4, 6)), grad=True, rtol=1e-4)
class DropoutMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2), nn.Dropout(0.1))

    def forward(self, x):
        return self.layers(x)


@program("random module", inputs=lambda: call(torch.randn(4, 6)), grad=True, rtol=1e-4, factory=True)
def dropout_evaluates():
    return DropoutMLP().eval()


@program("random factory multi_output", inputs=lambda: call(torch.randn(3, 4)), grad=True)
def draws(x):
    return (
        x + torch.randn_like(x),
        torch.rand(2, 3),
        torch.randint(0, 9, (4,)),
        torch.bernoulli(torch.full((5,), 0.5)),
        torch.randperm(5),
    )


@program("random", inputs=lambda: call(torch.randn(3, 4)), grad=True)
def reparameterised_noise(mean):
    return mean + 0.1 * torch.randn(mean.shape) * torch.rand(())
