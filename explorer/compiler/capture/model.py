"""Python's data model over symbolic values: operators, truth, items, iteration.

What a class defines in Python is inlined; what a type defines in C is the value's own method.
Stock counterpart: variables/builtin.py.
"""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from explorer.compiler.capture import reasons
from explorer.compiler.capture.guards import Equals
from explorer.compiler.capture.tape import first_line
from explorer.compiler.capture.values.arrays import ArrayValue, operate
from explorer.compiler.capture.values.base import NotConstant, Raised, Tracer, Unhashable, Value
from explorer.compiler.capture.values.classes import ClassValue
from explorer.compiler.capture.values.constant import (
    Constant,
    FloatValue,
    NumberValue,
    SizeValue,
    is_number,
    is_unbacked,
    number_now,
    origin_of,
)
from explorer.compiler.capture.values.iterators import DequeIterator, IteratorValue, SequenceIterator, TakenIterator
from explorer.compiler.capture.values.mappings import DictValue, DictView
from explorer.compiler.capture.values.objects import (
    MISSING,
    ObjectValue,
    attribute_in_c,
    lacks,
    tell_attribute,
    type_attribute,
)
from explorer.compiler.capture.values.overrides import overrides_torch
from explorer.compiler.capture.values.sequences import ListValue, SequenceValue, SliceValue, TupleValue
from explorer.compiler.capture.values.tensor import TensorValue, graph_call
from explorer.core.reasons import unsupported
from explorer.ir.capture import Computed

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

_RIGHT_IS: dict[Callable[..., Any], Callable[[Any, Any], Any]] = {
    **dict.fromkeys((operator.floordiv, operator.ifloordiv, operator.mod, operator.imod, divmod), operator.ne),
    **dict.fromkeys((operator.truediv, operator.itruediv), operator.ne),
    **dict.fromkeys((operator.lshift, operator.ilshift, operator.rshift, operator.irshift), operator.ge),
}
"""What the right number is to 0, where Python has a result. The library of symbols takes other numbers as well."""

_TYPING = ("typing", "types", "collections.abc")
"""The modules of the objects that stand for types in annotations."""


_IDENTICAL = (TensorValue, ArrayValue, SizeValue, IteratorValue)
"""Values of which each object of the program has one."""


def _is_as_int(operator: Callable[..., object], cls: type) -> bool:
    """Whether an operator does with a class of integers what it does with int."""
    name = operator.__name__.strip("_")
    return cls is bool or all(getattr(cls, m, None) is getattr(int, m, None) for m in (f"__{name}__", f"__r{name}__"))


_ARITHMETIC = frozenset(
    {operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.neg}
    | {operator.pos, operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge, abs, bool, float}
    | {int, round}
)


def _is_steady(function: object, values: Sequence[Value]) -> bool:
    """Whether the type of the result does not depend on what the floats are."""
    if function is operator.pow:
        return isinstance(values[1], Constant) and type(values[1].value) is int
    return function in _ARITHMETIC or getattr(function, "__module__", "") == "math"


