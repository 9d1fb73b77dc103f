"""Warnings and log lines of the traced program: made for real, after the graph and in order with the frame's other
effects, as if at their own place. What they say must be known while tracing; where it is not, the graph breaks before
the call. And the program's assertions on what only the graph knows.
"""

from __future__ import annotations

import functools
import itertools
import logging
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, TypeVar

from explorer.compiler.capture import hook, reasons
from explorer.compiler.capture.guards import Equals
from explorer.compiler.capture.resume import OURS, log, warn, warn_caller
from explorer.compiler.capture.rules import breaks, each, existing, positional
from explorer.compiler.capture.values.base import Assertion, Frame, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue
from explorer.compiler.capture.values.constant import Constant, NumberValue, SizeValue
from explorer.compiler.capture.values.objects import ExceptionValue
from explorer.compiler.capture.values.overrides import PLAIN
from explorer.compiler.capture.values.sequences import TupleValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.files import OWN_FILES, STANDARD, folder_of_packages
from explorer.core.reasons import unsupported
from explorer.ir.capture import Attr, Computed, Item
from explorer.ir.graph import version

About = TypeVar("About")
NONE = Constant(None)
_BLOCK = (warnings.catch_warnings.__enter__, warnings.catch_warnings.__exit__)
_HANDLERS: tuple[Callable[..., Any], ...] = (warn, warn_caller, log, *_BLOCK)
WARN, WARN_CALLER, LOG, BEGIN, END = map(hook.unwatched, _HANDLERS)
"""Nothing that handles a message is compiled."""
_FILTERS = (warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings)


def _settled(value: Value) -> bool:
    """Whether the value is now what it will be when the graph has run."""
    if isinstance(value, ExceptionValue):
        return not value.overlay.keys() - {"__context__"} and all(map(_settled, value.args))
    if isinstance(value, TupleValue):
        return all(isinstance(item, Value) and _settled(item) for item in value.items)
    return isinstance(value, (Constant, ClassValue, SizeValue))


def _frames(t: Tracer) -> list[Frame]:
    """The frames of the program, outermost first."""
    return [frame for frame in t.stack.frames if not frame.code.filename.startswith(OURS)]


def _caller(t: Tracer, level: int) -> tuple[str, int, Frame] | None:
    """(file, line, frame) of the `level`th frame from the innermost; None beyond the compiled function."""
    frames = _frames(t)
    if level > len(frames):
        return None
    frame = frames[-level]
    span = frame.code.instructions[max(0, frame.position - 1)].span
    return frame.code.filename, span.line if span is not None else frame.code.first_line, frame


def takes_by_program(taker: object) -> bool:
    """Whether code of the program runs when this handler, filter or formatter gets a message: later results may depend
    on that."""
    taker = getattr(taker, "__func__", taker)
    if isinstance(taker, FunctionType):
        return not _is_library_file(taker.__code__.co_filename)
    kind = taker if isinstance(taker, type) else type(taker)
    files = {
        each.__code__.co_filename for base in kind.__mro__ for each in vars(base).values() if type(each) is FunctionType
    }
    return not all(map(_is_library_file, files))


@functools.cache
def _is_library_file(file: str) -> bool:
    return file.startswith((*STANDARD, OWN_FILES, "<frozen")) or bool(folder_of_packages(file))


def takers(logger: logging.Logger | None) -> Iterator[object]:
    """The filters, handlers and formatters that get the records of a logger."""
    yield from () if logger is None else logger.filters
    while logger is not None:
        for handler in logger.handlers:
            yield from (handler, handler.formatter, *handler.filters)
        logger = logger.parent if logger.propagate else None


def gives_programs(logger: logging.Logger) -> bool:
    """Whether code of the program gets the records of a logger."""
    return any(map(takes_by_program, takers(logger)))


def shows_by_program(_: object) -> bool:
    """Whether code of the program shows warnings."""
    return takes_by_program(warnings.showwarning)


def records(_: object) -> bool:
    """Whether warnings go into a list."""
    return _record() is not None


