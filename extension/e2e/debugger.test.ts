// JupyterLab's own debugger in the recorded steps of a cell, forwards and back.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { faults } from "./axe";
import { launch, Visit } from "./browser";
import { execute, openLab, openNotebook, runCell } from "./lab";
import { Server } from "./server";

const EXPLORED = "%%explore --no-time\ndef scaled(v):\n    w = v * 2\n    return w.relu()\n\ny = scaled(x)";

let server: Server;
let browser: Browser;
let page: Page;
let visit: Visit;

before(async () => {
  server = await Server.start("lab");
  server.notebook("steps.ipynb", "%load_ext explorer\nimport torch\nx = torch.ones(4)", EXPLORED, "%step --debugger");
  browser = await launch();
  visit = await Visit.start(browser);
  ({ page } = visit);
  await openLab(page, server);
  await openNotebook(page, "steps.ipynb", "its kernel");
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test("the debugger steps through a capture, and its new buttons step back", async () => {
  for (const cell of [0, 1]) await runCell(page, cell);
  await page.locator(".jp-DebuggerBugButton").first().click();
  const sidebar = page.locator("#jp-debugger-sidebar");
  await sidebar.waitFor();
  await runCell(page, 2);
  const frames = sidebar.locator(".jp-DebuggerCallstack-body li");
  /** Waits until the innermost frame is at a line of a function, which the notebook marks too. */
  const at = async (name: string, line: number) => {
    await frames.first().filter({ hasText: name }).filter({ hasText: new RegExp(`:${line}$`) }).waitFor();
    const marked = page.locator(`.jp-Notebook .jp-Cell[data-windowed-list-index="1"] .jp-DebuggerEditor-highlight`);
    assert.equal((await marked.first().textContent())?.trim(), EXPLORED.split("\n")[line - 1]?.trim());
  };
  const button = (name: string) => sidebar.getByTitle(name, { exact: true });
  await at("cell", 6);
  await execute(page, "debugger:stepIn");
  await at("scaled", 3);
  assert.equal(await frames.count(), 2);
  await execute(page, "debugger:next");
  await at("scaled", 4);
  const scopes = sidebar.locator("select").filter({ hasText: "Locals" });
  await scopes.selectOption("Graph so far");
  await sidebar.locator(".jp-DebuggerVariables").getByText("operator.mul").waitFor();
  await button("Step Back").click();
  await at("scaled", 3);
  await scopes.filter({ hasNotText: "Graph so far" }).waitFor();
  await button("Back to the Breakpoint Before").click();
  await at("cell", 6);
  await execute(page, "debugger:stepIn");
  await at("scaled", 3);
  for (const name of ["Back to the Breakpoint Before", "Step Back"]) {
    await button(name).evaluate(each => each.setAttribute("data-back", ""));
    assert.equal(await sidebar.getByRole("button", { name, exact: true }).count(), 1, `a screen reader says ${name}`);
  }
  assert.deepEqual(await faults(page, "[data-back]"), []);
  await visit.picture("debugger");
  await sidebar.getByRole("button", { name: "Step Back", exact: true }).focus();
  await page.keyboard.press("Enter");
  await at("cell", 6);
});
