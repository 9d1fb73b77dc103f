"""The only file that touches torch's frame-evaluation shim (PEP 523), but for ir/settings.py, and its C++ guard
primitives.

Entries made here live on code objects that stock Dynamo may use too, so each guard manager carries every attribute that
Dynamo reads of its own; SKIP is set on this package's own code objects alone. torch 2.11 and 2.13 differ in what each
guard takes; that difference is `_verbose`.
"""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._C._dynamo import eval_frame
from torch._C._dynamo import guards as primitives
from torch._guards import CompileId
from torch.autograd import forward_ad
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from explorer.compiler.capture.reasons import FRAME_MODE
from explorer.core.reasons import Why
from explorer.core.recorder import note
from explorer.core.rules import rules_in_force
from explorer.ir.capture import CallSkipped, CompilerBug, GuardRoot
from explorer.ir.settings import skip_frames

GuardManager = primitives.GuardManager
_TAKES_STACK = "arg2" in (primitives.GuardManager.add_type_match_guard.__doc__ or "")
"""Whether guards take a user stack after the verbose parts (2.13), or the verbose parts alone (2.11)."""


functorch: Any = torch._C._functorch
OVERRIDES: Any = torch.overrides  # it carries no types

PLAIN: Any = object()
"""The kind of guard manager asked for. C++ looks at it only where the example is a dict, and imports Dynamo to do so;
and it asks each example for its class, which the program may say in Python. It is therefore shown none."""


_STOCK_GUARDS = "torch._dynamo.guards"
_STOCK_UTILS = "torch._dynamo.utils"
"""Modules of stock that know which code its compiled code was made from. Looked up, not imported: stock may not be
loaded."""


class Manager:
    """A root guard manager, in the wrapper that frame evaluation and stock Dynamo expect. `kept` lives as long."""

    def __init__(self, root: Any, namespace: dict[str, object], kept: Sequence[object]) -> None:
        self.root = root
        self.kept = kept
        self.code: types.CodeType | None = None
        """What runs while the guards hold."""
        self.diff_guard_root = None
        self.closure_vars: dict[str, object] = {}
        self.args: list[str] = []
        self.code_parts: list[str] = []
        self.verbose_code_parts: list[str] = []
        self.global_scope: dict[str, object] = {"G": namespace}
        self.guard_fail_fn = None
        self.cache_entry: object = None
        self.extra_state: Any = None
        self.id_matched_objs: dict[str, object] = {}
        self.no_tensor_aliasing_sources: list[str] = []
        self.printed_relational_guards: set[object] = set()
        self.diff_guard_sources: set[str] = set()

    def check(self, locals: dict[str, object]) -> bool:
        return bool(self.root.check(locals))

    def check_verbose(self, locals: dict[str, object]) -> object:
        """The first guard that fails, as C++ reports it: `.result`, `.verbose_code_parts`.

        Stock asks this of each entry that it meets on a code object, and next looks up whose code the entry's is. It
        meets ours before 2.13, and later where threads compile at once, since the region is one for all threads.
        """
        utils = sys.modules.get(_STOCK_UTILS)
        if utils is not None:
            utils.orig_code_map[self.code] = self.code
        return self.root.check_verbose(locals)

    def collect_diff_guard_sources(self) -> set[str]:
        """For stock: no guards of ours are to be tried before others."""
        return set()

    def populate_diff_guard_manager(self) -> None:
        """For stock: nothing follows from guards of others."""

    def failure(self, locals: dict[str, object]) -> str:
        """The first guard that fails, as text; empty where all hold."""
        found = self.root.check_verbose(locals)
        return "" if found.result else "; ".join(map(str, found.verbose_code_parts))

    def discard(self) -> None:
        """Take what runs, and these guards, off the code object. A shell that accepts nothing stays on it."""
        if self.cache_entry is not None:
            self.extra_state.invalidate(self.cache_entry, _Discarded(None, {}, ()))


