// The parts that drawings of numbers share: scales, axes, marks with a pattern, and labels that fit.

import { h, svg } from "./dom";

/** From a number to a place in pixels. */
export interface Scale {
  (value: number): number;
  readonly ticks: readonly number[];
}

/** Places beyond this would be lost in a drawing's arithmetic. */
const FAR = 1e6;

/** A place that can be drawn at: numbers of a record may be as large or small as numbers are. */
function drawable(place: number, otherwise: number): number {
  return Number.isNaN(place) ? otherwise : Math.max(-FAR, Math.min(place, FAR));
}

export function linear(least: number, most: number, from: number, to: number, ticks = 5): Scale {
  const span = most > least ? most - least : 1;
  const place = (value: number) => drawable(from + ((value - least) / span) * (to - from), from);
  return Object.assign(place, { ticks: roundTicks(least, most, ticks) });
}

/** By powers of ten; `least` must be positive. */
export function logarithmic(least: number, most: number, from: number, to: number): Scale {
  const [low, high] = [Math.log10(least), Math.log10(Math.max(most, least * 1.0001))];
  const place = (value: number) => drawable(from + ((Math.log10(value) - low) / (high - low)) * (to - from), from);
  return Object.assign(place, { ticks: powerTicks(least, most) });
}

/** Some `count` round numbers from `least` to `most`: multiples of 1, 2 or 5 times a power of ten. */
export function roundTicks(least: number, most: number, count: number): number[] {
  if (!(most > least) || !Number.isFinite(most - least)) return [least];
  const rough = (most - least) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find(each => each * power >= rough) ?? 10) * power;
  const ticks: number[] = [];
  for (let n = Math.ceil(least / step - 1e-9) + 0; n * step <= most * (1 + 1e-12) + step * 1e-9 && ticks.length < 100;
    n++) ticks.push(n * step);
  return ticks;
}

/** Powers of ten in the range; where there are fewer than three, 2 and 5 times these as well. */
export function powerTicks(least: number, most: number): number[] {
  if (!(least > 0) || !Number.isFinite(most)) return [];
  const powers: number[] = [];
  for (let n = Math.floor(Math.log10(least)); n <= Math.ceil(Math.log10(most)); n++) powers.push(n);
  const inside = (value: number) => value >= least * (1 - 1e-9) && value <= most * (1 + 1e-9);
  const coarse = powers.map(n => 10 ** n).filter(inside);
  return coarse.length >= 3 ? coarse : powers.flatMap(n => [1, 2, 5].map(each => each * 10 ** n)).filter(inside);
}

/** About how wide a text is in the drawings' font, in pixels. */
export const textWidth = (text: string, size = 11): number => text.length * size * 0.6;

/** The text, shortened to fit; "" where too little of it would be left to tell anything. */
export function fitted(text: string, width: number, size = 11): string {
  if (textWidth(text, size) <= width) return text;
  const most = Math.floor(width / (size * 0.6)) - 1;
  return most >= 3 ? `${text.slice(0, most)}…` : "";
}

export function drawing(width: number, height: number, label: string,
    ...children: readonly (Node | null)[]): SVGSVGElement {
  return svg("svg.ex-drawing", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label },
    ...children);
}

/** "500 ms", "1.5 s", "10 GB/s": a round number needs no zeros behind its point. */
function tickLabel(tick: number, written: (value: number) => string): string {
  return tick === 0 ? "0" : written(tick).replace(/(\.\d*[1-9])0+(?= |$)|\.0+(?= |$)/, "$1");
}

