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
from pathlib import Path
from typing import Any, NoReturn

import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import Has, IsObject, KeysAre
from explorer.compiler.capture.rules import CALLS, marked
from explorer.compiler.capture.values.arrays import call_function as call_numpy
from explorer.compiler.capture.values.arrays import is_numpys
from explorer.compiler.capture.values.base import TORCH_DIR, Cell, NotConstant, Raised, Rule, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue
from explorer.compiler.capture.values.constant import Constant, FloatValue, NumberValue, SizeValue, is_plain
from explorer.compiler.capture.values.functions import NOTICED, FunctionValue
from explorer.compiler.capture.values.iterators import GeneratorValue
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.objects import (
    MISSING,
    OPTREE,
    ExceptionValue,
    ObjectValue,
    bound_attribute,
    checked,
    class_made,
    is_library,
    maker_of,
    owner_of,
)
from explorer.compiler.capture.values.overrides import dispatches
from explorer.compiler.capture.values.sequences import TupleValue
from explorer.compiler.capture.values.tensor import TensorValue, graph_call
from explorer.compiler.capture.wrap import instance_of_class, make_wrapper
from explorer.core.classes import is_written_in_c
from explorer.core.reasons import Unsupported, unsupported
from explorer.core.recorder import note, recorder
from explorer.ir.capture import Attr, Computed, Inlined, Item, Returned, Source

# What a function of another library does cannot be read from it. These lists of foreign names are all that decide by
# names what a call means.
GRAPH_MODULES = frozenset(
    "torch.nn.functional torch.functional torch.special torch.fft torch.linalg torch._tensor".split()
)
"""Python functions of these modules are recorded as they are, not inlined."""
NOT_GRAPH = (torch.Tensor.__len__, torch.Tensor.__iter__, torch.Tensor.__contains__)
"""Of these, those that return no tensor."""
UNNAMED = (
    torch.tensor, torch.as_tensor, torch.asarray, torch._C._nested.nested_tensor,  # type: ignore[attr-defined]
    torch._C._nn._parse_to,
)  # fmt: skip
"""Functions in C that no operator of ATen is named after: they make tensors, or read the arguments of `to`."""
PURE_MODULES = frozenset("math cmath operator _operator _struct _string unicodedata _functools _collections".split())
"""Functions in C of these modules, given constants, are called while tracing."""
PURE_BUILTINS = frozenset(
    {abs, ascii, bin, chr, divmod, format, hex, oct, ord, pow, repr, round, hash, callable, len, min, max, sum,
     str.maketrans, sys.intern, sys.getrecursionlimit}
)  # fmt: skip
FOLDED_MODULES = (
    "inspect", "typing", "types", "packaging", "importlib", "re", "textwrap", "dataclasses", "abc", "os.path",
    "posixpath",
    "enum", "keyword", "string", "torch.utils._python_dispatch", "torch._utils", "torch.overrides", "torch.version",
    "torch.jit", "torch._jit_internal", "warnings", "platform",
)  # fmt: skip
"""Functions in Python of these modules, given things that are known, are called while tracing."""


@functools.cache
def optrees() -> dict[Any, types.FunctionType]:
    """What torch has in Python for functions of optree, which are in C++: trees are taken apart while tracing."""
    in_python = importlib.import_module(OPTREE)
    mended = [each for each in vars(in_python).values() if hasattr(each, "__torch_dynamo_polyfill__")]
    return {each.__torch_dynamo_original__: each.__torch_dynamo_polyfill__ for each in mended}


def _is_installed(function: object) -> bool:
    """Whether a package that was installed has it: the program that uses the package does not ask for its counts, or
    change what it reads."""
    code = getattr(function, "__code__", None)
    return code is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(code.co_filename).parts)


