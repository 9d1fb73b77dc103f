import assert from "node:assert/strict";
import { test } from "node:test";
import { Links } from "../src/viewer/links";
import { Model } from "../src/viewer/model";
import { firstUnit, spotOf, unitsOf } from "../src/viewer/panes/code/units";
import type { CompileData, KernelData, RecordData, TextData } from "../src/viewer/record";
import { rowsOf } from "../src/viewer/textview";
import { FileNames } from "../src/viewer/sources";
import { chainInWords, nameOf } from "../src/viewer/trail";

const text = (language: string, ...lines: [string, string, string[]][]): TextData => ({ language, lines });
const kernel = (id: string, seconds: number | null, source: TextData, lowered: { [kind: string]: TextData } = {
  }): KernelData =>
  ({ id, function: `${id}_fn`, language: source.language ?? "cpp", source, origins: ["buf0"], bytes: 0, flops: 0,
    seconds, lowered });

const asm = text("gas", ["pushq", "k1:asm:1", ["k1:1"]], ["ret", "", []]);
const compile: CompileData = {
  id: "f0", title: "f", started: 0, seconds: 0,
  stages: [{ id: "f0/0", name: "generate", started: 0, seconds: 0, depth: 0, half: "f0",
    body: text("cpp", ["int x;", "p:1", ["synthetic:prelude"]]) }],
  halves: [{
    name: "f0", target: "cpu", buffers: [{ name: "buf0", type: "f32", kind: "loop", origins: ["m.py:1", "m.py:2"] }],
    kernels: [
      kernel("k0", 1,
        text("cpp", ["{", "k0:1", ["m.py:1"]], ["}", "k0:2", ["synthetic:brace"]], ["}", "k0:3", ["synthetic:brace"]])),
      kernel("k1", 5, text("cpp", ["a", "k1:1", ["m.py:2"]]), { asm }),
    ],
    wrapper: text("python", ["def call():", "call:1", ["synthetic:wrapper"]]),
  }],
};
const record: RecordData = { version: 1, title: "t", engine: "explorer", target: "cpu", created: "", environment: {},
  config: {}, sources: [], coverage: {}, compiles: [compile] };
const links = new Links(record);
const units = unitsOf(compile);

test("the texts of a compile: kernels with all they became, the wrapper, and all in one", () => {
  assert.deepEqual(units.map(each => [each.id, [...each.texts.keys()]]), [
    ["f0/k0", ["cpp"]], ["f0/k1", ["cpp", "asm"]], ["f0/wrapper", ["python"]], ["f0/all", ["cpp"]],
  ]);
  assert.equal(firstUnit(units)?.id, "f0/k1");
  assert.equal(firstUnit(units.filter(each => !each.kernel))?.id, "f0/wrapper");
  assert.equal(firstUnit(units, "other"), undefined);
});

test("an element is found in the text at hand, or in the first that has it or its chain", () => {
  const at = (what: string, unit = 0, kind = "cpp") => {
    const spot = spotOf(units, "f0", links, what, { unit: units[unit] as (typeof units)[0], kind });
    return spot && `${spot.unit.id} ${spot.kind}`;
  };
  assert.equal(at("f0|k1:1"), "f0/k1 cpp");
  assert.equal(at("f0|k1:1", 1, "asm"), "f0/k1 cpp");
  assert.equal(at("|m.py:2", 1, "asm"), "f0/k1 asm");
  assert.equal(at("|m.py:2"), "f0/k1 cpp");
  assert.equal(at("f0|k0", 1), "f0/k0 cpp");
  assert.equal(at("f0|call:1"), "f0/wrapper python");
  assert.equal(at("f0|nothing"), undefined);
});

test("lines say once for a run why no source line caused them", () => {
  const rows = rowsOf(compile.halves?.[0]?.kernels?.[0]?.source, compile, new Model(record), true);
  assert.deepEqual(rows.map(row => [row.number, row.color, row.note]),
    [["1", 0, undefined], ["2", null, "no source line: brace"], ["3", null, undefined]]);
});

test("a line without a name is about what it names as its cause", () => {
  const rows = rowsOf(text("text", ["buf0: 4 bytes", "", ["buf0"]], ["plain", "", []]), compile, new Model(record));
  assert.deepEqual(rows.map(row => [row.stands, row.color]), [[["f0|buf0"], "many"], [[], null]]);
});


test("the chain in words", () => {
  const files = FileNames([{ file: "m.py" }]);
  assert.deepEqual(chainInWords(links, "f0|k1:asm:1", files), { causes: "← k1:1 ← m.py:2", effects: "" });
  assert.deepEqual(chainInWords(links, "f0|k0:2", files), { causes: "no source line: brace", effects: "" });
  assert.deepEqual(chainInWords(links, "|m.py:1", files),
    { causes: "", effects: "→ 2 kernels (shared), 1 generated line" });
  assert.equal(nameOf("f0|k1:1", files), "k1:1");
});
