"""`workbench`: rules of a user that override the built-in ones inside a `with` block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch._ops import OpOverload

from explorer.compiler.autograd.decompositions import DECOMPOSITIONS
from explorer.compiler.autograd.partition import COSTS
from explorer.compiler.autograd.passes import PASSES
from explorer.compiler.capture.opcodes import OPCODES
from explorer.compiler.codegen import cpp_scalar, triton_exprs
from explorer.compiler.lower.table import LOWERINGS, VIEWS
from explorer.compiler.schedule.fuse import RANK
from explorer.compiler.schedule.legal import LEGAL
from explorer.compiler.schedule.memory import MEMORY
from explorer.core.rules import Rules, RuleTable, in_force, rules_in_force

Own = Callable[..., Any]
PRINTERS: dict[str, RuleTable[str, Own]] = {"cpp": cpp_scalar.PRINTERS, "triton": triton_exprs.APPLY}


def keep_whole(*args: object, **kwargs: object) -> Any:
    """The decomposition of an operator that is lowered by a person's own rule."""
    return NotImplemented


@contextmanager
def workbench(
    *,
    opcodes: Mapping[str, Own] | None = None,
    decompositions: Mapping[OpOverload, Own] | None = None,
    lowerings: Mapping[OpOverload, Own] | None = None,
    printers: Mapping[str, Mapping[str, Own]] | None = None,
    passes: Sequence[Own] = (),
    legal: Own | None = None,
    rank: Own | None = None,
    keep: Own | None = None,
    reuse: Own | None = None,
) -> Iterator[Rules]:
    """Inside the block, in this thread and context, these rules override the built-in ones. Blocks nest.

    `opcodes`: by normalized instruction, rule(tracer, frame, instruction). `decompositions`: by ATen overload, a
    function with the operator's arguments. `lowerings`: by ATen overload, rule(lower, out, *arguments); an operator
    that is lowered is not decomposed. `printers`: {"cpp": {"erf": rule}, "triton": {...}}, rule(dtype, *operands) ->
    text. `passes`: functions that change the traced fx.Graph in place, after the built-in ones. `legal`, `rank`, `keep`
    and `reuse` take the place of `can_fuse` (schedule/legal.py), `rank` (schedule/fuse.py), `weight`
    (autograd/partition.py) and `tightest_gap` (schedule/memory.py). All have the signature of what they replace.

    The rules are part of every cache key: code compiled with them does not run outside the block, nor code compiled
    without them inside. The record says "with your rule" on what they made. Where a rule raises an error, the program
    runs eagerly and the record names the rule. What torch.compile(backend="explorer") compiles uses the built-in rules.

    Raises ValueError for a key that no rule could have, TypeError for a rule that cannot be called.
    """
    given: dict[tuple[str, Any], Own] = {}

    def take(table: RuleTable[Any, Any], rules: Mapping[Any, Own]) -> None:
        for key, rule in rules.items():
            table.check(key)
            given[table.name, key] = rule

    take(OPCODES, opcodes or {})
    for operator, rule in (lowerings or {}).items():
        take(VIEWS if operator in VIEWS else LOWERINGS, {operator: rule})
        take(DECOMPOSITIONS, {operator: keep_whole})
    take(DECOMPOSITIONS, decompositions or {})
    for language, rules in (printers or {}).items():
        if language not in PRINTERS:
            raise ValueError(f"no language {language!r}; there are: {', '.join(PRINTERS)}")
        take(PRINTERS[language], rules)
    for each in passes:
        take(PASSES, {getattr(each, "__name__", type(each).__name__): each})
    single = ((LEGAL, "legal", legal), (RANK, "rank", rank), (COSTS, "keep", keep), (MEMORY, "reuse", reuse))
    for table, name, own in single:
        take(table, {} if own is None else {name: own})
    made = Rules.of(given).over(rules_in_force())
    with in_force(made):
        yield made
