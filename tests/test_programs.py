"""The zoo holds what it declares, in eager torch alone; and `assert_same` can fail."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from programs import FUSION_PAIRS, MODELS, NAMED, TAGS, TRANSFORMERS, ZOO, Program, assert_same, call, observe, tagged
from zoo.leaves import tensors
from zoo.observe import aliases
from zoo.program import program, seeded

DTYPES = {
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "complex": torch.complex64,
    "bool": torch.bool,
}


def each(programs: Any) -> Callable[[Any], Any]:
    return pytest.mark.parametrize("p", programs, ids=lambda p: p.name)


def every_model() -> list[Any]:
    missing = pytest.mark.skip(reason="transformers is not installed")
    return [pytest.param(m, id=m.name, marks=() if m.available else missing) for m in (*MODELS, *TRANSFORMERS)]


def inputs_of(p: Program) -> dict[str, Tensor]:
    return tensors(p.inputs())


def output_of(values: dict[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in values.items() if path.startswith("output")}


@each(ZOO)
def test_runs_and_repeats(p: Program) -> None:
    for inputs in (p.inputs, *p.other_inputs):
        assert_same(observe(p, inputs=inputs), observe(p, inputs=inputs))


@each([p for p in ZOO if p.grad])
def test_gradients_exist_and_are_finite(p: Program) -> None:
    run = observe(p, train=True)
    assert_same(run, observe(p, train=True))
    assert run.grads
    for path, grad in run.grads.items():
        assert grad is not None, f"{path} has no gradient"
        assert grad.isfinite().all(), f"the gradient of {path} is not finite"
        assert grad.numel() == 0 or grad.abs().sum() > 0, f"the gradient of {path} is zero, so it can hide an error"


@each(ZOO)
def test_shape_of_the_declaration(p: Program) -> None:
    assert p.tags and p.tags <= TAGS
    assert ("break" in p.tags) == (p.breaks > 0)
    assert ("dynamic" in p.tags) <= bool(p.other_inputs)
    assert ("module" in p.tags) <= isinstance(p.build(), nn.Module)
    assert sum(t.numel() for t in inputs_of(p).values()) <= 4096
    assert "lambda" not in p.fn.__qualname__
    assert inspect.getsource(p.fn) and inspect.getsource(p.build() if inspect.isfunction(p.build()) else p.fn)
    assert p.is_factory or p.build() is p.fn


@each(ZOO)
def test_tags_hold(p: Program) -> None:
    before = inputs_of(p)
    with DtypesSeen() as seen:
        run = observe(p)
    changed = [path for path, value in before.items() if not same_bits(value, run.values[observed_path(path)])]
    if changed:
        assert p.tags & {"mutation", "effects"}, f"changes {changed}"
    assert ("print" in p.tags) == bool(run.printed)
    for tag, dtype in DTYPES.items():
        assert (tag in p.tags) <= (dtype in seen.dtypes), f"nothing is of {dtype}"
    everything = [value for value in run.values.values() if isinstance(value, Tensor)]
    assert ("channels_last" in p.tags) <= any(
        value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last) for value in everything
    )
    assert ("noncontiguous" in p.tags) <= any(not value.is_contiguous() for value in before.values())
    assert ("zero_size" in p.tags) <= any(value.numel() == 0 for value in before.values())
    assert ("zero_dim" in p.tags) <= any(value.dim() == 0 for value in before.values())
    assert ("multi_output" in p.tags) <= (len(output_of(run.values)) > 1)
    shared = [group for group in aliases(run.values) if any(path.startswith("output") for path, _, _ in group)]
    if shared:
        assert p.tags & {"alias", "view", "mutation", "container", "effects"}, f"aliases {shared}"


class DtypesSeen(TorchDispatchMode):
    """Collects the dtype of every tensor that an operator takes or makes."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        self.dtypes |= {value.dtype for value in tensors((args, output)).values()}
        return output


def observed_path(path: str) -> str:
    """A factory returns (args, kwargs), so its paths begin with [0] or [1]; `observe` says args and kwargs."""
    return ("args" if path.startswith("[0]") else "kwargs") + path[3:]


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) and torch.equal(a != a, b != b)


@each([p for p in ZOO if "random" not in p.tags])
def test_only_programs_that_say_so_are_random(p: Program) -> None:
    def reseeded(fn: Callable[..., Any]) -> Callable[..., Any]:
        def call_with_another_seed(*args: Any, **kwargs: Any) -> Any:
            torch.manual_seed(1234)
            return fn(*args, **kwargs)

        return call_with_another_seed

    assert_same(observe(p, reseeded), observe(p))


@each([p for p in ZOO if p.large])
def test_large_inputs_run(p: Program) -> None:
    assert p.large is not None
    observe(p, inputs=p.large)


