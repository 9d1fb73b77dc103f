"""Infinities, NaNs, zeros of both signs, subnormals and the largest numbers: what is computed of them, and their
gradients, are of eager's kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import explorer

INF, NAN = float("inf"), float("nan")
Program = Callable[[torch.Tensor], Any]

OF_ELEMENTS: tuple[str, ...] = tuple(
    "abs neg exp exp2 expm1 log log1p log2 sqrt rsqrt sin tanh atan sinh asinh sigmoid erf erfc lgamma digamma "
    "reciprocal square ceil trunc round sign isnan isinf logit nan_to_num sinc relu elu selu silu mish softplus "
    "softsign hardswish hardsigmoid hardtanh leaky_relu logsigmoid hardshrink".split()
)
LOSSES: dict[str, Program] = {
    "soft_margin": lambda x: F.soft_margin_loss(x, torch.ones_like(x), reduction="none"),
    "soft_margin, mean": lambda x: F.soft_margin_loss(x, x.detach().sign()),
    "multi_margin": lambda x: F.multi_margin_loss(x.view(-1, 4), torch.arange(16) % 4, reduction="none"),
    "smooth_l1": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none"),
    "kl_div": lambda x: F.kl_div(x, torch.full_like(x, 0.3), reduction="none"),
}
OF_ROWS: dict[str, Program] = {
    "var": lambda x: x.var(1), "std": lambda x: x.std(0), "sum": lambda x: x.sum(1), "mean": lambda x: x.mean(0),
    "softmax": lambda x: x.softmax(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "amax": lambda x: x.amax(1), "prod": lambda x: x.prod(1), "norm": lambda x: x.norm(3, 1),
    "layer_norm": lambda x: F.layer_norm(x, (8,)), "group_norm": lambda x: F.group_norm(x, 2),
    "rms_norm": lambda x: F.rms_norm(x, (8,)), "cumsum": lambda x: x.cumsum(1),
}  # fmt: skip


SHRUNK: dict[str, Program] = {"hardshrink": F.hardshrink, "softshrink": F.softshrink}


def kind(x: torch.Tensor, zeros: bool = False) -> list[str]:
    """Of each element: nan, inf, -inf, or a number; with `zeros` the sign of one that is 0, too."""
    special = (INF, -INF, 0.0) if zeros else (INF, -INF)
    return [str(v) if v != v or v in special else "number" for v in x.detach().flatten().tolist()]


def outcome(program: Program, x: torch.Tensor) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    result = program(x)
    if not result.requires_grad:
        return [result]
    return [result.detach(), *torch.autograd.grad(result, x, torch.ones_like(result))]


def agree(program: Program, compiled: Program, x: torch.Tensor) -> None:
    for expected, got in zip(outcome(program, x), outcome(compiled, x), strict=True):
        assert kind(expected) == kind(got)
        torch.testing.assert_close(got, expected, rtol=1e-2, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_elements(dtype: torch.dtype) -> None:
    limits = torch.finfo(dtype)
    values = (INF, -INF, NAN, -0.0, 0.0, limits.tiny / 4, limits.tiny, 1, -1, 0.5, -0.5, 1e-3, 3.7, -3.7, 6, -6)
    x = torch.tensor(values, dtype=dtype).repeat(4)  # as many as fill vectors: eager's remainders differ from them
    programs = [getattr(torch, name, None) or getattr(F, name) for name in OF_ELEMENTS]
    for start in range(0, len(programs), 16):
        part = programs[start : start + 16]
        results = explorer.compile(lambda x, part=part: [each(x) for each in part])(x)
        for each, result in zip(part, results, strict=True):
            assert kind(each(x), zeros=True) == kind(result, zeros=True), each


@pytest.mark.parametrize("name", SHRUNK)
def test_nothing_flows_to_a_nan_that_is_shrunk(name: str) -> None:
    x = torch.tensor([INF, -INF, NAN, -0.0, 0.5, -0.5, 1.0, -1.0]).repeat(4)
    agree(SHRUNK[name], explorer.compile(SHRUNK[name]), x)


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    x = torch.tensor([INF, -INF, NAN, -0.0, 0.0, 1.0, -2.0, 100.0, -100.0, -700.0, 3.0, -3.0, 11.0, 0.5, 2.0, -1.0])
    agree(LOSSES[name], explorer.compile(LOSSES[name]), x.repeat(4))


@pytest.mark.parametrize("name", OF_ROWS)
def test_rows(name: str) -> None:
    x = torch.linspace(-2, 3, 48).sin().view(6, 8)
    for row, column, value in ((0, 0, INF), (1, 2, -INF), (2, 3, NAN), (3, 5, 0.0)):
        x[row, column] = value
    agree(OF_ROWS[name], explorer.compile(OF_ROWS[name]), x)


@pytest.mark.parametrize("of", [torch.var_mean, torch.std_mean])
def test_the_mean_beside_a_spread(of: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> None:
    x = torch.linspace(-2, 3, 48).sin().view(6, 8)
    x[0, 0], x[1, 2], x[2, 3], x[3, 1], x[3, 6], x[4, 7], x[5, 3] = INF, -INF, NAN, INF, -INF, INF, INF
    for program in (lambda x: of(x, 1)[1], lambda x: of(x, dim=[0], correction=0, keepdim=True)[1], lambda x: of(x)[1]):
        agree(program, explorer.compile(program), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_deviation_whose_square_is_no_number(dtype: torch.dtype) -> None:
    x = torch.linspace(-2, 3, 48, dtype=torch.float64).sin().view(6, 8) * torch.finfo(dtype).max ** 0.7
    program = lambda x: x.std(1)  # noqa: E731
    agree(program, explorer.compile(program), x.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_sums_and_squares_that_are_no_numbers(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    x = torch.linspace(-2, 3, 48, dtype=torch.float64).sin().view(6, 8)
    x[0], x[1, 1:3], x[2], x[3], x[4] = largest, largest, x[2] * largest**0.5, -largest / 2, x[4] * largest / 4
    of_rows: list[Program] = [torch.var, torch.std, lambda x, *a: torch.var_mean(x, *a)[0], lambda x, *a: x.mean(*a)]
    for program in (*of_rows, lambda x, *a: torch.var_mean(x, *a)[1], lambda x, *a: torch.std_mean(x, *a)[1]):
        for dims in ((1,), ()) if dtype.itemsize >= 4 and program in of_rows[:2] else ((1,),):
            each = lambda x, program=program, dims=dims: program(x, *dims)  # noqa: E731
            given = x.to(dtype)[:3] if dims == () else x.to(dtype)
            found, expected = explorer.compile(each)(given), each(given)
            assert kind(found) == kind(expected)
            torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_norm_of_elements_whose_sum_is_no_number(dtype: torch.dtype) -> None:
    x = torch.linspace(-1, 1, 64, dtype=dtype).sin().view(2, 4, 8)
    x[:, :, 1:3] = torch.finfo(dtype).max
    for norm in (lambda x: F.layer_norm(x, (8,)), lambda x: F.group_norm(x.view(8, 1, 8), 1)):
        found, expected = explorer.compile(norm)(x), norm(x)
        assert torch.equal(found, expected) and torch.equal(found, torch.zeros_like(found))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_gradient_of_a_certain_chance(dtype: torch.dtype) -> None:
    chances = torch.tensor([0.0, -0.0, 1.0, 0.5, 1e-4], dtype=dtype)
    for reduction in ("none", "mean"):
        program = lambda x, r=reduction: F.binary_cross_entropy(x, torch.full_like(x, 0.3), reduction=r)  # noqa: E731
        for expected, got in zip(outcome(program, chances), outcome(explorer.compile(program), chances), strict=True):
            torch.testing.assert_close(got, expected, equal_nan=True)


@pytest.mark.parametrize("made", [torch.linspace, torch.logspace])
def test_numbers_between_infinities(made: Callable[..., torch.Tensor]) -> None:
    for steps in (1, 2, 5, 6):
        for ends in ((0.0, INF), (-INF, 1.0), (-INF, INF), (NAN, 1.0), (-2.0, 3.0)):
            program = lambda x, ends=ends, steps=steps: x + made(*ends, steps)  # noqa: E731
            agree(program, explorer.compile(program), torch.zeros(steps))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_infinities_are_resampled(dims: int) -> None:
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[dims]
    x = torch.arange(4.0**dims).sin()
    x[0], x[1], x[-1] = INF, INF, -INF
    x = x.view(1, 1, *[4] * dims)
    for given in ({"size": 7}, {"size": 3}, {"scale_factor": 2.0}, {"size": 9, "align_corners": True}):
        program = lambda x, given=given: F.interpolate(x, mode=linear, **given)  # noqa: E731
        agree(program, explorer.compile(program), x)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_images_resampled_to_the_size_that_they_have(dims: int) -> None:
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[dims]
    x = torch.arange(2 * 3 * 4**dims, dtype=torch.float32).sin().view(2, 3, *[4] * dims)
    for mode in ("nearest", "nearest-exact", linear):
        for scale in (1.1, 2.05, (1.5,) * (dims - 1) + (1.1,)):
            program = lambda x, mode=mode, scale=scale: F.interpolate(x, scale_factor=scale, mode=mode)  # noqa: E731
            agree(program, explorer.compile(program), x)


def test_a_number_that_is_complex_and_infinite() -> None:
    """The gradient of 0 ** z is multiplied by log(0)."""
    program = lambda z: 0.0**z  # noqa: E731
    z = torch.tensor([1 + 2j, 0.3 - 1j])
    for expected, got in zip(outcome(program, z), outcome(explorer.compile(program), z), strict=True):
        torch.testing.assert_close(got, expected, equal_nan=True)


OF_COMPLEX: tuple[str, ...] = tuple("abs angle sgn sqrt log log1p exp sin cosh atan reciprocal square sigmoid".split())


def test_complex_numbers() -> None:
    parts = (INF, -INF, NAN, -0.0, 0.0, 1.0, -2.5, 0.3)
    z = torch.tensor([complex(a, b) for a in parts for b in parts])
    programs: list[Program] = [getattr(torch, name) for name in OF_COMPLEX]
    programs += [lambda x: 1 / x, lambda x: x * 1, lambda x: x**2, lambda x: x**0.5, lambda x: x * x.conj()]
    compiled = explorer.compile(lambda *given: [program(x) for program, x in zip(programs, given, strict=True)])
    given = [z.clone().requires_grad_() for _ in programs]
    results = compiled(*given)
    found = torch.autograd.grad(results, given, [torch.ones_like(each) for each in results])
    for program, *got in zip(programs, results, found, strict=True):
        for made, expected in zip(got, outcome(program, z), strict=True):
            of_parts = [torch.view_as_real(x.detach()) if x.is_complex() else x.detach() for x in (made, expected)]
            assert kind(of_parts[0]) == kind(of_parts[1]), program
            torch.testing.assert_close(*of_parts, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_complex_numbers_of_which_one_function_is_differentiated() -> None:
    programs: list[Program] = [torch.log, torch.exp, torch.sqrt, lambda x: x * x]
    z = torch.tensor([0j, complex(INF, 0), 1 + 1j]).repeat(8)
    compiled = explorer.compile(lambda z: [program(z) for program in programs])
    for k, program in enumerate(programs):
        expected, got = (outcome(each, z)[1] for each in (program, lambda z, k=k: compiled(z)[k]))
        assert kind(torch.view_as_real(expected)) == kind(torch.view_as_real(got))
