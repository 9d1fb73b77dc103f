"""Capture methods compared: verdicts come from running, and say what is known to hold of each method."""

import json
import re
import traceback

import msgspec
import pytest
import torch
from click.testing import CliRunner

import explorer
from benchmarks import capture_programs
from benchmarks.capture_programs import PROGRAMS
from explorer.records.data.methods import METHODS_MIME, MethodsData
from explorer.records.methods.compare import meaning
from explorer.records.methods.inputs import describe, inputs
from explorer.show.cli import main
from explorer.show.comparison import Compared
from explorer.show.record import RecordError
from explorer.show.view import report
from explorer.show.view.size_limit import MOST_ON_DISK
from records import in_output

QUICK = ["eager", "torch.jit.trace", "torch.jit.script", "torch.fx.symbolic_trace", "explorer.compile"]
BY_NAME = {program.name: program for program in PROGRAMS}


def compared(name: str, methods: list[str] = QUICK) -> Compared:
    program = BY_NAME[name]
    fn, args = program.make()
    return explorer.compare(fn, methods=methods, others=program.others(), time=False)(*args)


def answers(done: Compared, method: str) -> dict[str, str]:
    return {verdict.input: verdict.answer for verdict in done[method].verdicts}


@pytest.fixture(scope="module")
def branch() -> Compared:
    return compared("branch")


def test_a_trace_takes_one_branch_for_all(branch):
    assert answers(branch, "torch.jit.trace")["as captured"] == "right"
    assert answers(branch, "torch.jit.trace")["other values"] == "wrong"
    assert "values" in branch["torch.jit.trace"].baked
    assert any("TracerWarning" in said for said in branch["torch.jit.trace"].warnings)


def test_a_script_keeps_both_branches(branch):
    assert set(answers(branch, "torch.jit.script").values()) == {"right"}
    assert "prim::If" in branch["torch.jit.script"].control


def test_symbolic_tracing_refuses_a_branch(branch):
    found = branch["torch.fx.symbolic_trace"]
    assert not found.verdicts and "TraceError" in found.error and "torch.where" in found.meaning


def test_ours_is_right_and_says_where_it_compiled_anew(branch):
    ours = branch["explorer.compile"]
    assert set(answers(branch, "explorer.compile").values()) == {"right"}
    assert "breaks" in ours.control
    assert {v.input: v.recompiled for v in ours.verdicts}["other shape"]
    assert ours.views and "sum" in str(ours.views[0].text)


def test_wrong_shows_both_values(branch):
    wrong = next(v for v in branch["torch.jit.trace"].verdicts if v.answer == "wrong")
    assert "output" in wrong.detail and "eager" in wrong.detail and wrong.error > 0


def test_a_number_from_outside():
    done = compared("global", ["torch.jit.trace", "torch.fx.symbolic_trace", "explorer.compile"])
    for name in ("torch.jit.trace", "torch.fx.symbolic_trace"):
        assert answers(done, name)["other global SCALE"] == "wrong"
    assert answers(done, "explorer.compile")["other global SCALE"] == "right"
    assert capture_programs.SCALE == 2.0


def test_a_flag_of_a_module():
    done = compared("module", ["torch.jit.trace", "explorer.compile"])
    assert answers(done, "torch.jit.trace")["other attribute residual"] == "wrong"
    assert answers(done, "explorer.compile")["other attribute residual"] == "right"


def test_mutation_is_compared():
    done = compared("mutation")
    assert set(answers(done, "explorer.compile").values()) == {"right"}


@pytest.mark.parametrize("name", BY_NAME)
def test_ours_is_right_on_all_programs(name):
    assert set(answers(compared(name, ["eager", "explorer.compile"]), "explorer.compile").values()) == {"right"}


def test_saving_is_tried():
    done = compared("pointwise", ["torch.jit.trace", "torch.fx.symbolic_trace"])
    assert "loaded again: right" in done["torch.jit.trace"].saved
    assert "libtorch" in done["torch.jit.trace"].runs_without_python
    assert "Python source" in done["torch.fx.symbolic_trace"].saved


def test_operations_of_eager_with_their_dispatch_keys():
    weight = torch.randn(3, requires_grad=True)

    def fn(x):
        return (x * weight).relu_()

    done = explorer.compare(fn, methods=["eager"], time=False)(torch.randn(2, 3))
    mul, relu = done.data.operations[:2]
    assert mul.name == "aten::mul.Tensor" and mul.result.startswith("f32[2, 3]") and mul.seconds > 0
    kernels = [step.key for step in mul.steps if step.does == "kernel"]
    assert kernels[:1] == ["AutogradCPU"] and kernels[-1] == "CPU"
    assert [step.key for step in relu.steps if step.does == "kernel"] == ["AutogradCPU", "ADInplaceOrView", "CPU"]
    assert mul.where.rpartition(":")[0] == __file__
    with torch.autocast("cpu", torch.bfloat16):
        done = explorer.compare(lambda x: x @ x, methods=["eager"], time=False)(torch.randn(2, 2))
    product = next(call for call in done.data.operations if call.name == "aten::mm")
    assert product.dtype == "bfloat16"


