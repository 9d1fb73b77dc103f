"""The documentation as a site: `make docs` builds it into build/docs, without a network.

The pages of the course are made of the lessons, and the records that pages open in the viewer are made as it is built.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from answers import PAGE, answer, prelude, questions  # noqa: E402

import explorer  # noqa: E402
from explorer.course.build import notebook, sources  # noqa: E402
from explorer.ir.record import MIME  # noqa: E402
from explorer.show.record import Record  # noqa: E402

project = "Compiler Explorer for PyTorch"
version = release = explorer.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = project
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]
exclude_patterns = ["README.md"]
default_role = "code"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
WITHOUT_RECORDS = "EXPLORER_DOCS_WITHOUT_RECORDS"
"""The environment variable with which the site is built without running an example: no record can be opened in it."""


def setup(app: Sphinx) -> None:
    app.add_lexer("mermaid", TextLexer)
    app.add_config_value("with_records", not os.environ.get(WITHOUT_RECORDS), "env")  # links depend on it
    app.connect("builder-inited", write_course)
    app.connect("source-read", link_records)
    app.connect("build-finished", write_records)
    app.connect("autodoc-process-docstring", as_prose)


def as_prose(app: Sphinx, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are prose with code in backticks: nothing else in them is markup."""
    for number, line in enumerate(lines):
        pieces = re.split(r"(`[^`]*`)", line)
        lines[number] = "".join(each if each.startswith("`") else re.sub(r"([*|_])", r"\\\1", each) for each in pieces)


# The course: a page for each lesson, with hints folded and the notebook beside it.


def write_course(app: Sphinx) -> None:
    folder, records = HERE / "course", Path(app.outdir) / "records"
    folder.mkdir(exist_ok=True)
    records.mkdir(parents=True, exist_ok=True)
    for source in sources():
        cells = outputs(source) if app.config.with_records else {}
        text = lesson_page(source, cells)
        place = folder / source.name
        if not place.exists() or place.read_text() != text:
            place.write_text(text)
        for number, (_, packed) in cells.items():
            if packed:
                saved = records / "last.explore.json.gz"
                saved.write_bytes(base64.b64decode(packed))
                Record.load(saved).to_html(records / record_of(source, number))
                saved.unlink()


def outputs(source: Path) -> dict[int, tuple[str, str]]:
    """What the cells of the solved lesson print, by their numbers, and the record that each shows, as an output holds
    it; "" where it shows none. Puzzles are left to the reader."""
    ran = nbformat.from_dict(notebook(source, "solved"))
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(ran, timeout=300, resources={"metadata": {"path": folder}}).execute()
    found = {}
    for number, cell in enumerate(ran.cells):
        if cell.cell_type == "code" and not cell.source.startswith("%%puzzle"):
            texts = (each.get("text") or each["data"]["text/plain"] for each in cell.outputs)
            packed = [each["data"][MIME]["packed"] for each in cell.outputs if MIME in each.get("data", {})]
            found[number] = "\n".join(text.rstrip("\n") for text in texts), (packed or [""])[-1]
    return found


def record_of(source: Path, number: int) -> str:
    return f"{source.stem}-{number}.html"


def lesson_page(source: Path, cells: Mapping[int, tuple[str, str]]) -> str:
    parts = []
    for number, cell in enumerate(notebook(source, "learner")["cells"]):
        code = cell["cell_type"] == "code"
        parts.append(f"```ipython3\n{cell['source']}\n```" if code else cell["source"])
        printed, packed = cells.get(number, ("", ""))
        if printed:
            parts.append(f"<details><summary>What it prints</summary>\n\n```text\n{printed}\n```\n\n</details>")
        if packed:
            link = f'<a href="../records/{record_of(source, number)}">Open this record in the viewer</a>'
            parts.append(f"<details><summary>What it shows</summary>\n\n{link}\n\n</details>")
    first, rest = parts[0].replace("../../CONTRIBUTING.md", "../contributing.md"), "\n\n".join(parts[1:])
    about = (
        f"This page shows the lesson; to work on it, open `notebooks/course/{source.stem}.ipynb`, where the puzzles "
        "check themselves. `explorer course new FOLDER` copies the notebooks into a folder of yours."
    )
    return f"{first}\n\n{about}\n\n{rest.replace('../../CONTRIBUTING.md', '../contributing.md')}\n"


# Records that a page opens in the viewer.


def name_of(question: str) -> str:
    return re.sub(r"\W+", "-", question).strip("-").lower()


def link_records(app: Sphinx, page: str, source: list[str]) -> None:
    """Below each answer the record it is from."""
    if page == PAGE.stem and app.config.with_records:
        for question, _, printed in questions(source[0]):
            block = f"```text\n{printed}```\n"
            link = f'<a href="records/{name_of(question)}.html">Open this record in the viewer</a>'
            source[0] = source[0].replace(block, f"{block}\n{link}\n", 1)


def write_records(app: Sphinx, error: Exception | None) -> None:
    if error or not app.config.with_records:
        return
    folder = Path(app.outdir) / "records"
    folder.mkdir(exist_ok=True)
    text = PAGE.read_text()
    for question, code, _ in questions(text):
        answer(question, code, prelude(text)).record.to_html(folder / f"{name_of(question)}.html")
    shown = answer("the viewer", EXAMPLE, prelude(text)).record
    shown.to_html(folder / "example.html")
    guide = Path(app.outdir) / "viewer.html"
    links = re.compile(r'example\.html#(\w+)[^"]*"')
    guide.write_text(links.sub(lambda found: f'example.html{shown.link(found[1])}"', guide.read_text()))


EXAMPLE = """
def step(x, weight):
    y = torch.softmax(x @ weight, -1)
    if y.sum() < 0:
        y = -y
    return F.gelu(y * 2).sum()

x = torch.randn(32, 64, requires_grad=True)
weight = torch.randn(64, 16, requires_grad=True)
record = explorer.explore(step, leave="unchanged", time=0.2, values=True)(x, weight)
"""
"""What the guide to the viewer opens."""
