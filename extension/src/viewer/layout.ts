// Where the panes are: columns of cells, each cell with tabs. Plain data and pure functions, so that it can be
// remembered and tested. A tab is a pane's id, or "ID~2" for a second one of the same kind.

import { sum } from "./collections";
import type { Json } from "./host";

export interface Cell {
  readonly tabs: readonly string[];
  readonly active: string;
  readonly share: number;
}

export interface PaneColumn {
  readonly cells: readonly Cell[];
  readonly share: number;
}

export interface Layout {
  readonly columns: readonly PaneColumn[];
}

export type Direction = "left" | "right" | "up" | "down";
export type DropPlace = Direction | "into";

const LEAST_SHARE = 0.08;

export const kindOf = (tab: string): string => tab.replace(/~\d+$/, "");

export function tabsOf(layout: Layout): string[] {
  return layout.columns.flatMap(column => column.cells.flatMap(cell => cell.tabs));
}

/** A layout of columns, each given as a list of cells, each a list of tabs. */
export function layoutOf(...columns: readonly (readonly (readonly string[])[])[]): Layout {
  return tidy({ columns: columns.map(cells => ({ share: 1, cells: cells.map(tabs => cellOf(tabs)) })) });
}

export const WIDE = 1320;
export const MIDDLE = 720;

/** Where the panes are until a person moves them, for a width in pixels. */
export function suggested(kinds: readonly string[], width: number): Layout {
  const there = (...ids: string[]) => ids.filter(id => kinds.includes(id));
  const left = there("source", "bytecode", "breaks", "guards", "recompiles");
  const middle = there("graphs", "schedule", "memory", "text");
  const right = [...there("code", "timing", "timeline"), ...kinds.filter(id => !PLACED.includes(id))];
  if (width >= WIDE) return layoutOf([left], [middle], [right]);
  if (width >= MIDDLE) return layoutOf([left], [[...right, ...middle]]);
  return layoutOf([left, [...right, ...middle]]);
}

/** Panes with a place of their own above; a diff is opened when it is asked for. */
const PLACED = ["source", "bytecode", "breaks", "guards", "recompiles", "graphs", "schedule", "memory", "text", "code",
  "timing", "timeline", "diff"];

/** The layout with a tab in front; a new one goes where `near` is, or else into the last cell. */
export function opened(layout: Layout, tab: string, near?: string): Layout {
  if (tabsOf(layout).includes(tab)) {
    return withCells(layout, cell => (cell.tabs.includes(tab) ? { ...cell, active: tab } : cell));
  }
  const all = layout.columns.flatMap(column => column.cells);
  const target = all.find(cell => near !== undefined && cell.tabs.includes(near)) ?? all[all.length - 1];
  if (!target) return layoutOf([[tab]]);
  return withCells(layout, cell => (cell === target ? { ...cell, tabs: [...cell.tabs, tab], active: tab } : cell));
}

export function closed(layout: Layout, tab: string): Layout {
  return tidy(
    withCells(layout, cell => {
      const at = cell.tabs.indexOf(tab);
      if (at < 0) return cell;
      const tabs = cell.tabs.filter(each => each !== tab);
      return { ...cell, tabs, active: cell.active === tab ? (tabs[Math.max(0, at - 1)] ?? "") : cell.active };
    }),
  );
}

/** The name for one more pane of a kind. */
export function another(layout: Layout, kind: string): string {
  const taken = new Set(tabsOf(layout));
  if (!taken.has(kind)) return kind;
  for (let n = 2; ; n++) if (!taken.has(`${kind}~${n}`)) return `${kind}~${n}`;
}

/** The layout with `tab` beside the cell of `target`, on a side of it, or as a tab in it. */
export function placed(layout: Layout, tab: string, target: string, place: DropPlace): Layout {
  if (tab === target && cellWith(layout, tab)?.tabs.length === 1) return layout;
  const anchor = target !== tab ? target : cellWith(layout, tab)?.tabs.find(each => each !== tab);
  if (anchor === undefined) return layout;
  const without = closed(layout, tab);
  if (place === "into") return opened(without, tab, anchor);
  const columns: PaneColumn[] = [];
  for (const column of without.columns) {
    const at = column.cells.findIndex(cell => cell.tabs.includes(anchor));
    if (at < 0) {
      columns.push(column);
    } else if (place === "left" || place === "right") {
      const half = { ...column, share: column.share / 2 };
      const added = { cells: [cellOf([tab])], share: column.share / 2 };
      columns.push(...(place === "left" ? [added, half] : [half, added]));
    } else {
      const share = (column.cells[at]?.share ?? 1) / 2;
      const cells = column.cells.map((cell, n) => (n === at ? { ...cell, share } : cell));
      cells.splice(place === "up" ? at : at + 1, 0, { ...cellOf([tab]), share });
      columns.push({ ...column, cells });
    }
  }
  return tidy({ columns });
}

