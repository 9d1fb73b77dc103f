import assert from "node:assert/strict";
import { test } from "node:test";
import type { BufferData, FusionData, HalfData, ItemData, OperationData, WhyData } from "../src/viewer/record";
import { facetsOf } from "../src/viewer/choices";
import { sortedBy } from "../src/viewer/datatable";
import { inUse, planOf, rowsOf } from "../src/viewer/panes/memory/plan";
import { Model } from "../src/viewer/model";
import { named, rail } from "../src/viewer/panes/schedule/draw";
import { Pairs } from "../src/viewer/panes/schedule/fusion";

const why = (code: string, detail = ""): WhyData => ({ code, title: code, detail });
const operation = (id: string, reads: string[], kind = "loop",
  target = "pointwise"): OperationData => ({ id, kind, target, reads, writes: [id], origins: [] });
const item = (id: string, ...operations: string[]): ItemData =>
  operations[0] === id ? { id, kind: "extern", operations, why: why("refuse.library_call", "aten.mm") }
    : { id, kind: "kernel", operations };
const fusion = (first: string, second: string, ok: boolean,
  code = "because"): FusionData => ({ first, second, ok, why: why(code) });

/** x -> a -> b -> call -> c, and d apart from them; e only with a through b. */
const half: HalfData = {
  name: "f0", target: "cpu",
  operations: [
    operation("a", ["x"]), operation("b", ["a"]), operation("e", ["b"]), operation("call", ["b"], "extern", "aten.mm"),
    operation("c", ["call", "b"]), operation("d", ["y"]), operation("g", ["x"]),
  ],
  schedule: {
    items: [item("k0", "a", "b", "e"), item("call", "call"), item("k1", "c"), item("k2", "d"), item("k3", "g")],
    fusions: [fusion("a", "b", true), fusion("b", "e", true), fusion("b", "c", false, "refuse.cycle")],
    otherwise: why("refuse.nothing_shared"),
  },
};
const explain = (first: string, second: string) => {
  const { together, headline, statements } = Pairs(half, id => id).explain(first, second);
  return { together, headline, texts: statements.map(each => each.text),
    codes: statements.map(each => each.why?.code) };
};

test("a verdict of the compiler's own, in either order", () => {
  assert.deepEqual(explain("b", "a"),
    { together: true, headline: "Fused, in k0", texts: ["a with b:"], codes: ["because"] });
  assert.deepEqual(explain("c", "b").codes, ["refuse.cycle"]);
  assert.equal(explain("c", "b").together, false);
});

test("joined through others", () => {
  const found = explain("a", "e");
  assert.equal(found.together, true);
  assert.deepEqual(found.texts.slice(1), ["a with b:", "b with e:"]);
  assert.deepEqual(found.codes, [undefined, "because", "because"]);
});

test("library calls stay as they are", () => {
  const found = explain("a", "call");
  assert.deepEqual([found.texts, found.codes], [["call with any other:"], ["refuse.library_call"]]);
});

test("pairs that were never tried: their kernels' verdicts", () => {
  const found = explain("a", "c");
  assert.equal(found.headline, "Not fused: in k0 and k1");
  assert.deepEqual(found.codes, [undefined, "refuse.cycle"]);
});

test("kernels between which no verdict is listed: what the schedule says of all such, and of an older record nothing",
  () => {
  const found = explain("a", "d");
  assert.deepEqual([found.texts, found.codes], [["k0 with k2:"], ["refuse.nothing_shared"]]);
  assert.match(explain("a", "nothing").texts[0] ?? "", /No step of the schedule runs nothing/);
  const old = { ...half, schedule: { items: [item("k0", "a", "b"), item("k1", "c")], fusions: [] } };
  for (const other of ["b", "c"])
    assert.deepEqual(Pairs(old, id => id).explain("a", other).statements.map(each => each.why), [undefined]);
});

test("operations are called by what they compute and the lines that ask for it", () => {
  const at = (id: string, line: number) => ({ id, name: id, op: "call_function", target: id, type: "f32[2]", inputs: [],
    origins: [`m.py:${line}`] });
  const nodes = [at("aten.sum_1", 6), at("aten.mul", 5), at("aten.mul_1", 5), at("aten.sigmoid", 4)];
  const model = new Model({
    version: 1, title: "t", engine: "", target: "", created: "", environment: {}, config: {}, coverage: {},
    sources: [{ file: "m.py", first_line: 1, text: "" }],
    compiles: [{ id: "f0", title: "f", started: 0, seconds: 0,
      stages: [{ id: "f0/0", name: "trace", started: 0, seconds: 0, depth: 0,
        graph: { name: "g", nodes, outputs: [] } }] }],
  });
  const loop = { ...operation("buf0", []), origins: nodes.map(each => each.id) };
  assert.deepEqual(named(loop, "f0", model), { own: "sum · line 6", inside: ["mul · line 5", "sigmoid · line 4"] });
  assert.deepEqual(named(operation("buf1", []), "f0", model), { own: "buf1", inside: [] });
});

