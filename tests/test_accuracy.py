"""What counts as equal to eager, and what does not."""

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from explorer.compiler.config import Config
from explorer.core.recorder import SILENT
from explorer.records.check.accuracy import (
    TOLERANCE,
    Exact,
    NotRepeatable,
    against_eager,
    compare,
    exact_values,
    tensor_error,
)
from explorer.records.check.calls import InPlace, RepeatedCalls
from explorer.records.check.float64 import Float64Run
from explorer.records.check.isolate import reached
from explorer.records.check.leaves import Leaves
from explorer.records.check.process import OutputLine
from explorer.records.check.trial import Repetition, Trial
from explorer.records.stock.fix_attempts import FixAttempt, _judged, by_stock
from explorer.records.stock.fixes import Fix
from explorer.show.notebook.live import Retiming


def test_rounding_passes_and_a_wrong_element_does_not() -> None:
    x = torch.randn(64)
    assert compare({"output": x * (1 + 1e-6)}, {"output": x}).ok
    wrong = x.clone()
    wrong[3] += 0.01
    found = compare({"output": (x, wrong)}, {"output": (x, x)})
    assert not found.ok and found.first_mismatch == found.where == "output[1]"


def test_shape_dtype_and_kind_are_compared() -> None:
    x = torch.zeros(4)
    assert "float64" in compare({"output": x.double()}, {"output": x}).first_mismatch
    assert not compare({"output": x[None]}, {"output": x}).ok
    assert not compare({"output": 3}, {"output": 4}).ok
    assert not compare({"output": {"a": x}}, {"output": {"a": x, "b": x}}).ok
    assert compare({"output": [float("nan"), "s", None]}, {"output": [float("nan"), "s", None]}).ok


def test_nan_and_infinity_have_their_places() -> None:
    x = torch.tensor([1.0, float("nan"), float("inf")])
    assert compare({"output": x}, {"output": x.clone()}).ok
    assert not compare({"output": x.nan_to_num()}, {"output": x}).ok


def test_a_result_that_is_no_number_is_named_and_a_given_one_is_not() -> None:
    x, nan = torch.ones(4), torch.tensor([1.0, float("nan")])
    assert compare({"output": (x, nan)}, {"output": (x, nan)}).nan == "output[1]"
    assert compare({"output": x, "state": nan}, {"output": x, "state": nan}).nan == ""


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_results_are_compared_by_what_they_hold(layout: torch.layout) -> None:
    given = torch.eye(3)
    one, other = (x.to_sparse(layout=layout) for x in (given, given * 2))
    assert compare({"output": one}, {"output": one}).ok
    assert compare({"output": one}, {"output": other}).first_mismatch == "output"
    record = explorer.explore(lambda x: x.to_sparse(layout=layout), time=False)(given)
    assert record.data.timing is not None and record.data.timing.accuracy is not None
    assert not record.data.timing.accuracy.first_mismatch


def test_only_rounding_is_counted_against_its_group() -> None:
    """The gradient of a bias before a batch norm is zero in exact arithmetic: only its size can be compared."""
    weight, noise = torch.randn(8), 1e-9 * torch.randn(8)
    expected = {"output": torch.zeros(()), "gradient": {"weight": weight, "bias": noise}}
    found = compare({"output": torch.zeros(()), "gradient": {"weight": weight, "bias": -3 * noise}}, expected)
    assert found.ok and found.largest_relative < 1e-4
    assert not compare({**expected, "gradient": {"weight": weight, "bias": noise + 1e-5}}, expected).ok
    assert not compare({"output": -3 * noise}, {"output": noise}).ok


def test_an_error_that_rounding_explains_is_told_by_the_size_of_its_tensor() -> None:
    """A sum whose terms cancel out: rounding changes a tenth of what is left."""
    eager, exact = torch.tensor([0.3]), torch.tensor([0.31], dtype=torch.float64)
    found = compare({"output": eager + 0.03}, {"output": eager}, {"output": Exact(exact, 300.0, True, False)})
    assert found.ok and found.largest_relative == pytest.approx(0.1)


