"""Just-in-time compilers that capture from bytecode: ours, and `torch.compile` with any of its backends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import torch

from explorer.compiler.capture import optimize
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_frame
from explorer.core.recorder import Recorder, recording
from explorer.ir.record import CompileData, LineData, TextData
from explorer.records import to_record
from explorer.records.data.methods import ViewData
from explorer.records.data.provenance import provenance
from explorer.records.methods.method import Example, Method, Runnable, graph_lines, is_program
from explorer.records.stock.backend import named

NOT_SAVED = "cannot be saved; each process compiles again, with the kernels cached on disk"


def _ours(example: Example) -> Runnable:
    recorder = Recorder()
    compiled = optimize(example.fn, Config(), compile_frame)

    def call(*args: object, **kwargs: object) -> Any:
        with recording(recorder):
            return compiled(*args, **kwargs)

    def views() -> tuple[ViewData, ...]:
        compiles = [to_record.compile(run) for run in recorder.compiles]
        return _graphs([_captured(each) for each in compiles], first)

    def control() -> str:
        compiles = [to_record.compile(run) for run in recorder.compiles]
        return _control(sum(len(c.breaks) for c in compiles))

    def sizes() -> str:
        compiles = [to_record.compile(run) for run in recorder.compiles]
        symbols = {s.source for each in compiles for s in each.symbols if s.status == "dynamic"}
        return (
            f"symbolic: {', '.join(sorted(symbols))}"
            if symbols
            else "fixed and guarded; a size that changes between calls becomes symbolic"
        )

    call(*example.args, **example.kwargs)
    first = len(recorder.compiles)
    return Runnable(call, views, control, sizes, NOT_SAVED, lambda: len(recorder.compiles))


def _captured(compile: CompileData) -> list[LineData]:
    """The captured graph, what it takes for granted and where it breaks; the origins are lines of the program, in place
    of the elements between. The bytecode that calls the graph, which comes last, is left out."""
    stages = [stage for stage in compile.stages if stage.name == "capture" and stage.body is not None]
    nodes = (node for stage in stages if stage.graph is not None for node in stage.graph.nodes)
    spans = {node.id: [f"{node.span.file}:{node.span.line}"] for node in nodes if node.span is not None}
    chain = provenance(compile)

    def places(id: str) -> list[str]:
        return [at for at in spans.get(id) or sorted(chain.source_lines(id)) if is_program(at)] if id else []

    texts = (line for stage in stages if stage.body is not None for line in stage.body.lines)
    lines = takewhile(lambda line: not line.text.startswith("# "), texts)
    return [LineData(line.text, "", tuple(places(line.id))) for line in lines]


def _graphs(graphs: Sequence[list[LineData]], first: int) -> tuple[ViewData, ...]:
    """The graphs of the call captured in one text, and those of the calls for which it compiled anew in another."""
    titled = (("graphs", graphs[:first]), ("recompiled", graphs[first:]))
    return tuple(
        ViewData(title, TextData(tuple(line for graph in found for line in graph), "python"))
        for title, found in titled
        if found
    )


def _control(breaks: int) -> str:
    if breaks:
        return f"stays in Python: the graph breaks there ({breaks}), and a new graph starts after it"
    return "none in the graph: the path taken is guarded; another path recompiles"


OURS = Method(
    "explorer.compile",
    "Evaluates the bytecode symbolically; guards its assumptions, and breaks the graph if it has to.",
    _ours,
)


def stock(backend: str) -> Method:
    """`torch.compile` with a backend by name."""

    def capture(example: Example) -> Runnable:
        build = named(backend)
        graphs: list[torch.fx.GraphModule] = []

        def observed(module: torch.fx.GraphModule, inputs: Sequence[object]) -> Callable[..., Any]:
            graphs.append(module)
            made: Callable[..., Any] = build(module, inputs)
            return made

        compiled = torch.compile(example.fn, backend=observed)
        compiled(*example.args, **example.kwargs)
        first = len(graphs)
        return Runnable(
            compiled,
            lambda: _graphs([[*graph_lines(each), LineData("")] for each in graphs], first),
            lambda: _control(max(0, first - 1)),
            lambda: (
                "symbolic for sizes that changed between calls"
                if _symbolic(graphs)
                else "fixed and guarded; a size that changes between calls becomes symbolic"
            ),
            NOT_SAVED,
            lambda: len(graphs),
        )

    name = "torch.compile" if backend == "inductor" else f"torch.compile(backend={backend!r})"
    return Method(name, "Dynamo evaluates the bytecode symbolically; the backend compiles each graph.", capture)


def _symbolic(graphs: list[torch.fx.GraphModule]) -> bool:
    values = (node.meta.get("example_value") for module in graphs for node in module.graph.nodes)
    return any(isinstance(value, torch.SymInt) for value in values)
