// A strip beside a long text that shows where in it lit lines are, also those out of view.

import { h } from "./dom";

const WIDTH = 8;
const LEAST = 2;

export class Ruler {
  readonly element = h("canvas.ex-ruler", { width: WIDTH, "aria-hidden": "true" });
  #lines: readonly number[] = [];
  #of = 1;
  readonly #sized = new ResizeObserver(() => this.#draw());

  constructor() {
    this.#sized.observe(this.element);
  }

  /** Marks these lines (from 0, ascending) of a text of `of` lines. */
  show(lines: readonly number[], of: number): void {
    this.#lines = lines;
    this.#of = Math.max(1, of);
    this.#draw();
  }

  dispose(): void {
    this.#sized.disconnect();
  }

  #draw(): void {
    const { element } = this;
    const height = element.clientHeight;
    const drawing = element.getContext("2d");
    if (!drawing || height === 0) return;
    if (element.height !== height) element.height = height;
    drawing.clearRect(0, 0, WIDTH, height);
    if (this.#lines.length === 0) return;
    drawing.fillStyle = getComputedStyle(element).color;
    const each = height / this.#of;
    for (const line of this.#lines) drawing.fillRect(0, Math.floor(line * each), WIDTH, Math.max(LEAST, Math.ceil(each)));
  }
}
