"""A shell, and cells to run in it."""

import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from explorer.ir import record as data
from explorer.show.record import unpacked

SETUP = """
import torch, random, numpy
import torch.nn.functional as F
torch.manual_seed(0)
x, w = torch.randn(8, 4), torch.randn(4)
calls = 0
def count(value):
    global calls
    calls += 1
    return value
"""


class Shell:
    """A shell with the extension loaded."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.names = shell.user_ns

    def run(self, cell: str, **given) -> SimpleNamespace:
        """What a cell printed, displayed and left behind. `record` is what the last display shows."""
        with capture_output() as caught:
            result = self.shell.run_cell(cell, store_history=True, **given)
        shown = [output for output in caught.outputs if output.data and data.MIME in output.data]
        record = unpacked(shown[-1].data[data.MIME]) if shown else None
        return SimpleNamespace(
            out=plain(caught.stdout), error=caught.stderr, outputs=caught.outputs, shown=shown, record=record,
            result=result, success=result.success,
        )  # fmt: skip


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.fixture(scope="module")
def loaded() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "explorer")
    yield shell
    shell.run_line_magic("unload_ext", "explorer")
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(loaded: InteractiveShell) -> Shell:
    loaded.reset(new_session=False)
    loaded.magics_manager.registry["ExplorerMagics"].kept.clear()
    loaded.run_line_magic("explore_config", "--reset --no-time")
    found = Shell(loaded)
    assert found.run(SETUP).success
    return found
