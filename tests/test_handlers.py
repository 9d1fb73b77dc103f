"""One part of the compiler handles each operator; `explorer operators` says which."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import CodeType, FunctionType

import pytest
import torch
from click.testing import CliRunner

import explorer
from explorer.compiler.autograd import decompositions as module
from explorer.compiler.autograd.decompositions import DECOMPOSITIONS, decompositions
from explorer.compiler.lower.table import LOWERINGS, VIEWS
from explorer.compiler.operators import handlers, named
from explorer.show.cli import main

ROOT = Path(__file__).parent.parent


def test_no_operator_is_both_decomposed_and_lowered():
    both = decompositions().keys() & {*LOWERINGS, *VIEWS} | set(LOWERINGS) & set(VIEWS)
    assert not both, "of these take the decomposition away (TORCHS, or our rule), or the lowering"


def names(code: CodeType) -> set[str]:
    """The globals and attributes that code mentions, inner functions included."""
    return set(code.co_names).union(*(names(each) for each in code.co_consts if isinstance(each, CodeType)))


def test_no_decomposition_has_a_second_owner_that_is_not_printed():
    """A call that a rule leaves whole is left by `unless`, which says so."""
    rules = [rule for rule in DECOMPOSITIONS.values() if not hasattr(rule, "unless")]
    others = [each for each in vars(module).values() if isinstance(each, FunctionType)]
    found = [f for f in map(inspect.unwrap, (*rules, *others)) if "NotImplemented" in names(f.__code__)]
    assert all(each.__qualname__.startswith("unless") for each in found)
    restricted = {each.operator: each.unless for each in handlers() if each.unless}
    assert restricted["aten.mean.dim"] == "complex numbers" and len(restricted) > 20
    assert restricted["aten.empty_strided.default"] == "strides with gaps, sparse or pinned memory"
    assert "library call for complex numbers" in CliRunner().invoke(main, ["operators", "mean"]).output


def test_what_a_rule_leaves_whole_is_a_library_call():
    calls = {
        "complex numbers": lambda x: torch.complex(x, x).mean(),
        "strides with gaps": lambda x: x.new_empty_strided((2, 2), (4, 1)),
        "integers": lambda x: torch.linspace(0, 9, 4, dtype=torch.int64),
        "what lies in memory in the order of its axes": lambda x: torch.bernoulli(torch.zeros_like(x), 0.5) * 0,
    }
    for unless, call in calls.items():
        record = explorer.explore(call, time=False)(torch.randn(2, 2))
        kinds = {each.kind for compile in record.data.compiles for half in compile.halves for each in half.operations}
        assert "extern" in kinds and not record.data.error, unless


@pytest.mark.parametrize(
    ("name", "kind", "place"),
    [
        ("aten._softmax.default", "torch decomposition", "torch/_"),
        ("softmax.int", "composite", ""),
        ("aten::mean.dim", "decomposition", "explorer/compiler/autograd/decompositions.py"),
        ("amax", "lowering", "explorer/compiler/lower/reduce.py"),
        ("permute", "view", "explorer/compiler/lower/view.py"),
        ("mm", "library call", ""),
    ],
)
def test_a_name_leads_to_its_handler(name, kind, place):
    found = next(each for each in named(name) if each.kind == kind)
    assert found.file.startswith(place)
    if place.startswith("explorer"):
        assert f"def {found.function}" in (ROOT / found.file).read_text()


def test_a_part_of_a_name_finds_what_contains_it():
    found = {each.operator for each in named("layer_nor")}
    assert {"aten.layer_norm.default", "aten.native_layer_norm.default"} <= found


def test_the_command():
    result = CliRunner().invoke(main, ["operators", "softmax"])
    assert result.exit_code == 0
    assert "aten._softmax.default" in result.output and "torch decomposition" in result.output
    library = CliRunner().invoke(main, ["operators", "--library"]).output
    assert "aten.linalg_qr.default" in library and "aten.add.Tensor" not in library and "LOWER makes" not in library
    assert "Programs do not meet all of these" in " ".join(library.split())
    unknown = CliRunner().invoke(main, ["operators", "no_such_operator"])
    assert unknown.exit_code == 2 and "no_such_operator" in unknown.output


def test_the_command_that_explains_a_reason():
    alone = [sys.executable, "-m", "explorer", "reason"]  # in this process other tests have entered the reasons
    listed = subprocess.run(alone, check=True, capture_output=True, text=True, timeout=120).stdout
    written = "".join(path.read_text() for path in (ROOT / "explorer").rglob("*.py"))
    codes = re.findall(r"""\breason\(\s*"([a-z_]+\.[a-z_.]+)\"""", written)
    assert len(codes) > 150 and not set(codes) - {line.split()[0] for line in listed.splitlines()}
    explained = CliRunner().invoke(main, ["reason", "break.print"])
    assert explained.exit_code == 0 and "hint: Print outside" in explained.output
    assert "refuse.iteration_space" in CliRunner().invoke(main, ["reason", "refuse"]).output
    unknown = CliRunner().invoke(main, ["reason", "no.such"])
    assert unknown.exit_code == 2 and "no.such" in unknown.output


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="the page was written with torch 2.13")
def test_the_page_is_in_step():
    assert (ROOT / "docs" / "handlers.md").read_text() == CliRunner().invoke(main, ["operators", "--markdown"]).output


def test_every_lowering_says_what_it_does():
    ours = [each for each in handlers() if each.kind != "torch decomposition"]
    assert len(ours) > 200 and not [each.operator for each in ours if not each.about]
