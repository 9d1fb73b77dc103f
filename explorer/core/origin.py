"""The ambient origin: which element one level up is being translated right now.

Constructors of artifacts read it, so that no translation passes origins by hand and none can forget to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Origins = tuple[str, ...]

_SYNTHETIC = "synthetic:"
_current: ContextVar[Origins] = ContextVar("origin", default=())


def origins() -> Origins:
    """The ids that cause whatever is being made now; empty outside any `origin` block."""
    return _current.get()


@contextmanager
def origin(*ids: str) -> Iterator[None]:
    """Make `ids` the origins of everything constructed inside the block."""
    token = _current.set(ids)
    try:
        yield
    finally:
        _current.reset(token)


def synthetic(reason: str) -> str:
    """The origin of something that no source line caused, naming why it exists ("guard prologue")."""
    return _SYNTHETIC + reason


def synthetic_reason(id: str) -> str | None:
    """The reason given to `synthetic`, or None when `id` names a real element."""
    return id.removeprefix(_SYNTHETIC) if id.startswith(_SYNTHETIC) else None


def union(*many: Iterable[str]) -> Origins:
    """The distinct ids of `many` in first-seen order: what a merge (fusion, CSE) keeps."""
    return tuple(dict.fromkeys(id for ids in many for id in ids))
