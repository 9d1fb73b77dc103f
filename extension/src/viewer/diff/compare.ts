// Two records, side by side: which compiles and which stages belong together, and where their texts part.

import { bytes, grouped, phrase, seconds } from "../format";
import { own } from "../collections";
import { operator } from "../element";
import { signed } from "../glance";
import { withQuartiles } from "../panes/timing/figures";
import type { CompileData, HalfData, LineData, PartData, RecordData, SamplesData, StageData } from "../record";
import { shortTarget } from "../panes/graphs/operations";
import { FileNames } from "../sources";
import { artifact, callsIn, halfName, PHASES, phases, recompileCause } from "../stages";
import { renamedDiff } from "./lines";

export interface CompilePair {
  readonly before?: CompileData;
  readonly after?: CompileData;
}

/** How files are called where two records are compared: a cell that was edited and run again is the same cell. */
export function comparable({ sources }: RecordData): FileNames {
  return FileNames(sources.map(each => (each.name ? { ...each, name: "cell" } : each)));
}

/** Of two compilers, whose texts are their own: "alike", the same operations, or "other". "renamed": the same except
 * for names and line numbers; "idle": a pass that left its graph as it was, on both sides. */
export type PairState = "alike" | "other" | "same" | "renamed" | "idle" | "changed" | "only before" | "only after";

export interface StagePair {
  /** The stage's role, its half, and which of several it is: the same in both. */
  readonly id: string;
  readonly name: string;
  readonly half: string;
  readonly before?: StageData;
  readonly after?: StageData;
  readonly state: PairState;
}

/** Compiles of the same id belong together, then those of the same function; the others stand alone. */
export function compilePairs(before: RecordData, after: RecordData): CompilePair[] {
  const left = new Set(after.compiles);
  const found: CompilePair[] = [];
  const take = (old: CompileData, same: (other: CompileData) => boolean) => {
    const partner = [...left].find(same);
    if (partner) left.delete(partner);
    return partner && { before: old, after: partner };
  };
  const ids = before.compiles.map(old => take(old, other => other.id === old.id && other.title === old.title));
  const titles = before.compiles.map((old, n) => ids[n] ?? take(old, other => other.title === old.title));
  before.compiles.forEach(
    (old, n) => found.push(titles[n] ?? take(old, other => other.id === old.id) ?? { before: old }));
  return [...found, ...[...left].map(each => ({ after: each }))];
}

/** Which of the two is before: of one record the earlier, as recompiles follow; one of another record is before. */
export function inOrder({ compiles }: RecordData, own: CompileData, other: CompileData): Required<CompilePair> {
  const isLater = compiles.indexOf(other) > compiles.indexOf(own);
  return isLater ? { before: own, after: other } : { before: other, after: own };
}

/** `files` name the files of each side. */
export function stagePairs({ before, after }: CompilePair, files: readonly [FileNames, FileNames]): StagePair[] {
  const [old, fresh] = [keyed(before), keyed(after)];
  const ids = merged([...old.keys()], [...fresh.keys()]);
  return ids.map(id => {
    const [first, second] = [old.get(id), fresh.get(id)];
    const shown = (second ?? first) as StageData;
    return { id, name: first && second && first.name !== second.name ? `${first.name} → ${second.name}` : shown.name,
      half: halfName((after ?? before) as CompileData, shown.half ?? ""), before: first, after: second,
      state: stateOf(before, first, after, second, files) };
  });
}

/** What stock calls the stages that do the work of ours. */
const ROLES: { readonly [name: string]: string } =
  { joint: "trace", schedule: "dependencies", bytecode: "decode", "rewritten bytecode": "link" };

