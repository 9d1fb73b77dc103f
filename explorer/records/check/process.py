"""What of the process a call may change besides objects: random generators, torch's switches, logging, warnings,
output; and what stops a repeated call before it changes anything outside the process.
"""

from __future__ import annotations

import decimal
import gc
import io
import logging
import multiprocessing
import os
import random
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Set
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import _lru_cache_wrapper, cache, partial
from itertools import product, takewhile
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import numpy
import torch
from torch._guards import CompileContext
from torch.utils.hooks import RemovableHandle

from explorer.compiler.capture.messages import takers, takes_by_program
from explorer.core.files import PACKAGE
from explorer.core.recorder import recorder
from explorer.core.rules import rule_in_use
from explorer.ir.settings import skip_frames
from explorer.records.check.isolate import (
    BUILTIN,
    CODE,
    PLAIN,
    NotIsolated,
    Objects,
    State,
    is_programs,
    is_users_module,
    undone,
)
from explorer.records.check.snapshot import plainly, put_decimal

COMPILERS = ("torch", "explorer")
"""Loggers of these are about compiling, and are let through."""

MOST_HEARD = 100_000
"""Characters of what a call prints that are kept."""

GRADIENT = re.compile(r",\s*grad_fn=<\w*>")


@dataclass(frozen=True)
class OutputLine:
    """A line that a call printed, logged or warned of; `to` says where, and "" is the standard output."""

    to: str
    text: str

    def __repr__(self) -> str:
        return repr(f"{self.to}: {self.text}" if self.to else self.text)


class OutputKinds(set[str]):
    """Which of "print", "log" and "warn" happened, and the text in the order of writing."""

    def __init__(self) -> None:
        self._parts: list[OutputLine] = []
        self._kept = 0
        self.taken_by: dict[int, object] = {}
        """Handlers and filters of loggers that were given a record, and what shows warnings."""

    def hear(self, kind: str, to: str, text: str) -> None:
        self.add(kind)
        text = text[: MOST_HEARD - self._kept]
        self._kept += len(text)
        if kind == "print" and self._parts and self._parts[-1].to == to:
            self._parts[-1] = OutputLine(to, self._parts[-1].text + text)
        elif text:
            self._parts.append(OutputLine(to, text))

    def lines(self) -> list[OutputLine]:
        """The name of a function of autograd is the compiler's, and a tensor's text is broken where it is long."""
        whole = (OutputLine(each.to, GRADIENT.sub(", grad_fn=…", each.text)) for each in self._parts)
        return [OutputLine(each.to, text) for each in whole for text in each.text.splitlines()]


Warned = frozenset[tuple[str, type, int]]
"""Texts, categories and lines of warnings."""


def hushed(warned: Warned = frozenset()) -> AbstractContextManager[OutputKinds]:
    """Inside, in this thread, nothing is printed, logged or warned of; yields what would have been. Of warnings,
    Python shows most once, and again where a compiler touched its filters: those in `warned` are not heard."""
    return _listening(warned, through=False)


def noted(warned: Warned = frozenset()) -> AbstractContextManager[OutputKinds]:
    """Inside, in this thread, what is printed, logged and warned of is let through; yields it."""
    return _listening(warned, through=True)


def warned_already() -> Warned:
    return frozenset(key for shown in _warned().values() for key in shown if isinstance(key, tuple))


