"""The machine and the software versions, shown in every record."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from explorer.compiler.runtime.compiler import chosen_compiler
from explorer.compiler.runtime.reasons import NO_COMPILER
from explorer.core.reasons import Unsupported


@cache
def describe() -> dict[str, str]:
    """Versions, processor and GPUs, by name."""
    found = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "triton": _version("triton"),
        "explorer": _version("torch-explorer"),
        "C++ compiler": _compiler(),
        "cpu": processor(),
        "threads": str(torch.get_num_threads()),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for number in range(torch.cuda.device_count()):
        found[f"gpu {number}"] = torch.cuda.get_device_name(number)
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _compiler() -> str:
    try:
        return chosen_compiler().version
    except Unsupported as refusal:
        return "none" if refusal.why.code == NO_COMPILER else str(refusal.why)


def processor() -> str:
    """The processor's model name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
