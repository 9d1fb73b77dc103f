"""On a card: eager, ours and stock side by side, on programs that memory bounds and on small ones that calls bound."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

import explorer
from benchmarks.report import Aim, Report, Selection, geometric_mean

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Case:
    """`make` gives the inputs, on the card. `backward` times a forward and a backward together."""

    name: str
    fn: Callable[..., Any]
    make: Callable[[], Tensors]
    backward: bool = False


def _random(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensors:
    return tuple(torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes)


def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * 0.5 + y).relu() * 1.5 - x


def bias_gelu(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + b)


def add_transposed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y.t()


def norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * w


def mlp(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return F.gelu(x @ up) @ down + x


def cross_entropy(x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x.float(), torch.arange(x.shape[0], device=x.device) % x.shape[1])


CASES = (
    Case("chain 4096x4096", chain, partial(_random, (4096, 4096), (4096, 4096))),
    Case("chain 4096x4096 bf16", chain, partial(_random, (4096, 4096), (4096, 4096), dtype=torch.bfloat16)),
    Case("chain 64x64 (call overhead)", chain, partial(_random, (64, 64), (64, 64))),
    Case("bias gelu 8192x4096 bf16", bias_gelu, partial(_random, (8192, 4096), (4096,), dtype=torch.bfloat16)),
    Case("add transposed 4096x4096", add_transposed, partial(_random, (4096, 4096), (4096, 4096))),
    Case("softmax 8192x1024", partial(torch.softmax, dim=-1), partial(_random, (8192, 1024))),
    Case("softmax 512x50257", partial(torch.softmax, dim=-1), partial(_random, (512, 50257))),
    Case("softmax over 0, 4096x4096", partial(torch.softmax, dim=0), partial(_random, (4096, 4096))),
    Case("layer norm 8192x4096 bf16", norm, partial(_random, (8192, 4096), (4096,), (4096,), dtype=torch.bfloat16)),
    Case("rms norm 8192x4096 bf16", rms_norm, partial(_random, (8192, 4096), (4096,), dtype=torch.bfloat16)),
    Case("sum 8192x8192", torch.sum, partial(_random, (8192, 8192))),
    Case("sum over rows 16384x1024", partial(torch.sum, dim=0), partial(_random, (16384, 1024))),
    Case("argmax 4096x32000", partial(torch.argmax, dim=-1), partial(_random, (4096, 32000))),
    Case("variance 8192x8192", torch.var, partial(_random, (8192, 8192))),
    Case("cross entropy 4096x50257 bf16", cross_entropy, partial(_random, (4096, 50257), dtype=torch.bfloat16)),
    Case(
        "mlp 4096x1024x4096 bf16",
        mlp,
        partial(_random, (4096, 1024), (1024, 4096), (4096, 1024), dtype=torch.bfloat16),
    ),
    Case("chain backward 4096x4096", chain, partial(_random, (4096, 4096), (4096, 4096)), backward=True),
    Case("layer norm backward 8192x1024", norm, partial(_random, (8192, 1024), (1024,), (1024,)), backward=True),
    Case("softmax backward 8192x1024", partial(torch.softmax, dim=-1), partial(_random, (8192, 1024)), backward=True),
    Case(
        "mlp backward 4096x1024x4096 bf16",
        mlp,
        partial(_random, (4096, 1024), (1024, 4096), (4096, 1024), dtype=torch.bfloat16),
        backward=True,
    ),
)


def run(selection: Selection) -> Report:
    head = ("program", "eager µs", "explorer µs", "stock µs", "eager / ours", "stock / ours", "GB/s", "largest error")
    if not torch.cuda.is_available():
        return Report("On a card", head, (), (), ("There is no card on this machine.",))
    rows, beside_eager, beside_stock, wrong = [], [], [], []
    for case in CASES:
        if not selection.of(case.name):
            continue
        torch.compiler.reset()
        torch.manual_seed(0)
        inputs = case.make()
        for tensor in inputs if case.backward else ():
            tensor.requires_grad_()
        callables = {"eager": case.fn, "explorer": explorer.compile(case.fn), "stock": torch.compile(case.fn)}
        steps = {name: partial(_step, fn, inputs, case.backward) for name, fn in callables.items()}
        results = {name: step() for name, step in steps.items()}
        error, close = _compare(results["explorer"], results["eager"])
        if not close:
            wrong.append(case.name)
        times = {name: _median(step) for name, step in steps.items()}
        moved = sum(t.numel() * t.itemsize for t in (*inputs, *results["eager"]))
        beside_eager.append(times["eager"] / times["explorer"])
        beside_stock.append(times["stock"] / times["explorer"])
        rows.append(
            (
                case.name,
                *(f"{1e6 * seconds:.1f}" for seconds in times.values()),
                f"{beside_eager[-1]:.2f}",
                f"{beside_stock[-1]:.2f}",
                f"{moved / times['explorer'] / 1e9:.0f}",
                f"{error:.1e}",
            )
        )
    mean_eager, mean_stock = geometric_mean(beside_eager), geometric_mean(beside_stock)
    rows.append(("geometric mean", "", "", "", f"{mean_eager:.2f}", f"{mean_stock:.2f}", "", ""))
    aims = (
        Aim("equal to eager within tolerance", ", ".join(wrong) or f"all {len(rows) - 1}", not wrong),
        Aim("at least as quick as eager (geometric mean)", f"{mean_eager:.2f}", mean_eager >= 1),
    )
    note = (
        "Median of 100 calls, the card's cache emptied before each, timed by events around the call: its kernels, and "
        "the time that the card waits for Python. GB/s counts inputs and outputs once."
    )
    return Report(f"On {torch.cuda.get_device_name()}", head, tuple(rows), aims, (note,))


def _step(fn: Callable[..., Any], inputs: Tensors, backward: bool) -> Tensors:
    """One call; with `backward` its gradients by a fixed cotangent."""
    if not backward:
        with torch.no_grad():
            return (fn(*inputs),)
    output = fn(*inputs)
    grads = torch.autograd.grad(output, inputs, torch.ones_like(output))
    return (output.detach(), *grads)


def _compare(mine: Tensors, theirs: Tensors) -> tuple[float, bool]:
    largest, close = 0.0, True
    for a, b in zip(mine, theirs, strict=True):
        largest = max(largest, (a.double() - b.double()).abs().max().item())
        rough = b.dtype in (torch.bfloat16, torch.float16)
        rtol, atol = (2e-2, 5e-2) if rough else (2e-4, 1e-3)
        close = close and torch.allclose(a.double(), b.double(), rtol=rtol, atol=atol)
    return largest, close


def _median(step: Callable[[], Any]) -> float:
    """Seconds of one call."""
    for _ in range(5):
        step()
    flush = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    samples = []
    for _ in range(100):
        flush.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        samples.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(float(start.elapsed_time(end)) / 1000 for start, end in samples)
