import assert from "node:assert/strict";
import { test } from "node:test";
import { beginning, between, clamped, moved, showing, whole, zoomed } from "../src/viewer/panes/graphs/camera";

const view = { width: 800, height: 600 };

test("zooming leaves the point under the pointer where it is", () => {
  const camera = { x: 100, y: 50, scale: 0.8 };
  const at = (of: typeof camera, px: number, py: number) => [of.x + px / of.scale, of.y + py / of.scale];
  const larger = zoomed(camera, 300, 200, 1.5);
  assert.ok(Math.abs(larger.scale - 1.2) < 1e-9);
  at(larger, 300, 200).forEach((value, n) => assert.ok(Math.abs(value - at(camera, 300, 200)[n]!) < 1e-9));
  assert.equal(zoomed(camera, 0, 0, 1e9).scale, 3);
  assert.equal(zoomed(camera, 0, 0, 1e-9).scale, 0.02);
});

test("moving goes with the pointer", () => {
  assert.deepEqual(moved({ x: 0, y: 0, scale: 0.5 }, 10, -20), { x: -20, y: 40, scale: 0.5 });
});

test("a small drawing is shown whole and no larger than life, a long one from its top at a size that can be read",
  () => {
  const small = beginning({ width: 200, height: 100 }, view, []);
  assert.deepEqual(small, { x: -300, y: -250, scale: 1 });
  const boxes = [{ x: 0, y: 0, width: 400, height: 40 }];
  const long = beginning({ width: 400, height: 20000 }, view, boxes);
  assert.ok(long.scale >= 0.7 && long.y < 0 && long.y > -100);
  const wide = beginning({ width: 9000, height: 9000 }, view, [{ x: 4000, y: 0, width: 100, height: 40 }]);
  assert.equal(wide.scale, 0.7);
  assert.ok(wide.x < 4000 && wide.x + view.width / wide.scale > 4100, "what there is at the top is in view");
  const apart =
    [{ x: 0, y: 0, width: 100, height: 40 }, ...[3000, 3100, 3300].map(x => ({ x, y: 0, width: 100, height: 40 }))];
  const spread = beginning({ width: 4000, height: 300 }, view, apart);
  assert.ok(spread.x < 3000 && spread.x + view.width / spread.scale > 3400, "where most is");
  assert.ok(whole({ width: 400, height: 20000 }, view).scale < 0.05);
});

test("the drawing cannot be lost out of view", () => {
  const drawing = { width: 1000, height: 1000 };
  const far = clamped({ x: 1e6, y: -1e6, scale: 1 }, drawing, view);
  assert.ok(far.x < 1000 && far.y + view.height > 0);
  const inside = { x: 10, y: 20, scale: 1 };
  assert.deepEqual(clamped(inside, drawing, view), inside);
  const tiny = clamped({ x: 50, y: 50, scale: 0.02 }, { width: 10, height: 10 }, view);
  assert.ok(Number.isFinite(tiny.x) && Number.isFinite(tiny.y));
});

test("bringing into view moves only where it has to, and makes what is too small readable", () => {
  const camera = { x: 0, y: 0, scale: 1 };
  assert.equal(showing(camera, { x: 100, y: 100, width: 50, height: 40 }, view), camera);
  const moved = showing(camera, { x: 5000, y: 100, width: 50, height: 40 }, view);
  assert.ok(moved.x < 5000 && moved.x + view.width > 5050);
  assert.equal(showing({ x: 0, y: 0, scale: 0.1 }, { x: 5000, y: 100, width: 50, height: 40 }, view).scale, 0.7);
  assert.deepEqual(between(camera, { x: 10, y: 20, scale: 2 }, 0.5), { x: 5, y: 10, scale: 1.5 });
});
