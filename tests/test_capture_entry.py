"""Wrapped functions and modules behave as what they wrap, and live beside stock torch.compile."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import io
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import explorer
from capturing import Captures, compiled
from explorer.compiler.capture import entry, hook, optimize
from explorer.compiler.config import Config
from explorer.core.files import OWN_FILES
from explorer.core.recorder import Recorder, recording


def affine(x: Any, *, scale: float = 2.0) -> Any:
    """Scale and shift."""
    return x * scale + 1


def test_functions_keep_their_face() -> None:
    fn, _ = compiled(affine)
    assert fn.__name__ == "affine" and fn.__doc__ == "Scale and shift." and fn.__wrapped__ is affine
    assert inspect.signature(fn) == inspect.signature(affine)
    assert torch.equal(fn(torch.ones(2), scale=3.0), torch.full((2,), 4.0))


def test_methods_partials_lambdas_and_callables() -> None:
    class Thing:
        factor = 3.0

        def run(self, x):
            return x * self.factor

        def __call__(self, x):
            return x + self.factor

        @classmethod
        def make(cls, x):
            return x - cls.factor

    x = torch.ones(2)
    thing = Thing()
    for target in (thing.run, thing, Thing.make, functools.partial(affine, scale=5.0), lambda x: x.sin(), torch.sin):
        fn, captures = compiled(target)
        for _ in range(2):
            assert torch.equal(fn(x), target(x))
        assert len(captures.graphs) == 1 and len(captures.made) == 1


def test_decorated_functions_and_methods() -> None:
    captures = Captures()

    def ours(f):
        return optimize(f, Config(backend="eager"), captures)

    class Model:
        bias = 1.0

        @ours
        def forward(self, x):
            return x + self.bias

    @ours
    @torch.no_grad()
    def quiet(x):
        return x * 2

    assert torch.equal(Model().forward(torch.ones(2)), torch.full((2,), 2.0))
    assert not quiet(torch.ones(2, requires_grad=True)).requires_grad
    assert torch.is_grad_enabled()
    assert len(captures.graphs) == 2


def test_functions_without_source() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(x):\n    return x * 2 + 1\n", namespace)
    fn, captures = compiled(namespace["f"])
    assert torch.equal(fn(torch.ones(2)), torch.full((2,), 3.0))
    assert len(captures.graphs) == 1


def test_not_callable() -> None:
    with pytest.raises(TypeError, match="not callable"):
        compiled(3)


def test_compiled_inside_compiled_is_one_graph() -> None:
    inner, inner_captures = compiled(affine)

    def outer(x):
        return inner(x) * 2

    fn, captures = compiled(outer)
    assert torch.equal(fn(torch.ones(2)), torch.full((2,), 6.0))
    assert len(captures.graphs) == 1 and inner_captures.made == []


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("offset", torch.ones(2))
        self.scale = 1.0

    def forward(self, x):
        return self.linear(x) * self.scale + self.offset

    def helper(self):
        return "helped"


def test_modules_keep_their_face() -> None:
    net = Net()
    fn, captures = compiled(net)
    assert isinstance(fn, nn.Module)
    assert list(fn.state_dict()) == list(net.state_dict())
    assert [name for name, _ in fn.named_parameters()] == [name for name, _ in net.named_parameters()]
    assert fn.linear is net.linear and fn.helper() == "helped" and "linear" in dir(fn)
    fn.eval()
    assert not net.training and not fn.training
    fn.train()
    assert net.training
    fn.scale = 3.0
    assert net.scale == 3.0
    fn.extra = 1
    del fn.extra
    assert not hasattr(net, "extra")
    x = torch.randn(4, 3)
    torch.testing.assert_close(fn(x), net(x))
    fn.load_state_dict({name: value * 2 for name, value in net.state_dict().items()})
    torch.testing.assert_close(fn(x), net(x))
    fn.double()
    torch.testing.assert_close(fn(x.double()), net(x.double()))
    assert len(captures.breaks) == 0
    assert list(fn.children()) == list(net.children()) and list(inspect.signature(fn).parameters) == ["x"]
    assert "Net(" in repr(fn)


def test_hooks_of_wrapped_modules() -> None:
    net = Net()
    fn, captures = compiled(net)
    x = torch.randn(4, 3)
    plain = fn(x)
    handle = fn.register_forward_hook(lambda module, args, out: out * 2)
    torch.testing.assert_close(fn(x), plain * 2)
    pre = fn.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    torch.testing.assert_close(fn(x), net(x))
    pre.remove()
    handle.remove()
    torch.testing.assert_close(fn(x), plain)
    assert captures.breaks == []


def test_copies_and_pickles() -> None:
    net = Net()
    fn, _ = compiled(net)
    x = torch.randn(4, 3)
    fn(x)
    other = copy.deepcopy(fn)
    assert other.linear.weight is not net.linear.weight
    torch.testing.assert_close(other(x), net(x))
    with torch.no_grad():
        other.linear.weight.zero_()
    torch.testing.assert_close(other(x), other._orig_mod(x))
    assert copy.copy(fn).linear is net.linear
    file = io.BytesIO()
    torch.save(fn.state_dict(), file)
    file.seek(0)
    Net().load_state_dict(torch.load(file))


def test_training_step() -> None:
    torch.manual_seed(0)
    mine, theirs = Net(), Net()
    theirs.load_state_dict(mine.state_dict())
    fn, captures = compiled(mine)
    x, y = torch.randn(8, 3), torch.randn(8, 2)
    for net, call in ((mine, fn), (theirs, theirs)):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (call(x) - y).square().mean().backward()
            optimizer.step()
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    assert len(captures.made) == 1


def test_nobody_watches_outside_calls_or_after_errors() -> None:
    fn, captures = compiled(affine)
    fn(torch.ones(2))
    assert hook.watcher() is None

    def fails(x):
        raise ValueError("no")

    bad, _ = compiled(fails)
    with pytest.raises(ValueError, match="no"):
        bad(torch.ones(2))
    assert hook.watcher() is None
    assert len(captures.made) == 1


def test_threads_are_separate() -> None:
    fn, captures = compiled(affine)
    results: list[Any] = []

    def work() -> None:
        results.append(fn(torch.ones(2)))
        results.append(affine(torch.ones(2)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6 and all(torch.equal(r, torch.full((2,), 3.0)) for r in results)


def test_inputs_are_not_kept_alive() -> None:
    fn, captures = compiled(affine)
    x = torch.ones(2)
    seen = weakref.ref(x)
    fn(x)
    del x
    captures.made.clear()
    captures.linked.clear()
    gc.collect()
    assert seen() is None


# ------------------------------------------------------------------------------------------- side by side with stock


def shared_inner(x, n):
    y = x * n
    print(end="")
    return y + 1


def shared_outer(x, n):
    a = shared_inner(x, n)
    print(end="")
    return shared_inner(a, n + 1).sum()


def test_alternating_with_stock() -> None:
    """Breaks, recompiles and resets, over nested functions that both engines compile."""
    import torch._dynamo

    torch._dynamo.reset()
    ours, captures = compiled(shared_outer)
    stock = torch.compile(shared_outer, backend="eager")
    inputs = [(torch.randn(size), n) for n in (2, 3, 5) for size in (3, 4)]
    try:
        for turn in range(3):
            for x, n in inputs:
                expected = shared_outer(x, n)
                torch.testing.assert_close(ours(x, n), expected)
                torch.testing.assert_close(stock(x, n), expected)
                torch.testing.assert_close(stock(x, n), expected)
                torch.testing.assert_close(ours(x, n), expected)
            if turn == 1:
                torch._dynamo.reset()
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
        made = len(captures.made)
        assert captures.fallbacks == [] and made > 0
        for x, n in inputs:
            ours(x, n)
            ours(x, n)
        assert hook.entries(shared_inner.__code__) > 0
    finally:
        torch._dynamo.reset()


def test_stock_captures_what_ours_compiled_first() -> None:
    import torch._dynamo

    torch._dynamo.reset()
    graphs: list[Any] = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    ours, captures = compiled(shared_inner)
    x = torch.randn(3)
    ours(x, 2)
    theirs = torch.compile(shared_inner, backend=backend)
    torch.testing.assert_close(theirs(x, 2), shared_inner(x, 2))
    assert len(graphs) == 2
    count = len(captures.made)
    torch._dynamo.reset()
    ours(x, 2)
    assert len(captures.made) == count, "stock's reset made ours compile again"


def test_two_engines_on_one_function() -> None:
    first, a = compiled(shared_outer)
    second, b = compiled(shared_outer, dynamic=True)
    for n in (3, 4, 5):
        x = torch.randn(n)
        torch.testing.assert_close(first(x, 2), shared_outer(x, 2))
        torch.testing.assert_close(second(x, 2), shared_outer(x, 2))
    assert a.fallbacks == [] and b.fallbacks == []


def test_under_a_mode_a_call_runs_eagerly_and_says_why() -> None:
    """Modes see every operation; later calls outside them are compiled."""
    fn = explorer.compile(lambda a: a @ a)
    recorder = Recorder()
    with recording(recorder), FlopCounterMode(display=False) as counter:
        fn(torch.randn(4, 4))
    (event,) = recorder.compiles[0].events
    assert event.why.code == "frame.mode_active" and "FlopCounterMode" in event.why.detail
    assert counter.get_total_flops() == 2 * 4**3
    with FlopCounterMode(display=False) as counter:
        fn(torch.randn(4, 4))
    assert counter.get_total_flops() == 2 * 4**3
    before = explorer.counters().get("compiles", 0)
    fn(torch.randn(4, 4))
    assert explorer.counters()["compiles"] == before + 1


@pytest.mark.parametrize("error", [RuntimeError, KeyError])
@pytest.mark.parametrize("where", ["wanted", "is_root", "_known", "_frame", "_answer", "_accept"])
def test_an_error_before_or_after_a_compile_runs_eagerly(
    where: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> Any:
        raise error("of the compiler")

    fn = explorer.compile(shared_outer, backend="eager")
    with monkeypatch.context() as broken:
        broken.setattr(entry.Engine, where, fail)
        before = explorer.counters().get("compiler bugs", 0)
        assert torch.equal(fn(torch.ones(3), 2), shared_outer(torch.ones(3), 2))
        assert explorer.counters()["compiler bugs"] > before
    assert torch.equal(fn(torch.ones(4), 2), shared_outer(torch.ones(4), 2))


def test_what_an_import_runs_is_not_compiled(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import torch\ndef triple(x): return x * 3\nMADE = triple(torch.ones(2))\n"
    (tmp_path / "imported_by_a_program.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    def imports(x: torch.Tensor) -> torch.Tensor:
        module = eval("__import__('imported_by_a_program')")
        return x + module.MADE

    fn, captures = compiled(imports)
    x = torch.ones(2)
    assert torch.equal(fn(x), imports(x))
    assert "triple" not in {capture.code.name for capture in captures.made}


def test_compiled_calls_ask_nothing_about_our_own_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question of the shim costs microseconds."""
    asked: list[str] = []
    answer = entry.Engine.__call__

    def listen(self: entry.Engine, frame: Any, cached: Any, state: Any) -> Any:
        if frame.f_code.co_filename.startswith(OWN_FILES):
            asked.append(frame.f_code.co_qualname)
        return answer(self, frame, cached, state)

    monkeypatch.setattr(entry.Engine, "__call__", listen)

    def step(x: torch.Tensor, weight: torch.Tensor) -> float:
        y = (x * weight).relu()
        print("a break", end="")
        loss = y.square().sum()
        loss.backward()
        return loss.item() if loss.item() > 1e9 else 0.0

    compiled, x, weight = explorer.compile(step, backend="explorer"), torch.ones(3), torch.ones(3, requires_grad=True)
    for _ in range(3):
        compiled(x, weight)
    asked.clear()
    compiled(x, weight)
    assert not asked
