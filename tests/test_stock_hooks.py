"""What watching stock leaves behind: nothing, also after an error or an interrupt, nested, and in threads."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
import torch._inductor.compile_fx
import torch._inductor.config as inductor_config
from torch import Tensor, nn
from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo import pgo

import explorer.records.stock.run as run_module
from explorer.records.check.trial import Trial
from explorer.records.stock import hook
from explorer.records.stock.hook import Call, Hook, Patch, located, watching
from explorer.records.stock.observation import Observation
from explorer.records.stock.run import HOOKS, stock_run
from stock_compiling import nothing_built

EAGER = {"backend": "eager"}
WATCHES = [(hook, watch) for hook in HOOKS for watch in hook.patches]


def small(x: Tensor) -> Tensor:
    return torch.relu(x * 2 + 1)


def broken(x: Tensor) -> Tensor:
    y = x * 2
    print(y)
    return y.sin()


def reaching(x: Tensor) -> Tensor:
    """Reaches most hooks: a library call, a break, loops that fuse, a backward."""
    y = x @ x
    print(y)
    return torch.softmax(y.sin(), -1)


@pytest.fixture(autouse=True)
def everything_is_put_back() -> Iterator[None]:
    before = state_of_torch()
    yield
    assert state_of_torch() == before
    assert not hook._installed.places and hook._installed.users == 0 and not hook._of_compile


def state_of_torch() -> dict[str, Any]:
    """Each watched function as it is, by identity."""
    found = {}
    for _, watch in WATCHES:
        owner, name = located(watch.target)
        found[watch.target] = vars(owner)[name]
    return found


def test_every_target_exists_in_this_torch() -> None:
    with watching(Observation(), HOOKS) as missing:
        assert missing == {}


def test_a_target_that_is_missing_is_named_and_the_rest_is_seen() -> None:
    gone = Hook(
        "gone", "nothing", "nothing", (), (Patch("torch._dynamo.symbolic_convert:Gone.step", lambda *_: iter(())),)
    )
    observation = Observation()
    with watching(observation, (gone, *HOOKS)) as missing:
        torch.compile(small, backend="eager")(torch.ones(3))
        assert list(missing) == ["torch._dynamo.symbolic_convert:Gone.step"]
    assert observation.frozen({})[0].codes


@pytest.mark.slow
@pytest.mark.parametrize("gone", HOOKS, ids=lambda each: each.name)
def test_without_a_hook_the_others_show_what_they_do(gone: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "HOOKS", tuple(each for each in HOOKS if each is not gone))
    x = torch.ones(4, 4, requires_grad=True)
    with nothing_built(), stock_run(Trial(reaching, (x,), {})) as run:
        assert run.outcome is not None, run.failure
        compiles = run.compiles({})
    torch._dynamo.reset()
    ids = [compile.id for compile in compiles]
    assert len(ids) >= 2 and len(set(ids)) == len(ids)
    assert all(compile.stages for compile in compiles)
    assert not [event for compile in compiles for event in compile.events if event.kind.startswith("Hook")]


def test_the_documents_table_is_that_of_the_hooks() -> None:
    document = (Path(__file__).parent.parent / "docs" / "stock.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in document.splitlines() if "|" in line]
    written = {row[0]: row[1:] for row in rows if row[0] in {each.name for each in HOOKS}}
    versions = next(row for row in rows if row[0] == "hook")[3:]
    assert written == {
        each.name: [each.shows, each.missing, *("ran" if version in each.checked else "" for version in versions)]
        for each in HOOKS
    }
    assert {version for each in HOOKS for version in each.checked} == set(versions)


def raising(error: type[BaseException], after: bool) -> Any:
    def around(seen: Any, call: Call) -> Iterator[None]:
        if after:
            yield
        raise error("from a hook")
        yield

    return around


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_error_in_every_hook_reaches_no_compile(after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = tuple(
        replace(each, patches=tuple(replace(watch, around=raising(RuntimeError, after)) for watch in each.patches))
        for each in HOOKS
    )
    monkeypatch.setattr(run_module, "HOOKS", hooks)
    x = torch.ones(5)
    with stock_run(Trial(small, (x,), {})) as run:
        assert run.outcome is not None
        torch.testing.assert_close(run.outcome.output["output"], small(x))
        events = [event for compile in run.compiles({}) for event in compile.events]
    assert any("from a hook" in event.fields["error"] for event in events if event.kind == "HookFailed")


@pytest.mark.slow
@pytest.mark.parametrize("target", [watch.target for _, watch in WATCHES])
def test_an_interrupt_in_a_hook_leaves_nothing_wrapped(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = []

    def interrupting(seen: Any, call: Call) -> Iterator[None]:
        reached.append(target)
        raise KeyboardInterrupt
        yield

    hooks = tuple(
        replace(
            each,
            patches=tuple(
                replace(watch, around=interrupting) if watch.target == target else watch for watch in each.patches
            ),
        )
        for each in HOOKS
    )
    monkeypatch.setattr(run_module, "HOOKS", hooks)
    try:
        with stock_run(Trial(reaching, (torch.ones(4, 4, requires_grad=True),), {})):
            pass
    except KeyboardInterrupt:
        assert reached
    else:
        assert not reached, "an interrupt was swallowed"
    finally:
        torch._dynamo.reset()


def test_an_error_of_the_program_propagates_and_leaves_nothing() -> None:
    def failing(x: Tensor) -> Tensor:
        print(x)
        raise ValueError("the program's own")

    with pytest.raises(ValueError, match="the program's own"), stock_run(Trial(failing, (torch.ones(3),), {}), EAGER):
        pass


def test_what_an_error_passes_ends_with_it() -> None:
    """Its traceback holds frames of the program: whatever keeps it keeps files open and tensors alive."""
    refs: list[weakref.ref[Any]] = []

    def raises(module: nn.Module) -> None:
        refs.append(weakref.ref(module))
        raise ValueError

    def around(told: Observation, call: Call) -> Iterator[None]:
        yield
        assert isinstance(call.error, ValueError)

    gc.disable()
    try:
        with watching(Observation(), ()), pytest.raises(ValueError):
            hook._surrounded(raises, "raises", around)(nn.Linear(2, 2))
        assert [each() for each in refs] == [None]
    finally:
        gc.enable()


def test_a_failed_compile_is_a_record_of_the_failure() -> None:
    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        raise RuntimeError("this backend fails")

    with stock_run(Trial(small, (torch.ones(3),), {}), {"backend": backend}) as run:
        assert run.outcome is None and "this backend fails" in run.failure
        (compile,) = run.compiles({})
        assert compile.error and compile.stages


def test_explorations_nest() -> None:
    inner: list[Any] = []

    @torch.compiler.disable
    def explore_another(x: Tensor) -> Tensor:
        with stock_run(Trial(small, (x.clone(),), {}), EAGER) as run:
            inner.extend(run.compiles({}))
        return x

    def outer(x: Tensor) -> Tensor:
        return explore_another(x * 3).sin()

    with stock_run(Trial(outer, (torch.ones(3),), {}), EAGER) as run:
        seen = run.compiles({})
    assert [compile.title for compile in inner] == ["small"]
    assert all("small" not in compile.title for compile in seen) and seen[0].breaks


def test_threads_see_their_own() -> None:
    found: dict[str, list[str]] = {}
    start = threading.Barrier(2)

    def explore(name: str, fn: Any) -> None:
        start.wait()
        with stock_run(Trial(fn, (torch.ones(3),), {}), EAGER) as run:
            found[name] = [compile.title for compile in run.compiles({}) if not compile.continues]

    threads = [threading.Thread(target=explore, args=pair) for pair in (("a", small), ("b", broken))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": ["small"], "b": ["broken"]}


def test_what_a_program_wraps_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that wraps the same function while it is explored keeps its wrapper, and ours under it goes quiet."""
    owner, name = located("torch._dynamo.output_graph:OutputGraph.call_user_compiler")
    original = vars(owner)[name]
    calls = []

    def wrapping(x: Tensor) -> Tensor:
        before = vars(owner)[name]

        def theirs(*args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            return before(*args, **kwargs)

        setattr(owner, name, theirs)
        return x

    with watching(Observation(), HOOKS):
        wrapping(torch.ones(1))
    try:
        assert vars(owner)[name].__name__ == "theirs"
        torch.compile(small, backend="eager")(torch.ones(4))
        assert calls == [1]
    finally:
        setattr(owner, name, original)


@pytest.mark.slow
def test_a_programs_own_passes_and_logs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    log = logging.getLogger("torch._inductor.fusion")
    handler = Handler()
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.DEBUG)
    passes = {
        "post_grad_custom_post_pass": lambda graph: ran.append("post grad"),
        "_post_fusion_custom_pass": lambda nodes: ran.append("post fusion") or nodes,
    }
    try:
        with inductor_config.patch(passes), stock_run(Trial(small, (torch.ones(7),), {})) as run:
            assert ran == ["post grad", "post fusion"]
            assert run.compiles({})[0].halves[0].kernels
            assert inductor_config.post_grad_custom_post_pass is passes["post_grad_custom_post_pass"]
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def test_the_users_compiled_function_is_as_it_was() -> None:
    """Neither its compiled code nor what Dynamo remembers of sizes changes, and it does not compile again."""
    compiles = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        compiles.append(module)
        return module.forward

    def scaled(x: Tensor) -> Tensor:
        return x * 2 + 1

    mine = torch.compile(scaled, backend=backend)
    mine(torch.ones(3))
    entries = live_entries(scaled)
    sizes = str(pgo.get_code_state())
    for size in range(4, 14):  # more often than Dynamo compiles one function
        with stock_run(Trial(scaled, (torch.ones(size),), {}), EAGER) as run:
            assert len(run.compiles({})) == 1 and run.compiles({})[0].fallback is None
            assert len(live_entries(scaled)) == len(entries) + 1
    assert live_entries(scaled) == entries
    assert str(pgo.get_code_state()) == sizes
    mine(torch.ones(3))
    assert len(compiles) == 1
    mine(torch.ones(4))
    assert len(compiles) == 2


