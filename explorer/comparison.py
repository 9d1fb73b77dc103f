"""Compared: what `compare` gives back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from explorer.exploration import title
from explorer.ir.methods import METHODS_VERSION, MethodData, MethodsData
from explorer.methods.compare import chosen, compared
from explorer.session import RecordError, write_whole
from explorer.stock.backend import installed
from explorer.view import methods as view


class Compared:
    """One program through several capture methods. Holds no live object: what it shows is in `data`."""

    def __init__(self, data: MethodsData) -> None:
        self.data = data

    def __getitem__(self, name: str) -> MethodData:
        """The method of this name. Raises KeyError naming those that there are."""
        for method in self.data.methods:
            if method.name == name:
                return method
        raise KeyError(f"no method {name!r} was compared; there are: {', '.join(m.name for m in self.data.methods)}")

    def text(self) -> str:
        return view.text(self.data)

    def markdown(self, *, times: bool = True) -> str:
        """The table for a document; without `times`, what is the same in each run."""
        return view.markdown(self.data, times=times)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as JSON, whole or not at all. Raises OSError naming the path."""
        target = Path(path)
        write_whole(target, msgspec.json.encode(self.data))
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Compared:
        """Read what `save` wrote. Runs nothing. Raises RecordError naming the file, OSError where it cannot be read."""
        try:
            data = msgspec.json.decode(Path(path).read_bytes(), type=MethodsData)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RecordError(
                f"{path} is not a comparison: {error}; expected a file written by Compared.save"
            ) from None
        if data.version != METHODS_VERSION:
            raise RecordError(
                f"{path} is a comparison of version {data.version}; this explorer reads {METHODS_VERSION}"
            )
        return cls(data)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return view.html(self.data)


def backends() -> tuple[str, ...]:
    """The names of the back ends that `torch.compile(backend=...)` takes and whose packages are installed."""
    return installed()


def compare(
    fn: Callable[..., Any],
    *,
    methods: Sequence[str] | None = None,
    backends: Sequence[str] = (),
    others: Mapping[str, tuple[Any, ...]] | None = None,
    time: bool = True,
    name: str | None = None,
    tell: Callable[[str], None] = lambda method: None,
) -> Callable[..., Compared]:
    """A function that takes `fn`'s arguments, captures the call in every way there is, runs what was captured on other
    inputs, and says beside eager whether each is right, wrong or refused.

    `methods`: some by name, all by default; `backends`: also `torch.compile` with these (see `backends`).
    `others`: further calls by name, as tuples of arguments. `tell` hears the name of each method as it begins. Raises
    ValueError for a method or backend that does not exist; what `fn` raises on the call itself propagates.
    """
    wanted = chosen(methods, backends)

    def run(*args: Any, **kwargs: Any) -> Compared:
        data = compared(fn, args, kwargs, wanted, others=others or {}, title=name or title(fn), timed=time, tell=tell)
        return Compared(data)

    return run
