// Each kernel against what the machine allows: operations a second over operations a byte, both by powers of ten.

import { across, drawing, fitted, logarithmic, mark, powerTicks, textWidth, upward } from "../../chart";
import { svg } from "../../dom";
import { key } from "../../element";
import { scaled } from "../../format";
import type { Linked } from "../../linked";
import type { MachineData } from "../../record";
import { performance, ridge, roof, usable, type Cost, type Performance } from "./costs";
import { least, most } from "../../collections";

const LEFT = 92;
const TOP = 18;
const LABELED = 14;
export const MOST_POINTS = 500;

export interface Point {
  readonly cost: Cost;
  readonly at: Performance & { readonly intensity: number };
}

/** The kernels that have a place in the drawing: those that move bytes and compute, of very many the slowest. */
export function pointsOf(costs: readonly Cost[], machine: MachineData): Point[] {
  const found = costs.flatMap((cost): Point[] => {
    const at = performance(cost, machine);
    return at?.intensity ? [{ cost, at: { ...at, intensity: at.intensity } }] : [];
  });
  return found.length <= MOST_POINTS ? found
    : found.sort((a, b) => (b.cost.seconds ?? 0) - (a.cost.seconds ?? 0)).slice(0, MOST_POINTS);
}

export function drawRoofline(costs: readonly Cost[], machine: MachineData, width: number,
    linked: Linked): SVGSVGElement | null {
  const points = pointsOf(costs, machine);
  if (points.length === 0 || !usable(machine)) return null;
  const height = Math.round(Math.min(380, Math.max(230, width * 0.5)));
  const bottom = height - 40;
  const intensities = points.map(each => each.at.intensity);
  const rates = points.map(each => each.at.flopsPerSecond);
  const [from, to] = [least(intensities, ridge(machine)) / 3, most(intensities, ridge(machine)) * 4];
  const [low, high] = [least(rates, roof(machine, from)) / 2, most(rates, machine.flops_per_second) * 2.5];
  const x = logarithmic(from, to, LEFT, width - 14);
  const y = logarithmic(low, high, bottom, TOP);
  const few = Object.assign((value: number) => y(value),
    { ticks: powerTicks(low, high).filter((_, n, all) => all.length < 9 || n % 2 === 0) });
  const corner = ridge(machine);
  const line = `M${x(from)} ${y(roof(machine, from))}L${x(corner)} ${y(machine.flops_per_second)}H${x(to)}`;
  const placed = labels(points, x, y, width, bottom);
  const marks = points.map(
    (point, n) => drawPoint(point, x(point.at.intensity), y(point.at.flopsPerSecond), placed[n] ?? null, linked));
  return drawing(
    width, height, `Roofline of ${points.length} kernels`,
    across(x, bottom, bottom - TOP, intensity, "operations for each byte moved", width - 14),
    upward(few, LEFT, width - 14 - LEFT, value => scaled(value, "FLOP/s")),
    svg("path.ex-under-roof", { d: `${line}V${bottom}H${x(from)}Z` }),
    svg("path.ex-roof", { d: line }),
    svg("text.ex-peak", { x: width - 18, y: y(machine.flops_per_second) - 6, "text-anchor": "end" },
      `${scaled(machine.flops_per_second, "FLOP/s")} arithmetic`),
    bandwidthName(machine, from, corner, x, y),
    ...marks,
  );
}

function intensity(value: number): string {
  return value >= 1 ? String(Math.round(value * 100) / 100) : value.toPrecision(1);
}

/** Along the slope of the roof, above its middle. */
function bandwidthName(machine: MachineData, from: number, corner: number, x: (v: number) => number,
    y: (v: number) => number): SVGElement {
  const text = `${scaled(machine.bytes_per_second, "B/s")} bandwidth`;
  const [x1, y1, x2, y2] = [x(from), y(roof(machine, from)), x(corner), y(machine.flops_per_second)];
  const angle = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
  const long = Math.hypot(x2 - x1, y2 - y1) >= textWidth(text);
  const [cx, cy] = [(x1 + x2) / 2, (y1 + y2) / 2];
  return svg("text.ex-peak", { x: cx, y: cy - 7, "text-anchor": "middle", transform: `rotate(${angle} ${cx} ${cy})` },
    long ? text : "");
}

type PointLabel = { readonly text: string; readonly x: number; readonly y: number; readonly end: boolean };

/** Names for the kernels that take most time, each where no other name or point is. */
function labels(points: readonly Point[], x: (v: number) => number, y: (v: number) => number, width: number,
    bottom: number): (PointLabel | null)[] {
  const boxes: [number, number, number, number][] = points.map(
    ({ at }) => [x(at.intensity) - 4, y(at.flopsPerSecond) - 4, x(at.intensity) + 4, y(at.flopsPerSecond) + 4]);
  const found: (PointLabel | null)[] = points.map(() => null);
  const byTime =
    points.map((_, n) => n).sort((a, b) => (points[b]?.cost.seconds ?? 0) - (points[a]?.cost.seconds ?? 0));
  for (const n of byTime.slice(0, LABELED)) {
    const point = points[n] as Point;
    const text = fitted(point.cost.id, 120, 10);
    const wide = textWidth(text, 10);
    const [px, py] = [x(point.at.intensity), y(point.at.flopsPerSecond)];
    for (const [dx, dy] of [[8, 4], [-8, 4], [6, -7], [6, 14], [-6, -7], [-6, 14]] as const) {
      const end = dx < 0;
      const from = end ? px + dx - wide : px + dx;
      const box: [number, number, number, number] = [from, py + dy - 9, from + wide, py + dy + 2];
      if (box[0] < LEFT || box[2] > width || box[1] < TOP || box[3] > bottom) continue;
      if (
        boxes.some((other, m) => m !== n && box[0] < other[2] && box[2] > other[0] && box[1] < other[3]
          && box[3] > other[1])) continue;
      boxes.push(box);
      found[n] = { text, x: px + dx, y: py + dy, end };
      break;
    }
  }
  return found;
}

function drawPoint({ cost, at }: Point, x: number, y: number, label: PointLabel | null, linked: Linked): SVGGElement {
  const name = `${cost.id}: ${scaled(at.flopsPerSecond, "FLOP/s")} at ${intensity(at.intensity)} operations a byte, `
    + `${Math.round(at.share * 100)} % of what ${at.bound} allows`;
  const shape = at.bound === "bandwidth"
    ? svg("circle.ex-point", { cx: x, cy: y, r: 4 })
    : svg("rect.ex-point", { x: x - 3.6, y: y - 3.6, width: 7.2, height: 7.2 });
  const group = mark(
    name, "ex-kernel-point", shape,
    label ? svg("text.ex-point-name", { x: label.x, y: label.y, "text-anchor": label.end ? "end" : "start" },
      label.text) : null,
  );
  return linked.add(group, key(cost.compile, cost.id));
}
