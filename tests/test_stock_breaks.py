"""Graph breaks of stock in the record: the user's line, a reason in words, what to do."""

from __future__ import annotations

import contextlib
import gc
import logging
import time
import warnings
import zlib
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor

import explorer
from asserting import assert_message, assert_plain
from break_programs import PROGRAMS, BreakProgram
from explorer.core.reasons import CATALOGUE
from explorer.ir.record import BreakData, CompileData
from explorer.records.check.trial import Trial
from explorer.records.data.dynamo import NOTHING
from explorer.records.stock import fixes
from explorer.records.stock.fixes import Fix, parsed_message, registry
from explorer.records.stock.run import stock_run

TRACED = {"generator": "2.14"}
"""The version of torch since which stock does not break there."""


def explored(program: BreakProgram) -> tuple[CompileData, ...]:
    with stock_run(Trial(program.fn, program.inputs(), {}), {"backend": "eager"}) as run:
        return run.compiles({})


def test_there_are_twenty() -> None:
    assert len(PROGRAMS) == 20 and all(program.lines for program in PROGRAMS.values())


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_break_names_the_line_the_reason_and_a_fix(program: BreakProgram) -> None:
    compiles = explored(program)
    name = program.fn.__name__
    if name in TRACED and torch.torch_version.TorchVersion(torch.__version__) >= TRACED[name]:
        assert not any(compile.breaks for compile in compiles)
        return
    breaks: list[BreakData] = [each for compile in compiles for each in compile.breaks]
    assert {each.span.line for each in breaks if each.span} == set(program.lines)
    for each in breaks:
        assert each.span is not None and each.span.file == program.fn.__code__.co_filename
        assert each.why.code.startswith("stock.GB") and each.why.code in CATALOGUE
        assert each.why.title and each.why.detail and each.hints
        assert any(f":{each.span.line} " in frame for frame in each.stack)
        assert each.hints[0].startswith("Fix (not tried): ")
    assert not [event for compile in compiles for event in compile.events if event.kind.startswith("Hook")]


def test_a_continuation_names_the_compile_that_it_continues() -> None:
    first, second = explored(PROGRAMS["branch_on_data"])
    (only,) = first.breaks
    assert second.continues == first.id and second.title in only.continuation
    assert {code.name for code in first.codes if code.role == "continuation"} == set(only.continuation.split(", "))
    at = {i.id: i for code in first.codes for i in code.instructions}[only.instruction]
    assert at.span is not None and only.span is not None and at.span.line == only.span.line


def fixed(name: str) -> tuple[str, list[CompileData]]:
    """What is said of the fix of the program's only break, and the compiles with it."""
    program = PROGRAMS[name]
    settings = {"backend": "eager"}
    record = explorer.explore(program.fn, engine="stock", stock=settings, fixes=True, time=False)(*program.inputs())
    (only,) = record.breaks
    assert all(compile.id.startswith("s") for compile in record.data.compiles)
    return only.hints[0], list(record.attempts)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("item", "capture_scalar_outputs"),
        ("print_values", "reorderable_logging_functions"),
    ],
)
def test_a_fix_that_a_setting_makes_is_tried(name: str, setting: str) -> None:
    before = getattr(torch._dynamo.config, setting)
    said, compiles = fixed(name)
    assert said.startswith("Fix (tried): ") and setting in said
    (whole,) = compiles
    assert not whole.breaks and setting in whole.title and whole.id in said
    assert "it helps: " in said and "largest error against eager 0" in said
    assert getattr(torch._dynamo.config, setting) == before


def test_a_fix_that_leaves_out_what_is_logged_is_reported_to(monkeypatch: pytest.MonkeyPatch) -> None:
    # What listens to the tests is no handler of the program.
    monkeypatch.setattr(logging.getLogger("a third party"), "propagate", False)
    said, (whole,) = fixed("third_party_logging")
    assert not whole.breaks and "ignore_logging_functions" in said
    assert "but results differ from eager's: printed line 1: nothing instead of 'log " in said


def test_a_branch_that_is_rewritten_is_tried() -> None:
    said, (whole,) = fixed("branch_on_data")
    assert said.startswith("Fix (tried): ") and "torch.where" in said and not whole.breaks
    assert "largest error against eager 0; also on an input that takes the other side" in said
    source = whole.stages[0]
    assert source.name == "rewritten source" and source.body is not None
    assert "+    return torch.where(y.sum() > 0, y.sin(), y.cos())" in str(source.body)
    assert {stage.name for stage in whole.stages} >= {"bytecode", "capture"}


def test_a_fix_that_takes_a_person_stays_untried() -> None:
    said, compiles = fixed("numpy_call")
    assert said.startswith("Fix (not tried): ") and not compiles


def test_a_fix_that_does_not_help_is_reported_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    useless = Fix("set verbose", {"verbose": True})
    monkeypatch.setattr(fixes, "fix_of", lambda found, statement: useless)
    said, compiles = fixed("branch_on_data")
    assert "it does not help: the graph still breaks here" in said and compiles[0].breaks


def printing(x: Tensor) -> Tensor:
    for turn in range(2):
        x = x + turn
        print(turn)
    return x


def body(x: Tensor, turn: int) -> Tensor:
    x = x + turn
    print(turn)
    return x.sin()


def taken_out(x: Tensor) -> Tensor:
    for turn in range(2):
        x = body(x, turn)
    return x


def suppressing(x: Tensor) -> Tensor:
    with contextlib.suppress(ValueError):
        x = x + 1
        zlib.crc32(b"a")
    return x


def warning(x: Tensor) -> Tensor:
    y = x + 1
    warnings.warn("once", stacklevel=1)
    return y * 2


