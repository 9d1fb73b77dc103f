"""Writes into memory that the same operator reads, or that several elements share: as in eager, or eager's error."""

from __future__ import annotations

import pytest
import torch

import explorer

PROGRAMS = {
    "itself": lambda x: x.add_(x),
    "the other half": lambda x: x[:12].add_(x[12:]),
    "shifted": lambda x: x[1:].copy_(x[:-1]),
    "shifted item": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "another row": lambda x: x.view(2, 12).__setitem__(0, x.view(2, 12)[1]),
    "all of it": lambda x: x.__setitem__(slice(None), x),
    "columns beside": lambda x: x.view(4, 6)[:, :3].mul_(x.view(4, 6)[:, 3:]),
    "columns between": lambda x: x.view(4, 6)[:, ::2].mul_(x.view(4, 6)[:, 1::2]),
    "one column": lambda x: x.view(4, 6)[:, :3].mul_(x.view(4, 6)[:, 3:4]),
    "the first row": lambda x: x.view(4, 6).mul_(x.view(4, 6)[:1]),
    "transposed": lambda x: x[:16].view(4, 4).add_(x[:16].view(4, 4).t()),
    "index_put_": lambda x: x.index_put_((torch.tensor([0]),), x[:1]),
    "index_copy_": lambda x: x[:1].index_copy_(0, torch.tensor([0]), x[:1]),
    "index_add_": lambda x: x.index_add_(0, torch.arange(24), x),
    "scatter_": lambda x: x.scatter_(0, torch.tensor([1]), x),
    "masked_scatter_": lambda x: x.masked_scatter_(x > 3, x),
    "out": lambda x: torch.add(x, 1, out=x),
    "out shifted": lambda x: torch.add(x[:12], 1, out=x[6:18]),
    "product": lambda x: torch.mm(x[:16].view(4, 4), x[:16].view(4, 4), out=x[:16].view(4, 4)),
    "out of another shape": lambda x: torch.add(x[None], 1, out=x),
    "out expanded, of another shape": lambda x: torch.sin(x[:3], out=x[:3].expand(2, 3)),
    "out expanded": lambda x: torch.sin(x[:6].view(2, 3), out=x[6:9].expand(2, 3)),
    "expanded": lambda x: x[:1].expand(3).add_(1),
    "folded": lambda x: x.as_strided((2, 3), (1, 1)).add_(1),
    "an element": lambda x: x.fill_(x[3]),
    "out expanded, of fewer elements": lambda x: torch.add(x[:2], 1, out=x[3:6].expand(2, 3)),
    "out expanded, of none": lambda x: torch.mul(x[:0], 1, out=x[3:6].expand(2, 3)),
    "out folded, of none": lambda x: torch.sum(x[:0].view(0, 3), 1, out=x.as_strided((2, 3), (1, 1))),
    "running sum": lambda x: torch.cumsum(x, 0, out=x),
    "expanded, filled": lambda x: x[:2].view(2, 1).expand(2, 3).fill_(7),
    "folded, zeroed": lambda x: x.as_strided((2, 3), (1, 1)).zero_(),
    "folded, filled by a tensor": lambda x: x.as_strided((2, 3), (1, 1)).fill_(torch.tensor(5.0)),
    "folded, a folded part zeroed": lambda x: x[3:].as_strided((2, 3), (1, 1))[:, :2].zero_(),
    "folded, a part zeroed": lambda x: x.as_strided((2, 3), (1, 1))[0].zero_(),
    "folded, set": lambda x: x.as_strided((2, 3), (1, 1)).__setitem__((slice(None), 1), 4),
    "a list of one twice": lambda x: torch._foreach_mul_([x, x], 2.0),
    "a list with a part": lambda x: torch._foreach_add_([x[:3], x], 1.0),
    "a list from its parts": lambda x: torch._foreach_copy_([x[:3], x[3:6]], [x[3:6], x[:3]]),
}
ONE_GRAPH = (
    "itself", "another row", "all of it", "columns beside", "columns between", "one column", "out", "expanded, filled",
    "folded, zeroed", "folded, filled by a tensor",
)  # fmt: skip


def outcome(function):
    x = torch.arange(24.0)
    try:
        function(x)
    except RuntimeError as error:
        return x, str(error)
    return x, ""


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("backend", ("explorer", "eager"))
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager(name, backend, dynamic):
    as_in_eager(PROGRAMS[name], backend, dynamic)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager_in_inference_mode(name):
    def program(x):
        with torch.inference_mode():
            PROGRAMS[name](x)

    as_in_eager(program, "eager", None)


