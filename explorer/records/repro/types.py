"""The types of values, as a record writes them, and what makes a value of each."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from explorer.ir.graph import DTYPE_NAMES

DTYPES = {short: str(dtype) for dtype, short in DTYPE_NAMES.items()}

MOST_BYTES = 2**34
"""Of one input: a file that asks for more is not written."""

_TENSOR = re.compile(
    r"(?P<dtype>\w+)\[(?P<sizes>[^\]]*)\](?: strides \((?P<strides>[^)]*)\))?(?P<place> cuda:\d+)?(?P<grad> grad)?"
)
_SIZE = re.compile(r"size (.+)")


class CannotReproduce(ValueError):
    """Something of the record cannot be written as a program that runs by itself; says what, and why."""


@dataclass(frozen=True)
class TensorType:
    """What `type` of a node or buffer says, with sizes at the hints of the compile."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    device: str = "cpu"
    grad: bool = False

    def made(self) -> str:
        """The call in a written file that makes such a tensor."""
        more = f", strides={self.strides}" if self.strides is not None else ""
        more += f", device={self.device!r}" if self.device != "cpu" else ""
        more += ", grad=True" if self.grad else ""
        return f"tensor({self.sizes}, {self.dtype}{more})"


def tensor_type(text: str, hints: Mapping[str, int]) -> TensorType | None:
    """The tensor that `text` describes, such as "f32[s0, 8] strides (8, 1) grad"; None where it describes none.
    Raises CannotReproduce for a size that is not known."""
    found = _TENSOR.fullmatch(text)
    if found is None or found["dtype"] not in DTYPES:
        return None
    sizes = _numbers(found["sizes"], hints)
    strides = None if found["strides"] is None else _numbers(found["strides"], hints)
    reach = 1
    for size, stride in zip(sizes, strides or (1,) * len(sizes), strict=True):
        reach = max(reach, 1) * max(size, 1) if strides is None else reach + max(size - 1, 0) * stride
    if reach * 16 > MOST_BYTES or min((*sizes, *(strides or ())), default=0) < 0:
        raise CannotReproduce(f"{text}: too large, or negative")
    device = (found["place"] or "cpu").strip()
    return TensorType(DTYPES[found["dtype"]], sizes, strides, device, bool(found["grad"]))


def size_of(text: str, hints: Mapping[str, int]) -> int | None:
    """The number behind "size s0"; None for another type."""
    found = _SIZE.fullmatch(text)
    return None if found is None else number(found[1], hints)


def _numbers(text: str, hints: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(number(part, hints) for part in text.split(", ")) if text.strip() else ()


def number(text: str, hints: Mapping[str, int]) -> int:
    """A size expression at the hints. Raises CannotReproduce for one that is not known."""

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int() as number) if abs(number) < 2**63:
                return number
            case ast.Name(id=name) if name in hints:
                return hints[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = value(left), value(right)
                if isinstance(op, ast.Add):
                    return a + b
                if isinstance(op, ast.Sub):
                    return a - b
                if isinstance(op, ast.Mult) and abs(a) < 2**63 and abs(b) < 2**63:
                    return a * b
                if isinstance(op, ast.FloorDiv) and b:
                    return a // b
                if isinstance(op, ast.Pow) and 0 <= b <= 4 and abs(a) < 2**63:
                    return int(a**b)
        raise CannotReproduce(f"the size {text[:80]!r} is not known")

    try:
        return value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, CannotReproduce):
            raise
        raise CannotReproduce(f"the size {text[:80]!r} is not known") from None
