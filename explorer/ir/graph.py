"""An FX graph with typed facts about each node: what capture, the trace and every graph pass make and take."""

from __future__ import annotations

import operator
import types
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, ClassVar, TypeVar

import sympy
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode, maybe_get_fake_mode

from explorer.core.origin import Origins, origins, union
from explorer.core.reasons import Why
from explorer.core.rules import rule_in_use, with_your
from explorer.core.text import Line, Text
from explorer.ir.bytecode import Span

INFO = "info"


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """The one entry of `node.meta` that this project reads.

    `id` is "fx.add_1" in a captured graph and "aten.mul_2" in a traced one. `value` is what the node yields under fake
    tensors: a FakeTensor, a SymInt, a number, None, or a tuple of them. `module` is the path of the module whose
    forward made the node ("transformer.h.0.mlp"). `about` is one phrase for a person ("gradient of l_x_",
    "saved: cheap to keep").
    """

    id: str
    value: Any
    origins: Origins = ()
    span: Span | None = None
    module: str = ""
    about: str = ""
    type: str = ""
    """How the value reads, where that is known already."""
    rule: str = ""
    """The person's own rule that made the node, where one did."""
    step: int = -1
    """The number of the step of the capture's evaluator that made the node."""
    checkpoint: int = 0
    """The number of the torch.utils.checkpoint call around the node, the outermost; 0 where there is none."""
    writes: int | None = None
    """Of an input: by how much the program's writes raise its version, where that is known."""

    @property
    def description(self) -> str:
        """What the node is for, and whose rule made it."""
        return "; ".join(filter(None, (self.about, with_your(self.rule) if self.rule else "")))


def aten_operator(name: str) -> torch._ops.OpOverloadPacket | None:
    """The ATen operator of this name. The namespace has attributes that are none, such as __ge__ and name."""
    found = getattr(torch.ops.aten, name, None)
    return found if isinstance(found, torch._ops.OpOverloadPacket) else None


def info(node: fx.Node) -> NodeInfo:
    """The facts about `node`. Raises KeyError for a node that was added without `stamp`."""
    found: NodeInfo = node.meta[INFO]
    return found


def stamp(
    node: fx.Node, id: str, value: object, *, span: Span | None = None, module: str = "", about: str = "",
    step: int = -1, checkpoint: int = 0,
) -> fx.Node:  # fmt: skip
    """Attach a NodeInfo whose origins are the ambient ones. `val` and `example_value` are torch's own keys."""
    rule = rule_in_use()
    node.meta[INFO] = NodeInfo(id, value, origins(), span, module, about, rule=rule, step=step, checkpoint=checkpoint)
    node.meta["val"] = node.meta["example_value"] = value
    return node


def as_given(value: torch.Tensor, like: torch.Tensor | None = None) -> torch.Tensor:
    """A twin of the fake tensor of a graph input: same memory, with shape and autograd state of its own.

    Placeholders are stamped with the twin, because capture runs the program on `value` itself, and in-place operations
    (`t_`, `add_` of something that requires grad) change it. `like` is what tells the autograd state (None: `value`).
    """
    like = value if like is None else like
    mode = maybe_get_fake_mode(value)
    assert mode is not None, "graph inputs are stamped with fake tensors"
    with mode, torch.enable_grad():
        twin = value.detach()
        if like.is_leaf and like.requires_grad and like._is_view():  # views of it require grad as its base does
            twin = twin.view_as(twin)
        twin._is_param = isinstance(like, torch.nn.Parameter)  # what isinstance reads
        if not like.requires_grad:
            return twin
        twin.requires_grad_()
        return twin if like.is_leaf else twin.view_as(twin)


def version(tensor: torch.Tensor) -> int | None:
    """How often it was written; None where nobody counts: of inference tensors, and of what was given other data."""
    try:
        return tensor._version
    except RuntimeError:
        return None


AnyTensor = TypeVar("AnyTensor", bound=torch.Tensor)


