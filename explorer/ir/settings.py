"""Torch's settings for this thread or process: how each is read and set, and how a trace leaves them as they were; and
functions whose frames no compiler captures.

Traced code sets them for real, and by nodes of the graph, so that operators meet them then and whenever the graph runs.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._dynamo import eval_frame
from torch.autograd import forward_ad
from torch.utils.hooks import RemovableHandle

functorch: Any = torch._C._functorch
_undo_layers = functorch.pop_dynamic_layer_stack_and_undo_to_depth  # ours, not the one that a watch wraps
saved_hooks: Any = torch._C._autograd


@dataclass(frozen=True)
class Setting:
    """`write(*key, *value)` sets it; each of `getters`, given a key, is a part of its value. `keys` are all there are.

    `guarded`: whether the guard on torch's global state, which every compile has, covers it.
    """

    write: Callable[..., Any]
    getters: tuple[Callable[..., Any], ...]
    keys: tuple[tuple[Any, ...], ...] = ((),)
    guarded: bool = False

    def read(self, *key: object) -> tuple[Any, ...]:
        """Raises RuntimeError where torch refuses to tell: precisions set both in its old way and in its new one."""
        return tuple(getter(*key) for getter in self.getters)

    def read_if_known(self, *key: object) -> tuple[object, ...] | None:
        try:
            return self.read(*key)
        except RuntimeError:
            return None


@dataclass(frozen=True)
class Enter:
    """What a node calls to enter a context manager of class `cls`: FX cannot write a class as an argument."""

    cls: type

    @property
    def __name__(self) -> str:
        return f"enter_{self.cls.__name__.strip('_')}"

    def __call__(self, *arguments: object) -> object:
        made = self.cls(*arguments)
        made.__enter__()
        return made


ENTER_INFERENCE_MODE = Enter(torch._C._InferenceMode)


def switches_grad_mode(target: object) -> bool:
    """Whether a node that calls it may change whether gradients are recorded."""
    return isinstance(target, Enter) or target is torch._C._set_grad_enabled


def set_saved_tensors_hooks(disabled: str | None) -> None:
    """Forbid hooks on saved tensors, with this message, or allow them."""
    if disabled is None:
        saved_hooks._saved_tensors_hooks_enable()
    else:
        saved_hooks._saved_tensors_hooks_disable(disabled)


def set_deterministic(mode: bool, warn_only: bool) -> None:
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)


def set_anomaly(enabled: bool, check_nan: bool) -> None:
    torch.set_anomaly_enabled(enabled, check_nan)


def generators(of_gpu: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The states of torch's random generators: the CPU's, and the current GPU's where that is wanted."""
    return torch.get_rng_state(), torch.cuda.get_rng_state() if of_gpu else None


def set_generators(states: tuple[torch.Tensor, torch.Tensor | None]) -> None:
    cpu, gpu = states
    torch.set_rng_state(cpu)
    if gpu is not None:
        torch.cuda.set_rng_state(gpu)


_DEVICES = (("cpu",), ("cuda",))
_C: Any = torch._C
_PAIRS = (
    *((f"_set_{name}", f"_is_{name}") for name in (
        "fwd_grad_enabled", "multithreading_enabled", "view_replay_enabled",
    )),
    *((f"_set_sdp_use_{name}", f"_get_{name}_sdp_enabled") for name in (
        "flash", "mem_efficient", "math", "cudnn", "overrideable", "fa3",
    )),
    *((f"_set_{name}", f"_get_{name}") for name in (
        "sdp_priority_order", "math_sdp_allow_fp16_bf16_reduction", "cudnn_enabled", "cudnn_benchmark",
        "cudnn_deterministic", "cudnn_allow_tf32", "mkldnn_enabled", "mkldnn_deterministic", "nnpack_enabled",
        "cublas_allow_tf32", "cublas_allow_fp16_accumulation", "onednn_allow_tf32", "float32_matmul_precision",
        "deterministic_fill_uninitialized_memory", "warnAlways",
    )),
)  # fmt: skip

