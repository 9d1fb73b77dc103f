"""The course: every solution is right, every wrong answer fails as meant, and the lessons say what is so."""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import pytest
import torch
from click.testing import CliRunner
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient

import explorer
from benchmarks.classroom import at_once
from course_mutants import SEVERAL, drawn
from explorer.compiler.bytecode.decode import decode
from explorer.course import PUZZLES, ClaimFailed, check, claim, process
from explorer.course.attempts import FILE, RECORDS, Attempts
from explorer.course.board import examples, lines, page
from explorer.course.build import FOLDERS, Kind, lesson, notebook, section, sources, text
from explorer.course.check import CheckResult, checked
from explorer.course.compared import copies
from explorer.course.grade import NotANotebook, answers
from explorer.course.lessons import breaks, capture, guards
from explorer.course.magics import CourseMagics, NotYet
from explorer.course.parameter_server import AHEAD, train
from explorer.course.process import SECONDS, Server
from explorer.course.puzzle import STEPS, Answer, run
from explorer.show.cli import main
from explorer.show.record import Record
from explorer.show.view.glossary import GLOSSARY, PANES

ROOT = Path(__file__).parent.parent
SOURCES = sources()


def test_an_answer_gets_the_same_verdict_each_time() -> None:
    lists = "import torch\n\ndef prepare(xs):\n    raise ValueError(float(xs[0][0]))\n\nstep = pooled = prepare\n"
    first, again, other = (check("guards-3", lists, seed).message for seed in (0, 0, 1))
    assert first == again != other, (first, other)


@pytest.mark.parametrize("id", PUZZLES)
def test_each_wrong_answer_fails_as_meant_and_the_solution_is_right(id: str) -> None:
    """For inputs that the notebooks do not ask with: these run the solutions too."""
    puzzle = PUZZLES[id]
    verdict = check(id, puzzle.solution + "\n0", seed=7)
    assert verdict.ok, verdict
    if "def " in puzzle.solution:  # else tries are counted
        assert verdict.scores and all(", par " in score for score in verdict.scores)
        assert "lines" not in verdict.scores[0] or "(can be better)" in verdict.scores[0]  # for par is the solution's
    assert check(id, puzzle.starter).step == "defined"
    assert len(puzzle.wrong) >= 3
    for wrong in puzzle.wrong:
        verdict = check(id, wrong.code, seconds=3 if "while True" in wrong.code else SECONDS)
        assert (verdict.ok, verdict.step) == (False, wrong.step), verdict
        assert wrong.says in verdict.message, verdict
        assert verdict.step == "defined" or shows(verdict), verdict


def shows(verdict: CheckResult) -> bool:
    """Whether it names a record, and a pane or a place in that record."""
    record = Record.load(verdict.record)
    if not verdict.at.startswith("#"):
        return verdict.at in PANES
    pane, compile, stage, element, created = map(unquote, verdict.at.removeprefix("#").split("/"))
    [found] = [each for each in record.data.compiles if each.id == compile]
    is_place = element in ids(record, compile) or re.fullmatch(r"step\d+|<placed graph>:\d+|k0:\d+|", element)
    stages = {"", *(each.id for each in found.stages)}
    return pane in PANES and created == record.data.created and stage in stages and bool(is_place)


def test_the_steps_of_a_check_are_in_order() -> None:
    answer = Answer({}, 0)
    with answer.at("used"), answer.at("right"):
        pass
    with pytest.raises(AssertionError, match="used after right"), answer.at("used"):
        pass


def test_a_failure_whose_record_cannot_be_made_says_so() -> None:
    code = "def weighted(x):\n    return x\n"
    puzzle = replace(PUZZLES["shapes-3"], given="def before(x):\n    raise ValueError('no')\n")
    with tempfile.TemporaryDirectory() as folder:
        verdict = checked(puzzle, code.replace("x\n", "torch.stack(missing)\n"), keep=folder)
    assert "NameError" in verdict.message and "(no record can be shown: ValueError: no)" in verdict.message


