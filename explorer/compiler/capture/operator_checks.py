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
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from explorer.ir.graph import IN_PLACE, aten_operator, innermost, is_in_place, storage_of

MOST = 4096
"""Elements of the arguments and the results up to which sizes and numbers are the given ones. The larger ones of others
become `LARGE`, so that they stay equal where they are."""
LARGE = 5
ABOUT_DTYPES = re.compile(
    r"not implemented for '|[dD]ata ?type|\b(d|scalar |of )types?\b|can't be cast|cannot be (cast|converted)|overflow|"
    r"\b(bool|boolean|int|integers?|integral|float|floating|complex|real)\b|\b(Boolean|Bool|Byte|Char|Short|Int|Long)\b|"
    r"\b(Half|BFloat16|Float|Double|Complex\w*)\b"
)
"""Words of errors that do not depend on sizes and values: the zeros do not have the program's."""
FLOATS = (frozenset({torch.float32}), frozenset({torch.float64}))
"""Every operator takes these, on their own, and numbers that both hold,"""
MAX_FLOAT32 = torch.finfo(torch.float32).max
OF_INTEGERS = re.compile(r"bitwise_|gcd|lcm|_*[ri]?(and|or|xor|lshift|rshift|invert)_*$|repeat_interleave|searchsorted")
"""except operators of these names, and operators that index by a tensor."""
INDEXING = frozenset(
    """index_add index_copy index_fill index_put index_reduce index_select gather scatter scatter_add scatter_reduce
    take take_along_dim put masked_fill masked_scatter masked_select nll_loss cross_entropy embedding embedding_bag
    getitem setitem""".split()
)
"""Operators whose rules for fake tensors leave checks of shapes to the kernel; an index of zeros is a valid one."""
LEAST_RANK = {"batch_norm": 2, "instance_norm": 2}
"""Operators that do not check the rank of their first input: a smaller one ends the process if sizes are symbols."""
PLAIN = (
    bool, int, float, complex, str, types.NoneType, types.EllipsisType, torch.dtype, torch.device, torch.layout,
    torch.memory_format,
)  # fmt: skip


@dataclass(frozen=True)
class Filled:
    dtype: torch.dtype
    shape: tuple[int, ...]
    number: int
    requires_grad: bool


@dataclass(frozen=True)
class Plain:
    """A number or name; 1, 1.0 and True are different ones."""

    type: type
    value: Any


@dataclass(frozen=True)
class CheckGroup:
    type: type
    items: tuple[Hashable, ...]


class _Other(Exception):
    """The argument cannot be described by these classes."""


Hint = Callable[[Any], int]


def refused(target: object, args: tuple[object, ...], kwargs: Mapping[str, object], result: object, hint: Hint) -> str:
    """What the operator, a function or the name of a method, says to arguments like these, of which its rule for fake
    tensors made `result`; "" where it takes them, or where that cannot be asked: on a GPU, whose generator a trial
    would move, say. What a size is for the traced inputs, as `hint` tells it, is no part of the answer."""
    every = (*args, *kwargs.values())
    tensors = tensors_in(every)
    name = _name(target)
    empty, indexing = any(_is_empty(each, hint) for each in tensors), _indexes(name)
    if not (empty or _takes_integers(name) or indexing and len(tensors) > 1) and _are_usual(args, kwargs, every):
        return ""
    if not may_run(target) or not all(tensor.device.type == "cpu" for tensor in tensors_in(result)):
        return ""
    try:
        most = None if _elements((args, dict(kwargs), result), hint) <= MOST else LARGE
        describe = _Describe(hint, most, int(_takes_pivots(name)))
        given = describe(args), describe(dict(kwargs))
    except _Other:
        return ""
    settings = (
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.are_deterministic_algorithms_enabled(),
    )
    shapes = (empty or indexing) and most is None and not _sets_by_mask(target, args)
    message, sizes = _asked(target, given, settings, shapes)
    if message or not empty or most is not None:
        return message
    expected = tuple(tuple(_size_hint(n, hint, most) for n in tensor.shape) for tensor in tensors_in(result))
    return "" if sizes in (None, expected) else f"gives sizes {sizes}, its rule for fake tensors {expected}"


