// Capture methods compared, and the ranks of a job: as pages on disk, and in a saved notebook without a kernel.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import type { Browser, Locator, Page } from "playwright-core";
import { faults } from "./axe";
import { launch, Visit } from "./browser";
import { execute, openLab, openNotebook, runAll } from "./lab";
import { MADE } from "./make";
import { ran } from "./panes";
import { Server } from "./server";

let browser: Browser;

before(async () => {
  browser = await launch();
});

after(async () => {
  await browser?.close();
});

async function visit(name: string, dark = false): Promise<Visit> {
  const started = await Visit.start(browser, { dark });
  await started.page.goto(pathToFileURL(join(MADE, name)).href);
  await started.page.locator("#viewer .ex-header").first().waitFor();
  return started;
}

/** The column of a method below the verdicts. */
function column(page: Page, method: string): Locator {
  return page.getByRole("region", { name: method, exact: true });
}

const verdict = (page: Page, method: string, text: string) =>
  page.locator("tr", { has: page.getByRole("button", { name: method, exact: true }) }).getByText(text).first();

for (const dark of [false, true]) {
  test(`methods beside each other, line by line, without a serious fault (${dark ? "dark" : "light"})`, async () => {
    const on = await visit("methods.html", dark);
    const { page } = on;
    await verdict(page, "torch.jit.trace", "✗ wrong").waitFor();
    await verdict(page, "torch.fx.symbolic_trace", "– refused").waitFor();
    const [program, trace, ours] =
      [column(page, "The program"), column(page, "torch.jit.trace"), column(page, "explorer.compile")];
    await program.locator(".cm-line", { hasText: "torch.relu(y)" }).hover();
    for (const [shown, operation] of [[trace, "aten::relu"], [ours, "relu: f32"]] as const) {
      await shown.locator(".cm-line.ex-hot", { hasText: operation }).first().waitFor();
      assert.equal(await shown.locator(".cm-line.ex-hot", { hasText: "sin" }).count(), 0);
    }
    await on.picture(`methods-${dark ? "dark" : "light"}`);
    assert.deepEqual(await faults(page), []);
    assert.deepEqual(on.errors, []);
    assert.deepEqual(on.left, []);
    await on.end();
  });
}

test("a verdict leads to its values, an error to what it means, eager to its operations, by the keyboard alone",
  async () => {
  const on = await visit("methods.html");
  const { page } = on;
  await verdict(page, "torch.jit.trace", "✗ wrong").focus();
  await page.keyboard.press("Enter");
  const card = column(page, "torch.jit.trace").locator(".ex-card", { hasText: "wrong: other values" });
  assert.match(await card.innerText(), /eager gives\s+output: float32\[3, 4\][\s\S]*largest difference/);
  await verdict(page, "torch.fx.symbolic_trace", "– refused").focus();
  await page.keyboard.press("Enter");
  assert.match(await column(page, "torch.fx.symbolic_trace").innerText(), /TraceError[\s\S]*Proxies have none/);
  const eager = page.getByRole("button", { name: "eager", exact: true });
  await eager.focus();
  await page.keyboard.press("Enter");
  const sine = column(page, "eager").locator("tr", { hasText: "aten::sin" });
  assert.match(await sine.innerText(), /AutogradCPU → .*CPU\s+float32, strided, cpu/);
  assert.deepEqual(await faults(page), []);
  await column(page, "torch.fx.symbolic_trace").getByRole("button", { name: "Close torch.fx.symbolic_trace" })
    .press("Enter");
  assert.equal(await column(page, "torch.fx.symbolic_trace").count(), 0);
  assert.equal(await eager.getAttribute("aria-pressed"), "true");
  assert.deepEqual(on.errors, []);
  await on.end();
});

