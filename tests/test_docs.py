"""The documentation: every answer is what the record says, and the site has a page for everything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import explorer
from explorer.course.build import sources

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))

import conf  # noqa: E402
from answers import PAGE, answer, prelude, questions, steady  # noqa: E402

TEXT = PAGE.read_text()
QUESTIONS = list(questions(TEXT))


def test_there_are_twenty_questions() -> None:
    assert len({question for question, _, _ in QUESTIONS}) == 20


@pytest.mark.parametrize(("question", "code", "printed"), QUESTIONS, ids=[question for question, _, _ in QUESTIONS])
def test_an_answer_is_what_the_record_says(question: str, code: str, printed: str) -> None:
    assert printed, "run: python docs/answers.py"
    assert steady(answer(question, code, prelude(TEXT)).printed) == steady(printed), "run: python docs/answers.py"


def test_the_guide_tells_of_every_pane() -> None:
    titles = (ROOT / "extension/src/viewer/panes/titles.ts").read_text()
    panes = re.findall(r'^  (\w+): "(.*)",$', titles, re.M)
    guide = (DOCS / "viewer.md").read_text()
    assert re.findall(r"^## (.*)$", guide, re.M)[1:] == [title for _, title in panes]
    assert re.findall(r'records/example\.html#(\w+)"', guide) == [id for id, _ in panes]


def test_the_api_has_every_public_name() -> None:
    documented = set(re.findall(r"^\.\. auto\w+:: explorer\.(\w+)$", (DOCS / "api.md").read_text(), re.M))
    assert documented == set(explorer.__all__)


@pytest.mark.slow
def test_a_page_of_the_course_shows_what_its_cells_print_and_no_answer_to_a_puzzle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    source = next(each for each in sources() if each.stem == "03_graph_breaks")
    cells = conf.outputs(source)
    page = conf.lesson_page(source, cells)
    assert "```text\nIn[3]:4  call of print [break.print]\n" in page
    assert "✓ print splits the function once" in page and "✓ breaks-1" not in page and "%%predict breaks=?" in page
    shown = {conf.record_of(source, number) for number, (_, packed) in cells.items() if packed}
    assert shown and set(re.findall(r'href="\.\./records/([^"]*)"', page)) == shown


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_without_a_network(tmp_path: Path) -> None:
    build = (
        "import socket, sys, sphinx.cmd.build\n"
        "def refused(*args): raise OSError('no network here')\n"
        "socket.socket.connect = socket.getaddrinfo = refused\n"
        "sys.exit(sphinx.cmd.build.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", build, "-W", "--keep-going", "-q", str(DOCS), str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "EXPLORER_DOCS_WITHOUT_RECORDS": "1"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    for page in ("how_do_i", "viewer", "api", *(f"course/{source.stem}" for source in sources())):
        assert (tmp_path / f"{page}.html").exists()
    assert "Hint 1 of 3" in (tmp_path / "course/03_graph_breaks.html").read_text()