def innermost(value: AnyTensor) -> AnyTensor:
    """The tensor without the levels of torch.func's transforms around it."""
    while torch._C._functorch.is_functorch_wrapped_tensor(value):
        value = torch._C._functorch.get_unwrapped(value)  # type: ignore[assignment]
    return value


def storage_of(value: torch.Tensor) -> int:
    """The identity of the memory that `value` lies in."""
    identity: int = innermost(value).untyped_storage()._cdata
    return identity


Versions = Iterable[tuple[torch.Tensor, int | None]]


def set_versions(versions: Versions) -> None:
    """Make these the versions of the tensors, where they are counted."""
    counted = [(tensor, count) for tensor, count in versions if count is not None]
    if counted:
        torch._C._autograd._unsafe_set_version_counter(*zip(*counted, strict=True))


def is_refused(tensor: torch.Tensor) -> bool:
    """Whether autograd refuses to use it: one of several views that an operator made, or one made without grad, whose
    base has been written since."""
    try:
        _ = tensor.grad_fn
    except RuntimeError:
        return True
    return False


def restamp(node: fx.Node, **changes: Any) -> fx.Node:
    """Replace fields of the node's NodeInfo."""
    node.meta[INFO] = replace(info(node), **changes)
    if "value" in changes:
        node.meta["val"] = node.meta["example_value"] = changes["value"]
    return node


def merge_origins(into: fx.Node, *others: fx.Node) -> None:
    """Give `into` the origins of `others` as well: what CSE and pattern rewrites do before they drop a node."""
    restamp(into, origins=union(info(into).origins, *(info(other).origins for other in others)))


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A pass found `pattern` and took the node `gone` out, which read `was`. Its users read `by` instead, which reads
    `now`; both are "" where it had none. The names are ids."""

    CAP: ClassVar[int] = 20_000

    pattern: str
    gone: str
    was: str
    by: str = ""
    now: str = ""

    @classmethod
    def of(cls, pattern: str, node: fx.Node, by: fx.Node | None = None) -> Rewritten:
        found = cls(pattern, info(node).id, _call(node))
        return found if by is None else replace(found, by=info(by).id, now=_call(by))


@dataclass(frozen=True)
class Graph:
    """A graph that nobody mutates: a pass works on `copy()` and returns a new Graph.

    `constants` holds the tensors that `get_attr` nodes name. `grad_enabled` is the grad mode at entry. `mark` begins
    the names of the buffers and kernels made from it, so that the halves of one compile share none. `saves`: a backward
    reads some of its outputs. `frees`: the inputs that nothing but a call may hold, which lets go of each after its
    last use.
    `eager`: why it runs eagerly whatever compiles it.
    The single output node returns a flat tuple of nodes, numbers and None.
    """

    name: str
    graph: fx.Graph
    fake_mode: FakeTensorMode
    constants: Mapping[str, torch.Tensor | torch.nn.Module | Any] = field(default_factory=dict)
    grad_enabled: bool = False
    mark: str = ""
    saves: bool = False
    frees: frozenset[str] = frozenset()
    eager: Why | None = None

    @property
    def inputs(self) -> tuple[fx.Node, ...]:
        return tuple(node for node in self.graph.nodes if node.op == "placeholder")

    @property
    def outputs(self) -> tuple[Any, ...]:
        (node,) = (node for node in reversed(self.graph.nodes) if node.op == "output")
        returned: tuple[Any, ...] = tuple(node.args[0])
        return returned

    @property
    def device(self) -> torch.device:
        """Where kernels run: the GPU of the first tensor that is on one, or the CPU."""
        values = (info(node).value for node in self.graph.nodes if node.op != "output")
        devices = (value.device for value in values if isinstance(value, torch.Tensor))
        return next((device for device in devices if device.type == "cuda"), torch.device("cpu"))

    def copy(self) -> fx.Graph:
        """A graph to mutate; nodes keep their NodeInfo."""
        return copied(self.graph)

    def module(self) -> fx.GraphModule:
        """As a GraphModule over a copy, for FX passes and for other compilers' backends."""
        return fx.GraphModule(dict(self.constants), self.copy(), class_name=self.name)

    def text(self) -> Text:
        lines = [Line(f"graph {self.name}({', '.join(node.name for node in self.inputs)}):")]
        for node in self.graph.nodes:
            if node.op == "output":
                lines.append(Line(f"  return ({', '.join(map(str, self.outputs))}{',' if self.outputs else ''})"))
                continue
            facts = info(node)
            text = f"  {node.name}: {facts.type or describe(facts.value)} = {_call(node)}{_aside(facts)}"
            lines.append(Line(text, facts.id, facts.origins))
        return Text(tuple(lines), "python")


