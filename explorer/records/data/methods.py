"""The same program through several ways to capture a graph: plain data, for the views and for saving."""

from __future__ import annotations

from typing import Literal

import msgspec

from explorer.ir.record import Data, SourceData, TextData, Whole

METHODS_VERSION = 2
METHODS_MIME = "application/vnd.explorer.methods+json"

Answer = Literal["right", "wrong", "refused", "not run"]


class KernelStepData(Data, frozen=True):
    """One stop of an operation on its way through the dispatcher. `does` is "kernel" or "passes on"."""

    key: str
    does: str
    place: str


class OperationCallData(Data, frozen=True):
    """One operation that eager ran: its stops in the dispatcher's order, the types, median seconds, and the line of the
    program ("FILE:LINE", "" where none is known)."""

    id: str
    name: str
    steps: tuple[KernelStepData, ...]
    dtype: str
    layout: str
    device: str
    result: str
    seconds: float
    where: str


class TriedInputData(Data, frozen=True):
    """A call that captured programs are tried on: `change` says how it differs from the call captured, `expected` what
    eager gives or raises."""

    name: str
    change: str
    arguments: str
    expected: str = ""


class VerdictData(Data, frozen=True):
    """The result on one input, compared with eager. `detail` gives the values or the error; `recompiled` where the
    method compiled again for it."""

    input: str
    answer: Answer
    detail: str = ""
    error: float = 0.0
    recompiled: bool = False


class ViewData(Data, frozen=True):
    """One text of what a method captured. A line's origins are the lines of the program that it was made for, where
    the method knows them; lines have no ids."""

    title: str
    text: TextData


class MethodData(Data, frozen=True):
    """What one method made of the program. `seconds` is the median of a call, `capture_seconds` what capturing took,
    with its first call where that is when it captures."""

    name: str
    how: str
    views: tuple[ViewData, ...] = ()
    control: str = ""
    sizes: str = ""
    baked: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    verdicts: tuple[VerdictData, ...] = ()
    warnings: tuple[str, ...] = msgspec.field(default=(), name="said")
    """Warnings that its users see while it captures."""
    error: str = ""
    meaning: str = ""
    missing: str = ""
    capture_seconds: float | None = None
    seconds: float | None = None
    spread: float | None = None
    saved: str = ""
    runs_without_python: str = ""


class MethodsData(Data, frozen=True):
    version: Whole
    title: str
    created: str
    environment: dict[str, str]
    sources: tuple[SourceData, ...]
    """The function, and the lines outside of it that texts and operations were made for."""
    inputs: tuple[TriedInputData, ...]
    methods: tuple[MethodData, ...]
    operations: tuple[OperationCallData, ...] = ()
    timing: str = ""
