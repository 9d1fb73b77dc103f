"""What checks run answers with: records, inputs at the edges, and the first position where two results differ."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

import explorer
from explorer.compiler.capture import CAPTURE, DECODE, LINK, CaptureInput, optimize
from explorer.compiler.config import Config
from explorer.compiler.pipeline import RUN_EAGERLY
from explorer.core.text import complaint
from explorer.course.puzzle import Answer, Show
from explorer.ir.capture import CompilerBug, GraphRaised, GuardedCode, InputFrame, Linking
from explorer.ir.graph import Graph
from explorer.ir.record import EventData
from explorer.show.record import Record

Labeled = tuple[str, tuple[Any, ...]]
"""What a person calls an input, and the arguments."""


def explored(function: Callable[..., Any], *args: Any, **settings: Any) -> Record:
    return explorer.explore(function, time=False, leave="unchanged", **settings)(*args)


def captured(function: Callable[..., object], *args: object) -> Graph:
    """The graph of a function, as it is captured."""
    found: list[Graph] = []

    def compile_frame(frame: InputFrame, config: Config) -> GuardedCode:
        capture = CAPTURE(CaptureInput(DECODE(frame), frame, config))
        assert capture.graph is not None
        found.append(capture.graph)
        return LINK(Linking(capture, RUN_EAGERLY((capture.graph, None))))

    optimize(function, Config(), compile_frame)(*args)
    return found[0]


def vectors(seed: int, *, halves: bool = False, wide: float = 4.0) -> Iterator[Labeled]:
    """Inputs of one tensor, the smallest first: edge sizes, edge values, other strides, and random ones."""
    random = torch.Generator().manual_seed(seed)
    for size in (1, 2, 17):
        yield f"x of shape ({size},)", (torch.randn(size, generator=random) * wide,)
    yield "x of no elements", (torch.empty(0),)
    yield "x of zeros", (torch.zeros(3),)
    yield "a transposed x", (torch.randn(3, 5, generator=random).t(),)
    yield "every second element of x", (torch.randn(14, generator=random)[::2],)
    if halves:
        yield "x in float16", (torch.randn(9, generator=random).half(),)
    for rows, columns in ((2, 3), (4, 31)):
        yield f"a random x of shape ({rows}, {columns})", (torch.randn(rows, columns, generator=random) * wide,)


def position(yours: object, right: object, *, loose: float = 0.0) -> str:
    """The first position where two results differ beyond rounding, as "at [0, 2] yours gives 1.5, eager 2"; "" where
    none does."""
    if isinstance(right, (tuple, list)):
        if not isinstance(yours, (tuple, list)) or len(yours) != len(right):
            return f"yours gives {type(yours).__name__}, eager {len(right)} results"
        pairs = zip(yours, right, strict=True)
        found = ((at, position(a, b, loose=loose)) for at, (a, b) in enumerate(pairs))
        return next((f"in result {at}: {difference}" for at, difference in found if difference), "")
    if not isinstance(right, torch.Tensor):
        return "" if yours == right else f"yours gives {yours!r}, eager {right!r}"
    if not isinstance(yours, torch.Tensor):
        return f"yours gives a {type(yours).__name__}, eager a tensor"
    if yours.shape != right.shape or yours.dtype != right.dtype:

        def shown(x: torch.Tensor) -> str:
            return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"

        return f"yours gives {shown(yours)}, eager {shown(right)}"
    rtol, atol = (1e-3, 1e-3) if right.dtype in (torch.float16, torch.bfloat16) else (2e-5, 1e-6)
    near = torch.isclose(yours.double(), right.double(), rtol=rtol + loose, atol=atol + loose, equal_nan=True)
    if bool(near.all()):
        return ""
    at = (~near).nonzero()[0].tolist()
    place = f"at {at} " if at else ""
    return f"{place}yours gives {yours[tuple(at)].item():.6g}, eager {right[tuple(at)].item():.6g}"


FEW = 6
"""Elements of an input that a message shows."""


def agree(
    answer: Answer, yours: Callable[..., object], right: Callable[..., object], inputs: Iterable[Labeled],
    name: str = "", show: Show | None = None,
) -> None:  # fmt: skip
    """Raises Failed at the first input on which the two differ."""
    for label, args in inputs:
        with answer.at("right", label, show):
            with contextlib.redirect_stdout(io.StringIO()):
                expected = right(*copies(args))
            if differs := position(yours(*copies(args)), expected):
                one = args[0] if len(args) == 1 and isinstance(args[0], torch.Tensor) and args[0].dim() == 1 else None
                shown = f" {one.tolist()}" if one is not None and 1 < len(one) <= FEW else ""
                answer.fail(f"{name + ': ' if name else ''}on {label}{shown}, {differs}")


def copies(args: tuple[object, ...]) -> tuple[Any, ...]:
    return tuple(
        torch.empty_strided(a.shape, a.stride(), dtype=a.dtype).copy_(a.detach()).requires_grad_(a.requires_grad)
        if isinstance(a, torch.Tensor)
        else a
        for a in args
    )


MAKES = ("decomposition", "lowering", "pass")
"""Rules that make something, if they do anything; the others decide, or change the stack."""


def uses(record: Record) -> set[str]:
    """The person's own rules that acted in a record."""
    made = {rule for compile in record.data.compiles for rule in compile.rules.values()}
    asked = {event.fields.get("rule", "") for event in _events(record, "RuleUsed")}
    return made | {rule for rule in asked if not rule.startswith(MAKES)}


