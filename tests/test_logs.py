"""Logs of stock torch.compile become records: nothing of them is lost, and damage costs no more than what it hit."""

import ast
import base64
import gzip
import hashlib
import json
import operator
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from random import Random

import msgspec
import nbformat
import pytest
import torch
from click.testing import CliRunner

from explorer import Ranks
from explorer.ir.record import LineData, RecordData, TextData
from explorer.records.data.provenance import provenance
from explorer.records.data.ranks import RANKS_MIME, RanksData
from explorer.records.logs.log_entries import Damage, LogEntry, entries
from explorer.records.logs.printed import INFIX, graph, guards
from explorer.records.logs.ranks import ranked
from explorer.records.logs.read import LogError, read
from explorer.records.logs.trace import graph_break, stock_id
from explorer.show.cli import main
from explorer.show.record import Record
from explorer.show.view.ranks import MOST_RANKS
from explorer.show.view.size_limit import MOST_ON_DISK
from records import in_output

SCRIPT = """
import os
import torch
import torch.distributed as dist

def step(x, y):
    z = torch.sin(x) * y
    if z.sum() > 0:
        z = z + 1
    return z.softmax(-1).sum()

ranks = int(os.environ.get("WORLD_SIZE", "1"))
if ranks > 1:
    dist.init_process_group("gloo")
compiled = torch.compile(step, backend="aot_eager")
rows = 4 + (dist.get_rank() if ranks > 1 else 0)
for more in range(2):
    x = torch.ones(rows + more, 16, requires_grad=True)
    compiled(x, torch.ones(rows + more, 16)).backward()
if ranks > 1:
    dist.destroy_process_group()
"""


def run(folder: Path, *launcher: str) -> Path:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    trace = folder / "trace"
    environment = {**os.environ, "TORCH_TRACE": str(trace), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, *launcher, str(script)], env=environment, cwd=folder, check=True, capture_output=True
    )
    return trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    return run(tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def record(trace) -> RecordData:
    (found,) = read(trace)
    return found


def logged(trace: Path) -> list[LogEntry]:
    (file,) = trace.iterdir() if trace.is_dir() else (trace,)
    text = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text()
    found = list(entries(text.splitlines()))
    assert not [each for each in found if isinstance(each, Damage)]
    return [each for each in found if isinstance(each, LogEntry)]


def test_frames_recompiles_and_continuations(record):
    ids = [each.id for each in record.compiles]
    assert {"s0", "s0.1", "s1", "s1.1"} <= set(ids)
    first = next(each for each in record.compiles if each.id == "s0")
    assert first.title.startswith("step (") and first.title.endswith("train.py:6)")
    assert first.engine == "stock" and first.seconds > 0 and not record.error
    assert record.environment["torch"].startswith(version("torch").partition("+")[0])


def test_graphs_are_read_into_nodes_with_source_lines(record):
    first = next(each for each in record.compiles if each.id == "s0")
    stages = {stage.name: stage for stage in first.stages if stage.graph}
    assert {"dynamo", "joint", "forward", "backward"} <= set(stages)
    nodes = {node.name: node for node in stages["joint"].graph.nodes}
    assert nodes["sin"].target == "torch.ops.aten.sin.default" and nodes["sin"].type.startswith("f32[4, 16]")
    assert nodes["mul"].inputs == ("joint.sin", "joint.primals_2")
    lines = provenance(first).source_lines("joint.sin")
    assert [line.rpartition("/")[2] for line in lines] == ["train.py:7"]
    assert any("torch.sin(x) * y" in source.text for source in record.sources)


def test_guards_break_symbols_and_why_it_compiled_again(record):
    by_id = {each.id: each for each in record.compiles}
    kinds = {guard.property for guard in by_id["s0"].guards}
    assert "TENSOR_MATCH" in kinds
    match = next(guard for guard in by_id["s0"].guards if guard.property == "TENSOR_MATCH")
    assert match.source == "L['x']" and match.span.line == 7 and "torch.sin(x)" in match.why
    (broken,) = by_id["s0"].breaks
    assert broken.span.line == 8 and "branch" in broken.why.title.lower() and broken.hints
    assert any("step" in place for place in broken.stack)
    again = by_id["s0.1"]
    assert again.recompiles[0].of == "s0" and "size" in again.recompiles[0].why
    assert again.symbols[0].source.startswith("L['x']") and again.symbols[0].hint == 5
    assert by_id["s0"].inputs[0].tensor.sizes == (4, 16)


def lost(log: list[LogEntry], record: RecordData) -> list[tuple[int, str, str]]:
    """The entries of a log that the record does not hold."""
    texts = {str(stage.body) for each in record.compiles for stage in each.stages if stage.body}
    texts |= {str(half.wrapper) for each in record.compiles for half in each.halves if half.wrapper}
    kept = "\n".join(texts)
    spans = {stage.name for each in record.compiles for stage in each.stages if stage.body is None}
    spans |= {event.kind for each in record.compiles for event in each.events}

    def is_kept(entry: LogEntry) -> bool:
        if entry.kind == "chromium_event":
            return json.loads(entry.payload)["name"] in spans
        return entry.payload.strip() in kept

    return [(entry.line, entry.kind, entry.name) for entry in log if not is_kept(entry)]


def test_nothing_of_the_log_is_lost(trace, record):
    assert not lost(logged(trace), record)


def told_by_torch() -> tuple[set[str], set[str]]:
    """The entries and the artifacts of a log that the installed torch has names for in its source."""
    kinds, artifacts = set(), set()
    for file in Path(torch.__file__).parent.rglob("*.py"):
        if "trace_structured" not in (text := file.read_text(errors="replace")):
            continue
        for call in (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)):
            name = ast.unparse(call.func).rpartition(".")[2]
            constant = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
            if name == "trace_structured_artifact" and constant:
                artifacts.add(constant)
            elif name == "trace_structured" and constant == "artifact":
                artifacts.update(re.findall(r"'name': '(\w+)'", ast.unparse(call)))
            elif name == "trace_structured" and constant:
                kinds.add(constant)
    return kinds, artifacts


