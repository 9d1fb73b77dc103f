"""Building and calling generated CPU programs: the cache, failures, memory between calls, assembly, profile."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest
import torch

import explorer
from compiling import compile_fx, program_of
from explorer.compiler.codegen import GENERATE
from explorer.compiler.lower import LOWER
from explorer.compiler.runtime import BUILD, cache
from explorer.compiler.runtime import reasons as why
from explorer.compiler.runtime.child import Child, _Kept
from explorer.compiler.runtime.compiler import chosen_compiler
from explorer.compiler.schedule import DEPENDENCIES, FUSE, ORDER, PLAN_MEMORY
from explorer.core.reasons import Unsupported
from explorer.core.recorder import Recorder, recording
from explorer.core.text import Text
from explorer.ir.program import BuildOptions, Generation
from lowering import traced
from programs import MODELS, observe


def chain(x, y):
    return torch.relu(x * 2 + y) - y


def staged(x, w):
    """Two products, so that intermediates lie in the pool."""
    h = torch.relu(x @ w + 1)
    return (h @ w.t()).sin() + x


@pytest.fixture
def folder(tmp_path: Path) -> BuildOptions:
    return BuildOptions(cache_dir=tmp_path / "kernels")


# The cache.


def test_a_second_build_takes_the_first_ones_result(folder: BuildOptions) -> None:
    x = torch.randn(30)
    first, second = (program_of(chain, x, x, options=folder).steps[0] for _ in range(2))
    assert (first.cached, second.cached) == (False, True)
    assert first.output == second.output
    assert folder.cache_dir is not None
    assert stat.S_IMODE(folder.cache_dir.stat().st_mode) == 0o700


def test_other_flags_are_another_library(folder: BuildOptions) -> None:
    x = torch.randn(30)
    slow = BuildOptions(cpp_flags=("-O1",), cache_dir=folder.cache_dir)
    outputs = {program_of(chain, x, x, options=options).steps[0].output for options in (folder, slow)}
    assert len(outputs) == 2


def test_the_step_shows_a_command_that_builds_the_library(folder: BuildOptions) -> None:
    x = torch.randn(30)
    step = program_of(chain, x, x, options=folder).steps[0]
    assert os.path.exists(step.command[0]) and step.version == chosen_compiler().version
    os.unlink(step.output)
    Child(step.command).wait(60)
    assert os.path.exists(step.output)


def test_a_folder_others_may_write_to_is_not_trusted(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    recorder = Recorder()
    with recording(recorder):
        step = program_of(chain, torch.randn(3), torch.randn(3), options=BuildOptions(cache_dir=shared)).steps[0]
    assert not step.output.startswith(str(shared))
    (moved,) = [e for run in recorder.compiles for e in run.events if isinstance(e, cache.CacheMoved)]
    assert moved.why.code == why.CACHE_UNUSABLE and str(shared) in str(moved.why)


def test_a_cache_path_that_cannot_be_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    x = torch.randn(30)
    compiled = compile_fx(chain, x, x, options=BuildOptions(cache_dir=file / "below"))
    torch.testing.assert_close(compiled(x, x)[0], chain(x, x))


def test_a_full_disk_is_one_clear_reason(folder: BuildOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("explorer.compiler.runtime.cpp_build.put", full)
    with pytest.raises(Unsupported) as error:
        program_of(chain, torch.randn(3), torch.randn(3), options=folder)
    assert error.value.why.code == why.NO_ROOM


def test_no_compiler(folder: BuildOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(Unsupported) as error:
        program_of(chain, torch.randn(3), torch.randn(3), options=folder)
    assert error.value.why.code == why.WRONG_CXX


def test_a_compiler_that_refuses(folder: BuildOptions) -> None:
    bad = BuildOptions(cpp_flags=("-O1", "-std=c++98", "-fno-such-flag"), cache_dir=folder.cache_dir)
    with pytest.raises(Unsupported, match="fno-such-flag") as error:
        program_of(chain, torch.randn(3), torch.randn(3), options=bad)
    assert error.value.why.code == why.COMPILER_FAILED
    assert folder.cache_dir is not None and not list(folder.cache_dir.glob("*.so"))


def test_a_large_half_is_built_in_units(folder: BuildOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.compiler.runtime.cpp_build.UNIT_LINES", 10)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    x, w = torch.randn(20, 30), torch.randn(30, 8)
    compiled = compile_fx(staged, x, w, options=folder)
    torch.testing.assert_close(compiled(x, w)[0], staged(x, w))
    sources = [part for part in compiled.program.steps[0].command if part.endswith(".cpp")]
    assert len(sources) == 2


# Calls.


def test_outputs_of_two_calls_share_nothing() -> None:
    x, w = torch.randn(20, 30), torch.randn(30, 8)
    compiled = compile_fx(staged, x, w)
    (first,) = compiled(x, w)
    kept = first.clone()
    (second,) = compiled(x * 2, w)
    assert first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr()
    assert torch.equal(first, kept)


def test_concurrent_calls_do_not_meet() -> None:
    x, w = torch.randn(60, 64), torch.randn(64, 64)
    compiled = compile_fx(staged, x, w)
    assert compiled.program.generated.wrapper.lines[0].text == "POOLS = []"
    wrong: list[float] = []

    def work(scale: float) -> None:
        wanted = staged(x * scale, w)
        for _ in range(50):
            (got,) = compiled(x * scale, w)
            if not torch.allclose(got, wanted, rtol=1e-4, atol=1e-4):
                wrong.append(scale)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_call_inside_a_call_takes_another_pool() -> None:
    x, w = torch.randn(20, 30), torch.randn(30, 8)
    program = program_of(staged, x, w)
    assert program.call is not None
    outer = program.call.__globals__
    multiply, depth = outer["mm"], []

    def nested(*args, **kwargs):
        if not depth:
            depth.append(1)
            torch.testing.assert_close(program.call((x * 3, w))[0], staged(x * 3, w))
        return multiply(*args, **kwargs)

    outer["mm"] = nested
    torch.testing.assert_close(program.call((x, w))[0], staged(x, w))
    assert depth


def test_a_failed_call_leaves_the_program_usable() -> None:
    x, w, i = torch.randn(20, 30), torch.randn(30, 8), torch.arange(8)
    compiled = compile_fx(lambda x, w, i: torch.relu(x @ w)[:, i].exp() @ w.t(), x, w, i)
    for _ in range(3):
        with pytest.raises(IndexError):
            compiled(x, w, i + 1)
        torch.testing.assert_close(compiled(x, w, i)[0], torch.relu(x @ w).exp() @ w.t())


def test_tracebacks_show_the_wrappers_line() -> None:
    x, w = torch.randn(20, 30), torch.randn(30, 8)
    compiled = compile_fx(staged, x, w)
    try:
        compiled(x, torch.randn(31, 8))
    except RuntimeError:
        text = traceback.format_exc()
    assert "<explorer g" in text and "mm(" in text


def test_updated_inputs_are_updated_in_place() -> None:
    def update(x, y):
        x.add_(y).mul_(2)
        return x.sum(0), x[1:] + y[1:]

    x, y = torch.randn(40, 50), torch.randn(40, 50)
    mine, eager = x.clone(), x.clone()
    wanted = update(eager, y)
    where = mine.data_ptr()
    got = compile_fx(update, x.clone(), y)(mine, y)
    assert mine.data_ptr() == where
    torch.testing.assert_close(mine, eager)
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_memory_reused_in_place_is_read_before_it_is_written() -> None:
    def fn(x, w):
        h = x @ w
        a = torch.softmax(h, -1)
        b = a - a.mean(-1, keepdim=True)
        return (b * a).sum(-1), torch.layer_norm(b + h, [8]) @ w.t()

    x, w = torch.randn(20, 30), torch.randn(30, 8)
    for mine, eager in zip(compile_fx(fn, x, w)(x, w), fn(x, w), strict=True):
        torch.testing.assert_close(mine, eager, rtol=1e-4, atol=1e-5)


def test_a_programs_text_says_how_it_was_built() -> None:
    text = str(program_of(chain, torch.randn(3), torch.randn(3)).text())
    compiler = chosen_compiler()
    assert shlex.join(compiler.words) in text and compiler.threads in text


# Assembly and profile.


def test_assembly_is_linked_to_the_kernels_lines() -> None:
    x = torch.randn(64, 512)
    program = program_of(lambda x: torch.softmax(x, -1), x)
    (kernel,) = program.generated.kernels
    text = program.lowered()[kernel.function].texts["asm"]
    assert isinstance(text, Text)
    lines = {line.id for line in kernel.source.lines} | {line.id for line in program.generated.prelude.lines}
    linked = [line for line in text.lines if set(line.origins) & lines]
    assert len(linked) > len(text.lines) / 2
    assert all(line.origins for line in text.lines)
    assert program.lowered() is program.lowered()


def test_profile_gives_seconds_of_each_kernel_and_call() -> None:
    x, w = torch.randn(200, 300), torch.randn(300, 80)
    program = program_of(staged, x, w)
    assert program.profile is not None
    seconds = program.profile((x, w))
    items = [kernel.id for kernel in program.generated.kernels] + [id for id, _ in program.generated.externs]
    assert set(seconds) == set(items)
    assert all(0 <= value < 1 for value in seconds.values())


def test_a_small_kernel_builds_in_little_time(folder: BuildOptions) -> None:
    """Aim 0.6 s on an idle machine; the bound leaves room for a busy one."""
    x = torch.randn(64, 64)
    step = program_of(lambda x: torch.nn.functional.gelu(x).sum(1), x, options=folder).steps[0]
    assert not step.cached and step.seconds < 5


def test_parameters_may_have_the_names_that_the_wrapper_uses() -> None:
    def fn(pool, mm, threads, lent):
        return torch.relu(pool @ mm + threads) @ lent.t() + pool

    inputs = [torch.randn(20, 30), torch.randn(30, 8), torch.randn(8), torch.randn(30, 8)]
    graph = traced(fn, *inputs)
    for node, name in zip(graph.graph.nodes, ("pool", "mm", "threads", "lent"), strict=False):
        node._rename(name)
    loops = LOWER(graph)
    schedule = ORDER(FUSE(DEPENDENCIES(loops)))
    program = BUILD(GENERATE(Generation(schedule, PLAN_MEMORY(schedule))))
    assert program.call is not None
    torch.testing.assert_close(program.call(inputs)[0], fn(*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["small_cnn", "unet"])
def test_tensors_are_let_go_after_their_last_use(name: str) -> None:
    """The memory plan's peak counts on it; and nothing is named after it is gone."""
    model = next(model for model in MODELS if model.name == name)
    recorder = Recorder()
    with recording(recorder):
        observe(model, explorer.compile, train=True)
    programs = [stage.artifact for run in recorder.compiles for stage in run.stages if stage.name == "generate"]
    released = 0
    for program in programs:
        lines = [line.text for line in program.wrapper.lines]
        for number, line in enumerate(lines):
            if line.strip().startswith("del "):
                names = line.strip().removeprefix("del ").split(", ")
                released += len(names)
                rest = "\n".join(lines[number + 1 :])
                assert not [name for name in names if re.search(rf"\b{name}\b", rest)]
    assert released


