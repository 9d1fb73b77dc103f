"""One program through every capture method: what each captured, and what it gives on other inputs beside eager."""

from __future__ import annotations

import contextlib
import copy
import datetime
import io
import logging
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from explorer.compiler.runtime.timing import METHOD as TIMING
from explorer.compiler.runtime.timing import interleave
from explorer.ir.methods import METHODS_VERSION, MethodData, MethodsData, VerdictData
from explorer.records.environment import describe
from explorer.records.methods.compiled import OURS, stock
from explorer.records.methods.define_and_run import TENSORFLOW
from explorer.records.methods.dispatched import EAGER, operations
from explorer.records.methods.exported import EXPORT, ONNX
from explorer.records.methods.fx import FX
from explorer.records.methods.inputs import Input, inputs
from explorer.records.methods.jit import SCRIPT, TRACE
from explorer.records.methods.meanings import meaning
from explorer.records.methods.method import Captured, Example, Method
from explorer.records.methods.verdict import expected, verdict
from explorer.records.stock.backend import named

METHODS: tuple[Method, ...] = (EAGER, TRACE, SCRIPT, FX, EXPORT, ONNX, stock("inductor"), OURS, TENSORFLOW)
SECONDS_OF_TIMING = 0.3
"""For each method."""

MOST_SAID = 10_000
"""Characters of an error, or of what is written to standard error."""

OnProgress = Callable[[str], None]


def chosen(names: Sequence[str] | None, backends: Sequence[str]) -> tuple[Method, ...]:
    """The methods of these names (all where None), and `torch.compile` with each of `backends`.

    Raises ValueError naming what does not exist and what does.
    """
    known = {method.name: method for method in METHODS}
    if unknown := [name for name in names or () if name not in known]:
        raise ValueError(f"no capture method {', '.join(map(repr, unknown))}; there are: {', '.join(known)}")
    for backend in backends:
        named(backend)
    picked = known if names is None else names
    return (*(known[name] for name in picked), *map(stock, backends))


def compared(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    methods: Sequence[Method],
    *,
    others: Mapping[str, tuple[Any, ...]],
    title: str,
    timed: bool = True,
    tell: OnProgress = lambda name: None,
) -> MethodsData:
    """Capture, run, time and save `fn` with each method. `others` are further calls by name. `tell` hears each method's
    name as it begins. What eager raises on the call itself propagates. The data has no sources yet."""
    tried = (*inputs(fn, args, kwargs), *(Input(n, "given", n, tuple(call), {}) for n, call in others.items()))
    with _quiet([]):
        given = tuple(each.data(expected(fn, each)) for each in tried)
    found: list[MethodData] = []
    calls: dict[str, tuple[Captured, Input]] = {}
    with contextlib.ExitStack() as closing:
        for method in methods:
            tell(method.name)
            data, captured = tried_out(method, fn, tried)
            found.append(data)
            if captured is not None:
                closing.callback(captured.close)
                if data.verdicts[0].answer == "right":
                    calls[method.name] = captured, tried[0]
        if timed:
            tell("timing")
            found = _timed(found, calls)
        calls_of = operations(_own(fn), tried[0]) if any(method is EAGER for method in methods) else ()
    return MethodsData(
        METHODS_VERSION,
        title,
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        describe(),
        (),
        given,
        tuple(found),
        calls_of,
        TIMING if timed else "",
    )


