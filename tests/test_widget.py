"""Live records in a real kernel, without a browser: the order of messages, interrupts, runs with other sizes."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import nbformat
import pytest
import torch
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from explorer.compiler.config import Config
from explorer.ir import record as data
from explorer.records.check.isolate import reached
from explorer.records.check.trial import Repetition
from explorer.show.notebook import protocol
from explorer.show.notebook.live import Retiming, resized
from explorer.show.record import unpacked

ROOT = str(Path(__file__).parent.parent)
Message = dict[str, Any]


class Kernel:
    """A kernel with the extension loaded, and what a page would do with it."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager = manager
        self.client = client

    def run(self, code: str, on: Callable[[Message], None] = lambda message: None) -> list[Message]:
        """The messages of a cell, in order; `on` sees each as it comes."""
        request = self.client.execute(code, store_history=True)
        seen = []
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != request:
                continue
            seen.append(message)
            on(message)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        reply = {"parent_header": {}}
        while reply["parent_header"].get("msg_id") != request:
            reply = self.client.get_shell_msg(timeout=120)
        self.status = reply["content"]["status"]
        return seen

    def value(self, expression: str) -> str:
        """What it prints, which a busy kernel sends in several pieces."""
        sent = (m["content"]["text"] for m in self.run(f"print(({expression}))") if m["msg_type"] == "stream")
        return "".join(sent).strip()

    def send(self, live: str, message: protocol.Message) -> None:
        content = {"comm_id": live, "data": {"method": "custom", "content": msgspec.to_builtins(message)}}
        self.client.shell_channel.send(self.client.session.msg("comm_msg", content))

    def heard(self, until: str, seconds: float = 60) -> list[Message]:
        """What the kernel says to the page, up to the first message of the type `until`."""
        seen: list[Message] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            message = self.client.get_iopub_msg(timeout=seconds)
            if said := custom(message):
                seen.append(said)
                if said["type"] == until:
                    return seen
        raise TimeoutError(f"no {until}; there came {[each['type'] for each in seen]}")


def custom(message: Message) -> Message | None:
    """The message to a page in a message of the kernel."""
    if message["msg_type"] != "comm_msg" or message["content"]["data"].get("method") != "custom":
        return None
    found: Message = message["content"]["data"]["content"]
    return found


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    manager, client = start_new_kernel(env={**os.environ, "PYTHONPATH": ROOT}, startup_timeout=120)
    found = Kernel(manager, client)
    try:
        found.run("%load_ext explorer")
        found.run("import torch\nx, w = torch.randn(16, 32), torch.randn(32)")
        yield found
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def explored(kernel: Kernel) -> tuple[list[Message], str]:
    """The messages of an exploration that is timed, and its widget's id."""
    messages = kernel.run("%%explore -o record\nprint('said')\ny = torch.relu(x * w).sum(-1)\ny")
    [shown] = [m for m in messages if m["msg_type"] == "display_data"]
    return messages, shown["content"]["metadata"][data.MIME]["live"]


def test_the_order_of_a_cells_messages(explored) -> None:
    messages, live = explored
    kinds = [m["msg_type"] for m in messages]
    said = [each["type"] for m in messages if (each := custom(m))]
    written = "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")
    assert written == "said\n", "a busy kernel sends it in several pieces"
    assert kinds.count("execute_result") == kinds.count("display_data") == 1
    assert kinds.index("stream") < kinds.index("execute_result") < kinds.index("display_data")
    opened = [m["content"]["comm_id"] for m in messages if m["msg_type"] == "comm_open"]
    assert live in opened
    assert kinds.index("display_data") < kinds.index("comm_msg") < kinds.index("update_display_data")
    assert said[:3] == ["abilities", "running", "stage"]
    assert said[-2:] == ["done", "abilities"]
    stages, samples = said.index("stage"), said.index("samples")
    assert stages < samples
    assert "stage" not in said[samples:]
    known = [each.get("glance", []) for m in messages if (each := custom(m)) and each["type"] == "stage"]
    captured = [[part["said"] for part in parts if "captured" in part["said"]] for parts in known]
    assert captured[0] == ["no operations captured yet"] and captured[-1] == ["captured 3 operations"]
    assert [part["what"] for part in known[0]] == [part["what"] for part in known[-1]]


