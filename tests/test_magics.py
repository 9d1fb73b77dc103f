"""The magics in a shell of this process: what a cell does is what it does without them, and the record is beside it."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy
import pytest
import torch

from cells import Shell, plain
from explorer.ir import record as data
from explorer.show.notebook import magics, session
from explorer.show.record import unpacked
from explorer.show.view.size_limit import MOST_ON_DISK

pytest_plugins = ["cells"]


def has_terminals() -> bool:
    try:
        for each in os.openpty():
            os.close(each)
    except OSError:
        return False
    return True


TERMINAL = pytest.mark.skipif(not has_terminals(), reason="IPython runs shell lines by a terminal; there is none here")


def test_the_value_is_computed_once_assigned_and_recorded(shell):
    done = shell.run("%%explore\nprint('once')\ny = torch.relu(count(x) * w).sum(-1)")
    assert done.success
    assert done.out == "once\n"
    assert shell.names["calls"] == 1
    assert torch.equal(shell.names["y"], torch.relu(shell.names["x"] * shell.names["w"]).sum(-1))
    assert [compile.title for compile in done.record.compiles] == ["cell"]
    assert sum(len(half.kernels) for half in done.record.compiles[0].halves) == 1
    assert not done.record.error
    assert not done.record.notes


def test_the_last_expression_is_displayed(shell):
    done = shell.run("%%explore\nx + w")
    assert "tensor" in done.out
    assert torch.equal(done.result.result, shell.names["x"] + shell.names["w"])
    assert len(done.shown) == 2
    assert "tensor" not in shell.run("%%explore\nx + w;").out


RANDOM = "y = F.dropout(x, 0.5) * random.random() + torch.rand(4) + numpy.random.rand()"


def test_random_numbers_are_those_without_the_magic(shell):
    drawn = []
    for magic in ("", "%%explore --time\n"):
        torch.manual_seed(7)
        random.seed(7)
        numpy.random.seed(7)
        assert shell.run(magic + RANDOM).success
        drawn.append((shell.names["y"], torch.rand(3), random.random(), numpy.random.rand()))
    assert all(torch.equal(a, b) for a, b in zip(drawn[0][:2], drawn[1][:2], strict=True))
    assert drawn[0][2:] == drawn[1][2:]


@pytest.mark.parametrize(
    "cell",
    [
        "y = 1\nz = undefined + y",
        "def f(v):\n    return v / 0\n\ny = f(count(1))",
        "x.view(3, 3)",
        "raise KeyError('k')",
        "x.sum().backward()",
    ],
)
def test_errors_look_as_without_the_magic(shell, cell):
    def seen(text: str) -> str:
        return re.sub(r"In\[\d+\]|line \d+|^.*\b1 # .*\n|^[->\s]*\d+ ", "", plain(text), flags=re.MULTILINE)

    with_magic, without = shell.run("%%explore\n" + cell), shell.run("# a comment\n" + cell)
    assert not with_magic.success
    assert seen(with_magic.out) == seen(without.out)
    assert type(with_magic.result.error_in_exec) is type(without.result.error_in_exec)
    assert not re.search(r"\bexplorer/(core|ir|compiler|records|show)/", with_magic.out)
    assert not with_magic.shown


def test_a_syntax_error_is_pythons(shell):
    done = shell.run("%%explore\ny = x +")
    assert isinstance(done.result.error_before_exec, SyntaxError)
    assert not done.shown


def test_a_return_outside_a_function_is_pythons(shell):
    done = shell.run("%%explore\nreturn x")
    assert not done.success
    assert "outside function" in done.out


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%explore", "the cell is empty"),
        ("%%explore\n\n", "the cell is empty"),
        ("%%explore\ndef f(a):\n    return a", "definition of `f`"),
        ("%%explore\nimport math", "an import"),
        pytest.param("%%explore\ny = x\n!true", "magic or a shell command", marks=TERMINAL),
        ("%%explore\ny = x\n%time 1", "magic or a shell command"),
        ("%%explore\ny = await count(x)", ""),
    ],
)
def test_nothing_to_explore_is_reported(shell, cell, said):
    done = shell.run(cell)
    if said:
        assert done.success
        assert "Nothing was explored" in done.out
    assert said in done.out
    assert not done.shown


@TERMINAL
def test_magics_and_shell_lines_in_the_cell_run(shell):
    done = shell.run("%%explore\n%time a = count(1)\n!echo hello\ny = x + a")
    assert done.success
    assert "hello" in done.out
    assert "Wall time" in done.out
    assert shell.names["calls"] == 1
    assert done.record.compiles


def test_a_cell_may_await(shell):
    done = shell.run("%%explore\nimport asyncio\nawait asyncio.sleep(0)\ny = x * 2")
    assert done.success
    assert done.record.compiles


def test_other_cell_magics_go_around(shell):
    assert "Wall time" in shell.run("%%time\n%%explore\ny = x * 2").out
    done = shell.run("%%explore\n%%time\ny = x * 2")
    assert not done.success
    assert "write %%time above" in done.error + done.out


def test_cells_without_the_magic_are_left_alone(shell):
    done = shell.run("y = count(x) + 1\ny")
    assert done.success
    assert not done.shown


def test_a_user_who_resets_the_names_may_go_on(shell):
    shell.shell.run_line_magic("reset", "-f")
    assert shell.run("%%explore\nimport torch\ny = torch.ones(3) + 1").record.compiles


def test_a_bare_name_at_the_end(shell):
    done = shell.run("%%explore\ny = x * w\ny")
    assert done.record.title == "y = x * w"
    assert torch.equal(done.result.result, shell.names["y"])


def test_a_function_defined_and_called(shell):
    done = shell.run("%%explore\ndef f(a):\n    return torch.relu(a) + 1\n\ny = f(x)")
    assert any(code.name == "f" for code in done.record.compiles[0].codes)
    assert done.record.sources


def test_a_module(shell):
    shell.run("m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())")
    done = shell.run("%%explore\ny = m(x)")
    assert len(done.record.compiles[0].halves) == 2
    done = shell.run("%%explore --no-grad\ny = m(x)")
    assert len(done.record.compiles[0].halves) == 1


def test_a_loop(shell):
    done = shell.run("%%explore\nfor i in range(3):\n    x = x + i")
    assert torch.equal(shell.names["x"], done.result.info and shell.names["x"])
    assert done.record.coverage.kernel == 3


def test_backward_is_explored_with_what_computes_the_loss(shell):
    shell.run("m = torch.nn.Linear(4, 1)\nopt = torch.optim.SGD(m.parameters(), lr=0.1)")
    done = shell.run("%%explore\nx2 = x * 2\nloss = m(x2).pow(2).mean()\nloss.backward()\nopt.step()\nloss.item()")
    [compile] = done.record.compiles
    assert len(compile.halves) == 2
    lines = {
        node.span.line for stage in compile.stages if stage.name == "capture" for node in stage.graph.nodes if node.span
    }
    assert lines == {3}
    assert "opt" not in done.record.title
    assert any("loss.backward()" in note for note in done.record.notes)


def test_the_users_gradients_and_steps_are_those_of_one_run(shell):
    left = []
    for magic in ("", "%%explore --time\n"):
        shell.run("torch.manual_seed(1)\nm = torch.nn.Linear(4, 1)\nopt = torch.optim.Adam(m.parameters(), lr=0.1)")
        assert shell.run(magic + "loss = m(x).pow(2).mean()\nloss.backward()\nopt.step()").success
        m, opt = shell.names["m"], shell.names["opt"]
        left.append((m.weight.detach().clone(), m.weight.grad.clone(), [s["step"] for s in opt.state.values()]))
    assert torch.equal(left[0][0], left[1][0])
    assert torch.equal(left[0][1], left[1][1])
    assert left[0][2] == left[1][2]


def test_backward_of_an_earlier_cells_loss_is_reported_and_runs(shell):
    shell.run("m = torch.nn.Linear(4, 1)\nloss = m(x).sum()")
    done = shell.run("%%explore\nloss.backward()")
    assert done.success
    assert "computed in an earlier cell" in done.out
    assert "%%explore\n    loss = ..." in done.out
    assert shell.names["m"].weight.grad is not None
    assert not done.shown


def test_a_value_of_an_earlier_cell_ends_the_backward_shown(shell):
    shell.run("m = torch.nn.Linear(4, 4)\nh = m(x)")
    done = shell.run("%%explore\nloss = h.sum()\nloss.backward()")
    assert any("`h` was computed in an earlier cell" in note for note in done.record.notes)


STEP = """
m = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
steps = 0
def step(batch):
    global steps
    steps += 1
    opt.zero_grad()
    loss = m(batch).pow(2).mean()
    loss.backward()
    opt.step()
    return loss
