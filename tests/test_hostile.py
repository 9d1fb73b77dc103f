"""Files of strangers: what is no regular file, what has no end, what would speak to the terminal, numbers without
bounds, and patterns that would take the square of a line's length."""

import importlib
import inspect
import json
import os
import pkgutil
import re
import time
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from click.testing import CliRunner
from rich.table import Table
from rich.text import Text

import explorer
from explorer import Ranks
from explorer.core.files import regular, visible
from explorer.ir import record as data
from explorer.records import diagnosis, logs
from explorer.records.data import dynamo, methods, ranks
from explorer.records.logs.printed import graph, guards
from explorer.records.logs.read import LogError, read
from explorer.records.logs.trace import graph_break
from explorer.show import view
from explorer.show.cli import main
from explorer.show.cli.progress import SafeConsole
from explorer.show.comparison import Compared
from explorer.show.notebook.types import structs
from explorer.show.record import Record, RecordError, decode
from records import compiled, empty, sample

IRREGULAR = ("pipe", "endless", "folder", "absent")


def irregular(kind: str, folder: Path) -> Path:
    path = folder / "given.explore.json"
    if kind == "pipe":
        os.mkfifo(path)
    if kind == "folder":
        path.mkdir()
    return Path("/dev/zero") if kind == "endless" else path


@pytest.mark.parametrize("kind", IRREGULAR)
@pytest.mark.parametrize("reader", [regular, Record.load, Compared.load, Ranks.load, read])
def test_only_regular_files_are_read(kind: str, reader, tmp_path: Path) -> None:
    path = irregular(kind, tmp_path)
    with pytest.raises((OSError, LogError, RecordError), match=re.escape(path.name)):
        reader(path)


@pytest.mark.parametrize("kind", IRREGULAR)
@pytest.mark.parametrize("command", [("report",), ("import",), ("ranks",), ("diff", "same")])
def test_commands_say_in_a_sentence_what_they_cannot_read(kind: str, command: tuple[str, ...], tmp_path: Path) -> None:
    path = str(irregular(kind, tmp_path))
    given = [command[0], path, path] if len(command) > 1 else [command[0], path]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2 and "Traceback" not in done.output and path in done.output.replace("\n", "")


@pytest.mark.parametrize("long", ["x{}", "\tx{}", 'V1121 18:29:14.686000 1 a.py:1] {{"str": ["{}", 2]}}'])
@pytest.mark.parametrize("ended", [True, False])
def test_of_a_line_that_is_too_long_the_beginning_is_read_and_what_comes_after_it(
    long: str, ended: bool, tmp_path: Path, monkeypatch
) -> None:
    for name in ("read.LONGEST", "log_entries.MOST_PAYLOAD"):
        monkeypatch.setattr(f"explorer.records.logs.{name}", 1000)
    entry = 'V1121 18:29:14.686000 1 a.py:1] {"artifact": {"name": "NAME"}}\n\tpayload\n'
    file = tmp_path / "long.log"
    file.write_text(entry.replace("NAME", "before") + long.format("x" * 5000) + "\n" * ended)
    if ended:
        file.write_text(file.read_text() + entry.replace("NAME", "after"))
    (found,) = read(file)
    assert "1 place of the log could not be read" in found.error
    stages = [stage.name for compile in found.compiles for stage in compile.stages]
    assert stages == ["before"] * (long[0] != "\t") + ["after"] * ended


