// What stands around the viewer in JupyterLab: records among ipywidgets, two records compared, settings.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { launch, Visit } from "./browser";
import { execute, openLab, openNotebook, outputs, select, theme, viewerOf } from "./lab";
import { openEachPane, openPane } from "./panes";
import { Server } from "./server";

const [FIRST, SECOND, LAYOUT] = [1, 2, 3];

let server: Server;
let browser: Browser;
let visit: Visit;
let page: Page;

before(async () => {
  server = await Server.start("lab");
  server.notebook(
    "around.ipynb",
    "%load_ext explorer\nimport torch, ipywidgets\nfrom explorer.show.notebook.widget import embed\nx = "
      + "torch.randn(8, 16)",
    "%%explore --no-time --name first -o first\ny = torch.relu(x) * 2",
    "%%explore --no-time --name second -o second\ny = torch.relu(x) * 3",
    "ipywidgets.Tab([ipywidgets.VBox([ipywidgets.Label('beside'), embed(first)]), embed(second)])",
  );
  server.notebook("alone.ipynb", "1 + 1");
  browser = await launch();
  visit = await Visit.start(browser);
  page = visit.page;
  await openLab(page, server);
  await openNotebook(page, "around.ipynb", "its kernel");
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("runs", async () => {
  await execute(page, "notebook:run-all-cells");
  assert.deepEqual((await outputs(page)).flat().filter(each => each.error !== null), []);
});

test("a record among ipywidgets is shown, beside others and in a tab that comes to the front later", async () => {
  const holder = page.locator(`.jp-Cell[data-windowed-list-index="${LAYOUT}"]`);
  await holder.scrollIntoViewIfNeeded();
  const first = holder.locator(".ex-root", { has: page.locator("h1", { hasText: "first" }) });
  await first.locator(".ex-stage").first().waitFor();
  const box = await first.boundingBox();
  assert.ok(box && box.height > 200 && box.width > 400, JSON.stringify(box));
  await openEachPane(first);
  assert.match(await (await openPane(first, "timing")).innerText(), /this view is not live/);
  await holder.locator(".lm-TabBar-tab").nth(1).click();
  const second = holder.locator(".ex-root", { has: page.locator("h1", { hasText: "second" }) });
  await second.locator(".ex-stage").first().waitFor();
  await visit.picture("widgets");
  assert.deepEqual(visit.errors, []);
});

test("a record is compared with another of its notebook", async () => {
  await viewerOf(page, SECOND);
  await select(page, SECOND);
  const asked = execute(page, "torch-explorer:diff");
  const dialog = page.locator(".jp-Dialog");
  assert.deepEqual(await dialog.locator("option").allInnerTexts(), ["1. Cell 2: first"]);
  await dialog.getByRole("button", { name: "Ok", exact: true }).click();
  await asked;
  const diff = page.locator(".jp-MainAreaWidget:visible .ex-diff");
  await diff.waitFor();
  assert.match(await page.locator(".jp-MainAreaWidget:visible .ex-lab-fills h1").innerText(), /first → second/);
  assert.ok(await diff.locator(".ex-diff-changed").count() > 0);
  await diff.getByRole("option", { name: /capture/ }).first().click();
  assert.equal(await diff.locator(".ex-row-removed").count(), 1, "what did not change differs");
  assert.match(await diff.locator(".ex-row-removed").innerText(), /operator\.mul\(relu, 2\)\s+# cell:2/);
  await visit.picture("diff");
  assert.deepEqual(visit.errors, []);
});

test("where the comparison is called off nothing opens", async () => {
  const tabs = () => page.locator("#jp-main-dock-panel .lm-TabBar-tab").count();
  await execute(page, "docmanager:open", { path: "around.ipynb" });
  await viewerOf(page, FIRST);
  await select(page, FIRST);
  const before = await tabs();
  const asked = execute(page, "torch-explorer:diff");
  await page.locator(".jp-Dialog").getByRole("button", { name: "Cancel" }).click();
  await asked;
  assert.equal(await tabs(), before);
});

test("without a record the commands are not offered, and the sidebar says what to do", async () => {
  await openNotebook(page, "alone.ipynb", "its kernel");
  const enabled = await page.evaluate(() => {
    interface Commands { jupyterapp: { commands: { isEnabled(id: string): boolean } } }
    const { commands } = (window as unknown as Commands).jupyterapp;
    return ["torch-explorer:open", "torch-explorer:diff", "torch-explorer:report"].map(id => commands.isEnabled(id));
  });
  assert.deepEqual(enabled, [false, false, false]);
  await page.getByRole("tab", { name: "Records of torch-explorer" }).click();
  await page.locator(".ex-lab-records p", { hasText: "Run a cell that begins with %%explore" }).waitFor();
});

test("settings: a height, and panes that are open at first", async () => {
  await execute(page, "docmanager:open", { path: "around.ipynb" });
  await execute(page, "docmanager:save");
  server.set("torch-explorer:plugin", { height: 400, panes: [["guards", "source"], ["code"]] });
  const fresh = await Visit.start(browser);
  await openLab(fresh.page, server);
  await openNotebook(fresh.page, "around.ipynb", "its kernel");
  const viewer = await viewerOf(fresh.page, FIRST);
  assert.equal(await viewer.evaluate(root => (root as HTMLElement).offsetHeight), 400);
  assert.deepEqual(await viewer.getByRole("tab").allInnerTexts(), ["Guards", "Source", "Code"]);
  assert.deepEqual(await viewer.locator("[role=tab][aria-selected=true]").allInnerTexts(), ["Guards", "Code"]);
  await theme(fresh.page, "JupyterLab Dark");
  assert.equal(await viewer.evaluate(root => root.classList.contains("ex-dark")), true);
  assert.deepEqual(fresh.errors, []);
  await fresh.end();
});

test("settings that make no sense are as if there were none", async () => {
  server.set("torch-explorer:plugin", { height: "tall", panes: [["nonsense", 3], "code"] });
  const fresh = await Visit.start(browser);
  await openLab(fresh.page, server);
  await openNotebook(fresh.page, "around.ipynb", "its kernel");
  const viewer = await viewerOf(fresh.page, FIRST);
  assert.equal(await viewer.evaluate(root => (root as HTMLElement).offsetHeight), 640);
  assert.ok(await viewer.getByRole("tab").count() > 5);
  assert.deepEqual(fresh.errors, []);
  await fresh.end();
});
