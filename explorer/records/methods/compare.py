"""One program through every capture method: what each captured, what it gives on other inputs compared with eager
(right, wrong, or refused), and what its errors mean.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import inspect
import io
import logging
import re
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from explorer.compiler.runtime.timing import METHOD as TIMING
from explorer.compiler.runtime.timing import interleave
from explorer.ir.record import SourceData
from explorer.records.assembly import quoted
from explorer.records.check.accuracy import against_eager
from explorer.records.check.leaves import Leaves, leaves
from explorer.records.check.trial import SEED
from explorer.records.data.methods import METHODS_VERSION, MethodData, MethodsData, VerdictData
from explorer.records.environment import describe
from explorer.records.methods.compiled import OURS, stock
from explorer.records.methods.define_and_run import TENSORFLOW
from explorer.records.methods.exported import EXPORT, ONNX
from explorer.records.methods.inputs import Call, Variant, containers, function, inputs
from explorer.records.methods.method import Example, Method, Runnable
from explorer.records.methods.tracers import EAGER, FX, SCRIPT, TRACE, operations
from explorer.records.stock.backend import named


@dataclass(frozen=True)
class Meaning:
    """`pattern` is searched in "Type: message" of an error of a method whose name holds `method`."""

    method: str
    pattern: str
    text: str


MEANINGS = (
    Meaning(
        "torch.fx",
        r"symbolically traced variables cannot be used as inputs to control flow",
        "A branch or loop asks for a value. Proxies have none: symbolic tracing follows no branch. Use "
        "torch.where, or a method that reads bytecode or source.",
    ),
    Meaning(
        "torch.fx",
        r"(can't be|cannot be|not) (iterated|iterable)|Proxy object cannot be iterated",
        "A loop runs over a tensor or over arguments whose number is not known: a proxy does not know its length.",
    ),
    Meaning(
        "torch.fx",
        r"'len' is not supported",
        "A proxy does not know its length; sizes are not part of symbolic tracing.",
    ),
    Meaning(
        "torch.fx",
        r"Proxy",
        "Python asked the proxy for something that only a value has; symbolic tracing records tensor operations "
        "and no more.",
    ),
    Meaning(
        "torch.jit.script",
        r"NotSupportedError|UnsupportedNodeError|isn't supported|is not supported|aren't supported",
        "The source uses Python that is not in TorchScript's subset. Rewrite that part, or keep it outside the "
        "scripted function.",
    ),
    Meaning(
        "torch.jit.script",
        r"(Expected|Tried|Arguments for call are not valid|Return value was annotated|type)",
        "TorchScript is typed and takes an argument without annotation for a Tensor: annotate the types, or write "
        "it so that each variable keeps one type.",
    ),
    Meaning(
        "torch.jit.script",
        r"undefined value|python value of type|unknown builtin",
        "TorchScript cannot see this Python object: only tensors, plain values, modules and other scripted "
        "functions are known inside.",
    ),
    Meaning(
        "torch.jit.script",
        r"source",
        "TorchScript reads the source of the function, and there is none to read here.",
    ),
    Meaning(
        "torch.jit.trace",
        r"Tracer cannot infer type|Only tensors|type .* cannot be traced|Unsupported",
        "Tracing takes tensors, and tuples, lists and dicts of them, in and out; other arguments must be bound before.",
    ),
    Meaning(
        "torch.export",
        r"data-dependent|GuardOnDataDependent|Could not guard|unbacked",
        "A branch or a size depends on values in a tensor. Export needs one graph for all inputs: use torch.cond "
        "or torch.where, or torch._check to state what is known.",
    ),
    Meaning(
        "torch.export",
        r"Unsupported|graph break|not supported|Attempted to call|skipped",
        "Export takes the whole function in one graph: where torch.compile would continue in Python after a "
        "graph break, export fails.",
    ),
    Meaning(
        "ONNX",
        r"data-dependent|GuardOnDataDependent|Could not guard",
        "The program is exported first, and a branch depends on values in a tensor: use torch.cond or torch.where.",
    ),
    Meaning(
        "ONNX",
        r"No decompositions|No ONNX function|ConversionError|DispatchError",
        "An ATen operation in the program has no ONNX counterpart known to the exporter: add one with "
        "custom_translation_table.",
    ),
    Meaning(
        "ONNX",
        r"export",
        "The program could not be exported, which comes before the translation to ONNX.",
    ),
    Meaning(
        "TensorFlow",
        r"no counterpart",
        "The graph holds an ATen operation that the translation to TensorFlow does not have.",
    ),
    Meaning(
        "TensorFlow",
        r"data-dependent|Could not guard|Unsupported",
        "The ATen graph that would be built in TensorFlow could not be captured.",
    ),
)


def meaning(method: str, error: str) -> str:
    """What an error of a method means; "" where nothing is known of it."""
    return next((m.text for m in MEANINGS if m.method in method and re.search(m.pattern, error)), "")


SHOWN = 4
"""Elements of a tensor in a verdict."""


@dataclass(frozen=True)
class MethodOutcome:
    """What a call left: its result, its arguments and the containers outside that it names, all after it; or the
    exception that ended it."""

    found: dict[str, Leaves]
    error: BaseException | None = None

    def values(self) -> dict[str, Leaves]:
        return self.found


@dataclass(frozen=True)
class Eager:
    """One call of `fn` itself; a module is copied so that its buffers stay."""

    fn: Callable[..., Any]
    tried: Variant

    def observe(self) -> MethodOutcome:
        with self.tried.with_free_variable(self.fn):
            called = copy.deepcopy(self.fn) if isinstance(self.fn, torch.nn.Module) else self.fn
            return outcome(called, self.tried.copy(), self.fn)


def outcome(call: Callable[..., object], given: Call, fn: Callable[..., object]) -> MethodOutcome:
    """One call from a fixed seed of `call`, which is `fn` or was made from it; the generator's state is put back."""
    args, kwargs = given
    with containers(fn) as outside, torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(SEED)
        try:
            result = call(*args, **kwargs)
        except Exception as error:  # whatever a method refuses with is its verdict
            return MethodOutcome({}, error)
        left = {name: copy.copy(value) for name, value in outside.items()}
    found = {"output": result, "arguments": (args, kwargs), "outside": left}
    return MethodOutcome({name: leaves(value, name) for name, value in found.items()})


