"""Small functions that together use every instruction; each takes no argument and returns something comparable.

Run twice by `bytecode_roundtrip`: as compiled, and after decoding and encoding. Must parse on Python 3.11.
"""

# ruff: noqa: B007, B012, B018, B023, E731, E741, F401, F821, F841, I001, UP008, UP031, UP032, UP034, UP037, UP041
from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field


class Log:
    """A context manager that says what happens to it and may swallow the exception."""

    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        print("enter", self.name)
        return self.name

    def __exit__(self, kind, value, trace):
        print("exit", self.name, kind and kind.__name__)
        return self.swallow

    async def __aenter__(self):
        await asyncio.sleep(0)
        return self.__enter__()

    async def __aexit__(self, *error):
        await asyncio.sleep(0)
        return self.__exit__(*error)


class Truth:
    """Neither true nor false without being asked."""

    def __init__(self, value):
        self.value = value

    def __bool__(self):
        print("asked", self.value)
        if self.value is None:
            raise ZeroDivisionError("no truth")
        return self.value

    def __lt__(self, other):
        return Truth(self.value)


def arithmetic():
    a, b = 17, 5
    out = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> b, a & b, a | b, a ^ b, -a, +a, ~a, not a]
    a += b
    a -= 2
    a *= b
    a //= 3
    a **= 2
    a %= 1000
    a <<= 3
    a >>= 1
    a |= 1
    a &= 0xFFF
    a ^= b
    f = 7.0
    f /= 2
    return out, a, f


def matrix_multiply():
    class M:
        def __matmul__(self, other):
            return "mm"

        def __imatmul__(self, other):
            return "imm"

    m = M()
    first = m @ m
    m @= 1
    return first, m


def comparisons():
    a, b, nan = 1, 2, float("nan")
    pairs = [
        (x < y, x <= y, x == y, x != y, x > y, x >= y)
        for x in (a, b, 1.0, nan, "a")
        for y in (a, b, 2.0, nan, "b")
        if isinstance(x, str) == isinstance(y, str)
    ]
    return pairs, a is b, a is not b, a in (1, 2), a not in [1], a < b < 3 <= 3 != 4, 1 < a < 0


def comparisons_hot():
    total = 0
    for i in range(300):
        if i < 100:
            total += 1
        if i <= 100:
            total += 1
        if i == 7:
            total += 1
        if i != 7:
            total += 1
        if i > 200:
            total += 1
        if i >= 200.0:
            total += 1
        if not i < 5:
            total += 1
    return total


def truth():
    out = []
    for t in (Truth(True), Truth(False)):
        if t:
            out.append(1)
        if not t:
            out.append(2)
        out.append(bool(t and 3))
        out.append(bool(t or 4))
        out.append("y" if t < 1 else "n")
        while t:
            out.append(5)
            break
        out.append([x for x in (1, 2) if t])
        out.append(not t < 3)
    return out


def truth_raises():
    t = Truth(None)
    try:
        if t:
            return 1
    except ZeroDivisionError as error:
        print(error)
    return 2 if t < 0 else 3


def none_tests():
    out = []
    for x in (None, 0, 1):
        if x is None:
            out.append("none")
        if x is not None and x:
            out.append("some")
        while x is not None:
            x = None
        out.append(x if x is None else 5)
    return out


def and_or():
    out = []
    for a in (0, 1, ""):
        for b in (2, None, []):
            out.append((a and b, a or b, a and b or 3, (a or b) and 4, not (a and b)))
    return out


def while_else():
    out = []
    n = 5
    while n > 0:
        n -= 1
        if n == 3:
            continue
        out.append(n)
    else:
        out.append("else")
    while True:
        n += 1
        if n > 3:
            break
    else:
        out.append("never")
    return out, n


def for_else():
    out = []
    for limit in (2, 9):
        for i in range(5):
            if i == limit:
                break
            out.append(i)
        else:
            out.append("whole")
    for i in ():
        pass
    else:
        out.append("empty")
    return out


def loop_kinds():
    def gen():
        yield from "ab"

    out = []
    for _ in range(40):  # long enough to be specialized
        for source in (range(3), [1, 2], (3,), gen(), {"k": 1}, "xy", iter([9])):
            for x in source:
                out.append(x)
    return out


