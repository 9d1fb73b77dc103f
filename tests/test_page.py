"""The pages: whole without scripts, with the viewer where it was built; and a record never runs anything in one."""

import base64
import gzip
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import nbformat
import pytest
from nbconvert import HTMLExporter

from explorer.ir import record as data
from explorer.show.record import Record
from explorer.show.view import html, report, text
from explorer.show.view.html import COLUMNS, IndexRow, cells
from records import empty, sample

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

HOSTILE = (
    "</pre></script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<a href=\"javascript:document.title='owned'\">' onmouseover=document.title='owned' x='\"><!--<svg onload=1>&lt;"
)


class Parsed(HTMLParser):
    """Elements with their attributes, the text shown, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.shown: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, text: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += text
        elif self._inside != "style":
            self.shown.append(text)

    @property
    def text(self) -> str:
        return "".join(self.shown)


def poisoned(value: object) -> object:
    """Every string of a record, the keys of its tables too, with a piece of hostile HTML before it."""
    if isinstance(value, str):
        return HOSTILE + value
    if isinstance(value, dict):
        return {poisoned(key): poisoned(inner) for key, inner in value.items()}
    return [poisoned(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def poisoned_record() -> data.RecordData:
    def structure(value: object) -> object:
        if isinstance(value, (data.Data, data.LineData)):
            return type(value)(*(structure(getattr(value, name)) for name in value.__struct_fields__))
        if isinstance(value, tuple):
            return tuple(map(structure, value))
        if isinstance(value, dict):
            return {structure(key): structure(inner) for key, inner in value.items()}
        return poisoned(value)

    made = structure(sample())
    assert isinstance(made, data.RecordData)
    return made


def test_a_page_without_scripts_has_the_summary_the_breaks_and_the_generated_code() -> None:
    record = sample()
    for made in (html.page(record), html.fragment(record)):
        shown = Parsed(made).text
        assert text.summary(record) in shown
        for each in text.breaks(record):
            assert each in shown
        for compile in record.compiles:
            for line in (line for half in compile.halves for kernel in half.kernels for line in kernel.source.lines):
                assert line.text in shown
        assert "hint: print after the call" in shown


def test_notes_are_in_what_is_shown_without_the_viewer() -> None:
    [note] = sample().notes
    assert note in text.summary(sample())
    assert note in Parsed(html.fragment(sample())).text
    assert note in Parsed(html.page(sample())).text


def test_an_empty_record_has_a_page() -> None:
    shown = Parsed(html.page(empty())).text
    assert "nothing was compiled" in shown
    assert "nothing" in html.fragment(empty())


@pytest.mark.parametrize("made", [html.page, html.fragment, lambda r: html.index("t", [IndexRow(r, "page.html")] * 2)])
def test_nothing_in_a_record_becomes_markup(made) -> None:
    clean, hostile = Parsed(made(sample())), Parsed(made(poisoned_record()))
    assert {tag for tag, _ in hostile.elements} <= {tag for tag, _ in clean.elements}
    assert [tag for tag, _ in hostile.elements].count("script") == [tag for tag, _ in clean.elements].count("script")
    for _, attributes in hostile.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "action")]
        assert (attributes.get("href") or "#").startswith(("#", "page.html"))
    assert "owned" in hostile.text or made is html.index


def test_the_page_asks_the_network_for_nothing() -> None:
    page = html.page(sample())
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|url\(|@import", page)


def test_columns_and_cells_agree() -> None:
    row = dict(zip(COLUMNS, cells(IndexRow(sample(), "a.html")), strict=True))
    assert row["graph breaks"] == "1" and row["speed"] == "2x faster than eager (1.9 to 2.1)"
    assert row["compile time of stock"] == "31 s (warm 0.2 s)"
    assert cells(IndexRow(empty(), ""))[-1] == ""


def dom(page: str, folder: Path) -> str:
    """The page's document after its scripts ran, as Chromium prints it."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    assert CHROMIUM is not None
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--enable-logging=stderr"]
    ran = subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={folder}/profile", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    complaints = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, complaints
    return ran.stdout


@browser
@pytest.mark.parametrize("policy", [True, False], ids=["with_policy", "escaping_alone"])
def test_a_hostile_record_runs_nothing_in_a_browser(tmp_path: Path, policy: bool) -> None:
    page = html.page(poisoned_record())
    if not policy:
        page = re.sub(r"<meta http-equiv=Content-Security-Policy[^>]*>", "", page)
    shown = Parsed(dom(page, tmp_path))
    assert "script" not in [tag for tag, _ in shown.elements]
    assert not [tag for tag, _ in shown.elements if tag in ("img", "iframe", "object")]
    [title] = re.findall(r"<title>(.*?)</title>", dom(page, tmp_path), re.S)
    assert title != "owned" and title.endswith("scaled")


def test_nbconvert_shows_the_page_without_scripts() -> None:
    bundle, metadata = Record(sample())._repr_mimebundle_()
    output = nbformat.v4.new_output("execute_result", bundle, metadata=metadata, execution_count=1)
    cell = nbformat.v4.new_code_cell("record", outputs=[output], execution_count=1)
    page, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    assert Parsed(html.fragment(sample())).text in Parsed(page).text


TEMPLATE = (
    "<title><!--hole:title--></title><noscript><!--hole:fallback--></noscript>"
    "<script type='application/octet-stream' id=record><!--hole:record--></script><script>viewer()</script>"
)


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The viewer as if it had been built, so that the test does not ask for Node.js."""
    file = tmp_path / "report.html"
    file.write_text(TEMPLATE)
    monkeypatch.setattr(report, "template", lambda: file)


def test_a_report_holds_the_whole_record_and_nothing_of_it_as_markup(built: None) -> None:
    hostile = poisoned_record()
    page = report.page(hostile)
    parsed = Parsed(page)
    held, viewer = parsed.scripts
    assert viewer == "viewer()"
    assert re.fullmatch("[A-Za-z0-9+/=]+", held)
    assert msgspec.json.decode(gzip.decompress(base64.b64decode(held)), type=data.RecordData) == hostile
    assert [tag for tag, _ in parsed.elements].count("script") == 2
    assert not [tag for tag, _ in parsed.elements if tag in ("img", "a", "svg")]
    assert report.page(hostile) == page


def test_what_a_record_says_of_holes_is_text(built: None) -> None:
    record = msgspec.structs.replace(empty(), title="<!--hole:record-->")
    assert "<title>&lt;!--hole:record--&gt;</title>" in report.page(record)


def test_without_a_built_viewer_the_page_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "template", lambda: None)
    shown = Parsed(report.page(sample()))
    assert report.NOT_BUILT in shown.text
    assert "script" not in [tag for tag, _ in shown.elements]
    assert "aten.mul" in shown.text
