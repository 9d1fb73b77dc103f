"""What traced code switches of torch's state, and what of it outlasts the trace.

Nodes switch settings, and the compiled bytecode does so again where the program leaves them switched. Devices are
written into the graph's calls. Autocast blocks are pairs of nodes, also those that end before they begin, since they
were open at entry: the graph always ends as it began. What the compiled bytecode has to enter and leave for real is
kept in order. Stock: variables/ctx_manager.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import fx
from torch.utils._device import _device_constructors

from explorer.compiler.capture import reasons
from explorer.compiler.capture.tape import Tape
from explorer.core.origin import origin, synthetic
from explorer.ir import settings
from explorer.ir.description import global_state
from explorer.ir.settings import SETTINGS, Enter, Setting

V = TypeVar("V")

CONSTRUCTORS = frozenset(_device_constructors())
"""The functions that a default device is for."""

AMP: Any = torch.amp.autocast_mode  # it carries no types

Autocast = tuple[str, torch.dtype, bool, bool]
"""The device type, dtype, whether casts are made, and whether they are kept."""


def leave_autocast(*before: Any) -> None:
    """Leave a block that was open when the graph began; `before` is the state that it had switched."""
    if torch.autocast_decrement_nesting() == 0:
        torch.clear_autocast_cache()
    _set_autocast(*before)


def reenter_autocast(*inside: Any) -> None:
    """Back into a block that the graph left, at its end."""
    torch.autocast_increment_nesting()
    _set_autocast(*inside)


def _set_autocast(device: str, dtype: torch.dtype, enabled: bool, keep: bool) -> None:
    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(keep)


def leave_context(manager: Any) -> None:
    manager.__exit__(None, None, None)


@dataclass(frozen=True)
class OpenContext(Generic[V]):
    """A context manager or autocast block that the trace entered, its value, and the node that enters it too."""

    manager: V
    node: fx.Node | None
    context: Any


Switched = tuple[Setting, tuple[Any, ...], tuple[Any, ...]]
"""A setting, its key and its value."""


@dataclass(frozen=True)
class PendingContext(Generic[V]):
    """A context manager's `__enter__` or `__exit__`, and the settings that the program had switched before."""

    method: str
    manager: V
    settings: tuple[Switched, ...] = ()


