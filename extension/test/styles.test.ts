import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { build } from "esbuild";
import { nested } from "../styles.mjs";

const SOURCES = join(import.meta.dirname, "../src");

const lowered = async (contents: string) =>
  (await build({ stdin: { contents, loader: "css" }, minify: true, charset: "utf8", write: false,
    target: "chrome100" })).outputFiles[0]?.text;

for (const sheet of ["viewer/style/index.css", "lab/lab.css"]) {
  test(`${sheet} says the same nested`, async () => {
    const entryPoints = [join(import.meta.dirname, "../src", sheet)];
    const flat =
      (await build({ bundle: true, minify: true, charset: "utf8", write: false,
        entryPoints })).outputFiles[0]?.text.trimEnd() ?? "";
    const short = nested(flat);
    assert.ok(short.length < 0.97 * flat.length);
    assert.equal(await lowered(short), await lowered(flat));
  });
}

test("rules of one class in a row are nested, in their order", () => {
  assert.equal(nested(".a{x:1}.a b{y:2}.a:hover>.c,.a.d{z:3}.e{x:1}"), ".a{x:1;b{y:2}&:hover>.c,&.d{z:3}}.e{x:1}");
  assert.equal(nested(".a:empty{x:1}.a{y:2}.ab .a{z:3}"), ".a:empty{x:1}.a{y:2}.ab .a{z:3}");
  assert.equal(nested("@media print{.a{x:1}.a>b{y:2}}"), "@media print{.a{x:1;>b{y:2}}}");
});

test("each class of a style sheet is one that a script, or a page, gives to something", () => {
  const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" });
  const read = (ending: RegExp) =>
    files.filter(each => ending.test(each)).map(each => readFileSync(join(SOURCES, each), "utf8")).join("\n");
  const scripts = read(/\.(ts|html)$/);
  const begins = [...scripts.matchAll(/(?<!--)\b(ex-[\w-]+-)\$\{/g)].map(([, start]) => start!);
  const classes = new Set([...read(/\.css$/).matchAll(/\.(ex-[\w-]+)/g)].map(([, name]) => name!));
  const unused = [...classes].filter(
    name => !new RegExp(`${name}(?![\\w-])`).test(scripts) && !begins.some(start => name.startsWith(start)));
  assert.ok(classes.size > 300);
  assert.deepEqual(unused, []);
});
