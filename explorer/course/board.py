"""The board of a class: who is where, from the lines that the notebooks of the learners left in a folder."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from explorer.core.text import count
from explorer.course.attempts import FILE, Attempts
from explorer.course.lessons import PUZZLES

STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 } th, td { border: 1px solid #8884; padding: .3rem .6rem }
th { text-align: left } td.ok { background: #2a82 } td.not { background: #c632 } :root { color-scheme: light dark }
"""


def lines(folder: Path) -> list[dict[str, Any]]:
    """All lines under a folder, in the order of time."""
    found = [line for file in sorted(folder.rglob(FILE)) for line in Attempts(file.parent).read()]
    return sorted((line for line in found if "who" in line and "puzzle" in line), key=lambda line: line.get("at", 0))


def page(found: Iterable[dict[str, Any]]) -> str:
    """The board as one page of HTML, without scripts. People who chose no name are numbered."""
    people: dict[str, str] = {}
    checks: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in found:
        who = str(line["who"])
        people.setdefault(who, f"learner {len(people) + 1}")
        if line.get("name"):
            people[who] = str(line["name"])
        if line.get("what") == "check" and line["puzzle"] in PUZZLES:
            checks[who, line["puzzle"]].append(line)
    seen = [id for id in PUZZLES if any(puzzle == id for _, puzzle in checks)]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>The class</title>", f"<style>{STYLE}</style>",
        "<h1>The class</h1>", "<h2>Who is where</h2>", _people(people, checks, seen),
        "<h2>The puzzles</h2>", _puzzles(checks, seen), "<h2>Scores, of those who gave a name</h2>",
        _scores({who: name for who, name in people.items() if not name.startswith("learner ")}, checks, seen),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


Checks = dict[tuple[str, str], list[dict[str, Any]]]


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    first = "".join(f"<th>{escape(each)}" for each in head)
    return f"<table><tr>{first}" + "".join(f"<tr>{''.join(row)}" for row in rows) + "</table>"


def _cell(text: object, kind: str = "") -> str:
    return f"<td{f' class={kind}' if kind else ''}>{escape(str(text))}"


def solved(tried: list[dict[str, Any]]) -> int | None:
    """Which attempt was the first right one."""
    return next((number for number, line in enumerate(tried, 1) if line.get("ok")), None)


def _people(people: dict[str, str], checks: Checks, seen: list[str]) -> str:
    def row(who: str) -> Iterable[str]:
        yield f"<th>{escape(people[who])}"
        for id in seen:
            tried = checks.get((who, id), [])
            at = solved(tried)
            said, kind = (f"✓ {at}", "ok") if at else (count(len(tried), "try", "tries"), "not") if tried else ("", "")
            yield _cell(said, kind)

    return _table(["", *seen], map(row, people))


def _puzzles(checks: Checks, seen: list[str]) -> str:
    def row(id: str) -> Iterable[str]:
        tried = [each for (_, puzzle), each in checks.items() if puzzle == id]
        minutes = [(each[at - 1]["at"] - each[0]["at"]) / 60 for each in tried if (at := solved(each))]
        failures = Counter(str(line.get("said", "")) for each in tried for line in each[:1] if not line.get("ok"))
        common = failures.most_common(1)
        yield f"<th>{escape(id)}: {escape(PUZZLES[id].title)}"
        yield _cell(f"{len(minutes)} of {len(tried)}")
        yield _cell(f"{median(minutes):.0f} min" if minutes else "")
        yield _cell(f"{common[0][0]} ({common[0][1]} times)" if common else "")

    return _table(["", "solved", "median, from the first try", "commonest first failure"], map(row, seen))


def _scores(named: dict[str, str], checks: Checks, seen: list[str]) -> str:
    def rows() -> Iterable[Iterable[str]]:
        for id in seen:
            for who, name in named.items():
                right = [line for line in checks.get((who, id), []) if line.get("ok") and line.get("scores")]
                if right:
                    figures = ", ".join(f"{what} {value:g}" for what, value in right[-1]["scores"].items())
                    yield [f"<th>{escape(id)}", _cell(name), _cell(figures)]

    return _table(["", "who", "last right answer"], rows())
