"""Compiler Explorer for PyTorch: a small, readable torch.compile, instrumented at every stage."""

from explorer.api import compile, configure, counters, explore
from explorer.autograd import preload
from explorer.comparison import Compared, backends, compare
from explorer.config import Config
from explorer.session import Difference, Record, RecordError
from explorer.stock.backend import register

__all__ = [
    "Compared",
    "Config",
    "Difference",
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

register()
preload()
