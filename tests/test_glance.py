"""What a record says at a glance."""

from __future__ import annotations

import re
from contextlib import suppress
from html import escape
from pathlib import Path
from urllib.parse import unquote

import pytest
import torch
from msgspec.structs import replace

import explorer
from explorer.ir import record as data
from explorer.ir.record import (
    AccuracyData,
    BreakData,
    CompileData,
    DivergenceData,
    EagerData,
    FailedGuardData,
    PartData,
    SpanData,
    WhyData,
)
from explorer.records.check.speed import speed
from explorer.records.data import dynamo
from explorer.show.record import Record
from explorer.show.view import diagnosis, glance, html, text
from records import empty, sample


def parts(record: data.RecordData, engine: str = "explorer") -> dict[str, PartData]:
    return {part.what: part for part in glance.glance(record) if part.engine in ("", engine)}


def said(record: data.RecordData, what: str) -> tuple[str, str]:
    part = parts(record)[what]
    return part.text, part.state


def clean() -> data.RecordData:
    """The sample's compile without what went wrong with it, timed beside eager and equal to it."""
    whole = sample()
    assert whole.timing is not None
    compile = replace(whole.compiles[0], error="", fallback=None, breaks=(), recompiles=())
    timing = replace(whole.timing, contestants=whole.timing.contestants[:2], accuracy=AccuracyData(0.0, 0.0, "", "", 3))
    return replace(whole, compiles=(compile,), timing=timing, recompiles=(), errors=(), error="", operators=())


def accurate(found: AccuracyData) -> data.RecordData:
    record = clean()
    assert record.timing is not None
    return replace(record, timing=replace(record.timing, accuracy=found))


def test_each_part_leads_to_its_pane() -> None:
    found = parts(clean())
    assert list(found) == [
        "speed", "accuracy", "operations", "breaks", "recompiles", "guards", "memory", "compile",
    ]  # fmt: skip
    assert {part.state for part in found.values()} == {"ok"}
    panes = {"timing", "schedule", "breaks", "guards", "recompiles", "memory", "timeline"}
    assert {part.pane for part in found.values()} == panes
    assert found["speed"].text == "2x faster than eager (1.9 to 2.1)"
    assert found["accuracy"].text == "equal to eager"
    assert found["operations"].text == "1 operation became 1 kernel and 1 library call"
    assert found["guards"].text == "4 guards (3 on the program's values, 1 on torch's state)"
    assert found["memory"].text == "peak memory 2.05 kB without inputs (eager 4.1 kB)"
    assert found["compile"].text == "compiled in 300 ms (first call 400 ms)"


def test_what_is_wrong_comes_first() -> None:
    states = [part.state for part in glance.glance(replace(sample(), timing=None))]
    calm = len(states) - 6
    assert states[:3] == ["wrong", "attention", "attention"] and not {"wrong", "attention"} & set(states[-calm:])
    assert glance.lines(sample())[0] == "! the program raises ValueError at scaled.py:3: it went wrong"


def test_an_error_of_torch_is_reported_by_what_the_operator_raised() -> None:
    wrapped = "RuntimeError when making fake tensor call\n  Explanation: ...: got RuntimeError('sizes differ, 4 and 5')"
    error = replace(sample().errors[0], kind="TorchRuntimeError", message=wrapped)
    first = glance.lines(glance.with_glance(replace(sample(), errors=(error,))))[0]
    assert first.endswith("TorchRuntimeError at scaled.py:3: RuntimeError('sizes differ, 4 and 5')")


def test_a_break_is_one_place_of_the_program() -> None:
    """The frame that calls a function which breaks the graph ends its own graph there."""
    span, why = SpanData("step.py", 4, 4, 4, 9), WhyData("break.print", "call of print")
    frames = [
        CompileData(f"f{n}", f"frame{n}", 0, 0.1, breaks=(BreakData(why, f"f{n}@2", span, (), ()),)) for n in range(2)
    ]
    found = parts(replace(clean(), compiles=tuple(frames)))["breaks"]
    assert found.text == "1 graph break: call of print at step.py:4 (in 2 compiles)"
    assert (found.state, found.compile) == ("attention", "f1")
    more = [replace(frames[0].breaks[0], span=replace(span, line=line)) for line in range(5)]
    found = parts(replace(clean(), compiles=(replace(frames[0], breaks=tuple(more)),)))["breaks"]
    assert found.text == "5 graph breaks: call of print at step.py:0; call of print at step.py:1 and 3 more"