@pytest.mark.parametrize("room", [0, 1, 100, 1 << 16, 1 << 20, 1 << 25])
def test_of_what_a_child_prints_the_beginning_and_the_end_are_kept_and_no_more(room: int) -> None:
    printed = 30 << 20
    kept = _Kept(room)
    largest, started = 0, time.process_time()
    for at in range(0, printed, 1 << 16):
        kept.add(bytes([97 + at % 7]) * (1 << 16))
        largest = max(largest, len(kept.head) + len(kept.tail))
    assert largest <= 3 * room + (1 << 16) and time.process_time() - started < 5
    whole = "".join(chr(97 + at % 7) * (1 << 16) for at in range(0, printed, 1 << 16))
    if room >= printed:
        assert str(kept) == whole
    else:
        left_out = printed - 2 * room
        assert str(kept) == f"{whole[:room]}\n[{left_out} bytes left out]\n{whole[printed - room :]}".strip()


STARTS = """
import os, pathlib, sys
from explorer.compiler.runtime.child import Child
child = Child((sys.executable, "-c", "import subprocess, time; subprocess.Popen(['sleep', '300']); time.sleep(300)"))
print(child._process.pid, flush=True)
child.wait(300)
"""


def alive(group: int) -> bool:
    """Whether a process of the group runs on, and does not only wait to be asked how it ended."""
    listed = subprocess.run(("ps", "-e", "-o", "pgid=,stat="), capture_output=True, text=True, check=True).stdout
    return any(line.split()[0] == str(group) and line.split()[1][0] != "Z" for line in listed.splitlines())


@pytest.mark.skipif(shutil.which("ps") is None, reason="ps lists the processes")
@pytest.mark.parametrize("ended_by", (signal.SIGTERM, signal.SIGKILL))
def test_a_compiler_ends_with_the_process_that_started_it(ended_by: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        group = int(parent.stdout.readline())
        assert alive(group)
        parent.send_signal(ended_by)
    until = time.monotonic() + 20
    while alive(group) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(group)


def test_a_child_leaves_no_process() -> None:
    before = set(os.listdir("/proc"))
    child = Child(("true",))
    assert child._guard is not None
    mine = {str(child._process.pid), str(child._guard.pid)}
    assert child.wait(20).ok
    assert not mine & set(os.listdir("/proc")) and not mine & before
