// What there is to say of a compile's stages, and which pane shows each best.

import { count, phrase } from "./format";
import { entry, sum } from "./collections";
import type { CompileData, GraphData, LineData, NodeData, RecordData, StageData } from "./record";

export type Sign = "added" | "removed" | "changed";
export type SignCounts = { readonly [sign in Sign]: number };

/** A node, and its call as the stage's text prints it; "" where it does not. */
export interface NodeCall {
  readonly data: NodeData;
  readonly call: string;
}

/** The stage whose artifact a stage shows: itself, or the earlier one that it left as it was. */
export function artifact(compile: CompileData, stage: StageData): StageData {
  const stages = compile.stages ?? [];
  return entry(artifacts, stages, () => artifactsOf(stages)).get(stage) ?? stage;
}

const artifacts = new WeakMap<readonly StageData[], ReadonlyMap<StageData, StageData>>();

/** Of earlier ones alone: a record may name stages in a circle. */
function artifactsOf(stages: readonly StageData[]): Map<StageData, StageData> {
  const [found, named] = [new Map<StageData, StageData>(), new Map<string, StageData>()];
  for (const stage of stages) {
    const shown = (stage.same_as && named.get(stage.same_as)) || stage;
    found.set(stage, shown);
    if (!named.has(stage.id)) named.set(stage.id, shown);
  }
  return found;
}

/** The graph that a stage was given, where the stage before it in the same half made one of the same level. */
export function stageBefore(compile: CompileData, stage: StageData): StageData | undefined {
  const before = compile.stages?.[compile.stages.indexOf(stage) - 1];
  if (!before || !stage.graph) return undefined;
  const made = artifact(compile, before);
  return made.graph && level(made.graph) === level(stage.graph) ? made : undefined;
}

/** How many nodes a pass changed; undefined where the stage did not start from a graph. */
export function passCounts(compile: CompileData, stage: StageData): SignCounts | undefined {
  const before = stageBefore(compile, stage);
  return before && countsOf(changesOf(nodesOf(before), nodesOf(stage)).values());
}

/** What a pass did to each node; nodes that it left alone are absent. */
export function changesOf<Id>(before: ReadonlyMap<Id, NodeCall>, after: ReadonlyMap<Id, NodeCall>): Map<Id, Sign> {
  const changes = new Map<Id, Sign>();
  for (const [id, node] of after) {
    const old = before.get(id);
    if (!old) changes.set(id, "added");
    else if (written(old) !== written(node)) changes.set(id, "changed");
  }
  for (const id of before.keys()) if (!after.has(id)) changes.set(id, "removed");
  return changes;
}

export function countsOf(signs: Iterable<Sign>): SignCounts {
  const counts = { added: 0, removed: 0, changed: 0 };
  for (const sign of signs) counts[sign]++;
  return counts;
}

/** "+1 −2 ~3"; "" where nothing changed. */
export const countsText = ({ added, removed, changed }: SignCounts): string =>
  phrase([added && `+${added}`, removed && `−${removed}`, changed && `~${changed}`], " ");

/** "1 added, 2 removed, 3 changed". */
export const countsPhrase = ({ added, removed, changed }: SignCounts): string =>
  phrase([added && `${added} added`, removed && `${removed} removed`, changed && `${changed} changed`], ", ")
    || "nothing changed";

const written = ({ data, call }: NodeCall): string =>
  JSON.stringify([data.op, data.target, data.type, data.inputs, data.about ?? "", call]);

function nodesOf({ graph, body }: StageData): Map<string, NodeCall> {
  const calls = callsOf(body?.lines ?? []);
  const keys = keysOf(graph?.nodes ?? []);
  return new Map((graph?.nodes ?? []).map((data, n) => [keys[n]!, { data, call: calls.get(data.id) ?? "" }]));
}

/** Node ids, made unique: where a record gives an id twice, the second reads "ID (2)". */
export function keysOf(nodes: readonly NodeData[]): string[] {
  const taken = new Set<string>();
  return nodes.map(({ id }) => {
    let key = id;
    for (let n = 2; taken.has(key); n++) key = `${id} (${n})`;
    taken.add(key);
    return key;
  });
}

/** The call of each node in a graph's text, whose lines read "  NAME: TYPE = CALL  # ASIDE". */
export function callsOf(lines: readonly LineData[]): Map<string, string> {
  const calls = new Map<string, string>();
  for (const [text, id] of lines) {
    const start = text.indexOf(" = ");
    if (!id || start < 0 || calls.has(id)) continue;
    const aside = text.lastIndexOf("  # ");
    calls.set(id, text.slice(start + 3, aside > start ? aside : undefined));
  }
  return calls;
}

