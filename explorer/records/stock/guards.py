"""Dynamo's guards as they are checked at each call, with the source line that each comes from, and shape conditions as
trees.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from traceback import FrameSummary
from typing import Any

from explorer.ir import record as data
from explorer.ir.record import ExpressionData
from explorer.records.data.dynamo import TENSOR, device_of, hint, in_words, is_torchs_own
from explorer.records.stock.breaks import is_of_library
from explorer.records.stock.fixes import span_of
from explorer.records.stock.hook import Call, Hook, Patch
from explorer.records.stock.observation import Compile, Observation

_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Div: "/", ast.Pow: "**",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_CALLS = {
    "Max": "max", "Min": "min", "max": "max", "min": "min", "abs": "abs", "Abs": "abs", "FloorDiv": "//", "Mod": "%",
    "PythonMod": "%", "math.floor": "floor", "math.ceil": "ceil",
}  # fmt: skip


def expression(text: str) -> ExpressionData:
    """The tree of a condition such as "4 <= L['x'].size()[0]". What the record's grammar lacks becomes "?"."""
    try:
        return _tree(ast.parse(text, mode="eval").body)
    except SyntaxError:
        return ExpressionData("?", text=text)


def _tree(node: ast.expr) -> ExpressionData:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return ExpressionData("number", value=value)
        case ast.Compare(left=left, ops=ops, comparators=others):
            operands = [left, *others]
            pairs = zip(ops, operands, operands[1:], strict=False)
            parts = tuple(ExpressionData(_BINARY.get(type(op), "?"), (_tree(a), _tree(b))) for op, a, b in pairs)
            return parts[0] if len(parts) == 1 else ExpressionData("and", parts)
        case ast.BoolOp(op=op, values=values):
            return ExpressionData("and" if isinstance(op, ast.And) else "or", tuple(map(_tree, values)))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ExpressionData("not", (_tree(operand),))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return ExpressionData("-", (_tree(operand),))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return ExpressionData("+", (_tree(left), ExpressionData("-", (_tree(right),))))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return ExpressionData(_BINARY[type(op)], (_tree(left), _tree(right)))
        case ast.IfExp(test=test, body=body, orelse=other):
            return ExpressionData("if", (_tree(test), _tree(body), _tree(other)))
        case ast.Call(func=func, args=args, keywords=[]) if args and ast.unparse(func) in _CALLS:
            return ExpressionData(_CALLS[ast.unparse(func)], tuple(map(_tree, args)))
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=of, attr="size" | "stride" as what), args=[]),
            slice=ast.Constant(value=int() as dimension),
        ):
            return ExpressionData(what, value=dimension, source=ast.unparse(of))
        case ast.Subscript(slice=ast.Constant()) | ast.Attribute() | ast.Name():
            return ExpressionData("value", source=ast.unparse(node))
    return ExpressionData("?", text=ast.unparse(node))


def _is_of_numbers(tree: ExpressionData) -> bool:
    """Whether it compares numbers of the program."""
    return tree.op != "?" and (tree.source.startswith("L[") or any(map(_is_of_numbers, tree.arguments)))


PROPERTIES = {
    "TYPE_MATCH": ("type", "is"), "TENSOR_MATCH": ("tensor", "matches"), "ID_MATCH": ("id", "is"),
    "EQUALS_MATCH": ("constant", "equals"), "TRUE_MATCH": ("constant", "is"), "FALSE_MATCH": ("constant", "is"),
    "NONE_MATCH": ("constant", "is"), "LENGTH_CHECK": ("length", "is"), "DICT_LENGTH": ("length", "is"),
    "NO_HASATTR": ("has", "lacks attribute"), "GLOBAL_STATE": ("global_state", "as at capture"),
    "OBJECT_ALIASING": ("alias", "is"), "NO_TENSOR_ALIASING": ("alias", "are distinct"),
    "STORAGE_OVERLAPPING": ("alias", "overlap as at capture"),
}  # fmt: skip
"""Our word for what a kind of check asks, and how; a kind that is not here is a check in Python, under its own name."""

MANAGER = "torch._dynamo.guards:CheckFunctionManager.__init__"
UNKNOWN_SOURCE = re.compile(r"\(unknown source .*please file a bug\)")
AS_CAPTURED = "the graph was made for inputs that lie in memory like this"
_COMMENT = re.compile(r"(?<!\s)\s+# ")
_NUMBER = re.compile(r"([LG]\['[^']*'\](?:\.\w+|\[[^\[\]()]+\])*) == -?\d+")
"""A check of symbols that is one of a value: a number that was a symbol until the program needed it."""
_TYPE = re.compile(r"type=<class '([^']+)'>")


