"""Loop bodies of Inductor as a person reads them, each line linked to the node that it computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import fx

from explorer.ir import record as data
from explorer.records.stock.half import Half

STORES = ("store", "store_reduction", "partial_accumulate", "device_assert_async")
"""Operations whose value nobody uses."""


class Bodies:
    """What bodies read like; one that fusion left as it was is not written out again."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, list[data.LineData]]] = {}

    def lines(self, half: Half, operation: str, body: Any) -> list[data.LineData]:
        if id(body) not in self.known:
            self.known[id(body)] = body, list(_lines(half, operation, body))
        return self.known[id(body)][1]


def _lines(half: Half, operation: str, body: Any) -> Iterator[data.LineData]:
    loops = ", ".join(f"{name} in {size}" for name, size in body.var_ranges.items())
    yield data.LineData(f"      for {loops}:" if loops else "      once:", "", (operation,))
    yield from _statements(half, operation, body, body.root_block.graph, "          ")
    for name, block in body.subblocks.items():
        yield data.LineData(f"      {name}:", "", (operation,))
        yield from _statements(half, operation, body, block.graph, "          ")


def _statements(half: Half, operation: str, body: Any, graph: fx.Graph, indent: str) -> Iterator[data.LineData]:
    """Indices and constants stand where they are used. A line's cause is the operation where no node of it is known."""
    written: dict[fx.Node, str] = {}
    buffers = half.shown_buffers()
    count = 0

    def read(value: Any) -> str:
        if isinstance(value, fx.Node):
            return written.get(value, value.name)
        if isinstance(value, (tuple, list)):
            return f"({', '.join(map(read, value))})"
        return buffers.get(value, value) if isinstance(value, str) else repr(value)

    for node in graph.nodes:
        if node.op == "call_module" and node.target == "get_index":
            written[node] = str(body.indexing_exprs[node.args[0]])
        elif node.op == "call_method" and node.target == "constant":
            written[node] = read(node.args[1])
        elif node.op in ("call_method", "call_module"):
            given = node.args[1:] if node.op == "call_method" else node.args
            arguments = ", ".join(read(each) for each in given if each is not None)
            told = half.causes.of.get(node, "") if half.causes is not None else ""
            result = ""
            if node.target not in STORES:
                written[node], count = f"tmp{count}", count + 1
                result = f"{written[node]} = "
            yield data.LineData(f"{indent}{result}{node.target}({arguments})", "", (told or operation,))