SETTINGS: Mapping[str, Setting] = {
    "grad mode": Setting(_C._set_grad_enabled, (torch.is_grad_enabled,), guarded=True),
    "default dtype": Setting(_C._set_default_dtype, (torch.get_default_dtype,), guarded=True),
    "deterministic": Setting(
        set_deterministic,
        (_C._get_deterministic_algorithms, _C._get_deterministic_algorithms_warn_only),
        guarded=True,
    ),
    "autocast": Setting(torch.set_autocast_enabled, (torch.is_autocast_enabled,), _DEVICES, guarded=True),
    "autocast dtype": Setting(torch.set_autocast_dtype, (torch.get_autocast_dtype,), _DEVICES, guarded=True),
    "autocast cache": Setting(torch.set_autocast_cache_enabled, (torch.is_autocast_cache_enabled,), guarded=True),
    "anomaly": Setting(set_anomaly, (torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled)),
    "saved tensors hooks": Setting(
        set_saved_tensors_hooks, (saved_hooks._saved_tensors_hooks_get_disabled_error_message,)
    ),
    "requires_grad in transforms": Setting(
        functorch.set_inplace_requires_grad_allowed, (functorch.get_inplace_requires_grad_allowed,)
    ),
    "single level functions": Setting(
        functorch.set_single_level_autograd_function_allowed, (functorch.get_single_level_autograd_function_allowed,)
    ),
} | {
    write.removeprefix("_set_").replace("_", " "): Setting(getattr(_C, write), (getattr(_C, read),))
    for write, read in _PAIRS
    if hasattr(_C, write) and hasattr(_C, read)
}  # fmt: skip


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Put back on exit what a trace switches: the settings, autocast's casts, blocks and levels that it left open."""
    put_back = as_they_are()
    try:
        yield
    finally:
        put_back()


@contextlib.contextmanager
def hooks_not_counted() -> Iterator[None]:
    """Hooks that are registered inside, and gone with it, take no numbers, by which the program finds its own."""
    next_id = RemovableHandle.next_id
    try:
        yield
    finally:
        RemovableHandle.next_id = next_id


def now() -> dict[tuple[str, tuple[object, ...]], tuple[object, ...] | None]:
    """The settings in this thread by name and key; None for one that torch does not tell."""
    return {(name, key): each.read_if_known(*key) for name, each in SETTINGS.items() for key in each.keys}


def as_they_are() -> Callable[[], None]:
    """A function that sets everything that `kept` keeps as it is now."""
    before = now()
    nesting, depth = autocast_nesting(), functorch.get_dynamic_layer_stack_depth()
    is_dual = forward_ad._current_level >= 0

    def put_settings_back() -> None:
        for (name, key), value in before.items():
            if value is not None and SETTINGS[name].read_if_known(*key) != value:
                SETTINGS[name].write(*key, *value)
        for _ in range(autocast_nesting() - nesting):
            torch.autocast_decrement_nesting()
        for _ in range(nesting - autocast_nesting()):
            torch.autocast_increment_nesting()

    def put_back() -> None:
        with contextlib.ExitStack() as steps:  # the last is the first to run; all run, also where one raises
            steps.callback(put_settings_back)
            steps.callback(torch.clear_autocast_cache)
            steps.callback(_leave_layers, depth)
            if not is_dual:
                steps.callback(_close_dual_level)

    return put_back


def in_force() -> list[tuple[Setting, tuple[Any, ...], tuple[Any, ...]]]:
    """The settings that a guard covers, with their keys and values now."""
    guarded = [setting for setting in SETTINGS.values() if setting.guarded]
    return [(setting, key, setting.read(*key)) for setting in guarded for key in setting.keys]


@contextlib.contextmanager
def restored(before: list[tuple[Setting, tuple[object, ...], tuple[object, ...]]]) -> Iterator[None]:
    """Inside a block, the settings that `in_force` returned."""
    with kept():
        for setting, key, value in before:
            setting.write(*key, *value)
        yield


def _leave_layers(depth: int) -> None:
    """Leave the levels of functorch above a depth. Torch 2.11 raises after it left the outermost one."""
    try:
        _undo_layers(depth)
    except RuntimeError:
        if functorch.get_dynamic_layer_stack_depth() != depth:
            raise


def _close_dual_level() -> None:
    """Leave the level of forward-mode differentiation; there is one at most, and no telling whether it is open."""
    try:
        level = torch._C._enter_dual_level()
    except RuntimeError:
        level = 0
    torch._C._exit_dual_level(level)


def autocast_nesting() -> int:
    """How many autocast blocks are open in this thread."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def skip_frames(function: Callable[..., object], with_callees: bool = False) -> None:
    """Neither stock nor this compiler captures frames of this function, nor breaks at them; nor, `with_callees`, of
    what it calls."""
    action = eval_frame._FrameAction
    callees = action.SKIP if with_callees else action.DEFAULT
    code: types.CodeType = function.__code__
    eval_frame.set_code_exec_strategy(code, eval_frame._FrameExecStrategy(action.SKIP, callees))
