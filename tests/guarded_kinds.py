"""Kinds of value, what a program can read of each, how it can change between two calls, and ways to reach it."""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import datetime
import decimal
import enum
import functools
import itertools
import threading
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from explorer.compiler.capture.values.tensor import TENSOR_PROPERTIES


@dataclass(frozen=True)
class Kind:
    """Python expressions over `v`: `made` first, `others` that take its place, `changes` in place, `reads` of it."""

    made: str
    others: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


def kind(made: str, others: str = "", changes: str = "", reads: str = "") -> Kind:
    def lines(text: str) -> tuple[str, ...]:
        return tuple(line.strip() for line in text.strip().splitlines() if line.strip())

    return Kind(made, lines(others), lines(changes), lines(reads))


def asked(name: str) -> str:
    """How a program asks for a property of a tensor."""
    if name == "_is_zerotensor" or name == "__len__":
        return f"v.{name}() if hasattr(v, 'dim') and v.dim() else 0"
    if name in ("is_same_size", "result_type", "can_cast"):
        return {
            "is_same_size": "v.is_same_size(torch.zeros(4))", "result_type": "torch.result_type(v, 1.0)",
            "can_cast": "torch.can_cast(v.dtype, torch.int32)",
        }[name]  # fmt: skip
    return f"v.{name}()" if callable(getattr(torch.zeros(1, 1, dtype=torch.complex64), name)) else f"v.{name}"


class Count(int):
    limit = 3

    def __new__(cls, number: int, unit: str = "") -> Count:
        made = super().__new__(cls, number)
        made.unit = unit
        return made

    unit: str


class Name(str):
    pass


class Measure(float):
    pass


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


Pair = namedtuple("Pair", "a b")


class Base:
    """What the classes of the programs derive from."""


def fresh_class(bases: tuple[type, ...] = (Base,), **members: Any) -> type:
    """A class of its own, over a base of its own with functions of its own, so that a program may change all of it."""

    class Own(*bases):  # type: ignore[misc]
        shared = 1

        def method(self):
            return 10

        @property
        def prop(self):
            return self.n + 1

        @staticmethod
        def static():
            return 20

        @classmethod
        def made_by(cls):
            return cls.shared

    return type("Fresh", (Own,), members)


def instance(**attributes: Any) -> Any:
    made = fresh_class()()
    made.__dict__.update({"n": 1} | attributes)
    return made


class Slotted:
    __slots__ = ("n", "m")


def slotted(**attributes: Any) -> Slotted:
    made = Slotted()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@dataclasses.dataclass
class Data:
    n: int = 1
    tags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int = 1


def dynamic(fallback: int) -> Any:
    return fresh_class((), __getattr__=lambda self, name: fallback)()


def sized(length: int, true: bool) -> Any:
    return fresh_class((), __len__=lambda s: length, __bool__=lambda s: true, __getitem__=lambda s, i: i + length)()


def function(k: int = 1) -> Callable[..., Any]:
    def inner(a: int = 1, *, b: int = 2) -> Any:
        return a + b * k

    return inner


def other_function(a: int = 1, *, b: int = 2) -> Any:
    return a - b


def module(**attributes: Any) -> types.ModuleType:
    made = types.ModuleType("made_for_guards")
    made.__dict__.update({"n": 1} | attributes)
    return made


class Net(nn.Module):
    def __init__(self, size: int = 4, rate: float = 2.0) -> None:
        super().__init__()
        self.rate = rate
        self.weight = nn.Parameter(torch.ones(size))
        self.register_buffer("count", torch.zeros(size))
        self.act = nn.ReLU()

    def forward(self, y):
        return self.act(y * self.weight * self.rate + self.count)


class Permission(enum.Flag):
    R = 1
    W = 2


class Cached:
    def __init__(self, n: int) -> None:
        self.n = n

    @functools.cached_property
    def c(self) -> int:
        return self.n * 2


class Descriptor:
    def __init__(self, v: int) -> None:
        self.v = v

    def __get__(self, owner: Any, cls: type) -> int:
        return self.v


class Meta(type):
    extra = 1

    def __len__(cls) -> int:
        return cls.extra


class Equal:
    """Compared and hashed by what it holds."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)


Derived = {base: type(f"Derived_{base.__name__}", (base,), {}) for base in (tuple, dict, str, int, float)}
"""Classes of the program's own over classes written in C."""

VARIABLE: Any = contextvars.ContextVar("VARIABLE")


def local(**attributes: Any) -> Any:
    made = threading.local()
    made.__dict__.update(attributes)
    return made


