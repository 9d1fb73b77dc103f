"""How far compiled results are from eager's."""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

import numpy
import torch

from explorer.ir.description import has_no_sizes
from explorer.ir.record import DivergenceData
from explorer.records.check.float64 import Float64Run, TooLarge
from explorer.records.check.isolate import NotIsolated
from explorer.records.check.leaves import Leaves, Opaque, leaves
from explorer.records.check.process import OutputLine
from explorer.records.check.snapshot import plainly

TOLERANCE: Mapping[torch.dtype, float] = {
    torch.float64: 1e-10,
    torch.complex128: 1e-10,
    torch.float32: 3e-5,
    torch.complex64: 3e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}
"""The error allowed, relative to an element and again to the tensor's largest magnitude (sums are taken in another
order, so that an element near zero may be off by rounding of large terms). Other dtypes must be equal."""

DISTURBANCES = 8
"""A result may be off by this many times what perturbing each value by an eighth of its tolerance changes."""

NO_WORSE = 2
"""A result beyond its tolerance passes if it is at most this many times as far from float64 as eager's."""

LOW_PRECISION = (torch.float16, torch.bfloat16)
"""Dtypes for which eager's own error is reported too, since it is as large as ours."""


Mismatch = Literal["elements", "value", "unpaired"]
"""How a result differs from eager's: in elements of a tensor, in what it is (another number, dtype or shape), or there
is none in the other's results, which no rounding explains."""


@dataclass(frozen=True)
class Comparison:
    """The errors of one result, `where`: the one that is the most tolerances away from eager's, of those that differ
    if any does.

    `first_mismatch` names the first tensor beyond its tolerance ("" where none is).
    """

    largest_absolute: float
    largest_relative: float
    where: str
    first_mismatch: str
    compared: int
    divergence: DivergenceData | None = None
    """The first node that differs, if it was searched for."""
    own_error: float | None = None
    eager_error: float | None = None
    """The largest distances of these results and of eager's from a float64 run of the call, if there was one."""
    nan: str = ""
    """The first of eager's outputs and gradients with a NaN in it."""
    opaque: str = ""
    """The first of eager's values that cannot be compared, with its kind."""
    mismatch: Mismatch = "elements"
    """How the first mismatch differs."""

    @property
    def ok(self) -> bool:
        return not self.first_mismatch


class Errors(NamedTuple):
    """The errors of one result: `beyond` its tolerance or not, and how many tolerances its largest is."""

    beyond: bool = False
    tolerances: float = 0.0
    absolute: float = 0.0
    relative: float = 0.0
    where: str = ""
    own: float | None = None
    eager: float | None = None

    @property
    def extent(self) -> tuple[float, ...]:
        return self.beyond, self.tolerances, self.absolute, self.own or 0.0, self.eager or 0.0


@dataclass(frozen=True)
class Exact:
    """A tensor in float64, and the largest change of its elements when each value before it is perturbed. `complete`:
    each operator has a float64 form; `drew`: the call draws random numbers."""

    value: torch.Tensor
    rounding: float
    complete: bool
    drew: bool


class Left(Protocol):
    """What a call left behind."""

    def values(self) -> Mapping[str, Any]: ...


class Ready(Protocol):
    """A call that is ready to be made once."""

    def observe(self) -> Left: ...


class NotRepeatable(Exception):
    """Eager differs from itself; `where` is the first tensor that does."""

    def __init__(self, where: str) -> None:
        super().__init__(f"eager differs from itself when called again, first in {where}")


def against_eager(
    eager: Callable[[], Ready], actual: Mapping[str, object], expected: Mapping[str, object], engine: str = "explorer"
) -> Comparison:
    """Compare with eager's results; if they differ beyond tolerance or have low precision, compare with a float64 run
    too, unless `eager` cannot make another call or memory is short. The divergence of the result is that eager differs
    from itself, if it does."""
    found = compare(actual, expected)
    with plainly():
        low = any(_is_inexact(leaf) and leaf.dtype in LOW_PRECISION for leaf in _leaves(expected).values())
    if found.ok and not low:
        return found
    try:
        exact = exact_values(eager, expected)
    except NotRepeatable as refusal:
        return replace(found, divergence=None if found.ok else no_node(str(refusal), engine=engine))
    judged = compare(actual, expected, exact)
    if judged.first_mismatch and any(each.drew for each in exact.values()):
        return replace(judged, own_error=None, eager_error=None)  # of other random numbers, perhaps
    return judged


