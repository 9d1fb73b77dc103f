"""The way in: wrap a function or module so that its frames are compiled when it is called, each frame that a compiled
object starts with over code of its own. Stock: eval_frame.py.
"""

from __future__ import annotations

import collections
import copy
import functools
import gc
import inspect
import os
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from explorer.compiler.capture import hook, reasons
from explorer.compiler.capture.capture import FullGraphError
from explorer.compiler.capture.guards import failures, instance_dict
from explorer.compiler.capture.values.base import TORCH_DIR
from explorer.compiler.capture.values.constant import is_plain
from explorer.compiler.capture.values.modules import calls_forward
from explorer.compiler.capture.wrap import ORIGINAL
from explorer.compiler.config import Config
from explorer.core.files import OWN_FILES, is_standard
from explorer.core.libraries import is_written_in_c
from explorer.core.reasons import Why
from explorer.core.recorder import compile_scope, note, recorder
from explorer.core.rules import YOUR_RULE, Rules, in_force
from explorer.ir.bytecode import Code
from explorer.ir.capture import (
    CallSkipped,
    CompilerBug,
    Continued,
    FrameHistory,
    FrameSkipped,
    GuardedCode,
    GuardFailed,
    GuardRoot,
    InputFrame,
)
from explorer.ir.description import is_of
from explorer.ir.settings import skip_frames


def clone(function: types.FunctionType, qualname: str = "") -> types.FunctionType:
    """The same function over a code object of its own, so that no other engine's entries are on it."""
    qualname = qualname or function.__code__.co_qualname
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, None, function.__closure__)
    _take_over(made, function, qualname)
    made.__dict__.update(function.__dict__)
    made.__qualname__ = function.__qualname__
    return made


def _take_over(made: types.FunctionType, function: types.FunctionType, qualname: str) -> None:
    made.__code__ = function.__code__.replace(co_qualname=qualname)
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__


def watched(
    engine: Any, function: types.FunctionType, qualname: str = "", bound: object = None
) -> Callable[..., object]:
    """A call of `function`, or of the method of `bound`, that `engine` sees; also after the program has given it other
    code or defaults."""
    made = clone(function, qualname)
    engine.roots.append(made.__code__)

    def update() -> None:
        _take_over(made, function, qualname or function.__code__.co_qualname)
        engine.roots.append(made.__code__)

    return hook.watched(engine, made if bound is None else types.MethodType(made, bound), function, update)


def call_of(target: Callable[..., object]) -> types.FunctionType:
    """A Python function that calls `target`, for what is none or does more than its own body says. No source is shown
    for it: the program has none."""

    def call(*args: object, **kwargs: object) -> object:
        return target(*args, **kwargs)

    assert isinstance(call, types.FunctionType)
    name = getattr(target, "__name__", type(target).__name__)
    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name, co_filename=f"<call of {name}>")
    return call


def watched_callable(target: Callable[..., object], engine: object) -> Callable[..., object]:
    """A call of `target` that `engine` sees."""
    if isinstance(target, types.FunctionType):
        return watched(engine, target)
    if isinstance(target, types.MethodType) and isinstance(target.__func__, types.FunctionType):
        return watched(engine, target.__func__, bound=target.__self__)
    whole = watched(engine, call_of(target))
    kind = type(target)
    method = getattr(kind, "__call__", None)  # noqa: B004
    if not isinstance(method, types.FunctionType):
        return whole
    alone = watched(engine, method, bound=target)

    def call(*args: object, **kwargs: object) -> object:
        return (alone if kind.__call__ is method else whole)(*args, **kwargs)

    skip_frames(call)
    return call


def watched_module(module: torch.nn.Module, engine: object) -> Callable[..., object]:
    """A call of the module that `engine` sees. It starts at the module's own forward, where calling it is no more than
    that; else at a call of it, so that hooks become part of the graph."""
    kind = type(module)
    whole = call_of(module)
    whole.__code__ = whole.__code__.replace(co_name=kind.__name__, co_qualname=kind.__name__)
    with_hooks = watched(engine, whole)
    forward = getattr(kind, "forward", None)
    if not isinstance(forward, types.FunctionType):
        return with_hooks
    alone = watched(engine, forward, f"{kind.__name__}.forward", module)

    def call(*args: object, **kwargs: object) -> object:
        is_forward = "forward" not in module.__dict__ and kind.forward is forward and calls_forward(module)
        return (alone if is_forward else with_hooks)(*args, **kwargs)

    skip_frames(call)
    return call


