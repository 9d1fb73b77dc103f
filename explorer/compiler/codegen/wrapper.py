"""The Python function that runs one half: takes the inputs apart, allocates, launches kernels and calls operators, with
each buffer in the memory that the plan says.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from explorer.compiler.codegen.exprs import index_text
from explorer.core.origin import origin, synthetic
from explorer.core.text import LineWriter, Text
from explorer.ir.loops import Buffer, Extern, Layout, Loops, Number, Size, View
from explorer.ir.program import EntryPoint
from explorer.ir.schedule import Allocation, MemoryPlan, Schedule

POOL = "(pool)"
"""Stands for the call's one pool among buffers' names; no buffer can have it."""


class Storage:
    """Answers, for a buffer, whose memory it lives in and where."""

    def __init__(self, schedule: Schedule, plan: MemoryPlan) -> None:
        self.allocations: dict[str, Allocation] = {a.buffer: a for a in plan.allocations}
        self.buffers = schedule.loops.buffers
        self.last = {name: schedule.live[name][1] for name in sorted(schedule.loops.frees)}
        """The last position in the schedule that uses each tensor, by itself or by what lies in its memory."""
        for a in plan.allocations:
            tensor = self.tensor(a.buffer)
            self.last[tensor] = max(self.last.get(tensor, -1), a.last)

    def root(self, buffer: str) -> str:
        """The buffer whose memory `buffer` was given: itself, or where reuse and aliases lead."""
        while (of := self._shared(buffer)) is not None:
            buffer = of
        return buffer

    def tensor(self, buffer: str) -> str:
        """The buffer whose tensor to use for `buffer`: as `root`, but a view that an operator returned is a tensor of
        its own, with its own first element."""
        while not self._is_returned_view(buffer) and (of := self._shared(buffer)) is not None:
            buffer = of
        return buffer

    def _shared(self, buffer: str) -> str | None:
        allocation = self.allocations.get(buffer)
        return allocation.of if allocation is not None and allocation.where == "reuse" else None

    def _is_returned_view(self, buffer: str) -> bool:
        return self.buffers[buffer].kind == "extern" and self.buffers[buffer].alias_of is not None

    def in_pool(self, buffer: str) -> bool:
        allocation = self.allocations.get(self.tensor(buffer))
        return allocation is not None and allocation.where == "pool"

    def base(self, buffer: str) -> str:
        """The name of the tensor to take a pointer of: the pool, or a buffer with a tensor of its own."""
        return POOL if self.in_pool(buffer) else self.tensor(buffer)

    def offset(self, buffer: str) -> int:
        """Bytes from the base's pointer to the start of the buffer."""
        return self.allocations[self.tensor(buffer)].offset if self.in_pool(buffer) else 0


POOL_KEPT = 64 << 20
"""Bytes: a larger pool is given back after each call."""

FAST = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "convolution", "cat"})
"""Operators whose torch function takes the same arguments and costs half as much to call as the overload."""


