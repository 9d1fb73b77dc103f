"""Each Python version's opcodes against the normalized instruction set: the only file that knows the version.

`OPS` is the set itself, and rules.py has those that all versions share. What follows are those on which they differ,
a section for each subject.
"""

from __future__ import annotations

import dis
import functools
import opcode
import sys
from collections.abc import Sequence

import explorer.compiler.bytecode.rules  # noqa: F401  (fills the tables)
from explorer.compiler.bytecode.ops import OPS as OPS
from explorer.compiler.bytecode.rules import (
    NEXT,
    OPCODE,
    READING,
    VERSION,
    WRITING,
    Draft,
    Emit,
    Raw,
    Tables,
    WritingContext,
    alias,
    lengths,
    listed,
    named,
    plain,
    slotted,
)
from explorer.core.reasons import Unsupported, Why
from explorer.ir.bytecode import Instruction

PY312 = sys.version_info >= (3, 12)
PY313 = sys.version_info >= (3, 13)

NULL_FIRST = not PY313
"""Whether the null of a call lies under the callable; it lies between callable and arguments otherwise."""

HEADROOM = 1
"""The most values that the opcodes of one normalized instruction hold above what the instruction itself does."""

CHECKED_LOADS = PY312
"""Whether LOAD_FAST trusts that the local is bound, so that a load that may find it unbound is another opcode."""

LANDINGS: dict[str, tuple[str, ...]] = {"FOR_ITER": ("END_FOR", "POP_TOP") if PY313 else ("END_FOR",) if PY312 else ()}
"""Opcodes that must lie right before the target of a jump by the key; they run or are skipped, to the same end."""

MARKS: dict[str, str] = {} if PY312 else {"SEND": "END_SEND"}
"""The normalized instruction at the target of a jump by the key, where this version has no opcode for it."""