def exact_values(eager: Callable[[], Ready], expected: Mapping[str, object]) -> dict[str, Exact]:
    """Eager's tensors in float64, by name, as far as the run computed them; empty if there is no such run.
    Raises NotRepeatable."""
    float64 = Float64Run({dtype: allowed / DISTURBANCES for dtype, allowed in TOLERANCE.items()})
    try:
        call = eager()
        with torch.autograd.set_multithreading_enabled(False), without_onednn(), float64:
            again = call.observe().values()
    except (TooLarge, NotIsolated):
        return {}
    exact = {
        name: Exact(float64.exact(leaf), float64.rounding(leaf), float64.complete, float64.drew)
        for name, leaf in _leaves(again).items()
        if _is_inexact(leaf) and float64.followed(leaf)
    }
    theirs = {name: leaf for name, leaf in _leaves(expected).items() if _is_inexact(leaf) and name in exact}
    rounding = {name: replace(exact[name], value=leaf) for name, leaf in theirs.items()}
    if not (repeated := compare(again, expected, rounding)).ok:
        if not float64.complete:
            return {}  # other libraries may round otherwise
        raise NotRepeatable(repeated.first_mismatch)
    return exact


def no_node(
    detail: str, error: float | None = None, eager_error: float | None = None, engine: str = "explorer"
) -> DivergenceData:
    """That results differ, and no node is at fault."""
    return DivergenceData("", "", "", "", error, eager_error, detail=detail, engine=engine)


@contextmanager
def without_onednn() -> Iterator[None]:
    """oneDNN's operators have no float64 form."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


@plainly()
def compare(
    actual: Mapping[str, object], expected: Mapping[str, object], exact: Mapping[str, Exact] = MappingProxyType({})
) -> Comparison:
    """Compare nested values, or their leaves, by name: tensors by tolerance, shape, dtype and NaN positions, numbers by
    the tolerance of the tensors that they may come from, others by equality. A tensor beyond its tolerance passes if it
    is as close to `exact` as eager's, or if rounding explains the difference."""
    errors: list[Errors] = []
    scales = _group_scales(expected)
    nan = ""
    mismatch: tuple[str, Mismatch] | None = None
    compared = 0
    ours, theirs = _leaves(actual), _leaves(expected)
    dtypes = {leaf.dtype for leaf in theirs.values() if _is_inexact(leaf)}
    for name in dict.fromkeys([*theirs, *ours]):
        if name not in ours or name not in theirs:
            mismatch = mismatch or _missing(name, ours, theirs)
            continue
        a, b = ours[name], theirs[name]
        if not isinstance(b, torch.Tensor):
            if isinstance(a, torch.Tensor) or not _same(a, b, dtypes):
                mismatch = mismatch or (f"{name}: {_kind(a)} instead of {_kind(b)}", "value")
            elif isinstance(b, NUMBERS) and _of_tensor(b) and (absolute := _distance(a, b)):
                relative = absolute / (_distance(b, 0) or 1.0)
                errors.append(Errors(False, relative / _widest(dtypes), absolute, relative, name))
            continue
        compared += 1
        if not isinstance(a, torch.Tensor) or (a.shape, a.dtype, a.device) != (b.shape, b.dtype, b.device):
            alike = isinstance(a, torch.Tensor) and (a.dtype, a.device) == (b.dtype, b.device)
            mismatch = mismatch or (f"{name}: {_kind(a)} instead of {_kind(b)}", "value" if alike else "unpaired")
            continue
        if not (nan or name.startswith("state")) and _is_inexact(b) and bool(b.isnan().any()):
            nan = name
        absolute, relative, close = tensor_error(a, b, scales.get(name, 0.0))
        own = eager = None
        judged, allowed = relative, TOLERANCE.get(b.dtype, 0.0)
        if (judge := exact.get(name)) is not None and judge.value.shape == a.shape:
            distances = [largest_distance(each, judge.value) for each in (a, b)]
            if judge.complete:
                own, eager = distances
            if summed := DISTURBANCES * judge.rounding / allowed:
                judged = min(judged, absolute / summed)
            same_places = bool((torch.isfinite(a) == torch.isfinite(b)).all())
            close = close or same_places and (distances[0] <= NO_WORSE * distances[1] or judged <= allowed)
        tolerances = (judged if close else relative) / allowed if allowed else math.inf * bool(absolute)
        errors.append(Errors(not close, tolerances, absolute, relative, name, own, eager))
        if not close:
            mismatch = mismatch or _elements(name, a, b)
    first, kind = mismatch or ("", "elements")
    worst = max(errors, key=lambda each: each.extent, default=Errors())
    where = worst.where if worst.absolute or worst.beyond else ""
    return Comparison(
        worst.absolute, worst.relative, where, first, compared, own_error=worst.own, eager_error=worst.eager, nan=nan,
        opaque=next((f"{name} ({leaf})" for name, leaf in theirs.items() if isinstance(leaf, Opaque)), ""),
        mismatch=kind,
    )  # fmt: skip


