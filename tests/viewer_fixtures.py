"""What the viewer's own tests read: a record, and the chain of each of its elements as Python sees it.

`python tests/viewer_fixtures.py` writes the files anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

import records
from explorer.ir.record import RecordData
from explorer.records.data.provenance import is_source_line, provenance

FIXTURES = Path(__file__).parent.parent / "extension" / "test" / "fixtures"


def chains(record: RecordData) -> dict[str, list[str]]:
    """The chain of every element, both as keys of extension/src/viewer/element.ts: "COMPILE|ID", "|FILE:LINE"."""
    found: dict[str, set[str]] = {}
    for compile in record.compiles:
        links = provenance(compile)

        def key(id: str, compile: str = compile.id) -> str:
            return f"|{id}" if is_source_line(id) else f"{compile}|{id}"

        for id in {*links.up, *links.down}:
            found.setdefault(key(id), set()).update(map(key, links.chain(id)))
    return {element: sorted(chain) for element, chain in sorted(found.items())}


def texts() -> Mapping[str, str]:
    """The files by name."""
    record = records.sample()
    return {
        "sample.explore.json": json.dumps(msgspec.to_builtins(record), indent=1) + "\n",
        "sample.chains.json": json.dumps(chains(record), indent=1) + "\n",
    }


if __name__ == "__main__":
    for name, text in texts().items():
        (FIXTURES / name).write_text(text)
        print(FIXTURES / name)
