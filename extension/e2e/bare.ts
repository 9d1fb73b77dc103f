// The viewer on a page of its own, with a host that the test plays.

import { join } from "node:path";
import { build } from "esbuild";
import type { Browser } from "playwright-core";
import type { ToPage } from "../src/viewer/protocol";
import { styles } from "../styles.mjs";
import { Visit } from "./browser";

/** What the page offers to the test (page.ts). */
export interface Bare {
  /** Puts a viewer there, in place of the one before. */
  mount(record: unknown): void;
  /** Puts two records there, one beside the other. */
  compare(before: unknown, after: unknown): void;
  /** Gives the viewer the next state of its record, as JupyterLab does when a cell has ended. */
  update(record: unknown): void;
  /** Opens an address of the record, and says whether it is one. */
  open(address: string): boolean;
  /** As the kernel would. */
  say(message: ToPage): void;
}

export async function barePage(browser: Browser, look: Parameters<typeof Visit.start>[1] = {}): Promise<Visit> {
  const built = async (entry: string) => {
    const made = await build({ entryPoints: [join(import.meta.dirname, "../e2e", entry)], bundle: true, write: false,
      target: "es2022", logLevel: "warning", plugins: [styles] });
    return made.outputFiles[0]?.text ?? "";
  };
  const visit = await Visit.start(browser, look);
  await visit.page.setContent(
    "<!doctype html><html lang=en><title>viewer</title><div id=viewer class=ex-fill></div></html>");
  await visit.page.addStyleTag({ content: await built("../src/report/page.css") });
  await visit.page.addScriptTag({ content: await built("page.ts") });
  return visit;
}
