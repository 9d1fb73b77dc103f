"""Compilers in trouble, odd ones and none: values stay right, and at most one warning is given."""

from __future__ import annotations

import logging
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import explorer
from compilers import COPY, X, Y, built, chain, explorer_says, good_compiler, write_compiler  # noqa: F401
from explorer.compiler.runtime import compiler
from explorer.compiler.runtime import reasons as why
from explorer.core.recorder import TOTALS, Recorder, recording
from explorer.ir.program import BuildOptions
from explorer.show.demo import CNN

MARK = "echo started >> $(dirname $0)/started\n"

ANSWERS = 'case " $* " in *" --version "*) echo "fake++ 1.2.3"; exit 0;; esac\n'

OUT = 'for word in "$@"; do [ "$before" = -o ] && out=$word; before=$word; done\n'

TROUBLE: dict[str, tuple[str, str]] = {
    "fails": ("echo no good >&2; exit 1", why.COMPILER_FAILED),
    "fails without a word": ("exit 3", why.COMPILER_FAILED),
    "fails in Latin-1": (r"printf 'Fehler: \374ng\374ltig \377\376' >&2; exit 1", why.COMPILER_FAILED),
    "fails with control characters": (r"printf '\033[2J\033]0;x\007 \000 no' >&2; exit 1", why.COMPILER_FAILED),
    "fails with 300 MB of words": ("head -c 300000000 /dev/zero | tr '\\0' e >&2; exit 1", why.COMPILER_FAILED),
    "killed": ("kill -9 $$", why.COMPILER_FAILED),
    "crashes": ("kill -11 $$", why.COMPILER_FAILED),
    "makes nothing": ("exit 0", why.COMPILER_FAILED),
    "makes an empty file": (OUT + ": > $out", why.COMPILER_FAILED),
    "makes a text": (OUT + "echo text > $out", why.COMPILER_FAILED),
    "makes half a library": (OUT + "head -c 3000 $(dirname $0)/chain.so > $out", why.COMPILER_FAILED),
    "makes another library": (OUT + "cp /lib/x86_64-linux-gnu/libm.so.6 $out", why.COMPILER_FAILED),
    "makes one for a sanitizer": (
        OUT + "(cat $(dirname $0)/chain.so; echo libasan.so.8) > $out",
        why.COMPILER_FAILED,
    ),
    "makes a folder": (OUT + "mkdir $out", why.COMPILER_FAILED),
    "makes a fifo": (OUT + "mkfifo $out", why.COMPILER_FAILED),
    "hangs": (MARK + "sleep 100", why.COMPILER_HUNG),
    "hangs through a child": (MARK + "(sleep 100; true) & wait", why.COMPILER_HUNG),
    "talks for ever": (MARK + "while :; do echo on and on and on; done", why.COMPILER_HUNG),
    "hangs with signals off": (MARK + "trap '' TERM INT HUP; while :; do sleep 1; done", why.COMPILER_HUNG),
    "finds the disk full": ("echo 'cannot write: No space left on device' >&2; exit 1", why.NO_ROOM),
}


def outcome(folder: Path, logged: list[logging.LogRecord]) -> str:
    """How `chain` came out when compiled as a user does; its values are right whatever happens."""
    TOTALS.pop("builds failed", None)
    logged.clear()
    recorder = Recorder()
    with recording(recorder):
        compiled = explorer.compile(lambda x, y: chain(x, y), options={"build": BuildOptions(cache_dir=folder)})
        for scale in (1.0, 2.0):
            torch.testing.assert_close(compiled(X * scale, Y), chain(X * scale, Y))
    assert len(logged) <= 1
    (made,) = [s.artifact for c in recorder.compiles for s in c.stages if s.name in ("run eagerly", "rejoin")]
    return "" if made.fallback is None else f"{made.fallback.code} {made.fallback}"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(compiler, "COMPILE_SECONDS", 0.5)
    monkeypatch.setattr(compiler, "SECONDS_PER_LINE", 0.0)
    monkeypatch.setattr(compiler, "VERSION_SECONDS", 0.5)
    yield
    compiler._known.cache_clear()


@pytest.mark.parametrize("kind", TROUBLE)
def test_a_compiler_in_trouble(
    kind: str, good: tuple[Path, Path], tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch,
    logged: list[logging.LogRecord],
) -> None:  # fmt: skip
    body, code = TROUBLE[kind]
    if "MB" in kind:
        monkeypatch.setattr(compiler, "COMPILE_SECONDS", 60.0)
    script = tmp_path / "fake"
    write_compiler(script, ANSWERS + body)
    shutil.copy(good[1].parent / "chain.so", tmp_path)
    monkeypatch.setenv("CXX", str(script))
    said = outcome(tmp_path / "kernels", logged)
    assert said.startswith(code) and len(said) < 20_000
    assert len(said.split(":")) > 2, said
    assert said.replace("\n", "").replace("\t", "").isprintable()
    assert not list((tmp_path / "kernels").glob("*.so")) and not list((tmp_path / "kernels").glob("build-*"))
    if kind == "killed":
        assert "killed by signal 9, likely because memory ran out" in said
    if code == why.COMPILER_HUNG:
        outcome(tmp_path / "kernels", logged)
        assert (tmp_path / "started").read_text() == "started\n", "a compiler that hung was started again"
    for limit in ("COMPILE_SECONDS", "VERSION_SECONDS"):
        monkeypatch.setattr(compiler, limit, 60.0)
    monkeypatch.setenv("CXX", str(good[1]))
    assert outcome(tmp_path / "kernels", logged) == ""


