import assert from "node:assert/strict";
import { test } from "node:test";
import { comparable, compilePairs, facts, inOrder, stagePairs } from "../src/viewer/diff/compare";
import { renamedDiff, aligned, unified } from "../src/viewer/diff/lines";
import { Links } from "../src/viewer/links";
import type { CompileData, RecordData, StageData } from "../src/viewer/record";
import { couple, Selection } from "../src/viewer/selection";
import { Signal } from "../src/viewer/signal";
import { FileNames } from "../src/viewer/sources";
import type { TextRow } from "../src/viewer/textview";

const stage = (name: string, text: string, more: Partial<StageData> = {}): StageData =>
  ({ id: name, name, started: 0, seconds: 1, depth: 0, body: { lines: text.split("\n").map(line => [line] as const) },
    ...more });
const compile = (id: string, title: string,
  ...stages: StageData[]): CompileData => ({ id, title, started: 0, seconds: 1, stages });
const record = (...compiles: CompileData[]): RecordData =>
  ({ version: 1, title: "t", engine: "explorer", target: "cpu", created: "", environment: {}, config: {}, sources: [],
    coverage: {}, compiles });

const PLAIN = [FileNames([]), FileNames([])] as const;

test("compiles are paired by id, then by function, and none is lost", () => {
  const before = record(compile("f0", "f"), compile("f1", "g"), compile("f2", "h"));
  const after = record(compile("f0", "f"), compile("f1", "k"), compile("f3", "g"));
  assert.deepEqual(compilePairs(before, after).map(({ before: old, after: fresh }) => [old?.id, fresh?.id]), [
    ["f0", "f0"], ["f1", "f3"], ["f2", undefined], [undefined, "f1"],
  ]);
});

test("of one record the earlier compile is before, and so is one of another record", () => {
  const [first, second] = [compile("f0", "f"), compile("f0.1", "f")];
  const both = record(first, second);
  assert.deepEqual(inOrder(both, first, second), { before: first, after: second });
  assert.deepEqual(inOrder(both, second, first), { before: first, after: second });
  const other = compile("f0", "f");
  for (const own of [first, second]) assert.deepEqual(inOrder(both, own, other), { before: other, after: own });
});

test("stages are paired by name and half, and marked where their texts differ", () => {
  const before = compile("f0", "f", stage("trace", "a"), stage("lower", "x", { half: "f0_forward" }),
    stage("lower", "y", { half: "f0_backward" }), stage("old", ""), stage("pass", "p"), stage("pass", "q"));
  const after = compile("f0.1", "f", stage("trace", "a"), stage("new", ""), stage("lower", "x2",
    { half: "f0.1_forward" }), stage("lower", "y", { half: "f0.1_backward" }), stage("pass", "p"), stage("pass", "r"));
  assert.deepEqual(stagePairs({ before, after }, PLAIN).map(each => [each.id, each.state]), [
    ["trace", "same"], ["new", "only after"], ["lower, forward", "changed"], ["lower, backward", "same"],
    ["old", "only before"],
    ["pass", "same"], ["pass #2", "changed"],
  ]);
  assert.deepEqual(stagePairs({ after }, PLAIN).map(each => each.state), Array(6).fill("only after"));
});

test("two compilers are compared by operations and kernels, not by their texts", () => {
  const graph = (...targets: string[]) => ({
    nodes: targets.map(
      (target, n) => ({ id: `aten.${n}`, name: `n${n}`, op: "call_function", target, type: "f32[4]",
        inputs: [] as string[] })) }) as unknown as NonNullable<StageData["graph"]>;
  const half = (...kernels: string[][]) => ({
    name: "h", target: "cpu",
    operations: kernels.flat()
      .map(id => ({ id, kind: "loop", target: "", reads: [], writes: [], origins: [`aten.${id}_1`] })),
    schedule: { items: kernels.map((operations, n) => ({ id: `k${n}`, kind: "kernel", operations })), fusions: [] },
  });
  const ours =
    { ...compile("f0", "f", stage("capture", "a", { graph: graph("torch.sigmoid", "sum") }), stage("trace", "b",
      { graph: graph("aten.exp.default", "aten.sum.dim") }), stage("link", "x")), halves: [half(["exp", "sum"])] };
  const stock =
    { ...compile("s0", "f", stage("capture", "A", { graph: graph("torch.sigmoid", "sum") }),
      stage("joint", "B", { graph: graph("aten.exp.default", "aten.mean.dim") }), stage("rewritten bytecode", "y")),
      halves: [half(["exp"], ["mean"])], engine: "stock" };
  const pair = { before: { ...ours, engine: "explorer" }, after: stock } as unknown as { before: CompileData;
  after: CompileData };
  assert.deepEqual(stagePairs(pair, PLAIN).map(each => each.state), ["alike", "changed", "other"]);
  const both = record(pair.before, pair.after);
  assert.deepEqual(facts(both, both, ["explorer", "stock"], pair).slice(0, 4), [
    ["operations captured", "2", "2"], ["ATen operations", "2; only here: sum", "2; only here: mean"],
    ["library calls", "0", "0"],
    ["kernels, by their operations", "1; only here: exp + sum", "2; only here: exp, mean"],
  ]);
});

