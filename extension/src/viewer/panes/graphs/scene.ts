// Everything that is drawn at one moment, in the drawing's coordinates: boxes with what is written on them, and lines.

import { type Key, key } from "../../element";
import { count, phrase, seconds } from "../../format";
import { entry } from "../../collections";
import type { Color, Palette } from "../../palette";
import type { SavedData } from "../../record";
import type { Rectangle } from "./camera";
import type { GraphState, StateNode } from "./family";
import { countsOf, countsText, type Sign, type SignCounts } from "../../stages";
import { type Group, type Item, type Leaf, verticesOf } from "./groups";
import { groupLabel, type ItemLabel, nodeLabel } from "./look";
import type { Paint } from "./paint";
import { HEADER, type Placement, type Shape } from "./place";
import type { Subject } from "./subject";
import type { GraphView } from "./views";

/** One graph in the drawing. */
export interface ScenePart {
  readonly subject: Subject;
  readonly view: GraphView;
  readonly placement: Placement;
  readonly paint: Paint;
  /** What the pass before did; empty where that is not shown. */
  readonly changes: ReadonlyMap<number, Sign>;
  readonly saved: ReadonlyMap<string, SavedData>;
  readonly x: number;
  readonly y: number;
}

/** A box. */
export interface DrawnItem extends Rectangle {
  readonly part: ScenePart;
  readonly item: Item;
  readonly open: boolean;
  readonly label: ItemLabel;
  /** The node in this state, or in the one before where it is gone. null for groups. */
  readonly node: StateNode | null;
  readonly color: string;
  readonly chip: string;
  /** The colors in a group, with their shares. */
  readonly bars: readonly (readonly [color: string, share: number])[];
  readonly stripe: Color;
  readonly sign: Sign | null;
  /** How many nodes of a group were added, removed and changed. */
  readonly counts: SignCounts | null;
  readonly backward: SavedData["kind"] | "";
  /** Positions among the graph's results. */
  readonly outputs: readonly number[];
  /** What it stands for; null for groups of modules and such, which are no elements of the record. */
  readonly key: Key | null;
  readonly spoken: string;
}

export type LineLook = "plain" | "added" | "removed" | "crossing";

export interface Line {
  readonly part: ScenePart;
  readonly points: readonly number[];
  /** Where in `points` that begins which no other line draws: lines from one box share a trunk. */
  readonly own: number;
  readonly bounds: Rectangle;
  readonly from: DrawnItem;
  readonly to: readonly DrawnItem[];
  readonly ends: boolean;
  readonly back: boolean;
  readonly look: LineLook;
}

/** Two marks of different graphs that one captured call made. */
export interface Tie {
  readonly from: DrawnItem;
  readonly to: DrawnItem;
}

export interface Scene {
  readonly parts: readonly ScenePart[];
  /** Frames before what is in them. */
  readonly marks: readonly DrawnItem[];
  readonly lines: readonly Line[];
  readonly ties: readonly Tie[];
  readonly width: number;
  readonly height: number;
  /** The mark that stands for a key. */
  readonly byKey: ReadonlyMap<Key, readonly DrawnItem[]>;
}

const BESIDE = 120;

export function sceneOf(parts: readonly Omit<ScenePart, "x" | "y">[], palette: Palette): Scene {
  const marks: DrawnItem[] = [];
  const lines: Line[] = [];
  const placed: ScenePart[] = [];
  let [width, height] = [0, 0];
  const byKey = new Map<Key, DrawnItem[]>();
  for (const each of parts) {
    const part: ScenePart = { ...each, x: width ? width + BESIDE : 0, y: 0 };
    placed.push(part);
    const own = marksOf(part, palette);
    marks.push(...own.values());
    lines.push(...linesOf(part, own));
    width = part.x + part.placement.width;
    height = Math.max(height, part.placement.height);
    const { id } = part.subject.compile;
    for (const [vertex, item] of part.placement.shown) {
      const mark = own.get(item);
      if (mark) add(byKey, key(id, part.subject.family.vertices[vertex]!.data.id), mark);
    }
    for (const mark of own.values()) if (mark.key !== null && mark.item.kind !== "leaf") add(byKey, mark.key, mark);
  }
  return { parts: placed, marks, lines, ties: tiesOf(placed, byKey), width, height, byKey };
}

function add<K, V>(map: Map<K, V[]>, name: K, value: V): void {
  const found = entry(map, name, () => []);
  if (!found.includes(value)) found.push(value);
}

