"""A printed graph of a record as a Python function.

The text may be a stranger's: each line is parsed, and written anew from the parts that are understood. Only operators
are called, of torch and of ATen, and nothing that reads files, imports or calls what a value names.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import torch

from explorer.ir.graph import DTYPE_NAMES
from explorer.ir.record import TextData

# The types of values, as a record writes them, and what makes a value of each.


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


_HEAD = re.compile(r"graph (?P<name>[\w.#]+)\((?P<inputs>[^)]*)\):")
_NODE = re.compile(r"  (?P<name>\w+): (?P<type>.*?) = (?P<call>.*)", re.DOTALL)
_RETURN = re.compile(r"  return (?P<values>\(.*\))", re.DOTALL)
_CARD = re.compile(r"\bcuda:(\d+)")
_WORD = re.compile(r"[A-Za-z]\w{0,40}")

_FACTORIES = frozenset(
    "zeros ones full empty empty_strided arange linspace logspace eye rand randn randint randperm tensor scalar_tensor "
    "zeros_like ones_like full_like empty_like rand_like randn_like randint_like sym_max sym_min sym_float sym_int "
    "sym_not sym_sqrt tril_indices triu_indices bartlett_window blackman_window hamming_window hann_window".split()
)
_OPERATOR = frozenset(
    "add sub mul truediv floordiv mod pow matmul neg pos invert abs and_ or_ xor not_ lshift rshift lt le gt ge eq ne "
    "getitem setitem iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift".split()
)
_MATH = frozenset("sqrt ceil floor trunc exp log sin cos pow".split())
_ATTRIBUTES = frozenset("T mT H mH real imag shape ndim dtype device".split())
_INDEXING = ("operator.getitem", "operator.setitem")
_REFUSED = re.compile(r"file|save|load|record_function|profiler|^_?(numpy|share_memory_|backward|register_)")
"""In the names of operators: what touches more than its tensors."""
_RESERVED = frozenset({"torch", "operator", "math", "slice", "float", "getattr", "tensor", "inputs", "graph", "sys"})


@dataclass(frozen=True)
class GraphLine:
    """One line of a graph: the node's name and type as printed, and its call, None for an input or a constant."""

    name: str
    type: str
    call: ast.expr | None
    constant: bool
    id: str = ""

    def reads(self) -> list[str]:
        return [] if self.call is None else [each.id for each in ast.walk(self.call) if isinstance(each, ast.Name)]


@dataclass(frozen=True)
class Printed:
    """A printed graph: its calls in order, and the expressions that it returns."""

    name: str
    calls: tuple[GraphLine, ...]
    returns: ast.expr

    @property
    def inputs(self) -> tuple[GraphLine, ...]:
        return tuple(each for each in self.calls if each.call is None)


