"""Operators beside eager in a process of its own: reads jobs as JSON, line by line, and prints a line for each sample,
then an empty one."""

from __future__ import annotations

import functools
import json
import os
import random
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import explorer
from benchmarks.operator_samples import Sample, samples
from explorer.api import counters
from explorer.ir.program import BuildOptions
from explorer.records.check.accuracy import TOLERANCE, NotRepeatable, compare, exact_values, tensor_error

SECONDS = 60
"""Of the processor that a compile may take, eager's runs included."""
TOGETHER = 12
"""Samples in a compile."""


@dataclass(frozen=True)
class Row:
    """What came of a sample. `outcome`: "right"; "fallback", right and run eagerly, wholly or after a graph break;
    "wrong"; "error", where eager raises none; "no error", where eager raises one; and not counted: "eager raises",
    "eager crashes", "eager contradicts itself", whose result in `out=` is not that without, "not repeatable". `how`:
    where its ATen calls ran."""

    dtype: str
    variant: str
    outcome: str
    how: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Observed:
    """What a call leaves: an exception, or values by name and which of them share memory."""

    error: Exception | None
    values: dict[str, Any]
    sharing: frozenset[frozenset[str]]


@dataclass(frozen=True)
class Matters:
    """What of a result has to be eager's: its values, and where its dtype cannot hold the exact ones, whether they are
    infinite or NaN there."""

    values: bool = True
    kinds: bool = True


OTHER_FORMULAS = "interpolate upsample std_mean var_mean std var prod masked.prod gelu fmod remainder".split()
"""Operators with another formula, here or in eager's libraries, which makes something else of infinities and NaN: a
step between two pixels in place of a weighted sum, a sum of all in place of a running mean, products in place of a
quotient, an approximation of erf, a rest of a quotient that is infinite."""


def what_matters(op: str) -> Matters:
    name = op.removeprefix("nn.functional.")
    return Matters("empty" not in op, not any(re.match(rf"{each}(\.|_|$)", name) for each in OTHER_FORMULAS))


def trial(
    sample: Sample,
    matters: Matters = Matters(),
    flags: tuple[str, ...] = BuildOptions().cpp_flags,  # noqa: B008
) -> Row:
    eager = observe(sample.target, sample)
    before = counters()
    build = {"build": BuildOptions(cpp_flags=flags)}
    ours = observe(explorer.compile(calling(sample.target), options=build), sample)
    grown = {name: count - before.get(name, 0) for name, count in counters().items()}
    how = where(grown)
    if eager.error is not None and ours.error is not None:
        return Row(sample.dtype, sample.variant, "eager raises", how)
    if eager.error is not None and sample.differentiable:  # perhaps in the backward alone
        return trial(replace(sample, differentiable=False), matters, flags)
    outcome, detail = "right", ""
    if eager.error is not None:
        outcome, detail = "no error", told(eager.error)
    elif ours.error is not None:
        outcome, detail = "error", told(ours.error)
    elif grown.get("compiler bugs", 0):
        outcome, detail = "error", "the compiler's own, and the program ran eagerly"
    elif parted := differs(sample, ours, eager, matters):
        outcome, detail = "wrong", parted
    elif grown.get("breaks", 0) or grown.get("frames run eagerly", 0) or grown.get("calls: fallback", 0):
        outcome = "fallback"
    if detail and not is_repeatable(sample, eager, matters):
        return Row(sample.dtype, sample.variant, "not repeatable")
    if outcome == "wrong" and contradicts_itself(sample, ours, eager, matters):
        return Row(sample.dtype, sample.variant, "eager contradicts itself")
    return Row(sample.dtype, sample.variant, outcome, how, detail)


def differs(sample: Sample, ours: Observed, eager: Observed, matters: Matters) -> str:
    """How ours differs from eager, where neither rounding explains it nor eager's own values in float64 are ours."""
    rough = sample.variant == "out= dtype"
    parted = difference(ours, eager, matters, rough)
    if not parted or difference(ours, eager, replace(matters, values=False), rough):
        return parted
    try:
        exact = exact_values(lambda: RunAgain(sample), eager.values)
    except NotRepeatable:
        return parted
    if compare(ours.values, eager.values, exact).ok:
        return ""
    known = {name: each.value.to(eager.values[name].dtype) for name, each in exact.items() if each.complete}
    if not matters.kinds:
        ours, eager = other_formula(ours, eager, known)
        known = {}
    return parted if difference(ours, replace(eager, values=eager.values | known), matters, rough) else ""


