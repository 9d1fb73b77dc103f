"""Inputs and results written between a compiled forward and its backward: as in eager, which saves what its formulas
read."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

import explorer
from benchmarks.operator_samples import operators

Program = Callable[..., Any]


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def outcome(run: Program, given: list[Any], written: int, how: str) -> tuple[str, list[Tensor | None]]:
    torch.manual_seed(0)
    given = tree_map(lambda t: t.detach().clone().requires_grad_(t.requires_grad) if torch.is_tensor(t) else t, given)
    tensors = [each for each in tree_leaves(given) if isinstance(each, Tensor)]
    made = [each for each in tree_leaves(run(*given)) if isinstance(each, Tensor) and each.requires_grad]
    target = tensors[written]
    with torch.no_grad():
        (target.data if how == "data" else target).copy_(target.flip(0) if target.dim() else target + 1)
    try:
        torch.autograd.backward(made, [torch.full_like(each, 0.5) for each in made])
    except RuntimeError as error:
        return str(error).partition(":")[0], []
    return "fine", [each.grad for each in tensors if each.is_leaf]


def differences(run: Program, given: list[Any]) -> list[str]:
    """Where ours raises, or not, or has other gradients than eager, which had to keep none of what was written."""
    compiled = explorer.compile(run)
    found = []
    for written in range(sum(isinstance(each, Tensor) for each in tree_leaves(given))):
        expected, gradients = outcome(run, given, written, "in place")
        for how in ("in place", "data") if expected == "fine" else ("in place",):
            said, ours = outcome(compiled, given, written, how)
            same = said == expected and len(ours) == len(gradients)
            for mine, theirs in zip(ours, gradients, strict=False):
                same = same and (mine is None) == (theirs is None)
                same = same and (mine is None or torch.allclose(mine, theirs, 1e-3, 1e-4, equal_nan=True))
            if not same:
                found.append(f"input {written} written {how}: {said}, eager {expected}")
    return found


PROGRAMS: dict[str, tuple[Program, Callable[[], list[Any]]]] = {
    "a result saved": (lambda x, w: x.relu().tanh() * w, lambda: [leaf(4, 4), leaf(4, 4)]),
    "a bias": (lambda x, b: (x + b).relu(), lambda: [leaf(4, 4), leaf(4)]),
    "a copy saved": (lambda x, b: x.clone().sin() * b, lambda: [leaf(4, 4), leaf(4)]),
    "a view": (lambda x, w: (x.view(2, 8).exp() + w).sigmoid(), lambda: [leaf(4, 4), leaf(8)]),
    "a view's copy": (lambda x: x[1:].t().clone().exp().cos() + x[0].clone().sin().sum(), lambda: [leaf(4, 3)]),
    "an operand": (lambda x, b: (x + b).relu() @ x.detach(), lambda: [leaf(4, 4), leaf(4)]),
    "without a gradient": (lambda x, m: (x + m).sigmoid() * x, lambda: [leaf(4, 4), torch.randn(4)]),
    "cast": (lambda x, w: x.double().exp() * w, lambda: [leaf(4, 4), leaf(4)]),
    "its size": (lambda x, w: F.adaptive_avg_pool2d(x, 1).flatten(1) * w, lambda: [leaf(2, 3, 4, 4), leaf(3)]),
    "loss": (lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), lambda: [leaf(4, 4), leaf(4, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_input_may_be_written_where_eager_does_not_save_it(name: str) -> None:
    run, given = PROGRAMS[name]
    torch.manual_seed(0)
    assert not differences(run, given())


def test_a_parameter_is_not_copied() -> None:
    for scale, copied in ((leaf(4), True), (torch.nn.Parameter(torch.ones(4)), False)):
        record = explorer.explore(lambda x, scale: (x * scale.clone()).sin(), time=False)(leaf(4, 4), scale)
        kept = {saved.why.code for compile in record.data.compiles for saved in compile.saved}
        assert ("autograd.kept.copy" in kept) is copied


def test_of_an_operator() -> None:
    """Operators drawn from torch's own list."""
    chance = random.Random(zlib.crc32(b"written inputs"))
    # Eager saves running statistics for a gradient that does not read them, and refuses the gradient once they change.
    names = {name for name in operators() if "batch_norm" not in name}
    names = [n for n, op in operators().items() if n in names and op.supports_autograd and torch.float32 in op.dtypes]
    for name in chance.sample(names, 24):
        op = operators()[name]
        for sample in list(op.sample_inputs("cpu", torch.float32, requires_grad=True))[:2]:
            given = [sample.input, *sample.args]
            run = lambda *given, op=op, named=sample.kwargs: op.op(*given, **named)  # noqa: E731
            tensors = [each for each in tree_leaves(given) if isinstance(each, Tensor)]
            if any(each.numel() > 1000 or each.layout is not torch.strided for each in tensors):
                continue
            assert not (found := differences(run, given)), f"{name}: {found}"


