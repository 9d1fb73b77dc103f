"""Damaged caches, compilers in trouble and folders that do not serve: values stay right, at most one warning is given,
and the next build finds all in order. Compilers are scripts that copy a library built once."""

from __future__ import annotations

import gc
import json
import logging
import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import explorer
from compiling import program_of
from explorer.compiler.runtime import cache, compiler
from explorer.compiler.runtime import reasons as why
from explorer.core.reasons import Unsupported
from explorer.core.recorder import TOTALS, Recorder, recording
from explorer.ir.program import BuildOptions, Program, Target
from explorer.show import doctor
from explorer.show.cli import main
from explorer.show.demo import CNN

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


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
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


# Damage to what is kept. Each function does one kind of harm to a file.


def cut_to(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, min(size, path.stat().st_size))


def zeroed(start: int, size: int) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(start)
            file.write(bytes(min(size, max(0, path.stat().st_size - start))))

    return harm


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0" * 5000)


def random_bytes(path: Path) -> None:
    path.write_bytes(torch.randint(256, (4000,), dtype=torch.uint8).numpy().tobytes())


def folder_in_place(path: Path) -> None:
    path.unlink()
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "file").write_text("x")


def link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nothing")


def link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def link_to_another(path: Path) -> None:
    path.unlink()
    path.symlink_to(another(path))


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def another(path: Path) -> Path:
    return next(p for p in path.parent.iterdir() if p.suffixes == path.suffixes and p.name != path.name)


def another_content(path: Path) -> None:
    shutil.copyfile(another(path), path)


def huge(path: Path) -> None:
    os.truncate(path, 2**40)


def open_to_all(path: Path) -> None:
    path.chmod(0o777)


