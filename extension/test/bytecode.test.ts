import assert from "node:assert/strict";
import { test } from "node:test";
import { Model } from "../src/viewer/model";
import { listing, meaning, spanned, stackEffect } from "../src/viewer/panes/bytecode/listing";
import { added, aligned, byLine, find, marks, stateAt, stepChanges, stepOf } from "../src/viewer/panes/bytecode/steps";
import { FileNames } from "../src/viewer/sources";
import type { CompileData, InstructionData, RecordData, StepData } from "../src/viewer/record";

// def f(x): y = g(x); return y, with g inlined: h(a) = a + 1
const compile: CompileData = {
  id: "f0", title: "f", started: 0, seconds: 0,
  activations: [{ function: "f" }, { function: "g", depth: 1, caller: 0 }, { function: "f" }],
  trace: [
    ["f0@0", 0, 0, 0, [], { x: 0 }],
    ["f0@1", 0, 0, 0, [1, 0]],
    ["f0/g.0@0", 1, 0, 0, [], { a: 0 }],
    ["f0/g.0@1", 1, 1, 0, [2], { a: -1 }],
    ["f0@2", 0, 1, 0, [2]],
    ["f0@3", 0, 1, 0, [], { y: 2 }],
    ["f0@0", 2, 0, 0, [], { x: 0 }],
  ],
  values: [["tensor x"], ["function g", 0], ["tensor add", 2]],
};

test("steps replay the stack and the locals of each function", () => {
  const at = (n: number) => {
    const state = stateAt(compile, n);
    return state && [state.stack.map(([text]) => text),
      Object.fromEntries([...state.locals].map(([name, [text]]) => [name, text])), state.calls, state.freshStack];
  };
  assert.deepEqual(at(1), [["function g", "tensor x"], { x: "tensor x" }, ["f"], 2]);
  assert.deepEqual(at(2), [[], { a: "tensor x" }, ["f", "g"], 0]);
  assert.deepEqual(at(3), [["tensor add"], {}, ["f", "g"], 1]);
  assert.deepEqual(at(4), [["tensor add"], { x: "tensor x" }, ["f"], 1]);
  assert.deepEqual(at(5), [[], { x: "tensor x", y: "tensor add" }, ["f"], 0]);
  assert.equal(at(7), undefined);
  assert.equal(at(-1), undefined);
});

test("a second root is a second attempt", () => {
  assert.deepEqual([0, 3, 6].map(n => stateAt(compile, n)?.givenUp), [true, true, false]);
  assert.deepEqual(stateAt(compile, 5)?.freshLocals, new Set(["y"]));
});

test("the step of an instruction: the next one, or the first", () => {
  const steps = compile.trace ?? [];
  assert.equal(stepOf(steps, "f0@0", 0), 0);
  assert.equal(stepOf(steps, "f0@0", 1), 6);
  assert.equal(stepOf(steps, "f0@2", 5), 4);
  assert.equal(stepOf(steps, "none", 0), -1);
});

test("queries find steps by what they hold, and by what they make", () => {
  const made: CompileData = {
    ...compile, made: { "fx.add": 3 },
    guards: [{ id: "g0", source: "L['x']", property: "type", relation: "is", value: "",
      expression: "type(L['x']) is Tensor", why: "", step: 1 }],
    breaks: [{ why: { code: "c", title: "call of print" }, instruction: "f0@3", span: null, stack: [], hints: [],
      step: 5 }],
    stages: [{ id: "0", name: "capture", started: 0, seconds: 0, depth: 0, graph: { name: "f0", outputs: [], nodes: [
      { id: "fx.add", name: "add", op: "call_function", target: "operator.add", type: "f32[3]", inputs: [],
        origins: [] }] } }],
  };
  const codes = new Map(
    [["f0@0", instruction("f0@0", "LOAD_FAST", "x", 11)], ["f0/g.0@0", instruction("f0/g.0@0", "LOAD_FAST", "a", 2)]]);
  const hits = (query: string) => find(made, codes, FileNames([{ file: "m.py" }]), query);
  assert.deepEqual(added(made).map(([step, kind]) => [step, kind]),
    [[1, "guard"], [3, "node"], [5, "break"], [6, "restart"]]);
  assert.deepEqual([hits("guard:"), hits("node:ADD"), hits("break:print"), hits("restart:")], [[1], [3], [5], [6]]);
  assert.deepEqual([hits("depth>0"), hits("depth:1 top:tensor"), hits("attempt:2"), hits("step<2")],
    [[2, 3], [3], [6], [0, 1]]);
  assert.deepEqual([hits("line:11"), hits("line:1"), hits("LOAD_FAST"), hits("function=g")],
    [[0, 6], [], [0, 2, 6], [2, 3]]);
  assert.deepEqual([hits("at=m.py:11"), hits("at=m.py:2|m.py:11"), hits("op:|")], [[0, 6], [0, 2, 6], []]);
  assert.deepEqual(marks(made, added(made)),
    { inlined: [2, 3], node: [3], guard: [1], effect: [], symbol: [], continuation: [], break: [5], restart: [6] });
  assert.deepEqual([hits('local:"y = "'), hits('top:": f32[3]"')], [[5], [3, 4]]);
  assert.match(String(hits("gurd:")), /No step has gurd; expected one of .*guard/);
  assert.match(String(hits("constructor:x")), /has constructor;/);
});