@pytest.mark.parametrize("limit", ["MOST_ENTRIES", "MOST_PAYLOAD"])
def test_a_log_without_an_end_is_cut(limit: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(f"explorer.records.logs.log_entries.{limit}", 20)
    file = tmp_path / "long.log"
    file.write_text('V1121 18:29:14.686000 1 a.py:1] {"artifact": {"name": "a"}}\n\tpayload payload payload\n' * 50)
    found = read(file)[0]
    assert ("cut here" if limit == "MOST_ENTRIES" else "left out") in found.error
    assert sum(len(compile.stages) for compile in found.compiles) <= 20


def test_texts_beyond_what_a_record_keeps_are_cut_and_reported(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("explorer.records.logs.trace.MOST_TEXT", 3000)
    file = tmp_path / "long.log"
    payload = "".join(f"\tline {n}\n" for n in range(200))
    file.write_text(f'V1121 18:29:14.686000 1 a.py:1] {{"artifact": {{"name": "a"}}}}\n{payload}' * 9)
    found = read(file)[0]
    texts = [stage.text() for stage in found.compiles[0].stages]
    assert "line 199" in texts[0] and "line 19" in texts[-1] and "characters are left out" in texts[-1]
    assert any("are truncated" in note for note in found.notes) and not found.error


CONTROL = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\x08\u202e\x00"


def test_no_control_character_reaches_a_terminal(tmp_path: Path) -> None:
    evil = msgspec.structs.replace(
        sample(), title=CONTROL, notes=(CONTROL,), compiles=(msgspec.structs.replace(compiled(), title=CONTROL),)
    )
    path = str(Record(evil).save(tmp_path / "r.explore.json"))
    other = str(Record(sample()).save(tmp_path / "o.explore.json"))
    log = tmp_path / f"{CONTROL[:-1]}.log"
    log.write_text('V1121 18:29:14.686000 1 a.py:1] {"str": ["a", 1]}\n\tcut\x1b[2J\n')
    commands = [
        ["report", path], ["report", path, "--text"], ["ranks", path, other], ["diff", path, other],
        ["import", str(log), "-o", str(tmp_path)], ["report", str(log)], ["import", "no\x1bsuch"],
    ]  # fmt: skip
    for command in commands:
        shown = CliRunner().invoke(main, command).output
        assert shown.replace("\t", "").replace("\n", "").isprintable(), command


def with_control(value: Any, under: str, key: str = "") -> Any:
    """The value with control characters in all strings under one key."""
    if isinstance(value, dict):
        return {name: with_control(each, under, name) for name, each in value.items()}
    if isinstance(value, list):
        return [with_control(each, under, key) for each in value]
    return CONTROL + value if isinstance(value, str) and key == under else value


@pytest.mark.parametrize("key", ["detail", "where", "first_mismatch", "engine", "title", "notes", "file", "function"])
def test_whatever_of_a_record_is_printed_has_no_control_character(key: str) -> None:
    made = with_control(msgspec.to_builtins(sample()), key)
    record = Record(msgspec.convert(json.loads(json.dumps(made)), data.RecordData))
    for name in (name for name in dir(record) if not name.startswith("_")):
        found = getattr(record, name)
        for each in (found, *(found if isinstance(found, tuple | list) else ())):
            if not callable(each) and not isinstance(each, str):
                for shown in (str(each), repr(each)):
                    assert shown.replace("\t", "").replace("\n", "").isprintable(), (name, shown)


def test_the_console_writes_its_own_colors_and_obeys_nobody_elses() -> None:
    console = SafeConsole(force_terminal=True, color_system="standard", width=80)
    table = Table(CONTROL)
    table.add_row(Text(CONTROL, style="red"))
    with console.capture() as caught:
        console.print(Text("own", style="red"), table, CONTROL)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", caught.get())
    assert "\x1b" not in shown and "\\x1b[2J" in shown and shown != caught.get()
    assert visible("a\tb\n\x7f\ud800é") == "a\tb\n\\x7f\\ud800é"


HALF = "\ud800"


def test_halves_of_characters_are_written_out(tmp_path: Path) -> None:
    """A program's strings and file names may hold them, UTF-8 cannot: in each text of a record."""
    plain = sample()
    evil = with_halves(plain)
    record = Record(evil)
    loaded = Record.load(record.save(tmp_path / "r.explore.json.gz"))
    assert loaded.data.title == plain.title + r"\ud800"
    json.dumps(record._repr_mimebundle_(), ensure_ascii=False).encode()
    json.dumps(record.diff(record)._repr_mimebundle_(), ensure_ascii=False).encode()
    assert record.to_html(tmp_path / "r.html").read_text()


def with_halves(value: Any) -> Any:
    match value:
        case str():
            return value + HALF
        case msgspec.Struct():
            return type(value)(*(with_halves(getattr(value, name)) for name in value.__struct_fields__))
        case tuple():
            return tuple(map(with_halves, value))
        case dict():
            return {with_halves(key): with_halves(each) for key, each in value.items()}
    return value


def test_a_program_with_halves_of_characters_is_explored_and_saved(tmp_path: Path) -> None:
    table = {HALF: torch.ones(3)}

    def f(x, mode=HALF):
        return x + table[mode]

    record = explorer.explore(f, time=False)(torch.ones(3))
    assert not record.breaks and not record.errors
    assert "ud800" in Record.load(record.save(tmp_path / "r.explore.json")).guards.text()


# ------------------------------------------------------------------------------------------------------------- numbers


def bounded(kind: object) -> bool:
    """Whether each whole number in a type has bounds."""
    if typing.get_origin(kind) is typing.Annotated:
        inner, meta = typing.get_args(kind)
        return None not in (meta.ge, meta.le) if inner is int else bounded(inner)
    return kind is not int and all(map(bounded, typing.get_args(kind)))


@pytest.mark.parametrize("module", [data, ranks, methods])
def test_every_number_of_a_record_has_bounds(module) -> None:
    for struct in structs(module, data.Data):
        for field in msgspec.structs.fields(struct):
            assert bounded(field.type), f"{struct.__name__}.{field.name}: use Whole, Line, or bounds of its own"


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "-" + "9" * 30, "1e400", "NaN", "0.5"])
def test_numbers_out_of_bounds_are_refused(number: str) -> None:
    encoded = msgspec.json.encode(sample())
    at = encoded.index(b'"first_line":') + len(b'"first_line":')
    end = encoded.index(b",", at)
    with pytest.raises(RecordError, match="given"):
        decode(encoded[:at] + number.encode() + encoded[end:], "given")