def test_a_puzzle_is_complete() -> None:
    for id, puzzle in PUZZLES.items():
        assert re.fullmatch(r"[a-z]+-\d", id) and len(set(puzzle.hints)) == 3 and puzzle.minutes
        assert {wrong.step for wrong in puzzle.wrong} <= set(STEPS)


# A process of its own.


@pytest.mark.parametrize(("load", "tried"), [(0.0, True), (100.0, False)])
def test_stock_is_prepared_unless_the_machine_is_busy(
    load: float, tried: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    monkeypatch.setattr(process, "probe_vector_instructions", lambda: made.write_text(str(os.getpid())))
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    child = process._prepare_stock()
    assert bool(child) == tried
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and made.read_text() == str(child)


BREAKS = PUZZLES["breaks-3"]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def live(steps, at):\n    while True:\n        pass\n", "a loop that does not end"),
        ("def live(steps, at):\n    import ctypes\n    ctypes.string_at(0)\n", "SIGSEGV"),
        ("def live(steps, at):\n    import os\n    os._exit(3)\n", "status 3"),
        ("def live(steps, at):\n    return bytearray(1 << 40)\n", "MemoryError"),
        ("def live(steps, at):\n    return live(steps, at)\n", "RecursionError"),
        ("def live(steps, at):\n    raise SystemExit\n", "status 1"),
        ("live = lambda steps: 1\n", "TypeError"),
        ("def live(steps, at)\n", "line 2 is not Python"),
        ("x = missing\n", "name 'missing' is not defined"),
    ],
)
def test_what_goes_wrong_in_an_answer_is_a_message(code: str, says: str) -> None:
    verdict = check("breaks-3", code, seconds=3)
    assert not verdict.ok and says in verdict.message, verdict
    first = "`line` with a break before instruction 0" in verdict.message
    assert first or verdict.step == "defined" or says == "status 1"


@pytest.mark.parametrize(
    ("code", "says"), [("__builtin_trap(), {x}", "SIGILL"), ("*(volatile float*)0 + {x}", "SIGSEGV")]
)
def test_a_crash_of_generated_code_is_a_message_with_a_record(code: str, says: str) -> None:
    verdict = check("printers-1", f'def rule(dtype, x):\n    return f"({code})"\n')
    assert (verdict.ok, verdict.step) == (False, "compiles") and says in verdict.message and shows(verdict), verdict


def test_an_answer_that_waits_is_ended() -> None:
    verdict = check("breaks-3", "def live(steps, at):\n    import time\n    time.sleep(1000)\n", seconds=0.5)
    assert not verdict.ok and "not done after 3 s" in verdict.message, verdict


def test_after_a_crash_the_next_check_is_right_and_its_record_can_be_opened() -> None:
    check("breaks-3", "def live(steps, at):\n    import os\n    os.kill(os.getpid(), 11)\n")
    assert check("breaks-3", BREAKS.solution).ok
    wrong = PUZZLES["breaks-1"].wrong[0]
    verdict = check("breaks-1", wrong.code)
    assert Path(verdict.record).exists() and verdict.at == "breaks"


def test_what_an_answer_prints_is_kept() -> None:
    verdict = check("breaks-3", f"print('hello')\n{BREAKS.solution}")
    assert verdict.ok and verdict.printed == "hello\n"


@pytest.mark.slow
def test_checks_at_once_are_neither_lost_nor_wrong() -> None:
    seconds, lost, wrong, most = at_once([Server() for _ in range(3)])
    assert len(seconds) == 3 and (lost, wrong) == (0, 0) and most > 1 << 20


