"""Names and texts that a user meets have the field's words, and none that only this project once used."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import explorer
from explorer.core.reasons import CATALOGUE
from explorer.show.cli import main
from explorer.show.record import Record

ROOT = Path(__file__).parent.parent
for each in sorted((ROOT / "explorer").rglob("*.py")):
    if re.search(r"^\w+ = reason\(", each.read_text("utf-8"), re.MULTILINE):
        importlib.import_module(".".join(each.relative_to(ROOT).with_suffix("").parts))  # enters its reasons
ONCE_USED = re.compile(
    r"(?<![a-z])(looking|apart_from|parting|untangled|tangled|spokesm[ae]n|settle|go_on|onward|residual|owed|adopt|fate"
    r"|ambient|refusal|touched|may_touch|not_given|notgiven|world|(back|front)[ _-]ends?)(?![a-z])",
    re.IGNORECASE,
)
"""Of the words that were replaced, those that are no plain English where they could stand."""
NO_NAMES = re.compile(
    r"(?<![a-zA-Z])(told|said|held|fate|apart|beside|because|came|became|mended|touched|spokes|strangers?|wished)(?![a-z])"
    r"|(Told|Said|Held|Seen|Fate|Apart|Beside|Because|Again|Became|Mended|Touch(ed)?)(?![a-z])"
)
"""Words that do not say in a name what is told, held, seen or beside something."""

ASKED_ABOUT = re.compile(
    r"\b(mend(s|ed)?|but for|by then|strangers|c[ao]mes? of it|bec[oa]mes? of|goes? on|went on|lets? go|beside eager"
    r"|(is|are|was|were|be) told|told (by|of|in|under|with))\b",
    re.IGNORECASE,
)
"""Phrases that readers of texts for users had to ask about."""

BRITISH = re.compile(
    r"colo[u]r|neighbo[u]r|behavio[u]r|labelle[d](?!by)"
    r"|(vector|normal|special|optim|initial|general|serial|material|summar|parallel)is(ing|ation|e[drs]?)s?\b",
    re.IGNORECASE,
)


def commands() -> dict[str, str]:
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name: f"{name} {command.get_help(context)}" for name, command in found.items() if command is not None}


def public() -> list[str]:
    return [*explorer.__all__, *(name for name in dir(Record) if not name.startswith("_"))]


PROPER_NAMES = ("CXX", "Dynamo", "Inductor", "NumPy", "Triton")


def test_public_names() -> None:
    assert "explore" in public() and "schedule" in public()
    assert [name for name in public() if ONCE_USED.search(name)] == []


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_reasons(code: str) -> None:
    assert len(CATALOGUE) > 180
    reason = CATALOGUE[code]
    found = " ".join((code, reason.title, reason.meaning, reason.hint))
    assert not ONCE_USED.search(found)
    if not code.startswith("stock.GB"):  # these titles are torch's
        first = reason.title.split()[0]
        assert first[0].islower() or first in PROPER_NAMES, (
            "a title follows a colon: it begins as in the middle of a line"
        )
        assert reason.title[-1] not in ".:"


def test_the_command_line() -> None:
    assert {"run", "reason"} <= commands().keys()
    assert [name for name, text in commands().items() if ONCE_USED.search(text)] == []


def test_texts_for_users_have_no_phrase_to_ask_about() -> None:
    members = [getattr(each, "fget", each) for each in vars(Record).values()]
    texts = [inspect.getdoc(each) or "" for each in (*(getattr(explorer, name) for name in explorer.__all__), *members)]
    texts += [" ".join((each.title, each.meaning, each.hint)) for each in CATALOGUE.values()]
    texts += [*commands().values(), *((ROOT / page).read_text("utf-8") for page in ("README.md", "CHANGELOG.md"))]
    assert len(texts) > 200 and [found for text in texts for found in ASKED_ABOUT.findall(text)] == []


def test_the_spelling_is_that_of_torch() -> None:
    files = [each for top in ("explorer", "extension/src") for each in sorted((ROOT / top).rglob("*"))]
    files += sorted((ROOT / "docs").glob("*"))
    files = [each for each in files if each.suffix in (".py", ".ts", ".md") and "labextension" not in each.parts]
    assert len(files) > 400
    assert [(each.name, found[0]) for each in files if (found := BRITISH.search(each.read_text("utf-8")))] == []


SOURCES = sorted(path for path in (ROOT / "explorer").rglob("*.py") if "labextension" not in path.parts)
QUESTION = re.compile("what am I looking at", re.IGNORECASE)


def texts(path: Path) -> Iterator[str]:
    """The strings of a file that have several words, docstrings apart."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            if " " in node.value:
                yield node.value


def names(path: Path) -> Iterator[str]:
    """The file's own name, and those of its functions, classes and fields."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (each.target.id for each in node.body
                        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name))  # fmt: skip


def test_texts_and_names_of_the_package() -> None:
    assert len(SOURCES) > 100
    questionable = [
        text for path in SOURCES for text in texts(path) if ONCE_USED.search(text) or ASKED_ABOUT.search(text)
    ]
    assert questionable == []
    found = [(path.name, name) for path in SOURCES for name in names(path)]
    assert [each for each in found if ONCE_USED.search(each[1]) or NO_NAMES.search(each[1])] == []


def variables(path: Path) -> Iterator[str]:
    """The names of a file's variables and parameters."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def test_variables() -> None:
    assert [(path.name, name) for path in SOURCES for name in variables(path) if name in ("said", "told")] == []


def test_texts_of_the_viewer() -> None:
    files = [*(ROOT / "extension" / "src").rglob("*.ts"), *(ROOT / "extension" / "src").rglob("*.json")]
    files += (ROOT / "explorer" / "show" / "view").glob("*.json")
    found = [text for file in files for text in re.findall(r'"[^"\n]*"|`[^`]*`', file.read_text(encoding="utf-8"))]
    assert len(found) > 1000
    assert [text for text in found if " " in text and ONCE_USED.search(QUESTION.sub("", text))] == []
    assert [text for text in found if " " in text and ASKED_ABOUT.search(text)] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *(f"docs/{name}.md" for name in (
    "glossary", "viewer", "stock", "situations", "how_do_i", "course", "workshop", "jupyterhub", "index", "paper", "api"
))])  # fmt: skip
def test_pages(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert ONCE_USED.findall(text) == []


def test_functions_and_types_of_the_viewer() -> None:
    files = sorted((ROOT / "extension" / "src").rglob("*.ts"))
    declared = re.compile(r"\b(?:function\*?|interface|class|type) (\w+)")
    found = [(file.name, name) for file in files
             for name in (file.stem, *declared.findall(file.read_text(encoding="utf-8")))]  # fmt: skip
    assert len(found) > 1000 and [each for each in found if NO_NAMES.search(each[1])] == []


def test_a_class_name_has_one_meaning() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for path in sorted(Path(explorer.__file__).parent.rglob("*.py")):
        for each in ast.parse(path.read_text()).body:
            if isinstance(each, ast.ClassDef):
                where[each.name].append(path.name)
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


def test_a_type_of_the_viewer_has_one_meaning() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "extension" / "src").rglob("*.ts")):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^(?:export )?(?:abstract )?(?:interface|class|type) (\w+)", text, re.MULTILINE):
            where[name].append(path.name)
    assert len(where) > 200
    assert {name: files for name, files in where.items() if len(files) > 1} == {}
