"""torch.autograd.Functions: their methods evaluated like other code, forward and backward to a graph each, or run
inside one node of the graph, with what they read of the program guarded. Hooks of tensors that traced code registers.
"""

from __future__ import annotations

import builtins
import dis
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import torch
from torch import fx

from explorer.compiler.capture import reasons
from explorer.compiler.capture.higher_order import Body, body, modules, replaced, storage
from explorer.compiler.capture.values.base import HostValue, Reconstructor, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue, PyModuleValue, namespace
from explorer.compiler.capture.values.constant import Constant, FloatValue, SizeValue, is_plain
from explorer.compiler.capture.values.functions import BuiltinValue, FunctionValue
from explorer.compiler.capture.values.objects import ObjectValue, look_up
from explorer.compiler.capture.values.overrides import overrides_torch
from explorer.compiler.capture.values.sequences import ListValue, TupleValue
from explorer.compiler.capture.values.tensor import OF_ONE_TENSOR, TensorValue, from_fake
from explorer.core.libraries import EFFECTS, FIXED, STEADY, is_in
from explorer.core.reasons import unsupported
from explorer.ir.graph import version


class FunctionContext(ObjectValue):
    """The `ctx` that forward fills and backward reads."""

    def __init__(self, needs: tuple[bool, ...], held: dict[str, Value] | None = None) -> None:
        super().__init__(torch.autograd.function.FunctionCtx)
        self.needs = needs
        self.overlay = held or {}

    def get_attr(self, t: Tracer, name: str) -> Value:
        match name:
            case "saved_tensors" | "saved_variables":
                return self.overlay.get("to_save", TupleValue([]))
            case "needs_input_grad":
                return TupleValue(map(Constant, self.needs))
        return super().get_attr(t, name)


def evaluated(t: Tracer, cls: type, args: list[Value]) -> Value:
    """cls.apply(*args): the forward's nodes where nothing is differentiated, else a call of a function made of both."""
    if t.tape.branches or t.torch_state.levels:
        unsupported(reasons.CUSTOM_FUNCTION, f"{cls.__name__} inside of another function of the graph")
    tensors = [arg for arg in args if isinstance(arg, TensorValue)]
    needs = tuple(isinstance(arg, TensorValue) and arg.fake.requires_grad for arg in args)
    context = FunctionContext(needs)
    if not torch.is_grad_enabled() or not any(needs):
        return _forward(t, cls, context, args)
    for tensor in tensors:
        if overrides_torch(t, tensor.cls):  # the bodies take plain tensors
            _refuse(cls, "is given a tensor of", tensor.cls.__name__)
    outputs: list[Value] = []

    def forward(given: list[Value], named: dict[str, Value]) -> Value:
        rest = iter(_of_classes(given, tensors))
        found = _forward(t, cls, context, [next(rest) if isinstance(arg, TensorValue) else arg for arg in args])
        outputs.append(found)
        results = found.unpack(t) if isinstance(found, TupleValue) else [found]
        kept: list[TensorValue] = []
        _context_values(t, context, lambda tensor: _noted(kept, tensor))
        return TupleValue([*_tensors(results), *kept])

    with torch.no_grad():
        first = body(t, HostValue(forward), [tensor.fake for tensor in tensors], list, aliases=True, effects=True)
    returned = outputs[0]
    results = returned.unpack(t) if isinstance(returned, TupleValue) else [returned]
    count = len(_tensors(results))
    made = first.returned.unpack(t)[:count]
    lent = {storage(tensor.fake) for tensor in tensors} | {storage(t.tape.value(node)) for node in first.branch.lifted}
    if any(storage(value.fake) in lent for value in made) or "dirty_tensors" in context.overlay:  # type: ignore[attr-defined]
        unsupported(reasons.CUSTOM_FUNCTION, f"{cls.__name__} returns or writes what it is given")
    materializes = context.overlay.get("materialize_grads")
    if isinstance(materializes, Constant) and materializes.value is False and count > 1:
        unsupported(reasons.CUSTOM_FUNCTION, f"{cls.__name__} takes None for missing gradients")
    second, places = _backward(t, cls, context, args, results, first)
    marked = [value for value in context.overlay.get("non_differentiable", TupleValue([])).unpack(t)]
    unmarked = tuple(not any(value is each for each in marked) for value in made)
    function, lifted = _function(t, cls, first, second, len(tensors), count, places, unmarked)
    nodes = (*(tensor.node for tensor in tensors), *lifted)
    values = [t.tape.value(node) for node in nodes]
    found = t.tape.call("call_function", function, tuple(values), {})
    rest = iter(from_fake(t, t.tape.add("call_function", function, nodes, {}, found), found).unpack(t))
    whole = [next(rest) if isinstance(value, TensorValue) else value for value in results]
    return TupleValue(whole) if isinstance(returned, TupleValue) else whole[0]


