"""Compilers for tests: scripts that copy a library built once, or fail. What tests of caches ask of a build."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from compiling import program_of
from explorer.ir.program import BuildOptions, Program
from explorer.show.cli import main

X, Y = torch.linspace(-2, 2, 30), torch.linspace(3, -1, 30)


def chain(x, y):
    return torch.relu(x * 2 + y) - y


def other(x, y):
    return torch.exp(x) * y


def built(function: Callable[..., torch.Tensor], folder: Path) -> Program:
    program = program_of(function, X, Y, options=BuildOptions(cache_dir=folder))
    assert program.call is not None
    torch.testing.assert_close(program.call((X, Y))[0], function(X, Y))
    return program


@pytest.fixture(scope="module", name="good")
def good_compiler(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(a folder with the libraries of `chain` and `other`, for copies that no process has mapped; the compiler that
    copied them there)"""
    tmp = tmp_path_factory.mktemp("good")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CXX", raising=False)
        made = [built(function, tmp / "real").steps[0].output for function in (chain, other)]
        for path, name in zip(made, ("chain.so", "other.so"), strict=True):
            shutil.copy(path, tmp / name)
        script = tmp / "copying"
        write_compiler(script, COPY)
        patch.setenv("CXX", str(script))
        for function in (chain, other):
            built(function, tmp / "kernels")
    return tmp / "kernels", script


def library(folder: Path, function: Callable[..., torch.Tensor]) -> Path:
    """The library of `chain` or `other` in a folder."""
    wanted = ["k0_mul_exp" in path.read_text() for path in folder.glob("*.cpp")]
    paths = list(folder.glob("*.cpp"))
    return paths[wanted.index(function is other)].with_suffix(".so")


COPY = r"""
case " $* " in *" --version "*) echo "copying++ 1.2.3"; exit 0;; esac
here=$(dirname "$0"); out=; source=; before=
for word in "$@"; do
  [ "$before" = -o ] && out=$word
  case $word in *.cpp) source=$word;; esac
  before=$word
done
grep -q k0_mul_exp "$source" && cp "$here/other.so" "$out" || cp "$here/chain.so" "$out"
"""


def write_compiler(path: Path, body: str, head: str = "#!/bin/sh\n") -> None:
    path.write_text(head + body)
    path.chmod(0o755)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def another(path: Path) -> Path:
    return next(p for p in path.parent.iterdir() if p.suffixes == path.suffixes and p.name != path.name)


def explorer_says(*words: str, code: int = 0) -> str:
    ran = CliRunner().invoke(main, words)
    assert ran.exit_code == code, ran.output
    return ran.output
