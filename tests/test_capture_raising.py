"""A graph that raises when it runs: the exception comes from the program's own line, and the program can handle it."""

import collections
import contextlib
import datetime
import decimal
import functools
import itertools
import math
import operator
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import explorer
from raising import RAISING_BACKENDS, outcome, refused, written
from torch_release import BEFORE_2_13

FAR = torch.tensor([9])


def caught(x, i, log):
    log.append("before")
    try:
        y = x[i] + 1
    except IndexError as error:
        log.append(str(error))
        y = x
    log.append("after")
    return y * 2


def finally_left(x, i, log):
    try:
        return x[i].sin()
    finally:
        log.append("left")


def suppressed(x, i, log):
    with contextlib.suppress(IndexError):
        x = x * x[i]
    return x + 1


def uncaught(x, i, log):
    log.append("before")
    y = x * 2
    return y[i] + 1


def in_modes(x, i, log):
    with torch.no_grad(), torch.autocast("cpu"):
        return x[i] * 2


def through_names(*args, **kwargs):
    x, i, log = args
    later = lambda: x[i] + len(kwargs)  # noqa: E731
    log.append("named")
    return later()


def after_a_break(x, i, log):
    print(end="")
    x = x + 1
    try:
        raise ValueError("handled")
    except ValueError as error:
        print(end="")
        log.append(str(error))
        return x[i]


def into_rows(x, i, log):
    try:
        x.expand(2, 4).mul_(2)
    except RuntimeError as error:
        log.append(str(error))
    return x + i


def into_folded(x, i, log):
    try:
        torch.sin(torch.ones(2, 4), out=x.expand(2, 4))
    except RuntimeError as error:
        log.append(str(error))
    window = x.as_strided((2, 2), (1, 1))
    window.add_(torch.arange(4.0).view(2, 2))
    return window * 2 + i


PROGRAMS = (
    caught, finally_left, suppressed, uncaught, in_modes, through_names, after_a_break, written, into_rows,
    into_folded,
)  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "explorer"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_eager(program, backend):
    compiled = explorer.compile(program, backend=backend)
    for i in (torch.tensor([1]), FAR, torch.tensor([2])):
        assert outcome(compiled, i) == outcome(program, i)