ASKED: dict[str, str] = {
    "fails": "exit 1",
    "says nothing": "exit 0",
    "says no text": r"printf '\377\376\000'; exit 0",
    "says no number": "echo a compiler; exit 0",
    "says it in 300 MB": "head -c 300000000 /dev/zero | tr '\\0' 7; exit 0",
    "is killed": "kill -9 $$",
    "leaves a server behind": "sleep 100 & echo fake++ 3.2.1; exit 0",
}


@pytest.mark.parametrize("kind", ASKED)
def test_a_compiler_that_is_odd_about_its_version_compiles(
    kind: str, good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    logged: list[logging.LogRecord],
) -> None:  # fmt: skip
    script = good[1].with_name(f"odd-{kind.replace(' ', '-')}")
    write_compiler(script, f'case " $* " in *" --version "*) {ASKED[kind]};; esac\n' + COPY)
    monkeypatch.setenv("CXX", str(script))
    assert outcome(tmp_path / "kernels", logged) == ""


def test_a_compiler_that_hangs_when_asked_its_version(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch, logged: list[logging.LogRecord]
) -> None:
    write_compiler(tmp_path / "fake", MARK + "sleep 100")
    monkeypatch.setenv("CXX", str(tmp_path / "fake"))
    for _ in range(2):
        assert outcome(tmp_path / "kernels", logged).startswith(why.COMPILER_HUNG)
    assert (tmp_path / "started").read_text() == "started\n"


NAMED = {
    "a flag": "{script} -m64",
    "a wrapper": "env {script}",
    "a wrapper and a flag": "env A=1 {script} -m64",
    "quotes": "'{script}' \"-m64\"",
    "spaces around": "  {script}  ",
    "a path with spaces": "{spaced}",
    "a quoted path with spaces": "'{spaced}' -m64",
}


@pytest.mark.parametrize("kind", NAMED)
def test_compilers_as_people_name_them(
    kind: str, good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    logged: list[logging.LogRecord],
) -> None:  # fmt: skip
    spaced = tmp_path / "my tools" / "g++"
    spaced.parent.mkdir()
    write_compiler(spaced, f'exec {good[1]} "$@"\n')
    monkeypatch.setenv("CXX", NAMED[kind].format(script=good[1], spaced=spaced))
    assert outcome(tmp_path / "kernels", logged) == ""


@pytest.mark.parametrize(
    "named", ["no-such-compiler", "no-such-compiler -m64", "'unfinished", "/", "/etc/passwd", "./{tmp}", "\\", "-x"]
)
def test_no_compiler(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: list[logging.LogRecord]
) -> None:
    monkeypatch.setenv("CXX", named)
    said = outcome(tmp_path / "kernels", logged)
    assert said.startswith(why.WRONG_CXX) and "CXX" in said


@pytest.mark.parametrize("content", ["", "#!/no/such/interpreter\n", "\x7fELF and no more"])
def test_a_compiler_that_cannot_be_started(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: list[logging.LogRecord]
) -> None:
    write_compiler(tmp_path / "fake", "", head=content)
    monkeypatch.setenv("CXX", str(tmp_path / "fake"))
    assert outcome(tmp_path / "kernels", logged).startswith((why.WRONG_CXX, why.COMPILER_FAILED))


def test_another_compiler_of_the_same_name_builds_anew(
    good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = good[1].with_name("replaced")
    monkeypatch.setenv("CXX", str(script))
    outputs = set()
    for comment in ("", "# newer\n"):
        write_compiler(script, comment + COPY)
        step = built(chain, tmp_path / "kernels").steps[0]
        assert not step.cached
        outputs.add(step.output)
    assert len(outputs) == 2


def test_a_compiler_to_which_a_dash_is_a_file_writes_none_beside_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As zig's, which wrote the assembly to a file of that name in the working folder."""
    chosen = shlex.join(compiler.chosen_compiler().words)
    write_compiler(tmp_path / "literal", f'case " $* " in *" -o - "*) echo > ./-; exit 0;; esac\nexec {chosen} "$@"\n')
    monkeypatch.setenv("CXX", str(tmp_path / "literal"))
    monkeypatch.chdir(tmp_path)
    record = explorer.explore(chain, time=False)(torch.randn(64), torch.randn(64))
    (kernel,) = (kernel for compile in record.data.compiles for half in compile.halves for kernel in half.kernels)
    assert "asm" in kernel.lowered and not (tmp_path / "-").exists()


def test_the_demo_says_first_that_there_is_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.show.demo.cases", lambda: CNN[:1])
    monkeypatch.setenv("CXX", "no-such-compiler")
    first = explorer_says("demo", "--no-stock", "--out", str(tmp_path)).splitlines()[0]
    assert "Nothing is compiled here" in first and "apt install g++" in first.replace("\n", " ")
    assert "Nothing is compiled here" in (tmp_path / "index.html").read_text()
