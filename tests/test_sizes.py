"""Functions whose sizes change from call to call: each call gives what eager gives."""

from __future__ import annotations

import collections
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_flatten

import explorer
from explorer.core.recorder import TOTALS
from explorer.ir.capture import CompilerBug


def line(*size: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(size).numel())).reshape(size)


def outcome(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
    """What a call makes of copies of its arguments: the results and the arguments after it, or the error's class."""
    given = [twin(value) for value in arguments]
    try:
        made = function(*given)
    except Exception as error:
        return (type(error),)
    leaves, shape = tree_flatten((made, given))
    return shape, *leaves


def twin(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    memory = value.untyped_storage().clone()
    return torch.empty(0, dtype=value.dtype).set_(memory, value.storage_offset(), value.shape, value.stride())


def assert_like_eager(function: Callable[..., Any], calls: Sequence[Sequence[Any]], **how: Any) -> None:
    compiled = explorer.compile(function, **how)
    for number, arguments in enumerate(calls):
        wanted, got = outcome(function, arguments), outcome(compiled, arguments)
        assert len(wanted) == len(got) and wanted[0] == got[0], f"call {number}: {wanted} is {got}"
        for expected, made in zip(wanted[1:], got[1:], strict=True):
            assert type(expected) is type(made), f"call {number}"
            if isinstance(expected, torch.Tensor):
                torch.testing.assert_close(made, expected, equal_nan=True)
                assert made.stride() == expected.stride() or expected.numel() < 2, f"call {number}"
            else:
                assert expected == made, f"call {number}"


def fill(a: torch.Tensor, n: int) -> torch.Tensor:
    a[n] = -1
    return a


def fill_end(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[-(y.shape[0] // 2) :] = 9
    return y


def write_storage(x: torch.Tensor) -> torch.Tensor:
    x.as_strided((2,), (1,), 1).add_(100)
    return x + 1


def turn(x: torch.Tensor) -> torch.Tensor:
    x.t_()
    return x + 1


BASE = line(12)
LENGTHS = [(line(n),) for n in (7, 8, 10, 5)]
PLACES = [(line(8), k) for k in (2, 3, -2, -8, 7)]
PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "slice from a negative size": (lambda x: x[-(x.shape[0] // 2) :] + 0, LENGTHS),
    "slice to a negative size": (lambda x: x[: -(x.shape[0] // 3)] + 0, LENGTHS),
    "slice from a number": (lambda x, k: x[-k:] * 2, [(line(8), k) for k in (2, 1, 3, 9, -3)]),
    "slice beyond the end": (lambda x, k: x[k : k + 4] * 2, [(line(8), k) for k in (2, 5, 9, -3, -20)]),
    "select": (lambda x, k: x.select(0, k) + 0, PLACES),
    "index": (lambda x, k: x[k] + 0, PLACES),
    "narrow": (lambda x, k: x.narrow(0, k, 2) + 0, [(line(8), k) for k in (2, 3, -2, 6)]),
    "setitem": (fill, PLACES),
    "set a slice": (fill_end, LENGTHS),
    "select_scatter": (lambda x, k: torch.select_scatter(x, x[0] - 5, 0, k), PLACES),
    "slice_scatter": (
        lambda x, k: torch.slice_scatter(x, x[k : k + 3] * 9, 0, k, k + 3), [(line(8), k) for k in (2, 3, -4, 0)]
    ),
    "diagonal": (lambda x, k: x.diagonal(k) + 0, [(line(4, 5), k) for k in (2, 3, -2, -3)]),
    "chunk": (lambda x: [part + 1 for part in x.chunk(4)], [(line(n),) for n in (4, 8, 12, 13, 3)]),
    "split": (lambda x: x.split(x.shape[0] // 2)[1] + 1, [(line(n),) for n in (4, 8, 12, 13)]),
    "unbind": (lambda x: x.unbind(0)[-1] + 1, [(line(n, 3),) for n in (4, 5, 2)]),
    "pooling": (lambda x: F.avg_pool2d(x, 2), [(line(1, 2, n, n),) for n in (4, 8, 12, 13)]),
    "diff": (lambda x: x.diff(), [(line(n),) for n in (4, 8, 1, 2, 0)]),
    "floats of sizes": (
        lambda x: (
            x[: int(x.shape[0] * 0.7)] * 2,
            torch.zeros(round(x.shape[0] * 0.5)),
            torch.zeros(math.ceil(x.shape[0] / 3)),
            torch.zeros(math.floor(x.shape[0] / 3)),
            x + math.sqrt(x.shape[0]),
            F.interpolate(x[None, None], scale_factor=1.5),
        ),
        LENGTHS,
    ),
    "bits of sizes": (lambda x: (torch.zeros(len(x) & 3), torch.ones(len(x) ^ 1), x + (len(x) | 1)), LENGTHS),
    "numbers of sizes": (lambda x: (x + 1, len(x) / 2, max(len(x), 8), -len(x) // 3, {len(x): f"{len(x)}"}), LENGTHS),
    "storage": (lambda x: x.as_strided((2,), (1,), 1) * 2, [(BASE[2:5],), (BASE[3:6],)]),
    "written storage": (write_storage, [(BASE[2:5],), (BASE[3:6],)]),
    "turned in place": (turn, [(BASE[:6].view(2, 3),), (BASE[3:9].view(2, 3),), (BASE[4:].view(2, 4),)]),
    "constant as wide as an input": (
        lambda x: F.conv1d(x[None], torch.ones(1, 1, 1).expand(1, x.shape[0], 1)), [(line(n, 5),) for n in (3, 4, 5)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_changing_sizes(program: tuple[Callable[..., Any], list[tuple[Any, ...]]]) -> None:
    function, calls = program
    assert_like_eager(function, calls)
    assert_like_eager(function, calls, dynamic=True)


@pytest.mark.parametrize("name", ["chunk", "split", "pooling", "slice from a negative size", "setitem"])
def test_changing_sizes_with_another_backend(name: str) -> None:
    """What a backend that is handed the graph asks of sizes is guarded as well."""
    function, calls = PROGRAMS[name]
    assert_like_eager(function, calls, backend="aot_eager")


@pytest.mark.parametrize("extreme", [min, max])
def test_the_chosen_number_keeps_its_type(extreme: Callable[..., Any]) -> None:
    def function(x: torch.Tensor) -> tuple[Any, ...]:
        n = x.shape[0]
        return x + 1, extreme(3, n / 2), extreme(n / 2, 3), extreme(n, 6.0), extreme(n > 5, n - 5), extreme(n, 5)

    compiled = explorer.compile(function, dynamic=True)
    for n in (4, 5, 6, 7, 8):
        assert repr(compiled(line(n))[1:]) == repr(function(line(n))[1:])


EMPTY: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (lambda x: x.softmax(-1).sum(0), (line(0, 4),)),
    "a sum read by the library": (lambda x: (x.sum(1), x.sum(1).cumsum(0)), (line(0, 4),)),
    "product": (lambda x: (x @ x.T).relu().sum(0), (line(0, 16),)),
    "product over nothing": (lambda x: (x.T @ x).relu().sum(0), (line(0, 16),)),
    "factorization": (lambda x: torch.linalg.inv(x * 2), (line(0, 2, 2),)),
    "two products": (lambda x, y: ((x + 1) @ y) @ y.T, (line(0, 3), line(3, 2))),
    "norm": (lambda x: F.layer_norm(x, (4,)) * 2, (line(0, 4),)),
}


@pytest.mark.parametrize("program", EMPTY.values(), ids=EMPTY)
def test_empty(program: tuple[Callable[..., Any], tuple[Any, ...]]) -> None:
    function, arguments = program
    assert_like_eager(function, [arguments], dynamic=False)


def test_relations_of_views_that_autograd_takes_again_are_guards() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.view(2, -1)
        x.unsqueeze_(-1)
        return y * 2

    bugs = TOTALS[CompilerBug.TOTAL]
    compiled = explorer.compile(function)
    for size in (4, 6, 8, 2):
        found, expected = (run(line(size).requires_grad_() * 1) for run in (compiled, function))
        torch.testing.assert_close(found, expected)
    assert bugs == TOTALS[CompilerBug.TOTAL]


def test_relations_of_later_stages_are_guards() -> None:
    """The pieces of a chunk are counted after the capture: the count becomes a guard, with the call that caused it."""
    record = explorer.explore(lambda x: x.chunk(4)[3] + 1, dynamic=True, time=False)(line(8))
    found = [each for each in record.data.compiles[0].guards if "assumed" in each.id]
    assert found and all("size" in each.expression for each in found)


def marked(mark: Callable[..., Any], size: int) -> tuple[torch.Tensor]:
    made = line(size)
    mark(made, 0)
    return (made,)


COUNTS: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]], list[int]]] = {
    "a size that changes": (lambda x: x * 2, [(line(n),) for n in (4, 5, 6, 1, 0, 2)], [1, 2, 2, 3, 4, 4]),
    "marked dynamic": (lambda x: x * 2, [marked(torch._dynamo.mark_dynamic, n) for n in (4, 5, 6)], [1, 1, 1]),
    "marked as perhaps dynamic": (
        lambda x: x * 2, [marked(torch._dynamo.maybe_mark_dynamic, n) for n in (4, 5, 6)], [1, 1, 1]
    ),
    "marked static": (lambda x: x * 2, [marked(torch._dynamo.mark_static, n) for n in (4, 5, 6)], [1, 2, 3]),
    "equal sizes that part": (
        lambda x, y: (x + 1, y + 1), [(line(n), line(m)) for n, m in ((4, 4), (5, 5), (6, 7), (8, 8))], [1, 2, 2, 2]
    ),
    "two sizes": (
        lambda x: x * 2, [(line(n, m),) for n, m in ((4, 5), (5, 5), (6, 6), (6, 7), (2, 2))], [1, 2, 3, 3, 3]
    ),
    "equal sizes that are added": (
        lambda x, y: x + y, [(line(n), line(m)) for n, m in ((4, 4), (5, 5), (6, 6), (6, 1))], [1, 2, 2, 3]
    ),
    "a number": (lambda x, k: x * k, [(line(3), k) for k in (2, 3, 4, 1, 0, -1)], [1, 2, 2, 2, 2, 2]),
    "the other side of a branch": (
        lambda x: x * 2 if x.sum() > 0 else x * 3, [(line(4),), (-line(5),), (-line(6),), (line(7),)], [2, 4, 4, 5]
    ),
}  # fmt: skip


@pytest.mark.parametrize("program", COUNTS.values(), ids=COUNTS)
def test_compiles_are_as_many_as_dynamos(
    program: tuple[Callable[..., Any], list[tuple[Any, ...]], list[int]],
) -> None:
    function, calls, wanted = program
    graphs: list[Any] = []

    def counted(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = explorer.compile(function, backend=counted)
    found = []
    for arguments in calls:
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
        found.append(len(graphs))
    assert found == wanted


EQUAL = {
    "range": lambda n: range(n), "slice": lambda n: slice(n), "tuple": lambda n: (n, 1), "list": lambda n: [n],
    "set": lambda n: {n}, "frozenset": lambda n: frozenset([n]), "dict": lambda n: {n: 1},
    "items": lambda n: {1: n}.items(), "deque": lambda n: collections.deque([n]), "complex": lambda n: complex(n),
    "Size": lambda n: torch.Size([n]),
    "nested": lambda n: [(n, [slice(None, n)])], "half": lambda n: n / 2, "condition": lambda n: n > 4,
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_what_holds_a_size_is_equal_where_python_says_so(name: str) -> None:
    make = EQUAL[name]

    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        a, b = make(x.shape[0]), make(y.shape[0])
        return x + 1, (a == b, a != b, a == make(5), a in [make(6)])

    compiled = explorer.compile(program, dynamic=True)
    for sizes in ((5, 5), (6, 7), (6, 6), (5, 9)):
        given = [torch.ones(size) for size in sizes]
        assert compiled(*given)[1] == program(*given)[1]


CONDITIONS = {
    "comparisons": lambda b, n: (b == True, b == 1, b == (n > 4), True == b, b != False, b < n, b <= True),  # noqa: E712
    "arithmetic": lambda b, n: (b + 1, b * n, n - b, n // (b + 1), b / 1, b + b, b**2, -b, +b, abs(b), b << 1),
    "bits": lambda b, n: (b & True, b | False, b ^ True, b & n, b & (n > 5)),
    "conversions": lambda b, n: (int(b), float(b), not b, f"{b}", hash(b), operator.index(b), complex(b), b.real),
    "places": lambda b, n: (b in [True], b in {1: 2}, [1, 2][b], (b,) == (True,), b is True, type(b), range(b)),
    "builtins": lambda b, n: (sum([b, b]), max(b, 0), min(b, n), divmod(n, b + 1), pow(b, 2), math.sqrt(b), round(b)),
}


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_on_sizes_is_a_bool(name: str, dynamic: bool | None) -> None:
    made = CONDITIONS[name]

    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x + 1, made(x.shape[0] > 4, y.shape[0])

    compiled = explorer.compile(program, dynamic=dynamic)
    for sizes in ((5, 5), (6, 7), (3, 6), (5, 9), (2, 2)):
        given = [torch.ones(size) for size in sizes]
        found, expected = compiled(*given)[1], program(*given)[1]
        assert [(type(each), each) for each in found] == [(type(each), each) for each in expected]


WITH_ZERO = {
    "by itself": lambda i, n, m: i * n == i,
    "on both sides": lambda i, n, m: i * n == i * m,
    "not": lambda i, n, m: i * n != m * i,
    "of a sum": lambda i, n, m: (i + 2) * n == m * (i + 2),
    "in a list": lambda i, n, m: i * m in [i, i * n],
    "and another": lambda i, n, m: i * n == i * m and n < 9,
    "ordered": lambda i, n, m: i * n <= i * m,
}


@pytest.mark.parametrize("name", WITH_ZERO)
def test_no_equation_is_divided_by_zero(name: str) -> None:
    def program(x: torch.Tensor, i: int, n: int, m: int) -> torch.Tensor:
        return x * n - m if WITH_ZERO[name](i, n, m) else x + n * i

    compiled = explorer.compile(program, dynamic=True, backend="eager")
    bugs = TOTALS[CompilerBug.TOTAL]
    for numbers in itertools.product((0, 5, -2, 3), repeat=3):
        assert torch.equal(compiled(line(3), *numbers), program(line(3), *numbers)), numbers
    assert TOTALS[CompilerBug.TOTAL] == bugs


NOT_KNOWN_TO_BE_REAL = {
    "and": lambda n: n & 6, "or": lambda n: n | 1, "xor": lambda n: n ^ 3, "root": math.sqrt, "sine": math.sin,
    "of such": lambda n: (n & 3) * 2 + n,
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_KNOWN_TO_BE_REAL)
def test_numbers_that_differ_by_a_constant_are_compared(name: str) -> None:
    def program(x: torch.Tensor) -> Any:
        a = NOT_KNOWN_TO_BE_REAL[name](x.shape[0])
        pairs = [(a, a), (a, a + 1), (a + 1, a), (a - 2, a)]
        return x + 1, [(b < c, b <= c, b > c, b >= c, b == c, b != c) for b, c in pairs]

    compiled = explorer.compile(program, dynamic=True, backend="eager")
    for size in (3, 4, 7):
        assert compiled(torch.ones(size))[1] == program(torch.ones(size))[1]


ONLY_FOR_SOME_NUMBERS: dict[str, Callable[[int], Any]] = {
    "floor division": lambda k: 7 // k, "remainder": lambda k: 7 % k, "division": lambda k: 7 / k,
    "division with remainder": lambda k: divmod(7, k)[1], "left shift": lambda k: 1 << k,
    "right shift": lambda k: 9 >> k, "of the number itself": lambda k: (k + 1) // k, "in place": lambda k: _halve(7, k),
    "tens": lambda k: round(k * 7, -1), "tens by name": lambda k: round(number=k * 7, ndigits=-1),
    "parts": lambda k: complex(k, 1), "function of operator": lambda k: operator.mod(5, k - 1), "power": lambda k: 2**k,
}  # fmt: skip


def _halve(number: int, by: int) -> int:
    number //= by
    return number


@pytest.mark.parametrize("name", ONLY_FOR_SOME_NUMBERS)
def test_operators_without_a_result_raise_as_in_python(name: str) -> None:
    """A division by zero in generated code ends the process."""

    def program(x: torch.Tensor, k: int) -> tuple[torch.Tensor, Any]:
        found = ONLY_FOR_SOME_NUMBERS[name](k)
        return x * found, found

    compiled = explorer.compile(program)
    for k in (3, 5, 4, 0, -1, 1, 6):
        found, expected = (outcome(each, (torch.ones(2), k)) for each in (compiled, program))
        assert str(found) == str(expected)


READS: tuple[Callable[[Any], Any], ...] = (
    lambda k: math.copysign(1.0, k), lambda k: 1.0 if k == 0 else 2.0, str, math.modf, lambda k: complex(k, k),
)  # fmt: skip


@pytest.mark.parametrize("read", READS)
def test_a_zero_has_a_sign(read: Callable[[Any], Any]) -> None:
    def program(x: torch.Tensor, k: Any) -> Any:
        return x + 1, read(k)

    compiled = explorer.compile(program, backend="eager")
    for k in (0.0, -0.0, 2.0, -0.0, 0.0):
        assert repr(compiled(torch.ones(2), k)[1]) == repr(program(torch.ones(2), k)[1])


def test_shapes_that_numbers_distinguish_hold_no_size():
    compiles = []

    def backend(module, inputs):
        compiles.append(module)
        return module.forward

    def f(x, y):
        other = (x.shape == y.shape) + 2 * ((x.shape[0], 3) == (y.shape[0], 4)) + 4 * (x.shape != (7, 4))
        return x * 2 + other

    call = explorer.compile(f, backend=backend)
    for size in (4, 2, 3, 5, 7):
        x, y = torch.ones(size, 3), torch.ones(3)
        assert torch.equal(call(x, y), f(x, y))
    assert len(compiles) == 2


INTEGERS_WANTED: dict[str, Callable[[Any], object]] = {
    "range": lambda n: list(range(n)),
    "islice": lambda n: list(itertools.islice([1, 2, 3], n)),
    "enumerate": lambda n: list(enumerate([1], n)),
    "a list": lambda n: [1, 2, 3, 4, 5, 6][n],
    "a repeated list": lambda n: [1] * n,
    "zeros": torch.zeros,
    "bin": bin,
    "round": lambda n: round(3.14159, n),
}


@pytest.mark.parametrize("name", INTEGERS_WANTED)
def test_a_float_made_of_a_dynamic_size_is_no_integer(name):
    def function(x, more):
        return INTEGERS_WANTED[name](x.shape[0] + more), x + 1

    def outcome(called, *args):
        try:
            return str(called(*args))
        except (TypeError, ValueError) as error:
            return type(error)

    for more in (0.5, 1.0, 1):
        compiled = explorer.compile(function)
        for size in (2, 3, 4):
            assert outcome(compiled, torch.ones(size), more) == outcome(function, torch.ones(size), more)


TAKING_A_FLOAT: dict[str, Callable[..., Any]] = {
    "layer_norm": lambda x, number: F.layer_norm(x, [8], eps=number),
    "alpha": lambda x, number: torch.add(x, x, alpha=number),
    "dropout": lambda x, number: F.dropout(x, number, training=False) * F.leaky_relu(x, number),
    "clamp": lambda x, number: x.clamp(-number, number),
    "lerp": lambda x, number: torch.lerp(x, x + 1, number),
    "full": lambda x, number: torch.full((8,), number) + x,
    "scale": lambda x, number: F.scaled_dot_product_attention(x, x, x, scale=number),
    "computed": lambda x, number: F.softplus(x, number * 2 + 1),
}


@pytest.mark.parametrize("name", TAKING_A_FLOAT)
def test_operators_that_take_a_float_are_in_kernels_with_dynamic_sizes(name: str) -> None:
    function = TAKING_A_FLOAT[name]
    record = explorer.explore(function, dynamic=True, time=False)(line(4, 8), 0.1)
    assert record.kernels
    compiled = explorer.compile(function, dynamic=True)
    for size, number in ((4, 0.1), (5, 0.1), (5, 0.2), (6, 0.3)):
        torch.testing.assert_close(compiled(line(size, 8), number), function(line(size, 8), number))


@pytest.mark.parametrize(
    "remainder",
    [lambda n: float(n) % 0.7, lambda n: n * 0.5 % n, lambda n: 7.5 % n, lambda n: divmod(n / 2, 0.7)[1]],
)
def test_a_remainder_of_floats_made_of_sizes_is_pythons(remainder):
    def program(x):
        return x * remainder(x.shape[0])

    bugs, compiled = TOTALS[CompilerBug.TOTAL], explorer.compile(program)
    for size in (3, 4, 5, 9):
        assert torch.equal(compiled(torch.ones(size)), program(torch.ones(size)))
    assert TOTALS[CompilerBug.TOTAL] == bugs


def test_a_stride_over_a_number_that_no_input_gives():
    def program(x, y):
        x[y.shape[-1] & 1 : len(y)] *= torch.zeros(()).item()
        return x

    bugs, compiled = TOTALS[CompilerBug.TOTAL], explorer.compile(program, dynamic=True)
    for size in (3, 3, 4, 5):
        x, y = line(size, 2).mT.contiguous().mT, line(size)
        assert torch.equal(compiled(x.clone(), y), program(x.clone(), y))
    assert TOTALS[CompilerBug.TOTAL] == bugs
