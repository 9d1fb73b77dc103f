"""The record as one self-contained HTML page, and as a small fragment for notebooks. Everything shown is escaped.

The page reads without scripts; with them, pointing at a line lights up its whole chain and a click pins it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files

import msgspec
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from explorer.ir.record import (
    CompileData,
    CoverageData,
    HalfData,
    LineData,
    RecordData,
    StageData,
    TextData,
    TimingData,
)
from explorer.view import text
from explorer.view.provenance import provenance

HIGHLIGHT_LIMIT = 4000
"""Lines beyond which a text is not coloured: the reader waits for it otherwise."""

FRAGMENT_LINES = 400
"""Lines of generated code that a notebook output without scripts shows at most."""


def page(record: RecordData) -> str:
    """A complete document. Its only scripts are its own; the record's strings are text in it."""
    body = [
        f"<header><h1>{escape(record.title)}</h1>{_chips(record)}</header>",
        f"<nav aria-label='stages'>{_navigation(record)}</nav>",
        "<main>",
        _overview(record),
        *(_compile(record, compile) for compile in record.compiles),
        _environment(record),
        "</main>",
    ]
    links = _json({compile.id: _edges(compile) for compile in record.compiles})
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'\">"
        f"<title>{escape(record.title)}</title><style>{_asset('page.css')}</style></head><body>"
        + "\n".join(body)
        + f"<script type='application/json' id='links'>{links}</script>"
        + f"<script>{_asset('page.js')}</script></body></html>"
    )


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
                    code = escape("\n".join(shown))
                    heading = escape(f"{compile.id} {half.name} {kernel.id}")
                    parts.append(f"<details><summary>{heading}</summary><pre>{code}</pre></details>")
    if left <= 0:
        parts.append(f"<p>Code beyond {FRAGMENT_LINES} lines is left out here; the record holds all of it.</p>")
    return "\n".join(parts)


@cache
def _asset(name: str) -> str:
    return files("explorer.view").joinpath(name).read_text("utf-8")