/** Stages by what they do, so that those of two compilers stand beside each other. */
function keyed(compile: CompileData | undefined): Map<string, StageData> {
  const found = new Map<string, StageData>();
  for (const stage of compile?.stages ?? []) {
    const plain = phrase([own(ROLES, stage.name) ?? stage.name,
      halfName(compile as CompileData, stage.half ?? "").replace("inference", "")], ", ");
    let id = plain;
    for (let n = 2; found.has(id); n++) id = `${plain} #${n}`;
    found.set(id, stage);
  }
  return found;
}

/** Both lists in one, each in its order. */
function merged(one: readonly string[], other: readonly string[]): string[] {
  const found: string[] = [];
  let next = 0;
  for (const id of one) {
    const at = other.indexOf(id);
    if (at >= next) {
      found.push(...other.slice(next, at).filter(each => !one.includes(each)));
      next = at + 1;
    }
    found.push(id);
  }
  return [...found, ...other.slice(next).filter(each => !one.includes(each))];
}

function stateOf(old: CompileData | undefined, before: StageData | undefined, fresh: CompileData | undefined,
    after: StageData | undefined, [olds, news]: readonly [FileNames, FileNames]): PairState {
  if (!old || !before) return "only after";
  if (!fresh || !after) return "only before";
  if (before.same_as && after.same_as) return "idle";
  const [one, other] =
    [linesOf(old, before).map(([text]) => olds.inLine(text)), linesOf(fresh, after).map(([text]) => news.inLine(text))];
  if (before.error !== after.error) return "changed";
  if (old.engine !== fresh.engine) {
    const [mine, theirs] = [called(old, before), called(fresh, after)];
    return !mine || !theirs ? "other" : differing(mine, theirs)[2] ? "alike" : "changed";
  }
  if (one.length === other.length && one.every((text, n) => text === other[n])) return "same";
  return renamedDiff(one, other).alike ? "renamed" : "changed";
}

export function linesOf(compile: CompileData, stage: StageData): readonly LineData[] {
  return artifact(compile, stage).body?.lines ?? [];
}

/** The operations of a stage's graph; undefined where it has none. */
function called(compile: CompileData, stage: StageData | undefined): string[] | undefined {
  const graph = stage && artifact(compile, stage).graph;
  return graph ? callsIn(graph).map(each => shortTarget(each.target)) : undefined;
}

