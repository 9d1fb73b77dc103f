"""A record from a TORCH_TRACE log: what stock torch.compile told of each compile of one process.

Everything in the log is in the record: what has a place of its own goes there, and the rest is a stage's text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from explorer.ir import operators
from explorer.ir import record as data
from explorer.ir.gathered import Gathered
from explorer.logs.code import UNTOLD, half
from explorer.logs.entries import Damage, Entry
from explorer.logs.graphs import graph
from explorer.logs.guards import guards

OUTSIDE = "process"

GRAPHS = {
    "dynamo_output_graph": ("dynamo", "captured"),
    "before_pre_grad_graph": ("before pre-grad passes", "pregrad0"),
    "after_pre_grad_graph": ("after pre-grad passes", "pregrad"),
    "before_joint_graph": ("before joint passes", "joint0"),
    "after_joint_graph": ("after joint passes", "joint1"),
    "aot_joint_graph": ("joint", "joint"),
    "aot_forward_graph": ("forward", "fw"),
    "aot_backward_graph": ("backward", "bw"),
    "aot_inference_graph": ("inference", "inf"),
    "before_post_grad_graph": ("before post-grad passes", "post0"),
    "inductor_post_grad_graph": ("after post-grad passes", "post"),
}
"""Entries that hold a graph: the stage's name, and what its nodes' ids begin with."""

LAST = GRAPHS["inductor_post_grad_graph"][0]
"""The graph that code is generated from."""


@dataclass(kw_only=True)
class Seen(Gathered):
    """What was read of one compile so far."""

    started: float
    ended: float = 0.0
    halves: list[data.HalfData] = field(default_factory=list)
    tensors: dict[int, Any] = field(default_factory=dict)
    open: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    prefixes: dict[str, int] = field(default_factory=dict)
    depth: int = 0
    mappings: list[Any] = field(default_factory=list)

    def compile(self) -> data.CompileData:
        self.stages.sort(key=lambda stage: stage.started)
        return self.whole(self.started, max(0.0, self.ended - self.started), halves=tuple(self.halves))


class Reader:
    """Takes the entries of one process in order; `record` gives what they add up to."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.rank: int | None = None
        self._names: dict[int, str] = {}
        self._compiles: dict[str, Seen] = {}
        self._quoted: dict[tuple[str, int], str] = {}
        self._damage: list[Damage] = []
        self._environment: dict[str, str] = {}

    def read(self, found: Iterable[Entry | Damage]) -> Reader:
        for each in found:
            if isinstance(each, Damage):
                self._damage.append(each)
                continue
            if self.rank is None and each.rank is not None:
                self.rank = each.rank
                self._environment["rank"] = str(each.rank)
            try:
                self._take(each)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                self._damage.append(Damage(each.line, f"{each.kind} is not of the form expected: {error!r}"))
                self._keep(each)
        return self

    def _seen(self, entry: Entry) -> Seen:
        id = OUTSIDE if not entry.compile else stock_id(entry.compile)
        if id not in self._compiles:
            title = "outside any compile" if id == OUTSIDE else f"frame {entry.compile}"
            self._compiles[id] = Seen(id, title, started=entry.seconds)
        seen = self._compiles[id]
        seen.ended = max(seen.ended, entry.seconds)
        return seen

    def _take(self, entry: Entry) -> None:
        if entry.kind == "str":
            text, number = entry.fields
            self._names[int(number)] = str(text)
            return
        kind = entry.name or entry.kind
        if kind in GRAPHS:
            self._graph(entry, kind)
        elif rule := _RULES.get(kind):
            rule(self, entry)
        else:
            self._keep(entry)

    def _keep(self, entry: Entry, name: str = "") -> data.StageData:
        """The entry as the text of a stage."""
        fields = {} if entry.fields in (None, {}) or entry.kind == "artifact" else entry.fields
        head = [json.dumps(fields, indent=1)] if fields else []
        text = "\n".join([*head, entry.payload] if entry.payload else head)
        lines = tuple(data.LineData(line) for line in text.splitlines())
        return self._stage(entry, name or entry.name or entry.kind, data.TextData(lines))

    def _stage(
        self, entry: Entry, name: str, body: data.TextData, nodes: data.GraphData | None = None
    ) -> data.StageData:
        seen = self._seen(entry)
        made = data.StageData(f"{seen.id}/{len(seen.stages)}", name, entry.seconds, 0.0, 0, body=body, graph=nodes)
        seen.stages.append(made)
        return made

    def _graph(self, entry: Entry, kind: str) -> None:
        name, prefix = GRAPHS[kind]
        seen = self._seen(entry)
        again = seen.prefixes[prefix] = seen.prefixes.get(prefix, 0) + 1
        body, nodes, quoted = graph(name, prefix if again == 1 else f"{prefix}{again}", entry.payload)
        self._quoted.update(quoted)
        self._stage(entry, name, body, nodes)

    def _file(self, frame: Any) -> str:
        return self._names.get(int(frame["filename"]), f"file {frame['filename']}")

    def _stack(self, frames: Any) -> tuple[str, ...]:
        return tuple(f"{self._file(each)}:{each['line']} in {each['name']}" for each in frames)

    # ------------------------------------------------------------------------------------------- kinds of entries

    def _start(self, entry: Entry) -> None:
        seen, frames = self._seen(entry), entry.fields["stack"]
        if frames:
            frame = frames[-1]
            seen.title = f"{frame['name']} ({self._file(frame)}:{frame['line']})"

    def _tensor(self, entry: Entry) -> None:
        self._seen(entry).tensors[int(entry.fields["id"])] = entry.fields

    def _source(self, entry: Entry) -> None:
        seen = self._seen(entry)
        facts = seen.tensors[int(entry.fields["id"])]
        device = re.sub(r"device\(type='([^']*)'(?:, index=(\d+))?\)", _device, str(facts["device"]))
        tensor = data.TensorFactsData(
            dtype=str(facts["dtype"]).removeprefix("torch."),
            device=device,
            sizes=tuple(each if isinstance(each, int) else None for each in facts["size"]),
            strides=tuple(each if isinstance(each, int) else None for each in facts.get("stride") or ()),
            requires_grad=bool(facts.get("requires_grad")),
        )
        seen.inputs.append(data.InputData(str(entry.fields["source"]), "tensor", tensor=tensor))

    def _guards(self, entry: Entry) -> None:
        seen = self._seen(entry)
        seen.guards = list(guards(seen.id, entry.payload))
        self._keep(entry, "guard tree")

    def _broken(self, entry: Entry) -> None:
        self._seen(entry).breaks.append(graph_break(entry.payload))
        self._keep(entry, "graph break")

    def _symbol(self, entry: Entry) -> None:
        fields = entry.fields
        value = str(fields["val"])
        why = "; ".join(self._stack(fields.get("user_stack") or ()))
        self._seen(entry).symbols.append(
            data.SymbolData(
                str(fields["symbol"]),
                int(value) if value.lstrip("-").isdigit() else None,
                str(fields["source"]),
                str(fields["vr"]),
                "dynamic",
                f"made at {why}" if why else "",
            )
        )

    def _recompiled(self, entry: Entry) -> None:
        seen = self._seen(entry)
        for line in entry.payload.splitlines():
            if found := re.match(r"\s*-?\s*(\d+/\d+): (.*)", line):
                seen.recompiles.append(data.RecompileData(stock_id(found[1]), "", found[2], found[2]))
        self._keep(entry, "why it compiled again")

    def _code(self, entry: Entry) -> None:
        seen = self._seen(entry)
        kinds = {"inf": "inference", "fw": "forward", "bw": "backward"}
        there = [name for prefix, name in kinds.items() if prefix in seen.prefixes]
        taken = [each.name for each in seen.halves]
        name = next((each for each in there if each not in taken), f"code {len(seen.halves)}")
        graphs = [stage.graph for stage in seen.stages if stage.name == LAST and stage.graph is not None]
        nodes = {node.name: node.id for node in graphs[-1].nodes} if graphs else {}
        seen.halves.append(half(seen.id, name, entry.payload, nodes))

    def _provenance(self, entry: Entry) -> None:
        self._seen(entry).mappings.append(json.loads(entry.payload))
        self._keep(entry)

    def _metrics(self, entry: Entry) -> None:
        seen = self._seen(entry)
        reason = entry.fields.get("fail_reason")
        if reason:
            seen.error = f"{entry.fields.get('fail_type') or 'failed'}: {reason}"
        self._keep(entry)

    def _phase(self, entry: Entry) -> None:
        """A span of the compile's time: its beginning and its end are entries of their own."""
        fields = json.loads(entry.payload)
        seen, name, at = self._seen(entry), str(fields["name"]), float(fields["ts"]) / 1e6
        match fields.get("ph"):
            case "B":
                seen.open.setdefault(name, []).append((at, seen.depth))
                seen.depth += 1
            case "E" if seen.open.get(name):
                began, depth = seen.open[name].pop()
                seen.depth = max(0, seen.depth - 1)
                started = entry.seconds - (at - began)
                seen.started = min(seen.started, started)
                number = len(seen.stages)
                seen.stages.append(data.StageData(f"{seen.id}/{number}", name, started, at - began, depth))
            case _:
                seen.events.append(data.EventData(name, {key: _text(value) for key, value in fields.items()}))

    def _version(self, entry: Entry) -> None:
        self._environment["torch"] = str(json.loads(entry.payload).get("pytorch_version"))
        self._keep(entry)

    # ------------------------------------------------------------------------------------------------- the record

    def _error(self) -> str:
        if not self._damage:
            return ""
        first = self._damage[0]
        return f"{len(self._damage)} places of the log could not be read; the first, line {first.line}: {first.what}"

    def record(self, created: str) -> data.RecordData:
        for seen in self._compiles.values():
            seen.halves = [_linked(each, seen) for each in seen.halves]
        compiles = [seen.compile() for seen in self._compiles.values()]
        if self._damage:
            events = tuple(data.EventData("LogDamaged", {"line": str(d.line), "what": d.what}) for d in self._damage)
            compiles.append(data.CompileData("log", "what could not be read", 0.0, 0.0, events=events, engine="stock"))
        return data.RecordData(
            data.VERSION,
            self.title if self.rank is None else f"{self.title}, rank {self.rank}",
            "stock",
            "",
            created,
            self._environment,
            {},
            tuple(data.SourceData(file, line, code) for (file, line), code in sorted(self._quoted.items())),
            tuple(compiles),
            data.CoverageData(),
            error=self._error(),
            meanings=operators.meanings(compiles),
        )