def test_the_errors_reported_are_those_of_one_tensor() -> None:
    """The largest absolute error is seldom that of the tensor with the largest relative one."""
    drawn = random.Random(0)
    for _ in range(50):
        scales = [10.0 ** drawn.randrange(-3, 7) for _ in range(4)]
        expected = {"gradient": [torch.linspace(0.5, 1, 5) * scale for scale in scales]}
        errors = [10.0 ** -drawn.uniform(1, 9) for _ in scales]
        ours = {"gradient": [leaf * (1 + error) for leaf, error in zip(expected["gradient"], errors, strict=True)]}
        exact = {
            f"gradient[{n}]": Exact(leaf.double(), 0.0, True, False) for n, leaf in enumerate(expected["gradient"])
        }
        found = compare(ours, expected, exact)
        of = [tensor_error(*each, max(scales)) for each in zip(ours["gradient"], expected["gradient"], strict=True)]
        n = max(range(4), key=lambda n: of[n][1])
        absolute, relative, close = of[n]
        assert (found.largest_absolute, found.largest_relative) == (absolute, relative) and found.ok is close
        assert (found.where, found.own_error, found.eager_error) == (
            f"gradient[{n}]" if absolute else "",
            absolute,
            0.0,
        )


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e-10, 1e-4, 1.0, 1e6, 1e20])
@pytest.mark.parametrize("beside", [0.0, 1.0, 1e10])
def test_a_wrong_output_of_any_magnitude_is_a_mismatch(scale: float, beside: float) -> None:
    expected = {"output": [torch.linspace(-1, 1, 5) * scale, torch.full((3,), beside)]}
    for factor, close in ((1 + 1e-6, True), (1.001, False), (0.5, False), (0.0, False)):
        assert compare({"output": [expected["output"][0] * factor, expected["output"][1]]}, expected).ok is close


@pytest.mark.parametrize("ours, eager", [(float("inf"), 1.0), (1.0, float("nan")), (float("inf"), -float("inf"))])
def test_a_number_that_is_not_finite_in_one_of_the_two_is_said_to_be_what_it_is(ours: float, eager: float) -> None:
    found = compare({"output": torch.tensor([[0.0, ours]])}, {"output": torch.tensor([[0.0, eager]])})
    assert found.first_mismatch == f"output[0, 1]: {ours} instead of {eager}" and found.mismatch == "value"


def test_devices_are_compared_and_meta_has_no_values() -> None:
    on_meta, on_cpu = torch.ones(2, device="meta"), torch.ones(2)
    assert compare({"output": on_meta}, {"output": on_meta}).ok
    first_mismatch = compare({"output": on_cpu}, {"output": on_meta}).first_mismatch
    assert "on cpu instead of" in first_mismatch and first_mismatch.endswith("on meta")


LAYER = nn.Linear(8, 8)


def helper(x: torch.Tensor) -> torch.Tensor:
    return LAYER(x)


def with_default(x: torch.Tensor, p: torch.Tensor = torch.ones(8, requires_grad=True)) -> torch.Tensor:  # noqa: B008
    return x * p


def closing() -> Callable[..., Any]:
    layers, added = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), torch.randn(8, requires_grad=True)
    return lambda x: layers(x) + added


class Holder:
    def __init__(self) -> None:
        self.scale, self.parts = torch.randn(8, requires_grad=True), [torch.randn(8, requires_grad=True)]

    def run(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.parts[0] * torch.ones(8, requires_grad=True)


class Reaching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(8, 8)
        self.same = self.one

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.same(self.one(x)) + LAYER.weight.sum()


@pytest.mark.parametrize(
    ("fn", "args", "names"),
    [
        (lambda x: torch.relu(LAYER(x)), (), "LAYER.bias LAYER.weight"),
        (lambda x: helper(x) * 2, (), "LAYER.bias LAYER.weight"),
        (torch.compile(helper, backend="eager"), (), "LAYER.bias LAYER.weight"),
        (with_default, (), "p"),
        (closing(), (), "added layers.0.bias layers.0.weight layers.1.bias layers.1.weight"),
        (Holder().run, (), "parts[0] scale"),
        (Reaching(), (), "LAYER.weight one.bias one.weight"),
        (functools.partial(lambda layer, x: layer(x), LAYER), (), "args[0].bias args[0].weight"),
        (lambda x, layers: layers["a"](x), ({"a": LAYER},), "layers['a'].bias layers['a'].weight"),
    ],
)
def test_gradients_have_the_names_of_the_tensors_that_they_are_of(fn: Any, args: tuple[Any, ...], names: str) -> None:
    """And not those of their places in the autograd graph, which a compiler lays out in another way."""
    found = Trial(fn, (torch.randn(4, 8), *args), {}).contestant().observe().gradients
    assert sorted(found) == names.split()


def sums_to_zero(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean()).sum()


def normed(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.batch_norm(x, None, None, training=True).sum()


def written_in_place(x: torch.Tensor) -> torch.Tensor:
    y = torch.cat([x, -x]).clone()
    y[: len(x)].add_(1).mul_(3)
    y.view(2, -1)[0] -= 3
    return (y.view(2, -1)[0] / 3 + y.view(2, -1)[1]).sum()


def of_halves(x: torch.Tensor) -> torch.Tensor:
    return (x.bfloat16() @ x.bfloat16().t()).relu().sum(-1)


@pytest.mark.parametrize("fn", [sums_to_zero, normed, written_in_place, of_halves, nn.LSTM(8, 8)])
def test_a_tolerance_is_scaled_to_what_was_summed(fn: Any) -> None:
    """Of a sum that is about 0 nothing but rounding is left, and another order of it gives another."""
    trial = Trial(fn, (torch.randn(64, 8),), {})
    expected = trial.contestant().observe().values()
    exact = exact_values(trial.contestant, expected)
    assert exact and all(each.complete for each in exact.values())
    for name, judge in exact.items():
        if name == "output":
            nearly, wrong = judge.value + judge.rounding, judge.value + 30 * judge.rounding
            dtype = expected["output"]["output"].dtype
            results = [{**expected, "output": value.to(dtype)} for value in (nearly, wrong)]
            near, far = (compare(actual, expected, exact) for actual in results)
            assert near.ok and near.own_error is not None and near.eager_error is not None
            assert far.first_mismatch == "output"


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.float32])
def test_shadows_are_no_part_of_the_run(dtype: torch.dtype) -> None:
    """A disturbed value of float64 was written into the program's own."""
    torch.manual_seed(0)
    x, w = torch.randn(5, 1, dtype=dtype), torch.randn(5, 3, dtype=dtype)

    def program(x: torch.Tensor) -> torch.Tensor:
        y = (x @ w[:1]).add_(w)
        return (y - y.mean(0)).cumsum(0)

    expected = program(x.clone())
    with Float64Run(dict.fromkeys(TOLERANCE, 1e-3)) as run:
        found = program(given := x.clone())
    assert torch.equal(found, expected) and torch.equal(given, x)
    assert torch.allclose(run.exact(found).to(dtype), expected, atol=1e-5) and run.rounding(found) > 1e-5


