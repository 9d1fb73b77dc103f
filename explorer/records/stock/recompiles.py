"""What a frame was given, and why it is compiled again: the guard of each earlier compile that this call failed."""

from __future__ import annotations

import ast
import enum
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from textwrap import shorten
from typing import Any

import torch
from torch._subclasses import FakeTensor

from explorer.compiler.capture.fakes import forget_real_tensors
from explorer.ir import record as data
from explorer.records.check.isolate import CONTAINERS, key_text
from explorer.records.data.dynamo import GuardKey, expected_but_got, is_torchs_own, names, recompiled
from explorer.records.stock.guards import PROPERTIES, DynamoGuard, constant, expected
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
    while compile.let_go:
        compile.let_go.pop()()
    compile.inputs[:0] = given
    compile.inputs[:] = [each for at, each in enumerate(compile.inputs) if at < len(given) or each.source not in known]


def around_backend(seen: Observation, call: Call) -> Iterator[None]:
    compile = seen.compile()
    for node in call.args[1].graph.nodes:
        if node.op == "placeholder" and len(compile.inputs) < MOST:
            argument = node.meta.get("grapharg")
            source = getattr(argument, "source", None)
            value = node.meta.get("example_value")
            if isinstance(value, FakeTensor) and hasattr(argument, "erase"):
                compile.let_go += [partial(forget_real_tensors, value.fake_mode), argument.erase]
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
        texts = ((key, key_text(key)) for key in value)  # the text of one of the program's own is for it to write
        keys = tuple(constant(text or f"<{type(key).__name__}>") for key, text in texts)
        return data.InputData(source, "dict", role, qualified, length=len(value), keys=keys, name=name)
    own = next((each for each in CONTAINERS if isinstance(value, each)), None)
    length = None if own is None else own.__len__(value)
    return data.InputData(source, "object", role, qualified, length=length, name=name)


def facts(tensor: torch.Tensor) -> data.TensorFactsData:
    strided = tensor.layout is torch.strided
    kind = type(tensor)
    named = "torch.Tensor" if kind.__name__ == "FakeTensor" else f"{kind.__module__}.{kind.__qualname__}"
    return data.TensorFactsData(
        str(tensor.dtype).removeprefix("torch."), str(tensor.device), tuple(map(_static_size, tensor.shape)),
        tuple(map(_static_size, tensor.stride())) if strided else None, tensor.requires_grad, named,
    )  # fmt: skip


def _static_size(size: object) -> int | None:
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
CLOSED_OVER = {types.FunctionType: ("__closure__",), types.CellType: ("cell_contents",)}


EXPLORED = "the exploration has ended"
"""Why code fails its guards that an exploration compiled."""


def around_reasons(seen: Observation, call: Call) -> Iterator[None]:
    yield
    compile = seen.compile()
    earlier = {each.torch_id: (each.id, each.checks) for each in seen.earlier(compile)}
    checks = dict(earlier.values())
    frame = call.args[1]
    for reason in call.result or ():
        first = recompiled(str(reason), earlier, partial(value_of, frame=frame))
        if EXPLORED in first.why or (seen.calls is None and first.of not in checks):
            continue  # of another exploration's code, or of the program's, which an exploration does not run
        compile.recompiles += [first, *others(first, checks.get(first.of, ()), frame)]


def others(first: data.RecompileData, checks: Sequence[DynamoGuard], frame: object) -> Iterator[data.RecompileData]:
    """The checks of a compile that this call fails beside the one at which torch stopped, of values that are found
    without running the program's code: one for each fact of a tensor."""
    reported: set[str] = set()
    for check in sorted(checks, key=lambda check: check.id != first.guard):
        if check.source in reported or is_torchs_own(check.property, check.source, check.expression):
            continue
        failed = [(words, seen) for words, seen in _differences(check, frame) if words not in ("", first.words)]
        reported.update(check.source for _ in failed or range(check.id == first.guard))
        for words, seen in failed:
            yield data.RecompileData(first.of, check.id, check.expression, words, seen, words)


