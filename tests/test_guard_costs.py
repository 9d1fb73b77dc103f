"""What guards cost a call: the dear ones are found, nothing is checked that a call would not check, and the guards hold
afterwards as before."""

from __future__ import annotations

import copy
import dis
import random
import re
from typing import Any

import pytest
import torch
from torch import Tensor

import explorer
from capturing import Captures
from explorer.compiler.capture import optimize
from explorer.compiler.capture.hook import Guards
from explorer.compiler.config import Config
from explorer.records.check import guard_costs as costs


def slow(_: Any) -> bool:
    """Some microseconds, far above the noise of the other checks."""
    return sum(range(3000)) > 0


def tree(seed: int) -> tuple[Any, dict[str, Any], str, int]:
    """A root guard manager over nested dictionaries with a slow check somewhere, what it accepts, the source of the
    slow check, and how many checks there are."""
    chosen = random.Random(seed)
    names = [f"v{n}" for n in range(chosen.randrange(2, 7))]

    def function(v0=0, v1=0, v2=0, v3=0, v4=0, v5=0, v6=0):  # its locals are what a frame's would be
        return v0, v1, v2, v3, v4, v5, v6

    build = Guards(function.__code__)
    given: dict[str, Any] = {name: 0 for name in function.__code__.co_varnames}
    places = []
    for name in names:
        value: Any = chosen.randrange(9)
        keys = [f"k{n}" for n in range(chosen.randrange(4))]
        for key in reversed(keys):
            value = {key: value}
        given[name] = value
        manager = build.local(name)
        places.append((manager, f"L[{name!r}]"))
        for key in keys:
            value, source = value[key], f"{places[-1][1]}[{key!r}]"
            manager = build.dict_item(manager, key, source)
            places.append((manager, source))
        build.equals(manager, value, places[-1][1])
    where, source = chosen.choice(places)
    build.check(where, slow, "slow")
    return build.root, given, source, len(names) + 1


@pytest.mark.parametrize("seed", range(12))
def test_the_slow_check_is_the_dearest_source(seed: int) -> None:
    root, given, source, checks = tree(seed)
    found = costs.guard_costs(root, given)
    assert found is not None
    total, rows = found
    assert rows[0].source == source and rows[0].seconds > 0.5 * total
    assert sum(row.checks for row in rows) == checks and not any(row.whole for row in rows)
    assert [row.seconds for row in rows] == sorted((row.seconds for row in rows), reverse=True)
    assert root.check(given)


def test_without_time_it_says_less_and_leaves_out_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "LONGEST", 0.0)
    for seed in range(12):
        root, given, source, checks = tree(seed)
        found = costs.guard_costs(root, given)
        assert found is not None and sum(row.checks for row in found[1]) == checks
        assert source.startswith(found[1][0].source)


def test_guards_that_no_longer_hold_are_not_timed() -> None:
    root, given, *_ = tree(3)
    assert costs.guard_costs(root, {**given, "v0": "other"}) is None


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])
        self.scale = 3

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x) * self.scale
        return x[: x.shape[0] // 2] + y[0]


@pytest.mark.parametrize("dynamic", [False, True])
def test_ours_and_stock_tell_them(dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "LONGEST", 60.0)  # on a busy machine the rest is told as a whole
    given = torch.randn(6, 4), torch.randn(6, 4)
    record = explorer.explore(
        Scaled(), engine="both", stock={"backend": "eager", "dynamic": dynamic}, dynamic=dynamic, time=0.05
    )(*given)
    assert len(record.data.compiles) == 2
    for compile in record.data.compiles:
        assert compile.guard_seconds is not None and 1e-8 < compile.guard_seconds < 1e-2
        sources = {cost.source for cost in compile.guard_costs}
        assert {"", "L['x']", "L['y']"} <= sources
        asked = {guard.source for guard in compile.guards if guard.property == "tensor"}
        assert asked <= sources
    printed = str(record.guards)
    assert printed.count("checking the guards takes") == 2 and re.search(r" ns  \S.* \(\d+ checks?\)\n", printed)
    assert not record.data.recompiles


def test_what_is_not_timed_has_no_costs() -> None:
    record = explorer.explore(torch.relu, time=False)(torch.ones(3))
    assert not record.data.compiles[0].guard_costs and "saves" not in str(record.guards)


@pytest.mark.parametrize("training", [False, True])
def test_what_reads_a_models_parameters_needs_no_local_for_each(training: bool) -> None:
    """Nor an instruction that stores each and one that loads it again."""
    sizes = []
    for depth in (4, 40):
        model = torch.nn.Sequential(*(torch.nn.BatchNorm1d(4) for _ in range(depth))).train(training)
        captures = Captures()
        x = torch.randn(3, 4)
        expected = copy.deepcopy(model)(x)
        assert torch.equal(optimize(model, Config(), captures)(x), expected)
        code = captures.linked[0].code
        assert code is not None
        sizes.append((code.co_nlocals, len(list(dis.get_instructions(code)))))
    (locals, steps), (more_locals, more_steps) = sizes
    assert more_locals == locals and more_steps - steps <= 36 * 25