def raises(_: object) -> bool:
    """Whether some warnings are errors."""
    return any(action == "error" for action, *_ in warnings.filters)


def _record() -> object:
    return getattr(warnings._showwarnmsg_impl, "__self__", None)  # type: ignore[attr-defined]


def _holds(t: Tracer, question: Callable[[About], bool], about: About) -> bool:
    """The answer, which is guarded: it decides whether the program sees what a message did."""
    found = question(about)
    t.guards.on(Computed(question, (t.objects.known(about),)), Equals(found), "who takes messages decides when")
    return found


def _is_seen(t: Tracer) -> bool:
    """Whether the frame has the list that the warning goes into, or may handle the warning as an error, or code of the
    program shows it."""
    if (id(vars(warnings)), "showwarning") in t.effects.globals or _holds(t, shows_by_program, warnings):
        return True
    if _holds(t, records, warnings) and any(each is _record() for each in t.given.locals.values()):
        return True
    changed = any(change.kind == "call" and change.value[0] in _FILTERS for change in t.effects.changes.values())
    handled = any(frame.handlers[frame.position - 1] is not None for frame in t.stack.frames)
    return handled and (changed or _holds(t, raises, warnings))


@positional(warnings.warn)
def _warn(
    t: Tracer,
    message: Value,
    category: Value = NONE,
    stacklevel: Value = Constant(1),
    source: Value = NONE,
    **others: Value,
) -> Value:
    """A warning."""
    if others or not source.is_none() or not (_settled(message) and _settled(category)):
        unsupported(reasons.UNTRACEABLE_CALL, "warnings.warn of what is not known yet")
    if _is_seen(t):
        unsupported(reasons.UNTRACEABLE_CALL, "warnings.warn where the program handles or records it")
    level = max(1, stacklevel.as_index(t))
    place = _caller(t, level)
    what = f"warnings.warn({message.describe()})"
    if place is None:
        above = Constant(level - len(_frames(t)))
        t.effects.call(WARN_CALLER, [message, category, above], what)
    else:
        file, line, frame = place
        t.effects.call(WARN, [message, category, Constant(file), Constant(line), Constant(frame.globals)], what)
    return NONE


