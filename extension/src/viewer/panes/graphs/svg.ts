// Boxes and lines as SVG, for what is near enough to be read: made for what is in view at once, for what is near it
// while there is time. And the legend of their colors, signs and lines.

import { clipped } from "./look";
import { svg, h, fill } from "../../dom";
import { phrase } from "../../format";
import { colorClass } from "../../palette";
import { countsText } from "../../stages";
import { SAVED_KINDS, type Line, type DrawnItem, SIGNS, type Tie, type Scene, overlap } from "./scene";
import { type Rectangle, within } from "./camera";
import type { Lit } from "./canvas";

export const GLYPHS = {
  added: "+", removed: "−", changed: "~", saved: "●", recomputed: "↻", input: "○",
} as const;

/** A route as path data: curves begin and end upright. */
function pathOf(points: readonly number[]): string {
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
function lineElement(line: Line, whole = false): SVGElement {
  const x = line.points[line.points.length - 2]!;
  const y = line.points[line.points.length - 1]!;
  const head = line.ends ? `M${x - HEAD * 0.7} ${y - HEAD - 1}L${x} ${y - 1}L${x + HEAD * 0.7} ${y - HEAD - 1}` : "";
  return svg("path", { class: `ex-g-line ex-g-${line.look}${line.back ? " ex-g-back" : ""}`,
    d: pathOf(whole ? line.points : line.points.slice(line.own)) + head });
}

function tieElement({ from, to }: Tie): SVGElement {
  const [x0, x1] = [from.x + from.width, to.x];
  const [y0, y1] = [from.y + (from.open ? 12 : from.height / 2), to.y + (to.open ? 12 : to.height / 2)];
  const middle = (x0 + x1) / 2;
  return svg("path.ex-g-tie", { d: `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}` });
}

function frameElement(mark: DrawnItem, id: string): SVGElement {
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

function boxElement(mark: DrawnItem, id: string): SVGElement {
  return mark.item.kind === "leaf" ? nodeElement(mark, id) : groupElement(mark, id);
}

function nodeElement(mark: DrawnItem, id: string): SVGElement {
  const { width, height, node, label } = mark;
  const input = node?.data.op === "placeholder" || node?.data.op === "get_attr";
  const round = input ? 11 : 4;
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
    mark.stripe === null ? null : svg("path.ex-g-stripe", { d: `M2.5 ${round}V${height - round}` }),
    mark.outputs.length ? svg("path.ex-g-outcome", { d: `M6 ${height + 3.5}H${width - 6}` }) : null,
    svg("text.ex-g-title", { x: 12, y: 17 }, label.title),
    svg("text.ex-g-detail", { x: 12, y: 31 }, label.detail),
    mark.chip ? chip(width + 4, -1, mark.chip) : null,
    mark.sign ? badge(2, 0, `ex-g-sign ex-g-${mark.sign}`, GLYPHS[mark.sign], SIGNS[mark.sign]) : null,
    mark.backward ? badge(width - 4, height - 1, `ex-g-backward ex-g-${mark.backward}`,
      GLYPHS[mark.backward as keyof typeof GLYPHS] ?? "?", SAVED_KINDS[mark.backward] ?? mark.backward) : null,
  );
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

/** How long elements are made in one frame for what is not in view yet, in milliseconds; and how many are kept. */
const SLICE = 5;
const MOST_KEPT = 2500;

/** `name` begins the ids of its elements. */
export function Layers(name: string) {
  // Frames are translucent: lines are seen below them, and do not cross out their names.
  const groups = { lines: svg("g"), lit: svg("g"), frames: svg("g"), boxes: svg("g"), ties: svg("g") };
  const world = svg("g", ...Object.values(groups));
  const element = svg("svg.ex-g-svg", world);
  const elements = new Map<DrawnItem | Line, SVGElement>();
  let covered: Rectangle | null = null;
  const of = (mark: DrawnItem): SVGElement | undefined => elements.get(mark);

  function clear(): void {
    for (const group of Object.values(groups)) fill(group);
    elements.clear();
    covered = null;
  }

  /** Moves what is seen into view. */
  function look(seen: Rectangle, scale: number): void {
    world.setAttribute("transform", `scale(${scale}) translate(${-seen.x} ${-seen.y})`);
  }

  /** Makes what is missing; "later" where some of it was put off to the next frame, "nothing" where all was there. */
  function cover(scene: Scene, seen: Rectangle): "done" | "later" | "nothing" {
    const wide: Rectangle =
      { x: seen.x - seen.width / 2, y: seen.y - seen.height / 2, width: 2 * seen.width, height: 2 * seen.height };
    if (covered && within(seen, covered) && seen.width * 3 > covered.width) return "nothing";
    if (elements.size > MOST_KEPT) drop(wide);
    const started = performance.now();
    let done = true;
    const make = (what: DrawnItem | Line, bounds: Rectangle, into: SVGElement, element: () => SVGElement): boolean => {
      if (elements.has(what) || !overlap(bounds, wide)) return false;
      if (performance.now() - started > SLICE && !overlap(bounds, seen)) return (done = false);
      const made = element();
      into.append(made);
      elements.set(what, made);
      return true;
    };
    let frames = false;
    scene.marks.forEach((mark, n) => {
      const id = `${name}-${n}`;
      if (mark.open) frames = make(mark, mark, groups.frames, () => frameElement(mark, id)) || frames;
      else make(mark, mark, groups.boxes, () => boxElement(mark, id));
    });
    for (const line of scene.lines) make(line, line.bounds, groups.lines, () => lineElement(line));
    // Outer frames lie below inner ones.
    if (frames) groups.frames.append(...scene.marks.flatMap(mark => (mark.open ? (elements.get(mark) ?? []) : [])));
    if (done) covered = wide;
    return done ? "done" : "later";
  }

  /** Gives elements the look of what is lit, and takes it from what was. */
  function dress(before: Lit | null, { hot, current, lines }: Lit, ties: readonly Tie[]): void {
    for (const mark of before?.hot ?? []) if (!hot.has(mark)) elements.get(mark)?.classList.remove("ex-hot");
    for (const mark of hot) elements.get(mark)?.classList.add("ex-hot");
    if (before?.current && before.current !== current) elements.get(before.current)?.classList.remove("ex-current");
    if (current) elements.get(current)?.classList.add("ex-current");
    fill(groups.lit, ...[...lines].filter(line => elements.has(line)).map(line => {
      const element = lineElement(line, true);
      element.classList.add("ex-hot");
      return element;
    }));
    fill(groups.ties, ...ties.map(tieElement));
  }

  function drop(wide: Rectangle): void {
    for (const [what, element] of elements) {
      if (overlap("bounds" in what ? what.bounds : what, wide)) continue;
      element.remove();
      elements.delete(what);
    }
  }

  return { element, clear, of, look, cover, dress };
}

const MARGIN = 20;

/** All of a scene, without anything lit. */
export function wholeDrawing(scene: Scene): SVGSVGElement {
  const [width, height] = [scene.width + 2 * MARGIN, scene.height + 2 * MARGIN];
  return svg(
    "svg.ex-g-svg.ex-g-export", { width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}` },
    svg("g", ...scene.lines.map(line => lineElement(line))),
    svg("g", ...scene.marks.filter(mark => mark.open).map(mark => frameElement(mark, ""))),
    svg("g", ...scene.marks.filter(mark => !mark.open).map(mark => boxElement(mark, ""))),
  );
}
