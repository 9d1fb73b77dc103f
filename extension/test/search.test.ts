import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { mentions } from "../src/viewer/catalogue";
import type { RecordData } from "../src/viewer/record";
import { entriesOf, Search } from "../src/viewer/search";

const sample =
  JSON.parse(readFileSync(join(import.meta.dirname, "fixtures", "sample.explore.json"), "utf8")) as RecordData;

test("every kind of thing in a record can be found, in the pane that shows it", () => {
  const found = new Map([...entriesOf(sample)].map(each => [each.group, each.pane]));
  assert.deepEqual(Object.fromEntries(found), {
    Source: "source", Instructions: "bytecode", Guards: "guards", Breaks: "breaks", Nodes: "graphs",
    Operations: "schedule",
    Buffers: "memory", Kernels: "code", "Generated lines": "code", Reasons: "",
  });
});

test("all words must be there, in any case and order", () => {
  const search = Search(sample);
  const labels = (query: string) => search.find(query).flatMap(group => group.entries.map(each => each.label));
  assert.ok(labels("RELU torch").includes("return torch.relu(y).sum(-1)"));
  assert.deepEqual(labels("relu nowhere"), []);
  assert.deepEqual(labels("   "), []);
});

test("an element that several stages print is found once", () => {
  const nodes = Search(sample).find("mul", 100).find(group => group.name === "Nodes");
  const keys = (nodes?.entries ?? []).map(each => each.what);
  assert.ok(keys.length > 0);
  assert.equal(new Set(keys).size, keys.length);
});

test("what begins with the query comes first, and what is not listed is counted", () => {
  const text = ["x = add", "add = 1", "padding", "add two"].join("\n");
  const record = { ...sample, compiles: [], reasons: [], sources: [{ file: "a/m.py", first_line: 5, text }] };
  const [group] = Search(record).find("add", 3);
  assert.deepEqual(group?.entries.map(each => each.label), ["add = 1", "add two", "x = add"]);
  assert.equal(group?.found, 4);
  assert.deepEqual(group?.entries.map(each => each.what)[0], "|a/m.py:6");
});

test("a reason is named where the record names it", () => {
  const code = sample.compiles[0]?.breaks?.[0]?.why.code ?? "";
  const named = mentions(sample, code);
  assert.ok(
    named.some(each => each.pane === "breaks" && each.what === `f0|${sample.compiles[0]?.breaks?.[0]?.instruction}`));
  assert.deepEqual(mentions(sample, "no.such"), []);
  const codes = new Set((sample.reasons ?? []).map(each => each.code));
  for (const each of codes) for (const mention of mentions(sample, each)) assert.ok(mention.text.length > 0);
});
