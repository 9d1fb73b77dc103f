// What make.py writes, in a folder that is there as long as a test needs it.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CHECKOUT, PYTHON } from "./server";

export interface Made {
  readonly folder: string;
  remove(): void;
}

/** MADE in the environment names a folder that make.py filled before: a test that is run over and over is quicker so. */
export function make(): Made {
  const before = process.env["MADE"];
  if (before) return { folder: before, remove: () => undefined };
  const folder = mkdtempSync(join(tmpdir(), "explorer-made-"));
  execFileSync(PYTHON, [join(import.meta.dirname, "make.py"), folder], {
    env: { ...process.env, PYTHONPATH: CHECKOUT }, stdio: ["ignore", "ignore", "inherit"],
  });
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