FORKED = """
import importlib.util, pathlib
from explorer.core.files import PACKAGE
from explorer.course import PUZZLES, process
bytecode = importlib.util.cache_from_source(str(PACKAGE / "compiler" / "runtime" / "triton_ops.py"))
pathlib.Path(bytecode).unlink(missing_ok=True)  # a check imports it, and may not write it
[server] = process._SERVERS
solution = PUZZLES["decompose-1"].solution
shown = "from IPython.display import display; display(3)\\n"
right = process.check("decompose-1", shown + solution)
crashed = process.check("breaks-3", "def live(steps, at):\\n    import ctypes\\n    ctypes.string_at(0)\\n")
again = process.check("decompose-1", solution)
imported = importlib.util.find_spec("triton") is None or process.check("printers-5", PUZZLES["printers-5"].solution).ok
killed = "SIGSEGV" in crashed.message
print([server.process, right.ok, right.printed, killed, crashed.printed, again.ok, imported, server.alive])
"""


@pytest.mark.slow
def test_what_checks_is_a_fork_of_a_class_s_kernel_and_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    startup = tmp_path / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "10-explorer.py").write_text((ROOT / "binder" / "startup.py").read_text())
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    cells = [nbformat.v4.new_code_cell(code) for code in (FORKED, "import os; os.getpid()", FORKED)]
    client = NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=120)
    with client.setup_kernel():
        made = [client.execute_cell(cell, at) for at, cell in enumerate(cells)]
        server, *told = ast.literal_eval(printed(made[0]))
        status = Path(f"/proc/{server}/status").read_text()
        assert f"PPid:\t{made[1].outputs[0]['data']['text/plain']}\n" in status
        assert told == [True, "3\n", True, "", True, True, True] and ast.literal_eval(printed(made[2]))[0] == server
        assert not [each for each in Path(f"/proc/{server}/fd").iterdir() if "socket" in os.readlink(each)]
    until = time.monotonic() + 20
    while Path(f"/proc/{server}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{server}").exists()


def test_the_seed_is_the_environment_s(monkeypatch: pytest.MonkeyPatch) -> None:
    code = PUZZLES["partition-2"].solution.replace("    s =", "    print(float(x.sum()))\n    s =")
    found = []
    for seed in ("0", "0", "5"):
        monkeypatch.setenv("EXPLORER_COURSE_SEED", seed)
        found.append(check("partition-2", code).printed)
    assert found[0] == found[1] != found[2]


def test_the_steps_that_a_notebook_shows_are_those_of_its_function() -> None:
    given: dict[str, Any] = {}
    exec(BREAKS.given, given)
    assert given["steps"] == breaks.steps(decode(given["maybe"].__code__))


@pytest.mark.parametrize("body", [body for body, _ in breaks.BODIES], ids=lambda body: body.__name__)
def test_the_record_of_a_body_that_fails_has_a_kernel(body: Any) -> None:
    args = (torch.ones(2), *(2 for _ in range(body.__code__.co_argcount - 1)))
    assert len(explorer.explore(body, time=False)(*args).kernels) == 1


def test_a_message_names_what_an_answer_may_use() -> None:
    code = PUZZLES["breaks-2"].solution.replace("torch.relu", "relu")
    said = checked(PUZZLES["breaks-2"], code).message
    assert "name 'relu' is not defined" in said and "it has: F, before, clipped" in said
    assert checked(PUZZLES["breaks-2"], code.replace("relu(x)", "F.relu(x)")).ok


def test_a_failure_opens_the_record_where_it_is() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for id, at in (("guards-2", 0), ("decompose-1", 0), ("partition-3", 0), ("fusion-3", 0), ("breaks-2", 2)):
            verdict = checked(PUZZLES[id], PUZZLES[id].wrong[at].code, keep=folder)
            pane, compile, _, element, created = map(unquote, verdict.at.removeprefix("#").split("/"))
            record = Record.load(verdict.record)
            assert record.data.created == created and element in ids(record, compile), (id, verdict.at)


def ids(record: Record, compile: str) -> set[str]:
    """Of a compile: its guards, instructions, nodes, loops and kernels."""
    [found] = [each for each in record.data.compiles if each.id == compile]
    nodes = [node.id for stage in found.stages if stage.graph is not None for node in stage.graph.nodes]
    made = [each.id for half in found.halves for each in (*half.operations, *half.kernels)]
    steps = [each.id for code in found.codes for each in code.instructions]
    return {each.id for each in found.guards} | set(nodes) | set(made) | set(steps)


