"""Records too large for a notebook are cut, and say so; the record itself stays whole."""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import nbformat
import pytest

from explorer.ir import record as data
from explorer.records.data.methods import METHODS_VERSION, MethodData, MethodsData, ViewData
from explorer.show.comparison import Compared
from explorer.show.ranks import Ranks
from explorer.show.record import Record, compressed, unpacked
from explorer.show.view.size_limit import (
    MOST_ON_DISK,
    WORTH,
    all_within,
    packed_size,
    size,
    truncated,
    within_size_limit,
)
from records import in_output, sample


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
    assert kept > 1000 and text.lines[:kept] == record.compiles[0].stages[0].body.lines[:kept]
    assert text.lines[-1].text == f"... {5000 - kept} lines omitted"
    assert "stage texts and machine code, not all is here" in cut.notes[-1]
    assert f"{size(record) / 1e6:.1f} MB" in cut.notes[-1]
    assert cut.timing == record.timing
    assert cut.cut and not record.cut


def test_what_is_worth_least_goes_first() -> None:
    record = long(2000)
    cut = within_size_limit(record, size(record) - 10_000)
    assert not cut.compiles[0].halves[0].kernels[0].lowered
    assert cut.compiles[0].stages == record.compiles[0].stages
    assert "of its machine code, not all is here" in cut.notes[-1]


def test_an_output_is_measured_as_it_is_stored() -> None:
    """What compresses well is shown whole, however long it is."""
    record = long(150_000)
    assert size(record) > 10_000_000
    assert within_size_limit(record, 5_000_000, packed=True) is record
    generator = random.Random(0)
    noise = tuple(data.LineData(generator.randbytes(30).hex(), f"l{n}") for n in range(20_000))
    [compile] = sample().compiles
    stages = (msgspec.structs.replace(compile.stages[0], body=data.TextData(noise)), *compile.stages[1:])
    dense = msgspec.structs.replace(record, compiles=(msgspec.structs.replace(compile, stages=stages),))
    cut = within_size_limit(dense, 300_000, packed=True)
    assert cut.cut and 100_000 < len(compressed(cut)) <= 300_000


@pytest.mark.parametrize("most", (5_000, 40_000))
@pytest.mark.parametrize("packed", (True, False))
def test_whatever_fills_a_record_it_fits(most: int, packed: bool) -> None:
    [compile] = long(200).compiles
    events = tuple(data.EventData("Inlined", {"function": f"{n:x}" * 20}) for n in range(1000))
    many = tuple(msgspec.structs.replace(compile, id=f"f{n}", events=events[:n]) for n in range(40))
    for compiles in (many, (msgspec.structs.replace(compile, events=events),), many * 4):
        record = msgspec.structs.replace(sample(), compiles=compiles)
        cut = within_size_limit(record, most, packed=packed)
        assert (len(compressed(cut)) if packed else size(cut)) <= most
        if cut is record:
            continue
        assert cut.cut and "events" in cut.notes[-1]
        assert cut.notes[:-1] == record.notes
        if len(cut.compiles) < len(compiles):
            assert f"Of {len(compiles)} compiles, the first {len(cut.compiles)} are here" in cut.notes[-1]
        assert msgspec.json.decode(msgspec.json.encode(cut), type=data.RecordData) == cut


def test_what_is_left_out_is_named_and_what_is_not_named_is_there() -> None:
    record = sample()
    whole = size(record)
    parts = {(kind, field): name for name, kinds in WORTH for kind in kinds for field in kinds[kind]}
    for most in range(1_000, whole, whole // 25):
        cut = within_size_limit(record, most)
        for (kind, field), name in parts.items():
            if kind is data.CompileData and f"{name}, " not in cut.notes[-1] and f"{name} and" not in cut.notes[-1]:
                pairs = zip(record.compiles, cut.compiles, strict=False)
                assert all(getattr(a, field) == getattr(b, field) for a, b in pairs), (most, field)


def test_outputs_are_cut_and_the_record_is_not() -> None:
    record = Record(long(5000))
    bundle, _ = record._repr_mimebundle_()
    shown = unpacked(bundle[data.MIME])
    assert len(msgspec.json.encode(bundle)) <= MOST_ON_DISK
    assert shown.cut and "lines omitted" in msgspec.json.encode(shown).decode()
    assert len(record.stages[0].body.lines) == 5000


def noise(lines: int) -> data.RecordData:
    """The sample with a stage whose text does not get smaller."""
    generator = random.Random(0)
    text = data.TextData(tuple(data.LineData(generator.randbytes(30).hex(), f"l{n}") for n in range(lines)))
    [compile] = sample().compiles
    stages = (msgspec.structs.replace(compile.stages[0], body=text), *compile.stages[1:])
    return msgspec.structs.replace(sample(), compiles=(msgspec.structs.replace(compile, stages=stages),))


def on_disk(output: Mapping[str, Any]) -> int:
    """Bytes that an output takes in a notebook's file."""
    cell = nbformat.v4.new_code_cell()
    before = len(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])))
    cell.outputs = [nbformat.v4.new_output("execute_result", data=output, execution_count=1)]
    return len(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])).encode()) - before


def of_methods(lines: int) -> Compared:
    texts = [compile.stages[0].body for compile in noise(lines).compiles]
    views = tuple(ViewData("graph", text) for text in texts)
    return Compared(MethodsData(METHODS_VERSION, "long", "", {}, (), (), (MethodData("one", "", views=views),) * 3))


