"""What torch switches around code by with blocks, the default device and autocast: inside compiled functions, around
them, and where a graph ends inside one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import set_device
from torch.utils.checkpoint import checkpoint

import explorer
from capturing import compiled
from explorer.core.recorder import TOTALS
from explorer.ir import settings
from explorer.ir.capture import CompilerBug
from torch_release import BEFORE_2_13

BFLOAT16 = torch.autocast("cpu", dtype=torch.bfloat16)


@pytest.fixture(autouse=True)
def nothing_stays_switched() -> Iterator[None]:
    yield
    nesting = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    assert nesting == 0 and not torch.is_autocast_enabled("cpu")
    assert not _get_current_function_mode_stack()


def seen(values: Any) -> list[Any]:
    """Devices, dtypes and numbers of results; tensors on meta have no numbers."""
    found: list[Any] = []
    for value in values if isinstance(values, (tuple, list)) else [values]:
        if isinstance(value, Tensor):
            found += [value.device, value.dtype, tuple(value.shape)]
            found.append(None if value.is_meta else value.float().tolist())
        else:
            found.append(value)
    return found


def agree(fn: Callable[..., Any], *args: Any, breaks: int = 0, compiles: int | None = None) -> None:
    """Captured twice over the same inputs, `fn` does as eager does, compiled as often as its graph ends."""
    ours, captures = compiled(fn)
    for _ in range(2):
        torch.manual_seed(3)
        wanted = seen(fn(*args))
        torch.manual_seed(3)
        assert seen(ours(*args)) == wanted
    assert captures.fallbacks == []
    assert len(captures.places) == breaks
    assert len(captures.made) == (breaks + 1 if compiles is None else compiles)


# ------------------------------------------------------------------------------------------------------------- devices


def factories(x: Tensor) -> tuple[Any, ...]:
    return x + 1, torch.zeros(2), torch.rand(3), torch.arange(2), torch.ones_like(x), torch.get_default_device()


def a_block(x: Tensor) -> tuple[Any, ...]:
    with torch.device("meta") as device:
        made = torch.ones(2), torch.get_default_device(), torch.zeros(1, device="cpu"), torch.full((2,), 3.0)
    return *made, torch.ones(2), torch.get_default_device(), device


def nested_blocks(x: Tensor) -> tuple[Any, ...]:
    with torch.device("meta"):
        with torch.device("cpu"):
            inner = torch.ones(2)
        return inner, torch.arange(3)


@set_device("meta")
def decorated(n: int) -> Tensor:
    return torch.empty(n)


def calls_decorated(x: Tensor) -> tuple[Any, ...]:
    return decorated(3), torch.ones(1)


def left_by_an_exception(x: Tensor) -> tuple[Any, ...]:
    try:
        with torch.device("meta"):
            raise ValueError("inside")
    except ValueError as error:
        return torch.ones(2), str(error)


def copies(x: Tensor) -> tuple[Any, ...]:
    return torch.tensor(x), torch.as_tensor(x), torch.asarray(x), torch.full_like(x, 2), x.new_zeros(3)


BLOCKS = [factories, a_block, nested_blocks, calls_decorated, left_by_an_exception, copies]


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
@pytest.mark.parametrize("fn", BLOCKS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("around", [None, "cpu", "meta"])
def test_device_blocks(fn: Callable[..., Any], around: str | None) -> None:
    x = torch.ones(2)
    if around is None:
        agree(fn, x)
    else:
        with torch.device(around):
            agree(fn, x)


def test_break_inside_a_device_block() -> None:
    def fn(x: Tensor) -> tuple[Any, ...]:
        with torch.device("meta"):
            before = torch.ones(2)
            print(torch.get_default_device())
            after = torch.ones(3)
            with torch.device("cpu"):
                print("and again")
                inner = torch.ones(4)
            last = torch.zeros(1)
        return before, after, inner, last, torch.ones(1), x * 2

    agree(fn, torch.ones(2), breaks=2)


def test_an_exception_after_a_break_leaves_the_block() -> None:
    def fn(x: Tensor) -> Tensor:
        with torch.device("meta"):
            print("about to fail")
            raise ValueError(str(torch.ones(2).device))

    ours, _ = compiled(fn)
    for _ in range(2):
        with pytest.raises(ValueError, match="meta"):
            ours(torch.ones(2))
    assert torch.ones(1).device.type == "cpu"


def test_another_default_device_compiles_again() -> None:
    ours, captures = compiled(lambda x: torch.ones(2))
    x = torch.ones(2)
    for around, compiles in (("cpu", 1), ("meta", 2), ("cpu", 2), ("meta", 2)):
        with torch.device(around):
            assert ours(x).device.type == around
        assert len(captures.made) == compiles
    assert ours(x).device.type == "cpu" and len(captures.made) == 3


def test_the_default_device_of_a_thread() -> None:
    def sets(x: Tensor) -> tuple[Tensor, ...]:
        torch.set_default_device("meta")
        return x + 1, torch.ones(2)

    x = torch.ones(2)
    ours, captures = compiled(factories)
    try:
        torch.set_default_device("meta")
        assert seen(ours(x)) == seen(factories(x))
        with torch.device("cpu"):
            assert ours(x)[1].device.type == "cpu"
        torch.set_default_device(None)
        assert ours(x)[1].device.type == "cpu" and len(captures.made) == 3
        switching, _ = compiled(sets)
        assert [t.device.type for t in switching(x)] == ["cpu", "meta"]
        assert torch.get_default_device().type == "meta"
    finally:
        torch.set_default_device(None)


def test_what_a_compile_makes_for_itself_is_not_on_the_default_device() -> None:
    def fn(x: Tensor) -> Tensor:
        return x.clamp(0.0, x.mean()) * torch.tensor(2.0, device="cpu") + x.var()

    ours, x = explorer.compile(fn), torch.randn(8)
    with torch.device("meta"):
        torch.testing.assert_close(ours(x), fn(x))


@pytest.mark.parametrize("fn", [factories, a_block, nested_blocks], ids=lambda f: f.__name__)
def test_compiled_code_keeps_the_devices(fn: Callable[..., Any]) -> None:
    ours, x = explorer.compile(fn), torch.ones(2)
    for around in ("cpu", "meta", "cpu"):
        with torch.device(around):
            torch.manual_seed(3)
            wanted = seen(fn(x))
            torch.manual_seed(3)
            assert seen(ours(x)) == wanted


# ------------------------------------------------------------------------------------------------------------ autocast


def product(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    y = x @ w
    return y, y.sum(), torch.nn.functional.softmax(y, -1)


def breaks_inside(x: Tensor, w: Tensor) -> tuple[Any, ...]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        print("inside", torch.is_autocast_enabled("cpu"))
        y = y @ w
    return y, y.float() @ w, torch.is_autocast_enabled("cpu")


def breaks_inside_nested(x: Tensor, w: Tensor) -> tuple[Any, ...]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            print("nested")
            z = y.float() @ w
        u = z @ w
    return y, z, u, u.float() @ w


def breaks_inside_one_from_outside(x: Tensor, w: Tensor) -> tuple[Any, ...]:
    with BFLOAT16:
        y = x @ w
        print("inside")
        y = y @ w
    return y, y.float() @ w


def breaks_twice(x: Tensor, w: Tensor) -> tuple[Any, ...]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        print("once")
        y = x @ w
        print("twice")
    with torch.autocast("cpu", dtype=torch.float16):
        z = y.float() @ w
        print("three times")
        return y, z, z.float() @ w


AUTOCAST = {product: 0, breaks_inside: 1, breaks_inside_nested: 1, breaks_inside_one_from_outside: 1, breaks_twice: 3}


@pytest.mark.parametrize("fn", AUTOCAST, ids=lambda f: f.__name__)
@pytest.mark.parametrize("around", [False, True], ids=["plain", "around"])
def test_autocast_blocks(fn: Callable[..., Any], around: bool) -> None:
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=around):
        agree(fn, x, w, breaks=AUTOCAST[fn])


def test_a_block_that_torch_refuses_is_the_programs_error() -> None:
    def function(x: Tensor) -> Any:
        try:
            with torch.autocast("cpu", enabled=1):  # type: ignore[arg-type]
                return x @ x
        except TypeError as error:
            return str(error)

    bugs = TOTALS[CompilerBug.TOTAL]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = [made(torch.ones(2, 2)) for made in (function, explorer.compile(function))]
    assert found[0] == found[1] and type(found[0]) is str
    assert bugs == TOTALS[CompilerBug.TOTAL]


@pytest.mark.parametrize("fn", [fn for fn in AUTOCAST if fn is not breaks_twice], ids=lambda f: f.__name__)
@pytest.mark.parametrize("around", [None, torch.bfloat16], ids=str)
def test_compiled_code_under_autocast(fn: Callable[..., Any], around: torch.dtype | None) -> None:
    """Values, dtypes and gradients; the backward runs as autocast's users run it, outside the block."""

    def run(wrap: Callable[..., Any]) -> list[Tensor]:
        torch.manual_seed(0)
        x, w = torch.randn(4, 4), torch.nn.Parameter(torch.randn(4, 4))
        call = wrap(fn)
        for _ in range(2):
            w.grad = None
            with torch.autocast("cpu", dtype=around, enabled=around is not None):
                made = [value for value in call(x, w) if isinstance(value, Tensor)]
            sum((value.float() * 0.1).sum() for value in made).backward()
        assert w.grad is not None
        return [*(value.detach() for value in made), w.grad]

    for ours, eager in zip(run(explorer.compile), run(lambda fn: fn), strict=True):
        assert ours.dtype == eager.dtype
        torch.testing.assert_close(ours, eager, rtol=2e-2, atol=2e-2)


