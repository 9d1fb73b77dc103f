"""Generated C++ kernels against eager: every arrangement of loops, layout and dtype."""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

import explorer
from compiling import assert_like_eager, compile_fx
from explorer.compiler.runtime import cpp_build
from explorer.ir.program import BuildOptions

NAN, INF = float("nan"), float("inf")


SHAPES = [((7,), 0), ((3, 5), 1), ((3, 5), 0), ((130, 70), 0), ((70, 130), 1), ((4, 33, 9), 1), ((2, 3, 4, 5), (0, 2))]
SHAPES += [((600, 700), (0, 1)), ((9000,), 0), ((3, 40000), 1), ((5000, 3), 0), ((6, 1, 50), 2), ((40, 30, 20), (0, 2))]


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_reductions_equal_eager(shape: tuple[int, ...], dim: int | tuple[int, ...]) -> None:
    x = torch.randn(shape)

    def every(x):
        y = x * 1.5 + 1
        return y.sum(dim), y.mean(dim, keepdim=True), y.amax(dim), y.amin(dim), (y > 0).any(dim), (y * y).var(dim)

    assert_like_eager(every, x, rtol=3e-5, atol=1e-4)


@pytest.mark.parametrize(("shape", "dim"), [((7,), 0), ((40, 50), 1), ((50, 40), 0), ((3, 70000), 1), ((70000, 3), 0)])
@pytest.mark.parametrize("kind", ["ties", "nan", "infinite", "integers", "bool"])
def test_positions_are_the_first_extreme_or_nan(shape: tuple[int, ...], dim: int, kind: str) -> None:
    x = torch.randint(0, 4, shape).float()
    if kind == "nan":
        x[torch.rand(shape) < 0.05] = NAN
    elif kind == "infinite":
        x = torch.full(shape, -INF)
    elif kind == "integers":
        x = x.long()
    elif kind == "bool":
        x = x.int() % 2

    def every(x):
        return x.argmax(dim), x.argmin(dim), x.amax(dim), x.amin(dim)

    assert_like_eager(every, x)


