// Bundles the viewer.
//   lab     makes lib/, which jupyter-builder makes JupyterLab's extension of
//   report  makes static/report.html: the viewer as one page with holes for a record, which explorer/view/html.py and
//           src/page/report.ts fill. It stands with the labextension, so that both find the one copy.
//   size    fails where the labextension has grown beyond LARGEST
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

/** Bytes of our own scripts and styles in the labextension, as built for production. Beyond it, look at what was added:
 * all of it is loaded with every start of JupyterLab. */
const LARGEST = 390_000;

const here = import.meta.dirname;
const built = join(here, "../explorer/labextension/static");
const common = { bundle: true, minify: true, target: "es2022", charset: "utf8", legalComments: "inline", logLevel: "warning" };

async function lab() {
  await build({
    ...common, entryPoints: { index: join(here, "src/lab/index.ts"), mime: join(here, "src/lab/mime.ts"), style: join(here, "style/index.css") },
    outdir: join(here, "lib"), format: "esm", packages: "external", splitting: true, sourcemap: true,
  });
}

async function report() {
  const made = async entry => (await build({ ...common, write: false, entryPoints: [join(here, "src/report", entry)] })).outputFiles[0].text.trimEnd();
  const script = await made("main.ts");
  const parts = {
    style: await made("page.css"),
    script,
    // The page's policy lets this script run and no other, whatever a record holds.
    hash: `sha256-${createHash("sha256").update(script).digest("base64")}`,
  };
  const page = readFileSync(join(here, "src/report/page.html"), "utf8");
  writeFileSync(join(built, "report.html"), page.replace(/<!--built:(\w+)-->/g, (_, name) => parts[name]));
}

/** remoteEntry is module federation's own, and the same for every extension. */
function size() {
  const own = readdirSync(built).filter(name => name.endsWith(".js") && !name.startsWith("remoteEntry"));
  const bytes = own.reduce((sum, name) => sum + statSync(join(built, name)).size, 0);
  const page = statSync(join(built, "report.html")).size;
  console.log(`labextension: ${bytes} bytes of our own (at most ${LARGEST}); report.html: ${page} bytes`);
  if (bytes > LARGEST) throw new Error("The labextension is larger than bundle.mjs lets it be.");
}

await { lab, report, size }[process.argv[2]]();
