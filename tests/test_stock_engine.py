"""What a record of stock torch.compile holds, and that it is what stock did."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import explorer
from benchmarks.provenance import unsourced
from explorer import Record
from explorer.ir.record import CompileData, HalfData, StageData
from explorer.records.check.trial import Trial
from explorer.records.data.provenance import Provenance, provenance
from explorer.records.exploration import STANCE
from explorer.records.stock.frames import GENERATES
from explorer.records.stock.run import stock_run
from explorer.show.view import html
from stock_compiling import generated, inference, nothing_built

SCALE = 3.0
HERE = __file__


def block(x: Tensor, w: Tensor) -> Tensor:
    hidden = torch.tanh(x @ w)
    scaled = hidden * SCALE
    return torch.softmax(scaled, -1)


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(8, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True)


def line_of(fn: Callable[..., Any], text: str) -> str:
    """ "FILE:LINE" of the one line of `fn` that holds `text`."""
    lines, first = inspect.getsourcelines(fn)
    (found,) = [number for number, line in enumerate(lines, first) if text in line]
    return f"{HERE}:{found}"


@pytest.fixture(scope="module")
def both() -> Record:
    """Ours and stock's compiles of one training step, built and run."""
    return explorer.explore(block, engine="both")(*inputs())


@pytest.fixture(scope="module")
def stock(both: Record) -> CompileData:
    (made,) = [compile for compile in both.data.compiles if compile.engine == "stock"]
    return made


@pytest.fixture(scope="module")
def links(stock: CompileData) -> Provenance:
    return provenance(stock)


def stage(compile: CompileData, name: str) -> StageData:
    (found,) = [each for each in compile.stages if each.name == name]
    return found


# ------------------------------------------------------------------------------------------------------- what is there


def test_both_engines_stand_in_one_record(both: Record) -> None:
    assert [(compile.id, compile.engine) for compile in both.data.compiles] == [("f0", "explorer"), ("s0", "stock")]
    assert both.data.engine == "explorer and stock"
    assert not any(compile.error for compile in both.data.compiles)


def test_three_contestants_ran_in_turn(both: Record) -> None:
    timing = both.data.timing
    assert timing is not None
    assert [each.name for each in timing.contestants] == ["eager", "explorer", "stock"]
    counts = {len(each.samples) for each in timing.contestants}
    assert len(counts) == 1 and counts.pop() > 3
    assert all(each.median > 0 for each in timing.contestants)
    compiled = {each.name: each.compile_seconds for each in timing.contestants}
    assert compiled["stock"] and compiled["explorer"] and compiled["eager"] is None


def test_every_stage_is_there(stock: CompileData) -> None:
    names = [(each.name, each.half) for each in stock.stages]
    above = [(name, "") for name in ("bytecode", "capture", "trace", "partition")]
    below = [
        (name, half)
        for half in ("s0_forward", "s0_backward")
        for name in ("inductor's input", "lower", "schedule", "fuse", "generate", "build")
    ]
    assert [each for each in names if each in (*above, *below)] == [*above, *below]
    assert all(each.seconds >= 0 for each in stock.stages)
    assert [half.name for half in stock.halves] == ["s0_forward", "s0_backward"]
    for half in stock.halves:
        assert half.buffers and half.operations and half.kernels and half.wrapper and half.target == "cpu"
        assert half.schedule and half.schedule.items and half.schedule.fusions
    assert not [event for event in stock.events if event.kind.startswith("Hook")]


def test_captured_nodes_lead_to_their_instructions(stock: CompileData) -> None:
    graph = stage(stock, "capture").graph
    assert graph is not None
    made = {node.target: node for node in graph.nodes}
    instructions = {each.id: each for code in stock.codes for each in code.instructions}
    for target, op, text in (
        ("operator.matmul", "BINARY_OP", "hidden ="),
        ("torch.tanh", "CALL", "hidden ="),
        ("torch.softmax", "CALL", "return"),
    ):
        (origin,) = made[target].origins
        assert instructions[origin].op == op
        assert instructions[origin].origins == (line_of(block, text),)
    roles = [code.role for code in stock.codes]
    assert roles == ["original", "rewritten"]


