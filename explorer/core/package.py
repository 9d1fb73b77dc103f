"""Where this package's own code is."""

import os
import traceback
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
OWN_FILES = f"{PACKAGE}{os.sep}"
"""How the names of its files begin."""


def raised_at(error: BaseException) -> str:
    """The innermost line that is neither torch's nor this package's which an exception passed, as Python writes it; ""
    where there is none."""
    passed = traceback.extract_tb(error.__traceback__)
    own = [each for each in passed if not each.filename.startswith((OWN_FILES, "<"))]
    found = [each for each in own if f"{os.sep}torch{os.sep}" not in each.filename][-1:]
    return "".join(f'\n  File "{each.filename}", line {each.lineno}, in {each.name}' for each in found)