def test_a_break_without_a_line_is_not_reported_by_a_number_of_the_recorder() -> None:
    broke = BreakData(WhyData("break.print", "call of print"), "f0@4", None, (), ())
    record = replace(sample(), compiles=(replace(sample().compiles[0], breaks=(broke,)),))
    (told,) = text.breaks(record)
    assert told.startswith("a line that is not known  call of print")


def test_results_that_differ_are_reported_to() -> None:
    divergence = DivergenceData("f0", "forward", "aten.mul", "k0", 1.0, span=SpanData("/home/me/step.py", 12, 12))
    off = AccuracyData(0.03, 1.0, "output", "output", 3, divergence)
    assert said(accurate(off), "accuracy") == ("differs from eager by up to 0.03 in output at step.py:12", "wrong")
    unjudged = AccuracyData(3.8e-6, 1.4, "output", "output", 3)
    assert said(accurate(unjudged), "accuracy")[1] == "attention"
    assert "eager was not run again in float64" in said(accurate(unjudged), "accuracy")[0]
    assert said(accurate(replace(unjudged, largest_absolute=float("inf"))), "accuracy")[1] == "wrong"
    assert said(accurate(replace(unjudged, own_error=3e-6, eager_error=1e-9)), "accuracy")[1] == "wrong"
    as_good = replace(off, own_error=1e-3, eager_error=0.03)
    assert said(accurate(as_good), "accuracy")[1] == "attention"
    random = replace(off, divergence=replace(divergence, node="", span=None, detail="stock draws other random numbers"))
    assert said(accurate(random), "accuracy")[0].endswith("in output: stock draws other random numbers")
    assert said(accurate(AccuracyData(1e-6, 1e-7, "output", "", 3)), "accuracy") == (
        "matches eager (relative error 1e-07)",
        "ok",
    )
    only = replace(off, first_mismatch="output[2] is missing", divergence=None, mismatch="unpaired")
    assert said(accurate(only), "accuracy")[0].startswith("differs from eager: output[2] is missing")
    kind = replace(off, first_mismatch="output: 3 instead of 4", divergence=None, mismatch="value")
    assert said(accurate(kind), "accuracy")[0].startswith("differs from eager in output: 3 instead of 4")
    unread = AccuracyData(0.0, 0.0, "", "", 3, opaque="output[1] (a generator)")
    assert said(accurate(unread), "accuracy") == ("equal to eager; not compared: output[1] (a generator)", "unknown")
    nan = AccuracyData(0.0, 0.0, "", "", 3, nan="output")
    assert said(accurate(nan), "accuracy") == ("equal to eager, which gives NaN in output", "attention")
    assert said(accurate(AccuracyData(0.0, 0.0, "")), "accuracy") == ("no tensors to compare with eager's", "unknown")


@pytest.mark.parametrize(
    "eager, ours, expected, state",
    [
        ([2.0] * 6, [4.0] * 6, "2.0x slower than eager (2.0 to 2.0)", "attention"),
        ([1.0] * 6, [1.0] * 6, "as fast as eager (1.00 to 1.00)", "ok"),
        ([1.0, 9.0] * 6, [1.0, 9.0] * 3 + [9.0, 1.0] * 3, "on an idle machine", "unknown"),
    ],
)
def test_speed_is_one_honest_sentence(eager: list[float], ours: list[float], expected: str, state: str) -> None:
    record = clean()
    assert record.timing is not None
    first, second = record.timing.contestants
    timing = replace(record.timing, contestants=(first, replace(second, speed=speed(eager, ours))))
    found = parts(replace(record, timing=timing))["speed"]
    assert expected in found.text and found.state == state


