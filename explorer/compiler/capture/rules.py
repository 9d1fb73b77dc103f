"""The table of callables with a rule of their own (builtins, library functions, torch's switches), and what the
functions and decorators of torch.compiler ask for: breaks, functions left alone, taken whole, or folded.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.model import is_same
from explorer.compiler.capture.values.base import Rule, Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.tensor import TensorValue, graph_call
from explorer.core.reasons import unsupported
from explorer.core.rules import RuleTable

CALLS: RuleTable[Any, Rule] = RuleTable("call")
"""Keyed by the callable: rule(tracer, positional arguments, keyword arguments) -> result."""


def positional(*callables: Any) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register `function(tracer, *arguments, **keywords)` for these callables. Keywords are bound by the callable's own
    signature, where it has one; what `function` cannot take is left to the callable."""

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        takes = inspect.signature(function)
        theirs = [found for found in map(_signature, callables) if found is not None]

        def rule(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
            try:
                if kwargs and theirs:
                    bound = theirs[0].bind(*args, **kwargs)
                    args, kwargs = list(bound.args), bound.kwargs
                takes.bind(t, *args, **kwargs)
            except TypeError as error:
                unsupported(reasons.UNTRACEABLE_CALL, f"{callables[0].__name__}: {error}")
            return function(t, *args, **kwargs)

        CALLS.rule(*callables)(functools.update_wrapper(rule, function))
        return function

    return register


def positional_each(*callables: object) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Like `positional`, but the function also gets the callable: `function(callable, tracer, *args, **keywords)`."""

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        for known in callables:
            positional(known)(functools.partial(function, known))
        return function

    return register


def table(rules: Mapping[object, Callable[..., Value]]) -> None:
    """Register rules of one expression each, as `positional` does."""
    for known, rule in rules.items():
        positional(known)(rule)


def _signature(callable: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(callable)
    except (TypeError, ValueError):
        return None


def each(*callables: object) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register `function(callable, tracer, arguments, keywords)` for each of these callables."""

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        for known in dict.fromkeys(callables):
            CALLS.rule(known)(functools.update_wrapper(functools.partial(function, known), function))
        return function

    return register


def breaks(why: str, message: str, *callables: object) -> None:
    """Register that calls of these are Python's."""
    CALLS.rule(*callables)(lambda t, args, kwargs: unsupported(why, message))


def existing(owner: object, *names: str) -> list[Any]:
    """The members of these names that this version of the library has."""
    return [getattr(owner, name) for name in names if hasattr(owner, name)]


DECORATORS = "torch._dynamo.decorators"
TRACE_RULES = "torch._dynamo.trace_rules"


def marked(t: Tracer, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """What calling a function yields where a mark on it decides that; None for one without a mark."""
    module = getattr(function, "__module__", None)
    if isinstance(module, str) and module.startswith("torch._dynamo"):
        asked = _asked(t, function)
        if asked is not None:
            return asked
    marks = getattr(function, "__dict__", None)
    if marks:
        if marks.get("_torchdynamo_disable"):
            original = marks.get("_torchdynamo_orig_callable")
            if getattr(original, "__name__", "") == "_init_group" and original.__module__.startswith("torch.optim."):
                return t.from_python(original).call(t, args, kwargs)  # stock has a rule of its own for it
            why = marks.get("_torchdynamo_disable_msg") or getattr(original or function, "__qualname__", "")
            unsupported(reasons.DISABLED, why)
        if marks.get("_dynamo_marked_constant"):
            real, named = (each.live(t) for each in args), {k: v.live(t) for k, v in kwargs.items()}
            return t.from_python(t.python(function, *real, **named))
    rules = sys.modules.get(TRACE_RULES)
    if rules is not None:
        if id(function) in rules._allowed_callable_ids():
            return graph_call(t, "call_function", function, args, kwargs)
        if id(function) in rules._disallowed_callable_ids():
            unsupported(reasons.DISABLED, getattr(function, "__qualname__", ""))
    return None


def _asked(t: Tracer, function: types.FunctionType) -> Value | None:
    match function.__name__:
        case "graph_break" if t.stack.frames[-1].globals.get("__name__") == torch.optim.Optimizer.__module__:
            return Constant(None)  # it makes stock write parameters in place; our graphs do so anyway
        case "graph_break" | "skip_frame" | "step_unsupported" if function.__module__ == DECORATORS:
            unsupported(reasons.ASKED, function.__name__)
        case "is_compiling" | "is_dynamo_compiling":
            return Constant(True)
        case "tag" if function.__qualname__ == "GenerationTracker.tag":
            return Constant(None)  # after stock has compiled, it notes every new module for itself
    return None


@positional(torch.utils.checkpoint.checkpoint)
def _checkpoint(t: Tracer, function: Value, *args: Value, **kwargs: Value) -> Value:
    """The function's own nodes, which the backward computes again; where a context says what to keep, that is decided
    for the graph as a whole."""
    is_reentrant = kwargs.pop("use_reentrant", Constant(True)).truth(t)
    is_noop = is_same(
        t, kwargs.pop("context_fn", default := t.from_python(torch.utils.checkpoint.noop_context_fn)), default
    )
    settings = ("preserve_rng_state", "determinism_check", "debug", "early_stop")
    named = {name: value for name, value in kwargs.items() if name not in settings}
    if is_reentrant and (named or not is_noop or "debug" in kwargs):
        unsupported(reasons.UNTRACEABLE_CALL, "checkpoint with arguments that it refuses")
    tensors = [arg.fake for arg in args if isinstance(arg, TensorValue)]
    saves_inference = torch.is_inference_mode_enabled() or any(x.is_inference() for x in tensors)
    if saves_inference and not is_reentrant and torch.is_grad_enabled():
        unsupported(reasons.UNTRACEABLE_CALL, "checkpoint saves an inference tensor")
    differentiable = any(x.requires_grad for x in tensors)
    before = t.effects.outside, t.tape.writes()
    if not is_reentrant or differentiable or not torch.is_grad_enabled():
        with t.stack.checkpointed() if is_noop else nullcontext():
            found = function.call(t, list(args), named)
        if torch.is_grad_enabled() and (t.effects.outside, t.tape.writes()) != before:
            unsupported(reasons.HIGHER_ORDER, "a checkpoint that changes what is outside of it, and its backward again")
        return found
    t.torch_state.set("grad mode", (), (False,))  # its output has no gradient where no argument has one
    found = function.call(t, list(args), named)
    t.torch_state.set("grad mode", (), (True,))
    return found
