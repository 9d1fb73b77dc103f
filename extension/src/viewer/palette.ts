// A colour for each source line: the same in every pane, whatever is shown there.

import type { Key } from "./element";
import { type Links, together } from "./links";

export const COLOURS = 12;

/** A colour's number; "many" for what several source lines caused; null for what none did, and for lines that are in no
 * compiled program. */
export type Colour = number | "many" | null;

/** Two palettes over the same `lines` give each the same colour. */
export function Palette(links: Links, lines: readonly Key[] = links.programLines()) {
  const ranks = new Map<Key, number>();
  /** The colour of an element. */
  const of = (element: Key): Colour => colour(links.line(element));
  [...lines].sort(bySourceLine).forEach((line, rank) => ranks.set(line, rank));

  /** The colour of something without an id of its own, by what caused it. */
  function ofAll(causes: Iterable<Key>): Colour {
    let line: Key | "many" | null = null;
    for (const cause of causes) line = together(line, links.line(cause));
    return colour(line);
  }

  function colour(line: Key | "many" | null): Colour {
    if (line === null || line === "many") return line;
    const rank = ranks.get(line);
    return rank === undefined ? null : rank % COLOURS;
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

/** The class that shows a colour (style/base.css). */
export function colourClass(colour: Colour): string {
  return colour === null ? "" : colour === "many" ? "ex-line-many" : `ex-line-${colour}`;
}
