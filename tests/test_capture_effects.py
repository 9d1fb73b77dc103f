"""Side effects of traced code: replayed in order, on the same objects."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import types
from typing import Any

import pytest
import torch
from torch import nn

import explorer
from capturing import compiled
from effectful import MADE, Key, noted
from explorer.compiler.capture.effects import verdict
from explorer.ir.capture import KnownEffects, UnknownEffects


def test_containers_keep_their_identity() -> None:
    def f(x, items, table, unique, queue):
        items.append(x + 1)
        items[0] = x * 2
        table["new"] = items
        table.pop("old")
        unique.add("b")
        queue.appendleft(3)
        return table

    fn, captures = compiled(f)
    items, table, unique, queue = [1, 2], {"old": 1, "kept": 2}, {"a"}, collections.deque([1], maxlen=2)
    x = torch.ones(2)
    out = fn(x, items, table, unique, queue)
    assert out is table and table["new"] is items
    assert list(table) == ["kept", "new"]
    assert len(items) == 3 and torch.equal(items[0], x * 2) and torch.equal(items[2], x + 1)
    assert unique == {"a", "b"} and list(queue) == [3, 1] and queue.maxlen == 2
    assert [e.kind for e in captures.made[0].effects] == ["list", "dict", "set", "deque"]


def sets_and_reads(x, one, other):
    one["a"] = x * 2
    return "a" in one, one.get("a"), one.get("b"), "a" in other, other.get("c")


def sets_and_counts(x, one, other):
    one["a"] = x
    one["d"] = len(one)
    return list(one), len(other), other == one


def sets_and_deletes(x, one, other):
    one["a"] = x * 2
    del one["a"]
    other["a"] = one.pop("b", 3)
    one["a"] = x
    return list(one.items())


def sets_equal_keys(x, one, other):
    one[1], one[True], other[1.0] = x, x * 2, x * 3
    return x + 1


def sets_over_a_break(x, one, other):
    one["a"] = x * 2
    torch._dynamo.graph_break()
    other["a"] = one["a"] + 1
    one["c"] = x
    return x * 2


def sets_then_raises(x, one, other):
    one["a"] = x * 2
    try:
        other["b"] = one["c"]
    except KeyError:
        other["c"] = x
    return one["a"]


@pytest.mark.parametrize("made", [dict, lambda items: collections.defaultdict(int, items)])
@pytest.mark.parametrize(
    "fn", [sets_and_reads, sets_and_counts, sets_and_deletes, sets_equal_keys, sets_over_a_break, sets_then_raises]
)
def test_items_are_set_whatever_else_a_dictionary_holds(fn: Any, made: Any) -> None:
    compiled_fn, x = compiled(fn)[0], torch.ones(2)
    items = ({}, {"a": 1}, {"b": 2, "a": 1}, {"c": 5, True: 1}, {1: 1, "d": 4})
    for one, other in itertools.product(items, items):
        found = []
        for each in (fn, compiled_fn):
            given = made(one), made(other)
            found.append(str((each(x, *given), given)))
            twice = made(one)
            found[-1] += str((each(x, twice, twice), twice))
        assert found[0] == found[1]


def test_two_dictionaries_are_compared_as_they_are_now() -> None:
    compiled_fn = compiled(lambda x, one, other: (x + 1, one == other, one != other))[0]
    for one, other in itertools.product(({}, {"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 1}), repeat=2):
        assert compiled_fn(torch.ones(1), dict(one), dict(other))[1:] == (one == other, one != other)


LINKS = ("__cause__", "__context__", "__suppress_context__", "__notes__")

LINKING = {
    "cause": "e.__cause__ = KeyError('k')",
    "context": "e.__context__ = KeyError('k'); e.__suppress_context__ = True",
    "suppressed first": "e.__suppress_context__ = False; e.__cause__ = None; found += [e.__suppress_context__]",
    "notes": "e.add_note('n'); e.add_note('m'); found += [list(e.__notes__)]",
    "raised from": """
    try: raise e from KeyError('z')
    except ValueError as caught: found += [caught is e, repr(caught.__cause__), caught.__suppress_context__]
    """,
    "of a new one": "new = ValueError(); new.__cause__ = e; found += [hasattr(new, '__notes__'), repr(new.__cause__)]",
}


@pytest.mark.parametrize("noted", (False, True))
@pytest.mark.parametrize("linking", LINKING)
def test_what_links_an_exception_from_outside_to_others(linking: str, noted: bool) -> None:
    space: dict[str, Any] = {}
    exec(f"def fn(x, e):\n    found = []\n    {LINKING[linking].strip()}\n    return x + 1, found", space)
    found = []
    for call in (space["fn"], explorer.compile(space["fn"])):
        error = ValueError("v")
        if noted:
            error.add_note("0")
        made = call(torch.ones(1), error)[1]
        found.append((made, [repr(getattr(error, name, "none")) for name in LINKS], error.args))
    assert found[0] == found[1]


def scaled(x, by=1.0, plus=0.0):
    return x * by + plus


KEYWORDS = (
    "p.keywords['by'] = 5.0; y = p(x)",
    "p.keywords['plus'] = 5.0; y = p(x); del p.keywords['plus']",
    "p.keywords.update(by=p.keywords.get('by', 1.0) + 1); y = p(x), list(p.keywords)",
    "q = functools.partial(p, plus=9.0); q.keywords['by'] = 4.0; y = q(x), p(x)",
    "y = p(x, by=3.0), p.keywords is p.keywords",
    "q = functools.partial(scaled, by=x); y = q(x), q.keywords['by']",
    "p.note = 1; p.keywords['by'] = 7.0; y = functools.reduce(lambda s, i: s + p(i), [x, x])",
)


@pytest.mark.parametrize("body", KEYWORDS)
def test_the_keywords_of_a_partial_are_its_own(body: str) -> None:
    space: dict[str, Any] = {"functools": functools, "scaled": scaled}
    exec(f"def fn(x, p):\n    {body}\n    return y", space)
    fn = explorer.compile(space["fn"])
    for given in ({}, {"by": 2.0}):
        ours, eager = functools.partial(scaled, **given), functools.partial(scaled, **given)
        for size in (1.0, 2.0):
            x = torch.full((2,), size)
            assert repr(fn(x, ours)) == repr(space["fn"](x, eager))
            assert (ours.keywords, vars(ours)) == (eager.keywords, vars(eager))


def test_swap_through_attributes() -> None:
    class Box:
        pass

    def f(box, x):
        box.a, box.b = box.b, box.a
        box.c = box.a + x
        old = box.b
        box.b = x
        return old

    fn, _ = compiled(f)
    box, a, b, x = Box(), torch.ones(2), torch.zeros(2), torch.full((2,), 5.0)
    box.a, box.b = a, b
    out = fn(box, x)
    assert out is a and box.a is b and box.b is x and torch.equal(box.c, b + x)


def test_attribute_deletion_and_setattr_hooks() -> None:
    class Logged:
        def __init__(self):
            object.__setattr__(self, "log", [])
            self.value = 1

        def __setattr__(self, name, value):
            self.log.append(name)
            object.__setattr__(self, name, value)

    def f(thing, x):
        thing.value = x + thing.value
        del thing.value
        thing.other = 3
        return x

    fn, _ = compiled(f)
    thing = Logged()
    fn(thing, torch.ones(2))
    assert thing.log == ["value", "value", "other"]
    assert not hasattr(thing, "value") and thing.other == 3


class Slots:
    __slots__ = ("w", "n", "m", "late")

    def __init__(self) -> None:
        self.w, self.n, self.m = 1, 2, 3


class Plain:
    common = 1

    def __init__(self) -> None:
        self.w, self.n, self.m = 1, 2, 3


def told(change: Any) -> str:
    """What goes wrong."""
    try:
        return repr(change())
    except AttributeError as error:
        return str(error)


def deletes_and_sets(o: Any, x: Any) -> Any:
    del o.w
    o.w = x + 1
    return sorted(getattr(o, "__dict__", {}).keys() - {"w"}), x * 2


def deletes_twice(o: Any, x: Any) -> Any:
    del o.w
    o.w = x
    del o.w
    return told(lambda: delattr(o, "w")), told(lambda: o.w), told(lambda: delattr(o, "never"))


def mixes(o: Any, x: Any) -> Any:
    o.late = 1
    del o.n
    o.m = 7
    o.n = x + 1
    o.late = 2
    del o.m
    return list(vars(o)) if hasattr(o, "__dict__") else None


def deletes_of_the_class(o: Any, x: Any) -> Any:
    return told(lambda: delattr(o, "common")), told(lambda: delattr(o, "late")), x + 1


def breaks_between(o: Any, x: Any) -> Any:
    o.late = x
    del o.n, o.late
    torch._dynamo.graph_break()
    o.late = 1
    o.n = x + 1
    return told(lambda: o.m)


@pytest.mark.parametrize("made", [Slots, Plain, lambda: types.SimpleNamespace(w=1, n=2, m=3)])
@pytest.mark.parametrize("fn", [deletes_and_sets, deletes_twice, mixes, deletes_of_the_class, breaks_between])
def test_attributes_that_are_deleted_and_set_anew(fn: Any, made: Any) -> None:
    seen = []
    for function in (fn, explorer.compile(fn)):
        given = made()
        result = function(given, torch.ones(2))
        names = vars(given) if hasattr(given, "__dict__") else Slots.__slots__
        seen.append(repr((result, [(name, getattr(given, name, None)) for name in names])))
    assert seen[0] == seen[1]


COUNT = 0


def test_globals_and_cells() -> None:
    total = 0.0

    def f(x):
        nonlocal total
        global COUNT
        COUNT += 1
        total += 2.0
        return x * total

    fn, _ = compiled(f)
    x = torch.ones(2)
    assert torch.equal(fn(x), x * 2)
    assert torch.equal(fn(x), x * 4)
    assert total == 4.0 and COUNT == 2


def test_buffers_and_counters_of_modules() -> None:
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(2))
            self.register_buffer("last", torch.zeros(2))
            self.calls = 0
            self.history = []

        def forward(self, x):
            self.total += x
            self.last = x * 2
            self.calls += 1
            self.history.append(self.calls)
            return self.total * 1

    net = Counter()
    total = net.total
    fn, _ = compiled(net)
    x = torch.ones(2)
    for n in range(1, 4):
        assert torch.equal(fn(x), x * n)
    assert net.total is total and torch.equal(net.state_dict()["last"], x * 2)
    assert net.calls == 3 and net.history == [1, 2, 3]


def test_returned_objects_are_the_same() -> None:
    def f(x, items, function):
        y = x.add_(1)
        return x, y, items, (items, function), x.view(-1), None

    fn, _ = compiled(f)
    x, items = torch.ones(2, 2), [1]
    a, b, c, (d, e), view, none = fn(x, items, len)
    assert a is x and b is x and c is items and d is items and e is len and none is None
    assert view.data_ptr() == x.data_ptr()
    assert torch.equal(x, torch.full((2, 2), 2.0))


def test_new_objects_are_shared_where_they_were() -> None:
    def f(x):
        shared = [x + 1]
        return {"a": shared, "b": (shared, shared)}, shared

    fn, _ = compiled(f)
    out, shared = fn(torch.ones(2))
    assert out["a"] is shared and out["b"][0] is shared and out["b"][1] is shared


@dataclasses.dataclass
class Node:
    value: Any
    children: list[Any] = dataclasses.field(default_factory=list)
    name: str = "node"

    def add(self, child):
        self.children.append(child)
        return self


def test_instances_made_inside() -> None:
    def f(x):
        root = Node(x)
        return root.add(Node(x * 2, name="child")).add(root.value)

    fn, captures = compiled(f)
    x = torch.ones(2)
    out = fn(x)
    assert type(out) is Node and out.value is x and out.name == "node"
    assert out.children[0].name == "child" and out.children[1] is x
    assert captures.breaks == []


CLASS_BODIES = {
    "call": "a = count(x)", "call of a local": "def a(): seen.append(2)\n  a()", "decorator": "@count\n  def a(): pass",
    "operator": "a = counted + 1", "item": "a = counted[0]", "attribute": "a = counted.field", "error": "a = 1 // 0",
    "loop": "for a in counted: pass", "store": "counted.field = 2", "item set": "counted[0] = 2", "raise": "assert 0",
    "import": "import a_module_of_nowhere", "slots": "__slots__ = ('a',)\n  a = 1", "annotation": "a: count(1) = 2",
    "replaced": "property = count\n  @property\n  def a(): 0", "default": "def a(self, b=count(2)): 0",
    "f-string": "f'{counted}'", "lambda": "a = (lambda: seen.append(2))()", "constant": "@1\n  def a(): pass",
    "lambda over": "@lambda f: seen.append(2)\n  def a(): pass", "name": "@__name__\n  def a(): pass",
    "setter": "@property\n  def a(): 0\n  @a.setter\n  def a(): 0", "twice": "@property\n  @count\n  def a(): 0",
    "constants": "a, b = 1, [2]\n  @staticmethod\n  def c(): return x",
}  # fmt: skip


class Counted:
    def __init__(self, seen):
        object.__setattr__(self, "seen", seen)

    def note(self, *args):
        self.seen.append(args)
        return 0

    __add__ = __getitem__ = __getattr__ = __str__ = __setattr__ = __setitem__ = __call__ = note

    def __format__(self, how):
        return str(self.note(how))

    def __iter__(self):
        return iter([self.note()])


@pytest.mark.parametrize("name", CLASS_BODIES)
def test_class_bodies_take_effect(name) -> None:
    source = f"def f(x, seen, count, counted):\n y = x + 1\n class K:\n  {CLASS_BODIES[name]}\n return y"
    exec(source, space := {})

    def outcome(function):
        seen: list[Any] = []
        try:
            function(torch.ones(2), seen, Counted(seen).note, Counted(seen))
        except Exception as error:
            seen.append(type(error))
        return [each if isinstance(each, type) else "noted" for each in seen]

    assert outcome(explorer.compile(space["f"], backend="eager")) == outcome(space["f"])


def test_functions_made_inside() -> None:
    def f(x, n):
        def plus(y, *, k=2.0):
            return y + x * n * k

        plus.tag = "made"
        return plus, lambda: plus(x)

    fn, captures = compiled(f)
    x = torch.ones(2)
    plus, thunk = fn(x, 3)
    assert torch.equal(plus(x), x + 6) and torch.equal(thunk(), x + 6) and plus.tag == "made"
    assert plus.__name__ == "plus" and plus.__kwdefaults__ == {"k": 2.0}
    assert captures.breaks == []


def test_recursive_closures() -> None:
    def f(x):
        def down(n):
            return x if n == 0 else down(n - 1) + 1

        return down

    fn, _ = compiled(f)
    assert torch.equal(fn(torch.zeros(2))(3), torch.full((2,), 3.0))


def test_generators_closures_and_exceptions() -> None:
    def numbers(n):
        try:
            for i in range(n):
                got = yield i
                if got == "stop":
                    return "stopped"
        finally:
            log.append("closed")
        return "done"

    log: list[str] = []

    def delegate(n):
        result = yield from numbers(n)
        yield result

    def f(x):
        values = list(delegate(3))
        generator = numbers(5)
        first = next(generator)
        try:
            generator.send("stop")
        except StopIteration as stop:
            last = stop.value
        early = numbers(2)
        next(early)
        early.close()
        return x * len(values), values, first, last

    fn, captures = compiled(f)
    x = torch.ones(2)
    scaled, values, first, last = fn(x)
    assert torch.equal(scaled, x * 4) and values == [0, 1, 2, "done"] and (first, last) == (0, "stopped")
    assert log == ["closed"] * 3
    assert captures.breaks == []


def test_in_place_changes_reach_every_alias() -> None:
    def f(x):
        base = torch.zeros(2, 3)
        row = base[0]
        row += x
        base.mul_(2)
        return base, row

    fn, _ = compiled(f)
    base, row = fn(torch.ones(3))
    assert torch.equal(base[0], torch.full((3,), 2.0)) and row.data_ptr() == base.data_ptr()


def test_context_managers_of_generators() -> None:
    import contextlib

    @contextlib.contextmanager
    def doubled(state):
        state["factor"] *= 2
        try:
            yield state["factor"]
        finally:
            state["factor"] /= 2

    def f(x, state):
        with doubled(state) as a, doubled(state) as b:
            x = x * a * b
        return x * state["factor"]

    fn, captures = compiled(f)
    state = {"factor": 1.0}
    assert torch.equal(fn(torch.ones(2), state), torch.full((2,), 8.0))
    assert state == {"factor": 1.0} and captures.breaks == []


def test_autocast_and_no_grad_are_in_the_graph() -> None:
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
        with torch.no_grad():
            z = y * 2
        return y, z

    fn, captures = compiled(f)
    x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)
    y, z = fn(x, w)
    assert y.dtype == torch.bfloat16 and y.requires_grad and not z.requires_grad
    assert captures.breaks == [] and len(captures.graphs) == 1
    assert not torch.is_autocast_enabled("cpu")


def test_grad_mode_left_switched() -> None:
    def f(x):
        torch.set_grad_enabled(False)
        return x * 2

    fn, _ = compiled(f)
    try:
        assert not fn(torch.ones(2, requires_grad=True)).requires_grad
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


@pytest.mark.parametrize("name", ["accumulate", "compress", "cycle", "dropwhile", "takewhile", "filterfalse", "starmap",
                                  "pairwise", "zip_longest", "groupby"])  # fmt: skip
def test_what_cannot_be_iterated_is_refused_when_the_iterator_is_made(name: str) -> None:
    made = getattr(itertools, name)
    arguments: dict[str, tuple[Any, ...]] = {
        "compress": (len, [1]), "dropwhile": (bool, 3), "takewhile": (bool, 3), "filterfalse": (None, 3),
        "starmap": (max, 3), "zip_longest": ([1], [2], 3),
    }  # fmt: skip

    def function(x: Any, log: list[str]) -> Any:
        log.append("before")
        made(*arguments.get(name, (3,)))
        log.append("after")
        return x + 1

    found = []
    for each in (function, explorer.compile(function, backend="eager")):
        log: list[str] = []
        with pytest.raises(TypeError) as raised:
            each(torch.ones(2), log)
        found.append((str(raised.value), log))
    assert found[0] == found[1]


@functools.lru_cache
def counted(key: Key) -> int:
    COUNTS.add_(1)
    return 1


@functools.lru_cache
def pure(key: Key, size: int) -> float:
    return size * 0.5


COUNTS = torch.zeros(3)


@pytest.mark.parametrize("fn", [noted, counted, lambda key: key.scale(3), lambda key: pure(key, 4)])
def test_a_functools_cache_runs_its_function_once_for_a_key(fn: Any) -> None:
    def call(x: torch.Tensor, key: Key) -> torch.Tensor:
        return x * fn(key)

    seen = []
    for run in (call, explorer.compile(call)):
        MADE.clear()
        COUNTS.zero_()
        for each in (noted, counted, pure, Key.scale):
            each.cache_clear()
        keys = Key(), Key()
        seen.append([(run(torch.ones(3), keys[n]).tolist(), list(MADE), COUNTS.tolist()) for n in (0, 0, 1, 0, 1)])
    assert seen[0] == seen[1]


@torch.library.custom_op("effects_of_capture::logs", mutates_args=())
def _logs(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@_logs.register_fake
def _fake_of_logs(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


EFFECTS_OF: dict[str, tuple[Any, list[str] | str]] = {
    "none": (lambda x, rows: x.sin(), []),
    "a list": (lambda x, rows: rows.append(x.sin()) or x + 1, ["list L['rows'] is refilled"]),
    "its input": (lambda x, rows: x.add_(1), []),
    "a break": (lambda x, rows: (print(end=""), x + 1), "break.print"),
    "a branch of data": (lambda x, rows: x + 1 if x.sum() > 0 else x, "break.data_dependent_branch"),
    "an operator of one's own": (lambda x, rows: _logs(x) + 1, "break.untraceable_call"),
}


@pytest.mark.parametrize("what", EFFECTS_OF)
def test_a_capture_knows_all_effects_or_says_why_not(what: str) -> None:
    function, expected = EFFECTS_OF[what]
    fn, captures = compiled(function)
    fn(torch.ones(2), [])
    found = verdict(captures.made[0])
    if isinstance(found, KnownEffects):
        assert [each.text for each in found.effects] == expected
    else:
        assert isinstance(found, UnknownEffects) and found.why.code == expected
