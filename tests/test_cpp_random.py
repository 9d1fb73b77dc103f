"""Random programs through the C++ backend equal eager: shapes, layouts, dtypes and fusions that nobody thought of."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import torch
from hypothesis import HealthCheck, given, settings

from compiling import compile_fx, flat

Step = tuple[str, int, int]

# Continuous functions only: a difference in the last place must not grow.
UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sin": torch.sin,
    "tanh": torch.tanh,
    "exp": lambda x: torch.exp(x.clamp(-4, 4)),
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
    "half": lambda x: x.to(torch.bfloat16).to(torch.float32) * 0.5,
    "whole": lambda x: x * ((x * 0).to(torch.int32) + 3).to(torch.float32),
    "transposed": lambda x: x.transpose(-1, -2),
    "copied": lambda x: x.transpose(-1, -2).contiguous(),
    "flipped": lambda x: x.flip(-1),
    "padded": lambda x: torch.nn.functional.pad(x, (1, 1))[..., 1:-1],
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax of columns": lambda x: torch.softmax(x, -2),
    "centerd": lambda x: x - x.mean(-1, keepdim=True),
    "scaled": lambda x: x / (1 + x.abs().amax(-2, keepdim=True)),
    "normalized": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    "masked": lambda x: torch.where(x > 0, x, -0.1 * x),
    "lower": torch.tril,
    "rolled": lambda x: x.roll(1, -1),
    "joined": lambda x: torch.cat([x, x.cos()], -1)[..., : x.shape[-1]],
    "best": lambda x: x + x.gather(-1, x.argmax(-1, keepdim=True)),
    "counted": lambda x: x * torch.arange(x.shape[-1]),
    "rows": lambda x: x[torch.arange(x.shape[-2]).flip(0)],
    "summed": lambda x: x.sum(-1, keepdim=True).expand(x.shape),
}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "product": lambda x, y: (x @ y.t()) / x.shape[-1] @ y if x.shape == y.shape else x,
}

programs = st.lists(
    st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 7), st.integers(0, 7)), min_size=2, max_size=9
)
shapes = st.sampled_from([(3, 5), (16, 16), (7, 64), (130, 33), (1, 9), (65, 300)])


def interpret(steps: list[Step], x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Each step reads earlier values and adds one; the last ones, and sums of the others, are returned."""
    values = [x, y]
    for name, first, second in steps:
        a, b = values[first % len(values)], values[second % len(values)]
        if name in UNARY:
            values.append(UNARY[name](a))
        elif a.shape == b.shape:
            values.append(BINARY[name](a, b))
        else:
            values.append(a + b.mean())
    return (*values[-2:], *(value.sum(0) for value in values[2:-2]))


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(programs, shapes, st.booleans())
def test_random_programs_equal_eager(steps: list[Step], shape: tuple[int, int], dynamic: bool) -> None:
    generator = torch.Generator().manual_seed(len(steps))
    x, y = torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)

    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return interpret(steps, x, y)

    wanted = flat(program(x, y))
    got = compile_fx(program, x, y, dynamic=dynamic and min(shape) > 1)(x, y)
    for mine, eager in zip(got, wanted, strict=True):
        assert mine.dtype == eager.dtype and mine.shape == eager.shape
        torch.testing.assert_close(mine, eager, rtol=1e-3, atol=2e-3, equal_nan=True)
