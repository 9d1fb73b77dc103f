"""The benchmarks' own arithmetic and printing; what they measure is for `make bench`."""

import math

import pytest
from click.testing import CliRunner

from benchmarks import __main__ as command
from benchmarks import recording
from benchmarks.programs import models, of_program
from benchmarks.report import Aim, Report, Selection, geometric_mean, percent
from programs import MODELS, NAMED, TRANSFORMERS


def test_means_and_shares() -> None:
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert math.isnan(geometric_mean([]))
    assert percent(1, 4) == "25.0 %"
    assert percent(0, 0) == "-"


def test_a_selection_tells_of_what_it_takes() -> None:
    told: list[str] = []
    selection = Selection("soft", told.append)
    assert [name for name in ("softmax", "sum") if selection.of(name)] == ["softmax"] == told


def test_every_network_appears_twice() -> None:
    names = [named.name for named in models()]
    available = [model for model in (*MODELS, *TRANSFORMERS) if model.available]
    assert len(names) == len(set(names)) == 2 * len(available)


def test_large_inputs_are_larger() -> None:
    program = next(p for p in NAMED.values() if p.large)
    small, large = (of_program(program, large=size).args[0].numel() for size in (False, True))
    assert large > small


@pytest.mark.parametrize("met", [True, False])
def test_a_missed_aim_is_an_exit_code(monkeypatch: pytest.MonkeyPatch, met: bool) -> None:
    report = Report("Title", ("a", "b"), (("1", "2"),), (Aim("quick", "5 s", met),), ("a note",))
    monkeypatch.setitem(command.BENCHMARKS, "cold", lambda selection: report)
    result = CliRunner().invoke(command.main, ["cold"])
    assert result.exit_code == (0 if met else 1)
    assert ("reached" if met else "MISSED") in result.stdout
    assert "a note" in result.stdout and "quick: 5 s" in result.stdout


def test_recording_changes_no_text() -> None:
    trial = of_program(NAMED["softmax_by_hand"])
    recorded, unrecorded = recording.texts(trial, recorded=True), recording.texts(trial, recorded=False)
    sources, wrappers = recorded
    assert sources and wrappers
    assert recorded == unrecorded
