"""Runs a script as `python SCRIPT` would, with every compile in it recorded."""

from __future__ import annotations

import builtins
import linecache
import os
import sys
import threading
import types
from collections.abc import Collection, Sequence
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import decode_source, find_spec
from pathlib import Path

from explorer.show.watch import Watch

STDIN = "-"


def run(script: str, arguments: Sequence[str], watch: Watch, as_module: bool = False) -> int:
    """Run `script` as __main__, watched, and give the exit code that Python would give; its message or traceback is
    printed as Python prints it. `as_module`: as `python -m` does. It stays __main__, for what it does at exit. Raises
    OSError where it cannot be read, ImportError where there is no such module, SyntaxError where it is not Python."""
    threads = set(threading.enumerate())
    read = sys.stdin.buffer.read() if script == STDIN and not as_module else None
    code, main = _module(script) if as_module else _file(script, read)
    sys.modules["__main__"], sys.argv = main, [str(main.__file__) if as_module else script, *arguments]
    ended: list[int] = []
    try:
        with watch:
            try:
                exec(code, main.__dict__)
            except BaseException as raised:
                ended.append(_ended(raised.with_traceback(_below(raised, code.co_filename))))
                raise
            finally:
                _end_threads(threads)
                if read is not None:  # not before the end: Python has no lines of it
                    lines = decode_source(read).splitlines(keepends=True)
                    linecache.cache[code.co_filename] = len(read), None, lines, code.co_filename
    except BaseException as raised:
        return ended[0] if ended else _ended(raised)
    return 0


def _end_threads(but: Collection[threading.Thread]) -> None:
    """Wait for all threads as Python does at its end, where first those end that wait for work (executors')."""
    notified = False
    while left := [each for each in threading.enumerate() if not each.daemon and each not in but]:
        if not notified:
            for tell in reversed(getattr(threading, "_threading_atexits", ())):
                tell()
        notified = True
        for thread in left:
            thread.join()


def _file(script: str, read: bytes | None) -> tuple[types.CodeType, types.ModuleType]:
    """A file, a folder or an archive that has a __main__.py, or standard input."""
    path = os.path.join(os.getcwd(), script)
    if read is not None:
        sys.path[0] = ""
        return compile(read, "<stdin>", "exec", dont_inherit=True), _main("<stdin>", BuiltinImporter)
    if (spec := PathFinder.find_spec("__main__", [path])) is not None:
        sys.path[0] = path
        return _found(spec)
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    return code, _main(path, SourceFileLoader("__main__", path))


def _module(name: str) -> tuple[types.CodeType, types.ModuleType]:
    sys.path[0] = os.getcwd()
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{name}.__main__")
    if spec is None:
        raise ImportError(f"there is no module of Python code called {name}")
    return _found(spec)


def _found(spec: ModuleSpec) -> tuple[types.CodeType, types.ModuleType]:
    code = None if spec.loader is None else spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
    if code is None:
        raise ImportError(f"there is no module of Python code called {spec.name}")
    return code, _main(spec.origin, spec.loader, __cached__=spec.cached, __package__=spec.parent, __spec__=spec)


def _main(file: str | None, loader: object, **more: object) -> types.ModuleType:
    main = types.ModuleType("__main__")
    given = {"__file__": file, "__loader__": loader, "__builtins__": builtins, "__cached__": None}
    main.__dict__.update({**given, "__annotations__": {}, **more})
    return main


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
