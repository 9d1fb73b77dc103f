"""Errors for wrong arguments of the public functions, which say how these are called."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def explained(usage: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: a call with wrong arguments raises a TypeError with `usage` and the names of the settings."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        settings = [name for name, each in signature.parameters.items() if each.kind is each.KEYWORD_ONLY]

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                unknown = [name for name in kwargs if name not in signature.parameters]
                close = [near for name in unknown for near in difflib.get_close_matches(name, settings, 1)]
                meant = f" (did you mean {', '.join(f'{name}=' for name in close)}?)" if close else ""
                listed = ", ".join(settings)
                message = f"{function.__name__}: {error}{meant}; call it as {usage}; the settings are {listed}"
                raise TypeError(message) from None
            return function(*args, **kwargs)

        return call

    return decorate
