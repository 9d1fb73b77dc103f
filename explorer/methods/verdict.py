"""Running a captured program on an input and comparing it with eager: right, wrong, or refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path

from explorer.check.accuracy import compare
from explorer.check.trial import SEED
from explorer.ir.methods import VerdictData
from explorer.methods.inputs import Call, Input
from explorer.methods.method import Captured

SHOWN = 4
"""Elements of a tensor in a verdict."""


@dataclass(frozen=True)
class Outcome:
    """What a call left: its result and its arguments after it, or the exception that ended it."""

    values: dict[str, Any]
    error: BaseException | None = None


def outcome(call: Callable[..., Any], given: Call) -> Outcome:
    """One call from a fixed seed; the generator's state is put back."""
    args, kwargs = given
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(SEED)
        try:
            result = call(*args, **kwargs)
        except Exception as error:  # whatever a method refuses with is its verdict
            return Outcome({}, error)
    return Outcome({"output": result, "arguments": (args, kwargs)})


def _eager(fn: Callable[..., Any], tried: Input) -> Outcome:
    """What `fn` itself gives; a module is copied so that its buffers stay."""
    with tried.world(fn):
        return outcome(copy.deepcopy(fn) if isinstance(fn, torch.nn.Module) else fn, tried.copy())


def expected(fn: Callable[..., Any], tried: Input) -> str:
    """What eager gives for an input, or raises, in words."""
    found = _eager(fn, tried)
    return values(found.values) if found.error is None else f"{type(found.error).__name__}: {message(found.error)}"


def verdict(captured: Captured, under: Callable[..., Any], fn: Callable[..., Any], tried: Input) -> VerdictData:
    """What comes of `captured`, which was made from `under`, beside eager's `fn`."""
    wanted = _eager(fn, tried)
    before = captured.compiles() if captured.compiles else 0
    with tried.world(under):
        got = outcome(captured.call, tried.copy())
    anew = captured.compiles is not None and captured.compiles() > before and tried.fact != ""
    if wanted.error is not None:
        return _beside_error(tried, wanted.error, got, anew)
    if got.error is not None:
        return VerdictData(tried.name, "refused", f"{type(got.error).__name__}: {message(got.error)}", recompiled=anew)
    found = compare(got.values, wanted.values)
    if found.ok:
        return VerdictData(tried.name, "right", "", found.largest_absolute, anew)
    return VerdictData(tried.name, "wrong", differing(got.values, wanted.values), found.largest_absolute, anew)


def _beside_error(tried: Input, expected: BaseException, got: Outcome, anew: bool) -> VerdictData:
    said = f"eager raises {type(expected).__name__}: {message(expected)}"
    if got.error is None:
        return VerdictData(tried.name, "wrong", f"{said}; this gave {values(got.values)}", recompiled=anew)
    same = type(got.error) is type(expected)
    detail = said if same else f"{said}; this raised {type(got.error).__name__}: {message(got.error)}"
    return VerdictData(tried.name, "right" if same else "refused", detail, recompiled=anew)


def message(error: BaseException, most: int = 300) -> str:
    """The first paragraph of what an exception says."""
    text = " ".join(str(error).strip().split("\n\n")[0].split())
    return text if len(text) <= most else text[: most - 1] + "…"


def differing(got: dict[str, Any], expected: dict[str, Any]) -> str:
    """The first value that parts from eager's, with both."""
    ours, theirs = _leaves(got), _leaves(expected)
    for name, value in theirs.items():
        found = ours.get(name)
        if not compare({name: found}, {name: value}).ok:
            return f"{name}: {_elements(found)}, eager {_elements(value)}"
    extra = [name for name in ours if name not in theirs]
    return f"{', '.join(extra)} is not in eager's result" if extra else "the structures differ"


def values(of: dict[str, Any]) -> str:
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
