"""Write what the viewer takes from Python: the types of the record and of the messages, and what checks that something
is a record.

`python -m explorer.show.notebook.types`
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from explorer.core.files import PACKAGE
from explorer.ir import record
from explorer.ir.record import Whole
from explorer.records.data import methods, ranks
from explorer.show.notebook import protocol

# TypeScript types from msgspec structures, and what checks data for being of them (extension/src/viewer/check.ts):
# fields with a default are optional, as msgspec leaves them out.


CHECKS = {str: "text", int: "whole", float: "real", bool: "flag"}
WIDEST = 120
SIMPLE = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "unknown"}


def declarations(structs: Iterable[type[msgspec.Struct]]) -> str:
    """One interface (or tuple type, where the structure is written as an array) for each structure, in order."""
    return "\n\n".join(_declaration(struct) for struct in structs) + "\n"


def union(name: str, structs: Iterable[type[msgspec.Struct]]) -> str:
    return f"export type {name} = {' | '.join(struct.__name__ for struct in structs)};\n"


def written(text: object) -> str:
    """The TypeScript type of a Python annotation. Raises TypeError for one that records do not use."""
    if get_origin(text) is Annotated:
        return written(get_args(text)[0])
    if text in SIMPLE:
        return SIMPLE[text]
    if isinstance(text, type) and issubclass(text, msgspec.Struct):
        return text.__name__
    origin, arguments = get_origin(text), get_args(text)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in (Union, types.UnionType):
        return " | ".join(map(written, arguments))
    if origin is tuple and arguments[-1:] == (Ellipsis,):
        return f"readonly {_element(arguments[0])}[]"
    if origin is tuple:
        return f"readonly [{', '.join(map(written, arguments))}]"
    if origin is dict:
        return f"{{ readonly [key: string]: {written(arguments[1])} }}"
    raise TypeError(f"no TypeScript type for {text!r}")


def checks(structs: Iterable[type[msgspec.Struct]]) -> str:
    """One check for each structure, in order; structures name earlier ones and themselves."""
    return "".join(_wrapped(f"export const {struct.__name__}: Check = {_check(struct)};") for struct in structs)


def checked(text: object, within: type[msgspec.Struct] | None = None) -> str:
    """The check for a Python annotation. Raises TypeError for one that records do not use."""
    if text in CHECKS:
        return CHECKS[text]
    if text == Whole:
        return "whole"
    if isinstance(text, type) and issubclass(text, msgspec.Struct):
        return f"again(() => {text.__name__})" if text is within else text.__name__
    origin, arguments = get_origin(text), get_args(text)
    if origin is Annotated and arguments[1].extra is not None:
        items, limits = get_args(arguments[0]), arguments[1].extra
        if get_origin(arguments[0]) is dict:
            return f"entries({checked(items[1], within)}, {limits['most']})"
        item, by = items[0], f', "{limits["by"]}"' if limits["by"] else ""
        return f"list({checked(item, within)}, {limits['most']}{by})"
    if origin is Annotated:
        return f"between({arguments[1].ge}, {arguments[1].le})"
    if origin is Literal:
        return f"one({', '.join(map(json.dumps, arguments))})"
    inner = [checked(each, within) for each in arguments if each not in (Ellipsis, type(None))]
    if origin in (Union, types.UnionType):
        one = inner[0] if len(inner) == 1 else f"either({', '.join(inner)})"
        return f"maybe({one})" if type(None) in arguments else one
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"list({inner[0]})"
    if origin is tuple:
        return f"row({len(inner)}, {', '.join(inner)})"
    if origin is dict:
        return f"entries({inner[1]})"
    raise TypeError(f"no check for {text!r}")


def _check(struct: type[msgspec.Struct]) -> str:
    fields = msgspec.structs.fields(struct)
    if struct.__struct_config__.array_like:
        least = sum(f.required for f in fields)
        return f"row({least}, {', '.join(checked(f.type, struct) for f in fields)})"
    required, optional = (
        ", ".join(f"{f.encode_name}: {checked(f.type, struct)}" for f in fields if f.required is wanted)
        for wanted in (True, False)
    )
    return f"shape({{ {required} }}, {{ {optional} }})".replace("{  }", "{}").replace(", {})", ")")


def _element(text: object) -> str:
    inner = written(text)
    return f"({inner})" if "|" in inner or inner.startswith("readonly") else inner


def _declaration(struct: type[msgspec.Struct]) -> str:
    fields = msgspec.structs.fields(struct)
    about = _comment(struct)
    if struct.__struct_config__.array_like:
        inner = ", ".join(f"{f.encode_name}{'' if f.required else '?'}: {written(f.type)}" for f in fields)
        return about + _wrapped(f"export type {struct.__name__} = readonly [{inner}];").rstrip()
    tag = struct.__struct_config__.tag
    body = [f'readonly type: "{tag}";'] if tag is not None else []
    body += [f"readonly {f.encode_name}{'' if f.required else '?'}: {written(f.type)};" for f in fields]
    return f"{about}export interface {struct.__name__} {{\n{_filled(body)}\n}}"


def _wrapped(line: str) -> str:
    return textwrap.fill(line, WIDEST, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n"


def _filled(parts: Iterable[str]) -> str:
    """The parts in as few indented lines as hold them."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) < WIDEST:
            lines[-1] += f" {part}"
        else:
            lines.append(f"  {part}")
    return "\n".join(lines)


