"""Compiler Explorer for PyTorch: a small, readable torch.compile, instrumented at every stage."""

import gc
import importlib
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.api import compile, configure, counters, explore
    from explorer.compiler.config import Config
    from explorer.compiler.workbench import workbench
    from explorer.ir.edit import EditRefused
    from explorer.ir.program import BuildOptions
    from explorer.show.comparison import Compared, backends, compare
    from explorer.show.notebook.watch import watch
    from explorer.show.notebook.widget import embed
    from explorer.show.ranks import Ranks
    from explorer.show.record import Difference, Record, RecordError
    from explorer.show.watch import Watch

__all__ = [
    "BuildOptions",
    "Compared",
    "Config",
    "Difference",
    "EditRefused",
    "Ranks",
    "Record",
    "RecordError",
    "Watch",
    "backends",
    "compare",
    "compile",
    "configure",
    "counters",
    "embed",
    "explore",
    "watch",
    "workbench",
]
__version__ = "0.1.0"
_BACKEND = EntryPoint("explorer", "explorer.api:stock_backend", "torch_dynamo_backends")


def _imported(name: str) -> Any:
    """A module of this package. Nearly all that an import makes stays, so a search for garbage meanwhile finds nothing
    and takes a fifth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(f"explorer.{name}")
    finally:
        if collects:
            gc.enable()


_HOME = {
    **dict.fromkeys(("compile", "configure", "counters", "explore"), "api"),
    **dict.fromkeys(("Compared", "backends", "compare"), "show.comparison"),
    **dict.fromkeys(("Difference", "Record", "RecordError"), "show.record"),
    "BuildOptions": "ir.program",
    "Config": "compiler.config",
    "EditRefused": "ir.edit",
    "Ranks": "show.ranks",
    "Watch": "show.watch",
    "embed": "show.notebook.widget",
    "watch": "show.notebook.watch",
    "workbench": "compiler.workbench",
}


if not TYPE_CHECKING:  # or a misspelt name would be taken for one of unknown type

    def __getattr__(name: str) -> Any:
        """The public names, when first asked for: with them comes much of torch, torch._dynamo and torch._inductor
        included. What the first trace of a process pays once is paid here."""
        if name not in _HOME:
            raise AttributeError(f"module 'explorer' has no attribute {name!r}")
        found = getattr(_imported(_HOME[name]), name)
        if _HOME[name] in ("api", "show.comparison", "show.notebook.watch", "show.watch"):
            _imported("records.stock.backend").register(_BACKEND)
        if _HOME[name] in ("api", "show.comparison"):
            _imported("compiler.autograd").preload()
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: object) -> None:
    """`%load_ext explorer`: the magics. IPython and ipywidgets are imported here, not where there is no notebook."""
    _imported("show.notebook.magics").load(shell)


def unload_ipython_extension(shell: object) -> None:
    """`%unload_ext explorer`"""
    importlib.import_module("explorer.show.notebook.magics").unload(shell)


def _known_to_torch() -> bool:
    """Whether torch finds the backend "explorer" by itself, from an installed package's metadata."""
    try:
        return any(point.name == "explorer" for point in distribution("torch-explorer").entry_points)
    except PackageNotFoundError:
        return False


if find_spec("explorer.records") is not None and not _known_to_torch():
    importlib.import_module("explorer.records.stock.backend").register(_BACKEND)
