"""Which node of the graph caused which operation of a loop body, and so which generated line.

Inductor forgets this: a pointwise value that is not put in memory becomes part of its reader's body. While a body is
traced, each value that is inlined into it runs its own function, and knows the node that it was lowered for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from torch import fx
from torch._inductor.virtualized import V

from explorer.records.stock.half import Half
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Observation


class Causes:
    """The nodes that are being traced into a loop body now, innermost last, and what each body's operations are for."""

    def __init__(self) -> None:
        self.now: list[str] = []
        self.of: WeakKeyDictionary[fx.Node, str] = WeakKeyDictionary()


def causes_of(half: Half) -> Causes:
    if half.causes is None:
        half.causes = Causes()
    found: Causes = half.causes
    return found


def node_of(half: Half, value: Any) -> str:
    """The id of the node that a value of the IR was lowered for: the first of its origins."""
    first = next((each for each in value.origins if hasattr(each, "name")), None)
    return half.ids.get(first.name, "") if first is not None else ""


def around_body(seen: Observation, call: Call) -> Iterator[None]:
    half = seen.compile().half
    if half is None or not half.lowered:
        yield
        return
    buffer = call.args[0]
    now = causes_of(half).now
    now.append(node_of(half, getattr(buffer, "data", buffer)))
    yield
    now.pop()


def around_loader(seen: Observation, call: Call) -> Iterator[None]:
    yield
    half = seen.compile().half
    if half is not None and half.lowered and callable(call.result) and (id := node_of(half, call.args[0])):
        call.result = _entering(call.result, id, causes_of(half).now)


def _entering(loader: Callable[..., Any], id: str, now: list[str]) -> Callable[..., Any]:
    def load(*args: Any, **kwargs: Any) -> Any:
        now.append(id)
        try:
            return loader(*args, **kwargs)
        finally:
            now.pop()

    return load


def around_operation(seen: Observation, call: Call) -> Iterator[None]:
    yield
    half = seen.compile().half
    if half is None or half.causes is None:
        return
    causes: Causes = half.causes
    copied = getattr(V.interpreter, "current_node", None)  # a body made from another body
    id = causes.of.get(copied, "") if copied is not None else ""
    id = id or (causes.now[-1] if causes.now else "")
    results = call.result if isinstance(call.result, (tuple, list)) else (call.result,)
    for result in results:
        made = getattr(result, "node", None)
        if id and isinstance(made, fx.Node):
            causes.of.setdefault(made, id)


HOOK = Hook(
    "causes",
    shows="the node behind each operation of a loop body, and so behind each line of a kernel",
    missing="a line of a kernel leads to the kernel's operation and from there to all its nodes",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(
        Patch("torch._inductor.ir:ComputedBuffer.get_default_sizes_body", around_body),
        Patch("torch._inductor.ir:Pointwise.make_loader", around_loader),
        Patch("torch._inductor.loop_body:CountOps._default", around_operation),
    ),
)
