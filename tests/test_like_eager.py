"""Small programs beside eager: results, flags, errors and their order, and what is left behind, in three calls each."""

from __future__ import annotations

import collections
import contextlib
import functools
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import explorer
from capturing import Captures
from explorer.compiler.capture import optimize
from explorer.compiler.config import Config
from explorer.core.files import PACKAGES

SEEN: list[Any] = []


class Signed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.sign()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return grad


@contextlib.contextmanager
def scope() -> Any:
    SEEN.append("begin")
    yield
    SEEN.append("end")


def told(fn: Callable[[torch.Tensor], Any], make: Callable[[], torch.Tensor], grad: bool) -> list[str]:
    """What three calls give, raise and leave, from the same start."""
    found: list[Any] = []
    for _ in range(3):
        SEEN.clear()
        torch.manual_seed(0)
        x = make()
        try:
            with torch.set_grad_enabled(grad):
                result = fn(x)
        except Exception as error:
            result = type(error), str(error)
        if isinstance(result, torch.Tensor):
            result = result.tolist(), result.requires_grad, result.is_leaf, result.device
        found.append((result, x.tolist(), x.requires_grad, list(SEEN)))
    return [str(each) for each in found]  # NaN is not equal to itself


def like_eager(make_fn: Callable[[], Any], make: Callable[[], torch.Tensor], grad: bool = True) -> None:
    """`make_fn` makes the function twice: what it remembers is its own."""
    assert told(explorer.compile(make_fn()), make, grad) == told(make_fn(), make, grad)


GIVEN = {
    "leaf": lambda: torch.ones(3),
    "leaf that requires grad": lambda: torch.ones(3, requires_grad=True),
    "result": lambda: torch.ones(3, requires_grad=True) * 2,
    "view": lambda: torch.ones(4, requires_grad=True)[1:],
    "integers": lambda: torch.arange(3),
}

FLAGS = [
    "x.requires_grad = True", "x.requires_grad = False", "x.requires_grad = 0", "x.requires_grad_()",
    "x.requires_grad_(0)", "(x * 2).requires_grad = True", "x.view(-1).requires_grad = True",
    "setattr(x.detach(), 'requires_grad', True)", "x.requires_grad = bool(x.sum() != 0)",
]  # fmt: skip


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("flag", FLAGS)
def test_flags_of_leaves(flag: str, given: str, grad: bool) -> None:
    space: dict[str, Any] = {}
    exec(f"def fn(x):\n    {flag}\n    return x * 3", space)
    like_eager(lambda: space["fn"], GIVEN[given], grad)


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize("used", [True, False], ids=["used", "unused"])
def test_an_operator_inside_of_an_autograd_function_refuses(used: bool, grad: bool) -> None:
    def fn(x: torch.Tensor) -> Any:
        made = Signed.apply(x)
        return made if used else x.real + 1

    like_eager(lambda: fn, lambda: torch.ones(2, dtype=torch.complex64), grad)
    like_eager(lambda: fn, lambda: torch.ones(2, dtype=torch.complex64, requires_grad=True), grad)


@pytest.mark.parametrize("expression", ["x // 0", "x % 0", "x.floor_divide(0)", "x.remainder(0)", "5 // (x + 1)"])
@pytest.mark.parametrize("size", [0, 3])
def test_division_by_the_number_zero_raises_where_it_is_written(expression: str, size: int) -> None:
    space: dict[str, Any] = {"SEEN": SEEN}
    body = f"    try:\n        return {expression}\n    except RuntimeError as error: SEEN.append(str(error))\n"
    exec(f"def fn(x):\n{body}    return x + 7", space)
    like_eager(lambda: space["fn"], lambda: torch.arange(size))
    like_eager(lambda: space["fn"], lambda: torch.ones(size))


DEQUES = [
    "d.append(x)", "d.appendleft(x)", "d.pop()", "d.popleft()", "d.rotate()", "d.clear()", "d.extend([1, 2])",
    "d.insert(0, 1)", "d.remove(2)", "d.reverse()", "d[0] = 5", "del d[0]", "SEEN.append(x.numpy().sum())",
]  # fmt: skip


