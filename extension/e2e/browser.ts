// Chromium as the tests drive it: no network but this machine, and everything that goes wrong in a page is kept.

import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";

const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

/** How long is waited for anything in a page: a machine that does much else is slow, and what never comes fails all
 * the same. */
const WAIT_MS = 180_000;

/** Where screenshots go. */
export const PICTURES = process.env["PICTURES"] ?? join(import.meta.dirname, "pictures");

export async function launch(): Promise<Browser> {
  const program = process.env["CHROMIUM"] ?? PROGRAMS.find(existsSync);
  if (!program)
    throw new Error("Chromium is needed for the browser tests: install the package chromium, or name one in CHROMIUM");
  return chromium.launch({ executablePath: program, args: FLAGS, timeout: WAIT_MS });
}

/** A page, and what it complained of. */
export class Visit {
  /** Errors of scripts and messages of the kind "error" on the console. */
  readonly errors: string[] = [];
  /** Requests that left this machine: none may. */
  readonly left: string[] = [];

  private constructor(readonly page: Page) {}

  static async start(browser: Browser,
      look: { dark?: boolean; width?: number; height?: number; scripts?: boolean } = {}): Promise<Visit> {
    const context = await browser.newContext({
      viewport: { width: look.width ?? 1600, height: look.height ?? 1000 },
      colorScheme: look.dark ? "dark" : "light",
      javaScriptEnabled: look.scripts ?? true,
    });
    context.setDefaultTimeout(WAIT_MS);
    const page = await context.newPage();
    const visit = new Visit(page);
    page.on("pageerror", error => visit.errors.push(error.stack ?? error.message));
    page.on("console", message => {
      if (message.type() === "error") visit.errors.push(`${message.text()} (${message.location().url})`);
    });
    await page.route("**/*", route => {
      const url = new URL(route.request().url());
      if (["127.0.0.1", ""].includes(url.hostname)) return route.continue();
      visit.left.push(url.href);
      return route.abort();
    });
    return visit;
  }

  /** How many milliseconds of processor time the page takes for something; other programs do not count, as they do
   * in wall time. */
  async spent(act: () => Promise<unknown>): Promise<number> {
    const session = await this.page.context().newCDPSession(this.page);
    await session.send("Performance.enable");
    const taken = async () => {
      const { metrics } = await session.send("Performance.getMetrics");
      return 1000 * (metrics.find(each => each.name === "ThreadTime")?.value ?? NaN);
    };
    const before = await taken();
    await act();
    const after = await taken();
    await session.detach();
    return after - before;
  }

  async picture(name: string): Promise<void> {
    mkdirSync(PICTURES, { recursive: true });
    await this.page.screenshot({ path: join(PICTURES, `${name}.png`) });
  }

  async end(): Promise<void> {
    await this.page.context().close();
  }
}
