"""On a card: the zoo, every scalar operation and every shape of reduction equal eager, and calls behave."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

from compiling import flat
from explorer.capture.adopt import adopt
from explorer.config import Config
from explorer.core.reasons import Unsupported
from explorer.ir.program import BuildOptions
from explorer.pipeline import compile_graph, native
from programs import MODELS, ZOO, Model, Program, assert_same, observe
from test_cpp_scalar import BINARY_FLOAT, BINARY_INT, UNARY, apply_all, points
from triton_programs import fresh_dynamo

pytestmark = pytest.mark.gpu

@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return Config(build=BuildOptions(cache_dir=tmp_path_factory.mktemp("kernels")))


def through(config: Config, **how: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Our back end behind stock's front end. What autograd refuses runs eagerly; what later stages refuse fails."""

    def backend(module: fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        try:
            return compile_graph(adopt(module, example_inputs), config).call
        except Unsupported as refusal:
            if refusal.why.code.startswith(("codegen.", "runtime.")):
                raise
            return module.forward

    return lambda fn: torch.compile(fn, backend=backend, **how)


def cases(subjects: tuple[Any, ...]) -> list[Any]:
    pairs = [(s, train) for s in subjects for train in ((False, True) if getattr(s, "grad", True) else (False,))]
    return [pytest.param(s, train, id=f"{s.name}-{'train' if train else 'run'}") for s, train in pairs]


@pytest.mark.parametrize(("subject", "train"), [*cases(ZOO), *cases(MODELS)])
def test_equals_eager(subject: Program | Model, train: bool, config: Config) -> None:
    with torch.device("cuda"), fresh_dynamo():
        try:
            expected = observe(subject, train=train)
        except (RuntimeError, TypeError, AssertionError) as error:
            pytest.skip(f"eager itself does not run on a card: {error}")
        actual = observe(subject, through(config), train=train)
    rtol, atol = (getattr(subject, name, 1e-3) for name in ("rtol", "atol"))
    assert_same(actual, expected, rtol=max(1e-4, 10 * rtol), atol=max(1e-4, 10 * atol))


def compiled(fn: Callable[..., Any], config: Config, **how: Any) -> Callable[..., Any]:
    torch.compiler.reset()
    return through(config, **how)(fn)


def same_as_eager(fn: Callable[..., Any], *inputs: torch.Tensor, config: Config, tolerance: float = 2e-5) -> None:
    for mine, eager in zip(flat(compiled(fn, config)(*inputs)), flat(fn(*inputs)), strict=True):
        assert (mine.dtype, mine.shape, mine.stride()) == (eager.dtype, eager.shape, eager.stride())
        torch.testing.assert_close(mine, eager, equal_nan=True, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unary_operations(dtype: torch.dtype, config: Config) -> None:
    x = points(dtype).cuda()
    x = x[x.abs() > 1e-30]  # subnormals are flushed by the card's own functions
    names = [name for name in UNARY if name != "digamma"]
    same_as_eager(partial(apply_all, names), x, config=config, tolerance=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_binary_operations(dtype: torch.dtype, config: Config) -> None:
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 88.0, 3.7, -7.0, 1e5], dtype=dtype, device="cuda")
    a, b = (x.flatten().contiguous() for x in torch.meshgrid(values, values, indexing="ij"))
    same_as_eager(partial(apply_all, BINARY_FLOAT), a, b, config=config, tolerance=1e-5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integer_operations(dtype: torch.dtype, config: Config) -> None:
    values = torch.tensor([1, 2, 3, 5, 7, 12, 100, torch.iinfo(dtype).max], dtype=dtype, device="cuda")
    if dtype.is_signed:
        values = torch.cat([values, torch.tensor([-2, -3, -100], dtype=dtype, device="cuda")])
    a, b = (x.flatten().contiguous() for x in torch.meshgrid(values, values, indexing="ij"))
    names = [name for name in BINARY_INT if name not in ("shl", "shr", "pow")]
    same_as_eager(partial(apply_all, names), a, b, config=config)
    same_as_eager(partial(apply_all, ["shl", "shr", "pow"]), a, b.abs() % 7, config=config)


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
def test_reductions(shape: tuple[int, ...], dim: Any, dtype: torch.dtype, config: Config) -> None:
    x = (torch.rand(shape, device="cuda") * 9).to(dtype)

    def every(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = (x.sum(dim), x.amax(dim), x.amin(dim), (x > 8).any(), (x > 8).all())
        return found if isinstance(dim, tuple) else (*found, x.argmax(dim), x.argmin(dim), x.max(dim).values)

    same_as_eager(every, x, config=config, tolerance=1e-2 if dtype == torch.bfloat16 else 1e-4)


@pytest.mark.parametrize("length", [100, 1024, 4096, 5000, 50257])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows(length: int, dtype: torch.dtype, config: Config) -> None:
    def rows(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.softmax(-1), torch.nn.functional.layer_norm(x, (length,), w), x.log_softmax(-1), x.softmax(0)

    x, w = torch.randn(300, length, device="cuda", dtype=dtype), torch.randn(length, device="cuda", dtype=dtype)
    same_as_eager(rows, x, w, config=config, tolerance=2e-2 if dtype == torch.bfloat16 else 1e-4)


def test_many_update_one_element(config: Config) -> None:
    into, where = torch.zeros(100, device="cuda"), torch.randint(0, 100, (100_000,), device="cuda")
    values = torch.ones(100_000, device="cuda")
    same_as_eager(lambda t, i, v: t.scatter_add(0, i, v), into, where, values, config=config)
    same_as_eager(lambda t, i, v: t.index_put((i,), v, accumulate=True) * 2, into, where, values, config=config)


def test_inputs_may_start_anywhere(config: Config) -> None:
    """Kernels read 16 bytes at a time; an input that does not start there takes other kernels."""
    call = compiled(lambda x: x.sin() + 1, config)
    whole = torch.randn(1001, device="cuda")
    for x in (whole[:1000], whole[1:], whole[:1000]):
        torch.testing.assert_close(call(x), x.sin() + 1)


def test_sizes_may_change(config: Config) -> None:
    call = compiled(lambda x: (x.softmax(-1), x.t().contiguous(), x.sum(0)), config, dynamic=True)
    for shape in ((30, 70), (500, 33), (7, 9000)):
        x = torch.randn(shape, device="cuda")
        for mine, eager in zip(call(x), (x.softmax(-1), x.t().contiguous(), x.sum(0)), strict=True):
            torch.testing.assert_close(mine, eager)


def test_calls_on_other_streams_do_not_share_memory(config: Config) -> None:
    """Two streams run one program at the same time; each has a pool of its own."""
    call = compiled(lambda x, y: ((x @ y).relu() @ y).sin() @ x, config)
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


def test_positions_beyond_32_bits(config: Config) -> None:
    if torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("needs 12 GiB")
    x = torch.zeros(2**31 + 64, dtype=torch.int8, device="cuda")
    x[-1] = 3
    result = compiled(lambda x: x + 1, config)(x)
    assert (result[0].item(), result[-1].item()) == (1, 4)


def test_the_native_target_is_the_card(config: Config) -> None:
    seen = []

    def backend(module: fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        seen.append(native(adopt(module, example_inputs)))
        return module.forward

    torch.compiler.reset()
    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(3, device="cuda"))
    major, minor = torch.cuda.get_device_capability()
    assert torch.version.hip or str(seen[0]) == f"cuda:sm_{major}{minor}"


def test_kernels_are_timed(config: Config, tmp_path: Path) -> None:
    made = []

    def backend(module: fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        made.append(compile_graph(adopt(module, example_inputs), config))
        return made[0].call

    torch.compiler.reset()
    x = torch.randn(4096, 4096, device="cuda")
    with torch.no_grad():
        torch.compile(lambda x: x.softmax(-1) @ x, backend=backend)(x)
    (half,) = made[0].halves
    seconds = half.profile((x,))
    assert {kernel.id for kernel in half.generated.kernels} <= seconds.keys()
    assert all(0 < value < 1 for value in seconds.values())