def test_position_over_all_dimensions() -> None:
    x = torch.randint(0, 9, (60, 70, 11))
    assert_like_eager(lambda x: (x.argmax(), x.flatten().argmin(), x.argmax(1)), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_reductions_of_other_dtypes(dtype: torch.dtype, dim: int | None) -> None:
    x = (torch.randn(70, 90) * 3).to(dtype)

    def every(x):
        dims = (0, 1) if dim is None else (dim,)
        return x.sum(dims), x.amax(dims), x.float().prod(0), (x != 0).all(dims[0]), x.argmax(dim)

    assert_like_eager(every, x, rtol=1e-2 if dtype in (torch.bfloat16, torch.float16) else 2e-5)


def test_nan_survives_every_reduction() -> None:
    x = torch.randn(40, 50)
    x[3, 7] = NAN
    x[5, :] = -INF
    for dim in (0, 1, (0, 1)):
        assert_like_eager(partial(extremes, dim), x)


def extremes(dim: int | tuple[int, ...], x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.amax(dim), x.amin(dim), x.sum(dim), x.mean(dim)


def error_of_sum(fn, x) -> float:
    exact = fn(x.double())
    return ((compile_fx(fn, x)(x)[0].double() - exact).abs() / exact.abs()).max().item()


@pytest.mark.parametrize("dim", [0, 1, None])
def test_sums_are_as_accurate_as_eager(dim: int | None) -> None:
    """A plain loop over 10^6 numbers is off by 1e-4 here, cascades by 1e-7."""
    x = torch.rand(4, 1_000_000) if dim == 1 else torch.rand(1_000_000, 4)
    fn = (lambda x: x.sum()) if dim is None else (lambda x: x.sum(dim))
    assert error_of_sum(fn, x) < 5e-7


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x, y = torch.randn(1000, 1500), torch.randn(3, 400000)

    def every(x, y):
        return x.sum(), x.sum(0), x.sum(1), torch.softmax(x, 1), torch.softmax(x, 0), y.mean(1), (x * x).sum(0)[:5]

    runs = [compile_fx(every, x, y, options=BuildOptions(threads=n))(x, y) for n in (1, 2, 3, 7)]
    for other in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(runs[0], other, strict=True))


NORMS = {
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax of columns": lambda x: torch.softmax(x, 0),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "whole softmax": lambda x: torch.softmax(x.flatten(), 0),
    "normalized by rows": lambda x: x / x.norm(dim=1, keepdim=True),
    "standardized columns": lambda x: (x - x.mean(0)) / (x.var(0) + 1e-5).sqrt(),
    "softmax after gelu": lambda x: torch.softmax(torch.nn.functional.gelu(x) * 3, -1),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("shape", [(5, 7), (64, 300), (300, 64), (20, 9001)])
def test_several_passes_over_a_row(name: str, shape: tuple[int, ...]) -> None:
    assert_like_eager(NORMS[name], torch.randn(shape), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [(16, 16), (64, 64), (70, 130), (17, 300), (129, 63)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8])
def test_crossing_reads_are_tiled(size: tuple[int, int], dtype: torch.dtype) -> None:
    x, y = (torch.randn(size) * 9).to(dtype), (torch.randn(size[::-1]) * 9).to(dtype)
    assert_like_eager(lambda x, y: (x.t() + y).contiguous(), x, y)
    assert_like_eager(lambda x, y: x.t().contiguous(), x, y)
    both = compile_fx(lambda x, y: (x.t() + y).contiguous(), x, y).program
    assert "transpose_tile" in str(both.generated.text())


def test_crossing_reads_in_higher_dimensions() -> None:
    x = torch.randn(3, 40, 5, 33)
    orders = list(itertools.permutations(range(4)))
    assert_like_eager(lambda x: tuple(x.permute(order).contiguous() + 1 for order in orders), x)


VIEWS = {
    "slices": lambda x: x[2:9, ::3] * 2,
    "transposed": lambda x: x.t() * 2,
    "expanded": lambda x: x[:1].expand(6, -1) + 1,
    "flipped": lambda x: x.flip(0) + x.flip(1),
    "reshaped": lambda x: x.t().reshape(-1) * 2,
    "unfolded": lambda x: x.unfold(0, 4, 2) + 1,
    "rolled": lambda x: x.roll(3, 1) + 1,
    "padded": lambda x: torch.nn.functional.pad(x, (1, 2, 3, 0), value=7.0) * 2,
    "joined": lambda x: torch.cat([x, x * 2, x[:3]]) + 1,
    "stacked": lambda x: torch.stack([x, x.exp()], 1),
    "lower triangle": lambda x: x.tril() + x.triu(1).exp(),
    "repeated": lambda x: x.repeat(2, 3) + 1,
    "diagonal": lambda x: x.diagonal() * 2,
    "pixels": lambda x: torch.nn.functional.pixel_shuffle(x.reshape(1, 4, 6, 5), 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str) -> None:
    assert_like_eager(VIEWS[name], torch.randn(12, 10))


def test_strided_and_overlapping_inputs() -> None:
    base = torch.randn(40, 50)
    for x in (base.t(), base[::2, 3::4], base[:, :1].expand(40, 7), base.as_strided((5, 6), (3, 2), 4), base[0]):
        assert_like_eager(lambda x: (x.sin(), x.sum(-1), torch.softmax(x, 0)), x)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (3, 0, 4)])
def test_empty_tensors(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    assert_like_eager(lambda x: (x * 2 + 1, x.sum(), x.sum(0), torch.cat([x, x])), x)


def test_scalars_and_single_elements() -> None:
    assert_like_eager(lambda x, y: (x * 2, x + y, x.sum(), y.exp().sum(0)), torch.tensor(3.0), torch.tensor([2.0]))


# Data-dependent indices.


def test_gathers_and_lookups() -> None:
    table, index = torch.randn(50, 16), torch.randint(0, 50, (7, 9))
    assert_like_eager(lambda t, i: torch.nn.functional.embedding(i, t) * 2, table, index)
    assert_like_eager(lambda t, i: t[i, 3] + t[i[0], 2], table, index)
    assert_like_eager(lambda t, i: t.gather(0, i) + 1, table, index)
    assert_like_eager(lambda t, i: t[i - 50].sum(-1), table, index)
    assert_like_eager(lambda t, i: t.index_select(0, i[0]) * 2, table, index)


@pytest.mark.parametrize("rows", [30, 3000])
def test_scatters(rows: int) -> None:
    into, index, values = torch.randn(40, 16), torch.randint(0, 40, (rows,)), torch.randn(rows, 16)

    def every(into, index, values):
        wide = index[:, None].expand(-1, 16)
        return (
            into.index_add(0, index, values * 2),
            into.scatter_add(0, wide, values),
            into.scatter_reduce(0, wide, values, "amax"),
            into.index_put((index,), values, accumulate=True),
            torch.zeros(40).index_add(0, index, values[:, 0]),
        )

    assert_like_eager(every, into, index, values, rtol=1e-4, atol=1e-4)


def test_scatters_do_not_depend_on_the_number_of_threads() -> None:
    into, index, values = torch.zeros(10, 64), torch.randint(0, 10, (5000,)), torch.randn(5000, 64)
    runs = [
        compile_fx(lambda a, i, v: a.index_add(0, i, v), into, index, values, options=BuildOptions(threads=n))
        for n in (1, 4)
    ]
    assert torch.equal(runs[0](into, index, values)[0], runs[1](into, index, values)[0])


def test_an_index_out_of_range_raises_and_the_program_goes_on() -> None:
    table, index = torch.randn(50, 16), torch.randint(0, 50, (64,))
    compiled = compile_fx(lambda t, i: t[i].exp(), table, index)
    bad = index.clone()
    bad[63] = 50
    with pytest.raises(IndexError):
        compiled(table, bad)
    bad[63] = -51
    with pytest.raises(IndexError):
        compiled(table, bad)
    bad[63] = -50
    torch.testing.assert_close(compiled(table, bad)[0], table[bad].exp())


# Sizes that are symbols.


def test_one_program_for_many_sizes() -> None:
    def fn(x, y):
        z = torch.nn.functional.gelu(x * 2 + y)
        crossed = (x.t() + y.t()).reshape(-1)
        return torch.softmax(z, -1), z.sum(0), z.mean(), torch.cat([x, y])[1:], crossed, z.argmax(-1)

    x, y = torch.randn(20, 30), torch.randn(20, 30)
    compiled = compile_fx(fn, x, y, dynamic=True)
    for rows, columns in ((20, 30), (2, 3), (33, 64), (100, 1000), (3, 70001), (40000, 7)):
        x, y = torch.randn(rows, columns), torch.randn(rows, columns)
        for mine, eager in zip(compiled(x, y), fn(x, y), strict=True):
            assert mine.stride() == eager.stride()
            torch.testing.assert_close(mine, eager, rtol=1e-4, atol=1e-5)


def test_symbolic_sizes_and_library_calls() -> None:
    def fn(x, w):
        h = torch.relu(x @ w)
        return h @ w.t() + x, torch.arange(x.shape[0]) * 2, x.new_full((x.shape[0], 2), 3.0)

    x, w = torch.randn(6, 8), torch.randn(8, 5)
    compiled = compile_fx(fn, x, w, dynamic=True)
    for rows in (6, 9, 200):
        x = torch.randn(rows, 8)
        for mine, eager in zip(compiled(x, w), fn(x, w), strict=True):
            torch.testing.assert_close(mine, eager, rtol=1e-4, atol=1e-5)


def test_masked_loads_are_made_only_where_the_mask_holds() -> None:
    """Padding reads nothing outside: the input ends at the end of its memory page."""
    page = 4096 // 4
    memory = torch.frombuffer(mmap.mmap(-1, 3 * 4096), dtype=torch.float32)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(memory.data_ptr() + 2 * 4096), ctypes.c_size_t(4096), 0) == 0
    x = memory[page : 2 * page].view(32, 32).normal_()

    def every(x):
        right = torch.nn.functional.pad(x.exp().sin(), (0, 40, 0, 50))
        joined = torch.cat([x, x.exp()]).sum(0)
        return torch.softmax(right, 0), torch.softmax(right, 1), right.amax(0), right * 2, joined

    assert_like_eager(every, x.clone())
    for mine, eager in zip(compile_fx(every, x.clone())(x), every(x), strict=True):
        torch.testing.assert_close(mine, eager)


INDEXED = {
    "index_select": lambda x, i, s: x.index_select(0, i),
    "index_add": lambda x, i, s: x.index_add(0, i, s),
    "index_add alpha": lambda x, i, s: x.index_add(0, i, s, alpha=2),
    "index_copy": lambda x, i, s: x.index_copy(0, i, s),
    "index_fill": lambda x, i, s: x.index_fill(0, i, 1),
    "index_reduce": lambda x, i, s: x.index_reduce(0, i, s, "amax"),
    "take": lambda x, i, s: x.take(i),
    "put": lambda x, i, s: x.put(i, s[:, 0].to(x.dtype)),
    "gather": lambda x, i, s: x.gather(0, i[:, None].long()),
    "scatter": lambda x, i, s: x.scatter(0, i[:, None].expand(3, 5).long(), s),
    "embedding": lambda x, i, s: torch.nn.functional.embedding(i, x),
    "subscript": lambda x, i, s: x[i],
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", INDEXED)
def test_an_index_means_what_it_does_in_eager(name: str) -> None:
    """Negative ones count from the end in some operators, and are an error in others."""
    x, s = torch.randn(4, 5), torch.randn(3, 5)
    compiled = explorer.compile(INDEXED[name])
    for values in ([0, 3, 2], [0, -1, 2], [-4, 1, 2], [0, 4, 2], [-5, 1, 2]):
        for dtype in (torch.int64, torch.int32):
            index = torch.tensor(values, dtype=dtype)
            wanted, found = (attempt(fn, x.clone(), index, s) for fn in (INDEXED[name], compiled))
            assert str(found) == str(wanted), (values, dtype)


def attempt(fn: Callable[..., Any], *args: Any) -> Any:
    try:
        return fn(*args)
    except Exception as error:
        return type(error), str(error)


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The entries of libraries that are loaded meanwhile."""
    made, entry_function = [], cpp_build.entry_function

    def kept(*given: Any) -> Any:
        made.append(entry_function(*given))
        return made[-1]

    monkeypatch.setattr(cpp_build, "entry_function", kept)
    return made


def test_what_an_entry_reads_when_it_ends_is_not_cleared_before(entries: list[Any]) -> None:
    """The collector clears the objects of a cycle in any order; bytes it does not know."""
    assert explorer.compile(lambda x: (x.sin() + 1).sum())(torch.zeros(3)) == 3
    definition, label, handle = entries[0].__self__
    assert not any(map(gc.is_tracked, (definition, label, handle))) and label.decode() == entries[0].__name__


def test_a_library_is_there_as_long_as_an_object_that_ends_may_call_it(
    entries: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector runs each `__del__` of a cycle before it takes the cycle apart."""

    class Calls:
        def __del__(self) -> None:
            ended.append("the object")

    ended: list[str] = []
    explorer.compile(lambda x: (x.cos() + 7.5).sum())(torch.zeros(3))
    cycle: Any = Calls()
    cycle.itself, cycle.entry = cycle, entries.pop()
    handle = int(cycle.entry.__self__[-1])
    close = cpp_build._ctypes.dlclose

    def closing(given: int) -> None:
        ended.extend(["the library"] if given == handle else [])
        close(int(given))

    monkeypatch.setattr(cpp_build._ctypes, "dlclose", closing)
    del cycle
    gc.collect()
    assert ended == ["the object", "the library"]
