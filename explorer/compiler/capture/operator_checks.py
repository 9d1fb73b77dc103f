"""Whether an operator refuses, for their dtypes, arguments that its rule for fake tensors takes; one that indexes or is
given no elements, also for their shapes.

Which dtypes a kernel is there for, only the kernel says: it runs once, on zeros. LAPACK does not check pivots, which
count from 1: for these operators it runs on ones. Stock has no counterpart.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import types
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

MOST = 4096
"""Elements of the arguments and the results up to which sizes and numbers are the given ones. The larger ones of others
become `LARGE`, so that they stay equal where they are."""
LARGE = 5
ABOUT_DTYPES = re.compile(
    r"not implemented for '|[dD]ata ?type|\b(d|scalar |of )types?\b|can't be cast|cannot be (cast|converted)|overflow|"
    r"\b(bool|boolean|int|integers?|integral|float|floating|complex|real)\b|\b(Boolean|Bool|Byte|Char|Short|Int|Long)\b|"
    r"\b(Half|BFloat16|Float|Double|Complex\w*)\b"
)
"""What an error is about that sizes and values have no part in: the zeros have not those of the program."""
FLOATS = (frozenset({torch.float32}), frozenset({torch.float64}))
"""Every operator takes these, on their own, and numbers that both hold,"""
MAX_FLOAT32 = torch.finfo(torch.float32).max
OF_BITS = re.compile(r"bitwise_|gcd|lcm|_*[ri]?(and|or|xor|lshift|rshift|invert)_*$")
"""but for operators of these names."""
INDEXING = frozenset(
    """index_add index_copy index_fill index_put index_reduce index_select gather scatter scatter_add scatter_reduce
    take take_along_dim put masked_fill masked_scatter masked_select nll_loss cross_entropy embedding embedding_bag
    getitem setitem""".split()
)
"""Operators whose rules for fake tensors leave checks of shapes to the kernel; an index of zeros is a valid one."""
PLAIN = (
    bool, int, float, complex, str, types.NoneType, types.EllipsisType, torch.dtype, torch.device, torch.layout,
    torch.memory_format,
)  # fmt: skip


@dataclass(frozen=True)
class Filled:
    dtype: torch.dtype
    shape: tuple[int, ...]
    number: int


@dataclass(frozen=True)
class Plain:
    """A number or name; 1, 1.0 and True are different ones."""

    type: type
    value: Any


@dataclass(frozen=True)
class Group:
    type: type
    items: tuple[Hashable, ...]


class _Other(Exception):
    """An argument that none of these stands for."""


Hint = Callable[[torch.SymInt], int]


def refusal(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, hint: Hint) -> str:
    """What the operator, a function or the name of a method, says to arguments like these, of which its rule for fake
    tensors made `result`; "" where it takes them, or where that cannot be asked: on a GPU, whose generator a trial
    would move, say. What a size is for the traced inputs, as `hint` tells it, is no part of the answer."""
    usual = frozenset(_dtypes((*args, *kwargs.values()))) in FLOATS and not any(type(each) is bool for each in args)
    usual &= not any(type(each) is float and MAX_FLOAT32 < abs(each) < math.inf for each in (*args, *kwargs.values()))
    empty = any(_elements(each, hint) == 0 for each in tensors_in((args, tuple(kwargs.values()))))
    if usual and not empty and not OF_BITS.match(_name(target)):
        return ""
    if not may_run(target) or not all(tensor.device.type == "cpu" for tensor in tensors_in(result)):
        return ""
    try:
        most = None if _elements((args, dict(kwargs), result), hint) <= MOST else LARGE
        describe = _Describe(hint, most, int(_takes_pivots(_name(target))))
        given = describe(args), describe(dict(kwargs))
    except _Other:
        return ""
    settings = (
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.are_deterministic_algorithms_enabled(),
    )
    shapes = (empty or _name(target).strip("_") in INDEXING) and most is None and not _sets_by_mask(target, args)
    said, sizes = _asked(target, given, settings, shapes)
    if said or not empty or most is not None:
        return said
    expected = tuple(tuple(_number(n, hint, most) for n in tensor.shape) for tensor in tensors_in(result))
    return "" if sizes in (None, expected) else f"gives sizes {sizes}, its rule for fake tensors {expected}"


class Operators(TorchDispatchMode):
    """What is called inside of a function that is one node: operators, arguments and results."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, tuple[Any, ...], Mapping[str, Any], Any]] = []

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result


def may_run(target: Any) -> bool:
    """Whether it is an operator of torch that can be tried: no private one, which may check nothing."""
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        return str(target).startswith("aten.") and not str(target).startswith("aten._")
    if isinstance(target, HigherOrderOperator):
        return False
    name, module = _name(target), getattr(target, "__module__", None) or "torch"
    if not isinstance(target, str) and module.partition(".")[0] not in ("torch", "_operator"):
        return False
    return not name.startswith("_") or name.startswith("__") or module == "torch.nn.functional"


