"""The same call, made by several contestants (eager, ours, stock), each on its own copies; repeated without visible
effects.
"""

from __future__ import annotations

import copy
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch.utils._pytree import KeyEntry, MappingKey, tree_flatten_with_path, tree_leaves, tree_map

from explorer.core.files import OWN_FILES
from explorer.records.check.eagerly import Eagerly
from explorer.records.check.isolate import PLAIN, NotIsolated, State, key_text
from explorer.records.check.leaves import Leaves, leaves
from explorer.records.check.names import named_arguments, tensors_reached
from explorer.records.check.process import OutputLine, hushed, noted, put_back, warned_already
from explorer.records.check.snapshot import plainly

SEED = 0


@dataclass(frozen=True)
class Trial:
    """A call to be repeated. `grad`: whether the backward is part of it; None decides by whether the output requires
    grad. Closures and globals of a plain function are shared between contestants; modules and arguments are copied."""

    fn: Callable[..., object]
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    grad: bool | None = None
    within: Callable[[], AbstractContextManager[object]] | None = None
    """What each call is made in, once everything is as it was before the first."""

    @property
    def given(self) -> tuple[object, ...]:
        """The values of the arguments."""
        return (*self.args, *self.kwargs.values())

    @property
    def repeatable(self) -> bool:
        """Whether the call may be made any number of times."""
        return True

    @property
    def runs_in_eager(self) -> bool:
        """Whether an eager call was made and raised nothing: what a compiled one raises is the compiler's doing."""
        return False

    @property
    def backward_raises(self) -> bool:
        """Whether the backward of an eager call's output raises."""
        return False

    def varied(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Trial:
        """The same call with other values in its arguments. Raises NotIsolated where no copy can be made."""
        args, kwargs = tree_map(changing(change), duplicate((self.args, dict(self.kwargs))))
        return replace(self, args=args, kwargs=kwargs)

    def expected(self) -> Outcome:
        """The outcome of an eager call."""
        return self.contestant().observe()

    @property
    def measurable(self) -> bool:
        """Whether there is something to time."""
        return True

    def again(self, spare: int = 0) -> Contestant:
        """One more eager call. Raises NotIsolated if no further call may be made, or if fewer than `spare` calls would
        remain."""
        return self.contestant()

    def timed(self) -> AbstractContextManager[object]:
        """Around calls of contestants that are timed."""
        return nullcontext()

    @property
    def steady(self) -> bool:
        """Whether calls that are timed may follow one another without a reset."""
        return True

    def reset(self) -> None:
        """Between timed calls: restores the state that the first call started from."""

    def contestant(self, prepare: Callable[[Callable[..., object]], Callable[..., object]] | None = None) -> Contestant:
        """Copies of the function and its arguments, the function made by `prepare` (a compiler)."""
        memo: dict[int, object] = {}
        args, kwargs = duplicate(self.args, memo), duplicate(dict(self.kwargs), memo)
        fn = copy.deepcopy(self.fn, memo) if isinstance(self.fn, torch.nn.Module) else self.fn
        return Contestant(prepare(fn) if prepare else fn, fn, args, kwargs, self.grad, self.within)


@dataclass(frozen=True)
class Outcome:
    """What a call left behind: the leaves of its output, the gradients by leaf, and the tensors of arguments and module
    state; of a call in place also what it left in objects of Python. `printed`: what it printed, logged and warned of
    on the way. `own_compiled`: it was an eager call, of a function that calls what the program compiled itself."""

    output: Leaves
    gradients: dict[str, torch.Tensor | None]
    state: Mapping[str, object]
    printed: Sequence[OutputLine] = ()
    own_compiled: bool = False

    def values(self) -> dict[str, Leaves]:
        """All of it by kind and name, for `check.accuracy.compare`."""
        gradients = Leaves((f"gradient[{name!r}]", each) for name, each in self.gradients.items())
        state = Leaves((f"state[{name!r}]", each) for name, each in self.state.items())
        printed = Leaves((f"printed line {number}", line) for number, line in enumerate(self.printed, 1))
        return {"output": self.output, "gradient": gradients, "state": state, "printed": printed}


class Contestant:
    """`run` is what is called; `fn` is the function under it, whose parameters are among the leaves."""

    def __init__(
        self,
        run: Callable[..., object],
        fn: Callable[..., object],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        grad: bool | None,
        within: Callable[[], AbstractContextManager[object]] | None = None,
    ) -> None:
        self.run = run if within is None else _inside(within, run)
        self.own_compiled: bool | None = None if run is fn else False
        """Of an eager call: whether it calls functions that the program compiled itself; None where no call was made"""
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.grad = grad
        self._named = _named(fn, args, kwargs)
        self._leaves: dict[str, torch.Tensor] | None = None

    @property
    def tensors(self) -> Iterable[torch.Tensor]:
        """What the call is given, parameters and buffers included."""
        return self._named.values()

    def call(self) -> object:
        """The forward, and the backward where the trial has one: what is timed."""
        return self._step()[0]

    def observe(self) -> Outcome:
        """One call from a fixed seed, with everything that it changed. The generator's state is put back."""
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(SEED)
            output, gradients = self._step()
        state = {name: tensor.detach() for name, tensor in self._named.items()}
        return Outcome(leaves(output, "output"), gradients, state, own_compiled=bool(self.own_compiled))

    def _step(self) -> tuple[object, dict[str, torch.Tensor | None]]:
        output = self._forward()
        return output, self._backward(output)

    def _forward(self) -> object:
        if self.own_compiled is False:  # timed calls are not to take longer for it
            return self._run()
        with Eagerly() as calls:
            output = self._run()
        self.own_compiled = bool(calls.met)
        return output

    def _run(self) -> object:
        if self.grad is False:
            with torch.no_grad():
                return self.run(*self.args, **self.kwargs)
        return self.run(*self.args, **self.kwargs)

    def _backward(self, output: object, keep: bool = False) -> dict[str, torch.Tensor | None]:
        """The gradients by leaf. `keep`: what the output was computed from stays, for another backward."""
        returned: Iterable[object] = tree_leaves(output)
        if not all(isinstance(leaf, (torch.Tensor, *PLAIN)) for leaf in returned):
            returned = leaves(output, "output").values()  # in objects; only there, since this is part of what is timed
        ends = [leaf for leaf in returned if isinstance(leaf, torch.Tensor) and _is_end(leaf)]
        if self.grad is False or not ends:
            return {}
        if self._leaves is None:
            self._leaves = self._discover()
        if not self._leaves:
            return {}
        weights = [_weight(end.shape, end.dtype, end.device) for end in ends]
        found = torch.autograd.grad(ends, list(self._leaves.values()), weights, allow_unused=True, retain_graph=keep)
        return {name: g for name, g in zip(self._leaves, found, strict=True) if g is not None}

    def _discover(self) -> dict[str, torch.Tensor]:
        """The tensors that gradients flow to, by where the program keeps them. A leaf that the call makes for itself is
        another in each call, and has no gradient to compare."""
        given = dict(_flat(self.fn, self.args, self.kwargs))
        reached = tensors_reached(self.fn, {**self._named, **given})
        return {name: tensor for name, tensor in reached.items() if tensor.requires_grad and tensor.is_leaf}


_RUN = Contestant._run.__code__
_COMPILERS = (OWN_FILES, str(Path(torch.__file__).parent / "_dynamo") + os.sep)


def of_program(error: BaseException) -> TracebackType | None:
    """The traceback of what a contestant's function raised, from its own frame on; the whole of another error, and of
    one that a compiler raised in place of running the function."""
    whole = passed = error.__traceback__
    while passed is not None and passed.tb_frame.f_code is not _RUN:
        passed = passed.tb_next
    if passed is None or passed.tb_next is None:
        return whole if passed is None else None  # a function in C, or arguments that do not fit, have no frame
    while (passed := passed.tb_next) is not None and passed.tb_frame.f_code.co_filename.startswith(_COMPILERS):
        pass
    return passed or whole


def _inside(within: Callable[[], AbstractContextManager[object]], run: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(run, updated=())
    def call(*args: object, **kwargs: object) -> object:
        with within():
            return run(*args, **kwargs)

    return call


def _named(
    fn: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> dict[str, torch.Tensor]:
    leaves = ((path, leaf) for path, leaf in _flat(fn, args, kwargs) if issubclass(type(leaf), torch.Tensor))
    given = {path: leaf for path, leaf in leaves if isinstance(leaf, torch.Tensor)}
    return _of_module(fn) | given


def _of_module(fn: Callable[..., object]) -> dict[str, torch.Tensor]:
    return {**dict(fn.named_parameters()), **dict(fn.named_buffers())} if isinstance(fn, torch.nn.Module) else {}


def _flat(
    fn: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    """The text of a key of the program's own is made by its code, which is not run for it."""
    for name, value in named_arguments(fn, args, kwargs, _of_module(fn)).items():
        for number, (path, leaf) in enumerate(tree_flatten_with_path(value)[0]):
            yield name + "".join(_key(each, number) for each in path), leaf


def _key(step: KeyEntry, number: int) -> str:
    return f"[{key_text(step.key) or f'key {number}'}]" if isinstance(step, MappingKey) else str(step)


def _is_end(tensor: torch.Tensor) -> bool:
    """Whether a backward can start at it: not at a view that was made in inference mode."""
    return tensor.requires_grad and (tensor.grad_fn is not None or not tensor._is_view())


@cache
def _weight(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """The gradient that flows into an output: uneven, since even ones vanish behind a softmax or a norm."""
    count = torch.arange(shape.numel(), dtype=torch.float64, device=device)
    return torch.cos(count).reshape(shape).to(dtype) if shape.numel() != 1 else torch.ones(shape, dtype=dtype)


def has_own_code(kind: type) -> bool:
    """Whether a copy of a tensor of this class would run the program's code."""
    hooks = (vars(each).get("__torch_function__") for each in kind.__mro__[: kind.__mro__.index(torch.Tensor)])
    return any(isinstance(each, classmethod) for each in hooks)


def duplicate(value: object, memo: dict[int, object] | None = None) -> Any:
    """A deep copy; a tensor that is not a leaf is copied as one, since only its value matters to the call."""
    memo = {} if memo is None else memo
    for leaf in tree_leaves(value):
        if not isinstance(leaf, torch.Tensor) or id(leaf) in memo:
            continue
        if has_own_code(type(leaf)):
            with plainly():
                made = leaf.detach().clone().as_subclass(type(leaf)).requires_grad_(leaf.requires_grad)
            made.__dict__.update(copy.deepcopy(vars(leaf), memo))
            memo[id(leaf)] = made
        elif not leaf.is_leaf:
            memo[id(leaf)] = copy.deepcopy(leaf.detach()).requires_grad_(leaf.requires_grad)
    return copy.deepcopy(value, memo)


def changing(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    """What gives other values of the same kind for a tensor of floats, and anything else as it is."""

    def other(value: object) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        return change(value.detach()).requires_grad_(value.requires_grad)

    return other


@dataclass(frozen=True, kw_only=True)
class Repetition(Trial):
    """The call of `fn` with what `state` has under the names of its arguments. `own_backward`: the call runs a backward
    itself, so that none is added."""

    state: State
    own_backward: bool = False

    @property
    def given(self) -> tuple[object, ...]:
        return tuple(self.state.args.values())

    def varied(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Repetition:
        given = [each for each in tree_leaves(self.given) if isinstance(each, torch.Tensor)]
        return replace(self, state=self.state.copied({id(each): changing(change)(each) for each in given}))

    def contestant(self, prepare: Callable[[Callable[..., object]], Callable[..., object]] | None = None) -> Repeated:
        """Raises NotIsolated where no copy can be made."""
        run = prepare(self.fn) if prepare else self.fn
        return Repeated(run, self.fn, self.state.copied(), self.grad, self.own_backward, self.within)


class Repeated(Contestant):
    """Made on its own copies of arguments and of the places that the code reads. Its tensors have the names by which
    the code reaches them."""

    def __init__(
        self,
        run: Callable[..., object],
        fn: Callable[..., object],
        state: State,
        grad: bool | None,
        own_backward: bool,
        within: Callable[[], AbstractContextManager[object]] | None = None,
    ) -> None:
        super().__init__(run, fn, tuple(state.args.values()), {}, grad, within)
        self.state = state
        self.own_backward = own_backward
        self._named = dict(state.tensors)

    def observe(self) -> Outcome:
        with self.state.in_place(), put_back(), noted(warned_already()) as output:
            outcome = replace(super().observe(), printed=output.lines())
        if not self.own_backward:
            return outcome
        gradients = {name: tensor.grad for name, tensor in self._named.items() if tensor.is_leaf}
        return replace(outcome, gradients={n: g for n, g in gradients.items() if g is not None})

    def _run(self) -> object:
        return self.run(*self.args) if self.own_backward else super()._run()

    def _step(self) -> tuple[object, dict[str, torch.Tensor | None]]:
        return (self._forward(), {}) if self.own_backward else super()._step()


@contextmanager
def unnoticed() -> Iterator[None]:
    """Inside, in this thread, nothing is printed or logged; after it, random generators and torch's switches are as
    they were."""
    with put_back(), hushed():
        yield


COPIES = 4
"""Of the state that a repetition makes at a time: one as it was found, one for each contestant."""


def check_memory(state: State, copies: int = COPIES) -> None:
    """Raises NotIsolated where the copies of a state would not fit."""
    with plainly():
        needed, devices = copies * state.bytes, {tensor.device for tensor in state.tensors.values()}
    for device in devices:
        free = _free(device)
        if free is not None and needed > free:
            message = f"{needed >> 20} MiB are needed, and {free >> 20} MiB are free on {device}"
            raise NotIsolated(f"there is no memory for {copies} copies of the state that it reaches: {message}")


def _free(device: torch.device) -> int | None:
    """Bytes that are free, where that is known."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    meminfo = Path("/proc/meminfo")
    if device.type != "cpu" or not meminfo.exists():
        return None
    found = re.search(r"^MemAvailable:\s*(\d+) kB", meminfo.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else None