def _forward(t: Tracer, cls: Any, context: FunctionContext, args: list[Value]) -> Value:
    with torch.no_grad():
        if cls.setup_context is torch.autograd.Function.setup_context:
            return t.get_attr(ClassValue(cls), "forward").call(t, [context, *args], {})
        found = t.get_attr(ClassValue(cls), "forward").call(t, args, {})
        t.get_attr(ClassValue(cls), "setup_context").call(t, [context, TupleValue(args), found], {})
        return found


def _backward(
    t: Tracer, cls: type, context: FunctionContext, args: list[Value], results: list[Value], first: Body
) -> tuple[Body, list[int | None]]:
    """The body of backward, on gradients and what forward kept; and for each tensor argument which of its outputs is
    the gradient."""
    count = len(_tensors(results))
    kept = first.returned.unpack(t)[count:]
    like = [value.fake.detach() for value in first.returned.unpack(t)]  # type: ignore[attr-defined]
    places: list[int | None] = []

    def backward(given: list[Value], named: dict[str, Value]) -> Value:
        new = {id(old): value for old, value in zip(kept, _of_classes(given[count:], kept), strict=True)}
        held = _context_values(t, context, lambda tensor: new[id(tensor)])
        known = FunctionContext(context.needs, dict(zip(context.overlay, held, strict=True)))
        rest = iter(given)
        gradients = [next(rest) if isinstance(value, TensorValue) else Constant(None) for value in results]
        found = t.get_attr(ClassValue(cls), "backward").call(t, [known, *gradients], {})
        grads = found.unpack(t) if isinstance(found, TupleValue) else [found]
        if len(grads) < len(args):
            unsupported(reasons.CUSTOM_FUNCTION, f"{cls.__name__}.backward returns too few gradients")
        mine = [grad for arg, grad in zip(args, grads, strict=False) if isinstance(arg, TensorValue)]
        present = [grad for grad in mine if isinstance(grad, TensorValue)]
        places.extend(present.index(grad) if isinstance(grad, TensorValue) else None for grad in mine)
        return TupleValue(present)

    with torch.no_grad():
        return body(t, HostValue(backward), like, list, aliases=True), places


def _function(
    t: Tracer, cls: type, first: Body, second: Body, count: int, results: int, places: Sequence[int | None],
    differentiable: tuple[bool, ...],
) -> tuple[Callable[..., Any], list[fx.Node]]:  # fmt: skip
    """A function of the tensor arguments and of all that the bodies use besides."""
    lifted, nodes = modules(t, [first, second])
    forward, backward = (t.tape.modules.pop(str(node.target)) for node in nodes)
    for node in nodes:
        node.graph.erase_node(node)

    class Generated(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *operands: Any) -> Any:
            found = forward(*operands)
            ctx.save_for_backward(*found[results:])
            ctx.operands = operands[count:]
            ctx.mark_non_differentiable(*(x for x, is_it in zip(found, differentiable, strict=False) if not is_it))
            return tuple(found[:results])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            found = backward(*grads, *ctx.saved_tensors, *ctx.operands)
            own = (None if place is None else found[place] for place in places)
            return (*own, *(None for _ in ctx.operands))

    Generated.__name__ = Generated.__qualname__ = cls.__name__

    def apply(*operands: object) -> Any:
        return Generated.apply(*operands)  # type: ignore[no-untyped-call]

    apply.__module__, apply.__name__, apply.__qualname__ = cls.__module__, cls.__name__, cls.__qualname__
    return apply, lifted


def _tensors(values: Sequence[Value]) -> list[TensorValue]:
    return [value for value in values if isinstance(value, TensorValue)]


def _of_classes(inputs: list[Value], given: Sequence[Value]) -> list[Value]:
    """The inputs of a body, of the classes of what it is given: a Parameter is one in forward too, and once saved."""
    for value, outer in zip(inputs, given, strict=True):
        if isinstance(value, TensorValue):
            value.cls = outer.python_type()
    return inputs


def _noted(found: list[TensorValue], tensor: TensorValue) -> Value:
    if not any(tensor is each for each in found):
        found.append(tensor)
    return tensor


