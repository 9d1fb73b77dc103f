"""Graph breaks of stock in the record: the user's line, a reason in words, what to do."""

from __future__ import annotations

import pytest

from break_programs import PROGRAMS, BreakProgram
from explorer.check.trial import Trial
from explorer.core.reasons import CATALOGUE
from explorer.ir.record import BreakData, CompileData
from explorer.stock.run import stock_run
from explorer.stock.unsupported import registry, taken_apart


def explored(program: BreakProgram) -> tuple[CompileData, ...]:
    with stock_run(Trial(program.fn, program.inputs(), {}), {"backend": "eager"}) as run:
        return run.compiles({})


def test_there_are_twenty() -> None:
    assert len(PROGRAMS) == 20 and all(program.lines for program in PROGRAMS.values())


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_break_names_the_line_the_reason_and_a_fix(program: BreakProgram) -> None:
    compiles = explored(program)
    breaks: list[BreakData] = [each for compile in compiles for each in compile.breaks]
    assert {each.span.line for each in breaks if each.span} == set(program.lines)
    for each in breaks:
        assert each.span is not None and each.span.file == program.fn.__code__.co_filename
        assert each.why.code.startswith("stock.GB") and each.why.code in CATALOGUE
        assert each.why.title and each.why.detail and each.hints
        assert any(f":{each.span.line} " in frame for frame in each.stack)
    assert not [event for compile in compiles for event in compile.events if event.kind.startswith("Hook")]


def test_a_continuation_names_the_compile_that_it_continues() -> None:
    first, second = explored(PROGRAMS["branch_on_data"])
    (only,) = first.breaks
    assert second.continues == first.id and second.title in only.continuation
    assert {code.name for code in first.codes if code.role == "continuation"} == set(only.continuation.split(", "))
    at = {i.id: i for code in first.codes for i in code.instructions}[only.instruction]
    assert at.span is not None and only.span is not None and at.span.line == only.span.line


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
