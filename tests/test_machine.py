"""What compilers below say of kernels: instructions explained, Intel's syntax, loops vectorized or not, registers."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import explorer
from explorer.compiler.runtime import cpp_build as runtime_remarks
from explorer.compiler.runtime.compiler import chosen_compiler
from explorer.compiler.runtime.cpp_build import SILENT, UNTOLD, remarks
from explorer.compiler.runtime.triton_texts import ThreadBlock, Used, facts, of_amdgcn, of_ptxas
from explorer.core.text import Line, Text
from explorer.ir.record import KernelData, LineData, TextData
from explorer.records.data.instructions import intel, meaning, mnemonic
from explorer.records.stock.assembly import SCALAR, labeled, loops, of_triton
from explorer.show import throughput
from explorer.show.record import Record

X86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86-64's assembly")


def several(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    h = torch.nn.functional.gelu(x * w)
    s = torch.softmax(h, -1)
    return s.cumsum(-1), (x > 0).sum(-1), torch.argmax(s, -1), x.to(torch.int64) // 3, torch.where(x > 0, x, h).double()


@pytest.fixture(scope="module")
def record() -> Record:
    return explorer.explore(several, time=False)(torch.randn(64, 300), torch.randn(300))


def assembled(text: str, folder: Path, *options: str) -> list[str]:
    """The instructions of assembly, as they are after they were assembled."""
    made = folder / "made.o"
    subprocess.run(["as", *options, "-o", str(made), "-"], input=text, text=True, check=True, capture_output=True)
    shown = subprocess.run(["objdump", "-dr", str(made)], text=True, check=True, capture_output=True).stdout
    return [line.partition("\t")[2] for line in shown.splitlines() if "\t" in line]


PROGRAM = """
#include <cmath>
extern "C" {
void scale(float *x, const double *y, long n) { for (long i = 0; i < n; i++) x[i] = x[i] * 2 + (float)y[i]; }
long total(const int *x, const unsigned char *y, long n) {
    long s = 0;
    for (long i = 0; i < n; i++) s += x[i] / 3 + (y[i] > 7 ? y[i] : -1);
    return s;
}
double mixed(const float *x, const long *at, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) s = std::fmax(s, std::sqrt(x[at[i]]) * (double)at[i]);
    return s;
}
void bits(unsigned *x, short *y, int n) { for (int i = 0; i < n; i++) { x[i] = x[i] >> (i & 7); y[i] = -y[i]; } }
int (*chosen)(int);
int called(int x) { return chosen(x) + 1; }
}
"""


@X86
@pytest.mark.skipif(shutil.which("as") is None or shutil.which("objdump") is None, reason="binutils")
@pytest.mark.parametrize("march", ["native", "x86-64", "haswell", "skylake-avx512"])
def test_intels_syntax_is_the_same_machine_code(march: str, tmp_path: Path) -> None:
    asked = ("-O3", f"-march={march}", "-fPIC", "-fno-plt", "-fwrapv", "-S", "-x", "c++", "-", "-o", "-")
    command = (*chosen_compiler().words, *asked)
    att = subprocess.run(command, input=PROGRAM, text=True, check=True, capture_output=True).stdout
    lines = att.splitlines()
    other = [line if line.lstrip().startswith(".") else intel(line) for line in lines]
    assert sum(a != b for a, b in zip(lines, other, strict=True)) > 100
    assert assembled("\n".join(other) + "\n", tmp_path, "-msyntax=intel", "-mnaked-reg") == assembled(att, tmp_path)
    unknown = {name for line in lines if (name := mnemonic(line)) and not meaning(name)}
    assert not unknown


@pytest.mark.parametrize(
    ("att", "other"),
    [
        ("\taddl\t$1, 8(%rax,%rbx,4)", "\tadd\tDWORD PTR [rax+rbx*4+8], 1"),
        ("\tmovzbl\t-4(%rsp), %eax", "\tmovzx\teax, BYTE PTR [rsp-4]"),
        ("\tcall\t*memcpy@GOTPCREL(%rip)", "\tcall\tQWORD PTR [rip+memcpy@GOTPCREL]"),
        ("\tvmovaps\t%zmm0, (%rax){%k1}", "\tvmovaps\t[rax]{k1}, zmm0"),
        ("\tvaddps\t.LC0(%rip){1to16}, %zmm1, %zmm2{%k1}{z}", "\tvaddps\tzmm2{k1}{z}, zmm1, [rip+.LC0]{1to16}"),
        ("\tcltq", "\tcdqe"),
        (".L12:", ".L12:"),
        ("    movq    %xmm0, 8(%rax)", "    movq    QWORD PTR [rax+8], xmm0"),
        ("    movq    $0, (%rax)", "    mov    QWORD PTR [rax], 0"),
        ("    vpternlogd    $0xFF, %zmm1, %zmm1, %zmm1", "    vpternlogd    zmm1, zmm1, zmm1, 0xFF"),
        ("    jmp    *%rax", "    jmp    rax"),
        ("    leaq    (%rax,%rbx), %rcx", "    lea    rcx, [rax+rbx]"),
        ("\tlock xaddl\t%eax, (%rdx)", "\tlock xadd\tDWORD PTR [rdx], eax"),
    ],
)
def test_a_line_in_intels_syntax(att: str, other: str) -> None:
    assert intel(att) == other


def test_what_an_instruction_does() -> None:
    assert meaning("vfmadd231ps") == "a product, plus a third, rounded once: float32"
    assert meaning("vpaddq") == "adds: 64-bit integers"
    assert meaning("vcvttps2dq") == "converts float32 to 32-bit integers, towards 0"
    assert meaning("cmovge") == "copies if: greater or equal (signed)"
    assert meaning("cmovbeq") == "copies if: below or equal (unsigned) (64 bits)" and meaning("retq") == "returns"
    assert intel("    cmovbeq    (%rdi), %rax") == "    cmovbe    rax, QWORD PTR [rdi]"
    assert meaning("vpcmpleud") == "compares: less or equal (unsigned): 32-bit integers"
    assert not meaning("fsincos") and not meaning("ld1") and not meaning("")


@X86
def test_a_record_explains_each_instruction_of_its_kernels(record: Record) -> None:
    names = {mnemonic(line.text) for kernel in record.kernels for line in kernel.lowered["asm"].lines} - {""}
    assert names and {name for name in names if not record.data.mnemonics[name].means} == set()
    text = record.assembly("k0", syntax="intel", explain=True)
    assert "%rsp" not in text and re.search(r"mulps +[xyz]mm", text) and "; multiplies: float32" in text
    assert record.assembly("k0") == str(record.kernels[0].lowered["asm"])
    with pytest.raises(ValueError, match="expected 'att' or 'intel'"):
        record.assembly(syntax="masm")
    with pytest.raises(ValueError, match="no kernel 'k77'; it has k0"):
        record.assembly("k77")


def test_no_other_machines_instructions_are_explained() -> None:
    assert mnemonic("    fadd    v0.4s, v1.4s, v2.4s") == "fadd" and not meaning("fadd")


def test_each_innermost_loop_says_whether_it_was_vectorized(record: Record) -> None:
    said = [(line.text.strip(), kernel.remarks[line.id]) for kernel in record.kernels for line in kernel.source.lines
            if line.id in kernel.remarks]  # fmt: skip
    loops = [line for kernel in record.kernels for line in kernel.source.lines if line.text.strip().startswith("for (")]
    assert said and len(said) < len(loops), "the outer loops over rows say nothing"
    vectorized = {kernel.remarks[id] for kernel in record.kernels for id in kernel.vectorized}
    assert vectorized == {remark for _, remark in said if remark.startswith("vectorized: ")} != set()
    assert "innermost loops vectorized" in record.machine.text()


@pytest.mark.skipif(not chosen_compiler().vector_math, reason="the compiler calls no vector functions")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_functions_of_one_value_stay_vectorized_together(dtype: torch.dtype) -> None:
    """g++ makes one scalar call of sin(x) and cos(x), unless it is kept from it."""
    functions = [torch.sin, torch.cos, torch.tan, torch.exp, torch.expm1, torch.log1p, torch.tanh, torch.sinh,
                 torch.cosh, torch.erf, torch.atan, torch.asinh, torch.log, torch.log2, torch.log10]  # fmt: skip

    def every(x: torch.Tensor) -> torch.Tensor:
        return sum((function(x) for function in functions), x)

    (kernel,) = explorer.explore(every, time=False)(torch.rand(100, 30, dtype=dtype)).kernels
    assert kernel.remarks and kernel.remarks.keys() == set(kernel.vectorized), kernel.remarks


def test_a_loop_that_is_not_vectorised_says_why() -> None:
    def rows(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.zeros(10).index_add(0, i, v), torch.lgamma(x)

    found = explorer.explore(rows, time=False)(torch.rand(64, 30), torch.randint(0, 10, (50,)), torch.randn(50))
    said = found.machine.text()
    assert re.search(r"line \d+: for \(long .* not vectorized: \w+", said)
    assert chosen_compiler().vector_math is (UNTOLD in said), "clang calls no vector functions, and says why"
    assert "0 of 1 innermost loop vectorized" in said


SOURCE = Text(
    tuple(
        Line(text, f"k0:{n}")
        for n, text in enumerate(
            [
                "void k0() {",
                "    #pragma omp parallel for",
                "    for (long x = 0; x < n; ++x) {",
                "        for (long r = 0; r < 9; ++r) {",
                "            y[r] = x;",
                "        }",
                "        for (int i = 0; i < 4; ++i) z[i] = 0;",
                "        for (long r = 0; r < n; ++r) {",
                "            s = f(s);",
                "        }",
                "    }",
                "}",
            ],
            1,
        )
    ),
    "cpp",
)


def test_gccs_remarks_belong_to_the_loop_that_they_are_in() -> None:
    said = """<stdin>:5:9: optimized: loop vectorized using 64 byte vectors
