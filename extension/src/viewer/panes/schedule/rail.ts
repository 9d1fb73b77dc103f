// Where the schedule's drawing puts things: a box for each step, one below the other, and a lane for each buffer that
// goes from one step to later ones.

import { textWidth } from "../../chart";
import type { HalfData, ItemData, OperationData } from "../../record";
import { most } from "../../collections";

export interface Chip {
  readonly id: string;
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

export interface RailBox {
  readonly item: ItemData;
  readonly y: number;
  readonly height: number;
  readonly chips: readonly Chip[];
  /** Operations that found no room, where there are very many. */
  readonly hidden: number;
}

export interface Lane {
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

export interface Rail {
  readonly boxes: readonly RailBox[];
  readonly lanes: readonly Lane[];
  readonly laneCount: number;
  readonly height: number;
}

export const CHIP_HEIGHT = 18;
const HEAD = 22;
const PORT = 11;
const GAP = 8;
const MOST_CHIPS = 60;

export function rail(half: HalfData, boxWidth: number, named: (id: string) => string): Rail {
  const items = half.schedule?.items ?? [];
  const operations = new Map((half.operations ?? []).map(each => [each.id, each]));
  const flows = flowing(items, operations);
  const lanes = laned(flows);
  const ports = items.map((_, at) => ({
    out: lanes.filter(each => each.from === at), into: lanes.filter(each => each.to.includes(at)),
  }));
  const boxes: RailBox[] = [];
  let top = 0;
  for (const [at, item] of items.entries()) {
    const chips = wrapped(item.operations.slice(0, MOST_CHIPS).map(id => ({ id, text: named(id) })), item, boxWidth);
    const inner = (chips.at(-1)?.y ?? 0) + CHIP_HEIGHT + 6;
    const { out, into } = ports[at] ?? { out: [], into: [] };
    const height = Math.max(inner, 8 + (out.length + into.length) * PORT);
    boxes.push({ item, y: top, height, hidden: Math.max(0, item.operations.length - MOST_CHIPS),
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
