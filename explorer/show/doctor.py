"""What works on this machine, and what to do about what does not."""

from __future__ import annotations

import importlib
import logging
import os
import platform
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec
import torch

from explorer.api import compile
from explorer.compiler.config import Config
from explorer.compiler.runtime.cache import default_folder, error_text, items, private
from explorer.compiler.runtime.compiler import chosen_compiler
from explorer.compiler.runtime.reasons import NO_COMPILER
from explorer.core.reasons import CATALOGUE, Unsupported
from explorer.core.recorder import Recorder, recording
from explorer.core.text import count
from explorer.ir.joint import Compiled
from explorer.ir.program import BuildOptions
from explorer.records.environment import processor
from explorer.show.view.report import template

State = Literal["works", "missing", "broken"]

PACKAGES = ("torch", "triton", "numpy", "ipywidgets", "jupyterlab", "notebook", "transformers")
OPTIONAL = ("triton", "jupyterlab", "notebook", "transformers")

NAME = "torch-explorer"
OLDEST_TORCH = (2, 11)


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `missing` can be done without; `broken` cannot. `hint`: what to do."""

    name: str
    state: State
    detail: str
    hint: str = ""


def examine() -> list[Finding]:
    """Look at everything that this package needs or makes use of; builds and runs one small kernel."""
    looks: tuple[tuple[str, Callable[[], list[Finding]]], ...] = (
        ("versions", _versions),
        ("compiler", _compiler),
        ("kernels", _kernels),
        ("folders", _folders),
        ("GPUs", _gpus),
        ("viewer", _viewer),
    )
    return [finding for name, look in looks for finding in _checked(name, look)]


def _checked(name: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return look()
    except Exception as error:  # one part that cannot be looked at hides no other
        return [Finding(name, "broken", f"the check raised {type(error).__name__}: {error}")]


def _versions() -> list[Finding]:
    explorer = _version(NAME) or "run from source"
    found = [
        Finding("explorer", "works", explorer),
        Finding("Python", "works", f"{platform.python_version()} ({sys.executable})"),
        Finding("system", "works", f"{platform.system()} {platform.release()} {platform.machine()}, {processor()}"),
    ]
    for package in PACKAGES:
        installed = _version(package)
        if installed is not None and package == "torch" and _release(installed) < OLDEST_TORCH:
            detail = f"{installed}; {'.'.join(map(str, OLDEST_TORCH))} or later is needed"
            found.append(Finding(package, "broken", detail, "pip install -U torch"))
        elif installed is not None:
            found.append(Finding(package, "works", installed))
        else:
            state: State = "missing" if package in OPTIONAL else "broken"
            found.append(Finding(package, state, "not installed", f"pip install {package}"))
    return found


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,6}", version.partition("+")[0])[:2])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _compiler() -> list[Finding]:
    asked = f" (CXX={os.environ['CXX']!r})" if os.environ.get("CXX") else ""
    try:
        found = chosen_compiler()
    except Unsupported as refusal:
        detail = str(refusal.why) if "CXX=" in refusal.why.detail else f"{refusal.why}{asked}"
        return [Finding("C++ compiler", "broken", detail, _what_to_do(refusal.why.code))]
    single = found.threads != "-fopenmp"
    without = "loops run on one thread: it finds no OpenMP library (that of Debian's clang: apt install libomp-dev)"
    hint = without if single else ""
    return [Finding("C++ compiler", "works", f"{found.version}: {shlex.join(found.words)}{asked}", hint)]


def _kernels() -> list[Finding]:
    """A function compiled in a folder of its own, and in the cache. What keeps the first from being built is
    reported once: the second is not tried, and nothing is if there is no compiler."""
    try:
        chosen_compiler()
    except Unsupported:
        return [Finding("a new kernel", "missing", "not tried, since there is no compiler")]
    with tempfile.TemporaryDirectory() as scratch, _without_warnings():
        new = _tried("a new kernel", Path(scratch, "kernels"))
        if new.state != "works":
            return [new, Finding("the kernel cache", "missing", "not tried, since no kernel is built")]
        return [new, _tried("the kernel cache", None)]


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Inside, no warning says that kernels cannot be built."""
    log = logging.getLogger("explorer")
    log.addFilter(_nothing)
    try:
        yield
    finally:
        log.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


