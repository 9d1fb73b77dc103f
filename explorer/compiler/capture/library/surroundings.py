"""What reads or changes the world outside of the function: output, context variables, exec, tracebacks, and Python's
random generators, whose numbers are drawn before the graph, in the program's order, and given to it.
"""

from __future__ import annotations

import builtins
import contextvars
import functools
import importlib
import random
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import UNSET, IsObject, is_unset
from explorer.compiler.capture.resume import as_it_was, traceback_of
from explorer.compiler.capture.rules import breaks, each, existing, positional
from explorer.compiler.capture.values.arrays import wrap_array
from explorer.compiler.capture.values.base import Reconstructor, Tracer, Value
from explorer.compiler.capture.values.classes import namespace
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.objects import ExceptionValue, ObjectValue, TracebackValue
from explorer.compiler.capture.values.tensor import graph_call
from explorer.core.libraries import EFFECTS
from explorer.core.reasons import unsupported
from explorer.ir.capture import Returned, Source

NONE = Constant(None)


breaks(reasons.PRINT, "", print)  # output shows real values, in order
for name in EFFECTS:
    breaks(reasons.UNTRACEABLE_CALL, f"{name}, a builtin with side effects", getattr(builtins, name))
breaks(reasons.UNTRACEABLE_CALL, "what runs a module again", importlib.reload)


@positional(contextvars.ContextVar.get)
def _context_get(t: Tracer, variable: Value, *default: Value) -> Value:
    """A context variable's value, guarded."""
    given = variable.live(t)
    source = variable.source or t.objects.known(given)
    found = given.get(UNSET)
    if found is not UNSET:
        return t.wrap(Returned(source, "get"), found)
    t.guards.on(source, is_unset(), "the context variable has no value")
    if not default:
        t.raise_value(LookupError, [variable])
    return default[0]


@positional(sys.exc_info)
def _exc_info(t: Tracer) -> Value:
    """The exception being handled."""
    error = t.stack.handled()
    if error is None:
        return t.from_python((NONE, NONE, NONE))
    if t.stack.frames[-1].code.filename == traceback.__file__ and isinstance(error, ExceptionValue):
        error.tell_traceback_is_read(t)
    return t.from_python((t.from_python(error.python_type()), error, TracebackValue(error)))


@positional(*existing(sys, "exception"))
def _exception(t: Tracer) -> Value:
    """The exception being handled."""
    return t.stack.handled() or NONE


@positional(builtins.globals)
def _globals(t: Tracer) -> Value:
    """Of the function that asks."""
    return namespace(t, t.stack.frames[-1].globals)


@positional(builtins.locals)
def _locals(t: Tracer) -> Value:
    """Of the function that asks."""
    return t.from_python(t.stack.frames[-1].bound_locals(t))


@positional(traceback_of, as_it_was)
def _traceback(t: Tracer, *args: Value) -> Value:
    """Only real frames have tracebacks."""
    return NONE


_DRAWS = (
    "random uniform triangular randint randrange getrandbits gauss normalvariate lognormvariate expovariate "
    "vonmisesvariate gammavariate betavariate paretovariate weibullvariate seed"
).split()


class SeededGenerator(ObjectValue):
    """A random.Random that the program makes with a seed: what it yields is the same in each call."""

    def __init__(self, seed: Any) -> None:
        super().__init__(random.Random)
        self.generator = random.Random(seed)

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(random.Random, [])
        name = r.store_new(self)
        r.discard_method(lambda: r.emit("LOAD_FAST", name), "setstate", [Constant(self.generator.getstate())])
        r.emit("LOAD_FAST", name)


@dataclass(frozen=True, eq=False)
class Draw:
    """A call of a generator that was there before; compiled bytecode makes it when the frame begins."""

    generator: random.Random
    method: str
    args: tuple[Any, ...]

    def make(self) -> torch.Tensor | None:
        """The number as the graph takes it."""
        found = getattr(self.generator, self.method)(*self.args)
        dtype = None if type(found) is int else torch.float64
        return None if found is None else torch.tensor(found, dtype=dtype, device="cpu")

    @property
    def moves(self) -> object:
        """The generator that it moves."""
        return self.generator

    def keep(self) -> Callable[[], object]:
        """What puts the generator back where it is now."""
        return functools.partial(self.generator.setstate, self.generator.getstate())

    def tried(self) -> torch.Tensor | None:
        """The same of a copy: tracing draws nothing."""
        copied = random.Random()
        copied.setstate(self.generator.getstate())
        return Draw(copied, self.method, self.args).make()


