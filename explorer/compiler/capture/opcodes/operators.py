"""The table of instruction rules; the stack itself, operators and items; names: locals, cells, globals, attributes,
imports; making containers, strings and functions, and taking them apart."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from explorer.compiler.bytecode.normal import NULL_FIRST
from explorer.compiler.bytecode.ops import OPS
from explorer.compiler.capture import reasons
from explorer.compiler.capture.library.numbers import joined, text_of
from explorer.compiler.capture.model import binary, compare, get_item, is_same, unary
from explorer.compiler.capture.resume import ASIDE
from explorer.compiler.capture.values.base import Cell, Frame, Tracer, Value
from explorer.compiler.capture.values.classes import ClassValue, PyModuleValue, SuperValue, namespace
from explorer.compiler.capture.values.constant import NULL, Constant, SizeValue
from explorer.compiler.capture.values.functions import BoundMethod, BuiltinValue, CellAside, FunctionValue
from explorer.compiler.capture.values.mappings import DictValue, SetValue
from explorer.compiler.capture.values.objects import MISSING, look_up, mapping_pairs
from explorer.compiler.capture.values.sequences import ListValue, SliceValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.libraries import name_in_messages
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
        f.push(Constant(not value.truth(t)))
    else:
        f.push(unary(t, i.arg, value))


@OPCODES.rule("BINARY_OP")
def binary_op(t: Tracer, f: Frame, i: Instruction) -> None:
    """left operator right."""
    right = f.pop()
    f.push(binary(t, i.arg, f.pop(), right))


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
    """Push a local. A local that only gets another name is not read; neither is an argument before its call."""
    is_unread = _is_renamed(f) or _is_argument(f)
    found = f.locals[i.arg] = (f.unread_local(i.arg) if is_unread else None) or f.load_local(t, i.arg)
    f.push(CellAside(found) if isinstance(found, Cell) and i.arg.startswith(ASIDE) else found)


def _is_renamed(f: Frame) -> bool:
    """Whether what is pushed now is stored next; a continuation deletes its arguments and jumps before it."""
    steps, position = f.code.instructions, f.position
    while steps[position].op == "DELETE_FAST":
        position += 1
    if steps[position].op == "JUMP":
        position = f.index[steps[position].target or ""]
    return steps[position].op == "STORE_FAST"


def _is_argument(f: Frame) -> bool:
    """Whether what is pushed now is an argument of a call, with others that are only pushed."""
    steps, position = f.code.instructions, f.position
    while steps[position].op in ("LOAD_FAST", "LOAD_CONST"):
        position += 1
    return steps[position].op == "CALL" and steps[position].arg[0] > position - f.position


@OPCODES.rule("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(t: Tracer, f: Frame, i: Instruction) -> None:
    """Put a local or a cell aside, for an inlined comprehension."""
    if i.arg in f.cells:
        f.push(CellAside(f.cells.pop(i.arg)))
        f.unbind(i.arg)
        return
    f.push(f.load_local(t, i.arg) if f.is_bound(i.arg) else NULL)
    f.unbind(i.arg)


@OPCODES.rule("STORE_FAST")
def store_fast(t: Tracer, f: Frame, i: Instruction) -> None:
    """Bind a local, or put back what an inlined comprehension has put aside."""
    value = f.pop()
    f.cells.pop(i.arg, None)
    if value is NULL:
        f.unbind(i.arg)
    elif isinstance(value, CellAside):
        f.cells[i.arg] = value.cell
        f.unbind(i.arg)
    else:
        f.locals[i.arg] = value


@OPCODES.rule("MAKE_CELL")
def make_cell(t: Tracer, f: Frame, i: Instruction) -> None:
    """A fresh cell for a variable of an inlined comprehension, for each time that it runs."""
    f.cells[i.arg] = Cell(f.locals.pop(i.arg, None))


@OPCODES.rule("DELETE_FAST")
def delete_fast(t: Tracer, f: Frame, i: Instruction) -> None:
    """Unbind a local."""
    if not f.is_bound(i.arg):
        f.load_local(t, i.arg)  # raises
    f.unbind(i.arg)


@OPCODES.rule("LOAD_DEREF")
def load_deref(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push what a cell holds."""
    found = f.cells[i.arg].load(t)
    if found is None and f.cells[i.arg].given is not None and not f.cells[i.arg].changed and i.arg in f.code.frees:
        t.tape.refuse_frame(f"reading {i.arg}, which nothing is bound to: no guard asks whether it is")
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
    found = namespace(t, f.globals).read(t, name)
    if found is not None:
        return found
    if hasattr(builtins, name):
        return t.from_python(getattr(builtins, name))
    t.raise_(NameError, f"name '{name}' is not defined", name=Constant(name))