CompileFrame = Callable[[InputFrame, Config], GuardedCode]

_MODULES_DIR = os.path.join(TORCH_DIR, "nn", "modules") + os.sep
_STEPS = frozenset(inspect.unwrap(kind.step).__code__ for kind in torch.optim.Optimizer.__subclasses__())
_NEVER = (OWN_FILES, "<explorer", "<frozen", "<string>", "<__array_function__", os.path.dirname(np.__file__) + os.sep)


MOST_RULES = 8
"""The number of sets of user rules for which one function keeps compiled code; the oldest is dropped first."""

ONE_AT_A_TIME = threading.RLock()
"""Tracing changes state that threads share, such as the random generator: one frame is compiled at a time."""


@dataclass(eq=False)
class _Family:
    """A function and all continuations of it, which have the same continuations."""

    continuations: Mapping[str, Continued] = field(default_factory=dict)
    base: Code | None = None


@dataclass(eq=False)
class _Known:
    """A code object that the engine has met, its number, and what was made of it."""

    code: types.CodeType
    number: int
    history: FrameHistory
    family: _Family
    made: list[GuardedCode] = field(default_factory=list)
    left_alone: bool = False
    """Whether a call of it used no tensor."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cyclic collection inside: nearly all that a compile makes is alive until it ends, and a full collection in a
    process with large libraries takes a third of a compile's time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class BackendFailed(RuntimeError):
    """A backend that the user chose raised. Stock: BackendCompilerFailed."""

    reaches_program = True


class Forbidden(RuntimeError):
    """The program asked for an error where a frame cannot be compiled, or would be compiled again."""


class Engine:
    """The compiler of one wrapped function: the callback that sees its frames, and what it remembers of their code.

    Frames nest: what the function calls for real, after a break, is seen too.
    """

    def __init__(self, config: Config, compile_frame: CompileFrame) -> None:
        self.config = config
        self.compile_frame = compile_frame
        self.roots: list[types.CodeType] = []
        """The code that the wrapped function starts with; captured wherever it is from."""
        self._torchdynamo_orig_backend = object()
        """Identifies this engine in cache entries on code objects. The engine itself there would make a reference cycle
        through C++, which the garbage collector does not find."""
        self._managers: list[weakref.ref[GuardRoot]] = []
        weakref.finalize(self, _discard, self._managers)
        self._under: dict[Rules, Engine] = {}
        self._codes: dict[int, _Known] = {}
        """Keyed by id: code objects of equal functions are equal, and those with some constants cannot be hashed."""

    def under(self, rules: Rules) -> Engine:
        """This engine, or, if user rules are in force, an engine for these rules with cache entries of its own."""
        rules = rules.over(self.config.rules)
        if rules == self.config.rules:
            return self
        if rules not in self._under:
            if len(self._under) == MOST_RULES:
                del self._under[next(iter(self._under))]
            self._under[rules] = Engine(replace(self.config, rules=rules), self.compile_frame)
            self._under[rules].roots = self.roots
        return self._under[rules]

    def __call__(self, frame: Any, entry: object, state: object) -> object:
        """The callback: no compiled code of this frame accepts its locals. Nobody watches while it runs. An error of
        ours is recorded, and the frame runs as it is."""
        try:
            return self._asked(frame)
        except (FullGraphError, BackendFailed, Forbidden):
            raise
        except Exception:
            note(CompilerBug, frame.f_code.co_qualname, traceback.format_exc())
            return hook.AS_IT_IS

    def _asked(self, frame: Any) -> object:
        if ONE_AT_A_TIME._is_owned():  # type: ignore[attr-defined]
            return hook.AS_IT_IS  # the compiler reads an object of the program, whose class has compiled methods
        if not self.wanted(frame.f_code) or is_importing():
            own = frame.f_code.co_filename.startswith((OWN_FILES, *watching())) and not self.is_root(frame.f_code)
            return hook.NEVER_ASK if own else hook.AS_IT_IS
        match hook.stance():
            case "eager_on_recompile":
                return hook.AS_IT_IS
            case "fail_on_recompile":
                raise Forbidden("a compile is needed, and torch.compiler.set_stance('fail_on_recompile') forbids it")
        with ONE_AT_A_TIME:
            return self._answer(frame)

    def _answer(self, frame: Any) -> object:
        code = frame.f_code
        seen = self._known(code)
        if seen.history.gave_up is not None:
            return hook.AS_IT_IS
        for made in seen.made:  # stock's reset took its entry away, or another thread just made it
            assert made.code is not None and made.manager is not None
            if made.manager.check(dict(frame.f_locals)):
                return hook.run_instead(made.code, made.manager, seen.number, seen.history.compiles)
        given = self._frame(frame, seen)
        if active := hook.modes():
            note(CallSkipped, given.code.co_qualname, Why(reasons.FRAME_MODE, active))
            return hook.AS_IT_IS
        if not self.is_root(code) and not may_use_tensors(code, given.locals, given.globals):
            if not seen.left_alone:
                seen.left_alone = True
                note(CallSkipped, given.code.co_qualname, Why(reasons.FRAME_NO_TENSOR))
            return hook.AS_IT_IS
        title = getattr(code, "co_qualname", code.co_name)
        if seen.history.compiles >= self.config.recompile_limit:
            return self._give_up(given, Why(reasons.RECOMPILE_LIMIT, f"{seen.history.compiles} times"), seen)
        try:
            with compile_scope(given.id, title) as name, collector_paused():
                self._note_recompile(given, seen.made)
                with hook.modes_put_aside(), in_force(self.config.rules):
                    guarded = _recorded(self.compile_frame(given, self.config), name)
        except (FullGraphError, BackendFailed):
            raise
        except Exception as bug:
            note(CompilerBug, given.id, traceback.format_exc())
            message = f"{type(bug).__name__}: {bug}"
            if rules := self.config.rules:
                return self._give_up(given, Why(YOUR_RULE, f"{message}, with {rules}"), seen)
            return self._give_up(given, Why(reasons.COMPILER_BUG, message), seen)
        return self._accept(given, guarded, seen)

    def _known(self, code: types.CodeType) -> _Known:
        if id(code) not in self._codes:
            self._codes[id(code)] = self._new(code)
        return self._codes[id(code)]

    def _new(self, code: types.CodeType) -> _Known:
        for seen in self._codes.values():
            for made in seen.family.continuations.values():
                if made.code is code:
                    history = FrameHistory(self._sizes_seen_at(made), body=made.body, continues=made.compile)
                    return _Known(code, len(self._codes), history, seen.family)
        return _Known(code, len(self._codes), FrameHistory(), _Family())

    def _sizes_seen_at(self, made: Continued) -> Mapping[str, tuple[int | float | None, ...] | None]:
        """The sizes that the continuation of the other side of the branch has met: both get the same locals."""
        others = (known.history for known in self._codes.values() if known.history.continues == made.compile)
        return next((history.sizes for history in others), {})

    def _frame(self, frame: Any, seen: _Known) -> InputFrame:
        code, family = seen.code, seen.family
        history = replace(seen.history, continuations=family.continuations, base=family.base)
        locals = dict(frame.f_locals)
        cells = dict(zip(code.co_freevars, frame.closure, strict=False))
        for name, cell in cells.items():
            try:
                locals[name] = cell.cell_contents
            except ValueError:
                locals.pop(name, None)
        suffix = f".{history.compiles}" if history.compiles else ""
        return InputFrame(
            f"f{seen.number}{suffix}", code, locals, frame.f_globals, frame.f_builtins, cells, history, hook.devices()
        )

    def _accept(self, given: InputFrame, guarded: GuardedCode, seen: _Known) -> object:
        if guarded.code is None or guarded.manager is None:
            assert guarded.fallback is not None
            return self._give_up(given, guarded.fallback, seen)
        history = guarded.history
        seen.history = replace(history, compiles=history.compiles + 1)
        seen.family.continuations, seen.family.base = history.continuations, history.base
        seen.made.append(guarded)
        if (current := recorder()) is not None:
            current.made.add(guarded.manager)
        self._managers.append(weakref.ref(guarded.manager))
        return hook.run_instead(guarded.code, guarded.manager, seen.number, seen.history.compiles)

    def _give_up(self, given: InputFrame, why: Why, seen: _Known) -> object:
        seen.history = replace(seen.history, gave_up=why)
        note(FrameSkipped, given.id, f"{given.code.co_filename}:{given.code.co_firstlineno}", why)
        if self.config.fullgraph and why.code == reasons.COMPILER_BUG and self.is_root(given.code):
            raise Forbidden(f"fullgraph=True, and the compiler failed: {why}")
        return hook.AS_IT_IS

    def _note_recompile(self, given: InputFrame, before: list[GuardedCode]) -> None:
        """Say of each earlier compile which of its guards refuse this call, that at which its check stops first."""
        current = recorder()
        if current is None:
            return
        for made in before:
            assert made.manager is not None
            name = made.name if made.manager in current.made else ""
            message = made.manager.failure(dict(given.locals))
            failed = failures(made.guards, given, message)
            for guard, how in failed:
                note(GuardFailed, name, guard.id, guard.text, how)
            if not failed and message:
                note(GuardFailed, name, "", message, "only the C++ check sees what differs")

    def wanted(self, code: types.CodeType) -> bool:
        """Whether to capture frames of this code: not those of the standard library, of this package, or of torch
        except its modules and optimizers."""
        if self.is_root(code):
            return True
        file = code.co_filename
        if code.co_name == "<module>" or file.startswith((*_NEVER, *watching())) or is_standard(file):
            return False
        if file.startswith(TORCH_DIR):
            return code in _STEPS or file.startswith(_MODULES_DIR) and code.co_name == "forward"
        return True

    def is_root(self, code: types.CodeType) -> bool:
        return any(code is root for root in self.roots)


def _recorded(made: GuardedCode, name: str) -> GuardedCode:
    """With the id that the record gave the compile, by which later compiles name it and the continuations it made."""
    if name == made.name:
        return made
    known = made.history.continuations
    renamed = {key: replace(each, compile=name) if each.compile == made.name else each for key, each in known.items()}
    return replace(made, name=name, history=replace(made.history, continuations=renamed))


WATCHING = ("pydevd", "coverage")
"""Modules of debuggers and coverage tools, whose code runs on each line of a program."""


def watching() -> tuple[str, ...]:
    """Prefixes of files whose functions run within a program without being called by it."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in WATCHING)
    return tuple(os.path.dirname(file) + os.sep for file in files if file)


