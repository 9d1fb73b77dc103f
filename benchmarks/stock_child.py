"""One cold compile by stock in a process of its own: `python -m benchmarks.stock_child plain|watched|steady PROGRAM`
prints JSON."""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
import torch._inductor.compile_fx

from benchmarks import cold_child
from benchmarks.programs import models
from explorer.records.check.trial import Trial
from explorer.records.stock.run import stock_run

ROUNDS = 15
CALLS = 40


def trial(name: str) -> Trial:
    if name == "function":
        return Trial(cold_child.program, (torch.randn(1024, 1024), torch.randn(1024, 1024)), {})
    return next(each.trial for each in models() if each.name == name)


def processor() -> float:
    """Seconds of processor time of this process and of those that it waited for (the C++ compiler's)."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def timed(run: Callable[[], Any]) -> dict[str, float]:
    wall, used = time.perf_counter(), processor()
    run()
    return {"seconds": time.perf_counter() - wall, "processor": processor() - used}


def plain(name: str) -> dict[str, float]:
    """The first call of torch.compile, as an exploration makes it."""
    return timed(trial(name).contestant(torch.compile).observe)


def watched(name: str) -> dict[str, float]:
    """The same watched, until all that was seen is data."""
    told: dict[str, float] = {}

    def run() -> None:
        with stock_run(explored) as found:
            started = time.perf_counter()
            assert all(compile.halves for compile in found.compiles({})), found.failure
            told["watching"] = found.watched + time.perf_counter() - started

    explored = trial(name)
    return {**timed(run), **told}


def steady(name: str) -> dict[str, float]:
    """Seconds of a call of the user's compiled function before it is explored and after, and its compiled entries."""
    program = trial(name)
    compiled = torch.compile(program.fn)

    def sample() -> float:
        started = time.perf_counter()
        for _ in range(CALLS):
            compiled(*program.args, **program.kwargs)
        return (time.perf_counter() - started) / CALLS

    sample()
    before = [sample() for _ in range(ROUNDS)]
    frames = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with stock_run(Trial(compiled, program.args, program.kwargs, grad=program.grad)):
        pass
    explored = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    after = [sample() for _ in range(ROUNDS)]
    again = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert explored > frames, "nothing was explored"
    return {"before": min(before), "after": min(after), "middle": statistics.median(before), "again": again - explored}


if __name__ == "__main__":
    print(json.dumps({"plain": plain, "watched": watched, "steady": steady}[sys.argv[1]](sys.argv[2])))
