"""The parts of a page that show one compile: source, bytecode, guards, breaks, stages, code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from explorer.core.text import count
from explorer.ir.record import (
    CompileData,
    HalfData,
    LineData,
    MachineData,
    RecordData,
    StageData,
    TextData,
    WhyData,
)
from explorer.show.view import text
from explorer.show.view.code import changed, changes, code
from explorer.show.view.glance import goes_on_in
from explorer.show.view.provenance import file_names, stretches, used_lines

MACHINE_LINES = 400
"""Lines of one kernel's machine code in a page; the record holds all."""

EVENTS_SHOWN = 50
"""Events of one kind in a page; the record holds more."""

Names = Mapping[str, str]
"""As file_names gives them."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th scope=col>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def folded(heading: str, inner: str, open: bool = False) -> str:
    return f"<details{' open' if open else ''}><summary>{escape(heading)}</summary>{inner}</details>"


def anchor(*parts: str) -> str:
    """An id inside the page; prefixed, so that no record can name the page's own elements."""
    return escape("r-" + "-".join(parts).replace(" ", "_"))


def why(reason: WhyData) -> str:
    """A reason with its particulars; its title leads to the catalogue entry."""
    detail = f": {escape(reason.detail)}" if reason.detail else ""
    return f"<a class=why href='#{anchor('reason', reason.code)}'>{escape(reason.title)}</a>{detail}"


def stage_name(stage: StageData) -> str:
    return f"{stage.name} {stage.half}".strip()


def compile_section(record: RecordData, compile: CompileData) -> str:
    """All of one compile: the source at the left, what was made of it at the right."""
    ended = "Raises" if compile.raises else "Failed"
    failed = f"<pre class=failed>{ended}: {escape(compile.error)}</pre>" if compile.error else ""
    eager = f"<p class=failed>Runs eagerly: {why(compile.fallback)}</p>" if compile.fallback else ""
    machine = record.timing.machine if record.timing else None
    id = anchor(compile.id)
    parts = [
        f"<section class=compile id='{id}'>",
        f"<h2>{escape(compile.id)} <small>{escape(compile.name)}</small></h2>{failed}{eager}",
        "<div class=columns><div class=left>",
        _source(record, compile),
        "</div><div class=right>",
        _codes(compile, file_names(record)),
        _guards(compile, file_names(record)),
        _breaks(compile, record.compiles, file_names(record)),
        _symbols(compile),
        _effects(compile),
        *_stages(compile),
        _saved(compile),
        _eager_backward(compile),
        *(_half(compile, half, machine) for half in compile.halves),
        _events(compile),
        "</div></div></section>",
    ]
    return "\n".join(parts)


def _section(compile: CompileData, part: str, heading: str, *inner: str) -> str:
    return f"<section id='{anchor(compile.id, part)}'><h3>{escape(heading)}</h3>{''.join(inner)}</section>"


def _source(record: RecordData, compile: CompileData) -> str:
    if not compile.stages:
        return ""
    used = used_lines(compile)
    in_graphs = used_lines(compile, graphs_only=True)
    parts: dict[bool, list[str]] = {True: [], False: []}
    for source in record.sources:
        lines = source.text.splitlines()
        last = source.first_line + len(lines) - 1
        for start, end in stretches([n for n in used.get(source.file, ()) if source.first_line <= n <= last]):
            numbers = range(start, end + 1)
            shown = tuple(LineData(lines[n - source.first_line], f"{source.file}:{n}") for n in numbers)
            left_a_node = not in_graphs.get(source.file, set()).isdisjoint(numbers)
            parts[left_a_node].append(f"<h4>{escape(source.name or source.file)}</h4>")
            parts[left_a_node].append(code(TextData(shown, "python"), first=start))
    if not parts[True] and not parts[False]:
        return _section(compile, "source", "Source", "<p>The source of this function is not known.</p>")
    rest = "".join(parts[False])
    if parts[True] and rest:
        rest = folded("evaluated; nothing captured", rest)
    return _section(compile, "source", "Source", *parts[True], rest)


