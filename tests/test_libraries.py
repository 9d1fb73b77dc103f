"""What the compiler takes for known about libraries: each of these calls is part of the graph because of one entry."""

from __future__ import annotations

import cmath
import importlib
import math
import struct
import unicodedata
import warnings
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


def test_an_entry_stands_for_the_modules_in_it() -> None:
    assert is_in("torch.jit._script", libraries.FOLDED) and not is_in("torch.jitter", libraries.FOLDED)
    assert is_in("collections.abc", libraries.FIXED) and not is_in("collection", libraries.FIXED)
    assert not is_in(None, libraries.FIXED) and not is_in("", libraries.FIXED)
