"""Rules for torch's own functions that are no operators: grad mode, autocast, questions about tensors.

Stock counterpart: variables/torch.py, variables/ctx_manager.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from torch import fx

from explorer.compiler.capture import reasons
from explorer.compiler.capture.autograd_functions import evaluated, guard_reads
from explorer.compiler.capture.calls import inline
from explorer.compiler.capture.guards import Equals
from explorer.compiler.capture.messages import is_checked_later
from explorer.compiler.capture.operator_checks import memory_of
from explorer.compiler.capture.rules import CALLS, breaks, each, existing, positional, table
from explorer.compiler.capture.values.arrays import ArrayValue, as_given_to_torch, tensor_of_array
from explorer.compiler.capture.values.base import Tracer, Value
from explorer.compiler.capture.values.constant import (
    Constant,
    FloatValue,
    NumberValue,
    SizeValue,
    as_computed,
    on_numbers,
)
from explorer.compiler.capture.values.derived import DerivedValue
from explorer.compiler.capture.values.functions import BuiltinMethod, BuiltinValue, CompiledValue, PartialValue
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.modules import AutocastValue
from explorer.compiler.capture.values.objects import ObjectValue
from explorer.compiler.capture.values.overrides import PLAIN, is_wrapper, overridden, overriding
from explorer.compiler.capture.values.sequences import ListValue, SequenceValue, TupleValue
from explorer.compiler.capture.values.tensor import (
    TensorValue,
    graph_call,
    leave_to_autograd,
    narrowest,
    number_tensor,
    placed,
    recorded,
)
from explorer.core.libraries import name_in_messages
from explorer.core.reasons import Unsupported, unsupported
from explorer.ir.capture import Computed, Returned
from explorer.ir.graph import info

# ----------------------------------------------------------------------------------------- what traced code may ask


@CALLS.rule(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling, *existing(torch._utils, "is_compiling"))
def _is_compiling(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """True, unless the frame raises after it reads this."""
    t.asked_compiling = True
    return Constant(t.attempt.says_compiling)


def _always(answer: object, *callables: object) -> None:
    CALLS.rule(*callables)(lambda t, args, kwargs: Constant(answer))


_always(False, torch.compiler.is_exporting, torch.onnx.is_in_onnx_export)
_always(False, *existing(torch.jit, "is_scripting", "is_tracing"))
_always(False, *existing(torch._C, "_is_torch_function_mode_enabled", "_is_tracing"))
_always(None, torch._C._get_tracing_state)  # nothing is traced for TorchScript
_always(0, torch._C._len_torch_dispatch_stack)  # under a mode nothing is compiled
_always(None, torch._C._log_api_usage_once)


def _is_overridden(t: Tracer, values: Sequence[Value]) -> bool:
    enabled = torch._C._is_torch_function_enabled()
    return enabled and bool(overriding(t, values)) or bool(t.torch_state.modes)


@positional(torch.overrides.has_torch_function_unary, torch.overrides.has_torch_function_variadic)
def _has_torch_function_of(t: Tracer, *values: Value) -> Value:
    """The same, of one or more arguments."""
    return Constant(_is_overridden(t, values))


@CALLS.rule(torch.overrides.handle_torch_function)
def _handle_torch_function(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function that replaces a call."""
    function, _, *given = args
    found = overridden(t, "call_function", function.live(t), given, kwargs)
    return found if found is not None else function.call(t, given, kwargs)


@positional(torch.Tensor.__dict__["__torch_function__"].__func__)
def _plain_function(
    t: Tracer, cls: Value, function: Value, types: Value, args: Value | None = None, kwargs: Value | None = None
) -> Value:
    """The __torch_function__ of a tensor subclass that overrides nothing: the function itself, with results of the
    class."""
    wanted = cls.known(t)
    if not all(issubclass(wanted, kind.known(t)) for kind in types.unpack(t)):
        return Constant(NotImplemented)
    last = next(iter(reversed(t.tape.graph.nodes)), None)
    named = kwargs.plain_items(t) if isinstance(kwargs, DictValue) else {}
    with torch._C.DisableTorchFunctionSubclass():
        found = function.call(t, args.unpack(t) if args is not None else [], named)
    of_property = isinstance(function, BuiltinMethod) and isinstance(function.bound, BuiltinValue)
    if of_property and function.bound.function.__name__ in ("_base", "grad", "_grad"):  # type: ignore[attr-defined]
        return found
    return _of_class(t, found, wanted, last)


