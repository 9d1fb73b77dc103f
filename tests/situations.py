"""Situations that users of torch.compile ask about, each a small program, and what the record has to say of it."""

from __future__ import annotations

import contextlib
import copy
import enum
import io
import json
import logging
import random
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch._dynamo
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_reduce
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

import explorer
from explorer.show.record import Record
from stock_compiling import nothing_built

log = logging.getLogger("a third party")
X = torch.ones(4)


@dataclass(frozen=True)
class Situation:
    """`asks` is the question, `thread` where users asked it (an issue, of pytorch/pytorch where it is a number alone).
    `record` makes the record; `says` are sentences, or parts of them, that print(record) has, or the listing `listing`
    of it."""

    asks: str
    record: Callable[[], Record]
    says: tuple[str, ...]
    listing: str = ""
    thread: str = ""
    words_of_2_13: bool = False
    """What it says holds sentences that older releases of torch do not have."""

    def text(self, record: Record) -> str:
        return repr(getattr(record, self.listing)) if self.listing else repr(record)


SITUATIONS: dict[str, Situation] = {}


def situation(
    asks: str, *says: str, listing: str = "", thread: str = "", words_of_2_13: bool = False
) -> Callable[[Callable[[], Record]], Any]:
    def register(record: Callable[[], Record]) -> Callable[[], Record]:
        SITUATIONS[record.__name__] = Situation(asks, record, says, listing, thread, words_of_2_13)
        return record

    return register


def watched(fn: Callable[..., Any], *calls: tuple[Any, ...], **settings: Any) -> Record:
    """The record of these calls of the function, compiled by stock as far as Dynamo's graph."""
    return around(fn, *((contextlib.nullcontext(), args) for args in calls), **settings)


def around(fn: Callable[..., Any], *calls: tuple[Any, tuple[Any, ...]], **settings: Any) -> Record:
    """The same, each call inside a context."""
    torch._dynamo.reset()
    compiled = torch.compile(fn, **{"backend": "eager", **settings})
    with explorer.watch() as found:
        for context, args in calls:
            with contextlib.suppress(Exception), context:
                compiled(*args)
    assert found.record is not None
    return found.record


def served(fn: Callable[..., Any], *calls: tuple[Any, ...], **settings: Any) -> Record:
    """The record of these calls of the function, compiled by ours."""
    compiled = explorer.compile(fn, **{"backend": "aot_eager", **settings})
    with explorer.watch() as found:
        for args in calls:
            compiled(*args)
    return found.record


def explored(
    fn: Callable[..., Any], *args: Any, fixes: bool = False, grad: bool | None = None, **settings: Any
) -> Record:
    """The record of one call, without another backend as far as Dynamo's graph, with what comes of fixes."""
    stock = {"backend": "eager", **settings}
    return explorer.explore(fn, engine="stock", stock=stock, fixes=fixes, time=False, grad=grad)(*args)


def built(fn: Callable[..., Any], *args: Any) -> Record:
    """The record of stock's compile up to its generated code."""
    with nothing_built():
        return explorer.explore(fn, engine="stock", time=False)(*args)


def ours(fn: Callable[..., Any], *args: Any, **settings: Any) -> Record:
    return explorer.explore(fn, **{"time": False, **settings})(*args)


# ------------------------------------------------------------------------------------------------------ recompiles


class Counter:
    def __init__(self) -> None:
        self.steps = 0


@situation(
    "An attribute counts up: why does every step compile again?",
    "step: this guard caused 1 recompile",
    "counter.steps is 1, expected 0",
    "values: 0, 1",
    "to avoid this: if counter.steps is only used in arithmetic, pass a tensor",
    thread="128319",
)
def counting() -> Record:
    counter = Counter()

    def step(x: Tensor) -> Tensor:
        counter.steps += 1
        return x * counter.steps

    return watched(step, *[(X,)] * 4)


@situation(
    "The learning rate changes with a schedule: what fails?",
    "recompiled",
    "lr",
    "values: 0.1, 0.05, 0.025",
    thread="107076",
)
def learning_rate() -> Record:
    def update(p: Tensor, g: Tensor, lr: float) -> Tensor:
        return p - lr * g

    return watched(update, *((X, X, 0.1 / 2**n) for n in range(3)), dynamic=False)


@situation(
    "A list grows",
    "xs length is 2, expected 1",
    "the length of xs; values: 1, 2, 3",
    "to avoid this: use containers of the same length",
)
def list_grows() -> Record:
    return watched(lambda xs: sum(x * 2 for x in xs), *(([X] * n,) for n in (1, 2, 3)))


@situation("The keys of a dict change", "d length is 2, expected 1", "values: 'a', 'c'", "in the same order")
def dict_keys() -> Record:
    return watched(lambda d: sum(d.values()) * 2, ({"a": X},), ({"a": X, "b": X},), ({"c": X},))


RATE = 1.0


@situation("A global changes", "RATE is 2.0, expected 1.0")
def global_changes() -> Record:
    def scaled(x: Tensor) -> Tensor:
        return x * RATE

    torch._dynamo.reset()
    compiled = torch.compile(scaled, backend="eager")
    global RATE
    with explorer.watch() as found:
        for RATE in (1.0, 2.0):  # noqa: B007
            compiled(X)
    RATE = 1.0
    return found.record


@situation("A stride changes", "x.stride(0) is 1, expected 8", "x = x.contiguous()")
def stride_changes() -> Record:
    return watched(lambda x: x + 1, (torch.ones(4, 8),), (torch.ones(8, 4).t(),))


@situation("requires_grad changes", "x.requires_grad is True, expected False")
def grad_changes() -> Record:
    return watched(lambda x: x + 1, (X,), (torch.ones(4, requires_grad=True),))


@situation(
    "A size becomes 1, then 0: why two compiles more after it was dynamic?",
    "x.size(0) is 0, expected 1",
    "sizes 0 and 1 are always specialized",
    thread="141225",
)
def sizes_of_one() -> Record:
    return watched(lambda x: x + 1, *((torch.ones(n),) for n in (5, 6, 7, 1, 0)))


AS_IT_IS = contextlib.nullcontext()


@situation("Grad mode changes", "grad mode changed", "call always with or always without torch.no_grad()")
def mode_changes() -> Record:
    return around(lambda x: x + 1, (AS_IT_IS, (X,)), (torch.no_grad(), (X,)))


