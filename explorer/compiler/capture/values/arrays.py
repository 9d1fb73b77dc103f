"""NumPy's arrays and scalars, computed by torch._numpy inside the graph. Stock: variables/tensor.py, variables/misc.py.

NumPy itself says what a call yields: it is made on stand-ins (copies of the inputs, and what earlier calls made of
them) beside the call under fake tensors. Where the two differ in type, dtype, shape or aliasing the graph breaks.
"""

from __future__ import annotations

import functools
import itertools
import operator
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import _numpy, fx

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import TypeIs, same_number
from explorer.compiler.capture.operator_checks import memory_of, tensors_in
from explorer.compiler.capture.values.base import NotConstant, Reconstructor, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue
from explorer.compiler.capture.values.constant import Constant, FloatValue, SizeValue, is_unbacked
from explorer.compiler.capture.values.iterators import SequenceIterator
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.objects import lacks
from explorer.compiler.capture.values.overrides import PLAIN, is_wrapper
from explorer.compiler.capture.values.sequences import ListValue, SliceValue, TupleValue
from explorer.compiler.capture.values.tensor import READS_VALUE, TensorValue, from_fake, graph_call, has_tensor
from explorer.core.reasons import unsupported
from explorer.ir.capture import AsTensor, Source, as_number, as_tensor, share_no_memory
from explorer.ir.description import is_of
from explorer.ir.graph import set_versions, version
from explorer.ir.index import hint

counterparts: Any = _numpy  # it carries no types

ARRAYS = frozenset("T real imag".split())
PURE = frozenset(
    "can_cast result_type promote_types issubdtype isscalar broadcast_shapes finfo iinfo dtype prod min_scalar_type "
    "iscomplexobj isrealobj ndim size shape common_type mintypecode".split()
)
"""Functions of numpy that are called while tracing where all their arguments are known."""


