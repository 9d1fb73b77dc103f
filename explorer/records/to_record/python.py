"""Compiled bytecode as Python, where it is known to do the same.

Bytecode without loops is evaluated symbolically: which operations it does, in which order, on which values. From that a
text is written, which is compiled and evaluated in the same way. Where the two differ, or an instruction is not known
here, there is no text. Two bodies that do the same may differ in how long they keep what they no longer use.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.compiler.bytecode.decode import decode
from explorer.compiler.bytecode.flow import handlers_by_position, reachable
from explorer.compiler.bytecode.ops import OPS
from explorer.core.reasons import Unsupported
from explorer.ir.bytecode import Code, Handler, Placeholder, parameters

Value = tuple[Any, ...]
"""Such as ("argument", name), ("constant", type, text), ("object", name), ("made", number of the operation, part)."""

SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE

MOST = 400
"""Operations of a body that are written."""

POPPED: Mapping[str, Callable[[Any], int]] = {
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_DEREF"), lambda arg: 0),
    **dict.fromkeys(
        ("LOAD_ATTR", "LOAD_METHOD", "DELETE_ATTR", "UNARY_OP", "STORE_DEREF", "UNPACK_SEQUENCE", "TO_BOOL"),
        lambda arg: 1,
    ),
    **dict.fromkeys(
        ("BINARY_SUBSCR", "BINARY_OP", "COMPARE_OP", "IS_OP", "CONTAINS_OP", "STORE_ATTR", "DELETE_SUBSCR"),
        lambda arg: 2,
    ),
    "STORE_SUBSCR": lambda arg: 3,
    **dict.fromkeys(("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_SLICE"), lambda arg: arg),
    "BUILD_MAP": lambda arg: 2 * arg,
    "BUILD_CONST_KEY_MAP": lambda arg: arg + 1,
}
"""The operations that are known, and how many values each takes from the stack."""


class Unclear(Exception):
    """What the bytecode does is not known here."""


@dataclass(frozen=True)
class Operation:
    """`caught` is what happens where it raises, if that is the body's own affair."""

    op: str
    arg: Any
    values: tuple[Value, ...]
    caught: BasicBlock | None = None


@dataclass(frozen=True)
class BasicBlock:
    """Operations, and then "return" or "raise" of a value, or "bool" or "none": what happens where the value is true
    (or None), and where not."""

    operations: tuple[Operation, ...]
    end: str
    value: Value
    branches: tuple[BasicBlock, ...] = ()

    def walk(self) -> Iterator[BasicBlock]:
        yield self
        for each in self.branches:
            yield from each.walk()


