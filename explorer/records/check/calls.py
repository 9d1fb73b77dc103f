"""The calls that an exploration makes of a function: the real one, and others without lasting effects.

The state that the call can reach is saved before the first call, and restored before each other call; after it, the
state that the first call left is restored. If the state cannot be saved, the function is called once.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import FunctionType
from typing import Any, Literal

import torch
from torch.nn.parameter import is_lazy

from explorer.ir.capture import KnownEffects
from explorer.records.check import process
from explorer.records.check.captured import effects_of
from explorer.records.check.isolate import CODE, NotIsolated, Objects, State, TracedInto, reached, undone
from explorer.records.check.leaves import Leaves, leaves
from explorer.records.check.names import named_arguments, tensors_reached
from explorer.records.check.snapshot import (
    ClassAttributes,
    Description,
    Memory,
    SavedBinding,
    Snapshot,
    gradient,
    plainly,
)
from explorer.records.check.trial import Contestant, Outcome, Trial, check_memory

Leave = Literal["called", "unchanged"]
"""The lasting effects of an exploration: those of one call of the function, or none."""

COPIES = 2
"""Copies of the memory of all tensors: before the call, and after it."""

SAID = {"print": "it prints", "log": "it logs", "warn": "it warns"}

TIMED_FROM_LEFT = (
    "Each timed call starts from the state that the first call left, as the next call of a training loop does; a "
    "compile that only the new state causes is not recorded."
)

RETAIN = torch.Tensor.retain_grad.__name__

_ONE_AT_A_TIME = threading.RLock()
"""One call at a time, since calls in several threads may reach the same objects."""

TORCHS_OWN = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)
"""Objects whose attributes are restored like tensors, and do not count as side effects."""


@dataclass(eq=False)
class RepeatedCalls:
    """The calls of `fn` with these arguments. `once` says why it may not be called again, if so."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    leave: Leave = "called"
    once: str = ""
    made: int = 0
    most: int = 3
    """The most calls of a function with side effects other than tensor mutation."""
    traced_into: bool = False
    """It is called only once because of something that stock traces into."""
    expected: Outcome | None = None
    """The outcome of the real call."""
    before: Snapshot | None = None
    after: Snapshot | None = None
    """What is to be left."""
    effects: tuple[str, ...] = ()
    """Side effects other than tensor mutation; such a function is not called repeatedly for timing."""
    own_backward: bool = False
    """The call runs a backward itself, and what it returns has none left, or the backward raises."""
    backward_error: str = ""
    steady: bool = True
    """A call changes only elements of tensors, so calls may follow each other without a reset."""
    ended: bool = False
    """The exploration has ended, and the program gone on."""
    _changed: list[SavedBinding] = field(default_factory=list)
    _left: Snapshot | None = None
    """What the real call left."""
    _changed_again: list[SavedBinding] | None = None
    """What a call that starts from there changes."""
    _process: process.Process = field(default_factory=process.Process.now)
    _process_after: process.Process | None = None
    _handlers: Set[int] = field(default_factory=process.handlers_alive)
    _warned: process.Warned = field(default_factory=process.warned_already)
    _outputs: process.OutputKinds = field(default_factory=process.OutputKinds)
    _heard: process.Heard = field(default_factory=partial(process.Heard, refuses=False))

    def __post_init__(self) -> None:
        state = None
        try:
            state = reached(self.fn, named_arguments(self.fn, self.args, self.kwargs), self._is_known)
            check_memory(state, COPIES)
            computed = (path for path, tensor in state.tensors.items() if tensor.grad_fn and not tensor.retains_grad)
            if self.leave == "unchanged" and RETAIN in state.names and (path := next(computed, "")):
                raise NotIsolated(f"it may call {RETAIN}() on {path}, which cannot be undone")
            self.before = Snapshot(state)
        except NotIsolated as refusal:
            self.once = str(refusal)
            self.traced_into = isinstance(refusal, TracedInto) or state is not None and state.objects.tells_ends

    def _is_known(self, state: State) -> bool:
        """Whether capture knows all effects of the call: then it runs none of what its code might."""
        if any(map(is_lazy, state.tensors.values())):
            return False  # which capture would initialize
        try:
            check_memory(state, COPIES)
            before = Snapshot(state)
        except NotIsolated:
            return False
        try:
            with process.hushed(self._warned), process.heard(refuses=True):
                return isinstance(effects_of(self.fn, self.args, self.kwargs), KnownEffects)
        except (Exception, process.Outside):  # the program's own, as of arguments that do not fit: the call raises it
            return False
        finally:
            before.put()
            self._process.put()

    @cached_property
    def computed_before(self) -> bool:
        """Whether gradients flow through a graph that the program made before the call, and may still need: from a
        tensor that the call is given to another."""
        given = [] if self.before is None else [t for t in self.before.state.tensors.values() if t.requires_grad]
        ends = {tensor.grad_fn for tensor in given if tensor.grad_fn is not None}
        leaves = {id(tensor) for tensor in given if tensor.is_leaf}
        waiting, seen = [*ends], set(ends)
        while waiting:
            for node in {follower for follower, _ in waiting.pop().next_functions if follower is not None}:
                if node in ends or id(getattr(node, "variable", None)) in leaves:
                    return True
                if node not in seen:
                    seen.add(node)
                    waiting.append(node)
        return False

    @property
    def repeatable(self) -> bool:
        """Whether it may be called any number of times: it only changes tensors, which are restored."""
        return not self.once and not self.effects

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Around the real call, which shows what the function changes and whether it may be repeated."""
        assert self.before is not None
        self.made += 1
        with ExitStack() as stack:
            stack.enter_context(_ONE_AT_A_TIME)
            stack.callback(self._look)
            if self.leave == "unchanged":
                stack.enter_context(process.hushed())
            self._outputs = stack.enter_context(process.noted(self._warned))
            self._heard = stack.enter_context(process.heard(refuses=self.leave == "unchanged"))
            yield

    def _look(self) -> None:
        """The call has ended, perhaps with an error. Raises nothing."""
        assert self.before is not None
        self._process_after = process.Process.now()
        self._changed = self.before.changed()
        changed = self._process_after.changed_since(self._process, self._heard.compilers_variables)
        settings = (f"it changes a setting: {each}" for each in changed)
        self.effects = (*(SAID[kind] for kind in sorted(self._outputs)), *self._python_changes(), *settings)
        self.steady = all(
            isinstance(each, Memory) or isinstance(each, Description) and each.same_but_written()
            for each in self._changed
        )
        stuck = (each for each in self._changed if isinstance(each, Description) and not each.can_be_put)
        if self._heard.actions:
            self.once = f"calling it again would {self._heard.actions[0]} again"
        elif taker := next((each for each in self._outputs.taken_by.values() if self._is_seen(each)), None):
            name = taker.__name__ if isinstance(taker, FunctionType) else f"a {type(taker).__name__}"
            self.once = f"what it logs or warns of is given to {name}, and the program may see that"
        elif (first := next(stuck, None)) is not None:
            self.once = f"it changed how gradients flow to {first.path}, which cannot be restored"
        try:
            self.after = self._left = Snapshot(self.before.state.now())
        except NotIsolated as refusal:
            self.once = self.once or f"after the call, {refusal}"
        if self.leave == "called" and self.after is not None and not self.once:
            gone, new = next(self._missed(self.after), None), next(self._left_behind(self.after), None)
            if gone or new:
                what = f"frees {gone}" if gone else f"makes {new}"
                self.once = f"it {what}, whose end the program may notice"
                self.before = self.after = self._left = None
                self._changed = []

    def _is_seen(self, taker: object) -> bool:
        assert self.before is not None
        return process.is_seen_to_take(taker, self.before.state, self._handlers)

    def _missed(self, after: Snapshot) -> Iterator[str]:
        """Objects that the call let go of, and whose end the program may notice: by `__del__`, or a weak reference.
        They live on while the state before the call is kept."""
        assert self.before is not None
        held, remaining = self.before.state.objects, after.state.objects.found
        if held.weak:
            remaining = self.before.state.now(strongly=True).objects.found
        weak = {id(alive) for reference in held.weak if (alive := reference()) is not None}
        for id_, (value, path) in held.found.items():
            if id_ in remaining:
                continue
            by_others = any(_not_torchs(each, value) for each in weakref.getweakrefs(value))
            if hasattr(type(value), "__del__") or id_ in weak or by_others:
                yield path

    def _left_behind(self, after: Snapshot) -> Iterator[str]:
        """Objects that the call made and left, and whose end runs something. Those of a further call end whenever the
        last record of it is let go of."""
        assert self.before is not None
        held = self.before.state.objects.found
        for id_, (value, path) in after.state.objects.found.items():
            if id_ in held or isinstance(value, CODE):
                continue
            callbacks = (each.__callback__ for each in weakref.getweakrefs(value))
            if hasattr(type(value), "__del__") or any(map(_runs_something, callbacks)):
                yield path

    def end_call(self) -> None:
        """Ends the real call; restores the state before it if the exploration is to have no effects."""
        if self.leave == "unchanged" and self.before is not None:
            self.before.put()
            self._process.put()
            self.after, self._process_after = self.before, self._process

    @property
    def printed(self) -> list[process.OutputLine]:
        """What the real call printed, logged and warned of."""
        return self._outputs.lines()

    @contextmanager
    def behind(self) -> Iterator[process.OutputKinds]:
        """Around work that is not a call of the function: its output and effects are undone."""
        assert self.before is not None
        with _ONE_AT_A_TIME:
            if self.ended:
                self._process_after = process.Process.now()
                self.after = Snapshot(self.before.state.now())
            with undone(self.restore), process.hushed(self._warned) as output, process.heard(refuses=True):
                yield output

    def _python_changes(self) -> Iterator[str]:
        theirs = self._torchs_own()
        for each in self._changed:
            if not isinstance(each, (Description, Memory)) and id(each.owner) not in theirs:
                yield f"it changes {each.path}"

    def _torchs_own(self) -> set[int]:
        """Objects that belong to an optimizer or its like."""
        assert self.before is not None
        found = Objects()
        for value, path in list(self.before.state.objects.found.values()):
            if isinstance(value, TORCHS_OWN):
                found.found[id(value)] = value, path
                for name, held in vars(value).items():
                    if name in ("state", "defaults", "_per_optimizer_states", "_last_lr", "base_lrs"):
                        found.add(held, f"{path}.{name}")
                    if name == "param_groups":  # what a step sets in them; which there are is the program's to change
                        found.found |= {id(group): (group, f"{path}.{name}") for group in held}
        return {id(value) for value, _ in found.found.values() if not isinstance(value, torch.nn.Module)}

    @contextmanager
    def repeated(self) -> Iterator[process.OutputKinds]:
        """Around a call without lasting effects, which starts from the state before the first call."""
        assert self.before is not None
        self.made += 1
        with self.behind():
            self.before.put()  # of a program that replaces sys.stdout this puts back the one that is not hushed
            self._process.put()
            self._changed_again = None  # it is about a call that starts from what the first left
            with process.hushed(self._warned) as output:
                yield output

    def classes_made(self) -> bool:
        """Whether classes that further calls made are subclasses of the program's, until they are collected."""
        made = [] if self.after is None else self.after.kept
        return any(isinstance(each, ClassAttributes) and each.has_more_subclasses() for each in made)

    def restore(self) -> None:
        """Puts everything as it is to be left."""
        assert self.after is not None and self._process_after is not None
        self.after.put()
        self._process_after.put()

    def reset(self) -> None:
        """Between timed calls: restores what the call changes. Where that is more than elements of tensors, each starts
        from what the first call left, as the next step of a training loop does: an optimizer makes its state in the
        first step, for which a compiler compiles once."""
        assert self.before is not None
        if self.steady or self._left is None:
            self.before.put(self._changed)
        elif self._changed_again is None:
            self._changed_again = []
            self._left.put()
        else:
            self._changed_again = self._changed_again or self._left.changed()
            self._left.put(self._changed_again)

    def same_memory(self) -> set[int]:
        """The memory that is as before the first call, by the storages that it belongs to."""
        assert self.before is not None
        return {each.owner._cdata for each in self.before.memory if not each.changed()}

    def written(self) -> dict[str, Any]:
        """The leaves of what a call left in objects of Python."""
        assert self.before is not None
        return self.before.written()

    @property
    def untimed(self) -> str:
        """Why the function is not called for timing, if so."""
        if self.once:
            return f"the function was called only once, because {self.once}"
        return f"the function is not called for timing, because {self.effects[0]}" if self.effects else ""

    def notes(self, *, timed: bool) -> tuple[str, ...]:
        """Notes on how often the function was called, and why; `timed` says whether the record holds times."""
        failed = f"Gradients are not compared: the backward of the eager call raises: {self.backward_error}"
        return (*self._notes(timed), *([failed] if self.backward_error else []))

    def _notes(self, timed: bool) -> tuple[str, ...]:
        if self.once:
            return (f"{self.untimed[0].upper()}{self.untimed[1:]}.",) if self.leave == "called" or self.made else ()
        state = "as before" if self.leave == "unchanged" else "as one eager call leaves it"
        if self.repeatable:
            return (TIMED_FROM_LEFT,) if timed and not self.steady else ()
        more = "" if len(self.effects) == 1 else f" and {len(self.effects) - 1} more"
        instead = (
            f" It was not called for timing, because {self.effects[0]}{more}; its graphs were timed instead, on their "
            "inputs."
        )
        times = {1: "once", 2: "twice"}.get(self.made, f"{self.made} times")
        kinds = [kind for kind in ("print", "log", "warn") if kind in self._outputs]
        seen = "once" if self.leave == "called" else "not at all"
        shown = f", and what it {kinds[0]}s is shown {seen}" if kinds else ""
        return (
            f"The function was called {times}{shown}; its state was restored before each further call, and is now "
            f"{state}." + instead * timed,
        )


