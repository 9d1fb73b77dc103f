"""torch.func in traced code, and torch's settings and context managers.

The Python of a transform is evaluated like any other; what it calls of C++ is called now, on fake tensors, and is a
node of the graph.

Stock counterpart: variables/higher_order_ops.py and variables/ctx_manager.py.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
from torch._functorch import eager_transforms, predispatch, vmap

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import Equals
from explorer.compiler.capture.rules import CALLS, each, existing, positional, table
from explorer.compiler.capture.values.base import HostValue, Reconstructor, Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.modules import CONTEXTS, ContextValue
from explorer.compiler.capture.values.objects import ObjectValue
from explorer.compiler.capture.values.tensor import TensorValue, graph_call
from explorer.core.reasons import unsupported
from explorer.ir.capture import Returned
from explorer.ir.settings import SETTINGS, functorch, saved_hooks

forward_ad: Any = torch.autograd.forward_ad  # it carries no types
OVERRIDES: Any = torch.overrides

# -------------------------------------------------------------------------------------------------------------- levels

_SPACES = (functorch, predispatch, torch._C, eager_transforms)  # versions of torch have a function in different ones


def _functions(names: str) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(function for space in _SPACES for function in existing(space, *names.split())))


_OPENING = _functions(
    "_grad_increment_nesting _vmap_increment_nesting _jvp_increment_nesting _func_increment_nesting _enter_dual_level"
)
_DERIVING = _functions("_grad_increment_nesting _jvp_increment_nesting")
_CLOSING = _functions(
    "_grad_decrement_nesting _vmap_decrement_nesting _jvp_decrement_nesting _func_decrement_nesting _exit_dual_level"
)
_PAIRING = _functions("_make_dual")
_OPERATIONS = _functions(
    "_wrap_for_grad _unwrap_for_grad _add_batch_dim _remove_batch_dim _unpack_dual _unwrap_batched "
    "unwrap_if_dead get_unwrapped is_batchedtensor is_gradtrackingtensor is_functorch_wrapped_tensor "
    "is_functionaltensor maybe_get_level maybe_get_bdim _wrap_functional_tensor _unwrap_functional_tensor "
    "_assert_wrapped_functional _propagate_functional_input_mutation reshape_dim_into reshape_dim_outof"
)


@each(*_OPENING, *_CLOSING)
def _level(function: object, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A level of a transform begins or ends."""
    change = 1 if function in _OPENING else -1
    plain, named = tuple(each.known(t) for each in args), {k: v.known(t) for k, v in kwargs.items()}
    found = t.tape.call("call_function", function, plain, named)
    t.tape.add("call_function", function, plain, named, found)
    t.torch_state.levels += change
    if function in _DERIVING and torch.is_inference_mode_enabled():  # releases before 2.13 stay in it
        unsupported(reasons.AUTOGRAD_CALL, "a derivative in inference mode, where this release of torch records none")
    return t.from_python(found)


