"""NumPy inside compiled functions: results, their types, dtypes and memory are NumPy's own, and the frame is whole."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._pytree import tree_leaves

import explorer
from explorer.core.recorder import TOTALS
from explorer.ir.capture import CompilerBug

GLOBAL_ARRAY = np.arange(3.0)
X = np.arange(6.0).reshape(2, 3)
Y = np.linspace(1, 2, 6).reshape(2, 3)
SINGLE = X.astype(np.float32)
PLACES = np.array([2, 0, 1])
TENSOR = torch.arange(6.0).reshape(2, 3)


class Counting:
    """A backend that runs graphs as they are, and counts them."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module: torch.fx.GraphModule, inputs: Any) -> Any:
        self.graphs += 1
        return module.forward


def write(a: Any) -> Any:
    a += 1
    a[0] = 7
    a[:, 1] *= 2
    return a


def write_view(a: Any) -> Any:
    row = a[0]
    row[:] = 3
    return row


def rows(a: Any) -> Any:
    total = 0.0
    for row in a:
        for item in row:
            total = total + item
    return total


WHOLE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "ufuncs": (lambda a: (np.sin(a), np.sqrt(a), np.floor(a), np.isnan(a), np.maximum(a, 2)), (Y,)),
    "operators": (lambda a, b: (a + b, a / b, a // b, a % b, a**2, -a, abs(a), a < b, 2 - a, a @ b.T), (Y, X + 1)),
    "integers": (lambda a: (a & 1, a << 2, ~a, a / 2, a.mean(), np.sin(a)), (PLACES,)),
    "reductions": (lambda a: (a.sum(), a.mean(0), np.max(a), a.argmax(), a.std(ddof=1), np.any(a), a.cumsum(1)), (X,)),
    "the truth of one number": (
        lambda a: (a * 2, bool((a > 0).all()), bool(np.array([a[0, 0]])), bool(a.sum()), bool(np.isnan(a).any())),
        (X,),
    ),
    "scalars": (lambda a: (a[1, 2], a.sum() * 2, np.float32(a.sum()), a.sum(dtype=np.float32)), (X,)),
    "shapes": (lambda a: (a.reshape(3, 2), a.T, a[None], a[..., 0], np.squeeze(a), a.ravel(), a.flatten()), (X,)),
    "indices": (lambda a, i: (a[:, i], a[[1, 0]], a[:, ::2], a[-1], a.take([0, 1])), (X, PLACES)),
    "made": (lambda a: (np.zeros(3) + a, np.arange(3), np.eye(2), np.full((2, 3), 7), np.array([1, 2, 3]) * a), (X,)),
    "like": (lambda a: (np.zeros_like(a), np.ones_like(a, dtype=np.int32), a.astype("int64"), a.copy()), (X,)),
    "joined": (lambda a, b: (np.concatenate([a, b]), np.stack([a, b]), np.where(a > 2, a, b), np.split(a, 2)), (X, Y)),
    "linear algebra": (lambda a: (np.linalg.norm(a), np.linalg.inv(a @ a.T + np.eye(2)), np.fft.fft(a)), (X,)),
    "promotion": (lambda a: (a + 1.5, a * np.float64(2), a * np.float32(2), a + np.int64(1)), (SINGLE,)),
    "facts": (lambda a: (a.dtype, a.shape, a.ndim, a.size, a.itemsize, a.nbytes, a.strides), (SINGLE,)),
    "limits": (lambda a: a + np.finfo(np.float32).eps + np.iinfo(np.int8).max, (SINGLE,)),
    "dtype objects": (lambda a: np.zeros(3, dtype=a.dtype) + a.astype(np.dtype("float32")), (SINGLE,)),
    "written": (write, (X,)),
    "written through a view": (write_view, (X,)),
    "written in part": (lambda a, i: (a.__setitem__((0, i), 9.0), a)[1], (X, PLACES)),
    "in place": (lambda a: (a.sort(), a.fill(2), a)[2], (X,)),
    "out": (lambda a, o: np.add(a, 1, out=o), (X, np.zeros((2, 3)))),
    "loops": (rows, (X,)),
    "global": (lambda a: a + GLOBAL_ARRAY, (X,)),
    "containers": (lambda d: {"r": d["a"] + d["b"][0]}, ({"a": X, "b": [Y]},)),
    "the same object": (lambda a: (a, a, np.asarray(a) is a), (X,)),
    "a scalar given": (lambda a, n: (a * n, n + 1, -n), (X, np.float32(2.5))),
    "tensor to array": (lambda t: np.exp(t.numpy()) + np.asarray(t), (TENSOR,)),
    "array to tensor": (lambda a: (torch.from_numpy(a) * 2, torch.tensor(a), torch.as_tensor(a)), (X,)),
    "tensor and array": (lambda t, a: (t + a, t == a, np.float64(2) * t), (TENSOR, SINGLE)),
    "function of a tensor": (lambda t: (np.sin(t), np.sum(t.numpy())), (TENSOR,)),
    "number of NumPy's": (lambda t: t.reshape(int(np.prod(t.shape))) * np.sqrt(2.0) * np.pi, (TENSOR,)),
    "wrapping integers": (lambda a: a + 1, (np.arange(250, 256).astype(np.uint8),)),
    "no dimension": (lambda a: (a + 1, a), (np.array(3.0),)),
    "no item": (lambda a: a.sum(), (np.zeros((0, 3)),)),
    "strided": (lambda a: (a + 1, a.reshape(-1)), (X[:, ::2],)),
    "complex": (lambda a: (a * 1j, np.abs(a * 1j), np.conj(a + 1j)), (X,)),
    "reversed": (lambda a: a[::-1] + np.flip(a, 1), (X,)),
}
BREAKS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "view that torch lacks": (lambda a: a[::-1], (X,)),
    "write through a view that torch lacks": (lambda a: (a[::-1].__setitem__(0, 5), a)[1], (X,)),
    "size that depends on values": (lambda a: a[a > 2], (X,)),
    "branch": (lambda a: a + 1 if a.sum() > 3 else a - 1, (X,)),
    "random numbers": (lambda a: a + np.random.rand(3), (X,)),
    "item": (lambda a: a[0].sum().item(), (X,)),
    "text": (str, (X,)),
    "shapes torch answers otherwise": (lambda a: (np.median(a), np.quantile(a, 0.5)), (X,)),
    "callback": (lambda a: np.vectorize(lambda v: v + 1)(a), (X,)),
    "read-only": (lambda a: a + 1, (np.broadcast_to(X, (2, 2, 3)),)),
    "backwards": (lambda a: a + 1, (X[::-1],)),
    "objects": (lambda a: a, (np.array([None, 1]),)),
    "refused by NumPy": (lambda t, a: a * t, (TENSOR, X)),
}


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    np.random.seed(0)
    given = copy.deepcopy(arguments)
    try:
        return function(*given), given
    except Exception as error:
        return type(error), given


