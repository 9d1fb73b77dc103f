"""Makes tests/ importable (`from programs import ZOO`), seeds every test, and skips `gpu` tests where there is none."""

import gc
import os
import sys
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no GPU on this machine"))


@pytest.fixture(autouse=True, scope="session")
def unmeasured_guards() -> Iterator[None]:
    """With each compile torch empties the processor's caches to measure its guards, for its own log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch._dynamo.guards.profile_guard_manager", lambda *_: 0.0, raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def long_lived(unmeasured_guards: None) -> Iterator[None]:
    """What was imported stays: no garbage collection, which IPython and some tests ask for, looks through it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def seed() -> int:
    torch.manual_seed(0)
    return 0
