"""What a run leaves behind, as facts that can be compared: results, arguments, the world, exceptions, output."""

from __future__ import annotations

import collections
import itertools
import re
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

PLAIN = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, type(...), range, slice)
ENDLESS = (itertools.count, itertools.cycle, itertools.repeat)
MOST_ITEMS = 30
EXACT = (torch.float64, torch.complex128)
TOLERANCE = {**dict.fromkeys(EXACT, 1e-9), torch.float16: 2e-2, torch.bfloat16: 6e-2}
ROUNDING = 2e-5
UNDETERMINED = 1.0
"""The tolerance of an integer or truth that rounding decides, and of what is computed from it."""
ADDRESS = re.compile(r"0x[0-9a-f]+|at 0x\w+")
GRAD_FUNCTION = re.compile(r"Function \w+Backward0? returned")
GRADIENT = re.compile(r"invalid gradient at index \d+")
"""The place among what a function takes, which a graph is too."""
OUT_OF_BOUNDS = re.compile(r"(index -?\d+ is out of bounds for dimension 0 with size) \d+")
"""Of a tensor of no dimension, torch tells whatever lies behind its sizes."""
PRINTED_FUNCTION = re.compile(r"grad_fn=<\w+>")
ONE_OF_SEVERAL = re.compile(r"Output \d+ of \w+ is a view")
MADE_BY = re.compile(r"which is output \d+ of \w+")
INTEGER = re.compile(r"(?<![\d.])-?\d+(?![\d.])")
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
UNBOUND = re.compile(r"cannot access (?:local|free) variable '(\w+)'")
SILENT = {"__slotnames__", "__module__", "__dict__", "__weakref__", "__doc__", "__annotations__", "__slots__"}


@dataclass(frozen=True)
class Fact:
    """Something seen at a place: text, and the values of a tensor or number, which need not be equal to the bit."""

    place: str
    text: str
    value: Any = None
    coarse: float = 0.0
    """The tolerance of the coarsest dtype in which the value was rounded on its way."""


class Precision(TorchDispatchMode):
    """While a program runs inside, notes the memory of what is computed from rounded numbers of less than float64, and
    with which tolerance. A `trial` other than 0 rounds each of them another way, by as much as a sum in another order
    may differ."""

    def __init__(self, trial: int = 0) -> None:
        super().__init__()
        self._rounding = torch.Generator().manual_seed(trial) if trial else None
        self._coarse: dict[int, tuple[float, Tensor]] = {}
        """By the address of the memory, which the tensor keeps from being used again."""
        self.read = 0.0
        """The tolerance of the numbers that Python has read: they may be in all that follows."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [each for each in tree_leaves((args, kwargs or {})) if isinstance(each, Tensor)]
        coarse = max([self.read, *map(self.tolerance, given)])
        moves = [partial(self._moved, Random(trial), trial) for trial in range(4)] if coarse else []
        others = [tree_map(move, (args, kwargs or {})) for move in moves]
        found = self._rounded_otherwise(func, args, kwargs or {}) if self._rounding else func(*args, **(kwargs or {}))
        made = [each for each in tree_leaves(found) if isinstance(each, Tensor)]
        written = given if func._schema.is_mutable else []
        results = [*made, *written]
        if coarse and not all(map(_floats, results)) and (coarse >= UNDETERMINED or _decided(func, others, results)):
            self._note(UNDETERMINED, (each for each in results if not _floats(each)))
        if not _is_exact(func, args, kwargs or {}, [*made, *written], found):
            narrow = filter(_is_narrow, (*given, *made))
            coarse = max([coarse, *(TOLERANCE.get(each.dtype, ROUNDING) for each in narrow)])
        if coarse:
            if func is torch.ops.aten._local_scalar_dense.default:
                self.read = coarse
            self._note(coarse, filter(_floats, results))
        return found

    def _rounded_otherwise(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What a call yields, computed in float64 from numbers that are moved, and rounded then. An exact result is
        left as it is, but for the bits of what is not a number."""
        if func.is_view or torch.Tag.nondeterministic_seeded in func.tags:
            return func(*args, **kwargs)
        wide, moved = (
            tree_map(change, (args, kwargs)) for change in (_copied, lambda each: self._nudged(_copied(each)))
        )
        found = func(*args, **kwargs)
        results = tree_leaves(found)
        try:
            exact, other = (tree_leaves(func(*each[0], **each[1])) for each in (wide, moved))
        except Exception:
            return found  # an operator of one dtype
        is_exact = all(_close(one, two, 0.0) for one, two in zip(results, exact, strict=True) if _is_narrow(one))
        for one, two in zip(results, exact if is_exact else other, strict=True):
            if type(one) is not Tensor or torch._debug_has_internal_overlap(one) != 0:
                continue
            if not is_exact:
                one.copy_(self._nudged(two))
            if _is_narrow(one) and bool(one.isnan().any()):
                one[one.isnan()] = torch.nan
        return found

    def _nudged(self, value: Any) -> Any:
        """Each of the numbers of a wide tensor moved by up to two roundings of float32."""
        if type(value) is not Tensor or value.dtype not in EXACT or value.is_meta:
            return value
        way = torch.rand(value.shape, generator=self._rounding, dtype=torch.float64) * 2 - 1
        return value * (1 + way * 2 * torch.finfo(torch.float32).eps)

    def _note(self, coarse: float, values: Iterable[Tensor]) -> None:
        held = filter(_has_values, values)
        self._coarse.update((each.untyped_storage().data_ptr(), (coarse, each)) for each in held)

    def tolerance(self, value: Tensor) -> float:
        return self._coarse.get(value.untyped_storage().data_ptr(), (0.0, value))[0] if _has_values(value) else 0.0

    def _moved(self, random: Random, trial: int, value: Any) -> Any:
        """A number as far up, down or either way as it may be rounded."""
        signs = ((1.0,), (-1.0,), (1.0, -1.0), (1.0, -1.0))[trial]
        if isinstance(value, float):
            return value + random.choice(signs) * self.read * max(abs(value), 0.5)
        if not isinstance(value, Tensor) or not _has_values(value):
            return value
        far = self.tolerance(value)
        if not _floats(value) or not far:
            return value.clone()
        finite = value[value.isfinite()].abs()
        way = torch.tensor(random.choices(signs, k=value.numel())).reshape(value.shape)
        return (value + way * far * max(float(finite.max()) if finite.numel() else 0.0, 0.5)).to(value.dtype)


