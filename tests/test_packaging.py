"""What Python and npm say of the package agrees, and the lock file fetches from wherever the machine fetches."""

import json
import re
import tomllib
from pathlib import Path

from explorer.notebook.magics import PANES
from explorer.notebook.widget import MODULE, MODULE_VERSION

ROOT = Path(__file__).parent.parent
EXTENSION = ROOT / "extension"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NPM = json.loads((EXTENSION / "package.json").read_text())


def test_names_and_versions_agree() -> None:
    assert NPM["name"] == PROJECT["name"] == MODULE
    assert NPM["version"] == PROJECT["version"] == MODULE_VERSION.removeprefix("^")
    widget = (EXTENSION / "src/lab/widget.ts").read_text()
    assert f'MODULE = "{MODULE}"' in widget and f'MODULE_VERSION = "{NPM["version"]}"' in widget


def test_the_settings_offer_the_panes_that_there_are() -> None:
    schema = json.loads((EXTENSION / "schema/plugin.json").read_text())
    assert set(schema["properties"]["panes"]["items"]["items"]["enum"]) == set(PANES)
    viewer = (EXTENSION / "src/viewer/panes/index.ts").read_text()
    assert re.findall(r"^  (\w+),$", viewer, re.M) == list(PANES)


def test_the_lock_file_holds_no_addresses() -> None:
    assert not re.findall(r"https?://", (EXTENSION / "yarn.lock").read_text())