def test_whatever_torch_writes_into_a_log_is_in_the_record(tmp_path):
    kinds, artifacts = told_by_torch()
    assert len(kinds) > 15 and len(artifacts) > 50
    about = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    without = {
        "str", "dynamo_start", "describe_storage", "describe_tensor", "describe_source", "create_symbol",
        "chromium_event",
    }  # fmt: skip
    lines = [line({kind: {"name": "a"}, **about}, f"payload of {kind}") for kind in sorted(kinds - without)]
    lines += [in_frame("0/0", name, f"payload of {name}") for name in sorted(artifacts)]
    record = imported(tmp_path, *lines)
    texts = [str(stage.body) for each in record.compiles for stage in each.stages if stage.body]
    texts += [str(half.wrapper) for each in record.compiles for half in each.halves]
    kept = "\n".join(texts)
    assert not [name for name in (kinds - without) | artifacts if f"payload of {name}" not in kept]


def test_a_bucket_has_its_name_and_code_its_file(tmp_path):
    about = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    bucket = line({"optimize_ddp_split_child": {"name": "submod_1"}, **about}, "class GraphModule: ...")
    code = line({"inductor_output_code": {"filename": "/tmp/made.py"}, **about}, "a = 1")
    (found,) = imported(tmp_path, bucket, code).compiles
    assert [stage.name for stage in found.stages if "bucket" in stage.name] == ["DDPOptimizer: a bucket, submod_1"]
    assert [event.fields for event in found.events if event.kind == "OutputCode"] == [{"file": "/tmp/made.py"}]


def test_it_opens_and_compares_like_any_record(record, tmp_path):
    made = Record(record)
    assert Record.load(made.save(tmp_path / "log.explore.json.gz")).data == made.data
    assert not made.diff(made).changed
    assert "step" in made.to_html(tmp_path / "log.html").read_text()


def test_a_cut_log_gives_what_is_there(trace, tmp_path):
    (file,) = trace.iterdir()
    text = file.read_text()
    cut = tmp_path / "cut.log"
    cut.write_text(text[: text.index("dynamo_cpp_guards_str") + 400])
    (found,) = read(cut)
    assert "dynamo_cpp_guards_str is cut off" in found.error
    assert [each.id for each in found.compiles][-1] == "log"
    assert any(stage.graph for each in found.compiles for stage in each.stages)


