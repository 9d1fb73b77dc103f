"""Python's data model over symbolic values, as functions of the tracer: operators, comparisons, items.

What a class defines in Python is inlined; what a type defines in C is the value's own method.
Stock counterpart: variables/builtin.py.
"""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from explorer.compiler.capture import reasons
from explorer.compiler.capture.values.arrays import ArrayValue, operate
from explorer.compiler.capture.values.base import NotConstant, Tracer, Unhashable, Value
from explorer.compiler.capture.values.classes import ClassValue
from explorer.compiler.capture.values.constant import Constant, FloatValue, SizeValue, computed, is_number
from explorer.compiler.capture.values.derived import DerivedValue
from explorer.compiler.capture.values.iterators import IteratorValue
from explorer.compiler.capture.values.mappings import DictValue, DictView
from explorer.compiler.capture.values.objects import MISSING, ObjectValue, lacks, look_up, type_attribute
from explorer.compiler.capture.values.sequences import ListValue, SequenceValue, SliceValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorValue, graph_call, on_numbers, on_tensors
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
INPLACE = {sign: (_function(f"__i{name}__"), f"__i{name}__") for sign, name in _NAMES.items()}
COMPARE = {
    sign: (_function(f"__{name}__"), f"__{name}__", f"__{other}__")
    for sign, (name, other) in ((sign, names.split()) for sign, names in _REFLECTED.items())
}
UNARY = {sign: (_function(name), name) for sign, name in {"-": "__neg__", "+": "__pos__", "~": "__invert__"}.items()}
_COMPARISONS = frozenset(name for _, name, _ in COMPARE.values())

_TYPING = ("typing", "types", "collections.abc")
"""The modules of the objects that stand for types in annotations."""
_IDENTICAL = (TensorValue, ArrayValue, SizeValue, IteratorValue)
"""Values of which each object of the program has one."""


def unary(t: Tracer, symbol: str, value: Value) -> Value:
    if symbol == "not":
        return Constant(not value.truth(t))
    function, name = UNARY[symbol]
    if (found := _by_kind(t, function, value)) is not None:
        return found
    if isinstance(value, ObjectValue):
        return value.special(t, name, [])
    try:
        known = value.constant()
    except NotConstant:
        lacks(t, value.python_type(), name)
    return t.from_python(t.python(function, known))


def _by_kind(t: Tracer, function: Callable[..., object], *operands: Value) -> Value | None:
    """What arrays, or else tensors, or else symbolic numbers make of an operator of Python's; None where none of them
    is an operand, or leaves the answer to the other's class."""
    if any(isinstance(each, ArrayValue) for each in operands):
        return operate(t, function, *operands)
    if any(isinstance(each, TensorValue) for each in operands):
        return on_tensors(t, function, *operands)
    if not all(map(is_number, operands)) or all(isinstance(each, Constant) for each in operands):
        return None
    rule = computed if any(isinstance(each, FloatValue) for each in operands) else on_numbers
    return rule(t, function, *operands)


def binary(t: Tracer, symbol: str, left: Value, right: Value) -> Value:
    if symbol.endswith("=") and symbol[:-1] in INPLACE:
        return _inplace(t, symbol[:-1], left, right)
    function, name, reflected = BINARY[symbol]
    return _operate(t, function, name, reflected, left, right, symbol)


def _inplace(t: Tracer, symbol: str, left: Value, right: Value) -> Value:
    function, name = INPLACE[symbol]
    if isinstance(left, ArrayValue) and not left.is_scalar:
        return operate(t, function, left, right)
    if isinstance(left, TensorValue):
        return graph_call(t, "call_function", function, [left, right], {})
    reflected = BINARY[symbol]
    # a list's own comes after all
    is_last = isinstance(left, ListValue) and not left.overrides(t, name) and right.overrides(t, reflected[2])
    if isinstance(left, ObjectValue) and not is_last and (found := _answer(t, left, right, name)) is not None:
        return found
    return _operate(t, *reflected, left, right, f"{symbol}=")