<stdin>:4:1: optimized: loop vectorized using 32 byte vectors
<stdin>:2:1: missed: couldn't vectorize loop
<stdin>:2:1: missed: not vectorized: loop nest containing two or more consecutive inner loops cannot be vectorized
<stdin>:9:3: missed: not vectorized: no vectype for stmt: s_1 = f (s_2);
 scalar_type: const float
/usr/include/x.h:9:3: missed: not vectorized: unrelated
<stdin>:12:1: missed: couldn't vectorize loop"""
    found = remarks("\n".join(line for line in said.splitlines() if "include" not in line), SOURCE)
    assert found == {
        "k0:4": (True, "vectorized: 64 bytes at a time (remainder: 32 bytes at a time)"),
        "k0:7": (False, SILENT),
        "k0:8": (False, "not vectorized: no vectype for stmt: s_1 = f (s_2);"),
    }
    assert remarks(said, SOURCE) == found, "a header's line is not the kernel's"


def test_clangs_remarks_are_read_too() -> None:
    said = """/zig/tmp/9d3a-stdin.cpp:4:9: remark: vectorized loop (vectorization width: 8, interleaved count: 4)
<stdin>:8:9: remark: loop not vectorized: call instruction cannot be vectorized [-Rpass-analysis=loop-vectorize]
<stdin>:7:9: remark: loop not vectorized [-Rpass-missed=loop-vectorize]"""
    assert remarks(said, SOURCE) == {
        "k0:4": (True, "vectorized: 8 elements at a time, 4 such steps in one"),
        "k0:7": (False, UNTOLD),
        "k0:8": (False, "not vectorized: call instruction cannot be vectorized"),
    }


