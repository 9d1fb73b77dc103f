// Prints the peaks of the curves that the viewer draws of each half of a record, before and after planning.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const plan = join(import.meta.dirname, "..", "src", "viewer", "panes", "memory", "plan.ts");
const { outputFiles } =
  await build({ entryPoints: [plan], bundle: true, format: "esm", platform: "node", write: false });
const { planOf } =
  await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
const halves = JSON.parse(readFileSync(process.argv[2], "utf8")).compiles.flatMap(each => each.halves ?? []);
const peaks = halves.map(planOf).map(({ before, after }) => [Math.max(0, ...before), Math.max(0, ...after)]);
process.stdout.write(JSON.stringify(peaks));
