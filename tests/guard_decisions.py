"""Guards tried on a described call: no tensor is made and nothing runs. The viewer does the same in the browser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from explorer.ir.record import ConstantData, ExpressionData, GlobalStateData, GuardData, InputData

Value = Fraction | bool


class Undecided(Exception):
    """The description does not say whether the guard holds; the message says what is missing."""


@dataclass(frozen=True)
class Decision:
    """`holds` is None where the description does not tell. `how` says how it fails, or what is missing."""

    guard: GuardData
    holds: bool | None
    how: str = ""


def decide(
    guards: Iterable[GuardData], inputs: Iterable[InputData], state: GlobalStateData | None = None
) -> list[Decision]:
    """Each guard on the call that `inputs` describe, made in the global state `state`."""
    described = {each.source: each for each in inputs}
    found = []
    for guard in guards:
        try:
            how = _differences(guard, described, state)
        except Undecided as unknown:
            found.append(Decision(guard, None, str(unknown)))
        else:
            found.append(Decision(guard, not how, how))
    return found


def _differences(guard: GuardData, inputs: Mapping[str, InputData], state: GlobalStateData | None) -> str:
    """How the call breaks the guard, "" where it does not. Raises Undecided."""
    match guard.property:
        case "shape":
            return _shape(guard, inputs)
        case "global_state":
            return _state(guard, state)
        case "alias":
            return _alias(guard, inputs)
        case "code":
            raise Undecided("a function's code is known only in the running process")
    given = inputs.get(guard.source)
    if given is None:
        raise Undecided("this value is not described")
    match guard.property:
        case "tensor":
            if guard.tensor is None:
                raise Undecided("the record does not say what was expected")
            if given.tensor is None:
                return f"is {_called(given)}, expected a tensor"
            return ", ".join(guard.tensor.differences(given.tensor))
        case "type":
            kind = given.type or (given.tensor.type if given.tensor else "")
            return "" if kind == guard.type else f"type is {kind}, expected {guard.type}"
        case "constant" | "value" if guard.constant is not None:
            same = given.constant is not None and equal(given.constant, guard.constant)
            return "" if same else f"is {_called(given)}, expected {guard.constant.text}"
        case "id":
            return _identity(guard, given)
        case "length":
            length = _length(given)
            return "" if length == guard.length else f"length is {length}, expected {guard.length}"
        case "empty":
            empty = _length(given) == 0
            return "" if empty == (guard.length == 0) else "is empty" if empty else "is not empty"
        case "keys" | "has":
            return _keys(guard, given)
    raise Undecided("it is a check in Python")


def equal(one: ConstantData, other: ConstantData) -> bool:
    """Whether two constants are the same, as the record defines it."""
    same = one.type == other.type and type(one.value) is type(other.value) and one.value == other.value
    return same and (one.value is not None or one.text == other.text)


def _called(given: InputData) -> str:
    if given.constant is not None:
        return given.constant.text
    return f"a {given.type if given.kind == 'object' else given.kind}"


_SINGLE = ("NoneType", "bool")
"""Types whose values are one object each: a description that gives one tells which object it is."""


def _identity(guard: GuardData, given: InputData) -> str:
    wanted = guard.constant if guard.constant is not None and guard.constant.type in _SINGLE else None
    found = given.constant if given.constant is not None and given.constant.type in _SINGLE else None
    if wanted is None and found is None:
        raise Undecided("object identity is known only in the running process")
    if wanted is not None and found is not None and equal(wanted, found):
        return ""
    return f"is {_called(given)}, expected {guard.value}"


def _length(given: InputData) -> int:
    if given.length is not None:
        return given.length
    if given.keys is not None:
        return len(given.keys)
    if given.constant is not None and isinstance(given.constant.value, str):
        return len(given.constant.value)
    raise Undecided("its length is not described")


def _keys(guard: GuardData, given: InputData) -> str:
    if given.keys is None or guard.keys is None or guard.relation.endswith("attribute"):
        raise Undecided("what it has is not described")
    if guard.property == "keys":
        same = len(given.keys) == len(guard.keys) and all(map(equal, given.keys, guard.keys))
        return "" if same else f"keys are ({', '.join(key.text for key in given.keys)}), expected {guard.value}"
    (wanted,) = guard.keys
    present = any(equal(key, wanted) for key in given.keys)
    return "" if present == guard.relation.startswith("has") else f"{'has' if present else 'lacks'} {wanted.text}"


def _alias(guard: GuardData, inputs: Mapping[str, InputData]) -> str:
    """Which inputs are one object is described by `same_as`."""

    def which(source: str) -> str:
        if source not in inputs:
            raise Undecided("which object it is is not described")
        return inputs[source].same_as or source

    if guard.relation == "is":
        (other,) = guard.others
        return "" if which(guard.source) == which(other) else f"is not {other}"
    first: dict[str, str] = {}
    same = [(source, first.setdefault(which(source), source)) for source in guard.others]
    return ", ".join(f"{source} is {other}" for source, other in same if source != other)


def _state(guard: GuardData, given: GlobalStateData | None) -> str:
    if guard.state is None or given is None:
        raise Undecided("the global state is not described")
    names = {
        "grad_enabled": "grad mode", "autocast": "autocast", "default_dtype": "default dtype",
        "deterministic": "deterministic mode", "threads": "number of threads", "devices": "default devices",
    }  # fmt: skip
    pairs = ((name, getattr(given, field), getattr(guard.state, field)) for field, name in names.items())
    return ", ".join(f"{name} is {theirs}, expected {ours}" for name, theirs, ours in pairs if theirs != ours)


def _shape(guard: GuardData, inputs: Mapping[str, InputData]) -> str:
    if guard.shape is None:
        raise Undecided("the record does not say what was expected")
    read: dict[str, Fraction] = {}
    if _truth(evaluate(guard.shape, inputs, read)):
        return ""
    return "with " + ", ".join(f"{name} = {value}" for name, value in read.items())


def evaluate(expression: ExpressionData, inputs: Mapping[str, InputData], read: dict[str, Fraction]) -> Value:
    """The value of a relation between sizes, or of a part of it; `read` gets the leaves. Raises Undecided."""
    op = expression.op
    if op == "number":
        return Fraction(expression.value)
    if op in ("size", "stride", "value"):
        name = expression.source if op == "value" else f"{expression.source}.{op}({int(expression.value)})"
        read[name] = _leaf(expression, inputs.get(expression.source), name)
        return read[name]
    if op in ("and", "or"):
        return _settled(expression, inputs, read, by=op == "or")
    if op == "if":
        condition, then, otherwise = expression.arguments
        return evaluate(then if _truth(evaluate(condition, inputs, read)) else otherwise, inputs, read)
    if op == "not":
        return not _truth(evaluate(expression.arguments[0], inputs, read))
    if op not in _OPERATORS:
        raise Undecided(f"{expression.text or op} cannot be computed here")
    numbers = [_number(evaluate(part, inputs, read)) for part in expression.arguments]
    try:
        return _OPERATORS[op](numbers)
    except ZeroDivisionError:
        raise Undecided("it divides by zero") from None


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or abs(exponent) > 64:
        raise Undecided("it has a power that cannot be computed here")
    return base ** int(exponent)


_OPERATORS: Mapping[str, Callable[[list[Fraction]], Value]] = {
    "+": lambda n: sum(n, Fraction()), "*": lambda n: Fraction(math.prod(n)), "-": lambda n: -n[0],
    "/": lambda n: n[0] / n[1],
    "//": lambda n: Fraction(n[0] // n[1]), "%": lambda n: n[0] % n[1], "**": lambda n: _power(n[0], n[1]),
    "min": min, "max": max, "abs": lambda n: abs(n[0]),
    "floor": lambda n: Fraction(math.floor(n[0])), "ceil": lambda n: Fraction(math.ceil(n[0])),
    "<": lambda n: n[0] < n[1], "<=": lambda n: n[0] <= n[1], ">": lambda n: n[0] > n[1],
    ">=": lambda n: n[0] >= n[1], "==": lambda n: n[0] == n[1], "!=": lambda n: n[0] != n[1],
}  # fmt: skip


def _leaf(leaf: ExpressionData, given: InputData | None, name: str) -> Fraction:
    found: float | None = None
    dim = int(leaf.value)
    if given is not None and leaf.op == "value":
        value = given.constant.value if given.constant is not None else None
        found = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    elif given is not None and given.tensor is not None:
        numbers = given.tensor.sizes if leaf.op == "size" else given.tensor.strides or ()
        found = numbers[dim] if dim < len(numbers) else None
    if found is None:
        raise Undecided(f"{name} is not described")
    return Fraction(found)


def _settled(expression: ExpressionData, inputs: Mapping[str, InputData], read: dict[str, Fraction], by: bool) -> bool:
    """ "or" (`by` true) or "and": one part may settle it although another cannot be told."""
    unknown: Undecided | None = None
    for part in expression.arguments:
        try:
            if _truth(evaluate(part, inputs, read)) == by:
                return by
        except Undecided as reason:
            unknown = reason
    if unknown is not None:
        raise unknown
    return not by


def _number(value: Value) -> Fraction:
    if isinstance(value, bool):
        raise Undecided("it computes with a truth value")
    return value


def _truth(value: Value) -> bool:
    if not isinstance(value, bool):
        raise Undecided("it is a number, not a relation")
    return value
