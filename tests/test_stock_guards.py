"""Stock's guards in words; and each is what the words say: where that is no longer so, stock compiles again."""

from __future__ import annotations

import collections
import copy
import enum
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.overrides
from torch import Tensor, nn
from torch._dynamo.utils import counters

import explorer
from explorer.ir.record import GuardData
from explorer.records.check.trial import Trial
from explorer.records.data.dynamo import in_words, is_torchs_own
from explorer.records.stock.run import stock_run


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Held:
    def __init__(self) -> None:
        self.scale = 2


class Other(Held):
    pass


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.steps, self.extra = nn.Linear(4, 4), 3, None

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x) * self.steps
        return y if self.extra is None else y + 1


SCALE = 2.5
NAMES = ["a"]


def plain(n: int, flag: bool, s: str, x: Tensor) -> Tensor:
    return x * n if flag and s == "s" else x


def containers(d: dict[str, Any], l: list[Any], o: Held) -> Tensor:  # noqa: E741
    return d["x"] * l[0] * o.scale


def of_globals(x: Tensor) -> Tensor:
    return x * SCALE + len(NAMES)


def enumerated(x: Tensor, c: Color, none: Any) -> Tensor:
    return x + 1 if c is Color.RED and none is None else x


def two(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def even(x: Tensor) -> Tensor:
    return x + 1 if x.shape[0] % 2 == 0 else x


def calling(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return f(x)


X = torch.ones(4)
TENSOR = "is a float32 tensor of size [4], strides [1] on cpu that does not require grad"


def change(owner: Any, name: str, value: Any) -> Callable[[], Callable[[], None]]:
    """Sets it, and gives what puts it back."""

    def do() -> Callable[[], None]:
        before = getattr(owner, name)
        setattr(owner, name, value)
        return lambda: setattr(owner, name, before)

    return do


HERE = __import__("sys").modules[__name__]
Change = Callable[..., Any] | tuple[Any, ...]

TABLE: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], dict[str, Change]]] = [
    (plain, (2, True, "s", X), {}, {
        "n equals 2": (3, True, "s", X),
        "flag equals True": (2, False, "s", X),
        "s equals 's'": (2, True, "t", X),
        f"x {TENSOR}": (2, True, "s", X.double()),
    }),
    (containers, ({"x": X}, [3], Held()), {}, {
        "d is a dict": (collections.OrderedDict(x=X), [3], Held()),
        "d has 1 element": ({"x": X, "y": 1}, [3], Held()),
        f"d['x'] {TENSOR}": ({"x": X[None]}, [3], Held()),
        "l is a list": ({"x": X}, (3,), Held()),
        "l has 1 element": ({"x": X}, [3, 4], Held()),
        "l[0] equals 3": ({"x": X}, [5], Held()),
        "o is a test_stock_guards.Held": ({"x": X}, [3], Other()),
        "o.scale equals 2": change(Held, "__init__", lambda self: setattr(self, "scale", 7)),
    }),
    (of_globals, (X,), {}, {
        f"x {TENSOR}": (torch.ones(4, requires_grad=True),),
        "SCALE equals 2.5": change(HERE, "SCALE", 1.5),
        "NAMES is a list": change(HERE, "NAMES", ("a",)),
        "NAMES has 1 element": change(HERE, "NAMES", ["a", "b"]),
    }),
    (enumerated, (X, Color.RED, None), {}, {
        f"x {TENSOR}": (torch.ones(8)[::2], Color.RED, None),
        "c is the same object (test_stock_guards.Color)": (X, Color.BLUE, None),
        "none is None": (X, Color.RED, 1),
        "Color is the same object (test_stock_guards.Color)":
            change(HERE, "Color", enum.Enum("Color", {"RED": 1})),
        # torch 2.11
        "c is the same object (Color)": (X, Color.BLUE, None),
        "Color is the same class": change(HERE, "Color", enum.Enum("Color", {"RED": 1})),
    }),
    (two, (X, torch.zeros(4)), {}, {
        f"x {TENSOR}": (torch.ones(5), torch.zeros(5)),
        f"y {TENSOR}": (X, torch.zeros(4, dtype=torch.int64)),
        "x and y are different tensors": lambda x, y: (x, x),
    }),
    (two, (X, X), {}, {
        f"x {TENSOR}": (X.half(), X.half()),
        "x and y are the same object": lambda x, y: (x, x.clone()),
    }),
    (even, (torch.ones(8),), {"dynamic": True}, {
        "x is a float32 tensor of size [any], strides [1] on cpu that does not require grad": (torch.ones(8, 8),),
        "x.size(0) % 2 equals 0": (torch.ones(9),),
        "2 <= x.size(0)": (torch.ones(1),),
        "x is a torch.Tensor": (nn.Parameter(torch.ones(8)),),
    }),
    (calling, (torch.sin, X), {}, {
        "f is the same function": (torch.cos, X),
        f"x {TENSOR}": (torch.sin, nn.Parameter(X)),
    }),
]  # fmt: skip
"""Program, arguments, settings, and by the words of each guard about the program: other arguments, or a change of the
world, that violate it."""


