"""One fused kernel as one C++ function: which arrangement of loops it takes, and its head.

Inductor: codegen/cpp.py, CppKernel, CppVecKernel and LoopNest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy

from explorer.compiler.codegen.cpp_columns import Columns
from explorer.compiler.codegen.cpp_nest import PARALLEL_POINTS, PARALLEL_WORK, Nest, step
from explorer.compiler.codegen.cpp_points import Points
from explorer.compiler.codegen.cpp_rows import Rows, Split
from explorer.compiler.codegen.kernel import Body
from explorer.core.origin import origin
from explorer.core.text import LineWriter, Text
from explorer.ir.loops import Axis, Buffer, Load, walk


@dataclass(frozen=True)
class Function:
    """A generated function. `text` has KERNEL for its name; the parameters are pointers to `buffers` (each with
    whether it is written), the values of `sizes`, and the number of threads. `errors[i]` is what bit i of the result
    means; without any it returns void."""

    text: Text
    buffers: tuple[tuple[str, bool], ...]
    sizes: tuple[sympy.Symbol, ...]
    errors: tuple[tuple[type[Exception], str], ...]
    arrangement: str


def kernel_function(body: Body, buffers: Mapping[str, Buffer], hints: Mapping[sympy.Symbol, int]) -> Function:
    """Generate the function of one kernel. Raises Unsupported for a dtype, operation or index without a C++ form."""
    nest = arrangement(body, buffers, hints)(body, buffers, hints)
    writer = nest.writer
    with origin(*body.kernel.ids), writer.indented():
        if nest.can_fail:
            writer.line("int bad = 0;")
        if all(axis.size != 0 for axis in nest.outer):
            nest.write()
        if nest.can_fail:
            writer.line("return bad;")
    parameters = nest.values.parameters
    declared = ", ".join((*parameters.declarations(), "int threads"))
    final = LineWriter(body.kernel.id, "cpp")
    with origin(*body.kernel.ids):
        final.line(f'extern "C" {"int" if nest.can_fail else "void"} KERNEL({declared}) {{')
    for line in writer.finish().lines:
        with origin(*line.origins):
            final.line(line.text)
    with origin(*body.kernel.ids):
        final.line("}")
    return Function(
        final.finish(),
        tuple((buffer, buffer in parameters.written) for buffer in parameters.order()),
        tuple(sorted(parameters.sizes, key=str)),
        tuple(nest.values.errors),
        type(nest).__name__.lower(),
    )


def arrangement(body: Body, buffers: Mapping[str, Buffer], hints: Mapping[sympy.Symbol, int]) -> type[Nest]:
    """Points without a reduction; Columns where an outer axis runs through more contiguous memory than an inner one;
    Split where threads would find too few outer points; else Rows."""
    outer, inner = body.kernel.outer, body.kernel.inner
    if not inner:
        return Points
    if outer and _contiguous_bytes(body, buffers, outer[-1]) > _contiguous_bytes(body, buffers, inner[-1]):
        return Columns
    points, inside = (int(sympy.Mul(*(a.size for a in axes)).xreplace(dict(hints))) for axes in (outer, inner))
    return Split if points < PARALLEL_POINTS and points * inside > 4 * PARALLEL_WORK else Rows


def _contiguous_bytes(body: Body, buffers: Mapping[str, Buffer], axis: Axis) -> int:
    """Bytes that each point of the sweeps touches anew and that are next to those of the axis's next point."""
    loads = (value for p in body.passes for value in walk(*p.sweep_roots) if isinstance(value, Load))
    touched = {(load.buffer, load.index) for load in loads if body.varies_inside(load)}
    touched |= {(write.loop.buffer.name, write.loop.index) for p in body.passes for write in p.writes}
    near = [buffers[buffer].layout.dtype.itemsize for buffer, index in touched if step(index, axis.symbol) == 1]
    return sum(near)
