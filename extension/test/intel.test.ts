import assert from "node:assert/strict";
import { test } from "node:test";
import { intel, mnemonic } from "../src/viewer/panes/code/intel";

const KNOWN = {
  addl: ["adds", "add DWORD PTR"], movzbl: ["widens", "movzx BYTE PTR"], movq: ["copies", "mov QWORD PTR"],
  cltq: ["widens", "cdqe"], xaddl: ["", "xadd DWORD PTR"],
  leaq: ["", "lea"], movslq: ["", "movsxd DWORD PTR"], salq: ["", "sal QWORD PTR"],
} as const;

test("a line in Intel's syntax is as Python writes it (tests/test_machine.py)", () => {
  const lines: readonly (readonly [string, string])[] = [
    ["\taddl\t$1, 8(%rax,%rbx,4)", "\tadd\tDWORD PTR [rax+rbx*4+8], 1"],
    ["\tmovzbl\t-4(%rsp), %eax", "\tmovzx\teax, BYTE PTR [rsp-4]"],
    ["\tcall\t*memcpy@GOTPCREL(%rip)", "\tcall\tQWORD PTR [rip+memcpy@GOTPCREL]"],
    ["\tvmovaps\t%zmm0, (%rax){%k1}", "\tvmovaps\t[rax]{k1}, zmm0"],
    ["\tvaddps\t.LC0(%rip){1to16}, %zmm1, %zmm2{%k1}{z}", "\tvaddps\tzmm2{k1}{z}, zmm1, [rip+.LC0]{1to16}"],
    ["\tcltq", "\tcdqe"], [".L12:", ".L12:"], ["\tlock xaddl\t%eax, (%rdx)", "\tlock xadd\tDWORD PTR [rdx], eax"],
    ["    movq    %xmm0, 8(%rax)", "    movq    QWORD PTR [rax+8], xmm0"],
    ["    movq    $0, (%rax)", "    mov    QWORD PTR [rax], 0"],
    ["    leaq    .LC0(%rip), %rax", "    lea    rax, [rip+.LC0]"],
    ["    vpternlogd    $0xFF, %zmm1, %zmm1, %zmm1", "    vpternlogd    zmm1, zmm1, zmm1, 0xFF"],
    ["    jmp    *%rax", "    jmp    rax"], ["    leaq    (%rax,%rbx), %rcx", "    lea    rcx, [rax+rbx]"],
    ["    ret", "    ret"],
  ];
  for (const [att, other] of lines) assert.equal(intel(att, KNOWN), other);
});

test("the instruction of a line, and of none that has no instruction", () => {
  assert.deepEqual(["    vaddps    %ymm0", ".L1:", "k0:", "    rep stosq", ""].map(mnemonic),
    ["vaddps", "", "", "stosq", ""]);
});
