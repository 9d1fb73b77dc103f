"""The loop-level IR: buffers, scalar expressions, loops and calls of library operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import sympy
import torch

from explorer.core.origin import Origins, origins, union
from explorer.core.reasons import Why
from explorer.core.text import Line, Text
from explorer.ir.graph import DTYPE_NAMES
from explorer.ir.scalar import OPS

Combine = Literal["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "xor_sum"]
"""How a reduction joins values. max and min propagate NaN; argmax and argmin yield the first linear position."""


Size: TypeAlias = sympy.Expr  # to the checker Any: sympy carries no types
"""An integer expression over size symbols (s0, ...), and over axis symbols where it is an index."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where elements lie: `size` and `stride` in elements, `offset` from the start of the buffer's storage."""

    dtype: torch.dtype
    device: torch.device
    size: tuple[Size, ...]
    stride: tuple[Size, ...]
    offset: Size = sympy.S.Zero

    def index(self, point: tuple[Size, ...]) -> Size:
        """The storage position of an element."""
        terms = (i * stride for i, stride in zip(point, self.stride, strict=True))
        return sympy.Add(self.offset, *terms)

    @property
    def numel(self) -> Size:
        return sympy.Mul(*self.size)

    @property
    def extent(self) -> Size:
        """Elements from position 0 to the last one; 0 where there is none."""
        if 0 in self.size:
            return sympy.S.Zero
        reach = (stride * (size - 1) for size, stride in zip(self.size, self.stride, strict=True))
        return sympy.Add(self.offset, 1, *reach)

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.size))
        offset = f" + {self.offset}" if self.offset != 0 else ""
        kind = DTYPE_NAMES.get(self.dtype, str(self.dtype))
        return f"{kind}[{shape}] strides ({', '.join(map(str, self.stride))}){offset}"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in memory. Position 0 is where its memory starts; of an input, its first element (`data_ptr()`), so that
    a view of an input at offset n has the storage offset of the input plus n. `alias_of` names the buffer whose storage
    it is (a mutated input, an in-place scatter).

    `why` says why the value is in memory rather than inlined into its readers ("lower.output", "lower.reduction").
    """

    name: str
    layout: Layout
    kind: Literal["input", "constant", "loop", "extern"]
    origins: Origins = ()
    alias_of: str | None = None
    why: Why | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A strided view of a buffer: the tensor argument of a library call, or an output of the graph."""

    buffer: str
    layout: Layout

    def __str__(self) -> str:
        return f"{self.buffer}: {self.layout}"


@dataclass(frozen=True, slots=True)
class Number:
    """The one element of a view, which a library call is given as a number."""

    view: View

    def __str__(self) -> str:
        return f"the number {self.view}"


# Scalar expressions. The dtype is the one computed in: never a 16-bit float, which is loaded as float32 and rounded
# where it is stored or cast. Compared by identity: a node used twice is one object and is computed once. Not interned,
# since equal expressions of two nodes have two origins; `merged` joins them, 4 % of those of a network of 100 layers,
# and all comparing of expressions is 1.5 % of the time that compiling it takes.


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    dtype: torch.dtype
    origins: Origins


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    value: int | float | bool


@dataclass(frozen=True, slots=True, eq=False)
class IndexValue(Expr):
    """The value of an integer expression over axis and size symbols, as data (arange, position masks)."""

    index: Size


