"""Every stage prints what tests/golden holds. After a change that should show there: python tests/golden.py"""

import sys

import pytest

import golden
from torch_release import BEFORE_2_13


@pytest.mark.parametrize("case", golden.CASES)
def test_stages_print_as_before(case):
    if case == "gpt.network" and BEFORE_2_13:
        pytest.skip("torch 2.13 decomposes it in its own way")
    written = (golden.FOLDER / f"{case}.txt").read_text()
    made = golden.text_of(case)
    if sys.version_info[:2] != golden.PYTHON:
        written, made = golden.without_bytecode(written), golden.without_bytecode(made)
    assert made.split("\n") == written.split("\n"), f"read the difference, then: python tests/golden.py {case}"


def test_each_text_belongs_to_a_case():
    assert {file.stem for file in golden.FOLDER.glob("*.txt")} == set(golden.CASES)


def test_the_bytecode_is_left_out_for_another_python():
    text = golden.without_bytecode("=== f0 decode\n# f(x)\n 0 LOAD\n\n=== f0 capture\ngraph\n\n# f(x)\n 0 LOAD\n\n")
    assert text == "=== f0 capture\ngraph"
