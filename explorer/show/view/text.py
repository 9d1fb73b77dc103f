"""The record as one reads it in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import quantiles

from explorer.core.recorder import PROCESS
from explorer.core.text import amount, count, duration, headline
from explorer.ir import record as data
from explorer.records.data import dynamo
from explorer.records.data.instructions import intel, mnemonic
from explorer.records.data.provenance import file_names, node_names, operator_name
from explorer.records.diagnosis import coverage as counted
from explorer.show.view import answers, diagnosis, difference, distributed, glance, history, inductor


def summary(record: data.RecordData) -> str:
    """A few lines: what was compiled, what came of it, how fast it is."""
    names = file_names(record)
    made_by = ", ".join(filter(None, (record.engine, record.target)))
    lines = [f"{record.title}  [{made_by}]" if made_by else f"{record.title}: nothing was compiled"]
    lines += ["  " + line for line in glance.lines(record)]
    for compile in record.compiles:
        if not compile.stages or compile.id == PROCESS:
            continue
        lines.append("  " + compile_line(compile))
        lines += [f"    break at {b.span.place(names)}: {glance.of_call(b.why)}" for b in compile.breaks if b.span]
        if compile.fallback:
            why = " ".join(str(compile.fallback).split())
            lines.append(f"    runs eagerly: {why}")
        lines += [f"    runs without CUDA graphs: {why}" for why in inductor.skipped(compile)]
        lines += [f"    {line}" for line in distributed.summary(compile, names)]
    lines += [f"  {line}" for line in aten_calls(record)]
    lines += ["  " + line for line in (*diagnosis.summary(record, names), *history.lines(record, names))]
    lines += [f"  {line}" for line in answers.operator_checks(record.operators)]
    if record.timing:
        lines += ["  " + line for line in timing(record.timing, record.compiles)]
    lines += [f"  note: {note}" for note in record.notes]
    return "\n".join(lines)


def coverage(cover: data.CoverageData) -> str:
    return (
        f"ATen calls after decomposition: {cover.kernel} in generated kernels, {cover.extern} in library calls, "
        f"{count(cover.view, 'view')}, {cover.fallback} in graphs that run eagerly"
    )


def aten_calls(record: data.RecordData) -> Iterator[str]:
    """Where the ATen calls ran, of each engine that compiled any."""
    engines = dict.fromkeys(each.engine for each in record.compiles)
    for engine in engines:
        own = [each for each in record.compiles if each.engine == engine]
        cover = counted(own) if len(engines) > 1 else record.coverage
        if cover.kernel + cover.extern + cover.view + cover.fallback:
            ids = {each.id for each in own}
            eager = [each for each in record.eager if len(engines) == 1 or each.compile in ids]
            yield f"{engine}: " * (len(engines) > 1) + coverage(cover) + outside(eager, own)


def outside(eager: Sequence[data.EagerData], compiles: Sequence[data.CompileData]) -> str:
    """How many ATen calls ran outside graphs, where anything did."""
    whole = {(each.id, each.name) for each in compiles if each.fallback and each.operations}
    found = [each for each in eager if (each.compile, each.what) not in whole]  # those are counted as graphs
    calls = [each.calls for each in found if each.calls is not None]
    if not found:
        return ""
    whys = {each.measured.partition(", because ")[0] for each in found if each.measured}
    why = f" (not counted: {whys.pop()})" if len(whys) == 1 else ""
    return f"; {sum(calls) if calls else 'an unknown number'} in Python between graphs{'' if calls else why}"


def guard_lines(guards: Sequence[data.GuardData], files: diagnosis.Names) -> list[str]:
    """Each guard, its reason and the line that asked; those on torch's state after those on the program's values."""
    own = [each for each in guards if each.of_torch]
    whys = [(g, f"{g.why}{diagnosis.place(g.span, files)}".strip()) for g in guards if not g.of_torch]
    lines = [f"{_guard(g)}  # {why}" if why else _guard(g) for g, why in whys]
    return [*lines, f"and {len(own)} on torch's state:", *map(_guard, own)] if own else lines


def _guard(guard: data.GuardData) -> str:
    return f"{guard.id:<8} {guard.words or dynamo.names(guard.expression)}"


def breaks(record: data.RecordData) -> list[str]:
    """Each place that breaks a graph, with its hints."""
    names = file_names(record)
    return [_break([broke for _, broke in place], names) for place in diagnosis.break_places(record.compiles)]


def _break(same: Sequence[data.BreakData], names: diagnosis.Names) -> str:
    b = same[0]
    place = b.span.place(names) if b.span else "a line that is not known"
    hints = "".join(f"\n  hint: {hint}" for hint in dict.fromkeys(hint for each in same for hint in each.hints))
    rewrite = "".join(f"\n    {line}" for line in b.rewrite)
    again = any(b.tried in hint for hint in b.hints)
    tried = f"tried{'' if again else f': {b.tried}'}" if b.tried else "not tried: fixes=True does"
    instead = f"\n  write instead (computes both sides; {tried}):{rewrite}" if rewrite else ""
    ends = f" (in {len(same)} compiles)" if len(same) > 1 else ""
    return f"{place}  {b.why.cited}{ends}{hints}{instead}"


def compile_line(compile: data.CompileData) -> str:
    kernels = sum(len(half.kernels) for half in compile.halves)
    guards = glance.counted_guards(compile.guards)
    guards += f", checked in {duration(compile.guard_seconds)}" if compile.guard_seconds is not None else ""
    parts = [count(len(compile.stages), "stage"), guards, count(len(compile.breaks), "break")]
    cached = f"code from the {' and the '.join(compile.caches)}" if compile.caches else ""
    parts += [count(kernels, "kernel")] if kernels or not cached else []
    parts += [f"compiled in {duration(compile.seconds)}", *filter(None, [cached])]
    parts += [f"its graph ran {compile.runs} times"] if compile.runs > 1 else []
    failed = f"  {'raises' if compile.raises else 'failed'}: {headline(compile.error)}" if compile.error else ""
    return f"compile {compile.id}, {compile.name}: {', '.join(parts)}{failed}"


def timing(measured: data.TimingData, compiles: Sequence[data.CompileData] = ()) -> list[str]:
    call = "in the graphs of a call" if measured.graphs_alone else "a call"
    lines = [f"{c.name:<9} {duration(c.median):>8} {call}{quartiles(c)}" for c in measured.contestants]
    if any(c.speed is not None and c.speed.times is not None for c in measured.contestants):
        lines.append("(times: medians and quartiles; ratio: of the medians, and its 95 % interval)")
    if measured.overhead is not None:
        whose = next((c for name in ("explorer", "stock") for c in measured.contestants if c.name == name), None)
        of = f"{whose.name}: {duration(measured.overhead)} of {duration(whose.median)}" if whose is not None else ""
        lines.append(f"{of} {call} is outside kernels and library calls (guards, Python, allocation)")
    for found in (measured.accuracy, measured.stock_accuracy):
        if found is not None:
            text = accuracy(found, named=measured.stock_accuracy is not None)
            first = found.divergence.compile if found.divergence is not None else ""
            whole = next((each for each in compiles if each.id == first), None)
            lines += text if whole is None else map(node_names(whole), text)
    return lines


def quartiles(of: data.SamplesData) -> str:
    """Between which two times the middle half of the samples lies, where there are enough to tell."""
    if len(of.samples) < 4:
        return ""
    low, _, high = quantiles(of.samples, n=4, method="inclusive")
    return f" (quartiles {duration(low)} to {duration(high)})"


def accuracy(found: data.AccuracyData, *, named: bool) -> list[str]:
    """The comparison with eager; `named` adds the engine's name, to tell two engines apart."""
    whose = f"{found.engine} " if named else ""
    error = f"largest error {found.largest_absolute:.3g} absolute, {found.largest_relative:.3g} relative"
    mismatch = f"first mismatch: {found.first_mismatch}" if found.first_mismatch else ""
    where = ", ".join(filter(None, (found.where, mismatch))) or "equal"
    compared = f"{count(found.compared, 'tensor')} (outputs, gradients, inputs and state)"
    lines = [f"{whose}against eager: {error} ({where}) over {compared}"]
    if found.own_error is not None and found.eager_error is not None:
        ours, eager = f"{found.own_error:.3g}", f"{found.eager_error:.3g}"
        of = f" of {found.where}" if found.where else ""
        lines.append(f"largest error{of} against a float64 run: {found.engine} {ours}, eager {eager}")
    if (first := found.divergence) is not None:
        place = f" ({first.span.place()})" if first.span else ""
        at = f"first differs from eager in {first.compile} at {first.node}{place}" if first.node else "first difference"
        lines.append(f"{first.engine}: {at}: {first.detail}")
    return lines


