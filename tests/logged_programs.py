"""Programs that use torch.compile, each with a TORCH_TRACE log of its own: `python logged_programs.py FOLDER`."""

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo
from torch import nn
from torch._dynamo import compiled_autograd as autograd_compiler
from torch._dynamo.utils import counters
from torch._logging import _internal, structured

PROGRAMS: dict[str, Callable[[], None]] = {}


def program(run: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS[run.__name__] = run
    return run


def compiled(function, backend="eager", **options):
    return torch.compile(function, backend=backend, **options)


def raises(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:
        return
    raise AssertionError("expected an error")


def of_size(*sizes: int, **options) -> torch.Tensor:
    return torch.ones(*sizes, **options)


def breaking(x):
    y = x + 1
    print(end="")
    return y * 2


def backend_that_raises(graph, inputs):
    raise RuntimeError("no backend today")


@program
def resets():
    for size in range(3):
        compiled(torch.sin)(of_size(4 + size))
        torch._dynamo.reset()


@program
def resets_with_breaks_and_recompiles():
    for _ in range(2):
        compiled(breaking)(of_size(3))
        call = compiled(lambda x: x.cos())
        for x in (of_size(3), of_size(4), of_size(3, dtype=torch.float64)):
            call(x)
        torch._dynamo.reset()
    compiled(breaking)(of_size(3))


@program
def recompiles():
    call = compiled(lambda x, k: x * k)
    for k in (1, 2, 2.5, True):
        call(of_size(3), k)
    call(of_size(3, 3), 2)
    call(of_size(3, dtype=torch.int64), 2)


@program
def the_limit():
    call = compiled(lambda x, text: x + len(text), dynamic=False)
    for size in range(11):
        call(of_size(2 + size), "a" * size)


@program
def branches_and_breaks():
    def branching(x):
        x = breaking(x)
        if x.sum() > 0:
            x = x - 1
        return x.item() if x.numel() == 1 else x

    for x in (of_size(3), of_size(1), -of_size(3)):
        compiled(branching)(x)


@program
def a_break_in_a_loop():
    def looping(x):
        for _ in range(3):
            x = breaking(x)
        return x

    compiled(looping)(of_size(3))


@program
def a_break_that_skips_the_frame():
    def inner(x):
        yield x
        print(end="")
        yield x * 2

    call = compiled(lambda x: [each + 1 for each in inner(x)])
    for size in (3, 4):
        call(of_size(size))


@program
def threads():
    def work(factor: int) -> None:
        call = compiled(lambda x: x.sin() * factor)
        for size in range(3):
            call(of_size(2 + size))

    every = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for each in every:
        each.start()
    for each in every:
        each.join()


@program
def training():
    call = compiled(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)), "aot_eager")
    for size in (2, 3):
        call(of_size(size, 4)).sum().backward()


@program
def a_backward_after_a_reset():
    with torch._functorch.config.patch(enable_autograd_cache=False):  # it has the backward, too
        loss = compiled(lambda x: (x.sin() * 2).sum(), "inductor")(of_size(3, requires_grad=True))
        torch._dynamo.reset()
        compiled(torch.cos, "inductor")(of_size(3))
        loss.backward()


@program
def trained_before_and_after_a_reset():
    for _ in range(2):
        compiled(nn.Linear(3, 1), "aot_eager")(of_size(2, 3)).sum().backward()
        torch._dynamo.reset()


@program
def compiled_autograd():
    call = compiled(lambda x: (x * x).sum(), "aot_eager")
    with torch._dynamo.config.patch(compiled_autograd=True):
        for size in (3, 4, 4):
            x = of_size(size, requires_grad=True)
            compiled(lambda x: call(x).backward(), "aot_eager")(x)


@program
def compiled_autograd_and_a_reset():
    for _ in range(2):
        w = of_size(3, requires_grad=True)
        with autograd_compiler._enable(compiled):
            (w * w).sum().backward()
        torch._dynamo.reset()


@program
def errors():
    raises(lambda: compiled(lambda x: x @ of_size(5, 5))(of_size(3)))
    raises(lambda: compiled(breaking, fullgraph=True)(of_size(3)))


@program
def errors_of_a_backend():
    for _ in range(2):
        raises(lambda: compiled(torch.sin, backend_that_raises)(of_size(3)))
        torch._dynamo.reset()
    with torch._dynamo.config.patch(suppress_errors=True):
        compiled(torch.sin, backend_that_raises)(of_size(3))


@program
def cache_hits():
    for _ in range(3):
        compiled(lambda x: torch.relu(x) * 3, "inductor")(of_size(5))
        torch._dynamo.reset()


@program
def attempts():
    def counting(x, more):
        return torch.nonzero(x + 1).shape[0] + more

    for _ in range(2):
        for size in (3, 4):
            compiled(counting)(of_size(size), 1)
        torch._dynamo.reset()


@program
def marked_dimensions():
    x = of_size(4)
    torch._dynamo.mark_dynamic(x, 0)
    raises(lambda: compiled(lambda x: x * 2 if x.shape[0] == 4 else x)(x))


@program
def exports():
    class Adds(nn.Module):
        def forward(self, x):
            return x + 1

    for _ in range(2):
        torch._dynamo.export(Adds())(of_size(3))
        torch._dynamo.reset()


@program
def optimizers():
    module = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    step = compiled(lambda: optimizer.step(), "aot_eager")
    for _ in range(2):
        module(of_size(2, 3)).sum().backward()
        step()


@program
def disabled_functions():
    inner = compiled(lambda x: x + 1)
    between = torch.compiler.disable(lambda x: inner(x))
    call = compiled(lambda x: between(x * 2) * 3)
    for size in (2, 3):
        call(of_size(size))
    torch._dynamo.reset()
    call(of_size(2))


@program
def nothing_to_compile():
    compiled(lambda x: x)(of_size(3))
    compiled(lambda: 3)()


def logged(run: Callable[[], None], folder: Path) -> dict[str, dict[str, int]]:
    """Runs a program; torch's counters."""
    torch._dynamo.reset()
    counters.clear()
    structured.INTERN_TABLE.clear()
    handler = _internal.LazyTraceHandler(str(folder))
    handler.setFormatter(_internal.TorchLogsFormatter(trace=True))
    _internal.trace_log.addHandler(handler)
    try:
        run()
    finally:
        _internal.trace_log.removeHandler(handler)
        handler.close()
    return {name: dict(counted) for name, counted in counters.items()}


if __name__ == "__main__":
    root = Path(sys.argv[1])
    told = {}
    for name, run in PROGRAMS.items():
        (root / name).mkdir(parents=True)
        told[name] = logged(run, root / name)
    (root / "counters.json").write_text(json.dumps(told))
