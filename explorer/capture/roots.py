"""The frames that a compiled function, module or object starts with, each over code of its own."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from explorer.capture import hook
from explorer.capture.values.modules import calls_forward


def clone(function: types.FunctionType, qualname: str = "") -> types.FunctionType:
    """The same function over a code object of its own, so that no other engine's entries are on it."""
    qualname = qualname or function.__code__.co_qualname
    made = types.FunctionType(
        function.__code__.replace(co_qualname=qualname),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    made.__qualname__ = function.__qualname__
    return made


def call_of(target: Callable[..., Any]) -> types.FunctionType:
    """A Python function that calls `target`, for what is none or does more than its own body says. No source is shown
    for it: the program has none."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    name = getattr(target, "__name__", type(target).__name__)
    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name, co_filename=f"<call of {name}>")
    return call


def root_of(target: Callable[..., Any]) -> tuple[Callable[..., Any], types.CodeType]:
    """What to run in place of `target`, and the code of the frame that it starts."""
    if isinstance(target, types.FunctionType):
        made = clone(target)
        return made, made.__code__
    method = target if isinstance(target, types.MethodType) else getattr(target, "__call__", None)  # noqa: B004
    if isinstance(method, types.MethodType) and isinstance(method.__func__, types.FunctionType):
        made = clone(method.__func__)
        return types.MethodType(made, method.__self__), made.__code__
    made = call_of(target)
    return made, made.__code__


def watched_module(module: torch.nn.Module, engine: Any) -> Callable[..., Any]:
    """A call of the module that `engine` sees. It starts at the module's own forward, where calling it is no more than
    that; else at a call of it, so that hooks become part of the graph."""
    kind = type(module)
    whole = call_of(module)
    whole.__code__ = whole.__code__.replace(co_name=kind.__name__, co_qualname=kind.__name__)
    engine.roots.append(whole.__code__)
    with_hooks = hook.watched(engine, whole)
    forward = getattr(kind, "forward", None)
    if not isinstance(forward, types.FunctionType):
        return with_hooks
    made = clone(forward, f"{kind.__name__}.forward")
    engine.roots.append(made.__code__)
    alone = hook.watched(engine, types.MethodType(made, module))

    def call(*args: Any, **kwargs: Any) -> Any:
        is_forward = "forward" not in module.__dict__ and kind.forward is forward and calls_forward(module)
        return (alone if is_forward else with_hooks)(*args, **kwargs)

    hook.unseen_by_stock(call)
    return call
