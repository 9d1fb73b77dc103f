"""A hand-made record in which every field of every structure is filled: what the views are tested on."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from typing import Any

import msgspec

from explorer.ir.record import (
    VERSION,
    AccuracyData,
    ActivationData,
    AnswerData,
    ArgumentData,
    BreakData,
    BufferData,
    BuildData,
    CacheKeyData,
    CallData,
    CallsData,
    CodeData,
    CompileData,
    ConstantData,
    CoverageData,
    DivergenceData,
    EagerData,
    EffectData,
    ErrorData,
    EventData,
    ExpressionData,
    FailedGuardData,
    FunctionCostData,
    FusionData,
    GlobalStateData,
    GradNodeData,
    GraphData,
    GuardCostData,
    GuardData,
    HalfData,
    InputData,
    InstructionData,
    ItemData,
    KernelData,
    LaunchData,
    LineData,
    MachineData,
    MemoryData,
    MnemonicData,
    NodeData,
    OperationData,
    OperatorCheckData,
    RaisedData,
    ReasonData,
    RecompileData,
    RecordData,
    RewriteData,
    SamplesData,
    SavedData,
    ScheduleData,
    SourceData,
    SpanData,
    SpeedData,
    StageData,
    StepData,
    SymbolData,
    TensorFactsData,
    TextData,
    TiledLoopData,
    TimingData,
    ValueData,
    WhyData,
    WrittenData,
)
from explorer.show.view.glance import with_glance

FILE = "/home/someone/programs/scaled.py"
SOURCE = """\
def scaled(x, scale):
    y = x * scale
    print(y.shape)
    return torch.relu(y).sum(-1)
