"""Records and logs as a stranger might make them, other ones each day: the errors say what is wrong with the file, and
nothing else is raised, hangs or grows. `python -m benchmarks hostile` goes on for longer, in a browser too."""

import datetime
import json
import os
from random import Random

import pytest

from benchmarks.hostile.attempt import log, record, used
from benchmarks.hostile.command import logs, records
from benchmarks.hostile.mutate import grown, lists

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