def of_another_user(path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root")
    os.chown(path, 12345, -1)


def old_text(path: Path) -> None:
    path.write_text("int run0_entry;\n")


DAMAGE: dict[str, Callable[[Path], None]] = {
    **{f"cut to {size}": cut_to(size) for size in (0, 1, 64, 500, 4096, 8192)},
    "start zeroed": zeroed(0, 64),
    "a page zeroed": zeroed(4096, 4096),
    "all zeroed": zeroed(0, 1 << 20),
    "a bit flipped": flipped,
    "longer": longer,
    "random bytes": random_bytes,
    "a text": old_text,
    "removed": Path.unlink,
    "a folder in its place": folder_in_place,
    "a link to nothing": link_to_nothing,
    "a link to itself": link_to_itself,
    "a link to another": link_to_another,
    "a fifo": fifo,
    "another's content": another_content,
    "a terabyte": huge,
    "open to all": open_to_all,
    "of another user": of_another_user,
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("suffix", [".so", ".so.sha256", ".cpp"])
def test_damage_is_repaired(
    kind: str, suffix: str, good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(good[1]))
    folder = shutil.copytree(good[0], tmp_path / "kernels")
    target = library(folder, chain)
    assert cache.intact(target)
    path = target.with_name(target.stem + suffix)
    before = path.read_bytes()
    DAMAGE[kind](path)
    harmless = suffix == ".cpp" or kind.startswith(("cut", "a page")) and path.read_bytes() == before
    again = built(chain, folder).steps[0]
    assert again.output == str(target)
    assert again.cached == harmless
    assert built(chain, folder).steps[0].cached and cache.intact(target)
    assert built(other, folder).steps[0].cached
    text = target.with_suffix(".cpp")
    assert "ENTRY(run0" in text.read_text() and not text.is_symlink()


@pytest.mark.parametrize("pair", [(".so", ".so.sha256"), (".so", ".so.sha256", ".cpp")])
def test_a_library_under_anothers_name_is_not_loaded(
    pair: tuple[str, ...], good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(good[1]))
    folder = shutil.copytree(good[0], tmp_path / "kernels")
    paths = [library(folder, function) for function in (chain, other)]
    for suffix in pair:
        shutil.copy(*(path.with_name(path.stem + suffix) for path in paths))
    assert not built(other, folder).steps[0].cached


def test_a_checksum_of_what_cannot_be_loaded(
    good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a machine with another C library."""
    monkeypatch.setenv("CXX", str(good[1]))
    folder = shutil.copytree(good[0], tmp_path / "kernels")
    path = library(folder, chain)
    path.write_bytes(b"\x7fELF of another machine")
    cache.confirm(path)
    assert cache.intact(path)
    assert not built(chain, folder).steps[0].cached
    assert built(chain, folder).steps[0].cached


FRESH = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import torch, explorer
from explorer.ir.program import BuildOptions
from pathlib import Path
from test_caches import built, chain
for folder in sys.argv[1:]:
    print(built(chain, Path(folder)).steps[0].cached)
"""


def test_a_fresh_process_repairs_what_would_end_it(
    good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mapped file that is cut or zeroed ends a process with a signal."""
    monkeypatch.setenv("CXX", str(good[1]))
    kinds = ["cut to 500", "cut to 4096", "cut to 8192", "a page zeroed", "all zeroed", "another's content"]
    folders = [tmp_path / str(number) for number in range(len(kinds) + 1)]
    for kind, folder in zip([*kinds, None], folders, strict=True):
        shutil.copytree(good[0], folder)
        if kind is not None:
            DAMAGE[kind](library(folder, chain))
    command = [sys.executable, "-c", FRESH, str(Path(__file__).parent), *map(str, folders)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and ran.stderr == "", ran
    assert ran.stdout.split() == ["False"] * len(kinds) + ["True"]


# Compilers in trouble.

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


def outcome(folder: Path, caplog: pytest.LogCaptureFixture) -> str:
    """How `chain` came out when compiled as a user does; its values are right whatever happens."""
    TOTALS.pop("builds failed", None)
    caplog.clear()
    recorder = Recorder()
    with recording(recorder), caplog.at_level(logging.INFO):
        compiled = explorer.compile(lambda x, y: chain(x, y), options={"build": BuildOptions(cache_dir=folder)})
        for scale in (1.0, 2.0):
            torch.testing.assert_close(compiled(X * scale, Y), chain(X * scale, Y))
    assert len([record for record in caplog.records if not record.name.startswith("torch.__trace")]) <= 1
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
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    body, code = TROUBLE[kind]
    if "MB" in kind:
        monkeypatch.setattr(compiler, "COMPILE_SECONDS", 60.0)
    script = tmp_path / "fake"
    write_compiler(script, ANSWERS + body)
    shutil.copy(good[1].parent / "chain.so", tmp_path)
    monkeypatch.setenv("CXX", str(script))
    said = outcome(tmp_path / "kernels", caplog)
    assert said.startswith(code) and len(said) < 20_000
    assert len(said.split(":")) > 2, said
    assert said.replace("\n", "").replace("\t", "").isprintable()
    assert not list((tmp_path / "kernels").glob("*.so")) and not list((tmp_path / "kernels").glob("build-*"))
    if kind == "killed":
        assert "killed by signal 9, likely because memory ran out" in said
    if code == why.COMPILER_HUNG:
        outcome(tmp_path / "kernels", caplog)
        assert (tmp_path / "started").read_text() == "started\n", "a compiler that hung was started again"
    for limit in ("COMPILE_SECONDS", "VERSION_SECONDS"):
        monkeypatch.setattr(compiler, limit, 60.0)
    monkeypatch.setenv("CXX", str(good[1]))
    assert outcome(tmp_path / "kernels", caplog) == ""


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
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    script = good[1].with_name(f"odd-{kind.replace(' ', '-')}")
    write_compiler(script, f'case " $* " in *" --version "*) {ASKED[kind]};; esac\n' + COPY)
    monkeypatch.setenv("CXX", str(script))
    assert outcome(tmp_path / "kernels", caplog) == ""


def test_a_compiler_that_hangs_when_asked_its_version(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_compiler(tmp_path / "fake", MARK + "sleep 100")
    monkeypatch.setenv("CXX", str(tmp_path / "fake"))
    for _ in range(2):
        assert outcome(tmp_path / "kernels", caplog).startswith(why.COMPILER_HUNG)
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
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    spaced = tmp_path / "my tools" / "g++"
    spaced.parent.mkdir()
    write_compiler(spaced, f'exec {good[1]} "$@"\n')
    monkeypatch.setenv("CXX", NAMED[kind].format(script=good[1], spaced=spaced))
    assert outcome(tmp_path / "kernels", caplog) == ""


@pytest.mark.parametrize(
    "named", ["no-such-compiler", "no-such-compiler -m64", "'unfinished", "/", "/etc/passwd", "./{tmp}", "\\", "-x"]
)
def test_no_compiler(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CXX", named)
    said = outcome(tmp_path / "kernels", caplog)
    assert said.startswith(why.WRONG_CXX) and "CXX" in said


@pytest.mark.parametrize("content", ["", "#!/no/such/interpreter\n", "\x7fELF and no more"])
def test_a_compiler_that_cannot_be_started(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_compiler(tmp_path / "fake", "", head=content)
    monkeypatch.setenv("CXX", str(tmp_path / "fake"))
    assert outcome(tmp_path / "kernels", caplog).startswith((why.WRONG_CXX, why.COMPILER_FAILED))


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


# Folders that do not serve.


def moved_to(folder: Path | None) -> str:
    """Why the kernels of `chain` went elsewhere; "" where they did not."""
    recorder = Recorder()
    with recording(recorder):
        program = program_of(chain, X, Y, options=BuildOptions(cache_dir=folder))
    assert program.call is not None
    torch.testing.assert_close(program.call((X, Y))[0], chain(X, Y))
    moves = [event for run in recorder.compiles for event in run.events if isinstance(event, cache.CacheMoved)]
    return str(moves[0].why) if moves else ""


def a_file(tmp: Path) -> Path:
    (tmp / "file").write_text("")
    return tmp / "file"


def below_a_file(tmp: Path) -> Path:
    return a_file(tmp) / "below"


def open_parent(tmp: Path) -> Path:
    (tmp / "shared").mkdir()
    (tmp / "shared").chmod(0o777)
    return tmp / "shared" / "mine"


def open_itself(tmp: Path) -> Path:
    (tmp / "shared").mkdir()
    (tmp / "shared").chmod(0o770)
    return tmp / "shared"


def owned_by_another(tmp: Path) -> Path:
    made = tmp / "theirs"
    made.mkdir(mode=0o700)
    os.chown(made, 12345, 12345)
    return made


def below_anothers(tmp: Path) -> Path:
    return owned_by_another(tmp) / "mine"


def linked_from_anothers(tmp: Path) -> Path:
    (tmp / "mine").mkdir(mode=0o700)
    (owned_by_another(tmp) / "link").symlink_to(tmp / "mine")
    return tmp / "theirs" / "link"


def anothers_link(tmp: Path) -> Path:
    (tmp / "mine").mkdir(mode=0o700)
    (tmp / "link").symlink_to(tmp / "mine")
    os.chown(tmp / "link", 12345, 12345, follow_symlinks=False)
    return tmp / "link"


def in_a_circle(tmp: Path) -> Path:
    (tmp / "a").symlink_to(tmp / "b")
    (tmp / "b").symlink_to(tmp / "a")
    return tmp / "a" / "kernels"


def a_device(tmp: Path) -> Path:
    return Path("/dev/null")


def a_long_name(tmp: Path) -> Path:
    return tmp / ("x" * 300)


REFUSED = [
    a_file, below_a_file, open_parent, open_itself, owned_by_another, below_anothers, linked_from_anothers,
    anothers_link, in_a_circle, a_device, a_long_name,
]  # fmt: skip


@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
def test_a_folder_that_does_not_serve_is_replaced(
    make: Callable[[Path], Path], good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "another" in make.__name__ and os.geteuid():
        pytest.skip("needs root")
    monkeypatch.setenv("CXX", str(good[1]))
    folder = make(tmp_path)
    assert str(folder) in moved_to(folder)


def fine_link(tmp: Path) -> Path:
    (tmp / "real").mkdir()
    (tmp / "link").symlink_to("real")
    return tmp / "link" / "deeper" / "kernels"


def with_dots(tmp: Path) -> Path:
    (tmp / "real").mkdir()
    return tmp / "real" / ".." / "kernels"


def not_ascii(tmp: Path) -> Path:
    return tmp / "Ordner für \u6838" / "-x"


@pytest.mark.parametrize("make", [fine_link, with_dots, not_ascii], ids=lambda make: make.__name__)
def test_a_folder_that_serves(
    make: Callable[[Path], Path], good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(good[1]))
    folder = make(tmp_path)
    assert moved_to(folder) == "" and list(folder.glob("*.so.sha256"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


SETTINGS: dict[str, dict[str, str | None]] = {
    "a relative XDG_CACHE_HOME": {"XDG_CACHE_HOME": "caches"},
    "one like an option": {"XDG_CACHE_HOME": "-x"},
    "an empty one": {"XDG_CACHE_HOME": ""},
    "no HOME": {"XDG_CACHE_HOME": None, "HOME": None},
    "an empty HOME": {"XDG_CACHE_HOME": None, "HOME": ""},
    "a relative HOME": {"XDG_CACHE_HOME": None, "HOME": "somewhere"},
    "a HOME that is not there": {"XDG_CACHE_HOME": None, "HOME": "/no/such/home"},
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_homes_as_containers_have_them(
    kind: str, good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setenv("CXX", str(good[1]))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    for name, value in SETTINGS[kind].items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    said = moved_to(None)
    assert (said == "") == ("XDG" in kind or "one" in kind), said
    assert not [path for path in tmp_path.rglob("*") if ".cache" not in str(path)]


def test_a_folder_mounted_noexec(good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mounted:
        f_flag = os.ST_NOEXEC

    asked = os.statvfs
    monkeypatch.setenv("CXX", str(good[1]))
    monkeypatch.setattr("os.statvfs", lambda path: Mounted if str(tmp_path) in str(path) else asked(path))
    assert "noexec" in moved_to(tmp_path / "kernels")


@pytest.mark.parametrize("call", ["fsync", "replace", "mkdir", "open", "utime"])
@pytest.mark.parametrize("number", [28, 30, 122, 13, 5])
def test_a_disk_that_fails(
    call: str, number: int, good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full, read-only, over quota, forbidden, broken: at each of the calls that write."""
    real = getattr(os, call)

    def failing(path: object, *rest: object, **named: object) -> object:
        name = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else str(path)
        if str(tmp_path) in name and (call != "open" or rest and rest[0] & os.O_CREAT):
            raise OSError(number, os.strerror(number))
        return real(path, *rest, **named)

    monkeypatch.setenv("CXX", str(good[1]))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        said = moved_to(tmp_path / "kernels")
        assert (os.strerror(number) in said) == (call != "utime"), said
    assert moved_to(tmp_path / "kernels") == ""


def test_a_build_waits_for_the_disk_once(
    good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the library: what a crash loses of its source and its checksum is made again."""
    synced: list[str] = []
    real = os.fsync

    def noted(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))
        real(file)

    monkeypatch.setenv("CXX", str(good[1]))
    monkeypatch.setattr(os, "fsync", noted)
    assert moved_to(tmp_path / "kernels") == ""
    assert [Path(name).name for name in synced] == ["made.so"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_folder_that_is_emptied_during_a_build(
    when: str, good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by `explorer cache clear` beside it: before the compiler reads, or while it writes."""
    folder = tmp_path / "kernels"
    clear = f"case $out in {folder}/*) rm -rf {folder}/*.cpp {folder}/build-*; exit 1;; esac\n"
    read, copy = COPY.rstrip().rsplit("\n", 1)
    script = good[1].with_name(f"emptied-{when}")
    write_compiler(script, f"{read}\n{clear}{copy}" if when == "before" else f"{read}\n{copy}\n{clear}")
    monkeypatch.setenv("CXX", str(script))
    assert "another process emptied it" in moved_to(folder)
    monkeypatch.setenv("CXX", str(good[1]))
    assert moved_to(folder) == ""
    left = folder / "build-now"
    left.mkdir()
    assert cache.clear(folder) and [left] == list(folder.iterdir())


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o077, 0o777])
def test_whatever_the_umask_is(
    mask: int, good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(good[1]))
    before = os.umask(mask)
    try:
        assert moved_to(tmp_path / "kernels") == ""
    finally:
        os.umask(before)
    (kept,) = (tmp_path / "kernels").glob("*.so")
    assert not stat.S_IMODE(kept.stat().st_mode) & 0o022


def test_nowhere_to_build(tmp_path: Path, good: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("CXX", str(good[1]))
    monkeypatch.setattr(cache, "temporary_folder", full)
    with pytest.raises(Unsupported) as error:
        moved_to(a_file(tmp_path))
    assert error.value.why.code == why.NO_ROOM and "No space" in str(error.value)


# Its size.


def entry(folder: Path, number: int, size: int, used: float) -> list[Path]:
    name = f"{number:032x}"
    paths = [folder / f"{name}.so", folder / f"{name}.so.sha256", folder / f"{name}.cpp"]
    for path in paths:
        path.write_bytes(bytes(size))
        os.utime(path, (used, used))
    return paths


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    entries = [entry(tmp_path, number, 1000, 1000.0 + number) for number in range(10)]
    strangers = [tmp_path / "notes.txt", tmp_path / "lib.so", tmp_path / "folder"]
    for path in strangers:
        path.write_bytes(bytes(100_000)) if path.suffix else path.mkdir()
    assert cache.trim(tmp_path, 40_000) == 0
    removed = cache.trim(tmp_path, 20_000)
    assert removed == 15_000
    assert [all(path.exists() for path in paths) for paths in entries] == [False] * 5 + [True] * 5
    assert all(path.exists() for path in strangers)
    assert cache.clear(tmp_path) == 15_000
    assert sorted(tmp_path.iterdir()) == sorted(strangers)


def test_a_library_in_use_stays(tmp_path: Path, good: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(good[1]))
    path = Path(built(chain, tmp_path).steps[0].output)
    for each in tmp_path.iterdir():
        os.utime(each, (1, 1))
    entry(tmp_path, 7, 10_000, 1000.0)
    built(chain, tmp_path)
    cache.trim(tmp_path, 40_000)
    assert path.exists() and not (tmp_path / f"{7:032x}.so").exists()


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    old, new = tmp_path / "build-abc", tmp_path / "build-def"
    part = tmp_path / f"{1:032x}.cppxyz.part"
    for folder in (old, new):
        (folder / "deep").mkdir(parents=True)
    part.write_text("")
    for path in (old, part):
        os.utime(path, (1, 1))
    cache.trim(tmp_path, 1)
    assert [path.exists() for path in (old, new, part)] == [False, True, False]


def test_libraries_are_unloaded_with_their_programs(
    good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(good[1]))

    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    for number in range(20):
        built(chain, tmp_path / str(number))
    gc.collect()
    assert mapped() == 0


# What the commands say.


def explorer_says(*words: str, code: int = 0) -> str:
    ran = CliRunner().invoke(main, words)
    assert ran.exit_code == code, ran.output
    return ran.output


def test_the_cache_command(good: tuple[Path, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(good[0], tmp_path / "kernels")
    there = ("--folder", str(folder), "--json")
    shown = json.loads(explorer_says("cache", *there))
    assert (shown["folder"], shown["programs"]) == (str(folder), 2)
    assert shown["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert json.loads(explorer_says("cache", "verify", *there))["damaged"] == []
    harmed = library(folder, chain)
    cut_to(500)(harmed)
    (folder / "notes.txt").write_text("mine")
    assert json.loads(explorer_says("cache", "verify", *there))["damaged"] == [harmed.name]
    assert "all are intact" in explorer_says("cache", "verify", *there[:2])
    assert "0 programs" in explorer_says("cache", "clear", *there[:2])
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").chmod(0o600)
    folder.chmod(0o777)
    assert "others may write to it" in explorer_says("cache", *there[:2], code=1)


def test_the_doctor(good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = {each["name"]: each for each in json.loads(explorer_says("doctor", "--json"))}
    for name in ("C++ compiler", "a new kernel", "the kernel cache", "torch"):
        assert found[name]["state"] == "works"
    assert str(tmp_path) in found["cache folder"]["detail"]
    monkeypatch.setenv("CXX", "no-such-compiler")
    said = explorer_says("doctor", code=1)
    assert "BROKEN" in said and "CXX='no-such-compiler'" in said and "or unset it" in said and "apt install g++" in said


def findings(code: int = 0) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in json.loads(explorer_says("doctor", "--json", code=code))}


def test_the_doctor_says_once_what_a_compiler_that_fails_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_compiler(tmp_path / "breaking", "echo ld: cannot find crt1.o >&2; exit 1\n")
    monkeypatch.setenv("CXX", str(tmp_path / "breaking"))
    monkeypatch.setitem(TOTALS, "builds failed", 0)
    found = findings(code=1)
    assert str(found).count("cannot find crt1.o") == 1 and "cannot find crt1.o" not in caplog.text
    assert found["a new kernel"]["state"] == "broken" and found["the kernel cache"]["state"] == "missing"
    assert "or unset it" in found["a new kernel"]["hint"] and "explorer doctor" not in str(found)


def test_the_doctor_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("explorer.compiler.runtime.compiler.DEFAULTS", ("no-such-compiler",))
    monkeypatch.setattr("explorer.compiler.runtime.compiler.find_spec", lambda name: None)
    found = findings(code=1)
    assert "apt install g++" in found["C++ compiler"]["hint"]
    assert [name for name, each in found.items() if each["state"] == "broken"] == ["C++ compiler"]
    assert "not tried" in found["a new kernel"]["detail"]


def test_the_doctor_with_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("where a folder would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found = findings()
    assert found["cache folder"]["state"] == "missing" and "XDG_CACHE_HOME" in found["cache folder"]["hint"]
    assert found["cache folder"]["detail"].startswith(f"{tmp_path}/file/torch-explorer: ")
    assert found["a new kernel"]["state"] == found["the kernel cache"]["state"] == "works"


def test_the_doctor_where_jupyter_finds_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(*folders: str) -> list[str]:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("jupyter_core.paths.jupyter_path", homeless)
    monkeypatch.setattr(doctor, "template", lambda: "a page")
    found = findings()
    assert found["viewer"]["state"] == "works"
    assert found["JupyterLab extension"]["state"] == "missing" and "HOME" in found["JupyterLab extension"]["hint"]


@pytest.mark.parametrize(("installed", "state"), (("2.10.1+cpu", "broken"), ("2.11.0", "works"), ("3.0.0a1", "works")))
def test_the_doctor_and_versions_of_torch(installed: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda package: installed)
    found = {each.name: each for each in doctor._versions()}
    assert found["torch"].state == state
    assert f"torch>={'.'.join(map(str, doctor.OLDEST_TORCH))}" in Path("pyproject.toml").read_text()


def test_the_doctor_without_what_needs_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The viewer is built with Node.js, and the extension is where it was installed."""
    monkeypatch.setattr(doctor, "template", lambda: None)
    found = {each.name: each for each in doctor._viewer()}
    assert found["viewer"].state == "missing" and "Node.js" in found["viewer"].hint
    monkeypatch.setattr(doctor, "template", lambda: "<html>")
    monkeypatch.setattr("jupyter_core.paths.jupyter_path", lambda name: [str(tmp_path)])
    found = {each.name: each for each in doctor._viewer()}
    assert found["JupyterLab extension"].state == "missing" and "pip install" in found["JupyterLab extension"].hint


def test_the_demo_says_first_that_there_is_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.show.demo.cases", lambda: CNN[:1])
    monkeypatch.setenv("CXX", "no-such-compiler")
    first = explorer_says("demo", "--no-stock", "--out", str(tmp_path)).splitlines()[0]
    assert "Nothing is compiled here" in first and "apt install g++" in first.replace("\n", " ")
    assert "Nothing is compiled here" in (tmp_path / "index.html").read_text()


# A process of a user that the system does not know, as containers have.

UNKNOWN = """
import os, sys
os.environ.pop("HOME"); os.environ.pop("XDG_CACHE_HOME", None)
os.setgid(54321); os.setuid(54321)
sys.path[:0] = sys.argv[1:]
import torch, explorer
def f(x): return torch.relu(x * 2) + 1
record = explorer.explore(f, time=False)(torch.randn(8))
accuracy = record.data.timing.accuracy
halves = [half for compile in record.data.compiles for half in compile.halves]
print(accuracy.largest_absolute == 0, [build.output for half in halves for build in half.builds])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_user_without_an_entry_and_without_a_home(good: tuple[Path, Path]) -> None:
    root = Path(explorer.__file__).parent.parent
    command = [sys.executable, "-c", UNKNOWN, str(root)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    if "Permission denied" in ran.stderr or "No module" in ran.stderr:
        pytest.skip("the sources are closed to other users")
    assert ran.stdout.startswith("True") and "/torch-explorer-" in ran.stdout, ran


# Kernels for cards, which Triton keeps in the same folder.


def test_damage_to_a_kernel_for_a_card_is_repaired(tmp_path: Path) -> None:
    pytest.importorskip("triton")

    def cached() -> bool:
        options = BuildOptions(cache_dir=tmp_path)
        return program_of(chain, X, Y, target=Target.parse("cuda:sm_90"), options=options).steps[0].cached

    assert [cached(), cached()] == [False, True]
    (binary,) = tmp_path.rglob("*.cubin")
    made = binary.read_bytes()
    for kind in ("cut to 64", "random bytes", "a bit flipped", "a folder in its place", "removed", "open to all"):
        DAMAGE[kind](binary)
        assert [cached(), cached()] == [False, True], kind
        assert binary.read_bytes() == made
