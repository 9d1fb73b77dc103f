"""The public functions, held against torch.compile where that says what is right."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import io
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import fx, nn
from torch.nn import functional

import explorer
from capturing import histories
from explorer.show.cli import main


def eager(fn: Any = None, **settings: Any) -> Any:
    """Compiled down to the captured graph, to be quick."""
    return explorer.compile(fn, backend="eager", **settings)


def graphs(fn: Any, *args: Any, **settings: Any) -> tuple[Any, list[fx.GraphModule]]:
    """What the compiled call returns, and the graphs that were captured for it."""
    seen: list[fx.GraphModule] = []

    def keep(module: fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        seen.append(module)
        return module

    return explorer.compile(fn, backend=keep, **settings)(*args), seen


def affine(x, *, scale=2.0):
    """Scale and shift."""
    return x * scale + 1


class Net(nn.Module):
    kind = "net"

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x, add=0):
        self.count += 1
        return self.drop(self.first(x)).relu() + add

    @property
    def width(self) -> int:
        return self.first.in_features


# ------------------------------------------------------------------------------------------------- what is compiled


def test_with_our_own_backend():
    x = torch.randn(5)
    torch.testing.assert_close(explorer.compile(affine)(x, scale=3.0), affine(x, scale=3.0))


def test_decorator_with_and_without_arguments():
    @explorer.compile
    def bare(x):
        return x.sin()

    @explorer.compile()
    def called(x):
        return x.sin()

    @explorer.compile(backend="eager", fullgraph=True, dynamic=True)
    def given(x):
        """Documented."""
        return x.sin()

    x = torch.randn(3)
    for fn in (bare, called, given):
        torch.testing.assert_close(fn(x), x.sin())
        assert inspect.signature(fn) == inspect.signature(lambda x: x)
    assert (given.__name__, given.__doc__, given.__module__) == ("given", "Documented.", __name__)


def test_methods_of_all_kinds():
    class Thing:
        def __init__(self, factor):
            self.factor = factor

        @eager
        def method(self, x):
            return x * self.factor

        @staticmethod
        @eager
        def static(x):
            return x + 1

        @classmethod
        @eager
        def of_class(cls, x):
            return x, cls.__name__

        @property
        @eager
        def doubled(self):
            return torch.tensor(self.factor * 2)

        def __call__(self, x):
            return x - self.factor

    one, two, x = Thing(2.0), Thing(3.0), torch.randn(3)
    for thing in (one, two, one):
        torch.testing.assert_close(thing.method(x), x * thing.factor)
        torch.testing.assert_close(eager(thing)(x), x - thing.factor)
        torch.testing.assert_close(eager(thing.__call__)(x), x - thing.factor)
        assert thing.doubled.item() == thing.factor * 2
    torch.testing.assert_close(Thing.static(x), x + 1)
    assert Thing.of_class(x)[1] == "Thing" and one.of_class(x)[0] is x
    bound = eager(one.method)
    one.factor = 5.0
    torch.testing.assert_close(bound(x), x * 5.0)


def test_what_is_no_plain_function():
    x = torch.randn(3)
    scope: dict[str, Any] = {}
    exec("def made(x):\n    y = x * 2\n    return y.cos()", scope)
    targets = [
        scope["made"], lambda x: x + 1, functools.partial(affine, scale=4.0), torch.sin, torch.nn.functional.relu,
        torch.Tensor.neg, functools.partial(torch.add, x), torch.vmap(lambda row: row * 2), x.add,
        functools.lru_cache(affine),
    ]  # fmt: skip
    for target in targets:
        compiled = eager(target)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), target(x))


def test_generators_and_coroutines():
    @eager
    def numbers(x):
        for i in range(3):
            yield x + i

    @eager
    async def later(x):
        await asyncio.sleep(0)
        return x * 2

    @eager
    async def stream(x):
        yield x
        yield x + 1

    async def collect():
        return [item async for item in stream(x)], await later(x)

    x = torch.ones(2)
    assert [item.tolist() for item in numbers(x)] == [[1, 1], [2, 2], [3, 3]]
    items, doubled = asyncio.run(collect())
    assert doubled.tolist() == [2, 2] and [item.tolist() for item in items] == [[1, 1], [2, 2]]


def test_arguments_of_all_kinds():
    def f(a, b=2, /, c=3, *rest, d, e=5, **more):
        return a * b + c + sum(rest) + d * e + sum(more.values())

    compiled, x = eager(f), torch.ones(2)
    for args, kwargs in (((x,), {"d": 1}), ((x, 3, 4, 5, 6), {"d": x, "e": 2, "f": x}), ((x, x), {"d": 0, "c": x})):
        torch.testing.assert_close(compiled(*args, **kwargs), f(*args, **kwargs))
    for args, kwargs in (((), {}), ((x,), {}), ((x, 1, 2), {"d": 1, "c": 2})):
        with pytest.raises(TypeError) as expected:
            f(*args, **kwargs)
        with pytest.raises(TypeError) as found:
            compiled(*args, **kwargs)
        assert str(found.value) == str(expected.value)


def test_what_cannot_be_compiled():
    for target in (3, "f", [affine]):
        with pytest.raises(TypeError, match="not callable"):
            explorer.compile(target)
    for target in (3, torch.ones(2), nn.Linear):
        with pytest.raises(TypeError, match=r"cannot be explored; give a function or a module: explorer.explore\(fn\)"):
            explorer.explore(target)


# ------------------------------------------------------------------------------------------------------------ modules


def test_modules():
    torch.manual_seed(0)
    net = Net()
    compiled, stock = eager(net), torch.compile(net, backend="eager")
    assert isinstance(compiled, nn.Module)
    assert list(compiled.parameters()) == list(net.parameters())
    assert [name for name, _ in compiled.named_buffers()] == [name for name, _ in net.named_buffers()]
    assert compiled.width == 4 and compiled.kind == "net" and compiled.first is net.first
    assert compiled.eval() is not None and not net.training and not net.drop.training
    x = torch.randn(2, 4)
    torch.testing.assert_close(compiled(x, add=1), net(x, add=1))
    torch.testing.assert_close(compiled(x), stock(x))
    assert net.count == 4
    compiled.train()
    assert net.drop.training and stock.training
    torch.manual_seed(1)
    expected = net(x)
    torch.manual_seed(1)
    torch.testing.assert_close(compiled(x), expected)
    compiled.extra = nn.Linear(4, 4)
    assert "extra.weight" in net.state_dict()
    del compiled.extra
    assert not hasattr(compiled, "extra") and not hasattr(net, "extra")
    with pytest.raises(AttributeError, match="missing"):
        _ = compiled.missing
    assert compiled and not eager(nn.Sequential())
    with pytest.raises(TypeError, match="len"):
        len(compiled)
    assert len(eager(nn.Sequential(net, net))) == 2 and list(eager(nn.Sequential(net)))[0] is net
    assert "Net(" in repr(compiled) and "Linear" in repr(compiled)
    compiled.zero_grad()
    compiled.requires_grad_(False)
    assert not net.first.weight.requires_grad


def test_state_dicts_fit_the_original():
    net = Net()
    compiled = eager(net)
    assert list(compiled.state_dict()) == list(net.state_dict())
    other = Net()
    other.load_state_dict(compiled.state_dict())
    eager(other).load_state_dict(net.state_dict())
    torch.testing.assert_close(other.first.weight, net.first.weight)
    outer = nn.Sequential(compiled, nn.ReLU())
    torch.testing.assert_close(outer.eval()(torch.ones(1, 4)), net(torch.ones(1, 4)))


def test_hooks_run_as_in_eager():
    def observed(wrap) -> list[Any]:
        torch.manual_seed(0)
        net = Net().eval()
        compiled, log = wrap(net), []
        x = torch.randn(2, 4, requires_grad=True)
        compiled.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
        compiled.register_forward_hook(lambda m, args, out: log.append(args[0].sum().item()) or out * 2)
        compiled.register_full_backward_hook(lambda m, given, out: log.append([g.sum().item() for g in given]))
        compiled.first.register_forward_hook(lambda m, args, out: out + 1)
        out = compiled(x)
        out.sum().backward()
        return [*log, out.sum().item(), x.grad.tolist(), net.first.weight.grad.tolist()]

    torch.testing.assert_close(observed(eager), observed(lambda net: net))


def test_copies_and_pickles():
    net = Net().eval()
    compiled, x = eager(net), torch.randn(2, 4)
    expected = compiled(x)
    twin = copy.deepcopy(compiled)
    assert twin.first.weight is not net.first.weight
    torch.testing.assert_close(twin(x), expected)
    again = pickle.loads(pickle.dumps(net))
    torch.testing.assert_close(eager(again)(x), expected)
    torch.testing.assert_close(pickle.loads(pickle.dumps(compiled))(x), expected)
    file = io.BytesIO()
    torch.save(compiled.state_dict(), file)
    file.seek(0)
    Net().load_state_dict(torch.load(file))


def test_module_classes_and_compiled_forwards():
    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        @eager
        def forward(self, x):
            return x * self.weight

    x = torch.randn(3)
    torch.testing.assert_close(Small()(x), x)
    net = Net().eval()
    net.forward = eager(net.forward)
    torch.testing.assert_close(net(torch.ones(1, 4)), Net.forward(net, torch.ones(1, 4)))


# ----------------------------------------------------------------------------------------------------------- settings


def test_fullgraph_names_the_place_and_the_reason():
    def broken(x):
        y = x.sin()
        print("here")
        return y

    def depends(x):
        return x if x.sum() > 0 else -x

    for fn, line, reason in ((broken, 2, "print"), (depends, 1, "tensor")):
        with pytest.raises(Exception, match="fullgraph") as raised:
            eager(fn, fullgraph=True)(torch.ones(2))
        place = f"test_api.py:{fn.__code__.co_firstlineno + line}"
        assert place in str(raised.value) and reason in str(raised.value)
        with pytest.raises(Exception, match="."):
            torch.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
    assert eager(broken)(torch.ones(2)).shape == (2,)


def test_dynamic():
    def f(x):
        return x * x.shape[0]

    for dynamic, wanted in ((None, 2), (True, 1), (False, 4)):
        compiled = eager(f, dynamic=dynamic)
        for size in (3, 4, 5, 6):
            torch.testing.assert_close(compiled(torch.ones(size)), torch.full((size,), float(size)))
        assert sum(history.compiles for history in histories(compiled)) == wanted


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "explorer"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_backends_by_name(backend, dynamic):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = explorer.compile(net, backend=backend, dynamic=dynamic)
    for rows in (2, 3, 4):
        x = torch.randn(rows, 4, requires_grad=True)
        (expected,) = torch.autograd.grad(net(x).square().sum(), x)
        (found,) = torch.autograd.grad(compiled(x).square().sum(), x)
        torch.testing.assert_close(found, expected)


def test_a_backend_that_is_a_callable():
    found, seen = graphs(affine, torch.ones(3))
    assert found.tolist() == [3, 3, 3] and len(seen) == 1
    assert [node.target.__name__ for node in seen[0].graph.nodes if node.op == "call_function"] == ["mul", "add"]

    def constant(module, inputs):
        return lambda *args: (torch.zeros(1),)

    assert explorer.compile(affine, backend=constant)(torch.ones(3)).tolist() == [0]


def test_inductor_by_name_is_stocks():
    from torch._inductor import config

    with config.patch(fx_graph_cache=False):
        compiled = explorer.compile(affine, backend="inductor")
    assert compiled.__explorer_engine__.config.backend.__name__ == "inductor"


def test_a_backend_that_fails_raises():
    def fails(module, inputs):
        raise ZeroDivisionError("my own")

    with pytest.raises(RuntimeError, match="backend fails raised ZeroDivisionError: my own") as raised:
        explorer.compile(affine, backend=fails)(torch.ones(2))
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(RuntimeError, match="returned a NoneType"):
        explorer.compile(affine, backend=lambda module, inputs: None)(torch.ones(2))


def test_settings_that_do_not_exist():
    with pytest.raises(ValueError, match="no backend 'inducter'; there are: .*inductor"):
        explorer.compile(affine, backend="inducter")
    with pytest.raises(TypeError, match="a name or a callable, not int"):
        explorer.compile(affine, backend=3)
    with pytest.raises(ValueError, match="no option fused; there are: .*fuse"):
        explorer.compile(affine, options={"fused": True})
    with pytest.raises(ValueError, match="no target 'cuda:sm90'; expected .*cuda:sm_90"):
        explorer.compile(affine, target="cuda:sm90")
    with pytest.raises(TypeError, match="mode"):
        explorer.compile(affine, mode="fast")
    with pytest.raises(TypeError, match=r"did you mean engine=\?.* explorer.explore\(fn, .*; the settings are"):
        explorer.explore(affine, engines="both")
    with pytest.raises(TypeError, match=r"too many positional arguments; call it as explorer.explore\(fn, "):
        explorer.explore(affine, torch.ones(3))
    with pytest.raises(ValueError, match="no engine 'ours'"):
        explorer.explore(affine, engine="ours")


def test_options_reach_the_configuration():
    compiled = explorer.compile(affine, options={"recompile_limit": 2, "fuse": False})
    config = compiled.__explorer_engine__.config
    assert (config.recompile_limit, config.fuse) == (2, False)
    limited = eager(lambda x, n: x * n, options={"recompile_limit": 2}, dynamic=False)
    for n in range(5):
        assert limited(torch.ones(1), n).item() == n
    assert sum(history.compiles for history in histories(limited)) == 2


def test_stock_finds_our_backend():
    x = torch.randn(4, requires_grad=True)
    compiled = torch.compile(lambda x: (x * 2).sin().sum(), backend="explorer")
    torch.testing.assert_close(compiled(x), (x * 2).sin().sum())
    compiled(x).backward()
    torch.testing.assert_close(x.grad, 2 * (x * 2).cos())


# ------------------------------------------------------------------------------------------------------------- errors


def raises_inside(x):
    y = x * 2
    if x.shape[0] == 2:
        raise LookupError("two rows")
    return y


def calls_it(x):
    z = x + 1
    return raises_inside(z) + z


def bad_shapes(x):
    y = x.sin()
    return y @ torch.ones(7, 7)


def lines(fn: Any, *args: Any) -> tuple[str, str, list[tuple[str, int | None]]]:
    """The exception of a call: its type, its text, and the places in this file that its traceback names."""
    with pytest.raises(Exception, match=".") as raised:
        fn(*args)
    frames = traceback.extract_tb(raised.value.__traceback__)
    own = [(f.name, f.lineno) for f in frames if f.filename == __file__ and f.name != "lines"]
    return type(raised.value).__name__, str(raised.value), own


@pytest.mark.parametrize("fn", [raises_inside, calls_it, bad_shapes], ids=lambda fn: fn.__name__)
def test_the_programs_own_exceptions(fn):
    expected = lines(fn, torch.ones(2))
    for compiled in (eager(fn), explorer.compile(fn)):
        for _ in range(2):
            assert lines(compiled, torch.ones(2)) == expected


@pytest.mark.parametrize("fn", [raises_inside, calls_it, bad_shapes], ids=lambda fn: fn.__name__)
def test_errors_under_fullgraph(fn):
    """What the program raises it raises under fullgraph too, also where an operator refuses its inputs."""
    assert lines(eager(fn, fullgraph=True), torch.ones(2)) == lines(fn, torch.ones(2))


def test_an_exception_leaves_what_was_done():
    seen = []

    def f(x):
        seen.append(x.sum().item())
        seen.append(len(seen))
        raise KeyError("late")

    for _ in range(2):
        with pytest.raises(KeyError, match="late"):
            eager(f)(torch.ones(2))
    assert seen == [2.0, 1, 2.0, 3]


# ------------------------------------------------------------------------------------------------------------ explore


def program(x, weight):
    return functional.relu(x @ weight).sum(-1)


def test_explore():
    x, weight = torch.randn(4, 3), torch.randn(3, 2)
    record = explorer.explore(program, time=False)(x, weight)
    assert record.data.title == "program" and all(half.runs for half in record.data.compiles[0].halves)
    assert record.kernels and record.guards and not record.breaks
    assert record.timing is not None and not record.timing.contestants and record.timing.accuracy is not None
    assert "against eager: largest error" in repr(record)
    assert record.coverage.fallback == 0
    named = explorer.explore(program, time=False, name="mine")(x, weight)
    assert named.data.title == "mine"


def test_explore_gradients():
    x, weight = torch.randn(4, 3), torch.randn(3, 2, requires_grad=True)
    for grad, halves in ((None, 2), (True, 2), (False, 1)):
        record = explorer.explore(program, grad=grad, time=False)(x, weight)
        assert len(record.data.compiles[0].halves) == halves
        assert weight.grad is None
    assert len(explorer.explore(program, grad=None, time=False)(x, weight.detach()).data.compiles[0].halves) == 1


def viewed_in_inference_mode(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return x.view(-1)


@pytest.mark.parametrize(
    "fn", [viewed_in_inference_mode, lambda x: nn.Linear(3, 3)(x), lambda x: (x.detach() * 2).requires_grad_()]
)
def test_explore_where_no_gradient_reaches_what_is_given(fn: Any) -> None:
    for requires_grad in (False, True):
        x = torch.ones(2, 3, requires_grad=requires_grad)
        assert repr(explorer.explore(fn, time=False)(x)) and x.grad is None


def gelu(module: fx.GraphModule) -> None:
    """A course's example: every ReLU becomes a GELU."""
    for node in module.graph.nodes:
        if node.target is functional.relu:
            node.target = functional.gelu
            node.kwargs = {}