@pytest.mark.parametrize("bound", [None, 3], ids=["unbounded", "bounded"])
@pytest.mark.parametrize("change", DEQUES)
def test_a_deque_changes_while_it_is_gone_over(change: str, bound: int | None) -> None:
    space: dict[str, Any] = {"SEEN": SEEN, "deque": collections.deque, "bound": bound}
    lines = ["d = deque([1, 2, 3], bound)", "for each in d:", "    SEEN.append(each)", f"    {change}"]
    lines += ["    if len(SEEN) > 9: break", "return x + len(d)"]
    exec("def fn(x):\n" + "".join(f"    {line}\n" for line in lines), space)
    like_eager(lambda: space["fn"], lambda: torch.ones(2))


def test_an_ordered_dictionary_grows_while_it_is_gone_over() -> None:
    def fn(x: torch.Tensor) -> Any:
        held = collections.OrderedDict(a=1, b=2)
        for key in held:
            held[key + "x"] = 3
        return x

    like_eager(lambda: fn, lambda: torch.ones(2))


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a context"])
def test_a_cache_whose_function_has_side_effects(inside: bool) -> None:
    def make() -> Any:
        @functools.lru_cache
        def remembered(n: int) -> int:
            SEEN.append(n)
            return n * 2

        def fn(x: torch.Tensor) -> torch.Tensor:
            with scope() if inside else contextlib.nullcontext():
                return x + remembered(7)

        return fn

    like_eager(make, lambda: torch.ones(2))


def test_a_cache_remembers_an_older_result() -> None:
    held = [1]

    def make() -> Any:
        held[0] = 1

        @functools.cache
        def remembered(n: int) -> int:
            return n * held[0]

        remembered(7)
        held[0] = 2
        return lambda x: x + remembered(7)

    like_eager(make, lambda: torch.ones(2))


class Remembering:
    def __init__(self, n: int) -> None:
        self.n = n

    @functools.lru_cache  # noqa: B019
    def number(self, k: int) -> int:
        return k * self.n

    @functools.lru_cache  # noqa: B019
    def tensor(self, k: int) -> torch.Tensor:
        return torch.ones(k) * self.n


@functools.cache
def of_object(given: Any, *, k: int = 1) -> Any:
    return given.n * k if isinstance(given, Remembering) else given + SEEN[0]


@functools.lru_cache(maxsize=1)
def last(k: int) -> list[int]:
    return [k, SEEN[0]]


@functools.cache
def refusing(k: int) -> int:
    if SEEN[0] == 2:
        raise ValueError("two")
    return k


CACHES = [Remembering.number, Remembering.tensor, of_object, last, refusing]

ASKED = [
    "p.number(3)", "p.tensor(2)", "p.tensor(2).add_(1)", "of_object(p)", "of_object(p, k=2)", "of_object(k=2, given=p)",
    "of_object(x)", "of_object(x.shape[0])", "of_object(x + 1)", "last(3)[1]", "last(1)[0] + last(2)[1] + last(1)[1]",
    "(last(3).append(1), len(last(3)))[1]", "refusing(4)", "(setattr(p, 'n', 8), p.number(3))[1]",
    "(CACHES[0].cache_clear(), p.number(3))[1]", "CACHES[0].cache_info().currsize + p.number(4)",
]  # fmt: skip


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_cache_is_asked(asked: str, dynamic: bool | None) -> None:
    """Of objects and tensors too, after what its function reads has changed and after it was cleared."""
    space = dict(globals())
    exec(f"def fn(x, p):\n    return x + {asked}", space)

    def seen(fn: Callable[..., Any]) -> list[Any]:
        found: list[Any] = []
        for cache in CACHES:
            cache.cache_clear()
        x, p = torch.ones(2), Remembering(2)
        for number, clears in ((1, False), (1, False), (2, False), (2, True), (3, False)):
            SEEN[:] = [number]
            p.n = number * 2
            for cache in CACHES if clears else ():
                cache.cache_clear()
            try:
                found.append(fn(x, p).tolist())
            except ValueError as error:
                found.append(str(error))
        found.append(fn(x * 3, Remembering(9)).tolist())
        SEEN.clear()
        return found

    assert seen(explorer.compile(space["fn"], dynamic=dynamic)) == seen(space["fn"])


