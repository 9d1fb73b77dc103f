"""The record as one reads it in a terminal."""

from __future__ import annotations

import difflib

from explorer.ir.record import CompileData, HalfData, RecordData, StageData, TimingData
from explorer.view.source import file_names


def duration(seconds: float) -> str:
    """A duration in the unit that suits it: 12.3 us, 4.56 ms, 1.23 s."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def amount(count: float, unit: str) -> str:
    """A count with a decimal prefix: 4.19 MB, 1.2 GB."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {prefix}{unit}"
    return f"{count:.3g} {unit}"


def summary(record: RecordData) -> str:
    """A few lines: what was compiled, what came of it, how fast it is."""
    names = file_names(record)
    lines = [f"{record.title}  [{', '.join(filter(None, (record.engine, record.target)))}]"]
    if record.error:
        lines.append(f"  failed: {record.error}")
    for compile in record.compiles:
        if not compile.stages:
            continue
        lines.append("  " + compile_line(compile))
        broken = ((b.span, b.why.title) for b in compile.breaks if b.span)
        lines += [f"    break at {names.get(at.file, at.file)}:{at.line}: {why}" for at, why in broken]
        if compile.fallback:
            lines.append(f"    runs eagerly: {compile.fallback.title} {compile.fallback.detail}".rstrip())
    cover = record.coverage
    if cover.kernel + cover.extern + cover.view + cover.fallback:
        lines.append(
            f"  ATen calls: {cover.kernel} in generated kernels, {cover.extern} in library calls, "
            f"{cover.view} views, {cover.fallback} in eager fallback"
        )
    lines += [f"  outside graphs: {name}" for name in cover.python]
    if record.timing:
        lines += ["  " + line for line in timing(record.timing)]
    lines += [f"  {note}" for note in record.notes]
    return "\n".join(lines)


def compile_line(compile: CompileData) -> str:
    kernels = sum(len(half.kernels) for half in compile.halves)
    parts = [f"{len(compile.stages)} stages", f"{len(compile.guards)} guards", f"{len(compile.breaks)} breaks"]
    parts += [f"{kernels} kernels", duration(compile.seconds)]
    failed = f"  failed: {compile.error}" if compile.error else ""
    return f"{compile.id}  {compile.title}: {', '.join(parts)}{failed}"


def timing(measured: TimingData) -> list[str]:
    eager = next((c.median for c in measured.contestants if c.name == "eager"), None)
    lines = []
    for c in measured.contestants:
        ratio = f"  {eager / c.median:.2f}x eager" if eager and c.median else ""
        compiled = f"  compiled in {duration(c.compile_seconds)}" if c.compile_seconds is not None else ""
        note = f"  ({c.note})" if c.note else ""
        lines.append(f"{c.name:<9} {duration(c.median):>8} +- {duration(c.spread)}{ratio}{compiled}{note}")
    if measured.overhead is not None:
        lines.append(f"overhead  {duration(measured.overhead):>8} a call outside the kernels")
    for accuracy in (measured.accuracy, measured.stock_accuracy):
        if accuracy is None:
            continue
        whose = f"{accuracy.engine} " if measured.stock_accuracy is not None else ""
        parts = f", first parts at {accuracy.first_parting}" if accuracy.first_parting else ""
        error = f"largest error {accuracy.largest_absolute:.3g} absolute, {accuracy.largest_relative:.3g} relative"
        where = accuracy.where or "equal"
        lines.append(f"{whose}against eager: {error} ({where}{parts}) over {accuracy.compared} tensors")
        if (found := accuracy.parting) is not None:
            place = f" ({found.span.file}:{found.span.line})" if found.span else ""
            at = f"parts from eager in {found.compile} at {found.node}{place}" if found.node else "where it parts"
            lines.append(f"{found.engine}: {at}: {found.detail}")
    return lines


def full(record: RecordData) -> str:
    """Every stage of every compile, one after another."""
    parts = [summary(record)]
    for compile in record.compiles:
        for stage in compile.stages:
            half = f" {stage.half}" if stage.half else ""
            parts.append(f"\n=== {compile.id} {stage.name}{half}  {duration(stage.seconds)}\n{stage.text()}")
    return "\n".join(parts)


def half_lines(half: HalfData) -> list[str]:
    """A half in a few lines: its kernels with what each moves, and its library calls."""
    lines = []
    for item in half.schedule.items if half.schedule else ():
        if item.kind == "kernel":
            kernel = next((k for k in half.kernels if k.id == item.id), None)
            moved = f"  {amount(kernel.bytes, 'B')}" if kernel else ""
            spent = f"  {duration(kernel.seconds)}" if kernel and kernel.seconds is not None else ""
            lines.append(f"{item.id}: {', '.join(item.operations)}{moved}{spent}")
        else:
            target = next((o.target for o in half.operations if o.id == item.id), "")
            lines.append(f"{item.id}: {target}")
    return lines


def stage_diff(before: StageData | None, after: StageData | None, context: int = 3) -> list[str]:
    """A unified diff of two stages' texts; empty where they agree."""
    old = before.text().splitlines() if before else []
    new = after.text().splitlines() if after else []
    first, second = (stage.id if stage else "(absent)" for stage in (before, after))
    return list(difflib.unified_diff(old, new, first, second, lineterm="", n=context))
