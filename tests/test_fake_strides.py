"""Where results lie in memory: tensors without data are laid out as the kernels lay out real ones."""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor

import explorer
from explorer.compiler.capture.fakes import CONTIGUOUS, SUGGESTED, SUGGESTED_ON_CPU, LaidOut
from explorer.compiler.capture.operator_checks import tensors_in

aten = torch.ops.aten
LAID_OUT = {
    aten.pow.Scalar: lambda x: (2, x),
    aten.poisson.default: lambda x: (x.abs(),),
    aten.rrelu_with_noise.default: lambda x: (x, torch.empty_like(x), 0.1, 0.3, True),
    aten.log_sigmoid_forward.default: lambda x: (x,),
    aten.normal.Tensor_Tensor: lambda x: (x, x.abs()),
    aten.normal.float_Tensor: lambda x: (0.0, x.abs()),
    aten.masked_fill.Scalar: lambda x: (x, x > 0.5, 1.0),
    aten.nll_loss2d_forward.default: lambda x: (x, (x[:, 0] * 4).long(), None, 0, -100),
    aten.isin.Tensor_Tensor: lambda x: (x, x),
    aten.native_layer_norm.default: lambda x: (x, x.shape[1:], None, None, 1e-5),
    aten.max_unpool2d.default: lambda x: (x, torch.arange(x.numel()).view(x.shape) % 25, (5, 5)),
    aten.channel_shuffle.default: lambda x: (x, 2),
    aten.native_batch_norm.default: lambda x: (x, None, None, None, None, True, 0.1, 1e-5),
    aten._native_batch_norm_legit.default: lambda x: (x, None, None, torch.zeros(4), torch.ones(4), True, 0.1, 1e-5),
    aten._native_batch_norm_legit.no_stats: lambda x: (x, None, None, True, 0.1, 1e-5),
    aten._native_batch_norm_legit_functional.default: lambda x: (x, *of_channels(), True, 0.1, 1e-5),
    aten._native_batch_norm_legit_no_training.default: lambda x: (x, *of_channels(), 0.1, 1e-5),
    aten._batch_norm_with_update.default: lambda x: (x, *of_channels(), 0.1, 1e-5),
    aten._batch_norm_with_update_functional.default: lambda x: (x, *of_channels(), 0.1, 1e-5),
    aten._batch_norm_no_update.default: lambda x: (x, *of_channels(), 0.1, 1e-5),
    aten.grid_sampler_2d.default: lambda x: (x, x[:, :2].permute(0, 2, 3, 1), 0, 0, False),
    aten.reflection_pad3d.default: lambda x: (x, (1, 1, 1, 1, 1, 1)),
    aten.replication_pad3d.default: lambda x: (x, (1, 1, 1, 1, 1, 1)),
    aten.reflection_pad2d.default: lambda x: (x, (1, 1, 1, 1)),
    aten.replication_pad2d.default: lambda x: (x, (1, 1, 1, 1)),
    aten.max_pool3d_with_indices.default: lambda x: (x.unsqueeze(2), (1, 2, 2)),
}


def of_channels():
    """A weight, a bias, and running statistics."""
    return torch.ones(4), torch.zeros(4), torch.zeros(4), torch.ones(4)


LAYOUTS = {
    "contiguous": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "turned": lambda x: x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "expanded": lambda x: x[..., :1].expand(x.shape),
    "with gaps": lambda x: torch.stack([x, x], -1)[..., 0],
}
MODE = LaidOut()


def fake(value):
    return MODE.from_tensor(value) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("operator", sorted(CONTIGUOUS | SUGGESTED | SUGGESTED_ON_CPU, key=str), ids=str)
def test_operators_with_a_layout_of_their_own(operator, layout):
    given = LAID_OUT[operator](layout(torch.rand(2, 4, 3, 5)))
    real = operator(*given)
    with MODE:
        made = operator(*map(fake, given))
    for each, expected in zip(tensors_in(made), tensors_in(real), strict=True):
        assert isinstance(each, FakeTensor) and each.stride() == expected.stride()