def as_in_eager(program, backend, dynamic):
    expected, error = outcome(program)
    found, raised = outcome(explorer.compile(program, backend=backend, dynamic=dynamic))
    assert raised == error
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_memory_that_does_not_meet_or_is_filled_breaks_no_graph(name):
    found, raised = outcome(explorer.compile(PROGRAMS[name], fullgraph=True))
    assert not raised
    assert torch.equal(found, outcome(PROGRAMS[name])[0])


WRITES_ALL = lambda x: x.fill_(4)  # noqa: E731


@pytest.mark.parametrize("made", (lambda: torch.ones(3).expand(2, 3), lambda: torch.ones(6).as_strided((2, 3), (1, 1))))
def test_an_input_whose_elements_share_memory_is_filled(made):
    for write in (WRITES_ALL, lambda x: x[0].zero_(), lambda x: x[:, :2].zero_()):

        def program(x, write=write):
            write(x)
            return x + 1

        expected, found = made(), made()
        whole = write is WRITES_ALL
        assert torch.equal(explorer.compile(program, fullgraph=whole)(found), program(expected))
        assert torch.equal(found, expected)


LAYOUTS = (
    lambda: torch.arange(8.0).view(2, 4)[:, 1:],
    lambda: torch.arange(6.0).view(3, 2).t(),
    lambda: torch.arange(6.0).view(2, 3),
    lambda: (torch.arange(8.0).view(2, 4).requires_grad_() * 1)[:, 1:],
)
WRITES = (
    lambda x: x.mul_(2),
    lambda x: x.masked_fill_(x > 2, 1),
    lambda x: x.tril_(),
    lambda x: x.cumsum_(0),
    lambda x: x.addcmul_(x, x),
    lambda x: x[..., 0].zero_(),
    lambda x: x.add_(1) if x.requires_grad else torch.add(x, 1, out=x),
)


@pytest.mark.parametrize("change", (lambda x: x.unsqueeze_(0), lambda x: x.t_(), lambda x: x.squeeze_(0)))
@pytest.mark.parametrize("first", (True, False))
def test_axes_and_elements_of_an_input_change(change, first):
    for number, write in enumerate(WRITES):

        def program(x, write=write):
            if first:
                change(x)
            write(x)
            if not first:
                change(x)

        made = LAYOUTS[number % len(LAYOUTS)]
        expected, found = made(), made()
        program(expected)
        explorer.compile(program, dynamic=number % 3 == 2)(found)
        assert found.stride() == expected.stride(), number
        assert torch.equal(found, expected)


@pytest.mark.parametrize("size", ((0, 3), (1, 3), (2, 3)))
@pytest.mark.parametrize("leaf", (True, False))
def test_axes_and_elements_change_where_autograd_does_not_see_it(size, leaf):
    def program(x):
        with torch.no_grad():
            x += 1
            x.squeeze_()
        return x.detach() * 2

    found = []
    for call in (program, explorer.compile(program)):
        made = torch.ones(size, requires_grad=True)
        x = made if leaf else made * 1
        found.append((call(x).tolist(), x.tolist(), x.shape, x.stride(), x.is_leaf, x.requires_grad))
    assert found[0] == found[1]


SHAPED = (
    lambda x: x.reshape(-1),
    lambda x: x.contiguous(),
    lambda x: x.t().reshape(-1),
    lambda x: x[:1].flatten(),
    lambda x: x.t().contiguous(),
)


@pytest.mark.parametrize("made", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPED)
def test_a_view_or_a_copy_after_a_write(made, shape):
    for number, write in enumerate((WRITES[0], WRITES[1], WRITES[6])):

        def program(x, write=write, later=number):
            write(x)
            result = shape(x)
            (x, result, x.detach())[later].add_(1)
            return result, result[:1]

        seen = []
        for call in (program, explorer.compile(program)):
            x = made()
            result, part = call(x)
            seen.append((result.tolist(), part.tolist(), x.tolist(), result.stride(), x.stride(),
                         result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()))  # fmt: skip
        assert seen[0] == seen[1]


