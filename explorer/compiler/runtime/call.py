"""Loads a built library: its entries as Python functions, without ctypes on the way of a call."""

from __future__ import annotations

import _ctypes
import ctypes
import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from explorer.compiler.runtime.stepwise import profiler, stepwise
from explorer.compiler.runtime.wrapper import execute, release_pools
from explorer.core.text import Text
from explorer.ir.program import BuildStep, Generated, Program

METH_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    """PyMethodDef, part of CPython's stable ABI."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.argtypes = (ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.c_void_p)
_new_function.restype = ctypes.py_object


class Library(ctypes.CDLL):
    """A loaded library, unloaded with the last of its functions."""

    def __del__(self) -> None:
        if self._handle and not sys.is_finalizing():
            _ctypes.dlclose(self._handle)


def entry_function(library: ctypes.CDLL, name: str) -> Callable[..., int]:
    """The entry `name` of a loaded library as a built-in function: pointers, sizes, threads -> 0 or an error number.
    Raises OSError where the library has none."""
    try:
        address = ctypes.cast(library[f"{name}_entry"], ctypes.c_void_p).value
    except AttributeError as error:
        raise OSError(str(error)) from error
    definition = _MethodDef(name.encode(), address, METH_FASTCALL, None)
    made: Callable[..., int] = _new_function(ctypes.byref(definition), (definition, library), None)
    return made


def load(
    generated: Generated,
    library_path: Path | None,
    steps: tuple[BuildStep, ...],
    lowered: Callable[[], Mapping[str, Mapping[str, Text]]],
) -> Program:
    """Load the library and run the wrapper's text, which defines `call`. Raises OSError for a library that cannot be
    loaded or is not this program's."""
    names: dict[str, Any] = dict(generated.constants)
    threads = generated.options.threads
    names["threads"] = torch.get_num_threads if threads is None else functools.partial(int, threads)
    library = ctypes.CDLL(None) if library_path is None else Library(str(library_path))
    for entry in generated.entries:
        names[entry.function] = entry_function(library, entry.function)
    call = execute(generated.wrapper, generated.name, names)
    run = stepwise(generated, library, names)
    release = functools.partial(release_pools, call)
    return Program(generated, call, steps, lowered, profiler(run), run, release)
