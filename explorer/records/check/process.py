"""What of the process a call may change besides objects: random generators, torch's switches, logging, warnings."""

from __future__ import annotations

import decimal
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
import torch

from explorer.records.check.isolate import undone

Setting = tuple[Callable[[], Any], Callable[[Any], None]]


def _random() -> Iterator[Setting]:
    yield random.getstate, random.setstate
    yield numpy.random.get_state, numpy.random.set_state
    yield torch.get_rng_state, torch.set_rng_state
    if torch.cuda.is_initialized():
        yield torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all


def _switches() -> Iterator[Setting]:
    c: Any = torch._C
    yield torch.is_grad_enabled, torch._C._set_grad_enabled
    yield torch.get_default_dtype, torch.set_default_dtype
    yield torch.get_num_threads, torch.set_num_threads  # setting it takes a while, even to what it was
    yield _deterministic, lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1])
    yield torch.is_anomaly_enabled, torch.set_anomaly_enabled
    yield torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
    yield torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled
    for device in ("cpu", "cuda"):
        yield partial(torch.is_autocast_enabled, device), partial(torch.set_autocast_enabled, device)
        yield partial(torch.get_autocast_dtype, device), partial(torch.set_autocast_dtype, device)
    for name in ("cudnn_enabled", "cudnn_benchmark", "cudnn_deterministic", "cudnn_allow_tf32", "cublas_allow_tf32"):
        yield getattr(c, f"_get_{name}"), getattr(c, f"_set_{name}")
    yield _default_device, torch.set_default_device
    yield _printing, lambda value: torch.set_printoptions(**value)
    yield torch.is_warn_always_enabled, torch.set_warn_always


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _printing() -> dict[str, Any]:
    names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    return {name: getattr(torch._tensor_str.PRINT_OPTS, name) for name in names}


def _default_device() -> torch.device | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


def _python() -> Iterator[Setting]:
    yield _loggers, _put_loggers
    yield lambda: list(warnings.filters), _put_filters
    yield _warned, _put_warned
    yield numpy.geterr, lambda value: (numpy.seterr(**value), None)[1]
    yield numpy.get_printoptions, lambda value: numpy.set_printoptions(**value)
    yield lambda: decimal.getcontext().copy(), _put_decimal


def _put_decimal(value: decimal.Context) -> None:
    if repr(decimal.getcontext()) != repr(value):
        decimal.setcontext(value.copy())


def _loggers() -> dict[logging.Logger, tuple[Any, ...]]:
    known = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    return {
        each: (each.level, each.propagate, each.disabled, list(each.handlers), list(each.filters))
        for each in (logging.root, *known)
    }


def _put_loggers(value: dict[logging.Logger, tuple[Any, ...]]) -> None:
    for each, (level, propagate, disabled, handlers, filters) in value.items():
        if each.level != level:
            each.setLevel(level)
        each.propagate, each.disabled = propagate, disabled
        each.handlers[:], each.filters[:] = handlers, filters


def _put_filters(value: list[Any]) -> None:
    filters: Any = warnings.filters
    if list(filters) != value:
        filters[:] = value
        warnings._filters_mutated()  # type: ignore[attr-defined]


def _warned() -> dict[str, dict[Any, Any] | None]:
    """Which warnings each module has shown already."""
    found = {}
    for name, module in list(sys.modules.items()):
        shown = getattr(module, "__dict__", {}).get("__warningregistry__")
        found[name] = None if shown is None else dict(shown)
    return found


def _put_warned(value: dict[str, dict[Any, Any] | None]) -> None:
    for name, module in list(sys.modules.items()):
        shown = getattr(module, "__dict__", {}).get("__warningregistry__")
        before = value.get(name)
        if shown is None or shown == before:
            continue
        if before is None:
            del vars(module)["__warningregistry__"]
        else:
            shown.clear()
            shown.update(before)


@dataclass(frozen=True, eq=False)
class Process:
    """The settings as they were."""

    values: tuple[tuple[Callable[[], Any], Callable[[Any], None], Any], ...]

    @classmethod
    def now(cls) -> Process:
        settings = (*_random(), *_switches(), *_python())
        return cls(tuple((get, put, get()) for get, put in settings))

    def put(self) -> None:
        for get, put, value in self.values:
            now = get()
            if isinstance(now, (torch.Tensor, tuple, list)) or repr(now) != repr(value):
                put(value)


@contextmanager
def put_back() -> Iterator[None]:
    """After the block the settings are as they were before it."""
    before = Process.now()
    with undone(before.put):
        yield