def live_entries(fn: Any) -> list[int]:
    """Compiled code that calls of `fn` may find, by identity."""
    return [id(entry.code) for entry in _debug_get_cache_entry_list(fn.__code__) if entry.code is not None]


def test_a_function_that_was_not_compiled_is_as_new() -> None:
    def scaled(x: Tensor) -> Tensor:
        return x * 2 + 1

    with stock_run(Trial(scaled, (torch.ones(3),), {}), EAGER):
        assert len(_debug_get_cache_entry_list(scaled.__code__)) == 1
    assert not _debug_get_cache_entry_list(scaled.__code__)


def test_a_frame_left_to_python_is_compiled_again_afterwards() -> None:
    """Dynamo marks a frame that it gives up for good; after the exploration it may try again."""

    def looping(x: Tensor) -> Tensor:
        for _ in range(2):
            print(x)
        return x.sin()

    for _ in range(2):
        with stock_run(Trial(looping, (torch.ones(3),), {}), EAGER) as run:
            (compile, *_) = run.compiles({})
            assert compile.title.endswith("looping") and compile.breaks and compile.fallback is not None


def test_a_compiled_function_is_explored_with_its_own_options() -> None:
    compiled = torch.compile(small, backend="eager", fullgraph=True, dynamic=True)
    with stock_run(Trial(compiled, (torch.ones(3, 4),), {})) as run:
        assert run.trial.fn is small
        (compile,) = run.compiles({})
    assert [symbol.status for symbol in compile.symbols] == ["dynamic", "dynamic"]
    module = torch.compile(torch.nn.Linear(3, 3), backend="eager")
    with stock_run(Trial(module, (torch.ones(2, 3),), {})) as run:
        assert run.outcome is not None and len(run.compiles({})) == 1
    with pytest.raises(ValueError, match="already compiled"), stock_run(Trial(compiled, (torch.ones(3),), {}), EAGER):
        pass


@pytest.mark.slow
def test_a_warm_cache_hides_nothing_and_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def cached(x: Tensor) -> Tensor:
        return torch.sigmoid(x) * 3

    torch.compile(cached)(torch.ones(6))
    torch._dynamo.reset()
    graphs = {path: path.stat().st_mtime for path in (tmp_path / "fxgraph").rglob("*") if path.is_file()}
    assert graphs
    with stock_run(Trial(cached, (torch.ones(6),), {})) as run:
        (compile,) = run.compiles({})
    names = [stage.name for stage in compile.stages]
    assert {"capture", "trace", "lower", "schedule", "fuse", "generate", "build"} <= set(names)
    assert all(build.cached for build in compile.halves[0].builds if build.output.endswith("so"))
    assert {path: path.stat().st_mtime for path in (tmp_path / "fxgraph").rglob("*") if path.is_file()} == graphs
