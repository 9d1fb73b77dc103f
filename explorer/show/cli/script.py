"""Runs a script as `python SCRIPT` would, with every compile in it recorded."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from explorer.records.watching import Watch


@dataclass(frozen=True)
class Ended:
    """How a script ended: by itself (None), by `sys.exit`, or by an exception of its own."""

    raised: BaseException | None

    @property
    def code(self) -> int:
        """The exit code that Python would give, its message or traceback printed as Python prints it."""
        raised = self.raised
        if raised is None:
            return 0
        if isinstance(raised, SystemExit):
            if raised.code is None or isinstance(raised.code, int):
                return raised.code or 0
            print(raised.code, file=sys.stderr)
            return 1
        sys.excepthook(type(raised), raised, raised.__traceback__)
        return 130 if isinstance(raised, KeyboardInterrupt) else 1


def run(script: Path, arguments: Sequence[str], watch: Watch) -> Ended:
    """Run `script` as __main__, watched. Raises OSError where it cannot be read, SyntaxError where it is not Python."""
    code = compile(script.read_bytes(), str(script), "exec")
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=str(script), __builtins__=__builtins__)
    before = sys.modules["__main__"], sys.argv, sys.path[0]
    sys.modules["__main__"], sys.argv, sys.path[0] = main, [str(script), *arguments], str(script.parent.resolve())
    try:
        with watch:
            exec(code, main.__dict__)
    except BaseException as raised:
        return Ended(raised.with_traceback(_below(raised, str(script))))
    finally:
        sys.modules["__main__"], sys.argv, sys.path[0] = before
    return Ended(None)


def _below(raised: BaseException, script: str) -> types.TracebackType | None:
    """The traceback from the script's own frame on."""
    at = raised.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename != script:
        at = at.tb_next
    return at or raised.__traceback__
