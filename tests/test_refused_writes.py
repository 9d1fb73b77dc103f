"""What a graph had written when it raised: as in eager, once."""

import itertools
import re

import pytest
import torch

import explorer
from explorer.compiler.capture.saved_inputs import Before
from raising import RAISING_BACKENDS


def written_and_handled(x, i, log):
    part = x[1:]
    part.mul_(2)
    log.append("written")
    try:
        return part[i] * 2
    except IndexError as error:
        log.append(str(error))
    return x.add_(1)


def resized_before(x, i, log):
    log.append("resized")
    x.resize_(2)
    return x.mul_(2).index_select(0, i)


def given_other_memory_before(x, i, log):
    log.append("given")
    x.data = torch.ones(7)
    x.add_(1)
    return x[i]


def written_by_what_is_refused(x, i, log):
    log.append("first")
    x.add_(1)
    x.index_put_((i,), torch.ones(1))
    log.append("second")
    return x


def factored(x, i, log):
    x.add_(1)
    log.append("written")
    return torch.linalg.cholesky(-x[0] * torch.eye(2) * i)


@pytest.mark.parametrize("backend", RAISING_BACKENDS)
@pytest.mark.parametrize(
    "program",
    [written_and_handled, resized_before, given_other_memory_before, written_by_what_is_refused, factored],
)
def test_what_a_refused_graph_has_written_is_what_eager_writes(program, backend):
    def outcome(function):
        x, log = torch.arange(3.0), []
        whole = x.view(-1)
        try:
            found = function(x, torch.tensor([8]), log).tolist()
        except (IndexError, RuntimeError) as error:
            found = type(error), str(error).split("\n")[0]
        return found, x.tolist(), whole.tolist(), log

    compiled = explorer.compile(program, backend=backend)
    for _ in range(2):
        assert outcome(compiled) == outcome(program)


def rows_of_a_leaf(x):
    for row in x.unbind(0):
        row.add_(1)
    return x


def rows_of_a_result(x):
    y = x * 1
    for row in y:
        row.add_(1)
    return y


def halves(x):
    one, other = (x * 1).chunk(2)
    one.mul_(2)
    return other


def by_what_requires_grad(x):
    one, _ = torch.ones(2, 3).split(1)
    return one.mul_(x[0])


def without_grad(x):
    y = x.detach() * 1
    for row in y.unbind(0):
        row.add_(1)
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [rows_of_a_leaf, rows_of_a_result, halves, by_what_requires_grad, without_grad])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_views_of_a_function_that_yields_several_are_written_as_in_eager(program, backend, fullgraph):
    def outcome(function):
        x = torch.ones(2, 3, requires_grad=True)
        try:
            return function(x).tolist()
        except RuntimeError as error:
            return str(error)

    assert outcome(explorer.compile(program, backend=backend, fullgraph=fullgraph)) == outcome(program)


PARTS = (
    lambda x: x.unbind(0),
    lambda x: x.chunk(2),
    lambda x: (x * 1).unbind(0),
    lambda x: [part[0] for part in x.split(1)],
    lambda x: [x[0], x[1:]],
    lambda x: [x.detach()[0], x.detach().chunk(2)[1]],
)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("leaf", [False, True])
def test_parts_that_a_graph_gives_are_written_as_in_eager(parts, leaf):
    def outcome(function):
        x = torch.ones(2, 3, requires_grad=True)
        x = x if leaf else x * 1
        first, last = function(x)
        try:
            last.add_(first)
        except RuntimeError as error:
            return re.sub(r"Output \d of \w+", "Output", str(error))
        with torch.no_grad():
            first.add_(1)
        return first.tolist(), last.tolist(), x.tolist()

    assert outcome(explorer.compile(parts)) == outcome(parts)


def _assigned(x):
    x.data = x.data * x.data


def _transposed(x):
    x.data = x.data.t()


UNCOUNTED = [
    _assigned, _transposed, lambda x: x.data.mul_(3), lambda x: x.detach().mul_(3), lambda x: x.data.t_(),
    lambda x: x.data.zero_().add_(x.numel()), lambda x: torch._foreach_mul_([x.data], 3),
    lambda x: torch.mul(x.data, 3, out=x.data), lambda x: x.view(-1).data.mul_(3),
]  # fmt: skip

REFUSED_LATE = [
    lambda x: torch.ones(3)[[x.shape]], lambda x: torch.ones(3).index_select(0, torch.tensor([9])),
    lambda x: torch.linalg.cholesky(-torch.eye(3)),
]  # fmt: skip


@pytest.mark.parametrize("kept", [Before.most_kept, -1])
@pytest.mark.parametrize("refused", REFUSED_LATE)
@pytest.mark.parametrize("write", UNCOUNTED)
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_what_no_version_counts_is_written_once(write, refused, kept, monkeypatch) -> None:
    monkeypatch.setattr(Before, "most_kept", kept)

    def outcome(function):
        x = torch.full((3, 3), 2.0, requires_grad=True)
        x.data[0, 1] = 5
        with pytest.raises((IndexError, RuntimeError)):
            function(x)
        return x.detach().tolist()

    def program(x):
        write(x)
        return refused(x) + x.sum()

    assert outcome(explorer.compile(program, backend="eager")) == outcome(program)