def of_many_kernels() -> Record:
    """As a training step leaves it: hundreds of kernels, each from many lines, and when each ran within a call."""
    record = noise(100)
    [compile] = record.compiles
    generator = random.Random(0)
    kernels = tuple(
        msgspec.structs.replace(
            compile.halves[0].kernels[0],
            id=f"kernel{n}",
            origins=tuple(f"line:{generator.randbytes(4).hex()}" for _ in range(12)),
            facts=(generator.randbytes(60).hex(),),
        )
        for n in range(250)
    )
    halves = (msgspec.structs.replace(compile.halves[0], kernels=kernels),)
    launches = tuple(data.LaunchData("f0", "forward", each.id, generator.random(), 1e-6) for each in kernels)
    timed = data.SamplesData("explorer", 1e-3, 1e-5, (1e-3,) * 9, call=data.CallData(1e-3, launches))
    compiles = (msgspec.structs.replace(compile, halves=halves),) * 3
    return Record(
        msgspec.structs.replace(
            record, title="y = " + "x" * 10_000, compiles=compiles, timing=data.TimingData((timed,))
        )
    )


LARGE: dict[str, Callable[[], Any]] = {
    "many kernels": of_many_kernels,
    "a difference": lambda: Record(noise(4_000)).diff(Record(noise(5_000))),
    "a small record and a large one": lambda: Record(sample()).diff(Record(noise(5_000))),
    "ranks": lambda: Ranks.of([Record(noise(400))] * 8),
    "many ranks": lambda: Ranks.of([Record(noise(40))] * 100),
    "methods": lambda: of_methods(5_000),
}


@pytest.mark.parametrize("made", LARGE.values(), ids=LARGE)
def test_what_compares_several_takes_no_more_of_a_notebook_than_a_record(made: Callable[[], Any]) -> None:
    bundle, _ = made()._repr_mimebundle_()
    assert on_disk(bundle) <= MOST_ON_DISK
    [shown] = [each for mime, each in bundle.items() if mime.startswith("application/")]
    whole = in_output(shown, Any)
    assert "are here" not in str(whole)  # all compiles are
    assert "omitted" in str(whole) or "not all is here" in str(whole)


def test_of_two_records_the_larger_takes_what_the_smaller_leaves() -> None:
    small, large = all_within((sample(), noise(2_000)), 30_000)
    assert small == sample() and large.cut
    assert packed_size(small) + packed_size(large) > 20_000


def test_texts_of_a_comparison_are_cut_where_they_are_too_long() -> None:
    text = data.TextData(tuple(data.LineData(f"line {n}") for n in range(5_000)))
    method = MethodData("one", "", views=(ViewData("graph", text), ViewData("short", data.TextData(text.lines[:3]))))
    whole = MethodsData(METHODS_VERSION, "long", "", {}, (), (), (method,))
    assert truncated(whole, packed_size(whole)) is whole
    cut = truncated(whole, packed_size(whole) // 3)
    assert packed_size(cut) <= packed_size(whole) // 3
    long, short = cut.methods[0].views
    left = 5_000 - (len(long.text.lines) - 1)
    assert long.text.lines[-1].text == f"... {left} lines omitted" and short == method.views[1]


def full(value: object, generator: random.Random) -> Any:
    """A value of the same type that takes much room, also compressed."""
    match value:
        case str():
            return generator.randbytes(30_000).hex()
        case dict():
            added = {generator.randbytes(20).hex(): generator.choice([*value.values()]) for _ in range(1500)}
            return {**value, **added}
        case tuple():
            changed = [each for each in value if isinstance(each, msgspec.Struct)]
            if not changed:
                return (*value, *(generator.randbytes(20).hex() for _ in range(1500)))
            names = changed[0].__struct_fields__
            texts = [name for name in names if isinstance(getattr(changed[0], name), str)]
            return tuple(
                msgspec.structs.replace(each, **{name: generator.randbytes(30).hex() for name in texts})
                for each in (*value, *generator.choices(changed, k=max(100_000 // size(changed[0]), 20)))
            )
    return value


def variants(value: Any, generator: random.Random) -> Iterator[tuple[str, Any]]:
    """The data with one field after the other filled, in each kind of structure of which it has one."""
    for name in value.__struct_fields__:
        held = getattr(value, name)
        first = held[0] if isinstance(held, tuple) and held else ""
        if held and isinstance(held, str | dict) or first and isinstance(first, str | msgspec.Struct):
            yield name, msgspec.structs.replace(value, **{name: full(held, generator)})
        inside = held[0] if isinstance(held, tuple) and held else held
        if isinstance(inside, data.Data):
            for field, made in variants(inside, generator):
                filled = (made, *held[1:]) if isinstance(held, tuple) else made
                yield f"{name}.{field}", msgspec.structs.replace(value, **{name: filled})


def test_whatever_field_is_full_an_output_fits() -> None:
    generator = random.Random(0)
    seen = set()
    for name, filled in variants(sample(), generator):
        record = Record(filled)
        bundle, _ = record._repr_mimebundle_()
        assert on_disk(bundle) <= MOST_ON_DISK, (name, on_disk(bundle))
        cut = unpacked(bundle[data.MIME])
        assert cut == record.data or cut.cut and "not all is here" in cut.notes[-1], name
        assert cut.compiles, name
        seen.add(name)
    assert {"error", "compiles", "compiles.stages.body.lines", "errors", "history"} < seen