@pytest.mark.parametrize("size", [(3, 1), (1, 3), (1, 2, 1), (2, 1, 1, 4)])
def test_an_axis_of_one_element(size):
    """has a stride that no reading of elements shows."""

    def fn(x):
        statistics = x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])
        return F.layer_norm(x, x.shape[-1:]), F.batch_norm(x, *statistics), F.softmax(x, 0), x * 2, F.logsigmoid(x)

    x = torch.rand(size[::-1]).permute(*range(len(size))[::-1])
    assert [each.stride() for each in explorer.compile(fn)(x)] == [each.stride() for each in fn(x)]


@pytest.mark.parametrize("dynamic", [None, True])
def test_axes_of_one_and_of_no_elements(dynamic):
    def fn(x):
        return x + 1, x.exp(), x == 0, x.double()

    compiled = explorer.compile(fn, dynamic=dynamic)
    for size in ((1, 0), (2, 0), (1, 0, 1), (2, 1, 0)):
        for axes in itertools.permutations(range(len(size))):
            x = torch.ones(size).permute(axes)
            assert [each.stride() for each in compiled(x)] == [each.stride() for each in fn(x)]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("size", [(2, 4, 3, 5), (2, 0, 3, 5), (2, 4, 1, 0)])
def test_both_parts_of_frexp(size, layout):
    given = layout(torch.rand(size))
    assert [x.stride() for x in explorer.compile(torch.frexp)(given)] == [x.stride() for x in torch.frexp(given)]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("number", [True, False])
@pytest.mark.parametrize("size", [(1, 1, 2, 3), (2, 4, 3, 5)])
def test_what_isin_is_given_few_of_is_a_vector(size, number, layout):
    few, x = layout(torch.rand(size)), 0.5 if number else torch.rand(2, 3)

    def call(x, few):
        torch.isin(x, few)
        return few + 1

    try:
        call(x, few)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            explorer.compile(call)(x, few)
        assert "view size is not compatible" in str(error)
    else:
        assert torch.equal(explorer.compile(call)(x, few), few + 1)


VIEWS = (
    "view(-1) | reshape(-1) | flatten() | ravel() | view_as(x) | movedim(0, 1) | swapaxes(0, 1) | unflatten(0, (1, 2)) "
    "| tensor_split(2)[0] | chunk(2)[0] | narrow(0, 0, 1) | mT | mH | T | expand_as(x) | hsplit(1)[0] | vsplit(2)[1] | "
    "reshape_as(x) | squeeze() | contiguous() | float() | unbind()[0] | adjoint() | real | to(torch.float32) | [0] | "
    "reshape(6, 1).mT.flatten() | resolve_conj() | type_as(x) | clone() | broadcast_to((2, 3))"
).split(" | ")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_what_is_written_through_a_view_in_inference_mode_is_a_write_of_its_base(view, dynamic):
    """unless it is a copy."""
    namespace = {"torch": torch}
    exec(
        "def call(x):\n    with torch.inference_mode():\n"
        f"        y = x{'' if view[0] == '[' else '.'}{view}\n        y.add_(1)\n"
        "        return x._version, y.is_inference() or y._version, y._is_view(), y is x",
        namespace,
    )
    call, inputs = namespace["call"], (torch.ones(2, 3), torch.ones(2, 3))
    expected = call(inputs[0])
    assert explorer.compile(call, dynamic=dynamic)(inputs[1]) == expected
    assert inputs[0]._version == inputs[1]._version and torch.equal(*inputs)


@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (3, 0), (1, 1), (4,)])
@pytest.mark.parametrize("index", ["False", "None, False", "..., False", "EMPTY", "..., EMPTY", "EMPTY, None"])
def test_what_is_indexed_without_elements(index, shape):
    namespace = {"EMPTY": torch.zeros(0, dtype=torch.long)}
    exec(f"def call(x):\n    return x[{index}].data.stride()", namespace)
    x = torch.zeros(shape)
    assert explorer.compile(namespace["call"])(x) == namespace["call"](x)