class _Discarded(Manager):
    """What stands on a code object in place of a discarded manager; stock takes it for its own kind of that."""

    invalidation_reason = "what compiled this was dropped"

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        stock = sys.modules.get(_STOCK_GUARDS)
        return _Discarded if stock is None else stock.DeletedGuardManagerWrapper

    def check(self, locals: dict[str, object]) -> bool:
        return False


class Guards:
    """Builds a root guard manager. Each `add_*` takes a manager of this tree, and the guard's text."""

    def __init__(self, code: types.CodeType) -> None:
        self.root = primitives.RootGuardManager()
        self._slots = {name: slot for slot, name in enumerate(eval_frame.code_framelocals_names(code))}

    # Where values are

    def local(self, name: str) -> GuardManager:
        return self.root.framelocals_manager((name, self._slots[name]), f"L[{name!r}]", None, PLAIN)

    def namespace(self, label: str, held: dict[str, object]) -> GuardManager:
        return self.root.globals_dict_manager(held, label, None, PLAIN)

    def attribute(self, base: GuardManager, name: str, text: str) -> GuardManager:
        return base.getattr_manager(name, text, None, PLAIN)

    def instance_dict(self, base: GuardManager, text: str) -> GuardManager:
        return base.get_generic_dict_manager(text, None, PLAIN)

    def members(self, base: GuardManager, text: str) -> GuardManager:
        """The dictionary of a class itself, without the proxy."""
        return base.type_dict_manager(text, None, PLAIN)

    def dict_item(self, base: GuardManager, key: object, text: str) -> GuardManager:
        return base.dict_getitem_manager(key, text, None, PLAIN)

    def list_item(self, base: GuardManager, index: int, text: str) -> GuardManager:
        return base.list_getitem_manager(index, text, None, PLAIN)

    def tuple_item(self, base: GuardManager, index: int, text: str) -> GuardManager:
        return base.tuple_getitem_manager(index, text, None, PLAIN)

    def item(self, base: GuardManager, key: object, text: str) -> GuardManager:
        return base.getitem_manager(key, text, None, PLAIN)

    def type_of(self, base: GuardManager, text: str) -> GuardManager:
        return base.type_manager(text, None, PLAIN)

    def computed(self, base: GuardManager, function: Callable[[object], object], text: str) -> GuardManager:
        return base.lambda_manager(function, text, None, PLAIN)

    # Their methods

    def type(self, manager: GuardManager, kind: type, text: str) -> None:
        manager.add_type_match_guard(id(kind), *_verbose(text))

    def identity(self, manager: GuardManager, value: object, text: str) -> None:
        manager.add_id_match_guard(id(value), *_verbose(text))

    def equals(self, manager: GuardManager, value: object, text: str) -> None:
        manager.add_equals_match_guard(value, *_verbose(text))

    def length(self, manager: GuardManager, count: int, text: str) -> None:
        manager.add_length_check_guard(count, *_verbose(text))

    def dict_length(self, manager: GuardManager, count: int, text: str) -> None:
        manager.add_dict_length_check_guard(count, *_verbose(text))

    def dict_contains(self, manager: GuardManager, present: bool, key: object, text: str) -> None:
        manager.add_dict_contains_guard(present, key, *_verbose(text))

    def check(self, manager: GuardManager, function: Callable[[Any], bool], text: str) -> None:
        manager.add_lambda_guard(function, *_verbose(text))

    def tensor(self, manager: GuardManager, example: object, facts: Any, name: str, text: str) -> None:
        parts = _verbose(text)
        stride = list(facts.stride) if facts.stride is not None else None
        manager.add_tensor_match_guard(example, list(facts.size), stride, name, *parts, facts.type, facts.keys)  # type: ignore[arg-type, call-arg]

    def same_object(self, first: GuardManager, second: GuardManager, text: str) -> None:
        primitives.install_object_aliasing_guard(first, second, *_verbose(text))

    def different_objects(self, managers: Sequence[GuardManager], names: Sequence[str], text: str) -> None:
        primitives.install_no_tensor_aliasing_guard(list(managers), list(names), *_verbose(text))

    def global_state(self, text: str, ambient: tuple[torch.device, ...]) -> None:
        """Grad mode, autocast, default dtype, deterministic mode and threads as they are now, the default devices in
        force, and no other function modes."""
        self.root.add_global_state_guard(primitives.GlobalStateGuard(), *_verbose(text))
        modes = list(map(DeviceContext, ambient))
        self.root.add_torch_function_mode_stack_guard(modes, *_verbose("torch function modes"))
        if ambient:
            text = f"default device is {ambient[-1]}"
            self.root.add_lambda_guard(lambda locals: devices() == ambient, *_verbose(text))

    def last(self, function: Callable[[dict[str, object]], bool], text: str) -> None:
        """A check of all locals that runs after everything else."""
        self.root.add_epilogue_lambda_guard(function, *_verbose(text))  # type: ignore[arg-type]