class ArrayValue(Value):
    """A NumPy array or scalar: a node that yields a tensor, and an example array with the same dtype and sizes."""

    precedence = 4

    def __init__(
        self, node: fx.Node, fake: torch.Tensor, stand_in: Any, source: Source | None = None, given: Any = None
    ) -> None:
        self._node = node
        self.fake = fake
        self.stand_in = stand_in
        self.source = source
        self.given = given
        self._layout_and_storage = _layout_and_storage(fake)

    def identity(self) -> object:
        return self

    @property
    def node(self) -> fx.Node:
        """The node of the tensor whose memory it has. One that was turned since, or given other memory, has another."""
        if self._layout_and_storage != _layout_and_storage(self.fake):
            unsupported(reasons.NUMPY, f"{_type_name(self.stand_in)} {self._node.name}, of which the tensor was turned")
        return self._node

    @property
    def is_scalar(self) -> bool:
        return isinstance(self.stand_in, np.generic)

    @property
    def is_single(self) -> bool:
        """Whether it is one number in each call."""
        return all(type(size) is int and size == 1 for size in self.fake.shape)

    def python_type(self) -> type:
        return type(self.stand_in)

    def known(self, t: Tracer) -> Any:
        """The number that Python needs: of a scalar among the inputs, with a guard on it."""
        if self.source is None or not self.is_scalar:
            unsupported(reasons.ITEM, f"the value of {self.describe()}")
        t.guards.on(self.source, same_number(self.given), "Python computed with the number, or branched on it")
        return self.given

    def operate(self, t: Tracer, function: Callable[..., object], operands: list[Value]) -> Value:
        is_plain = all(o.is_scalar for o in operands if isinstance(o, ArrayValue))
        if is_plain and any(isinstance(o, TensorValue) for o in operands):
            return graph_call(t, "call_function", function, [_as_tensor_operand(t, o) for o in operands], {})
        return call_numpy(t, function, list(operands), {})  # also for a tensor and an array: NumPy computes it

    def operate_in_place(self, t: Tracer, function: Callable[..., object], other: Value) -> Value | None:
        return None if self.is_scalar else self.operate(t, function, [self, other])

    def number(self, t: Tracer) -> object:
        return as_number(self.known(t)) if self.is_scalar else None

    def as_tensor(self, t: Tracer) -> Value | None:
        return None if self.is_scalar else tensor_of_array(t, self)

    def truth(self, t: Tracer) -> bool:
        if self.source is not None and self.is_scalar:
            return bool(self.known(t))
        unsupported(reasons.DATA_DEPENDENT_BRANCH, f"Python needs bool() of {self.describe()}")

    def key(self) -> object:
        unsupported(reasons.ITEM, f"hash of {self.describe()}")

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name == "shape":
            return TupleValue([t.from_python(size) for size in self.fake.shape])
        if name in ("ndim", "itemsize", "dtype"):
            return t.from_python(getattr(self.stand_in, name))
        if name == "size":
            return t.from_python(self.fake.numel())
        if name == "nbytes":
            return t.from_python(self.fake.numel() * self.stand_in.itemsize)
        if name == "strides":
            return TupleValue([t.from_python(step * self.stand_in.itemsize) for step in self.fake.stride()])
        if name in ARRAYS:
            return call_numpy(t, getattr, [self, Constant(name)], {})
        if name == "__class__":
            return ClassValue(self.python_type())
        found = getattr(type(self.stand_in), name, None)
        if found is None:
            t.raise_(AttributeError, f"'{_type_name(self.stand_in)}' object has no attribute '{name}'")
        if not callable(found) or isinstance(found, types.GetSetDescriptorType):
            unsupported(reasons.ATTRIBUTE, f"ndarray.{name}")
        return t.builtin_method(self, name)

    def set_attr(self, t: Tracer, name: str, value: Value | None) -> None:
        unsupported(reasons.ATTRIBUTE, f"setting ndarray.{name}")

    def method(self, t: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in READS_VALUE and name != "__array__":
            if self.source is not None and self.is_scalar:
                return Constant(self.known(t)).method(t, name, args, kwargs)
            if name in ("item", "tolist", "__int__", "__float__", "__index__") and not args:
                return TensorValue(self.node, self.fake).method(t, name, [], {})  # type: ignore[arg-type]
            unsupported(reasons.ITEM, f"{self.describe()}.{name}()")
        if name == "__len__":
            return self.length(t)
        if name == "__iter__":
            return self.iterate(t)
        if name == "__setitem__":
            self.set_item(t, args[0], args[1])
            return Constant(None)
        if name == "nonzero" and self.stand_in.ndim:
            return _nonzero(t, self)
        symbolic = _OPERATORS.get(name)
        if symbolic is not None and not kwargs:
            return call_numpy(t, symbolic, [self, *args], {})
        return call_numpy(t, _method(name), [self, *args], kwargs)

    def get_item(self, t: Tracer, key: Value) -> Value:
        return call_numpy(t, operator.getitem, [self, key], {})

    def set_item(self, t: Tracer, key: Value, value: Value | None) -> None:
        if value is None:
            t.raise_(ValueError, "cannot delete array elements")
        call_numpy(t, operator.setitem, [self, key, value], {})

    def contains(self, t: Tracer, item: Value) -> bool:
        unsupported(reasons.DATA_DEPENDENT_BRANCH, "in an array")

    def length(self, t: Tracer) -> Value:
        if self.fake.dim() == 0:
            self._no_array(t, "__len__", "len() of unsized object")
        return t.from_python(self.fake.shape[0])

    def iterate(self, t: Tracer) -> Value:
        if self.fake.dim() == 0:
            self._no_array(t, "__iter__", "iteration over a 0-d array")
        rows = self.length(t).as_index(t)
        t.check_length(rows)
        return ArrayIterator(self, rows)

    def _no_array(self, t: Tracer, name: str, of_array: str) -> NoReturn:
        """Raise what NumPy does for an array without dimensions, or Python for a scalar, which has no such method."""
        if self.is_scalar:
            lacks(t, self.python_type(), name)
        t.raise_(TypeError, of_array)

    def reconstruct(self, r: Reconstructor) -> None:
        if (copied := r.t.in_graph.unshared.get(_storage(self.fake))) and any(
            _storage(copied[0]) == _storage(fake) for fake in r.t.tape.fakes.values()
        ):
            unsupported(reasons.NUMPY, f"{self.describe()} is a view of an input, which torch._numpy makes a copy")
        r.call_on_output(_as_scalar if self.is_scalar else _as_array_over(self.turned()), self.node)

    def turned(self) -> tuple[int, ...]:
        """The dimensions along which NumPy has the elements in memory in reverse; torch._numpy has copied them."""
        return tuple(dim for dim, step in enumerate(self.stand_in.strides) if step < 0)

    def describe(self) -> str:
        return f"{_type_name(self.stand_in)} {self._node.name}"


class ArrayIterator(SequenceIterator):
    """Reads each row in its turn: it sees what was written before."""

    base: ArrayValue

    def __init__(self, base: ArrayValue, rows: int) -> None:
        super().__init__(base)
        self.rows = rows

    def python_type(self) -> type:
        return type(iter(np.empty(0)))

    @property
    def _ended(self) -> bool:
        return self.index >= self.rows

    def _at(self, t: Tracer, position: int) -> Value:
        return self.base.get_item(t, Constant(position))

    def _nothing(self) -> Value:
        return TupleValue([])


def _layout_and_storage(fake: torch.Tensor) -> tuple[object, ...]:
    return tuple(fake.shape), fake.stride(), _storage(fake)


def _type_name(value: object) -> str:
    return f"numpy.{type(value).__name__}"


def _as_array(tensor: torch.Tensor) -> Any:
    return tensor.detach().resolve_conj().resolve_neg().numpy()


@functools.cache
def _as_array_over(turned: tuple[int, ...]) -> Callable[[torch.Tensor], object]:
    """The array of a tensor; one whose elements lie in reverse along some dimensions."""
    if not turned:
        return _as_array
    return lambda tensor: np.flip(np.flip(_as_array(tensor), turned).copy(order="K"), turned)


def _as_scalar(tensor: torch.Tensor) -> object:
    return _as_array(tensor)[()]


# -------------------------------------------------------------------------------------------------------------- inputs


def is_traced() -> bool:
    """Whether stock's setting allows it."""
    config = sys.modules.get("torch._dynamo.config")
    return config is None or bool(getattr(config, "trace_numpy", True))


def wrap_array(t: Tracer, source: Source, given: object) -> Value:
    """The value of an array or scalar that the frame can reach."""
    if not is_traced():
        unsupported(reasons.NUMPY, "torch._dynamo.config.trace_numpy is off")
    if type(given) is not np.ndarray and not isinstance(given, np.generic):
        unsupported(reasons.NUMPY, f"{source.name} is a {_type_name(given)}, a subclass")
    real = None if isinstance(given, np.ndarray) and not given.flags.writeable else as_tensor(given)
    if real is None:
        kind = given.dtype if given.flags.writeable else "a read-only array"
        unsupported(reasons.NUMPY, f"{source.name}: {kind} with strides {given.strides} has no tensor")
    t.guards.on(source, TypeIs(type(given)), "its class decides what operations on it do")
    made = t.wrap_tensor(AsTensor(source), real)
    assert isinstance(made, TensorValue)
    stand_in = given if isinstance(given, np.generic) else _copy(real)
    return _array(t, made.node, made.fake, stand_in, source, given)


def _copy(tensor: torch.Tensor) -> object:
    """The values in the same layout, in memory of their own."""
    with torch._C._DisableFuncTorch():  # a transform would make tensors of its own
        if not tensor.numel():
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).numpy()
        memory = tensor.as_strided((_reach(tensor.shape, tensor.stride()),), (1,)).clone()
        return memory.as_strided(tensor.shape, tensor.stride()).numpy()


