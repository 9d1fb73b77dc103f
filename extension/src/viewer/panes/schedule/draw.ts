// The schedule as a drawing: a box for each step in the order in which they run, and a lane for each buffer that goes
// from one step to later ones. And what a person calls an operation.

import { drawing, fitted, mark, textWidth } from "../../chart";
import { svg } from "../../dom";
import { type Key, key, operator } from "../../element";
import { bytes, count, phrase, seconds } from "../../format";
import type { Linked } from "../../linked";
import type { HalfData, ItemData, OperationData } from "../../record";
import { most } from "../../collections";
import type { Model } from "../../model";
import { isLibrary, place } from "../../sources";

const LEAST_BOX = 200;
const MOST_BOX = 460;
const LANE = 10;
const LEAST_LANE = 3.5;

interface ScheduleFacts {
  readonly half: HalfData;
  readonly compile: string;
  /** Seconds of a step, where they were measured. */
  seconds(item: string): number | null;
  /** What a person calls an operation. */
  named(operation: string): string;
}

export function drawSchedule(facts: ScheduleFacts, width: number, linked: Linked): SVGSVGElement | null {
  const { half, compile } = facts;
  if (!half.schedule || half.schedule.items.length === 0) return null;
  const boxWidth = Math.max(Math.min(LEAST_BOX, width - 20), Math.min(MOST_BOX, Math.round(width * 0.55)));
  const plan = rail(half, boxWidth, facts.named);
  const room = width - boxWidth - 14;
  const step = Math.min(LANE, Math.max(LEAST_LANE, room / (plan.laneCount + 1)));
  const sizes = new Map((half.buffers ?? []).map(each => [each.name, each.bytes ?? 0]));
  const longest = Math.max(0, ...half.schedule.items.map(each => facts.seconds(each.id) ?? 0));
  const boxes = plan.boxes.map(box => drawBox(box, boxWidth, facts, longest, linked));
  const lanes =
    // Outer lanes first: the name of an inner one is readable where it crosses them.
    [...plan.lanes].sort((a, b) => b.lane - a.lane).map(
      lane => drawLane(lane, boxWidth, step, width, sizes.get(lane.buffer) ?? 0, facts.named(lane.buffer), key(compile,
        lane.buffer), linked));
  const name =
    `${count(plan.boxes.length, "step")} in the order in which they run, and the buffers that flow between them`;
  return drawing(width, plan.height + 2, name, svg("g", ...lanes), svg("g", ...boxes));
}

function drawBox(
  box: RailBox, width: number, { compile, seconds: spent }: ScheduleFacts, longest: number, linked: Linked,
): SVGGElement {
  const { item } = box;
  const kind = item.kind === "extern" ? "library call" : "kernel";
  const axes = phrase([item.outer, item.inner ? `reduces ${item.inner}` : ""], ", ");
  const time = spent(item.id);
  const timeText = time === null ? "" : seconds(time);
  const space = width - 16 - textWidth(item.id, 12) - 12 - textWidth(timeText);
  const name = phrase([`${kind} ${item.id}`, axes, timeText, `runs ${item.operations.join(", ")}`], "; ");
  const chips = box.chips.map(chip => {
    const operation = mark(
      `operation ${chip.id}: ${chip.text}`, "ex-op",
      svg("rect", { x: chip.x + 1, y: chip.y, width: chip.width, height: CHIP_HEIGHT, rx: 3 }),
      svg("text", { x: chip.x + 7, y: chip.y + 13 }, fitted(chip.text, chip.width - 8)),
    );
    operation.dataset.operation = chip.id;
    return linked.add(operation, key(compile, chip.id));
  });
  const bar = time !== null && longest > 0
    ? svg("rect.ex-share",
      { x: 1, y: box.y + box.height - 2, width: Math.max(1, (width - 2) * (time / longest)), height: 3 })
    : null;
  const more = box.hidden ? svg("text.ex-tick", { x: width - 8, y: box.y + box.height - 8, "text-anchor": "end" },
    `and ${box.hidden} more`) : null;
  const group = mark(
    name, item.kind === "extern" ? "ex-step ex-extern" : "ex-step",
    svg("rect.ex-step-box", { x: 1, y: box.y + 1, width, height: box.height, rx: 4 }),
    svg("text.ex-step-name", { x: 9, y: box.y + 16 }, item.id),
    svg("text.ex-tick", { x: 15 + textWidth(item.id, 12), y: box.y + 16 },
      fitted(item.kind === "extern" ? "library call" : axes, space)),
    svg("text.ex-step-time", { x: width - 7, y: box.y + 16, "text-anchor": "end" }, timeText),
    bar, more,
  );
  return svg("g", linked.add(group, key(compile, item.id), ...item.operations.map(id => key(compile, id))), ...chips);
}

