"""Write what the viewer takes from Python: the types of the record and of the messages, and what checks that something
is a record.

`python -m explorer.show.notebook.types`
"""

from __future__ import annotations

import re

import msgspec

from explorer.core.package import PACKAGE
from explorer.ir import methods, ranks, record
from explorer.show.notebook import protocol
from explorer.show.view.typescript import checks, declarations, union

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
    """The files by name."""
    lines = f'export const VERSION = {record.VERSION};\nexport const MIME = "{record.MIME}";\n'
    lines += f'export const DIFF_MIME = "{record.DIFF_MIME}";\n\n'
    records = HEAD.format("explorer/ir/record.py") + lines + declarations(structs(record, record.Data))
    messages = HEAD.format("explorer/show/notebook/protocol.py")
    messages += 'import type { CompileData, PartData, RecordData, StageData, TimingData } from "./record";\n\n'
    messages += declarations(structs(protocol, protocol.Message)) + "\n"
    messages += union("ToPage", protocol.TO_PAGE) + union("ToKernel", protocol.TO_KERNEL)
    kinds = HEAD.format("explorer/ir/record.py") + _checks(structs(record, record.Data), ".")
    return {
        "record.ts": records,
        "kinds.ts": kinds,
        "protocol.ts": messages,
        **_beside_records("methods", methods, methods.METHODS_VERSION, methods.METHODS_MIME),
        **_beside_records("ranks", ranks, ranks.RANKS_VERSION, ranks.RANKS_MIME),
    }


def _beside_records(name: str, module: object, version: int, mime: str) -> dict[str, str]:
    """The types and the checks of data that holds records or parts of them, in a folder of its own."""
    head, found = HEAD.format(f"explorer/ir/{name}.py"), structs(module, record.Data)
    types = declarations(found)
    data = head + _imports("import type", types, "../record")
    data += f'export const VERSION = {version};\nexport const MIME = "{mime}";\n\n{types}'
    return {f"{name}/data.ts": data, f"{name}/kinds.ts": head + _checks(found, "..")}


def _checks(found: list[type[msgspec.Struct]], top: str) -> str:
    text = checks(found)
    used = ", ".join(f"type {name}" if name == "Check" else name for name in COMBINED if _names(name, text))
    imports = f'import {{ {used} }} from "{top}/check";\n'
    imports += "\n" if top == "." else _imports("import", text, f"{top}/kinds")
    return imports + text


def _imports(how: str, text: str, path: str) -> str:
    """The import of what a text names of the record."""
    used = (each.__name__ for each in structs(record, record.Data) if _names(each.__name__, text))
    return f'{how} {{ {", ".join(used)} }} from "{path}";\n\n'


def _names(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


if __name__ == "__main__":
    for name, text in texts().items():
        (VIEWER / name).write_text(text)
        print(VIEWER / name)