@pytest.mark.parametrize("side", [16, 512])
@pytest.mark.parametrize("written_first", [True, False])
def test_a_refusal_that_the_program_handles_leaves_what_eager_leaves(side, written_first) -> None:
    def program(total, x, at):
        try:
            if written_first:
                total.add_(1)
            y = x[at]
            total.add_(y.sum())
        except IndexError:
            return "handled"
        return y * total.sum()

    def outcome(function):
        total, said = torch.zeros(side, side), []
        for at in ([0, 1], [0, 99], [2, 1]):
            result = function(total, torch.ones(4), torch.tensor(at))
            said += [result if isinstance(result, str) else result.tolist(), total[0, 0].item(), total._version]
        return said

    assert outcome(explorer.compile(program)) == outcome(program)


def test_a_graph_that_has_no_memory_left_has_written_its_input_once() -> None:
    def program(total, x):
        total.add_(1)
        y = (total.sum() * x).relu()
        return y[:, None].expand(-1, y.shape[0]).cumsum(0) + (total @ total).sum()

    def outcome(function):
        total = torch.zeros(4, 4)
        function(total, torch.ones(5))
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            function(total, torch.ones(1 << 23))
        return total.tolist(), total._version

    assert outcome(explorer.compile(program, dynamic=True)) == outcome(program)


BATCH_NORMS = [
    lambda stats, x: torch.nn.functional.batch_norm(x, *stats, training=True),
    lambda stats, x: torch.nn.functional.instance_norm(x, *stats, use_input_stats=True),
    lambda stats, x: torch.batch_norm(x, None, None, *stats, True, 0.5, 1e-5, False),
    lambda stats, x: torch.native_batch_norm(x, None, None, *stats, True, 0.5, 1e-5)[0],
]


@pytest.mark.parametrize("refused", REFUSED_LATE)
@pytest.mark.parametrize("norm", BATCH_NORMS)
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_running_statistics_are_updated_once_where_the_graph_raises(norm, refused) -> None:
    def outcome(function):
        stats = [torch.zeros(3), torch.ones(3)]
        with pytest.raises((IndexError, RuntimeError)):
            function(stats, torch.arange(18.0).view(2, 3, 3))
        return [each.tolist() for each in stats]

    def program(stats, x):
        return norm(stats, x).sum() + refused(x)

    assert outcome(explorer.compile(program, backend="eager")) == outcome(program)
    assert outcome(explorer.compile(program)) == outcome(program)


def _one_of_several(x):
    return torch.ones(4, 3).mul(x.sum()).split(2)[1]


def _in_no_grad(x):
    with torch.no_grad():
        return (x * 2).view(2, 3)


WRITABLE = {
    "leaf": lambda x: x.detach().clone().requires_grad_(),
    "view that is a leaf": lambda x: torch.arange(6.0).view(2, 3).requires_grad_(),
    "view of a leaf": lambda x: torch.ones(6, requires_grad=True).view(2, 3),
    "result": lambda x: x * 2,
    "view of a result": lambda x: (x * 2).t(),
    "one of several": _one_of_several,
    "one of several without grad": lambda x: torch.ones(4, 3).unbind(0)[1],
    "in no_grad": _in_no_grad,
    "plain": lambda x: torch.ones(2, 3),
}

RECORDED = [lambda x, y: y.mul_(x.sum()), lambda x, y: y.t_() if y.dim() > 1 else y.add_(x.sum())]


@pytest.mark.parametrize("backend", ["explorer", "aot_eager", "eager"])
@pytest.mark.parametrize("write", RECORDED)
@pytest.mark.parametrize("made", WRITABLE)
def test_a_refused_write_is_as_in_eager_whatever_was_written_in_the_calls_before(made, write, backend):
    """What a graph writes is an input that autograd lets it write: others are refused before anything is written."""

    def outcome(function, before, now):
        found = []
        for kind in (before, now):
            x, log = torch.ones(2, 3, requires_grad=True), []
            plain, y = torch.ones(2, 3), WRITABLE[kind](x)
            try:
                function(x, plain, y, log)
            except RuntimeError as error:
                log.append(re.sub(r"Output \d of \w+", "Output", str(error)))
            found.append((log, plain.tolist(), y.tolist()))
        return found

    def program(x, plain, y, log):
        log.append("begins")
        plain.add_(1)
        write(x, y)

    for before in ("result", "plain", "leaf"):
        function = explorer.compile(program, backend=backend)
        assert outcome(function, before, made) == outcome(program, before, made), before


