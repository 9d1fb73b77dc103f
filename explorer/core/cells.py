"""Names of a notebook's cells."""

from __future__ import annotations

import sys


def cell_name(file: str) -> str:
    """ "In[3]" for the file name that IPython gave to that cell; "" for other files."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    known = None if shell is None else shell.compile.format_code_name(file)
    return "" if known is None else str(known[1])


def in_cell(place: str) -> str:
    """A place that begins with "file:line", with a cell's name in the place of its file."""
    file, _, rest = place.partition(":")
    return f"{cell_name(file) or file}:{rest}"