def around_guards(seen: Observation, call: Call) -> Iterator[None]:
    manager = call.args[0]
    output_graph = call.args[2] if len(call.args) > 2 else call.kwargs["output_graph"]
    asked: defaultdict[str, list[Any]] = defaultdict(list)
    for guard in output_graph.guards or ():
        asked[_name(guard)].append(guard)
        if guard.user_stack:
            _ = guard.user_stack[-1].line  # which is read from the file when it is first asked for
    yield
    for same in asked.values():
        same[:] = map(_without_object, same)
    if call.error is None:
        compile = seen.compile()
        compile.checks.clear()
        for source, leaf in checks(manager.guard_manager.root):
            parts = list(leaf.verbose_code_parts())
            if source and len(parts) > 1:  # one check of several attributes
                head = " and ".join(_COMMENT.split(part, maxsplit=1)[0] for part in parts)
                parts = [f"{head}  # {_COMMENT.split(parts[0], maxsplit=1)[-1]}"]
            for part in parts:
                id = f"{compile.id}.guard{len(compile.checks)}"
                text, *comment = _COMMENT.split(part, maxsplit=1)
                number = _NUMBER.fullmatch(text) if not source else None
                of, kind = (number[1], "EQUALS_MATCH") if number else (source, type(leaf).__name__)
                compile.checks.append(DynamoGuard(id, of, kind, text, *comment))
        compile.later(MANAGER, partial(_put_into_words, compile, tuple(compile.checks), asked))


@dataclass(frozen=True)
class DynamoGuard:
    """A guard as torch has it: its class's name (`property`), its text, and the comment behind that."""

    id: str
    source: str
    property: str
    expression: str
    comment: str = ""


def _without_object(guard: Any) -> object:
    """A guard without its weak reference to what it is asked of, which torch.utils.swap_tensors would refuse."""
    made = copy.copy(guard)
    made.obj_weakref = None
    made.create_fn = getattr(made.create_fn, "func", made.create_fn)
    return made


def _put_into_words(compile: Compile, checks: tuple[DynamoGuard, ...], asked: defaultdict[str, list[object]]) -> None:
    compile.guards[:] = [_guard(check, asked) for check in checks]


def checks(root: Any) -> Iterator[tuple[str, Any]]:
    """Each check with the source of what it is asked of, in the order in which a call makes them."""
    seen: dict[int, Any] = {}  # which holds them: the id of one that is gone may come again
    stack = [root]
    while stack:
        manager = stack.pop()
        for leaf in manager.get_leaf_guards():
            if id(leaf) not in seen:
                seen[id(leaf)] = leaf
                yield "" if manager is root else manager.get_source(), leaf
        below = list(manager.get_child_managers())
        if hasattr(manager, "get_key_value_managers"):
            pairs = (pair for _, pair in sorted(manager.get_key_value_managers().items()))
            below = [each for pair in pairs for each in pair if each] + below
        stack += reversed(below)
    if hasattr(root, "get_epilogue_lambda_guards"):
        for leaf in root.get_epilogue_lambda_guards():
            yield "", leaf


def own_frame(stack: Sequence[FrameSummary]) -> FrameSummary:
    """The innermost line of the program itself: of a library only where it has none."""
    return next((each for each in reversed(stack) if not is_of_library(each.filename)), stack[-1])


def _name(of: Any) -> str:
    """Of a guard or a source, whose name is a method in some versions of torch."""
    name = of.name
    return str(name() if callable(name) else name)


def _guard(check: DynamoGuard, asked: defaultdict[str, list[object]]) -> data.GuardData:
    source, kind, expression_text, comment = check.source, check.property, check.expression, check.comment
    place, user_line = _asking_frame(source, kind, expression_text, comment, asked)
    property, relation = PROPERTIES.get(kind, ("value", kind.lower()))
    shape = None
    if not source and kind in ("LAMBDA_GUARD", "SYMBOLIC_SHAPE_GUARD"):
        shape = expression(expression_text)
        if "size()" in expression_text or _is_of_numbers(shape):
            property, relation = "shape", "holds"
        else:
            shape = None
    why = hint(comment) or UNKNOWN_SOURCE.sub(AS_CAPTURED, user_line)
    fields = expected(check)
    before, bracket, rest = expression_text.partition(" ==")[0].partition("[")
    named = re.split(r"[,()\s]", before)[-1] + bracket + rest if property == "shape" and bracket else ""
    return data.GuardData(
        check.id, source or named, property,
        relation, _value(expression_text), expression_text,
        why, span=span_of(place) if place else None, shape=shape,
        cause="" if place else "synthetic:torch's own check of global state", **fields,
        words=in_words(expression_text), of_torch=is_torchs_own(kind, source, expression_text),
    )  # fmt: skip


