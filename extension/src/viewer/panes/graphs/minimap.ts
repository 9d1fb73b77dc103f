// The whole drawing in a corner, with what is in view marked. Hidden where everything is in view.

import { h, on } from "../../dom";
import type { Rectangle } from "./camera";
import type { Colors } from "./canvas";
import type { Scene } from "./scene";

const WIDTH = 110;
const HEIGHT = 150;

export function Minimap(to: (x: number, y: number) => void) {
  const canvas = h("canvas");
  const view = h("div.ex-g-seen");
  let ownScale = 1;
  let ownSize = { width: 0, height: 0 };
  const element = h("div.ex-g-minimap", { "aria-hidden": "true" }, canvas, view);
  const go = (event: PointerEvent) => {
    const box = canvas.getBoundingClientRect();
    to((event.clientX - box.left) / ownScale, (event.clientY - box.top) / ownScale);
  };
  on(element, "pointerdown", event => {
    element.setPointerCapture(event.pointerId);
    go(event);
  });
  on(element, "pointermove", event => {
    if (element.hasPointerCapture(event.pointerId)) go(event);
  });

  function show(scene: Scene, colors: Colors): void {
    ownSize = { width: scene.width, height: scene.height };
    if (!scene.width || !scene.height) return;
    ownScale = Math.min(WIDTH / scene.width, HEIGHT / scene.height);
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.max(scene.width * ownScale, 4), Math.max(scene.height * ownScale, 4)];
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    const context = canvas.getContext("2d");
    if (!context) return;
    context.setTransform(ratio * ownScale, 0, 0, ratio * ownScale, 0, 0);
    const least = 1 / ownScale;
    for (const mark of scene.marks) {
      context.fillStyle = colors.of(mark.open ? "--ex-g-frame" : mark.color || mark.bars[0]?.[0] || "--ex-fg2");
      context.fillRect(mark.x, mark.y, Math.max(mark.width, least), Math.max(mark.height, least));
    }
  }

  function seen({ x, y, width, height }: Rectangle): void {
    const [size, scale] = [ownSize, ownScale];
    const all = x <= 0 && y <= 0 && x + width >= size.width && y + height >= size.height;
    element.hidden = all || !size.width;
    const [left, top] = [Math.max(x, 0), Math.max(y, 0)];
    Object.assign(view.style, {
      left: `${left * scale}px`, top: `${top * scale}px`,
      width: `${Math.max(0, Math.min(x + width, size.width) - left) * scale}px`,
      height: `${Math.max(0, Math.min(y + height, size.height) - top) * scale}px`,
    });
  }

  return { element, show, seen };
}

export type Minimap = ReturnType<typeof Minimap>;
