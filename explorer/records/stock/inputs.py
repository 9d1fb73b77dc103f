"""What a frame was given: its locals, and the tensors that its graph reaches through them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from explorer.ir import record as data
from explorer.records.stock.guards import constant
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Observation

MOST = 200
"""Tensors reached through arguments (parameters, mostly) that are described."""


def around_frame(seen: Observation, call: Call) -> Iterator[None]:
    yield
    code, local = call.args[0], call.args[2]
    compile = seen.compile_of(call.kwargs["compile_id"])
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = [describe(f"L['{name}']", local[name], "argument") for name in names if name in local]
    known = {each.source for each in given}
    compile.inputs[:0] = given
    compile.inputs[:] = [each for at, each in enumerate(compile.inputs) if at < len(given) or each.source not in known]


def around_backend(seen: Observation, call: Call) -> Iterator[None]:
    compile = seen.compile()
    for node in call.args[1].graph.nodes:
        if node.op == "placeholder" and len(compile.inputs) < MOST:
            argument = node.meta.get("grapharg")
            source = getattr(argument, "source", None)
            value = node.meta.get("example_value")
            if source is not None and isinstance(value, torch.Tensor):
                name = source.name() if callable(source.name) else source.name
                compile.inputs.append(describe(name, value, "reached", node.name))
    yield


def describe(source: str, value: Any, role: str, name: str = "") -> data.InputData:
    """A value without anything of it but type, shape or the plain value itself."""
    kind = type(value)
    qualified = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, torch.Tensor):
        return data.InputData(source, "tensor", role, qualified, tensor=facts(value), name=name)
    if value is None or kind in (bool, int, float, str):
        word = {bool: "bool", str: "str"}.get(kind, "none" if value is None else "number")
        return data.InputData(source, word, role, qualified, constant=constant(repr(value)), name=name)
    if kind in (list, tuple):
        return data.InputData(source, kind.__name__, role, qualified, length=len(value), name=name)
    if kind is dict:
        keys = tuple(constant(repr(key)) for key in value)
        return data.InputData(source, "dict", role, qualified, length=len(value), keys=keys, name=name)
    return data.InputData(source, "object", role, qualified, name=name)


def facts(tensor: torch.Tensor) -> data.TensorFactsData:
    strided = tensor.layout is torch.strided
    kind = type(tensor)
    named = "torch.Tensor" if kind.__name__ == "FakeTensor" else f"{kind.__module__}.{kind.__qualname__}"
    return data.TensorFactsData(
        str(tensor.dtype).removeprefix("torch."), str(tensor.device), tuple(map(_number, tensor.shape)),
        tuple(map(_number, tensor.stride())) if strided else None, tensor.requires_grad, named,
    )  # fmt: skip


def _number(size: Any) -> int | None:
    return size if isinstance(size, int) else None


HOOK = Hook(
    "inputs",
    shows="the arguments of each frame, and the tensors that its graph reads",
    missing="no description of inputs",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._dynamo.convert_frame:_compile", around_frame),
        Patch("torch._dynamo.output_graph:OutputGraph.call_user_compiler", around_backend),
    ),
)