def printed(text: TextData, name: str = "") -> Printed:
    """The first graph of a stage's text, or the one of that `name`. Raises CannotReproduce."""
    calls: list[GraphLine] = []
    found = ""
    for line in text.lines:
        if (head := _HEAD.fullmatch(line.text)) is not None:
            found = head["name"] if not name or head["name"] == name else ""
        elif found and (ends := _RETURN.fullmatch(line.text)) is not None:
            return Printed(found, tuple(calls), _parsed(ends["values"]))
        elif found and (node := _NODE.fullmatch(line.text)) is not None:
            called = node["call"].split("  # ")[0]
            plain = called == "input" or called.startswith("constant ")
            call = None if plain else _parsed(called)
            calls.append(GraphLine(node["name"], node["type"], call, plain and called != "input", line.id))
        elif found:
            raise CannotReproduce(f"a line of the graph is not understood: {line.text[:120]!r}")
    raise CannotReproduce("the record holds no text of that graph")


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(_CARD.sub(r"cuda_\1", text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CannotReproduce(f"not a plain call: {text[:120]!r}") from None


def function(
    name: str,
    calls: Sequence[GraphLine],
    inputs: Sequence[str],
    returns: ast.expr | Sequence[str],
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> str:
    """The source of a function that makes these calls, with `sizes` known. Raises CannotReproduce for what is not to be
    written."""
    known = {each: _named(each) for each in (*(call.name for call in calls), *inputs, *sizes)}
    lines = [f"def {name}({', '.join(known[each] for each in inputs)}):"]
    lines += [f"    {known[each]} = {size}" for each, size in sizes.items()]
    for each in calls:
        if each.call is not None:
            lines.append(f"    {known[each.name]} = {ast.unparse(_call(each.call, known))}")
    if isinstance(returns, ast.expr):
        value = ast.unparse(_value(returns, known))
    else:
        value = f"({''.join(f'{known[each]}, ' for each in returns)})"
    return "\n".join([*lines, f"    return {value}"])


def made(call: GraphLine, hints: Mapping[str, int]) -> str:
    """The expression that makes an input of its type, or what stands for a constant."""
    tensor = tensor_type(call.type, hints)
    if tensor is not None:
        return tensor.made()
    size = size_of(call.type, hints)
    if size is None:
        raise CannotReproduce(f"{call.name} is {call.type[:60]!r}: only tensors and sizes can be made")
    return str(size)


def _named(name: str) -> str:
    if not name.isidentifier() or not name.isascii():
        raise CannotReproduce(f"{name[:60]!r} is not a name")
    return f"{name}_" if name in _RESERVED or keyword.iskeyword(name) or name.startswith("__") else name


def _call(node: ast.expr, known: Mapping[str, str]) -> ast.expr:
    if not isinstance(node, ast.Call):
        raise CannotReproduce(f"not a call: {ast.unparse(node)[:120]}")
    target = ast.unparse(node.func)
    args = [_value(each, known) for each in node.args]
    if target in _INDEXING and len(args) > 1 and isinstance(args[1], ast.List):
        args[1] = ast.Tuple(args[1].elts, ast.Load())  # lists and tuples are printed alike
    if any(each.arg is None or not each.arg.isidentifier() for each in node.keywords):
        raise CannotReproduce(f"not a plain call: {target[:120]}")
    named = [ast.keyword(each.arg, _value(each.value, known)) for each in node.keywords]
    return ast.Call(_function(node.func, target, args, known), args, named)


def _function(func: ast.expr, target: str, args: Sequence[ast.expr], known: Mapping[str, str]) -> ast.expr:
    parts = target.split(".")
    if not all(part.isidentifier() and part.isascii() for part in parts) or _REFUSED.search(parts[-1]):
        raise CannotReproduce(f"{target[:120]} is not called in a written file")
    if parts[0] in known and len(parts) == 2 and _is_method(parts[1]):
        return ast.Attribute(ast.Name(known[parts[0]], ast.Load()), parts[1], ast.Load())
    if target == "getattr" and len(args) == 2 and isinstance(args[1], ast.Constant) and args[1].value in _ATTRIBUTES:
        return ast.Name("getattr", ast.Load())
    if parts[0] in ("operator", "math") and len(parts) == 2 and parts[1] in (_OPERATOR | _MATH):
        return func
    if parts[0] == "torch" and _is_torch(parts):
        return func
    if len(parts) == 3 and parts[0] not in ("torch", "operator", "math") and not _REFUSED.search(parts[1]):
        return ast.parse(f"torch.ops.{target}", mode="eval").body
    raise CannotReproduce(f"{target[:120]} is not an operator that a written file may call")


@cache
def _overridable() -> frozenset[int]:
    return frozenset(map(id, torch.overrides.get_testing_overrides()))


def _is_method(name: str) -> bool:
    found = getattr(torch.Tensor, name, None)
    return not name.startswith("__") and found is not None and id(found) in _overridable() | _methods()


@cache
def _methods() -> frozenset[int]:
    """Methods by their names: torch makes a new object of a slot each time that it is asked for one."""
    plain = "to size dim numel stride item tolist new_zeros new_ones new_full new_empty new_tensor type_as"
    return frozenset(id(getattr(torch.Tensor, name)) for name in plain.split())


def _is_torch(parts: Sequence[str]) -> bool:
    if parts[-1] in _FACTORIES and len(parts) == 2:
        return True
    value: Any = torch
    for part in parts[1:]:
        value = getattr(value, part, None)
    own = parts[1:-1] in (["_C", "_nn"], ["_C", "_fft"], ["_C", "_linalg"], ["_C", "_special"], ["nn", "functional"])
    if parts[1:] == ["_C", "_set_grad_enabled"]:
        return True
    return callable(value) and (id(value) in _overridable() or (own and not isinstance(value, type)))


def _value(node: ast.expr, known: Mapping[str, str]) -> ast.expr:
    match node:
        case ast.Constant(value=bool() | int() | float() | None):
            return node
        case ast.Name(id=name) if name in known:
            return ast.Name(known[name], ast.Load())
        case ast.Name(id="inf" | "nan" as name):
            return ast.parse(f"float({name!r})", mode="eval").body
        case ast.Name(id="Ellipsis"):
            return ast.Constant(...)
        case ast.Name(id=name) if name.startswith("cuda_") and name[5:].isdigit():
            return ast.Constant(f"cuda:{name[5:]}")
        case ast.Name(id=name) if _WORD.fullmatch(name):
            return ast.Constant(name)  # a string or a device, which are printed without quotes
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return ast.UnaryOp(ast.USub(), _value(operand, known))
        case ast.List(elts=elements):
            return ast.List([_value(each, known) for each in elements], ast.Load())
        case ast.Tuple(elts=elements):
            return ast.Tuple([_value(each, known) for each in elements], ast.Load())
        case ast.Call(func=ast.Name(id="slice"), args=args, keywords=[]) if len(args) <= 3:
            return ast.Call(ast.Name("slice", ast.Load()), [_value(each, known) for each in args], [])
        case ast.Attribute(value=ast.Name(id="torch"), attr=name) if isinstance(
            getattr(torch, name, None), (torch.dtype, torch.layout, torch.memory_format)
        ):
            return node
    raise CannotReproduce(f"not a plain value: {ast.unparse(node)[:120]}")
