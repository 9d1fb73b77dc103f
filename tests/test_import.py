"""`import explorer` brings in nothing of torch's compiler, and warns of nothing; the names are there when asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

import explorer

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import explorer
assert not [name for name in sys.modules if name.startswith(("torch._inductor", "torch._dynamo"))]
assert set(explorer.__all__) <= set(dir(explorer))
import torch
print(explorer.compile(lambda x: torch.relu(x * 2))(torch.tensor([-1.0, 1.0])))
"""


@pytest.mark.skipif(not explorer._known_to_torch(), reason="not installed, it tells torch of its backend")
def test_import_is_light_and_warns_of_nothing() -> None:
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(Path(explorer.__file__).parent.parent)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "tensor([0., 2.])\n"), ran


def test_a_name_that_does_not_exist() -> None:
    assert not hasattr(explorer, "no_such_name")
    assert all(getattr(explorer, name) is not None for name in explorer.__all__)
