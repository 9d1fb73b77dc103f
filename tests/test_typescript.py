"""The TypeScript types of the record and of the messages are those of the Python definitions."""

import pytest

from explorer.notebook.types import VIEWER, texts
from explorer.view.typescript import written


@pytest.mark.parametrize("name", texts())
def test_written_types_are_in_step(name):
    assert (VIEWER / name).read_text() == texts()[name], "run: python -m explorer.notebook.types"


def test_types():
    assert written(tuple[str, ...]) == "readonly string[]"
    assert written(dict[str, tuple[int, int]]) == "{ readonly [key: string]: readonly [number, number] }"
    assert written(tuple[int | None, ...]) == "readonly (number | null)[]"
    with pytest.raises(TypeError, match="set"):
        written(set[str])