test("ranks say where they part, and any two are shown stage by stage", async () => {
  const on = await visit("ranks.html");
  const { page } = on;
  const part = page.getByRole("button", { name: "rank 1: inputs, line 1" });
  assert.match(await page.locator("tr", { has: part }).first().innerText(),
    /A 1\.80 s\s+B 1\.91 s[\s\S]*\[4, 16\][\s\S]*\[5, 16\]/);
  assert.match(await page.locator("tr", { hasText: "extra" }).first().innerText(),
    /–\s+A 53\.0 ms\s+not compiled on rank 0/);
  await part.nth(2).press("Enter");
  assert.match(await page.locator(".ex-header h1").last().innerText(), /rank 0 → rank 1/);
  const chosen = page.getByLabel("Compiles compared");
  assert.match(await chosen.evaluate((select: HTMLSelectElement) => select.selectedOptions[0]?.text ?? ""),
    /^s0\.1 .* → s0\.1 /);
  await page.getByRole("option", { name: /^joint/ }).click();
  await on.picture("ranks");
  assert.deepEqual(await faults(page), []);
  assert.deepEqual(on.errors, []);
  await on.end();
});

for (const name of ["methods", "ranks"]) {
  test(`nothing in hostile ${name} runs`, async () => {
    const on = await visit(`hostile-${name}.html`);
    for (const button of await on.page.locator("#viewer td button").all()) await button.click();
    assert.equal(await ran(on.page), false);
    assert.equal(await on.page.locator("img").count(), 0);
    assert.deepEqual(on.errors, []);
    await on.end();
  });
}

test("a cell shows in one place which method is at work, and then the comparison", async () => {
  const source = ["%%compare --methods eager torch.jit.trace explorer.compile --no-time", "y = branch(x)"].join("\n");
  const setup =
    "%load_ext explorer\nimport torch\nx = torch.ones(3, 4)\ndef branch(x):\n    return torch.relu(x) if x.sum() > 0 "
      + "else x * 2";
  const cells = [setup, source].map(
    text => ({ cell_type: "code", source: text, metadata: {}, outputs: [], execution_count: null }));
  const path = join(MADE, "compare.ipynb");
  const kernelspec = { name: "python3", display_name: "Python 3", language: "python" };
  writeFileSync(path, JSON.stringify({ nbformat: 4, nbformat_minor: 4, metadata: { kernelspec }, cells }));
  const server = await Server.start("lab", path);
  const on = await Visit.start(browser);
  try {
    await openLab(on.page, server);
    await openNotebook(on.page, "compare.ipynb", "its kernel");
    await runAll(on.page);
    const output = on.page.locator(".jp-Cell .jp-OutputArea").last();
    await output.locator(".ex-root .ex-m-wrong").first().waitFor();
    assert.equal(await output.locator(".jp-OutputArea-child").count(), 1);
    assert.equal(await output.getByText("Comparing").count(), 0);
    assert.deepEqual(on.errors, []);
  } finally {
    await on.end();
    await server.stop();
  }
});

test("a notebook that is not trusted and has no kernel shows both, and a file opens", async () => {
  const files =
    ["methods.ipynb", "ranks.ipynb", "hostile-methods.ipynb", "branch.methods.json"].map(name => join(MADE, name));
  const server = await Server.start("lab", ...files);
  const on = await Visit.start(browser);
  try {
    await openLab(on.page, server);
    for (const [name, text] of [["methods", "torch.fx.symbolic_trace"], ["ranks", "where they first differ"],
        ["hostile-methods", "torch.jit.trace"]] as const) {
      await openNotebook(on.page, `${name}.ipynb`, "no kernel");
      const viewer = on.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .ex-root").first();
      await viewer.getByText(text).first().waitFor();
      await on.picture(`saved-${name}`);
    }
    await execute(on.page, "docmanager:open", { path: "branch.methods.json" });
    await on.page.locator(".jp-MimeDocument:visible .ex-root .ex-m-wrong").first().waitFor();
    assert.equal(await ran(on.page), false);
    assert.deepEqual(on.errors, []);
    assert.deepEqual(on.left, []);
  } finally {
    await on.end();
    await server.stop();
  }
});