@contextmanager
def _listening(warned: Warned, *, through: bool) -> Iterator[OutputKinds]:
    own, kinds = threading.get_ident(), OutputKinds()
    handling: list[object] = []
    known = set(warned)
    streams = sys.stdout, sys.stderr
    handle, show = logging.Logger.handle, warnings._showwarnmsg  # type: ignore[attr-defined]
    how_shown = warnings._showwarnmsg_impl, warnings.showwarning  # type: ignore[attr-defined]

    def passes(kind: str, to: str, text: str) -> bool:
        """What other threads, the garbage collector and a person's own rules write goes on unheard, and so do
        handlers, whose text was heard as logged or warned of. A compiler's own text is no line of the program."""
        if threading.get_ident() != own or rule_in_use() or getattr(_watched, "collecting", False) or handling:
            return True
        kinds.hear(kind, to, "" if _compiling() else text)
        return through

    def handle_on(how: Callable[..., None], *given: object) -> None:
        handling.append(how)
        try:
            how(*given)
        finally:
            handling.pop()

    def handled(logger: logging.Logger, record: logging.LogRecord) -> None:
        kinds.taken_by.update((id(each), each) for each in takers(logger))
        if logger.name.partition(".")[0] in COMPILERS or passes("log", f"log {record.name}", _logged(record)):
            handle_on(handle, logger, record)

    def shown(message: Any) -> None:
        if (warnings._showwarnmsg_impl, warnings.showwarning) != how_shown:  # type: ignore[attr-defined]
            return handle_on(show, message)  # the call itself catches it
        kinds.taken_by[id(warnings.showwarning)] = warnings.showwarning
        key = str(message.message), message.category, message.lineno
        text = "" if key in known else _warning(message)
        known.add(key)
        if passes("warn", message.category.__name__, text):
            handle_on(show, message)

    def undo() -> None:
        for name, ours, before in zip(("stdout", "stderr"), theirs, streams, strict=True):
            ours.let_go()
            if getattr(sys, name) is ours:
                setattr(sys, name, before)
        logging.Logger.handle = handle  # type: ignore[method-assign]
        warnings._showwarnmsg = show  # type: ignore[attr-defined]

    theirs = tuple(_Stream(*each, passes) for each in zip(streams, ("", "stderr"), strict=True))
    with _collections_counted(), undone(undo):
        sys.stdout, sys.stderr = theirs
        logging.Logger.handle = handled  # type: ignore[method-assign, assignment]
        warnings._showwarnmsg = shown  # type: ignore[attr-defined]
        yield kinds


LEADING = frozenset(("handlers", "_handlers", "_handlerList", "getHandlerByName", "filters"))
"""Names by which code finds what is given the records of a logger."""


def is_seen_to_take(taker: object, state: State, before: Set[int]) -> bool:
    """Whether the program may see that something was given what is logged or warned of: code of its own runs then, it
    was made in the call, or the call reaches it or what it holds. Handlers there were `before` are given by id."""
    if takes_by_program(taker) or isinstance(taker, logging.Handler) and id(taker) not in before:
        return True
    holds = getattr(taker, "__dict__", {}).items() if not isinstance(taker, FunctionType) else ()
    own = [value for name, value in holds if name not in vars(logging.Handler())]
    if type(taker).__module__.partition(".")[0] not in sys.stdlib_module_names:
        if state.names & LEADING:
            return True
        own.append(taker)
    held = Objects()
    try:
        for each in (*own, getattr(taker, "__self__", None), *(getattr(taker, "__closure__", None) or ())):
            held.add(each, "")
    except NotIsolated:
        return True
    data = {id for id, (value, _) in held.found.items() if not isinstance(value, (*CODE, *BUILTIN))}
    return not data.isdisjoint(state.objects.found) or any(takes_by_program(value) for value, _ in held.code)


def handlers_alive() -> Set[int]:
    return {id(reference()) for reference in logging._handlerList}  # type: ignore[attr-defined]


def _compiling() -> bool:
    current = recorder()
    return CompileContext.try_get() is not None or current is not None and current.compiling


def _logged(record: logging.LogRecord) -> str:
    """The text of a log record, without running code of the program's for it."""
    given = record.args.values() if isinstance(record.args, dict) else record.args or ()
    if all(type(each) in (*PLAIN, torch.Tensor) for each in (record.msg, *given)):
        with suppress(TypeError, ValueError, KeyError), plainly():  # handling it tells of these
            return f"{record.levelname} {record.getMessage()}"
    return f"{record.levelname} {record.msg if type(record.msg) is str else type(record.msg).__name__}"


def _warning(message: Any) -> str:
    """The text of a warning that the program gives; "" for one of torch's, which compiled code gives elsewhere."""
    text = str(message.message.args[0]) if message.message.args and type(message.message.args[0]) is str else ""
    return "" if "Triggered internally at" in text or message.filename.startswith(_folders()) else text


def _passes_all(kind: str, to: str, text: str) -> bool:
    return True


class _Stream(io.TextIOBase):
    """A stream whose writes are reported first, and perhaps not made."""

    def __init__(self, stream: Any, to: str, passes: Callable[[str, str, str], bool]) -> None:
        self._stream = stream
        self._to = to
        self._passes = passes

    def write(self, text: str) -> int:
        if text and not self._passes("print", self._to, text):
            return len(text)
        return int(self._stream.write(text) or 0)

    def let_go(self) -> None:
        """From now on it is the stream behind it: a handler, or a module that was imported meanwhile, may hold it."""
        self._passes = _passes_all

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return bool(self._stream.isatty())

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