def loop_returns():
    for i in range(3):
        for j in range(3):
            if i * j == 2:
                return i, j


def loop_raises():
    for i in range(3):
        10 // (1 - i)


def break_in_try():
    out = []
    for i in range(5):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            out.append(i)
        finally:
            out.append("f")
    return out


def try_all():
    out = []
    for what in (None, ValueError("v"), KeyError("k"), OSError("o")):
        try:
            if what:
                raise what
        except ValueError as error:
            out.append(("value", str(error)))
        except (KeyError, IndexError) as error:
            out.append(("key", error.args))
        except OSError:
            out.append("os")
        else:
            out.append("else")
        finally:
            out.append("finally")
    return out


def try_nested():
    out = []
    try:
        try:
            try:
                1 / 0
            finally:
                out.append(1)
        except KeyError:
            out.append("no")
        finally:
            out.append(2)
    except ZeroDivisionError as error:
        out.append(str(error))
        try:
            raise ValueError from error
        except ValueError as inner:
            out.append(type(inner.__cause__).__name__)
    return out


def finally_return():
    try:
        1 / 0
    finally:
        return "swallowed"


def finally_overrides():
    for _ in range(2):
        try:
            return 1
        finally:
            continue
    return 2


def reraise():
    try:
        try:
            raise ValueError("first")
        except ValueError:
            print("saw it")
            raise
    finally:
        print("finally")


def raise_from():
    try:
        {}["missing"]
    except KeyError as error:
        raise RuntimeError("wrapped") from error


def raise_in_handler():
    try:
        int("x")
    except ValueError:
        undefined_name


def unhandled_in_call():
    # fmt: off
    def deep(n):
        if n:
            return deep(
                n - 1
            ) + 1
        return [][
            n
        ]
    # fmt: on

    return deep(2)


def exception_groups():
    out = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
    except* ValueError as group:
        out.append(len(group.exceptions))
    except* (TypeError, KeyError) as group:
        out.append(len(group.exceptions))
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), OSError(2)])
        except* ValueError:
            out.append("value")
    except ExceptionGroup as rest:
        out.append(str(rest.exceptions))
    return out


def exception_name_unbound():
    try:
        1 / 0
    except ZeroDivisionError as e:
        pass
    return e


def unbound_local():
    if not unbound_local:
        x = 1
    return x


def unbound_after_del():
    x = 1
    del x
    try:
        x
    except UnboundLocalError as error:
        print(error)
    del x


def unbound_cell():
    def inner():
        return x

    try:
        inner()
    except NameError as error:
        print(error)
    x = 1
    first = inner()
    del x
    return first, inner()


def with_plain():
    with Log("a") as a, Log("b"):
        print(a)
    with Log("c", swallow=True):
        raise ValueError
    for i in range(3):
        with Log(i):
            if i == 1:
                break
    with Log("d"):
        return 7


def with_raises():
    with Log("a"), Log("b"):
        raise KeyError("through")


def with_suppress():
    with contextlib.suppress(ZeroDivisionError):
        1 / 0
    return "after"


def comprehensions():
    n = 3
    return (
        [x * n for x in range(4) if x % 2],
        {x: y for x in "ab" for y in range(n)},
        {x % n for x in range(9)},
        list(x + y for x in range(3) for y in range(x)),
        [[i * j for j in range(3)] for i in range(3)],
        [(a, b) for a, *b in ((1, 2, 3), (4,))],
        [y := 5, y**2],
        [z for x in range(3) if (z := x)],
        [x for x in [n] for _ in [0]],
    )


def comprehension_raises():
    x = "kept"
    try:
        [1 / (x - 2) for x in range(4)]
    except ZeroDivisionError:
        return x


def comprehension_unbound():
    if not comprehensions:
        x = 1
    [x for x in range(3)]
    return x


def comprehension_shadows():
    x = "outer"
    first = [x for x in range(3)]

    def inner():
        return x, [x for x in "ab"]

    return first, x, inner(), [lambda: x for x in range(2)][0](), [f() for f in [lambda: x for x in range(3)]], x


def comprehension_of_free():
    x = 10

    def inner(y):
        def innermost():
            return x + y, [x + y for x in range(3)], [(lambda: x)() for x in range(2)], x

        return innermost()

    return inner(1)


