"""docs/architecture.md: the parts of the package and which imports which, read from their imports."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Set
from pathlib import Path

from benchmarks.report import Report, Selection
from benchmarks.size import FLOORS, PACKAGE, imports

DOCUMENT = Path(__file__).parent.parent / "docs" / "architecture.md"

HEAD = """# Architecture

Written by `python -m benchmarks architecture`, from the imports. An arrow leads from a part to what it is built on;
arrows that others imply are left out. `tests/test_layers.py` keeps them one way.

"""


def run(selection: Selection) -> Report:
    DOCUMENT.write_text(page())
    rows = tuple((name, about(name)) for name in sorted(parts(imports(PACKAGE))))
    return Report("The parts of the package", ("part", "what it is"), rows)


def page() -> str:
    found = parts(imports(PACKAGE))
    grouped = [line for floor in FLOORS for line in subgraph(floor, found)]
    arrows = sorted((name, below) for name, all_below in reduced(found).items() for below in all_below)
    lines = ["```mermaid", "flowchart TD", *grouped, *(f"    {a} --> {b}" for a, b in arrows), "```"]
    drawing = "\n".join(lines)
    ground_up = sorted(found, key=lambda name: (depth(name, found), name))
    table = "\n".join(f"| {name} | {about(name)} |" for name in ground_up)
    return f"{HEAD}{drawing}\n\nFrom the ground up:\n\n| part | what it is |\n| --- | --- |\n{table}\n"


def subgraph(floor: str, found: Collection[str]) -> list[str]:
    return [
        f"    subgraph {floor}",
        *(f"        {name}" for name in sorted(found) if floor_of(name) == floor),
        "    end",
    ]


def parts(modules: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """Folders and files of the package, and which of them each imports."""
    found: dict[str, set[str]] = {}
    for module, named in modules.items():
        own = part(module)
        if own:
            found.setdefault(own, set()).update(filter(None, map(part, named)))
    return {own: below - {own} for own, below in found.items()}


def part(module: str) -> str:
    names = [name for name in module.split(".")[1:] if name not in FLOORS]
    return "" if not names or names[0].startswith("__") else names[0]


def floor_of(name: str) -> str:
    """The folder of folders that a part is in; "" for one that is in none."""
    return next((floor for floor in FLOORS if file_of(PACKAGE / floor, name).exists()), "")


def file_of(folder: Path, name: str) -> Path:
    """The file with the docstring of a part: of a folder, or of a file."""
    return folder / name / "__init__.py" if (folder / name).is_dir() else folder / f"{name}.py"


def reduced(found: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """The transitive reduction of an acyclic graph."""
    return {
        name: {one for one in below if not any(one in reach(other, found) for other in below - {one})}
        for name, below in found.items()
    }


def reach(name: str, found: Mapping[str, Set[str]]) -> set[str]:
    return set().union(*({below} | reach(below, found) for below in found[name]))


def depth(name: str, found: Mapping[str, Set[str]]) -> int:
    return 1 + max((depth(below, found) for below in found[name]), default=0)


def about(name: str) -> str:
    """The first sentence of a part's docstring."""
    text = ast.get_docstring(ast.parse(file_of(PACKAGE / floor_of(name), name).read_text()))
    return " ".join((text or "").split("\n\n")[0].split()).replace("|", "\\|")