def test_a_users_pass_is_a_stage_with_its_change():
    x, weight = torch.randn(4, 3), torch.randn(3, 2)
    plain = explorer.explore(program, time=False)(x, weight)
    changed = explorer.explore(program, passes=(gelu,), time=False)(x, weight)
    stages = [stage for stage in changed.stages if "gelu" in stage.name]
    assert len(stages) == 1
    assert "gelu" in str(stages[0].body) and ".relu" not in str(stages[0].body)
    assert not [stage.name for stage in plain.stages if "gelu" in stage.name]
    names = [stage.name for stage in changed.stages]
    before = changed.stages[names.index(stages[0].name) - 1]
    assert before.name == "capture" and "relu" in str(before.body)
    assert "gelu" in plain.diff(changed).text()
    found = explorer.compile(program, options={"passes": (gelu,)})(x, weight)
    torch.testing.assert_close(found, functional.gelu(x @ weight).sum(-1))


@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_80", "hip:gfx942"])
def test_code_for_a_machine_that_is_not_here(target):
    if target.partition(":")[0] == "cuda" and torch.cuda.is_available():
        pytest.skip("there is such a machine here")
    x = torch.randn(4, 8)

    def softmax(x):
        return (x * 2).softmax(-1)

    record = explorer.explore(softmax, target=target, time=False)(x)
    halves = [half for compile in record.data.compiles for half in compile.halves]
    assert halves and not any(half.runs for half in halves) and {half.target for half in halves} == {target}
    wanted = {"ttir", "ptx", "sass"} if target.startswith("cuda") else {"ttir", "amdgcn"}
    for kernel in record.kernels:
        assert wanted <= set(kernel.lowered), set(kernel.lowered)
        assert all(text.lines for text in kernel.lowered.values())
    assert record.kernels and record.coverage.fallback == 0
    torch.testing.assert_close(explorer.compile(softmax, target=target)(x), softmax(x))