def _context_values(t: Tracer, context: FunctionContext, new: Callable[[TensorValue], Value]) -> list[Value]:
    """The attributes of the context, with other tensors in them."""

    def other(value: Value) -> Value:
        return new(value) if isinstance(value, TensorValue) else value

    return [replaced(t, value, other, given=False) for value in context.overlay.values()]


_UNREAD = ("_backward_cls", "_autograd_function_id", "symbolic")
"""Attributes that no run of the function reads: `symbolic` is for the ONNX exporter."""
_EFFECTS = EFFECTS | frozenset("print globals locals vars setattr delattr getattr next id type".split())
"""`type`, too: tracing gives methods that it runs other tensors than the program's."""


def guard_reads(t: Tracer, cls: type, args: list[Value]) -> None:
    """Guard all that the methods of `cls` read. Breaks the graph where they read or change anything mutable."""
    leaves_lists = is_in(cls.__module__, STEADY)
    for arg in args:
        if isinstance(arg, ListValue) and leaves_lists:
            guard_reads(t, cls, arg.unpack(t))
        elif not isinstance(arg, TensorValue):
            _check(t, arg, "an argument", set())
        elif overrides_torch(t, arg.cls):
            _refuse(cls, "is given a tensor of", arg.cls.__name__)
    _class(t, cls, set())


def _class(t: Tracer, cls: type, seen: set[int]) -> None:
    if id(cls) in seen or issubclass(cls, BaseException):
        return
    seen.add(id(cls))
    if not issubclass(cls, torch.autograd.Function):
        _refuse(cls, "uses a class", cls.__name__)
    own = (base for base in cls.__mro__ if not is_in(base.__module__, FIXED))
    for name in dict.fromkeys(name for base in own for name in vars(base)):
        if name.startswith("__") or name in _UNREAD:
            continue
        if any((id(base), name) in t.effects.classes for base in cls.__mro__):
            _refuse(cls, "reads an attribute that was just set", name)
        found = look_up(t, cls, name)
        method = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
        value = t.from_python(method) if isinstance(method, types.FunctionType) else t.get_attr(ClassValue(cls), name)
        _check(t, value, f"{cls.__name__}.{name}", seen)


def _check(t: Tracer, value: Value, name: str, seen: set[int]) -> None:
    if isinstance(value, FunctionValue):
        if value.given is None:
            _refuse(value, "uses a function made in the graph", name)
        _check_function(t, value, seen)
    elif isinstance(value, ClassValue):
        if not _is_trusted(value.cls):
            _class(t, value.cls, seen)
    elif isinstance(value, (PyModuleValue, BuiltinValue)):
        if not _is_trusted(value.live(t)):
            _refuse(value, "reads", name)
    elif isinstance(value, TupleValue):
        for item in value.unpack(t):
            if not isinstance(item, TensorValue) or name != "an argument":
                _check(t, item, name, seen)
    elif name != "an argument" or not isinstance(value, (SizeValue, FloatValue)):
        if isinstance(value, TensorValue):
            _refuse(value, "reads", name)
        held = value.known(t)
        if not is_plain(held) and not (callable(held) and _is_trusted(held)):
            _refuse(value, "reads", name)


def _check_function(t: Tracer, function: FunctionValue, seen: set[int]) -> None:
    if id(function.given) in seen:
        return
    seen.add(id(function.given))
    for name, cell in zip(function.code.co_freevars, function.cells(t), strict=True):
        held = cell.load(t)
        if held is None or cell.changed or cell.given is None:
            _refuse(function, "reads a variable that was just set", name)
        if not (isinstance(held, ClassValue) and id(held.cls) in seen):
            _check(t, held, name, seen)
    if is_in(function.globals.get("__name__"), STEADY):
        return
    for default in (*function.defaults(t), *function.kwdefaults(t).values()):
        _check(t, default, "a default", seen)
    space = namespace(t, function.globals)
    for code in _bodies(function.code):
        before: dis.Instruction | None = None
        for step in dis.get_instructions(code):
            name = str(step.argval)
            if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME", "DELETE_ATTR"):
                _refuse(function, "changes or imports", name)
            if step.opname == "STORE_DEREF" and name in function.code.co_freevars:
                _refuse(function, "changes", name)
            if step.opname == "STORE_ATTR":
                is_context = before is not None and before.opname.startswith("LOAD_FAST")
                if not is_context or before is None or before.argval != next(iter(code.co_varnames), None):
                    _refuse(function, "sets the attribute", name)
            if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and name in OF_ONE_TENSOR:
                _refuse(function, "may read of a tensor", name)
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                if (id(function.globals), name) in t.effects.globals:
                    _refuse(function, "reads a global that was just set", name)
                value = space.read(t, name)
                if value is not None:
                    _check(t, value, name, seen)
                elif not hasattr(builtins, name) or name in _EFFECTS:
                    _refuse(function, "calls", name)
            before = step