def test_what_was_not_done_is_not_claimed() -> None:
    record = replace(clean(), timing=None, calls=())
    assert said(record, "speed") == ("not timed", "unknown")
    assert said(record, "accuracy") == ("not compared with eager", "unknown")
    assert "memory" not in parts(record)
    captured = replace(record, compiles=(replace(record.compiles[0], halves=()),))
    assert said(captured, "operations") == ("captured 1 operation (this record holds no kernels)", "unknown")
    hit = data.EventData("Cache", {"cache": "AOTAutograd cache", "state": "hit: no stage ran"})
    cached = replace(captured.compiles[0], id="f0", events=(hit,), halves=(), error="", fallback=None)
    again = replace(cached, id="f0.1", recompiles=sample().compiles[0].recompiles)
    served = replace(captured, compiles=(cached, again), recompiles=(), errors=(), error="")
    same = "captured 1 operation in each of 2 compiles (their kernels came from the AOTAutograd cache)"
    assert said(served, "operations") == (same, "unknown")
    printed = repr(Record(served))
    assert "captured again, code loaded from a cache: " in printed and "0 kernels" not in printed
    assert [part.text for part in glance.glance(empty())] == ["nothing was compiled"]


@pytest.mark.parametrize("seconds", [False, 0.05])
def test_neither_speed_nor_results_are_claimed_of_code_that_did_not_run(seconds: float) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is such a GPU here")
    record = explorer.explore(torch.relu, target="cuda:sm_90", time=seconds)(torch.ones(4))
    assert record.timing is None
    told = [part.text for part in record.data.glance]
    assert {"not timed", "not compared with eager"} <= set(told) and not any("peak memory" in each for each in told)


def test_kernels_are_counted_where_they_run() -> None:
    whole = clean()
    (used, *_) = whole.compiles
    apart = replace(used, id="f9", fallback=WhyData("runtime.wrong_cxx", "CXX names no C++ compiler"))
    assert said(whole, "operations") == said(replace(whole, compiles=(used, apart)), "operations")
    assert said(replace(whole, compiles=(apart,)), "operations")[0].endswith(" and 1 library call, not run")


def test_operations_whose_results_nobody_uses_need_no_kernel() -> None:
    def unused(x):
        x + 1
        return 2

    record = explorer.explore(unused, time=False)(torch.ones(4))
    assert said(record.data, "operations")[0] == "1 operation needed no kernel"


def test_an_operation_that_breaks_a_line_twice_is_named_once() -> None:
    def sizes(x):
        return x[x > 0].sum() + torch.nonzero(x).shape[0]

    record = explorer.explore(sizes, time=False)(torch.ones(4))
    found = said(record.data, "breaks")[0]
    assert found.startswith("2 graph breaks: ") and found.endswith("(2 of them)") and found.count("output size") == 1