def test_compiles_of_one_id_are_refused() -> None:
    twice = msgspec.structs.replace(sample(), compiles=(compiled(), compiled()))
    with pytest.raises(RecordError, match="two of its compiles have the id 'f0'"):
        decode(msgspec.json.encode(twice), "given")


@pytest.mark.parametrize("rank", ["99999999999", "²", "9" * 5000, "-1", "1e3", "", "٣"])
def test_a_rank_that_cannot_be_one(rank: str, tmp_path: Path) -> None:
    made = Record(msgspec.structs.replace(empty(), environment={"rank": rank}))
    found = Ranks.load(made.save(tmp_path / "r.explore.json"))
    assert found.data.missing == () and len(found) == 1


def test_ranks_far_apart_are_reported_as_ranges(tmp_path: Path) -> None:
    made = [Record(msgspec.structs.replace(empty(), environment={"rank": rank})) for rank in ("3", "999999")]
    assert "ranks 0 to 2, 4 to 999998 left no logs here" in Ranks.of(made).text()


@pytest.mark.parametrize(
    "entry",
    [
        '{"rank": 99999999999999999999, "str": ["a", 1]}',
        '{"rank": true, "str": ["a", 1]}',
        '{"str": ["a", ' + "9" * 5000 + "]}",
        '{"str": ["a", 99999999999]}',
        '{"artifact": {"name": "\\ud800"}, "frame_id": 0, "frame_compile_id": 0}',
        '{"artifact": {"name": "a"}, "frame_id": ' + "9" * 400 + ', "frame_compile_id": 0}',
        '{"describe_tensor": {"id": 0, "dtype": "f", "device": "cpu", "size": [' + "9" * 40 + "]}}",
        '{"create_symbol": {"symbol": "s", "val": "²", "vr": "", "source": ""}}',
        '{"chromium_event": {}}',
        '{"compilation_metrics": {"guard_latency_us": 1e999, "x": NaN}}',
    ],
)
def test_numbers_of_logs_are_bounded(entry: str, tmp_path: Path) -> None:
    """Each makes a record that can be saved, loaded and shown."""
    file = tmp_path / "hostile.log"
    file.write_text(f"V1121 18:29:14.686000 1 a.py:1] {entry}\n" * 2 + "\t[" * 3)
    found = Ranks.of([Record(each) for each in read(file)])
    assert Record.load(found[0].save(tmp_path / "r.explore.json")).data == found[0].data
    assert found.text() and not found.data.missing