def full(record: data.RecordData) -> str:
    """Every stage of every compile, one after another, and what else is asked of a record."""
    parts = [summary(record)]
    for compile in (*record.compiles, *record.attempts):
        for stage in compile.stages:
            parts.append(
                f"\n=== {compile.half_title(stage.half)} {stage.name}  {duration(stage.seconds)}\n{stage.text()}"
            )
    for answer in record.answers:
        parts += [f"\n=== {answer.title}", *answer.lines]
    if remarks := list(reports(record)):
        parts += ["\n=== Reports of g++, clang and ptxas on the generated kernels", *remarks]
    return "\n".join(parts)


def reports(record: data.RecordData) -> Iterator[str]:
    """What compilers report of each kernel: loops vectorized or not, registers, shared memory."""
    for compile in record.compiles:
        for half in compile.halves:
            for kernel in half.kernels:
                yield from (f"{compile.id} {kernel.id}: {remark}" for remark in _report(kernel))


def _report(kernel: data.KernelData) -> Iterator[str]:
    yield from kernel.facts
    if not kernel.remarks:
        return
    yield f"{len(kernel.vectorized)} of {count(len(kernel.remarks), 'innermost loop')} vectorized"
    known = {line.id: (number, line.text.strip()) for number, line in enumerate(kernel.source.lines, 1)}
    for id, remark in kernel.remarks.items():
        number, text = known.get(id, (0, id))
        yield f"  line {number}: {text}  {remark}"


