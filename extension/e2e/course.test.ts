// The course in JupyterLab.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, Visit } from "./browser";
import { execute, openLab, openNotebook, outputs, viewerOf } from "./lab";
import { paneOf } from "./panes";
import { Server } from "./server";

let server: Server;
let browser: Browser;

before(async () => {
  server = await Server.start("lab");
  server.notebook("course.ipynb", "%load_ext explorer\n%load_ext explorer.course",
    "%%puzzle guards-2\ndef accepts(x, n):\n    return n == 3");
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("a check that fails opens its record at the element that it is about", async () => {
  const { page, errors } = await Visit.start(browser);
  await openLab(page, server);
  await openNotebook(page, "course.ipynb", "its kernel");
  await execute(page, "notebook:run-all-cells");
  assert.match((await outputs(page)).flat().map(each => each.error).join(), /wrongly accepts n=3.0/);
  const viewer = await viewerOf(page, 1);
  assert.equal(await paneOf(viewer, "guards").locator(".ex-hot code", { hasText: "L['n'] == 3" }).count(), 1);
  assert.match(await viewer.locator(".ex-trail").innerText(), /f0\.guard0[^]*pinned/);
  assert.deepEqual(errors, []);
});
