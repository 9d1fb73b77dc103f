"""What counts as equal to eager, and what does not."""

import torch

from explorer.check.accuracy import compare


def test_rounding_passes_and_a_wrong_element_does_not() -> None:
    x = torch.randn(64)
    assert compare({"output": x * (1 + 1e-6)}, {"output": x}).ok
    wrong = x.clone()
    wrong[3] += 0.01
    found = compare({"output": (x, wrong)}, {"output": (x, x)})
    assert not found.ok and found.parted == found.where == "output[1]"


def test_shape_dtype_and_kind_are_compared() -> None:
    x = torch.zeros(4)
    assert "float64" in compare({"output": x.double()}, {"output": x}).parted
    assert not compare({"output": x[None]}, {"output": x}).ok
    assert not compare({"output": 3}, {"output": 4}).ok
    assert not compare({"output": {"a": x}}, {"output": {"a": x, "b": x}}).ok
    assert compare({"output": [float("nan"), "s", None]}, {"output": [float("nan"), "s", None]}).ok


def test_nan_and_infinity_have_their_places() -> None:
    x = torch.tensor([1.0, float("nan"), float("inf")])
    assert compare({"output": x}, {"output": x.clone()}).ok
    assert not compare({"output": x.nan_to_num()}, {"output": x}).ok


def test_nothing_but_rounding_is_held_against_its_group() -> None:
    """The gradient of a bias before a batch norm is zero in exact arithmetic: only its size can be compared."""
    weight, noise = torch.randn(8), 1e-9 * torch.randn(8)
    expected = {"output": torch.zeros(()), "gradient": {"weight": weight, "bias": noise}}
    found = compare({"output": torch.zeros(()), "gradient": {"weight": weight, "bias": -3 * noise}}, expected)
    assert found.ok and found.largest_relative < 1e-4
    assert not compare({**expected, "gradient": {"weight": weight, "bias": noise + 1e-5}}, expected).ok
    assert not compare({"output": -3 * noise}, {"output": noise}).ok


def test_devices_are_compared_and_meta_has_no_values() -> None:
    on_meta, on_cpu = torch.ones(2, device="meta"), torch.ones(2)
    assert compare({"output": on_meta}, {"output": on_meta}).ok
    parted = compare({"output": on_cpu}, {"output": on_meta}).parted
    assert "on cpu in place of" in parted and parted.endswith("on meta")