test("a capture beside another: what only one adds, and where its steps went", () => {
  const ops = ["LOAD_FAST", "LOAD_CONST", "BINARY_OP", "RETURN_VALUE"];
  const captured = (line: number, constant: string, among: readonly string[]): CompileData => ({
    id: "f0", title: "f", started: 0, seconds: 0, activations: [{ function: "f" }], values: [],
    codes: [{ name: "f", role: "original", file: "m.py", line,
      instructions: among.map((op, n) => instruction(`f0@${n}`, op, "", line + (op === "RETURN_VALUE" ? 2 : 1))) }],
    trace: among.map((_, n): StepData => [`f0@${n}`, 0, 0]),
    guards: [{ id: "g0", source: "k", property: "constant", relation: "==", value: constant,
      expression: `k == ${constant}`, why: "", step: 1 }],
  });
  const [before, after] = [captured(10, "2", ops), captured(40, "3", ["NOP", ...ops])];
  assert.deepEqual(stepChanges(before, after), ["− guard in f line 2: k == 2", "+ guard in f line 2: k == 3"]);
  assert.deepEqual(stepChanges(before, captured(40, "2", ops)), [],
    "the same function elsewhere in the file is the same");
  assert.deepEqual([0, 1, 2, 3].map(at => aligned(before, at, after)), [1, 2, 3, 4]);
  assert.equal(aligned(after, 0, before), -1, "what is new was nowhere before");
});

test("moves by line enter calls, pass them, and leave them, both ways", () => {
  const lines: { readonly [id: string]: number } =
    { "f0@0": 11, "f0@1": 12, "f0/g.0@0": 2, "f0/g.0@1": 3, "f0@2": 12, "f0@3": 13 };
  const codes = new Map(Object.entries(lines).map(([id, line]) => [id, instruction(id, "NOP", "", line)]));
  const move = (at: number, to: string, back = false) => byLine(compile, codes, at, to, back);
  assert.deepEqual([0, 1, 2, 3, 4].map(at => move(at, "line")), [1, 2, 3, 4, 5]);
  assert.deepEqual([0, 1, 2, 3, 4, 5].map(at => move(at, "over")), [1, 5, 3, 4, 5, 6]);
  assert.deepEqual([move(2, "out"), move(3, "out", true), move(0, "out"), move(0, "over", true)], [4, 1, -1, -1]);
  assert.deepEqual([move(5, "over", true), move(5, "line", true), move(3, "line", true)], [1, 4, 2],
    "to where the line begins");
});

const instruction = (id: string, op: string, arg: string, line: number, more: Partial<InstructionData> = {
  }): InstructionData =>
  ({ id, op, arg, span: { file: "m.py", line, end_line: line, column: 4, end_column: 9 }, origins: [`m.py:${line}`],
    ...more });

const record: RecordData = {
  version: 1, title: "f", engine: "explorer", target: "cpu", created: "", environment: {}, config: {}, coverage: {},
  compiles: [compile],
  sources: [{ file: "m.py", first_line: 10, text: "def f(x):\n    ä = x + 1\n" }],
};

test("a listing has each source line above its instructions, and says why some have none", () => {
  const code = { name: "f", role: "original", file: "m.py", line: 10, instructions: [
    instruction("f0@0", "LOAD_FAST", "x", 11),
    instruction("f0@1", "POP_JUMP_IF", "true", 11, { target: "f0@3", stack: [-1, -1] as const }),
    instruction("f0@2", "NOP", "", 11, { span: null, origins: ["synthetic:graph call"] }),
    instruction("f0@3", "NOP", "", 11, { span: null, origins: ["synthetic:graph call"] }),
  ] };
  const { rows, at } = listing(code, compile, new Model(record));
  assert.deepEqual(rows.map(row => row.text.trim().replace(/ +/g, " ")),
    ["m.py:11 ä = x + 1", "LOAD_FAST x", "POP_JUMP_IF true → 3", "NOP", "NOP"]);
  assert.deepEqual(rows.map(row => row.number), [undefined, "0", "1", "2", "3"]);
  assert.deepEqual(rows.map(row => row.note),
    [undefined, undefined, undefined, "no source line: graph call", undefined]);
  assert.deepEqual([at.get("f0@0"), at.get("f0@3")], [1, 4]);
  assert.deepEqual(rows[0]?.stands, ["|m.py:11"]);
});

test("what an instruction does", () => {
  assert.equal(stackEffect([1, 0]), "+1");
  assert.equal(stackEffect([1, -1]), "+1, −1 when it jumps");
  assert.equal(stackEffect(undefined), "±0");
  assert.match(meaning(instruction("f0@0", "LOAD_FAST", "x", 11, { stack: [1, 0] as const }),
    { LOAD_FAST: "push a local" }), /^LOAD_FAST x · push a local.* · stack \+1$/);
});

test("a span covers bytes of UTF-8, as Python counts columns", () => {
  assert.deepEqual(spanned(record, { file: "m.py", line: 11, end_line: 11, column: 9, end_column: 14 }),
    ["    ä = ", "x + 1", ""]);
  assert.deepEqual(spanned(record, { file: "m.py", line: 11, end_line: 11 }), ["    ä = x + 1", "", ""]);
  assert.deepEqual(spanned(record, { file: "gone.py", line: 11, end_line: 11, column: 1, end_column: 2 }),
    ["", "", ""]);
});