"""


def test_a_training_step_over_the_notebooks_globals(shell):
    left = []
    for magic in ("", "%%explore --time -o record\n"):
        shell.run("torch.manual_seed(1)" + STEP)
        assert shell.run(magic + "loss = step(x)").success
        left.append((shell.names["m"].weight.detach().clone(), shell.names["steps"]))
    assert torch.equal(left[0][0], left[1][0])
    assert left[0][1] == left[1][1] == 1
    timing = shell.names["record"].timing
    assert {each.name for each in timing.contestants} == {"eager", "explorer"}
    assert timing.accuracy.compared > 2
    assert not timing.accuracy.first_mismatch


def test_what_grows_grows_once(shell):
    shell.run("log = []\nd = {}\nit = iter([x, x + 1, x + 2])")
    for cell in ("log.append(x * 2)", "d['k'] = x * 2", "y = next(it) * 2", "x.add_(1)", "x += 1"):
        done = shell.run(f"%%explore --time\n{cell}")
        assert done.success
        assert done.record.compiles
    names = shell.names
    assert (len(names["log"]), len(names["d"]), len(list(names["it"]))) == (1, 1, 2)


def test_what_ends_when_repeated_is_not_timed_and_says_so(shell):
    shell.run("queue = [x]")
    done = shell.run("%%explore --time\ny = queue.pop() * 2")
    assert "IndexError" in " ".join(done.record.notes)
    assert not done.record.timing.contestants and done.record.timing.accuracy.compared
    assert done.record.compiles[0].guards
    assert any(half.kernels for compile in done.record.compiles for half in compile.halves)


@pytest.mark.parametrize(
    ("before", "cell", "said"),
    [
        ("g = (x * i for i in range(9))", "y = next(g) + 1", "g is a generator"),
        ("f = open('{tmp}/log', 'a')", "n = f.write('line')", "TextIOWrapper"),
        (
            "import io\nclass Box: pass\nbox = Box()\nbox.open = io.open",
            "f = box.open('{tmp}/made', 'a')",
            "for writing",
        ),
        ("def keep(v):\n    torch.save(v, '{tmp}/kept')\n    return v", "y = keep(x) + 1", "torch.save"),
    ],
    ids=["generator", "file", "dynamic", "save"],
)
def test_what_cannot_be_repeated_is_compiled_and_shown_with_the_reason(shell, tmp_path, before, cell, said):
    assert shell.run(before.replace("{tmp}", str(tmp_path))).success
    done = shell.run("%%explore --time\n" + cell.replace("{tmp}", str(tmp_path)))
    assert done.success
    assert said in " ".join(done.record.notes)
    assert done.record.timing is None
    assert done.record.compiles[0].stages
    if "f" in shell.names:
        shell.names["f"].close()
    if (log := tmp_path / "log").exists():
        assert log.read_text() == "line"


def test_a_long_statement_is_not_timed_unasked(shell, monkeypatch):
    shell.shell.run_line_magic("explore_config", "--reset")
    monkeypatch.setattr(session, "LONG", 0.0)
    done = shell.run("%%explore\ny = x * 2")
    assert "Not timed" in " ".join(done.record.notes)
    assert not done.record.timing.contestants and done.record.timing.accuracy is not None
    assert shell.run("%%explore --time\ny = x * 2").record.timing is not None


def test_an_error_in_a_repeat_does_not_reach_the_user(shell):
    shell.run("calls = 0\ndef once(v):\n    assert count(1) and calls < 2\n    return v * 2")
    shell.run("state = [1]")
    done = shell.run("%%explore --time\ny = x * state.pop()")
    assert done.success
    assert shell.names["state"] == []


@pytest.mark.parametrize("beside", ["0", "open('/dev/null', 'w')"])
def test_a_break_in_a_module_of_the_notebook_comes_with_what_to_write_instead(shell, beside):
    done = shell.run(f"""%%explore --no-time
