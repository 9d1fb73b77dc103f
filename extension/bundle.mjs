// Bundles the viewer.
//   lab     makes lib/, which jupyter-builder makes JupyterLab's extension of
// report makes static/report.html: the viewer as one page with holes for a record, which explorer/show/view/html.py and
//           src/page/files.ts fill. It stands with the labextension, so that both find the one copy.
//   size    fails where the labextension, as it was built, is larger than LARGEST
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { styles } from "./styles.mjs";

/** Bytes of our own scripts and styles in the labextension, as built for production: of all, and of what every start of
 * JupyterLab loads (the viewer comes with the first record). Beyond these, look at what was added. */
const LARGEST = { all: 350_000, start: 40_000 };

const here = import.meta.dirname;
const built = join(here, "../explorer/labextension/static");
const common = { plugins: [styles], bundle: true, minify: true, target: "es2022", charset: "utf8",
  legalComments: "inline", logLevel: "warning" };

/** What the viewer calls often has a short name there. */
const OFTEN = ["max", "min", "round", "floor", "abs", "ceil"].map(name => `Math.${name}`)
  .concat(["entries", "keys", "values", "assign"].map(name => `Object.${name}`), "JSON.stringify", "Array.isArray",
  "Number.isFinite", "Number.isInteger", "String", "Number");
const define = Object.fromEntries(OFTEN.map((each, n) => [each, `often$${n.toString(36)}`]));

/** Members of our own objects that take most room, under short names. None is read from a record or a message, kept
 * anywhere, or a member of what a browser or a library has. */
const MEMBERS =
  ("vertices vertex denominator numerator looked setCurrent flopsPerSecond bytesPerSecond hovered decisions intensity "
  + "homes placement statements changesOf programLines headline showWith lowerAt upperAt freshLocals freshStack "
  + "directCauses bringNear openTabs inText element subject pinned family outcome abilities reveal setting choice "
  + "together definitions breakpoint lives marks stands numeric palette points bounds chosen folded hasSaved segments "
  + "spoken stripe headings signatures walked")
  .split(" ");

async function lab() {
  const texts =
    ["record", "protocol", "methods/data", "ranks/data"].map(
      name => readFileSync(join(here, `src/viewer/${name}.ts`), "utf8")).join();
  const browser = readFileSync(join(here, "node_modules/typescript/lib/lib.dom.d.ts"), "utf8")
    .match(/^interface (CSSStyle|\w*(Element|Event|Node|Window|Document|Rect|2D)\b)[^{]*\{[^}]*\}/gm).join("\n");
  const foreign =
    MEMBERS.filter(each => new RegExp(`\\b${each}\\??:`).test(texts)
      || new RegExp(`^    (readonly )?${each}\\??[:(<]`, "m").test(browser));
  if (foreign.length)
    throw new Error(`Records, messages or the browser have ${foreign}: bundle.mjs must leave these names as they are.`);
  const { outputFiles } = await build({
    ...common, define, write: false, mangleProps: new RegExp(`^(${MEMBERS.join("|")})$`),
    entryPoints: { index: join(here, "src/lab/index.ts"), mime: join(here, "src/lab/mime.ts") },
    outdir: join(here, "lib"), format: "esm", packages: "external", splitting: true, sourcemap: true,
  });
  mkdirSync(join(here, "lib"), { recursive: true });
  for (const { path, text } of outputFiles) writeFileSync(path, path.endsWith(".js") ? named(text) : text);
}

/** jupyter-builder writes each use of what another file exports as `(0,r.d)(…)`: under a name of its own it is
 * `d(…)`. A file's own exports must not be read before it ran, so this is for the viewer, which the others load when
 * they have. */
function named(text) {
  if (!text.includes("@codemirror/view")) return text.replace(/often\$(\w)/g, (_, n) => OFTEN[parseInt(n, 36)]);
  const often = `const ${OFTEN.map(each => `${define[each]}=${each}`)};`;
  return often + text.replace(/import\{([^}]*)\}from"(\.\/[^"]*)";/g, (_, names, file) => {
    const from = `from_${file.replace(/\W/g, "_")}`;
    return `import*as ${from} from"${file}";const{${names.replaceAll(" as ", ":")}}=${from};`;
  });
}

/** What each term of the glossary means; the first of two parts that have one. */
function meanings(read) {
  const terms = read("../explorer/show/view/glossary.json").flatMap(part => Object.entries(part.terms));
  return Object.fromEntries(terms.map(([term, { meaning }]) => [term, meaning]).reverse());
}

async function report() {
  const read = file => JSON.parse(readFileSync(join(here, file), "utf8"));
  const made = async entry => (await build(
    { ...common, write: false, entryPoints: [join(here, "src/report", entry)] })).outputFiles[0].text.trimEnd();
  const script = await made("main.ts");
  const parts = {
    style: await made("page.css"),
    script,
    texts: JSON.stringify({
      panes: read("../explorer/show/view/panes.json"), meanings: meanings(read), keys: read("src/report/keys.json"),
    }).replaceAll("<", "\\u003c"),
    // The page's policy lets this script run and no other, whatever a record holds.
    hash: `sha256-${createHash("sha256").update(script).digest("base64")}`,
  };
  const page = readFileSync(join(here, "src/report/page.html"), "utf8");
  writeFileSync(join(built, "report.html"), page.replace(/<!--built:(\w+)-->/g, (_, name) => parts[name]));
}

/** remoteEntry is module federation's own, and the same for every extension; the viewer is the largest of the
 * others. */
function size() {
  const own = readdirSync(built).filter(name => name.endsWith(".js") && !name.startsWith("remoteEntry"));
  const sizes = own.map(name => statSync(join(built, name)).size);
  const all = sizes.reduce((sum, each) => sum + each, 0);
  const found = { all, start: all - Math.max(...sizes) };
  for (const [what, most] of Object.entries(LARGEST)) {
    console.log(`labextension, ${what}: ${found[what]} bytes of our own, at most ${most}`);
    if (found[what] > most) throw new Error("The labextension is larger than bundle.mjs lets it be.");
  }
  console.log(`report.html: ${statSync(join(built, "report.html")).size} bytes`);
}

await { lab, report, size }[process.argv[2]]();