def copied(graph: fx.Graph) -> fx.Graph:
    """A copy that returns a flat tuple, with what the nodes carry."""
    made = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    returned: Any = made.graph_copy(graph, copies)
    for old, new in copies.items():
        new.meta = dict(old.meta)
    made.output(tuple(returned) if isinstance(returned, (tuple, list)) else (returned,))
    return made


def needed_by(roots: Iterable[object], given: Container[fx.Node] = ()) -> dict[fx.Node, None]:
    """The nodes among `roots` and all that they are computed from, not looking behind `given`."""
    found: dict[fx.Node, None] = {}
    pending = [node for node in roots if isinstance(node, fx.Node)]
    while pending:
        node = pending.pop()
        if node not in found:
            found[node] = None
            if node not in given:
                pending += node.all_input_nodes
    return found


def computed_from(nodes: Iterable[fx.Node], sources: Iterable[fx.Node]) -> dict[fx.Node, None]:
    """The sources, and those of the nodes, given in order, that are computed from them."""
    found = dict.fromkeys(sources)
    for node in nodes:
        if any(source in found for source in node.all_input_nodes):
            found[node] = None
    return found


def describe(value: object) -> str:
    """A value's type as one reads it: f32[4, 8] (strides shown when not contiguous), i64, (f32[2], f32[2])."""
    if isinstance(value, torch.Tensor):
        shape = ", ".join(map(str, value.shape))
        strided = value.layout is torch.strided and not _contiguous(value)
        strides = f" strides ({', '.join(map(str, value.stride()))})" if strided else ""
        place = "" if value.device.type == "cpu" else f" {value.device}"
        grad = " grad" if value.requires_grad else ""
        return f"{DTYPE_NAMES.get(value.dtype, str(value.dtype))}[{shape}]{strides}{place}{grad}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, torch.SymInt):
        return f"size {value}"
    return "None" if value is None else type(value).__name__


def _contiguous(value: torch.Tensor) -> bool:
    """Whether the strides are seen to be a contiguous tensor's. To ask the tensor itself would be to rely on it."""
    step: Any = 1
    for size, stride in zip(map(_expression, reversed(value.shape)), reversed(value.stride()), strict=True):
        if size != 1 and _expression(stride) != step:
            return False
        step = step * (max(1, size) if isinstance(size, int) else _at_least_one(size))
    return True


@lru_cache(1000)
def _at_least_one(size: sympy.Expr) -> sympy.Expr:
    return sympy.Max(1, size)


def _expression(number: object) -> Any:
    return number.node.expr if isinstance(number, torch.SymInt) else number


DTYPE_OF_NUMBER = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""Of a tensor that is Python's number."""
DTYPE_NAMES: dict[torch.dtype, str] = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "b8",
    torch.complex64: "c64", torch.complex128: "c128",
}  # fmt: skip


IN_PLACE = frozenset(
    each for name, each in vars(operator).items() if name.startswith("__i") and f"__{name[3:]}" in vars(operator)
) | {operator.setitem}  # fmt: skip
"""Functions of Python's `operator` that change their first argument, if its type has such a method."""