@situation("The limit of recompiles is reached", "recompile", "limit", thread="167504")
def limit_reached() -> Record:
    with torch._dynamo.config.patch(recompile_limit=3):
        return watched(lambda x, s: x if s == "a" else x + len(s), *((X, "s" * n) for n in range(6)))


@situation("An argument is an int, then a float, a bool, a tensor", "k is 2.0, expected 2")
def kinds_of_numbers() -> Record:
    return watched(lambda x, k: x * k, (X, 2), (X, 2.0), (X, True), (X, torch.tensor(2)))


@situation("train() and eval()", "training is False, expected True", "compiled once for True and once for False")
def training_changes() -> Record:
    torch._dynamo.reset()
    layer = nn.Dropout(0.5)
    compiled = torch.compile(layer, backend="eager")
    with explorer.watch() as found:
        compiled(X)
        layer.eval()
        compiled(X)
    return found.record


@situation(
    "A new object each call, whose identity is guarded",
    "f.__code__ is the same code",
    "to avoid this: pass the same object in every call",
    thread="107866",
)
def new_function_each_call() -> Record:
    return watched(lambda f, x: f(x), *((eval(f"lambda x: x + {n}"), X) for n in range(3)))


@situation("A module counts its calls", "self.i is 1, expected 0", "allow_unspec_int_on_nn_module", thread="128319")
def module_counter() -> Record:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.i = 0

        def forward(self, x: Tensor) -> Tensor:
            self.i += 1
            return x * self.i

    return watched(Counting(), *[(X,)] * 3)


@situation("A counter that the function closes over", "n is 1, expected 0", "pass a tensor (torch.tensor(n))")
def closure_counter() -> Record:
    n = 0

    def step(x: Tensor) -> Tensor:
        nonlocal n
        n += 1
        return x + n

    return watched(step, *[(X,)] * 3)


@situation("A string argument", "mode is 'cos', expected 'sin'", "pass few different values")
def string_argument() -> Record:
    return watched(lambda x, mode: x.sin() if mode == "sin" else x.cos(), (X, "sin"), (X, "cos"))


class Kind(enum.Enum):
    SIN = 1
    COS = 2


@situation("A member of an enumeration", "values: Kind.COS", "pass few different values")
def member_of_enumeration() -> Record:
    return watched(lambda x, kind: x.sin() if kind is Kind.SIN else x.cos(), (X, Kind.SIN), (X, Kind.COS))


@situation("An optional mask: None, then a tensor", "mask is <Tensor>, expected None", "pass None always or never")
def optional_mask() -> Record:
    return watched(lambda x, mask: x + 1 if mask is None else x * mask, (X, None), (X, X))


@situation("The first call uses no tensor operation: why is nothing compiled later?", "later calls run eagerly as well")
def skipped_for_good() -> Record:
    return watched(lambda x, mask: x if mask is None else x * mask, (X, None), (X, X))


@situation("p of a dropout follows a schedule", "fn.p is 0.2, expected 0.1")
def dropout_schedule() -> Record:
    layer = nn.Dropout(0.1)
    return around(layer, (AS_IT_IS, (X,)), (mock.patch.object(layer, "p", 0.2), (X,)))


@situation("A layer is frozen", "fn.weight.requires_grad is False, expected True")
def frozen_layer() -> Record:
    layer = nn.Linear(4, 4)
    frozen = mock.patch.object(layer, "weight", nn.Parameter(layer.weight.detach(), requires_grad=False))
    return around(layer, (AS_IT_IS, (X,)), (frozen, (X,)))


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@situation("The default dtype changes", "default dtype changed", "set the default dtype once")
def other_default_dtype() -> Record:
    return around(lambda x: x + torch.ones(4), (AS_IT_IS, (X,)), (default_dtype(torch.float64), (X,)))


@situation("A default device is set later", "the stack of torch function modes", "a default device")
def default_device_later() -> Record:
    return around(lambda x: x + torch.ones(4), (AS_IT_IS, (X,)), (torch.device("cpu"), (X,)))


@situation("Autocast around some calls", "autocast(cpu) enabled changed", "always outside torch.autocast")
def autocast_sometimes() -> Record:
    return around(lambda x: x @ x, (AS_IT_IS, (X,)), (torch.autocast("cpu"), (X,)))


@situation("A tensor made under inference_mode", "x.is_inference() is True, expected False", "clone()", thread="148983")
def inference_tensor() -> Record:
    with torch.inference_mode():
        made = torch.ones(4)
    return watched(lambda x: x + 1, (X,), (made,))


class Named(Tensor):
    """A tensor subclass that changes nothing."""


@situation("A tensor, then a subclass, then a parameter", "x is of type situations.Named, expected torch.Tensor",
           "pass the same type in every call")  # fmt: skip
def subclasses() -> Record:
    return watched(lambda x: x + 1, (X,), (X.as_subclass(Named),), (nn.Parameter(X),))


@situation("A list, then a tuple", "xs type is tuple, expected list", "pass the same type in every call")
def list_then_tuple() -> Record:
    return watched(lambda xs: sum(xs) + 1, ([X],), ((X,),))


@situation("The order of a dict's keys", "key 0 of d is 'b', expected 'a'", "in the same order")
def order_of_keys() -> Record:
    return watched(lambda d: torch.stack(list(d.values())), ({"a": X, "b": X},), ({"b": X, "a": X},))


@dataclass
class Options:
    scale: float
    n: int


@situation("A field of a dataclass", "c.scale is 2.0, expected 1.0", "c.n is 3, expected 2")
def field_of_dataclass() -> Record:
    return watched(lambda x, c: x * c.scale + c.n, *((X, Options(*each)) for each in ((1.0, 2), (2.0, 2), (2.0, 3))))


@situation("A dtype argument", "d is torch.float16, expected torch.float64")
def dtype_argument() -> Record:
    return watched(lambda x, d: x.to(d), (X, torch.float64), (X, torch.float16))


@situation("A key-value cache grows", "self.k.size(0) is 3, expected 2", "mark_dynamic(self.k, 0)", thread="105279")
def growing_cache() -> Record:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.k = torch.zeros(2, 4)

        def forward(self, x: Tensor) -> Tensor:
            self.k = torch.cat([self.k, x])
            return self.k.sum(0)

    return watched(Cached(), *[(torch.ones(1, 4),)] * 4)


