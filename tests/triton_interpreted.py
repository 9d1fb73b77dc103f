"""Triton kernels in the interpreter, against eager: run by test_triton_interpreter.py in a process of its own, since a
process under TRITON_INTERPRET cannot compile. SHARD (as "0/4") picks a part of the zoo."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from compiling import flat
from explorer.compiler.codegen import GENERATE
from explorer.compiler.runtime import triton_call
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY
from explorer.ir import program as ir
from explorer.ir.program import Target
from lowering import OnCard, lowered
from programs import MODELS, ZOO, Model, Program, assert_same, observe
from test_cpp_scalar import BINARY_FLOAT, BINARY_INT, INF, INTEGERS, NAN, UNARY, apply_all, check, points
from triton_on_cpu import interpreted, launchers
from triton_programs import fresh_dynamo, through

SM_90 = Target("cuda", "90")

SHARD, SHARDS = map(int, os.environ.get("SHARD", "0/1").split("/"))
SLOW_TO_INTERPRET = {"resnet18", "unet"}

CASES: list[tuple[Program | Model, bool]] = [(m, True) for m in MODELS if m.name not in SLOW_TO_INTERPRET]
CASES += [(p, bool(p.grad)) for p in ZOO]  # a training step has the forward's kernels too
CASES = CASES[SHARD::SHARDS]

first_shard = pytest.mark.skipif(SHARD != 0, reason="another shard runs it")


@pytest.mark.parametrize(("program", "train"), CASES, ids=[f"{p.name}-{'train' if t else 'run'}" for p, t in CASES])
def test_zoo(program: Program | Model, train: bool, tmp_path: Path) -> None:
    def build(generated: ir.Generated) -> ir.Program:
        return ir.Program(generated, interpreted(generated, tmp_path), (), lambda: {})

    with fresh_dynamo():
        expected = observe(program, train=train)
        actual = observe(program, through(SM_90, tmp_path, build), train=train)
    assert_same(actual, expected, rtol=program.rtol, atol=program.atol)


def compiled(
    fn: Callable[..., Any], *inputs: torch.Tensor, folder: Path, dynamic: bool = False
) -> tuple[Callable[..., Any], ir.Generated]:
    """`fn` with interpreted kernels, for static sizes, or with `dynamic` for inputs of any size."""
    loops, _ = lowered(fn, *inputs, dynamic=dynamic)
    schedule = ORDER(FUSE(DEPENDENCIES(loops)))
    generated = GENERATE(ir.Generation(schedule, PLAN_MEMORY(schedule), SM_90))
    call = interpreted(generated, folder)
    return lambda *args: call(args), generated


def same_as_eager(fn: Callable[..., Any], *inputs: torch.Tensor, folder: Path, **how: Any) -> ir.Generated:
    call, generated = compiled(fn, *inputs, folder=folder, **how)
    for mine, eager in zip(call(*inputs), flat(fn(*inputs)), strict=True):
        assert mine.dtype == eager.dtype
        torch.testing.assert_close(mine, eager, equal_nan=True, rtol=2e-5, atol=2e-5)
    return generated


@first_shard
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unary_operations(dtype: torch.dtype, tmp_path: Path) -> None:
    x = points(dtype)
    x = x[x != 89.5]
    every = partial(apply_all, UNARY)
    for name, mine, eager in zip(UNARY, compiled(every, x, folder=tmp_path)[0](x), every(x), strict=True):
        check(name, mine, eager, x)


@first_shard
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool])
def test_a_number_on_the_host(dtype: torch.dtype, tmp_path: Path) -> None:
    """Graphs for a card, whose tensors are stood in for by the CPU's: the scalar is the kernel's parameter."""

    def fn(x: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
        t = s + 1
        return x * s + t, (x / t).sum(0), torch.where(x > 6, x, s)

    x, s = torch.arange(12.0).reshape(3, 4), torch.tensor(1.5).to(dtype)
    loops, _ = lowered(fn, OnCard(x), s)
    schedule = ORDER(FUSE(DEPENDENCIES(loops)))
    generated = GENERATE(ir.Generation(schedule, PLAN_MEMORY(schedule), SM_90))
    assert str(generated.wrapper).count(".item()") >= 2
    for mine, eager in zip(interpreted(generated, tmp_path)((x, s)), fn(x, s), strict=True):
        assert mine.dtype == eager.dtype
        torch.testing.assert_close(mine, eager)


@first_shard
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_binary_operations(dtype: torch.dtype, tmp_path: Path) -> None:
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 88.0, INF, -INF, NAN, 3.7, -7.0, 1e5], dtype=dtype)
    a, b = (x.flatten().contiguous() for x in torch.meshgrid(values, values, indexing="ij"))
    every = partial(apply_all, BINARY_FLOAT)
    results = compiled(every, a, b, folder=tmp_path)[0](a, b)
    for name, mine, eager in zip(BINARY_FLOAT, results, every(a, b), strict=True):
        check(name, mine, eager, a, b)


@first_shard
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_operations(dtype: torch.dtype, tmp_path: Path) -> None:
    info = torch.iinfo(dtype)
    values = torch.tensor([0, 1, 2, 3, 7, 12, 100, info.max, info.max - 1, info.min, info.min + 1], dtype=dtype)
    if info.min < 0:
        values = torch.cat([values, torch.tensor([-1, -2, -3, -100], dtype=dtype)])
    a, b = (x.flatten().contiguous() for x in torch.meshgrid(values, values, indexing="ij"))
    divides = ("fmod", "mod", "floordiv", "truncdiv")
    keep = (b != 0) & ~((a == info.min) & (b == -1))
    for names, x, y in (
        ([n for n in BINARY_INT if n not in (*divides, "pow")], a, b),
        (divides, a[keep].contiguous(), b[keep].contiguous()),
        (["pow"], a[b >= 0].contiguous(), b[b >= 0].contiguous() % 9),
    ):
        every = partial(apply_all, names)
        for name, mine, eager in zip(names, compiled(every, x, y, folder=tmp_path)[0](x, y), every(x, y), strict=True):
            inside = (y >= 0) & (y < info.bits) if name in ("shl", "shr") else torch.ones_like(x, dtype=torch.bool)
            check(name, mine[inside], eager[inside], x[inside], y[inside])


def reductions(x: torch.Tensor, dim: Any) -> tuple[torch.Tensor, ...]:
    over = dict.fromkeys(("dim",), dim) if dim is not None else {}
    one = (x.argmax(dim), x.argmin(dim), (x * 0.9).prod(dim)) if not isinstance(dim, tuple) and dim is not None else ()
    return x.sum(**over), x.amax(**over), x.amin(**over), (x > 2).any(), (x > -9).all(), x.exp().mean(**over), *one


SHAPES = [((7, 33), -1), ((7, 33), 0), ((3, 5000), -1), ((9000, 3), 0), ((5, 3, 9), (0, 2)), ((40000,), 0), ((1, 1), 0)]


@first_shard
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_reductions(shape: tuple[int, ...], dim: Any, dynamic: bool, tmp_path: Path) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    same_as_eager(partial(reductions, dim=dim), x, folder=tmp_path, dynamic=dynamic)
    x[(0,) * x.dim()] = NAN
    same_as_eager(lambda x: (x.amax(dim), x.amin(dim), x.sum(dim)), x, folder=tmp_path)


@first_shard
@pytest.mark.parametrize("length", [100, 5000])
def test_rows_of_several_passes(length: int, tmp_path: Path) -> None:
    """Softmax and a norm: each reduction's result is read in the next sweep of the same row."""

    def rows(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shifted = (x - x.amax(-1, keepdim=True)).exp()
        centerd = x - x.mean(-1, keepdim=True)
        spread = (centerd * centerd).mean(-1, keepdim=True)
        return shifted / shifted.sum(-1, keepdim=True), centerd * torch.rsqrt(spread + 1e-5) * w

    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(6, length, generator=generator), torch.randn(length, generator=generator)
    same_as_eager(rows, x, w, folder=tmp_path)
    same_as_eager(rows, x, w, folder=tmp_path, dynamic=True)


@first_shard
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8, torch.int32, torch.bool, torch.float64])
def test_dtypes(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.arange(-60, 60).reshape(8, 15).to(dtype)

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + x, x.float() * 0.3, x.to(torch.bfloat16), x.t() == x.t(), x.sum(1), torch.where(x > 0, x, x * x)

    same_as_eager(program, x, folder=tmp_path)


@first_shard
def test_sizes_are_arguments_where_they_are_symbols(tmp_path: Path) -> None:
    """One dynamic program serves other sizes."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.t().contiguous() * 2, x.softmax(-1), x.sum(0), torch.cat([x, x + 1], 1)

    call, _ = compiled(program, torch.randn(6, 20), folder=tmp_path, dynamic=True)
    for shape in ((3, 70), (50, 9)):
        x = torch.randn(shape)
        for mine, eager in zip(call(x), program(x), strict=True):
            torch.testing.assert_close(mine, eager)


@first_shard
def test_positions_as_data_have_64_bits(tmp_path: Path) -> None:
    x = torch.zeros(5, dtype=torch.int64)
    same_as_eager(lambda x: torch.arange(0, 5 * 10**10, 10**10) + x, x, folder=tmp_path)


@first_shard
def test_an_index_out_of_bounds_is_reported(tmp_path: Path) -> None:
    table, good = torch.randn(10, 4), torch.tensor([0, -1, 9])
    call, _ = compiled(lambda t, i: t[i] * 2, table, good, folder=tmp_path)
    torch.testing.assert_close(call(table, good)[0], table[good] * 2)
    with pytest.raises(Exception, match="index"):
        call(table, torch.tensor([0, 10, 1]))


@first_shard
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16, torch.int16, torch.uint8])
def test_scatters_meet_in_one_element(reduce: str, dtype: torch.dtype, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    into = torch.randint(1, 4, (6,), generator=generator).to(dtype)
    where = torch.randint(0, 6, (40,), generator=generator)
    values = torch.randint(-2 if dtype.is_signed else 1, 3, (40,), generator=generator).to(dtype)
    same_as_eager(lambda t, i, v: t.scatter_reduce(0, i, v, reduce), into, where, values, folder=tmp_path)


@first_shard
def test_calls_on_a_card_pick_kernels_by_alignment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a call on a card, with interpreted kernels in the place of compiled ones."""
    x = torch.randn(65)
    _, generated = compiled(lambda x: (x.sin() + 1).sum() * x, x[:64], folder=tmp_path)
    kernels = launchers(generated, tmp_path)
    used: list[str] = []

    def noting(kind: str) -> dict[str, Any]:
        return {
            name: partial(lambda launch, *args: (used.append(kind), launch(*args)), k) for name, k in kernels.items()
        }

    monkeypatch.setattr(triton_call, "launcher", lambda kernel: kernel)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", lambda index: contextlib.nullcontext())
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 7, raising=False)
    guards = torch._C._dynamo.guards
    monkeypatch.setattr(guards, "_empty_strided_cuda", guards._empty_strided_cpu)
    call, _ = triton_call.load(generated, noting("aligned"), lambda: noting("any"))
    for given, kind in ((x[:64], "aligned"), (x[1:], "any"), (x[:64], "aligned")):
        used.clear()
        torch.testing.assert_close(call((given,))[0], (given.sin() + 1).sum() * given)
        assert set(used) == {kind}
