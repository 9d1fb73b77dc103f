"""The C++ compiler: which, with which flags, and one run of it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from explorer.core.reasons import Unsupported, Why
from explorer.runtime import reasons

FLAGS = (
    "-std=c++20",
    "-fPIC",
    "-fopenmp",
    "-fno-math-errno",  # sqrt and friends are instructions
    "-fno-trapping-math",  # branches become masks
    "-ffp-contract=off",  # a * b + c rounds twice, as eager's two kernels do
    "-fwrapv",  # integers wrap around
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-asynchronous-unwind-tables",
    "-fno-plt",
    "-pipe",
)
"""What generated code relies on, beside the user's optimisation flags. NaN, infinities and -0 keep their meaning."""

LINK_FLAGS = ("-shared", "-Wl,--as-needed", "-Wl,--build-id=none")


@lru_cache(maxsize=8)
def compiler(name: str) -> tuple[str, str]:
    """The compiler's path and version. Raises Unsupported where there is none."""
    path = shutil.which(name)
    if path is None:
        raise Unsupported(Why(reasons.NO_COMPILER, name))
    asked = subprocess.run([path, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=False)
    return path, f"{Path(path).name} {asked.stdout.strip()}"


def chosen_compiler() -> tuple[str, str]:
    """The path and version of the compiler that CXX names, else of g++."""
    return compiler(os.environ.get("CXX") or "g++")


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


def libraries() -> tuple[str, ...]:
    """What to link with: the OpenMP library, and the C library's mathematics, with its vector part where it has one."""
    vector = ("-lmvec",) if machine_flags() and platform.libc_ver()[0] == "glibc" else ()
    return (*openmp_library(), *vector, "-lm")


def run(command: tuple[str, ...]) -> subprocess.Popen[str]:
    """Start the compiler; `finish` waits for it."""
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def assemble(command: tuple[str, ...]) -> str:
    """The output of a compiler that was told to write assembly to standard output. Raises Unsupported as `finish`."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unsupported(Why(reasons.COMPILER_FAILED, done.stderr.strip()[:2000]))
    return done.stdout


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for a started compiler. Raises Unsupported with its message where it failed."""
    _, complaint = process.communicate()
    if process.returncode == 0:
        return
    if "No space left on device" in complaint:
        raise OSError(28, "No space left on device")
    raise Unsupported(Why(reasons.COMPILER_FAILED, complaint.strip()[:2000]))
