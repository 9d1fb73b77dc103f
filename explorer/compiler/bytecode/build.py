"""Constructors for the fresh instructions of compiled bytecode and continuations.

They carry the ambient origins and no id; `number` gives ids. A label is a NOP that has its id from the start:

    done = label("f0@done")
    number("f0", [*load, instruction("POP_JUMP_IF", "true", done.id), load_const(1), return_value(), done, ...])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from explorer.compiler.bytecode.normal import NULL_FIRST, OPS
from explorer.core.origin import origins
from explorer.ir.bytecode import Instruction, Span

FunctionAttribute = Literal["defaults", "kwdefaults", "annotations", "closure"]


def instruction(op: str, arg: object = None, target: str | None = None) -> Instruction:
    """Any instruction of `ops.OPS`. Raises ValueError for a name that is not there, or a target where there is none."""
    if op not in OPS or (target is not None) != OPS[op].jumps:
        raise ValueError(f"no instruction {op} with target {target}")
    return Instruction(op, arg, target, origins=origins())


def label(id: str) -> Instruction:
    return replace(instruction("NOP"), id=id)


load_const: Callable[[Any], Instruction] = partial(instruction, "LOAD_CONST")
"""Any object: constants need not be marshaled."""
load_fast: Callable[[str], Instruction] = partial(instruction, "LOAD_FAST")
store_fast: Callable[[str], Instruction] = partial(instruction, "STORE_FAST")
delete_fast: Callable[[str], Instruction] = partial(instruction, "DELETE_FAST")
load_deref: Callable[[str], Instruction] = partial(instruction, "LOAD_DEREF")
load_closure: Callable[[str], Instruction] = partial(instruction, "LOAD_CLOSURE")
load_global: Callable[[str], Instruction] = partial(instruction, "LOAD_GLOBAL")
load_attr: Callable[[str], Instruction] = partial(instruction, "LOAD_ATTR")
binary_subscr: Callable[[], Instruction] = partial(instruction, "BINARY_SUBSCR")
pop_top: Callable[[], Instruction] = partial(instruction, "POP_TOP")
build_tuple: Callable[[int], Instruction] = partial(instruction, "BUILD_TUPLE")
unpack: Callable[[int], Instruction] = partial(instruction, "UNPACK_SEQUENCE")
"""iterable -> so many items, the first on top."""
jump: Callable[[str], Instruction] = partial(instruction, "JUMP", None)
return_value: Callable[[], Instruction] = partial(instruction, "RETURN_VALUE")
raise_top: Callable[[], Instruction] = partial(instruction, "RAISE_VARARGS", 1)


def swap(position: int = 2) -> Instruction:
    return instruction("SWAP", position)


def bury(position: int) -> list[Instruction]:
    """Move the top down to `position` (1 the top itself); the values between each move up by one."""
    return [swap(depth) for depth in range(position, 1, -1)]


def call(
    load_callable: Sequence[Instruction], arguments: Iterable[Sequence[Instruction]] = (), keywords: Sequence[str] = ()
) -> list[Instruction]:
    """Push the result of a call. Each of `arguments` pushes one value; the last ones go by the names `keywords`."""
    null = [instruction("PUSH_NULL")]
    given = list(arguments)
    function = [*null, *load_callable] if NULL_FIRST else [*load_callable, *null]
    pushed = [step for argument in given for step in argument]
    return [*function, *pushed, instruction("CALL", (len(given), tuple(keywords)))]


def call_stacked(count: int, keywords: Sequence[str] = ()) -> list[Instruction]:
    """callable, `count` arguments -> result; where callable and arguments are on the stack already."""
    depth = count + 2 if NULL_FIRST else count + 1
    return [instruction("PUSH_NULL"), *bury(depth), instruction("CALL", (count, tuple(keywords)))]


def call_method(
    load_object: Sequence[Instruction], name: str, arguments: Iterable[Sequence[Instruction]] = ()
) -> list[Instruction]:
    """Push the result of `object.name(...)`."""
    given = list(arguments)
    pushed = [step for argument in given for step in argument]
    return [*load_object, instruction("LOAD_METHOD", name), *pushed, instruction("CALL", (len(given), ()))]


def make_function(
    code: object, attributes: Iterable[tuple[FunctionAttribute, Sequence[Instruction]]] = ()
) -> list[Instruction]:
    """Push a function of a code object, or of what stands for one until it is known. Each attribute (in the order
    defaults, kwdefaults, annotations, closure) pushes its value."""
    given = list(attributes)
    pushed = [step for _, load in given for step in load]
    return [*pushed, load_const(code), instruction("MAKE_FUNCTION", tuple(name for name, _ in given))]


def closure(names: Sequence[str]) -> list[Instruction]:
    """Push the tuple of cells that a function with the free variables `names` takes."""
    return [*(load_closure(name) for name in names), build_tuple(len(names))]


def at(span: Span | None, instructions: Iterable[Instruction]) -> list[Instruction]:
    """The same, standing for `span` where they have no source of their own: tracebacks show it."""
    return [i if i.span else Instruction(i.op, i.arg, i.target, i.id, span, i.origins) for i in instructions]


def number(frame: str, instructions: Iterable[Instruction]) -> tuple[Instruction, ...]:
    """Give each instruction that has no id its position, "frame@n"; ids that labels and old instructions have stay.

    Raises ValueError where an id is there twice.
    """
    given = list(instructions)
    taken: set[str] = set()
    for i in given:
        if i.id in taken:
            raise ValueError(f"two instructions with the id {i.id}")
        if i.id:
            taken.add(i.id)
    numbered = []
    free = 0
    for i in given:
        if not i.id:
            while f"{frame}@{free}" in taken:
                free += 1
            i = Instruction(i.op, i.arg, i.target, f"{frame}@{free}", i.span, i.origins)
            free += 1
        numbered.append(i)
    return tuple(numbered)
