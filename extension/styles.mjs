// How a script gets at the text of a style sheet.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { lettered } from "./members.mjs";

/** `import css from "….css"` gives the text of a style sheet, minified. One that is imported with "?viewer" holds
 * inside the viewer alone, above whatever rules the page has: `.ex-root`, the parent of them all, weighs as much as
 * two ids, and the first rule takes off what the page gives to elements. */
export const styles = {
  name: "styles",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\.css(\?viewer)?$/ }, ({ path, importer, resolveDir }) =>
      importer.endsWith(".ts") ? { path: join(resolveDir, path.replace("?viewer", "")),
        namespace: path.endsWith("?viewer") ? "viewer" : "page" } : undefined);
    onLoad({ filter: /[\\/]src[\\/].*\.ts$/ },
      async ({ path }) => ({ contents: lettered(short(await readFile(path, "utf8"))), loader: "ts" }));
    onLoad({ filter: /./, namespace: "page" }, async ({ path }) => ({ contents: await sheet(path), loader: "text" }));
    onLoad({ filter: /./, namespace: "viewer" },
      async ({ path }) => ({ contents: within(await sheet(path)), loader: "text" }));
  },
};

async function sheet(path) {
  return short(
    nested(
      (await build({ bundle: true, minify: true, charset: "utf8", write: false,
        entryPoints: [path] })).outputFiles[0].text.trimEnd()));
}

/** The viewer's own properties under shorter names, those used most of one letter, in sheets and scripts alike. */
const LETTERS = { accent: "a", border: "b", code: "c", edge: "e", fg2: "f", bg: "g", "hot-edge": "h", bg2: "i", fg: "j",
  hot: "k", font: "o", error: "r", tint: "t", warn: "w" };
/** Classes that take most room. None is part of another's name, made up when the viewer runs, or looked for by a
 * test. */
const CLASSES =
  ("action badge block-edge block-fill branch button cards check choice choices column columns contestant-median "
    + "contestant-name "
  + "count detail dialog diff-column diff-list drawing expression facts facts-line field figure flow-head flow-line "
  + "flow-name "
  + "folded form graphs gridline guards hidden hint hint-inline hit-detail hit-label life-name link list memory-after "
  + "memory-before no pad pane picture point point-name reason say schedule select span span-name stage-name "
  + "stage-note "
  + "stage-time step step-box table textview tick tools trail-effects trail-pin unsure yes r-parting splitter "
  + "describe bar-name "
  + "kernel-point memory-area dialog-body column-name spinner searchbox quartiles menu-item axis-name under-roof "
  + "r-compiles "
  + "flow-reach hit-head tabbar facets").split(" ");

const short = text => text.replace(/--ex-([\w-]*)/g, (_, name) => {
  if (!name) throw new Error("the name of a property is made up as a whole, so that styles.mjs does not know it");
  return `--${LETTERS[name] ?? `x${name}`}`;
}).replace(/(?<![\w-])ex-([\w-]+)/g,
(whole, name) => (CLASSES.includes(name) ? `q${CLASSES.indexOf(name).toString(36)}` : whole));

/** The same sheet with rules in a row that begin with the same class inside one rule of that class: `.a{…}.a b{…}` is
 * `.a{…b{…}}`. The order stays, and so does what weighs more, as one class is what they are in. */
export function nested(css) {
  const rules = css.match(/@[^{};]+(?:;|\{(?:[^{}]|\{[^{}]*\})*\})|[^{}]+\{[^{}]*\}/g) ?? [];
  if (rules.join("") !== css)
    throw new Error("a style sheet that styles.mjs does not read: rules nest deeper than it knows");
  let text = "";
  for (let n = 0; n < rules.length; ) {
    const rule = rules[n];
    const [head, held] = halves(rule);
    const [inside] = /^\.[\w-]+/.exec(rule) ?? [];
    const begins = new RegExp(`^\\${inside}(?![\\w-]|$)(?!.*\\.ex-root)`);
    let end = n + (head === inside);
    while (inside && end < rules.length && halves(rules[end])[0].split(COMMAS).every(each => begins.test(each))) end++;
    const own = head === inside ? `${held};` : "";
    const rest = rules.slice(n + (own && 1), end).map(each => {
      const [of, does] = halves(each);
      return `${of.split(COMMAS).map(one => below(one.slice(inside.length))).join(",")}{${does}}`;
    });
    if (rest.length && end > n + 1) text += `${inside}{${own}${nested(rest.join(""))}}`;
    else text += rule.startsWith("@media") || rule.startsWith("@container") ? `${head}{${nested(held)}}` : rule;
    n = Math.max(end, n + 1);
  }
  return text;
}

/** Between selectors, and not inside brackets. */
const COMMAS = /,(?![^(]*\))/;

const halves = rule => [rule.slice(0, rule.indexOf("{")), rule.slice(rule.indexOf("{") + 1, -1)];
const below = rest => (/^[ >+~]/.test(rest) ? rest.trimStart() : `&${rest}`);

function within(css) {
  const frames = /@keyframes [\w-]+\{(?:[^{}]*\{[^{}]*\})*\}/g;
  return `${(css.match(frames) ?? []).join("")}:is(.ex-root,#ex#ex){${css.replace(frames, "").replaceAll(".ex-root", "&")}}`;
}
