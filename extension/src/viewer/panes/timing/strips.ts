// Samples of each contestant as columns of dots, with the middle half and the median under them.

import { across, drawing, fitted, linear, logarithmic, textWidth } from "../../chart";
import { svg } from "../../dom";
import { phrase, seconds } from "../../format";
import type { SamplesData } from "../../record";
import { spanMagnitudes, quartiles, stacked, withQuartiles } from "./figures";
import { least, most } from "../../collections";

const LEFT = 112;
/** Pixels of a normal font that is as wide as the bold one of 11. */
const BOLD = 12.5;
const ROW = 88;
const DOTS = 40;
const COLUMN = 5;
const RADIUS = 2.2;

/** Dots of one contestant: of more samples, evenly many are left out. */
const MOST_DOTS = 2000;

export function drawStrips(contestants: readonly SamplesData[], width: number): SVGSVGElement | null {
  const values = contestants.flatMap(each => each.samples).filter(each => each > 0);
  if (values.length === 0) return null;
  const log = spanMagnitudes(values);
  const [first, last] = [least(values), most(values)];
  const right = width - 22;
  const x = log
    ? logarithmic(first * 0.9, last * 1.1, LEFT, right) : linear(0, last * 1.03, LEFT, right, Math.floor(width / 110));
  const bottom = contestants.length * ROW + 6;
  const rows = contestants.map((each, n) => drawRow(each, n * ROW, x, width));
  const name = `Samples of ${contestants.map(each => each.name).join(", ")}`;
  const axis = across(x, bottom, bottom, seconds, log ? "time, on a logarithmic axis" : "time", right);
  return drawing(width, bottom + 34, name, axis, ...rows);
}

function drawRow(
  each: SamplesData, top: number, x: (value: number) => number, width: number,
): SVGGElement {
  const { name, samples, median, compile_seconds: compile, speed } = each;
  const base = top + DOTS + 4;
  const positive = samples.filter(each => each > 0);
  const every = Math.ceil(positive.length / MOST_DOTS);
  const dots = stacked(positive.filter((_, n) => n % every === 0), x, COLUMN);
  const step = Math.min(COLUMN, (DOTS - 4) / most(dots.map(each => each.level), 1));
  const [low, high] = quartiles(positive);
  const label = withQuartiles(each);
  const speedText = speed?.said ?? "";
  const shortText = textWidth(speedText, BOLD) > width - LEFT ? speedText.split(/ \(|: /)[0]! : speedText;
  const middle = x(median);
  const room = textWidth(label) / 2 + 4;
  const at = Math.min(Math.max(middle, LEFT + room), width - room);
  return svg(
    "g", { class: `ex-contestant ex-is-${contestantClass(name)}`, role: "img",
      "aria-label": phrase([`${name}: median ${label} over ${samples.length} samples`, speedText], ", ") },
    svg("text.ex-contestant-name", { x: 0, y: base - 4 }, name),
    svg("text.ex-tick", { x: 0, y: base + 9 }, every > 1 ? `1 of ${every} samples` : `${samples.length} samples`),
    typeof compile === "number" ? svg("text.ex-tick", { x: 0, y: base + 22 }, `compiled in ${seconds(compile)}`) : null,
    svg("text.ex-contestant-median", { x: LEFT, y: base + 35 }, fitted(shortText, width - LEFT, BOLD)),
    svg("line.ex-axis.ex-base", { x1: LEFT, x2: width - 22, y1: base + 1, y2: base + 1 }),
    ...dots.map(dot => svg("circle.ex-sample", { cx: dot.x, cy: base - 3 - dot.level * step, r: RADIUS })),
    svg("rect.ex-quartiles", { x: x(low), y: base + 4, width: Math.max(2, x(high) - x(low)), height: 6, rx: 2 }),
    svg("line.ex-median", { x1: middle, x2: middle, y1: base - 6, y2: base + 12 }),
    svg("text.ex-contestant-median", { x: at, y: base + 21, "text-anchor": "middle" }, label),
  );
}

/** Names come from the record; a class only stands for those that have a look. */
const contestantClass = (name: string): string => (["eager", "explorer", "stock"].includes(name) ? name : "other");
