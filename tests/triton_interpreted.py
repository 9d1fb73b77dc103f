"""Zoo programs whose Triton kernels are interpreted: run by test_triton_interpreter.py in a process of its own, since a
process under TRITON_INTERPRET cannot compile."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from programs import ZOO, Program, assert_same, observe
from triton_programs import fresh_dynamo, through

from explorer.ir import program as ir
from explorer.ir.target import Target

EAGER_IS_ODD = {"nan_in_activations"}
"""On the CPU eager's vectorised gelu overflows to inf and NaN where its formula does not."""

CASES = [(p, train) for p in ZOO if p.name not in EAGER_IS_ODD for train in ((False, True) if p.grad else (False,))]


@pytest.mark.parametrize(("program", "train"), CASES, ids=[f"{p.name}-{'train' if t else 'run'}" for p, t in CASES])
def test_interpreted_kernels_equal_eager(program: Program, train: bool, tmp_path: Path) -> None:
    from explorer.runtime.triton_interpret import interpreted

    def build(generated: ir.Generated) -> ir.Program:
        return ir.Program(generated, interpreted(generated, tmp_path), (), lambda: {})

    torch.set_num_threads(1)
    with fresh_dynamo():
        expected = observe(program, train=train)
        actual = observe(program, through(Target("cuda", "90"), tmp_path, build), train=train)
    assert_same(actual, expected, rtol=program.rtol, atol=program.atol)
