// What colors, signs and kinds of lines say in the drawing as it is.

import { h, svg } from "../../dom";
import { SAVED_KINDS, type Scene, SIGNS } from "./scene";
import { GLYPHS } from "./svg";

export function legendOf(scene: Scene): HTMLElement[] {
  const rows: HTMLElement[] = [];
  const paint = scene.parts[scene.parts.length - 1]?.paint;
  const row = (mark: Node, ...said: readonly (Node | string)[]) => h("div.ex-g-entry", mark, h("span", ...said));
  if (paint?.legend.length) {
    rows.push(h("div.ex-g-legend-title", `${paint.title}:`));
    for (const { color, label, count } of paint.legend) {
      const swatch = h("i.ex-g-swatch", { style: color ? `--tint: var(${color})` : "--tint: transparent" });
      rows.push(row(swatch, `${label} `, h("span.ex-count", String(count))));
    }
  }
  const signs = new Set(scene.marks.flatMap(mark => mark.sign ?? []));
  const kinds = new Set(scene.marks.map(mark => mark.backward));
  const marks: HTMLElement[] = [];
  for (const sign of ["added", "removed", "changed"] as const) if (signs.has(sign))
    marks.push(row(glyph(sign), SIGNS[sign]));
  for (const kind of ["saved", "recomputed", "input"] as const) if (kinds.has(kind))
    marks.push(row(glyph(kind), SAVED_KINDS[kind]!));
  if (scene.marks.some(mark => mark.stripe !== null))
    marks.push(row(h("i.ex-g-stripe-swatch.ex-line-0"), "left edge: the source line's color"));
  if (scene.marks.some(mark => mark.outputs.length)) marks.push(row(line("ex-g-outcome"), "output of the graph"));
  if (scene.lines.some(each => each.look === "crossing"))
    marks.push(row(line("ex-g-line ex-g-crossing"), "from the forward to the backward"));
  if (scene.lines.some(each => each.back)) marks.push(row(line("ex-g-line ex-g-back"), "leads back up"));
  if (scene.ties.length)
    marks.push(row(line("ex-g-tie"), "made by the same captured call as the box under the pointer"));
  return [...rows, ...marks];
}

/** The sign of what a pass did to a node, or of what becomes of a value for the backward. */
export function glyph(of: string, title?: string): HTMLElement {
  return h("b", { class: `ex-g-glyph ex-g-${of}`, title }, GLYPHS[of as keyof typeof GLYPHS] ?? "?");
}

function line(look: string): SVGElement {
  return svg("svg.ex-g-svg-sample", { width: 18, height: 10, "aria-hidden": "true" },
    svg("path", { class: look, d: "M1 5H17" }));
}
