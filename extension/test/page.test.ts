import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { Memory } from "../src/page/memory";
import { packed, unpacked, filled } from "../src/page/files";
import type { RecordData } from "../src/viewer/record";

const sample =
  JSON.parse(readFileSync(join(import.meta.dirname, "fixtures/sample.explore.json"), "utf8")) as RecordData;

/** A browser's storage, as far as Memory uses it: its keys are its own properties. */
function storage(): Storage {
  const kept: { [key: string]: string } = {};
  const methods = {
    getItem: (key: string) => kept[key] ?? null,
    setItem: (key: string, value: string) => void (kept[key] = value),
    removeItem: (key: string) => void delete kept[key],
  };
  return new Proxy(kept, { get: (_, name) => methods[name as keyof typeof methods] }) as unknown as Storage;
}

test("what was set up is remembered by place", () => {
  const kept = storage();
  Memory("a.ipynb", kept).remember("height", 500);
  Memory("a.ipynb", kept).remember("layout", ["x"]);
  assert.equal(Memory("a.ipynb", kept).recall("height"), 500);
  assert.deepEqual(Memory("a.ipynb", kept).recall("layout"), ["x"]);
  assert.equal(Memory("b.ipynb", kept).recall("height"), undefined);
});

test("places not used for longest are forgotten, and what is not ours is left alone", () => {
  const kept = storage();
  kept.setItem("jupyterlab", "theirs");
  for (let n = 0; n < 250; n++) {
    const key = `torch-explorer:${n}.ipynb`;
    if (n < 249) kept.setItem(key, JSON.stringify({ used: n, values: { height: n } }));
    else Memory(`${n}.ipynb`, kept).remember("height", n);
  }
  const left = Object.keys(kept);
  assert.equal(left.length, 201);
  assert.ok(left.includes("jupyterlab") && left.includes("torch-explorer:249.ipynb")
    && left.includes("torch-explorer:248.ipynb"));
  assert.ok(!left.includes("torch-explorer:0.ipynb"));
});

test("storage that was tampered with, or is denied, is as if nothing was kept", () => {
  const kept = storage();
  for (const text of ["{", "null", "[]", '{"values":3}', '{"values":[1]}']) {
    kept.setItem("torch-explorer:a", text);
    assert.equal(Memory("a", kept).recall("height"), undefined);
  }
  const denied = Memory("a", null);
  denied.remember("height", 1);
  assert.equal(denied.recall("height"), undefined);
});

test("a packed record is the record", async () => {
  const text = await packed(sample);
  assert.deepEqual(JSON.parse(gunzipSync(Buffer.from(text, "base64")).toString()), sample);
  assert.deepEqual(await unpacked(text), sample);
  assert.deepEqual(await unpacked(gzipSync(JSON.stringify(sample)).toString("base64").replace(/(.{76})/g, "$1\n")),
    sample);
});

test("what cannot be unpacked is refused with what to do", async () => {
  for (const damaged of ["%%%", Buffer.from("not json").toString("base64")]) {
    await assert.rejects(unpacked(damaged), /damaged.*Save the record again/s);
  }
});

test("a report holds the record and its title as text", async () => {
  const template = "<title><!--hole:title--></title><!--hole:fallback--><script id=record><!--hole:record--></script>";
  const hostile = { ...sample, title: "</title><script>alert(1)</script><!--hole:record-->" };
  const page = await filled(template, hostile);
  assert.match(page,
    /^<title>&lt;\/title&gt;&lt;script&gt;alert\(1\)&lt;\/script&gt;&lt;!--hole:record--&gt;<\/title>/);
  assert.deepEqual(await unpacked(/id=record>([A-Za-z0-9+/=]+)<\/script>$/.exec(page)?.[1] ?? ""), hostile);
});
