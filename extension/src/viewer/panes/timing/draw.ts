// Times as drawings: each kernel and library call as a bar, the longest first; samples of each contestant as columns of
// dots.

import { block, drawing, fitted, linear, mark, Patterns, textWidth, type Pattern, across, logarithmic } from
  "../../chart";
import { svg } from "../../dom";
import { key } from "../../element";
import { percent, scaled, seconds, phrase } from "../../format";
import { sum, least, most } from "../../collections";
import type { Linked } from "../../linked";
import type { MachineData, SamplesData } from "../../record";
import { performance, type Cost } from "./costs";
import { spanMagnitudes, quartiles, stacked, withQuartiles } from "./figures";

const ROW = 20;
const BAR = 14;
const LISTED = 24;

interface Spent {
  readonly costs: readonly Cost[];
  readonly overhead: number | null;
  readonly machine: MachineData | null;
  readonly all: boolean;
}

export function drawBars({ costs, overhead, machine, all }: Spent, width: number,
    linked: Linked): SVGSVGElement | null {
  const timed = costs.filter(each => each.seconds !== null).sort((a, b) => (b.seconds ?? 0) - (a.seconds ?? 0));
  if (timed.length === 0) return null;
  const listed = all || timed.length <= LISTED + 2 ? timed : timed.slice(0, LISTED);
  const others = timed.slice(listed.length);
  const total = sum(timed, each => each.seconds ?? 0);
  const several = new Set(timed.map(each => each.compile)).size > 1;
  const names = listed.map(each => (several ? `${each.compile} ${each.id}` : each.id));
  const left = Math.min(Math.max(60, ...names.map(each => textWidth(each) + 12)), width * 0.34);
  const figures = width < 480 ? 110 : 250;
  const rest = sum(others, each => each.seconds ?? 0);
  const x = linear(0, Math.max(timed[0]?.seconds ?? 0, overhead ?? 0), left, width - figures);
  const patterns = Patterns();
  const rows: SVGElement[] = listed.map((cost, n) => {
    const spent = cost.seconds ?? 0;
    const found = machine ? performance(cost, machine) : null;
    const rate = found && figures > 200
      ? ["",
        found.bytesPerSecond === null ? scaled(found.flopsPerSecond, "FLOP/s") : scaled(found.bytesPerSecond, "B/s"),
        `${percent(found.share)} of ${found.bound === "bandwidth" ? "bw" : "peak"}`].join("  ") : "";
    const group = mark(
      `${names[n]}: ${seconds(spent)}, ${percent(spent / total)} of all kernels; runs ${cost.runs}`, "ex-spent",
      ...bar(names[n] ?? "", n, left, x(spent), patterns, cost.kind === "kernel" ? "plain" : "dotted",
        cost.kind === "kernel" ? "ex-tone-0" : "ex-tone-1"),
      svg("text.ex-figure", { x: x(spent) + 6, y: n * ROW + 12 },
        `${seconds(spent)}  ${percent(spent / total)}${rate}`),
    );
    return linked.add(group, key(cost.compile, cost.id));
  });
  if (others.length > 0) {
    const y = rows.length * ROW + 12;
    rows.push(svg(
      "g", svg("text.ex-bar-name", { x: left - 8, y, "text-anchor": "end" }, `${others.length} others`),
      svg("text.ex-figure", { x: left + 6, y }, `${seconds(rest)}  ${percent(rest / total)} together`),
    ));
  }
  let height = rows.length * ROW;
  if (overhead !== null) {
    const n = rows.length + 0.5;
    rows.push(svg("line.ex-axis", { x1: 0, x2: width, y1: height + 4, y2: height + 4 }));
    rows.push(svg(
      "g", ...bar("outside", n, left, x(overhead), patterns, "hatched", "ex-tone-7"),
      svg("text.ex-figure", { x: x(overhead) + 6, y: n * ROW + 12 },
        `${seconds(overhead)} a call${figures > 200 ? " outside the kernels" : ""}`),
    ));
    height += ROW * 1.5;
  }
  return drawing(width, height + 4, "Seconds of each kernel and library call", patterns.definitions, ...rows);
}

function bar(
  name: string, n: number, left: number, until: number, patterns: Patterns, pattern: Pattern, look: string,
): SVGElement[] {
  return [
    svg("text.ex-bar-name", { x: left - 8, y: n * ROW + 12, "text-anchor": "end" }, fitted(name, left - 10)),
    block(patterns, pattern, left, n * ROW + 1, until - left, BAR, look),
  ];
}

const LEFT = 112;
/** Pixels of a normal font that is as wide as the bold one of 11. */
const BOLD = 12.5;
const STRIP = 88;
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
  const bottom = contestants.length * STRIP + 6;
  const rows = contestants.map((each, n) => drawRow(each, n * STRIP, x, width));
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
  const [low, , high] = quartiles(positive);
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