@situation("A log that grows in compiled code", "LOGGED length is", "use containers of the same length")
def growing_log() -> Record:
    LOGGED.clear()
    return watched(lambda x: (LOGGED.append(x.shape[0]), x + 1)[1], *[(X,)] * 3)


LOGGED: list[int] = []


@situation("A random number of Python or NumPy, or an item, is guarded after the break",
           "the value is made where the graph breaks")  # fmt: skip
def number_after_break() -> Record:
    return watched(lambda x: x * random.random(), *[(X,)] * 2)


@situation("A hook that is added after the first call: is it noticed?", "self[0]._forward_hooks is not empty")
def hook_later() -> Record:
    model = nn.Sequential(nn.Linear(4, 4))
    compiled = explorer.compile(model, backend="aot_eager")
    with explorer.watch() as found:
        compiled(X)
        model[0].register_forward_hook(lambda module, args, out: out * 2)
        compiled(X)
    return found.record


@situation("model.generate(), or another method than forward: is it compiled?", "compiles forward", thread="141616")
def other_method() -> Record:
    class Encoder(nn.Linear):
        def encode(self, x: Tensor) -> Tensor:
            return self(x).relu()

    compiled = torch.compile(Encoder(4, 4), backend="eager")
    with explorer.watch() as found:
        compiled.encode(X)
    return found.record


@situation("Our own compile: what changed in torch's state?", "grad mode is off, expected on")
def own_state() -> Record:
    compiled = explorer.compile(lambda x: x + 1, backend="aot_eager")
    with explorer.watch() as found:
        compiled(X)
        with torch.no_grad():
            compiled(X)
    return found.record


@situation("Our own compile: other keys", "d keys are ('b',), expected ('a',)", "in the same order")
def own_keys() -> Record:
    return served(lambda d: sum(d.values()) * 2, ({"a": X},), ({"b": X},))


@situation("Our own compile: True, then False", "flag is False, expected True", "compiled once for True")
def own_flag() -> Record:
    return served(lambda x, flag: x + 1 if flag else x - 1, (X, True), (X, False))


# ------------------------------------------------------------------------------------------------------ graph breaks


@situation("torch.save in forward", "call torch.serialization.save() before or after the compiled", listing="breaks")
def saved_inside() -> Record:
    def saving(x: Tensor) -> Tensor:
        y = x.sin()
        torch.save(y, io.BytesIO())
        return y * 2

    return watched(saving, (X,))


@situation("An exception is raised while Dynamo traces", "object of type 'str' has no len()", "catch the exception",
           listing="breaks", words_of_2_13=True)  # fmt: skip
def raised_while_traced() -> Record:
    return watched(lambda x: x * len(f"{x.sum()}"), (X,))


@situation("An LSTM runs eagerly", "does not support RNN, GRU, or LSTM", "allow_rnn", listing="breaks", thread="167275")
def recurrent() -> Record:
    return watched(nn.LSTM(4, 4), (torch.ones(3, 1, 4),))


@situation("A sparse tensor", "Attempted to wrap sparse Tensor", listing="breaks")
def sparse_argument() -> Record:
    return watched(lambda a, x: torch.sparse.mm(a, x) + 1, (torch.eye(4).to_sparse(), torch.ones(4, 2)))


@situation("torch.equal in a condition", "Operator `aten.equal.default` has a non-Tensor output", listing="breaks")
def equal_inside() -> Record:
    return watched(lambda x, y: x if torch.equal(x, y) else x + y, (X, X.clone()))


