"""Capture and guard checks beside Dynamo's, on GPT-2 and on stacks of layers, and how compile time grows with depth."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

import explorer
from benchmarks.report import Aim, Report, Selection
from explorer.compiler.runtime.timing import METHOD, interleave
from explorer.core.text import duration

REPEATS = 3
DEPTHS = (25, 50, 100)
LINEAR = 1.25
"""How much more than twice as long a stack of twice the depth may take."""


@dataclass(frozen=True)
class Network:
    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def networks() -> Iterator[Network]:
    yield gpt2()
    for depth in DEPTHS:
        yield Network(
            f"{depth} layers",
            lambda depth=depth: nn.Sequential(*(Layer(16) for _ in range(depth))),
            lambda: (torch.randn(4, 16),),
        )


def gpt2() -> Network:
    """Twelve layers as in GPT-2, narrow: width changes neither the graph nor the guards."""
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(n_embd=48, vocab_size=500, n_positions=64, use_cache=False)
    return Network("GPT-2", lambda: GPT2Model(config).eval(), lambda: (torch.randint(0, 500, (1, 16)),))


def run(selection: Selection) -> Report:
    rows, aims, compiles = [], [], {}
    for network in networks():
        if not selection.of(network.name):
            continue
        capture = captures(network)
        check = checks(network)
        compiles[network.name] = own = seconds_of(lambda network=network: first_call(network, explorer.compile))
        rows.append((
            network.name, *map(duration, capture), f"{capture[1] / capture[0]:.2f}",
            *map(duration, check), f"{check[1] / check[0]:.2f}", duration(own),
        ))  # fmt: skip
        aims.append(beside(f"capture of {network.name}", capture))
        aims.append(beside(f"guard check of {network.name}", check))
    for low, high in zip(DEPTHS, DEPTHS[1:], strict=False):
        if {f"{low} layers", f"{high} layers"} <= compiles.keys():
            growth = compiles[f"{high} layers"] / compiles[f"{low} layers"]
            what = f"compile time linear from {low} to {high} layers"
            aims.append(Aim(what, f"{growth:.2f} times", growth <= LINEAR * high / low))
    head = ("network", "capture", "Dynamo", "ratio", "call, nothing computed", "Dynamo", "ratio", "whole compile")
    return Report("Capture and guards", head, tuple(rows), tuple(aims), (NOTE, METHOD, *skipped_by_dynamo()))


def skipped_by_dynamo() -> tuple[str, ...]:
    """torch 2.11 has this on by default and 2.13 off, for a read of freed memory (pytorch/pytorch#188103)."""
    if sys.version_info < (3, 12) or not torch._dynamo.config.use_recursive_dict_tags_for_guards:
        return ()
    return (
        "Dynamo's config.use_recursive_dict_tags_for_guards is on: it skips the guards of modules that are as before",
    )


NOTE = (
    "capture: processor time of the first call with a backend that does nothing, the shortest of 3 in one process, "
    "ours and Dynamo's in turn; call: the frame with its guards, around a graph that gives back what it gave before; "
    "whole compile: the same as capture, of inference with our backend"
)


def beside(what: str, pair: tuple[float, float]) -> Aim:
    ours, stock = pair
    return Aim(f"{what} not slower than Dynamo's", f"{duration(ours)} beside {duration(stock)}", ours <= stock)


def captures(network: Network) -> tuple[float, float]:
    """Seconds of the first call, ours and Dynamo's."""
    taken: tuple[list[float], list[float]] = [], []
    for _ in range(REPEATS):
        for seconds, compile in zip(taken, (explorer.compile, torch.compile), strict=True):
            seconds.append(first_call(network, lambda module, compile=compile: compile(module, backend=as_it_is)))
    return min(taken[0]), min(taken[1])


def first_call(network: Network, compile: Callable[[nn.Module], Any]) -> float:
    torch.compiler.reset()
    compiled, inputs = compile(network.build()), network.inputs()
    with torch.no_grad():
        began = processor_seconds()
        compiled(*inputs)
        return processor_seconds() - began


def processor_seconds() -> float:
    """Of this process and of the compilers that it has started, which other work on the machine changes little."""
    return sum(os.times()[:4])


def checks(network: Network) -> tuple[float, float]:
    """Seconds of a call that finds its graph, of which nothing is computed, ours and Dynamo's."""
    torch.compiler.reset()
    module, inputs = network.build(), network.inputs()
    ours, stock = explorer.compile(module, backend=computed_once), torch.compile(module, backend=computed_once)
    with torch.no_grad():
        found = interleave({"ours": lambda: ours(*inputs), "Dynamo": lambda: stock(*inputs)})
    return found["ours"].median, found["Dynamo"].median


def as_it_is(graph: fx.GraphModule, inputs: list[Tensor]) -> fx.GraphModule:
    return graph


def computed_once(graph: fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    kept: list[Any] = []

    def call(*inputs: Any) -> Any:
        if not kept:
            kept.append(graph(*inputs))
        return kept[0]

    return call


def seconds_of(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(REPEATS))
