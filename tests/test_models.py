"""What public models do in their forward, whole in one graph and as in eager."""

import copy

import pytest
import torch
from torch import nn

import explorer


class Router(nn.Module):
    """Gives itself a layer of the dtype that it wants, as routers of experts do."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.dtype = nn.Linear(3, 3), dtype

    def forward(self, x):
        self.layer = self.layer.to(self.dtype)
        return self.layer(x.to(self.dtype)).float()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_modules_are_moved_inside(dtype):
    mine = Router(dtype)
    theirs = copy.deepcopy(mine)
    compiled = explorer.compile(mine, backend="eager", fullgraph=True)
    for _ in range(2):
        x = torch.randn(2, 3)
        for model in (compiled, theirs):
            model(x).sum().backward()
        assert torch.equal(compiled(x), theirs(x))
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        assert a.dtype == dtype and torch.equal(a, b) and torch.equal(a.grad, b.grad)
