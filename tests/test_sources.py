"""The source that a record holds."""

import sys
from types import SimpleNamespace

from explorer.records.assembly import cell_name


def test_cells_are_called_as_ipython_calls_them(monkeypatch):
    names = {"/tmp/ipykernel_1/2.py": ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=names.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert cell_name("/tmp/ipykernel_1/2.py") == "In[3]"
    assert cell_name("/home/someone/model.py") == ""


def test_without_ipython_files_have_their_paths_alone(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert cell_name("/tmp/ipykernel_1/2.py") == ""
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert cell_name("/tmp/ipykernel_1/2.py") == ""