/** The layout with `tab` one step to a side: into the neighbor there, or into a new cell at the edge. */
export function moved(layout: Layout, tab: string, side: Direction): Layout {
  const x = layout.columns.findIndex(column => column.cells.some(cell => cell.tabs.includes(tab)));
  const column = layout.columns[x];
  if (!column) return layout;
  const y = column.cells.findIndex(cell => cell.tabs.includes(tab));
  const across = side === "left" || side === "right";
  const step = side === "left" || side === "up" ? -1 : 1;
  const neighbor = across ? layout.columns[x + step]?.cells[0] : column.cells[y + step];
  const anchor = neighbor?.tabs[0];
  if (anchor !== undefined) return placed(layout, tab, anchor, "into");
  const others =
    (across ? column.cells.flatMap(cell => cell.tabs) : (column.cells[y]?.tabs ?? [])).filter(t => t !== tab);
  return others[0] === undefined ? layout : placed(layout, tab, others[0], side);
}

/** Sizes of two neighbors in a list of shares, with the border between `at` and the next moved by `by` of the whole. */
export function resized(shares: readonly number[], at: number, by: number): number[] {
  const whole = sum(shares, each => each);
  const before = shares[at];
  const after = shares[at + 1];
  if (before === undefined || after === undefined) return [...shares];
  const least = LEAST_SHARE * whole;
  if (before + after <= 2 * least) return [...shares];
  const first = Math.min(Math.max(before + by * whole, least), before + after - least);
  return shares.map((each, n) => (n === at ? first : n === at + 1 ? before + after - first : each));
}

export function withColumnShares(layout: Layout, shares: readonly number[]): Layout {
  return { columns: layout.columns.map((column, n) => ({ ...column, share: shares[n] ?? column.share })) };
}

export function withCellShares(layout: Layout, column: number, shares: readonly number[]): Layout {
  const columns = layout.columns.map((each, x) =>
    x !== column
      ? each : { ...each, cells: each.cells.map((cell, y) => ({ ...cell, share: shares[y] ?? cell.share })) },
  );
  return { columns };
}

const VERSION = 1;

export function saved(layout: Layout): Json {
  return {
    version: VERSION,
    columns: layout.columns.map(({ share, cells }) => ({ share, cells: cells.map(cell => ({ ...cell })) })),
  };
}

/** What was remembered, as far as it makes sense with the panes that there are; null where nothing of it does. */
export function restored(from: Json | undefined, kinds: ReadonlySet<string>): Layout | null {
  const seen = new Set<string>();
  const fresh = (tab: Json): tab is string => {
    if (typeof tab !== "string" || !kinds.has(kindOf(tab)) || seen.has(tab)) return false;
    seen.add(tab);
    return true;
  };
  const columns = listIn(from, "columns").map(column => ({
    share: shareIn(column),
    cells: listIn(column, "cells").map(cell => {
      const tabs = listIn(cell, "tabs").filter(fresh);
      const active = field(cell, "active");
      return { tabs, active: typeof active === "string" ? active : "", share: shareIn(cell) };
    }),
  }));
  const layout = tidy({ columns });
  return layout.columns.length > 0 ? layout : null;
}

function field(of: Json | undefined, name: string): Json | undefined {
  if (of === null || typeof of !== "object" || Array.isArray(of)) return undefined;
  return (of as { readonly [key: string]: Json })[name];
}

function listIn(of: Json | undefined, name: string): readonly Json[] {
  const found = field(of, name);
  return Array.isArray(found) ? found : [];
}

function shareIn(of: Json): number {
  const found = field(of, "share");
  return typeof found === "number" && Number.isFinite(found) && found > 0 ? found : 1;
}

const cellOf = (tabs: readonly string[]): Cell => ({ tabs, active: tabs[0] ?? "", share: 1 });

function cellWith(layout: Layout, tab: string): Cell | undefined {
  return layout.columns.flatMap(column => column.cells).find(cell => cell.tabs.includes(tab));
}

function withCells(layout: Layout, change: (cell: Cell) => Cell): Layout {
  return { columns: layout.columns.map(column => ({ ...column, cells: column.cells.map(change) })) };
}

/** Without empty cells and columns, each cell with one of its own tabs in front, and shares that sum to 1. */
function tidy(layout: Layout): Layout {
  const front = (cell: Cell) => ({ ...cell,
    active: cell.tabs.includes(cell.active) ? cell.active : (cell.tabs[0] ?? "") });
  const columns = layout.columns
    .map(column => ({ ...column, cells: summing(column.cells.filter(cell => cell.tabs.length > 0).map(front)) }))
    .filter(column => column.cells.length > 0);
  return { columns: summing(columns) };
}

function summing<T extends { readonly share: number }>(parts: readonly T[]): T[] {
  const whole = sum(parts, each => each.share);
  return parts.map(each => ({ ...each, share: each.share / whole }));
}

/** The layout for another width, with the same tabs in front as far as they can be; as it is where a person moved
 * panes. */
export function reflowed(layout: Layout, kinds: readonly string[], width: number): Layout {
  const places = (of: Layout) => JSON.stringify(of.columns.map(column => column.cells.map(cell => cell.tabs)));
  const next = suggested(kinds, width);
  const own = [0, MIDDLE, WIDE].every(each => places(suggested(kinds, each)) !== places(layout));
  if (own || places(next) === places(layout)) return layout;
  return layout.columns.flatMap(column => column.cells).reduce((found, cell) => opened(found, cell.active), next);
}
