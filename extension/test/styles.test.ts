import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { build } from "esbuild";
import { nested } from "../styles.mjs";

const lowered = async (contents: string) =>
  (await build({ stdin: { contents, loader: "css" }, minify: true, charset: "utf8", write: false, target: "chrome100" })).outputFiles[0]?.text;

for (const sheet of ["viewer/style/index.css", "lab/lab.css"]) {
  test(`${sheet} says the same nested`, async () => {
    const entryPoints = [join(import.meta.dirname, "../src", sheet)];
    const flat = (await build({ bundle: true, minify: true, charset: "utf8", write: false, entryPoints })).outputFiles[0]?.text.trimEnd() ?? "";
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
