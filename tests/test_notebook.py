"""Every notebook runs from top to bottom, and the repository holds none of its outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_not_kept(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert not [cell for cell in notebook.cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)]
