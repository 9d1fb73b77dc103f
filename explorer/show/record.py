"""Record: the result of `explorer.explore`. The data of ir/record.py, with methods to print, save and compare it."""

from __future__ import annotations

import base64
import gzip
import json
import os
import tempfile
import urllib.parse
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from explorer.core.files import regular, visible, writable
from explorer.core.text import count, duration
from explorer.ir import record as data
from explorer.records.data.exploration import EXPLORED, Bisect, Exploration
from explorer.records.data.methods import MethodsData
from explorer.records.data.provenance import file_names, operation_names
from explorer.records.data.ranks import RanksData
from explorer.show.view import (
    answers,
    caches,
    changes,
    compile_time,
    diagnosis,
    distributed,
    history,
    html,
    inductor,
    memory,
    report,
    text,
    trace,
)
from explorer.show.view.glance import with_glance
from explorer.show.view.size_limit import INDENTED, MOST_ON_DISK, all_within, lines_on_disk, on_disk, within_size_limit
from explorer.show.view.steps import Steps, of_record
from explorer.show.view.walk import Rewrites, Tries, Values, tries_of

if TYPE_CHECKING:
    from explorer.records.editing import ExploredProgram

T = TypeVar("T")

LARGEST = 100_000_000
"""Bytes of JSON that a record may have; a file that unpacks to more is refused before it fills the memory."""

_decoder = msgspec.json.Decoder(data.RecordData)


Bundle = tuple[dict[str, Any], dict[str, Any]]
"""What an output shows, by MIME type, and metadata of it."""


DATA_ONLY = (
    "holds data only, not the function to run again. Explore the function again and call this on the new record."
)


class RecordError(ValueError):
    """A file that is no record, or one that this version cannot read."""


class Listing(Sequence[T], Generic[T]):
    """Some part of a record: a sequence that prints as text."""

    def __init__(self, items: Iterable[T], printed: Iterable[str]) -> None:
        self._items = tuple(items)
        self._printed = tuple(printed)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def text(self) -> str:
        return "\n".join(self._printed)

    def __repr__(self) -> str:
        return visible(self.text()) or "(none)"


class PrintedTiming(data.TimingData, frozen=True):
    def __str__(self) -> str:
        return visible("\n".join(["not timed"] * (not self.contestants) + text.timing(self)))

    __repr__ = __str__


class PrintedCoverage(data.CoverageData, frozen=True):
    def __str__(self) -> str:
        outside = (f"in Python, outside graphs: {each}" for each in self.python)
        return visible("\n".join((text.coverage(self), *outside)))

    __repr__ = __str__


D = TypeVar("D", data.RecordData, MethodsData, RanksData)


