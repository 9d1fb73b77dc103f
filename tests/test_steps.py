"""The recorded steps of the evaluator replay to what it held, and cost no more than they may."""

import torch

import explorer
from explorer.core import recorder as recording
from explorer.ir.attempt import EvaluatorStep
from explorer.ir.record import CompileData

State = tuple[list[str], dict[str, str]]


def replayed(compile: CompileData) -> list[tuple[str, int, list[str], dict[str, str]]]:
    """(instruction, nodes, stack, locals) of each step, as the record's definition of a step says."""
    states: dict[int, State] = {}
    found = []
    for step in compile.steps:
        stack, locals = states.setdefault(step.activation, ([], {}))
        del stack[step.kept :]
        stack += step.pushed
        for name, text in step.locals.items():
            locals.pop(name, None)
            if text:
                locals[name] = text
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


def test_a_long_run_is_cut_and_counted(monkeypatch) -> None:
    monkeypatch.setattr(EvaluatorStep, "CAP", 10)
    (compile,) = explorer.explore(collected, time=False)(torch.ones(3)).data.compiles
    assert len(compile.steps) == 10
    assert compile.left_out["EvaluatorStep"] > 10


def test_nothing_is_described_where_nobody_records(monkeypatch) -> None:
    from explorer.compiler.capture import steps, tracer

    def refuse(*args: object) -> None:
        raise AssertionError("described a step")

    assert recording.recorder() is None
    monkeypatch.setattr(tracer, "note_step", refuse)
    assert steps.note_step is not refuse
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
