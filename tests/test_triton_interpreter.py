"""Generated Triton kernels, interpreted, equal eager: the tests of triton_interpreted.py in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHARDS = 2  # as processes that the tests run in: each starts torch and Triton anew


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_interpreted_kernels_equal_eager(shard: int) -> None:
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short"]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "SHARD": f"{shard}/{SHARDS}", "OMP_NUM_THREADS": "1"}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    run = subprocess.run(
        [*command, "--show-capture=no", str(here / "triton_interpreted.py")],
        cwd=here.parent, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
