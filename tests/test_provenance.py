"""Links are true: every generated line has a cause, and a change in the source changes only lines linked to it."""

import itertools
import linecache
from contextlib import nullcontext

import pytest
import torch

import explorer
from benchmarks.provenance import generated_lines, unsourced
from explorer.core.recorder import Recorder, recording
from explorer.ir.program import BuildOptions
from explorer.records.data.provenance import provenance
from programs import NAMED

SOURCES = {
    "pointwise": ("def f(x):\n    a = torch.sin(x)\n    b = a * {}\n    return torch.relu(b) + a\n", 3, "2.5", "3.5"),
    "softmax": ("def f(x):\n    a = x - {}\n    b = torch.softmax(a * 4.0, -1)\n    return b\n", 2, "0.25", "0.75"),
    "norm": ("def f(x):\n    m = x.mean(-1, keepdim=True)\n    v = x.var(-1, keepdim=True)\n"
             "    return (x - m) / torch.sqrt(v + {})\n", 4, "0.5", "0.125"),
    "two kernels": ("def f(x):\n    a = torch.exp(x * {})\n    b = a @ a\n    return torch.tanh(b) + 7.0\n",
                    2, "0.5", "0.75"),
    "masked": ("def f(x):\n    keep = x > 0\n    return torch.where(keep, x, {}) * 1.5\n", 3, "0.375", "0.625"),
    "padded": ("def f(x):\n    p = torch.nn.functional.pad(x, (1, 1), value={})\n    return p.cos()\n",
               2, "9.0", "8.0"),
}  # fmt: skip
FILES = itertools.count()


def record(name, source, grad):
    """The record of `f` of a source text, as from a file of that name."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope = {"torch": torch}
    exec(compile(source, name, "exec"), scope)
    x = torch.linspace(-1, 1, 36).reshape(6, 6).requires_grad_(grad)
    return explorer.explore(scope["f"], time=False)(x)


@pytest.mark.parametrize("grad", [False, True], ids=["infer", "train"])
@pytest.mark.parametrize("case", SOURCES)
def test_a_changed_constant_changes_only_linked_lines(case, grad):
    template, line, before, after = SOURCES[case]
    file = f"/provenance/{next(FILES)}.py"
    (old,) = record(file, template.format(before), grad).data.compiles
    (new,) = record(file, template.format(after), grad).data.compiles
    olds, news = list(generated_lines(old)), list(generated_lines(new))
    assert len(olds) == len(news)
    changed = [a for a, b in zip(olds, news, strict=True) if a.text != b.text]
    assert changed, "the constant does not show in the generated code"
    links = provenance(old)
    for each in changed:
        causes = links.causes(each.id, *each.origins)
        assert f"{file}:{line}" in causes, f"{each.text!r} changed and is linked to {sorted(causes)} only"
    for each in olds:
        causes = links.causes(each.id, *each.origins)
        if before in each.text and f"{file}:{line}" in causes:
            assert each in changed


PROGRAMS = ["add_mul", "gelu_by_hand", "long_chain", "clamps", "broadcast_everything", "moments", "gathers"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_generated_line_has_a_cause(name):
    program = NAMED[name]
    args, kwargs = program.inputs()
    for compile in explorer.explore(program.build(), time=False)(*args, **kwargs).data.compiles:
        total, reasons = unsourced(compile)
        assert total
        assert "no cause" not in reasons


@pytest.mark.parametrize("name", ["gelu_by_hand", "moments"])
def test_generated_code_is_the_same_whether_recorded_or_not(name, tmp_path):
    """The folder of built kernels holds the same sources, byte for byte."""

    def sources(folder, recorder):
        subject = explorer.compile(NAMED[name].build(), options={"build": BuildOptions(cache_dir=tmp_path / folder)})
        args, kwargs = NAMED[name].inputs()
        with recording(recorder) if recorder else nullcontext():
            subject(*args, **kwargs)
        return {path.name: path.read_text() for path in (tmp_path / folder).glob("*.cpp")}

    recorded, unrecorded = sources("recorded", Recorder()), sources("unrecorded", None)
    assert recorded and recorded == unrecorded


def test_an_id_names_one_thing():
    """The halves of a compile number their buffers, kernels and lines apart; they share only tensors given to both."""
    source = "def f(x):\n    a = torch.softmax(x @ x, -1)\n    return torch.tanh(a).cumsum(0)\n"
    (compile,) = record(f"/provenance/{next(FILES)}.py", source, True).data.compiles
    forward, backward = compile.halves

    def made(half):
        texts = [half.wrapper, *(k.source for k in half.kernels)]
        texts += [lowered for k in half.kernels for lowered in k.lowered.values()]
        found = {line.id for text in texts for line in text.lines if line.id}
        found |= {b.name for b in half.buffers if b.kind != "input"} | {operation.id for operation in half.operations}
        return found | {kernel.id for kernel in half.kernels} | {item.id for item in half.schedule.items}

    assert made(forward) and made(backward)
    assert not made(forward) & made(backward)
