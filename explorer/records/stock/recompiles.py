"""What a frame was given, and why it is compiled again: the guard of each earlier compile that this call failed."""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Iterator, Mapping
from functools import partial
from textwrap import shorten
from typing import Any

import torch

from explorer.ir import record as data
from explorer.records.data.dynamo import Guard, recompiled
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


INPUTS_HOOK = Hook(
    "inputs",
    shows="the arguments of each frame, and the tensors that its graph reads",
    missing="no description of inputs",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._dynamo.convert_frame:_compile", around_frame),
        Patch("torch._dynamo.output_graph:OutputGraph.call_user_compiler", around_backend),
    ),
)


LONGEST = 80
"""Characters of a value."""
MODULE_GROUPS = ("_parameters", "_buffers", "_modules")


def around_reasons(seen: Observation, call: Call) -> Iterator[None]:
    yield
    compile = seen.compile()
    earlier = {each.torch_id: (each.id, each.checks) for each in seen.earlier(compile)}
    frame = call.args[1]
    compile.recompiles += [
        recompiled(str(reason), earlier, partial(value_of, frame=frame)) for reason in call.result or ()
    ]


def value_of(guard: Guard, frame: Any) -> str:
    """What a guard asks of its source, such as L['self'].step, as it is in a frame: the type, the length, or else the
    value; "" where finding that out could run the program's code, or says nothing."""
    try:
        found = _look(ast.parse(guard.source, mode="eval").body, {"L": frame.f_locals, "G": frame.f_globals})
    except (SyntaxError, LookupError, TypeError):
        return ""
    given = describe(guard.source, found, "reached")
    if guard.property == "TYPE_MATCH":
        return given.type.removeprefix("builtins.")
    if given.length is not None:
        return str(given.length) if guard.property in ("LENGTH_CHECK", "DICT_LENGTH") else ""
    text = given.constant.text if given.constant is not None else _plain(found)
    if not text and guard.property in ("EQUALS_MATCH", "NONE_MATCH"):
        text = f"<{type(found).__name__}>"
    return shorten(text, LONGEST, placeholder="...")


def _plain(value: Any) -> str:
    """What is told by its name: a member of an enumeration, a dtype, a function, a class."""
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return repr(value)
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{vars(value)['_name_']}"
    if isinstance(value, types.BuiltinFunctionType):
        return str(value.__name__)
    return str(value.__qualname__) if isinstance(value, types.FunctionType) or type(value) is type else ""


def _look(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Follows names, items of plain containers and what objects hold themselves. Raises LookupError."""
    match node:
        case ast.Name(id=name):
            return names[name]
        case ast.Subscript(
            value=ast.Call(func=ast.Name(id="list"), args=[ast.Call(args=[base])]), slice=ast.Constant(value=int(at))
        ):  # as torch writes the key of a dict
            held = _look(base, names)
            if isinstance(held, dict) and at < dict.__len__(held):
                return list(dict.keys(held))[at]
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=base, attr="size" | "stride" as asked), args=[]),
            slice=ast.Constant(value=int(dim)),
        ):
            tensor = _look(base, names)
            if type(tensor) in (torch.Tensor, torch.nn.Parameter) and dim < tensor.dim():
                return getattr(tensor, asked)(dim)
        case ast.Subscript(value=base, slice=ast.Constant(value=key)):
            held = _look(base, names)
            if isinstance(base, ast.Name) or type(held) in (dict, list, tuple):
                return held[key]
        case ast.Attribute(value=base, attr=name):
            owner = _look(base, names)
            if type(owner) in (range, slice):
                return getattr(owner, name)
            for held in (vars(owner), *(vars(owner).get(group) for group in MODULE_GROUPS)):
                if isinstance(held, dict) and name in held:
                    return held[name]
    raise LookupError


HOOK = Hook(
    "recompiles",
    shows="for each recompile the guard of each earlier compile that failed, with the values",
    missing="recompiles without their reasons",
    checked=("2.11 CPU", "2.13 CPU"),
    patches=(Patch("torch._dynamo.convert_frame:get_and_maybe_log_recompilation_reasons", around_reasons),),
)