# ------------------------------------------------------------------------------------------------------------ patterns


def patterns() -> list[tuple[str, re.Pattern[str], tuple[str, ...]]]:
    """Every pattern that is tried on texts of strangers, and how."""
    return list(_patterns())


def _patterns() -> Iterator[tuple[str, re.Pattern[str], tuple[str, ...]]]:
    inner = (importlib.import_module(f"{folder.__name__}.{each.name}")
             for folder in (logs, view) for each in pkgutil.iter_modules(folder.__path__))  # fmt: skip
    for module in (*inner, dynamo, dynamo, diagnosis):
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            for each in value if isinstance(value, tuple) else (value,):
                found = each[0] if isinstance(each, tuple) and each else each
                if isinstance(found, re.Pattern):
                    used = re.findall(rf"\b{name}\.(match|search|fullmatch)\(", source)
                    used += re.findall(rf"(?s) in {name}:\n.{{1,99}}?pattern\.(match|search|fullmatch)\(", source)
                    yield f"{module.__name__}.{name}", found, tuple(set(used)) or ("search",)


def literals(pattern: str) -> set[str]:
    """The words that stand in a pattern."""
    plain = re.sub(r"\\[dwsSWDbB]|\(\?:|[\[\]()*+?|^$]|\{[0-9,]*\}", "\0", pattern)
    return {word.replace("\\", "") for word in plain.split("\0")} - {""}


def texts_for(words: set[str]) -> list[Callable[[int], str]]:
    pumped = sorted(words | {" ", "1", "a", "'", '"', "\n", "/", ":", "0/1: ", " # ", "L['", "| ", "\n  "})
    heads = ["", *sorted(words, key=len)[-2:]]
    return [lambda n, h=head, p=piece: h + p * (n // len(p)) + "\0" for head in heads for piece in pumped]


def seconds(work: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    work(text)
    return time.process_time() - started


def grows_like_the_square(work: Callable[[str], object], made: Callable[[int], str]) -> bool:
    """Whether eight times the text takes far more than eight times as long; where it takes no time at all it may."""
    for few, many in ((2_000, 16_000), (8_000, 64_000)):
        if seconds(work, made(many)) > 0.03 and seconds(work, made(many)) > 24 * seconds(work, made(few)):
            return True
    return False


@pytest.mark.parametrize(("name", "pattern", "used"), patterns())
def test_patterns_take_time_in_proportion_to_the_text(
    name: str, pattern: re.Pattern[str], used: tuple[str, ...]
) -> None:
    for made in texts_for(literals(pattern.pattern)):
        for how in used:
            assert not grows_like_the_square(getattr(pattern, how), made), (name, how, made(60))


BREAK = {"Graph break in user code at ", "Reason: ", "Explanation: ", "Hint: ", '  File "', '", line ', "/gb/gb"}
TOLD: dict[str, tuple[Callable[[str], object], set[str]]] = {
    "break": (graph_break, BREAK),
    "guards": (lambda text: guards("s0", text), {"+- GUARD: ", "| ", "GuardManager: source=", ", accessed_by=", " # "}),
    "graph": (lambda text: graph("g", "g", text)[2], {"# File: ", " in ", ", code: ", "a:1"}),
    "reason": (lambda text: dynamo.recompiled(text, {}), {"0/0: ", "tensor '", "' ", "mismatch", "  # "}),
}


@pytest.mark.parametrize("name", TOLD)
def test_readers_take_time_in_proportion_to_the_text(name: str) -> None:
    work, words = TOLD[name]
    for made in texts_for(words):
        assert not grows_like_the_square(work, made), made(60)


def test_the_check_finds_a_pattern_that_takes_the_square() -> None:
    quadratic = re.compile(r"\s*-?\s*(\d+/\d+)")
    assert any(grows_like_the_square(quadratic.match, made) for made in texts_for(literals(quadratic.pattern)))
