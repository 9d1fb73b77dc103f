// Jupyter Notebook 7: the same extension in its plain shell.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, Visit } from "./browser";
import { viewerOf } from "./lab";
import { type Made, make } from "./make";
import { openEachPane } from "./panes";
import { Server } from "./server";

let made: Made;
let server: Server;
let browser: Browser;

before(async () => {
  made = make();
  server = await Server.start("notebook", join(made.folder, "plain.ipynb"));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
  made?.remove();
});

test("a saved notebook shows the viewer, with every pane", async () => {
  const visit = await Visit.start(browser);
  await visit.page.goto(server.url("notebooks/plain.ipynb"), { waitUntil: "domcontentloaded", timeout: 60_000 });
  await visit.page.locator(".jp-Dialog").getByRole("button", { name: "No Kernel", exact: true }).click({ timeout: 60_000 });
  const viewer = await viewerOf(visit.page, 0);
  await visit.picture("notebook7");
  await openEachPane(viewer);
  // Notebook 7.6 complains so of its own settings, without any extension.
  assert.deepEqual(visit.errors.filter(each => !each.startsWith("TypeError: Cannot read properties of undefined (reading 'schema')")), []);
  assert.deepEqual(visit.left, []);
});
