// What axe-core finds wrong in the viewer for people who cannot see it, or not well, or who use no mouse.

import axe from "axe-core";
import type { Page } from "playwright-core";

/** The serious and critical faults inside viewers, or of other elements, each as "RULE: ELEMENT". */
export async function faults(page: Page, of = ".ex-root"): Promise<string[]> {
  await page.evaluate(axe.source);
  return page.evaluate(async selector => {
    const { axe: run } = window as unknown as { axe: typeof axe };
    const { violations } = await run.run({ include: [[selector]] }, { resultTypes: ["violations"] });
    const grave = violations.filter(each => each.impact === "serious" || each.impact === "critical");
    return grave.flatMap(each => each.nodes.map(node => `${each.id}: ${node.html.slice(0, 200)}`));
  }, of);
}
