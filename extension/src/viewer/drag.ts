// Dragging a tab to another place with the pointer.

import { h, on } from "./dom";
import type { DropPlace } from "./layout";

const STARTS_AT = 6;
const EDGE = 0.25;

/** Lets `handle` be dragged onto a cell inside `area`: tells the tab in front there, and which part of it was meant. */
export function dragged(handle: HTMLElement, area: HTMLElement,
    drop: (target: string, place: DropPlace) => void): void {
  on(handle, "pointerdown", down => {
    if (down.button !== 0) return;
    const mark = h("div.ex-drop");
    let found: { tab: string; place: DropPlace } | null = null;
    const move = (event: PointerEvent) => {
      if (!mark.isConnected) {
        if (Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < STARTS_AT) return;
        area.append(mark);
      }
      found = under(area, event, mark);
    };
    const end = (event: PointerEvent) => {
      handle.removeEventListener("pointermove", move);
      handle.removeEventListener("pointerup", end);
      handle.removeEventListener("pointercancel", end);
      mark.remove();
      if (found && event.type === "pointerup") drop(found.tab, found.place);
    };
    handle.setPointerCapture(down.pointerId);
    on(handle, "pointermove", move);
    on(handle, "pointerup", end);
    on(handle, "pointercancel", end);
  });
}

function under(area: HTMLElement, event: PointerEvent, mark: HTMLElement): { tab: string; place: DropPlace } | null {
  mark.hidden = true;
  const cells =
    document.elementsFromPoint(event.clientX, event.clientY).map(each => each.closest<HTMLElement>(".ex-cell"));
  const cell = cells.find(each => each && area.contains(each));
  const tab = cell?.dataset.active;
  if (!cell || !tab) return null;
  const box = cell.getBoundingClientRect();
  const place = placeIn((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  const outer = area.getBoundingClientRect();
  const [x, y, width, height] = SHADED[place];
  mark.hidden = false;
  Object.assign(mark.style, {
    left: `${box.left - outer.left + x * box.width}px`, top: `${box.top - outer.top + y * box.height}px`,
    width: `${width * box.width}px`, height: `${height * box.height}px`,
  });
  return { tab, place };
}

/** What part of a cell a point means, given as shares of its width and height. */
export function placeIn(x: number, y: number): DropPlace {
  const distances: [number, DropPlace][] = [[x, "left"], [1 - x, "right"], [y, "up"], [1 - y, "down"]];
  const [nearest, place] = distances.reduce((best, each) => (each[0] < best[0] ? each : best));
  return nearest < EDGE ? place : "into";
}

const SHADED: { readonly [place in DropPlace]: readonly [number, number, number, number] } = {
  left: [0, 0, 0.5, 1], right: [0.5, 0, 0.5, 1], up: [0, 0, 1, 0.5], down: [0, 0.5, 1, 0.5], into: [0, 0, 1, 1],
};