def test_explore_raises_what_the_program_raises():
    with pytest.raises(LookupError, match="two rows"):
        explorer.explore(raises_inside, time=False)(torch.ones(2))


def test_counters():
    before = explorer.counters()
    explorer.compile(lambda x: x.exp() + 1)(torch.ones(3))
    after = explorer.counters()
    assert after["compiles"] == before.get("compiles", 0) + 1
    assert all(isinstance(count, int) for count in after.values())
    after["compiles"] = 0
    assert explorer.counters()["compiles"] > 0


def test_grad_mode_switched_inside():
    """Entered with grad mode off: what is computed after it was switched on has gradients, and nothing else has."""

    def f(x):
        y = x * 2
        with torch.enable_grad():
            z = y + x.sin()
        return y, z, x + 1

    x = torch.randn(3, requires_grad=True)
    with torch.no_grad():
        expected, found = f(x), explorer.compile(f)(x)
    torch.testing.assert_close(found, expected)
    assert [t.requires_grad for t in found] == [t.requires_grad for t in expected] == [False, True, False]
    torch.testing.assert_close(torch.autograd.grad(found[1].sum(), x), torch.autograd.grad(expected[1].sum(), x))


@pytest.mark.parametrize("time", ("x", -1, float("nan"), None))
def test_a_time_that_is_no_time_is_named(time: Any) -> None:
    with pytest.raises(ValueError, match="time="):
        explorer.explore(lambda x: x + 1, time=time)(torch.ones(2))


