// A strip beside a long text that shows where in it lit lines are, also those out of view.

import { h } from "./dom";

const WIDTH = 8;
const LEAST = 2;

export function Ruler() {
  const element = h("canvas.ex-ruler", { width: WIDTH, "aria-hidden": "true" });
  let marked: readonly number[] = [];
  let total = 1;
  let height = 0;
  const sized = new ResizeObserver(([entry]) => {
    height = Math.round(entry?.contentRect.height ?? 0);
    draw();
  });
  const dispose = () => sized.disconnect();
  sized.observe(element);

  /** Marks these lines (from 0, ascending) of a text of `of` lines. */
  function show(lines: readonly number[], of: number): void {
    marked = lines;
    total = Math.max(1, of);
    draw();
  }

  function draw(): void {
    const drawing = element.getContext("2d");
    if (!drawing || height === 0) return;
    if (element.height !== height) element.height = height;
    drawing.clearRect(0, 0, WIDTH, height);
    if (marked.length === 0) return;
    drawing.fillStyle = getComputedStyle(element).color;
    const each = height / total;
    for (const line of marked) drawing.fillRect(0, Math.floor(line * each), WIDTH, Math.max(LEAST, Math.ceil(each)));
  }

  return { element, show, dispose };
}

export type Ruler = ReturnType<typeof Ruler>;
