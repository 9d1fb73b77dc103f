"""How residual code goes on in a continuation: one after another, however often a loop breaks, never nested.

Imports no torch, so that it can be tested on any Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Again:
    """What a continuation returns that goes on in another one: a call that is still to be made."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function = function
        self.arguments = arguments


def go_on(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a continuation, and those that it goes on in: what the function that broke returns in the end."""
    made = function(*arguments)
    while type(made) is Again:
        made = made.function(*made.arguments)
    return made
