"""Rules for the opcodes that are the same in all versions; normal.py has those that differ."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compiler.bytecode.rules import (
    READING,
    WRITING,
    Emit,
    Place,
    Raw,
    Step,
    Tables,
    counted,
    listed,
    named,
    plain,
    slotted,
    targeted,
)
from explorer.ir.bytecode import Instruction

for _name in (
    "NOP POP_TOP PUSH_NULL BINARY_SUBSCR STORE_SUBSCR DELETE_SUBSCR GET_LEN MATCH_MAPPING MATCH_SEQUENCE MATCH_KEYS "
    "PUSH_EXC_INFO CHECK_EXC_MATCH CHECK_EG_MATCH WITH_EXCEPT_START GET_AITER GET_ANEXT BEFORE_ASYNC_WITH BEFORE_WITH "
    "END_ASYNC_FOR GET_ITER GET_YIELD_FROM_ITER LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR SETUP_ANNOTATIONS POP_EXCEPT "
    "RETURN_VALUE"
).split():
    plain(_name)
for _name in (
    "COPY SWAP BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_CONST_KEY_MAP BUILD_STRING BUILD_SLICE UNPACK_SEQUENCE "
    "LIST_APPEND SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE DICT_MERGE DICT_UPDATE RAISE_VARARGS RERAISE GET_AWAITABLE "
    "MATCH_CLASS"
).split():
    counted(_name)
for _name in "STORE_ATTR DELETE_ATTR STORE_GLOBAL DELETE_GLOBAL LOAD_NAME STORE_NAME DELETE_NAME".split():
    named(_name)
for _name in "IMPORT_NAME IMPORT_FROM".split():
    named(_name)
for _name in "STORE_FAST DELETE_FAST LOAD_DEREF STORE_DEREF DELETE_DEREF MAKE_CELL".split():
    slotted(_name)
for _name in "FOR_ITER SEND".split():
    targeted(_name)
listed("BINARY_OP", "+ & // << @ * % | ** >> - / ^ += &= //= <<= @= *= %= |= **= >>= -= /= ^=".split())
listed("IS_OP", ("is", "is not"))
listed("CONTAINS_OP", ("in", "not in"))


@READING.rule(("LOAD_CONST",))
def read_load_const(raws: Sequence[Raw], tables: Tables) -> list[Step]:
    return [Step("LOAD_CONST", tables.consts[raws[0].arg])]


@WRITING.rule(("LOAD_CONST",))
def write_load_const(run: Sequence[Instruction], place: Place) -> list[Emit]:
    return [Emit("LOAD_CONST", place.const(run[0].arg))]


@READING.rule(("UNPACK_EX",))
def read_unpack_ex(raws: Sequence[Raw], tables: Tables) -> list[Step]:
    return [Step("UNPACK_EX", (raws[0].arg & 0xFF, raws[0].arg >> 8))]


@WRITING.rule(("UNPACK_EX",))
def write_unpack_ex(run: Sequence[Instruction], place: Place) -> list[Emit]:
    before, after = run[0].arg
    return [Emit("UNPACK_EX", before | after << 8)]


@READING.rule(("CALL_FUNCTION_EX",))
def read_call_function_ex(raws: Sequence[Raw], tables: Tables) -> list[Step]:
    return [Step("CALL_FUNCTION_EX", bool(raws[0].arg & 1))]


@WRITING.rule(("CALL_FUNCTION_EX",))
def write_call_function_ex(run: Sequence[Instruction], place: Place) -> list[Emit]:
    return [Emit("CALL_FUNCTION_EX", int(run[0].arg))]