def _json(value: object) -> str:
    """JSON that is safe inside a script element."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")


def _edges(compile: CompileData) -> dict[str, tuple[str, ...]]:
    return dict(provenance(compile).up)


def _chips(record: RecordData) -> str:
    shown = [record.engine, record.target, record.created, *(f"{k} {v}" for k, v in record.environment.items())]
    return "<p class='chips'>" + "".join(f"<span>{escape(chip)}</span>" for chip in shown) + "</p>"


def _navigation(record: RecordData) -> str:
    parts = ["<a href='#overview'>Overview</a>"]
    for compile in record.compiles:
        anchor = escape(compile.id)
        inner = [
            _jump(compile, "source", "Source"),
            *([_jump(compile, "codes", "Bytecode")] if compile.codes else []),
            *([_jump(compile, "guards", f"Guards ({len(compile.guards)})")] if compile.guards else []),
            *([_jump(compile, "breaks", f"Breaks ({len(compile.breaks)})")] if compile.breaks else []),
            *(
                f"<a href='#{escape(stage.id)}' class='{'failed' if stage.error else ''}'>{escape(_stage_name(stage))}"
                f"<small>{text.duration(stage.seconds)}</small></a>"
                for stage in compile.stages
            ),
            *(_jump(compile, f"code-{half.name}", f"Code: {half.name}") for half in compile.halves),
        ]
        parts.append(f"<details open><summary><a href='#{anchor}'>{anchor}</a> {escape(compile.title)}</summary>")
        parts += [*inner, "</details>"]
    parts.append("<a href='#environment'>Configuration</a>")
    return "\n".join(parts)


def _jump(compile: CompileData, part: str, label: str) -> str:
    return f"<a href='#{escape(compile.id)}-{escape(part)}'>{escape(label)}</a>"


def _stage_name(stage: StageData) -> str:
    return f"{stage.name} {stage.half}".strip()


def _overview(record: RecordData) -> str:
    parts = ["<section id='overview'><h2>Overview</h2>"]
    if record.error:
        parts.append(f"<p class='failed'>{escape(record.error)}</p>")
    parts.append(f"<pre>{escape(text.summary(record))}</pre>")
    if record.timing:
        parts.append(_timing(record.timing))
    parts.append(_coverage(record.coverage))
    parts.append("</section>")
    return "".join(parts)


def _timing(timing: TimingData) -> str:
    slowest = max((c.median for c in timing.contestants), default=0.0) or 1.0
    rows = [
        (
            escape(c.name),
            text.duration(c.median),
            f"&plusmn; {text.duration(c.spread)}",
            "" if c.compile_seconds is None else text.duration(c.compile_seconds),
            f"<div class='bar' style='width:{100 * c.median / slowest:.1f}%'></div>",
            escape(c.note),
        )
        for c in timing.contestants
    ]
    head = ("", "median call", "spread", "compile", "", "")
    method = f"<p>{escape(timing.method)}</p>" if timing.method else ""
    return f"<h3>Time</h3>{_table(head, rows)}{method}"


def _coverage(cover: CoverageData) -> str:
    rows = [
        ("generated kernels", str(cover.kernel)),
        ("library calls", str(cover.extern)),
        ("views (free)", str(cover.view)),
        ("eager fallback", str(cover.fallback)),
        *(("Python outside graphs", escape(name)) for name in cover.python),
    ]
    return f"<h3>Where the ATen calls run</h3>{_table(('', 'calls'), rows)}"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th scope='col'>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _compile(record: RecordData, compile: CompileData) -> str:
    failed = f"<p class='failed'>{escape(compile.error)}</p>" if compile.error else ""
    eager = (
        f"<p class='failed'>Runs eagerly: {escape(compile.fallback.title)} {escape(compile.fallback.detail)}</p>"
        if compile.fallback
        else ""
    )
    parts = [
        f"<section class='compile' id='{escape(compile.id)}' data-compile='{escape(compile.id)}'>",
        f"<h2>{escape(compile.id)} <small>{escape(compile.title)}</small></h2>{failed}{eager}",
        "<div class='columns'><div class='left'>",
        _source(record, compile),
        "</div><div class='right'>",
        _codes(compile),
        _guards(compile),
        _breaks(compile),
        _symbols(compile),
        *(_stage(stage) for stage in compile.stages),
        _saved(compile),
        *(_half(compile, half) for half in compile.halves),
        "</div></div></section>",
    ]
    return "\n".join(parts)


def _source(record: RecordData, compile: CompileData) -> str:
    used = {span.file for code in compile.codes for i in code.instructions if (span := i.span)}
    used |= {node.span.file for stage in compile.stages if stage.graph for node in stage.graph.nodes if node.span}
    parts = [f"<section id='{escape(compile.id)}-source'><h3>Source</h3>"]
    for source in record.sources:
        if used and source.file not in used:
            continue
        numbered = tuple(
            LineData(line, f"{source.file}:{source.first_line + offset}")
            for offset, line in enumerate(source.text.splitlines())
        )
        parts.append(f"<h4>{escape(source.file)}</h4>")
        parts.append(_code(TextData(numbered, "python"), first=source.first_line))
    if len(parts) == 1:
        parts.append("<p>No source is known for this function.</p>")
    return "".join([*parts, "</section>"])


def _codes(compile: CompileData) -> str:
    if not compile.codes:
        return ""
    parts = [f"<section id='{escape(compile.id)}-codes'><h3>Bytecode</h3>"]
    for code in compile.codes:
        lines = tuple(
            LineData(f"{i.id.rpartition('@')[2]:>4}  {i.op:<22} {i.target or i.arg}".rstrip(), i.id)
            for i in code.instructions
        )
        heading = f"{code.name} ({code.role}, {code.file}:{code.line})"
        parts.append(_folded(heading, _code(TextData(lines)), open=code.role == "original"))
    return "".join([*parts, "</section>"])


def _guards(compile: CompileData) -> str:
    if not compile.guards:
        return ""
    rows = [
        (
            f"<code {_key(guard.id, (guard.cause,))}>{escape(guard.expression)}</code>",
            escape(f"{guard.property} {guard.relation} {guard.value}"),
            escape(guard.why),
            escape(f"{guard.span.file.rpartition('/')[2]}:{guard.span.line}" if guard.span else guard.cause),
        )
        for guard in compile.guards
    ]
    table = _table(("guard", "checks", "because", "from"), rows)
    heading = f"{len(rows)} guards"
    folded = _folded(heading, table, open=len(rows) < 40)
    return f"<section id='{escape(compile.id)}-guards'><h3>Guards</h3>{folded}</section>"


def _breaks(compile: CompileData) -> str:
    if not compile.breaks:
        return ""
    parts = [f"<section id='{escape(compile.id)}-breaks'><h3>Graph breaks</h3>"]
    for b in compile.breaks:
        place = f"{b.span.file}:{b.span.line}" if b.span else b.instruction
        parts.append(f"<article><p><b>{escape(b.why.title)}</b> {escape(b.why.detail)} at {escape(place)}</p>")
        parts.append("".join(f"<p>hint: {escape(hint)}</p>" for hint in b.hints))
        parts.append(f"<pre>{escape(chr(10).join(b.stack))}</pre>" if b.stack else "")
        parts.append(f"<p>goes on in {escape(b.continuation)}</p>" if b.continuation else "")
        parts.append("</article>")
    return "".join([*parts, "</section>"])


def _symbols(compile: CompileData) -> str:
    if not compile.symbols:
        return ""
    head = ("size", "seen", "source", "range", "status", "because")
    cells = ((s.name, str(s.hint), s.source, s.range, s.status, s.why) for s in compile.symbols)
    return f"<section><h3>Symbolic sizes</h3>{_table(head, (map(escape, row) for row in cells))}</section>"


def _stage(stage: StageData) -> str:
    heading = f"{_stage_name(stage)}  {text.duration(stage.seconds)}"
    if stage.error:
        inner = f"<p class='failed'>{escape(stage.error)}</p>"
    elif stage.same_as:
        inner = f"<p>unchanged since <a href='#{escape(stage.same_as)}'>{escape(stage.same_as)}</a></p>"
    elif stage.body is None:
        inner = "<p>made nothing that prints</p>"
    else:
        inner = _code(stage.body)
    folded = _folded(heading, inner, open=not stage.same_as and stage.depth == 0)
    return f"<section id='{escape(stage.id)}'>{folded}</section>"


def _saved(compile: CompileData) -> str:
    if not compile.saved:
        return ""
    rows = [
        (escape(s.id), escape(s.fate), text.amount(s.bytes, "B"), escape(_why(s.why)))
        for s in compile.saved
    ]
    return f"<section><h3>What the backward needs</h3>{_table(('value', '', 'size', 'because'), rows)}</section>"


def _why(reason: object) -> str:
    title, detail = getattr(reason, "title", ""), getattr(reason, "detail", "")
    return f"{title}: {detail}" if detail else title


def _half(compile: CompileData, half: HalfData) -> str:
    parts = [f"<section id='{escape(compile.id)}-code-{escape(half.name)}'><h3>Code: {escape(half.name)}</h3>"]
    if not half.runs:
        parts.append(f"<p class='failed'>Made for {escape(half.target)}, which is not here: never run.</p>")
    if half.memory:
        before, after = text.amount(half.memory.peak_before, "B"), text.amount(half.memory.peak_after, "B")
        parts.append(f"<p>Memory peak {before} before planning, {after} after.</p>")
    printed: set[str] = set()
    for kernel in half.kernels:
        spent = f", {text.duration(kernel.seconds)}" if kernel.seconds is not None else ""
        heading = f"{kernel.id} {kernel.function} ({text.amount(kernel.bytes, 'B')}{spent})"
        if kernel.function in printed:
            parts.append(f"<p>{escape(heading)}: the same code as above</p>")
            continue
        printed.add(kernel.function)
        parts.append(_folded(heading, _code(kernel.source), open=True))
        for kind, lowered in kernel.lowered.items():
            parts.append(_folded(f"{kernel.function} {kind} ({len(lowered.lines)} lines)", _code(lowered), open=False))
    if half.wrapper:
        parts.append(_folded("wrapper", _code(half.wrapper), open=False))
    if half.schedule:
        rows = [
            ("&#10003;" if f.ok else "&#10007;", escape(f.first), escape(f.second), escape(_why(f.why)))
            for f in half.schedule.fusions
        ]
        heading = f"{len(rows)} fusion verdicts"
        parts.append(_folded(heading, _table(("", "operation", "with", "because"), rows), open=False))
    for build in half.builds:
        cached = ", from the cache" if build.cached else ""
        heading = f"{build.tool} {build.version}: {text.duration(build.seconds)}{cached}"
        parts.append(_folded(heading, f"<pre>{escape(' '.join(build.command))}</pre>", open=False))
    return "".join([*parts, "</section>"])


def _environment(record: RecordData) -> str:
    rows = [(escape(key), escape(value)) for key, value in {**record.environment, **record.config}.items()]
    return f"<section id='environment'><h2>Configuration</h2>{_table(('', ''), rows)}</section>"


def _folded(heading: str, inner: str, open: bool) -> str:
    return f"<details{' open' if open else ''}><summary>{escape(heading)}</summary>{inner}</details>"


def _key(id: str, origins: tuple[str, ...]) -> str:
    return f"data-id='{escape(id)}' data-up='{escape(' '.join(origins))}'" if id or origins else ""


def _code(body: TextData, first: int | None = None) -> str:
    """Lines of code, each with its id so that the page can light up its chain."""
    coloured = _coloured(body)
    rows = []
    for offset, (line, inner) in enumerate(zip(body.lines, coloured, strict=True)):
        number = f"<i>{first + offset}</i>" if first is not None else ""
        up = "" if line.id else f" data-up='{escape(' '.join(line.origins))}'" if line.origins else ""
        rows.append(f"<span class='l' data-id='{escape(line.id)}'{up}>{number}{inner or ' '}</span>")
    return f"<pre class='code' tabindex='0'>{''.join(rows)}</pre>"


def _coloured(body: TextData) -> list[str]:
    plain = [escape(line.text) for line in body.lines]
    if body.language == "text" or len(body.lines) > HIGHLIGHT_LIMIT:
        return plain
    try:
        lexer = get_lexer_by_name(body.language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return plain
    lines = [""]
    for token, value in lexer.get_tokens("\n".join(line.text for line in body.lines)):
        style = STANDARD_TYPES.get(token, "")
        for number, piece in enumerate(value.split("\n")):
            if number:
                lines.append("")
            if piece:
                lines[-1] += f"<span class='{style}'>{escape(piece)}</span>" if style else escape(piece)
    return lines if len(lines) == len(plain) else plain
