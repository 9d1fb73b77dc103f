// How a script gets at the text of a style sheet.
import { join } from "node:path";
import { build } from "esbuild";

/** `import css from "….css"` gives the text of a style sheet, minified. One that is imported with "?viewer" holds inside
 * the viewer alone, above whatever rules the page has: `.ex-root`, the parent of them all, weighs as much as two ids, and
 * the first rule takes off what the page gives to elements. */
export const styles = {
  name: "styles",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\.css(\?viewer)?$/ }, ({ path, importer, resolveDir }) =>
      importer.endsWith(".ts") ? { path: join(resolveDir, path.replace("?viewer", "")), namespace: path.endsWith("?viewer") ? "viewer" : "page" } : undefined);
    onLoad({ filter: /./, namespace: "page" }, async ({ path }) => ({ contents: await sheet(path), loader: "text" }));
    onLoad({ filter: /./, namespace: "viewer" }, async ({ path }) => ({ contents: within(await sheet(path)), loader: "text" }));
  },
};

async function sheet(path) {
  return (await build({ bundle: true, minify: true, charset: "utf8", write: false, entryPoints: [path] })).outputFiles[0].text.trimEnd();
}

function within(css) {
  const frames = /@keyframes [\w-]+\{(?:[^{}]*\{[^{}]*\})*\}/g;
  return `${(css.match(frames) ?? []).join("")}:is(.ex-root,#ex#ex){${css.replace(frames, "").replaceAll(".ex-root", "&")}}`;
}
