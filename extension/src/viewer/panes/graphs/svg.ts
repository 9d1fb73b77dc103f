// Boxes and lines as SVG: for what is near enough to be read.

import { clipped } from "./look";
import { svg } from "../../dom";
import { phrase } from "../../format";
import { colorClass } from "../../palette";
import { countsText, SAVED_KINDS, type Line, type DrawnItem, SIGNS, type Tie } from "./scene";

export const GLYPHS = {
  added: "+", removed: "−", changed: "~", saved: "●", recomputed: "↻", input: "○",
} as const;

/** A route as path data: curves begin and end upright. */
export function pathOf(points: readonly number[]): string {
  let d = `M${points[0]} ${points[1]}`;
  for (let n = 2; n < points.length; n += 2) {
    const [x0, y0, x1, y1] = [points[n - 2]!, points[n - 1]!, points[n]!, points[n + 1]!];
    const middle = (y0 + y1) / 2;
    d += x0 === x1 ? `V${y1}` : y0 === y1 ? `H${x1}` : `C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
  }
  return d;
}

const HEAD = 5;

/** A line as far as no other draws it; all of it where `whole`. */
export function lineElement(line: Line, whole = false): SVGElement {
  const x = line.points[line.points.length - 2]!;
  const y = line.points[line.points.length - 1]!;
  const head = line.ends ? `M${x - HEAD * 0.7} ${y - HEAD - 1}L${x} ${y - 1}L${x + HEAD * 0.7} ${y - HEAD - 1}` : "";
  return svg("path", { class: `ex-g-line ex-g-${line.look}${line.back ? " ex-g-back" : ""}`,
    d: pathOf(whole ? line.points : line.points.slice(line.own)) + head });
}

export function tieElement({ from, to }: Tie): SVGElement {
  const [x0, x1] = [from.x + from.width, to.x];
  const [y0, y1] = [from.y + (from.open ? 12 : from.height / 2), to.y + (to.open ? 12 : to.height / 2)];
  const middle = (x0 + x1) / 2;
  return svg("path.ex-g-tie", { d: `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}` });
}

export function frameElement(mark: DrawnItem, id: string): SVGElement {
  const { width, height, label, item } = mark;
  const kind = item.kind === "leaf" ? "" : item.kind;
  return svg(
    "g", { id, class: `ex-g-frame ex-g-${kind}`, transform: `translate(${mark.x} ${mark.y})`, role: "img",
      "aria-label": mark.spoken },
    svg("rect.ex-g-frame-body", { width, height, rx: 8 }),
    ...toggle(10, 13, "−"),
    svg("text.ex-g-frame-name", { x: 24, y: 17 }, clipped(label.title, item.kind !== "module",
      Math.max(4, Math.floor((width - 40) / 7.4) - (mark.chip ? mark.chip.length + 1 : 0)))),
    mark.chip ? chip(width - 8, 13, mark.chip) : null,
  );
}

export function boxElement(mark: DrawnItem, id: string): SVGElement {
  return mark.item.kind === "leaf" ? nodeElement(mark, id) : groupElement(mark, id);
}

function nodeElement(mark: DrawnItem, id: string): SVGElement {
  const { width, height, node, label } = mark;
  const input = node?.data.op === "placeholder" || node?.data.op === "get_attr";
  const look = [
    "ex-g-node", input ? "ex-g-given" : "", mark.sign ? `ex-g-${mark.sign}` : "",
    mark.outputs.length ? "ex-g-result" : "", colorClass(mark.stripe),
  ];
  return svg(
    "g", {
      id, class: phrase(look, " "), transform: `translate(${mark.x} ${mark.y})`, role: "img", "aria-label": mark.spoken,
      style: mark.color ? `--tint: var(${mark.color})` : undefined,
    },
    svg("rect.ex-g-body", { width, height, rx: input ? 14 : 5 }),
    mark.color ? svg("rect.ex-g-tint", { width, height, rx: input ? 14 : 5 }) : null,
    mark.stripe === null ? null : svg("path.ex-g-stripe", { d: stripeOf(input, height) }),
    mark.outputs.length ? svg("path.ex-g-outcome", { d: `M6 ${height + 3.5}H${width - 6}` }) : null,
    svg("text.ex-g-title", { x: 12, y: 17 }, label.title),
    svg("text.ex-g-detail", { x: 12, y: 31 }, label.detail),
    mark.chip ? chip(width + 4, -1, mark.chip) : null,
    mark.sign ? badge(2, 0, `ex-g-sign ex-g-${mark.sign}`, GLYPHS[mark.sign], SIGNS[mark.sign]) : null,
    mark.backward ? badge(width - 4, height - 1, `ex-g-backward ex-g-${mark.backward}`,
      GLYPHS[mark.backward as keyof typeof GLYPHS] ?? "?", SAVED_KINDS[mark.backward] ?? mark.backward) : null,
  );
}

/** The source line's color along the left edge, within the box's rounding. */
function stripeOf(input: boolean, height: number): string {
  const inset = input ? 11 : 4;
  return `M2.5 ${inset}V${height - inset}`;
}

function groupElement(mark: DrawnItem, id: string): SVGElement {
  const { width, height, label, item, bars } = mark;
  const kind = item.kind === "leaf" ? "" : item.kind;
  const stack = item.kind === "alike"
    ? [svg("rect.ex-g-behind", { x: 8, y: 8, width, height, rx: 6 }),
      svg("rect.ex-g-behind", { x: 4, y: 4, width, height, rx: 6 })]
    : [];
  let left = 8;
  const parts = bars.map(([color, share]) => {
    const size = share * (width - 16);
    const bar = svg("rect.ex-g-bar",
      { x: left, y: height - 7, width: Math.max(size - 1, 0.5), height: 3, style: `--tint: var(${color})` });
    left += size;
    return bar;
  });
  return svg(
    "g", { id, class: `ex-g-group ex-g-${kind}`, transform: `translate(${mark.x} ${mark.y})`, role: "img",
      "aria-label": mark.spoken },
    ...stack,
    svg("rect.ex-g-body", { width, height, rx: 6 }),
    ...parts,
    ...toggle(12, 15, "+"),
    svg("text.ex-g-title", { x: 24, y: 18 }, label.title),
    svg("text.ex-g-detail", { x: 24, y: 31 }, label.detail),
    item.kind === "alike" ? badge(width - 6, 0, "ex-g-times", `×${item.children.length}`,
      `${item.children.length} layers that are alike`) : null,
    mark.chip ? chip(width + 4, item.kind === "alike" ? height : -1, mark.chip) : null,
    mark.counts ? badge(2, 0, "ex-g-sign ex-g-changed", countsText(mark.counts),
      `${countsText(mark.counts)} by this pass`) : null,
  );
}

function toggle(x: number, y: number, sign: "+" | "−"): SVGElement[] {
  return [
    svg("rect.ex-g-toggle", { x: x - 5, y: y - 5, width: 10, height: 10, rx: 2 }),
    svg("path.ex-g-toggle-sign",
      { d: `M${x - 2.5} ${y}H${x + 2.5}${sign === "+" ? `M${x} ${y - 2.5}V${y + 2.5}` : ""}` }),
  ];
}

/** A few words on the upper edge, ending at `x`. */
function chip(x: number, y: number, text: string): SVGElement {
  const width = text.length * 6 + 8;
  return svg(
    "g.ex-g-chip", { transform: `translate(${x - width} ${y - 7})` },
    svg("rect", { width, height: 14, rx: 7 }), svg("text", { x: width / 2, y: 10.5 }, text),
  );
}

function badge(x: number, y: number, look: string, text: string, title: string): SVGElement {
  const width = text.length > 1 ? text.length * 7 + 8 : 14;
  return svg(
    "g", { class: `ex-g-badge ${look}`, transform: `translate(${x - 7} ${y - 7})` },
    svg("title", title), svg("rect", { width, height: 14, rx: 7 }), svg("text", { x: width / 2, y: 11 }, text),
  );
}
