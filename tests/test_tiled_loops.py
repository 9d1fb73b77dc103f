"""The loop tree of a kernel, in C++ and in Triton: what is decided, and that the text of the kernel has just that."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

import explorer
from explorer.compiler import pipeline
from explorer.compiler.codegen import GENERATE
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY
from explorer.core.stage import Stage
from explorer.ir.program import CPU, Generated, Generation, Kernel, Program, Target, TritonKernel, nested
from lowering import lowered
from programs import tagged

SM_90 = Target("cuda", "90")


def generated(fn: Callable[..., Any], *inputs: torch.Tensor, target: Target = CPU) -> Generated:
    schedule = ORDER(FUSE(DEPENDENCIES(lowered(fn, *inputs)[0])))
    return GENERATE(Generation(schedule, PLAN_MEMORY(schedule), target))


def tree(kernel: Kernel) -> list[str]:
    return [f"{'  ' * depth}{loop}" for loop, depth in nested(kernel.loops)]


def softmax(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(1)


def total(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1)


def across(x: torch.Tensor) -> torch.Tensor:
    return x + x.t()


def positions(x: torch.Tensor) -> torch.Tensor:
    return x.argmax(1)


SQUARE = (512, 512)
DECIDED: list[tuple[Target, Callable[..., Any], tuple[int, int], str]] = [
    (CPU, lambda x: x * 2, SQUARE, "parallel vector x0 < 262144"),
    (CPU, across, SQUARE, """
parallel x0 < 512, 64 at a time
  parallel x1 < 512, 64 at a time
    serial x0 < 64
      vector x1 < 64"""),
    (CPU, total, SQUARE, """
parallel x0 < 512
  vector r0 < 512"""),
    (CPU, total, (512, 9000), """
parallel x0 < 512
  serial r0 < 9000, 4096 at a time
    vector r0 < 4096"""),
    (CPU, positions, SQUARE, """
parallel x0 < 512
  vector r0 < 512
  vector r0 < 512"""),
    (CPU, lambda x: x.sum(0), SQUARE, """
serial x0 < 512, 128 at a time
  parallel chunk < 16
    serial r0 < 512, 256 at a time
      serial r0 < 256
        vector x0 < 128
  serial chunk < 16
  vector x0 < 128"""),
    (CPU, torch.sum, SQUARE, """
parallel chunk < 32
  serial r0 < 262144, 4096 at a time
    vector r0 < 4096
serial chunk < 32"""),
    (CPU, softmax, SQUARE, """
parallel x0 < 512
  vector r0 < 512
  vector r0 < 512
  vector r0 < 512"""),
    (SM_90, softmax, (512, 1024), """
parallel x < 512
  vector r < 1024"""),
    (SM_90, softmax, (512, 100000), """
parallel x < 512
  serial r < 100000, 2048 at a time
  serial r < 100000, 2048 at a time
  serial r < 100000, 2048 at a time"""),
    (SM_90, across, SQUARE, """