function drawLane(lane: Lane, boxWidth: number, step: number, width: number, size: number, called: string, own: Key,
    linked: Linked): SVGGElement {
  const left = boxWidth + 2;
  const x = left + 10 + lane.lane * step;
  const last = most(lane.ends);
  const paths = [`M${left} ${lane.y}H${x}V${last}`, ...lane.ends.map(y => `M${x} ${y}H${left + 5}`)].join("");
  const heads = lane.ends.map(y => `M${left} ${y}l6 -3v6z`).join("");
  const label = fitted(phrase([size > 0 ? bytes(size) : "", called], " · "), width - x - 8, 10);
  const name =
    `${called} (${lane.buffer})${size > 0 ? `, ${bytes(size)}` : ""}, read ${count(lane.to.length, "time")} later`;
  const flow = mark(
    name, "ex-flow",
    svg("path.ex-flow-line", { d: paths }),
    svg("path.ex-flow-reach", { d: paths }),
    svg("path.ex-flow-head", { d: heads }),
    svg("text.ex-flow-name", { x: x + 5, y: lane.y + 3.5 }, label),
  );
  return linked.add(flow, own);
}

interface Chip {
  readonly id: string;
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

interface RailBox {
  readonly item: ItemData;
  readonly y: number;
  readonly height: number;
  readonly chips: readonly Chip[];
  /** Operations that found no room, where there are very many. */
  readonly hidden: number;
}

interface Lane {
  readonly buffer: string;
  readonly from: number;
  readonly to: readonly number[];
  /** Its place among the lanes: two whose stretches overlap have different ones. */
  readonly lane: number;
  /** Where it leaves its maker's box. */
  readonly y: number;
  /** Where it enters its readers' boxes, as `to`. */
  readonly ends: readonly number[];
}

interface Rail {
  readonly boxes: readonly RailBox[];
  readonly lanes: readonly Lane[];
  readonly laneCount: number;
  readonly height: number;
}

const CHIP_HEIGHT = 18;
const HEAD = 22;
const PORT = 11;
const GAP = 8;
const MOST_CHIPS = 60;
/** Of all boxes together. */
const MOST_OF_ALL = 6000;

export function rail(half: HalfData, boxWidth: number, named: (id: string) => string): Rail {
  const items = half.schedule?.items ?? [];
  const operations = new Map((half.operations ?? []).map(each => [each.id, each]));
  const flows = flowing(items, operations);
  const lanes = laned(flows);
  const ports = items.map((_, at) => ({
    out: lanes.filter(each => each.from === at), into: lanes.filter(each => each.to.includes(at)),
  }));
  const boxes: RailBox[] = [];
  const most = Math.min(MOST_CHIPS, Math.ceil(MOST_OF_ALL / items.length));
  let top = 0;
  for (const [at, item] of items.entries()) {
    const chips = wrapped(item.operations.slice(0, most).map(id => ({ id, text: named(id) })), item, boxWidth);
    const inner = (chips.at(-1)?.y ?? 0) + CHIP_HEIGHT + 6;
    const { out, into } = ports[at] ?? { out: [], into: [] };
    const height = Math.max(inner, 8 + (out.length + into.length) * PORT);
    boxes.push({ item, y: top, height, hidden: Math.max(0, item.operations.length - most),
      chips: chips.map(each => ({ ...each, y: each.y + top })) });
    top += height + GAP;
  }
  /** Readers' ends come above makers' starts, each in the order of the lanes. */
  const port = (at: number, nth: number) => (boxes[at]?.y ?? 0) + 9 + nth * PORT;
  const placed = lanes.map(lane => {
    const { out, into } = ports[lane.from] ?? { out: [], into: [] };
    return {
      ...lane,
      y: port(lane.from, into.length + out.indexOf(lane)),
      ends: lane.to.map(at => port(at, ports[at]?.into.indexOf(lane) ?? 0)),
    };
  });
  return { boxes, lanes: placed, laneCount: Math.max(0, ...lanes.map(each => each.lane + 1)),
    height: Math.max(0, top - GAP) };
}

interface Flow {
  readonly buffer: string;
  readonly from: number;
  readonly to: readonly number[];
}

/** Every buffer that one step makes and a later one reads. */
function flowing(items: readonly ItemData[], operations: ReadonlyMap<string, OperationData>): Flow[] {
  const makers = new Map<string, number>();
  const readers = new Map<string, Set<number>>();
  for (const [at, item] of items.entries()) {
    for (const id of item.operations) {
      const operation = operations.get(id);
      for (const buffer of operation?.reads ?? []) {
        const from = makers.get(buffer);
        if (from !== undefined && from !== at) readers.get(buffer)?.add(at);
      }
      for (const buffer of operation?.writes ?? []) {
        makers.set(buffer, at);
        readers.set(buffer, new Set());
      }
    }
  }
  return [...makers]
    .map(([buffer, from]) => ({ buffer, from, to: [...(readers.get(buffer) ?? [])] }))
    .filter(each => each.to.length > 0)
    .sort((a, b) => a.from - b.from || most(a.to) - most(b.to));
}

/** Gives each flow the lane nearest to the boxes that is free: short ones inside, long ones outside. */
function laned(flows: readonly Flow[]): Lane[] {
  const taken: [from: number, to: number][][] = [];
  const lanes = new Map<Flow, number>();
  const length = (each: Flow) => most(each.to) - each.from;
  for (const flow of [...flows].sort((a, b) => length(a) - length(b) || a.from - b.from)) {
    const end = most(flow.to);
    let lane = taken.findIndex(others => others.every(([from, to]) => to <= flow.from || from >= end));
    if (lane < 0) lane = taken.push([]) - 1;
    taken[lane]?.push([flow.from, end]);
    lanes.set(flow, lane);
  }
  return flows.map(each => ({ ...each, lane: lanes.get(each) ?? 0, y: 0, ends: [] }));
}

function wrapped(texts: readonly { id: string; text: string }[], item: ItemData, width: number): Chip[] {
  const chips: Chip[] = [];
  let [x, y] = [8, HEAD];
  for (const { id, text } of texts) {
    const room = Math.min(textWidth(text) + 12, width - 16);
    if (x + room > width - 8 && x > 8) {
      x = 8;
      y += CHIP_HEIGHT + 4;
    }
    chips.push({ id, text, x, y, width: room });
    x += room + 5;
  }
  return item.operations.length > 0 ? chips : [];
}

export interface OperationName {
  /** "sum · line 6", or the operation's id where nothing of the graph became it. */
  readonly own: string;
  /** What else it computes as it goes, without a buffer of its own. */
  readonly inside: readonly string[];
}

export function named(operation: Pick<OperationData, "id" | "origins">, compile: string, model: Model): OperationName {
  const main = model.record.value.sources.find(each => !isLibrary(each.file));
  const where = (node: string) => [...new Set(model.links.value.sourceLines(key(compile, node)))].map(each => {
    const { file, line } = place(each);
    return file === main?.file ? `line ${line}` : model.files.value.place(file, line);
  });
  const nodes = operation.origins.filter(each => !each.startsWith("synthetic:"));
  const [own = operation.id, ...inside] =
    nodes.map(each => phrase([operator(each), where(each).join(", ")], " · "));
  return { own, inside: [...new Set(inside)] };
}