def _are_usual(args: Sequence[object], kwargs: Mapping[str, object], every: Sequence[object]) -> bool:
    """Whether every operator takes the dtypes of these, and the numbers among them."""
    if frozenset(_dtypes(every)) not in FLOATS:
        return False
    for each in every:
        if type(each) is float and MAX_FLOAT32 < abs(each) < math.inf:
            return False
    factors = [kwargs[each] for each in ("alpha", "beta", "value") if each in kwargs] if kwargs else []
    return not any(type(each) is bool for each in (*args, *factors))


@functools.cache
def _indexes(name: str) -> bool:
    return name.strip("_") in INDEXING


@functools.cache
def _takes_integers(name: str) -> bool:
    return OF_INTEGERS.match(name) is not None


def lacks_dimensions(target: object, given: Sequence[torch.Tensor]) -> str:
    """What is wrong with the rank of an operator's first input, of those that do not check it; "" where nothing is."""
    least = LEAST_RANK.get(_name(target), 0)
    return f"takes {least} dimensions or more, got {given[0].dim()}" if given and given[0].dim() < least else ""


class Operators(TorchDispatchMode):
    """The operators that a function calls which is one node, with their arguments and results."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, tuple[Any, ...], Mapping[str, Any], Any]] = []

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[object, ...] = (), kwargs: Mapping[str, object] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result


def may_run(target: object) -> bool:
    """Whether it is an operator of torch, or of NumPy on tensors, that can be tried: no private one, which may check
    nothing."""
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        return str(target).startswith("aten.") and not str(target).startswith("aten._")
    if isinstance(target, HigherOrderOperator):
        return False
    name, module = _name(target), getattr(target, "__module__", None) or "torch"
    if not isinstance(target, str) and module.partition(".")[0] not in ("torch", "_operator", "numpy"):
        return False
    return not name.startswith("_") or name.startswith("__") or module == "torch.nn.functional"


def _sets_by_mask(target: object, args: tuple[object, ...]) -> bool:
    """Whether how many values are wanted is up to a mask, which is not one of zeros."""
    if _name(target).strip("_") not in ("setitem", "index_put", "masked_scatter"):
        return False
    masks = any(tensor.dtype in (torch.bool, torch.uint8) for tensor in tensors_in(args[1]))
    return masks and any(tensor.dim() for tensor in tensors_in(args[2:]))


def _name(target: object) -> str:
    """As in Python, for an overload too."""
    return target if isinstance(target, str) else getattr(target, "__name__", "_").partition(".")[0]


@functools.cache
def _takes_pivots(name: str) -> bool:
    """Whether the operator takes a tensor of pivots, by the arguments' names in torch's schemas."""
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return any("pivots" in argument.name for schema in schemas for argument in schema.arguments)


def _dtypes(values: Iterable[object]) -> Iterator[torch.dtype]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value.dtype
        elif isinstance(value, (tuple, list)):
            yield from _dtypes(value)
        elif isinstance(value, torch.dtype):
            yield value


def tensors_in(value: object) -> list[torch.Tensor]:
    """The tensors among arguments, and in the lists among them."""
    if isinstance(value, torch.Tensor):
        return [value]
    found: list[torch.Tensor] = []
    if isinstance(value, (tuple, list)):
        for item in value:
            if isinstance(item, torch.Tensor):
                found.append(item)
            elif isinstance(item, (tuple, list)):
                found += tensors_in(item)
    return found


def memory_of(value: object) -> list[int]:
    """The storages of the tensors among arguments; a tensor of torch.func's transforms has none."""
    return [each.untyped_storage()._cdata for each in tensors_in(value) if torch._C._has_storage(each)]


