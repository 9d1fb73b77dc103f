"""Watching stock: functions of torch that are wrapped while somebody explores, and given back when nobody does.

A hook wraps, it never takes one of torch's configuration slots, so that a program's own passes and hooks stay. What
goes wrong in a hook is noted and never reaches the compile that it watches.
"""

from __future__ import annotations

import functools
import importlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from torch._guards import CompileContext, CompileId


@dataclass
class Call:
    """A call of a watched function. Before it yields, a watcher may replace the arguments, or what is called; then
    there is a result, or the error that ended the call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    instead: Callable[..., Any] | None = None
    result: Any = None
    error: BaseException | None = None
    started: float = 0.0
    seconds: float = 0.0


class Watcher(Protocol):
    """Who is told: gets the calls that its own compiles make."""

    def failed(self, target: str, error: Exception) -> None:
        """A hook raised; what it would have shown is missing."""

    spent: float
    """Seconds in hooks so far."""


Around = Callable[[Any, Call], Iterator[None]]
"""A generator function of (watcher, call): runs up to its `yield` before the call, the rest after it."""

Before = Callable[[Any, tuple[Any, ...]], None]
"""A function of (watcher, arguments), called before the call."""


@dataclass(frozen=True)
class Watch:
    """One function of stock, "module:Class.name", and what is done around each call of it, or only before it: that
    costs less where a function is called ten thousands of times in a compile."""

    target: str
    around: Around | None = None
    before: Before | None = None


@dataclass(frozen=True)
class Hook:
    """A part of the record that stock's functions are watched for.

    `missing` says what a person sees instead where this torch has no such function. `checked` are the versions of
    torch, and the machines, on which the hook ran over the zoo.
    """

    name: str
    shows: str
    missing: str
    checked: tuple[str, ...]
    watches: tuple[Watch, ...]


_watcher: ContextVar[Watcher | None] = ContextVar("watcher of stock", default=None)
_of_compile: dict[CompileId, Watcher] = {}


def watcher() -> Watcher | None:
    """Who watches the current thread. A backward is compiled on autograd's own thread, where its compile's id tells."""
    found = _watcher.get()
    if found is not None or not _of_compile:
        return found
    id = CompileContext.current_compile_id()
    return None if id is None else _of_compile.get(id)


class _Installed:
    """The wrapped functions. Explorations may nest and run in threads: the first installs, the last removes."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0
        self.places: list[tuple[Any, str, Any, Any]] = []
        self.missing: dict[str, str] = {}

    def enter(self, hooks: tuple[Hook, ...]) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                for hook in hooks:
                    for watch in hook.watches:
                        self._wrap(watch)

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                while self.places:
                    owner, name, before, ours = self.places.pop()
                    if vars(owner).get(name) is ours:
                        setattr(owner, name, before)
                self.missing.clear()

    def _wrap(self, watch: Watch) -> None:
        try:
            owner, name = located(watch.target)
        except (ImportError, AttributeError) as error:
            self.missing[watch.target] = str(error)
            return
        before = vars(owner)[name]
        if isinstance(before, (classmethod, staticmethod)):
            ours: Any = type(before)(_wrapped(before.__func__, watch))
        else:
            ours = _wrapped(before, watch)
        self.places.append((owner, name, before, ours))
        setattr(owner, name, ours)


_installed = _Installed()


def located(target: str) -> tuple[Any, str]:
    """The module or class that holds "module:Class.name" itself, and the name. Raises ImportError or AttributeError."""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    if name not in vars(owner):
        raise AttributeError(f"{target} does not exist in this torch")
    return owner, name


def _wrapped(function: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    if watch.around is not None:
        return _surrounded(function, watch.target, watch.around)
    assert watch.before is not None, watch
    return _preceded(function, watch.target, watch.before)


def _preceded(function: Callable[..., Any], target: str, before: Before) -> Callable[..., Any]:
    clock = time.perf_counter

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        told = watcher()
        if told is not None:
            entered = clock()
            try:
                before(told, args)
            except Exception as error:
                told.failed(target, error)
            told.spent += clock() - entered
        return function(*args, **kwargs)

    return wrapper


def _surrounded(function: Callable[..., Any], target: str, around: Around) -> Callable[..., Any]:
    clock = time.perf_counter

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        told = watcher()
        if told is None:
            return function(*args, **kwargs)
        entered = clock()
        call = Call(args, kwargs)
        steps: Iterator[None] | None = around(told, call)
        try:
            next(steps)  # type: ignore[arg-type]
        except StopIteration:
            steps = None
        except Exception as error:
            steps = None
            call.args, call.kwargs, call.instead = args, kwargs, None
            told.failed(target, error)
        call.started = clock()
        told.spent += call.started - entered
        try:
            call.result = (call.instead or function)(*call.args, **call.kwargs)
        except BaseException as error:
            call.error = error
            raise
        finally:
            ended = clock()
            call.seconds = ended - call.started
            if steps is not None:
                try:
                    next(steps, None)
                except Exception as error:
                    told.failed(target, error)
                told.spent += clock() - ended
        return call.result

    return wrapper


@contextmanager
def watching(told: Watcher, hooks: tuple[Hook, ...]) -> Iterator[dict[str, str]]:
    """Tell `told` of the compiles that this thread starts inside the block, and of their backwards.

    Yields the targets that this torch lacks, with why.
    """
    _installed.enter(hooks)
    token = _watcher.set(told)
    try:
        yield dict(_installed.missing)
    finally:
        _watcher.reset(token)
        for id in [id for id, owner in _of_compile.items() if owner is told]:
            del _of_compile[id]
        _installed.leave()


@contextmanager
def unwatched() -> Iterator[None]:
    """Nobody is told of what this thread does inside the block."""
    token = _watcher.set(None)
    try:
        yield
    finally:
        _watcher.reset(token)


def owns(id: CompileId, told: Watcher) -> None:
    """From now on what happens in the compile `id` on a thread that nobody watches is told to `told`."""
    _of_compile[id] = told