def showing(
    function: Callable[..., object], args: tuple[object, ...], where: Callable[[Record], str], **settings: object
) -> Show:
    """What shows a failure by the record of a function: made when there is one, outside of any rules."""

    def show() -> tuple[Record, str]:
        record = explored(function, *copies(args), **settings)
        return record, where(record)

    return show


def ruled(record: Record, rule: str = "") -> str:
    """Where a record shows the first thing that a person's rule made: any rule, or the one named."""
    made = ((compile.id, *each) for compile in record.data.compiles for each in compile.rules.items())
    compile, element = next(((compile, id) for compile, id, name in made if rule in ("", name)), ("", ""))
    return record.link("graphs" if "." in element else "code", compile, element=element) if element else "graphs"


def broken(record: Record) -> str:
    """Where a record shows its first graph break."""
    found = ((compile.id, each.instruction) for compile in record.data.compiles for each in compile.breaks)
    return next((record.link("breaks", compile, element=at) for compile, at in found), "breaks")


def recompiled(record: Record) -> str:
    """Where a record shows the guard that made the first recompile."""
    found = (record.link("guards", each.of, element=each.guard) for each in record.recompiles)
    return next(found, "recompiles")


def decided(record: Record) -> str:
    """Where a record shows what Python read to go on: its first graph break, or else its first guard."""
    on = (record.link("guards", "f0", element=guard.id) for guard in record.guards if guard.span is not None)
    return broken(record) if len(record.breaks) else next(on, "guards")


def noded(record: Record, name: str, stage: str = "capture") -> str:
    """Where a record shows the node `name` of a stage's graph, or else that graph."""
    found = next(each for each in record.data.compiles[0].stages if each.name == stage)
    nodes = found.graph.nodes if found.graph is not None else ()
    return record.link("graphs", "f0", found.id, next((node.id for node in nodes if node.name == name), ""))


def looped(record: Record) -> str:
    """Where a record shows its first loop."""
    found = (each.id for half in record.data.compiles[0].halves for each in half.operations)
    return record.link("schedule", "f0", element=next(found, ""))


def why_not_compiled(record: Record) -> str:
    """Why the compiler did not take what it was given; "" where it did."""
    for compile in record.data.compiles:
        if compile.fallback is not None:
            return complaint(compile.fallback.detail or compile.fallback.title)
        if compile.error:
            return compile.error.splitlines()[0]
    kinds = ("FrameSkipped", CompilerBug.__name__, GraphRaised.__name__)
    skipped = (event for kind in kinds for event in _events(record, kind))
    return next((str(next(reversed(event.fields.values()))) for event in skipped), "")


def _events(record: Record, kind: str) -> Iterator[EventData]:
    return itertools.chain.from_iterable(
        (event for event in compile.events if event.kind == kind) for compile in record.data.compiles
    )


def with_rule(
    answer: Answer, function: Callable[..., object], args: tuple[object, ...], rules: dict[str, Any]
) -> Record:
    """The record of `function` compiled with the answer's rules. Raises Failed where the compiler does not take them,
    or where none made anything."""
    show = showing(function, args, lambda record: "graphs")
    with answer.at("compiles", show=show), explorer.workbench(**rules):
        record = explored(function, *copies(args))
        answer.shown(record, ruled(record))
        if why := why_not_compiled(record):
            answer.fail(why)
    with answer.at("used"):
        if not uses(record):
            answer.fail("the record shows nothing that your rule made")
    return record


def bytes_moved(record: Record) -> int:
    halves = (half for compile in record.data.compiles for half in compile.halves)
    return sum(kernel.bytes for half in halves for kernel in half.kernels)


def kernels(record: Record) -> int:
    return sum(len(half.kernels) for compile in record.data.compiles for half in compile.halves)
