"""The board of a class: who is where, from the lines that the notebooks of the learners left in a folder."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path, PurePath
from statistics import median
from types import MappingProxyType

from explorer.core.text import count
from explorer.course.attempts import FILE, RECORDS, AttemptLine, Attempts
from explorer.course.lessons import PUZZLES
from explorer.show.record import Record

STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 } th, td { border: 1px solid #8884; padding: .3rem .6rem }
th { text-align: left } td.ok { background: #2a82 } td.not { background: #c632 } :root { color-scheme: light dark }
"""


@dataclass(frozen=True)
class Found:
    """A line, and the folder of its file."""

    line: AttemptLine
    folder: Path


Checks = dict[tuple[str, str], list[Found]]
"""By learner and puzzle."""


def lines(folder: Path) -> list[Found]:
    """All lines under a folder, in the order of time."""
    places = [file.parent for file in sorted(folder.rglob(FILE))]
    found = [Found(line, place) for place in places for line in Attempts(place).read()]
    return sorted(found, key=lambda each: each.line.at)


def checks_of(found: Iterable[Found]) -> Checks:
    checks: Checks = defaultdict(list)
    for each in found:
        if each.line.what == "check" and each.line.puzzle in PUZZLES:
            checks[each.line.who, each.line.puzzle].append(each)
    return checks


def commonest(checks: Checks, puzzle: str) -> list[Found]:
    """The first checks of those who failed a puzzle at first in the most common way."""
    first = [tried[0] for (_, id), tried in checks.items() if id == puzzle and not tried[0].line.ok]
    messages = Counter(each.line.message for each in first).most_common(1)
    return [each for each in first if each.line.message == messages[0][0]]


def examples(found: list[Found], board: Path) -> dict[str, str]:
    """Write a page beside the board with the record of each puzzle's most common first failure. Returns their names,
    with the place that they open at, by puzzle."""
    checks, links = checks_of(found), {}
    for puzzle in PUZZLES:
        for each in commonest(checks, puzzle):
            try:
                record = Record.load(each.folder / RECORDS / (PurePath(each.line.record).name or "none"))
            except (OSError, ValueError):
                continue
            at = each.line.place
            place = record.to_html(board.with_name(f"{board.stem}-{puzzle}.html"))
            links[puzzle] = place.name + (at if at.startswith("#") else record.link(at))
            break
    return links


def page(found: Iterable[Found], links: Mapping[str, str] = MappingProxyType({})) -> str:
    """The board as one page of HTML, without scripts. People who chose no name are numbered. `links` are pages with the
    record of a puzzle's most common failure."""
    found, people = list(found), dict[str, str]()
    for each in found:
        who = each.line.who
        people.setdefault(who, f"learner {len(people) + 1}")
        if each.line.name:
            people[who] = each.line.name
    checks = checks_of(found)
    seen = [id for id in PUZZLES if any(puzzle == id for _, puzzle in checks)]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>The class</title>", f"<style>{STYLE}</style>",
        "<h1>The class</h1>", "<h2>Who is where</h2>", _people(people, checks, seen),
        "<h2>The puzzles</h2>", _puzzles(checks, seen, links), "<h2>Scores, of those who gave a name</h2>",
        _scores({who: name for who, name in people.items() if not name.startswith("learner ")}, checks, seen),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    first = "".join(f"<th>{escape(each)}" for each in head)
    return f"<table><tr>{first}" + "".join(f"<tr>{''.join(row)}" for row in rows) + "</table>"


def _cell(text: object, kind: str = "") -> str:
    return f"<td{f' class={kind}' if kind else ''}>{escape(str(text))}"


def solved(tried: list[Found]) -> int | None:
    """Which attempt was the first right one."""
    return next((number for number, each in enumerate(tried, 1) if each.line.ok), None)


def _people(people: dict[str, str], checks: Checks, seen: list[str]) -> str:
    def row(who: str) -> Iterable[str]:
        yield f"<th>{escape(people[who])}"
        for id in seen:
            tried = checks.get((who, id), [])
            at = solved(tried)
            state, kind = (f"✓ {at}", "ok") if at else (count(len(tried), "try", "tries"), "not") if tried else ("", "")
            yield _cell(state, kind)

    return _table(["", *seen], map(row, people))


def _puzzles(checks: Checks, seen: list[str], links: Mapping[str, str]) -> str:
    def row(id: str) -> Iterable[str]:
        tried = [each for (_, puzzle), each in checks.items() if puzzle == id]
        minutes = [(each[at - 1].line.at - each[0].line.at) / 60 for each in tried if (at := solved(each))]
        common = commonest(checks, id)
        yield f"<th>{escape(id)}: {escape(PUZZLES[id].title)}"
        yield _cell(f"{len(minutes)} of {len(tried)}")
        yield _cell(f"{median(minutes):.0f} min" if minutes else "")
        most = f"{common[0].line.message} ({count(len(common), 'time')})" if common else ""
        link = f' <a href="{escape(links[id], quote=True)}">Open its record</a>' if id in links else ""
        yield _cell(most) + link

    return _table(["", "solved", "median, from the first try", "commonest first failure"], map(row, seen))


def _scores(named: dict[str, str], checks: Checks, seen: list[str]) -> str:
    def rows() -> Iterable[Iterable[str]]:
        for id in seen:
            for who, name in named.items():
                right = [each.line for each in checks.get((who, id), []) if each.line.ok and each.line.scores]
                if right:
                    figures = ", ".join(f"{what} {value:g}" for what, value in right[-1].scores.items())
                    yield [f"<th>{escape(id)}", _cell(name), _cell(figures)]

    return _table(["", "who", "last right answer"], rows())
