"""One fused kernel as Triton functions: tiles, masks, passes and reductions.

Inductor: codegen/triton.py, TritonKernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from explorer.compiler.codegen.kernel import KernelBody, Part, Pass, Reduce, Reduced, Write, write_loops
from explorer.compiler.codegen.reasons import OPERATION
from explorer.compiler.codegen.triton_exprs import apply_text, literal, type_name
from explorer.compiler.codegen.triton_tiling import Dim, Tiling
from explorer.compiler.codegen.triton_values import (
    LITERAL,
    NONE,
    ROWS,
    Pending,
    Roles,
    TileValue,
    TritonValues,
    divides,
)
from explorer.core.origin import Origins, origin
from explorer.core.reasons import Unsupported, Why
from explorer.core.text import LineWriter, Text
from explorer.ir.index import points, row_major
from explorer.ir.loops import Axis, Loop, Size, evaluated, walk
from explorer.ir.program import Argument, BlockSize, LoopKind, TiledLoop, nested
from explorer.ir.scalar import HALVES, neutral


@dataclass(frozen=True, slots=True)
class TritonFunction:
    """One generated Triton function. `source` has {name} where its name belongs; `types` are the signature, in order of
    the arguments; `blocks` the constexpr parameters; `programs` the size of the one-dimensional grid; `loops` the
    directions of the grid and of the tiles as loops, and `tiled` why the tiles are what they are."""

    source: tuple[Pending, ...]
    arguments: tuple[Argument, ...]
    types: tuple[str, ...]
    blocks: tuple[BlockSize, ...]
    programs: Size
    warps: int
    asserts: bool
    loops: tuple[TiledLoop, ...]
    tiled: str

    def key(self) -> object:
        """Equal for functions that are the same but for their names."""
        lines = tuple((line.depth, line.text) for line in self.source)
        return lines, self.types, self.blocks, self.warps, self.asserts

    def text(self, id: str, name: str) -> Text:
        writer = LineWriter(id, "python")
        for line in self.source:
            with origin(*(line.origins or (id,))):
                writer.line("    " * line.depth + line.text.replace("{name}", name))
        return writer.finish()


ATOMIC = {
    "add": (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64),
    "max": (torch.int32, torch.int64),
    "min": (torch.int32, torch.int64),
    "prod": (),
}
"""Dtypes for which an update of memory has an instruction with the right meaning (float max loses NaN)."""

COMBINE = {"add": "ops.add", "max": "ops.maximum", "min": "ops.minimum", "prod": "ops.product"}


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory for the partial results that one function leaves for the next."""

    name: str
    numel: Size
    dtype: torch.dtype


def needs_serial(body: KernelBody) -> bool:
    """Whether an update is of single bytes, which no instruction compares and swaps: points go one after another."""
    return any(w.loop.store != "set" and w.loop.buffer.layout.dtype.itemsize == 1 for w in body.writes)


def functions(
    body: KernelBody, tiling: Tiling, dtypes: Mapping[str, torch.dtype], wide: bool, numbers: frozenset[str]
) -> tuple[list[TritonFunction], list[Workspace]]:
    """The Triton functions that compute a kernel, to be launched in order. `dtypes` are those of the buffers; `wide`
    says that indices need 64 bits; `numbers` are the buffers on the host."""
    partials: dict[Reduced, tuple[Workspace, ...]] = {}
    if tiling.kind != "split":
        return [_TritonWriter(body, tiling, dtypes, wide, numbers).function(body.passes)], []
    writer = partial(_TritonWriter, body, tiling, dtypes, wide, numbers, partials=partials)
    parts = [writer().function((each,)) for each in body.passes]
    return parts, [workspace for group in partials.values() for workspace in group]