@dataclass(frozen=True, slots=True, eq=False)
class Load(Expr):
    """The element of `buffer` at storage position `index`. `indirect` gives the value of each symbol of `index` that
    is computed from data (embedding, gather); such values were wrapped and bounds-checked by `Check` where needed."""

    buffer: str
    index: Size
    indirect: tuple[tuple[sympy.Symbol, Expr], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expr):
    """Convert as `Tensor.to(to)` does. With a 16-bit float `to`, round to it and go on in float32 (`dtype`)."""

    value: Expr
    to: torch.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Apply(Expr):
    """A scalar operation of `OPS` on operands of one dtype (for `where`: bool, then two of one dtype)."""

    op: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Masked(Expr):
    """`value` where `condition` holds, else `other`; `value` is evaluated (and its loads made) only there."""

    condition: Expr
    value: Expr
    other: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Check(Expr):
    """An index from data: negative values wrapped by `size`, others outside [-size, size) end the program with an
    IndexError naming `what`. Without `wrap` (gather, embedding) negative values are outside as well."""

    value: Expr
    size: Size
    what: str
    wrap: bool = True


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop: `symbol` runs from 0 to `size` - 1."""

    symbol: sympy.Symbol
    size: Size


@dataclass(frozen=True, slots=True)
class Loop:
    """For each point of `axes`: reduce `value` over `reduced` with `combine` (or take it, where `combine` is None) and
    store it at storage position `index` of `buffer`.

    `store` "set" writes; "add", "max", "min", "prod" update the element (a scatter; several points may meet in one, and
    `alias_of` of the buffer names the storage that holds the initial values). `indirect` as in `Load`, for `index`.
    `id` is the buffer's name.
    """

    buffer: Buffer
    axes: tuple[Axis, ...]
    value: Expr
    index: Size
    reduced: tuple[Axis, ...] = ()
    combine: Combine | None = None
    store: Literal["set", "add", "max", "min", "prod"] = "set"
    indirect: tuple[tuple[sympy.Symbol, Expr], ...] = ()
    origins: Origins = ()

    @property
    def id(self) -> str:
        return self.buffer.name

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.buffer,)

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The value, and the indices of the store that come from data."""
        return (self.value, *(value for _, value in self.indirect))

    @property
    def loads(self) -> Iterator[Load]:
        return (expr for expr in walk(*self.roots) if isinstance(expr, Load))

    @property
    def ranges(self) -> dict[sympy.Symbol, Size]:
        """The size of each axis."""
        return {axis.symbol: axis.size for axis in (*self.axes, *self.reduced)}


@dataclass(frozen=True, slots=True)
class Extern:
    """A call of a library operator. `args` and `kwargs` are nested tuples of View, size expressions and constants.

    `outputs` are the buffers it makes, None where the operator returns None there. `out` says that the result goes
    into a buffer that the memory plan allocates; else the operator allocates. `mutates` names buffers it updates.
    `as_made`: nothing reads the results here, so that they may lie in memory as the operator lays them out.
    `why` says why it is a library call ("lower.library_matmul", "lower.no_rule").
    """

    id: str
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    outputs: tuple[Buffer | None, ...]
    returns_tuple: bool
    why: Why
    out: bool = False
    mutates: tuple[str, ...] = ()
    random: bool = False
    """Whether it draws from a generator: such calls keep their program order."""
    as_made: bool = False
    origins: Origins = ()

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return tuple(buffer for buffer in self.outputs if buffer is not None)

    @property
    def overload(self) -> Callable[..., Any]:
        """What to call: where the result goes into given memory, the overload of the target that takes `out`."""
        if not self.out:
            return self.target
        target: Any = self.target
        name = "out" if target._overloadname == "default" else f"{target._overloadname}_out"
        found: Callable[..., Any] = getattr(
            target.overloadpacket, name if name in target.overloadpacket.overloads() else "out"
        )
        return found

    @property
    def views(self) -> Iterator[View]:
        """The tensor arguments."""
        pending = [*self.args, *(value for _, value in self.kwargs)]
        while pending:
            value = pending.pop(0)
            if isinstance(value, (View, Number)):
                yield value.view if isinstance(value, Number) else value
            elif isinstance(value, tuple):
                pending[:0] = value


Operation = Loop | Extern


def storages(buffers: Mapping[str, Buffer]) -> dict[str, str]:
    """The buffer that owns the storage of each buffer, `alias_of` followed to its end."""
    found: dict[str, str] = {}
    for name in buffers:
        owner = name
        while (alias := buffers[owner].alias_of) is not None:
            owner = alias
        found[name] = owner
    return found


