"""What the entries of a log hold, by kind: the one place that says which fields are read, and what they may be. A log
comes from strangers, so each number has bounds; what does not fit is told as damage and kept as text."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

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


class Tensor(msgspec.Struct):
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


class Symbol(msgspec.Struct):
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


class Phase(msgspec.Struct):
    """A span of a compile begins ("B") or ends ("E"), or something happened at once."""

    name: str
    ts: Microseconds
    ph: str
    args: dict[str, Any] = {}


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