def _is_exact(func: Any, args: Any, kwargs: Any, results: list[Tensor], found: Any) -> bool:
    """Whether a call yields what it yields in float64."""
    if func.is_view or not any(map(_is_narrow, results)):
        return True
    if func._schema.is_mutable:
        return func in (torch.ops.aten.fill_.Scalar, torch.ops.aten.zero_.default, torch.ops.aten.copy_.default)
    if torch.Tag.nondeterministic_seeded in func.tags:
        return False
    try:
        wide = func(*tree_map(_widened, args), **tree_map(_widened, kwargs))
    except Exception:
        return False
    pairs = zip(tree_leaves(found), tree_leaves(wide), strict=True)
    return all(_close(one, other, 0.0) for one, other in pairs if isinstance(one, Tensor))


def _decided(func: Any, others: list[Any], results: list[Tensor]) -> bool:
    """Whether arguments that are rounded another way yield other integers or truths."""
    for args, kwargs in others:
        try:
            found = func(*args, **kwargs)
        except Exception:
            return False
        leaves = tree_leaves((found, args, kwargs) if func._schema.is_mutable else found)
        pairs = zip(results, (each for each in leaves if isinstance(each, Tensor)), strict=True)
        if not all(_floats(one) or torch.equal(one, other) for one, other in pairs):
            return True
    return False


def _is_narrow(value: Any) -> bool:
    return isinstance(value, Tensor) and _floats(value) and value.dtype not in EXACT


def _widened(value: Any) -> Any:
    if isinstance(value, torch.dtype) and (value.is_floating_point or value.is_complex):
        return torch.complex128 if value.is_complex else torch.float64
    return value.to(_widened(value.dtype)) if _is_narrow(value) else value


def _copied(value: Any) -> Any:
    """Widened, and in memory of its own."""
    return _widened(value.clone() if isinstance(value, Tensor) else value)


def _has_values(value: Tensor) -> bool:
    return value.layout is torch.strided and value.numel() > 0


def _floats(value: Tensor) -> bool:
    return _has_values(value) and (value.is_floating_point() or value.is_complex())