@each(*_OPERATIONS)
def _operation(function: object, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """An operation on tensors of a level."""
    return graph_call(t, "call_function", function, args, kwargs)


@each(*_PAIRING)
def _pair(function: object, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A tensor with its tangent, which autograd copies into memory laid out alike. It refuses some whose elements
    share memory, and no rule for fake tensors tells which."""
    if args and isinstance(args[0], TensorValue) and t.tape.folds(args[0].fake):
        unsupported(reasons.OVERLAPPING_WRITE, "_make_dual")
    return graph_call(t, "call_function", function, args, kwargs)


@each(eager_transforms._autograd_grad)
def _gradients(function: object, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Gradients for tensors that this graph made: what leads from others to the results is in no graph."""
    wanted = [each.fake for each in args[1].unpack(t) if isinstance(each, TensorValue)]
    if any(fake is given for fake in wanted for given in t.tape.fakes.values()):
        unsupported(reasons.AUTOGRAD_CALL, "a gradient for a tensor from before the graph")
    return graph_call(t, "call_function", function, args, kwargs)


@each(functorch.current_level, functorch.maybe_current_level, functorch.get_dynamic_layer_stack_depth)
def _depth(function: Any, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """How deep the levels are: none is open at entry."""
    return t.from_python(function())


@positional(*existing(torch._C, "_are_functorch_transforms_active"))
def _are_active(t: Tracer) -> Value:
    """Whether a level is open: none is at entry."""
    return Constant(functorch.maybe_current_level() is not None)


@each(*existing(vmap, "lazy_load_decompositions"), forward_ad._maybe_load_decompositions)
def _loading(function: Any, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Loaded now, once for the process."""
    function()
    return Constant(None)


# ------------------------------------------------------------------------------------------------------------ settings


_AUTOCAST_DTYPES = {device: functools.partial(torch.get_autocast_dtype, device) for device in ("cpu", "cuda")}


def _make(t: Tracer, name: str, key: tuple[object, ...], value: tuple[object, ...]) -> Value:
    """Set for the rest of the trace. What it is at entry is guarded: the graph ends with that."""
    try:
        for getter in SETTINGS[name].getters:
            _ask(t, name, key, getter)
        t.torch_state.set(name, key, value)
    except (TypeError, ValueError, RuntimeError) as error:
        unsupported(reasons.OP_RAISED, f"{name}: {error}")
    return Constant(None)


def _ask(t: Tracer, name: str, key: tuple[Any, ...], getter: Any) -> Value:
    """A part of what a setting is: guarded where this trace did not set it and the global state's guard has it not."""
    if getter is torch.get_autocast_dtype and (name, key) not in t.torch_state.before:
        if not torch.is_autocast_enabled(*key):  # the global state's guard has it only while autocast is on
            ask = _AUTOCAST_DTYPES.get(key[0], functools.partial(getter, *key))
            t.guards.on(Returned(t.objects.known(ask), "__call__"), Equals(ask()), "what autocast would cast to")
    if SETTINGS[name].guarded or (name, key) in t.torch_state.before or key:
        return t.from_python(getter(*key))
    return t.wrap(Returned(t.objects.known(getter), "__call__"), getter())


def _set(name: str, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A setting."""
    given, count = tuple(each.known(t) for each in (*args, *kwargs.values())), len(SETTINGS[name].keys[0])
    return _make(t, name, given[:count], given[count:])


def _get(name: str, getter: object, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The value of a setting."""
    try:
        return _ask(t, name, tuple(each.known(t) for each in (*args, *kwargs.values())), getter)
    except (TypeError, ValueError, RuntimeError) as error:
        unsupported(reasons.OP_RAISED, f"{name}: {error}")


for _name, _setting in SETTINGS.items():
    CALLS.rule(_setting.write)(functools.partial(_set, _name))
    for _part in _setting.getters:
        CALLS.rule(_part)(functools.partial(_get, _name, _part))


@each(*CONTEXTS)
def _context(cls: type, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A context manager written in C++."""
    return ContextValue(cls, tuple(each.known(t) for each in (*args, *kwargs.values())))


class ProfileValue(ObjectValue):
    """A profiler of what compiled code does not do; what it found cannot be asked."""

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name == "__enter__":
            return HostValue(lambda args, kwargs: self)
        if name == "__exit__":
            return HostValue(lambda args, kwargs: Constant(None))
        unsupported(reasons.ATTRIBUTE, f"{name} of a profiler")

    def special(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
        return self.get_attr(t, name).call(t, args, kwargs or {})

    def reconstruct(self, r: Reconstructor) -> None:
        unsupported(reasons.NOT_RECONSTRUCTED, "a profiler")


@CALLS.rule(torch.autograd.profiler.profile, torch.profiler.profile)
def _profile(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """with torch.profiler.profile(...)."""
    return ProfileValue(torch.autograd.profiler.profile)


# ------------------------------------------------------------------------------------------------------ function modes


@positional(torch._C._push_on_torch_function_stack, OVERRIDES._push_mode)
def _push_mode(t: Tracer, mode: Value) -> Value:
    """with a TorchFunctionMode: it is asked what each call of torch means."""
    t.torch_state.modes.append(mode)
    return Constant(None)


@positional(torch._C._pop_torch_function_stack, OVERRIDES._pop_mode)
def _pop_mode(t: Tracer) -> Value:
    """The end of the block."""
    if not t.torch_state.modes:
        unsupported(reasons.OPERATION, "leaving a mode that was not entered")
    return t.torch_state.modes.pop()


@positional(torch._C._get_function_stack_at)
def _mode_at(t: Tracer, place: Value) -> Value:
    """The open mode at this place."""
    at = place.as_index(t) - len(t.torch_state.devices)
    if not 0 <= at < len(t.torch_state.modes):
        unsupported(reasons.OPERATION, "a mode that was not entered here")
    return t.torch_state.modes[at]


@positional(torch.use_deterministic_algorithms, torch._C._set_deterministic_algorithms)
def _set_deterministic(t: Tracer, mode: Value, *, warn_only: Value = Constant(False)) -> Value:
    """torch.use_deterministic_algorithms(...)."""
    return _make(t, "deterministic", (), (mode.known(t), warn_only.known(t)))


def _set_anomaly(t: Tracer, mode: object, check_nan: Value) -> Value:
    """torch.autograd.set_detect_anomaly(...). What follows it has to run in the mode: that tells the line of each
    operator."""
    if mode and not torch.is_anomaly_enabled():
        unsupported(reasons.OPERATION, "anomaly mode is turned on: from here on, operators run one by one")
    return _make(t, "anomaly", (), (mode, check_nan.known(t)))


table({
    # A label for a profiler: calls of operators are not what runs.
    torch.autograd.profiler.record_function: lambda t, name, args=Constant(None):
        t.from_python(contextlib.nullcontext).call(t, [], {}),
    torch.set_anomaly_enabled: lambda t, mode, check_nan=Constant(True): _set_anomaly(t, mode.known(t), check_nan),
    # torch.autograd.graph.disable_saved_tensors_hooks(...).
    saved_hooks._saved_tensors_hooks_disable: lambda t, message, *fail_if_non_empty:
        _make(t, "saved tensors hooks", (), (message.known(t),)),
    # Annotations of nodes, which no stage reads.
    torch.fx.traceback.annotate: lambda t, annotation: t.from_python(contextlib.nullcontext).call(t, [], {}),
    # The innermost mode.
    OVERRIDES._get_current_function_mode: lambda t: t.torch_state.modes[-1] if t.torch_state.modes else Constant(None),
    saved_hooks._saved_tensors_hooks_enable: lambda t: _make(t, "saved tensors hooks", (), (None,)),  # the end of it
})  # fmt: skip
