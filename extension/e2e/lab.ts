// JupyterLab as a person uses it: open, run, go to a cell.

import assert from "node:assert/strict";
import type { Locator, Page } from "playwright-core";
import { MIME } from "../src/viewer/record";
import type { Server } from "./server";

/** What of `window.jupyterapp` the tests use; the page runs it. */
interface App {
  started: Promise<void>;
  restored: Promise<void>;
  commands: { execute(id: string, args?: object): Promise<unknown> };
  shell: { currentWidget: unknown };
}

export async function openLab(page: Page, server: Server): Promise<void> {
  await page.goto(server.url("lab?reset"), { waitUntil: "domcontentloaded" });
  await page.waitForFunction(() => "jupyterapp" in window);
  await page.evaluate(async () => {
    const { jupyterapp } = window as unknown as { jupyterapp: App };
    await jupyterapp.started;
    await jupyterapp.restored;
  });
  await page.locator(".jp-LabShell").waitFor();
}

export async function execute(page: Page, command: string, args: object = {}): Promise<void> {
  await page.evaluate(
    async ([id, given]) =>
      void (await (window as unknown as { jupyterapp: App }).jupyterapp.commands.execute(id, given)),
    [command, args] as const,
  );
}

/** Opens a notebook and waits for it. One that names no kernel is asked about, and then gets none. */
export async function openNotebook(page: Page, path: string, kernel: "its kernel" | "no kernel"): Promise<void> {
  await execute(page, "docmanager:open", { path, factory: "Notebook" });
  if (kernel === "no kernel")
    await page.locator(".jp-Dialog").getByRole("button", { name: "No Kernel", exact: true }).click();
  await notebookReady(page, kernel);
}

/** Waits for the notebook in front. A cell that is run before the kernel answers is dropped without a word, though
 * the page calls it idle. */
export async function notebookReady(page: Page, kernel: "its kernel" | "no kernel"): Promise<void> {
  await page.waitForFunction(() => {
    const { jupyterapp } = window as unknown as { jupyterapp?: App };
    return Boolean((jupyterapp?.shell.currentWidget as { context?: object } | null | undefined)?.context);
  });
  await page.evaluate(async started => {
    interface Panel {
      context: { ready: Promise<void>;
      sessionContext: { ready: Promise<void>; session: { kernel: { info: Promise<unknown> } | null } | null } };
    }
    const panel = (window as unknown as { jupyterapp: App }).jupyterapp.shell.currentWidget as Panel;
    await panel.context.ready;
    if (!started) return;
    await panel.context.sessionContext.ready;
    await panel.context.sessionContext.session?.kernel?.info;
  }, kernel === "its kernel");
}

/** Runs all cells, and waits until they have run; says which error a cell ended with. */
export async function runAll(page: Page): Promise<void> {
  await execute(page, "notebook:run-all-cells");
  const errors = (await outputs(page)).flat().flatMap(each => each.error ?? []);
  assert.deepEqual(errors, [], "a cell ended with an error");
}

export async function theme(page: Page, name: "JupyterLab Light" | "JupyterLab Dark"): Promise<void> {
  await execute(page, "apputils:change-theme", { theme: name });
  await page.waitForFunction(light => document.body.dataset["jpThemeLight"] === light,
    String(name === "JupyterLab Light"));
}

/** The viewer in the output of the n-th cell, brought into view so that it is there. */
export async function viewerOf(page: Page, cell: number): Promise<Locator> {
  const holder =
    page.locator(`.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell[data-windowed-list-index="${cell}"]`);
  await holder.scrollIntoViewIfNeeded();
  const viewer = holder.locator(".ex-root");
  await viewer.locator(".ex-header").waitFor();
  await viewer.scrollIntoViewIfNeeded();
  return viewer;
}

/** Makes a cell the active one, and the next to be run. */
export async function select(page: Page, cell: number): Promise<void> {
  await page.evaluate(n => {
    interface Panel {
      content: { activeCellIndex: number };
    }
    ((window as unknown as { jupyterapp: App }).jupyterapp.shell.currentWidget as Panel).content.activeCellIndex = n;
  }, cell);
}

/** Runs a cell, and waits until it has run. */
export async function runCell(page: Page, cell: number): Promise<void> {
  await select(page, cell);
  await execute(page, "notebook:run-cell");
}

/** What a cell printed, or how it failed: its outputs of text. */
export function printed(page: Page, cell: number): Locator {
  return page.locator(
    `.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell[data-windowed-list-index="${cell}"] .jp-OutputArea-output pre`);
}

/** What stands in the output of a cell: the error it ended with, the title of the record it shows. */
interface Output {
  readonly error: string | null;
  readonly record: string | null;
}

/** The outputs of each cell of the notebook in front. */
export function outputs(page: Page): Promise<Output[][]> {
  return page.evaluate(mime => {
    interface Saved {
      output_type: string;
      evalue?: string;
      data?: { [mime: string]: { title?: string } };
    }
    interface Panel {
      content: { model: { toJSON(): { cells: { outputs?: Saved[] }[] } } };
    }
    const panel = (window as unknown as { jupyterapp: App }).jupyterapp.shell.currentWidget as Panel;
    return panel.content.model.toJSON().cells.map(cell =>
      (cell.outputs ?? []).map(each => ({
        error: each.output_type === "error" ? (each.evalue ?? "") : null,
        record: each.data?.[mime]?.title ?? null,
      })),
    );
  }, MIME);
}