def _is_empty(tensor: torch.Tensor, hint: Hint) -> bool:
    return any(size == 0 if type(size) is int else _size_hint(size, hint, None) == 0 for size in tensor.shape)


def _elements(value: object, hint: Hint) -> int:
    if isinstance(value, torch.Tensor):
        return math.prod(_size_hint(size, hint, None) for size in value.shape)
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
            known = type(value) is FakeTensor or torch._C._functorch.is_functorch_wrapped_tensor(value)
            if not known or value.layout != torch.strided or value.device.type != "cpu":
                raise _Other
            sizes = tuple(_size_hint(size, self.hint, self.most) for size in value.shape)
            return Filled(value.dtype, sizes, self.number, torch.is_grad_enabled() and value.requires_grad)
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            return Plain(int, _size_hint(value, self.hint, self.most))
        if isinstance(value, PLAIN):
            return Plain(type(value), value)
        if isinstance(value, torch.SymFloat):
            return Plain(float, 1.0)
        if isinstance(value, slice):
            return CheckGroup(slice, tuple(map(self, (value.start, value.stop, value.step))))
        if type(value) in (tuple, list, torch.Size):
            return CheckGroup(list if type(value) is list else tuple, tuple(map(self, value)))
        if type(value) is dict:
            return CheckGroup(dict, tuple((name, self(item)) for name, item in value.items()))
        raise _Other


def _size_hint(value: Any, hint: Hint, most: int | None) -> int:
    number = hint(value) if isinstance(value, torch.SymInt) else int(value)
    return number if most is None else min(number, most)


@functools.lru_cache(maxsize=4096)
def _asked(
    target: Callable[..., object], given: tuple[Hashable, Hashable], settings: tuple[object, ...], shapes: bool
) -> tuple[str, tuple[tuple[int, ...], ...] | None]:
    """What the operator says, or else the sizes of what it makes; `settings` are those of the process that the answer
    depends on."""
    with temporarily_clear_interpreter_stack(), warnings.catch_warnings(action="ignore"):
        return _tried(target, given, shapes)


def _tried(
    target: Callable[..., object], given: tuple[Hashable, Hashable], shapes: bool
) -> tuple[str, tuple[tuple[int, ...], ...] | None]:
    args, kwargs = map(_made, given)
    chance = torch.get_rng_state()
    try:
        with torch.no_grad():
            made = tensors_in(_called(target, args, kwargs))
        sizes = tuple(tuple(tensor.shape) for tensor in made)
        return (_derivative_error(target, *map(_made, given)) if _wants_gradients(given) else ""), sizes
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        message = str(error).strip().partition("\n")[0]
        by_number = message == "ZeroDivisionError" and len(tensors_in((args, tuple(kwargs.values())))) == 1
        return message if shapes or ABOUT_DTYPES.search(message) or (by_number and tensors_in(args[:1])) else "", None
    except Exception:  # the error is about the zeros
        return "", None
    finally:
        torch.set_rng_state(chance)


