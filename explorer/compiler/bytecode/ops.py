"""The normalized instruction set: for each op what its argument means, its effect on the stack depth, and what it does.

Meanings read `below, top -> result`, the top of the stack last; `null` is CPython's empty place beside a callable, in
the version's order (see `explorer.ir.bytecode`).

Locals, cells and free variables are slots, and a captured name's slot holds its cell. LOAD_FAST_AND_CLEAR, STORE_FAST,
MAKE_CELL and LOAD_FAST work on the slot as it is: a comprehension inlined by 3.12 takes a slot over, puts its own value
or cell there, and gives back what was there, be that a value, a null or the cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Op:
    """`effect(arg, jump)` is the change of the stack depth, when the jump is taken and when it is not."""

    name: str
    argument: str
    effect: Callable[[Any, bool], int]
    meaning: str
    jumps: bool
    falls: bool


def _op(
    name: str,
    argument: str,
    effect: int | Callable[[Any], int],
    meaning: str,
    *,
    jump: int | None = None,
    falls: bool = True,
) -> Op:
    """`effect` is that of falling through; `jump`, for an op with a target, that of jumping."""

    def change(arg: object, jumps: bool) -> int:
        if jumps:
            assert jump is not None, f"{name} does not jump"
            return jump
        return effect if isinstance(effect, int) else effect(arg)

    return Op(name, argument, change, meaning, jump is not None, falls)


_TABLE = (
    # The stack itself
    _op("NOP", "", 0, "do nothing; carries a line or a label"),
    _op("POP_TOP", "", -1, "drop the top"),
    _op("PUSH_NULL", "", 1, "push the null that goes with a callable"),
    _op("COPY", "position from the top, 1 the top", 1, "push the value at that position once more"),
    _op("SWAP", "position from the top", 0, "exchange the top with the value at that position"),
    # Names and constants
    _op("LOAD_CONST", "the value", 1, "push a constant"),
    _op("LOAD_FAST", "local name", 1, "push a local; UnboundLocalError when unbound"),
    _op("LOAD_FAST_AND_CLEAR", "local name", 1, "push a local, or null when unbound, and unbind it"),
    _op("STORE_FAST", "local name", -1, "bind a local; a null unbinds it"),
    _op("DELETE_FAST", "local name", 0, "unbind a local; UnboundLocalError when unbound"),
    _op("LOAD_DEREF", "cell or free name", 1, "push what the cell holds; NameError when empty"),
    _op("STORE_DEREF", "cell or free name", -1, "put the top into the cell"),
    _op("DELETE_DEREF", "cell or free name", 0, "empty the cell; NameError when empty"),
    _op("LOAD_CLOSURE", "cell or free name", 1, "push the cell itself"),
    _op("MAKE_CELL", "cell name", 0, "put a new cell around the slot's value (cells of inlined comprehensions)"),
    _op("LOAD_GLOBAL", "name", 1, "push a global or builtin"),
    _op("STORE_GLOBAL", "name", -1, "bind a global"),
    _op("DELETE_GLOBAL", "name", 0, "unbind a global"),
    _op("LOAD_NAME", "name", 1, "push a name of the local namespace, a global or a builtin (class and module bodies)"),
    _op("STORE_NAME", "name", -1, "bind a name in the local namespace"),
    _op("DELETE_NAME", "name", 0, "unbind a name in the local namespace"),
    _op("LOAD_LOCALS", "", 1, "push the local namespace of a class body"),
    _op("LOAD_FROM_DICT_OR_DEREF", "cell or free name", 0, "namespace -> its value of that name, or the cell's"),
    _op("LOAD_FROM_DICT_OR_GLOBALS", "name", 0, "namespace -> its value of that name, or the global"),
    _op("LOAD_BUILD_CLASS", "", 1, "push builtins.__build_class__"),
    _op("LOAD_ASSERTION_ERROR", "", 1, "push AssertionError"),
    _op("SETUP_ANNOTATIONS", "", 0, "make __annotations__ in the local namespace"),
    _op("IMPORT_NAME", "module name", -1, "level, fromlist -> module"),
    _op("IMPORT_FROM", "name", 1, "module -> module, module.name"),
    # Attributes and items
    _op("LOAD_ATTR", "name", 0, "object -> attribute"),
    _op("LOAD_METHOD", "name", 1, "object -> method, object; or null and the attribute, in the version's order"),
    _op("STORE_ATTR", "name", -2, "value, object -> ; set the attribute"),
    _op("DELETE_ATTR", "name", -1, "object -> ; delete the attribute"),
    _op("LOAD_SUPER_ATTR", "(name, arguments given)", -2, "super, class, self -> attribute of super(class, self)"),
    _op("LOAD_SUPER_METHOD", "(name, arguments given)", -1, "super, class, self -> as LOAD_METHOD of super(...)"),
    _op("BINARY_SUBSCR", "", -1, "container, key -> container[key]"),
    _op("STORE_SUBSCR", "", -3, "value, container, key -> ; container[key] = value"),
    _op("DELETE_SUBSCR", "", -2, "container, key -> ; del container[key]"),
    # Operators
    _op("UNARY_OP", "operator: + - ~ not", 0, "value -> operator value"),
    _op("BINARY_OP", "operator: + - * ... += -= *= ...", -1, "left, right -> left operator right"),
    _op("COMPARE_OP", "operator: < <= == != > >=", -1, "left, right -> left operator right, of any type"),
    _op("IS_OP", "operator: is, is not", -1, "left, right -> bool"),
    _op("CONTAINS_OP", "operator: in, not in", -1, "item, container -> bool"),
    _op("TO_BOOL", "", 0, "value -> bool(value)"),
    # Building and taking apart
    _op("BUILD_TUPLE", "count", lambda n: 1 - n, "count values -> tuple"),
    _op("BUILD_LIST", "count", lambda n: 1 - n, "count values -> list"),
    _op("BUILD_SET", "count", lambda n: 1 - n, "count values -> set"),
    _op("BUILD_MAP", "count of pairs", lambda n: 1 - 2 * n, "key, value, key, value ... -> dict"),
    _op("BUILD_CONST_KEY_MAP", "count of values", lambda n: -n, "count values, tuple of keys -> dict"),
    _op("BUILD_STRING", "count", lambda n: 1 - n, "count strings -> their concatenation"),
    _op("BUILD_SLICE", "2 or 3", lambda n: 1 - n, "start, stop (, step) -> slice"),
    _op("LIST_APPEND", "depth of the list, after the pop", -1, "append the top to the list"),
    _op("SET_ADD", "depth of the set, after the pop", -1, "add the top to the set"),
    _op("MAP_ADD", "depth of the dict, after the pops", -2, "key, value -> ; put into the dict"),
    _op("LIST_EXTEND", "depth of the list, after the pop", -1, "extend the list by the iterable on top"),
    _op("SET_UPDATE", "depth of the set, after the pop", -1, "update the set by the iterable on top"),
    _op("DICT_UPDATE", "depth of the dict, after the pop", -1, "update the dict by the mapping on top"),
    _op("DICT_MERGE", "depth of the dict, after the pop", -1, "as DICT_UPDATE, for f(**a, **b): no key twice"),
    _op("UNPACK_SEQUENCE", "count", lambda n: n - 1, "iterable -> its count items, the first on top"),
    _op("UNPACK_EX", "(before, after the star)", lambda n: n[0] + n[1], "iterable -> items, the first on top"),
    _op("CONVERT_VALUE", "str, repr or ascii", 0, "value -> its string, for !s, !r, !a"),
    _op("FORMAT_SIMPLE", "", 0, "value -> format(value)"),
    _op("FORMAT_WITH_SPEC", "", -1, "value, spec -> format(value, spec)"),
    # Calls and functions
    _op("CALL", "(count, keyword names)", lambda n: -n[0] - 1, "callable and null or self, arguments -> result"),
    _op("CALL_FUNCTION_EX", "whether a dict is given", lambda d: -2 - d, "callable and null, tuple (, dict) -> result"),
    _op("CALL_INTRINSIC_1", "name of the intrinsic", 0, "value -> result of an interpreter helper"),
    _op("CALL_INTRINSIC_2", "name of the intrinsic", -1, "two values -> result of an interpreter helper"),
    _op(
        "MAKE_FUNCTION",
        "attributes given, of defaults, kwdefaults, annotations, closure",
        lambda a: -len(a),
        "the attributes in that order, code -> function",
    ),
    _op("RETURN_VALUE", "", -1, "return the top", falls=False),
    # Jumps
    _op("JUMP", "None, or 'no interrupt' to skip the check for signals", 0, "go to the target", jump=0, falls=False),
    _op("POP_JUMP_IF", "true, false, none, not none", -1, "value -> ; go to the target when so", jump=-1),
    _op("FOR_ITER", "", 1, "iterator -> iterator, item; at the target: nothing left of it", jump=-1),
    # Generators and coroutines
    _op("GET_ITER", "", 0, "iterable -> iterator"),
    _op("GET_YIELD_FROM_ITER", "", 0, "iterable -> iterator for yield from; a generator or coroutine stays itself"),
    _op("GET_AWAITABLE", "0 await, 1 entering, 2 leaving async with", 0, "value -> its awaitable iterator"),
    _op("GET_AITER", "", 0, "value -> its asynchronous iterator"),
    _op("GET_ANEXT", "", 1, "aiter -> aiter, awaitable of the next item"),
    _op("SEND", "", 0, "receiver, value -> receiver, yielded; at the target: receiver, result", jump=0),
    _op("END_SEND", "", -1, "receiver, result -> result; the target of every SEND"),
    _op("YIELD_VALUE", "yield, from or await", 0, "value -> value sent; suspends"),
    _op("CLEANUP_THROW", "", -1, "receiver, last sent, exception -> None, value of its StopIteration; else raises it"),
    _op("END_ASYNC_FOR", "", -2, "aiter, exception -> ; raises it unless StopAsyncIteration"),
    # Exceptions and with
    _op("PUSH_EXC_INFO", "", 1, "exception -> previously handled exception, exception; which is now handled"),
    _op("POP_EXCEPT", "", -1, "previously handled exception -> ; which is handled again"),
    _op("CHECK_EXC_MATCH", "", 0, "exception, type -> exception, bool"),
    _op("CHECK_EG_MATCH", "", 0, "exception group, type -> rest, matched; each may be None"),
    _op("RAISE_VARARGS", "count: 0 re-raise, 1 exception, 2 exception and cause", lambda n: -n, "raise", falls=False),
    _op("RERAISE", "depth of the offset to blame below the exception, 0 none", -1, "raise the top", falls=False),
    _op("BEFORE_WITH", "", 1, "manager -> __exit__, result of __enter__"),
    _op("BEFORE_ASYNC_WITH", "", 1, "manager -> __aexit__, awaitable of __aenter__"),
    _op("WITH_EXCEPT_START", "", 1, "exit, offset, previous, exception -> the same, result of exit(...)"),
    # Pattern matching
    _op("GET_LEN", "", 1, "value -> value, len(value)"),
    _op("MATCH_MAPPING", "", 1, "value -> value, whether a mapping"),
    _op("MATCH_SEQUENCE", "", 1, "value -> value, whether a sequence"),
    _op("MATCH_KEYS", "", 1, "mapping, keys -> mapping, keys, tuple of values or None"),
    _op("MATCH_CLASS", "count of positional patterns", -2, "value, class, names -> tuple of attributes or None"),
)

OPS: dict[str, Op] = {op.name: op for op in _TABLE}
