"""`explorer.compare`, and its result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from explorer.core.arguments import explained
from explorer.core.files import visible
from explorer.ir.record import Whole
from explorer.records.data.methods import METHODS_MIME, METHODS_VERSION, MethodData, MethodsData
from explorer.records.exploration import title
from explorer.records.methods.compare import chosen, compared
from explorer.records.stock.backend import installed
from explorer.show.record import Bundle, RecordError, Viewable, compared_bundle, read_json, write_json
from explorer.show.view import methods as view
from explorer.show.view.size_limit import truncated


class Compared(Viewable[MethodsData]):
    """One program captured with several methods. Holds no live object: all of it is in `data`."""

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
        """Write it as JSON, whole or not at all, compressed where the name ends in .gz. Raises ValueError for the name
        of a page, OSError naming the path."""
        return write_json(Path(path), self.data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Compared:
        """Read what `save` wrote. Runs nothing. Raises RecordError naming the file, OSError where it cannot be read."""
        packed = read_json(Path(path))
        try:
            version = msgspec.json.decode(packed, type=_VersionedMethods).version
            if version != METHODS_VERSION:
                raise RecordError(f"{path} is a comparison of version {version}; expected {METHODS_VERSION}")
            return cls(msgspec.json.decode(packed, type=MethodsData))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RecordError(
                f"{path} is not a comparison: {error}; expected a file written by Compared.save"
            ) from None

    @staticmethod
    def is_in(path: str | os.PathLike[str]) -> bool:
        """Whether a file looks like one that `save` wrote. Raises OSError where it cannot be read."""
        try:
            msgspec.json.decode(read_json(Path(path)), type=_VersionedMethods)
        except (RecordError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return True

    def __repr__(self) -> str:
        return visible(self.text())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """The comparison as JSON for a viewer, cut where a notebook is not to hold it, as HTML without scripts, and as
        text."""
        return compared_bundle(
            METHODS_MIME, lambda room: truncated(self.data, room), "print(comparison)", repr(self),
            view.html(self.data), view.html(self.data, details=False),
        )  # fmt: skip


class _VersionedMethods(msgspec.Struct):
    version: Whole
    methods: msgspec.Raw


def backends() -> tuple[str, ...]:
    """The names of the backends that `torch.compile(backend=...)` takes and whose packages are installed."""
    return installed()


@explained("explorer.compare(fn)(x, y)")
def compare(
    fn: Callable[..., object],
    *,
    methods: Sequence[str] | None = None,
    backends: Sequence[str] = (),
    others: Mapping[str, tuple[object, ...]] | None = None,
    time: bool = True,
    name: str | None = None,
    tell: Callable[[str], None] = lambda method: None,
) -> Callable[..., Compared]:
    """A function that takes `fn`'s arguments, captures the call with several methods, runs each captured program on
    other inputs, and compares with eager: each is right, wrong or refused.

    `methods`: their names, by default all; `backends`: also `torch.compile` with these (see `backends`). `others`:
    further calls by name, as tuples of arguments. `tell` is called with the name of each method before it starts.
    Raises ValueError for a method or backend that does not exist; an exception of `fn` on the call propagates.
    """
    wanted = chosen(methods, backends)

    def run(*args: object, **kwargs: object) -> Compared:
        found = compared(fn, args, kwargs, wanted, others=others or {}, title=name or title(fn), timed=time, tell=tell)
        if isinstance(found, MethodsData):
            return Compared(found)
        own = found.__traceback__
        try:
            raise found
        except BaseException:
            BaseException.with_traceback(found, own)
            raise  # which adds no frame

    return run
