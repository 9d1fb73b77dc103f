"""Where this package's own code is."""

import os
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
OWN_FILES = f"{PACKAGE}{os.sep}"
"""How the names of its files begin."""