def _asking_frame(
    source: str, kind: str, text: str, comment: str, asked: defaultdict[str, list[Any]]
) -> tuple[FrameSummary | None, str]:
    """Where the user's program asked for a check, and the line's text. The guards asked of the source know; of a shape
    check only the comment does, which shortens the file's name."""
    wanted = [guard for guard in asked.get(source, ()) if guard.user_stack]
    best = next((guard for guard in wanted if text in (guard.code_list or ())), None)
    best = best or next((guard for guard in wanted if kind in (guard.guard_types or ())), None)
    best = best or (wanted[0] if wanted else None)
    if best is not None:
        place = own_frame(best.user_stack)
        return place, place.line or ""
    message = re.match(r"(?P<line>.*)  # (?P<file>\S+):(?P<number>\d+) in (?P<name>\S+)", comment, re.DOTALL)
    if message is None:
        return None, comment
    stacks = [guard.user_stack for guards in asked.values() for guard in guards if guard.user_stack]
    number = int(message["number"])
    for stack in stacks:
        if (stack[-1].lineno, stack[-1].name) == (number, message["name"]) and stack[-1].filename.endswith(
            message["file"]
        ):
            return own_frame(stack), own_frame(stack).line or ""
    file = next((frame.filename for stack in stacks for frame in stack if frame.filename.endswith(message["file"])), "")
    if not file:
        return None, message["line"]
    return FrameSummary(file, number, message["name"], lookup_line=False), message["line"]


def _value(text: str) -> str:
    return text.partition(" == ")[2] or text.partition(", ")[2].removesuffix(")")


def expected(check: DynamoGuard) -> dict[str, Any]:
    """What a check asks, as fields of a guard: all that it can be made from, beside the source."""
    (property, _), text = PROPERTIES.get(check.property, ("", "")), check.expression
    if property == "type" and (found := _TYPE.search(text)):
        return {"type": found[1]}
    if property == "tensor" and (found := TENSOR.match(text)):
        return {"tensor": _tensor(found)}
    if property == "constant":
        return {"constant": constant(text.partition(" == ")[2] or text.partition(" is ")[2])}
    if property == "length" and text.startswith("not "):
        return {"length": 0}
    if property == "length" and text.rpartition(" == ")[2].isdigit():
        return {"length": int(text.rpartition(" == ")[2])}
    if property == "has" and (found := re.match(r"not hasattr\((.*), '(\w+)'\)", text)):
        return {"keys": (data.ConstantData("str", repr(found[2]), found[2]),)}
    return {}


def _tensor(found: re.Match[str]) -> data.TensorFactsData:
    kind = found["type"]
    sizes, strides = ast.literal_eval(found["size"]), ast.literal_eval(found["stride"])
    return data.TensorFactsData(
        found["dtype"].removeprefix("torch."), device_of(found), tuple(sizes or ()),
        None if strides is None else tuple(strides), found["grad"] == "True",
        {"Tensor": "torch.Tensor", "Parameter": "torch.nn.parameter.Parameter"}.get(kind, kind),
    )  # fmt: skip


def constant(text: str) -> data.ConstantData:
    """A plain value from its text; one that is not a literal keeps the text alone."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return data.ConstantData("", text)
    plain = isinstance(value, (bool, float, str)) or (isinstance(value, int) and abs(value) <= 2**53)
    finite = not isinstance(value, float) or value - value == 0
    return data.ConstantData(type(value).__name__, text, value if plain and finite else None)


HOOK = Hook(
    "guards",
    shows="each check that a call makes, with the source line that asked for it",
    missing="no guards",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(Patch(MANAGER, around_guards),),
)


# Symbolic sizes: where each comes from, what it may be, and what fixed it to a number.


def around_symbols(seen: Observation, call: Call) -> Iterator[None]:
    output_graph = call.args[2] if len(call.args) > 2 else call.kwargs["output_graph"]
    yield
    environment = output_graph.shape_env
    if environment is None or call.error is not None:
        return
    compile = seen.compile()
    compile.symbols.clear()
    for symbol, value in environment.backed_var_to_val.items():
        sources = environment.var_to_sources.get(symbol, ())
        source = " and ".join(dict.fromkeys(_name(each) for each in sources))
        bounds = environment.var_to_range.get(symbol)
        allowed = f"{bounds.lower} to {bounds.upper}" if bounds is not None else ""
        fixed = environment.replacements.get(symbol)
        place = environment.replacements_slocs.get(symbol)
        why = _fixed_at(place) if fixed is not None else "not specialized by the program"
        status = "dynamic" if fixed is None else "specialized" if fixed.is_number else f"equal to {fixed}"
        hint = int(value) if value.is_number and value == int(value) else None
        compile.symbols.append(data.SymbolData(str(symbol), hint, source, allowed, status, why))


def _fixed_at(place: object) -> str:
    """The user's line where a size was fixed, and torch's where the user has none."""
    if place is None:
        return "torch records no source line"
    location = getattr(place, "maybe_user_loc", None)
    framework = getattr(place, "framework_loc", None)
    return str(location or framework or "torch records no source line")


SYMBOLS_HOOK = Hook(
    "symbols",
    shows="symbolic sizes with source, range, and the line that specialized one",
    missing="no symbolic sizes",
    checked=("2.11 CPU", "2.11 CUDA", "2.13 CPU"),
    patches=(Patch("torch._dynamo.guards:CheckFunctionManager.__init__", around_symbols),),
)
