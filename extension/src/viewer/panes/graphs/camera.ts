// What part of a drawing is seen, and how large. `x` and `y` are the drawing's point at the view's left upper corner.

import { quartiles } from "../timing/figures";

export interface Camera {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

export interface Extent {
  readonly width: number;
  readonly height: number;
}

export interface Rectangle extends Extent {
  readonly x: number;
  readonly y: number;
}

export function within(inner: Rectangle, outer: Rectangle): boolean {
  return inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width
    && inner.y + inner.height <= outer.y + outer.height;
}

const LEAST_SCALE = 0.02;
const MOST_SCALE = 3;
/** Below this, names cannot be read. */
const READABLE = 0.7;
const MARGIN = 24;
/** So much of a drawing stays in view, in pixels. */
const KEPT = 80;

export function moved(camera: Camera, dx: number, dy: number): Camera {
  return { ...camera, x: camera.x - dx / camera.scale, y: camera.y - dy / camera.scale };
}

/** Larger or smaller by a factor, with the point at (px, py) of the view staying where it is. */
export function zoomed(camera: Camera, px: number, py: number, factor: number): Camera {
  const scale = Math.min(Math.max(camera.scale * factor, LEAST_SCALE), MOST_SCALE);
  return { x: camera.x + px / camera.scale - px / scale, y: camera.y + py / camera.scale - py / scale, scale };
}

/** The whole drawing in view, never larger than life. */
export const whole = (drawing: Extent, view: Extent): Camera => centered(drawing, view, fitting(drawing, view));

/** The whole drawing where it can be read so; else its upper part, readable, with most of what is there in view. */
export function beginning(drawing: Extent, view: Extent, boxes: readonly Rectangle[]): Camera {
  const all = fitting(drawing, view);
  if (all >= READABLE / 2) return centered(drawing, view, all);
  const scale = Math.min(Math.max((view.width - 2 * MARGIN) / drawing.width, READABLE), 1);
  const middle = centered(drawing, view, scale);
  const seen = view.width / scale;
  const room = MARGIN / scale;
  const upper = boxes.filter(box => box.y < view.height / scale).map(box => box.x + box.width / 2);
  const x = Math.max(-room, Math.min(quartiles(upper)[1] - seen / 2, drawing.width + room - seen));
  return upper.length && seen < drawing.width ? { ...middle, x } : middle;
}

function fitting(drawing: Extent, view: Extent): number {
  const scale = Math.min((view.width - 2 * MARGIN) / Math.max(drawing.width, 1),
    (view.height - 2 * MARGIN) / Math.max(drawing.height, 1), 1);
  return Math.max(scale, LEAST_SCALE);
}

/** Centerd from side to side; from the top where it is higher than the view. */
function centered(drawing: Extent, view: Extent, scale: number): Camera {
  const x = (drawing.width - view.width / scale) / 2;
  const y =
    drawing.height * scale + 2 * MARGIN > view.height ? -MARGIN / scale : (drawing.height - view.height / scale) / 2;
  return { x, y, scale };
}

/** The camera nearest to this one that has some of the drawing in view. */
export function clamped(camera: Camera, drawing: Extent, view: Extent): Camera {
  const along = (at: number, size: number, seen: number) => {
    const kept = Math.min(KEPT / camera.scale, size, seen);
    return Math.min(Math.max(at, kept - seen), size - kept);
  };
  return {
    x: along(camera.x, drawing.width, view.width / camera.scale),
    y: along(camera.y, drawing.height, view.height / camera.scale),
    scale: camera.scale,
  };
}

/** The least move that brings a rectangle into view, with some room around; it is centerd where it was out of view. */
export function showing(camera: Camera, what: Rectangle, view: Extent): Camera {
  const scale = camera.scale < READABLE / 2 ? READABLE : camera.scale;
  const seen = { width: view.width / scale, height: view.height / scale };
  const room = MARGIN / scale;
  const around = { x: what.x - room, y: what.y - room, width: what.width + 2 * room, height: what.height + 2 * room };
  if (scale === camera.scale && within(around, { ...camera, ...seen })) return camera;
  const along = (start: number, size: number,
    whole: number) => (size + 2 * room > whole ? start - room : start + (size - whole) / 2);
  return { x: along(what.x, what.width, seen.width), y: along(what.y, what.height, seen.height), scale };
}

export function between(from: Camera, to: Camera, part: number): Camera {
  const mix = (a: number, b: number) => a + (b - a) * part;
  return { x: mix(from.x, to.x), y: mix(from.y, to.y), scale: mix(from.scale, to.scale) };
}