def test_the_joint_graph_and_its_halves(stock: CompileData) -> None:
    joint, parts = stage(stock, "trace").graph, stage(stock, "partition").halves
    assert joint is not None
    assert [part.name for part in parts] == ["s0_forward", "s0_backward"]
    targets = {node.target for node in joint.nodes}
    assert {"aten.mm.default", "aten.tanh.default"} <= targets
    kept = {each.id: each.kind for each in stock.saved}
    assert kept["aten.mm"] == "saved" and kept["aten.tanh"] == "recomputed"


def test_guards_say_which_line_made_them(stock: CompileData) -> None:
    (scale,) = [guard for guard in stock.guards if "SCALE" in guard.source and guard.constant is not None]
    assert scale.span is not None and f"{scale.span.file}:{scale.span.line}" == line_of(block, "scaled =")
    tensors = {guard.source: guard.tensor for guard in stock.guards if guard.property == "tensor"}
    x, w = tensors["L['x']"], tensors["L['w']"]
    assert x is not None and x.sizes == (8, 16) and x.requires_grad and w is not None and w.sizes == (16, 16)


def test_what_a_failing_guard_would_say_of_other_values(stock: CompileData) -> None:
    (facts,) = [guard.tensor for guard in stock.guards if guard.source == "L['x']" and guard.tensor is not None]
    other = type(facts)("float64", "cpu", (8, 17), (17, 1), True)
    assert facts.differences(other) == ["dtype is float64, expected float32", "size(1) is 17, expected 16"]


def test_compile_time_names_the_builds(stock: CompileData) -> None:
    assert all(each.seconds > 0 for each in stock.stages if each.name == "build")
    built = [build for half in stock.halves for build in half.builds]
    assert built and all(build.cached or build.seconds > 0 for build in built)
    assert sum(build.seconds for build in built) <= stock.seconds * 4  # several at once, on their own threads


# ----------------------------------------------------------------------------------------------- as stock generates it


def generated_code(fn: Callable[..., Any], *args: Any) -> list[str]:
    """The modules that stock writes for `fn` when nobody watches."""
    torch._dynamo.reset()
    with nothing_built() as modules:
        torch.compile(fn)(*args)
    torch._dynamo.reset()
    return modules


def test_watched_code_is_the_code_of_the_unwatched_compile() -> None:
    args = tuple(each.detach() for each in inputs())
    (module,) = generated_code(block, *args)
    (half,) = generated(block, *args).halves
    assert half.wrapper is not None
    shown = [*half.wrapper.lines, *(line for kernel in half.kernels for line in kernel.source.lines)]
    texts = {line.text for line in shown}
    wanted = [line for line in module.splitlines() if not line.startswith(("# AOT ID", "# Topologically"))]
    # A kernel's source stands between the quotes of its line in the module.
    between = [line for line in wanted if line and line not in texts and "'''" not in line]
    assert between == []


# ----------------------------------------------------------------------------------------------------------- the links


def test_every_generated_line_has_a_cause(stock: CompileData) -> None:
    total, reasons = unsourced(stock)
    assert total > 100
    assert "no cause" not in reasons
    assert set(reasons) <= {"stock's wrapper", "stock's frame of a kernel", "gradient of an output"}


def test_kernels_lead_to_the_lines_that_they_compute(stock: CompileData, links: Provenance) -> None:
    forward, backward = stock.halves
    for half in (forward, backward):
        lines = {source for kernel in half.kernels for source in links.source_lines(kernel.id)}
        assert line_of(block, "hidden =") in lines and line_of(block, "return") in lines


def test_a_kernel_moves_each_place_that_it_reads_or_writes_once() -> None:
    table, where, x = torch.ones(1000, 16), torch.tensor([1, 5, 5]), torch.ones(32, 16)

    def moved(fn: Callable[..., Tensor], *args: Tensor) -> int:
        return sum(kernel.bytes for kernel in inference(fn, *args).kernels)

    assert moved(lambda a, b: torch.sin(a + b) * a, x, x + 1) == 3 * 32 * 16 * 4
    assert moved(lambda a: a[4:8] + 1, x) == 2 * 4 * 16 * 4
    assert moved(lambda a, b: a + b, x, x[0]) == (32 * 16 * 2 + 16) * 4
    assert moved(lambda a: a.sum(1), x) == (32 * 16 + 32) * 4
    assert moved(lambda a, i: a[i] + 1, table, where) == 2 * 3 * 16 * 4 + 3 * 8


