// A drawing with the same facts as a table beside it; both can be saved.

import { fill, h } from "./dom";
import { choices } from "./choices";
import type { DataTable } from "./datatable";
import type { Key } from "./element";
import { Linked } from "./linked";
import type { Export } from "./pane";
import type { Selection } from "./selection";
import type { Dispose, Signal } from "./signal";

/** Draws for a width in pixels; marks that stand for elements are added to `linked`. null where there is nothing to draw. */
export type Draw = (width: number, linked: Linked) => SVGSVGElement | null;

export type Shown = "drawing" | "table";
const WAYS: { readonly [shown in Shown]: string } = { drawing: "Drawing", table: "Table" };

/** A part of a pane under its heading, with tools beside that. */
export function part(title: string, tools: readonly HTMLElement[], ...body: readonly HTMLElement[]): HTMLElement {
  return h("section.ex-picture", h("header", h("h2", title), ...tools), ...body);
}

export class Picture<Row> {
  readonly element: HTMLElement;
  readonly #canvas = h("div.ex-canvas");
  readonly #choices: HTMLElement;
  readonly #linked: Linked;
  readonly #disposers: Dispose[] = [];
  #draw: Draw = () => null;
  #drawable = true;
  #svg: SVGSVGElement | null = null;
  #width = 0;
  readonly #title: string;
  readonly #shown: Signal<Shown>;

  constructor(
    title: string,
    readonly table: DataTable<Row>,
    selection: Selection,
    shown: Signal<Shown>,
    chosen: (of: Key) => void = () => undefined,
    ...tools: readonly HTMLElement[]
  ) {
    this.#title = title;
    this.#shown = shown;
    this.#linked = Linked(this.#canvas, selection, chosen);
    const { element, end } = choices(`${title}: shown as`, Object.entries(WAYS), shown);
    this.#choices = element;
    this.element = part(title, [...tools, this.#choices], this.#canvas, table.element);
    const observer = new ResizeObserver(() => this.#fit());
    observer.observe(this.#canvas);
    this.#disposers.push(
      () => observer.disconnect(), end,
      shown.watch(() => this.#lay()),
    );
  }

  /** Shows other facts. Where they cannot be drawn there is the table alone, and nothing where it is empty as well. */
  show(draw: Draw, drawable = true): void {
    this.#draw = draw;
    this.#drawable = drawable;
    this.#width = 0;
    this.#lay();
    this.#fit();
  }

  reveal(of: Key): boolean {
    return this.#canvas.hidden ? this.table.reveal(of) : this.#linked.reveal(of) || this.table.reveal(of);
  }

  exports(name: string): readonly Export[] {
    const picture = async () => {
      if (!this.#svg) throw new Error(`${this.#title}: there is nothing to draw`);
      return standalone(this.#svg);
    };
    return [
      { kind: "svg", name, make: picture },
      { kind: "png", name, make: async () => rasterised(await picture()) },
      { kind: "txt", name, make: async () => this.table.text() },
    ];
  }

  dispose(): void {
    this.#disposers.forEach(dispose => dispose());
    this.#linked.dispose();
    this.table.dispose();
  }

  #lay(): void {
    const drawn = this.#drawable && this.#shown.value === "drawing";
    this.#canvas.hidden = !drawn;
    this.table.element.hidden = drawn || (this.table.isEmpty && !this.#drawable);
    this.#choices.hidden = !this.#drawable;
  }

  #fit(): void {
    const width = Math.floor(this.#canvas.clientWidth);
    if (width === 0 || Math.abs(width - this.#width) < 2) return;
    this.#width = width;
    this.#linked.clear();
    this.#svg = this.#draw(width, this.#linked);
    fill(this.#canvas, ...(this.#svg ? [this.#svg] : []));
  }
}

const STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity",
  "font-family", "font-size", "font-weight", "font-style", "font-variant-numeric", "text-anchor", "text-decoration-line", "paint-order", "white-space",
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

/** The colour that a drawing stands on. */
function behind(drawing: Element): string {
  for (let at: Element | null = drawing; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (colour && !/^(transparent|rgba\(.*, 0\))$/.test(colour)) return colour;
  }
  return "white";
}

const PIXELS_EACH = 2;

export async function rasterised(drawing: string): Promise<Blob> {
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
    canvas.toBlob(blob => (blob ? resolve(blob) : reject(new Error("this browser could not make a PNG"))), "image/png"));
}
