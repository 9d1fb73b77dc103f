// The tour in JupyterLab from top to bottom, as a newcomer runs it: every pane of every cell, light and dark.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { faults } from "./axe";
import { launch, Visit } from "./browser";
import { execute, openLab, openNotebook, outputs, theme, viewerOf } from "./lab";
import { openEachPane, openPane, paneOf } from "./panes";
import { CHECKOUT, Server } from "./server";

const TOUR = join(CHECKOUT, "notebooks/tour.ipynb");

interface Notebook {
  cells: { cell_type: string; source: string | string[] }[];
}

/** The tour's explored cells: their positions by the name that each gives its record. */
const explored = new Map(
  (JSON.parse(readFileSync(TOUR, "utf8")) as Notebook).cells.flatMap((cell, n) => {
    const name = /^%%explore.*--name ("[^"]+"|\S+)/.exec([cell.source].flat().join(""))?.[1];
    return name ? [[name.replaceAll('"', ""), n] as const] : [];
  }),
);

let server: Server;
let browser: Browser;
let visit: Visit;
let page: Page;

before(async () => {
  server = await Server.start("lab", TOUR);
  browser = await launch();
  visit = await Visit.start(browser);
  page = visit.page;
  await openLab(page, server);
  await openNotebook(page, "tour.ipynb", "its kernel");
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("has the six cells", () => {
  assert.deepEqual([...explored.keys()],
    ["pointwise", "softmax", "GPT-2 block", "training step", "graph break", "dynamic shape"]);
});

test("runs from top to bottom", async () => {
  await execute(page, "notebook:run-all-cells");
  const shown = await outputs(page);
  assert.deepEqual(shown.flat().filter(each => each.error !== null), []);
  for (const cell of explored.values()) assert.equal(shown[cell]?.filter(each => each.record !== null).length, 1);
});

for (const [name, cell] of explored) {
  test(`${name}: every pane opens with content`, async () => {
    const viewer = await viewerOf(page, cell);
    assert.equal(await viewer.locator("h1").first().textContent(), name);
    await openEachPane(viewer);
    assert.deepEqual(await faults(page), []);
    assert.deepEqual(visit.errors, []);
  });
}

for (const look of ["JupyterLab Light", "JupyterLab Dark"] as const) {
  test(`each cell in ${look}`, async () => {
    await theme(page, look);
    const shade = look === "JupyterLab Dark" ? "dark" : "light";
    for (const [name, cell] of explored) {
      const viewer = await viewerOf(page, cell);
      assert.equal(await viewer.evaluate(root => root.classList.contains("ex-dark")), shade === "dark");
      await visit.picture(`tour-${name.replaceAll(" ", "-")}-${shade}`);
    }
    assert.deepEqual(await faults(page), []);
  });
}

test("the sidebar lists the notebook's records and goes to one", async () => {
  await page.getByRole("tab", { name: "Records of torch-explorer" }).click();
  const entries = page.locator(".ex-lab-records li");
  await entries.first().waitFor();
  assert.ok((await entries.count()) >= explored.size);
  await entries.filter({ hasText: "training step" }).getByRole("button").click();
  await page.locator(".jp-Notebook .ex-root h1", { hasText: "training step" }).waitFor({ state: "visible" });
  assert.equal(await entries.filter({ hasText: "training step" }).getByRole("button").getAttribute("aria-current"),
    "true");
});

test("plain keys stay in the viewer, Ctrl+S is JupyterLab's", async () => {
  const viewer = await viewerOf(page, explored.get("training step") ?? -1);
  const cells = (await outputs(page)).length;
  await viewer.locator(".ex-stages").focus();
  for (const key of ["b", "b", "ArrowDown", "a"]) await page.keyboard.press(key);
  assert.equal((await outputs(page)).length, cells);
  assert.equal(await viewer.evaluate(root => root.contains(document.activeElement)), true);
  await page.keyboard.press("Control+s");
  await page.locator(".jp-mod-current:not(.jp-mod-dirty)", { hasText: "tour.ipynb" }).waitFor();
});

test("commands act on the active cell's record", async () => {
  await execute(page, "torch-explorer:pane", { pane: "guards" });
  const viewer = page.locator(".jp-Notebook .jp-mod-active .ex-root");
  await paneOf(viewer, "guards").waitFor();
  const saving = page.waitForEvent("download");
  await execute(page, "torch-explorer:report");
  const report = readFileSync(await (await saving).path(), "utf8");
  assert.match(report, /<title>training step<\/title>/);
  await execute(page, "torch-explorer:open");
  const tab = page.locator(".jp-MainAreaWidget:visible .ex-lab-fills .ex-root");
  await tab.locator("h1", { hasText: "training step" }).waitFor();
  assert.deepEqual(visit.errors, []);
});

test("the palette finds the commands by their category, and runs the one that is chosen", async () => {
  await execute(page, "apputils:activate-command-palette");
  const palette = page.locator(".lm-CommandPalette:visible");
  await palette.waitFor();
  await page.keyboard.type("explorer");
  await palette.locator(".lm-CommandPalette-header", { hasText: /^explorer$/i }).waitFor({ state: "attached" });
  for (const label of ["Open This Cell's Record in a Tab", "Save This Record's Report (HTML)", "Show Pane: Breaks"]) {
    await palette.locator(".lm-CommandPalette-itemLabel", { hasText: label }).waitFor();
  }
  await page.keyboard.type(" guards");
  await palette.locator(".lm-CommandPalette-itemLabel", { hasText: "Show Pane: Guards" }).click();
  await paneOf(page.locator(".jp-Notebook .jp-mod-active .ex-root"), "guards").waitFor();
  assert.deepEqual(visit.errors, []);
});

test("a viewer finds its kernel again after the page was loaded again", async () => {
  await openLab(page, server); // saved by the keys above
  await openNotebook(page, "tour.ipynb", "its kernel");
  const viewer = await viewerOf(page, explored.get("pointwise") ?? -1);
  await viewer.getByRole("tab", { name: "Diff" }).waitFor(); // opened before, and remembered
  const timing = await openPane(viewer, "timing");
  await timing.getByRole("button", { name: "Measure again" }).waitFor();
  await viewer.getByRole("button", { name: "What Timing shows" }).click();
  await page.locator("dialog", { hasText: "timed in turn" }).getByRole("button", { name: "Close" }).click();
  assert.deepEqual(visit.errors, []);
});

test("the kernel makes what is asked for: a program of a kernel, a trace, cycles", async () => {
  const viewer = await viewerOf(page, explored.get("pointwise") ?? -1);
  const saved = async (press: () => Promise<void>) => {
    const saving = page.waitForEvent("download");
    await press();
    return readFileSync(await (await saving).path(), "utf8");
  };
  const code = await openPane(viewer, "code");
  const program = await saved(() => code.getByRole("button", { name: "Save as a program" }).click());
  assert.match(program, /^import torch$/m);
  await code.getByRole("button", { name: "Throughput" }).click();
  await code.getByText(/llvm-mca|cycles/).waitFor();
  await openPane(viewer, "timeline");
  const trace = await saved(async () => {
    await viewer.getByRole("button", { name: "Save as a file" }).click();
    await page.getByRole("menuitem", { name: "a trace for Perfetto" }).click();
  });
  assert.ok(JSON.parse(trace).traceEvents.length > 0);
  assert.deepEqual(visit.errors, []);
});

test("nothing was asked of another machine", () => assert.deepEqual(visit.left, []));