@each(*_FILTERS)
def _filters(function: Any, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A change of the warning filters."""
    if kwargs or not all(map(_settled, args)):
        unsupported(reasons.UNTRACEABLE_CALL, f"warnings.{function.__name__}")
    t.effects.call(function, args, f"warnings.{function.__name__}({', '.join(a.describe() for a in args)})")
    return NONE


@positional(warnings.catch_warnings.__enter__)
def _begin_filters(t: Tracer, manager: Value) -> Value:
    """The block begins after the graph; a list of its warnings would be known only then."""
    if t.get_attr(manager, "_record").truth(t):
        unsupported(reasons.UNTRACEABLE_CALL, "warnings.catch_warnings(record=True)")
    t.effects.call(BEGIN, [manager], "warnings.catch_warnings()")
    return NONE


@positional(warnings.catch_warnings.__exit__)
def _end_filters(t: Tracer, manager: Value, *error: Value) -> Value:
    """The filters of before the block."""
    if t.get_attr(manager, "_record").truth(t):
        unsupported(reasons.UNTRACEABLE_CALL, "the end of warnings.catch_warnings(record=True)")
    t.effects.call(END, [manager], "the end of warnings.catch_warnings()")
    return NONE


breaks(reasons.UNTRACEABLE_CALL, "warnings.warn_explicit", warnings.warn_explicit)  # it writes to a registry


_LEVELS = {
    "debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "warn": logging.WARNING,
    "error": logging.ERROR, "critical": logging.CRITICAL, "fatal": logging.CRITICAL,
}  # fmt: skip


def _is_enabled(t: Tracer, logger: Value, level: int) -> bool:
    """Whether the logger takes lines of this level, by what it remembers itself; guarded."""
    real: logging.Logger = logger.live(t)
    enabled = real.isEnabledFor(level)
    if logger.source is not None:
        t.wrap(Attr(logger.source, "disabled"), real.disabled)
        if not real.disabled and level in real._cache:  # type: ignore[attr-defined]
            t.wrap(Item(Attr(logger.source, "_cache"), level), enabled)
    return enabled


@positional(logging.Logger.isEnabledFor)
def _enabled(t: Tracer, logger: Value, level: Value) -> Value:
    """Whether a line of this level would be logged."""
    return Constant(_is_enabled(t, logger, level.as_index(t)))


def _line(t: Tracer, logger: Value, level: int, message: Value, args: tuple[Value, ...], others: object) -> Value:
    if not _is_enabled(t, logger, level):
        return NONE
    real: logging.Logger = logger.live(t)
    own = {"_log", "handle", "makeRecord", "findCaller"}
    overridden = any(own & vars(c).keys() for c in _below(type(real))) or _holds(t, gives_programs, real)
    if others or not all(map(_settled, (message, *args))) or overridden:
        unsupported(reasons.UNTRACEABLE_CALL, f"a log line of {real.name}")
    place = _caller(t, 1)
    assert place is not None
    file, line, frame = place
    spot = t.from_python((Constant(file), Constant(line), Constant(frame.code.name)))
    arguments = [logger, Constant(level), message, t.from_python(tuple(args)), spot]
    t.effects.call(LOG, arguments, f"{real.name}: {message.describe()}")
    return NONE


def _below(kind: type) -> tuple[type, ...]:
    return kind.__mro__[: kind.__mro__.index(logging.Logger)]


@each(*existing(logging.Logger, *_LEVELS))
def _leveled(function: Any, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A log line."""
    level = _LEVELS[function.__name__]
    logger, message, *rest = args
    return _line(t, logger, level, message, tuple(rest), kwargs)


@positional(logging.Logger.log)
def _log(t: Tracer, logger: Value, level: Value, message: Value, *args: Value, **others: Value) -> Value:
    """A log line."""
    return _line(t, logger, level.as_index(t), message, args, others)


def is_checked_later(t: Tracer, condition: Value, error: type[BaseException], args: tuple[object, ...] | None) -> bool:
    """Take the condition for true and have it checked after the graph, before all other effects: where it is false,
    the frame runs again in eager. `args` of the error: None where making them is left to that run. False where nothing
    could undo what the graph did until then, or where the program handles the error."""
    if isinstance(condition, TensorValue):
        known = condition.fake.numel() == 1 and condition.cls in PLAIN and not t.torch_state.levels
    else:
        known = isinstance(condition, NumberValue)
    if not known or t.tape.branches:
        return False
    handled = any(frame.handlers[frame.position - 1] is not None or frame.handled for frame in t.stack.frames)
    if handled or args is None or t.effects.changes or t.torch_state.switched() or t.torch_state.pending:
        if not t.config.fullgraph and (handled or t.tape.recorded_inputs()):
            return False
        t.tape.runs_again = True
    at = version(condition.fake) if isinstance(condition, TensorValue) else None
    t.in_graph.assertions.append(Assertion(condition, error, args or (), at))
    t.tape.checks_later = True
    return True


def asserted(frame: Frame) -> tuple[object, ...] | None:
    """The arguments of the error of the assert statement whose condition was just taken from the stack, where they are
    constants."""
    steps = itertools.takewhile(lambda each: each.op != "RAISE_VARARGS", frame.code.instructions[frame.position + 1 :])
    found = [*steps]
    is_known = all(each.op in ("LOAD_CONST", "CALL") for each in found)
    return tuple(each.arg for each in found if each.op == "LOAD_CONST") if is_known else None


def is_assertion(frame: Frame) -> bool:
    """Whether the condition just taken from the stack is an assert statement's."""
    following = frame.code.instructions[frame.position : frame.position + 1]
    return [each.op for each in following] == ["LOAD_ASSERTION_ERROR"]


class Refuted(Exception):
    """An assertion of the program is false that its graph ran without."""


@hook.unwatched
def check(condition: object, error: type[BaseException], args: tuple[object, ...]) -> None:
    if not condition:
        raise Refuted from error(*args)
