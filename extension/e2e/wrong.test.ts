// Records of strangers that are damaged, or made to break the viewer: it says what is wrong, shows the rest, and stays
// quick. What of a record is of the wrong kind is tested one by one in test/read.test.ts.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser, Locator, Page } from "playwright-core";
import { type Bare, barePage } from "./bare";
import { launch, type Visit } from "./browser";
import { openEachPane } from "./panes";

const SOON_MS = 5000;
const text = readFileSync(join(import.meta.dirname, "../test/fixtures/sample.explore.json"), "utf8");

let browser: Browser;
let visit: Visit;
let page: Page;
let viewer: Locator;

before(async () => {
  browser = await launch();
  visit = await barePage(browser);
  page = visit.page;
  viewer = page.locator("#viewer");
});

after(() => browser?.close());

/** The record with every value that `wrong` gives another for; `path` is its place without indices,
 * "compiles.stages.id". */
function changed(wrong: (path: string, value: unknown) => unknown): unknown {
  const walk = (value: unknown, path: string): unknown => {
    const other = wrong(path, value);
    if (other !== undefined) return other;
    if (Array.isArray(value)) return value.map(each => walk(each, path));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [name, walk(each, path ? `${path}.${name}` : name)]));
  };
  return walk(JSON.parse(text), "");
}

/** Puts the record there, opens every pane and selects something in each; fails where that takes long. */
async function shown(record: unknown, most = SOON_MS): Promise<void> {
  const spent = await visit.spent(async () => {
    await page.evaluate(([given]) => (window as unknown as Bare).mount(given), [record] as const);
    await openEachPane(viewer, look);
  });
  assert.ok(spent < most, `it took ${spent} ms`);
  assert.deepEqual(visit.errors, []);
}

/** Selects something in the pane that was opened, which says of nothing that it failed. */
async function look(title: string): Promise<void> {
  const said = await viewer.locator("[role=tabpanel]:visible [role=alert]").allInnerTexts();
  assert.deepEqual(said.filter(Boolean), [], title);
  await page.evaluate(() => {
    for (const each of [...document.querySelectorAll<HTMLElement>("[role=tabpanel] :is(.ex-linked, .cm-line)")].slice(0,
        20)) {
      each.dispatchEvent(new MouseEvent("pointerover", { bubbles: true }));
      each.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    }
  });
}

test("something of the wrong kind in every list, and in every field that may be missing", async () => {
  const spoilt = JSON.parse(text) as { compiles: { [field: string]: unknown }[] };
  const compile = spoilt.compiles[0] ?? {};
  const wrong: readonly unknown[] = [null, 3, "text", true, [], {}, [[null]]];
  for (const [name, value] of Object.entries(compile)) {
    if (Array.isArray(value)) compile[name] = [...wrong, ...(value as unknown[])];
    else if (!["id", "title", "started", "seconds"].includes(name)) compile[name] = 3;
  }
  await shown(spoilt);
  const notice = viewer.locator(".ex-notice", { hasText: "Parts of this record are damaged" });
  assert.match(await notice.innerText(),
    /compiles\[0\]\.stages\[0\] is null, and should be an object; .* and \d+ more/);
  await viewer.locator(".ex-phase", { hasText: "Graph" }).first().waitFor();
});

