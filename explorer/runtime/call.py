"""Loads a built program: entries as Python functions without ctypes on the way, and the wrapper as a module."""

from __future__ import annotations

import ctypes
import functools
import itertools
import linecache
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from explorer.core.text import Text
from explorer.ir.program import BuildStep, Generated, Program

METH_FASTCALL = 0x80

_numbers = itertools.count()


class _MethodDef(ctypes.Structure):
    """PyMethodDef, part of CPython's stable ABI."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.argtypes = (ctypes.POINTER(_MethodDef), ctypes.c_void_p, ctypes.c_void_p)
_new_function.restype = ctypes.py_object
_defs: list[_MethodDef] = []
"""Python keeps pointers to these, so they are never freed."""


def entry_function(library: ctypes.CDLL, name: str) -> Callable[..., int]:
    """The entry `name` of a loaded library as a built-in function: pointers, sizes, threads -> 0 or an error number."""
    address = ctypes.cast(library[f"{name}_entry"], ctypes.c_void_p).value
    _defs.append(_MethodDef(name.encode(), address, METH_FASTCALL, None))
    made: Callable[..., int] = _new_function(ctypes.byref(_defs[-1]), None, None)
    return made


def load(generated: Generated, library_path: Path | None, steps: tuple[BuildStep, ...]) -> Program:
    """Load the library and run the wrapper's text, which defines `call`."""
    names: dict[str, Any] = dict(generated.constants)
    threads = generated.options.threads
    names["threads"] = torch.get_num_threads if threads is None else functools.partial(int, threads)
    if library_path is not None:
        library = ctypes.CDLL(str(library_path))
        for entry in generated.entries:
            names[entry.function] = entry_function(library, entry.function)
    call = execute(generated.wrapper, generated.name, names)
    return Program(generated, call, steps, lambda: {})


def execute(text: Text, name: str, names: Mapping[str, Any]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Run the wrapper's text under a file name that tracebacks can show lines of; returns its `call`."""
    source = str(text) + "\n"
    file = f"<explorer {name} {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = dict(names)
    exec(compile(source, file, "exec"), namespace)
    call: Callable[[Sequence[Any]], tuple[Any, ...]] = namespace["call"]
    return call
