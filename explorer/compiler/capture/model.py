"""Python's data model over symbolic values, as functions of the tracer: operators, comparisons, items.

What a class defines in Python is inlined; what a type defines in C is the value's own method.
Stock counterpart: variables/builtin.py.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable

from explorer.compiler.capture import reasons
from explorer.compiler.capture.values.base import NotConstant, Tracer, Unhashable, Value
from explorer.compiler.capture.values.constant import Constant, SizeValue
from explorer.compiler.capture.values.mappings import DictValue
from explorer.compiler.capture.values.modules import ModuleValue
from explorer.compiler.capture.values.objects import MISSING, ObjectValue, lacks, look_up, takes, type_error
from explorer.compiler.capture.values.sequences import SliceValue
from explorer.compiler.capture.values.tensor import TensorValue
from explorer.core.reasons import unsupported

_NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
_REFLECTED = {"<": "lt gt", "<=": "le ge", "==": "eq eq", "!=": "ne ne", ">": "gt lt", ">=": "ge le"}


def _function(name: str) -> Callable[..., object]:
    """The function of Python's `operator` that calls a method of this name."""
    found: Callable[..., object] = getattr(operator, name)
    return found


BINARY = {sign: (_function(f"__{name}__"), f"__{name}__", f"__r{name}__") for sign, name in _NAMES.items()}
INPLACE = {f"{sign}=": _function(f"__i{name}__") for sign, name in _NAMES.items()}
COMPARE = {
    sign: (_function(f"__{name}__"), f"__{name}__", f"__{other}__")
    for sign, (name, other) in ((sign, names.split()) for sign, names in _REFLECTED.items())
}
UNARY = {sign: (_function(name), name) for sign, name in {"-": "__neg__", "+": "__pos__", "~": "__invert__"}.items()}
_COMPARISONS = frozenset(name for _, name, _ in COMPARE.values())


def unary(t: Tracer, symbol: str, value: Value) -> Value:
    if symbol == "not":
        return Constant(not value.truth(t))
    function, name = UNARY[symbol]
    if (found := value.operate(t, function, [value])) is not None:
        return found
    try:
        known = value.constant()
    except NotConstant:
        lacks(t, value.python_type(), name)
    return t.from_python(t.python(function, known))


def binary(t: Tracer, symbol: str, left: Value, right: Value) -> Value:
    """left + right, and left += right."""
    in_place = INPLACE.get(symbol)
    if in_place is not None and (found := _answer(left.operate_in_place(t, in_place, right))) is not None:
        return found
    operation = BINARY[symbol if in_place is None else symbol[:-1]]
    if (found := _operate(t, *operation, left, right)) is not None:
        return found
    return _of_constants(t, in_place or operation[0], left, right, symbol)


def compare(t: Tracer, symbol: str, left: Value, right: Value) -> Value:
    function, name, reflected = COMPARE[symbol]
    if (found := _operate(t, function, name, reflected, left, right)) is not None:
        return found
    if symbol in ("==", "!="):
        kinds = left.python_type(), right.python_type()
        alike = takes(kinds[0], name, kinds[1]) or takes(kinds[1], reflected, kinds[0])
        return Constant((alike and _same(t, left, right)) == (symbol == "=="))
    return _of_constants(t, function, left, right, symbol)


def _operate(
    t: Tracer, function: Callable[..., object], name: str, reflected: str, left: Value, right: Value
) -> Value | None:
    """The operator's result by the kinds of the operands, or else by the methods of their types; None if neither has
    it."""
    for each in (right, left) if right.precedence > left.precedence else (left, right):
        if (found := each.operate(t, function, [left, right])) is not None:
            return found
    for value, other, method in _tried(t, left, right, name, reflected):
        if (found := _answer(value.operator_method(t, method, other))) is not None:
            return found
    return None


def _answer(found: Value | None) -> Value | None:
    """A method's result for an operand; None if the method returned NotImplemented."""
    return None if isinstance(found, Constant) and found.value is NotImplemented else found


def _of_constants(t: Tracer, function: Callable[..., object], left: Value, right: Value, symbol: str) -> Value:
    """An operator's result for two constants; raises TypeError for types that do not have the operator."""
    try:
        plain = left.constant(), right.constant()
    except NotConstant:
        message = type_error(function, left.python_type(), right.python_type())
        if message is None:
            unsupported(reasons.OPERATION, f"{left.describe()} {symbol} {right.describe()}")
        t.raise_(TypeError, message)
    return t.from_python(t.python(function, *plain))


def _tried(t: Tracer, left: Value, right: Value, name: str, reflected: str) -> tuple[tuple[Value, Value, str], ...]:
    """The methods that Python tries for an operator, in order: a subclass's own comes before its base's."""
    ours, theirs = left.python_type(), right.python_type()
    both = (left, right, name), (right, left, reflected)
    if ours is theirs and name != reflected and name not in _COMPARISONS:
        return both[:1]
    is_derived = theirs is not ours and issubclass(theirs, ours)
    own = look_up(t, theirs, reflected)
    if is_derived and (name in _COMPARISONS or own is not look_up(t, ours, reflected)):
        return both[::-1]
    return both


def _same(t: Tracer, left: Value, right: Value) -> bool:
    if left is right:
        return True
    try:
        return bool(left.constant() == right.constant())
    except NotConstant:
        pass
    classes = (each.python_type() for each in (left, right) if isinstance(each, ObjectValue))
    if any(isinstance(look_up(t, cls, "__eq__"), types.FunctionType) for cls in classes):
        return is_same(t, left, right)  # the program's own __eq__ returned NotImplemented
    try:
        return bool(left.key() == right.key())
    except (NotConstant, Unhashable):
        return False


def is_same(t: Tracer, left: Value, right: Value) -> bool:
    """The `is` operator."""
    if left is right:
        return True
    left.compared = right.compared = True
    if id(left) in t.in_graph.unshared and id(right) in t.in_graph.unshared:
        unsupported(reasons.OPERATION, "whether min() or max() of tensors gave this one")
    mine, its = left.identity(), right.identity()
    if mine is not None or its is not None:
        return mine is its
    try:
        return left.real() is right.real()
    except NotConstant:
        return False


def get_item(t: Tracer, base: Value, key: Value) -> Value:
    if base.overrides(t, "__getitem__"):
        return base.special(t, "__getitem__", [key]) if not isinstance(base, ModuleValue) else base.get_item(t, key)
    if isinstance(key, TensorValue) and not isinstance(base, (TensorValue, DictValue)):
        key = Constant(key.as_index(t))
    if isinstance(base, Constant):
        key = _as_index(t, key)
    return base.get_item(t, key)


def _as_index(t: Tracer, key: Value) -> Value:
    """A number or slice for what Python would make one of."""
    if isinstance(key, SliceValue) and any(_as_index(t, part) is not part for part in key.parts):
        return Constant(key.fixed(t))
    is_index = isinstance(key, ObjectValue) and look_up(t, key.cls, "__index__") is not MISSING
    return Constant(key.as_index(t)) if is_index or isinstance(key, SizeValue) else key