@dataclass
class Observer:
    """Walks values; an object met again is told by where it was met first, so that aliases are facts."""

    precision: Precision | None = None
    facts: list[Fact] = field(default_factory=list)
    met: dict[int, str] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    memory: list[tuple[int, int, str, int]] = field(default_factory=list)
    """Where the storage of each tensor begins and ends, the tensor's place, and where it begins itself."""

    def tell(self, place: str, text: str, value: Any = None, of: Tensor | None = None) -> None:
        coarse = 0.0
        if self.precision is not None:
            coarse = self.precision.tolerance(of) if of is not None else self.precision.read
        text = OUT_OF_BOUNDS.sub(r"\1", PRINTED_FUNCTION.sub("grad_fn=<...>", text))
        self.facts.append(Fact(place, text, value, coarse))

    def finish(self) -> list[Fact]:
        shared: list[tuple[str, int]] = []
        found: list[str] = []
        reach = 0
        for start, end, place, first in [*sorted(self.memory), (sys.maxsize, 0, "", 0)]:
            if start >= reach:
                if len(shared) > 1:
                    shared.sort()
                    told = ", ".join(f"{each}+{address - shared[0][1]}" for each, address in shared)
                    found.append(told)
                shared = []
            reach = max(reach, end)
            shared.append((place, first))
        for told in sorted(found):  # by address they come in another order each time
            self.tell("memory shared", told)
        return self.facts

    def see(self, place: str, value: Any) -> None:
        if isinstance(value, float) and not isinstance(value, np.generic):
            return self.tell(place, "float", value)
        if isinstance(value, PLAIN) and not isinstance(value, np.generic):
            return self.tell(place, f"{type(value).__name__} {value!r}")
        if isinstance(value, types.CodeType | types.ModuleType | types.BuiltinFunctionType | property):
            return self.tell(place, type(value).__name__)
        if id(value) in self.met and not _hashed_by_value(value):
            return self.tell(place, f"is {self.met[id(value)]}")
        self.met[id(value)] = place
        self.kept.append(value)
        if isinstance(value, Tensor):
            self._tensor(place, value)
        elif isinstance(value, np.ndarray | np.generic):
            self.tell(place, f"{type(value).__name__} {value.dtype} {value.shape}", np.array(value))
        elif isinstance(value, BaseException):
            self.error(place, value)
        elif isinstance(value, type):
            self._class(place, value)
        else:
            self._other(place, value)

    def _other(self, place: str, value: Any) -> None:
        self.tell(place, type(value).__name__)
        if isinstance(value, types.FunctionType):
            self._parts(place, "cell", [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)])
            self._parts(place, "default", value.__defaults__ or ())
            self._named(place, vars(value))
        elif isinstance(value, dict):
            self.tell(place, f"keys {[_key(key) for key in value]}")
            self._parts(place, "", value.values())
        elif isinstance(value, list | tuple | collections.deque):
            self._parts(place, "", value)
        elif isinstance(value, set | frozenset):
            self.tell(place, str(sorted(map(str, value))))
        elif isinstance(value, types.MethodType):
            self.see(f"{place}.__self__", value.__self__)
        elif isinstance(value, Iterator):
            self._iterator(place, value)
        if hasattr(value, "__dict__") and not isinstance(value, types.FunctionType | Iterator):
            self._named(place, vars(value), isinstance(value, nn.Module))
        for name in getattr(type(value), "__slots__", ()):
            if hasattr(value, name):
                self.see(f"{place}.{name}", getattr(value, name))

    def _parts(self, place: str, name: str, values: Any) -> None:
        values = list(values)
        self.tell(f"{place}.{name}", f"{len(values)}")
        for number, each in enumerate(values[:MOST_ITEMS]):
            self.see(f"{place}.{name}[{number}]", each)

    def _named(self, place: str, values: dict[str, Any], brief: bool = False) -> None:
        shown = {name: each for name, each in values.items() if not (brief and isinstance(each, dict) and not each)}
        self.tell(place, f"attributes {list(shown)}")
        for name, each in shown.items():
            self.see(f"{place}.{name}", each)

    def _class(self, place: str, value: type) -> None:
        self.tell(place, f"class {value.__name__}")
        if value.__module__ == "random_program":
            for name, each in list(vars(value).items()):
                if name not in SILENT and not callable(each) and isinstance(each, (*PLAIN, Tensor, list, dict)):
                    self.see(f"{place}.{name}", each)

    def _iterator(self, place: str, value: Any) -> None:
        """What it still yields; this uses it up."""
        if isinstance(value, ENDLESS):
            return self.tell(place, repr(value) if isinstance(value, itertools.count) else type(value).__name__)
        for number in range(MOST_ITEMS):
            try:
                self.see(f"{place}.next{number}", next(value))
            except StopIteration:
                return self.tell(place, f"ends after {number}")
            except Exception as error:
                return self.error(place, error)

    def error(self, place: str, error: BaseException) -> None:
        text = str(error).partition("\nException raised from ")[0]  # the frames of C++ follow
        text = GRAD_FUNCTION.sub("Function returned", ADDRESS.sub("0x", text))
        text = ONE_OF_SEVERAL.sub("Output of a function is a view", text)
        text = GRADIENT.sub("invalid gradient", text)
        text = MADE_BY.sub("which is output of a function", text)
        name = type(error).__name__
        if found := UNBOUND.match(text):  # a local that closures share is a free variable after a break
            name, text = "NameError", f"{found[1]} is unbound"
        cause = type(error.__cause__).__name__ if error.__cause__ is not None else "-"
        self.tell(place, f"raised {name}: {text} | cause {cause}")

    def _tensor(self, place: str, value: Tensor) -> None:
        if torch._C._functorch.is_batchedtensor(value):  # it left its vmap, and no operator takes it
            self.tell(place, f"batched {value.dtype} {tuple(value.shape)} {torch._C._functorch.maybe_get_bdim(value)}")
            return self.see(f"{place}.batch", torch._C._functorch.get_unwrapped(value))
        try:
            plain = value.layout == torch.strided and type(value) in (Tensor, nn.Parameter, nn.Buffer)
        except Exception:
            plain = False
        if not plain:
            return self._wrapped(place, value)
        strides = [step for step, size in zip(value.stride(), value.shape, strict=True) if size > 1 < value.numel()]
        try:
            flags = [name for name in ("requires_grad", "is_leaf", "retains_grad") if getattr(value, name)]
        except RuntimeError as error:  # a view that autograd forbids, since its base was modified
            return self.error(place, error)
        flags += [name for name in ("is_conj", "is_neg", "is_inference") if getattr(value, name)()]
        flags += ["meta"] * value.is_meta
        shown = f"{type(value).__name__} {value.dtype} {tuple(value.shape)} strides {tuple(strides)} {' '.join(flags)}"
        with torch.no_grad():
            self.tell(place, shown, value.detach().clone() if not value.is_inference() else _copy(value), value)
        if value.numel():
            storage = value.untyped_storage()
            start = storage.data_ptr()
            self.memory.append((start, start + storage.nbytes(), place, value.data_ptr()))
        if value.is_leaf or value.retains_grad:
            gradient = value.grad
            if gradient is None:
                self.tell(f"{place}.grad", "None")
            else:
                self.tell(f"{place}.grad", f"{gradient.dtype} {tuple(gradient.shape)}", _copy(gradient), gradient)
        if own := {name: each for name, each in vars(value).items() if not name.startswith("_dynamo")}:
            self._named(place, own)

    def _wrapped(self, place: str, value: Tensor) -> None:
        """One of another layout or class: what it is made of."""
        self.tell(place, f"tensor {type(value).__name__} {value.layout} {value.dtype} {tuple(value.shape)}")
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            if hasattr(value, "__tensor_flatten__"):
                for name in value.__tensor_flatten__()[0]:
                    self.see(f"{place}.{name}", getattr(value, name))
            elif value.layout is torch.sparse_coo:
                self.tell(f"{place}.is_coalesced", str(value.is_coalesced()))
                self.see(f"{place}.indices", value._indices().clone())
                self.see(f"{place}.values", value._values().clone())
            elif value.layout is torch.strided:
                self.tell(f"{place}.values", f"{value.requires_grad}", value.detach().as_subclass(Tensor).clone())
                self._named(place, {name: each for name, each in vars(value).items() if not name.startswith("_dynamo")})
            else:
                with torch.inference_mode(value.is_inference()):
                    try:
                        dense = value.to_dense().clone()
                    except Exception as error:  # its indices need not lie inside its shape
                        return self.error(place, error)
                    self.see(f"{place}.values", dense)


