"""How compiled bytecode goes on in a continuation: one after another, however often a loop breaks, never nested.

Imports no torch, so that it can be tested on any Python.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any


class NextContinuation:
    """What a continuation returns that goes on in another one: a call that is still to be made."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function = function
        self.arguments = arguments


def traceback_of(error: BaseException) -> types.TracebackType | None:
    return error.__traceback__


def as_it_was(error: BaseException, traceback: types.TracebackType | None) -> None:
    """Take back what raising `error` once more, to handle it again, did to its traceback."""
    if traceback is not None:
        error.__traceback__ = traceback


def run_continuations(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a continuation, and those that it goes on in: what the function that broke returns in the end."""
    made = function(*arguments)
    while type(made) is NextContinuation:
        made = made.function(*made.arguments)
    return made
