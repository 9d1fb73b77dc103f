"""Locals, cells, globals, attributes, imports."""

from __future__ import annotations

import builtins
import importlib
import sys

from explorer.compiler.bytecode.normal import NULL_FIRST
from explorer.compiler.capture import reasons
from explorer.compiler.capture.frame import NULL
from explorer.compiler.capture.opcodes.operators import OPCODES
from explorer.compiler.capture.resume import ASIDE
from explorer.compiler.capture.values.base import Cell, Frame, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue, PyModuleValue, SuperValue
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.functions import BoundMethod, BuiltinValue, CellAside, CellValue, FunctionValue
from explorer.core.reasons import unsupported
from explorer.ir.bytecode import Instruction
from explorer.ir.capture import Attr


@OPCODES.rule("LOAD_FAST")
def load_fast(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push a local."""
    found = t.load_local(f, i.arg)
    f.push(CellAside(found) if isinstance(found, Cell) and i.arg.startswith(ASIDE) else found)


@OPCODES.rule("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(t: Tracer, f: Frame, i: Instruction) -> None:
    """Put a local or a cell aside, for an inlined comprehension."""
    if i.arg in f.cells:
        f.push(CellAside(f.cells.pop(i.arg)))
        t.unbind(f, i.arg)
        return
    is_bound = i.arg in f.locals or (f is t.frames[0] and i.arg in t.given.locals and not t.is_unbound(i.arg))
    f.push(t.load_local(f, i.arg) if is_bound else NULL)
    t.unbind(f, i.arg)


@OPCODES.rule("STORE_FAST")
def store_fast(t: Tracer, f: Frame, i: Instruction) -> None:
    """Bind a local, or put back what an inlined comprehension has put aside."""
    value = f.pop()
    f.cells.pop(i.arg, None)
    if value is NULL:
        t.unbind(f, i.arg)
    elif isinstance(value, CellAside):
        f.cells[i.arg] = value.cell
        t.unbind(f, i.arg)
    else:
        f.locals[i.arg] = value


@OPCODES.rule("MAKE_CELL")
def make_cell(t: Tracer, f: Frame, i: Instruction) -> None:
    """A fresh cell for a variable of an inlined comprehension, for each time that it runs."""
    f.cells[i.arg] = CellValue(f.locals.pop(i.arg, None))


@OPCODES.rule("DELETE_FAST")
def delete_fast(t: Tracer, f: Frame, i: Instruction) -> None:
    """Unbind a local."""
    t.load_local(f, i.arg)
    t.unbind(f, i.arg)


@OPCODES.rule("LOAD_DEREF")
def load_deref(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push what a cell holds."""
    found = f.cells[i.arg].load(t)
    if found is None and (i.arg in f.code.cells or i.arg in f.code.owned):
        t.raise_(UnboundLocalError, f"cannot access local variable '{i.arg}' where it is not associated with a value")
    if found is None:
        t.raise_(
            NameError,
            f"cannot access free variable '{i.arg}' where it is not associated with a value in enclosing scope",
            name=Constant(i.arg),
        )
    f.push(found)


@OPCODES.rule("STORE_DEREF")
def store_deref(t: Tracer, f: Frame, i: Instruction) -> None:
    """Put the top into a cell."""
    f.cells[i.arg].store(t, f.pop())


@OPCODES.rule("DELETE_DEREF")
def delete_deref(t: Tracer, f: Frame, i: Instruction) -> None:
    """Empty a cell."""
    if f.cells[i.arg].load(t) is None:
        t.raise_(UnboundLocalError, f"cannot access local variable '{i.arg}' where it is not associated with a value")
    f.cells[i.arg].store(t, None)


@OPCODES.rule("LOAD_CLOSURE")
def load_closure(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push the cell itself."""
    f.push(f.cells[i.arg])


@OPCODES.rule("LOAD_GLOBAL")
def load_global(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push a global or a builtin."""
    f.push(read_global(t, f, i.arg))


def read_global(t: Tracer, f: Frame, name: str) -> Value:
    found = t.namespace(f.globals).read(t, name)
    if found is not None:
        return found
    if hasattr(builtins, name):
        return t.from_python(getattr(builtins, name))
    t.raise_(NameError, f"name '{name}' is not defined", name=Constant(name))


@OPCODES.rule("STORE_GLOBAL")
def store_global(t: Tracer, f: Frame, i: Instruction) -> None:
    """Bind a global; replayed after the graph."""
    t.namespace(f.globals).write(t, i.arg, f.pop())


@OPCODES.rule("DELETE_GLOBAL")
def delete_global(t: Tracer, f: Frame, i: Instruction) -> None:
    """Unbind a global."""
    if t.namespace(f.globals).read(t, i.arg) is None:
        t.raise_(NameError, f"name '{i.arg}' is not defined", name=Constant(i.arg))
    t.namespace(f.globals).write(t, i.arg, None)


@OPCODES.rule("LOAD_BUILD_CLASS")
def load_build_class(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push what makes a class."""
    f.push(BuiltinValue(builtins.__build_class__))


@OPCODES.rule("LOAD_ASSERTION_ERROR")
def load_assertion_error(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push AssertionError."""
    f.push(ClassValue(AssertionError))


@OPCODES.rule("LOAD_ATTR")
def load_attr(t: Tracer, f: Frame, i: Instruction) -> None:
    """Replace an object by its attribute."""
    f.push(t.get_attr(f.pop(), i.arg))


@OPCODES.rule("LOAD_METHOD")
def load_method(t: Tracer, f: Frame, i: Instruction) -> None:
    """Replace an object by a method and itself, or by an attribute and the null."""
    push_callable(f, t.get_attr(f.pop(), i.arg))


def push_callable(f: Frame, found: Value) -> None:
    if isinstance(found, BoundMethod) and isinstance(found.function, FunctionValue):
        f.push(found.function)
        f.push(found.bound)
    elif NULL_FIRST:
        f.push(NULL)
        f.push(found)
    else:
        f.push(found)
        f.push(NULL)


@OPCODES.rule("STORE_ATTR")
def store_attr(t: Tracer, f: Frame, i: Instruction) -> None:
    """Set an attribute."""
    base = f.pop()
    base.set_attr(t, i.arg, f.pop())


@OPCODES.rule("DELETE_ATTR")
def delete_attr(t: Tracer, f: Frame, i: Instruction) -> None:
    """Delete an attribute."""
    f.pop().set_attr(t, i.arg, None)


def _super(t: Tracer, f: Frame, i: Instruction) -> Value:
    bound = f.pop()
    start = f.pop()
    function = f.pop()
    name, _ = i.arg
    if isinstance(function, ClassValue) and function.cls is super and isinstance(start, ClassValue):
        return t.get_attr(SuperValue(start.cls, bound), name)
    return t.get_attr(t.call(function, [start, bound], {}), name)


@OPCODES.rule("LOAD_SUPER_ATTR")
def load_super_attr(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push an attribute of super()."""
    f.push(_super(t, f, i))


@OPCODES.rule("LOAD_SUPER_METHOD")
def load_super_method(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push a method of super(), for a call."""
    push_callable(f, _super(t, f, i))


@OPCODES.rule("IMPORT_NAME")
def import_name(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push a module that is loaded already; loading one is left to Python."""
    names = t.constant_of(f.pop())
    level = t.constant_of(f.pop())
    name = i.arg
    if level:
        name = importlib.util.resolve_name("." * level + name, f.globals.get("__package__") or "")
    if name not in sys.modules:
        unsupported(reasons.UNTRACEABLE_CALL, f"import of {name}")
    found = sys.modules[name] if names else sys.modules[name.partition(".")[0]]
    f.push(PyModuleValue(found, t.known_source(found)))


@OPCODES.rule("IMPORT_FROM")
def import_from(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push a name of a module."""
    module = f.stack[-1]
    found = t.attr_or_none(module, i.arg)
    if found is None and isinstance(module, PyModuleValue):
        whole = f"{module.module.__name__}.{i.arg}"
        if whole not in sys.modules:
            unsupported(reasons.UNTRACEABLE_CALL, f"import of {whole}")
        found = PyModuleValue(sys.modules[whole], Attr(t.known_source(module.module), i.arg))
    f.push(found if found is not None else Constant(None))
