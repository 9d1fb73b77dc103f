"""Programs of one argument, a tensor, that go through Python's data model. Each is captured whole, errors included."""

from __future__ import annotations

import bisect
import contextlib
import copy
import dataclasses
import enum
import functools
import heapq
import inspect
import itertools
import operator
import sys
import types
import typing
import weakref
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple

import torch
from torch import nn

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def answering(name, value):
    """An object whose method `name` returns `value`."""
    return KINDS[name](value)


# Slots that answer with the wrong kind, or are missing.

SLOTS = {
    "iter": ("__iter__", 3, lambda o: [v for v in o]),  # noqa: C416
    "for": ("__iter__", [1], lambda o: sum(v for v in o)),
    "unpack": ("__iter__", 3, lambda o: (lambda a, b: a)(*o)),
    "next": ("__iter__", "ab", lambda o: next(o)),
    "bool": ("__bool__", 1.2, lambda o: 1 if o else 2),
    "not": ("__bool__", 1, lambda o: not o),
    "len": ("__len__", "a", len),
    "negative len": ("__len__", -1, lambda o: 1 if o else 2),
    "large len": ("__len__", 1 << 70, len),
    "index": ("__index__", 1.5, lambda o: [1, 2, 3][o]),
    "hash": ("__hash__", "a", hash),
    "key": ("__hash__", "a", lambda o: {o: 1}),
    "str": ("__str__", 3, lambda o: f"{o}"),
    "repr": ("__repr__", 3, lambda o: f"{o!r}"),
    "repr in list": ("__repr__", 3, lambda o: str([o])),
    "format": ("__format__", 3, lambda o: f"{o:x}"),
    "no format": ("other", 3, lambda o: f"{o:x}"),
    "int": ("__int__", "a", int),
    "float": ("__float__", 1, float),
    "complex": ("__complex__", 1.0, complex),
    "contains": ("__contains__", "", lambda o: 1 in o),
    "no contains": ("other", "", lambda o: 1 in o),
    "not a container": ("__contains__", None, lambda o: o + 1),
    "no call": ("other", 3, lambda o: o()),
    "no item": ("other", 3, lambda o: o[0]),
    "no length": ("other", 3, len),
    "no order": ("other", 3, lambda o: o < 1),
    "no reversed": ("other", 3, reversed),
    "no with": ("other", 3, lambda o: o.__enter__()),
    "in place": ("__iadd__", NotImplemented, lambda o: operator.iadd(o, 1)),
    "unhashable": ("__eq__", True, lambda o: {o: 1}),
}

CALLS = {
    "missing": lambda g: g(1),
    "two missing": lambda g: g(),
    "too many": lambda g: g(1, 2, 3),
    "keyword only": lambda g: g(1, 2),
    "unexpected": lambda g: g(1, 2, k=1, other=2),
    "twice": lambda g: g(1, 2, a=2, k=1),
    "no names": lambda g: g(1, 2, **{1: 2}),
    "not iterable": lambda g: g(*5),
    "no mapping": lambda g: g(1, **5),
    "a keyword twice": lambda g: g(1, **{"k": 1}, **{"k": 2}),
    "of a method": lambda g: [].append(*5),
}


def kind(name):
    return type("Answering", (), {"__init__": lambda self, v: setattr(self, "v", v), name: lambda self, *args: self.v})


KINDS = {name: kind(name) for name, _, _ in SLOTS.values()}


@program
def wrong_slots(x):
    said = []
    for name, answer, use in SLOTS.values():
        try:
            said.append(use(answering(name, answer)))
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            said.append((type(error).__name__, str(error)))
    return x + 1, said


@program
def wrong_calls(x):
    def g(a, b, *, k):
        return a

    said = []
    for use in CALLS.values():
        try:
            said.append(use(g))
        except TypeError as error:
            said.append(str(error))
    return x + 1, said


# Iterators and generators.


@program
def generators_that_are_dropped(x):
    log = []

    def g(name):
        try:
            yield 1
            yield 2
        finally:
            log.append(name)

    for v in g("break"):
        x = x + v
        break
    x = x + next(g("next"))
    any(g("any"))
    1 in g("in")  # noqa: B015
    log.append(list(zip([1], g("zip"))))  # noqa: B905
    log.append(list(itertools.islice(g("islice"), 1)))
    held = g("deleted")
    next(held)
    del held
    held = g("overwritten")
    next(held)
    held = None
    return x, log


@program
def generators_that_are_closed(x):
    log = []

    def inner():
        try:
            log.append((yield 1))
            yield 2
        except KeyError as error:
            log.append(repr(error))
            yield 3
        finally:
            log.append("inner")

    def outer():
        with contextlib.suppress(ValueError):
            log.append((yield from inner()))
        yield 4

    first, second, third, ignoring = outer(), outer(), outer(), (v for v in [1])
    next(first), first.send("sent"), first.close()
    next(second)
    log.append(second.throw(KeyError("k")))
    next(third)
    log.append(third.throw(ValueError))
    for wrong in (lambda: inner().send(1), lambda: inner().throw(OSError("unstarted")), ignoring.close):
        try:
            log.append(wrong())
        except (TypeError, OSError) as error:
            log.append(str(error))
    return x + 1, log, list(ignoring)