@dataclass(frozen=True)
class Loops:
    """A lowered half in program order.

    `inputs`, one for each placeholder: the buffer it fills, or the size symbol (or expression) that it gives; then one
    buffer of kind "constant" for each captured tensor.
    `outputs`, one for each output: a view of a buffer, a size expression or constant, or None.
    `constants` are the tensors behind buffers of kind "constant". `nodes` says what became of each ATen node:
    id -> ("kernel" | "extern" | "view" | "constant" | "unused", ids of the operations it went into).
    `hints` gives an example value for each size symbol. `mark` begins the names of what is made here, and
    `frees` names the inputs that a call lets go of (see Graph).
    """

    name: str
    inputs: tuple[Buffer | Size, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[View | Size | int | float | bool | None, ...]
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    nodes: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    hints: dict[sympy.Symbol, int] = field(default_factory=dict)
    mark: str = ""
    frees: frozenset[str] = frozenset()

    @property
    def buffers(self) -> dict[str, Buffer]:
        """Every buffer by name: inputs (captured tensors too, of kind "constant"), then what operations write."""
        found = {entry.name: entry for entry in self.inputs if isinstance(entry, Buffer)}
        found.update((buffer.name, buffer) for operation in self.operations for buffer in operation.writes)
        return found

    def text(self) -> Text:
        lines = [Line(f"loops {self.name}")]
        for entry in self.inputs:
            if isinstance(entry, Buffer):
                lines.append(Line(f"  {entry.kind} {entry.name}: {entry.layout}", entry.name, entry.origins))
            else:
                lines.append(Line(f"  size {entry}"))
        for operation in self.operations:
            lines += print_operation(operation)
        lines.append(Line(f"  return {', '.join(map(str, self.outputs))}"))
        return Text(tuple(lines), "python")


def print_operation(operation: Operation, indent: str = "  ") -> list[Line]:
    """The operation's lines: a header with the reason it exists, then one line for each distinct scalar value."""
    if isinstance(operation, Extern):
        args = [print_argument(a) for a in operation.args] + [f"{k}={print_argument(v)}" for k, v in operation.kwargs]
        made = ", ".join(buffer.name if buffer else "_" for buffer in operation.outputs)
        call = f"{indent}{made} = {operation.target}({', '.join(args)})  # {operation.why}"
        return [Line(call, operation.id, operation.origins)]
    where = "".join(f"[{axis.symbol}<{axis.size}]" for axis in operation.axes)
    reduced = "".join(f"[{axis.symbol}<{axis.size}]" for axis in operation.reduced)
    head = f"{indent}{operation.id}: {operation.buffer.layout} for {where or '[]'}"
    if operation.combine:
        head += f" {operation.combine} over {reduced}"
    why = f"  # {operation.buffer.why}" if operation.buffer.why else ""
    lines = [Line(head + why, operation.id, operation.origins)]
    names: dict[Expr, str] = {}
    for expr in walk(*operation.roots):
        names[expr] = f"v{len(names)}"
        text = f"{indent}  {names[expr]} = {print_expr(expr, names)}"
        lines.append(Line(text, f"{operation.id}.{names[expr]}", expr.origins))
    verb = {"set": "="}.get(operation.store, f"{operation.store}=")
    index = _index(operation.index, operation.indirect, names)
    value = names[operation.value]
    lines.append(Line(f"{indent}  {operation.id}[{index}] {verb} {value}", f"{operation.id}.store", operation.origins))
    return lines


def print_argument(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(print_argument, value))}]"
    return str(value)


def print_expr(expr: Expr, names: dict[Expr, str]) -> str:
    """One scalar operation over already named operands."""
    match expr:
        case Const(value=value):
            return f"{value!r} as {DTYPE_NAMES[expr.dtype]}"
        case IndexValue(index=index):
            return f"index {index} as {DTYPE_NAMES[expr.dtype]}"
        case Load(buffer=buffer, index=index, indirect=indirect):
            return f"load {buffer}[{_index(index, indirect, names)}]"
        case Cast(value=value, to=to):
            return f"{names[value]} to {DTYPE_NAMES[to]}"
        case Apply(op=op, args=args):
            return f"{op}({', '.join(names[a] for a in args)})"
        case Masked(condition=condition, value=value, other=other):
            return f"{names[value]} where {names[condition]} else {names[other]}"
        case Check(value=value, size=size, what=what, wrap=wrap):
            return f"check {names[value]} in [{-size if wrap else 0}, {size}) ({what})"
    raise AssertionError(f"unknown expression {type(expr).__name__}")


