// Parts beside or below each other, with borders between them that the pointer and the arrow keys move.

import { aria, h, on, taken } from "./dom";
import { sum } from "./collections";
import { resized } from "./layout";

const STEP = 0.03;

export function Split(
  parts: readonly HTMLElement[], orientation: "horizontal" | "vertical", resize: (shares: readonly number[]) => void,
) {
  let current: readonly number[] = [];
  const across = (): boolean => orientation === "vertical";
  const borders = parts.slice(1).map((_, at) => border(at));
  /** The parts and the borders between them. */
  const elements = parts.flatMap((part, n) => [...(n > 0 ? [borders[n - 1] as HTMLElement] : []), part]);

  /** Gives each part its share of the whole. */
  function size(shares: readonly number[]): void {
    current = shares;
    parts.forEach((part, n) => (part.style.flexGrow = String(current[n])));
    let before = 0;
    borders.forEach((border, n) => {
      before += current[n] ?? 0;
      aria(border, "valuenow", Math.round(100 * before));
    });
  }

  function border(at: number): HTMLElement {
    const border = h("div.ex-splitter", {
      role: "separator", tabindex: 0, "aria-orientation": orientation,
      "aria-label": across() ? "Border between columns" : "Border between rows", "aria-valuemin": 0,
      "aria-valuemax": 100, "aria-valuenow": 50,
    });
    on(border, "keydown", event => {
      const by = { ArrowLeft: -STEP, ArrowUp: -STEP, ArrowRight: STEP, ArrowDown: STEP }[event.key];
      if (by === undefined) return;
      taken(event);
      resize(resized(current, at, by));
    });
    on(border, "dblclick", () => resize(current.map(() => 1 / current.length)));
    on(border, "pointerdown", down => drag(border, at, down));
    return border;
  }

  function drag(border: HTMLElement, at: number, down: PointerEvent): void {
    const whole = sum(parts, part => (across() ? part.offsetWidth : part.offsetHeight));
    const place = (event: PointerEvent) => (across() ? event.clientX : event.clientY);
    const started = current;
    const move = (event: PointerEvent) => resize(resized(started, at, (place(event) - place(down)) / whole));
    border.setPointerCapture(down.pointerId);
    on(border, "lostpointercapture", on(border, "pointermove", move), { once: true });
  }

  return { elements, size };
}

export type Split = ReturnType<typeof Split>;

/** Parts and the borders between them, of these shares until a border is moved. */
export function divided(parts: readonly HTMLElement[], orientation: "horizontal" | "vertical",
    shares: readonly number[]): readonly HTMLElement[] {
  const split: Split = Split(parts, orientation, moved => split.size(moved));
  split.size(shares);
  return split.elements;
}