/** The boxes of what is there in this state, or was in the one before. */
function marksOf(part: ScenePart, palette: Palette): Map<Item, DrawnItem> {
  const { subject, view, placement, changes } = part;
  const state = subject.state(view);
  const marks = new Map<Item, DrawnItem>();
  for (const shape of placement.shapes) {
    const there = verticesOf(shape.item).filter(vertex => state.nodes.has(vertex) || changes.get(vertex) === "removed");
    if (there.length === 0) continue;
    marks.set(shape.item, shape.item.kind === "leaf"
      ? nodeMark(part, shape, shape.item, state, palette) : groupMark(part, shape, shape.item, there));
  }
  return marks;
}

function nodeMark(part: ScenePart, shape: Shape, leaf: Leaf, state: GraphState, palette: Palette): DrawnItem {
  const { vertex } = leaf;
  const { subject, view, changes, saved } = part;
  const node = state.nodes.get(vertex) ?? subject.state(view.before!).nodes.get(vertex)!;
  const { color, label: chip } = part.paint.of(vertex);
  const own = key(subject.compile.id, node.data.id);
  const sign = changes.get(vertex) ?? null;
  const backward = view.kind === "captured" || view.kind === "eager" ? "" : (saved.get(node.data.id)?.kind ?? "");
  const outputs = state.outputs.get(vertex) ?? [];
  const label = nodeLabel(leaf, node.data, subject.modules[vertex]!);
  return {
    part, item: shape.item, open: false, ...at(part, shape), label, node, color, chip, bars: [],
    stripe: palette.of(own), sign, counts: null,
    backward, outputs, key: own,
    spoken: phrase([
      `${node.data.name}: ${node.data.op === "placeholder" ? "input" : node.data.target}`, node.data.type,
      sign && SIGNS[sign], backward && SAVED_KINDS[backward],
      outputs.length ? "result of the graph" : "", chip,
    ], ", "),
  };
}

function groupMark(part: ScenePart, shape: Shape, group: Group, there: readonly number[]): DrawnItem {
  const { bars, label: painted } = part.paint.ofAll(there);
  const chip = painted || (group.home?.seconds == null ? "" : seconds(group.home.seconds));
  const signs = there.flatMap(vertex => part.changes.get(vertex) ?? []);
  const changed = signs.length ? countsOf(signs) : null;
  const nodes = there.length;
  const label = { title: groupLabel(group).title,
    detail: group.kind === "alike" ? groupLabel(group).detail : count(nodes, "node") };
  return {
    part, item: group, open: shape.open, ...at(part, shape), label, node: null, color: "", chip, bars, stripe: null,
    sign: null, counts: changed,
    backward: "", outputs: [], key: group.home ? key(part.subject.compile.id, group.home.id) : null,
    spoken: phrase([
      `${WHAT_GROUP[group.kind]} ${label.title}`, label.detail, chip, shape.open ? "open" : "closed, Enter opens it",
      changed && countsText(changed),
    ], ", "),
  };
}

const WHAT_GROUP: { readonly [kind in Group["kind"]]: string } = {
  root: "graph", side: "side", module: "module", kernel: "kernel", alike: "layers that are alike,", part: "part",
};

export const SIGNS: { readonly [sign in Sign]: string } =
  { added: "added by this pass", removed: "removed by this pass", changed: "changed by this pass" };

export const SAVED_KINDS: { readonly [kind: string]: string } = {
  saved: "saved for the backward", input: "an input that the backward reads", recomputed: "recomputed in the backward",
};

const at = (part: ScenePart, { x, y, width,
  height }: Shape): Rectangle => ({ x: x + part.x, y: y + part.y, width, height });

/** The lines of edges that there are in this state, or were in the one before. */
function linesOf(part: ScenePart, marks: ReadonlyMap<Item, DrawnItem>): Line[] {
  const { subject, view, placement, changes } = part;
  const now = edgesOf(subject.state(view), placement);
  const before = changes.size && view.before ? edgesOf(subject.state(view.before), placement) : null;
  const lines: Line[] = [];
  for (const wire of placement.wires) {
    const from = marks.get(wire.from);
    const leads = (edges: ReadonlyMap<Item, ReadonlySet<Item>>) =>
      wire.to.filter(item => edges.get(wire.from)?.has(item));
    const [here, old] = [leads(now), before ? leads(before) : []];
    const to = [...new Set([...here, ...old])].flatMap(item => marks.get(item) ?? []);
    if (!from || to.length === 0) continue;
    const look = before && here.length === 0
      ? "removed" : before && old.length === 0 ? "added" : crosses(wire.from, wire.to) ? "crossing" : "plain";
    const points = wire.points.map((value, n) => value + (n % 2 ? part.y : part.x));
    lines.push({ part, points, own: 0, bounds: boundsOf(points), from, to, ends: wire.ends, back: wire.back, look });
  }
  return sharing(lines);
}

