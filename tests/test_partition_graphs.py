"""The graphs of the halves, as the record keeps them."""

from __future__ import annotations

import torch

import explorer


def squashed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w).exp().sum()


def test_the_partition_has_both_halves_and_what_is_kept_joins_them() -> None:
    inputs = torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    (compile,) = explorer.explore(squashed, time=False)(*inputs).data.compiles
    (stage,) = [stage for stage in compile.stages if stage.halves]
    assert stage.name == "partition"
    forward, backward = stage.halves
    assert [forward.name, backward.name] == [half.name for half in compile.halves]
    made = {node.id for node in forward.nodes}
    given = {node.id for node in backward.nodes if node.op == "placeholder"}
    kept = {saved.id for saved in compile.saved if saved.kind in ("saved", "input")}
    assert kept and kept <= given and kept <= made
    recomputed = {saved.id for saved in compile.saved if saved.kind == "recomputed"}
    assert recomputed <= {node.id for node in backward.nodes if node.op != "placeholder"}
    for graph in stage.halves:
        ids = {node.id for node in graph.nodes}
        assert all(source in ids for node in graph.nodes for source in node.inputs)
