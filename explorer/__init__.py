"""Compiler Explorer for PyTorch: a small, readable torch.compile, instrumented at every stage."""

import importlib
from typing import Any

from explorer.api import compile, configure, counters, explore
from explorer.autograd import preload
from explorer.comparison import Compared, backends, compare
from explorer.config import Config
from explorer.ranks import Ranks
from explorer.session import Difference, Record, RecordError
from explorer.stock.backend import register

__all__ = [
    "Compared",
    "Config",
    "Difference",
    "Ranks",
    "Record",
    "RecordError",
    "backends",
    "compare",
    "compile",
    "configure",
    "counters",
    "explore",
]
__version__ = "0.1.0"


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext explorer`: the magics. IPython and ipywidgets are imported here, not where there is no notebook."""
    importlib.import_module("explorer.notebook.magics").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext explorer`"""
    importlib.import_module("explorer.notebook.magics").unload(shell)


register()
preload()
