import assert from "node:assert/strict";
import { test } from "node:test";
import { lineDiff } from "../src/viewer/diff/lines";

/** `to`, made from `from` by the diff: kept lines from `from`, fresh ones from `to`. */
function applied(from: string[], to: string[]): { made: string[]; edits: number } {
  const made: string[] = [];
  let edits = 0;
  let [a, b] = [0, 0];
  for (const run of lineDiff(from, to)) {
    for (const n of run.from) assert.equal(n, a++);
    for (const n of run.to) assert.equal(n, b++);
    if (run.kind === "same") {
      assert.deepEqual(run.from.map(n => from[n]), run.to.map(n => to[n]));
      made.push(...run.from.map(n => from[n] as string));
    } else {
      edits += run.from.length + run.to.length;
      made.push(...run.to.map(n => to[n] as string));
    }
  }
  assert.deepEqual([a, b], [from.length, to.length]);
  return { made, edits };
}

/** The fewest edits there can be, by the textbook's table. */
function fewest(from: string[], to: string[]): number {
  let row = to.map((_, n) => n + 1);
  row.unshift(0);
  for (let a = 1; a <= from.length; a++) {
    const next = [a];
    for (let b = 1; b <= to.length; b++) {
      next.push(
        from[a - 1] === to[b - 1] ? (row[b - 1] as number) : 1 + Math.min(row[b] as number, next[b - 1] as number));
    }
    row = next;
  }
  return row[to.length] as number;
}

test("known differences", () => {
  assert.deepEqual(lineDiff(["a", "b", "c"], ["a", "x", "c"]), [
    { kind: "same", from: [0], to: [0] }, { kind: "changed", from: [1], to: [1] }, { kind: "same", from: [2], to: [2] },
  ]);
  assert.deepEqual(lineDiff([], ["a"]), [{ kind: "changed", from: [], to: [0] }]);
  assert.deepEqual(lineDiff([], []), []);
});

test("every diff gives the other text, with as few edits as can be", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  for (let round = 0; round < 300; round++) {
    const text = () => Array.from({ length: random(12) }, () => "abcd"[random(4)] as string);
    const [from, to] = [text(), text()];
    const { made, edits } = applied(from, to);
    assert.deepEqual(made, to);
    assert.equal(edits, fewest(from, to), `${from} -> ${to}`);
  }
});

test("texts of ten thousand lines with few differences are quick", () => {
  const from = Array.from({ length: 10000 }, (_, n) => `line ${n}`);
  const to = from.map((line, n) => (n % 500 === 250 ? "other" : line));
  const started = performance.now();
  const { made, edits } = applied(from, to);
  assert.deepEqual(made, to);
  assert.equal(edits, 40);
  assert.ok(performance.now() - started < 1000);
});
