"""What the compiler takes for known about libraries: each of these calls is part of the graph because of one entry."""

from __future__ import annotations

import cmath
import dataclasses
import importlib
import math
import re
import struct
import types
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import explorer
from explorer.compiler.capture import calls
from explorer.core import libraries
from explorer.core.libraries import is_in

SPACE: dict[str, Any] = {
    each.__name__: each for each in (cmath, importlib, math, struct, torch, unicodedata, warnings)
}  # fmt: skip
CALLED = {
    "math": "len(str(math.gcd(4, 6)))", "cmath": "cmath.phase(-1.0)", "_struct": "struct.calcsize('i')",
    "unicodedata": "len(unicodedata.category('a'))", "importlib": "len(importlib.util.resolve_name('a', 'b'))",
    "warnings": "len(warnings.formatwarning('a', UserWarning, 'f', 1))",
}  # fmt: skip


@pytest.mark.parametrize("module", CALLED)
def test_a_function_of_known_arguments_is_called_while_tracing(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled() -> torch.Tensor:
        space = dict(SPACE)
        exec(f"def f(x):\n    return x * {CALLED[module]}", space)
        result: torch.Tensor = explorer.compile(space["f"], fullgraph=True)(torch.ones(2))
        assert torch.equal(result, space["f"](torch.ones(2)))
        return result

    compiled()
    monkeypatch.setattr(calls, "FOLDED", libraries.FOLDED - {module})
    monkeypatch.setattr(calls, "PURE", libraries.PURE - {module})
    with pytest.raises(Exception, match="does not allow a break"):
        compiled()


@pytest.mark.parametrize(
    "call", ["types.new_class('A')", "dataclasses.make_dataclass('P', (('a', int),))", "re.compile('a+')"]
)
def test_what_is_made_in_each_call_is_made_in_each_compiled_call(call: str) -> None:
    """A class that a call makes is another one in the next; what a library keeps is the same."""
    space: dict[str, Any] = {"types": types, "dataclasses": dataclasses, "re": re}
    exec(f"def f(x):\n    return x + 1, {call}", space)
    f, compiled = space["f"], explorer.compile(space["f"])
    x = torch.ones(2)
    assert (compiled(x)[1] is compiled(x)[1]) is (f(x)[1] is f(x)[1])


def test_a_module_is_run_again_in_each_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run_again.py").write_text("count = globals().get('count', 0) + 1")
    monkeypatch.syspath_prepend(tmp_path)
    again = importlib.import_module("run_again")
    compiled = explorer.compile(lambda x: (importlib.reload(again), x + 1)[1])
    for _ in range(3):
        compiled(torch.ones(2))
    assert again.count == 4


def test_an_entry_stands_for_the_modules_in_it() -> None:
    assert is_in("torch.jit._script", libraries.FOLDED) and not is_in("torch.jitter", libraries.FOLDED)
    assert is_in("collections.abc", libraries.FIXED) and not is_in("collection", libraries.FIXED)
    assert not is_in(None, libraries.FIXED) and not is_in("", libraries.FIXED)
