"""The C++ compiler: which, with which flags, and one run of it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from explorer.compiler.runtime import reasons
from explorer.compiler.runtime.cache import default_folder, temporary_folder
from explorer.compiler.runtime.child import MESSAGE_BYTES, Child, Ended
from explorer.core.reasons import Unsupported, Why

FLAGS = (
    "-std=c++20",
    "-fPIC",
    "-fno-math-errno",  # sqrt and friends are instructions
    "-fno-trapping-math",  # branches become masks
    "-ffp-contract=off",  # a * b + c rounds twice, as eager's two kernels do
    "-fwrapv",  # integers wrap around
    "-fno-builtin-sin",  # g++ makes one sincos of sin(x) and cos(x), which has no vector variant
    "-fno-builtin-sinf",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-asynchronous-unwind-tables",
    "-fno-plt",
    "-pipe",
)
"""What generated code relies on, beside the user's optimization flags. NaN, infinities and -0 keep their meaning."""

LINK_FLAGS = ("-shared", "-Wl,--as-needed", "-Wl,--build-id=none")

DEFAULTS = ("g++", "c++", "clang++")
"""The compilers that are tried, in turn, if CXX is not set; then the compiler of the package `ZIG`."""

ZIG = "ziglang"

VERSION_SECONDS = 20.0
COMPILE_SECONDS = 90.0
SECONDS_PER_LINE = 0.1
"""A run is stopped when it takes longer than COMPILE_SECONDS and this for each line."""

PARALLEL = """
void fill(int *x, int n, int threads) {
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < n; i++) x[i] = i;
}
"""
LISTING_BYTES = 32 * 2**20


