"""What is known of libraries and classes whose code is not read: mostly it is in C, and what that changes can be found
out neither by reading it nor by a call, which may not be made. One name stands for a module and for all those in it.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Container

STEADY = frozenset("torch math operator _operator functools itertools numpy".split())
"""No program sets their attributes, numbers among them, and calls of their functions change nothing else."""
FIXED = STEADY | frozenset("builtins collections contextlib abc typing enum dataclasses types logging warnings".split())
"""No program sets their classes and functions. It could set any: which it leaves alone is not to be seen."""
_DESCRIBING = frozenset(
    "abc dataclasses enum inspect platform posixpath re string textwrap types typing warnings".split()
)
FOLDED = _DESCRIBING | frozenset(
    "typing_extensions packaging importlib importlib_metadata keyword torch.utils._python_dispatch torch._utils "
    "torch._utils_internal torch.overrides torch.version torch.jit torch._jit_internal".split()
)
"""Their functions in Python, given things that are known, may be called while tracing."""
PURE = frozenset("math cmath operator _operator _struct _string unicodedata _functools _collections".split())
"""The same of their functions in C, given constants."""
UNCHANGING = frozenset("re typing inspect types functools enum packaging.version datetime".split())
"""Objects of their classes do not change."""
REPEATABLE = (FIXED - {"_operator"}) | _DESCRIBING | frozenset(
    "triton scipy explorer cmath copy time datetime random statistics decimal fractions numbers json zlib hashlib "
    "base64 binascii struct bisect heapq ntpath genericpath pprint weakref fnmatch secrets".split()
)  # fmt: skip
"""Their functions may be called again: they change their arguments, their output, random generators and nothing else.
So do those of modules of these names with an underscore in front, which hold what is written in C."""
NOT_REPEATABLE = frozenset(
    "torch.serialization torch.distributed torch.multiprocessing torch.hub torch.onnx torch.package "
    "torch.utils.tensorboard torch.utils.cpp_extension".split()
)
"""Parts of them whose functions change more."""
ASKING = frozenset("os posix nt sys locale _locale".split())
ASKS = re.compile(
    r"(get|is|W[A-Z]|[fl]?stat|f?pathconf$|sysconf$|confstr$|fs(path|encode|decode)$)\w*$"
    r"|(access|cpu_count|listdir|scandir|walk|readlink|strerror|times|uname|urandom|sched_getaffinity|intern)$"
)
"""Modules whose functions of these names only ask the system or the interpreter something."""

EFFECTS = frozenset("input open exec eval compile breakpoint __import__".split())
"""Builtins that read or change what is neither an argument nor a result."""
EFFECT_OF = {
    id(getattr(builtins, name)): name
    for name in (*EFFECTS, "globals", "exit", "quit", "help")
    if hasattr(builtins, name)
}
"""The names of these and of others that may, by id: one is known by whatever name the program calls it."""


def is_in(module: object, libraries: Container[str]) -> bool:
    """Whether a module of this name, or a package that it is in, is one of these."""
    while isinstance(module, str) and module:
        if module in libraries:
            return True
        module = module.rpartition(".")[0]
    return False


def is_written_in_c(cls: type) -> bool:
    """Whether C code declares the class: then it cannot be changed (Py_TPFLAGS_IMMUTABLETYPE). From Python 3.12 on some
    of them are on the heap, as classes that are written in Python are."""
    return bool(cls.__flags__ & 1 << 8)


def name_in_messages(cls: type) -> str:
    """The name that errors of Python's C code give a class: with its module where C code declares it (tp_name)."""
    return f"{cls.__module__}.{cls.__name__}" if is_written_in_c(cls) and cls.__module__ != "builtins" else cls.__name__