@situation("torch.manual_seed inside", "call torch.random.manual_seed() before or after", listing="breaks")
def seeded_inside() -> Record:
    def seeded(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return x + torch.rand(4)

    with torch.random.fork_rng():
        return watched(seeded, (X,))


@situation("A schedule wraps optimizer.step: what breaks?", "Adam.step() before or after", listing="breaks")
def scheduled_optimizer() -> Record:
    weight = nn.Parameter(torch.ones(4))
    weight.grad = torch.ones(4)
    optimizer = torch.optim.Adam([weight])
    torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    return watched(lambda: optimizer.step(), ())


@situation(
    "An error in the program, our own compile", "'[3]' is invalid for input of size 4", "raises this", listing="breaks"
)
def own_error() -> Record:
    compiled = explorer.compile(lambda x: x.view(3) + 1, backend="aot_eager")
    with contextlib.suppress(RuntimeError), explorer.watch() as found:
        compiled(X)
    return found.record


@situation("A sparse tensor, our own compile", "a is torch.sparse_coo", "to_dense()", listing="breaks")
def own_sparse() -> Record:
    return served(lambda a, x: torch.sparse.mm(a, x) + 1, (torch.eye(4).to_sparse(), torch.ones(4, 2)))


@situation("A module logs", "ignore_logging_functions", "it helps", "logging.Logger", listing="breaks")
def logging_inside() -> Record:
    def noted(x: Tensor) -> Tensor:
        y = x + 1
        log.warning("shape %s", y.shape)
        return y * 2

    return explored(noted, X, fixes=True)


@situation("A print under try", "print", "runs eagerly")
def print_in_try() -> Record:
    def tried(x: Tensor) -> Tensor:
        try:
            y = x + 1
            print(end="")
        except ValueError:
            y = x
        return y * 2

    return explored(tried, X)


@situation(
    "A branch on a tensor",
    "torch.where",
    "it helps",
    "also on an input that takes the other side",
    listing="breaks",
)
def branch() -> Record:
    return explored(branching, X, fixes=True)


def branching(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x.sin()
    return x.cos()


@situation("A number is taken out of a tensor", "capture_scalar_outputs", "it helps", listing="breaks")
def item() -> Record:
    return explored(lambda x: x * x.sum().item(), X, fixes=True)


@situation(
    "The same, and a branch on the number follows: does the setting help?",
    "it does not help: the graph breaks at",
    listing="breaks",
    thread="145970",
)
def item_then_branch() -> Record:
    return explored(sized, X, torch.tensor(3.0), fixes=True)


def sized(x: Tensor, n: Tensor) -> Tensor:
    k = n.item()
    if k > 2:
        return x + 1
    return x[:2] * k


@situation(
    "A break in a loop: where does it come from, and what helps?",
    "builtin operator `print`",
    "This leads to: graph break in loop",
    "Known to help: move the body of the loop",
    listing="breaks",
    thread="112824",
)
def break_in_loop() -> Record:
    def looping(x: Tensor) -> Tensor:
        for turn in range(2):
            x = x + turn
            print(end="")
        return x

    return explored(looping, X)


@situation(
    "NumPy, and a copy.deepcopy",
    "call NumPy before the compiled function",
    "copy tensors with clone()",
    listing="breaks",
)
def numpy_and_copies() -> Record:
    def mixed(x: Tensor) -> Tensor:
        y = x * 2
        order = np.random.default_rng(0)
        y = y + len(str(type(order)))
        return y + copy.deepcopy(y)

    return explored(mixed, X)


@situation("A hook that takes a number", "Tensor.item", listing="breaks")
def hook_with_item() -> Record:
    layer = nn.Linear(4, 4)
    layer.register_forward_hook(lambda module, args, out: out * out.sum().item())
    return explored(layer, X)


@situation("warnings.warn: what can I do?", "warn before or after the compiled", listing="breaks")
def warned() -> Record:
    def warning(x: Tensor) -> Tensor:
        y = x + 1
        warnings.warn("hello", stacklevel=1)
        return y * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return explored(warning, X)


@situation("time.time() twice, for an interval", "read the clock before and after the compiled", listing="breaks")
def clocks() -> Record:
    def timed(x: Tensor) -> tuple[Tensor, float]:
        begun = time.time()
        y = x + 1
        return y, time.time() - begun

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return explored(timed, X)


@situation("json.dumps", "before or after its call", listing="breaks", words_of_2_13=True)
def dumped() -> Record:
    def dumping(x: Tensor) -> Tensor:
        y = x + 1
        return y * len(json.dumps({"a": 1}))

    return explored(dumping, X)


@situation("nonzero, a boolean mask", "capture_dynamic_output_shape_ops", "it helps", listing="breaks")
def masked() -> Record:
    return explored(lambda x: x[x > 0] * 2, X, fixes=True)


WEIGHT = torch.ones(4, requires_grad=True)


@situation("backward() inside", "trace_autograd_ops", "it helps", listing="breaks")
def backward_inside() -> Record:
    def step(x: Tensor) -> Tensor:
        (WEIGHT * x).sum().backward()
        return x * 2

    return explored(step, X, fixes=True)


@situation("fullgraph=True fails: where?", "the program gets this error", "print(end=")
def fullgraph() -> Record:
    def printing(x: Tensor) -> Tensor:
        print(end="")
        return x + 1

    return explored(printing, X, fullgraph=True)


@torch.library.custom_op("situations::doubled", mutates_args=())
def doubled(x: Tensor) -> Tensor:
    return x * 2


@situation("A custom operator without a fake implementation", "register_fake", "situations::doubled")
def no_fake() -> Record:
    return explored(lambda x: doubled(x) + 1, X)


@situation(
    "A shape error in the program",
    "the program gets this error",
    "a and b must have same reduction dim",
    "from user code",
)
def shape_error() -> Record:
    return watched(lambda a, b: a @ b + 1, (torch.ones(2, 3), torch.ones(2, 3)))


@situation("mark_dynamic is violated", "mark", "the program gets this error")
def mark_violated() -> Record:
    def fixed(x: Tensor) -> Tensor:
        return x + 1 if x.shape[0] == 8 else x

    marked = torch.ones(8)
    torch._dynamo.mark_dynamic(marked, 0)
    return watched(fixed, (marked,))


@situation(
    "A guard on a data-dependent size",
    "Could not guard on data-dependent expression",
    "the program gets this error",
    thread="127830",
)
def unbacked_guard() -> Record:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        return watched(lambda x: x + 1 if x.nonzero().shape[0] * 2 > 5 else x, (X,), fullgraph=True)


@situation("nonzero, captured: are all stages there?", "capture", listing="stages")
def nonzero_captured() -> Record:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        return explored(lambda x: x.nonzero() + 1, X)


@situation("dynamic=True, and a test fixes what a size may be", "x.size(0) % 2 equals 0", listing="guards")
def dynamic_and_test() -> Record:
    return explored(lambda x: x + 1 if x.shape[0] % 2 == 0 else x, torch.ones(8), dynamic=True)


@situation("autograd.Function, torch.cond, checkpoint: do they break?", "0 breaks")
def higher_order() -> Record:
    def conditional(x: Tensor) -> Tensor:
        y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return checkpoint(torch.sigmoid, y, use_reentrant=False)

    return explored(conditional, X)


@situation(
    "A compiled optimizer breaks in torch's own code", "No change is needed: the line is in torch", listing="breaks"
)
def compiled_optimizer() -> Record:
    WEIGHT.grad = torch.ones(4)
    optimizer = torch.optim.SGD([WEIGHT], lr=0.0)
    return explored(lambda: optimizer.step())


# ------------------------------------------------------------------------------------------- results, time, memory

MODEL = nn.Linear(8, 8)


@situation(
    "Are the gradients of a model that the function closes over those of eager?",
    "largest error",
    " tensors",
    thread="182012",
)
def closed_over() -> Record:
    return ours(lambda x: F.gelu(MODEL(x)), torch.randn(4, 8))


@situation("A sum of about 0: is that a difference?", "against eager", "over 2 tensors")
def cancelling() -> Record:
    return ours(lambda x: (x - x.mean()).sum(), torch.randn(4096))


@situation("bfloat16: how far is eager itself off?", "against a float64 run", ", eager ", thread="168126")
def half_precision() -> Record:
    return ours(lambda x: torch.relu(x @ x.t()).sum(-1), torch.randn(64, 64).bfloat16())


@situation("Random numbers: why do results differ?", "other random numbers than eager")
def random_numbers() -> Record:
    return built(lambda x: F.dropout(x, 0.5), torch.ones(64))


@situation("Is it faster than eager, and how sure is that?", "eager (", "to")
def faster() -> Record:
    return ours(lambda x: torch.sin(x) * torch.cos(x) + x, torch.randn(1024, 1024), time=True)


@situation("Why is a matrix product not fused?", "a library call runs as it is", listing="schedule")
def product_apart() -> Record:
    return built(lambda x: torch.relu(x @ x) + 1, torch.randn(16, 16))


@situation("Why are two independent loops not fused?", "they share no data", listing="schedule")
def two_sizes() -> Record:
    return built(lambda x, y: (x.exp().sum(), y.sin()), torch.randn(8), torch.randn(9))


@situation("How much memory does a whole step take, compared with eager?", "peak memory", thread="122512")
def whole_step() -> Record:
    return ours(MODEL, torch.randn(64, 8), time=True)


@situation("How much arithmetic is in a product, and at what rate does it run?", "FLOP/s", listing="schedule")
def arithmetic() -> Record:
    return ours(lambda x: torch.relu(x @ x), torch.randn(256, 256), time=True)


@situation("What do the guards cost each call?", "guards", "checked in", "us", thread="185886")
def guard_cost() -> Record:
    return explored(nn.Sequential(*(nn.Linear(8, 8) for _ in range(8))), torch.randn(2, 8))


@situation("Which guards are the program's, and which torch's own?", "on the program's values")
def whose_guards() -> Record:
    return explored(MODEL, torch.randn(2, 8))


@situation(
    "What is compiled again for other sizes, and what did automatic dynamic shapes make of them?",
    "x.size(0) is 6, expected 5",
    "mark_dynamic(x, 0), or compile with dynamic=True",
    thread="105279",
)
def automatic_dynamic() -> Record:
    return watched(lambda x: x * 2, (torch.ones(5, 3),), (torch.ones(6, 3),), (torch.ones(7, 3),))


@situation(
    "Does a view of one tensor passed twice compile again?", "x and y are the same object", "pass the same tensor twice"
)
def aliased() -> Record:
    return watched(lambda x, y: x + y, (X, X), (X, torch.zeros(4)))


@situation("The dtype changes under autocast", "x.dtype is bfloat16, expected float32")
def dtype_changes() -> Record:
    return watched(lambda x: x + 1, (X,), (X.bfloat16(),))


@situation("What ran outside of graphs, and why?", "at a graph break", "Data-dependent branching", listing="eager")
def outside() -> Record:
    return watched(branching, (X,))


@situation("Which function costs the compile time?", "compiling", "in compiled graphs", thread="111441")
def costs() -> Record:
    return watched(MODEL, (torch.randn(2, 8),))


@situation("How many breaks are there, and where?", "graph break", "break at", "Data-dependent branching")
def where_it_breaks() -> Record:
    return explored(branching, X)


@situation("A size in a Python list: tolist()", "tolist", listing="breaks")
def to_list() -> Record:
    return explored(lambda x: x * x.tolist()[0], X)


@situation(
    "A break under a context manager",
    "This leads to: Graph break under GenericContextWrappingVariable",
    "Known to help: move the body of the with statement",
    listing="breaks",
)
def under_context() -> Record:
    def suppressing(x: Tensor) -> Tensor:
        with contextlib.suppress(ValueError):
            x = x + 1
            print(end="")
        return x

    return explored(suppressing, X)


@situation("torch._dynamo.graph_break() of one's own", "Call to `torch._dynamo.graph_break()`", listing="breaks")
def own_break() -> Record:
    def broken(x: Tensor) -> Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    return explored(broken, X)


@situation("A function under torch.compiler.disable is called", "disable", listing="breaks")
def disabled() -> Record:
    @torch.compiler.disable
    def left_alone(x: Tensor) -> Tensor:
        return x.sin()

    return explored(lambda x: left_alone(x + 1) * 2, X)


@situation("A branch on a data-dependent size", "torch._check", listing="breaks")
def size_branch() -> Record:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        return explored(lambda x: x + 1 if x.nonzero().shape[0] > 2 else x, X)


@situation(
    "Is a padded or sliced read of one tensor one kernel?",
    "they read different elements of the same tensor",
    listing="schedule",
)
def other_elements() -> Record:
    return built(lambda x: (x[:8].exp(), x[8:].t().contiguous() + 1), torch.randn(16, 16))


@situation(
    "An operator with several outputs: why is one not fused?", "one of the two has no kernel", listing="schedule"
)
def parts_of_results() -> Record:
    return built(lambda x: [each + 1 for each in torch.linalg.qr(x)], torch.randn(4, 4))


@situation(
    "Our own compile: which guards are there, and why?",
    "the graph is compiled for this dtype, shape, strides and device",
    listing="guards",
)
def own_guards() -> Record:
    return ours(lambda x: x + 1, X)


@situation("Our own compile: where does the graph break, and what to do?", "hint", listing="breaks")
def own_breaks() -> Record:
    return ours(branching, X)


@situation(
    "Our own fusion: why are two operations apart?",
    "the second reads a different element than the first has just written",
    listing="schedule",
)
def own_fusion() -> Record:
    return ours(lambda x: (y := x.exp(), y.flip(0) + 1), torch.randn(8, 16))


@situation("Which stage of a compile takes the time?", "capture", "build", listing="stages", thread="130119")
def stages_and_time() -> Record:
    return ours(lambda x: torch.relu(x) + 1, torch.randn(64))


@situation("A float argument: is each value a compile?", "f is 0.25, expected 0.5")
def float_argument() -> Record:
    return watched(lambda x, f: x * f, (X, 0.5), (X, 0.25), dynamic=False)


@situation("A module's attribute that is a number", "self.k equals 2", listing="guards")
def module_number() -> Record:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.k = 2

        def forward(self, x: Tensor) -> Tensor:
            return x * self.k

    return explored(Scaled(), X)


@situation("Is the default device guarded?", "no default device is set", listing="guards")
def default_device() -> Record:
    return explored(lambda x: x + 1, X)


@situation("Code for a GPU that is not present: is its speed claimed?", "cuda:sm_90")
def absent_card() -> Record:
    return ours(lambda x: torch.relu(x) + 1, torch.randn(64), target="cuda:sm_90")


# ------------------------------------------------------------------------------------------- training and several cards


@situation(
    'mode="reduce-overhead": why are CUDA graphs skipped?',
    "runs without CUDA graphs",
    "not on a GPU",
    thread="117281",
)
def cuda_graphs_skipped() -> Record:
    with nothing_built(), explorer.watch() as found:
        torch._dynamo.reset()
        torch.compile(lambda x: torch.relu(x) + 1, mode="reduce-overhead")(X)
    return found.record


@situation(
    "backward(retain_graph=True) fails: what are donated buffers?",
    "The program ended with RuntimeError",
    "donated_buffer=False",
)
def donated_buffers() -> Record:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x.sin() * x.cos()).exp().sum(), backend="aot_eager")
    x = torch.ones(8, requires_grad=True)
    with contextlib.suppress(RuntimeError), explorer.watch() as found:
        compiled(x).backward()
        compiled(x).backward(retain_graph=True)
    return found.record


