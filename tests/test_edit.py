"""`Record.edit`: the explored call compiled again with changes, and called only where that was asked for."""

import linecache

import pytest
import torch
import torch.nn.functional as F

import explorer
from explorer.ir.record import RecordData
from explorer.show.record import Record

X, W = torch.linspace(-1, 1, 64 * 32).reshape(64, 32), torch.linspace(0, 2, 32)
CALLS: list[str] = []


def gate(x, w):
    CALLS.append("gate")
    return F.gelu(x * w) * 2.0


def pointwise(x, w):
    y = gate(x, w)
    return y.sum(-1) + 0.5


def softened(x):
    return torch.softmax(x * 2.0, -1).sum(0)


def scaled_by(factor, offset, unused=1):
    def scaled(x):
        return x * factor + offset

    return scaled


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(32, 64)

    def act(self, x, slope=0.1):
        return F.leaky_relu(x, slope)

    def forward(self, x):
        return self.act(self.up(x)) * 3.0


def explored(fn, *args, **settings) -> Record:
    return explorer.explore(fn, time=False, **settings)(*args)


@pytest.fixture(scope="module")
def record() -> Record:
    return explored(softened, X)


def sources(record: RecordData) -> str:
    return "\n".join(each.text for each in record.sources)


def code(record: Record) -> str:
    return "\n".join(line.text for kernel in record.kernels for line in kernel.source.lines)


def test_a_changed_constant_is_in_the_code_and_in_the_source_shown(record) -> None:
    made = record.edit("def softened(x):\n    return torch.softmax(x * 7.0, -1).sum(0)")
    assert "x * 7.0" in sources(made.data) and "x * 2.0" not in sources(made.data)
    assert "7.0" in code(made) and "7.0" not in code(record)
    changed = record.diff(made).changed
    assert any("generate" in stage for stage in changed) and not any("guards" in stage for stage in changed)
    assert made.data.title == "softened (edited)"
    assert any("not run" in note for note in made.data.notes) and made.timing is None


def test_nothing_of_the_program_is_called() -> None:
    CALLS.clear()
    record = explored(gate, X, W)
    assert CALLS
    CALLS.clear()
    made = record.edit("def gate(x, w):\n    CALLS.append('edited')\n    print('said')\n    return F.gelu(x * w) * 9.0")
    assert CALLS == [] and "9.0" in sources(made.data)
    made.edit(fuse=False)
    assert CALLS == []


def test_what_is_run_when_asked_gives_the_changed_results_and_leaves_the_function_as_it_was(record) -> None:
    before = softened.__code__
    made = record.edit("def softened(x):\n    return torch.softmax(x * 3.0, -1).sum(1)", run=True)
    assert made.timing is not None and made.timing.accuracy is not None
    assert made.timing.accuracy.largest_absolute < 1e-5
    assert "x * 3.0" in sources(made.data)
    assert softened.__code__ is before
    assert torch.equal(softened(X), torch.softmax(X * 2.0, -1).sum(0))


def test_lines_that_are_added_keep_later_functions_linked_to_their_lines() -> None:
    record = explored(pointwise, X, W)
    made = record.edit("def gate(x, w):\n    h = x * w\n    h = h + 1\n    h = torch.sin(h)\n    return h")
    lines = {
        node.span.line
        for stage in made.graphs
        if stage.name == "capture"
        for node in stage.graph.nodes
        if node.span is not None
    }
    text = {n: each for s in made.data.sources for n, each in enumerate(s.text.splitlines(), s.first_line)}
    assert {text[line].strip() for line in lines} >= {"h = x * w", "h = h + 1", "return y.sum(-1) + 0.5"}


