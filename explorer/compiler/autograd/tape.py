"""The tape: a dispatch mode that writes every ATen call below it into an fx graph, decomposed."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from explorer.compiler.autograd import reasons
from explorer.compiler.autograd.decompositions import DECOMPOSITIONS, Decomposition, decompositions, reference_of_prim
from explorer.compiler.autograd.layouts import SizeNodes, Symbolic, expression
from explorer.core.origin import origin, origins
from explorer.core.reasons import Unsupported, Why
from explorer.ir import joint
from explorer.ir.graph import DTYPE_OF_NUMBER, Graph, NodeInfo, info, stamp, storage_of
from explorer.ir.settings import ENTER_INFERENCE_MODE, switches_grad_mode


@contextlib.contextmanager
def not_functional() -> Iterator[None]:
    """Functionalisation off inside a block of a functional trace."""
    torch._disable_functionalization()
    try:
        yield
    finally:
        torch._enable_functionalization(reapply_views=True)


def inside_inference_mode(captured: Graph) -> Graph | None:
    """What a graph computes in the one block of torch.inference_mode that is all of it; None for other graphs."""
    graph = captured.copy()
    calls = [node for node in graph.nodes if node.op.startswith("call")]
    if len(calls) < 3 or calls[0].target != ENTER_INFERENCE_MODE or calls[0].args != (True,):
        return None
    if calls[-1].args != (calls[0],) or any(switches_grad_mode(node.target) for node in calls[1:]):
        return None
    graph.erase_node(calls[-1])
    graph.erase_node(calls[0])
    return replace(captured, graph=graph, grad_enabled=False)


aten = torch.ops.aten
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
METADATA = frozenset(
    {
        aten.size.default, aten.sym_size.default, aten.stride.default, aten.sym_stride.default, aten.dim.default,
        aten.storage_offset.default, aten.sym_storage_offset.default, aten.numel.default, aten.sym_numel.default,
        aten.is_contiguous.default, aten.is_contiguous.memory_format, aten.is_strides_like_format.default,
        aten.is_non_overlapping_and_dense.default,
    }
)  # fmt: skip
"""Questions about a tensor that come through dispatch where its sizes are symbols; no operators. torch lists them too,
in PyInterpreter.cpp: their schemas look like those of operators that return a number."""
QUANTIZED = frozenset({torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4})
VIEWS_WITHOUT_ALIAS = frozenset(
    {aten._unsafe_view.default, aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default}
)
"""Operators whose result shares memory with their input although their schema does not say so."""


class JointTape(TorchDispatchMode):
    """Writes into `graph`. `causes` are the captured nodes by id: a traced node takes span and module from its origin.

    A functional operator makes new memory. Where its decomposition returns (a view of) an argument instead, a clone is
    written, so that nodes of the graph alias exactly where eager's tensors do.
    """

    def __init__(self, graph: fx.Graph, fake_mode: FakeTensorMode, causes: Mapping[str, NodeInfo]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = graph
        self.constants: dict[str, torch.Tensor] = {}
        self.sizes: SizeNodes | None = None
        self._grad_off: set[fx.Node] = set()
        self._views: dict[tuple[fx.Node, int | None], tuple[fx.Node, joint.ViewStep]] = {}
        self._fake_mode = fake_mode
        self._causes = causes
        self._table = decompositions()
        self._nodes: dict[int, tuple[fx.Node, int | None]] = {}
        self._alive: list[object] = []
        self._in_prim = False

    def stamp(self, node: fx.Node, value: object, about: str = "") -> fx.Node:
        """Give `node` its NodeInfo, with the ambient origins and what the first of them knows of the source."""
        cause = next((self._causes[id] for id in origins() if id in self._causes), None)
        span, module, checkpoint = (cause.span, cause.module, cause.checkpoint) if cause else (None, "", 0)
        name = f"aten.{node.name}"
        return stamp(node, name, value, span=span, module=module, about=about, checkpoint=checkpoint)

    def bind(self, value: torch.Tensor, node: fx.Node, item: int | None = None) -> None:
        """From here on `value` is what `node` yields (or its result number `item`)."""
        self._nodes[id(value)] = (node, item)
        self._alive.append(value)

    def node(self, value: torch.Tensor) -> fx.Node:
        """The node that yields `value`. A tensor that came from nowhere is a constant."""
        found = self._nodes.get(id(value))
        if found is None:
            return self.constant(value)
        node, item = found
        if item is not None:
            with origin(*info(node).origins):
                node = self.stamp(self.graph.call_function(operator.getitem, (node, item)), value)
            self.bind(value, node)
        return node

    def constant(self, value: torch.Tensor, name: str | None = None) -> fx.Node:
        """A get_attr node for a captured tensor."""
        assert not isinstance(value, FakeTensor), "a fake tensor that the tape never saw"
        if torch._C._functorch.is_functorch_wrapped_tensor(value):
            raise Unsupported(Why(reasons.TENSOR_KIND, "a tensor of a transform that has ended"))
        name = name or f"_constant{len(self.constants)}"
        self.constants[name] = value
        node = self.stamp(self.graph.create_node("get_attr", name, name=name), self._fake_mode.from_tensor(value))
        self.bind(value, node)
        return node

    def write(self, func: OpOverload, *args: object, **kwargs: object) -> object:
        """Run `func` on fake tensors and write it, whole; for what the trace itself adds."""
        return self._record(func, args, kwargs)

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        if func.namespace == "prim" or func in METADATA:
            return func(*args, **kwargs)
        rule = self._rule(func, args)
        if rule is not None:
            with self, self._inside_prim(func.namespace == "prims"):
                result = rule(*args, **kwargs)
            if result is not NotImplemented:
                if not is_view(func):
                    return self._in_new_memory(result, args)
                self._seen_whole(func, args, kwargs, result)
                return result
        return self._record(func, args, kwargs)

    def _seen_whole(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, object], result: Any) -> None:
        """Remember the call that a view was made by, as autograd saw it, for one that is written as others."""
        source = self.node(args[0])
        given, named = tree_map(expression, (args[1:], kwargs))
        several = isinstance(result, (tuple, list))
        name = f"{func} {len(self._views)}"
        for item, value in enumerate(result if several else (result,)):
            node, place = self._nodes.get(id(value), (source, None))
            if node is not source:
                step = joint.ViewStep(func, given, named, item if several else None, torch.is_grad_enabled(), name)
                self._views[node, place] = source, step

    def view(self, node: fx.Node) -> tuple[fx.Node, joint.ViewStep] | None:
        """What `node` is a view of and how, as autograd saw it; None where it has memory of its own."""
        source = viewed(node)
        if source is None:
            return None
        call, item = (node.args[0], node.args[1]) if node.target is operator.getitem else (node, None)
        assert isinstance(call, fx.Node) and isinstance(item, int | None)
        if (whole := self._views.get((call, item))) is not None:
            return whole
        given, named = fx.map_arg((call.args[1:], call.kwargs), lambda n: expression(info(n).value))
        recorded = call not in self._grad_off
        it = joint.ViewStep(call.target, tuple(given), dict(named), item, recorded, call.name)  # type: ignore[arg-type]
        return source, it

    def _rule(self, func: OpOverload, args: tuple[object, ...]) -> Decomposition | None:
        """How `func` is broken up. What a prim calls is the end of torch's decompositions, so only ours break it up
        again; nor do torch's break up what no loop will compute, where the operator has a kernel, which rounds and
        overflows its own way."""
        rule = reference_of_prim(func) or DECOMPOSITIONS.get(func)
        if rule is None and not self._in_prim:
            rule = self._table.get(func)
            if rule is not None and _is_complex(args) and has_kernel(func):
                return None
        if rule is None and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), COMPOSITE):
            rule = func.decompose
        return rule

    @contextlib.contextmanager
    def _inside_prim(self, entering: bool) -> Iterator[None]:
        before, self._in_prim = self._in_prim, self._in_prim or entering
        try:
            yield
        finally:
            self._in_prim = before

    def _record(self, func: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        if func._schema.is_mutable:
            raise Unsupported(Why(reasons.MUTABLE_OPERATOR, str(func)))
        if args and isinstance(args[0], (int, float, complex)) and _is_of_tensors(func):
            with self:  # torch hands a tensor that was a number over as that number
                args = (aten.scalar_tensor.default(args[0], dtype=DTYPE_OF_NUMBER[type(args[0])]), *args[1:])
        result = func(*args, **kwargs)
        many = isinstance(result, (tuple, list))
        tensors = [v for v in result if isinstance(v, torch.Tensor)] if many else [result]
        if func is aten._local_scalar_dense.default and isinstance(result, Symbolic):
            assert isinstance(args[0], torch.Tensor)
            return self.read(args[0], result)
        if many and any(isinstance(v, (tuple, list)) for v in result):
            raise Unsupported(Why(reasons.LISTS_OF_RESULTS, str(func)))
        if result is not None and not any(isinstance(v, torch.Tensor) for v in tensors):
            return result
        if strange := [v for v in tensors if isinstance(v, torch.Tensor) and not is_plain(v)]:
            raise Unsupported(Why(reasons.TENSOR_KIND, f"{func} makes {strange[0].dtype}, {strange[0].layout}"))
        if not many and id(result) in self._nodes:
            return result
        name = func._overloadpacket.__name__.lstrip("_")
        node = self.graph.create_node(
            "call_function", func, self._arguments(args), {k: self._argument(v) for k, v in kwargs.items()}, name=name
        )
        self.stamp(node, result)
        if not torch.is_grad_enabled():
            self._grad_off.add(node)
        if many:
            for item, value in enumerate(result):
                if isinstance(value, torch.Tensor):
                    self.bind(value, node, item)
        elif result is not None:
            self.bind(result, node)
        return result

    def read(self, tensor: torch.Tensor, number: torch.SymInt | torch.SymFloat | torch.SymBool) -> object:
        """A number that is read out of a tensor: a node, from which expressions over its symbol are computed."""
        assert self.sizes is not None
        call = aten._local_scalar_dense.default
        node = self.graph.create_node("call_function", call, (self.node(tensor),), name="number")
        self.sizes.bind(number.node.expr, self.stamp(node, number))
        return number

    def _arguments(self, values: Any) -> tuple[Any, ...]:
        return tuple(self._argument(value) for value in values)

    def _argument(self, value: object) -> Any:
        if isinstance(value, torch.Tensor):
            return self.node(value)
        if isinstance(value, (tuple, list)):
            return [self._argument(part) for part in value]
        if isinstance(value, Symbolic):
            assert self.sizes is not None
            return self.sizes.node(value)
        return value

    def _in_new_memory(self, result: object, args: tuple[object, ...]) -> object:
        if isinstance(result, (tuple, list)):
            return tuple(self._in_new_memory(value, args) for value in result)
        if not isinstance(result, torch.Tensor):
            return result
        storage = storage_of(result)
        given = [part for value in args for part in (value if isinstance(value, (tuple, list)) else (value,))]
        shared = any(isinstance(value, torch.Tensor) and storage_of(value) == storage for value in given)
        return self._record(aten.clone.default, (result,), {}) if shared else result


def is_plain(value: torch.Tensor) -> bool:
    """Whether the tensor is strided memory that holds its elements as they are."""
    return value.layout is torch.strided and value.dtype not in QUANTIZED


def has_memory(value: object) -> bool:
    """Whether it is a plain tensor with memory of its own: one of a transform's level (vmap) has none."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return isinstance(value, torch.Tensor) and is_plain(value) and not wrapped(value)