def is_importing() -> bool:
    """Whether this frame is part of an import that the compiled function caused, which happens once."""
    frame: Any | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename not in ("<frozen importlib._bootstrap>", hook.__file__):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename != hook.__file__


def _discard(managers: list[weakref.ref[GuardRoot]]) -> None:
    """Code objects outlive an engine: a helper's, a method's of a class that other instances have."""
    for manager in managers:
        if (left := manager()) is not None:
            left.discard()


def optimize(target: object, config: Config, compile_frame: CompileFrame) -> Any:
    """`target`, a function, method, class instance with __call__, or module, compiled at its calls by `compile_frame`.

    A module comes back as a module that shares everything with the original. Raises TypeError for what is not callable.
    """
    if isinstance(target, torch.nn.Module):
        return OptimizedModule(target, config, compile_frame)
    if isinstance(target, type) and issubclass(target, torch.nn.Module):
        return _module_class(target, config, compile_frame)
    if not callable(target):
        raise TypeError(f"cannot compile a {type(target).__name__}: it is not callable")
    if ORIGINAL in getattr(target, "__dict__", {}):
        return target
    engine = Engine(config, compile_frame)
    compiled: Any = watched_callable(target, engine)
    functools.update_wrapper(compiled, target)
    compiled.__wrapped__ = target
    compiled.__explorer_engine__ = engine
    setattr(compiled, ORIGINAL, target)
    if isinstance(target, types.FunctionType):
        compiled._torchdynamo_inline = target  # stock traces this function instead of the compiled one
    return compiled