def test_another_autocast_state_compiles_again() -> None:
    ours, captures = compiled(lambda x: x @ x)
    x = torch.randn(4, 4)
    for _ in range(2):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
                assert ours(x).dtype == dtype
    assert len(captures.made) == 3


def test_the_backward_is_not_cast() -> None:
    """Autocast is for the forward: the backward of a float32 product is a float32 product."""

    def in_full(x: Tensor, w: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return x @ w

    def run(wrap: Callable[..., Any]) -> Tensor:
        torch.manual_seed(0)
        x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = wrap(in_full)(x, w)
        y.square().sum().backward()
        assert x.grad is not None
        return x.grad

    torch.testing.assert_close(run(explorer.compile), run(lambda fn: fn))


# ---------------------------------------------------------------------------------------- what is around the compiler


def test_an_exploration_under_a_default_device() -> None:
    """What it needs for itself (folded constants, statistics of times) is not on the default device."""

    def fn(x: Tensor) -> tuple[Tensor, ...]:
        return x * torch.full((2,), 2.0, device="cpu") * 3.0, torch.zeros(2)

    with torch.device("meta"):
        record = explorer.explore(fn)(torch.ones(2, device="cpu"))
    assert record.data.timing is not None and record.data.timing.accuracy is not None
    assert record.data.timing.accuracy.first_mismatch == ""
    assert record.data.coverage.fallback == 0


def test_stock_s_frontend_under_a_default_device() -> None:
    torch._dynamo.reset()
    before = explorer.counters().get("calls: fallback", 0)
    with torch.device("meta"):
        call = torch.compile(lambda x: x * torch.full((2,), 2.0, device="cpu") * 3.0, backend="explorer")
        assert call(torch.ones(2, device="cpu")).tolist() == [6.0, 6.0]
    assert explorer.counters().get("calls: fallback", 0) == before


@pytest.mark.parametrize(
    "program", [lambda x: (x @ x, torch.get_autocast_dtype("cpu")), lambda x: by_default(x), lambda x: given(x)]
)
def test_what_autocast_would_cast_to_is_guarded(program):
    x, compiled = torch.ones(2, 2), explorer.compile(program, backend="eager")
    try:
        for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
            torch.set_autocast_dtype("cpu", dtype)
            assert str(compiled(x)) == str(program(x))
    finally:
        torch.set_autocast_dtype("cpu", torch.bfloat16)


def by_default(x):
    with torch.autocast("cpu"):
        return x @ x


def given(x):
    with torch.autocast("cpu", torch.bfloat16):
        return x @ x


def fails(x: Tensor) -> Tensor:
    return torch.linalg.cholesky(-(x @ x.T).float())


def in_inference_mode(x: Tensor) -> Tensor:
    with torch.inference_mode():
        return fails(x)


def in_blocks_of_inference_mode(x: Tensor) -> Tensor:
    with torch.inference_mode(), torch.inference_mode(False), torch.inference_mode():
        return fails(x)


def without_grad_and_with_casts(x: Tensor) -> Tensor:
    with torch.no_grad(), BFLOAT16:
        return fails(x)


# Before torch 2.13, AOTAutograd drops calls that would raise.
@pytest.mark.parametrize("backend", ["explorer", "eager", *(() if BEFORE_2_13 else ("aot_eager",))])
@pytest.mark.parametrize("fn", [in_inference_mode, in_blocks_of_inference_mode, without_grad_and_with_casts])
def test_no_block_stays_open_where_a_graph_raises(fn: Callable[..., Any], backend: str) -> None:
    with pytest.raises(torch.linalg.LinAlgError) as kept_alive:
        explorer.compile(fn, backend=backend)(torch.rand(3, 3))
    assert kept_alive.value and not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


def break_off(x: Tensor) -> Any:
    return x.sum().item()


def asserts_after_a_block(x: Tensor) -> Tensor:
    with torch.no_grad():
        break_off(x)
    assert x.sum() > 100, "small"
    return x + 1


def inference_after_no_grad(x: Tensor) -> Any:
    with torch.no_grad():
        break_off(x)
    with torch.inference_mode():
        break_off(x)
        y = x * 2
    return y.is_inference(), (x * 2).requires_grad


def inference_where_grad_is_switched(x: Tensor) -> Any:
    torch.set_grad_enabled(False)
    with torch.inference_mode():
        break_off(x)
        y = x * 2
    return y.is_inference(), (x * 2).requires_grad


def grad_in_inference(x: Tensor) -> Any:
    with torch.no_grad():
        with torch.inference_mode():
            torch.set_grad_enabled(True)
            break_off(x)
            enabled, y = torch.is_grad_enabled(), x * 2
        z = x * 2
        break_off(x)
    return enabled, y.is_inference(), (x * 2).requires_grad, z.requires_grad


def settings_around_casts(x: Tensor) -> Any:
    torch.set_grad_enabled(False)
    with BFLOAT16:
        torch.set_grad_enabled(True)
        break_off(x)
        y = x @ x.T
        torch.set_grad_enabled(False)
        break_off(x)
    return y.dtype, y.requires_grad, (x @ x.T).requires_grad


def many_blocks(x: Tensor) -> Any:
    with torch.enable_grad():
        break_off(x)
        with torch.no_grad(), torch.inference_mode(False):
            break_off(x)
            with torch.enable_grad():
                y = x * 2
                assert x.sum() < 100
                break_off(x)
        z = x * 2
    return y.requires_grad, z.requires_grad


def a_block_that_is_over(x: Tensor) -> Any:
    block = torch.inference_mode()
    with block:
        x * 2
    break_off(x)
    y = x * 2
    return y.is_inference(), y.requires_grad, block.mode


KEPT: list[Any] = []


def keeps_its_block(x: Tensor) -> Any:
    block = torch.inference_mode()
    with block:
        x * 2
    KEPT.append(block)
    return block.mode


def modes_after(fn: Callable[..., Any]) -> list[Any]:
    try:
        made = fn(torch.ones(2, 2, requires_grad=True))
    except AssertionError as error:
        made = str(error).partition("\n")[0]
    seen = [made, torch.is_grad_enabled(), torch.is_inference_mode_enabled()]
    torch.set_grad_enabled(True)
    return seen


@pytest.mark.parametrize("backend", ["explorer", "eager"])
@pytest.mark.parametrize(
    "fn",
    [
        asserts_after_a_block, inference_after_no_grad, inference_where_grad_is_switched, grad_in_inference,
        settings_around_casts, many_blocks, a_block_that_is_over, keeps_its_block,
    ],
)  # fmt: skip
def test_modes_after_breaks(fn: Callable[..., Any], backend: str) -> None:
    assert modes_after(explorer.compile(fn, backend=backend)) == modes_after(fn)


HELD: dict[str, Tensor] = {}


def held(x: Tensor) -> Tensor:
    with torch.inference_mode():
        HELD["it"] = x.transpose(0, -1).sin()
    return HELD["it"]


@torch.inference_mode()
def written(x: Tensor) -> Any:
    x.add_(1)
    return x.t(), x * 2, x


@torch.inference_mode()
def detached(x: Tensor) -> Any:
    y = x.detach()
    y.mul_(2)
    return y, x.reshape(-1)


@torch.inference_mode()
def made_inside(x: Tensor) -> Any:
    y = (torch.ones(3) + x + torch.rand(3)).mul_(2)
    return y, y[0], y.t()


def facts(x: Tensor) -> Any:
    return x.tolist(), x.is_inference(), x.requires_grad, x._is_view(), x.stride(), x.is_inference() or x._version


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("fn", [held, written, detached, made_inside])
def test_a_function_in_inference_mode_is_compiled(fn: Callable[..., Any], requires_grad: bool) -> None:
    compiled, found = explorer.compile(fn), []
    for function in (fn, compiled):
        x = torch.ones(2, 3, requires_grad=requires_grad) * 0.5
        torch.manual_seed(0)
        made = function(x)
        found.append([facts(each) for each in (*(made if isinstance(made, tuple) else (made,)), x)])
    assert found[0] == found[1]
    record = explorer.explore(fn, time=False)(torch.ones(2, 3))
    assert record.kernels and record.coverage.fallback == 0


def gives_other_memory(x: Tensor) -> Tensor:
    x.data = x * 2
    return x + 1


def switches(x: Tensor) -> Tensor:
    with torch.inference_mode():
        y = x * 2
    return y + 1


def makes_a_leaf(x: Tensor) -> Tensor:
    return (x.detach() * 2).requires_grad_()


@pytest.mark.parametrize("fn", [gives_other_memory, switches, makes_a_leaf])
def test_a_users_backend_gets_what_has_no_functional_form(fn: Callable[..., Any]) -> None:
    handed: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        handed.append(module)
        return module.forward

    ours, eager = explorer.compile(fn, backend=backend)(x := torch.ones(2)), fn(y := torch.ones(2))
    assert len(handed) == 1 and facts(ours) == facts(eager) and facts(x) == facts(y)


def asks_for_inference_mode() -> Any:
    with torch.inference_mode():
        inside = torch.is_inference_mode_enabled()
    return inside, torch.is_inference_mode_enabled()


def makes_a_parameter() -> Any:
    made = torch.nn.Parameter(torch.ones(3))
    return made.is_inference(), made.tolist()


@pytest.mark.parametrize("fn", [asks_for_inference_mode, makes_a_parameter])
def test_inference_mode_is_guarded_where_no_tensor_tells_it(fn: Callable[[], Any]) -> None:
    compiled = explorer.compile(fn)
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad, torch.inference_mode):
        with mode():
            assert compiled() == fn()


