// The graphs pane under the pointer and the keyboard, and with a graph of ten thousand nodes.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import type { Browser, Page } from "playwright-core";
import { type CompileData, type GraphData, VERSION } from "../src/viewer/record";
import { compile, graph, network, node, printed, stage } from "../test/graphs_records";
import { styles } from "../styles.mjs";
import { launch, Visit } from "./browser";

const ENTRY = `
import { mount } from "./src/viewer/mount";
import { Signal } from "./src/viewer/signal";
globalThis.show = (record, kept) => {
  const memory = new Map(Object.entries(kept));
  const host = {
    recall: name => memory.get(name), remember: (name, value) => memory.set(name, value),
    dark: new Signal(false), download: (name, mime, contents) => (globalThis.saved = { name, contents }), live: new Signal(null),
  };
  mount(document.getElementById("viewer"), record, host);
};`;

const KEPT =
  { layout: { version: 1, columns: [{ share: 1, cells: [{ share: 1, tabs: ["graphs"], active: "graphs" }] }] } };

let browser: Browser;
let script = "";

before(async () => {
  browser = await launch();
  const root = join(import.meta.dirname, "..");
  const common = { bundle: true, write: false as const, target: "es2022", logLevel: "warning" as const,
    absWorkingDir: root, plugins: [styles] };
  const made = await build({ ...common, stdin: { contents: ENTRY, resolveDir: root }, format: "iife" });
  script = made.outputFiles[0]!.text;
});

after(async () => {
  await browser?.close();
});

async function choose(page: Page, item: string): Promise<void> {
  await page.getByRole("button", { name: "View", exact: true }).click();
  await page.getByRole("menuitemcheckbox", { name: item }).click();
}

async function shown(of: CompileData, kept: object = {}): Promise<Visit> {
  const on = await Visit.start(browser);
  await on.page.setContent(
    `<!doctype html><meta charset="utf-8"><style>html, body { margin: 0; height: 100%; }</style><div id="viewer" `
      + `class="ex-fill"></div>`);
  await on.page.addScriptTag({ content: script });
  const record = {
    version: VERSION, title: "made up", engine: "explorer", target: "cpu", created: "", environment: {}, config: {},
    sources: [], compiles: [of], coverage: {},
  };
  const opened = await on.spent(async () => {
    await on.page.evaluate(
      ([given, settings]) => (globalThis as unknown as { show(...all: unknown[]): void }).show(given, settings),
      [record, { ...KEPT, ...kept }] as const);
    await on.page.locator(".ex-g-node, .ex-g-group").first().waitFor();
  });
  console.log(`${of.stages?.[0]?.graph?.nodes.length} nodes opened in ${opened.toFixed(0)} ms`);
  assert.ok(opened < 5_000);
  return on;
}

function titles(page: Page, look: string): Promise<string[]> {
  return page.locator(`${look} > .ex-g-title, ${look} > .ex-g-frame-name`).allTextContents();
}