// ------------------------------------------------------------------------------------------------------- drawing

test("boxes follow one another, and lanes that overlap are apart", () => {
  const plan = rail(half, 300, id => id);
  for (const [n, box] of plan.boxes.entries()) {
    const next = plan.boxes[n + 1];
    if (next) assert.ok(box.y + box.height < next.y);
    for (const chip of box.chips) assert.ok(chip.x + chip.width <= 300 && chip.y + 18 <= box.y + box.height);
  }
  assert.deepEqual(plan.lanes.map(each => [each.buffer, each.from, [...each.to]]),
    [["b", 0, [1, 2]], ["call", 1, [2]]]);
  for (const a of plan.lanes) for (const b of plan.lanes) {
    if (a !== b && a.lane === b.lane) assert.ok(Math.max(...a.ends) < b.y || Math.max(...b.ends) < a.y);
  }
});

test("a wide kernel wraps its operations", () => {
  const names = Array.from({ length: 40 }, (_, n) => `operation${n}`);
  const wide: HalfData = { name: "f0", target: "cpu", operations: names.map(each => operation(each, [])),
    schedule: { items: [item("k0", ...names)], fusions: [] } };
  const { boxes } = rail(wide, 260, id => id);
  assert.equal(boxes[0]?.chips.length, 40);
  assert.ok(new Set(boxes[0]?.chips.map(each => each.y)).size > 10);
});

// -------------------------------------------------------------------------------------------------------- memory

function buffer(name: string, where: string, bytes: number, first: number, last: number,
    more: Partial<BufferData> = {}): BufferData {
  return { name, type: "f32", kind: "loop", origins: [], where, bytes, first, last, ...more };
}

test("bytes in use are the sum of what is alive, rounded up", () => {
  const spans = [{ bytes: 100, first: 0, last: 1 }, { bytes: 64, first: 1, last: 3 }, { bytes: 0, first: 0, last: 3 }];
  assert.deepEqual(inUse(spans, 3), [128, 192, 64, 64]);
  assert.deepEqual(inUse([], 2), [0, 0, 0]);
  assert.deepEqual(inUse([{ bytes: 64, first: -5, last: 900 }], 1), [64, 64],
    "a span outside the schedule is cut to it");
});

test("a plan: pool, reuse in place, and an alias that keeps its storage alive", () => {
  const buffers = [
    buffer("a", "pool", 640, 0, 1), buffer("b", "reuse", 640, 1, 2, { of: "a", where_why: why("memory.in_place") }),
    buffer("c", "own", 64, 2, 4), buffer("d", "none", 64, 2, 2),
    buffer("e", "reuse", 64, 3, 4, { of: "c", where_why: why("memory.alias") }), buffer("x", "", 0, 0, 0),
    buffer("f", "pool", 640, 3, 3),
  ];
  const items = ["k0", "k1", "k2", "k3"].map(id => item(id));
  const plan = planOf({ name: "f0", target: "cpu", buffers, schedule: { items, fusions: [] },
    memory: { pool: 640, peak_before: 0, peak_after: 0 } });
  assert.deepEqual(plan.before, [640, 1280, 704, 704, 64]);
  assert.deepEqual(plan.after, [640, 640, 704, 704, 704]);
  assert.deepEqual(plan.places.map(each => [each.kind, each.lives.map(life => life.name), each.first, each.last]), [
    ["pool", ["a", "b"], 0, 2], ["pool", ["f"], 3, 3], ["own", ["c", "e"], 2, 4],
  ]);
  assert.deepEqual(plan.registers.map(each => each.name), ["d"]);
  assert.deepEqual(rowsOf(plan.places).map(row => row.length), [2, 1]);
});

test("a circle of reuse, which no plan of ours has, ends", () => {
  const buffers = [buffer("a", "reuse", 64, 0, 1, { of: "b" }), buffer("b", "reuse", 64, 1, 2, { of: "a" })];
  assert.equal(planOf({ name: "f0", target: "cpu", buffers }).places.length, 2);
});

// ------------------------------------------------------------------------------------------- filters and sorting

test("facets count, the most frequent first", () => {
  assert.deepEqual(facetsOf(["a", "b", "b"], each => each, each => each.toUpperCase()),
    [{ id: "b", label: "B", count: 2 }, { id: "a", label: "A", count: 1 }]);
});

test("sorting is stable, and what has no value comes last either way", () => {
  const rows = [["a", 2], ["b", null], ["c", 1], ["d", 2]] as const;
  const names = (down: boolean) => sortedBy(rows, ([, value]) => value, down).map(([name]) => name).join("");
  assert.equal(names(false), "cadb");
  assert.equal(names(true), "adcb");
});