@dataclass
class BodyEvaluation:
    """Of one body. `objects` are the names of constants that are no literals, by their ids; `named` the local that each
    value was first bound to."""

    code: Code
    objects: Mapping[int, str] = field(default_factory=dict)
    globals: frozenset[str] = frozenset()
    """Global names that stand for such constants."""
    named: dict[Value, str] = field(default_factory=dict)
    count: int = 0

    def body(self) -> BasicBlock:
        code = self.code
        if code.cells or code.flags & SUSPENDING:
            raise Unclear
        self.index = code.index
        self.handlers: Sequence[Handler | None] = handlers_by_position(code)
        return self.block(0, [], {name: ("argument", name) for name in arguments(code)}, frozenset())

    def block(self, at: int, stack: list[Value], bound: dict[str, Value], seen: frozenset[int]) -> BasicBlock:
        """What is done from an instruction on. Raises Unclear."""
        done: list[Operation] = []
        handling = 0
        while True:
            instruction = self.code.instructions[at]
            op, arg, handler = instruction.op, instruction.arg, self.handlers[at]
            if at in seen:
                raise Unclear
            seen |= {at}
            at += 1
            operation: Operation | None = None
            match op:
                case "NOP":
                    pass
                case "JUMP":
                    at = self.index[str(instruction.target)]
                case "POP_TOP":
                    stack.pop()
                case "PUSH_NULL":
                    stack.append(("null",))
                case "COPY":
                    stack.append(stack[-arg])
                case "SWAP":
                    stack[-1], stack[-arg] = stack[-arg], stack[-1]
                case "LOAD_CONST":
                    stack.append(self.constant(arg))
                case "LOAD_FAST" if arg in bound:
                    stack.append(bound[arg])
                case "STORE_FAST" if stack[-1] != ("null",):
                    bound[arg] = stack.pop()
                    if self.named.get(bound[arg], "___").startswith("___"):
                        self.named[bound[arg]] = arg
                case "DELETE_FAST" if arg in bound:
                    del bound[arg]
                case "MAKE_FUNCTION" if not arg and stack[-1][0] == "object":
                    pass
                case "PUSH_EXC_INFO" if not handling:
                    handling = 1
                    stack.insert(-1, ("handled",))
                case "POP_EXCEPT" if handling and stack[-1] == ("handled",):
                    handling = 0
                    stack.pop()
                case "RETURN_VALUE" | "RAISE_VARARGS" if not handling and (op == "RETURN_VALUE" or arg == 1):
                    return BasicBlock(tuple(done), "return" if op == "RETURN_VALUE" else "raise", stack.pop())
                case "POP_JUMP_IF":
                    kind = "none" if "none" in arg else "bool"
                    tested = stack.pop()
                    if kind == "bool" and not (
                        done and done[-1].op == "TO_BOOL" and tested == ("made", self.count - 1, 0)
                    ):
                        done.append(Operation("TO_BOOL", None, (tested,)))
                        tested = ("made", self.count, 0)
                        self.count += 1
                    ways = (self.index[str(instruction.target)], at)[:: 1 if arg in ("true", "none") else -1]
                    return BasicBlock(
                        tuple(done), kind, tested, tuple(self.block(way, [*stack], {**bound}, seen) for way in ways)
                    )
                case "LOAD_GLOBAL" if arg in self.globals:
                    stack.append(("object", arg))
                case "CALL":
                    operation = self.call(arg, stack)
                case "BUILD_TUPLE" if all(each[0] == "constant" for each in stack[len(stack) - arg :]):
                    parts = [stack.pop() for _ in range(arg)][::-1]
                    stack.append(("constant", "tuple", f"({''.join(f'{each[2]}, ' for each in parts)})"))
                case _ if op in POPPED and not handling:
                    values = [stack.pop() for _ in range(POPPED[op](arg))][::-1]
                    if ("null",) in values:
                        raise Unclear
                    operation = Operation(op, arg, tuple(values))
                    if op == "BUILD_CONST_KEY_MAP":
                        operation = self.keyed(values)
                case _:
                    raise Unclear
            if operation is None:
                continue
            if handler is not None:
                raised: list[Value] = [
                    *stack[: handler.depth],
                    *([("offset",)] * handler.push_offset),
                    ("argument", "error"),
                ]
                known = {name: value for name, value in bound.items() if value[0] != "made"}
                if "error" in self.code.locals or any(each[0] == "made" for each in raised):
                    raise Unclear
                number, self.count = self.count, 0
                caught = self.block(self.index[handler.target], raised, known, seen)
                self.count = number
                operation = Operation(operation.op, operation.arg, operation.values, caught)
            if self.count > MOST or handling:
                raise Unclear
            done.append(operation)
            pushed = 1 if op == "CALL" else OPS[op].effect(arg, False) + POPPED[op](arg)
            made_parts = [("made", self.count, part) for part in range(pushed)]
            stack += made_parts[:: -1 if op == "UNPACK_SEQUENCE" else 1]
            self.count += 1

    def constant(self, value: object) -> Value:
        if isinstance(value, types.CodeType):
            raise Unclear
        name = self.objects.get(id(value))
        return ("constant", type(value).__name__, literal(value)) if name is None else ("object", name)

    def call(self, arg: tuple[int, tuple[str, ...]], stack: list[Value]) -> Operation:
        count, keywords = arg
        given = [stack.pop() for _ in range(count)][::-1]
        second, first = stack.pop(), stack.pop()
        if ("null",) in (first, second):
            called = first if second == ("null",) else second
        elif first[:2] == second[:2] and first[0] == "made":
            called = (*first[:2], 0)  # a method that was loaded
        else:
            called, given = first, [second, *given]
        if ("null",) in (called, *given):
            raise Unclear
        return Operation("CALL", keywords, (called, *given))

    def keyed(self, values: Sequence[Value]) -> Operation:
        """A dict as BUILD_MAP makes it."""
        *held, keys = values
        elements = ast.literal_eval(keys[2])
        pairs = zip((self.constant(each) for each in elements), held, strict=True)
        return Operation("BUILD_MAP", len(held), tuple(each for pair in pairs for each in pair))


def arguments(code: Code) -> tuple[str, ...]:
    starred = bool(code.flags & inspect.CO_VARARGS) + bool(code.flags & inspect.CO_VARKEYWORDS)
    return code.locals[: code.arg_count + code.keyword_only + starred]


def literal(value: object) -> str:
    """The text of a literal: "" for what has none, and for a tuple that holds such."""
    if isinstance(value, tuple) and type(value) is tuple:
        parts = [literal(each) for each in value]
        return f"({''.join(f'{each}, ' for each in parts)})" if all(parts) else ""
    plain = type(value) in (bool, int, str, bytes, type(None), type(...))
    return repr(value) if plain or type(value) is float and abs(value) < float("inf") else ""


