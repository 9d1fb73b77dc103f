import assert from "node:assert/strict";
import { test } from "node:test";
import { type Box, layered, type Layered, type Net } from "../src/viewer/panes/graphs/layered";

/** Numbers that look random and are the same in every run. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function graph(count: number, seed: number, reach = 12): { boxes: Box[]; nets: Net[] } {
  const next = generator(seed);
  const boxes = Array.from({ length: count },
    () => ({ width: 60 + 2 * Math.floor(next() * 60), height: 24 + Math.floor(next() * 40) }));
  const targets: number[][] = boxes.map(() => []);
  for (let n = 1; n < count; n++) {
    const inputs = next() < 0.15 ? 0 : 1 + Math.floor(next() * 2);
    for (let k = 0; k < inputs; k++) {
      const from = next() < 0.9 ? n - 1 - Math.floor(next() * Math.min(n, reach)) : Math.floor(next() * n);
      if (!targets[from]!.includes(n)) targets[from]!.push(n);
    }
  }
  const end = (box: number) => ({ box, at: boxes[box]!.width / 2 });
  const nets = targets.flatMap((to, from) => (to.length ? [{ from: end(from), to: to.map(end) }] : []));
  return { boxes, nets };
}

export function overlaps(boxes: readonly Box[], made: Layered): string[] {
  const found: string[] = [];
  for (let a = 0; a < boxes.length; a++) {
    for (let b = a + 1; b < boxes.length; b++) {
      const beside = made.x[a]! + boxes[a]!.width <= made.x[b]! || made.x[b]! + boxes[b]!.width <= made.x[a]!;
      const above = made.y[a]! + boxes[a]!.height <= made.y[b]! || made.y[b]! + boxes[b]!.height <= made.y[a]!;
      if (!beside && !above) found.push(`${a} and ${b}`);
    }
  }
  return found;
}

/** Points along a route: straight pieces at their ends, curves (upright at both ends) sampled. */
function* along(points: readonly number[]): Iterable<[x: number, y: number]> {
  for (let n = 0; n + 3 < points.length; n += 2) {
    const [x0, y0, x1, y1] = [points[n]!, points[n + 1]!, points[n + 2]!, points[n + 3]!];
    for (let k = 0; k <= 16; k++) {
      const t = k / 16;
      const middle = (y0 + y1) / 2;
      const bezier = (a: number, b: number, c: number, d: number) =>
        (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t ** 2 * c + t ** 3 * d;
      yield x0 === x1 || y0 === y1
        ? [x0 + t * (x1 - x0), y0 + t * (y1 - y0)] : [bezier(x0, x0, x1, x1), bezier(y0, middle, middle, y1)];
    }
  }
}

function through(boxes: readonly Box[], made: Layered): string[] {
  const found = new Set<string>();
  made.routes.forEach((routes, net) =>
    routes.forEach((route, target) => {
      for (const [x, y] of along(route?.points ?? [])) {
        boxes.forEach((box, n) => {
          const [left, top] = [made.x[n]!, made.y[n]!];
          if (x > left + 0.5 && x < left + box.width - 0.5 && y > top + 0.5 && y < top + box.height - 0.5)
            found.add(`net ${net}.${target} through ${n}`);
        });
      }
    }),
  );
  return [...found];
}

for (const [count, seed] of [[1, 1], [2, 2], [12, 3], [60, 4], [150, 5], [300, 6]] as const) {
  test(`${count} boxes: none overlap, and edges lead down and round boxes`, () => {
    const { boxes, nets } = graph(count, seed);
    const made = layered(boxes, nets);
    assert.deepEqual(overlaps(boxes, made), []);
    assert.deepEqual(through(boxes, made), []);
    nets.forEach((net, n) =>
      net.to.forEach((to, m) => {
        const route = made.routes[n]![m]!;
        assert.equal(route.back, false);
        assert.deepEqual(route.points.slice(0, 2),
          [made.x[net.from.box]! + net.from.at, made.y[net.from.box]! + boxes[net.from.box]!.height]);
        assert.deepEqual(route.points.slice(-2), [made.x[to.box]! + to.at, made.y[to.box]!]);
        for (let k = 3; k < route.points.length; k += 2)
          assert.ok(route.points[k]! >= route.points[k - 2]!, "never up");
      }),
    );
    for (const at of [...made.x, ...made.y]) assert.ok(at >= 0);
    boxes.forEach(
      (box, n) => assert.ok(made.x[n]! + box.width <= made.width && made.y[n]! + box.height <= made.height));
  });
}

test("the same input gives the same layout", () => {
  const { boxes, nets } = graph(200, 7);
  assert.deepEqual(layered(boxes, nets), layered(boxes, nets));
});

test("a chain stands in one line, with its parameters beside it", () => {
  const boxes: Box[] = [];
  const nets: Net[] = [];
  for (let n = 0; n < 20; n++) {
    boxes.push({ width: 100, height: 30 }, { width: 80, height: 30, light: true });
    nets.push({ from: { box: 2 * n + 1, at: 40 }, to: [{ box: 2 * n, at: 50 }] });
    if (n) nets.push({ from: { box: 2 * n - 2, at: 50 }, to: [{ box: 2 * n, at: 50 }] });
  }
  const made = layered(boxes, nets);
  const main = boxes.flatMap((_, n) => (n % 2 ? [] : [made.x[n]!]));
  assert.equal(new Set(main.slice(1)).size, 1, `x of the chain: ${main}`);
  assert.equal(made.crossings, 0);
});

test("a long edge runs straight beside what it passes", () => {
  const boxes = Array.from({ length: 12 }, () => ({ width: 100, height: 30 }));
  const end = (box: number) => ({ box, at: 50 });
  const nets = Array.from({ length: 11 }, (_, n) => ({ from: end(n), to: n ? [end(n + 1)] : [end(1), end(11)] }));
  const made = layered(boxes, nets);
  const { points } = made.routes[0]![1]!;
  assert.deepEqual(through(boxes, made), []);
  const inner = points.filter((_, n) => n % 2 === 0).slice(1, -1);
  assert.equal(new Set(inner).size, 1, `x along the edge: ${inner}`);
});

test("what one value feeds shares one trunk", () => {
  const boxes = Array.from({ length: 10 }, () => ({ width: 60, height: 20 }));
  const end = (box: number) => ({ box, at: 30 });
  const chain = Array.from({ length: 8 }, (_, n) => ({ from: end(n + 1), to: [end(n + 2)] }));
  const made = layered(boxes, [{ from: end(0), to: [1, 4, 7, 9].map(end) }, ...chain]);
  const [, near, far, farthest] = made.routes[0]!.map(route => route!.points);
  const bends = (points: readonly number[]) => points.slice(2, -4);
  assert.deepEqual(bends(farthest!).slice(0, bends(near!).length - 2), bends(near!).slice(0, -2));
  assert.deepEqual(bends(farthest!).slice(0, bends(far!).length - 2), bends(far!).slice(0, -2));
});

test("a cycle is drawn, with one edge marked as going back, round the boxes", () => {
  const boxes = Array.from({ length: 5 }, () => ({ width: 80, height: 30 }));
  const end = (box: number) => ({ box, at: 40 });
  const nets = [0, 1, 2, 3, 4].map(n => ({ from: end(n), to: [end((n + 1) % 5)] }));
  const made = layered(boxes, nets);
  assert.deepEqual(made.routes.map(([route]) => route!.back), [false, false, false, false, true]);
  assert.deepEqual(overlaps(boxes, made), []);
  assert.deepEqual(through(boxes, made), []);
  assert.deepEqual(made.routes[4]![0]!.points.slice(0, 2), [made.x[4]! + 40, made.y[4]! + 30]);
  assert.deepEqual(made.routes[4]![0]!.points.slice(-2), [made.x[0]! + 40, made.y[0]!]);
});

test("graphs full of cycles come out, with no box on another", () => {
  const next = generator(11);
  const boxes = Array.from({ length: 80 }, () => ({ width: 50, height: 20 }));
  const end = (box: number) => ({ box, at: 25 });
  const nets =
    boxes.map((_, n) => ({ from: end(n), to: [...new Set([0, 1, 2].map(() => Math.floor(next() * 80)))].map(end) }));
  const made = layered(boxes, nets);
  assert.deepEqual(overlaps(boxes, made), []);
  made.routes.forEach(
    (routes, n) => routes.forEach((route, m) => assert.equal(route === null, nets[n]!.to[m]!.box === n)));
});

test("edges from the border enter above everything, and those to it leave below", () => {
  const boxes: Box[] = [{ width: 80, height: 30 }, { width: 80, height: 30 }, { width: 4, height: 0, border: "top" },
    { width: 4, height: 0, border: "bottom" }];
  const nets: Net[] = [
    { from: { box: 2, at: 2 }, to: [{ box: 0, at: 40 }, { box: 1, at: 40 }] },
    { from: { box: 0, at: 40 }, to: [{ box: 1, at: 40 }, { box: 3, at: 2 }] },
  ];
  const made = layered(boxes, nets);
  assert.equal(made.y[2], 0);
  assert.equal(made.y[3], made.height);
  assert.deepEqual(through(boxes.slice(0, 2), made), []);
});

test("a level in which every box reads every other one before it comes out", () => {
  const boxes = Array.from({ length: 130 }, () => ({ width: 60, height: 20 }));
  const end = (box: number) => ({ box, at: 30 });
  const nets = boxes.slice(1).map((_, n) => ({ from: end(n), to: boxes.slice(n + 1).map((_, m) => end(n + 1 + m)) }));
  const made = layered(boxes, nets);
  assert.deepEqual(overlaps(boxes, made), []);
  assert.equal(made.routes.flat().length, 129 * 65);
});

test("no boxes make an empty picture", () => {
  assert.deepEqual(layered([], []), { width: 0, height: 0, x: [], y: [], routes: [], crossings: 0 });
});

test("how long a level takes", () => {
  for (const count of [100, 300, 400, 1000, 2000]) {
    const { boxes, nets } = graph(count, 13);
    const started = process.cpuUsage();
    const made = layered(boxes, nets);
    console.log(
      `${count} boxes: ${(process.cpuUsage(started).user / 1000).toFixed(0)} ms, ${made.crossings} crossings, ${made.width} x ${Math.round(made.height)}`);
  }
});
