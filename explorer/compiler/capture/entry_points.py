"""The frames that a compiled function, module or object starts with, each over code of its own."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from explorer.compiler.capture import hook
from explorer.compiler.capture.values.modules import calls_forward


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


def watched(engine: Any, function: types.FunctionType, qualname: str = "", bound: Any = None) -> Callable[..., Any]:
    """A call of `function`, or of the method of `bound`, that `engine` sees; also after the program has given it other
    code or defaults."""
    made = clone(function, qualname)
    engine.roots.append(made.__code__)

    def update() -> None:
        _take_over(made, function, qualname or function.__code__.co_qualname)
        engine.roots.append(made.__code__)

    return hook.watched(engine, made if bound is None else types.MethodType(made, bound), function, update)


def call_of(target: Callable[..., Any]) -> types.FunctionType:
    """A Python function that calls `target`, for what is none or does more than its own body says. No source is shown
    for it: the program has none."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    assert isinstance(call, types.FunctionType)
    name = getattr(target, "__name__", type(target).__name__)
    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name, co_filename=f"<call of {name}>")
    return call


def watched_callable(target: Callable[..., Any], engine: Any) -> Callable[..., Any]:
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

    def call(*args: Any, **kwargs: Any) -> Any:
        return (alone if kind.__call__ is method else whole)(*args, **kwargs)

    hook.unseen_by_stock(call)
    return call


def watched_module(module: torch.nn.Module, engine: Any) -> Callable[..., Any]:
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

    def call(*args: Any, **kwargs: Any) -> Any:
        is_forward = "forward" not in module.__dict__ and kind.forward is forward and calls_forward(module)
        return (alone if is_forward else with_hooks)(*args, **kwargs)

    hook.unseen_by_stock(call)
    return call