@pytest.mark.parametrize("inside", [False, True], ids=["tensors", "inference tensors"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_eager_in_inference_mode(program, inside):
    compiled = explorer.compile(program)
    for i in (torch.tensor([1]), FAR, torch.tensor([2])):
        found = []
        for function in (program, compiled):
            x = torch.arange(4.0)
            with torch.inference_mode():
                found.append(outcome(function, i, x.clone() if inside else x))
        assert found[0] == found[1]


def test_failed_kernel_is_followed_by_eager():
    """What the generated code raises by a mistake of the compiler reaches nobody; it is in the record."""

    def broken(module, inputs):
        def call(*args):
            raise NameError("name 'pool_buf0' is not defined")

        return call

    def program(x):
        return x.sin() + 1

    x = torch.ones(3)
    torch.testing.assert_close(explorer.compile(program, backend=broken)(x), program(x))


REFUSED = {
    "item": lambda x, i: x[i],
    "shape": lambda x, i: x[i].shape,
    "gather": lambda x, i: torch.gather(x, 0, i) + 1,
    "index_select": lambda x, i: x.index_select(0, i),
    "take": lambda x, i: torch.take(x, i).requires_grad,
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x.view(3, 1)),
    "scatter": lambda x, i: x.scatter(0, i, 1.0),
    "index_add": lambda x, i: x.index_add(0, i, torch.ones(1)),
    "item of a copy": lambda x, i: x.clone().__setitem__(i, 3),
    "one_hot": lambda x, i: torch.nn.functional.one_hot(i, 3),
    "written only": lambda x, i: x[i].add_(1),
    "a view of it written": lambda x, i: x[i][:1].mul_(2).neg_(),
}


@pytest.mark.parametrize("backend", RAISING_BACKENDS)
@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_eager_refuses_is_refused_though_unused(name, backend):
    def program(x, i):
        REFUSED[name](x, i)
        return x + 1

    def outcome(function, place):
        x = torch.arange(3.0, requires_grad=True)
        try:
            return function(x, torch.tensor([place])).tolist()
        except (IndexError, RuntimeError) as error:
            return type(error), str(error).split("\n")[0]

    compiled = explorer.compile(program, backend=backend)
    for place in (1, 5, -4):
        assert outcome(compiled, place) == outcome(program, place)


DIVIDED = {
    "fmod": torch.fmod,
    "remainder": lambda a, b: a % b,
    "floor_divide": lambda a, b: a // b,
    "div": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "in place": lambda a, b: a.clone().remainder_(b),
    "of a number": lambda a, b: 7 // b,
    "reversed": lambda a, b: b.__rfloordiv__(7),
    "the rest, reversed": lambda a, b: b.__rmod__(7),
    "other": lambda a, b: torch.floor_divide(a, other=b),
    "by a number": lambda a, b: a // 2,
    "of floats": lambda a, b: a.float() % b,
    "a quotient": lambda a, b: a / b,
}


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
@pytest.mark.parametrize("name", DIVIDED)
def test_a_division_by_zero_is_refused_though_unused(name, backend):
    def program(a, b):
        DIVIDED[name](a, b)
        return a + 1

    def outcome(function, divisor):
        try:
            return function(torch.arange(3), torch.tensor([1, divisor, 2])).tolist()
        except RuntimeError as error:
            return type(error), str(error).split("\n")[0]

    compiled = explorer.compile(program, backend=backend)
    for divisor in (1, 0):
        assert outcome(compiled, divisor) == outcome(program, divisor)


def test_a_graph_that_another_backend_does_not_compile_runs_eagerly():
    def program(i):
        torch.nn.functional.one_hot(i)
        return i + 1

    place = torch.tensor([0, 2])
    assert torch.equal(explorer.compile(program, backend="aot_eager")(place), program(place))


NAMED = {
    "types.SimpleNamespace": lambda x: types.SimpleNamespace(a=1).go,
    "OrderedDict": lambda x: collections.OrderedDict().go,
    "deque": lambda x: collections.deque().go,
    "torch.Size": lambda x: x.shape[7],
    "named tuple": lambda x: collections.namedtuple("Pair", "a b")(1, 2)[7],
    "SimpleNamespace iterated": lambda x: list(types.SimpleNamespace(a=1)),
    "date": lambda x: datetime.date(2020, 1, 1).go,
}


@pytest.mark.parametrize("name", NAMED)
def test_errors_call_types_as_python_does(name):
    def program(x):
        try:
            NAMED[name](x)
        except (AttributeError, TypeError, IndexError) as error:
            return type(error), str(error)

    assert explorer.compile(program)(torch.ones(2)) == program(torch.ones(2))


def test_an_iterator_over_a_dictionary_that_has_grown():
    def program(x):
        for name, value in {**KNOWN, "w": x[x.bool()]}.items():
            print(name)
            return value

    assert explorer.compile(program)(torch.ones(2)) == 1


KNOWN = {"q": 1}


class Callers:
    def __init__(self, own=False):
        if own:
            self.call = lambda x: x * 3

    def call(self, x):
        return x * 2


CALLS_WITHIN_CALLS = {
    "of a tensor": lambda x, t: (t + 1).expand_as(t.tril()),
    "of a class, then of an instance": lambda x, t: Callers(t.dim() > 1).call(refused(t)),
    "of an instance, then of a class": lambda x, t: Callers(t.dim() == 1).call(refused(t)),
    "of a module": lambda x, t: torch.add(torch.mul(t, 2), t.tril()),
    "of several": lambda x, t: t.sin().add((t * 2).cos().add(refused(t))),
}


@pytest.mark.parametrize("backend", ["explorer", "eager"])
@pytest.mark.parametrize("first", ["refused", "computed"])
@pytest.mark.parametrize("name", CALLS_WITHIN_CALLS)
def test_an_argument_of_a_method_call_is_refused_in_a_loop(name, first, backend):
    """The stack below the break is the same in each turn, though Python loads methods in two ways."""
    called = CALLS_WITHIN_CALLS[name]

    def program(x):
        parts = [torch.ones(3), torch.ones(2, 3), torch.ones(3), torch.ones(2, 2)]
        made = []
        for t in parts if first == "refused" else parts[1:]:
            try:
                made.append(called(x, t))
            except RuntimeError as error:
                made.append(str(error))
        return made

    compiled = explorer.compile(program, backend=backend)
    for _ in range(2):
        assert str(compiled(torch.ones(2))) == str(program(torch.ones(2)))


def except_binds(tensors):
    for each in tensors:
        try:
            each.add_(1)
        except RuntimeError:
            failed = each * 2
        else:
            done = each * 3
    return bound(lambda: failed), bound(lambda: done)


def locals_of_some_turns(tensors):
    turn, found = 0, []
    while turn < len(tensors):
        turn += 1
        with contextlib.suppress(RuntimeError):
            tensors[turn - 1].add_(turn)
            last = turn
        try:
            found.append(first)  # noqa: F821
        except UnboundLocalError:
            first = last if turn > 2 else turn  # noqa: F841
    return found, turn


def finally_goes_on(tensors):
    for number, each in enumerate(tensors):
        try:
            each.mul_(2)
            whole = each + number
        finally:
            before = each.sum()
            if each.requires_grad:
                after = before * 2
                continue  # noqa: B012
        before = before + whole
    return before, bound(lambda: after)


def within_handlers(tensors):
    kept = {}
    for outer in range(2):
        try:
            for each in tensors:
                try:
                    kept[outer] = each.add_(outer)
                except RuntimeError as error:
                    message, each = str(error), each * 3
                    kept[message] = each.sub_(1)
                total = each.sum() + outer
        except RuntimeError:
            return kept, bound(lambda: total)  # noqa: B023
    return kept, total


def bound(read):
    try:
        return read()
    except NameError:
        return "not bound"


@pytest.mark.parametrize("leaves", range(8))
@pytest.mark.parametrize("program", (except_binds, locals_of_some_turns, finally_goes_on, within_handlers))
def test_a_loop_comes_back_to_the_break_after_its_exception_was_handled(program, leaves):
    """A write into a leaf breaks the graph, and raises in the turns that `leaves` has a bit for."""

    def outcome(function):
        given = [torch.ones(2, requires_grad=bool(leaves >> turn & 1)) for turn in range(3)]
        try:
            found = function(given)
        except (RuntimeError, NameError) as error:
            found = str(error)
        return str((found, given))

    assert outcome(explorer.compile(program, backend="eager")) == outcome(program)


class Coded(SystemExit):
    pass


class Noted(ValueError):
    extra = 5

    def __str__(self):
        return "own " + super().__str__()


class Gone:
    def __getattr__(self, name):
        if name == "raises":
            raise AttributeError("mine")
        return object.__getattribute__(self, name)

    @property
    def inner(self):
        return self.other


MADE = """
OSError(2, "no")|e.errno, e.strerror, e.filename
OSError(2, "no", "f.txt")|e.errno, e.filename, type(e).__name__
SystemExit()|e.code
Coded(5)|e.code, e.args
StopIteration(4)|e.value
UnicodeDecodeError("utf8", b"abc", 0, 1, "why")|e.start, e.end, e.reason, e.object
SyntaxError("m", ("f", 1, 2, "text"))|e.msg, e.lineno, e.offset, e.text, e.filename
ImportError("m", name="n", path="p")|e.name, e.path, e.msg
AttributeError("m", name="n", obj=3)|e.name, e.obj
NameError("m")|e.name
Noted("z")|repr(e), e.args, e.extra
ExceptionGroup("g", [ValueError(1), KeyError(2)])|e.message, [repr(each) for each in e.exceptions]
BaseExceptionGroup("g", [ValueError(1)])|type(e).__name__, e.exceptions[0].args
ExceptionGroup("g", [ValueError(1), KeyError(2)])|e.split(ValueError), e.subgroup(KeyError)
ExceptionGroup("g", [])|e.message
ExceptionGroup("g", [ExceptionGroup("h", [ValueError(1)])])|e.message, e.exceptions[0].message, repr(e)
ExceptionGroup("g")|e.message
RuntimeError()|e.nope
ValueError("v", k=3)|e.args
""".strip().splitlines()

READ = (
    "None.foo", "x.nope", "undefined", "[].nope", "Gone.nope", "torch.nope", "Gone().nope", "Gone().raises",
    "Gone().inner", "getattr(Gone(), 'gone')", "int('a')", "open('/nope/nope')", "b'\\xff'.decode()", "1 / 0",
)  # fmt: skip

FACTS = "name path errno value code reason msg".split()

PROGRAM = """
def program(x):
    try:
        try:
            {makes}
        except BaseException as e:
            found = ({read},)
    except Exception as e:
        found = type(e), str(e)
    return x + 1, found
"""

FOUND = [("raise {}", *each.split("|")) for each in MADE] + [("{}", each, "facts(e)") for each in READ]


@pytest.mark.parametrize("way, made, read", FOUND)
def test_what_an_error_knows(way, made, read):
    def facts(error):
        return [str(getattr(error, name, "no")) for name in FACTS]

    namespace = {"torch": torch, "Gone": Gone, "Coded": Coded, "Noted": Noted, "facts": facts}
    exec(PROGRAM.format(makes=way.format(made), read=read), namespace)
    x = torch.ones(2)
    assert repr(explorer.compile(namespace["program"], backend="eager")(x)) == repr(namespace["program"](x))


@pytest.mark.parametrize("hint", ["3", "-2", "'a'", "NotImplemented", "True", "1.5"])
def test_length_hints_are_checked(hint):
    namespace = {"torch": torch, "operator": operator}
    exec(f"class Hint:\n    def __length_hint__(self):\n        return {hint}", namespace)

    def program(x):
        try:
            return x + 1, operator.length_hint(namespace["Hint"](), 7)
        except (TypeError, ValueError) as error:
            return x, str(error)

    assert explorer.compile(program, backend="eager")(torch.ones(1))[1] == program(torch.ones(1))[1]


NAN, ZEROS = torch.full((2, 2), math.nan), torch.zeros(2, 2)

REFUSED_FOR_NUMBERS = {
    "bernoulli": (lambda p: torch.bernoulli(p), torch.full((3,), 2.0)),
    "poisson": (lambda p: torch.poisson(p), -torch.ones(3)),
    "normal": (lambda s: torch.normal(torch.zeros(3), s), -torch.ones(3)),
    "histc": (lambda x: torch.histc(x), NAN),
    "histogram": (lambda x: torch.histogram(x, 3), NAN),
    "bincount": (lambda x: torch.bincount(x, minlength=3), torch.tensor([-1])),
    "masked_scatter": (lambda m: torch.zeros(3).masked_scatter(m, torch.ones(1)), torch.ones(3) > 0),
    "max_unpool1d": (lambda i: F.max_unpool1d(torch.ones(1, 1, 2), i, 2), torch.full((1, 1, 2), 100)),
    "max_unpool2d": (lambda i: F.max_unpool2d(torch.ones(1, 1, 2, 2), i, 2), torch.full((1, 1, 2, 2), 100)),
    "multi_margin_loss": (lambda y: F.multi_margin_loss(torch.ones(2, 3), y), torch.tensor([1, 7])),
    "multilabel_margin_loss": (lambda y: F.multilabel_margin_loss(torch.ones(2, 3), y), torch.full((2, 3), 7)),
    "nll_loss of images": (lambda y: F.nll_loss(torch.ones(1, 3, 2, 2), y), torch.full((1, 2, 2), 7)),
    "binary_cross_entropy": (lambda p: F.binary_cross_entropy(p, torch.ones(2)), torch.full((2,), 3.0)),
    "embedding": (lambda i: F.embedding(i, torch.ones(3, 2), max_norm=1.0), torch.tensor([7])),
    "embedding_bag": (lambda i: F.embedding_bag(i, torch.ones(3, 2)), torch.tensor([[7, 7]])),
    "put_": (lambda i: torch.zeros(3).put_(i, torch.ones(1)), torch.tensor([9])),
    "searchsorted": (lambda s: torch.searchsorted(torch.arange(3.0), torch.ones(1), sorter=s), torch.arange(7, 10)),
    "segment_reduce": (lambda n: torch.segment_reduce(torch.ones(3), "sum", lengths=n), torch.tensor([9])),
    "matrix_power": (lambda a: torch.linalg.matrix_power(a, -1), ZEROS),
    "tensorinv": (lambda a: torch.linalg.tensorinv(a, ind=1), ZEROS),
    "tensorsolve": (lambda a: torch.linalg.tensorsolve(a, torch.ones(2)), ZEROS),
    "cholesky_inverse": (lambda a: torch.cholesky_inverse(a), ZEROS),
    "inv_ex": (lambda a: torch.linalg.inv_ex(a, check_errors=True), ZEROS),
    "solve_ex": (lambda a: torch.linalg.solve_ex(a, torch.ones(2), check_errors=True), ZEROS),
    "lu": (lambda a: torch.linalg.lu(a, pivot=False), ZEROS),
    "lu_solve": (lambda p: torch.linalg.lu_solve(torch.eye(2), p, torch.ones(2, 1)), torch.full((2,), 9).int()),
    "pinv": (lambda a: torch.linalg.pinv(a), NAN),
    "pinverse": (lambda a: a.pinverse(), NAN),
    "matrix_rank": (lambda a: torch.linalg.matrix_rank(a), NAN),
    "linalg.cond": (lambda a: torch.linalg.cond(a), NAN),
    "matrix_norm": (lambda a: torch.linalg.matrix_norm(a, 2), NAN),
    "linalg.norm": (lambda a: torch.linalg.norm(a, ord=2), NAN),
    "norm": (lambda a: a.norm("nuc"), NAN),
    "svdvals": (lambda a: torch.linalg.svdvals(a), NAN),
}


@pytest.mark.parametrize(("backend", "step"), [("eager" if BEFORE_2_13 else "aot_eager", 1), ("explorer", 5)])
def test_what_is_refused_for_numbers_is_refused_though_nobody_reads_it(backend, step):
    refused = 0
    for name, (call, given) in list(REFUSED_FOR_NUMBERS.items())[::step]:

        def function(x, log, call=call):
            call(x)
            log.append("on")
            return torch.ones(2)

        found = []
        for each in (function, explorer.compile(function, backend=backend)):
            log = []
            try:
                found.append((each(given.clone(), log).tolist(), log))
            except (IndexError, RuntimeError) as error:
                found.append((type(error), log))
        assert found[0] == found[1], name
        refused += found[0][1] == []
    assert refused > 0.8 * len(REFUSED_FOR_NUMBERS) / step


OF_C: dict[str, Callable[[], Any]] = {
    "deque": collections.deque,
    "OrderedDict": collections.OrderedDict,
    "defaultdict": lambda: collections.defaultdict(int),
    "repeat": lambda: itertools.repeat(1, 2),
    "date": lambda: datetime.date(2020, 1, 1),
    "Decimal": lambda: decimal.Decimal(1),
    "partial": lambda: functools.partial(int),
    "float64": lambda: np.ones(2).sum(),
    "array": lambda: np.ones(2),
    "Size": lambda: torch.Size([1]),
    "dtype": lambda: torch.float32,
    "list": list,
    "Counter": collections.Counter,
}

MESSAGES: dict[str, Callable[[Any], Any]] = {
    "from_numpy": torch.from_numpy,
    "an index": lambda value: [1, 2][value],
    "divmod": lambda value: divmod(torch.ones(1), value),
    "call": lambda value: max(*value),
    "attribute": lambda value: getattr(torch, value),
    "sum": lambda value: 1 + value,
    "reference": weakref.ref,
    "more than one, and a default": lambda value: max(value, value, default=value),
    "no number": lambda value: round(value),
    "a format": lambda value: format(value, "d"),
    "a list": lambda value: [*value],
    "a dict": lambda value: {**value},
    "a keyword twice": lambda value: dict(a=value, **{"a": value}),
    "a repetition": lambda value: "a" * value,
    "a comparison": lambda value: "a" < value,
    "a key": lambda value: {}.get({1: value}[1]) or hash(value),
    "iter": lambda value: next(value),
    "in": lambda value: "a" in value,
    "call it": lambda value: value(1, 2, 3),
    "subscript": lambda value: value[1],
    "unpack": lambda value: (lambda a, b: a)(*value),
    "keywords": lambda value: dict(**value),
    "isinstance": lambda value: isinstance(1, value),
    "int": lambda value: int(value),
    "float": lambda value: float(value),
    "with": lambda value: value.__enter__(),
    "range": lambda value: range(value),
    "chr": lambda value: chr(value),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_classes_written_in_c_are_named_as_in_eager(message: str) -> None:
    program = MESSAGES[message]
    for name, make in OF_C.items():
        if name == "float64" and message in ("call", "unpack", "a list"):
            continue  # a number of NumPy's is traced as an array without dimensions, whose error is another

        def raised(x: torch.Tensor, make: Callable[[], Any] = make) -> Any:
            value = make()
            try:
                program(value)
            except Exception as error:
                return x + 1, type(error), str(error)
            return x + 1, None, ""

        expected, found = raised(torch.ones(1)), explorer.compile(raised, backend="eager")(torch.ones(1))
        assert found[1:] == expected[1:], name


def linked(name):
    def function(x):
        try:
            try:
                raise ValueError("first")
            except ValueError as first:
                raise TypeError("second") from first
        except TypeError as second:
            error = second
        return getattr(error, name).__traceback__ is None, error.__traceback__ is None, x + 1

    return function


@pytest.mark.parametrize("name", ["__cause__", "__context__"])
def test_an_error_before_the_last_has_its_traceback(name):
    function = linked(name)
    assert str(explorer.compile(function)(torch.ones(2))) == str(function(torch.ones(2)))


def stopped():
    yield 1
    raise StopIteration("inside")


def echoed():
    while True:
        yield 1


@pytest.mark.parametrize("throws", [False, True])
def test_a_stop_iteration_that_leaves_a_generator_is_a_runtime_error(throws):
    def function(x):
        made = echoed() if throws else stopped()
        next(made)
        try:
            made.throw(StopIteration("inside")) if throws else next(made)
        except RuntimeError as error:
            links = repr(error.__cause__), repr(error.__context__), error.__suppress_context__
            return x + 1, type(error), str(error), links

    assert str(explorer.compile(function, fullgraph=True)(torch.ones(2))) == str(function(torch.ones(2)))


def test_a_local_of_closures_that_is_bound_in_a_later_call():
    """No guard asks whether anything is bound to it: the frame that reads it runs eagerly."""

    def function(x, n):
        for row in itertools.islice(x, n):  # noqa: B007
            pass
        mean = float(x.mean())
        try:
            return (lambda: row * mean), row + 1
        except NameError as error:
            return str(error)

    def late(x, n):
        def inner(y):
            return y * factor if n else y

        try:
            first = explorer.compile(inner)(x) if wrapped else inner(x)
        except NameError:
            first = None
        factor = 2
        return first, (explorer.compile(inner)(x) if wrapped else inner(x))

    for program in (function, late):
        found = []
        for wrapped in (False, True):
            run = explorer.compile(program) if wrapped and program is function else program
            seen = [run(torch.ones(3), n) for n in (0, 1, 0, 2)]
            found.append(str([each if isinstance(each, str) else each[1] for each in seen]))
        assert found[0] == found[1]
