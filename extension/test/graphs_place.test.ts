import assert from "node:assert/strict";
import { test } from "node:test";
import { type Group, groupsIn, type Item } from "../src/viewer/panes/graphs/groups";
import { Kernels } from "../src/viewer/panes/graphs/kernels";
import { firstOpen, shownCount, savedBy, Subject } from "../src/viewer/panes/graphs/subject";
import { HEADER, type Placement, type Shape } from "../src/viewer/panes/graphs/place";
import { paintOf } from "../src/viewer/panes/graphs/paint";
import { markAt, type Scene, sceneOf } from "../src/viewer/panes/graphs/scene";
import { type GraphView, viewsOf } from "../src/viewer/panes/graphs/views";
import { next } from "../src/viewer/panes/graphs/gestures";
import { Links } from "../src/viewer/links";
import { Palette } from "../src/viewer/palette";
import type { CompileData, GraphData, NodeData } from "../src/viewer/record";
import { compile, graph, input, network, node, stage } from "./graphs_records";
import { TooLarge } from "../src/viewer/panes/graphs/layered";

function subjectOf(of: CompileData): { subject: Subject; views: readonly GraphView[] } {
  const views = viewsOf(of);
  return { subject: new Subject(of, views.filter(view => view.family === views[0]!.family), Kernels(of), () => ""),
    views };
}

function subject(made: GraphData): Subject {
  return subjectOf(compile([stage("f0/0", "trace", made)])).subject;
}

function inside(inner: Shape, outer: Shape): boolean {
  return inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width
    && inner.y + inner.height <= outer.y + outer.height;
}

function disjoint(a: Shape, b: Shape): boolean {
  return a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
}

function isAround(group: Item, item: Item): boolean {
  for (let at = item.parent; at; at = at.parent) if (at === group) return true;
  return false;
}

function shapesOf({ shapes }: Placement): Map<Item, Shape> {
  return new Map(shapes.map(shape => [shape.item, shape]));
}

function check(placement: Placement): void {
  const { shapes, wires } = placement;
  const shapeOf = shapesOf(placement);
  for (const a of shapes) {
    for (const b of shapes) {
      if (a === b || isAround(a.item, b.item) || isAround(b.item, a.item)) continue;
      assert.ok(disjoint(a, b), `${a.item.id} and ${b.item.id} lie on each other`);
    }
    const frame = a.item.parent?.parent ? shapeOf.get(a.item.parent) : undefined;
    if (frame) assert.ok(frame.open && inside(a, frame) && a.y >= frame.y + HEADER, `${a.item.id} is out of its frame`);
  }
  for (const wire of wires) {
    const from = shapeOf.get(wire.from)!;
    if (!wire.back) for (let n = 3; n < wire.points.length; n += 2)
      assert.ok(wire.points[n]! >= wire.points[n - 2]! - 1e-9, "an edge goes up");
    assert.ok(wire.to.length > 0 && !from.open);
  }
}

/** That each edge can be followed from box to box through the borders of the frames between. */
function connected(placement: Placement, from: Item, to: Item): void {
  const { wires } = placement;
  const shapeOf = shapesOf(placement);
  const own =
    wires.filter(wire => wire.from === from && wire.to.includes(to)).sort((a, b) => a.points[1]! - b.points[1]!);
  assert.ok(own.length > 0, `no line from ${from.id} to ${to.id}`);
  const [start, end] = [shapeOf.get(from)!, shapeOf.get(to)!];
  let at = { x: start.x + start.width / 2, y: start.y + start.height };
  for (const wire of own) {
    assert.deepEqual({ x: wire.points[0], y: wire.points[1] }, at, `${from.id} to ${to.id}`);
    at = { x: wire.points[wire.points.length - 2]!, y: wire.points[wire.points.length - 1]! };
  }
  assert.deepEqual(at, { x: end.x + end.width / 2, y: end.y });
}

