"""The recorded steps of the evaluator replay to what it held, and cost no more than they may."""

import collections
import itertools
import json
from pathlib import Path

import msgspec
import pytest
import torch

import explorer
from explorer.compiler.capture.values.sequences import ListValue
from explorer.core import recorder as recording
from explorer.ir.capture import CompilerBug, EvaluatorSteps, FrameSkipped, GuardFailed
from explorer.ir.record import CompileData
from explorer.show.record import Record
from explorer.show.view.steps import Steps

State = tuple[list[str], dict[str, str]]


def replayed(compile: CompileData) -> list[tuple[str, int, list[str], dict[str, str]]]:
    """(instruction, nodes, stack, locals) of each step, as the record's definition of a step says."""
    states: dict[int, State] = {}
    found = []
    for step in compile.steps:
        stack, locals = states.setdefault(step.activation, ([], {}))
        del stack[step.kept :]
        stack += (compile.values[each].text for each in step.pushed)
        for name, each in step.locals.items():
            locals.pop(name, None)
            if each >= 0:
                locals[name] = compile.values[each].text
        found.append((step.instruction, step.nodes, list(stack), dict(locals)))
    return found


def scaled(a: torch.Tensor, factor: int) -> torch.Tensor:
    return a * factor + 1


def collected(x: torch.Tensor) -> torch.Tensor:
    parts = []
    for factor in range(2):
        parts.append(scaled(x, factor))
    del factor
    return torch.cat(parts)


def test_steps_show_stack_locals_and_graph() -> None:
    (compile,) = explorer.explore(collected, time=False)(torch.ones(3)).data.compiles
    steps = replayed(compile)
    assert [(a.function, a.depth, a.caller) for a in compile.activations] == [
        ("collected", 0, -1), ("scaled", 1, 0), ("scaled", 1, 0),
    ]  # fmt: skip
    instructions = {i.id: i for code in compile.codes for i in code.instructions}
    assert all(instruction in instructions for instruction, *_ in steps)
    last = steps[-1]
    assert instructions[last[0]].op == "RETURN_VALUE"
    assert last[1:] == (5, ["tensor cat"], {"parts": "list of 2", "x": "tensor l_x"}), "an unbound local is gone"
    parts = next(value for value in reversed(compile.values) if value.text == "list of 2")
    assert [(name, compile.values[at].text) for name, at in parts.items] == [("0", "tensor add"), ("1", "tensor add_1")]
    assert all(at < here for here, value in enumerate(compile.values) for _, at in value.items), "a tree ends"
    inner = [step for step in steps if "scaled" in step[0]]
    assert [stack for _, _, stack, _ in inner[-2:]] == [["tensor mul_1", "1"], ["tensor add_1"]]
    assert inner[0][3] == {"a": "tensor l_x", "factor": "0"}
    lengths = [locals["parts"] for _, _, _, locals in steps if "parts" in locals]
    assert list(dict.fromkeys(lengths)) == ["list of 0", "list of 1", "list of 2"], "what changes is shown as it was"


def test_nodes_count_the_graph_as_it_grew() -> None:
    (compile,) = explorer.explore(collected, time=False)(torch.ones(3)).data.compiles
    graph = next(stage.graph for stage in compile.stages if stage.graph is not None)
    made = [node for node in graph.nodes if node.op != "placeholder"]
    steps = replayed(compile)
    for (_, before, _, _), (_, after, _, _), step in zip(steps, steps[1:], compile.steps, strict=False):
        assert all(step.instruction in node.origins for node in made[before:after])
    assert steps[-1][1] == len(made)
    by_instruction = {node.id: compile.steps[compile.made[node.id]].instruction for node in made}
    assert all(by_instruction[node.id] in node.origins for node in made)