def check_same(ours: Any, eager: Any) -> None:
    assert type(ours) is type(eager)
    if isinstance(eager, (tuple, list)):
        assert len(ours) == len(eager)
        for one, other in zip(ours, eager, strict=True):
            check_same(one, other)
    elif isinstance(eager, dict):
        check_same(list(ours.items()), list(eager.items()))
    elif isinstance(eager, torch.Tensor):
        torch.testing.assert_close(ours, eager, equal_nan=True)
    elif isinstance(eager, (np.ndarray, np.generic)) and eager.dtype != object:
        assert (ours.dtype, ours.shape) == (eager.dtype, eager.shape)
        np.testing.assert_allclose(ours, eager, rtol=1e-6, atol=1e-6)
    elif isinstance(eager, float):
        np.testing.assert_allclose(ours, eager)
    else:
        assert np.all(ours == eager)


@pytest.mark.parametrize("name", WHOLE)
def test_an_array_program_is_one_graph(name: str) -> None:
    function, arguments = WHOLE[name]
    backend = Counting()
    compiled = explorer.compile(function, backend=backend, fullgraph=True)
    check_same(outcome(compiled, arguments), outcome(function, arguments))
    assert backend.graphs <= 1


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_not_traced_is_numpys(name: str) -> None:
    function, arguments = BREAKS[name]
    check_same(outcome(explorer.compile(function), arguments), outcome(function, arguments))