class Block(torch.nn.Module):
    def forward(self, h):
        if h.sum() > 0:
            h = h.relu()
        return h

block = Block()
y = block(x), {beside}""")
    rewrites = {each.rewrite for compile in done.record.compiles for each in compile.breaks if each.rewrite}
    assert {each[-1] for each in rewrites} == {"+    h = torch.where(h.sum() > 0, h.relu(), h)"}


def test_an_object_that_cannot_be_looked_at_does_not_break_the_cell(shell):
    shell.run("class Odd:\n    k = 2\n    @property\n    def __dict__(self): raise RuntimeError('no')\nodd = Odd()")
    done = shell.run("%%explore\ny = x * odd.k")
    assert done.success
    assert "the class of odd defines __dict__" in " ".join(done.record.notes)
    assert torch.equal(shell.names["y"], shell.names["x"] * 2)


def kept(shell: Shell) -> list[magics.NotebookRecord]:
    return list(shell.shell.magics_manager.registry["ExplorerMagics"].kept)


def test_running_a_cell_again_lets_go_of_its_earlier_tensors(shell):
    shell.run("%%explore\ny = x * 2", cell_id="a")
    shell.run("%%explore\ny = x * 2", cell_id="b")
    shell.run("%%explore\ny = x * 3", cell_id="a")
    assert [each.live.retiming is not None for each in kept(shell)] == [False, True, True]
    assert kept(shell)[0].live.abilities().why_not == "the cell was run again"


def test_the_oldest_tensors_go_when_they_take_too_much(shell, monkeypatch):
    for number in range(3):
        monkeypatch.setattr(magics, "KEPT_BYTES", 200)
        shell.run("%%explore\ny = x * 2", cell_id=f"{number}")
    assert [each.live.retiming is not None for each in kept(shell)] == [False, True, True]
    assert "save memory" in kept(shell)[0].live.abilities().why_not


def test_the_oldest_records_are_no_longer_live(shell, monkeypatch):
    monkeypatch.setattr(magics, "KEPT_RECORDS", 2)
    for number in range(3):
        shell.run(f"%%explore --name n{number}\ny = x * 2", cell_id=f"{number}")
    assert [each.record.data.title for each in kept(shell)] == ["n1", "n2"]


def test_a_record_as_last_value_shows_the_viewer(shell):
    done = shell.run("import explorer\nrecord = explorer.explore(torch.relu, time=False)(x)\nrecord")
    bundle, metadata = shell.shell.display_formatter.format(done.result.result)
    assert unpacked(bundle[data.MIME]) == shell.names["record"].data
    assert data.MIME not in metadata


def test_outputs_are_json_and_hold_no_script(shell):
    done = shell.run("%%explore\ny = x * float('inf') - float('inf')\n'<script>alert(1)</script>'; y = x * 2")
    for output in done.shown:
        assert data.MIME in json.loads(json.dumps(output.data, allow_nan=False))
        assert "<script" not in output.data["text/html"]
        assert "onerror" not in output.data["text/html"]


def test_hostile_names_are_text(shell):
    done = shell.run("%%explore --name '<img/src=x/onerror=alert(1)>'\ny = x * 2")
    assert "<img" not in done.shown[-1].data["text/html"]


def test_loading_twice_leaves_one_of_each(shell):
    shell.shell.run_line_magic("reload_ext", "explorer")
    done = shell.run("%%explore --no-time\ny = x * 2")
    assert len(done.shown) == 2
    assert shell.shell.input_transformers_cleanup.count(magics.mark) == 1


IMPORTED = (
    "import explorer, sys; print(*[n for n in ('IPython', 'ipywidgets', 'explorer.show.notebook') if n in sys.modules])"
)


def test_importing_the_package_imports_no_notebook():
    root = Path(__file__).parent.parent
    ran = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, cwd=root, timeout=500)
    assert ran.stdout.strip() == "", ran.stderr


def test_a_plain_cell_takes_little_of_a_notebook_s_file(shell) -> None:
    """As nbformat writes it: JSON with a line for each item, and spaces before it."""
    done = shell.run("%%explore\ndef scaled(x, weight):\n    return torch.relu(x * weight).sum(-1)\n\n"
                     "y = scaled(torch.randn(64, 128), torch.randn(128))\n")  # fmt: skip
    [first, *_, last] = done.shown
    output = nbformat.v4.new_output("display_data", last.data, metadata=last.metadata)
    cell = nbformat.v4.new_code_cell("%%explore", outputs=[output])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbformat.validate(notebook)
    assert len(nbformat.writes(notebook)) <= 40_000, {k: len(str(v)) for k, v in last.data.items()}
    again = nbformat.reads(nbformat.writes(notebook), as_version=4).cells[0].outputs[0]
    assert unpacked(again.data[data.MIME]) == done.record


COMPILING = """%%explore -o record
def scaled(x, k):
    return (x * k).sum()