def _answer(t: Tracer, value: Value, other: Value, method: str) -> Value | None:
    """What the type's own method makes of an operand; None where it has none, or none for such an operand."""
    owner = value.python_type()
    if isinstance(value, Constant) and isinstance(other, DerivedValue) and hasattr(value.value, method):
        found = value.method(t, method, [other.plain], {})
        return None if isinstance(found, Constant) and found.value is NotImplemented else found
    if method in ("__or__", "__ror__") and (isinstance(value, ClassValue) or owner.__module__ in _TYPING):
        operands = (value, other) if method == "__or__" else (other, value)
        return t.from_python(t.python(operator.or_, *(each.live(t) for each in operands)))
    if not isinstance(value, (ObjectValue, DictView)) or look_up(t, owner, method) is MISSING:
        return None
    if not takes(owner, method, other.python_type()):
        return None
    if isinstance(value, ObjectValue):
        found = value.special(t, method, [other])
    elif value.kind == "values":
        return None
    else:
        found = value.method(t, method, [other], {})
    return None if isinstance(found, Constant) and found.value is NotImplemented else found


def _operate(
    t: Tracer,
    function: Callable[[object, object], object],
    name: str,
    reflected: str,
    left: Value,
    right: Value,
    symbol: str,
) -> Value:
    written = INPLACE[symbol[:-1]][0] if symbol.endswith("=") else function
    if isinstance(left, Constant) and isinstance(right, Constant):
        return t.from_python(t.python(written, left.value, right.value))
    if (answer := _by_kind(t, function, left, right)) is not None:
        return answer
    if name == "__mod__" and isinstance(left, Constant) and isinstance(left.value, str):
        if made := t.text_by(str.__mod__, [left, right]):
            return made
        given = tuple(t.printable(i) for i in right.unpack(t)) if isinstance(right, TupleValue) else t.printable(right)
        return Constant(t.python(function, left.value, given))
    if name == "__mul__" and isinstance(right, SequenceValue) and isinstance(left, (Constant, SizeValue)):
        if takes(right.cls, "__rmul__", left.python_type()):
            return right.method(t, "__rmul__", [left], {})
    if (answer := _answers(t, left, right, name, reflected)) is not None:
        return answer
    return _of_constants(t, written, left, right, symbol)


def _answers(t: Tracer, left: Value, right: Value, name: str, reflected: str) -> Value | None:
    """What the methods of the operands' types make of an operator; None where none of them is for these operands."""
    answers = (_answer(t, *each) for each in _tried(t, left, right, name, reflected))
    return next((each for each in answers if each is not None), None)


def _of_constants(
    t: Tracer, function: Callable[[object, object], object], left: Value, right: Value, symbol: str
) -> Value:
    """What an operator of Python's makes of two constants; the TypeError of types that have no such operator."""
    try:
        plain = left.constant(), right.constant()
    except NotConstant:
        said = type_error(function, left.python_type(), right.python_type())
        if said is None:
            unsupported(reasons.OPERATION, f"{left.describe()} {symbol} {right.describe()}")
        t.raise_(TypeError, said)
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


def compare(t: Tracer, symbol: str, left: Value, right: Value) -> Value:
    function, name, reflected = COMPARE[symbol]
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant(t.python(function, left.value, right.value))
    if isinstance(left, SliceValue) and isinstance(right, SliceValue):
        return compare(t, symbol, TupleValue(left.parts), TupleValue(right.parts))
    if (answer := _by_kind(t, function, left, right)) is not None:
        return answer
    if (answer := _answers(t, left, right, name, reflected)) is not None:
        return answer
    if symbol in ("==", "!="):
        kinds = left.python_type(), right.python_type()
        alike = takes(kinds[0], name, kinds[1]) or takes(kinds[1], reflected, kinds[0])
        return Constant((alike and _same(t, left, right)) == (symbol == "=="))
    return _of_constants(t, function, left, right, symbol)


def _same(t: Tracer, left: Value, right: Value) -> bool:
    if left is right:
        return True
    try:
        return bool(left.constant() == right.constant())
    except NotConstant:
        pass
    classes = (each.python_type() for each in (left, right) if isinstance(each, ObjectValue))
    if any(isinstance(look_up(t, cls, "__eq__"), types.FunctionType) for cls in classes):
        return is_same(t, left, right)  # the program's own was asked, and does not know
    try:
        return bool(left.key() == right.key())
    except (NotConstant, Unhashable):
        return False