@program
def returned_iterators(x):
    half = iter([1, 2, 3])
    next(half)
    entries = {"a": x, "b": 2}
    return (
        half, enumerate([x]), zip([1], [2], strict=True), map(str, [1]), filter(None, [0, 1]), reversed([1, 2]),
        iter(entries), iter(entries.values()), itertools.chain([1], [2]), itertools.count(2), itertools.repeat(3, 2),
        itertools.accumulate([1, 2]), itertools.pairwise([1, 2, 3]), itertools.product([1], [2]), (v for v in [x]),
    )  # fmt: skip


@program
def changed_while_iterated(x):
    said = []
    for changed, change in (({"a": 1}, lambda d: d.update(b=1)), ({1}, lambda s: s.add(2))):
        try:
            for _ in changed:
                change(changed)
        except RuntimeError as error:
            said.append(str(error))
    return x + 1, said


@program
def lazy_itertools(x):
    log = []

    def told(v):
        log.append(v)
        return v

    many = map(told, [1, 2, 3, 4])
    first = list(itertools.islice(many, 2))
    pairs = itertools.starmap(told, [(5,), (6,)])
    log.append("made")
    cycled = itertools.cycle("ab")
    a, b = itertools.tee([7, 8])
    counted = itertools.count(3, 2)
    return (
        x.to(bool).to(float).to(int) * next(counted), list(zip("ab", counted, strict=False)),
        list(itertools.islice(counted, 2)),
        x * next(pairs), first, [next(cycled) for _ in range(3)], list(a), next(b), list(pairs),
        list(itertools.compress("abc", [1, 0, 1])), list(itertools.dropwhile(lambda v: v < 2, [1, 2, 1])),
        list(itertools.filterfalse(None, [0, 1])), [(k, list(g)) for k, g in itertools.groupby("aabc")],
        [k for k, _ in itertools.groupby([1, 1, 2])], list(itertools.zip_longest("a", "bc", fillvalue=0)),
        list(itertools.accumulate([1, 2, 3], func=operator.mul, initial=2)), log,
    )  # fmt: skip


# Modules and parameters.


class Scaled(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = nn.Parameter(torch.full((4,), scale))
        self.inner = nn.Sequential(nn.ReLU(), nn.Softmax(dim=-1))
        self.register_buffer("shift", torch.ones(4))

    def __setattr__(self, name, value):
        super().__setattr__(name, value)

    def forward(self, x):
        self.last = x
        return self.inner(x * self.scale) + self.shift


@program
def modules_made_inside(x):
    made = Scaled(2.0)
    pooled = nn.MaxPool1d(2)(x[None]) + nn.ConstantPad1d(1, 2.0)(x[:2])[None, :2]
    deep = copy.deepcopy(made)
    return made(x), pooled, made, [name for name, _ in made.named_parameters()], deep.scale is made.scale


@program
def tables_of_modules(x):
    module = nn.BatchNorm1d(4).eval()
    before = module(x[None])
    module._parameters["weight"] = torch.full((4,), 2.0)
    vars(module)["_parameters"]["bias"] = None
    module._buffers.update(running_mean=torch.ones(4))
    after = module(x[None])
    linear = nn.Linear(4, 2, bias=False)
    held = linear.weight
    replaced = torch.func.functional_call(linear, {"weight": torch.ones(2, 4)}, (x,))
    return before, after, module.weight, replaced, linear.weight is held


@program
def attributes_of_tensors(x):
    y = x + 1
    y.tag = ["made"]
    p = nn.Parameter(torch.zeros(4), requires_grad=False)
    p.owner = "p"
    return y, y.tag, hasattr(x, "tag"), p, {p: 1, y: 2}[p], isinstance(nn.Buffer(y * 2), nn.Buffer)


# Objects, containers, functions.


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 2


@dataclasses.dataclass(slots=True)
class Slotted:
    held: object
    count: int = 0


class Color(enum.Enum):
    RED = 1
    BLUE = "b"

    @property
    def low(self):
        return self.name.lower()


class Missing(dict):
    def __missing__(self, key):
        return key + "!"


Row = namedtuple("Row", "a b", defaults=[5])


class Doubled(Row):
    def __new__(cls, a):
        return super().__new__(cls, a, a * 2)

    def __getitem__(self, key):
        return getattr(self, key) if isinstance(key, str) else tuple.__getitem__(self, key)


@program
def objects_and_copies(x):
    point, slotted = Point(1), Slotted(x)
    slotted.count += 1
    try:
        point.x = 3
    except dataclasses.FrozenInstanceError as error:
        said = str(error)
    table = {Point(1): x, Point(2): 2}
    holder = types.SimpleNamespace(l=[1, {"a": x}], me=None)
    holder.me = holder
    holder.owner = Color
    deep = copy.deepcopy(holder)
    deep.l.append(5)
    holder.gone = 1
    del holder.gone
    other = copy.copy(slotted)
    return (
        table[Point(1)] + table[Point(2)], said, dataclasses.replace(point, y=7), slotted,
        other.held is slotted.held,
        deep.me is deep, deep.l, holder.l, Doubled(x)["b"], Row(1), Row(1)._replace(b=2),
        weakref.ref(deep.owner)() is deep.owner,
        Color("b").low, list(Color), Point(1) == Point(1), hash(Point(1)) == hash(Point(1)), vars(holder).keys(),
    )  # fmt: skip


@program
def containers(x):
    ordered, counted, grown = OrderedDict(a=1, b=x), Counter("abca"), defaultdict(list)
    ordered.move_to_end("a")
    grown["k"].append(x)
    queue = deque([1, 2, 3], maxlen=3)
    queue.append(4)
    queue.rotate()
    numbers = [1]
    numbers *= 2
    numbers += (3,)
    chained = ChainMap({"a": 1}, {"b": 2})
    both = {1, 2}
    both ^= {2, 3}
    return (
        ordered, counted - Counter("a"), counted.most_common(1), grown, queue, numbers, dict(chained), both,
        Missing(a=1)["q"], Missing(a=x), frozenset({1}) in {frozenset({1})}, [[1], {"k": (2,)}],
        repr([1, {"k": (2,)}, "s"]), f"{[Point(3)]}", f"{Point(1).x:>3}|{Color.RED!r}",
    )  # fmt: skip


@program
def functions(x):
    @functools.singledispatch
    def kind(value):
        return "other"

    kind.register(int, lambda value: "int")

    def g(a, b=2, *c, d=3):
        return a + b

    bound = inspect.signature(g).bind(x, d=7)
    bound.apply_defaults()
    part = functools.partial(g, b=5)
    return (
        bound, g(*bound.args, **bound.kwargs), part(x), part, kind(1), kind("a"),
        functools.reduce(operator.add, [[1], [2]], []), operator.methodcaller("sum", 0)(x),
        operator.itemgetter(0, 1)("ab"), operator.attrgetter("shape")(x),
        sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)),
        int | None, str(typing.Callable[[int], int] | None), typing.get_args(dict[str, int]),
    )  # fmt: skip


