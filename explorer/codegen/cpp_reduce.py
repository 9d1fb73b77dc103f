"""How a reduction is accumulated in C++: its running value, one step, and how two running values join.

Sums of float32 run in vector lanes for at most BLOCK elements and are added up in double above that, so that errors do
not grow with the size (ATen: cascade_sum in SumKernel.cpp). max and min keep a flag for NaN beside the value, since the
vector instructions drop NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from explorer.codegen.cpp_scalar import CPP_TYPES, literal
from explorer.codegen.kernel import Reduce

BLOCK = 4096
"""Elements that one run of vector lanes sums."""


@dataclass(frozen=True)
class Accumulator:
    """The C++ of one reduction under the variable name `name` (an `at` and a `nan` companion where needed).

    `wide` says that several runs are added up, in double for float32.
    """

    reduce: Reduce
    name: str
    wide: bool = False

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
    def marks_nan(self) -> bool:
        return self.combine in ("max", "min") and self.dtype.is_floating_point

    @property
    def in_runs(self) -> bool:
        """Whether a run has a running value of its own."""
        return self.wide and self.combine in ("sum", "prod") and self.dtype.is_floating_point

    def type_name(self, run: bool = False) -> str:
        if self.combine in ("any", "all"):
            return "int"
        if self.in_runs and not run and self.dtype is torch.float32:
            return "double"
        return CPP_TYPES[self.dtype]

    @property
    def start(self) -> str:
        if self.combine in ("max", "argmax", "min", "argmin"):
            sign = -1 if self.combine in ("max", "argmax") else 1
            if self.dtype.is_floating_point:
                return "-INFINITY" if sign < 0 else "INFINITY"
            info = torch.iinfo(torch.uint8 if self.dtype is torch.bool else self.dtype)
            return literal(info.min if sign < 0 else info.max, self.dtype)
        return {"sum": "0", "prod": "1", "any": "0", "all": "1", "xor_sum": "0"}[self.combine]

    def variables(self, run: bool = False) -> list[tuple[str, str, str]]:
        """(type, name, first value) of each running variable; with `run`, of one run."""
        name = self.run_name if run else self.name
        found = [(self.type_name(run), name, self.start)]
        if self.positional:
            found.append(("long", f"{self.name}_at", "0"))
        if self.marks_nan:
            found.append(("int", f"{self.name}_nan", "0"))
        return found

    @property
    def run_name(self) -> str:
        return f"{self.name}_run" if self.in_runs else self.name

    def step(self, value: str, position: str, lane: str = "") -> list[str]:
        """Take one value in. `lane` ("[j]") picks the element where the variables are arrays."""
        into = self.run_name + lane
        match self.combine:
            case "sum":
                return [f"{into} += {value};"]
            case "prod":
                return [f"{into} *= {value};"]
            case "xor_sum":
                return [f"{into} ^= {value};"]
            case "any":
                return [f"{into} |= {self._truth(value)};"]
            case "all":
                return [f"{into} &= {self._truth(value)};"]
            case "argmax" | "argmin":
                better = f"{value} {'>' if self.combine == 'argmax' else '<'} {into}"
                if self.dtype.is_floating_point:
                    better += f" || ({value} != {value} && {into} == {into})"
                return [f"if ({better}) {{ {into} = {value}; {self.name}_at{lane} = {position}; }}"]
        sign = ">" if self.combine == "max" else "<"
        lines = [f"{into} = {value} {sign} {into} ? {value} : {into};"]
        if self.marks_nan:
            lines.append(f"{self.name}_nan{lane} |= {value} != {value};")
        return lines

    def _truth(self, value: str) -> str:
        return value if self.dtype is torch.bool else f"{value} != 0"

    @property
    def clauses(self) -> list[str]:
        """The reduction clauses of a simd loop (one run). Only for reductions that are not positional."""
        sign = {"sum": "+", "prod": "*", "xor_sum": "^", "any": "|", "all": "&"}.get(self.combine, self.combine)
        clauses = [f"reduction({sign}:{self.run_name})"]
        return clauses + [f"reduction(|:{self.name}_nan)"] if self.marks_nan else clauses

    def join(self, other: str) -> list[str]:
        """Take in the running variables of a later part of the points, named `other` (and with _at, _nan)."""
        match self.combine:
            case "sum" | "prod" | "xor_sum" | "any" | "all":
                sign = {"sum": "+", "prod": "*", "xor_sum": "^", "any": "|", "all": "&"}[self.combine]
                return [f"{self.name} {sign}= {other};"]
            case "argmax" | "argmin":
                (line,) = self.step(other, "@")
                return [line.replace("@", other.replace(self.name, f"{self.name}_at", 1))]
        lines = self.step(other, "")[:1]
        if self.marks_nan:
            lines.append(f"{self.name}_nan |= {other.replace(self.name, f'{self.name}_nan', 1)};")
        return lines

    def result(self, lane: str = "") -> str:
        """The finished value."""
        if self.positional:
            return f"{self.name}_at{lane}"
        if self.marks_nan:
            return f"{self.name}_nan{lane} ? NAN : {self.name}{lane}"
        if self.type_name() != CPP_TYPES[self.reduce.result.dtype]:
            return f"({CPP_TYPES[self.reduce.result.dtype]}){self.name}{lane}"
        return f"{self.name}{lane}"

