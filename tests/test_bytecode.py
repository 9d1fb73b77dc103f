"""Bytecode to normalized instructions and back changes nothing, on each supported Python that is on this machine."""

from __future__ import annotations

import dis
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import bytecode_roundtrip as roundtrip
from explorer.compiler.bytecode.decode import decode
from explorer.compiler.bytecode.encode import encode
from explorer.compiler.bytecode.flow import liveness
from explorer.compiler.bytecode.normal import OPS
from explorer.compiler.bytecode.rules import WRITING
from explorer.core.reasons import Unsupported

CORPUS = {name: (before, after) for name, before, after in roundtrip.corpus()}
OTHERS = [version for version in ((3, 11), (3, 12), (3, 13)) if version != sys.version_info[:2]]


def interpreter(version: tuple[int, int]) -> str | None:
    """A Python of that version that really runs: one on the PATH may be a shim of pyenv for a version not active."""
    name = f"python{version[0]}.{version[1]}"
    installed = sorted(Path.home().glob(f".pyenv/versions/{version[0]}.{version[1]}.*/bin/python"))
    for candidate in (shutil.which(name), *map(str, reversed(installed))):
        if candidate is None:
            continue
        command = [candidate, "-c", "import sys; print(sys.version_info[:2])"]
        probe = subprocess.run(command, capture_output=True, text=True)
        if probe.returncode == 0 and probe.stdout.strip() == str(version):
            return candidate
    return None


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str) -> None:
    before, after = CORPUS[name]
    assert roundtrip.outcome(before, traced=False) == roundtrip.outcome(after, traced=False)
    assert roundtrip.outcome(before, traced=True) == roundtrip.outcome(after, traced=True)


def test_outcomes_differ_where_programs_do() -> None:
    """The comparison sees a changed constant, a changed line and a changed message."""
    seen = [
        roundtrip.outcome(scope["f"], traced=True)
        for source in ("def f(): return 1", "def f(): return 2", "\ndef f(): return 1", "def f(): raise ValueError(1)")
        for scope in [{}]
        for _ in [exec(compile(source, "s", "exec"), scope)]
    ]
    assert all(one != other for i, one in enumerate(seen) for other in seen[:i])


@pytest.mark.parametrize("path", list(roundtrip.library()), ids=lambda path: path.stem)
def test_library(path: Path) -> None:
    roundtrip.check_code(compile(path.read_bytes(), str(path), "exec"))


@pytest.mark.slow
@pytest.mark.parametrize("version", OTHERS, ids=lambda version: f"{version[0]}.{version[1]}")
def test_other_version(version: tuple[int, int]) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version[0]}.{version[1]} here")
    done = subprocess.run([python, roundtrip.__file__], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "behavior" in done.stdout


def test_library_modules_work_encoded() -> None:
    command = [sys.executable, roundtrip.__file__, "--behavior"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


def test_every_op_can_be_written() -> None:
    """What this version lacks: ops that stand only for what later versions compile."""
    missing = {op for op in OPS if not any(op in key for key in WRITING)}
    assert missing == ({"LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FAST_AND_CLEAR", "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD",
                        "CLEANUP_THROW"} if sys.version_info < (3, 12) else set())  # fmt: skip


def test_ids_spans_and_origins() -> None:
    def f(x):
        return x.real + 1

    body = decode(f.__code__, "f7")
    assert [i.id for i in body.instructions] == [f"f7@{n}" for n in range(len(body.instructions))]
    add = next(i for i in body.instructions if i.op == "BINARY_OP")
    assert add.arg == "+" and add.span is not None
    assert (add.span.line, add.span.column, add.span.end_column) == (f.__code__.co_firstlineno + 1, 15, 25)
    assert add.origins == (f"{__file__}:{add.span.line}",)
    assert body.original is f.__code__


def test_listing() -> None:
    def f(a, /, b, *c, d, **e):
        for x in a:
            if x is not None:
                print(x, end=b)

    lines = str(decode(f.__code__).text()).splitlines()
    assert lines[0].endswith("f(a, /, b, *c, d, **e)")
    assert any(line.endswith("CALL                   2 end") for line in lines)
    assert any(" POP_JUMP_IF            " in line and "none -> " in line for line in lines)


def test_unknown_opcode_is_refused_by_name() -> None:
    def f():
        return 1

    # Numbers without a name will not do: many are forms that the interpreter puts in the place of others.
    where_none_belongs = bytes([dis.opmap["CACHE"], 0])
    broken = f.__code__.replace(co_code=f.__code__.co_code[:2] + where_none_belongs + f.__code__.co_code[2:])
    with pytest.raises(Unsupported, match="CACHE.*bytecode.opcode"):
        decode(broken)


def test_super_keeps_its_hidden_reads_alive() -> None:
    class A:
        def f(self, x):
            y = x + 1
            return super().__repr__(), y

    body = decode(A.f.__code__)
    live = liveness(body)[body.instructions[0].id]
    assert live == {"self", "x", "__class__"}
    assert isinstance(encode(body), types.CodeType)