def _in_words(found: MethodOutcome) -> str:
    return shown(found.found) if found.error is None else f"{type(found.error).__name__}: {message(found.error)}"


def verdict(captured: Runnable, under: Callable[..., object], fn: Callable[..., object], tried: Variant) -> VerdictData:
    """The result of `captured`, which was made from `under`, compared with eager's `fn`."""
    eager = Eager(fn, tried)
    wanted = eager.observe()
    before = captured.compiles() if captured.compiles else 0
    with tried.with_free_variable(under):
        got = outcome(captured.call, tried.copy(), under)
    anew = captured.compiles is not None and captured.compiles() > before and tried.fact != ""
    if wanted.error is not None:
        return _compared_with_error(tried, wanted.error, got, anew)
    if got.error is not None:
        return VerdictData(tried.name, "refused", f"{type(got.error).__name__}: {message(got.error)}", recompiled=anew)
    found = against_eager(lambda: eager, got.found, wanted.found)
    if found.ok:
        return VerdictData(tried.name, "right", "", found.largest_absolute, anew)
    difference = differing(found.first_mismatch, got.found, wanted.found)
    return VerdictData(tried.name, "wrong", difference, found.largest_absolute, anew)


def _compared_with_error(tried: Variant, expected: BaseException, got: MethodOutcome, anew: bool) -> VerdictData:
    text = f"eager raises {type(expected).__name__}: {message(expected)}"
    if got.error is None:
        return VerdictData(tried.name, "wrong", f"{text}; this gave {shown(got.found)}", recompiled=anew)
    same = type(got.error) is type(expected)
    detail = text if same else f"{text}; this raised {type(got.error).__name__}: {message(got.error)}"
    return VerdictData(tried.name, "right" if same else "refused", detail, recompiled=anew)


def message(error: BaseException, most: int = 300) -> str:
    """The first paragraph of what an exception says."""
    text = " ".join(str(error).strip().split("\n\n")[0].split())
    return text if len(text) <= most else text[: most - 1] + "…"


def differing(first_mismatch: str, got: Mapping[str, Leaves], expected: Mapping[str, Leaves]) -> str:
    """What parts from eager's first, as comparing named it; of a tensor both values."""
    for group in got.keys() & expected.keys():
        if first_mismatch in got[group] and first_mismatch in expected[group]:
            ours, theirs = got[group][first_mismatch], expected[group][first_mismatch]
            return f"{first_mismatch}: {_elements(ours)}, eager {_elements(theirs)}"
    return first_mismatch


def shown(of: Mapping[str, Leaves]) -> str:
    found = of.get("output", Leaves()).items()
    return ", ".join(f"{name}: {_elements(value)}" for name, value in found if not name.startswith(("class ", "keys ")))


