"""Counts, durations and amounts as text, and text whose every line knows what caused it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from explorer.core.origin import Origins, origins


def count(number: int, one: str, several: str = "") -> str:
    """ "1 guard", "3 guards"."""
    return f"{number} {one if number == 1 else several or one + 's'}"


ROUNDED = 0.9995
"""From here on three digits round to the next unit."""


def duration(seconds: float) -> str:
    """A duration in the unit that suits it: 12.3 us, 4.56 ms, 1.23 s."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= ROUNDED * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def amount(count: float, unit: str) -> str:
    """A count with a decimal prefix: 4.19 MB, 1.2 GB."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= ROUNDED * scale:
            return f"{count / scale:.3g} {prefix}{unit}"
    return f"{count:.3g} {unit}"


def headline(text: str) -> str:
    """The first line of an error's text; where it only announces what is in the next one, that too."""
    lines = [line.strip() for line in text.strip().split("\n", 9) if line.strip()]
    return " ".join(lines[: 1 + (lines[0].endswith(":") and len(lines) > 1)]) if lines else ""


def complaint(output: str) -> str:
    """The line of a compiler's output that says what is wrong; of any other text the first."""
    lines = output.splitlines() or [""]
    return next((line.partition("error: ")[2] for line in lines if "error: " in line), lines[0])


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its own id ("k1:17", or "" when nothing refers to it) and the ids one level up."""

    text: str
    id: str = ""
    origins: Origins = ()


@dataclass(frozen=True, slots=True)
class Text:
    """What an artifact prints. `language` names a Pygments lexer ("python", "cpp", "ptx", "text")."""

    lines: tuple[Line, ...]
    language: str = "text"

    def __str__(self) -> str:
        return "\n".join(line.text for line in self.lines)


class LineWriter:
    """Collects lines of generated code; each takes its origins from the ambient origin.

    A line written outside any `origin` block is refused: generated code without a cause is a bug.
    `name` prefixes the line ids: the 17th line of "k1" is "k1:17".
    """

    def __init__(self, name: str, language: str, *, indent: str = "    ") -> None:
        self.name = name
        self.language = language
        self._unit = indent
        self._depth = 0
        self._lines: list[Line] = []

    def line(self, text: str = "") -> None:
        """Write one or more lines (split at newlines) at the current depth. Raises AssertionError without an origin."""
        causes = origins()
        assert causes, f"line without an origin in {self.name}: {text!r}"
        for part in text.split("\n"):
            number = len(self._lines) + 1
            self._lines.append(Line((self._unit * self._depth + part).rstrip(), f"{self.name}:{number}", causes))

    @contextmanager
    def indented(self, opening: str = "", closing: str = "") -> Iterator[None]:
        """Write `opening`, the block's lines one step deeper, then `closing`."""
        if opening:
            self.line(opening)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if closing:
            self.line(closing)

    def finish(self) -> Text:
        return Text(tuple(self._lines), self.language)