@dataclass
class Compiler:
    """A compiler as this process has come to know it. `words` begin each command; `version` is what it calls itself.

    `hung` is set once a run did not end, so that no other compile waits as long. `threads` is "-fopenmp-simd" for a
    compiler without OpenMP's library, whose loops then run on one thread. `vector_math`: it calls the C library's
    functions of vectors, which clang does not."""

    words: tuple[str, ...]
    version: str
    identity: tuple[str, ...]
    threads: str = "-fopenmp"
    vector_math: bool = True
    hung: list[Why] = field(default_factory=list)

    def run(
        self,
        *arguments: str,
        text: str = "",
        folder: str = "",
        output_bytes: int = 0,
        complaint_bytes: int = MESSAGE_BYTES,
    ) -> Run:
        """Start it; its temporary files go to `folder`. Raises Unsupported where it cannot be started."""
        if self.hung:
            raise Unsupported(self.hung[0])
        folders = {"TMPDIR": folder} if folder else {}
        try:
            environment = {**os.environ, **_zigs_cache(self.words), **folders, "LC_ALL": "C"}
            child = Child(
                (*self.words, *arguments), text=text, environment=environment,
                output_bytes=output_bytes, complaint_bytes=complaint_bytes,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            code = reasons.WRONG_CXX if _named() else reasons.NO_COMPILER
            raise Unsupported(Why(code, f"{shlex.join(self.words)} cannot be started: {error}")) from error
        return Run(self, child)


@dataclass(frozen=True)
class Run:
    """A run of the compiler that has not ended."""

    compiler: Compiler
    child: Child

    def finish(self, lines: int = 0) -> Ended:
        """What it printed and remarked. Raises Unsupported with its message where it failed, OSError where a disk is
        full."""
        ended = self.child.wait(COMPILE_SECONDS + SECONDS_PER_LINE * lines)
        if ended.ok:
            return ended
        if "No space left on device" in ended.complaint:
            raise OSError(28, "No space left on device")
        code = reasons.COMPILER_HUNG if ended.late else reasons.COMPILER_FAILED
        why = Why(code, failure_text(self.compiler.words, ended))
        if ended.late:
            self.compiler.hung.append(why)
        raise Unsupported(why)


def failure_text(words: tuple[str, ...], ended: Ended) -> str:
    return f"{shlex.join(words)}: {str(ended)[:4000]}"


def chosen_compiler() -> Compiler:
    """The compiler that CXX names, with arguments where it has some, else the first of `DEFAULTS`. Raises Unsupported
    where there is none, or where it does not answer."""
    words = _words(named) if (named := _named()) else _first()
    found = _known(words, tuple(map(_identity, words)))
    if isinstance(found, Why):
        raise Unsupported(found)
    return found


def _named() -> str:
    return os.environ.get("CXX", "").strip()


def _words(named: str) -> tuple[str, ...]:
    if (whole := shutil.which(named)) is not None:
        return (whole,)
    try:
        program, *arguments = shlex.split(named)
    except ValueError as error:
        raise Unsupported(Why(reasons.WRONG_CXX, f"CXX={named!r} is not a command: {error}")) from error
    if (path := shutil.which(program)) is None:
        raise Unsupported(Why(reasons.WRONG_CXX, f"CXX={named!r}: there is no executable {program!r}"))
    return (path, *arguments)


def _first() -> tuple[str, ...]:
    for name in DEFAULTS:
        if (path := shutil.which(name)) is not None:
            return (path,)
    if find_spec(ZIG) is not None:
        return (sys.executable, "-m", ZIG, "cc")  # "c++" first builds a library that is not needed
    raise Unsupported(Why(reasons.NO_COMPILER, f"none of {', '.join(DEFAULTS)} is on the PATH"))


def _zigs_cache(words: tuple[str, ...]) -> dict[str, str]:
    """Where zig keeps what it makes for itself: its own choice, or a temporary folder where that is none to write to.

    Raises OSError where there is no folder at all."""
    if ZIG not in words or "ZIG_GLOBAL_CACHE_DIR" in os.environ:
        return {}
    with suppress(OSError):
        folder = default_folder().parent / "zig"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return {"ZIG_GLOBAL_CACHE_DIR": str(folder)}
    return {"ZIG_GLOBAL_CACHE_DIR": str(temporary_folder() / "zig")}


def _identity(word: str) -> str:
    """What changes when another program is installed under the same name."""
    path = shutil.which(word)
    if path is None:
        return word
    found = os.stat(path)
    return f"{os.path.realpath(path)} {found.st_size} {found.st_mtime_ns}"


@lru_cache(maxsize=8)
def _known(words: tuple[str, ...], identity: tuple[str, ...]) -> Compiler | Why:
    """The compiler after it was asked for its version. One that names none may compile all the same."""
    asking = Compiler(words, "", identity)
    try:
        ended = asking.run("--version", output_bytes=2000).child.wait(VERSION_SECONDS)
    except Unsupported as refusal:
        return refusal.why
    if ended.late:
        return Why(reasons.COMPILER_HUNG, failure_text((*words, "--version"), ended))
    first = ended.output.splitlines()[0][:200] if ended.ok and ended.output else "of an unknown version"
    number = re.findall(r"(?<!\d)\d+(?:\.\d+)+", first)
    name = next((Path(word).name for word in words[1:] if shutil.which(word)), Path(words[0]).name)
    shown = "clang" if "clang" in first and "clang" not in name else name
    clang = "clang" in first
    threads = "-fopenmp" if not clang or _links_openmp(asking) else "-fopenmp-simd"
    return Compiler(words, f"{shown} {number[-1] if number else first}", (*identity, first), threads, not clang)


def _links_openmp(compiler: Compiler) -> bool:
    """Whether OpenMP's own library is linked with, which clang does not always come with."""
    try:
        with tempfile.TemporaryDirectory() as scratch:
            made = Path(scratch, "made.so")
            compiler.run("-fopenmp", "-fPIC", "-shared", "-x", "c++", "-", "-o", str(made), text=PARALLEL).finish()
            return re.search(rb"lib[a-z]*omp\d*\.so", made.read_bytes()) is not None
    except (Unsupported, OSError):
        return False


@lru_cache(maxsize=1)
def machine_flags() -> tuple[str, ...]:
    """Flags that only make sense on this kind of processor."""
    return ("-mprefer-vector-width=512",) if platform.machine() in ("x86_64", "AMD64") else ()


@lru_cache(maxsize=1)
def processor() -> str:
    """What "native" means here, for cache keys."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features")))


@lru_cache(maxsize=1)
def openmp_library() -> tuple[str, ...]:
    """The OpenMP library that torch has loaded, to link with, so that both share their threads; () where not found."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return ()
    found = {line.split(maxsplit=5)[5] for line in maps.splitlines() if "/libgomp" in line}
    return tuple(sorted(found)[:1])


def libraries(compiler: Compiler) -> tuple[str, ...]:
    """What to link with: the OpenMP library, and the C library's mathematics, with its vector part where it has one."""
    vector = ("-lmvec",) if compiler.vector_math and machine_flags() and platform.libc_ver()[0] == "glibc" else ()
    return (*openmp_library(), *vector, "-lm")
