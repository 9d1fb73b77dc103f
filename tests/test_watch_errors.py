"""Errors of a watched program, of its compiler and of an exploration: whose they are, and at which line."""

import linecache
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo

import explorer
from explorer.records.stock import observation
from watched import HOLDER, X, attribute, break_inside, of_wrong_shape

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def test_the_error_of_the_program_goes_on_and_is_noted() -> None:
    log = explorer.watch("failing")
    with pytest.raises(KeyError, match="'of the program'"), log:
        raise KeyError("of the program")
    assert "The program ended with KeyError: 'of the program'" in repr(log)


def specializing(graph, inputs):
    """A backend that fixes what the graph left open."""
    for each in inputs:
        if isinstance(each, torch.SymInt):
            int(each)
        elif isinstance(each, torch.Tensor):
            list(map(int, each.shape))
    return graph.forward


def calls_twice(x, n):
    return torch.relu(x * n + 1).sum(0)


@pytest.mark.parametrize(
    ("function", "compiled_by"),
    [*product([calls_twice, break_inside, attribute], ["eager", specializing]), (calls_twice, "inductor")],
)
def test_what_is_put_into_words_later_reads_as_if_it_were_at_once(
    function: Callable[..., Any], compiled_by: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen() -> str:
        torch._dynamo.reset()
        HOLDER.step = 7
        compiled = torch.compile(function, backend=compiled_by, dynamic=True)
        with explorer.watch() as log, torch._inductor.config.patch(force_disable_caches=True):
            compiled(X.clone(), 2)
            HOLDER.step = 8
            compiled(torch.ones(5, 8), 3)
        torch._dynamo.reset()
        compiles = log.record.data.compiles
        stages = [(each.id, at) for each in compiles for at in each.stages]
        fresh = "generate", "build"  # which number and name what they make anew each time
        found: list[Any] = [(id, at.name, at.body, at.graph) for id, at in stages if at.name not in fresh]
        found += [(each.id, each.guards, each.codes, each.recompiles) for each in compiles]
        return re.sub(r"__(compiled_fn|resume_at)_\w+", r"\1", repr(found))  # which torch names anew each time

    later = seen()
    monkeypatch.setattr(observation.Compile, "later", lambda self, target, work: work())
    at_once = seen()
    assert later == at_once
    assert "'capture'" in later
    assert compiled_by != "inductor" or "origins=('fx.mul',)" in later


def test_lines_are_those_that_ran_though_the_file_has_changed_since(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("def scaled(x):\n    return x * 2  # as it ran\n")
    held: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), held)
    compiled = torch.compile(held["scaled"], backend="eager")
    with explorer.watch() as log:
        compiled(X)
    file.write_text("def other(x):\n    return 0\n")
    linecache.checkcache()
    (source,) = log.record.data.sources
    assert "as it ran" in source.text


@torch.library.custom_op("explorer_watch::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def prints(x):
    print("x")
    return x + 1


def without_fake(x):
    return no_fake(x) * 2


def unbacked(x):
    n = x.sum().to(torch.int64).item()
    return torch.zeros(4) if n > 3 else x


def specializes(x):
    return x.view(4, 8) * 2


def failing_backend(graph, inputs):
    raise ValueError("of the backend")


def marked() -> torch.Tensor:
    x = torch.ones(4, 8)
    torch._dynamo.mark_dynamic(x, 0)
    return x


FAILURES = {
    # name: (function, argument, arguments of torch.compile, words of torch's explanation, whether its line is told)
    "fullgraph": (prints, X, {"fullgraph": True}, "Avoid calling builtin `print`", True),
    "shape": (of_wrong_shape, X, {}, "[4, 8] X [4, 8]", True),
    "no fake implementation": (without_fake, X, {}, "no fake impl registered", True),
    "unbacked symbol": (unbacked, X, {"fullgraph": True}, "data-dependent", True),
    "mark_dynamic": (specializes, marked, {}, "specialized it to be a constant", True),
    "backend": (attribute, X, {"backend": failing_backend}, "of the backend", False),
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("how", ["explored", "watched"])
def test_an_error_is_reported_whole_with_the_users_line(name: str, how: str) -> None:
    function, given, arguments, words, has_line = FAILURES[name]
    x = given() if callable(given) and not isinstance(given, torch.Tensor) else given
    wanted = {"backend": "eager", **arguments}
    args = (x, None) if function is attribute else (x,)
    with torch._dynamo.config.patch(capture_scalar_outputs=name == "unbacked symbol"):
        if how == "explored":
            try:
                record = explorer.explore(function, engine="stock", stock=wanted, time=False)(*args)
            except RuntimeError as error:  # the function raises in eager too
                assert name == "shape"
                record = error.explored
            assert words in record.data.error
        else:
            compiled = torch.compile(function, **wanted)
            with explorer.watch() as log, pytest.raises(Exception) as raised:
                compiled(*args)
            record = log.record
            assert str(raised.value).strip().splitlines()[0] in record.errors[0].message
    (told,) = record.errors
    assert told.raises and words in told.message, told
    assert words in repr(record) and words in record.text() and words in repr(record.errors)
    assert "runs eagerly" not in repr(record)
    if has_line:
        first = function.__code__.co_firstlineno
        assert told.span is not None and told.span.file == function.__code__.co_filename
        assert first <= told.span.line <= first + 4


def raises_after(x):
    x.sin()
    raise KeyError("of the program")


@pytest.mark.parametrize("engine", ["explorer", "stock", "both"])
@pytest.mark.parametrize("function, kind", [(of_wrong_shape, RuntimeError), (raises_after, KeyError)])
def test_a_failed_exploration_says_that_the_program_raises_in_eager_too(
    function: Callable[..., Any], kind: type[Exception], engine: str
) -> None:
    stock = None if engine == "explorer" else {"backend": "eager"}
    with pytest.raises(kind) as raised:
        explorer.explore(function, engine=engine, stock=stock, time=False)(X)
    record = raised.value.explored
    assert f"The program raises in eager too: {kind.__name__}: " in repr(record)
    assert "The program raises in eager too" in record.text()


def test_an_error_of_the_compiler_is_distinguished_from_the_programs() -> None:
    record = explorer.explore(prints, engine="stock", stock={"backend": "eager", "fullgraph": True}, time=False)(X)
    assert record.data.error
    assert "In eager the program does not raise" in repr(record)


def test_ours_says_what_fullgraph_refuses_and_does_not_raise() -> None:
    for engine in ("explorer", "both"):
        record = explorer.explore(prints, engine=engine, fullgraph=True, time=False)(X)
        assert "call of print" in record.errors[0].message
        assert record.errors[0].raises
        assert "FullGraphError" in record.data.error or engine == "both"


def test_an_error_of_the_running_program_is_the_programs() -> None:
    def fails(x):
        torch._dynamo.graph_break()
        raise LookupError("of the program")

    with pytest.raises(LookupError, match="of the program"):
        explorer.explore(fails, engine="stock", stock={"backend": "eager"}, time=False)(X)