ANOTHER = "Set CXX to another compiler, or unset it: then g++, c++ or clang++ is looked for."
NEWER = "Install g++ 11 or later (apt install g++, or pip install ziglang), or name another compiler by CXX."


def _what_to_do(code: str) -> str:
    """The hint of a reason; another one where it only leads here."""
    hint = CATALOGUE[code].hint
    if "explorer doctor" not in hint or code == NO_COMPILER:
        return hint
    return ANOTHER if os.environ.get("CXX") else NEWER


def _tried(name: str, folder: Path | None) -> Finding:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2 + 1).sum(-1)

    x = torch.linspace(-1, 1, 64).reshape(4, 16)
    recorder = Recorder()
    with recording(recorder):
        result = compile(scaled, options={"build": BuildOptions(cache_dir=folder)})(x)
    made = [stage.artifact for run in recorder.compiles for stage in run.stages]
    refusals = [each.fallback for each in made if isinstance(each, Compiled) and each.fallback is not None]
    if refusals:
        return Finding(name, "broken", f"not built: {refusals[0]}", _what_to_do(refusals[0].code))
    if not torch.allclose(result, scaled(x)):
        return Finding(name, "broken", "built, but its values differ from eager's", "Please report this machine.")
    steps = [step for each in made if isinstance(each, Compiled) for half in each.halves for step in half.steps]
    shown = ", ".join(f"{'from the cache' if step.cached else f'built in {step.seconds:.2f} s'}" for step in steps)
    return Finding(name, "works", f"right values, {shown}")


def _folders() -> list[Finding]:
    found, place = [], ""
    try:
        folder = default_folder()
        place = f"{folder}: "
        private(folder)
        kept, _ = items(folder)
        size = sum(item.bytes for item in kept.values())
        holds = f"{count(len(kept), 'program')}, {size / 2**20:.1f} MiB"
        detail = f"{folder}: {holds} of at most {Config().build.cache_bytes >> 20} MiB"
        found.append(Finding("cache folder", "works", detail))
    except OSError as error:
        hint = "Each process builds its kernels again; name one that runs programs by XDG_CACHE_HOME."
        found.append(Finding("cache folder", "missing", place + error_text(error), hint))
    try:
        taken, asked = tempfile.gettempdir(), os.environ.get("TMPDIR")
        instead = f", since TMPDIR={asked!r} cannot be written" if asked and Path(asked) != Path(taken) else ""
        found.append(Finding("temporary folder", "works", taken + instead))
    except OSError as error:
        found.append(Finding("temporary folder", "broken", error_text(error), "Set TMPDIR to a writable folder."))
    return found


def _gpus() -> list[Finding]:
    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        why = f"torch is built for {built}, but finds no GPU" if built else "this torch is built for the CPU only"
        return [Finding("GPU", "missing", f"{why}; GPU code is generated and shown, but not run")]
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return [Finding(f"GPU {number}", "works", name) for number, name in enumerate(names)]


def _viewer() -> list[Finding]:
    """The viewer that pages hold, and the extension where JupyterLab looks for it."""
    if template() is None:
        hint = "run `make extension` (needs Node.js 20), or install the wheel, which contains it"
        return [Finding("viewer", "missing", "not built; pages are made without it", hint)]
    found = [Finding("viewer", "works", "built; pages contain it")]
    if find_spec("jupyter_core") is None:
        return found
    try:
        roots: list[str] = importlib.import_module("jupyter_core.paths").jupyter_path("labextensions")
    except RuntimeError as error:  # a user without an entry and without a home, as in a container
        why = f"not looked for, because Jupyter raises {type(error).__name__}: {error}"
        return [*found, Finding("JupyterLab extension", "missing", why, "set HOME to a folder that you own")]
    place = next((Path(root, NAME) for root in roots if Path(root, NAME, "package.json").is_file()), None)
    if place is None:
        hint = "pip install torch-explorer in the environment that JupyterLab runs in"
        return [*found, Finding("JupyterLab extension", "missing", "JupyterLab does not find it", hint)]
    return [*found, Finding("JupyterLab extension", "works", str(place))]


def as_json(findings: list[Finding]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(findings))