/** A horizontal axis at `y`, with lines up through `height` at its ticks; its name ends at `end`. */
export function across(scale: Scale, y: number, height: number, written: (value: number) => string, name = "",
    end = 0): SVGGElement {
  const parts: Node[] = [];
  let free = -Infinity;
  for (const tick of scale.ticks) {
    const x = scale(tick);
    const label = tickLabel(tick, written);
    parts.push(svg("line.ex-gridline", { x1: x, x2: x, y1: y - height, y2: y }));
    if (x - textWidth(label) / 2 < free) continue;
    free = x + textWidth(label) / 2 + 8;
    parts.push(svg("text.ex-tick", { x, y: y + 14, "text-anchor": "middle" }, label));
  }
  if (name) parts.push(svg("text.ex-axis-name", { x: end, y: y + 29, "text-anchor": "end" }, name));
  return svg("g", { "aria-hidden": true }, ...parts);
}

/** A vertical axis at `x`, with lines to the right through `width` at its ticks. */
export function upward(scale: Scale, x: number, width: number, written: (value: number) => string): SVGGElement {
  const parts = scale.ticks.flatMap(tick => [
    svg("line.ex-gridline", { x1: x, x2: x + width, y1: scale(tick), y2: scale(tick) }),
    svg("text.ex-tick", { x: x - 6, y: scale(tick) + 4, "text-anchor": "end" }, tickLabel(tick, written)),
  ]);
  return svg("g", { "aria-hidden": true }, ...parts);
}

/** Patterns tell kinds of marks apart without their color. */
export type Pattern = "plain" | "hatched" | "dotted" | "crossed" | "barred";

let drawn = 0;

/** The patterns of one drawing: `fill(pattern, color class)` gives what to draw a filled mark from. */
export function Patterns() {
  const definitions = svg("defs");
  const name = `ex-pattern-${++drawn}`;
  const made = new Set<Pattern>();

  /** The overlay for a mark, to be drawn over its color: null for a plain one. */
  function fill(pattern: Pattern): string | null {
    if (pattern === "plain") return null;
    const id = `${name}-${pattern}`;
    if (!made.has(pattern)) {
      made.add(pattern);
      const lines = { hatched: "M-1 7 L7 -1 M-1 1 L1 -1 M5 7 L7 5", crossed: "M0 0 L6 6 M6 0 L0 6", barred: "M3 0 L3 6",
        dotted: "" }[pattern];
      const mark =
        pattern === "dotted" ? svg("circle.ex-dots", { cx: 3, cy: 3, r: 1 }) : svg("path.ex-hatch", { d: lines });
      definitions.append(svg("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, mark));
    }
    return `url(#${id})`;
  }

  return { definitions, fill };
}

export type Patterns = ReturnType<typeof Patterns>;

/** Something in a drawing that stands for an element. Its name is said, and told on hovering, whatever text it
 * shows. */
export function mark(name: string, look: string, ...shown: readonly (Node | null)[]): SVGGElement {
  return svg(
    "g", { role: "img", "aria-label": name, class: look },
    svg("g", { "aria-hidden": true }, svg("title", name), ...shown),
  );
}

/** A small drawing for a legend. */
export function sample(...inside: readonly SVGElement[]): SVGSVGElement {
  return svg("svg.ex-drawing", { width: 22, height: 12, "aria-hidden": true }, ...inside);
}

/** What a look and its pattern stand for. */
export function legendEntry({ look, pattern, says }: { readonly look: string; readonly pattern: Pattern;
readonly says: string }): HTMLElement {
  const patterns = Patterns();
  const shown = block(patterns, pattern, 1, 1, 20, 10, look);
  return h("span", sample(patterns.definitions, shown), says);
}

/** A filled rectangle, with its pattern over it. */
export function block(
  patterns: Patterns, pattern: Pattern, x: number, y: number, width: number, height: number, look: string,
): SVGGElement {
  const box = { x, y, width: Math.max(width, 1), height, rx: 2 };
  const over = patterns.fill(pattern);
  return svg(
    "g", { class: `ex-block ${look}` },
    svg("rect.ex-block-fill", { ...box }),
    over ? svg("rect.ex-block-pattern", { ...box, fill: over }) : null,
    svg("rect.ex-block-edge", { ...box }),
  );
}