WRITES = {
    "in place": lambda x, base: x.mul_(2),
    "out": lambda x, base: torch.sin(x, out=x),
    "its base": lambda x, base: base.add_(1),
    "a view of it": lambda x, base: x[0].zero_(),
    "other axes": lambda x, base: x.t_(),
    "data": lambda x, base: x.data.add_(1),
    "a branch": lambda x, base: torch.cond(x.mul_(2).sum() > 0, lambda q: q + 1, lambda q: q - 1, (x,)),
}


@pytest.mark.parametrize("of", [lambda p: p, lambda p: p * 1, lambda p: (p * 1)[1:], lambda p: p[1:]])
@pytest.mark.parametrize("name", WRITES)
def test_inference_mode_writes_what_requires_grad(name: str, of: Callable[[Tensor], Tensor]) -> None:
    """Of views of it, autograd can say nothing inside any more."""
    found = []
    before = TOTALS[CompilerBug.TOTAL]
    for function in (WRITES[name], explorer.compile(WRITES[name])):
        x = of(torch.ones(3, 3, requires_grad=True))
        with torch.inference_mode():
            function(x, x if x._base is None else x._base)
        found.append((x.tolist(), x._version, x.stride(), x.grad_fn and x.grad_fn.name()))
    assert found[0] == found[1] and TOTALS[CompilerBug.TOTAL] == before


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


