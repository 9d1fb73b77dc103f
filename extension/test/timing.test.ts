import assert from "node:assert/strict";
import { test } from "node:test";
import { linear, logarithmic, powerTicks, roundTicks, fitted, textWidth } from "../src/viewer/chart";
import type { CompileData, MachineData, RecordData, StageData, TimingData } from "../src/viewer/record";
import { compilingBefore, tableOf, timelineOf } from "../src/viewer/panes/timeline/spans";
import { costsOf, performance, ridge, roof, whyNoOverhead, type Cost } from "../src/viewer/panes/timing/costs";
import { spanMagnitudes, paysOffAfter, quartiles, stacked, withQuartiles } from
  "../src/viewer/panes/timing/figures";
import { pointsOf } from "../src/viewer/panes/timing/roofline";
import { contestants, Runs } from "../src/viewer/panes/timing/runs";
import { positionOf, positions, Sizes, sizeAt } from "../src/viewer/panes/timing/retime";

test("median and quartiles are those of Python's statistics", () => {
  // statistics.quantiles([...], n=4, method="inclusive"), as print(record) has them
  assert.deepEqual(quartiles([1, 2, 3, 4, 5]), [2, 3, 4]);
  assert.deepEqual(quartiles([7, 1, 4, 9]), [3.25, 5.5, 7.5]);
  assert.deepEqual(quartiles([1, 2]), [1.25, 1.5, 1.75]);
  assert.deepEqual(quartiles([5]), [5, 5, 5]);
  assert.deepEqual(quartiles([]), [NaN, NaN, NaN]);
});

test("a time is told with its quartiles, where there are some", () => {
  const written: [number, number[], string][] = [
    [3e-6, [1e-6, 2e-6, 3e-6, 4e-6, 5e-6], "3.00 us (2.00 us to 4.00 us)"], [4e-3, [0, 4e-3, 4e-3], "4.00 ms"],
    [2e-6, [], "2.00 us"],
    [47e-6, [40e-6, 47e-6, 6e-3], "47.0 us (43.5 us to 3.02 ms)"],
  ];
  for (const [median, samples, text] of written) assert.equal(withQuartiles({ median, samples }), text);
});

test("a compile pays off only where a call is clearly quicker", () => {
  const eager = { name: "eager", median: 2, spread: 0, samples: [] };
  const ours = { name: "explorer", median: 1, spread: 0, samples: [], compile_seconds: 10 };
  const said = (low: number) => ({ said: "", low });
  assert.equal(paysOffAfter({ ...ours, speed: said(1.5) }, eager), 10);
  assert.equal(paysOffAfter({ ...ours, speed: said(0.9) }, eager), null, "it may be noise");
  assert.equal(paysOffAfter(ours, eager), null, "nobody told how fast it is");
  assert.equal(paysOffAfter({ ...ours, speed: said(1.5), compile_seconds: null }, eager), null);
});

test("dots stack where they fall into one column", () => {
  assert.deepEqual(stacked([1, 1.4, 9], value => value, 5),
    [{ x: 0, level: 0 }, { x: 0, level: 1 }, { x: 10, level: 0 }]);
  assert.ok(spanMagnitudes([1e-5, 1e-2]) && !spanMagnitudes([1, 2]) && !spanMagnitudes([]));
});

// -------------------------------------------------------------------------------------------------------- scales