def _module_class(target: Any, config: Config, compile_frame: CompileFrame) -> object:
    """A class whose instances come back compiled."""

    @functools.wraps(target, updated=())
    def make(*args: object, **kwargs: object) -> OptimizedModule:
        return OptimizedModule(target(*args, **kwargs), config, compile_frame)

    return make


class OptimizedModule(torch.nn.Module):
    """A module whose calls are compiled. Attributes, parameters, hooks, state_dict and modes are the original's."""

    def __init__(self, module: torch.nn.Module, config: Config, compile_frame: CompileFrame) -> None:
        object.__setattr__(self, "_orig_mod", module)
        object.__setattr__(self, "_settings", (config, compile_frame))
        engine = Engine(config, compile_frame)
        object.__setattr__(self, "__explorer_engine__", engine)
        object.__setattr__(self, "_call", watched_module(module, engine))
        object.__setattr__(self, ORIGINAL, module)

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._call(*args, **kwargs)

    def forward(self, *args: object, **kwargs: object) -> object:
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_orig_mod"), name)

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN:
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_orig_mod"), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return dir(self._orig_mod)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._orig_mod!r})"

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __getitem__(self, key: object) -> object:
        return self._orig_mod[key]

    def __iter__(self) -> object:
        return iter(self._orig_mod)

    def __copy__(self) -> OptimizedModule:
        return OptimizedModule(copy.copy(self._orig_mod), *self._settings)

    def __deepcopy__(self, memo: dict[int, object]) -> OptimizedModule:
        return OptimizedModule(copy.deepcopy(self._orig_mod, memo), *self._settings)

    def __reduce__(self) -> Any:
        return (_same, (self._orig_mod,))

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._orig_mod.forward)


