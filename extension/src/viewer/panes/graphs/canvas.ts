// The same drawing on a canvas: for what is far away, or too much for SVG; and small in a corner, with what is in view
// marked.

import type { Camera, Rectangle } from "./camera";
import { type Line, type DrawnItem, overlap, type Scene } from "./scene";
import { entry } from "../../collections";
import { h, on } from "../../dom";

/** Which lines and marks are lit. */
export interface Lit {
  readonly hot: ReadonlySet<DrawnItem>;
  readonly current: DrawnItem | null;
  readonly lines: ReadonlySet<Line>;
}

/** The style sheet's colors, which a canvas has to be told. */
export function Colors(root: Element) {
  const known = new Map<string, string>();
  let style: CSSStyleDeclaration;
  style = getComputedStyle(root);

  /** After the theme has changed. */
  function forget(): void {
    known.clear();
    style = getComputedStyle(root);
  }

  function of(property: string): string {
    return entry(known, property, () => style.getPropertyValue(property).trim() || "#888");
  }

  return { forget, of };
}

export type Colors = ReturnType<typeof Colors>;

/** Letters smaller than this are left out. */
const LEAST_TEXT = 7;

export function paintCanvas(canvas: HTMLCanvasElement, scene: Scene, camera: Camera, lit: Lit, colors: Colors): void {
  const ratio = window.devicePixelRatio || 1;
  const context = canvas.getContext("2d");
  if (!context) return;
  const seen: Rectangle =
    { x: camera.x, y: camera.y, width: canvas.clientWidth / camera.scale, height: canvas.clientHeight / camera.scale };
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.setTransform(ratio * camera.scale, 0, 0, ratio * camera.scale, -camera.x * ratio * camera.scale,
    -camera.y * ratio * camera.scale);
  const thin = Math.max(1, 0.6 / camera.scale);
  const boxes = scene.marks.filter(mark => overlap(mark, seen));
  for (const mark of boxes) if (mark.open) frame(context, mark, colors, thin);
  const lines = scene.lines.filter(line => overlap(line.bounds, seen));
  for (const look of ["crossing", "plain", "removed", "added"] as const) {
    context.beginPath();
    for (const line of lines) if (line.look === look) trace(context, line.points.slice(line.own));
    context.strokeStyle = colors.of(look === "plain" || look === "crossing" ? "--ex-g-line" : `--ex-g-${look}`);
    context.globalAlpha = look === "crossing" ? 0.55 : 1;
    context.lineWidth = thin;
    context.stroke();
  }
  context.globalAlpha = 1;
  context.beginPath();
  for (const line of lines) if (lit.lines.has(line)) trace(context, line.points);
  context.strokeStyle = colors.of("--ex-hot-edge");
  context.lineWidth = 2 * thin;
  context.stroke();
  for (const mark of boxes) if (!mark.open) box(context, mark, lit, colors, thin);
  for (const mark of boxes) if (12 * camera.scale >= LEAST_TEXT || mark.open)
    write(context, mark, colors, camera.scale);
}

function trace(context: CanvasRenderingContext2D, points: readonly number[]): void {
  context.moveTo(points[0]!, points[1]!);
  for (let n = 2; n < points.length; n += 2) {
    const [x0, y0, x1, y1] = [points[n - 2]!, points[n - 1]!, points[n]!, points[n + 1]!];
    const middle = (y0 + y1) / 2;
    if (x0 === x1 || y0 === y1) context.lineTo(x1, y1);
    else context.bezierCurveTo(x0, middle, x1, middle, x1, y1);
  }
}

function frame(context: CanvasRenderingContext2D, mark: DrawnItem, colors: Colors, thin: number): void {
  outline(context, mark, 8);
  context.fillStyle = colors.of("--ex-g-frame");
  context.fill();
  context.strokeStyle = colors.of("--ex-border");
  context.lineWidth = thin;
  context.stroke();
}

function box(context: CanvasRenderingContext2D, mark: DrawnItem, lit: Lit, colors: Colors, thin: number): void {
  const color = mark.color || mark.bars[0]?.[0];
  const given = mark.node?.data.op === "placeholder";
  outline(context, mark, given ? mark.height / 2 : 5);
  context.fillStyle = colors.of("--ex-bg");
  context.fill();
  if (color) {
    context.globalAlpha = 0.42;
    context.fillStyle = colors.of(color);
    context.fill();
    context.globalAlpha = 1;
  }
  const edge = mark === lit.current ? "--ex-accent"
    : lit.hot.has(mark) ? "--ex-hot-edge" : mark.sign ? `--ex-g-${mark.sign}` : mark.counts ? "--ex-g-changed" : "";
  context.strokeStyle = colors.of(edge || (color ?? "--ex-fg2"));
  context.lineWidth = edge ? 4 * thin : thin;
  if (mark.sign === "removed") context.setLineDash([6, 4]);
  context.stroke();
  context.setLineDash([]);
}

function outline(context: CanvasRenderingContext2D, { x, y, width, height }: Rectangle, radius: number): void {
  context.beginPath();
  context.roundRect(x, y, width, height, radius);
}

/** The name of a box; that of an outermost frame at a size that can be read from here. */
function write(context: CanvasRenderingContext2D, mark: DrawnItem, colors: Colors, scale: number): void {
  const outermost = mark.open && mark.item.parent?.parent === null;
  const size = outermost ? Math.max(12, 11 / scale) : 12;
  if (size * scale < LEAST_TEXT) return;
  context.font = `600 ${size}px ${colors.of("--ex-font")}`;
  if (mark.open && context.measureText(mark.label.title).width > mark.width) return;
  const [x, y] =
    mark.open ? [mark.x + 8, mark.y + size + 2] : [mark.x + (mark.item.kind === "leaf" ? 12 : 10), mark.y + 17];
  if (mark.open) {
    context.strokeStyle = colors.of("--ex-bg");
    context.lineWidth = size / 4;
    context.strokeText(mark.label.title, x, y);
  }
  context.fillStyle = colors.of(mark.open ? "--ex-fg2" : "--ex-fg");
  context.fillText(mark.label.title, x, y);
}

const MAP_WIDTH = 110;
const MAP_HEIGHT = 150;

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
    ownScale = Math.min(MAP_WIDTH / scene.width, MAP_HEIGHT / scene.height);
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