@situation("DDP: is the model compiled?", "no compiled graph ran", "torch/nn/parallel/distributed.py", thread="108966")
def data_parallel() -> Record:
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        return watched(DistributedDataParallel(nn.Sequential(nn.Linear(4, 4))), (torch.ones(2, 4),))
    finally:
        torch.distributed.destroy_process_group()


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 520), nn.Linear(520, 520)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        return self.second(x)


@situation(
    "DDP: where does DDPOptimizer split the graph, with which parameters?",
    "DDPOptimizer split the graph into 2 parts",
    "of gradients, of 2 parameters: first.bias 2.08 kB, first.weight 8.32 kB",
    "of gradients, of 2 parameters, over the limit of 1.05 MB: second.bias 2.08 kB, second.weight 1.08 MB",
    listing="collectives",
    thread="108966",
)
def ddp_split() -> Record:
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        return watched(DistributedDataParallel(TwoLayers(), bucket_cap_mb=1), (torch.ones(2, 4),))
    finally:
        torch.distributed.destroy_process_group()


@situation(
    "Which collectives does my graph call, and what runs before the program waits for each?",
    "all_reduce(sum, group 0) gives f32[4] (16 B), among 2 processes, backend fake",
    "nothing overlaps with it",
    listing="collectives",
    thread="169461",
)
def collectives() -> Record:
    def f(x: Tensor) -> Tensor:
        reduced = all_reduce(x * 2, "sum", torch.distributed.group.WORLD)
        return torch.sin(x).sum() + reduced

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        return built(f, X)
    finally:
        torch.distributed.destroy_process_group()


