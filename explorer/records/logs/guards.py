"""The guard tree that torch prints, as guards."""

from __future__ import annotations

import ast
import re
from typing import Any

from explorer.ir.dynamo_guards import in_words, is_torchs_own
from explorer.ir.record import ConstantData, GuardData, SpanData

LEAF = re.compile(r"[| ]*\+- ([A-Z][A-Z_0-9]*)(?:: (.*))?$")
MANAGER = re.compile(r"[| ]*\+- \w*GuardManager: source=(.*?), accessed_by=")
LITERAL = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{0,15})?|True|False|'[^'\\]{0,80}'")
PLACE = re.compile(r"(\S+):(\d{1,9}) in \S+")


def guards(compile: str, text: str) -> tuple[GuardData, ...]:
    """The leaves of the tree in order. torch cuts the file names in it to their ends, so a span's `file` may be one."""
    found: list[GuardData] = []
    source = ""
    for line in text.splitlines():
        if manager := MANAGER.match(line):
            source = manager[1]
        elif leaf := LEAF.match(line):
            found.append(_guard(f"{compile}.guard{len(found)}", source, leaf[1], leaf[2] or leaf[1]))
    return tuple(found)


def _guard(id: str, source: str, kind: str, rest: str) -> GuardData:
    """A leaf reads "EXPRESSION  # LINE OF THE PROGRAM  # FILE:LINE in FUNCTION", or lacks one or both comments."""
    expression, *comments = (part.strip() for part in rest.split(" # "))
    span = None
    if len(comments) > 1 and (place := PLACE.fullmatch(comments[-1])):
        span = SpanData(place[1], int(place[2]), int(place[2]))
        del comments[-1]
    why = " # ".join(comments)
    why = f"needed by `{why}`" if span else why
    why = why or "the log gives no cause"
    words, of_torch = in_words(expression), is_torchs_own(kind, source, expression)
    value = _literal(expression.rpartition(" == ")[2]) if kind in ("EQUALS_MATCH", "LENGTH_CHECK") else None
    asked: dict[str, Any] = {"property": kind, "relation": "", "value": ""}
    if kind == "LENGTH_CHECK" and value is not None and value.type == "int":
        asked = {"property": "length", "relation": "is", "value": value.text, "length": int(value.text)}
    if kind == "EQUALS_MATCH" and value is not None:
        asked = {"property": "constant", "relation": "equals", "value": value.text, "constant": value}
    return GuardData(id, source, expression=expression, why=why, span=span, words=words, of_torch=of_torch, **asked)


def _literal(text: str) -> ConstantData | None:
    """A number, a bool or a short text as Python writes it."""
    if not LITERAL.fullmatch(text):
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return ConstantData(type(value).__name__, repr(value), value)
