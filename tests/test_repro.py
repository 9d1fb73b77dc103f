"""Files that reproduce a graph or a kernel: they run with torch alone, do what the record says, and making one from a
stranger's record runs nothing and quotes everything."""

from __future__ import annotations

import ast
import ctypes
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner

import explorer
from explorer.ir.record import BuildData, LineData, RecordData, TextData
from explorer.records.repro.program import CannotReproduce, function, number, printed, tensor_type
from explorer.show.cli import main
from explorer.show.record import Record
from programs import NAMED
from records import sample

PROGRAMS = (
    "softmax",
    "attention_by_hand",
    "hard_activations",
    "reduce_permuted",
    "only_views",
    "expanded_input",
    "permuted_input_keeps_strides",
    "moments",
    "clamps",
)


def explored(name: str, **options: Any) -> Record:
    program = NAMED[name]
    args, kwargs = program.inputs()
    return explorer.explore(program.build(), time=False, **options)(*args, **kwargs)


def played(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "repro"}
    exec(compile(text, "repro.py", "exec"), names)
    return names


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_graph_of_a_program_runs_by_itself(name: str, dynamic: bool) -> None:
    record = explored(name, dynamic=dynamic)
    for stage in record.graphs:
        made = played(record.repro(stage.id))
        found = made["run"](made["graph"])
        assert [(tuple(each.shape), each.dtype) for each in found] == made["RECORDED"], stage.name


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_kernel_of_a_program_computes_what_eager_does(name: str, dynamic: bool) -> None:
    record = explored(name, dynamic=dynamic)
    written = 0
    for kernel in record.kernels:
        try:
            made = played(record.repro(kernel.id))
        except CannotReproduce as refusal:
            assert re.search("writes parts|does not read|several steps", str(refusal))
            continue
        buffers = made["made"]()
        expected = made["reference"](*(buffers[each].clone() for each in made["READ"]))
        passed = [
            ctypes.c_void_p(buffers[each].data_ptr()) if isinstance(each, str) else ctypes.c_long(each)
            for each in made["ARGUMENTS"]
        ]
        made["build"]()(*passed, ctypes.c_int(1))
        for buffer, value in zip(made["WRITTEN"], expected, strict=True):
            torch.testing.assert_close(buffers[buffer], value, rtol=1e-3, atol=1e-4, equal_nan=True)
        written += 1
    assert written or not len(record.kernels)


def test_the_files_run_as_scripts_that_know_nothing_of_us(tmp_path: Path) -> None:
    record = explorer.explore(lambda x, w: F.gelu(x @ w).softmax(-1), time=False)(
        torch.randn(8, 16), torch.randn(16, 4)
    )
    saved = record.save(tmp_path / "a.explore.json.gz")
    for name, options, said in (("graph", (), "(8, 4) torch.float32"), ("kernel", ("-k", "k0"), "one launch takes")):
        file = tmp_path / f"{name}.py"
        result = CliRunner().invoke(main, ["repro", str(saved), *options, "-o", str(file)])
        assert result.exit_code == 0, result.output
        assert "explorer" not in file.read_text().replace("torch-explorer", "")
        run = subprocess.run([sys.executable, "-I", str(file)], capture_output=True, text=True)
        assert run.returncode == 0 and said in run.stdout and "NOT CLOSE" not in run.stdout, run.stderr
    refused = CliRunner().invoke(main, ["repro", str(saved), "-k", "k9"])
    assert refused.exit_code == 2 and "no kernel or graph 'k9'; it has k0" in refused.output


def text(*calls: str) -> TextData:
    lines = ["graph f0(x):", "  x: f32[4] = input", *(f"  y{n}: f32[4] = {call}" for n, call in enumerate(calls))]
    return TextData(tuple(map(LineData, (*lines, "  return (x,)"))))


def written(*calls: str) -> str:
    found = printed(text(*calls))
    return function("graph", found.calls, ["x"], found.returns)


