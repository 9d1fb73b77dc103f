"""Why a frame is compiled again: the guard of each earlier compile that this call failed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import partial
from textwrap import shorten
from typing import Any

import torch

from explorer.ir.recompile import recompiled
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.inputs import describe
from explorer.records.stock.observation import Observation

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


def value_of(source: str, frame: Any) -> str:
    """What `source`, such as L['self'].step, is in a frame; "" where finding that out could run the program's code."""
    try:
        found = _look(ast.parse(source, mode="eval").body, {"L": frame.f_locals, "G": frame.f_globals})
    except (SyntaxError, LookupError, TypeError):
        return ""
    given = describe(source, found, "reached")
    if given.constant is not None:
        return shorten(given.constant.text, LONGEST, placeholder="...")
    if given.tensor is not None:
        return f"{given.tensor.dtype}{list(given.tensor.sizes)}"
    return f"{given.type.rpartition('.')[2]} of length {given.length}" if given.length is not None else given.type


def _look(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Follows names, items of plain containers and what objects hold themselves. Raises LookupError."""
    match node:
        case ast.Name(id=name):
            return names[name]
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