@OPCODES.rule("DELETE_GLOBAL")
def delete_global(t: Tracer, f: Frame, i: Instruction) -> None:
    """Unbind a global."""
    if namespace(t, f.globals).read(t, i.arg) is None:
        t.raise_(NameError, f"name '{i.arg}' is not defined", name=Constant(i.arg))
    namespace(t, f.globals).write(t, i.arg, None)


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
    return t.get_attr(function.call(t, [start, bound], {}), name)


@OPCODES.rule("IMPORT_NAME")
def import_name(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push a module that is loaded already; loading one is left to Python."""
    names = f.pop().known(t)
    level = f.pop().known(t)
    name = i.arg
    if level:
        name = importlib.util.resolve_name("." * level + name, f.globals.get("__package__") or "")
    if name not in sys.modules:
        unsupported(reasons.UNTRACEABLE_CALL, f"import of {name}")
    found = sys.modules[name] if names else sys.modules[name.partition(".")[0]]
    f.push(PyModuleValue(found, t.objects.known(found)))


@OPCODES.rule("IMPORT_FROM")
def import_from(t: Tracer, f: Frame, i: Instruction) -> None:
    """Push a name of a module."""
    module = f.stack[-1]
    found = t.attr_or_none(module, i.arg)
    if found is None and isinstance(module, PyModuleValue):
        whole = f"{module.module.__name__}.{i.arg}"
        if whole not in sys.modules:
            unsupported(reasons.UNTRACEABLE_CALL, f"import of {whole}")
        found = PyModuleValue(sys.modules[whole], Attr(t.objects.known(module.module), i.arg))
    f.push(found if found is not None else Constant(None))


short({
    "NOP": lambda t, f, i: None,
    "PUSH_NULL": lambda t, f, i: f.push(NULL),
    "COPY": lambda t, f, i: f.push(f.stack[-i.arg]),
    "LOAD_CONST": lambda t, f, i: f.push(t.from_python(i.arg)),
    "COMPARE_OP": lambda t, f, i: f.push(compare(t, i.arg, *f.pop_many(2))),
    "IS_OP": lambda t, f, i: f.push(Constant(is_same(t, *f.pop_many(2)) == (i.arg == "is"))),
    "CONTAINS_OP": lambda t, f, i: f.push(Constant(t.contains(f.pop(), f.pop()) == (i.arg == "in"))),
    "TO_BOOL": lambda t, f, i: f.push(Constant(f.pop().truth(t))),
    "BINARY_SUBSCR": lambda t, f, i: f.push(get_item(t, *f.pop_many(2))),
    "STORE_DEREF": lambda t, f, i: f.cells[i.arg].store(t, f.pop()),
    "LOAD_CLOSURE": lambda t, f, i: f.push(f.cells[i.arg]),
    "LOAD_GLOBAL": lambda t, f, i: f.push(read_global(t, f, i.arg)),
    "STORE_GLOBAL": lambda t, f, i: namespace(t, f.globals).write(t, i.arg, f.pop()),
    "LOAD_BUILD_CLASS": lambda t, f, i: f.push(BuiltinValue(builtins.__build_class__)),
    "LOAD_ASSERTION_ERROR": lambda t, f, i: f.push(ClassValue(AssertionError)),
    "LOAD_ATTR": lambda t, f, i: f.push(t.get_attr(f.pop(), i.arg)),
    "LOAD_METHOD": lambda t, f, i: push_callable(f, t.get_attr(f.pop(), i.arg)),
    "DELETE_ATTR": lambda t, f, i: f.pop().set_attr(t, i.arg, None),
    "LOAD_SUPER_ATTR": lambda t, f, i: f.push(_super(t, f, i)),
    "LOAD_SUPER_METHOD": lambda t, f, i: push_callable(f, _super(t, f, i)),
})  # fmt: skip


# --------------------------------------------------------------------------------------- containers, strings, functions


def is_mapping(t: Tracer, value: Value) -> bool:
    return look_up(t, value.python_type(), "keys") is not MISSING


def is_iterable(t: Tracer, value: Value) -> bool:
    found = (look_up(t, value.python_type(), name) for name in ("__iter__", "__getitem__"))
    return any(each not in (MISSING, None) for each in found)


def called(pair: Sequence[Value]) -> Value:
    """The callable, from the two values below the arguments: the one beside NULL, or the one before its self."""
    return next(value for value in pair if value is not NULL)


def name_of_call(t: Tracer, function: Value) -> str:
    """As in Python's errors about the arguments of a call."""
    names = [t.get_attr(function, name).known(t) for name in ("__module__", "__qualname__")]
    return ".".join(name for name in names if name not in (None, "builtins")) + "()"


def raise_not_unpacked(t: Tracer, function: Value, wanted: str, given: Value) -> None:
    what = f"{name_of_call(t, function)} argument after {wanted}"
    t.raise_(TypeError, f"{what}, not {name_in_messages(given.python_type())}")


@OPCODES.rule("BUILD_MAP")
def build_map(t: Tracer, f: Frame, i: Instruction) -> None:
    """A dict of the topmost pairs."""
    flat = f.pop_many(2 * i.arg)
    f.push(DictValue.of(zip(flat[::2], flat[1::2], strict=True)))


@OPCODES.rule("BUILD_SLICE")
def build_slice(t: Tracer, f: Frame, i: Instruction) -> None:
    """A slice."""
    parts = f.pop_many(i.arg)
    f.push(SliceValue(*parts, *([Constant(None)] * (3 - len(parts)))))


def _into(name: str) -> Step:
    """What adds the top to a container of the stack."""

    def add(t: Tracer, f: Frame, i: Instruction) -> None:
        item = f.pop()
        f.stack[-i.arg].method(t, name, [item], {})

    return add


@OPCODES.rule("MAP_ADD")
def map_add(t: Tracer, f: Frame, i: Instruction) -> None:
    """Add to the dict of a comprehension."""
    value = f.pop()
    key = f.pop()
    f.stack[-i.arg].set_item(t, key, value)


@OPCODES.rule("LIST_EXTEND")
def list_extend(t: Tracer, f: Frame, i: Instruction) -> None:
    """[*items]."""
    items = f.pop()
    if not is_iterable(t, items):
        t.raise_(TypeError, f"Value after * must be an iterable, not {name_in_messages(items.python_type())}")
    f.stack[-i.arg].method(t, "extend", [items], {})


@OPCODES.rule("DICT_UPDATE")
def dict_update(t: Tracer, f: Frame, i: Instruction) -> None:
    """{**mapping}."""
    mapping = f.pop()
    if not is_mapping(t, mapping):
        t.raise_(TypeError, f"'{name_in_messages(mapping.python_type())}' object is not a mapping")
    f.stack[-i.arg].method(t, "update", [mapping], {})


@OPCODES.rule("DICT_MERGE")
def dict_merge(t: Tracer, f: Frame, i: Instruction) -> None:
    """f(**mapping): TypeError for a name given twice."""
    mapping = f.pop()
    into, function = f.stack[-i.arg], called(f.stack[-i.arg - 3 : -i.arg - 1])
    assert isinstance(into, DictValue)
    if not is_mapping(t, mapping):
        raise_not_unpacked(t, function, "** must be a mapping", mapping)
    pairs, names = mapping_pairs(t, mapping), set(into.entries)
    for key, _ in pairs:
        if key.key() in names:
            t.raise_(TypeError, f"{name_of_call(t, function)} got multiple values for keyword argument {key.key()!r}")
        names.add(key.key())
    for key, value in pairs:  # nobody but the call sees this dictionary, so that it is no effect
        into.put(key, value)


@OPCODES.rule("UNPACK_SEQUENCE")
def unpack_sequence(t: Tracer, f: Frame, i: Instruction) -> None:
    """Items onto the stack, the first on top."""
    value = f.pop()
    if isinstance(value, TensorValue) and value.fake.dim() > 0 and value.fake.shape[0] != i.arg:
        few = "not enough values to unpack" if value.fake.shape[0] < i.arg else "too many values to unpack"
        t.raise_(ValueError, f"{few} (expected {i.arg})")
    items = value.unpack(t)
    if len(items) < i.arg:
        t.raise_(ValueError, f"not enough values to unpack (expected {i.arg}, got {len(items)})")
    if len(items) > i.arg:
        t.raise_(ValueError, f"too many values to unpack (expected {i.arg})")
    f.stack.extend(reversed(items))


@OPCODES.rule("UNPACK_EX")
def unpack_ex(t: Tracer, f: Frame, i: Instruction) -> None:
    """first, *middle, last."""
    before, after = i.arg
    items = f.pop().unpack(t)
    if len(items) < before + after:
        t.raise_(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    middle = ListValue(items[before : len(items) - after])
    parts: list[Value] = [*items[:before], middle, *items[len(items) - after :]]
    f.stack.extend(reversed(parts))


@OPCODES.rule("FORMAT_WITH_SPEC")
def format_with_spec(t: Tracer, f: Frame, i: Instruction) -> None:
    """format(value, spec)."""
    spec = f.pop().known(t)
    f.push(text_of(t, f.pop(), "format", spec))


@OPCODES.rule("MAKE_FUNCTION")
def make_function(t: Tracer, f: Frame, i: Instruction) -> None:
    """A function over the frame's globals and cells."""
    code = f.pop().real()
    given: dict[str, Any] = {name: f.pop() for name in reversed(i.arg)}
    cells = given["closure"].unpack(t) if "closure" in given else []
    if not all(isinstance(cell, Cell) for cell in cells):
        unsupported(reasons.OPERATION, "a closure that is not made of cells")
    f.push(
        FunctionValue(
            code,
            f.globals,
            name=code.co_qualname,
            made_defaults=given["defaults"].unpack(t) if "defaults" in given else [],
            made_kwdefaults={k.known(t): v for k, v in mapping_pairs(t, given["kwdefaults"])}
            if "kwdefaults" in given
            else {},
            made_closure=[cell for cell in cells if isinstance(cell, Cell)],
            annotations=_annotations(t, given.get("annotations")),
        )
    )


def _annotations(t: Tracer, given: Value | None) -> Value | None:
    if not isinstance(given, TupleValue):
        return given
    flat = given.unpack(t)
    return DictValue.of(zip(flat[::2], flat[1::2], strict=True))


short({
    "BUILD_TUPLE": lambda t, f, i: f.push(TupleValue(f.pop_many(i.arg))),
    "BUILD_LIST": lambda t, f, i: f.push(ListValue(f.pop_many(i.arg))),
    "BUILD_SET": lambda t, f, i: f.push(SetValue.of(f.pop_many(i.arg))),
    "BUILD_CONST_KEY_MAP": lambda t, f, i: f.push(DictValue.of(zip(f.pop().unpack(t), f.pop_many(i.arg), strict=True))),
    "BUILD_STRING": lambda t, f, i: f.push(joined(t, f.pop_many(i.arg))),
    "CONVERT_VALUE": lambda t, f, i: f.push(text_of(t, f.pop(), i.arg)),
    "FORMAT_SIMPLE": lambda t, f, i: f.push(text_of(t, f.pop(), "format")),
    "LIST_APPEND": _into("append"),
    "SET_ADD": _into("add"),
    "SET_UPDATE": _into("update"),
})  # fmt: skip
