"""Calls: binding arguments, inlining Python functions, torch functions, making instances.

Stock counterpart: torch/_dynamo/symbolic_convert.py and variables/builder.py.
"""

from __future__ import annotations

import collections
import enum
import functools
import importlib
import inspect
import random
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import KeysAre
from explorer.compiler.capture.rules import CALLS, marked
from explorer.compiler.capture.values import objects
from explorer.compiler.capture.values.arrays import call_function as call_numpy
from explorer.compiler.capture.values.arrays import is_numpys
from explorer.compiler.capture.values.base import TORCH_DIR, Cell, NotConstant, Raised, Rule, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue
from explorer.compiler.capture.values.constant import (
    Constant,
    FloatValue,
    NumberValue,
    SizeValue,
    computed,
    is_plain,
    on_numbers,
)
from explorer.compiler.capture.values.derived import DerivedValue, base_of
from explorer.compiler.capture.values.functions import NOTICED, FunctionValue, function_of
from explorer.compiler.capture.values.iterators import GeneratorValue
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.overrides import announces, dispatches
from explorer.compiler.capture.values.sequences import TupleValue
from explorer.compiler.capture.values.tensor import TensorValue, graph_call
from explorer.compiler.capture.wrap import instance_of_class, make_wrapper
from explorer.core.files import folder_of_packages
from explorer.core.libraries import FIXED, FOLDED, PURE, is_in
from explorer.core.origin import origins
from explorer.core.reasons import Unsupported, unsupported
from explorer.core.recorder import note, recorder
from explorer.ir.capture import Computed, Inlined, Returned, Source

GRAPH_MODULES = frozenset("torch.nn.functional torch.functional torch._tensor".split())
"""Python functions of these modules are recorded as they are, not inlined. By name: torch marks most of them as
overridable, but not hardswish, sigmoid or grouped_mm."""
NOT_GRAPH = (torch.Tensor.__len__, torch.Tensor.__iter__, torch.Tensor.__contains__)
"""Those of these functions that return no tensor."""
UNNAMED = (
    torch.tensor, torch.as_tensor, torch.asarray, torch._C._nested.nested_tensor,  # type: ignore[attr-defined]
    torch._C._nn._parse_to,
)  # fmt: skip
"""C functions whose names are not those of ATen operators: they make tensors, or read the arguments of `to`."""
PURE_BUILTINS = frozenset(
    {abs, ascii, bin, chr, divmod, format, hex, oct, ord, pow, repr, round, hash, callable, len, min, max, sum,
     str.maketrans, sys.intern, sys.getrecursionlimit}
)  # fmt: skip


@functools.cache
def optrees() -> dict[Any, types.FunctionType]:
    """torch's Python versions of optree's C++ functions: trees are flattened while tracing."""
    in_python = importlib.import_module(objects.OPTREE)
    mapped = [each for each in vars(in_python).values() if hasattr(each, "__torch_dynamo_polyfill__")]
    return {each.__torch_dynamo_original__: each.__torch_dynamo_polyfill__ for each in mapped}


def _is_installed(function: object) -> bool:
    """Whether a package that was installed has it: the program that uses the package does not ask for its counts, or
    change what it reads."""
    code = getattr(function, "__code__", None)
    return code is not None and bool(folder_of_packages(code.co_filename))


