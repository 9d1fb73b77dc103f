// A layered layout of one level: boxes in layers from top to bottom, edges routed through the gaps between them.
// Sugiyama, Tagawa, Toda, Methods for Visual Understanding of Hierarchical System Structures (1981). Deterministic, and
// linear in boxes and bends for a fixed number of sweeps.

import { crossings, ordered, type Segment, type LayerVertex } from "./order";
import { spread } from "./spread";
import { grouped } from "../../format";
import { least, sum } from "../../collections";

export interface Box {
  readonly width: number;
  readonly height: number;
  /** A place on the border of the level, where an edge enters ("top") or leaves ("bottom"). */
  readonly border?: "top" | "bottom";
  /** Drawn straight above what it feeds where possible; others (parameters) give way. */
  readonly light?: boolean;
}

/** Where an edge meets a box: `at` counts from the box's left side. */
export interface EdgeEnd {
  readonly box: number;
  readonly at: number;
}

/** One value and what reads it: drawn as one trunk with branches. */
export interface Net {
  readonly from: EdgeEnd;
  readonly to: readonly EdgeEnd[];
}

export interface Route {
  /** x, y, x, y ...: straight where x or y stays, else a curve that begins and ends upright. */
  readonly points: readonly number[];
  /** Against the direction of the graph, which has a cycle here. */
  readonly back: boolean;
}

export interface Layered {
  readonly width: number;
  readonly height: number;
  /** Left upper corners. */
  readonly x: readonly number[];
  readonly y: readonly number[];
  /** By net, then by what the net leads to; null for an edge from a box to itself. */
  readonly routes: readonly (readonly (Route | null)[])[];
  readonly crossings: number;
}

/** An edge from a higher layer to a lower one. */
interface Arc {
  readonly from: EdgeEnd;
  readonly to: EdgeEnd;
  readonly net: number;
  readonly target: number;
  readonly back: boolean;
}

const GAP = 26;
const MOST_GAP = 64;
/** The gap beside a border, where edges only come in. */
const PORT_GAP = 10;
const BEND_WIDTH = 8;
/** How far from a box an edge runs that goes round it. */
const ROUND = 8;

/** Edges, and places where they pass a layer, that are laid out in about a second. */
const MOST_SEGMENTS = 20_000;

/** A graph has more edges than can be drawn, or read. */
export class TooLarge extends Error {}

export function layered(boxes: readonly Box[], nets: readonly Net[]): Layered {
  const arcs = oriented(boxes, nets);
  const vertices: LayerVertex[] = ranked(boxes, arcs).map((layer, n) => {
    const box = boxes[n]!;
    return { width: box.width, bend: false, light: box.light ?? false, layer };
  });
  const [size, edges] = [segmentsOf(vertices, arcs), grouped(arcs.length)];
  if (size > MOST_SEGMENTS) throw new TooLarge(`${edges} edges between ${boxes.length} boxes`);
  const { segments, bends } = bent(boxes, vertices, arcs);
  const layers = ordered(vertices, segments);
  const centers = spread(vertices, segments, layers);
  const bands = stacked(boxes, vertices, segments, layers, centers);
  const fed = new Set(arcs.map(arc => arc.to.box));
  const x = boxes.map((box, n) => centers[n]! - box.width / 2);
  const y = boxes.map((box, n) => {
    const band = bands[vertices[n]!.layer]!;
    return fed.has(n) ? band.top : band.bottom - box.height;
  });
  const routes: (Route | null)[][] = nets.map(net => net.to.map(() => null));
  for (const [n, arc] of arcs.entries()) {
    const points: number[] = [];
    const add = (px: number, py: number) => points.push(px, py);
    add(x[arc.from.box]! + arc.from.at, y[arc.from.box]! + boxes[arc.from.box]!.height);
    add(points[0]!, bands[vertices[arc.from.box]!.layer]!.bottom);
    const { trunk, passed } = bends[n]!;
    for (let at = 0; at < passed; at++) {
      const bend = trunk[at]!;
      const band = bands[vertices[bend]!.layer]!;
      add(centers[bend]!, band.top);
      add(centers[bend]!, band.bottom);
    }
    const end = x[arc.to.box]! + arc.to.at;
    add(end, bands[vertices[arc.to.box]!.layer]!.top);
    add(end, y[arc.to.box]!);
    const net = nets[arc.net]!;
    if (arc.back) points.splice(0, points.length, ...roundabout(points, boxes, x, y, net.from, net.to[arc.target]!));
    routes[arc.net]![arc.target] = { points: plain(points), back: arc.back };
  }
  const right = vertices.map((vertex, n) => centers[n]! + vertex.width / 2);
  const last = bands[bands.length - 1];
  return {
    width: right.reduce((a, b) => Math.max(a, b), 0), height: last ? last.bottom : 0, x, y, routes,
    crossings: crossings(vertices, segments, layers),
  };
}