def timed(x: Tensor) -> Tensor:
    begun = time.perf_counter()
    return x * begun


def collecting(x: Tensor) -> Tensor:
    y = x + 1
    gc.collect()
    return y * 2


def sized(x: Tensor, n: Tensor) -> Tensor:
    k = n.item()
    if k > 2:
        return x + 1
    return x[:2] * k


weight = torch.ones(4, requires_grad=True)


def backward(x: Tensor) -> Tensor:
    (weight * x).sum().backward()
    return x * 2


def facts_of(fn: Any, *inputs: Any, **settings: Any) -> explorer.Record:
    asked = {"engine": "stock", "stock": {"backend": "eager"}, "time": False, **settings}
    return explorer.explore(fn, **asked)(*(inputs or (torch.ones(4),)))


def test_a_break_in_a_loop_names_what_breaks_and_advice_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    record = facts_of(printing)
    (only,) = record.breaks
    assert "builtin operator `print`" in only.why.detail and "This leads to: graph break in loop" in only.why.detail
    assert "print after the compiled function" in only.hints[0]
    assert only.hints[1].startswith("Known to help: move the body of the loop into its own function")
    assert not any(stage.name == "capture" for stage in record.stages)
    assert any(stage.name == "capture" for stage in facts_of(taken_out).stages), "the advice, followed"


OPTIMIZER = torch.optim.SGD([weight], lr=0.0)


def test_an_assertion_breaks_for_its_text_alone() -> None:
    assert not facts_of(assert_plain).breaks and facts_of(assert_message).breaks


@pytest.mark.parametrize(
    ("fn", "says", "says_not"),
    [
        (suppressing, "Known to help: move the body of the with statement", "torch.compiler.disable"),
        (warning, "warn before or after the compiled", "pass in the result"),
        (timed, "read the clock before and after the compiled", "pass in the result"),
        (collecting, "before or after the compiled", "pass in the result"),
        (assert_message, "Known to help: give the assertion a text that is a constant", "compute both sides"),
        (lambda x: OPTIMIZER.step(), "No change is needed: the line is in torch", "move the line"),
    ],
)
def test_advice_is_for_what_the_line_is_there_for(fn: Any, says: str, says_not: str) -> None:
    weight.grad = torch.ones(4)
    record = facts_of(fn)
    hints = " ".join(hint for each in record.breaks for hint in each.hints)
    assert says in hints and says_not not in hints


def test_breaks_of_what_was_tried_are_no_facts() -> None:
    """With the value in the graph, the branch on it breaks: as often, one line later."""
    record = facts_of(sized, torch.ones(4), torch.tensor(3.0), fixes=True)
    lines = {each.span.line for each in record.breaks if each.span}
    first = sized.__code__.co_firstlineno
    assert lines == {first + 1} and len(record.coverage.python) == 1
    assert any(compile.breaks for compile in record.attempts)
    said = record.breaks[0].hints[0]
    assert f"it does not help: the graph breaks at {__file__}:{first + 2} instead" in said
    assert str(first + 2) not in repr(record)


def test_a_setting_that_torch_names_is_tried() -> None:
    record = facts_of(backward, fixes=True)
    said = record.breaks[0].hints[0]
    assert "torch._dynamo.config.trace_autograd_ops = True; it helps: " in said


def test_a_size_that_only_a_run_tells_loses_nothing() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        record = facts_of(lambda x: x.nonzero() + 1)
    assert any(stage.name == "capture" for stage in record.stages)
    assert not [event for compile in record.data.compiles for event in compile.events if event.kind == "HookFailed"]


def test_a_continuation_with_a_closure_that_only_returns_has_nothing_to_compile() -> None:
    kept: list[int] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        kept.append(1)
        gc.collect(0)
        return x

    record = facts_of(program)
    assert not [event for compile in record.data.compiles for event in compile.events if event.kind == "HookFailed"]
    assert [each.fallback and each.fallback.code for each in record.data.compiles] == [None, NOTHING]


def test_a_message_is_parsed() -> None:
    message = (
        "Graph break under GenericContextWrappingVariable\n  Explanation: Attempted\n    on two lines.\n"
        "  Hint: Move it.\n  Hint: Or\n    not.\n\n  Developer debug context: managers: [x]\n\n"
        " For more details about this graph break, please visit: https://example.invalid/gb.html"
    )
    found = parsed_message(message, ())
    assert found.title == "Graph break under GenericContextWrappingVariable"
    assert found.explanation == "Attempted on two lines." and found.hints == ("Move it.", "Or not.")
    assert found.context == "managers: [x]"
    assert found.entry is registry()[found.title]


def test_words_without_an_entry_are_kept() -> None:
    found = parsed_message("something that torch never registered", ())
    assert found.entry is None and found.title == "something that torch never registered"


def test_a_break_inside_torch_is_not_called_the_users() -> None:
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
    with stock_run(Trial(lambda: optimizer.step(), (), {}), {"backend": "eager"}) as run:
        [found, *_] = [each for compile in run.compiles({}) for each in compile.breaks]
    assert "User-inserted" not in str(found.why) and "optim/optimizer.py" in found.why.detail


def test_a_setting_that_is_tried_is_no_hint_of_torchs_besides() -> None:
    def step(x: torch.Tensor) -> None:
        x.sum().backward()

    with stock_run(Trial(step, (torch.ones(2, requires_grad=True),), {}), {"backend": "eager"}) as run:
        [found] = [each for compile in run.compiles({}) for each in compile.breaks]
    assert sum("trace_autograd_ops" in hint for hint in found.hints) == 1