fast = explorer.compile(scaled)
for size in (4, 5, 5):
    fast(torch.ones(size), 2)
"""


def test_calls_of_what_the_cell_compiles_itself_are_calls(shell):
    assert shell.run("import explorer").success
    done = shell.run(COMPILING)
    rows = [(row.first, row.last, row.compiles, row.made) for row in done.record.history]
    assert rows == [(1, 1, ("f0",), ("f0",)), (2, 2, ("f0.1",), ("f0.1",)), (3, 3, ("f0.1",), ())]
    [change] = done.record.history[1].changes
    assert (change.failure, change.was, change.now) == ("x.size(0) is 5, expected 4", "4", "5")
    assert "mark_dynamic(x, 0)" in change.stops
    printed = repr(shell.names["record"])
    assert re.search(r"call 2 +f0.1 +compiled again: x.size\(0\) is 5, expected 4 \(In\[\d+\]:\d\)", printed)
    assert re.search(r"call 3 +f0.1 +reused", printed)
    assert "not repeated" in done.record.notes[-1]
    marked = "x = torch.ones(size); torch._dynamo.mark_dynamic(x, 0); fast(x, 2)"
    followed = COMPILING.replace("fast(torch.ones(size), 2)", marked)
    assert [row.made for row in shell.run(followed).record.history] == []


def test_a_cell_that_compiles_and_then_explores_something_else(shell):
    done = shell.run("%%explore\nfast = __import__('explorer').compile(lambda x: x + 1)\nfast(x)\ny = torch.relu(x)")
    assert [node.name for node in done.record.compiles[0].stages[1].graph.nodes][-1] == "relu"


def test_a_cell_that_raises_after_it_compiled_shows_what_it_compiled(shell):
    done = shell.run("%%explore\nfast = __import__('explorer').compile(lambda x: x + 1)\nfast(x) + undefined")
    assert not done.success and [compile.id for compile in done.record.compiles] == ["f0"]


def test_a_cell_that_takes_long_says_that_it_runs(shell):
    done = shell.run("%%explore\n__import__('time').sleep(1.3)\ny = x + 1")
    texts = [output.data["text/plain"] for output in done.outputs if set(output.data) == {"text/plain"}]
    assert texts[0] == "Running the cell; what it computes is compiled after that."
    assert re.fullmatch(r"The cell ran in \d\.\d+ s\.", texts[-1])
    assert done.record.compiles


PLAIN = {
    "MLP": ("m = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))", "m(x)"),
    "backward": ("", "F.cross_entropy(m(x), torch.zeros(8, dtype=torch.long)).backward()"),
    "attention": ("q = torch.randn(2, 4, 8, requires_grad=True)", "(F.softmax(q @ q.mT, -1) @ q).sum().backward()"),
    "step": ("o = torch.optim.Adam(m.parameters())\ndef step():\n    m(x).sum().backward()\n    o.step()", "step()"),
}


@pytest.mark.parametrize("options", ("", "--engine both"))
def test_the_output_of_a_plain_cell_is_small_in_the_notebook(shell: Shell, options: str) -> None:
    """As nbformat writes it, which gives each line of a text an item. The record is kept whole beside it."""
    cut = []
    for before, cell in PLAIN.values():
        assert shell.run(before).success
        output = shell.run(f"%%explore -o record {options}\n{cell}").shown[-1]
        made = nbformat.v4.new_output("display_data", data=output.data, metadata=output.metadata)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell, outputs=[made])])
        assert len(nbformat.writes(notebook).encode()) <= MOST_ON_DISK
        held, whole = unpacked(output.data[data.MIME]), shell.names["record"].data
        assert held == whole or held.cut and "not all is here" in held.notes[-1]
        assert not whole.cut and held.glance == whole.glance
        cut.append(held.cut)
    assert any(cut)


WATCHED = """import explorer
with explorer.watch(live=True) as log:
    fast = explorer.compile(lambda x, n: torch.softmax((x * n).cumsum(0), -1).sum())
    for n in range(1, 32):
        fast(torch.randn(n, 4, requires_grad=True), float(n)).backward()
display(log)"""


def test_a_watch_that_the_same_cell_shows_is_in_the_notebook_once(shell: Shell) -> None:
    done = shell.run(WATCHED)
    assert done.success
    last = done.shown[-1], done.outputs[-1]
    assert last[-1].data == {"text/plain": "watch: the record is shown above"}
    outputs = [nbformat.v4.new_output("display_data", data=each.data, metadata=each.metadata) for each in last]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(WATCHED, outputs=outputs)])
    assert len(nbformat.writes(notebook).encode()) <= MOST_ON_DISK
    assert data.MIME in shell.run("display(log)").outputs[-1].data
