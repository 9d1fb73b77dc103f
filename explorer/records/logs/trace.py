"""Records from a TORCH_TRACE log, one for each process: what stock torch.compile logged of each compile.

Everything in the log is in the record: what has a place of its own goes there, and the rest is a stage's text.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from explorer.core.recorder import OUTSIDE, PROCESS
from explorer.ir import record as data
from explorer.records import diagnosis
from explorer.records.data import operator_meanings
from explorer.records.data.dynamo import CollectedCompile, recompiled
from explorer.records.logs import log_entries
from explorer.records.logs.log_entries import Damage, LogEntry
from explorer.records.logs.printed import UNTOLD, graph, guards, half

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
    "optimize_ddp_split_graph": ("DDPOptimizer: the graph and its buckets", "ddp"),
    "optimize_ddp_split_child": ("DDPOptimizer: a bucket", "bucket"),
    "compiled_autograd_graph": ("compiled autograd: the backward's graph", "ca"),
}
"""Entries that hold a graph: the stage's name, and what its nodes' ids begin with."""

LAST = GRAPHS["inductor_post_grad_graph"][0]
"""The graph that code is generated from."""


MOST_DAMAGE = 1000
"""Places that could not be read that are reported one by one."""

MOST_PROCESSES = 1000
"""In one log."""

MOST_EVENTS = 1000
"""Of one kind in one compile."""

MOST_TEXT = 1 << 25
"""Characters of a log's text that a record keeps; of later texts the beginnings alone."""

BEGINNING = 20
"""Lines of a text that is cut."""

LONGEST_NAME = 4096
"""Characters of a file's name."""

KEYS = 400
"""Characters of a part of a cache's key."""

FAULTS = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, msgspec.MsgspecError)


LIMIT = "recompile limit exceeded"
SUPPRESSED = '"suppress_errors": true'


Span = tuple[float, float]
"""From when to when, in seconds."""


@dataclass(kw_only=True)
class LoggedCompile(CollectedCompile):
    """What was read of one compile so far. `torch_id` is what torch calls it ("3/1")."""

    started: float
    torch_id: str = ""
    ended: float = 0.0
    attempt: int = 0
    halves: list[data.HalfData] = field(default_factory=list)
    tensors: dict[int, log_entries.LoggedTensor] = field(default_factory=dict)
    open: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    prefixes: dict[str, int] = field(default_factory=dict)
    depth: int = 0
    mappings: list[Any] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    goes_on: bool = False
    """The frame runs eagerly if compiling it fails, though torch tells of no graph break: it tells of one where it goes
    on eagerly, and where it raises (with fullgraph=True, say) of none."""
    counted: Counter[str] = field(default_factory=Counter)

    def again(self, attempt: int) -> None:
        """Torch began the compile over: what it had logged of its inputs comes again."""
        if attempt > self.attempt:
            self.attempt = attempt
            self.inputs, self.symbols, self.tensors = [], [], {}

    def event(self, kind: str, fields: Mapping[str, str]) -> None:
        self.counted[kind] += 1
        if self.counted[kind] > MOST_EVENTS:
            self.left_out[kind] += 1
        else:
            self.events.append(data.EventData(kind, dict(fields)))

    @property
    def spans(self) -> list[Span]:
        return [(each.started, each.started + each.seconds) for each in self.stages if each.seconds > 0]

    def compile(self, others: Sequence[Span] = ()) -> data.CompileData:
        """The compile; the time between the compiles of its forward and of its backward is not part of it, and neither
        is that of `others`: what a thread of the process did for them has no name of a compile."""
        self.stages.sort(key=lambda stage: stage.started)
        seconds = covered([*self.spans, *others]) - covered(others)
        if not self.spans and self.id != PROCESS:
            seconds = max(0.0, self.ended - self.started)
        self.raises = bool(self.error) and not self.breaks and not self.goes_on
        return self.whole(self.started, seconds, halves=tuple(self.halves), left_out=dict(self.left_out))


def covered(spans: Sequence[Span]) -> float:
    """Seconds in any of them."""
    seconds, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        seconds += max(0.0, end - max(start, until))
        until = max(until, end)
    return seconds


