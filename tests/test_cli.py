"""The command line: what it prints, what it writes, and how it ends, with good input and bad."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import explorer
from explorer.show import demo
from explorer.show.cli import main
from explorer.show.record import Record
from records import empty, sample

ROOT = Path(__file__).parent.parent


def invoke(*arguments: object) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(autouse=True)
def _keeps_its_own_main(monkeypatch) -> None:
    """A script that is run stays __main__."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))


def told(result: Result) -> str:
    """What the error says, on one line."""
    return " ".join(result.stderr.split())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return Record(sample()).save(tmp_path / "sample.explore.json.gz")


def test_the_list_of_commands_says_what_each_is_for_in_a_line() -> None:
    listed = invoke("--help").stdout.partition("Commands:\n")[2].splitlines()
    assert len(listed) > 12
    assert not [line for line in listed if not re.fullmatch(r"  \w+ +[A-Z].*[^.]\.", line)]


@pytest.mark.parametrize("command", ["demo", "run", "report", "step", "diff"])
def test_help_has_examples(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"explorer {command}" in result.stdout.partition("Examples:")[2]


def test_report_writes_a_page_beside_the_record(saved: Path) -> None:
    result = invoke("report", saved)
    assert result.exit_code == 0, result.output
    page = saved.with_name("sample.html")
    assert str(page) in result.stdout.replace("\n", "")
    assert "scaled" in page.read_text()


def test_report_writes_to_the_path_it_is_given(saved: Path, tmp_path: Path) -> None:
    assert invoke("report", saved, "-o", tmp_path / "out.html").exit_code == 0
    assert (tmp_path / "out.html").exists()


def test_report_prints_every_stage(saved: Path) -> None:
    result = invoke("report", saved, "--text")
    assert "=== f0 dead code" in result.stdout and "aten.mul(x, scale)" in result.stdout


def test_step_lists_what_a_query_finds(saved: Path) -> None:
    found = invoke("step", saved, "--find", "node:mul")
    assert found.exit_code == 0 and "node mul" in found.stdout and "1 step of 2" in found.stdout
    assert invoke("step", saved, "--find", "node:sub").exit_code == 1
    assert "expected one of op," in told(invoke("step", saved, "--find", "gurd:"))


def test_step_goes_to_the_step_it_is_given(saved: Path) -> None:
    assert "f0, step 1 of 1" in invoke("step", saved, "--at", "1").stdout
    assert "no step 2" in told(invoke("step", saved, "--at", "2"))
    assert "expected one of 'f0'" in told(invoke("step", saved, "--compile", "f9"))
    walked = CliRunner().invoke(main, ["step", str(saved)], input="i\nI\n/node:\n1\nC\nn\nwhat\nq\ni\n").stdout
    *_, last = walked.split("ends\n")
    shown = [line for line in walked.splitlines() if line.startswith(("f0, step", "No such step", "1 step"))]
    first, second = "f0, step 0 of 1", "f0, step 1 of 1"
    expected = [first, second, first, "1 step of 2", second, first, "No such step from here; the steps are 0 to 1."]
    assert [line.partition(":")[0] for line in shown] == expected
    assert "A query is made of" in last, "what is no command gets help, and nothing follows the end"


def test_a_record_without_steps_says_why(tmp_path: Path) -> None:
    bare = Record(empty()).save(tmp_path / "bare.explore.json")
    assert "has no steps" in told(invoke("step", bare))


@pytest.mark.parametrize("command", ["report", "diff"])
@pytest.mark.parametrize(
    ("contents", "said"),
    [(None, "no such file"), (b"hello", "is not a record"), (b"\x1f\x8bhello", "damaged"),
     (b'{"version": 99, "compiles": []}', "upgrade torch-explorer")],
    ids=["absent", "text", "damaged", "newer"],
)  # fmt: skip
def test_what_is_not_a_record_is_wrong_input(tmp_path: Path, command: str, contents: bytes | None, said: str) -> None:
    file = tmp_path / "file.json"
    if contents is not None:
        file.write_bytes(contents)
    result = invoke(command, file, *([file] if command == "diff" else []))
    assert result.exit_code == 2
    assert said in told(result) and "file.json" in told(result)
    assert "Traceback" not in result.output


def test_logs_that_are_not_there_are_told_as_records_are(tmp_path: Path) -> None:
    said = told(invoke("ranks", tmp_path / "gone"))
    assert "gone: no such file or directory" in said and "Errno" not in said


def test_a_folder_is_not_a_record(tmp_path: Path) -> None:
    result = invoke("report", tmp_path)
    assert result.exit_code == 2 and "expected a record" in told(result)


def test_a_page_that_cannot_be_written(saved: Path, tmp_path: Path) -> None:
    result = invoke("report", saved, "-o", tmp_path / "absent" / "out.html")
    assert result.exit_code == 1
    assert "cannot write the page" in told(result) and "choose another file with -o" in told(result)


def test_diff_of_equal_records(saved: Path) -> None:
    result = invoke("diff", "--exit-code", saved, saved)
    assert result.exit_code == 0
    assert "0 of 7 stages differ" in result.stdout


def test_diff_shows_the_lines(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.explore.json"
    Record(sample()).save(other)
    other.write_text(other.read_text().replace('* scale","buf0"', '* 3","buf0"'))
    assert invoke("diff", saved, other).exit_code == 0
    result = invoke("diff", "--exit-code", saved, other)
    assert result.exit_code == 1
    assert "+buf0[i0, i1] = x[i0, i1] * 3" in result.stdout and "1 of 7 stages differ" in result.stdout


SCRIPT = """
import sys
import torch
import explorer

@explorer.compile
def f(x):
    return torch.relu(x) * 2 + 1

print(f(torch.ones(8)).sum().item(), __name__, sys.argv[1:])
"""


def run_script(tmp_path: Path, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(source)
    command = [sys.executable, "-m", "explorer", "run", "--out", str(tmp_path / "out"), str(script), *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def test_run_records_a_script_and_ends_as_it_does(tmp_path: Path) -> None:
    ran = run_script(tmp_path, SCRIPT + "sys.exit(7)\n", "--steps", "3")
    assert ran.returncode == 7, ran.stderr
    assert ran.stdout == "24.0 __main__ ['--steps', '3']\n"
    record = Record.load(tmp_path / "out" / "script.explore.json.gz")
    assert record.kernels and record.data.title == "script.py"
    assert (tmp_path / "out" / "script.html").exists()


def test_run_records_torch_compile_and_shows_the_script_s_own_traceback(tmp_path: Path) -> None:
    source = SCRIPT.replace("@explorer.compile", '@torch.compile(backend="explorer")')
    ran = run_script(tmp_path, source + "def g():\n    raise KeyError('mine')\ng()\n")
    assert ran.returncode == 1
    assert "KeyError: 'mine'" in ran.stderr and "in g" in ran.stderr
    assert "explorer/show/cli" not in ran.stderr
    assert Record.load(tmp_path / "out" / "script.explore.json.gz").kernels


AS_ITSELF = """
'''A document.'''
import os, sys, torch, explorer

def told(x: int) -> str: pass

print(sorted(each for each in globals() if each.startswith("__")), type(__builtins__), type(__loader__))
print(__file__, __name__, __doc__, __spec__, __package__, sys.argv, sys.path[0], told.__annotations__)
print(told.__code__.co_filename, sys.modules["__main__"].told is told)
torch.set_default_device("meta")
explorer.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
os.mkdir("elsewhere")
os.chdir("elsewhere")
sys.stderr = open("errors", "w")
sys.exit("at the end")
"""


def test_a_script_that_is_run_finds_itself_as_python_has_it(tmp_path: Path) -> None:
    ways: dict[str, list[str]] = {"python": [], "explorer": ["-m", "explorer", "run"]}
    printed = {}
    for way, command in ways.items():
        folder = tmp_path / way
        (folder / "scripts").mkdir(parents=True)
        (folder / "scripts" / "plain.py").write_text(AS_ITSELF)
        (folder / "linked.py").symlink_to(folder / "scripts" / "plain.py")
        ran = subprocess.run(
            [sys.executable, *command, "./linked.py", "--steps"], cwd=folder, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=300, check=False,
        )  # fmt: skip
        assert ran.returncode == 1, ran.stderr
        assert (folder / "elsewhere" / "errors").read_text() == "at the end\n"
        printed[way] = ran.stdout.replace(str(folder), "FOLDER")
    assert printed["python"] == printed["explorer"] and "FOLDER/./linked.py __main__ A document." in printed["python"]
    assert (tmp_path / "explorer" / "linked.explore.json.gz").exists()


def test_a_module_that_is_run_finds_itself_as_python_has_it(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "other.py").write_text("RATE = 2\n")
    (package / "train.py").write_text(AS_ITSELF.replace("import os", "from .other import RATE\nimport os", 1))
    (package / "__main__.py").write_text(SCRIPT + "from .other import RATE\nprint(RATE, __package__)\n")
    printed = {}
    for command in (["-m"], ["-m", "explorer", "run", "-m"]):
        for name in ("package.train", "package"):
            ran = subprocess.run(
                [sys.executable, *command, name, "--steps"], cwd=tmp_path, capture_output=True, text=True,
                env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=300, check=False,
            )  # fmt: skip
            assert ran.returncode == (name != "package"), ran.stderr
            printed.setdefault(name, []).append(re.sub("0x[0-9a-f]+", "ADDRESS", ran.stdout))
        shutil.rmtree(tmp_path / "elsewhere")
    assert all(one == other for one, other in printed.values()), printed
    assert {each.name for each in tmp_path.glob("*.gz")} == {"train.explore.json.gz", "package.explore.json.gz"}
    absent = invoke("run", "-m", "package_that_is_not_here")
    assert absent.exit_code == 2 and "no module of Python code called package_that_is_not_here" in told(absent)


LEAVES_A_THREAD = """
def work():
    time.sleep(0.5)
    print(f(torch.ones(9)).sum().item())
import threading, time
threading.Thread(target=work).start()
END
"""


@pytest.mark.parametrize("end", ("pass", "raise KeyError('mine')", "sys.exit(0)"))
def test_what_a_thread_compiles_after_the_scripts_end_is_recorded(tmp_path: Path, end: str) -> None:
    ran = run_script(tmp_path, SCRIPT + LEAVES_A_THREAD.replace("END", end))
    assert ran.returncode == ("mine" in end) and ran.stdout.endswith("27.0\n"), ran.stderr
    (called,) = Record.load(tmp_path / "out" / "script.explore.json.gz").calls
    assert called.count == 2


def test_run_of_a_script_without_a_compile_says_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('nothing')\n")
    ran = invoke("run", "--out", tmp_path / "out", script)
    assert ran.exit_code == 0
    assert "compiled nothing" in told(ran) and "torch.compile or explorer.compile" in told(ran)
    assert not (tmp_path / "out").exists()


def test_run_of_what_is_not_a_script(tmp_path: Path) -> None:
    absent = invoke("run", tmp_path / "absent.py")
    assert absent.exit_code == 2 and "absent.py: " in told(absent)
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def f(:\n")
    result = invoke("run", wrong)
    assert result.exit_code == 2 and "is not a Python script" in told(result)


POOLS = """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)  # its threads wait for work until Python ends them
print(pool.submit(f, torch.ones(9)).result().sum().item())
"""


def test_a_pool_of_threads_that_nobody_shut_down_ends_with_the_script(tmp_path: Path) -> None:
    ran = run_script(tmp_path, SCRIPT + POOLS)
    assert ran.returncode == 0 and ran.stdout.endswith("27.0\n"), ran.stderr
    assert Record.load(tmp_path / "out" / "script.explore.json.gz").calls[0].count == 2


NAMED = """
import __main__, atexit, pickle
class Kept: pass
atexit.register(lambda: print("at exit", type(pickle.loads(pickle.dumps(Kept()))) is __main__.Kept))
names = sorted(name for name in vars(__main__) if name.endswith("__") and "in__" not in name)
print({name: str(vars(__main__)[name]) for name in names})
print(sys.path[0])
def left():
    yield f(torch.ones(2))
print(len(list(torch.compile(left, backend="eager")())))
raise KeyError("end")
"""


@pytest.mark.parametrize("form", ("file", "stdin", "folder", "archive"))
def test_each_form_of_script_runs_as_python_runs_it(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "__main__.py").write_text(SCRIPT + NAMED)
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    script = {"file": "app/__main__.py", "stdin": "-", "folder": "app", "archive": archive}[form]
    told_by = []
    for command in ([], ["-m", "explorer", "run"]):
        told_by.append(
            subprocess.run(
                [sys.executable, *command, script, "--steps"], cwd=tmp_path, capture_output=True, text=True,
                input=SCRIPT + NAMED, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=300, check=False,
            )
        )  # fmt: skip
    python, ours = (re.sub("0x[0-9a-f]+", "ADDRESS", each.stdout) for each in told_by)
    assert python == ours and "at exit True" in ours
    assert told_by[0].returncode == told_by[1].returncode == 1
    raised = told_by[0].stderr.splitlines()[-2 - (form == "file") :]  # after the frames of runpy
    assert "\n".join(raised) in told_by[1].stderr
    (saved,) = tmp_path.glob("*.explore.json.gz")
    record = Record.load(saved)
    assert record.data.title == {"stdin": "stdin", "archive": "packed.zip"}.get(form, script.rpartition("/")[2])
    assert any("torch.relu(x) * 2 + 1" in each.text for each in record.data.sources)
    assert form not in ("file", "stdin") or [each.what for each in record.eager] == ["left"]


def test_each_process_that_reaches_the_scripts_end_writes_a_record_of_its_own(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("RANK", "3")
    forks = "\nimport os\nif (child := os.fork()) == 0: f(torch.ones(3))\nelse: os.waitpid(child, 0); print(child)\n"
    ran = run_script(tmp_path, SCRIPT + forks)
    assert ran.returncode == 0, ran.stderr
    child = ran.stdout.split()[-1]
    calls = {each.name: Record.load(each).calls[0].count for each in (tmp_path / "out").glob("*.gz")}
    assert calls == {"script.rank3.explore.json.gz": 1, f"script.rank3.process{child}.explore.json.gz": 2}


def test_the_demo_says_that_stock_raises_and_keeps_what_is_ours(tmp_path: Path, monkeypatch) -> None:
    def raises(*_, **__):
        raise RuntimeError("C++ compile error\na.cpp:1:10: fatal error: Python.h: No such file or directory")

    monkeypatch.setattr(demo, "cases", lambda: demo.CNN[:1])
    monkeypatch.setattr(demo, "compile_with_stock", raises)
    result = invoke("demo", "--out", tmp_path)
    said = "small CNN, inference: stock torch.compile raises RuntimeError: Python.h: No such file or directory"
    assert result.exit_code == 0 and said in " ".join(result.stdout.split()), result.output
    assert said in (tmp_path / "index.html").read_text()
    assert Record.load(tmp_path / "cnn-inference.explore.json.gz").kernels


def test_demo_without_transformers_runs_the_convolutional_network(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    result = invoke("demo", "--no-stock", "--out", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    assert "pip install 'torch-explorer[models]'" in " ".join(result.stdout.split())
    assert {file.name for file in (tmp_path / "demo").iterdir()} == {
        "index.html", "cnn-inference.html", "cnn-inference.explore.json.gz", "cnn-training.html",
        "cnn-training.explore.json.gz",
    }  # fmt: skip
    for name in ("cnn-inference", "cnn-training"):
        record = Record.load(tmp_path / "demo" / f"{name}.explore.json.gz")
        assert record.kernels and not record.breaks and not record.coverage.fallback
        assert record.timing and record.timing.accuracy and not record.timing.accuracy.first_mismatch
        assert [c.name for c in record.timing.contestants] == ["eager", "explorer"]
        assert f"{name}.html" in (tmp_path / "demo" / "index.html").read_text()


@pytest.mark.slow
def test_demo_with_a_gpt2(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    result = invoke("demo", "--no-stock", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    for name in ("gpt2-inference", "gpt2-training"):
        record = Record.load(tmp_path / f"{name}.explore.json.gz")
        assert len(record.breaks) <= 2 and not record.coverage.fallback
        assert record.timing and record.timing.accuracy and not record.timing.accuracy.first_mismatch


def test_demo_into_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = invoke("demo", "--out", tmp_path / "file" / "demo")
    assert result.exit_code == 1 and "choose another folder with -o" in told(result)


NO_TORCH = """
import sys
from explorer.show.cli import main
main(sys.argv[1:], standalone_mode=False)
assert "torch" not in sys.modules
"""


@pytest.mark.skipif(not explorer._known_to_torch(), reason="not installed, it tells torch of its backend")
def test_what_reads_logs_does_without_torch(tmp_path: Path) -> None:
    """Importing torch takes most of the time and of the memory that such a command needs."""
    log = Path(__file__).parent / "logs" / "torch-2.11-rank-0.log.gz"
    for arguments in (["import", log, "--html", "-o", tmp_path], ["ranks", log]):
        done = subprocess.run([sys.executable, "-c", NO_TORCH, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