def test_a_graph_that_runs_eagerly_is_not_counted_as_python_between_graphs() -> None:
    def chosen(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    record = explorer.explore(chosen, time=False)(torch.ones(4))
    assert said(record.data, "operations")[0].endswith(", which run eagerly")
    assert "between graphs" not in repr(record) and "timing was not asked for" in repr(record.eager)


def test_times_of_graphs_alone_are_reported_to_be() -> None:
    def printing(x):
        print("once")
        return x + 1

    record = explorer.explore(printing, time=0.05)(torch.ones(4))
    assert said(record.data, "speed")[0].startswith("graphs only: ")
    assert " in the graphs of a call" in repr(record.timing) and " us a call" not in repr(record.timing)


def test_what_only_one_result_has_is_no_rounding() -> None:
    only = "state['n'] is missing"
    found = AccuracyData(0.0, 0.0, "", only, 3, own_error=0.0, eager_error=0.0, mismatch="unpaired")
    assert said(accurate(found), "accuracy") == (f"differs from eager: {only}", "wrong")


def test_the_largest_error_is_not_ascribed_to_the_first_mismatch() -> None:
    found = AccuracyData(6.8, 0.5, "gradient['w']", "output", 3)
    begins = "differs from eager by up to 6.8 in gradient['w'], first in output"
    assert said(accurate(found), "accuracy")[0].startswith(begins)


def test_a_compile_of_a_log_is_called_without_the_folder_of_its_file() -> None:
    (named,) = glance.named([CompileData("s0", "inner (/usr/lib/torch/external_utils.py:67)", 0.0, 1.0)])
    assert named.name == "inner (external_utils.py:67)"


@pytest.mark.parametrize("engine", ["explorer", "explorer and stock"])
def test_the_strip_has_its_parts_from_the_first_and_they_fill_in(engine: str) -> None:
    begun = replace(empty(), engine=engine)
    first = glance.glance(begun, whole=False)
    assert [part.engine for part in first[::8]] == engine.split(" and ")
    assert {part.state for part in first} == {"unknown"}
    captured = replace(begun, compiles=(replace(clean().compiles[0], halves=()),))
    then = glance.glance(captured, whole=False)
    assert [(part.what, part.engine) for part in then] == [(part.what, part.engine) for part in first]
    assert [part.text for part in then if part not in first] == ["captured 1 operation"]
    assert {part.what for part in glance.glance(clean())} == {part.what for part in first}


def test_a_watched_program_has_the_times_of_its_calls_and_nothing_of_eager() -> None:
    step = explorer.compile(lambda x, n: x * n)
    with explorer.watch() as log:
        for n in (2, 2, 3.0):
            step(torch.ones(4), n)
    speed, state = said(log.record.data, "speed")
    apart = r"\(one call that compiled nothing; eager was not timed\)"
    assert re.fullmatch(rf"a call of <lambda> takes .*s {apart}", speed)
    assert state == "unknown"
    recompiled = "<lambda> was recompiled once: n is 3.0, expected 2"
    assert said(log.record.data, "recompiles") == (recompiled, "attention")
    unasked = "not compared with eager: a watched program is run only once"
    assert said(log.record.data, "accuracy") == (unasked, "unknown")


def test_what_was_not_compiled_again_is_no_recompile_and_calls_without_a_graph_are_reported_as_such() -> None:
    def counts(x: torch.Tensor, k: int) -> torch.Tensor:
        return x.expand(k) if k < 0 or k > 3 else x + k

    torch._dynamo.reset()
    compiled = torch.compile(counts, backend="eager", dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=3), explorer.watch(live=False) as log:
        for k in (0, 1, -5, 2, 3, 3, 3, 3):
            with suppress(RuntimeError):
                compiled(torch.ones(4), k)
    parts = {each.what: each for each in log.record.data.glance}
    assert "counts was recompiled 2 times (once more it was left to Python" in parts["recompiles"].text
    assert "once more an error was raised)" in parts["recompiles"].text
    assert " that compiled nothing and ran no compiled graph; " in parts["speed"].text
    assert parts["speed"].state == "attention"


def test_every_view_begins_with_it(tmp_path: Path) -> None:
    record = explorer.explore(lambda x: torch.relu(x) * 2)(torch.ones(64))
    sentences = [part.text for part in record.data.glance]
    assert "2 operations became 1 kernel" in sentences
    for shown in (repr(record), record.text()):
        assert all(sentence in "\n".join(shown.splitlines()[1:5]) for sentence in sentences)
    for shown in (html.page(record.data), html.fragment(record.data)):
        assert escape(text.summary(record.data).splitlines()[1], quote=False) in shown
    assert Record.load(record.save(tmp_path / "r.explore.json")).data == record.data


def test_two_engines_are_two_rows() -> None:
    record = clean()
    assert record.timing is not None
    theirs = replace(record.timing.contestants[1], name="stock", note="1 s of it watching")
    timing = replace(record.timing, contestants=(*record.timing.contestants, theirs))
    compiles = (record.compiles[0], replace(record.compiles[0], id="s0", engine="stock"))
    both = replace(record, timing=timing, compiles=compiles)
    ours, stock = parts(both), parts(both, "stock")
    assert list(ours) == list(stock)
    assert {part.compile for part in stock.values()} == {"s0"}
    assert said(both, "accuracy")[0] == "equal to eager" and stock["accuracy"].text == "not compared with eager"
    assert stock["compile"].text == "compiled in 300 ms (first call 400 ms, 1 s of it watching)"
    rows = glance.lines(replace(both, glance=glance.glance(both)))
    assert [row.partition(":")[0] for row in rows] == ["explorer", "stock"]
    ran = [EagerData("at a break", "call of print", of, calls=calls) for of, calls in (("f0", 2), ("s0", 5))]
    summed = text.summary(replace(both, eager=tuple(ran))).splitlines()
    assert [line[-26:] for line in summed if "ATen calls after" in line] == [
        "2 in Python between graphs",
        "5 in Python between graphs",
    ]


def test_continuations_are_called_by_their_function_and_line() -> None:
    why = WhyData("break.print", "call of print")

    def broken(id: str, stack: str, onward: str) -> tuple[BreakData, ...]:
        return (BreakData(why, f"{id}@2", None, (stack, "lib.py:9 in shown"), (), onward),)

    first = CompileData("f0", "Block.step", 0, 0.1, breaks=broken("f0", "/a/step.py:4 in Block.step", "again, rest"))
    second = CompileData("f1", "rest", 0, 0.1, breaks=broken("f1", "/a/step.py:7 in rest", "end"), continues="f0")
    third = CompileData("f2", "end", 0, 0.1, stages=clean().compiles[0].stages, continues="f1")
    found = glance.with_glance(replace(empty(), compiles=(first, second, third)))
    assert [each.name for each in found.compiles] == ["Block.step", "step after line 4", "step after line 7"]
    assert "compile f2, step after line 7: " in text.summary(found)
    circle = replace(first, title="end", continues="f2")
    assert len(glance.named((circle, second, replace(third, breaks=broken("f2", "a:1 in b", "end"))))) == 3


def positive(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x = x + 1
    return x


@pytest.mark.parametrize("engine", ["explorer", "stock"])
def test_both_sides_of_a_branch_have_names_and_one_that_only_returns_is_no_alarm(engine: str) -> None:
    torch._dynamo.reset()
    compile = torch.compile if engine == "stock" else explorer.compile
    step = compile(positive, backend="eager")  # type: ignore[operator]
    with explorer.watch(live=False) as log:
        step(torch.ones(3))
        step(-torch.ones(3))
    at = positive.__code__.co_firstlineno + 1
    names = [each.name for each in log.record.data.compiles if each.continues]
    assert names == [f"positive after line {at}, from line {at + 1}", f"positive after line {at}, from line {at + 2}"]
    assert not any("runs eagerly" in part.text for part in log.record.data.glance if part.state in glance.FIRST)


def test_a_frame_that_runs_eagerly_is_an_alarm_unless_nothing_is_lost() -> None:
    first = clean().compiles[0]
    for code, calls, state in (
        ("stock.skipped", None, "attention"), ("stock.skipped", 0, "ok"), ("stock.skipped", 3, "attention"),
        (dynamo.NOTHING, None, "ok"), (dynamo.OF_TORCH, None, "ok"), (dynamo.OF_TORCH, 3, "attention"),
    ):  # fmt: skip
        skipped = replace(first, id="f9", fallback=WhyData(code, "skipped"))
        ran = data.EagerData("scaled", "skipped", "f9", calls=calls)
        record = replace(clean(), compiles=(first, skipped), eager=(ran,))
        assert said(record, "fallback")[1] == state


def test_where_rounding_is_known_the_error_is_told_beside_eagers() -> None:
    told = AccuracyData(0.03, 0.1, "output", compared=1, own_error=0.02, eager_error=0.01)
    assert said(accurate(told), "accuracy")[0] == "matches eager (0.02 from a float64 run, eager itself 0.01)"


def test_what_is_said_twice_is_said_once_and_counted() -> None:
    twice = replace(sample(), errors=sample().errors * 2)
    assert glance.lines(glance.with_glance(twice))[0].endswith("ValueError at scaled.py:3: it went wrong (2 times)")


def test_a_person_reads_one_name_of_a_continuation() -> None:
    def loop(x: torch.Tensor) -> torch.Tensor:
        for i in range(3):
            x = x + i
            print("here")
        return x

    record = explorer.explore(loop, time=False)(torch.ones(3))
    told = "\n".join(map(str, (record, record.recompiles, record.eager, record.breaks, record.stages, record.steps)))
    at = loop.__code__.co_firstlineno + 3
    assert f"loop after line {at}: this guard caused 2 recompiles" in told
    assert "and what it prints is shown once" in told
    assert "resume_in" not in told and "resume_in" not in html.fragment(record.data)


def test_a_difference_begins_with_what_is_answered_differently() -> None:
    shown = Record(clean()).diff(Record(replace(clean(), timing=None, calls=()))).text().splitlines()
    assert shown[1] == "  explorer speed: 2x faster than eager (1.9 to 2.1) -> not timed"
    assert not any("guards" in line for line in shown[1:8])


def test_a_link_names_what_it_opens_and_nothing_that_is_not_there() -> None:
    record = Record(clean())
    stage = record.data.compiles[0].stages[0].id
    link = record.link("guards", "f0", stage, "/home/a b.py:3")
    parts = [unquote(part) for part in link.removeprefix("#").split("/")]
    assert parts == ["guards", "f0", stage, "/home/a b.py:3", record.data.created]
    with pytest.raises(ValueError, match="no compile 'f9'; it has f0"):
        record.link("guards", "f9")
    with pytest.raises(ValueError, match="f0 has no stage 'x'"):
        record.link("guards", "f0", "x")


def test_a_function_inside_another_is_called_by_its_own_name() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    record = explorer.explore(inner, time=False)(torch.ones(2))
    assert record.data.title == "inner"
    assert [each.called for each in glance.named(record.data.compiles)] == ["inner"]
    assert "<locals>" not in str(record)


def test_a_loop_that_goes_on_after_a_break_is_recompiled_for_its_position() -> None:
    def listed(x: torch.Tensor) -> list[float]:
        return [row.mean().item() for row in x.unbind(0)]

    record = explorer.explore(listed, time=False)(torch.randn(3, 4))
    recompiled = parts(record.data)["recompiles"].text
    assert "is at position 2 of 3, expected at position 1 of 3" in recompiled and "<tuple_iterator" not in recompiled


@pytest.mark.parametrize("engine", ["explorer", "stock"])
def test_what_fullgraph_refuses_is_the_break_and_nothing_else_is_reported(engine: str) -> None:
    def prints(x):
        y = x * 2
        print("between")
        return y + 1

    found = explorer.explore(prints, fullgraph=True, engine=engine)(torch.ones(3))
    (broke,) = found.breaks
    assert broke.span.line == prints.__code__.co_firstlineno + 2 and broke.hints
    assert [each.what for each in found.data.glance] == ["error", "breaks"]
    (error,) = found.errors
    assert error.span is not None and error.span.line == broke.span.line
    assert not any(said in repr(found) for said in ("no graph breaks", "nothing was compiled", "outside graphs"))


def test_of_an_engine_that_was_only_timed_nothing_is_said_of_what_it_compiled() -> None:
    record = replace(clean(), timing=sample().timing)
    assert list(parts(record, "stock")) == ["speed", "accuracy"]
    found = parts(replace(record, engine="explorer and stock"), "stock")
    assert found["operations"].text == "nothing was compiled"


def test_what_to_change_first_counts_as_the_guards_own_line_does() -> None:
    failed = FailedGuardData("a", "mode == 'sum'", 3, ("'sum'",), compiles=("s0.1", "s0.2", "s0.3"), also=1)
    told = diagnosis.caused(failed)
    assert told == "caused 2 recompiles and also failed in 1 recompile"
    assert f"this guard {told}: " in diagnosis.recompile(failed, {})
    assert diagnosis.caused(replace(failed, also=3)) == "also failed in 3 recompiles"


def test_breaks_of_one_place_and_different_reasons_are_different_breaks(tmp_path: Path) -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        with open(tmp_path / "file", "a") as file:
            file.write("x")
        return x + 1

    record = explorer.explore(written, time=False)(torch.ones(2))
    reasons = {str(broke.why) for compile in record.data.compiles for broke in compile.breaks}
    assert sum(": " in line and "[break." in line for line in repr(record.breaks).splitlines()) == len(reasons) == 4
    assert "open, a builtin with side effects" in repr(record.breaks)


def test_what_ran_outside_graphs_has_the_name_that_the_program_gives_it() -> None:
    seen: list[float] = []
    model = torch.nn.Linear(3, 3)
    model.register_forward_hook(lambda module, given, out: seen.append(out.sum().item()))
    text = repr(explorer.explore(model, time=False)(torch.ones(2, 3)))
    assert "resume_in_" not in text
    assert "<call of" not in text
    assert "Linear after its call" in text
    text = repr(explorer.explore(lambda x: x + 1 if x.nonzero().shape[0] > 2 else x - 1, engine="stock",
                                 stock={"backend": "eager"}, time=False)(torch.ones(4)))  # fmt: skip
    assert "resume_in_" not in text
    assert "<locals>" not in text
