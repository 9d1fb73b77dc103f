"""Records and logs as a stranger might make them, other ones each day: the errors say what is wrong with the file, and
nothing else is raised, hangs or grows. `python -m benchmarks hostile` goes on for longer, in a browser too."""

import datetime
import json
import os
import socket
import time
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from benchmarks.hostile.attempt import log, record, used
from benchmarks.hostile.command import logs, records
from benchmarks.hostile.mutate import grown, lists
from explorer.show.cli import main

TODAY = os.environ.get("FUZZ_SEED", datetime.date.today().isoformat())


@pytest.mark.parametrize("number", range(40))
def test_mutated_records(number: int, tmp_path) -> None:
    outcome = record(f"{TODAY} {number}", records()[:1], tmp_path)
    assert not outcome.wrong, outcome


@pytest.mark.parametrize("number", range(12))
def test_long_lists(number: int, tmp_path) -> None:
    """Each list of a record may be long, the items in chains: others each day."""
    base, chosen = records()[0], Random(f"{TODAY} {number}")
    name, path = chosen.choice(list(lists(json.loads(base)).items()))
    outcome = used(name, grown(base, path, 200_000, chosen.random() < 0.5), base, tmp_path)
    assert not outcome.wrong and outcome.seconds < 5, outcome


@pytest.mark.parametrize("number", range(6))
def test_mutated_logs(number: int, tmp_path) -> None:
    outcome = log(f"{TODAY} {number}", logs(), tmp_path)
    assert not outcome.wrong, outcome


def test_a_seed_gives_the_same_files_again(tmp_path) -> None:
    def made(what, bases) -> bytes:
        what("seed 1", bases, tmp_path)
        return (tmp_path / ("hostile.log" if what is log else "hostile.explore.json")).read_bytes()

    assert made(record, records()) == made(record, records())
    assert made(log, logs()) == made(log, logs())


def not_files(folder: Path) -> dict[str, Path]:
    """What is no file of ours, and may make who reads it wait, or fill the memory."""
    found = {name: folder / f"{name}.explore.json" for name in ("fifo", "socket", "folder", "sparse", "link", "circle")}
    os.mkfifo(found["fifo"])
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(found["socket"]))  # the length of a name is limited
    found["folder"].mkdir()
    found["sparse"].touch()
    os.truncate(found["sparse"], 2**40)
    found["link"].symlink_to("/dev/zero")
    found["circle"].symlink_to(found["circle"])
    return {**found, "device": Path("/dev/full"), "kernel's log": Path("/proc/kmsg"), "absent": folder / "absent"}


READING = (
    ("report",), ("report", "--text"), ("diff",), ("repro",), ("trace",), ("import",), ("ranks",), ("step",), ("dap",),
    ("run",), ("course", "--check"), ("class",), ("cache", "--folder"),
)  # fmt: skip
"""Commands that are given a file or folder to read."""


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_what_is_no_file_is_refused_at_once_by_each_command(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    more = {"diff": [str(tmp_path / "other.explore.json")], "repro": ["f0"]}.get(command[0], [])
    takes_folders = {"cache", "class", "import", "ranks"}
    for kind, path in not_files(tmp_path).items():
        if kind == "folder" and command[0] in takes_folders or kind == "absent" and command[0] == "cache":
            continue
        if command[0] == "run" and kind in ("fifo", "link", "device", "kernel's log", "sparse"):
            continue  # Python reads a script from whatever it is given
        started = time.monotonic()
        ended = CliRunner().invoke(main, [*command, str(path), *more])
        assert ended.exit_code in (1, 2) and isinstance(ended.exception, SystemExit), (kind, ended)
        assert ended.output.count("\n") < 12 and "Traceback" not in ended.output, kind
        assert time.monotonic() - started < 20, kind