EVENTS = (
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "os.utime", "os.chdir", "os.putenv", "os.unsetenv", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork",
    "os.forkpty", "os.kill", "os.killpg", "shutil.", "subprocess.", "socket.connect", "socket.bind", "socket.sendto",
    "socket.sendmsg", "sqlite3.connect", "urllib.Request", "webbrowser.", "smtplib.", "ftplib.", "builtins.input",
)  # fmt: skip
ENVIRONMENT = frozenset(getattr(type(os.environ), name).__code__ for name in ("__setitem__", "__delitem__"))
"""What a program changes the environment by; putenv() itself changes one that Python cannot read."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Outside(BaseException):
    """A repeated call was about to change something outside the process. No error of the program, so that its own
    handlers let it through."""


_watched = threading.local()
_installed = threading.Lock()


@dataclass
class Heard:
    """What a call did outside of the process, and which environment variables a compiler set in it."""

    refuses: bool
    actions: list[str] = field(default_factory=list)
    compilers_variables: set[str] = field(default_factory=set)


@contextmanager
def heard(refuses: bool) -> Iterator[Heard]:
    """Inside, in this thread, notes before the program writes a file, starts a process or connects to something, or
    raises Outside if it `refuses`. What compilers do for themselves is let through."""
    _install()
    before = getattr(_watched, "now", None)
    _watched.now = now = Heard(refuses)
    with _collections_counted():
        try:
            yield now
        finally:
            _watched.now = before


@contextmanager
def _collections_counted() -> Iterator[None]:
    gc.callbacks.append(_collects)
    try:
        yield
    finally:
        with suppress(ValueError):  # the program may have taken it away
            gc.callbacks.remove(_collects)


def _collects(phase: str, _: object) -> None:
    """The garbage collector begins or ends. What it lets go of in the middle of a call is of anything that this process
    did before: a call is not told by what the ends of others write or remove, nor are these kept from it."""
    _watched.collecting = phase == "start"


@cache
def _install() -> None:
    """Once: Python never takes an audit hook away, nor is it part of what anybody compiles."""
    skip_frames(_hear, with_callees=True)
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[object, ...], watched: threading.local = _watched) -> None:
    """`watched` is bound here, since the hook is called when the interpreter has let go of this module."""
    now: Heard | None = getattr(watched, "now", None)
    if now is None or event != "open" and not event.startswith(EVENTS):
        return
    if getattr(watched, "collecting", False):
        return
    if event == "open" and not _writes(*arguments[:3]):
        return
    watched.now = None  # what follows may be announced itself
    try:
        asked = _asked_by_compiler(sys._getframe(1))
    finally:
        watched.now = now
    if event in ("os.putenv", "os.unsetenv") and sys._getframe(1).f_code in ENVIRONMENT:
        if asked:
            now.compilers_variables.add(os.fsdecode(arguments[0]))  # type: ignore[arg-type]
        return  # a setting, which is put back
    if not asked:
        what = f"open {arguments[0]!r} for writing" if event == "open" else f"call {event}"
        if now.refuses:
            raise Outside(f"it would {what} once more")
        now.actions.append(what)


def _writes(path: object, mode: object, flags: object) -> bool:
    if isinstance(mode, str):
        return not set(mode).isdisjoint("wax+")
    return isinstance(flags, int) and bool(flags & WRITING)


@cache
def _folders() -> tuple[str, ...]:
    """Folders of compilers."""
    torch_dir, own = Path(torch.__file__).parent, PACKAGE
    return tuple(f"{each}{os.sep}" for each in (torch_dir, own, torch_dir.parent / "triton"))


IMPORTS = "<frozen importlib._bootstrap_external>"


def _asked_by_compiler(frame: FrameType | None) -> bool:
    """Whether it was a compiler that asked, and not the program: other libraries act for whoever calls them. Nor was it
    the program where Python keeps the bytecode of a module that is imported for the first time."""
    if frame is not None and frame.f_code.co_filename == IMPORTS:
        return True
    while frame is not None:
        if frame.f_code.co_filename.startswith(_folders()):
            return True
        if is_programs(frame.f_code):
            return False
        frame = frame.f_back
    return False


UNTOLD = "untold"


def _setting_value(get: Callable[[], object]) -> object:
    """The value of a setting; UNTOLD where torch refuses to tell it, as one that the program set in two ways: then each
    of these is restored by itself."""
    try:
        return get()
    except RuntimeError:
        return UNTOLD


class ProcessSetting(NamedTuple):
    name: str
    get: Callable[[], Any]
    put: Callable[[Any], None]


def _going_on() -> Iterator[ProcessSetting]:
    """What each call draws from: random numbers, and the keys of hooks, under which they are found in a module."""
    yield ProcessSetting("random", random.getstate, random.setstate)
    yield ProcessSetting("numpy.random", numpy.random.get_state, numpy.random.set_state)
    yield ProcessSetting("torch.random", torch.get_rng_state, torch.set_rng_state)
    if torch.cuda.is_initialized():
        yield ProcessSetting("torch.cuda.random", torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all)
    yield _next_hook()


def _next_hook() -> ProcessSetting:
    name = "next_id"
    return ProcessSetting("hooks", partial(getattr, RemovableHandle, name), partial(setattr, RemovableHandle, name))


def _switches() -> Iterator[ProcessSetting]:
    yield ProcessSetting("torch.set_grad_enabled", torch.is_grad_enabled, torch._C._set_grad_enabled)
    yield ProcessSetting("torch.set_default_dtype", torch.get_default_dtype, torch.set_default_dtype)
    # setting it takes a while, even to what it was
    yield ProcessSetting("torch.set_num_threads", torch.get_num_threads, torch.set_num_threads)
    yield ProcessSetting("torch.use_deterministic_algorithms", _deterministic, _put_deterministic)
    yield ProcessSetting("torch.set_anomaly_enabled", torch.is_anomaly_enabled, torch.set_anomaly_enabled)
    precision = torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
    yield ProcessSetting("torch.set_float32_matmul_precision", *precision)
    cached = torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled
    yield ProcessSetting("torch.set_autocast_cache_enabled", *cached)
    for device in ("cpu", "cuda"):
        for name in ("enabled", "dtype"):
            get, put = getattr(torch, f"{'is' if name == 'enabled' else 'get'}_autocast_{name}"), f"set_autocast_{name}"
            yield ProcessSetting(f"torch.{put} of {device}", partial(get, device), partial(getattr(torch, put), device))
    yield from _backends()
    yield ProcessSetting("torch.set_default_device", _default_device, torch.set_default_device)
    yield ProcessSetting("torch.set_printoptions", _printing, lambda value: torch.set_printoptions(**value))
    yield ProcessSetting("torch.set_warn_always", torch.is_warn_always_enabled, torch.set_warn_always)
    yield ProcessSetting("numpy.seterr", numpy.geterr, lambda value: (numpy.seterr(**value), None)[1])
    printing = numpy.get_printoptions, lambda value: numpy.set_printoptions(**value)
    yield ProcessSetting("numpy.set_printoptions", *printing)
    yield ProcessSetting("numpy.seterrcall", numpy.geterrcall, lambda value: (numpy.seterrcall(value), None)[1])
    yield ProcessSetting("numpy.setbufsize", numpy.getbufsize, lambda value: (numpy.setbufsize(value), None)[1])
    yield ProcessSetting("decimal.setcontext", _decimal, lambda value: decimal.setcontext(value[0]))
    manager = logging.root.manager
    yield ProcessSetting("logging.disable", partial(getattr, manager, "disable"), partial(setattr, manager, "disable"))


def _put_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _put_environment(value: dict[str, str]) -> None:
    """In the order of before, too."""
    same = list(takewhile(lambda pair: pair[0] == pair[1], zip(value.items(), os.environ.items(), strict=False)))
    for name in list(os.environ)[len(same) :]:
        del os.environ[name]
    os.environ.update(list(value.items())[len(same) :])


@cache
def _backends() -> tuple[ProcessSetting, ...]:
    """What torch gets and sets by functions of like names, as torch.backends does: switches and names, or several."""
    c: Any = torch._C
    found: list[ProcessSetting] = []
    for name in sorted(each.removeprefix("_set_") for each in dir(c) if each.startswith("_set_")):
        put = getattr(c, f"_set_{name}")
        get = next((getattr(c, f"{asks}{name}") for asks in ASKED if hasattr(c, f"{asks}{name}")), None)
        if get is None or name in OTHERWISE:
            continue
        try:
            value = get()
        except (TypeError, RuntimeError):  # it takes arguments, or is for a machine that is not here
            continue
        if value is not None:
            puts = partial(_unpacked, put) if isinstance(value, tuple) else put
            found.append(ProcessSetting(f"torch's {name}", get, puts))
    flags = torch.backends.cuda
    for name in ("flash", "math", "mem_efficient", "cudnn"):
        put = getattr(flags, f"enable_{name}_sdp")
        found.append(ProcessSetting(f"torch.backends.cuda.{put.__name__}", getattr(flags, f"{name}_sdp_enabled"), put))
    for each in PRECISIONS:
        get, put = partial(c._get_fp32_precision_getter, *each), partial(c._set_fp32_precision_setter, *each)
        found.append(ProcessSetting(f"fp32_precision of {' '.join(each)}", get, put))
    return tuple(found)


def _unpacked(put: Callable[..., None], value: tuple[object, ...]) -> None:
    put(*value)


ASKED = ("_get_", "_is_", "is_", "_")
"""What stands before a setting's name in the name of the function that tells it."""