def changed_lines(before: HalfData, after: HalfData) -> Iterator[str]:
    """Ids of the lines of kernels whose text is another."""
    for old, new in zip(before.kernels, after.kernels, strict=True):
        for was, now in zip(old.source.lines, new.source.lines, strict=True):
            if was.text != now.text:
                yield now.id


def constants(first: float, second: float, third: float) -> Callable[[Tensor, Tensor], Tensor]:
    def fn(x: Tensor, y: Tensor) -> Tensor:
        a = torch.sin(x) * first
        b = torch.cos(y) + second
        c = torch.exp(a - b)
        return torch.sigmoid(c - third)

    return fn


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_the_lines_that_a_constant_changes_lead_to_its_line(changed: int) -> None:
    values = [1.5, 2.5, 3.5]
    args = torch.ones(64), torch.ones(64)
    (before,) = generated(constants(*values), *args).halves
    values[changed] = 7.25
    compile = generated(constants(*values), *args)
    (after,) = compile.halves
    wanted = line_of(constants, ("a = ", "b = ", "return torch")[changed])
    chain = provenance(compile)
    found = list(changed_lines(before, after))
    assert found
    assert all(chain.source_lines(line) == {wanted} for line in found)


# ------------------------------------------------------------------------------------------------ sizes and recompiles


def called_twice(x: Tensor) -> Tensor:
    print(x.shape[0])
    y = scaled(x)
    return y + scaled(torch.cat((x, x))).sum()


def scaled(x: Tensor) -> Tensor:
    torch._dynamo.graph_break()
    return x * x.shape[0]


def test_a_frame_compiled_again_says_which_guard_failed_and_what_became_of_its_size() -> None:
    with stock_run(Trial(called_twice, (torch.ones(6),), {}), {"backend": "eager"}) as run:
        compiles = run.compiles({})
    again = [compile for compile in compiles if compile.recompiles]
    assert again
    for compile in again:
        frame, _, attempt = compile.id.partition(".")
        assert attempt == "1"
        for recompile in compile.recompiles:
            assert recompile.of == frame
            earlier = next(each for each in compiles if each.id == frame)
            assert recompile.guard in {guard.id for guard in earlier.guards}
            assert "6" in recompile.why and "12" in recompile.why
    (size,) = again[-1].symbols
    assert size.status == "dynamic" and size.hint == 12


def branches_on_size(x: Tensor) -> Tensor:
    if x.shape[0] == 6:
        return x + 1
    return x


@pytest.mark.parametrize("how", [dict(), dict(dynamic=True), dict(mode="default")])
@pytest.mark.parametrize("engine", ["explorer", "stock", "both"])
def test_a_compiled_function_is_explored_as_itself_each_time(how: dict[str, Any], engine: str) -> None:
    compiled = torch.compile(lambda x: (x * 2).relu(), backend="eager", **how)
    compiled(torch.ones(7))
    for _ in range(2):
        record = explorer.explore(compiled, engine=engine, time=False)(torch.ones(7))
        assert all(any(stage.name == "capture" for stage in each.stages) for each in record.data.compiles)
        assert not record.recompiles and not record.breaks and "no operations" not in str(record)


def test_parameters_of_a_compiled_module_have_their_own_names() -> None:
    module = torch.compile(torch.nn.Linear(3, 2), backend="eager")
    accuracy = explorer.explore(module, time=False)(torch.ones(4, 3)).data.timing.accuracy
    assert not accuracy.first_mismatch


def test_a_size_that_is_specialised_says_where() -> None:
    with stock_run(Trial(branches_on_size, (torch.ones(6),), {}), {"backend": "eager", "dynamic": True}) as run:
        (compile,) = run.compiles({})
    (size,) = compile.symbols
    assert size.status == "specialized" and size.hint == 6
    assert f"{Path(HERE).name}:{line_of(branches_on_size, 'if x.shape').rpartition(':')[2]}" in size.why


def chooses(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda v: v.sin() * 2, lambda v: v.cos(), (x,)) + 1


def test_graphs_of_higher_order_operators_are_shown() -> None:
    compile = generated(chooses, torch.randn(4))
    inner = {each.name: each for each in compile.stages if each.depth == 1}
    assert {"capture: cond_true_0", "capture: cond_false_0", "trace: true_graph_0"} <= set(inner)
    graph = inner["capture: cond_true_0"].graph
    assert graph is not None and [node.target for node in graph.nodes[1:]] == ["sin", "operator.mul"]
    assert graph.nodes[1].id == "fx.cond_true_0.sin"
    assert graph.nodes[1].origins == (line_of(chooses, "torch.cond"),)
    assert "aten.sin" in inner["trace: true_graph_0"].text()