def test_the_output_begins_almost_empty_and_ends_whole(explored) -> None:
    messages, _ = explored
    [first] = [m["content"] for m in messages if m["msg_type"] == "display_data"]
    [last] = [m["content"] for m in messages if m["msg_type"] == "update_display_data"]
    assert first["transient"]["display_id"] == last["transient"]["display_id"]
    before, after = (unpacked(each["data"][data.MIME]) for each in (first, last))
    assert not before.compiles
    assert before.title == after.title
    assert after.timing is not None
    assert "<script" not in last["data"]["text/html"]


def test_streamed_stages_are_those_of_the_record(explored) -> None:
    messages, _ = explored
    streamed = [
        msgspec.convert(each, protocol.StageDone) for m in messages if (each := custom(m)) and each["type"] == "stage"
    ]
    [last] = [m["content"]["data"] for m in messages if m["msg_type"] == "update_display_data"]
    record = unpacked(last[data.MIME])
    assert [each.stage for each in streamed] == [stage for compile in record.compiles for stage in compile.stages]
    assert all(not each.compile.stages for each in streamed)


def test_streamed_samples_are_those_of_the_record(explored) -> None:
    messages, _ = explored
    [last] = [m["content"]["data"] for m in messages if m["msg_type"] == "update_display_data"]
    timing = unpacked(last[data.MIME]).timing
    assert timing is not None
    for contestant in timing.contestants:
        heard = [
            s for m in messages if (each := custom(m)) and each.get("name") == contestant.name for s in each["seconds"]
        ]
        assert tuple(heard) == contestant.samples


def test_the_first_stage_comes_at_once(kernel: Kernel) -> None:
    """The aim is a second beyond the cell's own code; the machine may be busy with other tests."""
    came: dict[str, float] = {}

    def on(message: Message) -> None:
        said = custom(message)
        came.setdefault(said["type"] if said else message["msg_type"], time.monotonic())

    kernel.run("%%explore --no-time\ny = x * 3 + w", on)
    assert came["stage"] - came["execute_input"] < 5


def test_hello_is_answered(kernel: Kernel, explored) -> None:
    _, live = explored
    kernel.send(live, protocol.Hello())
    whole, abilities = kernel.heard("abilities")
    assert whole["record"]["title"] == "y = torch.relu(x * w).sum(-1)"
    found = msgspec.convert(abilities, protocol.Abilities)
    named = protocol.SizedArgument
    assert found.arguments == (named("x", "float32", (16, 32)), named("w", "float32", (32,)))
    assert found.retime
    assert found.stop


def test_all_of_a_record_is_sent_to_be_saved(kernel: Kernel, explored) -> None:
    """An output may hold a part of it."""
    messages, live = explored
    [last] = [m["content"]["data"][data.MIME] for m in messages if m["msg_type"] == "update_display_data"]
    kernel.send(live, protocol.Keep())
    [*_, kept] = kernel.heard("kept")
    assert unpacked(kept) == unpacked(last)


def test_a_record_embedded_in_a_layout_shows_itself_and_says_that_it_is_not_live(kernel: Kernel, explored) -> None:
    said = kernel.run("from explorer.show.notebook.widget import embed\nwidget = embed(record)")
    [opened] = [m["content"]["comm_id"] for m in said if m["content"].get("target_name") == "jupyter.widget"][-1:]
    kernel.send(opened, protocol.Hello())
    whole, abilities = kernel.heard("abilities")
    assert whole["record"]["title"] == "y = torch.relu(x * w).sum(-1)"
    assert "use the output of the cell for that" in abilities["why_not"]
    kernel.send(opened, protocol.Retime("r", {}))
    assert "use the output of the cell" in kernel.heard("done")[-1]["error"]


def test_other_sizes_are_timed(kernel: Kernel, explored) -> None:
    _, live = explored
    for run, rows in (("a", 64), ("b", 128)):
        kernel.send(live, protocol.Retime(run, {"x": (rows, 32)}))
        heard = kernel.heard("done")
        assert heard[-1] == {"type": "done", "run": run}
        timing = msgspec.convert(heard[-2], protocol.Timed).timing
        names = [contestant.name for contestant in timing.contestants]
        assert names == ["eager", "explorer"]
        for contestant in timing.contestants:
            samples = [
                s for m in heard if m["type"] == "samples" and m["name"] == contestant.name for s in m["seconds"]
            ]
            assert tuple(samples) == contestant.samples
            assert all(m["run"] == run for m in heard if m["type"] == "samples")
        assert timing.accuracy is not None
        assert not timing.accuracy.first_mismatch
    assert kernel.value("tuple(x.shape), torch.is_grad_enabled()") == "((16, 32), True)"


