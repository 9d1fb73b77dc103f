// Runs FOLDER/*.test.ts: bundled for node by esbuild, run by node's own test runner. Names after the folder run those
// files alone.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";

const [folder = "test", ...names] = process.argv.slice(2);
const here = join(import.meta.dirname, "..", folder);
const wanted = names.map(name => basename(name, ".test.ts"));
const files = readdirSync(here).filter(name => name.endsWith(".test.ts"));
const chosen = wanted.length ? files.filter(name => wanted.includes(basename(name, ".test.ts"))) : files;
if (!chosen.length) {
  console.error(wanted.length ? `no test file is called ${wanted.join(" or ")}; there are ${files.join(", ")}` : `no *.test.ts in ${here}`);
  process.exit(1);
}
const out = mkdtempSync(join(import.meta.dirname, "../node_modules/.explorer-test-"));
let status = 1;
try {
  await build({
    entryPoints: chosen.map(name => join(here, name)),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    sourcemap: "inline",
    loader: { ".css": "empty" },
    define: { "import.meta.dirname": JSON.stringify(here) },
    logLevel: "warning",
  });
  const bundles = readdirSync(out).filter(name => name.endsWith(".mjs")).map(name => join(out, name));
  const seconds = folder === "bench" ? 3600 : 300;
  status = spawnSync(process.execPath, ["--enable-source-maps", "--test", `--test-timeout=${seconds * 1000}`, "--test-reporter=spec", ...bundles], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(out, { recursive: true, force: true });
}
process.exit(status);
