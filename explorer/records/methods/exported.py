"""torch.export and the ONNX exporter on top of it: whole graphs, made to leave Python."""

from __future__ import annotations

import importlib.util
import logging
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_structure, tree_unflatten

from explorer.ir.record import TextData
from explorer.records.data.methods import ViewData
from explorer.records.methods import method


class Calling(torch.nn.Module):
    """A function as a module, which is what export takes."""

    def __init__(self, fn: Callable[..., object]) -> None:
        super().__init__()
        self.forward = _named_forward(fn)


def _named_forward(fn: Callable[..., object]) -> Callable[..., Any]:
    """Of the stack that made a node, export keeps frames of this name alone: a function's own gets it, so that nodes
    know their lines."""
    if not isinstance(fn, types.FunctionType):
        return lambda *args, **kwargs: fn(*args, **kwargs)
    code = fn.__code__.replace(co_name="forward")
    made = types.FunctionType(code, fn.__globals__, "forward", fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    return made


def as_module(fn: Callable[..., object]) -> torch.nn.Module:
    return fn if isinstance(fn, torch.nn.Module) else Calling(fn)


def _export(example: method.Example) -> method.Runnable:
    program = torch.export.export(as_module(example.fn), example.args, dict(example.kwargs))
    saving = method.Saving(
        lambda path: torch.export.save(program, str(path)),
        lambda path: torch.export.load(str(path)).module(),
        ".pt2",
        "Python and torch; AOTInductor compiles it into a library that needs no Python",
    )
    return method.Runnable(
        program.module(),
        lambda: (
            ViewData("graph", TextData(tuple(method.graph_lines(program.graph_module)), "python")),
            method.view("exported program", str(program), where=method.by_name(method.places(program.graph))),
        ),
        lambda: control(program.graph_module),
        lambda: sizes(program),
        saving,
    )


def control(module: torch.fx.GraphModule) -> str:
    """The control flow in a graph."""
    targets = [
        str(node.target)
        for inner in module.modules()
        if isinstance(inner, torch.fx.GraphModule)
        for node in inner.graph.nodes
    ]
    found = [name for name in ("cond", "while_loop", "scan", "map") if name in targets]
    return method.in_graph(found)


def sizes(program: Any) -> str:
    """The symbolic sizes of an exported program."""
    symbols = sorted(str(symbol) for symbol in program.range_constraints)
    return (
        f"symbolic: {', '.join(symbols)}"
        if symbols
        else "fixed: those of the example (no dynamic_shapes were asked for)"
    )


def _onnx(example: method.Example) -> method.Runnable:
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        made = torch.onnx.export(
            as_module(example.fn), example.args, kwargs=dict(example.kwargs), dynamo=True, verbose=False, optimize=True
        )
    finally:
        logger.setLevel(level)
    assert made is not None
    result = example.call()
    saving = method.Saving(
        lambda path: made.save(str(path)), lambda path: _session(path, result), ".onnx", "ONNX Runtime alone"
    )
    return method.Runnable(
        lambda *args, **kwargs: _rebuilt(made(*args, **kwargs), result),
        lambda: (method.view("ONNX model", str(made.model), "text", _onnx_places(made)),),
        lambda: _onnx_control(made),
        lambda: (
            "fixed: those of the example (no dynamic_shapes were asked for)"
            if not any(isinstance(size, str) for value in made.model.graph.inputs for size in _shape(value))
            else "symbolic in the model's inputs"
        ),
        saving,
    )


def _onnx_places(made: Any) -> Callable[[str], str]:
    """A node is printed as "NUMBER |  # NAME", then what it computes in lines of their own."""
    known = {
        node.name: method.line_of(node.metadata_props.get("pkg.torch.onnx.stack_trace")) for node in made.model.graph
    }
    now = ""

    def where(line: str) -> str:
        nonlocal now
        found = re.match(r"\s*(?:\d+ \|\s+# (\S+)|(return|>|<))", line)
        now = (known.get(found[1], "") if found[1] else "") if found else now
        return now

    return where


def _shape(value: Any) -> list[Any]:
    return [] if value.shape is None else [getattr(size, "value", size) for size in value.shape]


def _onnx_control(made: Any) -> str:
    found = sorted({node.op_type for node in made.model.graph if node.op_type in ("If", "Loop", "Scan")})
    return method.in_graph(found)


def _rebuilt(outputs: Any, like: Any) -> Any:
    """ONNX gives a flat list of tensors: put back into the structure of the example's result."""
    return tree_unflatten([torch.as_tensor(each) for each in outputs], tree_structure(like))


def _session(path: Path, like: object) -> Callable[..., Any]:
    import onnxruntime  # absent where ONNX is not asked for

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def call(*args: object, **kwargs: object) -> Any:
        given = (tensor.detach().numpy() for tensor in method.tensors(args, kwargs))
        return _rebuilt(session.run(None, dict(zip(names, given, strict=True))), like)

    return call


def _without(*packages: str) -> str:
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(absent)}; pip install torch-explorer[onnx]" if absent else ""


EXPORT = method.Method(
    "torch.export", "Traces the whole function into one graph of ATen operations, or refuses.", _export
)
ONNX = method.Method(
    "ONNX export",
    "Exports, then translates each ATen operation to ONNX operators; ONNX Runtime runs them.",
    _onnx,
    lambda: _without("onnx", "onnxscript", "onnxruntime"),
)
