"""On a card: the part of lesson 12 that uses one, as it stands in the notebook."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.course import claim
from explorer.course.build import SOURCES, notebook

pytestmark = pytest.mark.gpu


def test_the_cell_for_a_card_holds_what_it_claims(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [cell["source"] for cell in notebook(SOURCES / "12_memory_and_debugging.md", "solved")["cells"]]
    names: dict[str, Any] = {"claim": claim}
    for code in (cells[1], next(each for each in cells if "def deep" in each), cells[-2]):
        plain = [line for line in code.splitlines() if not line.startswith("%")]
        exec("\n".join(plain), names)
    assert "torch.cuda.is_available()" in cells[-2] and names["record"].timing is not None
    assert capsys.readouterr().out.count("✓") == 2
