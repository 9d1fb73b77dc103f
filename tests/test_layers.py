"""The layers of the design hold: imports run one way, and what must stay apart stays apart."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "explorer"

LAYERS = {
    "core": set(),
    "ir": {"core"},
    "config": {"core", "ir"},
    "view": {"core", "ir"},
    "bytecode": {"core", "ir"},
    "capture": {"core", "ir", "bytecode", "config"},
    "autograd": {"core", "ir", "config"},
    "lower": {"core", "ir", "config"},
    "schedule": {"core", "ir", "config"},
    "codegen": {"core", "ir", "config"},
    "runtime": {"core", "ir", "config"},
}
STAGES = {"bytecode", "capture", "autograd", "lower", "schedule", "codegen", "runtime"}
LAYERS["environment"] = LAYERS["runtime"] | {"runtime"}
LAYERS["pipeline"] = {"core", "ir", "config", "view"} | STAGES
LAYERS["check"] = LAYERS["pipeline"] | {"pipeline"}
LAYERS["export"] = {"core", "ir", "bytecode"}
LAYERS["stock"] = LAYERS["check"] | {"check", "environment", "export"}
LAYERS["methods"] = LAYERS["stock"] | {"stock"}
LAYERS["diagnosis"] = {"core", "ir"}
LAYERS["logs"] = {"core", "ir", "diagnosis"}
LAYERS["session"] = LAYERS["stock"] | {"stock", "export"}
LAYERS["ranks"] = LAYERS["session"] | {"session", "logs"}
LAYERS["assembly"] = {"core", "ir", "config", "view", "environment", "export", "diagnosis"}
LAYERS["exploration"] = LAYERS["session"] | {"session", "assembly"}
LAYERS["watching"] = LAYERS["session"] | {"session", "assembly"}
LAYERS["comparison"] = LAYERS["exploration"] | {"exploration", "methods"}
LAYERS["api"] = LAYERS["exploration"] | {"exploration"}
LAYERS["demo"] = LAYERS["api"] | {"api"}
LAYERS["notebook"] = LAYERS["api"] | {"api", "comparison", "methods"}
LAYERS["doctor"] = LAYERS["api"] | {"api"}
LAYERS["operators"] = {"core", "autograd", "lower"}
LAYERS["cli"] = LAYERS["demo"] | {"demo", "doctor", "operators", "watching", "comparison", "methods", "logs", "ranks"}
TOP = LAYERS["cli"] | {"cli"}

FILES = sorted(PACKAGE.rglob("*.py"))


def layer(path: Path) -> str:
    part = path.relative_to(PACKAGE).parts[0]
    return part.removesuffix(".py")


def imports(path: Path) -> list[tuple[int, str, bool]]:
    """(line, module, inside a function) for each import of a file."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {id(node) for function in functions for node in ast.walk(function)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found += [(node.lineno, name, id(node) in inner) for name in names]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path):
    own = layer(path)
    allowed = TOP if own in ("__init__", "__main__") else LAYERS.get(own)
    assert allowed is not None, f"{own} has no place among the layers: give it one here and in the design"
    for line, module, inside in imports(path):
        parts = module.split(".")
        if parts[0] == "explorer" and len(parts) > 1:
            assert not inside, f"{path}:{line} imports {module} inside a function"
            assert parts[1] == own or parts[1] in allowed, f"{path}:{line}: {own} may not import {module}"
        if module.startswith(("torch._dynamo", "torch._inductor")):
            assert own == "stock", f"{path}:{line} names {module}; only stock/ may"
        if parts[0] == "torch":
            assert own not in ("core", "bytecode") and path.name != "bytecode.py", f"{path}:{line} imports torch"


def test_no_file_is_a_drawer():
    drawers = {"utils.py", "common.py", "helpers.py", "misc.py"}
    assert not [path for path in FILES if path.name in drawers]
