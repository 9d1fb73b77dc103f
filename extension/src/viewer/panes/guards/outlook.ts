// What a described call would lead to: an earlier compile that accepts it, or a new one, and what that would make
// dynamic.

import type { CompileData, GuardData, RecordData } from "../../record";
import { decide, type Call, type Decision } from "./check";

/** A compile of the frame, and its guards on the described call. */
export interface Candidate {
  readonly compile: CompileData;
  readonly decisions: readonly Decision[];
}

export interface Outlook {
  readonly candidates: readonly Candidate[];
  /** The first compile whose guards do not fail, as far as can be told here. */
  readonly accepts: CompileData | null;
  /** Sizes and numbers that a new compile would take as symbols, as "L['x'].size(0)". */
  readonly dynamic: readonly string[];
  /** Why no new compile would be made; "" where one would. */
  readonly refused: string;
}

/** The compiles of one frame, first to last: "f1", "f1.1", "f1.2". */
export function compilesOfFrame(record: RecordData, of: CompileData): CompileData[] {
  const frame = (id: string) => id.replace(/\.\d+(?=#|$)/, "");
  return record.compiles.filter(each => frame(each.id) === frame(of.id) && each.title === of.title);
}

export function outlook(record: RecordData, compile: CompileData, call: Call): Outlook {
  const compiles = compilesOfFrame(record, compile);
  const candidates = compiles
    .filter(each => (each.guards ?? []).length > 0)
    .map(each => ({ compile: each, decisions: decide(each.guards ?? [], call) }));
  const accepting = candidates.find(each => each.decisions.every(decision => decision.outcome !== "fails"));
  const limit = Number(record.config["recompile_limit"] ?? NaN);
  const full = accepting === undefined && compiles.length >= limit;
  return {
    candidates,
    accepts: accepting?.compile ?? null,
    dynamic: accepting ? [] : wouldBeDynamic(record, compiles, call),
    refused: full
      ? `the frame was compiled ${compiles.length} times, which is the limit: it would run eagerly from then on` : "",
  };
}

/** What explorer/compiler/capture/tracer.py (`_dynamic_dims`, `is_dynamic_number`) would make symbolic. */
function wouldBeDynamic(record: RecordData, compiles: readonly CompileData[], call: Call): string[] {
  const setting = record.config["dynamic"];
  if (setting === "False") return [];
  const seen = recordedSizes(compiles);
  const found: string[] = [];
  for (const [source, input] of call.inputs) {
    const before = seen.get(source);
    const number = input.kind === "number" && input.constant?.type === "int" ? input.constant.value : null;
    const sizes = input.tensor?.sizes ?? (typeof number === "number" ? [number] : []);
    const parameter = (input.tensor?.type ?? "").endsWith("Parameter");
    if (parameter || (!before && setting !== "True")) continue;
    sizes.forEach((size, dim) => {
      const changed = before?.length === sizes.length && before[dim] !== size;
      const asked = changed || (setting === "True" && input.tensor);
      if (asked && size !== 0 && size !== 1) found.push(input.tensor ? `${source}.size(${dim})` : source);
    });
  }
  return found;
}

/** The sizes of each source over all compiles, null where they differed (a number counts as one size). */
export function recordedSizes(compiles: readonly CompileData[]): Map<string, readonly (number | null)[]> {
  const joined = new Map<string, readonly (number | null)[]>();
  for (const compile of compiles) {
    for (const [source, now] of sizesOf(compile)) {
      const before = joined.get(source) ?? now;
      joined.set(source,
        before.length === now.length ? now.map((size, dim) => (size === before[dim] ? size : null)) : now);
    }
  }
  return joined;
}

function* sizesOf(compile: CompileData): Iterable<[string, readonly (number | null)[]]> {
  for (const guard of compile.guards ?? []) {
    const sizes = sizesIn(guard);
    if (sizes) yield [guard.source, sizes];
  }
  for (const symbol of compile.symbols ?? []) {
    if (symbol.status === "dynamic" && !/\.(size|stride)\(\d+\)$/.test(symbol.source)) yield [symbol.source, [null]];
  }
}

function sizesIn(guard: GuardData): readonly (number | null)[] | null {
  if (guard.property === "tensor" && guard.tensor) return guard.tensor.sizes;
  const number = guard.property === "constant" && guard.constant?.type === "int" ? guard.constant.value : null;
  return typeof number === "number" ? [number] : null;
}