def _copy(value: Tensor) -> Tensor:
    with torch.inference_mode():
        return value.clone()


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _hashed_by_value(value: Any) -> bool:
    """Whether its identity means nothing."""
    return isinstance(value, tuple | frozenset | np.generic | types.MethodType) or (
        type(value) in (list, dict) and not value
    )


def _key(key: Any) -> str:
    return repr(key) if isinstance(key, PLAIN) else type(key).__name__


def same(one: Fact, other: Fact, exact: bool) -> bool:
    if one.place != other.place:
        return False
    if one.text != other.text:
        is_text = one.place == "output" or one.text.startswith("str ") and other.text.startswith("str ")
        printed = not exact and is_text and _same_printed(one.text, other.text)
        counted = is_text or one.text.startswith("int ") and other.text.startswith("int ")
        return printed or not exact and one.coarse > 0 and counted and _next_to(one.text, other.text)
    if isinstance(one.value, Tensor):
        return _close(one.value, other.value, 1e-6 if exact else _tolerance(one))
    if isinstance(one.value, np.ndarray):
        if one.value.dtype == object:
            return str(one.value) == str(other.value)
        return bool(np.allclose(one.value, other.value, rtol=1e-4, atol=1e-5, equal_nan=True))
    if isinstance(one.value, float):
        return _close_numbers([one.value], [other.value], 1e-6 if exact else _tolerance(one))
    return True


