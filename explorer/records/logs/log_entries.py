"""The lines of a TORCH_TRACE log (stock: torch/_logging, "structured trace"): a JSON object each, some with a payload,
and what they hold, by kind: the one place that says which fields are read, and what they may be.

A line begins like glog's ("V1121 18:29:14.686000 28753 file.py:12] "); the payload's lines follow, each after a tab. A
log comes from strangers, so each number has bounds; what does not fit is reported as damage and kept as text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec

from explorer.ir.record import CompileData

NAMED = 5
"""Compiles named in a sentence; the others are counted."""

ALWAYS = (
    "torch writes this log only while it compiles, so it does not contain how often compiled code was called, how "
    "long calls took, or what ran eagerly between graphs.",
    "The log does not contain which operations torch fused and why, how many bytes a kernel moves, or how long it "
    'takes; explorer.explore(..., engine="stock") shows these.',
    "These parts of the log are not read: stacks inside torch, the callers of a compiled function, the storages of its "
    "inputs, and further arguments of time spans.",
)


def notes(compiles: Sequence[CompileData], environment: Mapping[str, str], cut: int) -> tuple[str, ...]:
    """Sentences on `compiles`, of whose texts `cut` are kept in part."""
    frames = [each for each in compiles if each.engine == "stock" and each.id.startswith("s")]
    found = list(ALWAYS) if frames else []
    cached = [f for f in frames if any(e.kind == "Cache" and e.fields.get("state") == "hit" for e in f.events)]
    if cached:
        found.append(
            f"The code of {named(cached)} came from torch's cache, so the log has no passes and no joint graph for "
            "it; set TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 to compile without caches."
        )
    unexplained = [each for each in frames if "." in each.id and not each.recompiles]
    if unexplained:
        found.append(f"The log has no reason for the recompile {named(unexplained)}.")
    failed = [each for each in frames if each.error and not each.guards]
    if failed:
        found.append(f"{named(failed)} failed before its guards were made.")
    if frames and "torch" not in environment:
        found.append("The log does not say which version of torch wrote it.")
    if cut:
        found.append(f"{cut} texts are truncated, because the log has more text than a record can hold.")
    return tuple(found)


def named(compiles: Sequence[CompileData]) -> str:
    more = len(compiles) - NAMED
    return ", ".join(each.id for each in compiles[:NAMED]) + (f" and {more} more" if more > 0 else "")


Counted = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
"""Frames, lines, ids."""

Extent = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
"""A size or stride."""

Microseconds = Annotated[float, msgspec.Meta(ge=0, lt=1e18)]
"""Since 1970."""


class LoggedFrame(msgspec.Struct):
    """A line of the program on a stack."""

    filename: Counted
    line: Counted
    name: str


class Start(msgspec.Struct):
    stack: list[LoggedFrame] = []


class LoggedTensor(msgspec.Struct):
    """`size` and `stride` name a symbol (as text) where they are dynamic."""

    id: Counted
    dtype: str
    device: str
    size: list[Extent | Any]
    stride: list[Extent | Any] | None = None
    requires_grad: bool = False

    def __post_init__(self) -> None:
        for extents in (self.size, self.stride or ()):
            if any(isinstance(each, int) and abs(each) > 1 << 53 for each in extents):
                raise ValueError("expected sizes and strides of at most 2**53")


class Source(msgspec.Struct):
    id: Counted
    source: str


class Named(msgspec.Struct):
    name: str


class GeneratedFile(msgspec.Struct):
    """Generated code, and where torch wrote it."""

    filename: str = ""


class LoggedSymbol(msgspec.Struct):
    symbol: str
    source: str
    val: str | int
    vr: str
    user_stack: list[LoggedFrame] | None = None


class Metrics(msgspec.Struct):
    """Sums over one compile, which torch writes at its end."""

    fail_type: str | None = None
    fail_reason: str | None = None
    cudagraph_skip_reason: str | None = None
    recompile_reason: str | None = None
    guard_latency_us: float | None = None
    pytorch_version: str | None = None
    python_version: str | None = None
    triton_version: str | None = None
    cuda_version: str | None = None
    dynamo_config: str = ""
    """As JSON."""


class Phase(msgspec.Struct):
    """A span of a compile begins ("B") or ends ("E"), or something happened at once."""

    name: str
    ts: Microseconds
    ph: str
    args: dict[str, Any] = {}


class Choices(msgspec.Struct):
    """What came of autotuning one operation. Times are milliseconds."""

    num_choices: Counted
    best_kernel: str
    best_time: float | None = None
    best_kernel_desc: str = ""
    best_triton_kernel: str = ""
    best_triton_time: float | None = None
    best_triton_kernel_desc: str = ""


class Cached(msgspec.Struct):
    """What came of looking for compiled code in one of torch's caches. `components` are the parts of the key, each as
    "[hash] name: text"."""

    cache_state: str
    key: str | None = None
    cache_bypass_reason: str | None = None
    components: list[str] = []
    time_saved_ms: float | None = None


class Version(msgspec.Struct):
    pytorch_version: str


HEAD = re.compile(r"[VIWE](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,6}) (\d+) \S+?:\d+\] (\{.*)")
MOST_COUNTED = 1 << 31
"""What numbers that count frames, attempts and ranks are below; a greater one was not written by torch."""

MOST_ENTRIES = 500_000
"""A hundred megabytes of a real log hold a tenth of them."""

MOST_PAYLOAD = 1 << 25
"""Characters of one payload."""

TOO_LARGE = f"a payload of over {MOST_PAYLOAD >> 20} MiB is left out"

ABOUT = frozenset(("frame_id", "frame_compile_id", "attempt", "has_payload", "rank", "compiled_autograd_id", "stack"))
"""Fields that every kind of entry may have."""


@dataclass(frozen=True)
class LogEntry:
    """One line with its payload. `kind` is the field that says what it is, `name` an artifact's own; `compile` is
    torch's compile id ("3/1", "!0/3/1" under compiled autograd), "" outside one; `attempt` counts how often torch began
    it over. `process` is the number that the system gave the process; `seconds` counts from its first line."""

    line: int
    seconds: float
    kind: str
    name: str
    compile: str
    rank: int | None
    fields: Any
    payload: str
    attempt: int = 0
    process: str = ""


@dataclass(frozen=True)
class Damage:
    """Something in a log that could not be read."""

    line: int
    what: str


def entries(lines: Iterable[str]) -> Iterator[LogEntry | Damage]:
    """The entries of a log in order. What cannot be read comes as Damage, and reading goes on behind it."""
    head: tuple[int, str] | None = None
    payload: list[str] = []
    size = taken = 0
    first: dict[str, datetime] = {}
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\n")
        if line.startswith("\t"):
            if head is None:
                yield Damage(number, "a payload without the line it belongs to")
            elif (size := size + len(line)) <= MOST_PAYLOAD:
                payload.append(line[1:])
            continue
        if head is not None:
            yield _entry(*head, payload, first) if size <= MOST_PAYLOAD else Damage(head[0], TOO_LARGE)
            if (taken := taken + 1) == MOST_ENTRIES:
                yield Damage(number, f"the log is cut here: it holds over {MOST_ENTRIES} entries")
                return
        payload, size = [], 0
        head = (number, line) if line.strip() else None
    if head is not None:
        yield _entry(*head, payload, first) if size <= MOST_PAYLOAD else Damage(head[0], TOO_LARGE)


def _entry(number: int, head: str, payload: list[str], first: dict[str, datetime]) -> LogEntry | Damage:
    found = HEAD.fullmatch(head.rstrip())
    if found is None:
        return Damage(number, f"not a line of a structured trace: {head[:80]!r}")
    try:
        fields = _parsed(found[8])
    except (ValueError, RecursionError) as error:
        return Damage(number, f"broken JSON: {error}")
    wanted = fields.get("has_payload")
    text = _payload(payload, wanted)
    if text is None:
        return Damage(number, f"the payload of {_kind(fields)} is cut off or changed (its checksum differs)")
    at = _time(found)
    if at is None:
        return Damage(number, f"no such time: {head[:22]!r}")
    seconds = (at - first.setdefault(found[7], at)).total_seconds()
    if seconds < -HALF_A_YEAR:  # a log names no year, and this one goes over the end of it
        seconds += 2 * HALF_A_YEAR
    kind = _kind(fields)
    inner = fields.get(kind)
    name = str(inner.get("name", "")) if kind == "artifact" and isinstance(inner, dict) else ""
    rank, attempt = counted(fields.get("rank")), counted(fields.get("attempt"))
    return LogEntry(number, seconds, kind, name, _compile(fields), rank, inner, text, attempt or 0, found[7])


def _parsed(text: str) -> Any:
    """JSON, with NaN, which torch may write. Raises ValueError, for halves of characters too: no file can hold them."""
    fields = json.loads(text)
    if "\\u" in text:
        json.dumps(fields, ensure_ascii=False).encode()
    return fields


HALF_A_YEAR = 183 * 86400.0


def _payload(lines: list[str], wanted: object) -> str | None:
    """The payload's text, None where its checksum is not the one wanted. A log that came through Windows has a carriage
    return at the end of each line, which torch did not write."""
    text = "\n".join(lines)
    if wanted is None or _checksum(text) == wanted:
        return text
    text = "\n".join(line.removesuffix("\r") for line in lines)
    return text if _checksum(text) == wanted else None


def _checksum(text: str) -> str:
    return hashlib.md5(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()


def _time(found: re.Match[str]) -> datetime | None:
    """A log names no year; a leap year allows every date."""
    month, day, hour, minute, second = (int(found[i]) for i in range(1, 6))
    try:
        return datetime(2000, month, day, hour, minute, second, int(found[6].ljust(6, "0")))
    except ValueError:
        return None


def _kind(fields: Any) -> str:
    return next((str(name) for name in fields if name not in ABOUT), "stack" if "stack" in fields else "empty")


def counted(value: object) -> int | None:
    """A number that torch counted; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_COUNTED else None


def _compile(fields: Any) -> str:
    outer, frame, again = (counted(fields.get(n)) for n in ("compiled_autograd_id", "frame_id", "frame_compile_id"))
    inner = f"{frame}/{again}" if frame is not None and again is not None else ""
    return inner if outer is None else f"!{outer}/{inner}".rstrip("/")