def raising_backend(graph: Any, inputs: Any) -> Any:
    raise ZeroDivisionError("my own\nsecond line")


def backend_that_fails_later(graph: Any, inputs: Any) -> Any:
    def run(*given: Any) -> Any:
        raise KeyError("my own")

    return run


def explored_or_watched(how: str) -> explorer.Record:
    x = torch.ones(3)
    compiler = torch.compile if "stock" in how else explorer.compile
    compiled = compiler(lambda x: x.sin().cos() + 1, backend=raising_backend)
    if "explored" in how:
        return explorer.explore(compiled, engine=how.partition(" ")[0], time=False)(x)
    with explorer.watch(live=False) as log, pytest.raises(RuntimeError):
        compiled(x)
    return log.record


@pytest.mark.parametrize("how", ("explorer explored", "stock explored", "explorer watched", "stock watched"))
def test_what_a_backend_raises_is_reported_with_its_type_its_text_and_its_line(how: str, tmp_path: Path) -> None:
    record = explored_or_watched(how)
    (error,) = record.errors
    place = raising_backend.__code__.co_firstlineno + 1
    assert error.raises and error.span is not None and error.span.line == place and error.span.file == __file__
    first = next(line for line in repr(record).splitlines() if line.startswith("  !"))
    assert f"test_api.py:{place}" in first and "ZeroDivisionError: my own" in first
    assert "second line" in record.text() and "second line" in error.message
    saved = record.save(tmp_path / "r.explore.json")
    shown = CliRunner().invoke(main, ["report", str(saved)]).output
    assert "ZeroDivisionError: my own" in shown and f"test_api.py:{place}" in shown.replace("\n", "")
    assert (how == "explorer watched") or "raises in eager too" not in repr(record)