RECORDS_IN_INFERENCE_MODE = {
    "checkpoint": lambda x, p: checkpoint(torch.sin, x, use_reentrant=False),
    "of keywords": lambda x, p: checkpoint(lambda q, k: q * k, p, k=x, use_reentrant=False),
    "of a list": lambda x, p: checkpoint(lambda q: q[0] * 2, [x], use_reentrant=False),
    "reentrant": lambda x, p: checkpoint(torch.sin, x, use_reentrant=True),
    "a function": lambda x, p: Doubled.apply(p),
    "of an inference tensor": lambda x, p: Doubled.apply(x),
    "an operator": lambda x, p: p * x,
}


@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.parametrize("name", RECORDS_IN_INFERENCE_MODE)
def test_what_is_recorded_in_inference_mode_is_so(name: str) -> None:
    call = RECORDS_IN_INFERENCE_MODE[name]

    def inside(x: Tensor, p: Tensor) -> Tensor:
        with torch.inference_mode(), torch.enable_grad():
            return call(x, p)

    def after(x: Tensor, p: Tensor) -> Tensor:
        with torch.inference_mode():
            x = x + 1
        return call(x, p)

    def throughout(x: Tensor, p: Tensor) -> Tensor:
        with torch.enable_grad():
            return call(x, p)

    for program in (inside, after, throughout):
        found = []
        for function in (program, explorer.compile(program)):
            with torch.inference_mode(program is throughout):
                try:
                    made = function(torch.ones(2), torch.ones(2, requires_grad=program is not throughout))
                    found.append((made.requires_grad, made.is_inference(), made.tolist()))
                except RuntimeError as error:
                    found.append(str(error))
        assert found[0] == found[1], program


