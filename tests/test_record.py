"""The record on disk: round trips, and every kind of file that is not one."""

import gzip
import os
import resource
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import torch

import explorer
from benchmarks.provenance import unsourced
from explorer.ir import record as data
from explorer.records import to_record
from explorer.records.data import methods, operator_meanings, provenance, ranks
from explorer.show import record as shown
from explorer.show.record import Record, RecordError, decode, unpacked
from records import empty, sample

ENCODED = msgspec.json.encode(sample())


def structures(value: object) -> set[type]:
    if isinstance(value, (data.Data, data.LineData)):
        return {type(value)}.union(*(structures(getattr(value, name)) for name in value.__struct_fields__))
    if isinstance(value, (tuple, list)):
        return set().union(*map(structures, value))
    return set().union(*map(structures, value.values())) if isinstance(value, dict) else set()


def test_the_sample_has_every_structure() -> None:
    """What the tests of the views rest on."""
    declared = {kind for kind in vars(data).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)}
    assert declared - {data.Data, data.DiffData} == structures(sample())


def test_notebooks_of_earlier_versions_name_these_types() -> None:
    kinds = ("record", "diff", "methods", "ranks")
    expected = [f"application/vnd.explorer.{kind}+json" for kind in kinds]
    assert [data.MIME, data.DIFF_MIME, methods.METHODS_MIME, ranks.RANKS_MIME] == expected


@pytest.mark.parametrize("name", ["r.explore.json", "r.explore.json.gz"])
@pytest.mark.parametrize("made", [sample, empty])
def test_round_trip(tmp_path: Path, name: str, made) -> None:
    saved = Record(made()).save(tmp_path / name)
    assert Record.load(saved).data == made()
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["r.html", "r.HTM"])
def test_a_record_is_not_saved_under_the_name_of_a_page(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="call to_html"):
        Record(empty()).save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_saving_follows_the_umask(tmp_path: Path) -> None:
    assert (Record(empty()).save(tmp_path / "r.json").stat().st_mode & 0o777) == 0o666 & ~shown._umask()