/** "fx" or "aten": graphs of different levels share no nodes. */
export const level = (graph: GraphData | null | undefined): string => graph?.nodes[0]?.id.split(".")[0] ?? "";

const FITTING: readonly (readonly [pane: string, stages: readonly string[]])[] = [
  ["bytecode", ["decode"]],
  ["graphs", ["capture", "trace", "partition"]],
  ["schedule", ["lower", "dependencies", "fuse", "separate", "order"]],
  ["memory", ["plan memory"]],
  ["code", ["generate", "build"]],
  ["guards", ["link"]],
];

/** The pane that shows a stage best: by its name, or else by what it made. */
export function fittingPane(stage: StageData): string {
  const named = FITTING.find(([, stages]) => stages.includes(stage.name))?.[0];
  return named ?? (stage.graph || stage.same_as ? "graphs" : "text");
}

/** What a compile does, in the order in which it does it, and which stages are part of it. */
export const PHASES: readonly (readonly [name: string, stages: RegExp])[] = [
  ["Python", /^decode/], ["Graph", /^(capture|dynamo)/], ["Autograd", /^(trace|joint|partition)/],
  ["Loops", /^(lower|dependencies|inductor|post-grad)/], ["Fusion", /^(schedule|fuse|separate|order|plan memory)/],
  ["Code", /^(generate|build|rejoin|link|verify)/],
];

export interface Phase {
  readonly name: string;
  /** What it made: "7 operations". */
  readonly made: string;
  readonly stages: readonly StageData[];
}

/** What each stage took, without the stages inside it: deeper ones that begin before it ends. */
export function ownSeconds(stages: readonly StageData[]): ReadonlyMap<StageData, number> {
  return entry(ownTimes, stages, () => {
    const own = new Map(stages.map(each => [each, each.seconds]));
    let open: StageData[] = [];
    for (const stage of [...stages].sort((a, b) => a.started - b.started || a.depth - b.depth)) {
      open = open.filter(each => stage.started < each.started + each.seconds);
      const inner = open.filter(each => each.depth < stage.depth)
        .reduce<StageData | null>((found, each) => (found && found.depth > each.depth ? found : each), null);
      if (inner) own.set(inner, Math.max(0, own.get(inner)! - stage.seconds));
      open.push(stage);
    }
    return own;
  });
}

const ownTimes = new WeakMap<readonly StageData[], ReadonlyMap<StageData, number>>();

/** The stages by phase; one that is in none belongs to the phase of the stage before it. */
export function phases(compile: CompileData): Phase[] {
  const found = new Map<string, StageData[]>(PHASES.map(([name]) => [name, []]));
  let now = PHASES[0]![0];
  for (const stage of compile.stages ?? []) {
    now = PHASES.find(([, stages]) => stages.test(stage.name))?.[0] ?? now;
    found.get(now)!.push(stage);
  }
  return [...found].filter(([, stages]) => stages.length > 0)
    .map(([name, stages]) => ({ name, stages, made: madeIn(compile, name, stages) }));
}

/** What runs an operator, a method or a module; not what takes a result out of a tuple of several. */
export function callsIn(graph: GraphData | null | undefined): readonly NodeData[] {
  const nodes = graph?.nodes ?? [];
  const several = new Set(nodes.filter(node => node.type.startsWith("(")).map(node => node.id));
  return nodes.filter(node => node.op.startsWith("call")
    && !(node.target === "operator.getitem" && node.inputs.some(id => several.has(id))));
}

function madeIn({ codes, halves = [] }: CompileData, phase: string, stages: readonly StageData[]): string {
  const items = halves.flatMap(half => half.schedule?.items ?? []);
  const kernels = sum(halves, half => half.kernels?.length ?? 0);
  const [of, one] = {
    Python: [codes?.find(code => code.role === "original")?.instructions.length ?? 0, "instruction"],
    Graph: [callsIn(stages.find(stage => stage.graph)?.graph).length, "operation"],
    Autograd: [callsIn([...stages].reverse().find(stage => stage.graph)?.graph).length, "ATen call"],
    Loops: [sum(halves, half => half.operations?.length ?? 0), "operation"],
    Code: [kernels, "kernel"],
  }[phase] as [number, string] | undefined ?? [0, ""];
  if (phase === "Fusion")
    return phrase(
      [kernels && count(kernels, "kernel"), items.length > kernels && count(items.length - kernels, "call")], " + ");
  return of ? count(of, one) : "";
}

/** Why a function was recompiled: the failed guard of the compile before, or another. */
export function recompileCause({ history }: RecordData, { id }: CompileData): string {
  const changes = history?.find(row => row.made?.includes(id))?.changes ?? [];
  return (changes.find(({ of = "" }) => id.startsWith(`${of.split(".")[0]}.`)) ?? changes[0])?.said ?? "";
}