def _called(target: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    if isinstance(target, str):
        return operator.methodcaller(target, *args[1:], **kwargs)(args[0])
    return target(*args, **kwargs)


def _wants_gradients(given: object) -> bool:
    if isinstance(given, CheckGroup):
        return any(map(_wants_gradients, given.items))
    return any(map(_wants_gradients, given)) if type(given) is tuple else getattr(given, "requires_grad", False)


def _derivative_error(target: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """What the kernels of the operator's derivative say to the dtypes: a decomposition in their place takes any."""
    given = tensors_in((args, tuple(kwargs.values())))
    inputs = [torch.autograd.graph.get_gradient_edge(each) for each in given if each.requires_grad]
    made: list[torch.Tensor] = []
    plain = torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept)
    try:
        with torch.enable_grad(), plain:
            made = [each for each in tensors_in(_called(target, args, kwargs)) if each.requires_grad]
            with torch._C._DisableAutocast():
                torch.autograd.grad(made, inputs, list(map(torch.ones_like, made)), allow_unused=True)
    except Exception as error:
        message = str(error).strip().partition("\n")[0]
        return f"its derivative: {message}" if made and ABOUT_DTYPES.search(message) else ""
    return ""


def _made(given: Any) -> Any:
    if isinstance(given, Filled):
        made = torch.full(given.shape, given.number, dtype=given.dtype)
        return made.requires_grad_().clone() if given.requires_grad else made
    if isinstance(given, Plain):
        return given.value
    if given.type is dict:
        return {name: _made(item) for name, item in given.items}
    items = tuple(map(_made, given.items))
    return slice(*items) if given.type is slice else given.type(items)


# -------------------------------------------------------------------------------------------------- writes that overlap
#
# Writes into memory that holds several of the elements written, or elements that the same operator reads. Eager refuses
# some of them, and what the others leave follows from the order of its loops: such a call is not traced. Eager's own
# checks: ATen/MemoryOverlap.h.


MOST_PLACES = 1 << 18
"""Elements of two tensors up to which their places in memory are compared one by one, where strides do not tell."""


def may_fold(tensor: torch.Tensor, hint: Hint) -> bool:
    """Whether two elements of a tensor may be one place in memory. Where that depends on sizes, it becomes a guard. A
    jagged one has strides of ragged sizes, which have no order: its elements lie as its values do."""
    if tensor.layout is torch.jagged:
        tensor = tensor.values()
    dims = [(step, size) for step, size in zip(tensor.stride(), tensor.shape, strict=True) if hint(size) != 1]
    if any(hint(size) == 0 for _, size in dims):
        return False
    reach: Any = 0
    for step, size in sorted(dims, key=lambda dim: hint(dim[0])):
        if not step > reach:
            return True
        reach = reach + step * (size - 1)
    return False


def written_by(
    target: object, args: Sequence[object], kwargs: Mapping[str, object], changed: Sequence[FakeTensor]
) -> Sequence[FakeTensor]:
    """The tensors that an operator writes; those whose version it `changed` where its name does not say, among which
    are views of what it writes. Inference tensors have no version, and torch._foreach_add_ and its like change none
    of a fake tensor's."""
    if not (changed or torch.is_inference_mode_enabled() or _name(target).startswith("_foreach_")):
        return changed
    if kwargs.get("out") is not None:
        return tensors_in(kwargs["out"])  # type: ignore[return-value]
    if _name(target) == "set_":
        return []  # it writes no memory
    places = written_places(target)
    return [each for place in places for each in tensors_in(args[place : place + 1])] or changed  # type: ignore[misc]


def written_places(target: object) -> tuple[int, ...]:
    """The arguments that an operator writes, decided by its name."""
    name = _name(target)
    if name in ("setitem", "__setitem__") or target in IN_PLACE:
        return (0,)
    return _written_in_aten(name)


@functools.cache
def _written_in_aten(name: str) -> tuple[int, ...]:
    packet = aten_operator(name) if is_in_place(name) else None
    schema = None if packet is None else getattr(packet, packet.overloads()[0])._schema
    given = () if schema is None else schema.arguments
    return tuple(place for place, each in enumerate(given) if each.alias_info is not None and each.alias_info.is_write)


def overlaps(
    target: object,
    args: Sequence[object],
    written: Sequence[FakeTensor],
    tensors: Sequence[FakeTensor],
    roots: Sequence[FakeTensor],
    hint: Hint,
) -> bool:
    """Whether an operator writes one place in memory as two elements, or one that it reads as another element. The very
    same elements in the same order are no matter to an operator that computes each from its own. `roots` are the inputs
    of the graph in whose memory it writes."""
    if any(may_fold(root, hint) for root in roots):
        return True
    if _is_ufunc(target):  # it has read everything before it writes, as in NumPy
        return any(may_fold(output, hint) for output in written)
    pointwise = _is_pointwise(target)
    written = [*map(innermost, written)]
    if (part := _part_set(target, args)) is not None:
        pointwise, written, tensors = True, [part], [part, *tensors[1:]]
    for output in written:
        sharing = [each for each in tensors if storage_of(each) == storage_of(output)]
        others = [each for each in sharing if lies(each) != lies(output)]
        if may_fold(output, hint) or len(sharing) - len(others) > 1 and not pointwise:
            return True
        if any(_meet(output, each, hint) for each in others):
            return True
    return False


def fills(target: object, args: Sequence[Any], known: Iterable[object], hint: Hint) -> bool:
    """Whether it gives each place in memory the same number, however often: one that does not lie there itself, in
    memory of which no other tensor with elements that share a place was made. A graph writes a part of such a one into
    a copy of it, where the rest keeps what it had."""
    memory = [*map(storage_of, tensors_in(args))]
    if _name(target) not in ("zero_", "fill_") or len(set(memory)) < len(memory):
        return False
    others = (each for each in known if isinstance(each, FakeTensor) and each.layout is torch.strided)
    return not any(
        storage_of(each) == memory[0] and lies(each) != lies(args[0]) and may_fold(each, hint) for each in others
    )


def _part_set(target: object, args: Sequence[Any]) -> FakeTensor | None:
    """The view that tensor[key] = value writes, for a key without tensors."""
    if getattr(target, "__name__", "") != "setitem" or not isinstance(args[0], FakeTensor):
        return None
    key = args[1] if isinstance(args[1], tuple) else (args[1],)
    plain = all(each is None or each is ... or isinstance(each, (int, slice, torch.SymInt)) for each in key)
    return args[0][args[1]] if plain and not any(isinstance(each, bool) for each in key) else None  # type: ignore[return-value]


def lies(tensor: FakeTensor) -> tuple[str, ...]:
    """The storage of a tensor, and its place in it."""
    memory = tensor.untyped_storage()._cdata
    return tuple(map(str, (memory, tensor.storage_offset(), *tensor.shape, *tensor.stride(), tensor.dtype)))


def _meet(a: FakeTensor, b: FakeTensor, hint: Hint) -> bool:
    sizes = [[hint(size) for size in each.shape] for each in (a, b)]
    strides = [[hint(step) * each.element_size() for step in each.stride()] for each in (a, b)]
    first = [hint(each.storage_offset()) * each.element_size() for each in (a, b)]
    counts = [int(np.prod(each, dtype=object)) for each in sizes]
    if 0 in counts:
        return False
    reach = [sum((n - 1) * s for n, s in zip(*each, strict=True)) for each in zip(sizes, strides, strict=True)]
    width = max(a.element_size(), b.element_size())
    if first[0] + reach[0] + width <= first[1] or first[1] + reach[1] + width <= first[0]:
        return False
    if max(counts) > MOST_PLACES or a.element_size() != b.element_size():
        return True
    places = [
        functools.reduce(np.add.outer, (np.arange(n) * s for n, s in zip(*each, strict=True)), np.array(at)).ravel()
        for *each, at in zip(sizes, strides, first, strict=True)
    ]
    return bool(np.isin(places[0], places[1]).any())


def _is_ufunc(target: object) -> bool:
    """Whether it is one of NumPy's universal functions, or Python's operator for one."""
    name = _name(target)
    found = isinstance(getattr(np, name, None), np.ufunc) or hasattr(operator, name) and name != "setitem"
    return found and getattr(target, "__module__", "") == "numpy"


def _is_pointwise(target: object) -> bool:
    name = _name(target)
    if getattr(target, "__module__", "") == "_operator":
        return name not in ("setitem", "imatmul")
    return name == "copy_" or not name.startswith("_foreach_") and _is_pointwise_in_aten(name.rstrip("_"))


@functools.cache
def _is_pointwise_in_aten(name: str) -> bool:
    packet = aten_operator(name)
    overloads = [] if packet is None else [getattr(packet, each) for each in packet.overloads()]
    return any(torch.Tag.pointwise in each.tags for each in overloads)
