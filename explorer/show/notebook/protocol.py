"""The messages between a live record's page and its kernel. Each is one JSON object with its type's name in `type`."""

from __future__ import annotations

import msgspec

from explorer.ir.record import CompileData, PartData, RecordData, StageData, TimingData


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of every message."""


# ------------------------------------------------------------------------------------------------- kernel to page


class Whole(Message, frozen=True, tag="record"):
    """The record as it is by now: replaces what the page has."""

    record: RecordData


class Running(Message, frozen=True, tag="running"):
    """A stage of `compile` began, or with stage "" something between stages: `what` says which ("timing eager")."""

    compile: str
    stage: str
    what: str = ""


class StageDone(Message, frozen=True, tag="stage"):
    """A stage ended: `compile` has no stages of its own here, only what heads it; `glance` is what is known by now."""

    compile: CompileData
    stage: StageData
    glance: tuple[PartData, ...] = ()


class Samples(Message, frozen=True, tag="samples"):
    """Seconds of single calls of a contestant, in the order they were taken; `run` as in Retime, "" for the first."""

    run: str
    name: str
    seconds: tuple[float, ...]


class Timed(Message, frozen=True, tag="timed"):
    """A timing run ended: all of it."""

    run: str
    timing: TimingData


class Done(Message, frozen=True, tag="done"):
    """What was asked for ended; with `error` it failed, was interrupted or was stopped, and the message says which."""

    run: str = ""
    error: str = ""


class SizedArgument(Message, frozen=True):
    """A tensor argument that can be made again with other sizes."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Function(Message, frozen=True):
    """A function that was compiled, or all of the cell: its text, from the line `first` of `file` on."""

    name: str
    file: str
    first: int
    text: str


class Abilities(Message, frozen=True, tag="abilities"):
    """What this kernel can do for the page. It can compile changes where `passes` names the passes that may be left
    out; else `no_edit` says why it cannot."""

    arguments: tuple[SizedArgument, ...] = ()
    retime: bool = False
    stop: bool = False
    why_not: str = ""
    functions: tuple[Function, ...] = ()
    passes: tuple[str, ...] = ()
    no_edit: str = ""


class Edited(Message, frozen=True, tag="edited"):
    """The record of the changed program, and what it answers differently, a line for each."""

    run: str
    record: RecordData
    changes: tuple[str, ...]


class Kept(Message, frozen=True, tag="kept"):
    """All of the record, of which an output may hold a part: its JSON, compressed by gzip, in base64."""

    packed: str


class Made(Message, frozen=True, tag="made"):
    """What was asked for with Make; with `error` it could not be made, and the message says why."""

    run: str
    text: str = ""
    error: str = ""


# ------------------------------------------------------------------------------------------------- page to kernel


class Hello(Message, frozen=True, tag="hello"):
    """A page opened: answered with Whole and Abilities."""


class Retime(Message, frozen=True, tag="retime"):
    """Time again with tensors of these sizes (by argument name; others stay as they were)."""

    run: str
    shapes: dict[str, tuple[int, ...]]


class Edit(Message, frozen=True, tag="edit"):
    """Compile with changes, each from the program as it was explored: `text` in the place of the function at the line
    `first` of `file` (of none where `file` is ""), settings, passes left out, pairs of operations (graph, first,
    second) that are not to be fused. With `time` also run it. Without changes: show the record as it was."""

    run: str
    file: str = ""
    first: int = 0
    text: str = ""
    dynamic: bool | None = None
    fuse: bool = True
    without: tuple[str, ...] = ()
    forbid: tuple[tuple[str, str, str], ...] = ()
    time: bool = False


class Stop(Message, frozen=True, tag="stop"):
    """End what runs."""

    run: str = ""


class Keep(Message, frozen=True, tag="keep"):
    """Send all of the record, to be saved: answered with Kept."""


class Make(Message, frozen=True, tag="make"):
    """Make a text of the record: "trace" of all of it, a "program" of the graph or kernel `id` of a compile, the
    "throughput" of a kernel: answered with Made."""

    run: str
    what: str
    compile: str = ""
    id: str = ""


TO_PAGE = (Whole, Running, StageDone, Samples, Timed, Done, Abilities, Edited, Kept, Made)
TO_KERNEL = (Hello, Retime, Edit, Stop, Keep, Make)