def tried_out(method: Method, fn: Callable[..., Any], tried: Sequence[Input]) -> tuple[MethodData, Captured | None]:
    """What one method makes of the first input, and what that gives on all of them."""
    if missing := method.missing():
        return MethodData(method.name, method.how, missing=missing), None
    under = _own(fn)
    args, kwargs = tried[0].copy()
    said: list[str] = []
    started = time.perf_counter()
    try:
        with _quiet(said):
            captured = method.capture(Example(under, args, kwargs))
    except Exception as error:  # whatever a method refuses with is what its users see
        text = _shortened(f"{type(error).__name__}: {_unstyled(str(error)).strip()}")
        return MethodData(
            method.name, method.how, said=tuple(said), error=text, meaning=meaning(method.name, text)
        ), None
    seconds = time.perf_counter() - started
    control, sizes = captured.control(), captured.sizes()
    with _quiet([]):
        verdicts = tuple(verdict(captured, under, fn, each) for each in tried)
    changed = [(input.fact, each.answer) for input, each in zip(tried, verdicts, strict=True) if input.fact]
    data = MethodData(
        method.name,
        method.how,
        captured.views(),
        control,
        sizes,
        tuple(fact for fact, answer in changed if answer == "wrong"),
        tuple(fact for fact, answer in changed if answer == "right"),
        verdicts,
        tuple(said),
        capture_seconds=None if method is EAGER else seconds,
        saved=saved(captured, fn, tried[0], verdicts[0]),
        runs_without_python="" if isinstance(captured.saving, str) else captured.saving.needs,
    )
    return data, captured


def saved(captured: Captured, fn: Callable[..., Any], given: Input, first: VerdictData) -> str:
    """Whether the program can be saved: tried, by loading it again and running it."""
    saving = captured.saving
    if isinstance(saving, str):
        return saving
    with tempfile.TemporaryDirectory() as folder, _quiet([]):
        path = Path(folder) / f"program{saving.suffix}"
        try:
            saving.write(path)
            size = sum(each.stat().st_size for each in Path(folder).iterdir())
            loaded = saving.read(path)
        except Exception as error:  # the method's own refusal, told as it says it
            return f"no: {type(error).__name__}: {_unstyled(str(error)).strip().splitlines()[0]}"
        again = verdict(Captured(loaded, tuple, str, str, ""), fn, fn, given)
    detail = "" if again.answer == first.answer else f", {again.detail}"
    return f"{saving.suffix}, {size:,} bytes; loaded again: {again.answer}{detail}"


def _timed(found: list[MethodData], calls: Mapping[str, tuple[Captured, Input]]) -> list[MethodData]:
    """Medians of the methods that are right on the call captured, timed in turn."""
    runs = {}
    for name, (captured, given) in calls.items():
        args, kwargs = given.copy()
        runs[name] = lambda captured=captured, args=args, kwargs=kwargs: captured.call(*args, **kwargs)
    if not runs:
        return found
    with _quiet([]):
        samples = interleave(runs, budget=SECONDS_OF_TIMING)
    return [
        each if each.name not in samples else _with_times(each, samples[each.name].median, samples[each.name].spread)
        for each in found
    ]


def _with_times(data: MethodData, seconds: float, spread: float) -> MethodData:
    return msgspec.structs.replace(data, seconds=seconds, spread=spread)


def _own(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A module's copy, so that no method sees what another left in its buffers; a function as it is."""
    return copy.deepcopy(fn) if isinstance(fn, torch.nn.Module) else fn


@contextlib.contextmanager
def _quiet(said: list[str]) -> Iterator[None]:
    """Warnings and what is written to standard error go to `said`. What is printed goes nowhere: a function that prints
    does so for every method."""
    written = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()), _errors_to(written):
        warnings.simplefilter("always")
        try:
            yield
        finally:
            said += dict.fromkeys(f"{each.category.__name__}: {each.message}" for each in caught)
            said += [_shortened(text)] if (text := written.getvalue().strip()) else []


@contextlib.contextmanager
def _errors_to(stream: io.StringIO) -> Iterator[None]:
    """What is written to standard error goes to `stream`, torch's log lines too."""
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.split(".")[0] == "torch"]
    handlers = (each for logger in loggers for each in logger.handlers if type(each) is logging.StreamHandler)
    with contextlib.ExitStack() as after:
        for handler in handlers:
            after.callback(handler.setStream, handler.stream)
            handler.setStream(stream)
        after.enter_context(contextlib.redirect_stderr(stream))
        yield


def _unstyled(text: str) -> str:
    """Text without a terminal's colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _shortened(text: str) -> str:
    """What a method says, without the most of a tensor that it prints whole."""
    left = len(text) - MOST_SAID
    return text if left <= 0 else f"{text[:MOST_SAID]} ... ({left:,} characters more)"