def _verbose(text: str) -> tuple[Any, ...]:
    return ([text], None) if _TAKES_STACK else ([text],)


# --------------------------------------------------------------------------------------------------- frame evaluation


_REGION = 1 << 40
"""The index of our entries on a code object, apart from stock's (2.13; earlier versions have one list for all)."""

_HAS_REGIONS = hasattr(eval_frame, "set_eval_frame_isolate_recompiles_id")


class _Entry:
    """The guarded code that the shim expects."""

    def __init__(self, code: types.CodeType, manager: GuardRoot, number: int, compile: int) -> None:
        self.code = code
        self.guard_manager = manager
        self.compile_id = CompileId(frame_id=number, frame_compile_id=compile)
        self.trace_annotation = f"explorer {number}/{compile}"
        self.isolate_recompiles_id = _REGION if _HAS_REGIONS else -1


class _Answer:
    """A callback's result, for the shim: run this code, or (None) the frame as it is, this time or `always`."""

    def __init__(self, entry: _Entry | None, always: bool = False) -> None:
        action = eval_frame._FrameAction
        own = action.SKIP if always else action.DEFAULT
        self.frame_exec_strategy = eval_frame._FrameExecStrategy(own, action.DEFAULT)
        self.apply_to_code = always
        self.guarded_code = entry
        self.skip_reason = None


AS_IT_IS = _Answer(None)
NEVER_ASK = _Answer(None, always=True)
"""Only for this package's own code: each query costs microseconds, because the shim saves Python's random state."""


def run_instead(code: types.CodeType, manager: GuardRoot, number: int, compile: int) -> object:
    """A callback's answer: run `code` in the frame's place now, and whenever the guards hold."""
    manager.code = code
    return _Answer(_Entry(code, manager, number, compile))


enter_frames: Callable[[Any], Any] = eval_frame.set_eval_frame
change_region: Callable[[int], int] = eval_frame.set_eval_frame_isolate_recompiles_id if _HAS_REGIONS else int
leave_region = change_region
"""`enter_frames` and `leave_region` are called where a call of a compiled function begins and where it ends: by these
names, so that both can be watched. No frame is seen by then, which would make a watcher's slow."""