def test_an_evaluation_that_starts_over_has_a_second_root() -> None:
    def restarted(x: torch.Tensor) -> torch.Tensor:
        def inner(y: torch.Tensor) -> torch.Tensor:
            z = y + 1
            print("now")
            return z * 2

        return inner(x)

    first, *_ = explorer.explore(restarted, time=False)(torch.ones(3)).data.compiles
    assert [a.function.rpartition(".")[2] for a in first.activations] == ["restarted", "inner", "restarted"]
    assert [a.depth for a in first.activations] == [0, 1, 0]
    known = {i.id for code in first.codes for i in code.instructions}
    assert known.issuperset(step.instruction for step in first.steps), "also of what was evaluated in vain"


def appended_to_meanwhile(x: torch.Tensor) -> torch.Tensor:
    parts = [x]

    def more():
        yield len(parts)
        yield len(parts) + 1

    parts.extend(more())
    last = parts
    return x + len(last)


def test_what_an_instruction_changes_after_the_steps_inside_it_is_reported() -> None:
    (compile,) = explorer.explore(appended_to_meanwhile, time=False)(torch.ones(3)).data.compiles
    steps = replayed(compile)
    inside = {locals["parts"] for instruction, _, _, locals in steps if "more" in instruction and "parts" in locals}
    assert inside == {"list of 1"}
    assert steps[-1][3]["last"] == "list of 3"
    assert [each for each in dict.fromkeys(locals.get("parts") for _, _, _, locals in steps) if each] == [
        "list of 1", "list of 3",
    ]  # fmt: skip


def test_a_container_is_asked_what_it_holds_once_between_two_changes(monkeypatch) -> None:
    asked = 0
    holding = ListValue.holding

    def counted(*args: object) -> object:
        nonlocal asked
        asked += 1
        return holding(*args)

    monkeypatch.setattr(ListValue, "holding", counted)
    (compile,) = explorer.explore(collected, time=False)(torch.ones(3)).data.compiles
    in_sight = sum("list" in " ".join([*stack, *locals.values()]) for _, _, stack, locals in replayed(compile))
    assert 4 * asked < in_sight, (asked, in_sight)