INSTALLED = """
import functools

@functools.cache
def is_available(k):
    return k == 3

def fn(x, held):
    held["calls"] = held["calls"] + 1
    return x * 2 if is_available(3) and not is_available(held["calls"]) else x
"""


@pytest.mark.parametrize("folder, whole", [(PACKAGES[0], True), ("/", False)])
def test_a_cache_of_an_installed_package_does_not_break_the_graph(folder: str, whole: bool) -> None:
    """Models of packages ask caches everywhere; a program's own may be asked for its cache_info()."""
    space: dict[str, Any] = {"__name__": "caches"}
    exec(compile(INSTALLED, f"{folder}caches.py", "exec"), space)
    captures, results = Captures(), []
    for fn in (optimize(space["fn"], Config(), captures), space["fn"]):
        held = {"calls": 1}
        results.append([(fn(torch.ones(2), held).tolist(), dict(held)) for _ in range(3)])
    assert results[0] == results[1]
    assert bool(captures.breaks) is not whole


GENERATORS = [
    "g = torch.Generator()", "g = torch.Generator(); g.manual_seed(3)",
    "g = torch.Generator('cpu').manual_seed(x.dim())",
]  # fmt: skip

DRAWN = ["torch.rand(2, generator=g)", "torch.randperm(4, generator=g)", "x.uniform_(generator=g)"]


@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.parametrize("made", GENERATORS)
def test_a_generator_made_in_each_call(made: str, drawn: str) -> None:
    space: dict[str, Any] = {"torch": torch}
    exec(f"def fn(x):\n    {made}\n    return {drawn}", space)
    like_eager(lambda: space["fn"], lambda: torch.ones(2))


@pytest.mark.parametrize("number", ["x.sum().item()", "int(x.sum())", "float(x.numpy().sum())"])
def test_a_number_read_under_a_default_device(number: str) -> None:
    """The continuation takes it as a tensor, which the ambient device must not place."""
    space: dict[str, Any] = {"torch": torch, "io": io, "contextlib": contextlib}
    lines = ["with torch.device('meta'):"]
    lines += ["    with contextlib.redirect_stdout(io.StringIO()):", "        print('break')"]
    lines += [f"    y = x[1, None] * {number}", "return y.flip(0) * 2"]
    exec("def fn(x):\n" + "".join(f"    {line}\n" for line in lines), space)
    compiled = explorer.compile(space["fn"])
    for size in (3, 4, 5):
        assert torch.equal(compiled(torch.ones(size, 2)), space["fn"](torch.ones(size, 2)))


LAYOUTS = {
    "contiguous": lambda: torch.arange(12.0).view(3, 4),
    "with gaps": lambda: torch.arange(24.0).view(3, 8)[:, 2:6],
    "every second row": lambda: torch.arange(24.0).view(6, 4)[::2],
    "turned": lambda: torch.arange(12.0).view(4, 3).t(),
}

VIEWED = ["torch.int32", "torch.float32", "torch.int16", "torch.uint8", "torch.float64"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", VIEWED)
@pytest.mark.parametrize("used", ["y.add_(1)", "x[1].mul_(2)", "x = y.clone() + 1", "x = y.sum()"])
def test_the_bytes_of_a_written_tensor_as_another_dtype(used: str, dtype: str, layout: str) -> None:
    """What the library makes the view of lies as in eager, though no loop needs the gaps."""
    space: dict[str, Any] = {"torch": torch}
    exec(f"def fn(x):\n    x[0].add_(1)\n    y = x.view({dtype})\n    {used}\n    return x", space)
    like_eager(lambda: space["fn"], LAYOUTS[layout])


NUMBERS = [np.float64(2.5), np.float32(1.5), np.int32(3), np.int64(4), np.float16(1)]


@pytest.mark.parametrize("other", ["2", "2.5", "True", "x.sum().item()"])
@pytest.mark.parametrize("maker", ["tensor", "as_tensor", "asarray"])
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: type(number).__name__)
def test_a_tensor_of_numbers_of_numpy_beside_others(number: Any, maker: str, other: str) -> None:
    space: dict[str, Any] = {"torch": torch, "number": number}
    exec(f"def fn(x):\n    made = torch.{maker}([number, {other}])\n    return x + made.numel(), made.dtype", space)
    like_eager(lambda: space["fn"], lambda: torch.ones(2))


