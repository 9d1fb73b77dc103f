"""Commands of a walk through what a record holds in an order, as `explorer step` and debuggers take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from explorer.core.text import amount, count
from explorer.ir.record import CompileData, FusionData, HalfData, RecordData, RewriteData, WrittenData
from explorer.records.data.provenance import node_names, operation_names
from explorer.show.view.queries import Entries, Queried


def manual(steps: Queried[Any, Any]) -> str:
    """The commands of a walk."""
    moves = [f"{letter} {called}" for letter, (_, called) in steps.letters.items()]
    rows = ["  " + "".join(each.ljust(22) for each in moves[n : n + 4]).rstrip() for n in range(0, len(moves), 4)]
    return "\n".join(
        [
            "Small letters go forwards, capital letters go back:",
            *rows,
            "  /QUERY sets a breakpoint          c goes to its next hit",
            "  NUMBER goes to that step          q ends",
            f"A query is made of terms that all hold, such as  {steps.example}",
            f"with one of {', '.join(steps.keys)}.",
        ]
    )


MOST = 200
"""Hits of a query that are listed."""


class Walk:
    """A place in the steps of one compile, or in what its kernels wrote; `show` gets what is to be shown. `breakpoint`
    is the last query."""

    def __init__(self, steps: Queried[Any, Any], tell: Callable[[str], None], at: int = 0) -> None:
        self.steps = steps
        self.show = tell
        self.at = at
        self.breakpoint = list(steps.letters.values())[-1][0]

    def do(self, command: str) -> bool:
        """Carry out a command; False for the one that ends."""
        if command == "q":
            return False
        try:
            if command.startswith("/"):
                self.listed(command[1:])
                self.breakpoint = command[1:]
                return True
            if command.isdigit():
                found = int(command) if int(command) < len(self.steps) else None
            elif command.lower() == "c":
                found = self.steps.move(self.at, self.breakpoint, back=command.isupper())
            elif (to := self.steps.letters.get(command.lower() or "i")) is not None:
                found = self.steps.move(self.at, to[0], back=command.isupper())
            else:
                self.show(manual(self.steps))
                return True
        except ValueError as error:
            self.show(str(error))
            return True
        if found is None:
            self.show(f"No such step from here; the steps are 0 to {len(self.steps) - 1}.")
            return True
        self.at = found
        self.show(self.steps.text(found))
        return True

    def listed(self, query: str) -> int:
        """Lists what a query finds, and counts it. Raises ValueError for what is no query."""
        hits = self.steps.find(query)
        for each in hits[:MOST]:
            self.show(self.steps.line(each))
        more = f", the first {MOST} of them listed" if len(hits) > MOST else ""
        self.show(f"{count(len(hits), 'step')} of {len(self.steps)}{more}")
        return len(hits)


# What the passes over the graph replaced, one rewrite at a time, and what lowering made of each node.


class Rewrites(Entries[RewriteData]):
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
        names = {
            each.id: f"{each.name} {compile.half_title(each.half).partition(' ')[2]}".rstrip()
            for each in compile.stages
        }
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
        text = ", ".join(f"{name} {self._passes.count(name)}" for name in dict.fromkeys(self._passes))
        return f"{self.compile.id} {self.compile.name}: {text}{f'; {lost} more were not kept' if lost else ''}"

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


# What kernels wrote in one call, in order, beside what eager operators compute: from the first NaN to the first
# divergence.


class Values(Entries[WrittenData]):
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
        return self.compile.half_title(self.half.name)

    def summary(self) -> str:
        """The writes in one line: how many, the first that is not finite, and the first that differs."""
        parts = [f"{self.title()}: {count(len(self), 'write')} of kernels and library calls"]
        for query, words in (("nan:", "not finite"), ("differs:", "different from eager")):
            hits = self.find(query)
            parts.append(f"{len(hits)} {words}{f', first at {hits[0]}' if hits else ''}")
        return "; ".join(parts)

    def line(self, at: int) -> str:
        row = self.rows[at]
        return f"{at:>4}  {row.kernel:<10} {row.buffer:<10} {self._named(row.node):<20} {self._named(verdict(row))}"

    def text(self, at: int) -> str:
        row = self.rows[at]
        lines = [
            f"{self.title()}, write {at} of {len(self) - 1}: {row.kernel} writes {row.buffer}",
            f"  {self._named(verdict(row))}",
            f"  compiled  {row.ours}",
        ]
        if row.node:
            lines += [f"  eager     {row.eager}", f"  the value of {self._named(row.node)}"]
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


# What fusion tried, in that order: which groups it asked about, what came of it, and the kernels so far.


Groups = dict[str, list[str]]
"""The operations that an operation was in one kernel with, by its id: one list for all of a kernel."""


class Tries(Queried[FusionData, Groups]):
    """What fusion tried in one half. Queries are as for `Steps`: `fused:`, `later:` and `refused:` find what came of
    it, `because:reduction` why, `operation=buf3` one of the two."""

    keys = ("because", "operation", "fused", "later", "refused", "kernel", "step", "saves")
    numbers = ("step", "saves")
    called = "try"
    example = "refused:reduction  or  fused: saves>1000"
    letters: ClassVar = {
        "i": ("try", "try"), "f": ("fused:", "fused"), "p": ("later:", "postponed"), "r": ("refused:", "refused"),
    }  # fmt: skip

    def __init__(self, compile: CompileData, half: HalfData) -> None:
        self.compile = compile
        self.half = half
        self._tried = half.schedule.tried if half.schedule is not None else ()
        self._named = operation_names(compile, half)

    def __len__(self) -> int:
        return len(self._tried)

    def __getitem__(self, at: Any) -> Any:
        return self._tried[at]

    def states(self) -> Iterator[tuple[int, Groups]]:
        """The groups after each try."""
        groups: Groups = {}
        for at, row in enumerate(self._tried):
            if row.ok and not row.later:
                first, second = (groups.setdefault(id, [id]) for id in (row.first, row.second))
                if first is not second:
                    larger, smaller = (first, second) if len(first) >= len(second) else (second, first)
                    larger += smaller
                    groups.update(dict.fromkeys(smaller, larger))
            yield at, groups

    def kernels(self, at: int) -> list[list[str]]:
        """The operations that were together after a try."""
        groups = next((held for place, held in self.states() if place == at), {})
        return list({id(each): each for each in groups.values() if len(each) > 1}.values())

    def number(self, key: str, at: int) -> float | None:
        return at if key == "step" else self._tried[at].score

    def facts(self, key: str, at: int, held: Groups) -> Sequence[str]:
        row = self._tried[at]
        match key:
            case "because":
                return (row.why.cited,)
            case "operation":
                return row.first, row.second
            case "kernel":
                return [" ".join(held[id]) for id in (row.first, row.second) if id in held]
            case "step" | "saves":
                return (str(self.number(key, at)),)
        return (row.why.cited,) if key == outcome(row) else ()

    def title(self) -> str:
        return self.compile.half_title(self.half.name)

    def summary(self) -> str:
        counts = {key: len(self.find(f"{key}:")) for key in ("fused", "later", "refused")}
        text = f"{counts['fused']} fused, {counts['later']} postponed, {counts['refused']} refused"
        tried = f"{len(self)} fusion{'s' * (len(self) != 1)} tried"
        return f"{self.title()}: {tried}: {text}"

    def line(self, at: int) -> str:
        row = self._tried[at]
        saves = f"; saves {amount(row.score, 'B')}" if row.score >= 1 else ""
        pair = self._named(f"{row.first} with {row.second}")
        return f"{at:>4}  {SAID[outcome(row)]:<9} {pair}: {row.why.title}{saves}"

    def text(self, at: int) -> str:
        row = self._tried[at]
        kernels = self.kernels(at)
        alone = len(self.half.operations) - sum(map(len, kernels))
        lines = [
            f"{self.title()}, try {at} of {len(self) - 1}: {SAID[outcome(row)]}",
            *(f"  {id}  {self._named(id)}" for id in (row.first, row.second)),
            f"  {self._named(row.why.cited)}",
            *([f"  saves {amount(row.score, 'B')} of memory traffic"] if row.score >= 1 else []),
            "kernels so far",
            *(f"  {self._named(' + '.join(each))}" for each in kernels),
            f"  and {count(alone, 'operation')} alone",
        ]
        return "\n".join(lines)


SAID = {"fused": "fused", "later": "postponed", "refused": "refused"}


def outcome(row: FusionData) -> str:
    """What came of a try: a key of SAID."""
    return "later" if row.later else "fused" if row.ok else "refused"


def tries_of(record: RecordData) -> list[Tries]:
    """What was tried, one entry per half in which something was."""
    found = (Tries(compile, half) for compile in record.compiles for half in compile.halves)
    return [each for each in found if len(each)]