def test_an_archive_that_ends_early(trace, tmp_path):
    (file,) = trace.iterdir()
    packed = gzip.compress(file.read_bytes())
    whole, cut = tmp_path / "whole.log.gz", tmp_path / "cut.log.gz"
    whole.write_bytes(packed)
    cut.write_bytes(packed[: len(packed) // 2])
    assert not read(whole)[0].error
    assert "archive is damaged" in read(cut)[0].error


@pytest.mark.parametrize(
    ("fields", "payload"),
    [
        ('{"dynamo_start": {"stack": 3}, "frame_id": 0, "frame_compile_id": 0}', ""),
        ('{"describe_source": {"id": 99, "source": "x"}, "frame_id": 0, "frame_compile_id": 0}', ""),
        ('{"chromium_event": {}, "frame_id": 0, "frame_compile_id": 0, "has_payload": "%s"}', "[]"),
        ('{"str": [1]}', ""),
        ('{"create_symbol": [], "frame_id": 0, "frame_compile_id": 0}', ""),
        ('{"compilation_metrics": 7, "frame_id": 0, "frame_compile_id": 0}', ""),
        ("[1, 2]", ""),
        ("{" * 5000, ""),
    ],
)
def test_hostile_entries_are_named(fields, payload, tmp_path):
    checksum = hashlib.md5(payload.encode()).hexdigest()
    fields = fields.replace("%s", checksum)
    start = '{"dynamo_start": {"stack": []}, "frame_id": 7, "frame_compile_id": 0}'
    lines = [f"V1121 18:29:14.686000 1 a.py:1] {each}" for each in (start, fields)]
    file = tmp_path / "hostile.log"
    file.write_text("\n".join(lines) + (f"\n\t{payload}" if payload else "") + "\n")
    (found,) = read(file)
    assert "line 2" in found.error
    assert "s7" in [each.id for each in found.compiles]


def line(fields: dict, payload: str | None = None, at: str = "1121 18:29:14.686000") -> str:
    """A line as torch writes it, with its payload."""
    if payload is not None:
        fields = {**fields, "has_payload": hashlib.md5(payload.encode()).hexdigest()}
    lines = [] if payload is None else payload.split("\n")
    return "".join([f"V{at} 1 a.py:1] {json.dumps(fields)}\n", *(f"\t{each}\n" for each in lines)])


def in_frame(frame: str, name: str, payload: object = None, **fields: object) -> str:
    number, again = map(int, frame.split("/"))
    text = payload if payload is None or isinstance(payload, str) else json.dumps(payload)
    about = {"frame_id": number, "frame_compile_id": again, "attempt": 0}
    return line({"artifact": {"name": name, "encoding": "json", **fields}, **about}, text)


def imported(tmp_path: Path, *lines: str) -> RecordData:
    file = tmp_path / "made.log"
    file.write_bytes("".join(lines).encode())
    (found,) = read(file)
    return found


TREE = """
TREE_GUARD_MANAGER:
+- RootGuardManager
| +- GuardManager: source=L['x'], accessed_by=FrameLocalsGuardAccessor(key='x')
| | +- TENSOR_MATCH: check_tensor(L['x'], Tensor, size=[4])  # x + 1  # t/train.py:9 in f
| +- GuardManager: source=L['n'], accessed_by=FrameLocalsGuardAccessor(key='n')
| | +- EQUALS_MATCH: L['n'] == 3                             # x * n  # t/train.py:10 in f
"""

LAST = "0/1: tensor 'x' size mismatch at index 0. expected 4, actual 6"
FIRST = '0/0: n == 3                      # x * n  # t/train.py:10 in f\nUser stack trace:\n  File "train.py", line 10'


@pytest.mark.parametrize(
    ("payload", "of"),
    [
        (LAST, ["s0.1"]),
        (FIRST, ["s0"]),
        ("[\n" + ",\n".join(map(json.dumps, (LAST, FIRST))) + "\n]", ["s0.1", "s0"]),
    ],
    ids=["one", "one with the program's line", "list"],
)
def test_every_reason_of_a_recompile_is_read_and_leads_to_its_guard(payload, of, tmp_path):
    trees = [in_frame(f"0/{n}", "dynamo_cpp_guards_str", TREE) for n in range(2)]
    found = imported(tmp_path, *trees, in_frame("0/2", "recompile_reasons", payload))
    again = next(each for each in found.compiles if each.id == "s0.2")
    assert not found.error and [each.of for each in again.recompiles] == of
    for each in again.recompiles:
        guards = next(compile for compile in found.compiles if compile.id == each.of).guards
        assert each.guard in [guard.id for guard in guards] and "  " not in each.why
        assert each.expression == ("L['n'] == 3" if each.of == "s0" else guards[0].expression)


def test_caches_skipped_card_graphs_and_errors_are_read(tmp_path):
    def cached(state: str, key: str, **more: object) -> dict:
        parts = [f"[{key}] gm: <lambda>()", "[same] torch_version: 1"]
        return {"cache_state": state, "key": key, "components": parts, **more}

    metrics = {"cudagraph_skip_reason": "skipping cudagraphs due to cpu device", "guard_latency_us": 12}
    about = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    raised = "Traceback (most recent):\ntorch._dynamo.exc.Unsupported: no\n  Hint: so\n\nfrom user code:\n  f(x)"
    failed = {"fail_type": "Unsupported", "fail_reason": "no"}
    found = imported(
        tmp_path,
        in_frame("0/0", "fx_graph_cache_miss", cached("miss", "a")),
        in_frame("0/0", "aotautograd_cache_bypass", cached("bypass", "b", cache_bypass_reason="custom op")),
        line({"compilation_metrics": metrics, **about}),
        in_frame("0/1", "fx_graph_cache_miss", cached("miss", "c")),
        in_frame("0/1", "dynamo_error", raised),
        line({"compilation_metrics": failed, **about, "frame_compile_id": 1}),
        in_frame("1/0", "inductor_provenance_tracking_node_mappings"),
        in_frame("1/0", "fx_graph_cache_hit", cached("hit", "d", time_saved_ms=12.5)),
    )
    assert not found.error
    first, second, third = found.compiles
    told = [(each.kind, each.fields) for each in first.events]
    assert ("CudagraphSkipped", {"why": "skipping cudagraphs due to cpu device"}) in told
    assert any(fields.get("why") == "custom op" for kind, fields in told if kind == "Cache")
    assert second.events[0].fields["key unlike that of"] == "s0 in gm"
    assert second.error.startswith("torch._dynamo.exc.Unsupported: no") and second.error.endswith("f(x)")
    assert third.events[0].fields["state"] == "hit" and third.events[0].fields["saved"] == "12.5 ms"
    notes = " ".join(found.notes)
    assert "s1 came from torch's cache" in notes and "no reason for the recompile s0.1" in notes


@pytest.mark.parametrize(
    ("error", "breaks", "config", "raises"),
    (
        ("torch._dynamo.exc.Unsupported: no", 0, "{}", True),  # with fullgraph=True
        ("torch._dynamo.exc.TorchRuntimeError: shapes", 0, "{}", True),
        ("torch._dynamo.exc.BackendCompilerFailed: no", 0, "{}", True),
        ("torch._dynamo.exc.BackendCompilerFailed: no", 0, '{"suppress_errors": true}', False),
        ("torch._dynamo.exc.Unsupported: a loop", 1, "{}", False),
        ("torch._dynamo.exc.Unsupported: Dynamo recompile limit exceeded", 0, "{}", False),
    ),
)
def test_a_log_says_whether_a_failed_compile_raised_in_the_program(error, breaks, config, raises, tmp_path):
    kind, _, reason = error.partition(": ")
    metrics = {"fail_type": kind.rpartition(".")[2], "fail_reason": reason, "dynamo_config": config}
    payload = f"Traceback (most recent):\n{error}\n\nfrom user code:\n  f(x)"
    broken = "Graph break in user code at train.py:8\nReason: a loop"
    stack = {"stack": [{"name": "torch_dynamo_resume_in_step_at_7", "filename": 0, "line": 7}]}
    found = imported(
        tmp_path,
        line({"str": ["train.py", 0]}),
        line({"dynamo_start": stack, "frame_id": 0, "frame_compile_id": 0, "attempt": 0}),
        *[in_frame("0/0", "dynamo_graph_break_reason", broken)] * breaks,
        in_frame("0/0", "dynamo_error", payload),
        line({"compilation_metrics": metrics, "frame_id": 0, "frame_compile_id": 0, "attempt": 0}),
    )
    (failed,) = found.compiles
    assert (failed.raises, found.errors[0].raises) == (raises, raises)
    text = repr(Record(found))
    assert ("the program gets this error" in text) == raises
    assert ("the frame runs eagerly instead" in text) != raises
    assert "step after line 7 (train.py:7)" in text and "resume_in" not in text
    lead = text.splitlines()[1]
    assert lead.startswith("  ! the program raises " if raises else "  ! step after line 7 runs eagerly")


def test_costs_are_summed_over_compiles(tmp_path):
    phases = [
        line({"chromium_event": {}, "frame_id": 0, "frame_compile_id": n, "attempt": 0},
             json.dumps({"name": "dynamo", "ts": 1e15 + (n * 10 + k * (n + 1)) * 1e6, "ph": "BE"[k], "args": {}}),
             f"1121 18:29:{n * 10 + k * (n + 1):02}.0")
        for n in range(4) for k in range(2)
    ]  # fmt: skip
    trees = [in_frame(f"0/{n}", "dynamo_cpp_guards_str", TREE) for n in range(2)]
    found = imported(tmp_path, *trees, *phases, in_frame("0/2", "recompile_reasons", FIRST))
    text = repr(Record(found))
    assert "compiling: 10 s in 4 compiles" in text
    assert "what to change first: the guard of frame 0/0 that caused 1 recompile (3 s): n equals 3" in text


@pytest.mark.parametrize(
    ("started", "ended", "outside"), ((1, 9, 0.0), (1, 14, 4.0), (12, 13, 1.0), (12, 24, 9.0), (21, 25, 2.0))
)
def test_what_threads_do_for_compiles_is_not_counted_twice(started, ended, outside, tmp_path):
    """Torch does not tell of which compile a span in another thread is: compiles here take 0 to 10 and 20 to 23 s."""

    def span(name: str, start: float, end: float, **of: int) -> Iterator[tuple[float, str]]:
        for at, ph in ((start, "B"), (end, "E")):
            said = json.dumps({"name": name, "ts": 1e15 + at * 1e6, "ph": ph, "args": {}})
            yield at, line({"chromium_event": {}, **of}, said, f"1121 18:29:{at:09.6f}")

    about = {"frame_id": 0, "attempt": 0}
    told = [*span("dynamo", 0, 10, frame_compile_id=0, **about), *span("dynamo", 20, 23, frame_compile_id=1, **about)]
    told += span("compile_file", started, ended)
    found = imported(tmp_path, *(text for _, text in sorted(told, key=lambda each: each[0])))
    seconds = {each.id: each.seconds for each in found.compiles}
    assert seconds == pytest.approx({"s0": 10.0, "s0.1": 3.0, "process": outside})


SOUND = ("carriage returns at the ends", "carriage returns within", "an empty line", "over the year's end")


@pytest.mark.parametrize("change", SOUND)
def test_a_sound_log_is_not_called_damaged(change, tmp_path):
    payload = "a\r\nb" if change == "carriage returns within" else "a\n\nb"
    times = ("1231 23:59:59.0", "0101 00:00:01.0") if change == "over the year's end" else ("1121 18:29:14.0",) * 2
    about = {"frame_id": 0, "frame_compile_id": 0}
    text = "".join(line({"artifact": {"name": "note"}, **about}, payload, at=at) for at in times)
    if change == "carriage returns at the ends":
        text = text.replace("\n", "\r\n")
    if change == "an empty line":
        text += "\n" + text
    found = imported(tmp_path, text)
    assert not found.error and all(0 <= stage.started < 10 for stage in found.compiles[0].stages)


def test_compiled_autograd_and_attempts_are_distinguished(tmp_path):
    tensor = {"id": 0, "dtype": "torch.float32", "device": "device(type='cpu')", "size": [2], "stride": [1]}
    about = {"frame_id": 1, "frame_compile_id": 0, "attempt": 0}
    told = [(kind, fields, {**about, "attempt": n}) for n in range(2) for kind, fields in
            (("describe_tensor", tensor), ("describe_source", {"id": 0, "source": "L['x']"}))]  # fmt: skip
    found = imported(
        tmp_path,
        *(line({kind: fields, **where}) for kind, fields, where in told),
        line({"artifact": {"name": "note"}, **about, "compiled_autograd_id": 0}, "other"),
    )
    assert [each.id for each in found.compiles] == ["s1", "s!0/1"]
    assert len(found.compiles[0].inputs) == 1


def test_markup_in_a_log_stays_text(tmp_path):
    evil = "<img src=x onerror=alert(1)></script><script>alert(1)</script>"
    stack = '{"str": ["%s", 1]}'.replace("%s", evil)
    start = (
        '{"dynamo_start": {"stack": [{"line": 1, "name": "%s", "filename": 1}]}, "frame_id": 0, "frame_compile_id": 0}'
    )
    file = tmp_path / "evil.log"
    file.write_text("".join(f"V1121 18:29:14.686000 1 a.py:1] {each}\n" for each in (stack, start.replace("%s", evil))))
    (found,) = read(file)
    page = Record(found).to_html(tmp_path / "evil.html").read_text()
    assert evil in found.compiles[0].title and "<img src=x" not in page


def test_what_is_no_log_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(LogError, match="notes.txt is not a structured trace"):
        read(tmp_path / "notes.txt")
    with pytest.raises(LogError, match="TORCH_COMPILE_DEBUG"):
        read(tmp_path)
    done = CliRunner().invoke(main, ["import", str(tmp_path)])
    assert done.exit_code == 2 and "holds no log" in done.output


def test_a_link_out_of_a_debug_folder_is_not_followed(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("SECRET")
    model = tmp_path / "run" / "torchinductor" / "model__0_inference_0.0"
    model.mkdir(parents=True)
    (model / "output_code.py").write_text("k = async_compile.cpp_pybinding(['float*'], r'''\nint x;\n''')\n")
    (model / "ir_pre_fusion.txt").write_text("op0: SchedulerNode(ComputedBuffer)\n")
    (model / "leak.txt").symlink_to(secret)
    (found,) = read(tmp_path / "run")
    (compile,) = found.compiles
    assert [kernel.function for kernel in compile.halves[0].kernels] == ["k"]
    texts = "\n".join(stage.text() for stage in compile.stages)
    assert "SchedulerNode" in texts and "SECRET" not in texts and "leads out of the folder" in texts


GRAPH = """class <lambda>(torch.nn.Module):
    def forward(self, x: "f32[4]"):
        # File: /tmp/train.py:7 in step, code: y = torch.sin(x)
        sin: "f32[4]" = torch.ops.aten.sin.default(x)

        # File: /tmp/train.py:8 in step, code: return y * 2
        mul: "f32[4]" = torch.ops.aten.mul.Tensor(sin, 2)
        return (mul,)
"""

CODE = """# Graph fragment:
#   %sin : Tensor "f32[4][1]cpu"[num_users=1] = call_function[target=torch.ops.aten.sin.default](args = (%x,))
kernel0 = async_compile.cpp_pybinding(['float*'], r'''
void kernel0(float* out) {}
''')

# Graph fragment:
#   %x : Tensor "f32[4][1]cpu" = PlaceHolder[target=x]
#   %mul : Tensor "f32[4][1]cpu"[num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = (%sin, 2))
kernel1 = async_compile.cpp_pybinding(['float*'], r'''
void kernel1(float* out) {}
''')

def call(args):
    kernel0(buf0)
    kernel1(buf0)
"""


def test_kernels_lead_to_the_lines_that_their_comments_name(tmp_path):
    model = tmp_path / "run" / "torchinductor" / "model__0_inference_0.0"
    model.mkdir(parents=True)
    (model / "fx_graph_transformed.py").write_text(GRAPH)
    (model / "output_code.py").write_text(CODE)
    (compile,) = read(tmp_path / "run")[0].compiles
    (half,) = compile.halves
    assert {each.function: each.origins for each in half.kernels} == {
        "kernel0": ("post.sin",),
        "kernel1": ("post.mul",),
    }
    chain = provenance(compile)
    lines = {line.text.strip(): chain.source_lines(line.id) for line in half.wrapper.lines}
    assert lines["kernel0(buf0)"] == {"/tmp/train.py:7"} and lines["kernel1(buf0)"] == {"/tmp/train.py:8"}
    assert lines["void kernel1(float* out) {}"] == {"/tmp/train.py:8"} and not lines["def call(args):"]


def test_texts_of_other_forms():
    assert stock_id("3/0") == "s3" and stock_id("3/2") == "s3.2"
    assert graph_break("something new").why.title == "the graph broke"
    assert guards("s0", "+- RootGuardManager\n| +- GLOBAL_STATE: ok\n")[0].why == "the log gives no cause"
    assert graph("g", "g", "not Python (")[1] is None


@pytest.mark.filterwarnings("error")
def test_operators_that_are_printed_as_signs_are_calls():
    text = "def forward(self, x, y):\n" + "".join(
        f"  {name} = {value}\n"
        for name, value in {
            "a": "x * y", "b": "a > 0", "c": "~b", "d": "a[0]", "e": "d @ y", "f": "e",
            "g": "torch.sin(f)", "h": "-g ** 2",
        }.items()
    ) + "  return (h,)"  # fmt: skip
    made = graph("s0", "captured", text)[1]
    assert [node.target for node in made.nodes if node.op == "call_function"] == [
        "operator.mul", "operator.gt", "operator.invert", "operator.getitem", "operator.matmul",
        "torch.sin", "operator.neg",
    ]  # fmt: skip
    assert all(hasattr(operator, name) for name in INFIX.values())


def test_code_of_a_log_gives_no_warnings():
    graph("s0", "c0", "def forward(self, x):\n  '\\d'\n  assert (x, 1)\n  y = 1 if x is 2 else 0\n  return (y,)")


LOGS = Path(__file__).parent / "logs"
"""What two ranks of SCRIPT left under torch 2.11; the second one compiled a function more."""


@pytest.fixture(scope="module")
def ranks() -> Ranks:
    return Ranks.load(LOGS)


def test_logs_of_an_earlier_torch_open_whole(ranks):
    assert [record.data.error for record in ranks] == ["", ""]
    for record, log in zip(ranks, sorted(LOGS.iterdir()), strict=True):
        assert not lost(logged(log), record.data)
        assert record.data.environment["rank"] == record.data.title[-1]
        assert record.data.environment["torch"].startswith("2.11")
        first = next(each for each in record.data.compiles if each.id == "s0")
        stages = {stage.name for stage in first.stages if stage.graph}
        assert {"dynamo", "joint", "forward", "backward"} <= stages
        assert first.guards and first.breaks[0].span.line == 13 and first.inputs[0].tensor.dtype == "float32"
        again = next(each for each in record.data.compiles if each.id == "s0.1")
        assert again.recompiles and again.symbols


def test_ranks_part_where_their_inputs_do(ranks):
    by_title = {each.title.partition(" (")[0]: each for each in ranks.data.compiles if "#2" not in each.title}
    step = by_title["step"]
    assert step.ids == ("s0", "s0") and step.kinds == ("A", "B") and all(step.seconds)
    (divergence,) = step.divergences
    assert (divergence.rank, divergence.what, divergence.line) == (1, "inputs", 1)
    assert "[4, 16]" in divergence.before and "[5, 16]" in divergence.after
    assert {"graph joint", "guards"} <= set(divergence.also)
    extra = by_title["extra"]
    compile = next(each for each in ranks[1].data.compiles if each.id == extra.ids[1])
    (inference,) = (stage.graph for stage in compile.stages if stage.name == "inference" and stage.graph)
    assert [node.name for node in inference.nodes] == ["arg0_1", "tanh", "mul"]
    assert extra.ids[0] is None and extra.ids[1] and extra.kinds == ("", "A") and not extra.divergences
    again = next(each for each in ranks.data.compiles if each.title.startswith("step") and "#2" in each.title)
    assert "graph joint" not in again.divergences[0].also


def test_what_is_a_process_s_own_is_no_difference(ranks):
    record = ranks.data.records[0]
    text = msgspec.json.encode(record).decode()
    assert "140194345968448" not in text, "the other rank's addresses"
    moved = re.sub(r"\b1\d{14}\b", "140000000000001", text)
    assert moved != text
    twin = msgspec.json.decode(moved, type=RecordData)
    assert {each.kinds for each in ranked("twins", [record, twin]).compiles} == {("A", "A")}


def test_graphs_of_the_same_name_are_distinguished(ranks):
    """In a log, forward and backward have a graph before and after post-grad passes each."""
    record = ranks.data.records[0]
    (compile,) = (each for each in record.compiles if each.id == "s0")
    first = next(stage for stage in compile.stages if stage.name == "forward" and stage.graph)
    second = msgspec.structs.replace(first, id="other")
    changed = msgspec.structs.replace(first, body=TextData((LineData("another text"),)))
    one, other = (
        msgspec.structs.replace(record, compiles=(msgspec.structs.replace(compile, stages=stages),))
        for stages in ((first, second), (changed, second))
    )
    (found,) = ranked("job", [one, other]).compiles
    assert [(each.what, each.line, each.after) for each in found.divergences] == [("graph forward", 1, "another text")]


def test_ranks_that_left_no_log_are_named(ranks):
    first, second = ranks.data.records
    far = msgspec.structs.replace(second, environment={"rank": "3"})
    found = Ranks(ranked("job", [far, first]))
    assert [each.number for each in found.data.ranks] == [0, 3] and found.data.missing == (1, 2)
    assert "ranks 1 to 2 left no logs" in found.text()
    assert not ranks.data.missing
    unnumbered = msgspec.structs.replace(first, environment={})
    names = [each.name for each in ranked("job", [unnumbered, unnumbered, first]).ranks]
    assert names == ["rank 0", first.title, f"{first.title} #2"]


@pytest.mark.parametrize("number", (2, 20, 1000))
def test_any_number_of_ranks_takes_no_more_of_a_notebook_than_a_cell_may(ranks, number):
    chosen = Random(number)
    records = []
    for rank in range(number):
        record = ranks.data.records[rank % 2]
        compiles = tuple(
            msgspec.structs.replace(each, stages=(), title=f"{each.title} {n}", seconds=chosen.random())
            for each, n in ((each, chosen.randrange(5)) for each in record.compiles)
        )
        records.append(msgspec.structs.replace(record, environment={"rank": str(rank)}, compiles=compiles))
    many = Ranks(ranked("job", records))
    bundle, metadata = many._repr_mimebundle_()
    output = nbformat.v4.new_output("display_data", data=bundle, metadata=metadata)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("ranks", outputs=[output])])
    assert len(nbformat.writes(notebook).encode()) <= MOST_ON_DISK
    held = msgspec.json.decode(gzip.decompress(base64.b64decode(bundle[RANKS_MIME]["packed"])), type=RanksData)
    assert {each.name for each in held.ranks} <= {each.name for each in many.data.ranks} and len(held.records) >= 1
    told = f"{len(held.ranks)} of {number} ranks; print(ranks) and ranks.to_html(path) have all" in held.title
    assert told == (number == 1000) and f"rank {number - 1}" in many.text()
    assert max(line.count("rank ") for line in many.text().splitlines()) <= MOST_RANKS + 1
    by_title = {each.title: each for each in many.data.compiles}
    for each in held.compiles:
        whole = dict(zip([rank.name for rank in many.data.ranks], by_title[each.title].kinds, strict=True))
        assert [whole[rank.name] for rank in held.ranks] == list(each.kinds)
        told = {(many.data.ranks[d.rank].name, d.what, d.line) for d in by_title[each.title].divergences}
        assert {(held.ranks[d.rank].name, d.what, d.line) for d in each.divergences} <= told


def test_ranks_in_a_terminal_an_output_and_a_page(ranks, tmp_path):
    shown = json.loads(json.dumps(ranks._repr_mimebundle_()[0]))
    held = in_output(shown[RANKS_MIME], RanksData)
    assert msgspec.structs.replace(held, records=()) == msgspec.structs.replace(ranks.data, records=())
    assert [each.title for each in held.records] == [each.title for each in ranks.data.records]
    assert "rank 1 first differs from rank 0 in inputs, line 1" in shown["text/plain"]
    assert "not compiled on rank 0" in shown["text/plain"]
    assert len(ranks) == 2 and ranks[1].data is ranks.data.records[1]
    done = CliRunner().invoke(main, ["import", str(LOGS), "-o", str(tmp_path), "--html"])
    assert done.exit_code == 0 and "differs from rank 0" in done.output
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "logs.0.explore.json.gz", "logs.0.html", "logs.1.explore.json.gz", "logs.1.html", "logs.ranks.html",
    ]  # fmt: skip
    saved = [str(tmp_path / f"logs.{n}.explore.json.gz") for n in (1, 0)]
    done = CliRunner().invoke(main, ["ranks", *saved, "-o", str(tmp_path / "both.html")])
    assert done.exit_code == 0 and "extra" in done.output and (tmp_path / "both.html").exists()
    assert CliRunner().invoke(main, ["ranks", str(tmp_path / "absent.json")]).exit_code == 2