def closures():
    def counter(start):
        count = start

        def step(by=1):
            nonlocal count
            count += by
            return count

        def reset():
            nonlocal count, start
            start += 1
            count = start

        return step, reset

    step, reset = counter(5)
    out = [step(), step(3)]
    reset()
    return out, step()


def argument_cells(a=1, *rest, b=2, **more):
    def inner():
        nonlocal a
        a += 1
        return a, rest, b, sorted(more.items())

    return inner(), a


def defaults_and_annotations():
    def f(a, b=2, /, c: int = 3, *args: str, d, e: "float" = 5, **kw: dict) -> list:
        """Says something."""
        return a, b, c, args, d, e, kw

    return f(1, d=4), f(1, 2, 3, 4, 5, d=6, z=7), f.__defaults__, f.__kwdefaults__, f.__annotations__, f.__doc__


def no_docstring():
    def f():
        return "not a docstring"

    g = lambda: "nor this"
    return f.__doc__, g.__doc__, f(), g()


def calls():
    def f(*args, **kw):
        return args, kw

    t, d = (1, 2), {"a": 3}
    return (
        f(),
        f(1, *t, 2, *[3], k=4, **d),
        f(*t),
        f(**d, **{"b": 5}),
        f(1, 2, x=3),
        max(*t, key=lambda v: -v),
        "a-b".split("-", maxsplit=1),
        "{} {k}".format(1, k=2),
        print(1, 2, sep=":", end="\n"),
        dict(**d),
        [*t, *"xy"],
        {*t, *t},
        {**d, "z": 1, **{}},
        (*t, 9),
    )


absent = None


def call_errors():
    out = []
    for broken in (
        lambda: calls(1),
        lambda: (lambda a: a)(),
        lambda: (lambda **k: k)(**{"a": 1}, **{"a": 2}),
        lambda: (lambda *a: a)(*3),
        lambda: absent(),
        lambda: (1).missing(),
        lambda: [1, 2][5],
        lambda: {1: 2}[3],
    ):
        try:
            broken()
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return out


def unpacking():
    a, (b, *c), d = 1, (2, 3, 4), 5
    *e, f = "xyz"
    g, h = h, g = [6, 7]
    (i), [j] = 8, [9]
    a, b = b, a
    a, b, d = d, a, b
    first = (a, b, c, d, e, f, g, h, i, j)
    try:
        a, b = (1, 2, 3)
    except ValueError as error:
        return first, str(error)


def subscripts():
    a = list(range(10))
    out = [a[1:4], a[::2], a[-1], a[:], a[3:], a[:3], a[1:8:3]]
    a[2:4] = "xyz"
    a[0] = a[-1]
    a[1] += 5
    a[3:5] += [1]
    del a[0], a[1:3]
    d = {}
    d["k"] = d.setdefault("j", 1)
    d["k"] *= 4
    del d["j"]
    return out, a, d


def attributes():
    class Box:
        kind = "box"

        def method(self, x):
            return self.kind, x

    box = Box()
    box.a = 1
    box.a += 2
    box.b = box.c = box.method
    out = box.a, box.b(1), box.c(2), box.method(3), Box.method(box, 4)
    del box.a
    return out, sorted(vars(box)), hasattr(box, "a")


def strings():
    a, b, w = 3.14159, "é", 8
    return (
        f"{a}",
        f"{a:.2f}|{b!r}|{b!a}|{b!s:>5}|{a:{w}.{2}f}|{b!r:*^{w}}|{a=}|{a = !s:>10}",
        f"{'nested ' + f'{w}'}",
        "%s and %d" % (b, w),
        f"{{}}{b}{{",
        b"bytes",
        1j,
        ...,
    )


class Spoken:
    def __repr__(self):
        return "repr"

    def __str__(self):
        return "str"

    def __format__(self, spec):
        return f"format({spec})"


def formatting():
    s = Spoken()
    return f"{s} {s!s} {s!r} {s:x} {s!s:>5} {s!r:{3}}{s!a}"


def generators():
    def gen(n):
        got = []
        try:
            for i in range(n):
                got.append((yield i))
        except GeneratorExit:
            print("closed")
            raise
        except ValueError as error:
            yield str(error)
        finally:
            print("finally", got)
        return got

    out = [list(gen(3))]
    g = gen(3)
    out += [next(g), g.send("a"), g.throw(ValueError("thrown"))]
    out.append(next(g, "end"))
    g = gen(2)
    next(g)
    g.close()
    g = gen(2)
    g.close()
    return out


