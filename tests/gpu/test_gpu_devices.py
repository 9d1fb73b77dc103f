"""On a card: tensors of the host beside those of the card, default devices, autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import explorer
from card import Compiler, assert_like_eager
from compiling import flat

pytestmark = pytest.mark.gpu

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.uint8, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_number_on_the_host(dtype: torch.dtype, compiler: Compiler) -> None:
    def fn(x: Tensor, s: Tensor) -> tuple[Tensor, ...]:
        t = s + 1
        return x * s + t, (x / t).sum(0), torch.where(x > 0, x, s), t, s.to(x.device), (x > s).any()

    assert_like_eager(fn, torch.randn(64, 33, device="cuda"), torch.tensor(1.5).to(dtype), compiler=compiler)


def test_its_value_is_read_at_each_call(compiler: Compiler) -> None:
    call = compiler(lambda x, s: x * s)
    x = torch.randn(100, device="cuda")
    for value in (2.0, -3.0, float("inf"), 1e-40):
        torch.testing.assert_close(call(x, torch.tensor(value)), x * torch.tensor(value))


def test_a_scalar_of_the_host_has_a_gradient_there(compiler: Compiler) -> None:
    def run(wrap: Callable[..., Any]) -> list[Tensor]:
        torch.manual_seed(0)
        x = torch.randn(64, device="cuda", requires_grad=True)
        s = torch.tensor(0.5, requires_grad=True)
        (wrap(lambda x, s: (x * s).tanh() + s.exp())(x, s) ** 2).sum().backward()
        assert x.grad is not None and s.grad is not None
        return [x.grad, s.grad]

    for mine, eager in zip(run(compiler), run(lambda fn: fn), strict=True):
        assert mine.device == eager.device
        torch.testing.assert_close(mine, eager)


def parts_of_the_host(x: Tensor, c: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    return x * c[1] + c.sum(), x[i] * 2, c * 2, (c @ c) * x, x.cpu() + c[0], torch.rand(3), torch.ones(2)


def written_on_the_host(x: Tensor, c: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    c.mul_(2)
    c[0] += 1
    return x * c[0], c.to("cuda") + 1, x[:3] + c.cuda()


def made_on_the_host(x: Tensor, c: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    scale = torch.tensor(3.0) * torch.arange(4.0).max()
    table = torch.zeros(2, 3)
    table[0] = c
    return x * scale, table, torch.tensor([1.0, 2.0]).to(x.device) * 2, torch.tensor(2.5), scale


@pytest.mark.parametrize("fn", [parts_of_the_host, written_on_the_host, made_on_the_host], ids=lambda f: f.__name__)
def test_tensors_of_the_host(fn: Callable[..., Any], compiler: Compiler) -> None:
    def run(wrap: Callable[..., Any]) -> list[Tensor]:
        torch.manual_seed(0)
        given = torch.randn(8, device="cuda"), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 5])
        return [*wrap(fn)(*given), *given]

    for mine, eager in zip(run(compiler), run(lambda fn: fn), strict=True):
        assert (mine.device, mine.dtype) == (eager.device, eager.dtype)
        torch.testing.assert_close(mine, eager)


def test_what_eager_refuses_is_refused(compiler: Compiler) -> None:
    fn = lambda x, y: x + y  # noqa: E731
    given = torch.ones(3, device="cuda"), torch.ones(3)
    with pytest.raises(RuntimeError) as eager:
        fn(*given)
    with pytest.raises(RuntimeError) as ours:
        compiler(fn)(*given)
    assert str(ours.value) == str(eager.value)


# ------------------------------------------------------------------------------------------------------------- devices


def drawn(x: Tensor) -> tuple[Any, ...]:
    with torch.device("cuda"):
        noise = torch.randn(8)
        inside = torch.get_default_device()
        with torch.device("cpu"):
            host = torch.rand(2)
    return x + noise, host, torch.rand(3), inside, torch.get_default_device(), torch.tensor([1.0, 2.0])


def drawn_around_a_break(x: Tensor) -> tuple[Any, ...]:
    with torch.device("cuda"):
        noise = torch.randn(8)
        print("inside", noise.device)
        return x + noise * torch.rand(8), torch.zeros(2), torch.tensor(3)


@pytest.mark.parametrize("fn", [drawn, drawn_around_a_break], ids=lambda f: f.__name__)
@pytest.mark.parametrize("around", ["none", "block", "thread"])
def test_default_devices(fn: Callable[..., Any], around: str, compiler: Compiler) -> None:
    x = torch.ones(8, device="cuda")

    def run(call: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(1)
        if around == "block":
            with torch.device("cuda"):
                return list(flat(call(x)))
        if around == "thread":
            torch.set_default_device("cuda")
            try:
                return list(flat(call(x)))
            finally:
                torch.set_default_device(None)
        return list(flat(call(x)))

    call = compiler(fn)
    for _ in range(2):
        for mine, eager in zip(run(call), run(fn), strict=True):
            if isinstance(eager, Tensor):
                assert mine.device == eager.device
                torch.testing.assert_close(mine, eager)
            else:
                assert mine == eager


# ------------------------------------------------------------------------------------------------------------ autocast


class Block(torch.nn.Module):
    """A bit of everything that autocast treats in its own way: products, norms, softmax, losses, promotion."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(16, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.outer = torch.nn.Linear(32, 16)
        self.convolution = torch.nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        hidden = F.gelu(self.norm(self.inner(x)))
        scores = self.outer(hidden)
        weights = scores.softmax(-1)
        mixed = weights @ x.mT
        return mixed, self.convolution(scores), scores.exp().sum(), F.mse_loss(scores, x), torch.cat([scores, x])