@dataclass
class _TritonWriter(TritonValues):
    partials: dict[Reduced, tuple[Workspace, ...]] = field(default_factory=dict)
    """Results of earlier functions, to be joined here, and those that this one leaves to be joined."""
    splits: int = 1
    """Programs that share this function's rows."""
    accumulators: dict[Reduced, tuple[str, ...]] = field(default_factory=dict)

    def function(self, passes: Sequence[Pass]) -> TritonFunction:
        loops = write_loops(self.tree(passes), self.opened)
        sizes = [Argument(name, size=symbol) for name, symbol in sorted(self.sizes.items())]
        body = "\n".join(line.text for line in self.lines)
        blocks = tuple(block for block in self.tiling.blocks if block.parameter in body)
        arguments = (*self.pointers.values(), *sizes)
        parameters = [argument.name for argument in arguments] + [f"{each.parameter}: tl.constexpr" for each in blocks]
        head = [
            Pending(0, "@triton.jit", self.cause),
            Pending(0, f"def {{name}}({', '.join(parameters)}):", self.cause),
        ]
        grid = (loop for loop, _ in nested(loops) if loop.kind == "parallel")
        programs = sympy.Mul(*(_blocks(loop.size, loop.tile or 1) for loop in grid))
        types = (*(self.types[argument.name] for argument in arguments),)
        source = (*head, *self.lines)
        cut = self.tiling
        return TritonFunction(source, arguments, types, blocks, programs, cut.warps, self.asserts, loops, cut.why)

    # Loops

    def tree(self, passes: Sequence[Pass]) -> tuple[Part, ...]:
        """Decide on the loops: the grid of programs, and what each of them does in turn."""
        serial = self.tiling.kind == "serial"
        if serial and "reduced" in self.dims:
            ids = ", ".join(self.body.kernel.ids)
            raise Unsupported(Why(OPERATION, f"an update without an atomic instruction beside a reduction: {ids}"))
        self.splits = self.tiling.splits if any(each.reductions or each.writes for each in passes) else 1
        kind: LoopKind = "serial" if serial else "parallel"
        loops = [self._loop_over(dim, kind) for dim in self.tiling.dims if dim.role != "reduced"]
        if self.splits > 1:
            loops.append(TiledLoop(Axis(sympy.Symbol("split"), sympy.Integer(self.splits)), "parallel", role="split"))
        if self.tiling.kind == "persistent":
            loops.append(TiledLoop(Axis(sympy.Symbol("r"), self.dims["reduced"].numel), "vector", role="reduced"))
        body: list[Part] = [partial(self._earlier, passes)]
        body += [part for current in passes for part in self._pass(current)]
        for loop in reversed(loops):
            body = [loop.around(*body)]
        return (self._sizes, *body)

    def _loop_over(self, dim: Dim, kind: LoopKind, shared: bool = False) -> TiledLoop:
        return TiledLoop(Axis(sympy.Symbol(dim.name), dim.numel), kind, dim.block, shared=shared, role=dim.role)

    def _pass(self, current: Pass) -> Iterator[Part]:
        serial = self.tiling.kind == "serial"
        if serial or "reduced" not in self.dims:
            yield partial(self._writes, (*current.once, *current.writes), NONE if serial else frozenset(self.dims))
            return
        yield partial(self._writes, current.once, ROWS, "(split == 0)" if self.splits > 1 else "")
        if self.tiling.kind == "persistent":
            yield partial(self._reductions, current)
            yield partial(self._writes, current.writes, frozenset(self.dims))
        elif current.reductions or current.writes:
            yield partial(self._begin_sweep, current)
            rows = self._loop_over(self.dims["reduced"], "serial", shared=self.splits > 1)
            yield rows.around(partial(self._step, current))
            yield partial(self._end_sweep, current)

    @contextmanager
    def opened(self, loop: TiledLoop, around: TiledLoop | None) -> Iterator[None]:
        """Programs and lanes have no loop in the text: their points are those of an index of their own."""
        program = "tl.program_id(0)"
        if self.wide:
            program += ".to(tl.int64)"
        if self.splits > 1:
            program = f"({program} // SPLITS)"
        if loop.kind == "serial" and loop.role == "reduced":
            steps = "split * chunk, tl.minimum(split * chunk + chunk, rnumel)" if loop.shared else "0, rnumel"
            with self.indented(f"for roffset in range({steps}, RBLOCK):"):
                self.dim(self.dims["reduced"], "roffset + tl.arange(0, RBLOCK)")
                yield
            return
        if loop.kind == "serial":
            with self.indented("for point in range(0, xnumel):"):
                self.line("xindex = point + tl.full([1], 0, tl.int64)")
                self.split_axes(self.dims["row"])
                yield
            return
        if loop.role == "split":
            self.line("split = tl.program_id(0) % SPLITS")
            self.line("chunk = tl.cdiv(tl.cdiv(rnumel, SPLITS), RBLOCK) * RBLOCK")
        elif loop.kind == "vector":
            self.dim(self.dims["reduced"], "tl.arange(0, RBLOCK)")
        elif loop.role is not None:
            dim = self.dims[loop.role]
            if "column" in self.dims:
                program = f"({program} {'//' if dim.role == 'row' else '%'} xblocks)"
            self.dim(dim, f"{program} * {dim.parameter} + tl.arange(0, {dim.parameter})")
        yield

    def _sizes(self) -> None:
        """The extents that the loops and the masks need."""
        for dim in self.tiling.dims:
            walked = self.tiling.kind != "persistent" if dim.role == "reduced" else self.tiling.kind == "serial"
            if walked or not divides(dim.numel, dim.block) or "column" in self.dims:
                self.line(f"{dim.name}numel = {self.size(dim.numel)}")
        if "column" in self.dims:
            self.line("xblocks = tl.cdiv(xnumel, XBLOCK)")

    def _earlier(self, passes: Sequence[Pass]) -> None:
        """Join what earlier functions left."""
        earlier = [value for current in passes for value in walk(*current.roots) if value in self.partials]
        if earlier:
            self.line("parts = xindex * SPLITS + tl.arange(0, SPLITS)[None, :]")
        for value in earlier:
            self.value(value)

    # Stores

    def _writes(self, writes: Iterable[Write], dims: Roles, only: str = "") -> None:
        """Store values, over the tile's `dims`. `only` is one more condition."""
        for write in writes:
            loop = write.loop
            indirect = {symbol: self.value(value) for symbol, value in write.indirect}
            value = self.value(write.value)
            position = self.index(loop.index, indirect)
            pointer = self.pointer(loop.buffer.name, loop.buffer.layout.dtype, written=True)
            place = position.text
            if missing := dims - position.dims:
                place = self.zeros(missing) if place == "0" else f"{place} + {self.zeros(missing)}"
            mask = self.mask(dims, only)
            text = self.operand(value, write.value)
            place = f"{pointer} + ({place})" if " " in place else f"{pointer} + {place}"
            causes = self.causes(write.value) or loop.origins
            self._store(loop, place, text, mask, dims, causes)

    def _store(self, loop: Loop, place: str, value: str, mask: str, dims: Roles, causes: Origins) -> None:
        extra = f", {mask}" if mask else ""
        if loop.store == "set":
            self.line(f"tl.store({place}, {value}{extra})", causes)
            return
        dtype = loop.buffer.layout.dtype
        if dtype in ATOMIC[loop.store]:
            if dtype in HALVES:
                value = f"{value}.to({type_name(dtype)})"
            value = f"tl.broadcast_to({value}, {self.shape(dims)})"
            self.line(f'tl.atomic_{loop.store}({place}, {value}{extra}, sem="relaxed")', causes)
            return
        if self.tiling.kind == "serial":
            self._update(loop, place, value, causes)
            return
        shape = self.shape(dims)
        base, _, offset = place.partition(" + ")
        holds = mask or f"tl.full({shape}, True, tl.int1)"
        given = (
            f"tl.broadcast_to({offset}, {shape}), tl.broadcast_to({value}, {shape}), tl.broadcast_to({holds}, {shape})"
        )
        whole = f"tl.int{dtype.itemsize * 8}"
        self.line(f"ops.atomic_update({base}, {given}, {COMBINE[loop.store]}, {whole})", causes)

    def _update(self, loop: Loop, place: str, value: str, causes: Origins) -> None:
        """Read, join and write back, where no other point comes between."""
        dtype = loop.buffer.layout.dtype
        old = self.name(f"tl.load({place})", causes)
        op = {"add": "add", "prod": "mul", "max": "maximum", "min": "minimum"}[loop.store]
        if dtype == torch.bool:
            op = {"add": "bitwise_or", "mul": "bitwise_and"}.get(op, op)
        new = self.name(apply_text(op, dtype, (old, value)), causes)
        self.line(f"tl.store({place}, {new})", causes)

    # Sweeps

    def _reductions(self, current: Pass) -> None:
        """Reduce whole rows held in registers."""
        for reduction in current.reductions:
            value = self._reducible(reduction)
            self.scopes[0][reduction.result, ""] = self._reduce(reduction, value)

    def _begin_sweep(self, current: Pass) -> None:
        for value in walk(*current.sweep_roots, below=evaluated):
            if not self.body.varies_inside(value):
                self.value(value)
        self.accumulators |= {reduction.result: self._accumulators(reduction) for reduction in current.reductions}

    def _step(self, current: Pass) -> None:
        for reduction in current.reductions:
            values = self._reducible(reduction)
            self._accumulate(reduction, self.accumulators[reduction.result], values)
        self._writes(current.writes, frozenset(self.dims))

    def _end_sweep(self, current: Pass) -> None:
        for reduction in current.reductions:
            values = self.accumulators[reduction.result]
            if self.splits > 1:
                self.partials[reduction.result] = self._leave(reduction, values)
            else:
                self.scopes[-1][reduction.result, ""] = self._reduce(reduction, values)

    def _causes(self, reduction: Reduce) -> Origins:
        return self.causes(reduction.result)

    def _reducible(self, reduction: Reduce) -> tuple[str, ...]:
        """The value to reduce, of the tile's full shape and neutral where masked; for argmax also its position."""
        causes = self._causes(reduction)
        value = self.value(reduction.value)
        text = self.operand(value, reduction.value)
        missing = [dim for role, dim in self.dims.items() if role not in value.dims]
        if not value.dims or any(dim.block > 1 for dim in missing):
            text = self.name(f"tl.broadcast_to({text}, [XBLOCK, RBLOCK])", causes)
        if "reduced" in self.masks:
            dtype = reduction.value.dtype
            start = neutral(str(reduction.loop.combine), dtype)
            other = literal(start, dtype) if dtype in LITERAL else self.typed(start, dtype)
            text = self.name(f"tl.where(rmask, {text}, {other})", causes)
        if reduction.loop.combine not in ("argmax", "argmin"):
            return (text,)
        linear = self._linear(reduction.loop)
        whole = self._place_dtype()
        position = f"tl.broadcast_to({linear.text}, [XBLOCK, RBLOCK]).to({type_name(whole)})"
        if not linear.dims:
            position = f"tl.full([XBLOCK, RBLOCK], {linear.text}, {type_name(whole)})"
        if "reduced" in self.masks:
            position = f"tl.where(rmask, {position}, {torch.iinfo(whole).max})"
        return (text, self.name(position, causes))

    def _place_dtype(self) -> torch.dtype:
        """Of the positions of extreme values, while they are compared: half as wide where that is enough."""
        return torch.int64 if self.wide else torch.int32

    def _linear(self, loop: Loop) -> TileValue:
        """The linear position of a point among the reduced ones, in the order of the loop's own axes."""
        position = row_major(loop.reduced).expr()
        self.flat.setdefault(position, self.flatten(position))
        return self.index(position, {})

    def _accumulators(self, reduction: Reduce) -> tuple[str, ...]:
        causes = self._causes(reduction)
        dtype = reduction.value.dtype
        start = literal(neutral(str(reduction.loop.combine), dtype), dtype)
        made = [self.name(f"tl.full([XBLOCK, RBLOCK], {start}, {type_name(dtype)})", causes)]
        if reduction.loop.combine in ("argmax", "argmin"):
            whole = self._place_dtype()
            made.append(self.name(f"tl.full([XBLOCK, RBLOCK], {torch.iinfo(whole).max}, {type_name(whole)})", causes))
        return tuple(made)

    def _accumulate(self, reduction: Reduce, into: tuple[str, ...], values: tuple[str, ...]) -> None:
        combine = reduction.loop.combine
        targets, (old, *old_index), (new, *new_index) = ", ".join(into), into, values
        dtype = reduction.value.dtype
        if old_index:
            text = f"ops.{combine}({old}, {old_index[0]}, {new}, {new_index[0]})"
        elif combine in ("max", "min"):
            text = apply_text(f"{combine}imum", dtype, (old, new))
        else:
            sign = {"sum": "+", "prod": "*", "any": "|", "all": "&", "xor_sum": "^"}[str(combine)]
            text = f"{old} {sign} {new}"
        self.line(f"{targets} = {text}", self._causes(reduction))

    def _reduce(self, reduction: Reduce, values: tuple[str, ...]) -> TileValue:
        """Join a tile's values along its rows."""
        causes = self._causes(reduction)
        if len(values) == 2:
            _, place = self._reduce_pair(reduction, values)
            return TileValue(self.name(f"{place}[:, None].to(tl.int64)", causes), ROWS)
        text = _row_text(reduction, values)
        return TileValue(self.name(f"{text}[:, None]{_back(reduction)}", causes), ROWS)

    # Rows cut among programs

    def _leave(self, reduction: Reduce, values: tuple[str, ...]) -> tuple[Workspace, ...]:
        """Store this program's part of each result."""
        causes = self._causes(reduction)
        kernel = self.body.kernel.id
        dtypes = [reduction.value.dtype, torch.int64][: len(values)]
        rows = points(self.body.kernel.outer) * self.tiling.splits
        made = []
        row = self._reduce_parts(reduction, values)
        for position, (part, dtype) in enumerate(zip(row, dtypes, strict=True)):
            suffix = "" if position == 0 else "_at"
            workspace = Workspace(f"{kernel}_{reduction.loop.id}{suffix}", rows, dtype)
            pointer = self.pointer(workspace.name, dtype, written=True)
            mask = self.mask(ROWS)
            self.line(f"tl.store({pointer} + (xindex * SPLITS + split), {part}{f', {mask}' if mask else ''})", causes)
            made.append(workspace)
        return tuple(made)

    def _reduce_parts(self, reduction: Reduce, values: tuple[str, ...]) -> list[str]:
        if len(values) == 1:
            return [self._reduce(reduction, values).text]
        causes = self._causes(reduction)
        return [self.name(f"{part}[:, None]", causes) for part in self._reduce_pair(reduction, values)]

    def _reduce_pair(self, reduction: Reduce, values: tuple[str, ...]) -> tuple[str, str]:
        """The extreme value of each row of a tile, and its position."""
        best, place = f"tmp{self.names}", f"tmp{self.names + 1}"
        self.names += 2
        self.line(f"{best}, {place} = {_row_text(reduction, values)}", self._causes(reduction))
        return best, place

    def _join(self, result: Reduced) -> TileValue:
        """A result that an earlier function left in parts."""
        reduction = next(r for current in self.body.passes for r in current.reductions if r.result is result)
        causes = self._causes(reduction)
        mask = self.mask(ROWS)
        values = []
        for workspace in self.partials[result]:
            pointer = self.pointer(workspace.name, workspace.dtype, written=False)
            values.append(self.name(f"tl.load({pointer} + parts{f', {mask}' if mask else ''})", causes))
        return self._reduce(reduction, tuple(values))