BEGINNINGS = {"dynamo": 1, "compiled_autograd": 1, "dynamo_start": 2}
"""What torch tells when a compile begins, in this order: spans of time, and the entry with the frame."""

BACKWARD = "entire_backward_compile"
"""The span of a backward that is compiled when it is first run."""


def records(title: str, found: Iterable[LogEntry | Damage], created: str) -> tuple[data.RecordData, ...]:
    """A record for each process. Those of several machines may have the same number: another rank is another process,
    and so is one that numbers its files anew."""
    readers = [last := Reader()]
    current: dict[str, Reader] = {}
    ranks: dict[tuple[str, int | None], Reader] = {}
    for each in found:
        if isinstance(each, LogEntry):
            last = current.get(each.process, readers[0])
            if not last.wrote(each):
                last = ranks.get((each.process, each.rank)) or Reader()
                if not last.process and len(readers) == MOST_PROCESSES:
                    readers[0].take(Damage(each.line, f"the log is cut here: it holds over {MOST_PROCESSES} processes"))
                    break
                readers += [last] if not last.process else []
            current[each.process] = last
            if each.rank is not None:
                ranks.setdefault((each.process, each.rank), last)
        last.take(each)
    several = len(readers) > 1
    return tuple(each.record(f"{title}, process {each.process}" if several else title, created) for each in readers)


