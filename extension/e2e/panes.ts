// The viewer as a person uses it, wherever it is.

import assert from "node:assert/strict";
import type { Locator, Page } from "playwright-core";
import { PANES } from "../src/viewer/panes";

/** Opens every pane, sees that it holds something, and gives a look at it. */
export async function openEachPane(viewer: Locator,
    look: (title: string) => Promise<void> = () => Promise.resolve()): Promise<void> {
  for (const { id, title } of PANES) {
    const pane = await openPane(viewer, id);
    assert.notEqual((await pane.innerText()).trim(), "", `the pane ${title} is empty`);
    await look(title);
  }
}

/** Opens a pane by the menu. */
export async function openPane(viewer: Locator, id: string): Promise<Locator> {
  const kind = PANES.find(each => each.id === id);
  assert.ok(kind, `there is no pane ${id}`);
  await viewer.getByRole("button", { name: "Add a pane", exact: true }).click();
  await viewer.page().getByRole("menuitem", { name: kind.title, exact: true }).click();
  const pane = paneOf(viewer, id);
  await pane.waitFor();
  return pane;
}

/** The pane of this kind that is in front. */
export function paneOf(viewer: Locator, id: string): Locator {
  return viewer.locator(`[data-panel="${id}"]:visible`).first();
}

/** Whether script of the hostile record ran. */
export function ran(page: Page): Promise<boolean> {
  return page.evaluate(() => "ran" in window);
}
