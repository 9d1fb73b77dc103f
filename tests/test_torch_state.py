"""What torch's own functions set and ask for in compiled functions: eager's results, and as few graphs as stock's."""

import contextlib
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import explorer
from explorer.core.recorder import TOTALS
from explorer.ir.capture import CompilerBug

LOCAL = threading.local()


def switched(x):
    torch.set_grad_enabled(False)
    y = x * 2
    torch.set_grad_enabled(True)
    return y + x


def decorated(x):
    @torch.set_grad_enabled(False)
    def double(y):
        return y * 2

    return double(x) + x


def inference(x):
    with torch.inference_mode():
        return x.detach() * 2


def overrides_off(x):
    with torch._C.DisableTorchFunctionSubclass():
        return x + 1


def attention(x):
    q = x.reshape(1, 1, *x.shape)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        return F.scaled_dot_product_attention(q, q, q)


def precision(x):
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = not before
    y = x @ x.T
    torch.backends.cuda.matmul.allow_tf32 = before
    return y


def deterministic(x):
    torch.use_deterministic_algorithms(True)
    y = x + 1
    torch.use_deterministic_algorithms(False)
    return y, torch.are_deterministic_algorithms_enabled()


def dtype(x):
    torch.set_default_dtype(torch.float64)
    y = torch.ones(2)
    torch.set_default_dtype(torch.float32)
    return y, x + 1


def labeled(x):
    with torch.profiler.record_function("label"):
        return x + 1


def hooks_forbidden(x):
    with torch.autograd.graph.disable_saved_tensors_hooks("no hooks"):
        return x.sin()


def data_set(x):
    y = x.detach().clone()
    y.data = x.detach()[:2] * 2
    return y + 1, y.shape


def data_swapped(x):
    was = x.data
    x.data = torch.zeros_like(was)
    y = x + 1
    x.data = was
    return y + x


def named(x):
    made = torch.return_types.max((x, x.argmax(1)))
    return made.values + made[0], isinstance(made, torch.return_types.max), made


def numbers(x):
    return torch.LongTensor([1, 2]), torch.Tensor(2, 3).shape, torch.Size([2]) + (x.shape[0],)


def of_thread(x):
    return x * LOCAL.scale


def dropped(x):
    return checkpoint(lambda y: F.dropout(y.sin(), 0.5), x, use_reentrant=False)


def reentrant(x):
    return checkpoint(torch.sin, x, use_reentrant=True)


def nested(x):
    return checkpoint(lambda y, k: checkpoint(torch.sin, y * k, use_reentrant=False), x, k=2.0, use_reentrant=False)


WHOLE = [
    switched, decorated, inference, overrides_off, attention, precision, deterministic, dtype, labeled,
    hooks_forbidden, data_set, data_swapped, named, numbers, of_thread, dropped, reentrant, nested,
]  # fmt: skip


def run(function, training):
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(training)
    found = function(x)
    tensors = [t for t in torch.utils._pytree.tree_leaves(found) if isinstance(t, torch.Tensor)]
    if out := [t for t in tensors if t.requires_grad]:
        sum(t.sum() for t in out).backward()
    return found, x.grad, [(t.is_inference(), t.requires_grad) for t in tensors]


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("function", WHOLE, ids=lambda f: f.__name__)
def test_one_graph_like_eager(function, training):
    LOCAL.scale = 3
    eager = run(function, training)
    graphs = CompileCounter()
    for compiled in (explorer.compile(function, fullgraph=True), explorer.compile(function, backend=graphs)):
        torch.testing.assert_close(run(compiled, training), eager)
    by_no_other_backend = (data_set, data_swapped, inference)  # memory that changes hands, and inference mode
    assert graphs.frame_count == (function not in by_no_other_backend)


def with_a_break(x):
    with torch.inference_mode():
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2, torch.is_inference_mode_enabled()


def in_a_loop(x):
    for _ in range(3):
        x = x + 1
        torch._dynamo.graph_break()
    return x


def in_a_comprehension(x):
    return [(torch._dynamo.graph_break(), x + i)[1] for i in range(3)]


@torch.compiler.disable(reason="it prints")
def left_alone(x):
    return x * 2