class TorchState(Generic[V]):
    """`devices` are the default devices of the blocks that are open, innermost last."""

    def __init__(self, tape: Tape, devices: tuple[torch.device, ...]) -> None:
        self.tape = tape
        self.at_entry = global_state(devices)
        self.settings_at_entry = settings.now()
        self.local_keys = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
        """The dispatch keys that this thread adds to a tensor's, and leaves out, where the frame begins."""
        self.devices = list(devices)
        self.autocasts: list[OpenContext[V]] = []
        self.contexts: list[OpenContext[V]] = []
        self.left: list[Autocast] = []
        """What those blocks switched that were open at entry and are left, in the order of leaving."""
        self.pending: list[PendingContext[V]] = []
        """The context managers that the compiled bytecode has to enter and leave, in order."""
        self.before: dict[tuple[str, tuple[Any, ...]], tuple[Any, ...]] = {}
        """The settings that were set, by name and key, and what they were at entry."""
        self.modes: list[V] = []
        """The TorchFunctionModes that are open, innermost last."""
        self.unreported = self.modes_have_effects = False
        self.levels = 0
        """How many levels of torch.func's transforms are open."""

    def state(self) -> tuple[Any, ...]:
        """Equal while nothing is switched."""
        opened = (len(self.autocasts), len(self.contexts), len(self.modes), len(self.left), len(self.pending))
        return tuple(self.devices), *opened, self.levels, *self.switched()

    def switched(self) -> list[Switched]:
        """The settings that are not what they were at entry, or may not be where contexts are entered and left before
        they are set: each with its key and its value now."""
        found = ((SETTINGS[name], key, was) for (name, key), was in self.before.items())
        always = bool(self.pending)
        return [(setting, key, now) for setting, key, was in found if (now := setting.read(*key)) != was or always]

    def set(self, name: str, key: tuple[object, ...], value: tuple[object, ...]) -> None:
        """Make a setting now and in the graph, where it changes."""
        self.leave_unreported()
        setting = SETTINGS[name]
        was = setting.read(*key)
        setting.write(*key, *value)
        if setting.read(*key) != was:
            self.before.setdefault((name, key), self.settings_at_entry.get((name, key)) or was)
            self._add(setting.write, *key, *value)

    def leave_unreported(self, inside: bool = False) -> None:
        """A mode that is active, or that this is `inside` of, would see other calls in eager."""
        self.unreported = self.unreported or inside or bool(self.modes)
        self._check_modes()

    def note_mode_effect(self) -> None:
        """A mode had side effects when it got a call."""
        self.modes_have_effects = True
        self._check_modes()

    def _check_modes(self) -> None:
        if self.unreported and self.modes_have_effects:
            why = "a TorchFunctionMode with side effects would see other calls than in eager"
            self.tape.refuse_frame(why, reasons.FRAME_BREAK)

    def enter_device(self, manager: V, device: torch.device) -> None:
        self.devices.append(device)
        self._enter(manager)

    def leave_device(self, manager: V) -> None:
        """Leave the innermost block, as the real __exit__ does."""
        self.devices.pop()
        self._left(manager)

    def typed(self, target: object, kwargs: dict[str, object], made: object) -> dict[str, Any]:
        """The keywords of a call in the graph, with the default dtype where that was set and decides what is made."""
        is_set = ("default dtype", ()) in self.before and target in CONSTRUCTORS and kwargs.get("dtype") is None
        if not is_set or not isinstance(made, torch.Tensor) or made.dtype is not torch.get_default_dtype():
            return kwargs
        return {**kwargs, "dtype": made.dtype}

    def enter_autocast(self, inside: Autocast, manager: V) -> None:
        context = AMP._enter_autocast(*inside)
        node = self._add(AMP._enter_autocast, *inside)
        self.autocasts.append(OpenContext(manager, node, context))
        self._enter(manager)

    def leave_autocast(self) -> None:
        """Leave the innermost block of the graph."""
        opened = self.autocasts[-1]
        self._close()
        self._left(opened.manager)

    def leave_given_autocast(self, manager: V, inside: Autocast, before: Autocast) -> None:
        """Leave the innermost of the blocks that were open at entry."""
        leave_autocast(*before)
        self._add(leave_autocast, *before)
        self.left.append(inside)
        self._left(manager)

    def enter_context(self, manager: V, cls: type, arguments: tuple[object, ...], by_node: bool) -> None:
        self._enter(manager)
        context = Enter(cls)(*arguments)
        node = self._add(Enter(cls), *arguments) if by_node else None
        self.contexts.append(OpenContext(manager, node, context))

    def leave_context(self, manager: V) -> bool:
        """Leave the innermost one; False, and nothing done, where that is another."""
        if not self.contexts or self.contexts[-1].manager is not manager:
            return False
        self._close_context()
        self._left(manager)
        return True

    def _close_context(self) -> None:
        opened = self.contexts.pop()
        leave_context(opened.context)
        if opened.node is not None:
            self._add(leave_context, opened.node)

    def close(self) -> None:
        """Leave for real what a trace that failed had entered."""
        while self.contexts:
            leave_context(self.contexts.pop().context)

    def _close(self) -> None:
        opened = self.autocasts.pop()
        AMP._exit_autocast(opened.context)
        self._add(AMP._exit_autocast, opened.node)

    def _add(self, target: object, *arguments: object) -> fx.Node:
        return self.tape.add("call_function", target, arguments, {}, None)

    def _enter(self, manager: V) -> None:
        self.leave_unreported()
        self.pending.append(PendingContext("__enter__", manager, tuple(self.switched())))

    def _left(self, manager: V) -> None:
        """An entering that this trace made is undone; any other leaving is pending."""
        for place in reversed(range(len(self.pending))):
            pending = self.pending[place]
            if type(pending.manager) is type(manager):
                if pending.method == "__enter__":
                    del self.pending[place]
                    return
                break
        self.pending.append(PendingContext("__exit__", manager))

    def balance(self) -> None:
        """End the graph in the state it began in."""
        with origin(synthetic("settings at the end")):
            while self.contexts:
                self._close_context()
            while self.autocasts:
                self._close()
            while self.left:
                inside = self.left.pop()
                reenter_autocast(*inside)
                self._add(reenter_autocast, *inside)
            for (name, key), was in self.before.items():
                self.set(name, key, was)
