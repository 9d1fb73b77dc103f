"""The README's examples run, and what it names exists."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

import explorer
from benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.usefixtures("stock_builds")
def test_the_examples_run_in_order(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.S | re.M)
    assert len(blocks) >= 5
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "scaled.explore.json.gz").exists() and (tmp_path / "scaled.html").exists()


def test_the_paths_it_names_exist() -> None:
    named = set(re.findall(r"(?:explorer|notebooks|docs|tests)/[\w/-]+(?:\.\w+)?", README))
    assert not sorted(path for path in named if not (ROOT / path).exists())


def test_its_benchmarks_exist() -> None:
    figures = README.partition("| `python -m benchmarks` |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \|", figures, re.M)
    assert len(rows) == len(figures.splitlines()) - 2, "each figure names its command"
    for name in (*re.findall(r"python -m benchmarks (\w+)", README), *rows):
        assert name in BENCHMARKS or (ROOT / "benchmarks" / name).is_dir()


def test_its_tables_list_every_setting() -> None:
    listed = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", README, re.M))))
    settings = {*signature(explorer.explore).parameters, *signature(explorer.compile).parameters} - {"fn"}
    assert listed >= settings | {field.name for field in fields(explorer.Config)}
