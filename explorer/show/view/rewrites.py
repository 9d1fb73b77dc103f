"""What the passes over the graph replaced, one rewrite at a time, and what lowering made of each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from explorer.ir.record import CompileData, RecordData, RewriteData
from explorer.show.view.provenance import node_names
from explorer.show.view.queries import Rows


class Rewrites(Rows[RewriteData]):
    """The rewrites of one compile. Queries are as for `Steps`: `pass:casts` and `pattern:view` find some,
    `node=aten.clone` what became of a node; `replaced:`, `dropped:` and `lowered:` those of a kind."""

    keys = ("pattern", "pass", "node", "replaced", "dropped", "lowered", "because", "step")
    numbers = ("step",)
    called = "rewrite"
    example = "pass:no-ops  or  replaced:view"
    letters: ClassVar = {
        "i": ("rewrite", "rewrite"), "r": ("replaced:", "replaced"), "d": ("dropped:", "dropped"),
        "l": ("lowered:", "lowered"),
    }  # fmt: skip

    def __init__(self, compile: CompileData) -> None:
        self.compile = compile
        self.rows = compile.rewrites
        self._named = node_names(compile)
        names = {each.id: f"{each.name} {each.half.partition(f'{compile.id}_')[2]}".rstrip() for each in compile.stages}
        self._passes = [names.get(row.stage, row.stage) for row in compile.rewrites]

    def number(self, key: str, at: int) -> float | None:
        return at

    def facts(self, key: str, at: int, held: None) -> Sequence[str]:
        row = self.rows[at]
        match key:
            case "pass":
                return (self._passes[at],)
            case "node":
                return row.gone, *row.by.split(", ")
            case "because":
                return [why.cited for why in row.whys]
            case "step":
                return (str(at),)
        came = "lowered" if not row.was else "replaced" if row.by else "dropped"
        return (row.pattern,) if key in ("pattern", came) else ()

    def title(self) -> str:
        return self.compile.id

    def summary(self) -> str:
        lost = self.compile.left_out.get("Rewritten", 0)
        said = ", ".join(f"{name} {self._passes.count(name)}" for name in dict.fromkeys(self._passes))
        return f"{self.compile.id} {self.compile.name}: {said}{f'; {lost} more were not kept' if lost else ''}"

    def line(self, at: int) -> str:
        row = self.rows[at]
        change = self._named(f"{row.gone}{f' -> {row.by}' if row.by else ''}")
        return f"{at:>4}  {self._passes[at]:<18} {change}: {row.pattern}"

    def text(self, at: int) -> str:
        row = self.rows[at]
        name = self._passes[at]
        lines = [
            f"{self.compile.id}, rewrite {at} of {len(self) - 1}: {name}, "
            f"{self._passes[: at + 1].count(name)} of {self._passes.count(name)}",
            f"  {row.pattern}",
            f"  - {f'{bare(row.gone)} = {row.was}' if row.was else self._named(row.gone)}",
            *([f"  + {f'{bare(row.by)} = {row.now}' if row.now else self._named(row.by)}"] if row.by else []),
        ]
        return "\n".join([*lines, *(f"  {row.by.rpartition(' ')[2]}: {why.cited}" for why in row.whys)])


def bare(node: str) -> str:
    """The name of a node by its id."""
    return node.rpartition(".")[2]


def rewrites_of(record: RecordData) -> list[Rewrites]:
    """One entry per compile in which a pass found something or a graph was lowered."""
    return [Rewrites(compile) for compile in record.compiles if compile.rewrites]
