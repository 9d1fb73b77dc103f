"""On a card: every scalar operation and every shape of reduction equal eager, and calls behave."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

import explorer
from card import Compiler, assert_like_eager
from test_cpp_scalar import BINARY_FLOAT, BINARY_INT, UNARY, apply_all, points

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unary_operations(dtype: torch.dtype, compiler: Compiler) -> None:
    x = points(dtype).cuda()
    x = x[x.abs() > 1e-30]  # subnormals are flushed by the card's own functions
    names = [name for name in UNARY if name != "digamma"]
    assert_like_eager(partial(apply_all, names), x, compiler=compiler, tolerance=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_binary_operations(dtype: torch.dtype, compiler: Compiler) -> None:
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 88.0, 3.7, -7.0, 1e5], dtype=dtype, device="cuda")
    a, b = (x.flatten().contiguous() for x in torch.meshgrid(values, values, indexing="ij"))
    assert_like_eager(partial(apply_all, BINARY_FLOAT), a, b, compiler=compiler, tolerance=1e-5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integer_operations(dtype: torch.dtype, compiler: Compiler) -> None:
    values = torch.tensor([1, 2, 3, 5, 7, 12, 100, torch.iinfo(dtype).max], dtype=dtype, device="cuda")
    if dtype.is_signed:
        values = torch.cat([values, torch.tensor([-2, -3, -100], dtype=dtype, device="cuda")])
    a, b = (x.flatten().contiguous() for x in torch.meshgrid(values, values, indexing="ij"))
    names = [name for name in BINARY_INT if name not in ("shl", "shr", "pow")]
    assert_like_eager(partial(apply_all, names), a, b, compiler=compiler)
    assert_like_eager(partial(apply_all, ["shl", "shr", "pow"]), a, b.abs() % 7, compiler=compiler)


REDUCED = [
    ((64, 1000), -1),
    ((1000, 64), 0),
    ((7, 70000), -1),
    ((70000, 7), 0),
    ((33, 5, 129), (0, 2)),
    ((3_000_000,), 0),
]


@pytest.mark.parametrize(("shape", "dim"), REDUCED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_reductions(shape: tuple[int, ...], dim: Any, dtype: torch.dtype, compiler: Compiler) -> None:
    x = (torch.rand(shape, device="cuda") * 9).to(dtype)

    def every(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = (x.sum(dim), x.amax(dim), x.amin(dim), (x > 8).any(), (x > 8).all())
        return found if isinstance(dim, tuple) else (*found, x.argmax(dim), x.argmin(dim), x.max(dim).values)

    assert_like_eager(every, x, compiler=compiler, tolerance=1e-2 if dtype == torch.bfloat16 else 1e-4)


@pytest.mark.parametrize("length", [100, 1024, 4096, 5000, 50257])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows(length: int, dtype: torch.dtype, compiler: Compiler) -> None:
    def rows(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.softmax(-1), torch.nn.functional.layer_norm(x, (length,), w), x.log_softmax(-1), x.softmax(0)

    x, w = torch.randn(300, length, device="cuda", dtype=dtype), torch.randn(length, device="cuda", dtype=dtype)
    assert_like_eager(rows, x, w, compiler=compiler, tolerance=2e-2 if dtype == torch.bfloat16 else 1e-4)


def test_many_update_one_element(compiler: Compiler) -> None:
    into, where = torch.zeros(100, device="cuda"), torch.randint(0, 100, (100_000,), device="cuda")
    values = torch.ones(100_000, device="cuda")
    assert_like_eager(lambda t, i, v: t.scatter_add(0, i, v), into, where, values, compiler=compiler)
    assert_like_eager(lambda t, i, v: t.index_put((i,), v, accumulate=True) * 2, into, where, values, compiler=compiler)


def test_inputs_may_start_anywhere(compiler: Compiler) -> None:
    """Kernels read 16 bytes at a time; an input that does not start there takes other kernels."""
    call = compiler(lambda x: x.sin() + 1)
    whole = torch.randn(1001, device="cuda")
    for x in (whole[:1000], whole[1:], whole[:1000]):
        torch.testing.assert_close(call(x), x.sin() + 1)


def test_sizes_may_change(compiler: Compiler) -> None:
    call = compiler(lambda x: (x.softmax(-1), x.t().contiguous(), x.sum(0)), dynamic=True)
    for shape in ((30, 70), (500, 33), (7, 9000)):
        x = torch.randn(shape, device="cuda")
        for mine, eager in zip(call(x), (x.softmax(-1), x.t().contiguous(), x.sum(0)), strict=True):
            torch.testing.assert_close(mine, eager)


def test_calls_on_other_streams_do_not_share_memory(compiler: Compiler) -> None:
    """Two streams run one program at the same time; each has a pool of its own."""
    call = compiler(lambda x, y: ((x @ y).relu() @ y).sin() @ x)
    x, y = torch.randn(2, 512, 512, device="cuda")
    wanted = call(x, y)
    streams = [torch.cuda.Stream() for _ in range(4)]
    found = []
    for _ in range(20):
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                found.append(call(x, y))
    torch.cuda.synchronize()
    for result in found:
        torch.testing.assert_close(result, wanted)


def test_positions_beyond_32_bits(compiler: Compiler) -> None:
    if torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("needs 12 GiB")
    x = torch.zeros(2**31 + 64, dtype=torch.int8, device="cuda")
    x[-1] = 3
    result = compiler(lambda x: x + 1)(x)
    assert (result[0].item(), result[-1].item()) == (1, 4)


def test_the_native_target_is_the_card() -> None:
    record = explorer.explore(lambda x: x + 1, time=False)(torch.ones(3, device="cuda"))
    major, minor = torch.cuda.get_device_capability()
    assert torch.version.hip or record.data.target == f"cuda:sm_{major}{minor}"


def test_kernels_are_timed() -> None:
    record = explorer.explore(lambda x: x.softmax(-1) @ x)(torch.randn(4096, 4096, device="cuda"))
    (half,) = (half for compile in record.data.compiles for half in compile.halves)
    seconds = [*(kernel.seconds for kernel in half.kernels), *half.extern_seconds.values()]
    assert len(seconds) == 2 and all(value is not None and 0 < value < 1 for value in seconds)