OBJECT_READS = """
    v.n
    getattr(v, 'absent', 7)
    hasattr(v, 'absent')
    hasattr(v, 'n')
    v.n if hasattr(v, 'n') else 0
    type(v).__name__
    'absent' in vars(v)
    sorted(vars(v))
    vars(v).get('absent', 3)
    v.shared + v.method() + v.prop + v.static() + v.made_by()
    bool(v)
"""
OBJECT_CHANGES = """
    v.n = 5
    v.n = 6
    v.n = True
    v.n = 2.5
    v.absent = 11
    v.shared = 3
    type(v).absent = 12
    type(v).shared = 4
    del v.absent
    type(v).method = lambda self: 33
    type(v).prop = property(lambda self: 44)
    type(v).static = staticmethod(lambda: 55)
    type(v).made_by = classmethod(lambda cls: 66)
    v.method = lambda: 77
    type(v).__bool__ = lambda self: False
    type(v).prop.fget.__code__ = (lambda self: 88).__code__
    type(v).__mro__[1].absent = 13
    del v.n
"""

KINDS: dict[str, Kind] = {
    "tensor": kind(
        "torch.arange(4.)",
        """
        torch.arange(5.)
        torch.arange(4)
        torch.arange(4.).requires_grad_()
        torch.ones(4, requires_grad=True) * 2
        torch.arange(8.)[::2]
        torch.arange(6.)[2:]
        torch.arange(7.)[3:]
        torch.arange(4.).double()
        nn.Parameter(torch.arange(4.))
        nn.Parameter(torch.arange(4.), requires_grad=False)
        torch.ones(1).expand(4)
        torch.complex(torch.ones(4), torch.ones(4)).conj().imag
        torch.complex(torch.ones(4), torch.ones(4)).conj()
        torch.arange(4.).view(2, 2).t()
        torch.stack([torch.ones(4, requires_grad=True)] * 2).unbind()[1]
        torch.zeros(())
        torch.arange(4.)
        3
        None
        [1.0, 2.0]
        """,
        """
        v.absent = 11
        v.absent = 12
        del v.absent
        v.add_(1)
        v.grad = torch.ones(4)
        v.grad = None
        v.requires_grad_()
        """,
        "\n".join(asked(name) for name in TENSOR_PROPERTIES if hasattr(torch.Tensor, name) or name in (
            "result_type", "can_cast"))
        + """
        v * 2
        v.grad is None
        v.grad_fn is None
        v.grad + 1 if v.grad is not None else 0
        getattr(v, 'absent', 7)
        hasattr(v, 'absent')
        type(v).__name__
        isinstance(v, nn.Parameter)
        torch.is_tensor(v)
        torch.overrides.is_tensor_like(v)
        tuple(v.shape), v.stride()
        v.as_strided((2,), (1,), 1) * 1
        v[1:].as_strided((2,), (1,)) * 1
        v[1:].storage_offset()
        v.untyped_storage().nbytes()
        len(v.untyped_storage()) + v.untyped_storage().size()
        v.untyped_storage().device.type
        v._version >= 0
        isinstance(v, (int, list))
        v is None
        """,
    ),
    "storage": kind("torch.arange(4.).untyped_storage()", "torch.arange(5.).untyped_storage()\n3",
                    "v.resize_(32)\nv.resize_(4)",
                    "v.nbytes()\nlen(v)\nv.size()\nv.device.type\ntype(v).__name__\nv.data_ptr() == 0\nv.resizable()"),
    "limits": kind("torch.finfo(torch.float32)", "torch.finfo(torch.float64)\ntorch.iinfo(torch.int8)\n3", "",
                   "v.max\nv.bits\nv.dtype\ntype(v).__name__"),
    "cell": kind("types.CellType(2)", "types.CellType(3)\ntypes.CellType()\n3",
                 "v.cell_contents = 5\ndel v.cell_contents", "v.cell_contents\ntype(v).__name__"),
    "int": kind("2", "3\n5\nTrue\n2.5\n0\n1\n-3\n2**40\nNone\n'a'\ntorch.ones(4)\nLevel.HIGH", "",
                "v\nv * 2\nx * v\ntype(v).__name__\nisinstance(v, bool)\nv == 2\nstr(v)\nv > 2"),
    "float": kind("2.0", "3.0\n2\nTrue\nfloat('nan')\nfloat('inf')\n-2.0\nNone", "",
                  "v\nx * v\nv != v\ntype(v).__name__\nv > 0\nint(v) if v == v and v < 100 else 0"),
    "bool": kind("True", "False\n1\n0\nNone", "", "v\n1 if v else 2\nx * v\ntype(v).__name__"),
    "complex": kind("1 + 2j", "2 + 1j\n1.0", "", "v.real\nx * v\ntype(v).__name__"),
    "str": kind("'ab'", "'abc'\n'AB'\n''\nb'ab'\nNone", "", "v\nlen(v)\n'a' in v\nv.upper()\nv == 'ab'\nbool(v)"),
    "bytes": kind("b'ab'", "b'abc'\n'ab'", "", "len(v)\nv[0]\ntype(v).__name__"),
    "class of ints": kind("Count(2)", "Count(3)\nCount(2, 'kg')\n2\n2.0", "v.unit = 'm'\ntype(v).limit = 4",
                          "x * v\nv + 1\nv.unit\nv.limit\nv == 2\nstr(v)\nbool(v)\nv"),
    "class of texts": kind("Name('ab')", "Name('abc')\n'ab'", "v.first = 3", "len(v)\nv.upper()\nv == 'ab'\nv + 'c'"),
    "class of floats": kind("Measure('2.5')", "Measure('nan')\nMeasure(-0.0)\nMeasure(0)\n2.5", "", "x * v\nv\nv > 1"),
    "none": kind("None", "0\nFalse\n()", "", "v is None\nbool(v)\ntype(v).__name__"),
    "list": kind("[1, 2]", "[1, 2, 3]\n[2, 1]\n(1, 2)\n[]\n[1, 2.0]\n[True, 2]\n[torch.ones(4), 2]",
                 "v.append(9)\nv[0] = 5\nv[0] = 6\nv.pop()\nv.insert(0, 'a')\nv.clear()",
                 "len(v)\nv[0]\nv[-1]\n9 in v\nlist(v)\nv == [1, 2]\nbool(v)\ntype(v).__name__\n[i for i in v]\nv[:1]"),
    "tuple": kind("(1, 2)", "(1, 2, 3)\n(2, 1)\n[1, 2]\n()\n(1, (2, 3))\nPair(1, 2)", "",
                  "len(v)\nv[0]\n3 in v\nv + (1,)\nv == (1, 2)\ntype(v).__name__\nv * 2"),
    "namedtuple": kind("Pair(1, 2)", "Pair(2, 1)\n(1, 2)", "", "v.a + v.b\nv._fields\nv[0]\nv._replace(a=3).a"),
    "dict": kind("{'a': 1}", "{'a': 2}\n{'b': 1}\n{'a': 1, 'b': 2}\n{}\nOrderedDict(a=1)\n{'a': torch.ones(4)}",
                 "v['b'] = 2\nv['a'] = 7\nv['a'] = 8\nv.pop('a')\nv.clear()\nv['absent'] = 1",
                 """
                 v.get('a', 0)
                 v.get('absent')
                 'absent' in v
                 'a' in v
                 len(v)
                 list(v)
                 list(v.items())
                 sorted(v.values(), key=str)
                 bool(v)
                 v == {'a': 1}
                 v['a']
                 type(v).__name__
                 'absent' in v.keys()
                 {**v}
                 """),
    "defaultdict": kind("defaultdict(int, a=1)", "defaultdict(list)\n{'a': 1}", "v['b'] = 2\nv.default_factory = str",
                        "v['absent']\nlen(v)\nv.get('absent')\n'b' in v"),
    "ordered": kind("OrderedDict(a=1, b=2)", "OrderedDict(b=2, a=1)\ndict(a=1, b=2)", "v.move_to_end('a')\nv['c'] = 3",
                    "list(v)\nlist(v.items())\nnext(iter(v))\nlen(v)"),
    "set": kind("{1, 2}", "{1, 2, 3}\nfrozenset({1, 2})\nset()", "v.add(3)\nv.discard(1)\nv.clear()",
                "3 in v\nlen(v)\nsorted(v)\nv | {5}\nbool(v)\nv == {1, 2}"),
    "frozenset": kind("frozenset({1, 2})", "frozenset({1})\n{1, 2}", "", "1 in v\nlen(v)\nsorted(v)"),
    "deque": kind("deque([1, 2], 3)", "deque([1, 2])\ndeque([2, 1], 3)\n[1, 2]", "v.append(4)\nv.popleft()",
                  "len(v)\nv[0]\nlist(v)\nv.maxlen"),
    "object": kind("instance()", "instance(n=2)\ninstance(absent=4)\n3", OBJECT_CHANGES, OBJECT_READS),
    "slots": kind("slotted(n=1)", "slotted(n=2)\nslotted()", "v.n = 3\nv.m = 5\ndel v.n",
                  "v.n\nhasattr(v, 'm')\ngetattr(v, 'm', 9)\ngetattr(v, 'n', 9)"),
    "dataclass": kind("Data()", "Data(2)\nData(1, ('t',))", "v.n = 4\nv.tags = ('a', 'b')\nv.extra = 1",
                      "v.n\nv == Data()\ndataclasses.replace(v, n=9).n\ndataclasses.fields(v)[0].name\nrepr(v)\n"
                      "dataclasses.asdict(v)\nhasattr(v, 'extra')\ndataclasses.is_dataclass(v)"),
    "frozen": kind("Frozen()", "Frozen(2)", "", "v.n\nv == Frozen()\n{Frozen(): 1}.get(v)\nhash(v) == hash(Frozen())"),
    "dynamic": kind("dynamic(3)", "dynamic(4)", "v.n = 9\ntype(v).__getattr__ = lambda self, name: 8\ntype(v).n = 7\n"
                    "v.__dict__['n'] = 10", "v.n\nhasattr(v, 'n')\ngetattr(v, 'zz', 1)"),
    "sized": kind("sized(2, True)", "sized(3, True)\nsized(2, False)\nsized(0, False)",
                  "type(v).__len__ = lambda s: 7\ntype(v).__bool__ = lambda s: False\n"
                  "type(v).__getitem__ = lambda s, i: 5\ntype(v).__contains__ = lambda s, i: True",
                  "len(v)\nbool(v)\nv[1]\n1 if v else 2\n99 in [v[3]]"),
    "class": kind("fresh_class()", "fresh_class(shared=9)\nBase\nint",
                  "v.shared = 5\nv.absent = 1\nv.method = lambda self: 3\ndel v.shared\nv.__mro__[1].absent = 2",
                  "v.shared\nhasattr(v, 'absent')\ngetattr(v, 'absent', 4)\nv.__name__\nissubclass(v, Base)\n"
                  "v.made_by()\nv.static()\nv().method()\nisinstance(3, v)"),
    "function": kind("function()", "function(3)\nother_function\nlen\ntorch.sin",
                     "v.__defaults__ = (10,)\nv.__kwdefaults__ = {'b': 20}\nv.__kwdefaults__['b'] = 30\n"
                     "v.__code__ = other_function.__code__ if not v.__closure__ else v.__code__\nv.absent = 4\n"
                     "v.__name__ = 'renamed'\nv.__doc__ = 'told'\nv.__defaults__ = None",
                     "v(1)\nv()\nv(b=3)\nv.__name__\ngetattr(v, 'absent', 0)\nhasattr(v, 'absent')\nv.__doc__\n"
                     "v.__defaults__\ncallable(v)"),
    "closed": kind("function(2)", "function(3)", "v.__closure__[0].cell_contents = 7\n"
                   "v.__closure__[0].cell_contents = 8", "v()\nv(5)\nv.__closure__[0].cell_contents"),
    "method": kind("instance().method", "instance().method\nfunction()", "v.__self__.n = 3\n"
                   "type(v.__self__).method = lambda self: 5\nv.__func__.__code__ = (lambda self: 6).__code__",
                   "v()\nv.__self__.n\nv.__name__"),
    "builtin method": kind("[1].append", "[1, 2].append\n[].pop", "", "v.__name__\nlen(v.__self__)"),
    "partial": kind("functools.partial(function(), 1)",
                    "functools.partial(function(), 2)\nfunctools.partial(function(), 1, b=5)\n"
                    "functools.partial(other_function, 1)\nfunction()", "v.keywords['b'] = 9\nv.absent = 3",
                    "v()\nv.args if hasattr(v, 'args') else 0\ndict(v.keywords)\ngetattr(v, 'absent', 0)"),
    "cached": kind("functools.lru_cache(function())", "functools.lru_cache(function(4))", "v.cache_clear()", "v(1)"),
    "slice": kind("slice(0, 2)", "slice(1, 3)\nslice(None, None, 2)\nslice(0, 2.0)\n1\nNone", "",
                  "x[v] if v is not None else x\nv.start\nv.step\nv == slice(0, 2)"),
    "range": kind("range(3)", "range(4)\nrange(1, 3)\nrange(0, 3, 2)\n[0, 1, 2]", "",
                  "sum(v)\nlen(v)\nv[1]\nlist(v)\n2 in v\nv == range(3)"),
    "enum": kind("Color.RED", "Color.BLUE\nLevel.LOW\n1", "", "v.value\nv.name\nv is Color.RED\nv == Color.RED"),
    "int enum": kind("Level.LOW", "Level.HIGH\n1", "", "v + 1\nv == 1\nx * v\ntype(v).__name__"),
    "dtype": kind("torch.float32", "torch.float64\ntorch.int32\nNone", "", "x.to(v) if v else x\nv == torch.float32"),
    "device": kind("torch.device('cpu')", "torch.device('meta')\n'cpu'", "",
        "torch.zeros(2, device=v).device.type\nstr(v)"),
    "size": kind("torch.Size([2, 2])", "torch.Size([4])\n(2, 2)\ntorch.Size([2, 2, 1])", "",
                 "x.reshape(v)\nlen(v)\nv[0]\nv.numel() if isinstance(v, torch.Size) else 0\ntype(v).__name__"),
    "random generator": kind("torch.Generator().manual_seed(1)", "torch.Generator().manual_seed(2)", "v.manual_seed(5)",
                      "torch.rand(2, generator=v)\nv.initial_seed()"),
    "context variable": kind("VARIABLE", "", "VARIABLE.set(5)\nVARIABLE.set(6)\nVARIABLE.set('a')",
        "v.get(1)\nv.get()"),
    "thread local": kind("local(n=1)", "local(n=2)\nlocal()", "v.n = 3\nv.absent = 4\ndel v.n",
                         "v.n\nhasattr(v, 'absent')\ngetattr(v, 'absent', 5)"),
    "python module": kind("module()", "module(n=2)\nmodule(absent=1)", "v.n = 4\nv.n = 5\nv.absent = 3\ndel v.n",
                          "v.n\nhasattr(v, 'absent')\ngetattr(v, 'absent', 6)\n'absent' in vars(v)\nv.__name__\n"
                          "v.__dict__.get('n')"),
    "nn module": kind("Net()", "Net(rate=3.0)\nNet(1)\nnn.Identity()\nnn.ReLU()",
                      """
                      v.rate = 4.0
                      v.eval()
                      v.absent = nn.Parameter(torch.ones(4))
                      v.weight = nn.Parameter(torch.ones(4) * 3)
                      v._parameters['weight'] = nn.Parameter(torch.ones(4) * 5)
                      v._buffers['count'] = torch.ones(4)
                      v._buffers = {'count': torch.ones(4) * 2}
                      v._parameters = {'weight': torch.ones(4) * 7}
                      v.act = nn.Tanh()
                      v._modules['act'] = nn.Sigmoid()
                      v.register_forward_hook(lambda m, a, out: out + 1)
                      v.register_buffer('more', torch.ones(4))
                      v.forward = lambda y: y * 100
                      v.requires_grad_(False)
                      del v.act
                      """,
                      """
                      v(x)
                      v.rate
                      v.training
                      hasattr(v, 'absent')
                      getattr(v, 'absent', None) is None
                      getattr(v, 'more', None) is None
                      len(list(v.parameters()))
                      [name for name, _ in v.named_buffers()]
                      [name for name, _ in v.named_children()]
                      'weight' in v._parameters
                      v.weight.requires_grad
                      v.count.sum()
                      type(v.act).__name__
                      sorted(v.state_dict())
                      """),
    "range iterator": kind("iter(range(3))", "iter(range(5, 8))\niter(range(4))", "next(v, 0)",
                           "list(v)\nnext(v, 0)\n[i for i in v]"),
    "text iterator": kind("iter('abc')", "iter('xyz')\niter(b'abc')", "next(v, '')",
                          "list(v)\nnext(v, 0)\n[i for i in v]"),
    "iterator": kind("iter([1, 2])", "iter([3])\niter((1, 2))\niter('ab')", "", "list(v)\nnext(v, 0)\n[i for i in v]"),
    "zip": kind("zip([1], [2])", "zip([1, 2], [3, 4])\nenumerate([5])\nmap(abs, [-1])", "", "list(v)\nnext(v)"),
    "proxy": kind("types.MappingProxyType({'a': 1})", "types.MappingProxyType({'b': 1})", "",
        "v['a']\n'b' in v\nlen(v)"),
    "reversed": kind("reversed([1,2])", "reversed([3,4])\nreversed((1,2))\nreversed(range(2))",
        "next(v,0)", "list(v)\nnext(v, 0)\n[i for i in v]\nsum(v, 0)"),
    "dict iterator": kind("iter({'a':1})", "iter({'b':1})\niter({'a':1,'b':2})", "next(v,0)", "list(v)\nnext(v, 0)"),
    "items iterator": kind("iter({'a':1}.items())", "iter({'a':2}.items())", "next(v,0)", "list(v)\nnext(v, 0)"),
    "map": kind("map(abs, [-1,2])", "map(abs,[-3,2])\nmap(lambda a: a+1, [1,2])",
        "next(v,0)", "list(v)\nnext(v, 0)\n[i for i in v]\nsum(v, 0)"),
    "chain": kind("itertools.chain([1],[2])", "itertools.chain([1],[3])",
        "next(v,0)", "list(v)\nnext(v, 0)\n[i for i in v]\nsum(v, 0)"),
    "count": kind("itertools.count(1)", "itertools.count(5)\nitertools.count(1,2)", "next(v,0)", "next(v, 0)"),
    "generator": kind("(i for i in [1,2])", "(i for i in [3,4])\n(i+1 for i in [1,2])",
        "next(v,0)", "list(v)\nnext(v, 0)\n[i for i in v]\nsum(v, 0)"),
    "counter": kind("collections.Counter('aab')", "collections.Counter('abb')",
        "v['a']=7\nv['z']=1\nv.update('b')", "v['a']\nv['zz']\nv.most_common(1)\nlen(v)\nv.total()"),
    "flag": kind("Permission.R", "Permission.W\nPermission.R|Permission.W\nPermission(0)", "",
        "v\nbool(v)\nPermission.R in v\nv.name\nv.value"),
    "decimal": kind("decimal.Decimal('1.5')", "decimal.Decimal('2.5')\n1.5",
        "", "float(v)\nv+1\nstr(v)\nbool(v)\nv == 1.5\nhash(v)\nv < 2\nv != decimal.Decimal(1)"),
    "date": kind("datetime.date(2020,1,1)", "datetime.date(2021,1,1)",
        "", "v.year\nstr(v)\nhash(v)\nv == datetime.date(2020,1,1)\nv < datetime.date(2020,6,1)"),
    "cached property": kind("Cached(1)", "Cached(2)", "v.n=5\nv.c\nv.__dict__['c']=9\ndel v.c", "v.c\nv.n"),
    "equal object": kind("Equal(1)", "Equal(2)\nEqual(1)", "v.n=3",
        "v==Equal(1)\nhash(v)\nv in {Equal(1):2}\nv in [Equal(1)]"),
    "dict of objects": kind("{Equal(1): 5}", "{Equal(2): 5}\n{Equal(1): 6}", "v[Equal(1)]=7",
        "v.get(Equal(1),0)\nlen(v)"),
    "metaclass": kind("Meta('A',(),{})", "Meta('B',(),{'x':1})",
        "type(v).extra=4\nv.x=2\ntype(v).extra=1\nv.__name__='Q'\nv.__qualname__='Z'",
        "len(v)\nv.__qualname__\ngetattr(v,'x',0)\nv.extra\nv.__name__"),
    "descriptor": kind("type('D',(),{'d':Descriptor(1)})()", "type('D',(),{'d':Descriptor(2)})()",
        "type(v).__dict__['d'].v=8\ntype(v).d=Descriptor(4)", "v.d"),
    "derived tuple": kind("Derived[tuple]((1,2))", "Derived[tuple]((1,3))\n(1,2)",
        "v.z=4", "v[0]\nlen(v)\ngetattr(v,'z',0)\nlist(v)\ntype(v).__name__"),
    "derived dict": kind("Derived[dict](a=1)", "Derived[dict](a=2)\nDerived[dict](b=1)",
        "v.z=4\nv['a']=5\nv['b']=6", "v.get('a',0)\nlen(v)\ngetattr(v,'z',0)\nlist(v.items())\ntype(v).__name__"),
    "derived str": kind("Derived[str]('ab')", "Derived[str]('cd')\n'ab'",
        "v.z=4", "v+'c'\nlen(v)\ngetattr(v,'z',0)\ntype(v).__name__\nv=='ab'"),
    "derived int": kind("Derived[int](2)", "Derived[int](3)\n2", "v.z=4",
        "v+1\nx*v\ngetattr(v,'z',0)\ntype(v).__name__\nv==2"),
    "derived float": kind("Derived[float](2)", "Derived[float](3)\n2.0", "v.z=4",
        "v+1\nx*v\ngetattr(v,'z',0)\ntype(v).__name__\nv==2"),
    "hooked module": kind("nn.ReLU()", "nn.Tanh()",
        "v.register_forward_hook(lambda m,i,o: o+1)\nv.register_forward_pre_hook(lambda m,i: (i[0]*2,))"
        "\nv._forward_hooks.clear()\nv.forward = lambda y: y*3\ndel v.forward\nv.eval()",
        "v(x-1)\nv.training"),
    "numpy number": kind("np.float32(2)", "np.float64(2)\nnp.float32(3)\nnp.int64(2)\n2.0",
        "", "x*v\nfloat(v)\ntype(v).__name__\nv>2"),
    "default factory": kind("defaultdict(list)", "defaultdict(int)\ndefaultdict(lambda: 3)",
        "v['a']=1\nv.default_factory=dict", "v['zz']\nlen(v)\nv.get('a',0)\ntype(v['q']).__name__"),
    "namespace": kind("types.SimpleNamespace(n=1)", "types.SimpleNamespace(n=2)\ntypes.SimpleNamespace()",
                      "v.n = 3\nv.absent = 2\ndel v.n", "v.n\nhasattr(v, 'absent')\ngetattr(v, 'n', 4)"),
    "exception": kind("ValueError('a')", "ValueError('b')\nTypeError('a')", "v.args = ('c',)\nv.absent = 1",
                      "v.args\nstr(v)\ntype(v).__name__\nhasattr(v, 'absent')"),
}  # fmt: skip

