"""`explorer.watch`, which in a notebook shows the record while the program runs. IPython and ipywidgets are imported
there alone."""

from __future__ import annotations

import sys
from importlib import import_module

from explorer.show.watch import Watch


def watch(title: str = "", *, live: bool | None = None) -> Watch:
    """Record an unmodified program: `with explorer.watch() as log:` records every compile by explorer.compile and
    torch.compile inside the block, in all threads, and runs nothing twice. `print(log)` prints a summary: compiles,
    recompiles with the guard that failed and its values, graph breaks, errors, what ran eagerly, cache hits, call
    times. `log.record` is a record like any other, during and after the block: it can be saved, compared or written as
    a page.

    `live`: show the record in the notebook while the block runs; by default in a notebook. `title` names the record.

    Raises RuntimeError if another watch is active."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if live is None:
        live = hasattr(shell, "kernel")
    if not live:
        return Watch(title)
    return Watch(title, import_module("explorer.show.notebook.live").WatchOutput(title or "watch"))