test("ticks are round and inside", () => {
  assert.deepEqual(roundTicks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(roundTicks(0, 1.83, 4).map(each => each.toFixed(1)), ["0.0", "0.5", "1.0", "1.5"]);
  assert.deepEqual(roundTicks(5, 5, 4), [5]);
  assert.deepEqual(powerTicks(0.5, 2000), [1, 10, 100, 1000]);
  assert.deepEqual(powerTicks(1, 30), [1, 2, 5, 10, 20]);
  assert.deepEqual([powerTicks(0, 10), powerTicks(1, Infinity), roundTicks(0, Infinity, 5), roundTicks(0, NaN, 5)],
    [[], [], [0], [0]]);
  for (const most of [1e-9, 0.3, 7, 1e12]) {
    const ticks = roundTicks(0, most, 5);
    assert.ok(ticks.length >= 3 && ticks.length <= 8 && ticks.every(each => each >= 0 && each <= most * (1 + 1e-9)),
      String(most));
  }
});

test("scales", () => {
  const x = linear(0, 10, 100, 200);
  assert.deepEqual([x(0), x(5), x(10)], [100, 150, 200]);
  const log = logarithmic(1, 100, 0, 200);
  assert.deepEqual([log(1), log(10), log(100)], [0, 100, 200]);
  assert.ok(Number.isFinite(linear(3, 3, 0, 10)(3)) && Number.isFinite(logarithmic(3, 3, 0, 10)(3)));
});

test("labels fit or are shortened, and vanish when nothing would be left", () => {
  assert.equal(fitted("kernel", 100), "kernel");
  const short = fitted("a very long kernel name", 60);
  assert.ok(short.endsWith("…") && textWidth(short) <= 60);
  assert.equal(fitted("kernel", 10), "");
});

// ------------------------------------------------------------------------------------------------------ roofline

const machine: MachineData = { name: "a machine", bytes_per_second: 10e9, flops_per_second: 100e9 };
const cost = (seconds: number | null, bytes: number | null, flops: number
  | null): Cost => ({ compile: "f0", half: "", id: "k0", kind: "kernel", runs: "", seconds, bytes, flops });

test("the roofline's figures", () => {
  assert.equal(ridge(machine), 10);
  assert.deepEqual([roof(machine, 1), roof(machine, 10), roof(machine, 1000)], [10e9, 100e9, 100e9]);
  const moving = performance(cost(1, 5e9, 5e9), machine);
  assert.deepEqual(moving, { bytesPerSecond: 5e9, flopsPerSecond: 5e9, intensity: 1, share: 0.5, bound: "bandwidth" });
  const computing = performance(cost(2, 1e9, 100e9), machine);
  assert.deepEqual([computing?.bound, computing?.share, computing?.intensity], ["arithmetic", 0.5, 100]);
  // On the roof: what it reaches is what the machine allows there.
  const best = performance(cost(0.5, 5e9, 5e9), machine);
  assert.equal(best?.flopsPerSecond, roof(machine, best?.intensity ?? 0));
});

test("a product of a library is held against arithmetic alone, and has no place on the roofline", () => {
  const call: Cost = { ...cost(2, null, 100e9), kind: "call" };
  assert.deepEqual(performance(call, machine),
    { bytesPerSecond: null, flopsPerSecond: 50e9, intensity: null, share: 0.5, bound: "arithmetic" });
  assert.deepEqual(pointsOf([call], machine), []);
});

test("kernels without a place on it", () => {
  assert.equal(performance(cost(null, 1, 1), machine), null);
  assert.equal(performance(cost(1, null, null), machine), null);
  assert.equal(performance(cost(1, 0, 5), machine), null);
  assert.equal(performance(cost(1, 1, 1), { ...machine, flops_per_second: 0 }), null);
  assert.deepEqual(pointsOf([cost(1, 100, 0), cost(1, 100, 100)], machine).map(each => each.at.intensity), [1]);
  const many = Array.from({ length: 9000 }, (_, n) => cost(n + 1, 100, 100));
  assert.deepEqual(pointsOf(many, machine).slice(0, 2).map(each => each.cost.seconds), [9000, 8999]);
  assert.ok(pointsOf(many, machine).length < 1000);
});

function timed(contestant: number, overhead: number | null): TimingData {
  return { contestants: [{ name: "explorer", median: contestant, spread: 0, samples: [contestant] }], overhead };
}

function withKernels(seconds: (number | null)[], timing: TimingData | null): RecordData {
  const kernels =
    seconds.map(
      (each, n) => ({ id: `k${n}`, function: "", language: "cpp", source: { lines: [] }, origins: [], bytes: 1,
        flops: 1, seconds: each }));
  const items = [...kernels.map(each => ({ id: each.id, kind: "kernel", operations: [] })),
    { id: "call0", kind: "extern", operations: ["call0"] }];
  const half = { name: "f0", target: "cpu", kernels, schedule: { items, fusions: [] }, extern_seconds: { call0: 1 },
    extern_flops: { call0: 64 } };
  return record([compile("f0", 0, [], { halves: [half] })], timing);
}

test("costs in the order in which they run; a library call's bytes are not known", () => {
  const found = costsOf(withKernels([2, 3], timed(10, 4)));
  assert.deepEqual(found.map(each => [each.id, each.kind, each.seconds, each.bytes, each.flops]),
    [["k0", "kernel", 2, 1, 1], ["k1", "kernel", 3, 1, 1], ["call0", "call", 1, null, 64]]);
});

test("a kernel's operations have the names that the pane Schedule gives them", () => {
  const of = withKernels([2], null);
  const half = of.compiles[0]!.halves![0]!;
  const operations = [{ id: "buf0", origins: ["synthetic:copy", "aten.mul_1"] }, { id: "buf1", origins: [] }];
  const items = [{ id: "k0", kind: "kernel", operations: operations.map(each => each.id) }];
  const named = { ...half, operations, schedule: { items, fusions: [] } } as unknown as typeof half;
  assert.deepEqual(costsOf({ ...of, compiles: [{ ...of.compiles[0]!, halves: [named] }] }).map(each => each.runs),
    ["mul, buf1"]);
});

test("why the time outside the kernels is not told", () => {
  const why = (seconds: (number | null)[], timing: TimingData | null) => {
    const made = withKernels(seconds, timing);
    return whyNoOverhead(made, costsOf(made));
  };
  assert.equal(why([2], timed(10, 4)), "");
  assert.match(why([20], timed(10, null)), /longer than the whole call/);
  assert.match(why([null], timed(10, null)), /not every kernel/);
  assert.equal(why([2], null), "");
});

// ---------------------------------------------------------------------------------------------------------- runs

test("samples stream in, and the result takes their place", () => {
  const runs = Runs();
  runs.take({ type: "running", compile: "", stage: "", what: "timing eager" });
  runs.take({ type: "samples", run: "", name: "eager", seconds: [1, 2] });
  runs.take({ type: "samples", run: "", name: "eager", seconds: [3] });
  runs.take({ type: "samples", run: "", name: "explorer", seconds: [0.5] });
  assert.deepEqual(contestants(runs.find("") as never).map(each => [each.name, each.median]),
    [["eager", 2], ["explorer", 0.5]]);
  assert.equal(runs.running?.id, "");
  runs.take({ type: "timed", run: "", timing: timed(1, null) });
  assert.deepEqual(contestants(runs.find("") as never).map(each => each.name), ["explorer"]);
  assert.equal(runs.running, undefined);
});

test("a run with other sizes stands beside the record's own", () => {
  const runs = Runs();
  runs.recorded(timed(1, null));
  const id = runs.start({ x: [8, 8] });
  runs.take({ type: "samples", run: id, name: "explorer", seconds: [2] });
  runs.take({ type: "samples", run: "another page's", name: "explorer", seconds: [9] });
  assert.deepEqual(runs.all.value.map(each => [each.id, each.state]), [["", "ended"], [id, "running"]]);
  runs.take({ type: "timed", run: id, timing: timed(2, null) });
  runs.take({ type: "done", run: id });
  assert.deepEqual(runs.find(id)?.state, "ended");
  assert.deepEqual(runs.find("")?.timing?.contestants[0]?.median, 1);
});

test("a run that was stopped, that failed, or whose kernel went away", () => {
  const runs = Runs();
  const first = runs.start({});
  runs.take({ type: "done", run: first, error: "it was stopped" });
  assert.deepEqual([runs.find(first)?.state, runs.find(first)?.error], ["failed", "it was stopped"]);
  const second = runs.start({});
  runs.take({ type: "done", run: second });
  assert.equal(runs.find(second)?.state, "failed", "it ended and gave nothing");
  const third = runs.start({});
  runs.lost();
  assert.match(runs.find(third)?.error ?? "", /kernel/);
});

// --------------------------------------------------------------------------------------------------------- sizes

test("equal sizes move together, ones stay", () => {
  const sizes =
    Sizes([{ name: "x", dtype: "float32", shape: [64, 128, 1] }, { name: "w", dtype: "bfloat16", shape: [128, 1] }]);
  assert.equal(sizes.bytes, 64 * 128 * 4 + 128 * 2);
  sizes.set({ argument: "x", dim: 1 }, 256);
  assert.deepEqual(sizes.shapes.value, { x: [64, 256, 1], w: [256, 1] });
  sizes.set({ argument: "x", dim: 2 }, 4);
  assert.deepEqual(sizes.shapes.value, { x: [64, 256, 4], w: [256, 1] });
  sizes.tied.value = false;
  sizes.set({ argument: "w", dim: 0 }, 512);
  assert.deepEqual(sizes.shapes.value, { x: [64, 256, 4], w: [512, 1] });
  sizes.set({ argument: "w", dim: 0 }, NaN);
  assert.deepEqual(sizes.shapes.value["w"], [512, 1]);
  sizes.reset();
  assert.deepEqual(sizes.shapes.value, sizes.original());
});

test("a slider's positions lead to sizes and back", () => {
  for (const size of [1, 2, 3, 4, 8, 128, 1000, 4096])
    assert.ok(Math.abs(sizeAt(positionOf(size)) / size - 1) < 0.1, String(size));
  assert.equal(sizeAt(positions(4)), 4096);
  assert.equal(sizeAt(positions(2 ** 30)), 2 ** 24);
});

// ------------------------------------------------------------------------------------------------------ timeline

function stage(name: string, started: number, seconds: number, more: Partial<StageData> = {}): StageData {
  return { id: `${name}@${started}`, name, started, seconds, depth: 0, ...more };
}

function compile(id: string, started: number, stages: StageData[], more: Partial<CompileData> = {}): CompileData {
  return { id, title: id, started,
    seconds: stages.filter(each => each.depth === 0).reduce((sum, each) => sum + each.seconds, 0), stages, ...more };
}

function record(compiles: CompileData[], timing: TimingData | null = null): RecordData {
  return { version: 1, title: "", engine: "explorer", target: "", created: "", environment: {}, config: {}, sources: [],
    coverage: {}, compiles, timing };
}

test("compiles one after another share rows; one inside another gets its own", () => {
  const inner = compile("f1", 101, [stage("capture", 101, 1)]);
  const found =
    timelineOf(record([compile("f0", 100, [stage("capture", 100, 2), stage("verify", 100.5, 1, { depth: 1 })]), inner,
      compile("f2", 110, [stage("capture", 110, 1)])]));
  assert.deepEqual(found.spans.map(each => [each.name, each.from, each.row]), [
    ["f0 f0", 0, 0], ["capture", 0, 1], ["verify", 0.5, 2], ["f2 f2", 10, 0], ["capture", 10, 1], ["f1 f1", 1, 3],
    ["capture", 1, 4],
  ]);
  assert.equal(found.rows, 5);
  assert.deepEqual(found.busy, [[0, 2], [10, 11]]);
  assert.deepEqual(
    [compilingBefore(found.busy, 1), compilingBefore(found.busy, 5), compilingBefore(found.busy, Infinity)], [1, 2, 3]);
});

test("nothing compiled, and a compile without stages", () => {
  assert.deepEqual(timelineOf(record([])).spans, []);
  assert.deepEqual(timelineOf(record([compile("process", 0, [])])).spans, []);
});

test("the table has builds under the stage that ran them, and what no stage took", () => {
  const build = { tool: "g++", command: [], version: "12", output: "", seconds: 0.5, cached: true };
  const half = { name: "f0_forward", target: "cpu", builds: [build] };
  const made = compile("f0", 0, [stage("lower", 0, 1, { half: "f0_forward" }),
    stage("build", 1, 1, { half: "f0_forward" })], { seconds: 2.5, halves: [half] });
  assert.deepEqual(tableOf(record([made])).map(each => [each.name, each.seconds, each.note]), [
    ["f0 f0", 2.5, ""], ["lower forward", 1, ""], ["build forward", 1, ""], ["g++ 12", 0.5, "from the cache"],
    ["between stages", 0.5, ""],
  ]);
});