PRECISIONS = (("generic", "all"), *product(("cuda", "mkldnn"), ("all", "matmul", "conv", "rnn")))
"""Backends and operators that have a precision of their own; one that is not set has the value of the one above it."""

OTHERWISE = (
    "deterministic_algorithms", "float32_matmul_precision", "thread_name", "warnAlways", "grad_enabled",
    "torch_function_state", "skip_next_torch_function", "graph_executor_optimize",
)  # fmt: skip
"""Those that other functions set, or that are no setting."""


def _decimal() -> tuple[decimal.Context, str]:
    """The context, and what a program sets of it; what its flags tell of earlier operations is no setting."""
    context = decimal.getcontext()
    traps = [kind.__name__ for kind, trapped in context.traps.items() if trapped]
    return context, repr((context.prec, context.rounding, context.Emin, context.Emax, context.clamp, traps))


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _printing() -> dict[str, object]:
    names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    return {name: getattr(torch._tensor_str.PRINT_OPTS, name) for name in names}


def _default_device() -> torch.device | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


def _python() -> Iterator[ProcessSetting]:
    yield ProcessSetting("os.environ", lambda: dict(os.environ), _put_environment)
    yield ProcessSetting("logging", _loggers, _put_loggers)
    yield ProcessSetting("warnings", lambda: list(warnings.filters), _put_filters)
    yield ProcessSetting("warnings", _warned, _put_warned)
    context = decimal.getcontext()
    yield ProcessSetting("decimal", context.copy, partial(put_decimal, context))


