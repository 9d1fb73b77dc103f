import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Links } from "../src/viewer/links";
import { colorClass, COLORS, Palette } from "../src/viewer/palette";
import type { CompileData, RecordData } from "../src/viewer/record";
import { Selection } from "../src/viewer/selection";
import { Signal } from "../src/viewer/signal";

const fixture = (name: string) =>
  JSON.parse(readFileSync(join(import.meta.dirname, "fixtures", name), "utf8")) as unknown;
const sample = fixture("sample.explore.json") as RecordData;

test("chains are those of Python", () => {
  const links = new Links(sample);
  const found = Object.fromEntries([...links.all].sort().map(of => [of, [...links.chain(of)].sort()]));
  assert.deepEqual(found, fixture("sample.chains.json"));
});

function compile(id: string, lines: [string, string[]][], inferred?: CompileData["inferred"]): CompileData {
  const body = { lines: lines.map(([name, origins]) => ["text", name, origins] as const) };
  return { id, title: id, started: 0, seconds: 0, inferred,
    stages: [{ id: `${id}/0`, name: "s", started: 0, seconds: 0, depth: 0, body }] };
}

function record(...compiles: CompileData[]): RecordData {
  return { ...sample, compiles };
}

test("compiles share source lines and nothing else", () => {
  const links = new Links(record(
    compile("f0", [["a", ["m.py:1"]], ["b", ["a", "m.py:2"]]]), compile("f1", [["a", ["m.py:2"]]]),
  ));
  assert.deepEqual([...links.chain("|m.py:2")].sort(), ["f0|b", "f1|a", "|m.py:2"]);
  assert.deepEqual([...links.chain("f0|a")].sort(), ["f0|a", "f0|b", "|m.py:1"]);
  assert.deepEqual(links.sourceLines("f0|b"), ["|m.py:1", "|m.py:2"]);
  assert.deepEqual([...links.chain("f0|unknown")], ["f0|unknown"]);
});

test("links that grew with the record are those of the whole record", () => {
  const stages = sample.compiles[0]?.stages ?? [];
  const states =
    [...stages.keys()].map(n => record({ ...sample.compiles[0] as CompileData, stages: stages.slice(0, n + 1) }));
  let grown: Links | undefined;
  for (const state of states) {
    grown = new Links(state, grown);
    const fresh = new Links(state);
    assert.deepEqual([...grown.all].sort(), [...fresh.all].sort());
    for (const of of fresh.all) assert.deepEqual([...grown.chain(of)].sort(), [...fresh.chain(of)].sort());
    assert.deepEqual(grown.programLines().sort(), fresh.programLines().sort());
  }
  const less = states[0] as RecordData;
  assert.deepEqual(new Links(less, grown).all, new Links(less).all);
});

test("what no source line caused says why, and what was inferred says how", () => {
  const links = new Links(
    record(compile("f0", [["a", ["synthetic:wrapper"]], ["b", ["a"]], ["c", ["m.py:1"]]], { "by name": ["c"] })));
  assert.deepEqual(links.synthetic("f0|b"), ["wrapper"]);
  assert.deepEqual(links.synthetic("f0|c"), []);
  assert.equal(links.inferred("f0|c"), "by name");
  assert.equal(links.inferred("f0|a"), undefined);
});

test("an element has the color of its one source line, from whatever pane it is asked", () => {
  const links = new Links(record(
    compile("f0", [["a", ["m.py:1"]], ["b", ["m.py:10"]], ["c", ["a"]], ["d", ["a", "b"]], ["e", ["synthetic:x"]],
      ["f", ["c", "a"]]]),
  ));
  const palette = Palette(links);
  assert.deepEqual(["a", "b", "c", "d", "e", "f"].map(id => palette.of(`f0|${id}`)), [0, 1, 0, "many", null, 0]);
  assert.equal(palette.of("|m.py:1"), 0);
  assert.equal(palette.ofAll(["f0|a", "f0|e"]), 0);
  assert.equal(palette.ofAll(["f0|a", "f0|b"]), "many");
  assert.deepEqual([0, "many" as const, null].map(colorClass), ["ex-line-0", "ex-line-many", ""]);
});

test("colors follow the order of the lines, not of their names as text", () => {
  const lines = Array.from({ length: COLORS + 2 }, (_, n) => [`a${n}`, [`m.py:${n + 1}`]] as [string, string[]]);
  const palette = Palette(new Links(record(compile("f0", lines.reverse()))));
  assert.deepEqual([1, 2, 9, 10, COLORS, COLORS + 1].map(line => palette.of(`|m.py:${line}`)),
    [0, 1, 8, 9, COLORS - 1, 0]);
});

test("lines that caused instructions alone have no color", () => {
  const codes = [{ name: "f", role: "original", file: "m.py", line: 1, instructions: [
    { id: "f0@0", op: "NOP", arg: "", origins: ["m.py:1"] },
    { id: "f0@1", op: "LOAD_FAST", arg: "x", origins: ["m.py:2"] },
  ] }];
  const palette = Palette(new Links(record({ ...compile("f0", [["fx.x", ["f0@1"]]]), codes })));
  const links =
    new Links(record({ ...compile("f0", [["fx.x", ["f0@1"]]]), codes }, compile("f1", [["fx.y", ["m.py:1"]]])));
  assert.deepEqual(["|m.py:1", "|m.py:2", "f0|f0@0"].map(each => links.programsOf(each)), [["f1"], ["f0"], []]);
  assert.deepEqual(["|m.py:1", "|m.py:2", "f0|f0@0", "f0|f0@1", "f0|fx.x"].map(each => palette.of(each)),
    [null, 0, null, 0, 0]);
});

test("what is hovered is lit up before what is pinned", () => {
  const links = new Signal(new Links(record(compile("f0", [["a", ["m.py:1"]], ["b", ["m.py:2"]]]))));
  const selection = Selection(links);
  assert.equal(selection.chain.value.size, 0);
  selection.pin("f0|a");
  assert.deepEqual([...selection.chain.value].sort(), ["f0|a", "|m.py:1"]);
  selection.hovered.value = "f0|b";
  assert.ok(selection.chain.value.has("|m.py:2"));
  selection.hovered.value = null;
  assert.ok(selection.chain.value.has("|m.py:1"));
  selection.pin("f0|a");
  assert.equal(selection.chain.value.size, 0);
});
