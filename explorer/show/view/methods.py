"""A comparison of capture methods as text, as a Markdown table and as HTML without scripts."""

from __future__ import annotations

from html import escape

from explorer.core.text import count, duration
from explorer.records.data.methods import (
    MethodData,
    MethodsData,
    OperationCallData,
    TriedInputData,
    VerdictData,
    ViewData,
)

SIGNS = {"right": "✓", "wrong": "✗", "refused": "–", "not run": "·"}
LEGEND = f"{SIGNS['right']} as eager; {SIGNS['wrong']} another result, without an error; {SIGNS['refused']} an error."
OPERATIONS_SHOWN = 200
LINES_SHOWN = 400


def answer(verdict: VerdictData) -> str:
    again = " (recompiled)" if verdict.recompiled else ""
    return f"{SIGNS[verdict.answer]} {verdict.answer}{again}"


def outcome(method: MethodData) -> str:
    """What became of a method that gave no program; "" where it gave one."""
    if method.missing:
        return method.missing
    return f"{SIGNS['refused']} refused: {method.error.splitlines()[0]}" if method.error else ""


def text(data: MethodsData) -> str:
    """A line for each method and input, for a terminal."""
    lines = [f"{data.title}: {count(len(data.methods), 'way')} to run it", ""]
    for each in data.inputs:
        lines.append(f"  {each.name}: {each.change} ({each.arguments})")
    for method in data.methods:
        time = "" if method.seconds is None else f"  {duration(method.seconds)} a call"
        took = "" if method.capture_seconds is None else f", captured in {duration(method.capture_seconds)}"
        lines += ["", f"{method.name}{time}{took}"]
        if result := outcome(method):
            lines.append(f"  {result}")
            lines += [f"  {method.meaning}"] if method.meaning else []
            continue
        for verdict in method.verdicts:
            detail = f"  {verdict.detail}" if verdict.detail else ""
            lines.append(f"  {verdict.input}: {answer(verdict)}{detail}")
        lines += [f"  control flow: {method.control}", f"  sizes: {method.sizes}", f"  saved: {method.saved}"]
        lines += [f"  it warned: {each.splitlines()[0]}" for each in method.warnings]
    return "\n".join(lines)


def head(data: MethodsData) -> list[str]:
    return ["method", *(each.name for each in data.inputs), "a call", "captured in", "control flow", "saved"]


def row(method: MethodData, inputs: int) -> list[str]:
    """The cells after a method's name, one for each input, then time, capture, control flow and saving."""
    if result := outcome(method):
        return [result, *[""] * (inputs + 3)]
    cells = [answer(verdict) for verdict in method.verdicts]
    time = "" if method.seconds is None else duration(method.seconds)
    took = "" if method.capture_seconds is None else duration(method.capture_seconds)
    return [*cells, time, took, method.control, method.saved]


def markdown(data: MethodsData, *, times: bool = True) -> str:
    """A table for the documentation; without `times`, one that is the same in each run."""
    inputs = len(data.inputs)
    kept = [i for i, name in enumerate(head(data)) if times or name not in ("a call", "captured in")]
    rows = [head(data), ["---"] * len(head(data))]
    rows += [[method.name, *row(method, inputs)] for method in data.methods]
    return "\n".join("| " + " | ".join(_cell(cells[i]) for i in kept) + " |" for cells in rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def html(data: MethodsData, *, details: bool = True) -> str:
    """A fragment for a notebook's output; without `details` the table alone."""
    inputs = len(data.inputs)
    top = "".join(f"<th scope=col>{escape(name)}</th>" for name in head(data))
    rows = "".join(_row(method, inputs) for method in data.methods)
    given = "".join(map(_given, data.inputs))
    below = "".join(map(_method, data.methods)) + _operations(data) if details else ""
    return (
        f"<div class=explorer-methods>{STYLE}<h3>{escape(data.title)}</h3><ul>{given}</ul>"
        f"<div class=wide><table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"<p>{LEGEND} {escape(data.timing)}</p>{below}</div>"
    )


def _given(each: TriedInputData) -> str:
    gives = f"; eager gives <code>{escape(each.expected)}</code>" if each.expected else ""
    return f"<li><b>{escape(each.name)}</b>: {escape(each.change)}: <code>{escape(each.arguments)}</code>{gives}</li>"


STYLE = (
    "<style>.explorer-methods table{border-collapse:collapse;font-size:13px}"
    ".explorer-methods :is(td,th){border:1px solid #8886;padding:3px 8px;text-align:left;vertical-align:top}"
    ".explorer-methods .wide{overflow-x:auto}"
    ".explorer-methods .wrong{font-weight:bold;text-decoration:underline wavy #c33}"
    ".explorer-methods pre{font-size:12px;max-height:30em;overflow:auto}</style>"
)


def _row(method: MethodData, inputs: int) -> str:
    name = f"<th scope=row title='{escape(method.how, quote=True)}'>{escape(method.name)}</th>"
    if result := outcome(method):
        meaning = f"<br>{escape(method.meaning)}" if method.meaning else ""
        return f"<tr>{name}<td colspan={inputs + 4}>{escape(result)}{meaning}</td></tr>"
    cells = "".join(
        f"<td class='{verdict.answer.replace(' ', '-')}' title='{escape(verdict.detail, quote=True)}'>"
        f"{escape(answer(verdict))}</td>"
        for verdict in method.verdicts
    )
    rest = "".join(f"<td>{escape(cell)}</td>" for cell in row(method, inputs)[inputs:])
    return f"<tr>{name}{cells}{rest}</tr>"


def _method(method: MethodData) -> str:
    parts = [f"<p>{escape(method.how)}</p>"]
    parts += [f"<p><b>{escape(v.input)}</b>: {escape(v.detail)}</p>" for v in method.verdicts if v.detail]
    parts += [f"<pre>{escape(method.error)}</pre>"] if method.error else []
    parts += [f"<p>Baked in: {escape(', '.join(method.baked))}</p>"] if method.baked else []
    parts += [f"<p>It warned: {escape(each)}</p>" for each in method.warnings]
    parts += [_view(view) for view in method.views]
    return f"<details><summary>{escape(method.name)}</summary>{''.join(parts)}</details>"


def _view(view: ViewData) -> str:
    lines = view.text.lines[:LINES_SHOWN]
    left = len(view.text.lines) - len(lines)
    more = f"\n… {count(left, 'more line')}" if left else ""
    return f"<h4>{escape(view.title)}</h4><pre>{escape(chr(10).join(line.text for line in lines) + more)}</pre>"


def _operations(data: MethodsData) -> str:
    """Eager's operations with their way through the dispatcher."""
    if not data.operations:
        return ""
    rows = "".join(map(_operation, data.operations[:OPERATIONS_SHOWN]))
    left = len(data.operations) - OPERATIONS_SHOWN
    more = f"<p>{left} more are in the data.</p>" if left > 0 else ""
    names = ("operation", "dispatch keys in order, then dtype and layout inside the kernel", "result", "time", "line")
    top = "".join(f"<th scope=col>{name}</th>" for name in names)
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<details><summary>eager, operation by operation</summary>{table}{more}</details>"


def _operation(call: OperationCallData) -> str:
    steps = [f"{escape(s.key)}: {escape(s.does)} <small>{escape(s.place)}</small>" for s in call.steps]
    way = "".join(f"<li>{step}</li>" for step in (*steps, escape(f"{call.dtype}, {call.layout}")))
    cells = (f"<code>{escape(call.name)}</code>", f"<ol>{way}</ol>", escape(call.result), duration(call.seconds))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in (*cells, escape(call.where))) + "</tr>"
