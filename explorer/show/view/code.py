"""Code in a page without scripts: coloured lines, and what changed between two texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from explorer.core.text import count
from explorer.ir.record import LineData, TextData
from explorer.show.view import difference

COLOURED = 4000
"""Lines beyond which a text is not coloured: the reader waits for it otherwise."""

ALIKE = 0.5
"""The share of equal lines from which a text is shown as what it changed in the one before."""

CONTEXT = 2
"""Lines shown on both sides of a change."""


def code(body: TextData, first: int | None = None, most: int | None = None) -> str:
    """The lines of a text; `first` is the number of its first line in its file. Of more than `most` lines the rest are
    counted, not shown."""
    if most is not None and len(body.lines) > most:
        shown = code(TextData(body.lines[:most], body.language), first)
        return f"{shown}<p>{len(body.lines) - most} more lines are in the record.</p>"
    rows = []
    for offset, shown in enumerate(coloured(body)):
        number = f"<i>{first + offset}</i>" if first is not None else ""
        rows.append(_row(number + shown))
    return _pre(rows)


def _pre(rows: Iterable[str]) -> str:
    return f"<pre class=code tabindex=0>{''.join(rows)}</pre>"


def _row(shown: str, style: str = "l") -> str:
    return f"<span class='{style}'>{shown or ' '}</span>"


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
    found = difference.changes([line.text for line in before.lines], [line.text for line in after.lines])
    same = sum(b - a for tag, a, b, _, _ in found if tag == "equal")
    if 2 * same < ALIKE * (len(before.lines) + len(after.lines)):
        return None
    return [Change(tag, range(a, b), range(c, d)) for tag, a, b, c, d in found]


def changed(before: TextData, after: TextData, found: Sequence[Change]) -> str:
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
            same[lead : lead + hidden] = [("l same", "  ", LineData(f"# {count(hidden, 'line')} unchanged"))]
        shown += same
    inner = coloured(TextData(tuple(line for _, _, line in shown), after.language))
    rows = (_row(sign + code, style) for (style, sign, _), code in zip(shown, inner, strict=True))
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
