"""Code in a page: coloured lines, each with the number under which the page's script finds its chain of causes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from explorer.ir.record import CompileData, LineData, TextData
from explorer.view.provenance import provenance

COLOURED = 4000
"""Lines beyond which a text is not coloured: the reader waits for it otherwise."""

ALIKE = 0.5
"""The share of equal lines from which a text is shown as what it changed in the one before."""

CONTEXT = 2
"""Lines shown on both sides of a change."""


class Links:
    """The elements of one compile, numbered: a page's lines name them by number, its script reads their edges."""

    def __init__(self, compile: CompileData) -> None:
        self._edges = provenance(compile).up
        self._numbers: dict[str, int] = {}
        self._nameless: dict[tuple[str, ...], int] = {}
        self.names: list[str] = []
        self.up: list[list[int]] = []

    def number(self, id: str) -> int:
        """The number of an element, with all that leads to it numbered too."""
        if id not in self._numbers:
            stack = [id]
            while stack:
                next = stack.pop()
                if next not in self._numbers:
                    self._numbers[next] = self._add(next)
                    stack += self._edges.get(next, ())
        return self._numbers[id]

    def _add(self, name: str) -> int:
        self.names.append(name)
        self.up.append([])
        return len(self.names) - 1

    def attribute(self, id: str, origins: Iterable[str] = ()) -> str:
        """The attribute of an element that shows `id`, or something nameless caused by `origins`. Nothing refers to
        the nameless, so that those of the same causes share a number."""
        if id:
            return f" data-n={self.number(id)}"
        causes = tuple(origins)
        if not causes:
            return ""
        if causes not in self._nameless:
            own = self._nameless[causes] = self._add("")
            self.up[own] = [self.number(cause) for cause in causes]
        return f" data-n={self._nameless[causes]}"

    def data(self) -> dict[str, object]:
        """Names by number, and the numbers that each was caused by."""
        for name, number in list(self._numbers.items()):
            self.up[number] = [self.number(cause) for cause in self._edges.get(name, ())]
        return {"names": self.names, "up": self.up}


def code(body: TextData, links: Links, first: int | None = None, most: int | None = None) -> str:
    """The lines of a text; `first` is the number of its first line in its file. Of more than `most` lines the rest are
    counted, not shown."""
    if most is not None and len(body.lines) > most:
        shown = code(TextData(body.lines[:most], body.language), links, first)
        return f"{shown}<p>{len(body.lines) - most} more lines are in the record.</p>"
    inner = coloured(body)
    rows = []
    for offset, (line, shown) in enumerate(zip(body.lines, inner, strict=True)):
        number = f"<i>{first + offset}</i>" if first is not None else ""
        rows.append(_row(line, number + shown, links))
    return _pre(rows)


def _pre(rows: Iterable[str]) -> str:
    return f"<pre class=code tabindex=0>{''.join(rows)}</pre>"


def _row(line: LineData, shown: str, links: Links, style: str = "l") -> str:
    return f"<span class='{style}'{links.attribute(line.id, line.origins)}>{shown or ' '}</span>"


@dataclass(frozen=True)
class Change:
    """Lines of two texts: `tag` is "equal", "replace", "insert" or "delete", the rest half-open ranges."""

    tag: str
    before: range
    after: range


def changes(before: TextData, after: TextData) -> list[Change] | None:
    """What `after` changed in `before`; None where the two have too little in common for that to read well."""
    if not before.lines or not after.lines:
        return None
    matcher = difflib.SequenceMatcher(
        None, [line.text for line in before.lines], [line.text for line in after.lines], autojunk=False
    )
    if matcher.ratio() < ALIKE:
        return None
    return [Change(tag, range(a, b), range(c, d)) for tag, a, b, c, d in matcher.get_opcodes()]


def changed(before: TextData, after: TextData, found: Sequence[Change], links: Links) -> str:
    """`after` as its changes to `before`, with a little of what surrounds them."""
    shown: list[tuple[str, str, LineData]] = []
    for position, change in enumerate(found):
        if change.tag != "equal":
            shown += [("l gone", "- ", before.lines[n]) for n in change.before]
            shown += [("l new", "+ ", after.lines[n]) for n in change.after]
            continue
        lead = 0 if position == 0 else CONTEXT
        trail = 0 if position == len(found) - 1 else CONTEXT
        hidden = len(change.after) - lead - trail
        same = [("l", "  ", after.lines[n]) for n in change.after]
        if hidden > 1:
            same[lead : lead + hidden] = [("l same", "  ", LineData(f"# {hidden} lines unchanged"))]
        shown += same
    inner = coloured(TextData(tuple(line for _, _, line in shown), after.language))
    rows = (_row(line, sign + code, links, style) for (style, sign, line), code in zip(shown, inner, strict=True))
    return _pre(rows)


def coloured(body: TextData) -> list[str]:
    """Each line as HTML, coloured where its language is known."""
    plain = [escape(line.text) for line in body.lines]
    if body.language == "text" or len(body.lines) > COLOURED:
        return plain
    try:
        lexer = get_lexer_by_name(body.language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return plain
    lines = [""]
    for token, value in lexer.get_tokens("\n".join(line.text for line in body.lines)):
        style = STANDARD_TYPES.get(token, "")
        for number, piece in enumerate(value.split("\n")):
            if number:
                lines.append("")
            if piece:
                lines[-1] += f"<span class={style}>{escape(piece)}</span>" if style in STYLED else escape(piece)
    return lines if len(lines) == len(plain) else plain


STYLED = frozenset("k kn kd kc kt kr kp ow s s1 s2 sa sd se si sc mi mf mh mb il nb c c1 cm ch cp cpf".split())
"""The token classes that page.css gives a colour; marking the others would only make the page larger."""