/** How many each has, with those that the other lacks; and whether both have the same. */
function differing(one: readonly string[], other: readonly string[]): [one: string, other: string, same: boolean] {
  const left = [...other];
  const only = one.filter(each => {
    const at = left.indexOf(each);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
  const countText = (all: readonly string[], alone: readonly string[]) =>
    `${all.length}${alone.length ? `; only here: ${alone.join(", ")}` : ""}`;
  return [countText(one, only), countText(other, left), !only.length && !left.length];
}

/** What two compilers made of one function. */
function ofEngines(old: CompileData, fresh: CompileData): ChangedFact[] {
  const row = (name: string, of: (compile: CompileData) => readonly string[]): ChangedFact =>
    [name, ...differing(of(old), of(fresh))].slice(0, 3) as unknown as ChangedFact;
  const graph = (name: string) => (compile: CompileData) => called(compile,
    compile.stages?.find(each => (own(ROLES, each.name) ?? each.name) === name && artifact(compile, each).graph)) ?? [];
  const groups = (kind: string) => (compile: CompileData) => (compile.halves ?? []).flatMap(half => {
    const origins = new Map(half.operations?.map(each => [each.id, each.origins]));
    return (half.schedule?.items ?? []).filter(each => (each.kind === "extern") === (kind === "extern"))
      .map(each => [...new Set(each.operations.flatMap(id => origins.get(id) ?? []).map(operator))].sort().join(" + "));
  });
  const guarded = (compile: CompileData) =>
    [...new Set(
      (compile.guards ?? [])
        .filter(each => each.source.startsWith("L[") && each.property !== "value" && each.property !== "alias")
    .map(each => `${each.property} ${each.source.replace(/^L\['(\w+)'\]/, "$1")}`))];
  return [
    row("operations captured", graph("capture")), row("ATen operations", graph("trace")),
    row("library calls", groups("extern")),
    row("kernels, by their operations", groups("kernel")), row("guards on the program's values", guarded),
  ];
}

const PEAK = "peak of the memory plan";

function peaks(halves: readonly HalfData[] = []): string {
  return halves.flatMap(each => (each.memory ? [bytes(each.memory.peak_after)] : [])).join(", ") || "unknown";
}

export type ChangedFact = readonly [name: string, before: string, after: string];

/** What two compiles of one record amount to: what each phase made, then numbers. */
function ofCompiles(record: RecordData, ...pair: readonly [CompileData, CompileData]): ChangedFact[] {
  const facts: { readonly [name: string]: (of: CompileData) => string } = {
    "compiled again because": each => recompileCause(record, each)
      || (each.recompiles ?? []).map(each => each.words || each.why).join("; "),
    ...Object.fromEntries(
      PHASES.map(([name]) => [name, (of: CompileData) => phases(of).find(each => each.name === name)?.made ?? ""])),
    breaks: each => `${each.breaks?.length ?? 0}`, guards: each => `${each.guards?.length ?? 0}`,
    [PEAK]: each => peaks(each.halves), compile: each => seconds(each.seconds),
  };
  return Object.entries(facts).map(([name, of]) => [name, of(pair[0]), of(pair[1])]);
}

/** What two records amount to: the answers at a glance, then settings and numbers. `engines`: of these alone, where one
 * engine of each is compared with another. Of two compiles of one record, what each of them is. */
export function facts(before: RecordData, after: RecordData, engines?: readonly (string | undefined)[],
    pair?: CompilePair): ChangedFact[] {
  if (before === after && pair?.before && pair.after && !engines) return ofCompiles(before, pair.before, pair.after);
  const both = (name: string, of: (record: RecordData) => string): ChangedFact => [name, of(before), of(after)];
  const halves = (record: RecordData): readonly HalfData[] => record.compiles.flatMap(each => each.halves ?? []);
  const contestants =
    [...new Set([...(before.timing?.contestants ?? []), ...(after.timing?.contestants ?? [])].map(each => each.name))];
  const timed = (name: string, written: (found: SamplesData) => string) => (record: RecordData) => {
    const found = record.timing?.contestants.find(each => each.name === name);
    return found ? written(found) : "not timed";
  };
  const settings = [...new Set([...Object.keys(before.config), ...Object.keys(after.config)])].filter(
    name => before.config[name] !== after.config[name]);
  const versions = [...new Set([...Object.keys(before.environment), ...Object.keys(after.environment)])].filter(
    name => before.environment[name] !== after.environment[name]);
  const parts =
    [before, after].map(({ glance = [] }, n) =>
      glance.filter(each => !engines || !each.engine || each.engine === (engines[n] ?? "explorer")));
  const named = (part: PartData) => phrase([part.what, !engines && part.engine], " of ");
  const signedText = (name: string) =>
    parts.map(each => each.filter(part => named(part) === name).map(signed).join("; "));
  return [
    ...(engines && pair?.before && pair.after ? ofEngines(pair.before, pair.after) : []),
    ...[...new Set(parts.flat().map(named))].map(name => [name, ...signedText(name)] as unknown as ChangedFact),
    both("engine", record => record.engine), both("target", record => record.target),
    ...settings.map(name => both(`setting ${name}`, record => record.config[name] ?? "absent")),
    ...versions.map(name => both(name, record => record.environment[name] ?? "absent")),
    both("compiles", record => grouped(record.compiles.length)),
    both(PEAK, record => peaks(halves(record))),
    ...contestants.flatMap(name => [
      both(`a call of ${name}`, timed(name, withQuartiles)),
      both(`peak memory of ${name}`,
        timed(name, each => (typeof each.peak === "number" ? bytes(each.peak) : "unknown"))),
    ]),
  ];
}