class Reader:
    """Takes the entries of one process in order; `record` gives what they add up to. What torch calls a compile is its
    own until torch._dynamo.reset(), after which torch counts anew."""

    def __init__(self) -> None:
        self.process = ""
        self.rank: int | None = None
        self._names: dict[int, str] = {}
        self._whole_names: dict[str, str] = {}
        self._compiles: dict[str, LoggedCompile] = {}
        self._resets = 0
        self._current: dict[str, LoggedCompile] = {}
        """The compiles since the last reset, by what torch calls them."""
        self._frames: dict[str, list[LoggedCompile]] = defaultdict(list)
        """Those of each frame, in order."""
        self._begun: dict[str, int] = {}
        """How far their beginnings were read, by number."""
        self._waiting: dict[str, list[LoggedCompile]] = defaultdict(list)
        """Those whose backward was not compiled yet, from before a reset too."""
        self._backward: dict[str, LoggedCompile] = {}
        """Those whose backward is being compiled."""
        self._quoted: dict[tuple[str, int], str] = {}
        self._damage: list[Damage] = []
        self._damaged = 0
        self._keys: dict[tuple[str, str], tuple[str, dict[str, str]]] = {}
        """For each cache and frame, the compile that last looked into it and the hashes of its key's parts by name."""
        self._kept = 0
        self._cut = 0
        self._environment: dict[str, str] = {}

    def wrote(self, entry: LogEntry) -> bool:
        """Whether an entry may be of this process."""
        if self.process not in ("", entry.process) or None not in (entry.rank, self.rank) and entry.rank != self.rank:
            return False
        return not (entry.kind == "str" and isinstance(entry.fields, list) and entry.fields[1:] == [0] and self._names)

    def take(self, each: LogEntry | Damage) -> None:
        if isinstance(each, Damage):
            self._add_damage(each)
            return
        self.process = each.process
        if self.rank is None and each.rank is not None:
            self.rank = each.rank
            self._environment["rank"] = str(each.rank)
        try:
            self._take(each)
        except FAULTS as error:
            self._add_damage(Damage(each.line, f"{each.kind} is not of the form expected: {error}"))
            self._keep(each)

    def _add_damage(self, damage: Damage) -> None:
        self._damaged += 1
        if len(self._damage) < MOST_DAMAGE:
            self._damage.append(damage)

    def _seen(self, entry: LogEntry) -> LoggedCompile:
        seen = self._backward.get(entry.compile) or self._current.get(entry.compile)
        if seen is None:
            id = PROCESS if not entry.compile else stock_id(entry.compile, self._resets)
            frame = self._frames[number_of(entry.compile).rpartition("/")[0]]
            title = OUTSIDE if id == PROCESS else frame[0].title if frame else f"frame {entry.compile}"
            seen = LoggedCompile(id, title, started=entry.seconds, torch_id=entry.compile)
            self._compiles[id] = self._current[entry.compile] = seen
            frame.append(seen)
        seen.ended = max(seen.ended, entry.seconds)
        seen.again(entry.attempt)
        return seen

    def _begins(self, entry: LogEntry, how: str) -> None:
        """A compile begins; where one of this number had begun already, torch was reset in between."""
        number = number_of(entry.compile)
        self._backward.pop(entry.compile, None)
        if number and self._begun.get(number, 0) >= BEGINNINGS[how]:
            self._resets += 1
            self._current = {each: kept for each, kept in self._current.items() if not each}
            self._frames.clear()
            self._begun.clear()
        self._begun[number] = BEGINNINGS[how]

    def _take(self, entry: LogEntry) -> None:
        if entry.kind == "str":
            text, number = msgspec.convert(entry.fields, tuple[str, log_entries.Counted])
            self._names[number] = text[:LONGEST_NAME]
            return
        kind = entry.name or entry.kind
        if kind in GRAPHS:
            self._graph(entry, kind)
        elif rule := _RULES.get(kind):
            rule(self, entry)
        else:
            self._keep(entry)

    def _keep(self, entry: LogEntry, name: str = "") -> data.StageData:
        """The entry as the text of a stage."""
        fields = {} if entry.fields in (None, {}) or entry.kind == "artifact" else entry.fields
        head = [json.dumps(fields, indent=1)] if fields else []
        text = "\n".join([*head, entry.payload] if entry.payload else head)
        return self._stage(entry, name or entry.name or entry.kind, self._text(text))

    def _text(self, text: str) -> data.TextData:
        """A text's lines; of one beyond what a record keeps, the first."""
        lines = text.splitlines()
        shown = lines
        if not self._room(text):
            shown = [line[:KEYS] for line in lines[:BEGINNING]]
            note = f"... {len(text)} characters are left out here: a record keeps {MOST_TEXT >> 20} MiB of a log's text"
            shown.append(note)
            self._cut += 1
        self._kept += sum(map(len, shown))
        return data.TextData(tuple(map(data.LineData, shown)))

    def _room(self, text: str) -> bool:
        return self._kept + len(text) <= MOST_TEXT

    def _stage(
        self, entry: LogEntry, name: str, body: data.TextData, nodes: data.GraphData | None = None
    ) -> data.StageData:
        seen = self._seen(entry)
        made = data.StageData(f"{seen.id}/{len(seen.stages)}", name, entry.seconds, 0.0, 0, body=body, graph=nodes)
        seen.stages.append(made)
        return made

    def _graph(self, entry: LogEntry, kind: str) -> None:
        name, prefix = GRAPHS[kind]
        if kind == "optimize_ddp_split_child":
            name = f"{name}, {msgspec.convert(entry.fields, log_entries.Named).name}"
        seen = self._seen(entry)
        again = seen.prefixes[prefix] = seen.prefixes.get(prefix, 0) + 1
        if not self._room(entry.payload):
            self._keep(entry, name)
            return
        self._kept += len(entry.payload)
        if kind == "aot_forward_graph":
            self._waiting[entry.compile].append(seen)
        body, nodes, quoted = graph(name, prefix if again == 1 else f"{prefix}{again}", entry.payload)
        self._quoted.update(quoted)
        self._stage(entry, name, body, nodes)

    def _frame_place(self, frame: log_entries.LoggedFrame) -> str:
        return f"{self._names.get(frame.filename, f'file {frame.filename}')}:{frame.line}"

    def _stack(self, frames: Iterable[log_entries.LoggedFrame]) -> tuple[str, ...]:
        return tuple(f"{self._frame_place(each)} in {each.name}" for each in frames)

    # ------------------------------------------------------------------------------------------- kinds of entries

    def _start(self, entry: LogEntry) -> None:
        self._begins(entry, entry.kind)
        seen, frames = self._seen(entry), msgspec.convert(entry.fields, log_entries.Start).stack
        if frames:
            seen.title = f"{frames[-1].name} ({self._frame_place(frames[-1])})"

    def _tensor(self, entry: LogEntry) -> None:
        found = msgspec.convert(entry.fields, log_entries.LoggedTensor)
        self._seen(entry).tensors[found.id] = found

    def _source(self, entry: LogEntry) -> None:
        seen, logged = self._seen(entry), msgspec.convert(entry.fields, log_entries.Source)
        facts = seen.tensors[logged.id]
        tensor = data.TensorFactsData(
            dtype=facts.dtype.removeprefix("torch."),
            device=re.sub(r"device\(type='([^']*)'(?:, index=(\d+))?\)", _device, facts.device),
            sizes=tuple(each if isinstance(each, int) else None for each in facts.size),
            strides=tuple(each if isinstance(each, int) else None for each in facts.stride or ()),
            requires_grad=facts.requires_grad,
        )
        seen.inputs.append(data.InputData(logged.source, "tensor", tensor=tensor))

    def _guards(self, entry: LogEntry) -> None:
        seen = self._seen(entry)
        if self._room(entry.payload):
            seen.guards = [self._in_whole_file(each) for each in guards(seen.id, entry.payload)]
        else:
            seen.left_out["GuardData"] += entry.payload.count("+- ")
        self._keep(entry, "guard tree")

    def _in_whole_file(self, guard: data.GuardData) -> data.GuardData:
        """The guard with its file's whole name, of which torch writes the end, where one file alone ends so."""
        if guard.span is None:
            return guard
        end = guard.span.file
        if end not in self._whole_names:
            known = {name for name in self._names.values() if name.endswith(end)}
            self._whole_names[end] = known.pop() if len(known) == 1 else end
        span = msgspec.structs.replace(guard.span, file=self._whole_names[end])
        return msgspec.structs.replace(guard, span=span)

    def _broken(self, entry: LogEntry) -> None:
        found, seen = graph_break(entry.payload), self._seen(entry)
        if not any((known.why.code, known.span) == (found.why.code, found.span) for known in seen.breaks):
            seen.breaks.append(found)  # torch tells the same one twice where it leads to a skipped frame
        self._keep(entry, "graph break")

    def _symbol(self, entry: LogEntry) -> None:
        logged = msgspec.convert(entry.fields, log_entries.LoggedSymbol)
        value = str(logged.val)
        why = "; ".join(self._stack(logged.user_stack or ()))
        self._seen(entry).symbols.append(
            data.SymbolData(
                logged.symbol,
                int(value) if re.fullmatch(r"-?[0-9]{1,15}", value) else None,
                logged.source,
                logged.vr,
                "dynamic",
                f"made at {why}" if why else "",
            )
        )

    def _recompiled(self, entry: LogEntry) -> None:
        """One reason as it is, or a JSON list of them: one for each earlier compile of the frame."""
        text = entry.payload
        reasons = msgspec.json.decode(text, type=list[str]) if text.startswith("[\n") else [text]
        self._recompile_reasons(self._seen(entry), reasons)
        self._keep(entry, "why it compiled again")

    def _recompile_reasons(self, seen: LoggedCompile, reasons: Iterable[str]) -> None:
        frame = self._frames[number_of(seen.torch_id).rpartition("/")[0]]
        earlier = {each.torch_id: (each.id, each.guards) for each in frame if each is not seen}
        found = list(reasons)
        left = max(0, len(seen.recompiles) + len(found) - MOST_EVENTS)
        seen.recompiles += [recompiled(each, earlier) for each in found[: len(found) - left]]
        if left:
            seen.left_out["RecompileData"] += left

    def _code(self, entry: LogEntry) -> None:
        seen = self._seen(entry)
        if file := msgspec.convert(entry.fields or {}, log_entries.GeneratedFile).filename:
            seen.event("OutputCode", {"file": file[:LONGEST_NAME]})
        if not self._room(entry.payload):
            self._keep(entry)
            return
        self._kept += len(entry.payload)
        kinds = {"inf": "inference", "fw": "forward", "bw": "backward"}
        there = [name for prefix, name in kinds.items() if prefix in seen.prefixes]
        taken = [each.name for each in seen.halves]
        name = next((each for each in there if each not in taken), f"code {len(seen.halves)}")
        graphs = [stage.graph for stage in seen.stages if stage.name == LAST and stage.graph is not None]
        nodes = {node.name: node.id for node in graphs[-1].nodes} if graphs else {}
        seen.halves.append(half(seen.id, name, entry.payload, nodes))

    def _provenance(self, entry: LogEntry) -> None:
        """Empty where the code came from a cache."""
        if entry.payload:
            self._seen(entry).mappings.append(msgspec.json.decode(entry.payload, type=dict[str, Any]))
        self._keep(entry)

    def _metrics(self, entry: LogEntry) -> None:
        seen, logged = self._seen(entry), msgspec.convert(entry.fields, log_entries.Metrics)
        if logged.fail_reason and not seen.error:
            seen.error = f"{logged.fail_type or 'failed'}: {logged.fail_reason}"
        seen.goes_on = LIMIT in seen.error or SUPPRESSED in logged.dynamo_config
        if logged.cudagraph_skip_reason:
            seen.event("CudagraphSkipped", {"why": logged.cudagraph_skip_reason})
        if logged.recompile_reason and not seen.recompiles:
            self._recompile_reasons(seen, [logged.recompile_reason])
        if logged.guard_latency_us is not None:
            seen.event("GuardsTimed", {"microseconds a check": f"{logged.guard_latency_us:g}"})
        versions = {"torch": logged.pytorch_version, "Python": logged.python_version, "Triton": logged.triton_version,
                    "CUDA": logged.cuda_version}  # fmt: skip
        for name, version in versions.items():
            if version:
                self._environment.setdefault(name, version)
        self._keep(entry)

    def _backward_metrics(self, entry: LogEntry) -> None:
        self._metrics(entry)
        self._backward.pop(entry.compile, None)

    def _failed(self, entry: LogEntry) -> None:
        """A traceback, which ends with the error's whole message and the program's line."""
        raised = [match.start() for match in re.finditer(r"^(?=[\w.]+: )", entry.payload, re.M)]
        self._seen(entry).error = entry.payload[raised[-1] if raised else 0 :].strip()
        self._keep(entry, "error")

    def _cached(self, entry: LogEntry) -> None:
        found, seen = msgspec.json.decode(entry.payload, type=log_entries.Cached), self._seen(entry)
        matched = (KEY_PART.match(each) for each in found.components)
        parts: dict[str, str] = {part[2]: part[1] for part in matched if part}
        of = entry.name.partition("_cache_")[0], seen.id.partition(".")[0]
        before, known = self._keys.get(of, ("", {}))
        unlike = [name for name in parts if name in known and known[name] != parts[name]]
        self._keys[of] = seen.id, parts
        fields = cache_fields(entry.name, found)
        if unlike and found.cache_state == "miss":
            fields["key unlike that of"] = f"{before} in {', '.join(unlike)}"[:KEYS]
        seen.event("Cache", fields)
        self._keep(entry)

    def _bypassed(self, entry: LogEntry) -> None:
        cache = entry.name.removesuffix("_cache_bypass")
        self._seen(entry).event("Cache", {"cache": cache, "state": "bypass", "why": entry.payload[:KEYS]})
        self._keep(entry)

    def _phase(self, entry: LogEntry) -> None:
        """A span of the compile's time: its beginning and its end are entries of their own."""
        phase = msgspec.json.decode(entry.payload, type=log_entries.Phase)
        if phase.ph == "B" and phase.name in BEGINNINGS:
            self._begins(entry, phase.name)
        elif phase.ph == "B" and phase.name == BACKWARD and self._waiting.get(entry.compile):
            self._backward[entry.compile] = self._waiting[entry.compile].pop()
        seen, at = self._seen(entry), phase.ts / 1e6
        match phase.ph:
            case "B":
                seen.open.setdefault(phase.name, []).append((at, seen.depth))
                seen.depth = min(seen.depth + 1, 99)
            case "E" if seen.open.get(phase.name):
                began, depth = seen.open[phase.name].pop()
                seen.depth = max(0, seen.depth - 1)
                seconds = max(0.0, at - began)
                started = entry.seconds - seconds
                seen.started = min(seen.started, started)
                seen.stages.append(data.StageData(f"{seen.id}/{len(seen.stages)}", phase.name, started, seconds, depth))
                for name in ("cudagraph_skip_reason",):
                    if phase.args.get(name):
                        seen.event("CudagraphSkipped", {"why": _text(phase.args[name])[:KEYS]})
                if isinstance(stats := phase.args.get("autotune_choices_stats"), str):
                    seen.event("Autotuned", autotuned(phase, stats, seconds))
            case _:
                fields = {key: _text(value)[:KEYS] for key, value in phase.args.items()}
                seen.event(phase.name, {"category": phase.ph, **fields})

    def _version(self, entry: LogEntry) -> None:
        logged = msgspec.json.decode(entry.payload, type=log_entries.Version)
        self._environment["torch"] = logged.pytorch_version
        self._keep(entry)

    # ------------------------------------------------------------------------------------------------- the record

    def _error(self) -> str:
        if not self._damage:
            return ""
        first = self._damage[0]
        places = "1 place" if self._damaged == 1 else f"{self._damaged} places"
        return f"{places} of the log could not be read; the first, line {first.line}: {first.what[:KEYS]}"

    def record(self, title: str, created: str) -> data.RecordData:
        for seen in self._compiles.values():
            seen.halves = [_linked(each, seen) for each in seen.halves]
        others = [span for id, seen in self._compiles.items() if id != PROCESS for span in seen.spans]
        compiles = [seen.compile(others if id == PROCESS else ()) for id, seen in self._compiles.items()]
        if self._damage:
            events = tuple(data.EventData("LogDamaged", {"line": str(d.line), "what": d.what}) for d in self._damage)
            left = {"LogDamaged": self._damaged - len(events)} if self._damaged > len(events) else {}
            title = "what could not be read"
            compiles.append(data.CompileData("log", title, 0.0, 0.0, events=events, left_out=left, engine="stock"))
        return data.RecordData(
            data.VERSION,
            title if self.rank is None else f"{title}, rank {self.rank}",
            "stock",
            "",
            created,
            self._environment,
            {},
            tuple(data.SourceData(file, line, code) for (file, line), code in sorted(self._quoted.items())),
            tuple(compiles),
            data.CoverageData(),
            error=self._error(),
            notes=log_entries.notes(compiles, self._environment, self._cut),
            meanings=operator_meanings.meanings(compiles),
            recompiles=diagnosis.failed_guards(compiles),
            errors=diagnosis.errors(compiles),
            eager=diagnosis.eager(compiles),
        )