def _not_torchs(reference: weakref.ref[object], value: object) -> bool:
    """Dynamo refers to each module that is made after it compiled one that was changed, and torch to tensors without
    being notified of their ends."""
    callback = reference.__callback__
    if callback is None:
        return not isinstance(value, torch.Tensor)
    return not str(getattr(callback, "__module__", "")).startswith("torch.")


def _runs_something(callback: object) -> bool:
    """Whether what is called at an object's end is more than a weak container, which drops it: what is in those is put
    back. Torch keeps some of its own."""
    module = str(getattr(callback, "__module__", ""))
    keeps = module.startswith("torch.") or module in ("weakref", "_weakrefset") and isinstance(callback, FunctionType)
    return callback is not None and not keeps


@dataclass(frozen=True, kw_only=True)
class InPlace(Trial):
    """A call that can be repeated on the program's own objects."""

    calls: RepeatedCalls

    @property
    def repeatable(self) -> bool:
        return self.calls.repeatable

    @property
    def runs_in_eager(self) -> bool:
        return self.calls.expected is not None

    @property
    def backward_raises(self) -> bool:
        return bool(self.calls.backward_error)

    def call(self) -> None:
        """The real call, in eager. Raises what the function raises."""
        Player(self.fn, self).first()

    def expected(self) -> Outcome:
        assert self.calls.expected is not None
        return self.calls.expected

    def again(self, spare: int = 0) -> Contestant:
        if not self.repeatable and self.calls.made + spare >= self.calls.most:
            raise NotIsolated(f"the function is called at most {self.calls.most} times")
        return self.contestant()

    def timed(self) -> AbstractContextManager[object]:
        return self.calls.repeated()

    @property
    def steady(self) -> bool:
        return self.calls.steady

    def reset(self) -> None:
        self.calls.reset()

    def contestant(self, prepare: Callable[[Callable[..., object]], Callable[..., object]] | None = None) -> Contestant:
        return Player(prepare(self.fn) if prepare else self.fn, self)