def _made_up(t: Tracer, fake: torch.Tensor) -> torch.Tensor:
    """A real tensor of the layout of a fake one: numbers near 1, and integers that are 0, so that they can be
    indices."""
    sizes, steps = _now(t, fake.shape), _now(t, fake.stride())
    if 0 in sizes:
        return torch.empty_strided(sizes, steps, dtype=fake.dtype)
    numbers = fake.is_floating_point() or fake.is_complex()
    memory = torch.linspace(0.5 if numbers else 0.0, 1.5 if numbers else 0.0, _reach(sizes, steps))
    return memory.to(fake.dtype).as_strided(sizes, steps)


def _reach(sizes: Sequence[int], steps: Sequence[int]) -> int:
    """How many places in memory a tensor lies in, with the gaps between its elements."""
    return 1 + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))


def _now(t: Tracer, sizes: Sequence[Any]) -> list[int]:
    """The sizes for the inputs that were traced, without a guard on them."""
    return [hint(n.node.expr, t.tape.hints) if isinstance(n, torch.SymInt) else n for n in sizes]


def array_of_tensor(t: Tracer, value: Value) -> ArrayValue:
    """tensor.numpy(): the same memory as an array."""
    assert isinstance(value, TensorValue)
    _refuse_in_transform(t)
    t.torch_state.leave_unreported()
    fake = value.fake
    made = (f.code for f in t.stack.frames if f.code.name == "wrap")  # torch.compiler.wrap_numpy makes it
    if fake.requires_grad and not any(code.filename.endswith("external_utils.py") for code in made):
        unsupported(reasons.NUMPY, f"{value.describe()} requires grad")
    if fake.device.type != "cpu" or fake.is_conj() or fake.is_neg() or fake.dtype in _WITHOUT_ARRAY or is_wrapper(fake):
        unsupported(reasons.NUMPY, f"{value.describe()} has no array")
    known = t.in_graph.arrays.get(id(fake))
    if isinstance(known, ArrayValue):
        return _array(t, known.node, fake, np.asarray(known.stand_in).view())
    for source, real, _ in itertools.islice(t.tape.sharing(fake), 1):
        t.effects.call(_as_array, [t.wrap(source, real)], "numpy()")  # since then no one may resize the memory
        t.tape.fixed.add(fake.untyped_storage()._cdata)
    stand_in = _copy(value.given.detach()) if value.given is not None else _made_up(t, fake).numpy()
    return _array(t, value.node, fake, stand_in)