@pytest.mark.parametrize("layout", ["contiguous", "channels last", "turned"])
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
@pytest.mark.parametrize("sides", [1, 2, 3])
def test_padding_of_every_rank(sides, mode, layout):
    for rank in (sides + 1, sides + 2):
        x = torch.rand((3, 4, 5, 6, 7)[:rank])
        if layout == "channels last":
            x = x.movedim(1, -1).contiguous().movedim(-1, 1)
        elif layout == "turned":
            x = x.movedim(0, -1).contiguous().movedim(-1, 0)
        compiled = explorer.compile(lambda x: F.pad(x, (1, 1) * sides, mode=mode))(x)
        expected = F.pad(x, (1, 1) * sides, mode=mode)
        assert torch.equal(compiled, expected) and compiled.stride() == expected.stride()


def pointwise():
    """Operators element by element that take two or three tensors."""
    for name in dir(aten):
        packet = getattr(aten, name)
        for overload in packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ():
            operator = getattr(packet, overload)
            types = [str(each.type) for each in operator._schema.arguments if not each.kwarg_only]
            if torch.Tag.pointwise in operator.tags and types.count("Tensor") in (2, 3):
                if not operator._schema.is_mutable and str(operator._schema.returns[0].type) == "Tensor":
                    yield operator


def arguments(operator, tensors):
    tensors = iter(tensors)
    for each in operator._schema.arguments:
        if str(each.type) == "Tensor":
            tensor = next(tensors)
            yield tensor > 0.5 if each.name in ("mask", "condition") else tensor
        elif not each.has_default_value():
            yield "trunc" if each.name == "rounding_mode" else 1


def test_operators_on_several_layouts():
    made = {name: layout(torch.rand(2, 4, 3, 5)) for name, layout in LAYOUTS.items()}
    tested = 0
    for operator in pointwise():
        count = sum(str(each.type) == "Tensor" for each in operator._schema.arguments)
        chosen = itertools.product(list(LAYOUTS), repeat=count)
        for names in itertools.islice(chosen, None, None, 1 if count == 2 else 7):
            given = list(arguments(operator, [made[name] for name in names]))
            named = {"rounding_mode": given.pop()} if "trunc" in given else {}
            try:
                real = operator(*given, **named)
            except (RuntimeError, NotImplementedError):  # one of integers
                break
            with MODE:
                found = operator(*map(fake, given), **named)
            assert found.stride() == real.stride(), (operator, names)
            tested += 1
    assert tested > 600


@pytest.mark.parametrize("layout", [*LAYOUTS.values(), lambda x: x[:1], lambda x: x[0]], ids=[*LAYOUTS, "1", "rank 3"])
@pytest.mark.parametrize(
    "transform",
    [torch.fft.fft, torch.fft.ifft, torch.fft.rfft, torch.fft.irfft, torch.fft.hfft, torch.fft.ihfft],
)
def test_transforms_of_every_dimension(transform, layout):
    for dtype in (torch.float32, torch.complex128):
        if dtype.is_complex and transform in (torch.fft.rfft, torch.fft.ihfft):
            continue
        x = layout(torch.rand(2, 4, 3, 5, dtype=dtype))
        for dim in range(x.dim()):
            for given in ({}, {"n": 7}) if x.shape[dim] > 1 else ({"n": 7},):
                with MODE:
                    made = transform(fake(x), dim=dim, **given)
                expected = transform(x, dim=dim, **given)
                steps = zip(expected.shape, expected.stride(), made.stride(), strict=True)
                assert all(size == 1 or one == other for size, one, other in steps)


def test_operators_on_a_number_and_a_tensor():
    for function in (torch.copysign, torch.fmod, torch.ldexp, torch.heaviside, torch.floor_divide, torch.hypot):
        for layout in LAYOUTS.values():
            x, number = layout(torch.rand(2, 4, 3, 5)), torch.tensor(-2.0)
            for given in ((x, number), (number, x)):
                with MODE:
                    made = function(*map(fake, given))
                assert made.stride() == function(*given).stride()


def test_copies_that_are_written_have_memory_of_their_own():
    functions = (
        lambda x: x.diagonal_scatter(torch.zeros(4)),
        lambda x: x.select_scatter(torch.zeros(4), 0, 1),
        lambda x: x.slice_scatter(torch.zeros(2, 4), 0, 1, 3),
    )
    for x in (torch.rand(1, 4).expand(4, 4), torch.rand(4, 8)[:, ::2], torch.rand(4, 4).T):
        for function in functions:
            made, expected = explorer.compile(function)(x), function(x)
            assert torch.equal(made, expected) and made.stride() == expected.stride()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float64])
