// Made from explorer/records/data/ranks.py by `python -m explorer.show.notebook.types`; edit that file instead.

import { between, type Check, list, maybe, real, shape, text, whole } from "../check";
import { RecordData } from "../record";

export const VERSION = 1;
export const MIME = "application/vnd.explorer.ranks+json";

/** One process. `number` is its rank, None where its record does not say; `seconds` is what its compiles took. */
export interface RankData {
  readonly name: string; readonly number: number | null; readonly compiles: number; readonly recompiles: number;
  readonly graphs: number; readonly breaks: number; readonly guards: number; readonly seconds: number;
  readonly error?: string;
}

/** The first line in which a compile on `rank` (an index) differs from the same compile on the first rank that has
 * it: `what` names the text, `line` counts from 1, `before` and `after` are both lines ("" past the end of a text).
 * `also` names later texts that differ. */
export interface RankDivergenceData {
  readonly rank: number; readonly what: string; readonly line: number; readonly before: string; readonly after: string;
  readonly also?: readonly string[];
}

/** One compile of a function on each rank: its id and its seconds, None on ranks without it. Ranks with equal
 * `kinds` compiled the same. */
export interface RankCompileData {
  readonly title: string; readonly ids: readonly (string | null)[]; readonly seconds: readonly (number | null)[];
  readonly kinds: readonly string[]; readonly partings?: readonly RankDivergenceData[];
}

/** `missing` are ranks below the highest that left no record. */
export interface RanksData {
  readonly version: number; readonly title: string; readonly records: readonly RecordData[];
  readonly ranks: readonly RankData[]; readonly compiles: readonly RankCompileData[];
  readonly missing?: readonly number[];
}

export const RankData: Check = shape({ name: text, number: maybe(between(0, 999999)), compiles: whole, recompiles:
  whole, graphs: whole, breaks: whole, guards: whole, seconds: real }, { error: text });
export const RankDivergenceData: Check = shape({ rank: whole, what: text, line: whole, before: text, after: text }, {
  also: list(text) });
export const RankCompileData: Check = shape({ title: text, ids: list(maybe(text)), seconds: list(maybe(real)), kinds:
  list(text) }, { partings: list(RankDivergenceData) });
export const RanksData: Check = shape({ version: whole, title: text, records: list(RecordData), ranks: list(RankData),
  compiles: list(RankCompileData) }, { missing: list(between(0, 999999)) });
