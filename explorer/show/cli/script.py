"""Runs a script as `python SCRIPT` would, with every compile in it recorded."""

from __future__ import annotations

import builtins
import os
import sys
import types
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path

from explorer.show.watch import Watch


def run(script: str, arguments: Sequence[str], watch: Watch) -> int:
    """Run `script` as __main__, watched, and give the exit code that Python would give; its message or traceback is
    printed as Python prints it. Raises OSError where it cannot be read, SyntaxError where it is not Python."""
    path = os.path.join(os.getcwd(), script)
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    main = types.ModuleType("__main__")
    loader = SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __loader__=loader, __builtins__=builtins, __cached__=None, __annotations__={})
    before = sys.modules["__main__"], sys.argv, sys.path[0]
    sys.modules["__main__"], sys.argv = main, [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    try:
        with watch:
            exec(code, main.__dict__)
    except BaseException as raised:
        return _ended(raised.with_traceback(_below(raised, path)))
    finally:
        sys.modules["__main__"], sys.argv, sys.path[0] = before
    return 0


def _ended(raised: BaseException) -> int:
    if isinstance(raised, SystemExit):
        if raised.code is None or isinstance(raised.code, int):
            return raised.code or 0
        print(raised.code, file=sys.stderr)
        return 1
    sys.excepthook(type(raised), raised, raised.__traceback__)
    return 130 if isinstance(raised, KeyboardInterrupt) else 1


def _below(raised: BaseException, script: str) -> types.TracebackType | None:
    """The traceback from the script's own frame on."""
    at = raised.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename != script:
        at = at.tb_next
    return at or raised.__traceback__