def test_angles(dtype):
    for layout in LAYOUTS.values():
        x = layout(torch.rand(2, 4, 3, 5, dtype=dtype))
        assert explorer.compile(torch.angle)(x).stride() == torch.angle(x).stride()


@pytest.mark.parametrize("function", [lambda x: 2**x, lambda x: F.logsigmoid(x), lambda x: torch.xlogy(x, x.T)])
def test_compiled_results(function):
    x = torch.rand(4, 4).T
    assert explorer.compile(function)(x).stride() == function(x).stride()


@pytest.mark.parametrize("backend", ["explorer", "aot_eager"])
def test_out_is_resized_as_in_eager(backend):
    def sine(x, out):
        return torch.sin(x, out=out)

    for x, size in ((torch.rand(3, 4).T, 0), (torch.rand(3), 0), (torch.rand(1), 5)):
        out, expected = torch.empty(size), torch.empty(size)
        made = explorer.compile(sine, backend=backend)(x, out)
        sine(x, expected)
        assert made is out and out.shape == expected.shape and out.stride() == expected.stride()
        assert torch.equal(out, expected)


@pytest.mark.parametrize("x", [torch.rand(3, 4).T, torch.rand(6).as_strided((2, 3), (1, 1)), torch.rand(3, 4)])
def test_what_is_reported_of_a_resized_out(x):
    def sine(x):
        out = torch.tensor(0.75)
        torch.sin(x, out=out)
        return out.stride(), (3 - out).stride(), out

    assert explorer.compile(sine)(x)[:2] == sine(x)[:2]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("grad", [False, True])
def test_functions_whose_result_is_contiguous(grad, dynamic):
    def function(x):
        return F.max_pool1d(x, 2), F.max_pool1d(x, 2) + 1, F.one_hot((x.detach() * 3).long(), 4)

    compiled = explorer.compile(function, dynamic=dynamic)
    for x in (torch.rand(10, 2, 6).transpose(0, 1), torch.rand(5, 4, 6).permute(1, 2, 0), torch.rand(3, 4, 6)):
        x.requires_grad_(grad)
        for made, expected in zip(compiled(x), function(x), strict=True):
            assert made.stride() == expected.stride() and torch.equal(made, expected)


@pytest.mark.parametrize("dynamic", [None, True])
def test_strides_that_are_symbols_order_memory_as_in_eager(dynamic):
    def function(x):
        return torch.zeros_like(x), F.dropout(x), torch.ones_like(x).chunk(2)[0]

    compiled = explorer.compile(function, dynamic=dynamic)
    for given in (
        torch.rand(2, 3), torch.rand(3, 2).T, torch.rand(4, 3).T, torch.rand(8).as_strided((3, 4), (1, 1)),
        torch.rand(9).as_strided((3, 5), (2, 1)), torch.rand(3, 5, 2).permute(2, 0, 1)[0],
    ):  # fmt: skip
        results = []
        for each in (function, compiled):
            torch.manual_seed(0)
            results.append([(y.stride(), y.tolist()) for y in each(given)])
        assert results[0] == results[1]


THROUGH_ELEMENTS = {
    "negative": lambda a, b: -a,
    "of a number": lambda a, b: (a > 0, a + 1, a.clamp(0.2), torch.where(a > 0, a, 1.0)),
    "cast": lambda a, b: (a.double() * b, a.int() / 2, a.to(torch.bfloat16)),
    "of two": lambda a, b: (a * b, torch.maximum(a, b), torch.fmod(a, b)),
    "of three": lambda a, b: (torch.where(a > 0, a, b), torch.lerp(a, b, 0.5)),
    "new": lambda a, b: (torch.zeros_like(a), a.clone()),
    "activation": lambda a, b: (F.gelu(a), a.sigmoid(), a.isnan()),
}


def laid_out_somehow(chance: random.Random) -> torch.Tensor:
    """Many axes of size 1, whose strides mean nothing and yet decide the order of those of the result."""
    order = list(range(chance.randint(1, 4)))
    chance.shuffle(order)
    made = torch.rand([chance.choice((1, 1, 2, 3, 6)) for _ in order] + [chance.choice((1, 2))])[..., 0].permute(order)
    return made.unsqueeze(chance.randint(0, made.dim())) if chance.random() < 0.3 else made


