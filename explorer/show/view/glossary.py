"""The words of the viewer: what each pane shows, and the terms of the glossary, each with stock torch's counterpart and
its section of a paper. The built viewer takes both from the same files (extension/bundle.mjs): no record holds them.

`python -m explorer.show.view.glossary` writes docs/glossary.md.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import msgspec

PAGE = Path(__file__).parents[3] / "docs" / "glossary.md"
INTRODUCTION = """# Glossary

The terms of the explorer. The viewer's `?` explains those that its pane uses in the same words. Each has its
counterpart in stock PyTorch: paths are below the installed package `torch`, and a test checks that they exist. The last
column has the section of [the PyTorch 2 paper](paper.md), and the other papers that the term comes from: *Chen* is
[Training Deep Nets with Sublinear Memory Cost](https://arxiv.org/abs/1604.06174) (2016), *Halide* is
[Halide](https://doi.org/10.1145/2491956.2462176) (PLDI 2013) and *Triton* is
[Triton](https://doi.org/10.1145/3315508.3329973) (MAPL 2019).
"""


class Pane(msgspec.Struct, frozen=True):
    """`paper` is the section and term of the PyTorch 2 paper; `stock` what torch has for it ("": nothing)."""

    text: str
    paper: str = ""
    stock: str = ""
    terms: tuple[str, ...] = ()


class Term(msgspec.Struct, frozen=True):
    """`paper` lists sections of the PyTorch 2 paper, and names of other papers."""

    meaning: str
    stock: str = ""
    paper: str = ""


class Part(msgspec.Struct, frozen=True):
    part: str
    terms: dict[str, Term]


Content = TypeVar("Content")


def _read(name: str, content: type[Content]) -> Content:
    return msgspec.json.decode(files(__package__).joinpath(name).read_bytes(), type=content)


PANES = _read("panes.json", dict[str, Pane])
GLOSSARY = _read("glossary.json", tuple[Part, ...])


def page() -> str:
    """docs/glossary.md"""
    found = [INTRODUCTION]
    for each in GLOSSARY:
        found.append(f"\n## {each.part}\n\n")
        if each.part == "Stages":
            found.append("In the order in which they run; each is one line of `record.stages`.\n\n")
        found.append("| term | meaning | in stock PyTorch | paper |\n| --- | --- | --- | --- |\n")
        for term, (meaning, stock, paper) in ((t, msgspec.structs.astuple(x)) for t, x in each.terms.items()):
            found.append(f"| {term} | {meaning} | {stock} | {_sections(paper)} |\n")
    return "".join(found)


def _sections(paper: str) -> str:
    """The PyTorch 2 paper's sections marked as such, and other papers in italics."""
    return re.sub("[A-Z][a-z]+", r"*\g<0>*", re.sub(r"^(?=\d)", "section ", paper))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
