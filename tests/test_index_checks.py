"""Elements of index tensors that are out of range: raised as in eager whatever is read of the result."""

import pytest
import torch
import torch.nn.functional as F

import explorer

RESULTS = {
    "a constant indexed": lambda x, i: torch.ones(3, 4)[i],
    "an expanded axis indexed": lambda x, i: x[0].expand(3, 4)[i] + 1,
    "an expanded axis gathered": lambda x, i: x[:1].expand(3, 4).gather(0, i[:, None]),
    "rows of a constant table": lambda x, i: F.embedding(i, torch.zeros(3, 4)),
    "a slice without it": lambda x, i: x[i][1:] * 2,
    "a row without it": lambda x, i: x.index_select(0, i)[1].relu(),
    "no element": lambda x, i: F.embedding(i, x)[:0] * 2,
    "its shape alone": lambda x, i: torch.zeros_like(x[i]) + 1,
    "a part that is joined": lambda x, i: torch.cat([x[i][1:], x]),
    "a write that is overwritten": lambda x, i: torch.full((3, 4), 0.5).index_put((i,), x[0]).fill_(2),
    "a complex number": lambda x, i: torch.zeros_like(x.cfloat()[i]),
}


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_an_index_out_of_range_raises_whatever_is_read(result, training):
    x, inside, outside = torch.rand(3, 4, requires_grad=training), torch.tensor([2, 0]), torch.tensor([3, 0])
    compiled = explorer.compile(lambda x, i: (result(x, i), x * 2))
    for _ in range(2):
        assert torch.equal(compiled(x, inside)[0], result(x, inside))
        with pytest.raises((IndexError, RuntimeError)) as expected:
            result(x, outside)
        with pytest.raises(expected.type, match="out of (bounds|range)"):
            compiled(x, outside)


@pytest.mark.parametrize(
    "result, loops",
    [
        (lambda x, i: F.embedding(i, x).view(-1, 4) * 2, 0),
        (lambda x, i: x[i].transpose(0, 1).relu(), 0),
        (lambda x, i: x.scatter_add(0, i, x[:2, :2]), 0),
        (lambda x, i: x[i].flatten()[:4] * 2, 1),
    ],
    ids=["embedding", "index", "scatter", "a part"],
)
def test_positions_are_checked_twice_only_where_a_part_is_read(result, loops):
    record = explorer.explore(result, time=False)(torch.rand(3, 4), torch.tensor([[2, 0], [1, 1]]))
    (lowered,) = (stage.body.lines for stage in record.stages if stage.name == "lower")
    assert sum("# Its indices are checked" in line.text for line in lowered) == loops