def guards_of(fn: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> list[GuardData]:
    torch._dynamo.reset()  # it remembers sizes
    with stock_run(Trial(fn, args, {}), {"backend": "eager", **settings}) as run:
        return [guard for compile in run.compiles({}) for guard in compile.guards]


@contextmanager
def counted(fn: Callable[..., Any], settings: dict[str, Any]) -> Iterator[tuple[Callable[..., Any], Callable[[], int]]]:
    """The function compiled by stock, and how many of its frames were compiled so far."""
    torch._dynamo.reset()
    before = counters["frames"]["total"]
    own = types.FunctionType(fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        yield torch.compile(own, backend="eager", **settings), lambda: counters["frames"]["total"] - before


@pytest.mark.parametrize(("fn", "args", "settings", "changes"), TABLE)
def test_each_guard_in_words_violated_compiles_again(
    fn: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any], changes: dict[str, Change]
) -> None:
    found = [guard for guard in guards_of(fn, args, settings) if not guard.of_torch]
    assert {guard.words for guard in found} - changes.keys() == set(), "every guard has a violation"
    for words in sorted({guard.words for guard in found}):
        violation = changes[words]
        with counted(fn, settings) as (compiled, compiles):
            mine = copy.deepcopy(args) if fn is containers else args
            compiled(*mine)
            compiled(*mine)
            assert compiles() == 1
            if isinstance(violation, tuple):
                compiled(*violation)
            elif violation.__code__.co_argcount:
                compiled(*violation(*mine))
            else:
                put_back = violation()
                try:
                    compiled(*(mine[:-1] + (Held(),) if fn is containers else mine))
                finally:
                    put_back()
            assert compiles() == 2, words


AMBIENT: list[tuple[str, Callable[[], Any]]] = [
    ("grad mode, autocast", torch.no_grad),
    ("grad mode, autocast", lambda: torch.autocast("cpu")),
    ("no default device is set", lambda: torch.device("meta")),
    ("the stack of torch function modes", torch.overrides.BaseTorchFunctionMode),
]


@pytest.mark.parametrize(("words", "world"), AMBIENT)
def test_guards_about_torch_are_distinguished(words: str, world: Callable[[], Any]) -> None:
    found = [guard for guard in guards_of(plain, (2, True, "s", X), {}) if guard.of_torch]
    assert any(guard.words.startswith(words) for guard in found)
    with counted(plain, {}) as (compiled, compiles):
        compiled(2, True, "s", X)
        with world():
            compiled(2, True, "s", X)
        assert compiles() == 2


def test_a_mark_on_a_dimension_is_torchs_own() -> None:
    (mark,) = [guard for guard in guards_of(two, (X, torch.ones(1)), {}) if "dimension of x" in guard.words]
    assert mark.of_torch and mark.words == "no dimension of x is marked (torch._dynamo.mark_dynamic)"
    with counted(two, {}) as (compiled, compiles):
        compiled(X, torch.ones(1))
        marked = torch.ones(4)
        torch._dynamo.mark_dynamic(marked, 0)
        compiled(marked, torch.ones(1))
        assert compiles() == 2


def test_what_a_module_keeps_is_named_as_the_program_names_it() -> None:
    found = guards_of(Layer(), (torch.ones(2, 4),), {})
    program = [guard.words for guard in found if not guard.of_torch]
    assert "self.steps equals 3" in program and "self.extra is None" in program
    grown = "self.linear.weight is a float32 parameter of size [4, 4], strides [4, 1] on cpu that requires grad"
    assert grown in program
    about_torch = [guard.words for guard in found if guard.of_torch]
    assert "self.linear has no attribute 'forward' of its own" in about_torch
    for guard in found:
        raw = ("___", "check_tensor", "L['", "G['", "DispatchKeySet", "__import_", "please file a bug")
        assert not any(part in guard.words + guard.why for part in raw), guard


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("___check_type_id(L['x'], 94), type=<class 'torch.Tensor'>", "x is a torch.Tensor"),
        ("___check_type_id(L['x'], 94)", "the class of x is as at capture"),
        ("___check_type_id(fn, 94), type=<class 'torch.nn.Linear'> (HINT: type Linear)", "fn is a torch.nn.Linear"),
        ("L['n'] == 1 (HINT: closure variable 'n')", "n equals 1"),
        ("___check_obj_id(G['f'].__code__, 1), type=<class 'code'>", "f.__code__ is the same code"),
        ("___check_obj_id(f.__code__, 1), type=<code object f at 0x7, line 1>", "f.__code__ is the same code"),
        ("___check_obj_id(G['Color'], 1), type=<enum 'Color'>", "Color is the same class"),
        ("___check_obj_id(L['c'], 1), type=<Color.RED: 1>", "c is the same object (Color)"),
        ("___check_obj_id(L['n'], 1), type=300", "n is the same object"),
        ("___check_obj_id(L['self'], 1)", "self is the same object"),
        ("___dict_contains('k', L['d'])", "d has 'k'"),
        ("not ___dict_contains('k', L['d'])", "d has no 'k'"),
        ("set.__contains__(L['s'], 3)", "s has 3"),
        ("___tuple_iterator_len(L['it']) == 2", "the iterator it has 2 elements left"),
        ("list(dict.keys(L['d'])) == ['a', 'b']", "the keys of d are ['a', 'b']"),
        ("list(dict.keys(L['d']))[0] == 'a'", "key 0 of d equals 'a'"),
        ("__math_isnan(L['f'])", "f is not a number (NaN)"),
        ("L['x'].data_ptr() == 9311", "x lies at the same address"),
        ("not hasattr(L['o'], 'gone')", "o has no attribute 'gone'"),
        ("not L['l']", "l is empty"),
        ("len(L['l']) == 1", "l has 1 element"),
        ("utils_device.CURRENT_DEVICE == device(type='cpu')", "the default device is device(type='cpu')"),
        ("torch.autograd.forward_ad._current_level == -1", "no level of forward-mode differentiation is open"),
        ("check_overlapping(overlapping=[a, b])", "which of the tensors share memory is as at capture"),
        ("L['x'].size()[0]*L['x'].size()[1] < 2147483648", "x.size(0)*x.size(1) < 2147483648"),
        ("L['self']._modules['0']._parameters['weight'] is L['w']", "self[0].weight and w are the same object"),
        ("a form that torch 3 has", "a form that torch 3 has"),
    ],
)
def test_forms_of_torch(expression: str, words: str) -> None:
    assert in_words(expression) == words


def test_another_class_of_a_module_is_told_in_words() -> None:
    module = torch.nn.Linear(2, 2)
    compiled = torch.compile(module, backend="eager")
    with explorer.watch() as log:
        compiled(torch.ones(1, 2))
        torch.nn.utils.parametrizations.weight_norm(module)
        compiled(torch.ones(1, 2))
    (failed,) = log.record.recompiles
    assert failed.words == "the type of fn" and failed.values[-1].endswith("ParametrizedLinear")
    assert "___" not in repr(log) and "HINT" not in repr(log)


def test_words_take_time_in_proportion_to_the_text() -> None:
    for text in ("(" * 20_000, "L['" * 20_000, "not ___dict_contains('" + "'" * 20_000, "a == " * 5_000):
        in_words(text)
        is_torchs_own("TYPE_MATCH", text, text)
