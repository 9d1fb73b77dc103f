"""The main test: every program and network of the zoo, compiled by us end to end, does what eager does."""

import copy

import pytest
import torch

import explorer
from explorer.core.recorder import Recorder, recording
from explorer.records import to_record
from explorer.records.diagnosis import coverage
from programs import MODELS, TRANSFORMERS, ZOO, assert_same, observe

CASES = [(program, False) for program in ZOO] + [(program, True) for program in ZOO if program.grad]
NETWORKS = [(model, train) for model in MODELS + TRANSFORMERS for train in (False, True)]


def name(value):
    return ("train" if value else "infer") if isinstance(value, bool) else value.name


def run(subject, train, **inputs):
    """The compiled run, and the record data of its compiles."""
    recorder = Recorder()
    with recording(recorder):
        actual = observe(subject, explorer.compile, train=train, **inputs)
    return actual, [to_record.compile(each) for each in recorder.compiles]


def bugs(compiles):
    """Tracebacks of the compiler's own errors: the results were right all the same, since the program ran eagerly."""
    return [e.fields["traceback"] for compile in compiles for e in compile.events if e.kind == "CompilerBug"]


@pytest.mark.parametrize("program, train", CASES, ids=name)
def test_program(program, train):
    expected = observe(program, train=train)
    actual, compiles = run(program, train)
    assert_same(actual, expected, rtol=program.rtol, atol=program.atol)
    assert not bugs(compiles), bugs(compiles)[0]
    breaks = [b for compile in compiles for b in compile.breaks if b.span]
    breaks = [f"{b.span.file}:{b.span.line} {b.why.title}: {b.why.detail}" for b in breaks]
    assert len(set(breaks)) <= program.breaks, breaks


@pytest.mark.parametrize("program", [p for p in ZOO if p.other_inputs], ids=name)
def test_other_inputs_recompile_or_generalize(program):
    """The same compiled function on inputs of other shapes, dtypes and branches, then on the first again."""
    subject = program.build()
    eager = copy.deepcopy(subject) if isinstance(subject, torch.nn.Module) else None  # with the same parameters
    compiled = explorer.compile(subject)
    for inputs in (program.inputs, *program.other_inputs, program.inputs):
        args, kwargs = inputs()
        torch.manual_seed(1)
        expected = (eager or program.build())(*args, **kwargs)
        args, kwargs = inputs()
        torch.manual_seed(1)
        actual = compiled(*args, **kwargs)
        torch.testing.assert_close(actual, expected, rtol=program.rtol, atol=program.atol, equal_nan=True)


@pytest.mark.parametrize("model, train", NETWORKS, ids=name)
def test_network(model, train):
    if not model.available:
        pytest.skip("transformers is not installed")
    expected = observe(model, train=train)
    actual, compiles = run(model, train)
    assert_same(actual, expected, rtol=model.rtol, atol=model.atol)
    assert not bugs(compiles), bugs(compiles)[0]
    assert coverage(compiles).fallback == 0
    assert not [compile.fallback for compile in compiles if compile.fallback]
    (whole,) = (each for each in compiles if each.stages)
    assert not whole.breaks