/** The way back up: out of the lower box, round its right side, up along `points` (which lead down), round the right
 * side of the upper box, and into it from above. */
function roundabout(
  points: readonly number[], boxes: readonly Box[], x: readonly number[], y: readonly number[], from: EdgeEnd,
  to: EdgeEnd,
): number[] {
  const bottom = y[from.box]! + boxes[from.box]!.height;
  const [start, end] = [x[from.box]! + from.at, x[to.box]! + to.at];
  const [startSide, endSide] = [spacing(boxes[from.box]!) + x[from.box]!, spacing(boxes[to.box]!) + x[to.box]!];
  const up: number[] = [];
  for (let n = points.length - 2; n >= 0; n -= 2) up.push(points[n]!, points[n + 1]!);
  return [
    start, bottom, start, bottom + ROUND, startSide, bottom + ROUND, ...up,
    endSide, y[to.box]! - ROUND, end, y[to.box]! - ROUND, end, y[to.box]!,
  ];
}

const spacing = (box: Box): number => box.width + ROUND;

/** The edges, those that close a cycle turned round. Edges from a box to itself are left out. */
function oriented(boxes: readonly Box[], nets: readonly Net[]): Arc[] {
  const out: Arc[][] = boxes.map(() => []);
  nets.forEach((net, n) =>
    net.to.forEach((to, target) => {
      if (to.box !== net.from.box) out[net.from.box]!.push({ from: net.from, to, net: n, target, back: false });
    }),
  );
  const arcs: Arc[] = [];
  const state = new Uint8Array(boxes.length); // 0 new, 1 on the path, 2 done
  for (let start = 0; start < boxes.length; start++) {
    if (state[start]) continue;
    const path = [{ box: start, next: 0 }];
    state[start] = 1;
    for (let top = path[path.length - 1]; top; top = path[path.length - 1]) {
      const arc = out[top.box]![top.next++];
      if (!arc) {
        state[top.box] = 2;
        path.pop();
        continue;
      }
      const met = state[arc.to.box];
      const turned = () => ({
        ...arc, back: true, from: { box: arc.to.box, at: spacing(boxes[arc.to.box]!) },
        to: { box: top.box, at: spacing(boxes[top.box]!) },
      });
      arcs.push(met === 1 ? turned() : arc);
      if (met === 0) {
        state[arc.to.box] = 1;
        path.push({ box: arc.to.box, next: 0 });
      }
    }
  }
  return arcs.sort((a, b) => a.net - b.net || Number(a.back) - Number(b.back) || a.target - b.target);
}

/** The layer of each box: one below the lowest of what it reads; what reads nothing moves down to what it feeds. */
function ranked(boxes: readonly Box[], arcs: readonly Arc[]): number[] {
  const into: number[][] = boxes.map(() => []);
  const out: number[][] = boxes.map(() => []);
  for (const { from, to } of arcs) {
    out[from.box]!.push(to.box);
    into[to.box]!.push(from.box);
  }
  const first = Number(boxes.some(box => box.border === "top"));
  const layer = boxes.map(box => (box.border === "top" ? 0 : first));
  const missing = into.map(list => list.length);
  const sequence = boxes.map((_, n) => n).filter(n => missing[n] === 0);
  for (let at = 0; at < sequence.length; at++) {
    const box = sequence[at]!;
    for (const next of out[box]!) {
      layer[next] = Math.max(layer[next]!, layer[box]! + 1);
      if (--missing[next]! === 0) sequence.push(next);
    }
  }
  // A box and all that leads to it can move down where nothing else hangs on it.
  const loose = boxes.map(() => false);
  for (const box of sequence) {
    loose[box] = boxes[box]!.border === undefined
      && into[box]!.every(from => loose[from] && new Set(out[from]).size === 1);
  }
  for (const box of [...sequence].reverse()) {
    if (loose[box] && out[box]!.length) layer[box] = least(out[box]!.map(to => layer[to]!)) - 1;
  }
  const last = layer.reduce((a, b) => Math.max(a, b), 0);
  const inner = boxes.some((box, n) => box.border === undefined && layer[n] === last);
  boxes.forEach((box, n) => {
    if (box.border === "bottom") layer[n] = inner ? last + 1 : last;
  });
  return layer;
}

