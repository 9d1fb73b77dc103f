"""Why the guards of an earlier compile refuse a call: all that fail, with what the values are now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from explorer.compiler.capture.guards import has_keys, instance_dict, is_empty, keys_of, python_check
from explorer.compiler.capture.values.constant import is_plain
from explorer.ir.capture import Frame, Global, Guard, Known, Local, Source, read, short, state_text
from explorer.ir.description import global_state, tensor_facts, type_name


def failures(guards: Iterable[Guard], frame: Frame) -> list[tuple[Guard, str]]:
    """Every guard that the values of `frame` break, and how, with what they are.

    The C++ check stops at the first; this asks Python about each, which takes long and so is for telling people alone.
    """
    found = []
    other: set[Source] = set()
    for guard in guards:
        if guard.source is not None and not other.isdisjoint(_bases(guard.source)):
            continue  # what is asked of an object of another kind has no meaning
        try:
            how = _failure(guard, frame)
        except Exception as error:  # the program's own code may run, as it does in the C++ check
            how = f"cannot be read: {type(error).__name__}: {error}"
        if how:
            found.append((guard, how))
            if guard.property in ("type", "tensor", "id") and guard.source is not None:
                other.add(guard.source)
    return found


def _bases(source: Source) -> Iterator[Source]:
    """The source and all that it is read from."""
    yield source
    while not isinstance(source, (Local, Global, Known)):
        source = source.base
        yield source


def _failure(guard: Guard, frame: Frame) -> str:
    """How the frame breaks one guard; "" where it holds. Raises what reading the value raises."""
    if guard.property == "global_state":
        now = global_state(frame.devices)
        return "" if now == guard.value else f"now {state_text(now)}"
    assert guard.source is not None

    def given(source: Source) -> Any:
        return read(source, frame.locals, frame.globals)

    if guard.property == "shape":
        values = [given(source) for source in guard.value.sources]
        told = ", ".join(f"{s.name} = {v}" for s, v in zip(guard.value.sources, values, strict=True))
        return "" if guard.value.holds(*values) else f"with {told}"
    if guard.property == "alias" and guard.relation == "are distinct":
        first: dict[int, Source] = {}
        same = [(s, first.setdefault(id(given(s)), s)) for s in guard.value]
        return ", ".join(f"{s.name} is {other.name}" for s, other in same if s is not other)
    value, expected = given(guard.source), guard.value
    match guard.property:
        case "tensor":
            if not isinstance(value, torch.Tensor):
                return f"is a {type(value).__name__}, expected a tensor"
            return ", ".join(expected.data.differences(tensor_facts(value)))
        case "type":
            holds, is_now = type(value) is expected, f"type is {type_name(type(value))}, expected {type_name(expected)}"
        case "id":
            holds, is_now = value is expected, f"is {short(value)}, expected {short(expected)}"
            if holds is False and short(value) == short(expected):
                is_now = f"is another {short(value)}"
        case "code":
            holds, is_now = value.__code__ is expected, f"is {short(value)}, expected {short(expected)}"
        case "constant":
            holds = type(value) is type(expected) and value == expected
            is_now = f"is {_said(value)}, expected {expected!r}"
        case "length":
            holds, is_now = len(value) == expected, f"length is {len(value)}, expected {expected}"
        case "keys":
            told = ", ".join(map(_said, keys_of(value))) if isinstance(value, dict) else short(value)
            holds, is_now = has_keys(expected)(value), f"keys are ({told}), expected {expected!r}"
        case "empty":
            holds, is_now = is_empty(expected)(value), "is not empty" if expected else "is empty"
        case "has":
            key, present, where = expected
            held = value if where == "key" else instance_dict(value)
            found = key in held if held is not None and where != "slot" else hasattr(value, key)
            holds, is_now = found == present, f"{'has' if found else 'lacks'} {key!r}"
        case "alias":
            holds, is_now = value is given(expected), f"is not {expected.name}"
        case _:
            holds, is_now = python_check(guard)(value), f"is {_said(value)}"
    return "" if holds else is_now


def _said(value: Any) -> str:
    return repr(value)[:60] if is_plain(value) else short(value)