_OWN = frozenset(
    "_orig_mod _settings _call forward __call__ __class__ __copy__ __deepcopy__ __reduce__ __reduce_ex__ __repr__ "
    "__dir__ __bool__ __len__ __getitem__ __iter__ __setattr__ __delattr__ __signature__ __explorer_engine__ "
    "__init__ __new__".split()
) | {ORIGINAL}


# Stock breaks at a call, and does not trace how this class passes on what it is asked for.
OptimizedModule.__call__._torchdynamo_disable = True  # type: ignore[attr-defined]


def _same(module: torch.nn.Module) -> torch.nn.Module:
    """Unpickling gives the original module, not a compiled one."""
    return module


# ----------------------------------------------------------------------------------------------- frames without tensors
#
# Whether a frame that is about to run may touch a tensor at all. Stock: convert_frame.py, has_tensor_in_frame.


DEEPEST = 4
MOST = 200
"""How deep in objects, and in how many of them, a tensor is searched; a frame with more is assumed to have one."""


def may_use_tensors(code: types.CodeType, locals: Mapping[str, object], globals: Mapping[str, object]) -> bool:
    """Whether a tensor, a module or torch itself can be reached from what the frame is given or names.

    Functions that it calls are frames of their own, which are asked for themselves.
    """
    named = (globals[name] for name in set(_names(code)) if name in globals)
    return any(_is_torchs(value) for value in (*named, *locals.values())) or _holds_tensor(locals.values())


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that the body and the bodies inside it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_torchs(value: object) -> bool:
    kind = type(value)  # `__class__` may be code of the program, and a proxy's object may have been freed
    if issubclass(kind, types.ModuleType):
        return str(vars(value).get("__name__")).partition(".")[0] == "torch"
    if issubclass(kind, (torch.Tensor, torch.nn.Module)):
        return True
    if not callable(value) or kind is weakref.CallableProxyType:
        return False
    try:  # do not call a `__getattribute__` of the program
        plain = type if issubclass(kind, type) else object
        module = value.__module__ if is_written_in_c(kind) else plain.__getattribute__(value, "__module__")
    except AttributeError:
        return False
    return isinstance(module, str) and module.partition(".")[0] == "torch"


def _holds_tensor(values: Iterable[object]) -> bool:
    pending = [(value, 0) for value in values]
    for looked, (value, depth) in enumerate(pending):
        inside = _inside(value)
        if inside is None or looked > MOST or (inside and depth == DEEPEST):
            return True
        pending += [(item, depth + 1) for item in inside]
    return False


def _inside(value: object) -> list[object] | None:
    """The attributes and items of an object, read without running its code; None for a tensor, an array, a module, and
    any object that cannot be read so."""
    kind = type(value)
    if issubclass(kind, (np.ndarray, np.generic)):
        return None
    if is_plain(value) or issubclass(kind, (type, types.ModuleType, types.BuiltinFunctionType)):
        return []
    if issubclass(kind, (torch.Tensor, torch.nn.Module)):
        return None
    if is_of(value, types.MethodType):
        return [value.__self__, value.__func__]
    if is_of(value, types.FunctionType):
        return [*_contents(value.__closure__ or ()), *(value.__defaults__ or ()), *value.__dict__.values()]
    classes = list(kind.__mro__)
    while not is_written_in_c(classes[0]):
        if vars(classes.pop(0)).get("__slots__"):
            return None
    base = classes[0]
    if base not in _CONTAINERS:
        return None
    return [*_CONTAINERS[base](value), *(instance_dict(value) or {}).values()]


def _contents(cells: Iterable[types.CellType]) -> list[object]:
    found = []
    for cell in cells:
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue  # the cell is empty
    return found


_CONTAINERS: Mapping[type, Callable[[Any], Iterable[Any]]] = {
    object: lambda value: (), dict: dict.values, collections.OrderedDict: dict.values,
    collections.defaultdict: dict.values, list: list.__iter__, tuple: tuple.__iter__, set: set.__iter__,
    frozenset: frozenset.__iter__,
}  # fmt: skip
"""How to list an object's contents, by its nearest base class that is written in C."""