def other_formula(ours: Observed, eager: Observed, known: dict[str, Tensor]) -> tuple[Observed, Observed]:
    """Both, as if the exact values were eager's where only one of the two is finite, and as if both had these where
    they are infinite or NaN, or unknown: `known` by name."""
    mine, theirs = dict(ours.values), dict(eager.values)
    for name, b in eager.values.items():
        a = mine[name]
        if isinstance(a, Tensor) and b.dtype in TOLERANCE and b.layout is torch.strided and a.shape == b.shape:
            a, b = resolved(a.detach()), resolved(b.detach())
            exact = known.get(name, torch.full_like(b, torch.nan))
            same_kind = (a == b) | (a.isfinite() & b.isfinite())
            theirs[name] = torch.where(same_kind, b, exact)
            mine[name] = torch.where(same_kind | exact.isfinite(), a, exact)
    return replace(ours, values=mine), replace(eager, values=theirs)


@dataclass(frozen=True)
class RunAgain:
    """A call of eager for the referee."""

    sample: Sample

    def observe(self) -> Left:
        return Left(observe(self.sample.target, self.sample).values)


@dataclass(frozen=True)
class Left:
    found: dict[str, Any]

    def values(self) -> dict[str, Any]:
        return self.found


def is_repeatable(sample: Sample, eager: Observed, matters: Matters) -> bool:
    """Whether eager gives the same again, and where new memory is filled with NaN."""
    if difference(observe(sample.target, sample), eager, matters):
        return False
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        return not difference(observe(sample.target, sample), eager, matters)
    finally:
        torch.use_deterministic_algorithms(False)


def contradicts_itself(sample: Sample, ours: Observed, eager: Observed, matters: Matters) -> bool:
    """Whether eager's result in `out=` is not the one it gives without, and ours is."""
    if "out" not in sample.kwargs:
        return False
    kwargs = {name: value for name, value in sample.kwargs.items() if name != "out"}
    plain = observe(sample.target, replace(sample, kwargs=kwargs)).values
    for name, value in ours.values.items():
        if name.startswith("result "):
            made, alone = resolved(value), resolved(plain[name])
            if of_value(made.to(alone.dtype), alone, matters, strides_matter=False, rough=False):
                return False
    return True


def resolved(value: Tensor) -> Tensor:
    return value.resolve_conj().resolve_neg()


