// Where everything stands: each open group laid out by itself, from the innermost out, and edges between groups passed
// on at their borders. A group is laid out again only where what is in it changed.

import { count } from "../../format";
import { entry } from "../../collections";
import { around, type Group, type Item, verticesOf } from "./groups";
import { type Box, type EdgeEnd, layered, type Layered, TooLarge } from "./layered";

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** A drawn box: a node, a closed group, or the frame of an open one. */
export interface Shape extends Size {
  readonly item: Item;
  readonly x: number;
  readonly y: number;
  readonly open: boolean;
}

/** A drawn part of edges, within one group: from `from` to what of `to` lies this way. */
export interface Wire {
  readonly from: Item;
  readonly to: readonly Item[];
  /** Whether it ends at the one item that it leads to, and not at a border. */
  readonly ends: boolean;
  readonly back: boolean;
  readonly points: readonly number[];
}

export interface Placement extends Size {
  /** Frames before what is in them. */
  readonly shapes: readonly Shape[];
  readonly wires: readonly Wire[];
  /** What stands for each node: itself, or the outermost closed group around it. */
  readonly shown: ReadonlyMap<number, Item>;
}

export interface Asked {
  readonly root: Group;
  readonly sourcesOf: (vertex: number) => readonly number[];
  readonly isOpen: (group: Group) => boolean;
  readonly sizeOf: (item: Item) => Size;
  /** Parameters and such, which give way to the main line. */
  readonly isLight: (item: Item) => boolean;
}

/** Levels of the layout, by what was asked for. */
export type Memo = Map<string, Layered>;

export const HEADER = 26;
const PADDING = 16;
/** For the time of a kernel, beside its name. */
const TIME = 60;
const PORT = 4;

/** Edges that are looked at one by one. */
const MOST_EDGES = 50_000;

type Endpoint = Item | "border";

/** The edges of one item within one group: where they come from there, and by where they lead there, what they lead
 * to. */
interface Bundle {
  readonly wire: Item;
  readonly from: Endpoint;
  readonly to: Map<Endpoint, Set<Item>>;
}

interface Level extends Size {
  readonly group: Group;
  readonly inside: ReadonlyMap<Item, Level>;
  readonly boxes: readonly Box[];
  readonly layout: Layered;
  readonly bundles: readonly Bundle[];
  /** Where, from its left side, a frame is entered and left by the edges of an item. */
  readonly entries: ReadonlyMap<Item, number>;
  readonly exits: ReadonlyMap<Item, number>;
}

export function place(asked: Asked, memo: Memo): Placement {
  const shown = shownOf(asked);
  const top = levelOf(asked, asked.root, bundlesOf(asked, shown), memo);
  const shapes: Shape[] = [];
  const wires: Wire[] = [];
  emit(top, 0, 0, shapes, wires);
  return { shapes, wires, shown, width: top.width, height: top.height };
}

function shownOf(asked: Asked): Map<number, Item> {
  const shown = new Map<number, Item>();
  const stack: Item[] = [asked.root];
  for (let item = stack.pop(); item; item = stack.pop()) {
    if (item.kind !== "leaf" && (item === asked.root || asked.isOpen(item)))
      stack.push(...[...item.children].reverse());
    else for (const vertex of verticesOf(item)) shown.set(vertex, item);
  }
  return shown;
}

/** The edges between what is shown, cut at the borders of frames: for each open group its bundles. */
function bundlesOf(asked: Asked, shown: ReadonlyMap<number, Item>): Map<Group, readonly Bundle[]> {
  const found = new Map<Group, Map<Item, Map<Endpoint, Bundle>>>();
  const add = (group: Group, wire: Item, from: Endpoint, to: Endpoint, target: Item) => {
    const wires = entry(found, group, () => new Map<Item, Map<Endpoint, Bundle>>());
    const bundles = entry(wires, wire, () => new Map<Endpoint, Bundle>());
    const bundle = entry(bundles, from, (): Bundle => ({ wire, from, to: new Map() }));
    entry(bundle.to, to, () => new Set<Item>()).add(target);
  };
  const done = new Map<Item, Set<Item>>();
  let edges = 0;
  for (const [vertex, target] of shown) {
    for (const source of asked.sourcesOf(vertex)) {
      const wire = shown.get(source);
      if (!wire || wire === target) continue;
      const targets = entry(done, wire, () => new Set<Item>());
      if (targets.has(target)) continue;
      targets.add(target);
      if (++edges > MOST_EDGES) throw new TooLarge(`over ${count(MOST_EDGES, "edge")}`);
      const down = [...around(target), asked.root];
      const outside = new Set(down);
      let inner = wire;
      for (let group = parentOf(wire); !outside.has(group); group = parentOf(group)) {
        add(group, wire, inner, "border", target);
        inner = group;
      }
      const meeting = parentOf(inner);
      const way: Item[] = [target, ...down.slice(0, down.indexOf(meeting))];
      add(meeting, wire, inner, way[way.length - 1]!, target);
      for (let n = way.length - 1; n > 0; n--) add(way[n] as Group, wire, "border", way[n - 1]!, target);
    }
  }
  return new Map([...found].map(([group, wires]) => [group, [...wires.values()].flatMap(each => [...each.values()])]));
}