@dataclass
class Wrapper:
    """Writes `call(inputs) -> tuple`. `constants` collects the objects that the text names."""

    loops: Loops
    plan: MemoryPlan
    storage: Storage
    constants: dict[str, object] = field(default_factory=dict)
    body: LineWriter = field(init=False)
    pools: tuple[str, str] = ("POOLS", "[]")
    """Where idle pools are kept, as an expression inside `call`, and what POOLS starts as."""
    views: dict[tuple[str, Layout], str] = field(default_factory=dict)
    made: set[str] = field(init=False)
    """The tensors that a call holds, as far as it is written."""
    externs: list[tuple[str, str]] = field(default_factory=list)

    block: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.body = self._writer()
        self.buffers = self.storage.buffers
        self.made = set(self.loops.frees)
        self.given = self._given()
        self.sizes = self._sizes()
        self.constants |= {"empty_strided": empty_strided, "view_of": view_of, "laid_out": laid_out, "torch": torch}
        self.has_pool = any(a.where == "pool" for a in self.plan.allocations)
        self.constants |= {variable(name): tensor for name, tensor in self.loops.constants.items()}

    def _writer(self) -> LineWriter:
        return LineWriter(f"{self.loops.mark}call", "python")

    def _given(self) -> list[str]:
        """The variable of each input."""
        names = []
        for place, entry in enumerate(self.loops.inputs):
            if isinstance(entry, Buffer):
                names += [variable(entry.name)] if entry.kind != "constant" else []
            else:
                names.append(str(entry) if isinstance(entry, sympy.Symbol) else f"_{place}")
        return names

    # Sizes.

    def _sizes(self) -> dict[sympy.Symbol, str]:
        """Where each size symbol comes from, as Python text: an input of its own, or a size of an input tensor."""
        found = {entry: str(entry) for entry in self.loops.inputs if isinstance(entry, sympy.Symbol)}
        for entry in self.loops.inputs:
            if isinstance(entry, Buffer):
                for kind, dims in (("size", entry.layout.size), ("stride", entry.layout.stride)):
                    for place, size in enumerate(dims):
                        if isinstance(size, sympy.Symbol):
                            found.setdefault(size, f"{variable(entry.name)}.{kind}({place})")
        return found

    def _text(self, size: Size) -> str:
        return index_text(size, "python")

    def _tuple(self, sizes: Iterable[Size]) -> str:
        texts = [self._text(size) for size in sizes]
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    # The call, from its first line to its last.

    def begin(self) -> None:
        with origin(synthetic("wrapper")):
            self.block.enter_context(self.body.indented("def call(inputs):"))
        inputs = tuple(entry.name for entry in self.loops.inputs if isinstance(entry, Buffer))
        with origin(*(inputs or (synthetic("wrapper"),))):
            if self.given:
                self.body.line(f"{', '.join(self.given)}{',' * (len(self.given) == 1)} = inputs")
        for symbol, text in self.sizes.items():
            if text != str(symbol):
                with origin(*inputs):
                    self.body.line(f"{symbol} = {text}")

    def launch(self, entry: EntryPoint, ids: tuple[str, ...]) -> None:
        """Run consecutive kernels by one call."""
        for base in entry.buffers:
            self._allocate(base)
        pointers = ["pool" if base == POOL else f"{variable(base)}.data_ptr()" for base in entry.buffers]
        given = ", ".join([*pointers, *map(str, entry.sizes), "threads()"])
        with origin(*ids):
            if not entry.errors:
                self.body.line(f"{entry.function}({given})")
                return
            with self.body.indented(f"if failed := {entry.function}({given}):"):
                self.constants[f"{entry.function}_errors"] = tuple(kind(text) for kind, text in entry.errors)
                self.body.line(f"raise again({entry.function}_errors[failed - 1])")
        self.constants["again"] = again

    def release(self, position: int) -> None:
        """Let go of the tensors that nothing after `position` of the schedule uses, as the memory plan counts on."""
        ended = [name for name in self.made if self.storage.last.get(name, position + 1) <= position]
        for name in sorted(ended):
            self.made.remove(name)
            views = {key: view for key, view in self.views.items() if key[0] == name}
            with origin(name):
                self.body.line(f"del {', '.join([variable(name), *views.values()])}")
            for key in views:
                del self.views[key]

    def _allocate(self, base: str) -> None:
        """Make a tensor of its own when it is first written."""
        allocation = self.storage.allocations.get(base)
        if base == POOL or base in self.made or allocation is None or allocation.where != "own":
            return
        self.made.add(base)
        layout = self.buffers[base].layout
        with origin(base):
            self.body.line(f"{variable(base)} = {self._empty(layout)}")

    def _empty(self, layout: Layout) -> str:
        return f"empty_strided({self._tuple(layout.size)}, {self._tuple(layout.stride)}, {layout.dtype})"

    def call(self, extern: Extern) -> None:
        """Call a library operator, into given memory or into its own."""
        given = [self._argument(arg) for arg in extern.args]
        given += [f"{name}={self._argument(value)}" for name, value in extern.kwargs]
        function = self._function(extern)
        self.externs.append((extern.id, function))
        with origin(extern.id):
            if extern.out:
                (buffer,) = (b for b in extern.outputs if b is not None)
                target = self.tensor(View(buffer.name, buffer.layout))
                self.body.line(f"{function}({', '.join([*given, f'out={target}'])})")
                return
            names = [variable(buffer.name) if buffer else "_" for buffer in extern.outputs]
            made = f"{names[0]}" if not extern.returns_tuple else f"{', '.join(names)}{',' if len(names) == 1 else ''}"
            call = f"{function}({', '.join(given)})"
            self.body.line(f"{made} = {call}" if any(b is not None for b in extern.outputs) else call)
            for buffer in extern.writes:
                if buffer.alias_of is None and not extern.as_made:
                    name = variable(buffer.name)
                    self.body.line(f"{name} = laid_out({name}, {self._tuple(buffer.layout.stride)})")
        self.made |= {buffer.name for buffer in extern.writes}

    def _function(self, extern: Extern) -> str:
        target: Any = extern.target
        packet: Any = getattr(target, "overloadpacket", None)
        short = packet.__name__ if packet is not None else ""
        if short in FAST and target._overloadname == "default":
            self.constants[short] = getattr(torch._C._VariableFunctions, short)
            return short
        name = str(extern.overload).replace(".", "_")
        self.constants[name] = getattr(extern.overload, "_op", extern.overload)
        return name

    def _argument(self, value: object) -> str:
        if isinstance(value, View):
            return self.tensor(value)
        if isinstance(value, Number):
            return f"{self.tensor(value.view)}.item()"
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(map(self._argument, value))}]"
        if isinstance(value, sympy.Basic):
            return self._text(value)
        if isinstance(value, float) and not math.isfinite(value):
            return f"float('{value}')"
        if value is None or isinstance(value, (bool, int, float, str)):
            return repr(value)
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, torch.device):
            return f"torch.device({str(value)!r})"
        name = f"constant{len(self.constants)}"
        self.constants[name] = value
        return name

    # Tensors.

    def tensor(self, view: View) -> str:
        """The name of a tensor with the view's layout, after writing the line that makes it."""
        root = self.storage.tensor(view.buffer)
        layout = view.layout
        fixed = all(n.is_Integer for n in (*layout.size, *layout.stride, layout.offset))
        if self.storage.in_pool(root):
            if fixed:
                return self._pool_view(view)
            name = self._pool_view(View(root, self.buffers[root].layout))
        else:
            self._allocate(root)
            name = variable(root)
        if self.buffers[root].layout == layout:
            return name
        key = (root, layout)
        if key not in self.views:
            self.views[key] = f"{root}_view{sum(known == root for known, _ in self.views)}"
            with origin(view.buffer):
                self.body.line(f"{self.views[key]} = {self._view(name, self.buffers[root], layout)}")
        return self.views[key]

    def _view(self, name: str, of: Buffer, layout: Layout) -> str:
        tensor = name
        if of.layout.dtype != layout.dtype:
            tensor = f"{name}.view({layout.dtype})"
        offset = layout.offset - of.layout.offset
        return f"view_of({tensor}, {self._tuple(layout.size)}, {self._tuple(layout.stride)}, {self._text(offset)})"

    def _pool_view(self, view: View) -> str:
        offset = self.storage.offset(view.buffer)
        layout = view.layout
        key = (f"{POOL}+{offset}", layout)
        if key not in self.views:
            name = f"pool_{view.buffer}"
            self.views[key] = f"{name}_{len(self.views)}" if name in self.views.values() else name
        return self.views[key]

    # The end.

    def finish(self) -> Text:
        """The outputs, and the pool's part before the call."""
        texts = []
        for output in self.loops.outputs:
            if isinstance(output, View):
                texts.append(self.tensor(output))
            elif isinstance(output, sympy.Basic):
                texts.append(self._text(output))
            else:
                texts.append(self._argument(output))
        returned = tuple(dict.fromkeys(o.buffer for o in self.loops.outputs if isinstance(o, View)))
        pooled = {key: name for key, name in self.views.items() if key[0].startswith(POOL)}
        with origin(*(returned or (synthetic("wrapper"),))):
            if self.has_pool and self.plan.pool_bytes <= POOL_KEPT:
                self.body.line(f"{self.pools[0]}.append(lent)")
            self.body.line(f"return ({', '.join(texts)}{',' if len(texts) == 1 else ''})")
        return self._with_pool(pooled)

    def _with_pool(self, pooled: Mapping[tuple[str, Layout], str]) -> Text:
        """The text in order: the pool's maker, then `call`, which first borrows a pool."""
        self.block.close()
        lines = self.body.finish().lines
        if not self.has_pool:
            return Text(lines, "python")
        writer = self._writer()
        everything = tuple(a.buffer for a in self.plan.allocations if a.where == "pool")
        names = ["pool", *pooled.values(), "_"]
        kept = self.plan.pool_bytes <= POOL_KEPT
        if kept:
            with origin(*everything):
                writer.line(f"POOLS = {self.pools[1]}")
        with origin(*everything), writer.indented("def new_pool():"):
            writer.line(f"memory = empty_strided(({self.plan.pool_bytes + 64},), (1,), torch.uint8)")
            writer.line("start = -memory.data_ptr() % 64")
            for (place, layout), name in pooled.items():
                first = int(place.partition("+")[2]) // layout.dtype.itemsize
                source = f"memory[start:start + {self.plan.pool_bytes}].view({layout.dtype})"
                writer.line(
                    f"{name} = view_of({source}, {self._tuple(layout.size)}, {self._tuple(layout.stride)}, "
                    f"{first + layout.offset})"
                )
            writer.line(f"return ({', '.join(['memory.data_ptr() + start', *pooled.values(), 'memory'])})")
        head = 1 + any(line.text.strip().endswith("= inputs") for line in lines[:2])
        for line in lines[:head]:
            with origin(*line.origins):
                writer.line(line.text)
        with origin(*everything), writer.indented():
            if kept:
                with writer.indented("try:"):
                    writer.line(f"lent = {self.pools[0]}.pop()")
                with writer.indented("except IndexError:"):
                    writer.line("lent = new_pool()")
            else:
                writer.line("lent = new_pool()")
            writer.line(f"{', '.join(names)} = lent")
        for line in lines[head:]:
            with origin(*line.origins):
                writer.line(line.text)
        return writer.finish()