def call_function(t: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    assert isinstance(function, FunctionValue)
    given = function.given
    if given is not None:
        rule = rule_for(t, given)
        if rule is not None:
            return rule(t, args, kwargs)
        found = marked(t, given, args, kwargs)
        if found is not None:
            return found
        if is_graph_function(given):
            return graph_call(t, "call_function", given, args, kwargs)
        if is_numpys(given):
            return call_numpy(t, given, args, kwargs)
        if given.__code__ is _DISPATCH:
            return _dispatched(t, given, args)
        generates = function.code.co_flags & inspect.CO_GENERATOR
        if _is_folded(function.globals) and not (generates or _asks_who_calls(t, given)):
            folded = fold(t, given, args, kwargs)
            if folded is not None:
                return folded
    return inline(t, function, args, kwargs)


THREADS_OWN = frozenset("_getframe _getframemodulename _current_frames _current_exceptions exc_info exception".split())
"""Functions of sys that read the frames of their callers: while tracing, those would be the compiler's."""


def _asks_who_calls(t: Tracer, function: types.FunctionType) -> bool:
    """Whether a library function that is called by the program, at most a few frames away, reads the frames of its
    callers, or names a function that does. Deeper inside a library, the frames that it reads are the library's."""
    if all(_is_folded(frame.globals) for frame in t.stack.frames[-2:]):
        return False
    named = (function.__globals__.get(name) for name in function.__code__.co_names)
    codes = (each.__code__ for each in (function, *named) if isinstance(each, types.FunctionType))
    return any("sys" in code.co_names and not THREADS_OWN.isdisjoint(code.co_names) for code in codes)


def _is_folded(namespace: dict[str, object]) -> bool:
    """Decided by the globals, because functools.wraps gives a function the name and module of another."""
    return is_in(namespace.get("__name__"), FOLDED)


def _of_optree(function: Callable[..., object], t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function of optree as torch has it in Python. The order of keys is a setting, which is guarded."""
    if function.__name__ != "is_dict_insertion_ordered":
        return inline(t, function_of(optrees()[function]), args, kwargs)
    named = {name: value.known(t) for name, value in kwargs.items()}
    asked = functools.partial(function, *(each.known(t) for each in args), **named)
    return t.wrap(Returned(t.objects.known(asked), "__call__"), asked())


_DISPATCH = functools.singledispatch(len).dispatch.__code__
"""The code that looks up an implementation in any registry of functools.singledispatch."""


def _dispatched(t: Tracer, dispatch: types.FunctionType, args: list[Value]) -> Value:
    """The implementation that functools.singledispatch selects for a class; guarded by the registered classes."""
    cells = dict(zip(dispatch.__code__.co_freevars, dispatch.__closure__ or (), strict=True))
    registry = cells["registry"].cell_contents
    why = "which implementation is called depends on them"
    t.guards.on(t.objects.known(registry), KeysAre(tuple(registry)), why)
    return t.from_python(dispatch(args[0].known(t)))


def fold(t: Tracer, function: Callable[..., object], args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """Call the function while tracing, if every argument is known and constant; else None."""
    try:
        plain = [a.lasting(t) for a in args]
        named = {k: v.lasting(t) for k, v in kwargs.items()}
    except NotConstant:
        return None
    found = t.python(function, *plain, **named)
    if isinstance(found, type) and t.python(function, *plain, **named) is not found:
        unsupported(reasons.UNTRACEABLE_CALL, f"{function.__qualname__}, which makes a class in each call")
    return t.from_python(found)


def inline(t: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Evaluate the body in a frame of its own; a generator function yields its generator."""
    assert isinstance(function, FunctionValue)
    flags = function.code.co_flags
    if flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        unsupported(reasons.FRAME_KIND, f"coroutine {function.name}")
    if len(t.stack.frames) > t.config.inline_depth:
        unsupported(reasons.INLINE_DEPTH, function.name)
    if function.code.co_filename.startswith("<frozen importlib"):
        unsupported(reasons.UNTRACEABLE_CALL, function.name)
    bound = bind_arguments(t, function, args, kwargs)
    code = t.stack.decode(function.code)
    if recorder() is not None:
        note(Inlined, t.name, function.name, next(iter(origins()), ""))
    frame = t.stack.make_frame(code, function.globals, dict(bound))
    for name in code.cells:
        frame.cells[name] = Cell(frame.locals.pop(name, None))
    for name, cell in zip(code.frees, function.cells(t), strict=True):
        frame.cells[name] = cell
    if flags & inspect.CO_GENERATOR:
        made = GeneratorValue(frame, (function, list(args), dict(kwargs)), t.generators.lost)
        t.generators.made.add(made)
        return made
    t.resume(frame)
    assert frame.result is not None
    return frame.result


def bind_arguments(t: Tracer, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> dict[str, Value]:
    """Arguments to parameters, as Python does. Raises TypeError in the traced program."""
    code = function.code
    names = code.co_varnames
    count, keyword_only = code.co_argcount, code.co_kwonlyargcount
    bound: dict[str, Value] = dict(zip(names[:count], args, strict=False))
    rest = dict(kwargs)
    for name in (*names[code.co_posonlyargcount : count], *names[count : count + keyword_only]):
        if name in rest:
            if name in bound:
                t.raise_(TypeError, f"{function.name}() got multiple values for argument '{name}'")
            bound[name] = rest.pop(name)
    if any(name not in bound for name in names[:count]):
        defaults = function.defaults(t)
        for name, value in zip(names[count - len(defaults) : count], defaults, strict=True):
            bound.setdefault(name, value)
    if any(name not in bound for name in names[count : count + keyword_only]):
        for name, value in function.kwdefaults(t).items():
            bound.setdefault(name, value)
    after = count + keyword_only
    if code.co_flags & inspect.CO_VARARGS:
        bound[names[after]] = TupleValue(args[count:])
        after += 1
    elif len(args) > count:
        _too_many(t, function, len(args), [n for n in names[count : count + keyword_only] if n in kwargs])
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[names[after]] = t.from_python(rest)
    elif rest:
        if by_place := [name for name in names[: code.co_posonlyargcount] if name in rest]:
            message = "got some positional-only arguments passed as keyword arguments:"
            t.raise_(TypeError, f"{function.name}() {message} '{', '.join(by_place)}'")
        t.raise_(TypeError, f"{function.name}() got an unexpected keyword argument '{next(iter(rest))}'")
    missing = [name for name in names[: count + keyword_only] if name not in bound]
    if missing:
        _missing(t, function, [n for n in missing if n in names[:count]] or missing, missing[0] in names[:count])
    return bound


def _missing(t: Tracer, function: FunctionValue, names: list[str], by_place: bool) -> None:
    shown = [repr(name) for name in names]
    listed = " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])}, and {shown[-1]}"
    kind = f"{'positional' if by_place else 'keyword-only'} argument{'s' * (len(names) > 1)}"
    t.raise_(TypeError, f"{function.name}() missing {len(names)} required {kind}: {listed}")


def _too_many(t: Tracer, function: FunctionValue, given: int, named: list[str]) -> None:
    count, optional = function.code.co_argcount, len(function.defaults(t))
    takes = f"from {count - optional} to {count}" if optional else str(count)
    plural = "s" * (count != 1 or bool(optional))
    were_given = f"{given} was" if given == 1 else f"{given} were"
    if named:
        keywords = f"{len(named)} keyword-only argument{'s' * (len(named) > 1)}"
        were_given = f"{given} positional argument{'s' * (given != 1)} (and {keywords}) were"
    t.raise_(TypeError, f"{function.name}() takes {takes} positional argument{plural} but {were_given} given")


def rule_for(t: Tracer, function: Callable[..., object]) -> Rule | None:
    try:
        rule = CALLS.get(function)
        if rule is None and "optree" in sys.modules and function in optrees():
            return functools.partial(_of_optree, function)
    except TypeError:
        return None
    if rule is None or not t.torch_state.modes:
        return rule
    if is_graph_function(function) or isinstance(function, types.FunctionType) and announces("", function):
        return None
    return functools.partial(_with_function_modes, rule, getattr(function, "__module__", None) or "")


def _with_function_modes(rule: Rule, module: str, t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The result of a rule for a call that modes do not see. Calls inside of it may be ones that they see."""
    before = t.tape.calls
    found = rule(t, args, kwargs)
    if t.tape.calls != before and module not in _REPORTED:
        t.torch_state.leave_unreported()
    return found


_REPORTED = ("builtins", "_operator", "math", "functools", "itertools", "torch.overrides")
"""Rules for functions of these modules record the calls that the function itself makes."""


def call_builtin(t: Tracer, function: Callable[..., object], args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a callable that is not written in Python."""
    rule = rule_for(t, function)
    if rule is not None:
        return rule(t, args, kwargs)
    if is_numpys(function):
        return call_numpy(t, function, args, kwargs)
    if isinstance(function, functools._lru_cache_wrapper):
        return _remembered(t, function, args, kwargs)
    if is_graph_function(function):
        return graph_call(t, "call_function", function, args, kwargs)
    owner = getattr(function, "__objclass__", None)
    if owner is not None and args:
        return _descriptor_call(t, function, owner, args, kwargs)
    bound = getattr(function, "__self__", None)
    if isinstance(bound, type):
        return _class_builtin(t, function, bound, args, kwargs)
    module = getattr(function, "__module__", None) or ""
    if type(bound) is random.Random:
        t.torch_state.leave_unreported()
        return t.call_method(t.from_python(bound), function.__name__, args, kwargs)
    if bound is not None and type(bound).__module__ == "builtins" and not isinstance(bound, types.ModuleType):
        if is_plain(bound):
            return Constant(bound).method(t, function.__name__, args, kwargs)
        unsupported(reasons.UNTRACEABLE_CALL, f"{type(bound).__name__}.{function.__name__}")
    if module in PURE or function in PURE_BUILTINS:
        if module == "math" and not kwargs and any(isinstance(a, (SizeValue, FloatValue)) for a in args):
            if not any(isinstance(a, (NumberValue, TensorValue)) for a in args):
                return computed(t, function, *args)
        if any(isinstance(a, SizeValue) for a in args) and not kwargs:
            return on_numbers(t, function, *args)
        if not any(isinstance(a, TensorValue) for a in args):
            plain = [a.known(t) for a in args]
            found = t.python(function, *plain, **{k: v.known(t) for k, v in kwargs.items()})
            if plain != [a.known(t) for a in args]:
                unsupported(reasons.UNTRACEABLE_CALL, f"{module}.{function.__name__}, which writes its argument")
            return t.from_python(found)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)
    unsupported(reasons.UNTRACEABLE_CALL, f"{module}.{name}" if module not in ("", "builtins") else str(name))


def _remembered(t: Tracer, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The result of a functools cache, which may be older than what its function returns now: it is called itself,
    here and at each call before the graph."""

    def refuse(what: str) -> NoReturn:
        unsupported(reasons.UNTRACEABLE_CALL, f"{function.__qualname__}, a functools cache {what}")

    def effects() -> tuple[object, ...]:
        return t.effects.outside, t.tape.written_inputs(), t.tape.mode.drew

    of_program = not (is_in(function.__module__, FIXED) or _is_installed(function.__wrapped__))
    if of_program and not t.config.fullgraph:
        refuse("of the program: guards that ask it would count in its cache_info()")
    about = function.cache_info()
    if about.currsize == about.maxsize:
        refuse("that is full: a call may evict an older result")
    before = effects()
    try:
        t.from_python(function.__wrapped__).call(t, args, kwargs)
    except Raised:
        refuse("whose function raises")
    if effects() != before:
        refuse("with side effects")
    if (before[0] or before[1]) and of_program:
        refuse("after side effects, which its function may see")
    given = [_asked_with(t, value, refuse) for value in (*args, *kwargs.values())]
    sources = [each for each, _ in given if isinstance(each, Source)]
    ask = functools.partial(_ask, tuple(kwargs))
    source = Computed(ask, (t.objects.known(function), *(each for each, _ in given)))
    if len(sources) == 1:
        source = Computed(functools.partial(ask, function), tuple(each for each, _ in given))
    try:
        kept = ask(function, *(value for _, value in given))
    except Exception:
        refuse("that raises")
    if not is_plain(kept):
        settings = t.tape.grad_enabled, t.tape.inference
        if (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) != settings or t.torch_state.devices:
            refuse("called after the function changed the grad mode or the default device")
        if len(sources) > 1:
            refuse("whose result is neither a number nor a string")
    return t.wrap(source, kept)


def _asked_with(t: Tracer, value: Value, refuse: Callable[[str], NoReturn]) -> tuple[Any, Any]:
    """An argument of a cache: the source that it is read from or, where it is fixed, itself; and the object."""
    source = getattr(value, "source", None)
    if isinstance(value, TensorValue):
        if source is None or value.given is None or value.overlay:
            refuse("called with a tensor made in the compiled function")
        return source, value.given
    try:
        return (found := value.known(t)), found
    except Unsupported:
        pass
    try:
        found = value.real()
    except NotConstant:
        refuse(f"of {value.describe()}")
    return source or t.objects.known(found), found


def _descriptor_call(
    t: Tracer, function: Callable[..., object], owner: type, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """dict.update(x, ...), object.__setattr__(x, ...): the method written in C, even if a subclass overrides it."""
    first, *rest = args
    if isinstance(function, (types.GetSetDescriptorType, types.MemberDescriptorType)):
        unsupported(reasons.UNTRACEABLE_CALL, f"{owner.__name__}.{function.__name__}")
    return first.method(t, function.__name__, rest, kwargs)


def _class_builtin(
    t: Tracer, function: Callable[..., object], cls: type, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """dict.fromkeys, str.maketrans, object.__new__ and their like."""
    if function.__name__ == "__new__":
        return new_instance(t, args, kwargs)
    if function.__name__ == "fromkeys":
        value = args[1] if len(args) > 1 else kwargs.get("value", Constant(None))
        return DictValue.of(((key, value) for key in args[0].unpack(t)), cls)
    if function.__name__ == "__subclasses__":
        return t.wrap(Returned(t.objects.known(cls), "__subclasses__"), cls.__subclasses__())
    if function.__name__ == "mro":
        return t.from_python(list(cls.__mro__))
    if cls in (int, float, str, bytes, object, type):
        return t.from_python(
            t.python(function, *(each.known(t) for each in args), **{k: v.known(t) for k, v in kwargs.items()})
        )
    rule = rule_for(t, inspect.getattr_static(cls, function.__name__, None))
    if rule is not None:
        return rule(t, [t.from_python(cls), *args], kwargs)
    unsupported(reasons.UNTRACEABLE_CALL, f"{cls.__name__}.{function.__name__}")


def instantiate(t: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a class."""
    rule = rule_for(t, cls)
    if rule is not None:
        return rule(t, args, kwargs)
    if is_numpys(cls):
        return call_numpy(t, cls, args, kwargs)
    meta_call = objects.look_up(t, type(cls), "__call__")
    if issubclass(cls, enum.Enum):
        if len(args) != 1 or kwargs:
            unsupported(reasons.UNTRACEABLE_CALL, f"making an enumeration by {cls.__name__}()")
        return t.from_python(t.python(cls, *(each.known(t) for each in args)))
    if not isinstance(meta_call, types.WrapperDescriptorType) and not issubclass(cls, torch.autograd.Function):
        return objects.bound_attribute(t, ClassValue(cls), type(cls), meta_call, "__call__").call(t, args, kwargs)
    return make(t, cls, args, kwargs)


def make(t: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """type.__call__: __new__, then __init__."""
    if cls.__flags__ & _ABSTRACT:
        t.python(object.__new__, cls)
    if issubclass(cls, (torch.jit.ScriptModule, torch.nn.modules.lazy.LazyModuleMixin)):
        unsupported(reasons.UNTRACEABLE_CALL, f"making a {cls.__name__}")
    if issubclass(cls, torch.Tensor) and dispatches(cls):
        return make_wrapper(t, cls, args, kwargs)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _namedtuple(t, cls, args, kwargs)
    new = objects.look_up(t, cls, "__new__")
    new = getattr(new, "__func__", new)
    if isinstance(new, types.FunctionType):
        made = t.from_python(new).call(t, [ClassValue(cls), *args], kwargs)
        if not issubclass(made.python_type(), cls):
            return made
    else:
        made = new_instance(t, [ClassValue(cls), *args], kwargs)
    init = objects.look_up(t, cls, "__init__")
    if isinstance(made, (objects.ObjectValue, TensorValue)):
        if isinstance(init, types.FunctionType):
            function = objects.class_attribute(t, objects.owner_of(cls, "__init__"), "__init__", init)
            objects.checked(t, cls, "__init__", function.call(t, [made, *args], kwargs))
        elif init is not object.__init__ and not isinstance(made, TensorValue):
            made.method(t, "__init__", args, kwargs)
        elif (args or kwargs) and new is object.__new__:
            t.raise_(TypeError, f"{cls.__name__}() takes no arguments")
    return made


def new_instance(t: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """object.__new__, dict.__new__ and so on."""
    kind, *rest = args
    if not isinstance(kind, ClassValue):
        unsupported(reasons.UNTRACEABLE_CALL, "__new__ of something that is not a class")
    cls = kind.cls
    if isinstance(objects.look_up(t, cls, "__del__"), types.FunctionType):
        t.tape.refuse_frame(f"a {cls.__name__} is made, whose __del__ runs where the program drops it")
    if issubclass(cls, weakref.ref) and rest and rest[0].source is None:
        t.tape.refuse_frame(NOTICED)
    if cls.__module__ == "torch.return_types" and len(rest) == 1:
        return TupleValue(rest[0].unpack(t), cls)
    if issubclass(cls, torch.Tensor):
        is_given = bool(rest) and isinstance(rest[0], TensorValue)
        given = rest[0] if is_given else ClassValue(torch.Tensor).call(t, rest, {})
        return given.method(t, "as_subclass", [kind], {})
    base = objects.maker_of(cls).__self__
    if base not in _MODELED and not issubclass(base, (BaseException, torch._C._FunctionBase)):
        is_value = cls.__eq__ is not object.__eq__ and not issubclass(cls, (torch.Stream, torch.Event))
        if base is cls and cls.__module__.startswith("torch.") and is_value:  # others, such as generators, have state
            folded = fold(t, cls, rest, kwargs)
            if folded is not None:
                return folded
        unsupported(reasons.UNTRACEABLE_CALL, f"making a {cls.__name__}, whose base {base.__name__} is written in C")
    if issubclass(cls, (OSError, BaseExceptionGroup)):
        cls = objects.class_made(t, cls, rest)
    if issubclass(cls, tuple):
        return TupleValue(rest[0].unpack(t) if rest else [], cls)
    if issubclass(cls, frozenset):
        made = instance_of_class(t, cls)
        made.method(t, "update", rest, {})
        return made
    if (plain := base_of(cls)) is not None:
        derived = DerivedValue(cls, ClassValue(plain).call(t, rest, kwargs).known(t))
        derived.asked = t
        return derived
    made = instance_of_class(t, cls)
    if isinstance(made, objects.ExceptionValue):
        made.args = rest
    return made


def _namedtuple(t: Tracer, cls: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    new = objects.look_up(t, cls, "__new__")
    generated = cls.__mro__[cls.__mro__.index(tuple) - 1] if tuple in cls.__mro__ else cls
    if new is not generated.__dict__.get("__new__"):
        return t.from_python(getattr(new, "__func__", new)).call(t, [ClassValue(cls), *args], kwargs)
    given = dict(zip(cls._fields, args, strict=False)) | kwargs
    for name in cls._fields:
        if name not in given:
            if name not in cls._field_defaults:
                t.raise_(TypeError, f"{cls.__name__}.__new__() missing required argument: '{name}'")
            given[name] = t.from_python(cls._field_defaults[name])
    if len(args) > len(cls._fields) or given.keys() - set(cls._fields):
        t.raise_(TypeError, f"{cls.__name__}.__new__() got an unexpected argument")
    return TupleValue([given[name] for name in cls._fields], cls)


_ABSTRACT = 1 << 20
"""The flag of a class with abstract methods (Py_TPFLAGS_IS_ABSTRACT)."""
_MODELED = (
    object, dict, list, set, frozenset, tuple, int, float, str, bytes, complex, collections.OrderedDict,
    collections.defaultdict, collections.deque, types.SimpleNamespace,
)  # fmt: skip
"""The classes written in C whose instances, and those of classes derived from them, have values of their own."""


@functools.cache
def _torch_builtins() -> frozenset[int]:
    """Ids of the graph functions written in C: those named after an operator of ATen, and those of `UNNAMED`."""
    operators = {name.partition("::")[2].partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    parts = ("_VariableFunctions", "_nn", "_special", "_fft", "_linalg", "_nested")
    spaces = (torch, *(getattr(torch._C, name) for name in parts))
    members = (getattr(space, name) for space in spaces for name in dir(space) if name in operators)
    found = (each for each in members if isinstance(each, types.BuiltinFunctionType))
    return frozenset(map(id, (*found, *UNNAMED)))


def _may_give_tensors(function: types.FunctionType) -> bool:
    """Whether its declared result may contain tensors."""
    declared = str(function.__annotations__.get("return", "Any"))
    return "Tensor" in declared or "Any" in declared


def is_graph_function(function: object) -> bool:
    """Whether a call of it is one node of the graph."""
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    if isinstance(function, types.BuiltinFunctionType):
        return id(function) in _torch_builtins()
    if isinstance(function, types.FunctionType):
        return (
            (function.__module__ or "") in GRAPH_MODULES
            and function not in NOT_GRAPH
            and _may_give_tensors(function)
            and function.__code__.co_filename.startswith(TORCH_DIR)
        )
    return False


def _ask(names: tuple[str, ...], cache: Callable[..., object], *given: object) -> object:
    """The cache of a function, the last arguments by name."""
    count = len(given) - len(names)
    return cache(*given[:count], **dict(zip(names, given[count:], strict=True)))
