// The memory plan as drawings: bytes in use over the schedule, under it the place of each buffer; and the layout of the
// pool.

import { block, drawing, fitted, linear, mark, Patterns, textWidth, upward, type Pattern, type Scale } from
  "../../chart";
import { svg } from "../../dom";
import { key } from "../../element";
import { bytes, count } from "../../format";
import type { Linked } from "../../linked";
import type { BufferData, HalfData } from "../../record";
import { isAlias, rowsOf, type PoolPlace, type PlaceKind, type Plan } from "./plan";
import { most } from "../../collections";

const LEFT = 96;
const RIGHT = 26;
const CURVE = 110;
const HEAD = 52;
const ROW = 19;
const BAR = 15;

export const LOOKS: { readonly [kind in PlaceKind]: { readonly pattern: Pattern; readonly look: string;
readonly says: string } } = {
  pool: { pattern: "plain", look: "ex-tone-0", says: "in the call's pool" },
  own: { pattern: "hatched", look: "ex-tone-2", says: "allocated by itself" },
  library: { pattern: "dotted", look: "ex-tone-1", says: "allocated by a library call" },
  input: { pattern: "barred", look: "ex-tone-7", says: "written into an input" },
};

/** What a person calls a buffer. */
export type Called = (buffer: BufferData) => string;

export function drawLives(half: HalfData, plan: Plan, compile: string, called: Called, width: number,
    linked: Linked): SVGSVGElement | null {
  if (plan.places.length === 0) return null;
  const rows = rowsOf(plan.places);
  const right = width - RIGHT;
  const column = (right - LEFT) / (plan.steps + 1);
  const x = (step: number) => LEFT + step * column;
  const top = CURVE + HEAD;
  const height = top + rows.length * ROW + 4;
  const patterns = Patterns();
  const heads = headings(half, plan, compile, x, column, height, linked);
  const bars = rows.flatMap((row, n) => {
    const y = top + n * ROW;
    const first = row[0] as PoolPlace;
    const label = first.kind === "pool" ? `pool +${first.offset}` : first.kind;
    return [
      svg("text.ex-tick", { x: LEFT - 8, y: y + 12, "text-anchor": "end" }, fitted(label, LEFT - 12)),
      ...row.flatMap(
        place => place.lives.map(life => drawLife(life, place, x, column, y, compile, called, patterns, linked))),
    ];
  });
  const name = `Memory in use over ${count(plan.steps, "step")}, and where ${count(plan.places.length, "buffer")} live`;
  return drawing(width, height, name, patterns.definitions, drawCurves(plan, x, column, width), ...heads, ...bars);
}

/** One column a step: its name, and a line down to the rows. */
function headings(
  half: HalfData, plan: Plan, compile: string, x: (step: number) => number, column: number, height: number,
  linked: Linked,
): SVGElement[] {
  const each = Math.max(1, Math.ceil(13 / column));
  const items = half.schedule?.items ?? [];
  return [...items.map(item => item.id), "returned"].flatMap((id, step) => {
    const middle = x(step) + column / 2;
    const y = CURVE + HEAD - 8;
    const line = svg("line.ex-gridline", { x1: x(step), x2: x(step), y1: y + 4, y2: height, "aria-hidden": true });
    if (step % each !== 0 && step < plan.steps) return [line];
    const text = svg("text.ex-tick", { x: middle, y, transform: `rotate(-55 ${middle} ${y})` }, id);
    if (step === plan.steps) return [line, text];
    return [line, linked.add(mark(`step ${id}`, "ex-column-name", text), key(compile, id))];
  });
}

function drawCurves(plan: Plan, x: (step: number) => number, column: number, width: number): SVGGElement {
  const most = Math.max(1, ...plan.before, ...plan.after, ...plan.measured);
  const scale = linear(0, most, CURVE - 4, 14, 4);
  const line = (values: readonly number[]) =>
    values.map((each, n) => `${n === 0 ? "M" : "L"}${x(n)} ${scale(each)}H${x(n) + column}`).join("");
  const area = `${line(plan.after)}V${scale(0)}H${x(0)}Z`;
  return svg(
    "g", { "aria-hidden": true }, upward(scale, LEFT, width - RIGHT - LEFT, bytes),
    svg("path.ex-memory-area", { d: area }),
    svg("path.ex-memory-after", { d: line(plan.after) }),
    svg("path.ex-memory-before", { d: line(plan.before) }),
    svg("path.ex-memory-measured", { d: line(plan.measured) }),
    ...peaks(plan, scale, x, column, width),
  );
}