KEEPING: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "statistics": lambda x, w: F.batch_norm(w * 2, x[0], x[1], None, None, True).sin().sum(),
    "statistics of instances": lambda x, w: F.instance_norm(w.view(1, 3, 4), x[0, :3], x[1, :3]).exp().sum(),
    "statistics read": lambda x, w: F.batch_norm(w.exp(), x[0], x[1], None, None, False).sin().sum(),
    "added": lambda x, w: (x.add_(1) * w).sum(),
    "added to a row": lambda x, w: (x[0].add_(1) * w).sum(),
    "added, another row": lambda x, w: x[0].add_(1).sum() * 0 + (x[1] * w).sum(),
    "added twice": lambda x, w: (x.add_(1) * w).sum() + x.mul_(2).sum(),
    "kept, then added": lambda x, w: (x * w).sum() + x.add_(1).sum(),
    "data": lambda x, w: x.data.add_(1).sum() + (x * w).sum(),
    "turned": lambda x, w: (x.t_().t() * w).sum() + x.t_().sum(),
    "not kept": lambda x, w: (x.add_(1) + w).sum(),
    "a function of it kept": lambda x, w: (x.add_(1).exp() * w).sum(),
}
LATER: dict[str, Callable[[Tensor, Tensor], object]] = {
    "nothing": lambda x, w: None,
    "the input": lambda x, w: x.add_(1),
    "its first row": lambda x, w: x[0].add_(1),
    "its last row": lambda x, w: x[-1].mul_(2),
    "the leaf": lambda x, w: w.detach().add_(1),
}


@pytest.mark.parametrize("write", LATER)
@pytest.mark.parametrize("program", KEEPING)
def test_a_written_input_that_eager_keeps_is_not_written_again(program: str, write: str) -> None:
    """Eager refuses the backward: its version is not that which was kept."""
    compiled = explorer.compile(KEEPING[program])
    for _ in range(2):
        found: list[Any] = []
        for call in (KEEPING[program], compiled):
            x, w = torch.arange(12.0).view(3, 4) + 1, (torch.arange(12.0) / 10).view(3, 4).requires_grad_()
            y = call(x, w)
            version = x._version
            LATER[write](x, w)
            try:
                y.backward()
                found.append(("fine", version, w.grad))
            except RuntimeError as error:
                found.append((str(error).partition(":")[0].rstrip("."), version, None))
        assert found[0][:2] == found[1][:2]
        torch.testing.assert_close(found[0][2], found[1][2])


RETURNING: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "equal products": lambda x: (x * 2, 2 ** (x * 2)),
    "read further": lambda x: (y := x * 2, (y + 1).sin()),
    "saved for itself": lambda x: (x.exp(), x.sin().sum()),
    "saved for another too": lambda x: (y := x.exp(), x.sin().sum(), (y * 2).cos()),
    "computed twice": lambda x: (x.exp(), x.exp() * x),
    "through a view": lambda x: (y := x.view(-1) * 2, y.view(3, 2).sin() * 2),
    "rows": lambda x: (*(x * 2).softmax(1).unbind(), x.sigmoid() + 1),
    "of a written one": lambda x: (y := (x * 2).relu_(), (y * x).tanh(), y + 1),
}
WRITES: dict[str, Callable[[Tensor], object]] = {
    "in place": lambda y: y.mul_(2),
    "without grad": torch.no_grad()(lambda y: y.add_(1)),
    "through detach": lambda y: y.detach().zero_(),
}


@pytest.mark.parametrize("program", RETURNING)
def test_a_result_may_be_written_where_no_gradient_asked_for_needs_it(program: str) -> None:
    """Backward from one result, then from another; one is written before, or in between."""
    run = RETURNING[program]
    compiled = explorer.compile(run)
    count = len(run(leaf(2, 3)))
    for first, second, written, early in itertools.product(*[range(count)] * 3, (True, False)):
        for write in WRITES.values():
            found: list[Any] = []
            for call in (run, compiled):
                x = (torch.arange(6.0) / 7 - 0.2).view(2, 3).requires_grad_()
                results = call(x)
                for target, writes in ((first, early), (second, not early)):
                    try:
                        if writes:
                            write(results[written])
                        results[target].sum().backward()
                        found.append(x.grad.clone())
                    except RuntimeError:  # what is said, and what is freed by then, depends on the order of nodes
                        found.append(None)
                        break
            half = len(found) // 2
            for eager, ours in zip(found[:half], found[half:], strict=True):
                assert (eager is None) == (ours is None), (first, second, written, early, found)
                assert eager is None or torch.allclose(eager, ours, atol=1e-6)