@pytest.mark.parametrize("seed", range(3))
def test_rounding_is_no_difference_in_float64(seed: int) -> None:
    """The gradients of x and weight are 0, but for the rounding of the mean, times 1 / sqrt(eps)."""
    torch.manual_seed(seed)
    x, weight, scale = (torch.randn(n, 1, dtype=torch.float64) for n in (5, 1, 5))
    module = nn.LayerNorm(1, dtype=torch.float64)
    module.load_state_dict({"weight": weight[0], "bias": weight[0]})

    def step(x: torch.Tensor) -> torch.Tensor:
        return (module(x * 3) * scale).sum()

    trial = Trial(step, (x.requires_grad_(),), {}, grad=True)
    expected = trial.contestant().observe().values()
    actual = Trial(explorer.compile(step), (x,), {}, grad=True).contestant().observe().values()
    assert against_eager(trial.contestant, actual, expected).ok


def test_the_float64_run_draws_the_random_numbers_of_the_run() -> None:
    trial = Trial(lambda x: torch.rand_like(x) * x + torch.randn(8), (torch.randn(8),), {})
    expected = trial.contestant().observe().values()
    exact = exact_values(trial.contestant, expected)
    assert torch.allclose(exact["output"].value.float(), expected["output"]["output"])


def test_an_exploration_uses_the_float64_run() -> None:
    """The call is made in place, so that its results are copied before the state is restored."""
    torch.manual_seed(0)
    x = torch.randn(64, 64).bfloat16()
    accuracy = explorer.explore(lambda x: (x @ x.t()).relu().sum(-1), time=False)(x).data.timing.accuracy
    assert 0.05 < accuracy.eager_error < 5 and 0.05 < accuracy.own_error < 5