@situation(
    "Where does the time of one call go: in which kernels, and where is nothing run?",
    "explorer: one call took",
    "before the first, f0 call0",
    "between f0 k0 and f0 call1",
    listing="launches",
    thread="186230",
)
def gaps() -> Record:
    return ours(lambda x: (x @ x).softmax(-1) @ x, torch.randn(64, 64), time=0.05)


@situation(
    "What is kept for the backward, compiled and in eager?",
    "saved for the backward, without inputs and parameters: eager 2.05 kB, explorer 0 B",
    "measured peak memory of a call, without inputs, backward included: eager",
    listing="memory",
    thread="167199",
)
def kept() -> Record:
    def f(x: Tensor) -> Tensor:
        return (x.sin().exp() * 2).sum()

    return ours(f, torch.randn(16, 32, requires_grad=True), time=0.05)


# ----------------------------------------------------------------------------------------- more from users' threads


@situation(
    "A loop from start to end, which count: why is each call compiled?",
    "accumulate: this guard caused 3 recompiles: the value of start; values: 0, 1, 2, 3",
    "if start is only used in arithmetic, pass a tensor",
    thread="114293",
)
def loop_bounds() -> Record:
    def accumulate(x: Tensor, start: int, end: int) -> Tensor:
        for number in range(start, end):
            x = x + number
        return x

    return watched(accumulate, *((X, start, 9) for start in range(4)))


@situation(
    "Two floats are multiplied before the tensor: is each value a compile?",
    "a is 0.2, expected 0.1",
    "calls 3 to 4   s0.1       reused",
    thread="171320",
)
def product_of_floats() -> Record:
    return watched(lambda x, a, b: x * (a * b), *((X, number / 10, 1.5) for number in range(1, 5)))


def stepping(optimizer: torch.optim.Optimizer, schedule: Callable[[], Any]) -> Record:
    torch._dynamo.reset()
    step = torch.compile(optimizer.step, backend="eager")
    with explorer.watch() as found:
        for _ in range(3):
            step()
            schedule()
    return found.record


def weight_with_grad() -> nn.Parameter:
    weight = nn.Parameter(torch.ones(4))
    weight.grad = torch.ones(4)
    return weight


@situation(
    "OneCycleLR with the learning rate in a tensor: what else is guarded?",
    "self.param_groups[0]['betas'][0] is 0.89",
    "if self.param_groups[0]['betas'][0] is only used in arithmetic, pass a tensor",
    thread="133898",
)
def momentum_schedule() -> Record:
    optimizer = torch.optim.AdamW([weight_with_grad()], lr=torch.tensor(0.1))  # type: ignore[arg-type]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    return stepping(optimizer, schedule.step)


@situation(
    "ReduceLROnPlateau with the learning rate in a tensor: is the step compiled again?",
    "no recompiles",
    "its graph ran 3 times",
    thread="163093",
)
def rate_on_plateau() -> Record:
    optimizer = torch.optim.SGD([weight_with_grad()], lr=torch.tensor(0.1))  # type: ignore[arg-type]
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    return stepping(optimizer, lambda: schedule.step(1.0))


@situation(
    "A class is defined in the function", "Invalid call to __build_class__", "Cannot trace class definition",
    listing="breaks", thread="128942", words_of_2_13=True,
)  # fmt: skip
def class_inside() -> Record:
    def defining(x: Tensor) -> Tensor:
        class Local:
            pass

        return x + 2

    return explored(defining, X)


@situation(
    "A context manager made of a generator: where in it does Dynamo stop?",
    "the frame runs eagerly instead",
    "with counted():",
    "in counted",
    thread="133483",
)
def generator_manager() -> Record:
    @contextlib.contextmanager
    def counted() -> Iterator[None]:
        print(end="")
        yield

    def managed(x: Tensor) -> Tensor:
        with counted():
            return x + 1

    return explored(managed, X)


@situation(
    "mark_dynamic on a size that a product fixes: which one, and what instead?",
    "the program gets this error",
    "You marked L['b'].size()[0] as dynamic but your code specialized it to be a constant (10)",
    "maybe_mark_dynamic",
    thread="148040",
)
def fixed_by_product() -> Record:
    marked = torch.ones(10, 10)
    torch._dynamo.mark_dynamic(marked, 0)
    return watched(lambda a, b: a @ b, (torch.ones(10, 10), marked))


@situation(
    "A break inside of a checkpointed function: is anything compiled?",
    "no compiled graph ran",
    "break at",
    "Failed to trace builtin operator",
    thread="135816",
)
def checkpointed_break() -> Record:
    def inner(x: Tensor) -> Tensor:
        print(end="")
        return x.sin()

    def outer(x: Tensor) -> Any:
        return checkpoint(inner, x, use_reentrant=False)

    return watched(outer, *[(torch.ones(4, requires_grad=True),)] * 2)


