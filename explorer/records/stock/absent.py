"""Triton code by stock for a GPU that is not present: generated as for a CPU with a Triton backend, shown, never run.

Inductor asks a driver for the machine; there is none, so that it gets a stub. Its heuristics see a CPU: block sizes,
tilings and which loops fuse may differ from what it would do with the GPU.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import fx
from torch._inductor import config as inductor_config

from explorer.ir.program import Target
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Observation

HEURISTICS = "under CPU heuristics"


def around_module(seen: Observation, call: Call) -> Iterator[None]:
    """In the place of the generated module, one that runs the graph's operators one by one."""
    if seen.absent is not None:
        call.instead = lambda lowering, *_: interpreted(lowering.orig_gm)
    yield
    half = seen.compile().half
    if seen.absent is not None and half is not None:
        half.target, half.runs = f"{seen.absent} {HEURISTICS}", False


def interpreted(module: fx.GraphModule) -> types.ModuleType:
    made = types.ModuleType("interpreted")
    made.__file__ = "the generated code was not loaded"

    def call(args: list[object]) -> Any:
        values = list(args)
        args.clear()
        with torch.no_grad():
            return fx.Interpreter(module).run(*values)

    made.call = call  # type: ignore[attr-defined]
    return made


@contextmanager
def generating_for(target: Target | None) -> Iterator[None]:
    """Inside the block stock generates Triton code for `target`, which is not here; for None as it always does."""
    if target is None:
        yield
        return
    driver = import_module("triton.runtime").driver
    before = driver._active
    driver.set_active(_Stub(target))
    try:
        with inductor_config.patch({"cpu_backend": "triton", "compile_threads": 1}):
            yield
    finally:
        driver._active = before


class _Stub:
    """What Inductor asks a Triton driver while it generates code."""

    def __init__(self, target: Target) -> None:
        arch: int | str = int(target.arch) if target.kind == "cuda" else target.arch
        self._target = import_module("triton.backends.compiler").GPUTarget(
            target.kind, arch, 64 if target.kind == "hip" else 32
        )

    def get_current_target(self) -> Any:
        return self._target

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0


HOOK = Hook(
    "absent",
    shows="Triton code for a GPU that is not present, marked as generated with CPU heuristics",
    missing="code for a GPU that is not present",
    checked=("2.11 CPU", "2.13 CPU"),
    patches=(Patch("torch._inductor.graph:GraphLowering._compile_to_module_lines", around_module),),
)