test("a stage that left its graph as it was is compared by that graph", () => {
  const first = stage("trace", "a");
  const before = compile("f0", "f", first, stage("cse", "", { body: null, same_as: "trace" }));
  const after = compile("f0", "f", stage("trace", "a"), stage("cse", "a"));
  assert.deepEqual(stagePairs({ before, after }, PLAIN).map(each => each.state), ["same", "same"]);
  const other = compile("f0", "f", stage("trace", "b"), stage("cse", "", { body: null, same_as: "trace" }));
  assert.deepEqual(stagePairs({ before, after: other }, PLAIN).map(each => each.state), ["changed", "idle"]);
});

test("a cell that was run again is the same cell, whatever Python calls it", () => {
  const ran = (file: string, name: string, of: number) => {
    const made = compile("f0", "f", stage("capture", `y = relu(x)  # ${file}:2\nz = y * ${of}  # ${file}:3`),
      stage("trace", `y = relu(x)  # ${file}:2`));
    return { ...record(made), sources: [{ file: `/tmp/ipykernel_7/${file}`, first_line: 1, text: "", name }] };
  };
  const [before, after] = [ran("311.py", "In[3]", 2), ran("186.py", "In[5]", 3)];
  const pairs =
    stagePairs({ before: before.compiles[0], after: after.compiles[0] }, [comparable(before), comparable(after)]);
  assert.deepEqual(pairs.map(each => each.state), ["changed", "same"]);
});

const rows = (...texts: string[]): TextRow[] => texts.map(text => ({ text }));
const read = (each: readonly TextRow[]) =>
  each.map(row => `${row.number ?? " "}${row.text}${row.style === "filler" ? "." : ""}`);

test("two columns line up", () => {
  const made = aligned(rows("a", "b", "c"), rows("a", "x", "y", "c"), false);
  assert.deepEqual(read(made.before), [" a", "−b", " .", " c"]);
  assert.deepEqual(read(made.after), [" a", "+x", "+y", " c"]);
  assert.deepEqual([made.starts, made.removed, made.added], [[1], 1, 2]);
});

test("one column has what went above what came", () => {
  const made = unified(rows("a", "b", "c", "d"), rows("a", "x", "y", "c"), false);
  assert.deepEqual(read(made.rows), [" a", "−b", "+x", "+y", " c", "−d"]);
  assert.deepEqual(made.starts, [1, 5]);
});

test("runs of equal lines are folded, with a few kept beside a difference", () => {
  const text = Array.from({ length: 20 }, (_, n) => `l${n}`);
  const made = aligned(rows(...text, "old"), rows(...text, "new"), true);
  assert.deepEqual(read(made.after), [" 17 lines are the same", " l17", " l18", " l19", "+new"]);
  assert.equal(made.before.length, made.after.length);
});

test("the facts name what is not the same in settings, and all that is measured", () => {
  const found = facts({ ...record(compile("f0", "f")), config: { dynamic: "None", fuse: "True" } },
    { ...record(), config: { dynamic: "True", fuse: "True" } });
  const named = Object.fromEntries(found.map(([name, before, after]) => [name, [before, after]]));
  assert.deepEqual(named["setting dynamic"], ["None", "True"]);
  assert.equal(named["setting fuse"], undefined);
  assert.deepEqual(named.compiles, ["1", "0"]);
});

test("the facts begin with the answers at a glance, those of each engine by themselves", () => {
  const part = (what: string, said: string, state = "unknown",
    engine = "explorer") => ({ what, said, state, pane: "timing", engine });
  const before = { ...record(), glance: [part("speed", "not timed"), part("breaks", "1 graph break", "attention"),
    part("error", "raises", "wrong", "")] };
  const after = { ...record(),
    glance: [part("speed", "2x faster than eager", "ok"), part("speed", "not timed", "unknown", "stock")] };
  assert.deepEqual(facts(before, after).slice(0, 4), [
    ["speed of explorer", "? not timed", "✓ 2x faster than eager"], ["breaks of explorer", "⚠ 1 graph break", ""],
    ["error", "✗ raises", ""], ["speed of stock", "", "? not timed"],
  ]);
  assert.deepEqual(facts(after, after, ["stock", undefined])[0], ["speed", "? not timed", "✓ 2x faster than eager"],
    "two engines of one record");
});

