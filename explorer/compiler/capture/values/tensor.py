"""Tensors of the traced program: calls that become nodes of the graph, and attributes that need no node.
Stock counterpart: variables/tensor.py.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.grad_mode import _unsafe_preserve_version_counter as preserved_version
from torch.fx.experimental.symbolic_shapes import free_symbols

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import Equals, Has, TensorMatch
from explorer.compiler.capture.late_errors import check_order
from explorer.compiler.capture.operator_checks import lies, tensors_in
from explorer.compiler.capture.torch_state import CONSTRUCTORS
from explorer.compiler.capture.values.base import NotConstant, Reconstructor, Tracer, Value
from explorer.compiler.capture.values.constant import (
    Constant,
    FloatValue,
    IntOrFloat,
    NumberValue,
    SizeValue,
    as_computed,
    computed,
    is_unbacked,
    number_now,
    on_numbers,
)
from explorer.compiler.capture.values.derived import DerivedValue
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.objects import DELETED, MISSING, ObjectValue, bound_attribute, look_up, owner_of
from explorer.compiler.capture.values.overrides import PLAIN, dispatches, is_wrapper, overridden, overrides_torch
from explorer.compiler.capture.values.sequences import ListValue, SequenceValue, SliceValue, TupleValue
from explorer.core.reasons import Unsupported, unsupported
from explorer.ir.capture import AsTensor, Attr, Returned, Source, as_number, as_tensor
from explorer.ir.graph import DTYPE_OF_NUMBER, IN_PLACE, aten_operator, info

CheckedBy = Literal["tensor guard", "own guard", "graph"]
"""tensor guard: a function of what the guard on every tensor input checks (type, dtype, device, sizes, strides,
requires_grad, dispatch keys). own guard: checked for the input once the program asks. graph: a node."""

_TENSOR_GUARD = (
    # Attributes
    "dtype device layout shape ndim requires_grad is_cuda is_cpu is_mps is_xpu is_meta is_sparse is_sparse_csr "
    "is_quantized is_mkldnn is_nested is_ipu is_maia is_vulkan is_mtia itemsize nbytes "
    # Methods, and functions of the same name
    "size stride dim ndimension numel nelement element_size get_device dim_order is_contiguous is_floating_point "
    "is_complex is_signed is_conj is_neg is_inference is_same_size type is_distributed has_names __len__ "
    "result_type can_cast _is_zerotensor _has_compatible_shallow_copy_type"
)  # fmt: skip
_OWN_GUARD = "is_leaf output_nr retains_grad storage_offset is_pinned _is_view"
_GRAPH = "T mT H mH real imag data"

TENSOR_PROPERTIES: Mapping[str, CheckedBy] = {
    **dict.fromkeys(_TENSOR_GUARD.split(), "tensor guard"),
    **dict.fromkeys(_OWN_GUARD.split(), "own guard"),
    **dict.fromkeys(_GRAPH.split(), "graph"),
}  # fmt: skip
OF_ONE_TENSOR = frozenset((*_OWN_GUARD.split(), "grad", "grad_fn", "_version", "_base", "__class__", "data_ptr"))
"""Attributes that a fake tensor of the same kind does not have in common with it."""


def version(tensor: torch.Tensor) -> int | object:
    """How often it was written; of an inference tensor, whose writes nobody counts, something equal to nothing else."""
    return object() if tensor.is_inference() else tensor._version


def counts_with(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a write of one raises the version of the other: not where one is `other.data`."""
    if other.is_inference():
        return True
    before = other._version
    with preserved_version(tensor):
        torch.autograd.graph.increment_version(tensor)
        return other._version != before


READS_VALUE = frozenset(
    "item tolist numpy __bool__ __int__ __float__ __index__ __complex__ __array__ __format__ __repr__ __str__".split()
)
HOOKS = ("register_hook", "register_post_accumulate_grad_hook")
AUTOGRAD = frozenset((*HOOKS, "backward", "retain_grad"))
STORAGE = frozenset(
    "data_ptr untyped_storage storage _typed_storage set_ resize_ resize_as_ share_memory_ pin_memory is_shared "
    "apply_ map_ map2_ __dlpack__ __deepcopy__ __reduce_ex__ _make_subclass to_sparse to_mkldnn".split()
)
QUANTIZES = ("quantize_per_", "_make_per_", "_empty_affine_quantized", "_empty_per_channel_affine_quantized")


_COMPARES = frozenset((operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge))
_INTEGERS = frozenset({torch.int64, torch.int32, torch.int16, torch.int8})


class TensorOrNumber(Value):
    """The smallest or largest of tensors without dimensions and numbers. The graph has it as a tensor, which arithmetic
    with tensors of the same floating dtype does not tell from a number. For everything else the graph ends."""

    def __init__(self, chosen: TensorValue, function: Callable[..., object], of: Sequence[Value]) -> None:
        self.chosen, self.function, self.of = chosen, function, of
        self.fake = chosen.fake

    def python_type(self) -> type:
        unsupported(reasons.DATA_DEPENDENT_BRANCH, f"whether {self.describe()} is a tensor or a number")

    def truth(self, t: Tracer) -> bool:
        return self.chosen.truth(t)

    def for_(self, operands: Sequence[Value]) -> Value:
        """The tensor, where an operator does with it and these operands what it does with the number."""
        others = [each for each in operands if each is not self]
        alike = all(isinstance(each, TensorValue) and each.fake.dtype is self.fake.dtype for each in others)
        return self.chosen if alike else self

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(self.function, self.of)

    def describe(self) -> str:
        return f"{self.function.__name__}() of tensors and numbers"


def leave_to_autograd(t: Tracer, wanted: Value, call: str) -> NoReturn:
    """Break before a call that may ask for gradients of `wanted`."""
    of = [wanted] if wanted.is_none() or isinstance(wanted, TensorValue) else wanted.unpack(t)
    made = (each for each in of if isinstance(each, TensorValue) and not t.tape.is_as_given(each.fake))
    inside = [each for each in made if each.node.users]
    for each in inside:
        each.refuse_view_as_class(t, call, reasons.GRADIENT_INSIDE)
    unsupported(reasons.GRADIENT_INSIDE if inside else reasons.AUTOGRAD_CALL, call)


