"""The catalogue of reasons: every refusal, break and fallback names an entry here, which the views link to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True, slots=True)
class Reason:
    """One catalogue entry. `code` is stable ("break.print"); `title` is one line that follows a colon, so it
    begins with a small letter and ends without a full stop."""

    code: str
    title: str
    meaning: str
    hint: str


@dataclass(frozen=True, slots=True)
class Why:
    """A reason as it applies here: the catalogue code and the particulars ("sizes 4 and 5 of buf1 and buf2")."""

    code: str
    detail: str = ""

    def __str__(self) -> str:
        title = CATALOGUE[self.code].title
        return f"{title}: {self.detail}" if self.detail else title


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision with its reason. `score` orders accepted alternatives (bytes saved, for a fusion)."""

    ok: bool
    why: Why
    score: float = 0.0

    def __bool__(self) -> bool:
        return self.ok


CATALOGUE: dict[str, Reason] = {}


def reason(code: str, title: str, meaning: str, hint: str = "") -> str:
    """Enter a reason and return its code. Raises ValueError for a code already taken."""
    if code in CATALOGUE:
        raise ValueError(f"reason {code} is already in the catalogue")
    CATALOGUE[code] = Reason(code, title, meaning, hint)
    return code


class Unsupported(Exception):
    """A stage cannot do this; the program runs eagerly instead, with this reason shown."""

    def __init__(self, why: Why) -> None:
        super().__init__(f"{why} [{why.code}]")
        self.why = why


def unsupported(code: str, detail: str = "") -> NoReturn:
    raise Unsupported(Why(code, detail))
