"""The walk over the graph: each node through its rule, or through a library call where it has none.

Inductor: graph.py, GraphLowering.run_node.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import fx

from explorer.compiler.lower import create, index, pointwise, pooling, reasons, reduce, view  # noqa: F401  (rules register)
from explorer.compiler.lower.bounds import BoundsProofs, missing
from explorer.compiler.lower.builder import Lowering, shape
from explorer.compiler.lower.create import compute_before, filled, write_back
from explorer.compiler.lower.dtypes import LOOP_DTYPES, cast
from explorer.compiler.lower.extern import library, mutated, symbols_of, why_library
from explorer.compiler.lower.indexing import strides
from explorer.compiler.lower.policy import realize
from explorer.compiler.lower.sizes import expression
from explorer.compiler.lower.table import LOWERINGS, VIEWS
from explorer.compiler.lower.tensors import Element, Tensor
from explorer.core.origin import origin
from explorer.core.reasons import Unsupported, Why
from explorer.ir.graph import Graph, NodeInfo, checks_positions, has_effect, info
from explorer.ir.index import ZERO
from explorer.ir.loops import Buffer, Extern, Layout, Loop, Loops, Number, Operation, Size, View
from explorer.ir.sizes import Sizes

aten = torch.ops.aten

IN_MEMORY: Mapping[object, object] = {aten._conj.default: aten.conj_physical.default}
"""The operator that computes the values of a view that only sets a bit (conjugate) and leaves memory unchanged."""


def lower_graph(graph: Graph) -> Loops:
    """Lower a functional graph of ATen calls. Raises Unsupported for calls that are no operators and for shapes that
    depend on data."""
    return _Walk(graph).run()


class _Walk:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = list(graph.graph.nodes)
        sizes = Sizes(graph.fake_mode.shape_env)
        self.lower = Lowering(sizes, [node.name for node in self.nodes], graph.mark, graph.device)
        self.env: dict[fx.Node, Any] = {}
        self.kinds: dict[str, str] = {}
        self.inputs: list[Buffer | Size] = []
        self.captured: list[Buffer] = []
        self.constants: dict[str, torch.Tensor] = {}
        self.symbols = _given_symbols(graph)
        self.given: dict[Size, sympy.Symbol] = {}
        self.read: set[sympy.Symbol] = set()
        """Numbers that are read out of tensors."""
        self.readers = _readers(self.nodes)
        self.returned = _returned(graph)
        self.left = {node: len(node.users) for node in self.nodes}

    def run(self) -> Loops:
        for node in self.nodes:
            if node.op == "output":
                break
            with origin(info(node).id):
                self.env[node] = self._node(node)
            for used in node.all_input_nodes:
                self.left[used] -= 1
        for buffer in (*self.inputs, *self.captured):
            if isinstance(buffer, Buffer):
                numbers = (*buffer.layout.size, *buffer.layout.stride, buffer.layout.offset)
                self._check_known(set().union(*(n.free_symbols for n in numbers)), f"the layout of {buffer.name}")
        outputs = tuple(self._output(value) for value in self.graph.outputs)
        given = {entry.name for entry in (*self.inputs, *self.captured) if isinstance(entry, Buffer)}
        operations = _needed(self.lower.operations, outputs, given, self.lower.checks)
        if not self.graph.saves:
            operations = tuple(_as_made(operations, outputs, self.lower.buffers))
        inside = BoundsProofs(self.lower.buffers, self.lower.sizes)
        for operation in operations:
            if isinstance(operation, Extern):
                for view in operation.views:
                    inside.view(view)
            else:
                inside.loop(operation)
        for output in outputs:
            if isinstance(output, View):
                inside.view(output)
        return Loops(
            self.graph.name,
            (*self.inputs, *self.captured),
            operations,
            outputs,
            self.constants,
            self._accounts(operations),
            dict(self.lower.sizes.hints),
            self.graph.mark,
            self.graph.frees,
        )

    def _node(self, node: fx.Node) -> object:
        facts = info(node)
        if node.op == "placeholder":
            return self._placeholder(node, facts)
        if node.op == "get_attr":
            return self._constant(node, facts)
        if node.op != "call_function":
            raise Unsupported(Why(reasons.UNKNOWN_CALL, f"{node.op} {node.target}"))
        if node.target is operator.getitem:
            self.kinds[facts.id] = "view"
            return self.env[node.args[0]][node.args[1]]  # type: ignore[index]
        if isinstance(facts.value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
            return self._size_or_scalar(node, facts)
        if not isinstance(node.target, torch._ops.OpOverload):
            raise Unsupported(Why(reasons.UNKNOWN_CALL, str(node.target)))
        if not (node.users or has_effect(node.target) or checks_positions(node.target)):
            self.kinds[facts.id] = "unused"
            return None
        return self._call(node, node.target, facts)

    def _placeholder(self, node: fx.Node, facts: NodeInfo) -> object:
        value = facts.value
        if isinstance(value, torch.Tensor):
            tensor = self._captured(node, value, "input")
            self.inputs.append(self.lower.buffers[node.name])
            return tensor
        if isinstance(value, (torch.SymInt, torch.SymFloat, int, float)):
            size = sympy.sympify(value if isinstance(value, (int, float)) else value.node.expr)
            if not size.free_symbols <= self.symbols:
                size = self._derived(node, size)
            self.inputs.append(size)
            return size
        raise Unsupported(Why(reasons.UNKNOWN_CALL, f"an input of type {type(value).__name__}"))

    def _derived(self, node: fx.Node, size: Size) -> sympy.Symbol:
        """A symbol of its own for an input that is an expression over sizes that no input gives singly."""
        if not size.is_integer:
            raise Unsupported(Why(reasons.UNBOUND_SIZE, f"{node.name} = {size}"))
        made = sympy.Symbol(node.name, integer=True)
        self.given[size] = made
        self.symbols.add(made)
        self.lower.sizes.rename(size, made)
        return made

    def _constant(self, node: fx.Node, facts: NodeInfo) -> Tensor:
        value = self.graph.constants[str(node.target)]
        if not isinstance(value, torch.Tensor):
            raise Unsupported(Why(reasons.UNKNOWN_CALL, f"a constant of type {type(value).__name__}"))
        self.kinds[facts.id] = "constant"
        if not value.dim() and value.dtype in LOOP_DTYPES and node not in self.returned and not _is_written(node):
            return filled(self.lower, facts.value, value.item())
        tensor = self._captured(node, facts.value, "constant")
        self.captured.append(self.lower.buffers[node.name])
        self.constants[node.name] = value
        return tensor

    def _captured(self, node: fx.Node, value: torch.Tensor, kind: Any) -> Tensor:
        if value.layout is not torch.strided or not hasattr(value, "fake_mode"):
            raise Unsupported(Why(reasons.UNKNOWN_LAYOUT, f"{node.name} is {value.layout}"))
        layout = Layout(value.dtype, value.device, shape(value), strides(value))
        return self.lower.stored(Buffer(node.name, layout, kind, (info(node).id,)))

    def _size_or_scalar(self, node: fx.Node, facts: NodeInfo) -> object:
        """A size or a number: what the fake run computed, as an expression over the inputs' size symbols."""
        value = facts.value
        if node.target is aten._local_scalar_dense.default:
            return self._read(node, facts)
        if isinstance(value, (bool, int, float)):
            found = value
        else:
            found = value.node.expr.xreplace(self.given)
            self._check_known(found.free_symbols - self.read, f"{node.name} = {node.target}")
        self.kinds[facts.id] = "constant"
        return found

    def _read(self, node: fx.Node, facts: NodeInfo) -> Size:
        """The element of a tensor as a number. It is in memory of its own, which no later write changes."""
        tensor, number = self.env[node.args[0]], facts.value  # type: ignore[index]
        dtype = {torch.SymFloat: torch.float64, torch.SymInt: torch.int64}.get(type(number))
        if dtype is None or tensor.dtype not in LOOP_DTYPES or tensor.device != self.lower.device:
            raise Unsupported(Why(reasons.DATA_DEPENDENT, f"{node.name} = {node.target}"))
        own = self._number_in_memory(
            dtype, lambda _: cast(tensor.at((ZERO,) * len(tensor.size)), tensor.dtype, dtype), tensor
        )
        self.kinds[facts.id] = "kernel"
        symbol: sympy.Symbol = number.node.expr
        self.lower.indirect[symbol] = own.at(())
        self.read.add(symbol)
        return symbol

    def _number_in_memory(self, dtype: torch.dtype, element: Element, *of: Tensor) -> Tensor:
        own = self.lower.value(dtype, self.lower.device, (), element, *of, stride=())
        self.lower.memory(own, reasons.NUMBER)
        return own

    def _given_number(self, value: object) -> Any:
        """A number that is read out of a tensor, or computed from such, as a library call is given it."""
        if not symbols_of(value) & self.read:
            return value
        made = expression(self.lower, value)
        return Number(self.lower.memory(self._number_in_memory(made.dtype, lambda _: made), reasons.NUMBER))

    def _check_numbers(self, target: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Raises Unsupported where a number out of a tensor is a size or a position."""
        given = dict(zip((each.name for each in target._schema.arguments), args, strict=False)) | kwargs
        for argument in target._schema.arguments:
            found = symbols_of(given.get(argument.name)) & self.read
            if found and not any(kind in str(argument.type) for kind in ("number", "float", "Tensor")):
                raise Unsupported(Why(reasons.DATA_DEPENDENT, f"{found.pop()} is the {argument.name} of {target}"))

    def _call(self, node: fx.Node, target: Any, facts: NodeInfo) -> object:
        args: Any = fx.node.map_aggregate(node.args, self._argument)
        kwargs: Any = fx.node.map_aggregate(node.kwargs, self._argument)
        if self.read:
            self._check_numbers(target, args, kwargs)
        self._check_known(symbols_of(facts.value), f"the shape of {node.name} = {target}")
        args, kwargs = (fx.node.map_aggregate(each, self._whole_number) for each in (args, kwargs))
        target = IN_MEMORY.get(target, target)
        refusal = self._why_library(facts.value, args, kwargs)
        if target is aten.copy_.default and refusal is None and args[0].in_memory() and isinstance(args[1], Tensor):
            self.kinds[facts.id] = "kernel"
            return write_back(self.lower, args[0], args[1], self._alive(node))
        if target in VIEWS:
            made = VIEWS[target](self.lower, facts.value, *args, **kwargs)
            if made is not None and (refusal is None or all(each.in_memory() for each in _tensors(made))):
                self.kinds[facts.id] = "view"
                return self._realized(node, facts, made)
        elif refusal is None and target in LOWERINGS:
            made = LOWERINGS[target](self.lower, facts.value, *args, **kwargs)
            if made is not None:
                self.kinds[facts.id] = "kernel"
                return self._realized(node, facts, made)
        self.kinds[facts.id] = "extern"
        if self.read:
            args, kwargs = (fx.node.map_aggregate(each, self._given_number) for each in (args, kwargs))
        if target._schema.is_mutable:
            compute_before(self.lower, set(mutated(target, args, kwargs)), self._alive())
        value = facts.value
        if target is not node.target:  # it makes memory of its own, dense where the view has gaps
            with self.graph.fake_mode:
                value = torch.empty_like(value)
        return library(self.lower, target, value, args, kwargs, refusal or Why(why_library(target)))

    def _argument(self, value: object) -> Any:
        if isinstance(value, fx.Node):
            return self.env[value]
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            return value.node.expr.xreplace(self.given)
        return value

    def _check_known(self, symbols: set[sympy.Symbol], what: str) -> None:
        """Raises Unsupported for a size that no input gives."""
        if not symbols <= self.symbols:
            unknown = ", ".join(sorted(map(str, symbols - self.symbols)))
            in_example = symbols <= self.lower.sizes.hints.keys()
            raise Unsupported(
                Why(reasons.UNBOUND_SIZE if in_example else reasons.DATA_DEPENDENT, f"{unknown} in {what}")
            )

    def _why_library(self, value: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Why | None:
        """Why no loop can do this call, whatever its rule says."""
        of_args = [item for arg in (*args, *kwargs.values()) for item in _tensors(arg)]
        fakes = [item for item in (value if isinstance(value, (tuple, list)) else [value])]
        made = [item for item in fakes if isinstance(item, torch.Tensor)]
        read = [tensor for tensor in of_args if tensor.size or tensor.reads]
        numbers = [torch.complex128 for arg in (*args, *kwargs.values()) if isinstance(arg, complex)]
        dtypes = [*(item.dtype for item in read), *(item.dtype for item in made), *numbers]
        strange = [dtype for dtype in dtypes if dtype not in LOOP_DTYPES]
        if strange:
            return Why(reasons.DTYPE, str(strange[0]).removeprefix("torch."))
        here = self.lower.device
        elsewhere = [item.device for item in made if item.device != here and (read or item.dim())]
        if elsewhere:
            return Why(reasons.OTHER_DEVICE, f"{elsewhere[0]}, not {here}")
        others = {tensor.device for tensor in read if not self._is_host_number(tensor)} - {here}
        return Why(reasons.MIXED_DEVICES, " and ".join(sorted(map(str, {*others, here})))) if others else None

    def _is_host_number(self, tensor: Tensor) -> bool:
        """Whether a GPU's kernel is given the tensor's one element as a number."""
        return not tensor.size and tensor.device.type == "cpu" and self.lower.device.type != "cpu"

    def _whole_number(self, value: object) -> Any:
        """A number on the host that is part of a larger tensor, as a tensor of its own; anything else as it is."""
        if not isinstance(value, Tensor) or not self._is_host_number(value) or not value.in_memory():
            return value
        assert value.place is not None
        if self.lower.buffers[value.place.buffer].layout.numel == 1:
            return value
        like = torch.empty((), dtype=value.dtype)
        return library(self.lower, aten.clone.default, like, (value,), {}, Why(reasons.OTHER_DEVICE, "cpu"))

    def _realized(self, node: fx.Node, facts: NodeInfo, made: object) -> object:
        """Give the results eager's strides, and decide whether they go to memory."""
        fakes = facts.value if isinstance(facts.value, (tuple, list)) else [facts.value]
        for tensor, fake in zip(made if isinstance(made, (tuple, list)) else [made], fakes, strict=True):
            if not isinstance(tensor, Tensor):
                continue
            tensor.stride = strides(fake)
            if node in self.returned and tensor.base is None:
                self.lower.memory(tensor, reasons.OUTPUT, exact=True)
            realize(self.lower, tensor, self.readers[node])
        return made

    def _alive(self, after: fx.Node | None = None) -> Iterator[Tensor]:
        """Tensors that a node from here on still uses; a node later than `after` where that is given."""
        for node, value in self.env.items():
            if self.left[node] > (after is not None and after in node.users):
                yield from _tensors(value)

    def _output(self, value: object) -> object:
        found = self.env[value] if isinstance(value, fx.Node) else self._argument(value)
        if not isinstance(found, Tensor):
            self._check_known(symbols_of(found) & self.read, "a result")
            return found
        with origin(*found.origins):
            return self.lower.memory(found, reasons.OUTPUT, exact=True)

    def _accounts(self, operations: tuple[Operation, ...]) -> dict[str, tuple[str, tuple[str, ...]]]:
        """What became of each node: its kind, and the operations that have a part from it."""
        into: dict[str, list[str]] = {id: [] for id in self.kinds}
        for operation in operations:
            for id in operation.origins:
                if id in into:
                    into[id].append(operation.id)
        found = {}
        for id, kind in self.kinds.items():
            unused = kind in ("kernel", "extern") and not into[id]
            found[id] = ("unused" if unused else kind, tuple(into[id]))
        return found


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _is_written(node: fx.Node) -> bool:
    """Whether some call updates the tensor."""
    targets = [user.target for user in node.users]
    return any(isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable for target in targets)


def _given_symbols(graph: Graph) -> set[sympy.Symbol]:
    """The size symbols whose values the inputs give: as sizes, or as a dimension or stride of a tensor."""
    found: set[sympy.Symbol] = set()
    for node in graph.inputs:
        value = info(node).value
        if isinstance(value, torch.Tensor):
            strided = value.layout is torch.strided
            found |= {n for n in (*shape(value), *(strides(value) if strided else ())) if n.is_Symbol}
        elif isinstance(value, (torch.SymInt, torch.SymFloat)) and value.node.expr.is_Symbol:
            found.add(value.node.expr)
    return found


def _readers(nodes: list[fx.Node]) -> dict[fx.Node, int]:
    """How many operations read each node's elements; those that read a view of it count."""
    readers: dict[fx.Node, int] = {}
    for node in reversed(nodes):
        readers[node] = sum(readers[user] if _is_view_of(user, node) else 1 for user in node.users)
    return readers


def _is_view_of(user: fx.Node, node: fx.Node) -> bool:
    return user.target is operator.getitem or (user.target in VIEWS and user.args[0] is node)


def _returned(graph: Graph) -> set[fx.Node]:
    """The nodes that the graph returns, and those that it returns views of."""
    found: set[fx.Node] = set()
    for value in graph.outputs:
        node = value
        while isinstance(node, fx.Node) and node not in found:
            found.add(node)
            views = node.op == "call_function" and (node.target in VIEWS or node.target is operator.getitem)
            node = node.args[0] if views else None
    return found


def _needed(
    operations: list[Operation], outputs: tuple[object, ...], given: set[str], checks: set[str]
) -> tuple[Operation, ...]:
    """The operations without those that nobody reads (the values of a max of which only the positions are used).
    What is written to the buffers `given` from outside is kept, and those of the loops `checks` that check what no
    other does."""
    read = {value.buffer for value in outputs if isinstance(value, View)} | given
    if checks:
        loops = [each for each in _needed(operations, outputs, given, set()) if isinstance(each, Loop)]
        read |= missing([each for each in operations if isinstance(each, Loop) and each.id in checks], loops)
    kept: list[Operation] = []
    for operation in reversed(operations):
        if any(made.name in read or made.alias_of in read for made in operation.writes) or _has_effect(operation):
            kept.append(operation)
            read |= _reads(operation) | {made.alias_of for made in operation.writes if made.alias_of}
    return tuple(reversed(kept))


def _as_made(
    operations: tuple[Operation, ...], outputs: tuple[object, ...], buffers: Mapping[str, Buffer]
) -> Iterator[Operation]:
    """The operations; the results of library calls that are only returned stay as the library makes them."""
    read = {v.buffer for v in outputs if isinstance(v, View) and v.layout != buffers[v.buffer].layout}
    for operation in operations:
        read |= _reads(operation) | {made.alias_of for made in operation.writes if made.alias_of}
    for operation in operations:
        if isinstance(operation, Extern) and not any(made.name in read for made in operation.writes):
            operation = replace(operation, as_made=True)
        yield operation


def _has_effect(operation: Operation) -> bool:
    if not isinstance(operation, Extern):
        return False
    return operation.random or bool(operation.mutates) or not operation.writes or checks_positions(operation.target)


def _reads(operation: Operation) -> set[str]:
    return {each.buffer for each in (operation.views if isinstance(operation, Extern) else operation.loads)}