class Trained:
    """The bias before a batch norm has a gradient of 0, but for rounding, of which Adam's first step takes the sign."""

    def __init__(self, features: int = 16) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(features, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.x = torch.randn(8, features)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss


def test_the_sign_of_rounding_is_no_difference() -> None:
    trained = Trained()
    accuracy = explorer.explore(lambda x: trained(x), time=False)(trained.x).data.timing.accuracy
    assert not accuracy.first_mismatch and accuracy.largest_absolute > 1e-4, "the signs are the same here"


@pytest.mark.parametrize("name", ["running_mean", "running_var", "bias"])
def test_a_wrong_step_is_a_difference(name: str) -> None:
    trained = Trained()
    trial = InPlace(trained, (trained.x,), {}, calls=RepeatedCalls(trained, (trained.x,), {}))
    trial.call()
    expected = trial.expected().values()
    exact = exact_values(trial.again, expected)
    wrong = next(place for place in expected["state"] if place.endswith(f"1.{name}']"))
    state = Leaves(expected["state"], **{wrong: expected["state"][wrong] + 1e-3})
    assert exact and compare({**expected, "state": state}, expected, exact).first_mismatch == wrong


def test_what_eager_does_not_give_twice_has_no_float64_run() -> None:
    calls = iter(range(9))
    trial = Trial(lambda x: x + next(calls), (torch.zeros(4),), {})
    with pytest.raises(NotRepeatable, match="first in output"):
        exact_values(trial.contestant, trial.contestant().observe().values())


def test_a_result_that_eager_does_not_give_twice_is_no_fault() -> None:
    ends = [torch.full((4,), float(n)) for n in range(9)]

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + ends[next(calls)].clone()

    calls = iter(range(9))
    trial = Trial(program, (torch.zeros(4),), {})
    found = against_eager(trial.contestant, {"output": torch.ones(4)}, trial.contestant().observe().values() | {})
    assert not found.ok and found.divergence is not None and not found.divergence.node
    assert "eager differs from itself" in found.divergence.detail


def test_a_result_as_far_from_float64_as_eagers_is_no_mismatch() -> None:
    x = torch.randn(256, 64).bfloat16()
    trial = Trial(lambda x: (x @ x.t()).sum(-1), (x,), {})
    expected = trial.contestant().observe().values()
    ours = {**expected, "output": (x.float() @ x.float().t()).sum(-1).bfloat16()}
    found = against_eager(trial.contestant, ours, expected)
    assert found.ok and found.own_error is not None and found.own_error <= (found.eager_error or 0.0)


def about_zero(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean()).sum()


ABOUT_ZERO = torch.linspace(-1, 1, 4096).sin() * 3 + 0.1


def test_all_comparisons_use_the_float64_run() -> None:
    eager = {"output": about_zero(ABOUT_ZERO)}
    for other in (explorer.compile(about_zero), in_another_order):
        assert compare({"output": other(ABOUT_ZERO)}, eager).first_mismatch, "a difference, without the float64 run"
    compared = explorer.compare(about_zero, methods=["explorer.compile"], time=False)(ABOUT_ZERO)
    assert [verdict.answer for verdict in compared.data.methods[0].verdicts][:2] == ["right", "right"]
    trial = Repetition(about_zero, (), {}, state=reached(about_zero, {"x": ABOUT_ZERO}).copied())
    timed = Retiming(trial, Config(), True).time({"x": (4096,)}, SILENT)
    assert timed.accuracy is not None and not timed.accuracy.first_mismatch
    mended, given = (Trial(fn, (ABOUT_ZERO,), {}) for fn in (in_another_order, about_zero))
    attempt = _judged(given, by_stock(mended, "fix0"), FixAttempt(Fix("")), "another order")
    assert attempt.against.startswith("largest error against eager")


def in_another_order(x: torch.Tensor) -> torch.Tensor:
    return (x - x.view(64, 64).mean(0).mean()).view(64, 64).sum(0).sum()


@pytest.mark.parametrize(
    ("ours", "eager", "same"),
    [
        ("loss 0.12345678", "loss 0.12345679", True),
        ("loss 0.1234", "loss 0.1235", True),
        ("loss 1.5", "loss 1.6", False),
        ("tensor([ 0.0000, 1.])", "tensor([-0.0000, 1.0000])", True),
        ("tensor([2.])", "tensor([1.])", False),
        ("step 3", "step 4", False),
        ("step 3", "step 3.0", False),
        ("loss 1.2e-09", "loss 1.3e-09", False),
        ("<A object at 0x7f00aa11bb22>", "<A object at 0x7f00aa11bb33>", True),
        ("a 1.0 b", "a 1.0 c", False),
        ("nan", "1.0", False),
    ],
)
def test_numbers_in_printed_text_are_judged_as_numbers_of_results(ours: str, eager: str, same: bool) -> None:
    printed = [{"printed": Leaves({"printed line 1": OutputLine("", each)})} for each in (ours, eager)]
    assert compare(*printed).ok is same


def test_text_that_only_one_prints_or_that_goes_elsewhere_is_reported() -> None:
    def told(ours: list[OutputLine], eager: list[OutputLine]) -> str:
        printed = [{"": Leaves((str(n), line) for n, line in enumerate(each))} for each in (ours, eager)]
        return compare(*printed).first_mismatch

    a, b = OutputLine("", "a"), OutputLine("", "b")
    assert told([a], [a, b]) == "1: nothing instead of 'b'"
    assert told([a, b], [a]) == "1: 'b' instead of nothing"
    assert told([b, a], [a, b]) == "0: 'b' instead of 'a'"
    assert told([OutputLine("stderr", "a")], [a]) == "0: 'stderr: a' instead of 'a'"
    assert told([a, b], [a, b]) == ""