def _codes(compile: CompileData, names: Names) -> str:
    """The code objects that no stage prints."""
    printed = {line.id for stage in compile.stages if stage.body for line in stage.body.lines}
    codes = [each for each in compile.codes if not printed.issuperset(i.id for i in each.instructions)]
    if not codes:
        return ""
    parts: dict[bool, list[str]] = {True: [], False: []}
    for each in codes:
        listing = tuple(
            LineData(f"{i.id.rpartition('@')[2]:>4}  {i.op:<22} {i.target or i.arg}".rstrip(), i.id, i.origins)
            for i in each.instructions
        )
        heading = f"{each.name} ({each.role}, {_place(each.file, each.line, names)})"
        shown = folded(heading, code(TextData(listing)), open=each.role == "original")
        parts[each.role == "inlined"].append(shown)
    inlined = folded(count(len(parts[True]), "inlined function"), "".join(parts[True])) if parts[True] else ""
    return _section(compile, "codes", "Bytecode", *parts[False], inlined)


def _place(file: str, line: int, names: Names) -> str:
    """A place as short as it can be told: the file's own name and the line."""
    return f"{names.get(file) or file.rpartition('/')[2]}:{line}"


def _guards(compile: CompileData, names: Names) -> str:
    if not compile.guards:
        return ""
    rows = [
        (
            f"{escape(guard.words)} <code>{escape(guard.expression)}</code>" if guard.words
            else f"<code>{escape(guard.expression)}</code>",
            escape("torch's own" if guard.of_torch else guard.why),
            escape(_place(guard.span.file, guard.span.line, names) if guard.span else guard.cause),
        )
        for guard in sorted(compile.guards, key=lambda guard: guard.of_torch)
    ]  # fmt: skip
    shown = table(("guard", "because", "from"), rows)
    costs = "".join(f"<pre>{escape(chr(10).join(lines))}</pre>" for lines in [text.guard_costs([compile])] if lines)
    listed = folded(count(len(rows), "guard"), shown, open=len(rows) < 20)
    return _section(compile, "guards", "Guards", listed, costs)


def _breaks(compile: CompileData, compiles: Sequence[CompileData], names: Names) -> str:
    if not compile.breaks:
        return ""
    parts = []
    for b in compile.breaks:
        place = _place(b.span.file, b.span.line, names) if b.span else b.instruction
        parts.append(f"<article><p>{why(b.why)} at <code>{escape(place)}</code></p>")
        parts.append("".join(f"<p>Hint: {escape(hint)}</p>" for hint in b.hints))
        if b.rewrite:
            parts.append("<p>Write instead (computes both sides; not run here):</p>")
            parts.append(f"<pre>{escape(chr(10).join(b.rewrite))}</pre>")
        parts.append(f"<pre>{escape(chr(10).join(b.stack))}</pre>" if b.stack else "")
        onwards = [f"{each.id} {each.name}" for each in compiles if goes_on_in(b, each)]
        said = ", ".join(onwards) or b.continuation  # which was never compiled
        parts.append(f"<p>Goes on in <code>{escape(said)}</code>.</p>" if said else "")
        parts.append("</article>")
    return _section(compile, "breaks", "Graph breaks", *parts)


def _symbols(compile: CompileData) -> str:
    if not compile.symbols:
        return ""
    head = ("size", "seen", "source", "range", "status", "because")
    cells = ((s.name, str(s.hint), s.source, s.range, s.status, s.why) for s in compile.symbols)
    return _section(compile, "symbols", "Sizes", table(head, (map(escape, row) for row in cells)))


def _effects(compile: CompileData) -> str:
    if not compile.effects:
        return ""
    rows = ((escape(e.kind), f"<code>{escape(e.expression)}</code>") for e in compile.effects)
    return _section(compile, "effects", "Side effects, replayed after the graph", table(("", ""), rows))


def _stages(compile: CompileData) -> Iterable[str]:
    """Every stage; one that changed a graph shows its changes to the graph before."""
    before: dict[str, StageData] = {}
    halves = {half.name: half for half in compile.halves}
    for stage in compile.stages:
        previous = before.get(stage.half) if stage.graph is not None else None
        yield _stage(compile, stage, previous, halves.get(stage.half))
        if stage.graph is not None and stage.body is not None:
            before[stage.half] = stage


