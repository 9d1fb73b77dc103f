"""Calls of stock's kernels and library operators, observed while the compiled program runs as it always does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from explorer.records.stock.half import Half

LIBRARY = "extern_kernels"

Observer = Callable[[tuple[str, ...], Callable[[], Any], tuple[Any, ...]], Any]
"""Gets the ids of what is called (several where one function holds several groups of loops; none where nobody knows),
the call itself, and the tensors and numbers that it is given. Returns what the call does."""


@contextmanager
def observed(half: Half, observer: Observer) -> Iterator[None]:
    """Inside the block the generated module of a half calls its kernels, and the library operators that are attributes
    of `extern_kernels`, through `observer`. What it calls by another way (`torch.ops`) is not seen."""
    names = vars(half.module) if half.module is not None else {}
    before: dict[str, Any] = {}
    try:
        for function, calls in kernels(half).items():
            if function in names:
                before[function] = names[function]
                names[function] = _Kernel(names[function], _named(iter(calls), observer))
        library = [(item.id,) for item in half.items if is_library(half, item.id)]
        if library and LIBRARY in names:
            before[LIBRARY] = names[LIBRARY]
            names[LIBRARY] = _Library(names[LIBRARY], _named(iter(library), observer))
        yield
    finally:
        names.update(before)


def kernels(half: Half) -> dict[str, list[tuple[str, ...]]]:
    """By the name of a generated function: the ids of the kernels of each call of it, in order."""
    found: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for kernel in half.kernels:
        found[kernel.function].setdefault(kernel.id.partition(".")[0], []).append(kernel.id)
    return {function: [tuple(ids) for ids in calls.values()] for function, calls in found.items()}


def is_library(half: Half, id: str) -> bool:
    return any(each.id == id and each.target.startswith(f"{LIBRARY}.") for each in half.operations)


def _named(ids: Iterator[tuple[str, ...]], observer: Observer) -> Callable[..., Any]:
    """Calls a function observed, under the next of `ids`."""

    def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return observer(next(ids, ()), lambda: function(*args, **kwargs), (*args, *kwargs.values()))

    return call


class _Kernel:
    """A kernel as the wrapper calls it: a function (C++), or an object with `run` (Triton)."""

    def __init__(self, kernel: Any, call: Callable[..., Any]) -> None:
        self._kernel = kernel
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(self._kernel, args, kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(self._kernel.run, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


class _Library:
    def __init__(self, library: Any, call: Callable[..., Any]) -> None:
        self._library = library
        self._call = call

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        return lambda *args, **kwargs: self._call(function, args, kwargs)