/** How many segments edges come to, before any is made: each edge, and for each net the layers that its longest
 * passes. */
function segmentsOf(vertices: readonly LayerVertex[], arcs: readonly Arc[]): number {
  const passed = new Map<number, number>();
  const spans = (arc: Arc) => vertices[arc.to.box]!.layer - vertices[arc.from.box]!.layer - 1;
  for (const arc of arcs) passed.set(arc.net, Math.max(passed.get(arc.net) ?? 0, spans(arc)));
  return arcs.length + [...passed.values()].reduce((total, each) => total + each, 0)
    + sum(arcs.filter(each => each.back), spans);
}

/** The bends of a net's longest edge, and how many of them an edge goes along. */
interface Bends {
  readonly trunk: readonly number[];
  readonly passed: number;
}

/** Adds a bend for each layer that an edge passes, shared by the edges of one net, and gives the segments between. */
function bent(boxes: readonly Box[], vertices: LayerVertex[],
    arcs: readonly Arc[]): { segments: Segment[]; bends: Bends[] } {
  const segments: Segment[] = [];
  const bends: Bends[] = [];
  let trunk: number[] = [];
  arcs.forEach((arc, n) => {
    const before = arcs[n - 1];
    if (before?.net !== arc.net || before.back || arc.back) trunk = [];
    const top = vertices[arc.from.box]!.layer;
    const passed = vertices[arc.to.box]!.layer - top - 1;
    const fromAt = arc.from.at - boxes[arc.from.box]!.width / 2;
    const below = (lower: number, lowerAt: number, last: number | undefined) =>
      segments.push(last === undefined
        ? { upper: arc.from.box, upperAt: fromAt, lower, lowerAt } : { upper: last, upperAt: 0, lower, lowerAt });
    while (trunk.length < passed) {
      const made = vertices.length;
      vertices.push({ width: BEND_WIDTH, bend: true, light: false, layer: top + 1 + trunk.length });
      below(made, 0, trunk[trunk.length - 1]);
      trunk.push(made);
    }
    below(arc.to.box, arc.to.at - boxes[arc.to.box]!.width / 2, trunk[passed - 1]);
    bends.push({ trunk, passed });
  });
  return { segments, bends };
}

interface Band {
  readonly top: number;
  readonly bottom: number;
}

/** Each layer's band; the gap above it is higher where edges go far to the side. */
function stacked(
  boxes: readonly Box[], vertices: readonly LayerVertex[], segments: readonly Segment[],
  layers: readonly (readonly number[])[], centers: readonly number[],
): Band[] {
  const sideways = layers.map(() => 0);
  for (const { upper, upperAt, lower, lowerAt } of segments) {
    const far = Math.abs(centers[upper]! + upperAt - centers[lower]! - lowerAt);
    const layer = vertices[lower]!.layer;
    sideways[layer] = Math.max(sideways[layer]!, far);
  }
  let y = 0;
  return layers.map((members, n) => {
    const ports =
      n > 0
        && [n - 1, n].some(
          each => layers[each]!.every(vertex => boxes[vertex]?.border !== undefined || vertices[vertex]!.bend));
    if (n > 0) y += Math.round(Math.min((ports ? PORT_GAP : GAP) + sideways[n]! * 0.035, MOST_GAP));
    const top = y;
    y += members.reduce((most, vertex) => Math.max(most, boxes[vertex]?.height ?? 0), 0);
    return { top, bottom: y };
  });
}

/** Without repeated points and points in the middle of a straight line. */
function plain(points: readonly number[]): number[] {
  const kept: number[] = [];
  for (let n = 0; n < points.length; n += 2) {
    const [px, py] = [points[n]!, points[n + 1]!];
    const size = kept.length;
    if (size >= 2 && kept[size - 2] === px && kept[size - 1] === py) continue;
    const straight = size >= 4 && kept[size - 2] === px && kept[size - 4] === px;
    if (straight && (kept[size - 1]! - kept[size - 3]!) * (py - kept[size - 1]!) >= 0) kept[size - 1] = py;
    else kept.push(px, py);
  }
  return kept;
}
