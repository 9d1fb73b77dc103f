// Prints what the viewer decides of each guard on each described call, for the Python test that compares the two:
// from [{guards, inputs, state}, ...] to [["holds" | "fails" | "undecided", ...], ...].
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const check = join(import.meta.dirname, "..", "src", "viewer", "panes", "guards", "check.ts");
const { outputFiles } = await build({ entryPoints: [check], bundle: true, format: "esm", platform: "node", write: false });
const { decide } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
const calls = JSON.parse(readFileSync(process.argv[2], "utf8"));
const decided = calls.map(({ guards, inputs, state }) =>
  decide(guards, { inputs: new Map(inputs.map(each => [each.source, each])), state }).map(each => each.outcome));
process.stdout.write(JSON.stringify(decided));