class TensorValue(Value):
    """A tensor: its node in the graph, and its fake tensor.

    One tensor object of the program is one TensorValue, so `is` on tensors is `is` on these. `given` is the real tensor
    for an input, whose node, fake tensor and guard are made at their first use. `cls` is the tensor's class; the
    graph has plain tensors only.
    """

    precedence = 3
    node: fx.Node
    fake: FakeTensor

    def __init__(
        self,
        node: fx.Node | None = None,
        fake: FakeTensor | None = None,
        source: Source | None = None,
        given: torch.Tensor | None = None,
    ) -> None:
        if node is not None and fake is not None:
            self.node, self.fake = node, fake
        self.source = source
        self.given = given
        self.cls: type = type(given) if given is not None else type(fake) if is_wrapper(fake) else torch.Tensor
        self.overlay: dict[str, Value] = {}
        self.read: Value | None = None

    def __getattr__(self, name: str) -> object:
        if name not in ("node", "fake") or self.unread is None:
            raise AttributeError(name)
        self.read_all()
        self.was_read()
        return getattr(self, name)

    def identity(self) -> object:
        return self

    def guard(self, t: Tracer) -> None:
        """Make it an input of the graph, which is traced and compiled for a tensor like this."""
        assert self.source is not None and self.given is not None
        source, given = self.source, self.given
        if self.cls not in PLAIN:
            source, given = AsTensor(source), as_tensor(given)  # type: ignore[assignment]
        self.node, self.fake = t.tape.input(source, given)
        if given is not self.given:
            t.tape.stand_ins.append((self.cls, self.fake, lies(self.fake)))
        included, excluded = t.torch_state.local_keys
        described = TensorMatch(
            given.dtype,
            given.device,
            tuple(s if type(s) is int else None for s in self.fake.shape),
            tuple(s if type(s) is int else None for s in self.fake.stride()),
            given.requires_grad,
            type(given),
            (torch._C._dispatch_keys(given) | included) - excluded,
        )
        seen = described
        if None in described.size or None in (described.stride or ()):
            seen = replace(described, size=tuple(map(int, given.shape)), stride=tuple(map(int, given.stride())))
        why = "the graph is compiled for this dtype, shape, strides and device"
        t.guards.on(source, described, why, seen.text())
        t.in_graph.tensors[id(self.fake)] = self

    def python_type(self) -> type:
        return self.cls

    def key(self) -> object:
        self.compared = True
        return self

    def lasting(self, t: Tracer) -> Any:
        raise NotConstant(self)

    def as_index(self, t: Tracer) -> int:
        return self.method(t, "__index__", [], {}).as_index(t)

    def truth(self, t: Tracer) -> bool:
        constant = getattr(self.fake, "constant", None)
        if constant is not None:
            return bool(t.python(bool, constant))
        unsupported(reasons.DATA_DEPENDENT_BRANCH, f"Python needs bool() of {self.describe()}")

    def refuse_view_as_class(self, t: Tracer, call: str, code: str) -> None:
        """Leave the frame to eager before a call to which it matters that a tensor of a class is put into it after the
        graph, as another view."""
        if self.cls not in PLAIN and not is_wrapper(self.fake):
            why = f"{call}, of a tensor of a class: what the graph returns as one is a view of what it uses"
            t.tape.refuse_frame(why, code)

    def operate(self, t: Tracer, function: Callable[..., object], operands: list[Value]) -> Value | None:
        other = next((each for each in operands if not isinstance(each, TensorValue)), operands[-1])
        if isinstance(other, DerivedValue) and other.is_taken_by_torch(operands[0] is other, function):
            operands = [each.plain if each is other else each for each in operands]
            return graph_call(t, "call_function", function, operands, {})
        if function in _COMPARES:
            if function in (operator.eq, operator.ne) and isinstance(other, Constant):
                if not isinstance(other.value, (int, float, complex)):
                    return Constant(function is operator.ne)
            answers = not isinstance(other, (TensorValue, Constant, SizeValue, FloatValue))
        else:
            is_object = isinstance(other, ObjectValue) and not isinstance(other, SequenceValue)
            answers = is_object and not overrides_torch(t, other.python_type())
        return None if answers else graph_call(t, "call_function", function, list(operands), {})

    def operate_in_place(self, t: Tracer, function: Callable[..., object], other: Value) -> Value | None:
        return graph_call(t, "call_function", function, [self, other], {})

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name in self.overlay and name != "grad":
            if self.overlay[name] is DELETED:
                t.raise_(AttributeError, f"'{self.python_type().__name__}' object has no attribute '{name}'")
            return self.overlay[name]
        is_plain = self.cls in PLAIN and not t.torch_state.modes
        if not is_plain and (found := self._of_class(t, name)) is not None:
            return found
        if name in _ATTRIBUTES and (found := _ATTRIBUTES[name](self, t)) is not None:
            return found
        held = TENSOR_PROPERTIES.get(name)
        if held == "graph":
            return graph_call(t, "call_function", getattr, [self, Constant(name)], {})
        if held is not None and not callable(found := self.attribute(name)):
            return t.from_python(found) if held == "tensor guard" else self.asked(t, name)
        if self.given is not None and name in vars(self.given):
            assert self.source is not None
            return t.wrap(Attr(self.source, name), vars(self.given)[name])
        found = getattr(torch.Tensor, name, None)
        if found is None:
            if hasattr(torch.Tensor, name) and name not in ("grad_fn", "_base", "_grad", "__hash__"):
                return Constant(None)
            if hasattr(torch.Tensor, name):
                unsupported(reasons.ATTRIBUTE, f"tensor.{name}")
            if self.given is not None and self.source is not None:
                t.guards.on(self.source, Has(name, False, "attribute"), "the tensor does not have it")
            t.raise_(AttributeError, f"'{self.python_type().__name__}' object has no attribute '{name}'")
        if isinstance(found, property) or not callable(found):
            unsupported(reasons.ATTRIBUTE, f"tensor.{name}")
        return t.builtin_method(self, name)

    def _version_now(self, t: Tracer) -> Value | None:
        """Its version counter: the writes to its memory before the call and so far in it. None if several inputs share
        the memory, since they may have counters of their own."""
        if self.fake.is_inference():
            t.raise_(RuntimeError, "Inference tensors do not track version counter.")
        shared = list(t.tape.sharing(self.fake))
        if self.source is None and not any(counts_with(self.fake, fake) for _, _, fake in shared):
            return Constant(self.fake._version)
        if len(shared) != 1 or not counts_with(self.fake, shared[0][2]):
            return None
        source, given, fake = shared[0]
        grown = t.tape.version_growth(source)
        before = None if grown is None else t.wrap(Attr(source, "_version"), given._version)
        return None if before is None else t.binary("+", before, Constant(grown))

    def _grad_fn(self, t: Tracer) -> Value | None:
        is_made = self.given is None or isinstance(self.given, torch.nn.Parameter)
        if self.attribute("is_leaf") and is_made or not self.fake.requires_grad:
            return Constant(None)
        if self.given is not None and self.source is not None and self.fake.grad_fn is None:
            return t.wrap(Attr(self.source, "grad_fn"), None)
        if self.source is None:
            unsupported(reasons.GRADIENT_INSIDE, "tensor.grad_fn")
        return None

    def _view_base(self, t: Tracer) -> Value | None:
        if not self.fake._is_view() and not (self.given is not None and self.given._is_view()):
            self.asked(t, "_is_view")
            return Constant(None)
        is_given = self.given is not None and self.source is not None
        return t.wrap(Attr(self.source, "_base"), self.given._base) if is_given else None  # type: ignore[arg-type, union-attr]

    def attribute(self, name: str) -> Any:
        """An attribute, which autograd does not tell of a view that a write of its base has made invalid."""
        try:
            return getattr(self.fake, name, None)
        except RuntimeError as error:
            unsupported(reasons.OP_RAISED, f"tensor.{name}: {error}")

    def _of_class(self, t: Tracer, name: str) -> Value | None:
        """An attribute as a mode or a subclass overrides it; None if it is torch's own."""
        found = look_up(t, self.cls, name)
        if found is not MISSING and owner_of(self.cls, name) not in _TORCHS:
            own = None if self.given is None else vars(self.given).get(name)
            if own is None or hasattr(type(found), "__set__"):
                return bound_attribute(t, self, self.cls, found, name)
        if self.given is not None and dispatches(self.cls) and name == "is_leaf":
            return t.wrap(Attr(self.source, name), self.given.is_leaf)  # type: ignore[arg-type]
        if self.given is None and dispatches(self.cls) and name in vars(self.fake):
            if isinstance(vars(self.fake)[name], torch.Tensor):
                return graph_call(t, "call_function", getattr, [self, Constant(name)], {})
            return t.from_python(vars(self.fake)[name])
        if isinstance(found, types.GetSetDescriptorType) and not name.startswith("__"):
            return overridden(t, "call_function", getattr, [self, Constant(name)], {})
        return None

    def asked(self, t: Tracer, name: str) -> Value:
        """An attribute, or what a method without arguments returns, that has a guard of its own on the input."""
        answer = _property(self.fake, name)
        if isinstance(answer, torch.SymInt):
            return t.from_python(answer)
        if self.given is not None and self.source is not None and name in _OF_STORAGE:
            return t.wrap(Returned(self.source, name), answer)
        hold(t, self, name, shared=name in _OF_STORAGE)
        return t.from_python(answer)

    def _grad(self, t: Tracer) -> Value:
        if "grad" in self.overlay:
            return self.overlay["grad"]
        if self.given is None:
            if self.attribute("is_leaf") and self.fake.requires_grad:
                unsupported(reasons.ATTRIBUTE, "tensor.grad of a tensor made here")
            return Constant(None)
        assert self.source is not None
        return t.wrap(Attr(self.source, "grad"), self.given.grad)

    def _takes_grad(self, t: Tracer, value: Value) -> bool:
        """Whether torch takes it as the gradient of this tensor, wherever the graph ends, so that the program's own try
        has what is raised; made while tracing, they are plain."""
        if value.is_none():
            return self.given is not None or "grad" in self.overlay
        if not isinstance(value, TensorValue) or value is self or not _alike(self.fake, value.fake):
            return False
        sizes = map(t.from_python, (self.fake.shape, value.fake.shape))
        return t.compare("==", *sizes).truth(t) and (self.given is not None or {self.cls, value.cls} <= {*PLAIN})

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        if t.torch_state.modes and hasattr(torch.Tensor, name):
            unsupported(reasons.ATTRIBUTE, f"setting tensor.{name} under a TorchFunctionMode")
        if name == "grad" and value is not None and self._takes_grad(t, value):
            t.effects.set_attr(self, name, value)
            return
        if name == "grad" and value is not None and value.is_none() and self._grad(t).is_none():
            return
        if name == "requires_grad" and isinstance(value, Constant) and value.value is self.fake.requires_grad:
            if not value.value or self.get_attr(t, "is_leaf").truth(t):
                return
        if name == "data" and isinstance(value, TensorValue):
            if torch.is_inference_mode_enabled():  # functionalization loses what was written by an older `data`
                unsupported(reasons.ATTRIBUTE, "setting tensor.data in inference mode")
            t.tape.call("call_function", setattr, (self.fake, name, value.fake), {})
            t.tape.mode.count_write(self.fake)
            t.tape.add("call_function", setattr, (self.node, name, value.node), {}, None)
            return
        if not hasattr(torch.Tensor, name):
            if value is None:
                self.get_attr(t, name)
            t.effects.set_attr(self, name, value if value is not None else DELETED)
            return
        unsupported(reasons.ATTRIBUTE, f"setting tensor.{name}")

    def call(self, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        t.raise_(TypeError, f"'{self.python_type().__name__}' object is not callable")

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "as_subclass":
            return self.as_class(t, (args[0] if args else kwargs["cls"]).known(t))
        asks = t.torch_state.modes or self.cls not in PLAIN and overrides_torch(t, self.cls)
        if asks and hasattr(torch.Tensor, name):
            found = overridden(t, "call_method", name, [self, *args], kwargs)
            if found is not None:
                return found
        found = _CALLED[name](self, t, name, args, kwargs) if name in _CALLED else None
        return graph_call(t, "call_method", name, [self, *args], kwargs) if found is None else found

    # What methods do that are no node, or not one of the same arguments; None where they are.

    def _to_array(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        is_forced = name == "numpy" and not args and list(kwargs) == ["force"] and kwargs["force"].truth(t)
        if not is_forced and (args or kwargs.keys() - {"force"}):
            return self._read(t, name)
        made: Value = self
        for step in ("detach", "cpu", "resolve_conj", "resolve_neg") if is_forced else ():
            made = graph_call(t, "call_method", step, [made], {})
        return t.array_of_tensor(made)

    def _of_autograd(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in HOOKS and len(args) == 1:
            return t.register_hook(self, name, args[0])
        wanted = self if name == "retain_grad" else kwargs.get("inputs", *args[3:4] or [Constant(None)])
        leave_to_autograd(t, wanted, f"{self.describe()}.{name}()")

    def _of_storage(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "untyped_storage" and not args and self.fake.layout is torch.strided:
            return t.in_graph.storages.setdefault(self.fake.untyped_storage()._cdata, StorageValue(self))
        other = args[0] if len(args) == 1 and name == "set_" else None
        if self.source is None and isinstance(other, TensorValue) and _alike(self.fake, other.fake):
            return recorded(t, "call_function", torch.ops.aten.set_.source_Tensor, [self, *args], kwargs)
        unsupported(reasons.UNTRACEABLE_CALL, f"tensor.{name}()")

    def _require_grad(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
        wanted = (args[0] if args else kwargs.get("requires_grad", Constant(True))).known(t)
        if wanted is self.fake.requires_grad and not t.torch_state.levels:  # inside of a transform torch refuses it
            return self
        if self.given is not None:
            unsupported(reasons.ATTRIBUTE, "requires_grad_() of an input")
        self.refuse_view_as_class(t, "requires_grad_()", reasons.ATTRIBUTE)
        return None

    def _detach(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> None:
        self.asked(t, "_is_view")  # it refuses views

    def _hash(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> NoReturn:
        unsupported(reasons.OPERATION, "hash of a tensor")

    def _set_item(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        self.set_item(t, args[0], args[1])
        return Constant(None)

    def _clamp(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        args, kwargs = _bounds(t, self, args, kwargs)
        return graph_call(t, "call_method", name, [self, *args], kwargs)

    def _new_tensor(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
        if len(args) != 1 or isinstance(args[0], TensorValue):
            return None
        facts: dict[str, Value] = {"dtype": Constant(self.fake.dtype), "device": Constant(self.fake.device)}
        given = {key: value for key, value in kwargs.items() if not value.is_none()}
        return t.from_python(torch.tensor).call(t, args, facts | given)

    def _as_type(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
        found = getattr(args[0], "cls", None) if args else None
        if not isinstance(found, type):
            return None
        args = [Constant(f"{found.__module__}.{found.__name__}"), *args[1:]]
        return graph_call(t, "call_method", name, [self, *args], kwargs)

    def _new(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """x.new(...): of sizes a tensor of unknown contents, of a sequence a tensor of that."""
        is_data = len(args) == 1 and isinstance(args[0], (ListValue, TupleValue)) and args[0].cls is not torch.Size
        if is_data:
            return graph_call(t, "call_method", "new_tensor", [self, *args], kwargs)
        if any(isinstance(arg, TensorValue) for arg in args):
            other = args[0]
            if len(args) > 1 or not isinstance(other, TensorValue) or not _alike(other.fake, self.fake):
                unsupported(reasons.UNTRACEABLE_CALL, "tensor.new() of a tensor of another type")
            return graph_call(t, "call_function", torch.ops.aten.alias.default, args, {})
        if len(args) == 1 and isinstance(args[0], TupleValue):
            args = args[0].unpack(t)
        return graph_call(t, "call_method", "new_empty", [self, TupleValue(args or [Constant(0)])], kwargs)

    def _read(self, t: Tracer, name: str) -> Value:
        """Its value as Python's: a number that stays in the graph, where a setting allows it."""
        constant = getattr(self.fake, "constant", None)
        if constant is not None and name not in ("numpy", "__array__"):
            return t.from_python(t.python(getattr(constant, name)))
        if not t.tape.scalar_outputs or name not in ("item", "tolist", "__int__", "__float__", "__index__"):
            unsupported(reasons.ITEM, f"{self.describe()}.{name}()")
        if name == "tolist":
            if self.fake.dim() == 0:
                return self._read(t, "item")
            return ListValue([row.method(t, "tolist", [], {}) for row in self.unpack(t)])
        number = self.number_given(t) or graph_call(t, "call_method", "item", [self], {})
        kinds = {"__int__": torch.SymFloat, "__float__": torch.SymInt}
        if name in kinds and isinstance(number, SizeValue) and isinstance(number.sym, kinds[name]):
            return on_numbers(t, torch.sym_int if name == "__int__" else torch.sym_float, number)
        return number

    def as_class(self, t: Tracer, cls: type) -> Value:
        """Another tensor over the same memory, of this class; one whose class makes it itself stays of that class."""
        keeps = is_wrapper(self.fake)
        if keeps and not issubclass(self.cls, cls):
            t.raise_(
                RuntimeError,
                f"Creating a new Tensor subclass {cls.__name__} but the raw Tensor object is already associated to a "
                f"python object of type {self.cls.__name__} which is not a subclass of the requested type",
            )
        if not keeps and dispatches(cls) or not issubclass(cls, torch.Tensor):
            unsupported(reasons.TENSOR_SUBCLASS, f"a tensor as a {cls.__name__}")
        with torch._C.DisableTorchFunctionSubclass():
            made = recorded(t, "call_function", torch.ops.aten.alias.default, [self], {})
        if not keeps:
            made.cls = cls  # type: ignore[attr-defined]
        return made

    def number_given(self, t: Tracer) -> Value | None:
        """The number in an integer of no dimension that is an input, and that no other tensor reaches: a symbol that is
        read when the frame is entered. None for other tensors."""
        given = self.given
        if (
            given is None
            or self.source is None
            or self.cls not in PLAIN
            or given.dim()
            or given.dtype not in _INTEGERS
            or given.device.type != "cpu"
            or given.untyped_storage().nbytes() != given.element_size()
            or version(self.fake) != 0
        ):
            return None
        if self.read is None:
            source = Returned(self.source, "item")
            self.read = SizeValue(t.tape.size_input(source, int(given.item())), source)
        return self.read

    def _index(self, t: Tracer, key: Value) -> Value:
        """A key of which the numbers in tensors are numbers, as indexing reads them."""
        if isinstance(key, TensorValue):
            return key.number_given(t) or key
        if (array := key.as_tensor(t)) is not None:
            return array
        if isinstance(key, TupleValue) and key.cls is tuple:
            return TupleValue([self._index(t, item) for item in key.unpack(t)])
        if isinstance(key, SliceValue):
            bounds = (key.start, key.stop, key.step)
            if not any(isinstance(bound, TensorValue) for bound in bounds):
                return key
            read = (b.number_given(t) or b._read(t, "item") if isinstance(b, TensorValue) else b for b in bounds)
            return SliceValue(*read)
        return key

    def get_item(self, t: Tracer, key: Value) -> Value:
        indices = key.unpack(t) if isinstance(key, TupleValue) else [key]
        if t.tape.branches and all(isinstance(i, TensorValue) and i.fake.dim() == 0 for i in indices):
            return graph_call(t, "call_function", torch.ops.aten.index.Tensor, [self, ListValue(indices)], {})
        if isinstance(key, SizeValue) and key.python_type() is int and not is_unbacked(key.sym):
            # Indexing would specialize it.
            return graph_call(t, "call_function", torch.select, [self, Constant(0), key], {})
        return graph_call(t, "call_function", operator.getitem, [self, self._index(t, key)], {})

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        if value is None:
            t.raise_(TypeError, "Tensor does not support deleting items")
        key = self._index(t, key)
        if (
            isinstance(key, TensorValue)
            and isinstance(value, TensorValue)
            and key.fake.dim() == 0
            and not key.fake.is_floating_point()
        ):
            if key.fake.dtype is not torch.bool:  # Python's indexing would read the number
                if value.fake.untyped_storage()._cdata == self.fake.untyped_storage()._cdata:
                    value = graph_call(t, "call_method", "clone", [value], {})  # it refuses a value that shares memory
                graph_call(t, "call_method", "index_put_", [self, TupleValue([key]), value], {})
                return
        if issubclass(kind := value.python_type(), np.generic) and not issubclass(kind, np.integer | float | complex):
            unsupported(reasons.NUMPY, f"{kind.__name__} as an element of a tensor, which torch refuses")
        graph_call(t, "call_function", operator.setitem, [self, key, value], {})

    def contains(self, t: Tracer, item: Value) -> bool:
        unsupported(reasons.DATA_DEPENDENT_BRANCH, "in a tensor")

    def length(self, t: Tracer) -> Value:
        if t.torch_state.modes and (found := overridden(t, "call_method", "__len__", [self], {})) is not None:
            return found
        if self.fake.dim() == 0:
            t.raise_(TypeError, "len() of a 0-d tensor")
        return t.from_python(self.fake.shape[0])

    def iterate(self, t: Tracer) -> Value:
        overridden(t, "call_method", "dim", [self], {})  # Tensor.__iter__ asks for it first
        t.torch_state.leave_unreported()  # of __len__, which a list asks for
        if self.fake.dim() == 0:
            t.raise_(TypeError, "iteration over a 0-d tensor")
        rows = graph_call(t, "call_method", "unbind", [self, Constant(0)], {})
        return t.sequence_iterator(rows)

    def reconstruct(self, r: Reconstructor) -> None:
        if self.node.graph is not r.t.tape.graph:
            unsupported(reasons.HIGHER_ORDER, "a tensor of a function that has returned")
        if self.cls in PLAIN:
            r.output(self.node)
        elif dispatches(self.cls):
            r.call(*r.t.rewrapped(self))
        else:
            r.call_on_output(_maker(self.cls), self.node)
        if not self.overlay and self.cls in PLAIN:
            return
        name = r.store_new(self)
        for attribute, held in self.overlay.items():
            if held is not DELETED:
                r.value(held)
                r.emit("LOAD_FAST", name)
                r.emit("STORE_ATTR", attribute)
        r.emit("LOAD_FAST", name)

    def describe(self) -> str:
        named: Any = vars(self).get("node", self.source)
        return f"tensor {named.name}"


_ATTRIBUTES: Mapping[str, Callable[[TensorValue, Tracer], Value | None]] = {
    "shape": lambda x, t: x.method(t, "size", [], {}),
    "nbytes": lambda x, t: t.binary("*", x.method(t, "numel", [], {}), Constant(x.fake.itemsize)),
    "grad": TensorValue._grad,
    "_version": TensorValue._version_now,
    "__class__": lambda x, t: t.from_python(x.python_type()),
    "grad_fn": TensorValue._grad_fn,
    "_base": TensorValue._view_base,
}
_CALLED: Mapping[str, Callable[[TensorValue, Tracer, str, list[Value], dict[str, Value]], Value | None]] = {
    **dict.fromkeys(READS_VALUE, lambda x, t, name, args, kwargs: x._read(t, name)),
    **dict.fromkeys(("numpy", "__array__"), TensorValue._to_array),
    **dict.fromkeys(AUTOGRAD, TensorValue._of_autograd),
    **dict.fromkeys(STORAGE, TensorValue._of_storage),
    **dict.fromkeys(("clamp", "clip", "clamp_", "clip_"), TensorValue._clamp),
    "requires_grad_": TensorValue._require_grad,
    "detach_": TensorValue._detach,
    "__len__": lambda x, t, name, args, kwargs: x.length(t),
    "__iter__": lambda x, t, name, args, kwargs: x.iterate(t),
    "__hash__": TensorValue._hash,
    "__getitem__": lambda x, t, name, args, kwargs: x.get_item(t, args[0]),
    "__setitem__": TensorValue._set_item,
    "new": TensorValue._new,
    "new_tensor": TensorValue._new_tensor,
    "type": TensorValue._as_type,
}
"""Attributes and methods by name that no general rule covers."""


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.dtype, a.device, a.layout) == (b.dtype, b.device, b.layout)


@functools.cache
def _maker(cls: type) -> Callable[[torch.Tensor], torch.Tensor]:
    def as_subclass(tensor: torch.Tensor) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return tensor.as_subclass(cls)

    return as_subclass


_TORCHS = (*torch.Tensor.__mro__, torch.nn.Parameter)
"""The classes of which an attribute is torch's own."""


def _bounds(
    t: Tracer, clamped: TensorValue, args: list[Value], kwargs: dict[str, Value]
) -> tuple[list[Value], dict[str, Value]]:
    """clamp takes two numbers or two tensors; of one each, eager reads the number in a tensor without dimensions. Make
    both tensors, of the dtype that two numbers give."""
    given = [*args, *kwargs.values()]
    tensors = [v.fake for v in given if isinstance(v, TensorValue)]
    numbers = [v.value for v in given if isinstance(v, Constant) and isinstance(v.value, (int, float))]
    if not tensors or not numbers or any(fake.dim() for fake in tensors):
        return args, kwargs
    is_float = any(fake.is_floating_point() for fake in tensors) or any(isinstance(n, float) for n in numbers)
    dtype = Constant(torch.result_type(clamped.fake, 1.0 if is_float else 1))

    def as_tensor(value: Value) -> Value:
        if isinstance(value, TensorValue):
            return graph_call(t, "call_method", "to", [value, dtype], {})
        is_number = isinstance(value, Constant) and isinstance(value.value, (int, float))
        facts: dict[str, Value] = {"dtype": dtype, "device": Constant(torch.device("cpu"))}
        return graph_call(t, "call_function", torch.tensor, [value], facts) if is_number else value

    return list(map(as_tensor, args)), {name: as_tensor(value) for name, value in kwargs.items()}


def to_graph(t: Tracer, value: Value) -> tuple[Any, Any]:
    """A value as the graph's argument and as the fake call's argument."""
    if isinstance(value, TensorValue):
        return value.node, value.fake
    if isinstance(value, NumberValue):
        value.python_type()
        return value.node, value.sym
    if isinstance(value, SizeValue):
        return t.tape.size_argument(value.sym), value.sym
    if isinstance(value, Constant):
        plain = as_number(value.value) if isinstance(value.value, np.generic) else value.value
        return plain, plain
    if (number := value.number(t)) is not None:
        return number, number
    if isinstance(value, (TupleValue, ListValue)):
        pairs = [to_graph(t, item) for item in value.unpack(t)]
        if isinstance(value, ListValue):
            return [p[0] for p in pairs], [p[1] for p in pairs]
        return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    if isinstance(value, SliceValue):
        parts = [to_graph(t, part) for part in (value.start, value.stop, value.step)]
        return slice(*(p[0] for p in parts)), slice(*(p[1] for p in parts))
    if isinstance(value, DictValue):
        found = {key: to_graph(t, item) for key, item in value.plain_items(t).items()}
        return {k: p[0] for k, p in found.items()}, {k: p[1] for k, p in found.items()}
    try:
        real = value.constant()
    except NotConstant:
        unsupported(reasons.UNTRACEABLE_CALL, f"{value.describe()} as an argument of an operator")
    if isinstance(real, type):
        real = DTYPE_OF_NUMBER.get(real, real)  # the code of a graph cannot print a class
    return real, real


_OF_FLOATS = frozenset(
    "add sub mul truediv div rsub pow iadd isub imul itruediv add_ sub_ mul_ div_ lt le eq ne gt ge where subtract "
    "multiply divide true_divide __radd__ __rmul__ mod".split()
)
"""Operators that compute with a float as they do with a tensor of no dimension."""

_WRITE_A_NUMBER = frozenset("setitem fill_ masked_fill masked_fill_ index_fill index_fill_".split())
"""Operators that give elements of their first argument a number: one that its dtype does not hold is an error."""


def _floats_as_tensors(
    t: Tracer, kind: str, target: object, args: list[Value], kwargs: dict[str, Value]
) -> list[Value]:
    """The floats among the arguments as tensors, which are inputs, if the operator computes the same with them; else
    unchanged, which guards their values."""
    name = getattr(target, "__name__", target)
    tensors = [a for a in args if isinstance(a, TensorValue)]
    if name not in _OF_FLOATS | _WRITE_A_NUMBER or not tensors or any(a.fake.device.type != "cpu" for a in tensors):
        return args
    if kwargs or any(a.fake.dtype not in _EXACT for a in tensors) or torch.is_autocast_enabled("cpu"):
        return args
    if name in _WRITE_A_NUMBER or name == "where":  # they convert it, and refuse values out of float32's range
        if not _floats_are_within(t, args, torch.finfo(torch.float32).max):
            return args
    if name in _WRITE_A_NUMBER:
        dtype = tensors[0].fake.dtype
        if tensors[0] is not args[0] or not dtype.is_floating_point:
            return args
        return [
            graph_call(t, "call_method", "to", [number_tensor(t, a, a.source), Constant(dtype)], {})
            if isinstance(a, FloatValue) else a for a in args
        ]  # fmt: skip
    given: list[Value] = [number_tensor(t, a, a.source) if isinstance(a, FloatValue) else a for a in args]
    if isinstance(args[0], TensorValue) and (name[-1] == "_" or target in IN_PLACE):
        return given
    plain = tuple(number_now(t, a) if isinstance(a, FloatValue) else to_graph(t, a)[1] for a in args)
    expected = t.tape.call(kind, target, plain, {}).dtype
    if t.tape.call(kind, target, tuple(to_graph(t, a)[1] for a in given), {}).dtype is expected:
        return given
    if not expected.is_floating_point:
        return args
    return [
        graph_call(t, "call_method", "to", [b, Constant(expected)], {}) if isinstance(a, FloatValue) else b
        for a, b in zip(args, given, strict=True)
    ]


def _takes_any_float(t: Tracer, target: object, args: list[Value], kwargs: dict[str, Value]) -> bool:
    """Whether the floats among the arguments may be numbers of the graph: no dtype of the call has to hold them that
    does not. Integers may be positions or a mask, unless the call writes them; `recorded` asks what comes of it."""
    given = [*args, *kwargs.values()]
    tensors = [each.fake for each in given if isinstance(each, TensorValue)]
    named = [each.value for each in given if isinstance(each, Constant) and isinstance(each.value, torch.dtype)]
    written = [each.fake for each in _written(target, args, kwargs) if isinstance(each, TensorValue)]
    floating = {each.dtype for each in tensors if each.is_floating_point()}
    dtypes = {torch.get_default_dtype(), *named, *floating, *(each.dtype for each in written)}
    if t.tape.branches or not all(each.is_floating_point for each in dtypes):
        return False
    if any(each.device.type != "cpu" or each.is_complex() for each in tensors):
        return False
    return _floats_are_within(t, given, min(torch.finfo(each).max for each in {torch.float32, *dtypes}))


def _written(target: object, args: list[Value], kwargs: dict[str, Value]) -> list[Value]:
    """The arguments that a call writes, by its name."""
    is_in_place = str(getattr(target, "__name__", target)).endswith("_") or target in IN_PLACE
    return [*(args[:1] if is_in_place else ()), *(v for name, v in kwargs.items() if name == "out")]


def _floats_are_within(t: Tracer, given: Sequence[Value], largest: float) -> bool:
    """Whether the absolute values of the floats are at most this; no NaN is."""
    floats = [each for each in given if isinstance(each, FloatValue)]
    return all(t.compare("<=", computed(t, abs, each), Constant(largest)).truth(t) for each in floats)


def _floats_as_numbers(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> tuple[list[Value], dict[str, Value]]:
    def number(value: Value) -> Value:
        if not isinstance(value, FloatValue):
            return value
        tensor = number_tensor(t, value, value.source)
        read = t.tape.float_read(tensor.fake, value.source, value.value)
        return NumberValue(read, t.tape.add("call_method", "item", (tensor.node,), {}, read))

    return [number(each) for each in args], {name: number(each) for name, each in kwargs.items()}


_SAME_FOR_NUMBERS = frozenset("add sub mul div truediv iadd isub imul itruediv".split())
_ARITHMETIC = frozenset((operator.add, operator.sub, operator.mul, operator.truediv))
_EXACT = frozenset(
    {torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
)


def placed(t: Tracer, target: object, kwargs: dict[str, Value]) -> dict[str, Value]:
    """The keywords of a call in the graph, with the default device where the call takes one and names none."""
    if not t.torch_state.devices or target not in CONSTRUCTORS:
        return kwargs
    given = kwargs.get("device")
    if given is not None and not (isinstance(given, Constant) and given.value is None):
        return kwargs
    return {**kwargs, "device": Constant(t.torch_state.devices[-1])}


def graph_call(t: Tracer, kind: str, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a torch function or tensor method: a node, where a tensor comes of it or changes; else its plain result."""
    if str(getattr(target, "__name__", target)).startswith(QUANTIZES):
        unsupported(reasons.SPARSE, "a quantized tensor, which fake tensors do not represent")
    if getattr(target, "__name__", target) in STORAGE:
        unsupported(reasons.UNTRACEABLE_CALL, f"{target.__name__}()")
    if "from" in kwargs:  # where an operator has a parameter of that name, it is the first after the tensor
        args = [*args, kwargs["from"]]
        kwargs = {name: value for name, value in kwargs.items() if name != "from"}
    if getattr(target, "__name__", target) in _SAME_FOR_NUMBERS and not t.torch_state.modes:
        args = [a.for_(args) if isinstance(a, TensorOrNumber) else a for a in args]
    if any(isinstance(a, IntOrFloat) for a in args) and target in _ARITHMETIC and not t.torch_state.modes:
        tensors = [a for a in args if isinstance(a, TensorValue) and a.cls in PLAIN]
        is_floating = any(a.fake.is_floating_point() for a in tensors)
        args = [a.as_float() if is_floating and isinstance(a, IntOrFloat) else a for a in args]
    if (found := overridden(t, kind, target, args, kwargs)) is not None:
        return found
    return recorded(t, kind, target, args, kwargs)


def recorded(t: Tracer, kind: str, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The same, when neither a mode nor a class of the program overrides the call."""
    if kind == "call_function" and isinstance(target, types.FunctionType) and target in _METHODS:
        kind, target = "call_method", _METHODS[target]
    if any(isinstance(v, (FloatValue, SizeValue)) for v in (*args, *kwargs.values())):
        args = [as_computed(t, a) for a in args]
        kwargs = {name: as_computed(t, value) for name, value in kwargs.items()}
        if any(isinstance(a, FloatValue) for a in args):
            args = _floats_as_tensors(t, kind, target, args, kwargs)
        if _converts_numbers(target) and (limits := narrowest([*args, *kwargs.values()])) is not None:
            args = [_within(t, a, *limits) for a in args]
            kwargs = {name: _within(t, value, *limits) for name, value in kwargs.items()}
        if any(isinstance(v, FloatValue) for v in (*args, *kwargs.values())) and _takes_any_float(
            t, target, args, kwargs
        ):
            try:
                return recorded(t, kind, target, *_floats_as_numbers(t, args, kwargs))
            except Unsupported:
                pass  # its result depends on the floats: capture these values
    positional = [to_graph(t, a) for a in args]
    named = {k: to_graph(t, v) for k, v in placed(t, target, kwargs).items()}
    fx_args, fx_kwargs = tuple(p[0] for p in positional), {k: p[0] for k, p in named.items()}
    absolute = getattr(target, "__name__", target) in _ABSOLUTE and args and isinstance(args[0], TensorValue)
    size = args[0].fake.untyped_storage().nbytes() if absolute else 0  # type: ignore[attr-defined]  # the call may grow it
    check_order(t, kind, target, fx_args, fx_kwargs)
    result = t.tape.call(kind, target, tuple(p[1] for p in positional), {k: p[1] for k, p in named.items()})
    if any(isinstance(v, NumberValue) for v in (*args, *kwargs.values())):
        of_floats = any(not each.is_integer for fake in tensors_in(result) for each in free_symbols(fake.shape))
        if of_floats and t.config.generates_code:
            unsupported(reasons.DYNAMIC_OUTPUT, "a size that is computed from a float")
        if not _keeps_floats(args, kwargs, result):
            unsupported(reasons.OPERATION, "a float that an operator gives a tensor of integers")
        fx_args, fx_kwargs = fx.map_arg((fx_args, fx_kwargs), _settled)
    fx_kwargs = t.torch_state.typed(target, fx_kwargs, result)
    if is_unbacked(result):
        return NumberValue(result, t.tape.add(kind, target, fx_args, fx_kwargs, result))
    if result is not None and not has_tensor(result):
        return _answer(t, getattr(target, "__name__", target), args, result)
    if absolute:
        skipped = 2 if getattr(target, "__name__", target) == "as_strided_scatter" and "src" not in named else 1
        place = [p[1] for p in positional[skipped:]], {k: p[1] for k, p in named.items() if k in _OF_VIEW}
        with t.tape.mode:
            reached = args[0].fake.as_strided(*place[0], **place[1])  # type: ignore[attr-defined]
        _counted_from_storage(t, args[0], reached, size)  # type: ignore[arg-type]
    node = t.tape.add(kind, target, fx_args, fx_kwargs, result)
    if not torch.is_grad_enabled():
        for each in tensors_in(result)[:1]:
            _hold_base(t, each)
    return from_fake(t, node, result)


def _keeps_floats(args: list[Value], kwargs: dict[str, Value], result: object) -> bool:
    """Whether no float of the program may have become an element of a tensor of integers, as torch lets few of them."""
    given = [*args, *kwargs.values()]
    if not any(
        isinstance(v, NumberValue) and isinstance(v.sym, torch.SymFloat) and not is_unbacked(v.sym) for v in given
    ):
        return True
    if all(v.fake.is_floating_point() for v in given if isinstance(v, TensorValue)):
        return True
    return all(each.is_floating_point() for each in tensors_in(result))


def _settled(node: fx.Node) -> fx.Node | float:
    """The node, or a number where a symbolic float has been given a value meanwhile."""
    value = info(node).value
    return float(value) if isinstance(value, torch.SymFloat) and value.node.expr.is_number else node


def _hold_base(t: Tracer, taken: torch.Tensor) -> None:
    """Guard what a view that is taken without grad has of its base: whether it requires grad."""
    if not isinstance(taken, FakeTensor) or taken.layout is not torch.strided or not taken._is_view():
        return
    for source, given, fake in t.tape.sharing(taken):
        if fake is not taken and given.requires_grad:
            t.guards.on(Returned(source, "_is_view"), Equals(given._is_view()), _OF_BASE)
            if given._base is not None:
                t.guards.on(Attr(Attr(source, "_base"), "requires_grad"), Equals(given._base.requires_grad), _OF_BASE)


_OF_BASE = "a view taken without grad requires grad as its base does"


_METHODS = {function: name for name, function in vars(torch.Tensor).items() if isinstance(function, types.FunctionType)}
"""The methods in Python. A graph calls them by name: the text of a graph cannot name such a function itself."""


_NARROW = {
    dtype: (-torch.iinfo(dtype).max if dtype is torch.uint8 else torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32)
}
"""The numbers that eager makes elements of these dtypes; others it refuses. A negative one may become a uint8."""


@functools.cache
def _converts_numbers(target: Any) -> bool:
    """Whether the operator makes a number that it is given one of the tensors' dtype: those of Python's operators do
    with a number as with a tensor."""
    name = getattr(target, "__name__", target)
    if getattr(target, "__module__", "") == "_operator":
        return bool(name == "setitem")
    packet = aten_operator(name)
    schemas = [] if packet is None else [getattr(packet, overload)._schema for overload in packet.overloads()]
    kinds = [str(argument.type) for schema in schemas for argument in schema.arguments]
    return bool(name == "tensor") or "number" in kinds or "Optional[number]" in kinds


def narrowest(given: Sequence[Value]) -> tuple[int, int] | None:
    """The least and the largest number of the narrowest integer dtype among the arguments."""
    dtypes = [each.fake.dtype if isinstance(each, TensorValue) else getattr(each, "value", None) for each in given]
    limits = [_NARROW[each] for each in dtypes if isinstance(each, torch.dtype) and each in _NARROW]
    return min(limits, key=lambda each: each[1], default=None)


def _within(t: Tracer, value: Value, low: int, high: int) -> Value:
    """A number that a guard keeps in a range; one outside of the range is guarded by its value."""
    if not isinstance(value, SizeValue) or isinstance(value, NumberValue):
        return value
    fits = t.compare(">=", value, Constant(low)).truth(t) and t.compare("<=", value, Constant(high)).truth(t)
    return value if fits else Constant(value.known(t))


_OF_STORAGE = frozenset({"storage_offset"})
"""Properties that a view has in common with the input that it is a view of."""

_OF_VIEW = frozenset({"size", "stride", "storage_offset"})

_ABSOLUTE = frozenset("as_strided as_strided_ as_strided_copy as_strided_scatter".split())
"""Operators that count from the beginning of the storage."""


def _property(tensor: torch.Tensor, name: str) -> object:
    found = getattr(tensor, name)
    return found() if callable(found) else found


def hold(t: Tracer, value: TensorValue, name: str, shared: bool) -> None:
    """Guard a property of an input, or with `shared` of the inputs whose storage the tensor shares."""
    for source, given, fake in t.tape.sharing(value.fake):
        if not shared and source != value.source:
            continue
        now = _property(given, name)
        found = Returned(source, name) if callable(getattr(given, name)) else Attr(source, name)
        if isinstance(_property(fake, name), torch.SymInt):
            continue
        t.guards.on(found, Equals(now), "the program asked for it, or the graph was traced for it")
        if version(fake) == 0 and _property(fake, name) != now:
            unsupported(reasons.ATTRIBUTE, f"tensor.{name} of {value.describe()}")


def _counted_from_storage(t: Tracer, base: TensorValue, result: Any, size: Any) -> None:
    """A view by its place in the storage, of `size` bytes: inside of it, of an input for this offset, and inside of the
    input alone, since nothing else of the storage is given to the graph."""
    memory = [(0, size // base.fake.element_size() - 1)]
    for _, _, given in t.tape.sharing(base.fake):
        hold(t, base, "storage_offset", shared=True)
        memory.append(_span(given))
    low, high = _span(result)
    if result.numel() and any(low < first or high > last for first, last in memory):
        unsupported(reasons.UNTRACEABLE_CALL, "as_strided that reaches outside of the tensor's memory")


def _span(tensor: torch.Tensor) -> tuple[Any, Any]:
    """The first and last place in the storage."""
    start = tensor.storage_offset()
    return start, start + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _answer(t: Tracer, name: str, args: list[Value], result: object) -> Value:
    """The result of a function of a tensor, if it is not a tensor."""
    if isinstance(result, (tuple, list)) and not result:
        return t.from_python(result)  # the number of views depends only on the sizes
    asked = [a for a in args if isinstance(a, TensorValue)]
    held = TENSOR_PROPERTIES.get(name)
    if asked and held is None:
        unsupported(reasons.UNTRACEABLE_CALL, f"{name} of a tensor, which no guard can hold to its answer")
    return asked[0].asked(t, name) if asked and held == "own guard" else t.from_python(result)


def has_tensor(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(has_tensor, value))
    return isinstance(value, torch.Tensor)


def from_fake(t: Tracer, node: fx.Node, result: object) -> Value:
    """The value of a node: the tensor that is already known, where the operator returned one of its arguments."""
    if isinstance(result, torch.Tensor):
        is_known = isinstance(result, FakeTensor) or torch._C._functorch.is_functorch_wrapped_tensor(result)
        if not is_known and (not is_wrapper(result) or result.requires_grad and result.is_leaf):
            unsupported(reasons.TENSOR_SUBCLASS, type(result).__name__)
        if result.layout not in (torch.strided, torch.jagged):
            unsupported(reasons.SPARSE, str(result.layout))
        known = t.in_graph.tensors.get(id(result))
        if known is None:  # or a tensor of torch.func
            known = t.in_graph.tensors[id(result)] = TensorValue(node, result)  # type: ignore[arg-type]
        return known
    if isinstance(result, (tuple, list)):
        items: list[object] = []
        for index, item in enumerate(result):
            if is_unbacked(item):
                items.append(NumberValue(item, t.tape.element(node, index, item)))
            elif item is None or not has_tensor(item):
                items.append(t.from_python(item))
            else:
                items.append(from_fake(t, t.tape.element(node, index, item), item))
        return TupleValue(items, type(result)) if isinstance(result, tuple) else ListValue(items)
    return t.from_python(result)


SIZE = ("size", "nbytes", "__len__")


class StorageValue(Value):
    """tensor.untyped_storage(), of which a program may ask how large it is."""

    of_type = torch.UntypedStorage

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name == "device":
            return t.from_python(self.tensor.fake.device)
        if name not in SIZE:
            unsupported(reasons.ATTRIBUTE, f"tensor.untyped_storage().{name}")
        return t.builtin_method(self, name)

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name not in SIZE or args or kwargs:
            unsupported(reasons.UNTRACEABLE_CALL, f"tensor.untyped_storage().{name}()")
        return self.length(t)

    def length(self, t: Tracer) -> Value:
        """The storage's size in bytes. An input's storage may be larger than the tensor, so it is measured."""
        for source, real, _ in t.tape.sharing(self.tensor.fake):
            return t.wrap(Returned(Returned(source, "untyped_storage"), "nbytes"), real.untyped_storage().nbytes())
        return t.from_python(self.tensor.fake.untyped_storage().nbytes())

    def reconstruct(self, r: Reconstructor) -> None:
        r.call(torch.Tensor.untyped_storage, [self.tensor])

    def describe(self) -> str:
        return f"the storage of {self.tensor.describe()}"


def number_tensor(t: Tracer, value: FloatValue | SizeValue, origin: Source) -> TensorValue:
    """A number of the program as the graph's input."""
    if isinstance(value, SizeValue):
        t.tape.hold_in_64_bits(value.sym.node.expr)
    source = AsTensor(origin)
    made = t.in_graph.floats.get(source)
    if not isinstance(made, TensorValue):
        given = as_tensor(number_now(t, value))
        assert given is not None
        t.objects.kept.append(given)
        made = t.in_graph.floats[source] = TensorValue(*t.tape.input(source, given))
    return made


def note_copy(t: Tracer, base: Any, copy: Any) -> None:
    """Python would go on with an object that the graph has as a copy: writes to either refuse the frame."""
    writes = t.tape.mode.writes
    for each in (base, copy):
        t.in_graph.unshared[id(each)] = base.fake, writes(base.fake), copy.fake, writes(copy.fake)
    t.objects.kept += [base, copy]
