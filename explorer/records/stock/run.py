"""One recorded call through stock `torch.compile`, with the user's options and without lasting effects, under all
hooks.
"""

from __future__ import annotations

import copy
import inspect
import time
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import torch
import torch._dynamo
from torch._C._dynamo import eval_frame as c_eval_frame
from torch._dynamo import config as dynamo_config
from torch._dynamo import eval_frame, pgo
from torch._dynamo.eval_frame import innermost_backend
from torch._dynamo.exc import TorchDynamoException
from torch._dynamo.guards import DeletedGuardManagerWrapper
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

from explorer.core.recorder import OnStage
from explorer.ir import record as data
from explorer.ir.program import Target
from explorer.records.check.trial import Contestant, Outcome, Trial
from explorer.records.stock import (
    absent,
    autotuning,
    bisection,
    breaks,
    caches,
    compile_time,
    cudagraphs,
    distributed,
    frames,
    fusion,
    graphs,
    guards,
    hints,
    kernels,
    lowering,
    recompiles,
)
from explorer.records.stock.absent import generating_for
from explorer.records.stock.hook import watching
from explorer.records.stock.observation import Observation
from explorer.records.to_record import Seconds

HOOKS = (
    compile_time.PHASES_HOOK,
    recompiles.INPUTS_HOOK,
    frames.HOOK,
    recompiles.HOOK,
    frames.STEPS_HOOK,
    breaks.HOOK,
    guards.HOOK,
    guards.SYMBOLS_HOOK,
    caches.HOOK,
    graphs.HOOK,
    graphs.PASSES_HOOK,
    lowering.HOOK,
    lowering.CAUSES_HOOK,
    fusion.HOOK,
    kernels.HOOK,
    compile_time.BUILDS_HOOK,
    autotuning.HOOK,
    cudagraphs.HOOK,
    hints.HOOK,
    distributed.HOOK,
    absent.HOOK,
    bisection.HOOK,
)

WATCHING = tuple(hook for hook in HOOKS if hook not in (frames.STEPS_HOOK, absent.HOOK, bisection.HOOK))
"""Those of a program that is watched as it is: the evaluator's single steps would slow its compiles down."""


@dataclass(frozen=True)
class StockRun:
    """A trial that stock compiled and ran once while it was watched. `given` is it as it was asked for, perhaps of a
    compiled function, `trial` the same of the function under that. `seconds` is that first call, hooks included;
    `watched` what the hooks took of it."""

    given: Trial
    trial: Trial
    contestant: Contestant
    outcome: Outcome | None
    """None where the compiler failed; `failure` then says how."""
    seconds: float
    watched: float
    observation: Observation
    failure: str = ""
    failed: tuple[str, data.SpanData | None] | None = None
    """The whole text of it, and its place."""

    def compiles(self, seconds: Mapping[str, Seconds]) -> tuple[data.CompileData, ...]:
        """Everything that was seen. `seconds` are measured times by compile, half, and id of kernel or library call."""
        return self.observation.frozen(seconds)

    def guard_roots(self) -> dict[str, tuple[object, Mapping[str, object]]]:
        """The guard managers by compile, with the locals that each frame was compiled for."""
        seen = self.observation.compiles
        return {each.id: (each.guard_managers[-1].root, each.given) for each in seen if each.guard_managers}

    def settings(self, given: Mapping[str, object]) -> dict[str, str]:
        """What the compile depended on: the arguments of torch.compile that really applied, and what the process
        changed in torch's configuration."""
        asked = {f"torch.compile {name}": str(value) for name, value in given.items()}
        return {**asked, **applied(context_of(self.contestant.run)), **process_settings()}


def applied(context: Any) -> dict[str, str]:
    """The arguments of torch.compile that a compiled function has, also one that was compiled elsewhere."""
    if not is_compiling(context):
        return {}
    backend = innermost_backend(context.callback)
    found = {
        "torch.compile backend": str(getattr(backend, "compiler_name", "") or getattr(backend, "__name__", backend)),
        "torch.compile fullgraph": str(context.fullgraph),
        "torch.compile dynamic": str(context._dynamic),
    }
    return found | {f"torch.compile options {name}": str(on) for name, on in getattr(backend, "config", {}).items()}