/** The lines with what they share with a longer one marked as drawn by that. */
function sharing(lines: readonly Line[]): Line[] {
  const byStart = new Map<string, Line[]>();
  const found: Line[] = [];
  for (const line of [...lines].sort((a, b) => b.bounds.height - a.bounds.height)) {
    const name = `${line.points[0]} ${line.points[1]} ${line.look}`;
    const own = (byStart.get(name) ?? []).reduce((most, longer) => Math.max(most, shared(line.points, longer.points)),
      0);
    add(byStart, name, line);
    found.push({ ...line, own });
  }
  return found;
}

/** How many numbers of `points` lead along `other`. */
function shared(points: readonly number[], other: readonly number[]): number {
  let n = 0;
  while (n < points.length && points[n] === other[n] && points[n + 1] === other[n + 1]) n += 2;
  if (n === 0 || n >= points.length) return Math.max(n - 2, 0);
  const straight = points[n] === points[n - 2] && other[n] === other[n - 2];
  const shorter = straight && points[n + 1]! <= other[n + 1]! && points[n + 1]! >= points[n - 1]!
    && n + 2 < points.length;
  return shorter ? n : n - 2;
}

function edgesOf(state: GraphState, { shown }: Placement): Map<Item, Set<Item>> {
  const edges = new Map<Item, Set<Item>>();
  for (const [vertex, node] of state.nodes) {
    const target = shown.get(vertex);
    for (const source of node.sources) {
      const from = shown.get(source);
      if (from && target && from !== target) entry(edges, from, () => new Set()).add(target);
    }
  }
  return edges;
}

/** Whether an edge leads from the forward to the backward. */
function crosses(from: Item, to: readonly Item[]): boolean {
  const side = sideOf(from);
  return side !== null && to.every(item => sideOf(item) !== side);
}

function sideOf(item: Item): Item | null {
  for (let at: Item | null = item; at; at = at.parent) if (at.kind === "side") return at;
  return null;
}

function boundsOf(points: readonly number[]): Rectangle {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let n = 0; n < points.length; n += 2) {
    left = Math.min(left, points[n]!);
    right = Math.max(right, points[n]!);
    top = Math.min(top, points[n + 1]!);
    bottom = Math.max(bottom, points[n + 1]!);
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

/** Marks of the first graph tied to those of the others that the same captured call made. */
function tiesOf(parts: readonly ScenePart[], byKey: ReadonlyMap<Key, readonly DrawnItem[]>): Tie[] {
  const [first, ...others] = parts;
  if (!first || others.length === 0) return [];
  const markOf = (part: ScenePart, id: string) =>
    byKey.get(key(part.subject.compile.id, id))?.find(mark => mark.part === part);
  const made = new Map<string, DrawnItem[]>();
  for (const part of others) {
    for (const vertex of part.subject.family.vertices) {
      const mark = vertex.backward ? markOf(part, vertex.data.id) : undefined;
      if (mark) for (const origin of vertex.data.origins) add(made, origin, mark);
    }
  }
  const ties = new Map<DrawnItem, Set<DrawnItem>>();
  for (const { data } of first.subject.family.vertices) {
    const from = markOf(first, data.id);
    for (const origin of data.origins) {
      for (const to of from ? (made.get(origin) ?? []) : []) entry(ties, from!, () => new Set()).add(to);
    }
  }
  return [...ties].flatMap(([from, all]) => [...all].map(to => ({ from, to })));
}

/** What is at a point: the innermost box; a frame only by its header. */
export function markAt(scene: Scene, x: number, y: number): DrawnItem | null {
  for (let n = scene.marks.length - 1; n >= 0; n--) {
    const mark = scene.marks[n]!;
    const height = mark.open ? HEADER : mark.height;
    if (x >= mark.x && x <= mark.x + mark.width && y >= mark.y && y <= mark.y + height) return mark;
  }
  return null;
}

export function overlap(a: Rectangle, b: Rectangle): boolean {
  return a.x <= b.x + b.width && b.x <= a.x + a.width && a.y <= b.y + b.height && b.y <= a.y + a.height;
}
