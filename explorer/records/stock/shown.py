"""A graph of stock as it was at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir import record as data
from explorer.ir.graph import Graph


@dataclass(frozen=True)
class Shown:
    """A graph as data, as text, and as it runs. `inner` are those that its higher-order operators call, by name."""

    graph: data.GraphData
    body: data.TextData
    artifact: Graph
    inner: tuple[tuple[str, Shown], ...] = ()
