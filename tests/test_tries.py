"""What fusion tried, in that order: replayed, it leads to the kernels that were made."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

import explorer
from explorer.show.cli import main
from explorer.show.record import Record
from explorer.show.view.walk import Tries


def normalized(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.softmax(x * 2, -1)
    return (y * x).sum(0), torch.relu(x).flip(0), x + 1


def branches(x: Tensor) -> tuple[Tensor, Tensor]:
    return x + 1, x.flip(0) * 2


LINE = branches.__code__.co_firstlineno + 1
TOGETHER = f"add (line {LINE}) + mul (line {LINE})"


def tries_of(fn, *args: Tensor) -> Tries:
    record: Record = explorer.explore(fn, time=False)(*args)
    (tries,) = record.tries
    return tries


def spread(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, (4,)) + x.var(0)


@pytest.mark.parametrize("fn", [normalized, branches, spread, lambda x: x.var(0) + x.mean(1)[:4]])
def test_what_was_fused_by_the_end_are_the_kernels(fn) -> None:
    tries = tries_of(fn, torch.randn(8, 4))
    made = {frozenset(i.operations) for i in tries.half.schedule.items if i.kind == "kernel" and len(i.operations) > 1}
    assert {frozenset(each) for each in tries.kernels(len(tries) - 1)} == made


def test_a_pair_that_saves_nothing_is_put_off_and_asked_again() -> None:
    tries = tries_of(branches, torch.randn(4))
    assert [(tries.find("later:"), tries.find("fused:"))] == [([0], [1])]
    assert tries[0].first == tries[1].first and tries.kernels(0) == []
    assert "postponed" in tries.text(0) and TOGETHER in tries.text(1)


def test_operations_are_reported_by_what_they_compute_and_their_line() -> None:
    record = explorer.explore(lambda x: (y := x.exp(), y.flip(0) * 2, y.flip(0) * 3), time=False)(torch.randn(8, 4))
    line = f"line {test_operations_are_reported_by_what_they_compute_and_their_line.__code__.co_firstlineno + 1}"
    told = str(record.schedule)
    assert f"k0: exp ({line})" in told and f"not fused: exp ({line}) with mul ({line}, buf" in told
    assert f"mul ({line}, buf1), mul ({line}, buf2), with flip inlined" in told and "[buf1, buf2]" in told


def test_queries_say_why_and_about_what() -> None:
    tries = tries_of(normalized, torch.randn(8, 4))
    (refused, *_) = tries.find("refused:")
    assert not tries[refused].ok and tries[refused].why.title in tries.line(refused)
    assert tries.find(f"operation={tries[0].first} step<1") == [0]
    assert all(tries[each].score > 100 for each in tries.find("fused: saves>100"))
    assert tries.move(0, "try") == 1 and tries.move(0, "try", back=True) is None


def test_tries_are_kept_in_a_file_and_walked_in_a_terminal(tmp_path: Path) -> None:
    path = explorer.explore(branches, time=False)(torch.randn(4)).save(tmp_path / "b.explore.json")
    assert "FusionTried" not in {event.kind for event in Record.load(path).data.compiles[0].events}
    walked = CliRunner().invoke(main, ["step", str(path), "--fusion"], input="p\nf\nF\nq\n").stdout
    assert "f postponed" not in walked and "p postponed" in walked and f"kernels so far\n  {TOGETHER}" in walked
    found = CliRunner().invoke(main, ["step", str(path), "--fusion", "--find", "fused:"])
    assert found.exit_code == 0 and "   1  fused" in found.stdout