test("what is selected on one side is on the other, in the compile it is compared with", () => {
  const selections = [0, 1].map(() => Selection(new Signal(new Links(record())))) as [Selection, Selection];
  const end = couple(selections[0], "f0", selections[1], "f0.1");
  selections[0].hovered.value = "f0|aten.add";
  assert.equal(selections[1].hovered.value, "f0.1|aten.add");
  selections[1].pin("|m.py:3");
  assert.equal(selections[0].pinned.value, "|m.py:3");
  end();
  selections[0].hovered.value = null;
  assert.equal(selections[1].hovered.value, "f0.1|aten.add");
});

test("stages of ours and of stock stand beside each other by what they do", () => {
  const before = compile("f0", "f", stage("capture", "a"), stage("trace", "b"), stage("fuse", "c", { half: "f0" }));
  const after =
    compile("s0", "f", stage("capture", "a"), stage("joint", "b2"), stage("fuse", "c", { half: "s0_inference" }));
  assert.deepEqual(stagePairs({ before, after }, PLAIN).map(each => [each.name, each.state]),
    [["capture", "same"], ["trace → joint", "changed"], ["fuse", "same"]]);
});

test("names and line numbers are no difference where each stands for one other in all lines", () => {
  const before = ["x: f32[4] = input  # a.py:1", "sum_1: f32[] = x.sum()  # a.py:2",
    "truediv: f32[4] = x / sum_1  # a.py:3", "return truediv"];
  const after = ["y: f32[4] = input  # a.py:7", "sum_2: f32[] = y.sum()  # a.py:8",
    "truediv_1: f32[4] = y / sum_2  # a.py:9", "return truediv_1"];
  assert.equal(renamedDiff(before, after).alike, true);
  const altered = (n: number, line: string) => after.map((each, at) => (at === n ? line : each));
  const differing = [
    altered(2, "truediv_1: f32[4] = sum_2 / y"), altered(1, "sum_2: f16[] = y.sum()"), altered(3, "return y"),
    altered(1, "sum_2: f32[] = y.mean()"),
    [...after, "return y"], altered(2, "truediv_1: f32[4] = y / sum_2 + 2"),
  ];
  for (const other of differing) assert.equal(renamedDiff(before, other).alike, false, other.join("\n"));
  const [changed] = renamedDiff(before, differing[0]!).runs.filter(run => run.kind === "changed");
  assert.deepEqual([changed?.from, changed?.to], [[2], [2]]);
  assert.equal(renamedDiff(["cuda:sm_90", "k = f(dim=1)"], ["cuda:sm_80", "k = f(axis=1)"]).alike, false);
  const [one, two] =
    [compile("f0", "f", stage("trace", before.join("\n"))), compile("f0", "g", stage("trace", after.join("\n")))];
  assert.deepEqual(stagePairs({ before: one, after: two }, PLAIN).map(each => each.state), ["renamed"]);
});

test("two compiles of one record are told by what each is, not twice by the record's answers", () => {
  const graph = (n: number) => ({
    nodes: Array.from({ length: n },
      () => ({ op: "call_function", target: "relu", type: "f32[4]",
        inputs: [] as string[] })) }) as unknown as StageData["graph"];
  const glance = [{ what: "breaks", said: "no graph breaks", state: "ok", pane: "breaks" }];
  const first = compile("f0", "f", stage("capture", "a", { graph: graph(2) }));
  const again = { ...compile("f0.1", "f", stage("capture", "a", { graph: graph(3) })),
    recompiles: [{ of: "f0", guard: "", expression: "", why: "n is 3, expected 2" }] };
  const both = { ...record(first, again), glance };
  const told = facts(both, both, undefined, { before: first, after: again });
  assert.deepEqual(told.slice(0, 3), [["compiled again because", "", "n is 3, expected 2"], ["Python", "", ""],
    ["Graph", "2 operations", "3 operations"]]);
  assert.ok(!told.flat().includes("✓ no graph breaks"));
  assert.ok(facts(both, { ...both }, undefined, { before: first, after: again }).flat().includes("✓ no graph breaks"));
});
