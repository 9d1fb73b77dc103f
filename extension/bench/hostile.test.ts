// Pages of records as a stranger might make them (`python -m benchmarks hostile --pages N`): every pane is opened, and
// something selected in each. What each page complained of, ran or took goes into the file that HOSTILE_RESULTS names.

import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import { launch, Visit } from "../e2e/browser";
import { ran } from "../e2e/panes";
import { PANES } from "../src/viewer/panes";

const FOLDER = process.env["HOSTILE_PAGES"] ?? "";
const RESULTS = process.env["HOSTILE_RESULTS"] ?? "";
const SECONDS = 10;
const MEGABYTES = 500;

interface Result {
  readonly page: string;
  readonly seconds: number;
  readonly megabytes: number;
  readonly wrong: string;
  readonly refused: string;
}

test("hostile pages", { skip: !FOLDER, timeout: 3_600_000 }, async () => {
  const results: Result[] = [];
  let browser = await launch();
  const names = readdirSync(FOLDER).filter(each => each.endsWith(".html") && /^\d/.test(each))
    .sort((a, b) => parseInt(a) - parseInt(b));
  for (const name of names) {
    const visit = await Visit.start(browser);
    const started = performance.now();
    const said: string[] = [];
    let [megabytes, refused, slowest] = [0, "", 0];
    let at = "the page";
    const timed = async (what: string, does: () => Promise<unknown>): Promise<void> => {
      at = what;
      const from = performance.now();
      await Promise.race(
        [does(), new Promise((_, no) => setTimeout(() => no(new Error(`over ${SECONDS} s`)), SECONDS * 1000))]);
      slowest = Math.max(slowest, (performance.now() - from) / 1000);
    };
    try {
      const { page } = visit;
      await timed("the page", async () => {
        await page.goto(pathToFileURL(join(FOLDER, name)).href);
        await page.waitForSelector(".ex-root, [role=alert]", { state: "attached" });
      });
      const refusal = page.locator(".ex-root > .ex-empty, #viewer > [role=alert]");
      refused = (await refusal.count()) ? await refusal.first().innerText() : "";
      if (!refused) for (const { id, title } of PANES) await timed(id, () => look(page, id, title, said));
      megabytes = await page.evaluate(
        () => ((performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize / 1e6));
      if (await ran(page)) said.push("script of the record ran");
      if (visit.left.length) said.push(`it asked for ${visit.left[0]}`);
    } catch (error) {
      said.push(`${at}: ${String(error).split("\n")[0]}`);
      slowest = Math.max(slowest, SECONDS);
    }
    said.push(...visit.errors.map(each => each.split("\n").slice(0, 2).join(" ")));
    if (megabytes > MEGABYTES) said.push(`it took ${megabytes.toFixed(0)} MB`);
    results.push({ page: name.replace(".html", ""), seconds: slowest, megabytes,
      wrong: [...new Set(said)].slice(0, 3).join("; "), refused });
    const whole = (performance.now() - started) / 1000;
    if (said.length) console.log(`${name}: ${said.join("; ")} (${whole.toFixed(1)} s)`);
    writeFileSync(RESULTS, JSON.stringify(results));
    const gone = await Promise.race(
      [visit.end().then(() => true), new Promise<boolean>(done => setTimeout(() => done(false), 5000))]);
    if (!gone) {
      await Promise.race([browser.close(), new Promise(done => setTimeout(done, 5000))]);
      browser = await launch();
    }
  }
  await browser.close();
});

/** Opens a pane, lights up and clicks something in it, and notes where it says that it cannot be shown. */
async function look(page: Page, id: string, title: string, said: string[]): Promise<void> {
  await page.getByRole("button", { name: "Add a pane", exact: true }).first().click();
  await page.getByRole("menuitem", { name: title, exact: true }).click();
  const alerts = await page.locator(`[data-panel="${id}"]:visible [role=alert]`).allInnerTexts();
  said.push(...alerts.filter(Boolean).map(each => `${id}: ${each.split("\n")[0]}`));
  await page.evaluate(() => {
    for (const each of [...document.querySelectorAll<HTMLElement>("[role=tabpanel] :is(.ex-linked, .cm-line)")].slice(0,
        20)) {
      each.dispatchEvent(new MouseEvent("pointerover", { bubbles: true }));
      each.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    }
  });
}