def distance(one: Fact, other: Fact) -> float:
    """The largest difference of numbers of the same shape; 0 of what is no float."""
    if not all(isinstance(each.value, float) or isinstance(each.value, Tensor) and _floats(each.value)
               for each in (one, other)):  # fmt: skip
        return 0.0
    first, second = (torch.as_tensor(each.value).to(torch.complex128) for each in (one, other))
    apart = torch.where(first == second, 0.0, (first - second).abs())
    both = first.isnan() & second.isnan()
    return float(torch.where(both, 0.0, apart.nan_to_num(torch.inf, posinf=torch.inf)).max())


def _tolerance(fact: Fact) -> float:
    """Of a float computed from an integer that rounding decides, that of the coarsest dtype."""
    if isinstance(fact.value, Tensor) and not _floats(fact.value):
        return fact.coarse
    own = TOLERANCE.get(fact.value.dtype, ROUNDING) if isinstance(fact.value, Tensor) else ROUNDING
    return max(own, min(fact.coarse, max(TOLERANCE.values())))


def _same_printed(one: str, other: str) -> bool:
    """Whether texts differ only in the rounding of numbers."""
    found = [[float(each) for each in NUMBER.findall(text)] for text in (one, other)]
    return NUMBER.sub("0.0", one) == NUMBER.sub("0.0", other) and _close_numbers(*found, ROUNDING)


def _next_to(one: str, other: str) -> bool:
    """Whether texts differ only in integers that rounding a number up or down decides."""
    if INTEGER.sub("0", one) != INTEGER.sub("0", other):
        return False
    pairs = zip(INTEGER.findall(one), INTEGER.findall(other), strict=True)
    return all(abs(int(a) - int(b)) <= 1 for a, b in pairs)


def _close_numbers(one: list[float], other: list[float], tolerance: float) -> bool:
    """As a tensor's: most are made of one."""
    return _close(*(torch.tensor(each, dtype=torch.float64) for each in (one, other)), tolerance)


def _close(one: Tensor, other: Tensor, tolerance: float) -> bool:
    if one.is_meta:  # no values; where only one is, their texts differ
        return True
    one, other = one.flatten(), other.flatten()  # unsqueeze() makes more dimensions than operators take
    if not (one.is_floating_point() or one.is_complex()):
        return tolerance >= UNDETERMINED or torch.equal(one, other)
    wide = torch.complex128 if one.is_complex() else torch.float64
    with torch.inference_mode():
        one, other = one.to(wide), other.to(wide)
        finite = one[one.isfinite()].abs()
        scale = float(finite.max()) if finite.numel() else 1.0
        return torch.allclose(one, other, rtol=tolerance * 10, atol=tolerance * max(scale, 0.5), equal_nan=True)


def difference(expected: list[Fact], got: list[Fact], exact: bool) -> tuple[Fact | None, Fact | None] | None:
    """The first fact that differs, as eager has it and as the compiled program has it."""
    for one, other in zip(expected, got, strict=False):
        if not same(one, other, exact):
            return one, other
    if len(expected) > len(got):
        return expected[len(got)], None
    if len(got) > len(expected):
        return None, got[len(expected)]
    return None
