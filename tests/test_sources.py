"""The source that a record holds."""

import sys
from types import SimpleNamespace

import pytest
import torch

import explorer
from explorer.compiler.capture import FullGraphError
from explorer.core.files import cell_name


def test_cells_are_called_as_ipython_calls_them(monkeypatch):
    names = {"/tmp/ipykernel_1/2.py": ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=names.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert cell_name("/tmp/ipykernel_1/2.py") == "In[3]"
    assert cell_name("/home/someone/model.py") == ""


def test_an_error_names_the_cell(monkeypatch):
    def broken(x):
        print("half way")
        return x + 1

    names = {__file__: ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=names.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with pytest.raises(FullGraphError, match=rf"call of print at In\[3\]:{broken.__code__.co_firstlineno + 1} "):
        explorer.compile(broken, fullgraph=True)(torch.ones(2))


def test_without_ipython_files_have_their_paths_alone(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert cell_name("/tmp/ipykernel_1/2.py") == ""
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert cell_name("/tmp/ipykernel_1/2.py") == ""