WITHIN = {
    "AutocastValue": "object", "CellAside": "cell", "Cell": "cell", "ChainIterator": "chain",
    "ContextValue": "object", "DequeIterator": "deque", "DictView": "dict", "EnumerateIterator": "zip",
    "FilterIterator": "map",
    "GeneratorValue": "generator", "IndexingIterator": "object", "InstanceDict": "object",
    "NamespaceValue": "python module", "NumberValue": "tensor", "RepeatIterator": "count",
    "ReversedIterator": "reversed", "StorageValue": "tensor", "SuperValue": "class", "TracebackValue": "exception",
    "Unread": "object", "WeakReference": "object",
}  # fmt: skip
"""Values that nothing is read into by itself: the kind of what they are asked of, or of the same that is given."""
MADE_HERE = {
    "ArrayIterator": "iter(array), called by the program",
    "CallableIterator": "iter(function, end), called by the program",
    "CompiledValue": "torch.compile called by the program",
    "FunctionContext": "filled by the program",
    "SeededGenerator": "made of a seed",
    "HandleValue": "what registers a hook returns",
    "HostValue": "the evaluator's own",
    "InnerHandle": "what registers a hook returns",
    "IntOrFloat": "the largest or the smallest of numbers of the graph",
    "Null": "no value",
    "Offset": "the evaluator's own",
    "ProfileValue": "cannot be asked",
    "RuntimeNumber": "cannot be asked",
    "TensorOrNumber": "the largest or the smallest of tensors and numbers",
    "TypesOfCall": "the classes that a TorchFunctionMode is given",
    "TextValue": "made of numbers by the program; what reads it guards those",
    "UnmadeClass": "cannot be asked",
}
"""Values that hold nothing of the world, and why."""