def test_the_zoo_is_wide() -> None:
    assert len(ZOO) >= 110
    assert len(NAMED) == len(ZOO)
    unused = TAGS - frozenset().union(*(p.tags for p in ZOO))
    assert not unused, f"no program has {sorted(unused)}"
    assert all("print" in p.tags for p in tagged("print", without="no_grad"))
    with pytest.raises(ValueError, match="unknown tags"):
        tagged("pointwize")


def test_registering_refuses_unknown_tags_and_second_names() -> None:
    with pytest.raises(ValueError, match="unknown tags"):
        program("pointwize", inputs=call)
    with pytest.raises(ValueError, match="two programs"):
        program("pointwise", inputs=call)(NAMED["add_mul"].fn)


def test_the_zoo_needs_no_compiler() -> None:
    zoo = [module for name, module in sys.modules.items() if name.split(".")[0] in ("zoo", "programs")]
    assert zoo
    for module in zoo:
        source = inspect.getsource(module)
        assert "import explorer" not in source and "from explorer" not in source and "_dynamo" not in source


@pytest.mark.parametrize("pair", FUSION_PAIRS, ids=lambda pair: pair.obstacle)
def test_fusion_pairs_run(pair: Any) -> None:
    assert not pair.blocked.ok and pair.free.ok
    assert pair.blocked.reason != pair.free.reason
    for case in (pair.blocked, pair.free):
        args, kwargs = case.inputs()
        first = case.fn(*args, **kwargs)
        args, kwargs = case.inputs()
        for path, value in tensors(case.fn(*args, **kwargs)).items():
            if value.device.type != "meta":
                torch.testing.assert_close(value, tensors(first)[path], rtol=0, atol=0)


@pytest.mark.parametrize("m", every_model())
def test_models_run_and_train(m: Any) -> None:
    assert_same(observe(m), observe(m))
    run = observe(m, train=True)
    assert_same(run, observe(m, train=True))
    assert all(grad is not None and grad.isfinite().all() for grad in run.grads.values())
    model, (args, kwargs) = m.build(), m.inputs()
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    losses = []
    for _ in range(3):
        torch.manual_seed(0)
        loss = m.loss(model(*args, **kwargs))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], "a few steps of gradient descent do not lower the loss"


def test_attention_of_transformers_is_sdpa() -> None:
    for m in TRANSFORMERS:
        if m.available and m.name != "hf_resnet":
            assert m.build().config._attn_implementation == "sdpa"


# `assert_same` can fail: a wrong compiler for each thing that it watches.


def subject(fn: Callable[..., Any], *inputs: Tensor, **facts: Any) -> Program:
    return Program("subject", fn, seeded(lambda: call(*(i.clone() for i in inputs))), frozenset(), **facts)


def twice(x: Tensor) -> Tensor:
    return x * 2


def adds_one(x: Tensor) -> Tensor:
    x.add_(1.0)
    return x.sum()


def returns_views(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    return y, y[1:]


def hushed(x: Tensor) -> Tensor:
    print("hello")
    return x + 1


@pytest.mark.parametrize(
    ("fn", "wrong", "complaint"),
    [
        (twice, lambda x: x * 2.001, "not close"),
        (twice, lambda x: (x * 2).double(), "dtype"),
        (twice, lambda x: (x * 2)[None], "shape"),
        (twice, lambda x: (x * 2).t().contiguous().t(), "strides"),
        (twice, lambda x: [x * 2], "missing"),
        (twice, lambda x: 3, "int"),
        (twice, lambda x: torch.where(x > 10, x, float("nan")), "not close"),
        (adds_one, lambda x: (x + 1).sum(), "not close"),
        (returns_views, lambda x: (x * 2, x[1:] * 2), "share memory"),
        (returns_views, lambda x: ((y := torch.stack([x * 2] * 2)[0]), y[:-1]), "not close|shape"),
        (hushed, lambda x: x + 1, "printed"),
    ],
)
def test_assert_same_sees_a_wrong_run(fn: Callable[..., Any], wrong: Callable[..., Any], complaint: str) -> None:
    p = subject(fn, torch.randn(3, 3))
    assert_same(observe(p), observe(p), rtol=1e-5)
    with pytest.raises(AssertionError, match=complaint):
        assert_same(observe(p, lambda _: wrong), observe(p), rtol=1e-5)


def test_assert_same_sees_wrong_gradients_and_state() -> None:
    p = subject(twice, torch.randn(3))
    right = observe(p, train=True)
    with pytest.raises(AssertionError, match="gradient"):
        assert_same(observe(p, lambda _: lambda x: x.detach() + x, train=True), right)
    with pytest.raises(AssertionError, match="requires_grad"):
        assert_same(
            observe(p, lambda _: lambda x: x.detach() * 2, train=True),
            right,
        )
    counter = NAMED["mutates_globals"]
    with pytest.raises(AssertionError, match="state"):
        assert_same(observe(counter, lambda fn: lambda x: x * 1), observe(counter))