ROUNDINGS = 8
"""Units in the last place, of the largest value in a group of tensors, that an element of any of them may be off by."""


def tensor_error(a: torch.Tensor, b: torch.Tensor, group: float = 0.0) -> tuple[float, float, bool]:
    """(largest absolute error, that over the magnitude of `b`, whether all elements are within tolerance).

    `group` is the largest magnitude among the tensors that `b` was computed with. Where `b` is nothing but their
    rounding errors (the gradient of a bias before a batch norm is zero in exact arithmetic), it sets the magnitude.
    """
    a, b = a.detach(), b.detach()
    if b.numel() == 0 or b.is_meta:
        return 0.0, 0.0, True
    if not (b.is_floating_point() or b.is_complex()):
        wrong = (a != b).sum().item()
        return float(wrong), wrong / b.numel(), wrong == 0
    allowed = TOLERANCE[b.dtype]
    rounding = ROUNDINGS * torch.finfo(b.dtype).eps
    magnitude = max(_scale(b), group * rounding / allowed)
    smallest = torch.finfo(b.dtype).tiny  # a processor may flush what is smaller to zero
    close = torch.allclose(a, b, rtol=allowed, atol=allowed * magnitude + smallest, equal_nan=True)
    largest = largest_distance(a, b)
    return largest, largest / (magnitude or 1.0), close


def largest_distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest absolute difference between elements; those where it is not finite do not count."""
    wide = torch.complex128 if b.is_complex() else torch.float64
    difference = (a.detach().to(wide) - b.detach().to(wide)).abs()
    finite = difference[torch.isfinite(difference)]
    return finite.max().item() if finite.numel() else 0.0


def not_close(ours: object, eager: object, group: float = 0.0) -> bool:
    """Whether a value is beyond tolerance of eager's; numbers have to be equal."""
    if isinstance(eager, (tuple, list)) and isinstance(ours, (tuple, list)):
        return len(ours) != len(eager) or any(not_close(a, b, group) for a, b in zip(ours, eager, strict=True))
    if not isinstance(ours, torch.Tensor) or not isinstance(eager, torch.Tensor):
        return isinstance(ours, torch.Tensor) != isinstance(eager, torch.Tensor) or bool(ours != eager)
    return not same_kind(ours, eager) or not tensor_error(ours, eager, group)[2]


def errors_if_not_close(
    ours: Any, eager: Any, exact: Any, group: float = 0.0
) -> tuple[float | None, float | None] | None:
    """(our distance from the reference, eager's) if ours is beyond tolerance and further off, else None.

    Eager is the reference if `exact` is missing. A distance is None if it is not finite, or if the shapes differ.
    """
    if not not_close(ours, eager, group):
        return None
    if not same_kind(ours, eager) or bool((torch.isfinite(ours) != torch.isfinite(eager)).any()):
        return None, None
    if not isinstance(exact, torch.Tensor) or exact.shape != ours.shape:
        return largest_distance(ours, eager), None
    mine, theirs = largest_distance(ours, exact), largest_distance(eager, exact)
    return (mine, theirs) if mine > theirs else None


def same_kind(one: Any, other: Any) -> bool:
    both = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    return both and one.shape == other.shape and one.dtype == other.dtype


def _group_scales(values: Mapping[str, object]) -> dict[str, float]:
    """By name of each tensor: the largest magnitude of its dtype among the gradients, or the state. An output is judged
    by itself: one that is small beside another may be as wrong, and a float64 run tells it from rounding."""
    found: dict[str, float] = {}
    for group, of_group in values.items():
        if group == "output":
            continue
        tensors = {name: leaf for name, leaf in _leaves({group: of_group}).items() if _is_inexact(leaf)}
        largest: dict[torch.dtype, float] = {}
        for leaf in tensors.values():
            largest[leaf.dtype] = max(largest.get(leaf.dtype, 0.0), _scale(leaf.detach()))
        found.update((name, largest[leaf.dtype]) for name, leaf in tensors.items())
    return found


def _is_inexact(value: object) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()) and not value.is_meta


def _scale(b: torch.Tensor) -> float:
    finite = b[torch.isfinite(b)]
    return finite.abs().max().item() if finite.numel() else 0.0


