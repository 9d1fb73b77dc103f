"""Mutants of the puzzles' solutions: one small change each, of which a check should refuse nearly all.

`python tests/course_mutants.py 200` checks so many, and prints those that pass and whether the puzzle has more than one
right answer.
"""

from __future__ import annotations

import ast
import copy
import random
import sys
from collections.abc import Iterator

from explorer.course import PUZZLES, check

SEVERAL = {
    "capture-2": "any input on which the trace is silently wrong",
    "guards-2": "any sound guard that accepts enough",
    "fusion-2": "any rule that is safe and finds enough",
    "fusion-3": "any rank that moves few bytes; what is legal is not its business",
    "partition-3": "any cost that keeps few bytes; gradients are right with each",
    "memory-1": "any places that do not overlap in a small pool",
    "passes-3": "any program on which the pass is wrong",
    "symbolic-5": "any program on which the rule is wrong",
    "fusion-4": "any function and rank that move fewer bytes",
    "capstone-1": "any rules that give right gradients and few bytes",
}
"""Puzzles where more than one answer is right, and which: exactly what their check asks."""

SEEDS = (1, 2, 3)
"""What passes is checked for these random inputs too."""

SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """The node with one thing changed."""
    made = copy.deepcopy(node)
    match made:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPS:
            made.op = SWAPS[type(op)]()
            yield made
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            made.ops = [SWAPS[type(op)]()]
            yield made
        case ast.Constant(value=bool(value)):
            made.value = not value
            yield made
        case ast.Constant(value=int(value) | float(value)):
            made.value = value + 1
            yield made
        case ast.Call(func=ast.Name(id="max" | "min")):  # of any order of its arguments the same
            pass
        case ast.Call(args=[first, second, *rest]) if not any(isinstance(a, ast.Starred) for a in made.args):
            made.args = [second, first, *rest]
            yield made
        case ast.IfExp(body=body, orelse=orelse):
            made.body, made.orelse = orelse, body
            yield made
        case ast.If(test=test):
            made.test = ast.UnaryOp(ast.Not(), test)
            yield made


def mutants(source: str) -> list[str]:
    """All mutants of a source, by what `changed` does at each place, and by leaving out a statement."""
    tree, found = ast.parse(source), []
    nodes = list(ast.walk(tree))
    for at, node in enumerate(nodes):
        for new in changed(node):
            whole = copy.deepcopy(tree)
            found.append(ast.unparse(_Replaced(list(ast.walk(whole))[at], new).visit(whole)))
        for field in ("body", "orelse"):
            statements = getattr(node, field, None)
            if isinstance(statements, list) and len(statements) > 1 and not isinstance(node, ast.Module):
                for index in range(len(statements)):
                    whole = copy.deepcopy(tree)
                    del getattr(list(ast.walk(whole))[at], field)[index]
                    found.append(ast.unparse(whole))
    return [each for each in dict.fromkeys(found) if each != ast.unparse(tree)]


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def drawn(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """So many mutants, with their puzzles, the same for the same seed; of each puzzle as many as of another."""
    source = random.Random(seed)
    pools = {id: mutants(puzzle.solution) for id, puzzle in PUZZLES.items()}
    for pool in pools.values():
        source.shuffle(pool)
    found: list[tuple[str, str]] = []
    while len(found) < count and any(pools.values()):
        found += [(id, pool.pop()) for id, pool in pools.items() if pool]
    return found[:count]


if __name__ == "__main__":
    asked = drawn(int(sys.argv[1]) if sys.argv[1:] else 200)
    passed = []
    for id, code in asked:
        if all(check(id, code, seed, seconds=60).ok for seed in (0, *SEEDS)):
            passed.append(id)
            said = f"right too: {SEVERAL[id]}" if id in SEVERAL else "TO LOOK AT: is it the same function?"
            print(f"--- {id} passes, {said}\n{code}\n", flush=True)
    others = sum(id in SEVERAL for id in passed)
    left = len(passed) - others
    print(f"{len(asked)} mutants: {len(asked) - len(passed)} refused; {others} are other right answers, for each of "
          f"{len(SEEDS) + 1} seeds; {left} to look at")  # fmt: skip
    print(f"refused of all but the right answers: {1 - left / (len(asked) - others):.1%}")