HOSTILE = (
    "__import__('os').system('id')",
    "eval(x)",
    "exec(x)",
    "open(x)",
    "os.system(id)",
    "torch.load(x)",
    "torch.save(x, x)",
    "torch.hub.load(x)",
    "torch.ops.load_library(x)",
    "aten.from_file.default(x)",
    "torch.from_file(x)",
    "getattr(x, a)",
    "x.__class__()",
    "x.__reduce_ex__(2)",
    "x.numpy()",
    "x.share_memory_()",
    "x.backward()",
    "torch.compile(x)",
    "x.register_hook(x)",
    "operator.attrgetter(x)",
    "operator.methodcaller(x)",
    "torch.serialization.load(x)",
    "torch.utils.cpp_extension.load(x)",
    "torch._C._jit_pass_lint(x)",
    "torch._C._cuda_init()",
    "x.apply_(eval)()",
    "operator.add(x, (lambda: 1)())",
    "operator.add(x, [y for y in x])",
    "operator.add(x, x if x else x)",
    "operator.add(*x)",
    "operator.add(**x)",
    "operator.add(x, f'{x}')",
    "operator.add(x, 'a')",
    "operator.add(x, x.data)",
    "x + x",
    "(x := x)",
    "x; import os",
    "operator.add(x, torch.hub)",
    "operator.add(x, b'')",
    "(yield)",
    "await x",
    "operator.add(x, __builtins__)",
    "operator.add(x, __import__)",
    "torch.multiprocessing.spawn(x)",
    "quit()",
    "torch.autograd.profiler.record_function(x)",
    "torch.storage.UntypedStorage(x)",
    "torch.nn.functional.Tensor(x)",
    "math.factorial(x)",
    "profiler._record_function_enter.default(x)",
    "sys.exit(1)",
    "torch.__config__.show()",
)


@pytest.mark.parametrize("call", HOSTILE)
def test_what_is_no_operator_on_values_is_refused(call: str) -> None:
    with pytest.raises(CannotReproduce):
        written(call)


def test_what_is_written_calls_only_operators() -> None:
    made = written(
        "operator.getitem(x, [Ellipsis, slice(None, 3, None)])",
        "aten.full.default([2], -inf, device=cuda:1)",
        "torch.nn.functional.gelu(x, approximate=tanh)",
        "x.to(torch.float16)",
        "torch.zeros(3)",
    )
    assert "x[" not in made and "operator.getitem(x, (..., slice(None, 3, None)))" in made
    assert "device='cuda:1'" in made and "approximate='tanh'" in made and "-float('inf')" in made
    names = {each.id for each in ast.walk(ast.parse(made)) if isinstance(each, ast.Name)}
    assert names == {"x", "operator", "slice", "torch", "float", "y0", "y1", "y2", "y3", "y4"}


INJECTED = 'quote\'"""\\\n\n__import__("os").abort()\r\x0c\u2028#'


def hostile(record: RecordData) -> RecordData:
    """The record with each text of it that a file quotes replaced by one that would run if it were not quoted."""
    (compile,) = record.compiles
    (half,) = compile.halves
    kernels = tuple(
        msgspec.structs.replace(
            each,
            function=INJECTED,
            source=TextData(
                tuple(msgspec.structs.replace(line, text=line.text + INJECTED) for line in each.source.lines)
            ),
        )
        for each in half.kernels
    )
    stages = tuple(
        each
        if each.name != "generate" or each.body is None
        else msgspec.structs.replace(
            each, body=TextData((LineData(INJECTED), *(LineData(line.text) for line in kernels[0].source.lines)))
        )
        for each in compile.stages
    )
    command = (
        INJECTED,
        "-O3",
        "-fplugin=evil.so",
        "-wrapper",
        "sh,-c,id",
        "-B/tmp",
        "-fopenmp",
        "@file",
        "-specs=x",
        "x.c",
    )
    half = msgspec.structs.replace(half, kernels=kernels, builds=(BuildData("g++", command, "", "", 0.0, False),))
    compile = msgspec.structs.replace(compile, halves=(half,), stages=stages)
    environment = {"torch": INJECTED, INJECTED: INJECTED}
    return msgspec.structs.replace(
        record, title=INJECTED, created=INJECTED, environment=environment, compiles=(compile,)
    )


def test_what_strangers_wrote_is_quoted() -> None:
    record = explorer.explore(lambda x: torch.relu(x) * 2, time=False)(torch.ones(4))
    plain, evil = record, Record(hostile(record.data))
    for what in ("", "k0"):
        trees = [ast.parse(each.repro(what)) for each in (plain, evil)]
        shapes = [
            [type(each).__name__ for each in ast.walk(tree) if not isinstance(each, ast.Constant)] for tree in trees
        ]
        assert shapes[0] == shapes[1]
    flags = played(evil.repro("k0"))["FLAGS"]
    assert flags == ["-O3", "-fopenmp"]


@pytest.mark.parametrize(
    "size", ["9" * 50, "2**99999", "s0", "__import__('os')", "1 if 1 else 2", "(" * 5000, "-1", "1.5"]
)
def test_sizes_are_numbers_within_bounds(size: str) -> None:
    with pytest.raises(CannotReproduce):
        tensor_type(f"f32[{size}]", {})
    assert number("s0 // 2 + 3*4 - -1", {"s0": 8}) == 17


def test_a_sample_of_everything_is_refused_with_words() -> None:
    with pytest.raises(ValueError, match="the record has no kernel or graph 'k7'"):
        Record(sample()).repro("k7")
    with pytest.raises(CannotReproduce):
        Record(sample()).repro("k1")
