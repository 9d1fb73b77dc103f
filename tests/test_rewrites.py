"""What passes replaced, one rewrite at a time: together they account for what each changed in the graph."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, fx

import explorer
from explorer.show.cli import main
from explorer.show.record import Record
from explorer.show.view.walk import Rewrites


def wasteful(x: Tensor) -> Tensor:
    y = x.view(8, 4).clone().view(4, 8).view(32)
    unused = x.sin()
    del unused
    z = torch.full((32,), 2.0) * torch.full((32,), 3.0)
    return (y.exp() + y.exp()).double().to(torch.float64).sum() + z.sum() * 1


def trained(x: Tensor) -> Tensor:
    pooled = torch.nn.functional.max_pool2d(x.relu().view(1, 2, 4, 4), 2)
    return (pooled[0].float().view(-1).clone() * torch.ones(8)).sum()


def written(x: Tensor) -> Tensor:
    made = x + 1
    made[0] = 3
    return made[0] * made.detach().half().float().half()


def rewrites_of(fn, *args: Tensor, **options: object) -> Rewrites:
    record: Record = explorer.explore(fn, time=False, **options)(*args)
    (found,) = record.rewrites
    return found


@pytest.mark.parametrize("fn, args", [
    (wasteful, (torch.randn(8, 4),)), (written, (torch.randn(4, 4),)),
    (trained, (torch.randn(1, 2, 4, 4, requires_grad=True),)),
])  # fmt: skip
def test_rewrites_account_for_every_node_that_a_pass_took_out_or_put_in(fn, args) -> None:
    found = rewrites_of(fn, *args)
    compile, before, passes = found.compile, set(), set()
    for stage in compile.stages:
        if stage.name in ("capture", "partition") or stage.graph is None:
            continue
        nodes = {node.id for node in stage.graph.nodes}
        rows = [row for row in found if row.stage == stage.id]
        if before:
            gone = {row.gone for row in rows if row.gone not in nodes}
            assert before - nodes <= gone and gone <= before | {row.by for row in rows}
            assert nodes - before <= {row.by for row in rows} | {
                id for id in nodes if any(id in row.now for row in rows)
            }
            passes.add(stage.name)
            assert {row.by for row in rows if row.by} <= nodes | before | gone
        before = nodes
    assert len(passes) > 1 and {row.pattern for row in found}


def test_each_node_that_is_lowered_has_a_rewrite() -> None:
    found = rewrites_of(lambda x: torch.relu(x @ x).sum(), torch.randn(4, 4, requires_grad=True))
    lowered = [found[at] for at in found.find("lowered:")]
    assert [row.gone for row in lowered] == [id for half in found.compile.halves for id in half.nodes]
    (product,) = (row for row in lowered if row.gone == "aten.mm")
    assert product.pattern == "a library call" and product.whys
    assert found.find("lowered:library because:") and found.find("node=aten.mm pass:forward")


def test_a_pass_of_the_user_says_what_it_replaced() -> None:
    def slower(module: fx.GraphModule) -> None:
        for node in list(module.graph.nodes):
            if node.target is torch.relu:
                with module.graph.inserting_after(node):
                    made = module.graph.call_function(torch.clamp, (node.args[0],), {"min": 0})
                node.replace_all_uses_with(made)
                module.graph.erase_node(node)

    found = rewrites_of(lambda x: torch.relu(x) * 2, torch.randn(4), passes=[slower])
    (at,) = found.find('pass:"pass slower"')
    assert found[at].was == "torch.relu(l_x)" and found[at].now == "torch.clamp(l_x, min=0)"
    assert "- relu = torch.relu(l_x)\n  + clamp = torch.clamp(l_x, min=0)" in found.text(at)


def test_rewrites_are_kept_in_a_file_and_walked_in_a_terminal(tmp_path: Path) -> None:
    path = explorer.explore(wasteful, time=False)(torch.randn(8, 4)).save(tmp_path / "w.explore.json")
    assert "Rewritten" not in {event.kind for event in Record.load(path).data.compiles[0].events}
    walked = CliRunner().invoke(main, ["step", str(path), "--passes"], input="r\nl\nL\nq\n").stdout
    assert "r replaced" in walked and "constant folding, 1 of 3" in walked and "lower, 1 of 8" in walked
    found = CliRunner().invoke(main, ["step", str(path), "--passes", "--find", "replaced:fills"])
    assert found.exit_code == 0 and "constant folding" in found.stdout


def test_a_pass_that_raises_is_reported_as_the_persons() -> None:
    def broken(module: torch.fx.GraphModule) -> None:
        raise KeyError("no such node")

    record = explorer.explore(lambda x: torch.relu(x) * 2, passes=[broken], time=False)(torch.randn(4))
    why = record.data.compiles[0].fallback
    assert why is not None and why.code == "autograd.your_pass"
    assert why.detail.startswith("broken raised KeyError: 'no such node' (") and "test_rewrites.py:" in why.detail