def calling(target: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    return call


def together(group: Sequence[Sample]) -> Sample:
    """A call that makes the calls of them all, for one compile in place of many."""
    targets = [sample.target for sample in group]

    def call(*given: tuple[Any, Any]) -> list[Any]:
        return [target(*args, **kwargs) for target, (args, kwargs) in zip(targets, given, strict=True)]

    given = tuple((sample.args, sample.kwargs) for sample in group)
    return Sample(call, given, differentiable=group[0].differentiable)


def told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


def where(grown: dict[str, int]) -> str:
    """Where the calls of a compile run: in generated kernels, in the library, in both, or nowhere (views)."""
    kernel, extern = grown.get("calls: kernel", 0), grown.get("calls: extern", 0)
    return "mixed" if kernel and extern else "generated" if kernel else "library" if extern else "neither"


def observe(call: Callable[..., Any], sample: Sample) -> Observed:
    args, kwargs = sample.again()
    torch.manual_seed(0)
    values: dict[str, Any] = {}
    try:
        result = call(*args, **kwargs)
        values |= {f"result {place}": leaf for place, leaf in enumerate(tree_leaves(result))}
        values["result"] = type(result).__name__
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        values |= {f"input {place} afterwards": leaf for place, leaf in enumerate(inputs)}
        if sample.differentiable:
            values |= gradients(values, inputs)
    except Exception as error:
        return Observed(error, {}, frozenset())
    return Observed(None, values, sharing(values))


def gradients(values: dict[str, Any], inputs: list[Tensor]) -> dict[str, Any]:
    """The gradients of the inputs, for gradients of the results drawn with one seed."""
    heads = [value for name, value in values.items() if name.startswith("result ") and is_differentiable(value)]
    wanted = [value for value in inputs if value.requires_grad and value.is_leaf]
    if not heads or not wanted:
        return {}
    generator = torch.Generator().manual_seed(1)
    flowing = [torch.randn(head.shape, dtype=head.dtype, generator=generator) for head in heads]
    found = torch.autograd.grad(heads, wanted, flowing, allow_unused=True)
    return {f"gradient {place}": value for place, value in enumerate(found)}


def is_differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def sharing(values: dict[str, Any]) -> frozenset[frozenset[str]]:
    groups: dict[int, set[str]] = {}
    for name, value in values.items():
        if isinstance(value, Tensor) and not name.startswith("gradient") and value.numel():
            groups.setdefault(value.untyped_storage().data_ptr(), set()).add(name)
    return frozenset(frozenset(names) for names in groups.values() if len(names) > 1)


def difference(ours: Observed, eager: Observed, matters: Matters, rough: bool = False) -> str:
    """How the one differs from the other; "" where it does not. `rough`: wide floats hold narrower ones."""
    if ours.error is not None or eager.error is not None:
        return "" if type(ours.error) is type(eager.error) else f"{ours.error!r} in place of {eager.error!r}"
    if ours.values.keys() != eager.values.keys():
        return f"{sorted(ours.values)} in place of {sorted(eager.values)}"
    for name, expected in eager.values.items():
        # The strides of a gradient follow those of the gradient that flows in, which a compiled backward fixes.
        strides_matter = "gradient" not in name
        parted = of_value(ours.values[name], expected, matters, strides_matter, rough)
        if parted:
            return f"{name}: {parted}"
    if ours.sharing != eager.sharing:
        return f"memory shared: {shown(ours.sharing)} in place of {shown(eager.sharing)}"
    return ""


def shown(groups: frozenset[frozenset[str]]) -> list[list[str]]:
    return sorted(map(sorted, groups))


ROUGH = {torch.float64: torch.float32, torch.complex128: torch.complex64}


def of_value(a: Any, b: Any, matters: Matters, strides_matter: bool, rough: bool) -> str:
    if not isinstance(b, Tensor) or not isinstance(a, Tensor):
        same = type(a) is type(b) and (a == b or a != a)
        return "" if same else f"{a!r} in place of {b!r}"
    for fact in ("dtype", "shape", "requires_grad", "device", "layout"):
        mine, theirs = getattr(a, fact), getattr(b, fact)
        if mine != theirs:
            return f"{fact} {mine} in place of {theirs}"
    if b.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    steps = zip(a.shape, a.stride(), b.stride(), strict=True)
    if strides_matter and b.numel() and any(n > 1 and s != t for n, s, t in steps):
        return f"strides {a.stride()} in place of {b.stride()}, shape {tuple(b.shape)}"
    if a.is_neg() != b.is_neg() or a.is_conj() != b.is_conj():
        return "conjugate or negative bit"
    a, b = (resolved(each.detach()) for each in (a, b))
    if not matters.values:
        return ""
    if b.dtype is torch.complex32:
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if rough and b.dtype in ROUGH:
        a, b = a.to(ROUGH[b.dtype]), b.to(ROUGH[b.dtype])
    error, _, close = tensor_error(a, b)
    return "" if close else f"off by {error:.2e}: {sample_of(a, b)}"


def sample_of(a: Tensor, b: Tensor) -> str:
    """The elements that differ most."""
    wide = torch.complex128 if b.is_complex() else torch.float64
    apart = torch.nan_to_num((a.to(wide) - b.to(wide)).abs(), nan=torch.inf)
    apart = torch.where((a == b) | ((a != a) & (b != b)), torch.zeros_like(apart), apart).flatten()
    place = int(apart.argmax())
    return f"{a.flatten()[place].item()!r} in place of {b.flatten()[place].item()!r} at {place} of {tuple(b.shape)}"


def rows(job: dict[str, Any]) -> Iterator[Row]:
    """Samples that eager answers are compiled together, and in smaller groups where that is not right: what is not has
    a compile of its own."""
    attempt = functools.partial(trial, matters=what_matters(job["op"]), flags=tuple(job["flags"]))
    pending: list[list[Sample]] = []
    open_groups: dict[bool, list[Sample]] = {}
    for dtype in job["dtypes"]:
        chance = random.Random(f"{job['seed']} {job['op']} {dtype}")
        drawn = samples(job["op"], getattr(torch, dtype), chance, job["samples"], job["variants"])
        try:
            for sample in (replace(each, dtype=dtype) for each in drawn):
                if job.get("only_eager"):
                    for _ in range(3):
                        observe(sample.target, sample)
                elif sample.variant == "out= dtype" or observe(sample.target, sample).error is not None:
                    pending.append([sample])
                else:
                    group = open_groups.setdefault(sample.differentiable, [])
                    group.append(sample)
                    if len(group) == TOGETHER:
                        pending.append(open_groups.pop(sample.differentiable))
        except ImportError as absent:
            yield Row(dtype, "none", "not installed", detail=str(absent))
        except Exception as error:  # of torch's own sample
            yield Row(dtype, "none", "no sample", detail=told(error))
    pending += open_groups.values()
    while pending:
        group = pending.pop()
        found = within(attempt, together(group) if len(group) > 1 else group[0])
        if len(group) == 1:
            yield found
        elif found.outcome == "right":
            yield from (Row(sample.dtype, sample.variant, "right", found.how) for sample in group)
        else:
            pending += [group[: len(group) // 2], group[len(group) // 2 :]]


def within(attempt: Callable[[Sample], Row], sample: Sample) -> Row:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return attempt(sample)
    except TimeoutError:
        return Row(sample.dtype, sample.variant, "too slow")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def too_slow(*_: Any) -> None:
    raise TimeoutError


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, too_slow)
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what operators print is no row
    for line in sys.stdin:
        for row in rows(json.loads(line)):
            print(json.dumps(asdict(row)), file=told, flush=True)
        print(file=told, flush=True)


if __name__ == "__main__":
    main()
