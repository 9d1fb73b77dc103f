// How soon a person sees something after pressing Run, in JupyterLab with cold caches: milliseconds into FIGURES.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { launch, Visit } from "../e2e/browser";
import { execute, openLab, openNotebook, select } from "../e2e/lab";
import { CHECKOUT, Server } from "../e2e/server";

const FIGURES = process.env["LAB_FIGURES"] ?? "";
const IMPORTS = 1;
const POINTWISE = 3;
const LIMIT_MS = 120_000;

test("from Run to the first stage shown, and to all stages with timing", { timeout: 2 * LIMIT_MS }, async () => {
  assert.ok(FIGURES, "run `python -m benchmarks viewer`");
  const server = await Server.start("lab", join(CHECKOUT, "notebooks/tour.ipynb"));
  const browser = await launch();
  try {
    const { page } = await Visit.start(browser);
    await openLab(page, server);
    await openNotebook(page, "tour.ipynb", "its kernel");
    await select(page, IMPORTS);
    await execute(page, "notebook:run-cell");
    await select(page, POINTWISE);
    const shown = page.evaluate(limit => new Promise<{ first: number; all: number }>((done, failed) => {
      const from = performance.now();
      let first = 0;
      const look = () => {
        const viewer = document.querySelector(".jp-Notebook .ex-root");
        if (!first && viewer?.querySelector(".ex-stage:not(.ex-running)")) first = performance.now() - from;
        const busy = document.querySelector(".jp-Notebook .jp-mod-active .jp-InputPrompt")?.textContent?.includes("*");
        if (first && busy === false) done({ first, all: performance.now() - from });
        else if (performance.now() - from > limit) failed(new Error("no stage was shown"));
        else requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    }), LIMIT_MS);
    await execute(page, "notebook:run-cell");
    const { first, all } = await shown;
    writeFileSync(FIGURES, JSON.stringify({ first_stage: first, all_stages: all }));
  } finally {
    await browser.close();
    await server.stop();
  }
});
