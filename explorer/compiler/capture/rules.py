"""The table of callables with a rule of their own: builtins, library functions, torch's switches."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from explorer.compiler.capture import reasons
from explorer.compiler.capture.values.base import Rule, Tracer, Value
from explorer.core.reasons import unsupported
from explorer.core.rules import RuleTable

CALLS: RuleTable[Any, Rule] = RuleTable("call")
"""By the callable itself: rule(tracer, positional arguments, keyword arguments) -> result."""


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

        rule.__doc__, rule.__name__ = function.__doc__, function.__name__
        CALLS.rule(*callables)(rule)
        return function

    return register


def _signature(callable: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(callable)
    except (TypeError, ValueError):
        return None


def each(*callables: Any) -> Callable[[Callable[[Any], Rule]], Callable[[Any], Rule]]:
    """Register, for each of these callables, the rule that the decorated function makes of it."""

    def register(factory: Callable[[Any], Rule]) -> Callable[[Any], Rule]:
        for function in dict.fromkeys(callables):
            CALLS.rule(function)(factory(function))
        return factory

    return register


def existing(owner: Any, *names: str) -> list[Any]:
    """The members of these names that this version of the library has."""
    return [getattr(owner, name) for name in names if hasattr(owner, name)]