def watched(
    callback: Any, function: Callable[..., object], follows: types.FunctionType, update: Callable[[], None]
) -> Callable[..., object]:
    """`function`, with `callback` seeing each Python frame that starts in this thread while it runs. Calls `update`
    first where the program has given `follows` other code or defaults.

    Nobody sees it under a torch mode, which every operation has to pass through and generated code would not; default
    devices are the exception, since only what makes tensors asks for them.
    """
    code, defaults, named = follows.__code__, follows.__defaults__, follows.__kwdefaults__

    def run(*args: object, **kwargs: object) -> object:
        nonlocal code, defaults, named
        if follows.__code__ is not code or follows.__defaults__ is not defaults or follows.__kwdefaults__ is not named:
            update()
            code, defaults, named = follows.__code__, follows.__defaults__, follows.__kwdefaults__
        seen_by = None
        try:
            if active := modes():
                note(CallSkipped, getattr(function, "__qualname__", repr(function)), Why(FRAME_MODE, active))
            elif stance() != "force_eager":
                rules = rules_in_force()
                seen_by = callback.under(rules) if rules.table else callback
        except Exception:
            note(CompilerBug, getattr(function, "__qualname__", repr(function)), traceback.format_exc())
        if seen_by is None:
            return function(*args, **kwargs)
        previous_region = change_region(_REGION)
        previous = enter_frames(seen_by)
        if previous_region == _REGION and type(previous) is not type(callback):
            previous_region = -1  # another thread's: a callback belongs to a thread, the region to all threads
        try:
            return function(*args, **kwargs)
        finally:
            eval_frame.set_eval_frame(previous)
            leave_region(previous_region)

    skip_frames(run)
    return run


_STOCK_FRAMES = "torch._dynamo.eval_frame"


def stance() -> str:
    """What torch.compiler.set_stance asks for: "default", "force_eager", "eager_on_recompile", "fail_on_recompile"."""
    frames = sys.modules.get(_STOCK_FRAMES)
    return "default" if frames is None else frames._stance.stance


def watcher() -> object:
    """The callback that sees frames of this thread now, or None."""
    return eval_frame.get_eval_frame_callback()


def unwatched(call: Callable[..., object], put_back: Callable[[], None] = lambda: None) -> Callable[..., Any]:
    """`call`, with no callback while it runs, and with `put_back` called where it raises. On the path of every compiled
    call, hence no context manager."""
    switch: Callable[[Any], Any] = eval_frame.set_eval_frame

    def run(*args: object) -> object:
        previous = switch(None)
        try:
            return call(*args)
        except BaseException:
            put_back()
            raise
        finally:
            switch(previous)

    return run


def entries(code: types.CodeType) -> int:
    """How many compiled entries of ours are on a code object."""
    if _HAS_REGIONS:
        found = eval_frame._get_cache_entries_for_region(code, _REGION)
    else:
        found = eval_frame._debug_get_cache_entry_list(code)
    return sum(isinstance(entry.guard_manager, Manager) for entry in found)


def modes() -> str:
    """The modes that every operation passes through now, but for default devices, by name; "" where there is none."""
    if functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0:
        return "a transform of torch.func"
    if torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.Functionalize):
        return "__torch_dispatch__ of a tensor, where no graph can be traced to ATen"
    if not torch._C._len_torch_dispatch_stack() and not torch._C._len_torch_function_stack():
        return ""
    active = [*OVERRIDES._get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()]
    return ", ".join(type(mode).__name__ for mode in active if type(mode) is not DeviceContext)


def saved_tensors_hooked() -> bool:
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


def devices() -> tuple[torch.device, ...]:
    """The default devices of the blocks that are open in this thread, innermost last."""
    if not torch._C._len_torch_function_stack():
        return ()
    active = OVERRIDES._get_current_function_mode_stack()
    return tuple(mode.device for mode in active if type(mode) is DeviceContext)


@contextmanager
def modes_put_aside() -> Iterator[None]:
    """Default devices and hooks of saved tensors put aside: what a compile makes for itself is on the CPU, and no
    business of the program's hooks."""
    traced = torch._C._autograd._saved_tensors_hooks_set_tracing(True)
    held = [OVERRIDES._pop_mode() for _ in range(torch._C._len_torch_function_stack())]
    kept = vars(torch._GLOBAL_DEVICE_CONTEXT)
    context = kept.pop("device_context", None)
    try:
        yield
    finally:
        if context is not None:
            kept["device_context"] = context
        for mode in reversed(held):
            OVERRIDES._push_mode(mode)
        torch._C._autograd._saved_tensors_hooks_set_tracing(traced)
