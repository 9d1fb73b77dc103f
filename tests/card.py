"""Our whole compiler on a card, where nothing may fall back to eager unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from compiling import flat
from explorer.compiler.capture import FullGraphError, optimize
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_frame
from explorer.core.recorder import Recorder, recording
from explorer.ir.capture import GuardedCode, InputFrame
from explorer.ir.joint import Compiled


class FellBack(BaseException):
    """A graph runs eagerly, or the compiler failed. No Exception: the engine would run the frame eagerly, too."""


@dataclass(frozen=True)
class Compiler:
    """Wraps functions and modules. Graphs may run eagerly only for reasons that begin with one of `refusals`."""

    config: Config
    refusals: tuple[str, ...] = ()

    def __call__(self, fn: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
        compiled: Callable[..., Any] = optimize(fn, replace(self.config, **settings), self.compile_frame)
        return compiled

    def compile_frame(self, frame: InputFrame, config: Config) -> GuardedCode:
        recorder = Recorder()
        try:
            with recording(recorder):
                guarded = compile_frame(frame, config)
        except FullGraphError:
            raise
        except Exception as error:
            raise FellBack(f"{frame.code.co_name}: {type(error).__name__}: {error}") from error
        made = (stage.artifact for run in recorder.compiles for stage in run.stages)
        whys = [artifact.fallback for artifact in made if isinstance(artifact, Compiled) and artifact.fallback]
        if refused := [str(why) for why in whys if not why.code.startswith(self.refusals or ("none",))]:
            raise FellBack(f"{frame.code.co_name}: {'; '.join(refused)}")
        return guarded


def assert_like_eager(fn: Callable[..., Any], *inputs: Any, compiler: Compiler, tolerance: float = 2e-5) -> None:
    """Values, dtypes, shapes, strides and devices of the compiled function are eager's."""
    for mine, eager in zip(flat(compiler(fn)(*inputs)), flat(fn(*inputs)), strict=True):
        if not isinstance(eager, torch.Tensor):
            assert mine == eager
            continue
        assert (mine.dtype, mine.shape, mine.stride()) == (eager.dtype, eager.shape, eager.stride())
        assert mine.device == eager.device
        torch.testing.assert_close(mine, eager, equal_nan=True, rtol=tolerance, atol=tolerance)
