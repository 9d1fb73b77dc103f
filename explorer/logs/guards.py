"""The guard tree that torch prints, as guards."""

from __future__ import annotations

import re

from explorer.ir.record import GuardData, SpanData

LEAF = re.compile(r"[| ]*\+- ([A-Z][A-Z_0-9]*)(?:: (.*))?$")
MANAGER = re.compile(r"[| ]*\+- \w*GuardManager: source=(.*?), accessed_by=")
PLACE = re.compile(r"(.*?)\s+# (.*?)(?:\s+# (\S+):(\d+) in \S+)?$")


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
    expression, span, why = rest, None, ""
    if found := PLACE.match(rest):
        expression, why = found[1], found[2]
        if found[3]:
            span = SpanData(found[3], int(found[4]), int(found[4]))
            why = f"needed by `{why}`"
    return GuardData(id, source, kind, "", "", expression, why or "the log gives no cause", span=span)
