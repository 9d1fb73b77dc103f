// Capture methods compared, and ranks: what is said of them, what is shown first, and which lines belong together.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Links } from "../src/viewer/links";
import { type MethodData, MethodsData, type VerdictData } from "../src/viewer/methods/data";
import { programLines, sourceRows, textRows } from "../src/viewer/methods/column";
import { firstShown, outcome, summary, verdictText } from "../src/viewer/methods/verdicts";
import { Palette } from "../src/viewer/palette";
import type { RankCompileData, RanksData } from "../src/viewer/ranks/data";
import { absentText, missingText, divergenceText, resultText } from "../src/viewer/ranks/shell";
import { fitting, readRecord } from "../src/viewer/read";

const FILE = "/tmp/gate.py";

function verdict(input: string, answer: VerdictData["answer"], more: Partial<VerdictData> = {}): VerdictData {
  return { input, answer, ...more };
}

function method(name: string, answers: readonly VerdictData["answer"][], more: Partial<MethodData> = {}): MethodData {
  const views =
    [{ title: "graph",
      text: { lines: [["graph:"], ["  cos = x.cos()", "", [`${FILE}:2`]],
        ["  both = cos + x", "", [`${FILE}:2`, `${FILE}:3`]]], language: "python" } }] as const;
  return { name, how: "", views, verdicts: answers.map((answer, n) => verdict(`input ${n}`, answer)), ...more };
}

const refused: MethodData = { name: "torch.export", how: "", error: "Unsupported: no\nmore", meaning: "It cannot." };
const data: MethodsData = {
  version: 2, title: "gate(x)", created: "", environment: {},
  inputs: [{ name: "input 0", change: "", arguments: "" }, { name: "input 1", change: "", arguments: "" }],
  sources: [{ file: FILE, first_line: 1, text: "def gate(x):\n    y = x.cos()\n    return y + x" }],
  methods: [method("eager", ["right", "right"]), refused, method("torch.jit.trace", ["right", "wrong"],
    { baked: ["values"], seconds: 8.26e-6, capture_seconds: 0.0207 }), method("ours", ["right", "right"])],
  operations: [{ id: "e0", name: "aten::cos", steps: [], dtype: "", layout: "", device: "", result: "", seconds: 1,
    where: `${FILE}:4` }],
};

test("what is shown first is a method that is wrong beside one that is right", () => {
  assert.deepEqual(firstShown(data), ["torch.jit.trace", "ours"]);
  assert.deepEqual(firstShown({ ...data, methods: [method("eager", ["right"]), method("one", ["right"])] }), ["one"]);
  assert.deepEqual(firstShown({ ...data, methods: [refused] }), ["torch.export"]);
  assert.deepEqual(firstShown({ ...data, methods: [] }), []);
});

test("verdicts in words", () => {
  assert.equal(verdictText(verdict("", "right", { recompiled: true })), "✓ right, recompiled");
  assert.equal(verdictText(verdict("", "wrong")), "✗ wrong");
  assert.equal(outcome(refused), "– refused: Unsupported: no");
  assert.equal(outcome({ name: "", how: "", missing: "not installed: onnx" }), "not installed: onnx");
  assert.equal(summary(data.methods[2] as MethodData),
    "1 wrong, 1 right · baked in: values · 8.26 us a call · captured in 20.7 ms");
  assert.equal(summary(refused), "– refused");
});

test("lines of all methods have the color of the line of the program that they were made for", () => {
  const lines = programLines(data);
  assert.deepEqual(lines, [`|${FILE}:2`, `|${FILE}:3`, `|${FILE}:4`]);
  const palette = Palette(new Links({ compiles: [] }), lines);
  const source = sourceRows(data, palette);
  assert.deepEqual(source.map(row => row.number), [undefined, "1", "2", "3"]);
  const text = textRows(data.methods[0]?.views?.[0]?.text ?? { lines: [] }, palette);
  assert.deepEqual(text.map(row => row.color), [null, source[2]?.color, "many"]);
  assert.deepEqual(text[1]?.stands, source[2]?.stands);
  assert.notEqual(source[2]?.color, source[3]?.color);
  assert.equal(source[1]?.color, null);
});

test("data of a stranger is checked, and what does not fit is left out and told of", () => {
  const read = (value: unknown) => fitting<MethodsData>(value, "comparison", "methods", 2, MethodsData);
  assert.deepEqual(read(data), [data, ""]);
  const [rest, damage] =
    read({ ...data, methods: [{ ...data.methods[0], verdicts: [{ input: "input 0", answer: "<b>" }] }, 7] });
  assert.equal(rest.methods.length, 1);
  assert.deepEqual(rest.methods[0]?.verdicts, []);
  assert.match(damage, /methods\[0\]\.verdicts\[0\]\.answer.*right or wrong/);
  assert.throws(() => read({ ...data, version: 3 }), /newer torch-explorer \(comparison version 3/);
  assert.throws(() => read({ ...data, sources: 1 }), /damaged: sources/);
  assert.throws(() => read([]), /not a comparison/);
  assert.throws(() => readRecord(data), /not a record/);
});

test("ranks in words", () => {
  const compile: RankCompileData = { title: "step", ids: ["s0", null, "s0"], seconds: [1.5, null, 0.02],
    kinds: ["A", "", "B"], partings: [{ rank: 2, what: "inputs", line: 1, before: "a", after: "b" }] };
  assert.deepEqual([0, 1, 2].map(rank => resultText(compile, rank)), ["A 1.50 s", "–", "B 20.0 ms"]);
  const rank = (name: string) => ({ name, number: null, compiles: 1, recompiles: 0, graphs: 1, breaks: 0, guards: 0,
    seconds: 1 });
  assert.equal(divergenceText((compile.partings ?? [])[0]!, [rank("rank 0"), rank("rank 1"), rank("rank 3")]),
    "rank 3: inputs, line 1");
  assert.equal(absentText(compile, [rank("rank 0"), rank("rank 1"), rank("rank 3")]), "not compiled on rank 1");
  assert.equal(absentText({ ...compile, kinds: ["A"] }, [rank("rank 0")]), "");
  const ranks: RanksData = { version: 1, title: "", records: [], ranks: [], compiles: [] };
  assert.equal(missingText(ranks), "");
  assert.equal(missingText({ ...ranks, missing: [2] }), "Rank 2 left no log here.");
  assert.equal(missingText({ ...ranks, missing: [2, 4] }), "Ranks 2, 4 left no logs here.");
});
