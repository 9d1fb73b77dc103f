// Pointer, wheel and arrow keys: drag to move, pinch or wheel with a modifier key to zoom, wheel to move; from box to
// box down and up along edges, left and right to the box beside.

import type { Dispose } from "../../signal";
import { type Rectangle, within } from "./camera";
import { type DrawnItem, overlap, type Scene } from "./scene";

interface Gestures {
  /** False where nothing could move: the page then scrolls. */
  move(dx: number, dy: number): boolean;
  zoom(x: number, y: number, factor: number): void;
  hover(x: number, y: number): void;
  leave(): void;
  click(x: number, y: number): void;
  doubleClick(x: number, y: number): void;
}

const STARTS_AT = 4;
const LINE = 16;

export function gestures(on: HTMLElement, handle: Gestures): Dispose {
  const down = new Map<number, { x: number; y: number }>();
  let dragged = false;
  let start = { x: 0, y: 0 };
  const at = (event: MouseEvent) => {
    const box = on.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const listeners: { [name: string]: (event: never) => void } = {
    pointerdown: (event: PointerEvent) => {
      if (event.button !== 0 || isControl(event.target)) return;
      down.set(event.pointerId, at(event));
      if (down.size === 1) {
        start = at(event);
        dragged = false;
      }
    },
    pointermove: (event: PointerEvent) => {
      const now = at(event);
      const before = down.get(event.pointerId);
      if (!before) {
        if (event.pointerType !== "touch") handle.hover(now.x, now.y);
        return;
      }
      if (!dragged && down.size === 1 && Math.hypot(now.x - start.x, now.y - start.y) < STARTS_AT) return;
      if (!dragged) {
        dragged = true;
        on.setPointerCapture(event.pointerId);
        on.classList.add("ex-g-dragged");
      }
      if (down.size === 1) {
        handle.move(now.x - before.x, now.y - before.y);
      } else {
        const other = [...down].find(([id]) => id !== event.pointerId)![1];
        const [far, farBefore] =
          [Math.hypot(now.x - other.x, now.y - other.y), Math.hypot(before.x - other.x, before.y - other.y)];
        if (farBefore > 0) handle.zoom((now.x + other.x) / 2, (now.y + other.y) / 2, far / farBefore);
        handle.move((now.x - before.x) / 2, (now.y - before.y) / 2);
      }
      down.set(event.pointerId, now);
    },
    pointerup: (event: PointerEvent) => {
      if (!down.delete(event.pointerId) || down.size > 0) return;
      on.classList.remove("ex-g-dragged");
      if (!dragged) handle.click(at(event).x, at(event).y);
    },
    pointercancel: (event: PointerEvent) => {
      down.delete(event.pointerId);
      on.classList.remove("ex-g-dragged");
    },
    pointerleave: () => handle.leave(),
    dblclick: (event: MouseEvent) => {
      if (!isControl(event.target)) handle.doubleClick(at(event).x, at(event).y);
    },
    wheel: (event: WheelEvent) => {
      const unit = event.deltaMode === 1 ? LINE : event.deltaMode === 2 ? on.clientHeight : 1;
      const { x, y } = at(event);
      if (event.ctrlKey || event.metaKey || event.altKey) {
        handle.zoom(x, y, Math.exp(-Math.max(-60, Math.min(60, event.deltaY * unit)) * 0.008));
        event.preventDefault();
      } else {
        const [dx, dy] = event.shiftKey && !event.deltaX ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
        if (handle.move(-dx * unit, -dy * unit)) event.preventDefault();
      }
    },
  };
  for (const [name, listener] of Object.entries(listeners))
    on.addEventListener(name, listener as EventListener, { passive: false });
  return () =>
    Object.entries(listeners).forEach(([name, listener]) => on.removeEventListener(name, listener as EventListener));
}

function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("button, .ex-g-card, .ex-g-minimap") !== null;
}

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