def test_closures_and_methods() -> None:
    record = explored(scaled_by(2.0, torch.ones(32)), X)
    made = record.edit("def scaled(x):\n    return x * factor - offset")
    assert "sub" in record.diff(made).text()
    fewer = "def scaled(x):\n    return x - offset"
    assert "mul" not in [node.name for node in record.edit(fewer).graphs[0].graph.nodes]
    with pytest.raises(explorer.EditRefused, match="fewer variables"):
        record.edit(fewer, run=True)
    with pytest.raises(explorer.EditRefused, match="did not use unused of"):
        record.edit("def scaled(x):\n    return x * factor + offset + unused")

    block = explored(Block(), X)
    made = block.edit("def forward(self, x):\n    return self.act(self.up(x)) * 5.0")
    assert "* 5.0" in sources(made.data)
    made = block.edit("def act(self, x, slope=0.1):\n    return F.elu(x)", function="Block.act", run=True)
    assert made.timing.accuracy.largest_absolute < 1e-5 and "F.elu(x)" in sources(made.data)
    assert made.kernels and not made.data.errors


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def softened(x):\n    return torch.softmax(x *, -1)", "line 2: invalid syntax"),
        ("x = 3", "the changed text of one whole function"),
        ("def softened(x, y):\n    return x", "apply where it is defined"),
        ("def softened(x=1):\n    return x", "apply where it is defined"),
        ("@torch.no_grad()\ndef softened(x):\n    return x", "apply where it is defined"),
        ("def softened(x):\n    raise ValueError('no')", "raises ValueError"),
        ("def softened(x):\n    return x @ x", "line 28: it raises"),
        ("def pointwise(x, w):\n    return x", "names none of the functions"),
    ],
)
def test_what_cannot_be_compiled_says_why_in_a_line(record, source: str, why: str) -> None:
    with pytest.raises(explorer.EditRefused) as refused:
        record.edit(source)
    assert why in str(refused.value) and "\n" not in str(refused.value)


def test_options_passes_and_fusions(record) -> None:
    assert len(record.edit(fuse=False).kernels) > len(record.kernels)
    assert "f0 capture" in record.diff(record.edit(dynamic=True)).changed
    made = record.edit(without=["no-ops"])
    assert "no-ops" in [s.name for s in record.stages] and "no-ops" not in [s.name for s in made.stages]
    fused = next(each for each in record.schedule[0].fusions if each.ok)
    made = record.edit(forbid=[(fused.first, fused.second)])
    apart = [{fused.first, fused.second} & set(item.operations) for item in made.schedule[0].items]
    assert all(len(each) < 2 for each in apart)
    assert any(each.why.code == "refuse.forbidden" for each in made.schedule[0].fusions)
    for changes, why in (
        ({"forbid": [("buf1", "buf99")]}, "pairs of operations"),
        ({"without": ["trace"]}, "no trace; there are: dead code"),
        ({"fusion": False}, "no fusion; there are"),
    ):
        with pytest.raises(explorer.EditRefused, match=why):
            record.edit(**changes)


def test_a_graph_with_a_backward() -> None:
    record = explored(softened, X.clone().requires_grad_())
    made = record.edit("def softened(x):\n    return torch.softmax(x * 4.0, -1).sum(0)")
    assert [half.name for c in made.data.compiles for half in c.halves] == ["f0_forward", "f0_backward"]
    made = record.edit("def softened(x):\n    return torch.softmax(x * 4.0, -1).sum(0)", run=True)
    assert made.timing.accuracy.largest_absolute < 1e-5


def test_a_file_that_changed_since_it_was_run_is_not_edited(record, monkeypatch) -> None:
    lines = list(linecache.getlines(__file__))
    at = next(n for n, line in enumerate(lines) if "torch.softmax(x * 2.0" in line)
    lines[at] = lines[at].replace("2.0", "2.5")
    monkeypatch.setitem(linecache.cache, __file__, (1, None, lines, __file__))
    with pytest.raises(explorer.EditRefused, match="changed since it was run"):
        record.edit("def softened(x):\n    return x * 3.0")


def test_a_record_from_a_file_cannot_be_edited_and_says_so(record, tmp_path) -> None:
    loaded = Record.load(record.save(tmp_path / "one.explore.json"))
    with pytest.raises(RuntimeError, match="holds data only"):
        loaded.edit(dynamic=True)