def _comment(struct: type[msgspec.Struct]) -> str:
    text = "/** " + "\n * ".join(inspect.cleandoc(struct.__doc__ or "").splitlines())
    end = "\n */\n" if len(text) - text.rfind("\n") + 2 > WIDEST else " */\n"
    return text + end if struct.__doc__ else ""


HEAD = "// Made from {} by `python -m explorer.show.notebook.types`; edit that file instead.\n\n"
COMBINED = (
    "again", "between", "Check", "either", "entries", "flag", "list", "maybe", "one", "real", "row", "shape", "text",
    "whole",
)  # fmt: skip
"""Of extension/src/viewer/check.ts."""

VIEWER = PACKAGE.parent / "extension" / "src" / "viewer"


def structs(module: object, base: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    found = (value for value in vars(module).values() if isinstance(value, type) and issubclass(value, msgspec.Struct))
    return [each for each in found if each is not base and each.__module__ == module.__name__]  # type: ignore[attr-defined]


def texts() -> dict[str, str]:
    """The files by name. A structure's type and its check have one name."""
    messages = HEAD.format("explorer/show/notebook/protocol.py")
    messages += 'import type { CompileData, PartData, RecordData, StageData, TimingData } from "./record";\n\n'
    messages += declarations(structs(protocol, protocol.Message)) + "\n"
    messages += union("ToPage", protocol.TO_PAGE) + union("ToKernel", protocol.TO_KERNEL)
    mimes = {"MIME": record.MIME, "DIFF_MIME": record.DIFF_MIME}
    return {
        "record.ts": _data("explorer/ir/record.py", record, ".", record.VERSION, mimes),
        "protocol.ts": messages,
        "methods/data.ts": _data(
            "explorer/records/data/methods.py", methods, "..", methods.METHODS_VERSION, {"MIME": methods.METHODS_MIME}
        ),
        "ranks/data.ts": _data(
            "explorer/records/data/ranks.py", ranks, "..", ranks.RANKS_VERSION, {"MIME": ranks.RANKS_MIME}
        ),
    }


def _data(source: str, module: object, top: str, version: int, mimes: dict[str, str]) -> str:
    """The types of a module's data, and then their checks."""
    found = structs(module, record.Data)
    types, checking = declarations(found), checks(found)
    imports = _import((f"type {name}" if name == "Check" else name for name in COMBINED if _names(name, checking)),
                      f"{top}/check")  # fmt: skip
    if module is not record:
        imports += _import(
            (each.__name__ for each in structs(record, record.Data) if _names(each.__name__, types)), f"{top}/record"
        )
    constants = f"export const VERSION = {version};\n"
    constants += "".join(f'export const {name} = "{mime}";\n' for name, mime in mimes.items())
    return f"{HEAD.format(source)}{imports}\n{constants}\n{types}\n{checking}"


def _import(names: Iterable[str], path: str) -> str:
    return _wrapped(f'import {{ {", ".join(names)} }} from "{path}";')


def _names(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


if __name__ == "__main__":
    for name, text in texts().items():
        (VIEWER / name).write_text(text)
        print(VIEWER / name)
