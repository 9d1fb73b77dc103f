"""Generated Triton compiles ahead of time with no card; each line of what it becomes names the line it came from."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from compiling import program_of
from explorer.compiler.runtime import triton_build
from explorer.compiler.runtime.triton_build import build_triton
from explorer.compiler.runtime.triton_texts import at_calls
from explorer.core.reasons import Unsupported
from explorer.ir import program as ir
from explorer.ir.program import Target
from programs import NAMED, ZOO, Program, observe
from triton_programs import fresh_dynamo, through

SM_90, SM_80, GFX942 = (Target.parse(name) for name in ("cuda:sm_90", "cuda:sm_80", "hip:gfx942"))

ELSEWHERE = ["gelus", "softmax", "layer_norm", "argmax_ties", "scatter_adds", "embedding_lookup", "special_functions",
             "integer_overflow", "bfloat16_chain", "double_precision", "products"]  # fmt: skip
"""Programs compiled for older and other cards as well."""


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("triton")


def row_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x - x.mean(-1, keepdim=True)) * w


def built(cache: Path, target: Target = SM_90) -> ir.Program:
    return program_of(
        row_norm, torch.randn(64, 300), torch.randn(300), target=target, options=ir.BuildOptions(cache_dir=cache)
    )


def compile_zoo_program(program: Program, target: Target, cache: Path) -> list[ir.Program]:
    made: list[ir.Program] = []

    def build(generated: ir.Generated) -> ir.Program:
        made.append(build_triton(generated))
        return replace(made[-1], call=None)  # the inputs are the CPU's, also where there is a card

    with fresh_dynamo():
        observe(program, through(target, cache, build), train=program.grad)
    return made


@pytest.mark.parametrize(
    "program", [pytest.param(p, id=p.name, marks=() if p.name in ELSEWHERE else pytest.mark.slow) for p in ZOO]
)
def test_zoo_compiles_for_sm_90(program: Program, cache: Path) -> None:
    for half in compile_zoo_program(program, SM_90, cache):
        assert half.call is None or torch.cuda.is_available()
        assert len(half.steps) == len({kernel.function for kernel in half.generated.kernels})


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("target", [SM_80, GFX942], ids=str)
def test_some_compile_for_other_cards(name: str, target: Target, cache: Path) -> None:
    assert all(half.steps for half in compile_zoo_program(NAMED[name], target, cache))


def test_levels_down_to_sass_name_the_lines_that_caused_them(cache: Path) -> None:
    program = built(cache)
    (kernel,) = program.generated.kernels
    levels = program.lowered()[kernel.function].texts
    assert list(levels) == ["ttir", "ttgir", "llir", "ptx", "sass"]
    lines = {line.id: line.text for line in kernel.source.lines}
    for level, text in levels.items():
        causes = {cause for line in text.lines for cause in line.origins}
        assert causes and causes <= lines.keys(), level

    def of(level: str, instruction: str) -> set[str]:
        found = [line for line in levels[level].lines if re.search(instruction, line.text)]
        assert found, (level, instruction)
        return {lines[cause].split("=")[-1].split("(")[0].strip() for line in found for cause in line.origins}

    assert of("ttir", "tt.load") == of("ptx", r"ld\.global") == of("sass", "LDG") == {"tl.load"}
    assert of("ptx", r"st\.global") == of("sass", "STG") == {"tl.store"}
    assert of("ptx", r"shfl\.sync") == of("sass", "SHFL") == {"tl.sum"}


def test_amd_code_names_its_lines_too(cache: Path) -> None:
    program = built(cache, GFX942)
    levels = program.lowered()[program.generated.kernels[0].function].texts
    loads = [line for line in levels["amdgcn"].lines if "_load_dword" in line.text and "s_load" not in line.text]
    assert loads and all(line.origins for line in loads)


def test_second_build_is_cached(tmp_path: Path) -> None:
    first, second = built(tmp_path), built(tmp_path)
    assert [step.cached for step in first.steps] == [False]
    assert [step.cached for step in second.steps] == [True]
    assert second.steps[0].command[:2] == first.steps[0].command[:2] != ()
    assert Path(second.steps[0].output).exists()
    assert os.stat(tmp_path).st_mode & 0o077 == 0 or os.stat(tmp_path / "triton").st_uid == os.geteuid()


def test_absent_card_means_never_run(cache: Path) -> None:
    program = built(cache, SM_80)
    assert program.call is None
    assert "not run: target cuda:sm_80 is not on this machine" in str(program.text())


def test_refused_code_is_a_reason_with_the_compilers_words(tmp_path: Path, cache: Path) -> None:
    generated = built(cache).generated
    (kernel,) = generated.kernels
    broken = [replace(line, text=line.text.replace("tl.load", "tl.lode")) for line in kernel.source.lines]
    kernel = replace(kernel, source=replace(kernel.source, lines=tuple(broken)))
    with pytest.raises(Unsupported, match="lode") as refusal:
        build_triton(replace(generated, kernels=(kernel,)))
    assert refusal.value.why.code == "runtime.triton_failed"


def test_missing_disassembler_is_a_reason(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = built(cache)
    monkeypatch.setattr(triton_build, "assembler", lambda arch: "/no/such/ptxas")
    with pytest.raises(Unsupported, match="/no/such/ptxas") as refusal:
        program.lowered()
    assert refusal.value.why.code == "runtime.no_triton_tool"


def test_equal_kernels_are_one_function(cache: Path) -> None:
    def twice(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (a.sin() @ b).relu() + 1, (b.sin() @ a).relu() + 1

    program = program_of(
        twice, torch.randn(8, 8), torch.randn(8, 8), target=SM_90, options=ir.BuildOptions(cache_dir=cache)
    )
    functions = [kernel.function for kernel in program.generated.kernels]
    assert len(set(functions)) < len(functions)
    shared = next(k for k in program.generated.kernels if functions.count(k.function) > 1)
    assert any(len(line.origins) > 1 for line in shared.source.lines[2:])
    assert str(program.generated.text()).count(f"def {shared.function}(") == 1


def test_no_line_is_without_a_cause(cache: Path) -> None:
    generated = built(cache).generated
    assert all(line.origins for line in generated.text().lines if line.text.strip())


def test_what_is_inlined_is_at_its_call_where_a_comment_alone_says_so() -> None:
    head = '\t.file\t1 "/tmp/k.py"\n\t.file\t2 "/lib/standard.py"\n'
    loc = "\t.loc\t2 293 36                        // standard.py:293:36 @[ "
    assert at_calls(f"{head}{loc}k.py:15:24 ]\n") == f"{head}\t.loc\t1 15 24\n"
    assert at_calls(f"{head}{loc}standard.py:9:2 @[ k.py:15:24 ] ]\n") == f"{head}\t.loc\t1 15 24\n"
    for known in ("\t.loc\t2 293 36, function_name $L, inlined_at 1 15 24  // @[ k.py:15:24 ]\n", "\t.loc\t1 3 4\n"):
        assert at_calls(head + known) == head + known
