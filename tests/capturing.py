"""Capture with the graph run by eager kernels, keeping what was made, for the tests of capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.compiler.capture import CAPTURE, DECODE, LINK, CaptureInput, FullGraphError, optimize
from explorer.compiler.config import Config
from explorer.core.text import Text
from explorer.ir.capture import Capture, FrameHistory, GuardedCode, InputFrame, Linking
from explorer.ir.joint import Compiled


def histories(compiled: Any) -> list[FrameHistory]:
    """Of each code that a compiled function ran."""
    return [seen.history for seen in compiled.__explorer_engine__._codes.values()]


class CompilerFailed(BaseException):
    """An error inside capture. No Exception: the fallback to eager must not hide it from a test."""


class Captures:
    """A compile_frame that runs graphs eagerly, and lists the captures it made."""

    def __init__(self) -> None:
        self.made: list[Capture] = []
        self.linked: list[GuardedCode] = []

    def __call__(self, frame: InputFrame, config: Config) -> GuardedCode:
        try:
            return self.compile(frame, config)
        except (FullGraphError, CompilerFailed):
            raise
        except Exception as error:
            raise CompilerFailed(error) from error

    def compile(self, frame: InputFrame, config: Config) -> GuardedCode:
        capture = CAPTURE(CaptureInput(DECODE(frame), frame, config))
        self.made.append(capture)
        graph = capture.graph
        compiled = None if graph is None else Compiled(graph.name, graph.module(), (), Text(()))
        linked = LINK(Linking(capture, compiled))
        self.linked.append(linked)
        return linked

    @property
    def graphs(self) -> list[Any]:
        return [capture.graph for capture in self.made if capture.graph is not None]

    @property
    def breaks(self) -> list[str]:
        return [b.code for capture in self.made for b in capture.breaks]

    @property
    def places(self) -> set[Any]:
        return {b.where for capture in self.made for b in capture.breaks}

    @property
    def fallbacks(self) -> list[str]:
        return [capture.fallback.code for capture in self.made if capture.fallback is not None]

    def ops(self, which: int = 0) -> list[str]:
        """Names of the calls in one graph."""
        return [node.name for node in self.graphs[which].graph.nodes if node.op.startswith("call")]


def compiled(fn: Callable[..., Any], **settings: Any) -> tuple[Any, Captures]:
    """`fn` captured at its calls, and the captures."""
    captures = Captures()
    return optimize(fn, Config(backend="eager", **settings), captures), captures