def test_inputs_change_one_thing_each():
    def fn(x, n, flag):
        return x * n if flag else x

    found = {each.name: each for each in inputs(fn, (torch.ones(2, 3), 2, True), {})}
    assert list(found) == [
        "as captured",
        "other values",
        "other shape",
        "other dtype",
        "other argument 1",
        "other argument 2",
    ]
    assert found["other shape"].args[0].shape == (3, 3)
    assert found["other argument 1"].args[1] == 3 and found["other argument 2"].args[2] is False
    assert found["other dtype"].text() == "f64[2, 3], 2, True"
    assert describe({"a": [torch.zeros(1), None]}) == "{'a': [f32[1], None]}"


def test_what_eager_raises_is_right_where_the_method_raises_the_same():
    def fn(x):
        if x.shape[0] == 3:
            raise KeyError("three")
        return x + 1

    others = {"three": (torch.ones(3),)}
    done = explorer.compare(fn, methods=["torch.jit.trace", "explorer.compile"], others=others, time=False)(
        torch.ones(2)
    )
    assert answers(done, "explorer.compile")["three"] == "right"
    assert answers(done, "torch.jit.trace")["three"] == "wrong"


@pytest.mark.parametrize("methods", [["eager"], ["torch.jit.trace"]])
def test_what_the_call_raises_propagates_with_the_frames_of_the_program_before_a_method_starts(methods):
    def fn(x):
        return inner(x)

    def inner(x):
        raise KeyError("three")

    told = []
    with pytest.raises(KeyError) as raised:
        explorer.compare(fn, methods=methods, tell=told.append)(torch.ones(2))
    assert [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)][1:] == ["fn", "inner"]
    assert not told


def test_meanings():
    assert "torch.cond" in meaning(
        "torch.export", "GuardOnDataDependentSymNode: Could not guard on data-dependent expression"
    )
    assert meaning("torch.export", "MemoryError: ") == ""


LINES = {"cos": 2, "matmul": 3, "relu": 4}
"""The line of `linked`, from its `def`, that asks for each operation."""


def linked(x, w):
    y = torch.cos(x)
    y = y @ w
    return torch.relu(y)


def lines_made(of: Compared, method: str) -> dict[str, set[int]]:
    """The lines of the program, from its `def`, that each operation is linked to, in all texts of a method."""
    first = linked.__code__.co_firstlineno
    found: dict[str, set[int]] = {name: set() for name in LINES}
    for line in (line for view in of[method].views for line in view.text.lines):
        for name, others in found.items():
            if re.match(rf"\s*%?{name}\b|.*(::|\.){name}\(", line.text.lower()):
                others |= {int(at.rpartition(":")[2]) - first + 1 for at in line.origins}
    return found


@pytest.mark.parametrize(
    "method", ["torch.jit.trace", "torch.jit.script", "torch.fx.symbolic_trace", "explorer.compile"]
)
def test_texts_lead_to_the_lines_of_the_program(method):
    done = explorer.compare(linked, methods=[method], time=False)(torch.ones(2, 3), torch.ones(3, 4))
    assert lines_made(done, method) == {name: {line} for name, line in LINES.items()}
    (source,) = done.data.sources
    assert source.file == __file__ and source.first_line == linked.__code__.co_firstlineno
    assert source.text.startswith("def linked") and source.text.endswith("torch.relu(y)")


def test_operations_lead_to_the_lines_of_the_program():
    done = explorer.compare(linked, methods=["eager"], time=False)(torch.ones(2, 3), torch.ones(3, 4))
    first = linked.__code__.co_firstlineno
    assert [call.where for call in done.data.operations] == [f"{__file__}:{first + n}" for n in (1, 2, 3)]
    (shown,) = done["eager"].views
    assert [line.origins for line in shown.text.lines] == [(call.where,) for call in done.data.operations]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["torch.export", "ONNX export", "torch.compile", "TensorFlow, define and run"])
def test_texts_of_exporters_lead_to_the_lines_of_the_program(method):
    done = explorer.compare(linked, methods=[method], time=False)(torch.ones(2, 3), torch.ones(3, 4))
    if done[method].missing:
        pytest.skip(done[method].missing)
    found = lines_made(done, method)
    assert found["cos"] == {2} and found["relu"] == {4}


def test_what_a_method_writes_is_kept_with_it(capfd):
    found = compared("branch", ["torch.export"])["torch.export"]
    assert "data-dependent" in found.error and "torch.cond" in found.meaning
    assert any("def forward" in each for each in found.warnings), "the graph, which export writes to standard error"
    assert capfd.readouterr().err == ""


