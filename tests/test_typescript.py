"""The TypeScript types of the record and of the messages are those of the Python definitions."""

import re

import pytest

from explorer.ir import record
from explorer.records.data import methods
from explorer.show.notebook.types import VIEWER, checked, texts, written
from explorer.show.view.glossary import GLOSSARY, PANES


@pytest.mark.parametrize("name", texts())
def test_written_types_are_in_step(name):
    assert (VIEWER / name).read_text() == texts()[name], "run: python -m explorer.show.notebook.types"


def test_types():
    assert written(tuple[str, ...]) == "readonly string[]"
    assert written(dict[str, tuple[int, int]]) == "{ readonly [key: string]: readonly [number, number] }"
    assert written(tuple[int | None, ...]) == "readonly (number | null)[]"
    with pytest.raises(TypeError, match="set"):
        written(set[str])


def test_checks():
    assert checked(tuple[int | None, ...]) == "list(maybe(whole))"
    assert checked(dict[str, tuple[int, str]]) == "entries(row(2, whole, text))"
    assert checked(bool | float | str | None) == "maybe(either(flag, real, text))"
    assert checked(methods.Answer) == 'one("right", "wrong", "refused", "not run")'
    assert checked(record.Depth) == "between(0, 99)"
    assert written(record.Depth) == "number"
    assert checked(record.ExpressionData, record.ExpressionData) == "again(() => ExpressionData)"
    with pytest.raises(TypeError, match="set"):
        checked(set[str])


def test_the_panes_that_a_cell_can_ask_for_are_those_of_the_viewer():
    assert re.findall(r'^  (\w+): "', (VIEWER / "panes/titles.ts").read_text(), re.M) == list(PANES)


def test_the_glossary_explains_each_column_of_a_table():
    """extension/src/viewer/help.ts finds it by the name, except for columns with names of the record's."""
    made = re.compile(
        r"(?:\bfigure|\bcodes|\bnumber|reasonColumn)\(\s*\"([^\"]+)\""
        r"|name: \"([^\"]+)\",(?=[^{}]*(?:text|order|numeric): )"
    )
    texts = [path.read_text() for path in VIEWER.rglob("*.ts")]
    columns = {(one or other).lower() for text in texts if "TableColumn<" in text or "DataTable<" in text
               for one, other in made.findall(text)}  # fmt: skip
    meanings = {term for part in GLOSSARY for term in part.terms}
    assert columns - meanings == set()
    assert {term for part in GLOSSARY if part.part == "Columns of tables" for term in part.terms} - columns == set()
    assert len(columns) > 70