def closed_at_once(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    def numbers():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    found = numbers()
    first = next(found)
    found = None
    log.append("after")
    list(itertools.islice(numbers(), 1))
    log.append("after")
    return x + first


def test_a_step_holds_nothing_that_the_program_loses() -> None:
    log: list[str] = []
    recorder = recording.Recorder()
    with recording.recording(recorder):
        explorer.compile(closed_at_once)(torch.ones(3), log)
    assert log == ["closed", "after"] * 2
    (compile,) = (run for run in recorder.compiles if run.id == "f0")
    assert not any(isinstance(event, FrameSkipped | CompilerBug) for event in compile.events)


def test_telling_which_guard_failed_puts_nothing_into_a_defaultdict() -> None:
    recorder, counts = recording.Recorder(), collections.defaultdict(int, {"b": 1})
    with recording.recording(recorder):
        getting = explorer.compile(lambda x, counts: x + counts.get("a", 5))
        getting(torch.ones(2), collections.defaultdict(int, {"a": 3}))
        getting(torch.ones(2), counts)
    assert dict(counts) == {"b": 1}
    assert any(isinstance(event, GuardFailed) for run in recorder.compiles for event in run.events)


def test_a_long_run_is_cut_and_counted(monkeypatch) -> None:
    monkeypatch.setattr(EvaluatorSteps, "CAP", 10)
    (compile,) = explorer.explore(collected, time=False)(torch.ones(3)).data.compiles
    assert len(compile.steps) == 10
    assert compile.left_out["EvaluatorStep"] > 10


def test_nothing_is_described_where_nobody_records(monkeypatch) -> None:
    from explorer.compiler.capture.tracer import StepRecorder

    def refuse(*args: object) -> None:
        raise AssertionError("described a step")

    assert recording.recorder() is None
    monkeypatch.setattr(StepRecorder, "note", refuse)
    x = torch.ones(3)
    assert torch.equal(explorer.compile(collected)(x), collected(x))


def test_the_last_step_is_the_break_also_where_an_inlined_function_breaks() -> None:
    def talks(x: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        print("a break")
        return y * 2

    def outer(x: torch.Tensor) -> torch.Tensor:
        return talks(x + 1).sum()

    record = explorer.explore(outer, time=False)(torch.ones(2))
    broken = [compile for compile in record.data.compiles if compile.breaks]
    assert [compile.title.rpartition(".")[2] for compile in broken] == ["outer", "talks"]
    assert all(compile.steps[-1].instruction == compile.breaks[0].instruction for compile in broken)


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = [torch.ones(2), torch.ones(2)]
        self.calls = 0

    def forward(self, x: torch.Tensor, k: int) -> torch.Tensor:
        for weight in self.weights:
            x = x * weight
            x + 1  # unused: no part of the graph
        self.calls += 1
        if x.shape[0] > k:
            x = scaled(x, k)
        print("a break")
        return x


ENGINES = pytest.mark.parametrize("engine", ["explorer", "stock"])


def counted(engine: str) -> Steps:
    record = explorer.explore(Counting(), time=False, engine=engine, dynamic=True)(torch.ones(5, 2), 3)
    return record.steps[0]


@ENGINES
def test_a_node_belongs_to_the_step_that_made_it_also_in_a_loop(engine: str) -> None:
    steps = counted(engine)
    multiplied = steps.find("node:mul depth:0")
    assert len(multiplied) == 2, "one instruction, two nodes"
    first, second = multiplied
    assert steps.compile.steps[first].instruction == steps.compile.steps[second].instruction
    for at in multiplied:
        assert [kind for kind, _ in steps[at].does].count("node") == 1
        pushed = steps[at + 1].stack[-1]
        assert "mul" in pushed.text and pushed.step == at


@ENGINES
def test_a_value_that_is_loaded_again_comes_from_where_it_was_made(engine: str) -> None:
    steps = counted(engine)
    (made, *_) = steps.find("node:mul")
    (bound, *_) = [at for at in steps.find("op:STORE_FAST") if at > made]
    assert steps[bound + 1].locals["x"].step == made, "storing is no making"
    loaded = next(at for at in range(bound + 1, len(steps)) if steps[at].stack and steps[at].stack[-1].step == made)
    assert steps[loaded].stack[-1] == steps[bound + 1].locals["x"]


def test_guards_effects_and_symbols_belong_to_the_steps_that_made_them() -> None:
    steps = counted("explorer")
    compile = steps.compile
    for guard in compile.guards:
        if guard.step >= 0:
            assert compile.steps[guard.step].instruction == guard.cause, guard.expression
    asked = [guard for guard in compile.guards if not guard.cause.startswith("synthetic:")]
    assert asked and all(guard.step >= 0 for guard in asked)
    items = [guard.step for guard in compile.guards if "weights[" in guard.expression and guard.property == "tensor"]
    assert len(items) == len(set(items)) == 2, "read by one instruction in two rounds of a loop"
    (effect,) = compile.effects
    assert steps[effect.step].op == "STORE_ATTR calls"
    assert compile.symbols and all(symbol.step >= 0 for symbol in compile.symbols)
    assert [compile.steps[b.step].instruction for b in compile.breaks] == [b.instruction for b in compile.breaks]


@ENGINES
def test_moves_go_by_line_over_calls_out_of_them_and_back(engine: str) -> None:
    steps = counted(engine)
    start = steps.find("attempt=2 depth=0")[0] if steps.find("attempt:2") else 0

    def walked(to: str, at: int, back: bool = False) -> list[int]:
        found = []
        while (at := steps.move(at, to, back)) is not None:
            found.append(at)
        return found

    lines = walked("line", start)
    depths = [len(steps[at].calls) for at in lines]
    assert set(depths) == {1, 2}, "a line of a called function is a line"
    over = walked("over", start)
    assert all(len(steps[at].calls) == 1 for at in over)
    places = [steps[at].span.line for at in over]
    assert all(a != b for a, b in zip(places, places[1:], strict=False))
    assert set(walked("over", over[-1], back=True)) >= set(over[:-1]), "back by the same stops"
    inside = steps.find("depth:1")[-1]
    outside = steps.move(inside, "out")
    assert outside is not None and len(steps[outside].calls) == 1 and outside == inside + 1
    assert steps.move(0, "out", back=True) is None and steps.move(len(steps) - 1, "instruction") is None


def test_queries_find_steps_by_what_they_hold_and_make() -> None:
    steps = counted("explorer")
    assert steps.find("break:") == [len(steps) - 1]
    assert steps.find("guard:") == sorted({guard.step for guard in steps.compile.guards if guard.step >= 0})
    assert {(steps[at].op, len(steps[at].calls)) for at in steps.find("op=RETURN_VALUE")} == {("RETURN_VALUE", 2)}
    assert steps.find("op=RETURN_VALUE depth>0") == steps.find("op=RETURN_VALUE")
    assert all(steps[at].stack[-1].text.startswith("tensor") for at in steps.find("top:tensor"))
    assert steps.find("top:tensor") and steps.find('local:"k = "')
    every = steps.find("step>-1")
    assert every == list(range(len(steps)))
    assert [state for state in steps] == [steps[at] for at in every], "by one walk as one by one"
    wrong = {"gurd:": "expected one of", "depth>x": "expected a number", "op>3": "not a number", " ": "empty"}
    for query, said in wrong.items():
        with pytest.raises(ValueError, match=said):
            steps.find(query)


def test_a_break_says_what_goes_on_and_with_what() -> None:
    steps = counted("explorer")
    said = steps.text(len(steps) - 1)
    assert "this step: break call of print" in said
    assert "continues in" in said and "which gets x" in said


def test_a_record_from_a_file_has_its_steps(tmp_path) -> None:
    record = explorer.explore(collected, time=False)(torch.ones(3))
    loaded = explorer.Record.load(record.save(tmp_path / "a.explore.json.gz"))
    assert [repr(loaded.steps), loaded.steps[0].text(9)] == [repr(record.steps), record.steps[0].text(9)]
    assert "5 nodes" in repr(loaded.steps)


def test_two_captures_of_an_edited_function_differ_by_what_the_edit_did() -> None:
    def before(x: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        print("a break")
        return y + 1

    def after(x: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        y = y * 2
        return y + 1

    after.__qualname__ = before.__qualname__
    after.__code__ = after.__code__.replace(co_qualname=before.__code__.co_qualname)
    one, other = (explorer.explore(each, time=False)(torch.ones(2)).steps[0] for each in (before, after))
    name = before.__qualname__
    changes = one.diff(other)
    assert f"- break in {name} line 3: call of print" in changes
    assert [line for line in changes if " node " in line] == [
        f"+ node in {name} line 3: mul = operator.mul f32[2]", f"+ node in {name} line 4: add = operator.add f32[2]",
    ]  # fmt: skip
    assert not any("relu" in line for line in changes) and one.diff(one) == []


def test_an_older_record_loads_without_its_steps(tmp_path: Path) -> None:
    record = explorer.explore(lambda x: x * 2, time=False)(torch.ones(3))
    old = json.loads(msgspec.json.encode(record.data))
    for compile in old["compiles"]:
        compile["steps"] = [["f0@1", 0, 0, 0, ["x"], {"x": "a tensor"}] for _ in compile.pop("trace")]
    (tmp_path / "old.explore.json").write_text(json.dumps(old))
    loaded = Record.load(tmp_path / "old.explore.json")
    assert not loaded.data.compiles[0].steps and loaded.data.compiles[0].guards == record.data.compiles[0].guards
