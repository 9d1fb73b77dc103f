"""`explorer.workbench`: a person's own rules over the built-in ones, in this block alone, named where they acted."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import explorer
from explorer.compiler.autograd.decompositions import DECOMPOSITIONS
from explorer.compiler.autograd.partition import weight
from explorer.compiler.capture.opcodes import OPCODES
from explorer.compiler.lower.pointwise import pointwise
from explorer.compiler.schedule.legal import can_fuse
from explorer.compiler.schedule.memory import tightest_gap
from explorer.core.rules import Rules, rules_in_force
from explorer.ir.loops import apply

aten = torch.ops.aten
X = torch.linspace(-3, 3, 12)


def softplus(x: torch.Tensor, beta: float = 1, threshold: float = 20) -> torch.Tensor:
    return torch.clamp_min(x, 0) + torch.log1p(torch.exp(-torch.abs(x)))


def soft(x: torch.Tensor) -> torch.Tensor:
    return F.softplus(x) * 2


def rows(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1) * 2 + x.sum()


def explored(function: Callable[..., Any], *args: Any) -> Any:
    return explorer.explore(function, time=False)(*args).data


def wrong(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return x + 1


def test_what_was_compiled_with_a_rule_runs_where_the_rule_is_in_force_and_nowhere_else() -> None:
    compiled = explorer.compile(soft)
    before = compiled(X)
    for _ in range(2):
        with explorer.workbench(decompositions={aten.softplus.default: wrong}):
            torch.testing.assert_close(compiled(X), (X + 1) * 2)
        torch.testing.assert_close(compiled(X), before)
    compiles = explorer.counters()["compiles"]
    with explorer.workbench(decompositions={aten.softplus.default: wrong}):
        compiled(X)
    assert explorer.counters()["compiles"] == compiles, "the code of the first block was not found again"


def test_what_was_compiled_first_inside_a_block_does_not_run_outside() -> None:
    with explorer.workbench(decompositions={aten.softplus.default: wrong}):
        compiled = explorer.compile(soft)
        compiled(X)
    torch.testing.assert_close(compiled(X), soft(X))


def test_other_threads_and_contexts_keep_the_built_in_rules() -> None:
    compiled, found = explorer.compile(soft), []
    with explorer.workbench(decompositions={aten.softplus.default: wrong}):
        thread = threading.Thread(target=lambda: found.append(compiled(X)))
        thread.start()
        thread.join()
        found.append(contextvars.Context().run(compiled, X))
    for result in found:
        torch.testing.assert_close(result, soft(X))
    assert not rules_in_force()


def test_blocks_nest() -> None:
    compiled = explorer.compile(lambda x: F.softplus(x) * F.silu(x))
    with explorer.workbench(decompositions={aten.softplus.default: wrong, aten.silu.default: wrong}):
        with explorer.workbench(decompositions={aten.softplus.default: softplus}):
            torch.testing.assert_close(compiled(X), F.softplus(X) * (X + 1))
        torch.testing.assert_close(compiled(X), (X + 1) ** 2)


def test_a_rule_is_known_by_its_code() -> None:
    def key(function: Callable[..., Any]) -> Rules:
        return Rules.of({("decomposition", aten.softplus.default): function})

    def plus(number: float) -> Callable[..., Any]:
        def rule(x: torch.Tensor, *_: Any) -> torch.Tensor:
            return x + number

        return rule

    def multiplied(x: torch.Tensor, *_: Any, by: float = 2) -> torch.Tensor:
        return x * by

    once = key(multiplied)
    multiplied.__kwdefaults__ = {"by": 3}
    assert key(plus(1)) == key(plus(1)) != key(plus(2)) and key(multiplied) != once
    table = {"to": 1.0}
    reads: Callable[..., Any] = lambda x, *_: x + table["to"]  # noqa: E731
    first = key(reads)
    table["to"] = 2.0
    assert key(reads) != first


def test_torchs_decompositions_are_not_kept_with_a_persons_rules() -> None:
    from explorer.compiler.autograd.decompositions import decompositions

    with explorer.workbench(decompositions={aten.silu.default: wrong}):
        assert decompositions()[aten.silu.default] is DECOMPOSITIONS[aten.silu.default]
    assert decompositions()[aten.silu.default] is not wrong and aten.silu.default not in DECOMPOSITIONS


def test_the_record_says_what_a_rule_made() -> None:
    with explorer.workbench(decompositions={aten.softplus.default: softplus}):
        record = explored(soft, X)
    name = "decomposition aten.softplus.default (softplus)"
    (compile,) = record.compiles
    trace = next(stage for stage in compile.stages if stage.name == "trace")
    assert record.config["rules"] == name and f"with your rule: {name}" in str(trace.text)
    made = {node.id for stage in compile.stages if stage.graph for node in stage.graph.nodes if name in node.about}
    kernels = {kernel.id for half in compile.halves for kernel in half.kernels}
    assert made and kernels and made | kernels <= set(compile.rules)
    assert not any("mul" in id for id in made)
    schedule = next(stage for stage in compile.stages if stage.name == "order")
    assert name in str(schedule.text)
    assert not explored(soft, X).compiles[0].rules


def test_a_lowering_keeps_its_operator_whole_and_makes_the_loop() -> None:
    def own(lower: Any, out: torch.Tensor, x: Any, *_: Any) -> Any:
        return pointwise(lower, out, lambda a: apply("relu", a), x)

    with explorer.workbench(lowerings={aten.softplus.default: own}):
        torch.testing.assert_close(explorer.compile(soft)(X), torch.relu(X) * 2)
        compile = explored(soft, X).compiles[0]
    assert "lowering aten.softplus.default (own)" in compile.rules.values()


def test_an_opcode() -> None:
    built_in, used = OPCODES["BINARY_OP"], []

    def counted(t: Any, f: Any, i: Any) -> str | None:
        used.append(i.arg)
        return built_in(t, f, i)

    with explorer.workbench(opcodes={"BINARY_OP": counted}):
        torch.testing.assert_close(explorer.compile(soft, fullgraph=True)(X), soft(X))
        compile = explored(soft, X).compiles[0]
    assert used == ["*", "*"] and OPCODES["BINARY_OP"] is built_in
    assert compile.rules["fx.mul"] == "opcode BINARY_OP (counted)"


def test_a_printer_of_c_plus_plus() -> None:
    """What it prints is computed: here something else than the operation."""
    with explorer.workbench(printers={"cpp": {"erf": lambda dtype, x: f"({x} * 2)"}}):
        assert explorer.compile(lambda x: torch.erf(x))(X).equal(X * 2)
        compile = explorer.explore(torch.erf, time=False)(X).data.compiles[0]
    [kernel] = compile.halves[0].kernels
    assert " * 2)" in str(kernel.source) and compile.rules[kernel.id] == "C++ operation erf (<lambda>)"


def test_a_printer_of_triton() -> None:
    with explorer.workbench(printers={"triton": {"erf": lambda dtype, x: f"my_erf({x})"}}):
        compile = explorer.explore(torch.erf, time=False, target="cuda:sm_90")(X).data.compiles[0]
    [kernel] = compile.halves[0].kernels
    assert "my_erf(" in str(kernel.source) and compile.rules[kernel.id] == "Triton operation erf (<lambda>)"


def test_c_plus_plus_that_does_not_build_runs_eagerly_and_names_the_rule() -> None:
    with explorer.workbench(printers={"cpp": {"erf": lambda dtype, x: f"my_erf({x})"}}):
        record = explored(lambda x: torch.erf(x) + 1, X)
    assert record.compiles[0].fallback is not None and "my_erf" in record.compiles[0].fallback.detail


def test_a_pass_over_the_traced_graph() -> None:
    def silu(graph: torch.fx.Graph) -> None:
        for node in graph.nodes:
            if node.target is aten.sigmoid.default:
                with graph.inserting_after(node):
                    made = graph.call_function(aten.relu.default, node.args)
                node.replace_all_uses_with(made)
                graph.erase_node(node)
                break

    with explorer.workbench(passes=[silu]):
        compiled = explorer.compile(lambda x: x * torch.sigmoid(x))
        torch.testing.assert_close(compiled(X), X * torch.relu(X))
        compile = explored(lambda x: x * torch.sigmoid(x), X).compiles[0]
    stage = next(stage for stage in compile.stages if stage.name == "pass silu")
    assert "with your rule: pass silu" in str(stage.text)


def test_legal_and_rank_decide_on_fusions() -> None:
    def nothing(a: Any, b: Any, facts: Any, between: Any, names: Any) -> Any:
        joined = can_fuse(a, b, facts, between, names)
        if joined.group is not None:
            joined = type(joined)(joined.pair, type(joined.verdict)(False, joined.verdict.why))
        return joined

    x = torch.randn(4, 8)
    fused = len(explored(rows, x).compiles[0].halves[0].kernels)
    for rules in ({"legal": nothing}, {"rank": lambda pair: None}):
        with explorer.workbench(**rules):  # type: ignore[arg-type]
            torch.testing.assert_close(explorer.compile(rows)(x), rows(x))
            half = explored(rows, x).compiles[0].halves[0]
        assert len(half.kernels) > fused
        assert all("with your rule: fusion" in each.why.detail for each in half.schedule.fusions)


def test_keep_and_reuse() -> None:
    asked = []

    def keep(node: Any, results: Any, level: Any) -> float:
        asked.append(node.name)
        return weight(node, results, level)

    def apart(need: int, rivals: list[Any]) -> int:
        assert {type(need), *(type(rival.bytes) for rival in rivals)} == {int}
        return max((rival.offset + rival.bytes + 64 for rival in rivals), default=0)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = (x.tanh() @ x.exp()).softmax(-1)
        return (y @ x.sin()).sum()

    x = torch.randn(8, 8, requires_grad=True)
    with explorer.workbench(keep=keep, reuse=apart):
        explorer.compile(step)(x).backward()
        [compile] = explored(step, x).compiles
    decided = [each.why.detail for each in compile.saved if each.kind == "recomputed"]
    assert decided and set(decided) == {"with your rule: cost keep"}
    pooled = [each.where_why for half in compile.halves for each in half.buffers if each.where == "pool"]
    assert pooled and {why.detail for why in pooled} == {"with your rule: memory reuse (apart)"}
    x.grad = None
    with explorer.workbench(keep=keep, reuse=apart):
        explorer.compile(step)(x).backward()
    assert asked and x.grad is not None
    found, x.grad = x.grad, None
    step(x).backward()
    torch.testing.assert_close(found, x.grad)
    assert tightest_gap(64, []) == 0


def test_an_error_in_a_rule_names_it_and_the_program_runs() -> None:
    def broken(x: torch.Tensor, *_: Any) -> torch.Tensor:
        return {}["missing"]  # type: ignore[no-any-return]

    with explorer.workbench(decompositions={aten.softplus.default: broken}):
        torch.testing.assert_close(explorer.compile(soft)(X), soft(X))
        fallback = explored(soft, X).compiles[0].fallback
    assert fallback.code == "rules.yours_failed"
    assert fallback.detail == "decomposition aten.softplus.default (broken) at fx.softplus: KeyError: 'missing'"


def test_a_rule_that_uses_what_it_is_for_is_reported() -> None:
    with explorer.workbench(decompositions={aten.softplus.default: lambda x, *_: F.softplus(x)}):
        torch.testing.assert_close(explorer.compile(soft)(X), soft(X))
        fallback = explored(soft, X).compiles[0].fallback
    assert fallback.code == "rules.yours_failed"
    assert fallback.detail.endswith(": it recurses without end: it uses the operation that it is a rule for")


def test_what_breaks_the_check_of_a_stage_names_the_rules() -> None:
    with explorer.workbench(legal=lambda *_: True, reuse=lambda need, rivals: 0):
        torch.testing.assert_close(explorer.compile(rows)(X.view(3, 4)), rows(X.view(3, 4)))
        fallback = explored(rows, X.view(3, 4)).compiles[0].fallback
    assert fallback.code == "rules.yours_failed" and "fusion legal" in fallback.detail


@pytest.mark.parametrize("place", [None, -64, 1, 64.0, "0"])
def test_a_place_that_is_none_names_the_rule(place: Any) -> None:
    with explorer.workbench(reuse=lambda need, rivals: place):
        torch.testing.assert_close(explorer.compile(rows)(X.view(3, 4)), rows(X.view(3, 4)))
        fallback = explored(rows, X.view(3, 4)).compiles[0].fallback
    assert fallback.code == "rules.yours_failed" and f"`reuse` gave {place!r}" in fallback.detail


def test_an_opcode_rule_that_loses_the_stack_costs_no_result() -> None:
    with explorer.workbench(opcodes={"BINARY_OP": lambda t, f, i: None}):
        torch.testing.assert_close(explorer.compile(soft)(X), soft(X))


def test_what_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="opcode has no key SWAPP"), explorer.workbench(opcodes={"SWAPP": wrong}):
        pass
    with pytest.raises(ValueError, match="no language 'c'"), explorer.workbench(printers={"c": {}}):
        pass
    with pytest.raises(TypeError, match="cannot be called"), explorer.workbench(rank=3):  # type: ignore[arg-type]
        pass


def test_stock_s_entries_are_compiled_with_the_built_in_rules() -> None:
    compiled = torch.compile(soft, backend="explorer")
    with explorer.workbench(decompositions={aten.softplus.default: wrong}):
        torch.testing.assert_close(compiled(X), soft(X))


def test_a_library_call_is_not_reported_to_be_the_work_of_a_lowering_that_declined() -> None:
    with explorer.workbench(lowerings={aten.softplus.default: lambda *_: None}):
        compile = explored(soft, X).compiles[0]
    assert not compile.rules and "extern" in {op.kind for op in compile.halves[0].operations}


def test_what_a_rule_prints_is_shown_and_is_no_effect_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    def rank(pair: Any) -> int:
        print("shares", pair.bytes_shared)
        return int(pair.bytes_shared)

    with explorer.workbench(rank=rank):
        record = explored(rows, X.view(3, 4))
    assert "shares 48" in capsys.readouterr().out
    assert not any("prints" in note for note in record.notes)


def test_a_rank_that_is_no_number_is_named() -> None:
    with explorer.workbench(rank=lambda pair: "high"):
        record = explored(rows, X.view(3, 4))
    assert "a rank is a number, a tuple of numbers, or None; this one is 'high'" in record.compiles[0].fallback.detail