CACHES = {"fx_graph": "FX graph cache", "aotautograd": "AOTAutograd cache"}


def cache_fields(name: str, found: log_entries.Cached) -> dict[str, str]:
    """What came of looking into a cache, as an event's fields."""
    cache = next((whose for prefix, whose in CACHES.items() if name.startswith(prefix)), name)
    saved = f"{found.time_saved_ms:g} ms" if found.time_saved_ms else None
    fields = {"state": found.cache_state, "key": found.key, "why": found.cache_bypass_reason, "saved": saved}
    return {"cache": cache, **{name: text[:KEYS] for name, text in fields.items() if text}}


def autotuned(logged: log_entries.Phase, stats: str, seconds: float) -> dict[str, str]:
    """What a log has of one operation: how many candidates, and the fastest one, of Triton too."""
    found = msgspec.json.decode(stats, type=log_entries.Choices)
    best = [(found.best_time, found.best_kernel, found.best_kernel_desc)]
    best += [(found.best_triton_time, found.best_triton_kernel, found.best_triton_kernel_desc)]
    dtypes, shapes = (_text(logged.args.get(f"autotune_{name}", "")).split(", ") for name in ("dtypes", "shape"))
    inputs = (f"{dtype.removeprefix('torch.')}[{shape}]" for dtype, shape in zip(dtypes, shapes, strict=False))
    known = ((time, f"{kernel} {about}".rstrip()) for time, kernel, about in best if kernel and time is not None)
    lines = (f"{time / 1e3:.3e} {choice}" for time, choice in known)
    return {
        "operation": logged.name.removesuffix("_template_autotuning"), "inputs": ", ".join(inputs)[:KEYS],
        "candidates": "\n".join(line[:KEYS] for line in lines), "count": str(found.num_choices),
        "seconds": f"{seconds:.6f}", "fastest": found.best_kernel[:KEYS],
    }  # fmt: skip