def _of_class(t: Tracer, value: Value, cls: type, last: fx.Node | None) -> Value:
    """A result as the class's, where it is a tensor; one that a call after `last` made is not made again."""
    if isinstance(value, (TupleValue, ListValue)):
        items = [_of_class(t, item, cls, last) for item in value.unpack(t)]
        return TupleValue(items, value.cls) if isinstance(value, TupleValue) else ListValue(items)
    if not isinstance(value, TensorValue) or issubclass(value.cls, cls):
        return value
    node = value.node.graph._root._prev
    while node not in (last, value.node, value.node.graph._root):
        node = node._prev
    if node is not value.node or node is last or not node.op.startswith("call_") or is_wrapper(value.fake):
        return value.as_class(t, cls)
    value.cls = cls
    return value


@each(*existing(torch.autograd, "_is_checkpoint_valid"))
def _is_checkpoint_valid(ask: Callable[[], bool], t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """False inside of a backward to chosen inputs."""
    return t.wrap(Returned(t.objects.known(ask), "__call__"), ask())


@positional(torch.is_inference_mode_enabled)
def _inference_mode(t: Tracer) -> Value:
    """Guarded where it is asked for: the check of the global state does not see it."""
    source = Returned(t.objects.known(torch), "is_inference_mode_enabled")
    t.guards.on(source, Equals(t.tape.inference), "the program, or what it made, depends on the mode")
    return Constant(torch.is_inference_mode_enabled())


@each(
    torch.get_num_threads, torch.is_autocast_cpu_enabled, torch.get_autocast_gpu_dtype, torch.get_autocast_cpu_dtype,
    torch.cuda.is_available, torch.cuda.device_count, torch.cuda.is_initialized, torch.backends.mps.is_available,
    torch.amp.is_autocast_available, torch.backends.cudnn.is_available,
    torch.distributed.is_available, torch.distributed.is_initialized,
    *existing(torch._C, "_is_autocast_available", "_get_privateuse1_backend_name", "_is_torch_function_enabled",
              "_is_torch_function_all_disabled"),
)  # fmt: skip
def _state(function: Any, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Global state: guarded at entry, and changed by traced code only through the graph."""
    return t.from_python(function(*(each.known(t) for each in args), **{k: v.known(t) for k, v in kwargs.items()}))


@CALLS.rule(torch.autograd.profiler.record_function.__enter__, torch.autograd.profiler.record_function.__exit__)
def _profiled_block(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A profiler sees operators, and compiled code does not run those of the block."""
    return args[0] if len(args) == 1 else Constant(None)


@positional(torch.is_floating_point)
def _is_floating_point(t: Tracer, input: Value) -> Value:
    """Decided by the dtype."""
    if not isinstance(input, TensorValue):
        t.raise_(TypeError, "is_floating_point(): argument 'input' must be Tensor")
    return Constant(input.fake.is_floating_point())


@each(torch.finfo, torch.iinfo, np.finfo, np.iinfo)
def _limits(function: Any, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Limits of a dtype."""
    named = {k: v.known(t) for k, v in kwargs.items()}
    return BuiltinValue(t.python(function, *(each.known(t) for each in args), **named))


@positional(torch.device)
def _device(t: Tracer, *args: Value, **kwargs: Value) -> Value:
    """torch.device(...)."""
    return t.from_python(
        t.python(torch.device, *(each.known(t) for each in args), **{k: v.known(t) for k, v in kwargs.items()})
    )


# ------------------------------------------------------------------------------------------------ switches as nodes


@each(torch.autocast, *existing(torch.cpu.amp, "autocast"), torch.cuda.amp.autocast)
def _autocast(cls: type, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The context manager."""
    made = cls(*(each.known(t) for each in args), **{k: v.known(t) for k, v in kwargs.items()})
    t.from_python(torch.get_autocast_dtype).call(t, [Constant(made.device)], {})  # its default, guarded
    return AutocastValue((made.device, made.fast_dtype, made._enabled, made._cache_enabled))


def _strange(manager: Value) -> NoReturn:
    unsupported(reasons.UNTRACEABLE_CALL, f"a {manager.python_type().__name__}, which is derived from torch.autocast")


@positional(torch.device.__enter__)
def _enter_device(t: Tracer, manager: Constant) -> Value:
    """with torch.device(...): calls that make tensors are on it from here."""
    t.torch_state.enter_device(manager, manager.value)
    return manager


@positional(torch.device.__exit__)
def _leave_device(t: Tracer, manager: Constant, *error: Value) -> Value:
    """The end of the block."""
    if not t.torch_state.devices:
        unsupported(reasons.OPERATION, "leaving a torch.device block that was not entered")
    t.torch_state.leave_device(manager)
    return Constant(None)


@positional(torch.get_default_device)
def _default_device(t: Tracer) -> Value:
    """The innermost block's, with its index."""
    devices = t.torch_state.devices
    return Constant(torch.empty(0, device=devices[-1]).device if devices else torch.device("cpu"))


@positional(torch.set_default_device)
def _set_default_device(t: Tracer, device: Value) -> Value:
    """From here on, and for this thread after the call."""
    known = device.known(t)
    if t.given.devices or t.torch_state.pending:
        unsupported(reasons.UNTRACEABLE_CALL, "torch.set_default_device where another default device is in force")
    t.torch_state.devices[:] = [] if known is None else [torch.device(known)]
    t.effects.call(torch.set_default_device, [Constant(known)], "torch.set_default_device")
    return Constant(None)


# ------------------------------------------------------------------------------------------------ library functions


@CALLS.rule(torch.compile)
def _compile(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Returns a callable that runs the function or module; without one, a decorator."""
    options = dict(kwargs)
    function = args[0] if args else options.pop("model", Constant(None))
    maker = t.from_python(torch.compile)
    if function.is_none():
        return PartialValue(maker, [], DictValue.of((Constant(name), each) for name, each in options.items()))
    return CompiledValue(maker, function, options)


@positional(torch._check)
def _check(t: Tracer, condition: Value, message: Value | None = None) -> Value:
    """A condition on sizes: guarded, and raised when false. One that only the graph knows is checked by the graph."""
    if isinstance(condition, NumberValue):
        return graph_call(t, "call_function", torch._check, [condition], {})
    if not condition.truth(t):
        t.raise_(RuntimeError, "Expected cond to be True, but got False")
    return Constant(None)


@each(torch._check_is_size, *existing(torch, "_check_value", "_check_index", "_check_type"))
def _check_number(function: object, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A check of a number, by the graph where only it knows the number."""
    if not isinstance(args[0], NumberValue):
        return inline(t, t.from_python(function), args, kwargs)
    return graph_call(t, "call_function", function, args[:1], {} if len(args) == 1 else kwargs)


@positional(torch._is_all_true)
def _is_all_true(t: Tracer, value: Value) -> Value:
    """Whether all elements are true. The checks of torch.distributions on their arguments run after the graph."""
    found = graph_call(t, "call_function", torch._is_all_true, [value], {})
    asks = str(t.stack.frames[-1].globals.get("__name__")).startswith("torch.distributions.")
    messages = ("a value of a distribution is not within its constraints",)
    return Constant(True) if asks and is_checked_later(t, found, ValueError, messages) else found


@positional(torch._assert)
def _assert(t: Tracer, condition: Value, message: Value = Constant("")) -> Value:
    """assert condition, message."""
    if isinstance(condition, (TensorValue, NumberValue)):
        known = (message.value,) if isinstance(message, Constant) else None
        if is_checked_later(t, condition, AssertionError, known):
            return Constant(None)
    if not condition.truth(t):
        t.raise_value(AssertionError, [message])
    return Constant(None)


_GENERATORS = (torch.manual_seed, torch.seed, torch.initial_seed, torch.get_rng_state, torch.set_rng_state)
breaks(reasons.UNTRACEABLE_CALL, "the random generator's state", *_GENERATORS)  # it is outside the graph
breaks(reasons.UNTRACEABLE_CALL, "torch.save, which uses a file", torch.save)
breaks(reasons.UNTRACEABLE_CALL, "torch.load, which uses a file", torch.load)


@each(torch.autograd.grad, torch.autograd.backward)
def _autograd(function: object, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Breaks."""
    place = 1 if function is torch.autograd.grad else 5
    wanted = kwargs.get("inputs", *args[place : place + 1] or [Constant(None)])
    leave_to_autograd(t, wanted, "torch.autograd")


@positional(torch.from_numpy)
def _from_numpy(t: Tracer, array: Value) -> Value:
    """The tensor over an array's memory."""
    if not isinstance(array, ArrayValue) or array.is_scalar:
        t.raise_(TypeError, f"expected np.ndarray (got {name_in_messages(array.python_type())})")
    return tensor_of_array(t, as_given_to_torch(t, array))


@each(torch.tensor, torch.as_tensor, torch.asarray)
def _tensor(function: Any, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A node of numbers; torch.tensor of a tensor is a detached copy."""
    data = args[0] if args else kwargs.get("data") or kwargs.get("obj")
    if isinstance(data, ArrayValue):
        as_given_to_torch(t, data)
        if function is torch.tensor or data.is_scalar:
            copied = graph_call(t, "call_method", "clone", [tensor_of_array(t, data)], {})
        else:
            copied = tensor_of_array(t, data)
        named = placed(t, function, kwargs)
        if not named:
            return copied
        if len(args) > 1 or named.keys() - {"dtype", "device"}:
            unsupported(reasons.NUMPY, f"torch.{function.__name__} of an array with {', '.join(named)}")
        return graph_call(t, "call_method", "to", [copied], named)
    if isinstance(data, (ListValue, TupleValue)) and data.items:
        items = data.unpack(t)
        if all(isinstance(item, ArrayValue) and item.is_scalar for item in items):
            parts = [tensor_of_array(t, item) for item in items]  # type: ignore[arg-type]
            data = graph_call(t, "call_function", torch.stack, [ListValue(parts)], {})
            return graph_call(t, "call_method", "to", [data], kwargs) if kwargs else data
    if isinstance(data, SizeValue) and data.python_type() is not float and len(args) == 1:
        wraps = not kwargs.keys() - {"dtype"} and narrowest([*kwargs.values()]) is None  # no number is refused
        origin = None if isinstance(data, NumberValue) else t.tape.source_of(data.sym.node.expr)
        if wraps and origin is not None:
            number = number_tensor(t, data, origin)
            dtype = kwargs.get("dtype", Constant(number.fake.dtype))
            return graph_call(t, "call_method", "to", [number, dtype], {"copy": Constant(True)})
    numbers = list(_numbers(t, data)) if len(args) == 1 else []
    if isinstance(data, SequenceValue) and any(map(_is_numpys, numbers)):
        unsupported(reasons.NUMPY, f"torch.{function.__name__} of numbers of NumPy beside others")
    numbers = [as_computed(t, each) for each in numbers]
    given = kwargs["dtype"].known(t) if "dtype" in kwargs else None
    refuses_none = not t.torch_state.modes and narrowest([*kwargs.values()]) is None
    known: list[type[Value]] = [SizeValue if refuses_none else NumberValue]
    if given is None or given.is_floating_point:
        known.append(FloatValue)
    if any(isinstance(each, tuple(known)) for each in numbers) and not kwargs.keys() - {"dtype", "device"}:
        kinds = {each.python_type() for each in numbers}
        if kinds <= {bool, int, float}:
            plain = torch.get_default_dtype() if float in kinds else torch.int64 if int in kinds else torch.bool
            return _of_numbers(t, args[0], {"dtype": Constant(plain), **kwargs})
    if isinstance(data, Constant) and isinstance(data.value, np.generic):
        kwargs = {"dtype": Constant(torch.as_tensor(data.value).dtype), **kwargs}
        data = Constant(data.value.item())
    elif isinstance(data, DerivedValue):
        data = Constant(data.number(t))
    if isinstance(data, Constant):
        args, kwargs = [data, *args[1:]], {name: each for name, each in kwargs.items() if name not in ("data", "obj")}
    if isinstance(data, ObjectValue) and not isinstance(data, SequenceValue):
        unsupported(reasons.UNTRACEABLE_CALL, f"torch.tensor of a {data.cls.__name__}")
    if isinstance(data, TensorValue) and function is torch.tensor and len(args) + len(kwargs) == 1:
        if t.torch_state.modes and (found := overridden(t, "call_function", function, args, kwargs)) is not None:
            return found
        copied = recorded(t, "call_method", "clone", [recorded(t, "call_method", "detach", [data], {})], {})
        device = placed(t, function, kwargs).get("device")
        return copied if device is None else recorded(t, "call_method", "to", [copied, device], {})
    kwargs = {name: _fixed(t, each) for name, each in kwargs.items()}
    return graph_call(t, "call_function", function, [_fixed(t, each) for each in args], kwargs)


def _fixed(t: Tracer, data: Value) -> Value:
    """Nested lists with the numbers that sizes are now: torch.tensor of symbols takes the lower 32 bits of them."""
    if isinstance(data, SizeValue) and not isinstance(data, NumberValue):
        return Constant(data.known(t))
    if isinstance(data, (ListValue, TupleValue)) and any(isinstance(each, SizeValue) for each in _numbers(t, data)):
        return ListValue([_fixed(t, item) for item in data.unpack(t)])
    return data


def _is_numpys(value: Value) -> bool:
    return isinstance(value, ArrayValue) or isinstance(value, Constant) and isinstance(value.value, np.generic)


def _numbers(t: Tracer, data: Value | None) -> Iterator[Value]:
    """What nested lists hold."""
    if isinstance(data, (ListValue, TupleValue)):
        for item in data.unpack(t):
            yield from _numbers(t, item)
    elif data is not None:
        yield data


def _of_numbers(t: Tracer, data: Value, facts: dict[str, Value]) -> Value:
    """torch.tensor of nested lists with numbers that another call gives otherwise, or only the graph knows, which it
    would ask for."""
    if isinstance(number := as_computed(t, data), FloatValue):
        made = number_tensor(t, number, number.source)
        return graph_call(t, "call_method", "to", [made], {**facts, "copy": Constant(True)})
    if isinstance(data, (ListValue, TupleValue)):
        rows = [_of_numbers(t, item, facts) for item in data.unpack(t)]
        return graph_call(t, "call_function", torch.stack, [ListValue(rows)], {})
    return graph_call(t, "call_function", torch.full, [TupleValue([]), data], facts)


@each(torch.nn.functional.dropout, torch.dropout, torch.ops.aten.dropout, torch.ops.aten.dropout.default)
def _dropout(function: object, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The input itself where nothing is dropped; of an input whose sizes may change torch's rule makes a copy."""
    given = {**dict(zip(("input", "p", "training", "inplace"), args, strict=False)), **kwargs}
    p, training = given.get("p", Constant(0.5)), given.get("training", given.get("train", Constant(True)))
    if isinstance(x := given.get("input"), TensorValue) and x.cls in PLAIN:
        is_training = training.value if isinstance(training, Constant) else None
        is_known = isinstance(p, (Constant, FloatValue, SizeValue)) and isinstance(is_training, bool)
        if is_known and isinstance(share := p.known(t), (int, float)):
            empty = any(isinstance(size, int) and size == 0 for size in x.fake.shape)
            if share == 0 or 0 < share <= 1 and (empty or not is_training):
                if t.tape.inference and (x.fake.is_neg() or x.fake.is_conj()):  # eager's copy lacks these bits
                    x = graph_call(t, "call_method", "resolve_neg", [x], {})
                    return graph_call(t, "call_method", "resolve_conj", [x], {})
                return x
            inplace = given.get("inplace", Constant(False))
            # eager draws nothing
            if share == 1 and is_training and isinstance(inplace, Constant) and not inplace.value:
                none = graph_call(t, "call_method", "new_zeros", [x, TupleValue([])], {})
                return graph_call(t, "call_method", "mul", [x, none], {})
    return graph_call(t, "call_function", function, args, kwargs)


@positional(torch.bernoulli, torch.Tensor.bernoulli)
def _bernoulli(t: Tracer, x: Value, p: Value | None = None, **kwargs: Value) -> Value:
    """With one probability for all it is bernoulli_ of a contiguous tensor, as in eager: drawn in that order."""
    if p is None or isinstance(p, TensorValue) or kwargs or not isinstance(x, TensorValue) or x.cls not in PLAIN:
        return graph_call(t, "call_function", torch.bernoulli, [x] if p is None else [x, p], kwargs)
    made = graph_call(t, "call_function", torch.empty_like, [x], {"memory_format": Constant(torch.contiguous_format)})
    return graph_call(t, "call_method", "bernoulli_", [made, p], {})


_APPLY = inspect.getattr_static(torch.autograd.Function, "apply")


@CALLS.rule(getattr(_APPLY, "__func__", _APPLY))
def _apply(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A torch.autograd.Function is one node. TRACE runs its own forward and backward if all that they read can be
    guarded, else what was evaluated of them."""
    cls = args[0].known(t)
    if torch.is_inference_mode_enabled() and torch.is_grad_enabled():
        unsupported(reasons.CUSTOM_FUNCTION, f"{cls.__name__}, whose results require grad in inference mode too")
    try:
        guard_reads(t, cls, [*args[1:], *kwargs.values()])
    except Unsupported:
        return evaluated(t, cls, args[1:])
    return graph_call(t, "call_function", _applying(cls), args[1:], kwargs)


@functools.cache
def _applying(cls: Any) -> Any:
    """`cls.apply` as a function under the class's name: FX cannot name the bound method in generated code."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        return cls.apply(*args, **kwargs)

    apply.__module__, apply.__name__, apply.__qualname__ = cls.__module__, cls.__name__, cls.__qualname__
    apply.applies = cls  # type: ignore[attr-defined]
    return apply


@dataclass(frozen=True, eq=False)
class Blank:
    """A parameter to be made, of unknown contents: compiled bytecode makes it and passes it to the graph."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool

    def make(self) -> torch.nn.Parameter:
        data = torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=self.device)
        return torch.nn.Parameter(data, self.requires_grad)


@positional(torch.nn.Parameter)
def _parameter(t: Tracer, data: Value = Constant(None), requires_grad: Value = Constant(True)) -> Value:
    """A parameter is an input of the graph, so that gradients reach it. One of another input is made before the graph;
    any other is filled by the graph, and the data given is a view of it from here on."""
    if data.is_none():
        data = graph_call(t, "call_function", torch.empty, [Constant(0)], {})
    if not isinstance(data, TensorValue) or data.python_type() not in PLAIN:
        unsupported(reasons.UNTRACEABLE_CALL, f"making a parameter of {data.describe()}")
    fake = data.fake
    wanted = requires_grad.truth(t)
    if wanted and not (fake.is_floating_point() or fake.is_complex()):
        t.raise_(RuntimeError, "Only Tensors of floating point and complex dtype can require gradients")
    if data.given is not None and data.source is not None and t.tape.is_as_given(fake):
        make = functools.partial(
            torch.nn.Parameter, requires_grad=wanted
        )  # a new partial equals no other, like a parameter
        return t.wrap(Computed(make, (data.source,)), make(data.given))
    if fake.requires_grad:
        unsupported(reasons.UNTRACEABLE_CALL, "making a parameter of a tensor with a gradient")
    memory = memory_of([fake])
    others = (each for each in t.in_graph.tensors.values() if isinstance(each, TensorValue) and each is not data)
    if any(memory_of([other]) == memory for other in (*t.tape.fakes.values(), *(each.fake for each in others))):
        unsupported(reasons.UNTRACEABLE_CALL, "making a parameter of the memory of another tensor")
    if not all(type(n) is int for n in (*fake.shape, *fake.stride())) or not fake.is_contiguous():
        unsupported(reasons.UNTRACEABLE_CALL, "making a parameter of unknown size")
    _inference_mode(t)  # inference mode does not count writes to it
    if torch.is_inference_mode_enabled() != t.tape.inference:
        unsupported(reasons.UNTRACEABLE_CALL, "making a parameter in another inference mode than the function began in")
    blank = Blank(tuple(fake.shape), fake.stride(), fake.dtype, fake.device, wanted)
    made = t.wrap(Returned(t.objects.known(blank, fixed=True), "make"), blank.make())
    view = graph_call(t, "call_method", "detach", [made], {})
    assert isinstance(view, TensorValue)
    if data.node.target is not torch.empty:
        graph_call(t, "call_method", "copy_", [view, graph_call(t, "call_method", "detach", [data], {})], {})
    data.node, data.fake = view.node, view.fake
    t.in_graph.tensors[id(view.fake)] = data
    return made


@positional(torch.nn.Buffer)
def _buffer(t: Tracer, data: Value = Constant(None), *, persistent: Value = Constant(True)) -> Value:
    """A tensor with two attributes."""
    if data.is_none():
        data = graph_call(t, "call_function", torch.empty, [Constant(0)], {})
    made = graph_call(t, "call_method", "detach", [data], {})
    if isinstance(data, TensorValue) and data.fake.requires_grad:
        made = graph_call(t, "call_method", "requires_grad_", [made], {})
    made.set_attr(t, "persistent", persistent)
    made.set_attr(t, "_is_buffer", Constant(True))
    return made


@positional(torch.Tensor)
def _make_tensor(t: Tracer, *args: Value) -> Value:
    """torch.Tensor(data)."""
    if len(args) == 1 and isinstance(args[0], (ListValue, TupleValue)):
        facts: dict[str, Value] = {"dtype": Constant(torch.get_default_dtype())}
        facts["device"] = Constant(torch.device("cpu"))
        return _tensor(torch.tensor, t, [args[0]], facts)
    return _legacy(t, torch.get_default_dtype(), args)


def _legacy(t: Tracer, dtype: torch.dtype, args: Sequence[Value]) -> Value:
    """torch.LongTensor(...) and the like: of sizes a tensor of unknown contents, of a sequence a tensor of that."""
    facts: dict[str, Value] = {"dtype": Constant(dtype), "device": Constant(torch.device("cpu"))}
    first = args[0] if args else Constant(0)
    if isinstance(first, TupleValue) and first.cls is torch.Size and len(args) == 1:
        return graph_call(t, "call_function", torch.empty, [TupleValue(first.unpack(t))], facts)
    if isinstance(first, (ListValue, TupleValue)) and len(args) == 1:
        return _tensor(torch.tensor, t, [first], facts)
    sizes = (first, *args)
    if all(isinstance(size, SizeValue) or isinstance(size, Constant) and type(size.value) is int for size in sizes):
        return graph_call(t, "call_function", torch.empty, [TupleValue(args or [first])], facts)
    unsupported(reasons.UNTRACEABLE_CALL, f"a legacy tensor type of {first.describe()}")


_LEGACY = {
    "Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8,
    "Bool": torch.bool,
}  # fmt: skip


@each(*(getattr(torch, f"{name}Tensor") for name in _LEGACY))
def _legacy_type(cls: type, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A tensor of the type's dtype."""
    dtype = _LEGACY[cls.__name__.removesuffix("Tensor")]
    if kwargs:
        unsupported(reasons.UNTRACEABLE_CALL, f"{cls.__name__} with keywords")
    return _legacy(t, dtype, args)


@each(*existing(torch, "sym_max", "sym_min", "sym_int", "sym_float", "sym_not"))
def _on_sizes(function: Any, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function of sizes."""
    return on_numbers(t, function, *args)


# ------------------------------------------------------------------------------------------------------- optimizers


@positional(torch._C._group_tensors_by_device_and_dtype)
def _grouped(t: Tracer, lists: Value, with_indices: Value = Constant(False)) -> Value:
    """Lists of tensors by the device and the dtype of those in the first, in the order that torch gives the groups."""
    rows = [each.unpack(t) for each in lists.unpack(t)]
    fakes = [[each.fake if isinstance(each, TensorValue) else each.known(t) for each in row] for row in rows]
    made = DictValue()
    for kind, (_, places) in t.python(torch._C._group_tensors_by_device_and_dtype, fakes, True).items():
        parts = ListValue([ListValue([row[place] for place in places]) for row in rows])
        indices = ListValue([Constant(place) for place in places if with_indices.truth(t)])
        made.put(t.from_python(kind), TupleValue([parts, indices]))
    return made


def _steps_as_tensors() -> list[Any]:
    """The optimizers' functions that read the step count as a number, and as a tensor where they are "capturable"."""
    classes = [c for c in vars(torch.optim).values() if inspect.isclass(c)]
    functions = [f for c in classes for f in vars(inspect.getmodule(c)).values() if inspect.isfunction(f)]
    alone = ("_single_tensor_radam", "_single_tensor_asgd")
    return [
        f
        for f in functions
        if f.__name__.startswith(("_multi_tensor_", *alone)) and "capturable" in inspect.signature(f).parameters
    ]


@each(*_steps_as_tensors())
def _capturable(function: object, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The step count stays a tensor: as a number it would be another one in each call."""
    return inline(t, t.from_python(function), args, kwargs | {"capturable": Constant(True)})


@each(
    *(inspect.unwrap(vars(c)["_init_group"])  # stock wraps them once it has compiled
      for c in vars(torch.optim).values() if inspect.isclass(c) and "_init_group" in vars(c))
)  # fmt: skip
def _init_group(function: Any, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What the first step makes is made before the graph, where nothing was computed yet: the first step and the
    later ones are one graph."""
    optimizer, _, *lists = (*args, *kwargs.values())
    real = optimizer.given if isinstance(optimizer, ObjectValue) else None
    nodes = (node for node in t.tape.graph.nodes if node.op != "placeholder")
    if (
        isinstance(real, torch.optim.Optimizer)
        and id(real.state) not in t.objects.values
        and all(isinstance(each, ListValue) for each in lists)
        and not any(isinstance(info(node).value, torch.Tensor) for node in nodes)
        and not t.given.devices
    ):
        for group in real.param_groups:
            t.python(function, real, group, *([] for _ in lists))
    return inline(t, t.from_python(function), args, kwargs)


table({
    # with torch.autocast(...)
    torch.autocast.__enter__: lambda t, manager:
        manager.enter(t) if isinstance(manager, AutocastValue) else _strange(manager),
    # The end of the block.
    torch.autocast.__exit__: lambda t, manager, *error:
        manager.leave(t) if isinstance(manager, AutocastValue) else _strange(manager),
    # Whether something overrides calls with these arguments.
    torch.overrides.has_torch_function: lambda t, values: Constant(_is_overridden(t, values.unpack(t))),
    # Default devices are such modes.
    torch._C._len_torch_function_stack: lambda t: Constant(len(t.torch_state.devices) + len(t.torch_state.modes)),
    torch.is_tensor: lambda t, value: Constant(isinstance(value, TensorValue)),
    torch.typename: lambda t, value: Constant(torch.typename(value.python_type())),
    np.dtype: lambda t, kind: t.from_python(t.python(np.dtype, kind.known(t))),
})  # fmt: skip
