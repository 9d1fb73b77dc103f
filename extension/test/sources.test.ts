import assert from "node:assert/strict";
import { test } from "node:test";
import { Links } from "../src/viewer/links";
import type { CodeData, CompileData, HalfData, KernelData, RecordData } from "../src/viewer/record";
import { breaksByLine, changesByLine, FileNames, guardsByLine, kernelTime, running, stretchesOf,
  timeShare } from "../src/viewer/sources";

const EMPTY: RecordData = { version: 1, title: "", engine: "explorer", target: "cpu", created: "", environment: {},
  config: {}, sources: [], compiles: [], coverage: {} };

const named = (...files: string[]) => {
  const names = FileNames(files.map(file => ({ file })));
  return files.map(file => names.of(file));
};

test("a file has as much of its path as tells it from the others", () => {
  assert.deepEqual(named("/home/a/model.py", "/home/b/model.py", "/home/b/train.py", "<string>"),
    ["a/model.py", "b/model.py", "train.py", "<string>"]);
  assert.deepEqual(named("C:\\m\\model.py"), ["model.py"]);
});

test("notebook cells are called as the notebook calls them, or numbered where it is not known", () => {
  assert.deepEqual(named("/tmp/ipykernel_12/345.py", "/tmp/ipykernel_12/678.py", "<ipython-input-3-abc>"),
    ["notebook cell 1", "notebook cell 2", "notebook cell 3"]);
  assert.deepEqual(named("/tmp/ipykernel_12/345.py"), ["notebook cell"]);
  const names = FileNames([{ file: "/tmp/ipykernel_12/345.py", name: "In[7]" }, { file: "/home/a/model.py" }]);
  assert.equal(names.place("/tmp/ipykernel_12/345.py", 3), "In[7]:3");
  assert.equal(names.place("/home/a/model.py", 9), "model.py:9");
  assert.equal(names.place("/tmp/ipykernel_12/999.py", 1), "notebook cell:1");
  assert.equal(names.inText("/tmp/ipykernel_12/345.py:2 in f"), "In[7]:2 in f");
  assert.equal(names.inText("/home/a/model.py:9"), "model.py:9");
  assert.equal(names.inText("C:\\m\\model.py:9 (a call that prints)"), "model.py:9 (a call that prints)");
  assert.equal(names.inLine("y = x * 2  # 345.py:3 | 345.py:4, model.py:9"),
    "y = x * 2  # In[7]:3 | In[7]:4, model.py:9");
  assert.equal(names.inLine("call of print at /tmp/ipykernel_12/345.py:3, continues"),
    "call of print at In[7]:3, continues");
  assert.equal(FileNames([{ file: "/home/a/model.py" }]).inLine("x  # model.py:9"), "x  # model.py:9");
  for (const plain of ["f (frame was skipped)", "a: b", ""]) assert.equal(names.inText(plain), plain);
});

const kernel = (id: string, seconds: number | null, origins: string[]): KernelData =>
  ({ id, function: id, language: "cpp", source: { lines: [] }, origins, bytes: 0, flops: 0, seconds });
const half = (more: Partial<HalfData>): HalfData => ({ name: "f0", target: "cpu", ...more });
const compile = (id: string, more: Partial<CompileData> = {
  }): CompileData => ({ id, title: id, started: 0, seconds: 0, ...more });

const code = (name: string, file: string, line: number, last: number): CodeData => ({
  name, role: "inlined", file, line,
  instructions: [{ id: name, op: "RESUME", arg: "", span: { file, line, end_line: last } }],
});

test("functions stand in the order of their calls, the user's before libraries', and without what lies between them",
  () => {
  const [linear, train] = ["/v/lib/python3.11/site-packages/torch/nn/linear.py", "/home/a/train.py"];
  const sources = [
    { file: linear, first_line: 100, text: "a\n" },
    { file: train, first_line: 30,
      text: "def inner():\n  def nested():\n    pass\n  return 1\n\nclass A:\n  def outer(self):\n    return "
        + "inner()\n" },
    { file: train, first_line: 3, text: "z" },
  ];
  const codes = [code("A.outer", train, 36, 37), code("Linear.forward", linear, 99, 100),
    code("f.<locals>.inner", train, 30, 33), code("nested", train, 31, 32)];
  const found = stretchesOf({ ...EMPTY, sources, compiles: [{ ...compile("f0"), codes }] });
  assert.deepEqual(found.map(each => [each.name, each.function, each.first, each.lines.length]), [
    ["train.py", "A.outer", 36, 2], ["train.py", "inner", 30, 4], ["train.py", "", 3, 1],
    ["linear.py", "Linear.forward", 100, 1],
  ]);
  assert.deepEqual(stretchesOf({ sources }).map(each => each.first), [3, 30, 100]);
});