def test_sizes_that_cannot_be_are_refused(kernel: Kernel, explored) -> None:
    _, live = explored
    for shapes, said in (
        ({"x": (16, 31)}, "must match the size"),
        ({"x": (16,)}, "x has 2 dimensions, but 1 sizes were given"),
        ({"z": (16,)}, "no tensor 'z' to resize; there are: x, w"),
    ):
        kernel.send(live, protocol.Retime("r", shapes))
        assert said in kernel.heard("done")[-1]["error"]
    kernel.client.shell_channel.send(
        kernel.client.session.msg("comm_msg", {"comm_id": live, "data": {"method": "custom", "content": {"type": "?"}}})
    )
    assert "does not understand" in kernel.heard("done")[-1]["error"]


@pytest.fixture(scope="module")
def slow(kernel: Kernel) -> str:
    """A live record whose runs take a while."""
    messages = kernel.run("big = torch.randn(700, 700)\n%explore --no-time torch.relu(big @ big @ big @ big)")
    [shown] = [m for m in messages if m["msg_type"] == "display_data"]
    found: str = shown["content"]["metadata"][data.MIME]["live"]
    return found


def test_a_run_is_stopped(kernel: Kernel, slow: str) -> None:
    kernel.send(slow, protocol.Retime("s", {"big": (800, 800)}))
    kernel.heard("samples")
    kernel.send(slow, protocol.Stop("s"))
    assert kernel.heard("done", 20)[-1] == {"type": "done", "run": "s", "error": "stopped"}


def test_one_run_at_a_time(kernel: Kernel, slow: str) -> None:
    kernel.send(slow, protocol.Retime("one", {"big": (800, 800)}))
    kernel.heard("samples")
    kernel.send(slow, protocol.Retime("two", {"big": (800, 800)}))
    assert "another run" in next(m for m in kernel.heard("done") if m["type"] == "done")["error"]
    kernel.send(slow, protocol.Stop("one"))
    assert kernel.heard("done", 20)[-1]["run"] == "one"


def test_a_run_makes_way_for_a_cell(kernel: Kernel, slow: str) -> None:
    kernel.send(slow, protocol.Retime("w", {"big": (800, 800)}))
    kernel.heard("samples")
    heard: list[Message] = []
    request = kernel.client.execute("print('here')")
    while True:
        message = kernel.client.get_iopub_msg(timeout=60)
        heard.append(custom(message) or {"type": message["msg_type"]})
        if message["parent_header"].get("msg_id") == request and message["msg_type"] == "status":
            if message["content"]["execution_state"] == "idle":
                break
    kernel.client.get_shell_msg(timeout=60)
    kinds = [each["type"] for each in heard]
    assert kinds.index("done") < kinds.index("stream")
    assert "since a cell was run" in heard[kinds.index("done")]["error"]


INTERRUPTED = "%%explore -o record --time\nz = torch.relu(big @ big @ big @ big)"


@pytest.mark.parametrize(
    "cell", [INTERRUPTED, INTERRUPTED.replace("\n", "\nimport asyncio; await asyncio.sleep(0)\n", 1)]
)
@pytest.mark.parametrize("at", ["stage", "samples"])
def test_an_interrupt_ends_the_exploration_and_no_more(kernel: Kernel, slow: str, cell: str, at: str) -> None:
    sent = []

    def on(message: Message) -> None:
        said = custom(message)
        if said and said["type"] == at and not sent:
            sent.append(time.monotonic())
            kernel.manager.interrupt_kernel()

    messages = kernel.run(cell, on)
    assert kernel.status == "ok"
    assert time.monotonic() - sent[0] < 20
    said = [each for m in messages if (each := custom(m))]
    [done] = [each for each in said if each["type"] == "done"]
    assert "interrupted during" in done["error"]
    [last] = [m["content"]["data"] for m in messages if m["msg_type"] == "update_display_data"]
    record = unpacked(last[data.MIME])
    assert record.error == done["error"]
    assert record.compiles[0].stages
    assert kernel.value("tuple(z.shape), 'interrupted' in record.data.error") == "((700, 700), True)"
    again = kernel.run("%%explore --no-time\nz = torch.relu(x) - 1")
    assert kernel.status == "ok"
    assert [m for m in again if m["msg_type"] == "update_display_data"]


