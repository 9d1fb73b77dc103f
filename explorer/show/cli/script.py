"""Runs a script as `python SCRIPT` would, with every compile in it recorded."""

from __future__ import annotations

import builtins
import os
import sys
import threading
import types
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path

from explorer.show.watch import Watch


def run(script: str, arguments: Sequence[str], watch: Watch, as_module: bool = False) -> int:
    """Run `script` as __main__, watched, and give the exit code that Python would give; its message or traceback is
    printed as Python prints it. `as_module`: as `python -m` does. Raises OSError where it cannot be read, ImportError
    where there is no such module, SyntaxError where it is not Python."""
    before = sys.modules["__main__"], sys.argv, sys.path[0]
    threads = set(threading.enumerate())
    ended: list[int] = []
    try:
        code, main = _module(script) if as_module else _file(script)
        path = main.__dict__["__file__"]
        sys.modules["__main__"], sys.argv = main, [path if as_module else script, *arguments]
        with watch:
            try:
                exec(code, main.__dict__)
            except BaseException as raised:
                ended.append(_ended(raised.with_traceback(_below(raised, path))))
                raise
            finally:  # as Python does at its end
                for thread in threading.enumerate():
                    if not thread.daemon and thread not in threads:
                        thread.join()
    except BaseException as raised:
        if sys.modules["__main__"] is before[0]:
            raise
        return ended[0] if ended else _ended(raised)
    finally:
        sys.modules["__main__"], sys.argv, sys.path[0] = before
    return 0


def _file(script: str) -> tuple[types.CodeType, types.ModuleType]:
    path = os.path.join(os.getcwd(), script)
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    main = types.ModuleType("__main__")
    loader = SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __loader__=loader, __builtins__=builtins, __cached__=None, __annotations__={})
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    return code, main


def _module(name: str) -> tuple[types.CodeType, types.ModuleType]:
    sys.path[0] = os.getcwd()
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{name}.__main__")
    code = None if spec is None or spec.loader is None else spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
    if spec is None or code is None:
        raise ImportError(f"there is no module of Python code called {name}")
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __file__=spec.origin, __loader__=spec.loader, __builtins__=builtins, __cached__=spec.cached,
        __package__=spec.parent, __spec__=spec, __annotations__={},
    )  # fmt: skip
    return code, main


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