PROLOGUE = frozenset({"COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "RESUME"})
"""Opcodes that open a code object; they follow from its variables and flags."""


@functools.cache
def caches(name: str) -> int:
    """Count of inline cache entries after the opcode."""
    entries = vars(opcode)["_inline_cache_entries"]  # by name since 3.13, by number before
    return int(entries.get(name, 0) if isinstance(entries, dict) else entries[dis.opmap[name]])


# Suspending: the RESUME after a YIELD_VALUE says for what the frame waits.

_WAITS = ("", "yield", "from", "await")


READING.rule(("YIELD_VALUE", "RESUME"))(lambda raws, tables: [Draft("YIELD_VALUE", _WAITS[raws[1].arg & 3])])


@WRITING.rule(("YIELD_VALUE",))
def write_yield_value(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
    waits, depth = run[0].arg, place.nesting()
    resume = _WAITS.index(waits)
    if PY313:  # 4: nothing but the generator's own handler encloses, so that close() need not resume it
        return [Emit("YIELD_VALUE", int(waits != "yield")), Emit("RESUME", resume | 4 * (depth == 1))]
    return [Emit("YIELD_VALUE", depth if PY312 else 0), Emit("RESUME", resume)]


if PY312:
    plain("CLEANUP_THROW")
    plain("END_SEND")
else:  # SEND drops the receiver itself when it jumps
    WRITING.rule(("END_SEND",))(lambda run, place: [])


# Locals, globals, cells and attributes

if not PY312:
    slotted("LOAD_FAST")
    slotted("LOAD_CLOSURE")
    named("LOAD_ATTR")
    named("LOAD_METHOD")

    @READING.rule(("LOAD_CLASSDEREF",))
    def read_load_classderef(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        return [Draft("LOAD_LOCALS"), Draft("LOAD_FROM_DICT_OR_DEREF", tables.slots[raws[0].arg])]

    @WRITING.rule(("LOAD_LOCALS", "LOAD_FROM_DICT_OR_DEREF"))
    def write_load_locals_load_from_dict_or_deref(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
        return [Emit("LOAD_CLASSDEREF", place.slot(run[1].arg))]

else:
    plain("LOAD_LOCALS")
    slotted("LOAD_FROM_DICT_OR_DEREF")
    named("LOAD_FROM_DICT_OR_GLOBALS")
    slotted("LOAD_FAST_AND_CLEAR")

    def _load(slot: int, tables: Tables) -> Draft:
        """3.13 loads a cell by LOAD_FAST as well; where a comprehension takes over the slot it may hold a value."""
        name = tables.slots[slot]
        return Draft("LOAD_CLOSURE" if PY313 and name in tables.captured - tables.cleared else "LOAD_FAST", name)

    READING.rule(("LOAD_FAST",), ("LOAD_FAST_CHECK",))(lambda raws, tables: [_load(raws[0].arg, tables)])

    @WRITING.rule(("LOAD_FAST",))
    def write_load_fast(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
        return [Emit("LOAD_FAST" if place.bound(run[0]) else "LOAD_FAST_CHECK", place.slot(run[0].arg))]

    @READING.rule(("LOAD_ATTR",))
    def read_load_attr(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        return [Draft("LOAD_METHOD" if raws[0].arg & 1 else "LOAD_ATTR", tables.names[raws[0].arg >> 1])]

    @WRITING.rule(("LOAD_ATTR",), ("LOAD_METHOD",))
    def write_load_attr(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
        return [Emit("LOAD_ATTR", place.name(run[0].arg) << 1 | (run[0].op == "LOAD_METHOD"))]

    @READING.rule(("LOAD_SUPER_ATTR",))
    def read_load_super_attr(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        arg = raws[0].arg
        return [Draft("LOAD_SUPER_METHOD" if arg & 1 else "LOAD_SUPER_ATTR", (tables.names[arg >> 2], bool(arg & 2)))]

    @WRITING.rule(("LOAD_SUPER_ATTR",), ("LOAD_SUPER_METHOD",))
    def write_load_super_attr(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
        name, written = run[0].arg
        return [Emit("LOAD_SUPER_ATTR", place.name(name) << 2 | written << 1 | (run[0].op == "LOAD_SUPER_METHOD"))]


if PY313:
    WRITING.rule(("LOAD_CLOSURE",))(lambda run, place: [Emit("LOAD_FAST", place.slot(run[0].arg))])

    @READING.rule(("LOAD_FAST_LOAD_FAST",))
    def read_load_fast_load_fast(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        return [_load(raws[0].arg >> 4, tables), _load(raws[0].arg & 15, tables)]

    @READING.rule(("STORE_FAST_LOAD_FAST",))
    def read_store_fast_load_fast(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        return [Draft("STORE_FAST", tables.slots[raws[0].arg >> 4]), _load(raws[0].arg & 15, tables)]

    @READING.rule(("STORE_FAST_STORE_FAST",))
    def read_store_fast_store_fast(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        return [Draft("STORE_FAST", tables.slots[slot]) for slot in (raws[0].arg >> 4, raws[0].arg & 15)]

    @WRITING.rule(("LOAD_FAST", "LOAD_FAST"), ("STORE_FAST", "LOAD_FAST"), ("STORE_FAST", "STORE_FAST"))
    def write_load_fast_load_fast(run: Sequence[Instruction], place: WritingContext) -> list[Emit] | None:
        first, second = (place.slot(i.arg) for i in run)
        unbound = any(i.op == "LOAD_FAST" and not place.bound(i) for i in run)
        if unbound or first > 15 or second > 15 or run[0].span != run[1].span:
            return None
        return [Emit(f"{run[0].op}_{run[1].op}", first << 4 | second)]

elif PY312:
    slotted("LOAD_CLOSURE")

_GLOBAL_RUN = ("PUSH_NULL", "LOAD_GLOBAL") if NULL_FIRST else ("LOAD_GLOBAL", "PUSH_NULL")


@READING.rule(("LOAD_GLOBAL",))
def read_load_global(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
    load = Draft("LOAD_GLOBAL", tables.names[raws[0].arg >> 1])
    if not raws[0].arg & 1:
        return [load]
    return [Draft("PUSH_NULL"), load] if NULL_FIRST else [load, Draft("PUSH_NULL")]


@WRITING.rule(("LOAD_GLOBAL",), _GLOBAL_RUN)
def write_load_global(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
    name = run[_GLOBAL_RUN.index("LOAD_GLOBAL")].arg if len(run) == 2 else run[0].arg
    return [Emit("LOAD_GLOBAL", place.name(name) << 1 | (len(run) == 2))]


# Operators

_COMPARE = ("<", "<=", "==", "!=", ">", ">=")
_COMPARE_SHIFT = 5 if PY313 else 4 if PY312 else 0
_COMPARE_TO_BOOL = 16 if PY313 else 0
# What the specialized forms of COMPARE_OP look up, in the low bits since 3.12: unordered 1, less 2, greater 4, equal 8.
_COMPARE_MASK = {"<": 2, "<=": 10, "==": 8, "!=": 7, ">": 4, ">=": 12}
_UNARY = {"-": "UNARY_NEGATIVE", "~": "UNARY_INVERT", "not": "UNARY_NOT"}

for _sign, _name in _UNARY.items():
    alias(_name, "UNARY_OP", _sign)


@WRITING.rule(("UNARY_OP",))
def write_unary_op(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
    sign = run[0].arg
    if sign == "+":
        return [_intrinsic("CALL_INTRINSIC_1", "UNARY_POSITIVE")]
    return [*([Emit("TO_BOOL")] if PY313 and sign == "not" else []), Emit(_UNARY[sign])]


@READING.rule(("COMPARE_OP",))
def read_compare_op(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
    compare = Draft("COMPARE_OP", _COMPARE[raws[0].arg >> _COMPARE_SHIFT])
    return [compare, Draft("TO_BOOL")] if raws[0].arg & _COMPARE_TO_BOOL else [compare]


@WRITING.rule(("COMPARE_OP",))
def write_compare_op(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
    sign = run[0].arg
    return [Emit("COMPARE_OP", _COMPARE.index(sign) << _COMPARE_SHIFT | (_COMPARE_MASK[sign] if PY312 else 0))]


if PY313:
    plain("TO_BOOL")

    READING.rule(("TO_BOOL", "UNARY_NOT"))(lambda raws, tables: [Draft("UNARY_OP", "not")])

else:
    WRITING.rule(("TO_BOOL",))(lambda run, place: [Emit("UNARY_NOT"), Emit("UNARY_NOT")])


# Intrinsics: operations of the interpreter on one or two values, numbered since 3.12, opcodes of their own before.

_INTRINSICS = {
    "CALL_INTRINSIC_1": (
        "INVALID PRINT IMPORT_STAR STOPITERATION_ERROR ASYNC_GEN_WRAP UNARY_POSITIVE LIST_TO_TUPLE TYPEVAR PARAMSPEC "
        "TYPEVARTUPLE SUBSCRIPT_GENERIC TYPEALIAS"
    ).split(),
    "CALL_INTRINSIC_2": (
        "INVALID PREP_RERAISE_STAR TYPEVAR_WITH_BOUND TYPEVAR_WITH_CONSTRAINTS SET_FUNCTION_TYPE_PARAMS "
        "SET_TYPEPARAM_DEFAULT"
    ).split(),
}
_OWN_OPCODES = {"PRINT": "PRINT_EXPR"} | {
    name: name for name in ("IMPORT_STAR", "ASYNC_GEN_WRAP", "UNARY_POSITIVE", "LIST_TO_TUPLE", "PREP_RERAISE_STAR")
}
_PUSH_NOTHING = ("PRINT", "IMPORT_STAR")


def _intrinsic(op: str, name: str) -> Emit:
    if PY312:
        return Emit(op, _INTRINSICS[op].index(name))
    if name not in _OWN_OPCODES:
        raise Unsupported(Why(VERSION, f"{op} {name}"))
    return Emit(_OWN_OPCODES[name])


@WRITING.rule(("CALL_INTRINSIC_1",), ("CALL_INTRINSIC_2",))
def write_call_intrinsic(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
    emit = _intrinsic(run[0].op, run[0].arg)
    return [emit, Emit("LOAD_CONST", place.const(None))] if not PY312 and run[0].arg in _PUSH_NOTHING else [emit]


if PY312:

    @READING.rule(("CALL_INTRINSIC_1",), ("CALL_INTRINSIC_2",))
    def read_call_intrinsic(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        op, number = raws[0].name, raws[0].arg
        if not 0 < number < len(_INTRINSICS[op]):
            raise Unsupported(Why(OPCODE, f"{op} {number}"))
        name = _INTRINSICS[op][number]
        return [Draft("UNARY_OP", "+") if name == "UNARY_POSITIVE" else Draft(op, name)]

else:
    alias("UNARY_POSITIVE", "UNARY_OP", "+")
    alias("PREP_RERAISE_STAR", "CALL_INTRINSIC_2", "PREP_RERAISE_STAR")
    alias("ASYNC_GEN_WRAP", "CALL_INTRINSIC_1", "ASYNC_GEN_WRAP")
    alias("LIST_TO_TUPLE", "CALL_INTRINSIC_1", "LIST_TO_TUPLE")

    @WRITING.rule(("CALL_INTRINSIC_1", "POP_TOP"))
    def write_call_intrinsic_1_pop_top(run: Sequence[Instruction], place: WritingContext) -> list[Emit] | None:
        return [_intrinsic(run[0].op, run[0].arg)] if run[0].arg in _PUSH_NOTHING else None

    @READING.rule(("PRINT_EXPR",), ("IMPORT_STAR",))
    def read_print_expr(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        return [Draft("CALL_INTRINSIC_1", raws[0].name.removesuffix("_EXPR")), Draft("POP_TOP")]


# Slices: a slice that is only subscripted with has an opcode of its own since 3.12.

if PY312:
    READING.rule(("BINARY_SLICE",))(lambda raws, tables: [Draft("BUILD_SLICE", 2), Draft("BINARY_SUBSCR")])
    READING.rule(("STORE_SLICE",))(lambda raws, tables: [Draft("BUILD_SLICE", 2), Draft("STORE_SUBSCR")])

    @WRITING.rule(("BUILD_SLICE", "BINARY_SUBSCR"), ("BUILD_SLICE", "STORE_SUBSCR"))
    def write_slice_of(run: Sequence[Instruction], place: WritingContext) -> list[Emit] | None:
        return [Emit(run[1].op.replace("SUBSCR", "SLICE"))] if run[0].arg == 2 else None


# Formatting: one opcode with flags before 3.13.

_CONVERSIONS = ("", "str", "repr", "ascii")

if PY313:
    plain("FORMAT_SIMPLE")
    plain("FORMAT_WITH_SPEC")
    listed("CONVERT_VALUE", _CONVERSIONS)
else:

    @READING.rule(("FORMAT_VALUE",))
    def read_format_value(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        convert = [Draft("CONVERT_VALUE", _CONVERSIONS[raws[0].arg & 3])] if raws[0].arg & 3 else []
        if not raws[0].arg & 4:
            return [*convert, Draft("FORMAT_SIMPLE")]
        under_spec = [Draft("SWAP", 2), *convert, Draft("SWAP", 2)] if convert else []
        return [*under_spec, Draft("FORMAT_WITH_SPEC")]

    @WRITING.rule(("CONVERT_VALUE",), ("CONVERT_VALUE", "FORMAT_SIMPLE"))
    def write_convert_value(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
        return [Emit("FORMAT_VALUE", _CONVERSIONS.index(run[0].arg))]

    @WRITING.rule(("FORMAT_SIMPLE",), ("FORMAT_WITH_SPEC",))
    def write_format_simple(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
        return [Emit("FORMAT_VALUE", 4 * (run[0].op == "FORMAT_WITH_SPEC"))]

    @WRITING.rule(("SWAP", "CONVERT_VALUE", "SWAP", "FORMAT_WITH_SPEC"))
    def write_converted_format_with_spec(run: Sequence[Instruction], place: WritingContext) -> list[Emit] | None:
        if (run[0].arg, run[2].arg) != (2, 2):
            return None
        return [Emit("FORMAT_VALUE", 4 | _CONVERSIONS.index(run[1].arg))]


# Calls and functions: 3.11 prepares a call, and the keyword names come before it or, in 3.13, on the stack.

_ATTRIBUTES = ("defaults", "kwdefaults", "annotations", "closure")
_CALL = ("CALL",) if PY312 else ("PRECALL", "CALL")

READING.rule(_CALL)(lambda raws, tables: [Draft("CALL", (raws[0].arg, ()))])


@READING.rule(("LOAD_CONST", "CALL_KW") if PY313 else ("KW_NAMES", *_CALL))
def read_call_with_keywords(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
    return [Draft("CALL", (raws[1].arg, tables.consts[raws[0].arg]))]


@WRITING.rule(("CALL",))
def write_call(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
    count, keywords = run[0].arg
    if PY313 and keywords:
        return [Emit("LOAD_CONST", place.const(keywords)), Emit("CALL_KW", count)]
    return [*([Emit("KW_NAMES", place.const(keywords))] if keywords else []), *(Emit(name, count) for name in _CALL)]


if PY313:
    # Attributes are set one by one, the last pushed first: each pattern is one count of them.
    @READING.rule(*(("MAKE_FUNCTION", *["SET_FUNCTION_ATTRIBUTE"] * count) for count in range(5)))
    def read_make_function_and_attributes(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        return [Draft("MAKE_FUNCTION", tuple(_ATTRIBUTES[raw.arg.bit_length() - 1] for raw in reversed(raws[1:])))]

    @WRITING.rule(("MAKE_FUNCTION",))
    def write_make_function(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
        numbers = [1 << _ATTRIBUTES.index(name) for name in reversed(run[0].arg)]
        return [Emit("MAKE_FUNCTION"), *(Emit("SET_FUNCTION_ATTRIBUTE", number) for number in numbers)]

else:

    @READING.rule(("MAKE_FUNCTION",))
    def read_make_function(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        return [Draft("MAKE_FUNCTION", tuple(name for i, name in enumerate(_ATTRIBUTES) if raws[0].arg >> i & 1))]

    @WRITING.rule(("MAKE_FUNCTION",))
    def write_make_function(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
        return [Emit("MAKE_FUNCTION", sum(1 << _ATTRIBUTES.index(name) for name in run[0].arg))]


if PY312:

    @READING.rule(("RETURN_CONST",))
    def read_return_const(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        return [Draft("LOAD_CONST", tables.consts[raws[0].arg]), Draft("RETURN_VALUE")]

    @WRITING.rule(("LOAD_CONST", "RETURN_VALUE"))
    def write_load_const_return_value(run: Sequence[Instruction], place: WritingContext) -> list[Emit] | None:
        return [Emit("RETURN_CONST", place.const(run[0].arg))] if run[0].span == run[1].span else None


# Jumps: conditional jumps go backward in 3.11 alone, and test the truth of any value until 3.13.

_CONDITIONS = {"TRUE": "true", "FALSE": "false", "NONE": "none", "NOT_NONE": "not none"}
_SUFFIXES = {condition: suffix for suffix, condition in _CONDITIONS.items()}
_OPPOSITE = {"TRUE": "FALSE", "FALSE": "TRUE", "NONE": "NOT_NONE", "NOT_NONE": "NONE"}


@READING.rule(("JUMP_FORWARD",), ("JUMP_BACKWARD",), ("JUMP_BACKWARD_NO_INTERRUPT",))
def read_jump(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
    return [Draft("JUMP", "no interrupt" if raws[0].name.endswith("INTERRUPT") else None, raws[0].target)]


@WRITING.rule(("JUMP",))
def write_jump(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
    if not place.backward(run[0].target):
        return [Emit("JUMP_FORWARD", target=run[0].target)]
    return [Emit("JUMP_BACKWARD_NO_INTERRUPT" if run[0].arg else "JUMP_BACKWARD", target=run[0].target)]


if PY312:
    for _suffix, _condition in _CONDITIONS.items():
        alias(f"POP_JUMP_IF_{_suffix}", "POP_JUMP_IF", _condition)

    @WRITING.rule(("POP_JUMP_IF",))
    def write_pop_jump_if(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
        suffix, target = _SUFFIXES[run[0].arg], run[0].target
        test = [Emit("TO_BOOL")] if PY313 and "NONE" not in suffix else []
        if not place.backward(target):
            return [*test, Emit(f"POP_JUMP_IF_{suffix}", target=target)]
        return [*test, Emit(f"POP_JUMP_IF_{_OPPOSITE[suffix]}", target=NEXT), Emit("JUMP_BACKWARD", target=target)]

else:
    for _suffix, _condition in _CONDITIONS.items():
        alias(f"POP_JUMP_FORWARD_IF_{_suffix}", "POP_JUMP_IF", _condition)
        alias(f"POP_JUMP_BACKWARD_IF_{_suffix}", "POP_JUMP_IF", _condition)

    @WRITING.rule(("POP_JUMP_IF",))
    def write_pop_jump_if(run: Sequence[Instruction], place: WritingContext) -> list[Emit]:
        way = "BACKWARD" if place.backward(run[0].target) else "FORWARD"
        return [Emit(f"POP_JUMP_{way}_IF_{_SUFFIXES[run[0].arg]}", target=run[0].target)]

    @READING.rule(("JUMP_IF_TRUE_OR_POP",), ("JUMP_IF_FALSE_OR_POP",))
    def read_jump_if_true_or_pop(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        condition = "true" if "TRUE" in raws[0].name else "false"
        return [Draft("COPY", 1), Draft("POP_JUMP_IF", condition, raws[0].target), Draft("POP_TOP")]

    @WRITING.rule(("COPY", "POP_JUMP_IF", "POP_TOP"))
    def write_copy_pop_jump_if_pop_top(run: Sequence[Instruction], place: WritingContext) -> list[Emit] | None:
        copy, jump, _ = run
        if copy.arg != 1 or "none" in jump.arg or place.backward(jump.target):
            return None
        return [Emit(f"JUMP_IF_{_SUFFIXES[jump.arg]}_OR_POP", target=jump.target)]


if PY313:
    _GIVE_BOOL = ("COMPARE_OP", "IS_OP", "CONTAINS_OP", "CHECK_EXC_MATCH", "MATCH_MAPPING", "MATCH_SEQUENCE")

    @READING.rule(("TO_BOOL", "POP_JUMP_IF_TRUE"), ("TO_BOOL", "POP_JUMP_IF_FALSE"))
    def read_jump_on_truth(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        return READING[(raws[1].name,)](raws[1:], tables)

    @READING.rule(("COMPARE_OP", "POP_JUMP_IF_TRUE"), ("COMPARE_OP", "POP_JUMP_IF_FALSE"), ("COMPARE_OP", "UNARY_NOT"))
    def read_jump_on_comparison(raws: Sequence[Raw], tables: Tables) -> list[Draft]:
        compare = READING[("COMPARE_OP",)](raws[:1], tables)
        return [*compare[:1], *READING[(raws[1].name,)](raws[1:], tables)]

    @WRITING.rule(*((op, "POP_JUMP_IF") for op in _GIVE_BOOL))
    def write_jump_on_bool(run: Sequence[Instruction], place: WritingContext) -> list[Emit] | None:
        """What gives a bool needs no TO_BOOL before the jump; a comparison gives one when asked to."""
        suffix, target = _SUFFIXES[run[1].arg], run[1].target
        if "NONE" in suffix or place.backward(target):
            return None
        value = WRITING[(run[0].op,)](run[:1], place)
        assert value is not None
        to_bool = _COMPARE_TO_BOOL if run[0].op == "COMPARE_OP" else 0
        return [value[0]._replace(arg=value[0].arg | to_bool), Emit(f"POP_JUMP_IF_{suffix}", target=target)]


# Where the interpreter lands when a loop ends, and where it resumes: written from LANDINGS and PROLOGUE.


READING.rule(("RESUME",), *([LANDINGS["FOR_ITER"]] if LANDINGS["FOR_ITER"] else []))(lambda raws, tables: [])


READ_LENGTHS, WRITE_LENGTHS = lengths(READING), lengths(WRITING)
LONGEST = max(map(len, WRITING))
"""Names in the longest key that is written."""
