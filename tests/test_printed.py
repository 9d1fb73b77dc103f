"""Each public property of a record prints as text that a person reads."""

from __future__ import annotations

import re

import pytest
import torch

import explorer
from explorer.show.record import Listing, Record
from records import empty, sample

RAW = re.compile(r"\w+\(\w+=|object at 0x")
"""What Python prints of a structure by itself."""


def steps(x: torch.Tensor, times: int) -> torch.Tensor:
    for _ in range(times):
        x = torch.softmax(x, -1) @ x
    return x


def explored() -> Record:
    return explorer.explore(steps, time=False)(torch.rand(4, 4, requires_grad=True), 2)


@pytest.mark.parametrize("made", [explored, lambda: Record(sample()), lambda: Record(empty())])
def test_each_public_property_and_its_items_print_readably(made) -> None:
    record = made()
    names = [name for name, each in vars(Record).items() if isinstance(each, property)]
    assert len(names) > 20
    for name in names:
        shown = getattr(record, name)
        for text in (str(shown), repr(shown), *(map(str, shown) if isinstance(shown, Listing) else ())):
            assert text and not RAW.search(text), f"{name}: {text[:300]}"


def test_a_structure_prints_a_line_for_each_field_that_says_something() -> None:
    kernel = Record(sample()).kernels[0]
    lines = str(kernel).splitlines()
    assert lines[:2] == ["KernelData", f"  id: {kernel.id}"]
    assert len(lines) <= 1 + len(kernel.__struct_fields__) and max(map(len, lines)) < 140