RETURN_THEIR_INPUT = {
    "dropout": lambda a: F.dropout(a, 0.5),
    "aten.dropout": lambda a: torch.ops.aten.dropout(a, 0.5, True),
    "alpha_dropout": lambda a: F.alpha_dropout(a, 0.5, True),
    "evaluation": lambda a: F.dropout(a, 0.5, False),
    "contiguous": lambda a: a.contiguous(),
    "to": lambda a: a.to(torch.float32),
    "type_as": lambda a: a.type_as(a),
    "flatten": lambda a: a.flatten(),
    "sum_to_size": lambda a: a.sum_to_size(a.shape),
    "resolve_conj": lambda a: a.resolve_conj(),
}


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("shape", [(0,), (2,), (0, 3)], ids=str)
def test_operators_that_return_their_input_return_it(shape: tuple[int, ...], inference: bool) -> None:
    """What is then done to the result in place is done to the input, whose size may change."""

    def f(a, call):
        result = call(a)
        before = result is a
        result.data = torch.ones(1, 3)
        return before, a.size()

    for name, call in RETURN_THEIR_INPUT.items():
        with torch.inference_mode(inference):
            found = explorer.compile(f, backend="eager")(torch.ones(shape), call)
            assert found == f(torch.ones(shape), call), name


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("bits", [lambda x: torch._neg_view(x.real), torch.conj, lambda x: torch._neg_view(x).conj()])
def test_operators_that_return_their_input_resolve_its_bits_as_eager_does(bits: Any, inference: bool) -> None:
    """In inference mode the kernel of dropout gets a copy without them."""

    def f(a, call):
        result = call(a)
        return result is a, result.is_neg(), result.is_conj(), result.is_inference(), result * 2

    x = bits(torch.complex(torch.ones(2, 3), torch.ones(2, 3)))
    calls = {"nothing dropped": lambda a: F.dropout(a, 0.0), **RETURN_THEIR_INPUT}
    for name in calls.keys() - {"dropout", "aten.dropout", "alpha_dropout", "to"}:
        call = calls[name]
        with torch.inference_mode(inference):
            found, expected = explorer.compile(f, backend="eager")(x, call), f(x, call)
        assert found[:-1] == expected[:-1], name
        assert torch.equal(found[-1], expected[-1]), name