def _differences(check: DynamoGuard, frame: object) -> Iterator[tuple[str, str]]:
    """How a value differs from what a check asks, and what it is."""
    try:
        value = _value(check.source, frame)
    except LookupError:
        return
    given, asked = describe(check.source, value, "reached"), expected(check)
    tensor, constant = asked.get("tensor"), asked.get("constant")
    differs = False
    if tensor is not None and given.tensor is not None:
        yield from ((f"{names(check.source)}.{what} is {now}, expected {was}", "")
                    for what, now, was in _facts(given.tensor, tensor))  # fmt: skip
    elif constant is not None and constant.type:
        is_now = given.constant or data.ConstantData("", "")
        differs = is_now.type != constant.type or constant.value is not None and is_now.value != constant.value
    elif asked.get("type"):
        differs = f" {id(type(value))})" not in check.expression
    else:
        differs = given.length is not None and given.length != asked.get("length", given.length)
    if differs:
        yield expected_but_got(check, seen := value_of(check, frame)), seen


def _facts(given: data.TensorFactsData, wanted: data.TensorFactsData) -> Iterator[tuple[str, object, object]]:
    facts = [(what, getattr(given, what), getattr(wanted, what)) for what in ("dtype", "device", "requires_grad")]
    facts.append(("dim()", len(given.sizes), len(wanted.sizes)))
    sizes = zip(given.sizes, wanted.sizes, strict=False) if len(given.sizes) == len(wanted.sizes) else ()
    facts += [(f"size({dim})", now, now if was is None else was) for dim, (now, was) in enumerate(sizes)]
    return ((what, now, was) for what, now, was in facts if now != was)


def value_of(guard: GuardKey, frame: object) -> str:
    """What a guard asks of its source, such as L['self'].step, as it is in a frame: the type, the length, or else the
    value, of a relation without a source each number with its name; "" where finding that out could run the program's
    code, or says nothing."""
    if not guard.source:
        return ", ".join(f"{each} = {value}" for each, value in _numbers(guard.expression, frame))
    try:
        found = _value(guard.source, frame)
    except LookupError:
        return ""
    given = describe(guard.source, found, "reached")
    if guard.property == "TYPE_MATCH":
        return given.type.removeprefix("builtins.")
    if given.length is not None:
        return str(given.length) if guard.property in ("LENGTH_CHECK", "DICT_LENGTH") else ""
    text = given.constant.text if given.constant is not None else _value_text(found)
    if not text and PROPERTIES.get(guard.property, ("",))[0] == "constant":
        text = f"<{type(found).__name__}>"
    return shorten(text, LONGEST, placeholder="...")


def _value(source: str, frame: Any) -> Any:
    """Raises LookupError where finding it could run the program's code."""
    try:
        return _look(ast.parse(source, mode="eval").body, {"L": frame.f_locals, "G": frame.f_globals})
    except (SyntaxError, TypeError) as error:
        raise LookupError(source) from error


def _numbers(relation: str, frame: object) -> Iterator[tuple[str, object]]:
    """What a relation between sizes and numbers is about, as it is in a frame."""
    known: dict[str, object] = {}
    for each in re.findall(r"[LG]\['[^']{1,200}'\][^\s,()]*(?:\(\)\[\d+\])?", relation):
        with suppress(LookupError):
            known[each] = _value(each, frame)
    yield from ((each, value) for each, value in known.items() if type(value) in (int, float))


def _value_text(value: object) -> str:
    """What is told by its name: a member of an enumeration, a dtype, a function, a class."""
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return repr(value)
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{vars(value)['_name_']}"
    if isinstance(value, types.BuiltinFunctionType):
        return str(value.__name__)
    return str(value.__qualname__) if isinstance(value, types.FunctionType) or type(value) is type else ""


def _look(node: ast.expr, names: Mapping[str, object]) -> Any:
    """Follows names, items of plain containers and what objects hold themselves. Raises LookupError."""
    match node:
        case ast.Name(id=name):  # torch's reasons tell locals so
            return names[name] if name in names else names["L"][name]  # type: ignore[index]
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
            if type(owner) in (range, slice) or name in CLOSED_OVER.get(type(owner), ()):
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
