"""Hooks on stock: functions of torch that are wrapped during an exploration, and restored after it.

A hook only wraps functions. It takes none of torch's configuration slots, so a program's own passes and hooks stay.
An error in a hook is recorded and never reaches the compile.
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

from torch._C._dynamo.eval_frame import set_eval_frame
from torch._guards import CompileContext, CompileId

from explorer.ir.settings import skip_frames


@dataclass
class Call:
    """A call of a wrapped function. Before its `yield`, a hook may replace the arguments or the function; after it,
    there is a result or an error."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    instead: Callable[..., object] | None = None
    result: Any = None
    error: BaseException | None = None
    started: float = 0.0
    seconds: float = 0.0


class Watcher(Protocol):
    """Receives the calls that its own compiles make."""

    def failed(self, target: str, error: Exception) -> None:
        """A hook raised, so what it records is missing."""

    spent: float
    """Seconds in hooks so far."""


Around = Callable[[Any, Call], Iterator[None]]
"""A generator function of (watcher, call): runs up to its `yield` before the call, the rest after it."""

Before = Callable[[Any, tuple[Any, ...]], None]
"""A function of (watcher, arguments), called before the call."""


@dataclass(frozen=True)
class Patch:
    """A wrapped function of stock, "module:Class.name". `around` runs around each call; `before` runs only before it,
    which is cheaper for functions that a compile calls very often, and only if `when` says so. `instead` makes the
    replacement itself, for functions on the path of every call of compiled code, where a microsecond counts."""

    target: str
    around: Around | None = None
    before: Before | None = None
    when: Callable[[], bool] = lambda: True
    instead: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Hook:
    """Records one part of a stock compile by wrapping functions of torch.

    `missing` says what is missing from the record if this version of torch lacks the functions. `checked` are the
    versions of torch, and the devices, on which the hook was tested with the zoo.
    """

    name: str
    shows: str
    missing: str
    checked: tuple[str, ...]
    patches: tuple[Patch, ...]


_NOT_SAID = object()
_watcher: ContextVar[Any] = ContextVar("watcher of stock", default=_NOT_SAID)
_of_compile: dict[CompileId, Watcher] = {}
_everywhere: list[Watcher] = []
"""Watchers of all threads that have none of their own; the last one counts."""


def watcher() -> Watcher | None:
    """The watcher of the current thread. On autograd's own threads, it is found by the compile's id."""
    found = _watcher.get()
    if found is not None and found is not _NOT_SAID:
        return found  # type: ignore[no-any-return]
    id = CompileContext.current_compile_id() if _of_compile else None
    if id is not None and id in _of_compile:
        return _of_compile[id]
    return _everywhere[-1] if _everywhere and found is _NOT_SAID else None


class _Installed:
    """The installed patches. Explorations may nest and run in threads: the first that needs a hook installs it, and
    the last to end removes all."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0
        self.hooks: list[Hook] = []
        self.places: list[tuple[object, str, object, object]] = []
        self.missing: dict[str, str] = {}

    def enter(self, hooks: tuple[Hook, ...]) -> None:
        with self.lock:
            self.users += 1
            for hook in hooks:
                if hook not in self.hooks:
                    self.hooks.append(hook)
                    for watch in hook.patches:
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
                self.hooks.clear()

    def _wrap(self, watch: Patch) -> None:
        try:
            owner, name = located(watch.target)
        except (ImportError, AttributeError) as error:
            self.missing[watch.target] = str(error)
            return
        before = vars(owner)[name]
        if isinstance(before, (classmethod, staticmethod)):
            ours: object = type(before)(_wrapped(before.__func__, watch))
        else:
            ours = _wrapped(before, watch)
        self.places.append((owner, name, before, ours))
        setattr(owner, name, ours)


_installed = _Installed()


def located(target: str) -> tuple[object, str]:
    """The module or class that holds "module:Class.name" itself, and the name. Raises ImportError or AttributeError."""
    module, _, path = target.partition(":")
    owner: object = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    if name not in vars(owner):
        raise AttributeError(f"{target} does not exist in this torch")
    return owner, name


def _wrapped(function: Callable[..., object], watch: Patch) -> Any:
    if watch.instead is not None:
        return watch.instead(function)
    if watch.around is not None:
        return _surrounded(function, watch.target, watch.around)
    assert watch.before is not None, watch
    return _preceded(function, watch.target, watch.before, watch.when)


def _preceded(
    function: Callable[..., object], target: str, before: Before, when: Callable[[], bool]
) -> Callable[..., object]:
    clock = time.perf_counter

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> object:
        watch = watcher() if when() else None
        if watch is not None:
            entered, callback = clock(), set_eval_frame(None)
            try:
                before(watch, args)
            except Exception as error:
                watch.failed(target, error)
            finally:
                set_eval_frame(callback)
            watch.spent += clock() - entered
        return function(*args, **kwargs)

    return unseen(wrapper)


def _surrounded(function: Callable[..., object], target: str, around: Around) -> Callable[..., object]:
    clock = time.perf_counter

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> object:
        watch = watcher()
        if watch is None:
            return function(*args, **kwargs)
        entered, callback = clock(), set_eval_frame(None)
        call = Call(args, kwargs)
        steps: Iterator[None] | None = around(watch, call)
        try:
            next(steps)  # type: ignore[arg-type]
        except StopIteration:
            steps = None
        except Exception as error:
            steps = None
            call.args, call.kwargs, call.instead = args, kwargs, None
            watch.failed(target, error)
        finally:
            set_eval_frame(callback)
        call.started = clock()
        watch.spent += call.started - entered
        try:
            call.result = (call.instead or function)(*call.args, **call.kwargs)
        except BaseException as error:
            call.error = error
            raise
        finally:
            ended = clock()
            call.seconds = ended - call.started
            if steps is not None:
                callback = set_eval_frame(None)
                try:
                    next(steps, None)
                except Exception as error:
                    watch.failed(target, error)
                finally:
                    set_eval_frame(callback)
                watch.spent += clock() - ended
            call.error = None  # its traceback holds this frame, and so what the program let go of meanwhile
        return call.result

    return unseen(wrapper)


def unseen(wrapper: Callable[..., object]) -> Callable[..., Any]:
    """Who looks at every frame that starts in what is compiled, Dynamo and we, does not look at a hook's."""
    for function in (wrapper, watcher):
        skip_frames(function)
    return wrapper


@contextmanager
def watching(watch: Watcher, hooks: tuple[Hook, ...], everywhere: bool = False) -> Iterator[dict[str, str]]:
    """Notify `watch` of the compiles that this thread starts inside the block, and of their backwards; `everywhere`: of
    those of all threads that nobody else watches.

    Yields the targets that this torch lacks, with why.
    """
    _installed.enter(hooks)
    token = None if everywhere else _watcher.set(watch)
    if everywhere:
        _everywhere.append(watch)
    try:
        yield dict(_installed.missing)
    finally:
        if token is None:
            _everywhere.remove(watch)
        else:
            _watcher.reset(token)
        for id in [id for id, owner in _of_compile.items() if owner is watch]:
            del _of_compile[id]
        _installed.leave()


def is_watched() -> bool:
    """Whether there is a watcher of all threads."""
    return bool(_everywhere)


@contextmanager
def unwatched() -> Iterator[None]:
    """Hooks ignore what this thread does inside the block."""
    token = _watcher.set(None)
    try:
        yield
    finally:
        _watcher.reset(token)


def owns(id: CompileId, watch: Watcher) -> None:
    """From now on what happens in the compile `id` on a thread that nobody watches is reported to `watch`."""
    _of_compile[id] = watch
