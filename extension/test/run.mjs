// Runs FOLDER/*.test.ts: bundled for node by esbuild, run by node's own test runner. Names after the folder run those
// files alone. MADE in the environment names a folder that e2e/make.py filled before: what is run over and over is
// quicker so.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { build } from "esbuild";

const [folder = "test", ...names] = process.argv.slice(2);
const here = join(import.meta.dirname, "..", folder);
const wanted = names.map(name => basename(name, ".test.ts"));
const files = readdirSync(here).filter(name => name.endsWith(".test.ts"));
const chosen = wanted.length ? files.filter(name => wanted.includes(basename(name, ".test.ts"))) : files;
if (!chosen.length) {
  console.error(wanted.length
    ? `no test file is called ${wanted.join(" or ")}; there are ${files.join(", ")}` : `no *.test.ts in ${here}`);
  process.exit(1);
}
const out = mkdtempSync(join(import.meta.dirname, "../node_modules/.explorer-test-"));
let made = "";
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
  if (!process.env.MADE && chosen.some(name => readFileSync(join(here, name), "utf8").includes('from "./make"'))) {
    process.env.MADE = made = mkdtempSync(join(tmpdir(), "explorer-made-"));
    execFileSync(process.env.EXPLORER_PYTHON ?? "python", [join(here, "make.py"), made], {
      env: { ...process.env, PYTHONPATH: resolve(here, "../..") }, stdio: ["ignore", "ignore", "inherit"],
    });
  }
  const bundles = readdirSync(out).filter(name => name.endsWith(".mjs")).map(name => join(out, name));
  const seconds = { bench: 3600, e2e: 1800 }[folder] ?? 600;
  // A browser test waits for a kernel, a server and a browser in turn: two of them fill two cores, where node runs one.
  const flags =
    [`--test-timeout=${seconds * 1000}`, `--test-concurrency=${folder === "bench" ? 1 : 2}`, "--test-reporter=spec"];
  status = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...flags, ...bundles],
    { stdio: "inherit" }).status ?? 1;
} finally {
  for (const each of [out, made]) if (each) rmSync(each, { recursive: true, force: true });
}
process.exit(status);