def is_compiling(context: Any) -> bool:
    """Whether what torch keeps about a function is of torch.compile: not of torch.compiler.disable."""
    return context is not None and callable(context.callback)


def process_settings() -> dict[str, str]:
    """What the process changed in torch's configuration."""
    found = {}
    for name, config in (("dynamo", dynamo_config), ("inductor", inductor_config), ("functorch", functorch_config)):
        live: Any = config
        for key, value in live._get_dict(skip_default=True).items():
            if value != live._config[key].default:
                found[f"torch {name} {key}"] = str(value)
    return found


class Instrumentation(Protocol):
    """Takes each compiled graph and module, and returns it, possibly wrapped."""

    def graph(self, compile: Any, compiled: Callable[..., Any]) -> Callable[..., Any]: ...

    def module(self, compile: Any, half: Any, module: Any) -> Any: ...


@contextmanager
def stock_run(
    trial: Trial,
    settings: Mapping[str, Any] | None = None,
    on_stage: OnStage | None = None,
    absent: Target | None = None,
    ids: str = "s",
    search: Instrumentation | None = None,
) -> Iterator[StockRun]:
    """Compile `trial` with stock torch.compile, run it once and see everything. Inside the block the contestant runs
    the compiled code, with nothing of torch wrapped any more; when it ends, what was compiled is let go of.

    `absent` is a GPU that is not present: Triton code for it is generated, and the graph's operators run eagerly.
    `ids` is what the ids of compiles begin with. `search` looks into what is compiled as it first runs. `settings` are
    arguments of torch.compile; a function that is compiled already keeps its own. What stock raises in place of running
    the program, or where an eager call does not raise, is the run's `failure`.
    Raises what torch.compile says of its arguments, and what the function raises.
    """
    asked = trial
    trial, already = unwrapped(trial)
    if already is not None and any(value not in (None, False) for value in (settings or {}).values()):
        raise ValueError(f"{trial.fn} is already compiled; to pass other arguments, explore the original function")
    given = {**isolated(torch.compile), **(settings or {})}
    compiler = (lambda fn: torch.compile(fn, **given)) if already is None else already
    observation = Observation(on_stage, absent, ids, search)
    contestant = trial.contestant(lambda fn: with_unique_backend(uncached(compiler, fn)))
    sizes = copy.deepcopy(pgo.get_code_state())
    try:
        with generating_for(absent), watching(observation, HOOKS) as missing:
            for target, why in missing.items():
                observation.compile().event("HookMissing", hook=target, why=why)
            outcome, failure, failed = None, "", None
            started = time.perf_counter()
            try:
                outcome = contestant.observe()
            except Exception as error:
                if not (trial.runs_in_eager or by_compiler(error, observation)):
                    raise
                failure = f"{type(error).__name__}: {error}"
                failed = breaks.whole_text(error), breaks.raised_at(error)
                observation.raised = None
            seconds = time.perf_counter() - started
        yield StockRun(asked, trial, contestant, outcome, seconds, observation.spent, observation, failure, failed)
    finally:
        release(observation)
        forget_sizes(observation, sizes)


def by_compiler(error: Exception, observation: Observation) -> bool:
    """Whether stock raised this instead of running the program, rather than the program itself."""
    if isinstance(error, TorchDynamoException) or observation.raised is error:
        return True
    innermost = next(reversed(list(traceback.walk_tb(error.__traceback__))), None)
    return innermost is not None and innermost[0].f_code.co_filename == eval_frame.__file__


class UniqueBackend:
    """A backend that equals no other, so that an exploration and the user's program do not share compiled code."""

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


def uncached(compiler: Callable[..., Any], fn: Callable[..., object]) -> Callable[..., object]:
    """The compiled function. Torch holds each backend that it is given until it is reset, and need not hold this."""
    cached = eval_frame.cached_backends
    before = set(cached)
    made: Callable[..., object] = compiler(fn)
    for each in cached.keys() - before:
        del cached[each]
    return made


def with_unique_backend(fn: Callable[..., object]) -> Callable[..., object]:
    """A function that torch.compile has just made, with a backend that equals no other."""
    context = context_of(fn)
    if is_compiling(context):  # not where the environment has switched torch.compile off
        backend = innermost_backend(context.callback)
        if not isinstance(backend, type(lambda: None)):
            backend.__class__ = type(f"Unique{type(backend).__name__}", (UniqueBackend, type(backend)), {})
    return fn


