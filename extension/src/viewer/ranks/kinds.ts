// Made from explorer/records/data/ranks.py by `python -m explorer.show.notebook.types`; edit that file instead.

import { between, type Check, list, maybe, real, shape, text, whole } from "../check";
import { RecordData } from "../kinds";

export const RankData: Check = shape({ name: text, number: maybe(between(0, 999999)), compiles: whole, recompiles:
  whole, graphs: whole, breaks: whole, guards: whole, seconds: real }, { error: text });
export const RankDivergenceData: Check = shape({ rank: whole, what: text, line: whole, before: text, after: text }, {
  also: list(text) });
export const RankCompileData: Check = shape({ title: text, ids: list(maybe(text)), seconds: list(maybe(real)), kinds:
  list(text) }, { partings: list(RankDivergenceData) });
export const RanksData: Check = shape({ version: whole, title: text, records: list(RecordData), ranks: list(RankData),
  compiles: list(RankCompileData) }, { missing: list(between(0, 999999)) });