@pytest.mark.parametrize("change", (lambda x: x.unsqueeze_(0), lambda x: x.t_(), lambda x: x.squeeze_(0)))
@pytest.mark.parametrize("dynamic", (False, True))
def test_a_backward_reads_an_input_whose_axes_change(change, dynamic):
    def program(x, other):
        change(x)
        return x * x + x * other

    for differentiable in (True, False):
        found = []
        for call in (program, explorer.compile(program, dynamic=dynamic)):
            for size in (3, 4):
                leaf = torch.arange(1.0, 1 + size).view(1, size).requires_grad_()
                x, other = leaf * 1 if differentiable else leaf.detach() * 1, leaf * 2
                result = call(x, other.view(-1, 1))
                (result * x).sum().backward()
                found += [leaf.grad, result.detach()]
        for expected, got in zip(found[:4], found[4:], strict=True):
            assert torch.equal(expected, got)


@pytest.mark.parametrize("backend", ("explorer", "aot_eager", "eager"))
@pytest.mark.parametrize("write", (lambda x: x[:, ::2].mul_(3), lambda x: x[1].add_(1), lambda x: x.__setitem__(0, 7)))
def test_a_view_of_a_folded_input_is_written(write, backend):
    expected, found = (torch.arange(6.0).as_strided((2, 3), (1, 1)) for _ in range(2))
    write(expected)
    explorer.compile(write, backend=backend)(found)
    assert torch.equal(found, expected)


def test_a_tensor_is_folded_in_a_later_call_only():
    def program(x):
        x.add_(1)
        return x * 2

    compiled = explorer.compile(program, dynamic=True)
    for stride in ((3, 1), (1, 1), (4, 1), (1, 2)):
        given = [torch.arange(20.0).as_strided((2, 3), stride) for _ in range(2)]
        assert torch.equal(compiled(given[0]), program(given[1]))
        assert torch.equal(*given)


BESIDE = {
    "an array": lambda x: x.numpy(),
    "a row of the array": lambda x: x.numpy()[1:],
    "another tensor": lambda x: torch.from_numpy(x.numpy()),
    "a row of another tensor": lambda x: torch.from_numpy(x.numpy()[1:]),
    "every other column": lambda x: torch.from_numpy(x.numpy()[:, ::2]),
    "through DLPack": lambda x: torch.from_dlpack(x),
    "its bytes": lambda x: torch.frombuffer(memoryview(x.numpy()).cast("B"), dtype=torch.uint8),
    "a row before": lambda x: torch.from_numpy(x.numpy()[:1]),
}
ONE_WRITTEN = {
    "then read": lambda x, other: (x.add_(2), x.sum(1), other.sum())[1:],
    "the second": lambda x, other: (other.__imul__(2), other.sum(), x.sum(1))[1:],
    "both": lambda x, other: (x[1:].mul_(3), other.__iadd__(1), x.sum(), other.sum())[2:],
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("write", ONE_WRITTEN)
def test_two_storages_over_the_same_memory(write, beside):
    """Also where the first call's were apart."""
    program = ONE_WRITTEN[write]
    for first_apart in (False, True):
        compiled = explorer.compile(program)
        expected, found = torch.ones(2, 4), torch.ones(2, 4)
        if first_apart:
            compiled(found.clone(), BESIDE[beside](found.clone()))
        wanted, got = program(expected, BESIDE[beside](expected)), compiled(found, BESIDE[beside](found))
        assert torch.equal(expected, found)
        assert all(map(torch.equal, map(torch.as_tensor, wanted), map(torch.as_tensor, got)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("apart", [True, False])
def test_only_separate_inputs_are_handed_to_another_backend(apart):
    """Which is told without an address: a fake tensor has none."""
    handed = []

    def backend(graph, inputs):
        handed.append(graph)
        return graph

    program = lambda x, other: (x.add_(2), other * 1)[1]  # noqa: E731
    found, expected = torch.ones(4), torch.ones(4)
    compiled = explorer.compile(program, backend=backend, fullgraph=True)
    place = slice(2, 4) if apart else slice(1, 3)
    assert torch.equal(compiled(found[:2], found[place]), program(expected[:2], expected[place]))
    assert torch.equal(found, expected)
    assert len(handed) == apart


@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (3,)])
def test_an_out_that_shares_places_is_refused_where_its_result_is_not_used(shape: tuple[int, ...]) -> None:
    def fn(x: torch.Tensor) -> str:
        try:
            torch.add(x, x, out=(x.flatten()[:3] * 2).expand(2, -1))
        except RuntimeError as error:
            return str(error)
        return "not refused"

    assert explorer.compile(fn)(torch.ones(shape)) == fn(torch.ones(shape)) != "not refused"
