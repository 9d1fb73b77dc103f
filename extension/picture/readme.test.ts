// Takes the README's pictures: the tour's first cell in JupyterLab with one line pinned, light and dark. `make
// picture`.

import { join } from "node:path";
import { test } from "node:test";
import { launch, Visit } from "../e2e/browser";
import { execute, openLab, openNotebook, outputs, select, theme, viewerOf } from "../e2e/lab";
import { openPane } from "../e2e/panes";
import { CHECKOUT, Server } from "../e2e/server";

const IMPORTS = 1;
const POINTWISE = 3;
const LINE = "F.gelu";

test("pictures for the README", { timeout: 300_000 }, async () => {
  const server = await Server.start("lab", join(CHECKOUT, "notebooks/tour.ipynb"));
  const browser = await launch();
  try {
    const visit = await Visit.start(browser, { width: 2000, height: 1130 });
    const { page } = visit;
    await openLab(page, server);
    await openNotebook(page, "tour.ipynb", "its kernel");
    await execute(page, "application:toggle-left-area");
    for (const cell of [IMPORTS, POINTWISE]) {
      await select(page, cell);
      await execute(page, "notebook:run-cell");
    }
    if ((await outputs(page)).flat().some(each => each.error !== null)) throw new Error("a cell of the tour failed");
    for (const look of ["JupyterLab Light", "JupyterLab Dark"] as const) {
      await theme(page, look);
      const viewer = await viewerOf(page, POINTWISE);
      const code = await openPane(viewer, "code");
      await code.locator(".cm-line").first().waitFor();
      if (look === "JupyterLab Light")
        await viewer.locator("[data-panel=source] .cm-line", { hasText: LINE }).click({ position: { x: 30, y: 8 } });
      await page.mouse.move(5, 5);
      await viewer.evaluate(root => root.closest(".jp-Cell")?.scrollIntoView({ block: "start" }));
      await page.waitForTimeout(1000);
      await visit.picture(look === "JupyterLab Dark" ? "lab-dark" : "lab-light");
    }
  } finally {
    await browser.close();
    await server.stop();
  }
});