def test_markup_in_ranks_stays_text(ranks, tmp_path):
    evil = "<img src=x onerror=alert(1)></script><script>alert(1)</script>"
    (first, second) = ranks.data.records
    spoilt = msgspec.structs.replace(first, compiles=(msgspec.structs.replace(first.compiles[0], title=evil),))
    found = Ranks(ranked(evil, [spoilt, second]))
    assert "<img" not in found._repr_mimebundle_()[0]["text/html"]
    assert "<img src=x" not in found.to_html(tmp_path / "ranks.html").read_text()


@pytest.mark.slow
def test_two_ranks_side_by_side(tmp_path):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    found = read(run(tmp_path, *launcher))
    assert [each.title.rpartition(", ")[2] for each in found] == ["rank 0", "rank 1"]
    changed = Record(found[0]).diff(Record(found[1])).changed
    assert any("joint" in name for name in changed)
    step = next(each for each in Ranks.load(tmp_path / "trace").data.compiles if each.title.startswith("step"))
    assert step.kinds == ("A", "B") and "[4, 16]" in step.divergences[0].before
    done = CliRunner().invoke(main, ["import", str(tmp_path / "trace"), "-o", str(tmp_path / "out")])
    assert done.exit_code == 0 and "rank 1" in done.output
    assert len(list((tmp_path / "out").iterdir())) == 2
