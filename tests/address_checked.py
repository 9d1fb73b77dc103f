"""Programs run with generated C++ that checks each address: `python address_checked.py programs|overrun`.

To be started with the address sanitizer's library loaded first. It ends the process at the first bad access.
"""

from __future__ import annotations

import ctypes
import datetime
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from typing import Any

import torch

from benchmarks.fuzz.program import grow
from benchmarks.fuzz.trial import SECONDS, meaningful, observed
from explorer.api import configure
from explorer.compiler.capture import optimize
from explorer.compiler.pipeline import compile_frame
from explorer.ir.program import BuildOptions
from programs import ZOO, observe

FLAGS = ("-O1", "-fsanitize=address", "-fno-omit-frame-pointer")
EVERY, RANDOM = 16, 8
"""One in so many programs of the zoo, another part each day, and so many random ones."""

OVERRUN = 'extern "C" void overrun(float* out, long n) { for (long i = 0; i <= n; ++i) out[i] = 1; }'


def compile(function: Any) -> Any:
    return optimize(function, replace(configure(), build=BuildOptions(cpp_flags=FLAGS)), compile_frame)


def zoo() -> None:
    for program in ZOO[datetime.date.today().toordinal() % EVERY :: EVERY]:
        print(program.name, flush=True)
        observe(program, compile, train=program.grad)


def random() -> None:
    seed = datetime.date.today().isoformat()
    for number in range(RANDOM):
        program = grow(seed, number)
        print(f"random program {number} of {seed}", flush=True)
        if meaningful(program) is not None:
            observed(program, compile, SECONDS)


def overrun() -> None:
    """A write past the end of a tensor, which has to be noticed."""
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "overrun.so")
        subprocess.run(
            ["g++", *FLAGS, "-shared", "-fPIC", "-x", "c++", "-", "-o", library], input=OVERRUN, text=True, check=True
        )
        out = torch.empty(100)
        ctypes.CDLL(library).overrun(ctypes.c_void_p(out.data_ptr()), ctypes.c_long(out.numel()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "overrun":
        overrun()
    else:
        zoo()
        random()
    print("done")