def _is_complex(args: tuple[object, ...]) -> bool:
    given = (part for value in args for part in (value if isinstance(value, (tuple, list)) else (value,)))
    return any(isinstance(each, torch.Tensor) and each.is_complex() and each.device.type == "cpu" for each in given)


@functools.cache
def _is_of_tensors(func: OpOverload) -> bool:
    """Whether the first argument is a tensor and the only one."""
    kinds = [isinstance(each.type, torch.TensorType) for each in func._schema.arguments]
    return kinds[:1] == [True] and not any(kinds[1:])


@functools.cache
def has_kernel(func: OpOverload) -> bool:
    """Whether the operator has a kernel of its own for a CPU."""
    return not is_view(func) and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CPU")


@functools.cache
def is_view(func: object) -> bool:
    """Whether the operator's results share memory with an argument that it does not write."""
    if not isinstance(func, OpOverload):
        return False
    if func in VIEWS_WITHOUT_ALIAS:
        return True
    return any(ret.alias_info is not None and not ret.alias_info.is_write for ret in func._schema.returns)


def viewed(node: fx.Node) -> fx.Node | None:
    """What `node` is a view of; None where it has memory of its own."""
    if node.op != "call_function":
        return None
    call: object = node.args[0] if node.target is operator.getitem else node
    if not isinstance(call, fx.Node) or not is_view(call.target):
        return None
    source: Any = call.args[0]
    return source  # type: ignore[no-any-return]


def root(node: fx.Node) -> fx.Node:
    """The node whose memory `node` views."""
    while (below := viewed(node)) is not None:
        node = below
    return node
