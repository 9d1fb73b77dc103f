"""Records too large for a notebook are cut, and say so; the record itself stays whole."""

import random

import msgspec

from explorer.ir import record as data
from explorer.ir.methods import METHODS_VERSION, MethodData, MethodsData, ViewData
from explorer.records.session import Record, compressed, unpacked
from explorer.show.view.size_limit import for_output, size, truncated, within_size_limit
from records import sample


def long(lines: int) -> data.RecordData:
    """The sample with a stage and a kernel's assembly of so many lines."""
    record = sample()
    text = data.TextData(tuple(data.LineData(f"line {n} of a long text", f"l{n}") for n in range(lines)))
    [compile] = record.compiles
    stages = (msgspec.structs.replace(compile.stages[0], body=text), *compile.stages[1:])
    half = compile.halves[0]
    kernel = msgspec.structs.replace(half.kernels[0], lowered={"asm": text})
    halves = (msgspec.structs.replace(half, kernels=(kernel,)), *compile.halves[1:])
    return msgspec.structs.replace(record, compiles=(msgspec.structs.replace(compile, stages=stages, halves=halves),))


def test_what_fits_is_left_alone() -> None:
    record = long(100)
    assert within_size_limit(record) is record


def test_texts_are_cut_and_say_how_much_is_missing() -> None:
    record = long(5000)
    cut = within_size_limit(record, 100_000)
    assert size(cut) <= 100_000
    text = cut.compiles[0].stages[0].body
    assert not cut.compiles[0].halves[0].kernels[0].lowered
    kept = len(text.lines) - 1
    assert text.lines[:kept] == record.compiles[0].stages[0].body.lines[:kept]
    assert text.lines[-1].text == f"... {5000 - kept} lines omitted"
    assert f"truncated to {kept} lines" in cut.notes[-1]
    assert f"{size(record) / 1e6:.1f} MB" in cut.notes[-1]
    assert cut.timing == record.timing
    assert cut.cut and not record.cut


def test_machine_code_goes_first() -> None:
    record = long(2000)
    cut = within_size_limit(record, size(record) - 1)
    assert not cut.compiles[0].halves[0].kernels[0].lowered
    assert cut.compiles[0].stages == record.compiles[0].stages
    assert "machine code is omitted" in cut.notes[-1]


def test_an_output_is_measured_as_it_is_stored() -> None:
    """What compresses well is shown whole, however long it is."""
    record = long(150_000)
    assert size(record) > 10_000_000
    assert for_output(record) is record
    generator = random.Random(0)
    noise = tuple(data.LineData(generator.randbytes(30).hex(), f"l{n}") for n in range(20_000))
    [compile] = sample().compiles
    stages = (msgspec.structs.replace(compile.stages[0], body=data.TextData(noise)), *compile.stages[1:])
    dense = msgspec.structs.replace(record, compiles=(msgspec.structs.replace(compile, stages=stages),))
    cut = for_output(dense, 300_000)
    assert cut.cut and 100_000 < len(compressed(cut)) <= 300_000


def test_where_that_is_not_enough_more_goes() -> None:
    record = sample()
    events = tuple(data.EventData("Inlined", {"function": "f" * 100}) for _ in range(1000))
    compile = msgspec.structs.replace(record.compiles[0], events=events)
    large = msgspec.structs.replace(record, compiles=(compile,))
    cut = within_size_limit(large, 40_000)
    assert size(cut) <= 40_000
    assert not cut.compiles[0].events
    assert "events are omitted" in cut.notes[-1]


def test_outputs_are_cut_and_the_record_is_not(monkeypatch) -> None:
    record = Record(long(5000))
    monkeypatch.setattr("explorer.records.session.for_output", lambda given: within_size_limit(given, 100_000))
    bundle, _ = record._repr_mimebundle_()
    assert len(msgspec.json.encode(bundle[data.MIME])) <= 100_000
    assert "lines omitted" in msgspec.json.encode(unpacked(bundle[data.MIME])).decode()
    assert len(record.stages[0].body.lines) == 5000


def test_texts_of_a_comparison_are_cut_where_they_are_too_long() -> None:
    text = data.TextData(tuple(data.LineData(f"line {n}") for n in range(5_000)))
    method = MethodData("one", "", views=(ViewData("graph", text), ViewData("short", data.TextData(text.lines[:3]))))
    whole = MethodsData(METHODS_VERSION, "long", "", {}, (), (), (method,))
    assert truncated(whole) is whole
    cut = truncated(whole, size(whole) // 3)
    assert size(cut) <= size(whole) // 3
    long, short = cut.methods[0].views
    left = 5_000 - (len(long.text.lines) - 1)
    assert long.text.lines[-1].text == f"... {left} lines omitted" and short == method.views[1]
