"""The viewer decides guards on described calls as tests/guard_decisions.py does, and as the real checks do."""

import json
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import torch

import explorer
from explorer.ir.record import CompileData, ConstantData, GlobalStateData, InputData
from guard_decisions import decide

EXTENSION = Path(__file__).parent.parent / "extension"
NODE = shutil.which("node")
CALLS = 60
"""Described calls for each compile."""


def flags(x, mask, heads, causal=True, mode="relu", options={"dim": 1}):  # noqa: B006
    b, n = x.shape
    y = x.view(b, heads, n // heads)
    if causal:
        y = y * mask
    return (y.relu() if mode == "relu" else y).sum(options["dim"])


def sizes(x, y, n):
    if x.shape[0] * 2 > n and x.shape[0] % 2 == 0:
        return x.reshape(-1, 2).sum() + y[:n].sum() + x.stride(0)
    return x.sum() - y.sum()


def containers(items, nothing, by_name):
    total = sum(item.sum() for item in items) if items else 0
    if nothing is None:
        total = total + by_name["a"].sum()
    return total * len(by_name)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)
        self.gain = 2.0

    def forward(self, x):
        return self.linear(x) * self.gain if self.training else self.linear(x)


def compiles():
    x = torch.randn(6, 8)
    made = [
        (explorer.explore(flags, time=False), (torch.randn(8, 64), torch.randn(8, 4, 16), 4)),
        (explorer.explore(sizes, time=False, dynamic=True), (torch.randn(6, 4), torch.randn(20), 5)),
        (explorer.explore(containers, time=False), ([x, x + 1, x], None, {"a": x, "b": 1})),
        (explorer.explore(Net(), time=False), (x,)),
    ]
    return [compile for explored, given in made for compile in explored(*given).data.compiles if compile.guards]


def changed(given: InputData, draw: random.Random) -> InputData:
    """The description of some other value in the same place."""
    plain = [ConstantData("int", "3", 3), ConstantData("bool", "True", True), ConstantData("float", "3.0", 3.0),
             ConstantData("str", "'relu'", "relu"), ConstantData("NoneType", "None"),
             ConstantData("int", str(2**60), None)]  # fmt: skip
    kinds = {"int": "number", "float": "number", "NoneType": "none"}
    if given.tensor is None or draw.random() < 0.2:
        value = draw.choice(plain)
        kind = kinds.get(value.type, value.type)
        other = InputData(given.source, kind, given.role, f"builtins.{value.type}", constant=value)
        keys = tuple(plain[: draw.randrange(4)])
        dictionary = InputData(given.source, "dict", given.role, "builtins.dict", length=len(keys), keys=keys)
        listed = InputData(given.source, "list", given.role, "builtins.list", length=draw.randrange(4))
        return draw.choice([other, other, dictionary, listed])
    tensor = given.tensor
    rank = draw.choice([len(tensor.sizes)] * 4 + [0, 1, 3])
    shape = tuple(draw.choice([0, 1, 2, 4, 6, 8, 9]) for _ in range(rank))
    if rank == len(tensor.sizes):
        shape = tuple(old if draw.random() < 0.6 else new for old, new in zip(tensor.sizes, shape, strict=True))
    strides = torch.empty(shape, device="meta").stride() if draw.random() < 0.8 else tuple(reversed(range(1, rank + 1)))
    changes = {
        "dtype": draw.choice([tensor.dtype] * 4 + ["float64"]), "device": draw.choice([tensor.device] * 4 + ["cuda:0"]),
        "sizes": shape, "strides": draw.choice([strides, strides, None]), "requires_grad": draw.random() < 0.2,
    }  # fmt: skip
    return msgspec.structs.replace(given, tensor=msgspec.structs.replace(tensor, **changes))


@dataclass(frozen=True)
class Call:
    compile: CompileData
    inputs: tuple[InputData, ...]
    state: GlobalStateData | None


def described(compile: CompileData, draw: random.Random) -> Call:
    """A call near the one that was captured."""
    share = draw.choice([0.0, 0.2, 0.6])
    inputs = [changed(each, draw) if draw.random() < share else each for each in compile.inputs]
    inputs = [each for each in inputs if draw.random() < 0.95]
    if len(inputs) > 1 and draw.random() < 0.2:
        inputs[1] = msgspec.structs.replace(inputs[1], same_as=inputs[0].source)
    state = next((guard.state for guard in compile.guards if guard.state is not None), None)
    if state is not None and draw.random() < 0.3:
        state = msgspec.structs.replace(state, grad_enabled=not state.grad_enabled, threads=draw.choice([1, 2, 64]))
    return Call(compile, tuple(inputs), draw.choice([state, state, state, None]))


@pytest.mark.skipif(NODE is None, reason="needs node")
@pytest.mark.skipif(not (EXTENSION / "node_modules" / "esbuild").is_dir(), reason="needs the extension's node_modules")
def test_the_viewer_decides_as_python_does(tmp_path):
    draw = random.Random(7)
    calls = [described(compile, draw) for compile in compiles() for _ in range(CALLS)]
    file = tmp_path / "calls.json"
    file.write_bytes(
        msgspec.json.encode([{"guards": c.compile.guards, "inputs": c.inputs, "state": c.state} for c in calls])
    )
    run = subprocess.run(
        [str(NODE), str(EXTENSION / "test" / "decisions.mjs"), str(file)], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    words = {True: "holds", False: "fails", None: "undecided"}
    seen: set[tuple[str, str]] = set()
    for call, found in zip(calls, json.loads(run.stdout), strict=True):
        expected = decide(call.compile.guards, call.inputs, call.state)
        assert [f"{d.guard.id} {words[d.holds]}" for d in expected] == [
            f"{guard.id} {outcome}" for guard, outcome in zip(call.compile.guards, found, strict=True)
        ], [d.how for d in expected if not d.holds]
        seen |= {(guard.property, outcome) for guard, outcome in zip(call.compile.guards, found, strict=True)}
    for kind in ("tensor", "constant", "type", "shape", "length", "id", "global_state"):
        assert {(kind, "holds"), (kind, "fails")} <= seen, f"no call holds and breaks a guard of kind {kind}: {seen}"
