"""What kernels wrote in one call, in order, beside what eager operators compute: from the first NaN to the first
divergence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from explorer.core.text import count
from explorer.ir.record import CompileData, HalfData, RecordData, WrittenData
from explorer.show.view.provenance import node_names
from explorer.show.view.queries import Rows


class Values(Rows[WrittenData]):
    """What the kernels and library calls of one half wrote. Queries are as for `Steps`: `differs:` and `nan:` find what
    differs from eager and what is not finite, `kernel:k0` and `error>1e-3` what their texts and numbers say."""

    keys = ("kernel", "node", "buffer", "ours", "eager", "differs", "nan", "step", "error", "nonfinite")
    numbers = ("step", "error", "nonfinite")
    called = "write"
    example = "nan:  or  differs: error>1e-3 kernel=k0"
    letters: ClassVar = {
        "i": ("write", "write"), "d": ("differs:", "differs from eager"), "n": ("nan:", "not finite"),
    }  # fmt: skip

    def __init__(self, compile: CompileData, half: HalfData) -> None:
        self.compile = compile
        self.half = half
        self.rows = half.written
        self._named = node_names(compile)

    def number(self, key: str, at: int) -> float | None:
        row = self.rows[at]
        return {"step": at, "error": row.error, "nonfinite": row.nonfinite}[key]

    def facts(self, key: str, at: int, held: None) -> Sequence[str]:
        row = self.rows[at]
        match key:
            case "differs":
                return ("yes",) if row.differs else ()
            case "nan":
                return (row.began or row.buffer,) if row.nonfinite else ()
            case "step" | "error" | "nonfinite":
                return () if self.number(key, at) is None else (str(self.number(key, at)),)
        found: str = getattr(row, key)
        return (found,) if found else ()

    def title(self) -> str:
        return self.half.name

    def summary(self) -> str:
        """The writes in one line: how many, the first that is not finite, and the first that differs."""
        parts = [f"{self.half.name}: {count(len(self), 'write')} of kernels and library calls"]
        for query, said in (("nan:", "not finite"), ("differs:", "different from eager")):
            hits = self.find(query)
            parts.append(f"{len(hits)} {said}{f', first at {hits[0]}' if hits else ''}")
        return "; ".join(parts)

    def line(self, at: int) -> str:
        row = self.rows[at]
        return f"{at:>4}  {row.kernel:<10} {row.buffer:<10} {self._named(row.node):<20} {self._named(verdict(row))}"

    def text(self, at: int) -> str:
        row = self.rows[at]
        lines = [
            f"{self.half.name}, write {at} of {len(self) - 1}: {row.kernel} writes {row.buffer}",
            f"  {self._named(verdict(row))}",
            f"  ours   {row.ours}",
        ]
        if row.node:
            lines += [f"  eager  {row.eager}", f"  the value of {self._named(row.node)}"]
        return "\n".join(lines)


def verdict(row: WrittenData) -> str:
    """How a write compares with eager, in words."""
    parts = []
    if row.nonfinite:
        began = f", which begins with {row.began} in eager" if row.began else ""
        parts.append(f"{count(row.nonfinite, 'element')} NaN or infinite{began}")
    if not row.node:
        parts.append("not compared: no node of the graph has this value")
    elif row.differs:
        parts.append("differs from eager" + ("" if row.error is None else f" by up to {row.error:.3g}"))
    else:
        parts.append("as in eager" if not row.error else f"within tolerance of eager, off by up to {row.error:.3g}")
    return "; ".join(parts)


def values_of(record: RecordData) -> list[Values]:
    """What was written, one entry per half that was run kernel by kernel."""
    return [Values(compile, half) for compile in record.compiles for half in compile.halves if half.written]