SEVERAL = [
    lambda x: x.unbind(0), lambda x: x.chunk(2), lambda x: x.split(1), lambda x: x.tensor_split(2), list,
    lambda x: [x[0], x[1]], lambda x: x.t().hsplit(2), lambda x: [x.diagonal(), x.t()],
]  # fmt: skip

WRITES_ONE = [
    lambda x, y: y.add_(x.sum()), lambda x, y: y.zero_(), lambda x, y: y.set_(x),
    lambda x, y: y.masked_fill_(y > 0, 2), lambda x, y: y.__setitem__(y > 0, 2.5), lambda x, y: y.data.mul_(2),
]  # fmt: skip


@pytest.mark.parametrize("write", WRITES_ONE)
@pytest.mark.parametrize("parts", SEVERAL)
def test_one_of_several_views_that_a_graph_gives_alone_is_written_as_in_eager(parts, write):
    def program(x, start):
        y = parts(start(x))[-1]
        torch._dynamo.graph_break()
        write(x, y)
        return y

    def outcome(function, start):
        x = torch.arange(6.0).view(2, 3).requires_grad_()
        try:
            return function(x, start).tolist()
        except RuntimeError as error:
            return re.sub(r"Output \d of \w+", "Output", str(error))

    for start in (lambda x: x * 2, lambda x: torch.ones(2, 3), lambda x: x):
        assert outcome(explorer.compile(program), start) == outcome(program, start)


def _appended_between(write, refused, x, log):
    write(x)
    log.append(x.shape)
    return refused(x)


def _handled(write, refused, x, log):
    try:
        write(x)
        return refused(x)
    except (IndexError, RuntimeError) as error:
        log.append(type(error).__name__)
        return x + 1


def _both(write, refused, x, log):
    try:
        write(x[0])
        log.append("written")
        x = x * refused(x)
    finally:
        log.append("left")


@pytest.mark.parametrize("backend", ["eager", "explorer"])
@pytest.mark.parametrize("refused", REFUSED_LATE)
@pytest.mark.parametrize("program", [_appended_between, _handled, _both])
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_no_effect_is_lost_behind_a_write_that_autograd_records(program, refused, backend) -> None:
    def outcome(function, write, aliased):
        base, log = torch.full((3, 3), 2.0, requires_grad=True) * 1, []
        try:
            function(write, refused, base, log, *([base[1:]] if aliased else []))
        except (IndexError, RuntimeError) as error:
            log.append(type(error).__name__)
        base.sum().backward()
        return log, base.tolist()

    def called(write, refused, x, log, *views):
        for each in views:
            each.add_(1)
        return program(write, refused, x, log)

    for write in (lambda x: x.mul_(3), lambda x: x[:1].sin_()):
        for aliased in (False, True):  # where inputs share memory, the graph's own writes are the program's
            function = explorer.compile(called, backend=backend)
            assert outcome(function, write, aliased) == outcome(called, write, aliased)


OUTDATED = {
    "split": lambda x: x.split(1)[1],
    "unbind": lambda x: x.unbind(0)[0],
    "whole": lambda x: x.split(2)[-1],
    "without grad": lambda x: _first_without_grad(x),
    "one view": lambda x: x[1:],
}

WRITES_BASE = [lambda x: x.mul_(3), lambda x: x.__setitem__(0, 5), lambda x: x[0].square_(), lambda x: x.sub_(x.sum())]

USES = [lambda v: v * 2, lambda v: v.expand_as(v), lambda v: v.is_leaf, lambda v: v.add_(1)]


def _first_without_grad(x):
    with torch.no_grad():
        return x[0]


def _used_after(x, view, log, steps, write, use):
    log.append("begins")
    write(x)
    x += next(steps)
    return use(view)


def _used_before_and_after(x, view, log, steps, write, use):
    try:
        first = use(view)
        log.append(next(steps))
        write(x)
        return first, use(view)
    except RuntimeError as error:
        log.append(type(error).__name__)
        return next(steps)


@pytest.mark.parametrize("backend", ["explorer", "eager"])
@pytest.mark.parametrize("program", [_used_after, _used_before_and_after])
@pytest.mark.parametrize("made", OUTDATED)
def test_no_effect_is_lost_where_autograd_refuses_a_view_whose_base_was_written(made, program, backend):
    """Whether such a view is an input when the graph is made, or at a later call."""

    def outcome(function, aliased, *does):
        leaf, other = (torch.arange(6.0).view(2, 3).requires_grad_() for _ in range(2))
        x, log, steps = leaf * 1, [], itertools.count(1)
        view = OUTDATED[made](x if aliased else other * 1)
        try:
            found = str(function(x, view, log, steps, *does)).partition(", grad_fn")[0]
        except RuntimeError as error:
            found = type(error)
        x.sum().backward()
        return found, log, str(steps), x.tolist(), leaf.grad.tolist()

    for write, use in zip(WRITES_BASE, USES, strict=True):
        for aliased in (True,), (False, True, False):
            function = explorer.compile(program, backend=backend)
            for now in aliased:
                assert outcome(function, now, write, use) == outcome(program, now, write, use)