class Calls(Tracer):
    """A part of the tracer: everything that a call can mean."""

    # ----------------------------------------------------------------------------------------------- Python functions

    def call_function(self, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given = function.given
        if given is not None:
            rule = self.rule_for(given)
            if rule is not None:
                return rule(self, args, kwargs)
            found = marked(self, given, args, kwargs)
            if found is not None:
                return found
            if is_graph_function(given):
                return graph_call(self, "call_function", given, args, kwargs)
            if is_numpys(given):
                return call_numpy(self, given, args, kwargs)
            module = getattr(given, "__module__", None) or ""
            if module.startswith("optree") and given in optrees():
                return self._of_optree(given, args, kwargs)
            if given.__qualname__ == "singledispatch.<locals>.dispatch" and module == "functools":
                return self._dispatched(given, args)
            if module.startswith(FOLDED_MODULES) and not function.code.co_flags & inspect.CO_GENERATOR:
                folded = self.fold(given, args, kwargs)
                if folded is not None:
                    return folded
        return self.inline(function, args, kwargs)

    def _of_optree(self, function: Callable[..., object], args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A function of optree as torch has it in Python. The order of keys is a setting, which is guarded."""
        if function.__name__ != "is_dict_insertion_ordered":
            return self.inline(self.function_of(optrees()[function]), args, kwargs)
        named = {name: value.known(self) for name, value in kwargs.items()}
        asked = functools.partial(function, *(each.known(self) for each in args), **named)
        return self.wrap(Returned(self.known_source(asked), "__call__"), asked())

    def _dispatched(self, dispatch: types.FunctionType, args: list[Value]) -> Value:
        """Which implementation functools.singledispatch takes for a class; guarded by the classes that have one."""
        cells = dict(zip(dispatch.__code__.co_freevars, dispatch.__closure__ or (), strict=True))
        registry = cells["registry"].cell_contents
        why = "which implementation is called depends on them"
        self.guard(self.known_source(registry), KeysAre(tuple(registry)), why)
        return self.from_python(dispatch(args[0].known(self)))

    def fold(self, function: Callable[..., object], args: list[Value], kwargs: dict[str, Value]) -> Value | None:
        """Call for real, where it is known what every argument is and will be; None where it is not."""
        try:
            plain = [a.lasting(self) for a in args]
            named = {k: v.lasting(self) for k, v in kwargs.items()}
        except NotConstant:
            return None
        return self.from_python(self.python(function, *plain, **named))

    def function_of(self, function: types.FunctionType) -> FunctionValue:
        """A function of this package, for the evaluator to inline."""
        return FunctionValue(function.__code__, function.__globals__, name=function.__qualname__, given=function)

    def inline(self, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Evaluate the body in a frame of its own; a generator function yields its generator."""
        flags = function.code.co_flags
        if flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            unsupported(reasons.FRAME_KIND, f"coroutine {function.name}")
        if len(self.frames) > self.config.inline_depth:
            unsupported(reasons.INLINE_DEPTH, function.name)
        if function.code.co_filename.startswith("<frozen importlib"):
            unsupported(reasons.UNTRACEABLE_CALL, function.name)
        bound = self.bind_arguments(function, args, kwargs)
        code = self.decode(function.code)
        if recorder() is not None:
            note(Inlined, self.name, function.name, self.here())
        frame = self.make_frame(code, function.globals, dict(bound))
        for name in code.cells:
            frame.cells[name] = Cell(frame.locals.pop(name, None))
        for name, cell in zip(code.frees, function.cells(self), strict=True):
            frame.cells[name] = cell
        if flags & inspect.CO_GENERATOR:
            made = GeneratorValue(frame, (function, list(args), dict(kwargs)), self.lost)
            self.made_generators.add(made)
            return made
        self.resume(frame)
        assert frame.result is not None
        return frame.result

    def bind_arguments(self, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> dict[str, Value]:
        """Arguments to parameters, as Python does. Raises TypeError in the traced program."""
        code = function.code
        names = code.co_varnames
        count, keyword_only = code.co_argcount, code.co_kwonlyargcount
        bound: dict[str, Value] = dict(zip(names[:count], args, strict=False))
        rest = dict(kwargs)
        for name in (*names[code.co_posonlyargcount : count], *names[count : count + keyword_only]):
            if name in rest:
                if name in bound:
                    self.raise_(TypeError, f"{function.name}() got multiple values for argument '{name}'")
                bound[name] = rest.pop(name)
        if any(name not in bound for name in names[:count]):
            defaults = function.defaults(self)
            for name, value in zip(names[count - len(defaults) : count], defaults, strict=True):
                bound.setdefault(name, value)
        if any(name not in bound for name in names[count : count + keyword_only]):
            for name, value in function.kwdefaults(self).items():
                bound.setdefault(name, value)
        after = count + keyword_only
        if code.co_flags & inspect.CO_VARARGS:
            bound[names[after]] = TupleValue(args[count:])
            after += 1
        elif len(args) > count:
            self._too_many(function, len(args), [n for n in names[count : count + keyword_only] if n in kwargs])
        if code.co_flags & inspect.CO_VARKEYWORDS:
            bound[names[after]] = self.new_dict(rest)
        elif rest:
            if by_place := [name for name in names[: code.co_posonlyargcount] if name in rest]:
                said = "got some positional-only arguments passed as keyword arguments:"
                self.raise_(TypeError, f"{function.name}() {said} '{', '.join(by_place)}'")
            self.raise_(TypeError, f"{function.name}() got an unexpected keyword argument '{next(iter(rest))}'")
        missing = [name for name in names[: count + keyword_only] if name not in bound]
        if missing:
            self._missing(function, [n for n in missing if n in names[:count]] or missing, missing[0] in names[:count])
        return bound

    def _missing(self, function: FunctionValue, names: list[str], by_place: bool) -> None:
        shown = [repr(name) for name in names]
        told = " and ".join(shown) if len(shown) < 3 else f"{', '.join(shown[:-1])}, and {shown[-1]}"
        kind = f"{'positional' if by_place else 'keyword-only'} argument{'s' * (len(names) > 1)}"
        self.raise_(TypeError, f"{function.name}() missing {len(names)} required {kind}: {told}")

    def _too_many(self, function: FunctionValue, given: int, named: list[str]) -> None:
        count, optional = function.code.co_argcount, len(function.defaults(self))
        takes = f"from {count - optional} to {count}" if optional else str(count)
        plural = "s" * (count != 1 or bool(optional))
        said = f"{given} was" if given == 1 else f"{given} were"
        if named:
            keywords = f"{len(named)} keyword-only argument{'s' * (len(named) > 1)}"
            said = f"{given} positional argument{'s' * (given != 1)} (and {keywords}) were"
        self.raise_(TypeError, f"{function.name}() takes {takes} positional argument{plural} but {said} given")

    # ------------------------------------------------------------------------------------------------------ builtins

    def rule_for(self, function: Callable[..., object]) -> Rule | None:
        try:
            return None if self.torch_state.modes and is_graph_function(function) else CALLS.get(function)
        except TypeError:
            return None

    def call_builtin(self, function: Callable[..., object], args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Call something that is not written in Python."""
        rule = self.rule_for(function)
        if rule is not None:
            return rule(self, args, kwargs)
        if is_numpys(function):
            return call_numpy(self, function, args, kwargs)
        if str(getattr(function, "__module__", "")).startswith("optree") and function in optrees():
            return self._of_optree(function, args, kwargs)
        if isinstance(function, functools._lru_cache_wrapper):
            return self._remembered(function, args, kwargs)
        if is_graph_function(function):
            return graph_call(self, "call_function", function, args, kwargs)
        owner = getattr(function, "__objclass__", None)
        if owner is not None and args:
            return self._descriptor_call(function, owner, args, kwargs)
        bound = getattr(function, "__self__", None)
        if isinstance(bound, type):
            return self._class_builtin(function, bound, args, kwargs)
        module = getattr(function, "__module__", None) or ""
        if type(bound) is random.Random:
            return self.call_method(self.from_python(bound), function.__name__, args, kwargs)
        if bound is not None and type(bound).__module__ == "builtins" and not isinstance(bound, types.ModuleType):
            if is_plain(bound):
                return Constant(bound).method(self, function.__name__, args, kwargs)
            unsupported(reasons.UNTRACEABLE_CALL, f"{type(bound).__name__}.{function.__name__}")
        if module in PURE_MODULES or function in PURE_BUILTINS:
            if module == "math" and not kwargs and any(isinstance(a, (SizeValue, FloatValue)) for a in args):
                if not any(isinstance(a, (NumberValue, TensorValue)) for a in args):
                    return self.computed(function, *args)
            if any(isinstance(a, SizeValue) for a in args) and not kwargs:
                return self.on_numbers(function, *args)
            if not any(isinstance(a, TensorValue) for a in args):
                plain = [a.known(self) for a in args]
                found = self.python(function, *plain, **{k: v.known(self) for k, v in kwargs.items()})
                if plain != [a.known(self) for a in args]:
                    unsupported(reasons.UNTRACEABLE_CALL, f"{module}.{function.__name__}, which writes its argument")
                return self.from_python(found)
        name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)
        unsupported(reasons.UNTRACEABLE_CALL, f"{module}.{name}" if module not in ("", "builtins") else str(name))

    def _remembered(self, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """The result of a functools cache, which may be older than what its function returns now: it is called itself,
        here and at each call before the graph."""

        def refuse(what: str) -> NoReturn:
            unsupported(reasons.UNTRACEABLE_CALL, f"{function.__qualname__}, a functools cache {what}")

        def effects() -> tuple[object, ...]:
            return self.effects.outside, self.tape.written_inputs(), self.tape.mode.drew

        of_program = not (is_library(function.__module__) or _is_installed(function.__wrapped__))
        if of_program and not self.config.fullgraph:
            refuse("of the program: guards that ask it would count in its cache_info()")
        about = function.cache_info()
        if about.currsize == about.maxsize:
            refuse("that is full: a call may evict an older result")
        before = effects()
        try:
            self.from_python(function.__wrapped__).call(self, args, kwargs)
        except Raised:
            refuse("whose function raises")
        if effects() != before:
            refuse("with side effects")
        if (before[0] or before[1]) and of_program:
            refuse("after side effects, which its function may see")
        given = [self._asked_with(value, refuse) for value in (*args, *kwargs.values())]
        sources = [each for each, _ in given if isinstance(each, Source)]
        ask = functools.partial(_ask, tuple(kwargs))
        source = Computed(ask, (self.known_source(function), *(each for each, _ in given)))
        if len(sources) == 1:
            source = Computed(functools.partial(ask, function), tuple(each for each, _ in given))
        try:
            kept = ask(function, *(value for _, value in given))
        except Exception:
            refuse("that raises")
        if not is_plain(kept):
            settings = self.tape.grad_enabled, self.tape.inference
            if (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) != settings or self.torch_state.devices:
                refuse("called after the function changed the grad mode or the default device")
            if len(sources) > 1:
                refuse("whose result is neither a number nor a string")
        return self.wrap(source, kept)

    def _asked_with(self, value: Value, refuse: Callable[[str], NoReturn]) -> tuple[Any, Any]:
        """An argument of a cache: the source that it is read from or, where it is fixed, itself; and the object."""
        source = getattr(value, "source", None)
        if isinstance(value, TensorValue):
            if source is None or value.given is None or value.overlay:
                refuse("called with a tensor made in the compiled function")
            return source, value.given
        try:
            return (found := value.known(self)), found
        except Unsupported:
            pass
        try:
            found = value.real()
        except NotConstant:
            refuse(f"of {value.describe()}")
        return source or self.known_source(found), found

    def _descriptor_call(
        self, function: Callable[..., object], owner: type, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        """dict.update(x, ...), object.__setattr__(x, ...): the method of C, whatever a subclass overrides."""
        first, *rest = args
        if isinstance(function, (types.GetSetDescriptorType, types.MemberDescriptorType)):
            unsupported(reasons.UNTRACEABLE_CALL, f"{owner.__name__}.{function.__name__}")
        return first.method(self, function.__name__, rest, kwargs)

    def _class_builtin(
        self, function: Callable[..., object], cls: type, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        """dict.fromkeys, str.maketrans, object.__new__ and their like."""
        if function.__name__ == "__new__":
            return self.new_instance(args, kwargs)
        if function.__name__ == "fromkeys":
            value = args[1] if len(args) > 1 else kwargs.get("value", Constant(None))
            return DictValue.of(((key, value) for key in args[0].unpack(self)), cls)
        if function.__name__ == "__subclasses__":
            return self.wrap(Returned(self.known_source(cls), "__subclasses__"), cls.__subclasses__())
        if function.__name__ == "mro":
            return self.from_python(list(cls.__mro__))
        if cls in (int, float, str, bytes, object, type):
            return self.from_python(
                self.python(
                    function, *(each.known(self) for each in args), **{k: v.known(self) for k, v in kwargs.items()}
                )
            )
        rule = self.rule_for(inspect.getattr_static(cls, function.__name__, None))
        if rule is not None:
            return rule(self, [self.from_python(cls), *args], kwargs)
        unsupported(reasons.UNTRACEABLE_CALL, f"{cls.__name__}.{function.__name__}")

    # ----------------------------------------------------------------------------------------------------- instances

    def instantiate(self, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Call a class."""
        rule = self.rule_for(cls)
        if rule is not None:
            return rule(self, args, kwargs)
        if is_numpys(cls):
            return call_numpy(self, cls, args, kwargs)
        meta_call = self.look_up(type(cls), "__call__")
        if issubclass(cls, enum.Enum):
            return self.from_python(self.python(cls, *(each.known(self) for each in args)))
        if not isinstance(meta_call, types.WrapperDescriptorType) and not issubclass(cls, torch.autograd.Function):
            return bound_attribute(self, ClassValue(cls), type(cls), meta_call, "__call__").call(self, args, kwargs)
        return self.make(cls, args, kwargs)

    def make(self, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """type.__call__: __new__, then __init__."""
        if cls.__flags__ & _ABSTRACT:
            self.python(object.__new__, cls)
        if issubclass(cls, (torch.jit.ScriptModule, torch.nn.modules.lazy.LazyModuleMixin)):
            unsupported(reasons.UNTRACEABLE_CALL, f"making a {cls.__name__}")
        if issubclass(cls, torch.Tensor) and dispatches(cls):
            return make_wrapper(self, cls, args, kwargs)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            return self._namedtuple(cls, args, kwargs)
        new = self.look_up(cls, "__new__")
        new = getattr(new, "__func__", new)
        if isinstance(new, types.FunctionType):
            made = self.from_python(new).call(self, [ClassValue(cls), *args], kwargs)
            if not issubclass(made.python_type(), cls):
                return made
        else:
            made = self.new_instance([ClassValue(cls), *args], kwargs)
        init = self.look_up(cls, "__init__")
        if isinstance(made, (ObjectValue, TensorValue)):
            if isinstance(init, types.FunctionType):
                function = self.class_attribute(owner_of(cls, "__init__"), "__init__", init)
                checked(self, cls, "__init__", function.call(self, [made, *args], kwargs))
            elif init is not object.__init__ and not isinstance(made, TensorValue):
                made.method(self, "__init__", args, kwargs)
            elif (args or kwargs) and new is object.__new__:
                self.raise_(TypeError, f"{cls.__name__}() takes no arguments")
        return made

    def new_instance(self, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """object.__new__, dict.__new__ and so on."""
        kind, *rest = args
        if not isinstance(kind, ClassValue):
            unsupported(reasons.UNTRACEABLE_CALL, "__new__ of something that is no class")
        cls = kind.cls
        if isinstance(self.look_up(cls, "__del__"), types.FunctionType):
            self.tape.refuse_frame(f"a {cls.__name__} is made, whose __del__ runs where the program drops it")
        if issubclass(cls, weakref.ref) and rest and rest[0].source is None:
            self.tape.refuse_frame(NOTICED)
        if cls.__module__ == "torch.return_types" and len(rest) == 1:
            return TupleValue(rest[0].unpack(self), cls)
        if issubclass(cls, torch.Tensor):
            is_given = bool(rest) and isinstance(rest[0], TensorValue)
            given = rest[0] if is_given else ClassValue(torch.Tensor).call(self, rest, {})
            return given.method(self, "as_subclass", [kind], {})
        base = maker_of(cls).__self__
        if base not in _MODELLED and not issubclass(base, (BaseException, torch._C._FunctionBase)):
            is_value = cls.__eq__ is not object.__eq__ and not issubclass(cls, (torch.Stream, torch.Event))
            if base is cls and cls.__module__.startswith("torch.") and is_value:  # others, as generators, have a state
                folded = self.fold(cls, rest, kwargs)
                if folded is not None:
                    return folded
            unsupported(
                reasons.UNTRACEABLE_CALL, f"making a {cls.__name__}, whose base {base.__name__} is written in C"
            )
        if issubclass(cls, (OSError, BaseExceptionGroup)):
            cls = class_made(self, cls, rest)
        if issubclass(cls, tuple):
            return TupleValue(rest[0].unpack(self) if rest else [], cls)
        if issubclass(cls, frozenset):
            made = instance_of_class(self, cls)
            made.method(self, "update", rest, {})
            return made
        if issubclass(cls, (int, float, str, bytes, complex)):
            unsupported(reasons.UNTRACEABLE_CALL, f"making a {cls.__name__}")
        made = instance_of_class(self, cls)
        if isinstance(made, ExceptionValue):
            made.args = rest
        return made

    def _namedtuple(self, cls: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        new = self.look_up(cls, "__new__")
        generated = cls.__mro__[cls.__mro__.index(tuple) - 1] if tuple in cls.__mro__ else cls
        if new is not generated.__dict__.get("__new__"):
            return self.from_python(getattr(new, "__func__", new)).call(self, [ClassValue(cls), *args], kwargs)
        given = dict(zip(cls._fields, args, strict=False)) | kwargs
        for name in cls._fields:
            if name not in given:
                if name not in cls._field_defaults:
                    self.raise_(TypeError, f"{cls.__name__}.__new__() missing required argument: '{name}'")
                given[name] = self.from_python(cls._field_defaults[name])
        if len(args) > len(cls._fields) or given.keys() - set(cls._fields):
            self.raise_(TypeError, f"{cls.__name__}.__new__() got an unexpected argument")
        return TupleValue([given[name] for name in cls._fields], cls)

    # ----------------------------------------------------------------------------------------------------- exceptions

    def as_exception(self, value: Value) -> Value:
        """What `raise value` raises: an instance."""
        if isinstance(value, ClassValue):
            return self.instantiate(value.cls, [], {})
        return value

    # --------------------------------------------------------------------------------------------------------- binding

    def look_up(self, cls: type, name: str, after: type | None = None) -> Any:
        """What the class or its bases define under `name`, as it stands in their dictionaries; MISSING if nothing.
        Only those behind `after` are asked, where super() asks.

        The program's own classes may come to define another: which it is, and that no class before has one, is guarded.
        Data is guarded where it is read.
        """
        key = id(cls), name, id(after)
        if key in self.looked_up:
            return self.looked_up[key]
        found: Any = MISSING
        order = cls.__mro__
        for base in order if after is None else order[order.index(after) + 1 :]:
            fixed = is_written_in_c(base) or is_library(base.__module__)
            members = Attr(self.known_source(base), "__dict__")
            if name in base.__dict__:
                found = base.__dict__[name]
                if not fixed and hasattr(type(found), "__get__"):
                    self.guard(Item(members, name), IsObject(found), "it was looked up in the class")
                break
            if not fixed:
                self.guard(members, Has(name, False, "key"), "the class does not define it")
        self.looked_up[key] = found
        return found

    def class_attribute(self, owner: type, name: str, found: object) -> Value:
        """What `owner.__dict__[name]` holds; data is guarded where the class is not a library's."""
        if (id(owner), name) in self.effects.classes:
            return self.effects.classes[id(owner), name]
        if hasattr(type(found), "__get__") or is_library(owner.__module__) and not isinstance(found, (list, dict, set)):
            return self.from_python(found)
        return self.wrap(Attr(self.known_source(owner), name), found)


_ABSTRACT = 1 << 20
"""The flag of a class with abstract methods (Py_TPFLAGS_IS_ABSTRACT)."""
_MODELLED = (
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
            and function.__code__.co_filename.startswith(TORCH_DIR)
        )
    return False


def _ask(names: tuple[str, ...], cache: Callable[..., object], *given: object) -> object:
    """The cache of a function, the last arguments by name."""
    count = len(given) - len(names)
    return cache(*given[:count], **dict(zip(names, given[count:], strict=True)))
