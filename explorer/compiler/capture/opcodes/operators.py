"""The table of instruction rules; the stack itself, operators and items, and names: locals, cells, globals,
attributes, imports."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable

from explorer.compiler.bytecode.normal import NULL_FIRST
from explorer.compiler.bytecode.ops import OPS
from explorer.compiler.capture import reasons
from explorer.compiler.capture.frame import NULL
from explorer.compiler.capture.resume import ASIDE
from explorer.compiler.capture.values.base import Cell, Frame, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue, PyModuleValue, SuperValue
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.functions import BoundMethod, BuiltinValue, CellAside, CellValue, FunctionValue
from explorer.compiler.capture.values.size import SizeValue
from explorer.core.reasons import unsupported
from explorer.core.rules import RuleTable
from explorer.ir.bytecode import Instruction
from explorer.ir.capture import Attr

Step = Callable[["Tracer", Frame, Instruction], str | None]

OPCODES: RuleTable[str, Step] = RuleTable("opcode", known=lambda op: op in OPS)
"""rule(tracer, frame, instruction) -> the id of the instruction to jump to, or None to go on to the next."""


def short(rules: dict[str, Step]) -> None:
    """Register rules of one expression each: ops.py says what these instructions do."""
    for op, rule in rules.items():
        OPCODES.rule(op)(rule)


@OPCODES.rule("POP_TOP")
def pop_top(t: Tracer, f: Frame, i: Instruction) -> None:
    """Drop the top."""
    f.pop()


@OPCODES.rule("SWAP")
def swap(t: Tracer, f: Frame, i: Instruction) -> None:
    """Exchange the top with a value below."""
    f.stack[-1], f.stack[-i.arg] = f.stack[-i.arg], f.stack[-1]


@OPCODES.rule("UNARY_OP")
def unary_op(t: Tracer, f: Frame, i: Instruction) -> None:
    """operator value."""
    value = f.pop()
    if i.arg == "not" and isinstance(value, SizeValue) and value.python_type() is bool:
        f.push(Constant(not t.truth(value)))
    else:
        f.push(t.unary(i.arg, value))


@OPCODES.rule("BINARY_OP")
def binary_op(t: Tracer, f: Frame, i: Instruction) -> None:
    """left operator right."""
    right = f.pop()
    f.push(t.binary(i.arg, f.pop(), right))


@OPCODES.rule("STORE_SUBSCR")
def store_subscr(t: Tracer, f: Frame, i: Instruction) -> None:
    """container[key] = value."""
    key = f.pop()
    base = f.pop()
    t.set_item(base, key, f.pop())


@OPCODES.rule("DELETE_SUBSCR")
def delete_subscr(t: Tracer, f: Frame, i: Instruction) -> None:
    """del container[key]."""
    key = f.pop()
    t.set_item(f.pop(), key, None)


# ------------------------------------------------------------------------ locals, cells, globals, attributes, imports


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


@OPCODES.rule("DELETE_DEREF")
def delete_deref(t: Tracer, f: Frame, i: Instruction) -> None:
    """Empty a cell."""
    if f.cells[i.arg].load(t) is None:
        t.raise_(UnboundLocalError, f"cannot access local variable '{i.arg}' where it is not associated with a value")
    f.cells[i.arg].store(t, None)


def read_global(t: Tracer, f: Frame, name: str) -> Value:
    found = t.namespace(f.globals).read(t, name)
    if found is not None:
        return found
    if hasattr(builtins, name):
        return t.from_python(getattr(builtins, name))
    t.raise_(NameError, f"name '{name}' is not defined", name=Constant(name))


@OPCODES.rule("DELETE_GLOBAL")
def delete_global(t: Tracer, f: Frame, i: Instruction) -> None:
    """Unbind a global."""
    if t.namespace(f.globals).read(t, i.arg) is None:
        t.raise_(NameError, f"name '{i.arg}' is not defined", name=Constant(i.arg))
    t.namespace(f.globals).write(t, i.arg, None)


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


def _super(t: Tracer, f: Frame, i: Instruction) -> Value:
    bound = f.pop()
    start = f.pop()
    function = f.pop()
    name, _ = i.arg
    if isinstance(function, ClassValue) and function.cls is super and isinstance(start, ClassValue):
        return t.get_attr(SuperValue(start.cls, bound), name)
    return t.get_attr(t.call(function, [start, bound], {}), name)


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


short({
    "NOP": lambda t, f, i: None,
    "PUSH_NULL": lambda t, f, i: f.push(NULL),
    "COPY": lambda t, f, i: f.push(f.stack[-i.arg]),
    "LOAD_CONST": lambda t, f, i: f.push(t.from_python(i.arg)),
    "COMPARE_OP": lambda t, f, i: f.push(t.compare(i.arg, *f.pop_many(2))),
    "IS_OP": lambda t, f, i: f.push(Constant(t.is_same(*f.pop_many(2)) == (i.arg == "is"))),
    "CONTAINS_OP": lambda t, f, i: f.push(Constant(t.contains(f.pop(), f.pop()) == (i.arg == "in"))),
    "TO_BOOL": lambda t, f, i: f.push(Constant(t.truth(f.pop()))),
    "BINARY_SUBSCR": lambda t, f, i: f.push(t.get_item(*f.pop_many(2))),
    "STORE_DEREF": lambda t, f, i: f.cells[i.arg].store(t, f.pop()),
    "LOAD_CLOSURE": lambda t, f, i: f.push(f.cells[i.arg]),
    "LOAD_GLOBAL": lambda t, f, i: f.push(read_global(t, f, i.arg)),
    "STORE_GLOBAL": lambda t, f, i: t.namespace(f.globals).write(t, i.arg, f.pop()),
    "LOAD_BUILD_CLASS": lambda t, f, i: f.push(BuiltinValue(builtins.__build_class__)),
    "LOAD_ASSERTION_ERROR": lambda t, f, i: f.push(ClassValue(AssertionError)),
    "LOAD_ATTR": lambda t, f, i: f.push(t.get_attr(f.pop(), i.arg)),
    "LOAD_METHOD": lambda t, f, i: push_callable(f, t.get_attr(f.pop(), i.arg)),
    "DELETE_ATTR": lambda t, f, i: f.pop().set_attr(t, i.arg, None),
    "LOAD_SUPER_ATTR": lambda t, f, i: f.push(_super(t, f, i)),
    "LOAD_SUPER_METHOD": lambda t, f, i: push_callable(f, _super(t, f, i)),
})  # fmt: skip
