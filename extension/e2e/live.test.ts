// A live record in JupyterLab with a real kernel: timed again with other sizes, stopped, interrupted, and the notebook
// goes on. With comms over subshells and without.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser, Locator } from "playwright-core";
import { launch, Visit } from "./browser";
import { execute, openLab, openNotebook, outputs, printed, runCell, select, viewerOf } from "./lab";
import { openPane } from "./panes";
import { Server } from "./server";

const [SETUP, QUICK, PLAIN, SLOW] = [0, 1, 2, 3];

let server: Server;
let browser: Browser;

before(async () => {
  server = await Server.start("lab");
  server.notebook(
    "live.ipynb",
    "%load_ext explorer\nimport torch\nx, w = torch.randn(64, 128), torch.randn(128)\nbig = torch.randn(900, 900)",
    "%%explore --name quick\ny = torch.relu(x * w).sum(-1)",
    "print('the answer is', 6 * 7)",
    "%%explore --name slow --time\nz = torch.relu(big @ big @ big @ big @ big @ big @ big @ big)",
  );
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

function rows(timing: Locator): Locator {
  return timing.getByRole("table", { name: "Runs" }).locator("tbody tr");
}

/** How many samples are drawn. */
function samples(timing: Locator): Promise<number> {
  return timing.locator(".ex-sample").count();
}

for (const comms of ["perCommTarget", "disabled"]) {
  test(`comms over subshells: ${comms}`, async t => {
    server.set("@jupyterlab/apputils-extension:kernels-settings", { commsOverSubshells: comms });
    const visit = await Visit.start(browser);
    const { page } = visit;
    await openLab(page, server);
    await openNotebook(page, "live.ipynb", "its kernel");
    for (const cell of [SETUP, QUICK]) await runCell(page, cell);
    const viewer = await viewerOf(page, QUICK);
    const timing = await openPane(viewer, "timing");
    const again = timing.getByRole("button", { name: "Measure again", exact: true });
    const stop = timing.getByRole("button", { name: "Stop", exact: true });
    await again.waitFor();

    await t.test("another size from the slider is timed", async () => {
      assert.equal(await stop.isDisabled(), true);
      const slider = timing.getByRole("slider", { name: "x, size 0, by powers of two" });
      await slider.focus();
      for (let n = 0; n < 24; n++) await page.keyboard.press("ArrowRight");
      assert.equal(await timing.getByRole("spinbutton", { name: "x, size 0" }).inputValue(), "4096");
      await again.click();
      await rows(timing).nth(1).filter({ hasText: "x 4096×128, w 128" }).waitFor();
      await again.and(timing.locator(":enabled")).waitFor();
      assert.equal(await rows(timing).count(), 2);
      assert.ok(await samples(timing) > 10);
      assert.match(await timing.innerText(), /These are from the record's own run/);
    });

    await t.test("samples stream in, and a run is stopped midway", async () => {
      const number = timing.getByRole("spinbutton", { name: "x, size 0" });
      await number.fill("100000");
      await number.press("Enter");
      await again.click();
      const state = timing.locator(".ex-retime [role=status]", { hasText: "samples: " });
      const first = await state.innerText();
      await state.filter({ hasNotText: first }).waitFor();
      await stop.click();
      await rows(timing).nth(2).filter({ hasText: "stopped" }).waitFor();
      await again.and(timing.locator(":enabled")).waitFor();
    });

    await t.test("a cell is run while a run goes on: the run makes way", async () => {
      await again.click();
      await timing.locator(".ex-retime [role=status]", { hasText: "samples: " }).waitFor();
      await runCell(page, PLAIN);
      await rows(timing).nth(3).filter({ hasText: "stopped, since a cell was run" }).waitFor();
      assert.match((await printed(page, PLAIN).allInnerTexts()).join(""), /the answer is 42/);
    });

    await t.test("sizes that the program cannot take are refused with its words", async () => {
      const tie = timing.getByRole("checkbox", { name: "keep equal sizes equal" });
      await tie.uncheck();
      const number = timing.getByRole("spinbutton", { name: "w, size 0" });
      await number.fill("100");
      await number.press("Enter");
      await again.click();
      await rows(timing).nth(4).filter({ hasText: "must match the size" }).waitFor();
    });

    /** The cell that takes long, when its timing is under way and until `end` has ended it. */
    const ended = async (end: (viewer: Locator) => Promise<void>) => {
      await select(page, SLOW);
      const whole = execute(page, "notebook:run-cell");
      const slow = await viewerOf(page, SLOW);
      await (await openPane(slow, "timing")).locator(".ex-sample").first().waitFor();
      await end(slow);
      await whole;
      await slow.locator(".ex-notice", { hasText: "interrupted during timing" }).first().waitFor();
      assert.ok(await slow.locator(".ex-stage").count() > 5);
      for (const cell of [PLAIN, QUICK]) await runCell(page, cell);
      assert.deepEqual((await outputs(page)).flat().filter(each => each.error !== null), []);
    };

    await t.test("an interrupt ends a cell that is being timed, with what there is by then", () =>
      ended(async () => execute(page, "kernelmenu:interrupt")));

    await t.test("so does the viewer's own button", () =>
      ended(slow => slow.locator(".ex-status").getByRole("button", { name: "Stop" }).click()));

    assert.deepEqual(visit.errors, []);
    await execute(page, "kernelmenu:shutdown");
    await visit.end();
  });
}