WAYS: dict[str, tuple[str, str]] = {
    "argument": ("def f(x, v):\n    return x + 1, {read}", "args = (x, v)"),
    "keyword": ("def f(x, *, v):\n    return x + 1, {read}", "kwargs = {'v': v}"),
    "star": ("def f(x, *rest):\n    v = rest[0]\n    return x + 1, {read}", "args = (x, v)"),
    "double star": ("def f(x, **named):\n    v = named['v']\n    return x + 1, {read}", "kwargs = {'v': v}"),
    "global": ("def f(x):\n    return x + 1, {read}", "f.__globals__['v'] = v"),
    "closure": ("def outer():\n    v = None\n    def f(x):\n        return x + 1, {read}\n    return f\nf = outer()",
                "f.__closure__[0].cell_contents = v"),
    "attribute": ("box = instance()\ndef f(x):\n    v = box.v\n    return x + 1, {read}", "box.v = v"),
    "item": ("box = [None]\ndef f(x):\n    v = box[0]\n    return x + 1, {read}", "box[0] = v"),
    "key": ("box = {{}}\ndef f(x):\n    v = box['v']\n    return x + 1, {read}", "box['v'] = v"),
    "nested": ("box = {{'a': [instance()]}}\ndef f(x):\n    v = box['a'][0].v\n    return x + 1, {read}",
               "box['a'][0].v = v"),
    "default": ("def f(x, v=None):\n    return x + 1, {read}", "f.__defaults__ = (v,)"),
    "keyword default": ("def f(x, *, v=None):\n    return x + 1, {read}", "f.__kwdefaults__ = {'v': v}"),
    "inlined default": ("def g(v=None):\n    return {read_g}\ndef f(x):\n    return x + 1, g()",
        "g.__defaults__ = (v,)"),
    "class": ("C = fresh_class()\ndef f(x):\n    v = C.v\n    return x + 1, {read}",
        "C.v = staticmethod(v) if callable("
              "v) and not isinstance(v, type) else v"),
    "base class": ("C = fresh_class()\nc = C()\ndef f(x):\n    v = c.v\n    return x + 1, {read}",
                   "C.__mro__[1].v = staticmethod(v) if callable(v) and not isinstance(v, type) else v"),
    "module": ("m = module()\ndef f(x):\n    v = m.v\n    return x + 1, {read}", "m.v = v"),
    "inner function": ("def f(x):\n    def g():\n        return {read}\n    return x + 1, g()",
                       "f.__globals__['v'] = v"),
    "self": ("class M(nn.Module):\n    def forward(self, x):\n        v = self.v\n        return x + 1, {read}\n"
             "f = M()",
             "object.__setattr__(f, 'v', v)"),
    "bound": ("box = fresh_class(f=lambda self, x: (lambda v: (x + 1, {read}))(self.v))()\nf = box.f", "box.v = v"),
    "slot": ("box = slotted()\ndef f(x):\n    v = box.m\n    return x + 1, {read}", "box.m = v"),
}  # fmt: skip
"""By name: the program, which reads `v`, and the statement that brings a new `v` to it."""