def context_of(fn: Callable[..., object]) -> Any:
    """What torch.compile keeps about a function that it made; None for any other."""
    if isinstance(fn, torch._dynamo.OptimizedModule):
        return fn.dynamo_ctx
    if getattr(fn, "_torchdynamo_wrapper_id", None) != id(fn):
        return None
    cells: Any = fn.__closure__
    return dict(zip(fn.__code__.co_freevars, cells, strict=True))["self"].cell_contents


def unwrapped(trial: Trial) -> tuple[Trial, Callable[..., Any] | None]:
    """The trial on the function under torch.compile, and what compiles it again as it was."""
    fn: Any = trial.fn
    context = context_of(fn)
    if not is_compiling(context):
        return trial, None
    inner = fn._orig_mod if isinstance(fn, torch._dynamo.OptimizedModule) else fn._torchdynamo_orig_callable
    backend = copy.copy(innermost_backend(context.callback))
    hooks = getattr(context, "_hooks", None)

    def compiler(fn: Any) -> Any:
        return torch._dynamo.optimize(
            backend=backend, nopython=context.fullgraph, dynamic=context._dynamic,
            guard_filter_fn=getattr(hooks, "guard_filter_fn", None),
        )(fn)  # fmt: skip

    return replace(trial, fn=inner), compiler


def captured_by_stock(
    settings: Mapping[str, Any], already: Callable[..., Any] | None, fn: Callable[..., object]
) -> Callable[..., object]:
    """What torch.compile makes of a function with these settings, its graphs run as they were captured; `already` is
    what compiles a function as it was compiled before."""
    if already is not None:
        settings = {"dynamic": context_of(already(fn))._dynamic}
    kept = {name: settings[name] for name in ("fullgraph", "dynamic") if name in settings}

    def runs_as_captured(graph: torch.fx.GraphModule, inputs: Sequence[object]) -> Callable[..., object]:
        return graph.forward

    return uncached(partial(torch.compile, backend=runs_as_captured, **isolated(torch.compile), **kept), fn)


def isolated(compiler: Callable[..., object]) -> dict[str, Any]:
    """The argument, where this torch has it, that keeps compiled code in a region of its own."""
    name = "isolate_recompiles"
    return {name: True} if name in inspect.signature(compiler).parameters else {}


def release(observation: Observation) -> None:
    """Let go of what was compiled: its entries on code objects that the user's own compiled functions share.

    Where a code object had none before, it is as new. Elsewhere our entries are made void, which Dynamo never drops:
    they count in a region of their own (in torch before 2.13 among the user's, against `recompile_limit`).
    """
    for code, before in observation.entries_before.values():
        if before == 0:
            c_eval_frame.reset_code(code)
    for compile in observation.compiles:
        for manager in compile.guard_managers:
            entry, state = manager.cache_entry, manager.extra_state
            if entry is not None and state is not None and observation.had_entries(compile.code):
                state.invalidate(entry, _ended())
        compile.guard_managers.clear()
        compile.given.clear()
        if compile.code is not None and compile.skipped and observation.had_entries(compile.code):
            default = c_eval_frame._FrameAction.DEFAULT
            c_eval_frame.set_code_exec_strategy(compile.code, c_eval_frame._FrameExecStrategy(default, default))


def _ended() -> DeletedGuardManagerWrapper:
    """Guards that fail. They name an object that no frame holds: where Dynamo cannot isolate compiles it counts an
    entry towards a function's limit only if the frame holds what the entry's guards name."""
    made = DeletedGuardManagerWrapper(recompiles.EXPLORED)
    made.id_matched_objs = {"the exploration": weakref.ref(Observation)}
    return made


def forget_sizes(observation: Observation, before: Mapping[Any, Any]) -> None:
    """Put back what Dynamo remembers of the sizes that functions were called with: else those explored would make the
    user's next compile dynamic."""
    codes = [compile.code for compile in observation.compiles if compile.code is not None]
    seen = {(code.co_filename, code.co_firstlineno, code.co_name) for code in codes}
    states = pgo.get_code_state()
    for id in list(states):
        if (id.filename, id.firstlineno, id.name) in seen:
            if id in before:
                states[id] = before[id]
            else:
                del states[id]