@positional(random.Random)
def _generator(t: Tracer, seed: Value | None = None) -> Value:
    """A generator of its own."""
    if seed is None or seed.is_none():
        unsupported(reasons.UNTRACEABLE_CALL, "random.Random without a seed")
    return t.python(SeededGenerator, seed.known(t))  # type: ignore[no-any-return]


@each(*(vars(cls)[name] for name in _DRAWS for cls in random.Random.__mro__ if name in vars(cls)))
def _draw(function: Callable[..., object], t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A number of the generator."""
    name = function.__name__
    generator = args[0]
    plain = tuple(arg.known(t) for arg in args[1:])
    named = {key: value.known(t) for key, value in kwargs.items()}
    if isinstance(generator, SeededGenerator):
        t.effects.touch()
        return t.from_python(t.python(getattr(generator.generator, name), *plain, **named))
    given = generator.live(t)
    if type(given) is not random.Random or named or generator.source is None:
        unsupported(reasons.UNTRACEABLE_CALL, f"{generator.python_type().__name__}.{name}")
    t.guards.on(generator.source, IsObject(given), "numbers are drawn from this generator")
    return _drawn(t, Draw(given, name, plain))


def _drawn(t: Tracer, draw: Draw) -> Value:
    is_large = draw.method == "getrandbits" and draw.args > (63,) or any(abs(a) > 2**62 for a in draw.args if a)
    if t.tape.branches or is_large:
        unsupported(reasons.UNTRACEABLE_CALL, f"Random.{draw.method} of numbers of more than 64 bits, or in a branch")
    found = t.python(draw.tried)
    source = _before_graph(t, draw)
    if found is None:
        return Constant(None)
    with t.tape.numbers_read():
        return graph_call(t, "call_method", "item", [t.wrap_tensor(source, found)], {})


def _before_graph(t: Tracer, draw: Draw | ArrayDraw) -> Source:
    """The source of the numbers that `draw` makes, one at each call, in the program's order."""
    t.effects.touch()
    t.torch_state.leave_unreported()
    source = Returned(t.objects.known(draw, fixed=True), "make")
    t.in_graph.draws.append(source)
    return source


@dataclass(frozen=True, eq=False)
class ArrayDraw:
    """A call of NumPy's global generator; compiled bytecode makes it when the frame begins."""

    function: Any
    args: tuple[Any, ...]
    named: dict[str, Any]

    def make(self) -> Any:
        return self.function(*self.args, **self.named)

    def tried(self) -> Any:
        """The same, and the generator put back: tracing draws nothing."""
        put_back = self.keep()
        try:
            return self.make()
        finally:
            put_back()

    @property
    def moves(self) -> object:
        return np.random

    def keep(self) -> Callable[[], object]:
        """What puts the generator back where it is now."""
        return functools.partial(np.random.set_state, np.random.get_state())


_ARRAY_DRAWS = (
    "seed rand randn random random_sample uniform normal standard_normal randint exponential beta gamma poisson"
)


_DRAWN = (getattr(np.random, name) for name in _ARRAY_DRAWS.split())


@each(*(getattr(bound, "__func__", bound) for bound in _DRAWN))  # some versions of NumPy have it without its generator
def _draw_array(function: Callable[..., object], t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """An array of NumPy's global generator, or its seed; a single number breaks."""
    bound = getattr(np.random, function.__name__)
    if function is not bound and args.pop(0).live(t) is not bound.__self__:
        unsupported(reasons.NUMPY, "a generator of the program")
    named = {key: value.known(t) for key, value in kwargs.items()}
    made = ArrayDraw(bound, tuple(each.known(t) for each in args), named)
    found = t.python(made.tried)
    if t.tape.branches or not isinstance(found, (np.ndarray, type(None))):
        unsupported(reasons.NUMPY, f"numpy.random.{function.__name__} of a single number, or in a branch")
    source = _before_graph(t, made)
    return Constant(None) if found is None else wrap_array(t, source, found)
