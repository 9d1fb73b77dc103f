"""The public functions: compile, a drop-in for torch.compile, and explore, which compiles and keeps a record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

from torch import fx, nn

from explorer.compiler.capture.wrap import ORIGINAL
from explorer.compiler.compile import compile as compiled
from explorer.compiler.compile import configure as configured
from explorer.compiler.config import Config, GraphPass
from explorer.compiler.pipeline import compile_module
from explorer.core.arguments import explained
from explorer.core.recorder import SILENT, TOTALS, OnStage, Progress
from explorer.core.rules import rules_in_force
from explorer.ir.settings import skip_frames
from explorer.records.check.calls import Leave
from explorer.records.check.isolate import compiled_from
from explorer.records.check.trial import of_program
from explorer.records.data.exploration import RECORDED, Exploration
from explorer.records.editing import ExploredCall
from explorer.records.exploration import ENGINES, Asked, harmless, title
from explorer.records.stock.backend import named
from explorer.show.record import Record

RUNS_NOTHING = "calling it runs nothing of it; explore a function that it calls, or one that runs it to its end, as"

F = TypeVar("F", bound=Callable[..., Any])


@overload
def compile(fn: F, **settings: object) -> F: ...
@overload
def compile(fn: None = None, **settings: object) -> Callable[[F], F]: ...


@explained("explorer.compile(fn, dynamic=True)(x, y)")  # type: ignore[misc]  # the settings are those below
def compile(
    fn: object = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., object] = "explorer",
    target: str | None = None,
    options: Mapping[str, object] | None = None,
) -> object:
    """Compile a function, method or module; use it as `torch.compile` is used, also as a decorator.

    `fullgraph`: raise instead of breaking the graph. `dynamic`: None makes a size symbolic once it has changed, True
    from the start, False never. `backend`: "explorer", "eager", the name of one of torch's backends, or a
    callable that takes (fx.GraphModule, example inputs). `target`: "cpu", "cuda:sm_90", "hip:gfx942", ...; by default
    that of the tensors. `options`: other fields of `explorer.Config` by name.

    Code that cannot be compiled runs eagerly; an error of another backend is raised as `BackendFailed`. Raises
    ValueError for a backend, option or target that does not exist.
    """
    config = configure(fullgraph=fullgraph, dynamic=dynamic, backend=backend, target=target, options=options)
    return compiled(fn, config)


def configure(**settings: Any) -> Config:
    """A Config from the arguments of `compile` and `explore`, with torch's backends by name. Raises ValueError naming
    what does not exist and what does."""
    return configured(**settings, named=named)


def stock_backend(module: fx.GraphModule, example_inputs: Sequence[object]) -> Callable[..., object]:
    """The backend that `torch.compile(fn, backend="explorer")` calls with what stock Dynamo captured."""
    return compile_module(module, example_inputs, Config())


@explained('explorer.explore(fn, engine="both")(x, y)')
def explore(
    fn: Callable[..., object],
    *,
    engine: str = "explorer",
    stock: Mapping[str, object] | None = None,
    grad: bool | None = None,
    dynamic: bool | None = None,
    target: str | None = None,
    passes: Sequence[GraphPass] = (),
    fullgraph: bool = False,
    time: bool | float = True,
    leave: Leave = "called",
    fixes: bool = False,
    values: bool = False,
    name: str | None = None,
    options: Mapping[str, object] | None = None,
    on_stage: OnStage | None = None,
) -> Callable[..., Record]:
    """A function that takes `fn`'s arguments, compiles and runs `fn`, and returns the Record.

    `leave` is the state of the program afterwards: "called", as one eager call of `fn` leaves it, or "unchanged", as
    before. All that a call reaches (arguments, closures, globals, modules, optimizers, gradients, random generators,
    ...) is restored after every further call, and what these calls print is discarded. If that is not possible, as for
    files and generators, `fn` is called once, and the captured graphs are compared and timed without it;
    `record.notes` says so.

    `engine`: "explorer" is this package's compiler, "stock" is torch.compile, which is only recorded, "both" shows the
    two side by side in one record and times them in one run. `stock` are arguments of torch.compile (mode, options,
    backend, ...); `dynamic` and `fullgraph` are passed to it too. A function that is already compiled keeps its own.

    `grad`: also run the backward of the output (of its sum if it is not a single number); by default if something
    requires grad. `time`: how many seconds each engine is timed, in turn with the others; True is about one. `target`:
    generate code for that machine. If it is not this one, the code is compiled and shown but not run (stock's is Triton
    code, generated with heuristics for a CPU). `passes`: FX passes (GraphModule -> GraphModule or None) over each
    captured graph. `fixes`: if rewriting a branch removes a graph break, or a setting of torch removes one of stock's,
    also compile and run with that fix, and record the result. `values`: compile and run once more, kernel by kernel,
    and record what each kernel writes beside what eager computes. `on_stage` is called after each stage.

    A failed compile raises no error: the record says what failed. An exception that `fn` raises propagates as from a
    call of `fn`, with the record so far in its attribute `explored`. Raises RuntimeError inside a function that is
    being explored.
    """
    if engine not in ENGINES:
        raise ValueError(f"no engine {engine!r}; expected one of {', '.join(map(repr, ENGINES))}")
    if stock is not None and engine == "explorer":
        raise ValueError('stock= gives arguments of torch.compile; it needs engine="stock" or engine="both"')
    if engine == "stock" and (passes or options):
        raise ValueError("passes= and options= are for this package's compiler; give torch.compile's own in stock=")
    if values and engine == "stock":
        raise ValueError('values=True runs our kernels one by one; it needs engine="explorer" or engine="both"')
    if leave not in ("called", "unchanged"):
        raise ValueError(f"leave={leave!r} is unknown; expected 'called' or 'unchanged'")
    if not callable(fn) or (isinstance(fn, type) and issubclass(fn, nn.Module)):
        given = f"the class {fn.__qualname__}" if isinstance(fn, type) else f"an object of type {type(fn).__qualname__}"
        raise TypeError(f"{given} cannot be explored; give a function or a module: explorer.explore(fn)(x, y)")
    own: Any = compiled_from(fn)
    own = own.forward if isinstance(own, nn.Module) else own
    if inspect.iscoroutinefunction(own) or inspect.isasyncgenfunction(own):
        raise TypeError(f"{title(fn)} is a coroutine function: {RUNS_NOTHING} lambda x: asyncio.run(fn(x))")
    theirs = {"dynamic": dynamic, "fullgraph": fullgraph, **(stock or {})} if engine != "explorer" else None
    config = configure(fullgraph=fullgraph, dynamic=dynamic, target=target, passes=passes, options=options)
    compiler, fn = getattr(fn, "__explorer_engine__", None), getattr(fn, ORIGINAL, None) or fn
    if compiler is not None and engine != "stock":
        if config != configure():
            raise ValueError(f"{title(fn)} is already compiled; to use other settings, explore the original function")
        config = compiler.config
    config = replace(config, rules=rules_in_force().over(config.rules))
    progress = SILENT if on_stage is None else Progress(on_stage=on_stage)
    generator = f"It is a generator function: {RUNS_NOTHING} lambda x: list(fn(x))."
    notes = (generator,) if inspect.isgeneratorfunction(own) else ()

    def run(*args: object, **kwargs: object) -> Record:
        asked = Asked(config, name or title(fn), engine, theirs, time, fixes, values, progress)
        try:
            record = Record.of(lambda: harmless(fn, args, kwargs, asked, grad=grad, leave=leave).noting(notes))
        except BaseException as error:
            if (own := of_program(error)) is not error.__traceback__:
                BaseException.with_traceback(error, own)
                added = vars(error).setdefault("__notes__", [])  # as add_note() does, which asks the class
                if isinstance(added, list) and RECORDED not in added:
                    added.append(RECORDED)
            raise  # which adds no frame

        def again(
            fn: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object], config: Config, *,
            name: str, progress: Progress,
        ) -> Exploration:  # fmt: skip
            edited = replace(asked, config=config, name=name, progress=progress)
            return harmless(fn, args, kwargs, edited, grad=grad, leave="unchanged")

        record.explored = ExploredCall(config, record.data, again, grad, fn, args, kwargs)
        return record

    skip_frames(run)
    run._torchdynamo_disable = True  # type: ignore[attr-defined]
    return run


def counters() -> dict[str, int]:
    """Totals of this process, also of compiles that are not recorded: "compiles", "breaks", "frames run eagerly",
    "builds failed", "compiler bugs", "graphs that raised"; and calls by where they run: "calls: kernel", "calls:
    extern", "calls: view", "calls: fallback"."""
    return dict(TOTALS)
