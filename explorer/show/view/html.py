"""The record as HTML without scripts: a whole page, and a small fragment for notebooks. Everything shown is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from explorer.ir.record import AccuracyData, CompileData, PartData, RecordData, TimingData
from explorer.show.view import diagnosis, text
from explorer.show.view.code import code
from explorer.show.view.provenance import file_names
from explorer.show.view.sections import anchor, compile_section, folded, stage_name, table
from explorer.show.view.summary import COLUMNS, IndexRow, cells

FRAGMENT_LINES = 400
"""Lines of generated code that a notebook output without scripts shows at most."""


def page(record: RecordData, note: str = "") -> str:
    """All of the record as a complete document; `note` stands below its title."""
    said = f"<p>{escape(note)}</p>" if note else ""
    body = [
        f"<header><h1>{escape(record.title)}</h1>{_chips(record)}{_glance(record)}{said}</header>",
        f"<nav aria-label=stages>{_navigation(record)}</nav>",
        "<main>",
        _overview(record),
        *(compile_section(record, compile) for compile in record.compiles),
        _attempts(record),
        _reasons(record),
        _environment(record),
        "</main>",
    ]
    return document(record.title, "\n".join(body))


def index(title: str, entries: Sequence[IndexRow], note: str = "") -> str:
    """A page that compares several records side by side and leads to the page of each."""
    rows = []
    for entry in entries:
        first, *rest = map(escape, cells(entry))
        rows.append((f"<a href='{escape(entry.page)}'>{first}</a>", *rest))
    said = f"<p>{escape(note)}</p>" if note else ""
    environment = _chips(entries[0].record) if entries else ""
    body = f"<header><h1>{escape(title)}</h1>{environment}</header><main class=index>{said}"
    return document(title, f"{body}{table(map(escape, COLUMNS), rows)}</main>")


def fragment(record: RecordData) -> str:
    """A script-free summary for a notebook output: what came of it and the generated code, capped."""
    parts = [f"<pre>{escape(text.summary(record))}</pre>"]
    left = FRAGMENT_LINES
    for compile in record.compiles:
        for half in compile.halves:
            for kernel in half.kernels:
                shown = str(kernel.source).splitlines()[: max(left, 0)]
                left -= len(shown)
                if shown:
                    heading = f"{compile.id} {half.name} {kernel.id}"
                    parts.append(folded(heading, f"<pre>{escape(chr(10).join(shown))}</pre>"))
    if left <= 0:
        parts.append(f"<p>Code beyond {FRAGMENT_LINES} lines is left out here; the record holds all of it.</p>")
    return "\n".join(parts)


def document(title: str, body: str) -> str:
    """A page. No script runs in it, whatever else went wrong: its policy allows none."""
    style = files("explorer.show.view").joinpath("page.css").read_text("utf-8")
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'"
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f'<meta http-equiv=Content-Security-Policy content="{policy}">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>{body}</body></html>"
    )


def _glance(record: RecordData) -> str:
    """The answer at a glance: a list for each engine, each part a link to what tells more of it."""
    several = len({part.engine for part in record.glance if part.engine}) > 1
    rows = []
    for engine in dict.fromkeys(part.engine for part in record.glance):
        shown = "".join(
            f"<li class='{escape(part.state)}'><a href='#{_place(record, part)}'>{escape(part.said)}</a></li>"
            for part in record.glance
            if part.engine == engine
        )
        rows.append(f"<ul class=glance>{f'<li><b>{escape(engine)}</b></li>' if several and engine else ''}{shown}</ul>")
    return "".join(rows)


def _place(record: RecordData, part: PartData) -> str:
    """Where the page tells more of a part: the list or the code of its compile, or the overview."""
    compile = next((each for each in record.compiles if each.id == part.compile or not part.compile), None)
    there = {"guards": compile and compile.guards, "breaks": compile and compile.breaks}
    return anchor(compile.id, part.pane) if compile is not None and there.get(part.pane) else "r-overview"


def _chips(record: RecordData) -> str:
    named = (f"{name} {value}" for name, value in record.environment.items())
    shown = [chip for chip in (record.engine, record.target, record.created, *named) if chip]
    return "<p class=chips>" + "".join(f"<span>{escape(chip)}</span>" for chip in shown) + "</p>"


def _navigation(record: RecordData) -> str:
    parts = ["<a href='#r-overview'>Overview</a>"]
    for compile in record.compiles:
        lists = (("guards", compile.guards), ("breaks", compile.breaks), ("symbols", compile.symbols))
        parts.append(
            f"<details open><summary><a href='#{anchor(compile.id)}'>{escape(compile.id)}</a> "
            f"<small>{escape(compile.name)}</small></summary>"
        )
        if compile.stages:
            parts.append(_jump(compile, "source", "Source"))
        parts += [_jump(compile, part, part.capitalize(), str(len(found))) for part, found in lists if found]
        for stage in compile.stages:
            style = "failed" if stage.error else "quiet" if stage.same_as or stage.depth else ""
            parts.append(
                f"<a href='#{anchor(stage.id)}' class='{style}'>{escape(stage_name(stage))}"
                f"<small>{text.duration(stage.seconds)}</small></a>"
            )
        parts += [_jump(compile, f"code-{half.name}", f"Code: {half.name}") for half in compile.halves]
        parts.append("</details>")
    if record.attempts:
        parts.append(f"<a href='#r-attempts'>Fixes tried<small>{len(record.attempts)}</small></a>")
    parts.append("<a href='#r-environment'>Configuration</a>")
    return "\n".join(parts)


def _jump(compile: CompileData, part: str, label: str, count: str = "") -> str:
    counted = f"<small>{count}</small>" if count else ""
    return f"<a href='#{anchor(compile.id, part)}'>{escape(label)}{counted}</a>"


def _overview(record: RecordData) -> str:
    parts = ["<section id=r-overview><h2>Overview</h2>"]
    if record.error:
        parts.append(f"<p class=failed>{escape(text.first_line(record.error))}</p>")
    if record.notes:
        parts.append(f"<h3>Notes</h3><ul>{''.join(f'<li>{escape(note)}</li>' for note in record.notes)}</ul>")
    if record.timing:
        parts.append(_timing(record.timing))
        both = record.timing.accuracy, record.timing.stock_accuracy
        parts += [_accuracy(each, record) for each in both if each is not None]
    parts.append(_compiles(record))
    parts.append(_diagnosis(record))
    parts.append(_coverage(record))
    parts.append("</section>")
    return "".join(parts)


def _timing(timing: TimingData) -> str:
    slowest = max((c.median for c in timing.contestants), default=0.0) or 1.0
    rows = [
        (
            escape(c.name),
            text.duration(c.median),
            text.quartiles(c).strip(" ()").removeprefix("quartiles "),
            escape(c.speed.said) if c.speed is not None else "",
            _bar(c.median / slowest),
            "" if c.compile_seconds is None else text.duration(c.compile_seconds),
            "" if c.peak is None else text.amount(c.peak, "B"),
            escape(c.note),
        )
        for c in timing.contestants
    ]
    head = ("", "a call", "quartiles", "speed", "", "compile", "peak memory", "")
    outside = "" if timing.overhead is None else text.duration(timing.overhead)
    overhead = f"Of a call {outside} is outside kernels and library calls. " if outside else ""
    machine = timing.machine
    peaks = "" if machine is None else (
        f"{machine.name} reaches {text.amount(machine.bytes_per_second, 'B/s')} and "
        f"{text.amount(machine.flops_per_second, 'FLOP/s')}, measured. "
    )  # fmt: skip
    return f"<h3>Time</h3>{table(head, rows)}<p>{escape(overhead + peaks + timing.method)}</p>"


def _bar(share: float) -> str:
    width = max(1.0, min(100.0, 100 * share)) if share == share else 0
    return (
        "<svg class=bar viewBox='0 0 100 6' preserveAspectRatio=none aria-hidden=true>"
        f"<rect width='{width:.1f}' height=6 /></svg>"
    )


def _accuracy(accuracy: AccuracyData, record: RecordData) -> str:
    whose = f" of {accuracy.engine}" if record.timing and record.timing.stock_accuracy else ""
    errors = (
        f"The largest error against eager is {accuracy.largest_absolute:.3g} ({accuracy.largest_relative:.3g} relative)"
        + (f" in {accuracy.where}" if accuracy.where else "")
        + f", over {accuracy.compared} tensors."
    )
    parts = "" if not accuracy.first_mismatch else (
        f"<p class=failed>The first tensor beyond tolerance is {escape(accuracy.first_mismatch)}.</p>"
    )  # fmt: skip
    if accuracy.own_error is not None and accuracy.eager_error is not None:
        errors += f" Against a float64 run it is {accuracy.own_error:.3g}, and eager's is {accuracy.eager_error:.3g}."
    if (found := accuracy.divergence) is not None:
        place = f" ({found.span.file}:{found.span.line})" if found.span else ""
        at = f"First differs from eager in {found.compile} at {found.node}{place}: " if found.node else ""
        parts += f"<p>{escape(at + found.detail)}</p>"
    return f"<h3>Correctness{whose}</h3><p>{escape(errors)}</p>{parts}"


def _compiles(record: RecordData) -> str:
    if not record.compiles:
        return "<p>Nothing was compiled.</p>"
    rows = [
        (
            f"<a href='#{anchor(compile.id)}'>{escape(compile.id)}</a>",
            escape(compile.name),
            text.duration(compile.seconds),
            str(len(compile.guards)),
            str(len(compile.breaks)),
            str(sum(len(half.kernels) for half in compile.halves)),
            "raises" if compile.raises else "eager" if compile.fallback else "failed" if compile.error else "",
        )
        for compile in record.compiles
    ]
    return "<h3>Compiles</h3>" + table(("", "of", "in", "guards", "breaks", "kernels", ""), rows)


def _diagnosis(record: RecordData) -> str:
    """Calls, recompiles and errors, where there are any."""
    names = file_names(record)
    listed = (
        ("Calls", [diagnosis.calls(each) for each in record.calls]),
        ("Recompiles", [diagnosis.recompile(each, names) for each in record.recompiles]),
        ("Errors", [diagnosis.error(each, names) for each in record.errors]),
    )
    return "".join(
        f"<h3>{title}</h3><ul>{''.join(f'<li><pre>{escape(line)}</pre></li>' for line in lines)}</ul>"
        for title, lines in listed
        if lines
    )


def _coverage(record: RecordData) -> str:
    cover, names = record.coverage, file_names(record)
    rows = [
        ("generated kernels", str(cover.kernel)),
        ("library calls", str(cover.extern)),
        ("views (free)", str(cover.view)),
        ("eager fallback", str(cover.fallback)),
    ]
    python = [diagnosis.eager(each, names) for each in record.eager] or cover.python
    outside = "".join(f"<li>{escape(name)}</li>" for name in python)
    ran = f"<p>Python that ran outside graphs:</p><ul>{outside}</ul>" if outside else ""
    return f"<h3>Where the ATen calls run</h3>{table(('', 'calls'), rows)}{ran}"


def _attempts(record: RecordData) -> str:
    """Compiles of the program with a fix of a graph break, apart from those of the program itself."""
    if not record.attempts:
        return ""
    names = file_names(record)
    parts = []
    for compile in record.attempts:
        left = [f"{each.why.title}{diagnosis.place(each.span, names)}" for each in compile.breaks]
        said = compile.error or "".join(f"The graph breaks with it: {each}. " for each in left)
        parts.append(f"<h3>{escape(compile.id)} <small>{escape(compile.name)}</small></h3>")
        parts.append(f"<p>{escape(said or 'The graph does not break with it.')}</p>")
        parts += [folded(stage_name(stage), code(stage.body)) for stage in compile.stages if stage.body is not None]
    return f"<section id=r-attempts><h2>Fixes that were tried</h2>{''.join(parts)}</section>"


def _reasons(record: RecordData) -> str:
    if not record.reasons:
        return ""
    parts = [
        f"<dt id='{anchor('reason', reason.code)}'>{escape(reason.title)} <small>{escape(reason.code)}</small></dt>"
        f"<dd>{escape(reason.meaning)} {escape(reason.hint)}</dd>"
        for reason in record.reasons
    ]
    return f"<section id=r-reasons><h2>Reasons</h2><dl>{''.join(parts)}</dl></section>"


def _environment(record: RecordData) -> str:
    rows = [(escape(key), escape(value)) for key, value in {**record.environment, **record.config}.items()]
    return f"<section id=r-environment><h2>Configuration</h2>{table(('', ''), rows)}</section>"