function parentOf(item: Item): Group {
  if (!item.parent) throw new Error("the root of a graph has nothing around it");
  return item.parent;
}

function levelOf(asked: Asked, group: Group, bundles: ReadonlyMap<Group, readonly Bundle[]>, memo: Memo): Level {
  const inside = new Map<Item, Level>();
  for (const child of group.children) {
    if (child.kind !== "leaf" && asked.isOpen(child)) inside.set(child, levelOf(asked, child, bundles, memo));
  }
  const boxes: Box[] = group.children.map(item => {
    const { width, height } = inside.get(item) ?? asked.sizeOf(item);
    return { width, height, light: asked.isLight(item) };
  });
  const at = new Map<Item, number>(group.children.map((item, n) => [item, n]));
  const ports = { top: new Map<Item, number>(), bottom: new Map<Item, number>() };
  const end = (where: Endpoint, wire: Item, side: "from" | "to"): EdgeEnd => {
    if (where === "border") {
      const border = side === "from" ? "top" : "bottom";
      const box = entry(ports[border], wire, () => boxes.push({ width: PORT, height: 0, border }) - 1);
      return { box, at: PORT / 2 };
    }
    const box = at.get(where)!;
    const level = inside.get(where);
    const passed = side === "from" ? level?.exits.get(wire) : level?.entries.get(wire);
    return { box, at: passed ?? boxes[box]!.width / 2 };
  };
  const own = bundles.get(group) ?? [];
  const nets = own.map(({ wire, from, to }) => ({
    from: end(from, wire, "from"), to: [...to.keys()].map(where => end(where, wire, "to")),
  }));
  const name = JSON.stringify([boxes, nets]);
  const layout = entry(memo, name, () => layered(boxes, nets));
  const frame = group.parent ? asked.sizeOf(group) : null;
  // Even, so that middles are whole and what should be upright is.
  const width =
    2 * Math.ceil(
      (frame ? Math.max(layout.width + 2 * PADDING, frame.width + (group.home?.seconds == null ? 0 : TIME))
        : layout.width) / 2);
  const height = layout.height + (frame ? HEADER + PADDING : 0);
  const left = Math.round((width - layout.width) / 2);
  const places = (of: ReadonlyMap<Item, number>) =>
    new Map([...of].map(([wire, box]) => [wire, left + layout.x[box]! + PORT / 2]));
  return { group, inside, boxes, layout, bundles: own, entries: places(ports.top), exits: places(ports.bottom), width,
    height };
}

function emit(level: Level, x: number, y: number, shapes: Shape[], wires: Wire[]): void {
  const { layout } = level;
  const left = x + Math.round((level.width - layout.width) / 2);
  const top = y + (level.group.parent ? HEADER : 0);
  level.bundles.forEach((bundle, n) =>
    [...bundle.to].forEach(([where, targets], m) => {
      const route = layout.routes[n]![m];
      if (!route) return;
      const points = route.points.map((value, i) => value + (i % 2 ? top : left));
      if (bundle.from === "border") points.unshift(points[0]!, y);
      if (where === "border") points.push(points[points.length - 2]!, y + level.height);
      const to = [...targets];
      wires.push({ from: bundle.wire, to, ends: where === to[0], back: route.back, points });
    }),
  );
  level.group.children.forEach((item, n) => {
    const inner = level.inside.get(item);
    const { width, height } = level.boxes[n]!;
    const shape = { item, x: left + layout.x[n]!, y: top + layout.y[n]!, width, height, open: inner !== undefined };
    shapes.push(shape);
    if (inner) emit(inner, shape.x, shape.y, shapes, wires);
  });
}
