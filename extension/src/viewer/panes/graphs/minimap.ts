// The whole drawing in a corner, with what is in view marked. Hidden where everything is in view.

import { h, on } from "../../dom";
import type { Rectangle } from "./camera";
import type { Colours } from "./canvas";
import type { Scene } from "./scene";

const WIDTH = 110;
const HEIGHT = 150;

export class Minimap {
  readonly element: HTMLElement;
  readonly #canvas = h("canvas");
  readonly #view = h("div.ex-g-seen");
  #scale = 1;
  #size = { width: 0, height: 0 };

  constructor(to: (x: number, y: number) => void) {
    this.element = h("div.ex-g-minimap", { "aria-hidden": "true" }, this.#canvas, this.#view);
    const go = (event: PointerEvent) => {
      const box = this.#canvas.getBoundingClientRect();
      to((event.clientX - box.left) / this.#scale, (event.clientY - box.top) / this.#scale);
    };
    on(this.element, "pointerdown", event => {
      this.element.setPointerCapture(event.pointerId);
      go(event);
    });
    on(this.element, "pointermove", event => {
      if (this.element.hasPointerCapture(event.pointerId)) go(event);
    });
  }

  show(scene: Scene, colours: Colours): void {
    this.#size = { width: scene.width, height: scene.height };
    if (!scene.width || !scene.height) return;
    this.#scale = Math.min(WIDTH / scene.width, HEIGHT / scene.height);
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.max(scene.width * this.#scale, 4), Math.max(scene.height * this.#scale, 4)];
    Object.assign(this.#canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    Object.assign(this.#canvas.style, { width: `${width}px`, height: `${height}px` });
    const context = this.#canvas.getContext("2d");
    if (!context) return;
    context.setTransform(ratio * this.#scale, 0, 0, ratio * this.#scale, 0, 0);
    const least = 1 / this.#scale;
    for (const mark of scene.marks) {
      context.fillStyle = colours.of(mark.open ? "--ex-g-frame" : mark.colour || mark.bars[0]?.[0] || "--ex-fg2");
      context.fillRect(mark.x, mark.y, Math.max(mark.width, least), Math.max(mark.height, least));
    }
  }

  seen({ x, y, width, height }: Rectangle): void {
    const [size, scale] = [this.#size, this.#scale];
    const all = x <= 0 && y <= 0 && x + width >= size.width && y + height >= size.height;
    this.element.hidden = all || !size.width;
    const [left, top] = [Math.max(x, 0), Math.max(y, 0)];
    Object.assign(this.#view.style, {
      left: `${left * scale}px`, top: `${top * scale}px`,
      width: `${Math.max(0, Math.min(x + width, size.width) - left) * scale}px`, height: `${Math.max(0, Math.min(y + height, size.height) - top) * scale}px`,
    });
  }
}
