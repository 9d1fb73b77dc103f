"""`explorer doctor` names what is missing or broken, and what to do."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compilers import explorer_says, good_compiler, write_compiler  # noqa: F401
from explorer.core.recorder import TOTALS
from explorer.show import doctor


@pytest.mark.parametrize("encoding", ("ascii", "latin-1", "utf-8"))
def test_the_doctor_tells_what_a_compiler_says_in_german(encoding: str, tmp_path: Path) -> None:
    compiler = tmp_path / "g++"
    said = "Schwerwiegender Fehler: kein Gerät für die Übersetzung – Abbruch"
    compiler.write_text(f"#!/bin/sh\necho '{said}' >&2\nprintf '\\344\\n' >&2\nexit 1\n", encoding="utf-8")
    compiler.chmod(0o755)
    language = {"CXX": str(compiler), "LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8", "PYTHONIOENCODING": encoding}
    ran = subprocess.run(
        (sys.executable, "-m", "explorer", "doctor"), capture_output=True, env={**os.environ, **language}, check=False
    )
    shown = ran.stdout.decode(encoding)
    assert ran.returncode == 1 and not ran.stderr
    assert "Schwerwiegender Fehler: kein Ger" in shown and ("\u2013" in shown or r"\u2013" in shown)


def test_the_doctor(good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = {each["name"]: each for each in json.loads(explorer_says("doctor", "--json"))}
    for name in ("C++ compiler", "a new kernel", "the kernel cache", "torch"):
        assert found[name]["state"] == "works"
    assert str(tmp_path) in found["cache folder"]["detail"]
    monkeypatch.setenv("CXX", "no-such-compiler")
    said = explorer_says("doctor", code=1)
    assert "BROKEN" in said and "CXX='no-such-compiler'" in said and "or unset it" in said and "apt install g++" in said


def findings(code: int = 0) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in json.loads(explorer_says("doctor", "--json", code=code))}


def test_the_doctor_says_once_what_a_compiler_that_fails_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: list[logging.LogRecord]
) -> None:
    write_compiler(tmp_path / "breaking", "echo ld: cannot find crt1.o >&2; exit 1\n")
    monkeypatch.setenv("CXX", str(tmp_path / "breaking"))
    monkeypatch.setitem(TOTALS, "builds failed", 0)
    found = findings(code=1)
    assert str(found).count("cannot find crt1.o") == 1 and not any(
        "cannot find crt1.o" in each.getMessage() for each in logged
    )
    assert found["a new kernel"]["state"] == "broken" and found["the kernel cache"]["state"] == "missing"
    assert "or unset it" in found["a new kernel"]["hint"] and "explorer doctor" not in str(found)


def test_the_doctor_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("explorer.compiler.runtime.compiler.DEFAULTS", ("no-such-compiler",))
    monkeypatch.setattr("explorer.compiler.runtime.compiler.find_spec", lambda name: None)
    found = findings(code=1)
    assert "apt install g++" in found["C++ compiler"]["hint"]
    assert [name for name, each in found.items() if each["state"] == "broken"] == ["C++ compiler"]
    assert "not tried" in found["a new kernel"]["detail"]


def test_the_doctor_with_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("where a folder would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found = findings()
    assert found["cache folder"]["state"] == "missing" and "XDG_CACHE_HOME" in found["cache folder"]["hint"]
    assert found["cache folder"]["detail"].startswith(f"{tmp_path}/file/torch-explorer: ")
    assert found["a new kernel"]["state"] == found["the kernel cache"]["state"] == "works"


def test_the_doctor_where_jupyter_finds_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(*folders: str) -> list[str]:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("jupyter_core.paths.jupyter_path", homeless)
    monkeypatch.setattr(doctor, "template", lambda: "a page")
    found = findings()
    assert found["viewer"]["state"] == "works"
    assert found["JupyterLab extension"]["state"] == "missing" and "HOME" in found["JupyterLab extension"]["hint"]


@pytest.mark.parametrize(("installed", "state"), (("2.10.1+cpu", "broken"), ("2.11.0", "works"), ("3.0.0a1", "works")))
def test_the_doctor_and_versions_of_torch(installed: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda package: installed)
    found = {each.name: each for each in doctor._versions()}
    assert found["torch"].state == state
    assert f"torch>={'.'.join(map(str, doctor.OLDEST_TORCH))}" in Path("pyproject.toml").read_text()


def test_the_doctor_without_what_needs_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The viewer is built with Node.js, and the extension is where it was installed."""
    monkeypatch.setattr(doctor, "template", lambda: None)
    found = {each.name: each for each in doctor._viewer()}
    assert found["viewer"].state == "missing" and "Node.js" in found["viewer"].hint
    monkeypatch.setattr(doctor, "template", lambda: "<html>")
    monkeypatch.setattr("jupyter_core.paths.jupyter_path", lambda name: [str(tmp_path)])
    found = {each.name: each for each in doctor._viewer()}
    assert found["JupyterLab extension"].state == "missing" and "pip install" in found["JupyterLab extension"].hint