def test_a_puzzle_that_does_not_exist() -> None:
    with pytest.raises(KeyError, match="no puzzle 'nothing-1'"):
        check("nothing-1", "")


@pytest.mark.slow
@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="the table is that of torch 2.13")
def test_the_methods_do_what_the_puzzle_says_of_them() -> None:
    given: dict[str, Any] = {"__name__": "puzzle"}
    run(PUZZLES["capture-3"].given, "<given of capture-3>", given)
    for function, (first, second) in given["calls"].items():
        said = dict(zip(capture.COLUMNS.values(), capture.OUTCOMES[function.__name__].split(), strict=True))
        compare = explorer.compare(function, methods=list(said), others={"second": copies(second)}, time=False)
        for method in compare(*copies(first)).data.methods:
            verdict = next((each.answer for each in method.verdicts if each.input == "second"), "refused")
            found = capture.ANSWERS[verdict][0]
            assert method.missing or found == said[method.name], (function.__name__, method.name, method.error)


def test_our_own_guards_accept_what_the_lesson_says() -> None:
    assert abs(guards.ours(0) - guards.OURS) < 0.01


# The magics.


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InteractiveShell:
    monkeypatch.chdir(tmp_path)
    made = InteractiveShell()
    made.register_magics(CourseMagics)
    made.user_ns["explorer"] = explorer
    return made


