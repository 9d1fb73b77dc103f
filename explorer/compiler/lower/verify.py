"""What holds of every lowered graph."""

from __future__ import annotations

from collections.abc import Mapping

import sympy
import torch

from explorer.ir import loops as ir
from explorer.ir.scalar import OPS, computing_dtype


def verify_loops(loops: ir.Loops) -> None:
    """Raises AssertionError where a buffer is read before it is written or written twice, where dtypes disagree, an
    index uses an unknown symbol, an element has no origin, or a node is not accounted for."""
    written = {entry.name for entry in loops.inputs if hasattr(entry, "name") and hasattr(entry, "layout")}
    buffers = loops.buffers
    sizes = {size for entry in loops.inputs for size in _sizes(entry) if isinstance(size, sympy.Symbol)}
    for operation in loops.operations:
        assert operation.origins, f"{operation.id} has no origin"
        if isinstance(operation, ir.Loop):
            _verify_loop(buffers, operation, written, sizes)
        else:
            _verify_extern(operation, written)
        for buffer in operation.writes:
            assert buffer.name not in written, f"{buffer.name} is written twice"
            assert buffer.origins, f"{buffer.name} has no origin"
            assert buffer.alias_of is None or buffer.alias_of in buffers, f"{buffer.name} shares unknown memory"
            written.add(buffer.name)
    for output in loops.outputs:
        if isinstance(output, ir.View):
            assert output.buffer in written, f"output {output.buffer} is never written"
            assert output.layout.dtype == buffers[output.buffer].layout.dtype
    ids = {operation.id for operation in loops.operations}
    for node, (kind, into) in loops.nodes.items():
        assert ids.issuperset(into), f"{node} is recorded in an unknown operation"
        assert into or kind in ("view", "constant", "unused"), f"{node} is lost"


def _verify_extern(call: ir.Extern, written: set[str]) -> None:
    for view in call.views:
        assert view.buffer in written, f"{call.id} reads {view.buffer} before it is written"


def _sizes(entry: ir.Buffer | ir.Size) -> tuple[ir.Size, ...]:
    """The sizes that an input gives: its own value, or a tensor's sizes and strides."""
    return (*entry.layout.size, *entry.layout.stride, entry.layout.offset) if isinstance(entry, ir.Buffer) else (entry,)


def _verify_loop(buffers: Mapping[str, ir.Buffer], loop: ir.Loop, written: set[str], sizes: set[sympy.Symbol]) -> None:
    axes = loop.ranges.keys()
    strange = {symbol for size in loop.ranges.values() for symbol in size.free_symbols} - sizes
    assert not strange, f"{loop.id} runs over sizes that no input gives: {strange}"
    assert axes.isdisjoint(sizes), f"{loop.id}: an axis is a size of the inputs"
    known = axes | sizes
    assert bool(loop.combine) or not loop.reduced, f"{loop.id} reduces without a combination"
    made = {"argmax": "int64", "argmin": "int64", "any": "bool", "all": "bool"}.get(loop.combine or "")
    stored = computing_dtype(loop.buffer.layout.dtype)
    assert str(stored).endswith(made) if made else loop.value.dtype == stored, (
        f"{loop.id} stores {loop.value.dtype} in {loop.buffer.layout}"
    )
    for expr in ir.walk(*loop.roots):
        assert expr.origins, f"{loop.id}: {type(expr).__name__} without an origin"
        match expr:
            case ir.Load(buffer=name, index=index, indirect=indirect):
                assert name in written, f"{loop.id} reads {name} before it is written"
                assert expr.dtype == computing_dtype(buffers[name].layout.dtype), f"{loop.id} loads {name}"
                strange = index.free_symbols - known - {symbol for symbol, _ in indirect}
                assert not strange, f"{loop.id} loads {name}[{index}], which uses {strange}"
                assert all(value.dtype == torch.int64 for _, value in indirect), f"{loop.id}: an index is not int64"
            case ir.IndexValue(index=index):
                strange = index.free_symbols - known
                assert not strange, f"{loop.id} takes the value of {index}, which uses {strange}"
            case ir.Apply(op=op, args=args):
                operands = args[1:] if op == "where" else args
                assert len(args) == OPS[op].arity and len({a.dtype for a in operands}) == 1, f"{loop.id}: {op}"
            case ir.Masked(condition=condition, value=value, other=other):
                assert str(condition.dtype) == "torch.bool" and value.dtype == other.dtype, f"{loop.id}: masked"
            case ir.Check(value=value):
                assert value.dtype == torch.int64 == expr.dtype, f"{loop.id}: a checked index that is not int64"
            case ir.Cast(to=to):
                assert expr.dtype == computing_dtype(to), f"{loop.id}: cast"
