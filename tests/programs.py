"""The zoo: the one import for tests, notebooks, user-interface tests and benchmarks.

ZOO           small programs, in file order
NAMED         the same by name
FUSION_PAIRS  programs made for one fusion verdict each, beside a sibling without the obstacle
MODELS        whole networks written here, narrow enough to train on a CPU in a blink
TRANSFORMERS  the same from `transformers`, with random weights; skip those whose `available` is false
"""

from zoo import breaks, effects, indexing, layers, modules, numerics, pointwise, python, randomness, reductions, views
from zoo.fusion import FUSION_PAIRS, FusionCase, FusionPair
from zoo.hf import TRANSFORMERS
from zoo.models import MODELS, Model
from zoo.observe import Run, assert_same, observe
from zoo.program import REGISTERED, TAGS, Program, call

FILES = (pointwise, numerics, reductions, views, indexing, layers, randomness, python, modules, effects, breaks)

ZOO: tuple[Program, ...] = tuple(p for file in FILES for p in REGISTERED.values() if p.fn.__module__ == file.__name__)
NAMED: dict[str, Program] = {program.name: program for program in ZOO}


def tagged(*tags: str, without: str = "") -> tuple[Program, ...]:
    """The programs that have every one of `tags` and none of the space-separated `without`."""
    if unknown := {*tags, *without.split()} - TAGS:
        raise ValueError(f"unknown tags {sorted(unknown)}")
    return tuple(p for p in ZOO if p.tags.issuperset(tags) and p.tags.isdisjoint(without.split()))


__all__ = [
    "FILES",
    "FUSION_PAIRS",
    "MODELS",
    "NAMED",
    "TAGS",
    "TRANSFORMERS",
    "ZOO",
    "FusionCase",
    "FusionPair",
    "Model",
    "Program",
    "Run",
    "assert_same",
    "call",
    "observe",
    "tagged",
]