def generator_delegates():
    def inner():
        try:
            got = yield 1
            print("got", got)
            yield 2
        except KeyError:
            print("inner caught")
            yield 3
        return "result"

    def outer():
        value = yield from inner()
        yield value
        value = yield from [7, 8]
        yield value

    out = [list(outer())]
    g = outer()
    out += [next(g), g.send("x"), g.throw(KeyError), next(g), next(g)]
    g.close()
    g = outer()
    next(g)
    out.append(g.gi_yieldfrom is not None)
    try:
        g.throw(ValueError("through"))
    except ValueError as error:
        out.append(str(error))
    return out


def generator_stop_iteration():
    def gen():
        yield 1
        raise StopIteration

    try:
        list(gen())
    except RuntimeError as error:
        return str(error), type(error.__cause__).__name__


def generator_unstarted():
    def gen():
        try:
            yield 1
        except StopIteration:
            yield "not here"

    try:
        gen().throw(StopIteration(3))
    except BaseException as error:
        return repr(error)


def generator_in_with():
    @contextlib.contextmanager
    def manager(name):
        print("before", name)
        try:
            yield name
        except KeyError:
            print("swallowed")
        finally:
            print("after", name)

    with manager("a") as a, manager("b"):
        print(a)
        raise KeyError
    return "done"


def generator_expression_lazy():
    n = 2
    g = (x * n for x in range(3))
    n = 5
    return list(g), sum(x for x in (1, 2)), any(x > 1 for x in (1, 2)), g.gi_frame


def coroutines():
    async def sleepy(x):
        await asyncio.sleep(0)
        return x

    async def agen(n):
        for i in range(n):
            got = yield await sleepy(i)
            print("got", got)

    async def main():
        out = [await sleepy(1), await asyncio.gather(sleepy(2), sleepy(3))]
        async for x in agen(3):
            out.append(x)
        else:
            out.append("else")
        out.append([x async for x in agen(2) if await sleepy(x)])
        out.append({x: await sleepy(x) for x in (1, 2)})
        async with Log("x") as name, Log("y", swallow=True):
            out.append(name)
            raise ValueError
        async with Log("z"):
            for _ in range(2):
                async with Log("w"):
                    break
        g = agen(2)
        out.append(await g.__anext__())
        out.append(await g.asend("sent"))
        await g.aclose()
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        except asyncio.TimeoutError:
            out.append("timeout")
        return out

    return asyncio.run(main())


def coroutine_raises():
    async def fails():
        await asyncio.sleep(0)
        raise LookupError("async")

    async def main():
        async with Log("a"):
            await fails()

    return asyncio.run(main())


def classes():
    class Base:
        """Doc."""

        x: int = 1
        names = ["a", "b"]
        squares = [n * n for n in range(3)]

        def __init__(self, v=0):
            self.v = v

        def who(self):
            return "base", self.v

        @classmethod
        def make(cls):
            return cls(5)

        @staticmethod
        def plain(x):
            return x + 1

        @property
        def double(self):
            return self.v * 2

    class Child(Base):
        for i in range(2):
            pass
        del i

        def __init__(self):
            super().__init__(3)
            super(Child, self).__init__(self.v + 1)

        def who(self):
            return super().who(), super().v if hasattr(super(), "v") else None, __class__.__name__

        @classmethod
        def make(cls):
            return super().make.__func__(Base)

    c = Child()
    about = Base.squares, Base.__doc__, Base.__annotations__
    return c.who(), Base.make().v, Child.make().v, c.plain(1), c.double, about


def class_scopes():
    x = "function"

    def method_like():
        class A:
            y = x
            x = "class"
            z = x

            def m(self):
                return x

        return A.y, A.z, A().m()

    x = "later"
    try:
        return method_like()
    except NameError as error:
        return str(error)


def class_free():
    x = "outer"

    class A:
        if x == "outer":
            z = x
        w = [x for _ in range(2)]

        def f(self):
            return x, __class__

    return A.z, A.w, A().f()[1] is A