@pytest.mark.parametrize("mode", [contextlib.nullcontext, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("given", ["x", "x[1]", "x[1].view(-1)"])
def test_other_data_after_writes_to_the_first(given: str, mode: Any) -> None:
    space: dict[str, Any] = {}
    lines = [f"y = {given}", "y.add_(1)", "y.data.add_(1)", "y.data = y.data.clone()", "y.add_(5)", "return x * 2"]
    exec("def fn(x):\n" + "".join(f"    {line}\n" for line in lines), space)

    def make() -> Any:
        def fn(x: torch.Tensor) -> torch.Tensor:
            with mode():
                return space["fn"](x)

        return fn

    like_eager(make, lambda: torch.arange(6.0).view(2, 3))


VMAP = torch.func.vmap

TRANSFORMS = {
    "vmap": lambda y: VMAP(lambda q: q * 2)(y),
    "a view": lambda y: VMAP(lambda q: q.view(-1))(y),
    "a number in two levels": lambda y: VMAP(VMAP(lambda q: 2 - (q + 1) / 3))(y),
    "an integer to a float": lambda y: VMAP(VMAP(lambda q: q.int() * 2.5))(y),
    "grad": lambda y: torch.func.grad(lambda q: (q.reshape(-1) ** 2).sum())(y),
    "jacfwd": lambda y: torch.func.jacfwd(lambda q: (q + 1) * 2)(y),
    "hessian": lambda y: torch.func.hessian(lambda q: ((q + 1) ** 2).sum())(y),
}


@pytest.mark.parametrize("mode", [contextlib.nullcontext, torch.no_grad])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_transform_of_what_was_written(transform: str, mode: Any) -> None:
    """Below its levels, whether results share memory is asked as elsewhere; grad mode is put back."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        with mode():
            x.add_(1)
            return TRANSFORMS[transform](x)

    like_eager(lambda: fn, lambda: torch.arange(6.0).view(2, 3))
    record = explorer.explore(fn, time=False)(torch.arange(6.0).view(2, 3).half())
    assert not record.errors and record.data.timing is not None and record.data.timing.accuracy is not None
    assert not record.data.timing.accuracy.first_mismatch


@pytest.mark.parametrize("grad", [False, True])
def test_a_zero_tensor_has_no_memory_to_read(grad: bool) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x * 2 + 1).sin() + x.sum()

    compiled = explorer.compile(fn)
    for given in (torch.ones(3), torch._efficientzerotensor(3).requires_grad_(grad), torch.ones(3)):
        assert torch.equal(compiled(given), fn(given))
    record = explorer.explore(fn, time=False)(torch._efficientzerotensor(3))
    assert "a zero tensor, which has no memory" in record.text()


WRITES = ["x.data.add_(1)", "x.data[0].add_(1)", "x.detach().add_(1)", "x.data.add_(1); x.detach().mul_(2)",
          "x.unbind()[0].data.add_(1)", "torch.clamp(x.data, 0, 1, out=x.data)", "x.data.copy_(x * 2)"]  # fmt: skip


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("after", ["pass", "print(end='')", "y = y * 2"])
@pytest.mark.parametrize("write", WRITES)
def test_versions_after_a_write_through_data(write: str, after: str, grad: bool) -> None:
    """Autograd is not told of it, also where a view was taken before."""
    space: dict[str, Any] = {"torch": torch}
    exec(f"def fn(x):\n    y = x[0]\n    {write}\n    {after}\n    return y, x._version", space)
    compiled = explorer.compile(space["fn"])
    for _ in range(3):
        found: list[Any] = []
        for call in (space["fn"], compiled):
            x = torch.ones(3, 2).requires_grad_(grad)
            y, inside = call(x)
            found.append((y.tolist(), y.requires_grad, y._version, inside, x.tolist(), x._version))
        assert found[0] == found[1]


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return grad * 2


COUNTED = [
    "x.add_(1)", "x[0] = 2", "x[0] += 1", "x.detach().mul_(2)", "x.data.mul_(2)", "x.view(-1).neg_()", "x.zero_()",
    "x.copy_(x)", "x.unsqueeze_(0).squeeze_(0)", "x.t_()", "torch.add(x, 1, out=x)", "torch._foreach_add_([x, x], 1)",
    "x.clamp_(0, 1)", "x.masked_fill_(x > 0, 1)", "x.uniform_()", "x.fill_(x.sum().detach())", "x[:0].zero_()",
    "Doubling.apply(x)", "torch.func.vmap(lambda r: r.add_(1))(x)", "[row.add_(1) for row in x]",
    "[[each.mul_(2) for each in x] for row in x]", "batch_norm(x * 2, x[0].detach(), x[1].detach(), training=True)",
]  # fmt: skip


@pytest.mark.parametrize("given", [*GIVEN, "inference tensor"])
@pytest.mark.parametrize("at", range(len(COUNTED)))
def test_each_write_counts(at: int, given: str) -> None:
    """The version of a tensor that is written twice and more in one call, and of a view of it."""
    space: dict[str, Any] = {"torch": torch, "Doubling": Doubling, "batch_norm": torch.nn.functional.batch_norm}
    lines = [COUNTED[at], COUNTED[at - 1], COUNTED[at - 5], "return x + 0"]
    exec("def fn(x):\n" + "".join(f"    {line}\n" for line in lines), space)

    def versions(fn: Callable[[torch.Tensor], Any], grad: bool) -> list[Any]:
        found: list[Any] = []
        for _ in range(2):
            with torch.inference_mode(given == "inference tensor"):
                x = GIVEN.get(given, GIVEN["leaf"])()
            view = x[:1]
            try:
                with torch.set_grad_enabled(grad):
                    fn(x)
            except (RuntimeError, IndexError) as error:
                found.append(type(error))
            found += ["none" if each.is_inference() else each._version for each in (x, view)]
        return found

    for grad in (True, False):
        for backend in ("explorer", "aot_eager"):
            assert versions(explorer.compile(space["fn"], backend=backend), grad) == versions(space["fn"], grad)


LAZY = ["(x * 1j).conj()", "(x * 1j).mH", "(x * 1j).conj().imag", "(x * 1j).conj().real", "(x * 1)._neg_view()"]

LAZY_WRITES = ["pass", "y.mul_(2)", "y[0] = 3", "y[0].add_(1)", "y.real.mul_(2)", "y.diagonal().neg_()", "y.zero_()"]


@pytest.mark.parametrize("write", LAZY_WRITES)
@pytest.mark.parametrize("made", LAZY)
def test_bits_of_what_is_written_through_a_conjugate(made: str, write: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def fn(x):\n    y = {made}\n    {write}\n    return y, y[0], y + 0", space)
    x = torch.arange(4.0).view(2, 2)
    for each, expected in zip(explorer.compile(space["fn"])(x), space["fn"](x), strict=True):
        assert (each.is_conj(), each.is_neg(), each.tolist()) == (
            expected.is_conj(), expected.is_neg(), expected.tolist()
        )  # fmt: skip


CHOSEN = [
    "max(x)", "min(x[0], x[1])", "max(x) * 2", "max(a, b)", "(max(a, b), a)", "(max(a, b) is a, b)",
    "min(a, b, a * 2) + 1",
    "max(a, b.detach())", "(m := max(x), m is x[2])", "min(a, b, key=lambda each: -each)",
]  # fmt: skip


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize("chosen", CHOSEN)
def test_the_largest_of_tensors_is_one_of_them(chosen: str, grad: bool) -> None:
    """The very object, in the memory that it has, and with its gradient."""
    space: dict[str, Any] = {}
    exec(f"def fn(x):\n    a, b = x.sum(), x.mean()\n    return {chosen}", space)

    def seen(fn: Callable[[torch.Tensor], Any], requires_grad: bool) -> list[Any]:
        x = torch.arange(4.0).requires_grad_(requires_grad)
        with torch.set_grad_enabled(grad):
            found = fn(x)
        found = found if isinstance(found, tuple) else (found,)
        tensors = [each for each in (x, *found) if isinstance(each, torch.Tensor)]
        given = {each.untyped_storage().data_ptr(): n for n, each in enumerate(tensors)}
        return [
            (each.tolist(), each.requires_grad, given[each.untyped_storage().data_ptr()])
            if isinstance(each, torch.Tensor) else each for each in found
        ]  # fmt: skip

    for requires_grad in (False, True):
        assert seen(explorer.compile(space["fn"]), requires_grad) == seen(space["fn"], requires_grad)


@pytest.mark.parametrize("view", ["x.data", "x.data[0]", "x.detach()", "x[1:].data", "x.view(-1).detach()"])
@pytest.mark.parametrize("write", ["y.add_(1)", "y.mul_(2); y.add_(1)", "x.detach().add_(1)", "y.data.add_(1)"])
def test_versions_read_inside(view: str, write: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def fn(x):\n    y = {view}\n    {write}\n    return x * 0 + y._version * 10 + x._version", space)
    like_eager(lambda: space["fn"], lambda: torch.ones(2, 3))
    like_eager(lambda: space["fn"], lambda: torch.ones(2, 3, requires_grad=True))


OUT = {
    "same": lambda: (torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.long)),
    "turned": lambda: (torch.zeros(3, 2).t(), torch.zeros(3, 2, dtype=torch.long).t()),
    "empty": lambda: (torch.empty(0), torch.empty(0, dtype=torch.long)),
    "values alone": lambda: (torch.zeros(2, 3), torch.empty(0, dtype=torch.long)),
}

INTO = [
    "torch.sort(x, -1, out=(v, i))", "torch.topk(x, 3, out=(v, i))", "torch.cummax(x, 0, out=(v, i))",
    "torch.add(x, 1, out=v)", "torch.argsort(x, -1, out=i)", "torch.cumsum(x, 0, out=v)",
]  # fmt: skip


@pytest.mark.parametrize("given", ["with gaps", "turned", "overlapping"])
@pytest.mark.parametrize("out", OUT)
@pytest.mark.parametrize("into", INTO)
def test_strides_of_out(into: str, out: str, given: str) -> None:
    space: dict[str, Any] = {"torch": torch, "np": np, "made": OUT[out]}
    exec(f"def fn(x):\n    v, i = made()\n    {into}\n    return v, i", space)

    def seen(fn: Callable[[torch.Tensor], Any]) -> list[Any]:
        layout = torch.arange(6.0).as_strided((2, 3), (1, 1)) if given == "overlapping" else LAYOUTS[given]()[:2, :3]
        try:
            return [(each.stride(), each.tolist()) for each in fn(layout)]
        except (RuntimeError, TypeError, AttributeError) as error:
            return [str(error)]

    assert seen(explorer.compile(space["fn"])) == seen(space["fn"])


@pytest.mark.parametrize("made", ["np.zeros(2)", "np.arange(6.0)", "np.sin(x.numpy())[0]"])
def test_the_memory_of_an_array_is_not_resized(made: str) -> None:
    space: dict[str, Any] = {"torch": torch, "np": np}
    exec(f"def fn(x):\n    v = torch.from_numpy({made})\n    torch.add(x, 1, out=v)\n    return v", space)
    like_eager(lambda: space["fn"], lambda: torch.ones(2, 3, dtype=torch.float64))


@pytest.mark.parametrize("write", ["t_()", "unsqueeze_(0)", "add_(1)", "mul_(2).squeeze_()"])
def test_data_of_another_tensor_in_inference_mode_counts_no_writes(write: str) -> None:
    """`is_inference()` is False for it, yet it has no version."""
    namespace = {"torch": torch}
    exec(f"def call(x):\n    y = torch.unique(x)\n    y.data = x\n    y.{write}\n    return y", namespace)
    found = []
    for call in (namespace["call"], explorer.compile(namespace["call"])):
        with torch.inference_mode():
            made = call(torch.tensor([[3.0, 1.0]]))
            found.append((made.tolist(), made.stride(), made.is_inference()))
    assert found[0] == found[1]


TURNS = [
    "t_()", "transpose_(0, 1)", "transpose_(dim0=0, dim1=-1)", "swapaxes_(0, 1)", "unsqueeze_(-1)", "squeeze_(0)",
    "squeeze_()", "squeeze_((0, 1))", "t_().unsqueeze_(0)", "as_strided_((3, 1), (1, 3))",
]  # fmt: skip


@pytest.mark.parametrize("given", ["x", "x * 1", "(x * 1)[:1]"])
@pytest.mark.parametrize("turn", TURNS)
def test_other_axes_of_what_requires_grad(turn: str, given: str) -> None:
    """The gradient, the version, and the names that errors of a later backward give."""
    space: dict[str, Any] = {"torch": torch}
    exec(f"def fn(x):\n    x.{turn}\n    return x.amax(0), x * x", space)
    found: list[Any] = []
    for fn in (space["fn"], explorer.compile(space["fn"])):
        x = torch.arange(3.0)[None].requires_grad_()
        y = eval(given)
        try:
            made = fn(y)
            sum(each.sum() for each in made).backward()
            found.append([y.grad_fn.name(), y._version, y.shape, y.stride(), x.grad.tolist()])
        except RuntimeError as error:
            found.append(str(error))
    assert found[0] == found[1]


RESIZED_OUT = [
    "torch.sort(x, -1, out=(x, y.long()))", "torch.add(x, 1, out=y)", "torch.sort(x, -1, out=(y, n))",
    "torch.max(x, 0, out=(y, n))", "torch.cat([x, x], out=y)", "torch.sort(x, -1, out=(x, n))",
]  # fmt: skip


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("call", RESIZED_OUT)
def test_an_out_that_gets_another_shape_beside_other_writes(call: str, backend: str) -> None:
    """Also where the call breaks the graph, which returns the tensor as it was before."""
    space: dict[str, Any] = {"torch": torch}
    made = "y, n = torch.empty(0), torch.empty(0, dtype=torch.long)"
    exec(f"def fn(x):\n    torch.clamp(x.data, 0, 1, out=x.data)\n    {made}\n    {call}\n    return y, n", space)
    found = []
    for fn in (space["fn"], explorer.compile(space["fn"], backend=backend)):
        x = torch.arange(12.0).view(2, 2, 3) / 8
        results = fn(x)
        found.append([(each.tolist(), each.stride()) for each in (*results, x)])
    assert found[0] == found[1]


VERSIONS = {
    "read": "return x * x._version",
    "after a write": "x.add_(1); return x * x._version, x._version",
    "of rows": "x[0].add_(1); x[1].mul_(2); return x[0]._version * x, x._version",
    "through detach": "x.detach().add_(1); return x._version * x",
    "through data": "x.data.add_(1); return x._version * x",
    "several": "a = x._version; x.add_(1); b = x._version; x.view(-1).neg_(); return a, b, x[0]._version, x * 1",
    "out": "torch.add(x, 1, out=x); return x._version * x",
    "statistics": "torch.nn.functional.batch_norm(x * 2, x[0], x[1], training=True); return x._version * x",
    "turned": "x.t_(); return x._version * x",
    "a branch": "return x + 1 if x._version > 2 else x - 1",
    "in a loop": "for row in x:\n        row.add_(1)\n    return x * row._version",
}


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("name", VERSIONS)
def test_the_version_of_an_input_is_read_in_the_graph(name: str, backend: str) -> None:
    space: dict[str, Any] = {"torch": torch}
    exec(f"def fn(x):\n    {VERSIONS[name]}", space)
    compiled = explorer.compile(space["fn"], backend=backend, fullgraph=True)
    for writes in (0, 1, 3, 2, 7):
        for made in (torch.ones(2, 2), torch.ones(3, 2, 2)[1], torch.ones(2, 2).detach()):
            found = []
            for fn in (space["fn"], compiled):
                x = made.clone() if made._base is None else made._base.clone()[1]
                for _ in range(writes):
                    x.add_(1)
                found.append((str(fn(x)), x.tolist(), x._version))
            assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
def test_the_version_of_memory_that_several_inputs_share(backend: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        y.add_(1)
        return x._version * x, y._version * y

    compiled = explorer.compile(fn, backend=backend)
    for alias in (lambda x: x, lambda x: x.detach(), lambda x: x[0], lambda x: x.data, lambda x: x.clone()):
        found = []
        for call in (fn, compiled):
            x = torch.ones(2, 2)
            found.append(str(call(x, alias(x))))
        assert found[0] == found[1]
