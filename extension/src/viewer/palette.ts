// A colour for each source line: the same in every pane, whatever is shown there.

import type { Key } from "./element";
import { type Links, together } from "./links";

export const COLOURS = 12;

/** A colour's number; "many" for what several source lines caused; null for what none did, and for lines that are in no
 * compiled program. */
export type Colour = number | "many" | null;

export class Palette {
  readonly #ranks = new Map<Key, number>();
  readonly #links: Links;

  /** Two palettes over the same `lines` give each the same colour. */
  constructor(links: Links, lines: readonly Key[] = links.programLines()) {
    this.#links = links;
    [...lines].sort(bySourceLine).forEach((line, rank) => this.#ranks.set(line, rank));
  }

  /** The colour of an element. */
  of(element: Key): Colour {
    return this.#colour(this.#links.line(element));
  }

  /** The colour of something without an id of its own, by what caused it. */
  ofAll(causes: Iterable<Key>): Colour {
    let line: Key | "many" | null = null;
    for (const cause of causes) line = together(line, this.#links.line(cause));
    return this.#colour(line);
  }

  #colour(line: Key | "many" | null): Colour {
    if (line === null || line === "many") return line;
    const rank = this.#ranks.get(line);
    return rank === undefined ? null : rank % COLOURS;
  }
}

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