def _bodies(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _bodies(constant)


def _is_trusted(held: object) -> bool:
    if isinstance(held, types.ModuleType):
        return is_in(held.__name__, STEADY)
    if getattr(held, "__name__", None) in _EFFECTS:
        return False
    module = getattr(held, "__module__", None) or getattr(type(held), "__module__", None)
    return is_in(module, FIXED)


def _refuse(where: object, does: str, name: str) -> NoReturn:
    owner = getattr(where, "__name__", None) or getattr(where, "name", "a torch.autograd.Function")
    unsupported(reasons.CUSTOM_FUNCTION, f"{owner} {does} {name}")


# ---------------------------------------------------------------------------------------------------------------- hooks
#
# One of an input is registered for real after the graph: gradients reach it when the graph's backward has run. A write
# gives the input another place in autograd's graph, so a graph ends between the two. One of a tensor that the graph
# makes is a graph of its own, which the backward contains. Stock counterpart: call_method of variables/tensor.py.


class HandleValue(ObjectValue):
    """What registering a hook of an input returns; making it registers the hook."""

    def __init__(self, tensor: TensorValue, name: str, hook: Value) -> None:
        super().__init__(torch.utils.hooks.RemovableHandle)
        self.tensor = tensor
        self.name = name
        self.hook = hook

    def get_attr(self, t: Tracer, name: str) -> Value:
        if name == "remove":
            return HostValue(lambda args, kwargs: self._remove(t))
        unsupported(reasons.AUTOGRAD_CALL, f"{name} of the handle of a hook")

    def _remove(self, t: Tracer) -> Value:
        if not t.effects.unmake(self):
            unsupported(reasons.AUTOGRAD_CALL, "removing a hook")
        return Constant(None)

    def reconstruct(self, r: Reconstructor) -> None:
        r.method(self.tensor, self.name, [self.hook])


def register_hook(t: Tracer, tensor: Value, name: str, hook: Value) -> Value:
    assert isinstance(tensor, TensorValue)
    if not tensor.fake.requires_grad:
        t.raise_(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient")
    if name != "register_hook" and not tensor.get_attr(t, "is_leaf").truth(t):
        t.raise_(RuntimeError, "post accumulate grad hooks cannot be registered on non-leaf tensors")
    if tensor.source is not None:
        if not t.tape.is_as_given(tensor.fake):
            unsupported(reasons.AUTOGRAD_CALL, f"{tensor.describe()}.{name}() after it was written")
        t.tape.hooked[tensor.fake] = version(tensor.fake)
        made = HandleValue(tensor, name, hook)
        t.effects.make(made, f"{tensor.source.name}.{name}")
        return made
    if name != "register_hook" or t.tape.branches:
        unsupported(reasons.AUTOGRAD_CALL, f"{tensor.describe()}.{name}()")
    replaces: list[bool] = []

    def answer(given: list[Value], named: dict[str, Value]) -> Value:
        found = hook.call(t, given, {})
        replaces.append(isinstance(found, TensorValue))
        return TupleValue([found] if isinstance(found, TensorValue) else [])

    with torch.no_grad():
        one = body(t, HostValue(answer), [tensor.fake.detach()], list, aliases=True)
    if replaces[0]:
        lifted, (node,) = modules(t, [one])
        function = _attaching(t.tape.modules.pop(str(node.target)))
        node.graph.erase_node(node)
        nodes: tuple[fx.Node, ...] = (tensor.node, *lifted)
        t.tape.call("call_function", function, tuple(map(t.tape.value, nodes)), {})
        t.tape.add("call_function", function, nodes, {}, None)
    return InnerHandle(torch.utils.hooks.RemovableHandle)


class InnerHandle(ObjectValue):
    """What registering a hook of a tensor of the graph returns."""

    def get_attr(self, t: Tracer, name: str) -> Value:
        unsupported(reasons.AUTOGRAD_CALL, f"{name} of the handle of a hook in the graph")

    def reconstruct(self, r: Reconstructor) -> None:
        unsupported(reasons.AUTOGRAD_CALL, "the handle of a hook in the graph")


def _attaching(module: Callable[..., Any]) -> Callable[..., None]:
    def register_hook(tensor: torch.Tensor, *operands: Any) -> None:
        tensor.register_hook(lambda grad: module(grad, *operands)[0])

    return register_hook