def objects_of(code: Code) -> dict[int, str]:
    """Names for the constants that are no literals: what they are called, where that is a name that is free."""
    runs = reachable(code)
    done = [i for i in code.instructions if i.id in runs]
    taken = {*code.locals, *code.frees, *(str(i.arg) for i in done if i.op == "LOAD_GLOBAL")}
    found: dict[int, str] = {}
    for value in (i.arg for i in done if i.op == "LOAD_CONST"):
        if literal(value) or id(value) in found:
            continue
        name = value.name if isinstance(value, Placeholder) else getattr(value, "__name__", type(value).__name__)
        name = name if str(name).isidentifier() and not keyword.iskeyword(name) else "constant"
        found[id(value)] = free(name, taken)
    return found


def free(name: str, taken: set[str]) -> str:
    """The name, or one like it that is not taken; it is then."""
    numbers = (f"{name}_{n}" for n in range(1, MOST * 4))
    found = name if name not in taken else next(each for each in numbers if each not in taken)
    taken.add(found)
    return found


@dataclass
class Writer:
    """Writes what a body does as statements: what is used once where it is used, if nothing comes between."""

    named: Mapping[Value, str]
    uses: Counter[Value]
    taken: set[str]
    names: dict[Value, str] = field(default_factory=dict)
    count: int = 0

    def name(self, value: Value) -> str:
        if value not in self.names:
            wanted = self.named.get(value, "")
            known = wanted.isidentifier() and not wanted.startswith("___")
            self.names[value] = free(wanted if known else f"t{value[1]}", self.taken)
        return self.names[value]

    def statements(self, block: BasicBlock) -> list[str]:
        lines: list[str] = []
        pending: dict[Value, str] = {}
        attributes: set[Value] = set()

        def flush() -> None:
            lines.extend(f"{self.name(value)} = {text}" for value, text in pending.items())
            pending.clear()

        def texts(values: Sequence[Value]) -> list[str]:
            wanted = [each for each in values if each in pending]
            if wanted != list(pending)[len(pending) - len(wanted) :]:
                flush()
            return [pending.pop(each) if each in pending else self.text(each) for each in values]

        for operation in block.operations:
            number, self.count = self.count, self.count + 1
            made = ("made", number, 0)
            if operation.op == "CALL" and operation.values[0] in attributes:
                flush()  # to call it where it is read would be to call a method
            attributes |= {made} if operation.op == "LOAD_ATTR" else set()
            parts = texts(operation.values)
            text = expression(operation, parts)
            if text and self.uses[made] == 1:
                pending[made] = text
                continue
            flush()
            if operation.op == "UNPACK_SEQUENCE":
                targets = (self.name(("made", number, part)) for part in range(operation.arg))
                lines.append(f"{''.join(f'{each}, ' for each in targets)} = {parts[0]}")
            elif operation.op == "BINARY_OP" and not text:
                lines += [f"{self.name(made)} = {parts[0]}", f"{self.name(made)} {operation.arg} {parts[1]}"]
            else:
                lines.append(
                    f"{self.name(made)} = {text}" if text and self.uses[made] else text or statement(operation, parts)
                )
        (value,) = texts([block.value])
        flush()
        if not block.branches:
            return [*lines, f"{block.end} {value}"]
        then, other = map(self.statements, block.branches)
        test = value if block.end == "bool" else f"{value} is None"
        return [*lines, f"if {test}:", *(f"    {line}" for line in then), *other]

    def text(self, value: Value) -> str:
        return self.name(value) if value[0] == "made" else str(value[2] if value[0] == "constant" else value[1])


def expression(operation: Operation, parts: list[str]) -> str:
    """The text of an operation; "" where it is none, or a statement."""
    op, arg = operation.op, operation.arg
    match op:
        case "LOAD_GLOBAL" | "LOAD_DEREF":
            return str(arg)
        case "LOAD_ATTR" | "LOAD_METHOD":
            return f"({parts[0]}).{arg}"
        case "BINARY_SUBSCR":
            return f"({parts[0]})[{parts[1]}]"
        case "UNARY_OP":
            return f"({arg} {parts[0]})"
        case "TO_BOOL":
            return parts[0]
        case "BINARY_OP" | "COMPARE_OP" | "IS_OP" | "CONTAINS_OP" if op != "BINARY_OP" or not str(arg).endswith("="):
            return f"({parts[0]} {arg} {parts[1]})"
        case "BUILD_TUPLE":
            return f"({''.join(f'{each}, ' for each in parts)})"
        case "BUILD_LIST":
            return f"[{', '.join(parts)}]"
        case "BUILD_SET" if parts:
            return f"{{{', '.join(parts)}}}"
        case "BUILD_MAP":
            return f"{{{', '.join(f'{key}: {value}' for key, value in zip(parts[::2], parts[1::2], strict=True))}}}"
        case "BUILD_SLICE":
            return ":".join(parts)
        case "CALL":
            called, *given = parts
            first = len(given) - len(arg)
            words = [f"{name}={value}" for name, value in zip(arg, given[first:], strict=True)]
            return f"({called})({', '.join([*given[:first], *words])})"
    return ""


