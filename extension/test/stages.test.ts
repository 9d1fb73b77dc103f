import assert from "node:assert/strict";
import { test } from "node:test";
import type { CompileData, GraphData, NodeData, RecordData, StageData } from "../src/viewer/record";
import { listedOf, places } from "../src/viewer/panes/breaks";
import { artifact, type Branch, callsIn, compileCalled, compileTree, countsPhrase, countsText, fittingPane, halfName,
  ownSeconds, passCounts, recompileCause, stageBefore, whyNone } from "../src/viewer/stages";

const node = (id: string, target = "add",
  inputs: string[] = []): NodeData => ({ id, name: id, op: "call", target, type: "f32[2]", inputs, origins: [] });
const graph = (...nodes: NodeData[]): GraphData => ({ name: "g", nodes, outputs: [] });
const stage = (id: string, name: string, more: Partial<StageData> = {
  }): StageData => ({ id, name, started: 0, seconds: 1, depth: 0, ...more });

function compile(id: string, title: string, more: Partial<CompileData> = {}): CompileData {
  return { id, title, started: 0, seconds: 1, ...more };
}

const passes = compile("f0", "f", { stages: [
  stage("f0/0", "capture", { graph: graph(node("fx.a")) }),
  stage("f0/1", "trace", { graph: graph(node("aten.a"), node("aten.b"), node("aten.c")) }),
  stage("f0/2", "dead code", { same_as: "f0/1" }),
  stage("f0/3", "no-ops", { graph: graph(node("aten.a"), node("aten.b", "mul"), node("aten.d")) }),
] });
const [capture, trace, dead, noops] = passes.stages as [StageData, StageData, StageData, StageData];

test("a stage that changed nothing shows what the one before made", () => {
  assert.equal(artifact(passes, dead), trace);
  assert.equal(artifact(passes, noops), noops);
});

test("a pass is compared with the graph it was given; a new kind of graph with none", () => {
  assert.equal(stageBefore(passes, noops), trace);
  const counts = passCounts(passes, noops)!;
  assert.deepEqual(counts, { added: 1, removed: 1, changed: 1 });
  assert.deepEqual([countsText(counts), countsPhrase(counts)], ["+1 −1 ~1", "1 added, 1 removed, 1 changed"]);
  for (const each of [trace, capture, dead]) assert.equal(passCounts(passes, each), undefined);
  const folded = (constant: string) => stage(`f0/${constant}`, "constant folding", { graph: graph(node("aten.a")),
    body: { lines: [[`  a: f32[4] = aten.add.Tensor(x, ${constant})  # a.py:1`, "aten.a", []]] } });
  const folding = compile("f0", "f", { stages: [folded("1"), folded("2")] });
  assert.deepEqual(passCounts(folding, folding.stages![1]!), { added: 0, removed: 0, changed: 1 },
    "a constant is in the text alone");
});

test("each stage opens a pane that shows it", () => {
  const names: { [name: string]: string } = {
    decode: "bytecode", capture: "graphs", lower: "schedule", fuse: "schedule", "plan memory": "memory",
    generate: "code", build: "code", link: "guards", rejoin: "text",
  };
  for (const [name, pane] of Object.entries(names)) assert.equal(fittingPane(stage("s", name)), pane, name);
  assert.equal(fittingPane(stage("s", "a pass of the user", { graph: graph() })), "graphs");
});

test("halves have names where there are two", () => {
  assert.equal(halfName(passes, "f0_forward"), "forward");
  assert.equal(halfName(passes, "f0"), "");
  const again = compile("f0.1", "f");
  assert.deepEqual(["f0_1_forward", "f0.1_forward", "f0_1"].map(half => halfName(again, half)), ["forward", "forward", ""]);
});

const broke = (continuation: string) =>
  [{ why: { code: "c", title: "call of print" }, instruction: "f0@1", span: null, stack: [], hints: [], continuation }];
const shape = (branches: readonly Branch[]): unknown =>
  branches.map(({ compile, breaks, relation, children }) => [compile.id, relation, breaks, shape(children)]);

test("continuations hang below the compile that breaks, recompiles below the first of their frame", () => {
  const compiles = [
    compile("f0", "f", { breaks: broke("resume_a, resume_b") }), compile("f1", "resume_a"),
    compile("f2", "resume_b", { breaks: broke("resume_c") }),
    compile("f0.1", "f"), compile("f3", "resume_c"), compile("f4", "other"),
  ];
  assert.deepEqual(shape(compileTree(compiles)), [
    ["f0", "frame", [], [
      ["f1", "continuation", ["call of print"], []],
      ["f2", "continuation", ["call of print"], [["f3", "continuation", ["call of print"], []]]],
      ["f0.1", "recompile", [], []],
    ]],
    ["f4", "frame", [], []],
  ]);
});

test("a continuation names the compile it continues; a loop of names ends", () => {
  assert.deepEqual(shape(compileTree([compile("f0", "f"), compile("f1", "g", { continues: "f0" })])), [
    ["f0", "frame", [], [["f1", "continuation", [], []]]],
  ]);
  const looped = compileTree([compile("f0", "a", { breaks: broke("b") }), compile("f1", "b", { breaks: broke("a") })]);
  const ids = (branches: readonly Branch[]): string[] =>
    branches.flatMap(each => [each.compile.id, ...ids(each.children)]);
  assert.deepEqual(ids(looped).sort(), ["f0", "f1"]);
});

