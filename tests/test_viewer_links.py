"""The viewer, in TypeScript, follows links as `explorer/records/data/provenance.py` does."""

import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
import torch

import explorer
import viewer_fixtures

EXTENSION = Path(__file__).parent.parent / "extension"
NODE = shutil.which("node")


@pytest.mark.parametrize("name", viewer_fixtures.texts())
def test_fixtures_are_in_step(name):
    written = (viewer_fixtures.FIXTURES / name).read_text()
    assert written == viewer_fixtures.texts()[name], "run: python tests/viewer_fixtures.py"


def trained(x, weight):
    return torch.softmax(x @ weight, -1).sum()


def broken(x, weight):
    y = torch.relu(x * weight)
    print(end="")
    return y.sum(-1)


@pytest.mark.skipif(NODE is None, reason="needs node")
@pytest.mark.skipif(not (EXTENSION / "node_modules" / "esbuild").is_dir(), reason="needs the extension's node_modules")
@pytest.mark.parametrize(("fn", "grad"), [(trained, True), (broken, False)])
def test_chains_of_a_real_record_are_those_of_python(fn, grad, tmp_path):
    arguments = torch.randn(4, 8, requires_grad=grad), torch.randn(8)[:, None] if grad else torch.randn(8)
    data = explorer.explore(fn, time=False)(*arguments).data
    file = tmp_path / "record.json"
    file.write_bytes(msgspec.json.encode(data))
    run = subprocess.run(
        [str(NODE), str(EXTENSION / "test" / "chains.mjs"), str(file)], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    expected = viewer_fixtures.chains(data)
    assert len(expected) > 100
    named = {key[1:].rpartition(":")[0] for key in expected if key.startswith("|")}
    assert named <= {source.file for source in data.sources}, "an element is taken for a source line"
    assert json.loads(run.stdout) == expected
