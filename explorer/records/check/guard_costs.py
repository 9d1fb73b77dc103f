"""What the guards of one compile cost a call, source by source: the tree of guard managers is copied without a part of
it, and both are timed."""

from __future__ import annotations

import heapq
import math
import timeit
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any

from explorer.ir.record import GuardCostData

LONGEST = 0.3
"""Seconds that looking into one tree may take; what was not looked into by then is one row."""

REPEATS, RUN, MOST = 5, 2e-4, 100
"""The quickest of so many runs counts, which take so many seconds each, and are at most so many checks."""


def guard_costs(root: Any, given: Mapping[str, object]) -> tuple[float, tuple[GuardCostData, ...]] | None:
    """Seconds of one check of all guards, and by source, dearest first: what a call saves without the checks of that
    source and reading it. "" is what is asked of torch's state and of several values at once, and what saves nothing
    by itself.

    `root` is a root guard manager of torch, ours or stock's; `given` are the locals of the frame. None where the guards
    do not hold for them (any more), or where this torch cannot copy a tree.
    """
    if not hasattr(root, "clone_manager") or not root.check(given):
        return None
    try:
        return _costs(root, given)
    finally:
        root.check(given)  # a check of several values begins anew


def _costs(root: object, given: Mapping[str, object]) -> tuple[float, tuple[GuardCostData, ...]] | None:
    ends = perf_counter() + LONGEST
    every = _below(root)
    called = _seconds(type(root)(), given)
    whole = min(_seconds(_copy(root, every), given) for _ in range(3))
    if math.isnan(called) or math.isnan(whole):
        return None

    def saved(manager: object) -> float:
        left = {id(each) for each in _below(manager)}
        taken = _seconds(_copy(root, [each for each in every if id(each) not in left]), given)
        return 0.0 if math.isnan(taken) else max(0.0, whole - taken)

    total, numbers = max(0.0, whole - called), count()
    waiting = [(-saved(each), next(numbers), each) for each in _children(root)]
    heapq.heapify(waiting)
    found = [GuardCostData("", _leaves(root), max(0.0, total + sum(minus for minus, *_ in waiting)))]
    while waiting:
        minus, _, manager = heapq.heappop(waiting)
        source, below = str(manager.get_source()), _children(manager)
        if below and perf_counter() > ends:
            found.append(GuardCostData(source, sum(map(_leaves, _below(manager))), -minus, True))
            continue
        parts = [(-saved(each), next(numbers), each) for each in below]
        found.append(GuardCostData(source, _leaves(manager), max(0.0, -minus + sum(part for part, *_ in parts))))
        for part in parts:
            heapq.heappush(waiting, part)
    return total, tuple(sorted(found, key=lambda row: -row.seconds))


def _seconds(root: Any, given: Mapping[str, object]) -> float:
    """Of one check, the call from Python included; NaN where the guards do not hold."""
    if root is None or not root.check(given):
        return math.nan
    timer = timeit.Timer(partial(root.check, given))
    loops = max(1, min(MOST, int(RUN / max(timer.timeit(1), 1e-9))))
    return min(timer.repeat(REPEATS, loops)) / loops


def _copy(root: Any, managers: Sequence[Any]) -> Any:
    """A copy of the tree with these managers below the root."""
    kept = {id(each) for each in (root, *managers)}
    copy = root.clone_manager(lambda manager: id(manager) in kept)
    pairs = [(root, copy)] if copy is not None else []
    while pairs:  # torch does not look again below a module whose dictionaries have not changed
        one, other = pairs.pop()
        if one.is_tag_safe():
            other.mark_tag_safe()
        if one.is_tag_safe_root():
            other.mark_tag_safe_root()
        pairs += zip((each for each in _children(one) if id(each) in kept), _children(other), strict=True)
    return copy


def _leaves(manager: Any) -> int:
    return len(manager.get_leaf_guards()) + (
        len(manager.get_epilogue_lambda_guards()) if hasattr(manager, "get_epilogue_lambda_guards") else 0
    )


def _children(manager: Any) -> list[Any]:
    pairs = manager.get_key_value_managers().values() if hasattr(manager, "get_key_value_managers") else ()
    return [each for pair in pairs for each in pair if each is not None] + list(manager.get_child_managers())


def _below(manager: object) -> tuple[Any, ...]:
    """The manager and all below it."""
    found, stack = [], [manager]
    while stack:
        each = stack.pop()
        found.append(each)
        stack += _children(each)
    return tuple(found)