def _interpreter() -> Iterator[ProcessSetting]:
    """What compilers and the libraries that they import set of Python itself, and never put back: Inductor raises the
    recursion limit, and a lock of multiprocessing chooses how processes start, which a program may do once."""
    yield ProcessSetting("sys.setrecursionlimit", sys.getrecursionlimit, sys.setrecursionlimit)
    yield ProcessSetting("sys.setswitchinterval", sys.getswitchinterval, sys.setswitchinterval)
    chosen = partial(multiprocessing.get_start_method, allow_none=True)
    yield ProcessSetting("multiprocessing", chosen, partial(multiprocessing.set_start_method, force=True))
    yield from _threads()
    for module, name in EXCEPTION_HOOKS:
        get, put = partial(getattr, module, name), partial(setattr, module, name)
        yield ProcessSetting(f"{module.__name__}.{name}", get, put)


def _threads() -> Iterator[ProcessSetting]:
    """Threads that compilers start and leave waiting: those that run C++ compilers, and that with which tqdm watches
    bars of progress, as of an fx.Interpreter. What needs them starts them anew."""
    yield ProcessSetting("compiling threads", _pool, _put_pool)
    yield ProcessSetting("tqdm", _progress, _put_progress)


def _pools() -> _lru_cache_wrapper[Executor] | None:
    """What makes Inductor's threads, once, where that has been imported."""
    return getattr(getattr(sys.modules.get("torch._inductor.async_compile"), "AsyncCompile", None), "pool", None)


def _pool() -> Executor | None:
    pools = _pools()
    return pools() if pools is not None and pools.cache_info().currsize else None


def _put_pool(before: Executor | None) -> None:
    if before is None and (pools := _pools()) is not None and (pool := _pool()) is not None:
        pools.cache_clear()
        pool.shutdown()


def _progress() -> object:
    return getattr(getattr(sys.modules.get("tqdm.std"), "tqdm", None), "monitor", None)


def _put_progress(before: object) -> None:
    if before is None and _progress() is not None:
        bar = sys.modules["tqdm.std"].tqdm
        monitor, bar.monitor = bar.monitor, None
        monitor.exit()


EXCEPTION_HOOKS = ((sys, "excepthook"), (sys, "displayhook"), (sys, "unraisablehook"), (threading, "excepthook"))