for (const [name, made] of [["layers", network(5, 8)], ["one node", graph([node("aten.a", [])])],
    ["nothing grouped", network(3, 12, false)]] as const) {
  for (const open of ["first", "all", "none"] as const) {
    test(`${name}, ${open} open: no boxes on each other, frames around what is in them, edges down`, () => {
      const of = subject(made);
      const root = of.root("module");
      const groups = open === "first" ? firstOpen(root) : new Set<Group>(open === "all" ? groupsIn(root) : []);
      const placement = of.placement("module", groups);
      check(placement);
      const items = new Set(placement.shown.values());
      assert.equal(items.size, shownCount(root, groups));
      for (const { index, sources } of of.family.vertices) {
        for (const source of sources) {
          const [from, to] = [placement.shown.get(source)!, placement.shown.get(index)!];
          if (from !== to) connected(placement, from, to);
        }
      }
    });
  }
}

test("the same graph is placed the same way, also after groups were opened and closed in another order", () => {
  const made = network(4, 8);
  const [one, other] = [subject(made), subject(made)];
  const ids = (placement: Placement) => placement.shapes.map(({ item, ...rest }) => [item.id, rest]);
  const groups = (of: Subject) => [...groupsIn(of.root("module"))];
  other.placement("module", new Set(groups(other).slice(0, 2)));
  other.placement("module", new Set());
  assert.deepEqual(ids(one.placement("module", new Set(groups(one)))),
    ids(other.placement("module", new Set(groups(other)))));
});

const palette =
  Palette(new Links({ version: 1, title: "", engine: "", target: "", created: "", environment: {}, config: {},
    sources: [], compiles: [], coverage: {} }));

function sceneFor(of: Subject, view: GraphView, changes = true): Scene {
  const root = of.root("module");
  return sceneOf([{
    subject: of, view, placement: of.placement("module", new Set(groupsIn(root))),
    paint: paintOf("operation", of.state(view), of.kernels),
    changes: changes ? of.changesOf(view) : new Map(), saved: savedBy(of.compile),
  }], palette);
}

test("what a pass leaves alone stays in its place; what it removed is shown where it stood, marked", () => {
  const before = network(3, 10);
  const gone = new Set(["aten.op_1_3", "aten.op_2_4"]);
  const rewired = (each: NodeData): NodeData => ({ ...each,
    inputs: each.inputs.map(
      id => (id === "aten.op_1_3" ? "aten.op_1_2" : id === "aten.op_2_4" ? "aten.op_2_3" : id)) });
  const after = graph([...before.nodes.filter(each => !gone.has(each.id)).map(rewired),
    node("aten.extra", ["aten.op_0_1"], { module: "model.h.0.attn" })], ["aten.extra"]);
  const { subject: of, views } = subjectOf(compile([stage("f0/0", "trace", before), stage("f0/1", "pass", after)]));
  const [first, second] = views.map(view => sceneFor(of, view));
  const places = (scene: Scene) => new Map(scene.marks.map(mark => [mark.item.id, [mark.x, mark.y]]));
  const [old, now] = [places(first!), places(second!)];
  for (const [id, place] of old) assert.deepEqual(now.get(id), place, id);
  const signs = new Map(second!.marks.flatMap(mark => (mark.sign ? [[mark.item.id, mark.sign] as const] : [])));
  assert.deepEqual([...signs].sort(), [["aten.extra", "added"], ["aten.op_1_3", "removed"], ["aten.op_1_4", "changed"],
    ["aten.op_2_4", "removed"], ["aten.op_2_5", "changed"]]);
  const looks = new Set(second!.lines.map(line => line.look));
  assert.ok(looks.has("added") && looks.has("removed") && looks.has("plain"));
  const plain = sceneFor(of, views[1]!, false);
  assert.ok(plain.marks.every(mark => !gone.has(mark.item.id) && mark.sign === null));
  assert.ok(plain.lines.every(line => line.look === "plain"));
});

test("a box is found by a point on it, a frame by its header", () => {
  const of = subject(network(2, 8));
  const scene = sceneFor(of, [...of.family.states.values()][0]!.view);
  for (const mark of scene.marks) assert.equal(markAt(scene, mark.x + 3, mark.y + 3), mark, mark.item.id);
  assert.equal(markAt(scene, -50, -50), null);
});