def _stage(compile: CompileData, stage: StageData, previous: StageData | None, half: HalfData | None) -> str:
    heading = f"{stage_name(stage)}  {text.duration(stage.seconds)}"
    quiet = stage.depth > 0
    if stage.error:
        inner = f"<p class=failed>{escape(stage.error)}</p>"
    elif stage.same_as:
        quiet = True
        inner = f"<p>Unchanged since <a href='#{anchor(stage.same_as)}'>{escape(stage.same_as)}</a>.</p>"
    elif stage.body is None:
        quiet = True
        inner = "<p>Made nothing that prints.</p>"
    elif half is not None and (rest := _besides_code(stage.body, half)) is not None:
        place = f"<a href='#{anchor(compile.id, 'code-' + half.name)}'>Code: {escape(half.name)}</a>"
        inner = f"<p>Kernels and wrapper: see {place}.</p>" + (
            folded(f"code before them ({count(len(rest.lines), 'line')})", code(rest)) if rest.lines else ""
        )
    elif previous is not None and previous.body is not None and (found := changes(previous.body, stage.body)):
        heading += f"  (changes to {stage_name(previous)})"
        inner = changed(previous.body, stage.body, found)
    else:
        inner = code(stage.body)
    return f"<section class=stage id='{anchor(stage.id)}'>{folded(heading, inner, open=not quiet)}</section>"


def _besides_code(body: TextData, half: HalfData) -> TextData | None:
    """What a text holds besides the kernels and the wrapper of its half; None where it does not hold them."""
    texts = [kernel.source for kernel in half.kernels] + ([half.wrapper] if half.wrapper else [])
    generated = {line.id for text in texts for line in text.lines if line.id}
    if not generated or not generated.issubset(line.id for line in body.lines):
        return None
    rest = [line for line in body.lines if line.id not in generated]
    return TextData(tuple(line for line in rest if line.text.strip()), body.language)


def _saved(compile: CompileData) -> str:
    if not compile.saved:
        return ""
    rows = [(escape(s.id), escape(s.fate), text.amount(s.bytes, "B"), why(s.why)) for s in compile.saved]
    shown = table(("value", "", "size", "because"), rows)
    heading = count(len(rows), "value")
    return _section(compile, "saved", "What the backward needs", folded(heading, shown, open=len(rows) < 20))


def _eager_backward(compile: CompileData) -> str:
    if not compile.eager_backward:
        return ""
    lines = tuple(
        LineData(f"{node.name:<28} -> {', '.join(id.rpartition('.')[2] for id in node.inputs)}", node.id, node.origins)
        for node in compile.eager_backward
    )
    shown = folded(count(len(lines), "node"), code(TextData(lines)))
    return _section(compile, "eager", "Eager's own backward, for comparison", shown)


def _half(compile: CompileData, half: HalfData, machine: MachineData | None) -> str:
    parts = []
    if not half.runs:
        parts.append(f"<p class=failed>Made for {escape(half.target)}, which is not on this machine: not run.</p>")
    if half.memory:
        before, after = text.amount(half.memory.peak_before, "B"), text.amount(half.memory.peak_after, "B")
        parts.append(f"<p>Memory peak {before} before planning, {after} after.</p>")
    if half.schedule:
        parts.append(folded(count(len(half.schedule.items), "step"), _steps(half, machine), open=True))
    printed: set[str] = set()
    for kernel in half.kernels:
        heading = f"{kernel.id} {kernel.function}"
        if kernel.function in printed:
            parts.append(f"<p>{escape(heading)}: the same code as above</p>")
            continue
        printed.add(kernel.function)
        parts.append(folded(heading, code(kernel.source), open=True))
        for kind, lowered in kernel.lowered.items():
            shown = code(lowered, most=MACHINE_LINES)
            parts.append(folded(f"{kernel.function} {kind} ({count(len(lowered.lines), 'line')})", shown))
    if half.wrapper:
        parts.append(folded("wrapper", code(half.wrapper)))
    if half.schedule and half.schedule.fusions:
        rows = [("yes" if f.ok else "no", escape(f.first), escape(f.second), why(f.why)) for f in half.schedule.fusions]
        fused = sum(f.ok for f in half.schedule.fusions)
        heading = f"{count(len(rows), 'fusion')} tried, {fused} made"
        parts.append(folded(heading, table(("fused", "operation", "with", "because"), rows)))
    if half.buffers:
        parts.append(folded(count(len(half.buffers), "buffer"), _buffers(half)))
    for build in half.builds:
        cached = ", from the cache" if build.cached else ""
        heading = f"{build.tool} {build.version}: {text.duration(build.seconds)}{cached}"
        parts.append(folded(heading, f"<pre>{escape(' '.join(build.command))}</pre>"))
    return _section(compile, f"code-{half.name}", f"Code: {half.name}", *parts)