test("stages that name each other as their artifact do not go round for ever", () => {
  const one = { id: "f0/0", name: "a", started: 0, seconds: 0, depth: 0, same_as: "f0/1" };
  const other = { ...one, id: "f0/1", name: "b", same_as: "f0/0" };
  const looped = { id: "f0", title: "f", started: 0, seconds: 0, stages: [one, other] };
  assert.equal(artifact(looped, one), one);
  assert.equal(artifact(looped, other), one);
});

test("what a stage took is its own: stages inside it have theirs, however the list is ordered", () => {
  const outer = stage("a", "dynamo", { seconds: 10 });
  const inner = stage("b", "backend", { started: 2, seconds: 6, depth: 2 });
  const mark = stage("c", "graph break", { started: 3, seconds: 0, depth: 1 });
  const inmost = stage("d", "inductor", { started: 4, seconds: 1, depth: 3 });
  const after = stage("e", "build", { started: 10, seconds: 4, depth: 1 });
  const own = ownSeconds([outer, inner, mark, inmost, after]);
  assert.deepEqual([...own.values()], [4, 5, 0, 1, 4]);
});

test("what happened outside any compile is the tree's last branch", () => {
  const ids = compileTree([compile("process", "outside any compile"), compile("f0", "f"), compile("f1", "g")])
    .map(each => each.compile.id);
  assert.deepEqual(ids, ["f0", "f1", "process"]);
});

test("a compile that broke with operations before it has code, which a record may not hold", () => {
  const broke = { title: "call of print" } as unknown as NonNullable<CompileData["breaks"]>[number];
  assert.match(whyNone("code", compile("f0", "f", { breaks: [broke] })), /breaks before there is anything/);
  const captured = { stages: [stage("f0/0", "capture", { graph: graph(node("fx.a")) })], breaks: [broke] };
  assert.equal(whyNone("code", compile("f0", "f", captured)), "There is no code: it is not in this record.");
});

test("what takes a result out of a tuple is no operation, an index into a tensor is one", () => {
  const node = (id: string, target: string, type: string,
    ...inputs: string[]) => ({ id, name: id, op: "call_function", target, type, inputs, origins: [] });
  const nodes = [node("m", "max", "(f32[4], i64[4])"), node("v", "operator.getitem", "f32[4]", "m"),
    node("e", "operator.getitem", "f32[]", "v")];
  assert.deepEqual(callsIn({ name: "g", nodes, outputs: [] }).map(each => each.id), ["m", "e"]);
});

test("of two functions of one name, and their continuations, each compile means its own", () => {
  const compiles = [compile("f0", "f"), compile("f1", "f"), compile("f2", "resume_f", { continues: "f0" }),
    compile("f3", "resume_f", { continues: "f1" })];
  const called = (name: string, from: string) => compileCalled(compiles, name, from)?.id;
  assert.deepEqual([called("f", "f0"), called("f", "f1"), called("f", "f9")], ["f0", "f1", "f0"]);
  assert.deepEqual([called("resume_f", "f0"), called("resume_f", "f1"), called("g", "f0")], ["f2", "f3", undefined]);
});

test("why a function was recompiled is said with the name of what changed", () => {
  const changes = [{ said: "n is 3, expected 2", of: "f1" }, { said: "x.size(0) is 16, expected 8", of: "f0" }];
  const record = { history: [{ function: "f", first: 2, last: 2, compiles: ["f0.1"], made: ["f0.1"], changes }] };
  const cause = (id: string) => recompileCause(record as unknown as RecordData, compile(id, "f"));
  assert.deepEqual([cause("f0.1"), cause("f0")], ["x.size(0) is 16, expected 8", ""]);
});

test("graph breaks are counted by place, and listed up to a limit, with those of the chosen compile", () => {
  const broke = (line: number) =>
    ({ instruction: line, span: { file: "a.py", line, column: 0 } }) as unknown as NonNullable<CompileData["breaks"]>[0];
  const of = (id: string, engine: string, ...lines: number[]) =>
    ({ id, engine, title: id, breaks: lines.map(broke) }) as unknown as CompileData;
  const many = Array.from({ length: 300 }, (_, line) => line);
  const compiles = [of("f0", "explorer", ...many), of("f1", "explorer", 7, 250, 999), of("s0", "stock", 7)];
  const found = places(compiles);
  assert.equal(found.length, 302, "a place in two frames is one, and one of each compiler");
  assert.deepEqual(found[7]?.map(([each]) => each.id), ["f0", "f1"]);
  const lines = (id: string) => listedOf(found, id).map(([[, each] = [, null]]) => each?.span?.line);
  assert.deepEqual(lines("f0"), many);
  assert.deepEqual(lines("f1"), [...many.slice(0, 200), 250, 999]);
  assert.deepEqual(lines("s0"), [...many.slice(0, 200), 7]);
  assert.deepEqual(lines(""), many.slice(0, 200));
});
