"""The course: lessons made of puzzles that check themselves. `%load_ext explorer.course` in a notebook."""

import importlib

from explorer.course.lessons import PUZZLES
from explorer.course.prediction import ClaimFailed, claim
from explorer.course.process import check

__all__ = ["PUZZLES", "ClaimFailed", "check", "claim"]


def load_ipython_extension(shell: object) -> None:
    """`%load_ext explorer.course`: `%%predict`, `%%puzzle`, `%hint` and `%solution`."""
    importlib.import_module("explorer.course.magics").load(shell)
