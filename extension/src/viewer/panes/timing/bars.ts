// Seconds of each kernel and library call as bars, the longest first, and apart from them what is spent between.

import { block, drawing, fitted, linear, mark, Patterns, textWidth, type Pattern } from "../../chart";
import { svg } from "../../dom";
import { key } from "../../element";
import { percent, scaled, seconds } from "../../format";
import { sum } from "../../collections";
import type { Linked } from "../../linked";
import type { MachineData } from "../../record";
import { performance, type Cost } from "./costs";

const ROW = 20;
const BAR = 14;
const LISTED = 24;

export interface Spent {
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