parallel y < 512, 32 at a time
  parallel x < 512, 32 at a time"""),
]  # fmt: skip


@pytest.mark.parametrize(("target", "fn", "shape", "wanted"), DECIDED)
def test_the_loops_that_are_decided_on(
    target: Target, fn: Callable[..., Any], shape: tuple[int, int], wanted: str
) -> None:
    (kernel,) = generated(fn, torch.empty(shape), target=target).kernels
    assert "\n".join(tree(kernel)) == wanted.strip()


REASONS: list[tuple[Callable[..., Any], tuple[int, int], str]] = [
    (lambda x: x * 2, SQUARE, "vector lanes along x0, the last axis"),
    (across, SQUARE, "tiles of 64 by 64, as a load is contiguous along x0, not along x1"),
    (total, SQUARE, "vector lanes share a row along r0"),
    (total, (4, 8), "vector lanes share a row along r0; one thread: threads pay off from"),
    (
        torch.sum,
        SQUARE,
        "along r0; threads share it in chunks, as there are fewer than 16 rows",
    ),
    (
        lambda x: x.sum(0),
        (512, 4096),
        "lanes are points of x0, along which more memory is contiguous than along r0",
    ),
    (lambda x: x.sum(0), SQUARE, "; threads share r0 in chunks, as there are few blocks of 128"),
]


@pytest.mark.parametrize(("fn", "shape", "why"), REASONS)
def test_why_these_loops(fn: Callable[..., Any], shape: tuple[int, int], why: str) -> None:
    (kernel,) = generated(fn, torch.empty(shape)).kernels
    assert why in kernel.tiled
    threads = any("parallel" in loop.kind for loop, _ in nested(kernel.loops))
    assert threads is ("one thread" not in kernel.tiled)


def test_each_function_of_a_row_that_is_cut_has_its_own_loops() -> None:
    first, last = generated(total, torch.empty(4, 1 << 20), target=SM_90).kernels
    rows = ["parallel x < 4", "  parallel split < 128", "    serial r < 1048576, 2048 at a time"]
    assert (tree(first), tree(last)) == (rows, ["parallel x < 4"])
    assert isinstance(first, TritonKernel) and first.programs == 4 * 128


@pytest.mark.parametrize(("target", "mark"), [(CPU, "//"), (SM_90, "#")], ids=str)
def test_the_stage_begins_with_the_loops(target: Target, mark: str) -> None:
    made = generated(total, torch.empty(SQUARE), target=target)
    (kernel,) = made.kernels
    wanted = [f"{kernel.function}: {kernel.tiled}", *(f"  {line}" for line in tree(kernel))]
    assert str(made.text()).split("\n")[: len(wanted)] == [f"{mark} {line}" for line in wanted]


LOOP = re.compile(r"( *)for \(long (\w+?)(_start)? = .*; (?:\+\+\w+|\w+ \+= (\d+))\) {")
Loop = tuple[str, str, int, int]  # axis, kind, tile, depth


def loops_of_cpp(lines: list[str]) -> Iterator[Loop]:
    """The loops of a C++ text: but for those over the lanes of running values, which are one statement."""
    collapsed, open_at = 0, list[int]()
    for before, line in zip(lines, lines[1:], strict=False):
        if loop := LOOP.match(line):
            pragma = before if "#pragma" in before else ""
            words = [word for word, mark in (("parallel", "parallel"), ("vector", "simd")) if mark in pragma]
            kind = "parallel" if collapsed else " ".join(words) or "serial"
            collapsed = int(count[1]) - 1 if (count := re.search(r"collapse\((\d)", pragma)) else max(0, collapsed - 1)
            open_at = [each for each in open_at if each < len(loop[1])]
            yield loop[2], kind, int(loop[4] or 1) if loop[3] else 0, len(open_at)
            open_at.append(len(loop[1]))


def loops_of_triton(lines: list[str], blocks: Mapping[str, int]) -> Iterator[Loop]:
    """The directions of a Triton text: of the grid, of a row in registers, and of what is walked."""
    around = 0
    for line in lines:
        if match := re.match(r" +(\w)index = (.*)", line):
            axis, index = match.groups()
            walked = "roffset" in index or "point" in index
            held = not walked and "program_id" not in index
            tile = 0 if held else 1 if "point" in index else blocks[f"{axis.upper()}BLOCK"]
            yield axis, "vector" if held else "serial" if walked else "parallel", tile, around
            around += not walked
        elif "split = tl.program_id" in line:
            yield "split", "parallel", 0, around
            around += 1


@pytest.fixture
def generations(monkeypatch: pytest.MonkeyPatch) -> list[Generation]:
    """What code is generated from, from now on; nothing is built, and programs run eagerly."""
    given: list[Generation] = []

    def generate(generation: Generation) -> Generated:
        given.append(generation)
        return GENERATE.function(generation)

    monkeypatch.setattr(pipeline, "GENERATE", Stage("generate", generate, GENERATE.verify))
    built = Stage[Generated, Program]("build", lambda made: Program(made, None, (), dict), lambda program: None)
    monkeypatch.setattr(pipeline, "BUILD", built)
    return given


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_text_has_the_loops_of_the_tree(generations: list[Generation], dynamic: bool) -> None:
    programs = (*tagged("reduction"), *tagged("scatter", without="reduction"), *tagged("norm", without="reduction"))
    for program in programs:
        args, kwargs = program.inputs()
        with contextlib.redirect_stdout(io.StringIO()):
            explorer.compile(program.build(), dynamic=dynamic)(*args, **kwargs)
    seen = set[str]()
    for generation in generations:
        for target in (CPU, SM_90):
            for kernel in GENERATE(replace(generation, target=target)).kernels:
                lines = [line.text for line in kernel.source.lines]
                wanted = [(loop.axis.symbol.name, loop.kind, loop.tile, depth) for loop, depth in nested(kernel.loops)]
                triton = isinstance(kernel, TritonKernel)
                assert wanted == list(loops_of_triton(lines, kernel.constants) if triton else loops_of_cpp(lines))
                seen.update(f"{kernel.language} {kind}" for _, kind, _, _ in wanted)
    rows = "triton serial" if dynamic else "triton vector"
    assert seen >= {"cpp serial", "cpp vector", "triton parallel", rows}