def _index(index: Size, indirect: tuple[tuple[sympy.Symbol, Expr], ...], names: dict[Expr, str]) -> str:
    return str(index.subs({symbol: sympy.Symbol(names[value]) for symbol, value in indirect}) if indirect else index)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that `expr` reads directly."""
    match expr:
        case Load(indirect=indirect):
            return tuple(value for _, value in indirect)
        case Cast(value=value) | Check(value=value):
            return (value,)
        case Apply(args=args):
            return args
        case Masked(condition=condition, value=value, other=other):
            return (condition, value, other)
    return ()


def evaluated(expr: Expr) -> tuple[Expr, ...]:
    """Those of its children that are computed wherever `expr` is: not what a Masked computes under its condition."""
    return (expr.condition, expr.other) if isinstance(expr, Masked) else children(expr)


def walk(*roots: Expr, below: Callable[[Expr], tuple[Expr, ...]] = children) -> Iterator[Expr]:
    """Every distinct expression under `roots`, operands before users. `below` says what is under an expression."""
    seen: set[Expr] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        expr, ready = stack.pop()
        if ready:
            yield expr
        elif expr not in seen:
            seen.add(expr)
            stack.append((expr, True))
            stack += [(child, False) for child in reversed(below(expr)) if child not in seen]


def value_key(expr: Expr, operands: tuple[int, ...]) -> tuple[Any, ...]:
    """The same for expressions that are computed alike from the same operands, which numbers stand for."""
    match expr:
        case Const(value=value):
            return Const, expr.dtype, repr(value)
        case IndexValue(index=index):
            return IndexValue, expr.dtype, index
        case Load(buffer=buffer, index=index, indirect=indirect):
            return Load, expr.dtype, buffer, index, tuple(symbol for symbol, _ in indirect), operands
        case Cast(to=to):
            return Cast, to, operands
        case Apply(op=op):
            return Apply, op, operands
        case Masked():
            return Masked, operands
        case Check(size=size, what=what, wrap=wrap):
            return Check, size, what, wrap, operands
    raise AssertionError(f"unknown expression {type(expr).__name__}")


def rebuilt(expr: Expr, new: Sequence[Expr], causes: Origins) -> Expr:
    """`expr` with these operands and origins; itself where nothing changes."""
    if causes == expr.origins and all(a is b for a, b in zip(children(expr), new, strict=True)):
        return expr
    match expr:
        case Load(indirect=indirect):
            pairs = tuple((symbol, value) for (symbol, _), value in zip(indirect, new, strict=True))
            return Load(expr.dtype, causes, expr.buffer, expr.index, pairs)
        case Cast(to=to):
            return Cast(expr.dtype, causes, new[0], to)
        case Check(size=size, what=what, wrap=wrap):
            return Check(expr.dtype, causes, new[0], size, what, wrap)
        case Apply(op=op):
            return Apply(expr.dtype, causes, op, tuple(new))
        case Masked():
            return Masked(expr.dtype, causes, *new)
    return replace(expr, origins=causes)


def rewrite(roots: Sequence[Expr], change: Callable[[Expr], Expr | None]) -> list[Expr]:
    """Copies of the trees in which `change` replaced what it does not return None for, operands first. What they share
    stays shared."""
    done: dict[Expr, Expr] = {}
    for expr in walk(*roots):
        made = rebuilt(expr, [done[child] for child in children(expr)], expr.origins)
        done[expr] = change(made) or made
    return [done[root] for root in roots]


def merged(roots: Sequence[Expr]) -> list[Expr]:
    """The roots over shared operands: values that are computed alike are one object, with the origins of all. Two
    constants of a program stay two, so that each is shown where it comes from. (Local value numbering.)"""
    number: dict[Expr, int] = {}
    numbers: dict[tuple[Any, ...], int] = {}
    first: list[Expr] = []
    causes: list[Origins] = []
    for expr in walk(*roots):
        key = value_key(expr, tuple(number[child] for child in children(expr)))
        if isinstance(expr, Const):
            key += (expr.origins,)
        found = number[expr] = numbers.setdefault(key, len(first))
        if found == len(first):
            first.append(expr)
            causes.append(expr.origins)
        elif expr.origins != causes[found]:
            causes[found] = union(causes[found], expr.origins)
    made: list[Expr] = []
    for expr, cause in zip(first, causes, strict=True):
        made.append(rebuilt(expr, [made[number[child]] for child in children(expr)], cause))
    return [made[number[root]] for root in roots]


def apply(op: str, *args: Expr) -> Expr:
    """An `Apply` with its dtype from the table and the ambient origin (fusion keeps the parts' own)."""
    from_ops = OPS[op]
    assert len(args) == from_ops.arity, f"{op} takes {from_ops.arity} operands, not {len(args)}"
    operands = args[1:] if op == "where" else args
    assert len({a.dtype for a in operands}) == 1, f"{op} on mixed {[str(a.dtype) for a in operands]}"
    dtype = torch.bool if from_ops.is_test else operands[0].dtype
    return Apply(dtype, origins(), op, args)


def all_origins(*roots: Expr) -> Origins:
    """The union of the origins of every expression under `roots`."""
    return union(*(expr.origins for expr in walk(*roots)))