@dataclass(frozen=True)
class Row:
    kind: str
    read: str
    way: str

    def __str__(self) -> str:
        return f"{self.kind} by {self.way}: {self.read}"


def rows() -> Iterator[Row]:
    for (name, each), way in itertools.product(KINDS.items(), WAYS):
        for read in each.reads:
            yield Row(name, read, way)


def run(row: Row, wrap: Callable[[Any], Any], steps: int | None = None) -> list[Any]:
    """What each call of the program gives: at first, then after each change and each replacement of the value."""
    return contextvars.Context().run(_run, row, wrap, steps)


def _run(row: Row, wrap: Callable[[Any], Any], steps: int | None) -> list[Any]:
    chosen = KINDS[row.kind]
    program, put = WAYS[row.way]
    space: dict[str, Any] = dict(globals()) | {"__name__": "program"}
    read_g = row.read.replace("x", "torch.arange(4.)") if row.read.startswith("x") else row.read
    exec(program.format(read=row.read, read_g=read_g), space)
    compiled = wrap(space["f"])
    x = torch.arange(4.0)
    found: list[Any] = []
    states = [chosen.made, *(f";{change}" for change in chosen.changes), *chosen.others, chosen.made]
    value: Any = None
    for state in states[:steps]:
        if state.startswith(";"):
            try:
                exec(state[1:], space, {"v": value})
            except (AttributeError, TypeError, KeyError, ValueError, IndexError, RuntimeError, UnboundLocalError):
                continue
        else:
            value = eval(state, space)
        held: dict[str, Any] = {"v": value, "x": x, "args": (x,), "kwargs": {}}
        exec(put, space, held)
        torch.default_generator.manual_seed(0)
        try:
            result = plain(compiled(*held["args"], **held["kwargs"]))
        except Exception as error:
            result = f"raises {type(error).__name__}"
        found.append((state, result))
    return found


def plain(value: Any) -> Any:
    """A result in a form that is compared by its text."""
    if isinstance(value, torch.Tensor):
        shown = value.detach().resolve_conj().resolve_neg().tolist() if value.device.type == "cpu" else "no data"
        return f"{value.dtype} {tuple(value.shape)} {value.requires_grad} {shown}"
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    if isinstance(value, dict):
        return type(value).__name__, [(plain(k), plain(v)) for k, v in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, value))
    if isinstance(value, (int, float, str, bytes, complex, type(None), torch.dtype, torch.device, slice, range)):
        return repr(value)
    return type(value).__name__


__all__ = [
    "KINDS", "MADE_HERE", "WAYS", "WITHIN", "OrderedDict", "Row", "collections", "datetime", "decimal", "defaultdict",
    "deque", "functools", "np", "plain", "rows", "run",
]  # fmt: skip
