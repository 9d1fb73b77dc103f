"""Every notebook runs from top to bottom. The repository holds no outputs but those that show without a kernel."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from explorer.records.data.methods import METHODS_MIME, METHODS_VERSION, MethodsData
from records import in_output

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


IN_THE_BROWSER = {"tour"}
"""Notebooks that extension/e2e/lab.test.ts runs in JupyterLab."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [each for each in NOTEBOOKS if each.stem not in IN_THE_BROWSER], ids=lambda path: path.stem
)
def test_it_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(path.parent.parent))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    silent = [cell.source for cell in notebook.cells if cell.cell_type == "code" and shows(cell) and not cell.outputs]
    assert not silent


def shows(cell: nbformat.NotebookNode) -> bool:
    """Whether a cell ends in something to see."""
    last = cell.source.splitlines()[-1]
    return "print" in cell.source or last.isidentifier() or last.startswith("record.")


KEPT = {"methods"}
"""Notebooks whose outputs take minutes to make and a viewer alone to read."""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_kept_where_they_are_to_be_read(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    if path.stem not in KEPT:
        assert not [cell for cell in cells if cell.outputs or cell.execution_count]
        return
    assert path.stat().st_size < 400_000
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [each for each in outputs if each.output_type == "error" or each.get("name") == "stderr"]
    shown = [each.data[METHODS_MIME] for each in outputs if METHODS_MIME in each.get("data", {})]
    assert shown and all(in_output(each, MethodsData).version == METHODS_VERSION for each in shown)