def _row_text(reduction: Reduce, values: tuple[str, ...]) -> str:
    combine, dtype = reduction.loop.combine, reduction.value.dtype
    if combine in ("argmax", "argmin"):
        return f"tl.reduce(({values[0]}, {values[1]}), 1, ops.{combine})"
    (value,) = values
    if combine in ("any", "all"):
        return f"tl.{'max' if combine == 'any' else 'min'}({value}.to(tl.int32), 1)"
    if combine in ("max", "min") and dtype.is_floating_point:
        return f"tl.reduce({value}, 1, ops.{combine}imum)"
    if combine == "prod":
        return f"tl.reduce({value}, 1, ops.product)"
    return f"tl.{combine}({value}, 1)"


def _back(reduction: Reduce) -> str:
    """The conversion of a row's result to the dtype reduced in, where Triton's function widens it."""
    dtype = reduction.value.dtype
    if reduction.loop.combine in ("any", "all") or dtype == torch.bool:
        return ".to(tl.int1)"
    return f".to({type_name(dtype)})" if not dtype.is_floating_point and dtype.itemsize < 4 else ""


def _blocks(numel: Size, block: int) -> Size:
    numel = sympy.sympify(numel)
    return -(-int(numel) // block) if numel.is_Integer else FloorDiv(numel + (block - 1), block)