def half_lines(half: data.HalfData, named: Callable[[str], str]) -> list[str]:
    """A half in a few lines: its kernels with what they compute, what each moves, and the ids of their loops, and its
    library calls. `named` is what a person calls an operation."""
    lines = []
    nodes = {each.id: each.origins for each in half.operations}
    for item in half.schedule.items if half.schedule else ():
        if item.kind == "kernel":
            kernel = next((k for k in half.kernels if k.id == item.id), None)
            moved = f"  {amount(kernel.bytes, 'B')} read and written" if kernel else ""
            spent = f"  {duration(kernel.seconds)}" if kernel and kernel.seconds is not None else ""
            ids = ", ".join(item.operations)
            inside = dict.fromkeys(operator_name(node) for id in item.operations for node in nodes.get(id, ())[1:])
            inlined = f", with {', '.join(inside)} inlined" if inside else ""
            lines.append(f"{item.id}: {named(ids)}{inlined}{moved}{spent}  [{ids}]")
        else:
            target = next((o.target for o in half.operations if o.id == item.id), "")
            took, work = half.extern_seconds.get(item.id), half.extern_flops.get(item.id)
            figures = f"  {amount(work, 'FLOP')}" if work else ""
            figures += f"  {duration(took)}" if took is not None else ""
            figures += f"  {amount(work / took, 'FLOP/s')}" if work and took else ""
            lines.append(f"{item.id}: {target}{figures}")
    return lines


DEEPEST = 50
"""Levels of indentation: a record may say any depth."""


def loops(kernel: data.KernelData) -> str:
    """A kernel's loops, a line for each: how it runs, over what, how much of it at a time."""
    tiled = ((each, f", {each.tile} at a time" if each.tile > 1 else "") for each in kernel.loops)
    return "".join(
        f"{'  ' * min(each.depth, DEEPEST)}{each.kind} {each.axis} < {each.size}{tiles}\n" for each, tiles in tiled
    )


def stage_diff(before: data.StageData | None, after: data.StageData | None) -> list[str]:
    """A unified diff of two stages' texts; empty where they agree."""
    old = before.text().splitlines() if before else []
    new = after.text().splitlines() if after else []
    names = before.id if before else "(absent)", after.id if after else "(absent)"
    return list(difference.unified(old, new, names, 3))


HELP = 44
"""Column from which on the help stands."""


def assembly(
    kernel: data.KernelData, known: dict[str, data.MnemonicData], *, syntax: str, explain: bool
) -> Iterator[str]:
    """The lines of a kernel's assembly; each, if asked for, with what its instruction does."""
    for line in kernel.lowered["asm"].lines:
        shown = intel(line.text) if syntax == "intel" else line.text
        name = mnemonic(line.text)
        meaning = known[name].means if explain and name in known else ""
        yield f"{shown:<{HELP}}  ; {meaning}" if meaning else shown