# ----------------------------------------------------------------------------------------------- a card that is absent


def test_triton_code_for_an_absent_card() -> None:
    driver = pytest.importorskip("triton").runtime.driver
    before = driver._active
    record = explorer.explore(block, engine="stock", target="cuda:sm_90")(*inputs())
    assert driver._active is before
    (compile,) = record.data.compiles
    assert not compile.error
    for half in compile.halves:
        assert half.target == "cuda:sm_90 under CPU heuristics" and not half.runs
        assert {kernel.language for kernel in half.kernels} == {"triton"}
        assert all(any("tl.load" in line.text for line in kernel.source.lines) for kernel in half.kernels)
        assert all(kernel.seconds is None for kernel in half.kernels)
    assert "no cause" not in unsourced(compile)[1]
    assert record.data.timing is None or "stock" not in {each.name for each in record.data.timing.contestants}
    with pytest.raises(RuntimeError, match="code for cuda:sm_90 cannot run on this machine"):
        record.bisect_accuracy()


# ------------------------------------------------------------------------------------------------------- what is asked


def test_engines_are_named() -> None:
    with pytest.raises(ValueError, match="no engine 'inductor'; expected one of 'explorer', 'stock', 'both'"):
        explorer.explore(block, engine="inductor")
    with pytest.raises(ValueError, match="stock= gives arguments of torch.compile"):
        explorer.explore(block, stock={"mode": "default"})
    with pytest.raises(ValueError, match="are for this package's compiler"):
        explorer.explore(block, engine="stock", options={"x": 1})


def test_a_record_is_saved_and_shown(both: Record, tmp_path: Path) -> None:
    both.save(tmp_path / "both.json")
    assert Record.load(tmp_path / "both.json").data == both.data
    both.to_html(tmp_path / "both.html")
    assert (tmp_path / "both.html").stat().st_size > 10_000
    page = html.fragment(both.data)
    assert all(
        f"{compile.half_title(half.name)} k0" in page for compile in both.data.compiles for half in compile.halves[:1]
    )


def raises_when_it_runs(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
    def call(*given: object) -> None:
        raise RuntimeError("only compiled")

    return call


def test_what_only_a_compiled_call_raises_is_in_the_record() -> None:
    explored = explorer.explore(lambda x: x * 2, engine="stock", stock={"backend": raises_when_it_runs}, time=False)
    record = explored(torch.ones(3))
    assert record.data.error == "RuntimeError: only compiled"
    assert "In eager the program does not raise: what torch.compile made of it does." in record.data.notes


def test_what_raises_says_whose_code_it_is_beside_what_was_measured() -> None:
    log: list[int] = []

    def counting(x: torch.Tensor) -> torch.Tensor:
        log.append(1)
        return x * 2

    explored = explorer.explore(counting, engine="both", stock={"backend": raises_when_it_runs}, time=0.01)
    record = explored(torch.ones(3))
    [error] = record.errors
    assert error.raises and error.engine == "stock" and error.span is not None
    shown = repr(record)
    assert f"! stock: the program raises RuntimeError at {Path(__file__).name}" in shown
    assert "the program gets this error, compiled by stock" in shown
    assert "! explorer: the program raises" not in shown


def makes_values(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield x + 1


def test_stock_compiles_no_generator() -> None:
    record = explorer.explore(makes_values, engine="stock", time=False)(torch.ones(3))
    assert [each.why for each in record.data.eager] == [GENERATES]


def test_a_stance_of_torch_that_is_in_force_is_noted() -> None:
    with torch.compiler.set_stance("force_eager"):
        record = explorer.explore(torch.sin, engine="both", time=False)(torch.ones(3))
    assert STANCE.format("force_eager") in record.data.notes


def test_what_to_do_where_stock_finds_no_compiler_is_said() -> None:
    with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)}):
        record = explorer.explore(lambda x: x.sin() * 7, engine="stock", time=False)(torch.ones(3))
    [failed] = record.data.errors
    assert failed.raises and "InvalidCxxCompiler" in failed.message and "Hint: Install a C++ compiler" in repr(record)
