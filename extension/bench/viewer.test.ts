// How fast the viewer is, on the pages that benchmarks/viewer.py made: milliseconds into the file that FIGURES names.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import type { Browser, Locator } from "playwright-core";
import { launch, Visit } from "../e2e/browser";
import { openPane } from "../e2e/panes";

const PAGES = process.env["PAGES"] ?? "";
const FIGURES = process.env["FIGURES"] ?? "";
const HOVERS = 60;
const MOVES = 120;

const figures: { [name: string]: number } = {};
let browser: Browser;

before(async () => {
  assert.ok(PAGES && FIGURES, "run `python -m benchmarks viewer`");
  browser = await launch();
});

after(async () => {
  await browser?.close();
  writeFileSync(FIGURES, JSON.stringify(figures));
});

async function open(name: string): Promise<{ visit: Visit; viewer: Locator }> {
  const visit = await Visit.start(browser);
  await visit.page.goto(pathToFileURL(join(PAGES, `${name}.html`)).href);
  const viewer = visit.page.locator("#viewer");
  await viewer.locator(".ex-header").waitFor();
  return { visit, viewer };
}

test("hover: from the pointer on a line of generated code to its chain lit everywhere", async () => {
  const { visit, viewer } = await open("training");
  const code = await openPane(viewer, "code");
  await code.locator(".cm-line").first().waitFor();
  const times = await code.evaluate(async (pane, most) => {
    const painted = () => new Promise<void>(done => requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => done();
      port2.postMessage(null);
    }));
    const lines = [...pane.querySelectorAll<HTMLElement>(".cm-line")].slice(0, most);
    const taken: number[] = [];
    for (const line of lines) {
      const { left, top } = line.getBoundingClientRect();
      await painted();
      const from = performance.now();
      line.dispatchEvent(new MouseEvent("mousemove", { bubbles: true, clientX: left + 4, clientY: top + 4 }));
      await painted();
      taken.push(performance.now() - from);
    }
    return taken.sort((a, b) => a - b);
  }, HOVERS);
  assert.ok(times.length > 10);
  figures["hover_median"] = times[times.length >> 1] ?? NaN;
  figures["hover_worst"] = times.at(-1) ?? NaN;
  await visit.end();
});

test("a graph of 10,000 nodes: opened (with its page), panned, searched", async () => {
  let from = performance.now();
  const { visit, viewer } = await open("many");
  const { page } = visit;
  const pane = await openPane(viewer, "graphs");
  const drawing = pane.locator(".ex-g-view");
  await drawing.locator(".ex-g-svg .ex-g-body, .ex-g-canvas:visible").first().waitFor();
  await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));
  figures["graph_opens"] = performance.now() - from;

  const box = await drawing.boundingBox();
  assert.ok(box);
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  await page.mouse.down();
  const frames = page.evaluate(most => new Promise<number[]>(done => {
    const taken: number[] = [];
    let last = performance.now();
    const frame = (now: number) => {
      taken.push(now - last);
      last = now;
      if (taken.length < most) requestAnimationFrame(frame);
      else done(taken.slice(1).sort((a, b) => a - b));
    };
    requestAnimationFrame(frame);
  }), MOVES);
  for (let n = 0; n < MOVES; n++) await page.mouse.move(x + 150 * Math.sin(n / 8), y + 150 * Math.cos(n / 11));
  const times = await frames;
  await page.mouse.up();
  figures["pan_median"] = times[times.length >> 1] ?? NaN;
  figures["pan_worst"] = times.at(-1) ?? NaN;

  await page.keyboard.press("Escape");
  from = performance.now();
  const search = viewer.getByRole("combobox").first();
  await search.fill("node_7777");
  await page.getByRole("option").first().click();
  await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));
  figures["search"] = performance.now() - from;
  assert.deepEqual(visit.errors, []);
  await visit.end();
});
