// Prints the chain of every element of a record, as the viewer sees it: for the Python test that compares the two.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const links = join(import.meta.dirname, "..", "src", "viewer", "links.ts");
const { outputFiles } =
  await build({ entryPoints: [links], bundle: true, format: "esm", platform: "node", write: false });
const { Links } =
  await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
const found = new Links(JSON.parse(readFileSync(process.argv[2], "utf8")));
process.stdout.write(JSON.stringify(Object.fromEntries(found.all.map(of => [of, [...found.chain(of)].sort()]))));