def _sets_by_mask(target: Any, args: tuple[Any, ...]) -> bool:
    """Whether how many values are wanted is up to a mask, which is not one of zeros."""
    if _name(target).strip("_") not in ("setitem", "index_put", "masked_scatter"):
        return False
    masks = any(tensor.dtype in (torch.bool, torch.uint8) for tensor in tensors_in(args[1]))
    return masks and any(tensor.dim() for tensor in tensors_in(args[2:]))


def _name(target: Any) -> str:
    """As in Python, for an overload too."""
    return target if isinstance(target, str) else getattr(target, "__name__", "_").partition(".")[0]


@functools.cache
def _takes_pivots(name: str) -> bool:
    """Whether the operator takes a tensor of pivots, by the arguments' names in torch's schemas."""
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return any("pivots" in argument.name for schema in schemas for argument in schema.arguments)


def _dtypes(values: Iterable[Any]) -> Iterator[torch.dtype]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _dtypes(value)
        elif isinstance(value, torch.dtype):
            yield value
        elif isinstance(value, torch.Tensor):
            yield value.dtype


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors among arguments, and in the lists among them."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [each for item in value for each in tensors_in(item)] if isinstance(value, (tuple, list)) else []


def memory_of(value: Any) -> list[int]:
    """The storages of the tensors among arguments; a tensor of torch.func's transforms has none."""
    return [each.untyped_storage()._cdata for each in tensors_in(value) if torch._C._has_storage(each)]


def _elements(value: Any, hint: Hint) -> int:
    if isinstance(value, torch.Tensor):
        return math.prod(_number(size, hint, None) for size in value.shape)
    if isinstance(value, (tuple, list, dict)):
        return sum(_elements(item, hint) for item in (value.values() if isinstance(value, dict) else value))
    return 0


@dataclass(frozen=True)
class _Describe:
    """Makes of a value one that equals that of other arguments to which the answer is the same. Raises _Other. Tensors
    are filled with `number`."""

    hint: Hint
    most: int | None
    number: int

    def __call__(self, value: Any) -> Hashable:
        if isinstance(value, torch.Tensor):
            if type(value) is not FakeTensor or value.layout != torch.strided or value.device.type != "cpu":
                raise _Other
            return Filled(value.dtype, tuple(_number(size, self.hint, self.most) for size in value.shape), self.number)
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            return Plain(int, _number(value, self.hint, self.most))
        if isinstance(value, PLAIN):
            return Plain(type(value), value)
        if isinstance(value, torch.SymFloat):
            return Plain(float, 1.0)
        if isinstance(value, slice):
            return Group(slice, tuple(map(self, (value.start, value.stop, value.step))))
        if type(value) in (tuple, list, torch.Size):
            return Group(list if type(value) is list else tuple, tuple(map(self, value)))
        if type(value) is dict:
            return Group(dict, tuple((name, self(item)) for name, item in value.items()))
        raise _Other


def _number(value: Any, hint: Hint, most: int | None) -> int:
    number = hint(value) if isinstance(value, torch.SymInt) else int(value)
    return number if most is None else min(number, most)


@functools.lru_cache(maxsize=4096)
def _asked(
    target: Any, given: tuple[Hashable, Hashable], settings: tuple[Any, ...], shapes: bool
) -> tuple[str, tuple[tuple[int, ...], ...] | None]:
    """What the operator says, or else the sizes of what it makes; `settings` are those of the process that the answer
    depends on."""
    args, kwargs = map(_made, given)
    function = operator.methodcaller(target, *args[1:], **kwargs) if isinstance(target, str) else None
    chance = torch.get_rng_state()
    try:
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            made = function(args[0]) if function else target(*args, **kwargs)
            return "", tuple(tuple(tensor.shape) for tensor in tensors_in(made))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        said = str(error).strip().partition("\n")[0]
        by_number = said == "ZeroDivisionError" and len(tensors_in((args, tuple(kwargs.values())))) == 1
        return said if shapes or ABOUT_DTYPES.search(said) or (by_number and tensors_in(args[:1])) else "", None
    except Exception:  # about the zeros, then
        return "", None
    finally:
        torch.set_rng_state(chance)


def _made(given: Any) -> Any:
    if isinstance(given, Filled):
        return torch.full(given.shape, given.number, dtype=given.dtype)
    if isinstance(given, Plain):
        return given.value
    if given.type is dict:
        return {name: _made(item) for name, item in given.items}
    items = tuple(map(_made, given.items))
    return slice(*items) if given.type is slice else given.type(items)
