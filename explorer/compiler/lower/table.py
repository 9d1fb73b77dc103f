"""The table of lowering rules, and what a rule is.

A rule takes the builder, the fake value of the node, and the node's arguments with a `Tensor` for each tensor and a
sympy expression for each symbolic size; it returns a Tensor (or a tuple of them), or None to leave the call to the
library. Inductor: lowering.py (register_lowering).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from explorer.core.rules import RuleTable

Rule = Callable[..., Any]


def is_operator(key: object) -> bool:
    return isinstance(key, torch._ops.OpOverload)


LOWERINGS: RuleTable[torch._ops.OpOverload, Rule] = RuleTable("lowering", is_operator)
VIEWS: RuleTable[torch._ops.OpOverload, Rule] = RuleTable("view lowering", is_operator)
"""Rules of operators that give a view of their first argument: they cost nothing, and reading the view reads that."""
