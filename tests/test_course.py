"""The course: every solution is right, every wrong answer fails as meant, and the lessons say what is so."""

from __future__ import annotations

import gzip
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import pytest
from click.testing import CliRunner
from nbclient import NotebookClient

from benchmarks.classroom import at_once
from course_mutants import SEVERAL, drawn
from explorer.compiler.bytecode.decode import decode
from explorer.course import PUZZLES, ClaimFailed, check, claim
from explorer.course.attempts import FILE, RECORDS, Attempts
from explorer.course.board import examples, lines, page
from explorer.course.build import FOLDERS, lesson, notebook, section, sources, text
from explorer.course.check import checked
from explorer.course.grade import NotANotebook, answers
from explorer.course.lessons import breaks, guards
from explorer.course.parameter_server import AHEAD, train
from explorer.course.process import Server
from explorer.course.puzzle import STEPS
from explorer.records.session import Record
from explorer.show.cli import main

ROOT = Path(__file__).parent.parent
SOURCES = sources()


def test_an_answer_gets_the_same_verdict_each_time() -> None:
    lists = "import torch\n\ndef prepare(xs):\n    raise ValueError(float(xs[0][0]))\n\nstep = pooled = prepare\n"
    first, again, other = (check("guards-3", lists, seed).said for seed in (0, 0, 1))
    assert first == again != other, (first, other)


@pytest.mark.parametrize("id", PUZZLES)
def test_the_solution_is_right_and_each_wrong_answer_fails_as_meant(id: str) -> None:
    puzzle = PUZZLES[id]
    verdict = check(id, puzzle.solution)
    assert verdict.ok, verdict
    assert check(id, puzzle.starter).step == "defined"
    assert len(puzzle.wrong) >= 3
    for wrong in puzzle.wrong:
        if "while True" not in wrong.code:
            verdict = check(id, wrong.code)
            assert (verdict.ok, verdict.step) == (False, wrong.step), verdict
            assert wrong.says in verdict.said, verdict


@pytest.mark.parametrize("id", PUZZLES)
def test_a_solution_is_right_for_other_inputs_too(id: str) -> None:
    assert check(id, PUZZLES[id].solution, seed=7).ok


def test_a_puzzle_is_complete() -> None:
    for id, puzzle in PUZZLES.items():
        assert re.fullmatch(r"[a-z]+-\d", id) and len(set(puzzle.hints)) == 3 and puzzle.minutes
        assert {wrong.step for wrong in puzzle.wrong} <= set(STEPS)


# A process of its own.

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
    assert not verdict.ok and says in verdict.said, verdict
    assert "`line` with a break before instruction 0" in verdict.said or verdict.step == "defined" or says == "status 1"


def test_an_answer_that_waits_is_ended() -> None:
    verdict = check("breaks-3", "def live(steps, at):\n    import time\n    time.sleep(1000)\n", seconds=0.5)
    assert not verdict.ok and "not done after 3 s" in verdict.said, verdict


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
    said = re.findall(r"^#   \d (Step.*)$", BREAKS.given, re.M)
    assert said == [str(each) for each in breaks.steps(decode(given["maybe"].__code__))]


def test_a_message_names_what_an_answer_may_use() -> None:
    code = PUZZLES["breaks-2"].solution.replace("torch.relu", "relu")
    said = checked(PUZZLES["breaks-2"], code).said
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
    """Of a compile: its guards, breaks, nodes, loops and kernels."""
    [found] = [each for each in record.data.compiles if each.id == compile]
    nodes = [node.id for stage in found.stages if stage.graph is not None for node in stage.graph.nodes]
    made = [each.id for half in found.halves for each in (*half.operations, *half.kernels)]
    return {each.id for each in found.guards} | {each.instruction for each in found.breaks} | set(nodes) | set(made)


def test_a_puzzle_that_does_not_exist() -> None:
    with pytest.raises(KeyError, match="no puzzle 'nothing-1'"):
        check("nothing-1", "")


