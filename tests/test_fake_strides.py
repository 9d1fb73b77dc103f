"""Where results lie in memory: tensors without data are laid out as the kernels lay out real ones."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor

import explorer
from explorer.capture.fakes import CONTIGUOUS, SUGGESTED, LaidOut

aten = torch.ops.aten
LAID_OUT = {
    aten.pow.Scalar: lambda x: (2, x),
    aten.poisson.default: lambda x: (x.abs(),),
    aten.rrelu_with_noise.default: lambda x: (x, torch.empty_like(x), 0.1, 0.3, True),
    aten.log_sigmoid_forward.default: lambda x: (x,),
    aten.normal.Tensor_Tensor: lambda x: (x, x.abs()),
    aten.normal.float_Tensor: lambda x: (0.0, x.abs()),
    aten.max_unpool2d.default: lambda x: (x, torch.arange(x.numel()).view(x.shape) % 25, (5, 5)),
    aten.channel_shuffle.default: lambda x: (x, 2),
    aten.native_batch_norm.default: lambda x: (x, None, None, None, None, True, 0.1, 1e-5),
}
LAYOUTS = {
    "contiguous": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "turned": lambda x: x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "expanded": lambda x: x[..., :1].expand(x.shape),
    "with gaps": lambda x: torch.stack([x, x], -1)[..., 0],
}
MIXED = (
    torch.copysign, torch.xlogy, torch.floor_divide, torch.ldexp, torch.fmod, torch.heaviside,
    lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    lambda x, y: torch.where(x > 0, x, y),
    lambda x, y: torch.lerp(x, y, y),
    lambda x, y: torch.clamp(x, y),
)  # fmt: skip


MODE = LaidOut()


def fake(value):
    return MODE.from_tensor(value) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("operator", sorted(CONTIGUOUS | SUGGESTED, key=str), ids=str)
def test_operators_with_a_layout_of_their_own(operator, layout):
    given = LAID_OUT[operator](layout(torch.rand(2, 4, 3, 5)))
    real = operator(*given)
    with MODE:
        made = operator(*map(fake, given))
    (first, *_), (expected, *_) = (each if isinstance(each, tuple) else (each,) for each in (made, real))
    assert isinstance(first, FakeTensor) and first.stride() == expected.stride()


@pytest.mark.parametrize("operator", MIXED)
def test_operators_on_several_layouts(operator):
    for one in LAYOUTS.values():
        for other in LAYOUTS.values():
            x, y = one(torch.rand(2, 4, 3, 5)), other(torch.rand(2, 4, 3, 5))
            with MODE:
                made = operator(fake(x), fake(y))
            assert made.stride() == operator(x, y).stride()


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
