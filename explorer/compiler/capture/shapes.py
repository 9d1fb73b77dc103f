"""Size symbols and the guards on them, from what ShapeEnv was asked. Stock counterpart: ShapeEnv.produce_guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.assumptions import Assumptions
from explorer.compiler.capture.expressions import Printer, function_of, tree
from explorer.compiler.capture.guards import ShapeHolds
from explorer.compiler.capture.values.base import Tracer
from explorer.core.reasons import Unsupported, Why
from explorer.ir.capture import ByCompiler, Capture, Cause, Guard, Size, Source, Stride, Symbol, cause_of
from explorer.ir.graph import info
from explorer.ir.sizes import Assumed, plain, relations


def symbols(t: Tracer) -> tuple[tuple[Symbol, ...], tuple[Guard, ...]]:
    """The symbols in use, and every relation between sizes that the capture relied on."""
    tape = t.tape
    env = tape.shape_env
    sources: dict[sympy.Symbol, Source] = tape.symbol_sources
    found: list[Symbol] = []
    guards: list[Guard] = []

    def add(expr: sympy.Expr, extra: dict[Source, int], cause: Cause, why: str) -> None:
        relation = _relation(expr, tape.storage_symbols | sources, tuple(extra))
        if relation is not None:
            first = relation.sources[0] if relation.sources else None
            values = {source: plain(tape.hints[symbol]) for symbol, source in sources.items() if symbol in tape.hints}
            seen = ", ".join(f"{s.name} = {(extra | values).get(s, '?')}" for s in relation.sources)
            guards.append(t.guards.of(f"shape{len(guards)}", first, relation, cause, why, seen))

    for symbol, source in sources.items():
        value = tape.hints.get(symbol)
        if value is None:
            continue
        interval = env.var_to_range.get(symbol)
        lower = int(interval.lower) if interval is not None and interval.lower.is_Integer else None
        upper = int(interval.upper) if interval is not None and interval.upper.is_Integer else None
        reason = "dynamic=True" if t.config.dynamic else "its value was seen to change"
        found.append(Symbol(str(symbol), plain(value), source, lower, upper, reason, tape.symbol_steps[symbol]))
        if lower is not None:
            why = "0 and 1 are compiled separately" if lower == 2 else "other guards on this number imply it"
            add(sympy.Ge(symbol, lower, evaluate=False), {}, ByCompiler("the range of a size"), why)
    _equalities(t, add)
    tape.note_shape_guards("the number was needed for what the frame returns")
    for guard, (ids, place, why) in zip(env.guards, tape.shape_guard_causes, strict=True):
        if follows(guard.expr, env.var_to_range):
            why = f"{why}; other guards on this number imply it"
        cause = cause_of(ids, place.span, place.step) if ids else ByCompiler("a size of an input")
        add(guard.expr, {}, cause, why)
    return tuple(found), tuple(guards)


def follows(relation: sympy.Basic, ranges: Mapping[sympy.Symbol, Any]) -> bool:
    """Whether a bound on one symbol is wider than its range, which others then make."""
    if not isinstance(relation, sympy.core.relational._Inequality):
        return False
    bound = relation if relation.lhs.is_Symbol else relation.reversed
    if bound.lhs not in ranges or not bound.rhs.is_Integer:
        return False
    most = ranges[bound.lhs]
    if isinstance(bound, (sympy.Gt, sympy.Ge)):
        return bool(most.lower > bound.rhs + isinstance(bound, sympy.Gt))
    return bool(most.upper < bound.rhs - isinstance(bound, sympy.Lt))


def of_compile(capture: Capture, assumed: tuple[Assumed, ...]) -> tuple[Guard, ...]:
    """The guards for what the compile of the graph assumed about sizes. Raises AssertionError if ShapeEnv has a
    relation that neither the capture nor the compile reports."""
    graph = capture.graph
    assert graph is not None
    held = relations(graph.fake_mode.shape_env).since(0)
    assert held == (*capture.assumed, *assumed), "a relation between sizes was assumed and is in no artifact"
    known = {symbol.name: symbol for symbol in capture.symbols}
    spans = {info(node).id: info(node).span for node in graph.graph.nodes if node.op != "output"}
    found: list[Guard] = []
    guards = Assumptions(capture.name)
    for number, each in enumerate(assumed):
        sources = {s: known[str(s)].source for s in each.relation.free_symbols if str(s) in known}
        relation = _relation(each.relation, sources, ())
        if relation is not None:
            ids = each.origins
            cause = cause_of(ids, spans.get(ids[0]), -1) if ids else ByCompiler("the compile of the graph")
            seen = ", ".join(f"{s.name} = {known[str(symbol)].hint}" for symbol, s in sources.items())
            why = "the code that was made relies on it"
            found.append(guards.of(f"assumed{number}", relation.sources[0], relation, cause, why, seen))
    return tuple(found)


def _equalities(t: Tracer, add: Callable[..., None]) -> None:
    """Sizes that share a symbol with another, and sizes and strides that are expressions of symbols. ShapeEnv replaces
    a symbol that the program compared: that guard is there already, or the equality follows from others."""
    symbols = {source: symbol for symbol, source in t.tape.symbol_sources.items()}
    asked = {guard.expr for guard in t.tape.shape_env.guards}
    for source, changed in t.tape.fakes.items():
        fake = t.tape.given[id(changed)]  # the program may have transposed it since
        for dim, size in enumerate(fake.shape):
            if isinstance(size, torch.SymInt):
                own, expr = Size(source, dim), size.node.expr
                mine = symbols.get(own)
                if (
                    mine == expr
                    or mine is not None
                    and not asked.isdisjoint(
                        {sympy.Eq(mine, expr, evaluate=False), sympy.Eq(expr, mine, evaluate=False)}
                    )
                ):
                    continue
                same = sympy.Eq(sympy.Symbol(f"={own.name}", integer=True), expr, evaluate=False)
                now = {own: int(t.tape.hint(expr))}
                why = "sizes that were equal share a symbol" if mine is None else "other guards on sizes imply it"
                add(same, now, ByCompiler("equal sizes"), why)
        for dim, stride in enumerate(fake.stride()):
            if isinstance(stride, torch.SymInt):
                step = Stride(source, dim)
                if t.tape.symbol_sources.get(stride.node.expr) == step:
                    continue
                same = sympy.Eq(sympy.Symbol(f"={step.name}", integer=True), stride.node.expr, evaluate=False)
                now = {step: int(t.tape.hint(stride.node.expr))}
                add(same, now, ByCompiler("the layout"), "the generated code relies on the layout in memory")


def _relation(expr: Any, sources: dict[sympy.Symbol, Source], extra: tuple[Source, ...]) -> ShapeHolds | None:
    """The relation as text and as a function, or None where it holds always."""
    if expr in (True, sympy.true):
        return None
    named: dict[sympy.Symbol, Source] = {sympy.Symbol(f"={source.name}", integer=True): source for source in extra}
    for symbol in sorted(expr.free_symbols, key=str):
        if symbol not in named:
            if symbol not in sources:
                raise Unsupported(Why(reasons.DYNAMIC_OUTPUT, f"a guard on {symbol}, which no input gives"))
            named[symbol] = sources[symbol]
    if not named:
        return None
    text = Printer({symbol: source.name for symbol, source in named.items()}).doprint(expr)
    return ShapeHolds(text, tuple(named.values()), function_of(expr, list(named)), tree(expr, named))
