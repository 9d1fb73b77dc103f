"""Shape conditions as trees, from the Python text that torch checks them with."""

from __future__ import annotations

import ast

from explorer.ir.record import ExpressionData

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