"""


def at(line: int) -> SpanData:
    return SpanData(FILE, line, line, 4, 20)


def lines(language: str, *rows: tuple[str, str, tuple[str, ...]]) -> TextData:
    return TextData(tuple(LineData(*row) for row in rows), language)


def capture_graph() -> GraphData:
    return GraphData(
        "capture",
        (
            NodeData("fx.x", "x", "placeholder", "x", "f32[8, 16]", (), ("f0@4",), bytes=512, span=at(1)),
            NodeData("fx.mul", "mul", "call_function", "operator.mul", "f32[8, 16]", ("fx.x",), ("f0@6",), "net",
                     "the product", 512, at(2)),
        ),
        ("fx.mul",),
    )  # fmt: skip


def aten_graph() -> GraphData:
    nodes = (NodeData("aten.mul", "mul", "call_function", "aten.mul.Tensor", "f32[8, 16]", ("fx.x",), ("fx.mul",)),)
    return GraphData("forward", nodes, ("aten.mul",))


def stages() -> tuple[StageData, ...]:
    captured = lines("python", ("def forward(x):", "", ("f0@4",)), ("    mul = x * scale", "fx.mul", ("f0@6",)))
    traced = lines("python", ("def forward(x):", "", ("synthetic:signature",)),
                   ("    dead = aten.neg(x)", "aten.dead", ("fx.x",)),
                   ("    mul = aten.mul(x, scale)", "aten.mul", ("fx.mul",)))  # fmt: skip
    cleaned = TextData((traced.lines[0], traced.lines[2]), "python")
    loops = lines("python", ("buf0[i0, i1] = x[i0, i1] * scale", "buf0", ("aten.mul",)))
    return (
        StageData("f0/0", "capture", 0.0, 0.0123, 0, body=captured, graph=capture_graph()),
        StageData("f0/1", "trace", 0.02, 0.05, 0, body=traced, graph=aten_graph()),
        StageData("f0/2", "dead code", 0.07, 0.001, 0, body=cleaned, graph=aten_graph()),
        StageData("f0/3", "common subexpressions", 0.071, 0.001, 0, same_as="f0/2"),
        StageData("f0/4", "lower", 0.08, 0.002, 0, "forward", body=loops),
        StageData("f0/5", "fuse", 0.09, 0.002, 0, "forward", error="ValueError: it went wrong"),
        StageData("f0/6", "verify", 0.092, 0.0, 1, "forward"),
    )


def half() -> HalfData:
    fused = WhyData("fusion.shared_reads", "they read the same buffer", "x, 512 bytes")
    source = lines("cpp", ("extern \"C\" void k1(const float* x, float* buf0) {", "k1:1", ("synthetic:signature",)),
                   ("  for (long i0 = 0; i0 < 8; ++i0)", "k1:2", ("buf0",)),
                   ("    buf0[i0] = x[i0] * 2.0f;", "k1:3", ("buf0",)), ("}", "k1:4", ("buf0",)))  # fmt: skip
    return HalfData(
        "forward", "cpu",
        buffers=(BufferData("buf0", "f32[8, 16]", "temporary", ("aten.mul",), fused, "pool", fused, 64, "buf1", 512,
                            1, 2),),
        operations=(OperationData("op0", "loop", "pointwise", ("x",), ("buf0",), ("aten.mul",), fused),
                    OperationData("op1", "extern", "aten.mm", ("buf0",), ("buf2",), ("aten.mul",))),
        schedule=ScheduleData((ItemData("k1", "kernel", ("op0",), "i0<8", "i1<16", ("buf0",)),
                               ItemData("op1", "extern", ("op1",), why=fused)),
                              (FusionData("op0", "op1", False, fused, 3.0), FusionData("op0", "op2", True, fused)),
                              (FusionData("op0", "op2", True, fused, 0.0, True), FusionData("op0", "op1", False, fused),
                               FusionData("op0", "op2", True, fused, 512.0)), fused),
        memory=MemoryData(1024, 2048, 1024),
        kernels=(KernelData("k1", "k_mul", "cpp", source, ("buf0",), 1024, 128, 1e-6,
                            {"asm": lines("gas", ("vmulps ymm0, ymm1", "k1.asm:1", ("k1:3",)))},
                            (ArgumentData("x"), ArgumentData("buf0", "", True), ArgumentData("", "s0")),
                            (TiledLoopData("i0", "parallel", "8", 4), TiledLoopData("i1", "vector", "16", depth=1)),
                            {"k1:3": "vectorized: 64 bytes at a time"}, ("k1:3",),
                            ("8 registers a thread, nothing spilled",)),),
        wrapper=lines("python", ("def call(inputs):", "w:1", ("synthetic:wrapper",)),
                      ("    k1(inputs[0])", "w:2", ("k1",))),
        builds=(BuildData("g++", ("g++", "-O3", "k.cpp"), "12.2", "/tmp/k.so", 0.5, True),),
        written=(WrittenData("k1", "buf0", "1 to 2; 1 2", "aten.mul", "1 to 3; 1 3", 1.0, True, 1, "aten.mul"),),
        extern_seconds={"op1": 2e-6},
        nodes={"aten.mul": ("kernel", ("op0",))},
        runs=False,
        extern_flops={"op1": 4096},
    )  # fmt: skip


def compiled() -> CompileData:
    why = WhyData("break.print", "a call that prints", "print(y.shape)")
    code = CodeData(
        "scaled", "original", FILE, 1,
        (InstructionData("f0@4", "LOAD", "x", "", (), at(2), (0, 1)),
         InstructionData("f0@6", "BINARY", "*", "L1", ("f0@4",), at(2), (2, 1))),
    )  # fmt: skip
    rewritten = CodeData("scaled", "rewritten", FILE, 1, (InstructionData("r0@0", "CALL", "graph", "", ("f0@6",)),))
    return CompileData(
        "f0", "scaled", 0.0, 0.3,
        stages=stages(),
        codes=(code, rewritten),
        guards=guards(),
        breaks=(BreakData(why, "f0@9", at(3), ("scaled at scaled.py:3",),
                          ("print after the call", "Fix (tried): log later; as fix0s0 shows"), "resume_at_3"),),
        effects=(EffectData("append", "log.append(y)", ("f0@9",)),),
        symbols=(SymbolData("s0", 8, "x.size(0)", "2 to 64", "dynamic", "seen 8 and 9"),),
        saved=(SavedData("aten.mul", "saved", 512, WhyData("partition.kept", "cheap to keep", "512 bytes"), 4.2e-6),),
        eager_backward=(GradNodeData("grad.MulBackward0", "MulBackward0", ("fx.mul",), ("grad.AccumulateGrad",)),),
        halves=(half(),),
        events=(EventData("FusionTried", {"first": "op0", "second": "op1"}),),
        left_out={"FusionTried": 7},
        error="ValueError: it went wrong",
        fallback=WhyData("pipeline.compiler_bug", "a bug in this compiler", "in fuse"),
        inputs=(InputData("L['x']", "tensor", tensor=TensorFactsData("float32", "cpu", (8, 16), (16, 1)), name="x"),
                InputData("L['k']", "number", constant=ConstantData("int", "3", 3))),
        recompiles=(RecompileData("f0.0", "f0.guard0", "L['x']: f32[4, 16]", "L['x'].size(0) is 8, expected 4", "8",
                                  "the size of x is 4"),),
        continues="f9",
        guard_seconds=2e-6,
        guard_costs=(GuardCostData("L['x']", 2, 1e-6), GuardCostData("L['self']", 7, 5e-7, True)),
        functions=(FunctionCostData("scaled", 1, 0.01, 0.03), FunctionCostData("inner", 2, 0.02, 0.02)),
        cache_keys=(CacheKeyData("f0.key0", "FX graph cache", "fabc", {"example_inputs[0]": "ab12 shape=[8]"}),
                    CacheKeyData("f0.key1", "FX graph cache", "fdef", {"gm": "cd34 <lambda>"}, "f0.key0", ("gone",))),
        activations=(ActivationData("scaled"), ActivationData("inner", 1, 0)),
        steps=(StepData("f0@4", 0, 0, 0, (0,), {"x": 0}), StepData("f0@6", 0, 1, 0, (1,))),
        values=(ValueData("tensor x"), ValueData("tensor mul", 0)),
        made={"fx.mul": 0},
        rewrites=(
            RewriteData("f0/2", "nothing reads it", "aten.dead", "aten.neg(x)"),
            RewriteData("f0/2", "the same call", "aten.twice", "aten.mul(x, scale)", "aten.mul", "aten.mul(x, scale)"),
            RewriteData("f0/4", "computed in loops", "aten.mul", "", "buf0", "",
                        (WhyData("lower.output", "the graph returns it"),)),
        ),
    )  # fmt: skip


def guards() -> tuple[GuardData, ...]:
    """One of each property that a description can be tried on."""
    rows = ExpressionData("size", value=0, source="L['x']")
    least = ExpressionData(">=", (rows, ExpressionData("number", value=2)))
    facts = TensorFactsData("float32", "cpu", (None, 16), (16, 1), True)
    return (
        GuardData("g0", "L['x']", "tensor", "matches", "f32[*, 16]", "x.dtype is torch.float32", "read at *",
                  "f0@6", at(2), "f32[8, 16]", tensor=facts),
        GuardData("g1", "L['k']", "constant", "==", "3", "L['k'] == 3", "its value went into the graph", "f0@6", at(2),
                  "3", constant=ConstantData("int", "3", 3)),
        GuardData("g2", "L['x']", "shape", "holds", "2 <= L['x'].size(0)", "2 <= L['x'].size(0)", "sizes 0 and 1 apart",
                  "synthetic:size symbols", seen="L['x'].size(0) = 8", shape=least),
        GuardData("g3", "", "global_state", "==", "grad", "global state", "results depend on it",
                  "synthetic:every capture", state=GlobalStateData(True, ("cpu bfloat16",)),
                  words="grad mode is as at capture", of_torch=True),
    )  # fmt: skip


def attempt() -> CompileData:
    """A compile with a fix of a graph break."""
    changed = lines("diff", ("-    print(y.shape)", "", ()))
    left = BreakData(WhyData("break.print", "a call that prints"), "fix0s0@4", at(3), (), ())
    stages = (StageData("fix0s0/0", "rewritten source", 0.0, 0.0, 0, body=changed),)
    return CompileData("fix0s0", "scaled, with torch.where", 0.0, 0.1, stages, breaks=(left,))


def sample() -> RecordData:
    """A record of one compile, broken, failed, timed: nothing in it is empty."""
    divergence = DivergenceData("f0", "forward", "aten.mul", "k1", 1e-6, 1e-7, at(2), "aten.mul is off by 1e-06")
    return with_glance(RecordData(
        VERSION, "scaled", "explorer", "cpu", "2026-01-02T03:04:05+00:00",
        {"python": "3.11.9", "torch": "2.13.0"}, {"fullgraph": "False"},
        (SourceData(FILE, 1, SOURCE),),
        (compiled(),),
        CoverageData(3, 2, 1, 0, (f"{FILE}:3 (a call that prints)",)),
        TimingData(
            (SamplesData("eager", 2e-5, 1e-6, (2e-5, 2.1e-5), peak=4096),
             SamplesData("explorer", 1e-5, 1e-6, (1e-5, 1.1e-5), 0.4, "", 2048,
                         SpeedData("2x faster than eager (1.9 to 2.1)", 2.0, 1.9, 2.1),
                         CallData(1.1e-5, (LaunchData("f0", "forward", "k1", 2e-6, 4e-6),))),
             SamplesData("stock", 1.5e-5, 1e-6, (1.5e-5,), 31.0, "warm 0.2 s", None,
                         SpeedData("too noisy to compare with eager (2x slower to 2x faster)", None, 0.5, 2.0))),
            3e-6, MachineData("a processor", 2e10, 1e11),
            AccuracyData(1e-6, 1e-7, "output", "aten.mul", 3, divergence), "rounds of each in turn",
        ),
        "ok", "ValueError: it went wrong",
        (ReasonData("break.print", "a call that prints", "Printing cannot be part of a graph.", "print later"),),
        ("`x` was computed in an earlier cell: the backward shown ends at it.",),
        (attempt(),),
        recompiles=(FailedGuardData("scaled", "n == 3", 2, ("3", "4"), "mark_dynamic", "f0", "f0.guard1", ("f1",),
                                    at(2), "n equals 3"),),
        errors=(ErrorData("f0", "the program raises", "ValueError", "it went wrong", SpanData(FILE, 3, 3), True),),
        eager=(EagerData("print", "a call that prints", "f0", SpanData(FILE, 3, 3), 2),),
        calls=(CallsData("scaled", "explorer", 2, 3e-3, 2e-3, 1e-5, (2.9e-3, 1e-4),
                         raised=(RaisedData(2, "ValueError"),)),),
        answers=(AnswerData("memory", "What is in memory at the peak?", ("1 kB  buf0",)),),
        mnemonics={"vmulps": MnemonicData("multiplies: float32", "vmulps YMMWORD PTR")},
        operators=(OperatorCheckData("docs.doubled.default", 2, ("the shape of the output is (4,), by the fake "
                                                                 "implementation (8,)",)),),
    ))  # fmt: skip


def empty() -> RecordData:
    """A record of nothing."""
    return with_glance(RecordData(VERSION, "nothing", "explorer", "", "", {}, {}, (), (), CoverageData()))


def in_output(shown: Mapping[str, Any], kind: Any) -> Any:
    """What an output of a comparison holds."""
    return msgspec.json.decode(gzip.decompress(base64.b64decode(shown["packed"])), type=kind)
