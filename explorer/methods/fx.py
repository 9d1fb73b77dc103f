"""torch.fx.symbolic_trace: the function runs once on proxies that hold no values."""

from __future__ import annotations

import inspect
import types

import torch

from explorer.methods.method import Captured, Example, Method, view


def _capture(example: Example) -> Captured:
    made = torch.fx.symbolic_trace(example.fn, concrete_args=_plain(example))
    return Captured(
        made,
        lambda: (view("code", made.code), view("graph", str(made.graph), "text")),
        lambda: "none can be: a branch on a value raises, a loop over a known length is unrolled",
        lambda: "not part of the graph",
        "a GraphModule pickles as Python source; it is loaded by running that",
    )


def _plain(example: Example) -> dict[str, object] | None:
    """A function that takes *args has to be told how many there are; others are traced as they are."""
    found = example.fn.forward if isinstance(example.fn, torch.nn.Module) else example.fn
    if not isinstance(found, (types.FunctionType, types.MethodType)):
        return None
    kinds = {parameter.kind for parameter in inspect.signature(found).parameters.values()}
    return {} if inspect.Parameter.VAR_POSITIONAL in kinds else None


FX = Method("torch.fx.symbolic_trace", "Runs the function once on proxies, and records what it does to them.", _capture)
