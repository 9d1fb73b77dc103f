"""Random programs, other ones each day; and what finds, tells and shrinks their differences, on compilers that err."""

import contextlib
import datetime
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.fuzz.observe import Fact, Observer
from benchmarks.fuzz.program import Program, TooLong, at_most, grow
from benchmarks.fuzz.shrink import shrunk
from benchmarks.fuzz.stream import isolated, stream
from benchmarks.fuzz.trial import Difference, compared, difference, meaningful, observed

ROOT = Path(__file__).parent.parent
TODAY = os.environ.get("FUZZ_SEED", datetime.date.today().isoformat())


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "explorer"])
def test_programs_of_today(backend):
    """In a process of its own: its children are forked, and ours has run other tests and their threads."""
    command = [sys.executable, "-m", "benchmarks", "fuzz", "--minutes", "0.1", "--processes", "1", "--shrink", "0"]
    command += ["--seed", TODAY, "--backend", backend]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=400).stdout
    figures = re.search(r"(\d+) programs, \d+ calls, (\d+) differ", told)
    assert figures is not None, told
    programs, different = map(int, figures.groups())
    assert not re.search(r"the process (dies|ends)|hangs|the generator", told), told
    assert programs and different == 0, told


def test_a_seed_gives_the_same_program_again():
    assert [grow("seed", number) for number in range(5)] == [grow("seed", number) for number in range(5)]
    assert grow("seed", 1).source != grow("seed", 2).source


def doubled(function):
    def run(*args, **kwargs):
        result = function(*args, **kwargs)
        return result * 2 if hasattr(result, "mul") else result

    return run


