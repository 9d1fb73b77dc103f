"""What differs between two texts, line by line, in time that grows with their length."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

SMALL = 1 << 14
"""Pairs of lines that a full comparison looks at. What lies between two lines that occur once on both sides is more
seldom; then it counts as changed as a whole."""

Change = tuple[str, int, int, int, int]
"""As of difflib: ("equal" | "replace" | "delete" | "insert", lines of the first text, lines of the second)."""


def changes(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    found: list[Change] = []
    a = b = 0
    for i, j in [*_anchors(old, new), (len(old), len(new))]:
        found += _between(old, new, a, i, b, j)
        if i < len(old):
            found.append(("equal", i, i + 1, j, j + 1))
        a, b = i + 1, j + 1
    return list(_joined(found))


def unified(old: Sequence[str], new: Sequence[str], names: tuple[str, str], context: int) -> Iterator[str]:
    """A unified diff; nothing where the texts agree. The folders that Python files lie in do not count: they are others
    in another environment."""
    found = changes([*map(_anywhere, old)], [*map(_anywhere, new)])
    groups = [g for g in _groups(found, context) if any(tag != "equal" for tag, *_ in g)]
    if groups:
        yield from (f"--- {names[0]}", f"+++ {names[1]}")
    for group in groups:
        (_, a, _, b, _), (_, _, c, _, d) = group[0], group[-1]
        yield f"@@ -{a + 1},{c - a} +{b + 1},{d - b} @@"
        for tag, i, j, k, m in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[i:j])
                continue
            yield from (f"-{line}" for line in old[i:j])
            yield from (f"+{line}" for line in new[k:m])


_WORD = re.compile(r"[^\s:\"'(),]+")


def _anywhere(line: str) -> str:
    return _WORD.sub(lambda found: found[0].rpartition("/")[2] if found[0].endswith(".py") else found[0], line)


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that occur once on both sides, as many as come in the same order on both."""
    left, right = Counter(old), Counter(new)
    places = {line: n for n, line in enumerate(new) if right[line] == 1}
    pairs = [(n, places[line]) for n, line in enumerate(old) if left[line] == 1 and line in places]
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for n, (_, place) in enumerate(pairs):
        at = bisect_left(ends, place)
        before.append(last[at - 1] if at else -1)
        ends[at : at + 1], last[at : at + 1] = [place], [n]
    found = []
    n = last[-1] if last else -1
    while n >= 0:
        found.append(pairs[n])
        n = before[n]
    return found[::-1]


def _between(old: Sequence[str], new: Sequence[str], a: int, i: int, b: int, j: int) -> Iterator[Change]:
    """The changes from old[a:i] to new[b:j]."""
    start, end = 0, 0
    while a + start < i and b + start < j and old[a + start] == new[b + start]:
        start += 1
    while a + start < i - end and b + start < j - end and old[i - end - 1] == new[j - end - 1]:
        end += 1
    if start:
        yield "equal", a, a + start, b, b + start
    a, i, b, j = a + start, i - end, b + start, j - end
    if 0 < (i - a) * (j - b) <= SMALL:
        found = difflib.SequenceMatcher(None, old[a:i], new[b:j], autojunk=False).get_opcodes()
        yield from ((tag, a + p, a + q, b + r, b + t) for tag, p, q, r, t in found)
    elif i > a or j > b:
        yield "replace" if i > a and j > b else "delete" if i > a else "insert", a, i, b, j
    if end:
        yield "equal", i, i + end, j, j + end


def _joined(found: Sequence[Change]) -> Iterator[Change]:
    """Neighbors that say the same as one."""
    last: Change | None = None
    for each in found:
        if last is not None and (last[0] == "equal") == (each[0] == "equal"):
            a, i, b, j = last[1], each[2], last[3], each[4]
            tag = "equal" if each[0] == "equal" else "replace" if i > a and j > b else "delete" if i > a else "insert"
            last = tag, a, i, b, j
        else:
            if last is not None:
                yield last
            last = each
    if last is not None:
        yield last


def _groups(found: Sequence[Change], context: int) -> Iterator[list[Change]]:
    """Changes with at most `context` equal lines around them; those near each other together."""
    group: list[Change] = []
    for n, (tag, a, i, b, j) in enumerate(found):
        if tag != "equal":
            group.append((tag, a, i, b, j))
            continue
        lead, trail = context if n else 0, context if n < len(found) - 1 else 0
        if i - a <= lead + trail:
            group.append((tag, a, i, b, j))
            continue
        if lead:
            group.append((tag, a, a + lead, b, b + lead))
        if group:
            yield group
        group = [(tag, i - trail, i, j - trail, j)] if trail else []
    if group:
        yield group