def metaclass_and_kwargs():
    class Meta(type):
        def __new__(cls, name, bases, space, **kw):
            made = super().__new__(cls, name, bases, space)
            made.kw = kw
            return made

        def __init__(cls, *a, **k):
            super().__init__(*a)

    class A(*(object,), metaclass=Meta, flag=1):
        pass

    return A.kw, type(A).__name__


def dataclass_use():
    @dataclass(order=True)
    class Point:
        x: int
        y: int = 2
        tags: list = field(default_factory=list, compare=False)

    return repr(Point(1)), Point(1) < Point(2), Point(1, 2) == Point(1)


def matching():
    @dataclass
    class P:
        x: int
        y: int

    def f(v):
        match v:
            case 0 | 1:
                return "small"
            case int(n) if n > 100:
                return "big", n
            case str() as s:
                return "str", s
            case []:
                return "empty"
            case [1, *rest]:
                return "one", rest
            case [a, b]:
                return "two", a, b
            case {"k": value, **more}:
                return "map", value, more
            case {}:
                return "a map"
            case P(0, y=yy):
                return "P0", yy
            case P(x, y):
                return "P", x, y
            case None:
                return "none"
            case _:
                return "other"

    values = (0, 1, 500, 5, "s", [], [1, 2, 3], (7, 8), {"k": 1, "j": 2}, {"q": 1}, P(0, 1), P(2, 3), None, 1.5)
    return [f(v) for v in values], f([7, 8, 9])


def walrus():
    out = []
    data = iter([3, 2, 1, 0])
    while (n := next(data)) > 0:
        out.append(n)
    if (m := len(out)) > 2 and (k := m + 1):
        out.append(k)
    return out, n, m, [last := i for i in range(3)], last


def assertions():
    assert True
    try:
        assert 1 == 2, "message " + "here"
    except AssertionError as error:
        print(error)
    assert not [1]


def imports():
    import os.path as p
    from collections import OrderedDict as O
    from collections import deque

    import json.decoder

    try:
        from json import nothing_of_the_kind
    except ImportError as error:
        print(type(error).__name__)
    return p.basename("/a/b"), O(a=1), deque([1]), json.decoder.__name__


def global_names():
    global made_here
    made_here = 1
    made_here += 1
    out = made_here
    del made_here
    try:
        made_here
    except NameError as error:
        return out, str(error)


def lambdas():
    return (lambda x, y=2, *a, k=3, **kw: (x, y, a, k, kw))(1, z=4), (lambda: (yield 1))().send(None)


def conditional_expressions():
    return [("a" if x else "b" if x is None else "c") for x in (1, None, 0)], (lambda: 1 if comparisons else 2)()


def containers():
    x = 5
    small = {x, 2}, [], {}, (), (x,), [1, 2, 3, 4], {1, 2, 3}
    return {1: x, "b": [x], (1, 2): {x}}, {"a": x, "b": x + 1, "c": x + 2}, small


def many_constants():
    return [0, 0.0, -0.0, False, 1, 1.0, True, "1", b"1", (1,), (1.0,), (True,), 10**30, 1j, frozenset({1}) == {1}]


def deep_nesting():
    for a in range(2):
        with Log(a):
            for b in range(2):
                try:
                    for c in range(2):
                        with Log("in", swallow=True):
                            if c:
                                raise ValueError
                            if b:
                                continue
                            print(a, b, c)
                finally:
                    print("f")
    return a, b, c


def mutual_recursion():
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    return even(10), odd(7)


def locals_seen():
    a = 1

    def inner(z):
        b = a
        return sorted(locals())

    return sorted(locals()), inner(1)


def decorated():
    def twice(f):
        def g(*a):
            return f(f(*a))

        return g

    @twice
    @twice
    def inc(x):
        return x + 1

    return inc(0)


def starred_index():
    class T:
        def __getitem__(self, key):
            return key

    t = (1, 2)
    return T()[1, *t], T()[1:2, ::3], T()[...]


def augmented_in_order():
    log = []

    def say(x):
        log.append(x)
        return x

    d = {1: 10}
    d[say(1)] += say(5)
    (say(3), say(4))
    x = say(6) if say(7) else say(8)
    return d, log, x


CASES = [value for value in list(vars().values()) if getattr(value, "__code__", None) and value.__module__ == __name__]