@pytest.mark.parametrize(
    ("function", "graphs"),
    [
        (lambda x: (x + 1, torch._dynamo.graph_break())[0] * 2, 2),
        (lambda x: left_alone(x.sin()) + 1, 2),
        (with_a_break, 1),
        (in_a_loop, 3),
        (in_a_comprehension, 3),
    ],
    ids=["break", "disabled", "inference mode", "loop", "comprehension"],
)
def test_breaks_that_are_asked_for(function, graphs):
    x, counted = torch.randn(3), CompileCounter()
    torch.testing.assert_close(explorer.compile(function, backend=counted)(x), function(x))
    torch.testing.assert_close(explorer.compile(function)(x), function(x))
    assert counted.frame_count == graphs
    assert not torch.is_inference_mode_enabled()


def test_marks_on_functions():
    @torch.compiler.allow_in_graph
    def whole(x):
        return x.sin() + 1

    @torch.compiler.assume_constant_result
    def folded():
        return 5

    def function(x):
        return whole(x) * folded()

    counted, x = CompileCounter(), torch.randn(3)
    torch.testing.assert_close(explorer.compile(function, backend=counted, fullgraph=True)(x), function(x))
    assert counted.op_count == 2


def test_a_stance_is_kept():
    compiled = explorer.compile(lambda x: x * 2 if torch.compiler.is_compiling() else x * 3)
    x, other = torch.ones(2), torch.ones(3)
    with torch.compiler.set_stance("force_eager"):
        assert compiled(x)[0] == 3
    assert compiled(x)[0] == 2
    with torch.compiler.set_stance("eager_on_recompile"):
        assert (compiled(x)[0], compiled(other)[0]) == (2, 3)
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="fail_on_recompile"):
        compiled(other)
    assert compiled(other)[0] == 2


def test_a_buffer_is_one_however_it_is_read():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x):
            self.count = self.count + x
            return self._buffers["count"] * 2

    module = Counting()
    compiled, x = explorer.compile(module), torch.ones(2)
    assert [compiled(x)[0].item(), compiled(x)[0].item(), module.count[0].item()] == [2, 4, 2]


@pytest.mark.parametrize("read", [torch._C._get_flash_sdp_enabled, torch._C._get_cublas_allow_tf32])
def test_a_setting_that_is_read_is_guarded(read):
    write = {"_get_flash_sdp_enabled": torch._C._set_sdp_use_flash}.get(read.__name__, torch._C._set_cublas_allow_tf32)
    compiled, before = explorer.compile(lambda x: x + 1 if read() else x + 2), read()
    x = torch.zeros(1)
    try:
        for value in (True, False, True):
            write(value)
            assert compiled(x).item() == (1 if value else 2)
    finally:
        write(before)


def test_hooks_of_saved_tensors_end_where_the_graph_raises():
    def f(x, i):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            return x[i] * x

    compiled = explorer.compile(f)
    compiled(torch.ones(1, 3), torch.tensor([0]))
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 1"):
        compiled(torch.ones(1, 3), torch.tensor([5]))
    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("inside", [False, True])
def test_nothing_is_recorded_in_inference_mode_whatever_the_grad_mode_is(mode, inside):
    def switched(x):
        torch.set_grad_enabled(True)
        return x * 2, x.view(-1), torch.zeros(3).add_(x.sum())

    def within(x):
        with torch.enable_grad():
            return x * 2, x[0], x.detach()

    for function in (switched, within):
        run = function if not inside else lambda x, f=function: mode()(f)(x)
        found = []
        for call in (run, explorer.compile(run)):
            x = torch.ones(2, 3, requires_grad=True)
            with contextlib.nullcontext() if inside else mode():
                made = call(x)
            torch.set_grad_enabled(True)
            found.append([(each.requires_grad, each.is_inference(), each.is_leaf) for each in made])
        assert found[0] == found[1]


def test_precision_set_in_the_old_way_and_in_the_new_one_which_torch_refuses_to_tell():
    def asks(x):
        y = x * 2
        try:
            told = torch._C._get_cublas_allow_tf32()
        except RuntimeError:
            told = "torch refuses"
        return y, told

    def plain(x):
        return x.sin() + 1

    def sets(x):
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        return x.cos()

    before = torch.get_float32_matmul_precision()
    bugs = TOTALS[CompilerBug.TOTAL]
    try:
        torch.set_float32_matmul_precision("high")
        for function in (sets, plain, asks):
            wanted, found = function(torch.ones(3)), explorer.compile(function)(torch.ones(3))
            assert str(wanted) == str(found)
    finally:
        torch.backends.cuda.matmul.fp32_precision = "none"
        torch.set_float32_matmul_precision(before)
    assert TOTALS[CompilerBug.TOTAL] == bugs
