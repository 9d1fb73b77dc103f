"""Golden texts: what every stage prints for some twenty programs, kept in tests/golden and compared by test_golden.py.

A change that means nothing leaves them as they are. After one that means something, `python tests/golden.py` writes
them anew (or `python tests/golden.py NAME ...`), and their diff is read in review.

Masked or left out is what differs between machines: times, folders, the number of threads, and BUILD, which prints the
compiler's command. Bytecode differs between versions of Python, the rest does not.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

import explorer
from programs import MODELS, NAMED

FOLDER = Path(__file__).parent / "golden"
PYTHON = (3, 11)  # whose bytecode the texts hold

PROGRAMS = (
    "add_mul", "type_promotion", "softmax", "moments", "scans",  # pointwise, dtypes, reductions
    "slices", "cat_columns", "advanced_indexing", "scatter_adds", "embedding_lookup",  # views, indexing
    "linear_gelu", "layer_norm", "BatchNormTrains", "attention_by_hand", "dropout",  # layers
    "lists_dicts_sets", "generators", "try_except", "sets_attributes",  # Python
    "mutates_views_of_input", "outputs_alias_inputs", "custom_backward", "autocast_region",  # memory and modes
    "prints", "branch_on_data", "break_in_loop",  # graph breaks
)  # fmt: skip
DYNAMIC = ("dynamic_sizes", "reduction_then_pointwise")
TRITON = ("add_mul", "softmax", "layer_norm", "slices", "scatter_adds")
NETWORKS = ("small_cnn", "gpt")

CASES = (
    *PROGRAMS,
    *(f"{name}.dynamic" for name in DYNAMIC),
    *(f"{name}.triton" for name in TRITON),
    *(f"{name}.network" for name in NETWORKS),
)
ONLY_IN_NETWORKS = frozenset({"fuse", "plan memory", "generate"})  # all stages of a network are thousands of lines


def stages(case: str) -> Iterator[tuple[str, str]]:
    """The title and the text of each stage, in order."""
    name, _, kind = case.partition(".")
    program = next(each for each in MODELS if each.name == name) if kind == "network" else NAMED[name]
    args, kwargs = program.inputs()
    run = explorer.explore(
        program.build(),
        time=False,
        grad=getattr(program, "grad", True),
        dynamic=True if kind == "dynamic" else None,
        target="cuda:sm_90" if kind == "triton" else None,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        record = run(*args, **kwargs)
    for compile in record.data.compiles:
        for stage in compile.stages:
            if stage.name == "build" or kind == "triton" and stage.name != "generate":
                continue
            if kind != "network" or stage.name in ONLY_IN_NETWORKS:
                yield " ".join(filter(None, (compile.id, stage.name, stage.half))), masked(stage.text())


def masked(text: str) -> str:
    text = re.sub(r"\b\d+ threads\b", "N threads", text)
    return re.sub(r"(?:/[\w.+-]+)+/([\w.+-]+)", r"\1", text)


def text_of(case: str) -> str:
    """One case as its file holds it. Sets torch's number of threads to one meanwhile."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return "".join(f"=== {title}\n{text}\n\n" for title, text in stages(case))
    finally:
        torch.set_num_threads(threads)


def without_bytecode(text: str) -> str:
    """`text` less what DECODE, CAPTURE and LINK print of bytecode, and less places on Python's stack."""
    text = re.sub(r"is at position \d+ of \d+", "is at its position", text)
    text = re.sub(r"goes over range\(\d+, ", "goes over range(..., ", text)  # of the rest alone, since 3.12
    sections = re.split(r"(?m)^(?==== )", text)
    kept = (each.partition("\n\n# ")[0] for each in sections if not re.match(r"=== \S+ decode\n", each))
    return "\n".join(each.rstrip() for each in kept).strip()


def main() -> None:
    for case in sys.argv[1:] or CASES:
        (FOLDER / f"{case}.txt").write_text(text_of(case))


if __name__ == "__main__":
    main()
