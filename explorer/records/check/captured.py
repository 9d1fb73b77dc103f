"""The graphs that one call of a function went through, with the inputs that each got: they run without the function."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType, MethodType
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from explorer.compiler.capture import CAPTURE, DECODE, LINK, CaptureInput, optimize
from explorer.compiler.capture.effects import verdict
from explorer.compiler.config import Config
from explorer.compiler.pipeline import compile_captured
from explorer.ir.capture import GuardedCode, InputFrame, KnownEffects, Linking, UnknownEffects
from explorer.records.check.isolate import NotIsolated, is_users, is_users_module
from explorer.records.check.leaves import Leaves, leaves
from explorer.records.check.process import put_back
from explorer.records.check.snapshot import plainly, untouched
from explorer.records.check.trial import Contestant, Outcome, Trial, duplicate, has_own_code


class NotRun(BaseException):
    """Stops a frame that was compiled and must not run. Not an Exception, so that the program does not catch it."""


@contextmanager
def not_running(
    fn: Callable[..., object], config: Config, compile: Callable[[InputFrame, Config], object]
) -> Iterator[Callable[..., object]]:
    """What calls `fn` up to where its own frame is compiled, by `compile`, or would run without that, as while a mode
    of torch is active or by its stance; the frame does not run."""

    def compile_alone(frame: InputFrame, config: Config) -> GuardedCode:
        sys.settrace(before)
        try:
            compile(frame, config)
        except Exception as error:  # which would have the frame run eagerly
            raise NotRun from error
        raise NotRun

    def runs(frame: FrameType, event: str, argument: object) -> None:
        if is_users(frame.f_code) and is_users_module(str(frame.f_globals.get("__name__"))):
            raise NotRun

    before = sys.gettrace()
    with put_back():
        try:
            sys.settrace(runs)
            yield optimize(fn, config, compile_alone)
        except NotRun as stopped:
            stopped.__traceback__ = None  # whose frames hold it, and what the program lets go of
        finally:
            sys.settrace(before)


def effects_of(
    fn: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> KnownEffects | UnknownEffects | None:
    """What capture knows of a call's effects; None where it captures another frame than the function's, or none. The
    call is not made."""
    found: list[KnownEffects | UnknownEffects] = []
    function = fn.__func__ if isinstance(fn, MethodType) else fn

    def compile(frame: InputFrame, config: Config) -> None:
        if isinstance(fn, torch.nn.Module) or frame.code == getattr(function, "__code__", None):
            found.append(verdict(CAPTURE(CaptureInput(DECODE(frame), frame, config))))

    with not_running(fn, Config(), compile) as call:
        call(*args, **kwargs)
    return found[0] if found else None


MOST_CALLS = 200
"""Calls of graphs that are kept of one call of a function."""


@dataclass(frozen=True, eq=False)
class GraphCall:
    """One call of a graph: what it was captured as, what that was compiled to, and the inputs."""

    eager: Callable[..., Any]
    compiled: Callable[..., Any]
    inputs: tuple[Any, ...]
    grad: bool | None

    @classmethod
    def now(
        cls, eager: Callable[..., object], compiled: Callable[..., object], inputs: Sequence[object], backward: bool
    ) -> GraphCall:
        """Indices are copied, so that they stay within bounds whatever the program does to them later; what other
        tensors are, apart from their elements, is kept: a parameter may be made one of another dtype."""
        return cls(eager, compiled, tuple(map(_kept, inputs)), None if backward and torch.is_grad_enabled() else False)


@plainly()
def _kept(value: object) -> object:
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_floating_point():
        return value.detach().clone()
    plain = type(value) in (torch.Tensor, torch.nn.Parameter) and not value.is_inference()
    return value.detach().requires_grad_(value.requires_grad) if plain else value


@dataclass(eq=False)
class Captured:
    """`instead`: what runs in the program is the graph as it was captured, by eager operators. `backward`: run by
    themselves, graphs run theirs where gradients are recorded: not where eager's raises."""

    instead: bool = False
    backward: bool = True
    calls: list[GraphCall] = field(default_factory=list)
    listening: bool = True

    def recorded(self, eager: Callable[..., object], compiled: Callable[..., object]) -> Callable[..., Any]:
        """What stands for `compiled` in the program."""
        runs = eager if self.instead else compiled

        def call(*inputs: object) -> Any:
            kept = self.listening and len(self.calls) < MOST_CALLS
            if any(map(is_traceable_wrapper_subclass, tree_leaves(inputs))):
                kept = False  # its class decides whether there are copies of it
            made = GraphCall.now(eager, compiled, inputs, self.backward) if kept else None
            found = runs(*inputs)
            if made is not None:  # a graph that raises is not run again: the frame runs eagerly instead
                self.calls.append(made)
            return found

        return call

    def compile_frame(self, frame: InputFrame, config: Config) -> GuardedCode:
        """As the pipeline compiles a frame, with each call of its graph kept."""
        capture = CAPTURE(CaptureInput(DECODE(frame), frame, config))
        if capture.graph is None:
            return LINK(Linking(capture, None))
        compiled = compile_captured(capture.graph, config)
        made = self.recorded(capture.graph.module().forward, compiled.call)
        return LINK(Linking(capture, replace(compiled, call=made)))

    def graph(self, compile: Any, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """As stock compiles a frame."""
        return functools.wraps(compiled, updated=())(self.recorded(compile.graphs[0][2].module().forward, compiled))

    def module(self, compile: object, half: object, module: object) -> Any:
        return module

    def trial(self) -> GraphTrial:
        self.listening = False
        return GraphTrial(graphs, (), {}, None, calls=tuple(self.calls))


def graphs() -> None:
    """What a trial of graphs alone names as its function."""


@dataclass(frozen=True, kw_only=True)
class GraphTrial(Trial):
    """The calls of graphs, one after another, each on copies of its inputs."""

    calls: tuple[GraphCall, ...]

    def contestant(self, prepare: Callable[[Callable[..., object]], Callable[..., object]] | None = None) -> Contestant:
        known: dict[int, Callable[..., Any]] = {}
        for each in self.calls:
            if id(each.eager) not in known:
                known[id(each.eager)] = each.eager if prepare is None else prepare(each.eager)
        return GraphPlayer([(known[id(each.eager)], each) for each in self.calls], self)

    @property
    def measurable(self) -> bool:
        """Of graphs alone. Running one again must run no code of the program's, as that of a tensor's class."""
        inputs = (leaf for each in self.calls for leaf in tree_leaves(each.inputs) if isinstance(leaf, torch.Tensor))
        return bool(self.calls) and not any(has_own_code(type(each)) for each in inputs)

    @contextmanager
    def timed(self) -> Iterator[None]:
        with put_back(), untouched(self.module_tensors):
            yield

    @property
    def module_tensors(self) -> list[torch.Tensor]:
        """What the graphs hold themselves: stock's may hold the program's own parameters."""
        modules = {id(each.eager): each.eager.__self__ for each in self.calls}.values()  # type: ignore[attr-defined]
        return [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]

    def compiled(self) -> Contestant:
        return GraphPlayer([(each.compiled, each) for each in self.calls], self)


OWN_CLASS = "class of output"
"""Compiled graphs return lists, captured ones tuples; the program sees neither."""


class GraphPlayer(Contestant):
    def __init__(self, runs: Sequence[tuple[Callable[..., object], GraphCall]], trial: GraphTrial) -> None:
        self._trial = trial
        self.run = runs[0][0] if runs else graphs
        self._players = [Contestant(run, graphs, duplicate(each.inputs), {}, each.grad) for run, each in runs]

    def call(self) -> Any:
        for each in self._players:
            each.call()

    def observe(self) -> Outcome:
        with self._trial.timed():
            found = [each.observe() for each in self._players]
        return Outcome(
            Leaves(
                (name.replace("output", f"output[{n}]", 1), leaf)
                for n, each in enumerate(found)
                for name, leaf in each.output.items()
                if name != OWN_CLASS
            ),
            {f"graph {n}: {name}": g for n, each in enumerate(found) for name, g in each.gradients.items()},
            {f"graph {n}: {name}": g for n, each in enumerate(found) for name, g in each.state.items()},
        )


@dataclass(frozen=True, kw_only=True)
class Once(Trial):
    """A call that is made for real, with whatever it does."""

    through_ours: bool = False
    """What stock compiles of it leaves other effects than an eager call, and what this compiler compiles does not."""
    made: list[Contestant] = field(default_factory=list, compare=False)
    """Who made it."""

    @property
    def repeatable(self) -> bool:
        return False

    def contestant(self, prepare: Callable[[Callable[..., object]], Callable[..., object]] | None = None) -> Contestant:
        return OncePlayer(prepare(self.fn) if prepare else self.fn, self)


NOT_AGAIN = "the call cannot be made again, because of its side effects"


class OncePlayer(Contestant):
    def __init__(self, run: Callable[..., object], trial: Once) -> None:
        super().__init__(run, trial.fn, trial.args, trial.kwargs, trial.grad)
        self._made = trial.made

    def observe(self) -> Outcome:
        """Raises NotIsolated where the call was made before."""
        if self._made:
            raise NotIsolated(NOT_AGAIN)
        self._made.append(self)
        return Outcome(leaves(self._forward(), "output"), {}, {})
