// Parts beside or below each other, with borders between them that the pointer and the arrow keys move.

import { aria, h, on, taken } from "./dom";
import { sum } from "./gather";
import { resized } from "./layout";

const STEP = 0.03;

export class Split {
  /** The parts and the borders between them. */
  readonly elements: readonly HTMLElement[];
  readonly #borders: readonly HTMLElement[];
  #shares: readonly number[] = [];
  readonly #parts: readonly HTMLElement[];
  readonly #orientation: "horizontal" | "vertical";
  readonly #resize: (shares: readonly number[]) => void;

  constructor(parts: readonly HTMLElement[], orientation: "horizontal" | "vertical", resize: (shares: readonly number[]) => void) {
    this.#parts = parts;
    this.#orientation = orientation;
    this.#resize = resize;
    this.#borders = parts.slice(1).map((_, at) => this.#border(at));
    this.elements = parts.flatMap((part, n) => [...(n > 0 ? [this.#borders[n - 1] as HTMLElement] : []), part]);
  }

  /** Gives each part its share of the whole. */
  size(shares: readonly number[]): void {
    this.#shares = shares;
    this.#parts.forEach((part, n) => (part.style.flexGrow = String(this.#shares[n])));
    let before = 0;
    this.#borders.forEach((border, n) => {
      before += this.#shares[n] ?? 0;
      aria(border, "valuenow", Math.round(100 * before));
    });
  }

  get #across(): boolean {
    return this.#orientation === "vertical";
  }

  #border(at: number): HTMLElement {
    const border = h("div.ex-splitter", {
      role: "separator", tabindex: 0, "aria-orientation": this.#orientation,
      "aria-label": this.#across ? "Border between columns" : "Border between rows", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 50,
    });
    on(border, "keydown", event => {
      const by = { ArrowLeft: -STEP, ArrowUp: -STEP, ArrowRight: STEP, ArrowDown: STEP }[event.key];
      if (by === undefined) return;
      taken(event);
      this.#resize(resized(this.#shares, at, by));
    });
    on(border, "dblclick", () => this.#resize(this.#shares.map(() => 1 / this.#shares.length)));
    on(border, "pointerdown", down => this.#drag(border, at, down));
    return border;
  }

  #drag(border: HTMLElement, at: number, down: PointerEvent): void {
    const whole = sum(this.#parts, part => (this.#across ? part.offsetWidth : part.offsetHeight));
    const place = (event: PointerEvent) => (this.#across ? event.clientX : event.clientY);
    const started = this.#shares;
    const move = (event: PointerEvent) => this.#resize(resized(started, at, (place(event) - place(down)) / whole));
    border.setPointerCapture(down.pointerId);
    on(border, "lostpointercapture", on(border, "pointermove", move), { once: true });
  }
}

/** Parts and the borders between them, of these shares until a border is moved. */
export function divided(parts: readonly HTMLElement[], orientation: "horizontal" | "vertical", shares: readonly number[]): readonly HTMLElement[] {
  const split: Split = new Split(parts, orientation, moved => split.size(moved));
  split.size(shares);
  return split.elements;
}