@pytest.mark.parametrize("name", ["operators", "reductions", "written", "written through a view", "array to tensor"])
def test_our_backend_takes_array_programs(name: str) -> None:
    function, arguments = WHOLE[name]
    check_same(outcome(explorer.compile(function), arguments), outcome(function, arguments))


MAY_BE_THE_SAME: dict[str, Callable[[Any], Any]] = {
    "squeeze": lambda a: a.squeeze(),
    "np.squeeze": np.squeeze,
    "real": lambda a: a.real,
    "conj": lambda a: a.conj(),
    "np.conj": np.conj,
    "asarray": np.asarray,
    "astype": lambda a: a.astype(a.dtype),
    "astype without a copy": lambda a: a.astype(a.dtype, copy=False),
    "ravel": lambda a: a.ravel(),
    "flatten": lambda a: a.flatten(),
    "reshape": lambda a: a.reshape(a.shape),
    "T": lambda a: a.T,
    "atleast_1d": np.atleast_1d,
    "slice": lambda a: a[...],
    "+": lambda a: +a,
    "+=": lambda a: a.__iadd__(1),
    "out": lambda a: np.add(a, a, out=a),
    "a tensor of it": lambda a: torch.from_numpy(a).numpy(),
}


@pytest.mark.parametrize("name", MAY_BE_THE_SAME)
def test_an_array_is_the_same_object_where_numpy_returns_it(name: str) -> None:
    call = MAY_BE_THE_SAME[name]

    def program(given: Any, made: Any) -> Any:
        made = made + 1
        results = call(given), call(made)
        return *results, made, results[0] is given, results[1] is made

    for array in (np.ones((2, 2)), np.ones(3, np.float32), np.ones((1, 3)), np.ones((0,)), np.array([1j, 2])):
        found = []
        for function in (program, explorer.compile(program)):
            one, other, made, *same = function(given := array.copy(), array.copy())
            found.append((*same, one is given, other is made, type(one), type(other)))
        assert found[0] == found[1], array


def test_each_array_of_a_tensor_is_an_object_of_its_own() -> None:
    def program(x: Any) -> Any:
        one, other = x.numpy(), x.numpy()
        one[0] = 5
        return one is other, one, other

    same, one, other = explorer.compile(program)(torch.ones(3))
    assert not same and one is not other and np.shares_memory(one, other) and other[0] == 5


def columns_written(a: Any) -> Any:
    rows, columns = np.nonzero(a > 1)
    rows += 1
    return rows, columns


def zeroed(a: Any) -> Any:
    a[np.nonzero(a > 2)] = 0
    return a