_RULES: dict[str, Callable[[Reader, Entry], None]] = {
    "dynamo_start": Reader._start,
    "describe_tensor": Reader._tensor,
    "describe_source": Reader._source,
    "dynamo_cpp_guards_str": Reader._guards,
    "dynamo_graph_break_reason": Reader._broken,
    "create_symbol": Reader._symbol,
    "recompile_reasons": Reader._recompiled,
    "inductor_output_code": Reader._code,
    "inductor_provenance_tracking_node_mappings": Reader._provenance,
    "compilation_metrics": Reader._metrics,
    "chromium_event": Reader._phase,
    "torch_version": Reader._version,
}


def stock_id(compile: str) -> str:
    """Torch's "3/1" as this record's ids are written: "s3.1", and "s3" for "3/0"."""
    frame, _, again = compile.partition("/")
    return f"s{frame}" if again == "0" else f"s{frame}.{again}"


def graph_break(text: str) -> data.BreakData:
    """A break from the text that torch logs of it."""
    place = re.search(r"Graph break in user code at (.+):(\d+)", text)
    span = data.SpanData(place[1], int(place[2]), int(place[2])) if place else None
    reason = re.search(r"^(?:Graph Break Reason|Reason): (.*)", text, re.M)
    registry = re.search(r"/gb/(gb\d+)\.html", text)
    explanation = re.search(r"^\s*Explanation: (.*)", text, re.M)
    stack = re.findall(r'^  File "(.+)", line (\d+), in (.+)', text.partition("User code traceback:")[2], re.M)
    why = data.WhyData(
        f"stock.{registry[1]}" if registry else "stock.break",
        reason[1] if reason else "the graph broke",
        explanation[1] if explanation else "",
    )
    hints = tuple(re.findall(r"^\s*Hint: (.*)", text, re.M))
    return data.BreakData(why, "", span, tuple(f"{file}:{line} in {name}" for file, line, name in stack), hints)


def _linked(found: data.HalfData, seen: Seen) -> data.HalfData:
    """The half with origins for kernels that have none: the nodes that torch's own provenance names for them."""
    named: dict[str, tuple[str, ...]] = {}
    posts = [node for stage in seen.stages if stage.name == LAST and stage.graph for node in stage.graph.nodes]
    for mapping in seen.mappings:
        for kernel, nodes in mapping.get("cppCodeToPost", {}).items():
            ids = tuple(node.id for node in posts if node.name in nodes)
            named.setdefault(kernel.rpartition(":")[0] or kernel, ids)
    kernels = tuple(
        msgspec.structs.replace(each, origins=named.get(each.function, UNTOLD)) if each.origins == UNTOLD else each
        for each in found.kernels
    )
    return msgspec.structs.replace(found, kernels=kernels)


def _device(found: re.Match[str]) -> str:
    return found[1] if found[2] is None else f"{found[1]}:{found[2]}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