def _steps(half: HalfData, machine: MachineData | None) -> str:
    """The schedule as a table: what runs, what it moves, and how near to the machine's peak."""
    assert half.schedule is not None
    kernels = {kernel.id: kernel for kernel in half.kernels}
    operations = {operation.id: operation for operation in half.operations}
    rows = []
    for item in half.schedule.items:
        kernel = kernels.get(item.id)
        called = operations.get(item.id)
        what = called.target if item.kind == "extern" and called else ", ".join(item.operations)
        seconds = kernel.seconds if kernel else half.extern_seconds.get(item.id)
        flops = kernel.flops if kernel else half.extern_flops.get(item.id, 0)
        axes = " x ".join(part for part in (item.outer, item.inner) if part)
        rows.append(
            (
                f"<code>{escape(item.id)}</code>",
                escape(what),
                escape(axes),
                text.amount(kernel.bytes, "B") if kernel else "",
                text.amount(flops, "FLOP") if flops else "",
                text.duration(seconds) if seconds is not None else "",
                _of_peak(kernel.bytes if kernel else 0, flops, seconds, machine),
            )
        )
    return table(("", "runs", "over", "moves", "computes", "takes", "of peak"), rows)


def _of_peak(bytes: int, flops: int, seconds: float | None, machine: MachineData | None) -> str:
    """The roofline: the share of the machine's bandwidth or arithmetic, whichever bounds a kernel or a library call."""
    if machine is None or not seconds or machine.bytes_per_second <= 0 or machine.flops_per_second <= 0:
        return ""
    moving, computing = bytes / machine.bytes_per_second, flops / machine.flops_per_second
    bound = "bandwidth" if moving >= computing else "arithmetic"
    return f"{100 * max(moving, computing) / seconds:.0f} % of {bound}" if max(moving, computing) else ""


def _buffers(half: HalfData) -> str:
    rows = [
        (
            f"<code>{escape(b.name)}</code>",
            escape(b.type),
            escape(f"in the memory of {b.of}" if b.of else b.where or b.kind),
            text.amount(b.bytes, "B") if b.bytes else "",
            why(b.why) if b.why else "",
            why(b.where_why) if b.where_why else "",
        )
        for b in half.buffers
    ]
    return table(("buffer", "type", "where", "size", "in memory because", "there because"), rows)


def _events(compile: CompileData) -> str:
    """Attempts that left no other trace, by kind."""
    if not compile.events:
        return ""
    parts = []
    for kind, times in Counter(event.kind for event in compile.events).items():
        of_kind = [event for event in compile.events if event.kind == kind]
        names = list(dict.fromkeys(name for event in of_kind for name in event.fields))
        rows = ([escape(event.fields.get(name, "")) for name in names] for event in of_kind[:EVENTS_SHOWN])
        left = compile.left_out.get(kind, 0) + max(0, times - EVENTS_SHOWN)
        heading = f"{times} {kind}" + (f", {left} more omitted" if left else "")
        parts.append(folded(heading, table(map(escape, names), rows)))
    return _section(compile, "events", "What was tried", *parts)