class Viewable(Generic[D]):
    """What the viewer shows: a record, the records of several processes, or a comparison of capture methods."""

    data: D

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page with the viewer, which needs no network. Raises OSError naming the path."""
        target = Path(path)
        write_whole(target, report.page(self.data))
        return target


class Record(Viewable[data.RecordData]):
    """The result of one exploration; all of it is in `data`. `live` names the widget, if there is one, through which a
    page asks the Jupyter kernel for more; `bisect` has, by engine, a function that runs the explored call once more.
    `whole` is False while the exploration is running."""

    def __init__(
        self,
        contents: data.RecordData,
        live: str = "",
        bisect: Mapping[str, Bisect] | None = None,
        *,
        whole: bool = True,
    ) -> None:
        self.data = with_glance(contents, whole=whole)
        self.live = live
        self._bisect = bisect or {}
        self.explored: ExploredProgram | None = None
        """What `edit` compiles again; None where the record is data only."""

    @classmethod
    def of(cls, explore: Callable[[], Exploration]) -> Record:
        """The record of an exploration. What that raises has in its attribute `explored` the record so far, if any."""
        try:
            found = explore()
        except BaseException as error:
            so_far = vars(error).get(EXPLORED)
            if isinstance(so_far, Exploration):
                vars(error)[EXPLORED] = cls(so_far.data, bisect=so_far.bisect)
            raise
        return cls(found.data, bisect=found.bisect)

    @property
    def stages(self) -> Listing[data.StageData]:
        """Every stage of every compile, in the order in which they ran."""
        found = [(compile, stage) for compile in self.data.compiles for stage in compile.stages]
        rows = [(s.id, s.name, of.half_title(s.half) if s.half else "", duration(s.seconds)) for of, s in found]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
        return Listing([stage for _, stage in found], ("  ".join(row).rstrip() for row in padded))

    @property
    def functions(self) -> Listing[data.FunctionCostData]:
        """Functions of the program by the time that their capture took, longest first; and layers that are captured
        many times in the same way: compiling such a layer instead of the model saves time."""
        found = [each for compile in self.data.compiles for each in compile.functions]
        return Listing(found, (line for compile in self.data.compiles for line in compile_time.lines(compile)))

    @property
    def graphs(self) -> Listing[data.StageData]:
        """The stages that made or changed a graph; their `graph` has the nodes, `text()` the code."""
        found = [stage for stage in self.stages if stage.graph is not None]
        return Listing(found, (f"{s.id} {s.name}\n{s.text()}\n" for s in found))

    @property
    def guards(self) -> Listing[data.GuardData]:
        """The guards of the compiled code, those on the program's own values first; then, if calls were timed, the time
        that a call takes to check them, by source (`CompileData.guard_costs`)."""
        found = [guard for compile in self.data.compiles for guard in compile.guards]
        costs = answers.guard_costs(self.data.compiles)
        return Listing(found, (*text.guard_lines(found, file_names(self.data)), *costs))

    @property
    def caches(self) -> Listing[data.CacheKeyData]:
        """Cache lookups: hit, miss or bypassed, and for a miss the parts of the key that differ from the most similar
        earlier key; and which kernels were already built. Stock's caches are used only in watched programs
        (`explorer.watch`): an exploration bypasses them."""
        found = (key for compile in self.data.compiles for key in compile.cache_keys)
        return Listing(found, caches.lines(self.data.compiles))

    @property
    def breaks(self) -> Listing[data.BreakData]:
        """The graph breaks, one for each place in the program, with how many compiles end there."""
        found = [place[0][1] for place in diagnosis.break_places(self.data.compiles)]
        return Listing(found, text.breaks(self.data))

    @property
    def steps(self) -> Listing[Steps]:
        """The steps of capture, one entry per compile that has any. `find` takes a query, such as `guard:` or
        `line:12 depth>1`, `move` steps forwards or backwards, and `text` prints a step."""
        found = of_record(self.data)
        return Listing(found, (each.summary() for each in found))

    @property
    def values(self) -> Listing[Values]:
        """What each kernel wrote in one call, beside what eager computes, one entry per half: recorded with
        `values=True`, or if results differ. `find("nan:")` and `find("differs:")`; `move`, `text` as for steps."""
        found = [Values(compile, half) for compile in self.data.compiles for half in compile.halves if half.written]
        return Listing(found, (each.whole() for each in found))

    @property
    def rewrites(self) -> Listing[Rewrites]:
        """What the passes over the graph replaced, one rewrite at a time, and the loops that lowering made of
        each node; one entry per compile. `find("pass:casts")`; `move`, `text` as for steps."""
        found = [Rewrites(compile) for compile in self.data.compiles if compile.rewrites]
        return Listing(found, (each.whole() for each in found))

    @property
    def tries(self) -> Listing[Tries]:
        """The fusions that were tried, in order, one entry per half. `find("refused:")`; `move`, `text` as for steps: a
        text also shows the kernels at that step."""
        found = tries_of(self.data)
        return Listing(found, (each.whole() for each in found))

    @property
    def attempts(self) -> Listing[data.CompileData]:
        """The compiles with attempted fixes of graph breaks."""
        found = self.data.attempts
        return Listing(found, (text.compile_line(compile) for compile in found))

    @property
    def recompiles(self) -> Listing[data.FailedGuardData]:
        """The guards that caused recompiles: how often, with which values, and how to avoid it; then call by call."""
        names = file_names(self.data)
        failed = (diagnosis.recompile(each, names) for each in self.data.recompiles)
        return Listing(self.data.recompiles, (*failed, *history.lines(self.data, names)))

    @property
    def notes(self) -> Listing[str]:
        """How often the function was called, what was not measured, and why."""
        return Listing(self.data.notes, self.data.notes)

    @property
    def errors(self) -> Listing[data.ErrorData]:
        """Errors of compiles, with the full message and the source line."""
        names = file_names(self.data)
        return Listing(self.data.errors, (diagnosis.error(each, names) for each in self.data.errors))

    @property
    def eager(self) -> Listing[data.EagerData]:
        """What ran in Python outside graphs, and why."""
        names = file_names(self.data)
        return Listing(self.data.eager, (diagnosis.eager(each, names) for each in self.data.eager))

    @property
    def calls(self) -> Listing[data.CallsData]:
        """In a watched program: the calls of each compiled function and their times."""
        return Listing(self.data.calls, map(diagnosis.calls, self.data.calls))

    @property
    def memory(self) -> Listing[data.MemoryData]:
        """The measured peak of a call and eager's, what is alive at the planned peak of each half, and what is
        saved for the backward by line and module of the program: recomputing it would free that memory."""
        found = (half.memory for compile in self.data.compiles for half in compile.halves if half.memory is not None)
        return Listing(found, memory.lines(self.data))

    @property
    def collectives(self) -> Listing[distributed.Collective]:
        """The collectives that compiled code calls: the process group, the line, and what runs before each is waited
        for; and where DDPOptimizer split a graph, with the parameters of each part."""
        names = file_names(self.data)
        found = (each for compile in self.data.compiles for each in distributed.collectives(compile, names))
        return Listing(found, distributed.lines(self.data))

    def _events(self, kind: str) -> Iterator[data.EventData]:
        return (e for compile in self.data.compiles for e in compile.events if e.kind.startswith(kind))

    @property
    def cudagraphs(self) -> Listing[data.EventData]:
        """Whether compiled graphs are replayed as CUDA graphs; if not, why, and which parts of a schedule cannot be;
        and in a watched program each recording, with the reason if it was recorded again."""
        return Listing(self._events("Cudagraph"), inductor.cudagraphs(self.data))

    @property
    def hints(self) -> Listing[data.EventData]:
        """Hints of torch's log artifact perf_hints: operators that Inductor generates no code for, tilings that may be
        slow."""
        return Listing(self._events("PerformanceHint"), inductor.hints(self.data))

    @property
    def autotuning(self) -> Listing[data.EventData]:
        """Operations that stock autotuned: each candidate with its time, and the one that was taken."""
        return Listing(self._events("Autotuned"), inductor.autotuning(self.data))

    @property
    def operators(self) -> Listing[data.OperatorCheckData]:
        """Custom operators that the program called: whether their fake implementations, which compilers trust, agree
        with the real ones on the inputs of the call: shape, dtype, device, strides, shared memory, what is written."""
        return Listing(self.data.operators, answers.operator_checks(self.data.operators))

    @property
    def schedule(self) -> Listing[data.ScheduleData]:
        """The fused kernels and the verdict on each pair tried, one entry per half."""
        halves = [(half, compile) for compile in self.data.compiles for half in compile.halves if half.schedule]
        shown = (_schedule_text(half, compile) for half, compile in halves)
        return Listing((half.schedule for half, _ in halves if half.schedule), shown)

    @property
    def kernels(self) -> Listing[data.KernelData]:
        found = [kernel for compile in self.data.compiles for half in compile.halves for kernel in half.kernels]
        return Listing(found, (f"{k.id} {k.function}\n{text.loops(k)}{k.source}\n" for k in found))

    @property
    def machine(self) -> Listing[data.KernelData]:
        """What the C++ or Triton compiler reports for each kernel: which loops were vectorized, and why others were
        not; for a GPU the registers, spills, shared memory and occupancy."""
        return Listing(self.kernels, text.reports(self.data))

    def assembly(self, kernel: str = "", compile: str = "", *, syntax: str = "att", explain: bool = False) -> str:
        """The assembly of a kernel for a CPU, by default the first, in AT&T's syntax ("att") or Intel's ("intel"). With
        `explain` each line says what its instruction does. Raises ValueError where the record has none."""
        if syntax not in ("att", "intel"):
            raise ValueError(f"syntax is {syntax!r}; expected 'att' or 'intel'")
        found = self._kernel(kernel, compile)
        if "asm" not in found.lowered:
            raise ValueError(f"the record has no assembly of {found.id}; it has {', '.join(found.lowered) or 'none'}")
        return "\n".join(text.assembly(found, self.data.mnemonics, syntax=syntax, explain=explain))

    def throughput(self, kernel: str = "", compile: str = "") -> str:
        """The cycles that one iteration of each innermost loop of a kernel takes, predicted by llvm-mca; a line that
        says so if that is not installed. Raises ValueError for a kernel that is not in the record."""
        throughput = import_module("explorer.show.throughput")  # it imports torch
        return "\n".join(throughput.lines(self._kernel(kernel, compile)))

    def _kernel(self, id: str, compile: str) -> data.KernelData:
        chosen = [each for each in self.data.compiles if not compile or each.id == compile]
        kernels = [kernel for each in chosen for half in each.halves for kernel in half.kernels]
        found = next((each for each in kernels if id in ("", each.id)), None)
        if found is None:
            known = ", ".join(kernel.id for kernel in kernels[:20]) or "none"
            raise ValueError(f"the record has no kernel {id!r}; it has {known}")
        return found

    @property
    def timing(self) -> data.TimingData | None:
        """The time of a call, eager and compiled, and how far the results differ; None if neither is known."""
        timing = self.data.timing
        return None if timing is None else PrintedTiming(**msgspec.structs.asdict(timing))

    @property
    def launches(self) -> Listing[data.LaunchData]:
        """One call of each engine on the CPU: when each kernel and library call began and how long it took. Printed, it
        also lists the gaps between them."""
        contestants = self.data.timing.contestants if self.data.timing is not None else ()
        found = (launch for each in contestants if each.call is not None for launch in each.call.launches)
        return Listing(found, trace.gaps(self.data))

    @property
    def coverage(self) -> data.CoverageData:
        """How many ATen calls run in generated kernels, in library calls, as views, or eagerly."""
        return PrintedCoverage(**msgspec.structs.asdict(self.data.coverage))

    def text(self) -> str:
        """Every stage in full."""
        return text.full(self.data)

    def bisect_accuracy(self, engine: str = "") -> data.DivergenceData | None:
        """Compile and run the call once more, and return the first node whose value differs from eager's beyond
        tolerance, with the stage or kernel at fault and the source line; None if no node differs. If stock's results
        differ and no node is at fault (accumulated rounding, say), the result names no node, and `detail` says why.

        `engine` is "explorer" or "stock"; by default the record's first engine whose results differ.

        Raises RuntimeError for a record loaded from a file, since the function is not in it. Raises ValueError for an
        engine that did not compile."""
        if not self._bisect:
            raise RuntimeError(f"the record of {self.data.title} {DATA_ONLY}")
        if engine and engine not in self._bisect:
            raise ValueError(f"{engine!r} compiled nothing in it; expected {' or '.join(map(repr, self._bisect))}")
        asked = [self._bisect[engine]] if engine else list(self._bisect.values())
        return next((found for each in asked if (found := each()) is not None), None)

    def edit(
        self,
        source: str = "",
        *,
        function: str = "",
        forbid: Sequence[Sequence[str]] = (),
        without: Sequence[str] = (),
        run: bool = False,
        **options: Any,
    ) -> Record:
        """The record of the same call, compiled with changes. The program runs only with `run`. Each edit starts from
        the program as it was explored; `record.diff` compares the two.

        `source`: the changed text of one function that was compiled, with the same parameters, default values and
        decorators. `function`: its qualified name if several have the same name ("Block.forward"). `forbid`: pairs of
        operations that must not be fused, such as ("buf1", "buf2"). `without`: clean-up passes that are left out
        ("casts"). `options`: `dynamic`, `fuse`, `target` and other fields of `explorer.Config`. `run`: also run it,
        compare it with eager and time it.

        Raises explorer.EditRefused (a ValueError) with a line that says why: the source is not Python, the program
        would raise, an option does not exist. Raises RuntimeError for a record that was loaded from a file."""
        if self.explored is None:
            raise RuntimeError(f"the record of {self.data.title} {DATA_ONLY}")
        explored = self.explored
        changed = explored.changes(source, function)
        made = Record.of(lambda: explored.edit(changed, forbid=forbid, without=without, run=run, **options))
        made.explored = explored
        return made

    def link(self, pane: str, compile: str = "", stage: str = "", element: str = "") -> str:
        """The fragment of a link to a place in the record: append it to the address of a page written by `to_html`, or
        of JupyterLab with the record's file or notebook. `element` is an id of the compile (a guard's, a kernel's,
        "f0@12"), "FILE:LINE", or, in a pane that can be stepped through, a step such as "step31" ("HALF.step31" if the
        pane shows one half of the compile).

        Raises ValueError for a compile or stage that the record lacks."""
        compiles = {each.id: each for each in self.data.compiles}
        if compile and compile not in compiles:
            raise ValueError(f"the record has no compile {compile!r}; it has {', '.join(compiles) or 'none'}")
        if stage and stage not in (known := [each.id for each in compiles[compile].stages] if compile else []):
            raise ValueError(f"{compile or 'no compile'} has no stage {stage!r}; it has {', '.join(known) or 'none'}")
        parts = (pane, compile, stage, element, self.data.created)
        return "#" + "/".join(urllib.parse.quote(part, safe="") for part in parts)

    def repro(self, what: str = "", compile: str = "") -> str:
        """A Python file that runs `what` with torch alone: a kernel, by its id ("k0"), or the graph of a stage
        ("f0/2"); by default the first captured graph. `compile` selects the compile if several have that id. Making the
        file runs nothing of the record; its texts are checked and quoted, since a record may be untrusted.

        Raises ValueError for an id that the record lacks, and explorer.records.repro.program.CannotReproduce (a
        ValueError) with the part that cannot be written."""
        text: str = import_module("explorer.records.repro").of(self.data, what, compile)  # it imports torch
        return text

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the record as JSON, compressed where the name ends in .gz. The file is written completely or not
        at all, also if the disk is full. Raises ValueError for the name of a page, OSError naming the path."""
        return write_json(Path(path), self.data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """Read a record. Runs nothing. Raises RecordError naming the file where it is not a record of this version,
        OSError where it cannot be read."""
        target = Path(path)
        return cls(decode(read_json(target), str(target)))

    def trace(self, path: str | os.PathLike[str]) -> Path:
        """Write a trace that Perfetto and Chrome's trace viewer open: the compile stage by stage, as measured, and one
        call of each engine with its kernels and library calls in order, each with its lines of the
        program. On a CPU the call is shown as it ran, with gaps; on a GPU the kernels are shown end to end, by their
        median times. Raises OSError naming the path."""
        target = Path(path)
        write_whole(target, trace.chrome_trace(self.data).encode())
        return target

    def diff(self, other: Record) -> Difference:
        """The differences of each stage, from this record to `other`."""
        return Difference.between(self.data, other.data)

    def __repr__(self) -> str:
        return visible(text.summary(self.data))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """The record as JSON for a viewer, a page without scripts, and text: together as small as `MOST_ON_DISK` says,
        so the record is cut where it is larger."""
        page = writable(html.fragment(self.data, MOST_HTML))
        texts = {"text/html": page, "text/plain": _first_lines(repr(self), "print(record)")}
        head = on_disk(json.dumps(_head(self.data), indent=INDENTED))
        room = MOST_ON_DISK - AROUND - head - sum(map(on_disk, texts.values()))
        bundle = {data.MIME: packed(within_size_limit(self.data, room, packed=True)), **texts}
        return bundle, {data.MIME: {"live": self.live}} if self.live else {}


MOST_HTML, MOST_PLAIN, AROUND = 7000, 3000, 1200
"""Bytes in a notebook's file of a record's page without scripts and of its text, about, and of what holds them."""


def _first_lines(shown: str, whole: str) -> str:
    """The first lines of a text, as many as an output is to hold; `whole` is what shows all of it."""
    lines = shown.splitlines()
    kept = lines_on_disk(lines, MOST_PLAIN)
    if (left := len(lines) - kept) > 0:
        lines[kept:] = [f"... and {count(left, 'more line')}, which {whole} shows"]
    return "\n".join(lines)


def compared_bundle(mime: str, shown: Callable[[int], data.Data], whole: str, text: str, *pages: str) -> Bundle:
    """An output of several records or methods that are compared, as small as `MOST_ON_DISK` says: `shown` gives what
    the viewer shows in so many bytes, compressed. Of the `pages` without scripts, the first that leaves room for it."""
    texts = {"text/plain": _first_lines(text, whole)}
    if page := next((each for each in pages if on_disk(each) <= MOST_ON_DISK // 2), ""):
        texts["text/html"] = writable(page)
    room = MOST_ON_DISK - AROUND - sum(map(on_disk, texts.values()))
    return {mime: {"packed": compressed(shown(room))}, **texts}, {}


def packed(shown: data.RecordData) -> dict[str, object]:
    """A record as an output holds it: what heads it, and all of it as one compressed string. A notebook's file gives
    each item of JSON a line of its own, with more spaces than text."""
    return {**_head(shown), "packed": compressed(shown)}


def _head(shown: data.RecordData) -> dict[str, object]:
    timing = shown.timing
    if timing is not None:
        timing = data.TimingData(
            tuple(
                data.SamplesData(shortened(each.name), each.median, each.spread, ()) for each in timing.contestants[:10]
            )
        )
    head = {
        "title": shortened(shown.title, 500),
        "created": shortened(shown.created),
        "engine": shortened(shown.engine),
        "error": shortened(shown.error, 500),
        "compiles": [{"started": each.started} for each in shown.compiles[:1]],
        "timing": timing,
    }
    found: dict[str, object] = data.plain(head)
    return found


def compressed(record: data.Data) -> str:
    """All of a record, or of several, as one text: its JSON, compressed by gzip, in base64."""
    return base64.b64encode(gzip.compress(data.encoded(record), mtime=0)).decode()


def unpacked(output: Mapping[str, object]) -> data.RecordData:
    """The record that an output holds. Raises RecordError."""
    try:
        encoded = base64.b64decode(str(output["packed"]), validate=True)
    except (KeyError, ValueError) as error:
        raise RecordError(f"the output holds no record: {error}; run its cell again") from None
    return decode(_unpacked(encoded, "the output"), "the output")


TOO_LARGE = f"holds more than {LARGEST // 1_000_000} MB of JSON; expected a file written by Record.save"


def read_json(file: Path) -> bytes:
    """What a file of JSON holds, which may be compressed. Raises RecordError for one that is too large or damaged,
    OSError for one that cannot be read."""
    with regular(file) as opened:
        packed = opened.read(LARGEST + 1)
    if len(packed) > LARGEST:
        raise RecordError(f"{file} {TOO_LARGE}")
    return _unpacked(packed, str(file))


def decode(packed: bytes, name: str) -> data.RecordData:
    """Record data from JSON bytes; `name` is how an error calls them. Raises RecordError."""
    if len(packed) > LARGEST:
        raise RecordError(f"{name} {TOO_LARGE}")
    try:
        version = msgspec.json.decode(packed, type=_Versioned).version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"{name} is not a record: {error}; expected a file written by Record.save") from None
    if version > data.VERSION:
        raise RecordError(
            f"{name} is a record of version {version}, but versions up to {data.VERSION} are supported; "
            "upgrade torch-explorer to open it"
        )
    if version < data.VERSION:
        raise RecordError(
            f"{name} is a record of version {version}, from before the first release, and version {data.VERSION} is "
            "supported; explore its program again to make a new record"
        )
    try:
        found = _decoder.decode(packed)
        ids = Counter(compile.id for compile in found.compiles)
        if twice := next((id for id, count in ids.items() if count > 1), None):
            raise msgspec.DecodeError(f"two of its compiles have the id {shortened(twice)!r}, expected one")
        return found
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"{name} is not a valid record of version {version}: {error}") from None


def _unpacked(packed: bytes, name: str) -> bytes:
    """The JSON of a file that may be compressed, no more than LARGEST bytes of it."""
    if packed[:2] != b"\x1f\x8b":
        return packed
    stream = zlib.decompressobj(wbits=31)
    try:
        unpacked = stream.decompress(packed, LARGEST + 1)
    except zlib.error as error:
        raise RecordError(f"{name} is damaged: {error}; save the record again") from None
    if len(unpacked) > LARGEST:
        raise RecordError(f"{name} {TOO_LARGE}")
    if not stream.eof:
        raise RecordError(f"{name} is damaged: it ends in the middle; save the record again")
    return unpacked


def shortened(text: str, most: int = 80) -> str:
    """The beginning of a text that others wrote."""
    return text if len(text) <= most else f"{text[:most]}..."


class _Versioned(msgspec.Struct):
    version: data.Whole
    compiles: msgspec.Raw


def write_json(target: Path, shown: msgspec.Struct) -> Path:
    """Put a file in place that `read_json` reads, compressed where its name ends in .gz. Raises ValueError for the name
    of a page, OSError naming the path."""
    if target.suffix.lower() in (".html", ".htm"):
        raise ValueError(f"save writes JSON, but {target.name} is the name of a page; to write a page, call to_html")
    packed = data.encoded(shown)
    write_whole(target, gzip.compress(packed) if target.suffix == ".gz" else packed)
    return target


def write_whole(target: Path, contents: bytes | str) -> None:
    """Put a file in place whole, text as UTF-8. Raises OSError with the path of the file that was wanted."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(contents if isinstance(contents, bytes) else contents.encode(errors="backslashreplace"))
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException as error:
        if temporary:
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise type(error)(error.errno, error.strerror, str(target)) from None
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _schedule_text(half: data.HalfData, compile: data.CompileData) -> str:
    assert half.schedule is not None
    named = operation_names(compile, half)
    lines = [compile.half_title(half.name), *("  " + line for line in text.half_lines(half, named))]
    for fusion in half.schedule.fusions:
        verdict = "fused" if fusion.ok else "not fused"
        lines.append(named(f"  {verdict}: {fusion.first} with {fusion.second}: {fusion.why}"))
    lines += [f"  not fused: {item.id} with any other: {item.why}" for item in half.schedule.items if item.why]
    if half.schedule.otherwise is not None and len(half.schedule.items) > 1:
        lines.append(f"  not fused: any other two kernels: {half.schedule.otherwise}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Difference:
    """Two records compared: for each stage of either, the unified diff of its texts."""

    records: data.DiffData
    stages: tuple[tuple[str, tuple[str, ...]], ...]
    """(stage, diff lines); a stage without a difference has no lines. None of two compilers, each of which has texts of
    its own: the summary says how their graphs and kernels differ."""

    @classmethod
    def between(cls, before: data.RecordData, after: data.RecordData) -> Difference:
        old, new = _keyed(before), _keyed(after)
        keys = list(dict.fromkeys([*old, *new] if before.engine == after.engine else []))
        compared = ((" ".join(key).rstrip(), tuple(text.stage_diff(old.get(key), new.get(key)))) for key in keys)
        return cls(data.DiffData(before, after), tuple(compared))

    @property
    def changed(self) -> tuple[str, ...]:
        """The stages whose texts differ."""
        return tuple(name for name, lines in self.stages if lines)

    @property
    def summary(self) -> tuple[str, ...]:
        """What differs beside the texts: versions and machine, settings, answers, graphs, kernels, times."""
        return tuple(changes.lines(self.records.before, self.records.after))

    def text(self) -> str:
        before, after = self.records.before, self.records.after
        titles = f"{before.title} -> {after.title}"
        parts = [f"{titles}: {len(self.changed)} of {len(self.stages)} stages differ"]
        if before.engine != after.engine:
            parts = [f"{titles}: {before.engine} -> {after.engine}"]
        parts += [f"  {line}" for line in self.summary]
        for name, lines in self.stages:
            parts += [f"\n=== {name}", *lines] if lines else [f"    {name}: same"]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return visible(self.text())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """Both records as JSON for a viewer, cut where a notebook is not to hold them, and the first of what changed
        as text."""
        pair = self.records.before, self.records.after
        return compared_bundle(
            data.DIFF_MIME, lambda room: data.DiffData(*all_within(pair, room)), "print(record.diff(other))", repr(self)
        )


def _keyed(record: data.RecordData) -> dict[tuple[str, ...], data.StageData]:
    """Stages by what they are in both records: the compile, the stage, the half, and which of several."""
    found: dict[tuple[str, ...], data.StageData] = {}
    for compile in record.compiles:
        for stage in compile.stages:
            key = (compile.id, stage.name, stage.half)
            number = 2
            while key in found:
                key = (compile.id, f"{stage.name}#{number}", stage.half)
                number += 1
            found[key] = stage
    return found