test("ids that lead in circles, to themselves, and to nothing", async () => {
  const circles: { readonly [path: string]: unknown } = {
    "compiles.stages.same_as": "f0/1", "compiles.continues": "f0", "compiles.activations.caller": 1,
    "compiles.inputs.same_as": "L['x']",
    "compiles.recompiles.of": "f0", "compiles.halves.buffers.of": "buf0",
    "compiles.guards.cause": "no such instruction",
  };
  await shown(changed(path => circles[path]));
  const ids = [...new Set([...text.matchAll(/"id": "([^"]+)"/g)].map(([, id]) => id))];
  await shown(
    changed(
      path => (path.endsWith(".inputs") && !path.endsWith("compiles.inputs")
        ? ids : path.endsWith(".origins") ? ids : undefined)));
  await shown(
    changed(
      (path, value) => (typeof value === "string" && /\.(id|name|of|half|kernel|node|instruction|source)$/.test(path)
        ? "same" : undefined)));
});

for (const [name, number] of [["negative", -7], ["huge", 2 ** 53], ["hugely negative", -(2 ** 53)]] as const) {
  test(`every index, size and time ${name}`, () =>
    shown(
      changed(
        (path, value) => (typeof value === "number" && !["version", "compiles.stages.depth"].includes(path)
          ? number : undefined))));
}

for (const [name, word] of [["empty", ""], ["the name of an object's own machinery", "constructor"],
    ["long", "a|b\n".repeat(1000)]] as const) {
  test(`every text ${name}`, () => shown(changed((_, value) => (typeof value === "string" ? word : undefined))));
}

test("thousands of everything: what is drawn and listed stays few, the chosen ones among them", async () => {
  const many = <T extends object>(of: T, make: (n: number) => Partial<T>) =>
    Array.from({ length: 3000 }, (_, n) => ({ ...of, ...make(n) }));
  const record = JSON.parse(text);
  const [compile] = record.compiles;
  const [half] = compile.halves;
  const { stages, codes, breaks, halves: _, ...bare } = compile;
  half.kernels = many(half.kernels[0], n => ({ id: `k${n}`, function: `k${n}_add` }));
  half.operations = many(half.operations[0], n => ({ id: `o${n}` }));
  half.schedule.items = many(half.schedule.items[0], n => ({ id: `k${n}`, operations: [`o${n}`] }));
  compile.codes = many(codes[0], n => ({ name: `f${n}` }));
  compile.stages = many({ ...stages[0], name: "pass" }, n => ({ id: `f0/${n}`, started: n, seconds: 1 }));
  const others = Array.from({ length: 900 }, (_, n) => ({ ...bare, id: `f${n + 1}`, title: `f${n + 1}`,
    breaks: Array.from({ length: 9 },
      (_, m) => ({ ...breaks[0], span: { file: "m.py", line: 9 * n + m, end_line: 0 } })) }));
  await shown({ ...record, compiles: [compile, ...others] }, 4 * SOON_MS);
  assert.ok(await page.evaluate(() => document.querySelectorAll("*").length) < 60_000);
  assert.match(await viewer.locator("[data-panel=breaks]").innerText(), /Listed are the first 200, and those of f0/);
  const chosen = viewer.locator(".ex-nav .ex-stage[aria-selected=true]");
  const below = viewer.locator(".ex-nav .ex-stage", { hasText: "after these" });
  for (let n = 0; n < 2; n++) {
    await below.click();
    assert.equal(await chosen.count(), 1);
  }
  await viewer.locator(".ex-nav .ex-stage", { hasText: /\d+ before these/ }).waitFor();
  const [named] = await viewer.locator("[role=treeitem][aria-selected=true]").allInnerTexts();
  await viewer.locator("[role=treeitem]", { hasText: /(before|after) these/ }).first().click();
  await viewer.locator("[role=treeitem][aria-selected=true]", { hasNotText: named }).waitFor();
});

test("what cannot be shown says why in its place, and a record that can takes that place", async () => {
  const cannot = viewer.locator(".ex-empty", { hasText: "This record cannot be shown" });
  for (const [record, why] of [
    [changed(path => (path === "title" ? 5 : undefined)), /title is 5, and should be text/],
    [changed(path => (path === "sources" ? null : undefined)), /sources is null, and should be a list/],
    [[], /not a record/],
  ] as const) {
    await page.evaluate(([given]) => (window as unknown as Bare).update(given), [record] as const);
    assert.match(await cannot.innerText(), why);
  }
  await page.evaluate(([given]) => (window as unknown as Bare).update(JSON.parse(given)), [text] as const);
  await viewer.locator(".ex-title", { hasText: "scaled" }).waitFor();
  assert.equal(await cannot.count(), 0);
  assert.deepEqual(visit.errors, []);
});
