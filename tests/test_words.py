"""Names and texts that a user meets have the field's words, and none that only this project once used."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import explorer
from explorer.core.reasons import CATALOGUE
from explorer.records.session import Record
from explorer.show.cli import main

ROOT = Path(__file__).parent.parent
ONCE_USED = re.compile(
    r"(?<![a-z])(looking|apart_from|parting|untangled|tangled|spokesm[ae]n|settle|go_on|onward|residual|owed|adopt"
    r"|ambient|refusal|touched|may_touch|not_given|notgiven|world)(?![a-z])",
    re.IGNORECASE,
)
"""Of the words that were replaced, those that are no plain English where they could stand."""


def commands() -> dict[str, str]:
    context = click.Context(main)
    return {name: f"{name} {command.get_help(context)}" for name, command in main.commands.items()}


def public() -> list[str]:
    return [*explorer.__all__, *(name for name in dir(Record) if not name.startswith("_"))]


def test_public_names() -> None:
    assert "explore" in public() and "schedule" in public()
    assert [name for name in public() if ONCE_USED.search(name)] == []


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_reasons(code: str) -> None:
    reason = CATALOGUE[code]
    found = " ".join((code, reason.title, reason.meaning, reason.hint))
    assert not ONCE_USED.search(found)


def test_the_command_line() -> None:
    assert {"run", "reason"} <= commands().keys()
    assert [name for name, text in commands().items() if ONCE_USED.search(text)] == []


@pytest.mark.parametrize("page", ["README.md", "docs/glossary.md", "docs/viewer.md", "docs/stock.md"])
def test_pages(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert ONCE_USED.findall(text) == []