class BreakingBlock(Block):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            hidden = self.inner(x)
            print(hidden.dtype, torch.is_autocast_enabled("cuda"))
            hidden = self.norm(hidden).relu()
            scores = self.outer(hidden)
        return hidden, scores, scores.float() @ x.mT


@pytest.mark.parametrize("kind", [Block, BreakingBlock])
@pytest.mark.parametrize("dtype", [None, torch.float16, torch.bfloat16], ids=str)
def test_autocast(kind: type[Block], dtype: torch.dtype | None, compiler: Compiler, capsys: Any) -> None:
    """Values, dtypes and gradients, over two steps with the weights changed between."""
    if kind is BreakingBlock and dtype is torch.float16:
        pytest.skip("eager keeps the float16 casts of weights inside a nested bfloat16 block, and fails")

    def run(wrap: Callable[..., Any]) -> tuple[list[Tensor], str]:
        torch.manual_seed(0)
        with torch.device("cuda"):
            module, x = kind(), torch.randn(2, 4, 16)
        call = wrap(module)
        seen: list[Tensor] = []
        for _ in range(2):
            with torch.autocast("cuda", dtype=dtype, enabled=dtype is not None):
                made = call(x)
            sum((tensor.float() * 0.1).sum() for tensor in made).backward()
            grads = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
            seen += [tensor.detach() for tensor in (*made, *grads)]
            with torch.no_grad():
                for parameter in module.parameters():
                    if parameter.grad is not None:
                        parameter -= 0.01 * parameter.grad
                        parameter.grad = None
        return seen, capsys.readouterr().out

    tolerance = {None: 1e-4, torch.float16: 1e-2}.get(dtype, 4e-2) if kind is Block else 4e-2
    (ours, printed), (eager, wanted) = run(compiler), run(lambda fn: fn)
    assert printed == wanted
    for mine, theirs in zip(ours, eager, strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def test_another_autocast_state_compiles_again(compiler: Compiler) -> None:
    call, x = compiler(lambda x: x @ x), torch.randn(16, 16, device="cuda")
    for expected in (1, 0):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            before = explorer.counters().get("compiles", 0)
            with torch.autocast("cuda", dtype=dtype, enabled=dtype != torch.float32):
                assert call(x).dtype == dtype
            assert explorer.counters()["compiles"] - before == expected
