"""The layers of the design hold: imports run one way, and what must stay apart stays apart."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.size import FLOORS, cycles, imported, loaded, name_of, typescript_imports
from benchmarks.size import imports as imports_of_package

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "explorer"

LAYERS = {
    "core": set(),
    "ir": {"core"},
    "config": {"core", "ir"},
    "view": {"core", "ir", "diagnosis", "data"},
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
LAYERS["pipeline"] = {"core", "ir", "config"} | STAGES
LAYERS["check"] = LAYERS["pipeline"] | {"pipeline"}
LAYERS["data"] = {"core", "ir"}
LAYERS["to_record"] = {"core", "ir", "bytecode", "data"}
LAYERS["stock"] = LAYERS["check"] | {"check", "data", "environment", "to_record"}
LAYERS["methods"] = LAYERS["stock"] | {"stock", "assembly"}
LAYERS["diagnosis"] = {"core", "ir", "data"}
LAYERS["logs"] = {"core", "ir", "data", "diagnosis"}
LAYERS["repro"] = {"core", "ir"}
LAYERS["assembly"] = {"core", "ir", "config", "data", "environment", "to_record", "diagnosis"}
LAYERS["exploration"] = LAYERS["stock"] | {"stock", "assembly"}
LAYERS["editing"] = LAYERS["exploration"] | {"exploration"}
LAYERS["watching"] = LAYERS["stock"] | {"stock", "assembly"}
LAYERS["throughput"] = {"core", "ir", "runtime", "data"}
LAYERS["record"] = LAYERS["editing"] | {"editing", "view", "repro", "throughput"}
LAYERS["ranks"] = {"core", "data", "logs", "view", "record"}
LAYERS["watch"] = {"watching", "record"}
LAYERS["comparison"] = LAYERS["record"] | {"record", "methods"}
LAYERS["workbench"] = {"core", "ir", *STAGES}
LAYERS["compile"] = LAYERS["pipeline"] | {"pipeline"}
LAYERS["api"] = LAYERS["record"] | {"record", "compile"}
LAYERS["course"] = LAYERS["api"] | {"api", "workbench"}
LAYERS["demo"] = LAYERS["api"] | {"api"}
LAYERS["notebook"] = LAYERS["api"] | {"api", "comparison", "methods", "watch"}
LAYERS["doctor"] = LAYERS["api"] | {"api"}
LAYERS["operators"] = {"core", "autograd", "lower"}
LAYERS["cli"] = LAYERS["demo"] | {"demo", "doctor", "operators", "watch", "comparison", "methods", "logs", "ranks"}
LAYERS["cli"] |= {"course"}
TOP = LAYERS["cli"] | {"cli", "notebook", "workbench"}

FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {name_of(path, PACKAGE) for path in FILES}


def layer(module: str) -> str:
    """The part of the package that a module is in: "capture" for explorer.compiler.capture.values."""
    names = [name for name in module.split(".")[1:] if name not in FLOORS]
    return names[0] if names else "__init__"


def imports(path: Path) -> list[tuple[int, str, bool]]:
    """(line, module, inside a function) for each import of a file, and for each text that names a module."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {id(node) for function in functions for node in ast.walk(function)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif (name := loaded(node)) in MODULES:
            found.append((node.lineno, name, False))  # which may be in a function: it is not there before it is needed
            continue
        else:
            continue
        found += [(node.lineno, name, id(node) in inner) for name in names]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path):
    own = layer(name_of(path, PACKAGE))
    allowed = TOP if own in ("__init__", "__main__") else LAYERS.get(own)
    assert allowed is not None, f"{own} has no place among the layers: give it one here and in the design"
    for line, module, inside in imports(path):
        if module.startswith("explorer.") and layer(module) != "__init__":
            assert not inside, f"{path}:{line} imports {module} inside a function"
            assert layer(module) in {own, *allowed}, f"{path}:{line}: {own} may not import {module}"
        if module.startswith(("torch._dynamo", "torch._inductor")):
            assert own == "stock", f"{path}:{line} names {module}; only stock/ may"
        if module.split(".")[0] == "torch":
            assert own not in ("core", "bytecode") and path.name != "bytecode.py", f"{path}:{line} imports torch"


def test_the_compiler_stands_by_itself(tmp_path):
    """With all deleted that is not the compiler or what it stands on, it compiles a training step."""
    for name in ("core", "ir", "compiler", "__init__.py"):
        copy = shutil.copy if (PACKAGE / name).is_file() else shutil.copytree
        (tmp_path / "explorer").mkdir(exist_ok=True)
        copy(PACKAGE / name, tmp_path / "explorer" / name)
    program = """
import sys, torch
from explorer.compiler.compile import compile, configure
def f(x, w):
    return (x @ w).relu().sum()
x, w = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)
compiled = compile(f, configure(fullgraph=True))
torch.testing.assert_close(compiled(x, w), f(x, w))
compiled(x, w).backward()
torch.testing.assert_close(w.grad, torch.autograd.grad(f(x, w), w)[0])
assert not [name for name in sys.modules if name.startswith(("explorer.records", "explorer.show"))]
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True)


FLOOR = {"core": 0, "ir": 0, "compiler": 1, "records": 2}


def test_a_floor_imports_none_above_it():
    """What is in none of these folders is on top: show, the public functions, and the course."""
    edges = [(one, other) for one, below in imports_of_package(PACKAGE).items() for other in below]
    floor = {name: FLOOR.get(".".join(name.split(".")[1:2]), 3) for name in MODULES}
    assert not [(one, other) for one, other in edges if floor[one] < floor[other]]
    assert len(edges) > 1000


LOADED = """
import importlib
from importlib import import_module as load

def late(name):
    load("explorer.show.record").Record
    importlib.import_module(name="explorer.api")
    load(f"explorer.show.cli.{name}")
    __import__("explorer.ir.graph")
    return EntryPoint("explorer", "explorer.compiler.compile:compile", "explorer.records: no module", "explorer")
"""


def test_modules_that_are_loaded_by_name_are_imports(tmp_path):
    found = {"explorer.show.record", "explorer.api", "explorer.show.cli", "explorer.ir.graph"}
    assert set(imported(ast.parse(LOADED), MODULES)) == found | {"explorer.compiler.compile"}
    (tmp_path / "late.py").write_text(LOADED)
    assert {name for _, name, _ in imports(tmp_path / "late.py") if name.startswith("explorer.")} >= found


def test_no_modules_import_each_other():
    assert not list(cycles(imports_of_package(PACKAGE)))
    viewer = typescript_imports(ROOT / "extension" / "src")
    assert sum(map(len, viewer.values())) > 300
    assert not list(cycles(viewer))


def test_no_file_is_a_drawer():
    drawers = {"utils.py", "common.py", "helpers.py", "misc.py"}
    assert not [path for path in FILES if path.name in drawers]


def test_the_reasons_of_a_stage_are_in_one_file():
    """The `reasons.py` of its folder, which is where to look for a code that begins with the stage's name."""
    folders = {path.parent for path in FILES if path.name == "reasons.py" and path.parent != PACKAGE / "core"}
    defining = [path for path in FILES if "= reason(" in path.read_text(encoding="utf-8")]
    assert len(folders) > 5
    assert not [path for path in defining if folders & {*path.parents} and path.name != "reasons.py"]


def test_lines_of_the_viewer_have_at_most_120_characters():
    """As ruff checks Python's."""
    source = ROOT / "extension" / "src"
    found = [
        f"{path.relative_to(source)}:{n}"
        for path in sorted(source.rglob("*.*"))
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120
    ]
    assert found == []
