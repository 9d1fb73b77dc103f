"""Making containers, strings and functions, and taking them apart."""

from __future__ import annotations

from typing import Any

from explorer.compiler.capture import reasons
from explorer.compiler.capture.opcodes.control import is_iterable, is_mapping, name_of_call, raise_not_unpacked
from explorer.compiler.capture.opcodes.operators import OPCODES, Step, short
from explorer.compiler.capture.values.base import Frame, Tracer, Value
from explorer.compiler.capture.values.constant import Constant
from explorer.compiler.capture.values.functions import CellValue, FunctionValue
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.sequences import ListValue, SliceValue, TupleValue
from explorer.compiler.capture.values.sets import SetValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.classes import name_in_messages
from explorer.core.reasons import unsupported
from explorer.ir.bytecode import Instruction


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
    into, function = f.stack[-i.arg], f.stack[-i.arg - 2]
    assert isinstance(into, DictValue)
    if not is_mapping(t, mapping):
        raise_not_unpacked(t, function, "** must be a mapping", mapping)
    for key, value in t.mapping_pairs(mapping):
        if key.key() in into.entries:
            t.raise_(TypeError, f"{name_of_call(t, function)} got multiple values for keyword argument {key.key()!r}")
        into.put(key, value)


@OPCODES.rule("UNPACK_SEQUENCE")
def unpack_sequence(t: Tracer, f: Frame, i: Instruction) -> None:
    """Items onto the stack, the first on top."""
    value = f.pop()
    if isinstance(value, TensorValue) and value.fake.dim() > 0 and value.fake.shape[0] != i.arg:
        few = "not enough values to unpack" if value.fake.shape[0] < i.arg else "too many values to unpack"
        t.raise_(ValueError, f"{few} (expected {i.arg})")
    items = t.items(value)
    if len(items) < i.arg:
        t.raise_(ValueError, f"not enough values to unpack (expected {i.arg}, got {len(items)})")
    if len(items) > i.arg:
        t.raise_(ValueError, f"too many values to unpack (expected {i.arg})")
    f.stack.extend(reversed(items))


@OPCODES.rule("UNPACK_EX")
def unpack_ex(t: Tracer, f: Frame, i: Instruction) -> None:
    """first, *middle, last."""
    before, after = i.arg
    items = t.items(f.pop())
    if len(items) < before + after:
        t.raise_(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    middle = ListValue(items[before : len(items) - after])
    parts: list[Value] = [*items[:before], middle, *items[len(items) - after :]]
    f.stack.extend(reversed(parts))


@OPCODES.rule("FORMAT_WITH_SPEC")
def format_with_spec(t: Tracer, f: Frame, i: Instruction) -> None:
    """format(value, spec)."""
    spec = t.constant_of(f.pop())
    f.push(t.text_of(f.pop(), "format", spec))


@OPCODES.rule("MAKE_FUNCTION")
def make_function(t: Tracer, f: Frame, i: Instruction) -> None:
    """A function over the frame's globals and cells."""
    code = f.pop().real()
    given: dict[str, Any] = {name: f.pop() for name in reversed(i.arg)}
    cells = t.items(given["closure"]) if "closure" in given else []
    if not all(isinstance(cell, CellValue) for cell in cells):
        unsupported(reasons.OPERATION, "a closure that is not made of cells")
    f.push(
        FunctionValue(
            code,
            f.globals,
            name=code.co_qualname,
            made_defaults=t.items(given["defaults"]) if "defaults" in given else [],
            made_kwdefaults={t.constant_of(k): v for k, v in t.mapping_pairs(given["kwdefaults"])}
            if "kwdefaults" in given
            else {},
            made_closure=[cell for cell in cells if isinstance(cell, CellValue)],
            annotations=_annotations(t, given.get("annotations")),
        )
    )


def _annotations(t: Tracer, given: Value | None) -> Value | None:
    if not isinstance(given, TupleValue):
        return given
    flat = t.items(given)
    return DictValue.of(zip(flat[::2], flat[1::2], strict=True))


short({
    "BUILD_TUPLE": lambda t, f, i: f.push(TupleValue(f.pop_many(i.arg))),
    "BUILD_LIST": lambda t, f, i: f.push(ListValue(f.pop_many(i.arg))),
    "BUILD_SET": lambda t, f, i: f.push(SetValue.of(f.pop_many(i.arg))),
    "BUILD_CONST_KEY_MAP": lambda t, f, i: f.push(DictValue.of(zip(t.items(f.pop()), f.pop_many(i.arg), strict=True))),
    "BUILD_STRING": lambda t, f, i: f.push(Constant("".join(t.constant_of(part) for part in f.pop_many(i.arg)))),
    "CONVERT_VALUE": lambda t, f, i: f.push(t.text_of(f.pop(), i.arg)),
    "FORMAT_SIMPLE": lambda t, f, i: f.push(t.text_of(f.pop(), "format")),
    "LIST_APPEND": _into("append"),
    "SET_ADD": _into("add"),
    "SET_UPDATE": _into("update"),
})  # fmt: skip