def test_an_interrupt_of_the_users_code_is_pythons(kernel: Kernel) -> None:
    def on(message: Message) -> None:
        if message["msg_type"] == "stream":
            kernel.manager.interrupt_kernel()

    messages = kernel.run("%%explore\nimport time; print('going', flush=True); time.sleep(60); late = x + 1", on)
    assert kernel.status == "error"
    [error] = [m["content"] for m in messages if m["msg_type"] == "error"]
    assert error["ename"] == "KeyboardInterrupt"
    assert not [m for m in messages if m["msg_type"] == "display_data"]


WATCHED_LOOP = """
import explorer, torch, itertools
def step(v, k): return torch.relu(v) * k
compiled = torch.compile(step, backend="eager")
torch.compiler.reset()
with explorer.watch("loop") as log:
    for n in itertools.count():
        compiled(torch.ones(3), n // 4)
        if n == 6:
            print("going", flush=True)
"""


def test_a_watched_loop_that_is_interrupted_leaves_its_record(kernel: Kernel) -> None:
    def on(message: Message) -> None:
        if message["msg_type"] == "stream":
            kernel.manager.interrupt_kernel()

    messages = kernel.run(WATCHED_LOOP, on)
    assert kernel.status == "error"
    assert [m["content"]["ename"] for m in messages if m["msg_type"] == "error"] == ["KeyboardInterrupt"]
    [done] = [each for m in messages if (each := custom(m)) and each["type"] == "done"]
    assert not done.get("error")
    last = [m["content"]["data"] for m in messages if m["msg_type"] == "update_display_data"][-1]
    shown = unpacked(last[data.MIME])
    assert len(shown.compiles) >= 2 and shown.compiles[1].recompiles
    assert any("The program ended with KeyboardInterrupt" in note for note in shown.notes)
    assert kernel.value("log.record.data.compiles[1].recompiles[0].words") == "k is 1, expected 0"
    kernel.run("with explorer.watch('again', live=False) as log: compiled(torch.ones(3), 0)")
    assert kernel.status == "ok" and kernel.value("log.record.calls[0].count") == "1"


EXPLORED_STEP = """
import copy, explorer, torch
def training(layer, begun=lambda: None):
    optimizer = torch.optim.SGD(layer.parameters(), 0.001)
    def step(v):
        optimizer.zero_grad()
        loss = sum(layer(v).square().mean() for _ in range(200))
        loss.backward()
        optimizer.step()
        begun()
        return loss.detach()
    return step
layer = torch.nn.Linear(200, 200)
twin, v = copy.deepcopy(layer), torch.ones(300, 200)
training(twin)(v)
begun = lambda: print("going", flush=True)
explorer.explore(training(layer, begun), engine="stock", time=True)(v)
"""


def test_an_exploration_that_is_interrupted_leaves_what_one_call_leaves(kernel: Kernel) -> None:
    def on(message: Message) -> None:
        if message["msg_type"] == "stream":
            kernel.manager.interrupt_kernel()

    kernel.run(EXPLORED_STEP, on)
    same = "all(torch.equal(a, b) for a, b in zip(twin.parameters(), layer.parameters()))"
    assert kernel.status == "error" and kernel.value(same) == "True"
    kernel.run("record = explorer.explore(lambda v: v + 1, time=False)(torch.ones(3))")
    assert kernel.status == "ok" and kernel.value("len(record.data.compiles)") == "1"


def test_what_no_run_can_be_made_of_says_why(kernel: Kernel) -> None:
    for cell, said in (
        ("g = (x for _ in range(3))\n%explore --no-time next(g) + 1", "g is a generator"),
        ("def use(v):\n    return v + w\n%explore --no-time use(x)", "it uses w of the notebook"),
        ("n = 2\n%explore --no-time torch.ones(4) * n", "no argument is a tensor"),
    ):
        messages = kernel.run(cell)
        abilities = [each for m in messages if (each := custom(m)) and each["type"] == "abilities"][-1]
        assert said in abilities["why_not"]
        assert not abilities.get("retime")