def sets_and_restores_inside(x: Tensor) -> None:
    with torch.inference_mode():
        x * 2
        torch.set_grad_enabled(True)(seen)
    torch.set_grad_enabled(False)


def sets_before_and_inside(x: Tensor) -> Tensor:
    torch.set_grad_enabled(not torch.is_grad_enabled())
    with torch.inference_mode():
        torch.set_grad_enabled(True)
        torch.set_grad_enabled(False)
    return x * 2


def sets_inside_alone(x: Tensor) -> Tensor:
    with torch.inference_mode():
        torch.set_grad_enabled(True)
    return x * 2


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("fn", [sets_and_restores_inside, sets_before_and_inside, sets_inside_alone])
def test_grad_mode_that_is_set_in_inference_mode_is_left_as_eager_leaves_it(fn, before):
    left = []
    for function in (fn, explorer.compile(fn)):
        with torch.set_grad_enabled(before):
            function(torch.ones(3))
            left.append(torch.is_grad_enabled())
            function(torch.ones(3))
            left.append(torch.is_grad_enabled())
    assert left[:2] == left[2:]


def set_inside_casts(x: Tensor) -> None:
    with torch.autocast("cpu"):
        torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_enabled("cpu", True)


def set_dtype_inside_casts(x: Tensor) -> None:
    with torch.autocast("cpu", dtype=torch.float16):
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        break_off(x)
    torch.set_autocast_dtype("cpu", torch.float16)


def set_cache_inside_casts(x: Tensor) -> None:
    with torch.autocast("cpu", enabled=False, cache_enabled=False):
        torch.set_autocast_cache_enabled(True)
    torch.set_autocast_cache_enabled(False)


@pytest.mark.parametrize("fn", [set_inside_casts, set_dtype_inside_casts, set_cache_inside_casts])
def test_casts_that_are_set_in_a_block_are_left_as_eager_leaves_them(fn):
    left = []
    for function in (fn, explorer.compile(fn)):
        with settings.kept():
            function(torch.ones(2, 2))
            left.append(settings.now())
    assert left[0] == left[1]