BROKEN = {
    "empty": (b"", "not a record"),
    "text": (b"hello\n", "not a record"),
    "binary": (bytes(range(256)), "not a record"),
    "another_json": (b'{"cells": []}', "not a record"),
    "array": (b"[1, 2]", "not a record"),
    "truncated": (ENCODED[: len(ENCODED) // 2], "not a record"),
    "truncated_gz": (gzip.compress(ENCODED)[:-20], "damaged"),
    "corrupt_gz": (gzip.compress(ENCODED)[:40] + b"\0" * 40, "damaged"),
    "deep": (b'{"version": 1, "compiles": ' + b"[" * 100_000, "not a record"),
    "not_utf8": (ENCODED.replace(b'"scaled"', b'"\xff\xfe"', 1), "valid record"),
    "wrong_type": (ENCODED.replace(b'"guards":[', b'"guards":[7,', 1), r"guards"),
    "missing_field": (b'{"version": 2, "compiles": []}', "title"),
    "newer": (ENCODED.replace(b'"version":2', b'"version":99', 1), "version 99.*upgrade"),
    "older": (ENCODED.replace(b'"version":2', b'"version":1', 1), "version 1.*explore its program again"),
    "version_of_wrong_type": (b'{"version": "1", "compiles": []}', "not a record"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_not_a_record_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    contents, said = BROKEN[kind]
    file = tmp_path / f"{kind}.explore.json"
    file.write_bytes(contents)
    with pytest.raises(RecordError, match=said) as refused:
        Record.load(file)
    assert str(file) in str(refused.value)


def test_a_newer_record_is_refused_although_its_fields_are_unknown() -> None:
    with pytest.raises(RecordError, match="upgrade"):
        decode(b'{"version": 99, "compiles": {"of": "another kind"}}', "file")


def test_a_half_is_called_by_its_compile_and_its_word() -> None:
    for id, halves in {
        "f0": {"f0": "f0", "f0_forward": "f0 forward", "": "f0"},
        "f0.1": {"f0_1": "f0.1", "f0_1_backward": "f0.1 backward"},
        "s0.1": {"s0.1_inference": "s0.1 inference", "g0_forward": "s0.1 g0_forward"},
    }.items():
        compile = msgspec.structs.replace(sample().compiles[0], id=id)
        assert {half: compile.half_title(half) for half in halves} == halves


def test_unknown_fields_of_this_version_are_ignored() -> None:
    assert decode(ENCODED.replace(b'"version":2', b'"version":2,"seen":[{}]', 1), "file") == sample()


def test_a_bomb_is_refused_before_it_goes_off(tmp_path: Path) -> None:
    file = tmp_path / "bomb.json.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        for _ in range((shown.LARGEST >> 24) + 1):
            packed.write(bytes(1 << 24))
    assert file.stat().st_size < shown.LARGEST >> 6
    with pytest.raises(RecordError, match="100 MB"):
        Record.load(file)


def test_a_large_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "large.json"
    with file.open("wb") as sparse:
        sparse.truncate(shown.LARGEST + 1)
    monkeypatch.setattr(shown, "_unpacked", lambda packed, name: pytest.fail("it was unpacked"))
    with pytest.raises(RecordError, match="100 MB"):
        Record.load(file)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as refused:
        Record(empty()).save(tmp_path / "absent" / "r.json")
    assert refused.value.filename == str(tmp_path / "absent" / "r.json")


FULL_DISK = """
import resource, sys
sys.dont_write_bytecode = True  # Python does not notice that it was cut
sys.path[:0] = sys.argv[2:]
from records import sample
from explorer.show.record import Record
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for write in (Record(sample()).save, Record(sample()).to_html):
    try:
        write(sys.argv[1])
    except OSError as error:
        print(error.filename)
"""


def test_a_full_disk_leaves_the_old_file_alone(tmp_path: Path) -> None:
    """A file size limit stands in for a disk without room: the write fails in the middle either way."""
    old = tmp_path / "r.json"
    old.write_text("old")
    assert resource.getrlimit(resource.RLIMIT_FSIZE)
    here = Path(__file__).parent
    command = [sys.executable, "-c", FULL_DISK, str(old), str(here), str(here.parent)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert ran.stdout.split() == [str(old)] * 2, ran.stderr
    assert old.read_text() == "old"
    assert os.listdir(tmp_path) == ["r.json"]


def test_the_whole_chain_is_reached_from_both_ends() -> None:
    links = provenance.provenance(sample().compiles[0])
    source = "/home/someone/programs/scaled.py:2"
    assert {"k1:3", "k1.asm:1", "w:2", "buf0", "aten.mul", "fx.mul", "f0@6"} <= links.effects(source)
    assert links.source_lines("k1.asm:1") == {source}


def test_lines_without_a_source_are_counted_by_their_reason() -> None:
    total, reasons = unsourced(sample().compiles[0])
    assert total == 6
    assert reasons == {"signature": 1, "wrapper": 1}


def test_diff_names_the_stages_that_differ() -> None:
    before = sample()
    line = data.LineData("buf0[i0, i1] = x[i0, i1] * 3", "buf0", ("aten.mul",))
    [compile] = before.compiles
    changed = tuple(
        msgspec.structs.replace(s, body=data.TextData((line,))) if s.name == "lower" else s for s in compile.stages
    )
    after = msgspec.structs.replace(before, compiles=(msgspec.structs.replace(compile, stages=changed),))
    found = Record(before).diff(Record(after))
    assert found.changed == ("f0 lower forward",)
    assert "+buf0[i0, i1] = x[i0, i1] * 3" in found.text()


def test_the_mime_bundle_is_the_record_itself() -> None:
    bundle, metadata = Record(sample())._repr_mimebundle_()
    assert not metadata
    assert unpacked(bundle[data.MIME]) == sample()
    assert "<script" not in bundle["text/html"]
    assert bundle["text/plain"] == repr(Record(sample()))


def test_listings_print_and_index() -> None:
    record = Record(sample())
    assert [stage.name for stage in record.stages][:2] == ["capture", "trace"]
    assert "aten.mul(x, scale)" in repr(record.graphs)
    assert "x.dtype is torch.float32" in repr(record.guards)
    assert "print after the call" in repr(record.breaks)
    assert "they read the same buffer" in repr(record.schedule)
    assert "vmulps" in str(record.kernels[0].lowered["asm"])
    assert repr(Record(empty()).kernels) == "(none)"


def test_events_of_types_that_nobody_knows() -> None:
    class Thing:
        pass

    assert to_record.event("it happened") == data.EventData("str", {"what": "it happened"})
    assert to_record.event(Thing()) == data.EventData("Thing", {"what": "Thing"})


def test_meanings_are_of_what_the_record_names() -> None:
    """Each instruction of the compiles, and each operator that the table knows; no other name."""
    compiles = sample().compiles
    said = to_record.meanings(compiles)
    instructions = {each.op for compile in compiles for code in compile.codes for each in code.instructions}
    targets = {
        node.target for compile in compiles for stage in compile.stages if stage.graph for node in stage.graph.nodes
    }
    assert instructions & set(said) and set(said) <= instructions | targets
    assert "aten.mul.Tensor" not in to_record.meanings(())


@pytest.mark.parametrize(
    ("target", "name"),
    [("aten.mul.Tensor", "mul"), ("torch.nn.functional.relu", "relu"), ("add_", "add_"), ("aten", "aten"), ("", "")],
)
def test_operators_are_known_without_package_and_overload(target: str, name: str) -> None:
    assert operator_meanings.short_name(target) == name


def test_a_symbol_that_a_guard_makes_a_number_is_specialized() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] == 6 else x

    record = explorer.explore(f, dynamic=True, time=False)(torch.ones(6, 4))
    rows, columns = record.data.compiles[0].symbols
    assert (rows.status, columns.status) == ("specialized", "dynamic")
    assert rows.why.endswith("a guard requires that it equals 6")