def test_a_saved_notebook_carries_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ROOT)
    cells = ["%load_ext explorer\nimport torch", "%%explore --no-time\ny = torch.softmax(torch.randn(4, 8), -1)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    nbformat.validate(notebook)
    nbformat.write(notebook, tmp_path / "saved.ipynb")
    saved = json.loads((tmp_path / "saved.ipynb").read_text())
    [output] = saved["cells"][1]["outputs"]
    assert output["output_type"] == "display_data"
    record = unpacked(output["data"][data.MIME])
    assert record.compiles[0].halves[0].kernels
    assert record.sources[0].text.splitlines()[-1] == "y = torch.softmax(torch.randn(4, 8), -1)"


# --------------------------------------------------------------------------------------------- tensors of other sizes


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(4, 6),
        torch.randn(4, 6).t(),
        torch.randn(2, 3, 4).permute(2, 0, 1).requires_grad_(),
        torch.randint(0, 5, (4, 6)),
        torch.rand(4, 6) > 0.5,
        torch.randn(4, 1).expand(4, 6),
        torch.nn.Parameter(torch.randn(3)),
        torch.randn(0, 3),
        torch.randn(4, 6, dtype=torch.bfloat16),
    ],
    ids=["plain", "transposed", "permuted", "integers", "mask", "expanded", "parameter", "empty", "bfloat16"],
)
def test_a_resized_tensor_is_of_its_kind(tensor: torch.Tensor) -> None:
    sizes = tuple(size + 3 for size in tensor.shape)
    made = resized(tensor, sizes, "x")
    assert made.shape == torch.Size(sizes)
    assert (type(made), made.dtype, made.requires_grad) == (type(tensor), tensor.dtype, tensor.requires_grad)
    if tensor.numel():
        assert set(made.flatten().tolist()) <= set(tensor.flatten().tolist())
    if 0 not in tensor.stride() and tensor.numel():
        order = sorted(range(tensor.dim()), key=lambda dim: -tensor.stride()[dim])
        assert order == sorted(range(made.dim()), key=lambda dim: -made.stride()[dim])


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        resized(torch.ones(2), (-1,), "x")
    with pytest.raises(ValueError, match="more than"):
        resized(torch.ones(2), (1 << 40,), "x")


def test_tensors_in_containers_are_resized_in_place_of_the_others() -> None:
    def call(batch: dict[str, Any], k: Any) -> Any:
        return batch["ids"][0] + k

    batch = {"ids": [torch.ones(3), torch.zeros(2, 2)], "n": 1}
    trial = Repetition(call, (), {}, state=reached(call, {"batch": batch, "k": torch.tensor(1.0)}).copied())
    retiming = Retiming(trial, Config(), True)
    assert set(retiming.arguments()) == {"batch['ids'][0]", "batch['ids'][1]"}
    made = retiming.resized({"batch['ids'][0]": (5,)}).state.args
    assert made["batch"]["ids"][0].shape == (5,)
    assert made["batch"]["ids"][1].shape == (2, 2)
    assert batch["ids"][0].shape == (3,)


def test_a_watched_program_is_shown_while_it_goes_on(kernel):
    seen = kernel.run(
        "import explorer, torch\n"
        "stepped = torch.compile(lambda x: x.sin(), backend='eager')\n"
        "with explorer.watch('loop') as log:\n"
        "    for size in (3, 4, 5):\n"
        "        stepped(torch.ones(size))\n"
    )
    assert kernel.status == "ok"
    kinds = [message["msg_type"] for message in seen]
    stages = [m for m in seen if m["msg_type"] == "comm_msg" and m["content"]["data"].get("content", {}).get("type")]
    assert kinds.index("display_data") < kinds.index("comm_msg") < kinds.index("update_display_data")
    assert {"stage", "done"} <= {message["content"]["data"]["content"]["type"] for message in stages}
    assert kernel.value("len(log.record.recompiles)") == "1"


CELL = """%%explore -o record
def gated(v):
    calls.append(1)
    return torch.sigmoid(v * w) * 2.0

y = gated(x) + outside(x)
y"""


@pytest.fixture(scope="module")
def edited(kernel: Kernel) -> tuple[str, protocol.Abilities]:
    """A live record, and what can be edited of it."""
    kernel.run("calls = []\ndef outside(v):\n    return v - 1.5")
    messages = kernel.run(CELL.replace("-o", "--no-time -o"))
    [shown] = [m for m in messages if m["msg_type"] == "display_data"]
    said = [each for m in messages if (each := custom(m)) and each["type"] == "abilities"]
    return shown["content"]["metadata"][data.MIME]["live"], msgspec.convert(said[-1], protocol.Abilities)


def answer(kernel: Kernel, live: str, asked: protocol.Edit) -> protocol.Edited | str:
    """The record that an edit gives, or the line that says why there is none."""
    kernel.send(live, asked)
    *heard, done = kernel.heard("done")
    assert done["run"] == asked.run
    found = [msgspec.convert(each, protocol.Edited) for each in heard if each["type"] == "edited"]
    return done["error"] if done.get("error") else found[-1]


def change(abilities: protocol.Abilities, old: str, new: str, **more: Any) -> protocol.Edit:
    of = next(each for each in abilities.functions if old in each.text)
    return protocol.Edit("edit 1", of.file, of.first, of.text.replace(old, new), **more)


