"""Running a captured program on an input and comparing it with eager: right, wrong, or refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path

from explorer.ir.methods import VerdictData
from explorer.records.check.accuracy import against_eager
from explorer.records.check.trial import SEED
from explorer.records.methods.free_variables import containers
from explorer.records.methods.inputs import Call, Input
from explorer.records.methods.method import Captured

SHOWN = 4
"""Elements of a tensor in a verdict."""


@dataclass(frozen=True)
class Outcome:
    """What a call left: its result, its arguments and the containers outside that it names, all after it; or the
    exception that ended it."""

    found: dict[str, Any]
    error: BaseException | None = None

    def values(self) -> dict[str, Any]:
        return self.found


@dataclass(frozen=True)
class Eager:
    """One call of `fn` itself; a module is copied so that its buffers stay."""

    fn: Callable[..., Any]
    tried: Input

    def observe(self) -> Outcome:
        with self.tried.with_free_variable(self.fn):
            called = copy.deepcopy(self.fn) if isinstance(self.fn, torch.nn.Module) else self.fn
            return outcome(called, self.tried.copy(), self.fn)


def outcome(call: Callable[..., Any], given: Call, fn: Callable[..., Any]) -> Outcome:
    """One call from a fixed seed of `call`, which is `fn` or was made from it; the generator's state is put back."""
    args, kwargs = given
    with containers(fn) as outside, torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(SEED)
        try:
            result = call(*args, **kwargs)
        except Exception as error:  # whatever a method refuses with is its verdict
            return Outcome({}, error)
        left = {name: copy.copy(value) for name, value in outside.items()}
    return Outcome({"output": result, "arguments": (args, kwargs), "outside": left})


def expected(fn: Callable[..., Any], tried: Input) -> str:
    """What eager gives for an input, or raises, in words."""
    found = Eager(fn, tried).observe()
    return shown(found.found) if found.error is None else f"{type(found.error).__name__}: {message(found.error)}"


def verdict(captured: Captured, under: Callable[..., Any], fn: Callable[..., Any], tried: Input) -> VerdictData:
    """What comes of `captured`, which was made from `under`, beside eager's `fn`."""
    eager = Eager(fn, tried)
    wanted = eager.observe()
    before = captured.compiles() if captured.compiles else 0
    with tried.with_free_variable(under):
        got = outcome(captured.call, tried.copy(), under)
    anew = captured.compiles is not None and captured.compiles() > before and tried.fact != ""
    if wanted.error is not None:
        return _beside_error(tried, wanted.error, got, anew)
    if got.error is not None:
        return VerdictData(tried.name, "refused", f"{type(got.error).__name__}: {message(got.error)}", recompiled=anew)
    found = against_eager(lambda: eager, got.found, wanted.found)
    if found.ok:
        return VerdictData(tried.name, "right", "", found.largest_absolute, anew)
    said = differing(found.first_mismatch, got.found, wanted.found)
    return VerdictData(tried.name, "wrong", said, found.largest_absolute, anew)


def _beside_error(tried: Input, expected: BaseException, got: Outcome, anew: bool) -> VerdictData:
    said = f"eager raises {type(expected).__name__}: {message(expected)}"
    if got.error is None:
        return VerdictData(tried.name, "wrong", f"{said}; this gave {shown(got.found)}", recompiled=anew)
    same = type(got.error) is type(expected)
    detail = said if same else f"{said}; this raised {type(got.error).__name__}: {message(got.error)}"
    return VerdictData(tried.name, "right" if same else "refused", detail, recompiled=anew)


def message(error: BaseException, most: int = 300) -> str:
    """The first paragraph of what an exception says."""
    text = " ".join(str(error).strip().split("\n\n")[0].split())
    return text if len(text) <= most else text[: most - 1] + "…"


def differing(first_mismatch: str, got: dict[str, Any], expected: dict[str, Any]) -> str:
    """What parts from eager's first, as comparing named it; of a tensor both values."""
    ours, theirs = _leaves(got), _leaves(expected)
    if first_mismatch not in ours or first_mismatch not in theirs:
        return first_mismatch
    return f"{first_mismatch}: {_elements(ours[first_mismatch])}, eager {_elements(theirs[first_mismatch])}"


def shown(of: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {_elements(value)}" for name, value in _leaves(of).items() if name.startswith("output"))


def _leaves(of: dict[str, Any]) -> dict[str, Any]:
    return {name + "".join(map(str, path)): leaf for name in of for path, leaf in tree_flatten_with_path(of[name])[0]}


def _elements(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    flat = value.detach().flatten()
    shown = ", ".join(f"{each:.4g}" if isinstance(each, float) else str(each) for each in flat[:SHOWN].tolist())
    more = ", …" if flat.numel() > SHOWN else ""
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} [{shown}{more}]"