test("kernel time goes to the lines that the kernels serve, and shared time is said to be shared", () => {
  const compiles = [compile("f0", { halves: [half({
    kernels: [kernel("k0", 3, ["m.py:1"]), kernel("k1", 4, ["m.py:1", "m.py:2"]), kernel("k2", null, ["m.py:3"]),
      kernel("k3", 1, ["synthetic:x"])],
    operations: [{ id: "call0", kind: "extern", target: "mm", reads: [], writes: [], origins: ["m.py:2"] }],
    extern_seconds: { call0: 2 },
  })] })];
  const time = kernelTime(compiles, new Links({ ...EMPTY, compiles }));
  assert.equal(time.total, 10);
  assert.deepEqual([...time.lines.keys()].sort(), ["|m.py:1", "|m.py:2"]);
  const [one, two] = [time.lines.get("|m.py:1"), time.lines.get("|m.py:2")];
  assert.deepEqual([one?.alone, one?.shared, two?.alone, two?.shared], [3, 4, 2, 4]);
  assert.deepEqual(one && [timeShare(one, 10), timeShare({ ...one, shared: 0 }, 10),
    timeShare({ ...one, alone: 0 }, 10)], ["30–70 %", "30 %", "≤40 %"]);
  const folded = kernelTime(compiles, new Links({ ...EMPTY, compiles }), () => "|m.py:1").lines.get("|m.py:1");
  assert.deepEqual([folded?.alone, folded?.shared], [9, 0]);
  assert.equal(timeShare({ alone: 0.001, shared: 0, kernels: [] }, 10), "<1 %");
  assert.equal(timeShare({ alone: 8.79, shared: 0.02, kernels: [] }, 10), "88 %");
});

test("of a frame's compiles the last runs, or the chosen one", () => {
  const compiles = [compile("f0"), compile("f1"), compile("f0.1"), compile("f0.2")];
  assert.deepEqual(running(compiles, "f1").map(each => each.id), ["f0.2", "f1"]);
  assert.deepEqual(running(compiles, "f0.1").map(each => each.id), ["f0.1", "f1"]);
  assert.deepEqual(running(compiles, "f0").map(each => each.id), ["f0", "f1"]);
});

test("guards and breaks stand at their lines", () => {
  const span = { file: "m.py", line: 4, end_line: 4 };
  const guard = { id: "g", source: "x", property: "type", relation: "is", value: "", expression: "type(x) is int",
    why: "", span };
  const compiles = [compile("f0", {
    guards: [guard, { ...guard, id: "h", span: null }],
    breaks: [{ why: { code: "c", title: "call of print", detail: "print" }, instruction: "f0@1", span, stack: [],
      hints: [] }],
  })];
  assert.deepEqual([...guardsByLine(compiles)], [["|m.py:4", ["type(x) is int"]]]);
  assert.deepEqual([...breaksByLine([...compiles, compile("f1", { ...compiles[0] })])],
    [["|m.py:4", ["call of print: print"]]]);
});

test("a line whose guard failed is told what changed, each time", () => {
  const span = { file: "m.py", line: 4, end_line: 4 };
  const served = { function: "f", first: 1, last: 1, compiles: ["f0.1"] };
  const history = [{ ...served, changes: [{ said: "k is 3, expected 2", span }, { said: "the grad mode" }] }, served,
    { ...served, changes: [{ said: "k is 4, expected 3", span }] }];
  assert.deepEqual([...changesByLine({ ...EMPTY, history })],
    [["|m.py:4", ["k is 3, expected 2", "k is 4, expected 3"]]]);
  assert.equal(changesByLine(EMPTY).size, 0);
});