/** The processor's milliseconds of a frame, on average, while something is done. */
async function perFrame(on: Visit, act: () => Promise<void>): Promise<number> {
  await on.page.evaluate(() => {
    const kept = window as unknown as { frames: number; on: boolean };
    [kept.frames, kept.on] = [0, true];
    const tick = () => {
      kept.frames += 1;
      if (kept.on) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  const spent = await on.spent(act);
  const frames = await on.page.evaluate(() => {
    const kept = window as unknown as { frames: number; on: boolean };
    kept.on = false;
    return kept.frames;
  });
  return spent / frames;
}

test("ten thousand nodes open, move smoothly, and search opens the way to one of them", async () => {
  const on = await shown(compile([stage("f0/0", "trace", network(100, 99))]));
  const { page } = on;
  const box = (await page.locator(".ex-g-view").boundingBox())!;
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const pan = await perFrame(on, async () => {
    await page.mouse.move(x, y);
    await page.mouse.down();
    for (let n = 0; n < 60; n++) await page.mouse.move(x - n * 4, y - n * 5);
    for (let n = 60; n > 0; n--) await page.mouse.move(x - n * 4, y - n * 5);
    await page.mouse.up();
  });
  const zoom = await perFrame(on, async () => {
    await page.keyboard.down("Control");
    for (let n = 0; n < 20; n++) await page.mouse.wheel(0, 100);
    for (let n = 0; n < 20; n++) await page.mouse.wheel(0, -100);
    await page.keyboard.up("Control");
  });
  console.log(`a frame takes ${pan.toFixed(0)} ms moving, ${zoom.toFixed(0)} ms zooming`);
  assert.ok(pan < 25 && zoom < 25, `${pan} ms, ${zoom} ms`);
  await page.locator(".ex-search").fill("op_77_33");
  await page.locator(".ex-hit").first().click();
  await page.locator(".ex-g-node.ex-current").waitFor();
  assert.match((await page.locator(".ex-current").getAttribute("aria-label"))!, /^op_77_33: /);
  const seen = (await page.locator(".ex-g-node.ex-current").boundingBox())!;
  assert.ok(seen.x > box.x && seen.y > box.y && seen.x + seen.width < box.x + box.width
    && seen.y + seen.height < box.y + box.height);
  assert.ok((await titles(page, ".ex-g-frame")).includes("h.77"));
  assert.deepEqual(on.errors, []);
  await on.end();
});

const small = graph([
  { ...node("aten.x", []), op: "placeholder", target: "x" }, node("aten.a", ["aten.x"], { module: "net.one" }),
  node("aten.b", ["aten.a"], { module: "net.one" }),
  node("aten.c", ["aten.b"], { module: "net.two" }), node("aten.d", ["aten.c"], { module: "net.two" }),
  node("aten.e", ["aten.d"]),
]);

function passed(): CompileData {
  const after: GraphData = {
    ...small, nodes: small.nodes.filter(each => each.id !== "aten.d")
      .map(each => (each.id === "aten.e" ? { ...each, inputs: ["aten.c"] } : each)),
  };
  return compile([stage("f0/0", "trace", small), stage("f0/1", "a pass", after, { body: printed(after) })]);
}

test("groups open and close where they are, by the pointer and by the keyboard", async () => {
  const on = await shown(passed());
  const { page } = on;
  const frame = page.locator(".ex-g-frame", { hasText: "two" });
  const title = async () => (await frame.locator(".ex-g-frame-name").boundingBox())!;
  const before = await title();
  await page.mouse.dblclick(before.x + before.width / 2, before.y + before.height / 2);
  const closed = page.locator(".ex-g-group", { hasText: "two" });
  await closed.waitFor();
  assert.equal(await frame.count(), 0);
  const name = (await closed.locator(".ex-g-title").boundingBox())!;
  assert.ok(Math.abs(name.x - before.x) < 30 && Math.abs(name.y - before.y) < 30,
    `it went from ${JSON.stringify(before)} to ${JSON.stringify(name)}`);
  await page.mouse.click(name.x + name.width / 2, name.y + name.height / 2);
  await page.locator(".ex-g-view").focus();
  await page.keyboard.press("Enter");
  await frame.waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Backspace");
  await closed.waitFor();
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("the keyboard walks along edges, tells where it is, and pins", async () => {
  const on = await shown(passed());
  const { page } = on;
  await page.locator(".ex-g-view").focus();
  const told: string[] = [];
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"]) {
    await page.keyboard.press(key);
    told.push((await page.locator(".ex-g-view [aria-live]").textContent())!.split(":")[0]!);
  }
  assert.deepEqual(told, ["x", "a", "b", "a"]);
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-activedescendant"));
  await page.keyboard.press(" ");
  assert.match((await page.locator(".ex-trail").textContent())!, /aten\.a/);
  assert.match((await page.locator(".ex-g-card:visible").textContent())!, /aten\.add\.Tensor/);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".ex-g-card:visible").count(), 0);
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("what a pass did is marked in the drawing, the table and the text, and nothing else moves", async () => {
  const on = await shown(passed());
  const { page } = on;
  const place = async (name: string) => page.locator(`.ex-g-node[aria-label^="${name}: "]`).getAttribute("transform");
  const before = await Promise.all(["a", "b", "c", "e"].map(place));
  await page.getByRole("button", { name: "The graph after" }).click();
  await page.locator(".ex-g-node.ex-g-removed").waitFor();
  assert.deepEqual(await Promise.all(["a", "b", "c", "e"].map(place)), before);
  assert.match((await page.locator(".ex-g-node.ex-g-removed").getAttribute("aria-label"))!,
    /^d: .*removed by this pass/);
  assert.match((await page.locator(".ex-g-node.ex-g-changed").getAttribute("aria-label"))!,
    /^e: .*changed by this pass/);
  assert.match((await page.locator(".ex-g-said").textContent())!, /1 removed, 1 changed/);
  await page.getByRole("button", { name: "Table", exact: true }).click();
  assert.match((await page.locator("tr.ex-g-removed").textContent())!, /− removedd/);
  await page.getByRole("button", { name: "Text", exact: true }).click();
  assert.match((await page.locator(".ex-row-removed").textContent())!, /d: f32\[4, 8\] = aten\.add\.Tensor/);
  await choose(page, "Mark what the pass changed");
  assert.equal(await page.locator(".ex-row-removed").count(), 0);
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("the drawing is saved whole, as it looks", async () => {
  const on = await shown(passed());
  const { page } = on;
  await page.getByRole("button", { name: "Save as a file" }).click();
  await page.getByRole("menuitem", { name: /graph as SVG/ }).click();
  await page.waitForFunction(() => "saved" in window);
  const saved = await page.evaluate(() => {
    const { contents } = (window as unknown as { saved: { contents: string } }).saved;
    const drawn = new DOMParser().parseFromString(contents, "image/svg+xml");
    return { texts: [...drawn.querySelectorAll("text")].map(each => each.textContent),
      styled: contents.includes("font-weight"), scripts: drawn.querySelectorAll("script").length };
  });
  for (const name of ["one", "two", "x", "add"])
    assert.ok(saved.texts.includes(name), `${name} is missing in ${saved.texts}`);
  assert.ok(saved.styled && saved.scripts === 0);
  assert.deepEqual(on.errors, []);
  await on.end();
});