class DataModel(Tracer):
    """A part of the tracer: one method for each operation."""

    # ----------------------------------------------------------------------------------------------------- operators

    def unary(self, symbol: str, value: Value) -> Value:
        if symbol == "not":
            return Constant(not value.truth(self))
        function, name = UNARY[symbol]
        if isinstance(value, TensorValue):
            return graph_call(self, "call_function", function, [value], {})
        if isinstance(value, ArrayValue):
            return operate(self, function, value)
        if isinstance(value, FloatValue):
            return self.computed(function, value)
        if isinstance(value, SizeValue):
            return self.on_numbers(function, value)
        if isinstance(value, ObjectValue):
            return value.special(self, name, [])
        try:
            known = value.constant()
        except NotConstant:
            lacks(self, value.python_type(), name)
        return self.from_python(self.python(function, known))

    def binary(self, symbol: str, left: Value, right: Value) -> Value:
        if symbol.endswith("=") and symbol[:-1] in INPLACE:
            return self._inplace(symbol[:-1], left, right)
        function, name, reflected = BINARY[symbol]
        return self._operate(function, name, reflected, left, right, symbol)

    def _inplace(self, symbol: str, left: Value, right: Value) -> Value:
        function, name = INPLACE[symbol]
        if isinstance(left, ArrayValue) and not left.is_scalar:
            return operate(self, function, left, right)
        if isinstance(left, TensorValue):
            return graph_call(self, "call_function", function, [left, right], {})
        reflected = BINARY[symbol]
        if isinstance(left, ListValue) and not left.overrides(self, name):  # a sequence's own comes after all
            if right.overrides(self, reflected[2]):
                return self._operate(*reflected, left, right, f"{symbol}=")
        if isinstance(left, ObjectValue):
            found = self._answer(left, right, name)
            if found is not None:
                return found
        return self._operate(*reflected, left, right, f"{symbol}=")

    def _answer(self, value: Value, other: Value, method: str) -> Value | None:
        """What the type's own method makes of an operand; None where it has none, or none for such an operand."""
        owner = value.python_type()
        if not isinstance(value, (ObjectValue, DictView)) or self.look_up(owner, method) is MISSING:
            return None
        if not takes(owner, method, other.python_type()):
            return None
        if isinstance(value, ObjectValue):
            found = value.special(self, method, [other])
        elif value.kind == "values":
            return None
        else:
            found = value.method(self, method, [other], {})
        return None if isinstance(found, Constant) and found.value is NotImplemented else found

    def _operate(
        self, function: Callable[[Any, Any], Any], name: str, reflected: str, left: Value, right: Value, symbol: str
    ) -> Value:
        written = INPLACE[symbol[:-1]][0] if symbol.endswith("=") else function
        if isinstance(left, Constant) and isinstance(right, Constant):
            return self.from_python(self.python(written, left.value, right.value))
        if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
            return operate(self, function, left, right)
        if isinstance(left, TensorValue) or isinstance(right, TensorValue):
            other = right if isinstance(left, TensorValue) else left
            is_object = isinstance(other, ObjectValue) and not isinstance(other, SequenceValue)
            if not is_object or overrides_torch(self, other.python_type()):
                return graph_call(self, "call_function", function, [left, right], {})
        if is_number(left) and is_number(right):
            if isinstance(left, FloatValue) or isinstance(right, FloatValue):
                return self.computed(function, left, right)
            return self.on_numbers(function, left, right)
        if name == "__mod__" and isinstance(left, Constant) and isinstance(left.value, str):
            if made := self.text_by(str.__mod__, [left, right]):
                return made
            given = (
                tuple(self.printable(i) for i in right.unpack(self))
                if isinstance(right, TupleValue)
                else self.printable(right)
            )
            return Constant(self.python(function, left.value, given))
        if name == "__mul__" and isinstance(right, SequenceValue) and isinstance(left, (Constant, SizeValue)):
            if takes(right.cls, "__rmul__", left.python_type()):
                return right.method(self, "__rmul__", [left], {})
        for value, other, method in self._tried(left, right, name, reflected):
            owner = value.python_type()
            if name == "__or__" and (isinstance(value, ClassValue) or owner.__module__ in _TYPING):
                return self.from_python(self.python(function, left.live(self), right.live(self)))
            found = self._answer(value, other, method)
            if found is not None:
                return found
        try:
            plain = left.constant(), right.constant()
        except NotConstant:
            if not isinstance(left, TensorValue) and not isinstance(right, TensorValue):
                said = type_error(written, left.python_type(), right.python_type())
                if said is not None:
                    self.raise_(TypeError, said)
            unsupported(reasons.OPERATION, f"{left.describe()} {symbol} {right.describe()}")
        return self.from_python(self.python(written, *plain))

    def _tried(self, left: Value, right: Value, name: str, reflected: str) -> tuple[tuple[Value, Value, str], ...]:
        """The methods that Python tries for an operator, in order: a subclass's own comes before its base's."""
        ours, theirs = left.python_type(), right.python_type()
        both = (left, right, name), (right, left, reflected)
        if ours is theirs and name != reflected and name not in _COMPARISONS:
            return both[:1]
        is_derived = theirs is not ours and issubclass(theirs, ours)
        own = self.look_up(theirs, reflected)
        if is_derived and (name in _COMPARISONS or own is not self.look_up(ours, reflected)):
            return both[::-1]
        return both

    def on_sizes(self, function: Callable[..., Any], *values: Value) -> Any:
        """A Python function of numbers, of which some are symbolic."""
        plain = [v.sym if isinstance(v, SizeValue) else v.known(self) for v in values]
        if getattr(function, "__module__", "") == "_operator":  # the library of symbols takes no truth for a number
            plain = [int(v) if isinstance(v, int) and _is_as_int(function, type(v)) else v for v in plain]
        if any(isinstance(v, (int, float)) and type(v) not in (int, float, bool) for v in plain):
            plain = [v.known(self) for v in values]  # it takes no subclass for a number either
        defined = _RIGHT_IS.get(function)
        if defined is not None and not defined(plain[-1], 0):
            plain = [v if isinstance(v, float) else int(v) for v in plain]
        found = self.python(function, *plain)
        self.tape.note_shape_guards(f"the program asked {getattr(function, '__name__', 'a function')} of sizes")
        return found

    def on_numbers(self, function: Callable[..., Any], *values: Value) -> Value:
        """The same as a value; a node, where one of the numbers is known only to the graph."""
        if any(isinstance(v, NumberValue) for v in values):
            return graph_call(self, "call_function", function, list(values), {})
        try:
            return self.from_sym(self.on_sizes(function, *values))
        except GuardOnDataDependentSymNode as error:
            unsupported(reasons.DYNAMIC_OUTPUT, first_line(error))

    def computed(self, function: Callable[..., Any], *values: Value) -> Value:
        """What a function of Python's makes of floats that the frame was given: computed again at each call, before the
        graph. Where that could go another way than it went now, the floats are held to be what they are."""
        handled = any(frame.handlers[frame.position - 1] is not None for frame in self.frames)
        args = [origin_of(self, value) for value in values]
        if handled or None in args or not _is_steady(function, values):
            return self.from_python(self.python(function, *(each.known(self) for each in values)))
        found = self.python(function, *(number_now(self, each) for each in values))
        source = Computed(function, tuple(args))
        if type(found) is float:
            return FloatValue(found, source, self)
        if type(found) is int:
            return SizeValue(self.tape.size_input(source, found), source)
        self.guard(source, Equals(found), "a branch or a test was decided by it")
        return self.from_python(found)

    def compare(self, symbol: str, left: Value, right: Value) -> Value:
        function, name, reflected = COMPARE[symbol]
        if isinstance(left, Constant) and isinstance(right, Constant):
            return Constant(self.python(function, left.value, right.value))
        if isinstance(left, SliceValue) and isinstance(right, SliceValue):
            return self.compare(symbol, TupleValue(left.parts), TupleValue(right.parts))
        if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
            return operate(self, function, left, right)
        if isinstance(left, TensorValue) or isinstance(right, TensorValue):
            other = right if isinstance(left, TensorValue) else left
            if (
                symbol in ("==", "!=")
                and isinstance(other, Constant)
                and not isinstance(other.value, (int, float, complex))
            ):
                return Constant(symbol == "!=")
            if isinstance(other, (TensorValue, Constant, SizeValue, FloatValue)):
                return graph_call(self, "call_function", function, [left, right], {})
        if is_number(left) and is_number(right):
            if isinstance(left, FloatValue) or isinstance(right, FloatValue):
                return self.computed(function, left, right)
            return self.on_numbers(function, left, right)
        for value, other, method in self._tried(left, right, name, reflected):
            found = self._answer(value, other, method)
            if found is not None:
                return found
        if symbol in ("==", "!="):
            kinds = left.python_type(), right.python_type()
            alike = takes(kinds[0], name, kinds[1]) or takes(kinds[1], reflected, kinds[0])
            return Constant((alike and self._same(left, right)) == (symbol == "=="))
        try:
            plain = left.constant(), right.constant()
        except NotConstant:
            said = type_error(function, left.python_type(), right.python_type())
            if said is None:
                unsupported(reasons.OPERATION, f"{left.describe()} {symbol} {right.describe()}")
            self.raise_(TypeError, said)
        return Constant(self.python(function, *plain))

    def _same(self, left: Value, right: Value) -> bool:
        if left is right:
            return True
        try:
            return bool(left.constant() == right.constant())
        except NotConstant:
            pass
        try:
            return bool(left.key() == right.key())
        except (NotConstant, Unhashable):
            return False

    def is_same(self, left: Value, right: Value) -> bool:
        """The `is` operator."""
        if left is right:
            return True
        left.compared = right.compared = True
        if id(left) in self.unshared and id(right) in self.unshared:
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

    def same_or_equal(self, left: Value, right: Value) -> bool:
        """What `in` and list.index ask of two items."""
        if left is right:
            return True
        if isinstance(left, TensorValue) != isinstance(right, TensorValue):
            other = right if isinstance(left, TensorValue) else left
            if isinstance(other, Constant) and not isinstance(other.value, (int, float, complex)):
                return False
        return self.compare("==", left, right).truth(self)

    # -------------------------------------------------------------------------------------------------------- numbers

    def from_sym(self, found: object) -> Value:
        """What was computed from sizes, as a value. A condition is True or False for these sizes from here on: it is no
        number to ShapeEnv, as it is to Python."""
        if not isinstance(found, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self.from_python(found)
        made, expr = SizeValue(found), found.node.expr
        if isinstance(expr, sympy.Rel) and (apart := expr.lhs - expr.rhs).is_number:
            expr = expr.func(apart, 0)  # ShapeEnv takes 0 < 0 for true where sympy does not know that a number is real
        if expr.is_number or expr in (True, False):
            return Constant(made.python_type()(expr))
        if isinstance(found, torch.SymInt) and is_unbacked(found):
            node = self.tape.size_argument(found)
            return NumberValue(found, node) if isinstance(node, fx.Node) else Constant(node)
        if isinstance(found, torch.SymBool) and not is_unbacked(found):
            return Constant(made.specialise(self, bool))
        return made

    # ---------------------------------------------------------------------------------------------- items, iteration

    def get_item(self, base: Value, key: Value) -> Value:
        if base.overrides(self, "__getitem__"):
            return (
                base.special(self, "__getitem__", [key]) if not hasattr(base, "is_plain") else base.get_item(self, key)
            )
        if isinstance(key, TensorValue) and not isinstance(base, (TensorValue, DictValue)):
            key = Constant(key.as_index(self))
        if isinstance(base, Constant):
            key = self._as_index(key)
        return base.get_item(self, key)

    def _as_index(self, key: Value) -> Value:
        """A number or slice for what Python would make one of."""
        if isinstance(key, SliceValue) and any(self._as_index(part) is not part for part in key.parts):
            return Constant(key.fixed(self))
        is_index = isinstance(key, ObjectValue) and self.look_up(key.cls, "__index__") is not MISSING
        return Constant(key.as_index(self)) if is_index or isinstance(key, SizeValue) else key

    def mapping_pairs(self, value: Value) -> list[tuple[Value, Value]]:
        if isinstance(value, DictValue) and not value.overrides(self, "keys", "__getitem__"):
            return value.pairs(self)
        if self.look_up(value.python_type(), "keys") is not MISSING:
            keys = self.call_method(value, "keys", []).unpack(self)
            return [(key, self.get_item(value, key)) for key in keys]
        pairs = []
        for place, pair in enumerate(value.unpack(self)):
            try:
                items = pair.unpack(self)
            except Raised as raised:
                if not issubclass(raised.value.python_type(), TypeError):
                    raise
                self.raise_(TypeError, f"cannot convert dictionary update sequence element #{place} to a sequence")
            if len(items) != 2:
                said = f"dictionary update sequence element #{place} has length {len(items)}; 2 is required"
                self.raise_(ValueError, said)
            pairs.append((items[0], items[1]))
        return pairs

    def sequence_iterator(self, base: Value) -> Value:
        if isinstance(base, ListValue) and issubclass(base.cls, collections.deque):
            return DequeIterator(base)
        return SequenceIterator(base)

    def taken_iterator(self, items: list[Value], kind: type, base: Value, function: Callable[..., Any] = iter) -> Value:
        made, cls = TakenIterator(items, kind, base), base.python_type()
        name = f"__{function.__name__}__"
        made.made_by = (attribute_in_c(cls, name) if base.overrides(self, name) else function, [base], {})
        return made

    # --------------------------------------------------------------------------------------------------- attributes

    def get_attr(self, value: Value, name: str) -> Value:
        try:
            return value.get_attr(self, name)
        except Raised as raised:
            tell_attribute(raised.value, value, name)
            raise


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
    if own.__objclass__ is object:
        return True
    mine, theirs = _example(owner), _example(operand)
    if mine is MISSING or theirs is MISSING:
        return True
    try:
        return own(mine, theirs) is not NotImplemented
    except TypeError:
        return False


def type_error(function: Callable[[Any, Any], Any], left: type, right: type) -> str | None:
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
