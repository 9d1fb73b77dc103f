"""What figures of time may say: a ratio only with its interval, a machine's peaks only where it was quiet."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import explorer
from explorer.compiler.runtime import timing
from explorer.compiler.runtime.timing import Peaks, peaks
from explorer.records.check.profile import peak_bytes
from explorer.records.check.speed import speed
from stock_compiling import inference


@pytest.mark.parametrize("count", [5, 8, 20, 60])
def test_the_interval_of_a_ratio_holds_the_true_one(count: int) -> None:
    draw, held = random.Random(0), 0
    for _ in range(400):
        eager = [2 * draw.lognormvariate(0, 0.3) for _ in range(count)]
        found = speed(eager, [draw.lognormvariate(0, 0.3) for _ in range(count)])
        assert found.low is not None and found.high is not None
        assert found.times is None or found.low <= found.times <= found.high
        held += found.low <= 2 <= found.high
    assert held / 400 > 0.9


def test_a_drift_of_the_machine_cancels() -> None:
    drift = [1 + n / 3 for n in range(12)]
    found = speed([2 * each for each in drift], drift)
    assert found.low == found.high == found.times == 2


def test_a_ratio_is_given_only_where_it_is_no_noise() -> None:
    draw = random.Random(1)
    noisy = [draw.lognormvariate(0, 1) for _ in range(20)]
    noisier = speed(noisy, [draw.lognormvariate(0, 1) for _ in range(20)])
    assert noisier.times is None and "too noisy to compare with eager" in noisier.text
    alike = [1 + draw.random() / 50 for _ in range(20)], [1 + draw.random() / 50 for _ in range(20)]
    assert "as fast as eager (" in speed(*alike).text
    assert speed([3.0] * 6, [1.0] * 6).text == "3.0x faster than eager (3.0 to 3.0)"
    assert speed([1.0] * 6, [250.0] * 6).text == "250x slower than eager (250 to 250)"
    assert speed([2184.0] * 6, [2.0] * 6).text == "1,100x faster than eager (1,100 to 1,100)"
    torn = speed([30.0] * 9 + [210.0] * 12, [60.0] * 9 + [90.0] * 3 + [420.0] * 9)
    assert torn.times is None, "most pairs say slower, and the medians faster"
    busy = speed([300.0] * 6, [0.1, 0.2, 1.0, 5.0, 30.0, 40.0])
    assert busy.times is None and busy.low is not None and busy.low > 1
    assert busy.text.startswith("7.5 to 3,000x faster than eager (too noisy for one figure")
    assert speed([0.1] * 6, [0.1, 0.2, 1.0, 5.0, 30.0, 40.0]).times is None
    few = speed([3.0] * 3, [1.0] * 3)
    assert few.times is None and "too few samples" in few.text


def test_the_ratio_of_a_record_is_from_its_samples() -> None:
    record = explorer.explore(lambda x: torch.sin(x) * torch.cos(x) + x)(torch.ones(64))
    assert record.timing is not None
    eager, ours = record.timing.contestants
    assert eager.speed is None and ours.speed is not None
    assert ours.speed in (speed(eager.samples, ours.samples), speed(eager.samples, ours.samples, 1.0))
    assert ours.speed.text in repr(record)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not tell who waited")
def test_no_ratio_is_given_where_threads_waited_for_a_processor() -> None:
    x = torch.ones(2000)
    alone = timing.interleave({"eager": lambda: torch.sin(x)}, budget=0.05)["eager"]
    assert 0 <= alone.waited < 1
    with contextlib.ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # children inherit the one processor
        for _ in range(6):
            other = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(other.kill)
        crowded = timing.interleave({"eager": lambda: torch.sin(x)}, budget=2.0)["eager"]
    assert crowded.waited > 0.5
    said = speed([2.0] * 6, [1.0] * 6, crowded.waited)
    assert said.times is None and "other programs used the processors" in said.text


@pytest.fixture
def nothing_known() -> Iterator[None]:
    timing._known.cache_clear()
    yield
    timing._known.cache_clear()


def test_peaks_are_measured_again_until_two_measurements_agree(
    nothing_known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [None, (3, 9), None, (5, 7), (1, 1), (5.1, 8.9), (99, 99)]
    measures = iter([each and Peaks("m", *each) for each in found])
    monkeypatch.setattr(timing, "_measured", lambda device: next(measures))
    known = timing._known("cpu", torch.get_num_threads())
    for expected in (None, (3, 9), (3, 9), (5, 9), (5, 9), (5.1, 9), (5.1, 9)):
        assert peaks() == peaks() == (expected and Peaks("m", *expected)), "a machine is not measured with each record"
        known.again = min(known.again, time.monotonic()) if known.again < float("inf") else known.again


def test_peaks_are_those_of_the_threads_that_there_are(nothing_known: None, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    monkeypatch.setattr(timing, "_measured", lambda device: Peaks("m", float(torch.get_num_threads()), 1.0))
    try:
        for count in (1, 2, 1):
            torch.set_num_threads(count)
            assert peaks() == Peaks("m", count, 1.0)
    finally:
        torch.set_num_threads(threads)


def test_a_thread_that_waits_is_no_quiet_machine() -> None:
    calls = []
    assert timing._best(lambda: calls.append(time.sleep(0.005)), "cpu") is None
    assert len(calls) == 2, "the measuring goes on on a busy machine"


def test_a_thread_that_waits_for_another_of_the_process_is_no_quiet_machine() -> None:
    ends, threads = threading.Event(), torch.get_num_threads()

    def works() -> None:
        while not ends.is_set():
            pass

    other = threading.Thread(target=works)
    torch.set_num_threads(1)
    other.start()
    try:
        assert timing._best(lambda: time.sleep(0.02), "cpu") is None
    finally:
        ends.set()
        other.join()
        torch.set_num_threads(threads)


def multiplied(x: Tensor, w: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x, x, x) @ w + torch.baddbmm(x, x, w.expand(2, 8, 8))


def convolved(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x.view(1, 2, 8, 8), w[:2, :].reshape(2, 2, 2, 2)).relu()


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (multiplied, [2 * 2 * 8 * 8 * 8, 2 * 2 * (2 * 8 * 8 * 8), 2 * 2 * 8 * 8 * 8]),
        (convolved, [2 * 2 * 2 * 2 * 2 * 7 * 7]),
    ],
)
def test_products_are_counted(fn: Any, expected: list[int]) -> None:
    inputs = torch.randn(2, 8, 8), torch.randn(8, 8)
    ours = explorer.explore(fn, time=False)(*inputs)
    stock = inference(fn, *inputs)
    for half in (ours.data.compiles[0].halves[0], stock):
        products = [count for count in half.extern_flops.values()]
        assert sum(products) == sum(expected), (products, half.operations)
    assert "FLOP" in repr(ours.schedule)


def test_the_peak_of_a_call_counts_what_is_alive_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    x, kept = torch.ones(100, 1000), 400_000

    def step() -> Tensor:
        y = (x + 1) * 2
        return y.sum()

    assert 2 * kept <= (peak_bytes(step) or 0) < 2.1 * kept
    assert kept <= (peak_bytes(lambda: x + 1) or 0) < 1.1 * kept
    assert peak_bytes(lambda: None) == 0
    layer = torch.nn.Linear(1000, 1000)
    assert (peak_bytes(lambda: layer(x).sum().backward()) or 0) >= 4_000_000
    held: list[Tensor] = []
    assert peak_bytes(lambda: held.append(torch.ones(2000, 1000))) == 8_000_000

    def replaced() -> Tensor:
        held.clear()
        return x + 1

    assert kept <= (peak_bytes(replaced) or 0) < 1.1 * kept, "what is freed first hides nothing"
    assert capfd.readouterr() == ("", "")


def test_a_record_has_the_peaks_of_all_that_were_timed() -> None:
    record = explorer.explore(lambda x: torch.sin(x) * torch.cos(x) + x)(torch.ones(100, 1000))
    assert record.timing is not None
    peaks_of = {each.name: each.peak for each in record.timing.contestants}
    assert 400_000 <= (peaks_of["explorer"] or 0) < (peaks_of["eager"] or 0)
    assert "peak memory" in repr(record)


def test_a_pool_that_is_kept_between_calls_counts_towards_the_peak() -> None:
    x = torch.ones(32, 32)
    record = explorer.explore(lambda a, b: (torch.relu(a @ b) + 1).sum(-1), time=0.05)(x, x)
    assert record.data.compiles[0].halves[0].memory and record.data.compiles[0].halves[0].memory.pool >= 4096
    assert record.timing is not None
    assert all((each.peak or 0) >= 4096 for each in record.timing.contestants)