RESERVED = frozenset("POOLS again call empty_strided inputs lent memory new_pool pool start".split())
RESERVED |= FAST | {"threads", "torch", "view_of", "laid_out", "failed"} | frozenset(keyword.kwlist)
RESERVED |= frozenset("stream current_stream device UNALIGNED unaligned defaultdict".split())


def variable(buffer: str) -> str:
    """The Python variable of a buffer, whose name may be that of a user's parameter."""
    return f"{buffer}_" if buffer in RESERVED else buffer


def again(error: Exception) -> Exception:
    """A fresh exception of the same kind and text: one that was raised before carries a traceback."""
    return type(error)(*error.args)


# torch's own short cuts for generated code, which skip the dispatcher: half the time of torch.empty_strided and of
# Tensor.as_strided. `view_of(tensor, size, stride, offset)` counts the offset from the tensor's first element.
_short_cuts: Any = torch._C._dynamo.guards
empty_strided = _short_cuts._empty_strided_cpu
view_of = _short_cuts._reinterpret_tensor


def laid_out(made: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """A library call's result in the strides that its rule for fake tensors gave, which the code around it relies on.
    Some operators lay their results out otherwise, or conjugate them lazily."""
    strides = made.stride()
    is_planned = strides == stride or all(
        has == wanted or size == 1 for size, has, wanted in zip(made.shape, strides, stride, strict=True)
    )
    if is_planned and not made.is_conj() and not made.is_neg():
        return made
    return torch.empty_strided(made.shape, stride, dtype=made.dtype, device=made.device).copy_(made)
