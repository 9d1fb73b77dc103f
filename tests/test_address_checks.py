"""Generated C++ never reads or writes outside of what it is given: programs run with every address checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def library_of(name: str) -> str:
    """Its path; the name alone where g++ has none."""
    named = subprocess.run(["g++", f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True, check=True)
    return named.stdout.strip()


def checked(what: str) -> subprocess.CompletedProcess[str]:
    """`address_checked.py`, with g++'s address sanitizer loaded first, and what it needs to see exceptions."""
    libraries = [library_of(name) for name in ("libasan.so", "libstdc++.so")]
    if not all(map(os.path.isabs, libraries)):
        pytest.skip("g++ has no address sanitizer here")
    environment = os.environ | {
        "LD_PRELOAD": " ".join(map(os.path.realpath, libraries)),
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:detect_odr_violation=0",
        "PYTHONPATH": os.pathsep.join((str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", ""))),
    }
    command = [sys.executable, str(TESTS / "address_checked.py"), what]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


def test_what_is_past_the_end_is_noticed() -> None:
    ended = checked("overrun")
    assert ended.returncode and "heap-buffer-overflow" in ended.stderr, ended.stderr[-3000:]


@pytest.mark.slow
def test_no_access_outside() -> None:
    ended = checked("programs")
    assert ended.returncode == 0 and ended.stdout.endswith("done\n"), (ended.stdout[-300:], ended.stderr[-3000:])