KEY_PART = re.compile(r"\[(\w+)\] ([^:\n]{1,100}):")


_RULES: dict[str, Callable[[Reader, LogEntry], object]] = {
    "dynamo_start": Reader._start,
    "describe_storage": Reader._seen,
    "describe_tensor": Reader._tensor,
    "describe_source": Reader._source,
    "dynamo_cpp_guards_str": Reader._guards,
    "dynamo_graph_break_reason": Reader._broken,
    "dynamo_error": Reader._failed,
    "create_symbol": Reader._symbol,
    "recompile_reasons": Reader._recompiled,
    "inductor_output_code": Reader._code,
    "inductor_provenance_tracking_node_mappings": Reader._provenance,
    "compilation_metrics": Reader._metrics,
    "chromium_event": Reader._phase,
    "torch_version": Reader._version,
    "bwd_compilation_metrics": Reader._backward_metrics,
    **{f"{cache}_cache_{found}": Reader._cached for cache in CACHES for found in ("hit", "miss", "bypass")},
    "fx_graph_bundled_cache_hit": Reader._cached,
    "dynamo_cache_bypass": Reader._bypassed,
    "precompile_cache_bypass": Reader._bypassed,
}


def stock_id(compile: str, resets: int = 0) -> str:
    """Torch's "3/1" as this record's ids are written: "s3.1", and "s3" for "3/0"; under compiled autograd "s!0/3.1".
    After torch._dynamo.reset() it is "s3#2.1"."""
    frame, slash, again = compile.rpartition("/")
    frame = f"{frame if slash else compile}#{resets + 1}" if resets else frame if slash else compile
    return f"s{frame}" if not slash or again == "0" else f"s{frame}.{again}"