def _refuse_in_transform(t: Tracer) -> None:
    if t.torch_state.levels:
        unsupported(reasons.NUMPY, "inside a transform of torch.func, for which what NumPy yields is no tensor")


def _array(
    t: Tracer, node: fx.Node, fake: torch.Tensor, stand_in: object, source: Source | None = None, given: object = None
) -> ArrayValue:
    """An object of its own: another one may be of the same tensor. Its stand-in tells it when NumPy yields it again,
    unless that is one of the two truth values, which are the same objects everywhere."""
    made = ArrayValue(node, fake, stand_in, source, given)
    t.in_graph.arrays.setdefault(id(fake), made)
    if not isinstance(stand_in, np.bool_):
        t.in_graph.arrays[id(stand_in)] = made
    return made


_WITHOUT_ARRAY = frozenset({torch.bfloat16, torch.complex32})


def as_given_to_torch(t: Tracer, value: ArrayValue) -> ArrayValue:
    """An array that a program gives to torch: one with negative strides it refuses."""
    if value.turned():
        t.python(torch.from_numpy, value.stand_in)
    return value


def tensor_of_array(t: Tracer, value: ArrayValue) -> Value:
    """torch.from_numpy(array): the same memory as a tensor of its own."""
    if isinstance(value.stand_in, np.ndarray) and not value.stand_in.flags.writeable:
        unsupported(reasons.NUMPY, f"{value.describe()} is read-only")
    if torch.is_inference_mode_enabled():
        unsupported(reasons.NUMPY, f"{value.describe()} as an inference tensor")
    held = graph_call(t, "call_method", "detach", [TensorValue(value.node, value.fake)], {})  # type: ignore[arg-type]
    t.tape.fixed.add(_storage(value.fake))
    size = value.fake.shape
    if not any(type(n) is int and n == 0 for n in size):
        return held
    place = [TupleValue([t.from_python(n) for n in size]), TupleValue([t.from_python(0)] * len(size))]
    return graph_call(t, "call_method", "as_strided", [held, *place], {})  # NumPy's strides of nothing are all 0


# --------------------------------------------------------------------------------------------------------------- calls


def is_numpys(function: object) -> bool:
    """Whether the value is a function, ufunc or scalar type of NumPy."""
    if is_of(function, type):
        return issubclass(function, np.generic) and function.__module__ == "numpy"
    if is_of(function, np.ufunc):
        return True
    asks = isinstance(type.__getattribute__(type(function), "__getattribute__"), types.FunctionType)
    return not asks and (getattr(function, "__module__", None) or "").partition(".")[0] == "numpy"