def statement(operation: Operation, parts: list[str]) -> str:
    match operation.op:
        case "STORE_ATTR":
            return f"({parts[1]}).{operation.arg} = {parts[0]}"
        case "STORE_SUBSCR":
            return f"({parts[1]})[{parts[2]}] = {parts[0]}"
        case "STORE_DEREF":
            return f"{operation.arg} = {parts[0]}"
        case "DELETE_ATTR":
            return f"del ({parts[0]}).{operation.arg}"
        case "DELETE_SUBSCR":
            return f"del ({parts[0]})[{parts[1]}]"
    raise Unclear


def python(code: Code) -> str:
    """The Python of a body; "" where none is known to do the same."""
    try:
        return _python(code)
    except (Unclear, Unsupported):
        return ""


def _python(code: Code) -> str:
    objects = objects_of(code)
    evaluation = BodyEvaluation(code, objects)
    body = evaluation.body()
    caught = [each for block in body.walk() for each in block.operations if each.caught is not None]
    if len(caught) > 1 or any(block.value == ("null",) for block in body.walk()):
        raise Unclear
    taken = {*arguments(code), *code.frees, *objects.values()} | {
        each.arg for block in body.walk() for each in block.operations if each.op == "LOAD_GLOBAL"
    }
    taken |= {"error"} if caught else set()
    name = code.name if code.name.isidentifier() else "function"
    text = written(name, parameters(code), code, body, evaluation.named, {*taken})
    if evaluated(text, name, code, objects) != without(body):
        raise Unclear
    for each in caught:
        assert each.caught is not None
        given = ["error", *(name for name in arguments(code) if name != "error")]
        handler = Code(
            f"{name}_raised", "", code.filename, code.first_line, len(given), 0, 0, 0, tuple(given), (), code.frees, ()
        )
        helper = written(handler.name, given, handler, each.caught, {}, {*taken})
        if evaluated(helper, handler.name, handler, objects) != each.caught:
            raise Unclear
        text += f"\n\n# Where {objects_name(each)} raises an error, this is done instead:\n{helper}"
    return text


def objects_name(operation: Operation) -> str:
    called = operation.values[0] if operation.op == "CALL" else ("",)
    if called[0] != "object":
        raise Unclear
    return str(called[1])


def without(block: BasicBlock) -> BasicBlock:
    """The block without what is done where an operation raises."""
    done = tuple(Operation(each.op, each.arg, each.values) for each in block.operations)
    return BasicBlock(done, block.end, block.value, tuple(map(without, block.branches)))


def written(
    name: str, given: Sequence[str], code: Code, body: BasicBlock, named: Mapping[Value, str], taken: set[str]
) -> str:
    blocks = list(body.walk())
    used = Counter(value for block in blocks for each in block.operations for value in each.values)
    used.update(block.value for block in blocks)
    stored = sorted({each.arg for block in blocks for each in block.operations if each.op == "STORE_DEREF"})
    lines = [f"nonlocal {', '.join(stored)}"] if stored else []
    lines += Writer(named, used, taken).statements(body)
    text = f"def {name}({', '.join(given)}):\n" + "\n".join(f"    {line}" for line in lines)
    try:
        return ast.unparse(ast.parse(text))
    except (SyntaxError, RecursionError, UnicodeEncodeError) as error:
        raise Unclear from error


def evaluated(text: str, name: str, code: Code, objects: Mapping[int, str]) -> BasicBlock:
    """What the function of a text does. Free variables are those of a function around it."""
    inner = "\n".join(f"    {line}" for line in text.splitlines())
    try:
        module = compile(f"def around({', '.join(code.frees)}):\n{inner}", "<python>", "exec")
    except (SyntaxError, RecursionError, UnicodeEncodeError) as error:
        raise Unclear from error
    (around,) = (each for each in module.co_consts if isinstance(each, types.CodeType))
    (made,) = (each for each in around.co_consts if isinstance(each, types.CodeType) and each.co_name == name)
    found = decode(made)
    if parameters(found) != parameters(code) or not set(found.frees) <= set(code.frees):
        raise Unclear
    return BodyEvaluation(found, globals=frozenset(objects.values())).body()
