import assert from "node:assert/strict";
import { test } from "node:test";
import { differences, familyOf } from "../src/viewer/panes/graphs/family";
import { viewAt, viewsOf } from "../src/viewer/panes/graphs/views";
import { changesOf } from "../src/viewer/stages";
import { compile, graph, input, node, stage } from "./graphs_records";

const captured = graph([input("fx.x"), node("fx.relu", ["fx.x"], { target: "torch.relu" })]);
const traced = graph([
  input("aten.x"), node("aten.a", ["aten.x"]), node("aten.b", ["aten.x"]), node("aten.c", ["aten.a", "aten.b"]),
  input("aten.tangent_0"),
  node("aten.g", ["aten.tangent_0", "aten.a"]),
], ["aten.c", "aten.g"]);
const cleaned = graph([
  input("aten.x"), node("aten.a", ["aten.x"]), node("aten.new", ["aten.a"]), node("aten.c", ["aten.a", "aten.new"]),
  input("aten.tangent_0"),
  node("aten.g", ["aten.tangent_0", "aten.a"]),
], ["aten.c", "aten.g"]);
const forward = { ...graph([input("aten.x"), node("aten.a", ["aten.x"])]), name: "f0_forward" };
const backward = { ...graph([input("aten.a"), input("aten.tangent_0"), node("aten.g", ["aten.tangent_0", "aten.a"])]),
  name: "f0_backward" };

const made = compile([
  stage("f0/0", "decode", null),
  stage("f0/1", "capture", captured),
  stage("f0/2", "trace", traced),
  stage("f0/3", "dead code", null, { same_as: "f0/2" }),
  stage("f0/4", "cse", cleaned),
  stage("f0/5", "partition", null, {
    halves: [forward, backward],
    body: { lines: [["kept: 1 value"], ["graph f0_forward(x):"], ["  a: f32 = aten.add(x, 1)", "aten.a"],
      ["graph f0_backward(a, tangent_0):"], ["  g: f32 = aten.add(a)", "aten.g"]] },
  }),
  stage("f0/6", "lower", null, { half: "f0_backward" }),
], {
  eager_backward: [
    { id: "grad.Relu", name: "ReluBackward0", origins: ["fx.relu"], inputs: ["grad.Leaf"] },
    { id: "grad.Leaf", name: "AccumulateGrad", origins: [], inputs: [] },
  ],
});

test("the graphs of a compile, each with its kind and the state before it", () => {
  const views = viewsOf(made);
  assert.deepEqual(views.map(view => [view.id, view.kind, view.before?.id ?? null]), [
    ["f0/1", "captured", null], ["eager", "eager", null], ["f0/2", "joint", null], ["f0/4", "joint", "f0/2"],
    ["f0/5:forward", "forward", null], ["f0/5:backward", "backward", null],
  ]);
  assert.deepEqual(views[4]!.lines.map(([text]) => text), ["graph f0_forward(x):", "  a: f32 = aten.add(x, 1)"]);
  assert.deepEqual(views[5]!.lines.map(([text]) => text),
    ["graph f0_backward(a, tangent_0):", "  g: f32 = aten.add(a)"]);
});

test("gradients flow from the loss: eager's graph reads in that direction", () => {
  const eager = viewsOf(made).find(view => view.kind === "eager")!;
  assert.deepEqual(eager.graph.nodes.map(each => [each.id, each.inputs]),
    [["grad.Relu", []], ["grad.Leaf", ["grad.Relu"]]]);
});

test("a stage shows its own graph, the one that it left as it was, or the last before it", () => {
  const views = viewsOf(made);
  const at = (id: string) => viewAt(views, made, id)?.id;
  assert.equal(at("f0/0"), undefined);
  assert.equal(at("f0/1"), "f0/1");
  assert.equal(at("f0/3"), "f0/2");
  assert.equal(at("f0/4"), "f0/4");
  assert.equal(at("f0/6"), "f0/5:forward");
  assert.equal(at("no such stage"), undefined);
});

test("a family holds each node once, new ones where they came in", () => {
  const family = familyOf(viewsOf(made).filter(view => view.kind === "joint"));
  assert.deepEqual(family.vertices.map(each => each.key),
    ["aten.x", "aten.a", "aten.new", "aten.b", "aten.c", "aten.tangent_0", "aten.g"]);
  assert.deepEqual(family.vertices.filter(each => each.backward).map(each => each.key), ["aten.tangent_0", "aten.g"]);
});

test("what a pass did to each node", () => {
  const family = familyOf(viewsOf(made).filter(view => view.kind === "joint"));
  const [before, after] = [family.states.get("f0/2")!, family.states.get("f0/4")!];
  const named = [...changesOf(before.nodes, after.nodes)].map(([at, sign]) => [family.vertices[at]!.key, sign]);
  assert.deepEqual(named, [["aten.new", "added"], ["aten.c", "changed"], ["aten.b", "removed"]]);
  const at = family.vertices.findIndex(each => each.key === "aten.c");
  assert.deepEqual(differences(before.nodes.get(at)!, after.nodes.get(at)!),
    ["inputs: aten.a, aten.b → aten.a, aten.new"]);
  assert.deepEqual([...changesOf(after.nodes, after.nodes)], []);
});

test("a constant that a pass replaced is a change, though the record has it in the text alone", () => {
  const body = (constant: string) => ({
    lines: [["  a: f32[4, 8] = aten.add.Tensor(x, " + constant + ")  # a.py:1", "aten.a", []]] as const });
  const nodes = graph([input("aten.x"), node("aten.a", ["aten.x"])]);
  const of =
    compile([stage("f0/0", "trace", nodes, { body: body("1") }), stage("f0/1", "fold", nodes, { body: body("2") })]);
  const family = familyOf(viewsOf(of));
  const [before, after] = [family.states.get("f0/0")!, family.states.get("f0/1")!];
  assert.deepEqual([...changesOf(before.nodes, after.nodes)], [[1, "changed"]]);
  assert.deepEqual(differences(before.nodes.get(1)!, after.nodes.get(1)!),
    ["call: aten.add.Tensor(x, 1) → aten.add.Tensor(x, 2)"]);
});

test("passes over a half start from the half that the partition cut", () => {
  const passes = compile([...(made.stages ?? []), stage("f0/7", "views", forward, { half: "f0_forward" }),
    stage("f0/8", "copies", backward, { half: "f0_backward" })]);
  assert.deepEqual(viewsOf(passes).slice(-2).map(view => [view.kind, view.before?.id]),
    [["forward", "f0/5:forward"], ["backward", "f0/5:backward"]]);
});

test("a compile without graphs has no views", () => {
  assert.deepEqual(viewsOf(compile([])), []);
  assert.deepEqual(viewsOf(compile([stage("f0/0", "decode", null, { error: "RuntimeError: no" })])), []);
  assert.equal(viewAt([], compile([]), ""), undefined);
});

test("graphs of a log share no nodes, and none is a later state of another", () => {
  const of =
    compile(["captured", "joint0", "fw", "bw"].map(
      (level, n) => stage(`s0/${n}`, level, graph([input(`${level}.x`), node(`${level}.y`, [`${level}.x`])]))));
  assert.deepEqual(viewsOf(of).map(view => [view.kind, view.before]),
    [["captured", null], ["traced", null], ["forward", null], ["backward", null]]);
  assert.equal(new Set(viewsOf(of).map(view => view.family)).size, 4);
});