def test_a_graph_of_a_backend_that_raises_as_it_runs_is_reported() -> None:
    with explorer.watch(live=False) as log:
        result = explorer.compile(lambda x: x.sin() + 1, backend=backend_that_fails_later)(torch.zeros(3))
    assert torch.equal(result, torch.ones(3))
    (error,) = log.record.errors
    assert (error.kind, error.message.partition("\n")[0], error.raises) == ("KeyError", "'my own'", False)
    assert error.span is not None and error.span.line == backend_that_fails_later.__code__.co_firstlineno + 2
    assert "runs eagerly, because its graph raised KeyError at test_api.py" in repr(log)


def test_a_compiled_function_is_explored_as_it_was_compiled() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    compiled = explorer.compile(double, dynamic=True)
    compiled(torch.ones(3))
    record = explorer.explore(compiled, time=0.01)(torch.ones(3))
    assert [each.id for each in record.data.compiles if each.engine == "explorer"] == ["f0"]
    assert [each.name for each in record.timing.contestants] == ["eager", "explorer"]
    assert record.data.config["dynamic"] == "True" and record.data.compiles[-1].symbols
    assert explorer.explore(compiled, engine="stock", time=False)(torch.ones(3)).data.compiles
    with pytest.raises(ValueError, match="double is already compiled"):
        explorer.explore(compiled, fullgraph=True)