@pytest.mark.parametrize("kind", THROUGH_ELEMENTS)
def test_axes_of_size_one(kind):
    chance, tried = random.Random(kind), 0
    while tried < 40:
        a, b = laid_out_somehow(chance), laid_out_somehow(chance)
        if any(1 not in (n, m) and n != m for n, m in zip(a.shape[::-1], b.shape[::-1], strict=False)):
            continue
        tried += 1
        with MODE:
            made = THROUGH_ELEMENTS[kind](fake(a), fake(b))
        for one, other in zip(tensors_in(made), tensors_in(THROUGH_ELEMENTS[kind](a, b)), strict=True):
            assert one.stride() == other.stride(), (a.shape, a.stride(), b.shape, b.stride())


def loss_by_element(a, b):
    return F.binary_cross_entropy(a, b, reduction="none")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("call", [torch.floor_divide, torch.copysign, torch.special.xlog1py, loss_by_element])
def test_strides_of_what_torch_makes_in_parts(call, dynamic):
    x = torch.rand(3, 4, 5).transpose(1, 2)
    for given in ((x, x.contiguous()), (x.contiguous(), x), (x.permute(2, 0, 1), x.permute(2, 0, 1).contiguous())):
        made = explorer.compile(lambda a, b: call(a, b), dynamic=dynamic)(*given)
        assert made.stride() == call(*given).stride()


EMPTY = {
    "turned": lambda: torch.rand(2, 0).t(),
    "turned of rank 3": lambda: torch.rand(2, 0, 3).transpose(0, 2),
    "moved": lambda: torch.rand(4, 0, 2).permute(2, 0, 1),
    "last": lambda: torch.rand(2, 3, 0).transpose(0, 1),
    "plain": lambda: torch.rand(0, 3),
}


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("make", EMPTY.values(), ids=EMPTY)
def test_results_without_elements(make, dynamic):
    def fn(x):
        return x * 2, x + x, x.exp(), torch.where(x > 0, x, 1.0), x.flatten(), x.cumsum(0), x.half(), x + torch.rand(1)

    x = make()
    results = explorer.compile(fn, dynamic=dynamic)(x)
    assert [each.stride() for each in results] == [each.stride() for each in fn(x)]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_indices_that_are_turned(axis):
    x, index = torch.rand(3, 4, 5), torch.arange(6).reshape(3, 2).t() % 3

    def fn(x, index):
        return x[(slice(None),) * axis + (index,)]

    assert explorer.compile(fn)(x, index).stride() == fn(x, index).stride()


TURNED = {
    "vector first": lambda: (torch.rand(3), torch.rand(3, 2).T),
    "vector last": lambda: (torch.rand(3, 2).T, torch.rand(3)),
    "column first": lambda: (torch.rand(2, 1), torch.rand(3, 2).T),
    "turned first": lambda: (torch.rand(3, 2).T, torch.rand(2, 3)),
    "turned last": lambda: (torch.rand(2, 3), torch.rand(3, 2).T),
    "both": lambda: (torch.rand(3, 2).T, torch.rand(3, 2).T),
}
OF_TWO = (
    torch.logical_and, torch.logical_or, torch.logical_xor, torch.logaddexp, torch.logaddexp2, torch.heaviside,
    torch.xlogy, torch.ldexp, torch.copysign, torch.floor_divide, torch.special.xlog1py, torch.true_divide, torch.add,
    torch.eq, torch.atan2, torch.hypot, torch.remainder, torch.nextafter, torch.fmax, torch.float_power,
)  # fmt: skip