test("arrow keys walk down and up along edges, and to the box beside", () => {
  const of = subject(graph([
    input("aten.x"), node("aten.a", ["aten.x"]), node("aten.b", ["aten.x"]), node("aten.c", ["aten.a", "aten.b"]),
  ]));
  const scene = sceneFor(of, [...of.family.states.values()][0]!.view);
  const seen = { x: 0, y: 0, width: 1000, height: 1000 };
  const mark = (name: string) => scene.marks.find(each => each.item.id === `aten.${name}`)!;
  assert.equal(next(scene, null, "down", seen), mark("x"));
  const [left, right] = [mark("a"), mark("b")].sort((one, other) => one.x - other.x);
  assert.ok([left, right].includes(next(scene, mark("x"), "down", seen)!));
  assert.equal(next(scene, left!, "right", seen), right);
  assert.equal(next(scene, right!, "left", seen), left);
  assert.equal(next(scene, left!, "down", seen), mark("c"));
  assert.ok([left, right].includes(next(scene, mark("c"), "up", seen)!));
  assert.equal(next(scene, mark("c"), "down", seen), null);
});

test("a trunk that edges share is drawn once", () => {
  const of = subject(graph([
    input("aten.x"), node("aten.a", ["aten.x"]), node("aten.b", ["aten.a", "aten.x"]),
    node("aten.c", ["aten.b", "aten.x"]), node("aten.d", ["aten.c", "aten.x"]),
  ]));
  const scene = sceneFor(of, [...of.family.states.values()][0]!.view);
  const trunk = scene.lines.filter(line => line.from.item.id === "aten.x" && line.to[0]!.item.id !== "aten.a")
    .sort((a, b) => b.bounds.height - a.bounds.height);
  assert.equal(trunk.length, 3);
  assert.equal(trunk[0]!.own, 0);
  for (const line of trunk.slice(1)) {
    assert.ok(line.own > 0, "the rest is drawn from where it leaves the trunk");
    assert.deepEqual(line.points.slice(0, line.own - 2), trunk[0]!.points.slice(0, line.own - 2));
  }
});

/** A record made to harm: cycles everywhere, ids given twice, inputs that do not exist, absurd sizes and names. */
function hostile(count: number): CompileData {
  const nodes: NodeData[] = Array.from({ length: count }, (_, n) => node(
    `aten.n${n % (count - 7)}`, [`aten.n${(n + 1) % count}`, `aten.n${(n * 7919) % count}`, "aten.gone", `aten.n${n}`],
    { bytes: [1e308, NaN, -5, Infinity][n % 4], type: `f32[${"9".repeat(n % 500)}]`, module: n % 200
      ? `m.${n % 40}${n % 3 ? ".<script>" : ""}` : "deep.".repeat(20000), name: n % 2 ? "" : "x".repeat(5000) },
  ));
  return compile([stage("f0/0", "trace", graph(nodes, ["aten.gone", "aten.n1", "aten.n1"])),
    stage("f0/1", "pass", graph([...nodes].reverse()), { same_as: "" })]);
}

test("a record made to harm comes out, in bounded time", () => {
  const { subject: of, views } = subjectOf(hostile(1500));
  for (const by of ["module", "kernel", "none"] as const) {
    const root = of.root(by);
    const placement = of.placement(by, firstOpen(root));
    check(placement);
    assert.ok(placement.shapes.every(({ x, y, width, height }) => [x, y, width, height].every(Number.isFinite)));
  }
  for (const coloring of ["operation", "dtype", "kernel", "bytes", "time"] as const) {
    const paint = paintOf(coloring, of.state(views[1]!), of.kernels);
    assert.ok(paint.legend.every(entry => entry.count > 0 && !entry.label.includes("NaN")),
      JSON.stringify(paint.legend));
  }
  assert.throws(() => sceneFor(of, views[1]!), TooLarge);
  const small = subjectOf(hostile(200));
  const scene = sceneFor(small.subject, small.views[1]!);
  assert.ok(scene.marks.every(mark => mark.label.title.length < 40 && mark.label.detail.length < 40));
});

test("how long 10,000 nodes take to open", () => {
  for (
      const [name, made] of [["in modules", network(100, 99)], ["without modules", network(100, 99, false)]] as const) {
    const started = process.cpuUsage();
    const of = subject(made);
    const root = of.root("module");
    const open = firstOpen(root);
    const placement = of.placement("module", open);
    const milliseconds = process.cpuUsage(started).user / 1000;
    console.log(
      `${made.nodes.length} nodes ${name}: ${milliseconds.toFixed(0)} ms of processor time, ${shownCount(root, open)} boxes`);
    assert.ok(placement.shapes.length > 0 && shownCount(root, open) <= 300);
    assert.ok(milliseconds < 20_000);
  }
});
