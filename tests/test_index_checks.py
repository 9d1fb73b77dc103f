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
    assert sum("# its indices are checked" in line.text for line in lowered) == loops


OUTSIDE = {
    "a view that nothing reads": lambda x: (x.as_strided((2,), (1,)), x * 2)[1],
    "its shape alone": lambda x: torch.zeros_like(x.as_strided((2, 2), (1, 1))),
    "a view of a view": lambda x: (x[None].as_strided((1,), (1,), 1), x * 2)[1],
    "a function": lambda x: torch.as_strided(x, (1,), (1,), 3),
    "a part of an expanded tensor": lambda x: x[:1].expand(4).as_strided((4,), (1,)) * 0,
    "memory without elements": lambda x: (x[:0] * 2).as_strided((1,), (1,)) * 0,
    "in place": lambda x: (x.as_strided_((5,), (1,)), x.sum() * 0)[1],
    "a copy": lambda x: (torch.as_strided_copy(x, (9,), (1,)), x * 2)[1],
}


@pytest.mark.parametrize("backend", ["explorer", "eager"])
@pytest.mark.parametrize("name", OUTSIDE)
def test_as_strided_outside_of_memory_that_the_program_made(name, backend):
    program = lambda x: OUTSIDE[name](x + 1)  # noqa: E731
    with pytest.raises(RuntimeError) as expected:
        program(torch.ones(1))
    with pytest.raises(RuntimeError) as found:
        explorer.compile(program, backend=backend)(torch.ones(1))
    assert str(found.value) == str(expected.value)


def test_as_strided_inside_of_memory_that_the_program_made_breaks_no_graph():
    program = lambda x: (x + 1)[1:].as_strided((2, 2), (1, 1), 0) * 2  # noqa: E731
    compiled = explorer.compile(program, fullgraph=True)
    assert torch.equal(compiled(torch.arange(3.0)), program(torch.arange(3.0)))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("place", [((0,), (1,)), ((2, 0), (0, 0)), ((0, 3), (5, 1), 7), ((0,), (9,), 0)])
@pytest.mark.parametrize("base", [lambda x: x + 1, lambda x: x, lambda x: x[:0] + 1, lambda x: x[:0]])
def test_as_strided_of_no_elements_may_lie_anywhere(base, place, dynamic):
    def program(x):
        made = base(x).as_strided(*place)
        return made, made.stride(), made.storage_offset(), x * 2

    assert str(explorer.compile(program, fullgraph=True, dynamic=dynamic)(torch.ones(3))) == str(program(torch.ones(3)))


AXES = {
    "t_ unsqueeze_": lambda a: (a.t_(), a.unsqueeze_(0))[2:],
    "transpose_ unsqueeze_": lambda a: (a.unsqueeze_(0), a.transpose_(0, 1), a.unsqueeze_(1))[3:],
    "squeeze_ unsqueeze_": lambda a: (a.squeeze_(), a.unsqueeze_(-1))[2:],
    "add_ unsqueeze_": lambda a: (a.add_(1), a.unsqueeze_(0), a.squeeze_(0), a.unsqueeze_(1))[4:],
}


@pytest.mark.parametrize("shape", [(0,), (2, 0), (1, 0), (0, 1), (2,)])
@pytest.mark.parametrize("name", AXES)
def test_new_axes_are_given_once(name, shape):
    """Also where a check of an operator on no elements refuses what it gave."""
    for backend in ("explorer", "eager"):
        expected, found = torch.ones(shape), torch.ones(shape)
        AXES[name](expected)
        explorer.compile(AXES[name], backend=backend)(found)
        assert found.shape == expected.shape
        assert torch.equal(found, expected)
