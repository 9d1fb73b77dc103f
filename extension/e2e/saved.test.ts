// What was saved before: notebooks with outputs and no kernel, not trusted; files of records. And a record that holds
// script in every text shows it as text.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { launch, Visit } from "./browser";
import { execute, openLab, openNotebook, viewerOf } from "./lab";
import { MADE } from "./make";
import { openEachPane, openPane, ran } from "./panes";
import { Server } from "./server";

const FILES = ["plain.ipynb", "hostile.ipynb", "plain.explore.json", "plain.explore.json.gz", "hostile.explore.json",
  "damaged.explore.json.gz"];
let server: Server;
let browser: Browser;
let visit: Visit;
let page: Page;

before(async () => {
  server = await Server.start("lab", ...FILES.map(name => join(MADE, name)));
  browser = await launch();
  visit = await Visit.start(browser);
  page = visit.page;
  await openLab(page, server);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("a notebook that is not trusted and has no kernel shows the viewer, with every pane", async () => {
  await openNotebook(page, "plain.ipynb", "no kernel");
  const viewer = await viewerOf(page, 0);
  const trusted = await page.evaluate(() => {
    interface Shell { shell: {
      currentWidget: { content: { model: { cells: { get(n: number): { trusted: boolean } } } } } } }
    return (window as unknown as { jupyterapp: Shell }).jupyterapp.shell.currentWidget.content.model.cells.get(
      0).trusted;
  });
  assert.equal(trusted, false);
  await openEachPane(viewer);
  await visit.picture("saved");
  const source = await openPane(viewer, "source");
  await source.getByRole("button", { name: "Edit", exact: true }).click();
  await source.getByText("No Jupyter kernel is attached").waitFor();
  assert.deepEqual(visit.errors, []);
});

for (const name of ["plain.explore.json", "plain.explore.json.gz"]) {
  test(`${name} opens in the viewer`, async () => {
    await execute(page, "docmanager:open", { path: name });
    const viewer = page.locator(".jp-MimeDocument:visible .ex-root");
    await viewer.locator(".ex-header").waitFor();
    assert.match((await viewer.locator(".ex-title").textContent()) ?? "", /gated/);
    assert.deepEqual(visit.errors, []);
  });
}

test("nothing in a record runs, in a notebook or as a file", async () => {
  await openNotebook(page, "hostile.ipynb", "no kernel");
  await openEachPane(await viewerOf(page, 0));
  assert.equal(await ran(page), false);
  await execute(page, "docmanager:open", { path: "hostile.explore.json" });
  await openEachPane(page.locator(".jp-MimeDocument:visible .ex-root"));
  assert.equal(await ran(page), false);
  assert.deepEqual(visit.errors, []);
});

test("a damaged file says so, and what to do", async () => {
  await execute(page, "docmanager:open", { path: "damaged.explore.json.gz" });
  const said = page.locator(".jp-MimeDocument:visible [role=alert]");
  await said.waitFor();
  assert.match((await said.textContent()) ?? "", /damaged.*Save the record again/);
});

test("nothing was asked of another machine", () => assert.deepEqual(visit.left, []));
