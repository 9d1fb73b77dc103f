// Jupyter Notebook 7: the same extension in its plain shell.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, Visit } from "./browser";
import { notebookReady, runAll, viewerOf } from "./lab";
import { MADE } from "./make";
import { openEachPane, openPane } from "./panes";
import { Server } from "./server";

let server: Server;
let browser: Browser;

before(async () => {
  server = await Server.start("notebook", join(MADE, "plain.ipynb"));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("a saved notebook shows the viewer, with every pane", async () => {
  const visit = await Visit.start(browser);
  await visit.page.goto(server.url("notebooks/plain.ipynb"), { waitUntil: "domcontentloaded" });
  await visit.page.locator(".jp-Dialog").getByRole("button", { name: "No Kernel", exact: true }).click();
  const viewer = await viewerOf(visit.page, 0);
  await visit.picture("notebook7");
  await openEachPane(viewer);
  // Notebook 7.6 complains so of its own settings, without any extension.
  assert.deepEqual(visit.errors.filter(
    each => !each.startsWith("TypeError: Cannot read properties of undefined (reading 'schema')")), []);
  assert.deepEqual(visit.left, []);
});

test("a cell that runs here is live: timed again with another size", async () => {
  server.notebook("live.ipynb", "%load_ext explorer\nimport torch\nx = torch.randn(64, 128)",
    "%%explore --name live\ny = torch.relu(x).sum(-1)");
  const visit = await Visit.start(browser);
  await visit.page.goto(server.url("notebooks/live.ipynb"), { waitUntil: "domcontentloaded" });
  await notebookReady(visit.page, "its kernel");
  await runAll(visit.page);
  const timing = await openPane(await viewerOf(visit.page, 1), "timing");
  const again = timing.getByRole("button", { name: "Measure again", exact: true });
  await again.waitFor();
  await timing.getByRole("spinbutton", { name: "x, size 0" }).fill("256");
  await again.click();
  const rows = timing.getByRole("table", { name: "Runs" }).locator("tbody tr");
  await rows.nth(1).filter({ hasText: "x 256×128" }).waitFor();
  await again.and(timing.locator(":enabled")).waitFor();
  assert.doesNotMatch(await rows.nth(1).innerText(), /failed|stopped|without a result/);
  assert.deepEqual(visit.left, []);
});