@program
def contexts(x):
    log = []

    @contextlib.contextmanager
    def told(name):
        log.append(name)
        try:
            yield name
        finally:
            log.append(f"end of {name}")

    with contextlib.ExitStack() as stack, contextlib.suppress(KeyError):
        stack.enter_context(told("a"))
        stack.callback(log.append, "called")
        with told("b"):
            raise KeyError("k")
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise OSError("second") from error
        finally:
            log.append("finally")
    except OSError as error:
        log.append(repr(error.__cause__))
    return x + 1, log


@program
def sorted_in_place(x):
    queue, row = [], [1, 3, 5]
    for number in (3, 1, 2, 5, 4):
        heapq.heappush(queue, number)
    least = heapq.heappop(queue), heapq.heapreplace(queue, 7), heapq.heappushpop(queue, 0)
    bisect.insort(row, 4)
    bisect.insort_left(row, 2, key=lambda number: -number)
    heapq.heapify(other := [3, 2, 1])
    return (
        x + least[0], queue, row, other, least, heapq.nsmallest(2, queue), list(heapq.merge([1, 3], [2])),
        bisect.bisect_left(row, 3), bisect.bisect(row, 9), bisect.bisect_right(row, 3, lo=1),
    )  # fmt: skip


@program
def written_by_operators(x):
    """What the functions of operator write is written."""
    a, b, c = [1, 2], {1: 2}, {1, 2}
    operator.setitem(a, 0, 5)
    operator.delitem(b, 1)
    found = operator.iadd(a, [3]), operator.imul(a, 2), operator.ior(c, {3})
    return x + len(a), a, b, c, [each is a or each is c for each in found]


class Doubling:
    """A descriptor that sets, and does not get: what it keeps under its own name is read."""

    def __set__(self, owner, value):
        owner.__dict__["kept"] = owner.__dict__.get("kept", 0) + value * 2


class Keeping:
    kept = Doubling()
    other = Doubling()


@program
def descriptors_that_only_set(x):
    made = Keeping()
    before = type(made.other).__name__
    made.kept = 10
    made.other = 3
    return x + made.kept, made, vars(made), before


@program
def versions(x):
    """Tuples that nobody can make, compared."""
    return (
        x + (sys.version_info >= (3, 11)), (3,) < sys.version_info, sys.version_info[:1] == (3,),
        sys.version_info + (1,) > sys.version_info, sys.float_info.max > 1,
    )  # fmt: skip
