"""Puts the built JupyterLab extension into wheels and sdists; builds it where that was not done.

An sdist holds what was built, so that only a wheel or sdist made from a git checkout needs Node.js.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = Path("explorer", "labextension")
INSTALLED = "share/jupyter/labextensions/torch-explorer"

NO_NODE = (
    "Node.js 20.19, or 22.12 and newer, is needed to build the JupyterLab extension from a git checkout. Install it, "
    "or install a released wheel or sdist, which hold the extension as it was built."
)


class Extension(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        return [] if self._built() else ["jupyter-builder>=1.2,<2"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # a checkout links the folder instead (Makefile), so that what is built there shows at once
        if not self._built():
            self._build()
        if self.target_name == "sdist":
            build_data["artifacts"].append(f"/{BUILT.as_posix()}/")
        else:
            build_data["shared_data"][str(BUILT)] = INSTALLED
            build_data["shared_data"][str(Path("extension", "install.json"))] = f"{INSTALLED}/install.json"

    def _built(self) -> bool:
        return Path(self.root, BUILT, "static", "report.html").is_file()

    def _build(self) -> None:
        if shutil.which("node") is None:
            raise RuntimeError(NO_NODE)
        # pip's isolated environments have their programs on the path already; others may not.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        for command in (["jlpm", "install", "--immutable"], ["jlpm", "build:prod"]):
            where = shutil.which(command[0], path=path)
            if where is None:
                raise RuntimeError("jlpm is missing: pip install jupyter-builder")
            folder = Path(self.root, "extension")
            subprocess.run([where, *command[1:]], cwd=folder, env={**os.environ, "PATH": path}, check=True)