def test_an_edit_is_compiled_and_calls_nothing(kernel: Kernel, edited) -> None:
    live, abilities = edited
    assert [each.text.splitlines()[0] for each in abilities.functions] == ["def gated(v):", "def outside(v):"]
    assert "no-ops" in abilities.passes
    called = kernel.value("len(calls)")
    for asked, there in (
        (change(abilities, "* 2.0", "* 7.0"), "* 7.0"),
        (change(abilities, "1.5", "2.5"), "v - 2.5"),
        (change(abilities, "y = gated(x) +", "y = gated(x) * 3.0 *"), "gated(x) * 3.0 *"),
    ):
        made = answer(kernel, live, asked)
        assert isinstance(made, protocol.Edited), made
        assert there in "\n".join(each.text for each in made.record.sources)
        assert {"operations", "breaks", "guards"} <= {part.what for part in made.record.glance}
        assert made.record.compiles[0].halves[0].kernels and made.record.timing is None
    assert kernel.value("len(calls)") == called
    kernel.send(live, protocol.Hello())
    heard = kernel.heard("abilities")
    assert [each["type"] for each in heard] == ["record", "edited", "abilities"]
    kernel.send(live, protocol.Keep())
    assert "(edited)" in unpacked(kernel.heard("kept")[-1]).title
    kernel.send(live, protocol.Edit("edit 2"))
    heard = kernel.heard("done")
    assert heard[0]["type"] == "record" and "(edited)" not in heard[0]["record"]["title"]


def test_settings_passes_and_fusions_are_edits_too(kernel: Kernel, edited) -> None:
    live, _ = edited
    made = answer(kernel, live, protocol.Edit("edit 1", without=("no-ops",), dynamic=True, fuse=False))
    assert isinstance(made, protocol.Edited)
    assert "no-ops" not in [stage.name for stage in made.record.compiles[0].stages]
    assert made.record.config["dynamic"] == "True" and made.record.config["fuse"] == "False"


def test_an_edit_that_cannot_be_compiled_says_why_in_a_line(kernel: Kernel, edited) -> None:
    live, abilities = edited
    for asked, said in (
        (change(abilities, "v * w", "v *"), "line 4: invalid syntax"),
        (change(abilities, "y = gated", "a = 1\ny = gated"), "begin elsewhere"),
        (change(abilities, "def gated(v)", "def gated(v, u=1)"), "apply where it is defined"),
        (change(abilities, "v * w", "v @ w.view(4, 8)"), "raises"),
        (protocol.Edit("edit 1", "elsewhere.py", 3, "def f(): pass"), "not among those that were compiled"),
        (protocol.Edit("edit 1", forbid=(("f0", "buf0", "buf9"),)), "f0 has no operation buf9"),
        (protocol.Edit("edit 1", without=("trace",)), "no trace; there are"),
    ):
        made = answer(kernel, live, asked)
        assert isinstance(made, str) and said in made and "\n" not in made


def test_an_edit_is_run_when_asked_and_the_notebook_keeps_its_functions_and_values(kernel: Kernel, edited) -> None:
    live, abilities = edited
    before = kernel.value("len(calls), float(w.sum())")
    made = answer(kernel, live, change(abilities, "1.5", "2.5", time=True))
    assert isinstance(made, protocol.Edited), made
    timing = made.record.timing
    assert timing is not None and [each.name for each in timing.contestants] == ["eager", "explorer"]
    assert timing.accuracy is not None and not timing.accuracy.first_mismatch
    assert not made.record.errors and [len(compile.breaks) for compile in made.record.compiles] == [0]
    # Its list is longer in each timed call, for which it compiles again: that is said, and no speed is given.
    assert "it compiled again in" in timing.contestants[1].note and timing.contestants[1].speed is None
    assert kernel.value("outside(1.5)") == "0.0"
    assert kernel.value("len(calls), float(w.sum())") == before
    messages = kernel.run("g = (x for _ in range(3))\n%explore --no-time -o record next(g) * 2.0")
    [live] = [m["content"]["metadata"][data.MIME]["live"] for m in messages if m["msg_type"] == "display_data"]
    said = [each for m in messages if (each := custom(m)) and each["type"] == "abilities"]
    asked = change(msgspec.convert(said[-1], protocol.Abilities), "2.0", "3.0", time=True)
    made = answer(kernel, live, asked)
    assert isinstance(made, str) and "g is a generator" in made
