"""The rest of a function, taken out at any of its instructions, goes on as the function would; on each Python here."""

from __future__ import annotations

import subprocess
import sys
import types
from dataclasses import replace

import pytest

import continuations
from explorer.compiler.capture import resume
from test_bytecode import interpreter

VERSIONS = [(3, 11), (3, 12), (3, 13)]


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: f"{version[0]}.{version[1]}")
def test_every_version(version: tuple[int, int]) -> None:
    python = sys.executable if version == sys.version_info[:2] else interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version[0]}.{version[1]} here")
    done = subprocess.run([python, continuations.__file__], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "positions of iterators" in done.stdout


def test_what_is_tried_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A continuation that takes one local for another makes the comparison fail."""
    true = resume.continuation

    def forgetful(*given):
        made = true(*given)
        return replace(made, arguments=tuple(reversed(made.arguments)))

    assert continuations.check_program(continuations.in_a_loop) > 5
    monkeypatch.setattr(resume, "continuation", forgetful)
    with pytest.raises(AssertionError, match="split at"):
        continuations.check_program(continuations.in_a_loop)


def test_names_distinguish_continuations() -> None:
    """Code objects are kept by name: one name, one body."""
    seen: dict[str, tuple[tuple[str, ...], int]] = {}
    for function in continuations.PROGRAMS:
        for _, code in continuations.splits(function):
            for made in code.co_consts:
                if isinstance(made, types.CodeType) and made.co_name.startswith("resume_in_"):
                    key = f"{made.co_qualname}"
                    arguments = made.co_varnames[: made.co_argcount]
                    assert seen.setdefault(key, (arguments, len(made.co_code))) == (arguments, len(made.co_code))
