"""Tells an index where the project is: its addresses, and the README with pictures and links that lead there.

A checkout does not know its address. A build that is to be published is given it: REPOSITORY=https://HOST/OWNER/NAME.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r'(\bsrc(?:set)?=")(?!https?:)')
LINK = re.compile(r"(\]\()(?!https?:|#)")


class Addresses(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        if repository := os.environ.get("REPOSITORY", "").rstrip("/"):
            metadata["urls"] = {
                "Homepage": repository,
                "Documentation": f"{repository}/tree/HEAD/docs",
                "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
            text = PICTURE.sub(rf"\1{repository}/raw/HEAD/", text)
            text = LINK.sub(rf"\1{repository}/blob/HEAD/", text)
        # A wheel of an sdist has the text of the sdist.
        metadata.setdefault("readme", {"content-type": "text/markdown", "text": text})