LATE: dict[str, Callable[[Any], Any]] = {
    "mask": lambda a: (a[a > 2], a[~(a > 2)] * 2, a[a[:, 0] > 1], a[:, a[0] > 0], a.T[a.T > 1]),
    "places": lambda a: (np.nonzero(a), a.nonzero()[0], np.where(a > 1)[1] * 2, np.argwhere(a), np.flatnonzero(a > 1)),
    "unique": lambda a: (np.unique(a), np.unique(a.astype(int) // 2, return_counts=True), np.bincount(np.arange(3))),
    "sizes": lambda a: (len(a[a > 2]), a[a > 2].shape[0], a[a > 2].nbytes, np.arange(a[a > 1].size)),
    "views": lambda a: (a[a > 2][1:], a[a > 2][::2], a[a > 2][:2], a[a > 2].reshape(-1, 1), a[a[:, 0] >= 0].T),
    "computed": lambda a: (np.sort(-a[a > 1]), np.cumsum(a[a > 1]), np.outer(a[a > 2], a[0]), a[a[:, 0] >= 0] @ a.T),
    "two sizes": lambda a: a[a > 2] + a[a < 3],
    "one of them 1": lambda a: a[a > 2] + a[a > 4],
    "least": lambda a: a[a > 2].min(),
    "first and last": lambda a: (a[a > 2][0], a[a > 2][-1]),
    "joined": lambda a: (np.concatenate([a[a > 2], a[a < 1]]), np.tile(a[a > 2], 2)),
    "tensors": lambda a: (torch.from_numpy(a[a > 2]) * 2, torch.from_numpy(a[:, a[0] >= 0])),
    "written": columns_written,
    "written through places": zeroed,
}
MANY, FEW = X, np.array([[0, 0, 3.0], [0, 0, 0]])
ARRAYS = {"many": MANY, "all": X + 3, "few": FEW, "none": X * 0, "columns first": SINGLE.T.copy().T + 1}


@pytest.mark.parametrize("name", LATE)
def test_arrays_of_sizes_that_depend_on_values(name: str) -> None:
    """Traced of one array, right of all: in sizes, strides of what has several elements, and errors."""
    function = LATE[name]
    for first in (MANY, FEW):
        compiled = explorer.compile(function, fullgraph=True)
        for array in (first, *ARRAYS.values()):
            ours, eager = outcome(compiled, (array,)), outcome(function, (array,))
            check_same(ours, eager)
            for one, other in zip(tree_leaves(ours), tree_leaves(eager), strict=True):
                if isinstance(other, np.ndarray) and min(other.shape) > 1:
                    assert one.strides == other.strides


def test_a_ufunc_reads_before_it_writes() -> None:
    def function(a: Any) -> Any:
        a *= a
        a[:, 1:] += a[:, :-1]
        np.multiply(a, a, out=a)
        return np.add(a[0], 1, out=a[1]), a

    check_same(outcome(explorer.compile(function, fullgraph=True), (X,)), outcome(function, (X,)))


LAYOUTS: dict[str, Callable[[], Any]] = {
    "overlapping": lambda: torch.arange(6.0).as_strided((2, 3), (1, 1)).numpy(),
    "of Fortran": lambda: np.asfortranarray(X),
    "turned": lambda: np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
    "with gaps": lambda: np.arange(12.0).reshape(2, 6)[:, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_lie_in_memory_as_numpys_do(layout: str) -> None:
    def function(a: Any) -> Any:
        made = (np.where(a > 1, 3.0, 0), a * 2, a.copy(), np.add(a, np.arange(a.shape[-1])), np.zeros_like(a), a.T)
        return (*made, np.concatenate([a, a]), np.cumsum(a, 0), a.astype(np.float32), np.clip(a, 1, 2), np.sort(a, 0))

    ours, eager = (f(LAYOUTS[layout]()) for f in (explorer.compile(function, backend="eager"), function))
    check_same(ours, eager)
    assert [each.strides for each in ours] == [each.strides for each in eager]


def test_arrays_without_elements_as_tensors() -> None:
    def f(x: torch.Tensor) -> Any:
        found = []
        for shape in ((0,), (2, 0, 4), (3, 0), (0, 1, 2)):
            made = torch.from_numpy(x.new_zeros(shape).numpy() + 1)
            found.append((made.shape, made.stride(), torch.as_tensor(np.zeros(shape)).stride(), (made + 1).stride()))
        return found

    assert explorer.compile(f, backend="eager")(torch.ones(2)) == f(torch.ones(2))


def test_guards_on_arrays() -> None:
    def function(a: Any, b: Any) -> Any:
        a += 1
        return a + b

    backend = Counting()
    compiled = explorer.compile(function, backend=backend)
    base = np.arange(8.0)
    calls: list[Callable[[], tuple[Any, Any]]] = [
        lambda: (X.copy(), Y.copy()),
        lambda: (X.copy() + 1, Y.copy()),
        lambda: (SINGLE.copy(), Y.copy()),
        lambda: (X.copy()[:, :2], Y.copy()[:, :2]),
        lambda: (X.copy().T, Y.copy().T),
        lambda: (base[:4], base[4:]),
        lambda: (base[:4], base[2:6]),
        lambda: (base, base),
        lambda: (X.copy(), torch.ones(3)),
    ]
    for call in calls:
        base[:] = np.arange(8.0)
        eager = outcome(function, call())
        base[:] = np.arange(8.0)
        check_same(outcome(compiled, call()), eager)
    assert backend.graphs >= 3


def test_memory_is_shared_as_in_eager() -> None:
    array = X.copy()
    view = explorer.compile(lambda a: a[0])(array)
    view[:] = 5
    assert (array[0] == 5).all()
    tensor = explorer.compile(lambda a: torch.from_numpy(a))(array)
    tensor.fill_(7)
    assert (array == 7).all()
    given = torch.ones(3)
    explorer.compile(lambda t: t.numpy())(given)[0] = 4
    assert given[0] == 4


def test_a_scalar_is_an_input_until_python_needs_it() -> None:
    backend = Counting()
    compiled = explorer.compile(lambda a, n: np.where(a < n, n, a), backend=backend)
    for number in (1.0, 2.0, 3.5, 4.5):
        check_same(compiled(X, np.float64(number)), np.where(X < number, number, X))
    assert backend.graphs == 1
    branching = explorer.compile(lambda a, n: a + 1 if n > 2 else a)
    for number in (1.0, 3.0, 1.0):
        check_same(branching(X, np.float64(number)), X + 1 if number > 2 else X)


BESIDE = {
    "float32": lambda: torch.ones(3),
    "requires grad": lambda: torch.ones(3, requires_grad=True),
    "0-d": lambda: torch.tensor(2.0),
    "0-d integer": lambda: torch.tensor(2),
    "int32": lambda: torch.ones(3, dtype=torch.int32),
    "bool": lambda: torch.ones(2, 3, dtype=torch.bool),
}
ARRAYS_BESIDE = [
    np.arange(3.0), np.array([0, 1, 2]), np.array(2.0), np.float32([1, 2, 3]), np.array([True, False, True]),
    np.float64(2), np.float32(2), np.int64(3), np.bool_(True), np.float16(2.5), np.uint8(3),
]  # fmt: skip
TAKEN = {
    "element": lambda x, n: operator.setitem(x, 0, n) or x,
    "fill_": lambda x, n: x.fill_(n),
    "where": lambda x, n: torch.where(x > 0, x, n),
    "full": lambda x, n: torch.full((2,), n),
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "tensor": lambda x, n: (torch.tensor(n), torch.as_tensor(n, dtype=torch.float64), torch.tensor(data=n)),
    "made inside": lambda x, n: (x * np.bool_(True), x + np.float16(n), torch.tensor(np.bool_(n)), x + np.int8(2)),
}


@pytest.mark.parametrize("made", BESIDE)
@pytest.mark.parametrize(
    "name",
    "add sub mul truediv floordiv mod pow matmul and_ xor lshift lt ge eq ne iadd imul itruediv".split(),
)
def test_an_operator_of_a_tensor_and_an_array_is_numpys(name, made):
    function = getattr(operator, name)

    def program(one, other):
        return function(one, other)

    def outcome(called, *given):
        try:
            result = called(*given)
        except Exception as error:
            return type(error).__name__, str(error)
        facts = (getattr(result, name, None) for name in ("dtype", "shape", "requires_grad"))
        return type(result).__name__, str(result), *map(str, facts)

    compiled = explorer.compile(program, backend="eager")
    for array in ARRAYS_BESIDE:
        given = BESIDE[made](), array.copy()
        assert outcome(compiled, *given) == outcome(program, BESIDE[made](), array.copy())
        if name[0] != "i":
            assert outcome(compiled, *given[::-1]) == outcome(program, *given[::-1])


@pytest.mark.parametrize("name", TAKEN)
def test_torch_takes_a_scalar_of_numpy_for_a_number(name: str) -> None:
    def outcome(called: Callable[..., Any], x: torch.Tensor, number: Any) -> Any:
        try:
            return str([(each, each.dtype) for each in tree_leaves(called(x, number))])
        except (TypeError, RuntimeError) as error:
            return type(error), str(error)

    compiled = explorer.compile(TAKEN[name])
    for number in ARRAYS_BESIDE[5:]:
        for dtype in torch.float32, torch.int64, torch.bool:
            expected = outcome(TAKEN[name], torch.ones(3, dtype=dtype), number)
            assert outcome(compiled, torch.ones(3, dtype=dtype), number) == expected, (number, dtype)


def in_a_transform(a: Any, x: torch.Tensor) -> Any:
    return a.shape[0] * x * torch.from_numpy(a)


def computed_in_a_transform(a: Any, x: torch.Tensor) -> Any:
    return x * a.sum().item() + torch.from_numpy(np.sin(a))


@pytest.mark.parametrize("inner", [in_a_transform, computed_in_a_transform])
def test_numpy_in_a_transform_is_no_bug(inner: Callable[..., Any]) -> None:
    def function(x: torch.Tensor, a: Any) -> Any:
        result, back = torch.func.vjp(functools.partial(inner, a), x)
        return result, back(result)[0], torch.vmap(functools.partial(inner, a))(x[None])

    bugs = TOTALS[CompilerBug.TOTAL]
    given = torch.arange(3, dtype=torch.float64), np.arange(3.0)
    torch.testing.assert_close(explorer.compile(function)(*given), function(*given))
    assert bugs == TOTALS[CompilerBug.TOTAL]


def test_arithmetic_of_a_tensor_and_an_array_is_in_the_graph():
    def program(x, array):
        return x * array + 1

    x, array = torch.arange(3), np.arange(3.0)
    assert torch.equal(explorer.compile(program, fullgraph=True)(x, array), program(x, array))


def turned(x: torch.Tensor) -> Any:
    array = x.numpy()
    x.t_()
    return array, array.shape, x + 1


def computed_and_turned(x: torch.Tensor) -> Any:
    y = x + 1
    array = y.numpy()
    y.unsqueeze_(0)
    return array.sum(), array, y


@pytest.mark.parametrize("function", [turned, computed_and_turned])
def test_an_array_keeps_its_axes_when_its_tensor_is_turned(function: Callable[..., Any]) -> None:
    wanted, got = (call(TENSOR.clone()) for call in (function, explorer.compile(function)))
    assert [np.shape(each) for each in got] == [np.shape(each) for each in wanted]
    assert all(np.array_equal(one, other) for one, other in zip(got, wanted, strict=True))


def resized_after(x: torch.Tensor) -> None:
    x.detach().numpy().sum()
    x.resize_(3, 3)


def resized_by_out(x: torch.Tensor) -> None:
    x.numpy().sum()
    torch.sin(torch.ones(9), out=x)


@pytest.mark.parametrize("function", [resized_after, resized_by_out])
def test_memory_that_an_array_shares_is_not_resized(function: Callable[..., Any]) -> None:
    for call in (function, explorer.compile(function)):
        with pytest.raises(RuntimeError, match="storage that is not resizable"):
            call(TENSOR.clone())


IN_MEMORY: dict[str, Callable[[], torch.Tensor]] = {
    "expanded": lambda: torch.arange(3.0).expand(2, 3),
    "columns": lambda: torch.arange(2).view(2, 1).expand(2, 3),
    "one element": lambda: torch.ones(()).expand(2, 3),
    "overlapping": lambda: torch.arange(6.0).as_strided((2, 3), (1, 1)),
    "in part": lambda: torch.ones(2, 1, 3).expand(2, 4, 3)[:, 1:],
    "gaps": lambda: torch.arange(12.0).view(2, 6)[:, ::2],
    "nothing": lambda: torch.ones(1, 3).expand(0, 3),
}


@pytest.mark.parametrize("layout", IN_MEMORY)
def test_an_array_lies_in_memory_as_its_tensor_does(layout: str) -> None:
    def of_an_input(x: torch.Tensor) -> Any:
        array = np.asarray(x)
        return array, torch.from_numpy(array), array.T, array[:1] * 2, np.multiply(x.numpy(), 2)

    def of_what_is_made(x: torch.Tensor) -> Any:
        return (x + 1)[:1].expand(4, *x.shape[1:]).numpy(), torch.from_numpy((x * 2).numpy()).expand(2, *x.shape)

    def facts(found: Any) -> Any:
        steps = found.stride() if isinstance(found, torch.Tensor) else found.strides
        counted = [step for step, size in zip(steps, found.shape, strict=True) if size > 1 < np.prod(found.shape)]
        return type(found), str(found.dtype), counted, found.tolist()

    for program in (of_an_input, of_what_is_made):
        if layout == "nothing" and program is of_what_is_made:
            continue
        for dynamic in (None, True):
            x = IN_MEMORY[layout]()
            compiled = explorer.compile(program, backend="eager", dynamic=dynamic)(x)
            assert list(map(facts, compiled)) == list(map(facts, program(x)))


def _lines(*lines):
    space = {"np": np, "torch": torch}
    exec("def f(x):\n    a = x.numpy()\n" + "".join(f"    {line}\n" for line in lines), space)
    return space["f"]


SCALARS = {
    "an item": ["n = a[0]"],
    "the last": ["n = a.reshape(2, 2)[1, -1]"],
    "unpacked": ["_, n, *_ = a"],
    "a list": ["n = list(a)"],
    "taken": ["n = np.take(a, 1)"],
    "a reduction": ["n = a.max(), a[a.argmax()]"],
    "a squeezed array": ["n = a[:1].squeeze()"],
    "rows": ["n = list(a.reshape(2, 2))"],
}
LOOPS = {
    "a loop": ["n = []", "for v in a:", "    a += 1", "    n.append(v)"],
    "with breaks": ["n = []", "for v in a:", "    print(end='')", "    a += 1", "    n.append(v)"],
    "enumerate": ["n = []", "for i, v in enumerate(a):", "    a[3] = i + 7", "    n.append(v)"],
    "an iterator": ["i = iter(a)", "n = [next(i)]", "print(end='')", "a *= 3", "n += i"],
    "rows": ["n = []", "for v in a.reshape(2, 2):", "    v += 1", "    print(end='')", "    n.append(v.sum())"],
}


@pytest.mark.parametrize("kind", [*SCALARS, *(f"in {name}" for name in LOOPS)])
def test_a_scalar_of_numpy_is_a_copy_and_an_iterator_reads_as_it_goes(kind):
    lines = SCALARS.get(kind) or LOOPS[kind.removeprefix("in ")]
    function = _lines(*lines, "a += 1", "return n, a, x")
    compiled = explorer.compile(function)
    for _ in range(2):
        found, expected = compiled(torch.arange(4.0)), function(torch.arange(4.0))
        assert repr(found) == repr(expected)


def grown(x: Any, n: Any) -> Any:
    before = n
    n += 1
    return x * 2, n, before, max(n, 0.0)


def grown_often(x: Any, n: Any) -> Any:
    kept = [n]
    for i in range(3):
        n *= i + 2
        kept[0] -= n
    return x * 2, n, kept


def grown_inside(x: Any, n: Any) -> Any:
    def seen() -> Any:
        return n

    n **= 2
    return x + n, seen(), operator.iadd(n, 1), n


@pytest.mark.parametrize("number", [np.float64(2.5), np.float32(2.5), np.int64(3)], ids=lambda n: n.dtype)
@pytest.mark.parametrize("function", [grown, grown_often, grown_inside], ids=lambda f: f.__name__)
def test_an_operator_in_place_makes_another_number(function: Callable[..., Any], number: Any) -> None:
    compiled = explorer.compile(function)
    for _ in range(2):
        check_same(compiled(TENSOR, number), function(TENSOR, number))


@pytest.mark.parametrize("turned", ["tensor", "array", "both", "neither"])
def test_a_tensor_beside_an_array_lies_as_numpy_lays_it_out(turned: str) -> None:
    tensor, array = torch.rand(3, 2), np.random.rand(3, 2)
    x = tensor.t() if turned in ("tensor", "both") else tensor.reshape(2, 3)
    a = array.T if turned in ("array", "both") else array.reshape(2, 3)

    def function(x: Any, a: Any) -> Any:
        return x + a, x * a - 1, x.flip(0) * np.where(a > 0.5, a, 0)

    ours, eager = explorer.compile(function)(x, a), function(x, a)
    assert [each.stride() for each in ours] == [each.stride() for each in eager]


ORDERED: dict[str, Callable[[Any], Any]] = {
    "a branch": lambda a: 1 if a.sum() > 4 else 2,
    "each element": lambda a: a > 1,
    "the largest": lambda a: a.max(),
    "sorted": lambda a: np.sort(a),
}


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("order", ORDERED)
def test_complex_numbers_have_an_order_in_numpy_alone(order: str, written: bool) -> None:
    """A graph that fails after it has written its input could not be left to eager."""

    def function(x: Any) -> Any:
        a = x.numpy()
        if written:
            a += 1
        return ORDERED[order](a), x * 2

    given = [torch.tensor([1 + 2j, 3 - 1j, 1 + 1j]) for _ in range(2)]
    check_same(explorer.compile(function)(given[0]), function(given[1]))
    assert torch.equal(*given)


REVERSED = {
    "one dimension": lambda a: np.sin(a)[::-1],
    "another step": lambda a: np.sin(a)[:, ::-2][::-1, ::-1].copy(),
    "both": lambda a: np.exp(a)[::-1, ::-1],
    "turned": lambda a: np.exp(a)[::-1].T,
    "back again": lambda a: np.exp(a)[::-1][::-1],
    "computed from it": lambda a: np.exp(a)[::-1] * 2,
    "copied": lambda a: np.exp(a)[:, ::-1].copy(),
    "flip": lambda a: np.flip(np.cos(a), 1),
    "a row": lambda a: np.cos(a)[::-1][0],
    "joined": lambda a: np.concatenate([a, a])[::-1],
}
TO_TORCH = {
    "from_numpy": torch.from_numpy, "as_tensor": torch.as_tensor, "tensor": torch.tensor,
    "after a break": lambda a: (print(end=""), torch.from_numpy(a[::-1]))[1], "itself": lambda a: a,
}  # fmt: skip


@pytest.mark.parametrize("taken", TO_TORCH)
@pytest.mark.parametrize("name", REVERSED)
def test_arrays_in_reverse_lie_as_in_numpy(name, taken):
    function = lambda a: TO_TORCH[taken](REVERSED[name](a))  # noqa: E731
    found = []
    for run in (function, explorer.compile(function)):
        try:
            made = run(np.arange(12.0).reshape(3, 4))
            found.append(str((made, made.strides if isinstance(made, np.ndarray) else made.stride())))
        except ValueError as error:
            found.append(str(error))
    assert found[0] == found[1]


def out_of_ufunc(a: Any) -> None:
    np.multiply(a, 2, out=a)


def augmented(a: Any) -> None:
    a += 1


def through_a_view(a: Any) -> None:
    a[1:][0] = 3


def of_a_method(a: Any) -> None:
    a.fill(4)


@pytest.mark.parametrize("write", [out_of_ufunc, augmented, through_a_view, of_a_method])
def test_no_write_of_numpys_is_counted(write: Callable[[Any], None]) -> None:
    """So that the backward takes the memory as it is, as eager's does."""

    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = x * w
        z = y * y
        write(y.detach().numpy())
        write(x.detach().numpy())
        return z, y, y._version, x._version

    found = []
    for run in (function, explorer.compile(function)):
        x, w = (torch.arange(3.0).requires_grad_() for _ in range(2))
        results = run(x, w)
        found.append((*results, x._version, *torch.autograd.grad(results[0].sum(), (x, w)), x))
    torch.testing.assert_close(found[1], found[0])


def test_arrays_beside_tensors_around_others() -> None:
    """Such a tensor has no memory that could be told from an array's."""

    def program(array: Any, around: Any) -> Any:
        array += 1
        return torch.from_numpy(array) * 2, around.sin(), around.a

    shared = np.ones(3, np.float32)
    cases = (
        (lambda: (np.ones(3, np.float32), TwoTensor(torch.ones(3), torch.zeros(3)))),
        (lambda: (shared, TwoTensor(torch.from_numpy(shared), torch.zeros(3)))),
    )
    for case in cases:
        found = []
        for run in (program, explorer.compile(program)):
            shared[:] = 1
            bugs = TOTALS[CompilerBug.TOTAL]
            doubled, sine, part = run(*case())
            found.append([each.tolist() for each in (doubled, sine.a, sine.b, part)])
            assert TOTALS[CompilerBug.TOTAL] == bugs
        assert found[0] == found[1]
