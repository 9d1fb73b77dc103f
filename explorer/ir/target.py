"""The machine that code is made for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from explorer.core.reasons import reason

TARGET_ABSENT = reason(
    "pipeline.target_absent",
    "the target is not on this machine",
    "Code was generated and compiled for the named target but not run; the program itself ran eagerly.",
    "Run on a machine with the target and pass tensors on it, or omit target=.",
)


@dataclass(frozen=True, slots=True)
class Target:
    """`kind` "cpu", "cuda" or "hip"; `arch` the compute capability as a number ("90") or the AMD architecture."""

    kind: Literal["cpu", "cuda", "hip"]
    arch: str = ""

    def __str__(self) -> str:
        if self.kind == "cpu":
            return "cpu"
        return f"{self.kind}:{'sm_' if self.kind == 'cuda' else ''}{self.arch}"

    @classmethod
    def parse(cls, text: str) -> Target:
        """From "cpu", "cuda:sm_90" or "hip:gfx942". Raises ValueError that says what is accepted."""
        if text == "cpu":
            return CPU
        if match := re.fullmatch(r"cuda:sm_(\d{2,3})", text):
            return cls("cuda", match[1])
        if match := re.fullmatch(r"hip:(gfx[0-9a-f]{3,5})", text):
            return cls("hip", match[1])
        raise ValueError(f'no target {text!r}; expected "cpu", "cuda:sm_90" (or another sm_NN) or "hip:gfx942"')


CPU = Target("cpu")
