"""The ambient origin: which element one level up is being translated right now.

Constructors of artifacts read it, so that no translation passes origins by hand and none can forget to.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar, Token

Origins = tuple[str, ...]

_SYNTHETIC = "synthetic:"
_current: ContextVar[Origins] = ContextVar("origin", default=())


def origins() -> Origins:
    """The ids that cause whatever is being made now; empty outside any `origin` block."""
    return _current.get()


class origin:
    """Make `ids` the origins of everything constructed inside the block. It is entered at each step of capture, for
    which a generator would take several times as long."""

    __slots__ = ("_ids", "_token")

    def __init__(self, *ids: str) -> None:
        self._ids = ids
        self._token: Token[Origins] | None = None

    def __enter__(self) -> None:
        self._token = _current.set(self._ids)

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _current.reset(self._token)


def synthetic(reason: str) -> str:
    """The origin of something that no source line caused, naming why it exists ("guard prologue")."""
    return _SYNTHETIC + reason


def synthetic_reason(id: str) -> str | None:
    """The reason given to `synthetic`, or None when `id` names a real element."""
    return id.removeprefix(_SYNTHETIC) if id.startswith(_SYNTHETIC) else None


def union(*many: Iterable[str]) -> Origins:
    """The distinct ids of `many` in first-seen order: what a merge (fusion, CSE) keeps."""
    return tuple(dict.fromkeys(id for ids in many for id in ids))
