"""What two names share: globals of modules, objects, memory; and switches of torch's. Each call as eager has it."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from capturing import compiled

OTHER = "module_of_test_capture_world"
SOURCE = """
v = 0
def bump():
    global v
    v += 1
    return v
def get():
    return v
def drop():
    global v
    del v
def size():
    return len([1, 2])
"""


@pytest.fixture
def other() -> Iterator[Any]:
    made = types.ModuleType(OTHER)
    exec(SOURCE, made.__dict__)
    sys.modules[OTHER] = made
    yield made
    del sys.modules[OTHER]


def imported() -> Any:
    from module_of_test_capture_world import v

    return v


READS: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda m: m.v,
    "function": lambda m: m.get(),
    "vars": lambda m: vars(m)["v"],
    "__dict__": lambda m: m.__dict__.get("v"),
    "sys.modules": lambda m: sys.modules[OTHER].v,
    "import": lambda m: imported(),
    "getattr": lambda m: getattr(m, "v", None),
    "__globals__": lambda m: m.get.__globals__["v"],
    "items": lambda m: dict(vars(m).items())["v"],
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "function": lambda m: m.bump(),
    "attribute": lambda m: setattr(m, "v", m.v + 1),
    "vars": lambda m: vars(m).update(v=m.v + 1),
    "__dict__": lambda m: m.__dict__.__setitem__("v", m.v + 1),
    "__globals__": lambda m: m.get.__globals__.update({"v": m.v + 1}),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_global_is_one_by_all_its_names(write: Callable[[Any], Any], other: Any) -> None:
    def program(x):
        before = [read(other) for read in READS.values()]
        write(other)
        return x + 1, before, [read(other) for read in READS.values()]

    fn, _ = compiled(program)
    expected: list[Any] = []
    for run in (program, fn):
        other.v = 0
        found = [run(torch.ones(2))[1:] for _ in range(3)]
        expected = expected or found
        assert found == expected


def test_globals_that_appear_and_go(other: Any) -> None:
    def program(x):
        return x * other.size() + (other.v if hasattr(other, "v") else 10)

    fn, _ = compiled(program)
    x = torch.ones(2)
    assert torch.equal(fn(x), program(x))
    other.len = lambda items: 50
    assert torch.equal(fn(x), program(x))
    del other.v
    assert torch.equal(fn(x), program(x))

    def drops(x):
        other.v = 1
        other.drop()
        return x + hasattr(other, "v")

    assert torch.equal(compiled(drops)[0](x), x)
    assert not hasattr(other, "v")


class Thing:
    def __init__(self) -> None:
        self.v = 1


PAIRS: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any]]] = {
    "list": (list, lambda a, b: (a.append(1), len(b))[1]),
    "dict": (dict, lambda a, b: (a.update(k=2), b.get("k", 0))[1]),
    "set": (set, lambda a, b: (a.add(3), len(b))[1]),
    "object": (Thing, lambda a, b: (setattr(a, "v", a.v + 1), b.v)[1]),
    "identity": (Thing, lambda a, b: a is b),
    "equality": (Thing, lambda a, b: a == b),
    "membership": (Thing, lambda a, b: a in [b]),
    "key": (Thing, lambda a, b: len({a: 1, b: 2})),
    "identity of lists": (list, lambda a, b: a is b),
    "identity of functions": (lambda: lambda: 1, lambda a, b: a is b),
    "calls of functions": (lambda: (lambda k: lambda: k)([0]), lambda a, b: (a().append(1), len(b()))[1]),
    "tensor": (lambda: torch.ones(2), lambda a, b: (a.add_(1), b * 2)[1]),
    "parameter": (lambda: nn.Parameter(torch.ones(2)), lambda a, b: a is b),
    "written parameter": (lambda: nn.Parameter(torch.ones(2), requires_grad=False), lambda a, b: (a.add_(1), b * 2)[1]),
}


@pytest.mark.parametrize("nested", [False, True], ids=["arguments", "items"])
@pytest.mark.parametrize(("make", "use"), PAIRS.values(), ids=PAIRS)
def test_one_object_or_two(make: Callable[[], Any], use: Callable[[Any, Any], Any], nested: bool) -> None:
    def program(x, given):
        return x + 1, use(given[0][0], given[1][0])

    def flat(x, a, b):
        return x + 1, use(a, b)

    def call(run: Any, a: Any, b: Any) -> Any:
        result = run(torch.ones(2), [[a], [b]]) if nested else run(torch.ones(2), a, b)
        return result[1].tolist() if isinstance(result[1], torch.Tensor) else result[1]

    plain = program if nested else flat
    fn, _ = compiled(plain)
    for same in (False, True, False, True):
        one, two = make(), make()
        expected = call(plain, one, one if same else two)
        one, two = make(), make()
        assert call(fn, one, one if same else two) == expected


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
def test_inputs_that_overlap_in_memory(backend: str) -> None:
    def program(a, b):
        a.add_(1)
        return b * 2

    fn = explorer.compile(program, backend=backend)
    for starts in ((0, 4), (0, 2), (2, 4), (1, 0), (0, 4)):
        results = []
        for run in (program, fn):
            base = torch.arange(8.0)
            results.append((run(base[starts[0] :][:4], base[starts[1] :][:4]), base))
        for expected, found in zip(*results, strict=True):
            assert torch.equal(found, expected)


BITS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "conjugate": lambda z: z.conj(),
    "negated": lambda z: z.conj().imag,
    "negated real": lambda z: torch._neg_view(z.real),
    "transposed": lambda z: z.view(2, 2).mH.imag,
    "twice": lambda z: torch.view_as_real(z.conj().resolve_conj()),
}
USES: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda v: v + 1,
    "product": lambda v: v * v,
    "view": lambda v: v.reshape(-1)[1:] * 2,
    "clone": lambda v: v.clone(),
    "in place": lambda v: (v.add_(1), v * 2)[1],
    "itself": lambda v: v,
    "imaginary part": lambda v: v.imag + 1 if v.is_complex() else -v,
}


@pytest.mark.parametrize("inside", [False, True], ids=["of an input", "inside"])
@pytest.mark.parametrize("bits", BITS.values(), ids=BITS)
def test_views_whose_sign_is_not_in_memory(bits: Callable[[torch.Tensor], torch.Tensor], inside: bool) -> None:
    for name, use in USES.items():
        fn = explorer.compile(lambda z, use=use: use(bits(z)) if inside else use(z))
        results = []
        for run in (lambda z, use=use: use(bits(z)) if inside else use(z), fn):
            z = torch.complex(torch.arange(4.0) + 1, torch.arange(4.0) * 2 + 1)
            results.append((run(z if inside else bits(z)), z))
        for expected, found in zip(*results, strict=True):
            assert torch.equal(found.resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg()), name


SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], tuple[Any, Any]]] = {
    "default dtype": (lambda: torch.zeros(1).dtype, torch.set_default_dtype, (torch.float64, torch.float32)),
    "grad mode": (torch.is_grad_enabled, torch._C._set_grad_enabled, (False, True)),
    "deterministic": (
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, (True, False),
    ),
    "threads": (torch.get_num_threads, torch.set_num_threads, (1, torch.get_num_threads())),
    "matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, ("high", "highest")),
    "tf32": (
        lambda: torch.backends.cuda.matmul.allow_tf32,
        lambda value: setattr(torch.backends.cuda.matmul, "allow_tf32", value), (True, False),
    ),
    "benchmark": (
        lambda: torch.backends.cudnn.benchmark,
        lambda value: setattr(torch.backends.cudnn, "benchmark", value), (True, False),
    ),
    "autocast": (
        lambda: torch.is_autocast_enabled("cpu"), lambda value: torch.set_autocast_enabled("cpu", value), (True, False),
    ),
    "warnings": (torch.is_warn_always_enabled, torch.set_warn_always, (True, False)),
}  # fmt: skip


@pytest.mark.parametrize(("read", "switch", "values"), SWITCHES.values(), ids=SWITCHES)
def test_switches_of_torch(read: Callable[[], Any], switch: Callable[[Any], Any], values: tuple[Any, Any]) -> None:
    fn, _ = compiled(lambda x: (x + 1, read()))
    for value in (values[1], *values, *values):
        switch(value)
        assert fn(torch.ones(2))[1] == read()


def _function() -> tuple[Any, Any]:
    def scale(x, k=1, *, j=2):
        return x * k + j

    return scale, scale


def _method() -> tuple[Any, Any]:
    class Owner:
        def scale(self, x, k=1, *, j=2):
            return x * k + j

    return Owner().scale, Owner.scale


def _callable() -> tuple[Any, Any]:
    class Owner:
        def __call__(self, x, k=1, *, j=2):
            return x * k + j

    return Owner(), Owner.__call__


def _module() -> tuple[Any, Any]:
    class Owner(nn.Module):
        def forward(self, x, k=1, *, j=2):
            return x * k + j

    return Owner(), Owner.forward


def _inlined() -> tuple[Any, Any]:
    target, function = _function()
    return (lambda x: target(x)), function


CHANGES: dict[str, Callable[[Any], Any]] = {
    "defaults": lambda f: setattr(f, "__defaults__", (10,)),
    "keyword defaults": lambda f: setattr(f, "__kwdefaults__", {"j": 7}),
    "one keyword default": lambda f: f.__kwdefaults__.update(j=8),
    "more defaults": lambda f: setattr(f, "__defaults__", (torch.ones(2), 5)),
    "code": lambda f: setattr(f, "__code__", (lambda *args, **named: args[-1] - 1).__code__),
}


@pytest.mark.parametrize("make", [_function, _method, _callable, _module, _inlined])
def test_a_function_that_changes(make: Callable[[], tuple[Any, Any]]) -> None:
    target, function = make()
    fn, _ = compiled(target)
    x = torch.ones(2)
    assert torch.equal(fn(x), target(x))
    for name, change in CHANGES.items():
        change(function)
        assert torch.equal(fn(x), target(x)), name
        assert torch.equal(fn(x), target(x)), name


@pytest.mark.parametrize("name", ["reader", "types_of_mine", "abc1", "inspector", "wraps"])
def test_a_module_named_almost_like_a_librarys_is_the_programs(name: str) -> None:
    """Its functions are not called for real while tracing, as functions of `re` are, but evaluated, and guarded."""
    made = types.ModuleType(name)
    exec("scale = 2\ndef factor(n):\n    global calls\n    calls += 1\n    return n * scale", made.__dict__)
    made.named = functools.wraps(inspect.getdoc)(eval("lambda n: factor(n)", made.__dict__))

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * (made.named if name == "wraps" else made.factor)(3)

    x, call = torch.ones(2), explorer.compile(function, backend="eager")
    for made.scale in (2, 5):
        made.calls = 0
        assert torch.equal(call(x), x * 3 * made.scale) and made.calls == 1