def _leaves(values: Mapping[str, object]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= value if isinstance(value, Leaves) else leaves(value, name)
    for name, leaf in list(found.items()):
        if isinstance(leaf, torch.Tensor) and has_no_sizes(leaf):
            del found[name]
            found |= {f"{name}[{number}]": part for number, part in enumerate(leaf.detach().unbind())}
        elif isinstance(leaf, torch.Tensor) and leaf.layout not in LAYOUTS:
            found[name] = leaf.detach().to_dense()  # few operators take a sparse one
    return found


LAYOUTS = (torch.strided, torch.jagged)
MOST_SAID = 100
"""Characters of a value."""

NUMBERS = (float, complex, numpy.inexact)


def _missing(name: str, ours: Mapping[str, object], theirs: Mapping[str, object]) -> tuple[str, Mismatch]:
    if not isinstance(ours.get(name, theirs.get(name)), OutputLine):
        return f"{name} is {'missing' if name in theirs else 'there, and not in eager'}", "unpaired"
    return f"{name}: {ours.get(name, 'nothing')} instead of {theirs.get(name, 'nothing')}", "value"


def _elements(name: str, a: torch.Tensor, b: torch.Tensor) -> tuple[str, Mismatch]:
    """That elements are beyond tolerance; the first that is not finite has no error, so the values themselves."""
    unequal = (a != b) & ~(a.isnan() & b.isnan())
    odd = (unequal & ~(torch.isfinite(a) & torch.isfinite(b))).nonzero()
    if not len(odd):
        return name, "elements"
    at = tuple(odd[0].tolist())
    return f"{name}{list(at) if at else ''}: {a[at].item()} instead of {b[at].item()}", "value"


def _widest(dtypes: Collection[torch.dtype]) -> float:
    """The largest tolerance of these dtypes; float32's where none has one."""
    return max((TOLERANCE[dtype] for dtype in dtypes if dtype in TOLERANCE), default=TOLERANCE[torch.float32])


def _same(a: Any, b: Any, dtypes: Collection[torch.dtype]) -> bool:
    """Whether two leaves that are no tensors are alike; `dtypes` are those of the tensors beside them."""
    if type(a) is not type(b):
        return False
    if isinstance(b, OutputLine):
        return a.to == b.to and _same_text(a.text, b.text, _widest(dtypes))
    if not isinstance(b, NUMBERS):
        return bool(a == b)
    if _same_number(a, b):
        return True
    allowed = _widest([each for each in TOLERANCE if each in dtypes and _fits(a, each) and _fits(b, each)])
    return cmath.isfinite(a) and cmath.isfinite(b) and _distance(a, b) <= allowed * _distance(b, 0)


ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")
ROUNDED = 3
"""With so many digits after the point a number was perhaps rounded, and may be off by one in the last."""


def _same_text(a: str, b: str, allowed: float) -> bool:
    """Whether two lines are alike but for addresses, blanks between numbers, and numbers that are as close as those of
    results have to be."""
    texts = [ADDRESS.sub("0x", each) for each in (a, b)]
    words = [[" ".join(part.split()) for part in NUMBER.split(each)] for each in texts]
    pairs = zip(NUMBER.findall(texts[0]), NUMBER.findall(texts[1]), strict=False)
    return texts[0] == texts[1] or words[0] == words[1] and all(_same_digits(*each, allowed) for each in pairs)


def _same_digits(a: str, b: str, allowed: float) -> bool:
    if a.lstrip("+-").isdigit() or b.lstrip("+-").isdigit():
        return a == b
    digits, _, exponent = b.partition("e")
    places = len(digits.partition(".")[2])
    last = 10.0 ** (int(exponent or 0) - places) if places >= ROUNDED else 0.0
    one, other = float(a), float(b)
    return one == other or abs(one - other) <= allowed * abs(other) + 1.01 * last


def _same_number(a: object, b: object) -> bool:
    return bool(a == b or a != a and b != b)


def _fits(number: object, dtype: torch.dtype) -> bool:
    """Whether a tensor of this dtype may have held the number."""
    if isinstance(number, (complex, numpy.complexfloating)) and not dtype.is_complex:
        return False
    return _same_number(torch.tensor(number, dtype=dtype).item(), number)


def _of_tensor(number: object) -> bool:
    """Whether its error is a tensor's: that of another number, as a time of day, has another measure."""
    return _fits(number, torch.complex64)


def _distance(a: Any, b: Any) -> float:
    return float(abs(a - b)) if cmath.isfinite(a) and cmath.isfinite(b) else 0.0


def _kind(value: object) -> str:
    if not isinstance(value, torch.Tensor):
        text = repr(value)
        return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}…"
    return f"{value.dtype} of shape {tuple(value.shape)} on {value.device}"
