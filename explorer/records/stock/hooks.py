"""All hooks on stock, in the order in which a compile reaches them."""

from __future__ import annotations

from explorer.records.stock import (
    absent,
    bisection,
    breaks,
    builds,
    caches,
    causes,
    cudagraphs,
    frames,
    fusion,
    graphs,
    guards,
    inputs,
    kernels,
    lowering,
    passes,
    phases,
    recompiles,
    steps,
    symbols,
)

HOOKS = (
    phases.HOOK,
    inputs.HOOK,
    frames.HOOK,
    recompiles.HOOK,
    steps.HOOK,
    breaks.HOOK,
    guards.HOOK,
    symbols.HOOK,
    caches.HOOK,
    graphs.HOOK,
    passes.HOOK,
    lowering.HOOK,
    causes.HOOK,
    fusion.HOOK,
    kernels.HOOK,
    builds.HOOK,
    cudagraphs.HOOK,
    absent.HOOK,
    bisection.HOOK,
)

WATCHING = tuple(hook for hook in HOOKS if hook not in (steps.HOOK, absent.HOOK, bisection.HOOK))
"""Those of a program that is watched as it is: the evaluator's single steps would slow its compiles down."""