def number_of(compile: str) -> str:
    """What torch counts a compile by: "3/1", under compiled autograd ("!0/3/1") too; "!0" of a backward's graph."""
    return compile.partition("/")[2] or compile if compile.startswith("!") else compile


LEADS_TO = r"Encountered graph break when|Failed to handle graph break gracefully\."
"""How what a break leads to begins, after which comes its own reason."""


def graph_break(text: str) -> data.BreakData:
    """A break from the text that torch logs of it."""
    place = re.search(r"^[ \t]*Graph break in user code at (.+):(\d{1,9})", text, re.M)
    span = data.SpanData(place[1], int(place[2]), int(place[2])) if place else None
    reason = re.search(rf"^(?:Graph Break Reason|Reason): (?:(?:{LEADS_TO}) .*\n+)?(.*)", text, re.M)
    registry = re.search(r"/gb/(gb\d+)\.html", text)
    explanation = re.search(r"^[ \t]*Explanation: (.*)", text, re.M)
    stack = re.findall(r'^  File "(.+)", line (\d+), in (.+)', text.partition("User code traceback:")[2], re.M)
    why = data.WhyData(
        f"stock.{registry[1].upper()}" if registry else "stock.break",
        reason[1] if reason else "the graph broke",
        explanation[1] if explanation else "",
    )
    hints = tuple(re.findall(r"^[ \t]*Hint: (.*)", text, re.M))
    return data.BreakData(why, "", span, tuple(f"{file}:{line} in {name}" for file, line, name in stack), hints)


def _linked(found: data.HalfData, seen: LoggedCompile) -> data.HalfData:
    """The half with origins for kernels that have none: the nodes that torch's own provenance names for them."""
    named: dict[str, tuple[str, ...]] = {}
    posts = {n.name: n.id for stage in seen.stages if stage.name == LAST and stage.graph for n in stage.graph.nodes}
    for mapping in seen.mappings:
        for kernel, nodes in _table(mapping.get("cppCodeToPost")).items():
            ids = tuple(posts[name] for name in _texts(nodes) if name in posts)
            named.setdefault(kernel.rpartition(":")[0] or kernel, ids)
    kernels = tuple(
        msgspec.structs.replace(each, origins=named.get(each.function, UNTOLD)) if each.origins == UNTOLD else each
        for each in found.kernels
    )
    return msgspec.structs.replace(found, kernels=kernels)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _device(found: re.Match[str]) -> str:
    return found[1] if found[2] is None else f"{found[1]}:{found[2]}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
