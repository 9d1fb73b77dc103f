"""Graph breaks of stock in the record: the user's line, a reason in words, what to do."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

import explorer
from break_programs import PROGRAMS, BreakProgram
from explorer.check.trial import Trial
from explorer.core.reasons import CATALOGUE
from explorer.ir.record import BreakData, CompileData
from explorer.stock import breaks
from explorer.stock.fixes import Fix
from explorer.stock.run import stock_run
from explorer.stock.unsupported import registry, taken_apart

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
        assert each.hints[0].startswith("Fix, untried: ")
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
    (only,) = [each for compile in record.data.compiles if compile.id.startswith("s") for each in compile.breaks]
    return only.hints[0], [compile for compile in record.data.compiles if compile.id.startswith("fix")]


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("item", "capture_scalar_outputs"),
        ("print_values", "reorderable_logging_functions"),
        ("third_party_logging", "ignore_logging_functions"),
    ],
)
def test_a_fix_that_a_setting_makes_is_tried(name: str, setting: str) -> None:
    before = getattr(torch._dynamo.config, setting)
    said, compiles = fixed(name)
    assert said.startswith("Fix, tried: ") and setting in said
    (whole,) = compiles
    assert not whole.breaks and setting in whole.title and whole.id in said
    assert "largest error against eager 0" in said
    assert getattr(torch._dynamo.config, setting) == before


def test_a_branch_that_is_rewritten_is_tried() -> None:
    said, (whole,) = fixed("branch_on_data")
    assert said.startswith("Fix, tried: ") and "torch.where" in said and not whole.breaks
    assert "largest error against eager 0; the same on an input that takes the other side" in said
    source = whole.stages[0]
    assert source.name == "rewritten source" and source.body is not None
    assert "+    return torch.where(y.sum() > 0, y.sin(), y.cos())" in str(source.body)
    assert {stage.name for stage in whole.stages} >= {"bytecode", "capture"}


def test_a_fix_that_takes_a_person_stays_untried() -> None:
    said, compiles = fixed("numpy_call")
    assert said.startswith("Fix, untried: ") and not compiles


def test_a_fix_that_does_not_help_is_said_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    useless = Fix("set verbose", {"verbose": True})
    monkeypatch.setattr(breaks, "fix_of", lambda found: useless)
    said, compiles = fixed("branch_on_data")
    assert "the graph still breaks here" in said and compiles[0].breaks


def test_a_message_is_taken_apart() -> None:
    message = (
        "Graph break under GenericContextWrappingVariable\n  Explanation: Attempted\n    on two lines.\n"
        "  Hint: Move it.\n  Hint: Or\n    not.\n\n  Developer debug context: managers: [x]\n\n"
        " For more details about this graph break, please visit: https://example.invalid/gb.html"
    )
    found = taken_apart(message, ())
    assert found.title == "Graph break under GenericContextWrappingVariable"
    assert found.explanation == "Attempted on two lines." and found.hints == ("Move it.", "Or not.")
    assert found.context == "managers: [x]"
    assert found.entry is registry()[found.title]


def test_words_without_an_entry_are_kept() -> None:
    found = taken_apart("something that torch never registered", ())
    assert found.entry is None and found.title == "something that torch never registered"