def test_remarks_cost_no_run_of_their_own(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    run = explorer.compiler.runtime.compiler.Compiler.run

    def counted(self: object, *words: str, **more: object) -> object:
        asked.append(words)
        return run(self, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(explorer.compiler.runtime.compiler.Compiler, "run", counted)
    explorer.explore(lambda x: x * 3.0625 + 1, time=False)(torch.randn(33))
    listings = [words for words in asked if "-S" in words]
    options = {*runtime_remarks.GCC, *runtime_remarks.CLANG}
    assert len(listings) == 1 and options & set(listings[0])
    assert not any(options & set(words) for words in asked if "-S" not in words), "the build is as it was"


def asm(*lines: str) -> tuple[LineData, ...]:
    return tuple(LineData(line, f"k:asm:{n}", ("k:1",)) for n, line in enumerate(lines))


def test_innermost_loops_of_assembly() -> None:
    nest = asm(".L1:", "    incq %rax", ".L2:", "    incl %ecx", "    jne .L2", "    jmp .L9", "    jl .L1", "    ret")
    assert throughput.innermost(nest) == [(2, 4)]
    assert throughput.innermost(asm(".L1:", "    ret", "    jmp .L1")) == []
    assert throughput.innermost(asm("    jmp .L1", ".L1:", "    ret")) == []


@X86
def test_throughput_of_each_loop(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which(throughput.TOOL) is not None:
        said = record.throughput().splitlines()
        assert len(said) > 1 and "by llvm-mca for" in said[0]
        shape = re.compile(r"[\d.]+ cycles per iteration, \d+ instructions?, [\d.]+ a cycle.*: line \d+: for \(")
        assert any(shape.search(line) for line in said)
    monkeypatch.setattr(throughput.shutil, "which", lambda name: None)
    assert record.throughput() == throughput.ABSENT


PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k0' for 'sm_90a'
ptxas info    : Function properties for k0
    16 bytes stack frame, 12 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers, 568 bytes cmem[0]"""


def test_registers_spills_and_occupancy() -> None:
    assert of_ptxas(PTXAS) == Used(80, 12) and of_ptxas("nothing") is None
    assert facts(Used(80, 12), ThreadBlock(4, 32, 2048), 90) == (
        "80 registers a thread, 12 bytes spilled to memory",
        "2048 bytes of shared memory for a block of 4 warps",
        "occupancy 38 %: 24 of 64 warps at once, limited by registers",
    )
    assert facts(Used(16, 0), ThreadBlock(4, 32, 0), 80)[-1].startswith("occupancy 100 %: 64 of 64")
    assert facts(Used(16, 0), ThreadBlock(4, 32, 48 * 1024), 80)[-1].endswith("limited by shared memory")
    assert len(facts(Used(16, 0), ThreadBlock(4, 64, 0), "gfx942")) == 2, "nothing is said of a card that is not known"
    assert of_amdgcn("    .vgpr_count:     12\n    .vgpr_spill_count: 2\n") == Used(12, 8)


LISTING = """
0000000000002250 <kernel.cold>:
    2250:	call   20b0 <__cxa_throw@plt>

00000000000020e0 <kernel@plt>:
    20e0:	jmp    *0x2f72(%rip)        # 5058 <kernel@@Base+0x2a38>

0000000000002300 <kernel>:
    2300:	xor    %eax,%eax
    2304:	vmovups (%rdi,%rax,1),%zmm0
    230b:	add    $0x40,%rax
    230f:	jne    2304 <kernel+0x4>
    2311:	jmp    2250 <kernel.cold>
    2316:	ret

0000000000002320 <other>:
    2320:	ret
"""


def test_a_disassembled_kernel_reads_as_a_compiler_writes_it() -> None:
    lines = [text for text, _ in labeled(LISTING.splitlines())]
    assert lines == [
        "kernel:", "\txor    %eax,%eax", ".L2304:", "\tvmovups (%rdi,%rax,1),%zmm0", "\tadd    $0x40,%rax",
        "\tjne    .L2304", "\tjmp    2250 <kernel.cold>", "\tret", "kernel.cold:", "\tcall   20b0 <__cxa_throw@plt>",
    ]  # fmt: skip
    assert throughput.innermost(tuple(map(LineData, lines))) == [(2, 5)]


INLINED = """
0000000000002300 <kernel>:
kernel():
/cache/k.cpp:9
    2300:	push   %rbp
_Z8_mm512_addDv16_fS_():
/usr/lib/gcc/avx512fintrin.h:11541
inlined by /torch/vec512_float.h:792 (_ZplRKSt)
inlined by /cache/k.cpp:12 (kernel)
inlined by /cache/k.cpp:9 (main)
    2304:	vaddps %zmm0,%zmm1,%zmm2
inlined by /torch/vec512_float.h:792 (_ZplRKSt)
inlined by /cache/k.cpp:12 (kernel)
    2308:	vaddps %zmm0,%zmm1,%zmm2
/torch/cpp_prefix.h:3 (discriminator 2)
    230c:	ret
"""


def test_a_disassembled_line_knows_the_line_of_the_kernel_that_called_what_was_inlined() -> None:
    found = [at for text, at in labeled(INLINED.splitlines(), "/cache/k.cpp") if text.startswith("\t")]
    assert found == [9, 12, 12, 0]


STOCK_LOOPS = """for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(8L); x0+=static_cast<int64_t>(1L))
{
    for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(32L); x1+=static_cast<int64_t>(16L))
    {
        auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x1), static_cast<int64_t>(16));
    }
    for(int64_t x1=static_cast<int64_t>(32L); x1<static_cast<int64_t>(33L); x1+=static_cast<int64_t>(1L))
    {
        auto tmp0 = in_ptr0[static_cast<int64_t>(x1)];
    }
}"""


def test_stocks_innermost_loops_say_whether_inductor_wrote_them_with_vectors() -> None:
    lines = (LineData(text, f"k0:{n}", ()) for n, text in enumerate(STOCK_LOOPS.splitlines(), 1))
    expected = {"k0:3": "vectorized by Inductor: 16 elements at a time", "k0:7": SCALAR}
    assert loops(TextData(tuple(lines), "cpp")) == (expected, ("k0:3",))


TTIR = """#loc = loc("{file}":3:0)
module {{
  tt.func public @triton_poi() {{
    %0 = arith.constant 1 : i32 loc(#loc2)
    tt.return loc(#loc)
  }} loc(#loc)
}} loc(#loc)
#loc2 = loc("{file}":5:8)
"""
PTX = """.visible .entry triton_poi()
{{
	.loc	1 5 8
	ld.global.b32 %r1, [%rd1];
	.file	1 "{folder}" "{name}"
}}
"""


def test_what_triton_made_of_stocks_kernel_is_read_from_what_runs_it(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    source = "import triton\n@triton.jit\ndef triton_poi():\n    x = 1"
    file.write_text(f"\n{source}\n")
    text = TextData(tuple(LineData(line, f"k0:{n}") for n, line in enumerate(source.splitlines(), 1)), "python")
    kernel = KernelData("k0", "triton_poi", "triton", text, (), 8, 1)
    asm = {"ttir": TTIR.format(file=file), "ptx": PTX.format(folder=tmp_path, name=file.name), "cubin": b"\x7fELF"}
    other, config = SimpleNamespace(num_warps=8), SimpleNamespace(num_warps=4)
    results = [
        SimpleNamespace(config=each, kernel=SimpleNamespace(asm=asm if each is config else {}))
        for each in (other, config)
    ]
    launcher = SimpleNamespace(config=config, n_regs=80, n_spills=3, shared=2048)
    device = SimpleNamespace(warp_size=32, cc=90)
    made = of_triton(kernel, SimpleNamespace(launchers=[launcher], compile_results=results, device_props=device))
    assert made.facts == facts(Used(80, 12), ThreadBlock(4, 32, 2048), 90)
    assert set(made.lowered) == {"ttir", "ptx"}
    linked = {
        kind: [each.origins for each in of.lines if "constant" in each.text or "ld.global" in each.text]
        for kind, of in made.lowered.items()
    }
    assert linked == {"ttir": [("k0:4",)], "ptx": [("k0:4",)]}
    (tmp_path / "triton_poi.ptx").write_text(asm["ptx"])
    static = SimpleNamespace(cubin_path=str(tmp_path / "triton_poi.cubin"))
    alone = SimpleNamespace(launchers=[], compile_results=[SimpleNamespace(config=config, kernel=static)])
    assert set(of_triton(kernel, alone).lowered) == {"ptx"} and not of_triton(kernel, alone).facts
    assert of_triton(kernel, None) == kernel
