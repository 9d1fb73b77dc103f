// From box to box with the arrow keys: down and up along edges, left and right to the box beside.

import { type Rectangle, within } from "./camera";
import { type DrawnItem, overlap, type Scene } from "./scene";

export type Way = "up" | "down" | "left" | "right";

/** The box to go to; null where there is none that way. Without a box to start from, the first one in view. */
export function next(scene: Scene, from: DrawnItem | null, way: Way, seen: Rectangle): DrawnItem | null {
  const boxes = scene.marks.filter(mark => !mark.open);
  if (!from)
    return boxes.filter(mark => overlap(mark, seen)).sort((a, b) => a.y - b.y || a.x - b.x)[0] ?? boxes[0] ?? null;
  if (from.open) return way === "down" || way === "right" ? (boxes.find(mark => within(mark, from)) ?? null) : null;
  const found = way === "up" || way === "down" ? along(scene, from, way) : neighbors(boxes, from, way);
  const [nearest] = found.sort((a, b) => distance(from, a, way) - distance(from, b, way));
  return nearest ?? null;
}

function along(scene: Scene, from: DrawnItem, way: "up" | "down"): DrawnItem[] {
  const found = new Set<DrawnItem>();
  for (const line of scene.lines) {
    if (way === "down" && line.from === from) line.to.forEach(mark => found.add(mark));
    if (way === "up" && line.to.includes(from)) found.add(line.from);
  }
  return [...found];
}

function neighbors(boxes: readonly DrawnItem[], from: DrawnItem, way: "left" | "right"): DrawnItem[] {
  const middle = from.y + from.height / 2;
  const right = way === "right";
  return boxes.filter(mark =>
    mark !== from && (right ? mark.x > from.x : mark.x < from.x)
      && Math.abs(mark.y + mark.height / 2 - middle) <= (mark.height + from.height) / 2,
  );
}

/** The way that is walked counts less than the way aside. */
function distance(from: DrawnItem, to: DrawnItem, way: Way): number {
  const dx = Math.abs(from.x + from.width / 2 - to.x - to.width / 2);
  const dy = Math.abs(from.y + from.height / 2 - to.y - to.height / 2);
  return way === "up" || way === "down" ? dy + 2 * dx : dx + 2 * dy;
}
