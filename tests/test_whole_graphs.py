"""Programs that stock captures as one graph: so does this compiler, with what eager returns."""

import collections
import functools
import io
import math
import os
import pathlib
import random
import re
import traceback
import typing
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import asserting
import explorer
from explorer.compiler.config import Config
from whole import same


class Node:
    pass


class Leaf(Node):
    weight = 2


class Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 3


@torch.jit.script
def scripted(x, n: int):
    return x * n


SEQUENCE = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Tanh())

KEY = Node()

WEAK = weakref.WeakKeyDictionary({KEY: 5})


def weak_keys(x):
    made, node = weakref.WeakKeyDictionary(), Node()
    made[node] = 2
    return x + WEAK[KEY] + made[node] + (KEY in WEAK) + (node in WEAK) + len(WEAK)


def weak_callback(x):
    return x + (weakref.ref(KEY, print)() is KEY)


def profiled(x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        y = x + 1
    with torch.autograd.profiler.profile(), torch.profiler.record_function("part"):
        return y * 2


class Asking(type):
    def __bool__(cls):
        return False

    def __call__(cls, *args):
        return cls, args


class Sized(type):
    __call__ = dict

    def __len__(cls):
        return 0


class Static(type):
    __call__ = staticmethod(lambda *args: args)


class Asked(metaclass=Asking):
    pass


class Empty(metaclass=Sized):
    pass


class Open(metaclass=Static):
    pass


class Typed(typing.TypedDict):
    a: int


def metaclasses(x):
    made = Asked(1), Empty(a=x), Open(2), Typed(a=3), type(Typed(a=3)), Typed([("a", 1)])
    truths = bool(Asked), not Empty, Open or 1, [c for c in (Asked, Empty, Open, Typed) if c], any([Asked, Empty])
    return x + 1, made, truths


def seeded(x):
    np.random.seed(3)
    return x + 1


def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    made = torch.ones(3), torch.zeros(2, dtype=torch.float32), torch.tensor([1, 2]), torch.full((2,), 1.5)
    torch.set_default_dtype(torch.float32)
    return *made, torch.ones(2), x


def default_device(x):
    torch.set_default_device("meta")
    made = torch.ones(3)
    torch.set_default_device(None)
    return made.device, torch.ones(3), x


def versions(x):
    y = x * 2
    y.add_(1)
    y[0] = 1
    return x + y._version


def slots(x):
    return x + Slotted.n.__get__(Slotted()) + torch.Tensor.shape.__get__(x)[0], torch.Tensor.requires_grad.__get__(x)


def tuple_class(x):
    pair = collections.namedtuple("Pair", ["a", "b"], defaults=[2])(x)
    return pair.a * pair.b, pair._fields, pair._replace(b=3).b


def distributed(x):
    made = torch.distributions.Normal(x, x + 1)
    return made.log_prob(x), made.mean, torch.distributions.kl_divergence(made, torch.distributions.Normal(0.0, 1.0))


def keyed(x):
    made = collections.OrderedDict.fromkeys(("a",), value=x)
    return collections.defaultdict.fromkeys(["b"], x)["b"] + made["a"]


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


def indices(x):
    two, all_of = Index(2), range(9)[Index(2) : Index(7) : Index(2)]
    return x + range(5)[two] + len("abcd"[two:]) + (1, 2, 3)[two] + b"abc"[two] + len(all_of) + sum(range(two))


def storages(x):
    y = x * 2
    sizes = y.untyped_storage().nbytes(), len(y[1:].untyped_storage()), x[1:].untyped_storage().size()
    return *sizes, x.untyped_storage() is x.untyped_storage(), y.untyped_storage().device


def given_memory(x):
    y, z, before = torch.empty(0), x * 2, torch.zeros(4)
    view = before[1:]
    y.set_(z[1:])
    before.set_(z)
    y.add_(1)
    view.add_(3)
    return y, z, view, before.shape, y.storage_offset(), y.set_(x).add_(1), x + 0, x.new(x).mul_(2)


def counted_turns(x):
    loop = torch._higher_order_ops.while_loop
    count, total = loop(lambda i, a: 2 * i < 7, lambda i, a: (i + 1, a + i), (0, x))
    nested = loop(lambda p, k: p[1] < 4, lambda p, k: ((p[0] + p[1], p[1] + 1), [k[0] * 2]), ((x, 1), [len(x)]))
    tensors = loop(lambda d: d["a"].sum() < 40, lambda d: ({"a": d["a"] * 2 + 1},), ({"a": x},))
    none = loop(lambda i, a: i < 0, lambda i, a: (i + 1, a + 1), (5, x))
    return count, total * count, nested, torch.arange(count), tensors[0]["a"], none


def compiled_inside(x):
    @torch.compile(backend="eager")
    def doubled(x, by=2):
        return x * by

    again, module = torch.compile(doubled, dynamic=True), torch.compile(SEQUENCE, backend="eager")
    return again(x), doubled(x=x, by=3), doubled.__name__, again is doubled, module(x), module.training


def grouped(x):
    rows = [[x, x.double(), x + 1, x.double() + 1], [x * 2, None, x * 4, None]]
    made = torch.utils._foreach_utils._group_tensors_by_device_and_dtype(rows, with_indices=True)
    alone = torch.utils._foreach_utils._group_tensors_by_device_and_dtype(rows[:1])
    return [(kind[1], *groups) for kind, groups in made.items()], [group[0] for group in alone.values()]


def clipped(x):
    parameters = [torch.nn.Parameter(torch.ones(n)) for n in (2, 3)]
    for n, parameter in enumerate(parameters):
        parameter.grad = x[n] + torch.ones_like(parameter)
    norms = torch._foreach_norm([parameter.grad for parameter in parameters])
    return torch.nn.utils.get_total_norm([*norms, x])


def rows_of_none(x):
    none = x[:0].view(0, 2)
    return [row * 2 for row in none], none.unbind(), torch.unbind(none), [*reversed(list(x))], list(reversed(x))


def partials(x):
    inner = functools.partial(lambda a, b, c=0, d=0: a * b + c - d, 2, c=1)
    outer = functools.partial(inner, 3, c=5, d=4)
    kept = functools.partial(lambda a: a, x)
    kept.name = "own"
    return x * outer(), outer.args, outer.keywords, functools.partial(kept).args, outer.func is inner.func


def renamed(x):
    def made():
        """Something."""

    made.weight = 3
    made.__name__ = "other"
    return x * made.weight, made.__name__, made.__dict__


def parameters_of_inputs(x):
    own, other, held = torch.nn.Parameter(x), torch.nn.Parameter(x, requires_grad=False), torch.nn.Linear(3, 1)
    held.weight = torch.nn.Parameter(x[None] * 1)
    with torch.no_grad():
        own.mul_(2)
    other.add_(1)
    return own * x, other, own is other, own.is_leaf, own.detach(), x + 1


def summed(x):
    seen = []

    def items():
        for count in range(3):
            seen.append(count)
            yield Noted(count, seen)

    return x + sum(items(), Noted(0, seen)).n, math.prod(items(), start=Noted(1, seen)).n, seen


class Noted:
    def __init__(self, n, seen):
        self.n, self.seen = n, seen

    def __add__(self, other):
        self.seen.append("added")
        return Noted(self.n + other.n, self.seen)

    __mul__ = __add__


def given_gradients(x):
    made, cleared, view = x * 2, x + 1, (x * 3)[1:]
    made.grad = torch.ones_like(made)
    made.grad.add_(1)
    cleared.grad = x
    cleared.grad = None
    view.grad = made.grad[1:]
    return made, made.grad, made.grad is made.grad, view, view.grad.sum(), cleared


def kept_by_containers(x):
    recent, grouped = collections.deque([x], maxlen=2), collections.defaultdict(list)
    grouped[recent.maxlen].append(x)
    return recent.maxlen, grouped.default_factory is list, dict(grouped), pathlib.Path("a") / "b", os.fspath("c")


class Unsure:
    def __eq__(self, other):
        return NotImplemented

    def __hash__(self):
        return 5


COUNTS = collections.Counter()


class Upper(collections.Counter):
    def __setitem__(self, key, count):
        super().__setitem__(key.upper(), count)


def counted(x):
    COUNTS.clear()
    COUNTS.update("abca")
    own, upper = collections.Counter("ab"), Upper("ab")
    for counts in (own, upper):
        counts.update(["a", "c", "a"], b=2)
        counts.subtract("z")
    return x * COUNTS["a"] + own["a"], dict(COUNTS), own, upper, list(upper)


DECODER = torch.nn.TransformerDecoderLayer(4, 2, 4, 0.0)

PROGRAMS = {
    "gradients of what is made": given_gradients,
    "what containers keep": kept_by_containers,
    "parameters of inputs": parameters_of_inputs,
    "sums of what is made meanwhile": summed,
    "hashes": lambda x: (x + 1, hash(x) == id(x), {hash(x): 1}[hash(x)], hash(frozenset("ab")), hash(x + 1) == 0),
    "rows of none": rows_of_none,
    "partials of partials": partials,
    "what a function keeps": renamed,
    "the base of no view": lambda x: (x * 2, x._base is None, (x + 1)._base),
    "compiled inside": compiled_inside,
    "groups of tensors": grouped,
    "norm of gradients": clipped,
    "objects as indices": indices,
    "sizes of storages": storages,
    "memory given": given_memory,
    "turns of a loop": counted_turns,
    "slices of modules": lambda x: repr(SEQUENCE[1:]) + repr(torch.nn.ModuleList(SEQUENCE)[:2]),
    "counter": lambda x: (collections.Counter(a=2, b=1).most_common(1), collections.Counter({"a": 1}, a=2)["a"], x),
    "counted later": counted,
    "neither class knows": lambda x: (
        x,
        Unsure() == 5,
        Unsure() != 5,
        Unsure() == Unsure(),
        5 == Unsure(),
        [Unsure()] == [3],
    ),
    "match": lambda x: (re.match(r"(\d+)(a)", "12a").groups(), re.match(r"(\d+)", "12a").group(1), x + 1),
    "operands of cond": lambda x: (
        torch.cond(x.sum() > 0, lambda a, k: a * k[0], lambda a, k: a - k[1], (x, (x + 1, x))),
        torch.cond(x.sum() > 9, lambda t: t["a"] * t["k"], lambda t: t["a"] + t["k"], ({"a": x, "k": x * 3},)),
    ),
    "distributions": distributed,
    "fromkeys": keyed,
    "tree of some": lambda x: torch.utils._pytree.tree_map_only(torch.Tensor, torch.sin, (x, {"a": x}, 3))[1]["a"],
    "index of a constant tensor": lambda x: x + [1, 2, 3][torch.as_tensor(2)] + int(torch.tensor(4)),
    "numbers of an array": lambda x: torch.tensor([v for v in x.numpy()]),
    "weak keys": weak_keys,
    "weak reference": weak_callback,
    "profiled": profiled,
    "scripted": lambda x: scripted(x, 2) + 1,
    "decoder with a mask": lambda x: DECODER(
        x.new_zeros(3, 1, 4), x.new_ones(2, 1, 4), torch.nn.Transformer.generate_square_subsequent_mask(3)
    ),
    "torch's own questions": lambda x: (x, F._none_or_dtype(x), F._get_softmax_dim("softmax", x.dim(), 5)),
    "default dtype": default_dtype,
    "default device": default_device,
    "versions": versions,
    "slots": slots,
    "subclasses": lambda x: x + sum(cls.weight for cls in Node.__subclasses__()),
    "tuple class": tuple_class,
    "metaclasses": metaclasses,
    "NumPy's seed": seeded,
    "checkpoints": lambda x: (x + 1, torch.autograd._is_checkpoint_valid()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph(name):
    compiled = explorer.compile(PROGRAMS[name], fullgraph=True, backend="aot_eager")
    same(compiled(torch.arange(3.0)), PROGRAMS[name](torch.arange(3.0)))


def test_gradients_given_to_what_is_made():
    compiled = explorer.compile(given_gradients, fullgraph=True, backend="aot_eager")
    for x in (torch.arange(3.0), torch.arange(4.0)):
        found, expected = compiled(x), given_gradients(x)
        same([each.grad for each in (found[0], found[3], found[5])], [expected[0].grad, expected[3].grad, None])
        assert found[0].grad is found[1]

    def refused(x):
        (x * 2).grad = torch.ones(7)

    with pytest.raises(RuntimeError, match="attempting to assign"):
        explorer.compile(refused)(torch.ones(3))


@pytest.mark.parametrize("backend", ("explorer", "aot_eager"))
def test_a_tensor_with_a_gradient_changes_its_size(backend):
    def leaf(size):
        made = torch.ones(size, requires_grad=True)
        made.sum().backward()
        return made

    for f in (lambda x: x * 2, lambda x: x * 2 if x.grad is None else x.grad + x):
        compiled = explorer.compile(f, fullgraph=True, backend=backend)
        for x in (torch.ones(3), leaf(4), leaf(5), leaf((2, 3)), torch.ones(6), leaf(7)):
            same(compiled(x), f(x))


def test_a_view_of_changing_size_is_read_before_its_base():
    base = torch.ones(2, 3, requires_grad=True) * 1
    f = lambda y, x: (y * 2 if x.is_leaf else y + 1, x.sum())  # noqa: E731
    compiled = explorer.compile(f, fullgraph=True, backend="aot_eager")
    for x in (torch.ones(3), base[1:], base[:2], base.view(3, 2)):
        same(compiled(base, x), f(base, x))


def test_a_backward_to_chosen_inputs_is_another_program():
    f = lambda g: (g * 2 if torch.autograd._is_checkpoint_valid() else g * 3).detach()  # noqa: E731
    compiled = explorer.compile(f, fullgraph=True, backend="aot_eager")
    x, found = torch.ones(2, requires_grad=True), []
    y = x * 2
    y.register_hook(lambda g: found.append((compiled(g), f(g))))
    compiled(torch.ones(2))
    torch.autograd.grad(y.sum(), x, retain_graph=True)
    y.sum().backward()
    assert [one.tolist() for one, _ in found] == [other.tolist() for _, other in found] == [[3, 3], [2, 2]]


@pytest.mark.parametrize("value", [len, [].append, torch.nn.Linear(2, 2), 3, None, torch.float32, math, Config])
def test_iteration_over_what_has_none_is_the_programs_error(value):
    def f(x):
        try:
            return [x for _ in value]
        except TypeError as error:
            return x + 1, str(error)

    assert str(explorer.compile(f, fullgraph=True)(torch.ones(2))) == str(f(torch.ones(2)))


def test_the_base_of_a_view():
    base = torch.ones(4, requires_grad=True) * 1
    compiled = explorer.compile(lambda x, y: (x * 2, x._base is y), fullgraph=True, backend="aot_eager")
    for x in (base[1:], torch.ones(3), torch.ones(3)[:2], base[0], base):
        assert compiled(x, base)[1] is (x._base is base)


class Lazy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.LazyConv2d(2, 3)
        self.norm = torch.nn.LazyBatchNorm2d()
        self.linear = torch.nn.LazyLinear(4)

    def forward(self, x):
        return self.linear(torch.relu(self.norm(self.conv(x)))).sum((1, 2))


def test_lazy_modules_get_their_parameters_as_in_eager():
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        module = Lazy()
        call = explorer.compile(module, fullgraph=True) if compiled else module
        x = torch.randn(2, 3, 8, 8)
        found.append((call(x), call(x), torch.rand(2), call(torch.randn(3, 3, 8, 8)), *module.parameters()))
        assert type(module.linear) is torch.nn.Linear
    same(*found)
    with pytest.raises(IndexError):
        explorer.compile(torch.nn.LazyLinear(3))(torch.tensor(1.0))


def cached(x):
    @functools.lru_cache
    def double(n):
        return n * 2

    return x + double(2) + double(2) + double.cache_info().hits


def drawn(x):
    return x + random.Random(3).random()


def text(x):
    made = io.StringIO()
    made.write("abc")
    return x + len(made.getvalue())


@pytest.mark.parametrize("function", [cached, drawn, text, lambda x: x + bytearray(b"ab")[0]])
def test_objects_of_types_in_c_are_made_by_python(function):
    same(explorer.compile(function, backend="aot_eager")(torch.ones(2)), function(torch.ones(2)))


def test_a_value_outside_of_a_distributions_constraints_raises():
    def f(x):
        return torch.distributions.Normal(x, -x, validate_args=True).log_prob(x)

    for call in (f, explorer.compile(f, backend="aot_eager")):
        with pytest.raises(ValueError, match="constraint"):
            call(torch.ones(2))


def test_a_compiled_function_that_is_returned_is_compiled():
    def f(x):
        return torch.compile(torch.sin, backend="eager"), x + 1

    same(explorer.compile(f, fullgraph=True, backend="aot_eager")(torch.ones(2))[0](torch.ones(2)), torch.ones(2).sin())


def test_optimizers_that_stock_has_wrapped_before():
    linear = torch.nn.Linear(2, 2)
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    optimizer = torch.optim.Adafactor(linear.parameters())
    linear(torch.ones(2)).sum().backward()
    before = linear.weight.detach().clone()
    explorer.compile(optimizer.step, fullgraph=True, backend="aot_eager")()
    assert not torch.equal(before, linear.weight)


def counting(c, other=None):
    def count():
        nonlocal c
        c = c + 1
        return c

    def read():
        return c, other

    return count, read


def never_filled():
    if False:
        held = 1
    return lambda: held


def of_an_empty_cell(x, count, read):
    try:
        return never_filled().__closure__[0].cell_contents
    except ValueError as error:
        return str(error), x * 2


CLOSURES = {
    "value": lambda x, count, read: x * count.__closure__[0].cell_contents,
    "after a write": lambda x, count, read: (x * count(), *(f.__closure__[0].cell_contents for f in (count, read))),
    "one cell": lambda x, count, read: (x * 2, count.__closure__[0] is read.__closure__[0], len(read.__closure__)),
    "one tuple": lambda x, count, read: (x * 2, count.__closure__ is count.__closure__),
    "none": lambda x, count, read: (x * 2, never_filled.__closure__),
    "in a loop": lambda x, count, read: (x, [c.cell_contents for c in read.__closure__], read.__code__.co_freevars),
    "empty": of_an_empty_cell,
}


@pytest.mark.parametrize("name", CLOSURES)
def test_what_a_function_closes_over(name):
    compiled = explorer.compile(CLOSURES[name], backend="aot_eager", fullgraph=name != "empty")
    for held in (1, 2, 1.5, 7, torch.ones(3)):
        found = []
        for call in (CLOSURES[name], compiled):
            count, read = counting(held)
            found.append(str((call(torch.ones(3), count, read), read(), count())))
        assert found[0] == found[1]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("function", asserting.BEFORE_EFFECTS)
def test_a_false_assertion_leaves_what_eager_leaves(function, whole):
    compiled = explorer.compile(function, fullgraph=whole)
    for sign in (1, -1, 1):
        seen = []
        for run in (function, compiled):
            torch.manual_seed(0)
            random.seed(0)
            x, y, held = torch.tensor([1.0, 2.0, 3.0 * sign]) * sign, torch.ones(3), asserting.Counter()
            try:
                result = run(x, y, held)
            except AssertionError as error:
                lines = [
                    at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == asserting.__file__
                ]
                result = str(error), lines[-1]
            seen.append(str((result, y, y._version, held.count, torch.rand(1), random.random())))
        assert seen[0] == seen[1]


def test_an_assertion_whose_condition_is_written_later_breaks():
    function, x = asserting.then_writes_the_condition, torch.ones(3)
    assert str(explorer.compile(function)(x)) == str(function(x))
    with pytest.raises(AssertionError, match="negative"):
        explorer.compile(function)(-x)
