"""Guards tried on a described call by the viewer's own code: no tensor is made and nothing of the program runs."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from explorer.ir.record import GlobalStateData, GuardData, InputData

EXTENSION = Path(__file__).parent.parent / "extension"


@dataclass(frozen=True)
class Decision:
    """`holds` is None where the description does not tell. `how` says how it fails, or what is missing."""

    guard: GuardData
    holds: bool | None
    how: str


_HOLDS: Mapping[str, bool | None] = {"holds": True, "fails": False, "undecided": None}


def decide(
    guards: Iterable[GuardData], inputs: Iterable[InputData], state: GlobalStateData | None = None
) -> list[Decision]:
    """Each guard on the call that `inputs` describe, made in the global state `state`."""
    guards, viewer = list(guards), _viewer()
    assert viewer.stdin is not None and viewer.stdout is not None
    asked = msgspec.json.encode({"guards": guards, "inputs": list(inputs), "state": state})
    viewer.stdin.write(asked + b"\n")
    viewer.stdin.flush()
    answers = json.loads(viewer.stdout.readline())
    return [Decision(guard, _HOLDS[holds], how) for guard, (holds, how) in zip(guards, answers, strict=True)]


@functools.cache
def _viewer() -> subprocess.Popen[bytes]:
    """It ends with this process, whose end closes its input."""
    node = shutil.which("node")
    if node is None or not (EXTENSION / "node_modules" / "esbuild").is_dir():
        pytest.skip("needs node and the extension's node_modules")
    script = str(EXTENSION / "test" / "decisions.mjs")
    return subprocess.Popen([node, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
