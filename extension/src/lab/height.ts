// The handle below a viewer in a notebook: dragged, or moved by the arrow keys.

import { aria, h, on } from "../viewer/dom";

const LEAST = 240;
const MOST = 4000;
const STEP = 40;

/** A handle that sets the height of `box`; `settled` is told where it was left. */
export function heightHandle(box: HTMLElement, settled: (pixels: number) => void): HTMLElement {
  const handle = h("div.ex-lab-handle", {
    role: "separator", tabindex: 0, "aria-orientation": "horizontal",
    "aria-label": "Height of the viewer", "aria-valuemin": LEAST, "aria-valuemax": MOST,
    title: "Drag, or use the arrow keys, to change the viewer's height",
  });
  const resize = (pixels: number) => setHeight(box, handle, pixels);
  on(handle, "pointerdown", down => {
    if (down.button !== 0) return;
    down.preventDefault();
    const from = box.offsetHeight - down.clientY;
    handle.setPointerCapture(down.pointerId);
    handle.onpointermove = move => resize(from + move.clientY);
    handle.onlostpointercapture = () => {
      handle.onpointermove = handle.onlostpointercapture = null;
      settled(box.offsetHeight);
    };
  });
  on(handle, "keydown", event => {
    const step = { ArrowUp: -STEP, ArrowDown: STEP }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    resize(box.offsetHeight + step);
    settled(box.offsetHeight);
  });
  return handle;
}

export function setHeight(box: HTMLElement, handle: HTMLElement, pixels: number): void {
  const height = Math.round(Math.min(MOST, Math.max(LEAST, pixels)));
  box.style.height = `${height}px`;
  aria(handle, "valuenow", height);
}
