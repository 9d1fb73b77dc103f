"""`%%compare` in a shell of this process: the cell runs once, and the comparison is of the call that it ends with."""

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from explorer import Compared
from explorer.records.data.methods import METHODS_MIME, MethodsData
from records import in_output

SETUP = """
import torch
x = torch.ones(4, 8)
seen = []
def gate(x, times=2):
    seen.append(len(seen))
    return torch.relu(x) * times if x.sum() > 0 else x
def switch(x, times=2):
    return torch.relu(x) * times if x.sum() > 0 else x
"""
QUICK = "--methods eager torch.jit.trace explorer.compile --no-time"


@pytest.fixture
def shell():
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    made = InteractiveShell.instance(config=config)
    made.run_line_magic("load_ext", "explorer")
    made.run_cell(SETUP)
    yield made
    made.run_line_magic("unload_ext", "explorer")
    InteractiveShell.clear_instance()


def run(shell, cell: str) -> tuple[str, list]:
    with capture_output() as caught:
        shell.run_cell(cell)
    return caught.stdout + caught.stderr, caught.outputs


def test_the_call_at_the_end(shell):
    said, outputs = run(shell, f"%%compare {QUICK} -o found\ny = switch(x, times=3)")
    found = shell.user_ns["found"]
    assert isinstance(found, Compared) and found.data.title == "switch(x, times=3)"
    assert [verdict.answer for verdict in found["torch.jit.trace"].verdicts][:2] == ["right", "wrong"]
    assert {verdict.answer for verdict in found["explorer.compile"].verdicts} == {"right"}
    assert "times" in [each for each in found["torch.jit.trace"].baked]
    shown = next(output.data for output in outputs if METHODS_MIME in output.data)
    compared = in_output(shown[METHODS_MIME], MethodsData)
    assert compared.title == "switch(x, times=3)" and "torch.jit.trace" in shown["text/html"]
    lines = [line for each in compared.sources for line in each.text.splitlines()]
    assert "def switch(x, times=2):" in lines
    assert torch.equal(shell.user_ns["y"], torch.full((4, 8), 3.0))


def test_it_says_which_method_is_at_work(shell):
    _, outputs = run(shell, f"%%compare {QUICK}\ngate(x)")
    told = [output.data["text/plain"] for output in outputs if METHODS_MIME not in output.data]
    assert "Comparing gate(x): torch.jit.trace (2 of 3) …" in told
    assert METHODS_MIME in outputs[-1].data


def test_the_cell_runs_once(shell):
    run(shell, f"%%compare {QUICK}\nz = x + 1\ngate(z)")
    assert shell.user_ns["seen"] == [0]
    assert torch.equal(shell.user_ns["x"], torch.ones(4, 8))


def test_the_value_of_an_expression_is_shown(shell):
    said, _ = run(shell, f"%%compare {QUICK}\ngate(x)")
    assert "tensor(" in said


def test_errors_of_the_cell_are_its_own(shell):
    said, _ = run(shell, f"%%compare {QUICK}\nmissing(x)")
    assert "NameError" in said and "comparing.py" not in said
    said, _ = run(shell, f"%%compare {QUICK}\ny = (")
    assert "SyntaxError" in said


@pytest.mark.parametrize(("cell", "said"), [("y = x + 1", "ends with a call"), ("!ls", "ends with a call")])
def test_what_is_no_call_is_refused(shell, cell, said):
    assert said in run(shell, f"%%compare {QUICK}\n{cell}")[0]


def test_names_that_do_not_exist(shell):
    assert "no capture method 'magic'" in run(shell, "%%compare --methods magic\ngate(x)")[0]


def test_what_cannot_be_repeated_says_why(shell):
    shell.run_cell("def numbers():\n    yield 1\niterator = numbers()")
    said, _ = run(shell, f"%%compare {QUICK}\nnext(iterator)")
    assert "Nothing is compared" in said and "iterator" in said