/** What a person calls a compile: its number, and the function's name. */
export function compileName({ id, called, title }: CompileData): string {
  return `${id} ${called || title}`;
}

/** The half of a stage as a word: "forward" of "f0_1_forward", or "" where there is but one. */
export function halfName(compile: CompileData, half: string): string {
  const { length } = compile.id;
  return half.slice(0, length).replaceAll("_", ".") === compile.id ? half.slice(length + 1) : "";
}

/** What holds what happened between compiles is called so. */
export const OUTSIDE = "outside any compile";

export interface Branch {
  readonly compile: CompileData;
  /** The titles of the breaks that led here. */
  readonly breaks: readonly string[];
  readonly children: readonly Branch[];
  readonly relation: "frame" | "continuation" | "recompile";
}

/** The compiles as a tree: continuations under the compile that breaks, recompiles under the first of their frame. What
 * happened outside any comes last. */
export function compileTree(compiles: readonly CompileData[]): Branch[] {
  const ids = new Set(compiles.map(each => each.id));
  const first = continued(compiles);
  const parent = (compile: CompileData): string | undefined => {
    const frame = compile.id.replace(/\.\d+$/, "");
    if (frame !== compile.id && ids.has(frame)) return frame;
    if (compile.continues && ids.has(compile.continues)) return compile.continues;
    return first.get(compile.title)?.find(each => each !== compile)?.id;
  };
  const parents = new Map(compiles.map(each => [each.id, parent(each)]));
  const reaches = (from: string | undefined, id: string, steps = compiles.length): boolean =>
    from !== undefined && (from === id || (steps > 0 && reaches(parents.get(from), id, steps - 1)));
  for (const each of compiles) if (reaches(parents.get(each.id), each.id)) parents.set(each.id, undefined);
  const byId = new Map(compiles.map(each => [each.id, each]));
  const below = new Map<string | undefined, CompileData[]>();
  for (const each of byId.values()) entry(below, parents.get(each.id), () => []).push(each);
  const branch = (compile: CompileData): Branch => {
    const above = byId.get(parents.get(compile.id) ?? "");
    const recompiled = above !== undefined && compile.id.startsWith(`${above.id}.`);
    return {
      compile,
      breaks: above && !recompiled ? breaksInto(above, compile) : [],
      relation: above === undefined ? "frame" : recompiled ? "recompile" : "continuation",
      children: (below.get(compile.id) ?? []).map(branch),
    };
  };
  const outside = ({ compile: { title } }: Branch) => Number(title === OUTSIDE);
  return (below.get(undefined) ?? []).map(branch).sort((a, b) => outside(a) - outside(b));
}

/** The first two compiles whose breaks go on in each function, by its name. */
function continued(compiles: readonly CompileData[]): Map<string, CompileData[]> {
  const found = new Map<string, CompileData[]>();
  for (const compile of compiles) {
    for (const name of new Set((compile.breaks ?? []).flatMap(each => (each.continuation ?? "").split(", ")))) {
      const from = entry(found, name, () => []);
      if (from.length < 2) from.push(compile);
    }
  }
  return found;
}

function breaksInto(from: CompileData, to: CompileData): string[] {
  const name = to.title;
  return (from.breaks ?? []).filter(each => (each.continuation ?? "").split(", ").includes(name))
    .map(each => each.why.title);
}

/** The compile of a function or continuation, as those with the ids `from` name it: two files may share a name. */
export function compileCalled(compiles: readonly CompileData[], name: string,
    ...from: readonly string[]): CompileData | undefined {
  const all = compiles.filter(each => each.title === name);
  return all.find(({ id, continues = "" }) => from.includes(id) || from.includes(continues)) ?? all[0];
}

/** Why a compile has none of what a pane shows. */
export function whyNone(what: string, compile: CompileData | undefined): string {
  const failed = compile?.stages?.find(each => each.error);
  const why = !compile ? "nothing was compiled"
    : failed ? `the stage “${failed.name}” failed: ${failed.error}`
    : compile.error ? `the compile failed (${compile.error.split("\n", 1)[0]}); Breaks has the whole message`
    : compile.fallback ? `this runs eagerly: ${compile.fallback.title}`
    : compile.stages?.some(({ graph }) => graph?.nodes.some(each => each.op.startsWith("call")))
      ? "it is not in this record"
    : compile.breaks?.length ? "the graph breaks before there is anything to compile; Breaks says where"
    : "nothing here runs tensor operations, or it is still being compiled";
  return `There is no ${what}: ${why}.`;
}