def is_in_place(name: str) -> bool:
    """Whether what has this name changes its first argument: torch ends such names with an underscore, functions of
    Python's `operator` are known."""
    return name in _IN_PLACE if hasattr(operator, name) else name.endswith("_") and not name.endswith("__")


_IN_PLACE = frozenset(each.__name__ for each in IN_PLACE)


def has_effect(target: object) -> bool:
    """Whether an operator matters even where nobody reads its result: it writes, draws random numbers, or checks."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return target._schema.is_mutable or is_random(target) or not target._schema.returns


def is_random(target: object) -> bool:
    """Whether an operator draws random numbers, as torch's tag of it says; one with a dropout draws none where that is
    zero."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def draws(target: object, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Whether a call of a function or operator of torch draws random numbers."""
    if isinstance(target, torch._ops.OpOverload):
        return _draws(target, args, kwargs)
    found = seeded(getattr(target, "__name__", ""))
    return all(_draws(each, args, kwargs) for each in found) if found else mentions_random(target)


def _draws(overload: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    for position, each in enumerate(overload._schema.arguments):
        if each.name == "seed":  # of Inductor's own, which draws from the generator where a graph runs node by node
            return True
        if each.name in ("dropout", "dropout_p"):
            given = args[position] if position < len(args) else kwargs.get(each.name, each.default_value)
            return is_random(overload) and given != 0
    return is_random(overload)


@cache
def seeded(name: str) -> tuple[torch._ops.OpOverload, ...]:
    """The overloads of ATen's operator of this name that draw random numbers."""
    packet = aten_operator(name)
    return tuple(filter(is_random, (getattr(packet, each) for each in packet.overloads()))) if packet else ()


@cache
def mentions_random(function: object) -> bool:
    """Whether a function in Python, or one of `torch.nn.functional` that it calls, mentions an operator that draws
    random numbers: no call of it is bound to draw any."""
    pending, read = [function], set[object]()
    while pending:
        code = getattr(inner := pending.pop(), "__code__", inner)
        if isinstance(code, types.CodeType) and code not in read:
            read.add(code)
            if any(map(seeded, code.co_names)):
                return True
            pending += [getattr(torch.nn.functional, name, None) for name in code.co_names]
            pending += [*code.co_consts, *(each.cell_contents for each in getattr(inner, "__closure__", None) or ())]
    return False


def checks_positions(target: object) -> bool:
    """Whether an operator raises an error for an element of an index tensor that is out of range: by what its schema
    calls the tensor. torch begins the names of those that check nothing with an underscore."""
    if not isinstance(target, torch._ops.OpOverload) or target.__name__.startswith("_"):
        return False
    named = (each for each in target._schema.arguments if each.name in ("index", "indices") and not each.is_write)
    return any("Tensor" in str(each.type) for each in named)


def target_name(node: fx.Node) -> str:
    """The node's target as a person names it: aten.add.Tensor, torch.relu, the attribute or method name."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", "") or ""
    name = getattr(target, "__name__", repr(target))
    return f"{module.replace('_operator', 'operator')}.{name}" if module not in ("", "builtins") else name


def _call(node: fx.Node) -> str:
    if node.op == "placeholder":
        return "input"
    if node.op == "get_attr":
        return f"constant {node.target}"
    positional = [_argument(value) for value in node.args]
    keyword = [f"{name}={_argument(value)}" for name, value in node.kwargs.items()]
    if node.op == "call_method":
        return f"{positional[0]}.{node.target}({', '.join(positional[1:] + keyword)})"
    return f"{target_name(node)}({', '.join(positional + keyword)})"


def _argument(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_argument, value))}]"
    return str(value)


def _aside(facts: NodeInfo) -> str:
    place = facts.span.id.rpartition("/")[2] if facts.span else ""
    aside = " | ".join(part for part in (facts.description, place, facts.module) if part)
    return f"  # {aside}" if aside else ""
