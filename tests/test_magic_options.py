"""Options of the magics, and the magics about records that exist."""

import pytest
import torch

from explorer import Record
from explorer.ir import record as data
from explorer.show.notebook import magics
from records import in_output

pytest_plugins = ["cells"]


def test_the_record_goes_into_a_variable_and_a_file(shell, tmp_path):
    file = tmp_path / "r.explore.json.gz"
    done = shell.run(f"%%explore -o record --save {file} --name mine\ny = x + 1")
    assert isinstance(shell.names["record"], Record)
    assert Record.load(file).data == shell.names["record"].data
    assert done.record.title == "mine"
    assert str(file) in done.out
    bundle, metadata = shell.names["record"]._repr_mimebundle_()
    assert metadata[data.MIME]["live"] == done.shown[0].metadata[data.MIME]["live"]
    assert bundle[data.MIME]["title"] == "mine"


def test_a_file_that_cannot_be_written_loses_nothing(shell, tmp_path):
    done = shell.run(f"%%explore -o record --save {tmp_path}/absent/r.json\ny = x + 1")
    assert "Not saved" in done.error
    done = shell.run(f"%%explore -o record --save {tmp_path}/page.html\ny = x + 1")
    assert "call to_html" in done.error
    assert shell.names["record"].kernels


def test_variables_in_the_line_are_expanded(shell, tmp_path):
    shell.names["folder"] = tmp_path
    shell.run("%%explore --save {folder}/r.json\ny = x + 1")
    assert (tmp_path / "r.json").exists()


def test_options_reach_the_compiler(shell):
    assert shell.run("%%explore --dynamic\ny = x + 1").record.config["dynamic"] == "True"
    assert shell.run("%%explore --no-dynamic\ny = x + 1").record.config["dynamic"] == "False"
    done = shell.run("%%explore --target cuda:sm_90\ny = x + 1")
    assert done.record.target == "cuda:sm_90"
    assert "ptx" in done.record.compiles[0].halves[0].kernels[0].lowered


def test_panes_are_named_in_the_outputs_metadata(shell):
    done = shell.run("%%explore --stage code --stage guards\ny = x + 1")
    assert [output.metadata[data.MIME]["panes"] for output in done.shown] == [["code", "guards"]] * 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--bogus", "unrecognized arguments"),
        ("--engine nothing", "invalid choice"),
        ("--stage nothing", "invalid choice"),
        ("--target nothing", "no target 'nothing'"),
        ("-o 1x", "name of a variable"),
        ("y = x", "statements below"),
    ],
)
def test_a_wrong_option_is_reported_before_the_cell_runs(shell, line, said):
    done = shell.run(f"%%explore {line}\ny = count(x)")
    assert not done.success
    assert said in done.error + done.out
    assert "Traceback" not in done.out
    assert shell.names["calls"] == 0


def test_defaults_for_the_notebook(shell):
    assert "engine" not in shell.run("%explore_config --dynamic --name all").out.replace("name='all'", "")
    assert shell.run("%%explore\ny = x + 1").record.title == "all"
    assert shell.run("%%explore --name one\ny = x + 1").record.title == "one"
    assert "defaults" in shell.run("%explore_config --reset").out
    assert shell.run("%%explore --no-time\ny = x + 1").record.title == "y = x + 1"


def test_an_expression_on_a_line(shell):
    done = shell.run("%explore torch.relu(count(x))  + 1")
    assert torch.equal(done.result.result, torch.relu(shell.names["x"]) + 1)
    assert shell.names["calls"] == 1
    assert done.record.compiles
    shell.run("y = %explore --name 'two words' x * 2")
    assert torch.equal(shell.names["y"], shell.names["x"] * 2)
    assert "takes one expression" in shell.run("%explore y = 1").error
    assert "invalid syntax" in shell.run("%explore y +").error
    assert "takes an expression" in shell.run("%explore --no-time").error
    failed = shell.run("%explore undefined + x")
    assert "NameError" in failed.out
    assert "explorer/show/notebook" not in failed.out


def test_a_record_before_and_after_an_edit(shell):
    assert "nothing has been explored" in shell.run("%explore_diff").error
    shell.run("%%explore\ny = x * 2", cell_id="a")
    assert "explored only once" in shell.run("%explore_diff").error
    shell.run("%%explore\ny = x - 9", cell_id="b")
    shell.run("%%explore\ny = x * 3", cell_id="a")
    bundle, _ = shell.run("%explore_diff").result.result._repr_mimebundle_()
    pair = in_output(bundle[data.DIFF_MIME], data.DiffData)
    assert (pair.before.title, pair.after.title) == ("y = x * 2", "y = x * 3")
    assert "stages differ" in bundle["text/plain"]


def test_two_records_by_name_and_file(shell, tmp_path):
    shell.run(f"%%explore -o one --save {tmp_path}/one.json\ny = x * 2")
    shell.run("%%explore -o other\ny = x * 3")
    assert "stages differ" in shell.run(f"%explore_diff {tmp_path}/one.json other").out
    assert "neither a variable" in shell.run("%explore_diff one nothing").error
    assert "takes two records" in shell.run("%explore_diff one").error


def test_a_report(shell, tmp_path):
    assert "nothing has been explored" in shell.run(f"%explore_report {tmp_path}/r.html").error
    shell.run("%%explore -o record\ny = x * 2")
    shell.run(f"%explore_report {tmp_path}/r.html")
    assert "<html" in (tmp_path / "r.html").read_text()
    shell.run(f"%explore_report {tmp_path}/s.html record")
    assert (tmp_path / "s.html").exists()
    assert "cannot write the file" in shell.run(f"%explore_report {tmp_path}/absent/r.html").error


def test_steps_of_the_last_record(shell):
    assert "nothing has been explored" in shell.run("%step").error
    done = shell.run("%%step\ny = x * 2")
    assert [compile.title for compile in done.record.compiles] == ["cell"]
    assert done.shown[-1].data[data.MIME]["title"] == "y = x * 2"
    found = shell.run("%step node:").out
    assert "1 node" in found and "node mul" in found and "stack (" in found, "one step is shown in full"
    assert "expected one of op," in shell.run("%step gurd:").error
    assert "step 0 of" in shell.run("%step 0").out
    assert "has no values. explorer.explore(..., values=True)" in shell.run("%step --values nan:").out
    shell.run("%%explore --values --no-time\ny = torch.log(x * 2 - 9)")
    assert "begins with log (aten.log.default)" in shell.run("%step --values nan:").out


def test_help_has_options_and_examples():
    for magic in ("explore", "explore_diff", "explore_config", "explore_report", "step"):
        said = getattr(magics.ExplorerMagics, magic).__doc__
        assert "Examples" in said
        assert f"%{magic}" in said
    for option in ("--engine", "--grad", "--dynamic", "--target", "--stage", "--no-time", "--name", "--save", "-o"):
        assert option in magics.ExplorerMagics.explore.__doc__
