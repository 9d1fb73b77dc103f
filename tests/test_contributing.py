"""What CONTRIBUTING.md points at is there."""

import ast
import re
from pathlib import Path

import pytest
import torch

from benchmarks import architecture
from explorer.compiler import autograd, capture, codegen, lower, pipeline, runtime, schedule
from explorer.core.stage import Stage
from explorer.show.view import glossary
from explorer.show.view.glossary import GLOSSARY, PANES

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
LINES = [line for line in TEXT.splitlines() if line.startswith("| ")]
ROWS = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in LINES]


@pytest.mark.parametrize(("question", "file", "names"), [row for row in ROWS if row[0].endswith("?")])
def test_the_answer_is_where_it_says(question: str, file: str, names: str) -> None:
    source = (ROOT / file).read_text()
    for name in names.split(", "):
        made = rf"(def|class|const) {re.escape(name)}\b|^{re.escape(name)}\b"
        assert file.startswith("docs") and name in source or re.search(made, source, re.M), name


def test_the_paths_exist() -> None:
    named = set(re.findall(r"`((?:explorer|tests|extension|docs)/[\w/.-]+)`", TEXT))
    assert len(named) > 10 and not sorted(path for path in named if not (ROOT / path).exists())


def test_the_tests_it_names_exist() -> None:
    named = re.findall(r"pytest (tests/[\w.]+)", TEXT)
    assert named and not [path for path in named if not (ROOT / path).exists()]


def test_the_functions_and_classes_it_names_are_written_somewhere() -> None:
    named = set(re.findall(r"`(?:[\w.]+\.)?(\w+)\(", TEXT)) | set(re.findall(r"`(_?[a-z]+(?:_[a-z]+)+)`", TEXT))
    named |= set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", TEXT))
    files = [*ROOT.glob("explorer/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("extension/src/**/*.ts*")]
    written = set(re.findall(r"\w+", "\n".join(path.read_text() for path in files)))
    assert len(named) > 10 and sorted(named - written) == []


def test_the_drawing_is_in_step() -> None:
    assert architecture.DOCUMENT.read_text() == architecture.page(), "run: python -m benchmarks architecture"


def test_what_the_glossary_names_in_torch_exists() -> None:
    rows = [line for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.startswith("| ")]
    named = {path for row in rows for path in re.findall(r"`torch/([\w/.]+)`", row)}
    assert len(named) > 20 and not sorted(path for path in named if not (Path(torch.__file__).parent / path).exists())


def test_the_glossary_s_names_in_torch_are_in_those_files() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    for path, names in re.findall(r"`torch/([\w/.]+)` \(([A-Z]\w+(?:, [A-Z]\w+)*)\)", text):
        source = (Path(torch.__file__).parent / path).read_text()
        assert not [name for name in names.split(", ") if f"class {name}" not in source], path


def test_what_the_help_of_panes_names_in_torch_exists() -> None:
    named = {path for pane in PANES.values() for path in re.findall(r"torch/([\w/]+\.py)", pane.stock)}
    assert len(named) > 4 and not sorted(path for path in named if not (Path(torch.__file__).parent / path).exists())


def test_the_glossary_is_in_step() -> None:
    assert glossary.PAGE.read_text() == glossary.page(), "run: python -m explorer.show.view.glossary"


def test_the_glossary_has_the_terms_of_panes_and_the_stages_of_the_compiler() -> None:
    terms = {each.part: each.terms for each in GLOSSARY}
    used = {term for pane in PANES.values() for term in pane.terms}
    assert len(used) > 20 and used <= {term for part in terms.values() for term in part}
    stages = {each.name for module in (pipeline, autograd, capture, codegen, lower, runtime, schedule)
              for each in vars(module).values() if isinstance(each, Stage)}  # fmt: skip
    stages |= {each.name for each in autograd.CLEANUP} | {"pass NAME"}
    assert len(stages) > 20 and stages == set(terms["Stages"])


def test_the_help_of_panes_explains_no_term_of_the_glossary() -> None:
    def phrases(text: str) -> set[tuple[str, ...]]:
        words = re.findall("[a-z]+", text.lower())
        return {tuple(words[at : at + 5]) for at in range(len(words) - 4)}

    rows = [(term, each.meaning) for part in GLOSSARY for term, each in part.terms.items()]
    repeated = [(name, term) for name, pane in PANES.items() for term, meaning in rows
                if phrases(meaning) & phrases(pane.text)]  # fmt: skip
    assert len(rows) > 60 and repeated == []


MOST_ANY = {"compiler": 615, "core": 12, "course": 128, "ir": 78, "records": 477, "show": 62}


@pytest.mark.parametrize("folder", MOST_ANY)
def test_any_is_not_written_more_often(folder: str) -> None:
    trees = (ast.parse(path.read_text()) for path in (ROOT / "explorer" / folder).rglob("*.py"))
    found = sum(isinstance(node, ast.Name) and node.id == "Any" for tree in trees for node in ast.walk(tree))
    assert found <= MOST_ANY[folder], "write the type, or object for what is only passed on"
