// What colors say: for each node a color and a few words, and a legend.

import { bytes, seconds } from "../../format";
import { sum } from "../../collections";
import type { Home, Kernels } from "./kernels";
import { homeTitle } from "./look";
import { type Sort, sortOf, SORTS } from "./operations";
import type { GraphState, StateNode } from "./family";

export const COLORINGS = {
  operation: "Color by operation", dtype: "Color by dtype", kernel: "Color by kernel", bytes: "Color by bytes",
  time: "Color by time",
} as const;
export type Coloring = keyof typeof COLORINGS;

/** `color` names a custom property of the style sheet; "" is no color. */
export interface Tint {
  readonly color: string;
  readonly label: string;
}

export interface LegendEntry extends Tint {
  readonly count: number;
}

export interface Paint {
  of(vertex: number): Tint;
  /** The colors in a group, each with its share, the largest first; and what to say of the group. */
  ofAll(vertices: readonly number[]): { readonly bars: readonly (readonly [color: string, share: number])[];
  readonly label: string };
  readonly legend: readonly LegendEntry[];
  /** What the legend is of. */
  readonly title: string;
}

const NONE: Tint = { color: "", label: "" };
const COLORS = 12;
const STEPS = 5;
const MOST_ENTRIES = 12;

export function paintOf(coloring: Coloring, state: GraphState, kernels: Kernels): Paint {
  const { nodes, view } = state;
  const homes = (vertex: number) => kernels.of(nodes.get(vertex)?.data.id ?? "", view.kind)?.homes ?? [];
  const sizeOf = (vertex: number) => nodes.get(vertex)?.data.bytes ?? 0;
  switch (coloring) {
    case "operation":
      return categories("Operation kind", nodes, node => {
        const sort = sortOf(node.data);
        return { color: `--ex-sort-${sort}`, name: SORTS[sort], label: "", rank: ORDER.indexOf(sort) };
      });
    case "dtype":
      return categories("Data type", nodes, node => {
        const dtype = dtypeOf(node.data.type);
        return dtype ? { color: DTYPES.get(dtype) ?? "--ex-fg2", name: dtype, label: "",
          rank: [...DTYPES.keys()].indexOf(dtype) } : null;
      });
    case "kernel":
      return categories("Kernel or library call", nodes, (_, vertex) => {
        const [first, ...more] = homes(vertex);
        if (!first) return null;
        const label = first.id + (more.length ? ` +${more.length}` : "");
        return { color: `--ex-line-${first.order % COLORS}`, name: homeTitle(first), label, rank: first.order };
      });
    case "bytes":
      return amounts("Bytes of the result", nodes, value => bytes(Math.round(value)), sizeOf,
        vertices => sum(vertices, vertex => amount(sizeOf(vertex))));
    case "time":
      return amounts("Time of its kernel", nodes, seconds, vertex => timeOf(homes(vertex)), vertices => {
        const all = new Map(vertices.flatMap(homes).map(home => [home.key, home]));
        return timeOf([...all.values()]);
      });
  }
}

const ORDER = Object.keys(SORTS) as Sort[];

const DTYPES = new Map([
  "f32", "f16", "bf16", "i64", "b8", "f64", "i32", "u8", "c64", "several", "i16", "i8",
].map((name, n) => [name, `--ex-line-${n}`]));

/** "f32" of "f32[4, 8]"; "several" for results of different types; "" for what is no tensor. */
function dtypeOf(type: string): string {
  const found = new Set([...type.slice(0, 400).matchAll(/(?<![a-z])([a-z]+\d+)\[/g)].map(match => match[1]!));
  return found.size > 1 ? "several" : ([...found][0] ?? "");
}

const timeOf = (homes: readonly Home[]): number => sum(homes, home => home.seconds ?? 0);

/** Numbers of a record may be anything. */
const amount = (value: number): number => (Number.isFinite(value) && value > 0 ? value : 0);

interface Category extends Tint {
  readonly name: string;
  readonly rank: number;
}

function categories(title: string, nodes: ReadonlyMap<number, StateNode>,
    of: (node: StateNode, vertex: number) => Category | null): Paint {
  const found = new Map<number, Category>();
  for (const [vertex, node] of nodes) {
    const category = of(node, vertex);
    if (category) found.set(vertex, category);
  }
  const counts = new Map<string, { category: Category; count: number }>();
  for (const category of found.values()) {
    const entry = counts.get(category.name);
    counts.set(category.name, { category, count: (entry?.count ?? 0) + 1 });
  }
  const many = counts.size > MOST_ENTRIES;
  const entries =
    [...counts.values()].sort((a, b) => (many ? b.count - a.count : 0) || a.category.rank - b.category.rank);
  const legend = entries.slice(0, MOST_ENTRIES)
    .map(({ category, count }) => ({ color: category.color, label: category.name, count }));
  const left = entries.slice(MOST_ENTRIES);
  if (left.length) legend.push({ color: "", label: `and ${left.length} more`, count: sum(left, each => each.count) });
  return {
    title, legend,
    of: vertex => found.get(vertex) ?? NONE,
    ofAll: vertices => {
      const shares = new Map<string, number>();
      const names = new Set<string>();
      for (const vertex of vertices) {
        const category = found.get(vertex);
        if (!category) continue;
        shares.set(category.color, (shares.get(category.color) ?? 0) + 1);
        if (category.label) names.add(category.name);
      }
      const all = sum([...shares.values()], many => many);
      const bars = [...shares].map(([color, many]) => [color, many / all] as const).sort((a, b) => b[1] - a[1]);
      return { bars, label: names.size > 1 ? `${names.size} kernels, calls` : "" };
    },
  };
}

function amounts(
  title: string, nodes: ReadonlyMap<number, StateNode>, written: (value: number) => string,
  of: (vertex: number) => number,
  ofAll: (vertices: readonly number[]) => number,
): Paint {
  const values = new Map([...nodes.keys()].map(vertex => [vertex, amount(of(vertex))]));
  const positive = [...values.values()].filter(value => value > 0);
  const most = Math.log(Math.max(...ends(positive), 1e-300));
  const least = Math.log(Math.min(...ends(positive), Infinity));
  const step = (value: number) => (most > least
    ? Math.min(Math.floor(((Math.log(value) - least) / (most - least)) * STEPS), STEPS - 1) : STEPS - 1);
  const tint = (value: number): Tint => (value > 0
    ? { color: `--ex-step-${step(value) + 1}`, label: written(value) } : NONE);
  const bounds = (n: number) => written(Math.exp(least + ((n + 1) / STEPS) * (most - least)));
  const all = ofAll([...nodes.keys()]);
  const counts = Array.from({ length: STEPS }, () => 0);
  for (const value of positive) counts[step(value)]!++;
  const legend = counts.flatMap(
    (many, n) => (many ? [{ color: `--ex-step-${n + 1}`, label: `up to ${bounds(n)}`, count: many }] : []));
  return {
    title, legend,
    of: vertex => tint(values.get(vertex) ?? 0),
    // A bar as long as the group's part of the whole.
    ofAll: vertices => {
      const total = ofAll(vertices);
      return { bars: total > 0 && all > 0 ? [[`--ex-step-${STEPS - 1}`, Math.min(total / all, 1)]] : [],
        label: total > 0 ? written(total) : "" };
    },
  };
}

/** The least and the most of a list, however long it is. */
function ends(values: readonly number[]): number[] {
  if (!values.length) return [];
  return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
}
