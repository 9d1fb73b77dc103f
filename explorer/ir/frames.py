"""Functions whose frames no compiler captures."""

import types
from collections.abc import Callable

from torch._C._dynamo import eval_frame


def skip_frames(function: Callable[..., object], with_callees: bool = False) -> None:
    """Neither stock nor this compiler captures frames of this function, nor breaks at them; nor, `with_callees`, of
    what it calls."""
    action = eval_frame._FrameAction
    callees = action.SKIP if with_callees else action.DEFAULT
    code: types.CodeType = function.__code__
    eval_frame.set_code_exec_strategy(code, eval_frame._FrameExecStrategy(action.SKIP, callees))
