"""Makes tests/ importable (`from programs import ZOO`), seeds every test, and skips `gpu` tests where there is none."""

import gc
import logging
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
# jsonschema, which nbformat imports, makes a parser from this package's grammar, which takes seconds; it does without.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


def pytest_configure() -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", type=int, help="of each test with more cases than this, so many, evenly spread")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if most := config.getoption("--sample"):
        _sample(config, items, most)
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no GPU on this machine"))


def _sample(config: pytest.Config, items: list[pytest.Item], most: int) -> None:
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen: set[int] = set()
    for same in cases.values():
        some = min(most, len(same))
        chosen.update(id(same[at * len(same) // some]) for at in range(some))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
    items[:] = [item for item in items if id(item) in chosen]


@pytest.fixture(autouse=True, scope="session")
def unmeasured_guards() -> Iterator[None]:
    """With each compile torch empties the processor's caches to measure its guards, for its own log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch._dynamo.guards.profile_guard_manager", lambda *_: 0.0, raising=False)
        yield


def unbuildable() -> str:
    """Why stock can build no C++ on this machine, by where it looks for what it needs; "" where it can."""
    needed = (os.environ.get("CXX", "g++"), os.path.join(sysconfig.get_path("include"), "Python.h"))
    missing = [each for each in needed if shutil.which(each) is None and not os.path.exists(each)]
    return f"torch.compile cannot build C++ here: there is no {' and no '.join(missing)}" if missing else ""


@pytest.fixture(scope="session")
def stock_builds() -> None:
    """For tests that have stock build C++ in a process of their own: skipped where it cannot."""
    if unbuildable():
        pytest.skip(unbuildable())


@pytest.fixture(autouse=True, scope="session")
def stock_as_far_as_it_gets() -> Iterator[None]:
    """Where stock cannot build C++, a test is skipped as soon as stock looks for a compiler."""
    with pytest.MonkeyPatch.context() as patch:
        if unbuildable():
            patch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", lambda *_: pytest.skip(unbuildable()))
        yield


@pytest.fixture(autouse=True, scope="session")
def quick_seeds() -> Iterator[None]:
    """For each kind of device that is not here, torch.manual_seed keeps the text of its stack."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (torch.cuda, torch.xpu, torch.mtia):
            if not kind.is_available():
                patch.setattr(kind, "manual_seed_all", lambda seed: None)
        yield


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What the program logs at INFO and above. pytest's own caplog is switched off (pyproject.toml): around each test
    it gives every logger of torch a handler, for which torch then writes its structured trace."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign, assignment]
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield records
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.fixture(autouse=True, scope="session")
def long_lived(unmeasured_guards: None) -> Iterator[None]:
    """What was imported stays: no garbage collection, which IPython and some tests ask for, looks through it; and the
    old generation is looked through rarely."""
    gc.set_threshold(100_000, 50, 50)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def pytest_collectstart(collector: pytest.Collector) -> None:
    """What a file of tests draws while it is imported depends on no file that was imported before it."""
    torch.default_generator.manual_seed(0)


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def seed() -> int:
    torch.manual_seed(0)
    return 0
