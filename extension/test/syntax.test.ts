import assert from "node:assert/strict";
import { test } from "node:test";
import { quotes, tokens } from "../src/viewer/syntax";

const read = (line: string, language: string, inside = "") =>
  tokens(line, language, inside).map(({ from, to, kind }) => `${kind} ${line.slice(from, to)}`);

test("Python", () => {
  assert.deepEqual(read("def f(x): return 'a#b' + 1.5  # why", "python"), [
    "keyword def", "name f", "keyword return", "string 'a#b'", "number 1.5", "comment # why",
  ]);
  assert.deepEqual(read("x1 = y2[3]", "python"), ["number 3"]);
});

test("a string over several lines", () => {
  const lines = ['x = """a', "def no", 'end""" + "b"', "return # '''", "return"];
  assert.deepEqual(quotes(lines), ["", '"""', '"""', "", ""]);
  assert.deepEqual(read("def no", "python", '"""'), ["string def no"]);
  assert.deepEqual(read('end""" + "b"', "python", '"""'), ['string end"""', 'string "b"']);
  assert.deepEqual(read('"""one line""" + x', "python"), ['string """one line"""']);
});

test("C++", () => {
  assert.deepEqual(read("    #pragma omp simd reduction(+:acc9)", "cpp"), ["keyword     #pragma"]);
  assert.deepEqual(read("const float v = 1.0f; // x", "cpp"),
    ["keyword const", "keyword float", "number 1.0f", "comment // x"]);
});

test("machine code", () => {
  assert.deepEqual(read(".L7:", "gas"), ["label .L7:"]);
  assert.deepEqual(read("    movq    %rsp, %rbp", "gas"), ["keyword     movq", "name %rsp", "name %rbp"]);
  assert.deepEqual(read("\tmul.rn.f32 \t%r16, %r3, %r7;", "ptx").slice(0, 2), ["keyword \tmul.rn.f32", "name %r16"]);
  assert.deepEqual(read("    /*0110*/                   FMUL R11, R11, R15 ;", "sass"), [
    "comment /*0110*/", "keyword FMUL", "name R11", "name R11", "name R15",
  ]);
  assert.deepEqual(read("    %tmp3 = arith.cmpf olt, %tmp2, %cst : i1", "llvm"), [
    "name %tmp3", "keyword arith.cmpf", "name %tmp2", "name %cst", "keyword i1",
  ]);
});

test("an unknown language has no colors, and tokens never overlap", () => {
  assert.deepEqual(read("def f(): 1", "text"), []);
  for (const language of ["python", "cpp", "gas", "ptx", "sass", "llvm"]) {
    const line = `x = "unclosed 'quote' /* 12 # "" ; %r1 @f 0x1f`;
    let last = 0;
    for (const { from, to } of tokens(line, language)) {
      assert.ok(from >= last && to > from, `${language} ${from} ${to}`);
      last = to;
    }
  }
});
