"""How much there is to read: lines by folder and kind, and modules that import one another in a circle."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from benchmarks.report import Aim, Report, Selection, percent

ROOT = Path(__file__).parent.parent
PACKAGE, VIEWER = ROOT / "explorer", ROOT / "extension" / "src"
FLOORS = ("compiler", "records", "show")
COMPILER = ("compiler", "core", "ir")
KINDS = ("blank", "comments", "imports", "code")
LONGEST = 120


def run(selection: Selection) -> Report:
    folders: dict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        folder = "/".join(parts[: 2 if parts[0] in FLOORS else 1][: len(parts) - 1])
        if selection.of(folder):
            found = kinds(path.read_text())
            for into in (folder or "(files beside the folders)", "explorer/"):
                folders[into] += Counter(found, files=1, lines=sum(found.values()))
            if parts[0] in COMPILER:
                folders["of it the compiler"] += Counter(found, files=1, lines=sum(found.values()))
    folders["extension/src"] = typescript(VIEWER)
    totals = ("explorer/", "of it the compiler", "extension/src")
    order = sorted((name for name in folders if name not in totals), key=lambda name: -folders[name]["lines"])
    rows = tuple(row(name, folders[name]) for name in (*order, *totals))
    package, compiler, viewer = (folders[name] for name in totals)
    circles = list(cycles(imports(PACKAGE)))
    viewer_circles = list(cycles(typescript_imports(VIEWER)))
    aims = (
        Aim("explorer/: at most 42,000 lines", f"{package['lines']:,}", package["lines"] <= 42_000),
        Aim("explorer/: at most 250 files", str(package["files"]), package["files"] <= 250),
        Aim("the compiler: at most 28,000 lines", f"{compiler['lines']:,}", compiler["lines"] <= 28_000),
        Aim("extension/src: at most 15,000 lines", f"{viewer['lines']:,}", viewer["lines"] <= 15_000),
        Aim("no circle of imports in explorer/", of_files(circles), not circles),
        Aim("no circle of imports in extension/src", of_files(viewer_circles), not viewer_circles),
    )  # fmt: skip
    return Report("Lines by folder and kind", ("", "files", "lines", *KINDS, f"over {LONGEST} wide"), rows, aims)


def of_files(circles: Iterable[Collection[str]]) -> str:
    return ", ".join(f"one of {len(circle)} files" for circle in circles) or "none"


def row(name: str, found: Counter[str]) -> tuple[str, ...]:
    shares = (percent(found[kind], found["lines"]) for kind in KINDS)
    return (name, f"{found['files']:,}", f"{found['lines']:,}", *shares, str(found["wide"]))


def kinds(source: str) -> dict[str, int]:
    """Lines of Python by kind; comments are lines of nothing else, and docstrings."""
    lines = source.splitlines()
    kind = ["blank" if not line.strip() else "code" for line in lines]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#"):
            kind[token.start[0] - 1] = "comments"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            what = "imports"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            what = "comments"
        else:
            continue
        kind[node.lineno - 1 : node.end_lineno] = [what] * (node.end_lineno - node.lineno + 1)  # type: ignore[operator]
    return dict(Counter(kind))


def typescript(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in folder.rglob("*.ts*"):
        lines = path.read_text().splitlines()
        texts = [line.strip() for line in lines]
        blank = sum(not text for text in texts)
        comments = sum(text.startswith(("//", "/*", "*")) for text in texts)
        imported = sum(text.startswith("import ") for text in texts)
        code = len(lines) - blank - comments - imported
        wide = sum(len(line) > LONGEST for line in lines)
        found += Counter(
            files=1, lines=len(lines), blank=blank, comments=comments, imports=imported, code=code, wide=wide
        )
    return found


def typescript_imports(folder: Path) -> dict[str, set[str]]:
    """The modules of a folder of TypeScript, and which of them each imports, also for types alone."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*.ts*")}
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        named = re.findall(r'(?:from|import)\s*\(?"(\.[^"]+)"', path.read_text())
        places = [os.path.relpath((path.parent / each).resolve(), folder.resolve()) for each in named]
        found[name] = {end for at in places for end in (f"{at}.ts", f"{at}.tsx", f"{at}/index.ts") if end in files}
    return found


def imports(package: Path) -> dict[str, set[str]]:
    """The modules of a package, and which of them each imports, also for types alone."""
    files = {name_of(path, package): path for path in package.rglob("*.py")}
    return {name: set(imported(ast.parse(path.read_text()), files.keys())) - {name} for name, path in files.items()}


def name_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, modules: Collection[str]) -> Iterator[str]:
    """Those of `modules` that a module imports: of `from package import name` the package where it holds the name. A
    text that is a module's name, or begins as one, stands for an import of it."""
    for node in ast.walk(tree):
        if (name := loaded(node)) in modules:
            yield name
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in modules else node.module


MODULE_NAMED = re.compile(rf"({PACKAGE.name}(?:\.\w+)+)(?:\.|:\w+)?")


def loaded(node: ast.AST) -> str:
    """The module of the package that a text names, as `import_module` and entry points take it, of an f-string the
    package that it begins with; "" of anything else."""
    match node:
        case ast.Call(ast.Name("_imported"), [ast.Constant(str(name))]):  # of explorer/__init__.py
            return f"{PACKAGE.name}.{name}"
        case ast.Constant(str(text)) if (found := MODULE_NAMED.fullmatch(text)) is not None:
            return found[1]
    return ""


def cycles(edges: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """The strongly connected components of more than one module. Tarjan, "Depth-first search and linear graph
    algorithms", 1972; without recursion."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    for start in edges:
        work = [(start, iter(edges[start]))] if start not in number else []
        while work:
            node, rest = work[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                stack.append(node)
            following = next((each for each in rest if each not in number or each in stack), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    if len(component) > 1:
                        yield sorted(component)
            elif following in number:
                low[node] = min(low[node], number[following])
            else:
                work.append((following, iter(edges[following])))