def _elements(value: object) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    flat = value.detach().flatten()
    shown = ", ".join(f"{each:.4g}" if isinstance(each, float) else str(each) for each in flat[:SHOWN].tolist())
    more = ", …" if flat.numel() > SHOWN else ""
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} [{shown}{more}]"


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
    fn: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    methods: Sequence[Method],
    *,
    others: Mapping[str, tuple[object, ...]],
    title: str,
    timed: bool = True,
    tell: OnProgress = lambda name: None,
) -> MethodsData | BaseException:
    """Capture, run, time and save `fn` with each method. `others` are further calls by name. `tell` hears each method's
    name as it begins. Or what eager raises on the call itself, with its traceback from the program's frames on."""
    tried = (*inputs(fn, args, kwargs), *(Variant(n, "given", n, tuple(call), {}) for n, call in others.items()))
    with _quiet([]):
        expected = [Eager(fn, each).observe() for each in tried]
    raised = expected[0].error
    if raised is not None:
        below = raised.__traceback__ and raised.__traceback__.tb_next
        return BaseException.with_traceback(raised, below)  # not by the class, which may be the program's
    given = tuple(each.data(_in_words(found)) for each, found in zip(tried, expected, strict=True))
    found: list[MethodData] = []
    calls: dict[str, tuple[Runnable, Variant]] = {}
    with contextlib.ExitStack() as closing:
        for method in methods:
            tell(method.name)
            data, captured = tried_on(method, fn, tried)
            found.append(data)
            if captured is not None:
                closing.callback(captured.close)
                if data.verdicts[0].answer == "right":
                    calls[method.name] = captured, tried[0]
        if timed:
            tell("timing")
            found = _timed(found, calls)
        calls_of = operations(_own(fn), tried[0]) if any(method is EAGER for method in methods) else ()
    made = MethodsData(
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
    return msgspec.structs.replace(made, sources=sources(fn, made))


def sources(fn: Callable[..., object], data: MethodsData) -> tuple[SourceData, ...]:
    """The function, and what else of the program the texts and operations were made for."""
    used: dict[str, set[int]] = defaultdict(set)
    with contextlib.suppress(OSError, TypeError):  # made by exec, or no Python function: what ran may still have lines
        under = function(fn)
        lines, first = inspect.getsourcelines(under)
        used[under.__code__.co_filename].update(range(first, first + len(lines)))
    for place in _places(data):
        file, _, line = place.rpartition(":")
        used[file].add(int(line))
    return quoted(used)


def _places(data: MethodsData) -> Iterator[str]:
    for method in data.methods:
        for shown in method.views:
            for line in shown.text.lines:
                yield from line.origins
    yield from (call.where for call in data.operations if call.where)


def tried_on(method: Method, fn: Callable[..., object], tried: Sequence[Variant]) -> tuple[MethodData, Runnable | None]:
    """What one method makes of the first input, and what that gives on all of them."""
    if missing := method.missing():
        return MethodData(method.name, method.how, missing=missing), None
    under = _own(fn)
    args, kwargs = tried[0].copy()
    output: list[str] = []
    started = time.perf_counter()
    try:
        with _quiet(output):
            captured = method.capture(Example(under, args, kwargs))
    except Exception as error:  # whatever a method refuses with is what its users see
        text = _shortened(f"{type(error).__name__}: {_unstyled(str(error)).strip()}")
        return MethodData(
            method.name, method.how, warnings=tuple(output), error=text, meaning=meaning(method.name, text)
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
        tuple(output),
        capture_seconds=None if method is EAGER else seconds,
        saved=saved(captured, fn, tried[0], verdicts[0]),
        runs_without_python="" if isinstance(captured.saving, str) else captured.saving.needs,
    )
    return data, captured


def saved(captured: Runnable, fn: Callable[..., object], given: Variant, first: VerdictData) -> str:
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
        except Exception as error:  # the method's own refusal, with its own words
            return f"no: {type(error).__name__}: {_unstyled(str(error)).strip().splitlines()[0]}"
        again = verdict(Runnable(loaded, tuple, str, str, ""), fn, fn, given)
    detail = "" if again.answer == first.answer else f", {again.detail}"
    return f"{saving.suffix}, {size:,} bytes; loaded again: {again.answer}{detail}"


def _timed(found: list[MethodData], calls: Mapping[str, tuple[Runnable, Variant]]) -> list[MethodData]:
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
        each if (of := samples.get(each.name)) is None
        else msgspec.structs.replace(each, seconds=of.median, spread=of.spread)
        for each in found
    ]  # fmt: skip


def _own(fn: Callable[..., object]) -> Callable[..., Any]:
    """A module's copy, so that no method sees what another left in its buffers; a function as it is."""
    return copy.deepcopy(fn) if isinstance(fn, torch.nn.Module) else fn


@contextlib.contextmanager
def _quiet(output: list[str]) -> Iterator[None]:
    """Warnings and what is written to standard error go to `output`. What is printed goes nowhere: a function that
    prints does so for every method."""
    written = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()), _errors_to(written):
        warnings.simplefilter("always")
        try:
            yield
        finally:
            output += dict.fromkeys(f"{each.category.__name__}: {each.message}" for each in caught)
            output += [_shortened(text)] if (text := written.getvalue().strip()) else []


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
    """Text without a terminal's colors."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _shortened(text: str) -> str:
    """What a method says, without the most of a tensor that it prints whole."""
    left = len(text) - MOST_SAID
    return text if left <= 0 else f"{text[:MOST_SAID]} ... ({left:,} characters more)"
