// What a record of a stranger's may hold, and what the viewer makes of it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { linear, logarithmic } from "../src/viewer/chart";
import { list, type Misfit, text } from "../src/viewer/check";
import { least, most } from "../src/viewer/collections";
import { Links } from "../src/viewer/links";
import { layered, TooLarge } from "../src/viewer/panes/graphs/layered";
import { missingText } from "../src/viewer/ranks/shell";
import { find, stateAt } from "../src/viewer/panes/bytecode/steps";
import { kernelsAt } from "../src/viewer/panes/schedule/fusion";
import type { CompileData, FusionData, StageData, StepData } from "../src/viewer/record";
import { FileNames } from "../src/viewer/sources";
import { artifact, type Branch, compileTree } from "../src/viewer/stages";

function dense(count: number): [{ width: number; height: number }[], { from: { box: number; at: number };
to: { box: number; at: number }[] }[]] {
  const end = (box: number) => ({ box, at: 5 });
  const boxes = Array.from({ length: count }, () => ({ width: 10, height: 10 }));
  return [boxes,
    boxes.slice(1).map((_, n) => ({ from: end(n), to: boxes.slice(n + 1).map((_, m) => end(n + 1 + m)) }))];
}

test("a graph of too many edges is not laid out", () => {
  assert.throws(() => layered(...dense(300)),
    (error: unknown) => error instanceof TooLarge && /44,850 edges between 300 boxes/.test(error.message));
  assert.equal(layered(...dense(40)).x.length, 40);
});

test("lists are cut and told, and items of one id are shown once", () => {
  const misfits: Misfit[] = [];
  assert.deepEqual(list(text, 2)(["a", "b", "c"], misfits), ["a", "b"]);
  assert.match(misfits[0]!.wanted, /at most 2 items/);
  const same = [{ id: "a", n: 1 }, { id: "b", n: 2 }, { id: "a", n: 3 }];
  assert.deepEqual(list((value: unknown) => value, 9, "id")(same, misfits), same.slice(0, 2));
  assert.match(misfits[1]!.wanted, /another id each/);
  const whole = ["a"];
  assert.equal(list(text, 2)(whole, misfits), whole);
});

test("any number of values has a least and a greatest", () => {
  const many = Array.from({ length: 300_000 }, (_, n) => n);
  assert.deepEqual([least(many), most(many), most([], 7)], [0, 299_999, 7]);
});

test("scales give places that can be drawn at", () => {
  for (const value of [0, 5e-324, -1, 1e308, NaN, Infinity]) {
    for (const scale of [linear(0, 1e-300, 0, 100), linear(0, 1e308, 0, 100), logarithmic(1e-300, 1e300, 0, 100),
        logarithmic(5e-324 * 0.9, 1, 0, 100)]) {
      assert.ok(Number.isFinite(scale(value)), `${value}`);
      assert.ok(scale.ticks.length < 2000);
    }
  }
});

const compile = (id: string, more: Partial<CompileData> = {
  }): CompileData => ({ id, title: id, started: 0, seconds: 0, ...more });
const stage = (id: string, same_as = ""): StageData => ({ id, name: id, started: 0, seconds: 0, depth: 0, same_as });

test("stages that name each other in long chains and circles", () => {
  const stages = Array.from({ length: 5000 }, (_, n) => stage(`s${n}`, n ? `s${n - 1}` : "s1"));
  const made = compile("f0", { stages });
  assert.ok(stages.every(each => artifact(made, each) === stages[0]));
});

test("compiles that go on in each other", () => {
  const breaks = (names: string) => [{ why: { code: "", title: "", detail: "" }, instruction: "", span: null, stack: [],
    hints: [], continuation: names }];
  const all =
    Array.from({ length: 1000 },
      (_, n) =>
        compile(`f${n}`, { breaks: breaks(Array.from({ length: 50 }, (_, m) => `f${(n + m) % 1000}`).join(", ")) }));
  const count = (branches: readonly Branch[]): number =>
    branches.reduce((sum, each) => sum + 1 + count(each.children), 0);
  assert.equal(count(compileTree(all)), 1000);
});

test("a line of very many origins", () => {
  const origins = Array.from({ length: 100_000 }, (_, n) => `o${n % 60_000}`);
  const links =
    new Links({ compiles: [compile("f0", { stages: [{ ...stage("s"), body: { lines: [["x", "l", origins]] } }] })] });
  assert.equal(links.causes("f0|l" as never).size, 60_001);
});

test("missing ranks are told as ranges", () => {
  assert.equal(missingText({ missing: [0, 1, 2, 5] } as never), "Ranks 0 to 2, 5 left no logs here.");
});

/** Whether it takes less than two seconds of the processor. */
function quick(does: () => unknown): boolean {
  const start = process.cpuUsage();
  does();
  return process.cpuUsage(start).user < 2e6;
}

test("steps of long chains of calls, and indices of what is not there", () => {
  const many = 100_000;
  const activations = Array.from({ length: many }, (_, n) => ({ function: `f${n}`, caller: n - 1 }));
  const trace = activations.map((_, n): StepData => ["i", n, 0, n, [n, -1, 2 ** 62], { a: n + many }]);
  const made = compile("f0", { activations, trace, values: [["v"]], made: { a: 2 ** 62 } });
  assert.ok(quick(() => stateAt(made, many - 1)));
  assert.equal(stateAt(made, many - 1)?.calls.length, many);
  assert.ok(quick(() => find(made, new Map(), FileNames([]), "attempt>3 restart:")));
  const odd = compile("f1", { trace: [["i", -7, 0, -2, [5]], ["i", 2 ** 53, 0, 2 ** 53, [-1]]] });
  assert.deepEqual(stateAt(odd, 1)?.stack, [["?"]]);
  assert.deepEqual(find(odd, new Map(), FileNames([]), "depth:"), [0, 1]);
});

test("a fusion of what was fused already, and very many", () => {
  const why = { code: "", title: "" };
  const row = (first: string, second: string): FusionData => ({ first, second, ok: true, why });
  const again = Array.from({ length: 5000 }, () => row("a", "b"));
  assert.deepEqual(kernelsAt([...again, row("a", "a"), row("c", "c")], 9999), [["a", "b"]]);
  const many = Array.from({ length: 100_000 }, (_, n) => [row("a", `b${n}`), row(`c${n}`, "c")][n % 2]!);
  assert.ok(quick(() => kernelsAt(many, many.length)));
});
