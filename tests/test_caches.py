"""Damaged caches and folders that do not serve: values stay right, at most one warning is given, and the next build
finds all in order."""

from __future__ import annotations

import gc
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import explorer
from compilers import (  # noqa: F401 (a fixture)
    COPY,
    X,
    Y,
    another,
    built,
    chain,
    explorer_says,
    fifo,
    good_compiler,
    library,
    other,
    write_compiler,
)
from compiling import program_of
from explorer.compiler.runtime import cache
from explorer.compiler.runtime import reasons as why
from explorer.core.reasons import Unsupported
from explorer.core.recorder import Recorder, recording
from explorer.ir.program import BuildOptions, Target


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
from compilers import built, chain
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
    missing = tmp_path / "missing"
    assert (
        "does not exist" in explorer_says("cache", "verify", "--folder", str(missing), code=2) and not missing.exists()
    )
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").chmod(0o600)
    folder.chmod(0o777)
    assert "others may write to it" in explorer_says("cache", *there[:2], code=1)


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
