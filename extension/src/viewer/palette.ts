// A color for each source line: the same in every pane, whatever is shown there.

import type { Key } from "./element";
import { type Links, together } from "./links";

export const COLORS = 12;

/** A color's number; "many" for what several source lines caused; null for what none did, and for lines that are in no
 * compiled program. */
export type Color = number | "many" | null;

/** Two palettes over the same `lines` give each the same color. */
export function Palette(links: Links, lines: readonly Key[] = links.programLines()) {
  const ranks = new Map<Key, number>();
  /** The color of an element. */
  const of = (element: Key): Color => color(links.line(element));
  [...lines].sort(bySourceLine).forEach((line, rank) => ranks.set(line, rank));

  /** The color of something without an id of its own, by what caused it. */
  function ofAll(causes: Iterable<Key>): Color {
    let line: Key | "many" | null = null;
    for (const cause of causes) line = together(line, links.line(cause));
    return color(line);
  }

  function color(line: Key | "many" | null): Color {
    if (line === null || line === "many") return line;
    const rank = ranks.get(line);
    return rank === undefined ? null : rank % COLORS;
  }

  return { of, ofAll };
}

export type Palette = ReturnType<typeof Palette>;

function bySourceLine(one: Key, other: Key): number {
  const [a, b] = [split(one), split(other)];
  return a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line;
}

function split(line: Key): { file: string; line: number } {
  const colon = line.lastIndexOf(":");
  return { file: line.slice(0, colon), line: Number(line.slice(colon + 1)) };
}

/** The class that shows a color (style/base.css). */
export function colorClass(color: Color): string {
  return color === null ? "" : color === "many" ? "ex-line-many" : `ex-line-${color}`;
}
