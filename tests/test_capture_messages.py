# ruff: noqa: B028
"""Warnings and log lines of compiled code are those of eager: their text, their category, their place, their order."""

from __future__ import annotations

import io
import logging
import logging.handlers
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explorer
from capturing import compiled

LOGGER = logging.getLogger("explorer.tests.messages")


@contextmanager
def heard() -> Iterator[list[tuple[Any, ...]]]:
    """What is logged inside: (name, level, text, file, line, function). The handler is no code of the program's."""
    found: list[tuple[Any, ...]] = []
    handler = BufferingHandler(capacity=1_000)
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield found
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(logging.NOTSET)
        found += [(r.name, r.levelno, r.getMessage(), r.pathname, r.lineno, r.funcName) for r in handler.buffer]


def told(call: Callable[[], Any]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The warnings (without the caller's line) and the log lines of a call."""
    with warnings.catch_warnings(record=True) as caught, heard() as lines:
        warnings.simplefilter("always")
        call()
    return [(str(w.message), w.category, w.filename, w.lineno) for w in caught], lines


def warns(x: Tensor) -> Tensor:
    warnings.warn("plain")
    y = x + 1
    warnings.warn(f"of {x.shape[0]} rows", DeprecationWarning)
    return y * 2


def deprecated(name: str) -> None:
    warnings.warn(f"{name} is old", FutureWarning, stacklevel=2)


def calls_deprecated(x: Tensor) -> Tensor:
    deprecated("this")
    warnings.warn(ResourceWarning("an instance"))
    return x.sin()


def warns_its_caller(x: Tensor) -> Tensor:
    warnings.warn("for the caller", stacklevel=2)
    return x.cos()


def logs(x: Tensor) -> Tensor:
    LOGGER.info("sizes %s and %d", x.shape, x.dim())
    y = x * 2
    LOGGER.debug("never shown %s", y)
    if LOGGER.isEnabledFor(logging.WARNING):
        LOGGER.log(logging.ERROR, "an error")
    LOGGER.warning("last")
    return y


def nested(x: Tensor) -> Tensor:
    def inner(y: Tensor) -> Tensor:
        LOGGER.error("inside")
        return y - 1

    return inner(x) + 1


class Complains(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        warnings.warn("in forward")
        LOGGER.warning("of %s", type(self).__name__)
        return x.relu()


SAYING = [warns, calls_deprecated, logs, nested, Complains()]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("fn", SAYING, ids=lambda fn: getattr(fn, "__name__", type(fn).__name__))
def test_like_eager_without_a_break(fn: Callable[[Tensor], Tensor], dynamic: bool | None) -> None:
    run, captures = compiled(fn, fullgraph=True, dynamic=dynamic)
    for rows in (3, 3, 5):
        x = torch.randn(rows, 2)
        expected = told(lambda x=x: fn(x))
        assert any(expected)
        assert told(lambda x=x: run(x)) == expected
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.equal(run(x), fn(x))
    assert captures.breaks == []


def test_a_warning_for_the_caller_names_the_caller() -> None:
    run, _ = compiled(warns_its_caller)
    x = torch.ones(2)
    eager, first, second = (told(lambda fn=fn: fn(x))[0] for fn in (warns_its_caller, run, run))
    assert eager == first == second and eager[0][2] == __file__


def test_a_place_warns_once_by_default() -> None:
    def again(x: Tensor) -> Tensor:
        warnings.warn("only once")
        return x + 1

    run, _ = compiled(again)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            run(torch.ones(2))
    assert len(caught) == 1


def test_a_warning_made_an_error_is_raised() -> None:
    run, _ = compiled(warns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="plain"):
            run(torch.ones(2))


def test_order_and_filters() -> None:
    def changes_filters(x: Tensor) -> Tensor:
        LOGGER.info("first")
        warnings.simplefilter("ignore")
        warnings.warn("unheard")
        LOGGER.info("second")
        return x + 1

    run, captures = compiled(changes_filters, fullgraph=True)
    x = torch.ones(2)
    assert told(lambda: run(x)) == told(lambda: changes_filters(x)) != ([], [])
    effects = [effect.text for effect in captures.made[0].effects]
    assert effects[1:3] == ["call warnings.simplefilter('ignore')", "call warnings.warn('unheard')"]
    with warnings.catch_warnings():
        run(x)
        assert warnings.filters[0][0] == "ignore"


def test_a_level_that_changes_is_noticed() -> None:
    def quiet(x: Tensor) -> Tensor:
        LOGGER.debug("loud now %s", x.dim())
        return x + 1

    run, captures = compiled(quiet)
    x = torch.ones(2)
    assert told(lambda: run(x)) == ([], []) == told(lambda: run(x))
    with heard() as lines:
        LOGGER.setLevel(logging.DEBUG)
        run(x)
        quiet(x)
    assert len(lines) == 2 and lines[0] == lines[1]


def test_what_is_not_known_yet_breaks() -> None:
    def shows_values(x: Tensor) -> Tensor:
        y = x + 1
        LOGGER.info("sum %s", y.sum())
        warnings.warn(f"mean {y.mean()}")
        return y * 2

    run, captures = compiled(shows_values)
    x = torch.ones(3)
    assert told(lambda: run(x)) == told(lambda: shows_values(x))
    assert "a log line of explorer.tests.messages" in captures.made[0].breaks[0].text
    assert captures.fallbacks == []


def breaks_in_the_block(x: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(end="")
        x = x + 1
        warnings.warn("unheard")
        print(end="")
    return x


def records(x: Tensor) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        print(end="")
        warnings.warn("kept")
        count = len(caught)
        x = x + count
    return x, count, [str(each.message) for each in caught]


def handles_what_a_filter_raises(x: Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            print(end="")
            warnings.warn("raised")
        except UserWarning as error:
            return x * 2, str(error)
    return x


@pytest.mark.parametrize("fn", [breaks_in_the_block, records, handles_what_a_filter_raises])
def test_blocks_of_filters_around_breaks(fn: Callable[[Tensor], Any]) -> None:
    run, _ = compiled(fn)
    before = list(warnings.filters)
    for _ in range(2):
        assert repr(run(torch.ones(2))) == repr(fn(torch.ones(2)))
        assert list(warnings.filters) == before


class Counts(logging.Handler):
    def __init__(self, counted: list[int]) -> None:
        super().__init__()
        self.counted = counted

    def emit(self, record: logging.LogRecord) -> None:
        self.counted.append(1)


@pytest.mark.parametrize("kind", ["handler", "filter", "formatter", "showwarning", "showwarning set in the call"])
def test_what_the_programs_own_code_does_with_a_message_is_seen_after_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    logger = logging.Logger("explorer.tests.own")
    handler = Counts(counted) if kind == "handler" else logging.NullHandler()
    if kind == "filter":
        logger.addFilter(lambda record: counted.append(1) or True)
    if kind == "formatter":
        handler = logging.StreamHandler(io.StringIO())
        handler.setFormatter(type("Own", (logging.Formatter,), {"format": lambda self, r: counted.append(1) or ""})())
    logger.addHandler(handler)

    def show(*_: object) -> None:
        counted.append(1)

    monkeypatch.setattr(warnings, "showwarning", show if kind == "showwarning" else warnings.showwarning)

    def logged(x: Tensor) -> Tensor:
        logger.error("a line")
        return x * len(counted)

    def warned(x: Tensor) -> Tensor:
        if kind == "showwarning set in the call":
            warnings.showwarning = show
        warnings.warn("a line")
        return x * len(counted)

    program = warned if kind.startswith("showwarning") else logged
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert explorer.compile(program)(torch.ones(1)).item() == 1
    assert counted == [1]


def test_who_takes_messages_from_later_calls_on_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    logger = logging.Logger("explorer.tests.later")
    logger.addHandler(logging.NullHandler())

    def logged(x: Tensor) -> Tensor:
        logger.error("a line")
        return x * len(counted)

    def warned(x: Tensor) -> Tensor:
        try:
            warnings.warn("a line")
        except UserWarning:
            return x * 10
        return x * len(counted)

    compiled, about_warnings = explorer.compile(logged), explorer.compile(warned)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert (compiled(torch.ones(1)) + about_warnings(torch.ones(1))).item() == 0
        logger.addHandler(Counts(counted))
        monkeypatch.setattr(warnings, "showwarning", lambda *_: counted.append(1))
        assert [compiled(torch.ones(1)).item(), about_warnings(torch.ones(1)).item()] == [1, 2]
        warnings.simplefilter("error")
        assert about_warnings(torch.ones(1)).item() == 10
    logger.handlers.pop()
    assert compiled(torch.ones(1)).item() == 2


def test_a_method_that_the_program_puts_into_a_library_class_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    logger = logging.Logger("explorer.tests.patched")
    logger.addHandler(logging.handlers.BufferingHandler(100))

    def logged(x: Tensor) -> Tensor:
        logger.error("a line")
        return x * len(counted)

    compiled = explorer.compile(logged)
    assert compiled(torch.ones(1)).item() == 0
    monkeypatch.setattr(logging.handlers.BufferingHandler, "emit", lambda self, record: counted.append(1))
    assert [compiled(torch.ones(1)).item() for _ in range(2)] == [1, 2]
