// A drawing with the same facts as a table beside it; both can be saved.

import { fill, h } from "./dom";
import { choices } from "./choices";
import type { DataTable } from "./datatable";
import type { Key } from "./element";
import { Linked } from "./linked";
import type { Export } from "./pane";
import type { Selection } from "./selection";
import { ends, type Signal } from "./signal";

/** Draws for a width in pixels; marks that stand for elements are added to `linked`. null where there is nothing to
 * draw. */
export type Draw = (width: number, linked: Linked) => SVGSVGElement | null;

export type Presentation = "drawing" | "table";
const WAYS: { readonly [shown in Presentation]: string } = { drawing: "Drawing", table: "Table" };

/** A part of a pane under its heading, with tools beside that. */
export function part(title: string, tools: readonly HTMLElement[], ...body: readonly HTMLElement[]): HTMLElement {
  return h("section.ex-picture", h("header", h("h2", title), ...tools), ...body);
}

export function Picture<Row>(
  title: string, table: DataTable<Row>, selection: Selection, shown: Signal<Presentation>,
  chosen: (of: Key) => void = () => undefined, ...tools: readonly HTMLElement[]
) {
  const canvas = h("div.ex-canvas");
  let drawn: Draw = () => null;
  let canDraw = true;
  let svg: SVGSVGElement | null = null;
  let drawnFor = 0;
  const reveal = (of: Key): boolean => canvas.hidden ? table.reveal(of) : linked.reveal(of) || table.reveal(of);
  const linked = Linked(canvas, selection, chosen);
  const ways = choices(`${title}: shown as`, Object.entries(WAYS), shown);
  const element = part(title, [...tools, ways.element], canvas, table.element);
  const observer = new ResizeObserver(fit);
  observer.observe(canvas);
  const dispose = ends(() => observer.disconnect(), ways.end, shown.watch(lay), linked, table);

  /** Shows other facts. Where they cannot be drawn there is the table alone, and nothing where it is empty as well. */
  function show(draw: Draw, drawable = true): void {
    drawn = draw;
    canDraw = drawable;
    drawnFor = 0;
    lay();
    fit();
  }

  function exports(name: string): readonly Export[] {
    const picture = async () => {
      if (!svg) throw new Error(`${title}: there is nothing to draw`);
      return standalone(svg);
    };
    return [
      { kind: "svg", name, make: picture },
      { kind: "png", name, make: async () => rasterized(await picture()) },
      { kind: "txt", name, make: async () => table.text() },
    ];
  }

  function lay(): void {
    const drawn = canDraw && shown.value === "drawing";
    canvas.hidden = !drawn;
    table.element.hidden = drawn || (table.isEmpty && !canDraw);
    ways.element.hidden = !canDraw;
  }

  function fit(): void {
    const width = Math.floor(canvas.clientWidth);
    if (width === 0 || Math.abs(width - drawnFor) < 2) return;
    drawnFor = width;
    linked.clear();
    svg = drawn(width, linked);
    fill(canvas, ...(svg ? [svg] : []));
  }

  return { element, show, reveal, exports, dispose, table };
}

const STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin",
  "stroke-linecap", "opacity",
  "font-family", "font-size", "font-weight", "font-style", "font-variant-numeric", "text-anchor",
  "text-decoration-line", "paint-order", "white-space",
] as const;

/** A drawing that looks the same without the page's style sheets: a copy in which each element says how it looks. */
export function standalone(drawing: SVGSVGElement): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const copies = copy.querySelectorAll<SVGElement>("*");
  drawing.querySelectorAll<SVGElement>("*").forEach((each, n) => {
    const style = getComputedStyle(each);
    const twin = copies[n];
    if (!twin) return;
    for (const name of STYLES) twin.style.setProperty(name, style.getPropertyValue(name));
    for (const name of ["tabindex", "class", "role", "aria-label"]) twin.removeAttribute(name);
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.style.background = behind(drawing);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

/** The color that a drawing stands on. */
function behind(drawing: Element): string {
  for (let at: Element | null = drawing; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (color && !/^(transparent|rgba\(.*, 0\))$/.test(color)) return color;
  }
  return "white";
}

const PIXELS_EACH = 2;

export async function rasterized(drawing: string): Promise<Blob> {
  const image = new Image();
  const loaded = new Promise<void>((resolve, reject) => {
    image.onload = () => resolve();
    image.onerror = () => reject(new Error("this browser could not draw the picture"));
  });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing)}`;
  await loaded;
  const canvas = document.createElement("canvas");
  canvas.width = image.width * PIXELS_EACH;
  canvas.height = image.height * PIXELS_EACH;
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob(
      blob => (blob ? resolve(blob) : reject(new Error("this browser could not make a PNG"))), "image/png"));
}
