"""From a schedule and its memory plan to sources, and what must hold of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from explorer.compiler.codegen.cpp import CppSources
from explorer.compiler.codegen.cpp_prelude import prelude
from explorer.compiler.codegen.triton import generate_triton
from explorer.compiler.codegen.wrapper import Storage, Wrapper
from explorer.ir.loops import Extern
from explorer.ir.program import CppKernel, Generated, Generation, TiledLoop


def generate(generation: Generation) -> Generated:
    """Write every kernel and the wrapper. Raises Unsupported where an element has no form on the target."""
    if generation.target.kind != "cpu":
        return generate_triton(generation)
    schedule, plan = generation.schedule, generation.plan
    loops = schedule.loops
    storage = Storage(schedule, plan)
    sources = CppSources(loops.buffers, storage, loops.hints)
    wrapper = Wrapper(loops, plan, storage)
    wrapper.begin()
    waiting: list[CppKernel] = []

    def launch() -> None:
        if waiting:
            entry = sources.join(waiting)
            wrapper.launch(entry, tuple(id for kernel in waiting for id in sources.ids[kernel.id]))
            waiting.clear()

    for position, item in enumerate(schedule.items):
        if isinstance(item, Extern):
            launch()
            wrapper.release(position - 1)
            wrapper.call(item)
        else:
            waiting.append(sources.add(item))
    launch()
    text = wrapper.finish()
    every = [line for kernel in sources.kernels for line in kernel.source.lines]
    every += [line for entry in sources.entries for line in entry.source.lines]
    return Generated(
        loops.name,
        str(generation.target),
        tuple(sources.kernels),
        text,
        len(wrapper.given),
        len(loops.outputs),
        wrapper.constants,
        prelude(every),
        tuple(sources.entries),
        tuple(wrapper.externs),
        generation.options,
    )


_NAME = re.compile(r"\w+")


def verify_generated(generated: Generated) -> None:
    """Raise AssertionError unless kernels have ids of their own, each line has an origin, tiles are gone over inside
    the loops that step from tile to tile, each kernel is called once, by an entry or by the wrapper, and the wrapper
    names only what there is."""
    ids = [kernel.id for kernel in generated.kernels]
    assert len(set(ids)) == len(ids), f"{generated.name}: two kernels share an id"
    for kernel in generated.kernels:
        _verify_loops(kernel.id, kernel.loops)
        assert kernel.origins, f"{kernel.id} comes from nothing"
    entered = [id for entry in generated.entries for id in entry.kernels]
    inside = set(entered)
    assert len(inside) == len(entered), f"{generated.name}: a kernel is called twice"
    assert inside <= set(ids), f"{generated.name} calls {inside - set(ids)}, which it lacks"
    kernels = (kernel.source for kernel in generated.kernels)
    texts = (generated.wrapper, *kernels, *(entry.source for entry in generated.entries))
    lost = [line.id for text in texts for line in text.lines if not line.origins]
    assert not lost, f"{generated.name}: {lost} come from nothing"
    wrapper = set(_NAME.findall(str(generated.wrapper)))
    called = [entry.function for entry in generated.entries]
    called += [kernel.function for kernel in generated.kernels if kernel.id not in inside]
    lacking = [name for name in (*called, *(name for _, name in generated.externs)) if name not in wrapper]
    assert not lacking, f"{generated.name} never calls {lacking}"
    unknown = [name for _, name in generated.externs if name not in generated.constants]
    assert not unknown, f"{generated.name} has no {unknown}"


def _verify_loops(kernel: str, parts: Iterable[object], around: tuple[TiledLoop, ...] = ()) -> None:
    for loop in parts:
        assert isinstance(loop, TiledLoop), f"{kernel}: {loop} is not a loop"
        steps = any(each.axis == loop.axis and each.tile == loop.within for each in around)
        assert steps or not loop.within, f"{kernel}: nothing steps from tile to tile of {loop}"
        shared = any(each.kind == "parallel" for each in around)
        assert shared or not loop.shared, f"{kernel}: nothing shares out {loop}"
        assert not any("vector" in each.kind for each in around), f"{kernel}: {loop} is inside a vector loop"
        _verify_loops(kernel, loop.body, (*around, loop))