@situation(
    "torch.full of a dynamic size: is each size compiled?", "no recompiles", "its graph ran 3 times", thread="123810"
)
def full_of_a_size() -> Record:
    def square(x: Tensor) -> Tensor:
        return torch.full((x.shape[1], x.shape[1]), 1.0)

    return watched(square, *((torch.ones(2, size),) for size in (3, 4, 5)), dynamic=True)


class Keyed(nn.Module):
    def __init__(self, key: int) -> None:
        super().__init__()
        self.key = key

    def forward(self, x: Tensor) -> Tensor:
        return x + self.key


@situation(
    "Many modules of one class, each compiled: why is the limit reached?",
    "Dynamo recompile limit exceeded",
    "Keyed.forward: this guard caused 3 recompiles",
    "nothing compiled: its code is older than the watch, or runs eagerly",
    thread="171593",
)
def modules_of_one_class() -> Record:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=3), explorer.watch() as found:
        for key in range(5):
            torch.compile(Keyed(key * 2), backend="eager")(X)
    return found.record


@situation("A new module in each call: is each compiled?", "no recompiles", "its graph ran 3 times", thread="130776")
def module_each_call() -> Record:
    return watched(lambda x, module: module(x), *((torch.ones(2, 5), nn.Linear(5, 5)) for _ in range(3)))


@situation(
    "float16 results differ from eager: which of the two is nearer to float64?",
    "largest error of output[1] against a float64 run: stock 5.51e-07, eager 0.00412",
    thread="183761",
)
def casts_to_half() -> Record:
    def cast(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        filled = torch.where(mask, torch.full_like(x, 0.75), torch.full_like(x, -0.25))
        y = filled.half() + x.half()
        return y, y.float().sum()

    x = torch.arange(30.0).reshape(2, 3, 5) / 7
    mask = (torch.arange(30) % 4 == 0).reshape(2, 3, 5)
    return explored(cast, x, mask, backend="inductor")


@torch.library.custom_op("situations::reverse_into", mutates_args=("to",))
def reverse_into(given: Tensor, to: Tensor) -> None:
    for place in range(len(given)):
        to[len(given) - 1 - place] = given[place]


@situation(
    "A custom operator that writes into what a clone was made of: which pass makes the result wrong?",
    "differs from eager by up to 14 in output",
    "after post-grad: decompose_auto_functionalized",
    thread="198031",
)
def clone_left_out() -> Record:
    def reversing(x: Tensor) -> Tensor:
        before = x.clone()
        reverse_into(before, x)
        return x * 2.0

    return explored(reversing, torch.arange(8.0), backend="inductor")


@situation(
    "A small function is slower than eager: where does a call's time go?",
    "a call is outside kernels and library calls (guards, Python, allocation)",
    thread="161783",
)
def small_function() -> Record:
    return ours(lambda x: x + 1, torch.ones(1), time=0.05)


@situation(
    "int() of a box's elements: does each value compile again, and what runs outside?",
    "no recompiles",
    "at a graph break",
    "1 ATen call in call 2",
    thread="93457",
)
def box() -> Record:
    return watched(lambda box: int(box[2] + box[0]), *((torch.arange(4) * number,) for number in range(1, 4)))


@situation(
    "A forward hook that keeps activations, under torch.compiler.disable", "Skip calling function", "hook",
    "Remove the `torch.compiler.disable` call", listing="breaks", thread="173452",
)  # fmt: skip
def hook_that_keeps() -> Record:
    kept: dict[str, Tensor] = {}
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    @torch.compiler.disable
    def hook(module: nn.Module, given: Any, out: Tensor) -> None:
        kept["out"] = out

    model[0].register_forward_hook(hook)
    return explored(model, X)


class Mode(torch.overrides.TorchFunctionMode):
    @torch.compiler.disable
    def __init__(self) -> None:
        super().__init__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@situation(
    "A TorchFunctionMode whose constructor is under torch.compiler.disable", "Skip inlining function",
    "Mode.__init__", listing="breaks", thread="146797",
)  # fmt: skip
def function_mode() -> Record:
    def moded(x: Tensor) -> Tensor:
        with Mode():
            return x.sin()

    return explored(moded, X)


@situation(
    "out= of another size: why a recompile, and why is there no graph?",
    "call 2         s0.1       compiled again: out.size(0) is 0, expected 4",
    "break at",
    "Shape mismatch with out= tensor variant",
    thread="135859",
)
def out_of_another_size() -> Record:
    return watched(lambda a, out: torch.add(a, 1, out=out), (X, torch.empty(4)), (X, torch.empty(0)))


@situation(
    "An assertion on a tensor with a text made of it",
    "Data-dependent branching",
    "Known to help: give the assertion a text that is a constant, or none",
    listing="breaks",
    thread="96529",
)
def asserting() -> Record:
    def checked(x: Tensor) -> Tensor:
        assert x.sum() > 0, f"the sum is {x.sum()}"
        return x + 1

    return explored(checked, X)


@situation(
    "An array of NumPy, and a print after the first operation: how many graphs?",
    "captured 2 operations in 2 graphs",
    "Failed to trace builtin operator",
    thread="109604",
)
def array_and_print() -> Record:
    def squared(x: Any) -> Any:
        x = x**2
        print(end="")
        return 2 * x

    return watched(squared, (np.arange(8),))


@situation("torch.rand with a generator", "Failed to convert args/kwargs to proxy", listing="breaks", thread="92633")
def with_generator() -> Record:
    generator = torch.Generator().manual_seed(0)
    return explored(lambda x: x + torch.rand(4, generator=generator), X)


@situation(
    "A full backward hook of a submodule: does the graph break?",
    "Module-level backwards hooks require compiled autograd",
    listing="breaks",
    thread="133303",
)
def backward_hook() -> Record:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].register_full_backward_hook(lambda module, given, out: None)
    return explored(model, torch.ones(1, 2))


@situation(
    "F.dropout outside of training gives its input itself: does the program's input change as in eager?",
    "equal to eager",
    thread="195422",
)
def alias_of_dropout() -> Record:
    def doubled(x: Tensor) -> Tensor:
        y = F.dropout(x, 0.5, training=False)
        y += y
        return y

    return explored(doubled, torch.ones(2, 2), backend="aot_eager")


@situation("The input is overwritten after it was read: is the first result right?", "equal to eager", thread="94777")
def overwritten_afterwards() -> Record:
    def logarithms(x: Tensor) -> Tensor:
        y = torch.log(x)
        x.log_()
        return y

    return explored(logarithms, torch.tensor([3.0]), backend="aot_eager")


