"""Side effects of the traced code on objects that were there before: kept in order, replayed by the compiled bytecode.

Stock counterpart: torch/_dynamo/side_effects.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch._ops import OpOverload, OpOverloadPacket

from explorer.compiler.capture import reasons
from explorer.core.origin import Origins, origins
from explorer.core.reasons import Why
from explorer.ir.capture import Capture, Effect, KnownEffects, UnknownEffects

V = TypeVar("V")


NUMBERS = itertools.count(1)
"""Numbers the objects that traced code makes, in order."""


@dataclass
class Change:
    """One thing that changed: the object's value, and the attribute for an attribute write, or the key for an item. For
    a call the function with its arguments, and the call as text. `step` is the evaluator's step that first made it."""

    kind: str
    value: Any
    name: Any
    origins: Origins
    step: int


class Effects(Generic[V]):
    """Changes of values of type V; `deleted` marks what was deleted. `version` grows with every change, also of new
    objects and iterators: a step in which it does not grow changed nothing."""

    def __init__(self, deleted: V) -> None:
        self.deleted = deleted
        self.changes: dict[Any, Change] = {}
        self.globals: dict[tuple[int, str], V] = {}
        self.classes: dict[tuple[int, str], V] = {}
        """Attributes of classes that the program has set, by the class's id and name."""
        self.version = 0
        self.oldest = 0
        """The number of the oldest object that changed, of those that traced code made; 0 for all others."""
        self.read = 0
        """Counts reads of items of containers that were there before."""
        self.outside = 0
        """Counts changes of objects that were there before."""
        self.step = -1
        """The number of the evaluator's step at work."""

    def touch(self, target: Any = None) -> None:
        """Something changes, if nothing else is named what was there before."""
        self.version += 1
        is_made = target is not None and target.source is None
        self.oldest = min(self.oldest, getattr(target, "made_as", 0) if is_made else 0)

    def _log(self, key: object, kind: str, value: object, name: object) -> None:
        self.outside += 1
        self._add(key, kind, value, name)

    def _add(self, key: object, kind: str, value: object, name: object) -> None:
        before = self.changes.get(key)
        self.changes[key] = Change(kind, value, name, origins(), self.step if before is None else before.step)

    def set_attr(self, target: Any, name: str, value: V) -> None:
        """`target.overlay` takes the value; logged where the object was there before."""
        self.touch(target)
        if not hasattr(target, "overlay"):
            target.overlay = {}
        if target.overlay.get(name) is self.deleted:
            del target.overlay[name]  # an attribute that was deleted and is set again comes last
        target.overlay[name] = value
        if target.source is None:
            return
        if value is self.deleted:
            self.changes.pop((id(target), name), None)
            self._log((id(target), name, "deleted"), "deleted", target, name)
        else:
            self._log((id(target), name), "attribute", target, name)

    def is_deleted(self, target: object, name: str) -> bool:
        """Whether the program deleted the attribute that was there before."""
        return (id(target), name, "deleted") in self.changes

    def change(self, target: Any) -> None:
        """A container is about to change."""
        self.touch(target)
        target.read_all()
        self.outside += target.source is not None
        if target.source is not None and (id(target), "") not in self.changes:
            for key in [key for key, each in self.changes.items() if each.value is target and each.kind == "item"]:
                del self.changes[key]  # the whole container is replayed
            self._log((id(target), ""), "container", target, "")

    def set_item(self, target: Any, key: object) -> None:
        """An item of a dictionary is about to be set, of which nothing else was asked."""
        self.touch(target)
        if target.source is not None and (id(target), "") not in self.changes:
            self._log((id(target), "item", key), "item", target, key)

    def is_changed(self, target: object) -> bool:
        """Whether the traced code changed the contents of a container that was there before."""
        return any(each.value is target and each.kind in ("container", "item") for each in self.changes.values())

    def advance(self, iterator: object) -> None:
        """An iterator from outside was used."""
        self.touch()
        if (id(iterator), "iterator") not in self.changes:
            self._log((id(iterator), "iterator"), "iterator", iterator, "")

    def cell(self, target: Any) -> None:
        self.touch(None if target.root_name else target)
        if target.source is not None or target.root_name:
            self._log((id(target), "cell"), "cell", target, "")

    def set_global(self, namespace: dict[str, Any], name: str, value: V) -> None:
        self.touch()
        self.globals[id(namespace), name] = value
        self._log((id(namespace), name, "global"), "global", namespace, name)

    def set_class(self, cls: type, name: str, value: V) -> None:
        self.touch()
        self.classes[id(cls), name] = value
        self._log((id(cls), name, "class"), "class", cls, name)

    def call(self, function: Callable[..., None], arguments: Sequence[V], what: str) -> None:
        """A call that is made only for its effect, after the graph. Nothing changes its arguments until then."""
        self.touch()
        self._add(object(), "call", (function, list(arguments)), what)

    def make(self, value: V, what: str) -> None:
        """A value that is made after the graph for its effect, whether or not the program keeps it."""
        self.touch()
        self._add((id(value), "made"), "made", value, what)

    def unmake(self, value: V) -> bool:
        """Whether the value has not been made, so that it can be left out."""
        self.touch()
        return self.changes.pop((id(value), "made"), None) is not None

    def described(self) -> tuple[Effect, ...]:
        return tuple(_describe(change) for change in self.changes.values())


OWN_OPERATORS = ("aten", "prims")
"""The namespaces of torch's operators, whose schemas say what they write. That of a custom one may say less."""


def verdict(capture: Capture) -> KnownEffects | UnknownEffects:
    """Whether all effects of the frame are known: the capture saw all of it, and each operator that it runs is
    torch's."""
    if (why := capture.fallback or next((each.why for each in capture.breaks), None)) is not None:
        return UnknownEffects(why)
    for node in capture.graph.graph.nodes if capture.graph is not None else ():
        if isinstance(node.target, (OpOverload, OpOverloadPacket)):
            name = node.target.name() if isinstance(node.target, OpOverload) else node.target._qualified_op_name
            if name.partition("::")[0] not in OWN_OPERATORS:
                return UnknownEffects(Why(reasons.UNTRACEABLE_CALL, name))
    return KnownEffects(capture.effects)


def _describe(change: Change) -> Effect:
    if change.kind == "global":
        return Effect("global", change.name, "is set", change.origins, change.step)
    if change.kind in ("call", "made"):
        return Effect("call", change.name, "", change.origins, change.step)
    if change.kind == "class":
        return Effect("attribute", f"{change.value.__qualname__}.{change.name}", "is set", change.origins, change.step)
    if change.kind == "cell":
        return Effect("cell", change.value.root_name or change.value.source.name, "is set", change.origins, change.step)
    name = change.value.source.name
    if change.kind == "iterator":
        return Effect("iterator", name, "is moved on", change.origins, change.step)
    if change.kind in ("attribute", "deleted"):
        verb = "is set" if change.kind == "attribute" else "is deleted"
        return Effect("attribute", f"{name}.{change.name}", verb, change.origins, change.step)
    if change.kind == "item":
        return Effect("dict", f"{name}[{change.name!r}]", "is set", change.origins, change.step)
    kind = next(
        (k for k in ("list", "dict", "set", "deque") if k in {b.__name__.lower() for b in change.value.cls.__mro__}),
        "list",
    )
    return Effect(kind, name, "is refilled", change.origins, change.step)  # type: ignore[arg-type]