/** Where each curve is highest, the higher one's figure above it and the other's below. */
function peaks(plan: Plan, scale: Scale, x: (step: number) => number, column: number, width: number): SVGElement[] {
  const [before, after] = [most(plan.before), most(plan.after)];
  const found = [["before", "without reuse", plan.before, before, before > after],
    ["after", "planned", plan.after, after, after >= before]] as const;
  return found.flatMap(([name, says, values, peak, above]) => {
    const middle = x(values.indexOf(peak)) + column / 2;
    const text = `${says} ${bytes(peak)}`;
    const end = middle + textWidth(text) + 6 > width;
    return [
      svg("circle", { class: `ex-memory-peak ex-memory-peak-${name}`, cx: middle, cy: scale(peak), r: 3 }),
      svg("text.ex-peak",
        { x: middle + (end ? -6 : 6), y: scale(peak) + (above ? -5 : 14), "text-anchor": end ? "end" : "start" }, text),
    ];
  });
}

function drawLife(
  life: BufferData, place: PoolPlace, x: (step: number) => number, column: number, y: number, compile: string,
  called: Called, patterns: Patterns, linked: Linked,
): SVGGElement {
  const { pattern, look } = LOOKS[place.kind];
  const reuses = life.where === "reuse";
  const thin = isAlias(life) && place.lives.some(each => !isAlias(each));
  const [from, width] = stretch(life, place, x, column);
  const arrow = reuses ? "↪ " : "";
  const owner = place.lives.find(each => each.name === life.of);
  const where = reuses ? `in the memory of ${owner ? called(owner) : life.of}` : LOOKS[place.kind].says;
  const name = `${called(life)} (${life.name}), ${bytes(life.bytes ?? 0)}, ${where}`;
  const group = mark(
    name, thin ? "ex-life ex-alias" : "ex-life",
    block(patterns, pattern, from, thin ? y + BAR - 5 : y, width, thin ? 5 : BAR, look),
    reuses && !thin ? svg("path.ex-reuse", { d: `M${from} ${y}v${BAR}` }) : null,
    thin ? null : svg("text.ex-life-name", { x: from + 4, y: y + 11.5 }, lifeLabel(arrow + called(life), life, width)),
  );
  return linked.add(group, key(compile, life.name));
}

/** Where a life begins and how wide it is. A step that overwrites in place reads the old value and writes the new one:
 * each gets half of its column. */
function stretch(life: BufferData, place: PoolPlace, x: (step: number) => number,
    column: number): [from: number, width: number] {
  const inPlace = (each: BufferData) => each.where_why?.code === "memory.in_place";
  const next = place.lives.find(each => each.of === life.name && inPlace(each));
  const from = x(life.first ?? 0) + (inPlace(life) ? column / 2 : 0) + 1;
  const until = x((life.last ?? 0) + 1) - (next && next.first === life.last ? column / 2 : 0) - 1;
  return [from, Math.max(until - from, 2)];
}

/** The name and size of a buffer where there is room, else its name, else the beginning of it. */
function lifeLabel(name: string, life: BufferData, width: number): string {
  const whole = `${name}, ${bytes(life.bytes ?? 0)}`;
  return textWidth(whole, 10) <= width - 6 ? whole : fitted(name, width - 6, 10);
}

/** The pool's bytes upward, the schedule to the right. */
export function drawPool(half: HalfData, plan: Plan, compile: string, called: Called, width: number,
    linked: Linked): SVGSVGElement | null {
  const pool = half.memory?.pool ?? 0;
  const places = plan.places.filter(each => each.kind === "pool" && each.bytes > 0);
  if (pool === 0 || places.length === 0) return null;
  const height = Math.min(320, Math.max(120, places.length * 16));
  const column = (width - RIGHT - LEFT) / (plan.steps + 1);
  const x = (step: number) => LEFT + step * column;
  const scale = linear(0, pool, height - 6, 6, 4);
  const patterns = Patterns();
  const marks = places.flatMap(place => place.lives.filter(each => !isAlias(each)).map(life => {
    const upper = scale(place.offset + place.bytes);
    const tall = Math.max(scale(place.offset) - upper, 1.5);
    const [from, wide] = stretch(life, place, x, column);
    const name = `${called(life)} (${life.name}): bytes ${place.offset} to ${place.offset + place.bytes} of the pool`;
    const group = mark(
      name, "ex-life",
      block(patterns, life.where === "reuse" ? "hatched" : "plain", from, upper, wide, tall, "ex-tone-0"),
      tall >= 12 ? svg("text.ex-life-name", { x: from + 4, y: upper + tall / 2 + 4 },
        lifeLabel(called(life), life, wide)) : null,
    );
    return linked.add(group, key(compile, life.name));
  }));
  return drawing(width, height, `The pool's ${bytes(pool)} over the schedule`, patterns.definitions,
    upward(scale, LEFT, width - RIGHT - LEFT, bytes), ...marks);
}