def _loggers() -> dict[logging.Logger, tuple[Any, ...]]:
    known = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    return {
        each: (each.level, each.propagate, each.disabled, list(each.handlers), list(each.filters))
        for each in (logging.root, *known)
    }


UNSET_LOGGER: tuple[Any, ...] = (logging.NOTSET, True, False, [], [])
"""The settings of a logger that was just made."""


def _without_lazy(settings: tuple[Any, ...]) -> tuple[object, ...]:
    """Without torch's handler of its structured trace: where nothing is traced, the first compile removes it."""
    *others, handlers, filters = settings
    return (*others, [each for each in handlers if each is not torch._logging._internal.LOG_TRACE_HANDLER], filters)


def _put_loggers(value: dict[logging.Logger, tuple[Any, ...]]) -> None:
    new = {each: UNSET_LOGGER for each in _loggers() if each not in value and is_users_module(each.name)}
    for each, (level, propagate, disabled, handlers, filters) in {**value, **new}.items():
        if each.level != level:
            each.setLevel(level)
        each.propagate, each.disabled = propagate, disabled
        each.handlers[:], each.filters[:] = handlers, filters


def _filters() -> list[object]:
    """Those of Python's own categories: libraries add filters for theirs where they are imported."""
    return [each for each in warnings.filters if each[2].__module__ == "builtins"]


def _put_filters(value: list[object]) -> None:
    filters: Any = warnings.filters
    if list(filters) != value:
        filters[:] = value
        warnings._filters_mutated()  # type: ignore[attr-defined]


def _warned() -> dict[str, dict[object, object]]:
    """Which warnings each module has shown already, of those that have shown one."""
    found = ((name, getattr(module, "__dict__", {})) for name, module in list(sys.modules.items()))
    return {name: dict(own["__warningregistry__"]) for name, own in found if "__warningregistry__" in own}


def _put_warned(value: dict[str, dict[object, object]]) -> None:
    for name, module in list(sys.modules.items()):
        shown = getattr(module, "__dict__", {}).get("__warningregistry__")
        before = value.get(name)
        if shown is None or shown == before:
            continue
        if before is None:
            del vars(module)["__warningregistry__"]
        else:
            shown.clear()
            shown.update(before)


SettingValues = tuple[tuple[ProcessSetting, object], ...]


def _values(settings: Iterable[ProcessSetting]) -> SettingValues:
    return tuple((each, _setting_value(each.get)) for each in settings)


def _put(values: SettingValues) -> None:
    for each, value in values:
        now = _setting_value(each.get)
        if value is not UNTOLD and (isinstance(now, (torch.Tensor, tuple, list)) or repr(now) != repr(value)):
            each.put(value)


@dataclass(frozen=True, eq=False)
class Process:
    """The settings as they were."""

    values: SettingValues
    switches: dict[str, object]
    """The values of those that only the program changes, by the name of what sets them."""
    loggers: dict[logging.Logger, tuple[Any, ...]]
    environment: dict[str, str]

    @classmethod
    def now(cls) -> Process:
        switches = tuple(_switches())
        known = _values((*switches, *_going_on(), *_python(), *_interpreter()))
        values = {each.name: value for each, value in known[: len(switches)]}
        return cls(known, {**values, "warnings.filters": _filters()}, _loggers(), dict(os.environ))

    def changed_since(self, before: Process, compilers_variables: Set[str]) -> tuple[str, ...]:
        """The settings that the program changed: what an import adds is none, nor what a compiler set."""
        names = {name for name, _ in self.environment.items() ^ before.environment.items()} - compilers_variables
        loggers = (
            f"the logger {each.name}"
            for each, settings in self.loggers.items()
            if (each in before.loggers or is_users_module(each.name))
            and _without_lazy(settings) != _without_lazy(before.loggers.get(each, UNSET_LOGGER))
        )
        switches = (name for name, value in self.switches.items() if repr(value) != repr(before.switches.get(name)))
        return (*switches, *(f"os.environ[{name!r}]" for name in sorted(names)), *loggers)

    def put(self) -> None:
        _put(self.values)


@contextmanager
def put_back() -> Iterator[None]:
    """After the block the settings are as they were before it."""
    before = Process.now()
    with undone(before.put):
        yield


@contextmanager
def interpreter_put_back() -> Iterator[None]:
    """As `put_back`, of what the program does not change meanwhile: around a compiler, and not the program's code.
    What a compiler imports stays imported, and sys.path longer by where setuptools looks for the rest of itself."""
    with undone(partial(_put, _values((*_interpreter(), _next_hook())))):
        yield