class Player(Contestant):
    """A contestant over the program's own objects."""

    def __init__(self, run: Callable[..., object], trial: InPlace) -> None:
        super().__init__(run, trial.fn, trial.args, trial.kwargs, trial.grad, trial.within)
        self.calls = trial.calls

    def _reached(self) -> dict[str, torch.Tensor]:
        """The tensors that the call reaches by now: it may make some, as an optimizer's first step does."""
        return tensors_reached(self.fn, named_arguments(self.fn, self.args, self.kwargs))

    def first(self) -> None:
        """The real call. Raises what the function raises."""
        try:
            with self.calls.counting():
                output = self._forward()
            if not self.calls.once:
                found = self._gathered(output, {})
                with self.calls.behind() as printed:
                    try:
                        found.gradients.update(self._backward(output, keep=True))
                    except RuntimeError as error:
                        self.calls.own_backward = True
                        if "second time" not in str(error):  # which is said of one that the call has run itself
                            self.calls.backward_error = str(error)
                self.calls.expected = replace(found, printed=(*self.calls.printed, *printed.lines()))
        finally:
            self.calls.end_call()

    def observe(self) -> Outcome:
        with self.calls.repeated() as printed:
            output = self._forward()
            found = self._gathered(output, {})
            # Nobody else has the outputs, and compiled code may free what it saved, unless a backward is to follow.
            found.gradients.update(self._backward(output, keep=self.calls.computed_before))
            return replace(found, printed=printed.lines())

    def _backward(self, output: object, keep: bool = False) -> dict[str, torch.Tensor | None]:
        return {} if self.calls.own_backward else super()._backward(output, keep)

    @plainly()
    def _gathered(self, output: object, found: dict[str, torch.Tensor | None]) -> Outcome:
        """What a call returned and changed. Memory that is as before the call is not copied: it stays so."""
        same = self.calls.same_memory()
        named = self._reached()
        known = {id(tensor) for tensor in named.values()}

        def kept(leaf: object) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            plain = type(leaf) in (torch.Tensor, torch.nn.Parameter)
            plain = plain and leaf.layout is torch.strided and not leaf.is_meta
            return leaf.detach() if plain and leaf.untyped_storage()._cdata in same else leaf.detach().clone()

        def all_kept(leaves: Mapping[str, object]) -> Leaves:
            return Leaves((name, kept(leaf)) for name, leaf in leaves.items())

        grads = {f"{name}.grad": gradient(tensor) for name, tensor in named.items()}
        found |= all_kept({name: grad for name, grad in grads.items() if grad is not None})
        left = {name: leaf for name, leaf in self.calls.written().items() if id(leaf) not in known}
        own = bool(self.own_compiled)
        return Outcome(all_kept(leaves(output, "output")), found, all_kept({**named, **left}), own_compiled=own)

    def _discover(self) -> dict[str, torch.Tensor]:
        """A tensor that was computed before the call is as good as a leaf: what it was computed from is the program's.
        One that the call itself computed and kept is a result: no gradient flows to it in a compiled graph."""
        assert self.calls.before is not None
        given = {id(tensor) for tensor in self.calls.before.state.tensors.values()}
        reached = self._reached().items()
        return {name: t for name, t in reached if t.requires_grad and (t.is_leaf or id(t) in given)}