def call_function(t: Tracer, function: object, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a function of NumPy's."""
    name = getattr(function, "__name__", type(function).__name__)
    counterpart = _counterparts().get(id(function))
    if not is_traced():
        unsupported(reasons.NUMPY, "torch._dynamo.config.trace_numpy is off")
    if counterpart is not None or name in PURE:
        folded = _fold(t, function, args, kwargs)
        if folded is not None:
            return folded
    if counterpart is None:
        unsupported(reasons.NUMPY, f"torch._numpy has no {getattr(function, '__module__', '')}.{name}")
    if function in (np.nonzero, np.where) and len(args) == 1 and not kwargs and isinstance(args[0], ArrayValue):
        return args[0].method(t, "nonzero", [], {})
    if function is np.argwhere and isinstance(args[0], ArrayValue) and args[0].stand_in.dtype != bool:
        args = [args[0].operate(t, operator.ne, [args[0], Constant(0)]), *args[1:]]  # a mask, which tells the layout
    items = args[0].unpack(t) if args and isinstance(args[0], (ListValue, TupleValue)) else []
    if function in (np.array, np.asarray) and any(isinstance(item, ArrayValue) for item in items):
        if len(args) > 1 or kwargs or not all(isinstance(item, ArrayValue) for item in items):
            unsupported(reasons.NUMPY, "an array of arrays, whose values torch._numpy would read")
        function = np.stack
    return call_numpy(t, function, args, kwargs)


def _nonzero(t: Tracer, array: ArrayValue) -> Value:
    """The indices of an array's nonzero elements, as NumPy returns them: for each dimension a column of rows."""
    count = array.stand_in.ndim
    rows = tensor_of_array(t, call_function(t, np.argwhere, [array], {}))  # type: ignore[arg-type]
    columns = []
    for dim in range(count):
        column = graph_call(t, "call_method", "select", [rows, Constant(1), Constant(dim)], {})
        apart = graph_call(t, "call_function", torch.stack, [TupleValue([column] * count), Constant(1)], {})
        column = graph_call(t, "call_method", "select", [apart, Constant(1), Constant(0)], {})
        columns.append(array_of_tensor(t, column))
    return TupleValue([*columns])


def _fold(t: Tracer, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """The result of a function of known values, if it is immutable."""
    try:
        plain, named = [_real_value(a) for a in args], {k: _real_value(v) for k, v in kwargs.items()}
    except NotConstant:
        return None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = t.python(function, *plain, **named)
    arrays = any(isinstance(each, np.ndarray) for each in (found if isinstance(found, tuple) else (found,)))
    return None if isinstance(found, (list, dict)) or arrays else t.from_python(found)


def _real_value(value: Value) -> object:
    return value.real() if isinstance(value, Value) else value


@functools.cache
def _counterparts() -> dict[int, Callable[..., object]]:
    """What torch._numpy has for the functions of NumPy, by their ids."""
    found: dict[int, Callable[..., object]] = {}
    for ours, theirs in ((np, counterparts), (np.linalg, counterparts.linalg), (np.fft, counterparts.fft)):
        for name in dir(theirs):
            here, there = getattr(ours, name, None), getattr(theirs, name)
            if callable(here) and callable(there) and is_numpys(here) and name not in ("ndarray", "dtype"):
                found[id(here)] = there
    return found


@functools.cache
def _on_tensors(function: Callable[..., object]) -> Callable[..., object]:
    """The node's target: the counterpart of a function, operator or method, from tensors to tensors."""
    called = _counterparts().get(id(function), function)

    def on_tensors(*args: object, **kwargs: object) -> object:
        given, named = _arrays_of(args), {name: _arrays_of(value) for name, value in kwargs.items()}
        return _tensors_of(called(*given, **named))

    on_tensors.__module__ = "numpy"
    on_tensors.__name__ = on_tensors.__qualname__ = getattr(function, "__name__", "call")
    return on_tensors


def _arrays_of(value: object) -> Any:
    if isinstance(value, torch.Tensor):
        return counterparts.ndarray(value)
    if isinstance(value, (tuple, list)):
        return type(value)(map(_arrays_of, value))
    return value


def _tensors_of(value: object) -> object:
    if isinstance(value, counterparts.ndarray):
        return value.tensor
    if isinstance(value, (tuple, list)):
        return type(value)(map(_tensors_of, value)) if not hasattr(value, "_fields") else tuple(map(_tensors_of, value))
    return value


@functools.cache
def _method(name: str) -> Callable[..., object]:
    def call(array: object, *args: object, **kwargs: object) -> object:
        return getattr(array, name)(*args, **kwargs)

    call.__name__ = name
    return call


_OPERATORS = {
    f"__{name.strip('_')}__": getattr(operator, name)
    for name in "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le eq ne gt ge neg pos "
    "invert abs getitem iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift".split()
}


def call_numpy(t: Tracer, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A node for a call that takes or makes arrays, where torch._numpy does what NumPy does on the stand-ins."""
    _refuse_in_transform(t)
    t.torch_state.leave_unreported()
    given, named = [_argument(t, a) for a in args], {k: _argument(t, v) for k, v in kwargs.items()}
    name = getattr(function, "__name__", str(function))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = function(*(g[2] for g in given), **{k: g[2] for k, g in named.items()})
        except Exception as error:
            unsupported(reasons.OP_RAISED, f"numpy.{name}: {type(error).__name__}: {str(error)[:200]}")
    if not isinstance(expected, _ANSWERS):
        unsupported(reasons.NUMPY, f"numpy.{name} yields a {type(expected).__name__}")
    target = _on_tensors(function)
    before = [
        (fake, version(fake), t.tape.mode.writes(fake))
        for fake in tensors_in([each[1] for each in (*given, *named.values())])
    ]
    result = _run(t, target, given, named)
    if _is_narrower(result, expected):
        given = [_widened(t, g, expected) for g in given]
        result = _run(t, target, given, named)
    fx_args, fx_kwargs = tuple(g[0] for g in given), {k: g[0] for k, g in named.items()}
    if not has_tensor(result) and result is not None:
        if type(result) is not type(expected) or has_array(expected):
            _differs(name, expected, result)
        return t.from_python(result)
    memory = [*_pairs((g[2], g[1]) for g in (*given, *named.values()))]
    if min(_late(t, expected, result), default=2) < 2:
        expected = function(*(_all_true(g[2]) for g in given), **{k: _all_true(g[2]) for k, g in named.items()})
    expected = _of_late_size(t, expected, result)
    _compare(t, name, expected, result)
    if any(t.tape.mode.writes(fake) != count for fake, _, count in before):
        set_versions((fake, at) for fake, at, _ in before)  # NumPy's writes and those of `data` raise no version
        fx_args = tuple(_data(t, each) for each in fx_args)
        fx_kwargs = {k: _data(t, each) for k, each in fx_kwargs.items()}
    node = t.tape.add("call_function", target, fx_args, fx_kwargs, result)
    return _value(t, node, expected, result, memory)


def _data(t: Tracer, given: object) -> object:
    """The argument with `x.data` in place of each tensor."""
    if isinstance(given, (tuple, list)):
        return type(given)(_data(t, each) for each in given)
    if not isinstance(given, fx.Node) or not isinstance(value := t.tape.value(given), torch.Tensor):
        return given
    made = graph_call(t, "call_function", getattr, [TensorValue(given, value), Constant("data")], {})  # type: ignore[arg-type]
    assert isinstance(made, TensorValue)
    return made.node


def _run(
    t: Tracer,
    target: object,
    given: list[tuple[object, object, object]],
    named: dict[str, tuple[object, object, object]],
) -> object:
    fakes, fake_named = tuple(g[1] for g in given), {k: g[1] for k, g in named.items()}
    return t.tape.call("call_function", target, fakes, fake_named)


def _is_narrower(result: object, expected: object) -> bool:
    """Whether torch._numpy computed on integers in PyTorch's default dtype, and NumPy in its own."""
    return (
        isinstance(result, torch.Tensor)
        and isinstance(expected, (np.ndarray, np.generic))
        and result.is_floating_point()
        and expected.dtype == np.float64
        and result.dtype is not torch.float64
    )


def _widened(t: Tracer, given: tuple[Any, Any, Any], expected: object) -> tuple[object, object, object]:
    """Integers as the float64 that NumPy makes of them first."""
    node, fake, stand_in = given
    if not isinstance(fake, torch.Tensor) or fake.is_floating_point() or fake.is_complex():
        return given
    made = graph_call(t, "call_method", "to", [TensorValue(node, fake), Constant(torch.float64)], {})  # type: ignore[arg-type]
    assert isinstance(made, TensorValue)
    return made.node, made.fake, stand_in.astype(np.float64)


_ANSWERS = (np.ndarray, np.generic, torch.Tensor, tuple, list, type(None), bool, int, float)


def has_array(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(has_array, value))
    return isinstance(value, (np.ndarray, np.generic, torch.Tensor))


def _pairs(values: Iterable[tuple[Any, Any]]) -> Iterable[tuple[object, torch.Tensor]]:
    """The stand-ins that have memory of their own, and the fake tensors that they stand for."""
    for stand_in, fake in values:
        if isinstance(stand_in, (tuple, list)):
            yield from _pairs(zip(stand_in, fake, strict=True))
        elif isinstance(stand_in, torch.Tensor):
            yield stand_in.numpy(), fake
        elif isinstance(stand_in, np.ndarray):
            yield stand_in, fake


def _argument(t: Tracer, value: Value) -> tuple[object, object, object]:
    """A value as the graph's argument, as the fake call's, and as NumPy's."""
    if isinstance(value, ArrayValue):
        return value.node, value.fake, value.stand_in
    if isinstance(value, TensorValue):
        if value.cls not in PLAIN:
            unsupported(reasons.NUMPY, f"{value.describe()} is of a class, which NumPy asks what it makes of results")
        array = array_of_tensor(t, value)
        return array.node, array.fake, torch.from_numpy(array.stand_in)
    if isinstance(value, SizeValue):
        return t.tape.size_argument(value.sym), value.sym, value.python_type()(hint(value.sym.node.expr, t.tape.hints))
    if isinstance(value, (TupleValue, ListValue)):
        parts = [_argument(t, item) for item in value.unpack(t)]
        kind = list if isinstance(value, ListValue) else tuple
        return kind(p[0] for p in parts), kind(p[1] for p in parts), kind(p[2] for p in parts)
    if isinstance(value, SliceValue):
        parts = [_argument(t, part) for part in (value.start, value.stop, value.step)]
        return slice(*(p[0] for p in parts)), slice(*(p[1] for p in parts)), slice(*(p[2] for p in parts))
    if isinstance(value, DictValue):
        unsupported(reasons.NUMPY, "a dictionary as an argument")
    try:
        real = value.known(t) if isinstance(value, FloatValue) else value.real()
    except NotConstant:
        unsupported(reasons.NUMPY, f"{value.describe()} as an argument")
    if isinstance(real, np.generic):
        return _scalar_operand(t, real)
    if isinstance(real, np.dtype) or (isinstance(real, type) and (issubclass(real, np.generic) or real in _KINDS)):
        dtype = np.dtype(real).name
        return dtype, dtype, real
    if isinstance(real, torch.dtype) or (callable(real) and not isinstance(real, type)):
        unsupported(reasons.NUMPY, f"{value.describe()} as an argument")
    return real, real, real


_KINDS = (bool, int, float, complex)


def _scalar_operand(t: Tracer, number: Any) -> tuple[object, object, object]:
    """A scalar of NumPy's that is known: a node, since its dtype takes part in promotion."""
    dtype = as_tensor(number)
    if dtype is None:
        unsupported(reasons.NUMPY, f"a number of dtype {number.dtype}")
    made = graph_call(t, "call_function", torch.tensor, [Constant(number.item())], {"dtype": Constant(dtype.dtype)})
    assert isinstance(made, TensorValue)
    return made.node, made.fake, number


def _differs(name: str, expected: object, result: object) -> None:
    unsupported(reasons.NUMPY, f"numpy.{name} yields {_shown(expected)}, and torch._numpy {_shown(result)}")


def _shown(value: object) -> str:
    if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return type(value).__name__


def _compare(t: Tracer, name: str, expected: Any, result: object) -> None:
    """Break the graph where NumPy's answer is of another structure, dtype or shape."""
    if isinstance(result, (tuple, list)):
        if not isinstance(expected, (tuple, list)) or len(expected) != len(result):
            _differs(name, expected, result)
        for one, other in zip(expected, result, strict=True):
            _compare(t, name, one, other)
        return
    if not isinstance(result, torch.Tensor):
        if has_array(expected) or (result is None) != (expected is None):
            _differs(name, expected, result)
        return
    if not has_array(expected) or isinstance(expected, (tuple, list)):
        _differs(name, expected, result)
    dtype = expected.dtype if isinstance(expected, torch.Tensor) else _torch_dtype(expected.dtype)
    if dtype is not result.dtype or list(expected.shape) != _now(t, result.shape):
        _differs(name, expected, result)


def _of_late_size(t: Tracer, expected: Any, result: Any) -> object:
    """NumPy's answer, where its size depends on values: those of stand-ins tell nothing, so that it becomes one of the
    sizes that stand for all."""
    if isinstance(expected, (tuple, list)) and isinstance(result, (tuple, list)) and len(expected) == len(result):
        parts = [_of_late_size(t, one, other) for one, other in zip(expected, result, strict=True)]
        return parts if type(expected) is list else tuple(parts)
    if not (late := _late(t, expected, result)):
        return expected
    sizes = _now(t, result.shape)
    if len(sizes) > 1 and min(late) < 2:
        unsupported(reasons.DYNAMIC_OUTPUT, "an array whose layout does not follow from its size")
    order = sorted(range(len(sizes)), key=lambda dim: -expected.strides[dim])
    made = np.empty([sizes[dim] for dim in order], expected.dtype).transpose(np.argsort(order))
    np.copyto(made, 1 if expected.dtype.kind in "fcb" else 0)  # numbers that divide, and integers that index
    return made


def _all_true(stand_in: object) -> object:
    """A mask that takes everything, which shows more of how the answer is laid out; other stand-ins as they are."""
    if isinstance(stand_in, tuple):
        return tuple(map(_all_true, stand_in))
    return np.ones_like(stand_in) if isinstance(stand_in, np.ndarray) and stand_in.dtype == bool else stand_in


def _late(t: Tracer, expected: object, result: object) -> list[int]:
    """The sizes of a stand-in that depend on values, and are others than those that stand for all."""
    if not isinstance(expected, np.ndarray) or not isinstance(result, torch.Tensor) or expected.ndim != result.dim():
        return []
    sizes = zip(expected.shape, result.shape, _now(t, result.shape), strict=True)
    other: list[tuple[int, Any]] = [(now, size) for now, size, hint in sizes if now != hint]
    is_late = all(is_unbacked(size) and size.node.expr.is_Symbol for _, size in other)
    return [now for now, _ in other] if is_late else []


def _copied_where_numpy_copies(
    t: Tracer, node: fx.Node, expected: object, result: torch.Tensor, memory: list[tuple[Any, torch.Tensor]]
) -> tuple[fx.Node, torch.Tensor]:
    """The result as a copy where NumPy makes one, as a scalar is, and torch._numpy a view; noted where it is the other
    way about."""
    held = expected.numpy() if isinstance(expected, torch.Tensor) else expected
    if not isinstance(held, (np.ndarray, np.generic)) or held.size == 0:
        return node, result
    for before, fake in memory:
        shares = isinstance(held, np.ndarray) and np.may_share_memory(held, before)
        if before.size and shares != (_storage(result) == _storage(fake)):
            if shares:
                writes = t.tape.mode.writes
                t.in_graph.unshared[_storage(result)] = fake, writes(fake), result, writes(result)
                t.objects.kept.append(result)
            else:
                made = graph_call(t, "call_method", "clone", [TensorValue(node, result)], {})  # type: ignore[arg-type]
                assert isinstance(made, TensorValue)
                return made.node, made.fake
    return node, result


def _laid_out(t: Tracer, node: fx.Node, result: torch.Tensor, expected: object) -> tuple[fx.Node, torch.Tensor]:
    """The result with the strides of NumPy's, of which torch._numpy keeps another order in memory, as for overlapping
    inputs. A scalar has none; a view that runs backwards cannot be had."""
    if not isinstance(expected, np.ndarray) or not expected.size:
        return node, result
    wanted = [step // expected.itemsize for step in expected.strides]
    found = zip(expected.shape, wanted, _now(t, result.stride()), strict=True)
    if min(wanted, default=0) < 0 or all(size == 1 or one == other for size, one, other in found):
        return node, result
    order = sorted(range(len(wanted)), key=lambda dim: -wanted[dim])
    made: Value = TensorValue(node, result)  # type: ignore[arg-type]
    back = [order.index(dim) for dim in range(len(order))]
    for name, args in ("permute", [order]), ("contiguous", []), ("permute", [back]):
        made = graph_call(t, "call_method", name, [made, *map(t.from_python, args)], {})
    assert isinstance(made, TensorValue)
    return made.node, made.fake


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def check_copies(t: Tracer, outputs: Sequence[object]) -> None:
    """Refuse the frame where a write would be seen through an object that the graph has as a copy, or where that leaves
    beside what it is a copy of."""
    if not t.in_graph.unshared:
        return
    leaving = memory_of([t.tape.value(node) for node in outputs if isinstance(node, fx.Node)])
    given = memory_of(list(t.tape.fakes.values()))
    for base, before, copy, then in t.in_graph.unshared.values():
        if (t.tape.mode.writes(base), t.tape.mode.writes(copy)) != (before, then):
            unsupported(reasons.NUMPY, "a write through a view that torch._numpy makes a copy")
        if set(memory_of(copy)) & {*leaving} and set(memory_of(base)) & {*leaving, *given}:
            unsupported(reasons.OPERATION, "min() or max() of tensors returns one of them, which the graph copies")


def check_memory(t: Tracer) -> list[Source]:
    """Where arrays were read of which one was written, while several were: they must share no memory. What is drawn
    is new."""
    drawn = [*map(AsTensor, t.in_graph.draws), *t.in_graph.draws]
    known = dict.fromkeys(each for each in t.in_graph.arrays.values() if isinstance(each, ArrayValue))
    arrays = [each for each in known if isinstance(each.given, np.ndarray) and each.source not in drawn]
    if not any(t.tape.mode.writes(array.fake) for array in arrays):
        return []
    given = [(array.source, array.given) for array in arrays]
    for value in t.in_graph.tensors.values():
        real = value.given if isinstance(value, TensorValue) else None
        if real is not None and real.device.type == "cpu" and not isinstance(value.source, AsTensor):
            given.append((value.source, real))
    if len(given) > 1 and not share_no_memory(each for _, each in given):
        unsupported(reasons.NUMPY, "arrays that share memory, one of which is written")
    return [source for source, _ in given if source is not None] if len(given) > 1 else []


@functools.cache
def _torch_dtype(dtype: object) -> torch.dtype | None:
    try:
        return torch.from_numpy(np.empty(0, dtype)).dtype
    except TypeError:
        return None


def _value(t: Tracer, node: fx.Node, expected: Any, result: object, memory: list[tuple[object, torch.Tensor]]) -> Value:
    if isinstance(result, (tuple, list)):
        items: list[Value] = []
        for index, (one, item) in enumerate(zip(expected, result, strict=True)):
            element = t.tape.element(node, index, item) if has_tensor(item) else node
            items.append(_value(t, element, one, item, memory))
        return ListValue(items) if type(expected) is list else TupleValue(items, type(expected))
    if not isinstance(result, torch.Tensor):
        return from_fake(t, node, result) if isinstance(expected, torch.Tensor) else t.from_python(expected)
    if isinstance(expected, torch.Tensor):
        return from_fake(t, *_laid_out(t, node, result, expected.detach().numpy()))
    if isinstance(known := t.in_graph.arrays.get(id(expected)), ArrayValue):
        return known
    node, result = _laid_out(t, *_copied_where_numpy_copies(t, node, expected, result, memory), expected)
    return _array(t, node, result, expected)


def _as_tensor_operand(t: Tracer, operand: Value) -> Value:
    """What PyTorch takes an operand for: a scalar of NumPy's for Python's number."""
    return Constant(operand.number(t)) if isinstance(operand, ArrayValue) else operand