def is_same(t: Tracer, left: Value, right: Value) -> bool:
    """The `is` operator."""
    if left is right:
        return True
    left.compared = right.compared = True
    if id(left) in t.unshared and id(right) in t.unshared:
        unsupported(reasons.OPERATION, "whether min() or max() of tensors gave this one")
    if isinstance(left, _IDENTICAL) or isinstance(right, _IDENTICAL):
        return False
    if isinstance(left, ObjectValue) or isinstance(right, ObjectValue):
        if isinstance(left, ObjectValue) and isinstance(right, ObjectValue):
            return left.given is not MISSING and left.given is right.given
        return False
    try:
        return left.real() is right.real()
    except NotConstant:
        return False


def get_item(t: Tracer, base: Value, key: Value) -> Value:
    if base.overrides(t, "__getitem__"):
        return base.special(t, "__getitem__", [key]) if not hasattr(base, "is_plain") else base.get_item(t, key)
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


# ------------------------------------------------------------------------------------------------------------- operands
#
# Which operands the operators of types written in C take, and what they say of others: Python itself is asked, with an
# empty example of each type.


_PLAIN: tuple[object, ...] = (
    1, True, 1.0, 1j, "", b"", None, ..., NotImplemented, slice(None), range(0), {}.keys(), {}.values(), {}.items(),
    iter([]), len, lambda: None, int, torch.float32, torch.strided, torch.Size(), types.SimpleNamespace(), torch,
)  # fmt: skip
_EXAMPLES: dict[type, object] = {type(each): each for each in _PLAIN}
_CONTAINERS = (
    collections.OrderedDict, collections.defaultdict, dict, list, tuple, set, frozenset, collections.deque
)  # fmt: skip


def takes(owner: type, method: str, operand: type) -> bool:
    """Whether a type's own method is for operands of that type. One that the program wrote answers by itself."""
    own = type_attribute(owner, method)
    if not isinstance(own, types.WrapperDescriptorType):
        return own is not MISSING
    if own.__objclass__ is object or own.__name__ != method:
        return True
    mine, theirs = _example(owner), _example(operand)
    if mine is MISSING or theirs is MISSING:
        return True
    try:
        return own(mine, theirs) is not NotImplemented
    except TypeError:
        return False


def type_error(function: Callable[[object, object], object], left: type, right: type) -> str | None:
    """What TypeError says where two types have no such operator; None where they have one, or that is not known."""
    pair = _example(left), _example(right)
    if MISSING in pair:
        return None
    try:
        function(*pair)
    except TypeError as error:
        return str(error)
    return None


def _example(cls: type) -> object:
    """An empty object of a type, or of the type written in C that it derives from; of one whose operators are all
    written in Python, a stand-in that has its name; MISSING of others."""
    if cls in _EXAMPLES:
        return _EXAMPLES[cls]
    for base in _CONTAINERS:
        if issubclass(cls, base) and all(
            not isinstance(type_attribute(cls, name), types.FunctionType) for name in ("__iter__", "keys", "__len__")
        ):
            is_structseq = hasattr(cls, "n_sequence_fields")  # such as sys.version_info, which nobody can make
            maker: Any = base.__new__
            return maker(base if is_structseq else cls)
    plain: tuple[type, ...] = (int, float, complex, str, bytes, *_CONTAINERS)
    for each in plain:
        if issubclass(cls, each):
            return each()  # what the program wrote for its own class must not run now
    if any(isinstance(each, types.WrapperDescriptorType) for base in cls.__mro__[:-1] for each in vars(base).values()):
        return MISSING
    body: dict[str, Any] = {}
    if type_attribute(cls, "__iter__") not in (MISSING, None):
        body["__iter__"] = lambda self: iter(())
    if type_attribute(cls, "__index__") not in (MISSING, None):
        body["__index__"] = lambda self: 1
    return type(cls.__name__, (), body)()