@pytest.mark.parametrize("function", OF_TWO, ids=lambda function: function.__name__)
def test_two_inputs_of_symbolic_sizes_lie_as_eager_lays_them(function):
    fast = explorer.compile(lambda a, b: function(a, b), dynamic=True)
    for made in TURNED.values():
        a, b = made()
        assert fast(a, b).stride() == function(a, b).stride()


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3), (2, 1, 0, 3)], ids=str)
@pytest.mark.parametrize("size", [(1, 2, 1, 8), (2, 1, 3, 8), (1, 1, 1, 8), (2, 2, 3, 8)], ids=str)
def test_attention_of_one_position_or_head(size, order):
    def attended(q, k):
        made = F.scaled_dot_product_attention(q, k, k)
        return made, made.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)

    turned = [size[order.index(d)] for d in range(4)]
    q = torch.rand([turned[d] for d in torch.tensor(order).argsort()]).permute(order)
    k = torch.rand(*q.shape[:2], 5, 8)
    with torch.no_grad():
        assert [each.stride() for each in explorer.compile(attended)(q, k)] == [
            each.stride() for each in attended(q, k)
        ]


def test_a_number_of_the_graph_that_an_operator_reads_is_known():
    def scaled(x):
        count = torch.tensor(0.0)
        count += 1
        rate = 0.001 / (1 - 0.9**count)
        masked = torch.tensor(2.0).masked_fill(torch.tensor(True), 5.0)
        mantissa, exponent = torch.tensor(12.0).frexp()
        found = torch.isin(mantissa, mantissa).float() + F.logsigmoid(mantissa)
        entropy = torch.special.xlog1py(found, mantissa) + torch.floor_divide(found, mantissa)
        scaled = [torch.add(x, x, alpha=each) for each in (masked, mantissa, exponent, found, entropy)]
        return x.addcdiv(x, x, value=-rate), *scaled, torch.tensor(True) ** True

    x = torch.rand(3)
    for got, expected in zip(explorer.compile(scaled)(x), scaled(x), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "ASGD", "Rprop"])
@pytest.mark.parametrize("foreach", [False, None])
def test_a_step_that_makes_its_state_and_clips_is_that_of_eager(optimizer, foreach):
    def trained(wrap):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        made = getattr(torch.optim, optimizer)(model.parameters(), foreach=foreach)

        def step(x):
            made.zero_grad()
            model(x).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            made.step()

        step = wrap(step)
        for n in range(3):
            step(torch.full((4, 3), 1.0 + n))
        return [p.detach() for p in model.parameters()], made.state_dict()["state"][0]["step"]

    (ours, count), (eager, expected) = trained(explorer.compile), trained(lambda step: step)
    assert count == expected
    torch.testing.assert_close(ours, eager)


VIEWED = {
    "contiguous": lambda: torch.arange(6.0).view(2, 3),
    "expanded": lambda: torch.arange(3.0).expand(2, 3),
    "a row of these": lambda: torch.arange(3.0).expand(2, 3)[1:],
    "turned": lambda: torch.arange(6.0).view(2, 3).t(),
    "with gaps": lambda: torch.arange(12.0).view(2, 6)[:, ::2],
    "expanded inside": lambda: torch.arange(4.0).view(2, 1, 2).expand(2, 3, 2),
    "empty": lambda: torch.empty(0, 3),
}


@pytest.mark.parametrize("name", VIEWED)
def test_view_has_the_strides_of_eager_or_raises(name):
    """The rule on tensors without data keeps strides of axes of size 1, and takes expanded tensors for views of theirs.
    An error is raised also where nobody reads the result."""
    for before, shape in itertools.product(("", 0, 1), [(-1,), (6,), (1, 6), (3, 2), (1, 3), (2, 1, 3), (2, 2, 3)]):

        def made(x, before=before, shape=shape):
            view = (x if before == "" else x.unsqueeze(before)).view(shape)
            return view, view.stride()

        for function in (made, lambda x, made=made: len(made(x))):
            found = []
            for call in (function, explorer.compile(function)):
                try:
                    found.append(str(call(VIEWED[name]())))
                except RuntimeError as error:
                    found.append(str(error)[:40])
            assert found[0] == found[1]


@pytest.mark.parametrize(
    "function",
    [
        lambda s: torch.zeros(s),
        lambda s: torch.ones(s).T * 2,
        lambda s: torch.ones(*s, 3).transpose(0, 2).clone(),
        lambda s: torch.ones(s).cumsum(0),
    ],
)
def test_a_size_that_was_0_when_compiled(function):
    compiled = explorer.compile(function, dynamic=True)
    compiled((2, 0))
    for size in ((3, 2), (5, 6), (2, 7)):
        assert compiled(size).stride() == function(size).stride()
