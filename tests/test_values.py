"""What each kernel wrote in one call, beside eager: the first NaN, and the first difference."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

import explorer
from explorer.ir.scalar import OPS
from explorer.show.cli import main
from explorer.show.cli.step import step
from explorer.show.record import Record
from explorer.show.view.walk import Values


def logged(x: Tensor, w: Tensor) -> Tensor:
    y = torch.relu(x @ w)
    z = torch.log(y - 0.5)
    return torch.softmax(y, -1) + z.sum()


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(8, 8), torch.randn(8, 8)


def explored(grad: bool = False) -> Record:
    x, w = inputs()
    return explorer.explore(logged, values=True, time=False)(x, w.requires_grad_(grad))


def test_the_values_are_those_of_the_call() -> None:
    x, w = inputs()
    (values,) = explored().values
    first = values[0]
    product = x @ w
    assert (first.kernel, first.node) == ("call0", "aten.mm")
    assert first.ours == first.eager and f"{product.min().item():.4g} to {product.max().item():.4g}" in first.ours
    assert f"; {product[0, 0].item():.4g} " in first.ours


def test_the_first_value_that_is_not_finite_is_found_with_the_node_where_it_begins() -> None:
    (values,) = explored().values
    (first, *_) = values.find("nan:")
    assert values[first].began == "aten.log"
    assert "begins with log (aten.log.default) in eager; as in eager" in values.line(first)
    assert values.find("differs:") == []
    assert values.move(first, "nan:", back=True) is None
    assert values.move(first, "write", back=True) == first - 1
    assert values.find(f"kernel={values[first].kernel} nonfinite>0 step<{first + 1}") == [first]


def test_both_halves_are_run() -> None:
    forward, backward = explored(grad=True).values
    assert (forward.half.name, backward.half.name) == ("f0_forward", "f0_backward")
    assert all(row.ours for row in (*forward, *backward))


def test_a_half_is_chosen_by_the_name_that_is_printed(capsys) -> None:
    record = explored(grad=True)
    for values in record.values:
        assert values.summary().startswith(f"{values.title()}: ")
        assert step(record, values.title(), 0, None, "values") == 0
        assert capsys.readouterr().out.startswith(f"{values.title()}, write 0 of ")
    assert [tries.title() for tries in record.tries] == ["f0 forward", "f0 backward"]
    with pytest.raises(ValueError, match="no values of a compile 'f9'; expected one of 'f0 forward', 'f0 backward'"):
        step(record, "f9", None, None, "values")


def test_a_wrong_kernel_is_where_values_begin_to_differ(monkeypatch) -> None:
    """Also without being asked, since results differ then."""
    monkeypatch.setitem(OPS["tanh"].cpp, "float32", "tanhf({0} * 1.5f)")
    x, w = inputs()
    record = explorer.explore(lambda x, w: torch.relu(torch.tanh(x @ w) @ w) * 2, time=False)(x, w)
    (values,) = record.values
    (first, *_) = values.find("differs:")
    parting = record.timing.accuracy.divergence
    assert values[first].kernel == parting.kernel and values[first].error > 0.01
    assert all(not row.differs for row in values[:first]) and first > 0


def test_what_is_not_run_again_says_why(tmp_path: Path) -> None:
    numbers = iter(range(9))

    def drawn(x: Tensor) -> Tensor:
        return torch.relu(x) * next(numbers)

    def noted(x: Tensor) -> Tensor:
        with open(tmp_path / "written", "w") as file:
            file.write("x")
        return torch.relu(x) * 2

    for fn in (drawn, noted):
        record = explorer.explore(fn, values=True, time=False)(torch.ones(3))
        assert not record.values and any("not recorded: the call cannot be made again" in n for n in record.data.notes)
    with pytest.raises(ValueError, match="our kernels"):
        explorer.explore(noted, values=True, engine="stock")


def test_values_are_kept_in_a_file_and_walked_in_a_terminal(tmp_path: Path) -> None:
    path = explored().save(tmp_path / "logged.explore.json")
    again: Values = Record.load(path).values[0]
    assert list(again) == list(explored().values[0])
    walked = CliRunner().invoke(main, ["step", str(path), "--values"], input="n\nN\nd\nq\n").stdout
    assert "writes buf" in walked and "n not finite" in walked and "No such step from here" in walked
    found = CliRunner().invoke(main, ["step", str(path), "--values", "--find", "nan:"])
    assert found.exit_code == 0 and "aten.log" in found.stdout
    assert CliRunner().invoke(main, ["step", str(path), "--values", "--find", "differs:"]).exit_code == 1
