// What the viewer decides of each guard on described calls, for the Python tests that compare it with the real checks:
// a call a line, {guards, inputs, state}, to a line of [["holds" | "fails" | "undecided", how], ...].
import { join } from "node:path";
import { createInterface } from "node:readline";
import { build } from "esbuild";

const check = join(import.meta.dirname, "..", "src", "viewer", "panes", "guards", "check.ts");
const { outputFiles } =
  await build({ entryPoints: [check], bundle: true, format: "esm", platform: "node", write: false });
const { decide } =
  await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
for await (const line of createInterface({ input: process.stdin })) {
  const { guards, inputs, state } = JSON.parse(line);
  const decided = decide(guards, { inputs: new Map(inputs.map(each => [each.source, each])), state });
  console.log(JSON.stringify(decided.map(({ outcome, how }) => [outcome, how.join(", ")])));
}
