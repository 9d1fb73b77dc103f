"""Collectives in compiled code, where DDP splits a graph, and whether ranks agree. One process, no network."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

import explorer
from explorer import Ranks
from explorer.ir.record import CompileData, EventData, RecordData
from explorer.records.logs.ranks import ranked
from explorer.show.record import Record
from stock_compiling import nothing_built
from test_logs import imported, in_frame


@pytest.fixture
def processes() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)
    dist.destroy_process_group()
    torch._dynamo.reset()


def exchange(x: Tensor, w: Tensor) -> Tensor:
    gathered = functional.all_gather_tensor(x, 0, dist.group.WORLD)
    reduced = functional.all_reduce(torch.sin(x), "sum", dist.group.WORLD)
    return gathered.sum() + reduced.cos() + torch.tanh(w)


def line_of(fn: Any, offset: int) -> str:
    return f"test_distributed.py:{fn.__code__.co_firstlineno + offset}"


def test_each_collective_is_reported_with_its_group_its_line_and_what_runs_meanwhile(processes: None) -> None:
    with nothing_built():
        record = explorer.explore(exchange, engine="stock", time=False)(torch.ones(8, 2), torch.ones(8, 2))
    gather, reduce = record.collectives
    assert (gather.operation, gather.type, gather.bytes) == ("all_gather_into_tensor(4, group 0)", "f32[32, 2]", 256)
    assert (reduce.operation, reduce.type, reduce.bytes) == ("all_reduce(sum, group 0)", "f32[8, 2]", 64)
    assert gather.group == reduce.group == "4 processes, backend fake"
    assert gather.place.endswith(line_of(exchange, 1)) and reduce.place.endswith(line_of(exchange, 2))
    (half,) = record.data.compiles[0].halves
    order = [(item.id, [o.target for o in half.operations if o.id in item.operations]) for item in half.schedule.items]
    summed = next(id for id, targets in order if "sum" in targets)
    assert summed in reduce.meanwhile, "by the schedule it runs between the call and its wait"
    assert "calls all_gather_into_tensor 1x, all_reduce 1x" in repr(record)
    assert f"{reduce.operation} gives f32[8, 2] (64 B), among 4 processes, backend fake" in repr(record.collectives)
    loaded = msgspec.json.decode(msgspec.json.encode(record.data), type=RecordData)
    assert repr(Record(loaded).collectives) == repr(record.collectives)
    answer = next(each for each in record.data.answers if "collectives" in each.title)
    by_name = record.collectives.text().replace(__file__, "test_distributed.py")
    assert answer.pane == "graphs" and list(answer.lines) == by_name.splitlines()


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(8, width), nn.Linear(width, width), nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x))
        return self.last(x)


def data_parallel(width: int) -> Record:
    model = DistributedDataParallel(Net(width), bucket_cap_mb=1)
    with explorer.watch() as log:
        torch.compile(model, backend="eager")(torch.ones(2, 8))
    assert log.record is not None
    return log.record


def test_where_ddp_splits_is_reported_with_the_parameters_and_lines_of_each_part(processes: None) -> None:
    record = data_parallel(520)  # the second layer alone is 1.08 MB, and a part of 1 MiB is closed
    head, first, second = record.collectives.text().splitlines()
    assert "Net.forward: DDPOptimizer split the graph into 2 parts" in head and head.count("1.05 MB") == 2
    assert line_of(Net.forward, 1) in first and "limit" not in first
    assert first.endswith("of gradients, of 2 parameters: first.bias 2.08 kB, first.weight 16.6 kB")
    assert line_of(Net.forward, 2) in second and line_of(Net.forward, 3) in second
    assert "1.09 MB of gradients, of 4 parameters, over the limit of 1.05 MB: second.bias" in second
    assert second.endswith("second.bias 2.08 kB, second.weight 1.08 MB, last.bias 16 B, last.weight 8.32 kB")
    assert "\n    DDPOptimizer split the graph into 2 parts\n" in repr(record)


def test_a_small_model_is_not_split(processes: None) -> None:
    record = data_parallel(8)
    assert "DDPOptimizer did not split the graph" in record.collectives.text()
    assert "\n    DDPOptimizer did not split the graph\n" in repr(record)


def logged(tmp_path: Path, fn: Any) -> RecordData:
    """What an imported log holds of a graph, as torch prints it."""
    graph = make_fx(fn, tracing_mode="fake")(torch.ones(8, 2))
    printed = graph.print_readable(print_output=False)
    return imported(tmp_path, in_frame("0/0", "inductor_post_grad_graph", printed))


def test_ranks_that_call_other_collectives_are_reported(processes: None, tmp_path: Path) -> None:
    def reduced(x: Tensor) -> Tensor:
        y = torch.ops._c10d_functional.all_reduce(x, "sum", "0")
        z = x + 1
        return torch.ops._c10d_functional.wait_tensor(y) * z

    def gathered(x: Tensor) -> Tensor:
        y = torch.ops._c10d_functional.all_gather_into_tensor(x, 4, "0")
        return torch.ops._c10d_functional.wait_tensor(y)

    one, other = logged(tmp_path, reduced), logged(tmp_path, gathered)
    (call,) = Record(one).collectives
    assert call.operation == "all_reduce(sum, group 0)" and call.meanwhile == ("add",) and "f32[8, 2]" in call.type
    same = Ranks(ranked("job", [one, one])).text()
    assert "all ranks have the same collectives in their compiled code: 1" in same
    parted = Ranks(ranked("job", [one, other])).text()
    assert "collective 1 of the compiled code is all_reduce(sum, group 0)" in parted
    assert "and all_gather_into_tensor(4, group 0)" in parted
    none = logged(tmp_path, torch.sin)
    assert "collective" not in Ranks(ranked("job", [none, none])).text()


def test_what_a_strangers_record_says_of_buckets_is_not_trusted(tmp_path: Path) -> None:
    fields: tuple[tuple[str, dict[str, str]], ...]
    fields = (("DDPSplit", {"buckets": "-", "cap": "9" * 5000}), ("DDPBucket", {"bytes": "x"}), ("Collective", {}))
    events = tuple(EventData(*each) for each in fields)
    found = logged(tmp_path, torch.sin)
    record = msgspec.structs.replace(found, compiles=(CompileData("s0", "f", 0.0, 0.0, events=events),))
    assert "0 operations" in Record(record).collectives.text()