def test_hints_come_one_after_the_other(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(4):
        shell.run_line_magic("hint", "breaks-3")
    said = capsys.readouterr().out.splitlines()
    last = "(the last hint; `%solution breaks-3` shows a solution)"
    first = [f"Hint {level} of 3: {hint}" for level, hint in enumerate(BREAKS.hints, 1)]
    assert said == [*first, last, first[-1], last]
    assert Attempts().count("hint", "breaks-3") == 4


def test_a_solution_is_shown_once_one_has_tried(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="try breaks-3 once first"):
        shell.run_line_magic("solution", "breaks-3")
    with pytest.raises(NotYet, match="not complete: line 2 is still"):
        shell.run_cell_magic("puzzle", "breaks-3", "live = ...\n")
    shell.run_line_magic("solution", "breaks-3")
    assert Attempts().count("solution", "breaks-3") == 1


def test_a_graded_cell_passes_while_the_last_answer_is_right(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    right, wrong = "depths = [0, 1, 2, 1, 2, 1]\n", "depths = [0, 1, 2, 3, 4, 5]\n"  # one that is incomplete is no try
    for code, is_right in ((wrong, False), (right, True), (wrong, False)):
        with nullcontext() if is_right else pytest.raises(NotYet):
            shell.run_cell_magic("puzzle", "symbolic-1", code)
        with nullcontext() if is_right else pytest.raises(NotYet, match="symbolic-1 has no right answer yet"):
            shell.run_line_magic("graded", "symbolic-1")
    assert "✓ symbolic-1: right, at try 2" in capsys.readouterr().out
    with pytest.raises(UsageError, match="there is no puzzle 'nothing'"):
        shell.run_line_magic("graded", "nothing")


def test_a_prediction_is_compared_with_the_record(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    cell = "explorer.explore(lambda x: x * 2 + 1, time=False)(__import__('torch').ones(3))"
    shell.run_cell_magic("predict", "nodes=3 kernels=1", cell)
    said = capsys.readouterr().out
    assert "✗ operations in the captured graphs: you said 3, the record has 2; print(record.graphs) shows them" in said
    assert "✓ generated kernels: 1, as you said" in said
    shell.run_cell_magic("predict", "nodes=?", cell)
    assert "? nodes: write your number in place of ?" in capsys.readouterr().out
    for line, code, why in (
        ("nodes=two", cell, "write a whole number"), ("wheels=4", cell, "no figure wheels"),
        ("", cell, "takes numbers"), ("nodes=2", "7", "ends in a record"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=why):
            shell.run_cell_magic("predict", line, code)
    with pytest.raises(ZeroDivisionError):
        shell.run_cell_magic("predict", "nodes=2", "1 / 0")


def test_a_claim(capsys: pytest.CaptureFixture[str]) -> None:
    claim(True, "so it is")
    assert capsys.readouterr().out == "✓ so it is\n"
    with pytest.raises(ClaimFailed, match="so it is not"):
        claim(False, "so it is not")


# The lessons.


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_notebooks_are_in_step_with_their_source(source: Path) -> None:
    for kind, folder in FOLDERS.items():
        place = ROOT / "notebooks" / "course" / folder / f"{source.stem}.ipynb"
        assert place.read_text() == text(source, kind), "run: python -m explorer.course.build notebooks/course"
        nbformat.validate(nbformat.reads(place.read_text(), as_version=4))


def test_each_puzzle_is_in_a_lesson() -> None:
    named = [id for source in SOURCES for id in re.findall(r"^<<(.*)>>$", lesson(source), re.M)]
    assert sorted(set(named)) == sorted(PUZZLES)


def test_the_puzzles_of_a_lesson_are_numbered_in_order() -> None:
    for source in SOURCES[:-2]:
        seen: dict[str, int] = {}
        for name, number in re.findall(r"^<<(\w+)-(\d)>>$", lesson(source), re.M):
            seen[name] = seen.get(name, 0) + 1
            assert int(number) == seen[name], (source.stem, name)


def test_a_lesson_has_three_to_five_puzzles() -> None:
    for source in SOURCES[:-2]:
        assert 3 <= len(re.findall(r"^<<(.*)>>$", lesson(source), re.M)) <= 5, source.stem


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_lesson_shows_stock_beside_ours(source: Path) -> None:
    if source not in SOURCES[-2:]:
        _, beside, rest = lesson(source).partition("## Stock beside ours\n")
        part = rest.partition("\n## ")[0]
        assert beside and '"stock"' in part and "claim(" in part


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_what_a_lesson_names_exists(source: Path) -> None:
    said = lesson(source)
    paths = re.findall(r"`((?:explorer|tests|docs)/[\w/.-]+)`", said)
    assert paths and not [path for path in paths if not (ROOT / path).exists()]
    for name, path in re.findall(r"`(\w+)`(?: in|, in)? `(explorer/[\w/.-]+)`", said):
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), (name, path)
    assert "PyTorch 2 paper" in said and len(re.findall(r"\bclaim\(", said)) >= 2


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_lesson_begins_with_a_prediction_and_ends_with_two_questions(source: Path) -> None:
    cells = notebook(source, "learner")["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    first = next(at for at, each in enumerate(code) if each.startswith("%%predict"))
    assert first >= 1 and not any("claim(" in each or "%%puzzle" in each for each in code[:first])
    _, last, questions = cells[-1]["source"].rpartition("## Two questions to think about\n")
    assert last and re.findall(r"^(\d)\. ", questions, re.M) == ["1", "2"]
    puzzles = len(re.findall(r"^<<(.*)>>$", lesson(source), re.M))
    assert sum(cell["source"].count("<details><summary>Hint") for cell in cells) == 3 * puzzles


REFERENCE = re.compile(r"\b[Ss]ections? ((?:\d(?:\.\d)?(?:, | and | to )?)+)")


def sections(text: str) -> set[str]:
    """The sections of the paper that a text names."""
    return {each for found in REFERENCE.findall(text) for each in re.findall(r"\d(?:\.\d)?", found)}


def test_references_to_the_paper_are_those_of_its_table() -> None:
    table = re.findall(r"^\| ([\d.]+) \| .* \|([\d, ]*)\| `(.*)` \|$", (ROOT / "docs/paper.md").read_text(), re.M)
    assert all((ROOT / place).exists() for _, _, place in table)
    in_lessons = {(section, lesson) for section, lessons, _ in table for lesson in re.findall(r"\d+", lessons)}
    lessons = [(section, str(int(source.stem[:2]))) for source in SOURCES[:-2] for section in sections(lesson(source))]
    assert set(lessons) == in_lessons and {number for _, number in lessons} == {str(each) for each in range(13)}
    texts = [each.paper for each in PANES.values() if each.paper]
    assert len(texts) >= 10 and all(map(sections, texts))
    known = {section for section, _, _ in table}
    used = sections(" ".join(texts)) | {section for section, _ in lessons}
    papers = " ".join(term.paper for part in GLOSSARY for term in part.terms.values())
    terms = set(re.findall(r"\d(?:\.\d)?", papers))
    assert len(terms) > 10 and used | terms | sections("".join(map(lesson, SOURCES[-2:]))) == known


def test_a_cut_takes_sections_that_there_are() -> None:
    assert section("03_graph_breaks", "Avoiding breaks").endswith("<<breaks-2>>")
    with pytest.raises(ValueError, match="no section 'Avoiding break'"):
        section("03_graph_breaks", "Avoiding break")


def test_a_release_for_nbgrader_has_a_locked_cell_for_each_puzzle() -> None:
    for source in SOURCES:
        made = notebook(source, "nbgrader")
        about = [cell["metadata"]["nbgrader"] for cell in made["cells"] if "nbgrader" in cell["metadata"]]
        puzzles = re.findall(r"^<<(.*)>>$", lesson(source), re.M)
        assert [each["grade_id"] for each in about] == puzzles and puzzles
        assert all(each["locked"] and each["grade"] and each["points"] and not each["solution"] for each in about)


RESET = "import gc\ngc.freeze()\n%reset -f"  # which looks through all that was imported for garbage
RELOADED = "%reload_ext explorer\n%reload_ext explorer.course"
Cells = list[nbformat.NotebookNode]


def ran(folder: Path, *notebooks: nbformat.NotebookNode) -> list[Cells]:
    """The code cells of notebooks after they ran from the top: one after another, in one kernel, which starts in a
    second what costs ten to start anew."""
    whole = nbformat.v4.new_notebook(metadata=notebooks[0].metadata, cells=list(notebooks[0].cells))
    for each in notebooks[1:]:
        whole.cells += [nbformat.v4.new_code_cell(RESET), nbformat.v4.new_code_cell(RELOADED), *each.cells]
    NotebookClient(whole, timeout=120, allow_errors=True, resources={"metadata": {"path": str(folder)}}).execute()
    return [[cell for cell in each.cells if cell.cell_type == "code"] for each in notebooks]


def made(source: Path, kind: Kind) -> nbformat.NotebookNode:
    return nbformat.from_dict(notebook(source, kind))


def printed(cell: nbformat.NotebookNode) -> str:
    return "".join(each.get("text", "") for each in cell.outputs if each.output_type == "stream")


def failed(cell: nbformat.NotebookNode) -> bool:
    return any(each.output_type == "error" for each in cell.outputs)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_the_lessons_run_unsolved_and_solved(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    lessons = SOURCES[part::2]
    cells = ran(tmp_path, *(made(source, kind) for source in lessons for kind in ("learner", "solved")))
    tried = []
    for source, unsolved, solved in zip(lessons, cells[::2], cells[1::2], strict=True):
        puzzles = re.findall(r"^<<(.*)>>$", lesson(source), re.M)
        fails = [cell.source.splitlines()[0] for cell in unsolved if failed(cell)]
        assert fails == [f"%%puzzle {id}" for id in puzzles], source.stem
        assert not [(source.stem, cell.source, cell.outputs) for cell in solved if failed(cell)]
        predictions = [printed(cell) for cell in solved if cell.source.startswith("%%predict")]
        assert predictions and not [each for each in predictions if "✗" in each or "?" in each], source.stem
        tried += 2 * puzzles
    assert tried == [each.puzzle for each in Attempts(tmp_path).read() if each.what == "check"]


ANSWERED = {"symbolic-1": PUZZLES["symbolic-1"].solution, "symbolic-2": PUZZLES["symbolic-2"].wrong[0].code}


@pytest.fixture(scope="module")
def without_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> list[Cells]:
    """A lesson as released for nbgrader, two of its puzzles answered, and the solved lesson on TensorFlow."""
    folder = tmp_path_factory.mktemp("lessons")
    (folder / "tensorflow.py").write_text("raise ImportError")
    release = made(next(each for each in SOURCES if each.stem == "02_symbolic_evaluation"), "nbgrader")
    for cell in release.cells:
        if cell.id in ANSWERED:
            cell.source = f"%%puzzle {cell.id}\n{ANSWERED[cell.id]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
        return ran(folder, release, made(SOURCES[0], "solved"))


@pytest.mark.slow
def test_a_release_for_nbgrader_grades_what_was_answered(without_tensorflow: list[Cells]) -> None:
    cells, _ = without_tensorflow
    graded = [failed(cell) for cell in cells if cell.source.startswith("%graded")]
    assert graded == [False, True, True, True, True]
    fails = [cell.source.splitlines()[0] for cell in cells if failed(cell)]
    assert fails == [f"{magic} symbolic-{number}" for number in (2, 3, 4, 5) for magic in ("%%puzzle", "%graded")]


@pytest.mark.slow
def test_the_lesson_on_tensorflow_runs_without_it(without_tensorflow: list[Cells]) -> None:
    _, cells = without_tensorflow
    assert not [(cell.source, cell.outputs) for cell in cells if failed(cell)]
    assert any("pip install tensorflow-cpu" in printed(cell) for cell in cells)


def test_gradients_are_late_where_nobody_waits() -> None:
    synchronous, asynchronous = (train(mode, 30, rate=0.1, slow=0.001) for mode in ("synchronous", "asynchronous"))
    assert not any(update.late for update in synchronous) and synchronous[-1].distance < 0.1
    assert 1 <= max(update.late for update in asynchronous) <= AHEAD + 1 and asynchronous[-1].distance < 1


@pytest.mark.slow
def test_nearly_all_mutants_of_the_solutions_are_refused() -> None:
    """A sample, the same each time; `python tests/course_mutants.py 200` checks many."""
    asked = [(id, code) for id, code in drawn(48)[::4] if id not in SEVERAL]
    assert len(asked) >= 8 and not [(id, code) for id, code in asked if check(id, code, seconds=60).ok]


# The command line, and a class.


def test_new_notebooks_leave_what_is_there(tmp_path: Path) -> None:
    first = CliRunner().invoke(main, ["course", "new", str(tmp_path)])
    mine = tmp_path / f"{SOURCES[0].stem}.ipynb"
    mine.write_text("mine")
    second = CliRunner().invoke(main, ["course", "new", str(tmp_path)])
    assert first.exit_code == second.exit_code == 0 and mine.read_text() == "mine"
    assert f"{len(SOURCES)} kept" in second.output


def test_a_notebook_is_graded(tmp_path: Path) -> None:
    puzzle = PUZZLES["breaks-3"]
    cells = [f"%%puzzle breaks-3\n{code}" for code in (puzzle.solution, puzzle.wrong[0].code)]
    place = tmp_path / "made.ipynb"
    place.write_text(json.dumps({"cells": [{"cell_type": "code", "source": [each]} for each in cells]}))
    result = CliRunner().invoke(main, ["course", "check", str(place), "--json"])
    right, wrong = json.loads(result.stdout)
    assert result.exit_code == 1 and right["points"] == 10 and 0 < wrong["points"] < 10 and wrong["step"] == "right"
    place.write_text("{}")
    assert CliRunner().invoke(main, ["course", "check", str(place)]).exit_code == 2


def test_the_board_of_a_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        attempts = Attempts(tmp_path / name)
        if name == "c":
            monkeypatch.setenv("EXPLORER_COURSE_NAME", "<b>Ada</b>")
        attempts.add("check", "breaks-1", ok=False, message="`straight`: you said 3", scores={})
        if name != "b":
            attempts.add("check", "breaks-1", ok=True, message="right", scores={"nodes": 7})
    with (tmp_path / "a" / FILE).open("a") as file:
        file.write("no JSON\n")
    made = page(lines(tmp_path))
    assert "2 of 3" in made and "you said 3 (3 times)" in made and "Open its record" not in made
    assert "&lt;b&gt;Ada" in made and "<b>" not in made
    assert "learner 1" in made and made.count("nodes 7") == 1
    result = CliRunner().invoke(main, ["class", str(tmp_path), "-o", str(tmp_path / "board.html")])
    assert result.exit_code == 0 and "3 learners" in result.output and (tmp_path / "board.html").read_text() == made


HOSTILE = ["null", "[]", "{}", "1e999", "-1", "true", '"\\ud800"', '{"a": "b"}', f'"{"x" * 99_999}"', "[" * 9999]


def test_a_board_leaves_out_lines_that_are_damaged(tmp_path: Path) -> None:
    """Each field of a line as somebody else may write it: the board is made, and what is right is on it."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    for solved in (False, True):
        facts = {"message": "no", "scores": {"nodes": 7}, "place": "#guards/"}
        Attempts(tmp_path / "a").add("check", "breaks-1", ok=solved, **facts)
    Attempts(tmp_path / "a").add("hint", "breaks-1")
    first = json.loads((tmp_path / "a" / FILE).read_text().partition("\n")[0])
    others = [
        json.dumps({**first, "who": "b", field: "@"}).replace('"@"', hostile) for field in first for hostile in HOSTILE
    ]
    (tmp_path / "b" / FILE).write_text("\n".join(others))
    made = page(lines(tmp_path), examples(lines(tmp_path), tmp_path / "board.html"))
    assert "1 of 2" in made and "solved" in made
    (tmp_path / "b" / FILE).unlink()
    os.mkfifo(tmp_path / "b" / FILE)
    assert "1 of 1" in page(lines(tmp_path))
    written = tmp_path / "n.ipynb"
    for hostile in HOSTILE:
        for form in ("@", '{"cells": @}', '{"cells": [{"cell_type": "code", "source": @}]}'):
            written.write_text(form.replace("@", hostile))
            with pytest.raises(NotANotebook):
                list(answers(written))


def test_a_board_opens_the_record_of_the_most_common_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = checked(PUZZLES["guards-2"], PUZZLES["guards-2"].wrong[0].code, keep=str(tmp_path))
    saved = gzip.decompress(Path(verdict.record).read_bytes())
    monkeypatch.setenv("HOME", next(iter(re.findall(r'"(/[\w.-]+)/', saved.decode()))))
    (tmp_path / "a").mkdir()
    attempts = Attempts(tmp_path / "a")
    kept = attempts.keep("guards-2", verdict.record)
    attempts.add("check", "guards-2", ok=False, message=verdict.message, record=kept, place=verdict.at)
    out = tmp_path / "board.html"
    assert CliRunner().invoke(main, ["class", str(tmp_path), "-o", str(out)]).exit_code == 0
    [link] = re.findall(r'<a href="([^"]*)">Open its record', out.read_text())
    assert link.startswith("board-guards-2.html#guards/") and (tmp_path / "board-guards-2.html").exists()
    assert f'"{Path.home()}/'.encode() in saved
    anonymous = gzip.decompress((tmp_path / "a" / RECORDS / kept).read_bytes())
    assert str(Path.home()).encode() not in anonymous
    (tmp_path / "a" / RECORDS / kept).write_text("no record")
    assert CliRunner().invoke(main, ["class", str(tmp_path), "-o", str(out)]).exit_code == 0
    assert "Open its record" not in out.read_text()
