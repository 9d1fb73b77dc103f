// Made from explorer/ir/ranks.py by `python -m explorer.show.notebook.types`; edit that file instead.

import type { RecordData } from "../record";

export const VERSION = 1;
export const MIME = "application/vnd.explorer.ranks+json";

/** One process. `number` is its rank, None where its record does not say; `seconds` is what its compiles took. */
export interface RankData {
  readonly name: string;
  readonly number: number | null;
  readonly compiles: number;
  readonly recompiles: number;
  readonly graphs: number;
  readonly breaks: number;
  readonly guards: number;
  readonly seconds: number;
  readonly error?: string;
}

/** The first line where a rank (an index) parts from the first one that made the same compile: in which text, at
 * which of its lines (from 1), and both lines ("" where a text has ended). `also` names the later texts in which they
 * differ. */
export interface RankPartingData {
  readonly rank: number;
  readonly what: string;
  readonly line: number;
  readonly before: string;
  readonly after: string;
  readonly also?: readonly string[];
}

/** A compile of a function, on each rank: its id there and the seconds it took, None where that rank has it not.
 * Ranks of the same `kinds` compiled the same. */
export interface RankCompileData {
  readonly title: string;
  readonly ids: readonly (string | null)[];
  readonly seconds: readonly (number | null)[];
  readonly kinds: readonly string[];
  readonly partings?: readonly RankPartingData[];
}

/** `missing` are ranks below the highest that left no record. */
export interface RanksData {
  readonly version: number;
  readonly title: string;
  readonly records: readonly RecordData[];
  readonly ranks: readonly RankData[];
  readonly compiles: readonly RankCompileData[];
  readonly missing?: readonly number[];
}
