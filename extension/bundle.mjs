// Makes static/report.html: the viewer as one page with holes for a record, which explorer/view/html.py and
// src/page/report.ts fill. It stands with the labextension, so that both find the one copy.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const common = { bundle: true, minify: true, write: false, target: "es2022", legalComments: "inline", logLevel: "warning" };
const built = async entry => (await build({ ...common, entryPoints: [join(here, "src/report", entry)] })).outputFiles[0].text.trimEnd();

const script = await built("main.ts");
const parts = {
  style: await built("page.css"),
  script,
  // The page's policy lets this script run and no other, whatever a record holds.
  hash: `sha256-${createHash("sha256").update(script).digest("base64")}`,
};
const page = readFileSync(join(here, "src/report/page.html"), "utf8");
const out = join(here, "../explorer/labextension/static/report.html");
const text = page.replace(/<!--built:(\w+)-->/g, (_, name) => parts[name]);
writeFileSync(out, text);
console.log(`report.html: ${(text.length / 1024).toFixed(0)} KiB`);
