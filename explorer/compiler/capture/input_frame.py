"""What a frame was given, described: its arguments, and everything else that a guard asks about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from explorer.ir.bytecode import Code
from explorer.ir.capture import Frame, Global, Guard, Input, Local, Source, read, root
from explorer.ir.description import described
from explorer.ir.record import InputData

_DESCRIBED = frozenset("tensor constant id length keys has value type".split())
"""Kinds of guards that a description of the value can answer."""


def described_inputs(
    code: Code, frame: Frame, guards: Iterable[Guard], placeholders: Iterable[Input], held: Mapping[Source, Any]
) -> tuple[InputData, ...]:
    """Each value once: the arguments first, then what guards ask about, in the order in which the frame read it.
    What is `held` is not read again: reading may draw a random number."""
    names = {each.source: each.name for each in placeholders}
    sources: dict[Source, None] = {Local(name): None for name in frame.locals}
    sources |= {g.source: None for g in guards if g.source is not None and g.kind in _DESCRIBED}
    sources |= {each: None for each in names}
    objects: dict[int, str] = {}
    found = []
    for source in sources:
        value = held[source] if source in held else read(source, frame.locals, frame.globals)
        first = objects.setdefault(id(value), source.name) if _has_identity(value) else source.name
        same_as = first if first != source.name else ""
        found.append(described(source.name, value, _role(source, code), names.get(source, ""), same_as))
    return tuple(found)


def _has_identity(value: Any) -> bool:
    """Whether two names of it are more than two equal values."""
    return value is not None and not isinstance(value, (bool, int, float, complex, str, bytes, type))


def _role(source: Source, code: Code) -> str:
    if isinstance(source, Local):
        return "closure" if source.variable in code.frees else "argument"
    return "global" if isinstance(root(source), Global) else "reached"