@situation(
    "An element is written between a view and a branch on it: is the view right?",
    "equal to eager",
    "Data-dependent branching",
    thread="97083",
)
def view_over_a_break() -> Record:
    def viewed() -> Tensor:
        a = torch.tensor([1])[0:1]
        b = a.squeeze()
        a[0] = 0
        if a[0] < 1e5:
            a[0] = 2
        return b

    return explored(viewed)


class Adding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, counter: Tensor) -> Tensor:
        ctx.counter = counter.add_(1)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        ctx.counter.add_(1)
        return grad, None


@situation(
    "An autograd.Function counts in a tensor, forward and backward: in the order of eager?",
    "equal to eager",
    thread="154820",
)
def counted_in_a_function() -> Record:
    counter = torch.zeros(2)
    return explored(lambda x: Adding.apply(x, counter), torch.ones(2, requires_grad=True), backend="aot_eager")


@situation(
    "The gradient of a gradient, of compiled code: which line fails?",
    "the program raises RuntimeError at",
    "does not currently support double backward",
    thread="183603",
)
def twice_backward() -> Record:
    torch._dynamo.reset()
    squares, x = torch.compile(lambda x: (x * x).sum(), backend="aot_eager"), torch.ones(4, requires_grad=True)
    with contextlib.suppress(RuntimeError), explorer.watch() as found:
        (first,) = torch.autograd.grad(squares(x), x, create_graph=True)
        torch.autograd.grad(first.sum(), x)
    return found.record


@situation(
    "The gradient for a value that a compiled model returns beside its result: why is it not used in the graph?",
    "the program raises RuntimeError at",
    "appears to not have been used in the graph",
    thread="132929",
)
def gradient_of_an_output() -> Record:
    torch._dynamo.reset()
    model = nn.Linear(2, 2)

    def decoded(x: Tensor) -> tuple[Tensor, Tensor]:
        latent = model(x)
        return latent * 2, latent

    compiled = torch.compile(decoded, backend="aot_eager")
    with contextlib.suppress(RuntimeError), explorer.watch() as found:
        out, latent = compiled(torch.ones(1, 2))
        torch.autograd.grad(out.sum(), [latent], create_graph=True)
    return found.record


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache = torch.tensor([0, 0])

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.cache[at] = x
        return self.cache


@situation(
    "A tensor that a module holds is replaced between calls: is the new one used, and is there a recompile?",
    "no recompiles",
    "its graph ran 2 times",
    thread="115774",
)
def cache_replaced() -> Record:
    torch._dynamo.reset()
    model = Stateful()
    compiled = torch.compile(model, backend="eager")
    with explorer.watch() as found:
        compiled(torch.tensor([2]), torch.tensor([0]))
        model.cache = torch.tensor([0, 0])
        assert compiled(torch.tensor([1]), torch.tensor([1])).tolist() == [0, 1]
    return found.record


@situation(
    "The limit of recompiles under fullgraph=True: what does the program get?",
    "the program raises FailOnRecompileLimitHit: Hard failure due to fullgraph=True, caused by Unsupported: "
    "Dynamo recompile limit exceeded",
    "not compiled again: s is 'ss', expected 's'",
    thread="pytorch/torchtitan#3898",
)
def limit_under_fullgraph() -> Record:
    with mock.patch.object(torch._dynamo.config, "recompile_limit", 2):
        return watched(lambda x, s: x + len(s), *((X, "s" * n) for n in range(3)), fullgraph=True)


def adding(number: int) -> Callable[[Tensor], Tensor]:
    return lambda x: x + number


@situation(
    "A function that is made for each call, over another number: does each compile?",
    "was recompiled once: f.__closure__[0].cell_contents is 1, expected 0",
    "reused",
    thread="vllm-project/vllm#27178",
)
def made_for_each_call() -> Record:
    return watched(lambda x, f: f(x), *((X, adding(number)) for number in range(4)))


@situation(
    "The batch is part of a buffer whose width changes: what differs for the compiler?",
    "was recompiled once: at.stride(0) is 357, expected 356",
    "reused",
    thread="meta-pytorch/torchtune#1402",
)
def part_of_a_buffer() -> Record:
    return watched(lambda at: at + 1, *((torch.ones(2, width)[:, :4],) for width in (356, 357, 358)))


@situation(
    "A number in a dict, another one in each call: does each compile?",
    "was recompiled once: packed['longest'] is 30111, expected 31868",
    "calls 3 to 4",
    "reused",
    thread="kijai/ComfyUI-MochiWrapper#44",
)
def number_in_a_dict() -> Record:
    return watched(lambda x, packed: x * packed["longest"], *((X, {"longest": n}) for n in (31868, 30111, 12, 44)))


class Trained(nn.Module):
    def __init__(self, trainer: Counter) -> None:
        super().__init__()
        self.trainer = trainer

    @property
    def current_epoch(self) -> int:
        return self.trainer.steps

    def forward(self, x: Tensor) -> Tensor:
        return x * self.current_epoch


@situation(
    "The number of the epoch, a property that asks the trainer: is it read anew in each call?",
    "self.trainer.steps is 1, expected 0",
    thread="Lightning-AI/pytorch-lightning#17933",
)
def number_of_the_epoch() -> Record:
    torch._dynamo.reset()
    model = Trained(Counter())
    compiled = torch.compile(model, backend="eager")
    with explorer.watch() as found:
        for model.trainer.steps in range(3):
            assert compiled(X).equal(model(X))
    return found.record


class Adapted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base, self.adapters, self.scales = nn.Linear(4, 4), nn.ModuleDict(), dict[str, float]()

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + sum(adapter(x) * self.scales[name] for name, adapter in self.adapters.items())


@situation(
    "An adapter is loaded into a compiled model, then its scale is changed: what compiles again?",
    "self.adapters._modules length is 1, expected 0",
    "self.scales['style'] is 0.5, expected 1.0",
    thread="huggingface/diffusers#9279",
)
def adapter_loaded() -> Record:
    torch._dynamo.reset()
    model = Adapted()
    compiled = torch.compile(model, backend="eager")
    with explorer.watch() as found:
        compiled(X)
        model.adapters["style"] = nn.Linear(4, 4)
        for model.scales["style"] in (1.0, 0.5, 0.25):
            compiled(X)
    return found.record
