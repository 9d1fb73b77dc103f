"""Symbolic values back to Python objects: the instructions that push them. Stock: torch/_dynamo/codegen.py."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sympy
from torch import fx

from explorer.compiler.bytecode import build
from explorer.compiler.capture import reasons
from explorer.compiler.capture.expressions import function_of
from explorer.compiler.capture.resume import TEMP
from explorer.compiler.capture.torch_state import Switched
from explorer.compiler.capture.values.base import Cell, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue, PyModuleValue
from explorer.compiler.capture.values.constant import NULL, Constant
from explorer.compiler.capture.values.functions import FunctionValue
from explorer.compiler.capture.values.mappings import DictValue, SetValue
from explorer.compiler.capture.values.objects import (
    DELETED,
    Lazy,
    ObjectValue,
    attribute_in_c,
    is_shadowed,
    maker_of,
    set_in_dict,
)
from explorer.compiler.capture.values.sequences import ListValue, SliceValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.compiler.capture.wrap import inside
from explorer.core.reasons import unsupported
from explorer.ir import capture as ir
from explorer.ir.bytecode import Instruction
from explorer.ir.sizes import computed


class Reconstruction:
    """Collects instructions in two runs: `loads` reads what was there at entry, before changes; `body` follows.

    Objects that are pushed twice are made once: identity is kept.
    """

    def __init__(self, t: Tracer) -> None:
        self.t = t
        self.loads: list[Instruction] = []
        self.body: list[Instruction] = []
        self.outputs: dict[fx.Node, str] = {}
        self._sources: dict[ir.Source, str] = {}
        self._made: dict[int, str] = {}
        self._begun: set[int] = set()
        """Values whose objects are being made."""
        self.cells: set[str] = set()
        """The frame's cells that something pushed has."""
        self._temps = 0
        self._kept: list[Any] = []
        self._deferred: list[Callable[[], None]] = []
        self._last: list[Callable[[], None]] = []

    def temp(self) -> str:
        self._temps += 1
        return f"{TEMP}{self._temps}"

    def emit(self, op: str, arg: object = None) -> None:
        self.body.append(build.instruction(op, arg))

    # ------------------------------------------------------------------------------------------------------- values

    def value(self, value: Any) -> None:
        """Push the object of a value."""
        if isinstance(value, Lazy):
            self.source(value.source)
            return
        if value is NULL:
            self.emit("PUSH_NULL")
            return
        is_unread = isinstance(value, Constant) and value.unread is not None
        if is_unread and value.source is not None:
            self.source(value.source)
            return
        if isinstance(value, (Constant, ClassValue, PyModuleValue)) and not is_unread:
            self.constant(value.constant())
            return
        if value.source is not None and not isinstance(value, (SliceValue, Cell)):
            self.source(value.source)
            return
        if id(value) in self._made:
            self.emit("LOAD_FAST", self._made[id(value)])
            return
        if id(value) in self._begun:
            unsupported(reasons.NOT_RECONSTRUCTED, f"a {type(value).__name__.removesuffix('Value').lower()} in itself")
        self._begun.add(id(value))
        value.reconstruct(self)
        self._begun.remove(id(value))
        if not isinstance(value, (TensorValue, SliceValue)) and id(value) not in self._made:
            self.emit("COPY", 1)
            self.store_new(value)

    def store_new(self, value: Value) -> str:
        """Pop the object of a value that was just made, and remember where it is."""
        name = self.temp()
        self._made[id(value)] = name
        self._kept.append(value)
        self.emit("STORE_FAST", name)
        return name

    def constant(self, value: object) -> None:
        self.emit("LOAD_CONST", value)

    def output(self, node: fx.Node) -> None:
        """Push what the graph returned for a node."""
        if node not in self.outputs:
            self.outputs[node] = self.temp()
        self.emit("LOAD_FAST", self.outputs[node])

    def finish_deferred(self) -> None:
        """What could only be filled in after everything was made (a function in its own closure)."""
        while self._deferred:
            self._deferred.pop(0)()

    def after_effects(self, emit: Callable[[], None]) -> None:
        """Emit this once the effects are replayed: an iterator's position is cut to its list's length of the moment."""
        self._last.append(emit)

    def finish_last(self) -> None:
        while self._last:
            self._last.pop(0)()

    # ------------------------------------------------------------------------------------------------------ sources

    def source(self, source: ir.Source) -> None:
        """Push what the frame found at a source when it was entered."""
        self.body += self.load(source)

    def load(self, source: ir.Source) -> list[Instruction]:
        """Read a source once, at the beginning, into a temporary; the instruction that loads that."""
        if isinstance(source, ir.Known):
            return [build.load_const(source.object)]
        if source not in self._sources:
            read = self._read(source)
            self._sources[source] = self.temp()
            self.loads += [*read, build.store_fast(self._sources[source])]
        return [build.load_fast(self._sources[source])]

    def _read(self, source: ir.Source) -> list[Instruction]:
        match source:
            case ir.Local(variable):
                is_cell = variable in self.t.code.cells or variable in self.t.code.frees
                return [build.load_deref(variable) if is_cell else build.load_fast(variable)]
            case ir.Global(variable, ""):
                return [build.load_global(variable)]
            case ir.Global(variable, module):
                return [build.load_const(vars(sys.modules[module])), build.load_const(variable), build.binary_subscr()]
            case ir.Attr(base, attribute, plain):
                if plain:
                    given = [self.load(base), [build.load_const(attribute)]]
                    return build.call([build.load_const(ir.own_attribute)], given)
                return [*self.load(base), build.load_attr(attribute)]
            case ir.Item(base, key):
                if source in self.t.objects.raw_items:
                    return build.call([build.load_const(ir.item_of)], [self.load(base), [build.load_const(key)]])
                return [*self.load(base), build.load_const(key), build.binary_subscr()]
            case ir.TypeOf(base):
                return build.call([build.load_const(type)], [self.load(base)])
            case ir.Size(base, dim):
                return build.call_method(self.load(base), "size", [[build.load_const(dim)]])
            case ir.Stride(base, dim):
                return build.call_method(self.load(base), "stride", [[build.load_const(dim)]])
            case ir.Returned(base, method):
                return build.call_method(self.load(base), method)
            case ir.Listed(base, part):
                return build.call([build.load_const(list)], [build.call_method(self.load(base), part)])
            case ir.Computed(function, args):
                given = [self.load(arg) if isinstance(arg, ir.Source) else [build.load_const(arg)] for arg in args]
                return build.call([build.load_const(function)], given)
            case ir.AsTensor(base):
                return build.call([build.load_const(ir.as_tensor)], [self.load(base)])
            case ir.Inside(base, part):
                return build.call([build.load_const(inside(part))], [self.load(base)])
        raise AssertionError(source)

    # ------------------------------------------------------------------------------------------------ kinds of values

    def call(
        self, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object] | None = None
    ) -> None:
        """Push the result of calling a Python object."""
        named = kwargs or {}
        if any(not name.isidentifier() for name in named):
            unsupported(reasons.NOT_RECONSTRUCTED, "keywords that are not names")
        self.constant(function)
        for argument in (*args, *named.values()):
            self.value(argument)
        self.body += build.call_stacked(len(args) + len(named), tuple(named))

    def call_on_output(self, function: Callable[..., object], node: fx.Node) -> None:
        """Push function(what the graph returned for a node)."""
        self.constant(function)
        self.output(node)
        self.body += build.call_stacked(1)

    def call_value(self, function: Value, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
        """Push the result of calling the object of a value."""
        self.value(function)
        for argument in (*args, *kwargs.values()):
            self.value(argument)
        self.body += build.call_stacked(len(args) + len(kwargs), tuple(kwargs))

    def method(self, base: Value, name: str, args: Sequence[Value] = ()) -> None:
        """Push base.name(*args)."""
        self.value(base)
        self.emit("LOAD_ATTR", name)
        for argument in args:
            self.value(argument)
        self.body += build.call_stacked(len(args))

    def switch(self, settings: Iterable[Switched]) -> None:
        for setting, key, value in settings:
            self.call(setting.write, list(map(self.t.from_python, (*key, *value))))
            self.emit("POP_TOP")

    def discard_method(self, load: Callable[[], None], name: str, args: Sequence[object]) -> None:
        """Call a method of what `load` pushes, for its effect."""
        load()
        self.emit("LOAD_ATTR", name)
        for argument in args:
            self.value(argument)
        self.body += build.call_stacked(len(args))
        self.emit("POP_TOP")

    def discard_call(self, function: Callable[..., object], load: Callable[[], None], args: Sequence[object]) -> None:
        """Call function(what `load` pushes, *args), for its effect."""
        self.constant(function)
        load()
        for argument in args:
            self.value(argument)
        self.body += build.call_stacked(1 + len(args))
        self.emit("POP_TOP")

    def instance(self, value: ObjectValue, contents: Sequence[Value] = ()) -> None:
        """Push an instance made while tracing: `contents` go to the __new__ of its base, and it is filled without
        calling what its class overrides."""
        self.call(maker_of(value.cls), [ClassValue(value.cls), *contents])
        self.filled(value, isinstance(value, (DictValue, ListValue)) or isinstance(value, SetValue) and not contents)

    def filled(self, value: ObjectValue, empty: bool = False) -> None:
        """Give the object just made, on the stack, the attributes that the program has set and, where it is `empty`,
        its items."""
        name = self.store_new(value)

        def load() -> None:
            self.emit("LOAD_FAST", name)

        if empty:
            value.refill(self, load)  # type: ignore[attr-defined]
        for attribute, held in value.overlay.items():
            if held is not DELETED:
                own = attribute_in_c(value.cls, "__setattr__")
                writer = set_in_dict if is_shadowed(value.cls, attribute) else own
                self.discard_call(writer, load, [Constant(attribute), held])
        load()

    def size(self, sym: Any) -> None:
        """Push the number that a symbolic size is for this call's inputs."""
        try:
            part = computed(sym.node.expr, lambda symbol: symbol, lambda function, args: (function, args))
        except KeyError:
            symbols = sorted(sym.node.expr.free_symbols, key=str)
            part = (function_of(sym.node.expr, symbols), symbols)
        self._size(part)

    def _size(self, part: object) -> None:
        """Push a number, a symbol's value, or a function's result."""
        if isinstance(part, sympy.Symbol):
            if part not in self.t.tape.symbol_sources:
                unsupported(reasons.NOT_RECONSTRUCTED, f"the size {part}")
            self.source(self.t.tape.symbol_sources[part])
        elif isinstance(part, tuple):
            function, args = part
            self.constant(function)
            for arg in args:
                self._size(arg)
            self.body += build.call_stacked(len(args))
        else:
            self.constant(part)

    def cell(self, cell: Cell) -> None:
        """Push a closure cell: the frame's own, or a new one."""
        if cell.root_name:
            self.cells.add(cell.root_name)
            self.emit("LOAD_CLOSURE", cell.root_name)
            return
        if cell.source is not None:
            self.source(cell.source)
            return
        self.call(types.CellType, [])
        name = self.store_new(cell)

        def fill() -> None:
            contents = cell.load(self.t)
            if contents is not None:
                self.value(contents)
                self.emit("LOAD_FAST", name)
                self.emit("STORE_ATTR", "cell_contents")

        self._deferred.append(fill)
        self.emit("LOAD_FAST", name)

    def function(self, function: FunctionValue) -> None:
        """Push a function made while tracing."""
        code = function.code
        defaults = TupleValue(function.made_defaults) if function.made_defaults else Constant(None)
        self.constant(types.FunctionType)
        self.constant(code)
        self.constant(function.globals)
        self.constant(code.co_name)
        self.value(defaults)
        if function.made_closure:
            for cell in function.made_closure:
                self.value(cell)
            self.emit("BUILD_TUPLE", len(function.made_closure))
        else:
            self.constant(None)
        self.body += build.call_stacked(5)
        name = self.store_new(function)
        extra: dict[str, Value] = dict(function.overlay)
        if function.name != code.co_name:
            extra.setdefault("__qualname__", Constant(function.name))
        if function.made_kwdefaults:
            extra["__kwdefaults__"] = self.t.from_python(function.made_kwdefaults)
        if function.annotations is not None:
            extra["__annotations__"] = function.annotations
        for attribute, held in extra.items():
            self.value(held)
            self.emit("LOAD_FAST", name)
            self.emit("STORE_ATTR", attribute)
        self.emit("LOAD_FAST", name)