def silent(function):
    def run(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception:
            return None

    return run


def twice(function):
    def run(*args, **kwargs):
        function(*args, **kwargs)
        return function(*args, **kwargs)

    return run


def differs(program, compiler):
    expected = meaningful(program)
    if expected is None:
        return None
    got = observed(program, compiler, 10.0)
    for step, (one, other) in enumerate(zip(expected, got, strict=True)):
        if found := difference(one, other, exact=True):
            return Difference(step, *found)
    return None


@pytest.mark.parametrize("compiler", [doubled, silent, twice], ids=lambda each: each.__name__)
def test_a_wrong_compiler_is_found_and_its_program_shrunk(compiler):
    programs = (grow("wrong", number) for number in range(200))
    program = next(each for each in programs if differs(each, compiler))
    small = shrunk(program, lambda each: differs(each, compiler) is not None, 20.0)
    assert differs(small, compiler)
    assert len(small.source) <= len(program.source) and small.source.count("\n") < 8


def test_eager_is_equal_to_itself():
    for number in range(20):
        assert differs(grow("itself", number), lambda function: function) is None


def test_a_crash_is_a_finding_and_no_end(monkeypatch):
    def crashing(program, expected, backend):
        if program.name.endswith("/1"):
            os.kill(os.getpid(), 9)
        return None

    monkeypatch.setattr("benchmarks.fuzz.stream.compared", crashing)
    tally = stream("crash", "eager", 1, 0, lambda count: count > 0, lambda tally: None)
    assert [(kind, [each.number for each in findings]) for kind, findings in tally.kinds.items()] == [
        ("the process dies by SIGKILL", [1])
    ]
    assert sum(tally.outcomes.values()) == 25


def test_a_program_that_was_cut_inside_of_torch_says_nothing_of_those_that_follow():
    def cut(program, backend):
        if program.name.endswith("/1"):
            with contextlib.suppress(TooLong), at_most(0.05):
                torch.utils._pytree.tree_map(time.sleep, [0.01] * 100)
        return ("differs", "spoiled", "") if TooLong.in_torch and not program.name.endswith("/1") else ("same", "", "")

    def looped(program, backend):
        with contextlib.suppress(TooLong), at_most(0.01):
            while True:
                pass
        return ("differs", "spoiled", "") if TooLong.in_torch else ("same", "", "")

    def made(seed, number):
        return Program(f"{seed}/{number}", "", ())

    for judge in (cut, looped):
        tally = stream("cut", "eager", 1, 0, lambda count: count > 0, lambda tally: None, made, judge)
        assert tally.outcomes == {"same": 25}


def test_programs_are_compared_with_a_compiler():
    program = replace(grow("seed", 0), source="def f(a0):\n    return a0 * 2", steps=("R = f(t(3))",), dynamic=None)
    assert compared(program, meaningful(program), "eager") is None


def test_a_program_that_ends_the_process_in_eager_too_is_dropped():
    def made(seed, number):
        dies = "import os; os._exit(3)" if number == 1 else "return a0"
        return Program("dies", f"def f(a0):\n    {dies}", ("f(1)",))

    tally = stream("any", "eager", 1, 0, lambda begun: begun >= 1, lambda tally: None, made)
    assert tally.outcomes["dropped"] == 1 and not tally.kinds


def test_tensors_without_values_are_compared_by_what_they_say():
    def told(*results):
        observer = Observer()
        observer.see("R", results)
        return observer.finish()

    real, meta, again = (torch.ones(2, 3, device=each) for each in ("cpu", "meta", "meta"))
    for exact in (False, True):
        assert difference(told(meta, meta[0]), told(again, again[0]), exact) is None
        for other in (real, meta.t(), meta.double(), meta[:1]):
            assert difference(told(meta), told(other), exact) is not None
            assert difference(told(other), told(meta), exact) is not None


def test_a_tensor_that_left_its_vmap_is_compared_by_what_is_inside():
    def told(x, in_dim=0):
        left = []
        torch.vmap(lambda row: left.append(row * 2) or row, in_dim)(x)
        torch.vmap(torch.vmap(lambda row: left.append(row) or row))(x)
        observer = Observer()
        observer.see("GL", left)
        return observer.finish()

    x = torch.ones(2, 2)
    assert difference(told(x), told(x), exact=True) is None
    assert difference(told(x), told(x * 2), exact=True) is not None
    assert difference(told(x), told(x.double()), exact=True) is not None
    assert difference(told(x), told(x, 1), exact=True) is not None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_program_is_stopped_again_where_the_first_time_is_lost():
    class Swallows:
        def __del__(self):
            while not lost:
                pass

    lost = []
    with pytest.raises(TooLong), at_most(0.05):
        before = signal.getsignal(signal.SIGALRM)
        signal.signal(signal.SIGALRM, lambda *seen: (lost.append(seen), before(*seen)))
        Swallows()
        while len(lost) < 100:
            time.sleep(0.01)
    assert len(lost) == 2


def test_numbers_in_texts_may_be_rounded():
    def told(text, value=None):
        return [Fact("output", text, value)]

    assert difference(told("sum 1.8070911 2"), told("sum 1.8070913 2"), exact=False) is None
    assert difference(told("float", 0.99999994), told("float", 1.0), exact=False) is None
    for other in ("sum 1.8170913 2", "sum 1.8070913 3", "of 1.8070913 2"):
        assert difference(told("sum 1.8070911 2"), told(other), exact=False)
    assert difference(told("sum 1.8070911"), told("sum 1.8070913"), exact=True)


def test_tensors_of_more_dimensions_than_operators_take_are_compared():
    def fact(value):
        return Fact("x", "", torch.tensor([value]).reshape((1,) * 70))

    assert difference([fact(1.0)], [fact(1.0)], exact=True) is None
    assert difference([fact(1.0)], [fact(2.0)], exact=True) is not None


def test_what_the_fuzz_itself_raises_ends_no_process():
    def judge(program, backend):
        raise ValueError("raised by the fuzz")

    kind, text = isolated(Program("", "", ()), "eager", judge=judge)
    assert kind == "the generator" and "raised by the fuzz" in text


ROUNDED = {
    "computed in float32": ("return a.sin()", "x = t(4, 3)\nR = f(x)\nGT = R.double()", True),
    "written to float64": ("return a.sin()", "y = t(4, 3, dtype=torch.float64)\ny.copy_(f(t(4, 3)))", True),
    "in float32 on the way": ("return a.float().sin().double() * 2", "y = f(t(4, 3, dtype=torch.float64))", True),
    "by a number": ("return a * a.float().sin().sum().item()", "y = f(t(4, 3, dtype=torch.float64))", True),
    "in float64": ("return a.sin()", "y = f(t(4, 3, dtype=torch.float64))", False),
    "of exact float32": ("return a.double() * 3", "y = f(t(4, 3))", False),
    "beside float32": ("return a.sin() * t(3)", "z = t(3).sin()\ny = f(t(4, 3, dtype=torch.float64))", False),
    "float32 in bfloat16 on the way": ("return a.bfloat16().sin().float() * 2", "y = f(t(4, 3))", True, 1e-3),
    "float32 by a number of bfloat16": ("return a * a.bfloat16().sin().sum().item()", "y = f(t(4, 3))", True, 1e-3),
    "float32 of exact bfloat16": ("return (a.bfloat16() * 2).float().sin()", "y = f(t(4, 3))", False, 1e-3),
    "float32": ("return a.sin()", "y = f(t(4, 3))", False, 1e-3),
}
"""A function and a call, and whether an error of 1e-7, or of the size told, is rounding."""


DECIDED = {
    "an integer": ("y = f(a).long()", True),
    "written to integers": ("y = t(3, dtype=torch.int64)\ny.fill_(f(a).sum().item())", True),
    "copied to integers": ("y = t(1, dtype=torch.int64)\ny.copy_(f(a))", True),
    "computed from an integer": ("y = (f(a).long() + 1) * 0.5", False),
    "a truth": ("y = f(a) < a", True),
    "an order": ("y = torch.cat([f(a), a]).argmin()", True),
    "far from the next": ("y = (f(a) + 0.5).long()", False),
    "a clear truth": ("y = f(a) > 1", False),
    "exact": ("y = (a * 2).long() * f(torch.ones(1).double()).round().long()", False),
}
"""A step, and whether rounding decides on its integers: else an error of 2 is told from rounding."""


@pytest.mark.parametrize("name", DECIDED)
def test_integers_and_truths_that_rounding_decides_are_not_compared(name, monkeypatch):
    step, rounding_decides = DECIDED[name]
    setup = "a = (t(5)[4:] + 4).contiguous()\n"  # 5.0
    program = Program(name, "def f(a):\n    return a.exp().log().to(a.dtype)", (setup + step,))
    expected = meaningful(program)
    for error, same in ((1e-6, True), (2.0, False)):
        erring = lambda function, error=error: lambda a: (function(a) * (1 - error)).to(a.dtype)  # noqa: E731
        monkeypatch.setattr("benchmarks.fuzz.trial.compiler", lambda backend, program, erring=erring: erring)
        assert (compared(program, expected, "explorer") is None) == (same or rounding_decides)


COUNTED = {
    "a number": "y = int(f(a).item())",
    "printed": "print(0.5, int(f(a).item()))",
    "far from the next": "y = int(f(a).item() + 0.5)",
}


@pytest.mark.parametrize("name", COUNTED)
def test_integers_that_a_rounded_number_decides_differ_by_one_at_most(name, monkeypatch):
    setup = "a = (t(5)[4:] + 4).contiguous()\n"  # 5.0
    program = Program(name, "def f(a):\n    return a.exp().log().to(a.dtype)", (setup + COUNTED[name],))
    expected = meaningful(program)
    for error, same in ((1e-6, True), (2.0, False)):
        erring = lambda function, error=error: lambda a: (function(a) * (1 - error)).to(a.dtype)  # noqa: E731
        monkeypatch.setattr("benchmarks.fuzz.trial.compiler", lambda backend, program, erring=erring: erring)
        assert (compared(program, expected, "explorer") is None) == same


@pytest.mark.parametrize("name", ROUNDED)
def test_values_are_as_exact_as_what_they_are_computed_from(name, monkeypatch):
    body, step, is_rounded, *rounding = ROUNDED[name]
    program = Program(name, f"def f(a):\n    {body}", (step,))
    expected = meaningful(program)
    for error, same in (((*rounding, 1e-7)[0], is_rounded), (2.0, False)):
        erring = lambda function, error=error: lambda a: function(a) * (1 + error)  # noqa: E731
        monkeypatch.setattr("benchmarks.fuzz.trial.compiler", lambda backend, program, erring=erring: erring)
        assert (compared(program, expected, "explorer") is None) == same


DECIDING = {
    "a truth": ("f(a) > 5", 1e-6, True),
    "a number": ("int(f(a).item()) < 5", 1e-6, True),
    "an array": ("f(a).numpy().item() > 5", 1e-6, True),
    "a sum": ("f(a - 5 + 0.1).add(-0.1).sum() > 0", 1e-6, True),
    "far from the next": ("f(a) > 4.999", 1e-3, False),
    "a number far from the next": ("int(f(a).item() + 0.5) > 4", 0.2, False),
}
"""A condition, an error that changes it, and whether rounding may: else what depends on it is told from rounding."""


@pytest.mark.parametrize("name", DECIDING)
def test_a_program_may_go_where_eager_goes_that_rounds_another_way(name, monkeypatch):
    condition, error, same = DECIDING[name]
    step = f"a = (t(5)[4:] + 4).contiguous()\nif {condition}:\n    y = 'more'\nelse:\n    raise ValueError"  # 5.0
    program = Program(name, "def f(a):\n    return a.exp().log()", (step,))
    expected = meaningful(program)
    found = set()
    for sign in (-1, 1):
        erring = lambda function, away=sign * error: lambda a: function(a) * (1 + away)  # noqa: E731
        monkeypatch.setattr("benchmarks.fuzz.trial.compiler", lambda backend, program, erring=erring: erring)
        found.add(compared(program, expected, "explorer") is None)
    assert (found == {True}) == same


def test_what_depends_on_the_last_digits_may_be_as_far_away_as_in_eager(monkeypatch):
    """frac() leaves what was rounded."""
    program = Program("frac", "def f(a):\n    return a / 3", ("y = (f(t(4, 3) * 1e5) + 5.2).frac()",))
    expected = meaningful(program)
    for error, same in ((1e-7, True), (1e-3, False)):
        erring = lambda function, error=error: lambda a: function(a) * (1 + error)  # noqa: E731
        monkeypatch.setattr("benchmarks.fuzz.trial.compiler", lambda backend, program, erring=erring: erring)
        assert (compared(program, expected, "explorer") is None) == same