def test_an_error_that_prints_a_whole_tensor_is_shortened():
    weight = torch.zeros(100, 300, requires_grad=True)
    done = explorer.compare(lambda x: x @ weight, methods=["torch.jit.trace"], time=False)(torch.ones(2, 100))
    error = done["torch.jit.trace"].error
    assert error.startswith("RuntimeError: Cannot insert a Tensor that requires grad") and len(error) < 11_000
    assert error.endswith("characters more)")


def test_each_input_says_what_eager_gives(branch):
    assert [each.expected.partition(" [")[0] for each in branch.data.inputs][0].startswith("output")
    assert all(each.expected for each in branch.data.inputs)


def test_an_output_holds_the_comparison_and_a_page_without_scripts(branch, tmp_path):
    bundle, _ = branch._repr_mimebundle_()
    assert in_output(bundle[METHODS_MIME], MethodsData) == branch.data
    assert len(json.dumps(bundle)) < MOST_ON_DISK
    assert "torch.jit.trace" in bundle["text/html"] and "torch.jit.trace" in bundle["text/plain"]
    page = branch.to_html(tmp_path / "branch.html").read_text()
    assert page.startswith("<!doctype html>") and branch.data.title in page


def test_a_page_without_the_viewer_says_so(branch, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "template", lambda: None)
    page = branch.to_html(tmp_path / "branch.html").read_text()
    assert "make extension" in page and "torch.jit.trace" in page and "<script" not in page


def test_report_takes_a_saved_comparison(branch, tmp_path):
    saved = branch.save(tmp_path / "branch.json")
    done = CliRunner().invoke(main, ["report", str(saved)])
    assert done.exit_code == 0 and (tmp_path / "branch.html").exists()
    assert "torch.jit.trace" in CliRunner().invoke(main, ["report", "--text", str(saved)]).output
    saved.write_text(saved.read_text().replace('"version":2', '"version":99', 1))
    refused = CliRunner().invoke(main, ["report", str(saved)])
    assert refused.exit_code == 2 and "version 99" in refused.output


def test_unknown_names_are_errors():
    with pytest.raises(ValueError, match="'magic'.*torch.jit.trace"):
        explorer.compare(len, methods=["magic"])
    with pytest.raises(ValueError, match="no backend 'magic'"):
        explorer.compare(torch.relu, methods=[], backends=["magic"], time=False)(torch.ones(1))


def test_saved_and_loaded(branch, tmp_path):
    path = branch.save(tmp_path / "branch.json")
    assert Compared.load(path).data == branch.data
    packed = branch.save(tmp_path / "branch.json.gz")
    assert Compared.load(packed).data == branch.data and packed.stat().st_size < path.stat().st_size / 2
    path.write_text("{}")
    with pytest.raises(RecordError, match="branch.json is not a comparison"):
        Compared.load(path)
    path.write_text(json.dumps({**json.loads(branch.save(path).read_text()), "version": 99}))
    with pytest.raises(RecordError, match="version 99"):
        Compared.load(path)


def test_the_page_shows_no_markup_of_the_program(branch):
    data = msgspec.structs.replace(branch.data, title="<script>alert(1)</script>")
    assert isinstance(data, MethodsData)
    shown = Compared(data)._repr_mimebundle_()[0]["text/html"]
    assert "&lt;script&gt;" in shown and "<script>" not in shown
    assert "| method |" in branch.markdown() and "torch.jit.trace" in branch.text()


@pytest.mark.slow
def test_every_method_on_a_module():
    program = BY_NAME["module"]
    fn, args = program.make()
    done = explorer.compare(fn, backends=["aot_eager"])(*args)
    for method in done.data.methods:
        if method.missing:
            continue
        assert method.verdicts, (method.name, method.error)
        assert method.verdicts[0].answer == "right", (method.name, method.verdicts[0])
        assert method.seconds is not None
    tensorflow = done["TensorFlow, define and run"]
    if not tensorflow.missing:
        placed, checkpoint = (str(view.text) for view in tensorflow.views[1:])
        assert "CPU:0" in placed and "every value came back" in checkpoint


SEEN: list[int] = []


def counting(x: torch.Tensor) -> torch.Tensor:
    SEEN.append(len(x.shape))
    return x + 1


def test_a_list_outside_that_is_not_appended_to_is_wrong() -> None:
    found = explorer.compare(counting, methods=["torch.jit.trace", "explorer.compile"], time=False)(torch.ones(3))
    answers = {method.name: [each.answer for each in method.verdicts] for method in found.data.methods}
    assert set(answers["torch.jit.trace"]) == {"wrong"} and set(answers["explorer.compile"]) == {"right"}
    assert "outside['SEEN']" in repr(found)