def test_our_own_guards_accept_what_the_lesson_says() -> None:
    assert abs(guards.ours(0) - guards.OURS) < 0.01


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
def test_what_a_lesson_names_exists(source: Path) -> None:
    said = lesson(source)
    paths = re.findall(r"`((?:explorer|tests|docs)/[\w/.-]+)`", said)
    assert paths and not [path for path in paths if not (ROOT / path).exists()]
    for name, path in re.findall(r"`(\w+)`(?: in|, in)? `(explorer/[\w/.-]+)`", said):
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), (name, path)
    assert "PyTorch 2 paper" in said and "questions to think about" in said and "%%predict" in said
    assert len(re.findall(r"\bclaim\(", said)) >= 2


def test_a_cut_takes_sections_that_there_are() -> None:
    assert section("03_graph_breaks", "Mending").endswith("<<breaks-2>>")
    with pytest.raises(ValueError, match="no section 'Mendin'"):
        section("03_graph_breaks", "Mendin")


def test_a_release_for_nbgrader_has_a_locked_cell_for_each_puzzle() -> None:
    for source in SOURCES:
        made = notebook(source, "nbgrader")
        about = [cell["metadata"]["nbgrader"] for cell in made["cells"] if "nbgrader" in cell["metadata"]]
        puzzles = len(re.findall(r"^<<.*>>$", lesson(source), re.M))
        assert sum(each["locked"] and each["points"] > 0 for each in about if each["grade"]) == puzzles >= 1
        assert sum(each["solution"] for each in about) == len(about) / 2 == puzzles


RELOADED = "%reload_ext explorer\n%reload_ext explorer.course"
Cells = list[nbformat.NotebookNode]


def ran(source: Path, folder: str, *kinds: str) -> list[Cells]:
    """The code cells of a lesson after it ran from the top: of each kind one after another, in one kernel, which starts
    in a second what costs ten to start anew."""
    made = [nbformat.from_dict(notebook(source, kind)) for kind in kinds]  # type: ignore[arg-type]
    whole = nbformat.v4.new_notebook(metadata=made[0].metadata, cells=list(made[0].cells))
    for each in made[1:]:
        whole.cells += [nbformat.v4.new_code_cell("%reset -f"), nbformat.v4.new_code_cell(RELOADED), *each.cells]
    NotebookClient(whole, timeout=120, allow_errors=True, resources={"metadata": {"path": folder}}).execute()
    return [[cell for cell in each.cells if cell.cell_type == "code"] for each in made]


def printed(cell: nbformat.NotebookNode) -> str:
    return "".join(each.get("text", "") for each in cell.outputs if each.output_type == "stream")


def failed(cell: nbformat.NotebookNode) -> bool:
    return any(each.output_type == "error" for each in cell.outputs)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_lesson_runs_unsolved_and_solved(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        unsolved, solved = ran(source, folder, "learner", "solved")
        tried = [each.puzzle for each in Attempts(Path(folder)).read() if each.what == "check"]
    fails = [cell.source.split()[1] for cell in unsolved if failed(cell)]
    assert fails == re.findall(r"^<<(.*)>>$", lesson(source), re.M) and tried == 2 * fails
    assert all(cell.source.startswith("%%puzzle") for cell in unsolved if failed(cell))
    assert not [(cell.source, cell.outputs) for cell in solved if failed(cell)]
    predictions = [printed(cell) for cell in solved if cell.source.startswith("%%predict")]
    assert predictions and not [each for each in predictions if "✗" in each or "?" in each]


@pytest.mark.slow
def test_the_lesson_on_tensorflow_runs_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    [cells] = ran(SOURCES[0], str(tmp_path), "solved")
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
        attempts.add("check", "breaks-1", ok=False, said="`straight`: you said 3", scores={})
        if name != "b":
            attempts.add("check", "breaks-1", ok=True, said="right", scores={"nodes": 7})
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
        Attempts(tmp_path / "a").add("check", "breaks-1", ok=solved, said="no", scores={"nodes": 7}, place="#guards/")
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
    attempts.add("check", "guards-2", ok=False, said=verdict.said, record=kept, place=verdict.at)
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
