"""How a reduction is accumulated in C++: its running variables, one step, and how two parts join.

Sums of float32 run in vector lanes for a bounded number of elements and are added up in double above that, so that
errors do not grow with the size (ATen: cascade_sum in SumKernel.cpp). max and min keep a flag for NaN beside the value,
since the vector instructions drop NaN; argmax and argmin remember a position as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import sympy
import torch

from explorer.compiler.codegen.cpp_nest import Nest
from explorer.compiler.codegen.cpp_scalar import CPP_TYPES, literal
from explorer.compiler.codegen.exprs import PRODUCT
from explorer.compiler.codegen.kernel import Part, Reduce
from explorer.ir.loops import Axis, Size
from explorer.ir.program import TiledLoop
from explorer.ir.scalar import neutral

_SIGNS = {"sum": "+", "prod": "*", "xor_sum": "^", "any": "|", "all": "&"}


@dataclass(frozen=True)
class Variable:
    type_name: str
    name: str
    start: str


@dataclass(eq=False)
class Accumulator:
    """The C++ of one reduction. `name` (with `name`_nan and `name`_at where needed) is given when its first line is
    written, as `prefix` and a number. `runs`: there are several runs of steps.
    """

    reduce: Reduce
    prefix: str
    runs: bool
    name: str = ""

    @property
    def in_runs(self) -> bool:
        """Whether a floating sum or product has a variable of its own for each run, `name`_run, which is then taken
        into `name`."""
        return self.runs and self.reduce.loop.combine in ("sum", "prod") and self.reduce.value.dtype.is_floating_point

    @property
    def combine(self) -> str:
        combine = str(self.reduce.loop.combine)
        if self.dtype is torch.bool:
            return {"max": "any", "sum": "any", "min": "all", "prod": "all"}.get(combine, combine)
        return combine

    @property
    def dtype(self) -> torch.dtype:
        return self.reduce.value.dtype

    @property
    def positional(self) -> bool:
        return self.combine in ("argmax", "argmin")

    @property
    def extreme(self) -> bool:
        return self.combine in ("max", "min", "argmax", "argmin")

    @property
    def marks_nan(self) -> bool:
        return self.extreme and self.dtype.is_floating_point

    @property
    def better(self) -> str:
        """The comparison that a new extreme wins by."""
        return ">" if self.combine in ("max", "argmax") else "<"

    @property
    def value(self) -> Variable:
        """The variable that holds the value."""
        if self.combine in ("any", "all"):
            return Variable("int", self.name, self._start)
        wide = self.in_runs and self.dtype is torch.float32
        return Variable("double" if wide else CPP_TYPES[self.dtype], self.name, self._start)

    @property
    def run(self) -> Variable:
        """The variable that a step changes."""
        return Variable(CPP_TYPES[self.dtype], f"{self.name}_run", self._start) if self.in_runs else self.value

    @property
    def variables(self) -> list[Variable]:
        found = [self.value]
        if self.marks_nan:
            found.append(Variable("int", f"{self.name}_nan", "0"))
        if self.positional:
            found.append(Variable("long", f"{self.name}_at", "0"))
        return found

    @property
    def _start(self) -> str:
        value = neutral(self.combine, self.dtype)
        return literal(value, self.dtype) if self.extreme else str(value)

    def step(self, value: str, lane: str = "") -> list[str]:
        """Take one value in. `lane` ("[j]") picks the element where the variables are arrays."""
        into = self.run.name + lane
        if not self.extreme:
            truth = value if self.dtype is torch.bool or self.combine not in ("any", "all") else f"{value} != 0"
            return [f"{into} {_SIGNS[self.combine]}= {truth};"]
        lines = [f"{into} = {value} {self.better} {into} ? {value} : {into};"]
        if self.marks_nan:
            lines.append(f"{self.name}_nan{lane} |= {value} != {value};")
        return lines

    def step_with_position(self, value: str, position: str, lane: str = "") -> list[str]:
        """Take one value in, in order of positions: the first extreme, or the first NaN, keeps its position."""
        return self._taken(value, f"{value} != {value}", position, lane)

    def _taken(self, value: str, is_nan: str, position: str, lane: str) -> list[str]:
        best, at, nan = f"{self.name}{lane}", f"{self.name}_at{lane}", f"{self.name}_nan{lane}"
        wins, test = f"{self.name}_wins", f"{value} {self.better} {best}"
        lines = [
            f"bool {wins} = {f'!{nan} & ({test} | {is_nan})' if self.marks_nan else test};",
            f"{best} = {wins} ? {value} : {best};",
            f"{at} = {wins} ? {position} : {at};",
        ]
        return [*lines, f"{nan} |= {is_nan};"] if self.marks_nan else lines

    def find(self, value: str, at: str, type_name: str, end: str) -> list[str]:
        """A step of the second sweep, for the first `position` that holds the extreme, or NaN, into `at`. The extreme
        itself is NaN by then where there was one, and so equals nothing."""
        here = f"{value} == {self.name}"
        if self.marks_nan:
            here = f"({here}) | ({value} != {value})"
        return [f"{type_name} {at}_here = {here} ? position : {end};", f"{at} = {at}_here < {at} ? {at}_here : {at};"]

    @property
    def clauses(self) -> list[str]:
        """The reduction clauses of a vector loop of `step`s."""
        sign = {"argmax": "max", "argmin": "min"}.get(self.combine, _SIGNS.get(self.combine, self.combine))
        of_floats = "float_" * self.marks_nan
        clauses = [f"reduction({of_floats}{sign}:{self.run.name})"]
        return clauses + [f"reduction(|:{self.name}_nan)"] if self.marks_nan else clauses

    def end_run(self, lane: str = "") -> str:
        """Take a finished run in."""
        return f"{self.name}{lane} {_SIGNS[self.combine]}= {self.run.name}{lane};"

    def join(self, part: str, lane: str = "") -> list[str]:
        """Take in the variables of a later part of the points; `part` formats a variable's name into the part's."""

        def of(name: str) -> str:
            return part.format(name)

        value, is_nan = of(self.name), of(f"{self.name}_nan")
        if not self.extreme:
            return [f"{self.name}{lane} {_SIGNS[self.combine]}= {value};"]
        if self.positional:
            return self._taken(value, is_nan, of(f"{self.name}_at"), lane)
        best = f"{self.name}{lane}"
        lines = [f"{best} = {value} {self.better} {best} ? {value} : {best};"]
        return [*lines, f"{self.name}_nan{lane} |= {is_nan};"] if self.marks_nan else lines

    def result(self, lane: str = "") -> str:
        """The finished value."""
        if self.positional:
            return f"{self.name}_at{lane}"
        if self.marks_nan:
            return f"{self.name}_nan{lane} ? NAN : {self.name}{lane}"
        if self.value.type_name != CPP_TYPES[self.reduce.result.dtype]:
            return f"({CPP_TYPES[self.reduce.result.dtype]}){self.name}{lane}"
        return f"{self.name}{lane}"


class Sweeps(Nest):
    """A kernel that goes over inner axes, pass by pass. Where it `splits`, threads share one of these in chunks of a
    size that does not depend on the number of threads; the chunks' results join in order, so that the result does not
    depend on it either."""

    at = extent = ""
    """Where there are several running variables of one reduction: the index of one, and how many there are."""

    @cached_property
    def splits(self) -> bool:
        raise NotImplementedError

    @property
    def chunked(self) -> tuple[Axis, int, int]:
        """The axis that is shared, the least width of a chunk, and how many there are at most."""
        raise NotImplementedError

    def sweep(self, number: int) -> tuple[list[Accumulator], tuple[Part, ...]]:
        """One pass over the inner axes, or over a chunk of them. The running variables are not finished."""
        raise NotImplementedError

    def finish(self, accumulators: list[Accumulator]) -> None:
        """Give the results their names."""
        raise NotImplementedError

    def start(self, a: Accumulator, variable: Variable) -> None:
        self.caused(a.reduce.result, f"{variable.type_name} {variable.name} = {variable.start};")

    def each(self, a: Accumulator, *lines: str) -> None:
        """Lines for each of several running variables."""
        self.caused(a.reduce.result, *lines)

    def begin(self, accumulators: list[Accumulator]) -> None:
        for a in accumulators:
            a.name = self.values.fresh(a.prefix)
        for a in accumulators:
            for variable in a.variables:
                self.start(a, variable)

    def position(self) -> str:
        """The linear position of a point among the inner ones."""
        position = sympy.S.Zero
        for axis in self.inner:
            position = position * axis.size + axis.symbol
        return self.values.index(sympy.expand(position), within=PRODUCT)

    def swept(self, number: int) -> Iterator[Part]:
        """One pass over the inner axes, and what it results in."""
        accumulators, sweep = self.sweep(number)
        if not self.splits:
            yield from sweep
            yield partial(self.finish, accumulators)
            return
        totals = [Accumulator(a.reduce, "total", True) for a in accumulators]
        (axis, _, most), (count, width) = self.chunked, self._chunks
        extent = f"[{count if count.is_Integer else most}]{self.extent}"

        def begin() -> None:
            self.begin(totals)
            for a in totals:
                self.caused(a.reduce.result, *(f"{v.type_name} {v.name}_of{extent};" for v in a.variables))

        def begin_chunk() -> None:
            self.line(f"long chunk_start = chunk * {width};")
            self.line(f"long chunk_stop = index_min(chunk_start + {width}, {self.size(axis, PRODUCT)});")

        def end_chunk() -> None:
            for a, total in zip(accumulators, totals, strict=True):
                pairs = zip(total.variables, a.variables, strict=True)
                self.each(a, *(f"{v.name}_of[chunk]{self.at} = {own.name}{self.at};" for v, own in pairs))

        def join() -> None:
            for a in totals:
                self.each(a, *a.join("{}_of[chunk]" + self.at, self.at))

        chunks = TiledLoop(Axis(sympy.Symbol("chunk"), count))
        yield begin
        yield self.share([chunks], self.inner)[0].around(begin_chunk, *sweep, end_chunk)
        if totals:
            yield chunks.around(join)
        yield partial(self.finish, totals)

    @cached_property
    def _chunks(self) -> tuple[Size, Size]:
        """The number of chunks and their width: the least one, more where there would be too many."""
        axis, least, most = self.chunked
        if not axis.size.is_Integer:
            return sympy.Symbol("chunks"), sympy.Symbol("width")
        width = max(least, -(-int(axis.size) // most))
        return sympy.Integer(-(-int(axis.size) // width)), sympy.Integer(width)

    def declare_chunks(self) -> None:
        axis, least, most = self.chunked
        if self.splits and not axis.size.is_Integer:
            self.values.variables.update(self._chunks)
            size = self.size(axis, PRODUCT)
            self.line(f"long width = index_max({least}, ({size} + {most - 1}) / {most});")
            self.line(f"long chunks = ({size} + width - 1) / width;")
