"""Compiler Explorer for PyTorch: a small, readable torch.compile, instrumented at every stage."""

import importlib
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.api import compile, configure, counters, explore
    from explorer.comparison import Compared, backends, compare
    from explorer.config import Config
    from explorer.ranks import Ranks
    from explorer.session import Difference, Record, RecordError
    from explorer.watching import Watch, watch

__all__ = [
    "Compared",
    "Config",
    "Difference",
    "Ranks",
    "Record",
    "RecordError",
    "Watch",
    "backends",
    "compare",
    "compile",
    "configure",
    "counters",
    "explore",
    "watch",
]
__version__ = "0.1.0"


_HOME = {
    **dict.fromkeys(("compile", "configure", "counters", "explore"), "api"),
    **dict.fromkeys(("Compared", "backends", "compare"), "comparison"),
    **dict.fromkeys(("Difference", "Record", "RecordError"), "session"),
    **dict.fromkeys(("Watch", "watch"), "watching"),
    "Config": "config",
    "Ranks": "ranks",
}


if not TYPE_CHECKING:  # or a misspelt name would be taken for one of unknown type

    def __getattr__(name: str) -> Any:
        """The public names, when first asked for: with them comes much of torch, torch._dynamo and torch._inductor
        included. What the first trace of a process pays once is paid here."""
        if name not in _HOME:
            raise AttributeError(f"module 'explorer' has no attribute {name!r}")
        found = getattr(importlib.import_module(f"explorer.{_HOME[name]}"), name)
        if _HOME[name] in ("api", "comparison", "watching"):
            importlib.import_module("explorer.stock.backend").register()
        if _HOME[name] in ("api", "comparison"):
            importlib.import_module("explorer.autograd.preload").preload()
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext explorer`: the magics. IPython and ipywidgets are imported here, not where there is no notebook."""
    importlib.import_module("explorer.notebook.magics").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext explorer`"""
    importlib.import_module("explorer.notebook.magics").unload(shell)


def _known_to_torch() -> bool:
    """Whether torch finds the back end "explorer" by itself, from an installed package's metadata."""
    try:
        return any(point.name == "explorer" for point in distribution("torch-explorer").entry_points)
    except PackageNotFoundError:
        return False


if not _known_to_torch():
    importlib.import_module("explorer.stock.backend").register()
